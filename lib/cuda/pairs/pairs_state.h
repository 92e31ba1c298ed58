/* pairs_state.h - embeddings on the GPU and the tools to compare them: the state behind gf_pairs_search_cuda. */
#pragma once

#include "cuda/pairs/pairs_product.h"
#include "cuda/cuda_device.h"
#include "pairs/pairs_stream.h"

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
/* Without embeddings; n and dim of those to come. */
glofnd_status gf_cuda_pairs_create(gf_error *err, int64_t n, int64_t dim, gf_cuda_pairs **out);
glofnd_status gf_cuda_pairs_lost_max(gf_error *err, gf_cuda_pairs *c); /* sets it */
void gf_cuda_pairs_close(void *state);                                 /* NULL is fine */
/* Embeddings of out->dim numbers to the device. Free in any case. */
glofnd_status gf_cuda_pairs_side(gf_error *err, gf_cuda_pairs *c, const gf_vectors *v, gf_pairs_side *out);
/* The same without numbers, but zeros past the last row. Free in any case. */
glofnd_status gf_cuda_pairs_side_alloc(gf_error *err, gf_cuda_pairs *c, int64_t n, int64_t dim, gf_pairs_side *s);
void gf_cuda_pairs_side_free(gf_pairs_side *s); /* a zeroed one is fine */

extern const gf_stream_search gf_cuda_pairs_stream;

static inline glofnd_status gf_cuda_try(gf_error *err, cudaError_t e, const char *what) {
    return e == cudaSuccess ? GLOFND_OK : gf_cuda_fail(err, e, what);
}

enum { GF_FOUND_NOTHING, GF_FOUND_TOO_LITTLE, GF_FOUND_BUT_MUTUAL, GF_FOUND_ALL };
/* find, by one sweep that collects candidates. *done: how much was found. Nothing: it cannot be done this way; too little: it was
 * tried. */
glofnd_status gf_cuda_pairs_find_collected(gf_error *err, gf_cuda_pairs *p, const gf_pairs_task *t, gf_pairs_found *f, int *done);
