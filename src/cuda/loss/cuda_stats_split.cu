/* cuda_stats_split.cu - pass B with operands in two halves. */
#include "cuda/loss/cuda_kernels.cuh"
#include "cuda/loss/cuda_stats_mma.cuh"

template <int D>
static cudaError_t launch(const gf_tile_args &a, cudaStream_t stream) {
    if (gf_block_rows(a.q.rows) < 64) return gf_stats_launch<gf_mma_shape<D, 2, 1, D == 256 ? 4 : 8, 1, 2>, GF_ANY_FLAGS>(a, stream);
    return gf_stats_launch<gf_mma_shape<D, 2, 8, 1, 1, D == 256 ? 2 : 4>, GF_ANY_FLAGS>(a, stream);
}

cudaError_t gf_stats_split(const gf_tile_args &a, cudaStream_t stream) {
    switch (a.ld) {
        case 64: return launch<64>(a, stream);
        case 128: return launch<128>(a, stream);
        case 256: return launch<256>(a, stream);
        default: return cudaErrorNotSupported;
    }
}
