/* cunn_stem.cuh - pieces of the convolutions of images: tiles, their pixels in shared memory, products. See cunn_stem.cu. */
#pragma once

#include "nn/cuda/cunn.h"
#include "nn/cuda/cunn_mma.cuh"
#include "util/array.h"

enum { IN = GF_CUNN_IMAGE_CHANNELS, TW = 16, LINES = 2, PAD = 8, STEM_BLOCKS = 264 }; /* LINES of TW pixels per warp, forward */

template <int K_, int S_, int OUT_, int TH_ = 8> struct stem { /* kernel, stride, channels of y, lines of a tile */
    static constexpr int K = K_, S = S_, OUT = OUT_, TH = TH_, WARPS = TH / LINES;
    static constexpr int C = 8 / S, ROW = (K * C + 15) / 16 * 16, PX = ROW / C; /* a kernel row: PX pixels, ROW numbers */
    static constexpr int PW = (TW - 1) * S + PX, PH = (TH - 1) * S + K;         /* pixels that a tile reads */
    static constexpr int PATCH = PH * PW * C, COLUMNS = K * ROW;
    static constexpr int SPLIT = K == 7 ? 1 : 2,
                         BACK_WARPS = K * SPLIT; /* gradient: warp = kernel row, and every SPLIT-th line */
};

struct stem_job {
    const bf16 *x, *w, *dy; /* x [n][h][w][IN], w [OUT][K][K][IN] */
    bf16 *y;                /* [n][oh][ow][OUT] */
    float *part;            /* [blocks][OUT][COLUMNS] */
    bf16 *pooled;           /* [n][ph][pw][OUT]: cunn_stem_pool.cu; and the place of each in its window */
    uint8_t *winner;
    int ph, pw;
    int h, width, oh, ow, pad;
    int tiles_x, tiles_y, tiles; /* of an image; of all */
};

struct tile_place {
    int64_t image;
    int y0, x0;
};

template <typename G> __device__ static inline tile_place place_of(const stem_job &j, int tile) {
    const int each = j.tiles_x * j.tiles_y, at = tile % each;
    return {tile / each, at / j.tiles_x * G::TH, at % j.tiles_x * TW};
}

/* Starts to copy the pixels that a tile reads: [PH][PW][C]. */
template <typename G> __device__ static void fetch_patch(bf16 *to, const stem_job &j, const tile_place &t) {
    const bf16 *const x = j.x + t.image * j.h * j.width * IN;
    for (int i = threadIdx.x; i < G::PH * G::PW; i += blockDim.x) {
        const int iy = t.y0 * G::S - j.pad + i / G::PW, ix = t.x0 * G::S - j.pad + i % G::PW;
        const bool inside = iy >= 0 && iy < j.h && ix >= 0 && ix < j.width;
        copy_start<2 * G::C>(to + i * G::C, inside ? x + ((int64_t)iy * j.width + ix) * IN : x, inside);
    }
}

/* ----- forward ----------------------------------------------------------------------------------------------------- */

/* w [OUT][COLUMNS + PAD], zeros where the window has no pixel. */
template <typename G> __device__ static void load_weights(bf16 *to, const bf16 *w) {
    for (int i = threadIdx.x; i < G::OUT * G::COLUMNS; i += blockDim.x) {
        const int o = i / G::COLUMNS, k = i % G::COLUMNS, ky = k / G::ROW, kx = k % G::ROW / G::C, c = k % G::C;
        to[o * (G::COLUMNS + PAD) + k] = kx < G::K ? w[((o * G::K + ky) * G::K + kx) * IN + c] : (bf16)0.0f;
    }
}

template <typename G> __device__ static void multiply_tile(float (&acc)[LINES][G::OUT / 8][4], const bf16 *patch, const bf16 *w) {
    const int lane = threadIdx.x % 32, line = threadIdx.x / 32 * LINES;
    const bf16 *const left = patch + line * G::S * G::PW * G::C + (lane / 8 % 2 * 8 + lane % 8) * G::S * G::C + lane / 16 * 8;
    const bf16 *const right = w + (lane / 16 * 8 + lane % 8) * (G::COLUMNS + PAD) + lane / 8 % 2 * 8;
#pragma unroll
    for (int ky = 0; ky < G::K; ky++)
#pragma unroll
        for (int k = 0; k < G::ROW; k += 16) {
            uint32_t a[LINES][4];
#pragma unroll
            for (int m = 0; m < LINES; m++) load_four<false>(a[m], left + (m * G::S + ky) * G::PW * G::C + k);
#pragma unroll
            for (int o = 0; o < G::OUT / 16; o++) {
                uint32_t b[4];
                load_four<false>(b, right + o * 16 * (G::COLUMNS + PAD) + ky * G::ROW + k);
#pragma unroll
                for (int m = 0; m < LINES; m++) {
                    multiply(acc[m][2 * o], a[m], b[0], b[1]);
                    multiply(acc[m][2 * o + 1], a[m], b[2], b[3]);
                }
            }
        }
}

/* ----- gradient of the weights ------------------------------------------------------------------------------------- */

