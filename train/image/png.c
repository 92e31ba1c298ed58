/* png.c - PNG in and out, by libpng. As in jpeg.c, errors leave by longjmp; data that survives it is in the caller's job. */
#include "image/image.h"

#ifdef GF_HAVE_PNG

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "util/array.h"

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

static void leave(png_structp png, png_const_charp text) {
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

static void set_limits(png_structp png) {
    png_set_user_limits(png, GF_IMAGE_SIDE_MAX, GF_IMAGE_SIDE_MAX);
    png_set_chunk_malloc_max(png, CHUNK_MAX);
    png_set_chunk_cache_max(png, 128);
}

/* Every PNG becomes 8-bit RGB. Transparency is dropped, not blended. */
static void set_transforms(png_structp png, png_infop info) {
    const int colour = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
    if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (colour == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (depth == 16) png_set_strip_16(png);
    if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

static void read_pixels(png_job *j) {
    const size_t stride = (size_t)3 * (size_t)j->m->width;
    if (png_get_rowbytes(j->png, j->info) != stride) png_error(j->png, "unexpected row size");
    j->rows = malloc((size_t)j->m->height * sizeof *j->rows);
    if (!j->rows) {
        j->no_memory = 1;
        png_error(j->png, "no memory");
    }
    for (int y = 0; y < j->m->height; y++) j->rows[y] = j->m->rgb + stride * (size_t)y;
    png_read_image(j->png, j->rows);
    png_read_end(j->png, NULL);
}

static glofnd_status decode_steps(gf_error *err, png_job *j) {
    png_set_read_fn(j->png, j, take_bytes);
    set_limits(j->png);
    png_read_info(j->png, j->info);
    const int width = (int)png_get_image_width(j->png, j->info), height = (int)png_get_image_height(j->png, j->info);
    TRY(gf_image_take(err, j->hint, width, height, (int64_t)width * height));
    TRY(gf_image_resize(err, j->m, width, height));
    set_transforms(j->png, j->info);
    read_pixels(j);
    return GLOFND_OK;
}

static glofnd_status decode_guarded(gf_error *err, const char *name, png_job *j) {
    if (setjmp(j->back)) {
        return gf_fail(err, j->no_memory ? GLOFND_E_MEMORY : GLOFND_E_FORMAT, "'%.300s': PNG: %.150s", name, j->text);
    }
    const glofnd_status status = decode_steps(err, j);
    if (status != GLOFND_OK) {
        gf_error why = err ? *err : (gf_error){""};
        return gf_fail(err, status, "'%.300s': %.180s", name, why.text);
    }
    return status;
}

glofnd_status gf_png_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                            gf_image *out) {
    png_job j = {.in = bytes, .left = size, .hint = hint, .m = out};
    j.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, leave, stay_silent);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    glofnd_status status = GLOFND_E_MEMORY;
    if (j.info) status = decode_guarded(err, name, &j);
    else gf_fail(err, status, "no memory to decode '%.300s'", name);
    png_destroy_read_struct(&j.png, &j.info, NULL);
    free(j.rows);
    return status;
}

/* ----- out ----- */

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
    j.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &j, leave, stay_silent);
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
