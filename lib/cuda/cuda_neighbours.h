/* cuda_neighbours.h - attraction by neighbours on the GPU, as method/step/step_neighbours.c. */
#pragma once

#include "cuda/cuda_step.h"
#include "method/formulas/neighbours.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parts that a window of the store is searched in for so many anchors: together they fill the GPU. */
int64_t gf_cuda_neighbour_parts(int64_t anchors);

/* After the bank, before its rows are saved: neighbours of the own anchors, and what they add to the loss; no-op without. */
glofnd_status gf_cuda_find_neighbours(gf_error *err, gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t);
/* E_ARGUMENT unless the context's last search was for the own anchors of such a batch. */
glofnd_status gf_cuda_neighbours_found(gf_error *err, const gf_device_ctx *d, const gf_device_step *x);

/* The kernels. */
cudaError_t gf_cuda_neighbours(const gf_cuda_step *x, const gf_cuda_near *near, cudaStream_t stream);
/* Between pass C and the gradients of the caller. */
cudaError_t gf_cuda_neighbours_gradient(const gf_cuda_step *x, const gf_cuda_near *near, cudaStream_t stream);
/* After the totals. */
cudaError_t gf_cuda_neighbours_loss(const gf_cuda_step *x, const gf_cuda_near *near, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
