/* cunn_norm.cuh - shared by the kernels of batch norm: one channel from its sums, traversal of x [rows][c], passes that write,
 * sums over all rows. */
#pragma once

#include "nn/cuda/cunn_device.cuh"
#include "nn/cuda/cunn_kernels.h"

/* ----- One channel from its sums --------------------------------------------------------------------------------- */

/* One channel of batch norm from its sums: mean, deviation, scale, running averages; backward, gradients of
 * gamma and beta and the coefficients of dx. Shared by all kernels that make sums: the same bits from the same sums. */

struct norm_line { /* y = scale x + shift */
    double mean, var, istd;
    float scale, shift;
};

static __device__ inline norm_line line_of(const gf_nn_norm &n, int64_t i, double mean, double var) {
    norm_line l = {mean, var, 1 / sqrt(var + GF_NN_EPS), 0.0f, 0.0f};
    const double scale = (n.gamma ? (double)n.gamma[i] : 1.0) * l.istd;
    l.scale = (float)scale;
    l.shift = (float)((n.beta ? (double)n.beta[i] : 0.0) - mean * scale);
    return l;
}

static __device__ inline norm_line line_of_sums(const gf_nn_norm &n, int64_t i, double sum, double square, double count) {
    const double mean = sum / count, spread = square / count - mean * mean;
    return line_of(n, i, mean, spread < 0 ? 0 : spread); /* NaN passes */
}

static __device__ inline float moved(float old, double now) {
    return (float)((1 - GF_NN_MOMENTUM) * (double)old + GF_NN_MOMENTUM * now);
}

static __device__ inline void keep_line(const gf_nn_norm &n, int64_t i, const norm_line &l, double count) {
    n.mean[i] = (float)l.mean;
    n.istd[i] = (float)l.istd;
    n.scale[i] = l.scale;
    n.shift[i] = l.shift;
    n.running_mean[i] = moved(n.running_mean[i], l.mean);
    n.running_var[i] = moved(n.running_var[i], l.var * count / (count - 1));
}

/* Gradients of gamma and beta are of the own rows; the coefficients of dx are of all. */
static __device__ inline void own_gradients(const gf_nn_norm &n, int64_t i, double sum, double product) {
    if (!n.dgamma) return;
    n.dbeta[i] = (float)sum;
    n.dgamma[i] = (float)(product * (double)n.istd[i]);
}

/* dx = scale g + x (x - mean) + y */
static __device__ inline float2 coef_of_sums(const gf_nn_norm &n, int64_t i, double sum, double product, double count) {
    const double scale = (double)n.scale[i], istd = (double)n.istd[i];
    return make_float2((float)(-scale * istd * istd * product / count), (float)(-scale * sum / count));
}

/* ----- Traversal of x [rows][c], and what the passes that write have in common ----------------------------------- */

/* A block covers gx groups of V channels side by side and ry rows at a time; blocks in x are tiles of channels, blocks in y
 * chunks of rows. A thread keeps its channels, so the numbers of a channel stay in registers. The rows of a thread
 * follow from the shape alone: same bits every time. */

struct walk {
    int gx, ry;        /* threads: groups, rows */
    int tiles, chunks; /* blocks */
    int64_t chunk_rows;
};

/* `threads` per block of at most `wide` groups, about `blocks` of them. */
static inline struct walk walk_over(int64_t rows, int64_t c, int v, int threads, int blocks, int wide) {
    struct walk w;
    const int64_t groups = c / v;
    w.gx = groups < wide ? (int)groups : wide;
    w.ry = threads / w.gx;
    w.tiles = (int)((groups + w.gx - 1) / w.gx);
    const int64_t max = (rows + w.ry - 1) / w.ry; /* chunks of one round each */
    int64_t want = blocks / w.tiles;
    if (want < 1) want = 1;
    const int64_t rounds = (max + want - 1) / want; /* each thread's rows, but for the last chunk */
    w.chunk_rows = rounds * w.ry;
    w.chunks = (int)((rows + w.chunk_rows - 1) / w.chunk_rows);
    return w;
}

