/* cuda_feed.c - see cuda_feed.h. */
#include "loader/cuda/cuda_feed.h"

#include <stdlib.h>
#include <string.h>

#include "loader/cuda/cuda_augment.h"
#include "nn/cuda/cunn.h"

struct gf_cuda_feed {
    gf_cuda_feed_spec spec;
    cudaStream_t stream;             /* the feed's own */
    cudaEvent_t copied, made, taken; /* pictures and jobs have arrived; views are complete; views are in the network's input */
    uint8_t *kept;                   /* resident pictures; NULL: they come with each put */
    uint8_t *pictures;               /* of a batch */
    size_t capacity, kept_bytes;     /* bytes of each */
    gf_view_job *jobs, *staged;      /* [views] on the device; on the host, pinned */
    uint8_t *views;                  /* [views][3][size][pitch] */
    uint8_t *scratch;
    float *level; /* [3][256] */
};

/* ----- life -------------------------------------------------------------------------------------------------------- */

static glofnd_status open_streams(gf_error *err, gf_cuda_feed *f) {
    int lowest = 0, highest = 0;
    CUDA_TRY_AS(err, cudaDeviceGetStreamPriorityRange(&lowest, &highest), "augmentation");
    CUDA_TRY_AS(err, cudaStreamCreateWithPriority(&f->stream, cudaStreamNonBlocking, lowest), "augmentation");
    CUDA_TRY_AS(err, cudaEventCreateWithFlags(&f->copied, cudaEventDisableTiming | cudaEventBlockingSync), "augmentation");
    CUDA_TRY_AS(err, cudaEventCreateWithFlags(&f->made, cudaEventDisableTiming), "augmentation");
    CUDA_TRY_AS(err, cudaEventCreateWithFlags(&f->taken, cudaEventDisableTiming), "augmentation");
    return GLOFND_OK;
}

/* Copies to the device and waits for it: a plain cudaMemcpy may return before, and the streams here do not wait for it. */
static cudaError_t send(const gf_cuda_feed *f, void *to, const void *from, size_t bytes) {
    const cudaError_t e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, f->stream);
    return e == cudaSuccess ? cudaStreamSynchronize(f->stream) : e;
}

static glofnd_status take_memory(gf_error *err, gf_cuda_feed *f) {
    const size_t views = (size_t)f->spec.views, levels = 3 * 256 * sizeof *f->level;
    size_t scratch = 0;
    FAIL_IF(err, !gf_cuda_augment_scratch(f->spec.size, &scratch), GLOFND_E_UNSUPPORTED,
            "views of %d pixels cannot be made on this GPU", f->spec.size);
    CUDA_TRY_AS(err, cudaMalloc((void **)&f->jobs, views * sizeof *f->jobs), "augmentation");
    CUDA_TRY_AS(err, cudaMallocHost((void **)&f->staged, views * sizeof *f->staged), "augmentation");
    CUDA_TRY_AS(err, cudaMalloc((void **)&f->views, views * gf_cuda_view_bytes(f->spec.size)), "views of a batch");
    CUDA_TRY_AS(err, cudaMalloc((void **)&f->level, levels), "augmentation");
    if (scratch) CUDA_TRY_AS(err, cudaMalloc((void **)&f->scratch, scratch), "augmentation");
    CUDA_TRY_AS(err, send(f, f->level, f->spec.level, levels), "augmentation");
    f->spec.level = NULL; /* the caller's */
    return GLOFND_OK;
}

glofnd_status gf_cuda_feed_create(gf_error *err, const gf_cuda_feed_spec *spec, gf_cuda_feed **out) {
    gf_cuda_feed *f = calloc(1, sizeof *f);
    *out = NULL;
    FAIL_IF(err, !f, GLOFND_E_MEMORY, "out of memory");
    f->spec = *spec;
    glofnd_status status = open_streams(err, f);
    if (status == GLOFND_OK) status = take_memory(err, f);
    if (status == GLOFND_OK) *out = f;
    else gf_cuda_feed_free(f);
    return status;
}

void gf_cuda_feed_wait(gf_cuda_feed *f) {
    if (f && f->stream) cudaStreamSynchronize(f->stream);
    if (f && f->taken) cudaEventSynchronize(f->taken);
}

