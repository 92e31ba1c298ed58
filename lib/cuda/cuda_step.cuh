/* cuda_step.cuh - shared by the kernels of a step: sums over a grid, the state of anchors, failures, links, totals, and what the first half
 * does around pass B for one row and for one anchor. */
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stddef.h>

#include "cuda/cuda_step.h"
#include "cuda/passes/cuda_kernels.cuh"
#include "glofnd.h"

/* First place of an id in a table, as on the CPU (method/store.c): two multiplications spread ids of any stride. */
__device__ __forceinline__ uint64_t gf_first_place(int64_t id, uint64_t places) {
    uint64_t h = static_cast<uint64_t>(id) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    return __umul64hi(h, places);
}

/* Own samples of one anchor are a list from its first one on: its only one, unless an id may repeat. */
__device__ __forceinline__ int64_t gf_first_copy(const gf_cuda_step &x, int64_t a) { return x.copy ? x.copy[a] : a; }
__device__ __forceinline__ int64_t gf_next_copy(const gf_cuda_step &x, int64_t a) { return x.copy ? x.next_copy[a] : -1; }

/* ---------- Types of the caller's embeddings and gradients: loads and stores as float32, kernels per type ---------- */

__device__ __forceinline__ float gf_load(const float *x) { return __ldg(x); }
__device__ __forceinline__ float gf_load(const __nv_bfloat16 *x) { return __bfloat162float(__ldg(x)); }
__device__ __forceinline__ float gf_load(const __half *x) { return __half2float(__ldg(x)); }

/* Round to nearest, ties to even. */
__device__ __forceinline__ void gf_store(float *x, float v) { *x = v; }
__device__ __forceinline__ void gf_store(__nv_bfloat16 *x, float v) { *x = __float2bfloat16_rn(v); }
__device__ __forceinline__ void gf_store(__half *x, float v) { *x = __float2half_rn(v); }

/* Calls launch(T()) with the type of these numbers, which the caller of the library has checked. */
template <class Launch> static inline void gf_with_dtype(glofnd_dtype dtype, Launch launch) {
    if (dtype == GLOFND_BF16) launch(__nv_bfloat16());
    else if (dtype == GLOFND_F16) launch(__half());
    else launch(float());
}

/* ---------- Plain steps ----------
 *
 * A small step takes about as long as its code takes to load. So kernels of every step come in two. PLAIN: neither SHRINKAGE nor
 * loss SIGMOID, and all rows are anchors with the same number of negatives. The compiler then leaves out the code of the others.
 */

static inline bool gf_is_plain(const gf_cuda_step *x) {
    return !x->plan.pooled && x->plan.o.loss != GLOFND_LOSS_SIGMOID && x->plan.anchored == x->plan.sides && !x->bias &&
           !x->side[0].unpaired && !x->side[1].unpaired;
}

/* i: side of the block. */
template <bool PLAIN> __device__ __forceinline__ void gf_assume(const gf_cuda_step &x, int i) {
    if (!PLAIN) return;
    __builtin_assume(x.plan.pooled == 0);
    __builtin_assume(x.plan.o.loss != GLOFND_LOSS_SIGMOID);
    __builtin_assume(x.bias == nullptr);
    __builtin_assume(i < x.plan.anchored);
    __builtin_assume(x.side[i].unpaired == nullptr);
    __builtin_assume(x.copy == nullptr);
}

/* ---------- Sums over all threads of a grid in a fixed order: per warp, per block, then the last block adds those up ---------- */

template <class T> __device__ __forceinline__ T gf_warp_sum(T x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

/* partial [COUNT] of this block = sum of x over its threads. All threads of the block call it. */
template <int COUNT, int THREADS> __device__ __forceinline__ void gf_block_sum(const double (&x)[COUNT], double *partial) {
    __shared__ double warps[THREADS / 32][COUNT];
    for (int i = 0; i < COUNT; i++) {
        const double sum = gf_warp_sum(x[i]);
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32][i] = sum;
    }
    __syncthreads();
    if (threadIdx.x < COUNT) {
        double sum = 0.0;
        for (int w = 0; w < THREADS / 32; w++) sum += warps[w][threadIdx.x];
        partial[threadIdx.x] = sum;
    }
}

