/* dnn_conv.c - convolution, forward and backward: 3 x 3 of stride 1 by own kernels (dnn_wino.h), the others by oneDNN.
 *
 * Weights live in torch's layout (float32). The forward primitive's own format is kept packed until they change; the
 * one of the gradient of x is often another, and is made in scratch when needed: weights change every step, so keeping it would
 * save nothing.
 */
#include "nn/cpu/dnn_ops.h"
#include "nn/cpu/dnn_times.h"

typedef struct formats {
    gf_md x, y;          /* NHWC */
    gf_md plain;         /* torch's weights */
    gf_md any, any_grad; /* as the primitive likes; gradients are float32 */
} formats;

static glofnd_status describe(gf_error *err, gf_nn_op *op, formats *f) {
    const gf_nn_shape *s = &op->shape;
    const int64_t oh = gf_nn_out(s->h, s->kernel, s->stride, s->pad), ow = gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    const int64_t x[4] = {s->n, s->in, s->h, s->w}, y[4] = {s->n, s->out, oh, ow}, w[4] = {s->out, s->in, s->kernel, s->kernel};
    const dnnl_data_type_t type = gf_dnn_type(s->type);
    TRY(gf_dnn_md(err, op->dnn, 4, x, type, dnnl_nhwc, &f->x));
    TRY(gf_dnn_md(err, op->dnn, 4, y, type, dnnl_nhwc, &f->y));
    TRY(gf_dnn_md(err, op->dnn, 4, w, dnnl_f32, dnnl_oihw, &f->plain));
    TRY(gf_dnn_md(err, op->dnn, 4, w, type, dnnl_format_tag_any, &f->any));
    return gf_dnn_md(err, op->dnn, 4, w, dnnl_f32, dnnl_format_tag_any, &f->any_grad);
}

static gf_dnn_window window(const gf_nn_shape *s) { return (gf_dnn_window){s->kernel, s->stride, s->pad}; }

static glofnd_status create_forward(gf_error *err, gf_nn_op *op, const formats *f, gf_nn_sizes *sizes) {
    const gf_dnn_window w = window(&op->shape);
    const dnnl_prop_kind_t prop = op->shape.training ? dnnl_forward_training : dnnl_forward_inference;
    TRY(gf_dnn_conv(err, op->dnn, prop, f->x, f->any, f->y, &w, NULL, &op->forward));
    const gf_md chosen = gf_prim_md(&op->forward, dnnl_query_weights_md);
    TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_SRC, f->x));
    TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_WEIGHTS, chosen));
    TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_DST, f->y));
    TRY(gf_dnn_reorder(err, op->dnn, f->plain, chosen, &op->pack));
    sizes->packed = gf_md_bytes(chosen);
    return GLOFND_OK;
}

static glofnd_status create_back_data(gf_error *err, gf_nn_op *op, const formats *f) {
    const gf_dnn_window w = window(&op->shape);
    TRY(gf_dnn_conv(err, op->dnn, dnnl_backward_data, f->x, f->any, f->y, &w, &op->forward, &op->back_data));
    const gf_md chosen = gf_prim_md(&op->back_data, dnnl_query_weights_md);
    TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_DIFF_DST, f->y));
    TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_WEIGHTS, chosen));
    TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_DIFF_SRC, f->x));
    if (gf_md_equal(chosen, gf_prim_md(&op->forward, dnnl_query_weights_md))) return GLOFND_OK;
    op->spare = gf_dnn_round(gf_md_bytes(chosen));
    return gf_dnn_reorder(err, op->dnn, f->plain, chosen, &op->pack_back);
}

static glofnd_status create_back_weights(gf_error *err, gf_nn_op *op, const formats *f) {
    const gf_dnn_window w = window(&op->shape);
    TRY(gf_dnn_conv(err, op->dnn, dnnl_backward_weights, f->x, f->any_grad, f->y, &w, &op->forward, &op->back_weights));
    const gf_md chosen = gf_prim_md(&op->back_weights, dnnl_query_diff_weights_md);
    TRY(gf_dnn_slot(err, op->dnn, &op->back_weights, DNNL_ARG_SRC, f->x));
    TRY(gf_dnn_slot(err, op->dnn, &op->back_weights, DNNL_ARG_DIFF_DST, f->y));
    TRY(gf_dnn_slot(err, op->dnn, &op->back_weights, DNNL_ARG_DIFF_WEIGHTS, chosen));
    if (gf_md_equal(chosen, f->plain)) return GLOFND_OK;
    const size_t bytes = gf_dnn_round(gf_md_bytes(chosen));
    if (bytes > op->spare) op->spare = bytes;
    return gf_dnn_reorder(err, op->dnn, chosen, f->plain, &op->unpack);
}

