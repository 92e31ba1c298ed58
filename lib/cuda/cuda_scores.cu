/* cuda_scores.cu - FNC by scores: fixed thresholds, and the mean of several support vectors. */
#include "cuda/cuda_step.h"

#define THREADS 256

static __global__ void __launch_bounds__(THREADS) fix(float *value, int32_t *tie, const int64_t rows, const float threshold) {
    const int64_t r = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (r < rows) value[r] = threshold, tie[r] = INT32_MAX;
}

/* A top k whose last score is the next number above the threshold: all equal to it are flagged. */
cudaError_t gf_cuda_fix_thresholds(const gf_cuda_step *x, int side, cudaStream_t stream) {
    const int64_t own = x->plan.rows * x->plan.per_sample;
    const gf_cuda_side *s = &x->side[side];
    fix<<<static_cast<unsigned>((own + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
        s->quantile, s->own.tie, own, nextafterf(static_cast<float>(x->plan.o.fnc_threshold), INFINITY));
    return cudaGetLastError();
}

/* The mean of unit vectors gives the mean of their similarities. */
static __global__ void __launch_bounds__(THREADS) average(float *rows, const int64_t numbers, const int64_t copies) {
    const int64_t at = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= numbers) return;
    double sum = 0.0;
    for (int64_t n = 0; n < copies; n++) sum += double(rows[n * numbers + at]);
    rows[at] = float(sum / double(copies));
}

cudaError_t gf_cuda_average_support(const gf_cuda_step *x, int side, int64_t copies, cudaStream_t stream) {
    const gf_embed *e = &x->side[side].support.f32;
    const int64_t numbers = e->rows * e->ld;
    average<<<static_cast<unsigned>((numbers + THREADS - 1) / THREADS), THREADS, 0, stream>>>(e->row, numbers, copies);
    return cudaGetLastError();
}
