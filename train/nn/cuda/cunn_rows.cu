/* cunn_rows.cu - kernels over rows: activations and sums over rows, layer norm, and the sort of tokens. */
#include "nn/cuda/cunn_kernels.h"
#include "nn/cuda/cunn_norm.cuh"

/* ----- Activations, and sums over rows --------------------------------------------------------------------------- */

enum { ROWS_THREADS = 256, ROWS_BLOCKS = 528, ROWS_WIDE = 32, ROWS_ROUNDS = 4, ROWS_LANES = 8, COLUMNS = 32 };

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
    const int64_t blocks = (count / V + ROWS_THREADS - 1) / ROWS_THREADS;
    act_kernel<T, V>
        <<<(unsigned)(blocks < 132 * 32 ? blocks : 132 * 32), ROWS_THREADS, 0, s->stream>>>(act, (T *)y, (const T *)z, count / V);
    gf_cunn_note(s, cudaGetLastError(), "activation");
}

void gf_cunn_act(gf_nn_engine *s, gf_type type, gf_nn_act act, void *y, const void *z, int64_t count) {
    GF_LANES(type, count, run_act, s, act, y, z, count);
}

/* ----- gradients and their sums ------------------------------------------------------------------------------------ */

/* Thread: V columns, every ry-th row of a chunk. part [chunks][c]; NULL: no sums. */
template <typename T, int V, bool ACT>
static __global__ void __launch_bounds__(ROWS_THREADS)
    back_kernel(walk w, gf_nn_act act, T *g, float *part, const T *dy, const T *z, int64_t rows, int64_t c) {
    __shared__ float shared[ROWS_THREADS * V];
    const int64_t column = ((int64_t)blockIdx.x * w.gx + threadIdx.x) * V;
    const int64_t first = (int64_t)blockIdx.y * w.chunk_rows, last = min(first + w.chunk_rows, rows);
    const bool inside = column < c;
    float sum[V] = {0.0f};
    for (int64_t r = first + threadIdx.y; r < last && inside; r += ROWS_ROUNDS * w.ry) {
        lanes<T, V> grad[ROWS_ROUNDS], in[ROWS_ROUNDS];
#pragma unroll
        for (int k = 0; k < ROWS_ROUNDS; k++)
            if (r + k * w.ry < last) {
                grad[k] = lanes<T, V>::load(dy + (r + k * w.ry) * c + column);
                if (ACT) in[k] = lanes<T, V>::load(z + (r + k * w.ry) * c + column);
            }
#pragma unroll
        for (int k = 0; k < ROWS_ROUNDS; k++) {
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
    for (int i = 0; i < V; i++) shared[i * ROWS_THREADS + threadIdx.y * w.gx + threadIdx.x] = sum[i];
    __syncthreads();
    if (threadIdx.y || !inside) return;
#pragma unroll
    for (int i = 0; i < V; i++) {
        float total = 0.0f;
        for (int y = 0; y < w.ry; y++) total += shared[i * ROWS_THREADS + y * w.gx + threadIdx.x];
        part[blockIdx.y * c + column + i] = total;
    }
}

static walk walk_of(gf_type type, int64_t rows, int64_t c) {
    return walk_over(rows, c, gf_lanes(type, c), ROWS_THREADS, ROWS_BLOCKS, ROWS_WIDE);
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
    __shared__ float shared[ROWS_LANES][COLUMNS];
    const int64_t column = (int64_t)blockIdx.x * COLUMNS + threadIdx.x, c = ca + cb;
    float sum = 0.0f;
    if (column < c)
#pragma unroll 4
        for (int k = threadIdx.y; k < chunks; k += ROWS_LANES) sum += part[k * c + column];
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || column >= c) return;
    for (int y = 1; y < ROWS_LANES; y++) sum += shared[y][threadIdx.x];
    if (column < ca) a[column] = sum;
    else b[column - ca] = sum;
}

void gf_cunn_add_chunks(gf_nn_engine *s, float *a, int64_t ca, float *b, int64_t cb, const float *part, int chunks) {
    const unsigned blocks = (unsigned)((ca + cb + COLUMNS - 1) / COLUMNS);
    chunks_kernel<<<blocks, dim3(COLUMNS, ROWS_LANES), 0, s->stream>>>(a, ca, b, cb, part, chunks);
    gf_cunn_note(s, cudaGetLastError(), "sums over rows");
}

/* ----- Layer norm ------------------------------------------------------------------------------------------------ */

/* Layer norm over rows of up to 4096 numbers, forward and backward.
 *
 * A group of 1, 2, 4 or 8 warps has a row in registers, up to 16 numbers per thread, and goes from row to row; so mean and
 * variance are two passes over one read, and a thread keeps its columns, whose gradients it sums on the way. Rows of 513 to 768
 * numbers have one warp, too, with 24 numbers per thread: more warps would wait for each other at every row. saved: [rows][2],
 * mean and 1 / deviation. Bytes per number of bf16: forward 4, backward 6, or 8 where dx is added to. */

enum { NORM_WARPS = 8, NORM_THREADS = 32 * NORM_WARPS, EACH = 16, MORE = 24, ROW_MAX = EACH * NORM_THREADS };
enum { CHUNKS = 264, CHUNKS_MORE = 132, NORM_BLOCKS = 792, NORM_BLOCKS_MORE = 264 }; /* blocks backward and forward */

struct warp_group {
    int warps;           /* of a group */
    int thread, threads; /* this one in its group; their number */
    int number, count;   /* this group; groups in a block */
};

__device__ static warp_group group_of(int warps) {
    const int threads = 32 * warps;
    return {warps, (int)threadIdx.x % threads, threads, (int)threadIdx.x / threads, NORM_THREADS / threads};
}

/* Sum over a group. shared [2][WARPS]: calls alternate, so that one barrier each is enough. */
__device__ static float over_group(float x, const warp_group &t, float (*shared)[NORM_WARPS], int turn) {
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
static __global__ void __launch_bounds__(NORM_THREADS, E == EACH ? 3 : 2)
    forward_kernel(T *y, float *saved, const T *x, const float *weight, const float *bias, int64_t rows, int64_t c, int warps) {
    __shared__ float shared[2][NORM_WARPS];
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
    for (int i = 0; i < E; i++) shared[i * NORM_THREADS + threadIdx.x] = sum[i];
    __syncthreads();
    for (int i = t.number; i < E; i += t.count) {
        float total = 0.0f;
        for (int k = 0; k < t.count; k++) total += shared[i * NORM_THREADS + k * t.threads + t.thread];
        const int64_t column = column_of<V>(t, i);
        if (column < c) out[column] = total;
    }
}

/* part [blocks][2][c]: gradients of weight and bias. */
template <typename T, int V, int E>
static __global__ void __launch_bounds__(NORM_THREADS, E == EACH ? 2 : 1)
    back_kernel(T *dx, float *part, const T *dy, const T *x, const float *saved, const float *weight, int64_t rows, int64_t c,
                int warps, bool add) {
    __shared__ float shared[2][NORM_WARPS], all[E * NORM_THREADS];
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
    while (warps < NORM_WARPS && c > (int64_t)EACH * 32 * warps) warps *= 2;
    return warps;
}

static int norm_chunks_of(const gf_nn_shape *s, int64_t rows) {
    const int64_t groups = NORM_WARPS / warps_of(s->in), blocks = (rows + groups - 1) / groups;
    const int max = has_more(s->in) ? (int)CHUNKS_MORE : (int)CHUNKS;
    return blocks < max ? (int)blocks : max;
}

glofnd_status gf_cunn_layernorm_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    FAIL_IF(err, s->in > ROW_MAX, GLOFND_E_UNSUPPORTED, "layer norm over %lld numbers; CUDA takes at most %d: use device = cpu",
            (long long)s->in, (int)ROW_MAX);
    if (!s->training) return GLOFND_OK;
    sizes->saved = 2 * sizeof(float) * (size_t)rows_of(s);
    sizes->scratch = 2 * sizeof(float) * (size_t)s->in * (size_t)norm_chunks_of(s, rows_of(s));
    return GLOFND_OK;
}

template <typename T, int V, int E> static void norm_forward(gf_nn_op *op, const gf_nn_args *a, int max_blocks) {
    const gf_nn_shape *s = &op->shape;
    const int warps = warps_of(s->in);
    const int64_t groups = NORM_WARPS / warps, rows = gf_nn_rows(s, a), blocks = (rows + groups - 1) / groups;
    forward_kernel<T, V, E><<<(unsigned)(blocks < max_blocks ? blocks : max_blocks), NORM_THREADS, 0, op->engine->stream>>>(
        (T *)a->y, (float *)(s->training ? a->saved : NULL), (const T *)a->x, a->weight, a->bias, rows, s->in, warps);
    gf_cunn_note(op->engine, cudaGetLastError(), "layer norm");
}

template <typename T, int V> static void norm_forward(gf_nn_op *op, const gf_nn_args *a) {
    if (has_more(op->shape.in)) norm_forward<T, V, MORE>(op, a, NORM_BLOCKS_MORE);
    else norm_forward<T, V, EACH>(op, a, NORM_BLOCKS);
}

template <typename T, int V, int E> static void backward(gf_nn_op *op, const gf_nn_args *a, float *part, int chunks) {
    const gf_nn_shape *s = &op->shape;
    back_kernel<T, V, E>
        <<<(unsigned)chunks, NORM_THREADS, 0, op->engine->stream>>>((T *)(s->input_grad ? a->dx : NULL), part, (const T *)a->dy,
                                                                    (const T *)a->x, (const float *)a->saved, a->weight,
                                                                    gf_nn_rows(s, a), s->in, warps_of(s->in), a->add_dx != 0);
    gf_cunn_note(op->engine, cudaGetLastError(), "layer norm, backward");
}

template <typename T, int V> static void backward(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const int chunks = norm_chunks_of(s, gf_nn_rows(s, a));
    float *part = (float *)a->scratch;
    if (has_more(s->in)) backward<T, V, MORE>(op, a, part, chunks);
    else backward<T, V, EACH>(op, a, part, chunks);
    gf_cunn_add_chunks(op->engine, a->weight_grad, s->in, a->bias_grad, s->in, part, chunks);
}

glofnd_status gf_cunn_layernorm_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    GF_LANES(op->shape.type, op->shape.in, norm_forward, op, a);
    return GLOFND_OK;
}

