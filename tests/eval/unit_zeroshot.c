/* unit_zeroshot.c - embeddings of classes and scores against plain loops; ties, unlabelled images, hostile files of names. */
#include "support/test.h"

#include "eval/zeroshot.h"
#include "support/random.h"
#include "support/trial.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ----- classes ----- */

TEST(average_is_of_unit_vectors) {
    enum { CLASSES = 6, TEMPLATES = 5, DIM = 9 };
    float z[CLASSES * TEMPLATES * DIM], out[CLASSES * DIM];
    rng g = {3};
    for (int i = 0; i < CLASSES * TEMPLATES * DIM; i++) z[i] = (float)(rng_normal(&g) * pow(10, i / DIM % 4));
    assert_int_equal(gf_zeroshot_average(NULL, z, CLASSES, TEMPLATES, DIM, out), GLOFND_OK);
    for (int c = 0; c < CLASSES; c++) {
        double mean[DIM] = {0}, length = 0;
        for (int t = 0; t < TEMPLATES; t++) {
            const float *x = z + (c * TEMPLATES + t) * DIM;
            double norm = 0;
            for (int i = 0; i < DIM; i++) norm += (double)x[i] * (double)x[i];
            for (int i = 0; i < DIM; i++) mean[i] += (double)x[i] / sqrt(norm) / TEMPLATES;
        }
        for (int i = 0; i < DIM; i++) length += mean[i] * mean[i];
        for (int i = 0; i < DIM; i++) assert_float_equal(out[c * DIM + i], mean[i] / sqrt(length), 1e-6);
    }
}

TEST(zeros_stay_zeros) {
    const float z[] = {0, 0, 3, 4, 1, 0, -1, 0}; /* a zero beside (3, 4); two that cancel each other */
    float out[4];
    assert_int_equal(gf_zeroshot_average(NULL, z, 2, 2, 2, out), GLOFND_OK);
    assert_float_equal(out[0], 0.6, 1e-7);
    assert_float_equal(out[1], 0.8, 1e-7);
    assert_true(out[2] == 0.0f && out[3] == 0.0f);
}

/* ----- scores ----- */

static gf_features make(int64_t n, int64_t dim, int32_t classes, const float *centre, uint64_t seed) {
    gf_features f;
    rng g = {seed};
    assert_int_equal(gf_features_alloc(NULL, &f, n, dim), GLOFND_OK);
    for (int64_t i = 0; i < n; i++) {
        f.label[i] = (int32_t)rng_below(&g, classes) / 2 * 2; /* odd classes have no image */
        for (int64_t a = 0; a < dim; a++) f.x[i * dim + a] = centre[f.label[i] * dim + a] + 1.2f * (float)rng_normal(&g);
        if (i % 7 == 3) f.label[i] = -1;
    }
    return f;
}

static int place_of(const gf_features *f, int64_t i, const float *centre, int32_t classes) {
    double own = 0;
    int before = 0;
    for (int64_t a = 0; a < f->dim; a++) own += (double)f->x[i * f->dim + a] * (double)centre[f->label[i] * f->dim + a];
    for (int32_t c = 0; c < classes; c++) {
        double s = 0;
        for (int64_t a = 0; a < f->dim; a++) s += (double)f->x[i * f->dim + a] * (double)centre[c * f->dim + a];
        before += s > own;
    }
    return before;
}

