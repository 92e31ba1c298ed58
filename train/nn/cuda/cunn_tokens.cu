/* cunn_tokens.cu - positions of images as a sequence (TOKENS), and one row of each sequence (PICK). */
#include "nn/cuda/cunn_rows.h"

#include "nn/cuda/cunn_lanes.cuh"

enum { THREADS = 128 };

/* ----- TOKENS ------------------------------------------------------------------------------------------------------ */

/* Block: one row of y. first: the class token; NULL: the mean of the places. */
template <typename T, int V>
static __global__ void tokens_kernel(T *y, const T *x, const float *positions, const float *first, int64_t places, int64_t c) {
    const int64_t image = blockIdx.y, row = blockIdx.x;
    const float *add = positions + row * c;
    for (int64_t k = threadIdx.x * V; k < c; k += THREADS * V) {
        float v[V] = {0.0f}, one[V];
        if (row > 0) lanes<T, V>::load(x + (image * places + row - 1) * c + k).floats(v);
        if (row == 0 && !first)
#pragma unroll 7
            for (int64_t i = 0; i < places; i++) {
                lanes<T, V>::load(x + (image * places + i) * c + k).floats(one);
#pragma unroll
                for (int j = 0; j < V; j++) v[j] += one[j];
            }
#pragma unroll
        for (int j = 0; j < V; j++) {
            if (row == 0) v[j] = first ? first[k + j] : v[j] / (float)places;
            v[j] += add[k + j];
        }
        lanes<T, V>::store(y + (image * (places + 1) + row) * c + k, v);
    }
}

template <typename T, int V> static __global__ void tokens_back_kernel(T *dx, const T *dy, bool mean, int64_t places, int64_t c) {
    const int64_t image = blockIdx.y, place = blockIdx.x;
    const T *first = dy + image * (places + 1) * c;
    for (int64_t k = threadIdx.x * V; k < c; k += THREADS * V) {
        float v[V], all[V];
        lanes<T, V>::load(first + (place + 1) * c + k).floats(v);
        if (mean) {
            lanes<T, V>::load(first + k).floats(all);
#pragma unroll
            for (int j = 0; j < V; j++) v[j] += all[j] / (float)places;
        }
        lanes<T, V>::store(dx + (image * places + place) * c + k, v);
    }
}

static int64_t places_of(const gf_nn_shape *s) { return s->h * s->w; }

template <typename T, int V> static void tokens(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    tokens_kernel<T, V><<<dim3((unsigned)places_of(s) + 1, (unsigned)s->n), THREADS, 0, op->engine->stream>>>(
        (T *)a->y, (const T *)a->x, a->weight, s->bias ? a->bias : NULL, places_of(s), s->in);
    gf_cunn_note(op->engine, cudaGetLastError(), "sequences from images");
}

template <typename T, int V> static void tokens_back(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    tokens_back_kernel<T, V>
        <<<dim3((unsigned)places_of(s), (unsigned)s->n), THREADS, 0, op->engine->stream>>>((T *)a->dx, (const T *)a->dy, !s->bias,
                                                                                           places_of(s), s->in);
    gf_cunn_note(op->engine, cudaGetLastError(), "sequences from images, backward");
}

static glofnd_status few_enough(gf_error *err, const gf_nn_shape *s) {
    FAIL_IF(err, s->n > 65535, GLOFND_E_UNSUPPORTED, "%lld sequences in one batch; CUDA takes at most 65535", (long long)s->n);
    return GLOFND_OK;
}

glofnd_status gf_cunn_tokens_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    if (s->training) sizes->scratch = gf_cunn_sums_bytes(s->type, s->n, (places_of(s) + 1) * s->in);
    return few_enough(err, s);
}

glofnd_status gf_cunn_tokens_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    GF_LANES(op->shape.type, op->shape.in, tokens, op, a);
    return GLOFND_OK;
}

glofnd_status gf_cunn_tokens_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    gf_cunn_act_back(op->engine, s->type, GF_ACT_NONE, NULL, a->weight_grad, a->dy, NULL, s->n, (places_of(s) + 1) * s->in,
                     a->scratch);
    if (s->bias) /* the class token has the gradient of the first row's position */
        CUDA_TRY_AS(err,
                    cudaMemcpyAsync(a->bias_grad, a->weight_grad, sizeof(float) * (size_t)s->in, cudaMemcpyDeviceToDevice,
                                    op->engine->stream),
                    "class token");
    if (s->input_grad) GF_LANES(s->type, s->in, tokens_back, op, a);
    return GLOFND_OK;
}

/* ----- PICK -------------------------------------------------------------------------------------------------------- */

/* picked NULL: the first row of each. */
template <typename T> static __global__ void pick_kernel(float *y, const T *x, const int32_t *picked, int64_t length, int64_t c) {
    const int64_t from = (picked ? picked[blockIdx.x] : blockIdx.x * length) * c;
    for (int64_t k = threadIdx.x; k < c; k += THREADS) y[blockIdx.x * c + k] = (float)x[from + k];
}

/* The rows that are not picked are 0 or hold the rest of the gradient: all have a part that is added to. */
template <typename T>
static __global__ void pick_back_kernel(T *dx, const float *dy, const int32_t *picked, int64_t length, int64_t c) {
    T *to = dx + (picked ? picked[blockIdx.x] : blockIdx.x * length) * c;
    for (int64_t k = threadIdx.x; k < c; k += THREADS) to[k] = (T)((float)to[k] + dy[blockIdx.x * c + k]);
}

glofnd_status gf_cunn_pick_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    (void)sizes;
    return few_enough(err, &op->shape);
}

static const int32_t *picked_of(const gf_nn_op *op, const gf_nn_args *a) { return op->shape.packed ? a->texts->picked : NULL; }

glofnd_status gf_cunn_pick_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    const cudaStream_t stream = op->engine->stream;
    const unsigned n = (unsigned)s->n;
    const int64_t length = places_of(s);
    const int32_t *picked = picked_of(op, a);
    if (s->type == GF_TYPE_BF16) pick_kernel<<<n, THREADS, 0, stream>>>((float *)a->y, (const bf16 *)a->x, picked, length, s->in);
    else pick_kernel<<<n, THREADS, 0, stream>>>((float *)a->y, (const float *)a->x, picked, length, s->in);
    gf_cunn_note(op->engine, cudaGetLastError(), "rows of sequences");
    return GLOFND_OK;
}

template <typename T> static void pick_back(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const size_t bytes = sizeof(T) * (size_t)(gf_nn_rows(s, a) * s->in);
    if (!a->add_dx) gf_cunn_note(op->engine, cudaMemsetAsync(a->dx, 0, bytes, op->engine->stream), "rows of sequences");
    pick_back_kernel<T><<<(unsigned)s->n, THREADS, 0, op->engine->stream>>>((T *)a->dx, (const float *)a->dy, picked_of(op, a),
                                                                            places_of(s), s->in);
    gf_cunn_note(op->engine, cudaGetLastError(), "rows of sequences, backward");
}

glofnd_status gf_cunn_pick_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    if (!op->shape.input_grad) return GLOFND_OK;
    if (op->shape.type == GF_TYPE_BF16) pick_back<bf16>(op, a);
    else pick_back<float>(op, a);
    return GLOFND_OK;
}
