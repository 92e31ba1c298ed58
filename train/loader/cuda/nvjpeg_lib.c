/* nvjpeg_lib.c - see nvjpeg_lib.h. Numbers are those of nvjpeg.h of CUDA 12 and 13. */
#include "loader/cuda/nvjpeg_lib.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/machine.h"

enum { RGB_INTERLEAVED = 5, MAJOR = 0, MINOR = 1 };
enum { INTERPOLATE_COLOURS = 1 << 5 }; /* as libjpeg does by default; from 12.1 on */

/* ----- the library ----- */

static glofnd_status find_functions(gf_error *err, gf_nvjpeg *n) {
#define GF_FIND(name)                                                                \
    FAIL_IF(err, !gf_shared_lib_find(n->lib, #name, &n->name), GLOFND_E_UNSUPPORTED, \
            "this nvJPEG has no %s: version 12 or 13 is needed", #name);
    GF_FIND(nvjpegGetProperty)
    GF_FIND(nvjpegCreateEx)
    GF_FIND(nvjpegDestroy)
    GF_FIND(nvjpegJpegStateCreate)
    GF_FIND(nvjpegJpegStateDestroy)
    GF_FIND(nvjpegDecodeBatchedInitialize)
    GF_FIND(nvjpegDecodeBatched)
    GF_FIND(nvjpegJpegStreamCreate)
    GF_FIND(nvjpegJpegStreamDestroy)
    GF_FIND(nvjpegJpegStreamParseHeader)
    GF_FIND(nvjpegDecodeBatchedSupported)
#undef GF_FIND
    gf_shared_lib_find(n->lib, "nvjpegGetHardwareDecoderInfo", &n->nvjpegGetHardwareDecoderInfo);
    const int known = n->nvjpegGetProperty(MAJOR, &n->major) == 0 && n->nvjpegGetProperty(MINOR, &n->minor) == 0;
    FAIL_IF(err, !known || n->major < 12, GLOFND_E_UNSUPPORTED, "nvJPEG %d.%d is too old: version 12 or 13 is needed", n->major,
            n->minor);
    return GLOFND_OK;
}

glofnd_status gf_nvjpeg_open(gf_error *err, const char *const *names, gf_nvjpeg *n) {
    static const char *const usual[] = {"libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so", NULL};
    memset(n, 0, sizeof *n);
    n->lib = gf_shared_lib_open(names ? names : usual, 0);
    FAIL_IF(err, !n->lib, GLOFND_E_UNSUPPORTED,
            "nvJPEG was not found (libnvjpeg.so.13): install it or put its folder into LD_LIBRARY_PATH, or begin a run with "
            "decode = exact");
    pthread_mutex_init(&n->lock, NULL);
    const glofnd_status status = find_functions(err, n);
    if (status != GLOFND_OK) gf_nvjpeg_close(n);
    return status;
}

static void end(gf_nvjpeg *n) {
    if (n->handle) n->nvjpegDestroy(n->handle);
    n->handle = NULL;
    n->engines = 0;
}

void gf_nvjpeg_close(gf_nvjpeg *n) {
    if (!n->lib) return;
    end(n);
    pthread_mutex_destroy(&n->lock);
    dlclose(n->lib);
    memset(n, 0, sizeof *n);
}

glofnd_status gf_nvjpeg_start(gf_error *err, gf_nvjpeg *n, gf_nvjpeg_backend backend) {
    const unsigned flags = n->major > 12 || n->minor >= 1 ? INTERPOLATE_COLOURS : 0;
    unsigned engines = 0, cores = 0;
    end(n);
    const int status = n->nvjpegCreateEx((int)backend, NULL, NULL, flags, &n->handle);
    if (status != 0) n->handle = NULL;
    FAIL_IF(err, status != 0, GLOFND_E_UNSUPPORTED, "nvJPEG %d.%d cannot decode by %s here (status %d)", n->major, n->minor,
            backend == GF_NVJPEG_ENGINES ? "JPEG engines" : "kernels", status);
    if (backend == GF_NVJPEG_ENGINES && n->nvjpegGetHardwareDecoderInfo &&
        n->nvjpegGetHardwareDecoderInfo(n->handle, &engines, &cores) == 0)
        n->engines = engines;
    n->backend = backend;
    return GLOFND_OK;
}

void gf_nvjpeg_describe(const gf_nvjpeg *n, char *text, size_t bytes) {
    if (n->backend != GF_NVJPEG_ENGINES) snprintf(text, bytes, "nvJPEG %d.%d, by kernels", n->major, n->minor);
    else if (n->engines == 0) snprintf(text, bytes, "nvJPEG %d.%d, JPEG engines", n->major, n->minor);
    else snprintf(text, bytes, "nvJPEG %d.%d, %u JPEG engines", n->major, n->minor, n->engines);
}

/* ----- a batch ----- */

void gf_nvjpeg_state_free(const gf_nvjpeg *n, gf_nvjpeg_state *s) {
    if (s->batch) n->nvjpegJpegStateDestroy(s->batch);
    if (s->part) n->nvjpegJpegStateDestroy(s->part);
    if (s->header) n->nvjpegJpegStreamDestroy(s->header);
    free(s->data);
    free(s->length);
    free(s->to);
    free(s->image);
    memset(s, 0, sizeof *s);
}

/* 1: the state exists and is prepared for so many images. */
static int prepare(const gf_nvjpeg *n, void **state, int64_t count) {
    if (!*state && n->nvjpegJpegStateCreate(n->handle, state) != 0) *state = NULL;
    return *state && n->nvjpegDecodeBatchedInitialize(n->handle, *state, (int)count, 1, RGB_INTERLEAVED) == 0;
}

/* 1: the engines take such files: not of every size, for example. Kernels take all that train/image/image.h lets through. */
static int is_taken(const gf_nvjpeg *n, gf_nvjpeg_state *s, const gf_encoded *image) {
    int refused = 1;
    if (n->backend != GF_NVJPEG_ENGINES) return 1;
    if (!s->header && n->nvjpegJpegStreamCreate(n->handle, &s->header) != 0) s->header = NULL;
    return s->header && n->nvjpegJpegStreamParseHeader(n->handle, image->bytes, image->size, s->header) == 0 &&
           n->nvjpegDecodeBatchedSupported(n->handle, s->header, &refused) == 0 && !refused;
}

/* Number of images in the lists; -1: no memory. */
static int64_t list(const gf_nvjpeg *n, gf_nvjpeg_state *s, gf_encoded *image, int64_t count, uint8_t *pixels) {
    const size_t most = (size_t)count;
    int64_t listed = 0;
    if (!gf_grow(&s->data, &s->data_capacity, most, sizeof *s->data) ||
        !gf_grow(&s->length, &s->length_capacity, most, sizeof *s->length) ||
        !gf_grow(&s->to, &s->to_capacity, most, sizeof *s->to) || !gf_grow(&s->image, &s->image_capacity, most, sizeof *s->image))
        return -1;
    for (int64_t i = 0; i < count; i++) {
        if (image[i].size == 0) continue;
        image[i].failed = !is_taken(n, s, &image[i]);
        if (image[i].failed) continue;
        s->data[listed] = image[i].bytes;
        s->length[listed] = image[i].size;
        s->to[listed] = (gf_nvjpeg_planes){{pixels + image[i].at}, {3 * (size_t)image[i].width}};
        s->image[listed++] = &image[i];
    }
    return listed;
}

typedef struct work {
    gf_nvjpeg *n;
    gf_nvjpeg_state *s;
    void *stream;
    const gf_nvjpeg_wait *w;
} work;

/* 1: the library has accepted the listed images from `first` on. */
static int submit(const work *x, void *state, int64_t first) {
    const gf_nvjpeg_state *s = x->s;
    gf_nvjpeg *n = x->n;
    return n->nvjpegDecodeBatched(n->handle, state, s->data + first, s->length + first, s->to + first, x->stream) == 0;
}

/* Halves what is refused until single images are left. 0: the device failed. */
static int decode_parts(const work *x, int64_t first, int64_t count) {
    gf_nvjpeg_state *s = x->s;
    pthread_mutex_lock(&x->n->lock);
    const int accepted = prepare(x->n, &s->part, count) && submit(x, s->part, first);
    pthread_mutex_unlock(&x->n->lock);
    if (!x->w->wait(x->w->user)) return 0;
    if (count == 1) s->image[first]->failed = !accepted;
    if (accepted || count == 1) return 1;
    return decode_parts(x, first, count / 2) && decode_parts(x, first + count / 2, count - count / 2);
}

int gf_nvjpeg_decode(gf_nvjpeg *n, gf_nvjpeg_state *s, gf_encoded *image, int64_t count, uint8_t *pixels, void *stream,
                     const gf_nvjpeg_wait *w) {
    const work x = {n, s, stream, w};
    int accepted = 0;
    pthread_mutex_lock(&n->lock);
    const int64_t listed = list(n, s, image, count, pixels);
    pthread_mutex_unlock(&n->lock);
    if (listed <= 0) return listed == 0;
    pthread_mutex_lock(&x.n->lock);
    accepted = (s->count == listed || prepare(x.n, &s->batch, listed)) && submit(&x, s->batch, 0);
    pthread_mutex_unlock(&x.n->lock);
    s->count = accepted ? listed : 0; /* what a refused batch leaves behind is unknown */
    if (!x.w->wait(x.w->user)) return 0;
    return accepted || decode_parts(&x, 0, listed);
}
