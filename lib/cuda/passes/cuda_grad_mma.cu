/* cuda_grad_mma.cu - pass C on tensor cores, with bf16 operands and in two halves. */
#include "cuda/passes/cuda_grad_mma.cuh"

cudaError_t gf_grad_bf16(const gf_tile_args &a, cudaStream_t stream) { return gf_launch_bf16<gf_grad_pass>(a, stream); }

cudaError_t gf_grad_split(const gf_tile_args &a, cudaStream_t stream) { return gf_launch_split<gf_grad_pass>(a, stream); }
