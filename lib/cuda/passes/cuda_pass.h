/* cuda_pass.h - the passes over all pairs of a batch on device memory, queued on a stream.
 *
 * A pass is a product of row embeddings q with column embeddings k, in tiles that are dropped at once:
 *   select   pass A: per row an exact order statistic: FNC, initial thresholds, the ring
 *   count    pairs above mid, where lambda is updated before pass B
 *   stats    pass B: per row sums and counts of what lies at or below lo
 *   grad     pass C: weights P of every pair from theta and log_w of its row (and its column), then P K
 *   mark     bits of the flagged pairs, where more than one threshold decides (GF_MARKS)
 *   mask     the pairs that are kept, for inspection
 * Flags and their meaning are those of the CPU (method/formulas/plan.h, device/pair_passes.h). No call waits for the device, takes
 * memory, or reads a device value on the host; so a step can be captured in a graph. Differences from the CPU:
 *   - Outputs are overwritten, not added to: nothing needs clearing before a pass.
 *   - There are no windows: S <= lo is kept, the rest is flagged. Where lambda has to move first, `count` counts the pairs above
 *     mid; or `move` does count, update and stats with one product, where each row is the work of one thread block or two.
 *   - Every row block runs over all columns and keeps its sums to itself, or partial sums go to `buffer` and are added up in a
 *     fixed order: no floating atomics, same bits every time. Only `row` gets results. Where the columns' anchors have sums or
 *     gradients too, they are the rows of another call (two sides), or of the same one (q is k). S_rc and S_cr have the same
 *     bits.
 *   - Grad with col_role: P holds what both anchors give to the pair, so row->grad is the whole gradient of the row. GF_TIE is
 *     allowed there: the columns' flags come from `col_score` and col->tie.
 *   - Nothing past the last row of an array is read or written, except that embeddings have rows of `ld` numbers, zero past dim.
 * All passes of one step use one `math`: thresholds made by select and flags made by stats and grad then see the same bits. Not
 * so with SPLIT and more than 512 dimensions: what only kernels for any flags can do is exact there, and differs by 2^-16.
 */
#pragma once

#include <cuda_runtime_api.h>

#include "device/pair_passes.h"
#include "method/formulas/lambda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gf_cuda_math {
    GF_CUDA_EXACT, /* float32 products and sums, no tensor cores: the reference, and the golden replay */
    GF_CUDA_BF16,  /* operands rounded to bf16, sums in float32 */
    GF_CUDA_SPLIT  /* hi and lo halves in bf16, three products: float32 to about 2^-16; for small temperatures */
} gf_cuda_math;

typedef struct gf_cuda_matrix {
    int64_t rows, dim, ld; /* ld: gf_cuda_embed_ld(dim) */
    float *row;            /* [rows][ld], zero past dim */
} gf_cuda_matrix;

typedef struct gf_cuda_embed { /* unit embeddings */
    gf_cuda_matrix f32;
    void *hi, *lo; /* bf16 [rows][ld]; lo only with SPLIT, neither with EXACT */
} gf_cuda_embed;

