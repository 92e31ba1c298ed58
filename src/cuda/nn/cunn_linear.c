/* cunn_linear.c - linear layers as three products of cuBLASLt.
 *   z [rows][out] = x [rows][in] weight [out][in]' + bias (+ x2)    dx = g weight    weight_grad = g' x    bias_grad = sum of g
 * cuBLASLt is column-major, so it computes transposes: z' = weight x', and so on. It adds the bias and x2 while it writes z;
 * activations are a separate kernel: its input z is kept (saved), and g = dy act'(z) lies in scratch. bf16: a copy of weight and
 * bias in bf16 (packed), sums and gradients of parameters in float32.
 */
#include "cuda/nn/cunn_rows.h"

typedef struct factor { /* rows x cols as stored, column after column */
    int64_t rows, cols;
    cublasOperation_t op;
} factor;

static glofnd_status blas_fail(gf_error *err, cublasStatus_t status, const char *at) {
    GF_FAIL(err, GLOFND_E_DEVICE, "cuBLASLt: %s failed with status %d", at, (int)status);
}
#define BLAS_TRY(err, call, at)                                                           \
    do {                                                                                  \
        const cublasStatus_t blas_try_ = (call);                                          \
        if (blas_try_ != CUBLAS_STATUS_SUCCESS) return blas_fail((err), blas_try_, (at)); \
    } while (0)

static int64_t rows_of(const gf_nn_shape *s) { return s->n * s->h * s->w; }

static size_t whole(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* ----- products ---------------------------------------------------------------------------------------------------- */

static glofnd_status layout(gf_error *err, const gf_cunn_libs *l, cublasLtMatrixLayout_t *out, gf_type type, int64_t rows,
                            int64_t cols) {
    const cudaDataType_t as = type == GF_TYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    BLAS_TRY(err, l->cublasLtMatrixLayoutCreate(out, as, (uint64_t)rows, (uint64_t)cols, rows), "matrix layout");
    return GLOFND_OK;
}

static cublasStatus_t set_preference(const gf_cunn_libs *l, cublasLtMatmulPreference_t preference) {
    const size_t max = GF_CUNN_BLAS_WORKSPACE;
    const uint32_t align = GF_NN_ALIGN;
    const cublasLtMatmulPreferenceAttributes_t aligned[] = {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t status =
        l->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &max, sizeof max);
    for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
        status = l->cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &align, sizeof align);
    return status;
}

