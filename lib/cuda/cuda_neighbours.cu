/* cuda_neighbours.cu - attraction by neighbours: the anchors of a batch against a window of the store, by float16 products.
 *
 *     search   a block takes 128 anchors and one part of the window, 64 rows at a time, and keeps a list for every anchor
 *     choose   one warp per anchor merges the lists of all parts
 *     pull     one warp per anchor: c_a, and z . c_a for the loss
 * A list does not depend on the order of insertions, so the parts do not matter. Kernels that follow add c_a to the gradient, and
 * the sum to the loss.
 * Several ranks: each searches for its own anchors, in a store that holds the averages of all samples. Where only a share of the
 * batch's anchors is attracted it searches for those of the other ranks, too, so that it can rank its own among them without
 * asking the others in the middle of a step.
 */
#include <cuda_fp16.h>
#include <mma.h>

#include "cuda/cuda_step.cuh"
#include "cuda/cuda_step.h"

using namespace nvcuda;

#define ANCHORS 128
#define ROWS 64
#define SLICE 128 /* numbers of a row at a time */
#define THREADS 256
#define HALVES (SLICE + 8) /* of a row in shared memory */
#define FLOATS (ROWS + 4)  /* of an anchor's similarities there */
#define BLOCKS 264         /* that fill an H200 twice */
#define WARPS 4

int64_t gf_cuda_neighbour_parts(int64_t anchors) {
    const int64_t tiles = (anchors + ANCHORS - 1) / ANCHORS;
    return (BLOCKS + tiles - 1) / tiles;
}

/* Anchors that are searched for: `searched` of the batch, from `first_anchor` on. */
static __host__ __device__ bool ranks_anchors(const gf_cuda_step &x) { return x.plan.o.neighbour_share < 1.0; }
static __host__ __device__ int64_t searched(const gf_cuda_step &x) { return ranks_anchors(x) ? x.plan.cols : x.plan.rows; }
static __device__ int64_t first_anchor(const gf_cuda_step &x) { return ranks_anchors(x) ? 0 : x.row0; }

static __device__ __forceinline__ const __half *row_of(const gf_cuda_step &x, int64_t slot) {
    const struct gf_device_store &s = x.store;
    return reinterpret_cast<const __half *>(s.records + static_cast<size_t>(slot) * s.record_bytes +
                                            gf_bank_offset(s.modalities, s.temperatures, x.dim, 0));
}

/* a: of those searched for, as in all of search and choose */
static __device__ __forceinline__ float anchor_at(const gf_cuda_step &x, int64_t a, int64_t d) {
    const gf_cuda_embed &b = x.side[0].bank;
    return a < searched(x) && d < x.dim ? b.f32.row[(first_anchor(x) + a) * x.plan.per_sample * b.f32.ld + d] : 0.0f;
}

/* The row of the store that anchor a has itself. A batch with slots is that of one rank. */
static __device__ __forceinline__ int64_t place_of(const gf_cuda_step &x, int64_t a) {
    return a < searched(x) ? gf_state_place(&x, first_anchor(x) + a - x.row0) : -1;
}

/* ----- search ----- */

struct __align__(16) tiles {
    __half anchor[ANCHORS * HALVES];
    __half row[ROWS * HALVES];
    float s[ANCHORS * FLOATS];
};

static __device__ void load_anchors(const gf_cuda_step &x, tiles &t, int64_t a0, int64_t d0) {
    for (int e = threadIdx.x; e < ANCHORS * SLICE; e += THREADS)
        t.anchor[e / SLICE * HALVES + e % SLICE] = __float2half_rn(anchor_at(x, a0 + e / SLICE, d0 + e % SLICE));
}

/* Rows are filled up to a multiple of two numbers. */
static __device__ void load_rows(const gf_cuda_step &x, tiles &t, const int64_t *slot, int64_t d0) {
    for (int e = threadIdx.x; e < ROWS * SLICE / 2; e += THREADS) {
        const int row = e / (SLICE / 2), pair = e % (SLICE / 2);
        const int64_t d = d0 + 2 * pair;
        __half2 v = __floats2half2_rn(0.0f, 0.0f);
        if (slot[row] >= 0 && d < x.dim) v = *reinterpret_cast<const __half2 *>(row_of(x, slot[row]) + d);
        if (d + 1 >= x.dim) v.y = __float2half(0.0f);
        *reinterpret_cast<__half2 *>(t.row + row * HALVES + 2 * pair) = v;
    }
}

typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;

static __device__ void multiply(const tiles &t, sums (&c)[ROWS / 16]) {
    const int warp = threadIdx.x / 32;
    for (int k = 0; k < SLICE; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
        wmma::load_matrix_sync(a, t.anchor + warp * 16 * HALVES + k, HALVES);
#pragma unroll
        for (int j = 0; j < ROWS / 16; j++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
            wmma::load_matrix_sync(b, t.row + j * 16 * HALVES + k, HALVES);
            wmma::mma_sync(c[j], a, b, c[j]);
        }
    }
}