void gf_cuda_feed_free(gf_cuda_feed *f) {
    if (!f) return;
    gf_cuda_feed_wait(f);
    void *const there[] = {f->kept, f->pictures, f->jobs, f->views, f->scratch, f->level};
    const cudaEvent_t events[] = {f->copied, f->made, f->taken};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) cudaFree(there[i]);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i]) cudaEventDestroy(events[i]);
    cudaFreeHost(f->staged);
    if (f->stream) cudaStreamDestroy(f->stream);
    free(f);
}

glofnd_status gf_cuda_feed_keep(gf_error *err, gf_cuda_feed *f, const uint8_t *pixels, size_t bytes) {
    uint8_t *kept = NULL;
    CUDA_TRY_AS(err, cudaMalloc((void **)&kept, bytes), "all images of the dataset");
    const cudaError_t e = send(f, kept, pixels, bytes);
    if (e != cudaSuccess) cudaFree(kept);
    CUDA_TRY_AS(err, e, "copying the dataset");
    cudaFree(f->kept);
    f->kept = kept;
    f->kept_bytes = bytes;
    return GLOFND_OK;
}

size_t gf_cuda_feed_held(const gf_cuda_feed *f) {
    if (!f) return 0;
    const size_t views = (size_t)f->spec.views;
    size_t scratch = 0;
    gf_cuda_augment_scratch(f->spec.size, &scratch);
    return f->kept_bytes + f->capacity + scratch + views * (sizeof *f->jobs + gf_cuda_view_bytes(f->spec.size));
}

/* ----- a batch ----------------------------------------------------------------------------------------------------- */

typedef struct summary { /* of jobs */
    int widest, tallest, blurred;
    size_t end; /* byte after the last one that jobs read */
} summary;

static size_t end_of(const gf_view_job *j) {
    return (size_t)(j->at + (int64_t)(j->height - 1) * j->stride + 3 * (int64_t)j->width);
}

/* Memory for the pictures of a batch; grows by half more than needed. */
static glofnd_status make_room(gf_error *err, gf_cuda_feed *f, size_t bytes) {
    if (bytes <= f->capacity) return GLOFND_OK;
    cudaStreamSynchronize(f->stream);
    cudaFree(f->pictures);
    f->pictures = NULL;
    f->capacity = 0;
    CUDA_TRY_AS(err, cudaMalloc((void **)&f->pictures, bytes + bytes / 2), "images of a batch");
    f->capacity = bytes + bytes / 2;
    return GLOFND_OK;
}

static glofnd_status copy_pictures(gf_error *err, gf_cuda_feed *f, const gf_pixels *runs, int count) {
    size_t end = 0;
    for (int i = 0; i < count; i++)
        if (runs[i].used) end = runs[i].first + runs[i].used;
    TRY(make_room(err, f, end));
    for (int i = 0; i < count; i++) {
        const gf_pixels *r = &runs[i];
        if (r->used)
            CUDA_TRY_AS(err, cudaMemcpyAsync(f->pictures + r->first, r->bytes, r->used, cudaMemcpyHostToDevice, f->stream),
                        "copying images");
    }
    return GLOFND_OK;
}

/* pictures: on the device, so many bytes. */
static glofnd_status make_views(gf_error *err, gf_cuda_feed *f, const summary *s, const uint8_t *pictures, size_t there) {
    const size_t bytes = (size_t)f->spec.views * sizeof *f->jobs;
    FAIL_IF(err, s->end > there, GLOFND_E_ARGUMENT, "a view of pixels that are not on the device");
    CUDA_TRY_AS(err, cudaMemcpyAsync(f->jobs, f->staged, bytes, cudaMemcpyHostToDevice, f->stream), "copying images");
    CUDA_TRY_AS(err, cudaEventRecord(f->copied, f->stream), "augmentation");
    CUDA_TRY_AS(err, cudaStreamWaitEvent(f->stream, f->taken, 0), "augmentation");
    const gf_cuda_augment a = {
        .jobs = f->jobs,
        .pictures = pictures,
        .out = f->views,
        .scratch = f->scratch,
        .views = (int)f->spec.views,
        .size = f->spec.size,
        .widest = s->widest,
        .tallest = s->tallest,
        .blurred = s->blurred,
    };
    CUDA_TRY_AS(err, gf_cuda_augment_run(&a, f->stream), "augmentation");
    CUDA_TRY_AS(err, cudaEventRecord(f->made, f->stream), "augmentation");
    return GLOFND_OK;
}

