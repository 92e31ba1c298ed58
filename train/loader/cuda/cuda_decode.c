/* cuda_decode.c - see cuda_feed.h. */
#include "loader/cuda/cuda_feed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/cuda/nvjpeg_lib.h"
#include "nn/cuda/cunn.h"

enum { PROBE_LEVELS = 4 }; /* mean difference of a probe's levels: an order above that of sound decoders */

typedef struct slot {
    cudaStream_t stream;
    cudaEvent_t done, reading; /* work of a slot is done; the feed has read it */
    uint8_t *memory;
    size_t capacity, used;
    gf_nvjpeg_state state;
} slot;

struct gf_cuda_decoder {
    gf_nvjpeg lib;
    int device; /* worker threads must choose it */
    int slots;
    slot *slot;           /* [slots] */
    pthread_mutex_t lock; /* of `held` */
    size_t held;
    gf_batch_decoder calls;
    char name[80];
};

/* ----- a slot ----- */

static int wait_for(void *user) {
    slot *s = user;
    return cudaEventRecord(s->done, s->stream) == cudaSuccess && cudaEventSynchronize(s->done) == cudaSuccess;
}

/* The first `kept` bytes stay. Grows by half more than needed. */
static glofnd_status make_room(gf_error *err, gf_cuda_decoder *d, slot *s, size_t bytes, size_t kept) {
    uint8_t *larger = NULL;
    const size_t capacity = bytes + bytes / 2;
    if (bytes <= s->capacity) return GLOFND_OK;
    CUDA_TRY_AS(err, cudaEventSynchronize(s->reading), "decoding images");
    CUDA_TRY_AS(err, cudaMalloc((void **)&larger, capacity), "decoded images of a batch");
    cudaError_t e = cudaSuccess;
    if (kept > 0) e = cudaMemcpyAsync(larger, s->memory, kept, cudaMemcpyDeviceToDevice, s->stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(s->stream);
    if (e != cudaSuccess) cudaFree(larger);
    CUDA_TRY_AS(err, e, "decoding images");
    cudaFree(s->memory);
    pthread_mutex_lock(&d->lock);
    d->held += capacity - s->capacity;
    pthread_mutex_unlock(&d->lock);
    s->memory = larger;
    s->capacity = capacity;
    return GLOFND_OK;
}

static glofnd_status decode(gf_error *err, void *user, int which, gf_encoded *image, int64_t count, size_t bytes) {
    gf_cuda_decoder *d = user;
    slot *s = &d->slot[which];
    const gf_nvjpeg_wait w = {wait_for, s};
    CUDA_TRY_AS(err, cudaSetDevice(d->device), "decoding images");
    TRY(make_room(err, d, s, bytes, 0));
    CUDA_TRY_AS(err, cudaStreamWaitEvent(s->stream, s->reading, 0), "decoding images");
    s->used = bytes;
    if (gf_nvjpeg_decode(&d->lib, &s->state, image, count, s->memory, s->stream, &w)) return GLOFND_OK;
    CUDA_TRY_AS(err, cudaStreamSynchronize(s->stream), "decoding images");
    CUDA_TRY_AS(err, cudaGetLastError(), "decoding images");
    GF_FAIL(err, GLOFND_E_MEMORY,
            "no memory to decode the images of a batch: lower batch or prefetch, or begin a run with decode = exact");
}

static glofnd_status upload(gf_error *err, void *user, int which, const gf_pixels *run, int count, size_t at) {
    gf_cuda_decoder *d = user;
    slot *s = &d->slot[which];
    size_t end = at;
    for (int i = 0; i < count; i++)
        if (run[i].used) end = at + run[i].first + run[i].used;
    s->used = end;
    if (end == at) return GLOFND_OK;
    CUDA_TRY_AS(err, cudaSetDevice(d->device), "copying images");
    TRY(make_room(err, d, s, end, at));
    CUDA_TRY_AS(err, cudaStreamWaitEvent(s->stream, s->reading, 0), "copying images");
    for (int i = 0; i < count; i++) {
        if (run[i].used)
            CUDA_TRY_AS(err,
                        cudaMemcpyAsync(s->memory + at + run[i].first, run[i].bytes, run[i].used, cudaMemcpyHostToDevice,
                                        s->stream),
                        "copying images");
    }
    if (wait_for(s)) return GLOFND_OK;
    CUDA_TRY_AS(err, cudaStreamSynchronize(s->stream), "copying images");
    GF_FAIL(err, GLOFND_E_DEVICE, "copying images failed");
}

/* ----- life ----- */

static glofnd_status open_slot(gf_error *err, slot *s) {
    int lowest = 0, highest = 0;
    CUDA_TRY_AS(err, cudaDeviceGetStreamPriorityRange(&lowest, &highest), "decoding images");
    CUDA_TRY_AS(err, cudaStreamCreateWithPriority(&s->stream, cudaStreamNonBlocking, lowest), "decoding images");
    CUDA_TRY_AS(err, cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming | cudaEventBlockingSync), "decoding images");
    CUDA_TRY_AS(err, cudaEventCreateWithFlags(&s->reading, cudaEventDisableTiming | cudaEventBlockingSync), "decoding images");
    return GLOFND_OK;
}

