/* cuda_blas.h - cuBLASLt, opened at run time: a build with CUDA runs where it is missing, and reports that when it is needed.
 * Functions are called through the struct, by their own names. */
#pragma once

#include <cublasLt.h>

#include "util/status.h"

/* clang-format off */
#define GF_CUBLASLT_FUNCTIONS(X)                                                                                       \
    X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtGetVersion) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) \
    X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy)                     \
    X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute)       \
    X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmul)
/* clang-format on */

typedef struct gf_blas_lib {
    void *lib; /* of dlopen; NULL: not opened */
#ifdef __cplusplus
#define GF_X(name) decltype(::name) *name;
#else
#define GF_X(name) __typeof__(name) *name;
#endif
    GF_CUBLASLT_FUNCTIONS(GF_X)
#undef GF_X
} gf_blas_lib;

/* E_UNSUPPORTED: it is missing or too old, and what to do. */
glofnd_status gf_blas_lib_open(gf_error *err, gf_blas_lib *l);
void gf_blas_lib_close(gf_blas_lib *l); /* a zeroed one is fine */