glofnd_status gf_cunn_layernorm_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    GF_LANES(op->shape.type, op->shape.in, backward, op, a);
    return GLOFND_OK;
}

/* ----- Sort ------------------------------------------------------------------------------------------------------ */

/* See cunn_kernels.h.
 *
 * A pass: every warp counts the digits of its PER_WARP keys; one block turns the counts, digit by digit and warp by warp, into
 * first places; every warp places its keys, 32 at a time in their order. No atomics: the places are the same every time. */

enum { SORT_WARPS = 4, PER_WARP = 256, DIGITS = 256, SCAN = 1024 };

static int64_t warps_for(int64_t count) { return (count + PER_WARP - 1) / PER_WARP; }

struct pass {
    const int32_t *key, *position;   /* from; position NULL: 0, 1, 2, ... */
    int32_t *new_key, *new_position; /* to */
    int *first;                      /* [DIGITS][warps]: counts, then places */
    int64_t count, warps;
    int shift;
    int32_t key_max; /* largest key */
};

__device__ static int32_t key_at(const pass &p, int64_t i) { return min(max(p.key[i], 0), p.key_max); }

/* Goes over a warp's keys: mine [DIGITS] increases by the count of each digit. PLACE: keys are written to the place before. */
template <bool PLACE> __device__ static void walk_keys(const pass &p, int64_t warp, int *mine) {
    const unsigned lane = threadIdx.x % 32;
    const int64_t last = min((warp + 1) * PER_WARP, p.count);
    for (int64_t base = warp * PER_WARP; base < last; base += 32) {
        const int64_t i = base + lane;
        const bool inside = i < last;
        const int32_t key = inside ? key_at(p, i) : 0;
        const int digit = inside ? key >> p.shift & (DIGITS - 1) : DIGITS;
        const unsigned same = __match_any_sync(~0u, digit), before = same & ((1u << lane) - 1);
        const int start = inside ? mine[digit] : 0;
        __syncwarp();
        if (inside && !before) mine[digit] = start + __popc(same);
        __syncwarp();
        if (!PLACE || !inside) continue;
        const int to = start + __popc(before);
        p.new_key[to] = key;
        p.new_position[to] = p.position ? p.position[i] : (int32_t)i;
    }
}

