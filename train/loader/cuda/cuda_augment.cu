/* cuda_augment.cu - see cuda_augment.h. The view is in shared memory where it fits, up to a little more than 224 pixels, else in
 * scratch memory. Beside it lie first the weights of the resize and some rows that are resized in one direction only, then the
 * second plane of the blur.
 */
#include <cuda_bf16.h>

#include "cuda/cuda_device.h"
#include "loader/cuda/cuda_augment.h"
#include "util/array.h"

/* ===== colours =====
 *
 * colours of one pixel with PIL's numbers, as in train/image/effects.c. Single levels depend on the roundings to
 * float, so no product may be fused with a sum.
 */

typedef struct gf_pixel {
    int red, green, blue;
} gf_pixel;

static __device__ __forceinline__ int luma(gf_pixel p) {
    return (p.red * 19595 + p.green * 38470 + p.blue * 7471 + 0x8000) >> 16;
}

/* base + factor * (value - base), truncated to integers in 0 .. 255. */
static __device__ __forceinline__ int blend(int base, int value, float factor) {
    const float mixed = __fadd_rn((float)base, __fmul_rn(factor, (float)(value - base)));
    return (int)fminf(fmaxf(mixed, 0.0f), 255.0f);
}

static __device__ __forceinline__ gf_pixel blend_all(int base, gf_pixel p, float factor) {
    return {blend(base, p.red, factor), blend(base, p.green, factor), blend(base, p.blue, factor)};
}

/* PIL's 8-bit hue, as hue_of in train/image/effects.c. */
static __device__ __forceinline__ int hue_of(gf_pixel p, int top, int range) {
    const bool is_red = p.red == top, is_green = !is_red && p.green == top;
    const int ahead = top - (is_red ? p.blue : is_green ? p.red : p.green);
    const int behind = top - (is_red ? p.green : is_green ? p.blue : p.red);
    const int sixths = is_red ? 0 : is_green ? 2 : 4, sign = ahead == range ? -1 : 1;
    const int whole = range == 0 ? sixths : sixths - sign, other = min(ahead, behind);
    const float turn = __fadd_rn((float)whole, __fdiv_rn((float)(sign * other), (float)max(range, 1)));
    const float below_zero = is_red && ahead < behind ? 1.0f : 0.0f;
    return (int)__fmul_rn(__fadd_rn(__fdiv_rn(turn, 6.0f), below_zero), 255.0f);
}

/* value * (1 - part), rounded; part lies in 0 .. 1. */
static __device__ __forceinline__ int dim(int value, float part) {
    return (int)__fadd_rn(__fmul_rn((float)value, __fsub_rn(1.0f, part)), 0.5f);
}

/* From HSV: the sector of six decides which channel is the value, which the lowest level, and which lies between. */
static __device__ __forceinline__ gf_pixel from_hsv(int hue, int saturation, int value) {
    const int sector = hue * 1543 >> 16; /* hue * 6 / 255 */
    const float strength = __fdiv_rn((float)saturation, 255.0f), part = __fdiv_rn((float)(hue * 6 - sector * 255), 255.0f);
    const bool falls = sector & 1; /* the level between falls in odd sectors, rises in even ones */
    const int low = dim(value, strength), between = dim(value, __fmul_rn(strength, falls ? part : __fsub_rn(1.0f, part)));
    switch (sector) {
    case 1: return {between, value, low};
    case 2: return {low, value, between};
    case 3: return {low, between, value};
    case 4: return {between, low, value};
    case 5: return {value, low, between};
    default: return {value, between, low}; /* 0, and 6 which is 0 again */
    }
}

static __device__ __forceinline__ gf_pixel shift_hue(gf_pixel p, int shift) {
    const int top = max(p.red, max(p.green, p.blue)), range = top - min(p.red, min(p.green, p.blue));
    const int saturation = (int)__fmul_rn(__fdiv_rn((float)range, (float)max(top, 1)), 255.0f);
    return from_hsv((hue_of(p, top, range) + shift) & 255, saturation, top);
}

static __device__ __forceinline__ gf_pixel to_gray(gf_pixel p) {
    const int level = luma(p);
    return {level, level, level};
}

/* Operation i of the order. By shifts, so that the job stays in registers. */
static __device__ __forceinline__ int operation(const gf_view_job &j, int i) {
    uint32_t order;
    memcpy(&order, j.order, sizeof order);
    return (int8_t)(order >> (8 * i));
}

