/* image.h - an 8-bit RGB image, rows without padding; decoding and encoding. */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "util/status.h"

/* ----- the budget of pixels -----
 *
 * How many pixels may be decoded at a time, by all threads together: a file of a kilobyte can claim an image of
 * gigabytes. A decoder takes the pixels of an image, once its header has told them, before it allocates memory for them; the user
 * of the image gives them back. Threads wait for each other, so results do not depend on their number.
 */

#define GF_MAX_PIXELS 200000000 /* default limit */
#define GF_PIXEL_BYTES 9        /* memory per pixel while it is decoded, at most: 3 colours, coefficients of 2 bytes of each */

typedef struct gf_pixel_budget {
    pthread_mutex_t lock;
    pthread_cond_t given;
    int64_t max, taken;
} gf_pixel_budget;

typedef struct gf_pixel_share { /* what one thread has taken; all zero: of no budget */
    gf_pixel_budget *budget;
    int64_t taken;
} gf_pixel_share;

void gf_pixel_budget_init(gf_pixel_budget *b, int64_t max);
void gf_pixel_budget_free(gf_pixel_budget *b);
/* Waits until there are so many left. A thread holds one image at a time: what it had taken is given back first. More than the
 * maximum is taken when nothing else is. A share of no budget, or NULL: nothing happens. */
void gf_pixel_share_take(gf_pixel_share *s, int64_t pixels);
void gf_pixel_share_give(gf_pixel_share *s);

/* ----- images, decoded and encoded ----- */

typedef struct gf_part {         /* the part of a larger image that an image holds; all zero: it is whole */
    int full_width, full_height; /* of the larger one */
    int left, top;               /* where the part begins, after the reduction */
    int by;                      /* reduction: 1, 2, 4 or 8 */
} gf_part;

typedef struct gf_image { /* all zero: empty */
    int width, height;
    uint8_t *rgb;    /* [height][width][3] */
    size_t capacity; /* bytes at rgb: reused when large enough */
    gf_part part;
} gf_image;

typedef struct gf_region { /* pixels of the full image that will be used */
    int left, top, width, height;
} gf_region;

/* The part of an image that is needed, for decoders that can save work; no hint (NULL): all of it, exact. */
typedef struct gf_decode_hint {
    int fast;      /* 1: faster, not PIL's numbers; a corrupt end may go unnoticed */
    int shrink_to; /* > 0, with fast: a JPEG comes at 1/2, 1/4 or 1/8 if its shorter side still has so many pixels */
    /* May be NULL: all of it. The region that is needed of an image of this size. With fast it may raise *by, the reduction that
     * shrink_to allows, to a larger power of two up to 8. The result is the region or more: see gf_image.part. */
    gf_region (*choose)(void *user, int width, int height, int *by);
    void *user;         /* of choose */
    int64_t max_pixels; /* a larger image is unreadable, unless it is a JPEG that can be decoded at reduced size and `choose` or
                           shrink_to is given; 0: GF_MAX_PIXELS */
    gf_pixel_share *share; /* may be NULL: of the budget that threads share; the caller gives it back */
} gf_decode_hint;

#define GF_IMAGE_SIDE_MAX 65500                /* pixels on a side */
#define GF_IMAGE_PIXELS_MAX ((int64_t)1 << 28) /* pixels in all, whatever the limit of a hint */

/* Capacity for width x height; content undefined. E_FORMAT, before any allocation, if that exceeds the limits above. */
glofnd_status gf_image_resize(gf_error *err, gf_image *m, int width, int height);
void gf_image_free(gf_image *m);
int gf_image_full_width(const gf_image *m); /* of the image, or of the one it is a part of */
int gf_image_full_height(const gf_image *m);
/* JPEG, PNG or WebP by its first bytes, any colour space and depth, to RGB as PIL's convert("RGB") does; but 16-bit gray keeps
 * its high byte, where PIL clips at 255. EXIF rotation and colour profiles are ignored.
 * Exact: PIL's numbers, in a part as in the whole; a JPEG that ends too early, or whose data does, is corrupt, whichever part is
 * wanted. Fast: a JPEG is corrupt if it ends before the wanted part does.
 * E_FORMAT: corrupt or of a different format; E_UNSUPPORTED: a build without the library. `name` is for messages. `out` is
 * undefined on failure. */
glofnd_status gf_image_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                              gf_image *out);
/* PNG bytes of an image, malloc'ed. JPEG for previews. */
glofnd_status gf_image_encode_png(gf_error *err, const gf_image *m, uint8_t **bytes, size_t *size);
glofnd_status gf_image_encode_jpeg(gf_error *err, const gf_image *m, int quality, uint8_t **bytes, size_t *size);

/* 1: a file that begins so is an image for gf_image_decode. GF_IMAGE_MAGIC bytes are enough. */
enum { GF_IMAGE_MAGIC = 12 };
int gf_image_begins(const uint8_t *bytes, size_t size);

int gf_image_reads_webp(void);      /* 1: this build has libwebp */
const char *gf_image_endings(void); /* of the files it reads, for messages: ".jpg, .jpeg, .png or .webp" */

/* The formats, for gf_image_decode. */
glofnd_status gf_jpeg_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                             gf_image *out);
glofnd_status gf_png_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                            gf_image *out);
glofnd_status gf_webp_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                             gf_image *out);
/* For decoders: the limit of a hint, which may be NULL. */
static inline int64_t gf_hint_max_pixels(const gf_decode_hint *hint) {
    return hint && hint->max_pixels > 0 ? hint->max_pixels : GF_MAX_PIXELS;
}
/* For decoders: takes the pixels that an image needs from the share. E_FORMAT: they are more than the limit. */
glofnd_status gf_image_take(gf_error *err, const gf_decode_hint *hint, int width, int height, int64_t pixels);
