/* cunn_pool.cu - pooling: maximum and mean over windows, mean over all positions; forward and backward. */
#include <math.h>

#include "nn/cuda/cunn_device.cuh"
#include "nn/cuda/cunn_kernels.h"

/* ----- Maximum over windows, mean over all positions ------------------------------------------------------------- */

/* Max pooling keeps, per output, the place of the maximum in its window (one byte); backward every input reads the few windows it
 * is in and adds where it was the maximum: no atomics, same bits every time. The first of equal values counts. */

enum { THREADS = 256 };

static unsigned blocks_for(int64_t count) { return (unsigned)((count + THREADS - 1) / THREADS); }

struct pool {
    int h, w, oh, ow, kernel, stride, pad, groups;
    int64_t n, c;
};

static pool pool_of(const gf_nn_shape *s) {
    return {(int)s->h,
            (int)s->w,
            (int)gf_nn_out(s->h, s->kernel, s->stride, s->pad),
            (int)gf_nn_out(s->w, s->kernel, s->stride, s->pad),
            s->kernel,
            s->stride,
            s->pad,
            (int)(s->in / gf_lanes(s->type, s->in)),
            s->n,
            s->in};
}

template <int V> struct alignas(V) bytes { /* places of the maxima of V channels, in one access */
    uint8_t at[V];
};

/* Blocks: columns and groups of channels, rows, images. Numbers within an image fit 32 bits, whose divisions are cheap. */
static dim3 grid_of(const pool &p, int height, int width) {
    return dim3((unsigned)((width * p.groups + THREADS - 1) / THREADS), (unsigned)height, (unsigned)(p.n < 32768 ? p.n : 32768));
}

/* Thread: one place in each of its images, V channels. */
#define PLACE(width)                                                       \
    const unsigned i_ = blockIdx.x * blockDim.x + threadIdx.x;             \
    if (i_ >= (unsigned)((width)*p.groups)) return;                        \
    const int col = (int)(i_ / (unsigned)p.groups), row = (int)blockIdx.y; \
    const int64_t at = (int64_t)(i_ % (unsigned)p.groups) * V

/* K, S: window and stride as constants, so that all loads of a window are issued at once; 0: as in p. */
template <typename T, int V, int K, int S>
static __global__ void __launch_bounds__(THREADS) max_kernel(pool p, T *y, uint8_t *winner, const T *x) {
    PLACE(p.ow);
    if (K) p.kernel = K, p.stride = S;
    for (int64_t image = blockIdx.z; image < p.n; image += gridDim.z) {
        float best[V], v[V];
        bytes<V> index;
#pragma unroll
        for (int k = 0; k < V; k++) best[k] = -INFINITY, index.at[k] = 255;
#pragma unroll
        for (int a = 0; a < p.kernel; a++)
#pragma unroll
            for (int b = 0; b < p.kernel; b++) {
                const int r = row * p.stride - p.pad + a, q = col * p.stride - p.pad + b;
                if (r < 0 || r >= p.h || q < 0 || q >= p.w) continue;
                lanes<T, V>::load(x + ((image * p.h + r) * p.w + q) * p.c + at).floats(v);
#pragma unroll
                for (int k = 0; k < V; k++)
                    if (v[k] > best[k] || index.at[k] == 255 || isnan(v[k]))
                        best[k] = v[k], index.at[k] = (uint8_t)(a * p.kernel + b);
            }
        const int64_t to = ((image * p.oh + row) * p.ow + col) * p.c + at;
        lanes<T, V>::store(y + to, best);
        if (winner) *reinterpret_cast<bytes<V> *>(winner + to) = index;
    }
}

template <typename T, int V, int K, int S>
static __global__ void __launch_bounds__(THREADS) max_back_kernel(pool p, T *dx, const uint8_t *winner, const T *dy) {
    PLACE(p.w);
    if (K) p.kernel = K, p.stride = S;
    const int top = row + p.pad, left = col + p.pad;
    for (int64_t image = blockIdx.z; image < p.n; image += gridDim.z) {
        float sum[V] = {0.0f}, g[V];
#pragma unroll
        for (int i = 0; i < (p.kernel + p.stride - 1) / p.stride; i++)
#pragma unroll
            for (int j = 0; j < (p.kernel + p.stride - 1) / p.stride; j++) {
                const int a = top % p.stride + i * p.stride, b = left % p.stride + j * p.stride; /* place in the window */
                const int r = (top - a) / p.stride, q = (left - b) / p.stride;                   /* the window */
                if (a >= p.kernel || b >= p.kernel || a > top || b > left || r >= p.oh || q >= p.ow) continue;
                const int64_t from = ((image * p.oh + r) * p.ow + q) * p.c + at;
                const bytes<V> index = *reinterpret_cast<const bytes<V> *>(winner + from);
                lanes<T, V>::load(dy + from).floats(g);
#pragma unroll
                for (int k = 0; k < V; k++)
                    if (index.at[k] == a * p.kernel + b) sum[k] += g[k];
            }
        lanes<T, V>::store(dx + ((image * p.h + row) * p.w + col) * p.c + at, sum);
    }
}

