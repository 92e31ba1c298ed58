/* unit_late_keys.c - which runs take the same steps until their detectors start, and when that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "run/config/late_keys.h"
#include "support/config_checks.h"

/* "key=value key=value" over a small run. */
static gf_config made(const char *pairs) {
    gf_config c = fresh();
    char text[400], *rest = text;
    set(&c, "data", "shapes:");
    set(&c, "epochs", "20");
    snprintf(text, sizeof text, "%s", pairs);
    for (char *pair; (pair = strsep(&rest, " "));) {
        char *value = strchr(pair, '=');
        if (!value) continue;
        *value = 0;
        set(&c, pair, value + 1);
    }
    resolve(&c);
    return c;
}

static void shares(const char *a, const char *b) {
    const gf_config x = made(a), y = made(b);
    const char *there = gf_parting_key(&x, &y), *back = gf_parting_key(&y, &x);
    if (there || back) fail_msg("\"%s\" and \"%s\": %s", a, b, there ? there : back);
}

static void parts(const char *key, const char *a, const char *b) {
    const gf_config x = made(a), y = made(b);
    const char *there = gf_parting_key(&x, &y), *back = gf_parting_key(&y, &x);
    if (!there || !back) fail_msg("\"%s\" and \"%s\" share", a, b);
    assert_string_equal(there, key);
    assert_string_equal(back, key);
}

static int start(const char *pairs) {
    const gf_config c = made(pairs);
    return gf_detector_start(&c);
}

static void test_start(void **state) {
    (void)state;
    assert_int_equal(start(""), 7);
    assert_int_equal(start("start_epoch=3"), 3);
    assert_int_equal(start("start_epoch=50%"), 10);
    assert_int_equal(start("update_epoch=2 mask_epoch=9"), 2); /* thresholds move first */
    assert_int_equal(start("start_epoch=21"), 20);
    assert_int_equal(start("start_epoch=3 detector=none"), 20);
    assert_int_equal(start("start_epoch=3 detector=none task=clip"), 3); /* duplicates are masked by these epochs */
    assert_int_equal(start("start_epoch=3 detector=none task=clip mask_duplicates=0"), 20);
}

static void test_late_keys_are_shared(void **state) {
    (void)state;
    shares("", "");
    shares("detector=none", "detector=glofnd alpha=0.2 lambda_init=one lambda_lr=1");
    shares("start_epoch=2", "start_epoch=5 action=weight omega=0.2");
    shares("detector=fnc fnc_rule=topk fnc_support=2", "detector=groups groups=kmeans");
    shares("checkpoint_epochs=3", "checkpoint_epochs=4,5");
    shares("task=clip detector=none", "task=clip alpha=0.3");
    shares("task=clip mask_duplicates=0", "task=clip mask_duplicates=0 action=weight");
    shares("similarity=bank neighbours=2", "similarity=bank detector=fnc");
    shares("learner=ring alpha=0.1", "learner=ring alpha=0.2 ring_rate=0.5");
}

static void test_others_are_not(void **state) {
    (void)state;
    parts("seed", "", "seed=2");
    parts("batch", "", "batch=128");
    parts("epochs", "start_epoch=2", "start_epoch=2 epochs=30");
    parts("learner", "", "learner=sgd");
    parts("similarity", "", "similarity=bank");
    parts("tau", "", "tau=0.2");
    parts("data", "", "data=shapes:n=9");
    parts("action", "task=clip", "task=clip action=weight");
    parts("omega", "task=clip action=weight", "task=clip action=weight omega=0.2");
    /* What is remembered from the first step on is so only with a detector that uses it. */
    parts("detector", "learner=ring detector=none", "learner=ring");
    parts("detector", "learner=ring detector=fnc", "learner=ring");
    parts("detector", "similarity=bank detector=oracle", "similarity=bank");
}

/* Every key of the method is either late, or one of these: a new one has to be decided on. */
static void test_every_key_of_the_method(void **state) {
    (void)state;
    static const char *const early[] = {"loss",      "compat",    "normalize",    "learner", "tau",       "gamma",
                                        "rho",       "tau_lr",    "tau_min",      "tau_max", "tau_beta1", "tau_beta2",
                                        "ring_rows", "threads",   "tile",         "device",  "math",      "similarity",
                                        "tau_plus",  "hard_beta", "bank_momentum"};
    const gf_config c = made("");
    const gf_option *o;
    int in_method, found = 0;
    for (int i = 0; (o = gf_config_option(i, &in_method)); i++) {
        gf_config changed = c;
        int expected = 0;
        if (!in_method) continue;
        for (size_t k = 0; k < sizeof early / sizeof *early; k++) expected |= strcmp(early[k], o->key) == 0;
        found += expected;
        unsigned char *field = (unsigned char *)&changed.method + o->offset;
        const double tiny = 1e-9;
        if (o->type == GF_OPTION_DOUBLE) memcpy(field, &tiny, sizeof tiny);
        else *field ^= 1; /* the lowest bit of a number, or of a name's */
        const char *key = gf_parting_key(&c, &changed);
        if (key && strcmp(key, o->key) != 0) fail_msg("%s for %s", key, o->key);
        if (!!key != expected) fail_msg("%s is %s", o->key, key ? "early" : "late");
    }
    assert_int_equal(found, sizeof early / sizeof *early);
}

static void test_copy(void **state) {
    (void)state;
    gf_error err = {""};
    const gf_config from = made("detector=fnc alpha=0.3 update_epoch=4 mask_epoch=6 checkpoint_epochs=9 lambda_init=one");
    gf_config to = made("detector=none omega=0.1 start_epoch=2 workers=3");
    assert_int_equal(gf_late_keys_copy(&err, &to, &from), GLOFND_OK);
    assert_null(gf_parting_key(&to, &to));
    assert_int_equal(to.method.detector, GLOFND_DETECT_FNC);
    assert_int_equal(to.method.lambda_init, GLOFND_INIT_ONE);
    assert_true(to.method.alpha == 0.3 && to.method.omega == 0.5);
    assert_int_equal(to.start_epoch, from.start_epoch);
    assert_int_equal(to.method.update_epoch, 4);
    assert_int_equal(to.method.mask_epoch, 6);
    assert_string_equal(to.checkpoint_epochs, "9");
    assert_int_equal(to.workers, 3); /* none of these keys */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),          cmocka_unit_test(test_late_keys_are_shared),
        cmocka_unit_test(test_others_are_not), cmocka_unit_test(test_every_key_of_the_method),
        cmocka_unit_test(test_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
