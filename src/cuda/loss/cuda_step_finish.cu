/* cuda_step_finish.cu - the end of the first half of a step: rows get their loss, their weights, and their anchors' new state. One
 * thread per row; the two rows of an anchor are neighbours in a warp.
 */
#include "cuda/loss/cuda_step_rows.cuh"

#define THREADS 128

static __global__ void __launch_bounds__(THREADS) finish(const gf_cuda_step x) {
    const gf_plan &p = x.plan;
    const int i = blockIdx.y;
    const int64_t own = p.rows * p.per_sample, r0 = int64_t(blockIdx.x) * THREADS, r = r0 + threadIdx.x;
    gf_totals t = {};
    gf_summed_row s = {};
    if (r < own) s = gf_summed(x, i, r);
    if (p.masking && !p.official) t.rescued = gf_rescue<THREADS>(x, i, r0, threadIdx.x, THREADS, r < own && s.kept == 0, s);
    if (r >= own) return;
    t.would = gf_would_keep(x, i, r);
    const gf_row_end end = gf_finish_row(x, i, r, s, t);
    double log_u[2] = {end.log_u, 0.0};
    if (p.per_sample == 2) log_u[1] = __shfl_down_sync(3u << (threadIdx.x % 32 & ~1), end.log_u, 1);
    if (r % p.per_sample == 0) gf_finish_anchor(x, i, r / p.per_sample, end, log_u, t);
    gf_note_row(x, i, r, t);
}

cudaError_t gf_cuda_finish(const gf_cuda_step *x, cudaStream_t stream) {
    const int64_t own = x->plan.rows * x->plan.per_sample;
    finish<<<dim3(static_cast<unsigned>((own + THREADS - 1) / THREADS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}