/* True in all threads of the block that comes last of `blocks`; what the others wrote before is then visible. */
__device__ __forceinline__ bool gf_is_last_block(gf_cuda_control *c, unsigned blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(&c->done, 1u) == blocks - 1;
        if (last) c->done = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

/* ---------- The state of anchors ----------
 *
 * As a step reads and writes it: in the records of a store, or in rows of the caller (glofnd_ctx_state), which hold what a store would
 * give back.
 */

__device__ __forceinline__ glofnd_anchor *gf_lent_row(const gf_cuda_step &x, int side, int64_t place) {
    return x.state + side * (x.store.n + 1) + place;
}

/* State of the anchor at a place of the store; an anchor with clock 0 takes lambda of `shared`. */
__device__ __forceinline__ glofnd_anchor gf_read_row(const gf_cuda_step &x, int side, int64_t place, const gf_record &shared) {
    const struct gf_device_store &s = x.store;
    gf_record r = {};
    gf_temperature t = {};
    if (place >= 0 && place < s.n && x.state) {
        const glofnd_anchor lent = *gf_lent_row(x, side, place);
        r = gf_record_encode(&lent);
        if (s.temperatures) t = {lent.tau, lent.tau_m, lent.tau_v, lent.tau_clock};
    } else if (place >= 0 && place < s.n) {
        const unsigned char *at = s.records + static_cast<size_t>(place) * s.record_bytes;
        r = reinterpret_cast<const gf_record *>(at)[side];
        if (s.temperatures) t = reinterpret_cast<const gf_temperature *>(at + static_cast<size_t>(s.modalities) * sizeof r)[side];
    }
    glofnd_anchor row = gf_record_decode(&r, &shared);
    row.tau = t.tau, row.tau_m = t.m, row.tau_v = t.v, row.tau_clock = t.clock;
    return row;
}

__device__ __forceinline__ void gf_write_row(const gf_cuda_step &x, int side, int64_t place, const glofnd_anchor &row) {
    const struct gf_device_store &s = x.store;
    const gf_record r = gf_record_encode(&row), none = {};
    gf_temperature t = {};
    if (s.temperatures) t = {row.tau, row.tau_m, row.tau_v, row.tau_clock};
    if (x.state) {
        glofnd_anchor lent = gf_record_decode(&r, &none);
        lent.tau = t.tau, lent.tau_m = t.m, lent.tau_v = t.v, lent.tau_clock = t.clock;
        *gf_lent_row(x, side, place) = lent;
        return;
    }
    unsigned char *at = s.records + static_cast<size_t>(place) * s.record_bytes;
    reinterpret_cast<gf_record *>(at)[side] = r;
    if (s.temperatures) reinterpret_cast<gf_temperature *>(at + static_cast<size_t>(s.modalities) * sizeof r)[side] = t;
    s.touched[place / GF_STORE_BLOCK] = 1;
}

/* ----- the one lambda of all anchors ----- */

__device__ __forceinline__ gf_record gf_read_shared(const gf_cuda_step &x, int side) {
    return x.state ? gf_record_encode(gf_lent_row(x, side, x.store.n)) : x.store.state->shared[side];
}

__device__ __forceinline__ void gf_write_shared(const gf_cuda_step &x, int side, const glofnd_anchor &row) {
    const gf_record none = {};
    gf_record r = gf_record_encode(&row);
    r.log_u = 0.0f; /* none */
    if (x.state) *gf_lent_row(x, side, x.store.n) = gf_record_decode(&r, &none);
    else x.store.state->shared[side] = r;
}

/* ---------- Failures, links, totals ---------- */

/* This step failed, or an earlier one whose failure the host has not read yet: the store stays as it is. */
__device__ __forceinline__ bool gf_failed(const gf_cuda_control *c) {
    return c->bad_embed != GF_CUDA_FINE || c->bad_support != GF_CUDA_FINE || c->bad_id != GF_CUDA_FINE ||
           c->bad_tau != GF_CUDA_FINE || c->bad_bias != GF_CUDA_FINE || c->bad_row != GF_CUDA_FINE ||
           c->bad_candidate[0] != GF_CUDA_FINE || c->bad_candidate[1] != GF_CUDA_FINE;
}

__device__ __forceinline__ glofnd_anchor gf_moved_shared(const gf_cuda_step &x, int side) {
    const gf_cuda_control *c = x.control;
    glofnd_anchor row = c->shared[side];
    if (c->shared_open[side]) gf_lambda_descend(&x.plan.learner, &row, c->above[side][0], c->above[side][1]);
    return row;
}

/* The temperature of the step; individual ones are in the rows. */
__device__ __forceinline__ double gf_step_tau(const gf_cuda_step &x) { return x.tau ? double(*x.tau) : x.plan.tau; }

/* Row r of side i is link 2 * sample + (view or side). */
__device__ __forceinline__ int64_t gf_link_place(const gf_cuda_step &x, int i, int64_t r) {
    return x.plan.per_sample == 2 ? r : 2 * r + i;
}

/* Numbers of row r of all rows, for pass C. */
__device__ __forceinline__ void gf_put_link(const gf_cuda_step &x, int i, int64_t r, const gf_link &l) {
    const gf_cuda_rows &y = x.side[i].every;
    y.theta[r] = gf_row_theta(&x.plan, &l);
    y.floor[r] = l.floor;
    y.log_w[r] = l.log_w;
    y.w[r] = gf_fixed_weight(l.log_w, l.inv_tau);
    y.inv_tau[r] = l.inv_tau;
    y.attract[r] = l.attract;
    y.tie[r] = l.tie;
    x.side[i].pos[r] = l.pos;
}

/* Adds up partial [blocks][COUNT] into out, in the last block. All its threads call this. */
template <int COUNT, int THREADS>
__device__ __forceinline__ void gf_sum_blocks(const double *partial, unsigned blocks, double *out) {
    double sum[COUNT] = {};
    for (unsigned b = threadIdx.x; b < blocks; b += THREADS)
        for (int i = 0; i < COUNT; i++) sum[i] += __ldcg(&partial[size_t(b) * COUNT + i]);
    __syncthreads();
    gf_block_sum<COUNT, THREADS>(sum, out);
}

/* ----- totals of the first half: finish writes them per row, extra blocks of write add them up ----- */

#define GF_SUM_THREADS 128

template <int COUNT> __device__ __forceinline__ void gf_note_row(const gf_cuda_step &x, int i, int64_t r, const gf_totals &t) {
    const int64_t own = x.plan.rows * x.plan.per_sample, rows = own * x.plan.sides;
    const double fields[GF_ROW_FIELDS] = {t.loss,          t.grad_scale, t.rank_part, t.rank_part_scale, t.log_u,   t.kept,
                                          t.detector_kept, t.lambda,     t.tau,       t.quantile,        t.rescued, t.unpaired,
                                          t.grad_bias};
    for (int f = 0; f < COUNT; f++) x.row_totals[f * rows + i * own + r] = fields[f];
}

__device__ __forceinline__ int64_t gf_cuda_row_negatives(const gf_cuda_step &x, int i, int64_t r) {
    return gf_row_negatives(&x.plan, i, x.side[i].unpaired, r);
}

/* ----- SHRINKAGE: the pool ----- */

/* t += the sum and number of (S - lambda)^2 over some of `rows` rows from `first` on, of all rows: each with the first row of the
 * sample that comes next in the batch. All threads of the block call it. */
template <int THREADS>
__device__ __forceinline__ void gf_pool_squares(const gf_cuda_step &x, int i, int64_t first, int64_t rows, double lambda,
                                                double *t) {
    const gf_cuda_side &side = x.side[i], &other = x.side[x.plan.sides == 2 ? 1 - i : 0];
    const gf_cuda_matrix &q = x.plan.bank ? side.bank.f32 : side.z.f32, &k = x.plan.bank ? other.bank.f32 : other.z.f32;
    const int64_t per = x.plan.per_sample, spacing = GF_SPREAD_ROWS;
    for (int64_t r = ((first + spacing - 1) / spacing + threadIdx.x / 32) * spacing; r < first + rows;
         r += THREADS / 32 * spacing) {
        const float *a = q.row + r * q.ld, *b = k.row + (r / per + 1) % x.plan.cols * per * k.ld;
        double s = 0.0;
        for (int64_t d = threadIdx.x % 32; d < x.dim; d += 32) s += double(a[d]) * double(b[d]);
        s = gf_warp_sum(s);
        if (threadIdx.x % 32 == 0) t[0] += gf_pool_square(s, lambda), t[1] += 1.0;
    }
}

/* Sums of a block's rows for the pool, as gf_cuda_control.moves. Sides without anchors have no pool. All threads of the block call it. */
__device__ __forceinline__ void gf_sum_pool(const gf_cuda_step &x, int64_t from, double (&t)[2 * GF_POOL_FIELDS]) {
    const int64_t own = x.plan.rows * x.plan.per_sample, r = from + threadIdx.x;
    for (int i = 0; i < x.plan.anchored; i++) {
        const int64_t at = max(from, i * own), end = min(from + GF_SUM_THREADS, (i + 1) * own);
        double *y = t + i * GF_POOL_FIELDS;
        const int64_t a = (r - i * own) / x.plan.per_sample;
        if (r >= at && r < end && !gf_row_starts_itself(&x.plan, i, &x.side[i].fresh[a])) {
            y[0] = double(x.side[i].own.above[r - i * own]);
            y[1] = double(gf_cuda_row_negatives(x, i, r - i * own));
        }
        if (at < end)
            gf_pool_squares<GF_SUM_THREADS>(x, i, x.row0 * x.plan.per_sample + at - i * own, end - at,
                                            double(x.control->shared[i].lambda), y + 2);
    }
}

/* One thread. */
__device__ __forceinline__ void gf_move_pool(const gf_cuda_step &x) {
    gf_cuda_control *c = x.control;
    double lambda = 0.0;
    for (int i = 0; i < x.plan.anchored; i++) {
        const double *y = c->moves[i];
        glofnd_anchor pool = c->shared[i];
        gf_pool_move(&x.plan.learner, &pool, y[0], y[1], y[2] / y[3]);
        lambda += double(x.plan.rows) * double(pool.lambda);
        if (gf_failed(c) || x.plan.want & GLOFND_WANT_NO_UPDATE) continue;
        gf_write_shared(x, i, pool);
        if (x.store.pool_there) x.store.pool_there[i] = 1;
    }
    if (x.plan.shared) c->sum.lambda = lambda;
}

/* Block `block` of `blocks`, of GF_SUM_THREADS rows each; the last one also ends the step. */
template <bool PLAIN> __device__ __forceinline__ void gf_sum_rows(const gf_cuda_step &x, unsigned block, unsigned blocks) {
    constexpr int COUNT = PLAIN ? GF_PLAIN_FIELDS : GF_ROW_FIELDS;
    static_assert(offsetof(gf_totals, unpaired) == GF_PLAIN_FIELDS * sizeof(double), "the other fields follow");
    const int64_t rows = x.plan.rows * x.plan.per_sample * x.plan.sides, r = int64_t(block) * GF_SUM_THREADS + threadIdx.x;
    for (int64_t at = r; at < 2 * x.plan.cols; at += int64_t(blocks) * GF_SUM_THREADS) x.seen_ids[at] = 0;
    double fields[COUNT];
    for (int f = 0; f < COUNT; f++) fields[f] = r < rows ? x.row_totals[f * rows + r] : 0.0;
    gf_block_sum<COUNT, GF_SUM_THREADS>(fields, x.partial + size_t(block) * COUNT);
    gf_cuda_control *c = x.control;
    const bool pooled = !PLAIN && x.plan.pooled && x.plan.updating;
    constexpr int MOVES = 2 * GF_POOL_FIELDS;
    static_assert(sizeof(gf_totals) >= (GF_ROW_FIELDS + MOVES) * sizeof(double), "room in `partial`");
    double *const moves = x.partial + size_t(blocks) * COUNT;
    if (pooled) {
        double t[MOVES] = {};
        gf_sum_pool(x, int64_t(block) * GF_SUM_THREADS, t);
        gf_block_sum<MOVES, GF_SUM_THREADS>(t, moves + size_t(block) * MOVES);
    }
    if (!gf_is_last_block(c, blocks)) return;
    gf_sum_blocks<COUNT, GF_SUM_THREADS>(x.partial, blocks, reinterpret_cast<double *>(&c->sum));
    if (pooled) {
        gf_sum_blocks<MOVES, GF_SUM_THREADS>(moves, blocks, &c->moves[0][0]);
        __syncthreads();
    }
    if (threadIdx.x) return;
    if (PLAIN) c->sum.unpaired = c->sum.grad_bias = 0.0;
    if (pooled && !x.ranks) gf_move_pool(x);
    c->starts[0] = c->starts[1] = c->pool_starts[0] = c->pool_starts[1] = 0;
    c->seen = 0;
    c->lone_key = 0;
    c->sum.tau_used = gf_step_tau(x);
}

static inline unsigned gf_sum_rows_blocks(const gf_cuda_step *x) {
    const int64_t rows = x->plan.rows * x->plan.per_sample * x->plan.sides;
    return static_cast<unsigned>((rows + GF_SUM_THREADS - 1) / GF_SUM_THREADS);
}

/* ---------- The first half around pass B, for one row and for one anchor ---------- */

/* ----- rows without negatives ----- */

/* Similarity as the exact passes compute it: one chain of fused multiply-adds over ascending dimensions. */
__device__ __forceinline__ float gf_exact_dot(const float *a, const float *b, int64_t dim) {
    float s = 0.0f;
    for (int64_t d = 0; d < dim; d++) s = fmaf(a[d], b[d], s);
    return s;
}

template <int THREADS> __device__ __forceinline__ float gf_block_min(float v) {
    __shared__ float warps[THREADS / 32];
    for (int lanes = 16; lanes > 0; lanes /= 2) v = fminf(v, __shfl_xor_sync(0xffffffffu, v, lanes));
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < THREADS / 32; w++) v = fminf(v, warps[w]);
    return v;
}

