/* cunn_rows.cu - see cunn_rows.h. */
#include "nn/cuda/cunn_rows.h"

#include "nn/cuda/cunn_norm.cuh"

enum { THREADS = 256, BLOCKS = 528, WIDE = 32, ROUNDS = 4, LANES = 8, COLUMNS = 32 };

#define QUICK 1.702f

/* Results in bf16 have 8 bits, for which approximate exponential and division suffice; float uses the exact ones. */
template <typename T> struct rounded { static constexpr bool yes = sizeof(T) == 2; };

template <typename T> __device__ static float sigmoid(float x) {
    return rounded<T>::yes ? __fdividef(1.0f, 1.0f + __expf(-x)) : 1.0f / (1.0f + expf(-x));
}

/* Distribution function of the normal distribution. */
template <typename T> __device__ static float below(float z) {
    return rounded<T>::yes ? 0.5f + 0.5f * erff(z * 0.707106781f) : normcdff(z);
}

template <typename T> __device__ static float activated(gf_nn_act act, float z) {
    return z * (act == GF_ACT_QUICK_GELU ? sigmoid<T>(QUICK * z) : below<T>(z));
}

template <typename T> __device__ static float slope(gf_nn_act act, float z) {
    if (act == GF_ACT_QUICK_GELU) {
        const float s = sigmoid<T>(QUICK * z);
        return fmaf(QUICK * z * s, 1.0f - s, s);
    }
    const float bell = rounded<T>::yes ? __expf(-0.5f * z * z) : expf(-0.5f * z * z);
    return fmaf(z * 0.398942280f, bell, below<T>(z));
}

/* ----- activations ------------------------------------------------------------------------------------------------- */

template <typename T, int V> static __global__ void act_kernel(gf_nn_act act, T *y, const T *z, int64_t groups) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < groups; i += (int64_t)gridDim.x * blockDim.x) {
        float x[V];
        lanes<T, V>::load(z + i * V).floats(x);
#pragma unroll
        for (int k = 0; k < V; k++) x[k] = activated<T>(act, x[k]);
        lanes<T, V>::store(y + i * V, x);
    }
}

template <typename T, int V> static void run_act(gf_nn_engine *s, gf_nn_act act, void *y, const void *z, int64_t count) {
    const int64_t blocks = (count / V + THREADS - 1) / THREADS;
    act_kernel<T, V>
        <<<(unsigned)(blocks < 132 * 32 ? blocks : 132 * 32), THREADS, 0, s->stream>>>(act, (T *)y, (const T *)z, count / V);
    gf_cunn_note(s, cudaGetLastError(), "activation");
}

void gf_cunn_act(gf_nn_engine *s, gf_type type, gf_nn_act act, void *y, const void *z, int64_t count) {
    GF_LANES(type, count, run_act, s, act, y, z, count);
}

/* ----- gradients and their sums ------------------------------------------------------------------------------------ */

/* Thread: V columns, every ry-th row of a chunk. part [chunks][c]; NULL: no sums. */
template <typename T, int V, bool ACT>
static __global__ void __launch_bounds__(THREADS)
    back_kernel(walk w, gf_nn_act act, T *g, float *part, const T *dy, const T *z, int64_t rows, int64_t c) {
    __shared__ float shared[THREADS * V];
    const int64_t column = ((int64_t)blockIdx.x * w.gx + threadIdx.x) * V;
    const int64_t first = (int64_t)blockIdx.y * w.chunk_rows, last = min(first + w.chunk_rows, rows);
    const bool inside = column < c;
    float sum[V] = {0.0f};
    for (int64_t r = first + threadIdx.y; r < last && inside; r += ROUNDS * w.ry) {
        lanes<T, V> grad[ROUNDS], in[ROUNDS];
#pragma unroll
        for (int k = 0; k < ROUNDS; k++)
            if (r + k * w.ry < last) {
                grad[k] = lanes<T, V>::load(dy + (r + k * w.ry) * c + column);
                if (ACT) in[k] = lanes<T, V>::load(z + (r + k * w.ry) * c + column);
            }
#pragma unroll
        for (int k = 0; k < ROUNDS; k++) {
            if (r + k * w.ry >= last) break;
            float x[V], v[V];
            grad[k].floats(x);
            if (ACT) {
                in[k].floats(v);
#pragma unroll
                for (int i = 0; i < V; i++) x[i] *= slope<T>(act, v[i]);
                lanes<T, V>::store(g + (r + k * w.ry) * c + column, x);
            }
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += x[i];
        }
    }
    if (!part) return;
#pragma unroll
    for (int i = 0; i < V; i++) shared[i * THREADS + threadIdx.y * w.gx + threadIdx.x] = sum[i];
    __syncthreads();
    if (threadIdx.y || !inside) return;
#pragma unroll
    for (int i = 0; i < V; i++) {
        float total = 0.0f;
        for (int y = 0; y < w.ry; y++) total += shared[i * THREADS + y * w.gx + threadIdx.x];
        part[blockIdx.y * c + column + i] = total;
    }
}