/* Numbers per row of one side; what a pass does not use may be NULL. */
typedef struct gf_cuda_rows {
    /* in */
    float *inv_tau;
    int32_t *group;              /* pairs of one group >= 0 are flagged; NULL: no groups */
    int32_t *label;              /* quality is measured against it */
    float *mid;                  /* count: the old lambda */
    float *lo;                   /* stats: S <= lo is kept */
    float *theta, *floor;        /* grad: keep iff (S <= theta and not of one group) or S <= floor */
    int32_t *tie;                /* GF_TIE: keep iff score < lo (theta), or score == lo (theta) and column > tie */
    uint32_t *marks, *marks_col; /* GF_MARKS: [rows][marks_ld] bit per column: flagged by the row's anchor; by the column's */
    int64_t marks_ld;            /* words per row */
    float *log_w, *w; /* grad: a kept pair weighs exp(inv_tau S + log_w); w = exp(log_w), with a fixed peak: see gf_cuda_tau */
    float *attract;   /* GF_ATTRACT: subtracted from the weight of a flagged pair. GF_SIGMOID: as in gf_grad_in */
    float *align;     /* GF_COLSUM: similarity to the positive */
    /* out: count, stats */
    int32_t *above;       /* pairs with S > mid, whatever their group */
    double *sum, *moment; /* of exp(inv_tau S - peak) over the kept, plus omega times that over the flagged; the same, times S */
    double *flagged_s;    /* sum of S over the flagged. GF_SIGMOID: as in gf_sum_out, also sum and moment */
    float *peak;          /* GF_SHIFT: maximum of inv_tau S over the summed, or the fixed one; else 0 */
    int32_t *kept;
    /* out: grad */
    float *grad;                  /* [rows][ld]; NULL: not wanted */
    double *col_sum, *col_moment; /* GF_COLSUM: the column role's W and W (S - align), summed over the row */
    int32_t *same, *hits;         /* GF_QUALITY: negatives of one label; of these, flagged */
} gf_cuda_rows;

/* GF_SHIFT: what is known of the temperature. With one for all rows and 1/tau <= GF_FIXED_LIMIT, kernels may write sums relative
 * to the fixed peak gf_fixed_peak(1/tau) instead of each row's own, and read w = exp(log_w + that) instead of log_w. */
typedef enum gf_cuda_tau { GF_TAU_ANY, GF_TAU_ONE, GF_TAU_ON_DEVICE } gf_cuda_tau; /* ON_DEVICE: one; only the device knows it */
#define GF_FIXED_LIMIT 100.0f

typedef struct gf_cuda_pass {
    const gf_cuda_embed *q, *k;
    const gf_cuda_embed *score, *col_score; /* GF_TIE: embeddings that score instead of q and k; NULL: q and k. EXACT only */
    int64_t q0;                             /* position of q's first row in the global batch; k holds all of it */
    int shift;                              /* rows r, c are of one sample iff (q0 + r) >> shift == c >> shift: never a pair */
    const int32_t *row_key, *col_key; /* NULL, or rows and columns of one key >= 0 are no pair, either: kernels of their own */
    const gf_cuda_rows *row, *col;
    int col_role; /* grad: P holds the weights of the columns' anchors, too */
    unsigned flags;
    float omega;
    float bias;           /* GF_SIGMOID, stats ... */
    const float *bias_at; /* ... or where it is; NULL: there */
    gf_cuda_math math;
    gf_cuda_tau tau;
    void *buffer; /* count, stats: for partial sums; grad: for weights of some rows. NULL: only kernels that need none */
    size_t buffer_bytes;
    void *scratch; /* mark: gf_cuda_select_scratch bytes; mask: twice that */
} gf_cuda_pass;

/* What moves lambda between count and stats: one update per anchor. */
typedef struct gf_cuda_moving {
    gf_learner learner;
    gf_foresight foresight;
    int per_sample;          /* rows of an anchor */
    int64_t negatives[2];    /* of a row of each side */
    glofnd_anchor *fresh[2]; /* [anchors] state of each side, in and out */
    const uint8_t *open[2];  /* [anchors] 0: its lambda stays */
} gf_cuda_moving;

