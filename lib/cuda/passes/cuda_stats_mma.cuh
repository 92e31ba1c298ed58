/* cuda_stats_mma.cuh - pass B on tensor cores. See tile_mma.cuh for the layout of tiles.
 *
 * FLAGS is the set of flags the kernel was compiled for (none, GF_MASK | GF_COUNT, GF_ABOVE), or gf_is_any: tested at run time.
 */
#pragma once

#include "cuda/passes/tile_element.cuh"
#include "cuda/passes/tile_mma.cuh"

template <class C> struct gf_stats_rows { /* the rows of one thread: 2 MT of them */
    static constexpr int COUNT = 2 * C::MT;
    gf_row_view view[COUNT];
    gf_row_sums<float> sums[COUNT];
};

template <class C>
__device__ __forceinline__ void gf_stats_begin(const gf_tile_args &a, unsigned flags, gf_stats_rows<C> &x, int r0) {
#pragma unroll
    for (int i = 0; i < gf_stats_rows<C>::COUNT; i++) {
        x.view[i] = gf_view_row<gf_exp_fast>(a, flags, r0 + 16 * (i / 2) + 8 * (i % 2) + threadIdx.x % 32 / 4);
        x.sums[i] = gf_no_sums<float>();
    }
}

/* Adds the warp's part of one tile to the sums. */
template <class C, unsigned FLAGS>
__device__ __forceinline__ void gf_stats_tile(const gf_tile_args &a, gf_stats_rows<C> &x, const float (&acc)[C::MT][C::NT][4],
                                              int c0) {
    constexpr int N = 2 * C::NT;
#pragma unroll
    for (int i = 0; i < gf_stats_rows<C>::COUNT; i++) {
        const auto v = [&](int j) { return acc[i / 2][j / 2][2 * (i % 2) + j % 2]; };
        const auto col = [&](int j) { return c0 + 8 * (j / 2) + 2 * (threadIdx.x % 4) + j % 2; };
        if (gf_is_any(FLAGS) && !(a.flags & GF_ABOVE))
            gf_sum_row<gf_exp_fast, N>(a, gf_flags_of<FLAGS>(a), x.view[i], x.sums[i], v, v, col);
        else if (FLAGS & GF_ABOVE) gf_count_row<N>(x.view[i], x.sums[i], v);
        else gf_sum_row_plain<gf_exp_fast, N, FLAGS>(x.view[i], x.sums[i], v);
    }
}

/* Place of the thread's i-th row in the block; row: the warp's first. */
__device__ __forceinline__ int gf_stats_place(int row, int i) { return row + 16 * (i / 2) + 8 * (i % 2) + threadIdx.x % 32 / 4; }

/* Joins the sums of the row's four threads, then of its WN warps, in their order. True in the threads that have the result. */
template <class C>
__device__ __forceinline__ bool gf_stats_join(unsigned flags, gf_stats_rows<C> &x, int row, int wn, gf_row_sums<float> *parts) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < gf_stats_rows<C>::COUNT; i++) {
        gf_join_lanes<gf_exp_fast>(flags, x.view[i].k, x.sums[i], 1);
        gf_join_lanes<gf_exp_fast>(flags, x.view[i].k, x.sums[i], 2);
        if (C::WN > 1 && lane % 4 == 0) parts[wn * C::BM + gf_stats_place(row, i)] = x.sums[i];
    }
    if (C::WN > 1) gf_sync<C>();
    if (wn > 0 || lane % 4) return false;
#pragma unroll
    for (int i = 0; i < gf_stats_rows<C>::COUNT; i++)
        for (int w = 1; w < C::WN; w++)
            gf_join_sums<gf_exp_fast>(flags, x.view[i].k, x.sums[i], parts[w * C::BM + gf_stats_place(row, i)]);
    return true;
}

template <class C>
__device__ __forceinline__ void gf_stats_finish(const gf_tile_args &a, unsigned flags, gf_stats_rows<C> &x, int r0, int row,
                                                int wn, gf_row_sums<float> *parts) {
    if (!gf_stats_join<C>(flags, x, row, wn, parts)) return;
#pragma unroll
    for (int i = 0; i < gf_stats_rows<C>::COUNT; i++) {
        const int r = r0 + gf_stats_place(row, i);
        if (r < a.q.rows) gf_write_sums(a, flags, r, x.sums[i]);
    }
}

template <class C, unsigned FLAGS>
static __global__ void __launch_bounds__(C::THREADS, C::BLOCKS) gf_stats_mma(const __grid_constant__ gf_tile_args a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned flags = gf_flags_of<FLAGS>(a);
    const int warp = threadIdx.x / 32, row = warp / C::WN * 16 * C::MT, r0 = blockIdx.x * C::BM;
    gf_stats_rows<C> x;
    if (gf_is_any(FLAGS) && gf_is_off(a)) return;
    gf_stats_begin<C>(a, flags, x, r0 + row);
    gf_each_tile<C>(a, shared, r0, FLAGS == 0 ? -CUDART_INF_F : CUDART_NAN_F, [&](float(&acc)[C::MT][C::NT][4], int c) {
        if (FLAGS == GF_ANY_KEYED) gf_blank_keys<C>(a, acc, r0 + row, c, CUDART_NAN_F);
        gf_stats_tile<C, FLAGS>(a, x, acc, c);
    });
    gf_stats_finish<C>(a, flags, x, r0, row, warp % C::WN, reinterpret_cast<gf_row_sums<float> *>(shared));
}

template <class C, unsigned FLAGS> static cudaError_t gf_stats_launch(const gf_tile_args &a, cudaStream_t stream) {
    static_assert(C::WN * C::BM * sizeof(gf_row_sums<float>) <= C::TILES, "parts fit where the tiles were");
    const cudaError_t e = cudaFuncSetAttribute(gf_stats_mma<C, FLAGS>, cudaFuncAttributeMaxDynamicSharedMemorySize, C::TILES);
    if (e != cudaSuccess) return e;
    gf_stats_mma<C, FLAGS><<<(a.q.rows + C::BM - 1) / C::BM, C::THREADS, C::TILES, stream>>>(a);
    return cudaGetLastError();
}

struct gf_stats_pass { /* for the shapes of tile_mma.cuh */
    static constexpr unsigned MASKED = GF_MASK | GF_COUNT;
    static constexpr bool COUNTS = true;
    static constexpr int OUT = 0, SPLIT_NT = 4;
    template <class C, unsigned FLAGS> static cudaError_t launch(const gf_tile_args &a, cudaStream_t stream) {
        return gf_stats_launch<C, FLAGS>(a, stream);
    }
    static unsigned plain_flags(const gf_tile_args &a) {
        const unsigned others = GF_SHIFT | GF_MOMENT | GF_ATTRACT | GF_WEIGHT | GF_GROUP | GF_TIE | GF_MARKS | GF_SIGMOID;
        return a.flags & GF_ABOVE ? GF_ABOVE : a.flags & others ? GF_ANY_FLAGS : a.flags & MASKED;
    }
};
