/* kmeans_kernels.cu - the kernels of k-means: unit rows, centroids from groups, the nearest centroid of every embedding. */
#include <limits.h>
#include <math_constants.h>

#include "kmeans/kmeans_kernels.h"

/* Products and sums in double are rounded one by one, in the order of the CPU. */

#define THREADS 256
#define DIMS 128 /* threads of a group: one per dimension */

static unsigned blocks_of(int64_t n) { return static_cast<unsigned>((n + THREADS - 1) / THREADS); }

static __device__ __forceinline__ int64_t position() { return int64_t(blockIdx.x) * THREADS + threadIdx.x; }

/* ----- unit rows ----- */

static __global__ void __launch_bounds__(THREADS) measure(const gf_kmeans_rows x) {
    const int64_t r = position();
    if (r >= x.n) return;
    double square = 0.0;
    for (int d = 0; d < x.dim; d++) {
        const double v = double(x.raw[r * x.dim + d]);
        square = __dadd_rn(square, __dmul_rn(v, v));
    }
    x.scale[r] = square > 0.0 ? __ddiv_rn(1.0, __dsqrt_rn(square)) : 0.0;
}

/* A number that is not finite makes one of its row's unit numbers NaN. */
static __global__ void __launch_bounds__(THREADS) scale_rows(const gf_kmeans_rows x, int64_t *bad) {
    const int64_t at = position(), r = at / x.ld;
    const int d = static_cast<int>(at % x.ld);
    if (r >= x.n) return;
    const float v = d < x.dim ? __double2float_rn(__dmul_rn(x.scale[r], double(x.raw[r * x.dim + d]))) : 0.0f;
    x.unit[at] = v;
    if (v != v) atomicMin(reinterpret_cast<long long *>(bad), static_cast<long long>(r));
}

cudaError_t gf_kmeans_unit(const gf_kmeans_rows *x, int64_t *bad, cudaStream_t stream) {
    measure<<<blocks_of(x->n), THREADS, 0, stream>>>(*x);
    scale_rows<<<blocks_of(x->n * x->ld), THREADS, 0, stream>>>(*x, bad);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS)
    gather(const gf_kmeans_rows x, const int64_t *index, const int64_t count, float *to) {
    const int64_t at = position();
    if (at < count * x.dim) to[at] = x.raw[index[at / x.dim] * x.dim + at % x.dim];
}

cudaError_t gf_kmeans_gather(const gf_kmeans_rows *x, const int64_t *index, int64_t count, float *to, cudaStream_t stream) {
    gather<<<blocks_of(count * x->dim), THREADS, 0, stream>>>(*x, index, count, to);
    return cudaGetLastError();
}

/* ----- groups ----- */

static __global__ void __launch_bounds__(THREADS) compare(const int32_t *a, const int32_t *b, const int64_t n, int32_t *changed) {
    const int64_t i = position();
    if (i < n && a[i] != b[i]) *changed = 1;
}

cudaError_t gf_kmeans_compare(const int32_t *a, const int32_t *b, int64_t n, int32_t *changed, cudaStream_t stream) {
    compare<<<blocks_of(n), THREADS, 0, stream>>>(a, b, n, changed);
    return cudaGetLastError();
}

/* The groups after that of place i - 1, up to that of place i, begin at i. Those after the last one, and the end, are at n. */
static __global__ void __launch_bounds__(THREADS) find_first(const int32_t *sorted, const int64_t n, const gf_kmeans_groups g) {
    const int64_t i = position();
    if (i > n) return;
    const int64_t from = i == 0 ? 0 : int64_t(sorted[i - 1]) + 1, to = i == n ? g.groups : int64_t(sorted[i]);
    for (int64_t k = from; k <= to; k++) g.first[k] = static_cast<int32_t>(i);
}

static __global__ void __launch_bounds__(THREADS) measure_groups(const gf_kmeans_groups g) {
    const int64_t k = position();
    if (k < g.groups) g.size[k] = g.first[k + 1] - g.first[k];
}

