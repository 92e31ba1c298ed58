/* cunn_norm.cuh - traversal of x [rows][c] by the kernels of batch norm: shared by cunn_norm.cu and cunn_norm_stats.cu.
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
