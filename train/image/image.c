/* image.c - see image.h: the budget of pixels, PNG, WebP, images in memory and the choice of a decoder. JPEG is in jpeg.c. */
#include "image/image.h"

#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_PNG
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#endif
#ifdef GF_HAVE_WEBP
#include <webp/decode.h>
#endif

#include "util/array.h"

/* ----- the budget of pixels ----- */

void gf_pixel_budget_init(gf_pixel_budget *b, int64_t max) {
    *b = (gf_pixel_budget){.max = max};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->given, NULL);
}

void gf_pixel_budget_free(gf_pixel_budget *b) {
    pthread_cond_destroy(&b->given);
    pthread_mutex_destroy(&b->lock);
}

void gf_pixel_share_take(gf_pixel_share *s, int64_t pixels) {
    if (!s || !s->budget) return;
    gf_pixel_share_give(s);
    gf_pixel_budget *b = s->budget;
    pthread_mutex_lock(&b->lock);
    while (b->taken > 0 && b->taken > b->max - pixels) pthread_cond_wait(&b->given, &b->lock);
    b->taken += pixels;
    pthread_mutex_unlock(&b->lock);
    s->taken = pixels;
}

void gf_pixel_share_give(gf_pixel_share *s) {
    if (!s || !s->budget || s->taken == 0) return;
    pthread_mutex_lock(&s->budget->lock);
    s->budget->taken -= s->taken;
    pthread_cond_broadcast(&s->budget->given);
    pthread_mutex_unlock(&s->budget->lock);
    s->taken = 0;
}

/* ----- PNG in and out, by libpng. As in jpeg.c, errors leave by longjmp; data that survives it is in the caller's job ----- */

#ifdef GF_HAVE_PNG

#define CHUNK_MAX ((png_alloc_size_t)8 << 20) /* bytes an ancillary chunk may unpack to */

typedef struct png_job {
    png_structp png;
    png_infop info;
    jmp_buf back;
    char text[160];
    int no_memory;
    const uint8_t *in; /* decoding: the bytes still to read */
    const gf_decode_hint *hint;
    size_t left;
    gf_image *m; /* decoding: out */
    png_bytep *rows;
    uint8_t *bytes; /* encoding: out */
    size_t size, capacity;
} png_job;

static void leave_by_jump(png_structp png, png_const_charp text) {
    png_job *j = png_get_error_ptr(png);
    snprintf(j->text, sizeof j->text, "%s", text);
    longjmp(j->back, 1);
}

static void stay_silent(png_structp png, png_const_charp text) { (void)png, (void)text; }

static void take_bytes(png_structp png, png_bytep out, size_t n) {
    png_job *j = png_get_io_ptr(png);
    if (n > j->left) png_error(png, "cut short");
    memcpy(out, j->in, n);
    j->in += n;
    j->left -= n;
}

/* Every PNG becomes 8-bit RGB. Transparency is dropped, not blended. */
static glofnd_status decode_steps(gf_error *err, png_job *j) {
    const png_structp png = j->png;
    png_set_read_fn(png, j, take_bytes);
    png_set_user_limits(png, GF_IMAGE_SIDE_MAX, GF_IMAGE_SIDE_MAX);
    png_set_chunk_malloc_max(png, CHUNK_MAX);
    png_set_chunk_cache_max(png, 128);
    png_read_info(png, j->info);
    const int width = (int)png_get_image_width(png, j->info), height = (int)png_get_image_height(png, j->info);
    TRY(gf_image_take(err, j->hint, width, height, (int64_t)width * height));
    TRY(gf_image_resize(err, j->m, width, height));
    const int colour = png_get_color_type(png, j->info), depth = png_get_bit_depth(png, j->info);
    if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (colour == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (depth == 16) png_set_strip_16(png);
    if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, j->info);
    const size_t stride = (size_t)3 * (size_t)width;
    if (png_get_rowbytes(png, j->info) != stride) png_error(png, "unexpected row size");
    j->rows = malloc((size_t)height * sizeof *j->rows);
    j->no_memory = !j->rows;
    if (!j->rows) png_error(png, "no memory");
    for (int y = 0; y < height; y++) j->rows[y] = j->m->rgb + stride * (size_t)y;
    png_read_image(png, j->rows);
    png_read_end(png, NULL);
    return GLOFND_OK;
}

