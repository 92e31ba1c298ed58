/* tile_large_grad.cuh - shared by the kernels that make weights in pass C for wide embeddings and large batches. */
#pragma once

#include "cuda/passes/cuda_grad_mma.cuh"
#include "cuda/passes/tile_large.cuh"

struct gf_weigh_job { /* weights of a piece */
    gf_tile_args a;
    int row0, rows, col0, cols; /* the piece */
    int turns;                  /* thread blocks per 128 rows */
    int pitch;                  /* numbers of a row of `weights` */
    __nv_bfloat16 *weights[2];  /* hi, lo; [rows][pitch] */
};

/* Words 0 to 3 of the four lanes of a row as a 4 x 4 matrix: transposed. */
__device__ __forceinline__ void gf_large_transpose(uint32_t (&x)[4]) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t y = __shfl_xor_sync(0xffffffffu, odd ? x[i] : x[i + 1], 1);
        if (odd) x[i] = y;
        else x[i + 1] = y;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t y = __shfl_xor_sync(0xffffffffu, upper ? x[i] : x[i + 2], 2);
        if (upper) x[i] = y;
        else x[i + 2] = y;
    }
}

/* Rounds two weights to bf16; they keep the rounding error, for the lower half. */
__device__ __forceinline__ uint32_t gf_large_round_two(float &low, float &high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    low -= __low2float(pair), high -= __high2float(pair);
    return *reinterpret_cast<const uint32_t *>(&pair);
}

/* The kernel of cuda_flow_weigh.cu, tiles of 128 columns. */
cudaError_t gf_flow_weigh(const gf_weigh_job &x, cudaStream_t stream);
