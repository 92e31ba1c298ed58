/* pairs_collect.cu - one sweep that collects candidates, and what comes from them: see pairs_kernels.h. */
#include <math_constants.h>

#include "cuda/pairs/pairs_device.cuh"

/* ---------- Windows, and the sweep over a strip of similarities ----------
 *
 * If a threshold is the rank-th largest of n similarities, about p = rank m / n of a random sample of m are above it. The ranks
 * of the sample (gf_pairs_sampling) are far enough from p that a threshold outside of their similarities is very improbable.
 * Whether it is inside is checked after the sweep.
 */

enum { BIN_THREADS = 512, BINS = 4096, BINS_EACH = BINS / BIN_THREADS };
#define BIN_SLOP 1e-6f /* float32 arithmetic on the borders of bins */

static unsigned blocks_of(int64_t n) { return static_cast<unsigned>((n + BIN_THREADS - 1) / BIN_THREADS); }

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
    int warps[BIN_THREADS / 32];
    float low, high, top_low;
    int listed;
};

static __device__ void count_bins(const gf_pairs_job &a, int row, window_shared &sm) {
    const float *s = a.s + row * a.pitch;
    const int64_t skip = gf_pairs_skipped(a, row), n = a.k.n;
    for (int64_t c = 4 * threadIdx.x; c < n; c += 4 * BIN_THREADS) {
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

static __global__ void __launch_bounds__(BIN_THREADS)
    find_windows(gf_pairs_job a, gf_pairs_collect c, gf_pairs_sampling p, int32_t *need) {
    __shared__ window_shared sm;
    const int row = static_cast<int>(blockIdx.x);
    const int64_t at = a.row0 + row;
    const float slack = a.slack[row];
    for (int b = threadIdx.x; b < BINS; b += BIN_THREADS) sm.bins[b] = 0;
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
    find_windows<<<static_cast<unsigned>(a->rows), BIN_THREADS, 0, stream>>>(*a, *c, *p, need);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(BIN_THREADS) wide_windows(gf_pairs_collect c, float lost_max, float chain) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(BIN_THREADS) + threadIdx.x;
    if (i >= c.q.n) return;
    c.window[i] = {-4.0f, CUDART_INF_F, -4.0f, -4.0f};
    c.slack[i] = c.q.half ? 1.01f * (c.q.lost[i] + lost_max) + chain : 0.0f;
}

cudaError_t gf_pairs_wide_windows(const gf_pairs_collect *c, float lost_max, float chain, cudaStream_t stream) {
    wide_windows<<<blocks_of(c->q.n), BIN_THREADS, 0, stream>>>(*c, lost_max, chain);
    const cudaError_t e = cudaGetLastError();
    return e == cudaSuccess ? gf_pairs_window_min(c, stream) : e;
}

static __global__ void __launch_bounds__(BIN_THREADS) window_min(gf_pairs_collect c, int64_t padded) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(BIN_THREADS) + threadIdx.x;
    if (i < padded) c.min[i] = i < c.q.n ? c.window[i].min : CUDART_INF_F;
}

cudaError_t gf_pairs_window_min(const gf_pairs_collect *c, cudaStream_t stream) {
    const int64_t padded = (c->q.n + GF_COLLECT_ALIGN - 1) / GF_COLLECT_ALIGN * GF_COLLECT_ALIGN;
    window_min<<<blocks_of(padded), BIN_THREADS, 0, stream>>>(*c, padded);
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
static __global__ void __launch_bounds__(BIN_THREADS) collect_strip(gf_pairs_job a, gf_pairs_collect c) {
    const int row = static_cast<int>(blockIdx.x);
    const int64_t i = a.row0 + row;
    const float *s = a.s + row * a.pitch;
    const gf_pairs_window own = c.window[i];
    const gf_row_counts counts = gf_collect_counts(c, i);
    for (int64_t j = threadIdx.x; j < c.k.n; j += BIN_THREADS) {
        const float v = __ldcs(s + j);
        if (v < (c.both ? fminf(own.min, c.min[j]) : own.min)) continue;
        gf_collect_pair(c, i, j, v, own, c.window[c.both ? j : i], counts);
    }
}

cudaError_t gf_pairs_collect_strip(const gf_pairs_job *a, const gf_pairs_collect *c, cudaStream_t stream) {
    collect_strip<<<static_cast<unsigned>(a->rows), BIN_THREADS, 0, stream>>>(*a, *c);
    return cudaGetLastError();
}

#ifndef GF_HAVE_HOPPER
int gf_pairs_can_fuse(void) { return 0; }

cudaError_t gf_pairs_collect_fused(const gf_pairs_collect *c, cudaStream_t stream) {
    (void)c, (void)stream;
    return cudaErrorNotSupported;
}
#endif

/* ---------- The result of an anchor from its list of candidates ----------
 *
 * One block per anchor.
 *
 * Let l be the similarity of the tensor cores that has the rank of the threshold: the threshold is at most `slack` away, and so
 * is each similarity from its float32 value. So more than 2 slack above l is above the threshold, and more than 2 slack below is
 * not; only what lies between needs a float32 value. But `slack` is a bound, and roundings are rarely in step: the threshold is
 * much closer to l. So at first only similarities at most slack + margin from l get float32 values. If the threshold among
 * them turns out to be at most `margin` from l, then what was left out lies on the side it was taken for, and this threshold is
 * that of all. Else the others get their values, too. The same holds for the last one around a threshold; the last of the most
 * similar ones keeps its 2 slack.
 */

enum { THREADS = 256, QUEUE = 4096 };
#define MARGIN 0.125f /* of the slack */

/* ----- keys of a list; 0: none ----- */

__device__ __forceinline__ uint64_t key_of(uint64_t entry) {
    return (entry & 0xffffffff00000000ull) | (0xffffffffu - static_cast<uint32_t>(gf_collect_position(entry)));
}

struct inside_keys { /* inside the window, as the tensor cores have them */
    const uint64_t *entry;
    int64_t count;
    float low;
    __device__ uint64_t operator()(int64_t i) const {
        const uint64_t e = entry[i];
        return !(e & GF_ENTRY_CERTAIN) && gf_pairs_value(e) >= low ? key_of(e) : 0;
    }
};

struct similar_keys { /* from list_low on */
    const uint64_t *entry;
    int64_t count;
    float low;
    __device__ uint64_t operator()(int64_t i) const { return gf_pairs_value(entry[i]) >= low ? key_of(entry[i]) : 0; }
};

struct exact_keys { /* with a float32 value of at least min; without: flag that excludes */
    const uint64_t *entry;
    int64_t count;
    uint32_t without;
    float min;
    __device__ uint64_t operator()(int64_t i) const {
        const uint64_t e = entry[i];
        return (e & GF_ENTRY_EXACT) && !(e & without) && gf_pairs_value(e) >= min ? key_of(e) : 0;
    }
};

/* ----- an anchor ----- */

struct settle_shared {
    gf_kth c;
    int inside, similar, sure, above, hits, copies, taken, kept, queued;
    int before[THREADS / 32];
    union {
        uint64_t best[GF_PAIRS_TOP];
        int32_t queue[QUEUE]; /* entries that wait for their float32 values */
    };
};

struct bounds { /* of similarities that need a float32 value: from low to high, from top on, around dup */
    float low, high, top;
    float last, lowest; /* of the tensor cores: that of the threshold's rank, that of the last one around it */
};

static __device__ void fail(const gf_pairs_collect &a, int64_t i) {
    if (threadIdx.x == 0) a.failed[atomicAdd(a.failed_n, 1)] = static_cast<int32_t>(i);
}

/* Ranks of the tensor cores' similarities. 0: the window or the list is too small. All threads get the same answer. */
static __device__ int find_bounds(const gf_pairs_collect &a, int64_t i, const uint64_t *entry, int count, settle_shared &sm,
                                  bounds *b) {
    const gf_pairs_window w = a.window[i];
    int inside = 0, similar = 0;
    const inside_keys in = {entry, count, w.low};
    const similar_keys like = {entry, count, w.list_low};
    for (int64_t e = threadIdx.x; e < count; e += THREADS) inside += in(e) != 0, similar += like(e) != 0;
    gf_pairs_add(&sm.inside, inside);
    gf_pairs_add(&sm.similar, similar);
    __syncthreads();
    *b = {CUDART_INF_F, -CUDART_INF_F, CUDART_INF_F, 0.0f, 0.0f};
    if (a.rank > 0) {
        const int64_t certain = a.above[i], need = a.rank - certain, far = a.reach - certain;
        if (need < 1 || far > sm.inside) return 0;
        b->last = gf_pairs_value(gf_kth_key(in, need, 32, sm.c));
        b->lowest = far > need ? gf_pairs_value(gf_kth_key(in, far, 32, sm.c)) : b->last;
    }
    if (a.only_dup) {
        b->top = -CUDART_INF_F;
    } else if (a.top > 0) {
        if (sm.similar < a.top) return 0;
        b->top = gf_pairs_value(gf_kth_key(like, a.top, 32, sm.c)) - (a.refined ? 1.0f : 2.0f) * a.slack[i];
        if (b->top < w.list_low && w.list_low > -4.0f) return 0;
    }
    return 1;
}

/* So far from the ranks float32 values are needed. 0: the window is too small. */
static __device__ int widen(const gf_pairs_collect &a, int64_t i, float wide, bounds *b) {
    const gf_pairs_window w = a.window[i];
    if (a.rank == 0) return 1;
    b->low = b->lowest - wide, b->high = a.whole ? CUDART_INF_F : b->last + wide;
    return !(b->low < w.low && w.low > -4.0f) && b->high <= w.high;
}

/* Float32 values of the entries in the queue. */
static __device__ void empty_queue(const gf_pairs_collect &a, const float *x, uint64_t *entry, settle_shared &sm) {
    __syncthreads();
    const int queued = sm.queued;
    for (int k = threadIdx.x; k < queued; k += THREADS) {
        const uint64_t one = entry[sm.queue[k]];
        const float v = gf_pairs_chain(x, a.k.x + (gf_collect_position(one) - a.col0) * a.k.ld, a.k.ld);
        entry[sm.queue[k]] = gf_collect_entry(v, static_cast<uint32_t>(one) | GF_ENTRY_EXACT);
    }
    __syncthreads();
    if (threadIdx.x == 0) sm.queued = 0;
    __syncthreads();
}

/* Float32 values of entries that need them; counts those of the window that are above for sure. All lanes of a warp compute a
 * value, so entries are queued first. */
static __device__ void make_exact(const gf_pairs_collect &a, int64_t i, uint64_t *entry, int count, const bounds &b,
                                  settle_shared &sm) {
    const float slack = a.slack[i], *x = a.q.x + i * a.q.ld;
    int sure = 0;
    for (int e0 = 0; e0 < count; e0 += THREADS) {
        const int e = e0 + static_cast<int>(threadIdx.x);
        const uint64_t one = e < count ? entry[e] : GF_ENTRY_EXACT;
        const float v = gf_pairs_value(one);
        const bool inside = !(one & GF_ENTRY_CERTAIN);
        if (!(one & GF_ENTRY_EXACT)) {
            const bool open = (inside && v >= b.low && v <= b.high) || v >= b.top || fabsf(v - a.dup) <= slack;
            if (open) sm.queue[atomicAdd(&sm.queued, 1)] = e;
            else sure += inside && v > b.high;
        }
        __syncthreads();
        const bool full = sm.queued > QUEUE - THREADS;
        __syncthreads();
        if (full) empty_queue(a, x, entry, sm);
    }
    empty_queue(a, x, entry, sm);
    gf_pairs_add(&sm.sure, sure);
    __syncthreads();
}

/* The threshold, with float32 values where they decide. 0: the window is too small. */
static __device__ int find_threshold(const gf_pairs_collect &a, int64_t i, uint64_t *entry, int count, settle_shared &sm,
                                     bounds *b, float *lambda) {
    const float slack = a.slack[i];
    const exact_keys keys = {entry, count, GF_ENTRY_CERTAIN, -CUDART_INF_F};
#pragma unroll 1
    for (float margin = a.refined ? 0.0f : MARGIN * slack;; margin = slack) {
        if (!widen(a, i, slack + margin, b)) return 0;
        make_exact(a, i, entry, count, *b, sm);
        if (a.rank == 0) return 1;
        const int64_t above = a.above[i] + sm.sure;
        *lambda = gf_pairs_value(gf_kth_key(keys, a.rank - above, 32, sm.c));
        if (a.refined || margin == slack) return 1;
        const float lowest = a.reach > a.rank ? gf_pairs_value(gf_kth_key(keys, a.reach - above, 32, sm.c)) : *lambda;
        if ((a.whole || *lambda <= b->last + margin) && lowest >= b->lowest - margin) return 1;
        __syncthreads();
        if (threadIdx.x == 0) sm.sure = 0; /* counted again */
        __syncthreads();
    }
}

/* Above the threshold; entries without a float32 value are far from it. */
__device__ __forceinline__ bool is_above(uint64_t entry, float lambda) {
    return (entry & GF_ENTRY_CERTAIN) || gf_pairs_value(entry) > lambda;
}

static __device__ void count_entries(const gf_pairs_collect &a, int64_t i, const uint64_t *entry, int count, float lambda,
                                     settle_shared &sm) {
    const int32_t own = a.label ? a.label[gf_collect_anchor(a, i)] : -1;
    int above = 0, hits = 0, copies = 0;
    for (int e = threadIdx.x; e < count; e += THREADS) {
        const uint64_t one = entry[e];
        const int64_t at = gf_collect_position(one);
        if (a.rank > 0 && !(one & GF_ENTRY_CERTAIN) && is_above(one, lambda)) above++, hits += own >= 0 && a.label[at] == own;
        if (!(gf_pairs_value(one) >= a.dup)) continue;
        copies++;
        if (a.copy_root) gf_pairs_join(a.copy_root, static_cast<int32_t>(gf_collect_anchor(a, i)), static_cast<int32_t>(at));
    }
    gf_pairs_add(&sm.above, above);
    gf_pairs_add(&sm.hits, hits);
    gf_pairs_add(&sm.copies, copies);
    __syncthreads();
}

static __device__ void put_similar(const gf_pairs_collect &a, int64_t i, const uint64_t *entry, int count, settle_shared &sm) {
    const exact_keys keys = {entry, count, 0, a.only_dup ? a.dup : -CUDART_INF_F};
    const int wanted = a.only_dup ? min(a.top, sm.copies) : a.top;
    const uint64_t last = wanted > 0 ? gf_kth_key(keys, wanted, 0, sm.c) : ~0ull;
    for (int e = threadIdx.x; e < count; e += THREADS) {
        const uint64_t key = keys(e);
        if (key >= last) sm.best[atomicAdd(&sm.taken, 1)] = key; /* keys are distinct: exactly so many */
    }
    __syncthreads();
    gf_sort_best(sm.best, wanted);
    for (int e = threadIdx.x; e < a.top; e += THREADS)
        gf_put_cell(a.other, a.similarity, i * a.top + e, e < wanted ? sm.best[e] : 0);
}

/* The largest ones that are not above. Of the window's, sm.above are above, of which sm.sure have no float32 value. */
static __device__ void put_below(const gf_pairs_collect &a, int64_t i, const uint64_t *entry, int count, settle_shared &sm,
                                 int64_t others) {
    const exact_keys keys = {entry, count, GF_ENTRY_CERTAIN, -CUDART_INF_F};
    for (int e = 0; e < a.below; e++) {
        const int64_t place = sm.above - sm.sure + 1 + e;
        const bool exists = a.above[i] + sm.above + 1 + e <= others;
        const uint64_t key = exists ? gf_kth_key(keys, place, 0, sm.c) : 0;
        if (threadIdx.x == 0) gf_put_cell(a.below_other, a.below_similarity, i * a.below + e, key);
        __syncthreads();
    }
}

/* The list becomes its entries inside the window that are above the threshold. */
static __device__ void keep_above(const gf_pairs_collect &a, uint64_t *entry, int count, float lambda, settle_shared &sm) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int e0 = 0; e0 < count; e0 += THREADS) {
        const int e = e0 + static_cast<int>(threadIdx.x);
        const uint64_t one = e < count ? entry[e] : 0;
        const bool keep = e < count && a.rank > 0 && (a.whole || !(one & GF_ENTRY_CERTAIN)) && is_above(one, lambda);
        const unsigned all = __ballot_sync(0xffffffffu, keep);
        if (lane == 0) sm.before[warp] = __popc(all);
        __syncthreads(); /* all entries of this round are read, too */
        int place = sm.kept, sum = 0;
        for (int w = 0; w < THREADS / 32; w++) place += w < warp ? sm.before[w] : 0, sum += sm.before[w];
        if (keep) entry[place + __popc(all & ((1u << lane) - 1u))] = one;
        __syncthreads();
        if (threadIdx.x == 0) sm.kept += sum;
        __syncthreads();
    }
}

