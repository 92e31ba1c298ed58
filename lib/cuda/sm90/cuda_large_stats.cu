/* cuda_large_stats.cu - pass B of wide embeddings and large batches on Hopper. See tile_large.cuh for the tiles.
 *
 * Thread blocks take turns with the columns of 128 rows, and keep the sums of these rows. Where the columns' anchors have sums,
 * too (`mirror`), each product serves both: a tile's sums over its rows are one part of each column's sums; `fold` adds up the
 * parts in their order. Two views: rows are columns, so that tiles left of the diagonal are the mirror of others and left out.
 */
#include "cuda/passes/cuda_stats_mma.cuh"
#include "cuda/sm90/hopper.cuh"
#include "cuda/sm90/tile_large.cuh"

/* ---------- Shared by the kernels of both kinds of tiles ----------
 *
 * A thread block has 128 rows, and takes turns with others of the same rows.
 */

struct gf_large_job { /* of pass B */
    gf_tile_args a;
    gf_cuda_rows mirror; /* of the columns' anchors; triangle: those of the rows */
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

typedef void (*kernel)(gf_large_job, gf_large_maps);

/* ---------- Tiles in flow: the largest batches, where the columns' anchors have sums, too ----------
 *
 * Two views: tiles on the diagonal have pairs that occur twice, once for each end; their sums of columns are written, but not read.
 */

struct flow_sums {
    gf_flow_ring tiles;
    float sum[8][GF_WIDE], moment[8][GF_WIDE]; /* of the columns, per warp */
    uint32_t count[8][GF_WIDE / 2];            /* two columns in a word */
    float limit[2][2][GF_WIDE];                /* of the columns: of tiles in turn, per warpgroup */
};

/* Work of a thread: its rows, and its part of the columns of the tile in use. */
template <unsigned FLAGS> struct stats_work {
    static constexpr bool LIMITS = (FLAGS & (GF_MASK | GF_ABOVE)) != 0;
    const gf_large_job &x;
    flow_sums &sm;
    const int group, tile, stop; /* tile: of rows; stop: the tile of columns after the block's last one */
    gf_stats_rows<gf_wide_shape> y;
    float peak, limit;       /* limit: of a column of the next tile */
    float sum[8], moment[8]; /* of columns */
    uint32_t count[8];       /* two columns in a word */
    int turn;                /* 0, 1: where the limits of the tile in use are */
    bool any;                /* sums of columns were left for the second warpgroup */

    __device__ __forceinline__ stats_work(const gf_large_job &job, flow_sums &shared, int end)
        : x(job), sm(shared), group(gf_wg_index()), tile(blockIdx.x % job.row_tiles), stop(end), limit(0.0f), turn(0),
          any(false) {
        peak = FLAGS & GF_ABOVE ? 0.0f : gf_fixed_peak(x.a.row.inv_tau[0]) * gf_exp_fast::scale;
        gf_stats_begin<gf_wide_shape>(x.a, FLAGS, y, row());
#pragma unroll
        for (int i = 0; i < 2 && !(FLAGS & GF_ABOVE); i++)
            y.view[i].k = x.a.row.inv_tau[0] * gf_exp_fast::scale; /* also past the end */
    }

    __device__ __forceinline__ int row() const { return tile * GF_LARGE_ROWS + gf_wide_row(); } /* the warp's first */

    __device__ __forceinline__ void begin(int j) {
        if (!LIMITS) return;
        const float *limits = FLAGS & GF_ABOVE ? x.mirror.mid : x.mirror.lo;
        limit = __ldg(limits + min(j * GF_WIDE + int(threadIdx.x % 128), x.a.k.rows - 1));
    }

    /* Barriers 5 and 6: of a warpgroup. It has read the sums of the columns of the tile before, and has written the limits. */
    __device__ __forceinline__ void end(float (&s)[1][16][4], int j) {
        const int r0 = tile * GF_LARGE_ROWS, c0 = j * GF_WIDE;
        turn ^= 1;
        if (LIMITS) sm.limit[turn][group][threadIdx.x % 128] = limit;
        asm volatile("bar.sync %0, 128;" ::"r"(5 + group) : "memory");
        if (gf_has_blanks(x.a, r0, GF_LARGE_ROWS, c0, GF_WIDE) || r0 + GF_LARGE_ROWS > x.a.q.rows)
            gf_blank<gf_wide_shape>(x.a, s, row(), c0, FLAGS & (GF_MASK | GF_ABOVE) ? CUDART_NAN_F : GF_NO_PAIR);
    }

    __device__ __forceinline__ void part(const float (&s)[16][4], int p) {
        const int warp = threadIdx.x / 32, t = threadIdx.x % 4;
        if (p == 0 && group == 0 && any) asm volatile("bar.sync 3, 256;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (p % 2 == 0) sum[i] = moment[i] = 0.0f;
            if (p % 4 == 0) count[i] = 0;
        }
#pragma unroll
        for (int n = 2 * p; n < 2 * p + 2; n++) {
            float2 limits = {};
            if (LIMITS) limits = *reinterpret_cast<const float2 *>(&sm.limit[turn][group][8 * n + 2 * t]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                gf_large_add_pair<FLAGS, true>(y.view[i / 2], y.sums[i / 2], s[n][i], peak, i % 2 ? limits.y : limits.x,
                                               sum[2 * (n % 4) + i % 2], moment[2 * (n % 4) + i % 2], count[n % 8],
                                               i % 2 ? 1u << 16 : 1u);
        }
        const int own = gf_large_own(), column = 8 * (4 * (p / 2) + own / 2) + 2 * t + own % 2;
        if (p % 2 == 1 && !(FLAGS & GF_ABOVE)) sm.sum[warp][column] = gf_large_fold_lanes(sum);
        if (p % 2 == 1 && FLAGS & GF_MOMENT) sm.moment[warp][column] = gf_large_fold_lanes(moment);
        if (p % 4 == 3 && FLAGS & (GF_COUNT | GF_ABOVE)) sm.count[warp][4 * (8 * (p / 4) + own) + t] = gf_large_fold_lanes(count);
    }

    /* Barrier 2: both warpgroups have written the sums of the tile's columns. Barrier 3: the second has read them. The first does
     * not wait for the second but there, one tile later. */
    __device__ __forceinline__ void close(int j) {
        any = true;
        if (group == 0) {
            asm volatile("bar.arrive 2, 256;" ::: "memory");
            return;
        }
        asm volatile("bar.sync 2, 256;" ::: "memory");
        write_columns(j * GF_WIDE);
        if (j + 1 < stop) asm volatile("bar.arrive 3, 256;" ::: "memory");
    }

    /* The second warpgroup adds up what all 8 warps have of a tile's columns, in their order. */
    __device__ __forceinline__ void write_columns(int c0) const {
        const int i = threadIdx.x % 64;
        const bool second = threadIdx.x % 128 >= 64;
        const size_t at = size_t(tile) * x.pitch + c0 + 2 * i;
        const float(*from)[GF_WIDE] = second ? sm.moment : sm.sum;
        float2 all = {};
        uint32_t pairs = 0;
        if (tile >= x.row_tiles) return;
#pragma unroll
        for (int w = 0; w < 8; w++) {
            const float2 here = *reinterpret_cast<const float2 *>(&from[w][2 * i]);
            all.x += here.x, all.y += here.y;
            pairs += sm.count[w][i];
        }
        if (!second && !(FLAGS & GF_ABOVE)) *reinterpret_cast<float2 *>(x.sum + at) = all;
        if (second && FLAGS & GF_MOMENT) *reinterpret_cast<float2 *>(x.moment + at) = all;
        if (second && FLAGS & (GF_COUNT | GF_ABOVE)) *reinterpret_cast<uint32_t *>(x.count + at) = pairs;
    }

    __device__ __forceinline__ void finish() {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int lane = threadIdx.x % 32, r = row() + 8 * i + lane / 4;
            gf_join_lanes<gf_exp_fast>(FLAGS, y.view[i].k, y.sums[i], 1);
            gf_join_lanes<gf_exp_fast>(FLAGS, y.view[i].k, y.sums[i], 2);
            if (lane % 4 == 0 && r < x.a.q.rows) x.parts[size_t(blockIdx.x / x.row_tiles) * x.a.q.rows + r] = y.sums[i];
        }
    }
};

/* Tiles of a block are consecutive, and blocks that run at the same time have the same columns, which stay in the cache,
 * whichever of them a block is at. Blocks that take turns with single tiles drift apart, and read all columns many times. */
template <unsigned FLAGS>
static __global__ void __launch_bounds__(GF_LARGE_WORKERS + 128, 1)
    flow_stats(const __grid_constant__ gf_large_job x, const __grid_constant__ gf_large_maps maps) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int r0 = blockIdx.x % x.row_tiles * GF_LARGE_ROWS, from = blockIdx.x / x.row_tiles * x.each;
    const int first = x.triangle ? max(from, gf_large_own_columns(x, r0)) : from;
    gf_flow_run<stats_work<FLAGS>>(x, *reinterpret_cast<flow_sums *>(shared), maps, r0, 0, first,
                                   min(from + x.each, gf_large_column_tiles(x)), 1);
}

