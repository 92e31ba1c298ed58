/* cuda_grad_bf16.cu - pass C with bf16 operands. */
#include "cuda/passes/cuda_grad_mma.cuh"

cudaError_t gf_grad_bf16(const gf_tile_args &a, cudaStream_t stream) { return gf_launch_bf16<gf_grad_pass>(a, stream); }
