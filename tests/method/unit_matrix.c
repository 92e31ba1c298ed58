/* unit_matrix.c - every combination of loss, detector, action, learner and extras runs like the dense reference, or is refused by a
 * message that names both options and changes nothing. With GLOFND_TEST_DEVICE=cuda some of them on a GPU; tests/cuda/cuda_matrix.c has its
 * rounded products.
 */
#include "support/test.h"

#include "support/compare.h"
#include "support/matrix.h"
#include "support/on_device.h"
#include <stdio.h>
#include <string.h>

enum { RULES = 8 };

static int names_both(const char *message, const matrix_rule *rule, int rules) {
    for (int i = 0; i < rules; i++)
        if (strstr(message, rule[i].one) && strstr(message, rule[i].other)) return 1;
    return 0;
}

/* By the check of the options, or by a step, which then leaves the state as it was. */
static void expect_refused(const scene *s, const matrix_rule *rule, int rules) {
    gf_error err = {0};
    glofnd_status status = gf_method_options_check(&err, &s->o);
    if (status != GLOFND_OK) {
        if (!names_both(err.text, rule, rules))
            fail_msg("%s: '%s' does not name %s and %s", s->name, err.text, rule->one, rule->other);
        return;
    }
    runner w = runner_make(s);
    outputs out = outputs_make(s);
    scene_batch b;
    glofnd_anchor before[16], after[16];
    scene_draw(s, 1, &b);
    read_rows(&w, 0, s->anchors, before);
    status = on_device_step(w.ctx, w.store, &b.q, out.grad_a, out.grad_b, &out.stats);
    if (status != GLOFND_E_UNSUPPORTED) fail_msg("%s: status %d, it should be refused", s->name, (int)status);
    if (!names_both(glofnd_ctx_error(w.ctx), rule, rules))
        fail_msg("%s: '%s' does not name %s and %s", s->name, glofnd_ctx_error(w.ctx), rule->one, rule->other);
    read_rows(&w, 0, s->anchors, after);
    assert_memory_equal(before, after, sizeof *before * (size_t)s->anchors);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

TEST(every_combination_works_or_is_refused) {
    int stride = scene_make("", 0).o.device == GLOFND_DEVICE_CPU ? 1 : 29;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    stride = 29; /* a sanitizer takes minutes for all */
#endif
    int works = 0, refused = 0;
    for (int i = 0; i < MATRIX_CELLS; i += stride) {
        matrix_rule rule[RULES];
        scene s;
        if (!matrix_scene(i, &s)) continue;
        const int rules = matrix_refusals(&s, rule, RULES);
        if (rules > 0) expect_refused(&s, rule, rules), refused++;
        else check_scene_against_reference(&s), works++;
    }
    print_message("  %d combinations work, %d are refused\n", works, refused);
    assert_true(works > 0 && refused > 0);
}
