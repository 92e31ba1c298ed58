/* cunn_linear.c - linear layers as three products of cuBLASLt.
 *   z [rows][out] = x [rows][in] weight [out][in]' + bias (+ x2)    dx = g weight    weight_grad = g' x    bias_grad = sum of g
 * cuBLASLt is column-major, so it computes transposes: z' = weight x', and so on. It adds the bias and x2 while it writes z;
 * activations are a separate kernel: its input z is kept (saved), and g = dy act'(z) lies in scratch. bf16: a copy of weight and
 * bias in bf16 (packed), sums and gradients of parameters in float32.
 */
#include "cuda/nn/cunn_gemm.h"
#include "cuda/nn/cunn_rows.h"

static int64_t rows_of(const gf_nn_shape *s) { return s->n * s->h * s->w; }

static size_t whole(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* ----- products ---------------------------------------------------------------------------------------------------- */

/* type: of the result; the factors are of the shape's. */
static glofnd_status product(gf_error *err, gf_nn_op *op, int work, gf_cunn_factor a, gf_cunn_factor b, gf_type type, int bias) {
    const gf_cunn_gemm_task t = {.a = a, .b = b, .in = op->shape.type, .out = type, .bias = bias};
    return gf_cunn_gemm_create(err, op->engine, &op->gemm[work], t);
}

glofnd_status gf_cunn_linear_products(gf_error *err, gf_nn_op *op, const gf_nn_shape *s) {
    const int64_t rows = rows_of(s);
    const gf_cunn_factor weight = s->transposed ? (gf_cunn_factor){s->out, s->in, 1} : (gf_cunn_factor){s->in, s->out, 0};
    const gf_cunn_factor turned = {weight.rows, weight.cols, !weight.turned};
    const gf_cunn_factor x = {s->in, rows, 0}, x_t = {s->in, rows, 1}, g = {s->out, rows, 0}, g_t = {s->out, rows, 1};
    TRY(product(err, op, GF_CUNN_FORWARD, turned, x, s->type, s->bias));
    if (!s->training) return GLOFND_OK;
    TRY(s->transposed ? product(err, op, GF_CUNN_BACK_WEIGHTS, g, x_t, GF_TYPE_F32, 0)
                      : product(err, op, GF_CUNN_BACK_WEIGHTS, x, g_t, GF_TYPE_F32, 0));
    return s->input_grad ? product(err, op, GF_CUNN_BACK_DATA, weight, g, s->type, 0) : GLOFND_OK;
}

glofnd_status gf_cunn_linear_multiply(gf_error *err, gf_nn_op *op, int work, const void *a, const void *b, const void *add,
                                      void *c, void *workspace) {
    return gf_cunn_gemm_run(err, op->engine, &op->gemm[work], a, b, add, c, workspace);
}

/* ----- the op ------------------------------------------------------------------------------------------------------ */

static size_t array_bytes(const gf_nn_shape *s) { return whole(gf_type_bytes(s->type) * (size_t)(rows_of(s) * s->out)); }

size_t gf_cunn_linear_packed(const gf_nn_shape *s) { return whole(2 * (size_t)(s->in * s->out)); }

glofnd_status gf_cunn_linear_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const int act = s->act != GF_ACT_NONE;
    FAIL_IF(err, act && s->second, GLOFND_E_UNSUPPORTED, "a linear layer with both an activation and a second input");
    if (s->type == GF_TYPE_BF16) sizes->packed = gf_cunn_linear_packed(s) + (s->bias ? whole(2 * (size_t)s->out) : 0);
    sizes->scratch = GF_CUNN_BLAS_WORKSPACE;
    if (s->training && act) sizes->saved = array_bytes(s);
    if (act) sizes->scratch += array_bytes(s);
    if (s->training && s->bias) sizes->scratch += gf_cunn_sums_bytes(s->type, rows_of(s), s->out);
    return op->engine->mode.estimate ? GLOFND_OK : gf_cunn_linear_products(err, op, s);
}

void gf_cunn_linear_free(gf_nn_op *op) {
    for (int i = 0; i < GF_CUNN_WORKS; i++)
        if (op->gemm[i].made) gf_cunn_gemm_free(op->engine, &op->gemm[i]);
}

void gf_cunn_linear_pack(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    if (s->type != GF_TYPE_BF16) return;
    gf_cunn_cast(op->engine, GF_TYPE_BF16, a->packed, a->weight, s->in * s->out);
    if (s->bias) gf_cunn_cast(op->engine, GF_TYPE_BF16, (char *)a->packed + gf_cunn_linear_packed(s), a->bias, s->out);
}

static const void *weights(const gf_nn_op *op, const gf_nn_args *a) {
    return op->shape.type == GF_TYPE_BF16 ? a->packed : (const void *)a->weight;
}

/* Scratch after the workspace: z or g, where there is an activation, then sums. */
static char *after_workspace(const gf_nn_args *a) { return (char *)a->scratch + GF_CUNN_BLAS_WORKSPACE; }

glofnd_status gf_cunn_linear_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    void *z = s->act == GF_ACT_NONE ? a->y : s->training ? a->saved : after_workspace(a);
    if (s->bias) {
        const void *bias = s->type == GF_TYPE_BF16 ? (const char *)a->packed + gf_cunn_linear_packed(s) : (const char *)a->bias;
        TRY(gf_cunn_gemm_bias(err, op->engine, &op->gemm[GF_CUNN_FORWARD], bias));
    }
    TRY(gf_cunn_linear_multiply(err, op, GF_CUNN_FORWARD, weights(op, a), a->x, s->second ? a->x2 : NULL, z, a->scratch));
    if (s->act != GF_ACT_NONE) gf_cunn_act(op->engine, s->type, s->act, a->y, z, rows_of(s) * s->out);
    return GLOFND_OK;
}

glofnd_status gf_cunn_linear_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const int act = s->act != GF_ACT_NONE;
    char *sums = after_workspace(a) + (act ? array_bytes(s) : 0);
    const void *g = act ? after_workspace(a) : a->dy;
    if (act || s->bias)
        gf_cunn_act_back(op->engine, s->type, s->act, after_workspace(a), s->bias ? a->bias_grad : NULL, a->dy, a->saved,
                         rows_of(s), s->out, sums);
    TRY(s->transposed ? gf_cunn_linear_multiply(err, op, GF_CUNN_BACK_WEIGHTS, g, a->x, NULL, a->weight_grad, a->scratch)
                      : gf_cunn_linear_multiply(err, op, GF_CUNN_BACK_WEIGHTS, a->x, g, NULL, a->weight_grad, a->scratch));
    return s->input_grad ? gf_cunn_linear_multiply(err, op, GF_CUNN_BACK_DATA, weights(op, a), g, NULL, a->dx, a->scratch)
                         : GLOFND_OK;
}
