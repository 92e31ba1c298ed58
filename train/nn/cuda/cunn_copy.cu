/* cunn_copy.cu - copies: casts, sums of two gradients, images into the network, weights into their working copies. Grid-stride
 * loops over numbers; 16 bytes at a time where that is faster. */
#include "nn/cuda/cunn_device.cuh"
#include "nn/cuda/cunn_kernels.h"

enum { THREADS = 256, PER_BLOCK = 4096 };

static unsigned blocks_for(int64_t count) {
    const int64_t blocks = (count + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 132 * 32 ? (blocks > 0 ? blocks : 1) : 132 * 32);
}

#define EACH(i, count)                                                                                                     \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, step_ = (int64_t)gridDim.x * blockDim.x; i < (count); \
         i += step_)

/* ----- casts and sums ---------------------------------------------------------------------------------------------- */

template <typename To, typename From> static __global__ void cast_kernel(To *dst, const From *src, int64_t count) {
    EACH(i, count) dst[i] = (To)(float)src[i];
}

template <typename T, int V> static __global__ void add_kernel(T *dst, const T *src, int64_t groups) {
    EACH(i, groups) {
        float a[V], b[V];
        lanes<T, V>::load(dst + i * V).floats(a);
        lanes<T, V>::load(src + i * V).floats(b);
        for (int k = 0; k < V; k++) a[k] += b[k];
        lanes<T, V>::store(dst + i * V, a);
    }
}

void gf_cunn_cast(gf_nn_engine *s, gf_type type, void *dst, const float *src, int64_t count) {
    if (type == GF_TYPE_BF16) cast_kernel<<<blocks_for(count), THREADS, 0, s->stream>>>((bf16 *)dst, src, count);
    else gf_cunn_note(s, cudaMemcpyAsync(dst, src, (size_t)count * sizeof *src, cudaMemcpyDeviceToDevice, s->stream), "copy");
    gf_cunn_note(s, cudaGetLastError(), "cast");
}

template <typename T, int V> static void add(gf_nn_engine *s, void *dst, const void *src, int64_t count) {
    add_kernel<T, V><<<blocks_for(count / V), THREADS, 0, s->stream>>>((T *)dst, (const T *)src, count / V);
    gf_cunn_note(s, cudaGetLastError(), "sum of gradients");
}

void gf_cunn_add(gf_nn_engine *s, gf_type type, void *dst, const void *src, int64_t count) {
    GF_LANES(type, count, add, s, dst, src, count);
}

/* ----- images ------------------------------------------------------------------------------------------------------ */

/* Thread: one pixel, in 16-byte stores. */
template <typename T, int V> static __global__ void images_kernel(T *dst, const float *src, int64_t pixels) {
    EACH(i, pixels) {
        float first[V] = {src[3 * i], src[3 * i + 1], src[3 * i + 2]}, rest[V] = {0.0f};
        lanes<T, V>::store(dst + i * GF_CUNN_IMAGE_CHANNELS, first);
        for (int at = V; at < GF_CUNN_IMAGE_CHANNELS; at += V) lanes<T, V>::store(dst + i * GF_CUNN_IMAGE_CHANNELS + at, rest);
    }
}

void gf_cunn_images(gf_nn_engine *s, gf_type type, void *dst, const float *src, int64_t pixels) {
    const unsigned blocks = blocks_for(pixels);
    if (type == GF_TYPE_BF16) images_kernel<bf16, 8><<<blocks, THREADS, 0, s->stream>>>((bf16 *)dst, src, pixels);
    else images_kernel<float, 4><<<blocks, THREADS, 0, s->stream>>>((float *)dst, src, pixels);
    gf_cunn_note(s, cudaGetLastError(), "images");
}

/* ----- working copies of weights ----------------------------------------------------------------------------------- */

int gf_cunn_move_blocks(int64_t count) { return (int)((count + PER_BLOCK - 1) / PER_BLOCK); }

/* Entry of the table for this block: the last that begins at or before it. */
__device__ static int entry_of(const gf_cunn_move *table, int count, int block) {
    int lo = 0, hi = count - 1;
    while (lo < hi) {
        const int mid = (lo + hi + 1) / 2;
        if (table[mid].first <= block) lo = mid;
        else hi = mid - 1;
    }
    return lo;
}

static __global__ void move_kernel(const gf_cunn_move *table, int count, int first, int widen) {
    const int block = first + (int)blockIdx.x;
    const gf_cunn_move p = table[entry_of(table, count, block)];
    const int64_t from = (int64_t)(block - p.first) * PER_BLOCK, to = min(from + PER_BLOCK, p.count);
    bf16 *narrow = (bf16 *)p.narrow;
    for (int64_t i = from + 4 * threadIdx.x; i < to; i += 4 * blockDim.x) {
        if (i + 4 > to) {
            for (int64_t k = i; k < to; k++)
                if (widen) p.wide[k] = __bfloat162float(narrow[k]);
                else narrow[k] = __float2bfloat16(p.wide[k]);
        } else if (widen) {
            const float2 a = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(narrow + i)[0]);
            const float2 b = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(narrow + i)[1]);
            *reinterpret_cast<float4 *>(p.wide + i) = make_float4(a.x, a.y, b.x, b.y);
        } else {
            const float4 v = *reinterpret_cast<const float4 *>(p.wide + i);
            reinterpret_cast<__nv_bfloat162 *>(narrow + i)[0] = __floats2bfloat162_rn(v.x, v.y);
            reinterpret_cast<__nv_bfloat162 *>(narrow + i)[1] = __floats2bfloat162_rn(v.z, v.w);
        }
    }
}

