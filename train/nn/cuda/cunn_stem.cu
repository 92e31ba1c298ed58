/* cunn_stem.cu - convolutions of images, whose channels are few: products on tensor cores from a patch in shared memory; and
 * together with the max pooling that follows. */
#include "nn/cuda/cunn_device.cuh"
#include "nn/cuda/cunn_kernels.h"
#include "nn/cuda/cunn_norm.cuh"
#include "util/array.h"

/* ----- Tiles, patches and weights -------------------------------------------------------------------------------- */

/* Pieces of the convolutions of images: tiles, their pixels in shared memory, products. See cunn_stem.cu. */

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
    bf16 *pooled;           /* [n][ph][pw][OUT]: cunn_stem.cu; and the place of each in its window */
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

/* ----- The convolution ------------------------------------------------------------------------------------------- */

/* Convolutions of images (3 colours) in bf16, forward and the gradient of the weights, on tensor cores.
 *
 * cuDNN multiplies the zeros that fill 3 channels up to 8, and more of its own: 1.8 ms for the 7 x 7 stem of ResNet-50 (256
 * images of 224 pixels), where memory allows 0.16. Here a window is a row of a product without being copied: in shared memory
 * an image has C channels so that neighbouring windows begin 16 bytes apart, which is a row of ldmatrix. With stride 2 that is
 * C = 4, with stride 1 C = 8. The columns of the product are kernel rows of PX pixels, the last of them against zero weights:
 *   forward    y [pixels][OUT] = windows [pixels][K PX C] weights'
 *   gradient   dw [OUT][K PX C] = dy' windows, in each block of its own tiles; a second launch adds the blocks in order
 * A tile is TH x TW pixels of the output; the next one is fetched while this one is multiplied. */

/* ----- forward ----------------------------------------------------------------------------------------------------- */

/* 16 pixels of one line through shared memory [16][OUT + PAD] of the warp, so that whole rows are written. */
template <typename G>
__device__ static void store_line(const stem_job &j, const tile_place &t, int line, const float (&acc)[G::OUT / 8][4],
                                  bf16 *stage) {
    const int lane = threadIdx.x % 32, y = t.y0 + line;
    __syncwarp();
#pragma unroll
    for (int o = 0; o < G::OUT / 8; o++) {
        uint32_t *const to = (uint32_t *)(stage + lane / 4 * (G::OUT + PAD) + o * 8 + lane % 4 * 2);
        to[0] = pack(acc[o][0], acc[o][1]);
        to[8 * (G::OUT + PAD) / 2] = pack(acc[o][2], acc[o][3]);
    }
    __syncwarp();
    if (y >= j.oh) return;
    bf16 *const row = j.y + ((t.image * j.oh + y) * j.ow + t.x0) * G::OUT;
#pragma unroll
    for (int i = lane; i < TW * G::OUT / 8; i += 32) {
        const int p = i / (G::OUT / 8), c = i % (G::OUT / 8) * 8;
        if (t.x0 + p < j.ow) *(uint4 *)(row + p * G::OUT + c) = *(const uint4 *)(stage + p * (G::OUT + PAD) + c);
    }
}

template <typename G> constexpr size_t forward_bytes() {
    return sizeof(bf16) * (G::OUT * (G::COLUMNS + PAD) + G::WARPS * 16 * (G::OUT + PAD) + 2 * G::PATCH);
}

template <typename G> static __global__ void __launch_bounds__(32 * G::WARPS, 4) forward_kernel(stem_job j) {
    extern __shared__ uint4 memory[];
    bf16 *const w = (bf16 *)memory, *const stages = w + G::OUT * (G::COLUMNS + PAD),
                *patch = stages + G::WARPS * 16 * (G::OUT + PAD);
    bf16 *const stage = stages + threadIdx.x / 32 * 16 * (G::OUT + PAD);
    int tile = blockIdx.x, now = 0;
    if (tile < j.tiles) fetch_patch<G>(patch, j, place_of<G>(j, tile));
    copy_commit();
    load_weights<G>(w, j.w);
    for (; tile < j.tiles; tile += gridDim.x, now ^= 1) {
        if (tile + (int)gridDim.x < j.tiles) fetch_patch<G>(patch + (now ^ 1) * G::PATCH, j, place_of<G>(j, tile + gridDim.x));
        copy_commit();
        copy_wait<1>();
        float acc[LINES][G::OUT / 8][4] = {0.0f};
        multiply_tile<G>(acc, patch + now * G::PATCH, w);
#pragma unroll
        for (int m = 0; m < LINES; m++) store_line<G>(j, place_of<G>(j, tile), threadIdx.x / 32 * LINES + m, acc[m], stage);
        __syncthreads(); /* the patch is read: it is fetched into next */
    }
}

