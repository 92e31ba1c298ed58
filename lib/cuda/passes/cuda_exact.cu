/* cuda_exact.cu - the plain passes: products in float32, no tensor cores. Pass B, pass C, and similarities that are written. */
#include <math_constants.h>

#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_element.cuh"
#include "cuda/passes/tile_exact.cuh"

/* ---------- Pass B ----------
 *
 * Double sums.
 */

/* One tile of 64 x 64: each thread's 4 columns join the sums of its 4 rows. */
template <unsigned FLAGS>
static __device__ __forceinline__ void add_tile(const gf_tile_args &a, int r0, int c0, const gf_row_view (&x)[4],
                                                gf_row_sums<double> (&t)[4], gf_exact_shared &sm) {
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    float s[4][4], other[4][4];
    gf_exact_product(s, a.q, r0, a.k, c0, a.ld, sm);
    const bool scored = a.flags & GF_TIE && a.score.f32;
    if (scored) gf_exact_product(other, a.score, r0, a.k, c0, a.ld, sm);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = r0 + 4 * ty + i, c = c0 + 4 * tx;
        for (int j = 0; j < 4; j++)
            if (!gf_is_pair_of<FLAGS>(a, r, c + j)) s[i][j] = CUDART_NAN_F;
        const auto v = [&](int j) { return s[i][j]; };
        const auto score = [&](int j) { return scored ? other[i][j] : s[i][j]; };
        const auto col = [&](int j) { return c + j; };
        if (a.flags & GF_ABOVE) gf_count_row<4>(x[i], t[i], v);
        else gf_sum_row<gf_exp_exact, 4>(a, gf_flags_of<FLAGS>(a), x[i], t[i], v, score, col);
    }
}

template <unsigned FLAGS> static __global__ void __launch_bounds__(GF_EXACT_THREADS) stats_exact(const gf_tile_args a) {
    __shared__ gf_exact_shared sm;
    const int r0 = blockIdx.x * GF_EXACT_TILE, ty = threadIdx.x / 16;
    gf_row_view x[4];
    gf_row_sums<double> t[4];
    if (gf_is_off(a)) return;
    for (int i = 0; i < 4; i++) {
        x[i] = gf_view_row<gf_exp_exact>(a, gf_flags_of<FLAGS>(a), r0 + 4 * ty + i);
        t[i] = gf_no_sums<double>();
    }
    for (int c0 = 0; c0 < a.k.rows; c0 += GF_EXACT_TILE) add_tile<FLAGS>(a, r0, c0, x, t, sm);
    for (int i = 0; i < 4; i++) {
        const int r = r0 + 4 * ty + i;
        for (int lanes = 1; lanes < 16; lanes *= 2) gf_join_lanes<gf_exp_exact>(gf_flags_of<FLAGS>(a), x[i].k, t[i], lanes);
        if (threadIdx.x % 16 == 0 && r < a.q.rows) gf_write_sums(a, gf_flags_of<FLAGS>(a), r, t[i]);
    }
}

cudaError_t gf_stats_exact(const gf_tile_args &a, cudaStream_t stream) {
    auto *const made = a.row_key              ? stats_exact<GF_ANY_KEYED>
                       : a.flags & GF_SIGMOID ? stats_exact<GF_ANY_SIGMOID>
                                              : stats_exact<GF_ANY_FLAGS>;
    made<<<(a.q.rows + GF_EXACT_TILE - 1) / GF_EXACT_TILE, GF_EXACT_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

/* ---------- Pass C ----------
 *
 * P of a tile goes through shared memory into P Z, 128 dimensions per block. More dimensions are more blocks, each of which computes
 * the similarities again.
 */

#define SLICE 128 /* dimensions of the gradient per block */
#define STEP 16   /* columns of Z in shared memory at a time */

struct grad_shared {
    union {
        gf_exact_shared product;
        float z[STEP][SLICE];
    };
    float p[GF_EXACT_TILE][GF_EXACT_TILE + 1];
};

template <unsigned FLAGS>
static __device__ __forceinline__ void weigh_tile(const gf_tile_args &a, int r0, int c0, const gf_weight_view (&x)[4],
                                                  gf_colsum (&t)[4], grad_shared &sm) {
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    float s[4][4], score[4][4], col_score[4][4];
    gf_exact_product(s, a.q, r0, a.k, c0, a.ld, sm.product);
    const bool scored = a.flags & GF_TIE && a.score.f32, col_scored = a.flags & GF_TIE && a.col_role && a.col_score.f32;
    if (scored) gf_exact_product(score, a.score, r0, a.k, c0, a.ld, sm.product);
    if (col_scored) gf_exact_product(col_score, a.q, r0, a.col_score, c0, a.ld, sm.product);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int c = c0 + 4 * tx + j;
        const gf_weight_view y = gf_view_column<gf_exp_exact>(a, gf_flags_of<FLAGS>(a), c);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float v = gf_is_pair_of<FLAGS>(a, r0 + 4 * ty + i, c) ? s[i][j] : CUDART_NAN_F;
            sm.p[4 * ty + i][4 * tx + j] =
                gf_pair_weight<gf_exp_exact>(a, gf_flags_of<FLAGS>(a), x[i], y, r0 + 4 * ty + i, c, v, scored ? score[i][j] : v,
                                             col_scored ? col_score[i][j] : v, t[i]);
        }
    }
}

