/* unit_jpeg_plain.c - which JPEG files are left to a device: files of libjpeg with every sampling, and each of them with
 * something wrong or unusual. What is written for the device has the pixels of the file, and nothing of it is read beyond its
 * end.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "image/image.h"
#include "support/random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_JPEG
#include <jpeglib.h>

enum { WIDTH = 75, HEIGHT = 50, MAX = 1 << 16 };

typedef struct kind {
    int across, down;
    int progressive, restart, gray, rgb, inks, optimized, arithmetic, apart;
} kind;

typedef struct file {
    uint8_t *bytes; /* in memory of exactly that size: a read beyond it is found by sanitizers */
    size_t size;
} file;

static const char comment[] = "\xff\xd8\xff\xd9 is no marker in a comment";

static void set_kind(struct jpeg_compress_struct *c, const kind *k) {
    if (k->gray) jpeg_set_colorspace(c, JCS_GRAYSCALE);
    if (k->rgb) jpeg_set_colorspace(c, JCS_RGB);
    if (!k->gray && !k->rgb && !k->inks) {
        c->comp_info[0].h_samp_factor = k->across;
        c->comp_info[0].v_samp_factor = k->down;
    }
    c->restart_interval = (unsigned)k->restart;
    c->optimize_coding = k->optimized ? TRUE : FALSE;
    c->arith_code = k->arithmetic ? TRUE : FALSE;
    if (k->progressive) jpeg_simple_progression(c);
}

