/* cuda_grad_mma.cuh - pass C on tensor cores: S of a tile, its weights P in the same registers, P Z, all in one sweep.
 *
 * FLAGS: none or GF_MASK (both roles, one temperature for all, weights w given), or gf_is_any: tested at run time.
 * Only the kernels in sm90, which weigh their tiles in the same way, have GF_QUALITY among the constant flags.
 */
#pragma once

#include "cuda/passes/tile_element.cuh"
#include "cuda/passes/tile_mma.cuh"

template <class C> struct gf_grad_columns { /* numbers of the columns of two tiles, for the kernels with constant flags */
    float w[2][C::BN], theta[2][C::BN];
};

/* ---- constant flags ---- */

template <class C> struct gf_grad_rows { /* the rows of one thread */
    static constexpr int COUNT = 2 * C::MT;
    float w[COUNT], theta[COUNT];
    int label[COUNT], same[COUNT], hits[COUNT]; /* GF_QUALITY: pairs so far of the row's label, those flagged */
};

template <class C, unsigned FLAGS>
__device__ __forceinline__ void gf_copy_columns(const gf_tile_args &a, gf_grad_columns<C> &x, int buffer, int c0) {
    for (int i = threadIdx.x; i < C::BN; i += C::THREADS) {
        const bool valid = c0 + i < a.k.rows;
        gf_copy4(gf_shared_address(&x.w[buffer][i]), a.col.w + (valid ? c0 + i : 0), valid);
        if (FLAGS & GF_MASK) gf_copy4(gf_shared_address(&x.theta[buffer][i]), a.col.theta + (valid ? c0 + i : 0), valid);
    }
}

/* Counts a pair of similarity v in row r with a column of this label. In assembly: the compiler would add to a copy, then move
 * it. */
template <class C, unsigned FLAGS>
__device__ __forceinline__ void gf_count_quality(gf_grad_rows<C> &x, int r, int label, float v) {
    if (FLAGS & GF_MASK)
        asm("{\n.reg .pred same, hit;\nsetp.eq.s32 same, %2, %3;\nsetp.gtu.and.f32 hit, %4, %5, same;\n"
            "@same add.s32 %0, %0, 1;\n@hit add.s32 %1, %1, 1;\n}"
            : "+r"(x.same[r]), "+r"(x.hits[r])
            : "r"(label), "r"(x.label[r]), "f"(v), "f"(x.theta[r]));
    else
        asm("{\n.reg .pred same;\nsetp.eq.s32 same, %1, %2;\n@same add.s32 %0, %0, 1;\n}"
            : "+r"(x.same[r])
            : "r"(label), "r"(x.label[r]));
}

/* S becomes P. An entry that is no pair, -inf, becomes 0 and is no hit, but `same` counts it where labels are equal. w, theta,
 * label: of the columns. Quality is counted between the weights, where the latency of their exponentials hides it. */
template <class C, unsigned FLAGS>
__device__ __forceinline__ void gf_plain_weights(float (&acc)[C::MT][C::NT][4], gf_grad_rows<C> &x, const float *w,
                                                 const float *theta, const int32_t *label, float k) {
    const int t = 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < C::NT; n++) {
        const float2 wc = *reinterpret_cast<const float2 *>(w + 8 * n + t);
        float2 limit = {};
        int2 labels = {};
        if (FLAGS & GF_MASK) limit = *reinterpret_cast<const float2 *>(theta + 8 * n + t);
        if (FLAGS & GF_QUALITY) labels = *reinterpret_cast<const int2 *>(label + 8 * n + t);
#pragma unroll
        for (int m = 0; m < C::MT; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float v = acc[m][n][i], e = gf_exp_fast::of(v * k);
                const int r = 2 * m + i / 2;
                float both = FLAGS & GF_MASK && !(v <= x.theta[r]) ? 0.0f : x.w[r];
                if (FLAGS & GF_QUALITY) gf_count_quality<C, FLAGS>(x, r, i % 2 ? labels.y : labels.x, v);
                if (!(FLAGS & GF_MASK) || v <= (i % 2 ? limit.y : limit.x)) both += i % 2 ? wc.y : wc.x;
                acc[m][n][i] = e * both;
            }
    }
}

/* ---- any flags, or constant ones where a tile has blanks ---- */

template <class C> struct gf_grad_any {
    static constexpr int COUNT = 2 * C::MT;
    gf_weight_view view[COUNT];
    gf_colsum counts[COUNT];
};

