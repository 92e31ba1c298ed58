/* cuda_augment.h - views on the device: from pictures in its memory to 8-bit views, and from those to a network's input.
 *
 * One block makes one complete view: resize, colours, blur. The bytes are those of gf_augment_apply. Normalising is a separate
 * last kernel, because it belongs to the stream of the network and makes the view five times as large. Views lie as
 * [views][3][size][pitch] bytes.
 */
#pragma once

#include <cuda_runtime_api.h>

#include "image/view_job.h"
#include "nn/nn_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GF_CUDA_VIEW_MAX 512 /* pixels on a side */

static inline int gf_cuda_view_pitch(int size) { return (size + 3) & ~3; }
static inline size_t gf_cuda_view_bytes(int size) { return 3 * (size_t)size * (size_t)gf_cuda_view_pitch(size); }

typedef struct gf_cuda_augment { /* arrays on the device */
    const gf_view_job *jobs;     /* [views] */
    const uint8_t *pictures;
    uint8_t *out;
    uint8_t *scratch; /* gf_cuda_augment_scratch bytes */
    int views, size;
    /* of all jobs together */
    int widest, tallest; /* box */
    int blurred;         /* some are */
} gf_cuda_augment;

/* Bytes a launch may need; 0: views of this size cannot be made on this device, else 1. */
int gf_cuda_augment_scratch(int size, size_t *bytes);
/* Queues the work. The caller has checked the jobs: each box lies in the pictures' memory and is at most GF_VIEW_SCALE times as
 * large as the view. */
cudaError_t gf_cuda_augment_run(const gf_cuda_augment *a, cudaStream_t stream);
/* out [views][size][size][channels] of `type` = normalised levels of views, zeros beyond three channels; level [3][256]. */
cudaError_t gf_cuda_normalise(void *out, gf_type type, int channels, const uint8_t *views, int64_t count, int size,
                              const float *level, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
