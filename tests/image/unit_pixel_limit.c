/* unit_pixel_limit.c - images that claim more pixels than are decoded at a time: refused by name, or reduced; and threads that
 * decode together stay within one limit. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"
#include "support/bomb.h"

enum { WIDTH = 400, HEIGHT = 300 };

static gf_image drawn(void) {
    gf_image m = {0};
    assert_int_equal(gf_image_resize(NULL, &m, WIDTH, HEIGHT), GLOFND_OK);
    for (size_t i = 0; i < (size_t)3 * WIDTH * HEIGHT; i++) m.rgb[i] = (uint8_t)(i / 7 + i / (3 * WIDTH));
    return m;
}

static gf_region all_of_it(void *user, int width, int height, int *by) {
    (void)user, (void)by;
    return (gf_region){0, 0, width, height};
}

static void refused(const uint8_t *bytes, size_t size, const gf_decode_hint *hint) {
    gf_error err = {""};
    gf_image m = {0};
    assert_int_equal(gf_image_decode(&err, "dir/large.file", bytes, size, hint, &m), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "dir/large.file"));
    assert_non_null(strstr(err.text, "max_pixels"));
    gf_image_free(&m);
}

#ifdef GF_HAVE_JPEG
TEST(a_jpeg_of_several_scans_is_refused) {
    uint8_t bytes[BOMB_BYTES];
    refused(bytes, bomb_jpeg(bytes, 16384, 16383), NULL);
    const gf_decode_hint reducing = {.fast = 1, .shrink_to = 32, .choose = all_of_it};
    refused(bytes, bomb_jpeg(bytes, 16384, 16383), &reducing); /* its coefficients come whole, however small the output is */
    gf_error err = {""};
    gf_image m = {0};
    const size_t size = bomb_jpeg(bytes, 1000, 900); /* the same file is good where it is small */
    assert_int_equal(gf_image_decode(&err, "small", bytes, size, NULL, &m), GLOFND_OK);
    const gf_decode_hint little = {.max_pixels = 899999}, enough = {.max_pixels = 900000};
    refused(bytes, size, &little);
    assert_int_equal(gf_image_decode(&err, "small", bytes, size, &enough, &m), GLOFND_OK);
    gf_image_free(&m);
}

TEST(a_jpeg_of_one_scan_is_reduced) {
    gf_error err = {""};
    gf_image m = drawn(), out = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(gf_image_encode_jpeg(&err, &m, 90, &bytes, &size), GLOFND_OK);
    const gf_decode_hint whole = {.max_pixels = 10000}, chosen = {.max_pixels = 10000, .choose = all_of_it},
                         resized = {.max_pixels = 10000, .shrink_to = 10};
    refused(bytes, size, &whole); /* its user expects all pixels */
    assert_int_equal(gf_image_decode(&err, "x", bytes, size, &chosen, &out), GLOFND_OK);
    assert_int_equal(out.part.by, 4);
    assert_int_equal(out.width, WIDTH / 4);
    assert_int_equal(out.height, HEIGHT / 4);
    assert_int_equal(gf_image_full_width(&out), WIDTH);
    assert_int_equal(gf_image_decode(&err, "x", bytes, size, &resized, &out), GLOFND_OK);
    assert_int_equal(out.width, WIDTH / 4);
    const gf_decode_hint tiny = {.max_pixels = 1000, .choose = all_of_it};
    refused(bytes, size, &tiny); /* 1/8 is the least */
    free(bytes);
    gf_image_free(&m);
    gf_image_free(&out);
}
#endif

#ifdef GF_HAVE_PNG
TEST(a_png_is_refused) {
    gf_error err = {""};
    gf_image m = drawn();
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(gf_image_encode_png(&err, &m, &bytes, &size), GLOFND_OK);
    const gf_decode_hint little = {.max_pixels = WIDTH * HEIGHT - 1, .choose = all_of_it},
                         enough = {.max_pixels = WIDTH * HEIGHT};
    refused(bytes, size, &little);
    assert_int_equal(gf_image_decode(&err, "x", bytes, size, &enough, &m), GLOFND_OK);
    free(bytes);
    gf_image_free(&m);
}
#endif

/* ----- threads ----- */

enum { THREADS = 8, ROUNDS = 2000, LIMIT = 100 };

typedef struct shared {
    gf_pixel_budget budget;
    atomic_int held, most, alone;
} shared;

static void *take_and_give(void *arg) {
    shared *x = arg;
    gf_pixel_share s = {.budget = &x->budget};
    for (int i = 0; i < ROUNDS; i++) {
        const int n = i % 50 == 0 ? 3 * LIMIT : 1 + i * 7 % LIMIT;
        gf_pixel_share_take(&s, n);
        const int held = atomic_fetch_add(&x->held, n) + n;
        if (n > LIMIT) atomic_fetch_add(&x->alone, held != n);
        else if (held > atomic_load(&x->most)) atomic_store(&x->most, held);
        atomic_fetch_sub(&x->held, n);
        gf_pixel_share_give(&s);
        gf_pixel_share_give(&s); /* a second time: nothing */
    }
    return NULL;
}

TEST(threads_stay_within_the_limit) {
    shared x = {0};
    pthread_t thread[THREADS];
    gf_pixel_budget_init(&x.budget, LIMIT);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, &x), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert_in_range(atomic_load(&x.most), 1, LIMIT);
    assert_int_equal(atomic_load(&x.alone), 0); /* more than the limit is decoded alone */
    assert_int_equal(x.budget.taken, 0);
    gf_pixel_budget_free(&x.budget);
    gf_pixel_share_take(NULL, 5);
    gf_pixel_share_give(NULL);
}