/* ----- gradient of the weights ------------------------------------------------------------------------------------- */

template <typename G> constexpr size_t back_bytes() { return sizeof(bf16) * 2 * (G::PATCH + G::TH * TW * (G::OUT + PAD)); }

template <typename G> static __global__ void __launch_bounds__(32 * G::BACK_WARPS, 2) back_kernel(stem_job j) {
    extern __shared__ uint4 memory[];
    bf16 *const patch = (bf16 *)memory, *const dy = patch + 2 * G::PATCH;
    constexpr int DY = G::TH * TW * (G::OUT + PAD);
    const int warp = threadIdx.x / 32, ky = warp % G::K, first = warp / G::K;
    float acc[G::OUT / 16][G::ROW / 8][4] = {0.0f};
    int tile = blockIdx.x, now = 0;
    if (tile < j.tiles) fetch_patch<G>(patch, j, place_of<G>(j, tile)), fetch_tile<G>(dy, j.dy, j, place_of<G>(j, tile));
    copy_commit();
    for (; tile < j.tiles; tile += gridDim.x, now ^= 1) {
        if (tile + (int)gridDim.x < j.tiles) {
            const tile_place next = place_of<G>(j, tile + gridDim.x);
            fetch_patch<G>(patch + (now ^ 1) * G::PATCH, j, next), fetch_tile<G>(dy + (now ^ 1) * DY, j.dy, j, next);
        }
        copy_commit();
        copy_wait<1>();
        add_tile<G>(acc, patch + now * G::PATCH, dy + now * DY, ky, first);
        __syncthreads();
    }
    write_part<G>(j, acc, ky, first);
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

template <typename G> static void forward(gf_nn_engine *s, const stem_job &j) {
    if (!allow(s, forward_kernel<G>, forward_bytes<G>())) return;
    forward_kernel<G><<<(unsigned)GF_MIN(j.tiles, 4 * 132), 32 * G::WARPS, forward_bytes<G>(), s->stream>>>(j);
    gf_cunn_note(s, cudaGetLastError(), "convolution of images");
}

template <typename G> static void back(gf_nn_engine *s, const stem_job &j, void *dw) {
    if (!allow(s, back_kernel<G>, back_bytes<G>())) return;
    const int blocks = GF_MIN(j.tiles, (int)STEM_BLOCKS);
    back_kernel<G><<<(unsigned)blocks, 32 * G::BACK_WARPS, back_bytes<G>(), s->stream>>>(j);
    add_parts<G>(s, j, dw, blocks * G::SPLIT);
    gf_cunn_note(s, cudaGetLastError(), "convolution of images, gradient of the weights");
}

/* Calls f<stem<...>>(...) for the shape, if there is one. */
#define STEMS(X) X(7, 2, 64) X(3, 1, 64) X(3, 2, 32)

size_t gf_cunn_stem_scratch(const gf_nn_shape *s) {
    size_t bytes = 0;
    if (s->type != GF_TYPE_BF16 || s->in != IN || s->input_grad || s->colours != 3) return 0;
#define GF_X(K, S, OUT)                                    \
    if (s->kernel == K && s->stride == S && s->out == OUT) \
        bytes = sizeof(float) * STEM_BLOCKS * stem<K, S, OUT>::SPLIT * OUT * stem<K, S, OUT>::COLUMNS;
    STEMS(GF_X)
#undef GF_X
    return bytes;
}

void gf_cunn_stem_forward(gf_nn_engine *s, const gf_nn_shape *p, const gf_nn_args *a) {
#define GF_X(K, S, OUT) \
    if (p->kernel == K && p->stride == S && p->out == OUT) forward<stem<K, S, OUT>>(s, job_of<stem<K, S, OUT>>(p, a));
    STEMS(GF_X)
#undef GF_X
}

void gf_cunn_stem_back(gf_nn_engine *s, const gf_nn_shape *p, const gf_nn_args *a, void *dw) {
#define GF_X(K, S, OUT) \
    if (p->kernel == K && p->stride == S && p->out == OUT) back<stem<K, S, OUT>>(s, job_of<stem<K, S, OUT>>(p, a), dw);
    STEMS(GF_X)
#undef GF_X
}

/* ----- With max pooling ------------------------------------------------------------------------------------------ */

/* The stem of ResNet as one: convolution of images, the sums of its batch norm, and max pooling.
 *
 * Batch norm and ReLU keep the order of numbers, or turn it around where gamma < 0: so the maximum of the result over 3 x 3
 * windows is the result of the maximum, or minimum, of x. Forward writes x (for backward), its sums per channel and block, and
 * the extreme of each window with its place; batch norm then has a quarter of the numbers. Backward its sums are of these, too:
 * only they have a gradient g. The gradient of x, dx = scale (sum of the g of its windows) + a x + b, is made where the gradient
 * of the weights reads it, and never written.
 *
 * Forward, a block walks down a strip of 14 columns and keeps the last line of the tile above; neighbouring strips compute two
 * columns twice. */

typedef stem<7, 2, 64, 16> tall; /* forward */
typedef stem<7, 2, 64, 8> flat;  /* backward */

enum { OUT = 64, GROUPS = OUT / 8, LINE = TW * (OUT + PAD), OWN = 14, POOL_THREADS = 256 }; /* LINE: of x in shared memory */

/* ----- forward ----------------------------------------------------------------------------------------------------- */

/* x of the tile to lines 1 to TH. */
__device__ static void stage_tile(bf16 *stage, const float (&acc)[LINES][OUT / 8][4]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < LINES; m++) {
        bf16 *const line = stage + (1 + threadIdx.x / 32 * LINES + m) * LINE + lane / 4 * (OUT + PAD) + lane % 4 * 2;
#pragma unroll
        for (int o = 0; o < OUT / 8; o++) {
            *(uint32_t *)(line + o * 8) = pack(acc[m][o][0], acc[m][o][1]);
            *(uint32_t *)(line + 8 * (OUT + PAD) + o * 8) = pack(acc[m][o][2], acc[m][o][3]);
        }
    }
}

