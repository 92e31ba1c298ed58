/* unit_nvjpeg.c - nvJPEG as it is opened at run time, against a stand-in (tests/gpu/fake_nvjpeg.c): missing, too old, without
 * JPEG engines, and batches with images that it refuses. Needs no GPU.
 */
#include "support/test.h"

#include "gpu/fake_nvjpeg.h"
#include "loader/cuda/nvjpeg_lib.h"
#include "util/machine.h"
#include <string.h>

enum { WIDTH = 4, HEIGHT = 3, BYTES = 3 * WIDTH * HEIGHT, MANY = 100 };

static const char *const fake[] = {FAKE_NVJPEG, NULL};
static fake_nvjpeg_orders *orders;
static int waits, wait_fails;

static int wait_for(void *user) {
    assert_ptr_equal(user, orders);
    waits++;
    return !wait_fails;
}

static gf_nvjpeg opened(void) {
    gf_error err = {""};
    gf_nvjpeg n;
    if (gf_nvjpeg_open(&err, fake, &n) != GLOFND_OK) fail_msg("%s", err.text);
    return n;
}

static int setup(void **state) {
    (void)state;
    void *lib = gf_shared_lib_open(fake, 0); /* stays open: the orders outlive what a test opens */
    if (!lib || !gf_shared_lib_find(lib, "fake_nvjpeg", &orders)) return -1;
    *orders = (fake_nvjpeg_orders){.major = 13, .minor = 2, .engines = 7, .height = HEIGHT};
    waits = wait_fails = 0;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    return orders->handles || orders->states ? -1 : 0; /* all were given back */
}

TEST_WITH(test_missing, setup, teardown) {
    static const char *const none[] = {"libno-such-nvjpeg.so.1", NULL}, *const other[] = {"libm.so.6", NULL};
    gf_error err = {""};
    gf_nvjpeg n;
    assert_int_equal(gf_nvjpeg_open(&err, none, &n), GLOFND_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "decode = exact"));
    gf_nvjpeg_close(&n);
    assert_int_equal(gf_nvjpeg_open(&err, other, &n), GLOFND_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "this nvJPEG has no nvjpegGetProperty"));
    gf_nvjpeg_close(&n);
}

TEST_WITH(test_old, setup, teardown) {
    gf_error err = {""};
    gf_nvjpeg n;
    orders->major = 11, orders->minor = 9;
    assert_int_equal(gf_nvjpeg_open(&err, fake, &n), GLOFND_E_UNSUPPORTED);
    assert_string_equal(err.text, "nvJPEG 11.9 is too old: version 12 or 13 is needed");
}

TEST_WITH(test_backends, setup, teardown) {
    gf_error err = {""};
    char text[80];
    gf_nvjpeg n = opened();
    assert_int_equal(gf_nvjpeg_start(&err, &n, GF_NVJPEG_ENGINES), GLOFND_OK);
    gf_nvjpeg_describe(&n, text, sizeof text);
    assert_string_equal(text, "nvJPEG 13.2, 7 JPEG engines");
    assert_int_equal(orders->flags, 32);
    orders->no_engines = 1;
    assert_int_equal(gf_nvjpeg_start(&err, &n, GF_NVJPEG_ENGINES), GLOFND_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "JPEG engines"));
    assert_int_equal(orders->handles, 0);
    assert_int_equal(gf_nvjpeg_start(&err, &n, GF_NVJPEG_KERNELS), GLOFND_OK);
    gf_nvjpeg_describe(&n, text, sizeof text);
    assert_string_equal(text, "nvJPEG 13.2, by kernels");
    gf_nvjpeg_close(&n);
    orders->major = 12, orders->minor = 0; /* has no interpolation of colours */
    n = opened();
    assert_int_equal(gf_nvjpeg_start(&err, &n, GF_NVJPEG_KERNELS), GLOFND_OK);
    assert_int_equal(orders->flags, 0);
    gf_nvjpeg_close(&n);
}

