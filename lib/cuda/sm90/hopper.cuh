/* hopper.cuh - launchers of the kernels for Hopper; hopper_pass.cu chooses among them. */
#pragma once

#include "cuda/passes/cuda_kernels.cuh"

/* On Hopper, 128 dimensions, bf16, flags none or GF_MASK and GF_COUNT; stats: also with GF_MOMENT. Rows of q and k are aligned to
 * 16 bytes. */
bool gf_stats_can_wgmma(const gf_tile_args &a);
cudaError_t gf_stats_wgmma(const gf_tile_args &a, cudaStream_t stream);
/* The same where rows and columns are the same and the buffer holds partial sums: each product serves both anchors. */
bool gf_stats_can_pairs(const gf_tile_args &a);
cudaError_t gf_stats_pairs(const gf_tile_args &a, cudaStream_t stream);
/* Count, the move of lambda and stats at once; whole rows, GF_MASK and GF_COUNT. The buffer has the lists. */
size_t gf_stats_moving_bytes(int rows, int cols);
bool gf_stats_can_moving(const gf_tile_args &a, const gf_cuda_moving *m);
cudaError_t gf_stats_moving(const gf_tile_args &a, const gf_cuda_moving *m, int side, cudaStream_t stream);
/* The same flags, with or without GF_QUALITY; whole rows. */
bool gf_grad_can_wgmma(const gf_tile_args &a);
cudaError_t gf_grad_wgmma(const gf_tile_args &a, cudaStream_t stream);

/* On Hopper, 256 dimensions and more, bf16, all flags but GF_TIE and GF_MARKS; grad: nor GF_COLSUM. For batches that are not
 * small, where the buffer holds partial sums, or the weights of some rows. */
bool gf_stats_can_wide(const gf_tile_args &a);
bool gf_grad_can_wide(const gf_tile_args &a);
cudaError_t gf_stats_wide(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_grad_wide(const gf_tile_args &a, cudaStream_t stream);

/* The same for large batches, where the flags are those that matter most; grad: none or GF_MASK. `mirror`: the columns' anchors,
 * whose sums and gradients are wanted, too; it is a.row where rows and columns are the same. NULL: rows only. halves: 1, or 2 for
 * SPLIT, from 128 dimensions on. flows: by tiles that are used while the next ones are computed; not in halves. */
#define GF_LARGE_CLUSTER 2 /* thread blocks that share columns, but for tiles in flow */
bool gf_stats_can_large(const gf_tile_args &a, const gf_cuda_rows *mirror, int halves);
bool gf_grad_can_large(const gf_tile_args &a, const gf_cuda_rows *mirror, int halves);
cudaError_t gf_stats_large(const gf_tile_args &a, const gf_cuda_rows *mirror, int halves, bool flows, cudaStream_t stream);
cudaError_t gf_grad_large(const gf_tile_args &a, const gf_cuda_rows *mirror, int halves, bool flows, cudaStream_t stream);
