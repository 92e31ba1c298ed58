/* cuda_stats_pairs.cu - pass B on Hopper where rows and columns are the same 128-dimensional embeddings: every pair of rows is
 * computed once and serves both its anchors. Half the products and exponentials of cuda_stats_wgmma.cu.
 *
 * A block of threads holds 256 columns, half of them in each of its two warpgroups, while it streams tiles of 64 rows. Sums of
 * the columns stay in registers to the end; those of a row over the 256 columns are written with each tile. Both are written as
 * parts, which `fold` adds up in their order: the same bits every time.
 *
 * Blocks of 256 rows form a circle: the columns of block i meet the rows of blocks i, i + 1, ... up to half the circle. At
 * distance 0, and at exactly half, both ends of a pair occur as columns, so rows count only in between.
 */
#include "cuda/passes/tile_element.cuh"
#include "cuda/sm90/hopper.cuh"
#include "cuda/sm90/tile_wgmma.cuh"

#define GROUPS 2                   /* computing warpgroups, each with 128 of the columns */
#define COLS (GF_WG_COLS * GROUPS) /* of a block */
#define ROWS 64                    /* of a tile */
#define PER_BLOCK (COLS / ROWS)    /* tiles */
#define STAGES 8
#define WORKERS (128 * GROUPS)
#define HIGH 4096.0f   /* a float counts two columns, one in units of this */
#define TILES_MAX 2000 /* of a block: each may add 2 to a count */
#define RING 4         /* blocks whose sums of rows are kept: they are written half a block later, so that no thread waits */

struct job {
    gf_tile_args a; /* row: numbers and results; k is q */
    float *sums;    /* [parts][rows] */
    int32_t *counts;
    int blocks;           /* of COLS rows */
    int first, distances; /* of the circle, in this launch */
    int splits;           /* thread blocks that share the tiles of one block of columns */
    int row_parts;        /* distances at which rows count; a part of each split follows */
    bool adds;            /* fold: to the present content */
};

struct shared_memory {
    unsigned char columns[GROUPS][GF_WG_TILE], tiles[STAGES][2 * ROWS * 128];
    float limit[COLS];
    float row_sum[GROUPS][RING * COLS], row_count[GROUPS][RING * COLS];
    uint64_t full[STAGES], empty[STAGES], columns_full[GROUPS], rows_done[RING];
};

struct thread_sums { /* of the columns, in the memory of the tiles: 8 threads of 4 warps share each. 8 more: different banks */
    float sum[32][COLS + 8];
    unsigned count[32][COLS / 2 + 8]; /* two columns each, one in units of HIGH */
};

struct column_sums { /* of one thread: columns 8 n + 2 (lane % 4) + 0, 1 */
    float sum[16][2], count[16];
    float2 limit[16]; /* GF_ABOVE, where registers are left */
};

struct tile_rows { /* of one thread: rows lane / 4 and 8 more */
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

/* Blanks entries that are no pair: NaN fails every comparison, the exponential of -inf is 0. r0, c0: the warp's first row and
 * column. */
template <unsigned FLAGS> static __device__ __forceinline__ void blank(const gf_tile_args &a, float (&s)[16][4], int r0, int c0) {
    const int r = r0 + threadIdx.x % 32 / 4, c = c0 + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < 16; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!gf_is_pair(a, r + 8 * (i / 2), c + 8 * n + i % 2)) s[n][i] = FLAGS ? CUDART_NAN_F : -CUDART_INF_F;
}

/* limits: those of the columns. */
template <unsigned FLAGS>
static __device__ __forceinline__ void add_tile(const float (&s)[16][4], const float *limits, float k, tile_rows &x,
                                                column_sums &y) {
#pragma unroll
    for (int n = 0; n < 16; n++) {
        float2 limit = {};
        if (FLAGS & GF_ABOVE) limit = y.limit[n];
        else if (FLAGS) limit = *reinterpret_cast<const float2 *>(limits + 8 * n);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float v = s[n][i], of_column = i % 2 ? limit.y : limit.x, one = i % 2 ? HIGH : 1.0f;
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

/* Sums of the tile's rows over the group's columns: to shared memory, from the warp's first row on. */
template <unsigned FLAGS> static __device__ __forceinline__ void leave_rows(float *sums, float *counts, tile_rows &x) {
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (!(FLAGS & GF_ABOVE)) x.sum[h] += __shfl_xor_sync(0xffffffffu, x.sum[h], lanes);
            if (FLAGS) x.count[h] += __shfl_xor_sync(0xffffffffu, x.count[h], lanes);
        }
    const int at = threadIdx.x % 32 / 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (!(FLAGS & GF_ABOVE) && threadIdx.x % 4 == 0) sums[at + 8 * h] = x.sum[h];
        if (FLAGS && threadIdx.x % 4 == 0) counts[at + 8 * h] = x.count[h];
    }
}

