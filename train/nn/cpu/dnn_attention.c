/* dnn_attention.c - attention over threads, a task per image and head; and attention pooling, where each image has one query.
 *
 * x [n][length][3 out] is q, k, v of all heads side by side. A task takes its d columns of each into float32 scratch, where
 * the matrix product is the one of the loss (cpu/kernels/tile.h), and puts the results back. The scores, length x length, live in
 * scratch alone: `saved` [n][heads][length] is the log of the sum of exponentials of each query, from which backward makes them
 * again.
 *   s = scale q k'     p = softmax(s)     y = p v
 *   dp = dy v'     ds = p (dp - sum of dy y)     dq = scale ds k     dk = scale ds' q     dv = p' dy
 * Causal: blocks of scores that no query sees are left out.
 */
#include <math.h>

#include "nn/cpu/dnn_blocks.h"
#include "nn/cpu/dnn_rows.h"
#include "nn/cpu/kernels/net_kernels.h"
#include "util/parallel.h"

#define KEYS_MAX 4096
#define ROWS 8        /* the product wants a multiple of it */
#define STEP GF_PANEL /* rows of a block of causal scores */

typedef struct plan {           /* of one task; of the longest text, where they are packed */
    int64_t length, rows, cols; /* rows, cols: length rounded up for the two sides of a product */
    int64_t d, wide;            /* of a head; rounded up */
    float scale;
    int causal;
    size_t floats; /* of scratch, per thread */
} plan;

static plan plan_of(const gf_nn_shape *s, int64_t length) {
    const int64_t d = s->out / s->heads;
    plan p = {.length = length,
              .rows = (length + ROWS - 1) / ROWS * ROWS,
              .cols = gf_pad(length),
              .d = d,
              .wide = gf_pad(d),
              .scale = 1.0f / sqrtf((float)d),
              .causal = s->causal};
    /* scores and their gradient; q, k, v, dy and a result; a transpose; a number per row */
    p.floats = s->second ? (size_t)(2 * p.cols) : (size_t)(2 * p.rows * p.cols + 5 * p.rows * p.wide + p.wide * p.cols + p.cols);
    return p;
}

glofnd_status gf_dnn_attention_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const int64_t length = s->h * s->w;
    FAIL_IF(err, s->heads < 1 || s->out % s->heads != 0 || s->in != (s->second ? 2 : 3) * s->out, GLOFND_E_ARGUMENT,
            "attention from %lld to %lld channels in %d heads", (long long)s->in, (long long)s->out, s->heads);
    FAIL_IF(err, length < 1 || length > KEYS_MAX, GLOFND_E_UNSUPPORTED, "attention over %lld tokens: at most %d",
            (long long)length, (int)KEYS_MAX);
    sizes->scratch = sizeof(float) * plan_of(s, length).floats * (size_t)op->engine->threads;
    if (s->training) sizes->saved = sizeof(float) * (size_t)(s->n * s->heads * (s->second ? 1 : length));
    return GLOFND_OK;
}

/* ----- products ---------------------------------------------------------------------------------------------------- */

/* s [rows][cols] = a [rows][wide] t [d][cols] */
static void scores(const plan *p, const gf_tile_ops *tile, float *s, const float *a, const float *t) {
    const int64_t step = p->causal ? STEP : p->rows;
    for (int64_t r = 0; r < p->rows; r += step)
        tile->product(s + r * p->cols, (size_t)p->cols, a + r * p->wide, (size_t)p->wide, 1, t, (size_t)p->cols, GF_PANEL,
                      (int)gf_smaller(step, p->rows - r), (int)(p->causal ? gf_smaller(p->cols, r + step) : p->cols), (int)p->d,
                      0);
}

/* o [rows][wide] = s [rows][length] b [length][wide] */
static void mix(const plan *p, const gf_tile_ops *tile, float *o, const float *s, const float *b) {
    const int64_t step = p->causal ? STEP : p->rows;
    for (int64_t r = 0; r < p->rows; r += step)
        tile->product(o + r * p->wide, (size_t)p->wide, s + r * p->cols, (size_t)p->cols, 1, b, (size_t)p->wide, GF_PANEL,
                      (int)gf_smaller(step, p->rows - r), (int)p->wide,
                      (int)(p->causal ? gf_smaller(p->length, r + step) : p->length), 0);
}

/* o [rows][wide] = s' [rows][length] b [length][wide] */
static void mix_back(const plan *p, const gf_tile_ops *tile, float *o, const float *s, const float *b) {
    const int64_t step = p->causal ? STEP : p->rows;
    for (int64_t r = 0; r < p->rows; r += step) {
        const int64_t from = p->causal ? r : 0;
        tile->product(o + r * p->wide, (size_t)p->wide, s + from * p->cols + r, 1, (size_t)p->cols, b + from * p->wide,
                      (size_t)p->wide, GF_PANEL, (int)gf_smaller(step, p->rows - r), (int)p->wide, (int)(p->length - from), 0);
    }
}

