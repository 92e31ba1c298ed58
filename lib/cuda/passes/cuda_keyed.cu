/* cuda_keyed.cu - passes B and C on tensor cores where rows and columns may be of one anchor (keys): kernels of their own, so that those
 * of other steps do not grow. The exact ones are in cuda_exact.cu. */
#include "cuda/passes/cuda_grad_mma.cuh"
#include "cuda/passes/cuda_stats_mma.cuh"

template <class Pass> static cudaError_t launch(const gf_tile_args &a, int halves, cudaStream_t stream) {
    switch (a.ld * halves) {
    case 64: return gf_launch_tiles<Pass, 64, 1, GF_ANY_KEYED>(a, stream);
    case 128:
        if (halves == 2) return gf_launch_tiles<Pass, 64, 2, GF_ANY_KEYED>(a, stream);
        return gf_launch_tiles<Pass, 128, 1, GF_ANY_KEYED>(a, stream);
    case 256:
        if (halves == 2) return gf_launch_tiles<Pass, 128, 2, GF_ANY_KEYED>(a, stream);
        return gf_launch_tiles<Pass, 256, 1, GF_ANY_KEYED>(a, stream);
    case 512:
        if (halves == 2) return gf_launch_tiles<Pass, 256, 2, GF_ANY_KEYED>(a, stream);
        return gf_launch_tiles<Pass, 512, 1, GF_ANY_KEYED>(a, stream);
    case 768: return gf_launch_tiles<Pass, 768, 1, GF_ANY_KEYED>(a, stream);
    case 1024:
        if (halves == 2) return gf_launch_tiles<Pass, 512, 2, GF_ANY_KEYED>(a, stream);
        return gf_launch_tiles<Pass, 1024, 1, GF_ANY_KEYED>(a, stream);
    default: return cudaErrorNotSupported;
    }
}

cudaError_t gf_stats_keyed(const gf_tile_args &a, int halves, cudaStream_t stream) {
    return launch<gf_stats_pass>(a, halves, stream);
}

cudaError_t gf_grad_keyed(const gf_tile_args &a, int halves, cudaStream_t stream) {
    return launch<gf_grad_pass>(a, halves, stream);
}
