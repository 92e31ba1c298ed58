/* cuda_step_finish.cu - the end of the first half of a step: rows get their loss, their weights, and their anchors' new state. One
 * thread per row; the two rows of an anchor are neighbours in a warp.
 */
#include "cuda/loss/cuda_step.cuh"

#define THREADS 128
#define FIELDS 11               /* of gf_totals, from the first on: those of this half, without `repeats` */

/* ----- rows without negatives ----- */

/* Similarity as the exact passes compute it: one chain of fused multiply-adds over ascending dimensions. */
static __device__ float exact_dot(const float *a, const float *b, int64_t dim) {
    float s = 0.0f;
    for (int64_t d = 0; d < dim; d++) s = fmaf(a[d], b[d], s);
    return s;
}

static __device__ float block_min(float v) {
    __shared__ float warps[THREADS / 32];
    for (int lanes = 16; lanes > 0; lanes /= 2) v = fminf(v, __shfl_xor_sync(0xffffffffu, v, lanes));
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < THREADS / 32; w++) v = fminf(v, warps[w]);
    return v;
}

struct least {
    float value;
    int equals;                 /* negatives that are as small, within the margin */
};

/* The least similar negative of own row r; the whole block looks for it. */
static __device__ least find_least(const gf_cuda_step &x, int i, int64_t r) {
    const gf_cuda_embed &q = x.side[i].z, &k = x.side[x.plan.sides == 2 ? 1 - i : 0].z;
    const int shift = x.plan.per_sample - 1;
    const int64_t at = x.row0 * x.plan.per_sample + r, ld = q.f32.ld;
    const float *row = q.f32.row + at * ld;
    float low = INFINITY;
    for (int64_t c = threadIdx.x; c < k.f32.rows; c += THREADS)
        if (at >> shift != c >> shift) low = fminf(low, exact_dot(row, k.f32.row + c * ld, x.dim));
    low = block_min(low);
    int equals = 0;
    for (int64_t c0 = 0; c0 < k.f32.rows; c0 += THREADS) {
        const int64_t c = c0 + threadIdx.x;
        const bool equal = c < k.f32.rows && at >> shift != c >> shift && exact_dot(row, k.f32.row + c * ld, x.dim) <= low + x.margin;
        equals += __syncthreads_count(equal);
    }
    const least found = {low, equals};
    return found;
}

/* All threads of the block call this; `empty` says of each whether its row needs it. */
static __device__ bool rescue(const gf_cuda_step &x, int i, int64_t r0, bool empty, gf_summed_row &own) {
    __shared__ unsigned char todo[THREADS];
    if (!__syncthreads_or(empty)) return false;
    todo[threadIdx.x] = empty;
    __syncthreads();
    for (int t = 0; t < THREADS; t++) {
        if (!todo[t]) continue;
        const least found = find_least(x, i, r0 + t);
        if (t != int(threadIdx.x)) continue;
        gf_row_rescue(&x.plan, &own, found.value, found.equals);
        own.floor += x.margin;
    }
    return empty;
}

/* ----- one row ----- */

static __device__ gf_summed_row summed(const gf_cuda_step &x, int i, int64_t r) {
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

static __device__ void write_state(const gf_cuda_step &x, int i, int64_t a, const glofnd_row &row) {
    const struct gf_device_store &s = x.store;
    const int64_t id = x.id[x.row0 + a];
    unsigned char *at = s.records + static_cast<size_t>(id) * s.record_bytes;
    reinterpret_cast<gf_record *>(at)[i] = gf_record_encode(&row);
    if (s.temperatures) {
        const gf_temperature t = {row.tau, row.tau_m, row.tau_v, row.tau_clock};
        reinterpret_cast<gf_temperature *>(at + static_cast<size_t>(s.modalities) * sizeof(gf_record))[i] = t;
    }
    s.touched[id / GF_STORE_BLOCK] = 1;
}

static __device__ void write_shared(const gf_cuda_step &x, int i, const glofnd_row &row) {
    gf_record r = gf_record_encode(&row);
    r.log_u = 0.0f;             /* none */
    x.store.state->shared[i] = r;
}

/* The anchor of row r once its rows' u are known; the first of them writes. */
static __device__ void finish_anchor(const gf_cuda_step &x, int i, int64_t a, glofnd_row &row, const double (&log_u)[2], gf_totals &t) {
    const gf_plan &p = x.plan;
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
        if (p.updating && a == 0 && !failed) write_shared(x, i, shared);
    }
    if (!failed) write_state(x, i, a, row);
}

