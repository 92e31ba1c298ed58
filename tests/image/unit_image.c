/* unit_image.c - JPEG and PNG against PIL's pixels; corrupt, foreign and too large files: a status, a message with the name, no
 * crash. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "fixtures/image_golden.h"
#include "image/image.h"
#include "io/blockfile.h"
#include "support/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN (sizeof golden_images / sizeof golden_images[0])

static const golden_image *golden(const char *name) {
    for (size_t i = 0; i < GOLDEN; i++) {
        if (strcmp(golden_images[i].name, name) == 0) return &golden_images[i];
    }
    fail_msg("no golden image %s", name);
    return NULL;
}

/* 0: exact. */
static const gf_decode_hint *fast(int shrink_to) {
    static gf_decode_hint hint;
    hint = (gf_decode_hint){.fast = 1, .shrink_to = shrink_to};
    return shrink_to > 0 ? &hint : NULL;
}

static size_t pixel_bytes(const gf_image *m) { return (size_t)3 * (size_t)m->width * (size_t)m->height; }

TEST(pixels_are_those_of_pil) {
    gf_image m = {0}; /* one image for all: its memory is reused */
    for (size_t i = 0; i < GOLDEN; i++) {
        const golden_image *g = &golden_images[i];
        gf_error err = {""};
        if (gf_image_decode(&err, g->name, g->bytes, g->size, 0, &m) != GLOFND_OK) fail_msg("%s: %s", g->name, err.text);
        if (m.width != g->width || m.height != g->height) fail_msg("%s: %d x %d", g->name, m.width, m.height);
        if (gf_crc32c(0, m.rgb, pixel_bytes(&m)) != g->crc) fail_msg("%s: other pixels", g->name);
    }
    gf_image_free(&m);
}

static gf_image make_picture(int width, int height) {
    gf_image m = {0};
    rng g = {7};
    assert_int_equal(gf_image_resize(NULL, &m, width, height), GLOFND_OK);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            uint8_t *p = m.rgb + 3 * (y * width + x);
            p[0] = (uint8_t)(x * 255 / width);
            p[1] = (uint8_t)(y * 255 / height);
            p[2] = (uint8_t)(100 + rng_below(&g, 8));
        }
    }
    return m;
}

TEST(png_comes_back_the_same) {
    gf_image m = make_picture(37, 21), back = {0};
    uint8_t *bytes;
    size_t size;
    gf_error err = {""};
    assert_int_equal(gf_image_encode_png(&err, &m, &bytes, &size), GLOFND_OK);
    assert_int_equal(gf_image_decode(&err, "a", bytes, size, 0, &back), GLOFND_OK);
    assert_int_equal(back.width, 37);
    assert_int_equal(back.height, 21);
    assert_memory_equal(back.rgb, m.rgb, pixel_bytes(&m));
    free(bytes);
    gf_image_free(&m);
    gf_image_free(&back);
}

/* Mean over the k x k pixels of m that pixel (x, y) of its reduction by k stands for. */
static double block_mean(const gf_image *m, int k, int x, int y, int channel) {
    double sum = 0;
    for (int i = 0; i < k * k; i++) sum += m->rgb[3 * ((k * y + i / k) * m->width + k * x + i % k) + channel];
    return sum / (k * k);
}

/* `back` is m reduced by k. Measured for k = 1, 2, 4, 8: at most 7, 5, 3.4, 2.7, in the mean 1.2, 0.76, 0.59, 0.45. Steps of
 * quantisation at quality 95 are 1 to 10, and colours are kept for 2 x 2 pixels. */
static void expect_close(const gf_image *back, const gf_image *m, int k) {
    const double max_limit = k == 1 ? 8 : k == 2 ? 6 : 4, mean_limit = k == 1 ? 1.3 : k == 2 ? 0.9 : 0.7;
    double max = 0, sum = 0;
    assert_true(back->width == m->width / k && back->height == m->height / k);
    for (int i = 0; i < (int)pixel_bytes(back); i++) {
        const double d = fabs(back->rgb[i] - block_mean(m, k, i / 3 % back->width, i / 3 / back->width, i % 3));
        max = d > max ? d : max;
        sum += d;
    }
    const double mean = sum / (double)pixel_bytes(back);
    if (max > max_limit || mean > mean_limit) fail_msg("1/%d: off by %g, %g in the mean", k, max, mean);
}

