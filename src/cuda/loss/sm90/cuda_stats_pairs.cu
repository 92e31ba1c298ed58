/* cuda_stats_pairs.cu - pass B on Hopper where rows and columns are the same 128-dimensional embeddings: every pair of rows is
 * made once and serves both its anchors. Half the products and exponentials of cuda_stats_wgmma.cu.
 *
 * A block of threads holds 256 columns while tiles of 64 rows go by, two at a time in each of its two warpgroups. Sums of the
 * columns stay in registers to the end; those of a row over the 256 columns leave with each tile. Both are written as parts,
 * which `fold` adds up in their order: the same bits every time.
 *
 * Rows in blocks of 256 stand in a circle: the columns of block i meet the rows of blocks i, i + 1, ... up to half the circle.
 * At distance 0, and at exactly half, both ends of a pair come by as columns, so rows count only in between.
 */
#include "cuda/loss/cuda_kernels.cuh"
#include "cuda/loss/tile_element.cuh"
#include "cuda/loss/tile_wgmma.cuh"

#define GROUPS 2                /* warpgroups that calculate, each with 128 of the columns */
#define COLS (GF_WG_COLS * GROUPS)      /* of a block */
#define ROWS 64                 /* of a tile */
#define PER_BLOCK (COLS / ROWS) /* tiles */
#define STAGES 8
#define WORKERS (128 * GROUPS)
#define HIGH 4096.0f            /* a float counts two columns, one in units of this */
#define MOST_TILES 2000         /* of a block: each may add 2 to a count */

struct job {
    gf_tile_args a;             /* row: numbers and results; k is q */
    float *sums;                /* [parts][rows] */
    int32_t *counts;
    int blocks;                 /* of COLS rows */
    int first, distances;       /* of the circle, that this launch goes through */
    int splits;                 /* thread blocks that share the tiles of one block of columns */
    int row_parts;              /* distances at which rows count; then comes a part of each split */
    bool adds;                  /* fold: to what is there */
};

struct shared_memory {
    unsigned char columns[GROUPS][GF_WG_TILE], tiles[STAGES][2 * ROWS * 128];
    float limit[COLS];
    float row_sum[2][GROUPS][COLS], row_count[2][GROUPS][COLS]; /* of the rows of one block */
    uint64_t full[STAGES], empty[STAGES], columns_full;
};

struct warp_sums {              /* of the columns, where the tiles were */
    float sum[4][COLS];
    int count[4][COLS];
};

struct column_sums {            /* of one thread: columns 8 n + 2 (lane % 4) + 0, 1 */
    float sum[16][2], count[16];
};

struct tile_rows {              /* of one thread: rows lane / 4 and 8 more */
    float limit[2], sum[2], count[2];
};

static __device__ __forceinline__ void wait_for_workers() { asm volatile("bar.sync 1, %0;" ::"n"(WORKERS) : "memory"); }

static __host__ __device__ bool rows_count(const job &x, int distance) {
    return distance > 0 && (x.blocks % 2 || distance < x.blocks / 2);
}

/* First row of tile t of this block of columns. */
static __device__ __forceinline__ int tile_row(const job &x, int t) {
    int block = blockIdx.x + x.first + t / PER_BLOCK;
    if (block >= x.blocks) block -= x.blocks;
    return block * COLS + t % PER_BLOCK * ROWS;
}

/* ---- one tile ---- */