static __global__ void __launch_bounds__(THREADS, 4) settle(gf_pairs_collect a, int64_t others) {
    __shared__ settle_shared sm;
    const int64_t i = blockIdx.x;
    const int count = a.count[i];
    uint64_t *entry = a.entry + a.start[i];
    bounds b;
    float lambda = CUDART_INF_F;
    if (threadIdx.x == 0) sm.inside = sm.similar = sm.sure = sm.above = sm.hits = sm.copies = sm.taken = sm.kept = sm.queued = 0;
    __syncthreads();
    if (count > a.start[i + 1] - a.start[i] || !find_bounds(a, i, entry, count, sm, &b) ||
        !find_threshold(a, i, entry, count, sm, &b, &lambda)) {
        fail(a, i);
        if (threadIdx.x == 0) a.count[i] = 0;
        return;
    }
    count_entries(a, i, entry, count, lambda, sm);
    if (a.top > 0) put_similar(a, i, entry, count, sm);
    __syncthreads();
    if (a.below > 0) put_below(a, i, entry, count, sm, others);
    keep_above(a, entry, count, lambda, sm);
    if (threadIdx.x > 0) return;
    a.lambda[i] = lambda, a.count[i] = sm.kept;
    a.above[i] += sm.above, a.hits[i] += sm.hits, a.copies[i] = sm.copies;
}

