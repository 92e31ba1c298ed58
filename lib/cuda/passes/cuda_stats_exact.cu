/* cuda_stats_exact.cu - pass B in float32 products and double sums. */
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_element.cuh"
#include "cuda/passes/tile_exact.cuh"

/* One tile of 64 x 64: each thread's 4 columns join the sums of its 4 rows. */
static __device__ __forceinline__ void add_tile(const gf_tile_args &a, int r0, int c0, const gf_row_view (&x)[4],
                                                gf_row_sums<double> (&t)[4], gf_exact_shared &sm) {
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    float s[4][4], other[4][4];
    gf_exact_product(s, a.q, r0, a.k, c0, a.ld, sm);
    const bool scored = a.flags & GF_TIE && a.score.f32;
    if (scored) gf_exact_scores(other, a.score, r0, a.k, c0, a.ld, a.scores, a.score_step, 0, sm);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = r0 + 4 * ty + i, c = c0 + 4 * tx;
        for (int j = 0; j < 4; j++)
            if (!gf_is_pair(a, r, c + j)) s[i][j] = CUDART_NAN_F;
        const auto v = [&](int j) { return s[i][j]; };
        const auto score = [&](int j) { return scored ? other[i][j] : s[i][j]; };
        const auto col = [&](int j) { return c + j; };
        if (a.flags & GF_ABOVE) gf_count_row<4>(x[i], t[i], v);
        else gf_sum_row<gf_exp_exact, 4>(a, a.flags, x[i], t[i], v, score, col);
    }
}

static __global__ void __launch_bounds__(GF_EXACT_THREADS) stats_exact(const gf_tile_args a) {
    __shared__ gf_exact_shared sm;
    const int r0 = blockIdx.x * GF_EXACT_TILE, ty = threadIdx.x / 16;
    gf_row_view x[4];
    gf_row_sums<double> t[4];
    if (gf_is_off(a)) return;
    for (int i = 0; i < 4; i++) {
        x[i] = gf_view_row<gf_exp_exact>(a, a.flags, r0 + 4 * ty + i);
        t[i] = gf_no_sums<double>();
    }
    for (int c0 = 0; c0 < a.k.rows; c0 += GF_EXACT_TILE) add_tile(a, r0, c0, x, t, sm);
    for (int i = 0; i < 4; i++) {
        const int r = r0 + 4 * ty + i;
        for (int lanes = 1; lanes < 16; lanes *= 2) gf_join_lanes<gf_exp_exact>(a.flags, x[i].k, t[i], lanes);
        if (threadIdx.x % 16 == 0 && r < a.q.rows) gf_write_sums(a, a.flags, r, t[i]);
    }
}

cudaError_t gf_stats_exact(const gf_tile_args &a, cudaStream_t stream) {
    stats_exact<<<(a.q.rows + GF_EXACT_TILE - 1) / GF_EXACT_TILE, GF_EXACT_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}
