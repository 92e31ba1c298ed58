/* dnn_norm.c - batch norm over threads: blocks of rows to the kernels, their sums added in the order of the blocks.
 *
 * The blocks follow from the shape alone, so that any number of threads gives the same bits.
 */
#include <math.h>
#include <string.h>

#include "nn/cpu/dnn_blocks.h"
#include "nn/cpu/dnn_ops.h"
#include "nn/cpu/dnn_times.h"
#include "util/dtype.h"
#include "util/parallel.h"

#define STRIP 128 /* channels per task when sums are added */

static int64_t blocks(const gf_nn_norm *n) { return gf_blocks(n->rows, n->c); }

size_t gf_dnn_norm_scratch(int64_t rows, int64_t c) { return sizeof(double) * 2 * (size_t)(gf_blocks(rows, c) * c); }

/* ----- sweeps ------------------------------------------------------------------------------------------------------ */

typedef struct sweep {
    const gf_nn_norm *n;
    void (*apply)(const gf_nn_norm *n, int64_t r0, int64_t r1); /* one of the two */
    void (*sums)(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1);
} sweep;

static void sweep_block(void *arg, int64_t task, int thread) {
    (void)thread;
    const sweep *w = arg;
    const int64_t step = gf_block_rows(w->n->rows, w->n->c), r0 = task * step, r1 = gf_smaller(r0 + step, w->n->rows);
    if (w->apply) w->apply(w->n, r0, r1);
    else w->sums((double *)w->n->scratch + task * 2 * w->n->c, w->n, r0, r1);
}

static void add_strip(void *arg, int64_t task, int thread) {
    (void)thread;
    const sweep *w = arg;
    const gf_nn_norm *n = w->n;
    const int64_t from = task * STRIP, to = gf_smaller(from + STRIP, 2 * n->c), count = blocks(n);
    for (int64_t i = from; i < to; i++) n->sums[i] = 0;
    for (int64_t b = 0; b < count; b++) {
        const double *partial = (const double *)n->scratch + b * 2 * n->c;
        for (int64_t i = from; i < to; i++) n->sums[i] += partial[i];
    }
}

static void sum_all(gf_nn_engine *s, const gf_nn_norm *n, void (*sums)(double *, const gf_nn_norm *, int64_t, int64_t)) {
    sweep w = {.n = n, .sums = sums};
    const double start = gf_dnn_start();
    gf_parallel(s->threads, blocks(n), sweep_block, &w);
    gf_parallel(s->threads, gf_parts(2 * n->c, STRIP), add_strip, &w);
    gf_dnn_charge(GF_TIME_NORM, start);
}

static void apply_all(gf_nn_engine *s, const gf_nn_norm *n, void (*apply)(const gf_nn_norm *, int64_t, int64_t)) {
    sweep w = {.n = n, .apply = apply};
    const double start = gf_dnn_start();
    gf_parallel(s->threads, blocks(n), sweep_block, &w);
    gf_dnn_charge(GF_TIME_NORM, start);
}

/* ----- forward ----------------------------------------------------------------------------------------------------- */

/* The kernel sums distances to the first row, which loses nothing where the mean is far from 0; here they become plain sums. */
void gf_dnn_norm_sums(gf_nn_engine *s, const gf_nn_norm *n) {
    for (int64_t i = 0; i < n->c; i++)
        n->mean[i] = n->type == GF_TYPE_BF16 ? gf_bf16_to_float(((const uint16_t *)n->x)[i]) : ((const float *)n->x)[i];
    sum_all(s, n, s->norm->sums);
    double *sum = n->sums, *square = n->sums + n->c;
    const double rows = (double)n->rows;
    for (int64_t i = 0; i < n->c; i++) {
        const double pivot = (double)n->mean[i], s1 = sum[i], s2 = square[i];
        sum[i] = s1 + rows * pivot;
        square[i] = s2 + 2 * pivot * s1 + rows * pivot * pivot;
    }
}

static void set_line(const gf_nn_norm *n, int64_t i, double mean, double istd) {
    const double scale = (n->gamma ? (double)n->gamma[i] : 1.0) * istd;
    n->scale[i] = (float)scale;
    n->shift[i] = (float)((n->beta ? (double)n->beta[i] : 0.0) - mean * scale);
}

static float moved(float old, double now) { return (float)((1 - GF_NN_MOMENTUM) * (double)old + GF_NN_MOMENTUM * now); }

void gf_dnn_norm_finish(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    (void)s;
    for (int64_t i = 0; i < n->c; i++) {
        const double mean = n->sums[i] / count, spread = n->sums[n->c + i] / count - mean * mean;
        const double var = spread < 0 ? 0 : spread, istd = 1 / sqrt(var + GF_NN_EPS); /* NaN passes */
        n->mean[i] = (float)mean;
        n->istd[i] = (float)istd;
        set_line(n, i, mean, istd);
        n->running_mean[i] = moved(n->running_mean[i], mean);
        n->running_var[i] = moved(n->running_var[i], var * count / (count - 1));
    }
}

