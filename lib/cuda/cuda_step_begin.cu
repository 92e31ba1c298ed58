/* cuda_step_begin.cu - the beginning of a step: unit rows; ids are checked, state is gathered, thresholds are read or set. */
#include "cuda/cuda_step.cuh"
#include "cuda/passes/cuda_kernels.cuh"

/* ---------- Unit rows in float32 and in the bf16 halves the tensor cores read. One warp per sample ---------- */

#define GF_UNIT_TOLERANCE 4e-3 /* rounding to bf16 moves a length by up to 2^-8 */

struct gf_embed_args {
    gf_cuda_embed_job job;
    gf_cuda_embed za, zb;
};

__device__ __forceinline__ double gf_embed_sum(double x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

/* Row i of the caller's embeddings. */
template <class T> __device__ __forceinline__ const T *gf_embed_source(const gf_source &h, int64_t i) {
    return static_cast<const T *>(h.rows) + i * h.stride;
}

/* Length to divide by; a row that cannot be used is noted in *bad. */
template <class T> __device__ __forceinline__ double gf_embed_norm(const gf_embed_args &x, const T *h, int dim, long long place) {
    double square = 0.0;
#pragma unroll 4
    for (int d = threadIdx.x % 32; d < dim; d += 32) {
        const double v = double(gf_load(h + d));
        square += v * v;
    }
    square = gf_embed_sum(square);
    const double length = sqrt(square);
    const bool unit = x.job.normalize || fabs(length - 1.0) <= GF_UNIT_TOLERANCE;
    if ((!isfinite(square) || !unit) && threadIdx.x % 32 == 0 && x.job.bad)
        atomicMin(reinterpret_cast<long long *>(x.job.bad), place);
    return x.job.normalize ? fmax(length, 1e-12) : 1.0;
}

__device__ __forceinline__ void gf_embed_put(const gf_cuda_embed &e, int64_t row, int d, float z) {
    const int64_t at = row * e.f32.ld + d;
    const __nv_bfloat16 hi = __float2bfloat16_rn(z);
    e.f32.row[at] = z;
    if (e.hi) static_cast<__nv_bfloat16 *>(e.hi)[at] = hi;
    if (e.lo) static_cast<__nv_bfloat16 *>(e.lo)[at] = __float2bfloat16_rn(z - __bfloat162float(hi));
}

/* Writes both unit rows; returns their similarity. */
template <class T>
__device__ __forceinline__ double gf_embed_write(const gf_embed_args &x, int64_t i, double norm_a, double norm_b, int64_t row_a,
                                                 int64_t row_b) {
    const T *ha = gf_embed_source<T>(x.job.a, i), *hb = gf_embed_source<T>(x.job.b, i);
    const int dim = static_cast<int>(x.za.f32.dim);
    const double scale_a = 1.0 / norm_a, scale_b = 1.0 / norm_b;
    double dot = 0.0;
#pragma unroll 4
    for (int d = threadIdx.x % 32; d < x.za.f32.ld; d += 32) {
        const float a = d < dim ? float(double(gf_load(ha + d)) * scale_a) : 0.0f;
        gf_embed_put(x.za, row_a, d, a);
        if (!x.job.b.rows) continue;
        const float b = d < dim ? float(double(gf_load(hb + d)) * scale_b) : 0.0f;
        gf_embed_put(x.zb, row_b, d, b);
        dot += double(a) * double(b);
    }
    return gf_embed_sum(dot);
}

/* Sample i, by the 32 threads of a warp. */
template <class T> __device__ __forceinline__ void gf_embed_sample(const gf_embed_args &x, int64_t i) {
    const int dim = static_cast<int>(x.za.f32.dim);
    const int64_t row_a = x.job.first_a + i * x.job.step, row_b = x.job.first_b + i * x.job.step;
    const double norm_a = gf_embed_norm(x, gf_embed_source<T>(x.job.a, i), dim, 2 * i);
    const double norm_b = x.job.b.rows ? gf_embed_norm(x, gf_embed_source<T>(x.job.b, i), dim, 2 * i + 1) : 1.0;
    const double dot = gf_embed_write<T>(x, i, norm_a, norm_b, row_a, row_b);
    if (threadIdx.x % 32) return;
    if (x.job.norm_a) x.job.norm_a[row_a] = float(norm_a);
    if (x.job.norm_b && x.job.b.rows) x.job.norm_b[row_b] = float(norm_b);
    if (x.job.positive_a && x.job.b.rows) x.job.positive_a[row_a] = dot;
    if (x.job.positive_b && x.job.b.rows) x.job.positive_b[row_b] = dot;
}

static inline gf_embed_args gf_embed_args_of(const gf_cuda_embed_job *job) {
    gf_embed_args x = {};
    x.job = *job;
    x.za = *job->za;
    if (job->b.rows) x.zb = *job->zb;
    return x;
}

#define WARPS 4

int64_t gf_cuda_embed_ld(int64_t dim) {
    static const int64_t widths[] = {64, 128, 256, 512, 768, 1024}; /* of the tensor-core kernels */
    for (const int64_t ld : widths)
        if (dim <= ld) return ld;
    return (dim + 127) / 128 * 128;
}

template <class T> static __global__ void __launch_bounds__(32 * WARPS) embed(const gf_embed_args x) {
    const int64_t i = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    if (i < x.job.rows) gf_embed_sample<T>(x, i);
}

cudaError_t gf_cuda_embed_rows(const gf_cuda_embed_job *job, cudaStream_t stream) {
    if (job->rows == 0) return cudaSuccess;
    const unsigned blocks = static_cast<unsigned>((job->rows + WARPS - 1) / WARPS);
    gf_with_dtype(job->a.dtype,
                  [&](auto zero) { embed<decltype(zero)><<<blocks, 32 * WARPS, 0, stream>>>(gf_embed_args_of(job)); });
    return cudaGetLastError();
}

/* ---------- Ids, state, thresholds ----------
 *
 * One thread per sample of the batch and side. Each puts its id into a table of ids (open addressing at half load), which the end
 * of the step clears again; threads of own samples read their anchor's record. Given slots go through a second table, behind the
 * first.
 */

#define THREADS 128

static __device__ void note_bad_id(gf_cuda_control *c, int64_t position, int repeated) {
    atomicMin(reinterpret_cast<long long *>(&c->bad_id), static_cast<long long>(2 * position + repeated));
}

/* Puts the key into a table of so many places; true if it was there. Threads race for places, but a repeated key is found in any
 * order. */
static __device__ bool insert_key(int64_t *table, uint64_t places, int64_t key) {
    const unsigned long long mine = static_cast<unsigned long long>(key) + 1;
    for (uint64_t at = gf_first_place(key, places);; at = at + 1 == places ? 0 : at + 1) {
        const unsigned long long old = atomicCAS(reinterpret_cast<unsigned long long *>(&table[at]), 0ull, mine);
        if (old == 0 || old == mine) return old == mine;
    }
}

/* As on the CPU: ids are distinct rows of the store; where slots are given, the slots are, and ids only differ. */
static __device__ void check_id(const gf_cuda_step &x, int64_t j, int64_t id) {
    if (x.store.key && x.copy) return; /* any keys */
    if (x.store.key) {                 /* keys only differ */
        const bool again = id == -1 ? atomicExch(&x.control->lone_key, 1) != 0
                                    : insert_key(x.seen_ids, 2 * static_cast<uint64_t>(x.plan.cols), id);
        if (again) note_bad_id(x.control, j, 1);
        return;
    }
    const bool own = j >= x.row0 && j < x.row0 + x.plan.rows;
    const int64_t place = x.slot ? (own ? x.slot[j - x.row0] : 0) : id;
    if (id < 0 || place < 0 || place >= x.store.n) {
        note_bad_id(x.control, j, 0);
        return;
    }
    const uint64_t places = 2 * static_cast<uint64_t>(x.plan.cols);
    const int64_t first = own && x.copy ? x.copy[j - x.row0] : j - x.row0; /* repeats: all copies have its slot */
    bool again = x.copy ? x.slot && own && x.slot[first] != place : insert_key(x.seen_ids, places, id);
    if (x.slot && own && first == j - x.row0) again |= insert_key(x.seen_ids + places, places, place);
    if (again) note_bad_id(x.control, j, 1);
}

static __device__ glofnd_anchor read_state(const gf_cuda_step &x, int side, int64_t place) {
    gf_record shared = {};
    if (x.plan.learned && !x.plan.shared && !x.plan.pooled) shared = gf_read_shared(x, side); /* else: open_rows */
    return gf_read_row(x, side, place, shared);
}

static __device__ glofnd_anchor shared_row(const gf_cuda_step &x, int i) {
    const gf_record none = {}, shared = gf_read_shared(x, i);
    glofnd_anchor row = gf_record_decode(&shared, &none);
    if (x.plan.learned && !x.plan.pooled) gf_lambda_open(&x.plan.learner, &row, &row);
    return row;
}

/* Rows of the caller are not checked yet. `position` in the batch; cols: the shared row. */
static __device__ void check_lent(const gf_cuda_step &x, int side, int64_t position, int64_t place) {
    if (place < 0 || place > x.store.n) return; /* a bad id */
    const int fault = gf_row_fault(gf_lent_row(x, side, place));
    if (!fault) return;
    atomicMin(reinterpret_cast<long long *>(&x.control->bad_row), static_cast<long long>(4 * position + 2 * side + fault - 1));
}

static __device__ bool starts(const gf_cuda_step &x, int i, const glofnd_anchor &own) {
    const glofnd_anchor row = x.plan.shared || x.plan.pooled ? shared_row(x, i) : own;
    if (!x.plan.pooled) return gf_row_starts(&x.plan, &row);
    if (gf_pool_starts(&row) && i < x.plan.anchored) x.control->pool_starts[i] = 1;
    return gf_pool_starts(&row) || gf_row_starts_itself(&x.plan, i, &own);
}

static __device__ void gather(const gf_cuda_step &x, int i, int64_t a, int64_t id, glofnd_anchor row) {
    const gf_cuda_side &side = x.side[i];
    if (x.plan.learned && !x.plan.shared && !x.plan.pooled) gf_lambda_open(&x.plan.learner, &row, &row);
    side.fresh[a] = row;
    if (x.tau && a == 0 && !(*x.tau >= 1e-3f && *x.tau <= 100.0f)) x.control->bad_tau = 0;
    if (x.bias && a == 0 && !(fabsf(*x.bias) <= 1000.0f)) x.control->bad_bias = 0;
    side.starts[a] = x.plan.learned && x.plan.updating && starts(x, i, row);
    if (side.starts[a]) x.control->starts[i] = 1;
    if (x.plan.official && x.plan.sides == 1 && row.log_u > -INFINITY)
        atomicAdd(reinterpret_cast<unsigned long long *>(&x.control->seen), 1ull);
    for (int v = 0; v < x.plan.per_sample; v++) {
        const int64_t r = a * x.plan.per_sample + v;
        side.own.inv_tau[r] = x.tau ? static_cast<float>(1.0 / double(*x.tau)) : gf_row_inv_tau(&x.plan, row.tau);
        side.row_id[r] = id;
    }
}

static __device__ double anchor_quantile(const gf_cuda_step &x, int i, int64_t a) {
    double sum = 0.0;
    int64_t rows = 0;
    for (int64_t c = gf_first_copy(x, a); c >= 0; c = gf_next_copy(x, c))
        for (int v = 0; v < x.plan.per_sample; v++, rows++) sum += double(x.side[i].quantile[c * x.plan.per_sample + v]);
    return sum / double(rows);
}

static __device__ float open_shared(const gf_cuda_step &x, int i, int64_t a) {
    glofnd_anchor row = shared_row(x, i);
    const bool starts = x.plan.updating && gf_row_starts(&x.plan, &row);
    if (starts) gf_lambda_start(&row, x.control->quantile[i][0] / x.control->quantile[i][1]);
    const bool moves = x.plan.updating && !starts && x.plan.o.learner != GLOFND_LEARN_RING;
    if (a == 0) x.control->shared[i] = row, x.control->shared_open[i] = moves;
    return row.lambda;
}

/* ----- shrinkage: the pool of all anchors ----- */

/* sum [2] over the own rows, of what pool_part says. All threads of the block call it; they share `sum`. */
enum pool_part { POOL_VALUES, POOL_SQUARES, POOL_WEIGHTS };

static __device__ void sum_pool(const gf_cuda_step &x, int i, pool_part part, double at, double scale, double *sum) {
    const int64_t own = x.plan.rows * x.plan.per_sample;
    const double each = gf_row_expects(&x.plan, i);
    double t[2] = {0.0, 0.0};
    if (part == POOL_SQUARES) gf_pool_squares<THREADS>(x, i, x.row0 * x.plan.per_sample, own, at, t);
    else
        for (int64_t r = threadIdx.x; r < own; r += THREADS) {
            const double value = double(x.side[i].quantile[r]);
            t[0] += part == POOL_VALUES ? gf_pool_round(value) : gf_pool_weight(value, at, scale, each);
        }
    __syncthreads();
    gf_block_sum<2, THREADS>(t, sum);
    __syncthreads();
}

/* The first threshold of the pool, by every block of `open` by itself: sums of rounded numbers are equal in all of them. As on the
 * CPU (start_pool of method/step.c). */
static __device__ glofnd_anchor start_pool(const gf_cuda_step &x, int i) {
    __shared__ double sum[2];
    const gf_learner &l = x.plan.learner;
    const double rows = double(x.plan.all), expected = gf_row_expects(&x.plan, i) * rows;
    glofnd_anchor pool = {};
    double lo = -1.0, hi = 1.0;
    sum_pool(x, i, POOL_VALUES, 0.0, 0.0, sum);
    sum_pool(x, i, POOL_SQUARES, sum[0] / rows, 0.0, sum);
    pool.m = float(sum[0] / sum[1]);
    for (int k = 0; k < GF_POOL_HALVINGS; k++) {
        sum_pool(x, i, POOL_WEIGHTS, 0.5 * (lo + hi), gf_pool_scale(&l, &pool), sum);
        gf_pool_halve(&lo, &hi, sum[0], expected);
    }
    gf_pool_start(&l, &pool, 0.5 * (lo + hi), expected);
    return pool;
}

/* One sum for the host, which adds those of the other ranks. */
static __global__ void __launch_bounds__(THREADS)
    pool_sum(const gf_cuda_step x, const int i, const pool_part part, const double at, const double scale) {
    sum_pool(x, i, part, at, scale, x.control->quantile[i]);
}

cudaError_t gf_cuda_pool_sum(const gf_cuda_step *x, int side, int part, double at, double scale, cudaStream_t stream) {
    pool_sum<<<1, THREADS, 0, stream>>>(*x, side, static_cast<pool_part>(part), at, scale);
    return cudaGetLastError();
}

/* The pool of this step. All threads of the block call it. Where it starts and ranks do so together, the host has made it. */
static __device__ glofnd_anchor open_pool(const gf_cuda_step &x, int i) {
    glofnd_anchor pool = {};
    if (!x.plan.learned || !x.plan.pooled) return pool;
    if (!x.control->pool_starts[i]) return shared_row(x, i);
    return x.ranks ? x.control->pool[i] : start_pool(x, i);
}

static __device__ float open_pooled(const gf_cuda_step &x, int i, int64_t a, const glofnd_anchor &pool, glofnd_anchor row) {
    if (a == 0) x.control->shared[i] = pool, x.control->shared_open[i] = 0;
    if (x.plan.shared) return pool.lambda;
    const bool itself = gf_row_starts_itself(&x.plan, i, &row);
    gf_lambda_open(&x.plan.learner, &pool, &row);
    if (itself) row.lambda = static_cast<float>(gf_lambda_project(anchor_quantile(x, i, a)));
    x.side[i].open[a] = 0, x.side[i].fresh[a] = row;
    return row.lambda;
}

static __device__ float open_anchor(const gf_cuda_step &x, int i, int64_t a, glofnd_anchor row) {
    const bool ring = x.plan.o.learner == GLOFND_LEARN_RING, sets = x.plan.updating && (ring || gf_row_starts(&x.plan, &row));
    const bool ready = ring && double(x.store.state->ring_count) >= ceil(1.0 / x.plan.o.alpha);
    x.side[i].open[a] = static_cast<uint8_t>(gf_row_begin_lambda(&x.plan, &row, ready, sets ? anchor_quantile(x, i, a) : 0.0));
    if (sets) x.side[i].fresh[a] = row;
    return row.lambda;
}

/* lo: the deciding threshold, unless lambda moves; mid: the old lambda. */
static __device__ void open_rows(const gf_cuda_step &x, int i, int64_t a, const glofnd_anchor &pool, const glofnd_anchor &row) {
    const gf_cuda_side &side = x.side[i];
    float lambda = INFINITY;
    if (x.plan.learned)
        lambda = gf_lambda_threshold(x.plan.pooled   ? open_pooled(x, i, a, pool, row)
                                     : x.plan.shared ? open_shared(x, i, a)
                                                     : open_anchor(x, i, a, row));
    for (int v = 0; v < x.plan.per_sample; v++) {
        const int64_t r = a * x.plan.per_sample + v;
        float theta = !x.plan.learned && x.plan.thresholds ? side.quantile[r] : lambda;
        if (x.plan.positive) theta = gf_row_positive_threshold(&x.plan, side.positive[x.row0 * x.plan.per_sample + r]);
        side.own.lo[r] = side.own.mid[r] = theta;
    }
}

/* Labels and groups per row of sample j; -1: none. */
static __device__ void spread(const gf_cuda_step &x, int i, int64_t j) {
    const int32_t *group = x.plan.o.detector == GLOFND_DETECT_ORACLE ? x.label : x.group;
    const gf_cuda_side &side = x.side[i];
    for (int v = 0; v < x.plan.per_sample; v++) {
        const int64_t r = j * x.plan.per_sample + v;
        side.every.group[r] = group ? group[j] : -1;
        side.every.label[r] = x.label ? x.label[j] : -1;
    }
}

/* The record is loaded before the id is looked up, so that the latencies overlap. */
static __device__ void open_sample(const gf_cuda_step &x, int what, int i, int64_t j) {
    const int64_t a = j - x.row0;
    glofnd_anchor pool = {};
    if (what & GF_CUDA_OPEN) pool = open_pool(x, i);
    if (j >= x.plan.cols) return;
    const bool own = a >= 0 && a < x.plan.rows, gathers = what & GF_CUDA_GATHER;
    const int64_t id = gathers ? x.id[j] : 0;
    glofnd_anchor row = {};
    if (own) row = gathers ? read_state(x, i, gf_state_place(&x, a)) : x.side[i].fresh[a];
    if (what & GF_CUDA_SPREAD) spread(x, i, j);
    if (gathers && i == 0) check_id(x, j, id);
    if (gathers && own && x.state) check_lent(x, i, j, gf_state_place(&x, a));
    if (gathers && a == 0 && x.state) check_lent(x, i, x.plan.cols, x.store.n);
    if (gathers && own) gather(x, i, a, id, row);
    if (what & GF_CUDA_OPEN && own) open_rows(x, i, a, pool, row);
}

template <bool PLAIN> static __global__ void __launch_bounds__(THREADS) open(const gf_cuda_step x, const int what) {
    gf_assume<PLAIN>(x, blockIdx.y);
    open_sample(x, what, blockIdx.y, int64_t(blockIdx.x) * THREADS + threadIdx.x);
}

static unsigned open_blocks(const gf_cuda_step *x) { return static_cast<unsigned>((x->plan.cols + THREADS - 1) / THREADS); }

cudaError_t gf_cuda_open_rows(const gf_cuda_step *x, int what, cudaStream_t stream) {
    auto *const made = gf_is_plain(x) ? open<true> : open<false>;
    made<<<dim3(open_blocks(x), x->plan.sides), THREADS, 0, stream>>>(*x, what);
    return cudaGetLastError();
}

/* Unit rows and `open` at once: neither needs the other. The blocks of `open` come first, as they take longer. */
template <class T, bool PLAIN>
static __global__ void __launch_bounds__(THREADS)
    begin(const gf_cuda_step x, const gf_embed_args e, const int what, const unsigned blocks) {
    const unsigned first = blocks * x.plan.sides;
    if (blockIdx.x < first) {
        gf_assume<PLAIN>(x, blockIdx.x / blocks);
        open_sample(x, what, blockIdx.x / blocks, int64_t(blockIdx.x % blocks) * THREADS + threadIdx.x);
        return;
    }
    const int64_t i = int64_t(blockIdx.x - first) * (THREADS / 32) + threadIdx.x / 32;
    if (i < e.job.rows) gf_embed_sample<T>(e, i);
}

cudaError_t gf_cuda_begin(const gf_cuda_step *x, const gf_cuda_embed_job *job, int what, cudaStream_t stream) {
    const unsigned blocks = open_blocks(x), samples = static_cast<unsigned>((job->rows + THREADS / 32 - 1) / (THREADS / 32));
    gf_with_dtype(job->a.dtype, [&](auto zero) {
        auto *const made = gf_is_plain(x) ? begin<decltype(zero), true> : begin<decltype(zero), false>;
        made<<<blocks * x->plan.sides + samples, THREADS, 0, stream>>>(*x, gf_embed_args_of(job), what, blocks);
    });
    const cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess || !x->slot || x->store.key || !(what & GF_CUDA_GATHER)) return e;
    const size_t places = 2 * static_cast<size_t>(x->plan.cols);
    return cudaMemsetAsync(x->seen_ids + places, 0, sizeof *x->seen_ids * places, stream); /* slots: no longer needed */
}

