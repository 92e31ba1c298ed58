/* dnn_layernorm.c - layer norm over threads: blocks of rows to the kernels. saved [rows][2]: mean and 1 / deviation of each row;
 * scratch [blocks][2][c]: parts of the gradients of weight and bias.
 */
#include "nn/cpu/dnn_blocks.h"
#include "nn/cpu/dnn_rows.h"
#include "util/parallel.h"

static int64_t rows_of(const gf_nn_shape *s) { return s->n * s->h * s->w; }

glofnd_status gf_dnn_layernorm_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    FAIL_IF(err, s->in != s->out || s->in < 1, GLOFND_E_ARGUMENT, "layer norm from %lld to %lld channels", (long long)s->in,
            (long long)s->out);
    if (!s->training) return GLOFND_OK;
    sizes->saved = sizeof(float) * 2 * (size_t)rows_of(s);
    sizes->scratch = sizeof(float) * 2 * (size_t)(gf_blocks_max(rows_of(s), s->in) * s->in);
    return GLOFND_OK;
}

typedef struct norm_job {
    const gf_row_ops *ops;
    const gf_nn_shape *s;
    const gf_nn_args *a;
    int back;
} norm_job;

static void norm_block(void *arg, int64_t task, int thread) {
    (void)thread;
    const norm_job *j = arg;
    const int64_t rows = gf_nn_rows(j->s, j->a), c = j->s->in, step = gf_block_rows(rows, c), r0 = task * step;
    const int64_t r1 = gf_smaller(r0 + step, rows);
    if (j->back) j->ops->layernorm_back((float *)j->a->scratch + task * 2 * c, j->s, j->a, r0, r1);
    else j->ops->layernorm(j->s, j->a, r0, r1);
}

glofnd_status gf_dnn_layernorm_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    norm_job j = {op->engine->row, &op->shape, a, 0};
    gf_parallel(op->engine->threads, gf_blocks(gf_nn_rows(&op->shape, a), op->shape.in), norm_block, &j);
    return GLOFND_OK;
}

glofnd_status gf_dnn_layernorm_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const int64_t c = op->shape.in, blocks = gf_blocks(gf_nn_rows(&op->shape, a), c);
    const float *partial = a->scratch;
    norm_job j = {op->engine->row, &op->shape, a, 1};
    gf_parallel(op->engine->threads, blocks, norm_block, &j);
    gf_dnn_sum_parts(op->engine, a->weight_grad, partial, 2 * c, blocks, c);
    gf_dnn_sum_parts(op->engine, a->bias_grad, partial + c, 2 * c, blocks, c);
    return GLOFND_OK;
}