static kernel flow_kernel_of(unsigned flags) {
    switch (flags) {
    case 0: return flow_stats<0>;
    case GF_ABOVE: return flow_stats<GF_ABOVE>;
    case GF_MASK | GF_COUNT: return flow_stats<GF_MASK | GF_COUNT>;
    case GF_MOMENT: return flow_stats<GF_MOMENT>;
    default: return flow_stats<GF_MASK | GF_COUNT | GF_MOMENT>;
    }
}

static cudaError_t flow_over_tiles(const gf_large_job &x, cudaStream_t stream) {
    const unsigned flags = x.a.flags & ~unsigned(GF_SHIFT); /* the peak is 0 without */
    gf_large_maps maps = {};
    const cudaError_t e = gf_flow_map(&maps, x.a);
    if (e != cudaSuccess) return e;
    return gf_large_launch(flow_kernel_of(flags), dim3(static_cast<unsigned>(x.row_tiles * x.turns)), 1, sizeof(flow_sums),
                           stream, x, maps);
}

/* ---------- Tiles of 128 x 256, and parts that become sums ---------- */

#define THREADS 128

template <int HALVES> struct shared_sums {
    static constexpr int COLS = gf_large_ring<HALVES>::COLS, NT = gf_large_ring<HALVES>::NT;
    typedef typename gf_large_ring<HALVES>::shape C;
    gf_large_ring<HALVES> tiles;
    float sum[8][COLS], moment[8][COLS]; /* of the columns, per warp */
    uint32_t count[8][COLS / 2];         /* two columns in a word */
};

