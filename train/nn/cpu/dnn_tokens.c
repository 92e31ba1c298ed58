/* dnn_tokens.c - the beginnings and the end of a sequence: embedded tokens, patches with a class or mean token, and the row that
 * stands for all.
 *
 * Gradients of tables are float32 sums in the order of the rows, by one task each: the same bits for any number of threads.
 */
#include <string.h>

#include "nn/cpu/dnn_rows.h"
#include "util/parallel.h"

#define STRIP 32 /* columns of a table per task */

typedef struct job {
    const gf_nn_engine *engine;
    const gf_nn_shape *s;
    const gf_nn_args *a;
} job;

static int64_t length(const gf_nn_shape *s) { return s->h * s->w; }

/* Number `i` of an array of the op's type. */
static char *place(const gf_nn_shape *s, const void *p, int64_t i) {
    return (char *)(uintptr_t)p + gf_type_bytes(s->type) * (size_t)i;
}

static glofnd_status run(gf_nn_op *op, const gf_nn_args *a, int64_t tasks, gf_task work) {
    job j = {op->engine, &op->shape, a};
    gf_parallel(op->engine->threads, tasks, work, &j);
    return GLOFND_OK;
}

/* ----- tokens: y [n][length][out] = table [in][out] [token] + positions [length][out]; packed: fewer of each text ----- */

glofnd_status gf_dnn_embed_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    (void)err;
    (void)op;
    (void)sizes;
    return GLOFND_OK;
}

typedef struct span { /* the rows of a text */
    int64_t first, count;
} span;

static span text_at(const job *j, int64_t i) {
    const int32_t *first = j->s->packed ? j->a->texts->first : NULL;
    return first ? (span){first[i], first[i + 1] - first[i]} : (span){i * length(j->s), length(j->s)};
}

static void embed_text(void *arg, int64_t task, int thread) {
    (void)thread;
    const job *j = arg;
    const int64_t c = j->s->out;
    const span t = text_at(j, task);
    const int32_t *token = (const int32_t *)j->a->x + t.first;
    for (int64_t r = 0; r < t.count; r++)
        j->engine->row->plus(j->s->type, place(j->s, j->a->y, (t.first + r) * c), GF_TYPE_F32, j->a->weight + token[r] * c,
                             j->a->bias + r * c, c);
}

static void embed_back_strip(void *arg, int64_t task, int thread) {
    (void)thread;
    const job *j = arg;
    const int64_t rows = gf_nn_rows(j->s, j->a), c = j->s->out, from = task * STRIP, count = c - from < STRIP ? c - from : STRIP;
    const int32_t *token = j->a->x;
    for (int64_t r = 0; r < rows; r++)
        j->engine->row->add_to(j->a->weight_grad + token[r] * c + from, j->s->type, place(j->s, j->a->dy, r * c + from), count);
}

/* sum [c] = row `task` of every dy [n][length][c] */
static void sum_position(const job *j, float *sum, int64_t row, int64_t rows, int64_t c) {
    memset(sum, 0, sizeof *sum * (size_t)c);
    for (int64_t i = 0; i < j->s->n; i++) j->engine->row->add_to(sum, j->s->type, place(j->s, j->a->dy, (i * rows + row) * c), c);
}

/* The texts that are so long. */
static void embed_back_position(void *arg, int64_t task, int thread) {
    (void)thread;
    const job *j = arg;
    const int64_t c = j->s->out;
    float *sum = j->a->bias_grad + task * c;
    memset(sum, 0, sizeof *sum * (size_t)c);
    for (int64_t i = 0; i < j->s->n; i++) {
        const span t = text_at(j, i);
        if (task < t.count) j->engine->row->add_to(sum, j->s->type, place(j->s, j->a->dy, (t.first + task) * c), c);
    }
}

glofnd_status gf_dnn_embed_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    return run(op, a, op->shape.n, embed_text);
}

glofnd_status gf_dnn_embed_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    gf_dnn_zero(op->engine, a->weight_grad, sizeof(float) * (size_t)(s->in * s->out));
    run(op, a, (s->out + STRIP - 1) / STRIP, embed_back_strip);
    return run(op, a, length(s), embed_back_position);
}