/* r0, c0: the warp's first row and column, looked at only if some of them are no pairs: DIRTY. S stays as it is. */
template <unsigned FLAGS, bool DIRTY>
static __device__ __forceinline__ void add_tile(const gf_tile_args &a, const float (&s)[16][4], int r0, int c0,
                                                const float *limits, float k, tile_rows &x, column_sums &y) {
    const int r = r0 + threadIdx.x % 32 / 4, c = c0 + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < 16; n++) {
        float2 limit = {};
        if (FLAGS) limit = *reinterpret_cast<const float2 *>(limits + 8 * n);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float of_column = i % 2 ? limit.y : limit.x, one = i % 2 ? HIGH : 1.0f;
            const bool pair = !DIRTY || gf_is_pair(a, r + 8 * (i / 2), c + 8 * n + i % 2);
            const float v = pair ? s[n][i] : FLAGS ? CUDART_NAN_F : -CUDART_INF_F;
            if (FLAGS & GF_ABOVE) {
                if (v > x.limit[i / 2]) x.count[i / 2] += 1.0f;
                if (v > of_column) y.count[n] += one;
                continue;
            }
            const float e = gf_exp_fast::of(v * k);
            if (!FLAGS || v <= x.limit[i / 2]) {
                x.sum[i / 2] += e;
                if (FLAGS) x.count[i / 2] += 1.0f;
            }
            if (!FLAGS || v <= of_column) {
                y.sum[n][i % 2] += e;
                if (FLAGS) y.count[n] += one;
            }
        }
    }
}

/* Sums of the tile's rows over the group's columns: to shared memory, at the row's place in its block. */
template <unsigned FLAGS>
static __device__ __forceinline__ void leave_rows(shared_memory &sm, int half, int group, int at, tile_rows &x) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
        for (int lanes = 1; lanes < 4; lanes *= 2) {
            if (!(FLAGS & GF_ABOVE)) x.sum[h] += __shfl_xor_sync(0xffffffffu, x.sum[h], lanes);
            if (FLAGS) x.count[h] += __shfl_xor_sync(0xffffffffu, x.count[h], lanes);
        }
        if (threadIdx.x % 4) continue;
        const int r = at + 8 * h + threadIdx.x % 32 / 4;
        if (!(FLAGS & GF_ABOVE)) sm.row_sum[half][group][r] = x.sum[h];
        if (FLAGS) sm.row_count[half][group][r] = x.count[h];
    }
}

/* The rows of a block, once its tiles [from, to] are through, become a part. */
template <unsigned FLAGS>
static __device__ __forceinline__ void write_rows(const job &x, shared_memory &sm, int half, int from, int to) {
    const int distance = x.first + to / PER_BLOCK, at = threadIdx.x, tile = at / ROWS;
    wait_for_workers();
    if (!rows_count(x, distance) || tile < from % PER_BLOCK || tile > to % PER_BLOCK) return;
    const int r = tile_row(x, to - to % PER_BLOCK) + at, part = distance - (x.first > 0 ? x.first : 1);
    if (r >= x.a.q.rows) return;
    const size_t place = size_t(part) * x.a.q.rows + r;
    const auto &sum = sm.row_sum[half], &count = sm.row_count[half];
    if (!(FLAGS & GF_ABOVE)) x.sums[place] = sum[0][at] + sum[1][at];
    if (FLAGS) x.counts[place] = int(count[0][at] + count[1][at]);
}

/* Sums of the group's columns over all tiles: the part of this split. */
template <unsigned FLAGS>
static __device__ __forceinline__ void write_columns(const job &x, shared_memory &sm, int group, const column_sums &y) {
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    warp_sums &to = *reinterpret_cast<warp_sums *>(sm.tiles);
    static_assert(sizeof to <= sizeof sm.tiles, "sums fit where the tiles were");
    wait_for_workers();         /* nobody reads a tile any more */
#pragma unroll
    for (int n = 0; n < 16; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float sum = y.sum[n][j];
            int count = j ? int(y.count[n]) / int(HIGH) : int(y.count[n]) % int(HIGH);
            for (int lanes = 4; lanes < 32; lanes *= 2) {
                if (!(FLAGS & GF_ABOVE)) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
                if (FLAGS) count += __shfl_xor_sync(0xffffffffu, count, lanes);
            }
            const int at = group * GF_WG_COLS + 8 * n + 2 * lane + j;
            if (lane < 4) to.sum[warp][at] = sum, to.count[warp][at] = count;
        }
    wait_for_workers();
    const int at = threadIdx.x, c = blockIdx.x * COLS + at;
    if (c >= x.a.q.rows) return;
    const size_t place = size_t(x.row_parts + blockIdx.y) * x.a.q.rows + c;
    if (!(FLAGS & GF_ABOVE)) x.sums[place] = to.sum[0][at] + to.sum[1][at] + to.sum[2][at] + to.sum[3][at];
    if (FLAGS) x.counts[place] = to.count[0][at] + to.count[1][at] + to.count[2][at] + to.count[3][at];
}

