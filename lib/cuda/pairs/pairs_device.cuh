/* pairs_device.cuh - shared by the kernels of discovery. */
#pragma once

#include <math_constants.h>

#include "cuda/pairs/pairs_kernels.h"

/* ---------- Exact similarities, keys, sums over a block, trees ---------- */

/* Column that is no pair of row `row` of the strip; -1: none. */
__device__ __forceinline__ int64_t gf_pairs_skipped(const gf_pairs_job &a, int row) {
    return a.self ? a.row0 + row : a.skip ? a.skip[a.row0 + row] : -1;
}

__device__ __forceinline__ int gf_pairs_same(const gf_pairs_job &a, int64_t i, int64_t j) {
    return a.label && a.label[i] >= 0 && a.label[i] == a.label[j];
}

/* The float32 similarity of two unit vectors. */
__device__ __forceinline__ float gf_pairs_chain(const float *x, const float *y, int ld) {
    float sum = 0.0f;
#pragma unroll 8 /* a cache line */
    for (int d = 0; d < ld; d += 4) {
        const float4 p = __ldg(reinterpret_cast<const float4 *>(x + d)), q = __ldg(reinterpret_cast<const float4 *>(y + d));
        sum = fmaf(p.x, q.x, sum), sum = fmaf(p.y, q.y, sum), sum = fmaf(p.z, q.z, sum), sum = fmaf(p.w, q.w, sum);
    }
    return sum + 0.0f; /* -0 is 0 */
}

__device__ __forceinline__ float gf_pairs_similarity(const gf_pairs_job &a, int row, int64_t col) {
    return gf_pairs_chain(a.q.x + (a.row0 + row) * a.q.ld, a.k.x + col * a.k.ld, a.k.ld);
}

/* As gf_best_key() of the CPU: larger is better, equal similarities go to the smaller column; 0 is no key. */
__device__ __forceinline__ uint64_t gf_pairs_key(float value, int64_t col) {
    uint32_t bits = __float_as_uint(value + 0.0f);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(bits) << 32 | (0xffffffffu - static_cast<uint32_t>(col));
}

__device__ __forceinline__ float gf_pairs_value(uint64_t key) {
    const uint32_t bits = static_cast<uint32_t>(key >> 32);
    return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}

__device__ __forceinline__ int64_t gf_pairs_col(uint64_t key) { return 0xffffffffu - static_cast<uint32_t>(key); }

/* Sum over the 32 lanes. */
__device__ __forceinline__ int gf_pairs_warp_sum(int x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

/* Adds every thread's x to *sum in shared memory, which must be 0 before. All threads call this, and synchronize before they read
 * the sum. */
__device__ __forceinline__ void gf_pairs_add(int *sum, int x) {
    x = gf_pairs_warp_sum(x);
    if (threadIdx.x % 32 == 0 && x) atomicAdd(sum, x);
}

/* Sum of `mine` over the threads before this one; warps [threads / 32] in shared memory. All threads call this. */
__device__ __forceinline__ int gf_pairs_before(int mine, int *warps) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = mine;
    for (int by = 1; by < 32; by *= 2) {
        const int left = __shfl_up_sync(0xffffffffu, sum, by);
        if (lane >= by) sum += left;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    int before = sum - mine;
    for (int w = 0; w < warp; w++) before += warps[w];
    return before;
}

/* Cached reads may be stale: they give an ancestor of the node, and ancestors stay ancestors. */
__device__ __forceinline__ int32_t gf_pairs_root(int32_t *root, int32_t i) {
    for (int32_t up = __ldca(&root[i]); up != i; up = __ldca(&root[i])) {
        const int32_t next = __ldca(&root[up]);
        if (next != up) root[i] = next; /* path halving */
        i = up;
    }
    return i;
}

/* The larger root is put below the smaller one, so a tree's root is its smallest node. If it has been put below another node in
 * the meantime, that node takes its place: parents only decrease, so this ends. */
__device__ __forceinline__ void gf_pairs_join(int32_t *root, int32_t a, int32_t b) {
    a = gf_pairs_root(root, a), b = gf_pairs_root(root, b);
    while (a != b) {
        const int32_t from = a > b ? a : b, to = a > b ? b : a;
        const int32_t up = atomicCAS(&root[from], from, to);
        if (up == from) return;
        a = gf_pairs_root(root, up), b = to;
    }
}

/* ---------- Order among the keys of a row, by all threads of a block ----------
 *
 * The k-th largest, the largest ones sorted.
 */

enum { GF_KTH_DIGITS = 256 };

struct gf_kth {
    int digits[GF_KTH_DIGITS];
    int64_t left; /* rank among the keys with the prefix */
    uint64_t prefix;
};

/* By the first warp: the digit at which the count from the largest down reaches `left`. */
[[maybe_unused]] static __device__ void gf_kth_digit(gf_kth &c, int shift) {
    const int lane = static_cast<int>(threadIdx.x), first = GF_KTH_DIGITS - 1 - 8 * lane;
    int mine = 0;
    for (int i = 0; i < 8; i++) mine += c.digits[first - i];
    int64_t sum = mine;
    for (int by = 1; by < 32; by *= 2) {
        const int64_t before = __shfl_up_sync(0xffffffffu, sum, by);
        if (lane >= by) sum += before;
    }
    int64_t seen = sum - mine;
    const int64_t left = c.left;
    __syncwarp();
    for (int i = 0; i < 8; i++) {
        const int count = c.digits[first - i];
        if (seen < left && seen + count >= left) c.prefix |= static_cast<uint64_t>(first - i) << shift, c.left = left - seen;
        seen += count;
    }
}

/* Bits down to `lowest` of the k-th largest key; 1 <= k <= keys. All threads call this. */
template <class K> __device__ uint64_t gf_kth_key(const K &keys, int64_t k, int lowest, gf_kth &c) {
    __syncthreads();
    if (threadIdx.x == 0) c.left = k, c.prefix = 0;
    for (int shift = 56; shift >= lowest; shift -= 8) {
        for (int i = threadIdx.x; i < GF_KTH_DIGITS; i += blockDim.x) c.digits[i] = 0;
        __syncthreads();
        const uint64_t prefix = c.prefix;
        for (int64_t i = threadIdx.x; i < keys.count; i += blockDim.x) {
            const uint64_t key = keys(i);
            if (shift < 56 && (key ^ prefix) >> (shift + 8)) continue;
            if (key) atomicAdd(&c.digits[key >> shift & (GF_KTH_DIGITS - 1)], 1);
        }
        __syncthreads();
        if (threadIdx.x < 32) gf_kth_digit(c, shift);
        __syncthreads();
    }
    return c.prefix;
}

/* Sorts best[0 .. count) by descending keys, filled up with zeros to a power of two. */
[[maybe_unused]] static __device__ void gf_sort_best(uint64_t *best, int count) {
    int size = 1;
    while (size < count) size *= 2;
    for (int i = count + threadIdx.x; i < size; i += blockDim.x) best[i] = 0;
    for (int run = 2; run <= size; run *= 2)
        for (int step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < size; i += blockDim.x) {
                const int j = i ^ step;
                if (j < i) continue; /* the thread of the smaller place reads and writes both */
                const uint64_t x = best[i], y = best[j];
                if ((x < y) == ((i & run) == 0)) best[i] = y, best[j] = x;
            }
        }
    __syncthreads();
}

