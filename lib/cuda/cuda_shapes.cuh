/* cuda_shapes.cuh - choice of the shape of tiles by batch, dimension and number of halves. Shapes are defined in tile_mma.cuh.
 *
 * `Pass` is stats or grad:
 *     launch<C, FLAGS>(a, stream)     the kernel of shape C for constant flags, or GF_ANY_FLAGS
 *     plain_flags(a)                  the constant flags that serve this pass; GF_ANY_FLAGS: none do
 *     MASKED, COUNTS                  the constant flags with a threshold; 1: GF_ABOVE is constant, too
 *     OUT                             dimensions of its result per block, at most; 0: it has no result
 *     SPLIT_NT                        columns of a warp, in eights, with two halves and up to 128 dimensions
 */
#pragma once

#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_mma.cuh"

/* Constant flags: many rows in registers, few instructions per entry. */
template <class Pass, int D, unsigned FLAGS> static cudaError_t gf_launch_plain(const gf_tile_args &a, cudaStream_t stream) {
    switch (gf_block_rows(a.q.rows)) {
    case 16: return Pass::template launch<gf_mma_shape<D, 1, 1, 8, 1, 4>, FLAGS>(a, stream);
    case 32: return Pass::template launch<gf_mma_shape<D, 1, 2, 4, 1, 4>, FLAGS>(a, stream);
    case 64: return Pass::template launch<gf_mma_shape<D, 1, 4, 2, 1, 4>, FLAGS>(a, stream);
    default: return Pass::template launch<gf_mma_shape<D, 1, 4, 1, 2, 8, 2>, FLAGS>(a, stream);
    }
}

/* Any flags: tiles within 160 KB, or 192 KB in two halves. */
template <class Pass, int D, int HALVES> static cudaError_t gf_launch_any(const gf_tile_args &a, cudaStream_t stream) {
    constexpr int WIDE = 256 / HALVES, OUT = Pass::OUT && D > Pass::OUT / HALVES ? 128 : D;
    constexpr int NT = D > WIDE ? 2 : HALVES == 1 ? 4 : Pass::SPLIT_NT;
    typedef gf_mma_shape<D, HALVES, 1, D <= WIDE ? 8 : 8 * WIDE / D, 1, 2, 1, OUT> few_rows;
    typedef gf_mma_shape<D, HALVES, D <= 2 * WIDE ? 8 : 4, 1, 1, NT, 1, OUT> many_rows;
    if (gf_block_rows(a.q.rows) < 64) return Pass::template launch<few_rows, GF_ANY_FLAGS>(a, stream);
    return Pass::template launch<many_rows, GF_ANY_FLAGS>(a, stream);
}

template <class Pass, int D> static cudaError_t gf_launch_bf16_of(const gf_tile_args &a, cudaStream_t stream) {
    const unsigned flags = Pass::plain_flags(a);
    if (flags == 0) return gf_launch_plain<Pass, D, 0>(a, stream);
    if constexpr (Pass::COUNTS)
        if (flags == GF_ABOVE) return gf_launch_plain<Pass, D, GF_ABOVE>(a, stream);
    if (flags == Pass::MASKED) return gf_launch_plain<Pass, D, Pass::MASKED>(a, stream);
    return gf_launch_any<Pass, D, 1>(a, stream);
}

template <class Pass> static cudaError_t gf_launch_bf16(const gf_tile_args &a, cudaStream_t stream) {
    switch (a.ld) {
    case 64: return gf_launch_bf16_of<Pass, 64>(a, stream);
    case 128: return gf_launch_bf16_of<Pass, 128>(a, stream);
    case 256: return gf_launch_any<Pass, 256, 1>(a, stream);
    case 512: return gf_launch_any<Pass, 512, 1>(a, stream);
    case 768: return gf_launch_any<Pass, 768, 1>(a, stream);
    case 1024: return gf_launch_any<Pass, 1024, 1>(a, stream);
    default: return cudaErrorNotSupported;
    }
}

template <class Pass> static cudaError_t gf_launch_split(const gf_tile_args &a, cudaStream_t stream) {
    switch (a.ld) {
    case 64: return gf_launch_any<Pass, 64, 2>(a, stream);
    case 128: return gf_launch_any<Pass, 128, 2>(a, stream);
    case 256: return gf_launch_any<Pass, 256, 2>(a, stream);
    case 512: return gf_launch_any<Pass, 512, 2>(a, stream);
    default: return cudaErrorNotSupported;
    }
}
