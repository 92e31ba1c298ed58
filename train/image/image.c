/* image.c - images in memory, and the choice of a decoder by the first bytes. See image.h. */
#include "image/image.h"

#include <stdlib.h>
#include <string.h>

glofnd_status gf_image_resize(gf_error *err, gf_image *m, int width, int height) {
    FAIL_IF(err, width < 1 || height < 1, GLOFND_E_FORMAT, "an image of %d x %d pixels", width, height);
    const int64_t pixels = (int64_t)width * height;
    FAIL_IF(err, width > GF_IMAGE_SIDE_MAX || height > GF_IMAGE_SIDE_MAX || pixels > GF_IMAGE_PIXELS_MAX, GLOFND_E_FORMAT,
            "an image of %d x %d pixels; at most %d on a side and %lld in all are accepted", width, height, GF_IMAGE_SIDE_MAX,
            (long long)GF_IMAGE_PIXELS_MAX);
    const size_t bytes = (size_t)pixels * 3;
    if (bytes > m->capacity) {
        uint8_t *rgb = malloc(bytes);
        FAIL_IF(err, !rgb, GLOFND_E_MEMORY, "no memory for an image of %d x %d pixels", width, height);
        free(m->rgb);
        m->rgb = rgb;
        m->capacity = bytes;
    }
    m->width = width;
    m->height = height;
    m->part = (gf_part){0};
    return GLOFND_OK;
}

glofnd_status gf_image_take(gf_error *err, const gf_decode_hint *hint, int width, int height, int64_t pixels) {
    const int64_t max = gf_hint_max_pixels(hint);
    FAIL_IF(err, pixels > max, GLOFND_E_FORMAT, "%d x %d pixels are more than the %lld that are decoded at a time (max_pixels)",
            width, height, (long long)max);
    if (hint) gf_pixel_share_take(hint->share, pixels);
    return GLOFND_OK;
}

void gf_image_free(gf_image *m) {
    free(m->rgb);
    *m = (gf_image){0};
}

int gf_image_full_width(const gf_image *m) { return m->part.by ? m->part.full_width : m->width; }
int gf_image_full_height(const gf_image *m) { return m->part.by ? m->part.full_height : m->height; }

static int begins(const uint8_t *bytes, size_t size, size_t at, const char *magic, size_t n) {
    return size >= at + n && memcmp(bytes + at, magic, n) == 0;
}

static int is_jpeg(const uint8_t *bytes, size_t size) { return begins(bytes, size, 0, "\xff\xd8\xff", 3); }
static int is_png(const uint8_t *bytes, size_t size) { return begins(bytes, size, 0, "\x89PNG\r\n\x1a\n", 8); }
static int is_webp(const uint8_t *bytes, size_t size) {
    return begins(bytes, size, 0, "RIFF", 4) && begins(bytes, size, 8, "WEBP", 4);
}

int gf_image_begins(const uint8_t *bytes, size_t size) {
    return is_jpeg(bytes, size) || is_png(bytes, size) || (is_webp(bytes, size) && gf_image_reads_webp());
}

/* Other formats that occur under the name .jpg. */
static const char *foreign(const uint8_t *bytes, size_t size) {
    if (size == 0) return "it is empty";
    if (begins(bytes, size, 0, "GIF8", 4)) return "it is a GIF";
    if (begins(bytes, size, 0, "BM", 2)) return "it looks like a BMP";
    if (begins(bytes, size, 0, "II*", 3) || begins(bytes, size, 0, "MM\0*", 4)) return "it is a TIFF";
    if (begins(bytes, size, 4, "ftyp", 4)) return "it looks like HEIF or AVIF";
    if (begins(bytes, size, 0, "<", 1)) return "it looks like HTML";
    return "its first bytes are of none of them";
}

glofnd_status gf_image_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                              gf_image *out) {
    if (hint && hint->keep && hint->keep(hint->user, bytes, size, &out->width, &out->height)) {
        out->part = (gf_part){0};
        return GLOFND_OK;
    }
    if (is_jpeg(bytes, size)) return gf_jpeg_decode(err, name, bytes, size, hint, out);
    if (is_png(bytes, size)) return gf_png_decode(err, name, bytes, size, hint, out);
    if (is_webp(bytes, size)) return gf_webp_decode(err, name, bytes, size, hint, out);
    GF_FAIL(err, GLOFND_E_FORMAT, "'%.380s' is neither JPEG, PNG nor WebP: %s", name, foreign(bytes, size));
}

const char *gf_image_endings(void) { return gf_image_reads_webp() ? ".jpg, .jpeg, .png or .webp" : ".jpg, .jpeg or .png"; }
