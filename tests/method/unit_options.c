/* unit_options.c - the options of the method: defaults, names, ranges, combinations; public calls and method/options.h. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "method/options.h"
#include "support/defaults.h"
#include "support/losses.h"

#define assert_says(text, part)                                                      \
    do {                                                                             \
        if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part); \
    } while (0)

static glofnd_options defaults(void) {
    glofnd_options o;
    gf_method_options_init(&o);
    return o;
}

TEST(defaults_are_those_of_the_table) {
    option_default rows[MOST_DEFAULTS];
    const int count = read_defaults(rows);
    const glofnd_options o = defaults();
    for (int i = 0; i < count; i++) {
        char value[64];
        assert_int_equal(glofnd_options_get(&o, rows[i].key, value, sizeof value, NULL, 0), GLOFND_OK);
        if (strcmp(value, rows[i].value[0]) != 0) fail_msg("%s: %s; the table says %s", rows[i].key, value, rows[i].value[0]);
    }
    assert_false(glofnd_options_describe(count, NULL, NULL, NULL, 0)); /* it has them all */
    assert_true(glofnd_options_describe(count - 1, NULL, NULL, NULL, 0));
    char why[64] = "before";
    assert_int_equal(glofnd_options_check(&o, why, sizeof why), GLOFND_OK);
    assert_string_equal(why, "");
}

/* The table has a row for each field. A new field without a row fails here. */
TEST(the_table_covers_the_whole_struct) {
    int n = 0;
    while (glofnd_options_describe(n, NULL, NULL, NULL, 0)) n++;
    assert_int_equal(n, 40);
    const size_t padding = sizeof(int32_t);
    assert_int_equal(sizeof(glofnd_options), 19 * sizeof(int32_t) + 18 * sizeof(double) + 3 * sizeof(int64_t) + padding);
}