/* ----- candidates ----- */

static __global__ void __launch_bounds__(THREADS) open_extra(const gf_cuda_step x, const int i) {
    const int64_t c = int64_t(blockIdx.x) * THREADS + threadIdx.x, r = x.plan.cols * x.plan.per_sample + c;
    const gf_cuda_rows &y = x.side[i].every;
    if (c >= x.plan.candidates[i]) return;
    const gf_link none = gf_no_anchor_link(x.tau ? static_cast<float>(1.0 / double(*x.tau)) : gf_row_inv_tau(&x.plan, 0.0f));
    y.theta[r] = none.theta, y.floor[r] = none.floor, y.log_w[r] = none.log_w, y.w[r] = 0.0f;
    y.inv_tau[r] = none.inv_tau;
    y.attract[r] = y.align[r] = 0.0f, y.tie[r] = 0, y.group[r] = y.label[r] = -1;
}

cudaError_t gf_cuda_open_candidates(const gf_cuda_step *x, int side, cudaStream_t stream) {
    open_extra<<<static_cast<unsigned>((x->plan.candidates[side] + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*x, side);
    return cudaGetLastError();
}

/* ----- shared lambda ----- */

#define WIDE 1024

static __global__ void __launch_bounds__(WIDE) sum_quantiles(const gf_cuda_step x, const int i) {
    double sum[1] = {0.0};
    for (int64_t a = threadIdx.x; a < x.plan.rows; a += WIDE) sum[0] += anchor_quantile(x, i, a);
    gf_block_sum<1, WIDE>(sum, &x.control->quantile[i][0]);
    if (threadIdx.x == 0) x.control->quantile[i][1] = double(x.plan.rows);
}

cudaError_t gf_cuda_sum_quantiles(const gf_cuda_step *x, int side, cudaStream_t stream) {
    sum_quantiles<<<1, WIDE, 0, stream>>>(*x, side);
    return cudaGetLastError();
}

/* ---------- FNC by scores: fixed thresholds, and the mean of several support vectors ---------- */

#define SCORE_THREADS 256

static __global__ void __launch_bounds__(SCORE_THREADS)
    fix(float *value, int32_t *tie, const int64_t rows, const float threshold) {
    const int64_t r = int64_t(blockIdx.x) * SCORE_THREADS + threadIdx.x;
    if (r < rows) value[r] = threshold, tie[r] = INT32_MAX;
}

/* A top k whose last score is the next number above the threshold: all equal to it are flagged. */
cudaError_t gf_cuda_fix_thresholds(const gf_cuda_step *x, int side, cudaStream_t stream) {
    const int64_t own = x->plan.rows * x->plan.per_sample;
    const gf_cuda_side *s = &x->side[side];
    fix<<<static_cast<unsigned>((own + SCORE_THREADS - 1) / SCORE_THREADS), SCORE_THREADS, 0, stream>>>(
        s->quantile, s->own.tie, own, nextafterf(static_cast<float>(x->plan.o.fnc_threshold), INFINITY));
    return cudaGetLastError();
}

/* FIXED: of every row the threshold of its sample. */
static __global__ void __launch_bounds__(SCORE_THREADS)
    spread_guide(const float *threshold, float *theta, const int64_t rows, const int per_sample) {
    const int64_t r = int64_t(blockIdx.x) * SCORE_THREADS + threadIdx.x;
    if (r < rows) theta[r] = gf_guide_threshold(threshold[r / per_sample]);
}

cudaError_t gf_cuda_spread_guide(const gf_cuda_step *x, const float *threshold, float *theta, cudaStream_t stream) {
    const int64_t rows = x->plan.all;
    spread_guide<<<static_cast<unsigned>((rows + SCORE_THREADS - 1) / SCORE_THREADS), SCORE_THREADS, 0, stream>>>(
        threshold, theta, rows, x->plan.per_sample);
    return cudaGetLastError();
}

/* The mean of unit vectors gives the mean of their similarities. */
static __global__ void __launch_bounds__(SCORE_THREADS) average(float *rows, const int64_t numbers, const int64_t copies) {
    const int64_t at = int64_t(blockIdx.x) * SCORE_THREADS + threadIdx.x;
    if (at >= numbers) return;
    double sum = 0.0;
    for (int64_t n = 0; n < copies; n++) sum += double(rows[n * numbers + at]);
    rows[at] = float(sum / double(copies));
}

cudaError_t gf_cuda_average_support(const gf_cuda_step *x, int side, int64_t copies, cudaStream_t stream) {
    const gf_cuda_matrix *e = &x->side[side].support.f32;
    const int64_t numbers = e->rows * e->ld;
    average<<<static_cast<unsigned>((numbers + SCORE_THREADS - 1) / SCORE_THREADS), SCORE_THREADS, 0, stream>>>(e->row, numbers,
                                                                                                                copies);
    return cudaGetLastError();
}