TEST(jpeg_comes_back_close_and_smaller_when_asked) {
    gf_image m = make_picture(200, 120), back = {0};
    uint8_t *bytes;
    size_t size;
    gf_error err = {""};
    assert_int_equal(gf_image_encode_jpeg(&err, &m, 95, &bytes, &size), GLOFND_OK);
    assert_int_equal(gf_image_decode(&err, "a", bytes, size, 0, &back), GLOFND_OK);
    expect_close(&back, &m, 1);
    static const struct {
        int shrink_to, by;
    } cases[] = {{1, 8}, {15, 8}, {16, 4}, {30, 4}, {31, 2}, {60, 2}, {61, 1}, {4000, 1}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        assert_int_equal(gf_image_decode(&err, "a", bytes, size, fast(cases[k].shrink_to), &back), GLOFND_OK);
        expect_close(&back, &m, cases[k].by);
    }
    free(bytes);
    gf_image_free(&m);
    gf_image_free(&back);
}

static void refused(const uint8_t *bytes, size_t size, int shrink_to, const char *word) {
    gf_error err = {""};
    gf_image m = {0};
    assert_int_equal(gf_image_decode(&err, "some/file.jpg", bytes, size, fast(shrink_to), &m), GLOFND_E_FORMAT);
    if (!strstr(err.text, "some/file.jpg") || !strstr(err.text, word)) fail_msg("the message is: %s", err.text);
    gf_image_free(&m);
}

TEST(foreign_files_are_named) {
    refused((const uint8_t *)"", 0, 0, "empty");
    refused((const uint8_t *)"GIF89a......", 12, 0, "it is a GIF; convert 'gif:FILE[0]' FILE.png makes");
    refused((const uint8_t *)"BM..........", 12, 0, "a BMP; convert bmp:FILE FILE.png makes");
    refused((const uint8_t *)"II*\0........", 12, 0, "it is a TIFF; convert 'tiff:FILE[0]' FILE.png makes");
    refused((const uint8_t *)"MM\0*........", 12, 0, "it is a TIFF; convert 'tiff:FILE[0]' FILE.png makes");
    if (gf_image_reads_webp()) refused((const uint8_t *)"RIFF....WEBPVP8 ", 16, 0, "WebP");
    refused((const uint8_t *)"<html>not found</html>", 22, 0, "HTML");
    refused((const uint8_t *)"\xff\xd8", 2, 0, "neither");
    refused((const uint8_t *)"\xff\xd8\xff\xd9", 4, 0, "JPEG");
}

/* Every prefix of every file. */
TEST(files_cut_short_are_refused) {
    gf_image m = {0};
    for (size_t i = 0; i < GOLDEN; i++) {
        const golden_image *g = &golden_images[i];
        for (size_t n = 0; n < g->size; n++) {
            uint8_t *copy = malloc(n + 1); /* of the exact size, so that a sanitizer sees a read beyond it */
            assert_non_null(copy);
            memcpy(copy, g->bytes, n);
            gf_error err = {""};
            const glofnd_status status = gf_image_decode(&err, g->name, copy, n, 0, &m);
            if (status != GLOFND_E_FORMAT) fail_msg("%s cut at %zu of %zu: status %d", g->name, n, g->size, status);
            assert_non_null(strstr(err.text, g->name));
            free(copy);
        }
    }
    gf_image_free(&m);
}

/* Rows of two images of one size that are equal, from the top. */
static int equal_rows(const gf_image *a, const gf_image *b) {
    const size_t stride = (size_t)a->width * 3;
    int y = 0;
    assert_true(a->width == b->width && a->height == b->height);
    while (y < a->height && memcmp(a->rgb + (size_t)y * stride, b->rgb + (size_t)y * stride, stride) == 0) y++;
    return y;
}

/* The data of a scan ends, but the file continues: an error in exact mode, a gray rest in fast mode. */
TEST(torn_data_is_refused_in_exact_mode_only) {
    const golden_image *g = golden("jpeg_gray");
    const size_t n = g->size - 60;
    uint8_t *copy = malloc(n + 2);
    assert_non_null(copy);
    memcpy(copy, g->bytes, n);
    memcpy(copy + n, "\xff\xd9", 2);
    refused(copy, n + 2, 0, "cut short");
    gf_image torn = {0}, whole = {0};
    assert_int_equal(gf_image_decode(NULL, "a", g->bytes, g->size, fast(4000), &whole), GLOFND_OK);
    assert_int_equal(gf_image_decode(NULL, "a", copy, n + 2, fast(4000), &torn), GLOFND_OK);
    const uint8_t *last = torn.rgb + pixel_bytes(&torn) - 3;
    assert_int_equal(equal_rows(&torn, &whole), 8); /* the tear is in the second row of blocks */
    assert_memory_equal(last, "\x80\x80\x80", 3);
    refused(copy, n, 8, "cut short"); /* a file that just stops is refused in both modes */
    gf_image_free(&torn);
    gf_image_free(&whole);
    free(copy);
}

