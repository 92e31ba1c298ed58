/* cunn_linear.c - linear layers as three products of cuBLASLt.
 *   z [rows][out] = x [rows][in] weight [out][in]' + bias (+ x2)    dx = g weight    weight_grad = g' x    bias_grad = sum of g
 * cuBLASLt is column-major, so it computes transposes: z' = weight x', and so on. It adds the bias and x2 while it writes z;
 * activations are a separate kernel: its input z is kept (saved), and g = dy act'(z) lies in scratch. bf16: a copy of weight and
 * bias in bf16 (packed), sums and gradients of parameters in float32. Packed texts have products for each of their lengths.
 */
#include <stdlib.h>

#include "nn/cuda/cunn_gemm.h"
#include "nn/cuda/cunn_rows.h"

static int64_t rows_of(const gf_nn_shape *s) { return s->n * s->h * s->w; }

static size_t whole(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* ----- products ---------------------------------------------------------------------------------------------------- */

/* type: of the result; the factors are of the shape's. */
static glofnd_status product(gf_error *err, gf_nn_op *op, gf_cunn_gemm *to, gf_cunn_factor a, gf_cunn_factor b, gf_type type,
                             int bias) {
    const gf_cunn_gemm_task t = {.a = a, .b = b, .in = op->shape.type, .out = type, .bias = bias};
    return gf_cunn_gemm_create(err, op->engine, to, t);
}

static glofnd_status products(gf_error *err, gf_nn_op *op, const gf_nn_shape *s, int64_t rows, gf_cunn_gemm to[GF_CUNN_WORKS]) {
    const gf_cunn_factor weight = s->transposed ? (gf_cunn_factor){s->out, s->in, 1} : (gf_cunn_factor){s->in, s->out, 0};
    const gf_cunn_factor turned = {weight.rows, weight.cols, !weight.turned};
    const gf_cunn_factor x = {s->in, rows, 0}, x_t = {s->in, rows, 1}, g = {s->out, rows, 0}, g_t = {s->out, rows, 1};
    TRY(product(err, op, &to[GF_CUNN_FORWARD], turned, x, s->type, s->bias));
    if (!s->training) return GLOFND_OK;
    TRY(s->transposed ? product(err, op, &to[GF_CUNN_BACK_WEIGHTS], g, x_t, GF_TYPE_F32, 0)
                      : product(err, op, &to[GF_CUNN_BACK_WEIGHTS], x, g_t, GF_TYPE_F32, 0));
    return s->input_grad ? product(err, op, &to[GF_CUNN_BACK_DATA], weight, g, s->type, 0) : GLOFND_OK;
}

glofnd_status gf_cunn_linear_products(gf_error *err, gf_nn_op *op, const gf_nn_shape *s) {
    return products(err, op, s, rows_of(s), op->gemm);
}

/* 1: layers of these two shapes have the same products. */
static int alike(const gf_nn_shape *a, const gf_nn_shape *b) {
    return a->type == b->type && a->in == b->in && a->out == b->out && a->transposed == b->transposed && a->bias == b->bias &&
           a->training == b->training && a->input_grad == b->input_grad;
}

/* Those that the engine has, or new ones. */
static glofnd_status find_products(gf_error *err, gf_nn_op *op, int64_t rows, gf_cunn_products **out) {
    gf_nn_engine *e = op->engine;
    for (gf_cunn_products *p = e->products; p; p = p->next)
        if (p->rows == rows && alike(&p->shape, &op->shape)) return *out = p, GLOFND_OK;
    gf_cunn_products *p = calloc(1, sizeof *p);
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "out of memory");
    p->shape = op->shape;
    p->rows = rows;
    p->next = e->products;
    e->products = p;
    *out = p;
    const glofnd_status status = products(err, op, &op->shape, rows, p->gemm);
    if (status != GLOFND_OK) p->rows = -1; /* incomplete: for no layer */
    return status;
}

/* All are chosen here, none in a step: choices take time and memory, and are saved with those of the other layers. */
static glofnd_status products_of_lengths(gf_error *err, gf_nn_op *op) {
    const gf_nn_shape *s = &op->shape;
    const int64_t max = s->h * s->w;
    const int count = gf_nn_text_length_number(max, max) + 1;
    op->lengths = calloc((size_t)count, sizeof *op->lengths);
    FAIL_IF(err, !op->lengths, GLOFND_E_MEMORY, "out of memory");
    int64_t length = 1;
    for (int i = 0; i < count; i++, length = gf_nn_text_length(length + 1, max))
        TRY(find_products(err, op, s->n * length, &op->lengths[i]));
    return GLOFND_OK;
}

