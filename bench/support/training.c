/* training.c - see training.h. */
#include "support/training.h"

#include <stdlib.h>

#include "support/die.h"
#include "support/sample.h"
#include "util/machine.h"

double (*training_clock)(void) = gf_clock;

const char *training_precision(const training_case *c) { return c->precision == GF_BF16 ? "bf16" : "fp32"; }

void *training_take(size_t count, size_t each) {
    void *p = calloc(count, each);
    if (!p) die("no memory for a training step");
    return p;
}

void training_fine(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) die("%s", err->text);
}

void training_begin(training *t, const training_case *c, glofnd_pairing pairing, int64_t dim, int threads) {
    const glofnd_store_spec spec = {.size = sizeof spec, .n = c->batch};
    glofnd_options o;
    char why[256];
    gf_method_options_init(&o);
    if (glofnd_options_set(&o, "detector", "glofnd", why, sizeof why) != GLOFND_OK) die("%s", why);
    o.lambda_init = GLOFND_INIT_ONE, o.pairing = pairing, o.threads = threads;
    expect_ok(NULL, glofnd_ctx_create(&o, &t->ctx, NULL, 0), "context");
    expect_ok(t->ctx, glofnd_store_create(t->ctx, &spec, &t->store), "store");
    expect_ok(t->ctx, glofnd_ctx_reserve(t->ctx, c->batch, c->batch, dim, NULL), "workspace");
    t->batch = c->batch, t->dim = dim;
    t->grad[0] = training_take((size_t)(2 * t->batch * dim), sizeof(float));
    t->grad[1] = t->grad[0] + t->batch * dim;
    t->id = training_take((size_t)t->batch, sizeof *t->id);
    for (int64_t i = 0; i < t->batch; i++) t->id[i] = i;
}

void training_draw(training *t, int64_t images, int size, uint64_t *state) {
    const size_t pixels = (size_t)images * (size_t)size * (size_t)size * 3;
    t->x = training_take(pixels, sizeof(float));
    for (size_t i = 0; i < pixels; i++) t->x[i] = (float)(sample_random(state) >> 40) * 0x1p-24f;
}

void training_loss(training *t, const float *a, const float *b) {
    glofnd_stats stats = {.size = sizeof stats};
    const glofnd_batch q = {.size = sizeof q, .n = t->batch, .dim = t->dim, .a = a, .b = b, .id = t->id, .epoch = 1000};
    expect_ok(t->ctx, glofnd_step(t->ctx, t->store, &q, t->grad[0], t->grad[1], &stats), "loss");
    t->loss = (float)stats.loss;
}

void training_end(training *t) {
    glofnd_store_free(t->store);
    glofnd_ctx_free(t->ctx);
    free(t->x), free(t->grad[0]), free(t->id);
    free(t);
}
