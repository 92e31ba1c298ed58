/* seek_product.h - similarities of a strip by the tensor cores: a product of float16 matrices with float32 sums, by cuBLASLt. */
#ifndef GF_CUDA_SEEK_PRODUCT_H
#define GF_CUDA_SEEK_PRODUCT_H

#include "cuda/discover/seek.h"
#include "cuda/nn/cunn_libs.h"

typedef struct gf_seek_product {
    gf_cunn_libs libs;
    cublasLtHandle_t blas;      /* NULL: not opened */
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t wish;
    void *workspace;
} gf_seek_product;

/* E_UNSUPPORTED where cuBLASLt is missing. Close in any case. */
glofnd_status gf_seek_product_open(gf_error *err, gf_seek_product *p);
/* a->s from a->q.half and a->k.half, from column col0 on up to the padding. */
glofnd_status gf_seek_product_run(gf_error *err, gf_seek_product *p, const gf_seek *a, cudaStream_t stream);
void gf_seek_product_close(gf_seek_product *p); /* a zeroed one is fine */

#endif