/* ---- all tiles ---- */

template <unsigned FLAGS>
static __device__ __forceinline__ float limit_of(const gf_tile_args &a, int r) {
    return r < a.q.rows ? (FLAGS & GF_ABOVE ? a.row.mid : a.row.lo)[r] : CUDART_INF_F;
}

/* One thread of a warpgroup that calculates. */
template <unsigned FLAGS>
struct worker {
    const job &x;
    shared_memory &sm;
    int from, to;               /* tiles of this thread block: [from, to) */
    int group, row;             /* the warp's first row in a tile */
    float k;
    float next[2];              /* limits of the rows of the next tile */
    column_sums y;

    __device__ __forceinline__ void ask_limits(int t) {
        const int r = tile_row(x, t) + row + threadIdx.x % 32 / 4;
        if (FLAGS) next[0] = limit_of<FLAGS>(x.a, r), next[1] = limit_of<FLAGS>(x.a, r + 8);
    }

    /* Past the last tile the result is nothing to anybody. */
    __device__ __forceinline__ void start(float (&s)[16][4], int t) {
        const int stage = (t - from) % STAGES;
        if (t < to) gf_barrier_wait(gf_shared_address(&sm.full[stage]), (t - from) / STAGES & 1);
        gf_wg_scores_anew(s, gf_shared_address(sm.tiles[stage]), ROWS * 128, gf_shared_address(sm.columns[group]), GF_WG_HALF);
    }

    __device__ __forceinline__ void add(float (&s)[16][4], int t) {
        const int r0 = tile_row(x, t), c0 = blockIdx.x * COLS + group * GF_WG_COLS, half = t / PER_BLOCK % 2;
        const float *limits = sm.limit + group * GF_WG_COLS + 2 * (threadIdx.x % 4);
        gf_wg_pin(s);
        __syncwarp();
        if (threadIdx.x % 32 == 0) gf_barrier_arrive(gf_shared_address(&sm.empty[(t - from) % STAGES]));
        tile_rows z = {{next[0], next[1]}, {0.0f, 0.0f}, {0.0f, 0.0f}};
        if (t + 1 < to) ask_limits(t + 1);
        if (r0 + ROWS > x.a.q.rows || gf_is_dirty(x.a, r0, ROWS, c0, GF_WG_COLS))
            add_tile<FLAGS, true>(x.a, s, r0 + row, c0, limits, k, z, y);
        else add_tile<FLAGS, false>(x.a, s, r0 + row, c0, limits, k, z, y);
        leave_rows<FLAGS>(sm, half, group, t % PER_BLOCK * ROWS + row, z);
        if (t % PER_BLOCK != PER_BLOCK - 1 && t + 1 < to) return;
        const int begun = t - t % PER_BLOCK;
        write_rows<FLAGS>(x, sm, half, begun < from ? from : begun, t);
    }
};

/* Two tiles of S: while one is summed, the tensor cores make the other. */
template <unsigned FLAGS>
static __device__ __forceinline__ void sum_tiles(const job &x, shared_memory &sm, int from, int to) {
    worker<FLAGS> w = {x, sm, from, to, int(threadIdx.x / 128), int(threadIdx.x % 128 / 32 * 16)};
    float s[16][4], u[16][4];
    if (FLAGS) sm.limit[threadIdx.x] = limit_of<FLAGS>(x.a, blockIdx.x * COLS + threadIdx.x);
    w.k = FLAGS & GF_ABOVE ? 0.0f : x.a.row.inv_tau[0] * gf_exp_fast::scale;
    w.y = {};
    w.ask_limits(from);
    wait_for_workers();
    gf_barrier_wait(gf_shared_address(&sm.columns_full), 0);
    for (int t = from; t < to; t += 2) {
        w.start(s, t);
        w.start(u, t + 1);
        gf_wg_wait<1>();
        w.add(s, t);
        gf_wg_wait<0>();
        if (t + 1 < to) w.add(u, t + 1);
    }
    write_columns<FLAGS>(x, sm, w.group, w.y);
}

