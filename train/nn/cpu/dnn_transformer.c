/* dnn_transformer.c - linear layers, attention, and the beginnings and the end of a sequence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/cpu/dnn.h"
#include "util/parallel.h"

/* ----- linear layers ----------------------------------------------------------------------------------------------- */

/* Linear layers as three matrix products on torch's own layouts, and what may follow the first.
 *   z [rows][in -> out] = x weight' + bias     y = act(z), or z + x2
 *   g = dy act'(z)     weight_grad = g' x     bias_grad = sum of the rows of g     dx = g weight
 * Nothing is packed but, for bf16 activations, the weights as bf16. saved: z, where there is an activation.
 * scratch: what the products want, then g, then partial sums of the bias. Layers of one shape
 * share their products; packed texts have some for each of their lengths. */

typedef struct matrix { /* rows x cols, stored row-major (ab) or as its transpose (ba) */
    int64_t rows, cols;
    dnnl_format_tag_t tag;
} matrix;

static size_t z_bytes(const gf_nn_shape *s, int64_t rows) { return gf_type_bytes[s->type] * (size_t)(rows * s->out); }

/* c = a b in `type`, with the bias and the sum of the forward product. */
static glofnd_status make_product(gf_error *err, gf_nn_op *op, matrix a, matrix b, dnnl_data_type_t type, int forward,
                                  gf_prim *out) {
    const gf_nn_shape *s = &op->shape;
    const int64_t c[2] = {a.rows, b.cols}, wide[2] = {1, b.cols};
    const int has_bias = forward && s->bias;
    gf_md ma, mb, mc, bias = NULL;
    TRY(gf_dnn_md(err, op->dnn, 2, (int64_t[]){a.rows, a.cols}, gf_dnn_type(s->type), a.tag, &ma));
    TRY(gf_dnn_md(err, op->dnn, 2, (int64_t[]){b.rows, b.cols}, gf_dnn_type(s->type), b.tag, &mb));
    TRY(gf_dnn_md(err, op->dnn, 2, c, type, dnnl_ab, &mc));
    if (has_bias) TRY(gf_dnn_md(err, op->dnn, 2, wide, dnnl_f32, dnnl_ab, &bias));
    TRY(gf_dnn_matmul(err, op->dnn, ma, mb, bias, mc, forward && s->second, out));
    TRY(gf_dnn_slot(err, op->dnn, out, DNNL_ARG_SRC, ma));
    TRY(gf_dnn_slot(err, op->dnn, out, DNNL_ARG_WEIGHTS, mb));
    TRY(gf_dnn_slot(err, op->dnn, out, DNNL_ARG_DST, mc));
    return has_bias ? gf_dnn_slot(err, op->dnn, out, DNNL_ARG_BIAS, bias) : GLOFND_OK;
}

static glofnd_status create_products(gf_error *err, gf_nn_op *op, gf_dnn_products *to) {
    const gf_nn_shape *s = &op->shape;
    TRY(make_product(err, op, (matrix){to->rows, s->in, dnnl_ab}, (matrix){s->in, s->out, s->transposed ? dnnl_ab : dnnl_ba},
                     gf_dnn_type(s->type), 1, &to->forward));
    if (s->training) {
        const int64_t rows = to->rows;
        const dnnl_data_type_t type = gf_dnn_type(s->type);
        const matrix x = {rows, s->in, dnnl_ab}, x_t = {s->in, rows, dnnl_ba};
        const matrix g = {rows, s->out, dnnl_ab}, g_t = {s->out, rows, dnnl_ba};
        TRY(s->transposed ? make_product(err, op, x_t, g, dnnl_f32, 0, &to->back_weights)
                          : make_product(err, op, g_t, x, dnnl_f32, 0, &to->back_weights));
        if (s->input_grad)
            TRY(make_product(err, op, g, (matrix){s->out, s->in, s->transposed ? dnnl_ba : dnnl_ab}, type, 0, &to->back_data));
    }
    const gf_prim *all[] = {&to->forward, &to->back_data, &to->back_weights};
    for (int i = 0; i < 3; i++)
        if (all[i]->scratch > to->scratch) to->scratch = gf_dnn_round(all[i]->scratch);
    return GLOFND_OK;
}

