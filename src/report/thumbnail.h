/* thumbnail.h - a small JPEG of an image, for pages.
 *
 *     gf_thumbnails t = {.side = 64, .quality = 80};           buffers are kept from image to image
 *     TRY(gf_thumbnail(err, &t, &image, &jpeg, &bytes));       jpeg is malloc'ed
 *     gf_thumbnail_img(out, "name", jpeg, bytes);              or <img> with the JPEG inside
 *     gf_thumbnails_free(&t);
 */
#ifndef GF_REPORT_THUMBNAIL_H
#define GF_REPORT_THUMBNAIL_H

#include "data/image.h"
#include "data/resample.h"
#include "report/text.h"

typedef struct gf_thumbnails {
    int side;                   /* pixels of the longer side at most; a smaller image stays as it is */
    int quality;                /* of the JPEG, 1 .. 100 */
    gf_resampler resampler;     /* private from here on; all zero: empty */
    gf_image small;
    uint8_t *planes;            /* [3][side][side] */
} gf_thumbnails;

/* *small: m itself, or a smaller copy that t keeps until the next one. */
glofnd_status gf_thumbnail_small(gf_error *err, gf_thumbnails *t, const gf_image *m, const gf_image **small);
/* E_UNSUPPORTED in a build without libjpeg. */
glofnd_status gf_thumbnail(gf_error *err, gf_thumbnails *t, const gf_image *m, uint8_t **jpeg, size_t *bytes);
void gf_thumbnails_free(gf_thumbnails *t);
/* <img src="data:..." alt="..." title="...">, the text escaped; alt may be NULL. */
void gf_thumbnail_img(gf_text *out, const char *alt, const uint8_t *jpeg, size_t bytes);

#endif
