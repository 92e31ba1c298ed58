/* unit_epoch_plan.c - gf_plan_phase, which decides if a recorded step may be used again: equal from epoch to epoch, different
 * where the options get a new meaning. */
#include "support/test.h"

#include "method/options.h"
#include "method/step.h"

static glofnd_options fresh(void) {
    glofnd_options o;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    o.detector = GLOFND_DETECT_GLOFND;
    return o;
}

static uint64_t phase_of(const glofnd_options *o, int32_t epoch, double tau, double gamma) {
    const gf_step_batch q = {.rows = 8, .cols = 8, .dim = 4, .epoch = epoch, .tau = tau, .gamma = gamma};
    const gf_plan p = gf_plan_of(o, &q);
    return gf_plan_phase(&p);
}

/* One letter per epoch, the same where the phase is. */
static void phases_are(const glofnd_options *o, const char *expected) {
    uint64_t phase[16];
    for (int32_t i = 0; expected[i]; i++) {
        phase[i] = phase_of(o, i, 0, 0);
        for (int32_t k = 0; k < i; k++) assert_true((phase[k] == phase[i]) == (expected[k] == expected[i]));
    }
}

TEST(phases_follow_the_epochs) {
    glofnd_options o = fresh();
    o.update_epoch = 2, o.mask_epoch = 5, o.lambda_warmup = 1;
    phases_are(&o, "aabccddd");
    o.lambda_warmup = 0;
    phases_are(&o, "aabbbccc");
    o.update_epoch = o.mask_epoch = 0;
    phases_are(&o, "aaaaaaaa");
    o.learner = GLOFND_LEARN_ADAM_OFFICIAL; /* its clock counts epochs */
    phases_are(&o, "abcdefgh");
    o = fresh(); /* in this one epoch every visit sets lambda to the batch quantile */
    o.update_epoch = 2, o.mask_epoch = 4;
    o.compat = GLOFND_COMPAT_OFFICIAL, o.learner = GLOFND_LEARN_SGD, o.lambda_init = GLOFND_INIT_QUANTILE;
    phases_are(&o, "aabcdddd");
    o.lambda_init = GLOFND_INIT_ONE;
    phases_are(&o, "aabbcccc");
}

TEST(phases_follow_the_batch) {
    const glofnd_options o = fresh();
    const uint64_t plain = phase_of(&o, 3, 0, 0);
    assert_true(plain == phase_of(&o, 3, o.tau, o.gamma));
    assert_true(plain != phase_of(&o, 3, 0.5 * o.tau, 0));
    assert_true(plain != phase_of(&o, 3, 0, 0.5 * o.gamma));
    const gf_step_batch q = {.rows = 8, .cols = 8, .dim = 4, .epoch = 3, .want = GLOFND_WANT_QUANTILE};
    const gf_plan wants = gf_plan_of(&o, &q);
    assert_true(plain != gf_plan_phase(&wants));
}