/* 1: layers of these two shapes have the same products. */
static int have_same_products(const gf_nn_shape *a, const gf_nn_shape *b) {
    return a->type == b->type && a->in == b->in && a->out == b->out && a->transposed == b->transposed && a->bias == b->bias &&
           a->second == b->second && a->training == b->training && a->input_grad == b->input_grad;
}

/* Those that the engine has, or new ones. */
static glofnd_status find_products(gf_error *err, gf_nn_op *op, int64_t rows, gf_dnn_products **out) {
    gf_nn_engine *e = op->engine;
    for (gf_dnn_products *p = e->products; p; p = p->next)
        if (p->rows == rows && have_same_products(&p->shape, &op->shape)) return *out = p, GLOFND_OK;
    gf_dnn_products *p = calloc(1, sizeof *p);
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "out of memory");
    p->shape = op->shape;
    p->rows = rows;
    const glofnd_status status = create_products(err, op, p);
    if (status != GLOFND_OK) {
        free(p);
        return status;
    }
    p->next = e->products;
    e->products = p;
    *out = p;
    return GLOFND_OK;
}

/* The products of this call, which for packed texts are made when texts of this length come for the first time; their weights,
 * and their scratch: the net's, which is enough for the longest texts, and nearly always for shorter ones. */
typedef struct linear_call {
    gf_dnn_products *p;
    const void *weight;
    void *scratch;
} linear_call;

static glofnd_status begin_call(gf_error *err, gf_nn_op *op, const gf_nn_args *a, linear_call *out) {
    const gf_nn_shape *s = &op->shape;
    gf_nn_engine *e = op->engine;
    gf_dnn_products **at = op->products;
    if (s->packed) at += gf_nn_text_length_number(a->texts->rows / s->n, s->h * s->w);
    if (!*at) TRY(find_products(err, op, gf_nn_rows(s, a), at));
    const size_t needed = (*at)->scratch;
    *out = (linear_call){*at, s->type == GF_TYPE_BF16 ? (const void *)a->packed : a->weight, a->scratch};
    if (needed <= op->spare) return GLOFND_OK;
    if (needed > e->spare_bytes) {
        free(e->spare);
        e->spare = aligned_alloc(GF_NN_ALIGN, needed);
        e->spare_bytes = e->spare ? needed : 0;
        FAIL_IF(err, !e->spare, GLOFND_E_MEMORY, "out of memory for a linear layer of %lld rows", (long long)(*at)->rows);
    }
    out->scratch = e->spare;
    return GLOFND_OK;
}

glofnd_status gf_dnn_linear_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const int64_t rows = s->n * s->h * s->w, max = s->h * s->w;
    const int last = s->packed ? gf_nn_text_length_number(max, max) : 0;
    FAIL_IF(err, s->act != GF_ACT_NONE && s->second, GLOFND_E_UNSUPPORTED, "a linear layer with both activation and sum");
    op->products = calloc((size_t)last + 1, sizeof *op->products);
    FAIL_IF(err, !op->products, GLOFND_E_MEMORY, "out of memory");
    TRY(find_products(err, op, rows, &op->products[last]));
    op->spare = op->products[last]->scratch;
    sizes->scratch = op->spare;
    if (s->type == GF_TYPE_BF16) sizes->packed = gf_type_bytes[s->type] * (size_t)(s->in * s->out);
    if (!s->training) return GLOFND_OK;
    if (s->act != GF_ACT_NONE) {
        sizes->saved = z_bytes(s, rows);
        sizes->scratch += gf_dnn_round(z_bytes(s, rows));
    }
    if (s->bias) sizes->scratch += sizeof(float) * (size_t)(gf_blocks_max(rows, s->out) * s->out);
    return GLOFND_OK;
}

glofnd_status gf_dnn_linear_pack(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    if (op->shape.type == GF_TYPE_BF16) gf_dnn_cast(op->engine, GF_TYPE_BF16, a->packed, a->weight, op->shape.in * op->shape.out);
    return GLOFND_OK;
}

