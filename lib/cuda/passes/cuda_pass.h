/* cuda_pass.h - the passes of ifc/pair_passes.h on device memory, queued on a stream.
 *
 * Shapes, flags and meaning are those of gf_pass, gf_rows and gf_select; every pointer in them is device memory, `threads`,
 * `tile`, `tiles` and gf_embed.col are unused. No call waits for the device, takes memory, or reads a device value on the host;
 * so a step can be captured in a graph. Differences from the CPU:
 *   - Outputs are overwritten, not added to: nothing needs clearing before a pass.
 *   - There are no windows: S <= lo is kept, the rest is flagged. Where lambda has to move first, `count` counts the pairs above
 *     mid; or `move` does count, update and stats with one product, where each row is the work of one thread block or two.
 *   - Every row block runs over all columns and keeps its sums to itself, or partial sums go to `buffer` and are added up in a
 *     fixed order: no floating atomics, same bits every time. Only `row` gets results. Where the columns' anchors have sums or
 *     gradients too, they are the rows of another call (two sides), or of the same one (q is k). S_rc and S_cr have the same
 *     bits. `symmetric` and gf_pass.col_grad are ignored; stats ignore col_role.
 *   - Grad with col_role: P holds what both anchors give to the pair, so row->grad is the whole gradient of the row. GF_TIE is
 *     allowed there: the columns' flags come from `col_score` and col->tie.
 *   - Nothing past the last row of an array is read or written, except that embeddings have rows of `ld` numbers, zero past dim.
 * All passes of one step use one `math`: thresholds made by select and flags made by stats and grad then see the same bits. Not
 * so with SPLIT and more than 512 dimensions: what only kernels for any flags can do is exact there, and differs by 2^-16.
 */
#pragma once

#include <cuda_runtime_api.h>

#include "device/pair_passes.h"
#include "method/formulas/lambda_update.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gf_cuda_math {
    GF_CUDA_EXACT, /* float32 products and sums, no tensor cores: the reference, and the golden replay */
    GF_CUDA_TF32,  /* at least TF32's precision; done as SPLIT, which costs 1.5 TF32 products and has 6 bits more */
    GF_CUDA_BF16,  /* operands rounded to bf16, sums in float32 */
    GF_CUDA_SPLIT  /* hi and lo halves in bf16, three products: float32 to about 2^-16; for small temperatures */
} gf_cuda_math;

typedef struct gf_cuda_embed { /* unit embeddings; rows of gf_cuda_embed_ld(dim) numbers, zero past dim */
    gf_embed f32;              /* row [rows][ld] */
    void *hi, *lo;             /* bf16 [rows][ld]; lo only with SPLIT and TF32, neither with EXACT */
} gf_cuda_embed;

/* GF_SHIFT: what is known of the temperature. With one for all rows and 1/tau <= GF_FIXED_LIMIT, kernels may write sums relative
 * to the fixed peak gf_fixed_peak(1/tau) instead of each row's own, and read w = exp(log_w + that) instead of log_w. */
typedef enum gf_cuda_tau { GF_TAU_ANY, GF_TAU_ONE, GF_TAU_ON_DEVICE } gf_cuda_tau; /* ON_DEVICE: one; only the device knows it */
#define GF_FIXED_LIMIT 100.0f

typedef struct gf_cuda_pass {
    gf_pass p; /* its q, k, score are unused; the next two lines replace them */
    const gf_cuda_embed *q, *k;
    const gf_cuda_embed *score,
        *col_score; /* GF_TIE: embeddings that score instead of q and k, p.scores copies; NULL: q and k. EXACT only */
    gf_cuda_math math;
    gf_cuda_tau tau;
    void *buffer; /* count, stats: for partial sums; grad: for weights of some rows. NULL: only kernels that need none */
    size_t buffer_bytes;
} gf_cuda_pass;

/* What moves lambda between count and stats: one update per anchor. */
typedef struct gf_cuda_moving {
    gf_learner learner;
    gf_foresight foresight;
    int per_sample;         /* rows of an anchor */
    int64_t negatives;      /* of a row */
    glofnd_row *fresh[2];   /* [anchors] state of each side, in and out */
    const uint8_t *open[2]; /* [anchors] 0: its lambda stays */
} gf_cuda_moving;

typedef struct gf_cuda_select {
    gf_select s; /* its q, k are unused; scratch: gf_cuda_select_scratch bytes */
    const gf_cuda_embed *q, *k;
    gf_cuda_math math;
    const uint8_t
        *wanted;         /* device [samples of q, by shift]; 0: its values need not be computed, as a captured graph must decide.
                              NULL: all are */
    const int64_t *live; /* device; columns from *live on do not count. NULL: all do */
} gf_cuda_select;

/* A pair is marked, from either end, if it lies above that end's threshold, or both ends are of one group. */
typedef struct gf_cuda_marking {
    const float *row_theta;               /* [rows] */
    const float *col_theta;               /* [columns]; NULL: marks_col of the rows are not wanted */
    const int32_t *row_group, *col_group; /* negative: none */
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
size_t gf_cuda_select_scratch(int64_t rows, int64_t cols); /* bytes for gf_select.scratch; mask needs twice that */
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
cudaError_t gf_cuda_select_rows(const gf_cuda_select *p, cudaStream_t stream);
/* As gf_cpu_mark; the pass has scratch of gf_cuda_select_scratch bytes. */
cudaError_t gf_cuda_mark(const gf_cuda_pass *p, const gf_cuda_marking *m, cudaStream_t stream);
cudaError_t gf_cuda_mask(const gf_cuda_pass *p, uint8_t *keep, int64_t keep_ld, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
