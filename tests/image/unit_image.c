/* unit_image.c - JPEG and PNG against PIL's pixels, and what is damaged, foreign or too large: a status, a message with the
 * name, no crash. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixtures/image_golden.h"
#include "image/image.h"
#include "io/crc32c.h"
#include "support/random.h"

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

static void pixels_are_those_of_pil(void **state) {
    (void)state;
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

static void png_comes_back_the_same(void **state) {
    (void)state;
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

static void jpeg_comes_back_similar_and_smaller_when_asked(void **state) {
    (void)state;
    gf_image m = make_picture(200, 120), back = {0};
    uint8_t *bytes;
    size_t size;
    gf_error err = {""};
    assert_int_equal(gf_image_encode_jpeg(&err, &m, 95, &bytes, &size), GLOFND_OK);
    assert_int_equal(gf_image_decode(&err, "a", bytes, size, 0, &back), GLOFND_OK);
    for (size_t i = 0; i < pixel_bytes(&m); i++) assert_true(abs(back.rgb[i] - m.rgb[i]) < 24);
    static const struct {
        int shrink_to, width, height;
    } cases[] = {{1, 25, 15},   {15, 25, 15},  {16, 50, 30},   {30, 50, 30},
                 {31, 100, 60}, {60, 100, 60}, {61, 200, 120}, {4000, 200, 120}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        assert_int_equal(gf_image_decode(&err, "a", bytes, size, fast(cases[k].shrink_to), &back), GLOFND_OK);
        assert_int_equal(back.width, cases[k].width);
        assert_int_equal(back.height, cases[k].height);
        const int x = back.width / 2, y = back.height / 2;
        assert_true(abs(back.rgb[3 * (y * back.width + x)] - 127) < 12);
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

static void foreign_files_are_named(void **state) {
    (void)state;
    refused((const uint8_t *)"", 0, 0, "empty");
    refused((const uint8_t *)"GIF89a......", 12, 0, "GIF");
    refused((const uint8_t *)"RIFF....WEBPVP8 ", 16, 0, "WebP");
    refused((const uint8_t *)"<html>not found</html>", 22, 0, "HTML");
    refused((const uint8_t *)"\xff\xd8", 2, 0, "neither");
    refused((const uint8_t *)"\xff\xd8\xff\xd9", 4, 0, "JPEG");
}

/* Every prefix of every file: refused, or (a PNG or JPEG that lacks only its last bytes) decoded. */
static void files_cut_short_are_damaged(void **state) {
    (void)state;
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
            assert_non_null(strstr(err.text, n ? g->name : ""));
            free(copy);
        }
    }
    gf_image_free(&m);
}

/* The data of a scan ends, but the file goes on: an error where numbers matter, a gray rest where speed does. */
static void torn_data_is_damaged_in_exact_mode_only(void **state) {
    (void)state;
    const golden_image *g = golden("jpeg_420");
    const size_t n = g->size - 60;
    uint8_t *copy = malloc(n + 2);
    assert_non_null(copy);
    memcpy(copy, g->bytes, n);
    memcpy(copy + n, "\xff\xd9", 2);
    refused(copy, n + 2, 0, "cut short");
    gf_image m = {0};
    assert_int_equal(gf_image_decode(NULL, "a", copy, n + 2, fast(8), &m), GLOFND_OK);
    refused(copy, n, 8, "cut short"); /* a file that just stops is damaged in both */
    gf_image_free(&m);
    free(copy);
}

static void flipped_bits_do_no_harm(void **state) {
    (void)state;
    rng r = {3};
    gf_image m = {0};
    for (size_t i = 0; i < GOLDEN; i++) {
        const golden_image *g = &golden_images[i];
        uint8_t *copy = malloc(g->size);
        assert_non_null(copy);
        for (int k = 0; k < 300; k++) {
            memcpy(copy, g->bytes, g->size);
            for (int j = 0; j < 1 + k % 3; j++) copy[rng_below(&r, (int64_t)g->size)] ^= (uint8_t)(1 << rng_below(&r, 8));
            gf_error err = {""};
            const glofnd_status status = gf_image_decode(&err, "a", copy, g->size, fast(k % 2 ? 8 : 0), &m);
            assert_true(status == GLOFND_OK || ((status == GLOFND_E_FORMAT || status == GLOFND_E_MEMORY) && err.text[0]));
        }
        free(copy);
    }
    gf_image_free(&m);
}

/* Sizes are believed only up to the limits, and memory is taken only after the check. */
static void bombs_are_refused(void **state) {
    (void)state;
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
static void endless_scans_are_refused(void **state) {
    (void)state;
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
static void png_bombs_are_refused(void **state) {
    (void)state;
    static const uint8_t bomb[] = {0x89, 'P',  'N',  'G',  '\r', '\n', 0x1a, '\n', 0,    0,   0,   13,   'I',  'H',  'D',
                                   'R',  0,    0,    0xff, 0xdc, 0,    0,    0xff, 0xdc, 8,   2,   0,    0,    0,    0x1c,
                                   0x35, 0x81, 0x4c, 0,    0,    0,    0,    'I',  'D',  'A', 'T', 0x35, 0xaf, 0x06, 0x1e};
    refused(bomb, sizeof bomb, 0, "65500");
}

static void nothing_to_encode_is_refused(void **state) {
    (void)state;
    gf_image none = {0}, m = make_picture(4, 4);
    uint8_t *bytes = NULL;
    size_t size;
    assert_int_equal(gf_image_encode_png(NULL, &none, &bytes, &size), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_image_encode_jpeg(NULL, &none, 90, &bytes, &size), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_image_encode_jpeg(NULL, &m, 101, &bytes, &size), GLOFND_E_ARGUMENT);
    assert_null(bytes);
    gf_image_free(&m);
}

int main(void) {
#if !defined(GF_HAVE_PNG) || !defined(GF_HAVE_JPEG)
    return 77; /* skipped: built without libpng and libjpeg */
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_those_of_pil),
        cmocka_unit_test(png_comes_back_the_same),
        cmocka_unit_test(jpeg_comes_back_similar_and_smaller_when_asked),
        cmocka_unit_test(foreign_files_are_named),
        cmocka_unit_test(files_cut_short_are_damaged),
        cmocka_unit_test(torn_data_is_damaged_in_exact_mode_only),
        cmocka_unit_test(flipped_bits_do_no_harm),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(endless_scans_are_refused),
        cmocka_unit_test(png_bombs_are_refused),
        cmocka_unit_test(nothing_to_encode_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