template <typename T, int V> static void maximum(gf_nn_engine *s, pool p, void *y, uint8_t *winner, const void *x) {
    const dim3 grid = grid_of(p, p.oh, p.ow);
    if (p.kernel == 3 && p.stride == 2) max_kernel<T, V, 3, 2><<<grid, THREADS, 0, s->stream>>>(p, (T *)y, winner, (const T *)x);
    else max_kernel<T, V, 0, 0><<<grid, THREADS, 0, s->stream>>>(p, (T *)y, winner, (const T *)x);
    gf_cunn_note(s, cudaGetLastError(), "max pooling");
}

template <typename T, int V> static void maximum_back(gf_nn_engine *s, pool p, void *dx, const uint8_t *winner, const void *dy) {
    const dim3 grid = grid_of(p, p.h, p.w);
    const T *from = (const T *)dy;
    if (p.kernel == 3 && p.stride == 2) max_back_kernel<T, V, 3, 2><<<grid, THREADS, 0, s->stream>>>(p, (T *)dx, winner, from);
    else max_back_kernel<T, V, 0, 0><<<grid, THREADS, 0, s->stream>>>(p, (T *)dx, winner, from);
    gf_cunn_note(s, cudaGetLastError(), "max pooling, backward");
}

void gf_cunn_maxpool(gf_nn_engine *s, const gf_nn_shape *shape, void *y, uint8_t *winner, const void *x) {
    GF_LANES(shape->type, shape->in, maximum, s, pool_of(shape), y, winner, x);
}

void gf_cunn_maxpool_back(gf_nn_engine *s, const gf_nn_shape *shape, void *dx, const uint8_t *winner, const void *dy) {
    GF_LANES(shape->type, shape->in, maximum_back, s, pool_of(shape), dx, winner, dy);
}

/* ----- mean -------------------------------------------------------------------------------------------------------- */

template <typename T, int V> static __global__ void mean_kernel(float *y, const T *x, int64_t n, int64_t hw, int64_t c) {
    const int64_t groups = c / V, i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * groups) return;
    const int64_t at = i / groups * hw * c + i % groups * V;
    float sum[V] = {0.0f}, v[V];
    for (int64_t k = 0; k < hw; k++) {
        lanes<T, V>::load(x + at + k * c).floats(v);
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] += v[j];
    }
#pragma unroll
    for (int j = 0; j < V; j++) y[i * V + j] = sum[j] / (float)hw;
}

template <typename T, int V> static __global__ void mean_back_kernel(T *dx, const float *dy, int64_t n, int64_t hw, int64_t c) {
    const int64_t groups = c / V, i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * hw * groups) return;
    const int64_t image = i / (hw * groups), at = i % groups * V;
    float v[V];
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = dy[image * c + at + j] / (float)hw;
    lanes<T, V>::store(dx + i * V, v);
}

template <typename T, int V> static void mean(gf_nn_engine *s, float *y, const void *x, int64_t n, int64_t hw, int64_t c) {
    mean_kernel<T, V><<<blocks_for(n * c / V), THREADS, 0, s->stream>>>(y, (const T *)x, n, hw, c);
    gf_cunn_note(s, cudaGetLastError(), "mean");
}

template <typename T, int V> static void mean_back(gf_nn_engine *s, void *dx, const float *dy, int64_t n, int64_t hw, int64_t c) {
    mean_back_kernel<T, V><<<blocks_for(n * hw * c / V), THREADS, 0, s->stream>>>((T *)dx, dy, n, hw, c);
    gf_cunn_note(s, cudaGetLastError(), "mean, backward");
}

void gf_cunn_mean(gf_nn_engine *s, gf_type type, float *y, const void *x, int64_t n, int64_t hw, int64_t c) {
    GF_LANES(type, c, mean, s, y, x, n, hw, c);
}

void gf_cunn_mean_back(gf_nn_engine *s, gf_type type, void *dx, const float *dy, int64_t n, int64_t hw, int64_t c) {
    GF_LANES(type, c, mean_back, s, dx, dy, n, hw, c);
}