/* ---- sums of a tile ---- */

template <unsigned FLAGS, bool BOTH, int HALVES>
static __device__ __forceinline__ void add_tile(const gf_large_job &x, shared_sums<HALVES> &sm,
                                                gf_stats_rows<typename shared_sums<HALVES>::C> &y,
                                                const float (&s)[shared_sums<HALVES>::NT][4], float peak, int c0) {
    const int warp = threadIdx.x / 32, t = threadIdx.x % 4;
    const float *limits = FLAGS & GF_ABOVE ? x.mirror.mid : x.mirror.lo;
#pragma unroll
    for (int q = 0; q < shared_sums<HALVES>::NT / 8; q++) {
        uint32_t count[8] = {};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum[8] = {}, moment[8] = {};
#pragma unroll
            for (int b = 0; b < 4; b++) {
                const int n = 8 * q + 4 * half + b;
                float2 limit = {};
                if (BOTH && FLAGS & (GF_MASK | GF_ABOVE)) limit = gf_large_two(limits, c0 + 8 * n + 2 * t, x.a.k.rows);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    gf_large_add_pair<FLAGS, BOTH>(y.view[i / 2], y.sums[i / 2], s[n][i], peak, i % 2 ? limit.y : limit.x,
                                                   sum[2 * b + i % 2], moment[2 * b + i % 2], count[4 * half + b],
                                                   i % 2 ? 1u << 16 : 1u);
            }
            const int column = 8 * (8 * q + 4 * half + gf_large_own() / 2) + 2 * t + gf_large_own() % 2;
            if (BOTH && !(FLAGS & GF_ABOVE)) sm.sum[warp][column] = gf_large_fold_lanes(sum);
            if (BOTH && FLAGS & GF_MOMENT) sm.moment[warp][column] = gf_large_fold_lanes(moment);
        }
        if (BOTH && FLAGS & (GF_COUNT | GF_ABOVE)) sm.count[warp][4 * (8 * q + gf_large_own()) + t] = gf_large_fold_lanes(count);
    }
}

