/* unit_jpeg_part.c - a part of a JPEG has the pixels of the whole: for every sampling of colours, exact and fast, reduced or not;
 * and a file that is cut short is found out whatever part is wanted. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/augment.h"
#include "image/image.h"
#include "support/random.h"

#ifdef GF_HAVE_JPEG
#include <jpeglib.h>

enum { WIDTH = 203, HEIGHT = 149 };

typedef struct kind { /* of file */
    int across, down; /* sampling of the first component: 2, 2 is 4:2:0 */
    int progressive, restart, gray;
} kind;

static const kind kinds[] = {{1, 1, 0, 0, 0}, {2, 1, 0, 0, 0}, {2, 2, 0, 0, 0}, {1, 2, 0, 0, 0}, {4, 1, 0, 0, 0},
                             {2, 2, 0, 3, 0}, {2, 2, 1, 0, 0}, {1, 1, 1, 0, 0}, {1, 1, 0, 0, 1}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Noise and edges: neighbours differ, so that a pixel at the wrong place is seen. */
static void draw_row(rng *g, int y, uint8_t *row) {
    for (int x = 0; x < WIDTH; x++) {
        row[3 * x] = (uint8_t)(((x / 5 + y / 7) % 2 * 160 + rng_below(g, 60)));
        row[3 * x + 1] = (uint8_t)(x + y + rng_below(g, 20));
        row[3 * x + 2] = (uint8_t)((x * y) % 251);
    }
}

static void encode(const kind *k, uint8_t **bytes, unsigned long *size) {
    struct jpeg_compress_struct c = {0};
    struct jpeg_error_mgr report;
    uint8_t row[3 * WIDTH];
    rng g = {5};
    c.err = jpeg_std_error(&report);
    *bytes = NULL;
    *size = 0;
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, bytes, size);
    c.image_width = WIDTH;
    c.image_height = HEIGHT;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    if (k->gray) jpeg_set_colorspace(&c, JCS_GRAYSCALE);
    c.comp_info[0].h_samp_factor = k->across;
    c.comp_info[0].v_samp_factor = k->down;
    c.restart_interval = (unsigned)k->restart;
    if (k->progressive) jpeg_simple_progression(&c);
    jpeg_set_quality(&c, 90, TRUE);
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < HEIGHT; y++) {
        JSAMPROW rows[1] = {row};
        draw_row(&g, y, row);
        jpeg_write_scanlines(&c, rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
}

typedef struct plan {
    gf_region region;
    int by, asked;
} plan;

static gf_region choose(void *user, int width, int height, int *by) {
    plan *p = user;
    assert_int_equal(width, WIDTH);
    assert_int_equal(height, HEIGHT);
    p->asked++;
    *by = p->by;
    return p->region;
}

static glofnd_status decode(const uint8_t *bytes, size_t size, int fast, int by, gf_region r, gf_image *out) {
    plan p = {r, by, 0};
    const gf_decode_hint hint = {.fast = fast, .choose = choose, .user = &p};
    gf_error err = {""};
    return gf_image_decode(&err, "a", bytes, size, &hint, out);
}

static const uint8_t *pixel(const gf_image *m, int x, int y) {
    return m->rgb + 3 * ((size_t)(y - m->part.top) * (size_t)m->width + (size_t)(x - m->part.left));
}

static void check_part(const gf_image *whole, const gf_image *part, gf_region r, int by, const kind *k) {
    const int right = (r.left + r.width + by - 1) / by, bottom = (r.top + r.height + by - 1) / by, left = r.left / by;
    assert_int_equal(gf_image_full_width(part), WIDTH);
    assert_int_equal(gf_image_full_height(part), HEIGHT);
    assert_int_equal(part->part.by, by);
    assert_true(part->part.left <= left && part->part.top <= r.top / by);
    assert_true(part->part.left + part->width >= right && part->part.top + part->height >= bottom);
    for (int y = r.top / by; y < bottom; y++) {
        if (memcmp(pixel(whole, left, y), pixel(part, left, y), 3 * (size_t)(right - left)) != 0)
            fail_msg("%d x %d%s by %d: row %d of %d x %d at %d, %d differs", k->across, k->down,
                     k->progressive ? " progressive" : "", by, y, r.width, r.height, r.left, r.top);
    }
}

static gf_region any_region(rng *g) {
    gf_region r = {.width = 1 + (int)rng_below(g, WIDTH), .height = 1 + (int)rng_below(g, HEIGHT)};
    r.left = (int)rng_below(g, WIDTH - r.width + 1);
    r.top = (int)rng_below(g, HEIGHT - r.height + 1);
    return r;
}

TEST(parts_have_the_pixels_of_the_whole) {
    const gf_region all = {0, 0, WIDTH, HEIGHT};
    gf_image whole = {0}, part = {0};
    rng g = {11};
    int smaller = 0;
    for (int k = 0; k < KINDS; k++) {
        uint8_t *bytes;
        unsigned long size;
        encode(&kinds[k], &bytes, &size);
        for (int mode = 0; mode < 5; mode++) { /* exact; fast by 1, 2, 4, 8 */
            const int fast = mode > 0, by = mode > 0 ? 1 << (mode - 1) : 1;
            assert_int_equal(decode(bytes, size, fast, by, all, &whole), GLOFND_OK);
            assert_int_equal(whole.width, (WIDTH + by - 1) / by);
            for (int i = 0; i < 60; i++) {
                const gf_region r = any_region(&g);
                assert_int_equal(decode(bytes, size, fast, by, r, &part), GLOFND_OK);
                check_part(&whole, &part, r, by, &kinds[k]);
                smaller += part.width < whole.width && part.height < whole.height;
            }
        }
        free(bytes);
    }
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 2001000
    assert_true(smaller > KINDS * 5 * 60 / 3); /* work was saved at all */
#endif
    gf_image_free(&whole);
    gf_image_free(&part);
}

/* Without a hint, and with one that chooses all of it, the pixels are the same: the numbers golden tests fix hold for parts. */
TEST(exact_parts_are_those_of_a_plain_decode) {
    for (int k = 0; k < KINDS; k++) {
        uint8_t *bytes;
        unsigned long size;
        gf_image plain = {0}, part = {0};
        const gf_region r = {50, 40, 60, 50};
        encode(&kinds[k], &bytes, &size);
        assert_int_equal(gf_image_decode(NULL, "a", bytes, size, NULL, &plain), GLOFND_OK);
        assert_int_equal(plain.width, WIDTH);
        assert_int_equal(decode(bytes, size, 0, 8, r, &part), GLOFND_OK); /* exact: never reduced */
        check_part(&plain, &part, r, 1, &kinds[k]);
        gf_image_free(&plain);
        gf_image_free(&part);
        free(bytes);
    }
}

TEST(a_cut_is_found_behind_the_part) {
    const gf_region top = {10, 5, 40, 20}, bottom = {10, HEIGHT - 20, 40, 20};
    for (int k = 0; k < KINDS; k++) {
        uint8_t *bytes;
        unsigned long size;
        gf_image m = {0};
        encode(&kinds[k], &bytes, &size);
        uint8_t *cut = malloc(size - 400); /* of the exact size, so that a sanitizer sees a read beyond it */
        assert_non_null(cut);
        memcpy(cut, bytes, size - 400);
        assert_int_equal(decode(cut, size - 400, 0, 1, top, &m), GLOFND_E_FORMAT);
        assert_int_equal(decode(cut, size - 400, 1, 1, bottom, &m), GLOFND_E_FORMAT);
        if (!kinds[k].progressive) assert_int_equal(decode(cut, size - 400, 1, 1, top, &m), GLOFND_OK);
        free(cut);
        free(bytes);
        gf_image_free(&m);
    }
}

/* The same view of a part as of the whole, bit for bit; reduced: similar. */
TEST(views_of_a_part_are_those_of_the_whole) {
    uint8_t *bytes;
    unsigned long size;
    gf_image whole = {0}, part = {0};
    gf_augment a = gf_augment_pretrain(16);
    gf_augment_scratch *x;
    static float want[16 * 16 * 3], got[16 * 16 * 3];
    encode(&kinds[2], &bytes, &size);
    assert_int_equal(gf_image_decode(NULL, "a", bytes, size, NULL, &whole), GLOFND_OK);
    assert_int_equal(gf_augment_scratch_create(NULL, &a, &x), GLOFND_OK);
    for (uint64_t i = 0; i < 40; i++) {
        gf_rng r = gf_rng_at(1, GF_RNG_AUGMENT, 0, i, 0);
        const gf_view views[2] = {gf_augment_draw(&a, &r, WIDTH, HEIGHT), gf_augment_draw(&a, &r, WIDTH, HEIGHT)};
        int by = 1;
        const gf_region region = gf_augment_region(&a, views, 2, &by);
        for (int fast = 0; fast < 2; fast++) {
            double apart = 0;
            assert_int_equal(decode(bytes, size, fast, by, region, &part), GLOFND_OK);
            for (int v = 0; v < 2; v++) {
                assert_int_equal(gf_augment_apply(NULL, &a, &views[v], &whole, x, want, NULL), GLOFND_OK);
                assert_int_equal(gf_augment_apply(NULL, &a, &views[v], &part, x, got, NULL), GLOFND_OK);
                if (!fast) assert_memory_equal(want, got, sizeof want);
                for (int k = 0; k < 16 * 16 * 3; k++) apart += (double)((want[k] - got[k]) * (want[k] - got[k]));
            }
            assert_true(apart / (2 * 16 * 16 * 3) < 0.1); /* of values whose variance is about 1 */
        }
    }
    gf_augment_scratch_free(x);
    gf_image_free(&whole);
    gf_image_free(&part);
    free(bytes);
}

TEST(the_region_holds_the_boxes) {
    const gf_augment a = gf_augment_pretrain(32);
    const gf_view views[2] = {{.top = 10, .left = 80, .height = 70, .width = 64},
                              {.top = 40, .left = 20, .height = 200, .width = 90}};
    int by = 1;
    gf_region r = gf_augment_region(&a, views, 2, &by);
    assert_int_equal(by, 2);
    assert_int_equal(r.left, 20);
    assert_int_equal(r.top, 10);
    assert_int_equal(r.width, 144 - 20);
    assert_int_equal(r.height, 240 - 10);
    by = 4;
    gf_augment_region(&a, views, 2, &by);
    assert_int_equal(by, 4); /* never lowered */
    by = 1;
    gf_augment_region(&a, views + 1, 1, &by);
    assert_int_equal(by, 2); /* 90 / 4 < 32 */
}

#else
TEST_SKIP("built without libjpeg")
#endif