glofnd_status gf_dnn_linear_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const int acts = s->act != GF_ACT_NONE;
    void *z = acts && s->training ? a->saved : a->y;
    const int64_t rows = gf_nn_rows(s, a);
    linear_call c;
    TRY(begin_call(err, op, a, &c));
    if (s->second) gf_dnn_copy(op->engine, a->y, a->x2, z_bytes(s, rows));
    TRY(gf_dnn_run(err, op->dnn, &c.p->forward, (const void *[]){a->x, c.weight, z, a->bias}, c.scratch));
    if (acts) gf_dnn_act(op->engine, s->act, s->type, a->y, z, rows * s->out);
    return GLOFND_OK;
}

glofnd_status gf_dnn_linear_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const int64_t rows = gf_nn_rows(s, a);
    linear_call c;
    TRY(begin_call(err, op, a, &c));
    char *after = (char *)a->scratch + op->spare;
    const void *x = a->x, *g = a->dy;
    if (s->act != GF_ACT_NONE) {
        gf_dnn_act_back(op->engine, s->act, s->type, after, a->dy, a->saved, rows * s->out);
        g = after;
        after += gf_dnn_round(z_bytes(s, rows));
    }
    if (s->bias) gf_dnn_sum_rows(op->engine, a->bias_grad, s->type, g, rows, s->out, (float *)(void *)after);
    TRY(gf_dnn_run(err, op->dnn, &c.p->back_weights,
                   (const void *[]){s->transposed ? x : g, s->transposed ? g : x, a->weight_grad}, c.scratch));
    if (!s->input_grad) return GLOFND_OK;
    return gf_dnn_run(err, op->dnn, &c.p->back_data, (const void *[]){g, c.weight, a->dx}, c.scratch);
}

/* ----- attention ----------------------------------------------------------------------------------------------------- */

/* Attention over threads, a task per image and head; and attention pooling, where each image has one query.
 *
 * x [n][length][3 out] is q, k, v of all heads side by side. A task takes its d columns of each into float32 scratch, where
 * the matrix product is the one of the loss (cpu/kernels/tile.h), and puts the results back. The scores, length x length, live in
 * scratch alone: `saved` [n][heads][length] is the log of the sum of exponentials of each query, from which backward makes them
 * again.
 *   s = scale q k'     p = softmax(s)     y = p v
 *   dp = dy v'     ds = p (dp - sum of dy y)     dq = scale ds k     dk = scale ds' q     dv = p' dy
 * Causal: blocks of scores that no query sees are left out. */

#define KEYS_MAX 4096
#define ROWS 8        /* the product wants a multiple of it */
#define STEP GF_PANEL /* rows of a block of causal scores */

typedef struct head_plan {      /* of one task; of the longest text, where they are packed */
    int64_t length, rows, cols; /* rows, cols: length rounded up for the two sides of a product */
    int64_t d, wide;            /* of a head; rounded up */
    float scale;
    int causal;
    size_t floats; /* of scratch, per thread */
} head_plan;

