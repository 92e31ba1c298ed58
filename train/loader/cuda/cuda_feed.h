/* cuda_feed.h - batches of views for a network on the device, one ahead of its step.
 *
 *     put(batch 0)
 *     loop: take(batch k) -> the network's stream works on it;  put(batch k + 1), meanwhile
 * put copies pictures and jobs to the device and makes the 8-bit views, on a stream of the feed, with low priority. take
 * normalises them into the network's input, on the network's stream. Each waits for the other by events; the host waits only for
 * its own buffers.
 */
#pragma once

#include "image/view_job.h"
#include "nn/nn_ops.h"

/* ----- decode ----- */

/* The JPEG files of a batch decoded on the device by nvJPEG (nvjpeg_lib.h): a gf_batch_decoder.
 *
 * Every slot has memory, a stream and a state of the library of its own. Worker threads of the loader fill a slot and wait for
 * it; the feed (cuda_feed.h) reads it, and a slot is not written before that is done.
 */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gf_cuda_decoder gf_cuda_decoder;

typedef struct gf_cuda_decoder_probe { /* a file to try backends with: they must give about these pixels */
    const uint8_t *jpeg;
    size_t size;
    int width, height;
    const uint8_t *rgb; /* [height][width][3] */
} gf_cuda_decoder_probe;

/* The JPEG engines of the GPU, else kernels of nvJPEG. E_UNSUPPORTED: neither decodes the probe, or nvJPEG is missing. */
glofnd_status gf_cuda_decoder_create(gf_error *err, int slots, const gf_cuda_decoder_probe *probe, gf_cuda_decoder **out);
void gf_cuda_decoder_free(gf_cuda_decoder *d); /* waits; NULL is fine. Nothing calls it any more */
const gf_batch_decoder *gf_cuda_decoder_calls(const gf_cuda_decoder *d);
/* "nvJPEG 13.2, 7 JPEG engines" */
const char *gf_cuda_decoder_name(const gf_cuda_decoder *d);
size_t gf_cuda_decoder_held(gf_cuda_decoder *d); /* bytes on the device, without those of the library; NULL: 0 */
/* Memory of a slot whose work is done, and the bytes in use. */
const uint8_t *gf_cuda_decoder_memory(const gf_cuda_decoder *d, int slot, size_t *bytes);
/* What was queued on the stream (cudaStream_t) so far reads the slot: it is not written before. */
glofnd_status gf_cuda_decoder_reading(gf_error *err, gf_cuda_decoder *d, int slot, void *stream);

/* For `glofnd info`: what would decode here, or why nothing would. */
void gf_cuda_decoder_describe(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

/* ----- cuda feed ----- */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gf_cuda_feed gf_cuda_feed;

typedef struct gf_cuda_feed_spec {
    int size;           /* pixels of a view's side */
    int64_t views;      /* of a batch, all together */
    gf_type type;       /* of the network's input [views][size][size][channels] */
    int channels;       /* 3, or 8 with zeros */
    const float *level; /* [3][256] normalised value of a byte */
    void *stream;       /* cudaStream_t of the network */
} gf_cuda_feed_spec;

/* E_UNSUPPORTED: views of this size cannot be made on the device. */
glofnd_status gf_cuda_feed_create(gf_error *err, const gf_cuda_feed_spec *spec, gf_cuda_feed **out);
void gf_cuda_feed_free(gf_cuda_feed *f); /* waits; NULL is fine */
void gf_cuda_feed_wait(gf_cuda_feed *f); /* until nothing of the host's memory is read any more; NULL is fine */
/* Keeps all pictures of a dataset on the device; jobs of later puts refer to them. E_MEMORY: they do not fit, nothing changed. */
glofnd_status gf_cuda_feed_keep(gf_error *err, gf_cuda_feed *f, const uint8_t *pixels, size_t bytes);
/* jobs [views] are copied at once. runs [count]: their pixels; must not change until gf_cuda_feed_wait_copied or the next put
 * returns, and be pinned to be copied in the background; count 0 with kept pictures. */
glofnd_status gf_cuda_feed_put(gf_error *err, gf_cuda_feed *f, const gf_view_job *jobs, const gf_pixels *runs, int count);
/* The same of pixels that lie in a slot of a decoder. */
glofnd_status gf_cuda_feed_put_decoded(gf_error *err, gf_cuda_feed *f, const gf_view_job *jobs, gf_cuda_decoder *d, int slot);
glofnd_status gf_cuda_feed_wait_copied(gf_error *err, gf_cuda_feed *f);
/* Writes the views of the last put to the network's input. */
glofnd_status gf_cuda_feed_take(gf_error *err, gf_cuda_feed *f, void *input);
size_t gf_cuda_feed_held(const gf_cuda_feed *f); /* bytes on the device; NULL: 0 */
/* For tests: the 8-bit views of the last put [views][size][size][3] to the host; waits. */
glofnd_status gf_cuda_feed_bytes(gf_error *err, gf_cuda_feed *f, uint8_t *rgb);

/* Memory that copies can run from in the background; NULL: none. */
void *gf_cuda_pinned_alloc(size_t bytes);
void gf_cuda_pinned_free(void *memory);

#ifdef __cplusplus
}
#endif
