/* cunn_copy.cu - copies: casts, sums of two gradients, images into the network, weights into their working copies. Grid-stride
 * loops over numbers; 16 bytes at a time where that is faster. */
#include "nn/cuda/cunn.h"
#include "nn/cuda/cunn_lanes.cuh"

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
