/* cunn_layernorm.cu - layer norm over rows of up to 4096 numbers, forward and backward.
 *
 * A group of 1, 2, 4 or 8 warps has a row in registers, up to 16 numbers per thread, and goes from row to row; so mean and
 * variance are two passes over one read, and a thread keeps its columns, whose gradients it sums on the way. Rows of 513 to 768
 * numbers have one warp, too, with 24 numbers per thread: more warps would wait for each other at every row. saved: [rows][2],
 * mean and 1 / deviation. Bytes per number of bf16: forward 4, backward 6, or 8 where dx is added to.
 */
#include "nn/cuda/cunn_rows.h"

#include "nn/cuda/cunn_lanes.cuh"

enum { WARPS = 8, THREADS = 32 * WARPS, EACH = 16, MORE = 24, ROW_MAX = EACH * THREADS };
enum { CHUNKS = 264, CHUNKS_MORE = 132, BLOCKS = 792, BLOCKS_MORE = 264 }; /* blocks backward and forward */

struct warp_group {
    int warps;           /* of a group */
    int thread, threads; /* this one in its group; their number */
    int number, count;   /* this group; groups in a block */
};

__device__ static warp_group group_of(int warps) {
    const int threads = 32 * warps;
    return {warps, (int)threadIdx.x % threads, threads, (int)threadIdx.x / threads, THREADS / threads};
}

/* Sum over a group. shared [2][WARPS]: calls alternate, so that one barrier each is enough. */
__device__ static float over_group(float x, const warp_group &t, float (*shared)[WARPS], int turn) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    if (t.warps == 1) return x;
    if (threadIdx.x % 32 == 0) shared[turn][threadIdx.x / 32] = x;
    __syncthreads();
    x = 0.0f;
    for (int i = 0; i < t.warps; i++) x += shared[turn][t.number * t.warps + i];
    return x;
}

template <typename T, int V, int E> struct raw { /* a thread's part of a row as loaded, so that the next can be prefetched */
    lanes<T, V> at[E / V];
    __device__ void load(const T *row, const warp_group &t, int64_t c) {
#pragma unroll
        for (int g = 0; g < E / V; g++) {
            const int64_t column = (int64_t)(t.thread + g * t.threads) * V;
            at[g] = row && column < c ? lanes<T, V>::load(row + column) : lanes<T, V>{};
        }
    }
};

template <typename T, int V, int E> struct line { /* the same as numbers; 0 beyond the end */
    float at[E];
    __device__ void set(const raw<T, V, E> &from) {
#pragma unroll
        for (int g = 0; g < E / V; g++) {
            float x[V];
            from.at[g].floats(x);
#pragma unroll
            for (int i = 0; i < V; i++) at[g * V + i] = x[i];
        }
    }
    __device__ void store(T *row, const warp_group &t, int64_t c) const {
#pragma unroll
        for (int g = 0; g < E / V; g++) {
            const int64_t column = (int64_t)(t.thread + g * t.threads) * V;
            float x[V];
#pragma unroll
            for (int i = 0; i < V; i++) x[i] = at[g * V + i];
            if (row && column < c) lanes<T, V>::store(row + column, x);
        }
    }
};

/* Column of number i of a thread. */
template <int V> __device__ static int64_t column_of(const warp_group &t, int i) {
    return (int64_t)(t.thread + i / V * t.threads) * V + i % V;
}

/* A thread's part of a parameter [c]; 0 beyond its end. */
template <int V, int E> __device__ static void keep(float (&mine)[E], const float *all, const warp_group &t, int64_t c) {
#pragma unroll
    for (int i = 0; i < E; i++) mine[i] = column_of<V>(t, i) < c ? all[column_of<V>(t, i)] : 0.0f;
}

