/* pairs_product.c - similarities of a strip by cuBLASLt: see pairs_cuda.h. It is column-major, so it computes the transpose of s, s' = k q'. */
#include "cuda/pairs/pairs_cuda.h"

#include <string.h>

#define WORKSPACE ((size_t)64 << 20)

#define BLAS_TRY(err, call, at)                                                                                     \
    do {                                                                                                            \
        const cublasStatus_t blas_try_ = (call);                                                                    \
        FAIL_IF(err, blas_try_ != CUBLAS_STATUS_SUCCESS, GLOFND_E_DEVICE, "cuBLASLt: %s failed with status %d", at, \
                (int)blas_try_);                                                                                    \
    } while (0)

glofnd_status gf_pairs_product_open(gf_error *err, gf_pairs_product *p) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const size_t max = WORKSPACE;
    memset(p, 0, sizeof *p);
    TRY(gf_blas_lib_open(err, &p->libs));
    const gf_blas_lib *l = &p->libs;
    BLAS_TRY(err, l->cublasLtCreate(&p->blas), "opening it");
    BLAS_TRY(err, l->cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
    BLAS_TRY(err, l->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
             "a product");
    BLAS_TRY(err, l->cublasLtMatmulPreferenceCreate(&p->preference), "a preference");
    BLAS_TRY(err,
             l->cublasLtMatmulPreferenceSetAttribute(p->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &max, sizeof max),
             "a preference");
    const cudaError_t e = cudaMalloc(&p->workspace, WORKSPACE);
    FAIL_IF(err, e != cudaSuccess, GLOFND_E_MEMORY, "no memory for products on the GPU: %s", cudaGetErrorString(e));
    return GLOFND_OK;
}

static int64_t padded(int64_t n) { return (n + GF_PAIRS_GROUP - 1) / GF_PAIRS_GROUP * GF_PAIRS_GROUP; }

static glofnd_status multiply(gf_error *err, gf_pairs_product *p, const gf_pairs_job *a, const cublasLtMatrixLayout_t *m,
                              cudaStream_t stream) {
    const gf_blas_lib *l = &p->libs;
    const uint16_t *k = a->k.half, *q = a->q.half;
    const float one = 1.0f, zero = 0.0f;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    BLAS_TRY(err, l->cublasLtMatmulAlgoGetHeuristic(p->blas, p->desc, m[0], m[1], m[2], m[2], p->preference, 1, &found, &count),
             "choice of an algorithm");
    FAIL_IF(err, count < 1, GLOFND_E_UNSUPPORTED, "cuBLASLt has no algorithm for %d x %lld similarities of %d numbers", a->rows,
            (long long)(a->k.n - a->col0), a->k.dim);
    BLAS_TRY(err,
             l->cublasLtMatmul(p->blas, p->desc, &one, k + a->col0 * a->k.ld, m[0], q + a->row0 * a->q.ld, m[1], &zero, a->s,
                               m[2], a->s, m[2], &found.algo, p->workspace, WORKSPACE, stream),
             "a product");
    return GLOFND_OK;
}

glofnd_status gf_pairs_product_run(gf_error *err, gf_pairs_product *p, const gf_pairs_job *a, cudaStream_t stream) {
    const gf_blas_lib *l = &p->libs;
    const uint64_t cols = (uint64_t)(padded(a->k.n) - a->col0), rows = (uint64_t)a->rows, ld = (uint64_t)a->k.ld;
    cublasLtMatrixLayout_t m[3] = {NULL, NULL, NULL};
    cublasStatus_t made = l->cublasLtMatrixLayoutCreate(&m[0], CUDA_R_16F, ld, cols, a->k.ld);
    if (made == CUBLAS_STATUS_SUCCESS) made = l->cublasLtMatrixLayoutCreate(&m[1], CUDA_R_16F, ld, rows, a->q.ld);
    if (made == CUBLAS_STATUS_SUCCESS) made = l->cublasLtMatrixLayoutCreate(&m[2], CUDA_R_32F, cols, rows, a->pitch);
    const glofnd_status status = made == CUBLAS_STATUS_SUCCESS
                                     ? multiply(err, p, a, m, stream)
                                     : gf_fail(err, GLOFND_E_DEVICE, "cuBLASLt: a matrix failed with status %d", (int)made);
    for (int i = 0; i < 3; i++)
        if (m[i]) l->cublasLtMatrixLayoutDestroy(m[i]);
    return status;
}

void gf_pairs_product_close(gf_pairs_product *p) {
    const gf_blas_lib *l = &p->libs;
    if (p->preference) l->cublasLtMatmulPreferenceDestroy(p->preference);
    if (p->desc) l->cublasLtMatmulDescDestroy(p->desc);
    if (p->blas) l->cublasLtDestroy(p->blas);
    cudaFree(p->workspace);
    gf_blas_lib_close(&p->libs);
    memset(p, 0, sizeof *p);
}