static head_plan plan_of(const gf_nn_shape *s, int64_t length) {
    const int64_t d = s->out / s->heads;
    head_plan p = {.length = length,
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
static void make_scores(const head_plan *p, const gf_tile_ops *tile, float *s, const float *a, const float *t) {
    const int64_t step = p->causal ? STEP : p->rows;
    for (int64_t r = 0; r < p->rows; r += step)
        tile->product(s + r * p->cols, (size_t)p->cols, a + r * p->wide, (size_t)p->wide, 1, t, (size_t)p->cols, GF_PANEL,
                      (int)GF_MIN(step, p->rows - r), (int)(p->causal ? GF_MIN(p->cols, r + step) : p->cols), (int)p->d, 0);
}

/* o [rows][wide] = s [rows][length] b [length][wide] */
static void mix_values(const head_plan *p, const gf_tile_ops *tile, float *o, const float *s, const float *b) {
    const int64_t step = p->causal ? STEP : p->rows;
    for (int64_t r = 0; r < p->rows; r += step)
        tile->product(o + r * p->wide, (size_t)p->wide, s + r * p->cols, (size_t)p->cols, 1, b, (size_t)p->wide, GF_PANEL,
                      (int)GF_MIN(step, p->rows - r), (int)p->wide, (int)(p->causal ? GF_MIN(p->length, r + step) : p->length),
                      0);
}

/* o [rows][wide] = s' [rows][length] b [length][wide] */
static void mix_back(const head_plan *p, const gf_tile_ops *tile, float *o, const float *s, const float *b) {
    const int64_t step = p->causal ? STEP : p->rows;
    for (int64_t r = 0; r < p->rows; r += step) {
        const int64_t from = p->causal ? r : 0;
        tile->product(o + r * p->wide, (size_t)p->wide, s + from * p->cols + r, 1, (size_t)p->cols, b + from * p->wide,
                      (size_t)p->wide, GF_PANEL, (int)GF_MIN(step, p->rows - r), (int)p->wide, (int)(p->length - from), 0);
    }
}

/* t [d][cols] = a' */
static void transpose(const head_plan *p, float *t, const float *a) {
    for (int64_t r = 0; r < p->length; r += ROWS) {
        const int64_t to = GF_MIN(r + ROWS, p->length);
        for (int64_t i = 0; i < p->d; i++)
            for (int64_t k = r; k < to; k++) t[i * p->cols + k] = a[k * p->wide + i];
    }
}

/* ----- one head of one image --------------------------------------------------------------------------------------- */

typedef struct attention_job {
    const gf_nn_shape *s;
    const gf_nn_args *a;
    const gf_row_ops *row;
    const gf_tile_ops *tile;
    head_plan p;
} attention_job;

typedef struct head_view { /* where a task reads and writes */
    head_plan p;
    const char *q, *k, *v;
    char *y;
    const char *dy;
    char *dq, *dk, *dv;
    float *lse; /* NULL: not wanted */
    float *scratch;
    int64_t ld; /* of q, k, v and their gradients; y and dy have `out` */
} head_view;

static head_view head_of(const attention_job *j, int64_t task, int thread) {
    const gf_nn_shape *s = j->s;
    const int64_t image = task / s->heads, column = task % s->heads * j->p.d;
    const int32_t *text = s->packed ? j->a->texts->first + image : NULL;
    const int64_t first = text ? text[0] : image * j->p.length;
    const size_t size = gf_type_bytes[s->type], part = size * (size_t)s->out;
    const size_t from = size * (size_t)(first * s->in + column);
    const size_t to = size * (size_t)(first * s->out + column);
    head_view h = {.p = text ? plan_of(s, text[1] - text[0]) : j->p,
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

typedef struct head_scratch { /* a task's scratch, cut up */
    float *s, *ds, *q, *k, *v, *dy, *o, *t, *sums;
} head_scratch;

static head_scratch head_scratch_of(const head_plan *p, float *at) {
    const int64_t square = p->rows * p->cols, rows = p->rows * p->wide;
    head_scratch w = {.s = at, .ds = at + square};
    w.q = w.ds + square, w.k = w.q + rows, w.v = w.k + rows, w.dy = w.v + rows, w.o = w.dy + rows;
    w.t = w.o + rows;
    w.sums = w.t + p->wide * p->cols;
    return w;
}

static void forward_head(void *arg, int64_t task, int thread) {
    const attention_job *j = arg;
    const head_view h = head_of(j, task, thread);
    const head_plan *p = &h.p;
    const head_scratch w = head_scratch_of(p, h.scratch);
    j->row->gather(w.q, p->wide, j->s->type, h.q, h.ld, p->length, p->d, p->scale);
    j->row->gather(w.k, p->wide, j->s->type, h.k, h.ld, p->length, p->d, 1.0f);
    j->row->gather(w.v, p->wide, j->s->type, h.v, h.ld, p->length, p->d, 1.0f);
    transpose(p, w.t, w.k);
    make_scores(p, j->tile, w.s, w.q, w.t);
    j->row->softmax(w.s, p->cols, p->length, p->length, p->causal, h.lse);
    mix_values(p, j->tile, w.o, w.s, w.v);
    j->row->scatter(j->s->type, h.y, j->s->out, w.o, p->wide, p->length, p->d, 1.0f);
}

static void backward_head(void *arg, int64_t task, int thread) {
    const attention_job *j = arg;
    const gf_type type = j->s->type;
    const head_view h = head_of(j, task, thread);
    const head_plan *p = &h.p;
    const head_scratch w = head_scratch_of(p, h.scratch);
    j->row->gather(w.q, p->wide, type, h.q, h.ld, p->length, p->d, p->scale);
    j->row->gather(w.k, p->wide, type, h.k, h.ld, p->length, p->d, 1.0f);
    j->row->gather(w.v, p->wide, type, h.v, h.ld, p->length, p->d, 1.0f);
    j->row->gather(w.dy, p->wide, type, h.dy, j->s->out, p->length, p->d, 1.0f);
    j->row->dots(w.sums, w.dy, p->wide, type, h.y, j->s->out, p->length, p->d, 1.0f);
    transpose(p, w.t, w.k);
    make_scores(p, j->tile, w.s, w.q, w.t);
    transpose(p, w.t, w.v);
    make_scores(p, j->tile, w.ds, w.dy, w.t);
    j->row->softmax_back(w.s, w.ds, p->cols, p->length, p->length, p->causal, h.lse, w.sums);
    mix_back(p, j->tile, w.o, w.s, w.dy);
    j->row->scatter(type, h.dv, h.ld, w.o, p->wide, p->length, p->d, 1.0f);
    mix_values(p, j->tile, w.o, w.ds, w.k);
    j->row->scatter(type, h.dq, h.ld, w.o, p->wide, p->length, p->d, p->scale);
    mix_back(p, j->tile, w.o, w.ds, w.q); /* w.q holds the scale */
    j->row->scatter(type, h.dk, h.ld, w.o, p->wide, p->length, p->d, 1.0f);
}

/* ----- one query per image: x [n][length][2 out] = k, v; x2 = q, y and their gradients are [n][out] float32 -------------- */

typedef struct query {
    const char *k, *v;
    const float *q, *dy;
    float *y, *s, *ds;
    size_t from; /* bytes from x, dx to k, dk */
} query;

static query query_of(const attention_job *j, int64_t task, int thread) {
    const gf_nn_shape *s = j->s;
    const int64_t image = task / s->heads, column = task % s->heads * j->p.d;
    query o = {.from = gf_type_bytes[s->type] * (size_t)(image * j->p.length * s->in + column)};
    o.k = (const char *)j->a->x + o.from, o.v = o.k + gf_type_bytes[s->type] * (size_t)s->out;
    o.q = (const float *)j->a->x2 + task * j->p.d;
    o.y = (float *)j->a->y + task * j->p.d;
    o.dy = j->a->dy ? (const float *)j->a->dy + task * j->p.d : NULL;
    o.s = (float *)j->a->scratch + (size_t)thread * j->p.floats, o.ds = o.s + j->p.cols;
    return o;
}

static void forward_query(void *arg, int64_t task, int thread) {
    const attention_job *j = arg;
    const head_plan *p = &j->p;
    const query o = query_of(j, task, thread);
    j->row->dots(o.s, o.q, 0, j->s->type, o.k, j->s->in, p->length, p->d, p->scale);
    j->row->softmax(o.s, p->cols, 1, p->length, 0, j->a->saved ? (float *)j->a->saved + task : NULL);
    j->row->mix(o.y, o.s, j->s->type, o.v, j->s->in, p->length, p->d);
}

static void backward_query(void *arg, int64_t task, int thread) {
    const attention_job *j = arg;
    const head_plan *p = &j->p;
    const gf_type type = j->s->type;
    const query o = query_of(j, task, thread);
    char *dk = (char *)j->a->dx + o.from, *dv = dk + gf_type_bytes[type] * (size_t)j->s->out;
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

static glofnd_status run_heads(gf_nn_op *op, const gf_nn_args *a, gf_task self, gf_task single) {
    attention_job j = {&op->shape, a, op->engine->row, gf_cpu_kernels_get()->tile,
                       plan_of(&op->shape, op->shape.h * op->shape.w)};
    gf_parallel(op->engine->threads, op->shape.n * op->shape.heads, op->shape.second ? single : self, &j);
    return GLOFND_OK;
}

glofnd_status gf_dnn_attention_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    gf_nn_args forward = *a;
    forward.dy = NULL;
    return run_heads(op, &forward, forward_head, forward_query);
}

glofnd_status gf_dnn_attention_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    return run_heads(op, a, backward_head, backward_query);
}

/* ----- tokens -------------------------------------------------------------------------------------------------------- */

/* The beginnings and the end of a sequence: embedded tokens, patches with a class or mean token, and the row that
 * stands for all.
 *
 * Gradients of tables are float32 sums in the order of the rows, by one task each: the same bits for any number of threads. */

#define TABLE_STRIP 32 /* columns of a table per task */

typedef struct token_job {
    const gf_nn_engine *engine;
    const gf_nn_shape *s;
    const gf_nn_args *a;
} token_job;

static int64_t length_of(const gf_nn_shape *s) { return s->h * s->w; }

/* Number `i` of an array of the op's type. */
static char *number_at(const gf_nn_shape *s, const void *p, int64_t i) {
    return (char *)(uintptr_t)p + gf_type_bytes[s->type] * (size_t)i;
}

static glofnd_status run_tokens(gf_nn_op *op, const gf_nn_args *a, int64_t tasks, gf_task work) {
    token_job j = {op->engine, &op->shape, a};
    gf_parallel(op->engine->threads, tasks, work, &j);
    return GLOFND_OK;
}

/* ----- tokens: y [n][length][out] = table [in][out] [token] + positions [length][out]; packed: fewer of each text ----- */

typedef struct text_rows { /* the rows of a text */
    int64_t first, count;
} text_rows;

static text_rows text_at(const token_job *j, int64_t i) {
    const int32_t *first = j->s->packed ? j->a->texts->first : NULL;
    return first ? (text_rows){first[i], first[i + 1] - first[i]} : (text_rows){i * length_of(j->s), length_of(j->s)};
}

static void embed_text(void *arg, int64_t task, int thread) {
    (void)thread;
    const token_job *j = arg;
    const int64_t c = j->s->out;
    const text_rows t = text_at(j, task);
    const int32_t *token = (const int32_t *)j->a->x + t.first;
    for (int64_t r = 0; r < t.count; r++)
        j->engine->row->plus(j->s->type, number_at(j->s, j->a->y, (t.first + r) * c), GF_TYPE_F32, j->a->weight + token[r] * c,
                             j->a->bias + r * c, c);
}

static void embed_back_strip(void *arg, int64_t task, int thread) {
    (void)thread;
    const token_job *j = arg;
    const int64_t rows = gf_nn_rows(j->s, j->a), c = j->s->out, from = task * TABLE_STRIP,
                  count = c - from < TABLE_STRIP ? c - from : TABLE_STRIP;
    const int32_t *token = j->a->x;
    for (int64_t r = 0; r < rows; r++)
        j->engine->row->add_to(j->a->weight_grad + token[r] * c + from, j->s->type, number_at(j->s, j->a->dy, r * c + from),
                               count);
}

/* The texts that are so long. */
static void embed_back_position(void *arg, int64_t task, int thread) {
    (void)thread;
    const token_job *j = arg;
    const int64_t c = j->s->out;
    float *sum = j->a->bias_grad + task * c;
    memset(sum, 0, sizeof *sum * (size_t)c);
    for (int64_t i = 0; i < j->s->n; i++) {
        const text_rows t = text_at(j, i);
        if (task < t.count) j->engine->row->add_to(sum, j->s->type, number_at(j->s, j->a->dy, (t.first + task) * c), c);
    }
}

glofnd_status gf_dnn_embed_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    return run_tokens(op, a, op->shape.n, embed_text);
}

glofnd_status gf_dnn_embed_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    gf_dnn_zero(op->engine, a->weight_grad, sizeof(float) * (size_t)(s->in * s->out));
    run_tokens(op, a, (s->out + TABLE_STRIP - 1) / TABLE_STRIP, embed_back_strip);
    return run_tokens(op, a, length_of(s), embed_back_position);
}

/* ----- patches: y [n][1 + length][in] ------------------------------------------------------------------------------ */

/* scratch: a row per thread, for the mean token or its gradient. */
glofnd_status gf_dnn_tokens_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    (void)err;
    sizes->scratch = sizeof(float) * (size_t)op->shape.in * (size_t)op->engine->threads;
    return GLOFND_OK;
}