struct gf_least_similar {
    float value;
    int equals; /* negatives that are as small, within the margin */
};

/* True if row `at` and column c, of all rows, are a pair of side i. */
template <bool PLAIN> __device__ __forceinline__ bool gf_is_negative(const gf_cuda_step &x, int i, int64_t at, int64_t c) {
    const int shift = x.plan.per_sample - 1;
    if (at >> shift == c >> shift) return false;
    const int32_t *key = PLAIN ? nullptr : x.side[i].key;
    return !key || key[at] < 0 || key[at] != x.side[x.plan.sides == 2 ? 1 - i : 0].key[c];
}

/* The least similar negative of own row r. All threads of the block call this. */
template <int THREADS, bool PLAIN>
__device__ __forceinline__ gf_least_similar gf_find_least_similar(const gf_cuda_step &x, int i, int64_t r) {
    const gf_cuda_embed &q = x.side[i].z, &k = x.side[x.plan.sides == 2 ? 1 - i : 0].z;
    const int64_t at = x.row0 * x.plan.per_sample + r, ld = q.f32.ld;
    const float *row = q.f32.row + at * ld;
    float low = INFINITY;
    for (int64_t c = threadIdx.x; c < k.f32.rows; c += THREADS)
        if (gf_is_negative<PLAIN>(x, i, at, c)) low = fminf(low, gf_exact_dot(row, k.f32.row + c * ld, x.dim));
    low = gf_block_min<THREADS>(low);
    int equals = 0;
    for (int64_t c0 = 0; c0 < k.f32.rows; c0 += THREADS) {
        const int64_t c = c0 + threadIdx.x;
        const bool pair = c < k.f32.rows && gf_is_negative<PLAIN>(x, i, at, c);
        equals += __syncthreads_count(pair && gf_exact_dot(row, k.f32.row + c * ld, x.dim) <= low + x.margin);
    }
    const gf_least_similar found = {low, equals};
    return found;
}

