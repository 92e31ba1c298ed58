/* pairs_windows.cu - windows of thresholds from a sample of the rows, and the sweep over a strip of similarities.
 *
 * If a threshold is the rank-th largest of n similarities, about p = rank m / n of a random sample of m are above it. The ranks
 * of the sample (gf_pairs_sampling) are far enough from p that a threshold outside of their similarities is very improbable.
 * Whether it is inside is checked after the sweep.
 */
#include <math_constants.h>

#include "cuda/pairs/pairs_collect.cuh"

enum { THREADS = 512, BINS = 4096, BINS_EACH = BINS / THREADS };
#define BIN_SLOP 1e-6f /* float32 arithmetic on the borders of bins */

static unsigned blocks_of(int64_t n) { return static_cast<unsigned>((n + THREADS - 1) / THREADS); }

/* Bins of 1/2048 over [-1, 1], the largest first. */
__device__ __forceinline__ int bin_of(float v) {
    const int b = BINS - 1 - static_cast<int>(fmaf(v, BINS / 2, BINS / 2));
    return b < 0 ? 0 : b >= BINS ? BINS - 1 : b;
}
/* Values in the first and the last bin may lie outside [-1, 1] by roundings. */
__device__ __forceinline__ float bin_high(int b) { return b == 0 ? 4.0f : (BINS - b) / (BINS / 2.0f) - 1.0f + BIN_SLOP; }
__device__ __forceinline__ float bin_low(int b) {
    return b == BINS - 1 ? -4.0f : (BINS - 1 - b) / (BINS / 2.0f) - 1.0f - BIN_SLOP;
}

struct window_shared {
    int bins[BINS];
    int warps[THREADS / 32];
    float low, high, top_low;
    int listed;
};

static __device__ void count_bins(const gf_pairs_job &a, int row, window_shared &sm) {
    const float *s = a.s + row * a.pitch;
    const int64_t skip = gf_pairs_skipped(a, row), n = a.k.n;
    for (int64_t c = 4 * threadIdx.x; c < n; c += 4 * THREADS) {
        const float4 v = __ldcs(reinterpret_cast<const float4 *>(s + c));
        const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (c + i < n && c + i != skip) atomicAdd(&sm.bins[bin_of(values[i])], 1);
    }
}

static __device__ void find_ranks(const gf_pairs_sampling &p, float slack, window_shared &sm) {
    int mine = 0;
    for (int i = 0; i < BINS_EACH; i++) mine += sm.bins[threadIdx.x * BINS_EACH + i];
    int64_t seen = gf_pairs_before(mine, sm.warps);
    for (int i = 0; i < BINS_EACH; i++) {
        const int b = threadIdx.x * BINS_EACH + i, count = sm.bins[b];
        if (seen < p.rank && seen + count >= p.rank) sm.high = bin_high(b) + 2.0f * slack;
        if (seen < p.reach && seen + count >= p.reach) sm.low = bin_low(b) - 2.0f * slack;
        if (seen < p.top && seen + count >= p.top) sm.top_low = bin_low(b) - 2.0f * slack;
        seen += count;
    }
}

/* Rows of the sample in bins that the window touches. */
static __device__ void count_listed(const gf_pairs_window &w, window_shared &sm) {
    int mine = 0;
    for (int i = 0; i < BINS_EACH; i++) {
        const int b = threadIdx.x * BINS_EACH + i;
        if (bin_high(b) >= w.list_low || (bin_high(b) >= w.low && bin_low(b) <= w.high)) mine += sm.bins[b];
    }
    gf_pairs_add(&sm.listed, mine);
}

static __global__ void __launch_bounds__(THREADS)
    find_windows(gf_pairs_job a, gf_pairs_collect c, gf_pairs_sampling p, int32_t *need) {
    __shared__ window_shared sm;
    const int row = static_cast<int>(blockIdx.x);
    const int64_t at = a.row0 + row;
    const float slack = a.slack[row];
    for (int b = threadIdx.x; b < BINS; b += THREADS) sm.bins[b] = 0;
    if (threadIdx.x == 0) {
        sm.high = CUDART_INF_F;
        sm.low = c.rank > 0 ? -4.0f : CUDART_INF_F; /* fewer than the rank: all */
        sm.top_low = c.top > 0 && !c.only_dup ? -4.0f : CUDART_INF_F;
        sm.listed = 0;
    }
    __syncthreads();
    count_bins(a, row, sm);
    __syncthreads();
    find_ranks(p, slack, sm);
    __syncthreads();
    gf_pairs_window w = {sm.low, c.whole ? CUDART_INF_F : sm.high, fminf(sm.top_low, c.dup - slack), 0.0f};
    w.min = fminf(w.low, w.list_low);
    count_listed(w, sm);
    __syncthreads();
    if (threadIdx.x > 0) return;
    const double seen = sm.listed, all = static_cast<double>(p.others);
    const double entries =
        16.0 + (p.share > 1.0 ? p.share * (seen + 5.0 * sqrt(seen + 1.0) + 6.0) : seen); /* roundings, chance */
    c.window[at] = w;
    c.slack[at] = slack;
    need[at] = static_cast<int32_t>(fmin(entries, all));
}