/* Writes x of the strip's own columns, and adds it to the sums of the thread's 8 channels. */
__device__ static void keep_tile(const stem_job &j, const tile_place &t, const bf16 *stage, float (&sum)[8], float (&square)[8]) {
    for (int i = threadIdx.x; i < tall::TH * OWN * GROUPS; i += POOL_THREADS) {
        const int c = i % GROUPS * 8, column = 1 + i / GROUPS % OWN, line = i / GROUPS / OWN;
        const int y = t.y0 + line, x = t.x0 + column;
        if (y >= j.oh || x >= j.ow) continue;
        const lanes<bf16, 8> piece = lanes<bf16, 8>::load(stage + (1 + line) * LINE + column * (OUT + PAD) + c);
        float v[8];
        if (j.y) *(uint4 *)(j.y + ((t.image * j.oh + y) * j.ow + x) * OUT + c) = piece.raw;
        piece.floats(v);
#pragma unroll
        for (int k = 0; k < 8; k++) sum[k] += v[k], square[k] = fmaf(v[k], v[k], square[k]);
    }
}

__device__ static uint32_t larger(uint32_t a, uint32_t b) { /* of two pairs of bf16; NaN passes */
    const __nv_bfloat162 r = __hmax2_nan(*reinterpret_cast<__nv_bfloat162 *>(&a), *reinterpret_cast<__nv_bfloat162 *>(&b));
    return *reinterpret_cast<const uint32_t *>(&r);
}