static __device__ void finish_row(const gf_cuda_step &x, int i, int64_t r, const gf_summed_row &s, double would, gf_totals &t) {
    const gf_plan &p = x.plan;
    const int64_t a = r / p.per_sample;
    const int batch_u = !(p.official && p.sides == 1) || x.control->seen > 0;
    const gf_loss_in in = gf_row_loss_in(&p, &s, x.side[i].state[a].log_u, batch_u);
    const gf_loss_out y = gf_loss_row(&p.o, &in);
    const glofnd_link link = gf_row_link(&p, &s, &y);
    x.links[gf_link_place(x, i, r)] = link;
    if (p.one_rank) gf_put_link(x, i, r, link);
    t.loss = y.loss, t.grad_scale = y.grad_scale, t.rank_part = y.rank_part, t.rank_part_scale = y.rank_part_scale;
    t.kept = double(s.kept), t.would = would;
    if (p.want & GLOFND_WANT_QUANTILE) t.quantile = double(x.side[i].quantile[r]);
    double log_u[2] = {y.log_u, 0.0};
    const unsigned both = 3u << (threadIdx.x % 32 & ~1);
    if (p.per_sample == 2) log_u[1] = __shfl_down_sync(both, y.log_u, 1);
    if (p.per_sample == 2 && r % 2) return;
    glofnd_row row = x.side[i].fresh[a];
    if (p.o.loss == GLOFND_LOSS_ISOGCLR) gf_row_move_tau(&p.o, &row, in.tau, y.grad_tau);
    finish_anchor(x, i, a, row, log_u, t);
}

/* ----- the kernel ----- */

static __device__ void clear_ids(const gf_cuda_step &x) {
    const int64_t step = int64_t(gridDim.x) * gridDim.y * THREADS;
    int64_t at = (int64_t(blockIdx.y) * gridDim.x + blockIdx.x) * THREADS + threadIdx.x;
    for (; at < 2 * x.plan.cols; at += step) x.seen_ids[at] = 0;
}

static __device__ void end_step(const gf_cuda_step &x) {
    gf_cuda_control *c = x.control;
    if (threadIdx.x) return;
    c->sum.repeats = double(c->repeat);
    c->repeat = c->starts[0] = c->starts[1] = 0;
    c->seen = 0;
}

static __global__ void __launch_bounds__(THREADS) finish(const gf_cuda_step x) {
    const int i = blockIdx.y;
    const int64_t own = x.plan.rows * x.plan.per_sample, r0 = int64_t(blockIdx.x) * THREADS, r = r0 + threadIdx.x;
    gf_totals t = {};
    gf_summed_row s = {};
    if (r < own) s = summed(x, i, r);
    const double would = x.plan.flags & GF_COUNT && r < own ? double(x.side[i].own.kept[r]) : double(x.plan.negatives);
    if (x.plan.masking && !x.plan.official) t.rescued = rescue(x, i, r0, r < own && s.kept == 0, s);
    if (r < own) finish_row(x, i, r, s, would, t);
    clear_ids(x);
    double fields[FIELDS];
    for (int f = 0; f < FIELDS; f++) fields[f] = reinterpret_cast<const double *>(&t)[f];
    gf_block_sum<FIELDS, THREADS>(fields, x.partial + (size_t(blockIdx.y) * gridDim.x + blockIdx.x) * FIELDS);
    if (!gf_is_last_block(x.control)) return;
    gf_sum_blocks<FIELDS, THREADS>(x.partial, reinterpret_cast<double *>(&x.control->sum));
    end_step(x);
}

cudaError_t gf_cuda_finish(const gf_cuda_step *x, cudaStream_t stream) {
    const int64_t own = x->plan.rows * x->plan.per_sample;
    finish<<<dim3(static_cast<unsigned>((own + THREADS - 1) / THREADS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}
