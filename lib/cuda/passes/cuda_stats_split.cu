/* cuda_stats_split.cu - pass B with operands in two halves. */
#include "cuda/passes/cuda_stats_mma.cuh"

cudaError_t gf_stats_split(const gf_tile_args &a, cudaStream_t stream) { return gf_launch_split<gf_stats_pass>(a, stream); }
