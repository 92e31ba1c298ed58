/* pairs_kernels.h - discovery on the GPU: arguments and launchers of its kernels.
 *
 * A strip is some anchors (rows) against all embeddings (columns). Its similarities s come from the tensor cores, which read the
 * unit vectors rounded to float16; `slack` bounds their distance from the float32 numbers that count. In order:
 *   gf_pairs_brackets   per row an interval that holds the rank-th to the reach-th largest similarity, and a bound below the
 *                       `top` largest
 *   gf_pairs_gather     counts the pairs that are above for any rounding; lists those that may be either
 *   gf_pairs_exact      rows with more candidates than their list holds: s in float32, in groups of GF_PAIRS_GROUP rows
 *   gf_pairs_select     float32 values of the listed pairs; threshold, counts, most similar ones
 *   gf_pairs_compare    with thresholds of both sides: mutual pairs
 * A float32 similarity is one chain of fused multiply-adds over ascending dimensions, as on the CPU: the same bits.
 */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GF_PAIRS_GROUP 64 /* rows of a group; a strip starts at a multiple of it */
#define GF_PAIRS_TOP 2048 /* `top` at most */

typedef struct gf_pairs_side { /* embeddings on the device */
    float *x;                  /* [pad(n)][ld] unit vectors; zeros beyond n and dim */
    void *half;                /* [pad(n)][ld] rounded to float16; NULL: without tensor cores */
    float *lost;               /* [n] upper bound of the length of x - half */
    int64_t n;
    int dim, ld;
} gf_pairs_side;

typedef struct gf_pairs_job {
    gf_pairs_side q, k; /* anchors; the others */
    int64_t row0, col0; /* of the strip in q and k */
    int rows;
    float *s; /* [rows][pitch] */
    int64_t pitch;
    float *slack;          /* [rows] */
    float lost_max, chain; /* largest k.lost; largest difference between two sums of dim products */
    int64_t rank;          /* 0: no threshold is wanted */
    int64_t reach;         /* rank of the last one that is wanted around the threshold: rank, or `edge` beyond it */
    int top, edge;
    float dup;
    const int32_t *skip;  /* [q.n] column that is the anchor itself; NULL: see self */
    int self;             /* q is k: the anchor is its own column */
    const int32_t *label; /* [k.n] or NULL */
    /* between kernels, by row of the strip */
    float *low, *high, *top_low;
    uint64_t *list;  /* [rows][cap] columns, then keys */
    int32_t *list_n; /* may exceed cap: the list is incomplete */
    int cap;
    int32_t *dense;   /* [groups of q] 1: the list of a row of the group overflowed */
    int32_t *dense_n; /* dense groups of this strip */
    /* results by position in q */
    float *lambda;
    int32_t *above, *hits, *copies, *mutual;
    int32_t *mutual_root, *copy_root; /* forest as in util/components.h; NULL: not wanted */
    int32_t *other,
        *edge_other; /* [rows][top], [rows][edge] of the strip: the most similar ones; those just below the threshold */
    float *similarity, *edge_similarity;
    /* compare */
    const float *col_lambda;            /* [k.n] */
    int64_t row_position, col_position; /* of the first rows of q and k in mutual_root */
    int half;                           /* q is k: only columns after the row's own; both anchors are counted */
    int recount;                        /* lambda was given: count above and hits here */
} gf_pairs_job;

/* Raw rows [rows][dim] to unit vectors of `to`, from position `first` on. */
cudaError_t gf_pairs_unit(const float *raw, int64_t rows, int64_t first, const gf_pairs_side *to, cudaStream_t stream);
/* Writes the largest of lost[n] to max[1], which must be 0 before. */
cudaError_t gf_pairs_largest(const float *lost, int64_t n, float *max, cudaStream_t stream);
cudaError_t gf_pairs_slack(const gf_pairs_job *a, cudaStream_t stream);
cudaError_t gf_pairs_brackets(const gf_pairs_job *a, cudaStream_t stream);
cudaError_t gf_pairs_gather(const gf_pairs_job *a, cudaStream_t stream);
/* all: every row; else those of dense groups. Their slack becomes 0. */
cudaError_t gf_pairs_exact(const gf_pairs_job *a, int all, cudaStream_t stream);
/* dense: rows whose list overflowed, from s itself, which must be exact; else the others. */
cudaError_t gf_pairs_select(const gf_pairs_job *a, int dense, cudaStream_t stream);
cudaError_t gf_pairs_compare(const gf_pairs_job *a, cudaStream_t stream);
/* Forests of n nodes: every node its own tree; and every node set to the root of its tree, the smallest node. */
cudaError_t gf_pairs_forest(int32_t *root, int64_t n, cudaStream_t stream);
cudaError_t gf_pairs_flatten(int32_t *root, int64_t n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
