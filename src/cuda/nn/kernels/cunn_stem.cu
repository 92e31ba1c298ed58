/* cunn_stem.cu - convolutions of images (3 colours) in bf16, forward and the gradient of the weights, on tensor cores.
 *
 * cuDNN multiplies the zeros that fill 3 channels up to 8, and more of its own: 1.8 ms for the 7 x 7 stem of ResNet-50 (256
 * images of 224 pixels), where memory allows 0.16. Here a window is a row of a product without being copied: in shared memory an
 * image has C channels so that neighbouring windows begin 16 bytes apart, which is a row of ldmatrix. With stride 2 that is C = 4,
 * with stride 1 C = 8. The columns of the product are kernel rows of PX pixels, the last of them against zero weights:
 *   forward    y [pixels][OUT] = windows [pixels][K PX C] weights'
 *   gradient   dw [OUT][K PX C] = dy' windows, in each block of its own tiles; a second launch adds the blocks in order
 * A tile is TH x TW pixels of the output; the next one is fetched while this one is multiplied.
 */
#include "cuda/nn/cunn.h"
#include "cuda/nn/kernels/cunn_mma.cuh"
#include "util/minmax.h"

enum { IN = GF_CUNN_IMAGE_CHANNELS, TW = 16, TH = 8, PAD = 8, SUM_BLOCKS = 264 };

template <int K_, int S_, int OUT_> struct stem { /* kernel, stride, channels of y */
    static constexpr int K = K_, S = S_, OUT = OUT_;
    static constexpr int C = 8 / S, ROW = (K * C + 15) / 16 * 16, PX = ROW / C; /* a kernel row: PX pixels, ROW numbers */
    static constexpr int PW = (TW - 1) * S + PX, PH = (TH - 1) * S + K;         /* pixels that a tile reads */
    static constexpr int PATCH = PH * PW * C, COLUMNS = K * ROW;
    static constexpr int SPLIT = K == 7 ? 1 : 2, BACK_WARPS = K * SPLIT; /* gradient: warp = kernel row, and every SPLIT-th line */
};

struct stem_job {
    const bf16 *x, *w, *dy; /* x [n][h][w][IN], w [OUT][K][K][IN] */
    bf16 *y;                /* [n][oh][ow][OUT] */
    float *part;            /* [blocks][OUT][COLUMNS] */
    int h, width, oh, ow, pad;
    int tiles_x, tiles_y, tiles; /* of an image; of all */
};

struct tile_place {
    int64_t image;
    int y0, x0;
};