/* ----- patches: y [n][1 + length][in] ------------------------------------------------------------------------------ */

/* scratch: a row per thread, for the mean token or its gradient. */
glofnd_status gf_dnn_tokens_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    (void)err;
    sizes->scratch = sizeof(float) * (size_t)op->shape.in * (size_t)op->engine->threads;
    return GLOFND_OK;
}

static void tokens_image(void *arg, int64_t task, int thread) {
    const job *j = arg;
    const gf_nn_shape *s = j->s;
    const int64_t rows = length(s), c = s->in;
    const char *x = place(s, j->a->x, task * rows * c);
    char *y = place(s, j->a->y, task * (rows + 1) * c);
    float *mean = (float *)j->a->scratch + thread * c;
    if (!s->bias) j->engine->norm->mean(s->type, mean, x, rows, c);
    j->engine->row->plus(s->type, y, GF_TYPE_F32, s->bias ? j->a->bias : mean, j->a->weight, c);
    j->engine->row->plus(s->type, place(s, y, c), s->type, x, j->a->weight + c, rows * c);
}

static void tokens_back_image(void *arg, int64_t task, int thread) {
    const job *j = arg;
    const gf_nn_shape *s = j->s;
    const int64_t rows = length(s), c = s->in;
    const char *dy = place(s, j->a->dy, task * (rows + 1) * c);
    char *dx = place(s, j->a->dx, task * rows * c);
    float *share = (float *)j->a->scratch + thread * c;
    if (s->bias) {
        memcpy(dx, dy + gf_type_bytes(s->type) * (size_t)c, gf_type_bytes(s->type) * (size_t)(rows * c));
        return;
    }
    j->engine->row->gather(share, c, s->type, dy, c, 1, c, 1.0f / (float)rows);
    for (int64_t r = 0; r < rows; r++)
        j->engine->row->plus(s->type, place(s, dx, r * c), s->type, place(s, dy, (r + 1) * c), share, c);
}

static void tokens_back_position(void *arg, int64_t task, int thread) {
    (void)thread;
    const job *j = arg;
    sum_position(j, j->a->weight_grad + task * j->s->in, task, length(j->s) + 1, j->s->in);
}

glofnd_status gf_dnn_tokens_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    return run(op, a, op->shape.n, tokens_image);
}

/* The class token stands where the first position is added: both have the same gradient. */
glofnd_status gf_dnn_tokens_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    run(op, a, length(s) + 1, tokens_back_position);
    if (s->bias) memcpy(a->bias_grad, a->weight_grad, sizeof(float) * (size_t)s->in);
    return s->input_grad ? run(op, a, s->n, tokens_back_image) : GLOFND_OK;
}

/* ----- the row that stands for all: y [n][in] float32 ----------------------------------------------------------------- */

glofnd_status gf_dnn_pick_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    (void)err;
    (void)op;
    (void)sizes;
    return GLOFND_OK;
}

static int64_t picked_row(const gf_nn_shape *s, const gf_nn_args *a, int64_t i) {
    return s->packed ? a->texts->picked[i] : i * length(s);
}

glofnd_status gf_dnn_pick_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    const int64_t c = s->in;
    for (int64_t i = 0; i < s->n; i++)
        op->engine->row->gather((float *)a->y + i * c, c, s->type, place(s, a->x, picked_row(s, a, i) * c), c, 1, c, 1.0f);
    return GLOFND_OK;
}

glofnd_status gf_dnn_pick_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    const int64_t c = s->in;
    if (!a->add_dx) gf_dnn_zero(op->engine, a->dx, gf_type_bytes(s->type) * (size_t)(gf_nn_rows(s, a) * c));
    for (int64_t i = 0; i < s->n; i++) {
        char *dx = place(s, a->dx, picked_row(s, a, i) * c);
        op->engine->row->plus(s->type, dx, s->type, dx, (const float *)a->dy + i * c, c);
    }
    return GLOFND_OK;
}
