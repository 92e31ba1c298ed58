/* cunn_norm_sums.cuh - S sums per channel over all rows, in one launch: every block sums its chunk of rows in float, the last
 * block to finish adds the chunks' sums in double and in order. */
#pragma once

#include "nn/cuda/cunn_norm.cuh"

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
