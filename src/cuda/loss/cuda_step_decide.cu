/* cuda_step_decide.cu - after pass B: lambda moves, and what was undecided is settled. One warp per row.
 *
 * If a list overflowed, or lambda left the range it was given, the pass is done again, with the new lambda known. Rows that could be
 * settled are settled nonetheless: the repeated pass overwrites them.
 */
#include "cuda/loss/cuda_settle.cuh"
#include "cuda/loss/cuda_step_rows.cuh"

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

/* The lambda of anchor a; one warp of those that ask writes the row. */
static __device__ float move_lambda(const gf_cuda_step &x, int i, int64_t a, bool writes) {
    const gf_cuda_side &side = x.side[i];
    if (x.plan.shared) return gf_moved_shared(x, i).lambda; /* finish writes the row */
    glofnd_row row = side.state[a];
    if (!side.open[a]) return side.fresh[a].lambda;
    double above = 0.0;
    for (int v = 0; v < x.plan.per_sample; v++) above += above_old(x, side.own, a * x.plan.per_sample + v);
    gf_learner_move(&x.plan.learner, &row, above / double(x.plan.per_sample * x.plan.negatives));
    if (writes && threadIdx.x % 32 == 0) side.fresh[a] = row;
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

/* The rows of an anchor are in one block: all of them are counted before one is settled, which changes its counts. */
static __global__ void __launch_bounds__(32 * WARPS) decide(const decide_args d) {
    const gf_cuda_step &x = d.step;
    const int64_t r = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    const int i = blockIdx.y, per_sample = x.plan.per_sample;
    const bool own = r < x.plan.rows * per_sample;
    float lambda = 0.0f;
    if (own) lambda = gf_learner_gate(move_lambda(x, i, r / per_sample, r % per_sample == 0));
    __syncthreads();
    if (!own) return;
    if (close_window(x.side[i].own, r, lambda, d.pass[i].cap)) gf_settle_row(d.pass[i], static_cast<int>(r));
    else if (threadIdx.x % 32 == 0) x.control->repeat = 1;
}

static decide_args args_of(const gf_cuda_step *x, const gf_cuda_pass pass[2]) {
    decide_args d = {};
    d.step = *x;
    for (int i = 0; i < x->plan.sides; i++) d.pass[i] = gf_tile_args_of(&pass[i]);
    return d;
}

static dim3 grid_of(const gf_cuda_step *x) {
    return dim3(static_cast<unsigned>((x->plan.rows * x->plan.per_sample + WARPS - 1) / WARPS), x->plan.sides);
}

cudaError_t gf_cuda_decide(const gf_cuda_step *x, const gf_cuda_pass pass[2], cudaStream_t stream) {
    decide<<<grid_of(x), 32 * WARPS, 0, stream>>>(args_of(x, pass));
    return cudaGetLastError();
}

/* ----- decide and finish ----- */

/* The list holds the whole row, so it settles any lambda in its range; one that rounding put next to the range counts as its end. */
static __device__ void settle_within(const gf_cuda_step &x, const gf_tile_args &pass, int i, int64_t r, float lambda) {
    const gf_rows &rows = x.side[i].own;
    close_window(rows, r, fminf(fmaxf(lambda, rows.lo[r]), rows.hi[r]), pass.cap);
    gf_settle_row(pass, static_cast<int>(r));
    __syncwarp();
}

static __global__ void __launch_bounds__(32 * WARPS) decide_finish(const decide_args d) {
    __shared__ double log_u[WARPS];
    const gf_cuda_step &x = d.step;
    const gf_plan &p = x.plan;
    const int i = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t r0 = int64_t(blockIdx.x) * WARPS, r = r0 + warp, a = r / p.per_sample;
    const bool own = r < p.rows * p.per_sample;
    float lambda = 0.0f;
    gf_summed_row s = {};
    gf_totals t = {};
    gf_row_end end = {};
    if (own) lambda = gf_learner_gate(move_lambda(x, i, a, r % p.per_sample == 0));
    __syncthreads();
    if (own) {
        settle_within(x, d.pass[i], i, r, lambda);
        s = gf_summed(x, i, r);
        t.would = gf_would_keep(x, i, r);
    }
    if (p.masking && !p.official) t.rescued = gf_rescue<32 * WARPS>(x, i, r0, warp, WARPS, own && s.kept == 0, s);
    if (own && lane == 0) {
        end = gf_finish_row(x, i, r, s, t);
        log_u[warp] = end.log_u;
    }
    __syncthreads();
    if (!own || lane) return;
    const double both[2] = {log_u[warp], p.per_sample == 2 ? log_u[warp | 1] : 0.0};
    if (r % p.per_sample == 0) gf_finish_anchor(x, i, a, end, both, t);
    gf_note_row(x, i, r, t);
}

cudaError_t gf_cuda_decide_finish(const gf_cuda_step *x, const gf_cuda_pass pass[2], cudaStream_t stream) {
    decide_finish<<<grid_of(x), 32 * WARPS, 0, stream>>>(args_of(x, pass));
    return cudaGetLastError();
}
