/* cuda_wide.cu - passes B and C for 256 to 1024 dimensions on Hopper, any flags. See tile_wgmma.cuh for the tiles. FLAGS: those a
 * kernel was compiled for, or gf_is_any: tested at run time.
 *
 * Thread blocks take turns with the columns of 128 rows. Pass B writes one part per turn; `fold` joins them in their order.
 * Pass C writes as many of the weights P as fit the buffer, rounded to bf16, then adds their P Z to the gradient of these rows: S
 * is computed once for any width of the embeddings.
 *
 * All of them are one kernel: workers sum tiles that one more thread fetches. `Work` defines the tiles and their use.
 */
#include "cuda/passes/cuda_grad_mma.cuh"
#include "cuda/passes/cuda_stats_mma.cuh"
#include "cuda/sm90/hopper.cuh"
#include "cuda/sm90/tile_wgmma.cuh"

typedef gf_wide_shape C;

struct job {
    gf_tile_args a;
    int turns;                 /* thread blocks per 128 rows */
    gf_row_sums<float> *parts; /* pass B: [turns][rows] */
    __nv_bfloat16 *weights;    /* pass C: [rows from row0 on][cols_padded] */
    int row0, rows, col0, cols, cols_padded;
};

typedef void (*kernel)(job, CUtensorMap, CUtensorMap);

template <class Work>
static __global__ void __launch_bounds__(GF_WIDE_WORKERS + 128, 1)
    wide_kernel(const __grid_constant__ job x, const __grid_constant__ CUtensorMap left,
                const __grid_constant__ CUtensorMap right) {
    extern __shared__ __align__(1024) unsigned char shared[];
    gf_wide_shared &sm = *reinterpret_cast<gf_wide_shared *>(shared);
    if (gf_is_off(x.a)) return;
    gf_wide_begin(sm);
    if (threadIdx.x < GF_WIDE_WORKERS) {
        gf_wg_take_registers<240>();
        Work::calculate(x, sm);
    } else {
        gf_wg_give_registers();
        if (threadIdx.x == GF_WIDE_WORKERS) Work::fetch(x, sm, &left, &right);
    }
}

/* ---- similarities ---- */

static __device__ __forceinline__ int column_tiles(const job &x) { return (x.cols + GF_WIDE - 1) / GF_WIDE; }

struct scores { /* the tiles of this block: rows, columns */
    static __device__ __forceinline__ void fetch(const job &x, gf_wide_shared &sm, const CUtensorMap *rows,
                                                 const CUtensorMap *columns) {
        gf_wide_place at = {0, 0};
        for (int j = blockIdx.y; j < column_tiles(x); j += x.turns)
            for (int d = 0; d < x.a.ld; d += GF_WIDE_STEP, at.advance()) {
                const uint32_t ready = gf_wide_next(sm, at);
                gf_copy_box(gf_shared_address(sm.left[at.stage]), rows, d, x.row0 + blockIdx.x * GF_WIDE, ready);
                gf_copy_box(gf_shared_address(sm.right[at.stage]), columns, d, x.col0 + j * GF_WIDE, ready);
            }
    }
};

/* body(s, c0, dirty): similarities of the warp's rows; dirty: NaN where there is no pair; else all are pairs. */
template <class Body> static __device__ __forceinline__ void each_tile(const job &x, gf_wide_shared &sm, Body body) {
    const int r0 = x.row0 + blockIdx.x * GF_WIDE;
    gf_wide_place at = {0, 0};
    for (int j = blockIdx.y; j < column_tiles(x); j += x.turns) {
        float s[1][16][4];
        gf_wide_sums<false>(s[0], sm, at, x.a.ld / GF_WIDE_STEP);
        const int c0 = x.col0 + j * GF_WIDE;
        const bool dirty = gf_has_blanks(x.a, r0, GF_WIDE, c0, GF_WIDE);
        if (dirty) gf_blank<C>(x.a, s, r0 + gf_wide_row(), c0, CUDART_NAN_F);
        body(s, c0, dirty);
    }
}

