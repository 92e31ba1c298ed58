/* jpeg.c - JPEG in and out, by libjpeg-turbo.
 *
 * The library reports errors by a callback that must not return: it leaves by longjmp. All data that must survive the jump lives
 * in a job of the calling function, so that no local variable of the function with setjmp changes in between.
 */
#include "image/image.h"

#include <string.h>

#ifdef GF_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#define SCANS_MAX 500 /* of a progressive file: a few bytes per scan could otherwise keep the decoder busy for hours */
#define ROWS_AT_ONCE 8
/* Rows and columns can be skipped; earlier versions had errors in it. */
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 2001000
#define CAN_SKIP 1
#else
#define CAN_SKIP 0
#endif

typedef struct reporter {
    struct jpeg_error_mgr base; /* first: libjpeg hands us a pointer to it */
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
    int ends_early, data_ends_early;
} reporter;

typedef struct decode_job {
    struct jpeg_decompress_struct c;
    struct jpeg_progress_mgr progress;
    reporter report;
    gf_error *err;
    const char *name;
    const uint8_t *bytes;
    size_t size;
    gf_decode_hint hint;
    gf_region wanted;
    gf_part part;
    gf_image *out;
} decode_job;

static void leave_by_jump(j_common_ptr c) {
    reporter *r = (reporter *)c->err;
    c->err->format_message(c, r->text);
    longjmp(r->back, 1);
}

static void note_warning(j_common_ptr c, int level) {
    reporter *r = (reporter *)c->err;
    if (level >= 0) return; /* a trace, not a warning */
    if (c->err->msg_code == JWRN_JPEG_EOF) r->ends_early = 1;
    if (c->err->msg_code == JWRN_HIT_MARKER) r->data_ends_early = 1;
}

static void stay_silent(j_common_ptr c) { (void)c; }

static void watch_scans(j_common_ptr c) {
    if (!c->is_decompressor || ((j_decompress_ptr)c)->input_scan_number <= SCANS_MAX) return;
    reporter *r = (reporter *)c->err;
    c->err->msg_code = 0;
    snprintf(r->text, sizeof r->text, "more than %d scans", SCANS_MAX);
    longjmp(r->back, 1);
}

static struct jpeg_error_mgr *report_to(reporter *r) {
    jpeg_std_error(&r->base);
    r->base.error_exit = leave_by_jump;
    r->base.emit_message = note_warning;
    r->base.output_message = stay_silent;
    return &r->base;
}

static int64_t reduced_pixels(const decode_job *j, unsigned by) {
    return ((int64_t)j->wanted.width + by - 1) / by * (((int64_t)j->wanted.height + by - 1) / by);
}

/* Pixels whose memory the decoder needs: all of the image if its coefficients come in several scans, else those of the output. An
 * image that is too large is reduced, where its user can take that. */
static glofnd_status take_pixels(gf_error *err, decode_job *j) {
    const int several = jpeg_has_multiple_scans(&j->c), may_reduce = j->hint.choose || j->hint.shrink_to > 0;
    const int64_t all = (int64_t)j->c.image_width * j->c.image_height, max = gf_hint_max_pixels(&j->hint);
    while (!several && may_reduce && j->c.scale_denom < 8 && reduced_pixels(j, j->c.scale_denom) > max) j->c.scale_denom *= 2;
    return gf_image_take(err, &j->hint, (int)j->c.image_width, (int)j->c.image_height,
                         several ? all : reduced_pixels(j, j->c.scale_denom));
}

/* Four inks as JPEG files hold them, which is inverted (Adobe's convention, that PIL assumes for all files). */
static void inks_to_rgb(uint8_t *rgb, const uint8_t *inks, size_t pixels) {
    for (size_t i = 0; i < pixels; i++) {
        const unsigned light = inks[4 * i + 3];
        for (int k = 0; k < 3; k++) {
            const unsigned t = (255u - inks[4 * i + k]) * light + 128;
            rgb[3 * i + k] = (uint8_t)(light - ((t + (t >> 8)) >> 8)); /* the product by 255, rounded */
        }
    }
}

typedef struct range {
    unsigned first, end;
} range;

/* The output pixels for n pixels from `first` of an axis: with those whose colour is mixed into theirs, within the image. */
static range reduced(int first, int n, unsigned by, int sampling, unsigned max) {
    const int64_t margin = 2 * sampling, low = first / (int64_t)by - margin, high = ((int64_t)first + n + by - 1) / by + margin;
    const range r = {low < 0 ? 0 : (unsigned)low, high > (int64_t)max ? max : (unsigned)high};
    return r.first < r.end ? r : (range){0, max};
}