TEST(every_name_is_read) {
    static const char *const names[][12] = {{"pairing", "views", "image-text"},
                                            {"loss", "sogclr", "simclr", "fastclip", "isogclr", "sigmoid"},
                                            {"detector", "none", "glofnd", "single", "fnc", "oracle", "groups", "components",
                                             "positive", "positive-relative", "mutual"},
                                            {"action", "drop", "attract", "weight"},
                                            {"learner", "adam", "sgd", "adam-official", "ring"},
                                            {"lambda_init", "one", "quantile"},
                                            {"fnc_rule", "quantile", "topk", "threshold"},
                                            {"compat", "paper", "official"},
                                            {"device", "cpu", "cuda"},
                                            {"math", "auto", "exact", "bf16", "split"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (int k = 1; k < 12 && names[i][k]; k++) {
            glofnd_options o = defaults();
            assert_int_equal(glofnd_options_set(&o, names[i][0], names[i][k], NULL, 0), GLOFND_OK);
            const int got[] = {(int)o.pairing,     (int)o.loss,     (int)o.detector, (int)o.action, (int)o.learner,
                               (int)o.lambda_init, (int)o.fnc_rule, (int)o.compat,   (int)o.device, (int)o.math};
            assert_int_equal(got[i], k - 1);
        }
    }
}

/* {key, accepted, accepted, refused, refused} */
TEST(every_range_has_the_right_ends) {
    static const char *const ends[][5] = {{"alpha", "0", "0.999999", "1", "-0.000001"},
                                          {"omega", "0", "1", "1.000001", "-0.1"},
                                          {"tau", "0.001", "100", "0.0009", "100.1"},
                                          {"gamma", "1", "1e-9", "0", "1.1"},
                                          {"lambda_lr", "1000", "1e-9", "0", "1001"},
                                          {"lambda_beta1", "0", "0.9999", "1", "-0.1"},
                                          {"lambda_beta2", "0", "0.9999", "1", "-0.1"},
                                          {"rho", "0", "16", "-1", "1001"},
                                          {"tau_lr", "0", "1", "-0.1", "1.1"},
                                          {"tau_min", "0.001", "1", "0", "1.1"},
                                          {"bias", "-1000", "1000", "1001", "-1001"},
                                          {"ring_rows", "1", "16777216", "0", "16777217"},
                                          {"bank_momentum", "0", "0.999", "1", "-0.1"},
                                          {"fnc_threshold", "-1", "1", "1.1", "-2"},
                                          {"margin", "-2", "2", "2.1", "-3"},
                                          {"fnc_support", "0", "16", "17", "-1"},
                                          {"attract_omega", "0", "1", "1.1", "-0.1"},
                                          {"neighbours", "0", "8", "9", "-1"},
                                          {"neighbour_rows", "0", "16777216", "16777217", "-1"},
                                          {"neighbour_weight", "0", "100", "101", "-0.1"},
                                          {"neighbour_share", "1", "1e-3", "0", "1.5"},
                                          {"lambda_decay", "0", "1e6", "-1", "1e7"},
                                          {"threads", "0", "1024", "-1", "1025"},
                                          {"update_epoch", "0", "1000000000", "-1", "1000000001"},
                                          {"mask_epoch", "0", "1000000000", "-1", "1000000001"},
                                          {"lambda_warmup", "0", "3", "-1", "1000000001"},
                                          {"normalize", "0", "1", "2", "-1"}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        for (int k = 1; k < 5; k++) {
            glofnd_options o = defaults();
            const glofnd_options before = o;
            char why[256] = "";
            const glofnd_status status = glofnd_options_set(&o, ends[i][0], ends[i][k], why, sizeof why);
            const glofnd_status expected = k < 3 ? GLOFND_OK : GLOFND_E_OPTION;
            if (status != expected) fail_msg("%s = %s gave %d: %s", ends[i][0], ends[i][k], status, why);
            if (expected == GLOFND_OK) continue;
            assert_says(why, ends[i][0]);
            assert_says(why, "expected");
            assert_memory_equal(&o, &before, sizeof o);
        }
    }
}

static void expect_refused(const glofnd_options *o, const char *part) {
    char why[256] = "";
    assert_int_equal(glofnd_options_check(o, why, sizeof why), GLOFND_E_OPTION);
    assert_says(why, part);
}

TEST(check_refuses_values_outside_the_table) {
    glofnd_options o = defaults();
    o.alpha = 2;
    expect_refused(&o, "alpha: \"2\"");
    o = defaults();
    o.tau = NAN;
    expect_refused(&o, "tau");
    o = defaults();
    o.loss = 7;
    expect_refused(&o, "loss");
    o = defaults();
    o.detector = (glofnd_detector)-1;
    expect_refused(&o, "detector");
    o = defaults();
    o.compat = (glofnd_compat)2;
    expect_refused(&o, "compat");
    o = defaults();
    o.normalize = 2;
    expect_refused(&o, "normalize");
}

/* Every double of the struct as NaN and as infinity, whichever field it is. */
TEST(check_refuses_every_non_finite_number) {
    static const size_t at[] = {offsetof(glofnd_options, alpha),
                                offsetof(glofnd_options, omega),
                                offsetof(glofnd_options, lambda_lr),
                                offsetof(glofnd_options, lambda_beta1),
                                offsetof(glofnd_options, lambda_beta2),
                                offsetof(glofnd_options, tau),
                                offsetof(glofnd_options, gamma),
                                offsetof(glofnd_options, rho),
                                offsetof(glofnd_options, tau_lr),
                                offsetof(glofnd_options, tau_min),
                                offsetof(glofnd_options, bias),
                                offsetof(glofnd_options, bank_momentum),
                                offsetof(glofnd_options, fnc_threshold),
                                offsetof(glofnd_options, margin),
                                offsetof(glofnd_options, attract_omega),
                                offsetof(glofnd_options, neighbour_weight),
                                offsetof(glofnd_options, neighbour_share),
                                offsetof(glofnd_options, lambda_decay)};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        for (int k = 0; k < 3; k++) {
            const double value[] = {NAN, INFINITY, -INFINITY};
            glofnd_options o = defaults();
            memcpy((char *)&o + at[i], &value[k], sizeof value[k]);
            expect_refused(&o, "not a finite number");
        }
    }
}

