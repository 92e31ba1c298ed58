/* unit_detect_args.c - bad input to the detect tier: a status, a text, an untouched store (unit_step_args.c: the step). */
#include "support/test.h"

#include "support/bed.h"
#include "support/losses.h"
#include "support/plain_thresholds.h"
#include <math.h>
#include <string.h>

#define REFUSE(what, status, change)                                                                               \
    do {                                                                                                           \
        glofnd_sims bad = q;                                                                                       \
        change;                                                                                                    \
        expect_refused(&t, "update: " what, glofnd_detect_update(t.w.ctx, t.w.store, &bad), status);               \
        expect_refused(&t, "mask: " what, glofnd_detect_mask(t.w.ctx, t.w.store, &bad, t.out.keep, NULL), status); \
    } while (0)

TEST(bad_similarities_are_refused) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    float sim[2 * 3 * 4];
    for (int j = 0; j < 24; j++) sim[j] = 0.03f * (float)j;
    const int64_t id[] = {3, 1, 2}, repeated[] = {3, 1, 3}, far[] = {3, 1, 1000};
    const glofnd_sims q = {.size = sizeof q, .views = 2, .rows = 3, .cols = 4, .sim = sim, .id = id};
    glofnd_ctx *c = t.w.ctx;
    assert_int_equal(glofnd_detect_update(NULL, t.w.store, &q), GLOFND_E_ARGUMENT);
    expect_refused(&t, "store", glofnd_detect_update(c, NULL, &q), GLOFND_E_ARGUMENT);
    expect_refused(&t, "sims", glofnd_detect_update(c, t.w.store, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "keep", glofnd_detect_mask(c, t.w.store, &q, NULL, NULL), GLOFND_E_ARGUMENT);
    REFUSE("views 0", GLOFND_E_ARGUMENT, bad.views = 0);
    REFUSE("views 3", GLOFND_E_ARGUMENT, bad.views = 3);
    REFUSE("rows 0", GLOFND_E_ARGUMENT, bad.rows = 0);
    REFUSE("cols 0", GLOFND_E_ARGUMENT, bad.cols = 0);
    REFUSE("cols 2^40", GLOFND_E_ARGUMENT, bad.cols = INT64_C(1) << 40);
    assert_non_null(strstr(glofnd_ctx_error(c), "both must be in 1..2147483647"));
    REFUSE("sim NULL", GLOFND_E_ARGUMENT, bad.sim = NULL);
    REFUSE("id NULL", GLOFND_E_ARGUMENT, bad.id = NULL);
    REFUSE("repeated id", GLOFND_E_INDEX, bad.id = repeated);
    assert_non_null(strstr(glofnd_ctx_error(c), "sims.id[0] and sims.id[2] are both 3; ids must differ"));
    REFUSE("far id", GLOFND_E_INDEX, bad.id = far);
    REFUSE("side 1 of one", GLOFND_E_ARGUMENT, bad.side = 1);
    REFUSE("side -1", GLOFND_E_ARGUMENT, bad.side = -1);
    REFUSE("epoch -1", GLOFND_E_ARGUMENT, bad.epoch = -1);
    sim[7] = NAN;
    REFUSE("NaN", GLOFND_E_NUMERIC, (void)bad);
    sim[7] = 0.2f;
    glofnd_options o = t.s.o;
    o.detector = GLOFND_DETECT_ORACLE;
    expect_ok(c, glofnd_ctx_configure(c, &o));
    expect_refused(&t, "ORACLE without groups", glofnd_detect_mask(c, t.w.store, &q, t.out.keep, NULL), GLOFND_E_ARGUMENT);
    o.detector = GLOFND_DETECT_POSITIVE;
    expect_ok(c, glofnd_ctx_configure(c, &o));
    expect_refused(&t, "POSITIVE", glofnd_detect_mask(c, t.w.store, &q, t.out.keep, NULL), GLOFND_E_UNSUPPORTED);
    o.detector = GLOFND_DETECT_GLOFND;
    o.learner = GLOFND_LEARN_RING;
    expect_ok(c, glofnd_ctx_configure(c, &o));
    expect_refused(&t, "RING", glofnd_detect_update(c, t.w.store, &q), GLOFND_E_UNSUPPORTED);
    bed_free(&t);
}

TEST(bad_threshold_calls_are_refused) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    glofnd_ctx *c = t.w.ctx;
    const float *x = t.b.a;
    float out[13], broken[3 * 17];
    const int64_t skip[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 99};
    assert_int_equal(plain_thresholds(NULL, x, 13, x, 13, 17, NULL, 0.1, out), GLOFND_E_ARGUMENT);
    expect_refused(&t, "q NULL", plain_thresholds(c, NULL, 13, x, 13, 17, NULL, 0.1, out), GLOFND_E_ARGUMENT);
    expect_refused(&t, "k NULL", plain_thresholds(c, x, 13, NULL, 13, 17, NULL, 0.1, out), GLOFND_E_ARGUMENT);
    expect_refused(&t, "out NULL", plain_thresholds(c, x, 13, x, 13, 17, NULL, 0.1, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "rows 0", plain_thresholds(c, x, 0, x, 13, 17, NULL, 0.1, out), GLOFND_E_ARGUMENT);
    expect_refused(&t, "cols 0", plain_thresholds(c, x, 13, x, 0, 17, NULL, 0.1, out), GLOFND_E_ARGUMENT);
    expect_refused(&t, "dim 0", plain_thresholds(c, x, 13, x, 13, 0, NULL, 0.1, out), GLOFND_E_ARGUMENT);
    expect_refused(&t, "dim 2^60", plain_thresholds(c, x, 13, x, 13, INT64_C(1) << 60, NULL, 0.1, out), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(c), "dim is 1152921504606846976; it must be in 1..536870911"));
    expect_refused(&t, "rows 2^31", plain_thresholds(c, x, INT64_C(1) << 31, x, 13, 17, NULL, 0.1, out), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(c), "both must be in 1..2147483647"));
    expect_refused(&t, "alpha 2", plain_thresholds(c, x, 13, x, 13, 17, NULL, 2, out), ANY_ERROR);
    expect_refused(&t, "alpha 0", plain_thresholds(c, x, 13, x, 13, 17, NULL, 0, out), ANY_ERROR);
    expect_refused(&t, "skip out of range", plain_thresholds(c, x, 13, x, 13, 17, skip, 0.1, out), ANY_ERROR);
    expect_refused(&t, "nothing left", plain_thresholds(c, x, 1, x, 1, 17, skip, 0.1, out), ANY_ERROR);
    memcpy(broken, x, sizeof broken);
    broken[17 + 4] = NAN;
    expect_refused(&t, "NaN in q", plain_thresholds(c, broken, 3, x, 13, 17, NULL, 0.1, out), GLOFND_E_NUMERIC);
    expect_refused(&t, "NaN in k", plain_thresholds(c, x, 13, broken, 3, 17, NULL, 0.1, out), GLOFND_E_NUMERIC);
    bed_free(&t);
}