/* ---- pass B ---- */

template <unsigned FLAGS>
static __device__ __forceinline__ void sum_tile(const gf_tile_args &a, gf_stats_rows<C> &y, const float (&s)[1][16][4], int c0) {
    const unsigned flags = gf_flags_of<FLAGS>(a);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const auto v = [&](int j) { return s[0][j / 2][2 * i + j % 2]; };
        const auto col = [&](int j) { return c0 + 8 * (j / 2) + 2 * (threadIdx.x % 4) + j % 2; };
        if (flags & GF_ABOVE) gf_count_row<32>(y.view[i], y.sums[i], v);
        else gf_sum_row<gf_exp_fast, 32>(a, flags, y.view[i], y.sums[i], v, v, col);
    }
}

template <unsigned FLAGS> struct sum_rows : scores {
    static __device__ __forceinline__ void calculate(const job &x, gf_wide_shared &sm) {
        const int r0 = blockIdx.x * GF_WIDE + gf_wide_row(), lane = threadIdx.x % 32;
        gf_stats_rows<C> y;
        gf_stats_begin<C>(x.a, x.a.flags, y, r0);
        each_tile(x, sm, [&](const float(&s)[1][16][4], int c0, bool) { sum_tile<FLAGS>(x.a, y, s, c0); });
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int r = r0 + 8 * i + lane / 4;
            gf_join_lanes<gf_exp_fast>(x.a.flags, y.view[i].k, y.sums[i], 1);
            gf_join_lanes<gf_exp_fast>(x.a.flags, y.view[i].k, y.sums[i], 2);
            if (lane % 4 == 0 && r < x.a.q.rows) x.parts[size_t(blockIdx.y) * x.a.q.rows + r] = y.sums[i];
        }
    }
};

#define THREADS 128

static __global__ void __launch_bounds__(THREADS) fold(const __grid_constant__ job x) {
    const int r = blockIdx.x * THREADS + threadIdx.x, rows = x.a.q.rows;
    if (r >= rows || gf_is_off(x.a)) return;
    gf_row_sums<float> t = x.parts[r];
    const float k = gf_view_row<gf_exp_fast>(x.a, x.a.flags, r).k;
    for (int i = 1; i < x.turns; i++) gf_join_sums<gf_exp_fast>(x.a.flags, k, t, x.parts[size_t(i) * rows + r]);
    gf_write_sums(x.a, x.a.flags, r, t);
}

/* ---- pass C ---- */

/* z: of tiles of pairs only; t: of the others. Turns add to a row in any order: these are integers. An anchor without label
 * equals no other. */
static __device__ __forceinline__ void write_quality(const gf_tile_args &a, int r, const gf_grad_rows<C> &z, int i, gf_colsum t) {
    if (z.label[i] >= 0) t.same += z.same[i], t.hits += z.hits[i];
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2) {
        t.same += __shfl_xor_sync(0xffffffffu, t.same, lanes);
        t.hits += __shfl_xor_sync(0xffffffffu, t.hits, lanes);
    }
    if (threadIdx.x % 4 || r >= a.q.rows) return;
    atomicAdd(a.row.same + r, t.same);
    atomicAdd(a.row.hits + r, t.hits);
}

