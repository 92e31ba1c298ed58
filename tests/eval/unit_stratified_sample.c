/* unit_stratified_sample.c - shares of the labels: counts, nesting, seeds; and splits into training and test samples. */
#include "support/test.h"

#include "data/export.h"
#include "eval/split.h"
#include "support/scratch.h"
#include <stdio.h>
#include <string.h>

#define N 2000

/* Class 0: 1000 samples, class 1: 500, class 3: 30 (class 2 does not occur), 470 without label; mixed. */
static void make_labels(int32_t *label) {
    for (int i = 0; i < N; i++) {
        const int at = (i * 7) % N; /* 7 and N have no common factor */
        label[at] = i < 1000 ? 0 : i < 1500 ? 1 : i < 1530 ? 3 : -1;
    }
}

static void counts(const int32_t *label, const uint8_t *chosen, int64_t *count) {
    memset(count, 0, 4 * sizeof *count);
    for (int i = 0; i < N; i++) {
        assert_true(chosen[i] == 0 || (chosen[i] == 1 && label[i] >= 0));
        if (chosen[i]) count[label[i]]++;
    }
}

TEST(takes_the_floor_of_each_class) {
    static const struct {
        double share;
        int64_t count[4];
        int64_t with_one[4]; /* at least one of each class */
        int32_t raised;
    } cases[] = {
        {1.0, {1000, 500, 0, 30}, {1000, 500, 0, 30}, 0}, {0.1, {100, 50, 0, 3}, {100, 50, 0, 3}, 0},
        {0.05, {50, 25, 0, 1}, {50, 25, 0, 1}, 0},        {0.01, {10, 5, 0, 0}, {10, 5, 0, 1}, 1},
        {0.001, {1, 0, 0, 0}, {1, 1, 0, 1}, 2},           {0.7, {700, 350, 0, 21}, {700, 350, 0, 21}, 0},
    };
    int32_t label[N];
    uint8_t chosen[N];
    int64_t count[4];
    make_labels(label);
    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
        const size_t c = k / 2;
        gf_stratified_sample d = {.share = cases[c].share,
                                  .seed = 5,
                                  .stream = GF_STRATIFIED_LABELS,
                                  .at_least_one = (int)(k % 2)};
        assert_int_equal(gf_stratified_draw(NULL, &d, label, N, chosen), GLOFND_OK);
        counts(label, chosen, count);
        assert_memory_equal(count, d.at_least_one ? cases[c].with_one : cases[c].count, sizeof count);
        assert_int_equal(d.count, count[0] + count[1] + count[3]);
        assert_int_equal(d.classes, 3);
        assert_int_equal(d.raised, d.at_least_one ? cases[c].raised : 0);
    }
}

/* 0.29 * 100 is 28.999... in binary, and 29 all the same. */
TEST(rounding_loses_no_sample) {
    int32_t label[100] = {0};
    uint8_t chosen[100];
    gf_stratified_sample d = {.share = 0.29, .seed = 5};
    assert_int_equal(gf_stratified_draw(NULL, &d, label, 100, chosen), GLOFND_OK);
    assert_int_equal(d.count, 29);
}

static int differences(const uint8_t *a, const uint8_t *b) {
    int count = 0;
    for (int i = 0; i < N; i++) count += a[i] != b[i];
    return count;
}

TEST(smaller_shares_lie_in_larger_ones_and_seeds_differ) {
    int32_t label[N];
    uint8_t tenth[N], half[N], again[N], other[N], stream[N];
    make_labels(label);
    assert_int_equal(gf_stratified_draw(NULL, &(gf_stratified_sample){.share = 0.1, .seed = 5}, label, N, tenth), GLOFND_OK);
    assert_int_equal(gf_stratified_draw(NULL, &(gf_stratified_sample){.share = 0.5, .seed = 5}, label, N, half), GLOFND_OK);
    assert_int_equal(gf_stratified_draw(NULL, &(gf_stratified_sample){.share = 0.1, .seed = 5}, label, N, again), GLOFND_OK);
    assert_int_equal(gf_stratified_draw(NULL, &(gf_stratified_sample){.share = 0.1, .seed = 6}, label, N, other), GLOFND_OK);
    assert_int_equal(gf_stratified_draw(NULL, &(gf_stratified_sample){.share = 0.1, .seed = 5, .stream = 2}, label, N, stream),
                     GLOFND_OK);
    for (int i = 0; i < N; i++) assert_true(tenth[i] <= half[i]);
    assert_int_equal(differences(tenth, again), 0);
    assert_true(differences(tenth, other) > 200);
    assert_true(differences(tenth, stream) > 200);
}

