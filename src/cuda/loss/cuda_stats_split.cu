/* cuda_stats_split.cu - pass B with operands in two halves. */
#include "cuda/loss/cuda_kernels.cuh"
#include "cuda/loss/cuda_stats_mma.cuh"

template <int D>
static cudaError_t launch(const gf_tile_args &a, cudaStream_t stream) {
    typedef gf_mma_shape<D, 2, 1, D <= 128 ? 8 : 1024 / D, 1, 2> few_rows;     /* tiles within 192 KB */
    typedef gf_mma_shape<D, 2, D <= 256 ? 8 : 4, 1, 1, D <= 128 ? 4 : 2> many_rows;
    if (gf_block_rows(a.q.rows) < 64) return gf_stats_launch<few_rows, GF_ANY_FLAGS>(a, stream);
    return gf_stats_launch<many_rows, GF_ANY_FLAGS>(a, stream);
}

cudaError_t gf_stats_split(const gf_tile_args &a, cudaStream_t stream) {
    switch (a.ld) {
        case 64: return launch<64>(a, stream);
        case 128: return launch<128>(a, stream);
        case 256: return launch<256>(a, stream);
        case 512: return launch<512>(a, stream);
        default: return cudaErrorNotSupported;
    }
}
