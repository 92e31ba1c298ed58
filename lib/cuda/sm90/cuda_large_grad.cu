/* cuda_large_grad.cu - pass C of wide embeddings and large batches on Hopper. See tile_large.cuh for the tiles.
 *
 * The weights P are made piece by piece, rounded to bf16, in a buffer that the cache can hold: `large_weigh`. Then `large_sum`
 * adds P Z to the gradients of the piece's rows and, where the columns' anchors have gradients, too (`mirror`), P'Z to those of
 * its columns: S is made once for both. Two views: rows are columns, so that pieces left of the diagonal are the mirror of others
 * and left out. Every gradient is the sum over the pieces in their order: same bits every time.
 *
 * In halves, the weights are hi + lo, too, and P Z is hi hi + hi lo + lo hi.
 */
#include "cuda/passes/cuda_grad_mma.cuh"
#include "cuda/sm90/hopper.cuh"
#include "cuda/sm90/tile_large.cuh"

/* ---------- Shared by the kernels that make weights ---------- */

struct gf_weigh_job { /* weights of a piece */
    gf_tile_args a;
    int row0, rows, col0, cols; /* the piece */
    int turns;                  /* thread blocks per 128 rows */
    int pitch;                  /* numbers of a row of `weights` */
    __nv_bfloat16 *weights[2];  /* hi, lo; [rows][pitch] */
};

/* Words 0 to 3 of the four lanes of a row as a 4 x 4 matrix: transposed. */
__device__ __forceinline__ void gf_large_transpose(uint32_t (&x)[4]) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t y = __shfl_xor_sync(0xffffffffu, odd ? x[i] : x[i + 1], 1);
        if (odd) x[i] = y;
        else x[i + 1] = y;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t y = __shfl_xor_sync(0xffffffffu, upper ? x[i] : x[i + 2], 2);
        if (upper) x[i] = y;
        else x[i + 2] = y;
    }
}

/* Rounds two weights to bf16; they keep the rounding error, for the lower half. */
__device__ __forceinline__ uint32_t gf_large_round_two(float &low, float &high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    low -= __low2float(pair), high -= __high2float(pair);
    return *reinterpret_cast<const uint32_t *>(&pair);
}

/* ---------- Weights by tiles in flow: the largest batches ---------- */

struct shared_numbers {
    gf_flow_ring tiles;
    float w[2][2][GF_WIDE], theta[2][2][GF_WIDE]; /* of the columns: of tiles in turn, per warpgroup */
};

