/* dnn_pool.c - max pooling, where `saved` holds which input of each window won, and average pooling, which saves nothing. */
#include "nn/cpu/dnn_ops.h"

/* Windows never reach into padding where they average, so that it does not matter whether it counts. */
static dnnl_alg_kind_t method(const gf_nn_op *op) {
    return op->shape.kind == GF_NN_MAXPOOL ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding;
}

static int remembers(const gf_nn_op *op) { return op->shape.kind == GF_NN_MAXPOOL && op->shape.training; }

static glofnd_status create_forward(gf_error *err, gf_nn_op *op, gf_md x, gf_md y, const gf_dnn_window *w, gf_nn_sizes *sizes) {
    const dnnl_prop_kind_t prop = op->shape.training ? dnnl_forward_training : dnnl_forward_inference;
    TRY(gf_dnn_pool(err, op->dnn, method(op), prop, x, y, w, NULL, &op->forward));
    TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_SRC, x));
    TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_DST, y));
    if (!remembers(op)) return GLOFND_OK;
    const gf_md winners = gf_prim_md(&op->forward, dnnl_query_workspace_md);
    sizes->saved = gf_md_bytes(winners);
    return gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_WORKSPACE, winners);
}

static glofnd_status create_backward(gf_error *err, gf_nn_op *op, gf_md x, gf_md y, const gf_dnn_window *w) {
    TRY(gf_dnn_pool(err, op->dnn, method(op), dnnl_backward_data, x, y, w, &op->forward, &op->back_data));
    TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_DIFF_DST, y));
    TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_DIFF_SRC, x));
    if (!remembers(op)) return GLOFND_OK;
    return gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_WORKSPACE, gf_prim_md(&op->forward, dnnl_query_workspace_md));
}

glofnd_status gf_dnn_pool_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const gf_dnn_window w = {s->kernel, s->stride, s->pad};
    const int64_t oh = gf_nn_out(s->h, s->kernel, s->stride, s->pad), ow = gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    gf_md x, y;
    TRY(gf_dnn_md(err, op->dnn, 4, (int64_t[]){s->n, s->in, s->h, s->w}, gf_dnn_type(s->type), dnnl_nhwc, &x));
    TRY(gf_dnn_md(err, op->dnn, 4, (int64_t[]){s->n, s->in, oh, ow}, gf_dnn_type(s->type), dnnl_nhwc, &y));
    TRY(create_forward(err, op, x, y, &w, sizes));
    if (s->training) TRY(create_backward(err, op, x, y, &w));
    sizes->scratch = op->forward.scratch > op->back_data.scratch ? op->forward.scratch : op->back_data.scratch;
    return GLOFND_OK;
}

glofnd_status gf_dnn_pool_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return gf_dnn_run(err, op->dnn, &op->forward, (void *[]){gf_dnn_mutable(a->x), a->y, a->saved}, a->scratch);
}

glofnd_status gf_dnn_pool_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return gf_dnn_run(err, op->dnn, &op->back_data, (void *[]){gf_dnn_mutable(a->dy), a->dx, a->saved}, a->scratch);
}