typedef struct bench {
    gf_nvjpeg n;
    gf_nvjpeg_state s;
    gf_encoded image[MANY];
    uint8_t file[MANY][2];
    uint8_t pixels[MANY * BYTES];
} bench;

/* Every seventh place has no file; file i ends in i + 1. */
static void open_bench(bench *b) {
    gf_error err = {""};
    memset(b, 0, sizeof *b);
    b->n = opened();
    assert_int_equal(gf_nvjpeg_start(&err, &b->n, GF_NVJPEG_ENGINES), GLOFND_OK);
    for (int i = 0; i < MANY; i++) {
        b->file[i][1] = (uint8_t)(i + 1);
        if (i % 7 == 3) continue;
        b->image[i] =
            (gf_encoded){.bytes = b->file[i], .size = 2, .width = WIDTH, .height = HEIGHT, .at = (size_t)i * BYTES, .failed = 5};
    }
}

static void close_bench(bench *b) {
    gf_nvjpeg_state_free(&b->n, &b->s);
    gf_nvjpeg_close(&b->n);
}

static int decode(bench *b, int count) {
    const gf_nvjpeg_wait w = {wait_for, orders};
    return gf_nvjpeg_decode(&b->n, &b->s, b->image, count, b->pixels, orders, &w);
}

static void check(const bench *b, int count, int bad) {
    for (int i = 0; i < count; i++) {
        const int there = b->image[i].size > 0;
        if (there) assert_int_equal(b->image[i].failed, i == bad);
        for (int k = 0; k < BYTES; k++) assert_int_equal(b->pixels[i * BYTES + k], there && i != bad ? i + 1 : 0);
    }
}

TEST_WITH(test_batches, setup, teardown) {
    static bench b;
    open_bench(&b);
    assert_true(decode(&b, MANY));
    check(&b, MANY, -1);
    assert_true(decode(&b, MANY));
    assert_true(orders->calls == 2 && orders->initialized == 1 && waits == 2 && orders->stream == orders);
    assert_true(decode(&b, 8)); /* a shorter batch */
    assert_true(orders->calls == 3 && orders->initialized == 2);
    for (int i = 0; i < 4; i++) b.image[i].size = 0;
    assert_true(decode(&b, 4)); /* an empty one */
    assert_int_equal(orders->calls, 3);
    close_bench(&b);
}

/* One refused image does not take the others with it, whatever its place; and the next batch is whole again. */
TEST_WITH(test_refused, setup, teardown) {
    static bench b;
    for (int bad = 0; bad < MANY; bad++) {
        if (bad % 7 == 3) continue;
        open_bench(&b);
        orders->refused = (unsigned char)(bad + 1);
        orders->calls = 0;
        assert_true(decode(&b, MANY));
        check(&b, MANY, bad);
        assert_in_range(orders->calls, 2, 18); /* 1 + 1 + two halves of each of up to 8 sizes */
        orders->refused = 0;
        assert_true(decode(&b, MANY));
        check(&b, MANY, -1);
        close_bench(&b);
    }
}

/* What the engines do not take is known by its header, and takes no second call; kernels take it. */
TEST_WITH(test_untaken, setup, teardown) {
    static bench b;
    gf_error err = {""};
    open_bench(&b);
    orders->untaken = 6;
    assert_true(decode(&b, MANY));
    check(&b, MANY, 5);
    assert_int_equal(orders->calls, 1);
    gf_nvjpeg_state_free(&b.n, &b.s);
    assert_int_equal(gf_nvjpeg_start(&err, &b.n, GF_NVJPEG_KERNELS), GLOFND_OK);
    assert_true(decode(&b, MANY));
    check(&b, MANY, -1);
    close_bench(&b);
}

TEST_WITH(test_device_fails, setup, teardown) {
    static bench b;
    open_bench(&b);
    wait_fails = 1;
    assert_false(decode(&b, MANY));
    assert_int_equal(waits, 1);
    orders->refused = 9;
    assert_false(decode(&b, MANY));
    close_bench(&b);
}