/* One thread: tiles of rows. */
static __device__ __forceinline__ void fetch_tiles(const job &x, shared_memory &sm, const CUtensorMap *rows, int from, int to) {
    for (int t = from; t < to; t++) {
        const int stage = (t - from) % STAGES, lap = (t - from) / STAGES, r0 = tile_row(x, t);
        const uint32_t ready = gf_shared_address(&sm.full[stage]), at = gf_shared_address(sm.tiles[stage]);
        if (lap > 0) gf_barrier_wait(gf_shared_address(&sm.empty[stage]), (lap - 1) & 1);
        gf_barrier_expect(ready, 2 * ROWS * 128);
        gf_copy_box(at, rows, 0, r0, ready);
        gf_copy_box(at + ROWS * 128, rows, 64, r0, ready);
    }
}

static __device__ __forceinline__ void begin(shared_memory &sm, const CUtensorMap *columns) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            gf_barrier_init(gf_shared_address(&sm.full[i]), 1);
            gf_barrier_init(gf_shared_address(&sm.empty[i]), WORKERS / 32);
        }
        const uint32_t ready = gf_shared_address(&sm.columns_full);
        gf_barrier_init(ready, 1);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        gf_barrier_expect(ready, GROUPS * GF_WG_TILE);
        for (int i = 0; i < GROUPS; i++) {
            const uint32_t at = gf_shared_address(sm.columns[i]);
            gf_copy_box(at, columns, 0, blockIdx.x * COLS + i * GF_WG_COLS, ready);
            gf_copy_box(at + GF_WG_HALF, columns, 64, blockIdx.x * COLS + i * GF_WG_COLS, ready);
        }
    }
    __syncthreads();
}

template <unsigned FLAGS>
static __global__ void __launch_bounds__(WORKERS + 128, 1) stats_pairs(const __grid_constant__ job x,
                                                                       const __grid_constant__ CUtensorMap rows,
                                                                       const __grid_constant__ CUtensorMap columns) {
    extern __shared__ __align__(1024) unsigned char shared[];
    shared_memory &sm = *reinterpret_cast<shared_memory *>(shared);
    const int tiles = x.distances * PER_BLOCK;
    const int from = tiles * blockIdx.y / x.splits, to = tiles * (blockIdx.y + 1) / x.splits;
    begin(sm, &columns);
    if (threadIdx.x < WORKERS) {
        gf_wg_take_registers<240>();
        sum_tiles<FLAGS>(x, sm, from, to);
    } else {
        gf_wg_give_registers();
        if (threadIdx.x == WORKERS) fetch_tiles(x, sm, &rows, from, to);
    }
}

/* ---- parts ---- */

#define WARPS 8

