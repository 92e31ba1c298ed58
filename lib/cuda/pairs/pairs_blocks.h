/* pairs_blocks.h - device memory of one search, freed together. */
#pragma once

#include <cuda_runtime_api.h>
#include <string.h>

enum { GF_BLOCKS_MAX = 40 };

typedef struct gf_pairs_blocks {
    void *at[GF_BLOCKS_MAX];
    int count;
} gf_pairs_blocks;

/* cudaMalloc into the pointer at `at`, unless an earlier call failed with e. */
static inline cudaError_t gf_blocks_take(gf_pairs_blocks *b, cudaError_t e, void *at, size_t bytes) {
    void *p = NULL;
    if (e == cudaSuccess) e = cudaMalloc(&p, bytes > 0 ? bytes : 1);
    if (e == cudaSuccess) b->at[b->count++] = p;
    memcpy(at, &p, sizeof p);
    return e;
}

/* All but the first `keep`. */
static inline void gf_blocks_release(gf_pairs_blocks *b, int keep) {
    while (b->count > keep) cudaFree(b->at[--b->count]);
}
