/* cuda_step_ring.cu - appends the rows of a batch to the ring of recent embeddings. One warp per row. */
#include <cuda_bf16.h>

#include "cuda/step/cuda_step.cuh"

#define WARPS 4

static __device__ void copy_row(const gf_cuda_embed &to, int64_t slot, const float *z) {
    for (int64_t d = threadIdx.x % 32; d < to.f32.ld; d += 32) {
        const int64_t at = slot * to.f32.ld + d;
        const float v = z[d];
        const __nv_bfloat16 hi = __float2bfloat16_rn(v);
        to.f32.row[at] = v;
        static_cast<__nv_bfloat16 *>(to.hi)[at] = hi;
        static_cast<__nv_bfloat16 *>(to.lo)[at] = __float2bfloat16_rn(v - __bfloat162float(hi));
    }
}

/* If the batch exceeds the ring only its last rows stay. */
static __global__ void __launch_bounds__(32 * WARPS) push(const gf_cuda_step x) {
    const int64_t all = x.plan.cols * x.plan.per_sample, capacity = x.store.ring_rows;
    const int64_t r = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    const int i = blockIdx.y;
    if (!gf_failed(x.control) && r < all && r >= all - capacity) {
        const int64_t slot = (x.store.state->ring_head + r) % capacity;
        copy_row(x.store.ring[i], slot, x.side[i].z.f32.row + r * x.side[i].z.f32.ld);
        if (threadIdx.x % 32 == 0) x.store.ring_id[i][slot] = x.id[r / x.plan.per_sample];
    }
    if (!gf_is_last_block(x.control, gridDim.x * gridDim.y) || threadIdx.x || gf_failed(x.control)) return;
    gf_cuda_shared *s = x.store.state;
    s->ring_head = (s->ring_head + all) % capacity;
    s->ring_count = s->ring_count + all < capacity ? s->ring_count + all : capacity;
}

cudaError_t gf_cuda_ring_push(const gf_cuda_step *x, cudaStream_t stream) {
    const int64_t all = x->plan.cols * x->plan.per_sample;
    push<<<dim3(static_cast<unsigned>((all + WARPS - 1) / WARPS), x->plan.sides), 32 * WARPS, 0, stream>>>(*x);
    return cudaGetLastError();
}