__device__ static inline tile_place place_of(const stem_job &j, int tile) {
    const int each = j.tiles_x * j.tiles_y, at = tile % each;
    return {tile / each, at / j.tiles_x * TH, at % j.tiles_x * TW};
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

enum { WARPS = 4, LINES = TH / WARPS }; /* of a tile, per warp: 16 pixels each */

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

/* 16 pixels of one line through shared memory [16][OUT + PAD] of the warp, so that whole rows are written. */
template <typename G>
__device__ static void store_line(const stem_job &j, const tile_place &t, int line, const float (&acc)[G::OUT / 8][4], bf16 *stage) {
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
    return sizeof(bf16) * (G::OUT * (G::COLUMNS + PAD) + WARPS * 16 * (G::OUT + PAD) + 2 * G::PATCH);
}

template <typename G> static __global__ void __launch_bounds__(32 * WARPS, 4) forward_kernel(stem_job j) {
    extern __shared__ uint4 memory[];
    bf16 *const w = (bf16 *)memory, *const stages = w + G::OUT * (G::COLUMNS + PAD), *patch = stages + WARPS * 16 * (G::OUT + PAD);
    bf16 *const stage = stages + threadIdx.x / 32 * 16 * (G::OUT + PAD);
    int tile = blockIdx.x, now = 0;
    if (tile < j.tiles) fetch_patch<G>(patch, j, place_of(j, tile));
    copy_commit();
    load_weights<G>(w, j.w);
    for (; tile < j.tiles; tile += gridDim.x, now ^= 1) {
        if (tile + (int)gridDim.x < j.tiles) fetch_patch<G>(patch + (now ^ 1) * G::PATCH, j, place_of(j, tile + gridDim.x));
        copy_commit();
        copy_wait<1>();
        float acc[LINES][G::OUT / 8][4] = {0.0f};
        multiply_tile<G>(acc, patch + now * G::PATCH, w);
#pragma unroll
        for (int m = 0; m < LINES; m++) store_line<G>(j, place_of(j, tile), threadIdx.x / 32 * LINES + m, acc[m], stage);
        __syncthreads(); /* the patch is read: it is fetched into next */
    }
}

/* ----- gradient of the weights ------------------------------------------------------------------------------------- */

/* Starts to copy dy of a tile: [TH][TW][OUT + PAD]. */
template <typename G> __device__ static void fetch_dy(bf16 *to, const stem_job &j, const tile_place &t) {
    constexpr int PIECES = G::OUT / 8;
    for (int i = threadIdx.x; i < TH * TW * PIECES; i += blockDim.x) {
        const int p = i / PIECES, c = i % PIECES * 8, y = t.y0 + p / TW, x = t.x0 + p % TW;
        const bool inside = y < j.oh && x < j.ow;
        copy_start<16>(to + p * (G::OUT + PAD) + c, inside ? j.dy + ((t.image * j.oh + y) * j.ow + x) * G::OUT + c : j.dy, inside);
    }
}

template <typename G>
__device__ static void add_tile(float (&acc)[G::OUT / 16][G::ROW / 8][4], const bf16 *patch, const bf16 *dy, int ky, int first) {
    const int lane = threadIdx.x % 32;
    const bf16 *const left = dy + (lane / 16 * 8 + lane % 8) * (G::OUT + PAD) + lane / 8 % 2 * 8;
    const bf16 *const right = patch + ky * G::PW * G::C + (lane / 8 % 2 * 8 + lane % 8) * G::S * G::C + lane / 16 * 8;
#pragma unroll
    for (int line = first; line < TH; line += G::SPLIT) {
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

template <typename G> constexpr size_t back_bytes() { return sizeof(bf16) * 2 * (G::PATCH + TH * TW * (G::OUT + PAD)); }

template <typename G> static __global__ void __launch_bounds__(32 * G::BACK_WARPS, 2) back_kernel(stem_job j) {
    extern __shared__ uint4 memory[];
    bf16 *const patch = (bf16 *)memory, *const dy = patch + 2 * G::PATCH;
    constexpr int DY = TH * TW * (G::OUT + PAD);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, ky = warp % G::K, first = warp / G::K;
    float acc[G::OUT / 16][G::ROW / 8][4] = {0.0f};
    int tile = blockIdx.x, now = 0;
    if (tile < j.tiles) fetch_patch<G>(patch, j, place_of(j, tile)), fetch_dy<G>(dy, j, place_of(j, tile));
    copy_commit();
    for (; tile < j.tiles; tile += gridDim.x, now ^= 1) {
        if (tile + (int)gridDim.x < j.tiles) {
            const tile_place next = place_of(j, tile + gridDim.x);
            fetch_patch<G>(patch + (now ^ 1) * G::PATCH, j, next), fetch_dy<G>(dy + (now ^ 1) * DY, j, next);
        }
        copy_commit();
        copy_wait<1>();
        add_tile<G>(acc, patch + now * G::PATCH, dy + now * DY, ky, first);
        __syncthreads();
    }
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

/* ----- launchers --------------------------------------------------------------------------------------------------- */

static stem_job job_of(const gf_nn_shape *s, const gf_nn_args *a) {
    stem_job j = {};
    j.x = (const bf16 *)a->x, j.w = (const bf16 *)a->packed, j.dy = (const bf16 *)a->dy;
    j.y = (bf16 *)a->y, j.part = (float *)a->scratch;
    j.h = (int)s->h, j.width = (int)s->w, j.pad = s->pad;
    j.oh = (int)gf_nn_out(s->h, s->kernel, s->stride, s->pad), j.ow = (int)gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    j.tiles_x = (j.ow + TW - 1) / TW, j.tiles_y = (j.oh + TH - 1) / TH;
    j.tiles = (int)s->n * j.tiles_x * j.tiles_y;
    return j;
}

template <typename Kernel> static int allow(gf_nn_engine *s, Kernel kernel, size_t bytes) {
    const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    gf_cunn_note(s, e, "memory of a convolution of images");
    return e == cudaSuccess;
}

template <typename G> static void forward(gf_nn_engine *s, const stem_job &j) {
    if (!allow(s, forward_kernel<G>, forward_bytes<G>())) return;
    forward_kernel<G><<<(unsigned)GF_MIN(j.tiles, 4 * 132), 32 * WARPS, forward_bytes<G>(), s->stream>>>(j);
    gf_cunn_note(s, cudaGetLastError(), "convolution of images");
}

template <typename G> static void back(gf_nn_engine *s, const stem_job &j, bf16 *dw) {
    if (!allow(s, back_kernel<G>, back_bytes<G>())) return;
    const int blocks = GF_MIN(j.tiles, (int)SUM_BLOCKS);
    back_kernel<G><<<(unsigned)blocks, 32 * G::BACK_WARPS, back_bytes<G>(), s->stream>>>(j);
    add_kernel<G><<<G::OUT * G::COLUMNS / ADD_COLUMNS, dim3(ADD_COLUMNS, ADDERS), 0, s->stream>>>(j, dw, blocks * G::SPLIT);
    gf_cunn_note(s, cudaGetLastError(), "convolution of images, gradient of the weights");
}

/* Calls f<stem<...>>(...) for the shape, if there is one. */
#define STEMS(X) X(7, 2, 64) X(3, 1, 64) X(3, 2, 32)

size_t gf_cunn_stem_scratch(const gf_nn_shape *s) {
    size_t bytes = 0;
    if (s->type != GF_TYPE_BF16 || s->in != IN || s->input_grad || s->colours != 3) return 0;
#define GF_X(K, S, OUT)                                              \
    if (s->kernel == K && s->stride == S && s->out == OUT)           \
        bytes = sizeof(float) * SUM_BLOCKS * stem<K, S, OUT>::SPLIT * OUT * stem<K, S, OUT>::COLUMNS;
    STEMS(GF_X)
#undef GF_X
    return bytes;
}

void gf_cunn_stem_forward(gf_nn_engine *s, const gf_nn_shape *p, const gf_nn_args *a) {
    const stem_job j = job_of(p, a);
#define GF_X(K, S, OUT) \
    if (p->kernel == K && p->stride == S && p->out == OUT) forward<stem<K, S, OUT>>(s, j);
    STEMS(GF_X)
#undef GF_X
}

void gf_cunn_stem_back(gf_nn_engine *s, const gf_nn_shape *p, const gf_nn_args *a, void *dw) {
    const stem_job j = job_of(p, a);
#define GF_X(K, S, OUT) \
    if (p->kernel == K && p->stride == S && p->out == OUT) back<stem<K, S, OUT>>(s, j, (bf16 *)dw);
    STEMS(GF_X)
#undef GF_X
}