/* All threads of the block call this. The block's first `slots` threads have the rows from r0 on, each with `own`; `empty`: it
 * has no kept negative. True where the row was rescued. */
template <int THREADS, bool PLAIN>
__device__ __forceinline__ bool gf_rescue(const gf_cuda_step &x, int i, int64_t r0, int slots, bool empty, gf_summed_row &own) {
    __shared__ unsigned char todo[THREADS];
    if (!__syncthreads_or(empty)) return false;
    todo[threadIdx.x] = empty;
    __syncthreads();
    for (int slot = 0; slot < slots; slot++) {
        if (!todo[slot]) continue;
        const gf_least_similar found = gf_find_least_similar<THREADS, PLAIN>(x, i, r0 + slot);
        if (slot != int(threadIdx.x)) continue;
        gf_row_rescue(&x.plan, &own, found.value, found.equals);
        own.floor += x.margin;
    }
    return empty;
}

/* ----- one row ----- */

/* Numbers of a row, without its sums. */
__device__ __forceinline__ gf_summed_row gf_row_before_sums(const gf_cuda_step &x, int i, int64_t r) {
    const gf_cuda_rows &y = x.side[i].own;
    gf_summed_row s = {};
    s.positive = x.side[i].positive[x.row0 * x.plan.per_sample + r];
    s.inv_tau = y.inv_tau[r], s.lo = y.lo[r], s.floor = -INFINITY;
    s.negatives = gf_cuda_row_negatives(x, i, r);
    s.tie = x.plan.topk ? y.tie[r] : 0;
    return s;
}

