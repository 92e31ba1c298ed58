/* dnn_linear.c - linear layers without bias as three matrix products on torch's own layouts: nothing is packed.
 *   y [n][out] = x [n][in] weight [out][in]'     dx = dy weight     weight_grad = dy' x
 */
#include "cpu/dnn/dnn_ops.h"

typedef struct side {           /* rows x cols, stored row-major (ab) or as its transpose (ba) */
    int64_t rows, cols;
    dnnl_format_tag_t tag;
} side;

static glofnd_status product(gf_error *err, gf_nn_op *op, side a, side b, gf_prim *out) {
    const side c = {a.rows, b.cols, dnnl_ab}, all[3] = {a, b, c};
    const int names[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    gf_md md[3];
    for (int i = 0; i < 3; i++)
        TRY(gf_dnn_md(err, op->dnn, 2, (int64_t[]){all[i].rows, all[i].cols}, gf_dnn_type(op->shape.type), all[i].tag, &md[i]));
    TRY(gf_dnn_matmul(err, op->dnn, md[0], md[1], md[2], out));
    for (int i = 0; i < 3; i++) TRY(gf_dnn_slot(err, op->dnn, out, names[i], md[i]));
    return GLOFND_OK;
}

glofnd_status gf_dnn_linear_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    FAIL_IF(err, s->type != GF_TYPE_F32, GLOFND_E_UNSUPPORTED, "linear layers work in float32");
    TRY(product(err, op, (side){s->n, s->in, dnnl_ab}, (side){s->in, s->out, dnnl_ba}, &op->forward));
    if (s->training) {
        TRY(product(err, op, (side){s->out, s->n, dnnl_ba}, (side){s->n, s->in, dnnl_ab}, &op->back_weights));
        TRY(product(err, op, (side){s->n, s->out, dnnl_ab}, (side){s->out, s->in, dnnl_ab}, &op->back_data));
    }
    const gf_prim *all[] = {&op->forward, &op->back_data, &op->back_weights};
    for (int i = 0; i < 3; i++)
        if (all[i]->scratch > sizes->scratch) sizes->scratch = all[i]->scratch;
    return GLOFND_OK;
}

glofnd_status gf_dnn_linear_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return gf_dnn_run(err, op->dnn, &op->forward, (void *[]){gf_dnn_mutable(a->x), gf_dnn_mutable(a->weight), a->y}, a->scratch);
}

glofnd_status gf_dnn_linear_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    void *x = gf_dnn_mutable(a->x), *dy = gf_dnn_mutable(a->dy), *weight = gf_dnn_mutable(a->weight);
    TRY(gf_dnn_run(err, op->dnn, &op->back_weights, (void *[]){dy, x, a->weight_grad}, a->scratch));
    if (!op->shape.input_grad) return GLOFND_OK;
    return gf_dnn_run(err, op->dnn, &op->back_data, (void *[]){dy, weight, a->dx}, a->scratch);
}