TEST(check_refuses_combinations) {
    glofnd_options o = defaults();
    o.update_epoch = 5;
    o.mask_epoch = 4;
    expect_refused(&o, "mask_epoch");
    o.mask_epoch = 5;
    assert_int_equal(glofnd_options_check(&o, NULL, 0), GLOFND_OK);
    o = defaults();
    o.loss = GLOFND_LOSS_SIGMOID;
    assert_int_equal(glofnd_options_check(&o, NULL, 0), GLOFND_OK);
    o.compat = GLOFND_COMPAT_OFFICIAL;
    expect_refused(&o, "compat");
    o = defaults();
    o.learner = GLOFND_LEARN_RING;
    assert_int_equal(glofnd_options_check(&o, NULL, 0), GLOFND_OK);
    o.detector = GLOFND_DETECT_SINGLE;
    expect_refused(&o, "single");
    o.detector = GLOFND_DETECT_GLOFND;
    o.lambda_warmup = 1;
    expect_refused(&o, "lambda_warmup");
    o = defaults();
    o.lambda_decay = 4;
    o.lambda_warmup = 1;
    expect_refused(&o, "lambda_decay");
    o.lambda_warmup = 0;
    o.detector = GLOFND_DETECT_SINGLE;
    expect_refused(&o, "lambda_decay");
    o = defaults();
    o.compat = GLOFND_COMPAT_OFFICIAL, o.lambda_warmup = 1;
    assert_int_equal(glofnd_options_check(&o, NULL, 0), GLOFND_OK);
    o.lambda_init = GLOFND_INIT_QUANTILE;
    expect_refused(&o, "no lambda_warmup with lambda_init quantile");
    for (int relative = 0; relative < 2; relative++) {
        o = defaults();
        o.similarity = GLOFND_SIMILARITY_BANK;
        o.detector = relative ? GLOFND_DETECT_POSITIVE_RELATIVE : GLOFND_DETECT_POSITIVE;
        expect_refused(&o, "similarity: bank works with detector");
    }
    for (int i = 0; i < 3; i++) {
        o = defaults();
        o.repeats = 1;
        if (i == 0) o.compat = GLOFND_COMPAT_OFFICIAL;
        if (i == 1) o.similarity = GLOFND_SIMILARITY_BANK;
        if (i == 2) o.detector = GLOFND_DETECT_FNC, o.fnc_rule = GLOFND_FNC_TOPK;
        expect_refused(&o, "repeats: samples that occur several times");
    }
    for (int i = 0; i < 4; i++) {
        o = defaults();
        o.directions = GLOFND_DIRECTIONS_FORWARD;
        if (i > 0) o.pairing = GLOFND_PAIRING_IMAGE_TEXT;
        if (i == 1) o.compat = GLOFND_COMPAT_OFFICIAL;
        if (i == 2) o.similarity = GLOFND_SIMILARITY_BANK;
        if (i == 3) o.detector = GLOFND_DETECT_MUTUAL;
        expect_refused(&o, "directions: forward is for pairing image-text");
    }
}

/* Where a device is missing it says so by name, both ways to ask; the CPU is always there, and has no streams. */
TEST(devices_are_there_or_say_why) {
    glofnd_options o = defaults();
    glofnd_ctx *c = NULL;
    glofnd_stats stats = {.size = sizeof stats};
    char why[256] = "before";
    assert_int_equal(glofnd_device_check(GLOFND_DEVICE_CPU, why, sizeof why), GLOFND_OK);
    assert_string_equal(why, "");
    assert_int_equal(glofnd_device_check((glofnd_device)7, why, sizeof why), GLOFND_E_UNSUPPORTED);
    assert_int_equal(glofnd_ctx_create(&o, &c, NULL, 0), GLOFND_OK);
    assert_int_equal(glofnd_ctx_stream(c, NULL), GLOFND_E_UNSUPPORTED);
    assert_int_equal(glofnd_ctx_stats(c, &stats), GLOFND_E_ARGUMENT); /* no step yet */
    o.device = GLOFND_DEVICE_CUDA;
    assert_int_equal(glofnd_ctx_configure(c, &o), GLOFND_E_ARGUMENT);
    glofnd_ctx_free(c);
    const glofnd_status status = glofnd_device_check(GLOFND_DEVICE_CUDA, why, sizeof why);
    char reason[256];
    assert_int_equal(glofnd_ctx_create(&o, &c, reason, sizeof reason), status);
    assert_string_equal(reason, why);
    if (status == GLOFND_OK) glofnd_ctx_free(c);
    else assert_true(strstr(why, "CUDA") && (status == GLOFND_E_UNSUPPORTED || status == GLOFND_E_DEVICE));
}

