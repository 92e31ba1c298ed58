/* cuda_step_decide.cu - between counting and pass B: lambda moves. */
#include "cuda/cuda_step_rows.cuh"

#define THREADS 128
#define WIDE 1024

/* ----- shared lambda: number of negatives above it; integers below 2^53, so the order does not matter ----- */

static __global__ void __launch_bounds__(WIDE) count_above(const gf_cuda_step x, const int i) {
    const int64_t own = x.plan.rows * x.plan.per_sample;
    double sum[1] = {0.0};
    for (int64_t r = threadIdx.x; r < own; r += WIDE) sum[0] += double(x.side[i].own.above[r]);
    gf_block_sum<1, WIDE>(sum, &x.control->above[i][0]);
    if (threadIdx.x == 0) x.control->above[i][1] = double(own * x.plan.negatives);
}

cudaError_t gf_cuda_count_above(const gf_cuda_step *x, int side, cudaStream_t stream) {
    count_above<<<1, WIDE, 0, stream>>>(*x, side);
    return cudaGetLastError();
}

/* ----- decide: one thread per anchor ----- */

static __global__ void __launch_bounds__(THREADS) decide(const gf_cuda_step x) {
    const int64_t a = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    const int i = blockIdx.y, per_sample = x.plan.per_sample;
    const gf_rows &own = x.side[i].own;
    if (a >= x.plan.rows) return;
    float lambda;
    if (x.plan.shared) {
        lambda = gf_moved_shared(x, i).lambda; /* finish writes the row */
    } else {
        glofnd_row row = x.side[i].fresh[a];
        int64_t above = 0;
        for (int v = 0; v < per_sample; v++) above += own.above[a * per_sample + v];
        if (x.side[i].open[a]) x.side[i].fresh[a] = row = gf_moved_anchor(x, row, above);
        lambda = row.lambda;
    }
    for (int v = 0; v < per_sample; v++) own.lo[a * per_sample + v] = gf_lambda_threshold(lambda);
}

cudaError_t gf_cuda_decide(const gf_cuda_step *x, cudaStream_t stream) {
    decide<<<dim3(static_cast<unsigned>((x->plan.rows + THREADS - 1) / THREADS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}
