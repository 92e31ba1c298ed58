/* cunn_sort.cu - see cunn_sort.h.
 *
 * A pass: every warp counts the digits of its PER_WARP keys; one block turns the counts, digit by digit and warp by warp, into
 * first places; every warp places its keys, 32 at a time in their order. No atomics: the places are the same every time.
 */
#include "nn/cuda/cunn_sort.h"

enum { WARPS = 4, PER_WARP = 256, DIGITS = 256, SCAN = 1024 };

static int64_t warps_for(int64_t count) { return (count + PER_WARP - 1) / PER_WARP; }

struct pass {
    const int32_t *key, *position;   /* from; position NULL: 0, 1, 2, ... */
    int32_t *new_key, *new_position; /* to */
    int *first;                      /* [DIGITS][warps]: counts, then places */
    int64_t count, warps;
    int shift;
    int32_t key_max; /* largest key */
};

__device__ static int32_t key_at(const pass &p, int64_t i) { return min(max(p.key[i], 0), p.key_max); }

/* Goes over a warp's keys: mine [DIGITS] increases by the count of each digit. PLACE: keys are written to the place before. */
template <bool PLACE> __device__ static void walk_keys(const pass &p, int64_t warp, int *mine) {
    const unsigned lane = threadIdx.x % 32;
    const int64_t last = min((warp + 1) * PER_WARP, p.count);
    for (int64_t base = warp * PER_WARP; base < last; base += 32) {
        const int64_t i = base + lane;
        const bool inside = i < last;
        const int32_t key = inside ? key_at(p, i) : 0;
        const int digit = inside ? key >> p.shift & (DIGITS - 1) : DIGITS;
        const unsigned same = __match_any_sync(~0u, digit), before = same & ((1u << lane) - 1);
        const int start = inside ? mine[digit] : 0;
        __syncwarp();
        if (inside && !before) mine[digit] = start + __popc(same);
        __syncwarp();
        if (!PLACE || !inside) continue;
        const int to = start + __popc(before);
        p.new_key[to] = key;
        p.new_position[to] = p.position ? p.position[i] : (int32_t)i;
    }
}

static __global__ void __launch_bounds__(32 * WARPS) count_kernel(const pass p) {
    __shared__ int digits[WARPS][DIGITS];
    int *mine = digits[threadIdx.x / 32];
    const int64_t warp = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (warp >= p.warps) return;
    for (int d = threadIdx.x % 32; d < DIGITS; d += 32) mine[d] = 0;
    __syncwarp();
    walk_keys<false>(p, warp, mine);
    for (int d = threadIdx.x % 32; d < DIGITS; d += 32) p.first[d * p.warps + warp] = mine[d];
}

/* Exclusive prefix sums in place; one block. */
static __global__ void __launch_bounds__(SCAN) scan_kernel(int *x, int64_t count) {
    __shared__ int sums[SCAN];
    const int64_t each = (count + SCAN - 1) / SCAN, from = min(each * threadIdx.x, count), to = min(from + each, count);
    int sum = 0;
#pragma unroll 8
    for (int64_t i = from; i < to; i++) sum += x[i];
    sums[threadIdx.x] = sum;
    for (unsigned step = 1; step < SCAN; step *= 2) {
        __syncthreads();
        const int before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
    }
    int at = sums[threadIdx.x] - sum;
#pragma unroll 8
    for (int64_t i = from; i < to; i++) {
        const int here = x[i];
        x[i] = at;
        at += here;
    }
}

static __global__ void __launch_bounds__(32 * WARPS) place_kernel(const pass p) {
    __shared__ int digits[WARPS][DIGITS];
    int *mine = digits[threadIdx.x / 32];
    const int64_t warp = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (warp >= p.warps) return;
    for (int d = threadIdx.x % 32; d < DIGITS; d += 32) mine[d] = p.first[d * p.warps + warp];
    __syncwarp();
    walk_keys<true>(p, warp, mine);
}

static size_t whole(size_t bytes) { return (bytes + 255) / 256 * 256; }

size_t gf_cunn_sort_bytes(int64_t count) {
    return 4 * whole(sizeof(int32_t) * (size_t)count) + sizeof(int) * DIGITS * (size_t)warps_for(count);
}

gf_cunn_sorted gf_cunn_sort_on(cudaStream_t stream, const int32_t *keys, int64_t count, int64_t limit, void *scratch) {
    const size_t array = whole(sizeof(int32_t) * (size_t)count);
    char *at = (char *)scratch;
    gf_cunn_sorted have = {NULL, NULL}, to[2];
    for (int i = 0; i < 2; i++, at += 2 * array) to[i].key = (int32_t *)at, to[i].position = (int32_t *)(at + array);
    pass p = {keys, NULL, NULL, NULL, (int *)at, count, warps_for(count), 0, (int32_t)(limit - 1)};
    const unsigned blocks = (unsigned)((p.warps + WARPS - 1) / WARPS);
    for (int i = 0; p.shift == 0 || (limit - 1) >> p.shift > 0; i ^= 1, p.shift += 8) {
        have = to[i];
        p.new_key = have.key, p.new_position = have.position;
        count_kernel<<<blocks, 32 * WARPS, 0, stream>>>(p);
        scan_kernel<<<1, SCAN, 0, stream>>>(p.first, DIGITS * p.warps);
        place_kernel<<<blocks, 32 * WARPS, 0, stream>>>(p);
        p.key = have.key, p.position = have.position;
    }
    return have;
}

gf_cunn_sorted gf_cunn_sort(gf_nn_engine *s, const int32_t *keys, int64_t count, int64_t limit, void *scratch) {
    const gf_cunn_sorted sorted = gf_cunn_sort_on(s->stream, keys, count, limit, scratch);
    gf_cunn_note(s, cudaGetLastError(), "sorting of tokens");
    return sorted;
}
