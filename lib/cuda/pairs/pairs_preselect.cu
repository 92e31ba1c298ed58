/* pairs_preselect.cu - results that rounded similarities decide: brackets of thresholds, certain counts, and lists of the rest.
 *
 * One block per row. Let l be the rank-th largest of a row's rounded similarities: the float32 one is at most `slack` away, and
 * so is each of them. A similarity more than 2 slack above l is therefore above the threshold for any rounding, and one more than
 * 2 slack below is not.
 */
#include <math_constants.h>

#include "cuda/pairs/pairs_device.cuh"

enum { THREADS = 512, BINS = 4096, BINS_EACH = BINS / THREADS };
#define BIN_SLOP 1e-6f /* float32 arithmetic on the borders of bins */

/* Bins of 1/2048 over [-1, 1]; increases with v. */
__device__ __forceinline__ int bin_of(float v) {
    const int b = static_cast<int>(fmaf(v, BINS / 2, BINS / 2));
    return b < 0 ? 0 : b >= BINS ? BINS - 1 : b;
}
/* Values in the first and the last bin may lie outside [-1, 1] by roundings. */
__device__ __forceinline__ float bin_low(int b) { return b == 0 ? -4.0f : b / (BINS / 2.0f) - 1.0f - BIN_SLOP; }
__device__ __forceinline__ float bin_high(int b) { return b == BINS - 1 ? 4.0f : (b + 1) / (BINS / 2.0f) - 1.0f + BIN_SLOP; }

/* Calls f(column, s) for every pair of the row. */
template <class F> __device__ __forceinline__ void each_pair(const gf_pairs_job &a, int row, F f) {
    const float *s = a.s + row * a.pitch;
    const int64_t skip = gf_pairs_skipped(a, row), n = a.k.n;
    for (int64_t c = 4 * threadIdx.x; c < n; c += 4 * THREADS) {
        const float4 v = __ldcs(reinterpret_cast<const float4 *>(s + c));
        const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (c + i < n && c + i != skip) f(c + i, values[i]);
    }
}

static __global__ void __launch_bounds__(THREADS) brackets(gf_pairs_job a) {
    __shared__ int bins[BINS], warps[THREADS / 32];
    const int row = static_cast<int>(blockIdx.x);
    const float slack = a.slack[row];
    for (int b = threadIdx.x; b < BINS; b += THREADS) bins[b] = 0;
    if (threadIdx.x == 0) a.low[row] = a.high[row] = a.top_low[row] = CUDART_INF_F;
    __syncthreads();
    each_pair(a, row, [&](int64_t, float v) { atomicAdd(&bins[bin_of(v)], 1); });
    __syncthreads();
    int mine = 0;
    for (int i = 0; i < BINS_EACH; i++) mine += bins[BINS - 1 - (threadIdx.x * BINS_EACH + i)];
    int64_t seen = gf_pairs_before(mine, warps);
    for (int i = 0; i < BINS_EACH; i++) {
        const int b = BINS - 1 - (threadIdx.x * BINS_EACH + i);
        if (seen < a.rank && seen + bins[b] >= a.rank) a.high[row] = bin_high(b) + 2.0f * slack;
        if (seen < a.reach && seen + bins[b] >= a.reach) a.low[row] = bin_low(b) - 2.0f * slack;
        if (seen < a.top && seen + bins[b] >= a.top) a.top_low[row] = bin_low(b) - 2.0f * slack;
        seen += bins[b];
    }
}

static __global__ void __launch_bounds__(THREADS) gather(gf_pairs_job a) {
    __shared__ int listed, above, hits, copies;
    const int row = static_cast<int>(blockIdx.x);
    const int64_t at = a.row0 + row;
    const float low = a.low[row], high = a.high[row], top_low = a.top_low[row], slack = a.slack[row];
    const float min = fminf(fminf(low, top_low), a.dup - slack);
    int my_above = 0, my_hits = 0, my_copies = 0;
    if (threadIdx.x == 0) listed = above = hits = copies = 0;
    __syncthreads();
    each_pair(a, row, [&](int64_t col, float v) {
        if (v < min) return;
        if ((v >= low && v <= high) || v >= top_low || fabsf(v - a.dup) <= slack) {
            const int place = atomicAdd(&listed, 1);
            if (place < a.cap) a.list[row * static_cast<int64_t>(a.cap) + place] = static_cast<uint64_t>(col);
            return;
        }
        if (v > high) my_above++, my_hits += gf_pairs_same(a, at, col);
        if (v < a.dup) return;
        my_copies++;
        if (a.copy_root) gf_pairs_join(a.copy_root, static_cast<int32_t>(at), static_cast<int32_t>(col));
    });
    gf_pairs_add(&above, my_above);
    gf_pairs_add(&hits, my_hits);
    gf_pairs_add(&copies, my_copies);
    __syncthreads();
    if (threadIdx.x > 0) return;
    a.above[at] = above, a.hits[at] = hits, a.copies[at] = copies;
    a.list_n[row] = listed;
    if (listed > a.cap && atomicExch(&a.dense[at / GF_PAIRS_GROUP], 1) == 0) atomicAdd(a.dense_n, 1);
}

cudaError_t gf_pairs_brackets(const gf_pairs_job *a, cudaStream_t stream) {
    brackets<<<static_cast<unsigned>(a->rows), THREADS, 0, stream>>>(*a);
    return cudaGetLastError();
}

cudaError_t gf_pairs_gather(const gf_pairs_job *a, cudaStream_t stream) {
    gather<<<static_cast<unsigned>(a->rows), THREADS, 0, stream>>>(*a);
    return cudaGetLastError();
}