/* FLAGS: as in cuda_grad_mma.cuh; QUALITY: GF_QUALITY is among them. */
template <unsigned FLAGS, bool QUALITY> struct weigh_rows : scores {
    static constexpr unsigned KNOWN = QUALITY ? FLAGS | GF_QUALITY : FLAGS;

    static __device__ __forceinline__ void calculate(const job &x, gf_wide_shared &sm) {
        const int at = blockIdx.x * GF_WIDE + gf_wide_row(), r0 = x.row0 + at, lane = threadIdx.x % 32;
        const float k = x.a.row.inv_tau[0] * gf_exp_fast::scale;
        gf_grad_any<C> y;
        gf_grad_rows<C> z = {};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int r = r0 + 8 * i + lane / 4;
            y.view[i] = gf_view_weights<gf_exp_fast>(x.a.row, gf_flags_of<KNOWN>(x.a), r, x.a.q.rows);
            y.counts[i] = {0.0, 0.0, 0, 0};
            z.label[i] = y.view[i].label;
            if (gf_is_any(FLAGS) || r >= x.a.q.rows) continue;
            z.w[i] = x.a.row.w[r];
            if (FLAGS & GF_MASK) z.theta[i] = x.a.row.theta[r];
        }
        each_tile(x, sm, [&](float(&s)[1][16][4], int c0, bool dirty) {
            if (gf_is_any(FLAGS) || dirty) gf_any_weights<C, KNOWN>(x.a, s, y, r0, c0);
            else gf_plain_weights<C, KNOWN>(s, z, x.a.col.w + c0, x.a.col.theta + c0, x.a.col.label + c0, k);
            write_weights(x, s, at, c0 - x.col0);
        });
#pragma unroll
        for (int i = 0; QUALITY && i < 2; i++) write_quality(x.a, r0 + 8 * i + lane / 4, z, i, y.counts[i]);
    }

    static __device__ __forceinline__ void write_weights(const job &x, const float (&s)[1][16][4], int at, int c0) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int r = at + 8 * h + lane / 4;
            if (r >= x.rows) continue;
            uint32_t *to = reinterpret_cast<uint32_t *>(x.weights + size_t(r) * x.cols_padded + c0) + lane % 4;
#pragma unroll
            for (int n = 0; n < 16; n++) to[4 * n] = gf_pack(s[0][n][2 * h], s[0][n][2 * h + 1]);
        }
    }
};

struct sum_weighted { /* 128 rows of the gradient, 128 dimensions: P Z over the columns of this call */
    static __device__ __forceinline__ void fetch(const job &x, gf_wide_shared &sm, const CUtensorMap *weights,
                                                 const CUtensorMap *columns) {
        gf_wide_place at = {0, 0};
        for (int c = 0; c < x.cols_padded; c += GF_WIDE_STEP, at.advance()) {
            const uint32_t ready = gf_wide_next(sm, at), right = gf_shared_address(sm.right[at.stage]);
            gf_copy_box(gf_shared_address(sm.left[at.stage]), weights, c, blockIdx.x * GF_WIDE, ready);
            gf_copy_box(right, columns, blockIdx.y * GF_WIDE, x.col0 + c, ready);
            gf_copy_box(right + GF_WIDE_BYTES / 2, columns, blockIdx.y * GF_WIDE + 64, x.col0 + c, ready);
        }
    }

    static __device__ __forceinline__ void calculate(const job &x, gf_wide_shared &sm) {
        const int at = blockIdx.x * GF_WIDE + gf_wide_row(), lane = threadIdx.x % 32;
        gf_wide_place place = {0, 0};
        float out[16][4];
        gf_wide_sums<true>(out, sm, place, x.cols_padded / GF_WIDE_STEP);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int r = at + 8 * h + lane / 4;
            if (r >= x.rows) continue;
            float *to = x.a.row.grad + size_t(x.row0 + r) * x.a.ld + blockIdx.y * GF_WIDE + 2 * (lane % 4);
#pragma unroll
            for (int n = 0; n < 16; n++) {
                float2 sum = make_float2(out[n][2 * h], out[n][2 * h + 1]), *const at_n = reinterpret_cast<float2 *>(to + 8 * n);
                if (x.col0 > 0) sum.x += at_n->x, sum.y += at_n->y;
                *at_n = sum;
            }
        }
    }
};

/* ---- launches ---- */

static int tiles_of(int rows) { return (rows + GF_WIDE - 1) / GF_WIDE; }

