/* cuda_stats_bf16.cu - pass B with bf16 operands: which shape of tile for which batch. */
#include "cuda/loss/cuda_kernels.cuh"
#include "cuda/loss/cuda_stats_mma.cuh"

#define MASKED (GF_MASK | GF_COUNT)

/* Known flags: many rows in registers, few instructions per entry. */
template <int D, unsigned FLAGS>
static cudaError_t launch_plain(const gf_tile_args &a, cudaStream_t stream) {
#ifdef GF_HAVE_SM90
    if (D == 128 && gf_use_wgmma(a.q.rows)) return gf_stats_wgmma(a, stream);
#endif
    switch (gf_block_rows(a.q.rows)) {
        case 16: return gf_stats_launch<gf_mma_shape<D, 1, 1, 8, 1, 4>, FLAGS>(a, stream);
        case 32: return gf_stats_launch<gf_mma_shape<D, 1, 2, 4, 1, 4>, FLAGS>(a, stream);
        case 64: return gf_stats_launch<gf_mma_shape<D, 1, 4, 2, 1, 4>, FLAGS>(a, stream);
        default: return gf_stats_launch<gf_mma_shape<D, 1, 4, 1, 2, 8, 2>, FLAGS>(a, stream);
    }
}

template <int D>
static cudaError_t launch_any(const gf_tile_args &a, cudaStream_t stream) {
    typedef gf_mma_shape<D, 1, 1, D <= 256 ? 8 : 2048 / D, 1, 2> few_rows;     /* tiles within 160 KB */
    typedef gf_mma_shape<D, 1, D <= 512 ? 8 : 4, 1, 1, D <= 256 ? 4 : 2> many_rows;
    if (gf_block_rows(a.q.rows) < 64) return gf_stats_launch<few_rows, GF_ANY_FLAGS>(a, stream);
    return gf_stats_launch<many_rows, GF_ANY_FLAGS>(a, stream);
}

template <int D>
static cudaError_t launch(const gf_tile_args &a, cudaStream_t stream) {
    const unsigned flags = a.flags & (MASKED | GF_SHIFT | GF_MOMENT | GF_ATTRACT | GF_WEIGHT | GF_GROUP | GF_TIE);
    if (flags == 0) return launch_plain<D, 0>(a, stream);
    if (flags == MASKED) return launch_plain<D, MASKED>(a, stream);
    return launch_any<D>(a, stream);
}

cudaError_t gf_stats_bf16(const gf_tile_args &a, cudaStream_t stream) {
    switch (a.ld) {
        case 64: return launch<64>(a, stream);
        case 128: return launch<128>(a, stream);
        case 256: return launch_any<256>(a, stream);
        case 512: return launch_any<512>(a, stream);
        case 1024: return launch_any<1024>(a, stream);
        default: return cudaErrorNotSupported;
    }
}
