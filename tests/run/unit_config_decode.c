/* unit_config_decode.c - the key `decode`: which keys its value gpu takes, what auto becomes, what a run may resume with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "run/config.h"

static void set(gf_config *c, const char *key, const char *value) {
    gf_error err = {""};
    if (gf_config_set(&err, c, key, value) != GLOFND_OK) fail_msg("%s", err.text);
}

static gf_config fresh(void) {
    gf_error err = {""};
    gf_config c;
    if (gf_config_init(&err, &c) != GLOFND_OK) fail_msg("%s", err.text);
    set(&c, "data", "shapes:n=64");
    return c;
}

static void resolve(gf_config *c) {
    gf_error err = {""};
    if (gf_config_resolve(&err, c) != GLOFND_OK) fail_msg("%s", err.text);
}

static void unresolved(gf_config c, const char *part) {
    gf_error err = {""};
    assert_int_equal(gf_config_resolve(&err, &c), GLOFND_E_OPTION);
    if (!strstr(err.text, part)) fail_msg("\"%s\" is not in: %s", part, err.text);
}

/* A GPU decodes for views that it makes; auto is decided by what is there, and here nothing is. */
static void test_decode(void **state) {
    (void)state;
    gf_config c = fresh();
    set(&c, "decode", "auto");
    gf_config d = c;
    resolve(&d);
    assert_int_equal(d.decode, GF_DECODE_EXACT); /* device cpu */
    set(&c, "device", "cuda");
    d = c;
    resolve(&d);
    assert_int_equal(d.decode, GF_DECODE_AUTO); /* decided when the loader opens */
    set(&c, "crop_filter", "bicubic");
    d = c;
    resolve(&d);
    assert_int_equal(d.decode, GF_DECODE_EXACT);
    set(&c, "decode", "gpu");
    unresolved(c, "crop_filter = bicubic");
    set(&c, "crop_filter", "bilinear");
    resolve(&c);
    assert_int_equal(c.decode, GF_DECODE_GPU);
    set(&c, "device", "cpu");
    unresolved(c, "decode: gpu needs device = cuda");
}

/* nvJPEG's levels are not libjpeg's: a run keeps to one of them. Between exact and fast it may change, as ever. */
static void test_resume_decode(void **state) {
    (void)state;
    static const char *const value[] = {"exact", "fast", "gpu"};
    gf_config c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = fresh();
        set(&c[i], "device", "cuda");
        set(&c[i], "decode", value[i]);
        resolve(&c[i]);
    }
    for (int i = 0; i < 9; i++) {
        gf_error err = {""};
        const int from = i / 3, to = i % 3, fine = (from == 2) == (to == 2);
        assert_int_equal(gf_config_same_run(&err, &c[from], &c[to]), fine ? GLOFND_OK : GLOFND_E_OPTION);
        if (!fine) assert_non_null(strstr(err.text, value[from]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_resume_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
