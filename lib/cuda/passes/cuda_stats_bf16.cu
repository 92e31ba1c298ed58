/* cuda_stats_bf16.cu - pass B with bf16 operands. */
#include "cuda/passes/cuda_stats_mma.cuh"

cudaError_t gf_stats_bf16(const gf_tile_args &a, cudaStream_t stream) { return gf_launch_bf16<gf_stats_pass>(a, stream); }
