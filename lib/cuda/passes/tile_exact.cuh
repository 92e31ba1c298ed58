/* tile_exact.cuh - a tile of similarities in float32: 64 x 64 by 256 threads, 4 x 4 each.
 *
 * Each similarity is one chain of fused multiply-adds over ascending dimensions, so S_rc and S_cr have the same bits, in every
 * kernel that uses this.
 */
#pragma once

#include "cuda/passes/cuda_kernels.cuh"

#define GF_EXACT_TILE 64
#define GF_EXACT_THREADS 256
#define GF_EXACT_CHUNK 32 /* dimensions in shared memory at a time; ld is a multiple of it */

struct gf_exact_shared {
    float a[GF_EXACT_CHUNK][GF_EXACT_TILE + 4], b[GF_EXACT_CHUNK][GF_EXACT_TILE + 4];
};

/* dst [CHUNK][TILE] = x [r0 ...][d0 ...] transposed; zeros past the last row. */
__device__ __forceinline__ void gf_exact_load(float (*dst)[GF_EXACT_TILE + 4], const float *x, int rows, int r0, int ld, int d0) {
    for (int i = threadIdx.x; i < GF_EXACT_TILE * GF_EXACT_CHUNK / 4; i += GF_EXACT_THREADS) {
        const int r = i / (GF_EXACT_CHUNK / 4), d = i % (GF_EXACT_CHUNK / 4) * 4;
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (r0 + r < rows) v = *reinterpret_cast<const float4 *>(x + static_cast<int64_t>(r0 + r) * ld + d0 + d);
        dst[d][r] = v.x, dst[d + 1][r] = v.y, dst[d + 2][r] = v.z, dst[d + 3][r] = v.w;
    }
}

/* acc [i][j] = similarity of row r0 + 4 ty + i and column c0 + 4 tx + j, with ty = thread / 16, tx = thread % 16. */
__device__ __forceinline__ void gf_exact_product(float (&acc)[4][4], const gf_operand &q, int r0, const gf_operand &k, int c0,
                                                 int ld, gf_exact_shared &sm) {
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) acc[i][j] = 0.0f;
    for (int d0 = 0; d0 < ld; d0 += GF_EXACT_CHUNK) {
        __syncthreads();
        gf_exact_load(sm.a, q.f32, q.rows, r0, ld, d0);
        gf_exact_load(sm.b, k.f32, k.rows, c0, ld, d0);
        __syncthreads();
#pragma unroll 8
        for (int d = 0; d < GF_EXACT_CHUNK; d++) {
            const float4 x = *reinterpret_cast<const float4 *>(&sm.a[d][4 * ty]);
            const float4 y = *reinterpret_cast<const float4 *>(&sm.b[d][4 * tx]);
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] = fmaf(xs[i], ys[j], acc[i][j]);
        }
    }
}

/* Sum over the 16 threads of a row, by halves: the same order every time. */
template <class T> __device__ __forceinline__ T gf_exact_row_sum(T x) {
    for (int lanes = 8; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}
