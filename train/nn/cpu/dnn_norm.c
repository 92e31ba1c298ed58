/* dnn_norm.c - work on rows over threads: batch norm, layer norm, sums, activations, copies. Blocks of rows go to the kernels;
 * their sums are added in the order of the blocks. */
#include <math.h>
#include <string.h>

#include "nn/cpu/dnn.h"
#include "util/dtype.h"
#include "util/parallel.h"

#define STRIP 128 /* columns per task when sums are added */

size_t gf_dnn_norm_scratch(int64_t rows, int64_t c) { return sizeof(double) * 2 * (size_t)(gf_blocks(rows, c) * c); }

/* ----- batch norm -------------------------------------------------------------------------------- */

typedef struct sweep {
    const gf_nn_norm *n;
    void (*apply)(const gf_nn_norm *n, int64_t r0, int64_t r1); /* one of the two */
    void (*sums)(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1);
    int64_t step; /* rows per task */
} sweep;

static void sweep_block(void *arg, int64_t task, int thread) {
    (void)thread;
    const sweep *w = arg;
    const int64_t r0 = task * w->step, r1 = GF_MIN(r0 + w->step, w->n->rows);
    if (w->apply) w->apply(w->n, r0, r1);
    else w->sums((double *)w->n->scratch + task * 2 * w->n->c, w->n, r0, r1);
}

static void add_strip(void *arg, int64_t task, int thread) {
    (void)thread;
    const sweep *w = arg;
    const gf_nn_norm *n = w->n;
    const int64_t from = task * STRIP, to = GF_MIN(from + STRIP, 2 * n->c), count = GF_PARTS(n->rows, w->step);
    for (int64_t i = from; i < to; i++) n->sums[i] = 0;
    for (int64_t b = 0; b < count; b++) {
        const double *partial = (const double *)n->scratch + b * 2 * n->c;
        for (int64_t i = from; i < to; i++) n->sums[i] += partial[i];
    }
}

/* One of `sums`, added up over all blocks into n->sums, and `apply`. */
static void sweep_rows(const gf_nn_engine *s, sweep w) {
    const double start = gf_dnn_start();
    w.step = gf_block_rows(w.n->rows, w.n->c);
    gf_parallel(s->threads, GF_PARTS(w.n->rows, w.step), sweep_block, &w);
    if (w.sums) gf_parallel(s->threads, GF_PARTS(2 * w.n->c, STRIP), add_strip, &w);
    gf_dnn_charge(GF_TIME_NORM, start);
}

/* ----- forward ----------------------------------------------------------------------------------------------------- */

/* The kernel sums distances to the first row, which loses nothing where the mean is far from 0; here they become plain sums. */
void gf_dnn_norm_sums(gf_nn_engine *s, const gf_nn_norm *n) {
    for (int64_t i = 0; i < n->c; i++)
        n->mean[i] = n->type == GF_TYPE_BF16 ? gf_bf16_to_float(((const uint16_t *)n->x)[i]) : ((const float *)n->x)[i];
    sweep_rows(s, (sweep){n, .sums = s->norm->sums});
    double *sum = n->sums, *square = n->sums + n->c;
    const double rows = (double)n->rows;
    for (int64_t i = 0; i < n->c; i++) {
        const double pivot = (double)n->mean[i], s1 = sum[i], s2 = square[i];
        sum[i] = s1 + rows * pivot;
        square[i] = s2 + 2 * pivot * s1 + rows * pivot * pivot;
    }
}

static void set_scale_and_shift(const gf_nn_norm *n, int64_t i, double mean, double istd) {
    const double scale = (n->gamma ? (double)n->gamma[i] : 1.0) * istd;
    n->scale[i] = (float)scale;
    n->shift[i] = (float)((n->beta ? (double)n->beta[i] : 0.0) - mean * scale);
}

void gf_dnn_norm_finish(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    (void)s;
    const double stays = 1 - GF_NN_MOMENTUM; /* of running averages */
    for (int64_t i = 0; i < n->c; i++) {
        const double mean = n->sums[i] / count, spread = n->sums[n->c + i] / count - mean * mean;
        const double var = spread < 0 ? 0 : spread, istd = 1 / sqrt(var + GF_NN_EPS); /* NaN passes */
        n->mean[i] = (float)mean;
        n->istd[i] = (float)istd;
        set_scale_and_shift(n, i, mean, istd);
        n->running_mean[i] = (float)(stays * (double)n->running_mean[i] + GF_NN_MOMENTUM * mean);
        n->running_var[i] = (float)(stays * (double)n->running_var[i] + GF_NN_MOMENTUM * (var * count / (count - 1)));
    }
}

void gf_dnn_norm_eval(gf_nn_engine *s, const gf_nn_norm *n) {
    (void)s;
    for (int64_t i = 0; i < n->c; i++)
        set_scale_and_shift(n, i, (double)n->running_mean[i], 1 / sqrt((double)n->running_var[i] + GF_NN_EPS));
}

void gf_dnn_norm_apply(gf_nn_engine *s, const gf_nn_norm *n) { sweep_rows(s, (sweep){n, .apply = s->norm->apply}); }