static glofnd_status decode_guarded(gf_error *err, const char *name, png_job *j) {
    if (setjmp(j->back))
        return gf_fail(err, j->no_memory ? GLOFND_E_MEMORY : GLOFND_E_FORMAT, "'%.300s': PNG: %.150s", name, j->text);
    const glofnd_status status = decode_steps(err, j);
    const gf_error why = err ? *err : (gf_error){""};
    return status == GLOFND_OK ? status : gf_fail(err, status, "'%.300s': %.180s", name, why.text);
}

glofnd_status gf_png_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                            gf_image *out) {
    png_job j = {.in = bytes, .left = size, .hint = hint, .m = out};
    j.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, leave_by_jump, stay_silent);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    glofnd_status status = GLOFND_E_MEMORY;
    if (j.info) status = decode_guarded(err, name, &j);
    else gf_fail(err, status, "no memory to decode '%.300s'", name);
    png_destroy_read_struct(&j.png, &j.info, NULL);
    free(j.rows);
    return status;
}

static void give_bytes(png_structp png, png_bytep p, size_t n) {
    png_job *j = png_get_io_ptr(png);
    if (!gf_grow(&j->bytes, &j->capacity, j->size + n, 1)) png_error(png, "no memory");
    memcpy(j->bytes + j->size, p, n);
    j->size += n;
}

static void flush_nothing(png_structp png) { (void)png; }

static void encode_steps(png_job *j) {
    png_set_write_fn(j->png, j, give_bytes, flush_nothing);
    png_set_IHDR(j->png, j->info, (png_uint_32)j->m->width, (png_uint_32)j->m->height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(j->png, j->info);
    for (int y = 0; y < j->m->height; y++) png_write_row(j->png, j->m->rgb + (size_t)3 * (size_t)j->m->width * (size_t)y);
    png_write_end(j->png, NULL);
}

static int encode_guarded(png_job *j) {
    if (setjmp(j->back)) return 0;
    encode_steps(j);
    return 1;
}

glofnd_status gf_image_encode_png(gf_error *err, const gf_image *m, uint8_t **bytes, size_t *size) {
    FAIL_IF(err, !m->rgb || m->width < 1 || m->height < 1, GLOFND_E_ARGUMENT, "no image to encode");
    gf_image borrowed = *m;
    png_job j = {.m = &borrowed};
    j.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &j, leave_by_jump, stay_silent);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    const int done = j.info && encode_guarded(&j);
    png_destroy_write_struct(&j.png, &j.info);
    if (!done) {
        free(j.bytes);
        GF_FAIL(err, GLOFND_E_MEMORY, "no PNG of %d x %d pixels: %.150s", m->width, m->height, j.text);
    }
    *bytes = j.bytes;
    *size = j.size;
    return GLOFND_OK;
}

#else

glofnd_status gf_png_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                            gf_image *out) {
    (void)bytes, (void)size, (void)hint, (void)out;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "'%.300s' is a PNG, and this program was built without libpng", name);
}

glofnd_status gf_image_encode_png(gf_error *err, const gf_image *m, uint8_t **bytes, size_t *size) {
    (void)m, (void)bytes, (void)size;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "this program was built without libpng, which writing PNG needs");
}

#endif

/* ----- WebP images, lossy and lossless, as DataComp's evaluation sets have them ----- */

#ifdef GF_HAVE_WEBP
int gf_image_reads_webp(void) { return 1; }

