/* pairs_cuda.h - the host's part of discovery on the GPU: device memory, embeddings, products of the tensor cores, and the collector
 * of candidates. */
#pragma once

#include <cuda_runtime_api.h>
#include <string.h>

#include "cuda/cuda_blas.h"
#include "cuda/cuda_device.h"
#include "cuda/pairs/pairs_kernels.h"
#include "pairs/pairs_search.h"

/* ---------- Device memory of one search, freed together ---------- */

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

/* ---------- Products ----------
 *
 * Similarities of a strip on tensor cores: a product of float16 matrices with float32 sums, by cuBLASLt.
 */

typedef struct gf_pairs_product {
    gf_blas_lib libs;
    cublasLtHandle_t blas; /* NULL: not opened */
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t preference;
    void *workspace;
} gf_pairs_product;

/* Computes a->s from a->q.half and a->k.half, from column col0 up to the padding. */
glofnd_status gf_pairs_product_run(gf_error *err, gf_pairs_product *p, const gf_pairs_job *a, cudaStream_t stream);

/* ---------- Embeddings on the GPU, and the tools to compare them ---------- */

typedef struct gf_cuda_pairs {
    gf_pairs_side k;
    float lost_max; /* largest k.lost */
    gf_pairs_product product;
    int fast; /* there is a product of the tensor cores */
    cudaStream_t stream;
} gf_cuda_pairs;

int64_t gf_cuda_pairs_padded(int64_t n); /* to GF_PAIRS_GROUP */
/* Bytes on the device of n embeddings. */
size_t gf_cuda_pairs_embeddings(int64_t n, int64_t dim);
/* Without embeddings; n and dim of those to come. */
glofnd_status gf_cuda_pairs_create(gf_error *err, int64_t n, int64_t dim, gf_cuda_pairs **out);
glofnd_status gf_cuda_pairs_lost_max(gf_error *err, gf_cuda_pairs *c); /* sets it */
void gf_cuda_pairs_close(void *state);                                 /* NULL is fine */
/* Memory for n embeddings, zeros past the last row. Free in any case. */
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

/* ---------- The collector ----------
 *
 * Memory, sample, windows and lists of some anchors.
 */

typedef struct gf_collector {
    gf_cuda_pairs *p;
    gf_pairs_collect c;  /* q, k, first, rank, reach, top, below, dup, ... are set by the user */
    int64_t n, others;   /* all positions; others of an anchor */
    int64_t sample_rows; /* 0: chosen */
    int fast;            /* by tensor cores */
    float chain;         /* gf_collector_chain() */
    int32_t *chosen;     /* [sample.n] positions of the sample */
    gf_pairs_side sample;
    int64_t entries; /* of all lists */
    int64_t *start;  /* [q.n + 1] of lists, on the host */
    gf_pairs_blocks blocks;
} gf_collector;

/* Bytes on the GPU beside the embeddings, about, for all pairs of n rows. reach: rank of the last one around a threshold. */
size_t gf_collector_bytes(int64_t n, int64_t dim, int64_t reach, int64_t top, size_t memory);
/* Chooses the sample: chosen and sample.n. The lists may take `memory` bytes. */
glofnd_status gf_collector_choose(gf_error *err, gf_collector *x, size_t memory);
/* With the sample on the device: memory for the anchors c.q, windows, and lists of at most `limit` entries (0: any number).
 * *fits 0: they take more than `memory` bytes, or than the GPU has. */
glofnd_status gf_collector_begin(gf_error *err, gf_collector *x, size_t memory, int64_t limit, int *fits);
/* Also after a failure; a zeroed one with p is fine. */
void gf_collector_end(gf_collector *x);
/* Upper bound of the difference between two sums of ld products: rounded once each on the CPU, truncated at worst by the tensor
 * cores. */
float gf_collector_chain(int ld);
/* The sweep of c.q against c.k, where k is in memory. */
glofnd_status gf_collector_sweep(gf_error *err, gf_collector *x, const gf_job_progress *watch);
/* Counts, neighbours, thresholds of rows, and trees to the host; NULL in f: not wanted. */
glofnd_status gf_collector_fetch_rows(gf_error *err, gf_collector *x, const gf_pairs_found *f);
glofnd_status gf_collector_fetch_tree(gf_error *err, gf_collector *x, int32_t *root, int32_t *to);
/* After gf_pairs_settle: rows of c.q that failed, rising; free it in any case. */
glofnd_status gf_collector_failed(gf_error *err, gf_collector *x, int32_t **row, int32_t *count);
/* Makes y ready for a sweep of these rows alone, at most gf_collector_group() of them. End it in any case. */
glofnd_status gf_collector_rescue(gf_error *err, gf_collector *x, const int32_t *row, int64_t count, gf_collector *y);
int64_t gf_collector_group(const gf_collector *x);

/* Thresholds, counts but mutual ones, neighbours of an anchor. */
void gf_collector_copy_row(const gf_pairs_found *from, int64_t i, const gf_pairs_found *to, int64_t at);
