/* cunn_norm.cuh - traversal of x [rows][c] by the kernels of batch norm: shared by cunn_norm.cu, _pair and _stats;
 * and what the passes that write have in common.
 *
 * A block covers gx groups of V channels side by side and ry rows at a time; blocks in x are tiles of channels, blocks in y
 * chunks of rows. A thread keeps its channels, so the numbers of a channel stay in registers. The rows of a thread
 * follow from the shape alone: same bits every time.
 */
#pragma once

#include "nn/cuda/cunn.h"
#include "nn/cuda/cunn_lanes.cuh"

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

/* ----- passes that write: cunn_norm.cu, cunn_norm_pair.cu ------------------------------------------------------------- */

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