/* Similarities of the anchors from a0 on with the rows in `slot`, to t.s. Anchors of one slice stay in shared memory. */
static __device__ void compare(const gf_cuda_step &x, tiles &t, int64_t a0, const int64_t *slot) {
    sums c[ROWS / 16];
#pragma unroll
    for (int j = 0; j < ROWS / 16; j++) wmma::fill_fragment(c[j], 0.0f);
    for (int64_t d0 = 0; d0 < x.dim; d0 += SLICE) {
        __syncthreads();
        if (x.dim > SLICE) load_anchors(x, t, a0, d0);
        load_rows(x, t, slot, d0);
        __syncthreads();
        multiply(t, c);
    }
#pragma unroll
    for (int j = 0; j < ROWS / 16; j++)
        wmma::store_matrix_sync(t.s + threadIdx.x / 32 * 16 * FLOATS + j * 16, c[j], FLOATS, wmma::mem_row_major);
    __syncthreads();
}

template <int K> static __device__ __forceinline__ void insert(gf_neighbour (&list)[K], float s, int32_t slot) {
    if (!(s > 0.0f) || !gf_neighbour_before(s, slot, &list[K - 1])) return;
    list[K - 1].s = s, list[K - 1].slot = slot;
#pragma unroll
    for (int i = K - 1; i > 0; i--)
        if (gf_neighbour_before(list[i].s, list[i].slot, &list[i - 1])) {
            const gf_neighbour y = list[i];
            list[i] = list[i - 1], list[i - 1] = y;
        }
}

/* The lists of two lanes that are `lanes` apart, in both. */
template <int K> static __device__ __forceinline__ void merge(gf_neighbour (&list)[K], int lanes) {
    gf_neighbour other[K];
#pragma unroll
    for (int i = 0; i < K; i++) {
        other[i].s = __shfl_xor_sync(0xffffffffu, list[i].s, lanes);
        other[i].slot = __shfl_xor_sync(0xffffffffu, list[i].slot, lanes);
    }
#pragma unroll
    for (int i = 0; i < K; i++) insert(list, other[i].s, other[i].slot);
}