/* Work of a thread: its two rows. */
template <unsigned FLAGS> struct weigh_work {
    const gf_weigh_job &x;
    shared_numbers &sm;
    const int group, at; /* at: the warp's first row in the piece */
    float k, peak, w[2], theta[2];
    float next_w, next_theta; /* of a column of the next tile */
    int turn;                 /* 0, 1: where the columns' numbers of the tile in use are */
    uint32_t word[2][4];      /* weights of 4 blocks of columns, of each row */
    __nv_bfloat16 *to;        /* where the weights of the tile in use go: the thread's first row */

    __device__ __forceinline__ weigh_work(const gf_weigh_job &job, shared_numbers &shared, int)
        : x(job), sm(shared), group(gf_wg_index()), at(blockIdx.x * GF_LARGE_ROWS + gf_wide_row()), next_w(0.0f),
          next_theta(0.0f), turn(0), to(NULL) {
        k = x.a.row.inv_tau[0] * gf_exp_fast::scale, peak = gf_fixed_peak(x.a.row.inv_tau[0]) * gf_exp_fast::scale;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int r = at + 8 * i + threadIdx.x % 32 / 4;
            w[i] = r < x.rows ? x.a.row.w[x.row0 + r] : 0.0f;
            theta[i] = FLAGS & GF_MASK && r < x.rows ? x.a.row.theta[x.row0 + r] : 0.0f;
        }
    }

    __device__ __forceinline__ void begin(int j) {
        const int c = min(x.col0 + j * GF_WIDE + int(threadIdx.x % 128), x.a.k.rows - 1);
        next_w = __ldg(x.a.col.w + c);
        if (FLAGS & GF_MASK) next_theta = __ldg(x.a.col.theta + c);
    }

    /* Barriers 5 and 6: of a warpgroup. It has written the columns' numbers. */
    __device__ __forceinline__ void end(float (&s)[1][16][4], int j) {
        const int c0 = x.col0 + j * GF_WIDE, lane = threadIdx.x % 32;
        turn ^= 1;
        sm.w[turn][group][threadIdx.x % 128] = next_w;
        if (FLAGS & GF_MASK) sm.theta[turn][group][threadIdx.x % 128] = next_theta;
        asm volatile("bar.sync %0, 128;" ::"r"(5 + group) : "memory");
        if (gf_has_blanks(x.a, x.row0 + blockIdx.x * GF_LARGE_ROWS, GF_LARGE_ROWS, c0, GF_WIDE))
            gf_blank<gf_wide_shape>(x.a, s, x.row0 + at, c0, -CUDART_INF_F);
        to = x.weights[0] + size_t(at + lane / 4) * x.pitch + j * GF_WIDE + 8 * (lane % 4);
    }

    /* S becomes P; -inf, which is no pair, becomes 0. Eight weights per thread and store, rounded. */
    __device__ __forceinline__ void part(const float (&s)[16][4], int p) {
        const int t = 2 * (threadIdx.x % 4);
#pragma unroll
        for (int n = 2 * p; n < 2 * p + 2; n++) {
            const float2 wc = *reinterpret_cast<const float2 *>(&sm.w[turn][group][8 * n + t]);
            float2 limit = {};
            float weight[4];
            if (FLAGS & GF_MASK) limit = *reinterpret_cast<const float2 *>(&sm.theta[turn][group][8 * n + t]);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float v = s[n][i], e = gf_exp_fast::of(fmaf(v, k, -peak));
                float both = FLAGS & GF_MASK && !(v <= theta[i / 2]) ? 0.0f : w[i / 2];
                if (!(FLAGS & GF_MASK) || v <= (i % 2 ? limit.y : limit.x)) both += i % 2 ? wc.y : wc.x;
                weight[i] = e * both;
            }
#pragma unroll
            for (int h = 0; h < 2; h++) word[h][n % 4] = gf_pack(weight[2 * h], weight[2 * h + 1]);
        }
#pragma unroll
        for (int h = 0; p % 2 == 1 && h < 2; h++) {
            gf_large_transpose(word[h]);
            if (at + 8 * h + int(threadIdx.x % 32 / 4) < x.rows)
                *reinterpret_cast<uint4 *>(to + size_t(8 * h) * x.pitch + 16 * (p - 1)) =
                    make_uint4(word[h][0], word[h][1], word[h][2], word[h][3]);
        }
    }

    __device__ __forceinline__ void close(int) {}
    __device__ __forceinline__ void finish() {}
};

template <unsigned FLAGS>
static __global__ void __launch_bounds__(GF_LARGE_WORKERS + 128, 1)
    flow_weigh(const __grid_constant__ gf_weigh_job x, const __grid_constant__ gf_large_maps maps) {
    extern __shared__ __align__(1024) unsigned char shared[];
    gf_flow_run<weigh_work<FLAGS>>(x, *reinterpret_cast<shared_numbers *>(shared), maps, x.row0 + blockIdx.x * GF_LARGE_ROWS,
                                   x.col0, blockIdx.y, x.pitch / GF_WIDE, x.turns);
}