__device__ static uint32_t equal(uint32_t a, uint32_t b) { /* 0xffff where they are */
    return __heq2_mask(*reinterpret_cast<__nv_bfloat162 *>(&a), *reinterpret_cast<__nv_bfloat162 *>(&b));
}

/* One window, 8 channels as 4 pairs; flip: the sign bits of channels whose minimum counts. First: the window's pixel. */
__device__ static void pool_window(const stem_job &j, const bf16 *first, int y, int x, const uint32_t (&flip)[4], int64_t to) {
    uint32_t key[9][4], best[4], place[4];
#pragma unroll
    for (int k = 0; k < 4; k++) best[k] = 0xff80ff80u, place[k] = 0x00ff00ffu; /* -inf */
#pragma unroll
    for (int p = 0; p < 9; p++) {
        const int r = y + p / 3, q = x + p % 3;
        uint4 raw = *(const uint4 *)(first + p / 3 * LINE + p % 3 * (OUT + PAD));
        const bool inside = r >= 0 && r < j.oh && q >= 0 && q < j.ow;
        key[p][0] = raw.x, key[p][1] = raw.y, key[p][2] = raw.z, key[p][3] = raw.w;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            key[p][k] = inside ? key[p][k] ^ flip[k] : 0xff80ff80u;
            best[k] = larger(best[k], key[p][k]);
        }
    }
#pragma unroll
    for (int p = 8; p >= 0; p--) /* the first of equal ones counts */
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t same = equal(key[p][k], best[k]);
            place[k] = (place[k] & ~same) | (0x00010001u * p & same);
        }
    *(uint4 *)(j.pooled + to) = make_uint4(best[0] ^ flip[0], best[1] ^ flip[1], best[2] ^ flip[2], best[3] ^ flip[3]);
    if (j.winner)
        *(uint2 *)(j.winner + to) = make_uint2(__byte_perm(place[0], place[1], 0x6420), __byte_perm(place[2], place[3], 0x6420));
}

__device__ static void pool_tile(const stem_job &j, const tile_place &t, const bf16 *stage, const uint32_t (&flip)[4]) {
    constexpr int ROWS = tall::TH / 2, COLUMNS = OWN / 2;
    for (int i = threadIdx.x; i < ROWS * COLUMNS * GROUPS; i += POOL_THREADS) {
        const int c = i % GROUPS * 8, column = i / GROUPS % COLUMNS, row = i / GROUPS / COLUMNS;
        const int py = t.y0 / 2 + row, px = (t.x0 + 1) / 2 + column;
        if (py >= j.ph || px >= j.pw) continue;
        pool_window(j, stage + 2 * row * LINE + 2 * column * (OUT + PAD) + c, t.y0 - 1 + 2 * row, t.x0 + 2 * column, flip,
                    ((t.image * j.ph + py) * j.pw + px) * OUT + c);
    }
}

/* Sums of the block to part [blocks][2][OUT]; shared: [THREADS][16]. */
__device__ static void write_sums(const stem_job &j, float *shared, const float (&sum)[8], const float (&square)[8]) {
#pragma unroll
    for (int k = 0; k < 8; k++) shared[threadIdx.x * 16 + k] = sum[k], shared[threadIdx.x * 16 + 8 + k] = square[k];
    __syncthreads();
    if (threadIdx.x >= 2 * OUT) return;
    const int which = threadIdx.x / OUT, c = threadIdx.x % OUT;
    float all = 0.0f;
    for (int i = c / 8; i < POOL_THREADS; i += GROUPS) all += shared[i * 16 + which * 8 + c % 8];
    j.part[((int64_t)blockIdx.x * 2 + which) * OUT + c] = all;
}

/* Tile k of a block: strips blockIdx.x, blockIdx.x + gridDim.x ... from top to bottom. */
__device__ static bool place_in_strip(const stem_job &j, int k, tile_place *t) {
    const int strip = (int)blockIdx.x + k / j.tiles_y * (int)gridDim.x;
    *t = {strip / j.tiles_x, k % j.tiles_y * tall::TH, strip % j.tiles_x * OWN - 1};
    return strip < j.tiles;
}