static walk walk_of(gf_type type, int64_t rows, int64_t c) {
    return walk_over(rows, c, gf_lanes(type, c), THREADS, BLOCKS, WIDE);
}

template <typename T, int V>
static void act_back(gf_nn_engine *s, gf_type type, gf_nn_act act, void *g, float *sum, const void *dy, const void *z,
                     int64_t rows, int64_t c, void *scratch) {
    const walk w = walk_of(type, rows, c);
    const dim3 grid((unsigned)w.tiles, (unsigned)w.chunks), block((unsigned)w.gx, (unsigned)w.ry);
    float *part = !sum || w.chunks == 1 ? sum : (float *)scratch;
    if (act == GF_ACT_NONE) {
        if (!sum) return;
        back_kernel<T, V, false><<<grid, block, 0, s->stream>>>(w, act, NULL, part, (const T *)dy, NULL, rows, c);
    } else {
        back_kernel<T, V, true><<<grid, block, 0, s->stream>>>(w, act, (T *)g, part, (const T *)dy, (const T *)z, rows, c);
    }
    gf_cunn_note(s, cudaGetLastError(), "activation, backward");
    if (sum && w.chunks > 1) gf_cunn_add_chunks(s, sum, c, NULL, 0, part, w.chunks);
}

void gf_cunn_act_back(gf_nn_engine *s, gf_type type, gf_nn_act act, void *g, float *sum, const void *dy, const void *z,
                      int64_t rows, int64_t c, void *scratch) {
    GF_LANES(type, c, act_back, s, type, act, g, sum, dy, z, rows, c, scratch);
}

size_t gf_cunn_sums_bytes(gf_type type, int64_t rows, int64_t c) {
    const walk w = walk_of(type, rows, c);
    return w.chunks > 1 ? sizeof(float) * (size_t)w.chunks * (size_t)c : 0;
}

/* ----- second stage ------------------------------------------------------------------------------------------------ */

static __global__ void chunks_kernel(float *a, int64_t ca, float *b, int64_t cb, const float *part, int chunks) {
    __shared__ float shared[LANES][COLUMNS];
    const int64_t column = (int64_t)blockIdx.x * COLUMNS + threadIdx.x, c = ca + cb;
    float sum = 0.0f;
    if (column < c)
#pragma unroll 4
        for (int k = threadIdx.y; k < chunks; k += LANES) sum += part[k * c + column];
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || column >= c) return;
    for (int y = 1; y < LANES; y++) sum += shared[y][threadIdx.x];
    if (column < ca) a[column] = sum;
    else b[column - ca] = sum;
}

void gf_cunn_add_chunks(gf_nn_engine *s, float *a, int64_t ca, float *b, int64_t cb, const float *part, int chunks) {
    const unsigned blocks = (unsigned)((ca + cb + COLUMNS - 1) / COLUMNS);
    chunks_kernel<<<blocks, dim3(COLUMNS, LANES), 0, s->stream>>>(a, ca, b, cb, part, chunks);
    gf_cunn_note(s, cudaGetLastError(), "sums over rows");
}
