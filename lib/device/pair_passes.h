/* pair_passes.h - the operations of a step that look at all pairs of a batch, and their data.
 *
 * The method (lib/method/step.c) decides in O(batch) scalars; a device makes the O(batch^2) similarities, in tiles that are
 * dropped at once. A pass is a product of row embeddings q with column embeddings k:
 *   select     per row an exact order statistic: FNC, first thresholds, the ring
 *   count      per row, pairs above the old lambda, where lambda moves before the sums
 *   mark       bits of the flagged pairs, where similarities of averages decide
 *   sum        per row, the sum of exp(S/tau) and the count of what lies at or below lo, and a list of what lies in (lo, hi]
 *   close      with lo = hi, the new lambda: the lists join the sums
 *   gradient   weights P of every pair from theta and log_w of its row (and its column), then dQ += P K, dK += P'Q
 *   mask       the pairs that are kept, for inspection
 * "Row role": a pair as seen from its row's anchor. "Column role": the same pair as seen from its column's anchor. Where both
 * are wanted each similarity is computed once.
 */
#pragma once

#include "method/formulas/plan.h"
#include "util/dtype.h"
#include "util/host_device.h"
#include "util/status.h"

#define GF_PANEL 32 /* columns per packed panel; rows of every matrix are padded to a multiple of it */

static inline int64_t gf_pad(int64_t rows) { return (rows + GF_PANEL - 1) / GF_PANEL * GF_PANEL; }

/* ----- embeddings ----- */

/* Embeddings of the caller: rows of `dtype` numbers, `stride` numbers apart. */
typedef struct gf_source {
    const void *rows;
    int64_t stride;
    glofnd_dtype dtype;
} gf_source;

/* Unit embeddings, twice: row-major for the left side of a product, packed in panels for the right side. Padding is zero. */
typedef struct gf_embed {
    int64_t rows;
    int64_t dim, ld; /* ld: floats per row, gf_cpu_embed_ld */
    float *row;      /* [pad(rows)][ld] */
    float *col;      /* [pad(rows) / GF_PANEL][dim][GF_PANEL]; NULL where it is only a left side */
    /* The same rounded to bf16, two numbers in a word; NULL: products are of float32. */
    int64_t ld16;    /* words per row: gf_cpu_embed_ld16 */
    uint32_t *row16; /* [pad(rows)][ld16] */
    uint32_t *col16; /* [pad(rows) / GF_PANEL][(dim + 1) / 2][GF_PANEL] */
    uint32_t *pair;  /* [pad(rows) / 2][ld] a word: the numbers of two rows */
} gf_embed;

/* ----- a pass over all pairs ----- */

typedef struct gf_pass {
    gf_embed q, k;
    gf_embed score; /* GF_TIE: left side of the score product; row NULL: q */
    int64_t q0;     /* position of q's first row in the global batch; k holds all of it */
    int shift;      /* rows r, c are of one sample iff (q0 + r) >> shift == c >> shift: never a pair. -1: all are pairs */
    const int32_t *row_key, *col_key; /* NULL, or rows and columns of one key >= 0 are no pair, either */
    int symmetric;                    /* q is k and rows are columns: every unordered pair once */
    int col_role;                     /* sum: also for the columns' anchors. gradient: P holds their weights too */
    unsigned flags;                   /* GF_MASK .. of formulas/plan.h */
    float omega;
    int64_t tile;  /* rows of a tile */
    float *tiles;  /* GF_KEEP_TILES, GF_REUSE_TILES */
    void *scratch; /* scratch_bytes(...) bytes */
    int threads;
} gf_pass;

/* Numbers of rows; arrays are padded as the embeddings, what a pass does not use may be NULL. */

