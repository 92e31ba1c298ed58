/* cuda_step_rows.cu - from counting to the end of the first half: lambda moves, losses, links and new state; in small batches at once. */
#include "cuda/cuda_step.cuh"
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_element.cuh"
#include "cuda/passes/tile_mma.cuh"

/* ---------- Between counting and pass B: lambda moves ---------- */

#define THREADS 128
#define WIDE 1024

/* ----- shared lambda: number of negatives above it; integers below 2^53, so the order does not matter ----- */

static __global__ void __launch_bounds__(WIDE) count_above(const gf_cuda_step x, const int i) {
    const int64_t own = x.plan.rows * x.plan.per_sample;
    double sum[2] = {0.0, 0.0};
    for (int64_t r = threadIdx.x; r < own; r += WIDE)
        sum[0] += double(x.side[i].own.above[r]), sum[1] += double(gf_cuda_row_negatives(x, i, r));
    gf_block_sum<2, WIDE>(sum, x.control->above[i]);
}

cudaError_t gf_cuda_count_above(const gf_cuda_step *x, int side, cudaStream_t stream) {
    count_above<<<1, WIDE, 0, stream>>>(*x, side);
    return cudaGetLastError();
}

/* ----- decide: one thread per anchor ----- */

static __global__ void __launch_bounds__(THREADS) decide(const gf_cuda_step x) {
    const int64_t a = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    const int i = blockIdx.y, per_sample = x.plan.per_sample;
    const gf_cuda_rows &own = x.side[i].own;
    if (a >= x.plan.rows) return;
    float lambda;
    if (x.plan.shared) {
        lambda = gf_moved_shared(x, i).lambda; /* finish writes the row */
    } else {
        glofnd_anchor row = x.side[i].fresh[a];
        double above = 0.0, negatives = 0.0;
        for (int64_t c = gf_first_copy(x, a); c >= 0; c = gf_next_copy(x, c)) { /* all samples of the anchor */
            for (int v = 0; v < per_sample; v++) above += double(own.above[c * per_sample + v]);
            negatives += gf_anchor_negatives(x, i, c);
        }
        if (x.side[i].open[a]) {
            gf_lambda_descend(&x.plan.learner, &row, above, negatives);
            x.side[i].fresh[a] = row;
        }
        lambda = row.lambda;
    }
    for (int v = 0; v < per_sample; v++) own.lo[a * per_sample + v] = gf_lambda_threshold(lambda);
}

