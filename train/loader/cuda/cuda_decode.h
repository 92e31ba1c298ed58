/* cuda_decode.h - the JPEG files of a batch decoded on the device by nvJPEG (nvjpeg_lib.h): a gf_batch_decoder.
 *
 * Every slot has memory, a stream and a state of the library of its own. Worker threads of the loader fill a slot and wait for
 * it; the feed (cuda_feed.h) reads it, and a slot is not written before that is done.
 */
#pragma once

#include "image/batch_decoder.h"

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
