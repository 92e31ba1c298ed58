/* pairs_collect.h - discovery on the GPU without a matrix of similarities: arguments and launchers of its kernels.
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
#pragma once

#include "cuda/pairs/pairs_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    int top, edge;
    float dup;
    int whole;    /* all pairs above get float32 values */
    int only_dup; /* the most similar ones only as far as they are duplicates */
    int refined;  /* settle: all entries have float32 values */
    /* results [q.n] */
    float *lambda;
    int32_t *above, *hits, *copies, *mutual;
    int32_t *failed, *failed_n;       /* [q.n] rows of q that failed, in any order; how many */
    int32_t *mutual_root, *copy_root; /* by position; NULL: not wanted */
    int32_t *other, *edge_other;      /* [q.n][top], [q.n][edge] */
    float *similarity, *edge_similarity;
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