/* Operations from .. to of the job's order on n pixels; mean: the level that contrast blends with. */
template <int n>
static __device__ __forceinline__ void change_colours(const gf_view_job &j, int from, int to, int mean, gf_pixel *p) {
    for (int i = from; i < to; i++) { /* the same for all threads of a block */
        switch (operation(j, i)) {
        case GF_COLOUR_BRIGHTNESS:
            for (int k = 0; k < n; k++) p[k] = blend_all(0, p[k], j.factor[0]);
            break;
        case GF_COLOUR_CONTRAST:
            for (int k = 0; k < n; k++) p[k] = blend_all(mean, p[k], j.factor[1]);
            break;
        case GF_COLOUR_SATURATION:
            for (int k = 0; k < n; k++) p[k] = blend_all(luma(p[k]), p[k], j.factor[2]);
            break;
        case GF_COLOUR_HUE:
            for (int k = 0; k < n; k++) p[k] = shift_hue(p[k], j.shift);
            break;
        default: break;
        }
    }
}

/* ===== resize =====
 *
 * PIL's antialiased resize by one thread block, with the numbers of train/image/resample.c: weights in double,
 * rounded to 22 bits; rows of the source first, rounded to 8 bits, then columns.
 */

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

/* ===== blur =====
 *
 * PIL's Gaussian blur of one plane by one thread block: three box blurs along rows, three along columns, each
 * rounded to 8 bits, as in train/image/effects.c. Each thread slides the box over a run of pixels.
 */

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

/* ===== a whole view ===== */

enum { SMALL = 64, SMALL_THREADS = 256, THREADS = 1024, ROWS_MAX = 96, ALIGN = 16 };

typedef struct plan { /* of a launch */
    int threads, blocks;
    int taps; /* weights kept per output pixel */
    int rows; /* of the middle */
    int pitch;
    size_t picture;       /* bytes */
    size_t aside, shared; /* bytes beside the picture in shared memory; all bytes there */
} plan;

static __host__ __device__ size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* Bytes of spans and weights of one axis. */
static __host__ __device__ size_t axis_bytes(int size, int taps) { return aligned((size_t)size * (size_t)(8 + 4 * taps)); }

/* ----- the kernel -------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ void load_pixels(gf_pixel p[4], const uint32_t *word, int plane) {
    const uint32_t red = word[0], green = word[plane], blue = word[2 * plane];
    for (int i = 0; i < 4; i++) p[i] = {(int)(red >> (8 * i)) & 255, (int)(green >> (8 * i)) & 255, (int)(blue >> (8 * i)) & 255};
}

static __device__ __forceinline__ void store_pixels(uint32_t *word, int plane, const gf_pixel p[4]) {
    uint32_t red = 0, green = 0, blue = 0;
    for (int i = 0; i < 4; i++) {
        red |= (uint32_t)p[i].red << (8 * i);
        green |= (uint32_t)p[i].green << (8 * i);
        blue |= (uint32_t)p[i].blue << (8 * i);
    }
    word[0] = red;
    word[plane] = green;
    word[2 * plane] = blue;
}

typedef struct studio { /* memory of a block */
    uint8_t *picture;   /* [3][size][pitch] */
    uint8_t *plane;     /* [size][pitch] */
    uint8_t *middle;    /* [rows][3][pitch] */
    gf_axis x, y;
    int size, pitch, rows;
} studio;

/* Output rows y .. end, and their colours as far as contrast, which needs the sum of all gray levels first: the thread's part. */
static __device__ __forceinline__ int finish_rows(const studio &s, const gf_view_job &j, int begin, int end, int first, int cut) {
    const int words = s.pitch / 4, plane = s.size * words;
    const gf_lanes2 at = lanes_of(words);
    int sum = 0;
    for (int y = begin + at.y; y < end; y += at.rows) {
        gf_pixel p[4];
        const int2 span = s.y.span[y];
        resize_column(p, (const uint32_t *)s.middle + (span.x - first) * 3 * words + at.x, words, s.y, s.size, y, span.y);
        change_colours<4>(j, 0, cut, 0, p);
        if (cut < 4) {
            for (int i = 0; i < 4; i++) sum += 4 * at.x + i < s.size ? luma(p[i]) : 0;
        } else if (j.gray) {
            for (int i = 0; i < 4; i++) p[i] = to_gray(p[i]);
        }
        store_pixels((uint32_t *)s.picture + y * words + at.x, plane, p);
    }
    return sum;
}

