/* cunn_sort.h - stable radix sort of positions by their keys: least significant digit first, eight bits per pass.
 *
 * Part of a step, and of k-means: allocates nothing and does not wait.
 */
#pragma once

#include "nn/cuda/cunn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gf_cunn_sorted { /* within scratch */
    int32_t *key, *position;    /* [count] */
} gf_cunn_sorted;

size_t gf_cunn_sort_bytes(int64_t count);
/* keys [count] on the device, clamped to 0 .. limit - 1; count < 2^31. */
gf_cunn_sorted gf_cunn_sort_on(cudaStream_t stream, const int32_t *keys, int64_t count, int64_t limit, void *scratch);
/* The same on the stream of an engine; a failure becomes its error. */
gf_cunn_sorted gf_cunn_sort(gf_nn_engine *s, const int32_t *keys, int64_t count, int64_t limit, void *scratch);

#ifdef __cplusplus
}
#endif