template <class C, unsigned FLAGS>
__device__ __forceinline__ void gf_any_weights(const gf_tile_args &a, float (&acc)[C::MT][C::NT][4], gf_grad_any<C> &x, int r0,
                                               int c0) {
    const unsigned flags = gf_flags_of<FLAGS>(a);
    const int r = r0 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int n = 0; n < C::NT; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int c = c0 + 8 * n + 2 * (threadIdx.x % 4) + j;
            const gf_weight_view y = gf_view_column<gf_exp_fast>(a, flags, c);
#pragma unroll
            for (int m = 0; m < C::MT; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int i = 2 * m + h;
                    const float v = acc[m][n][2 * h + j];
                    acc[m][n][2 * h + j] =
                        gf_pair_weight<gf_exp_fast>(a, flags, x.view[i], y, r + 16 * m + 8 * h, c, v, v, v, x.counts[i]);
                }
        }
}

template <class C>
__device__ __forceinline__ void gf_write_counts(const gf_tile_args &a, gf_grad_any<C> &x, int r0, int row, int wn,
                                                gf_colsum *parts) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < gf_grad_any<C>::COUNT; i++) {
        gf_colsum &t = x.counts[i];
        for (int lanes = 1; lanes < 4; lanes *= 2) {
            t.sum += __shfl_xor_sync(0xffffffffu, t.sum, lanes), t.moment += __shfl_xor_sync(0xffffffffu, t.moment, lanes);
            t.same += __shfl_xor_sync(0xffffffffu, t.same, lanes), t.hits += __shfl_xor_sync(0xffffffffu, t.hits, lanes);
        }
        if (lane % 4 == 0) parts[wn * C::BM + row + 16 * (i / 2) + 8 * (i % 2) + lane / 4] = t;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < C::BM; i += C::THREADS) {
        const int r = r0 + i;
        gf_colsum t = parts[i];
        for (int w = 1; w < C::WN; w++) {
            const gf_colsum &u = parts[w * C::BM + i];
            t.sum += u.sum, t.moment += u.moment, t.same += u.same, t.hits += u.hits;
        }
        if (r < a.q.rows && a.flags & GF_COLSUM) a.row.col_sum[r] = t.sum, a.row.col_moment[r] = t.moment;
        if (r < a.q.rows && a.flags & GF_QUALITY) a.row.same[r] = t.same, a.row.hits[r] = t.hits;
    }
    __syncthreads();
}

/* ---- the gradient ---- */

/* Partial results of the WN warps of a row are added in their order. */
template <class C>
__device__ __forceinline__ void gf_write_grad(const gf_tile_args &a, const float (&out)[C::MT][C::OUT / 8][4], int r0, int row,
                                              int wn, float *parts) {
    float *grad = a.row.grad + static_cast<int64_t>(r0) * C::D + blockIdx.y * C::OUT;
    const int lane = threadIdx.x % 32, g = lane / 4, t = 2 * (lane % 4);
#pragma unroll
    for (int m = 0; m < C::MT; m++)
#pragma unroll
        for (int d = 0; d < C::OUT / 8; d++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int at = row + 16 * m + 8 * h + g;
                const float2 v = make_float2(out[m][d][2 * h], out[m][d][2 * h + 1]);
                if (C::WN > 1) *reinterpret_cast<float2 *>(parts + (wn * C::BM + at) * C::OUT + 8 * d + t) = v;
                else if (r0 + at < a.q.rows) *reinterpret_cast<float2 *>(grad + at * C::D + 8 * d + t) = v;
            }
    if (C::WN == 1) return;
    gf_sync<C>();
    for (int i = threadIdx.x; i < C::BM * C::OUT; i += C::THREADS) {
        float sum = parts[i];
        for (int w = 1; w < C::WN; w++) sum += parts[w * C::BM * C::OUT + i];
        if (r0 + i / C::OUT < a.q.rows) grad[i / C::OUT * C::D + i % C::OUT] = sum;
    }
}

