/* cunn_norm.cuh - traversal of x [rows][c] by the kernels of batch norm: shared by cunn_norm.cu, _pair and _stats;
 * and what the passes that write have in common.
 *
 * A block covers gx groups of V channels side by side and ry rows at a time; blocks in x are tiles of channels, blocks in y
 * chunks of rows. A thread keeps its channels, so the numbers of a channel stay in registers. The rows of a thread
 * follow from the shape alone: same bits every time.
 */
#pragma once

#include "cuda/nn/cunn.h"
#include "cuda/nn/kernels/cunn_lanes.cuh"

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

enum { PASS_THREADS = 256, PASS_ROUNDS = 4 };

static inline struct walk pass_walk(int64_t rows, int64_t c, int v) { return walk_over(rows, c, v, PASS_THREADS, 132 * 16, 64); }

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
#pragma unroll
    for (int i = 0; i < V; i++) {
        l.scale[i] = n.scale[at + i];
        l.a[i] = n.coef[at + i];
        l.b[i] = fmaf(-l.a[i], n.mean[at + i], n.coef[n.c + at + i]);
    }
    return l;
}

template <typename T, int V>
static __device__ inline void write_dx(T *dx, const back_line<V> &l, const float (&x)[V], const float (&g)[V]) {
    float v[V];
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = fmaf(l.scale[i], g[i], fmaf(l.a[i], x[i], l.b[i]));
    lanes<T, V>::store(dx, v);
}