static cudaError_t weigh_in_flow(const gf_weigh_job &x, cudaStream_t stream) {
    gf_large_maps maps = {};
    const cudaError_t e = gf_flow_map(&maps, x.a);
    if (e != cudaSuccess) return e;
    return gf_large_launch(x.a.flags & GF_MASK ? flow_weigh<GF_MASK> : flow_weigh<0>,
                           dim3(gf_large_grid(x.rows, 1), static_cast<unsigned>(x.turns)), 1, sizeof(shared_numbers), stream, x,
                           maps);
}

/* ---------- Weights by tiles of 128 x 256, and sums of weighted embeddings ---------- */

/* ---- weights of a piece ---- */

/* S becomes P; -inf, which is no pair, becomes 0. */
template <unsigned FLAGS, int NT>
static __device__ __forceinline__ void weigh(const gf_tile_args &a, float (&s)[NT][4], const float (&w)[2],
                                             const float (&theta)[2], int c0, float k, float peak) {
    const int t = 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const float2 wc = gf_large_two(a.col.w, c0 + 8 * n + t, a.k.rows);
        float2 limit = {};
        if (FLAGS & GF_MASK) limit = gf_large_two(a.col.theta, c0 + 8 * n + t, a.k.rows);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float v = s[n][i], e = gf_exp_fast::of(fmaf(v, k, -peak));
            float both = FLAGS & GF_MASK && !(v <= theta[i / 2]) ? 0.0f : w[i / 2];
            if (!(FLAGS & GF_MASK) || v <= (i % 2 ? limit.y : limit.x)) both += i % 2 ? wc.y : wc.x;
            s[n][i] = e * both;
        }
    }
}

/* Eight weights per thread and store, rounded; s keeps the rounding errors. at: the warp's first row in the piece, c0: the tile's
 * first column there. */
template <int NT>
static __device__ __forceinline__ void write_weights(const gf_weigh_job &x, __nv_bfloat16 *weights, float (&s)[NT][4], int at,
                                                     int c0) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int r = at + 8 * h + lane / 4;
        __nv_bfloat16 *to = weights + size_t(r) * x.pitch + c0 + 8 * (lane % 4);
#pragma unroll
        for (int n = 0; n < NT; n += 4) {
            uint32_t word[4];
#pragma unroll
            for (int i = 0; i < 4; i++) word[i] = gf_large_round_two(s[n + i][2 * h], s[n + i][2 * h + 1]);
            gf_large_transpose(word);
            if (r < x.rows) *reinterpret_cast<uint4 *>(to + 8 * n) = make_uint4(word[0], word[1], word[2], word[3]);
        }
    }
}

template <unsigned FLAGS, int CLUSTER, int HALVES>
static __device__ __forceinline__ void weigh_tiles(const gf_weigh_job &x, gf_large_ring<HALVES> &sm, int tiles) {
    typedef gf_large_ring<HALVES> ring;
    const int at = blockIdx.x * GF_LARGE_ROWS + gf_wide_row(), lane = threadIdx.x % 32;
    const float k = x.a.row.inv_tau[0] * gf_exp_fast::scale, peak = gf_fixed_peak(x.a.row.inv_tau[0]) * gf_exp_fast::scale;
    float w[2] = {}, theta[2] = {};
    gf_large_place place = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int r = at + 8 * i + lane / 4;
        if (r >= x.rows) continue;
        w[i] = x.a.row.w[x.row0 + r];
        if (FLAGS & GF_MASK) theta[i] = x.a.row.theta[x.row0 + r];
    }
    gf_large_follow(gf_wg_index());
    for (int j = blockIdx.y, lead = GF_LARGE_LEAD; j < tiles; j += x.turns, lead = -1) {
        float s[1][ring::NT][4];
        const int c0 = x.col0 + j * ring::COLS;
        gf_large_scores<CLUSTER, HALVES>(s[0], sm, place, x.a.ld / GF_LARGE_STEP, lead);
        if (gf_has_blanks(x.a, x.row0 + blockIdx.x * GF_LARGE_ROWS, GF_LARGE_ROWS, c0, ring::COLS))
            gf_blank<typename ring::shape>(x.a, s, x.row0 + at, c0, -CUDART_INF_F);
        weigh<FLAGS>(x.a, s[0], w, theta, c0, k, peak);
#pragma unroll
        for (int half = 0; half < HALVES; half++) write_weights(x, x.weights[half], s[0], at, j * ring::COLS);
    }
}