struct gf_row_end { /* results of a row for its anchor */
    double log_u, tau, grad_tau;
};

/* SEVERAL: positives, which have a kernel of their own, too. */
template <bool PLAIN, bool SEVERAL = false>
__device__ __forceinline__ gf_row_end gf_finish_row(const gf_cuda_step &x, int i, int64_t r, const gf_summed_row &s, float log_u,
                                                    gf_totals &t) {
    const gf_plan &p = x.plan;
    const int batch_u = !(p.official && p.sides == 1) || x.control->seen > 0;
    gf_loss_in in = gf_row_loss_in(&p, &s, log_u, batch_u);
    if (x.tau) in.tau = double(*x.tau);
    if (x.bias) in.bias = double(*x.bias);
    gf_assume<PLAIN>(x, i);
    const bool several = SEVERAL && i < p.anchored;
    if (several) gf_others_join(&p, &s, &x.side[i].others[r], &in);
    const gf_loss_out y = gf_loss_gradient(&p.o, &in);
    gf_link link = i < p.anchored ? gf_row_link(&p, &s, &y) : gf_no_anchor_link(s.inv_tau);
    if (several) gf_others_link(&p, &s, &x.side[i].others[r], &y, &link);
    x.links[gf_link_place(x, i, r)] = link;
    if (p.one_rank) gf_put_link(x, i, r, link);
    t.loss = y.loss, t.grad_scale = y.grad_scale, t.rank_part = y.rank_part, t.rank_part_scale = y.rank_part_scale;
    t.grad_bias = y.grad_bias;
    t.kept = double(s.kept);
    t.unpaired = double(p.negatives[i] - s.negatives);
    if (p.want & GLOFND_WANT_QUANTILE && p.updating && p.o.alpha > 0.0) t.quantile = double(x.side[i].quantile[r]);
    const gf_row_end end = {y.log_u, in.tau, y.grad_tau};
    return end;
}

