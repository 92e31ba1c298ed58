/* cunn_stem.cu - convolutions of images (3 colours) in bf16, forward and the gradient of the weights, on tensor cores.
 *
 * cuDNN multiplies the zeros that fill 3 channels up to 8, and more of its own: 1.8 ms for the 7 x 7 stem of ResNet-50 (256
 * images of 224 pixels), where memory allows 0.16. Here a window is a row of a product without being copied: in shared memory
 * an image has C channels so that neighbouring windows begin 16 bytes apart, which is a row of ldmatrix. With stride 2 that is
 * C = 4, with stride 1 C = 8. The columns of the product are kernel rows of PX pixels, the last of them against zero weights:
 *   forward    y [pixels][OUT] = windows [pixels][K PX C] weights'
 *   gradient   dw [OUT][K PX C] = dy' windows, in each block of its own tiles; a second launch adds the blocks in order
 * A tile is TH x TW pixels of the output; the next one is fetched while this one is multiplied.
 */
#include "nn/cuda/cunn_stem.cuh"

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