template <unsigned FLAGS, int CLUSTER, int HALVES>
static __global__ void __launch_bounds__(GF_LARGE_WORKERS + 128, 1)
    large_weigh(const __grid_constant__ gf_weigh_job x, const __grid_constant__ gf_large_maps maps) {
    typedef gf_large_ring<HALVES> ring;
    extern __shared__ __align__(1024) unsigned char shared[];
    ring &sm = *reinterpret_cast<ring *>(shared);
    const int tiles = x.pitch / ring::COLS;
    gf_large_begin<CLUSTER>(sm);
    gf_large_wait_for_inputs();
    if (gf_is_off(x.a)) {
    } else if (threadIdx.x < GF_LARGE_WORKERS) {
        gf_wg_take_registers<240>();
        if (int(blockIdx.y) < tiles) weigh_tiles<FLAGS, CLUSTER, HALVES>(x, sm, tiles);
    } else {
        gf_wg_give_registers();
        if (threadIdx.x == GF_LARGE_WORKERS) {
            gf_large_place at = {0, 0};
            for (int j = blockIdx.y; j < tiles; j += x.turns)
                for (int d = 0; d < x.a.ld; d += GF_LARGE_STEP)
                    gf_large_fetch_scores<CLUSTER, HALVES>(sm, at, maps, d, x.row0 + blockIdx.x * GF_LARGE_ROWS,
                                                           x.col0 + j * ring::COLS);
        }
    }
    gf_large_end<CLUSTER>();
}

/* ---- sums of weighted embeddings ---- */

struct sum_side {
    float *grad; /* [rows][ld] */
    int rows;    /* 0: nothing to do */
    int steps;   /* 64 summed weights each */
    int z0;      /* the first embedding that is summed */
    int add;     /* to what grad holds */
};

struct sum_job {
    gf_tile_args a;
    sum_side side[2]; /* P Z; P'Z */
    int ld, products; /* products: 3 in halves */
};

struct sum_maps { /* hi and lo of weights, in boxes [128][64]; for P'Z, [64][64]; of the embeddings that are summed, [64][64] */
    CUtensorMap weights[2], across[2], z[2], back_z[2];
};

/* 128 rows of a gradient, 256 dimensions. */
struct sum_tile {
    int row, d0;
};

static __host__ __device__ __forceinline__ int clusters_of(const sum_side &y, int ld, int cluster) {
    const int rows = cluster * GF_LARGE_ROWS;
    return (y.rows + rows - 1) / rows * ((ld + GF_LARGE_COLS - 1) / GF_LARGE_COLS);
}

/* body(tile) for the tiles of this block, those of P Z, or then those of P'Z; i: the next one. Blocks of a cluster are
 * neighbours. */
template <int CLUSTER, bool BACK, class Body>
static __device__ __forceinline__ void each_tile(const sum_job &x, int &i, Body body) {
    const int parts = (x.ld + GF_LARGE_COLS - 1) / GF_LARGE_COLS, first = BACK ? clusters_of(x.side[0], x.ld, CLUSTER) : 0;
    const int end = first + clusters_of(x.side[BACK], x.ld, CLUSTER);
    for (; i < end; i += gridDim.x / CLUSTER) {
        const int at = i - first, row = at / parts * CLUSTER + gf_large_rank<CLUSTER>();
        body(sum_tile{row * GF_LARGE_ROWS, at % parts * GF_LARGE_COLS});
    }
}