/* Writes the part of the rows of a block, after its tiles [from, to]. */
template <unsigned FLAGS>
static __device__ __forceinline__ void write_rows(const job &x, const shared_memory &sm, int from, int to) {
    const int distance = x.first + to / PER_BLOCK, tile = threadIdx.x / ROWS, at = to / PER_BLOCK % RING * COLS + threadIdx.x;
    if (!rows_count(x, distance) || tile < from % PER_BLOCK || tile > to % PER_BLOCK) return;
    const int r = tile_row(x, to - to % PER_BLOCK) + threadIdx.x, part = distance - (x.first > 0 ? x.first : 1);
    if (r >= x.a.q.rows) return;
    const size_t place = size_t(part) * x.a.q.rows + r;
    if (!(FLAGS & GF_ABOVE)) x.sums[place] = sm.row_sum[0][at] + sm.row_sum[1][at];
    if (FLAGS) x.counts[place] = int(sm.row_count[0][at] + sm.row_count[1][at]);
}

/* Sums of the group's columns over all tiles: the part of this split. */
template <unsigned FLAGS>
static __device__ __forceinline__ void write_columns(const job &x, shared_memory &sm, int group, const column_sums &y) {
    const int line = threadIdx.x % 128 / 4, t = threadIdx.x % 4;
    thread_sums &to = *reinterpret_cast<thread_sums *>(sm.tiles);
    static_assert(sizeof to <= sizeof sm.tiles, "sums fit where the tiles were");
    wait_for_workers(); /* no tile is read any more */
#pragma unroll
    for (int n = 0; n < 16; n++) {
        const int at = group * GF_WG_COLS + 8 * n + 2 * t;
        if (!(FLAGS & GF_ABOVE)) *reinterpret_cast<float2 *>(&to.sum[line][at]) = make_float2(y.sum[n][0], y.sum[n][1]);
        if (FLAGS) to.count[line][at / 2] = unsigned(y.count[n]);
    }
    wait_for_workers();
    const int at = threadIdx.x, c = blockIdx.x * COLS + at;
    float sum = 0.0f;
    unsigned count = 0;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        if (!(FLAGS & GF_ABOVE)) sum += to.sum[i][at];
        if (FLAGS) count += at % 2 ? to.count[i][at / 2] / unsigned(HIGH) : to.count[i][at / 2] % unsigned(HIGH);
    }
    if (c >= x.a.q.rows) return;
    const size_t place = size_t(x.row_parts + blockIdx.y) * x.a.q.rows + c;
    if (!(FLAGS & GF_ABOVE)) x.sums[place] = sum;
    if (FLAGS) x.counts[place] = int(count);
}

/* ---- all tiles ---- */

template <unsigned FLAGS> static __device__ __forceinline__ float limit_of(const gf_tile_args &a, int r) {
    return r < a.q.rows ? (FLAGS & GF_ABOVE ? a.row.mid : a.row.lo)[r] : CUDART_INF_F;
}

