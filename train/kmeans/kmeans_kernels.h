/* kmeans_kernels.h - the kernels of k-means; all pointers are device memory. See kmeans_cuda.h. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "pairs/kmeans_move.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gf_kmeans_rows { /* embeddings or centroids */
    int64_t n;
    int dim, ld;   /* ld: numbers of a unit row, a multiple of 16; zeros past dim */
    float *raw;    /* [n][dim] */
    double *scale; /* [n] 1 / length; 0 for zeros */
    float *unit;   /* [n][ld] */
} gf_kmeans_rows;

typedef struct gf_kmeans_groups {
    int64_t groups;
    int32_t *first; /* [groups + 1] places of their embeddings in the order by groups */
    double *sum;    /* [groups][dim] of unit vectors */
    int64_t *size;  /* [groups] */
} gf_kmeans_groups;

/* scale and unit rows of raw, with the CPU's bits. *bad is lowered to the first row that is not finite. */
cudaError_t gf_kmeans_unit(const gf_kmeans_rows *x, int64_t *bad, cudaStream_t stream);
/* to [count][dim] = rows `index` of x->raw. */
cudaError_t gf_kmeans_gather(const gf_kmeans_rows *x, const int64_t *index, int64_t count, float *to, cudaStream_t stream);
/* of [n], best [n]: the most similar centroid, the first of equal ones, and its similarity. confidence [n], or NULL. */
cudaError_t gf_kmeans_assign(const gf_kmeans_rows *x, const gf_kmeans_rows *centre, double tau, int32_t *of, float *best,
                             float *confidence, cudaStream_t stream);
/* *changed = 1 if a and b [n] differ; else it stays. */
cudaError_t gf_kmeans_compare(const int32_t *a, const int32_t *b, int64_t n, int32_t *changed, cudaStream_t stream);
/* first and size of g, from the groups of all embeddings in rising order: sorted [n]. */
cudaError_t gf_kmeans_count(const int32_t *sorted, int64_t n, const gf_kmeans_groups *g, cudaStream_t stream);
/* g->sum; order [n]: embeddings by groups, and within one by rising number. */
cudaError_t gf_kmeans_sum(const gf_kmeans_rows *x, const int32_t *order, const gf_kmeans_groups *g, cudaStream_t stream);
/* Sums and sizes after the moves, one after the other. */
cudaError_t gf_kmeans_apply(const gf_kmeans_rows *x, const gf_kmeans_move *moves, int64_t count, const gf_kmeans_groups *g,
                            cudaStream_t stream);
/* centre [groups][dim] = sum / size. */
cudaError_t gf_kmeans_mean(const gf_kmeans_groups *g, int dim, float *centre, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
