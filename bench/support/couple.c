/* couple.c - see couple.h. */
#include "support/couple.h"

#include <stdlib.h>
#include <string.h>

#include "optim/param.h"
#include "support/die.h"
#include "support/machine.h"
#include "support/sample.h"

enum { SIZE = 224, CONTEXT = 77, VOCAB = 49408, WORDS = 12 };

const char *const couple_part_names[COUPLE_PARTS] = {"image", "text", "loss", "optimizer"};

static void *take(size_t count, size_t each) {
    void *p = calloc(count, each);
    if (!p) die("no memory for a training step");
    return p;
}

static void fine(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) die("%s", err->text);
}

/* ---- making ---- */

static void make_nets(couple *t, const couple_case *c, int threads) {
    gf_error err = {""};
    gf_net_spec spec = {.arch = GF_ARCH_VIT, .batch = c->batch, .size = SIZE, .embed_dim = 512, .width = 768, .layers = 12,
                        .heads = 12, .patch = 32, .quick_gelu = 1, .precision = c->precision, .training = 1, .seed = 1,
                        .threads = threads};
    if (strcmp(c->image, "rn50") == 0)
        spec.arch = GF_ARCH_CLIP_RESNET50, spec.embed_dim = 1024, spec.width = spec.layers = spec.heads = spec.patch = 0;
    t->dim = spec.embed_dim;
    fine(gf_net_create(&err, &spec, &t->net[0]), &err);
    const gf_net_spec text = {.arch = GF_ARCH_TEXT, .batch = c->batch, .embed_dim = spec.embed_dim, .width = 512, .layers = 12,
                              .heads = 8, .context = CONTEXT, .vocab = VOCAB, .quick_gelu = 1, .precision = c->precision,
                              .training = 1, .seed = 1, .threads = threads, .beside = t->net[0]};
    fine(gf_net_create(&err, &text, &t->net[1]), &err);
}

static void make_loss(couple *t, int threads) {
    glofnd_options o;
    char why[256];
    expect_ok(NULL, glofnd_options_init(&o, sizeof o), "options");
    if (glofnd_options_set(&o, "detector", "glofnd", why, sizeof why) != GLOFND_OK) die("%s", why);
    o.loss = GLOFND_LOSS_SOGCLR2, o.threads = threads;
    expect_ok(NULL, glofnd_ctx_create(&o, &t->ctx), "context");
    const glofnd_store_spec spec = {.size = sizeof spec, .n = t->batch, .modalities = 2};
    expect_ok(t->ctx, glofnd_store_create(t->ctx, &spec, &t->store), "store");
    expect_ok(t->ctx, glofnd_ctx_reserve(t->ctx, t->batch, t->batch, t->dim, NULL), "workspace");
    for (int k = 0; k < 2; k++) t->grad[k] = take((size_t)(t->batch * t->dim), sizeof(float));
}

/* The parameters of net k at list + n; how many there are then. */
static int list_params(couple *t, int k, gf_param *list, int n) {
    gf_tensor *tensor;
    const int count = gf_net_tensors(t->net[k], &tensor);
    float *first = gf_net_state(t->net[k]), *second = gf_net_state(t->net[k]);
    if (!first || !second) die("no memory for the optimizer");
    for (int i = 0; i < count && tensor[i].grad; i++, n++) {
        const gf_tensor *x = &tensor[i];
        list[n] = (gf_param){.p = x->value, .g = x->grad, .n = (size_t)x->stored, .decay = gf_param_decays(x->rank, x->name),
                             .state1 = gf_net_place(t->net[k], first, x), .state2 = gf_net_place(t->net[k], second, x)};
    }
    return n;
}

static void make_optimizer(couple *t, int threads) {
    gf_error err = {""};
    gf_tensor *ignored;
    const gf_optim_rule rule = {.kind = GF_OPTIM_ADAMW, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-6,
                                .threads = threads};
    gf_param *list = take((size_t)(gf_net_tensors(t->net[0], &ignored) + gf_net_tensors(t->net[1], &ignored)), sizeof *list);
    const int count = list_params(t, 1, list, list_params(t, 0, list, 0));
    fine(gf_optim_create(&err, gf_net_backend(t->net[0]), gf_net_engine(t->net[0]), &rule, list, count, &t->optim), &err);
    free(list);
}