static constexpr size_t pool_bytes = sizeof(bf16) * (OUT * (tall::COLUMNS + PAD) + (tall::TH + 1) * LINE + 2 * tall::PATCH);

static __global__ void __launch_bounds__(POOL_THREADS, 2) pool_kernel(stem_job j, const float *gamma) {
    extern __shared__ uint4 memory[];
    bf16 *const w = (bf16 *)memory, *const stage = w + OUT * (tall::COLUMNS + PAD), *const patch = stage + (tall::TH + 1) * LINE;
    float sum[8] = {0.0f}, square[8] = {0.0f};
    uint32_t flip[4] = {0, 0, 0, 0};
    for (int k = 0; k < 8 && gamma; k++)
        if (gamma[threadIdx.x % GROUPS * 8 + k] < 0.0f) flip[k / 2] |= k % 2 ? 0x80000000u : 0x8000u;
    tile_place t, next;
    bool more = place_in_strip(j, 0, &t);
    if (more) fetch_patch<tall>(patch, j, t);
    copy_commit();
    load_weights<tall>(w, j.w);
    for (int k = 0; more; k++, t = next) {
        more = place_in_strip(j, k + 1, &next);
        if (more) fetch_patch<tall>(patch + (k + 1) % 2 * tall::PATCH, j, next);
        copy_commit();
        copy_wait<1>();
        float acc[LINES][OUT / 8][4] = {0.0f};
        multiply_tile<tall>(acc, patch + k % 2 * tall::PATCH, w);
        stage_tile(stage, acc);
        __syncthreads();
        keep_tile(j, t, stage, sum, square);
        pool_tile(j, t, stage, flip);
        __syncthreads();
        for (int i = threadIdx.x; i < LINE / 8; i += POOL_THREADS) ((uint4 *)stage)[i] = ((uint4 *)(stage + tall::TH * LINE))[i];
    }
    __syncthreads();
    write_sums(j, (float *)stage, sum, square);
}

/* ----- statistics -------------------------------------------------------------------------------------------------- */

enum { SLICES = 8 };

/* Adds the blocks' sums in order. count 0: n.sums only, for ranks to add. */
static __global__ void __launch_bounds__(OUT *SLICES) stats_kernel(gf_nn_norm n, double count) {
    __shared__ double sums[SLICES][2][OUT];
    const int c = threadIdx.x, slice = threadIdx.y;
    const float *const part = (const float *)n.scratch;
    double sum = 0.0, square = 0.0;
#pragma unroll 4
    for (int i = slice; i < STEM_BLOCKS; i += SLICES)
        sum += (double)part[2 * i * OUT + c], square += (double)part[(2 * i + 1) * OUT + c];
    sums[slice][0][c] = sum, sums[slice][1][c] = square;
    __syncthreads();
    if (slice) return;
    for (int i = 1; i < SLICES; i++) sum += sums[i][0][c], square += sums[i][1][c];
    n.sums[c] = sum, n.sums[OUT + c] = square;
    if (count > 0) keep_line(n, c, line_of_sums(n, c, sum, square, count), count);
}

/* ----- gradient of the weights ------------------------------------------------------------------------------------- */

enum { WINDOWS_Y = 5, WINDOWS_X = 9, WINDOWS = WINDOWS_Y * WINDOWS_X }; /* that meet a tile of 8 x 16 pixels */

struct back_stage { /* in shared memory, of one tile */
    bf16 patch[flat::PATCH], x[flat::TH * LINE], g[WINDOWS * OUT];
    uint8_t winner[WINDOWS * OUT];
};

/* g and winner of the windows that meet a tile; outside of the image g is 0. */
__device__ static void fetch_windows(back_stage *to, const stem_job &j, const tile_place &t) {
    for (int i = threadIdx.x; i < WINDOWS * GROUPS; i += blockDim.x) {
        const int w = i / GROUPS, c = i % GROUPS * 8, py = t.y0 / 2 + w / WINDOWS_X, px = t.x0 / 2 + w % WINDOWS_X;
        const bool inside = py < j.ph && px < j.pw;
        const int64_t from = inside ? ((t.image * j.ph + py) * j.pw + px) * OUT + c : 0;
        copy_start<16>(to->g + w * OUT + c, j.dy + from, inside);
        copy_start<8>((bf16 *)(to->winner + w * OUT + c), (const bf16 *)(j.winner + from), inside);
    }
}

