/* pairs_kth.cuh - order among the keys of a row, by all threads of a block: the k-th largest, the largest ones sorted. */
#pragma once

#include <math_constants.h>

#include "cuda/pairs/pairs_device.cuh"

enum { GF_KTH_DIGITS = 256 };

struct gf_kth {
    int digits[GF_KTH_DIGITS];
    int64_t left; /* rank among the keys with the prefix */
    uint64_t prefix;
};

/* By the first warp: the digit at which the count from the largest down reaches `left`. */
static __device__ void gf_kth_digit(gf_kth &c, int shift) {
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
static __device__ void gf_sort_best(uint64_t *best, int count) {
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
static __device__ void gf_put_cell(int32_t *other, float *similarity, int64_t at, uint64_t key) {
    other[at] = key ? static_cast<int32_t>(gf_pairs_col(key)) : -1;
    similarity[at] = key ? gf_pairs_value(key) : CUDART_NAN_F;
}
