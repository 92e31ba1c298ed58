/* cuda_flow_stats.cu - pass B of wide embeddings and the largest batches on Hopper, bf16, where the columns' anchors have sums,
 * too: the kernel. See tile_flow.cuh for the tiles and cuda_large_stats.cu for what becomes of the sums. Two views: tiles on the
 * diagonal have pairs that occur twice, once for each end; their sums of columns are written, but not read.
 */
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_flow.cuh"
#include "cuda/passes/tile_large_stats.cuh"

struct shared_sums {
    gf_flow_ring tiles;
    float sum[8][GF_WIDE], moment[8][GF_WIDE]; /* of the columns, per warp */
    uint32_t count[8][GF_WIDE / 2];            /* two columns in a word */
    float limit[2][2][GF_WIDE];                /* of the columns: of tiles in turn, per warpgroup */
};

/* Work of a thread: its rows, and its part of the columns of the tile in use. */
template <unsigned FLAGS> struct stats_work {
    static constexpr bool LIMITS = (FLAGS & (GF_MASK | GF_ABOVE)) != 0;
    const gf_large_job &x;
    shared_sums &sm;
    const int group, tile, stop; /* tile: of rows; stop: the tile of columns after the block's last one */
    gf_stats_rows<gf_wide_shape> y;
    float peak, limit;       /* limit: of a column of the next tile */
    float sum[8], moment[8]; /* of columns */
    uint32_t count[8];       /* two columns in a word */
    int turn;                /* 0, 1: where the limits of the tile in use are */
    bool any;                /* sums of columns were left for the second warpgroup */

    __device__ __forceinline__ stats_work(const gf_large_job &job, shared_sums &shared, int end)
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
    gf_flow_run<stats_work<FLAGS>>(x, *reinterpret_cast<shared_sums *>(shared), maps, r0, 0, first,
                                   min(from + x.each, gf_large_column_tiles(x)), 1);
}

typedef void (*kernel)(gf_large_job, gf_large_maps);

static kernel kernel_of(unsigned flags) {
    switch (flags) {
    case 0: return flow_stats<0>;
    case GF_ABOVE: return flow_stats<GF_ABOVE>;
    case GF_MASK | GF_COUNT: return flow_stats<GF_MASK | GF_COUNT>;
    case GF_MOMENT: return flow_stats<GF_MOMENT>;
    default: return flow_stats<GF_MASK | GF_COUNT | GF_MOMENT>;
    }
}

cudaError_t gf_flow_stats(const gf_large_job &x, cudaStream_t stream) {
    const unsigned flags = x.a.flags & ~unsigned(GF_SHIFT); /* the peak is 0 without */
    gf_large_maps maps = {};
    const cudaError_t e = gf_flow_map(&maps, x.a);
    if (e != cudaSuccess) return e;
    return gf_large_launch(kernel_of(flags), dim3(static_cast<unsigned>(x.row_tiles * x.turns)), 1, sizeof(shared_sums), stream,
                           x, maps);
}
