/* augment_blur.cuh - PIL's Gaussian blur of one plane by one thread block: three box blurs along rows, three along columns, each
 * rounded to 8 bits, as in train/image/blur.c. Each thread slides the box over a run of pixels.
 */
#pragma once

#include "loader/cuda/augment_resize.cuh"

enum { RUN = 8 };

/* Pixels begin .. of a line of n pixels, `step` bytes apart. */
static __device__ __forceinline__ void blur_run(uint8_t *out, const uint8_t *in, int step, int n, int begin,
                                                const gf_view_job &j) {
    const int r = j.radius, last = n - 1, end = min(begin + RUN, n);
    uint32_t sum = 0;
    for (int i = begin - r; i <= begin + r; i++) sum += in[min(max(i, 0), last) * step];
    uint32_t low = in[max(begin - r - 1, 0) * step], high = in[min(begin + r + 1, last) * step];
    for (int i = begin; i < end; i++) {
        out[i * step] = (uint8_t)((sum * j.inner + (low + high) * j.outer + (1u << 23)) >> 24);
        low = in[min(max(i - r, 0), last) * step];
        sum += high - low;
        high = in[min(i + r + 2, last) * step];
    }
}

static __device__ __forceinline__ void blur_rows(uint8_t *out, const uint8_t *in, int size, int pitch, const gf_view_job &j) {
    const int runs = (size + RUN - 1) / RUN;
    const gf_lanes2 at = lanes_of(runs);
    for (int y = at.y; y < size; y += at.rows) blur_run(out + y * pitch, in + y * pitch, 1, size, at.x * RUN, j);
    __syncthreads();
}

static __device__ __forceinline__ void blur_columns(uint8_t *out, const uint8_t *in, int size, int pitch, const gf_view_job &j) {
    const int runs = (size + RUN - 1) / RUN;
    const gf_lanes2 at = lanes_of(size);
    for (int y = at.y; y < runs; y += at.rows) blur_run(out + at.x, in + at.x, pitch, size, y * RUN, j);
    __syncthreads();
}

/* plane and other [size][pitch]; the result is in plane. */
static __device__ __forceinline__ void blur_plane(uint8_t *plane, uint8_t *other, int size, int pitch, const gf_view_job &j) {
    blur_rows(other, plane, size, pitch, j);
    blur_rows(plane, other, size, pitch, j);
    blur_rows(other, plane, size, pitch, j);
    blur_columns(plane, other, size, pitch, j);
    blur_columns(other, plane, size, pitch, j);
    blur_columns(plane, other, size, pitch, j);
}