/* ---- sums of the columns ---- */

/* The second warpgroup adds up what all 8 warps have of a tile's columns, in their order. */
template <unsigned FLAGS, int HALVES>
static __device__ __forceinline__ void write_columns(const gf_large_job &x, const shared_sums<HALVES> &sm, int tile, int c0) {
    const int i = threadIdx.x % 128;
    const size_t at = size_t(tile) * x.pitch + c0 + 2 * i;
    float2 sum = {}, moment = {};
    uint32_t count = 0;
    if (tile >= x.row_tiles || 2 * i >= shared_sums<HALVES>::COLS) return;
#pragma unroll
    for (int w = 0; w < 8; w++) {
        const float2 here = *reinterpret_cast<const float2 *>(&sm.sum[w][2 * i]);
        const float2 also = *reinterpret_cast<const float2 *>(&sm.moment[w][2 * i]);
        sum.x += here.x, sum.y += here.y;
        moment.x += also.x, moment.y += also.y;
        count += sm.count[w][i];
    }
    if (!(FLAGS & GF_ABOVE)) *reinterpret_cast<float2 *>(x.sum + at) = sum;
    if (FLAGS & GF_MOMENT) *reinterpret_cast<float2 *>(x.moment + at) = moment;
    if (FLAGS & (GF_COUNT | GF_ABOVE)) *reinterpret_cast<uint32_t *>(x.count + at) = count;
}

/* Barrier 2: both warpgroups have written the sums of a tile's columns. Barrier 3: the second has read them. The first does not
 * wait for the second but there, one tile later. */
static __device__ __forceinline__ void wait_unread(int group, bool any) {
    if (group == 0 && any) asm volatile("bar.sync 3, 256;" ::: "memory");
}

template <unsigned FLAGS, int HALVES>
static __device__ __forceinline__ void share_columns(const gf_large_job &x, const shared_sums<HALVES> &sm, int group, int tile,
                                                     int c0, bool more) {
    if (group == 0) {
        asm volatile("bar.arrive 2, 256;" ::: "memory");
        return;
    }
    asm volatile("bar.sync 2, 256;" ::: "memory");
    write_columns<FLAGS>(x, sm, tile, c0);
    asm volatile("bar.sync 4, 128;" ::: "memory");
    if (more) asm volatile("bar.arrive 3, 256;" ::: "memory");
}

/* ---- the sweep ---- */