typedef struct gf_sum_in { /* what count, sum and close read */
    float *inv_tau;
    float bias;           /* GF_SIGMOID */
    float *lo, *hi;       /* S <= lo is kept, S > hi is flagged, in between goes to the window list */
    float *mid;           /* old lambda, lo <= mid <= hi: `above` counts the pairs above it, window_le the list up to it */
    const int32_t *group; /* GF_GROUP: pairs of one group >= 0 are flagged */
    int32_t *tie;         /* GF_TIE: keep iff score < lo, or score == lo and column > tie */
    uint32_t *marks;      /* GF_MARKS: [rows][marks_ld] bit per column: keep iff it is 0 */
    int64_t marks_ld;     /* words per row */
} gf_sum_in;

typedef struct gf_sum_out { /* what they write */
    double *sum;            /* of exp(inv_tau S - peak) over the kept, plus omega times that over the flagged */
    double *moment;         /* the same, times S */
    double *flagged_s;      /* sum of S over the flagged */
    /* GF_SIGMOID, x = inv_tau S + bias: sum is of log(1 + exp(x)) under these weights, less x for the flagged with GF_ATTRACT;
       flagged_s and moment are of the slopes of these terms, and of the slopes times S. */
    float *peak; /* GF_SHIFT: running maximum of inv_tau S over the summed; else 0 */
    int32_t *kept;
    int32_t *above;     /* GF_GROUP, count: pairs with S > mid, whatever their group, added to what is there */
    float *window;      /* [rows][window_cap] */
    int32_t *window_n;  /* may exceed window_cap: then the list is incomplete */
    int32_t *window_le; /* entries <= mid, counted also beyond the cap */
} gf_sum_out;

typedef struct gf_sum_pass {
    gf_pass pairs;
    gf_sum_in row, col;
    gf_sum_out row_out, col_out;
    int64_t window_cap;
} gf_sum_pass;

typedef struct gf_grad_in { /* what gradient and mask read */
    float *inv_tau;
    float *theta, *floor; /* keep iff (S <= theta and not of one group) or S <= floor */
    int32_t *group;       /* GF_GROUP */
    int32_t *label;       /* GF_QUALITY: quality is measured against it */
    int32_t *tie;         /* GF_TIE: keep iff score < theta, or score == theta and column > tie */
    uint32_t *marks;      /* GF_MARKS: [rows][marks_ld] bit per column: keep iff it is 0, or S <= floor */
    uint32_t *marks_col;  /* the same, flagged by the column's anchor; with col_role */
    int64_t marks_ld;     /* words per row */
    float *log_w, *w;     /* weight of a kept pair: exp(inv_tau S + log_w); w = exp(log_w) without GF_SHIFT */
    float *attract;       /* GF_ATTRACT: subtracted from the weight of a flagged pair. GF_SIGMOID: a kept pair weighs
                             attract sigma(inv_tau S + log_w) */
    float *align;         /* GF_COLSUM: similarity to the positive */
} gf_grad_in;

typedef struct gf_grad_out {      /* what gradient writes */
    float *grad;                  /* [pad(rows)][ld] accumulated; NULL: not wanted */
    int32_t *same, *hits;         /* GF_QUALITY: negatives of one label; of these, flagged */
    double *col_sum, *col_moment; /* GF_COLSUM: the column role's W and W (S - align), summed over the row */
} gf_grad_out;

typedef struct gf_gradient_pass {
    gf_pass pairs;
    gf_grad_in row, col;
    gf_grad_out row_out, col_out;
} gf_gradient_pass;

typedef struct gf_marking {               /* beside the gf_pass that makes S */
    const float *row_theta;               /* [rows] */
    const float *col_theta;               /* [columns]; NULL: marks_col is not wanted, nor is mutual */
    int mutual;                           /* both ends of a pair have the larger one of their thresholds */
    const int32_t *row_group, *col_group; /* per row and column; negative: none */
    uint32_t *marks, *marks_col;          /* out, as gf_grad_in; NULL: not wanted */
    int64_t marks_ld;
} gf_marking;

/* 1: an anchor with threshold theta marks a pair of similarity s, of the given groups. */
GF_HD int gf_mark_pair(float s, float theta, int32_t group, int32_t other_group) {
    return s > theta || (group >= 0 && group == other_group);
}

/* ----- selection ----- */

