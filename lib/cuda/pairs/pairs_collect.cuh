/* pairs_collect.cuh - one pair of a sweep that collects candidates: what it adds to counts and lists of its ends. */
#pragma once

#include "cuda/pairs/pairs_collect.h"
#include "cuda/pairs/pairs_device.cuh"

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