static void tokens_image(void *arg, int64_t task, int thread) {
    const token_job *j = arg;
    const gf_nn_shape *s = j->s;
    const int64_t rows = length_of(s), c = s->in;
    const char *x = number_at(s, j->a->x, task * rows * c);
    char *y = number_at(s, j->a->y, task * (rows + 1) * c);
    float *mean = (float *)j->a->scratch + thread * c;
    if (!s->bias) j->engine->norm->mean(s->type, mean, x, rows, c);
    j->engine->row->plus(s->type, y, GF_TYPE_F32, s->bias ? j->a->bias : mean, j->a->weight, c);
    j->engine->row->plus(s->type, number_at(s, y, c), s->type, x, j->a->weight + c, rows * c);
}

static void tokens_back_image(void *arg, int64_t task, int thread) {
    const token_job *j = arg;
    const gf_nn_shape *s = j->s;
    const int64_t rows = length_of(s), c = s->in;
    const char *dy = number_at(s, j->a->dy, task * (rows + 1) * c);
    char *dx = number_at(s, j->a->dx, task * rows * c);
    float *share = (float *)j->a->scratch + thread * c;
    if (s->bias) {
        memcpy(dx, dy + gf_type_bytes[s->type] * (size_t)c, gf_type_bytes[s->type] * (size_t)(rows * c));
        return;
    }
    j->engine->row->gather(share, c, s->type, dy, c, 1, c, 1.0f / (float)rows);
    for (int64_t r = 0; r < rows; r++)
        j->engine->row->plus(s->type, number_at(s, dx, r * c), s->type, number_at(s, dy, (r + 1) * c), share, c);
}