/* Blocks per 128 rows: as many as multiprocessors and columns allow. */
static int turns_of(int rows, int cols) {
    const int processors = gf_device_attribute(cudaDevAttrMultiProcessorCount), turns = processors / tiles_of(rows);
    return turns < 1 ? 1 : turns < tiles_of(cols) ? turns : tiles_of(cols);
}

static cudaError_t launch(kernel made, const job &x, dim3 grid, const CUtensorMap &left, const CUtensorMap &right,
                          cudaStream_t stream) {
    const cudaError_t e = cudaFuncSetAttribute(made, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(gf_wide_shared));
    if (e != cudaSuccess) return e;
    made<<<grid, GF_WIDE_WORKERS + 128, sizeof(gf_wide_shared), stream>>>(x, left, right);
    return cudaGetLastError();
}

/* The flags that matter most have kernels of their own. */
static kernel stats_kernel(unsigned flags) {
    switch (flags) {
    case 0: return wide_kernel<sum_rows<0>>;
    case GF_ABOVE: return wide_kernel<sum_rows<GF_ABOVE>>;
    case GF_MASK | GF_COUNT: return wide_kernel<sum_rows<GF_MASK | GF_COUNT>>;
    case GF_MOMENT: return wide_kernel<sum_rows<GF_MOMENT>>;
    case GF_MASK | GF_COUNT | GF_MOMENT: return wide_kernel<sum_rows<GF_MASK | GF_COUNT | GF_MOMENT>>;
    default: return flags & GF_SIGMOID ? wide_kernel<sum_rows<GF_ANY_SIGMOID>> : wide_kernel<sum_rows<GF_ANY_FLAGS>>;
    }
}

template <unsigned FLAGS> static kernel weigh_kernel(const gf_tile_args &a) {
    return a.flags & GF_QUALITY ? wide_kernel<weigh_rows<FLAGS, true>> : wide_kernel<weigh_rows<FLAGS, false>>;
}

static kernel grad_kernel(const gf_tile_args &a) {
    switch (gf_grad_pass::labelled_flags(a)) {
    case 0: return weigh_kernel<0>(a);
    case GF_MASK: return weigh_kernel<GF_MASK>(a);
    default: return a.flags & GF_SIGMOID ? weigh_kernel<GF_ANY_SIGMOID>(a) : weigh_kernel<GF_ANY_FLAGS>(a);
    }
}

/* With fewer tiles than about half of the multiprocessors (64 of 132) most of those would be idle: the general kernels have
 * smaller tiles. */
static int64_t min_tiles() { return int64_t(gf_device_attribute(cudaDevAttrMultiProcessorCount)) * 16 / 33; }

static bool is_wide(const gf_tile_args &a) {
    return a.ld > 128 && !(a.flags & (GF_TIE | GF_MARKS)) && int64_t(tiles_of(a.q.rows)) * tiles_of(a.k.rows) >= min_tiles();
}

bool gf_stats_can_wide(const gf_tile_args &a) {
    const size_t part = sizeof(gf_row_sums<float>) * static_cast<size_t>(a.q.rows);
    return is_wide(a) && a.buffer && static_cast<size_t>(turns_of(a.q.rows, a.k.rows)) * part <= a.buffer_bytes;
}

cudaError_t gf_stats_wide(const gf_tile_args &a, cudaStream_t stream) {
    job x = {};
    CUtensorMap rows, columns;
    x.a = a, x.rows = a.q.rows, x.cols = a.k.rows;
    x.turns = turns_of(a.q.rows, a.k.rows);
    x.parts = static_cast<gf_row_sums<float> *>(a.buffer);
    cudaError_t e = gf_wide_map(&rows, a.q.hi, a.q.rows, a.ld, GF_WIDE);
    if (e == cudaSuccess) e = gf_wide_map(&columns, a.k.hi, a.k.rows, a.ld, GF_WIDE);
    if (e == cudaSuccess) e = launch(stats_kernel(a.flags), x, dim3(tiles_of(a.q.rows), x.turns), rows, columns, stream);
    if (e != cudaSuccess) return e;
    fold<<<(a.q.rows + THREADS - 1) / THREADS, THREADS, 0, stream>>>(x);
    return cudaGetLastError();
}

