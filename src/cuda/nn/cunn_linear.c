/* cunn_linear.c - linear layers without bias as three products of cuBLASLt, float32 in and out.
 *   y [n][out] = x [n][in] weight [out][in]'     dx = dy weight     weight_grad = dy' x
 * cuBLASLt thinks in columns, so what is row-major here is its transpose there: y' = weight x', and so on.
 */
#include <string.h>

#include "cuda/nn/cunn.h"

#define WORKSPACE ((size_t)32 << 20)

typedef struct factor {         /* rows x cols as stored, column after column */
    int64_t rows, cols;
    cublasOperation_t op;
} factor;

static glofnd_status blas_fail(gf_error *err, cublasStatus_t status, const char *at) {
    GF_FAIL(err, GLOFND_E_DEVICE, "cuBLASLt: %s failed with status %d", at, (int)status);
}
#define BLAS_TRY(err, call, at)                                                     \
    do {                                                                            \
        const cublasStatus_t blas_try_ = (call);                                    \
        if (blas_try_ != CUBLAS_STATUS_SUCCESS) return blas_fail((err), blas_try_, (at)); \
    } while (0)

static glofnd_status layout(gf_error *err, const gf_cunn_libs *l, cublasLtMatrixLayout_t *out, int64_t rows, int64_t cols) {
    BLAS_TRY(err, l->cublasLtMatrixLayoutCreate(out, CUDA_R_32F, (uint64_t)rows, (uint64_t)cols, rows), "matrix layout");
    return GLOFND_OK;
}

static glofnd_status choose(gf_error *err, gf_nn_engine *s, gf_cunn_gemm *g) {
    const gf_cunn_libs *l = &s->libs;
    const size_t most = WORKSPACE;
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    BLAS_TRY(err, l->cublasLtMatmulPreferenceCreate(&wish), "preference");
    cublasStatus_t status =
        l->cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = l->cublasLtMatmulAlgoGetHeuristic(s->blas, g->desc, g->a, g->b, g->c, g->c, wish, 1, &found, &count);
    l->cublasLtMatmulPreferenceDestroy(wish);
    BLAS_TRY(err, status, "choice of an algorithm");
    FAIL_IF(err, count < 1, GLOFND_E_UNSUPPORTED, "cuBLASLt has no algorithm for a linear layer of this shape");
    g->algo = found.algo;
    return GLOFND_OK;
}

static glofnd_status product(gf_error *err, gf_nn_op *op, int work, factor a, factor b) {
    gf_nn_engine *s = op->engine;
    const gf_cunn_libs *l = &s->libs;
    gf_cunn_gemm *g = &op->gemm[work];
    const cublasComputeType_t type = s->mode.exact ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
    g->made = 1;
    BLAS_TRY(err, l->cublasLtMatmulDescCreate(&g->desc, type, CUDA_R_32F), "product");
    BLAS_TRY(err, l->cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_TRANSA, &a.op, sizeof a.op), "product");
    BLAS_TRY(err, l->cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_TRANSB, &b.op, sizeof b.op), "product");
    TRY(layout(err, l, &g->a, a.rows, a.cols));
    TRY(layout(err, l, &g->b, b.rows, b.cols));
    TRY(layout(err, l, &g->c, a.op == CUBLAS_OP_N ? a.rows : a.cols, b.op == CUBLAS_OP_N ? b.cols : b.rows));
    return choose(err, s, g);
}

glofnd_status gf_cunn_linear_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    FAIL_IF(err, s->type != GF_TYPE_F32, GLOFND_E_UNSUPPORTED, "linear layers work in float32");
    sizes->scratch = WORKSPACE;
    if (op->engine->mode.rough) return GLOFND_OK;
    const factor weight = {s->in, s->out, CUBLAS_OP_N}, weight_t = {s->in, s->out, CUBLAS_OP_T}, x = {s->in, s->n, CUBLAS_OP_N};
    const factor dy = {s->out, s->n, CUBLAS_OP_N}, dy_t = {s->out, s->n, CUBLAS_OP_T};
    TRY(product(err, op, GF_CUNN_FORWARD, weight_t, x));
    if (!s->training) return GLOFND_OK;
    TRY(product(err, op, GF_CUNN_BACK_WEIGHTS, x, dy_t));
    return s->input_grad ? product(err, op, GF_CUNN_BACK_DATA, weight, dy) : GLOFND_OK;
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

static glofnd_status multiply(gf_error *err, gf_nn_op *op, int work, const void *a, const void *b, void *c, void *workspace) {
    const float one = 1.0f, zero = 0.0f;
    gf_nn_engine *s = op->engine;
    gf_cunn_gemm *g = &op->gemm[work];
    BLAS_TRY(err, s->libs.cublasLtMatmul(s->blas, g->desc, &one, a, g->a, b, g->b, &zero, c, g->c, c, g->c, &g->algo, workspace,
                                         WORKSPACE, s->stream), "linear layer");
    return GLOFND_OK;
}

glofnd_status gf_cunn_linear_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return multiply(err, op, GF_CUNN_FORWARD, a->weight, a->x, a->y, a->scratch);
}

glofnd_status gf_cunn_linear_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    TRY(multiply(err, op, GF_CUNN_BACK_WEIGHTS, a->x, a->dy, a->weight_grad, a->scratch));
    return op->shape.input_grad ? multiply(err, op, GF_CUNN_BACK_DATA, a->weight, a->dy, a->dx, a->scratch) : GLOFND_OK;
}