__device__ static void fetch_back(back_stage *to, const stem_job &j, const tile_place &t) {
    fetch_patch<flat>(to->patch, j, t);
    fetch_tile<flat>(to->x, j.y, j, t);
    fetch_windows(to, j, t);
}

struct window { /* g and winner of 8 channels, as loaded */
    uint4 g;
    uint2 winner;
};

__device__ static window conv3x3_at(const back_stage *s, int y, int x, int c) {
    const int at = (y * WINDOWS_X + x) * OUT + c;
    return {*(const uint4 *)(s->g + at), *(const uint2 *)(s->winner + at)};
}

/* sum += g of a window where its winner is `place`. */
__device__ static void add_window(float (&sum)[8], const window &w, int place) {
    const uint32_t want = 0x01010101u * place, low = __vcmpeq4(w.winner.x, want), high = __vcmpeq4(w.winner.y, want);
    const lanes<bf16, 8> mine = {make_uint4(w.g.x & __byte_perm(low, 0, 0x1100), w.g.y & __byte_perm(low, 0, 0x3322),
                                            w.g.z & __byte_perm(high, 0, 0x1100), w.g.w & __byte_perm(high, 0, 0x3322))};
    float v[8];
    mine.floats(v);
#pragma unroll
    for (int k = 0; k < 8; k++) sum[k] += v[k];
}

struct dx_line { /* of the thread's 8 channels: dx = scale g + a x + b */
    float scale[8], a[8], b[8];
};

__device__ static void write_stem_dx(bf16 *at, const float (&sum)[8], const dx_line &l, bool inside) {
    float v[8];
    lanes<bf16, 8>::load(at).floats(v);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = inside ? fmaf(l.scale[k], sum[k], fmaf(l.a[k], v[k], l.b[k])) : 0.0f;
    lanes<bf16, 8>::store(at, v);
}

/* x of a tile becomes dx; 0 outside of the image. A thread has pixels 2 q and 2 q + 1 of a line: an even line or column is the
 * middle of one window, an odd one the last of one and the first of the next. Threads of a warp have one line. */
__device__ static void turn_into_dx(back_stage *s, const stem_job &j, const tile_place &t, const dx_line &l) {
    for (int i = threadIdx.x; i < flat::TH * (TW / 2) * GROUPS; i += blockDim.x) {
        const int c = i % GROUPS * 8, q = i / GROUPS % (TW / 2), y = i / GROUPS / (TW / 2);
        bf16 *const at = s->x + (y * TW + 2 * q) * (OUT + PAD) + c;
        float even[8] = {0.0f}, odd[8] = {0.0f};
        const window a = conv3x3_at(s, y / 2, q, c), b = conv3x3_at(s, y / 2, q + 1, c);
        const int row = y & 1 ? 6 : 3; /* of the upper window */
        add_window(even, a, row + 1);
        add_window(odd, a, row + 2);
        add_window(odd, b, row);
        if (y & 1) {
            const window d = conv3x3_at(s, y / 2 + 1, q, c), e = conv3x3_at(s, y / 2 + 1, q + 1, c);
            add_window(even, d, 1);
            add_window(odd, d, 2);
            add_window(odd, e, 0);
        }
        const bool line = t.y0 + y < j.oh;
        write_stem_dx(at, even, l, line && t.x0 + 2 * q < j.ow);
        write_stem_dx(at + OUT + PAD, odd, l, line && t.x0 + 2 * q + 1 < j.ow);
    }
}

