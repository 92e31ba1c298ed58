/* pairs_kernels.h - discovery on the GPU: arguments and launchers of its kernels. There are two ways to the thresholds: strips of
 * similarities in memory, and one sweep that collects candidates. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------- Strips ----------
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
    int64_t reach;         /* rank of the last one that is wanted around the threshold: rank, or `below` beyond it */
    int top, below;
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
        *below_other; /* [rows][top], [rows][below] of the strip: the most similar ones; those just below the threshold */
    float *similarity, *below_similarity;
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

/* ---------- One sweep without a matrix of similarities ----------
 *
 *
 * Every anchor has a window, guessed from its similarities to a sample of the rows: its threshold lies inside, up to a
 * probability that is checked later. One sweep over the pairs counts what is above a window and lists what is inside. In order:
 *   gf_pairs_windows     windows, and how long the lists will be
 *   gf_pairs_collect_*   the sweep; similarities of the tensor cores, at most `slack` away from the float32 numbers that count
 *   gf_pairs_settle      per anchor: float32 values where they decide; threshold, counts, most similar ones. An anchor whose
 *                        window or list was too small fails: it is computed in another way
 *   gf_pairs_agree       mutual ones among the listed pairs, with all thresholds known
 * Positions are below 2^29: an entry of a list is a similarity above flags and a position.
 */

#define GF_COLLECT_MAX ((int64_t)1 << 29)
#define GF_COLLECT_ALIGN 256 /* rows are padded to it in `min` */

/* Lower half of an entry. */
#define GF_ENTRY_OTHER_ABOVE 0x80000000u /* certainly above the threshold of the other end */
#define GF_ENTRY_EXACT 0x40000000u       /* a float32 similarity */
#define GF_ENTRY_CERTAIN 0x20000000u     /* above the anchor's own window */
#define GF_ENTRY_POSITION 0x1fffffffu

typedef struct gf_pairs_window {
    float low, high; /* similarities that are listed, as their rounding may put them on either side of the threshold */
    float list_low;  /* from here on all are listed: the most similar ones, duplicates */
    float min;       /* less changes nothing */
} gf_pairs_window;

typedef struct gf_pairs_collect {
    gf_pairs_side q, k;
    int64_t first, col0;     /* position of the first row of q; of k */
    const int32_t *position; /* [q.n] rising; NULL: first and following ones */
    int64_t band0, band_n;   /* rows of q in this launch: from a multiple of GF_COLLECT_ALIGN on */
    int both;                /* q is k: every pair once, for both of its ends */
    gf_pairs_window *window; /* [q.n] */
    float *min;              /* [padded q.n] as in the windows, infinite beyond */
    float *slack;            /* [q.n] */
    const int64_t *start;    /* [q.n + 1] of an anchor's list in `entry` */
    int32_t *count;          /* [q.n] its entries; more than fit: it is incomplete */
    uint64_t *entry;
    const int32_t *label; /* by position, or NULL */
    int64_t rank, reach;  /* as in gf_pairs_job; rank 0: no thresholds */
    int top, below;
    float dup;
    int whole;    /* all pairs above get float32 values */
    int only_dup; /* the most similar ones only as far as they are duplicates */
    int refined;  /* settle: all entries have float32 values */
    /* results [q.n] */
    float *lambda;
    int32_t *above, *hits, *copies, *mutual;
    int32_t *failed, *failed_n;       /* [q.n] rows of q that failed, in any order; how many */
    int32_t *mutual_root, *copy_root; /* by position; NULL: not wanted */
    int32_t *other, *below_other;     /* [q.n][top], [q.n][below] */
    float *similarity, *below_similarity;
} gf_pairs_collect;

typedef struct gf_pairs_sampling {
    int64_t rank, reach, top; /* ranks in the sample: above the window; below it; below the most similar ones. 0: infinite */
    double share;             /* rows that one of the sample stands for */
    int64_t others;           /* of an anchor, at most */
} gf_pairs_sampling;

/* Windows of the rows of a strip against a sample (a: its similarities, slack, dup), at row0 of `c`. need [q.n]: entries. */
cudaError_t gf_pairs_windows(const gf_pairs_job *a, const gf_pairs_collect *c, const gf_pairs_sampling *p, int32_t *need,
                             cudaStream_t stream);
/* Windows that let everything in, for anchors whose own failed; also min. */
cudaError_t gf_pairs_wide_windows(const gf_pairs_collect *c, float lost_max, float chain, cudaStream_t stream);
/* Sets min of all rows from their windows. */
cudaError_t gf_pairs_window_min(const gf_pairs_collect *c, cudaStream_t stream);
/* Rows of `from` at the positions row [to->n], to another side. */
cudaError_t gf_pairs_take_rows(const gf_pairs_side *from, const int32_t *row, const gf_pairs_side *to, cudaStream_t stream);
/* 1: the fused sweep runs on this GPU. */
int gf_pairs_can_fuse(void);
cudaError_t gf_pairs_collect_fused(const gf_pairs_collect *c, cudaStream_t stream);
/* The same from the similarities of a strip, whose row row0 is row a->row0 of q. */
cudaError_t gf_pairs_collect_strip(const gf_pairs_job *a, const gf_pairs_collect *c, cudaStream_t stream);
/* Float32 values of the entries [done, count) of every list, whose columns are in k; done [q.n] is raised to count. */
cudaError_t gf_pairs_refine(const gf_pairs_collect *c, int32_t *done, cudaStream_t stream);
/* others: of an anchor. */
cudaError_t gf_pairs_settle(const gf_pairs_collect *c, int64_t others, cudaStream_t stream);
cudaError_t gf_pairs_agree(const gf_pairs_collect *c, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