/* Alpha is dropped, as PIL's convert("RGB") does. */
glofnd_status gf_webp_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                             gf_image *out) {
    WebPBitstreamFeatures f;
    FAIL_IF(err, WebPGetFeatures(bytes, size, &f) != VP8_STATUS_OK, GLOFND_E_FORMAT, "'%.380s' is a corrupt WebP", name);
    FAIL_IF(err, f.has_animation, GLOFND_E_FORMAT, "'%.380s' is an animated WebP; expected one image", name);
    gf_error why = {""};
    glofnd_status status = gf_image_take(&why, hint, f.width, f.height, (int64_t)f.width * f.height);
    if (status == GLOFND_OK) status = gf_image_resize(&why, out, f.width, f.height);
    FAIL_IF(err, status != GLOFND_OK, status, "'%.300s': %.200s", name, why.text);
    const size_t room = (size_t)f.width * (size_t)f.height * 3;
    FAIL_IF(err, !WebPDecodeRGBInto(bytes, size, out->rgb, room, f.width * 3), GLOFND_E_FORMAT,
            "'%.380s' is a corrupt WebP, or ends too early", name);
    return GLOFND_OK;
}
#else
int gf_image_reads_webp(void) { return 0; }

glofnd_status gf_webp_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                             gf_image *out) {
    (void)bytes, (void)size, (void)hint, (void)out;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "'%.300s' is a WebP, and this build is without libwebp (Debian: libwebp-dev)", name);
}
#endif

/* ----- images in memory, and the choice of a decoder by the first bytes ----- */

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

static int has_magic(const uint8_t *bytes, size_t size, size_t at, const char *magic, size_t n) {
    return size >= at + n && memcmp(bytes + at, magic, n) == 0;
}

static int is_jpeg(const uint8_t *bytes, size_t size) { return has_magic(bytes, size, 0, "\xff\xd8\xff", 3); }
static int is_png(const uint8_t *bytes, size_t size) { return has_magic(bytes, size, 0, "\x89PNG\r\n\x1a\n", 8); }
static int is_webp(const uint8_t *bytes, size_t size) {
    return has_magic(bytes, size, 0, "RIFF", 4) && has_magic(bytes, size, 8, "WEBP", 4);
}

int gf_image_begins(const uint8_t *bytes, size_t size) {
    return is_jpeg(bytes, size) || is_png(bytes, size) || (is_webp(bytes, size) && gf_image_reads_webp());
}

/* Other formats that occur under the name .jpg, with ImageMagick's command that converts them. */
static const char *foreign_format(const uint8_t *bytes, size_t size) {
    if (size == 0) return "it is empty";
    if (has_magic(bytes, size, 0, "GIF8", 4)) return "it is a GIF; convert 'gif:FILE[0]' FILE.png makes a PNG of its first image";
    if (has_magic(bytes, size, 0, "BM", 2)) return "it looks like a BMP; convert bmp:FILE FILE.png makes a PNG";
    if (has_magic(bytes, size, 0, "II*", 3) || has_magic(bytes, size, 0, "MM\0*", 4))
        return "it is a TIFF; convert 'tiff:FILE[0]' FILE.png makes a PNG of its first page";
    if (has_magic(bytes, size, 4, "ftyp", 4)) return "it looks like HEIF or AVIF";
    if (has_magic(bytes, size, 0, "<", 1)) return "it looks like HTML";
    return "its first bytes are of none of them";
}

glofnd_status gf_image_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                              gf_image *out) {
    if (is_jpeg(bytes, size)) return gf_jpeg_decode(err, name, bytes, size, hint, out);
    if (is_png(bytes, size)) return gf_png_decode(err, name, bytes, size, hint, out);
    if (is_webp(bytes, size)) return gf_webp_decode(err, name, bytes, size, hint, out);
    GF_FAIL(err, GLOFND_E_FORMAT, "'%.380s' is neither JPEG, PNG nor WebP: %s", name, foreign_format(bytes, size));
}

const char *gf_image_endings(void) { return gf_image_reads_webp() ? ".jpg, .jpeg, .png or .webp" : ".jpg, .jpeg or .png"; }
