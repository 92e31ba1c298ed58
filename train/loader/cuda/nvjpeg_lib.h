/* nvjpeg_lib.h - nvJPEG, opened at run time: a program with CUDA runs where it is missing. It needs no header of that library,
 * nor of CUDA: streams are passed on as they are.
 *
 * Backends differ in who decodes: the JPEG engines of the GPU (A100, H100 and later), or kernels of the library. Their pixels
 * may differ by single levels.
 */
#pragma once

#include <pthread.h>

#include "image/view_job.h"

typedef enum gf_nvjpeg_backend { GF_NVJPEG_KERNELS = 2, GF_NVJPEG_ENGINES = 3 } gf_nvjpeg_backend; /* numbers of the library */

typedef struct gf_nvjpeg_planes { /* nvjpegImage_t */
    unsigned char *channel[4];
    size_t pitch[4];
} gf_nvjpeg_planes;

typedef struct gf_nvjpeg { /* functions return nvjpegStatus_t: 0 is success */
    void *lib;             /* of dlopen; NULL: not opened */
    int (*nvjpegGetProperty)(int which, int *value);
    int (*nvjpegCreateEx)(int backend, void *device_memory, void *pinned_memory, unsigned flags, void **handle);
    int (*nvjpegDestroy)(void *handle);
    int (*nvjpegJpegStateCreate)(void *handle, void **state);
    int (*nvjpegJpegStateDestroy)(void *state);
    int (*nvjpegDecodeBatchedInitialize)(void *handle, void *state, int batch, int threads, int format);
    int (*nvjpegDecodeBatched)(void *handle, void *state, const unsigned char *const *data, const size_t *lengths,
                               gf_nvjpeg_planes *to, void *stream);
    int (*nvjpegJpegStreamCreate)(void *handle, void **stream);
    int (*nvjpegJpegStreamDestroy)(void *stream);
    int (*nvjpegJpegStreamParseHeader)(void *handle, const unsigned char *data, size_t length, void *stream);
    int (*nvjpegDecodeBatchedSupported)(void *handle, void *stream, int *refused);
    int (*nvjpegGetHardwareDecoderInfo)(void *handle, unsigned *engines, unsigned *cores); /* NULL: not in this version */
    int major, minor;
    void *handle; /* NULL: no backend was started */
    gf_nvjpeg_backend backend;
    unsigned engines;     /* of the GPU; 0: kernels decode */
    pthread_mutex_t lock; /* one thread at a time calls the library */
} gf_nvjpeg;

typedef struct gf_nvjpeg_state { /* of one thread at a time; all zero: not made */
    void *batch, *part;          /* nvjpegJpegState_t: of whole batches, of parts of refused ones */
    void *header;                /* nvjpegJpegStream_t */
    int64_t count;               /* images that `batch` is prepared for */
    const unsigned char **data;  /* [capacity] */
    size_t *length;              /* [capacity] */
    gf_nvjpeg_planes *to;        /* [capacity] */
    gf_encoded **image;          /* [capacity] */
    size_t data_capacity, length_capacity, to_capacity, image_capacity;
} gf_nvjpeg_state;

typedef struct gf_nvjpeg_wait { /* waits for a stream */
    int (*wait)(void *user);    /* 0: the device failed */
    void *user;
} gf_nvjpeg_wait;

/* names: of the library, NULL-terminated; NULL: libnvjpeg.so.13, .12, libnvjpeg.so. E_UNSUPPORTED: it is missing or too old. */
glofnd_status gf_nvjpeg_open(gf_error *err, const char *const *names, gf_nvjpeg *n);
void gf_nvjpeg_close(gf_nvjpeg *n); /* a zeroed one is fine */
/* E_UNSUPPORTED: the GPU or the library has no such backend. A backend started before ends. */
glofnd_status gf_nvjpeg_start(gf_error *err, gf_nvjpeg *n, gf_nvjpeg_backend backend);
/* "nvJPEG 13.2, 7 JPEG engines" */
void gf_nvjpeg_describe(const gf_nvjpeg *n, char *text, size_t bytes);

void gf_nvjpeg_state_free(const gf_nvjpeg *n, gf_nvjpeg_state *s); /* before the backend ends */
/* Decodes image [count], those with a size, to pixels + image.at, and waits. What the engines
 * do not take by its header fails; the rest is decoded at once. If the library refuses that, it is halved until `failed` can be
 * set for single images. 0: the device failed, or there is no memory. */
int gf_nvjpeg_decode(gf_nvjpeg *n, gf_nvjpeg_state *s, gf_encoded *image, int64_t count, uint8_t *pixels, void *stream,
                     const gf_nvjpeg_wait *w);