cudaError_t gf_pairs_settle(const gf_pairs_collect *c, int64_t others, cudaStream_t stream) {
    settle<<<static_cast<unsigned>(c->q.n), THREADS, 0, stream>>>(*c, others);
    return cudaGetLastError();
}

/* ----- float32 values of new entries ----- */

static __global__ void __launch_bounds__(THREADS) refine(gf_pairs_collect a, int32_t *done) {
    const int64_t i = blockIdx.x, start = a.start[i];
    const int first = done[i], last = static_cast<int>(min(static_cast<int64_t>(a.count[i]), a.start[i + 1] - start));
    const float *x = a.q.x + i * a.q.ld;
    __syncthreads();
    for (int e = first + static_cast<int>(threadIdx.x); e < last; e += THREADS) {
        const uint64_t one = a.entry[start + e];
        const int64_t at = gf_collect_position(one);
        a.entry[start + e] = gf_collect_entry(gf_pairs_chain(x, a.k.x + (at - a.col0) * a.k.ld, a.k.ld),
                                              static_cast<uint32_t>(one) | GF_ENTRY_EXACT);
    }
    if (threadIdx.x == 0) done[i] = last;
}

cudaError_t gf_pairs_refine(const gf_pairs_collect *c, int32_t *done, cudaStream_t stream) {
    refine<<<static_cast<unsigned>(c->q.n), THREADS, 0, stream>>>(*c, done);
    return cudaGetLastError();
}

