/* unit_late_keys.c - which runs take the same steps until their detectors start, and when that is. */
#include "support/test.h"

#include "run/resume.h"
#include "support/config_checks.h"
#include <stdio.h>

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

/* The first has more than the second remembers, which can begin as its copy; not the other way, by this key. */
static void serves(const char *trunk, const char *branch, const char *key) {
    const gf_config x = made(trunk), y = made(branch);
    const char *there = gf_parting_key(&x, &y), *back = gf_parting_key(&y, &x);
    if (there) fail_msg("\"%s\" does not serve \"%s\": %s", trunk, branch, there);
    if (!back) fail_msg("\"%s\" serves \"%s\"", branch, trunk);
    assert_string_equal(back, key);
    assert_null(gf_early_key(&x, &y));
    assert_null(gf_early_key(&y, &x));
}

static int start(const char *pairs) {
    const gf_config c = made(pairs);
    return gf_detector_start(&c);
}

TEST(test_start) {
    assert_int_equal(start(""), 7);
    assert_int_equal(start("start_epoch=3"), 3);
    assert_int_equal(start("start_epoch=50%"), 10);
    assert_int_equal(start("update_epoch=2 mask_epoch=9"), 2); /* thresholds move first */
    assert_int_equal(start("start_epoch=21"), 20);
    assert_int_equal(start("start_epoch=3 detector=none"), 20);
    assert_int_equal(start("start_epoch=3 detector=none task=clip"), 3); /* duplicates are masked by these epochs */
    assert_int_equal(start("start_epoch=3 detector=none task=clip mask_duplicates=0"), 20);
}

TEST(test_late_keys_are_shared) {
    shares("", "");
    shares("detector=none", "detector=glofnd alpha=0.2 lambda_init=one lambda_lr=1");
    shares("start_epoch=2", "start_epoch=5 action=weight omega=0.2");
    shares("detector=fnc fnc_rule=topk fnc_support=2", "detector=groups groups=kmeans");
    shares("checkpoint_epochs=3", "checkpoint_epochs=4,5");
    shares("task=clip detector=none", "task=clip alpha=0.3");
    shares("task=clip mask_duplicates=0", "task=clip mask_duplicates=0 action=weight");
    shares("similarity=bank neighbours=2", "similarity=bank detector=fnc");
    shares("learner=ring alpha=0.1", "learner=ring alpha=0.2");
    shares("", "learner=sgd");
    shares("ring_rows=640 bank_momentum=0.1", "ring_rows=320");
    shares("similarity=bank detector=none", "detector=oracle");
}

/* What is remembered from the first step on is so only with a detector that uses it. */
TEST(test_more_memory_serves_less) {
    serves("similarity=bank", "", "similarity");
    serves("similarity=bank bank_momentum=0.9", "detector=fnc bank_momentum=0.1", "similarity");
    serves("similarity=bank", "similarity=bank detector=oracle", "detector");
    serves("learner=ring ring_rows=640", "learner=sgd ring_rows=320", "learner");
    serves("learner=ring", "learner=ring detector=none", "detector");
    serves("learner=ring", "learner=ring detector=fnc", "detector");
    serves("learner=ring similarity=bank", "similarity=bank", "learner");
    serves("learner=ring similarity=bank", "detector=none", "learner");
    serves("similarity=bank start_epoch=2", "start_epoch=5", "similarity");
}

TEST(test_others_are_not) {
    parts("seed", "", "seed=2");
    parts("batch", "", "batch=128");
    parts("epochs", "start_epoch=2", "start_epoch=2 epochs=30");
    parts("tau", "", "tau=0.2");
    parts("data", "", "data=shapes:n=9");
    parts("action", "task=clip", "task=clip action=weight");
    parts("omega", "task=clip action=weight", "task=clip action=weight omega=0.2");
    const gf_config ring = made("learner=ring"), bank = made("similarity=bank"); /* neither remembers all */
    assert_string_equal(gf_parting_key(&ring, &bank), "similarity");
    assert_string_equal(gf_parting_key(&bank, &ring), "learner");
    parts("ring_rows", "learner=ring", "learner=ring ring_rows=640");
    parts("bank_momentum", "similarity=bank", "similarity=bank bank_momentum=0.9");
    parts("similarity", "learner=ring", "learner=ring similarity=bank"); /* the ring holds embeddings, or averages */
}

/* Every key of the method is either late, or one of these: a new one has to be decided on. */
TEST(test_every_key_of_the_method) {
    static const char *const early[] = {"pairing", "loss",          "compat",     "normalize",  "tau",     "gamma",
                                        "rho",     "tau_lr",        "tau_min",    "ring_rows",  "threads", "device",
                                        "math",    "bank_momentum", "similarity", "directions", "repeats", "bias"};
    const gf_config c = made("learner=ring similarity=bank"); /* with all that shapes what is remembered */
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
        if (strcmp(o->key, "learner") == 0 || strcmp(o->key, "detector") == 0) key = gf_early_key(&c, &changed);
        if (key && strcmp(key, o->key) != 0) fail_msg("%s for %s", key, o->key);
        if (!!key != expected) fail_msg("%s is %s", o->key, key ? "early" : "late");
    }
    assert_int_equal(found, sizeof early / sizeof *early);
}

TEST(test_copy) {
    gf_error err = {""};
    const gf_config from = made("detector=fnc alpha=0.3 update_epoch=4 mask_epoch=6 checkpoint_epochs=9 lambda_init=one "
                                "learner=sgd similarity=bank bank_momentum=0.9 ring_rows=640");
    gf_config to = made("detector=none omega=0.1 start_epoch=2 workers=3");
    assert_int_equal(gf_late_keys_copy(&err, &to, &from), GLOFND_OK);
    assert_null(gf_parting_key(&to, &to));
    assert_int_equal(to.method.detector, GLOFND_DETECT_FNC);
    assert_int_equal(to.method.lambda_init, GLOFND_INIT_ONE);
    assert_int_equal(to.method.learner, GLOFND_LEARN_SGD);
    assert_int_equal(to.method.similarity, GLOFND_SIMILARITY_BANK);
    assert_true(to.method.bank_momentum == 0.9 && to.method.ring_rows == 640);
    assert_true(to.method.alpha == 0.3 && to.method.omega == 0.5);
    assert_int_equal(to.start_epoch, from.start_epoch);
    assert_int_equal(to.method.update_epoch, 4);
    assert_int_equal(to.method.mask_epoch, 6);
    assert_string_equal(to.checkpoint_epochs, "9");
    assert_int_equal(to.workers, 3); /* none of these keys */
}