static void tokens_back_position(void *arg, int64_t task, int thread) {
    (void)thread;
    const token_job *j = arg;
    const int64_t rows = length_of(j->s) + 1, c = j->s->in;
    float *sum = j->a->weight_grad + task * c;
    memset(sum, 0, sizeof *sum * (size_t)c);
    for (int64_t i = 0; i < j->s->n; i++)
        j->engine->row->add_to(sum, j->s->type, number_at(j->s, j->a->dy, (i * rows + task) * c), c);
}

glofnd_status gf_dnn_tokens_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    return run_tokens(op, a, op->shape.n, tokens_image);
}

/* The class token stands where the first position is added: both have the same gradient. */
glofnd_status gf_dnn_tokens_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    run_tokens(op, a, length_of(s) + 1, tokens_back_position);
    if (s->bias) memcpy(a->bias_grad, a->weight_grad, sizeof(float) * (size_t)s->in);
    return s->input_grad ? run_tokens(op, a, s->n, tokens_back_image) : GLOFND_OK;
}

/* ----- the row that stands for all: y [n][in] float32 ----------------------------------------------------------------- */

static int64_t picked_row(const gf_nn_shape *s, const gf_nn_args *a, int64_t i) {
    return s->packed ? a->texts->picked[i] : i * length_of(s);
}

glofnd_status gf_dnn_pick_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    const int64_t c = s->in;
    for (int64_t i = 0; i < s->n; i++)
        op->engine->row->gather((float *)a->y + i * c, c, s->type, number_at(s, a->x, picked_row(s, a, i) * c), c, 1, c, 1.0f);
    return GLOFND_OK;
}

glofnd_status gf_dnn_pick_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    const int64_t c = s->in;
    if (!a->add_dx) gf_dnn_zero(op->engine, a->dx, gf_type_bytes[s->type] * (size_t)(gf_nn_rows(s, a) * c));
    for (int64_t i = 0; i < s->n; i++) {
        char *dx = number_at(s, a->dx, picked_row(s, a, i) * c);
        op->engine->row->plus(s->type, dx, s->type, dx, (const float *)a->dy + i * c, c);
    }
    return GLOFND_OK;
}
