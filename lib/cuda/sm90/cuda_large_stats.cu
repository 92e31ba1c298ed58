/* cuda_large_stats.cu - pass B of wide embeddings and large batches on Hopper. See tile_large.cuh for the tiles.
 *
 * Thread blocks take turns with the columns of 128 rows, and keep the sums of these rows. Where the columns' anchors have sums,
 * too (`mirror`), each product serves both: a tile's sums over its rows are one part of each column's sums; `fold` adds up the
 * parts in their order. Two views: rows are columns, so that tiles left of the diagonal are the mirror of others and left out.
 */
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_flow.cuh"
#include "cuda/passes/tile_large_stats.cuh"

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

typedef void (*kernel)(gf_large_job, gf_large_maps);

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
static size_t lay(const gf_tile_args &a, const gf_rows *mirror, int cluster, int halves, gf_large_job *x) {
    const bool flows = cluster == GF_LARGE_FLOW;
    const int columns = flows ? GF_WIDE : GF_LARGE_COLS / halves, column_tiles = gf_large_tiles(a.k.rows, columns);
    const unsigned grid = gf_large_grid(a.q.rows, flows ? 1 : cluster);
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

static kernel choose(bool both, int cluster, int halves, unsigned flags) {
    flags &= ~unsigned(GF_SHIFT); /* the peak is 0 without */
    if (halves == 2) return both ? kernel_of<true, 2, 2>(flags) : kernel_of<false, 2, 2>(flags);
    if (cluster == 2) return both ? kernel_of<true, 2, 1>(flags) : kernel_of<false, 2, 1>(flags);
    return both ? kernel_of<true, 1, 1>(flags) : kernel_of<false, 1, 1>(flags);
}

bool gf_stats_can_large(const gf_tile_args &a, const gf_rows *mirror, int halves) {
    gf_large_job x;
    return a.ld >= 256 / halves && a.buffer && (a.fixed || !(a.flags & GF_SHIFT)) && choose(false, 2, 1, a.flags) &&
           lay(a, mirror, GF_LARGE_CLUSTER, halves, &x) <= a.buffer_bytes &&
           (!mirror || halves == 2 || lay(a, mirror, GF_LARGE_FLOW, halves, &x) <= a.buffer_bytes);
}

static cudaError_t launch(const gf_large_job &x, bool both, int halves, int cluster, cudaStream_t stream) {
    const size_t shared = halves == 2 ? sizeof(shared_sums<2>) : sizeof(shared_sums<1>);
    gf_large_maps maps = {};
    const cudaError_t e = gf_large_map(&maps, x.a, halves);
    if (e != cudaSuccess) return e;
    return gf_large_launch(choose(both, cluster, halves, x.a.flags), dim3(gf_large_grid(x.a.q.rows, cluster) * x.turns), cluster,
                           shared, stream, x, maps);
}

cudaError_t gf_stats_large(const gf_tile_args &a, const gf_rows *mirror, int halves, int cluster, cudaStream_t stream) {
    gf_large_job x;
    if (cluster == GF_LARGE_FLOW && (!mirror || a.ld < GF_FLOW_LD)) cluster = GF_LARGE_CLUSTER;
    lay(a, mirror, cluster, halves, &x);
    const cudaError_t e =
        cluster == GF_LARGE_FLOW ? gf_flow_stats(x, stream) : launch(x, mirror != NULL, halves, cluster, stream);
    if (e != cudaSuccess) return e;
    const int most = mirror && a.k.rows > a.q.rows ? a.k.rows : a.q.rows;
    large_fold<<<dim3((most + THREADS - 1) / THREADS, mirror && !x.triangle ? 2 : 1), THREADS, 0, stream>>>(x);
    return cudaGetLastError();
}