/* Starts to copy `from` [n][oh][ow][OUT] of a tile: [TH][TW][OUT + PAD]. */
template <typename G> __device__ static void fetch_tile(bf16 *to, const bf16 *from, const stem_job &j, const tile_place &t) {
    constexpr int PIECES = G::OUT / 8;
    for (int i = threadIdx.x; i < G::TH * TW * PIECES; i += blockDim.x) {
        const int p = i / PIECES, c = i % PIECES * 8, y = t.y0 + p / TW, x = t.x0 + p % TW;
        const bool inside = y < j.oh && x < j.ow;
        copy_start<16>(to + p * (G::OUT + PAD) + c, inside ? from + ((t.image * j.oh + y) * j.ow + x) * G::OUT + c : from,
                       inside);
    }
}

template <typename G>
__device__ static void add_tile(float (&acc)[G::OUT / 16][G::ROW / 8][4], const bf16 *patch, const bf16 *dy, int ky, int first) {
    const int lane = threadIdx.x % 32;
    const bf16 *const left = dy + (lane / 16 * 8 + lane % 8) * (G::OUT + PAD) + lane / 8 % 2 * 8;
    const bf16 *const right = patch + ky * G::PW * G::C + (lane / 8 % 2 * 8 + lane % 8) * G::S * G::C + lane / 16 * 8;
#pragma unroll
    for (int line = first; line < G::TH; line += G::SPLIT) {
        uint32_t a[G::OUT / 16][4];
#pragma unroll
        for (int o = 0; o < G::OUT / 16; o++) load_four<true>(a[o], left + line * TW * (G::OUT + PAD) + o * 16);
#pragma unroll
        for (int k = 0; k < G::ROW; k += 16) {
            uint32_t b[4];
            load_four<true>(b, right + line * G::S * G::PW * G::C + k);
#pragma unroll
            for (int o = 0; o < G::OUT / 16; o++) {
                multiply(acc[o][k / 8], a[o], b[0], b[1]);
                multiply(acc[o][k / 8 + 1], a[o], b[2], b[3]);
            }
        }
    }
}

/* The sums of a warp to part [blocks SPLIT][OUT][COLUMNS]. */
template <typename G>
__device__ static void write_part(const stem_job &j, const float (&acc)[G::OUT / 16][G::ROW / 8][4], int ky, int first) {
    const int lane = threadIdx.x % 32;
    float *const part = j.part + ((int64_t)blockIdx.x * G::SPLIT + first) * G::OUT * G::COLUMNS + ky * G::ROW + lane % 4 * 2;
#pragma unroll
    for (int o = 0; o < G::OUT / 16; o++)
#pragma unroll
        for (int k = 0; k < G::ROW / 8; k++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *(float2 *)(part + (o * 16 + lane / 4 + 8 * half) * G::COLUMNS + k * 8) =
                    make_float2(acc[o][k][2 * half], acc[o][k][2 * half + 1]);
}

/* Added up by a second launch. */
enum { ADDERS = 8, ADD_COLUMNS = 32 };

/* dw [OUT][K][K][IN]: thread (x, y) adds every ADDERS-th block's column x, then the ADDERS sums are added in order. */
template <typename G> static __global__ void __launch_bounds__(ADDERS *ADD_COLUMNS) add_kernel(stem_job j, bf16 *dw, int parts) {
    __shared__ double sums[ADDERS][ADD_COLUMNS];
    const int i = blockIdx.x * ADD_COLUMNS + threadIdx.x, k = i % G::COLUMNS, kx = k % G::ROW / G::C;
    double sum = 0.0;
#pragma unroll 8
    for (int b = threadIdx.y; b < parts; b += ADDERS) sum += (double)j.part[(int64_t)b * G::OUT * G::COLUMNS + i];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || kx >= G::K) return;
    for (int b = 1; b < ADDERS; b++) sum += sums[b][threadIdx.x];
    bf16 *const to = dw + (((int64_t)(i / G::COLUMNS) * G::K + k / G::ROW) * G::K + kx) * IN + k % G::C;
    to[0] = (bf16)(float)sum;
    if (G::C < IN) to[G::C] = (bf16)0.0f; /* of channels that are 0 */
}

/* ----- launchers ------------------------------------------------------------------------------------------------------- */

template <typename G> static stem_job job_of(const gf_nn_shape *s, const gf_nn_args *a) {
    stem_job j = {};
    j.x = (const bf16 *)a->x, j.w = (const bf16 *)a->packed, j.dy = (const bf16 *)a->dy;
    j.y = (bf16 *)a->y, j.part = (float *)a->scratch;
    j.h = (int)s->h, j.width = (int)s->w, j.pad = s->pad;
    j.oh = (int)gf_nn_out(s->h, s->kernel, s->stride, s->pad), j.ow = (int)gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    j.tiles_x = (j.ow + TW - 1) / TW, j.tiles_y = (j.oh + G::TH - 1) / G::TH;
    j.tiles = (int)s->n * j.tiles_x * j.tiles_y;
    return j;
}

template <typename Kernel> static int allow(gf_nn_engine *s, Kernel kernel, size_t bytes) {
    const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    gf_cunn_note(s, e, "memory of a convolution of images");
    return e == cudaSuccess;
}

template <typename G> static void add_parts(gf_nn_engine *s, const stem_job &j, void *dw, int parts) {
    add_kernel<G><<<G::OUT * G::COLUMNS / ADD_COLUMNS, dim3(ADD_COLUMNS, ADDERS), 0, s->stream>>>(j, (bf16 *)dw, parts);
}