template <unsigned FLAGS, bool BOTH, int CLUSTER, int HALVES>
static __device__ __forceinline__ void calculate(const gf_large_job &x, shared_sums<HALVES> &sm) {
    typedef shared_sums<HALVES> shape;
    const int tile = gf_large_row_tile<CLUSTER>(x), r0 = tile * GF_LARGE_ROWS, row = r0 + gf_wide_row(), lane = threadIdx.x % 32,
              group = gf_wg_index();
    const int tiles = gf_large_column_tiles(x), steps = x.a.ld / GF_LARGE_STEP;
    gf_stats_rows<typename shape::C> y;
    gf_large_place at = {0, 0};
    bool any = false;
    const float peak = FLAGS & GF_ABOVE ? 0.0f : gf_fixed_peak(x.a.row.inv_tau[0]) * gf_exp_fast::scale;
    gf_stats_begin<typename shape::C>(x.a, FLAGS, y, row);
#pragma unroll
    for (int i = 0; i < 2 && !(FLAGS & GF_ABOVE); i++)
        y.view[i].k = x.a.row.inv_tau[0] * gf_exp_fast::scale; /* also past the end */
    gf_large_follow(group);
    for (int j = gf_large_first_tile<CLUSTER>(x), lead = GF_LARGE_LEAD; j < tiles; j += x.turns, lead = -1) {
        float s[1][shape::NT][4];
        const int c0 = j * shape::COLS;
        gf_large_scores<CLUSTER, HALVES>(s[0], sm.tiles, at, steps, lead);
        if (gf_has_blanks(x.a, r0, GF_LARGE_ROWS, c0, shape::COLS) || r0 + GF_LARGE_ROWS > x.a.q.rows)
            gf_blank<typename shape::C>(x.a, s, row, c0, FLAGS & (GF_MASK | GF_ABOVE) ? CUDART_NAN_F : GF_NO_PAIR);
        if (!BOTH || (x.triangle && gf_large_own_columns(x, c0) ==
                                        gf_large_own_columns(x, r0))) { /* these pairs occur twice, once for each end */
            add_tile<FLAGS, false, HALVES>(x, sm, y, s[0], peak, c0);
            continue;
        }
        wait_unread(group, any);
        add_tile<FLAGS, BOTH, HALVES>(x, sm, y, s[0], peak, c0);
        share_columns<FLAGS, HALVES>(x, sm, group, tile, c0, j + x.turns < tiles);
        any = true;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int r = row + 8 * i + lane / 4;
        gf_join_lanes<gf_exp_fast>(FLAGS, y.view[i].k, y.sums[i], 1);
        gf_join_lanes<gf_exp_fast>(FLAGS, y.view[i].k, y.sums[i], 2);
        if (lane % 4 == 0 && r < x.a.q.rows) x.parts[size_t(gf_large_turn<CLUSTER>(x)) * x.a.q.rows + r] = y.sums[i];
    }
}

template <unsigned FLAGS, bool BOTH, int CLUSTER, int HALVES>
static __global__ void __launch_bounds__(GF_LARGE_WORKERS + 128, 1)
    large_stats(const __grid_constant__ gf_large_job x, const __grid_constant__ gf_large_maps maps) {
    extern __shared__ __align__(1024) unsigned char shared[];
    shared_sums<HALVES> &sm = *reinterpret_cast<shared_sums<HALVES> *>(shared);
    gf_large_begin<CLUSTER>(sm.tiles);
    gf_large_wait_for_inputs();
    if (gf_is_off(x.a)) {
    } else if (threadIdx.x < GF_LARGE_WORKERS) {
        gf_wg_take_registers<240>();
        if (gf_large_first_tile<CLUSTER>(x) < gf_large_column_tiles(x)) calculate<FLAGS, BOTH, CLUSTER, HALVES>(x, sm);
    } else {
        gf_wg_give_registers();
        if (threadIdx.x == GF_LARGE_WORKERS) {
            gf_large_place at = {0, 0};
            for (int j = gf_large_first_tile<CLUSTER>(x); j < gf_large_column_tiles(x); j += x.turns)
                for (int d = 0; d < x.a.ld; d += GF_LARGE_STEP)
                    gf_large_fetch_scores<CLUSTER, HALVES>(sm.tiles, at, maps, d, gf_large_row_tile<CLUSTER>(x) * GF_LARGE_ROWS,
                                                           j * shared_sums<HALVES>::COLS);
        }
    }
    gf_large_end<CLUSTER>();
}

/* ---- parts become sums ---- */

/* The first of a row's blocks that had tiles, and the one after the last. */
static __device__ __forceinline__ int2 turns_of_row(const gf_large_job &x, int r) {
    const int own = x.triangle ? gf_large_own_columns(x, r) : 0, tiles = gf_large_column_tiles(x);
    return x.each ? make_int2(own / x.each, (tiles + x.each - 1) / x.each) : make_int2(0, min(tiles - own, x.turns));
}

static __device__ __forceinline__ void add_parts(const gf_large_job &x, int c, int row_tiles, gf_row_sums<double> &t) {
#pragma unroll 8
    for (int i = 0; i < row_tiles; i++) {
        const size_t at = size_t(i) * x.pitch + c;
        if (x.sum) t.sum += double(x.sum[at]);
        if (x.moment) t.moment += double(x.moment[at]);
        if (x.count) t.kept += x.count[at];
    }
}