static __device__ __forceinline__ int resize(const studio &s, const gf_view_job &j, const uint8_t *source, int cut) {
    const int band = band_of(j, s.size, s.rows);
    int sum = 0;
    for (int y = 0; y < s.size; y += band) {
        const int end = min(y + band, s.size), first = s.y.span[y].x;
        const int2 last = s.y.span[end - 1];
        resize_rows(s.middle, s.pitch, source, j, s.x, s.size, first, last.x + last.y);
        __syncthreads();
        sum += finish_rows(s, j, y, end, first, cut);
        __syncthreads();
    }
    return sum;
}

/* Contrast and the operations after it. */
static __device__ __forceinline__ void finish_colours(const studio &s, const gf_view_job &j, int cut, int sum) {
    const int words = s.size * s.pitch / 4, mean = (int)__dadd_rn((double)sum / (double)(s.size * s.size), 0.5);
    uint32_t *word = (uint32_t *)s.picture;
    for (int i = (int)threadIdx.x; i < words; i += (int)blockDim.x) {
        gf_pixel p[4];
        load_pixels(p, word + i, words);
        change_colours<4>(j, cut, 4, mean, p);
        if (j.gray) {
            for (int k = 0; k < 4; k++) p[k] = to_gray(p[k]);
        }
        store_pixels(word + i, words, p);
    }
    __syncthreads();
}

static __device__ __forceinline__ void make_view(const studio &s, const gf_view_job &j, const uint8_t *source, uint8_t *out) {
    __shared__ int total;
    int cut = 0;
    while (cut < 4 && operation(j, cut) != GF_COLOUR_CONTRAST) cut++;
    if (threadIdx.x == 0) total = 0;
    make_axes(s.x, s.y, j, s.size);
    __syncthreads();
    const int sum = resize(s, j, source, cut);
    if (cut < 4) {
        const int part = __reduce_add_sync(0xffffffffu, sum);
        if (threadIdx.x % 32 == 0) atomicAdd(&total, part);
        __syncthreads();
        finish_colours(s, j, cut, total);
    }
    const int plane = s.size * s.pitch;
    for (int c = 0; j.radius >= 0 && c < 3; c++) blur_plane(s.picture + c * plane, s.plane, s.size, s.pitch, j);
    const uint32_t *from = (const uint32_t *)s.picture;
    for (int i = (int)threadIdx.x; i < 3 * plane / 4; i += (int)blockDim.x) ((uint32_t *)out)[i] = from[i];
    __syncthreads();
}

template <bool in_shared> static __global__ void __launch_bounds__(THREADS, 1) augment_kernel(gf_cuda_augment a, plan p) {
    extern __shared__ __align__(16) uint8_t shared[];
    const size_t axis = axis_bytes(a.size, p.taps);
    uint8_t *scratch = a.scratch + blockIdx.x * (p.picture / 3 * 4);
    studio s;
    s.picture = in_shared ? shared + p.aside : scratch;
    s.plane = in_shared ? shared : scratch + p.picture;
    s.middle = shared + 2 * axis;
    s.x = {(int2 *)shared, (int *)(shared + 8 * a.size)};
    s.y = {(int2 *)(shared + axis), (int *)(shared + axis + 8 * a.size)};
    s.size = a.size;
    s.pitch = p.pitch;
    s.rows = p.rows;
    for (int v = (int)blockIdx.x; v < a.views; v += (int)gridDim.x) {
        const gf_view_job j = a.jobs[v];
        make_view(s, j, a.pictures + j.at, a.out + v * p.picture);
    }
}

/* ----- launching --------------------------------------------------------------------------------------------------- */

static int attribute(cudaDeviceAttr which) {
    int device = 0, value = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) return 0;
    return value;
}

static int taps_of(int in, int size) { return 2 * ((in + size - 1) / size) + 1; }

/* Rows of the middle that fit in so many bytes and are of use; 0: too few. */
static int middle_rows(int size, size_t bytes, int taps, int tallest) {
    const int fit = (int)(bytes / (3 * (size_t)gf_cuda_view_pitch(size)));
    return fit < taps + 2 ? 0 : GF_MIN(fit, GF_MAX(GF_MIN(tallest, ROWS_MAX), taps + 2));
}

/* rows = 0: it does not fit. */
static plan plan_of(const gf_cuda_augment *a, int in_shared, size_t limit) {
    plan p = {};
    p.pitch = gf_cuda_view_pitch(a->size);
    p.picture = gf_cuda_view_bytes(a->size);
    const size_t picture = in_shared ? aligned(p.picture) : 0;
    const size_t plane = in_shared && a->blurred ? aligned(p.picture / 3) : 0;
    p.taps = GF_MAX(taps_of(a->widest, a->size), taps_of(a->tallest, a->size));
    const size_t axes = 2 * axis_bytes(a->size, p.taps);
    if (picture + axes > limit || picture + plane > limit) return p;
    p.rows = middle_rows(a->size, limit - picture - axes, p.taps, a->tallest);
    p.aside = aligned(axes + (size_t)p.rows * 3 * (size_t)p.pitch);
    if (p.aside < plane) p.aside = plane;
    p.shared = p.aside + picture;
    p.threads = a->size <= SMALL ? SMALL_THREADS : THREADS;
    return p;
}

