/* thumbnail.h - a small JPEG of an image, for pages.
 *
 *     gf_thumbnails t = {.side = 64, .quality = 80};           buffers are kept from image to image
 *     TRY(gf_thumbnail(err, &t, &image, &jpeg, &bytes));       jpeg is malloc'ed
 *     gf_thumbnails_free(&t);
 */
#ifndef GF_REPORT_THUMBNAIL_H
#define GF_REPORT_THUMBNAIL_H

#include "image/image.h"
#include "image/resample.h"

typedef struct gf_thumbnails {
    int side;               /* pixels of the longer side at most; a smaller image stays as it is */
    int quality;            /* of the JPEG, 1 .. 100 */
    gf_resampler resampler; /* private from here on; all zero: empty */
    gf_image small;
    uint8_t *planes; /* [3][side][side] */
} gf_thumbnails;

/* *small: m itself, or a smaller copy that t keeps until the next one. */
glofnd_status gf_thumbnail_small(gf_error *err, gf_thumbnails *t, const gf_image *m, const gf_image **small);
/* E_UNSUPPORTED in a build without libjpeg. */
glofnd_status gf_thumbnail(gf_error *err, gf_thumbnails *t, const gf_image *m, uint8_t **jpeg, size_t *bytes);
void gf_thumbnails_free(gf_thumbnails *t);

#endif