/* Leaves columns out, where that is possible; the decoder takes some more. Sets the part, and the rows to read. */
static range narrow(decode_job *j) {
    const unsigned by = j->c.scale_denom;
    const range across = reduced(j->wanted.left, j->wanted.width, by, j->c.max_h_samp_factor, j->c.output_width);
    const range down = reduced(j->wanted.top, j->wanted.height, by, j->c.max_v_samp_factor, j->c.output_height);
    JDIMENSION left = across.first, width = across.end - across.first;
#if CAN_SKIP
    if (width < j->c.output_width) jpeg_crop_scanline(&j->c, &left, &width);
#endif
    j->part = (gf_part){(int)j->c.image_width, (int)j->c.image_height, (int)left, (int)down.first, (int)by};
    return down;
}

static void skip_to(decode_job *j, unsigned row) {
#if CAN_SKIP
    if (row > j->c.output_scanline) jpeg_skip_scanlines(&j->c, row - j->c.output_scanline);
#else
    (void)j, (void)row;
#endif
}

static void read_rows(decode_job *j, range rows) {
    const size_t width = j->c.output_width;
    JSAMPARRAY inks = NULL; /* of the decoder's own memory */
    if (j->c.out_color_space == JCS_CMYK)
        inks = j->c.mem->alloc_sarray((j_common_ptr)&j->c, JPOOL_IMAGE, (JDIMENSION)(4 * width), 1);
    skip_to(j, rows.first);
    while (j->c.output_scanline < rows.end) {
        const unsigned left = rows.end - j->c.output_scanline;
        JSAMPROW row[ROWS_AT_ONCE];
        row[0] = j->out->rgb + 3 * width * (j->c.output_scanline - rows.first);
        for (int i = 1; i < ROWS_AT_ONCE; i++) row[i] = row[i - 1] + 3 * width;
        if (inks && jpeg_read_scanlines(&j->c, inks, 1) == 1) inks_to_rgb(row[0], inks[0], width);
        if (!inks) jpeg_read_scanlines(&j->c, row, left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE);
    }
}

/* The text of a failure, with the name of the image. */
static glofnd_status with_name(const decode_job *j, glofnd_status status) {
    if (status == GLOFND_OK || !j->err) return status;
    const gf_error why = *j->err;
    return gf_fail(j->err, status, "'%.300s': %.180s", j->name, why.text);
}

static glofnd_status decode_steps(decode_job *j) {
    jpeg_create_decompress(&j->c);
    j->progress.progress_monitor = watch_scans;
    j->c.progress = &j->progress;
    jpeg_mem_src(&j->c, j->bytes, (unsigned long)j->size);
    jpeg_read_header(&j->c, TRUE);
    FAIL_IF(j->err, (int64_t)j->c.image_width * j->c.image_height > GF_IMAGE_PIXELS_MAX, GLOFND_E_FORMAT,
            "'%.380s': %u x %u pixels are more than accepted", j->name, j->c.image_width, j->c.image_height);
    /* Colour space, reduction and, in j->wanted, the region in pixels of the image. */
    const int width = (int)j->c.image_width, height = (int)j->c.image_height;
    /* The largest power of two by which the image can be reduced so that its shorter side keeps `shrink_to` pixels. */
    const int shorter = width < height ? width : height, keep = j->hint.fast ? j->hint.shrink_to : 0;
    int by = keep > 0 ? 8 : 1;
    while (by > 1 && (shorter + by - 1) / by < keep) by /= 2;
    j->wanted = (gf_region){0, 0, width, height};
    if (j->hint.choose) {
        const int min = by;
        const gf_region r = j->hint.choose(j->hint.user, width, height, &by);
        /* Rows and columns can be skipped without changing the others, but not in files of four inks, of arithmetic coding and,
         * in exact mode, in progressive ones (blocks smoothed by their neighbours). */
        const int skips = j->c.num_components != 4 && !j->c.arith_code && (j->hint.fast || !j->c.progressive_mode);
        if (CAN_SKIP && skips) j->wanted = r;
        if (!j->hint.fast || by < min || by > 8) by = min;
    }
    j->c.out_color_space = j->c.num_components == 4 ? JCS_CMYK : JCS_RGB;
    j->c.scale_num = 1;
    j->c.scale_denom = (unsigned)by;
    if (j->hint.fast) j->c.do_fancy_upsampling = FALSE;
    TRY(with_name(j, take_pixels(j->err, j)));
    jpeg_start_decompress(&j->c);
    const range rows = narrow(j);
    TRY(with_name(j, gf_image_resize(j->err, j->out, (int)j->c.output_width, (int)(rows.end - rows.first))));
    j->out->part = j->part;
    read_rows(j, rows);
    /* Rows after the wanted ones are skipped, except the last: so a file that is cut short is detected. In fast mode the decoder
     * stops here. */
    const unsigned end = j->c.output_height, rest = end - j->c.output_scanline;
    if (rest && !j->hint.fast) {
        JSAMPARRAY unused = j->c.mem->alloc_sarray((j_common_ptr)&j->c, JPOOL_IMAGE, 3 * j->c.output_width, 1);
        skip_to(j, end - 1);
        while (j->c.output_scanline < end) jpeg_read_scanlines(&j->c, unused, 1);
    }
    if (rest && j->hint.fast) jpeg_abort_decompress(&j->c);
    else jpeg_finish_decompress(&j->c);
    const int cut_short = j->report.ends_early || (j->report.data_ends_early && !j->hint.fast);
    FAIL_IF(j->err, cut_short, GLOFND_E_FORMAT, "'%.380s': JPEG cut short", j->name);
    return GLOFND_OK;
}

