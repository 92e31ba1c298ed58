/* cunn_norm_whole.cuh - teams of blocks that make the sums of batch norm and use them in the same launch. See cunn_norm_whole.cu.
 */
#pragma once

#include "nn/cuda/cunn.h"
#include "nn/cuda/cunn_lanes.cuh"

enum { V = 8, THREADS = 256, WARPS = THREADS / 32, PER_SM = 2, WIDEST = 8 }; /* WIDEST V: a tile, in pieces of 128 bytes */
typedef lanes<bf16, V> wide_lanes;

struct whole {
    int gx, ry;             /* threads: groups of V channels, a power of 2 up to WIDEST; rows */
    int tiles, teams, size; /* of channels; of blocks; blocks of a team */
    int slots;              /* rows that a thread keeps */
    int64_t each, step;     /* rows of a block; numbers between rows of a thread */
};

/* ----- of a block -------------------------------------------------------------------------------------------------- */

struct area {     /* of shared memory */
    uint4 *held;  /* [slots][arrays][THREADS]; points to the thread's own place */
    float *part;  /* [WARPS][S V gx], S sums per channel */
    double *wide; /* [THREADS]: sums over all rows [S][V gx] */
    float *line;  /* [6][V gx] */
};

template <int ARRAYS, int S> static __device__ inline area area_of(const whole &w) {
    extern __shared__ uint4 room[];
    area m;
    m.held = room + threadIdx.x;
    m.wide = (double *)(room + w.slots * ARRAYS * THREADS);
    m.part = (float *)(m.wide + THREADS);
    m.line = m.part + WARPS * S * V * w.gx;
    return m;
}

static inline size_t fixed_bytes(int gx, int sums) {
    return THREADS * sizeof(double) + sizeof(float) * (size_t)((WARPS * sums + 6) * V * gx);
}

struct share { /* of a thread: rows first, first + ry ...; the last of them, from `loose` on, stay on the chip */
    int team, column, count, loose;
    int64_t first;
};

static __device__ inline share share_of(const gf_nn_norm &n, const whole &w) {
    share s;
    const int block = (int)blockIdx.x % w.size;
    const int64_t last = min((block + 1) * w.each, n.rows);
    s.team = (int)blockIdx.x / w.size;
    s.column = (int)threadIdx.x % w.gx;
    s.first = block * w.each + (int)threadIdx.x / w.gx;
    s.count = s.first < last ? (int)((last - s.first + w.ry - 1) / w.ry) : 0;
    s.loose = s.count > w.slots ? s.count - w.slots : 0;
    return s;
}

/* A row that stays on the chip need not stay in the cache. */
template <int KEEP> static __device__ inline wide_lanes load_row(const bf16 *p) {
    if (KEEP) return wide_lanes{__ldcs(reinterpret_cast<const uint4 *>(p))};
    return wide_lanes::load(p);
}

/* ----- of a team --------------------------------------------------------------------------------------------------- */

/* tickets [teams]: blocks that have come, [teams] more: blocks that have left. All 0 between launches. */
static __device__ inline void meet(unsigned *come, unsigned all) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(come, 1u);
        while (*(volatile unsigned *)come < all) __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
}

static __device__ inline void leave_team(const whole &w, unsigned *tickets) {
    const int team = (int)blockIdx.x / w.size;
    if (threadIdx.x == 0 && atomicAdd(tickets + w.teams + team, 1u) == (unsigned)w.size - 1) {
        tickets[team] = 0;
        tickets[w.teams + team] = 0;
    }
}

/* m.wide [S][V gx] = sums of `part` over all threads of the team that have the channel; blocks in order.
 * scratch [tiles][size][S V gx]. */