static glofnd_status choose_backend(gf_error *err, gf_cuda_decoder *d, const gf_cuda_decoder_probe *p) {
    static const gf_nvjpeg_backend order[] = {GF_NVJPEG_ENGINES, GF_NVJPEG_KERNELS};
    for (int i = 0; i < 2; i++) {
        if (gf_nvjpeg_start(NULL, &d->lib, order[i]) != GLOFND_OK) continue;
        /* Does the present backend give the pixels of the probe, about? */
        const size_t bytes = 3 * (size_t)p->width * (size_t)p->height;
        gf_encoded image = {.bytes = p->jpeg, .size = p->size, .width = p->width, .height = p->height};
        uint8_t *rgb = calloc(bytes, 1);
        uint64_t sum = 0;
        int sound = rgb && decode(NULL, d, 0, &image, 1, bytes) == GLOFND_OK && !image.failed &&
                    cudaMemcpy(rgb, d->slot[0].memory, bytes, cudaMemcpyDeviceToHost) == cudaSuccess;
        for (size_t j = 0; sound && j < bytes; j++) sum += (uint64_t)abs((int)rgb[j] - (int)p->rgb[j]);
        free(rgb);
        sound = sound && sum <= PROBE_LEVELS * bytes;
        gf_nvjpeg_state_free(&d->lib, &d->slot[0].state);
        if (sound) return GLOFND_OK;
        CUDA_TRY_AS(err, cudaGetLastError(), "decoding images");
    }
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "nvJPEG %d.%d cannot decode on this GPU: begin a run with decode = exact", d->lib.major,
            d->lib.minor);
}

static glofnd_status init(gf_error *err, gf_cuda_decoder *d, int slots, const gf_cuda_decoder_probe *probe) {
    TRY(gf_nvjpeg_open(err, NULL, &d->lib));
    d->slot = calloc((size_t)slots, sizeof *d->slot);
    FAIL_IF(err, !d->slot, GLOFND_E_MEMORY, "out of memory");
    d->slots = slots;
    CUDA_TRY_AS(err, cudaGetDevice(&d->device), "decoding images");
    for (int i = 0; i < slots; i++) TRY(open_slot(err, &d->slot[i]));
    TRY(choose_backend(err, d, probe));
    gf_nvjpeg_describe(&d->lib, d->name, sizeof d->name);
    return GLOFND_OK;
}

glofnd_status gf_cuda_decoder_create(gf_error *err, int slots, const gf_cuda_decoder_probe *probe, gf_cuda_decoder **out) {
    gf_cuda_decoder *d = calloc(1, sizeof *d);
    *out = NULL;
    FAIL_IF(err, !d, GLOFND_E_MEMORY, "out of memory");
    pthread_mutex_init(&d->lock, NULL);
    d->calls = (gf_batch_decoder){.user = d, .decode = decode, .upload = upload};
    const glofnd_status status = init(err, d, slots, probe);
    if (status == GLOFND_OK) *out = d;
    else gf_cuda_decoder_free(d);
    return status;
}

void gf_cuda_decoder_free(gf_cuda_decoder *d) {
    if (!d) return;
    for (int i = 0; i < d->slots; i++) {
        slot *s = &d->slot[i];
        if (s->reading) cudaEventSynchronize(s->reading);
        if (s->stream) cudaStreamSynchronize(s->stream);
        gf_nvjpeg_state_free(&d->lib, &s->state);
        cudaFree(s->memory);
        if (s->done) cudaEventDestroy(s->done);
        if (s->reading) cudaEventDestroy(s->reading);
        if (s->stream) cudaStreamDestroy(s->stream);
    }
    gf_nvjpeg_close(&d->lib);
    pthread_mutex_destroy(&d->lock);
    free(d->slot);
    free(d);
}

/* ----- for the feed ----- */

const gf_batch_decoder *gf_cuda_decoder_calls(const gf_cuda_decoder *d) { return &d->calls; }
const char *gf_cuda_decoder_name(const gf_cuda_decoder *d) { return d->name; }

size_t gf_cuda_decoder_held(gf_cuda_decoder *d) {
    if (!d) return 0;
    pthread_mutex_lock(&d->lock);
    const size_t held = d->held;
    pthread_mutex_unlock(&d->lock);
    return held;
}

const uint8_t *gf_cuda_decoder_memory(const gf_cuda_decoder *d, int which, size_t *bytes) {
    *bytes = d->slot[which].used;
    return d->slot[which].memory;
}

glofnd_status gf_cuda_decoder_reading(gf_error *err, gf_cuda_decoder *d, int which, void *stream) {
    CUDA_TRY_AS(err, cudaEventRecord(d->slot[which].reading, stream), "augmentation");
    return GLOFND_OK;
}

void gf_cuda_decoder_describe(char *text, size_t bytes) {
    gf_nvjpeg n;
    gf_error err = {""};
    char why[160];
    if (gf_cuda_devices(why, sizeof why) == 0) {
        snprintf(text, bytes, "no CUDA device: %s", why);
        return;
    }
    if (gf_nvjpeg_open(&err, NULL, &n) != GLOFND_OK) {
        snprintf(text, bytes, "%s", err.text);
        return;
    }
    const int started =
        gf_nvjpeg_start(NULL, &n, GF_NVJPEG_ENGINES) == GLOFND_OK || gf_nvjpeg_start(&err, &n, GF_NVJPEG_KERNELS) == GLOFND_OK;
    if (started) gf_nvjpeg_describe(&n, text, bytes);
    else snprintf(text, bytes, "%s", err.text);
    gf_nvjpeg_close(&n);
}