TEST(refuses_shares_that_are_none) {
    const double bad[] = {0.0, -0.1, 1.1, 0.0 / 0.0};
    int32_t label[1] = {0};
    uint8_t chosen[1];
    for (int i = 0; i < 4; i++)
        assert_int_equal(gf_stratified_draw(NULL, &(gf_stratified_sample){.share = bad[i]}, label, 1, chosen), GLOFND_E_ARGUMENT);
}

/* ----- splits ----- */

TEST(a_dataset_has_its_own_test_split) {
    gf_split s;
    const gf_split_spec spec = {.data = "shapes:n=60,classes=3,size=16,seed=1", .share = 0.2, .seed = 1};
    assert_int_equal(gf_split_init(NULL, &spec, &s), GLOFND_OK);
    assert_int_equal(s.train.n, 60);
    assert_int_equal(s.classes, 3);
    assert_non_null(s.test_data);
    assert_non_null(strstr(s.test_name, "split=test"));
    gf_split_free(&s);
}

TEST(a_held_out_share_is_disjoint) {
    gf_split s, other;
    gf_split_spec spec = {.data = "shapes:n=60,classes=3,size=16,seed=1", .share = 0.2, .seed = 1, .held_out = 1};
    uint8_t seen[60] = {0};
    int held[3] = {0};
    assert_int_equal(gf_split_init(NULL, &spec, &s), GLOFND_OK);
    assert_int_equal(s.train.n + s.test.n, 60);
    assert_true(s.test_name[0] == 0 && !s.test_data && s.test.data == s.data);
    for (int64_t i = 0; i < s.train.n; i++) seen[s.train.id[i]]++;
    for (int64_t i = 0; i < s.test.n; i++) {
        seen[s.test.id[i]]++;
        held[s.test.label[i]]++;
        assert_int_equal(s.test.label[i], gf_dataset_label(s.data, s.test.id[i]));
    }
    for (int i = 0; i < 60; i++) assert_int_equal(seen[i], 1);
    for (int c = 0; c < 3; c++) assert_int_equal(held[c], 4);
    spec.seed = 2;
    assert_int_equal(gf_split_init(NULL, &spec, &other), GLOFND_OK);
    assert_true(memcmp(s.test.id, other.test.id, (size_t)s.test.n * sizeof *s.test.id) != 0);
    gf_split_free(&s);
    gf_split_free(&other);
}

TEST(classes_must_fit) {
    gf_error err = {{0}};
    gf_split s;
    const char *small = "shapes:n=30,classes=3,size=16,seed=1", *large = "shapes:n=40,classes=4,size=16,seed=1";
    assert_int_equal(gf_split_init(&err, &(gf_split_spec){.data = small, .test = large}, &s), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "class 3"));
    assert_non_null(strstr(err.text, "no training sample"));
    assert_int_equal(gf_split_init(&err, &(gf_split_spec){.data = large, .test = small}, &s), GLOFND_OK);
    gf_split_free(&s);
    assert_int_equal(gf_split_init(&err, &(gf_split_spec){.data = "shapes:n=6,classes=3,size=16", .held_out = 1, .share = 0.2},
                                   &s),
                     GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "20 %"));
}

/* A folder for each letter of `classes`, with an image; opening does not decode it. */
static void make_folders(const char *name, const char *classes) {
    for (const char *c = classes; *c; c++) {
        char path[100];
        snprintf(path, sizeof path, "%s/%c/image.png", name, *c);
        scratch_text(&box, path, "");
    }
}