/* ----- one anchor ----- */

/* Negatives of the rows of own anchor a. */
__device__ __forceinline__ double gf_anchor_negatives(const gf_cuda_step &x, int i, int64_t a) {
    const int64_t per = x.plan.per_sample, n = gf_cuda_row_negatives(x, i, a * per);
    return double(per == 2 && x.side[i].unpaired ? n + gf_cuda_row_negatives(x, i, a * per + 1) : per * n);
}

/* The state of own anchor a, which is `open`, after this visit with `above` of its rows' negatives above lambda. */
__device__ __forceinline__ glofnd_anchor gf_moved_anchor(const gf_cuda_step &x, int i, int64_t a, glofnd_anchor row,
                                                         int64_t above) {
    gf_lambda_descend(&x.plan.learner, &row, double(above), gf_anchor_negatives(x, i, a));
    return row;
}

/* The state of own anchor a is complete. `first`: this sample of it, or its only one, writes it. */
__device__ __forceinline__ void gf_close_anchor(const gf_cuda_step &x, int i, int64_t a, const glofnd_anchor &row, bool first,
                                                gf_totals &t) {
    const gf_plan &p = x.plan;
    t.lambda = double(row.lambda);
    t.tau = double(row.tau);
    const bool writes = i < p.anchored && !gf_failed(x.control) && !(p.want & GLOFND_WANT_NO_UPDATE);
    if (p.shared) {
        const bool used = p.updating || p.o.detector == GLOFND_DETECT_SINGLE;
        const glofnd_anchor shared = gf_moved_shared(x, i);
        if (used) t.lambda = double(shared.lambda);
        if (p.updating && a == 0 && writes && !p.pooled) gf_write_shared(x, i, shared); /* of the pool: gf_move_pool */
    }
    if (writes && first) gf_write_row(x, i, gf_state_place(&x, a), row);
}