template <int S>
static __device__ inline void add_team(float (&part)[S * V], const gf_nn_norm &n, const whole &w, const area &m, int tile,
                                       int round, unsigned *tickets) {
    const int columns = S * V * w.gx, lane = threadIdx.x % 32, warp = threadIdx.x / 32, team = (int)blockIdx.x / w.size;
    float *sums = (float *)n.scratch + (int64_t)tile * w.size * columns;
    for (int step = w.gx; step < 32; step <<= 1)
#pragma unroll
        for (int i = 0; i < S * V; i++) part[i] += __shfl_xor_sync(0xffffffffu, part[i], step);
    if (lane < w.gx)
#pragma unroll
        for (int i = 0; i < S * V; i++) m.part[warp * columns + (i / V * w.gx + lane) * V + i % V] = part[i];
    __syncthreads();
    if (threadIdx.x < columns) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < WARPS; i++) sum += m.part[i * columns + threadIdx.x];
        __stcg(sums + (int64_t)(blockIdx.x % w.size) * columns + threadIdx.x, sum);
    }
    meet(tickets + team, (unsigned)(round * w.size));
    const int slices = THREADS / columns, share = (w.size + slices - 1) / slices; /* columns <= THREADS */
    const int slice = threadIdx.x / columns, end = slice < slices ? min((slice + 1) * share, w.size) : 0;
    const float *from = sums + threadIdx.x % columns;
    double sum = 0.0;
#pragma unroll 8
    for (int i = slice * share; i < end; i++) sum += (double)__ldcg(from + (int64_t)i * columns);
    m.wide[threadIdx.x] = sum;
    __syncthreads();
    sum = 0.0;
    for (int i = 0; i < slices && threadIdx.x < columns; i++) sum += m.wide[i * columns + threadIdx.x];
    __syncthreads();
    if (threadIdx.x < columns) m.wide[threadIdx.x] = sum;
    __syncthreads();
}

/* ----- on the host ------------------------------------------------------------------------------------------------- */

static inline int gx_of(int64_t c) {
    int gx = 1;
    while (2 * gx <= WIDEST && c / V % (2 * gx) == 0) gx *= 2;
    return gx;
}

/* 0: not for this norm, or this device. arrays: kept on the chip. */
static inline int whole_of(const gf_nn_engine *s, const gf_nn_norm *n, int arrays, int sums, whole *w) {
    if (n->type != GF_TYPE_BF16 || n->c % V || !s->team_blocks) return 0;
    w->gx = gx_of(n->c); /* sums V gx <= THREADS */
    w->ry = THREADS / w->gx;
    w->tiles = (int)(n->c / V / w->gx);
    const size_t slot = sizeof(uint4) * THREADS * (size_t)arrays;
    const int slots = (int)((s->team_shared - fixed_bytes(w->gx, sums)) / slot);
    const int64_t rounds = (n->rows + w->ry - 1) / w->ry; /* rows of a thread, if one block did them all */
    w->teams = 1; /* as many as keep two thirds of their rows on the chip; the cache has room for the rest */
    while (w->tiles % (2 * w->teams) == 0 && 2 * w->teams <= s->team_blocks &&
           2 * (rounds * 2 * w->teams / s->team_blocks) < 3 * slots)
        w->teams *= 2;
    w->size = s->team_blocks / w->teams;
    if (w->size > rounds) w->size = (int)rounds;
    const int64_t own = (rounds + w->size - 1) / w->size;
    w->each = own * w->ry;
    w->size = (int)((n->rows + w->each - 1) / w->each);
    w->slots = own < slots ? (int)own : slots;
    w->step = (int64_t)w->ry * n->c;
    return 1;
}

/* 1: launched. */
template <typename Kernel>
static inline int launch_whole(gf_nn_engine *s, Kernel kernel, const gf_nn_norm *n, const whole *w, int arrays, int sums,
                               const char *at) {
    const size_t bytes = fixed_bytes(w->gx, sums) + sizeof(uint4) * THREADS * (size_t)(arrays * w->slots);
    cudaError_t e = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    gf_nn_norm norm = *n, other = n->shortcut ? *n->shortcut : *n;
    whole walk = *w;
    unsigned *tickets = s->tickets;
    void *args[] = {&norm, &other, &walk, &tickets};
    const dim3 grid((unsigned)(w->teams * w->size));
    if (e == cudaSuccess) e = cudaLaunchCooperativeKernel((const void *)kernel, grid, dim3(THREADS), args, bytes, s->stream);
    if (e == cudaErrorCooperativeLaunchTooLarge) { /* a debugger's copy of the kernel may need more */
        cudaGetLastError();
        return 0;
    }
    gf_cunn_note(s, e, at);
    return 1;
}