/* ----- backward ---------------------------------------------------------------------------------------------------- */

void gf_dnn_norm_back_sums(gf_nn_engine *s, const gf_nn_norm *n) {
    sweep_rows(s, (sweep){n, .sums = s->norm->back_sums});
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

void gf_dnn_norm_back_apply(gf_nn_engine *s, const gf_nn_norm *n) { sweep_rows(s, (sweep){n, .apply = s->norm->back_apply}); }

/* ----- casts, sums and means ----- */

typedef struct number_job { /* count numbers; means: images of hw positions and c channels */
    const gf_norm_ops *ops;
    gf_type type;
    int back; /* cast, mean: 0; add, mean_back: 1 */
    void *dst;
    const void *src;
    int64_t count, hw, c;
} number_job;

static void cast_or_add(void *arg, int64_t task, int thread) {
    (void)thread;
    const number_job *j = arg;
    const int64_t from = task * GF_BLOCK_NUMBERS, n = GF_MIN(GF_BLOCK_NUMBERS, j->count - from);
    const size_t at = (size_t)from * gf_type_bytes[j->type];
    if (j->back) j->ops->add(j->type, (char *)j->dst + at, (const char *)j->src + at, n);
    else j->ops->cast(j->type, (char *)j->dst + at, (const float *)j->src + from, n);
}

static void mean_of_image(void *arg, int64_t image, int thread) {
    (void)thread;
    const number_job *j = arg;
    const size_t at = (size_t)(image * j->hw * j->c) * gf_type_bytes[j->type];
    if (j->back) j->ops->mean_back(j->type, (char *)j->dst + at, (const float *)j->src + image * j->c, j->hw, j->c);
    else j->ops->mean(j->type, (float *)j->dst + image * j->c, (const char *)j->src + at, j->hw, j->c);
}

void gf_dnn_cast(gf_nn_engine *s, gf_type type, void *dst, const float *src, int64_t count) {
    number_job j = {s->norm, type, 0, dst, src, count, 0, 0};
    gf_parallel(s->threads, GF_PARTS(count, GF_BLOCK_NUMBERS), cast_or_add, &j);
}

void gf_dnn_add(gf_nn_engine *s, gf_type type, void *dst, const void *src, int64_t count) {
    number_job j = {s->norm, type, 1, dst, src, count, 0, 0};
    gf_parallel(s->threads, GF_PARTS(count, GF_BLOCK_NUMBERS), cast_or_add, &j);
}

void gf_dnn_mean(gf_nn_engine *s, gf_type type, float *y, const void *x, int64_t n, int64_t hw, int64_t c) {
    number_job j = {s->norm, type, 0, y, x, 0, hw, c};
    gf_parallel(s->threads, n, mean_of_image, &j);
}

void gf_dnn_mean_back(gf_nn_engine *s, gf_type type, void *dx, const float *dy, int64_t n, int64_t hw, int64_t c) {
    number_job j = {s->norm, type, 1, dx, dy, 0, hw, c};
    gf_parallel(s->threads, n, mean_of_image, &j);
}

/* ----- sums over rows of tokens ----- */

typedef struct sum_job {
    const gf_row_ops *ops;
    float *sum, *partial;
    const void *x;
    gf_type type;
    int64_t rows, c, step, count;
} sum_job;

static void add_parts(void *arg, int64_t task, int thread) {
    (void)thread;
    const sum_job *j = arg;
    const int64_t from = task * STRIP, to = GF_MIN(from + STRIP, j->c);
    double total[STRIP] = {0};
    for (int64_t b = 0; b < j->count; b++)
        for (int64_t i = from; i < to; i++) total[i - from] += (double)j->partial[b * j->step + i];
    for (int64_t i = from; i < to; i++) j->sum[i] = (float)total[i - from];
}

void gf_dnn_sum_parts(const gf_nn_engine *s, float *sum, const float *partial, int64_t step, int64_t count, int64_t c) {
    sum_job j = {.sum = sum, .partial = (float *)(uintptr_t)partial, .step = step, .count = count, .c = c};
    gf_parallel(s->threads, GF_PARTS(c, STRIP), add_parts, &j);
}

static void sum_block(void *arg, int64_t task, int thread) {
    (void)thread;
    const sum_job *j = arg;
    const int64_t step = gf_block_rows(j->rows, j->c), to = GF_MIN((task + 1) * step, j->rows);
    float *partial = j->partial + task * j->c;
    memset(partial, 0, sizeof *partial * (size_t)j->c);
    for (int64_t r = task * step; r < to; r++)
        j->ops->add_to(partial, j->type, (const char *)j->x + gf_type_bytes[j->type] * (size_t)(r * j->c), j->c);
}

void gf_dnn_sum_rows(const gf_nn_engine *s, float *sum, gf_type type, const void *x, int64_t rows, int64_t c, float *partial) {
    sum_job j = {.ops = s->row, .partial = partial, .x = x, .type = type, .rows = rows, .c = c};
    gf_parallel(s->threads, gf_blocks(rows, c), sum_block, &j);
    gf_dnn_sum_parts(s, sum, partial, c, gf_blocks(rows, c), c);
}

/* ----- activations ------------------------------------------------------------------------------------------------- */

typedef struct act_job {
    const gf_row_ops *ops;
    gf_nn_act act;
    gf_type type;
    char *y;
    const char *dy, *z;
    int64_t count;
} act_job;

static void act_chunk(void *arg, int64_t task, int thread) {
    (void)thread;
    const act_job *j = arg;
    const int64_t from = task * GF_BLOCK_NUMBERS, n = GF_MIN(GF_BLOCK_NUMBERS, j->count - from);
    const size_t at = (size_t)from * gf_type_bytes[j->type];
    if (j->dy) j->ops->act_back(j->act, j->type, j->y + at, j->dy + at, j->z + at, n);
    else j->ops->act(j->act, j->type, j->y + at, j->z + at, n);
}

void gf_dnn_act(const gf_nn_engine *s, gf_nn_act act, gf_type type, void *y, const void *z, int64_t count) {
    act_job j = {s->row, act, type, y, NULL, z, count};
    gf_parallel(s->threads, GF_PARTS(count, GF_BLOCK_NUMBERS), act_chunk, &j);
}

void gf_dnn_act_back(const gf_nn_engine *s, gf_nn_act act, gf_type type, void *g, const void *dy, const void *z, int64_t count) {
    act_job j = {s->row, act, type, g, dy, z, count};
    gf_parallel(s->threads, GF_PARTS(count, GF_BLOCK_NUMBERS), act_chunk, &j);
}

/* ----- copies ------------------------------------------------------------------------------------------------------ */

#define COPY_CHUNK ((size_t)1 << 18) /* bytes */

typedef struct copy_job {
    char *dst;
    const char *src; /* NULL: zeros */
    size_t bytes;
} copy_job;

static void copy_chunk(void *arg, int64_t task, int thread) {
    (void)thread;
    const copy_job *j = arg;
    const size_t from = (size_t)task * COPY_CHUNK, n = j->bytes - from < COPY_CHUNK ? j->bytes - from : COPY_CHUNK;
    if (j->src) memcpy(j->dst + from, j->src + from, n);
    else memset(j->dst + from, 0, n);
}

void gf_dnn_copy(const gf_nn_engine *s, void *dst, const void *src, size_t bytes) {
    copy_job j = {dst, src, bytes};
    gf_parallel(s->threads, (int64_t)((bytes + COPY_CHUNK - 1) / COPY_CHUNK), copy_chunk, &j);
}

void gf_dnn_zero(const gf_nn_engine *s, void *dst, size_t bytes) { gf_dnn_copy(s, dst, NULL, bytes); }

/* ----- layer norm ---------------------------------------------------------------------------------------------------- */

/* saved [rows][2]: mean and 1 / deviation of each row; scratch [blocks][2][c]: parts of the gradients of weight and bias. */

glofnd_status gf_dnn_layernorm_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const int64_t rows = s->n * s->h * s->w;
    FAIL_IF(err, s->in != s->out || s->in < 1, GLOFND_E_ARGUMENT, "layer norm from %lld to %lld channels", (long long)s->in,
            (long long)s->out);
    if (!s->training) return GLOFND_OK;
    sizes->saved = sizeof(float) * 2 * (size_t)rows;
    sizes->scratch = sizeof(float) * 2 * (size_t)(gf_blocks_max(rows, s->in) * s->in);
    return GLOFND_OK;
}

