/* tile_mma.cuh - tiles of similarities, and of P Z, on tensor cores: bf16 operands, float32 sums (mma m16n8k16, from sm_80 on).
 *
 * A block holds BM rows in shared memory and streams all columns, BN at a time, through two buffers. Its warps are arranged
 * WM x WN: each has 16 MT rows and 8 NT columns of the tile in registers. Few rows: WN > 1 splits the columns, so that every row
 * block keeps a multiprocessor busy; partial results of the WN warps are added in their order at the end.
 *
 * A similarity is one chain of products over ascending dimensions, 16 at a time, in every kernel and shape of tile: the same
 * bits everywhere, and S_rc = S_cr, as products commute. In halves, z = hi + lo, three chains are summed, (hi_r lo_c + lo_r hi_c)
 * + hi_r hi_c, which keeps the symmetry.
 *
 * Accumulators of thread `lane` (g = lane / 4, t = lane % 4): acc[m][n][2 h + j] is row 16 m + g + 8 h, column 8 n + 2 t + j.
 */
#pragma once

#include "cuda/passes/cuda_kernels.cuh"

template <int D_, int HALVES_, int WM_, int WN_, int MT_, int NT_, int BLOCKS_ = 1, int OUT_ = D_> struct gf_mma_shape {
    static constexpr int D = D_, HALVES = HALVES_, WM = WM_, WN = WN_, MT = MT_, NT = NT_;
    static constexpr int OUT = OUT_;       /* dimensions of P Z that a block computes */
    static constexpr int BLOCKS = BLOCKS_; /* per multiprocessor, for the register budget */
    static constexpr int BM = 16 * WM * MT, BN = 8 * WN * NT, THREADS = 32 * WM * WN;
    static constexpr int ROW = 2 * D; /* bytes */
    static constexpr int A_HALF = BM * ROW, B_HALF = BN * ROW;
    static constexpr int A_BYTES = HALVES * A_HALF, B_BYTES = HALVES * B_HALF;
    static constexpr int TILES = A_BYTES + 2 * B_BYTES; /* shared memory of the operands, from its start */
};

/* ---- instructions ---- */

__device__ __forceinline__ uint32_t gf_shared_address(const void *p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/* 16 bytes, or zeros if !valid. */
__device__ __forceinline__ void gf_copy16(uint32_t dst, const void *src, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(valid ? 16 : 0) : "memory");
}

__device__ __forceinline__ void gf_copy4(uint32_t dst, const void *src, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src), "r"(valid ? 4 : 0) : "memory");
}

__device__ __forceinline__ void gf_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING> __device__ __forceinline__ void gf_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ void gf_load4(uint32_t (&x)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void gf_load4_transposed(uint32_t (&x)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void gf_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t gf_pack(float low, float high) {
    const __nv_bfloat162 x = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&x);
}

/* Barrier of the computing threads; kernels may have others. */
template <class C> __device__ __forceinline__ void gf_sync() { asm volatile("bar.sync 1, %0;" ::"n"(C::THREADS) : "memory"); }

/* ---- tiles in shared memory: rows of D bf16 whose 16-byte pieces are swizzled by row, against bank conflicts ---- */

/* Piece `piece` of a row; base is a multiple of 128. */
template <int D> __device__ __forceinline__ uint32_t gf_piece(uint32_t base, int row, int piece) {
    return base + row * (2 * D) + ((piece ^ (row & 7)) << 4);
}

/* From piece 0 or 1 of a row at `address` to the piece `bytes` further; a multiple of 32. */
__device__ __forceinline__ uint32_t gf_further(uint32_t address, int bytes) {
    return (address ^ (bytes & 0x60)) + (bytes & ~0x7f);
}

/* Rows [r0, r0 + ROWS) of x; zeros past its last row. ld == D. */
template <int D, int ROWS, int THREADS>
__device__ __forceinline__ void gf_copy_rows(uint32_t dst, const __nv_bfloat16 *x, int rows, int r0) {
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * (D / 8); i += THREADS) {
        const int r = i / (D / 8), piece = i % (D / 8);
        const bool valid = r0 + r < rows;
        gf_copy16(gf_piece<D>(dst, r, piece), x + static_cast<int64_t>(valid ? r0 + r : 0) * D + 8 * piece, valid);
    }
}

template <class C, int ROWS> __device__ __forceinline__ void gf_copy_operand(uint32_t dst, const gf_operand &x, int r0) {
    gf_copy_rows<C::D, ROWS, C::THREADS>(dst, x.hi, x.rows, r0);
    if (C::HALVES == 2) gf_copy_rows<C::D, ROWS, C::THREADS>(dst + ROWS * C::ROW, x.lo, x.rows, r0);
}