static glofnd_status open_both(gf_error *err, const char *train, const char *test, gf_split *s) {
    char data[200], other[200];
    snprintf(data, sizeof data, "folder:%s/%s", box.folder, train);
    snprintf(other, sizeof other, "folder:%s/%s", box.folder, test);
    return gf_split_init(err, &(gf_split_spec){.data = data, .test = other}, s);
}

/* Numbers of the test set count its own folders; those that evaluations compare are the training set's, by name. */
TEST(test_classes_are_numbered_by_names_of_training) {
    static const struct {
        const char *folders;
        int32_t label[4];
    } cases[] = {{"abd", {0, 1, 3}}, {"d", {3}}, {"bcd", {1, 2, 3}}, {"abc", {0, 1, 2}}, {"abcd", {0, 1, 2, 3}}};
    make_folders("train", "abcd");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        gf_error err = {{0}};
        gf_split s;
        const size_t n = strlen(cases[k].folders);
        make_folders(cases[k].folders, cases[k].folders);
        if (open_both(&err, "train", cases[k].folders, &s) != GLOFND_OK) fail_msg("%s: %s", cases[k].folders, err.text);
        assert_int_equal(s.test.n, n);
        assert_int_equal(s.classes, 4);
        assert_memory_equal(s.test.label, cases[k].label, n * sizeof *s.test.label);
        gf_split_free(&s);
    }
}

TEST(a_name_that_training_lacks_is_refused) {
    gf_error err = {{0}};
    gf_split s;
    make_folders("few", "abd");
    make_folders("odd", "acd");
    assert_int_equal(open_both(&err, "few", "odd", &s), GLOFND_E_ARGUMENT);
    assert_non_null(
        strstr(err.text, "class 1 (c) of the test samples has no training sample: none of the 3 training classes has that name"));
    assert_non_null(strstr(err.text, "(the first is \"a\")"));
    make_folders("gap", "bcd");
    scratch_text(&box, "gap/a/note.txt", "a class folder without image");
    make_folders("ab", "ab");
    assert_int_equal(open_both(&err, "gap", "ab", &s), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "class 0 (a) of the test samples has no training sample"));
}

TEST(names_that_two_classes_share_are_no_guide) {
    gf_error err = {{0}};
    gf_split s;
    gf_dataset *d = NULL;
    gf_export_result out;
    char data[200], test[200];
#ifndef GF_HAVE_PNG
    skip();
#endif
    assert_int_equal(gf_dataset_open(&err, "shapes:n=6,classes=3,size=16,seed=1", &d), GLOFND_OK);
    assert_int_equal(gf_dataset_export(&err, d, &(gf_export){.folder = scratch_path(&box, "w")}, &out), GLOFND_OK);
    gf_dataset_free(d);
    snprintf(data, sizeof data, "%.190s", out.spec);
    snprintf(test, sizeof test, "folder:%s/cranes", box.folder);
    scratch_text(&box, "w/classnames.txt", "crane\ndog\ncrane\n");
    scratch_text(&box, "cranes/crane/image.png", "");
    assert_int_equal(gf_split_init(&err, &(gf_split_spec){.data = data, .test = test}, &s), GLOFND_OK); /* the same number */
    gf_split_free(&s);
    assert_int_equal(gf_split_init(&err, &(gf_split_spec){.data = data, .test = data}, &s), GLOFND_OK);
    gf_split_free(&s);
    scratch_text(&box, "w/classnames.txt", "\ndog\ncrane\n"); /* the first one has no name */
    assert_int_equal(gf_split_init(&err, &(gf_split_spec){.data = data, .test = test}, &s), GLOFND_OK);
    assert_int_equal(s.test.label[0], 2);
    gf_split_free(&s);
    scratch_text(&box, "w/classnames.txt", "\n\n\n"); /* none has: by number */
    assert_int_equal(gf_split_init(&err, &(gf_split_spec){.data = data, .test = test}, &s), GLOFND_OK);
    assert_int_equal(s.test.label[0], 0);
    gf_split_free(&s);
    scratch_text(&box, "w/classnames.txt", "dog\ncrane\ncrane\n");
    assert_int_equal(gf_split_init(&err, &(gf_split_spec){.data = data, .test = test}, &s), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "is called \"crane\", which is the name of two training classes"));
}

TEST_GROUP(make_box, remove_box)