/* After the u of its rows; one thread per anchor. `end`: of its first row, grad_tau: the mean of its rows; `row`: lambda has
 * moved. */
__device__ __forceinline__ void gf_finish_anchor(const gf_cuda_step &x, int i, int64_t a, const gf_row_end &end,
                                                 const double (&log_u)[2], glofnd_anchor row, gf_totals &t) {
    const gf_plan &p = x.plan;
    if (gf_loss_individual(&p.o)) gf_row_update_tau(&p.o, &row, end.tau, end.grad_tau);
    if (gf_row_keeps_u(&p)) {
        row.log_u = gf_row_mean_u(log_u, p.per_sample);
        t.log_u = double(row.log_u);
    }
    gf_close_anchor(x, i, a, row, true, t);
}

/* ----- a block's rows ----- */

/* The first `slots` threads of a block have the rows from r0 on: losses, links, state. s.kept: pairs that the detector keeps;
 * `state`: of the row's anchor, lambda moved, but by SHRINKAGE, the rest as before. The two rows of an anchor are neighbours in a
 * warp. All threads call this. */
template <int THREADS, bool PLAIN, bool SEVERAL = false>
__device__ __forceinline__ void gf_finish_rows(const gf_cuda_step &x, int i, int64_t r0, int slots, gf_summed_row s,
                                               const glofnd_anchor &state) {
    const gf_plan &p = x.plan;
    glofnd_anchor fresh = state;
    const int64_t r = r0 + threadIdx.x;
    const bool own = int(threadIdx.x) < slots && r < p.rows * p.per_sample;
    gf_totals t = {};
    t.detector_kept = double(s.kept);
    if (!p.masking) s.kept = static_cast<int32_t>(s.negatives);
    if (p.rescues) t.rescued = gf_rescue<THREADS, PLAIN>(x, i, r0, slots, own && s.kept == 0, s);
    if (!own) return;
    gf_assume<PLAIN>(x, i);
    if (!PLAIN && p.pooled && p.updating) {
        const bool counted = p.flags & GF_GROUP || p.marked; /* by a pass of their own, which knows no groups */
        int32_t above = counted ? x.side[i].own.above[r] : static_cast<int32_t>(gf_cuda_row_negatives(x, i, r) - t.detector_kept);
        x.side[i].own.above[r] = above;
        if (p.per_sample == 2) above += __shfl_xor_sync(3u << (threadIdx.x % 32 & ~1), above, 1);
        if (!p.shared && !x.copy)
            gf_lambda_shrink(&p.learner, &x.control->shared[i], &fresh, double(above),
                             gf_anchor_negatives(x, i, r / p.per_sample));
    }
    gf_row_end end = gf_finish_row<PLAIN, SEVERAL>(x, i, r, s, fresh.log_u, t);
    const bool copies = !PLAIN && x.copy; /* close_copies of cuda_keys.cu does the rest */
    if (copies) x.side[i].copy_log_u[r] = end.log_u, x.side[i].copy_grad_tau[r] = end.grad_tau;
    double log_u[2] = {end.log_u, 0.0};
    if (p.per_sample == 2) {
        const unsigned both = 3u << (threadIdx.x % 32 & ~1);
        log_u[1] = __shfl_down_sync(both, end.log_u, 1);
        end.grad_tau = 0.5 * end.grad_tau + 0.5 * __shfl_down_sync(both, end.grad_tau, 1); /* views share their temperature */
    }
    if (r % p.per_sample == 0 && !copies) gf_finish_anchor(x, i, r / p.per_sample, end, log_u, fresh, t);
    if (i >= p.anchored) t = {}; /* rows of this side are only columns */
    gf_note_row<PLAIN ? GF_PLAIN_FIELDS : GF_ROW_FIELDS>(x, i, r, t);
}
