/* pairs_device.cuh - shared by the kernels of discovery: exact similarities, keys, sums over a block, joining trees. */
#pragma once

#include "cuda/pairs/pairs_kernels.h"

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
