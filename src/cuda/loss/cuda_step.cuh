/* cuda_step.cuh - what several kernels of a step do. */
#ifndef GF_CUDA_STEP_CUH
#define GF_CUDA_STEP_CUH

#include "cuda/loss/cuda_step.h"
#include "cuda/loss/cuda_sum.cuh"

/* Something was wrong with this step, or with one before it that nobody has asked for yet: the store stays as it is. */
__device__ __forceinline__ bool gf_failed(const gf_cuda_control *c) {
    return c->bad_embed != GF_CUDA_FINE || c->bad_support != GF_CUDA_FINE || c->bad_id != GF_CUDA_FINE;
}

__device__ __forceinline__ glofnd_row gf_moved_shared(const gf_cuda_step &x, int side) {
    const gf_cuda_control *c = x.control;
    glofnd_row row = c->shared[side];
    if (c->shared_open[side]) gf_learner_move(&x.plan.learner, &row, c->above[side][0] / c->above[side][1]);
    return row;
}

/* Row r of side i is link 2 * sample + (view or side). */
__device__ __forceinline__ int64_t gf_link_place(const gf_cuda_step &x, int i, int64_t r) {
    return x.plan.per_sample == 2 ? r : 2 * r + i;
}

/* What pass C needs to know of row r of all rows. */
__device__ __forceinline__ void gf_put_link(const gf_cuda_step &x, int i, int64_t r, const glofnd_link &l) {
    const gf_rows &y = x.side[i].every;
    y.theta[r] = gf_row_theta(&x.plan, &l);
    y.floor[r] = l.floor;
    y.log_w[r] = l.log_w;
    y.w[r] = expf(l.log_w);
    y.inv_tau[r] = l.inv_tau;
    y.attract[r] = l.attract;
    y.tie[r] = l.tie;
    x.side[i].pos[r] = l.pos;
}

/* Adds up partial [blocks][COUNT] into out, in the last block. All its threads call this. */
template <int COUNT, int THREADS>
__device__ __forceinline__ void gf_sum_blocks(const double *partial, double *out) {
    const unsigned blocks = gridDim.x * gridDim.y;
    double sum[COUNT] = {};
    for (unsigned b = threadIdx.x; b < blocks; b += THREADS)
        for (int i = 0; i < COUNT; i++) sum[i] += __ldcg(&partial[size_t(b) * COUNT + i]);
    __syncthreads();
    gf_block_sum<COUNT, THREADS>(sum, out);
}

#endif
