/* pairs_fused.cu - the sweep of pairs_collect.h on Hopper: products of 128 x 256 similarities by the tensor cores, whose sums are
 * compared with the windows of their ends while they are in registers. See passes/tile_large.cuh for the tiles.
 *
 * Few similarities pass. A warp puts those of its 16 rows into a queue in shared memory, from which its lanes then take one each:
 * code for lists and counts is long, and would else run for one lane at a time. If the queue is too short, the sums are read
 * again.
 */
#include <math_constants.h>

#include "cuda/pairs/pairs_device.cuh"
#include "cuda/sm90/tile_large.cuh"

#define QUEUE 400 /* entries of a warp */
#define BLOCKS 4  /* of 8 columns that are tested together */
#define TAKEN 4   /* entries that a lane takes at once */
#define CLUSTER 2

struct fused_shared {
    gf_large_shared tiles;
    uint64_t queue[GF_LARGE_WORKERS / 32][QUEUE]; /* similarity above row and column in the tile */
    gf_pairs_window window[GF_LARGE_ROWS];        /* of the rows */
    float min[2][2][GF_LARGE_COLS];               /* of the columns, for each warpgroup, of this tile and the last one */
    int32_t above[GF_LARGE_ROWS], hits[GF_LARGE_ROWS], mutual[GF_LARGE_ROWS];
};
static_assert(sizeof(fused_shared) <= 227 * 1024, "shared memory of a block");

struct fused_job {
    gf_pairs_collect c;
    int turns, steps, column_tiles;
};

/* d (+)= a b, 16 numbers of float16. */
static __device__ __forceinline__ void half_product(float (&d)[32][4], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 " GF_LARGE_NAMES ", %128, %129, add, 1, 1, 0, 0;\n}"
                 : GF_LARGE_SUMS(d)
                 : "l"(a), "l"(b), "r"(add));
}

/* As gf_large_sums. */
static __device__ __forceinline__ void half_sums(float (&s)[32][4], gf_large_shared &sm, gf_large_place &at, int steps,
                                                 int lead) {
    gf_large_pin(s);
    gf_large_stages<CLUSTER>(sm, at, steps, lead, [&](uint32_t left, uint32_t right, bool first) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            half_product(s, gf_operand_at(left + 32 * k, 16), gf_operand_at(right + 32 * k, 16), !first || k > 0);
    });
    gf_large_pin(s);
}

/* ---- a tile ---- */

static __device__ __forceinline__ int64_t row_tile(const fused_job &x) {
    return x.c.band0 / GF_LARGE_ROWS + blockIdx.x / (CLUSTER * x.turns) * CLUSTER + blockIdx.x % CLUSTER;
}
/* Columns left of the rows' own tile are the mirror of others. */
static __device__ __forceinline__ int first_tile(const fused_job &x) {
    const int own = static_cast<int>(row_tile(x) * GF_LARGE_ROWS / GF_LARGE_COLS);
    return static_cast<int>(blockIdx.x / CLUSTER % x.turns) + (x.c.both ? own : 0);
}

/* Smallest similarity that matters to the row or the column of sum i of block n. */
static __device__ __forceinline__ bool reaches(const float (&s)[32][4], int n, int i, float low0, float low1,
                                               const float2 &limit) {
    return s[n][i] >= (i / 2 ? low1 : low0) || s[n][i] >= (i % 2 ? limit.y : limit.x);
}

/* Puts what reaches the window of either end into the queue, from number `from` on; returns how many there are. min: of the
 * columns. */