/* key 0: none. */
[[maybe_unused]] static __device__ void gf_put_cell(int32_t *other, float *similarity, int64_t at, uint64_t key) {
    other[at] = key ? static_cast<int32_t>(gf_pairs_col(key)) : -1;
    similarity[at] = key ? gf_pairs_value(key) : CUDART_NAN_F;
}

/* ---------- One pair of the sweep that collects candidates ----------
 *
 * What it adds to counts and lists of its ends.
 */

struct gf_row_counts { /* where a row's counts are kept during the sweep */
    int32_t *above, *hits, *mutual;
};

__device__ __forceinline__ gf_row_counts gf_collect_counts(const gf_pairs_collect &a, int64_t i) {
    return {a.above + i, a.hits + i, a.mutual + i};
}

__device__ __forceinline__ uint64_t gf_collect_entry(float v, uint32_t low) {
    uint32_t bits = __float_as_uint(v + 0.0f);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(bits) << 32 | low;
}

__device__ __forceinline__ int64_t gf_collect_position(uint64_t entry) {
    return static_cast<uint32_t>(entry) & GF_ENTRY_POSITION;
}

__device__ __forceinline__ int64_t gf_collect_anchor(const gf_pairs_collect &a, int64_t i) {
    return a.position ? a.position[i] : a.first + i;
}

/* Anchor i of q and its pair with the position `other`. */
__device__ __forceinline__ void gf_collect_end(const gf_pairs_collect &a, const gf_pairs_window &w, int64_t i, int64_t other,
                                               float v, bool other_above, const gf_row_counts &c) {
    if (v < w.min) return;
    const bool above = v > w.high;
    if (above) {
        atomicAdd(c.above, 1);
        if (a.label && a.label[gf_collect_anchor(a, i)] >= 0 && a.label[gf_collect_anchor(a, i)] == a.label[other])
            atomicAdd(c.hits, 1);
    }
    if (!(v >= w.list_low || (!above && v >= w.low))) return;
    const int64_t start = a.start[i];
    const int place = atomicAdd(&a.count[i], 1);
    if (place >= a.start[i + 1] - start) return;
    const uint32_t flags = (other_above ? GF_ENTRY_OTHER_ABOVE : 0u) | (above ? GF_ENTRY_CERTAIN : 0u);
    a.entry[start + place] = gf_collect_entry(v, flags | static_cast<uint32_t>(other));
}

/* Row i of q and row j of k, with their windows (col: only if `both`). */
__device__ __forceinline__ void gf_collect_pair(const gf_pairs_collect &a, int64_t i, int64_t j, float v,
                                                const gf_pairs_window &row, const gf_pairs_window &col, const gf_row_counts &c) {
    if (i >= a.q.n || j >= a.k.n || (a.both ? j <= i : gf_collect_anchor(a, i) == a.col0 + j)) return;
    if (!a.both) {
        gf_collect_end(a, row, i, a.col0 + j, v, false, c);
        return;
    }
    const bool from_i = v > row.high, from_j = v > col.high;
    gf_collect_end(a, row, i, j, v, from_j, c);
    gf_collect_end(a, col, j, i, v, from_i, gf_collect_counts(a, j));
    if (!from_i || !from_j) return;
    atomicAdd(c.mutual, 1);
    atomicAdd(&a.mutual[j], 1);
    if (a.mutual_root && __ldca(&a.mutual_root[i]) != __ldca(&a.mutual_root[j]))
        gf_pairs_join(a.mutual_root, static_cast<int32_t>(i), static_cast<int32_t>(j));
}