/* The sums of a row whose similarities are so small that their exponentials vanished, relative to a peak of its own. There are
 * few such rows: more than four vectors cannot be that far from each other. */
static __device__ __noinline__ void sum_again(const gf_tile_args &a, int r, const float *lo, float *peak,
                                              gf_row_sums<double> &t) {
    const double k = double(a.row.inv_tau[0]);
    double top = -CUDART_INF;
    t.sum = t.moment = 0.0;
    for (int again = 0; again < 2; again++)
        for (int c = 0; c < a.k.rows; c++) {
            float v = 0.0f;
            if (!gf_is_pair(a, r, c)) continue;
            for (int d = 0; d < a.dim; d++) v = fmaf(a.q.f32[size_t(r) * a.ld + d], a.k.f32[size_t(c) * a.ld + d], v);
            if (a.flags & GF_MASK && !(v <= lo[r])) continue;
            if (!again) {
                top = fmax(top, double(v));
            } else {
                const double e = exp(k * (double(v) - top));
                t.sum += e, t.moment += e * double(v);
            }
        }
    *peak = float(k * top);
}

/* Sums of a row become outputs. a.row, a.q, a.k: those of its side. */
static __device__ __forceinline__ void write_row(const gf_tile_args &a, int r, gf_row_sums<double> &t) {
    float peak = gf_fixed_peak(a.flags & GF_ABOVE ? 0.0f : a.row.inv_tau[0]);
    if (a.flags & GF_SHIFT && t.sum < 1e-26 && !(a.flags & GF_COUNT && t.kept == 0)) sum_again(a, r, a.row.lo, &peak, t);
    gf_write_sums(a, a.flags, r, t);
    if (a.flags & GF_SHIFT && a.row.peak) a.row.peak[r] = peak;
}

/* y = 0: the rows; y = 1: the columns' anchors, if they are others. */
static __global__ void __launch_bounds__(THREADS) large_fold(const __grid_constant__ gf_large_job x) {
    const int r = blockIdx.x * THREADS + threadIdx.x;
    gf_row_sums<double> t = gf_no_sums<double>();
    if (r >= (blockIdx.y ? x.a.k.rows : x.a.q.rows) || gf_is_off(x.a)) return;
    if (blockIdx.y) add_parts(x, r, x.row_tiles, t);
    const int2 turns = turns_of_row(x, r);
    for (int i = turns.x; blockIdx.y == 0 && i < turns.y; i++) {
        const gf_row_sums<float> &u = x.parts[size_t(i) * x.a.q.rows + r];
        t.sum += double(u.sum), t.moment += double(u.moment), t.kept += u.kept;
    }
    if (x.triangle) add_parts(x, r, r / GF_LARGE_COLS * (GF_LARGE_COLS / GF_LARGE_ROWS), t);
    gf_tile_args a = x.a;
    if (blockIdx.y) a.row = x.mirror, a.q = x.a.k, a.k = x.a.q;
    write_row(a, r, t);
}

/* ---- launches ---- */

template <bool BOTH, int CLUSTER, int HALVES> static kernel kernel_of(unsigned flags) {
    switch (flags) {
    case 0: return large_stats<0, BOTH, CLUSTER, HALVES>;
    case GF_ABOVE: return large_stats<GF_ABOVE, BOTH, CLUSTER, HALVES>;
    case GF_MASK | GF_COUNT: return large_stats<GF_MASK | GF_COUNT, BOTH, CLUSTER, HALVES>;
    case GF_MOMENT: return large_stats<GF_MOMENT, BOTH, CLUSTER, HALVES>;
    case GF_MASK | GF_COUNT | GF_MOMENT: return large_stats<GF_MASK | GF_COUNT | GF_MOMENT, BOTH, CLUSTER, HALVES>;
    default: return NULL;
    }
}