cudaError_t gf_pairs_windows(const gf_pairs_job *a, const gf_pairs_collect *c, const gf_pairs_sampling *p, int32_t *need,
                             cudaStream_t stream) {
    find_windows<<<static_cast<unsigned>(a->rows), THREADS, 0, stream>>>(*a, *c, *p, need);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) wide_windows(gf_pairs_collect c, float lost_max, float chain) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x;
    if (i >= c.q.n) return;
    c.window[i] = {-4.0f, CUDART_INF_F, -4.0f, -4.0f};
    c.slack[i] = c.q.half ? 1.01f * (c.q.lost[i] + lost_max) + chain : 0.0f;
}

cudaError_t gf_pairs_wide_windows(const gf_pairs_collect *c, float lost_max, float chain, cudaStream_t stream) {
    wide_windows<<<blocks_of(c->q.n), THREADS, 0, stream>>>(*c, lost_max, chain);
    const cudaError_t e = cudaGetLastError();
    return e == cudaSuccess ? gf_pairs_window_min(c, stream) : e;
}

static __global__ void __launch_bounds__(THREADS) window_min(gf_pairs_collect c, int64_t padded) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x;
    if (i < padded) c.min[i] = i < c.q.n ? c.window[i].min : CUDART_INF_F;
}

cudaError_t gf_pairs_window_min(const gf_pairs_collect *c, cudaStream_t stream) {
    const int64_t padded = (c->q.n + GF_COLLECT_ALIGN - 1) / GF_COLLECT_ALIGN * GF_COLLECT_ALIGN;
    window_min<<<blocks_of(padded), THREADS, 0, stream>>>(*c, padded);
    return cudaGetLastError();
}

/* ----- rows ----- */

/* One block per row, 4 bytes at a time. */
static __global__ void __launch_bounds__(128) take_rows(gf_pairs_side from, const int32_t *row, gf_pairs_side to) {
    const int64_t r = blockIdx.x, old = row[r];
    for (int d = threadIdx.x; d < to.ld; d += 128) to.x[r * to.ld + d] = from.x[old * to.ld + d];
    if (from.half && to.half)
        for (int d = threadIdx.x; d < to.ld / 2; d += 128)
            static_cast<uint32_t *>(to.half)[r * to.ld / 2 + d] = static_cast<const uint32_t *>(from.half)[old * to.ld / 2 + d];
    if (threadIdx.x == 0) to.lost[r] = from.lost[old];
}

cudaError_t gf_pairs_take_rows(const gf_pairs_side *from, const int32_t *row, const gf_pairs_side *to, cudaStream_t stream) {
    take_rows<<<static_cast<unsigned>(to->n), 128, 0, stream>>>(*from, row, *to);
    return cudaGetLastError();
}

/* ----- the sweep over a strip ----- */

/* One block per row. */
static __global__ void __launch_bounds__(THREADS) collect_strip(gf_pairs_job a, gf_pairs_collect c) {
    const int row = static_cast<int>(blockIdx.x);
    const int64_t i = a.row0 + row;
    const float *s = a.s + row * a.pitch;
    const gf_pairs_window own = c.window[i];
    const gf_row_counts counts = gf_collect_counts(c, i);
    for (int64_t j = threadIdx.x; j < c.k.n; j += THREADS) {
        const float v = __ldcs(s + j);
        if (v < (c.both ? fminf(own.min, c.min[j]) : own.min)) continue;
        gf_collect_pair(c, i, j, v, own, c.window[c.both ? j : i], counts);
    }
}

cudaError_t gf_pairs_collect_strip(const gf_pairs_job *a, const gf_pairs_collect *c, cudaStream_t stream) {
    collect_strip<<<static_cast<unsigned>(a->rows), THREADS, 0, stream>>>(*a, *c);
    return cudaGetLastError();
}

#ifndef GF_HAVE_SM90
int gf_pairs_can_fuse(void) { return 0; }

cudaError_t gf_pairs_collect_fused(const gf_pairs_collect *c, cudaStream_t stream) {
    (void)c, (void)stream;
    return cudaErrorNotSupported;
}
#endif
