/* cuda_components.cu - detector COMPONENTS on the device, as method/step/step_components.c: every sample is joined to its nearest
 * neighbour in the batch, and connected components are the groups.
 *
 * Similarities are float32 products, whatever the math of the step: rounded ones would join other samples. One block joins: in
 * every round the larger root of an edge goes below the smaller one, then all paths are shortened, until no edge has two roots.
 * The root of a component is its smallest sample, in any order of the threads.
 */
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/cuda_step.h"

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

/* pos[r], tie[r] of every row of side i: its largest similarity to a row of another sample, and that row's position. */
static cudaError_t nearest_rows(const gf_cuda_step *x, int i, float *s, cudaStream_t stream) {
    const gf_cuda_side *side = &x->side[i], *other = &x->side[x->plan.sides == 2 ? 1 - i : 0];
    gf_product_args p = {};
    p.q = gf_operand_of(&side->z), p.k = gf_operand_of(&other->z);
    p.ld = static_cast<int>(side->z.f32.ld), p.shift = x->plan.per_sample - 1, p.s = s;
    const int64_t own = x->plan.rows * x->plan.per_sample;
    const int chunk = static_cast<int>(gf_product_rows(own, p.k.rows)); /* scratch is for the own rows */
    for (p.r0 = 0; p.r0 < p.q.rows; p.r0 += chunk) {
        p.rows = min(chunk, p.q.rows - p.r0);
        cudaError_t e = gf_product(p, GF_CUDA_EXACT, stream);
        if (e != cudaSuccess) return e;
        find_nearest<<<p.rows, THREADS, 0, stream>>>(s, p.k.rows, p.r0, side->pos, side->every.tie);
        if ((e = cudaGetLastError()) != cudaSuccess) return e;
    }
    return cudaSuccess;
}

/* ----- components ----- */

/* As on the CPU; without any neighbour, which only a failed step has, the sample itself. */
static __device__ __forceinline__ int32_t nearest_sample(const gf_cuda_step &x, int64_t sample) {
    const gf_cuda_side &first = x.side[0], &second = x.side[x.plan.sides - 1];
    const int64_t per_sample = x.plan.per_sample, a = sample * per_sample, b = a + per_sample - 1;
    const int32_t row = second.pos[b] > first.pos[a] ? second.every.tie[b] : first.every.tie[a];
    return row < 0 ? static_cast<int32_t>(sample) : static_cast<int32_t>(row / per_sample);
}

/* A root never lies above its node, so paths end. Read past the first cache: other threads write. */
static __device__ __forceinline__ int32_t root_of(const int32_t *root, int32_t i) {
    for (int32_t above; (above = __ldcg(root + i)) != i;) i = above;
    return i;
}

static __global__ void __launch_bounds__(WIDE) join(const gf_cuda_step x) {
    const int32_t samples = static_cast<int32_t>(x.plan.cols);
    for (int32_t i = threadIdx.x; i < samples; i += WIDE) __stcg(x.root + i, i);
    __syncthreads();
    for (int changed = 1; changed;) {
        int mine = 0;
        for (int32_t i = threadIdx.x; i < samples; i += WIDE) {
            const int32_t a = root_of(x.root, i), b = root_of(x.root, nearest_sample(x, i));
            if (a == b) continue;
            atomicMin(x.root + max(a, b), min(a, b));
            mine = 1;
        }
        changed = __syncthreads_or(mine);
        for (int32_t i = threadIdx.x; i < samples; i += WIDE) __stcg(x.root + i, root_of(x.root, i));
        __syncthreads();
    }
}

static __global__ void __launch_bounds__(THREADS) spread(const gf_cuda_step x) {
    const int64_t r = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (r < x.plan.cols * x.plan.per_sample) x.side[blockIdx.y].every.group[r] = x.root[r / x.plan.per_sample];
}

cudaError_t gf_cuda_components(const gf_cuda_step *x, void *scratch, cudaStream_t stream) {
    const int64_t all = x->plan.cols * x->plan.per_sample;
    for (int i = 0; i < x->plan.sides; i++) {
        const cudaError_t e = nearest_rows(x, i, static_cast<float *>(scratch), stream);
        if (e != cudaSuccess) return e;
    }
    join<<<1, WIDE, 0, stream>>>(*x);
    spread<<<dim3(static_cast<unsigned>((all + THREADS - 1) / THREADS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}
