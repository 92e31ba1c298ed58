/* cunn_tokens.cu - the beginnings and the end of a sequence: embedded tokens, patches with a class or mean token, and the row
 * that stands for all. */
#include "nn/cuda/cunn_device.cuh"
#include "nn/cuda/cunn_kernels.h"

/* ----- Embedded tokens ------------------------------------------------------------------------------------------- */

/* Tokens to rows of a table, plus positions; backward, sums of the rows of each token.
 *
 * The gradient of the table is 0 except for tokens that occur, some of which occur in every text. Positions sorted by token are
 * divided into chunks of 32; a block sums each run of one token in its chunk. A run within the chunk is a row of the gradient;
 * parts of runs that cross its borders are stored, and a second launch adds the parts of each run in order. No atomics. */

enum { CHUNK = 32, AHEAD = 8, EMBED_THREADS = 64, EMBED_LANES = 4, ROW_THREADS = 128 };

/* ----- forward ----------------------------------------------------------------------------------------------------- */

/* Block: one position of one text. position: of each row; NULL: texts of `length` rows. */
template <typename T, int V>
static __global__ void forward_kernel(T *y, const int32_t *tokens, const float *table, const float *positions,
                                      const int32_t *position, int64_t vocab, int64_t length, int64_t c) {
    const int64_t at = blockIdx.x, token = min(max((int64_t)tokens[at], (int64_t)0), vocab - 1);
    const float *a = table + token * c, *b = positions + (position ? position[at] : at % length) * c;
    for (int64_t k = threadIdx.x * V; k < c; k += blockDim.x * V) {
        float x[V];
#pragma unroll
        for (int i = 0; i < V; i++) x[i] = a[k + i] + b[k + i];
        lanes<T, V>::store(y + at * c + k, x);
    }
}

/* ----- backward ---------------------------------------------------------------------------------------------------- */

struct runs { /* positions by token, and parts of runs [chunks][2][c]: from the chunk before, into the next */
    const int32_t *token, *position;
    int64_t count, c;
    float *part, *table_grad;
};

/* Destination of the sum of the run begin .. i, within the chunk that begins at `first`. */
__device__ static float *place_of(const runs &r, int64_t first, int64_t begin, int64_t i) {
    const bool from_before = begin == first && first > 0 && r.token[first - 1] == r.token[first];
    const bool goes_on = i + 1 < r.count && r.token[i + 1] == r.token[i];
    float *part = r.part + first / CHUNK * 2 * r.c;
    return from_before ? part : goes_on ? part + r.c : r.table_grad + r.token[i] * r.c;
}

/* Loads AHEAD rows at a time. */
template <typename T, int V> static __global__ void __launch_bounds__(EMBED_THREADS) chunk_kernel(const runs r, const T *dy) {
    __shared__ int32_t position[CHUNK], ends[CHUNK]; /* ends: a run of this chunk ends here */
    const int64_t first = (int64_t)blockIdx.x * CHUNK;
    const int count = (int)min((int64_t)CHUNK, r.count - first);
    for (int i = threadIdx.x; i < count; i += EMBED_THREADS) {
        position[i] = r.position[first + i];
        ends[i] = i + 1 == count || r.token[first + i + 1] != r.token[first + i];
    }
    __syncthreads();
    for (int64_t k = threadIdx.x * V; k < r.c; k += EMBED_THREADS * V) {
        float sum[V] = {0.0f}, x[V];
        int64_t begin = first;
        for (int base = 0; base < count; base += AHEAD) {
            lanes<T, V> row[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (base + i < count) row[i] = lanes<T, V>::load(dy + position[base + i] * r.c + k);
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                if (base + i >= count) break;
                row[i].floats(x);
#pragma unroll
                for (int j = 0; j < V; j++) sum[j] += x[j];
                if (!ends[base + i]) continue;
                float *to = place_of(r, first, begin, first + base + i) + k;
#pragma unroll
                for (int j = 0; j < V; j++) to[j] = sum[j], sum[j] = 0.0f;
                begin = first + base + i + 1;
            }
        }
    }
}

/* One past the last position of the run that i is in. */
__device__ static int64_t run_end(const runs &r, int64_t i) {
    int64_t lo = i, hi = r.count; /* lo is in the run, hi is not */
    while (hi - lo > 1) {
        const int64_t mid = (lo + hi) / 2;
        if (r.token[mid] == r.token[i]) lo = mid;
        else hi = mid;
    }
    return hi;
}

