/* augment_resize.cuh - PIL's antialiased resize by one thread block, with the numbers of train/image/resample.c: weights in double,
 * rounded to 22 bits; rows of the source first, rounded to 8 bits, then columns.
 */
#pragma once

#include "loader/cuda/augment_colour.cuh"

enum { PRECISION = 22, HALF = 1 << (PRECISION - 1) };

typedef struct gf_axis { /* in shared memory */
    int2 *span;          /* [size] first source pixel and count */
    int *weight;         /* [taps][size] */
} gf_axis;

typedef struct gf_lanes2 { /* the threads of a block as rows of `width` */
    int x, y, rows;        /* x < width; threads left over have y = rows at least */
} gf_lanes2;

static __device__ __forceinline__ gf_lanes2 lanes_of(int width) {
    const int rows = (int)blockDim.x / width, y = (int)threadIdx.x / width;
    return {(int)threadIdx.x - y * width, y < rows ? y : 1 << 30, rows};
}

static __device__ __forceinline__ double triangle(int pixel, double center, double shrink) {
    const double distance = fabs(__dmul_rn(__dadd_rn(__dsub_rn((double)pixel, center), 0.5), shrink));
    return distance < 1 ? __dsub_rn(1, distance) : 0;
}

/* Output pixel `at` of `full` from `in` source pixels. */
static __device__ void weigh(gf_axis a, int in, int full, int at) {
    const double scale = (double)in / full, support = scale < 1 ? 1 : scale, shrink = 1 / support;
    const double center = __dmul_rn(at + 0.5, scale);
    const int first = max((int)__dadd_rn(__dsub_rn(center, support), 0.5), 0);
    const int end = min((int)__dadd_rn(__dadd_rn(center, support), 0.5), in);
    double sum = 0;
    for (int i = first; i < end; i++) sum = __dadd_rn(sum, triangle(i, center, shrink));
    for (int i = first; i < end; i++) {
        const double exact = triangle(i, center, shrink), share = sum != 0 ? exact / sum : exact;
        a.weight[(i - first) * full + at] = (int)__dadd_rn(0.5, __dmul_rn(share, 1 << PRECISION));
    }
    a.span[at] = make_int2(first, end - first);
}

static __device__ __forceinline__ void make_axes(gf_axis x, gf_axis y, const gf_view_job &j, int size) {
    for (int i = (int)threadIdx.x; i < 2 * size; i += (int)blockDim.x) {
        if (i < size) weigh(x, j.width, size, i);
        else weigh(y, j.height, size, i - size);
    }
}

/* Number of output rows, from any one on, that need at most `rows` source rows. */
static __device__ __forceinline__ int band_of(const gf_view_job &j, int size, int rows) {
    const float scale = (float)j.height / (float)size, support = fmaxf(scale, 1.0f);
    const int more = (int)(((float)rows - 2.0f * support - 1.01f) / scale * 0.9999f);
    return max(more, 0) + 1;
}

/* Source rows first .. end to middle [end - first][3][pitch]. */
static __device__ __forceinline__ void resize_rows(uint8_t *middle, int pitch, const uint8_t *__restrict__ source,
                                                   const gf_view_job &j, gf_axis x, int size, int first, int end) {
    const gf_lanes2 at = lanes_of(size);
    const int column = j.flip ? size - 1 - at.x : at.x;
    const int2 span = x.span[column];
    for (int row = first + at.y; row < end; row += at.rows) {
        const uint8_t *p = source + (int64_t)row * j.stride + 3 * span.x;
        const int *weight = x.weight + column;
        int red = HALF, green = HALF, blue = HALF;
        for (int k = 0; k < span.y; k++, p += 3, weight += size) {
            red += p[0] * *weight;
            green += p[1] * *weight;
            blue += p[2] * *weight;
        }
        uint8_t *to = middle + (row - first) * 3 * pitch + at.x;
        to[0] = (uint8_t)(red >> PRECISION);
        to[pitch] = (uint8_t)(green >> PRECISION);
        to[2 * pitch] = (uint8_t)(blue >> PRECISION);
    }
}

/* Four pixels of output row y; middle points to their first word in the first source row of the row's span, words: per plane. */
static __device__ __forceinline__ void resize_column(gf_pixel p[4], const uint32_t *middle, int words, gf_axis a, int size, int y,
                                                     int count) {
    int sum[3][4];
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 4; i++) sum[c][i] = HALF;
    for (int k = 0; k < count; k++) {
        const int weight = a.weight[k * size + y];
        for (int c = 0; c < 3; c++, middle += words) {
            const uint32_t word = *middle;
            for (int i = 0; i < 4; i++) sum[c][i] += (int)((word >> (8 * i)) & 255) * weight;
        }
    }
    for (int i = 0; i < 4; i++) p[i] = {sum[0][i] >> PRECISION, sum[1][i] >> PRECISION, sum[2][i] >> PRECISION};
}
