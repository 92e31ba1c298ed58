/* cuda_settle.cu - with lo = hi at last: the window lists join the sums. One warp per row. */
#include "cuda/loss/cuda_settle.cuh"

#define WARPS 4

static __global__ void __launch_bounds__(32 * WARPS) settle(const gf_tile_args a) {
    const int r = blockIdx.x * WARPS + threadIdx.x / 32;
    if (r < a.q.rows && !gf_disabled(a)) gf_settle_row(a, r);
}

cudaError_t gf_cuda_settle(const gf_cuda_pass *p, cudaStream_t stream) {
    const gf_tile_args a = gf_tile_args_of(p);
    if (!a.row.window || a.q.rows == 0) return cudaSuccess;
    settle<<<(a.q.rows + WARPS - 1) / WARPS, 32 * WARPS, 0, stream>>>(a);
    return cudaGetLastError();
}
