/* unit_bf16.c - math = bf16 on the CPU: as far from float32 as the rounding, no farther; the same bits for any number of threads;
 * as many pairs flagged by FNC, whose quantiles must be of the rounded similarities. */
#include "support/test.h"

#include "method/options.h"
#include "support/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 150, DIM = 45 }; /* neither is a multiple of a panel, nor DIM of two */

typedef struct result {
    float grad[2][BATCH * DIM];
    glofnd_stats stats;
} result;

static void set(glofnd_options *o, const char *key, const char *value) {
    char why[256];
    if (glofnd_options_set(o, key, value, why, sizeof why) != GLOFND_OK) fail_msg("%s", why);
}

static void fill(float *x, uint64_t seed) {
    rng centre = {1}, r = {seed};
    static float c[10 * DIM];
    for (int i = 0; i < 10 * DIM; i++) c[i] = (float)rng_normal(&centre);
    for (int i = 0; i < BATCH * DIM; i++) x[i] = c[i / DIM % 10 * DIM + i % DIM] + 0.8f * (float)rng_normal(&r);
}

static result *run(const char *math, const char *loss, const char *detector, int threads) {
    static float a[BATCH * DIM], b[BATCH * DIM];
    static int64_t id[BATCH];
    result *out = calloc(1, sizeof *out);
    glofnd_options o;
    glofnd_ctx *ctx;
    glofnd_store *store;
    fill(a, 2), fill(b, 3);
    for (int i = 0; i < BATCH; i++) id[i] = i;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    set(&o, "math", math), set(&o, "loss", loss), set(&o, "detector", detector), set(&o, "alpha", "0.1");
    set(&o, "lambda_init", "quantile"), set(&o, "mask_epoch", "0"), set(&o, "update_epoch", "0");
    o.threads = threads;
    assert_int_equal(glofnd_ctx_create(&o, &ctx, NULL, 0), GLOFND_OK);
    const glofnd_store_spec spec = {.size = sizeof spec, .n = BATCH};
    assert_int_equal(glofnd_store_create(ctx, &spec, &store), GLOFND_OK);
    const glofnd_batch q = {.size = sizeof q, .n = BATCH, .dim = DIM, .a = a, .b = b, .id = id};
    out->stats.size = sizeof out->stats;
    for (int step = 0; step < 3; step++)
        if (glofnd_step(ctx, store, &q, out->grad[0], out->grad[1], &out->stats) != GLOFND_OK)
            fail_msg("%s", glofnd_ctx_error(ctx));
    glofnd_store_free(store), glofnd_ctx_free(ctx);
    return out;
}

/* Largest difference of the gradients, relative to the largest number. */
static double distance(const result *x, const result *y) {
    double error = 0.0, largest = 0.0;
    for (int v = 0; v < 2; v++)
        for (int i = 0; i < BATCH * DIM; i++) {
            error = fmax(error, fabs((double)x->grad[v][i] - (double)y->grad[v][i]));
            largest = fmax(largest, fabs((double)y->grad[v][i]));
        }
    return error / largest;
}

static const char *const losses[] = {"sogclr", "simclr", "clip", "sogclr2"};

TEST(errors_are_those_of_the_rounding) {
    for (size_t l = 0; l < sizeof losses / sizeof *losses; l++) {
        result *rounded = run("bf16", losses[l], "none", 1), *exact = run("exact", losses[l], "none", 1);
        const double loss = fabs(rounded->stats.loss - exact->stats.loss), grad = distance(rounded, exact);
        if (!(loss < 2e-3 && grad < 8e-3)) fail_msg("%s: loss off by %.3g, gradient by %.3g", losses[l], loss, grad);
        assert_true(grad > 1e-5); /* it was rounded */
        free(rounded), free(exact);
    }
}

TEST(threads_do_not_count) {
    static const char *const detectors[] = {"none", "glofnd", "fnc"};
    for (size_t l = 0; l < sizeof losses / sizeof *losses; l++)
        for (size_t d = 0; d < sizeof detectors / sizeof *detectors; d++) {
            result *one = run("bf16", losses[l], detectors[d], 1), *three = run("bf16", losses[l], detectors[d], 3);
            assert_memory_equal(one->grad, three->grad, sizeof one->grad);
            assert_memory_equal(&one->stats.loss, &three->stats.loss, sizeof one->stats.loss);
            if (strcmp(detectors[d], "fnc") == 0) { /* quantiles of the very similarities that they are compared with */
                result *exact = run("exact", losses[l], "fnc", 1);
                assert_int_equal(one->stats.flagged, exact->stats.flagged);
                free(exact);
            }
            free(one), free(three);
        }
}
