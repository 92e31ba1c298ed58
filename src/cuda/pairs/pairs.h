/* pairs.h - discovery on the GPU: what its kernels are given, and how they are started.
 *
 * A strip is some anchors (rows) against all embeddings (columns). Its similarities s come from the tensor cores, which see the
 * unit vectors rounded to float16; `slack` bounds how far they can be from the float32 numbers that count. In order:
 *   gf_pairs_brackets   per row an interval that has the rank-th to the reach-th largest similarity, and a bound below the
 *                      `top` largest
 *   gf_pairs_gather     counts what is above whatever the roundings were; lists what could be either
 *   gf_pairs_exact      rows whose list is too short: s in float32, in groups of GF_PAIRS_GROUP rows
 *   gf_pairs_select     float32 values of what is listed; threshold, counts, most similar ones
 *   gf_pairs_compare      with thresholds of both sides: mutual pairs
 * A float32 similarity is one chain of fused multiply-adds over ascending dimensions, as on the CPU: the same bits.
 */
#ifndef GF_CUDA_PAIRS_PAIRS_H
#define GF_CUDA_PAIRS_PAIRS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GF_PAIRS_GROUP 64 /* rows that go together; a strip starts at a multiple of it */
#define GF_PAIRS_TOP 2048 /* most similar ones of a row at most */

typedef struct gf_pairs_side { /* embeddings on the device */
    float *x;                  /* [pad(n)][ld] unit vectors; zeros beyond n and dim */
    void *half;                /* [pad(n)][ld] rounded to float16; NULL: there is no product of the tensor cores */
    float *lost;               /* [n] length of x - half, at most */
    int64_t n;
    int dim, ld;
} gf_pairs_side;

typedef struct gf_pairs_job {
    gf_pairs_side q, k; /* anchors; the others */
    int64_t row0, col0; /* of the strip in q and k */
    int rows;
    float *s; /* [rows][pitch] */
    int64_t pitch;
    float *slack;           /* [rows] */
    float lost_most, chain; /* largest k.lost; what sums of dim products can differ by */
    int64_t rank;           /* 0: no threshold is looked for */
    int64_t reach;          /* rank of the last one that is wanted around the threshold: rank, or `edge` beyond it */
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
    int32_t *dense;   /* [groups of q] 1: a row of the group had too much for its list */
    int32_t *dense_n; /* groups of this strip that have */
    /* results by position in q */
    float *lambda;
    int32_t *above, *hits, *copies, *mutual;
    int32_t *mutual_root, *copy_root; /* forest as in pairs/components.h; NULL: not wanted */
    int32_t *other, *edge_other;      /* [rows][top], [rows][edge] of the strip: the most similar ones; those just not above */
    float *similarity, *edge_similarity;
    /* judge */
    const float *col_lambda; /* [k.n] */
    int half;                /* q is k: only columns after the row's own; both ends are counted */
    int recount;             /* lambda was given: above and hits are counted here */
} gf_pairs_job;

/* Raw rows [rows][dim] to unit vectors from position `first` of `to` on. */
cudaError_t gf_pairs_unit(const float *raw, int64_t rows, int64_t first, const gf_pairs_side *to, cudaStream_t stream);
/* Largest of lost[n] to most[1], which was 0. */
cudaError_t gf_pairs_largest(const float *lost, int64_t n, float *most, cudaStream_t stream);
cudaError_t gf_pairs_slack(const gf_pairs_job *a, cudaStream_t stream);
cudaError_t gf_pairs_brackets(const gf_pairs_job *a, cudaStream_t stream);
cudaError_t gf_pairs_gather(const gf_pairs_job *a, cudaStream_t stream);
/* all: every row; else those of the groups that are dense. Their slack becomes 0. */
cudaError_t gf_pairs_exact(const gf_pairs_job *a, int all, cudaStream_t stream);
/* whole: rows with too much for their list, from s itself, which must be exact; else the others. */
cudaError_t gf_pairs_select(const gf_pairs_job *a, int whole, cudaStream_t stream);
cudaError_t gf_pairs_compare(const gf_pairs_job *a, cudaStream_t stream);
/* Forests of n nodes: every one alone; and every node on the smallest of its tree. */
cudaError_t gf_pairs_forest(int32_t *root, int64_t n, cudaStream_t stream);
cudaError_t gf_pairs_flatten(int32_t *root, int64_t n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
