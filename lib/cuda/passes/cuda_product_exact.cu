/* cuda_product_exact.cu - writes similarities of some rows, in float32. */
#include <math_constants.h>

#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_exact.cuh"

static __global__ void __launch_bounds__(GF_EXACT_THREADS) product_exact(const gf_product_args a) {
    __shared__ gf_exact_shared sm;
    const int r0 = a.r0 + blockIdx.y * GF_EXACT_TILE, c0 = blockIdx.x * GF_EXACT_TILE;
    float s[4][4];
    gf_exact_product(s, a.q, r0, a.k, c0, a.ld, sm);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) gf_product_put(a, r0 + 4 * (threadIdx.x / 16) + i, c0 + 4 * (threadIdx.x % 16) + j, s[i][j]);
}

cudaError_t gf_product_exact(const gf_product_args &a, cudaStream_t stream) {
    const dim3 grid((a.k.rows + GF_EXACT_TILE - 1) / GF_EXACT_TILE, (a.rows + GF_EXACT_TILE - 1) / GF_EXACT_TILE);
    product_exact<<<grid, GF_EXACT_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}