/* 32 rows: each warp adds up every eighth part, the first one then these sums. */
template <unsigned FLAGS>
static __global__ void __launch_bounds__(32 * WARPS) fold(const __grid_constant__ job x) {
    __shared__ double sums[WARPS][32];
    __shared__ int counts[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, r = blockIdx.x * 32 + lane, rows = x.a.q.rows;
    double sum = 0.0;
    int count = 0;
#pragma unroll 8
    for (int i = warp; i < x.row_parts + x.splits && r < rows; i += WARPS) {
        if (!(FLAGS & GF_ABOVE)) sum += double(x.sums[size_t(i) * rows + r]);
        if (FLAGS) count += x.counts[size_t(i) * rows + r];
    }
    sums[warp][lane] = sum, counts[warp][lane] = count;
    __syncthreads();
    if (warp > 0 || r >= rows) return;
    for (int i = 1; i < WARPS; i++) sum += sums[i][lane], count += counts[i][lane];
    const gf_rows &y = x.a.row;
    if (FLAGS & GF_ABOVE) {
        y.above[r] = count + (x.adds ? y.above[r] : 0);
        return;
    }
    y.sum[r] = sum + (x.adds ? y.sum[r] : 0.0);
    if (FLAGS) y.kept[r] = count + (x.adds ? y.kept[r] : 0);
    if (y.peak) y.peak[r] = 0.0f;
}

/* ---- launches ---- */

/* Into how many splits: as many as give every multiprocessor the same to do. A block costs about 6 tiles more than it sums. */
static int best_splits(const job &x, int most) {
    const int64_t processors = gf_device_attribute(cudaDevAttrMultiProcessorCount);
    const int tiles = x.distances * PER_BLOCK;
    int best = 1;
    int64_t least = INT64_MAX;
    for (int splits = 1; splits <= most && splits <= tiles; splits++) {
        const int64_t waves = (int64_t(x.blocks) * splits + processors - 1) / processors;
        const int64_t time = waves * ((tiles + splits - 1) / splits + 6);
        if (time < least) least = time, best = splits;
    }
    return best;
}

template <unsigned FLAGS>
static cudaError_t launch(const job &x, const CUtensorMap &rows, const CUtensorMap &columns, cudaStream_t stream) {
    const int bytes = sizeof(shared_memory);
    cudaError_t e = cudaFuncSetAttribute(stats_pairs<FLAGS>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e != cudaSuccess) return e;
    stats_pairs<FLAGS><<<dim3(x.blocks, x.splits), WORKERS + 128, bytes, stream>>>(x, rows, columns);
    fold<FLAGS><<<(x.a.q.rows + 31) / 32, 32 * WARPS, 0, stream>>>(x);
    return cudaGetLastError();
}

static cudaError_t launch_any(const job &x, const CUtensorMap &rows, const CUtensorMap &columns, cudaStream_t stream) {
    if (x.a.flags & GF_ABOVE) return launch<GF_ABOVE>(x, rows, columns, stream);
    return x.a.flags & GF_MASK ? launch<GF_MASK | GF_COUNT>(x, rows, columns, stream) : launch<0>(x, rows, columns, stream);
}

/* Parts for which there is room. */
static int parts_that_fit(const gf_tile_args &a) {
    const size_t part = (sizeof(float) + sizeof(int32_t)) * static_cast<size_t>(a.q.rows), fit = a.room_bytes / part;
    return fit < MOST_TILES / PER_BLOCK ? static_cast<int>(fit) : MOST_TILES / PER_BLOCK;
}

bool gf_stats_takes_pairs(const gf_tile_args &a) {
    const bool known = a.flags == GF_ABOVE || a.flags == (GF_MASK | GF_COUNT) || a.flags == 0;
    return known && a.q.hi == a.k.hi && a.q.rows == a.k.rows && a.q0 == 0 && a.ld == 128 && a.room && parts_that_fit(a) > 1;
}

/* All distances at once where their parts fit in the room, else one after the other as many as do. */
cudaError_t gf_stats_pairs(const gf_tile_args &a, cudaStream_t stream) {
    job x = {};
    x.a = a;
    x.blocks = (a.q.rows + COLS - 1) / COLS;
    const int all = x.blocks / 2 + 1, fit = parts_that_fit(a);
    CUtensorMap rows, columns;
    cudaError_t e = gf_wg_map(&rows, a.q.hi, a.q.rows, ROWS);
    if (e == cudaSuccess) e = gf_wg_map(&columns, a.k.hi, a.k.rows, GF_WG_COLS);
    for (x.first = 0; e == cudaSuccess && x.first < all; x.first += x.distances) {
        x.row_parts = 0;
        for (x.distances = 0; x.first + x.distances < all; x.distances++) {
            const int more = rows_count(x, x.first + x.distances);
            if (x.row_parts + more >= fit) break;
            x.row_parts += more;
        }
        x.splits = best_splits(x, fit - x.row_parts);
        x.sums = static_cast<float *>(a.room);
        x.counts = reinterpret_cast<int32_t *>(x.sums + static_cast<size_t>(x.row_parts + x.splits) * a.q.rows);
        x.adds = x.first > 0;
        e = launch_any(x, rows, columns, stream);
    }
    return e;
}