/* ----- passes that write: cunn_norm.cu, cunn_norm.cu ------------------------------------------------------------- */

enum { PASS_THREADS = 256, PASS_ROUNDS = 4, PASS_BLOCKS = 2 }; /* BLOCKS: per multiprocessor */

/* Chunks of `rounds` rows per thread. A block takes every gridDim.y-th chunk, from the last to the first: so all blocks are close
 * to each other, and begin with the rows that the convolution before has written, or read, most recently; the one that follows
 * begins with the first. A part of them is still in the cache. */
static inline struct walk pass_walk(int64_t rows, int64_t c, int v, int rounds) {
    struct walk w = walk_over(rows, c, v, PASS_THREADS, 1, 64);
    w.chunk_rows = (int64_t)rounds * w.ry;
    w.chunks = (int)((rows + w.chunk_rows - 1) / w.chunk_rows);
    return w;
}

/* As many blocks as run at once. */
static inline dim3 pass_grid(const gf_nn_engine *s, const struct walk &w) {
    const int blocks = PASS_BLOCKS * s->multiprocessors / w.tiles;
    return dim3((unsigned)w.tiles, (unsigned)(blocks < 1 ? 1 : blocks < w.chunks ? blocks : w.chunks));
}

/* x [V] from where it is aligned for it. */
template <int V> static __device__ inline void load_line(float (&to)[V], const float *from) {
    if (V % 4 == 0) {
#pragma unroll
        for (int i = 0; i < V; i += 4) {
            const float4 four = *(const float4 *)(from + i);
            to[i] = four.x, to[(i + 1) % V] = four.y, to[(i + 2) % V] = four.z, to[(i + 3) % V] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < V; i++) to[i] = from[i];
    }
}

/* v through ReLU, as V numbers of y, and as bits for backward: above 0. */
template <typename T, int V> static __device__ inline void write_y(const gf_nn_norm &n, int64_t at, float (&v)[V]) {
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (n.relu && !(v[i] > 0.0f)) v[i] = v[i] < 0.0f ? 0.0f : v[i]; /* NaN passes */
        bits |= (unsigned)(v[i] > 0.0f) << i;
    }
    lanes<T, V>::store((T *)n.y + at, v);
    if (V == 8 && n.positive) n.positive[at / 8] = (uint8_t)bits;
}

template <int V> struct back_line { /* dx = scale g + a x + b */
    float scale[V], a[V], b[V];
};

template <int V> static __device__ inline back_line<V> back_line_at(const gf_nn_norm &n, int64_t at) {
    back_line<V> l;
    float mean[V];
    load_line(l.scale, n.scale + at);
    load_line(l.a, n.coef + at);
    load_line(l.b, n.coef + n.c + at);
    load_line(mean, n.mean + at);
#pragma unroll
    for (int i = 0; i < V; i++) l.b[i] = fmaf(-l.a[i], mean[i], l.b[i]);
    return l;
}

template <typename T, int V>
static __device__ inline void write_dx(T *dx, const back_line<V> &l, const float (&x)[V], const float (&g)[V]) {
    float v[V];
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = fmaf(l.scale[i], g[i], fmaf(l.a[i], x[i], l.b[i]));
    lanes<T, V>::store(dx, v);
}

/* ----- S sums per channel over all rows, in one launch ----------------------------------------------------------- */

/* Every block sums its chunk of rows in float, the last block to finish adds the chunks' sums in double and in order. */

enum { SUM_THREADS = 512, SUM_BLOCKS = 264, SUM_WIDE = 16 }; /* narrow tiles: fewer chunks for the last block to add */

static inline walk sums_walk(int64_t rows, int64_t c, int v) { return walk_over(rows, c, v, SUM_THREADS, SUM_BLOCKS, SUM_WIDE); }

/* The block's sum of `part` over its rows, for each of the gx V S columns: scratch [chunk][S][c]. Threads of a warp that share a
 * group add up first; then one thread per column adds the results of the warps, or rows. */
