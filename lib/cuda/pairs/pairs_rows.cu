/* pairs_rows.cu - embeddings for discovery on the GPU: unit vectors with the CPU's bits, float16 copies; forests. */
#include <cuda_fp16.h>

#include "cuda/pairs/pairs_device.cuh"

enum { THREADS = 256 };

static unsigned blocks_of(int64_t n) { return static_cast<unsigned>((n + THREADS - 1) / THREADS); }

/* One thread per row: squares are added in the order of the CPU. */
static __global__ void __launch_bounds__(THREADS) lengths(const float *raw, int64_t rows, int dim, double *scale) {
    const int64_t r = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x;
    if (r >= rows) return;
    double sum = 0.0;
    for (int d = 0; d < dim; d++) {
        const double x = raw[r * dim + d];
        sum = __dadd_rn(sum, __dmul_rn(x, x));
    }
    scale[r] = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
}

/* One block per row. */
static __global__ void __launch_bounds__(THREADS)
    scale_rows(const float *raw, const double *scale, int64_t first, gf_pairs_side to) {
    __shared__ float parts[THREADS / 32];
    const int64_t r = blockIdx.x;
    float *x = to.x + (first + r) * to.ld;
    __half *half = to.half ? static_cast<__half *>(to.half) + (first + r) * to.ld : NULL;
    float lost = 0.0f;
    for (int d = threadIdx.x; d < to.ld; d += THREADS) {
        const float v = d < to.dim ? static_cast<float>(__dmul_rn(scale[r], raw[r * to.dim + d])) : 0.0f;
        x[d] = v;
        if (!half) continue;
        half[d] = __float2half_rn(v);
        const float gap = v - __half2float(half[d]);
        lost = fmaf(gap, gap, lost);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) lost += __shfl_xor_sync(0xffffffffu, lost, lanes);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = lost;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < THREADS / 32; w++) lost += parts[w];
    to.lost[first + r] = 1.001f * sqrtf(lost) + 1e-8f;
}

cudaError_t gf_pairs_unit(const float *raw, int64_t rows, int64_t first, const gf_pairs_side *to, cudaStream_t stream) {
    double *scale = NULL;
    cudaError_t e = cudaMallocAsync(reinterpret_cast<void **>(&scale), static_cast<size_t>(rows) * sizeof *scale, stream);
    if (e != cudaSuccess) return e;
    lengths<<<blocks_of(rows), THREADS, 0, stream>>>(raw, rows, to->dim, scale);
    scale_rows<<<static_cast<unsigned>(rows), THREADS, 0, stream>>>(raw, scale, first, *to);
    e = cudaGetLastError();
    const cudaError_t freed = cudaFreeAsync(scale, stream);
    return e != cudaSuccess ? e : freed;
}

/* Non-negative floats compare like their bits. */
static __global__ void __launch_bounds__(THREADS) largest(const float *lost, int64_t n, float *max) {
    float x = 0.0f;
    const int64_t step = gridDim.x * static_cast<int64_t>(THREADS);
    for (int64_t i = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x; i < n; i += step) x = fmaxf(x, lost[i]);
    for (int lanes = 16; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
    if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<int *>(max), __float_as_int(x));
}

cudaError_t gf_pairs_largest(const float *lost, int64_t n, float *max, cudaStream_t stream) {
    const unsigned blocks = n < 512 * THREADS ? blocks_of(n) : 512;
    largest<<<blocks, THREADS, 0, stream>>>(lost, n, max);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) set_slack(gf_pairs_job a) {
    const int r = static_cast<int>(blockIdx.x * THREADS + threadIdx.x);
    if (r < a.rows) a.slack[r] = a.q.half ? 1.01f * (a.q.lost[a.row0 + r] + a.lost_max) + a.chain : 0.0f;
}

cudaError_t gf_pairs_slack(const gf_pairs_job *a, cudaStream_t stream) {
    set_slack<<<blocks_of(a->rows), THREADS, 0, stream>>>(*a);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) init_forest(int32_t *root, int64_t n) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x;
    if (i < n) root[i] = static_cast<int32_t>(i);
}

cudaError_t gf_pairs_forest(int32_t *root, int64_t n, cudaStream_t stream) {
    init_forest<<<blocks_of(n), THREADS, 0, stream>>>(root, n);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) flatten(int32_t *root, int64_t n) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x;
    if (i >= n) return;
    volatile int32_t *r = root; /* without path halving: every value written is a final root */
    int32_t top = static_cast<int32_t>(i);
    for (int32_t up = r[top]; up != top; up = r[top]) top = up;
    r[i] = top;
}

cudaError_t gf_pairs_flatten(int32_t *root, int64_t n, cudaStream_t stream) {
    flatten<<<blocks_of(n), THREADS, 0, stream>>>(root, n);
    return cudaGetLastError();
}
