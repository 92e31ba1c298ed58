/* cuda_step_rows.cuh - the first half of a step around pass B, for one row and for one anchor. */
#pragma once

#include "cuda/cuda_state.cuh"
#include "cuda/cuda_step.cuh"

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

/* The least similar negative of own row r. All threads of the block call this. */
template <int THREADS>
__device__ __forceinline__ gf_least_similar gf_find_least_similar(const gf_cuda_step &x, int i, int64_t r) {
    const gf_cuda_embed &q = x.side[i].z, &k = x.side[x.plan.sides == 2 ? 1 - i : 0].z;
    const int shift = x.plan.per_sample - 1;
    const int64_t at = x.row0 * x.plan.per_sample + r, ld = q.f32.ld;
    const float *row = q.f32.row + at * ld;
    float low = INFINITY;
    for (int64_t c = threadIdx.x; c < k.f32.rows; c += THREADS)
        if (at >> shift != c >> shift) low = fminf(low, gf_exact_dot(row, k.f32.row + c * ld, x.dim));
    low = gf_block_min<THREADS>(low);
    int equals = 0;
    for (int64_t c0 = 0; c0 < k.f32.rows; c0 += THREADS) {
        const int64_t c = c0 + threadIdx.x;
        const bool pair = c < k.f32.rows && at >> shift != c >> shift;
        equals += __syncthreads_count(pair && gf_exact_dot(row, k.f32.row + c * ld, x.dim) <= low + x.margin);
    }
    const gf_least_similar found = {low, equals};
    return found;
}

/* All threads of the block call this. The block's first `slots` threads have the rows from r0 on, each with `own`; `empty`: it
 * has no kept negative. True where the row was rescued. */
template <int THREADS>
__device__ __forceinline__ bool gf_rescue(const gf_cuda_step &x, int i, int64_t r0, int slots, bool empty, gf_summed_row &own) {
    __shared__ unsigned char todo[THREADS];
    if (!__syncthreads_or(empty)) return false;
    todo[threadIdx.x] = empty;
    __syncthreads();
    for (int slot = 0; slot < slots; slot++) {
        if (!todo[slot]) continue;
        const gf_least_similar found = gf_find_least_similar<THREADS>(x, i, r0 + slot);
        if (slot != int(threadIdx.x)) continue;
        gf_row_rescue(&x.plan, &own, found.value, found.equals);
        own.floor += x.margin;
    }
    return empty;
}

/* ----- one row ----- */

/* Numbers of a row, without its sums. */
__device__ __forceinline__ gf_summed_row gf_row_before_sums(const gf_cuda_step &x, int i, int64_t r) {
    const gf_rows &y = x.side[i].own;
    gf_summed_row s = {};
    s.positive = x.side[i].positive[x.row0 * x.plan.per_sample + r];
    s.inv_tau = y.inv_tau[r], s.lo = y.lo[r], s.floor = -INFINITY;
    s.tie = x.plan.topk ? y.tie[r] : 0;
    return s;
}

struct gf_row_end { /* results of a row for its anchor */
    double log_u, tau, grad_tau;
};

__device__ __forceinline__ gf_row_end gf_finish_row(const gf_cuda_step &x, int i, int64_t r, const gf_summed_row &s, float log_u,
                                                    gf_totals &t) {
    const gf_plan &p = x.plan;
    const int batch_u = !(p.official && p.sides == 1) || x.control->seen > 0;
    gf_loss_in in = gf_row_loss_in(&p, &s, log_u, batch_u);
    if (x.tau) in.tau = double(*x.tau);
    const gf_loss_out y = gf_loss_gradient(&p.o, &in);
    const gf_link link = gf_row_link(&p, &s, &y);
    x.links[gf_link_place(x, i, r)] = link;
    if (p.one_rank) gf_put_link(x, i, r, link);
    t.loss = y.loss, t.grad_scale = y.grad_scale, t.rank_part = y.rank_part, t.rank_part_scale = y.rank_part_scale;
    t.kept = double(s.kept);
    if (p.want & GLOFND_WANT_QUANTILE && p.updating && p.o.alpha > 0.0) t.quantile = double(x.side[i].quantile[r]);
    const gf_row_end end = {y.log_u, in.tau, y.grad_tau};
    return end;
}

/* ----- one anchor ----- */

/* The state of an anchor that is `open`, after this visit with `above` of its rows' negatives above lambda. */
__device__ __forceinline__ glofnd_row gf_moved_anchor(const gf_cuda_step &x, glofnd_row row, int64_t above) {
    gf_lambda_update(&x.plan.learner, &row, double(above) / double(x.plan.per_sample * x.plan.negatives));
    return row;
}

/* After the u of its rows; one thread per anchor. `end`: of its first row, grad_tau: the mean of its rows; `row`: lambda has
 * moved. */
__device__ __forceinline__ void gf_finish_anchor(const gf_cuda_step &x, int i, int64_t a, const gf_row_end &end,
                                                 const double (&log_u)[2], glofnd_row row, gf_totals &t) {
    const gf_plan &p = x.plan;
    if (gf_loss_individual(&p.o)) gf_row_update_tau(&p.o, &row, end.tau, end.grad_tau);
    if (gf_row_keeps_u(&p)) {
        row.log_u = gf_row_mean_u(log_u, p.per_sample);
        t.log_u = double(row.log_u);
    }
    t.lambda = double(row.lambda);
    t.tau = double(row.tau);
    const bool writes = !gf_failed(x.control) && !(p.want & GLOFND_WANT_NO_UPDATE);
    if (p.shared) {
        const bool used = p.updating || p.o.detector == GLOFND_DETECT_SINGLE;
        const glofnd_row shared = gf_moved_shared(x, i);
        if (used) t.lambda = double(shared.lambda);
        if (p.updating && a == 0 && writes) gf_write_shared(x, i, shared);
    }
    if (writes) gf_write_row(x, i, gf_state_place(&x, a), row);
}

/* ----- a block's rows ----- */

/* The first `slots` threads of a block have the rows from r0 on: losses, links, state. s.kept: pairs that the detector keeps;
 * `fresh`: state of the row's anchor, lambda moved, the rest as before. The two rows of an anchor are neighbours in a warp.
 * All threads call this. */
template <int THREADS>
__device__ __forceinline__ void gf_finish_rows(const gf_cuda_step &x, int i, int64_t r0, int slots, gf_summed_row s,
                                               const glofnd_row &fresh) {
    const gf_plan &p = x.plan;
    const int64_t r = r0 + threadIdx.x;
    const bool own = int(threadIdx.x) < slots && r < p.rows * p.per_sample;
    gf_totals t = {};
    t.detector_kept = double(s.kept);
    if (!p.masking) s.kept = static_cast<int32_t>(p.negatives);
    if (p.masking && !p.official) t.rescued = gf_rescue<THREADS>(x, i, r0, slots, own && s.kept == 0, s);
    if (!own) return;
    gf_row_end end = gf_finish_row(x, i, r, s, fresh.log_u, t);
    double log_u[2] = {end.log_u, 0.0};
    if (p.per_sample == 2) {
        const unsigned both = 3u << (threadIdx.x % 32 & ~1);
        log_u[1] = __shfl_down_sync(both, end.log_u, 1);
        end.grad_tau = 0.5 * end.grad_tau + 0.5 * __shfl_down_sync(both, end.grad_tau, 1); /* views share their temperature */
    }
    if (r % p.per_sample == 0) gf_finish_anchor(x, i, r / p.per_sample, end, log_u, fresh, t);
    gf_note_row(x, i, r, t);
}