static glofnd_status choose(gf_error *err, gf_nn_engine *s, gf_cunn_gemm *g) {
    const gf_cunn_libs *l = &s->libs;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    BLAS_TRY(err, l->cublasLtMatmulPreferenceCreate(&preference), "preference");
    cublasStatus_t status = set_preference(l, preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = l->cublasLtMatmulAlgoGetHeuristic(s->blas, g->desc, g->a, g->b, g->c, g->c, preference, 1, &found, &count);
    l->cublasLtMatmulPreferenceDestroy(preference);
    BLAS_TRY(err, status, "choice of an algorithm");
    FAIL_IF(err, count < 1, GLOFND_E_UNSUPPORTED, "cuBLASLt has no algorithm for a linear layer of this shape");
    g->algo = found.algo;
    return GLOFND_OK;
}

static cublasStatus_t set(const gf_cunn_libs *l, const gf_cunn_gemm *g, cublasLtMatmulDescAttributes_t what, const void *value,
                          size_t bytes) {
    return l->cublasLtMatmulDescSetAttribute(g->desc, what, value, bytes);
}

/* type: of the result; the factors are of the shape's. */
static glofnd_status product(gf_error *err, gf_nn_op *op, int work, factor a, factor b, gf_type type, int bias) {
    gf_nn_engine *s = op->engine;
    const gf_cunn_libs *l = &s->libs;
    gf_cunn_gemm *g = &op->gemm[work];
    const gf_type in = op->shape.type;
    const int rounded = in == GF_TYPE_F32 && !s->mode.exact;
    const cublasLtEpilogue_t end = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    g->made = 1;
    BLAS_TRY(err, l->cublasLtMatmulDescCreate(&g->desc, rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "product");
    BLAS_TRY(err, set(l, g, CUBLASLT_MATMUL_DESC_TRANSA, &a.op, sizeof a.op), "product");
    BLAS_TRY(err, set(l, g, CUBLASLT_MATMUL_DESC_TRANSB, &b.op, sizeof b.op), "product");
    BLAS_TRY(err, set(l, g, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end), "product");
    TRY(layout(err, l, &g->a, in, a.rows, a.cols));
    TRY(layout(err, l, &g->b, in, b.rows, b.cols));
    TRY(layout(err, l, &g->c, type, a.op == CUBLAS_OP_N ? a.rows : a.cols, b.op == CUBLAS_OP_N ? b.cols : b.rows));
    return choose(err, s, g);
}

glofnd_status gf_cunn_linear_products(gf_error *err, gf_nn_op *op, const gf_nn_shape *s) {
    const int64_t rows = rows_of(s);
    const factor weight = s->transposed ? (factor){s->out, s->in, CUBLAS_OP_T} : (factor){s->in, s->out, CUBLAS_OP_N};
    const factor turned = {weight.rows, weight.cols, s->transposed ? CUBLAS_OP_N : CUBLAS_OP_T};
    const factor x = {s->in, rows, CUBLAS_OP_N}, x_t = {s->in, rows, CUBLAS_OP_T};
    const factor g = {s->out, rows, CUBLAS_OP_N}, g_t = {s->out, rows, CUBLAS_OP_T};
    TRY(product(err, op, GF_CUNN_FORWARD, turned, x, s->type, s->bias));
    if (!s->training) return GLOFND_OK;
    TRY(s->transposed ? product(err, op, GF_CUNN_BACK_WEIGHTS, g, x_t, GF_TYPE_F32, 0)
                      : product(err, op, GF_CUNN_BACK_WEIGHTS, x, g_t, GF_TYPE_F32, 0));
    return s->input_grad ? product(err, op, GF_CUNN_BACK_DATA, weight, g, s->type, 0) : GLOFND_OK;
}

glofnd_status gf_cunn_linear_multiply(gf_error *err, gf_nn_op *op, int work, const void *a, const void *b, const void *add,
                                      void *c, void *workspace) {
    const float one = 1.0f, beta = add ? 1.0f : 0.0f;
    gf_nn_engine *s = op->engine;
    gf_cunn_gemm *g = &op->gemm[work];
    BLAS_TRY(err,
             s->libs.cublasLtMatmul(s->blas, g->desc, &one, a, g->a, b, g->b, &beta, add ? add : c, g->c, c, g->c, &g->algo,
                                    workspace, GF_CUNN_BLAS_WORKSPACE, s->stream),
             "linear layer");
    return GLOFND_OK;
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
    const gf_cunn_libs *l = &op->engine->libs;
    for (int i = 0; i < GF_CUNN_WORKS; i++) {
        gf_cunn_gemm *g = &op->gemm[i];
        if (!g->made) continue;
        if (g->a) l->cublasLtMatrixLayoutDestroy(g->a);
        if (g->b) l->cublasLtMatrixLayoutDestroy(g->b);
        if (g->c) l->cublasLtMatrixLayoutDestroy(g->c);
        if (g->desc) l->cublasLtMatmulDescDestroy(g->desc);
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
    void *z = s->act == GF_ACT_NONE ? a->y : s->training ? a->saved : after_workspace(a);
    if (s->bias) {
        const void *bias = s->type == GF_TYPE_BF16 ? (const char *)a->packed + gf_cunn_linear_packed(s) : (const char *)a->bias;
        BLAS_TRY(err, set(&op->engine->libs, &op->gemm[GF_CUNN_FORWARD], CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                 "bias");
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
