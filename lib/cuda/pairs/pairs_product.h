/* pairs_product.h - similarities of a strip on tensor cores: a product of float16 matrices with float32 sums, by cuBLASLt. */
#pragma once

#include "cuda/pairs/blas_lib.h"
#include "cuda/pairs/pairs_kernels.h"

typedef struct gf_pairs_product {
    gf_blas_lib libs;
    cublasLtHandle_t blas; /* NULL: not opened */
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t preference;
    void *workspace;
} gf_pairs_product;

/* E_UNSUPPORTED where cuBLASLt is missing. Close in any case. */
glofnd_status gf_pairs_product_open(gf_error *err, gf_pairs_product *p);
/* Computes a->s from a->q.half and a->k.half, from column col0 up to the padding. */
glofnd_status gf_pairs_product_run(gf_error *err, gf_pairs_product *p, const gf_pairs_job *a, cudaStream_t stream);
void gf_pairs_product_close(gf_pairs_product *p); /* a zeroed one is fine */
