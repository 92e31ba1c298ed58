/* kmeans_assign.cu - the nearest centroid of every embedding.
 *
 * A block has 128 embeddings and goes over all centroids, 128 at a time; a thread has 8 x 8 similarities of a tile: rows
 * 4 ty + (0 .. 3) and 64 + 4 ty + (0 .. 3), columns likewise by tx. 16 dimensions of both lie in shared memory, while the next 16
 * are on their way. Each similarity is one chain of fused multiply-adds over ascending dimensions.
 */
#include <limits.h>
#include <math_constants.h>

#include "kmeans/kmeans_kernels.h"

#define TILE 128
#define CHUNK 16
#define THREADS 256
#define LOADS (TILE * CHUNK / 4 / THREADS) /* of 4 numbers, per thread and operand */

struct assign_args {
    const float *x, *centre; /* [n][ld], [groups][ld] */
    int64_t n;
    int groups, ld;
    double tau;
    int32_t *of;
    float *best, *confidence;
};

struct chunk_pair {
    float a[CHUNK][TILE + 4], b[CHUNK][TILE + 4];
};

/* Numbers d .. d + 3 of row r of x; zeros past the last row. */
static __device__ __forceinline__ float4 load4(const float *x, int64_t rows, int ld, int64_t r, int d) {
    return r < rows ? *reinterpret_cast<const float4 *>(x + r * ld + d) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

static __device__ __forceinline__ void store4(float (*to)[TILE + 4], int r, int d, const float4 &v) {
    to[d][r] = v.x, to[d + 1][r] = v.y, to[d + 2][r] = v.z, to[d + 3][r] = v.w;
}

struct incoming { /* this thread's part of a chunk */
    float4 a[LOADS], b[LOADS];
};

static __device__ __forceinline__ void fetch(const assign_args &p, int64_t r0, int c0, int d0, incoming &x) {
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int at = threadIdx.x + i * THREADS, r = at / (CHUNK / 4), d = d0 + at % (CHUNK / 4) * 4;
        x.a[i] = load4(p.x, p.n, p.ld, r0 + r, d);
        x.b[i] = load4(p.centre, p.groups, p.ld, c0 + r, d);
    }
}

static __device__ __forceinline__ void keep(const incoming &x, chunk_pair &to) {
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int at = threadIdx.x + i * THREADS, r = at / (CHUNK / 4), d = at % (CHUNK / 4) * 4;
        store4(to.a, r, d, x.a[i]);
        store4(to.b, r, d, x.b[i]);
    }
}

static __device__ __forceinline__ void multiply(float (&acc)[8][8], const chunk_pair &from, int ty, int tx) {
#pragma unroll
    for (int d = 0; d < CHUNK; d++) {
        const float4 a0 = *reinterpret_cast<const float4 *>(&from.a[d][4 * ty]);
        const float4 a1 = *reinterpret_cast<const float4 *>(&from.a[d][64 + 4 * ty]);
        const float4 b0 = *reinterpret_cast<const float4 *>(&from.b[d][4 * tx]);
        const float4 b1 = *reinterpret_cast<const float4 *>(&from.b[d][64 + 4 * tx]);
        const float a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
        const float b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
}

/* Place of the i-th of a thread's 8 rows or columns in the tile: they rise with i. */
static __device__ __forceinline__ int place(int t, int i) { return i < 4 ? 4 * t + i : 64 + 4 * t + i - 4; }

struct row_best {
    float value;
    int at;
    double sum; /* of exp((S - 1) / tau) */
};

/* Columns come by rising number: the first of equal ones stays. */
template <bool CONFIDENT>
static __device__ __forceinline__ void take_tile(const assign_args &p, int c0, int tx, float (&acc)[8][8], row_best (&best)[8]) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int c = c0 + place(tx, j);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float s = acc[i][j];
            acc[i][j] = 0.0f;
            if (c >= p.groups) continue;
            if (s > best[i].value) best[i].value = s, best[i].at = c;
            if (CONFIDENT) best[i].sum += exp((double(s) - 1.0) / p.tau);
        }
    }
}

/* Joins the 16 threads of a row, in a fixed order. */
template <bool CONFIDENT> static __device__ __forceinline__ row_best join(row_best x) {
    for (int lanes = 8; lanes > 0; lanes /= 2) {
        const float value = __shfl_xor_sync(0xffffffffu, x.value, lanes);
        const int at = __shfl_xor_sync(0xffffffffu, x.at, lanes);
        if (CONFIDENT) x.sum += __shfl_xor_sync(0xffffffffu, x.sum, lanes);
        if (value > x.value || (value == x.value && at < x.at)) x.value = value, x.at = at;
    }
    return x;
}

template <bool CONFIDENT> static __global__ void __launch_bounds__(THREADS, CONFIDENT ? 1 : 2) assign(const assign_args p) {
    __shared__ __align__(16) chunk_pair shared[2];
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16, chunks = p.ld / CHUNK;
    const int64_t r0 = int64_t(blockIdx.x) * TILE, all = int64_t((p.groups + TILE - 1) / TILE) * chunks;
    float acc[8][8] = {};
    row_best best[8];
    incoming next;
    for (int i = 0; i < 8; i++) best[i] = {-CUDART_INF_F, INT_MAX, 0.0};
    fetch(p, r0, 0, 0, next);
    keep(next, shared[0]);
    __syncthreads();
    int c0 = 0, chunk = 0;
    for (int64_t t = 0; t < all; t++) {
        const bool ends = chunk + 1 == chunks;
        const int next_c0 = ends ? c0 + TILE : c0, next_chunk = ends ? 0 : chunk + 1;
        if (t + 1 < all) fetch(p, r0, next_c0, next_chunk * CHUNK, next);
        multiply(acc, shared[t & 1], ty, tx);
        if (ends) take_tile<CONFIDENT>(p, c0, tx, acc, best);
        if (t + 1 < all) keep(next, shared[(t + 1) & 1]); /* last read before the barrier of the turn before */
        __syncthreads();
        c0 = next_c0, chunk = next_chunk;
    }
    for (int i = 0; i < 8; i++) {
        const row_best x = join<CONFIDENT>(best[i]);
        const int64_t r = r0 + place(ty, i);
        if (tx || r >= p.n) continue;
        p.of[r] = x.at == INT_MAX ? 0 : x.at;
        p.best[r] = x.value;
        if (CONFIDENT) p.confidence[r] = float(exp((double(x.value) - 1.0) / p.tau) / x.sum);
    }
}

cudaError_t gf_kmeans_assign(const gf_kmeans_rows *x, const gf_kmeans_rows *centre, double tau, int32_t *of, float *best,
                             float *confidence, cudaStream_t stream) {
    const assign_args p = {x->unit, centre->unit, x->n, static_cast<int>(centre->n), x->ld, tau, of, best, confidence};
    const unsigned blocks = static_cast<unsigned>((x->n + TILE - 1) / TILE);
    if (confidence) assign<true><<<blocks, THREADS, 0, stream>>>(p);
    else assign<false><<<blocks, THREADS, 0, stream>>>(p);
    return cudaGetLastError();
}