/* Captions of WORDS words each, as long as the context on the way through the net. */
static void load_texts(couple *t, uint64_t *state) {
    gf_error err = {""};
    int32_t *tokens = take((size_t)(t->batch * CONTEXT), sizeof *tokens);
    for (int64_t i = 0; i < t->batch; i++) {
        int32_t *text = tokens + i * CONTEXT;
        text[0] = VOCAB - 2, text[WORDS + 1] = VOCAB - 1;
        for (int k = 1; k <= WORDS; k++) text[k] = (int32_t)(sample_random(state) % (VOCAB - 2));
    }
    fine(gf_net_load_tokens(&err, t->net[1], tokens, 0, t->batch), &err);
    free(tokens);
}

void couple_init(couple *t, const couple_case *c, int threads) {
    const size_t pixels = (size_t)c->batch * SIZE * SIZE * 3;
    uint64_t state = 1;
    *t = (couple){.batch = c->batch};
    make_nets(t, c, threads);
    make_loss(t, threads);
    make_optimizer(t, threads);
    load_texts(t, &state);
    t->x = take(pixels, sizeof(float));
    for (size_t i = 0; i < pixels; i++) t->x[i] = (float)(sample_random(&state) >> 40) * 0x1p-24f;
    t->id = take((size_t)c->batch, sizeof *t->id);
    for (int i = 0; i < c->batch; i++) t->id[i] = i;
}

void couple_free(couple *t) {
    gf_optim_free(t->optim);
    glofnd_store_free(t->store);
    glofnd_ctx_free(t->ctx);
    for (int k = 1; k >= 0; k--) gf_net_free(t->net[k]);
    free(t->x), free(t->grad[0]), free(t->grad[1]), free(t->id);
    *t = (couple){0};
}

size_t couple_bytes(const couple *t) { return gf_net_bytes(t->net[0]) + gf_net_bytes(t->net[1]); }

/* ---- a step ---- */

static void loss_step(couple *t, const float *image, const float *text) {
    glofnd_stats stats;
    const glofnd_batch q = {.size = sizeof q, .rows = t->batch, .cols = t->batch, .dim = t->dim, .a = image, .b = text,
                            .id = t->id, .epoch = 1000};
    expect_ok(t->ctx, glofnd_step(t->ctx, t->store, &q, t->grad[0], t->grad[1], &stats), "loss");
    t->loss = (float)stats.loss;
}

static void optimizer_step(couple *t) {
    gf_error err = {""};
    fine(gf_optim_set(&err, t->optim, 1e-4, ++t->steps), &err);
    fine(gf_optim_step(&err, t->optim), &err);
    for (int k = 0; k < 2; k++) gf_net_touch(t->net[k]);
}

double couple_step(couple *t) {
    gf_error err = {""};
    double mark[7];
    const float *image, *text;
    mark[0] = seconds();
    fine(gf_net_forward(&err, t->net[0], t->x, t->batch, 1, NULL, &image), &err);
    mark[1] = seconds();
    fine(gf_net_forward(&err, t->net[1], NULL, t->batch, 1, NULL, &text), &err);
    mark[2] = seconds();
    loss_step(t, image, text);
    mark[3] = seconds();
    fine(gf_net_backward(&err, t->net[0], t->grad[0]), &err);
    mark[4] = seconds();
    fine(gf_net_backward(&err, t->net[1], t->grad[1]), &err);
    mark[5] = seconds();
    optimizer_step(t);
    mark[6] = seconds();
    t->part_ms[COUPLE_IMAGE] = 1e3 * (mark[1] - mark[0] + mark[4] - mark[3]);
    t->part_ms[COUPLE_TEXT] = 1e3 * (mark[2] - mark[1] + mark[5] - mark[4]);
    t->part_ms[COUPLE_LOSS] = 1e3 * (mark[3] - mark[2]);
    t->part_ms[COUPLE_OPTIMIZER] = 1e3 * (mark[6] - mark[5]);
    return 1e3 * (mark[6] - mark[0]);
}