/* ----- Mean over windows ----------------------------------------------------------------------------------------- */

/* Mean over windows that do not overlap, forward and backward. The rest at the right and the bottom edge
 * belongs to no window. */

struct windows {
    int h, w, oh, ow, kernel;
    int64_t n, c;
    unsigned groups; /* of V channels */
};

static windows windows_of(const gf_nn_shape *s, int v) {
    return {(int)s->h, (int)s->w, (int)(s->h / s->kernel), (int)(s->w / s->kernel), s->kernel,
            s->n,      s->in,     (unsigned)(s->in / v)};
}

/* Blocks: columns and groups of channels, rows, images. */
static dim3 grid_of(const windows &p, int height, int width) {
    return dim3(((unsigned)width * p.groups + THREADS - 1) / THREADS, (unsigned)height, (unsigned)(p.n < 32768 ? p.n : 32768));
}

/* Thread: V channels of one place in each of its images. */
#define AVERAGE_PLACE(width)                                     \
    const unsigned i_ = blockIdx.x * blockDim.x + threadIdx.x;   \
    if (i_ >= (unsigned)(width)*p.groups) return;                \
    const int col = (int)(i_ / p.groups), row = (int)blockIdx.y; \
    const int64_t at = (int64_t)(i_ % p.groups) * V;             \
    const float share = 1.0f / (float)(p.kernel * p.kernel)

template <typename T, int V> static __global__ void __launch_bounds__(THREADS) average_kernel(const windows p, T *y, const T *x) {
    AVERAGE_PLACE(p.ow);
    for (int64_t image = blockIdx.z; image < p.n; image += gridDim.z) {
        float sum[V] = {0.0f}, v[V];
        for (int a = 0; a < p.kernel; a++)
            for (int b = 0; b < p.kernel; b++) {
                lanes<T, V>::load(x + ((image * p.h + row * p.kernel + a) * p.w + col * p.kernel + b) * p.c + at).floats(v);
#pragma unroll
                for (int k = 0; k < V; k++) sum[k] += v[k];
            }
#pragma unroll
        for (int k = 0; k < V; k++) sum[k] *= share;
        lanes<T, V>::store(y + ((image * p.oh + row) * p.ow + col) * p.c + at, sum);
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS) average_back_kernel(const windows p, T *dx, const T *dy) {
    AVERAGE_PLACE(p.w);
    const int r = row / p.kernel, q = col / p.kernel;
    for (int64_t image = blockIdx.z; image < p.n; image += gridDim.z) {
        float v[V] = {0.0f};
        if (r < p.oh && q < p.ow) lanes<T, V>::load(dy + ((image * p.oh + r) * p.ow + q) * p.c + at).floats(v);
#pragma unroll
        for (int k = 0; k < V; k++) v[k] *= share;
        lanes<T, V>::store(dx + ((image * p.h + row) * p.w + col) * p.c + at, v);
    }
}

template <typename T, int V> static void forward(gf_nn_op *op, const gf_nn_args *a) {
    const windows p = windows_of(&op->shape, V);
    average_kernel<T, V><<<grid_of(p, p.oh, p.ow), THREADS, 0, op->engine->stream>>>(p, (T *)a->y, (const T *)a->x);
    gf_cunn_note(op->engine, cudaGetLastError(), "average pooling");
}

template <typename T, int V> static void backward(gf_nn_op *op, const gf_nn_args *a) {
    const windows p = windows_of(&op->shape, V);
    average_back_kernel<T, V><<<grid_of(p, p.h, p.w), THREADS, 0, op->engine->stream>>>(p, (T *)a->dx, (const T *)a->dy);
    gf_cunn_note(op->engine, cudaGetLastError(), "average pooling, backward");
}

glofnd_status gf_cunn_avgpool_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    (void)sizes;
    FAIL_IF(err, s->kernel != s->stride || s->pad != 0 || s->kernel < 1, GLOFND_E_UNSUPPORTED,
            "average pooling over windows of %d every %d, padding %d: windows must lie side by side", s->kernel, s->stride,
            s->pad);
    return GLOFND_OK;
}

glofnd_status gf_cunn_avgpool_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    GF_LANES(op->shape.type, op->shape.in, forward, op, a);
    return GLOFND_OK;
}

glofnd_status gf_cunn_avgpool_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    if (op->shape.input_grad) GF_LANES(op->shape.type, op->shape.in, backward, op, a);
    return GLOFND_OK;
}