typedef struct layernorm_job {
    const gf_row_ops *ops;
    const gf_nn_shape *s;
    const gf_nn_args *a;
    int back;
} layernorm_job;

static void layernorm_block(void *arg, int64_t task, int thread) {
    (void)thread;
    const layernorm_job *j = arg;
    const int64_t rows = gf_nn_rows(j->s, j->a), c = j->s->in, step = gf_block_rows(rows, c), r0 = task * step;
    const int64_t r1 = GF_MIN(r0 + step, rows);
    if (j->back) j->ops->layernorm_back((float *)j->a->scratch + task * 2 * c, j->s, j->a, r0, r1);
    else j->ops->layernorm(j->s, j->a, r0, r1);
}

glofnd_status gf_dnn_layernorm_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    layernorm_job j = {op->engine->row, &op->shape, a, 0};
    gf_parallel(op->engine->threads, gf_blocks(gf_nn_rows(&op->shape, a), op->shape.in), layernorm_block, &j);
    return GLOFND_OK;
}

glofnd_status gf_dnn_layernorm_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const int64_t c = op->shape.in, blocks = gf_blocks(gf_nn_rows(&op->shape, a), c);
    const float *partial = a->scratch;
    layernorm_job j = {op->engine->row, &op->shape, a, 1};
    gf_parallel(op->engine->threads, blocks, layernorm_block, &j);
    gf_dnn_sum_parts(op->engine, a->weight_grad, partial, 2 * c, blocks, c);
    gf_dnn_sum_parts(op->engine, a->bias_grad, partial + c, 2 * c, blocks, c);
    return GLOFND_OK;
}