static size_t shared_limit(void) {
    const int bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) - 64; /* static shared memory of the kernel */
    return bytes > 0 ? (size_t)bytes & ~(size_t)(ALIGN - 1) : 0;
}

static int scratch_blocks(void) { return GF_MAX(attribute(cudaDevAttrMultiProcessorCount), 1); }

int gf_cuda_augment_scratch(int size, size_t *bytes) {
    gf_cuda_augment worst = {};
    worst.size = size;
    worst.widest = worst.tallest = GF_VIEW_SCALE * size;
    worst.blurred = 1;
    const size_t limit = shared_limit();
    if (size < 1 || size > GF_CUDA_VIEW_MAX || plan_of(&worst, 0, limit).rows == 0) return 0;
    *bytes = plan_of(&worst, 1, limit).rows > 0 ? 0 : (size_t)scratch_blocks() * gf_cuda_view_bytes(size) / 3 * 4;
    return 1;
}

template <bool in_shared> static cudaError_t launch(const gf_cuda_augment *a, const plan *p, cudaStream_t stream) {
    const cudaError_t e = gf_cuda_allow_shared((const void *)augment_kernel<in_shared>);
    if (e != cudaSuccess) return e;
    augment_kernel<in_shared><<<p->blocks, p->threads, p->shared, stream>>>(*a, *p);
    return cudaGetLastError();
}

cudaError_t gf_cuda_augment_run(const gf_cuda_augment *a, cudaStream_t stream) {
    const size_t limit = shared_limit();
    plan p = plan_of(a, 1, limit);
    if (p.rows > 0) {
        p.blocks = a->views;
        return launch<true>(a, &p, stream);
    }
    p = plan_of(a, 0, limit);
    p.blocks = GF_MIN(a->views, scratch_blocks());
    return p.rows > 0 ? launch<false>(a, &p, stream) : cudaErrorInvalidValue;
}

/* ===== normalising =====
 *
 * 8-bit views to a network's input: a table look-up per channel, one pixel per thread and round.
 */

enum { NORMALISE_THREADS = 256, NORMALISE_PIXELS = 4 };

template <typename T> static __device__ __forceinline__ T number(float x) { return (T)x; }

/* A pixel with five zeros behind it is one or two words of 16 bytes. */
template <typename T> struct pixel8 { alignas(16) T value[8]; };

template <typename T, int channels>
static __global__ void normalise_kernel(T *out, const uint8_t *views, int size, int pitch, const float *level) {
    __shared__ T table[3][256];
    for (int i = (int)threadIdx.x; i < 3 * 256; i += NORMALISE_THREADS) table[i / 256][i % 256] = number<T>(level[i]);
    __syncthreads();
    const int pixels = size * size, plane = size * pitch;
    const uint8_t *view = views + (int64_t)blockIdx.x * 3 * plane;
    T *to = out + (int64_t)blockIdx.x * pixels * channels;
    for (int k = 0; k < NORMALISE_PIXELS; k++) {
        const int i = ((int)blockIdx.y * NORMALISE_PIXELS + k) * NORMALISE_THREADS + (int)threadIdx.x;
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
    const int pitch = gf_cuda_view_pitch(size), each = NORMALISE_THREADS * NORMALISE_PIXELS;
    const dim3 grid((unsigned)count, (unsigned)((size * size + each - 1) / each));
    if (channels == 8) normalise_kernel<T, 8><<<grid, NORMALISE_THREADS, 0, stream>>>(out, views, size, pitch, level);
    else normalise_kernel<T, 3><<<grid, NORMALISE_THREADS, 0, stream>>>(out, views, size, pitch, level);
    return cudaGetLastError();
}

cudaError_t gf_cuda_normalise(void *out, gf_type type, int channels, const uint8_t *views, int64_t count, int size,
                              const float *level, cudaStream_t stream) {
    if (channels != 3 && channels != 8) return cudaErrorInvalidValue;
    if (type == GF_TYPE_BF16) return launch((__nv_bfloat16 *)out, channels, views, count, size, level, stream);
    return launch((float *)out, channels, views, count, size, level, stream);
}