TEST(equals_plain_loops) {
    enum { CLASSES = 30, DIM = 8, N = 400 };
    float centre[CLASSES * DIM];
    double right[CLASSES] = {0}, all[CLASSES] = {0}, top1 = 0, top5 = 0, per_class = 0;
    int64_t n = 0, seen = 0;
    gf_zeroshot found;
    rng g = {5};
    for (int i = 0; i < CLASSES * DIM; i++) centre[i] = (float)rng_normal(&g);
    assert_int_equal(gf_zeroshot_average(NULL, centre, CLASSES, 1, DIM, centre), GLOFND_OK);
    gf_features f = make(N, DIM, CLASSES, centre, 9);
    assert_int_equal(gf_zeroshot_score(NULL, &f, NULL, centre, CLASSES, &(gf_sweep_job){.threads = 2}, &found), GLOFND_OK);
    for (int64_t i = 0; i < N; i++) {
        if (f.label[i] < 0) continue;
        const int place = place_of(&f, i, centre, CLASSES);
        n++, all[f.label[i]]++, right[f.label[i]] += place == 0;
        top1 += place == 0, top5 += place < 5;
    }
    for (int c = 0; c < CLASSES; c++) {
        seen += all[c] > 0;
        if (all[c] > 0) per_class += right[c] / all[c];
    }
    assert_int_equal(found.n, n);
    assert_int_equal(found.classes, CLASSES);
    assert_int_equal(found.seen, seen);
    assert_float_equal(found.top1, top1 / (double)n, 1e-12);
    assert_float_equal(found.top5, top5 / (double)n, 1e-12);
    assert_float_equal(found.per_class, per_class / (double)seen, 1e-12);
    assert_true(found.top1 > 0.05 && found.top1 < 0.95 && found.top5 > found.top1);
    gf_features_free(&f);
}

/* All classes are equal: the smallest label wins, the first five are the top five. */
TEST(ties_go_to_the_smaller_label) {
    float x[20], centre[14];
    int32_t label[10];
    gf_zeroshot found;
    for (int i = 0; i < 20; i++) x[i] = (float)(i + 1);
    for (int i = 0; i < 14; i++) centre[i] = i % 2 ? 0.6f : 0.8f;
    for (int i = 0; i < 10; i++) label[i] = i % 7;
    const gf_features f = {.n = 10, .dim = 2, .x = x, .label = label};
    assert_int_equal(gf_zeroshot_score(NULL, &f, NULL, centre, 7, &(gf_sweep_job){0}, &found), GLOFND_OK);
    assert_float_equal(found.top1, 2.0 / 10, 1e-12);
    assert_float_equal(found.top5, 8.0 / 10, 1e-12);
    assert_float_equal(found.per_class, 1.0 / 7, 1e-12);
}

/* Truth 0 0 0 1 1 2, chosen 0 0 1 1 0 0: F1 of class 0 is 4/7, of class 1 2/4, of class 2 0. Groups: 0 0 1 1 1, one left out. */
TEST(groups_and_f1_are_those_worked_out_by_hand) {
    float centre[7 * 7] = {0}, x[6 * 7] = {0};
    int32_t label[] = {0, 0, 0, 1, 1, 2}, group[] = {0, 0, 1, 1, 1, 5};
    static const int chosen[] = {0, 0, 1, 1, 0, 0};
    gf_zeroshot found;
    for (int c = 0; c < 7; c++) centre[c * 7 + c] = 1.0f;
    for (int i = 0; i < 6; i++) x[i * 7 + chosen[i]] = 1.0f;
    const gf_features f = {.n = 6, .dim = 7, .x = x, .label = label};
    const gf_zeroshot_groups groups = {.group = group, .left_out = 5};
    assert_int_equal(gf_zeroshot_score(NULL, &f, &groups, centre, 7, &(gf_sweep_job){0}, &found), GLOFND_OK);
    assert_float_equal(found.macro_f1, (4.0 / 7.0 + 0.5 + 0.0) / 3.0, 1e-12);
    assert_int_equal(found.groups, 2);
    assert_float_equal(found.worst_group, 1.0 / 3.0, 1e-12);
    assert_float_equal(found.worst_group5, 1.0, 1e-12);
    assert_int_equal(gf_zeroshot_score(NULL, &f, NULL, centre, 7, &(gf_sweep_job){0}, &found), GLOFND_OK);
    assert_true(found.groups == 0 && found.worst_group != found.worst_group);
}

TEST(one_image_one_class) {
    float x[] = {1, 2}, centre[] = {-1, 0};
    int32_t label[] = {0};
    gf_error err = {{0}};
    gf_zeroshot found;
    const gf_features f = {.n = 1, .dim = 2, .x = x, .label = label};
    assert_int_equal(gf_zeroshot_score(NULL, &f, NULL, centre, 1, &(gf_sweep_job){0}, &found), GLOFND_OK);
    assert_true(found.top1 == 1.0 && found.top5 == 1.0 && found.per_class == 1.0);
    label[0] = 1;
    assert_int_equal(gf_zeroshot_score(&err, &f, NULL, centre, 1, &(gf_sweep_job){0}, &found), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "label 1"));
    label[0] = -1;
    assert_int_equal(gf_zeroshot_score(&err, &f, NULL, centre, 1, &(gf_sweep_job){0}, &found), GLOFND_E_ARGUMENT);
}