template <class C, unsigned FLAGS>
static __global__ void __launch_bounds__(C::THREADS, C::BLOCKS) gf_grad_mma(const __grid_constant__ gf_tile_args a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    constexpr bool ANY = gf_is_any(FLAGS);
    gf_grad_columns<C> &numbers = *reinterpret_cast<gf_grad_columns<C> *>(shared + C::TILES);
    const uint32_t rows = gf_shared_address(shared), columns = rows + C::A_BYTES;
    const int warp = threadIdx.x / 32, wn = warp % C::WN, row = warp / C::WN * 16 * C::MT, col = wn * 8 * C::NT;
    const int r0 = blockIdx.x * C::BM, lane = threadIdx.x % 32;
    if (ANY && gf_is_off(a)) return;
    gf_copy_operand<C, C::BM>(rows, a.q, r0);
    gf_copy_operand<C, C::BN>(columns, a.k, 0);
    if (!ANY) gf_copy_columns<C, FLAGS>(a, numbers, 0, 0);
    gf_copy_commit();
    gf_grad_rows<C> x;
    gf_grad_any<C> y;
#pragma unroll
    for (int i = 0; i < 2 * C::MT; i++) {
        const int r = r0 + row + 16 * (i / 2) + 8 * (i % 2) + lane / 4;
        x.w[i] = !ANY && r < a.q.rows ? a.row.w[r] : 0.0f;
        x.theta[i] = !ANY && FLAGS & GF_MASK && r < a.q.rows ? a.row.theta[r] : 0.0f;
        if (ANY)
            y.view[i] = gf_view_weights<gf_exp_fast>(a.row, gf_flags_of<FLAGS>(a), r, a.q.rows), y.counts[i] = {0.0, 0.0, 0, 0};
    }
    const float k = a.row.inv_tau[0] * gf_exp_fast::scale;
    float out[C::MT][C::OUT / 8][4] = {};
    int buffer = 0;
    for (int c0 = 0; c0 < a.k.rows; c0 += C::BN, buffer ^= 1) {
        float acc[C::MT][C::NT][4];
        const uint32_t here = columns + buffer * C::B_BYTES;
        gf_copy_wait<0>();
        __syncthreads(); /* this tile is complete, and the other buffer is no longer read */
        if (c0 + C::BN < a.k.rows) {
            gf_copy_operand<C, C::BN>(columns + (buffer ^ 1) * C::B_BYTES, a.k, c0 + C::BN);
            if (!ANY) gf_copy_columns<C, FLAGS>(a, numbers, buffer ^ 1, c0 + C::BN);
        }
        gf_copy_commit();
        gf_scores<C>(acc, rows, row, here, col);
        if (gf_has_blanks(a, r0, C::BM, c0, C::BN)) gf_blank<C>(a, acc, r0 + row, c0 + col, ANY ? CUDART_NAN_F : -CUDART_INF_F);
        if (FLAGS == GF_ANY_KEYED) gf_blank_keys<C>(a, acc, r0 + row, c0 + col, CUDART_NAN_F);
        if (ANY) gf_any_weights<C, FLAGS>(a, acc, y, r0 + row, c0 + col);
        else gf_plain_weights<C, FLAGS>(acc, x, numbers.w[buffer] + col, numbers.theta[buffer] + col, nullptr, k);
        gf_weighted<C>(out, acc, here, col, blockIdx.y * C::OUT);
    }
    __syncthreads();
    if (ANY && blockIdx.y == 0) gf_write_counts<C>(a, y, r0, row, wn, reinterpret_cast<gf_colsum *>(shared));
    if (a.row.grad) gf_write_grad<C>(a, out, r0, row, wn, reinterpret_cast<float *>(shared));
}

template <class C, unsigned FLAGS> static cudaError_t gf_grad_launch(const gf_tile_args &a, cudaStream_t stream) {
    constexpr int PARTS = C::WN > 1 ? C::WN * C::BM * C::OUT * static_cast<int>(sizeof(float)) : 0;
    constexpr int TILES = C::TILES + static_cast<int>(sizeof(gf_grad_columns<C>)), SHARED = PARTS > TILES ? PARTS : TILES;
    const cudaError_t e = cudaFuncSetAttribute(gf_grad_mma<C, FLAGS>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    if (e != cudaSuccess) return e;
    const dim3 grid((a.q.rows + C::BM - 1) / C::BM, a.row.grad ? C::D / C::OUT : 1);
    gf_grad_mma<C, FLAGS><<<grid, C::THREADS, SHARED, stream>>>(a);
    return cudaGetLastError();
}

struct gf_grad_pass { /* for the shapes of tile_mma.cuh */
    static constexpr unsigned MASKED = GF_MASK;
    static constexpr bool COUNTS = false;
    static constexpr int OUT = 256, SPLIT_NT = 2;
    template <class C, unsigned FLAGS> static cudaError_t launch(const gf_tile_args &a, cudaStream_t stream) {
        return gf_grad_launch<C, FLAGS>(a, stream);
    }
    static unsigned plain_flags(const gf_tile_args &a) {
        const unsigned others =
            GF_SHIFT | GF_ATTRACT | GF_WEIGHT | GF_GROUP | GF_QUALITY | GF_TIE | GF_COLSUM | GF_MARKS | GF_SIGMOID;
        return a.flags & others || !a.col_role || !a.row.grad || !a.row.w || !a.col.w ? GF_ANY_FLAGS : a.flags & MASKED;
    }
    /* The same for kernels that can count quality; GF_QUALITY itself is not among these flags. */
    static unsigned labelled_flags(gf_tile_args a) {
        if (a.row.label && a.col.label) a.flags &= ~unsigned(GF_QUALITY);
        return plain_flags(a);
    }
};
