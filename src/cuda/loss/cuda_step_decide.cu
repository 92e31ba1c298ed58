/* cuda_step_decide.cu - after pass B: lambda moves, and what was undecided is settled. One warp per anchor.
 *
 * If a list overflowed, or lambda left the range it was given, the pass is done again, with the new lambda known. Rows that could be
 * settled are settled nonetheless: the repeated pass overwrites them.
 */
#include "cuda/loss/cuda_settle.cuh"
#include "cuda/loss/cuda_step.cuh"

#define WARPS 4
#define WIDE 1024

struct decide_args {
    gf_cuda_step step;
    gf_tile_args pass[2];
};

static __device__ double above_old(const gf_cuda_step &x, const gf_rows &rows, int64_t r) {
    if (x.plan.flags & GF_GROUP) return double(rows.above[r]);
    return double(x.plan.negatives - rows.kept[r] - rows.window_le[r]);
}

/* ----- shared lambda: how many of all negatives are above it; whole numbers below 2^53, so the order does not matter ----- */

static __global__ void __launch_bounds__(WIDE) count_above(const gf_cuda_step x, const int i) {
    const int64_t own = x.plan.rows * x.plan.per_sample;
    double sum[1] = {0.0};
    for (int64_t r = threadIdx.x; r < own; r += WIDE) sum[0] += above_old(x, x.side[i].own, r);
    gf_block_sum<1, WIDE>(sum, &x.control->above[i][0]);
    if (threadIdx.x == 0) x.control->above[i][1] = double(own * x.plan.negatives);
}

cudaError_t gf_cuda_count_above(const gf_cuda_step *x, int side, cudaStream_t stream) {
    count_above<<<1, WIDE, 0, stream>>>(*x, side);
    return cudaGetLastError();
}

/* ----- decide ----- */

static __device__ float move_lambda(const gf_cuda_step &x, int i, int64_t a) {
    const gf_cuda_side &side = x.side[i];
    if (x.plan.shared) return gf_moved_shared(x, i).lambda; /* finish writes the row */
    glofnd_row row = side.fresh[a];
    if (!side.open[a]) return row.lambda;
    double above = 0.0;
    for (int v = 0; v < x.plan.per_sample; v++) above += above_old(x, side.own, a * x.plan.per_sample + v);
    gf_learner_move(&x.plan.learner, &row, above / double(x.plan.per_sample * x.plan.negatives));
    __syncwarp();
    if (threadIdx.x % 32 == 0) side.fresh[a] = row;
    return row.lambda;
}

/* lo = hi = the new lambda; true if the list allows to settle the row with it. */
static __device__ bool close_window(const gf_rows &rows, int64_t r, float lambda, int cap) {
    const bool settled = lambda >= rows.lo[r] && lambda <= rows.hi[r] && rows.window_n[r] <= cap;
    __syncwarp();
    if (threadIdx.x % 32 == 0) rows.lo[r] = rows.hi[r] = rows.mid[r] = lambda;
    __syncwarp();
    return settled;
}

static __global__ void __launch_bounds__(32 * WARPS) decide(const decide_args d) {
    const gf_cuda_step &x = d.step;
    const int64_t a = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    const int i = blockIdx.y;
    if (a >= x.plan.rows) return;
    const float lambda = gf_learner_gate(move_lambda(x, i, a));
    for (int v = 0; v < x.plan.per_sample; v++) {
        const int64_t r = a * x.plan.per_sample + v;
        if (close_window(x.side[i].own, r, lambda, d.pass[i].cap)) gf_settle_row(d.pass[i], static_cast<int>(r));
        else if (threadIdx.x % 32 == 0) x.control->repeat = 1;
    }
}

cudaError_t gf_cuda_decide(const gf_cuda_step *x, const gf_cuda_pass pass[2], cudaStream_t stream) {
    decide_args d = {};
    d.step = *x;
    for (int i = 0; i < x->plan.sides; i++) d.pass[i] = gf_tile_args_of(&pass[i]);
    const dim3 grid(static_cast<unsigned>((x->plan.rows + WARPS - 1) / WARPS), x->plan.sides);
    decide<<<grid, 32 * WARPS, 0, stream>>>(d);
    return cudaGetLastError();
}