glofnd_status gf_dnn_conv_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    formats f;
    op->short_conv = gf_wino_suits(&op->shape);
    if (op->short_conv) {
        sizes->scratch = gf_wino_plan(&op->wino, &op->shape, gf_dnn_threads(op->dnn));
        return GLOFND_OK;
    }
    TRY(describe(err, op, &f));
    TRY(create_forward(err, op, &f, sizes));
    if (op->shape.training && op->shape.input_grad) TRY(create_back_data(err, op, &f));
    if (op->shape.training) TRY(create_back_weights(err, op, &f));
    const gf_prim *all[] = {&op->forward, &op->back_data, &op->back_weights, &op->pack, &op->pack_back, &op->unpack};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->scratch > sizes->scratch) sizes->scratch = all[i]->scratch;
    sizes->scratch += op->spare;
    return GLOFND_OK;
}

static void *own_scratch(const gf_nn_op *op, const gf_nn_args *a) { return (char *)a->scratch + op->spare; }

glofnd_status gf_dnn_conv_pack(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    if (op->short_conv) return GLOFND_OK;
    return gf_dnn_run(err, op->dnn, &op->pack, (void *[]){gf_dnn_mutable(a->weight), a->packed}, own_scratch(op, a));
}

static glofnd_status forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    if (op->short_conv) {
        gf_wino_forward(&op->wino, &op->shape, a);
        return GLOFND_OK;
    }
    return gf_dnn_run(err, op->dnn, &op->forward, (void *[]){gf_dnn_mutable(a->x), a->packed, a->y}, own_scratch(op, a));
}

static glofnd_status back_data(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    if (op->short_conv) {
        gf_wino_back_data(&op->wino, &op->shape, a);
        return GLOFND_OK;
    }
    void *weights = op->pack_back.primitive ? a->scratch : a->packed, *scratch = own_scratch(op, a);
    if (op->pack_back.primitive)
        TRY(gf_dnn_run(err, op->dnn, &op->pack_back, (void *[]){gf_dnn_mutable(a->weight), weights}, scratch));
    return gf_dnn_run(err, op->dnn, &op->back_data, (void *[]){gf_dnn_mutable(a->dy), weights, a->dx}, scratch);
}

static glofnd_status back_weights(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    if (op->short_conv) {
        gf_wino_back_weights(&op->wino, &op->shape, a);
        return GLOFND_OK;
    }
    void *grad = op->unpack.primitive ? a->scratch : a->weight_grad, *scratch = own_scratch(op, a);
    TRY(gf_dnn_run(err, op->dnn, &op->back_weights, (void *[]){gf_dnn_mutable(a->x), gf_dnn_mutable(a->dy), grad}, scratch));
    if (!op->unpack.primitive) return GLOFND_OK;
    return gf_dnn_run(err, op->dnn, &op->unpack, (void *[]){grad, a->weight_grad}, scratch);
}

/* ----- the passes, timed ------------------------------------------------------------------------------------------- */

typedef glofnd_status conv_pass(gf_error *err, gf_nn_op *op, const gf_nn_args *a);

static glofnd_status timed(int part, conv_pass *run, gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const double start = gf_dnn_start();
    const glofnd_status status = run(err, op, a);
    gf_dnn_charge(part, start);
    return status;
}

glofnd_status gf_dnn_conv_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return timed(GF_TIME_FORWARD, forward, err, op, a);
}

glofnd_status gf_dnn_conv_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    TRY(timed(GF_TIME_BACK_WEIGHTS, back_weights, err, op, a));
    return op->shape.input_grad ? timed(GF_TIME_BACK_DATA, back_data, err, op, a) : GLOFND_OK;
}
