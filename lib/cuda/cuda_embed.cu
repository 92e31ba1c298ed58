/* cuda_embed.cu - see cuda_embed.cuh. */
#include "cuda/cuda_embed.cuh"

#define WARPS 4

int64_t gf_cuda_embed_ld(int64_t dim) {
    static const int64_t widths[] = {64, 128, 256, 512, 768, 1024}; /* of the tensor-core kernels */
    for (const int64_t ld : widths)
        if (dim <= ld) return ld;
    return (dim + 127) / 128 * 128;
}

template <class T> static __global__ void __launch_bounds__(32 * WARPS) embed(const gf_embed_args x) {
    const int64_t i = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    if (i < x.job.rows) gf_embed_sample<T>(x, i);
}

cudaError_t gf_cuda_embed_rows(const gf_cuda_embed_job *job, cudaStream_t stream) {
    if (job->rows == 0) return cudaSuccess;
    const unsigned blocks = static_cast<unsigned>((job->rows + WARPS - 1) / WARPS);
    gf_with_dtype(job->a.dtype,
                  [&](auto zero) { embed<decltype(zero)><<<blocks, 32 * WARPS, 0, stream>>>(gf_embed_args_of(job)); });
    return cudaGetLastError();
}