/* out [parts][searched][K]. Two threads share an anchor. */
template <int K> static __global__ void __launch_bounds__(THREADS) search(const gf_cuda_step x, gf_neighbour *out) {
    extern __shared__ char memory[];
    __shared__ int64_t slot[ROWS];
    tiles &t = *reinterpret_cast<tiles *>(memory);
    const int64_t a0 = int64_t(blockIdx.y) * ANCHORS, a = a0 + threadIdx.x / 2, n = x.store.n;
    const int64_t count = gf_neighbour_count(&x.plan.o, n), first = gf_neighbour_first(&x.plan.o, n, x.id[0], x.plan.epoch);
    const int64_t part = (count + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * part;
    const int64_t end = begin + part < count ? begin + part : count;
    const int64_t own = place_of(x, a);
    gf_neighbour list[K] = {};
    if (x.dim <= SLICE) load_anchors(x, t, a0, 0);
    for (int64_t at = begin; at < end; at += ROWS) {
        __syncthreads();
        if (threadIdx.x < ROWS) slot[threadIdx.x] = at + threadIdx.x < end ? (first + at + threadIdx.x) % n : -1;
        __syncthreads();
        compare(x, t, a0, slot);
        for (int i = threadIdx.x % 2; i < ROWS; i += 2)
            if (slot[i] >= 0 && slot[i] != own) insert(list, t.s[threadIdx.x / 2 * FLOATS + i], static_cast<int32_t>(slot[i]));
    }
    merge(list, 1);
    if (threadIdx.x % 2 || a >= searched(x)) return;
#pragma unroll
    for (int i = 0; i < K; i++) out[(int64_t(blockIdx.x) * searched(x) + a) * K + i] = list[i];
}

/* ----- choose ----- */

/* list [searched][neighbours] from parts [parts][searched][K]. */
template <int K>
static __global__ void __launch_bounds__(32 * WARPS)
    choose(const gf_cuda_step x, const gf_neighbour *parts, int64_t count, gf_neighbour *out) {
    const int64_t a = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32, k = static_cast<int>(x.plan.o.neighbours);
    if (a >= searched(x)) return;
    gf_neighbour list[K] = {};
    for (int64_t e = lane; e < count * K; e += 32) {
        const gf_neighbour y = parts[(e / K * searched(x) + a) * K + e % K];
        insert(list, y.s, y.slot);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) merge(list, lanes);
#pragma unroll
    for (int i = 0; i < K; i++)
        if (lane == i && i < k) out[a * k + i] = list[i];
}

/* ----- pull ----- */

/* a: of the own anchors */
static __global__ void __launch_bounds__(32 * WARPS) pull(const gf_cuda_step x, const gf_cuda_near near) {
    const int64_t a = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32, k = x.plan.o.neighbours, at = x.row0 + a;
    const int lane = threadIdx.x % 32;
    if (a >= x.plan.rows) return;
    const gf_neighbour *list = near.list + (at - first_anchor(x)) * k;
    int64_t before = 0, found = 0;
    double dot = 0.0;
    if (ranks_anchors(x))
        for (int64_t b = lane; b < x.plan.cols; b += 32)
            before += near.list[b * k].s > list[0].s || (near.list[b * k].s == list[0].s && b < at);
    for (int lanes = 16; lanes > 0; lanes /= 2) before += __shfl_xor_sync(0xffffffffu, before, lanes);
    const bool attracted = double(before) < x.plan.o.neighbour_share * double(x.plan.cols);
    while (attracted && found < k && list[found].s > 0.0f) found++;
    const gf_cuda_embed &z = x.side[0].z;
    for (int64_t d = lane; d < x.dim; d += 32) {
        float sum = 0.0f;
        for (int64_t i = 0; i < found; i++) sum += __half2float(row_of(x, list[i].slot)[d]);
        sum /= static_cast<float>(k);
        near.pull[a * x.dim + d] = sum;
        for (int v = 0; v < x.plan.per_sample; v++)
            dot += double(z.f32.row[(at * x.plan.per_sample + v) * z.f32.ld + d]) * double(sum);
    }
    dot = gf_warp_sum(dot);
    if (lane == 0) near.dot[a] = dot, near.found[a] = double(found);
}

/* ----- calls ----- */

template <int K> static cudaError_t find(const gf_cuda_step *x, const gf_cuda_near *near, cudaStream_t stream) {
    const int64_t anchors = searched(*x), parts = gf_cuda_neighbour_parts(anchors);
    const unsigned warps = static_cast<unsigned>((anchors + WARPS - 1) / WARPS);
    const dim3 tiles_of_parts(static_cast<unsigned>(parts), static_cast<unsigned>((anchors + ANCHORS - 1) / ANCHORS));
    const cudaError_t status = cudaFuncSetAttribute(search<K>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(tiles));
    if (status != cudaSuccess) return status;
    search<K><<<tiles_of_parts, THREADS, sizeof(tiles), stream>>>(*x, near->parts);
    choose<K><<<warps, 32 * WARPS, 0, stream>>>(*x, near->parts, parts, near->list);
    return cudaGetLastError();
}

cudaError_t gf_cuda_neighbours(const gf_cuda_step *x, const gf_cuda_near *near, cudaStream_t stream) {
    const int64_t k = x->plan.o.neighbours;
    const cudaError_t status = k == 1   ? find<1>(x, near, stream)
                               : k <= 4 ? find<4>(x, near, stream)
                                        : find<GF_NEIGHBOURS_MAX>(x, near, stream);
    if (status != cudaSuccess) return status;
    pull<<<static_cast<unsigned>((x->plan.rows + WARPS - 1) / WARPS), 32 * WARPS, 0, stream>>>(*x, *near);
    return cudaGetLastError();
}

/* One warp per row. */
static __global__ void __launch_bounds__(32 * WARPS) add_to_gradient(const gf_cuda_step x, const gf_cuda_near near) {
    const int64_t r = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    if (r >= x.plan.rows * x.plan.per_sample) return;
    const float scale = static_cast<float>(gf_neighbour_scale(&x.plan, gf_step_tau(x)));
    float *grad = x.side[0].every.grad + r * x.side[0].z.f32.ld;
    for (int64_t d = threadIdx.x % 32; d < x.dim; d += 32) grad[d] -= scale * near.pull[r / x.plan.per_sample * x.dim + d];
}

cudaError_t gf_cuda_neighbours_gradient(const gf_cuda_step *x, const gf_cuda_near *near, cudaStream_t stream) {
    const int64_t rows = x->plan.rows * x->plan.per_sample;
    add_to_gradient<<<static_cast<unsigned>((rows + WARPS - 1) / WARPS), 32 * WARPS, 0, stream>>>(*x, *near);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) add_to_loss(const gf_cuda_step x, const gf_cuda_near near) {
    __shared__ double total[2];
    double sum[2] = {0.0, 0.0};
    for (int64_t a = threadIdx.x; a < x.plan.rows; a += THREADS) sum[0] += near.dot[a], sum[1] += near.found[a];
    gf_block_sum<2, THREADS>(sum, total);
    __syncthreads();
    if (threadIdx.x) return;
    x.control->sum.loss -= gf_neighbour_scale(&x.plan, gf_step_tau(x)) * total[0];
    x.control->sum.neighbours = total[1];
}

cudaError_t gf_cuda_neighbours_loss(const gf_cuda_step *x, const gf_cuda_near *near, cudaStream_t stream) {
    add_to_loss<<<1, THREADS, 0, stream>>>(*x, *near);
    return cudaGetLastError();
}
