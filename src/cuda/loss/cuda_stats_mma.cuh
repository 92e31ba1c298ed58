/* cuda_stats_mma.cuh - pass B on tensor cores. See tile_mma.cuh for who holds what.
 *
 * FLAGS is the set of flags the kernel was made for (none, or GF_MASK | GF_COUNT), or GF_ANY_FLAGS: then it asks at run time.
 */
#ifndef GF_CUDA_STATS_MMA_CUH
#define GF_CUDA_STATS_MMA_CUH

#include "cuda/loss/cuda_shapes.cuh"
#include "cuda/loss/tile_element.cuh"

template <class C>
struct gf_stats_rows {          /* the rows of one thread: 2 MT of them */
    static constexpr int COUNT = 2 * C::MT;
    gf_row_view view[COUNT];
    gf_row_sums<float> sums[COUNT];
};

/* Undecided entries of row `at` of the block (v(i), n of them) go to its list. */
template <int N, class V, class Open>
__device__ __forceinline__ void gf_list_open(const gf_tile_args &a, int r, float mid, int *n, int *le, V v, Open open) {
    int below = 0;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (open(i)) {
            gf_push(a, r, v(i), n);
            below += v(i) <= mid;
        }
    if (below) atomicAdd(le, below);
}

/* The warp's part of one tile joins the sums. */
template <class C, unsigned FLAGS>
__device__ __forceinline__ void gf_stats_tile(const gf_tile_args &a, gf_stats_rows<C> &x, const float (&acc)[C::MT][C::NT][4],
                                              int r0,
                                              int row, int c0, int *lists) {
    constexpr int N = 2 * C::NT;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < gf_stats_rows<C>::COUNT; i++) {
        const int at = row + 16 * (i / 2) + 8 * (i % 2) + lane / 4;
        const gf_row_view &w = x.view[i];
        const auto v = [&](int j) { return acc[i / 2][j / 2][2 * (i % 2) + j % 2]; };
        const auto col = [&](int j) { return c0 + 8 * (j / 2) + 2 * (lane % 4) + j % 2; };
        if (FLAGS == GF_ANY_FLAGS) {
            const auto open = [&](int j) { return gf_judge(a, a.flags, w, v(j), v(j), col(j)).open; };
            if (gf_sum_row<gf_exp_fast, N>(a, a.flags, w, x.sums[i], v, v, col))
                gf_list_open<N>(a, r0 + at, w.mid, &lists[at], &lists[C::BM + at], v, open);
        } else {
            const int before = x.sums[i].kept;
            const float above = gf_sum_row_plain<gf_exp_fast, N, FLAGS != 0>(w, x.sums[i], v);
            if (FLAGS == 0 || !(above <= w.hi) || above == CUDART_INF_F) continue;
            int open = before - x.sums[i].kept;
#pragma unroll
            for (int j = 0; j < N; j++) open += v(j) <= w.hi ? 1 : 0;
            gf_push_open<N>(a, r0 + at, w, open, above, &lists[at], &lists[C::BM + at], v);
        }
    }
}

/* Shares of the row's four threads, then of its WN warps, in their order. */
template <class C>
__device__ __forceinline__ void gf_stats_finish(const gf_tile_args &a, unsigned flags, gf_stats_rows<C> &x, int r0, int row,
                                                int wn,
                                                const int *lists, gf_row_sums<float> *parts) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < gf_stats_rows<C>::COUNT; i++) {
        const int at = row + 16 * (i / 2) + 8 * (i % 2) + lane / 4;
        gf_join_lanes<gf_exp_fast>(flags, x.view[i].k, x.sums[i], 1);
        gf_join_lanes<gf_exp_fast>(flags, x.view[i].k, x.sums[i], 2);
        if (C::WN > 1 && lane % 4 == 0) parts[wn * C::BM + at] = x.sums[i];
    }
    if (C::WN > 1) gf_sync<C>();
    if (wn > 0 || lane % 4) return;
#pragma unroll
    for (int i = 0; i < gf_stats_rows<C>::COUNT; i++) {
        const int at = row + 16 * (i / 2) + 8 * (i % 2) + lane / 4;
        for (int w = 1; w < C::WN; w++) gf_join_sums<gf_exp_fast>(flags, x.view[i].k, x.sums[i], parts[w * C::BM + at]);
        if (r0 + at < a.q.rows) gf_write_sums(a, flags, r0 + at, x.sums[i], lists[at], lists[C::BM + at]);
    }
}