/* Product i is that of halves i / 2 of the weights and i % 2 of the embeddings. */
template <int CLUSTER, bool BACK>
static __device__ __forceinline__ void fetch_tiles(const sum_job &x, int &i, gf_large_shared &sm, gf_large_place &at,
                                                   const CUtensorMap *weights, const CUtensorMap *z) {
    const sum_side &y = x.side[BACK];
    each_tile<CLUSTER, BACK>(x, i, [&](const sum_tile &t) {
        for (int step = 0; step < y.steps * x.products; step++, at.advance()) {
            const int k = step / x.products * GF_LARGE_STEP, which = step % x.products;
            const uint32_t ready = gf_large_next(sm, at), left = gf_shared_address(sm.left[at.stage]);
            if (BACK) {
                gf_copy_box(left, &weights[which / 2], t.row, k, ready);
                gf_copy_box(left + GF_LARGE_BOX, &weights[which / 2], t.row + 64, k, ready);
            } else {
                gf_copy_box(left, &weights[which / 2], k, t.row, ready);
            }
            gf_large_fetch_across<CLUSTER>(gf_shared_address(sm.right[at.stage]), &z[which % 2], t.d0, y.z0 + k, ready);
        }
    });
}

/* Adds without waiting for what is there. Only this thread adds to these numbers in this kernel: the result has the same bits
 * every time. */
static __device__ __forceinline__ void add_two(float *at, float x, float y) {
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(at), "f"(x), "f"(y) : "memory");
}

static __device__ __forceinline__ void write_sums(const sum_tile &t, const sum_side &y, const float (&out)[32][4], int ld) {
    const int lane = threadIdx.x % 32, blocks = (ld - t.d0) / 8;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int r = t.row + gf_wide_row() + 8 * h + lane / 4;
        if (r >= y.rows) continue;
        float *to = y.grad + size_t(r) * ld + t.d0 + 2 * (lane % 4);
#pragma unroll
        for (int b = 0; b < 32; b += 16) { /* ld is a multiple of 128 */
            if (b >= blocks) continue;
#pragma unroll
            for (int n = b; n < b + 16; n++) {
                const float *sum = &out[n][2 * h];
                if (y.add) add_two(to + 8 * n, sum[0], sum[1]);
                else *reinterpret_cast<float2 *>(to + 8 * n) = make_float2(0.0f + sum[0], 0.0f + sum[1]); /* no -0 */
            }
        }
    }
}

template <int CLUSTER, bool BACK>
static __device__ __forceinline__ void sum_tiles(const sum_job &x, int &i, gf_large_shared &sm, gf_large_place &at) {
    each_tile<CLUSTER, BACK>(x, i, [&](const sum_tile &t) {
        float out[32][4];
        gf_large_sums<CLUSTER, BACK, true>(out, sm, at, x.side[BACK].steps * x.products);
        write_sums(t, x.side[BACK], out, x.ld);
    });
}

template <int CLUSTER>
static __global__ void __launch_bounds__(GF_LARGE_WORKERS + 128, 1)
    large_sum(const __grid_constant__ sum_job x, const __grid_constant__ sum_maps m) {
    extern __shared__ __align__(1024) unsigned char shared[];
    gf_large_shared &sm = *reinterpret_cast<gf_large_shared *>(shared);
    gf_large_place at = {0, 0};
    int i = blockIdx.x / CLUSTER;
    gf_large_begin<CLUSTER>(sm);
    gf_large_wait_for_inputs();
    if (gf_is_off(x.a)) {
    } else if (threadIdx.x < GF_LARGE_WORKERS) {
        gf_wg_take_registers<240>();
        sum_tiles<CLUSTER, false>(x, i, sm, at);
        sum_tiles<CLUSTER, true>(x, i, sm, at);
    } else {
        gf_wg_give_registers();
        if (threadIdx.x == GF_LARGE_WORKERS) {
            fetch_tiles<CLUSTER, false>(x, i, sm, at, m.weights, m.z);
            fetch_tiles<CLUSTER, true>(x, i, sm, at, m.across, m.back_z);
        }
    }
    gf_large_end<CLUSTER>();
}

