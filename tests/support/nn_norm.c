/* nn_norm.c - see nn_norm.h. */
#include "support/nn_norm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util/dtype.h"

static float rounded(double x) { return gf_bf16_to_float(gf_bf16_from_float((float)x)); }

float *norm_numbers(rng *g, int64_t count, int64_t c, float apart) {
    float *x = nn_draw(g, count);
    for (int64_t i = 0; i < count; i++) x[i] = rounded(x[i] + apart * (float)(i % c % 7));
    return x;
}

gf_nn_norm norm_on_device(nn_device *d, rng *g, int64_t rows, int64_t c) {
    float *gamma = nn_draw(g, c), *beta = nn_draw(g, c), *saved = nn_take(d, 16 * (size_t)c);
    const gf_nn_norm n = {.type = GF_TYPE_BF16,
                          .rows = rows,
                          .c = c,
                          .relu = 1,
                          .gamma = nn_numbers(d, gamma, c, GF_TYPE_F32),
                          .beta = nn_numbers(d, beta, c, GF_TYPE_F32),
                          .running_mean = nn_take(d, 4 * (size_t)c),
                          .running_var = nn_take(d, 4 * (size_t)c),
                          .mean = saved,
                          .istd = saved + c,
                          .scale = saved + 2 * c,
                          .shift = saved + 3 * c,
                          .coef = nn_take(d, 8 * (size_t)c),
                          .scratch = nn_take(d, d->b->norm_scratch(rows, c)),
                          .dgamma = nn_take(d, 4 * (size_t)c),
                          .dbeta = nn_take(d, 4 * (size_t)c)};
    free(gamma), free(beta);
    return n;
}

gf_nn_norm norm_left(nn_device *d, rng *g, const float *x, const float *mean, int64_t rows, int64_t c) {
    gf_nn_norm n = norm_on_device(d, g, rows, c);
    float *istd = nn_draw(g, c), *scale = nn_draw(g, c), *shift = nn_draw(g, c);
    n.x = nn_numbers(d, x, rows * c, GF_TYPE_BF16);
    nn_send(d, n.mean, mean, 4 * (size_t)c);
    nn_send(d, n.istd, istd, 4 * (size_t)c), nn_send(d, n.scale, scale, 4 * (size_t)c);
    nn_send(d, n.shift, shift, 4 * (size_t)c);
    gf_error err = {""};
    nn_ok(d->b->wait(&err, d->s), &err);
    free(istd), free(scale), free(shift);
    return n;
}

static void within(nn_device *d, const char *what, const float *have, const double *want, int64_t count) {
    float *x = nn_floats(d, have, count, GF_TYPE_F32), *y = malloc(sizeof *y * (size_t)count);
    for (int64_t i = 0; i < count; i++) y[i] = (float)want[i];
    nn_within(what, x, y, count, NN_FP32_LIMIT);
    free(x), free(y);
}

void norm_same_bits(nn_device *d, const void *a, const void *b, size_t bytes) {
    char *x = malloc(bytes), *y = malloc(bytes);
    nn_fetch(d, x, a, bytes), nn_fetch(d, y, b, bytes);
    assert_memory_equal(x, y, bytes);
    free(x), free(y);
}

void norm_check_statistics(nn_device *d, const gf_nn_norm *n, const float *y) {
    const int64_t c = n->c;
    double *mean = calloc(4 * (size_t)c, sizeof *mean), *var = mean + c, *istd = var + c, *moved = istd + c;
    for (int64_t i = 0; i < n->rows * c; i++) mean[i % c] += (double)y[i] / (double)n->rows;
    for (int64_t i = 0; i < n->rows * c; i++) var[i % c] += (y[i] - mean[i % c]) * (y[i] - mean[i % c]) / (double)n->rows;
    for (int64_t i = 0; i < c; i++) istd[i] = 1 / sqrt(var[i] + GF_NN_EPS);
    within(d, "mean", n->mean, mean, c);
    within(d, "1 / deviation", n->istd, istd, c);
    for (int64_t i = 0; i < c; i++) moved[i] = GF_NN_MOMENTUM * mean[i];
    within(d, "running mean", n->running_mean, moved, c);
    for (int64_t i = 0; i < c; i++) moved[i] = GF_NN_MOMENTUM * var[i] * (double)n->rows / (double)(n->rows - 1);
    within(d, "running variance", n->running_var, moved, c);
    free(mean);
}

void norm_check_lines(nn_device *d, const char *what, const gf_nn_norm *n, const float *g, const float *x, const float *mean) {
    const int64_t c = n->c;
    double *sum = calloc(4 * (size_t)c, sizeof *sum), *product = sum + c, *size = product + c, *size2 = size + c;
    float *istd = nn_floats(d, n->istd, c, GF_TYPE_F32), *scale = nn_floats(d, n->scale, c, GF_TYPE_F32);
    float *dbeta = nn_floats(d, n->dbeta, c, GF_TYPE_F32), *dgamma = nn_floats(d, n->dgamma, c, GF_TYPE_F32);
    float *coef = nn_floats(d, n->coef, 2 * c, GF_TYPE_F32);
    for (int64_t i = 0; i < n->rows * c; i++) {
        const double t = g[i] * ((double)x[i] - mean[i % c]);
        sum[i % c] += g[i], product[i % c] += t;
        size[i % c] += fabs((double)g[i]), size2[i % c] += fabs(t);
    }
    for (int64_t i = 0; i < c; i++) {
        if (size[i] == 0) size[i] = size2[i] = 1; /* nothing passed: zeros */
        const double rows = (double)n->rows, a = -(double)scale[i] * istd[i] * istd[i] / rows, b = -(double)scale[i] / rows;
        const double off[4] = {fabs(dbeta[i] - sum[i]) / size[i],
                               fabs(dgamma[i] - istd[i] * product[i]) / fabs(istd[i] * size2[i]),
                               fabs(coef[i] - a * product[i]) / fabs(a * size2[i]),
                               fabs(coef[c + i] - b * sum[i]) / fabs(b * size[i])};
        for (int j = 0; j < 4; j++)
            if (!(off[j] <= NN_FP32_LIMIT)) fail_msg("%s: number %d of channel %d is off by %.1e", what, j, (int)i, off[j]);
    }
    free(sum), free(istd), free(scale), free(dbeta), free(dgamma), free(coef);
}