typedef struct gf_cuda_select { /* order statistics of row r of q among its columns, by descending value */
    const gf_cuda_embed *q, *k;
    int64_t q0;
    int shift;                      /* as gf_cuda_pass; -1: no pair is left out */
    int64_t best;                   /* value[] gets the best-th largest, 1 <= best <= columns of a row ... */
    double fraction;                /* ... moved by this share towards the next larger one */
    const int64_t *row_id, *col_id; /* both or neither: columns with the row's id are left out, and best is the largest of 1 and
                                       alpha times what is left, rounded; `best` then only bounds it */
    double alpha;
    const int32_t *row_key, *col_key; /* NULL, or as gf_cuda_pass ... */
    const int32_t *unpaired; /* ... and row r has so many columns less: where there are some, best and fraction are those of
                                         the quantile of alpha among the rest of ... */
    int64_t negatives;       /* ... these */
    int round_up;            /* with ids: rounded up instead */
    float *value;            /* out [rows] */
    int32_t *tie;            /* out, or NULL: the column up to which values equal to value[] are among the best */
    void *scratch;           /* gf_cuda_select_scratch bytes */
    const uint8_t *
        wanted; /* [samples of q, by shift]; 0: its values need not be computed, as a captured graph must decide. NULL: all are */
    const int64_t *live; /* columns from *live on do not count. NULL: all do */
    gf_cuda_math math;
} gf_cuda_select;

/* A pair is marked, from either end, if it lies above that end's threshold (mutual: above both), or both ends are of one group. */
typedef struct gf_cuda_marking {
    const float *row_theta;               /* [rows] */
    const float *col_theta;               /* [cols]; NULL: marks_col of the rows are not wanted */
    const int32_t *row_group, *col_group; /* negative: none */
    int mutual;
    int64_t cols; /* columns from here on are candidates: nobody's end, only the row's threshold counts */
} gf_cuda_marking;

/* From raw rows of two views (or image and text) to unit embeddings. Sample i of `a` goes to row first_a + i step of za, of `b`
 * to row first_b + i step of zb (may be the same embedding). */
typedef struct gf_cuda_embed_job {
    gf_source a, b; /* rows of one dtype; b.rows may be NULL */
    const gf_cuda_embed *za, *zb;
    int64_t rows, first_a, first_b, step;
    int normalize;
    float *norm_a, *norm_b;          /* lengths at the embeddings' places, or 1 without normalize */
    double *positive_a, *positive_b; /* similarity of the two, at the embeddings' places; NULL: not wanted */
    int64_t *bad; /* lowered to 2 i + (1 for b) of the first row that is not finite, or not unit; preset it high */
} gf_cuda_embed_job;

int64_t gf_cuda_embed_ld(int64_t dim);
size_t gf_cuda_select_scratch(int64_t rows, int64_t cols); /* bytes of scratch */
cudaError_t gf_cuda_embed_rows(const gf_cuda_embed_job *job, cudaStream_t stream);
/* p [n]: the passes of the n sides of a step; each gets what it would get alone. Where two are the transpose of each other (image
 * and text on one rank) and the batch is large, one product serves both. */
cudaError_t gf_cuda_stats(const gf_cuda_pass *p, int n, cudaStream_t stream);
/* row->above = pairs with S > mid. */
cudaError_t gf_cuda_count(const gf_cuda_pass *p, int n, cudaStream_t stream);
cudaError_t gf_cuda_grad(const gf_cuda_pass *p, int n, cudaStream_t stream);
/* Count, the update of every lambda, and stats at once, if gf_cuda_can_move; row->lo gets the new thresholds. */
size_t gf_cuda_move_bytes(int64_t rows, int64_t cols); /* of the buffer, for 128 dimensions in bf16 */
int gf_cuda_can_move(const gf_cuda_pass *p, int n, const gf_cuda_moving *m);
cudaError_t gf_cuda_move(const gf_cuda_pass *p, int n, const gf_cuda_moving *m, cudaStream_t stream);
/* 1: passes over embeddings of this width and math are faster with buffers. */
int gf_cuda_has_wide(int device, int64_t ld, gf_cuda_math math);
cudaError_t gf_cuda_select_rows(const gf_cuda_select *p, cudaStream_t stream);
/* row->marks, and row->marks_col where m asks for them. */
cudaError_t gf_cuda_mark(const gf_cuda_pass *p, const gf_cuda_marking *m, cudaStream_t stream);
/* keep [rows of q][keep_ld] = 1 where the row's anchor keeps the pair. */
cudaError_t gf_cuda_mask(const gf_cuda_pass *p, uint8_t *keep, int64_t keep_ld, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