/* out [4][8]: rows 4 ty + i, dimensions d0 + 8 tx + j. */
static __device__ __forceinline__ void multiply(float (&out)[4][8], const gf_tile_args &a, int c0, int d0, grad_shared &sm) {
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    for (int step = 0; step < GF_EXACT_TILE; step += STEP) {
        __syncthreads();
        for (int i = threadIdx.x; i < STEP * SLICE; i += GF_EXACT_THREADS) {
            const int c = c0 + step + i / SLICE, d = d0 + i % SLICE;
            sm.z[i / SLICE][i % SLICE] = c < a.k.rows && d < a.ld ? a.k.f32[static_cast<int64_t>(c) * a.ld + d] : 0.0f;
        }
        __syncthreads();
        for (int c = 0; c < STEP; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float p = sm.p[4 * ty + i][step + c];
#pragma unroll
                for (int j = 0; j < 8; j++) out[i][j] = fmaf(p, sm.z[c][8 * tx + j], out[i][j]);
            }
    }
}

static __device__ __forceinline__ void write_counts(const gf_tile_args &a, int r, const gf_colsum &t) {
    const double sum = gf_exact_row_sum(t.sum), moment = gf_exact_row_sum(t.moment);
    const int same = gf_exact_row_sum(t.same), hits = gf_exact_row_sum(t.hits);
    if (threadIdx.x % 16 || r >= a.q.rows) return;
    if (a.flags & GF_COLSUM) a.row.col_sum[r] = sum, a.row.col_moment[r] = moment;
    if (a.flags & GF_QUALITY) a.row.same[r] = same, a.row.hits[r] = hits;
}

template <unsigned FLAGS> static __global__ void __launch_bounds__(GF_EXACT_THREADS) grad_exact(const gf_tile_args a) {
    __shared__ grad_shared sm;
    const int r0 = blockIdx.x * GF_EXACT_TILE, d0 = blockIdx.y * SLICE, ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    gf_weight_view x[4];
    gf_colsum t[4];
    float out[4][8];
    if (gf_is_off(a)) return;
    for (int i = 0; i < 4; i++) {
        x[i] = gf_view_weights<gf_exp_exact>(a.row, gf_flags_of<FLAGS>(a), r0 + 4 * ty + i, a.q.rows);
        t[i] = {0.0, 0.0, 0, 0};
        for (int j = 0; j < 8; j++) out[i][j] = 0.0f;
    }
    for (int c0 = 0; c0 < a.k.rows; c0 += GF_EXACT_TILE) {
        weigh_tile<FLAGS>(a, r0, c0, x, t, sm);
        if (a.row.grad) multiply(out, a, c0, d0, sm);
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) {
        const int r = r0 + 4 * ty + i;
        if (blockIdx.y == 0) write_counts(a, r, t[i]);
        if (r >= a.q.rows || !a.row.grad) continue;
        float *grad = a.row.grad + static_cast<int64_t>(r) * a.ld + d0 + 8 * tx;
        for (int j = 0; j < 8 && d0 + 8 * tx + j < a.ld; j++) grad[j] = out[i][j];
    }
}

cudaError_t gf_grad_exact(const gf_tile_args &a, cudaStream_t stream) {
    const int slices = a.row.grad ? (a.ld + SLICE - 1) / SLICE : 1;
    const dim3 grid((a.q.rows + GF_EXACT_TILE - 1) / GF_EXACT_TILE, slices);
    auto *const made = a.row_key              ? grad_exact<GF_ANY_KEYED>
                       : a.flags & GF_SIGMOID ? grad_exact<GF_ANY_SIGMOID>
                                              : grad_exact<GF_ANY_FLAGS>;
    made<<<grid, GF_EXACT_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

/* ---------- Similarities of some rows ---------- */

static __global__ void __launch_bounds__(GF_EXACT_THREADS) product_exact(const gf_product_args a) {
    __shared__ gf_exact_shared sm;
    const int r0 = a.r0 + blockIdx.y * GF_EXACT_TILE, c0 = blockIdx.x * GF_EXACT_TILE;
    float s[4][4];
    gf_exact_product(s, a.q, r0, a.k, c0, a.ld, sm);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) gf_product_put(a, r0 + 4 * (threadIdx.x / 16) + i, c0 + 4 * (threadIdx.x % 16) + j, s[i][j]);
}

cudaError_t gf_product_exact(const gf_product_args &a, cudaStream_t stream) {
    const dim3 grid((a.k.rows + GF_EXACT_TILE - 1) / GF_EXACT_TILE, (a.rows + GF_EXACT_TILE - 1) / GF_EXACT_TILE);
    product_exact<<<grid, GF_EXACT_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}
