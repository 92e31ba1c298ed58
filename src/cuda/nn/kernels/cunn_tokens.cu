/* cunn_tokens.cu - positions of images as a sequence (TOKENS), and one row of each sequence (PICK). */
#include "cuda/nn/cunn_rows.h"

#include "cuda/nn/kernels/cunn_lanes.cuh"

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
        for (int64_t i = 0; i < places && row == 0 && !first; i++) {
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
        CUDA_TRY(err,
                 cudaMemcpyAsync(a->bias_grad, a->weight_grad, sizeof(float) * (size_t)s->in, cudaMemcpyDeviceToDevice,
                                 op->engine->stream),
                 "class token");
    if (s->input_grad) GF_LANES(s->type, s->in, tokens_back, op, a);
    return GLOFND_OK;
}

/* ----- PICK -------------------------------------------------------------------------------------------------------- */

/* One warp per text: the first position of its largest token. */
static __global__ void largest_kernel(int32_t *row, const int32_t *tokens, int64_t n, int length) {
    const int64_t text = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (text >= n) return;
    int32_t best = INT32_MIN, at = length;
    for (int i = threadIdx.x % 32; i < length; i += 32) {
        const int32_t token = tokens[text * length + i];
        if (token > best || at == length) best = token, at = i;
    }
    for (int i = 16; i > 0; i /= 2) {
        const int32_t other = __shfl_xor_sync(~0u, best, i), there = __shfl_xor_sync(~0u, at, i);
        if (there < length && (at == length || other > best || (other == best && there < at))) best = other, at = there;
    }
    if (threadIdx.x % 32 == 0) row[text] = at;
}

/* row NULL: the first. */
template <typename T> static __global__ void pick_kernel(float *y, const T *x, const int32_t *row, int64_t length, int64_t c) {
    const int64_t from = (blockIdx.x * length + (row ? row[blockIdx.x] : 0)) * c;
    for (int64_t k = threadIdx.x; k < c; k += THREADS) y[blockIdx.x * c + k] = (float)x[from + k];
}

/* Block in x: a row of a sequence; add: only the picked one, else all. */
template <typename T>
static __global__ void pick_back_kernel(T *dx, const float *dy, const int32_t *row, int64_t length, int64_t c, bool add) {
    const int64_t picked = row ? row[blockIdx.y] : 0, mine = add ? picked : blockIdx.x;
    T *to = dx + (blockIdx.y * length + mine) * c;
    for (int64_t k = threadIdx.x; k < c; k += THREADS) {
        const float before = add ? (float)to[k] : 0.0f;
        to[k] = (T)(mine == picked ? before + dy[blockIdx.y * c + k] : 0.0f);
    }
}

glofnd_status gf_cunn_pick_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const size_t rows = s->second ? sizeof(int32_t) * (size_t)s->n : 0;
    if (s->training) sizes->saved = rows;
    else sizes->scratch = rows;
    return few_enough(err, s);
}

static int32_t *rows_of(const gf_nn_op *op, const gf_nn_args *a) {
    return op->shape.second ? (int32_t *)(op->shape.training ? a->saved : a->scratch) : NULL;
}

glofnd_status gf_cunn_pick_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    const cudaStream_t stream = op->engine->stream;
    const unsigned n = (unsigned)s->n;
    const int64_t length = places_of(s);
    int32_t *rows = rows_of(op, a);
    if (rows)
        largest_kernel<<<(n + THREADS / 32 - 1) / (THREADS / 32), THREADS, 0, stream>>>(rows, (const int32_t *)a->x2, s->n,
                                                                                        (int)length);
    if (s->type == GF_TYPE_BF16) pick_kernel<<<n, THREADS, 0, stream>>>((float *)a->y, (const bf16 *)a->x, rows, length, s->in);
    else pick_kernel<<<n, THREADS, 0, stream>>>((float *)a->y, (const float *)a->x, rows, length, s->in);
    gf_cunn_note(op->engine, cudaGetLastError(), "rows of sequences");
    return GLOFND_OK;
}

template <typename T> static void pick_back(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const dim3 grid(a->add_dx ? 1 : (unsigned)places_of(s), (unsigned)s->n);
    pick_back_kernel<T><<<grid, THREADS, 0, op->engine->stream>>>((T *)a->dx, (const float *)a->dy, rows_of(op, a), places_of(s),
                                                                  s->in, a->add_dx != 0);
    gf_cunn_note(op->engine, cudaGetLastError(), "rows of sequences, backward");
}

glofnd_status gf_cunn_pick_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    if (!op->shape.input_grad) return GLOFND_OK;
    if (op->shape.type == GF_TYPE_BF16) pick_back<bf16>(op, a);
    else pick_back<float>(op, a);
    return GLOFND_OK;
}