void gf_dnn_norm_eval(gf_nn_engine *s, const gf_nn_norm *n) {
    (void)s;
    for (int64_t i = 0; i < n->c; i++)
        set_line(n, i, (double)n->running_mean[i], 1 / sqrt((double)n->running_var[i] + GF_NN_EPS));
}

void gf_dnn_norm_apply(gf_nn_engine *s, const gf_nn_norm *n) { apply_all(s, n, s->norm->apply); }

/* ----- backward ---------------------------------------------------------------------------------------------------- */

void gf_dnn_norm_back_sums(gf_nn_engine *s, const gf_nn_norm *n) {
    sum_all(s, n, s->norm->back_sums);
    if (!n->dgamma) return;
    for (int64_t i = 0; i < n->c; i++) {
        n->dbeta[i] = (float)n->sums[i];
        n->dgamma[i] = (float)(n->sums[n->c + i] * (double)n->istd[i]);
    }
}

/* dx = scale (g - mean g - xhat mean(g xhat)), xhat = istd (x - mean) */
void gf_dnn_norm_back_finish(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    (void)s;
    for (int64_t i = 0; i < n->c; i++) {
        const double scale = (double)n->scale[i], istd = (double)n->istd[i];
        n->coef[i] = (float)(-scale * istd * istd * n->sums[n->c + i] / count);
        n->coef[n->c + i] = (float)(-scale * n->sums[i] / count);
    }
}

void gf_dnn_norm_back_apply(gf_nn_engine *s, const gf_nn_norm *n) { apply_all(s, n, s->norm->back_apply); }

/* ----- neighbours -------------------------------------------------------------------------------------------------- */

typedef struct chunk_job {
    const gf_norm_ops *ops;
    gf_type type;
    void *dst;
    const void *src;
    int64_t count, hw, c; /* cast, add: count numbers; means: images of hw positions */
} chunk_job;

static void cast_chunk(void *arg, int64_t task, int thread) {
    (void)thread;
    const chunk_job *j = arg;
    const int64_t from = task * GF_BLOCK_NUMBERS, n = gf_smaller(GF_BLOCK_NUMBERS, j->count - from);
    j->ops->cast(j->type, (char *)j->dst + (size_t)from * gf_type_bytes(j->type), (const float *)j->src + from, n);
}

static void add_chunk(void *arg, int64_t task, int thread) {
    (void)thread;
    const chunk_job *j = arg;
    const int64_t from = task * GF_BLOCK_NUMBERS, n = gf_smaller(GF_BLOCK_NUMBERS, j->count - from);
    const size_t at = (size_t)from * gf_type_bytes(j->type);
    j->ops->add(j->type, (char *)j->dst + at, (const char *)j->src + at, n);
}

static void mean_image(void *arg, int64_t task, int thread) {
    (void)thread;
    const chunk_job *j = arg;
    const size_t at = (size_t)(task * j->hw * j->c) * gf_type_bytes(j->type);
    j->ops->mean(j->type, (float *)j->dst + task * j->c, (const char *)j->src + at, j->hw, j->c);
}

static void mean_back_image(void *arg, int64_t task, int thread) {
    (void)thread;
    const chunk_job *j = arg;
    const size_t at = (size_t)(task * j->hw * j->c) * gf_type_bytes(j->type);
    j->ops->mean_back(j->type, (char *)j->dst + at, (const float *)j->src + task * j->c, j->hw, j->c);
}

void gf_dnn_cast(gf_nn_engine *s, gf_type type, void *dst, const float *src, int64_t count) {
    chunk_job j = {s->norm, type, dst, src, count, 0, 0};
    gf_parallel(s->threads, gf_parts(count, GF_BLOCK_NUMBERS), cast_chunk, &j);
}

void gf_dnn_add(gf_nn_engine *s, gf_type type, void *dst, const void *src, int64_t count) {
    chunk_job j = {s->norm, type, dst, src, count, 0, 0};
    gf_parallel(s->threads, gf_parts(count, GF_BLOCK_NUMBERS), add_chunk, &j);
}

void gf_dnn_mean(gf_nn_engine *s, gf_type type, float *y, const void *x, int64_t n, int64_t hw, int64_t c) {
    chunk_job j = {s->norm, type, y, x, 0, hw, c};
    gf_parallel(s->threads, n, mean_image, &j);
}

void gf_dnn_mean_back(gf_nn_engine *s, gf_type type, void *dx, const float *dy, int64_t n, int64_t hw, int64_t c) {
    chunk_job j = {s->norm, type, dx, dy, 0, hw, c};
    gf_parallel(s->threads, n, mean_back_image, &j);
}