glofnd_status gf_cunn_linear_multiply(gf_error *err, gf_nn_op *op, int work, const void *a, const void *b, const void *add,
                                      void *c, void *workspace) {
    return gf_cunn_gemm_run(err, op->engine, &op->gemm[work], a, b, add, c, workspace);
}

static gf_cunn_gemm *products_now(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    return s->packed ? op->lengths[gf_nn_text_length_number(a->texts->rows / s->n, s->h * s->w)]->gemm : op->gemm;
}

/* ----- the op ------------------------------------------------------------------------------------------------------ */

static size_t array_bytes(const gf_nn_shape *s) { return whole(gf_type_bytes(s->type) * (size_t)(rows_of(s) * s->out)); }

/* Of the length that needs most. */
static size_t sums_bytes(const gf_nn_shape *s) {
    const int64_t max = s->h * s->w;
    size_t bytes = gf_cunn_sums_bytes(s->type, rows_of(s), s->out);
    for (int64_t length = 1; s->packed && length < max; length = gf_nn_text_length(length + 1, max)) {
        const size_t want = gf_cunn_sums_bytes(s->type, s->n * length, s->out);
        if (want > bytes) bytes = want;
    }
    return bytes;
}

size_t gf_cunn_linear_packed(const gf_nn_shape *s) { return whole(2 * (size_t)(s->in * s->out)); }

glofnd_status gf_cunn_linear_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const int act = s->act != GF_ACT_NONE;
    FAIL_IF(err, act && s->second, GLOFND_E_UNSUPPORTED, "a linear layer with both an activation and a second input");
    if (s->type == GF_TYPE_BF16) sizes->packed = gf_cunn_linear_packed(s) + (s->bias ? whole(2 * (size_t)s->out) : 0);
    sizes->scratch = GF_CUNN_BLAS_WORKSPACE;
    if (s->training && act) sizes->saved = array_bytes(s);
    if (act) sizes->scratch += array_bytes(s);
    if (s->training && s->bias) sizes->scratch += sums_bytes(s);
    if (op->engine->mode.estimate) return GLOFND_OK;
    return s->packed ? products_of_lengths(err, op) : gf_cunn_linear_products(err, op, s);
}

void gf_cunn_linear_free(gf_nn_op *op) {
    for (int i = 0; i < GF_CUNN_WORKS; i++)
        if (op->gemm[i].made) gf_cunn_gemm_free(op->engine, &op->gemm[i]);
    free(op->lengths);
}

void gf_cunn_products_free(gf_nn_engine *s) {
    while (s->products) {
        gf_cunn_products *p = s->products;
        s->products = p->next;
        for (int i = 0; i < GF_CUNN_WORKS; i++)
            if (p->gemm[i].made) gf_cunn_gemm_free(s, &p->gemm[i]);
        free(p);
    }
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
    const gf_cunn_gemm *const now = products_now(op, a);
    void *z = s->act == GF_ACT_NONE ? a->y : s->training ? a->saved : after_workspace(a);
    if (s->bias) {
        const void *bias = s->type == GF_TYPE_BF16 ? (const char *)a->packed + gf_cunn_linear_packed(s) : (const char *)a->bias;
        TRY(gf_cunn_gemm_bias(err, op->engine, &now[GF_CUNN_FORWARD], bias));
    }
    TRY(gf_cunn_gemm_run(err, op->engine, &now[GF_CUNN_FORWARD], weights(op, a), a->x, s->second ? a->x2 : NULL, z, a->scratch));
    if (s->act != GF_ACT_NONE) gf_cunn_act(op->engine, s->type, s->act, a->y, z, gf_nn_rows(s, a) * s->out);
    return GLOFND_OK;
}

glofnd_status gf_cunn_linear_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const gf_cunn_gemm *const now = products_now(op, a);
    const int act = s->act != GF_ACT_NONE;
    char *sums = after_workspace(a) + (act ? array_bytes(s) : 0);
    const void *g = act ? after_workspace(a) : a->dy;
    if (act || s->bias)
        gf_cunn_act_back(op->engine, s->type, s->act, after_workspace(a), s->bias ? a->bias_grad : NULL, a->dy, a->saved,
                         gf_nn_rows(s, a), s->out, sums);
    TRY(gf_cunn_gemm_run(err, op->engine, &now[GF_CUNN_BACK_WEIGHTS], s->transposed ? g : a->x, s->transposed ? a->x : g, NULL,
                         a->weight_grad, a->scratch));
    if (!s->input_grad) return GLOFND_OK;
    return gf_cunn_gemm_run(err, op->engine, &now[GF_CUNN_BACK_DATA], weights(op, a), g, NULL, a->dx, a->scratch);
}
