/* cuda_step_finish.cu - the end of the first half of a step, after pass B. One thread per row. */
#include "cuda/cuda_step_rows.cuh"

#define THREADS 128

static __device__ gf_summed_row summed(const gf_cuda_step &x, int i, int64_t r) {
    const gf_rows &y = x.side[i].own;
    gf_summed_row s = gf_row_before_sums(x, i, r);
    s.sum = y.sum[r];
    s.moment = x.plan.flags & GF_MOMENT ? y.moment[r] : 0.0;
    s.flagged_s = x.plan.flags & GF_ATTRACT ? y.flagged_s[r] : 0.0;
    s.peak = y.peak[r];
    s.kept = x.plan.flags & GF_COUNT ? y.kept[r] : static_cast<int32_t>(x.plan.negatives);
    return s;
}

static __global__ void __launch_bounds__(THREADS) finish(const gf_cuda_step x) {
    const int64_t r0 = int64_t(blockIdx.x) * THREADS, r = r0 + threadIdx.x;
    gf_summed_row s = {};
    glofnd_row fresh = {};
    if (r < x.plan.rows * x.plan.per_sample) {
        fresh = x.side[blockIdx.y].fresh[r / x.plan.per_sample];
        s = summed(x, blockIdx.y, r);
    }
    gf_finish_rows<THREADS>(x, blockIdx.y, r0, THREADS, s, fresh);
}

cudaError_t gf_cuda_finish(const gf_cuda_step *x, cudaStream_t stream) {
    const int64_t own = x->plan.rows * x->plan.per_sample;
    finish<<<dim3(static_cast<unsigned>((own + THREADS - 1) / THREADS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}