/* ---- pieces ---- */

/* Rounds of all multiprocessors, in units of one tile and 64 numbers, that pieces of m x m tiles of 128 need per 128^2 tiles.
 * sums: P Z, or P Z and P'Z. In halves both kinds of tiles have three times as many products. */
static double cost_of(int64_t m, int ld, int halves, int sums_per_piece, int processors) {
    const int64_t parts = gf_large_tiles(ld, GF_LARGE_COLS), products = halves == 2 ? 3 : 1;
    const int64_t scores = halves == 2 ? m * m : m * ((m + 1) / 2), sums = sums_per_piece * m * parts;
    const int64_t rounds = (scores + processors - 1) / processors * (products * ld / GF_LARGE_STEP / halves + 2) +
                           (sums + processors - 1) / processors * (2 * products * m + 3) + 4;
    return static_cast<double>(rounds) / (static_cast<double>(m) * static_cast<double>(m));
}

/* Rows and columns of a piece: a multiple of 256, square, so that its weights fit the buffer. 0: it is too small. */
static int piece_of(const gf_tile_args &a, bool both, int halves) {
    const int processors = gf_device_attribute(cudaDevAttrMultiProcessorCount);
    const int64_t most = gf_large_tiles(a.q.rows > a.k.rows ? a.q.rows : a.k.rows, GF_LARGE_ROWS);
    int64_t best = 0;
    double least = 0.0;
    for (int64_t m = 2; m <= most + 1 && static_cast<size_t>(m * m * halves) * 32768 <= a.buffer_bytes; m += 2) {
        const int64_t pieces = (most + m - 1) / m, even = ((most + pieces - 1) / pieces + 1) / 2 * 2;
        const double cost =
            cost_of(m, a.ld, halves, both ? 2 : 1, processors) * static_cast<double>(pieces * m) / static_cast<double>(most);
        if (best && !(cost < least)) continue;
        best = even, least = cost;
    }
    return static_cast<int>(best) * GF_LARGE_ROWS;
}

bool gf_grad_can_large(const gf_tile_args &a, const gf_cuda_rows *mirror, int halves) {
    gf_tile_args plain = a;
    if (a.fixed) plain.flags &= ~unsigned(GF_SHIFT);
    return a.ld >= 256 / halves && a.buffer && gf_grad_pass::plain_flags(plain) != GF_ANY_FLAGS &&
           piece_of(a, mirror != NULL, halves) > 0;
}

struct grad_maps {
    gf_large_maps scores;
    sum_maps sums; /* those of the weights are of a piece */
};

static cudaError_t map_embeddings(const gf_tile_args &a, int halves, grad_maps *m) {
    cudaError_t e = gf_large_map(&m->scores, a, halves);
    for (int i = 0; e == cudaSuccess && i < halves; i++) {
        e = gf_wide_map(&m->sums.z[i], i ? a.k.lo : a.k.hi, a.k.rows, a.ld, 64);
        if (e == cudaSuccess) e = gf_wide_map(&m->sums.back_z[i], i ? a.q.lo : a.q.hi, a.q.rows, a.ld, 64);
    }
    return e;
}

