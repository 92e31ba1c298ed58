/* cunn_patches.cu - images as rows of patches, for convolutions whose windows do not overlap: those are linear layers of patches.
 *
 * cuDNN takes 1.5 ms for the patches of ViT-B/32 (256 images of 224 pixels), 105 TFLOP/s of which most are zeros; as a product of
 * [patches][k k 3] numbers they take a tenth. A thread moves 8 pixels: 8 bytes of each, 48 together.
 */
#include "nn/cuda/cunn.h"
#include "nn/cuda/cunn_lanes.cuh"

enum { THREADS = 256, PIXELS = 8, IN = GF_CUNN_IMAGE_CHANNELS, COLOURS = 3 };

static unsigned blocks_for(int64_t count) { return (unsigned)((count + THREADS - 1) / THREADS); }

/* The first 3 of 8 channels of 8 pixels. */
__device__ static void pack_pixels(bf16 *to, const bf16 *from) {
    uint2 in[PIXELS];
    uint16_t out[PIXELS * COLOURS];
#pragma unroll
    for (int i = 0; i < PIXELS; i++) in[i] = *(const uint2 *)(from + i * IN);
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
        out[3 * i] = (uint16_t)in[i].x;
        out[3 * i + 1] = (uint16_t)(in[i].x >> 16);
        out[3 * i + 2] = (uint16_t)in[i].y;
    }
#pragma unroll
    for (int i = 0; i < 3; i++) {
        const uint16_t *const p = out + 8 * i;
        ((uint4 *)to)[i] = make_uint4(p[0] | (uint32_t)p[1] << 16, p[2] | (uint32_t)p[3] << 16, p[4] | (uint32_t)p[5] << 16,
                                      p[6] | (uint32_t)p[7] << 16);
    }
}

struct patches {
    int h, w, k, ph, pw; /* pixels of an image and of a patch, patches of an image */
};

/* Thread: 8 pixels of a line of one patch. */
static __global__ void __launch_bounds__(THREADS) gather_kernel(bf16 *to, const bf16 *x, patches p, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const int pieces = p.k / PIXELS, line = p.pw * pieces;
    const int piece = (int)(i % line), kx = piece % pieces * PIXELS, px = piece / pieces;
    const int64_t rest = i / line;
    const int y = (int)(rest % (p.ph * p.k)), ky = y % p.k, py = y / p.k;
    const int64_t image = rest / (p.ph * p.k);
    pack_pixels(to + ((((image * p.ph + py) * p.pw + px) * p.k + ky) * p.k + kx) * COLOURS,
                x + ((image * p.h + y) * p.w + px * p.k + kx) * IN);
}

static __global__ void __launch_bounds__(THREADS) narrow_kernel(bf16 *to, const bf16 *from, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) pack_pixels(to + i * PIXELS * COLOURS, from + i * PIXELS * IN);
}

static __global__ void __launch_bounds__(THREADS) widen_kernel(float *to, const float *from, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    ((float4 *)to)[2 * i] = make_float4(from[3 * i], from[3 * i + 1], from[3 * i + 2], 0.0f);
    ((float4 *)to)[2 * i + 1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

void gf_cunn_patches(gf_nn_engine *s, const gf_nn_shape *shape, void *to, const void *x) {
    const int k = shape->kernel;
    const patches p = {(int)shape->h, (int)shape->w, k, (int)(shape->h / k), (int)(shape->w / k)};
    const int64_t count = shape->n * p.ph * k * p.pw * (k / PIXELS);
    gather_kernel<<<blocks_for(count), THREADS, 0, s->stream>>>((bf16 *)to, (const bf16 *)x, p, count);
    gf_cunn_note(s, cudaGetLastError(), "patches of images");
}

void gf_cunn_patch_weights(gf_nn_engine *s, void *to, const void *from, int64_t pixels) {
    narrow_kernel<<<blocks_for(pixels / PIXELS), THREADS, 0, s->stream>>>((bf16 *)to, (const bf16 *)from, pixels / PIXELS);
    gf_cunn_note(s, cudaGetLastError(), "weights of patches");
}

void gf_cunn_patch_gradient(gf_nn_engine *s, float *to, const float *from, int64_t pixels) {
    widen_kernel<<<blocks_for(pixels), THREADS, 0, s->stream>>>(to, from, pixels);
    gf_cunn_note(s, cudaGetLastError(), "gradient of the weights of patches");
}
