/* unit_subset.c - ?first, ?every, ?fraction, ?labels and ?imbalance of a SPEC: which samples they leave, seen through every
 * function of a dataset. */
#include "support/test.h"

#include "data/dataset.h"
#include <stdio.h>
#include <string.h>

static gf_error err;
static const char all_of_it[] = "shapes:n=60,classes=4,size=16,seed=7";

static gf_dataset *open_with(const char *options) {
    char spec[200];
    gf_dataset *d = NULL;
    snprintf(spec, sizeof spec, "%s%s", all_of_it, options);
    if (gf_dataset_open(&err, spec, &d) != GLOFND_OK) fail_msg("%s: %s", spec, err.text);
    return d;
}

static int64_t count_of(const gf_dataset *d) { return gf_dataset_describe(d).n; }

/* Sample i of the part is sample `row` of the whole. */
static void assert_sample(const gf_dataset *part, int64_t i, const gf_dataset *whole, int64_t row) {
    char a[100], b[100];
    gf_sample x = {0}, y = {0};
    assert_int_equal(gf_dataset_key(part, i), gf_dataset_key(whole, row));
    assert_int_equal(gf_dataset_label(part, i), gf_dataset_label(whole, row));
    gf_dataset_name(part, i, a, sizeof a);
    gf_dataset_name(whole, row, b, sizeof b);
    assert_string_equal(a, b);
    assert_int_equal(gf_dataset_read(&err, part, i, NULL, &x), GLOFND_OK);
    assert_int_equal(gf_dataset_read(&err, whole, row, NULL, &y), GLOFND_OK);
    assert_int_equal(x.label, y.label);
    assert_int_equal(gf_sample_image_hash(&x), gf_sample_image_hash(&y));
    gf_sample_free(&x);
    gf_sample_free(&y);
}

TEST(first_and_every) {
    gf_dataset *whole = open_with(""), *first = open_with("?first=7"), *every = open_with("?every=8"),
               *both = open_with("?first=3&every=8");
    assert_int_equal(count_of(whole), 60);
    assert_int_equal(count_of(first), 7);
    assert_int_equal(count_of(every), 8);
    assert_int_equal(count_of(both), 3);
    for (int64_t i = 0; i < 7; i++) assert_sample(first, i, whole, i);
    for (int64_t i = 0; i < 8; i++) assert_sample(every, i, whole, 8 * i);
    for (int64_t i = 0; i < 3; i++) assert_sample(both, i, whole, 8 * i);
    assert_int_equal(gf_dataset_read(&err, first, 7, NULL, &(gf_sample){0}), GLOFND_E_INDEX);
    assert_int_equal(gf_dataset_label(first, 7), -1);
    gf_dataset_free(whole), gf_dataset_free(first), gf_dataset_free(every), gf_dataset_free(both);
}

/* ceil(F n) of each of four classes of 15, in order; a small share leaves one of each. */
TEST(a_fraction_of_each_class) {
    static const struct {
        const char *options;
        int64_t each;
    } cases[] = {{"?fraction=1", 15}, {"?fraction=0.4", 6}, {"?fraction=0.5", 8}, {"?fraction=0.001", 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        gf_dataset *d = open_with(cases[c].options);
        int64_t met[4] = {0};
        assert_int_equal(count_of(d), 4 * cases[c].each);
        for (int64_t i = 0; i < count_of(d); i++) met[gf_dataset_label(d, i)]++;
        for (int k = 0; k < 4; k++) assert_int_equal(met[k], cases[c].each);
        assert_int_equal(gf_dataset_describe(d).classes, 4);
        gf_dataset_free(d);
    }
}

/* Counts of the four classes of a part. */
static void assert_counts(const char *options, const int64_t want[4]) {
    gf_dataset *d = open_with(options);
    int64_t met[4] = {0};
    for (int64_t i = 0; i < count_of(d); i++) met[gf_dataset_label(d, i)]++;
    for (int k = 0; k < 4; k++)
        if (met[k] != want[k]) fail_msg("%s: %lld of class %d, expected %lld", options, (long long)met[k], k, (long long)want[k]);
    assert_int_equal(gf_dataset_describe(d).classes, 4);
    gf_dataset_free(d);
}

/* floor(15 / F^(c / 3)) of class c, at least one: 15, 6.96, 3.23, 1.5 with F = 10. */
TEST(a_long_tail) {
    assert_counts("?imbalance=1", (int64_t[]){15, 15, 15, 15});
    assert_counts("?imbalance=10", (int64_t[]){15, 6, 3, 1});
    assert_counts("?imbalance=15", (int64_t[]){15, 6, 2, 1});
    assert_counts("?imbalance=1000", (int64_t[]){15, 1, 1, 1});
    assert_counts("?imbalance=10&fraction=0.5", (int64_t[]){8, 3, 2, 1});
    assert_counts("?imbalance=10&labels=1-2", (int64_t[]){0, 6, 3, 0});
}

/* The samples of the chosen classes, all of them and in order; the test split is of the same classes. */
TEST(some_labels) {
    char spec[200];
    assert_counts("?labels=0-3", (int64_t[]){15, 15, 15, 15});
    assert_counts("?labels=2", (int64_t[]){0, 0, 15, 0});
    assert_counts("?labels=0-1,3", (int64_t[]){15, 15, 0, 15});
    assert_counts("?labels=3,0&fraction=0.4", (int64_t[]){6, 0, 0, 6});
    gf_dataset *whole = open_with(""), *part = open_with("?labels=1,2&every=3");
    char by_name[100];
    int64_t at = 0, left = 0;
    for (int64_t i = 0; i < count_of(whole); i++) {
        const int32_t label = gf_dataset_label(whole, i);
        if ((label == 1 || label == 2) && left++ % 3 == 0) assert_sample(part, at++, whole, i);
    }
    assert_int_equal(at, count_of(part));
    assert_true(gf_dataset_test_spec(part, spec, sizeof spec));
    assert_non_null(strstr(spec, "labels=1,2"));
    assert_null(strstr(spec, "every"));
    snprintf(by_name, sizeof by_name, "?labels=%s", gf_dataset_class(whole, 1));
    assert_counts(by_name, (int64_t[]){0, 15, 0, 0});
    gf_dataset_free(whole), gf_dataset_free(part);
}

TEST(a_part_is_tested_on_the_whole_split) {
    char a[200], b[200];
    gf_dataset *whole = open_with(""), *part = open_with("?first=7&fraction=0.5");
    assert_true(gf_dataset_test_spec(whole, a, sizeof a) && gf_dataset_test_spec(part, b, sizeof b));
    assert_string_equal(a, b);
    gf_dataset_free(whole), gf_dataset_free(part);
}

TEST(wrong_values_are_refused) {
    static const char *const wrong[] = {"?first=0",      "?first=x",      "?every=0",   "?every=-1",      "?fraction=0",
                                        "?fraction=1.5", "?fraction=nan", "?fraction=", "?imbalance=0.5", "?imbalance=inf",
                                        "?labels=4",     "?labels=2-1",   "?labels=",   "?labels=0,",     "?labels=-1",
                                        "?labels=none",  "?labels=0-",    "?last=3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char spec[200];
        gf_dataset *d = NULL;
        snprintf(spec, sizeof spec, "%s%s", all_of_it, wrong[i]);
        assert_int_equal(gf_dataset_open(&err, spec, &d), GLOFND_E_OPTION);
        assert_null(d);
    }
    assert_non_null(strstr(err.text, "first")); /* an unknown option: the known ones are named */
}