TEST(bad_arguments_are_refused) {
    glofnd_options o = defaults();
    char why[256];
    assert_int_equal(glofnd_options_create(NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_options_copy(&o, NULL), GLOFND_E_ARGUMENT);
    glofnd_options *none = &o;
    assert_int_equal(glofnd_options_copy(NULL, &none), GLOFND_E_ARGUMENT);
    assert_null(none);
    assert_int_equal(glofnd_options_set(NULL, "tau", "1", why, sizeof why), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_options_set(&o, NULL, "1", why, sizeof why), GLOFND_E_ARGUMENT);
    assert_says(why, "key is NULL");
    assert_int_equal(glofnd_options_set(&o, "tau", NULL, why, sizeof why), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_options_set(&o, "tau", "1000", NULL, 100), GLOFND_E_OPTION);
    assert_int_equal(glofnd_options_set(&o, "tau", "1000", why, 0), GLOFND_E_OPTION);
    assert_int_equal(glofnd_options_set(&o, "tua", "1", why, sizeof why), GLOFND_E_OPTION);
    assert_says(why, "nearest known one is tau (a number in [0.001, 100])");
    assert_int_equal(glofnd_options_check(NULL, why, sizeof why), GLOFND_E_ARGUMENT);
    char tiny[8] = "xxxxxxx";
    assert_int_equal(glofnd_options_set(&o, "tau", NULL, tiny, 4), GLOFND_E_ARGUMENT);
    assert_memory_equal(tiny + 3, "\0xxx", 4);
}

TEST(describe_lists_what_set_takes) {
    const char *key, *help;
    char range[256];
    int n = 0;
    for (; glofnd_options_describe(n, &key, &help, range, sizeof range); n++) {
        glofnd_options o = defaults();
        const char *preset_text = strstr(range, "; default ");
        assert_non_null(preset_text);
        assert_true(strlen(help) > 5);
        assert_int_equal(glofnd_options_set(&o, key, preset_text + strlen("; default "), NULL, 0), GLOFND_OK);
        const glofnd_options expected = defaults();
        assert_memory_equal(&o, &expected, sizeof o);
    }
    assert_int_equal(glofnd_options_describe(-1, &key, &help, range, sizeof range), 0);
    assert_int_equal(glofnd_options_describe(n, &key, &help, range, sizeof range), 0);
}

/* Every option as text, and back to the same bits; also numbers that need 17 digits. */
TEST(get_writes_what_set_reads) {
    glofnd_options o = defaults(), back = defaults();
    const char *key;
    char value[32], why[256];
    o.alpha = 1.0 / 3, o.tau = 0.07, losses_set(&o, LOSS_FASTCLIP), o.learner = GLOFND_LEARN_ADAM_OFFICIAL;
    o.ring_rows = 16777216, o.normalize = 0, o.math = GLOFND_MATH_SPLIT, o.rho = 1e-300;
    for (int i = 0; glofnd_options_describe(i, &key, NULL, NULL, 0); i++) {
        assert_int_equal(glofnd_options_get(&o, key, value, sizeof value, why, sizeof why), GLOFND_OK);
        assert_string_equal(why, "");
        assert_int_equal(glofnd_options_set(&back, key, value, why, sizeof why), GLOFND_OK);
    }
    assert_memory_equal(&back, &o, sizeof o);
    assert_int_equal(glofnd_options_get(&o, "learner", value, sizeof value, NULL, 0), GLOFND_OK);
    assert_string_equal(value, "adam-official");
    assert_int_equal(glofnd_options_get(&o, "learner", value, 14, NULL, 0), GLOFND_OK);
    assert_int_equal(glofnd_options_get(&o, "learner", value, 13, why, sizeof why), GLOFND_E_ARGUMENT);
    assert_says(why, "14 bytes");
    assert_int_equal(glofnd_options_get(&o, "lerner", value, sizeof value, why, sizeof why), GLOFND_E_OPTION);
    assert_says(why, "'learner'");
    assert_int_equal(glofnd_options_get(&o, NULL, value, sizeof value, NULL, 0), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_options_get(&o, "tau", NULL, 0, NULL, 0), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_options_get(NULL, "tau", value, sizeof value, NULL, 0), GLOFND_E_ARGUMENT);
}

/* A context that cannot be made says why. */
TEST(create_gives_its_reason) {
    glofnd_options o = defaults();
    glofnd_ctx *c = (glofnd_ctx *)&o;
    char why[256] = "before";
    o.tau = 0;
    assert_int_equal(glofnd_ctx_create(&o, &c, why, sizeof why), GLOFND_E_OPTION);
    assert_null(c);
    assert_says(why, "tau");
    assert_int_equal(glofnd_ctx_create(NULL, &c, why, sizeof why), GLOFND_E_ARGUMENT);
    assert_says(why, "options");
    assert_int_equal(glofnd_ctx_create(NULL, &c, why, 5), GLOFND_E_ARGUMENT); /* cut, never overrun */
    assert_string_equal(why, "opti");
    o = defaults();
    assert_int_equal(glofnd_ctx_create(&o, &c, why, sizeof why), GLOFND_OK);
    assert_string_equal(why, "");
    glofnd_ctx_free(c);
}

TEST(statuses_have_names) {
    assert_string_equal(glofnd_status_name(GLOFND_OK), "GLOFND_OK");
    assert_string_equal(glofnd_status_name(GLOFND_E_UNSUPPORTED), "GLOFND_E_UNSUPPORTED");
    assert_string_equal(glofnd_status_name((glofnd_status)77), "GLOFND_E_UNKNOWN");
    assert_string_equal(glofnd_status_name(GLOFND_STATUS_MAX_), "GLOFND_E_UNKNOWN");
}

/* The life of options that a user of the library has: made, set by text and by number, copied, freed. */
TEST(options_by_key) {
    glofnd_options *o, *copy;
    char value[32], why[256];
    assert_int_equal(glofnd_options_create(&o), GLOFND_OK);
    const glofnd_options expected = defaults();
    assert_memory_equal(o, &expected, sizeof expected);
    assert_int_equal(glofnd_options_set_number(o, "tau", 1.0 / 3, why, sizeof why), GLOFND_OK);
    assert_true(o->tau == 1.0 / 3);
    assert_int_equal(glofnd_options_set_number(o, "mask_epoch", 20, why, sizeof why), GLOFND_OK);
    assert_int_equal(o->mask_epoch, 20);
    assert_int_equal(glofnd_options_set_number(o, "mask_epoch", 2.5, why, sizeof why), GLOFND_E_OPTION);
    assert_says(why, "mask_epoch");
    assert_int_equal(glofnd_options_set_number(o, "tau", (double)NAN, why, sizeof why), GLOFND_E_OPTION);
    assert_int_equal(glofnd_options_set_number(o, "tau", (double)INFINITY, why, sizeof why), GLOFND_E_OPTION);
    assert_int_equal(glofnd_options_set_number(o, "loss", 1, why, sizeof why), GLOFND_E_OPTION); /* names are texts */
    assert_int_equal(glofnd_options_copy(o, &copy), GLOFND_OK);
    glofnd_options_free(o);
    assert_int_equal(glofnd_options_get(copy, "mask_epoch", value, sizeof value, NULL, 0), GLOFND_OK);
    assert_string_equal(value, "20");
    glofnd_options_free(copy);
    glofnd_options_free(NULL);
}

/* What files of 0.1 and 0.2 hold is read: losses that meant a pairing, options that are gone where they had no effect. */
TEST(old_names_are_read) {
    static const struct {
        const char *name;
        int loss;
    } OLD[] = {{"clip", LOSS_CLIP}, {"sogclr2", LOSS_SOGCLR2}, {"isogclr-views", LOSS_ISOGCLR_VIEWS}};
    char why[256];
    for (size_t i = 0; i < sizeof OLD / sizeof *OLD; i++) {
        glofnd_options o = defaults();
        assert_int_equal(glofnd_options_set(&o, "loss", OLD[i].name, why, sizeof why), GLOFND_OK);
        assert_int_equal(losses_of(&o), OLD[i].loss);
    }
    glofnd_options o = defaults();
    const glofnd_options before = o;
    assert_int_equal(glofnd_options_set(&o, "tile", "64", why, sizeof why), GLOFND_OK);
    assert_int_equal(glofnd_options_set(&o, "hard_beta", "0.0", why, sizeof why), GLOFND_OK);
    assert_int_equal(glofnd_options_set(&o, "flag_probability", "1", why, sizeof why), GLOFND_OK);
    assert_int_equal(glofnd_options_set(&o, "fnc_aggregate", "mean", why, sizeof why), GLOFND_OK);
    assert_int_equal(glofnd_options_set(&o, "fnc_aggregate", "max", why, sizeof why), GLOFND_E_OPTION);
    assert_int_equal(glofnd_options_set(&o, "tau_plus", "0.1", why, sizeof why), GLOFND_E_OPTION);
    assert_says(why, "removed in 1.0");
    assert_memory_equal(&o, &before, sizeof o);
    assert_int_equal(glofnd_options_set(&o, "math", "tf32", why, sizeof why), GLOFND_OK);
    assert_int_equal(o.math, GLOFND_MATH_SPLIT);
}

TEST(image_and_text_are_two_sides) {
    glofnd_options o = defaults();
    assert_int_equal(gf_sides(&o), 1);
    o.pairing = GLOFND_PAIRING_IMAGE_TEXT;
    assert_int_equal(gf_sides(&o), 2);
}