cudaError_t gf_kmeans_count(const int32_t *sorted, int64_t n, const gf_kmeans_groups *g, cudaStream_t stream) {
    find_first<<<blocks_of(n + 1), THREADS, 0, stream>>>(sorted, n, *g);
    measure_groups<<<blocks_of(g->groups), THREADS, 0, stream>>>(*g);
    return cudaGetLastError();
}

/* ----- centroids ----- */

/* One block per group, one thread per dimension: embeddings by rising number. */
static __global__ void __launch_bounds__(DIMS)
    sum_groups(const gf_kmeans_rows x, const int32_t *order, const gf_kmeans_groups g) {
    const int64_t k = blockIdx.x;
    const float *const __restrict__ raw = x.raw;
    const double *const __restrict__ scale = x.scale;
    const int32_t *const __restrict__ at = order;
    const int first = g.first[k], end = g.first[k + 1];
    for (int d = threadIdx.x; d < x.dim; d += DIMS) {
        double sum = 0.0;
#pragma unroll 8
        for (int i = first; i < end; i++) {
            const int64_t r = at[i];
            sum = __dadd_rn(sum, __dmul_rn(scale[r], double(raw[r * x.dim + d])));
        }
        g.sum[k * x.dim + d] = sum;
    }
}

cudaError_t gf_kmeans_sum(const gf_kmeans_rows *x, const int32_t *order, const gf_kmeans_groups *g, cudaStream_t stream) {
    sum_groups<<<static_cast<unsigned>(g->groups), DIMS, 0, stream>>>(*x, order, *g);
    return cudaGetLastError();
}

/* Threads have dimensions of their own, so each does the moves one after the other. */
static __global__ void __launch_bounds__(DIMS)
    apply(const gf_kmeans_rows x, const gf_kmeans_move *moves, const int64_t count, const gf_kmeans_groups g) {
    for (int64_t m = 0; m < count; m++) {
        const gf_kmeans_move y = moves[m];
        const double scale = x.scale[y.at];
        for (int d = threadIdx.x; d < x.dim; d += DIMS) {
            const double v = double(x.raw[y.at * x.dim + d]);
            double *from = g.sum + int64_t(y.from) * x.dim + d, *to = g.sum + int64_t(y.to) * x.dim + d;
            *from = __dadd_rn(*from, __dmul_rn(-scale, v));
            *to = __dadd_rn(*to, __dmul_rn(scale, v));
        }
        if (threadIdx.x == 0) g.size[y.from]--, g.size[y.to]++;
    }
}

cudaError_t gf_kmeans_apply(const gf_kmeans_rows *x, const gf_kmeans_move *moves, int64_t count, const gf_kmeans_groups *g,
                            cudaStream_t stream) {
    apply<<<1, DIMS, 0, stream>>>(*x, moves, count, *g);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) mean(const gf_kmeans_groups g, const int dim, float *centre) {
    const int64_t at = position();
    if (at >= g.groups * dim) return;
    const int64_t size = g.size[at / dim];
    centre[at] = __double2float_rn(__ddiv_rn(g.sum[at], double(size > 0 ? size : 1)));
}

cudaError_t gf_kmeans_mean(const gf_kmeans_groups *g, int dim, float *centre, cudaStream_t stream) {
    mean<<<blocks_of(g->groups * dim), THREADS, 0, stream>>>(*g, dim, centre);
    return cudaGetLastError();
}

/* ----- the nearest centroid -----
 *
 * A block has 128 embeddings and goes over all centroids, 128 at a time; a thread has 8 x 8 similarities of a tile: rows
 * 4 ty + (0 .. 3) and 64 + 4 ty + (0 .. 3), columns likewise by tx. 16 dimensions of both lie in shared memory, while the next 16
 * are on their way. Each similarity is one chain of fused multiply-adds over ascending dimensions. */

#define TILE 128
#define CHUNK 16
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