static __global__ void __launch_bounds__(32 * SORT_WARPS) count_kernel(const pass p) {
    __shared__ int digits[SORT_WARPS][DIGITS];
    int *mine = digits[threadIdx.x / 32];
    const int64_t warp = (int64_t)blockIdx.x * SORT_WARPS + threadIdx.x / 32;
    if (warp >= p.warps) return;
    for (int d = threadIdx.x % 32; d < DIGITS; d += 32) mine[d] = 0;
    __syncwarp();
    walk_keys<false>(p, warp, mine);
    for (int d = threadIdx.x % 32; d < DIGITS; d += 32) p.first[d * p.warps + warp] = mine[d];
}

/* Exclusive prefix sums in place; one block. */
static __global__ void __launch_bounds__(SCAN) scan_kernel(int *x, int64_t count) {
    __shared__ int sums[SCAN];
    const int64_t each = (count + SCAN - 1) / SCAN, from = min(each * threadIdx.x, count), to = min(from + each, count);
    int sum = 0;
#pragma unroll 8
    for (int64_t i = from; i < to; i++) sum += x[i];
    sums[threadIdx.x] = sum;
    for (unsigned step = 1; step < SCAN; step *= 2) {
        __syncthreads();
        const int before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
    }
    int at = sums[threadIdx.x] - sum;
#pragma unroll 8
    for (int64_t i = from; i < to; i++) {
        const int here = x[i];
        x[i] = at;
        at += here;
    }
}