template <typename T, int V, int E>
static __global__ void __launch_bounds__(THREADS, E == EACH ? 3 : 2)
    forward_kernel(T *y, float *saved, const T *x, const float *weight, const float *bias, int64_t rows, int64_t c, int warps) {
    __shared__ float shared[2][WARPS];
    const warp_group t = group_of(warps);
    float w[E], b[E];
    keep<V>(w, weight, t, c);
    keep<V>(b, bias, t, c);
    const int64_t first = (int64_t)blockIdx.x * t.count, step = (int64_t)gridDim.x * t.count;
    raw<T, V, E> next;
    next.load(first + t.number < rows ? x + (first + t.number) * c : NULL, t, c);
    for (int64_t base = first; base < rows; base += step) {
        const int64_t row = base + t.number;
        line<T, V, E> v;
        float sum = 0.0f, square = 0.0f;
        v.set(next);
        next.load(row + step < rows ? x + (row + step) * c : NULL, t, c);
#pragma unroll
        for (int i = 0; i < E; i++) sum += v.at[i];
        const float mean = over_group(sum, t, shared, 0) / (float)c;
#pragma unroll
        for (int i = 0; i < E; i++) {
            v.at[i] = column_of<V>(t, i) < c ? v.at[i] - mean : 0.0f;
            square = fmaf(v.at[i], v.at[i], square);
        }
        const float rest = 1.0f / sqrtf(over_group(square, t, shared, 1) / (float)c + (float)GF_NN_EPS);
        if (row >= rows) continue;
        if (saved && t.thread == 0) *reinterpret_cast<float2 *>(saved + 2 * row) = make_float2(mean, rest);
#pragma unroll
        for (int i = 0; i < E; i++) v.at[i] = fmaf(v.at[i] * rest, w[i], b[i]);
        v.store(y + row * c, t, c);
    }
}

/* Sums of a block's groups, in their order, to out [c]. */
template <int V, int E>
__device__ static void add_groups(float *out, const float (&sum)[E], float *shared, const warp_group &t, int64_t c) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < E; i++) shared[i * THREADS + threadIdx.x] = sum[i];
    __syncthreads();
    for (int i = t.number; i < E; i += t.count) {
        float total = 0.0f;
        for (int k = 0; k < t.count; k++) total += shared[i * THREADS + k * t.threads + t.thread];
        const int64_t column = column_of<V>(t, i);
        if (column < c) out[column] = total;
    }
}

/* part [blocks][2][c]: gradients of weight and bias. */
template <typename T, int V, int E>
static __global__ void __launch_bounds__(THREADS, E == EACH ? 2 : 1)
    back_kernel(T *dx, float *part, const T *dy, const T *x, const float *saved, const float *weight, int64_t rows, int64_t c,
                int warps, bool add) {
    __shared__ float shared[2][WARPS], all[E * THREADS];
    const warp_group t = group_of(warps);
    float w[E], dweight[E] = {0.0f}, dbias[E] = {0.0f};
    keep<V>(w, weight, t, c);
    const int64_t first = (int64_t)blockIdx.x * t.count, step = (int64_t)gridDim.x * t.count;
    raw<T, V, E> next_x, next_dy, before;
    next_x.load(first + t.number < rows ? x + (first + t.number) * c : NULL, t, c);
    next_dy.load(first + t.number < rows ? dy + (first + t.number) * c : NULL, t, c);
    for (int64_t base = first; base < rows; base += step) {
        const int64_t row = base + t.number;
        const bool inside = row < rows;
        const float2 kept = inside ? *reinterpret_cast<const float2 *>(saved + 2 * row) : make_float2(0.0f, 0.0f);
        line<T, V, E> v, g;
        float sum = 0.0f, along = 0.0f;
        v.set(next_x), g.set(next_dy);
        next_x.load(row + step < rows ? x + (row + step) * c : NULL, t, c);
        next_dy.load(row + step < rows ? dy + (row + step) * c : NULL, t, c);
        if (add) before.load(inside ? dx + row * c : NULL, t, c);
#pragma unroll
        for (int i = 0; i < E; i++) {
            v.at[i] = (v.at[i] - kept.x) * kept.y; /* beyond the end no number, but g is 0 there */
            dbias[i] += g.at[i];
            dweight[i] = fmaf(g.at[i], v.at[i], dweight[i]);
            g.at[i] *= w[i];
            sum += g.at[i];
            along = fmaf(g.at[i], v.at[i], along);
        }
        sum = over_group(sum, t, shared, 0) / (float)c;
        along = over_group(along, t, shared, 1) / (float)c;
        if (!inside || !dx) continue;
#pragma unroll
        for (int i = 0; i < E; i++) g.at[i] = kept.y * (g.at[i] - sum - v.at[i] * along);
        if (add) {
            v.set(before);
#pragma unroll
            for (int i = 0; i < E; i++) g.at[i] += v.at[i];
        }
        g.store(dx + row * c, t, c);
    }
    add_groups<V>(part + (int64_t)blockIdx.x * 2 * c, dweight, all, t, c);
    add_groups<V>(part + (int64_t)blockIdx.x * 2 * c + c, dbias, all, t, c);
}