static __device__ __forceinline__ int queue_up(const float (&s)[32][4], const float *min, uint64_t *queue, float low0, float low1,
                                               int from) {
    const int lane = threadIdx.x % 32, t = lane % 4, r = lane / 4;
    const unsigned before = (1u << lane) - 1u;
    int at = -from;
#pragma unroll
    for (int q = 0; q < 32 / BLOCKS; q++) {
        float2 limit[BLOCKS];
        bool any = false;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            limit[b] = *reinterpret_cast<const float2 *>(min + 8 * (BLOCKS * q + b) + 2 * t);
#pragma unroll
            for (int i = 0; i < 4; i++) any |= reaches(s, BLOCKS * q + b, i, low0, low1, limit[b]);
        }
        if (!__any_sync(0xffffffffu, any)) continue;
#pragma unroll
        for (int k = 0; k < 4 * BLOCKS; k++) {
            const int n = BLOCKS * q + k / 4, i = k % 4;
            const bool in = reaches(s, n, i, low0, low1, limit[k / 4]);
            const unsigned all = __ballot_sync(0xffffffffu, in);
            const int place = at + __popc(all & before);
            if (in && place >= 0 && place < QUEUE)
                queue[place] = static_cast<uint64_t>(__float_as_uint(s[n][i])) << 32 |
                               static_cast<uint32_t>((r + 8 * (i / 2)) << 8 | (8 * n + 2 * t + i % 2));
            at += __popc(all);
        }
    }
    return at + from;
}

/* Each lane takes some entries at once, so that their loads are in flight together. */
static __device__ __forceinline__ void take_queue(const fused_job &x, fused_shared &sm, const uint64_t *queue, int count,
                                                  int64_t r0, int64_t c0) {
    const int row0 = static_cast<int>(threadIdx.x / 32) * 16;
    for (int e0 = static_cast<int>(threadIdx.x % 32); e0 < count; e0 += 32 * TAKEN) {
        gf_pairs_window col[TAKEN];
        uint64_t one[TAKEN];
#pragma unroll
        for (int k = 0; k < TAKEN; k++) {
            one[k] = e0 + 32 * k < count ? queue[e0 + 32 * k] : 0;
            const int64_t c = c0 + static_cast<int>(one[k] & 255);
            if (x.c.both && c < x.c.k.n) col[k] = x.c.window[c];
        }
#pragma unroll
        for (int k = 0; k < TAKEN; k++) {
            const int r = row0 + static_cast<int>(one[k] >> 8 & 15), c = static_cast<int>(one[k] & 255);
            const gf_row_counts counts = {sm.above + r, sm.hits + r, sm.mutual + r};
            if (e0 + 32 * k < count)
                gf_collect_pair(x.c, r0 + r, c0 + c, __uint_as_float(static_cast<uint32_t>(one[k] >> 32)), sm.window[r], col[k],
                                counts);
        }
    }
}

static __device__ __forceinline__ void take_tile(const fused_job &x, fused_shared &sm, const float (&s)[32][4],
                                                 const float *min_columns, float low0, float low1, int64_t r0, int c0) {
    uint64_t *const queue = sm.queue[threadIdx.x / 32];
    for (int from = 0, count = 1; from < count; from += QUEUE) {
        count = queue_up(s, min_columns, queue, low0, low1, from);
        __syncwarp();
        take_queue(x, sm, queue, min(count - from, QUEUE), r0, c0);
        __syncwarp();
    }
}

/* ---- the sweep ---- */

static __device__ __forceinline__ void add_counts(const fused_job &x, const fused_shared &sm, int64_t r0) {
    for (int r = static_cast<int>(threadIdx.x); r < GF_LARGE_ROWS && r0 + r < x.c.q.n; r += GF_LARGE_WORKERS) {
        if (sm.above[r]) atomicAdd(&x.c.above[r0 + r], sm.above[r]);
        if (sm.hits[r]) atomicAdd(&x.c.hits[r0 + r], sm.hits[r]);
        if (sm.mutual[r]) atomicAdd(&x.c.mutual[r0 + r], sm.mutual[r]);
    }
}