/* Checks jobs, and keeps them for the copy. */
static glofnd_status stage(gf_error *err, gf_cuda_feed *f, const gf_view_job *jobs, summary *s) {
    *s = (summary){0};
    const int max = GF_VIEW_SCALE * f->spec.size;
    for (int64_t v = 0; v < f->spec.views; v++) {
        const gf_view_job *j = &jobs[v];
        const int fits = j->at >= 0 && j->width >= 1 && j->height >= 1 && j->width <= max && j->height <= max && j->stride >= 3;
        FAIL_IF(err, !fits, GLOFND_E_ARGUMENT, "a box of %d x %d pixels cannot be resized to %d on the device", (int)j->width,
                (int)j->height, f->spec.size);
        if (j->width > s->widest) s->widest = j->width;
        if (j->height > s->tallest) s->tallest = j->height;
        if (end_of(j) > s->end) s->end = end_of(j);
        s->blurred |= j->radius >= 0;
    }
    TRY(gf_cuda_feed_wait_copied(err, f));
    memcpy(f->staged, jobs, (size_t)f->spec.views * sizeof *jobs);
    return GLOFND_OK;
}

glofnd_status gf_cuda_feed_put(gf_error *err, gf_cuda_feed *f, const gf_view_job *jobs, const gf_pixels *runs, int count) {
    summary s;
    TRY(stage(err, f, jobs, &s));
    if (count > 0) TRY(copy_pictures(err, f, runs, count));
    return make_views(err, f, &s, count > 0 ? f->pictures : f->kept, count > 0 ? f->capacity : f->kept_bytes);
}

glofnd_status gf_cuda_feed_wait_copied(gf_error *err, gf_cuda_feed *f) {
    CUDA_TRY_AS(err, cudaEventSynchronize(f->copied), "copying images");
    return GLOFND_OK;
}

glofnd_status gf_cuda_feed_take(gf_error *err, gf_cuda_feed *f, void *input) {
    const cudaStream_t stream = f->spec.stream;
    CUDA_TRY_AS(err, cudaStreamWaitEvent(stream, f->made, 0), "augmentation");
    const gf_cuda_feed_spec *s = &f->spec;
    CUDA_TRY_AS(err, gf_cuda_normalise(input, s->type, s->channels, f->views, s->views, s->size, f->level, stream),
                "normalising");
    CUDA_TRY_AS(err, cudaEventRecord(f->taken, stream), "augmentation");
    return GLOFND_OK;
}

glofnd_status gf_cuda_feed_bytes(gf_error *err, gf_cuda_feed *f, uint8_t *rgb) {
    const int side = f->spec.size;
    const size_t size = (size_t)side, pitch = (size_t)gf_cuda_view_pitch(side), view = gf_cuda_view_bytes(side);
    uint8_t *planes = malloc((size_t)f->spec.views * view);
    FAIL_IF(err, !planes, GLOFND_E_MEMORY, "out of memory");
    cudaError_t e = cudaStreamSynchronize(f->stream);
    if (e == cudaSuccess) e = cudaMemcpy(planes, f->views, (size_t)f->spec.views * view, cudaMemcpyDeviceToHost);
    for (size_t row = 0; e == cudaSuccess && row < (size_t)f->spec.views * size; row++) {
        const uint8_t *from = planes + row / size * view + row % size * pitch;
        for (size_t i = 0; i < 3 * size; i++) rgb[row * 3 * size + i] = from[i % 3 * size * pitch + i / 3];
    }
    free(planes);
    CUDA_TRY_AS(err, e, "views");
    return GLOFND_OK;
}

/* ----- pinned memory ----------------------------------------------------------------------------------------------- */

void *gf_cuda_pinned_alloc(size_t bytes) {
    void *memory = NULL;
    if (cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) == cudaSuccess) return memory;
    cudaGetLastError();
    return NULL;
}

void gf_cuda_pinned_free(void *memory) { cudaFreeHost(memory); }