cudaError_t gf_cuda_decide(const gf_cuda_step *x, cudaStream_t stream) {
    decide<<<dim3(static_cast<unsigned>((x->plan.rows + THREADS - 1) / THREADS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}

/* ---------- After pass B: losses, links, new state. One thread per row ---------- */

static __device__ gf_summed_row summed(const gf_cuda_step &x, int i, int64_t r) {
    const gf_cuda_rows &y = x.side[i].own;
    gf_summed_row s = gf_row_before_sums(x, i, r);
    s.sum = y.sum[r];
    s.moment = x.plan.flags & GF_MOMENT ? y.moment[r] : 0.0;
    s.flagged_s = x.plan.flags & (GF_ATTRACT | GF_SIGMOID) ? y.flagged_s[r] : 0.0;
    s.peak = y.peak[r];
    s.kept = x.plan.flags & GF_COUNT ? y.kept[r] : static_cast<int32_t>(s.negatives);
    return s;
}

template <bool PLAIN, bool SEVERAL = false> static __global__ void __launch_bounds__(THREADS) finish(const gf_cuda_step x) {
    gf_assume<PLAIN>(x, blockIdx.y);
    const int64_t r0 = int64_t(blockIdx.x) * THREADS, r = r0 + threadIdx.x;
    gf_summed_row s = {};
    glofnd_anchor fresh = {};
    if (r < x.plan.rows * x.plan.per_sample) {
        fresh = x.side[blockIdx.y].fresh[r / x.plan.per_sample];
        s = summed(x, blockIdx.y, r);
    }
    gf_finish_rows<THREADS, PLAIN, SEVERAL>(x, blockIdx.y, r0, THREADS, s, fresh);
}

cudaError_t gf_cuda_finish(const gf_cuda_step *x, cudaStream_t stream) {
    const int64_t own = x->plan.rows * x->plan.per_sample;
    auto *const made = x->plan.several ? finish<false, true> : gf_is_plain(x) ? finish<true> : finish<false>;
    made<<<dim3(static_cast<unsigned>((own + THREADS - 1) / THREADS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}

/* ---------- Few rows: everything between unit rows and pass C in one kernel ----------
 *
 * A block has 16 rows and, in shared memory, all their similarities: it counts, moves lambda, sums, and finishes the rows. This
 * is one launch and one product where a large batch takes four and two. `How` computes the similarities:
 *     scores(a, shared, r0, s, ld)     s [16][ld], NaN where there is no pair; all threads
 *     bytes(a)                         of its shared memory
 *     Sum, Exp                         type of the sums, exponential function
 */

#define ROWS 16
#define WARPS 8
#define SMALL_THREADS (32 * WARPS)

struct small_args {
    gf_cuda_step step;
    gf_tile_args pass[2];
    int cols; /* the most of a side */
};

/* ----- similarities ----- */

template <int D, int HALVES> struct rounded {
    typedef gf_mma_shape<D, HALVES, 1, WARPS, 1, 2> C;
    typedef float Sum;
    typedef gf_exp_fast Exp;

    static size_t bytes(int) { return C::TILES; }

    static __device__ __forceinline__ void scores(const gf_tile_args &a, unsigned char *shared, int r0, float *s, int ld) {
        const int g = threadIdx.x % 32 / 4, t = 2 * (threadIdx.x % 4);
        gf_each_tile<C>(a, shared, r0, CUDART_NAN_F, [&](const float(&acc)[1][C::NT][4], int c) {
#pragma unroll
            for (int n = 0; n < C::NT; n++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    *reinterpret_cast<float2 *>(s + (g + 8 * h) * ld + c + 8 * n + t) =
                        make_float2(acc[0][n][2 * h], acc[0][n][2 * h + 1]);
        });
    }
};

struct exact { /* the chain of tile_exact.cuh */
    typedef double Sum;
    typedef gf_exp_exact Exp;

    static size_t bytes(int ld) { return ROWS * sizeof(float) * static_cast<size_t>(ld); }

    static __device__ __forceinline__ void scores(const gf_tile_args &a, unsigned char *shared, int r0, float *s, int ld) {
        float *q = reinterpret_cast<float *>(shared);
        for (int i = threadIdx.x; i < ROWS * a.ld; i += SMALL_THREADS)
            q[i] = r0 + i / a.ld < a.q.rows ? a.q.f32[static_cast<int64_t>(r0) * a.ld + i] : 0.0f;
        __syncthreads();
        for (int c = threadIdx.x; c < ld; c += SMALL_THREADS) {
            float dot[ROWS] = {};
            for (int d = 0; c < a.k.rows && d < a.ld; d++) {
                const float k = a.k.f32[static_cast<int64_t>(c) * a.ld + d];
#pragma unroll
                for (int r = 0; r < ROWS; r++) dot[r] = fmaf(q[r * a.ld + d], k, dot[r]);
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) s[r * ld + c] = gf_is_pair(a, r0 + r, c) ? dot[r] : CUDART_NAN_F;
        }
        __syncthreads();
    }
};

/* Columns of the tiles of `rounded`, and 8 more: rows of s then start in different banks. */
static __host__ __device__ __forceinline__ int scores_ld(int cols) { return (cols + 127) / 128 * 128 + 8; }

/* ----- rows ----- */

struct block_rows {
    float mid[ROWS], lo[ROWS];
    int above[ROWS];
    gf_summed_row sums[ROWS];
};

struct own_row {         /* of one of the first ROWS threads, in registers */
    glofnd_anchor fresh; /* of its anchor */
    bool open;
};

/* Loads the numbers of the block's rows before their similarities are computed, to hide the latency. */
static __device__ __forceinline__ own_row begin(const gf_cuda_step &x, int i, int r0, int rows, block_rows &sm) {
    own_row y = {};
    const int t = threadIdx.x;
    if (t >= rows) return y;
    const int64_t a = (r0 + t) / x.plan.per_sample;
    y.fresh = x.side[i].fresh[a];
    y.open = x.plan.learned && x.plan.updating && x.side[i].open[a];
    sm.sums[t] = gf_row_before_sums(x, i, r0 + t);
    sm.lo[t] = sm.sums[t].lo, sm.mid[t] = x.side[i].own.mid[r0 + t];
    return y;
}

/* Number of a row's similarities above mid; one warp. */
static __device__ __forceinline__ int count_above_row(const float *s, int cols, float mid) {
    int n = 0;
    for (int c = threadIdx.x % 32; c < cols; c += 32) n += s[c] > mid ? 1 : 0;
    return gf_warp_sum(n);
}

/* Lambda moves; sm.lo then holds the deciding thresholds. */
static __device__ __forceinline__ void decide_small(const gf_cuda_step &x, int i, int r0, int rows, const float *s, int cols,
                                                    int ld, block_rows &sm, own_row &y) {
    const int t = threadIdx.x;
    for (int r = t / 32; r < rows; r += WARPS) {
        const int n = count_above_row(s + r * ld, cols, sm.mid[r]);
        if (t % 32 == 0) sm.above[r] = n;
    }
    __syncthreads();
    if (t < rows && y.open) {
        y.fresh = gf_moved_anchor(x, i, (r0 + t) / x.plan.per_sample, y.fresh,
                                  sm.above[t] + (x.plan.per_sample == 2 ? sm.above[t ^ 1] : 0));
        sm.lo[t] = gf_lambda_threshold(y.fresh.lambda);
    }
    __syncthreads();
}

/* Row r of the block; one warp. */
template <class How>
static __device__ __forceinline__ void sum_row(const gf_tile_args &a, unsigned flags, int r0, int r, const float *s, int cols,
                                               block_rows &sm) {
    constexpr int N = 4;
    const int lane = threadIdx.x % 32;
    gf_row_view w = {sm.sums[r].inv_tau * How::Exp::scale, sm.lo[r], gf_bias_of<typename How::Exp>(a, flags), -1, -1, -1};
    gf_row_sums<typename How::Sum> t = gf_no_sums<typename How::Sum>();
    if (flags & GF_GROUP && a.row.group) w.group = a.row.group[r0 + r];
    for (int c = lane; c < cols; c += 32 * N) {
        const auto col = [&](int j) { return c + 32 * j; };
        const auto v = [&](int j) { return col(j) < cols ? s[col(j)] : CUDART_NAN_F; };
        gf_sum_row<typename How::Exp, N>(a, flags, w, t, v, v, col);
    }
    for (int lanes = 1; lanes < 32; lanes *= 2) gf_join_lanes<typename How::Exp>(flags, w.k, t, lanes);
    if (lane) return;
    gf_summed_row &y = sm.sums[r];
    y.sum = double(t.sum), y.moment = double(t.moment), y.flagged_s = double(t.flagged);
    y.peak = flags & GF_SHIFT ? t.top * y.inv_tau : 0.0f;
    y.kept = t.kept, y.lo = sm.lo[r];
}

template <class How, unsigned FLAGS, bool PLAIN>
static __global__ void __launch_bounds__(SMALL_THREADS, 1) small(const __grid_constant__ small_args d) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ block_rows sm;
    const int i = blockIdx.y, r0 = blockIdx.x * ROWS;
    const gf_tile_args &a = d.pass[i];
    const gf_plan &p = d.step.plan;
    const unsigned flags = FLAGS != GF_ANY_FLAGS ? FLAGS : PLAIN ? gf_flags_of<GF_ANY_FLAGS>(a) : a.flags;
    const int cols = a.k.rows, ld = scores_ld(cols), rows = min(ROWS, a.q.rows - r0);
    float *s = reinterpret_cast<float *>(shared);
    gf_assume<PLAIN>(d.step, i);
    own_row y = begin(d.step, i, r0, rows, sm);
    How::scores(a, shared + ROWS * sizeof(float) * ld, r0, s, ld);
    if (p.learned && p.updating && !p.pooled && p.o.learner != GLOFND_LEARN_RING)
        decide_small(d.step, i, r0, rows, s, cols, ld, sm, y);
    for (int r = threadIdx.x / 32; r < rows; r += WARPS) sum_row<How>(a, flags, r0, r, s + r * ld, cols, sm);
    __syncthreads();
    gf_summed_row own = {};
    if (int(threadIdx.x) < rows) own = sm.sums[threadIdx.x];
    gf_finish_rows<SMALL_THREADS, PLAIN>(d.step, i, r0, ROWS, own, y.fresh);
}

/* ----- launches ----- */

static size_t shared_bytes(size_t work, int cols) { return work + ROWS * sizeof(float) * static_cast<size_t>(scores_ld(cols)); }

/* The most columns of a side: one launch serves all sides, and their candidates differ in number. */
static int most_columns(const gf_cuda_pass *pass, int sides) {
    int64_t cols = 0;
    for (int i = 0; i < sides; i++) cols = pass[i].k->f32.rows > cols ? pass[i].k->f32.rows : cols;
    return static_cast<int>(cols);
}

template <class How, unsigned FLAGS = GF_ANY_FLAGS> static cudaError_t launch(const small_args &d, cudaStream_t stream) {
    const size_t bytes = shared_bytes(How::bytes(d.pass[0].ld), d.cols);
    auto *const made = gf_is_plain(&d.step) ? small<How, FLAGS, true> : small<How, FLAGS, false>;
    const cudaError_t e = gf_cuda_allow_shared(reinterpret_cast<const void *>(made));
    if (e != cudaSuccess) return e;
    const dim3 grid((d.pass[0].q.rows + ROWS - 1) / ROWS, d.step.plan.sides);
    made<<<grid, SMALL_THREADS, bytes, stream>>>(d);
    return cudaGetLastError();
}

/* The flags and the dimension that matter most have kernels of their own. */
static cudaError_t launch_128(const small_args &d, cudaStream_t stream) {
    switch (d.pass[0].flags) {
    case 0: return launch<rounded<128, 1>, 0>(d, stream);
    case GF_MASK | GF_COUNT: return launch<rounded<128, 1>, GF_MASK | GF_COUNT>(d, stream);
    default: return launch<rounded<128, 1>>(d, stream);
    }
}

static size_t work_bytes(gf_cuda_math math, int ld) {
    const int halves = math == GF_CUDA_BF16 ? 1 : 2;
    if (math == GF_CUDA_EXACT) return exact::bytes(ld);
    return static_cast<size_t>(ROWS + 2 * 16 * WARPS) * 2 * ld *
           halves; /* C::TILES; too much for rows of more than 256 numbers */
}

int gf_cuda_is_small(const gf_cuda_step *x, const gf_cuda_pass *pass) {
    const int64_t rows = pass->q->f32.rows, ld = pass->k->f32.ld;
    const int cols = most_columns(pass, x->plan.sides);
    const size_t max = static_cast<size_t>(gf_device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    if (x->plan.shared || x->plan.topk || x->plan.marked || x->plan.several || x->plan.keyed || cols > 4096 || ld > 1024 ||
        gf_block_rows(static_cast<int>(rows)) != 16)
        return 0;
    return shared_bytes(work_bytes(pass->math, static_cast<int>(ld)), cols) + 4096 <= max;
}

cudaError_t gf_cuda_small(const gf_cuda_step *x, const gf_cuda_pass pass[2], cudaStream_t stream) {
    small_args d = {};
    d.step = *x;
    d.cols = most_columns(pass, x->plan.sides);
    for (int i = 0; i < x->plan.sides; i++) d.pass[i] = gf_tile_args_of(&pass[i]);
    const gf_tile_args &a = d.pass[0];
    if (pass->math == GF_CUDA_EXACT) return launch<exact>(d, stream);
    if (pass->math == GF_CUDA_BF16) switch (a.ld) {
        case 64: return launch<rounded<64, 1>>(d, stream);
        case 128: return launch_128(d, stream);
        case 256: return launch<rounded<256, 1>>(d, stream);
        default: return cudaErrorNotSupported;
        }
    switch (a.ld) {
    case 64: return launch<rounded<64, 2>>(d, stream);
    case 128: return launch<rounded<128, 2>>(d, stream);
    default: return cudaErrorNotSupported;
    }
}