/* ----- names and templates ----- */

static char path[] = "unit_zeroshot.tmp";

static void write_file(const char *text, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

TEST(fills_every_gap) {
    char out[16];
    assert_int_equal(gf_prompt_fill("a {} or {}.", "cat", out, sizeof out), 13);
    assert_string_equal(out, "a cat or cat.");
    assert_int_equal(gf_prompt_fill("{", "cat", out, sizeof out), 1);
    assert_int_equal(gf_prompt_fill("{}{}{}{}{}{}", "cat", out, sizeof out), 18);
    assert_string_equal(out, "catcatcatcatcat");
    assert_int_equal(gf_prompt_fill("{}", "{}", out, sizeof out), 2);
    assert_string_equal(out, "{}");
}

static void refuse_templates(const char *text, size_t n, const char *why) {
    gf_error err = {{0}};
    gf_string_list names;
    write_file(text, n);
    assert_int_equal(gf_prompts_templates(&err, path, &names), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, why));
}

TEST(reads_templates) {
    gf_string_list names;
    assert_int_equal(gf_prompts_templates(NULL, NULL, &names), GLOFND_OK);
    assert_true(names.n >= 5);
    for (int64_t i = 0; i < names.n; i++) assert_non_null(strstr(gf_string_list_get(&names, i), "{}"));
    gf_string_list_free(&names);
    const char good[] = "\xef\xbb\xbf"
                        "a {}.\r\nthe {}\n\r\n \n";
    write_file(good, sizeof good - 1);
    assert_int_equal(gf_prompts_templates(NULL, path, &names), GLOFND_OK);
    assert_int_equal(names.n, 2);
    assert_string_equal(gf_string_list_get(&names, 0), "a {}.");
    assert_string_equal(gf_string_list_get(&names, 1), "the {}");
    gf_string_list_free(&names);
    char *wide = malloc(GF_PROMPT_MAX + 2);
    memset(wide, 'x', GF_PROMPT_MAX + 2);
    memcpy(wide, "{}", 2);
    refuse_templates(wide, GF_PROMPT_MAX + 2, "more than");
    free(wide);
    refuse_templates("a {}\na photo\n", 13, "line 2 has no {}");
    refuse_templates("a {}\n\nb {}\n", 11, "line 2 is empty");
    refuse_templates("", 0, "is empty");
    refuse_templates("\n\n", 2, "is empty");
    refuse_templates("a {}\0b", 6, "zero byte");
    unlink(path);
    assert_int_equal(gf_prompts_templates(NULL, path, &names), GLOFND_E_IO);
}

static void refuse_classes(const gf_dataset *data, const char *text, const char *why) {
    gf_error err = {{0}};
    gf_string_list names;
    write_file(text, strlen(text));
    assert_int_equal(gf_prompts_classes(&err, data, path, &names), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, why));
}

TEST(reads_classes) {
    gf_dataset *data;
    gf_string_list names;
    assert_int_equal(gf_dataset_open(NULL, "shapes:n=8,classes=3,size=16", &data), GLOFND_OK);
    assert_int_equal(gf_prompts_classes(NULL, data, NULL, &names), GLOFND_OK);
    assert_int_equal(names.n, 3);
    assert_string_equal(gf_string_list_get(&names, 2), gf_dataset_class(data, 2));
    gf_string_list_free(&names);
    write_file("one\ntwo\nthree", 13);
    assert_int_equal(gf_prompts_classes(NULL, data, path, &names), GLOFND_OK);
    assert_string_equal(gf_string_list_get(&names, 2), "three");
    gf_string_list_free(&names);
    refuse_classes(data, "one\ntwo\n", "2 class names, the data has 3");
    refuse_classes(data, "one\ntwo\nthree\nfour\n", "4 class names, the data has 3");
    refuse_classes(data, "one\n\nthree\nfour", "line 2 is empty");
    gf_dataset_free(data);
    unlink(path);
}

TEST_GROUP(trial_enter, trial_leave)
