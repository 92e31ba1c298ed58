/* cuda_step_rows.cuh - the end of the first half of a step, for one row and for one anchor. */
#ifndef GF_CUDA_STEP_ROWS_CUH
#define GF_CUDA_STEP_ROWS_CUH

#include "cuda/loss/cuda_step.cuh"

/* ----- rows without negatives ----- */

/* Similarity as the exact passes compute it: one chain of fused multiply-adds over ascending dimensions. */
__device__ __forceinline__ float gf_exact_dot(const float *a, const float *b, int64_t dim) {
    float s = 0.0f;
    for (int64_t d = 0; d < dim; d++) s = fmaf(a[d], b[d], s);
    return s;
}

template <int THREADS>
__device__ __forceinline__ float gf_block_min(float v) {
    __shared__ float warps[THREADS / 32];
    for (int lanes = 16; lanes > 0; lanes /= 2) v = fminf(v, __shfl_xor_sync(0xffffffffu, v, lanes));
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < THREADS / 32; w++) v = fminf(v, warps[w]);
    return v;
}

struct gf_least {
    float value;
    int equals;                 /* negatives that are as small, within the margin */
};

/* The least similar negative of own row r; the whole block looks for it. */
template <int THREADS>
__device__ __forceinline__ gf_least gf_find_least(const gf_cuda_step &x, int i, int64_t r) {
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
        const bool equal = c < k.f32.rows && at >> shift != c >> shift && gf_exact_dot(row, k.f32.row + c * ld, x.dim) <= low + x.margin;
        equals += __syncthreads_count(equal);
    }
    const gf_least found = {low, equals};
    return found;
}

/* All threads of the block call this. The block has `slots` rows from r0 on; a thread's row is in `slot`, and is `empty` or not. True
 * where the row was rescued. */
template <int THREADS>
__device__ __forceinline__ bool gf_rescue(const gf_cuda_step &x, int i, int64_t r0, int slot, int slots, bool empty, gf_summed_row &own) {
    __shared__ unsigned char todo[THREADS];
    if (!__syncthreads_or(empty)) return false;
    if (slots == THREADS || threadIdx.x % 32 == 0) todo[slot] = empty;
    __syncthreads();
    for (int t = 0; t < slots; t++) {
        if (!todo[t]) continue;
        const gf_least found = gf_find_least<THREADS>(x, i, r0 + t);
        if (t != slot) continue;
        gf_row_rescue(&x.plan, &own, found.value, found.equals);
        own.floor += x.margin;
    }
    return empty;
}

/* ----- one row ----- */

__device__ __forceinline__ gf_summed_row gf_summed(const gf_cuda_step &x, int i, int64_t r) {
    const gf_rows &y = x.side[i].own;
    gf_summed_row s;
    s.sum = y.sum[r];
    s.moment = x.plan.flags & GF_MOMENT ? y.moment[r] : 0.0;
    s.flagged_s = x.plan.flags & GF_ATTRACT ? y.flagged_s[r] : 0.0;
    s.positive = x.side[i].positive[x.row0 * x.plan.per_sample + r];
    s.peak = y.peak[r], s.inv_tau = y.inv_tau[r], s.lo = y.lo[r], s.floor = -INFINITY;
    s.kept = x.plan.masking ? y.kept[r] : static_cast<int32_t>(x.plan.negatives);
    s.tie = x.plan.topk ? y.tie[r] : 0;
    return s;
}

/* Kept if the detector had its way; before a rescue. */
__device__ __forceinline__ double gf_would_keep(const gf_cuda_step &x, int i, int64_t r) {
    return x.plan.flags & GF_COUNT ? double(x.side[i].own.kept[r]) : double(x.plan.negatives);
}

struct gf_row_end {             /* what its anchor needs of a row */
    double log_u, tau, grad_tau;
};

__device__ __forceinline__ gf_row_end gf_finish_row(const gf_cuda_step &x, int i, int64_t r, const gf_summed_row &s, gf_totals &t) {
    const gf_plan &p = x.plan;
    const int batch_u = !(p.official && p.sides == 1) || x.control->seen > 0;
    const gf_loss_in in = gf_row_loss_in(&p, &s, x.side[i].state[r / p.per_sample].log_u, batch_u);
    const gf_loss_out y = gf_loss_row(&p.o, &in);
    const glofnd_link link = gf_row_link(&p, &s, &y);
    x.links[gf_link_place(x, i, r)] = link;
    if (p.one_rank) gf_put_link(x, i, r, link);
    t.loss = y.loss, t.grad_scale = y.grad_scale, t.rank_part = y.rank_part, t.rank_part_scale = y.rank_part_scale;
    t.kept = double(s.kept);
    if (p.want & GLOFND_WANT_QUANTILE && p.updating && p.o.alpha > 0.0) t.quantile = double(x.side[i].quantile[r]);
    const gf_row_end end = {y.log_u, in.tau, y.grad_tau};
    return end;
}

/* ----- one anchor ----- */

__device__ __forceinline__ void gf_write_state(const gf_cuda_step &x, int i, int64_t a, const glofnd_row &row) {
    const struct gf_device_store &s = x.store;
    const int64_t id = gf_state_place(&x, a);
    unsigned char *at = s.records + static_cast<size_t>(id) * s.record_bytes;
    reinterpret_cast<gf_record *>(at)[i] = gf_record_encode(&row);
    if (s.temperatures) {
        const gf_temperature t = {row.tau, row.tau_m, row.tau_v, row.tau_clock};
        reinterpret_cast<gf_temperature *>(at + static_cast<size_t>(s.modalities) * sizeof(gf_record))[i] = t;
    }
    s.touched[id / GF_STORE_BLOCK] = 1;
}

__device__ __forceinline__ void gf_write_shared(const gf_cuda_step &x, int i, const glofnd_row &row) {
    gf_record r = gf_record_encode(&row);
    r.log_u = 0.0f;             /* none */
    x.store.state->shared[i] = r;
}

/* Once the u of its rows are known; one thread does it. `end`: of its first row. */
__device__ __forceinline__ void gf_finish_anchor(const gf_cuda_step &x, int i, int64_t a, const gf_row_end &end, const double (&log_u)[2],
                                                 gf_totals &t) {
    const gf_plan &p = x.plan;
    glofnd_row row = x.side[i].fresh[a];
    if (p.o.loss == GLOFND_LOSS_ISOGCLR) gf_row_move_tau(&p.o, &row, end.tau, end.grad_tau);
    if (gf_row_keeps_u(&p)) {
        row.log_u = gf_row_mean_u(log_u, p.per_sample);
        t.log_u = double(row.log_u);
    }
    t.lambda = double(row.lambda);
    t.tau = double(row.tau);
    const bool failed = gf_failed(x.control);
    if (p.shared) {
        const bool used = p.updating || p.o.detector == GLOFND_DETECT_SINGLE;
        const glofnd_row shared = gf_moved_shared(x, i);
        if (used) t.lambda = double(shared.lambda);
        if (p.updating && a == 0 && !failed) gf_write_shared(x, i, shared);
    }
    if (!failed) gf_write_state(x, i, a, row);
}

#endif
