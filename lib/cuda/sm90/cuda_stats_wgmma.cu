/* cuda_stats_wgmma.cu - pass B for many rows of 128 dimensions on Hopper: warpgroup products, columns fetched by the copy engine.
 *
 * Four warpgroups compute: while some sum, the tensor cores work for the others.
 */
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/cuda_stats_mma.cuh"
#include "cuda/passes/tile_wgmma.cuh"

template <class C, unsigned FLAGS>
static __device__ __forceinline__ void sum_rows(const gf_tile_args &a, gf_wg_shared<C> &sm, int r0, int tiles) {
    const int row = gf_wg_row<C>(), group = gf_wg_index(), turn = group / C::GM;
    const float blank = FLAGS & (GF_MASK | GF_ABOVE) ? CUDART_NAN_F : FLAGS & GF_MOMENT ? GF_NO_PAIR : -CUDART_INF_F;
    gf_stats_rows<C> x;
    gf_stats_begin<C>(a, FLAGS, x, r0 + row);
    gf_barrier_wait(gf_shared_address(&sm.rows_full), 0);
    for (int j = turn; j < tiles; j += C::GN) {
        float s[1][16][4];
        const int c0 = j * GF_WG_COLS;
        gf_wg_start_scores(s[0], sm, j, group % C::GM);
        gf_wg_wait<0>();
        gf_wg_pin(s[0]);
        gf_wg_release(sm, j);
        if (gf_has_blanks(a, r0, C::BM, c0, GF_WG_COLS)) gf_blank<C>(a, s, r0 + row, c0, blank);
        gf_stats_tile<C, FLAGS>(a, x, s, c0);
    }
    gf_sync<C>();
    gf_stats_finish<C>(a, FLAGS, x, r0, row, turn, reinterpret_cast<gf_row_sums<float> *>(sm.columns));
}

template <class C, unsigned FLAGS>
static __global__ void __launch_bounds__(C::ALL, 1)
    stats_wgmma(const __grid_constant__ gf_tile_args a, const __grid_constant__ CUtensorMap rows,
                const __grid_constant__ CUtensorMap columns) {
    extern __shared__ __align__(1024) unsigned char shared[];
    gf_wg_shared<C> &sm = *reinterpret_cast<gf_wg_shared<C> *>(shared);
    const int r0 = blockIdx.x * C::BM, tiles = (a.k.rows + GF_WG_COLS - 1) / GF_WG_COLS;
    gf_wg_start(sm, &rows, r0, 1);
    if (threadIdx.x < C::WORKERS) {
        gf_wg_take_registers<112>(); /* 512 x 112 + 128 x 24 of the 640 x 96 the block starts with: more would never be granted */
        sum_rows<C, FLAGS>(a, sm, r0, tiles);
    } else {
        gf_wg_give_registers();
        for (int j = 0; threadIdx.x == C::WORKERS && j < tiles; j++) {
            gf_wg_wait_empty(sm, j);
            gf_wg_fetch(sm, &columns, j, j);
        }
    }
}

template <class C, unsigned FLAGS> static cudaError_t launch(const gf_tile_args &a, cudaStream_t stream) {
    return gf_wg_launch<C>(stats_wgmma<C, FLAGS>, a, stream);
}

template <unsigned FLAGS> static cudaError_t launch_any(const gf_tile_args &a, cudaStream_t stream) {
    switch (gf_block_rows(a.q.rows)) {
    case 256: return launch<gf_wg_shape<4, 1>, FLAGS>(a, stream);
    case 128: return launch<gf_wg_shape<2, 2>, FLAGS>(a, stream);
    default: return launch<gf_wg_shape<1, 4>, FLAGS>(a, stream);
    }
}

bool gf_stats_can_wgmma(const gf_tile_args &a) {
    gf_tile_args plain = a;
    plain.flags &= ~unsigned(GF_MOMENT);
    const unsigned flags = gf_stats_pass::plain_flags(plain);
    return a.ld == 128 && (flags == 0 || flags == GF_ABOVE || flags == (GF_MASK | GF_COUNT));
}

cudaError_t gf_stats_wgmma(const gf_tile_args &a, cudaStream_t stream) {
    if (a.flags & GF_ABOVE) return launch_any<GF_ABOVE>(a, stream);
    switch (a.flags & (GF_MASK | GF_MOMENT)) {
    case 0: return launch_any<0>(a, stream);
    case GF_MASK: return launch_any<GF_MASK | GF_COUNT>(a, stream);
    case GF_MOMENT: return launch_any<GF_MOMENT>(a, stream);
    default: return launch_any<GF_MASK | GF_COUNT | GF_MOMENT>(a, stream);
    }
}