static __global__ void __launch_bounds__(32 * SORT_WARPS) place_kernel(const pass p) {
    __shared__ int digits[SORT_WARPS][DIGITS];
    int *mine = digits[threadIdx.x / 32];
    const int64_t warp = (int64_t)blockIdx.x * SORT_WARPS + threadIdx.x / 32;
    if (warp >= p.warps) return;
    for (int d = threadIdx.x % 32; d < DIGITS; d += 32) mine[d] = p.first[d * p.warps + warp];
    __syncwarp();
    walk_keys<true>(p, warp, mine);
}

static size_t whole(size_t bytes) { return (bytes + 255) / 256 * 256; }

size_t gf_cunn_sort_bytes(int64_t count) {
    return 4 * whole(sizeof(int32_t) * (size_t)count) + sizeof(int) * DIGITS * (size_t)warps_for(count);
}

gf_cunn_sorted gf_cunn_sort_on(cudaStream_t stream, const int32_t *keys, int64_t count, int64_t limit, void *scratch) {
    const size_t array = whole(sizeof(int32_t) * (size_t)count);
    char *at = (char *)scratch;
    gf_cunn_sorted have = {NULL, NULL}, to[2];
    for (int i = 0; i < 2; i++, at += 2 * array) to[i].key = (int32_t *)at, to[i].position = (int32_t *)(at + array);
    pass p = {keys, NULL, NULL, NULL, (int *)at, count, warps_for(count), 0, (int32_t)(limit - 1)};
    const unsigned blocks = (unsigned)((p.warps + SORT_WARPS - 1) / SORT_WARPS);
    for (int i = 0; p.shift == 0 || (limit - 1) >> p.shift > 0; i ^= 1, p.shift += 8) {
        have = to[i];
        p.new_key = have.key, p.new_position = have.position;
        count_kernel<<<blocks, 32 * SORT_WARPS, 0, stream>>>(p);
        scan_kernel<<<1, SCAN, 0, stream>>>(p.first, DIGITS * p.warps);
        place_kernel<<<blocks, 32 * SORT_WARPS, 0, stream>>>(p);
        p.key = have.key, p.position = have.position;
    }
    return have;
}

gf_cunn_sorted gf_cunn_sort(gf_nn_engine *s, const int32_t *keys, int64_t count, int64_t limit, void *scratch) {
    const gf_cunn_sorted sorted = gf_cunn_sort_on(s->stream, keys, count, limit, scratch);
    gf_cunn_note(s, cudaGetLastError(), "sorting of tokens");
    return sorted;
}