/* One thread of a computing warpgroup. */
template <unsigned FLAGS> struct worker {
    const job &x;
    shared_memory &sm;
    int from, to;   /* tiles of this thread block: [from, to) */
    int group, row; /* the warp's first row in a tile */
    int dirty;      /* tiles before this one hold entries that are no pair; later ones only if rows end in them */
    int row0;       /* of the tile */
    float k;
    float next[2]; /* limits of the rows of the next tile */
    column_sums y;

    __device__ __forceinline__ void begin() {
        const int c0 = blockIdx.x * COLS + group * GF_WG_COLS;
        dirty = c0 + GF_WG_COLS > x.a.q.rows ? to : x.first == 0 ? PER_BLOCK : 0;
        row0 = tile_row(x, from);
        k = FLAGS & GF_ABOVE ? 0.0f : x.a.row.inv_tau[0] * gf_exp_fast::scale;
        y = {};
        ask_limits();
    }

    /* Limits of the thread's columns. */
    __device__ __forceinline__ const float *limits() const { return sm.limit + group * GF_WG_COLS + 2 * (threadIdx.x % 4); }

    /* Limits of the tile's rows; past the last row: those of the last one. */
    __device__ __forceinline__ void ask_limits() {
        if (!FLAGS) return;
        const float *from_rows = FLAGS & GF_ABOVE ? x.a.row.mid : x.a.row.lo;
        const int r = row0 + row + threadIdx.x % 32 / 4, last = x.a.q.rows - 1;
        next[0] = from_rows[r < last ? r : last], next[1] = from_rows[r + 8 < last ? r + 8 : last];
    }

    /* Tile t is complete. Past the last tile there is none; products of what lies there are never used. */
    __device__ __forceinline__ void await(int t) {
        const unsigned turn = t - from;
        if (t < to) gf_barrier_wait(gf_shared_address(&sm.full[turn % STAGES]), turn / STAGES & 1);
    }

    __device__ __forceinline__ void start(float (&s)[16][4], int t) {
        gf_wg_scores_anew(s, gf_shared_address(sm.tiles[unsigned(t - from) % STAGES]), ROWS * 128,
                          gf_shared_address(sm.columns[group]), GF_WG_HALF);
    }

    /* s, of tile t, is complete. Between the branches at the beginning and those after the sums there is none: so the compiler
     * puts the sums between the products of the next tile. All products have ended where the loop repeats: else it would run
     * them one after the other. */
    __device__ __forceinline__ void add(float (&s)[16][4], float (&following)[16][4], int t) {
        gf_wg_pin(s);
        __syncwarp();
        if (threadIdx.x % 32 == 0) gf_barrier_arrive(gf_shared_address(&sm.empty[unsigned(t - from) % STAGES]));
        if (t < dirty || row0 > x.a.q.rows - ROWS) blank<FLAGS>(x.a, s, row0 + row, blockIdx.x * COLS + group * GF_WG_COLS);
        await(t + 1);
        tile_rows z = {{next[0], next[1]}, {0.0f, 0.0f}, {0.0f, 0.0f}};
        row0 = row0 + ROWS < x.blocks * COLS ? row0 + ROWS : 0;
        start(following, t + 1);
        ask_limits();
        add_tile<FLAGS>(s, limits(), k, z, y);
        const int at = unsigned(t) % (RING * PER_BLOCK) * ROWS + row;
        leave_rows<FLAGS>(sm.row_sum[group] + at, sm.row_count[group] + at, z);
        if (t % PER_BLOCK == PER_BLOCK - 1 || t + 1 == to)
            gf_barrier_arrive(gf_shared_address(&sm.rows_done[t / PER_BLOCK % RING]));
        if (t % PER_BLOCK == PER_BLOCK / 2 && t / PER_BLOCK > from / PER_BLOCK) finish(t / PER_BLOCK - 1);
        gf_wg_wait<0>();
    }

    /* Writes the rows of a block, after all threads have stored theirs. Before a thread arrives for block b it has read block
     * b - 1 here, and before it stores sums of block b + 3 in the place of b - 1 it has waited for block b. */
    __device__ __forceinline__ void finish(int block) {
        const int first = block * PER_BLOCK, after = first + PER_BLOCK;
        gf_barrier_wait(gf_shared_address(&sm.rows_done[block % RING]), (block - from / PER_BLOCK) / RING & 1);
        write_rows<FLAGS>(x, sm, first < from ? from : first, (after < to ? after : to) - 1);
    }

    /* The last two blocks, or the last one. */
    __device__ __forceinline__ void finish_last() {
        const int last = (to - 1) / PER_BLOCK;
        if ((to - 1) % PER_BLOCK < PER_BLOCK / 2 && last > from / PER_BLOCK) finish(last - 1);
        finish(last);
    }
};

