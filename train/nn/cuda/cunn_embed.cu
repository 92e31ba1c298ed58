/* cunn_embed.cu - tokens to rows of a table, plus positions; backward, sums of the rows of each token.
 *
 * The gradient of the table is 0 except for tokens that occur, some of which occur in every text. Positions sorted by token are
 * divided into chunks of 32; a block sums each run of one token in its chunk. A run within the chunk is a row of the gradient;
 * parts of runs that cross its borders are stored, and a second launch adds the parts of each run in order. No atomics.
 */
#include "nn/cuda/cunn_rows.h"
#include "nn/cuda/cunn_sort.h"

#include "nn/cuda/cunn_lanes.cuh"

enum { CHUNK = 32, AHEAD = 8, THREADS = 64, LANES = 4, ROW_THREADS = 128 };

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
template <typename T, int V> static __global__ void __launch_bounds__(THREADS) chunk_kernel(const runs r, const T *dy) {
    __shared__ int32_t position[CHUNK], ends[CHUNK]; /* ends: a run of this chunk ends here */
    const int64_t first = (int64_t)blockIdx.x * CHUNK;
    const int count = (int)min((int64_t)CHUNK, r.count - first);
    for (int i = threadIdx.x; i < count; i += THREADS) {
        position[i] = r.position[first + i];
        ends[i] = i + 1 == count || r.token[first + i + 1] != r.token[first + i];
    }
    __syncthreads();
    for (int64_t k = threadIdx.x * V; k < r.c; k += THREADS * V) {
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
static __global__ void __launch_bounds__(THREADS *LANES) join_kernel(const runs r) {
    __shared__ float shared[LANES][THREADS];
    const int64_t chunk = blockIdx.x, first = chunk * CHUNK, last = first + CHUNK - 1;
    if (last + 1 >= r.count || r.token[last] != r.token[last + 1]) return;
    if (first > 0 && r.token[first - 1] == r.token[last]) return;  /* began earlier */
    const int64_t chunks = (run_end(r, last) - 1) / CHUNK - chunk; /* that it continues through */
    for (int64_t k = threadIdx.x; k < r.c; k += THREADS) {
        const float *part = r.part + (chunk + 1) * 2 * r.c + k;
        float sum = threadIdx.y == 0 ? r.part[(2 * chunk + 1) * r.c + k] : 0.0f;
#pragma unroll 4
        for (int64_t i = threadIdx.y; i < chunks; i += LANES) sum += part[i * 2 * r.c];
        __syncthreads();
        shared[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y) continue;
        for (int i = 1; i < LANES; i++) sum += shared[i][threadIdx.x];
        r.table_grad[r.token[last] * r.c + k] = sum;
    }
}

/* Block: a position and THREADS columns; the sum of its rows over packed texts, of which each lane takes every LANES-th. */
template <typename T>
static __global__ void __launch_bounds__(THREADS *LANES)
    positions_kernel(float *grad, const T *dy, const int32_t *text, int n, int64_t c) {
    __shared__ float shared[LANES][THREADS];
    const int64_t position = blockIdx.x, column = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 8
    for (int i = threadIdx.y; i < n; i += LANES) {
        const int64_t row = text[i] + position;
        if (row < text[i + 1] && column < c) sum += (float)dy[row * c + column];
    }
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || column >= c) return;
    for (int i = 1; i < LANES; i++) sum += shared[i][threadIdx.x];
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

template <typename T, int V> static void forward(gf_nn_op *op, const gf_nn_args *a) {
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
    chunk_kernel<T, V><<<(unsigned)chunks_of(rows), THREADS, 0, e->stream>>>(r, (const T *)a->dy);
    join_kernel<<<(unsigned)chunks_of(rows), dim3(THREADS, LANES), 0, e->stream>>>(r);
    gf_cunn_note(e, cudaGetLastError(), "embedding, backward");
}

template <typename T> static void positions_grad(gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const dim3 grid((unsigned)s->h, (unsigned)((s->out + THREADS - 1) / THREADS));
    positions_kernel<T><<<grid, dim3(THREADS, LANES), 0, op->engine->stream>>>(a->bias_grad, (const T *)a->dy, a->texts->first,
                                                                               (int)s->n, s->out);
    gf_cunn_note(op->engine, cudaGetLastError(), "positions, backward");
}

glofnd_status gf_cunn_embed_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    GF_LANES(op->shape.type, op->shape.out, forward, op, a);
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
