/* cuda_grad_split.cu - pass C with operands and weights in two halves. */
#include "cuda/passes/cuda_grad_mma.cuh"

cudaError_t gf_grad_split(const gf_tile_args &a, cudaStream_t stream) { return gf_launch_split<gf_grad_pass>(a, stream); }