/* Two tiles of S: while one is summed, the tensor cores compute the other. */
template <unsigned FLAGS> static __device__ __forceinline__ void sum_tiles(const job &x, shared_memory &sm, int from, int to) {
    worker<FLAGS> w = {x, sm, from, to, gf_wg_index(), int(threadIdx.x % 128 / 32 * 16)};
    float s[16][4], u[16][4];
    if (FLAGS) sm.limit[threadIdx.x] = limit_of<FLAGS>(x.a, blockIdx.x * COLS + threadIdx.x);
    w.begin();
    wait_for_workers();
    for (int n = 0; FLAGS & GF_ABOVE && n < 16; n++) w.y.limit[n] = *reinterpret_cast<const float2 *>(w.limits() + 8 * n);
    gf_barrier_wait(gf_shared_address(&sm.columns_full[w.group]), 0);
    w.await(from);
    w.start(s, from);
    gf_wg_wait<0>();
    for (int t = from; t < to; t += 2) {
        w.add(s, u, t);
        if (t + 1 < to) w.add(u, s, t + 1);
    }
    w.finish_last();
    write_columns<FLAGS>(x, sm, w.group, w.y);
}

/* One thread fetches tiles of rows. */
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
        for (int i = 0; i < RING; i++) gf_barrier_init(gf_shared_address(&sm.rows_done[i]), WORKERS);
        for (int i = 0; i < GROUPS; i++) gf_barrier_init(gf_shared_address(&sm.columns_full[i]), 1);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        for (int i = 0; i < GROUPS; i++) {
            const uint32_t at = gf_shared_address(sm.columns[i]), ready = gf_shared_address(&sm.columns_full[i]);
            gf_barrier_expect(ready, GF_WG_TILE);
            gf_copy_box(at, columns, 0, blockIdx.x * COLS + i * GF_WG_COLS, ready);
            gf_copy_box(at + GF_WG_HALF, columns, 64, blockIdx.x * COLS + i * GF_WG_COLS, ready);
        }
    }
    __syncthreads();
}

template <unsigned FLAGS>
static __global__ void __launch_bounds__(WORKERS + 128, 1)
    stats_pairs(const __grid_constant__ job x, const __grid_constant__ CUtensorMap rows,
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
template <unsigned FLAGS> static __global__ void __launch_bounds__(32 * WARPS) fold(const __grid_constant__ job x) {
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
    const gf_cuda_rows &y = x.a.row;
    if (FLAGS & GF_ABOVE) {
        y.above[r] = count + (x.adds ? y.above[r] : 0);
        return;
    }
    y.sum[r] = sum + (x.adds ? y.sum[r] : 0.0);
    if (FLAGS) y.kept[r] = count + (x.adds ? y.kept[r] : 0);
    if (y.peak) y.peak[r] = 0.0f;
}

/* ---- launches ---- */

/* Number of splits that gives every multiprocessor the same work. A block costs about 6 tiles more than it sums. */
static int best_splits(const job &x, int max) {
    const int64_t processors = gf_device_attribute(cudaDevAttrMultiProcessorCount);
    const int tiles = x.distances * PER_BLOCK;
    int best = 1;
    int64_t shortest = INT64_MAX;
    for (int splits = 1; splits <= max && splits <= tiles; splits++) {
        const int64_t waves = (int64_t(x.blocks) * splits + processors - 1) / processors;
        const int64_t time = waves * ((tiles + splits - 1) / splits + 6);
        if (time < shortest) shortest = time, best = splits;
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

/* Parts that fit the buffer. */
static int parts_that_fit(const gf_tile_args &a) {
    const size_t part = (sizeof(float) + sizeof(int32_t)) * static_cast<size_t>(a.q.rows), fit = a.buffer_bytes / part;
    return fit < TILES_MAX / PER_BLOCK ? static_cast<int>(fit) : TILES_MAX / PER_BLOCK;
}

bool gf_stats_can_pairs(const gf_tile_args &a) {
    const bool known = a.flags == GF_ABOVE || a.flags == (GF_MASK | GF_COUNT) || a.flags == 0;
    if (1 << (a.shift > 0 ? a.shift : 0) > COLS) return false; /* all rows of a sample lie in one block of rows */
    return known && a.q.hi == a.k.hi && a.q.rows == a.k.rows && a.q0 == 0 && a.ld == 128 && a.buffer && parts_that_fit(a) > 1;
}

/* All distances at once if their parts fit the buffer, else as many at a time as fit. */
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
        x.sums = static_cast<float *>(a.buffer);
        x.counts = reinterpret_cast<int32_t *>(x.sums + static_cast<size_t>(x.row_parts + x.splits) * a.q.rows);
        x.adds = x.first > 0;
        e = launch_any(x, rows, columns, stream);
    }
    return e;
}
