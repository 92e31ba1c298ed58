/* kmeans_centres.cu - unit rows, and centroids from groups. Products and sums in double are rounded one by one, in the order of
 * the CPU. */
#include "kmeans/kmeans_kernels.h"

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