template <int CLUSTER, int HALVES, bool FLOWS>
static cudaError_t run_piece(gf_weigh_job x, sum_job y, grad_maps m, cudaStream_t stream) {
    typedef gf_large_ring<HALVES> ring;
    const unsigned grid = gf_large_grid(x.rows, CLUSTER);
    const int columns = FLOWS ? GF_WIDE : ring::COLS, tiles = gf_large_tiles(x.cols, columns);
    cudaError_t e = cudaSuccess;
    x.pitch = tiles * columns;
    x.turns = gf_large_turns(grid, tiles, 1, gf_device_attribute(cudaDevAttrMultiProcessorCount),
                             FLOWS ? GF_FLOW_ENOUGH : GF_LARGE_ENOUGH);
    for (int i = 0; e == cudaSuccess && i < HALVES; i++) {
        e = gf_wide_map(&m.sums.weights[i], x.weights[i], x.rows, x.pitch, GF_LARGE_ROWS);
        if (e == cudaSuccess) e = gf_wide_map(&m.sums.across[i], x.weights[i], x.rows, x.pitch, 64);
    }
    if (e == cudaSuccess && FLOWS) e = weigh_in_flow(x, stream);
    else if (e == cudaSuccess)
        e = gf_large_launch(x.a.flags & GF_MASK ? large_weigh<GF_MASK, CLUSTER, HALVES> : large_weigh<0, CLUSTER, HALVES>,
                            dim3(grid, x.turns), CLUSTER, sizeof(ring), stream, x, m.scores);
    if (e != cudaSuccess) return e;
    const int clusters = clusters_of(y.side[0], y.ld, CLUSTER) + clusters_of(y.side[1], y.ld, CLUSTER);
    const int most = gf_device_attribute(cudaDevAttrMultiProcessorCount) / CLUSTER;
    return gf_large_launch(large_sum<CLUSTER>,
                           dim3(CLUSTER * (clusters < most ? clusters
                                           : most < 1      ? 1
                                                           : most)),
                           CLUSTER, sizeof(gf_large_shared), stream, y, m.sums);
}

/* The first piece of a row, or of a column, overwrites its gradient. */
static sum_job sums_of(const gf_weigh_job &x, float *back, bool triangle) {
    sum_job y = {};
    y.a = x.a, y.ld = x.a.ld, y.products = x.weights[1] ? 3 : 1;
    y.side[0] = {x.a.row.grad + size_t(x.row0) * x.a.ld, x.rows, gf_large_tiles(x.cols, GF_LARGE_STEP), x.col0,
                 triangle ? x.row0 > 0 || x.col0 > 0 : x.col0 > 0};
    if (back && !(triangle && x.row0 == x.col0))
        y.side[1] = {back + size_t(x.col0) * x.a.ld, x.cols, gf_large_tiles(x.rows, GF_LARGE_STEP), x.row0, x.row0 > 0};
    return y;
}

cudaError_t gf_grad_large(const gf_tile_args &a, const gf_cuda_rows *mirror, int halves, bool flows, cudaStream_t stream) {
    const bool triangle = mirror && a.q.hi == a.k.hi && a.q.rows == a.k.rows;
    flows = flows && a.ld >= GF_FLOW_LD;
    const int piece = piece_of(a, mirror != NULL, halves);
    grad_maps m = {};
    gf_weigh_job x = {};
    x.a = a, x.weights[0] = static_cast<__nv_bfloat16 *>(a.buffer);
    x.weights[1] = halves == 2 ? x.weights[0] + size_t(piece) * size_t(piece) : NULL;
    cudaError_t e = map_embeddings(a, halves, &m);
    for (x.row0 = 0; e == cudaSuccess && x.row0 < a.q.rows; x.row0 += piece)
        for (x.col0 = triangle ? x.row0 : 0; e == cudaSuccess && x.col0 < a.k.rows; x.col0 += piece) {
            x.rows = a.q.rows - x.row0 < piece ? a.q.rows - x.row0 : piece;
            x.cols = a.k.rows - x.col0 < piece ? a.k.rows - x.col0 : piece;
            const sum_job y = sums_of(x, mirror ? mirror->grad : NULL, triangle);
            e = halves == 2 ? run_piece<GF_LARGE_CLUSTER, 2, false>(x, y, m, stream)
                : flows     ? run_piece<1, 1, true>(x, y, m, stream)
                            : run_piece<GF_LARGE_CLUSTER, 1, false>(x, y, m, stream);
        }
    return e;
}