static glofnd_status decode_guarded(decode_job *j) {
    if (setjmp(j->report.back)) {
        const int memory = j->report.base.msg_code == JERR_OUT_OF_MEMORY;
        return gf_fail(j->err, memory ? GLOFND_E_MEMORY : GLOFND_E_FORMAT, "'%.300s': JPEG: %.180s", j->name, j->report.text);
    }
    return decode_steps(j);
}

glofnd_status gf_jpeg_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                             gf_image *out) {
    decode_job j = {
        .err = err, .name = name, .bytes = bytes, .size = size, .hint = hint ? *hint : (gf_decode_hint){0}, .out = out};
    j.c.err = report_to(&j.report);
    const glofnd_status status = decode_guarded(&j);
    jpeg_destroy_decompress(&j.c);
    return status;
}

/* ----- out ----- */

typedef struct encode_job {
    struct jpeg_compress_struct c;
    reporter report;
    const gf_image *m;
    int quality;
    unsigned char *bytes;
    unsigned long size;
} encode_job;

static void encode_steps(encode_job *j) {
    jpeg_create_compress(&j->c);
    jpeg_mem_dest(&j->c, &j->bytes, &j->size);
    j->c.image_width = (JDIMENSION)j->m->width;
    j->c.image_height = (JDIMENSION)j->m->height;
    j->c.input_components = 3;
    j->c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&j->c);
    jpeg_set_quality(&j->c, j->quality, TRUE);
    jpeg_start_compress(&j->c, TRUE);
    while (j->c.next_scanline < j->c.image_height) {
        JSAMPROW row = j->m->rgb + (size_t)3 * (size_t)j->m->width * j->c.next_scanline;
        jpeg_write_scanlines(&j->c, &row, 1);
    }
    jpeg_finish_compress(&j->c);
}

static int encode_guarded(encode_job *j) {
    if (setjmp(j->report.back)) return 0;
    encode_steps(j);
    return 1;
}

glofnd_status gf_image_encode_jpeg(gf_error *err, const gf_image *m, int quality, uint8_t **bytes, size_t *size) {
    FAIL_IF(err, !m->rgb || m->width < 1 || m->height < 1, GLOFND_E_ARGUMENT, "no image to encode");
    FAIL_IF(err, quality < 1 || quality > 100, GLOFND_E_ARGUMENT, "JPEG quality is %d; it must be 1 to 100", quality);
    encode_job j = {.m = m, .quality = quality};
    j.c.err = report_to(&j.report);
    const int done = encode_guarded(&j);
    jpeg_destroy_compress(&j.c);
    if (!done) {
        free(j.bytes);
        GF_FAIL(err, GLOFND_E_MEMORY, "no JPEG of %d x %d pixels: %.180s", m->width, m->height, j.report.text);
    }
    *bytes = j.bytes;
    *size = j.size;
    return GLOFND_OK;
}

#else

glofnd_status gf_jpeg_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                             gf_image *out) {
    (void)bytes, (void)size, (void)hint, (void)out;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "'%.300s' is a JPEG, and this program was built without libjpeg", name);
}

glofnd_status gf_image_encode_jpeg(gf_error *err, const gf_image *m, int quality, uint8_t **bytes, size_t *size) {
    (void)m, (void)quality, (void)bytes, (void)size;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "this program was built without libjpeg, which writing JPEG needs");
}

#endif
