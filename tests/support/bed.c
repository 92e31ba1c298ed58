/* bed.c - see bed.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bed.h"
#include "support/losses.h"

int bed_sides(const bed *t) { return scene_two_views(&t->s) ? 1 : 2; }

void bed_read_rows(const bed *t, glofnd_anchor *rows) {
    for (int side = 0; side < bed_sides(t); side++) {
        for (int64_t i = 0; i <= t->s.anchors; i++) {
            const int64_t id = i < t->s.anchors ? i : GLOFND_SHARED;
            expect_ok(t->w.ctx, glofnd_anchors_get(t->w.ctx, t->w.store, side, &id, 1, &rows[side * (t->s.anchors + 1) + i]));
        }
    }
}

bed bed_make(int loss, glofnd_detector detector) {
    bed t = {.s = scene_make("args", loss)};
    t.s.o.detector = detector;
    t.s.o.update_epoch = t.s.o.mask_epoch = 0;
    t.w = runner_make(&t.s);
    t.out = outputs_make(&t.s);
    t.before = calloc((size_t)(2 * (t.s.anchors + 1)), sizeof *t.before);
    assert_non_null(t.before);
    t.s.with_groups = detector == GLOFND_DETECT_GROUPS;
    for (int step = 0; step < 2; step++) {
        if (step) scene_batch_free(&t.b);
        scene_draw(&t.s, step, &t.b);
        run_step(&t.w, &t.b.q, &t.out);
    }
    bed_read_rows(&t, t.before);
    return t;
}

void bed_free(bed *t) {
    scene_batch_free(&t->b);
    outputs_free(&t->out);
    runner_free(&t->w);
    free(t->before);
}

void expect_untouched(const bed *t, const char *what) {
    const int64_t rows = bed_sides(t) * (t->s.anchors + 1);
    glofnd_anchor *now = calloc((size_t)rows, sizeof *now);
    assert_non_null(now);
    bed_read_rows(t, now);
    if (memcmp(now, t->before, (size_t)rows * sizeof *now) != 0) fail_msg("%s: the store changed", what);
    free(now);
}

void expect_refused(const bed *t, const char *what, glofnd_status got, int want) {
    if (got == GLOFND_OK) fail_msg("%s: accepted", what);
    if (want != ANY_ERROR && (int)got != want)
        fail_msg("%s: status %d (%s), expected %d; text: %s", what, (int)got, glofnd_status_text(got), want,
                 glofnd_ctx_error(t->w.ctx));
    if (glofnd_ctx_error(t->w.ctx)[0] == 0) fail_msg("%s: no text", what);
    expect_untouched(t, what);
}