static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* Lays the parts out in the buffer; returns their bytes. */
static size_t lay(const gf_tile_args &a, const gf_cuda_rows *mirror, bool flows, int halves, gf_large_job *x) {
    const int columns = flows ? GF_WIDE : GF_LARGE_COLS / halves, column_tiles = gf_large_tiles(a.k.rows, columns);
    const unsigned grid = gf_large_grid(a.q.rows, flows ? 1 : GF_LARGE_CLUSTER);
    char *const base = static_cast<char *>(a.buffer);
    size_t used = 0;
    *x = {};
    x->a = a, x->columns = columns;
    x->triangle = mirror && a.q.hi == a.k.hi && a.q.rows == a.k.rows;
    const int least = column_tiles / 8 < 8 ? column_tiles / 8 : 8, cached = static_cast<int>(size_t(a.k.rows) * a.ld >> 22);
    x->turns = gf_large_turns(grid, column_tiles, flows && cached > least ? cached : least,
                              gf_device_attribute(cudaDevAttrMultiProcessorCount), flows ? GF_FLOW_ENOUGH : GF_LARGE_ENOUGH);
    if (flows) x->each = gf_large_tiles(column_tiles, x->turns);
    x->row_tiles = gf_large_tiles(a.q.rows, GF_LARGE_ROWS), x->pitch = column_tiles * columns;
    x->parts = reinterpret_cast<gf_row_sums<float> *>(base);
    used += aligned(sizeof *x->parts * size_t(x->turns) * size_t(a.q.rows));
    if (!mirror) return used;
    x->mirror = *mirror;
    const size_t all = size_t(x->row_tiles) * size_t(x->pitch);
    if (!(a.flags & GF_ABOVE)) x->sum = reinterpret_cast<float *>(base + used), used += aligned(sizeof(float) * all);
    if (a.flags & GF_MOMENT) x->moment = reinterpret_cast<float *>(base + used), used += aligned(sizeof(float) * all);
    if (a.flags & (GF_COUNT | GF_ABOVE))
        x->count = reinterpret_cast<uint16_t *>(base + used), used += aligned(sizeof(uint16_t) * all);
    return used;
}

static kernel choose(bool both, int halves, unsigned flags) {
    flags &= ~unsigned(GF_SHIFT); /* the peak is 0 without */
    if (halves == 2) return both ? kernel_of<true, GF_LARGE_CLUSTER, 2>(flags) : kernel_of<false, GF_LARGE_CLUSTER, 2>(flags);
    return both ? kernel_of<true, GF_LARGE_CLUSTER, 1>(flags) : kernel_of<false, GF_LARGE_CLUSTER, 1>(flags);
}

bool gf_stats_can_large(const gf_tile_args &a, const gf_cuda_rows *mirror, int halves) {
    gf_large_job x;
    return a.ld >= 256 / halves && a.buffer && (a.fixed || !(a.flags & GF_SHIFT)) && choose(false, 1, a.flags) &&
           lay(a, mirror, false, halves, &x) <= a.buffer_bytes &&
           (!mirror || halves == 2 || lay(a, mirror, true, halves, &x) <= a.buffer_bytes);
}

static cudaError_t launch(const gf_large_job &x, bool both, int halves, cudaStream_t stream) {
    const size_t shared = halves == 2 ? sizeof(shared_sums<2>) : sizeof(shared_sums<1>);
    gf_large_maps maps = {};
    const cudaError_t e = gf_large_map(&maps, x.a, halves);
    if (e != cudaSuccess) return e;
    return gf_large_launch(choose(both, halves, x.a.flags), dim3(gf_large_grid(x.a.q.rows, GF_LARGE_CLUSTER) * x.turns),
                           GF_LARGE_CLUSTER, shared, stream, x, maps);
}

cudaError_t gf_stats_large(const gf_tile_args &a, const gf_cuda_rows *mirror, int halves, bool flows, cudaStream_t stream) {
    gf_large_job x;
    flows = flows && mirror && a.ld >= GF_FLOW_LD;
    lay(a, mirror, flows, halves, &x);
    const cudaError_t e = flows ? flow_over_tiles(x, stream) : launch(x, mirror != NULL, halves, stream);
    if (e != cudaSuccess) return e;
    const int most = mirror && a.k.rows > a.q.rows ? a.k.rows : a.q.rows;
    large_fold<<<dim3((most + THREADS - 1) / THREADS, mirror && !x.triangle ? 2 : 1), THREADS, 0, stream>>>(x);
    return cudaGetLastError();
}