/* ----- single flipped bits ----- */

static glofnd_status decode_flipped(const golden_image *g, size_t bit, const gf_decode_hint *hint, int fill, uint8_t *copy,
                                    gf_image *m) {
    gf_error err = {""};
    memcpy(copy, g->bytes, g->size);
    copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (m->rgb) memset(m->rgb, fill, m->capacity);
    const glofnd_status status = gf_image_decode(&err, g->name, copy, g->size, hint, m);
    if (status != GLOFND_OK && (status != GLOFND_E_FORMAT || !strstr(err.text, g->name)))
        fail_msg("%s, bit %zu: status %d, %s", g->name, bit, status, err.text);
    return status;
}

/* 1: byte `at` of a PNG belongs to the data or the checksum of an ancillary chunk; -1: to its length or type; 0: to none. */
static int ancillary_part(const golden_image *g, size_t at) {
    size_t chunk = 8;
    while (chunk < g->size) {
        const uint8_t *p = g->bytes + chunk;
        const size_t end = chunk + 12 + ((size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
        if (at >= chunk && at < end) return !(p[4] & 0x20) ? 0 : at >= chunk + 8 ? 1 : -1;
        chunk = end;
    }
    return 0;
}

/* PNG has checksums: a flipped bit is never seen as other pixels, and only an ancillary chunk may be spoiled. */
TEST(flipped_bits_of_png_are_refused) {
    gf_image m = {0};
    uint8_t copy[4096];
    for (size_t i = 0; i < GOLDEN; i++) {
        const golden_image *g = &golden_images[i];
        if (strncmp(g->name, "png", 3) != 0) continue;
        assert_true(g->size <= sizeof copy);
        for (size_t bit = 0; bit < 8 * g->size; bit++) {
            const int part = ancillary_part(g, bit / 8);
            const glofnd_status status = decode_flipped(g, bit, NULL, 0, copy, &m);
            if (part >= 0 && (status == GLOFND_OK) != part) fail_msg("%s, bit %zu: status %d", g->name, bit, status);
            if (status != GLOFND_OK) continue;
            assert_true(m.width == g->width && m.height == g->height && gf_crc32c(0, m.rgb, pixel_bytes(&m)) == g->crc);
        }
    }
    gf_image_free(&m);
}

/* The frame header of a JPEG. As decoders do, passes over bytes that belong to no segment. */
static const uint8_t *frame_header(const uint8_t *bytes, size_t size) {
    size_t at = 2;
    while (at + 9 < size) {
        const uint8_t marker = bytes[at + 1];
        if (bytes[at] != 0xff || marker == 0xff || marker < 0xc0) {
            at++;
            continue;
        }
        if (marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) return bytes + at;
        at += 2u + (size_t)(bytes[at + 2] << 8 | bytes[at + 3]);
    }
    fail_msg("no frame header");
    return NULL;
}

/* m has the size in the header, reduced as far as its shorter side keeps `shrink_to` pixels. */
static void expect_header_size(const gf_image *m, const uint8_t *header, int shrink_to) {
    const int height = header[5] << 8 | header[6], width = header[7] << 8 | header[8];
    const int shorter = width < height ? width : height;
    int by = shrink_to ? 8 : 1;
    while (by > 1 && (shorter + by - 1) / by < shrink_to) by /= 2;
    if (m->width != (width + by - 1) / by || m->height != (height + by - 1) / by)
        fail_msg("%d x %d of %d x %d", m->width, m->height, width, height);
}

/* JPEG has none: a flipped bit may change pixels, but the image has the size of its header, and every pixel is written. */
TEST(flipped_bits_of_jpeg_do_no_harm) {
    gf_image m = {0}, again = {0};
    uint8_t copy[4096];
    for (size_t i = 0; i < GOLDEN; i++) {
        const golden_image *g = &golden_images[i];
        if (strncmp(g->name, "jpeg", 4) != 0) continue;
        assert_true(g->size <= sizeof copy);
        for (size_t bit = i % 3; bit < 8 * g->size; bit += 3) {
            const int shrink_to = bit % 2 ? 0 : 8;
            const glofnd_status status = decode_flipped(g, bit, fast(shrink_to), 0x00, copy, &m);
            assert_int_equal(decode_flipped(g, bit, fast(shrink_to), 0xff, copy, &again), status);
            if (status != GLOFND_OK) continue;
            expect_header_size(&m, frame_header(copy, g->size), shrink_to);
            assert_memory_equal(m.rgb, again.rgb, pixel_bytes(&m));
        }
    }
    gf_image_free(&m);
    gf_image_free(&again);
}

/* Sizes are believed only up to the limits, and memory is taken only after the check. */
TEST(bombs_are_refused) {
    const golden_image *g = golden("jpeg_gray");
    uint8_t *copy = malloc(g->size);
    assert_non_null(copy);
    memcpy(copy, g->bytes, g->size);
    for (size_t i = 0; i + 8 < g->size; i++) {
        if (copy[i] == 0xff && copy[i + 1] == 0xc0) memcpy(copy + i + 5, "\xff\xdc\xff\xdc", 4); /* 65500 x 65500 */
    }
    refused(copy, g->size, 0, "more than accepted");
    free(copy);

    gf_image m = {0};
    gf_error err = {""};
    assert_int_equal(gf_image_resize(&err, &m, 65500, 4099), GLOFND_E_FORMAT);
    assert_int_equal(gf_image_resize(&err, &m, 70000, 1), GLOFND_E_FORMAT);
    assert_int_equal(gf_image_resize(&err, &m, 0, 1), GLOFND_E_FORMAT);
    assert_null(m.rgb);
    assert_int_equal(gf_image_resize(&err, &m, 65500, 1), GLOFND_OK);
    const uint8_t *kept = m.rgb;
    assert_int_equal(gf_image_resize(&err, &m, 10, 10), GLOFND_OK);
    assert_ptr_equal(m.rgb, kept);
    gf_image_free(&m);
}

/* The last scan of a progressive file over and over: 600 scans of a few bytes each. */
TEST(endless_scans_are_refused) {
    const golden_image *g = golden("jpeg_444_progressive");
    size_t start = g->size - 3;
    while (start > 0 && !(g->bytes[start] == 0xff && g->bytes[start + 1] == 0xda)) start--;
    const size_t scan = g->size - 2 - start, n = start + 600 * scan;
    uint8_t *copy = malloc(n + 2);
    assert_non_null(copy);
    memcpy(copy, g->bytes, start);
    for (size_t k = 0; k < 600; k++) memcpy(copy + start + k * scan, g->bytes + start, scan);
    memcpy(copy + n, "\xff\xd9", 2);
    refused(copy, n + 2, 0, "scans");
    free(copy);
}

/* A PNG header of 65500 x 65500 with a right checksum. */
TEST(png_bombs_are_refused) {
    static const uint8_t bomb[] = {0x89, 'P',  'N',  'G',  '\r', '\n', 0x1a, '\n', 0,    0,   0,   13,   'I',  'H',  'D',
                                   'R',  0,    0,    0xff, 0xdc, 0,    0,    0xff, 0xdc, 8,   2,   0,    0,    0,    0x1c,
                                   0x35, 0x81, 0x4c, 0,    0,    0,    0,    'I',  'D',  'A', 'T', 0x35, 0xaf, 0x06, 0x1e};
    refused(bomb, sizeof bomb, 0, "65500");
}

TEST(nothing_to_encode_is_refused) {
    gf_image none = {0}, m = make_picture(4, 4);
    uint8_t *bytes = NULL;
    size_t size;
    assert_int_equal(gf_image_encode_png(NULL, &none, &bytes, &size), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_image_encode_jpeg(NULL, &none, 90, &bytes, &size), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_image_encode_jpeg(NULL, &m, 101, &bytes, &size), GLOFND_E_ARGUMENT);
    assert_null(bytes);
    gf_image_free(&m);
}

#if !defined(GF_HAVE_PNG) || !defined(GF_HAVE_JPEG)
TEST_SKIP("built without libpng and libjpeg")
#endif
