/* cuda_stats_wgmma.cu - pass B for many rows of 128 dimensions on Hopper: warpgroup products, columns brought by the copy engine.
 *
 * Two tiles of S per warpgroup: while one is summed, the tensor cores make the other.
 */
#include "cuda/loss/cuda_kernels.cuh"
#include "cuda/loss/cuda_stats_mma.cuh"
#include "cuda/loss/tile_wgmma.cuh"

typedef gf_mma_shape<128, 1, 8, 1, 1, 16> shape; /* where the accumulators stand */

struct stats_shared {
    gf_wg_shared pipe;
    int lists[2 * GF_WG_ROWS];  /* entries of the rows' window lists; of these, up to mid */
};

template <unsigned FLAGS>
static __device__ __forceinline__ void add_tile(const gf_tile_args &a, gf_stats_rows<shape> &x, float (&now)[1][16][4], float (&next)[1][16][4],
                                                stats_shared &sm, int r0, int j, int tiles) {
    const int row = threadIdx.x / 32 * 16, c0 = j * GF_WG_COLS;
    if (j + 1 < tiles) {
        gf_wg_start_scores(next[0], sm.pipe, j + 1);
        gf_wg_wait<1>();
    } else {
        gf_wg_wait<0>();
    }
    gf_wg_pin(now[0]);
    gf_wg_release(sm.pipe, j);
    if (gf_is_dirty(a, r0, GF_WG_ROWS, c0, GF_WG_COLS)) gf_blank<shape>(a, now, r0 + row, c0, FLAGS ? CUDART_INF_F : -CUDART_INF_F);
    gf_stats_tile<shape, FLAGS>(a, x, now, r0, row, c0, sm.lists);
}

template <unsigned FLAGS>
static __device__ __forceinline__ void sum_rows(const gf_tile_args &a, stats_shared &sm, int r0, int tiles) {
    const int row = threadIdx.x / 32 * 16;
    gf_stats_rows<shape> x;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        x.view[i] = gf_view_row<gf_exp_fast>(a, FLAGS, r0 + row + 8 * i + threadIdx.x % 32 / 4);
        x.sums[i] = gf_no_sums<float>();
    }
    float even[1][16][4], odd[1][16][4];
    gf_barrier_wait(gf_shared_address(&sm.pipe.rows_full), 0);
    gf_wg_start_scores(even[0], sm.pipe, 0);
    for (int j = 0; j < tiles; j += 2) {
        add_tile<FLAGS>(a, x, even, odd, sm, r0, j, tiles);
        if (j + 1 < tiles) add_tile<FLAGS>(a, x, odd, even, sm, r0, j + 1, tiles);
    }
    __syncwarp();
    gf_stats_finish<shape>(a, FLAGS, x, r0, row, 0, sm.lists, NULL);
}

template <unsigned FLAGS>
static __global__ void __launch_bounds__(GF_WG_THREADS, 1) stats_wgmma(const __grid_constant__ gf_tile_args a,
                                                                       const __grid_constant__ CUtensorMap rows,
                                                                       const __grid_constant__ CUtensorMap columns) {
    extern __shared__ __align__(1024) unsigned char shared[];
    stats_shared &sm = *reinterpret_cast<stats_shared *>(shared);
    if (gf_disabled(a)) return;
    const int r0 = blockIdx.x * GF_WG_ROWS, tiles = (a.k.rows + GF_WG_COLS - 1) / GF_WG_COLS;
    for (int i = threadIdx.x; i < 2 * GF_WG_ROWS; i += GF_WG_THREADS) sm.lists[i] = 0;
    gf_wg_start(sm.pipe, &rows, r0, 1);
    if (threadIdx.x < 256) {
        sum_rows<FLAGS>(a, sm, r0, tiles);
    } else if (threadIdx.x == 256) {
        for (int j = 0; j < tiles; j++) {
            gf_wg_wait_empty(sm.pipe, j);
            gf_wg_fetch(sm.pipe, &columns, j);
        }
    }
}

template <unsigned FLAGS>
static cudaError_t launch(const gf_tile_args &a, cudaStream_t stream) {
    CUtensorMap rows, columns;
    cudaError_t e = gf_wg_map(&rows, a.q.hi, a.q.rows);
    if (e == cudaSuccess) e = gf_wg_map(&columns, a.k.hi, a.k.rows);
    if (e == cudaSuccess) e = cudaFuncSetAttribute(stats_wgmma<FLAGS>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(stats_shared));
    if (e != cudaSuccess) return e;
    stats_wgmma<FLAGS><<<(a.q.rows + GF_WG_ROWS - 1) / GF_WG_ROWS, GF_WG_THREADS, sizeof(stats_shared), stream>>>(a, rows, columns);
    return cudaGetLastError();
}

cudaError_t gf_stats_wgmma(const gf_tile_args &a, cudaStream_t stream) {
    return a.flags & GF_MASK ? launch<GF_MASK | GF_COUNT>(a, stream) : launch<0>(a, stream);
}
