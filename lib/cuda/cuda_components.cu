/* cuda_components.cu - groups of a batch as in WCL (Zheng et al. 2021): every sample is joined to its nearest neighbour, and
 * connected components are the groups.
 *
 * Similarities are float32 products, whatever the math of the step: rounded ones would join other samples. One block joins: in
 * every round the larger root of an edge goes below the smaller one, then all paths are shortened, until no edge has two roots.
 * The root of a component is its smallest sample, in any order of the threads.
 */
#include "cuda/cuda_step.h"
#include "cuda/passes/cuda_kernels.cuh"

#define THREADS 256
#define WIDE 1024

/* ----- the nearest row of every row ----- */

struct nearest {
    float value;
    int col; /* INT_MAX: none */
};

static __device__ __forceinline__ nearest better(const nearest &a, const nearest &b) {
    return b.value > a.value || (b.value == a.value && b.col < a.col) ? b : a;
}

static __device__ __forceinline__ nearest of_warp(nearest x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const nearest y = {__shfl_xor_sync(0xffffffffu, x.value, lanes), __shfl_xor_sync(0xffffffffu, x.col, lanes)};
        x = better(x, y);
    }
    return x;
}

/* Row r0 + block of s [rows][cols]; NaN: no pair. */
static __global__ void __launch_bounds__(THREADS)
    find_nearest(const float *s, const int cols, const int r0, float *value, int32_t *column) {
    __shared__ nearest warps[THREADS / 32];
    const float *row = s + int64_t(blockIdx.x) * cols;
    nearest x = {-CUDART_INF_F, INT_MAX};
    for (int c = threadIdx.x; c < cols; c += THREADS)
        if (row[c] > x.value) x.value = row[c], x.col = c;
    x = of_warp(x);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < THREADS / 32; w++) x = better(x, warps[w]);
    value[r0 + blockIdx.x] = x.value;
    column[r0 + blockIdx.x] = x.col == INT_MAX ? -1 : x.col;
}

/* value[r], column[r] of every row of q: its largest similarity to a row of another sample, and that row's position in k. */
static cudaError_t nearest_rows(const gf_cuda_embed *q, const gf_cuda_embed *k, int shift, int64_t scratch_rows, float *s,
                                float *value, int32_t *column, cudaStream_t stream) {
    gf_product_args p = {};
    p.q = gf_operand_of(q), p.k = gf_operand_of(k);
    p.ld = static_cast<int>(q->f32.ld), p.shift = shift, p.s = s;
    const int chunk = static_cast<int>(gf_product_rows(scratch_rows, p.k.rows));
    for (p.r0 = 0; p.r0 < p.q.rows; p.r0 += chunk) {
        p.rows = min(chunk, p.q.rows - p.r0);
        cudaError_t e = gf_product(p, GF_CUDA_EXACT, stream);
        if (e != cudaSuccess) return e;
        find_nearest<<<p.rows, THREADS, 0, stream>>>(s, p.k.rows, p.r0, value, column);
        if ((e = cudaGetLastError()) != cudaSuccess) return e;
    }
    return cudaSuccess;
}

/* ----- components ----- */

struct join_args {
    int32_t samples, per_sample;
    const float *value[2]; /* of the rows of the first and of the last side */
    const int32_t *column[2];
    int32_t *root; /* [samples] */
};

/* As on the CPU; without any neighbour, which only embeddings that are not finite have, the sample itself. */
static __device__ __forceinline__ int32_t nearest_sample(const join_args &x, int32_t sample) {
    const int32_t a = sample * x.per_sample, b = a + x.per_sample - 1;
    const int32_t row = x.value[1][b] > x.value[0][a] ? x.column[1][b] : x.column[0][a];
    return row < 0 ? sample : row / x.per_sample;
}

/* A root never lies above its node, so paths end. Read past the first cache: other threads write. */
static __device__ __forceinline__ int32_t root_of(const int32_t *root, int32_t i) {
    for (int32_t above; (above = __ldcg(root + i)) != i;) i = above;
    return i;
}

static __global__ void __launch_bounds__(WIDE) join(const join_args x) {
    for (int32_t i = threadIdx.x; i < x.samples; i += WIDE) __stcg(x.root + i, i);
    __syncthreads();
    for (int changed = 1; changed;) {
        int mine = 0;
        for (int32_t i = threadIdx.x; i < x.samples; i += WIDE) {
            const int32_t a = root_of(x.root, i), b = root_of(x.root, nearest_sample(x, i));
            if (a == b) continue;
            atomicMin(x.root + max(a, b), min(a, b));
            mine = 1;
        }
        changed = __syncthreads_or(mine);
        for (int32_t i = threadIdx.x; i < x.samples; i += WIDE) __stcg(x.root + i, root_of(x.root, i));
        __syncthreads();
    }
}

cudaError_t gf_cuda_components(const gf_cuda_embed *z, int sides, float *const *value, int32_t *const *column, void *scratch,
                               int64_t scratch_rows, int32_t *group, cudaStream_t stream) {
    const int last = sides - 1, per_sample = 2 / sides;
    for (int i = 0; i < sides; i++) {
        const cudaError_t e = nearest_rows(&z[i], &z[last - i], per_sample - 1, scratch_rows, static_cast<float *>(scratch),
                                           value[i], column[i], stream);
        if (e != cudaSuccess) return e;
    }
    const join_args x = {
        static_cast<int32_t>(z[0].f32.rows / per_sample), per_sample, {value[0], value[last]}, {column[0], column[last]}, group};
    join<<<1, WIDE, 0, stream>>>(x);
    return cudaGetLastError();
}