/* ---- similarities ---- */

/* Address of a thread's part of the left operand, rows [row, row + 16); 16 dimensions further are 32 bytes further. */
template <int D> __device__ __forceinline__ uint32_t gf_left_address(uint32_t base, int row) {
    const int lane = threadIdx.x % 32;
    return gf_piece<D>(base, row + (lane & 15), lane >> 4);
}

/* The same for the right operand, columns [col, col + 16): words 0, 1 belong to the first eight, 2, 3 to the others. */
template <int D> __device__ __forceinline__ uint32_t gf_right_address(uint32_t base, int col) {
    const int lane = threadIdx.x % 32;
    return gf_piece<D>(base, col + (lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
}

/* acc += rows of a times columns of b, all dimensions. */
template <class C>
__device__ __forceinline__ void gf_add_scores(float (&acc)[C::MT][C::NT][4], uint32_t a, int row, uint32_t b, int col) {
    const uint32_t from_a = gf_left_address<C::D>(a, row), from_b = gf_right_address<C::D>(b, col);
#pragma unroll
    for (int step = 0; step < C::D / 16; step++) {
        uint32_t left[C::MT][4];
#pragma unroll
        for (int m = 0; m < C::MT; m++) gf_load4(left[m], gf_further(from_a, 32 * step) + 16 * m * C::ROW);
#pragma unroll
        for (int n = 0; n < C::NT; n += 2) {
            uint32_t right[4];
            gf_load4(right, gf_further(from_b, 32 * step) + 8 * n * C::ROW);
#pragma unroll
            for (int m = 0; m < C::MT; m++) {
                gf_mma(acc[m][n], left[m], right[0], right[1]);
                gf_mma(acc[m][n + 1], left[m], right[2], right[3]);
            }
        }
    }
}

template <class C> __device__ __forceinline__ void gf_zero(float (&acc)[C::MT][C::NT][4]) {
#pragma unroll
    for (int m = 0; m < C::MT; m++)
#pragma unroll
        for (int n = 0; n < C::NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) acc[m][n][i] = 0.0f;
}

/* The same, summed on its own before it is added. */
template <class C>
__device__ __forceinline__ void gf_add_chain(float (&acc)[C::MT][C::NT][4], uint32_t a, int row, uint32_t b, int col) {
    float chain[C::MT][C::NT][4];
    gf_zero<C>(chain);
    gf_add_scores<C>(chain, a, row, b, col);
#pragma unroll
    for (int m = 0; m < C::MT; m++)
#pragma unroll
        for (int n = 0; n < C::NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) acc[m][n][i] += chain[m][n][i];
}

/* Similarities of the warp's rows (from `row` of the tile at a) and columns (from `col` of the tile at b). */
template <class C>
__device__ __forceinline__ void gf_scores(float (&acc)[C::MT][C::NT][4], uint32_t a, int row, uint32_t b, int col) {
    gf_zero<C>(acc);
    if (C::HALVES == 1) {
        gf_add_scores<C>(acc, a, row, b, col);
        return;
    }
    gf_add_scores<C>(acc, a, row, b + C::B_HALF, col);
    gf_add_chain<C>(acc, a + C::A_HALF, row, b, col);
    gf_add_chain<C>(acc, a, row, b, col);
}

/* Entries that are no pair become `blank`; r0, c0: the warp's first row and column. */
template <class C>
__device__ __forceinline__ void gf_blank(const gf_tile_args &a, float (&acc)[C::MT][C::NT][4], int r0, int c0, float blank) {
    const int r = r0 + threadIdx.x % 32 / 4, c = c0 + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int m = 0; m < C::MT; m++)
#pragma unroll
        for (int n = 0; n < C::NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (!gf_is_pair(a, r + 16 * m + 8 * (i / 2), c + 8 * n + i % 2)) acc[m][n][i] = blank;
}

/* The same for pairs of one anchor. */
template <class C>
__device__ __forceinline__ void gf_blank_keys(const gf_tile_args &a, float (&acc)[C::MT][C::NT][4], int r0, int c0, float blank) {
    const int r = r0 + threadIdx.x % 32 / 4, c = c0 + 2 * (threadIdx.x % 4);
    int key[2 * C::MT], shares = 0;
#pragma unroll
    for (int i = 0; i < 2 * C::MT; i++) {
        key[i] = r + 8 * i < a.q.rows ? a.row_key[r + 8 * i] : -1;
        shares |= key[i] >= 0;
    }
    if (!__any_sync(0xffffffffu, shares)) return;
#pragma unroll
    for (int n = 0; n < C::NT; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int other = c + 8 * n + j < a.k.rows ? a.col_key[c + 8 * n + j] : -1;
#pragma unroll
            for (int i = 0; i < 2 * C::MT; i++)
                if (other >= 0 && other == key[i]) acc[i / 2][n][2 * (i % 2) + j] = blank;
        }
}

/* Streams all columns past the block's rows from r0 on: body(acc, c) gets the similarities of the warp's rows and the columns
 * from c on. Shared memory: C::TILES bytes, unused again at the end. */
template <class C, class Body>
__device__ __forceinline__ void gf_each_tile(const gf_tile_args &a, unsigned char *shared, int r0, float blank, Body body) {
    const uint32_t rows = gf_shared_address(shared), columns = rows + C::A_BYTES;
    const int warp = threadIdx.x / 32, row = warp / C::WN * 16 * C::MT, col = warp % C::WN * 8 * C::NT;
    gf_copy_operand<C, C::BM>(rows, a.q, r0);
    gf_copy_operand<C, C::BN>(columns, a.k, 0);
    gf_copy_commit();
    int buffer = 0;
    for (int c0 = 0; c0 < a.k.rows; c0 += C::BN, buffer ^= 1) {
        float acc[C::MT][C::NT][4];
        gf_copy_wait<0>();
        __syncthreads(); /* this tile is complete, and the other buffer is no longer read */
        if (c0 + C::BN < a.k.rows) gf_copy_operand<C, C::BN>(columns + (buffer ^ 1) * C::B_BYTES, a.k, c0 + C::BN);
        gf_copy_commit();
        gf_scores<C>(acc, rows, row, columns + buffer * C::B_BYTES, col);
        if (gf_has_blanks(a, r0, C::BM, c0, C::BN)) gf_blank<C>(a, acc, r0 + row, c0 + col, blank);
        body(acc, c0 + col);
    }
    __syncthreads();
}

/* ---- P Z ---- */

/* out [MT][OUT / 8][4] += P times the columns' rows of z, from dimension d0 on; p [m][step] holds 16 columns of P as a left
 * operand. */
template <class C>
__device__ __forceinline__ void gf_add_weighted(float (&out)[C::MT][C::OUT / 8][4], const uint32_t (&p)[C::MT][C::NT / 2][4],
                                                uint32_t z, int col, int d0) {
    const uint32_t from = gf_left_address<C::D>(z, col) + 2 * d0; /* d0 is 0 or a multiple of 128 */
#pragma unroll
    for (int step = 0; step < C::NT / 2; step++)
#pragma unroll
        for (int d = 0; d < C::OUT / 8; d += 2) {
            uint32_t right[4];
            gf_load4_transposed(right, gf_further(from, 16 * d) + 16 * step * C::ROW);
#pragma unroll
            for (int m = 0; m < C::MT; m++) {
                gf_mma(out[m][d], p[m][step], right[0], right[1]);
                gf_mma(out[m][d + 1], p[m][step], right[2], right[3]);
            }
        }
}

/* Rounds the weights in `acc` to bf16 in the order of a left operand; `acc` keeps the rounding error, for the lower half. */
template <class C>
__device__ __forceinline__ void gf_round_weights(uint32_t (&p)[C::MT][C::NT / 2][4], float (&acc)[C::MT][C::NT][4]) {
#pragma unroll
    for (int m = 0; m < C::MT; m++)
#pragma unroll
        for (int n = 0; n < C::NT; n++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float *x = &acc[m][n][2 * h];
                const __nv_bfloat162 pair = __floats2bfloat162_rn(x[0], x[1]);
                p[m][n / 2][n % 2 * 2 + h] = *reinterpret_cast<const uint32_t *>(&pair);
                if (C::HALVES == 2) x[0] -= __low2float(pair), x[1] -= __high2float(pair);
            }
}

template <class C>
__device__ __forceinline__ void gf_weighted(float (&out)[C::MT][C::OUT / 8][4], float (&acc)[C::MT][C::NT][4], uint32_t b,
                                            int col, int d0) {
    uint32_t p[C::MT][C::NT / 2][4];
    gf_round_weights<C>(p, acc);
    gf_add_weighted<C>(out, p, b, col, d0);
    if (C::HALVES == 1) return;
    gf_add_weighted<C>(out, p, b + C::B_HALF, col, d0);
    gf_round_weights<C>(p, acc);
    gf_add_weighted<C>(out, p, b, col, d0);
}

/* ---------- The shape of tiles, by batch, dimension and number of halves ----------
 *
 * `Pass` is stats or grad:
 *     launch<C, FLAGS>(a, stream)     the kernel of shape C for constant flags, or GF_ANY_...
 *     plain_flags(a)                  the constant flags that serve this pass; GF_ANY_FLAGS: none do
 *     MASKED, COUNTS                  the constant flags with a threshold; 1: GF_ABOVE is constant, too
 *     OUT                             dimensions of its result per block, at most; 0: it has no result
 *     SPLIT_NT                        columns of a warp, in eights, with two halves and up to 128 dimensions
 */

/* Constant flags: many rows in registers, few instructions per entry. */
template <class Pass, int D, unsigned FLAGS> static cudaError_t gf_launch_plain(const gf_tile_args &a, cudaStream_t stream) {
    switch (gf_block_rows(a.q.rows)) {
    case 16: return Pass::template launch<gf_mma_shape<D, 1, 1, 8, 1, 4>, FLAGS>(a, stream);
    case 32: return Pass::template launch<gf_mma_shape<D, 1, 2, 4, 1, 4>, FLAGS>(a, stream);
    case 64: return Pass::template launch<gf_mma_shape<D, 1, 4, 2, 1, 4>, FLAGS>(a, stream);
    default: return Pass::template launch<gf_mma_shape<D, 1, 4, 1, 2, 8, 2>, FLAGS>(a, stream);
    }
}

/* Any flags: tiles within 160 KB, or 192 KB in two halves. */
template <class Pass, int D, int HALVES, unsigned FLAGS>
static cudaError_t gf_launch_tiles(const gf_tile_args &a, cudaStream_t stream) {
    constexpr int WIDE = 256 / HALVES, OUT = Pass::OUT && D > Pass::OUT / HALVES ? 128 : D;
    constexpr int NT = D > WIDE ? 2 : HALVES == 1 ? 4 : Pass::SPLIT_NT;
    typedef gf_mma_shape<D, HALVES, 1, D <= WIDE ? 8 : 8 * WIDE / D, 1, 2, 1, OUT> few_rows;
    typedef gf_mma_shape<D, HALVES, D <= 2 * WIDE ? 8 : 4, 1, 1, NT, 1, OUT> many_rows;
    if (gf_block_rows(a.q.rows) < 64) return Pass::template launch<few_rows, FLAGS>(a, stream);
    return Pass::template launch<many_rows, FLAGS>(a, stream);
}

template <class Pass, int D, int HALVES> static cudaError_t gf_launch_any(const gf_tile_args &a, cudaStream_t stream) {
    if (a.flags & GF_SIGMOID) return gf_launch_tiles<Pass, D, HALVES, GF_ANY_SIGMOID>(a, stream);
    return gf_launch_tiles<Pass, D, HALVES, GF_ANY_FLAGS>(a, stream);
}

template <class Pass, int D> static cudaError_t gf_launch_bf16_of(const gf_tile_args &a, cudaStream_t stream) {
    const unsigned flags = Pass::plain_flags(a);
    if (flags == 0) return gf_launch_plain<Pass, D, 0>(a, stream);
    if constexpr (Pass::COUNTS)
        if (flags == GF_ABOVE) return gf_launch_plain<Pass, D, GF_ABOVE>(a, stream);
    if (flags == Pass::MASKED) return gf_launch_plain<Pass, D, Pass::MASKED>(a, stream);
    return gf_launch_any<Pass, D, 1>(a, stream);
}

template <class Pass> static cudaError_t gf_launch_bf16(const gf_tile_args &a, cudaStream_t stream) {
    switch (a.ld) {
    case 64: return gf_launch_bf16_of<Pass, 64>(a, stream);
    case 128: return gf_launch_bf16_of<Pass, 128>(a, stream);
    case 256: return gf_launch_any<Pass, 256, 1>(a, stream);
    case 512: return gf_launch_any<Pass, 512, 1>(a, stream);
    case 768: return gf_launch_any<Pass, 768, 1>(a, stream);
    case 1024: return gf_launch_any<Pass, 1024, 1>(a, stream);
    default: return cudaErrorNotSupported;
    }
}

template <class Pass> static cudaError_t gf_launch_split(const gf_tile_args &a, cudaStream_t stream) {
    switch (a.ld) {
    case 64: return gf_launch_any<Pass, 64, 2>(a, stream);
    case 128: return gf_launch_any<Pass, 128, 2>(a, stream);
    case 256: return gf_launch_any<Pass, 256, 2>(a, stream);
    case 512: return gf_launch_any<Pass, 512, 2>(a, stream);
    default: return cudaErrorNotSupported;
    }
}