/* t [d][cols] = a' */
static void transpose(const plan *p, float *t, const float *a) {
    for (int64_t r = 0; r < p->length; r += ROWS) {
        const int64_t to = gf_smaller(r + ROWS, p->length);
        for (int64_t i = 0; i < p->d; i++)
            for (int64_t k = r; k < to; k++) t[i * p->cols + k] = a[k * p->wide + i];
    }
}

/* ----- one head of one image --------------------------------------------------------------------------------------- */

typedef struct job {
    const gf_nn_shape *s;
    const gf_nn_args *a;
    const gf_row_ops *row;
    const gf_tile_ops *tile;
    plan p;
} job;

typedef struct head { /* where a task reads and writes */
    plan p;
    const char *q, *k, *v;
    char *y;
    const char *dy;
    char *dq, *dk, *dv;
    float *lse; /* NULL: not wanted */
    float *scratch;
    int64_t ld; /* of q, k, v and their gradients; y and dy have `out` */
} head;

static head head_of(const job *j, int64_t task, int thread) {
    const gf_nn_shape *s = j->s;
    const int64_t image = task / s->heads, column = task % s->heads * j->p.d;
    const int32_t *text = s->packed ? j->a->texts->first + image : NULL;
    const int64_t first = text ? text[0] : image * j->p.length;
    const size_t size = gf_type_bytes(s->type), part = size * (size_t)s->out;
    const size_t from = size * (size_t)(first * s->in + column);
    const size_t to = size * (size_t)(first * s->out + column);
    head h = {.p = text ? plan_of(s, text[1] - text[0]) : j->p,
              .ld = s->in,
              .scratch = (float *)j->a->scratch + (size_t)thread * j->p.floats};
    h.q = (const char *)j->a->x + from, h.k = h.q + part, h.v = h.k + part;
    h.y = (char *)j->a->y + to;
    h.lse = j->a->saved ? (float *)j->a->saved + first * s->heads + task % s->heads * h.p.length : NULL;
    if (!j->a->dy) return h;
    h.dy = (const char *)j->a->dy + to;
    h.dq = (char *)j->a->dx + from, h.dk = h.dq + part, h.dv = h.dk + part;
    return h;
}

typedef struct desk { /* a task's scratch, cut up */
    float *s, *ds, *q, *k, *v, *dy, *o, *t, *sums;
} desk;

static desk desk_of(const plan *p, float *at) {
    const int64_t square = p->rows * p->cols, rows = p->rows * p->wide;
    desk w = {.s = at, .ds = at + square};
    w.q = w.ds + square, w.k = w.q + rows, w.v = w.k + rows, w.dy = w.v + rows, w.o = w.dy + rows;
    w.t = w.o + rows;
    w.sums = w.t + p->wide * p->cols;
    return w;
}

static void forward_head(void *arg, int64_t task, int thread) {
    const job *j = arg;
    const head h = head_of(j, task, thread);
    const plan *p = &h.p;
    const desk w = desk_of(p, h.scratch);
    j->row->gather(w.q, p->wide, j->s->type, h.q, h.ld, p->length, p->d, p->scale);
    j->row->gather(w.k, p->wide, j->s->type, h.k, h.ld, p->length, p->d, 1.0f);
    j->row->gather(w.v, p->wide, j->s->type, h.v, h.ld, p->length, p->d, 1.0f);
    transpose(p, w.t, w.k);
    scores(p, j->tile, w.s, w.q, w.t);
    j->row->softmax(w.s, p->cols, p->length, p->length, p->causal, h.lse);
    mix(p, j->tile, w.o, w.s, w.v);
    j->row->scatter(j->s->type, h.y, j->s->out, w.o, p->wide, p->length, p->d, 1.0f);
}

