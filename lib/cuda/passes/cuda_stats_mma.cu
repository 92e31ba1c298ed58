/* cuda_stats_mma.cu - on tensor cores: pass B with bf16 operands and in two halves, and similarities with the bits of these passes. */
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/cuda_stats_mma.cuh"
#include "cuda/passes/tile_mma.cuh"

cudaError_t gf_stats_bf16(const gf_tile_args &a, cudaStream_t stream) { return gf_launch_bf16<gf_stats_pass>(a, stream); }

cudaError_t gf_stats_split(const gf_tile_args &a, cudaStream_t stream) { return gf_launch_split<gf_stats_pass>(a, stream); }

/* ---------- Similarities of some rows ---------- */

template <class C> static __global__ void __launch_bounds__(C::THREADS) product_mma(const __grid_constant__ gf_product_args a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const uint32_t rows = gf_shared_address(shared), columns = rows + C::A_BYTES;
    const int warp = threadIdx.x / 32, row = warp / C::WN * 16 * C::MT, col = warp % C::WN * 8 * C::NT;
    const int r0 = a.r0 + blockIdx.y * C::BM, c0 = blockIdx.x * C::BN;
    const int r = r0 + row + threadIdx.x % 32 / 4, c = c0 + col + 2 * (threadIdx.x % 4);
    gf_copy_operand<C, C::BM>(rows, a.q, r0);
    gf_copy_operand<C, C::BN>(columns, a.k, c0);
    gf_copy_commit();
    gf_copy_wait<0>();
    __syncthreads();
    float acc[C::MT][C::NT][4];
    gf_scores<C>(acc, rows, row, columns, col);
#pragma unroll
    for (int m = 0; m < C::MT; m++)
#pragma unroll
        for (int n = 0; n < C::NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) gf_product_put(a, r + 16 * m + 8 * (i / 2), c + 8 * n + i % 2, acc[m][n][i]);
}

template <int D, int HALVES> static cudaError_t launch(const gf_product_args &a, cudaStream_t stream) {
    typedef gf_mma_shape<D, HALVES, D <= 256 ? 4 : 2, 2, 1, D <= 256 ? 4 : 2> C;
    constexpr int SHARED = C::A_BYTES + C::B_BYTES;
    const cudaError_t e = cudaFuncSetAttribute(product_mma<C>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    if (e != cudaSuccess) return e;
    product_mma<C><<<dim3((a.k.rows + C::BN - 1) / C::BN, (a.rows + C::BM - 1) / C::BM), C::THREADS, SHARED, stream>>>(a);
    return cudaGetLastError();
}

cudaError_t gf_product_mma(const gf_product_args &a, int halves, cudaStream_t stream) {
    switch (a.ld) {
    case 64: return halves == 1 ? launch<64, 1>(a, stream) : launch<64, 2>(a, stream);
    case 128: return halves == 1 ? launch<128, 1>(a, stream) : launch<128, 2>(a, stream);
    case 256: return halves == 1 ? launch<256, 1>(a, stream) : launch<256, 2>(a, stream);
    case 512: return halves == 1 ? launch<512, 1>(a, stream) : launch<512, 2>(a, stream);
    case 768: return halves == 1 ? launch<768, 1>(a, stream) : cudaErrorNotSupported;
    case 1024: return halves == 1 ? launch<1024, 1>(a, stream) : cudaErrorNotSupported;
    default: return cudaErrorNotSupported;
    }
}
