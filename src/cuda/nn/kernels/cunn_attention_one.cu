/* cunn_attention_one.cu - attention of one query per image, float32 but for keys and values. See cunn_attention.h.
 *
 * One warp per head of an image: lanes are neighbouring numbers of the head, keys follow one another, some of them loaded ahead;
 * each number is read once. The weights are few, so they are kept instead of the logarithm of their sum.
 */
#include <math.h>

#include "cuda/nn/cunn_attention.h"
#include "cuda/nn/kernels/cunn_lanes.cuh"

enum { WARPS = 4, COLUMNS = GF_CUNN_ATTENTION_DIM / 32, AHEAD = 8, AHEAD_BACK = 4 };

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

__device__ static float over_warp(float x) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

__device__ static float product(const float (&a)[COLUMNS], const float (&b)[COLUMNS]) {
    float x = 0.0f;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) x = fmaf(a[c], b[c], x);
    return over_warp(x);
}

__device__ static void add_times(float (&sum)[COLUMNS], const float (&x)[COLUMNS], float w) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) sum[c] = fmaf(w, x[c], sum[c]);
}

/* N rows from `row` on, of which `count` exist. */
template <typename T, int N>
__device__ static void load_rows(float (&x)[N][COLUMNS], const gf_cunn_heads &h, int64_t row, int count, const one &w, int dim) {
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < count) load<T>(x[i], h, row + i, w, dim);
}

/* Scores go to `weights` first, and become weights when their maximum and their sum are known. */
template <typename T>
static __global__ void __launch_bounds__(32 * WARPS, 6) forward_kernel(const gf_cunn_attention t, float *weights) {
    const one w = one_of(t);
    if (w.head >= t.n * t.heads) return;
    float q[COLUMNS], x[AHEAD][COLUMNS], y[COLUMNS] = {0.0f}, peak = -INFINITY, total = 0.0f;
    float *mine = weights + w.head * t.length;
    load<float>(q, t.q, w.head / t.heads, w, t.dim);
    for (int base = 0; base < t.length; base += AHEAD) {
        const int count = t.length - base;
        load_rows<T>(x, t.k, w.first + base, count, w, t.dim);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (i >= count) break;
            const float score = product(q, x[i]) * t.scale;
            peak = fmaxf(peak, score);
            if (w.lane == 0) mine[base + i] = score;
        }
    }
    __syncwarp();
    for (int k = w.lane; k < t.length; k += 32) total += expf(mine[k] - peak);
    total = over_warp(total);
    for (int k = w.lane; k < t.length; k += 32) mine[k] = expf(mine[k] - peak) / total;
    __syncwarp();
    for (int base = 0; base < t.length; base += AHEAD) {
        const int count = t.length - base;
        load_rows<T>(x, t.v, w.first + base, count, w, t.dim);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (i < count) add_times(y, x[i], mine[base + i]);
    }
    store<float>(t.y, w.head / t.heads, w, t.dim, y, 1.0f);
}

template <typename T>
static __global__ void __launch_bounds__(32 * WARPS, 6) back_kernel(const gf_cunn_attention t, const float *weights) {
    const one w = one_of(t);
    if (w.head >= t.n * t.heads) return;
    float q[COLUMNS], y[COLUMNS], dy[COLUMNS], k[AHEAD_BACK][COLUMNS], v[AHEAD_BACK][COLUMNS], dq[COLUMNS] = {0.0f};
    const float *mine = weights + w.head * t.length;
    load<float>(q, t.q, w.head / t.heads, w, t.dim);
    load<float>(y, t.y, w.head / t.heads, w, t.dim);
    load<float>(dy, t.dy, w.head / t.heads, w, t.dim);
    const float delta = product(y, dy);
    for (int base = 0; base < t.length; base += AHEAD_BACK) {
        const int count = t.length - base;
        load_rows<T>(v, t.v, w.first + base, count, w, t.dim);
        load_rows<T>(k, t.k, w.first + base, count, w, t.dim);
#pragma unroll
        for (int i = 0; i < AHEAD_BACK; i++) {
            if (i >= count) break;
            const int64_t row = w.first + base + i;
            const float weight = mine[base + i], dscore = weight * (product(dy, v[i]) - delta) * t.scale;
            store<T>(t.dv, row, w, t.dim, dy, weight);
            add_times(dq, k[i], dscore);
            store<T>(t.dk, row, w, t.dim, q, dscore);
        }
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