static void backward_head(void *arg, int64_t task, int thread) {
    const job *j = arg;
    const gf_type type = j->s->type;
    const head h = head_of(j, task, thread);
    const plan *p = &h.p;
    const desk w = desk_of(p, h.scratch);
    j->row->gather(w.q, p->wide, type, h.q, h.ld, p->length, p->d, p->scale);
    j->row->gather(w.k, p->wide, type, h.k, h.ld, p->length, p->d, 1.0f);
    j->row->gather(w.v, p->wide, type, h.v, h.ld, p->length, p->d, 1.0f);
    j->row->gather(w.dy, p->wide, type, h.dy, j->s->out, p->length, p->d, 1.0f);
    j->row->dots(w.sums, w.dy, p->wide, type, h.y, j->s->out, p->length, p->d, 1.0f);
    transpose(p, w.t, w.k);
    scores(p, j->tile, w.s, w.q, w.t);
    transpose(p, w.t, w.v);
    scores(p, j->tile, w.ds, w.dy, w.t);
    j->row->softmax_back(w.s, w.ds, p->cols, p->length, p->length, p->causal, h.lse, w.sums);
    mix_back(p, j->tile, w.o, w.s, w.dy);
    j->row->scatter(type, h.dv, h.ld, w.o, p->wide, p->length, p->d, 1.0f);
    mix(p, j->tile, w.o, w.ds, w.k);
    j->row->scatter(type, h.dq, h.ld, w.o, p->wide, p->length, p->d, p->scale);
    mix_back(p, j->tile, w.o, w.ds, w.q); /* w.q holds the scale */
    j->row->scatter(type, h.dk, h.ld, w.o, p->wide, p->length, p->d, 1.0f);
}

/* ----- one query per image: x [n][length][2 out] = k, v; x2 = q, y and their gradients are [n][out] float32 -------------- */

typedef struct pool {
    const char *k, *v;
    const float *q, *dy;
    float *y, *s, *ds;
    size_t from; /* bytes from x, dx to k, dk */
} pool;

static pool pool_of(const job *j, int64_t task, int thread) {
    const gf_nn_shape *s = j->s;
    const int64_t image = task / s->heads, column = task % s->heads * j->p.d;
    pool o = {.from = gf_type_bytes(s->type) * (size_t)(image * j->p.length * s->in + column)};
    o.k = (const char *)j->a->x + o.from, o.v = o.k + gf_type_bytes(s->type) * (size_t)s->out;
    o.q = (const float *)j->a->x2 + task * j->p.d;
    o.y = (float *)j->a->y + task * j->p.d;
    o.dy = j->a->dy ? (const float *)j->a->dy + task * j->p.d : NULL;
    o.s = (float *)j->a->scratch + (size_t)thread * j->p.floats, o.ds = o.s + j->p.cols;
    return o;
}

static void forward_pool(void *arg, int64_t task, int thread) {
    const job *j = arg;
    const plan *p = &j->p;
    const pool o = pool_of(j, task, thread);
    j->row->dots(o.s, o.q, 0, j->s->type, o.k, j->s->in, p->length, p->d, p->scale);
    j->row->softmax(o.s, p->cols, 1, p->length, 0, j->a->saved ? (float *)j->a->saved + task : NULL);
    j->row->mix(o.y, o.s, j->s->type, o.v, j->s->in, p->length, p->d);
}

static void backward_pool(void *arg, int64_t task, int thread) {
    const job *j = arg;
    const plan *p = &j->p;
    const gf_type type = j->s->type;
    const pool o = pool_of(j, task, thread);
    char *dk = (char *)j->a->dx + o.from, *dv = dk + gf_type_bytes(type) * (size_t)j->s->out;
    float sum;
    j->row->dots(&sum, o.dy, 0, GF_TYPE_F32, o.y, 0, 1, p->d, 1.0f);
    j->row->dots(o.s, o.q, 0, type, o.k, j->s->in, p->length, p->d, p->scale);
    j->row->dots(o.ds, o.dy, 0, type, o.v, j->s->in, p->length, p->d, 1.0f);
    j->row->softmax_back(o.s, o.ds, p->cols, 1, p->length, 0, (const float *)j->a->saved + task, &sum);
    j->row->scatter(GF_TYPE_F32, o.ds, p->cols, o.ds, p->cols, 1, p->length, p->scale);
    j->row->mix((float *)j->a->dx2 + task * p->d, o.ds, type, o.k, j->s->in, p->length, p->d);
    j->row->outer(type, dk, j->s->in, o.ds, o.q, p->length, p->d);
    j->row->outer(type, dv, j->s->in, o.s, o.dy, p->length, p->d);
}

/* ----- all of them ------------------------------------------------------------------------------------------------- */

static glofnd_status run(gf_nn_op *op, const gf_nn_args *a, gf_task self, gf_task single) {
    job j = {&op->shape, a, op->engine->row, gf_cpu_kernels_get()->tile, plan_of(&op->shape, op->shape.h * op->shape.w)};
    gf_parallel(op->engine->threads, op->shape.n * op->shape.heads, op->shape.second ? single : self, &j);
    return GLOFND_OK;
}

glofnd_status gf_dnn_attention_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    gf_nn_args forward = *a;
    forward.dy = NULL;
    return run(op, &forward, forward_head, forward_pool);
}

glofnd_status gf_dnn_attention_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    return run(op, a, backward_head, backward_pool);
}
