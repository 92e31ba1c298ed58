/* cuda_grad_wgmma.cu - pass C for many rows of 128 dimensions on Hopper: warpgroup products, columns brought by the copy engine.
 *
 * While a warpgroup turns tile j + 1 of S into weights, the tensor cores make P Z of tile j; the other warpgroup fills what is left.
 */
#include "cuda/loss/cuda_grad_mma.cuh"
#include "cuda/loss/cuda_kernels.cuh"
#include "cuda/loss/tile_wgmma.cuh"

typedef gf_mma_shape<128, 1, 8, 1, 1, 16> shape; /* where the accumulators stand */

template <unsigned FLAGS>
static __device__ __forceinline__ void weigh(const gf_tile_args &a, const gf_grad_rows<shape> &x, float (&s)[1][16][4], gf_wg_shared &sm,
                                             int r0, int j, float k) {
    const int row = threadIdx.x / 32 * 16, c0 = j * GF_WG_COLS, stage = j % GF_WG_STAGES;
    if (gf_is_dirty(a, r0, GF_WG_ROWS, c0, GF_WG_COLS)) gf_blank<shape>(a, s, r0 + row, c0, -CUDART_INF_F);
    gf_plain_weights<shape, FLAGS>(s, x, sm.w[stage], sm.theta[stage], k);
}

template <unsigned FLAGS>
static __device__ __forceinline__ void sum_rows(const gf_tile_args &a, gf_wg_shared &sm, int r0, int tiles) {
    const int row = threadIdx.x / 32 * 16;
    const float k = a.row.inv_tau[0] * gf_exp_fast::scale;
    gf_grad_rows<shape> x;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int r = r0 + row + 8 * i + threadIdx.x % 32 / 4;
        x.w[i] = r < a.q.rows ? a.row.w[r] : 0.0f;
        x.theta[i] = FLAGS & GF_MASK && r < a.q.rows ? a.row.theta[r] : 0.0f;
    }
    float s[1][16][4], out[1][16][4] = {};
    uint32_t p[1][8][4];
    gf_barrier_wait(gf_shared_address(&sm.rows_full), 0);
    gf_wg_start_scores(s[0], sm, 0);
    gf_wg_wait<0>();
    gf_wg_pin(s[0]);
    weigh<FLAGS>(a, x, s, sm, r0, 0, k);
    gf_round_weights<shape>(p, s);
    for (int j = 0; j + 1 < tiles; j++) {
        gf_wg_start_scores(s[0], sm, j + 1);
        gf_wg_sums(out[0], p[0], gf_shared_address(sm.columns[j % GF_WG_STAGES]));
        gf_wg_wait<1>();
        gf_wg_pin(s[0]);
        weigh<FLAGS>(a, x, s, sm, r0, j + 1, k);
        gf_wg_wait<0>();
        gf_wg_pin(out[0]);
        gf_wg_release(sm, j);
        gf_round_weights<shape>(p, s);
    }
    gf_wg_sums(out[0], p[0], gf_shared_address(sm.columns[(tiles - 1) % GF_WG_STAGES]));
    gf_wg_wait<0>();
    gf_wg_pin(out[0]);
    gf_write_grad<shape>(a, out, r0, row, 0, NULL);
}

/* The ninth warp: tiles of columns, and their anchors' numbers. */
template <unsigned FLAGS>
static __device__ __forceinline__ void fetch_columns(const gf_tile_args &a, gf_wg_shared &sm, const CUtensorMap *columns, int tiles) {
    for (int j = 0; j < tiles; j++) {
        const int stage = j % GF_WG_STAGES, lane = threadIdx.x % 32;
        gf_wg_wait_empty(sm, j);
        if (lane == 0) gf_wg_fetch(sm, columns, j);
#pragma unroll
        for (int i = 0; i < GF_WG_COLS; i += 32) {
            const int c = j * GF_WG_COLS + i + lane;
            sm.w[stage][i + lane] = c < a.k.rows ? a.col.w[c] : 0.0f;
            if (FLAGS & GF_MASK) sm.theta[stage][i + lane] = c < a.k.rows ? a.col.theta[c] : 0.0f;
        }
        gf_barrier_arrive(gf_shared_address(&sm.full[stage]));
    }
}

template <unsigned FLAGS>
static __global__ void __launch_bounds__(GF_WG_THREADS, 1) grad_wgmma(const __grid_constant__ gf_tile_args a,
                                                                      const __grid_constant__ CUtensorMap rows,
                                                                      const __grid_constant__ CUtensorMap columns) {
    extern __shared__ __align__(1024) unsigned char shared[];
    gf_wg_shared &sm = *reinterpret_cast<gf_wg_shared *>(shared);
    if (gf_disabled(a)) return;
    const int r0 = blockIdx.x * GF_WG_ROWS, tiles = (a.k.rows + GF_WG_COLS - 1) / GF_WG_COLS;
    gf_wg_start(sm, &rows, r0, 33);
    if (threadIdx.x < 256) sum_rows<FLAGS>(a, sm, r0, tiles);
    else fetch_columns<FLAGS>(a, sm, &columns, tiles);
}

template <unsigned FLAGS>
static cudaError_t launch(const gf_tile_args &a, cudaStream_t stream) {
    CUtensorMap rows, columns;
    cudaError_t e = gf_wg_map(&rows, a.q.hi, a.q.rows);
    if (e == cudaSuccess) e = gf_wg_map(&columns, a.k.hi, a.k.rows);
    if (e == cudaSuccess) e = cudaFuncSetAttribute(grad_wgmma<FLAGS>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(gf_wg_shared));
    if (e != cudaSuccess) return e;
    grad_wgmma<FLAGS><<<(a.q.rows + GF_WG_ROWS - 1) / GF_WG_ROWS, GF_WG_THREADS, sizeof(gf_wg_shared), stream>>>(a, rows, columns);
    return cudaGetLastError();
}

cudaError_t gf_grad_wgmma(const gf_tile_args &a, cudaStream_t stream) {
    return a.flags & GF_MASK ? launch<GF_MASK>(a, stream) : launch<0>(a, stream);
}