static __global__ void __launch_bounds__(32 * flat::BACK_WARPS, 2) pool_back_kernel(stem_job j, gf_nn_norm n) {
    extern __shared__ uint4 memory[];
    back_stage *const stages = (back_stage *)memory;
    const int ky = threadIdx.x / 32;
    float acc[OUT / 16][flat::ROW / 8][4] = {0.0f};
    dx_line line;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const int c = threadIdx.x % GROUPS * 8 + k; /* the number of threads is a multiple of GROUPS */
        line.scale[k] = n.scale[c], line.a[k] = n.coef[c];
        line.b[k] = fmaf(-line.a[k], n.mean[c], n.coef[OUT + c]);
    }
    int tile = blockIdx.x, now = 0;
    if (tile < j.tiles) fetch_back(stages, j, place_of<flat>(j, tile));
    copy_commit();
    for (; tile < j.tiles; tile += gridDim.x, now ^= 1) {
        if (tile + (int)gridDim.x < j.tiles) fetch_back(stages + (now ^ 1), j, place_of<flat>(j, tile + gridDim.x));
        copy_commit();
        copy_wait<1>();
        turn_into_dx(stages + now, j, place_of<flat>(j, tile), line);
        __syncthreads();
        add_tile<flat>(acc, stages[now].patch, stages[now].x, ky, 0);
        __syncthreads();
    }
    write_part<flat>(j, acc, ky, 0);
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

int gf_cunn_stem_pools(const gf_nn_shape *conv, const gf_nn_shape *pool) {
    return gf_cunn_stem_scratch(conv) && conv->kernel == 7 && conv->pad == 3 && pool->kernel == 3 && pool->stride == 2 &&
           pool->pad == 1;
}

static int64_t pixels_of(const gf_nn_shape *s) {
    return s->n * gf_nn_out(s->h, s->kernel, s->stride, s->pad) * gf_nn_out(s->w, s->kernel, s->stride, s->pad);
}

/* saved: x, then the winners. */
static int64_t x_bytes(const gf_nn_shape *s) { return (int64_t)sizeof(bf16) * OUT * pixels_of(s); }

static int64_t pooled_pixels(const gf_nn_shape *s) {
    const int64_t oh = gf_nn_out(s->h, s->kernel, s->stride, s->pad), ow = gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    return s->n * gf_nn_out(oh, 3, 2, 1) * gf_nn_out(ow, 3, 2, 1);
}

size_t gf_cunn_stem_saved(const gf_nn_shape *s) { return (size_t)(x_bytes(s) + OUT * pooled_pixels(s)); }

template <typename G> static stem_job pooled_job(const gf_nn_shape *s, const gf_nn_args *a) {
    stem_job j = job_of<G>(s, a);
    j.y = (bf16 *)a->saved;
    j.winner = a->saved ? (uint8_t *)a->saved + x_bytes(s) : nullptr;
    j.pooled = (bf16 *)a->y;
    j.ph = (int)gf_nn_out(j.oh, 3, 2, 1), j.pw = (int)gf_nn_out(j.ow, 3, 2, 1);
    return j;
}

void gf_cunn_stem_pool(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a) {
    stem_job j = pooled_job<tall>(shape, a);
    j.tiles_x = (j.pw + OWN / 2 - 1) / (OWN / 2);
    j.tiles = (int)shape->n * j.tiles_x; /* strips */
    if (!allow(s, pool_kernel, pool_bytes)) return;
    pool_kernel<<<STEM_BLOCKS, POOL_THREADS, pool_bytes, s->stream>>>(j, a->norm->gamma);
    gf_cunn_note(s, cudaGetLastError(), "stem");
}

void gf_cunn_stem_stats(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    stats_kernel<<<1, dim3(OUT, SLICES), 0, s->stream>>>(*n, count);
    gf_cunn_note(s, cudaGetLastError(), "statistics of the stem");
}

void gf_cunn_stem_pool_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a, void *dw) {
    const stem_job j = pooled_job<flat>(shape, a);
    const int blocks = GF_MIN(j.tiles, (int)STEM_BLOCKS);
    if (!allow(s, pool_back_kernel, 2 * sizeof(back_stage))) return;
    pool_back_kernel<<<(unsigned)blocks, 32 * flat::BACK_WARPS, 2 * sizeof(back_stage), s->stream>>>(j, *a->norm);
    add_parts<flat>(s, j, dw, blocks);
    gf_cunn_note(s, cudaGetLastError(), "stem, gradient of the weights");
}
