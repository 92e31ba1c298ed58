/* cunn_rows.h - kernels over rows of numbers, shared by several ops: activations, and sums over rows for gradients of parameters.
 *
 * Sums have two stages: blocks sum chunks of rows in float, a second launch adds the chunks. The rows of a thread and their order
 * follow from the shape alone: same bits every time.
 */
#pragma once

#include "nn/cuda/cunn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y = act(z), count numbers. */
void gf_cunn_act(gf_nn_engine *s, gf_type type, gf_nn_act act, void *y, const void *z, int64_t count);

/* sum [c] = over the rows of g = dy act'(z), all [rows][c]; g is written where act is not NONE, and z is read there alone.
 * sum NULL: only g. scratch: gf_cunn_sums_bytes of it. */
void gf_cunn_act_back(gf_nn_engine *s, gf_type type, gf_nn_act act, void *g, float *sum, const void *dy, const void *z,
                      int64_t rows, int64_t c, void *scratch);
size_t gf_cunn_sums_bytes(gf_type type, int64_t rows, int64_t c);

/* a [ca], then b [cb] = sums over the chunks of part [chunks][ca + cb]. */
void gf_cunn_add_chunks(gf_nn_engine *s, float *a, int64_t ca, float *b, int64_t cb, const float *part, int chunks);

#ifdef __cplusplus
}
#endif
