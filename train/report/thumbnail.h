/* thumbnail.h - small copies of images, for pages.
 *
 *     gf_thumbnails t = {.side = 64, .quality = 80};                buffers are reused from image to image
 *     TRY(gf_thumbnail_jpeg(err, &t, &image, &jpeg, &bytes));       jpeg is malloc'ed
 *     gf_thumbnails_free(&t);
 */
#pragma once

#include "image/image.h"
#include "image/resample.h"

typedef struct gf_thumbnails {
    int side;               /* pixels of the longer side, at most; a smaller image keeps its size */
    int square;             /* 1: the centre square of an image, always side x side; a smaller one in whole pixels */
    int quality;            /* JPEG, 1 .. 100 */
    gf_resampler resampler; /* private from here on; zeroed: empty */
    gf_image small;
    uint8_t *planes; /* [3][side][side] */
} gf_thumbnails;

/* *small: m itself, or a smaller copy that is valid until the next call. */
glofnd_status gf_thumbnail_scale(gf_error *err, gf_thumbnails *t, const gf_image *m, const gf_image **small);
/* E_UNSUPPORTED: build without libjpeg. */
glofnd_status gf_thumbnail_jpeg(gf_error *err, gf_thumbnails *t, const gf_image *m, uint8_t **jpeg, size_t *bytes);
void gf_thumbnails_free(gf_thumbnails *t);