/* ----- mutual pairs ----- */

/* q is k; lists are as settle leaves them. A pair of which one end is certain is in the other's list alone; one that is inside
 * both windows is in both lists, and each counts its own. */
static __global__ void __launch_bounds__(THREADS) agree(gf_pairs_collect a) {
    __shared__ int mutual;
    const int64_t i = blockIdx.x;
    const int count = a.count[i];
    const uint64_t *entry = a.entry + a.start[i];
    const float slack = a.slack[i], *x = a.q.x + i * a.q.ld;
    int mine = 0;
    if (threadIdx.x == 0) mutual = 0;
    __syncthreads();
    for (int e = threadIdx.x; e < count; e += THREADS) {
        const uint64_t one = entry[e];
        const int64_t j = gf_collect_position(one);
        const float other = a.lambda[j];
        float v = gf_pairs_value(one);
        if (!(one & GF_ENTRY_OTHER_ABOVE)) {
            if (!(one & GF_ENTRY_EXACT) && fabsf(v - other) <= slack) v = gf_pairs_chain(x, a.q.x + j * a.q.ld, a.q.ld);
            if (!(v > other)) continue;
        } else {
            atomicAdd(&a.mutual[j], 1);
        }
        mine++;
        if (a.mutual_root) gf_pairs_join(a.mutual_root, static_cast<int32_t>(i), static_cast<int32_t>(j));
    }
    gf_pairs_add(&mutual, mine);
    __syncthreads();
    if (threadIdx.x == 0 && mutual) atomicAdd(&a.mutual[i], mutual);
}

cudaError_t gf_pairs_agree(const gf_pairs_collect *c, cudaStream_t stream) {
    agree<<<static_cast<unsigned>(c->q.n), THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}