static cudaError_t clear_quality(const gf_tile_args &a, cudaStream_t stream) {
    const size_t bytes = sizeof(int32_t) * static_cast<size_t>(a.q.rows);
    const cudaError_t e = cudaMemsetAsync(a.row.same, 0, bytes, stream);
    return e == cudaSuccess ? cudaMemsetAsync(a.row.hits, 0, bytes, stream) : e;
}

/* Rows and columns whose weights fit the buffer: all; or all columns and at least 1024 rows, enough for P Z to use all
 * multiprocessors; or a square. */
struct piece {
    int rows, cols;
};

static piece weighed_at_once(const gf_tile_args &a) {
    const size_t row = sizeof(__nv_bfloat16) * static_cast<size_t>(tiles_of(a.k.rows)) * GF_WIDE, fit = a.buffer_bytes / row;
    if (fit >= static_cast<size_t>(a.q.rows)) return {a.q.rows, a.k.rows};
    if (fit >= 1024) return {static_cast<int>(fit) / GF_WIDE * GF_WIDE, a.k.rows};
    int side = 0;
    while (sizeof(__nv_bfloat16) * static_cast<size_t>(side + GF_WIDE) * static_cast<size_t>(side + GF_WIDE) <= a.buffer_bytes)
        side += GF_WIDE;
    return {side, side};
}

bool gf_grad_can_wide(const gf_tile_args &a) {
    return is_wide(a) && !(a.flags & GF_COLSUM) && a.row.grad && a.buffer && weighed_at_once(a).rows > 0;
}

/* One piece: its weights, then their P Z. */
static cudaError_t grad_piece(job x, const CUtensorMap &rows, const CUtensorMap &columns, const CUtensorMap &across,
                              cudaStream_t stream) {
    CUtensorMap weights;
    x.cols_padded = tiles_of(x.cols) * GF_WIDE;
    x.turns = turns_of(x.rows, x.cols);
    cudaError_t e = gf_wide_map(&weights, x.weights, x.rows, x.cols_padded, GF_WIDE);
    if (e == cudaSuccess) e = launch(grad_kernel(x.a), x, dim3(tiles_of(x.rows), x.turns), rows, columns, stream);
    if (e == cudaSuccess)
        e = launch(wide_kernel<sum_weighted>, x, dim3(tiles_of(x.rows), x.a.ld / GF_WIDE), weights, across, stream);
    return e;
}

cudaError_t gf_grad_wide(const gf_tile_args &a, cudaStream_t stream) {
    job x = {};
    CUtensorMap rows, columns, across;
    x.a = a;
    x.weights = static_cast<__nv_bfloat16 *>(a.buffer);
    const piece most = weighed_at_once(a);
    cudaError_t e = gf_wide_map(&rows, a.q.hi, a.q.rows, a.ld, GF_WIDE);
    if (e == cudaSuccess) e = gf_wide_map(&columns, a.k.hi, a.k.rows, a.ld, GF_WIDE);
    if (e == cudaSuccess) e = gf_wide_map(&across, a.k.hi, a.k.rows, a.ld, GF_WIDE_STEP);
    if (e == cudaSuccess && a.flags & GF_QUALITY) e = clear_quality(a, stream);
    for (x.row0 = 0; e == cudaSuccess && x.row0 < a.q.rows; x.row0 += most.rows)
        for (x.col0 = 0; e == cudaSuccess && x.col0 < a.k.rows; x.col0 += most.cols) {
            x.rows = a.q.rows - x.row0 < most.rows ? a.q.rows - x.row0 : most.rows;
            x.cols = a.k.rows - x.col0 < most.cols ? a.k.rows - x.col0 : most.cols;
            e = grad_piece(x, rows, columns, across, stream);
        }
    return e;
}
