/* cunn_libs.h - cuDNN and cuBLASLt, opened at run time: a build with CUDA runs where they are missing, and reports that when they
 * are needed. Functions are called through the struct, by their own names. */
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "cuda/cuda_blas.h"

/* clang-format off */
#define GF_CUDNN_FUNCTIONS(X)                                                                                          \
    X(cudnnCreate) X(cudnnDestroy) X(cudnnSetStream) X(cudnnGetVersion) X(cudnnGetErrorString) X(cudnnGetLastErrorString) \
    X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor) X(cudnnBackendSetAttribute)                       \
    X(cudnnBackendGetAttribute) X(cudnnBackendFinalize) X(cudnnBackendExecute)
/* clang-format on */

typedef struct gf_cunn_libs {
    void *dnn, *blas; /* of dlopen */
#ifdef __cplusplus
#define GF_X(name) decltype(::name) *name;
#else
#define GF_X(name) __typeof__(name) *name;
#endif
    GF_CUDNN_FUNCTIONS(GF_X)
    GF_CUBLASLT_FUNCTIONS(GF_X)
#undef GF_X
} gf_cunn_libs;

/* E_UNSUPPORTED names the library that is missing, or too old, and what to do. */
glofnd_status gf_cunn_libs_open(gf_error *err, gf_cunn_libs *l);
void gf_cunn_libs_close(gf_cunn_libs *l);
