/* cuda_augment.cu - see cuda_augment.h. The view is in shared memory where it fits, up to a little more than 224 pixels, else in
 * scratch memory. Beside it lie first the weights of the resize and some rows that are resized in one direction only, then the
 * second plane of the blur.
 */
#include "loader/cuda/augment_blur.cuh"
#include "loader/cuda/augment_resize.cuh"
#include "loader/cuda/cuda_augment.h"
#include "cuda/cuda_device.h"
#include "util/array.h"

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