/* Block: the run that begins in a chunk and continues in the next, if there is one. */
static __global__ void __launch_bounds__(EMBED_THREADS *EMBED_LANES) join_kernel(const runs r) {
    __shared__ float shared[EMBED_LANES][EMBED_THREADS];
    const int64_t chunk = blockIdx.x, first = chunk * CHUNK, last = first + CHUNK - 1;
    if (last + 1 >= r.count || r.token[last] != r.token[last + 1]) return;
    if (first > 0 && r.token[first - 1] == r.token[last]) return;  /* began earlier */
    const int64_t chunks = (run_end(r, last) - 1) / CHUNK - chunk; /* that it continues through */
    for (int64_t k = threadIdx.x; k < r.c; k += EMBED_THREADS) {
        const float *part = r.part + (chunk + 1) * 2 * r.c + k;
        float sum = threadIdx.y == 0 ? r.part[(2 * chunk + 1) * r.c + k] : 0.0f;
#pragma unroll 4
        for (int64_t i = threadIdx.y; i < chunks; i += EMBED_LANES) sum += part[i * 2 * r.c];
        __syncthreads();
        shared[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y) continue;
        for (int i = 1; i < EMBED_LANES; i++) sum += shared[i][threadIdx.x];
        r.table_grad[r.token[last] * r.c + k] = sum;
    }
}

/* Block: a position and THREADS columns; the sum of its rows over packed texts, of which each lane takes every LANES-th. */
template <typename T>
static __global__ void __launch_bounds__(EMBED_THREADS *EMBED_LANES)
    positions_kernel(float *grad, const T *dy, const int32_t *text, int n, int64_t c) {
    __shared__ float shared[EMBED_LANES][EMBED_THREADS];
    const int64_t position = blockIdx.x, column = (int64_t)blockIdx.y * EMBED_THREADS + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 8
    for (int i = threadIdx.y; i < n; i += EMBED_LANES) {
        const int64_t row = text[i] + position;
        if (row < text[i + 1] && column < c) sum += (float)dy[row * c + column];
    }
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || column >= c) return;
    for (int i = 1; i < EMBED_LANES; i++) sum += shared[i][threadIdx.x];
    grad[position * c + column] = sum;
}

/* ----- the op ------------------------------------------------------------------------------------------------------ */

static int64_t chunks_of(int64_t rows) { return (rows + CHUNK - 1) / CHUNK; }

static size_t sort_bytes(const gf_nn_shape *s) { return (gf_cunn_sort_bytes(s->n * s->h) + 255) / 256 * 256; }

glofnd_status gf_cunn_embed_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    FAIL_IF(err, s->n * s->h > INT32_MAX || s->in > INT32_MAX, GLOFND_E_UNSUPPORTED,
            "embedding of %lld texts of %lld tokens: too many for one batch", (long long)s->n, (long long)s->h);
    if (!s->training) return GLOFND_OK;
    const size_t parts = 2 * sizeof(float) * (size_t)(chunks_of(s->n * s->h) * s->out);
    const size_t sums = gf_cunn_sums_bytes(s->type, s->n, s->h * s->out);
    sizes->scratch = sort_bytes(s) + (parts > sums ? parts : sums);
    return GLOFND_OK;
}

template <typename T, int V> static void embed_forward(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    forward_kernel<T, V>
        <<<(unsigned)gf_nn_rows(s, a), ROW_THREADS, 0, op->engine->stream>>>((T *)a->y, (const int32_t *)a->x, a->weight, a->bias,
                                                                             s->packed ? a->texts->position : NULL, s->in, s->h,
                                                                             s->out);
    gf_cunn_note(op->engine, cudaGetLastError(), "embedding");
}

template <typename T, int V> static void table_grad(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    gf_nn_engine *e = op->engine;
    const int64_t rows = gf_nn_rows(s, a);
    const gf_cunn_sorted sorted = gf_cunn_sort(e, (const int32_t *)a->x, rows, s->in, a->scratch);
    float *part = (float *)((char *)a->scratch + sort_bytes(s));
    const runs r = {sorted.key, sorted.position, rows, s->out, part, a->weight_grad};
    gf_cunn_note(e, cudaMemsetAsync(a->weight_grad, 0, sizeof(float) * (size_t)(s->in * s->out), e->stream), "embedding");
    chunk_kernel<T, V><<<(unsigned)chunks_of(rows), EMBED_THREADS, 0, e->stream>>>(r, (const T *)a->dy);
    join_kernel<<<(unsigned)chunks_of(rows), dim3(EMBED_THREADS, EMBED_LANES), 0, e->stream>>>(r);
    gf_cunn_note(e, cudaGetLastError(), "embedding, backward");
}