/* Per row a list of its largest similarities, made while tiles are visited (cpu/cpu_passes.c). */
typedef struct gf_lists {
    float *value;    /* [rows][capacity] */
    int32_t *column; /* [rows][capacity] of each value; NULL: not wanted */
    int32_t *count;  /* [rows] */
    float *limit;    /* [pad(rows)] the list has all values above it */
    int64_t capacity;
} gf_lists;

/* Rows of embeddings as 16-bit integers (cpu/kernels/tile.h): their products are faster, and wrong by a known bound. */
typedef struct gf_rounded {
    int64_t ld;         /* words per row: gf_cpu_embed_ld16 */
    uint32_t *row;      /* [pad(rows)][ld]; NULL: not wanted */
    uint32_t *col;      /* [pad(rows) / GF_PANEL][(dim + 1) / 2][GF_PANEL] */
    float *step, *lost; /* [pad(rows)] what a 1 stands for; the length of what rounding took */
} gf_rounded;

typedef struct gf_select { /* order statistics of row r among its columns, by descending value */
    const gf_embed *q, *k;
    int64_t q0;
    int shift;                      /* as gf_pass; -1: no pair is left out */
    int64_t best;                   /* value[] gets the best-th largest, 1 <= best <= columns of a row ... */
    double fraction;                /* ... moved by this share towards the next larger one */
    const int64_t *row_id, *col_id; /* both or neither: columns with the row's id are left out, and best is the largest of 1 and
                                       alpha times what is left, rounded; `best` then only bounds it */
    double alpha;
    const gf_embed *more;                        /* NULL, or further columns behind those of k; no rounded rows then */
    const int32_t *row_key, *col_key, *more_key; /* NULL, or as gf_pass; more_key: of the further columns */
    const int32_t
        *unpaired;     /* NULL, or row r has only so many columns less: best and fraction are then those of the quantile ... */
    int64_t negatives; /* ... of alpha among the rest of these */
    int round_up;      /* with ids: rounded up instead */
    int smallest;      /* instead: value[] gets the smallest, equals[] how many equal it */
    float *value;      /* out [rows] */
    int32_t *tie;      /* out, or NULL: the column up to which values equal to value[] are among the best */
    int32_t *equals;   /* out, with `smallest` */
    void *scratch;     /* select_bytes(...) */
    int threads;
    /* Where the rows are selected from lists: */
    gf_lists lists;     /* capacity 0: no lists */
    int symmetric;      /* q is k: each similarity is computed once, for both of its rows */
    int64_t tile;       /* as gf_pass */
    void *tile_scratch; /* as gf_pass.scratch */
    float *tiles;       /* NULL, or the tiles stay there for the passes that follow (GF_REUSE_TILES) */
    gf_rounded rounded; /* with `symmetric`, lists with columns, no tie and no tiles: candidates come from products of integers */
} gf_select;

/* ----- the operations, for one device ----- */

typedef struct gf_pair_ops {
    /* Fills e->row from h [rows]: row r of h goes to row first + r * step, so that two views interleave. norm [..] gets |h| at
     * the same places, or 1 without normalize; NULL: not wanted. Returns the first bad row (not finite, not unit without
     * normalize) or -1. */
    int64_t (*embed)(const gf_embed *e, const gf_source *h, int64_t rows, int64_t first, int64_t step, int normalize, float *norm,
                     int threads);
    /* After all rows are in: the packed copy, and the rounded ones where e->row16 is not NULL. */
    void (*pack)(const gf_embed *e, int threads);
    void (*select)(const gf_select *p);
    void (*count)(const gf_sum_pass *p);
    void (*mark)(const gf_pass *p, const gf_marking *m);
    void (*sum)(const gf_sum_pass *p);
    void (*close)(const gf_sum_pass *p);
    void (*gradient)(const gf_gradient_pass *p);
    void (*mask)(const gf_gradient_pass *p, uint8_t *keep, int64_t keep_ld); /* keep [rows][keep_ld] bytes, one per column */
} gf_pair_ops;