template <int V, int S> static __device__ inline void reduce_block(const gf_nn_norm &n, const walk &w, float (&part)[S * V]) {
    extern __shared__ float partial[]; /* [rows left][gx S V] */
    const int columns = w.gx * S * V, thread = threadIdx.y * w.gx + threadIdx.x;
    const bool shuffled = w.gx < 32 && 32 % w.gx == 0;
    if (shuffled)
        for (int step = w.gx; step < 32; step <<= 1)
#pragma unroll
            for (int i = 0; i < S * V; i++) part[i] += __shfl_xor_sync(0xffffffffu, part[i], step);
    const int left = shuffled ? w.ry * w.gx / 32 : w.ry, mine = shuffled ? thread / 32 : threadIdx.y;
    if (!shuffled || thread % 32 < w.gx)
#pragma unroll
        for (int i = 0; i < S * V; i++) partial[mine * columns + (i / V) * w.gx * V + threadIdx.x * V + i % V] = part[i];
    __syncthreads();
    float *out = (float *)n.scratch + (int64_t)blockIdx.y * S * n.c;
    for (int k = thread; k < columns; k += w.gx * w.ry) {
        const int64_t channel = (int64_t)blockIdx.x * w.gx * V + k % (w.gx * V);
        float sum = 0.0f;
        for (int i = 0; i < left; i++) sum += partial[i * columns + k];
        if (channel < n.c) __stcg(out + (k / (w.gx * V)) * n.c + channel, sum);
    }
}

/* True in all threads of the last block of this tile; results of the others are then visible. */
static __device__ inline bool comes_last(const walk &w, unsigned *ticket) {
    __shared__ unsigned before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        before = atomicAdd(ticket, 1u);
        if (before == (unsigned)w.chunks - 1) *ticket = 0;
    }
    __syncthreads();
    __threadfence();
    return before == (unsigned)w.chunks - 1;
}

/* Adds the chunks: `slices` threads per channel, each a fixed share of them, then in order. done(channel, sums). */
template <int V, int S, typename Done> static __device__ inline void add_chunks(const gf_nn_norm &n, const walk &w, Done done) {
    extern __shared__ double wide[]; /* [slices][S][channels]: as large as the floats before, or smaller */
    const int channels = w.gx * V, all = w.gx * w.ry, thread = threadIdx.y * w.gx + threadIdx.x;
    const int slices = max(all / channels, 1), share = (w.chunks + slices - 1) / slices;
    __syncthreads();
    for (int k = thread; k < channels * slices; k += all) {
        const int slice = k / channels;
        const int64_t channel = (int64_t)blockIdx.x * channels + k % channels;
        double sum[S] = {0.0};
        if (channel < n.c) {
            const float *from = (const float *)n.scratch + channel;
            const int end = min((slice + 1) * share, w.chunks);
#pragma unroll 8
            for (int i = slice * share; i < end; i++)
#pragma unroll
                for (int j = 0; j < S; j++) sum[j] += (double)__ldcg(from + ((int64_t)i * S + j) * n.c);
        }
        if (slices == 1 && channel < n.c) done(channel, sum);
#pragma unroll
        for (int j = 0; j < S && slices > 1; j++) wide[(S * slice + j) * channels + k % channels] = sum[j];
    }
    if (slices == 1) return;
    __syncthreads();
    const int64_t channel = (int64_t)blockIdx.x * channels + thread;
    if (thread >= channels || channel >= n.c) return;
    double sum[S] = {0.0};
    for (int i = 0; i < slices; i++)
#pragma unroll
        for (int j = 0; j < S; j++) sum[j] += wide[(S * i + j) * channels + thread];
    done(channel, sum);
}

static inline size_t shared_bytes(const walk &w, int v, int sums) {
    const bool shuffled = w.gx < 32 && 32 % w.gx == 0;
    const int left = shuffled ? w.ry * w.gx / 32 : w.ry, channels = w.gx * v;
    int slices = w.gx * w.ry / channels;
    if (slices < 1) slices = 1;
    const size_t floats = sizeof(float) * (size_t)(sums * left * channels);
    const size_t doubles = sizeof(double) * (size_t)(sums * slices * channels);
    return floats > doubles ? floats : doubles;
}