static __device__ __forceinline__ void calculate(const fused_job &x, fused_shared &sm) {
    const int64_t r0 = row_tile(x) * GF_LARGE_ROWS, row = r0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    const int group = gf_wg_index();
    const bool any = r0 < x.c.q.n;
    const float low0 = any ? x.c.min[row] : CUDART_INF_F, low1 = any ? x.c.min[row + 8] : CUDART_INF_F;
    const int own = static_cast<int>(threadIdx.x % 128);
    gf_large_place at = {0, 0};
    int turn = 0;
    gf_large_follow(group);
    for (int j = first_tile(x), lead = min(GF_LARGE_LEAD, x.steps - 1); j < x.column_tiles; j += x.turns, lead = -1, turn ^= 1) {
        float s[32][4];
        float2 limit = make_float2(CUDART_INF_F, CUDART_INF_F); /* loaded while the products are made */
        if (x.c.both) limit = __ldg(reinterpret_cast<const float2 *>(x.c.min + j * GF_LARGE_COLS) + own);
        half_sums(s, sm.tiles, at, x.steps, lead);
        reinterpret_cast<float2 *>(sm.min[group][turn])[own] = limit;
        asm volatile("bar.sync %0, 128;" ::"r"(3 + group) : "memory");
        take_tile(x, sm, s, sm.min[group][turn], low0, low1, r0, j * GF_LARGE_COLS);
    }
    asm volatile("bar.sync 2, 256;" ::: "memory");
    add_counts(x, sm, r0);
}

static __global__ void __launch_bounds__(GF_LARGE_WORKERS + 128, 1)
    pairs_fused(const __grid_constant__ fused_job x, const __grid_constant__ CUtensorMap rows,
                const __grid_constant__ CUtensorMap columns) {
    extern __shared__ __align__(1024) unsigned char shared[];
    fused_shared &sm = *reinterpret_cast<fused_shared *>(shared);
    for (int i = static_cast<int>(threadIdx.x); i < GF_LARGE_ROWS; i += GF_LARGE_WORKERS + 128)
        sm.above[i] = sm.hits[i] = sm.mutual[i] = 0;
    gf_large_wait_for_inputs();
    for (int i = static_cast<int>(threadIdx.x); i < GF_LARGE_ROWS; i += GF_LARGE_WORKERS + 128)
        if (row_tile(x) * GF_LARGE_ROWS + i < x.c.q.n) sm.window[i] = x.c.window[row_tile(x) * GF_LARGE_ROWS + i];
    gf_large_begin<CLUSTER>(sm.tiles);
    if (threadIdx.x < GF_LARGE_WORKERS) {
        gf_wg_take_registers<240>();
        if (first_tile(x) < x.column_tiles) calculate(x, sm);
    } else {
        gf_wg_give_registers();
        if (threadIdx.x == GF_LARGE_WORKERS) {
            gf_large_place at = {0, 0};
            for (int j = first_tile(x); j < x.column_tiles; j += x.turns)
                for (int d = 0; d < x.steps; d++, at.advance())
                    gf_large_fetch_along<CLUSTER>(sm.tiles, at, &rows, &columns, d * GF_LARGE_STEP,
                                                  static_cast<int>(row_tile(x) * GF_LARGE_ROWS), j * GF_LARGE_COLS);
        }
    }
    gf_large_end<CLUSTER>();
}

/* ---- launches ---- */

int gf_pairs_can_fuse(void) {
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major == 9;
}

cudaError_t gf_pairs_collect_fused(const gf_pairs_collect *c, cudaStream_t stream) {
    int device = 0, processors = 0;
    CUtensorMap rows, columns;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess)
        e = gf_wide_map(&rows, static_cast<const __nv_bfloat16 *>(c->q.half), static_cast<int>(c->q.n), c->q.ld, GF_LARGE_ROWS);
    if (e == cudaSuccess)
        e = gf_wide_map(&columns, static_cast<const __nv_bfloat16 *>(c->k.half), static_cast<int>(c->k.n), c->k.ld,
                        GF_LARGE_COLS / 2);
    if (e != cudaSuccess) return e;
    fused_job x = {*c, 1, (c->k.ld + GF_LARGE_STEP - 1) / GF_LARGE_STEP, gf_large_tiles(c->k.n, GF_LARGE_COLS)};
    const unsigned grid = gf_large_grid(c->band_n, CLUSTER);
    const int left = x.column_tiles - (c->both ? static_cast<int>(c->band0 / GF_LARGE_COLS) : 0);
    x.turns = gf_large_turns(grid, left, 1, processors);
    return gf_large_launch(pairs_fused, dim3(grid * static_cast<unsigned>(x.turns)), CLUSTER, sizeof(fused_shared), stream, x,
                           rows, columns);
}