/* ----- the op ------------------------------------------------------------------------------------------------------ */

static int64_t rows_of(const gf_nn_shape *s) { return s->n * s->h * s->w; }

static bool has_more(int64_t c) { return c > EACH * 32 && c <= MORE * 32; }

static int warps_of(int64_t c) {
    int warps = 1;
    if (has_more(c)) return warps;
    while (warps < WARPS && c > (int64_t)EACH * 32 * warps) warps *= 2;
    return warps;
}

static int chunks_of(const gf_nn_shape *s, int64_t rows) {
    const int64_t groups = WARPS / warps_of(s->in), blocks = (rows + groups - 1) / groups;
    const int max = has_more(s->in) ? (int)CHUNKS_MORE : (int)CHUNKS;
    return blocks < max ? (int)blocks : max;
}

glofnd_status gf_cunn_layernorm_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    FAIL_IF(err, s->in > ROW_MAX, GLOFND_E_UNSUPPORTED, "layer norm over %lld numbers; CUDA takes at most %d: use device = cpu",
            (long long)s->in, (int)ROW_MAX);
    if (!s->training) return GLOFND_OK;
    sizes->saved = 2 * sizeof(float) * (size_t)rows_of(s);
    sizes->scratch = 2 * sizeof(float) * (size_t)s->in * (size_t)chunks_of(s, rows_of(s));
    return GLOFND_OK;
}

template <typename T, int V, int E> static void forward(gf_nn_op *op, const gf_nn_args *a, int max_blocks) {
    const gf_nn_shape *s = &op->shape;
    const int warps = warps_of(s->in);
    const int64_t groups = WARPS / warps, rows = gf_nn_rows(s, a), blocks = (rows + groups - 1) / groups;
    forward_kernel<T, V, E><<<(unsigned)(blocks < max_blocks ? blocks : max_blocks), THREADS, 0, op->engine->stream>>>(
        (T *)a->y, (float *)(s->training ? a->saved : NULL), (const T *)a->x, a->weight, a->bias, rows, s->in, warps);
    gf_cunn_note(op->engine, cudaGetLastError(), "layer norm");
}

template <typename T, int V> static void forward(gf_nn_op *op, const gf_nn_args *a) {
    if (has_more(op->shape.in)) forward<T, V, MORE>(op, a, BLOCKS_MORE);
    else forward<T, V, EACH>(op, a, BLOCKS);
}

template <typename T, int V, int E> static void backward(gf_nn_op *op, const gf_nn_args *a, float *part, int chunks) {
    const gf_nn_shape *s = &op->shape;
    back_kernel<T, V, E>
        <<<(unsigned)chunks, THREADS, 0, op->engine->stream>>>((T *)(s->input_grad ? a->dx : NULL), part, (const T *)a->dy,
                                                               (const T *)a->x, (const float *)a->saved, a->weight,
                                                               gf_nn_rows(s, a), s->in, warps_of(s->in), a->add_dx != 0);
    gf_cunn_note(op->engine, cudaGetLastError(), "layer norm, backward");
}

template <typename T, int V> static void backward(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const int chunks = chunks_of(s, gf_nn_rows(s, a));
    float *part = (float *)a->scratch;
    if (has_more(s->in)) backward<T, V, MORE>(op, a, part, chunks);
    else backward<T, V, EACH>(op, a, part, chunks);
    gf_cunn_add_chunks(op->engine, a->weight_grad, s->in, a->bias_grad, s->in, part, chunks);
}

glofnd_status gf_cunn_layernorm_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    GF_LANES(op->shape.type, op->shape.in, forward, op, a);
    return GLOFND_OK;
}

glofnd_status gf_cunn_layernorm_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    GF_LANES(op->shape.type, op->shape.in, backward, op, a);
    return GLOFND_OK;
}
