/* cuda_pass.h - the passes of base/backend.h on device memory, queued on a stream.
 *
 * Shapes, flags and meaning are those of gf_pass, gf_rows and gf_select; every pointer in them is device memory, `threads` and
 * `tile` are ignored, and gf_embed.col is unused: the copies the tensor cores read stand beside (gf_cuda_embed). No call waits for
 * the device, takes memory, or reads a device value on the host; so a step can be captured in a graph.
 *
 * Every row block runs over all columns and keeps its sums to itself: no atomics, same bits every time. A pass with col_role set
 * therefore needs no second result for the columns here: the columns' anchors are rows of another call, or of the same one when
 * `symmetric` (then q is k, and grad holds both roles of every pair, as S is symmetric bit for bit).
 */
#ifndef GF_CUDA_PASS_H
#define GF_CUDA_PASS_H

#include <cuda_runtime_api.h>

#include "base/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gf_cuda_math {
    GF_CUDA_EXACT,              /* float32 products and sums, no tensor cores: the reference, and the golden replay */
    GF_CUDA_TF32,
    GF_CUDA_BF16,               /* operands rounded to bf16 */
    GF_CUDA_SPLIT               /* hi and lo halves in bf16, three products: float32 to about 2^-16; for small temperatures */
} gf_cuda_math;

typedef struct gf_cuda_embed {  /* unit embeddings; padding is zero */
    gf_embed f32;               /* row [pad(rows)][ld] */
    void *hi, *lo;              /* bf16 [pad(rows)][ld]; lo only with SPLIT, both NULL where math needs none */
} gf_cuda_embed;

typedef struct gf_cuda_pass {
    gf_pass p;                  /* q, k, score point to the f32 parts below */
    const gf_cuda_embed *q, *k, *score;
    gf_cuda_math math;
    const int32_t *enabled;     /* device flag; NULL or nonzero: do the pass. Lets a captured graph skip a repeat */
} gf_cuda_pass;

int64_t gf_cuda_embed_ld(int64_t dim);
size_t gf_cuda_pass_scratch(int64_t rows, int64_t cols, int64_t dim);           /* bytes for gf_pass.scratch */
size_t gf_cuda_select_scratch(int64_t rows, int64_t cols, int64_t dim, int64_t best);
cudaError_t gf_cuda_stats(const gf_cuda_pass *p, cudaStream_t stream);
cudaError_t gf_cuda_settle(const gf_cuda_pass *p, cudaStream_t stream);
cudaError_t gf_cuda_grad(const gf_cuda_pass *p, cudaStream_t stream);
cudaError_t gf_cuda_select(const gf_select *p, cudaStream_t stream);            /* exact products always: ranks are decided here */
cudaError_t gf_cuda_mask(const gf_cuda_pass *p, uint8_t *keep, int64_t keep_ld, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
