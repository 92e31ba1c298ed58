/* cuda_sum.cuh - sums over all threads of a grid in a fixed order: per warp, per block, then the last block adds those up. */
#pragma once

#include "cuda/cuda_ctx.h"

template <class T> __device__ __forceinline__ T gf_warp_sum(T x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

/* partial [COUNT] of this block = sum of x over its threads. All threads of the block call it. */
template <int COUNT, int THREADS> __device__ __forceinline__ void gf_block_sum(const double (&x)[COUNT], double *partial) {
    __shared__ double warps[THREADS / 32][COUNT];
    for (int i = 0; i < COUNT; i++) {
        const double sum = gf_warp_sum(x[i]);
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32][i] = sum;
    }
    __syncthreads();
    if (threadIdx.x < COUNT) {
        double sum = 0.0;
        for (int w = 0; w < THREADS / 32; w++) sum += warps[w][threadIdx.x];
        partial[threadIdx.x] = sum;
    }
}

/* True in all threads of the block that comes last of `blocks`; what the others wrote before is then visible. */
__device__ __forceinline__ bool gf_is_last_block(gf_cuda_control *c, unsigned blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(&c->done, 1u) == blocks - 1;
        if (last) c->done = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}
