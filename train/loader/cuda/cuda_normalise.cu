/* cuda_normalise.cu - 8-bit views to a network's input: a table look-up per channel, one pixel per thread and round. */
#include <cuda_bf16.h>

#include "loader/cuda/cuda_augment.h"

enum { THREADS = 256, PER_THREAD = 4 };

template <typename T> static __device__ __forceinline__ T number(float x) { return (T)x; }

/* A pixel with five zeros behind it is one or two words of 16 bytes. */
template <typename T> struct pixel8 { alignas(16) T value[8]; };

template <typename T, int channels>
static __global__ void normalise_kernel(T *out, const uint8_t *views, int size, int pitch, const float *level) {
    __shared__ T table[3][256];
    for (int i = (int)threadIdx.x; i < 3 * 256; i += THREADS) table[i / 256][i % 256] = number<T>(level[i]);
    __syncthreads();
    const int pixels = size * size, plane = size * pitch;
    const uint8_t *view = views + (int64_t)blockIdx.x * 3 * plane;
    T *to = out + (int64_t)blockIdx.x * pixels * channels;
    for (int k = 0; k < PER_THREAD; k++) {
        const int i = ((int)blockIdx.y * PER_THREAD + k) * THREADS + (int)threadIdx.x;
        if (i >= pixels) return;
        const int at = size == pitch ? i : i / size * pitch + i % size;
        const T red = table[0][view[at]], green = table[1][view[at + plane]], blue = table[2][view[at + 2 * plane]];
        if (channels == 8) {
            pixel8<T> p;
            p.value[0] = red, p.value[1] = green, p.value[2] = blue;
            for (int c = 3; c < 8; c++) p.value[c] = number<T>(0.0f);
            for (int w = 0; w < (int)(sizeof p / 16); w++) ((uint4 *)(to + (int64_t)i * 8))[w] = ((const uint4 *)&p)[w];
        } else {
            to[i * channels] = red, to[i * channels + 1] = green, to[i * channels + 2] = blue;
        }
    }
}

template <typename T>
static cudaError_t launch(T *out, int channels, const uint8_t *views, int64_t count, int size, const float *level,
                          cudaStream_t stream) {
    const int pitch = gf_cuda_view_pitch(size), each = THREADS * PER_THREAD;
    const dim3 grid((unsigned)count, (unsigned)((size * size + each - 1) / each));
    if (channels == 8) normalise_kernel<T, 8><<<grid, THREADS, 0, stream>>>(out, views, size, pitch, level);
    else normalise_kernel<T, 3><<<grid, THREADS, 0, stream>>>(out, views, size, pitch, level);
    return cudaGetLastError();
}

cudaError_t gf_cuda_normalise(void *out, gf_type type, int channels, const uint8_t *views, int64_t count, int size,
                              const float *level, cudaStream_t stream) {
    if (channels != 3 && channels != 8) return cudaErrorInvalidValue;
    if (type == GF_TYPE_BF16) return launch((__nv_bfloat16 *)out, channels, views, count, size, level, stream);
    return launch((float *)out, channels, views, count, size, level, stream);
}
