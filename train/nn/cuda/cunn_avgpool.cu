/* cunn_avgpool.cu - mean over windows that do not overlap, forward and backward. The rest at the right and the bottom edge
 * belongs to no window. */
#include "nn/cuda/cunn.h"
#include "nn/cuda/cunn_lanes.cuh"

enum { THREADS = 256 };

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
#define PLACE(width)                                             \
    const unsigned i_ = blockIdx.x * blockDim.x + threadIdx.x;   \
    if (i_ >= (unsigned)(width)*p.groups) return;                \
    const int col = (int)(i_ / p.groups), row = (int)blockIdx.y; \
    const int64_t at = (int64_t)(i_ % p.groups) * V;             \
    const float share = 1.0f / (float)(p.kernel * p.kernel)

template <typename T, int V> static __global__ void __launch_bounds__(THREADS) forward_kernel(const windows p, T *y, const T *x) {
    PLACE(p.ow);
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

template <typename T, int V> static __global__ void __launch_bounds__(THREADS) back_kernel(const windows p, T *dx, const T *dy) {
    PLACE(p.w);
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
    forward_kernel<T, V><<<grid_of(p, p.oh, p.ow), THREADS, 0, op->engine->stream>>>(p, (T *)a->y, (const T *)a->x);
    gf_cunn_note(op->engine, cudaGetLastError(), "average pooling");
}

template <typename T, int V> static void backward(gf_nn_op *op, const gf_nn_args *a) {
    const windows p = windows_of(&op->shape, V);
    back_kernel<T, V><<<grid_of(p, p.h, p.w), THREADS, 0, op->engine->stream>>>(p, (T *)a->dx, (const T *)a->dy);
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
