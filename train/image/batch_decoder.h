/* batch_decoder.h - a device that decodes the images of a batch: declared here, used by src/loader, made by src/cuda.
 *
 * The device has a memory per batch that the loader keeps ready, its slot. Images are decoded to its beginning, rows of RGB
 * without padding; the pixels of those that the CPU decoded are copied behind them.
 */
#pragma once

#include "image/augment_job.h"
#include "util/status.h"

#define GF_DECODER_ALIGN 256 /* bytes: every image begins at a multiple of it */

typedef struct gf_encoded { /* an image for the device: a plain JPEG file (train/image/jpeg_plain.h) */
    const uint8_t *bytes;
    size_t size; /* 0: there is none in this place */
    int width, height;
    size_t at;  /* its first pixel in the slot */
    int failed; /* the device could not decode it: the CPU must */
} gf_encoded;

/* Calls come from worker threads, at most one at a time per slot, and return when the work is done. An error is about the device,
 * not about an image. */
typedef struct gf_batch_decoder {
    void *user;
    /* image [count], those with a size; `bytes`: of the slot, for all of them. Sets `failed`. */
    glofnd_status (*decode)(gf_error *err, void *user, int slot, gf_encoded *image, int64_t count, size_t bytes);
    /* run [count]: pixels of the CPU; their byte `first` goes to byte at + first of the slot, whose images before `at` stay. */
    glofnd_status (*upload)(gf_error *err, void *user, int slot, const gf_pixels *run, int count, size_t at);
} gf_batch_decoder;
