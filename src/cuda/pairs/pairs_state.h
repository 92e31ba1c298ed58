/* pairs_state.h - embeddings on the GPU and the tools to compare them: the state behind gf_pairs_search_cuda. */
#pragma once

#include "cuda/pairs/pairs_product.h"
#include "cuda/step/cuda_device.h"
#include "pairs/pairs_search.h"

typedef struct gf_cuda_pairs {
    gf_pairs_side k;
    float lost_max; /* largest k.lost */
    gf_pairs_product product;
    int fast; /* there is a product of the tensor cores */
    cudaStream_t stream;
} gf_cuda_pairs;

#define PAIRS_TRY(err, call, what)                                                     \
    do {                                                                               \
        const cudaError_t pairs_try_ = (call);                                         \
        if (pairs_try_ != cudaSuccess) return gf_cuda_fail((err), pairs_try_, (what)); \
    } while (0)

int64_t gf_cuda_pairs_padded(int64_t n); /* to GF_PAIRS_GROUP */
/* Bytes on the device of n embeddings. */
size_t gf_cuda_pairs_embeddings(int64_t n, int64_t dim);
glofnd_status gf_cuda_pairs_open(gf_error *err, const gf_vectors *rows, int threads, void **state);
void gf_cuda_pairs_close(void *state); /* NULL is fine */
/* Embeddings of out->dim numbers to the device. Free in any case. */
glofnd_status gf_cuda_pairs_side(gf_error *err, gf_cuda_pairs *c, const gf_vectors *v, gf_pairs_side *out);
void gf_cuda_pairs_side_free(gf_pairs_side *s); /* a zeroed one is fine */
