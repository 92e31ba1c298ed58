/* cunn_attention_one.cu - attention of one query per image, float32 but for keys and values. See cunn_attention.h.
 *
 * One warp per head of an image: lanes are neighbouring numbers of the head, keys follow one another; each number is read once.
 * The weights are few, so they are kept instead of the logarithm of their sum.
 */
#include <math.h>

#include "nn/cuda/cunn_attention.h"
#include "nn/cuda/cunn_lanes.cuh"

enum { WARPS = 4, COLUMNS = GF_CUNN_ATTENTION_DIM / 32 };

struct one {       /* place of this warp */
    int64_t head;  /* of all images */
    int64_t first; /* position of keys and values */
    int column, lane;
};

__device__ static one one_of(const gf_cunn_attention &t) {
    const int64_t head = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    return {head, head / t.heads * t.length, (int)(head % t.heads) * t.dim, (int)threadIdx.x % 32};
}

/* This lane's numbers of row `row`; 0 beyond the head. */
template <typename T>
__device__ static void load(float (&x)[COLUMNS], const gf_cunn_heads &h, int64_t row, const one &w, int dim) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int d = 32 * c + w.lane;
        x[c] = d < dim ? (float)static_cast<const T *>(h.at)[row * h.step + w.column + d] : 0.0f;
    }
}

template <typename T>
__device__ static void store(const gf_cunn_heads &h, int64_t row, const one &w, int dim, const float (&x)[COLUMNS],
                             float factor) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int d = 32 * c + w.lane;
        if (d < dim) static_cast<T *>(h.at)[row * h.step + w.column + d] = (T)(x[c] * factor);
    }
}

__device__ static float product(const float (&a)[COLUMNS], const float (&b)[COLUMNS]) {
    float x = 0.0f;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) x = fmaf(a[c], b[c], x);
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

__device__ static void add_times(float (&sum)[COLUMNS], const float (&x)[COLUMNS], float w) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) sum[c] = fmaf(w, x[c], sum[c]);
}

/* Scores go to `weights` first, and become weights when their maximum and their sum are known. */
template <typename T>
static __global__ void __launch_bounds__(32 * WARPS) forward_kernel(const gf_cunn_attention t, float *weights) {
    const one w = one_of(t);
    if (w.head >= t.n * t.heads) return;
    float q[COLUMNS], x[COLUMNS], y[COLUMNS] = {0.0f}, peak = -INFINITY, total = 0.0f;
    float *mine = weights + w.head * t.length;
    load<float>(q, t.q, w.head / t.heads, w, t.dim);
    for (int k = 0; k < t.length; k++) {
        load<T>(x, t.k, w.first + k, w, t.dim);
        const float score = product(q, x) * t.scale;
        peak = fmaxf(peak, score);
        if (w.lane == 0) mine[k] = score;
    }
    __syncwarp();
    for (int k = 0; k < t.length; k++) total += expf(mine[k] - peak);
    for (int k = 0; k < t.length; k++) {
        load<T>(x, t.v, w.first + k, w, t.dim);
        add_times(y, x, expf(mine[k] - peak) / total);
    }
    __syncwarp();
    for (int k = w.lane; k < t.length; k += 32) mine[k] = expf(mine[k] - peak) / total;
    store<float>(t.y, w.head / t.heads, w, t.dim, y, 1.0f);
}

template <typename T>
static __global__ void __launch_bounds__(32 * WARPS) back_kernel(const gf_cunn_attention t, const float *weights) {
    const one w = one_of(t);
    if (w.head >= t.n * t.heads) return;
    float q[COLUMNS], y[COLUMNS], dy[COLUMNS], x[COLUMNS], dq[COLUMNS] = {0.0f};
    const float *mine = weights + w.head * t.length;
    load<float>(q, t.q, w.head / t.heads, w, t.dim);
    load<float>(y, t.y, w.head / t.heads, w, t.dim);
    load<float>(dy, t.dy, w.head / t.heads, w, t.dim);
    const float delta = product(y, dy);
    for (int k = 0; k < t.length; k++) {
        load<T>(x, t.v, w.first + k, w, t.dim);
        const float dscore = mine[k] * (product(dy, x) - delta) * t.scale;
        store<T>(t.dv, w.first + k, w, t.dim, dy, mine[k]);
        load<T>(x, t.k, w.first + k, w, t.dim);
        add_times(dq, x, dscore);
        store<T>(t.dk, w.first + k, w, t.dim, q, dscore);
    }
    store<float>(t.dq, w.head / t.heads, w, t.dim, dq, 1.0f);
}

static unsigned blocks_of(const gf_cunn_attention *t) { return (unsigned)((t->n * t->heads + WARPS - 1) / WARPS); }

void gf_cunn_attention_one(gf_nn_engine *s, const gf_cunn_attention *t, float *weights) {
    if (t->type == GF_TYPE_BF16) forward_kernel<bf16><<<blocks_of(t), 32 * WARPS, 0, s->stream>>>(*t, weights);
    else forward_kernel<float><<<blocks_of(t), 32 * WARPS, 0, s->stream>>>(*t, weights);
    gf_cunn_note(s, cudaGetLastError(), "attention of one query");
}

void gf_cunn_attention_one_back(gf_nn_engine *s, const gf_cunn_attention *t, const float *weights) {
    if (t->type == GF_TYPE_BF16) back_kernel<bf16><<<blocks_of(t), 32 * WARPS, 0, s->stream>>>(*t, weights);
    else back_kernel<float><<<blocks_of(t), 32 * WARPS, 0, s->stream>>>(*t, weights);
    gf_cunn_note(s, cudaGetLastError(), "attention of one query, backward");
}