void gf_cunn_move_run(gf_nn_engine *s, const gf_cunn_move *table, int count, int from, int to, int widen) {
    move_kernel<<<to - from, THREADS, 0, s->stream>>>(table, count, from, widen);
    gf_cunn_note(s, cudaGetLastError(), "working copies of weights");
}

/* ----- noise ------------------------------------------------------------------------------------------------------- */

static __global__ void noise_kernel(uint16_t *dst, int64_t count) {
    EACH(i, count) {
        uint32_t h = (uint32_t)i * 2654435761u + 12345u;
        h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
        dst[i] = (uint16_t)(0x3c00u | (h & 0x83ffu)); /* +- 2^-7 .. 2 */
    }
}

void gf_cunn_noise(gf_nn_engine *s, void *dst, size_t bytes) {
    noise_kernel<<<blocks_for((int64_t)(bytes / 2)), THREADS, 0, s->stream>>>((uint16_t *)dst, (int64_t)(bytes / 2));
    gf_cunn_note(s, cudaGetLastError(), "noise");
}

/* ----- Convolutions of images as linear layers of patches -------------------------------------------------------- */

/* Images as rows of patches, for convolutions whose windows do not overlap: those are linear layers of patches.
 *
 * cuDNN takes 1.5 ms for the patches of ViT-B/32 (256 images of 224 pixels), 105 TFLOP/s of which most are zeros; as a product of
 * [patches][k k 3] numbers they take a tenth. A thread moves 8 pixels: 8 bytes of each, 48 together. */

enum { PATCH_THREADS = 256, PIXELS = 8, IN = GF_CUNN_IMAGE_CHANNELS, COLOURS = 3 };

static unsigned patch_blocks(int64_t count) { return (unsigned)((count + PATCH_THREADS - 1) / PATCH_THREADS); }

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
static __global__ void __launch_bounds__(PATCH_THREADS) gather_kernel(bf16 *to, const bf16 *x, patches p, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * PATCH_THREADS + threadIdx.x;
    if (i >= count) return;
    const int pieces = p.k / PIXELS, line = p.pw * pieces;
    const int piece = (int)(i % line), kx = piece % pieces * PIXELS, px = piece / pieces;
    const int64_t rest = i / line;
    const int y = (int)(rest % (p.ph * p.k)), ky = y % p.k, py = y / p.k;
    const int64_t image = rest / (p.ph * p.k);
    pack_pixels(to + ((((image * p.ph + py) * p.pw + px) * p.k + ky) * p.k + kx) * COLOURS,
                x + ((image * p.h + y) * p.w + px * p.k + kx) * IN);
}

static __global__ void __launch_bounds__(PATCH_THREADS) narrow_kernel(bf16 *to, const bf16 *from, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * PATCH_THREADS + threadIdx.x;
    if (i < count) pack_pixels(to + i * PIXELS * COLOURS, from + i * PIXELS * IN);
}

static __global__ void __launch_bounds__(PATCH_THREADS) widen_kernel(float *to, const float *from, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * PATCH_THREADS + threadIdx.x;
    if (i >= count) return;
    ((float4 *)to)[2 * i] = make_float4(from[3 * i], from[3 * i + 1], from[3 * i + 2], 0.0f);
    ((float4 *)to)[2 * i + 1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

void gf_cunn_patches(gf_nn_engine *s, const gf_nn_shape *shape, void *to, const void *x) {
    const int k = shape->kernel;
    const patches p = {(int)shape->h, (int)shape->w, k, (int)(shape->h / k), (int)(shape->w / k)};
    const int64_t count = shape->n * p.ph * k * p.pw * (k / PIXELS);
    gather_kernel<<<patch_blocks(count), PATCH_THREADS, 0, s->stream>>>((bf16 *)to, (const bf16 *)x, p, count);
    gf_cunn_note(s, cudaGetLastError(), "patches of images");
}

void gf_cunn_patch_weights(gf_nn_engine *s, void *to, const void *from, int64_t pixels) {
    narrow_kernel<<<patch_blocks(pixels / PIXELS), PATCH_THREADS, 0, s->stream>>>((bf16 *)to, (const bf16 *)from,
                                                                                  pixels / PIXELS);
    gf_cunn_note(s, cudaGetLastError(), "weights of patches");
}

void gf_cunn_patch_gradient(gf_nn_engine *s, float *to, const float *from, int64_t pixels) {
    widen_kernel<<<patch_blocks(pixels), PATCH_THREADS, 0, s->stream>>>(to, from, pixels);
    gf_cunn_note(s, cudaGetLastError(), "gradient of the weights of patches");
}