template <typename T> static void positions_grad(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const dim3 grid((unsigned)s->h, (unsigned)((s->out + EMBED_THREADS - 1) / EMBED_THREADS));
    positions_kernel<T><<<grid, dim3(EMBED_THREADS, EMBED_LANES), 0, op->engine->stream>>>(a->bias_grad, (const T *)a->dy,
                                                                                           a->texts->first, (int)s->n, s->out);
    gf_cunn_note(op->engine, cudaGetLastError(), "positions, backward");
}

glofnd_status gf_cunn_embed_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    GF_LANES(op->shape.type, op->shape.out, embed_forward, op, a);
    return GLOFND_OK;
}

glofnd_status gf_cunn_embed_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    GF_LANES(s->type, s->out, table_grad, op, a);
    if (s->packed && s->type == GF_TYPE_BF16) positions_grad<bf16>(op, a);
    else if (s->packed) positions_grad<float>(op, a);
    else
        gf_cunn_act_back(op->engine, s->type, GF_ACT_NONE, NULL, a->bias_grad, a->dy, NULL, s->n, s->h * s->out,
                         (char *)a->scratch + sort_bytes(s));
    return GLOFND_OK;
}

/* ----- Patches, and the picked row ------------------------------------------------------------------------------- */

/* Positions of images as a sequence (TOKENS), and one row of each sequence (PICK). */

enum { TOKEN_THREADS = 128 };

/* ----- TOKENS ------------------------------------------------------------------------------------------------------ */

/* Block: one row of y. first: the class token; NULL: the mean of the places. */
template <typename T, int V>
static __global__ void tokens_kernel(T *y, const T *x, const float *positions, const float *first, int64_t places, int64_t c) {
    const int64_t image = blockIdx.y, row = blockIdx.x;
    const float *add = positions + row * c;
    for (int64_t k = threadIdx.x * V; k < c; k += TOKEN_THREADS * V) {
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
    for (int64_t k = threadIdx.x * V; k < c; k += TOKEN_THREADS * V) {
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
    tokens_kernel<T, V><<<dim3((unsigned)places_of(s) + 1, (unsigned)s->n), TOKEN_THREADS, 0, op->engine->stream>>>(
        (T *)a->y, (const T *)a->x, a->weight, s->bias ? a->bias : NULL, places_of(s), s->in);
    gf_cunn_note(op->engine, cudaGetLastError(), "sequences from images");
}

template <typename T, int V> static void tokens_back(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    tokens_back_kernel<T, V>
        <<<dim3((unsigned)places_of(s), (unsigned)s->n), TOKEN_THREADS, 0, op->engine->stream>>>((T *)a->dx, (const T *)a->dy,
                                                                                                 !s->bias, places_of(s), s->in);
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
    for (int64_t k = threadIdx.x; k < c; k += TOKEN_THREADS) y[blockIdx.x * c + k] = (float)x[from + k];
}

/* The rows that are not picked are 0 or hold the rest of the gradient: all have a part that is added to. */
template <typename T>
static __global__ void pick_back_kernel(T *dx, const float *dy, const int32_t *picked, int64_t length, int64_t c) {
    T *to = dx + (picked ? picked[blockIdx.x] : blockIdx.x * length) * c;
    for (int64_t k = threadIdx.x; k < c; k += TOKEN_THREADS) to[k] = (T)((float)to[k] + dy[blockIdx.x * c + k]);
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
    if (s->type == GF_TYPE_BF16)
        pick_kernel<<<n, TOKEN_THREADS, 0, stream>>>((float *)a->y, (const bf16 *)a->x, picked, length, s->in);
    else pick_kernel<<<n, TOKEN_THREADS, 0, stream>>>((float *)a->y, (const float *)a->x, picked, length, s->in);
    gf_cunn_note(op->engine, cudaGetLastError(), "rows of sequences");
    return GLOFND_OK;
}

template <typename T> static void pick_back(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const size_t bytes = sizeof(T) * (size_t)(gf_nn_rows(s, a) * s->in);
    if (!a->add_dx) gf_cunn_note(op->engine, cudaMemsetAsync(a->dx, 0, bytes, op->engine->stream), "rows of sequences");
    pick_back_kernel<T><<<(unsigned)s->n, TOKEN_THREADS, 0, op->engine->stream>>>((T *)a->dx, (const float *)a->dy,
                                                                                  picked_of(op, a), places_of(s), s->in);
    gf_cunn_note(op->engine, cudaGetLastError(), "rows of sequences, backward");
}

glofnd_status gf_cunn_pick_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    if (!op->shape.input_grad) return GLOFND_OK;
    if (op->shape.type == GF_TYPE_BF16) pick_back<bf16>(op, a);
    else pick_back<float>(op, a);
    return GLOFND_OK;
}
