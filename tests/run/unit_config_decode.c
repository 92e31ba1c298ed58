/* unit_config_decode.c - the key `decode`: which keys its value gpu takes, what auto becomes, what a run may resume with. */
#include "support/test.h"

#include "run/config.h"
#include "support/config_checks.h"
#include <string.h>

static gf_config with_data(void) {
    gf_config c = fresh();
    set(&c, "data", "shapes:n=64");
    return c;
}

/* A GPU decodes for views that it makes; auto is decided by what is there, and here nothing is. */
TEST(test_decode) {
    gf_config c = with_data();
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
TEST(test_resume_decode) {
    static const char *const value[] = {"exact", "fast", "gpu"};
    gf_config c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = with_data();
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
