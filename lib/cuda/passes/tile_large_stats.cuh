/* tile_large_stats.cuh - shared by the kernels of pass B for wide embeddings and large batches. A thread block has 128 rows, and
 * takes turns with others of the same rows. */
#pragma once

#include "cuda/passes/cuda_stats_mma.cuh"
#include "cuda/passes/tile_large.cuh"

struct gf_large_job { /* of pass B */
    gf_tile_args a;
    gf_rows mirror; /* of the columns' anchors; triangle: those of the rows */
    int triangle;
    int turns, row_tiles, pitch; /* pitch: columns of a part */
    int columns;                 /* of a tile */
    int each;                    /* in flow: tiles of a turn, consecutive ones; 0: turns have every turns-th tile */
    gf_row_sums<float> *parts;   /* [turns][rows] */
    float *sum, *moment;         /* [row_tiles][pitch] of the columns; NULL: not needed */
    uint16_t *count;             /* the same */
};

/* ---- sums of a tile ---- */

/* Adds up 8 numbers over the 8 lanes that have the same columns; this thread gets the one of index `own`. */
template <class T> __device__ __forceinline__ T gf_large_fold_lanes(T (&x)[8]) {
    const unsigned all = 0xffffffffu;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int width = 4; width > 0; width /= 2) {
        const bool upper = lane & 4 * width;
#pragma unroll
        for (int i = 0; i < width; i++) {
            const T mine = upper ? x[i + width] : x[i], theirs = upper ? x[i] : x[i + width];
            x[i] = mine + __shfl_xor_sync(all, theirs, 4 * width);
        }
    }
    return x[0];
}
__device__ __forceinline__ int gf_large_own() { return threadIdx.x % 32 / 4; }

/* Adds one similarity to the sums of its row, and to those of its column. */
template <unsigned FLAGS, bool BOTH>
__device__ __forceinline__ void gf_large_add_pair(const gf_row_view &x, gf_row_sums<float> &t, float v, float peak, float limit,
                                                  float &sum, float &moment, uint32_t &count, uint32_t one) {
    if (FLAGS & GF_ABOVE) {
        t.kept += v > x.lo ? 1 : 0;
        if (BOTH) count += v > limit ? one : 0;
        return;
    }
    const float e = gf_exp_fast::of(fmaf(x.k, v, -peak)), m = FLAGS & GF_MOMENT ? e * v : 0.0f;
    if (!(FLAGS & GF_MASK) || v <= x.lo) {
        t.sum += e;
        if (FLAGS & GF_MOMENT) t.moment += m;
        if (FLAGS & GF_COUNT) t.kept++;
    }
    if (!BOTH || (FLAGS & GF_MASK && !(v <= limit))) return;
    sum += e;
    if (FLAGS & GF_MOMENT) moment += m;
    if (FLAGS & GF_COUNT) count += one;
}

/* ---- rows and columns of a thread block ---- */

__device__ __forceinline__ int gf_large_column_tiles(const gf_large_job &x) { return (x.a.k.rows + x.columns - 1) / x.columns; }

/* The block's rows, and its turn. Those that work at the same time have few rows and few columns, which the cache can hold. */
template <int CLUSTER> __device__ __forceinline__ int gf_large_row_tile(const gf_large_job &x) {
    return blockIdx.x / (CLUSTER * x.turns) * CLUSTER + blockIdx.x % CLUSTER;
}
template <int CLUSTER> __device__ __forceinline__ int gf_large_turn(const gf_large_job &x) {
    return blockIdx.x / CLUSTER % x.turns;
}

/* The first of the tiles of columns that make up the 256 of row r, in halves two: the blocks of a cluster, which share columns,
 * have the same. */
__device__ __forceinline__ int gf_large_own_columns(const gf_large_job &x, int r) {
    return r / GF_LARGE_COLS * (GF_LARGE_COLS / x.columns);
}

/* The tile of columns that the block starts with. */
template <int CLUSTER> __device__ __forceinline__ int gf_large_first_tile(const gf_large_job &x) {
    return gf_large_turn<CLUSTER>(x) + (x.triangle ? gf_large_own_columns(x, gf_large_row_tile<CLUSTER>(x) * GF_LARGE_ROWS) : 0);
}

/* The kernel of cuda_flow_stats.cu, tiles of 128 columns; a mirror only. */
cudaError_t gf_flow_stats(const gf_large_job &x, cudaStream_t stream);