static file encode(const kind *k) {
    static const jpeg_scan_info apart[] = {{1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};
    struct jpeg_compress_struct c = {0};
    struct jpeg_error_mgr report;
    uint8_t row[4 * WIDTH], *bytes = NULL;
    unsigned long size = 0;
    rng g = {7};
    c.err = jpeg_std_error(&report);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &size);
    c.image_width = WIDTH;
    c.image_height = HEIGHT;
    c.input_components = k->inks ? 4 : 3;
    c.in_color_space = k->inks ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&c);
    set_kind(&c, k);
    if (k->apart) c.scan_info = apart, c.num_scans = 3;
    jpeg_start_compress(&c, TRUE);
    jpeg_write_marker(&c, JPEG_COM, (const JOCTET *)comment, sizeof comment);
    for (int y = 0; y < HEIGHT; y++) {
        JSAMPROW rows[1] = {row};
        for (int x = 0; x < c.input_components * WIDTH; x++) row[x] = (uint8_t)(x + 3 * y + rng_below(&g, 60));
        jpeg_write_scanlines(&c, rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    file f = {malloc(size), size};
    assert_non_null(f.bytes);
    memcpy(f.bytes, bytes, size);
    free(bytes);
    return f;
}

static int is_plain(const uint8_t *bytes, size_t size) {
    gf_plain_jpeg p;
    return gf_jpeg_is_plain(bytes, size, &p);
}

/* Position of the first segment with this marker. */
static size_t find(const file *f, uint8_t marker) {
    size_t at = 2;
    while (f->bytes[at + 1] != marker) {
        at += 2 + (size_t)(f->bytes[at + 2] << 8 | f->bytes[at + 3]);
        assert_true(at + 4 < f->size && f->bytes[at] == 0xff);
    }
    return at;
}

/* ----- sound files ----- */

TEST(test_plain) {
    static const kind kinds[] = {{.across = 1, .down = 1},
                                 {.across = 2, .down = 1},
                                 {.across = 2, .down = 2},
                                 {.across = 1, .down = 2},
                                 {.across = 2, .down = 2, .restart = 1},
                                 {.across = 2, .down = 1, .restart = 7},
                                 {.across = 2, .down = 2, .optimized = 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        gf_error err = {""};
        const file f = encode(&kinds[i]);
        gf_plain_jpeg p;
        gf_image whole = {0}, plain = {0};
        assert_true(gf_jpeg_is_plain(f.bytes, f.size, &p));
        assert_true(p.width == WIDTH && p.height == HEIGHT && p.size < f.size - sizeof comment);
        uint8_t *to = malloc(p.size);
        assert_non_null(to);
        gf_jpeg_write_plain(&p, f.bytes, to);
        assert_true(is_plain(to, p.size));
        assert_null(memmem(to, p.size, "is no marker", 12));
        assert_int_equal(gf_image_decode(&err, "file", f.bytes, f.size, NULL, &whole), GLOFND_OK);
        assert_int_equal(gf_image_decode(&err, "file", to, p.size, NULL, &plain), GLOFND_OK);
        assert_memory_equal(whole.rgb, plain.rgb, 3 * WIDTH * HEIGHT);
        gf_image_free(&whole);
        gf_image_free(&plain);
        free(to);
        free(f.bytes);
    }
}

/* ----- other files ----- */

TEST(test_others) {
    static const kind kinds[] = {
        {.across = 2, .down = 2, .progressive = 1},
        {.gray = 1},
        {.rgb = 1},
        {.inks = 1},
        {.across = 4, .down = 1},
        {.across = 2, .down = 4},
        {.across = 2, .down = 2, .apart = 1},
#ifdef C_ARITH_CODING_SUPPORTED
        {.across = 2, .down = 2, .arithmetic = 1},
#endif
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const file f = encode(&kinds[i]);
        assert_false(is_plain(f.bytes, f.size));
        free(f.bytes);
    }
    assert_false(is_plain((const uint8_t *)"", 0));
    assert_false(is_plain((const uint8_t *)"\x89PNG\r\n\x1a\n....", 12));
}

/* ----- damaged files ----- */

/* A file that ends early, at any byte, is not for the device. */
TEST(test_cut) {
    const kind k = {.across = 2, .down = 2, .restart = 4};
    const file f = encode(&k);
    for (size_t size = 0; size < f.size; size++) {
        uint8_t *part = malloc(size ? size : 1);
        assert_non_null(part);
        memcpy(part, f.bytes, size);
        assert_false(is_plain(part, size));
        free(part);
    }
    free(f.bytes);
}

static void refused_with(const file *f, size_t at, uint8_t value) {
    const uint8_t before = f->bytes[at];
    assert_true(before != value && is_plain(f->bytes, f->size));
    f->bytes[at] = value;
    assert_false(is_plain(f->bytes, f->size));
    f->bytes[at] = before;
}

TEST(test_wrong_tables) {
    const kind k = {.across = 2, .down = 2, .restart = 4};
    const file f = encode(&k);
    const size_t quantizers = find(&f, 0xdb), codes = find(&f, 0xc4), frame = find(&f, 0xc0), scan = find(&f, 0xda);
    refused_with(&f, quantizers + 4, 0x10); /* 16-bit values */
    refused_with(&f, quantizers + 4, 4);    /* a fifth table */
    refused_with(&f, quantizers + 9, 0);    /* division by zero */
    refused_with(&f, quantizers + 3, 3);    /* a length that does not fit */
    refused_with(&f, codes + 4, 0x20);      /* neither DC nor AC */
    refused_with(&f, codes + 4, 0x03);      /* a fourth table */
    refused_with(&f, codes + 5, 3);         /* three codes of one bit */
    refused_with(&f, codes + 21, 12);       /* a difference of 12 bits */
    refused_with(&f, frame + 4, 12);        /* bits per level */
    refused_with(&f, frame + 9, 1);         /* components */
    refused_with(&f, frame + 11, 0x41);     /* sampling */
    refused_with(&f, frame + 11, 0x02);
    refused_with(&f, frame + 14, 0x21);                /* of the colours */
    refused_with(&f, frame + 12, 3);                   /* a quantizer that is not defined */
    refused_with(&f, frame + 13, f.bytes[frame + 10]); /* two components of one name */
    refused_with(&f, scan + 4, 1);                     /* components of the scan */
    refused_with(&f, scan + 5, 9);                     /* an unknown one */
    refused_with(&f, scan + 6, 0x22);                  /* its tables */
    refused_with(&f, scan + 12, 5);                    /* a part of the coefficients */
    free(f.bytes);
}

TEST(test_wrong_data) {
    const kind k = {.across = 2, .down = 2, .restart = 4};
    const file f = encode(&k);
    size_t at = find(&f, 0xda) + 14;
    while (!(f.bytes[at] == 0xff && f.bytes[at + 1] == 0xd0)) at++;
    refused_with(&f, at + 1, 0xd3);             /* a restart that is out of order */
    refused_with(&f, at + 1, 0);                /* one too few */
    refused_with(&f, at + 1, 0xd9);             /* the end, too early: of data for a quarter of the blocks, or of restarts */
    refused_with(&f, at + 1, 0xc4);             /* tables in between */
    refused_with(&f, find(&f, 0xc0) + 5, 0x7f); /* more rows than there can be data for */
    free(f.bytes);
}

/* The same random changes in every run: whatever comes out, nothing is read outside (sanitizers), and what is accepted can be
 * written. */
TEST(test_random) {
    const kind k = {.across = 2, .down = 2, .restart = 4};
    const file f = encode(&k);
    uint8_t *bytes = malloc(f.size), *to = malloc(f.size + 64);
    rng g = {11};
    assert_true(bytes && to);
    for (int i = 0; i < 20000; i++) {
        gf_plain_jpeg p;
        memcpy(bytes, f.bytes, f.size);
        for (int n = 1 + (int)rng_below(&g, 4); n > 0; n--)
            bytes[rng_below(&g, i % 2 ? 700 : (int)f.size)] = (uint8_t)rng_below(&g, 256);
        if (!gf_jpeg_is_plain(bytes, f.size, &p)) continue;
        assert_true(p.size <= f.size + 64);
        gf_jpeg_write_plain(&p, bytes, to);
        assert_true(is_plain(to, p.size));
    }
    free(bytes);
    free(to);
    free(f.bytes);
}

#else
TEST_SKIP("built without libjpeg")
#endif
