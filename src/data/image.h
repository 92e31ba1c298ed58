/* image.h - an 8-bit RGB image, rows without padding; decoding and encoding. */
#ifndef GF_DATA_IMAGE_H
#define GF_DATA_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct gf_image {       /* all zero: empty */
    int width, height;
    uint8_t *rgb;               /* [height][width][3] */
    size_t capacity;            /* bytes at rgb: reused when large enough */
} gf_image;

#define GF_IMAGE_MOST 65500                     /* pixels on a side */
#define GF_IMAGE_PIXELS ((int64_t)1 << 28)      /* pixels in all */

/* Room for width x height; content undefined. E_FORMAT, before any memory is taken, if that is more than the limits above. */
glofnd_status gf_image_resize(gf_error *err, gf_image *m, int width, int height);
void gf_image_free(gf_image *m);
/* JPEG or PNG by its first bytes, any colour space and depth, to RGB as PIL's convert("RGB") does; but 16-bit gray keeps its high
 * byte, where PIL clips at 255. EXIF rotation and colour profiles are ignored.
 * `shrink_to` 0: exact, PIL's numbers; a JPEG that ends too early, or whose data does, is damaged. `shrink_to` > 0: fast; a JPEG
 * comes at 1/2, 1/4 or 1/8 where its shorter side still has that many pixels.
 * E_FORMAT: damaged or foreign; E_UNSUPPORTED: a build without the library. `name` is for messages. `out` is undefined on
 * failure. */
glofnd_status gf_image_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, int shrink_to, gf_image *out);
/* PNG bytes of an image, malloc'ed. JPEG for previews. */
glofnd_status gf_image_encode_png(gf_error *err, const gf_image *m, uint8_t **bytes, size_t *size);
glofnd_status gf_image_encode_jpeg(gf_error *err, const gf_image *m, int quality, uint8_t **bytes, size_t *size);

/* The two formats, for gf_image_decode. */
glofnd_status gf_jpeg_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, int shrink_to, gf_image *out);
glofnd_status gf_png_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, gf_image *out);

#endif