template <class C, unsigned FLAGS>
static __global__ void __launch_bounds__(C::THREADS, C::BLOCKS) gf_stats_mma(const __grid_constant__ gf_tile_args a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    int *lists = reinterpret_cast<int *>(shared + C::TILES); /* [2][BM] entries of the rows' window lists; of these, up to mid */
    if (gf_disabled(a)) return;
    const unsigned flags = FLAGS == GF_ANY_FLAGS ? a.flags : FLAGS;
    const float blank = FLAGS == 0 ? -CUDART_INF_F : CUDART_NAN_F;
    const uint32_t rows = gf_shared_address(shared), columns = rows + C::A_BYTES;
    const int warp = threadIdx.x / 32, wn = warp % C::WN, row = warp / C::WN * 16 * C::MT, col = wn * 8 * C::NT;
    const int r0 = blockIdx.x * C::BM, lane = threadIdx.x % 32;
    gf_copy_operand<C, C::BM>(rows, a.q, r0);
    gf_copy_operand<C, C::BN>(columns, a.k, 0);
    gf_copy_commit();
    gf_stats_rows<C> x;
#pragma unroll
    for (int i = 0; i < gf_stats_rows<C>::COUNT; i++) {
        x.view[i] = gf_view_row<gf_exp_fast>(a, flags, r0 + row + 16 * (i / 2) + 8 * (i % 2) + lane / 4);
        x.sums[i] = gf_no_sums<float>();
    }
    for (int i = threadIdx.x; i < 2 * C::BM; i += C::THREADS) lists[i] = 0;
    int buffer = 0;
    for (int c0 = 0; c0 < a.k.rows; c0 += C::BN, buffer ^= 1) {
        float acc[C::MT][C::NT][4];
        gf_copy_wait<0>();
        __syncthreads();        /* this tile is there, and nobody reads the other buffer any more */
        if (c0 + C::BN < a.k.rows) gf_copy_operand<C, C::BN>(columns + (buffer ^ 1) * C::B_BYTES, a.k, c0 + C::BN);
        gf_copy_commit();
        gf_scores<C>(acc, rows, row, columns + buffer * C::B_BYTES, col);
        if (gf_is_dirty(a, r0, C::BM, c0, C::BN)) gf_blank<C>(a, acc, r0 + row, c0 + col, blank);
        gf_stats_tile<C, FLAGS>(a, x, acc, r0, row, c0 + col, lists);
    }
    __syncthreads();
    gf_stats_finish<C>(a, flags, x, r0, row, wn, lists, reinterpret_cast<gf_row_sums<float> *>(shared));
}

template <class C, unsigned FLAGS>
static cudaError_t gf_stats_launch(const gf_tile_args &a, cudaStream_t stream) {
    static_assert(C::WN * C::BM * sizeof(gf_row_sums<float>) <= C::TILES, "parts fit where the tiles were");
    constexpr int SHARED = C::TILES + 2 * C::BM * static_cast<int>(sizeof(int));
    const cudaError_t e = cudaFuncSetAttribute(gf_stats_mma<C, FLAGS>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    if (e != cudaSuccess) return e;
    gf_stats_mma<C, FLAGS><<<(a.q.rows + C::BM - 1) / C::BM, C::THREADS, SHARED, stream>>>(a);
    return cudaGetLastError();
}

struct gf_stats_pass {          /* for cuda_shapes.cuh */
    static constexpr unsigned MASKED = GF_MASK | GF_COUNT;
    static constexpr int OUT = 0, SPLIT_NT = 4;
    template <class C, unsigned FLAGS>
    static cudaError_t launch(const gf_tile_args &a, cudaStream_t stream) { return gf_stats_launch<C, FLAGS>(a, stream); }
    static cudaError_t wgmma(const gf_tile_args &a, cudaStream_t stream) { return gf_stats_wgmma(a, stream); }
    static unsigned plain_flags(const gf_tile_args &a) {
        const unsigned others = GF_SHIFT | GF_MOMENT | GF_ATTRACT | GF_WEIGHT | GF_GROUP | GF_TIE;
        return a.flags & others ? GF_ANY_FLAGS : a.flags & MASKED;
    }
};

#endif
