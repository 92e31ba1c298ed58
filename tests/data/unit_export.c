/* unit_export.c - any dataset written out as shards or folders opens again with the same pictures, labels and texts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "data/captions.h"
#include "data/dataset.h"
#include "data/export.h"
#include "data/formats/shapes.h"
#include "io/blockfile.h"
#include "support/scratch.h"
#include "util/parallel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gf_dataset *open_spec(const char *spec) {
    gf_error err = {""};
    gf_dataset *d = NULL;
    if (gf_dataset_open(&err, spec, &d) != GLOFND_OK) fail_msg("%s: %s", spec, err.text);
    return d;
}

static gf_export_result export_to(const gf_dataset *d, gf_export e) {
    gf_export_result r;
    gf_error err = {""};
    if (gf_dataset_export(&err, d, &e, &r) != GLOFND_OK) fail_msg("%s", err.text);
    return r;
}

static uint32_t pixels(const gf_image *m) { return gf_crc32c(0, m->rgb, (size_t)3 * (size_t)m->width * (size_t)m->height); }

/* Sample `i` of a is sample `j` of b. */
static void expect_same(const gf_dataset *a, int64_t i, const gf_dataset *b, int64_t j, int with_text) {
    gf_sample x = {0}, y = {0};
    gf_error err = {""};
    if (gf_dataset_read(&err, a, i, 0, &x) != GLOFND_OK || gf_dataset_read(&err, b, j, 0, &y) != GLOFND_OK)
        fail_msg("%s", err.text);
    assert_int_equal(x.image.width, y.image.width);
    assert_int_equal(x.image.height, y.image.height);
    assert_int_equal(pixels(&x.image), pixels(&y.image));
    assert_int_equal(x.label, y.label);
    if (with_text) assert_string_equal(x.text, y.text);
    gf_sample_free(&x);
    gf_sample_free(&y);
}

TEST(shards_come_back) {
    gf_dataset *d = open_spec("shapes:n=25,classes=7,size=16");
    const gf_export_result r =
        export_to(d, (gf_export){.form = GF_EXPORT_WDS, .folder = scratch_path(&box, "w"), .per_shard = 10});
    assert_int_equal(r.written, 25);
    assert_int_equal(r.shards, 3);
    assert_non_null(strstr(r.spec, "shard-{000000..000002}.tar"));
    gf_dataset *back = open_spec(r.spec);
    assert_int_equal(gf_dataset_describe(back).n, 25);
    assert_int_equal(gf_dataset_describe(back).classes, 7);
    assert_int_equal(gf_dataset_describe(back).has_text, 1);
    for (int64_t i = 0; i < 25; i++) expect_same(d, i, back, i, 1);
    for (int32_t c = 0; c < 7; c++) assert_string_equal(gf_dataset_class(back, c), gf_dataset_class(d, c));
    /* Cut anew: other shards, the same keys. */
    const gf_export_result again =
        export_to(back, (gf_export){.form = GF_EXPORT_WDS, .folder = scratch_path(&box, "w2"), .first = 3});
    assert_int_equal(again.written, 22);
    assert_int_equal(again.shards, 1);
    gf_dataset *recut = open_spec(again.spec);
    assert_int_equal(gf_dataset_describe(recut).n, 22);
    for (int64_t i = 0; i < 22; i++) {
        expect_same(back, i + 3, recut, i, 1);
        assert_true(gf_dataset_key(recut, i) == gf_dataset_key(back, i + 3));
    }
    gf_dataset_free(d);
    gf_dataset_free(back);
    gf_dataset_free(recut);
}

/* Class names of shapes are not in bytewise order: folders are numbered so that labels come back. */
TEST(folders_come_back) {
    gf_dataset *d = open_spec("shapes:n=20,classes=12,size=12");
    const gf_export_result r = export_to(d, (gf_export){.form = GF_EXPORT_FOLDER, .folder = scratch_path(&box, "f")});
    assert_int_equal(r.written, 20);
    gf_dataset *back = open_spec(r.spec);
    assert_int_equal(gf_dataset_describe(back).n, 20);
    assert_int_equal(gf_dataset_describe(back).classes, 12);
    int64_t at = 0;
    for (int32_t c = 0; c < 12; c++) {
        for (int64_t i = c; i < 20; i += 12) expect_same(d, i, back, at++, 0);
        assert_string_equal(gf_dataset_class(back, c), gf_dataset_class(d, c));
    }
    gf_dataset_free(back);
    char spec[600];
    snprintf(spec, sizeof spec, "csv:%s", scratch_path(&box, "f/captions.csv"));
    back = open_spec(spec);
    assert_int_equal(gf_dataset_describe(back).n, 20 * GF_PHRASES); /* a row per caption */
    gf_sample x = {0}, y = {0};
    for (int64_t i = 0; i < 20 * GF_PHRASES; i++) {
        assert_int_equal(gf_dataset_read(NULL, d, i / GF_PHRASES, 0, &x), GLOFND_OK);
        assert_int_equal(gf_dataset_read(NULL, back, i, 0, &y), GLOFND_OK);
        assert_int_equal(pixels(&x.image), pixels(&y.image));
        const gf_caption c = gf_caption_at(x.text, i % GF_PHRASES);
        assert_int_equal(strlen(y.text), c.n);
        assert_memory_equal(y.text, c.text, c.n);
    }
    gf_sample_free(&x);
    gf_sample_free(&y);
    gf_dataset_free(back);
    gf_dataset_free(d);
}

/* Sample of `d` by the gray it is painted with. */
static int64_t painted(const gf_dataset *d, int gray) {
    gf_sample s = {0};
    int64_t i = 0;
    for (; i < gf_dataset_describe(d).n; i++) {
        assert_int_equal(gf_dataset_read(NULL, d, i, 0, &s), GLOFND_OK);
        if (s.image.rgb[0] == gray) break;
    }
    gf_sample_free(&s);
    return i;
}

/* A list of pictures with these labels, "" for none, exported in a form: classes, their names and labels come back. */
static void expect_classes_back(const char *const *label, int n, gf_export_form form, const char *folder) {
    char list[1000] = "", spec[600], name[40];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "cls/%d.png", i);
        scratch_png(&box, name, 9, (uint8_t)(10 + i));
        sprintf(list + strlen(list), "%d.png\t%s\n", i, label[i]);
    }
    scratch_text(&box, "cls/list", list);
    snprintf(spec, sizeof spec, "list:%s", scratch_path(&box, "cls/list"));
    gf_dataset *d = open_spec(spec);
    const gf_export_result r = export_to(d, (gf_export){.form = form, .folder = scratch_path(&box, folder)});
    gf_dataset *back = open_spec(r.spec);
    const int32_t classes = gf_dataset_describe(d).classes;
    assert_string_equal(gf_dataset_note(back), "");
    assert_int_equal(gf_dataset_describe(back).n, n);
    assert_int_equal(gf_dataset_describe(back).classes, classes);
    for (int32_t c = 0; c < classes; c++) {
        const char *was = gf_dataset_class(d, c), *is = gf_dataset_class(back, c);
        if (!was != !is || (was && strcmp(was, is) != 0)) fail_msg("%s: class %d", folder, c);
    }
    for (int i = 0; i < n; i++)
        assert_int_equal(gf_dataset_label(back, painted(back, 10 + i)), gf_dataset_label(d, painted(d, 10 + i)));
    gf_dataset_free(back);
    gf_dataset_free(d);
}

TEST(classes_come_back) {
    scratch_text(&box, "back/here", ""); /* makes the folder */
    static const char *const odd[] = {"z", "", "a/b", "unlabelled", "test", "z", "train"}, *const plain[] = {"zebra", "", "ant"};
    static const char *const numbers[] = {"2", "", "0"}, *const splits[] = {"train", "test", "val"}, *const one[] = {"train"};
    for (int form = 0; form < 2; form++) {
        const gf_export_form f = form ? GF_EXPORT_FOLDER : GF_EXPORT_WDS;
        expect_classes_back(odd, 7, f, form ? "back/f-odd" : "back/w-odd");
        expect_classes_back(plain, 3, f, form ? "back/f-plain" : "back/w-plain");
        expect_classes_back(numbers, 3, f, form ? "back/f-numbers" : "back/w-numbers");
        expect_classes_back(splits, 3, f, form ? "back/f-splits" : "back/w-splits");
        expect_classes_back(one, 1, f, form ? "back/f-one" : "back/w-one");
    }
}

/* Unlabelled pictures, one damaged; several lines of text with quotes. */
TEST(damaged_ones_are_left_out) {
    scratch_png(&box, "in/1.png", 9, 1);
    scratch_png(&box, "in/2.png", 9, 2);
    scratch_text(&box, "in/3.png", "damaged");
    scratch_text(&box, "in/t.csv", "filepath\ttitle\n1.png\t\"say \"\"a\"\"\"\n2.png\tb\n3.png\tc\n");
    char spec[600];
    snprintf(spec, sizeof spec, "csv:%s", scratch_path(&box, "in/t.csv"));
    gf_dataset *d = open_spec(spec);
    const gf_export_result r = export_to(d, (gf_export){.form = GF_EXPORT_FOLDER, .folder = scratch_path(&box, "out")});
    assert_int_equal(r.written, 2);
    assert_int_equal(r.unreadable, 1);
    gf_dataset *back = open_spec(r.spec);
    assert_int_equal(gf_dataset_describe(back).n, 2);
    assert_int_equal(gf_dataset_describe(back).classes, 0);
    for (int64_t i = 0; i < 2; i++) expect_same(d, i, back, i, 0);
    gf_dataset_free(back);
    snprintf(spec, sizeof spec, "csv:%s", scratch_path(&box, "out/captions.csv"));
    back = open_spec(spec);
    expect_same(d, 0, back, 0, 1);
    gf_dataset_free(back);
    gf_error err = {""};
    gf_export_result strict;
    const gf_export e = {.form = GF_EXPORT_WDS, .folder = scratch_path(&box, "strict"), .strict = 1};
    assert_int_equal(gf_dataset_export(&err, d, &e, &strict), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "3.png"));
    gf_dataset_free(d);
}

static int stop_after_three(void *user, int64_t done, int64_t total) {
    assert_int_equal(total, 10);
    *(int64_t *)user = done;
    return done == 3;
}

TEST(refusals_and_stopping) {
    gf_dataset *d = open_spec("shapes:n=10,size=8");
    gf_export_result r;
    gf_error err = {""};
    scratch_text(&box, "full/x", "here already");
    gf_export e = {.form = GF_EXPORT_FOLDER, .folder = scratch_path(&box, "full")};
    assert_int_equal(gf_dataset_export(&err, d, &e, &r), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "not empty"));
    e.folder = scratch_path(&box, "no/such/parent");
    assert_int_equal(gf_dataset_export(&err, d, &e, &r), GLOFND_E_IO);
    e = (gf_export){.folder = scratch_path(&box, "x"), .first = 5, .count = 6};
    assert_int_equal(gf_dataset_export(&err, d, &e, &r), GLOFND_E_ARGUMENT);
    int64_t done = 0;
    e = (gf_export){.folder = scratch_path(&box, "part"), .progress = stop_after_three, .user = &done};
    assert_int_equal(gf_dataset_export(&err, d, &e, &r), GLOFND_OK);
    assert_int_equal(done, 3);
    assert_int_equal(r.written, 3);
    gf_dataset *back = open_spec(r.spec);
    assert_int_equal(gf_dataset_describe(back).n, 3);
    gf_dataset_free(back);
    gf_dataset_free(d);
}

typedef struct race {
    const gf_dataset *d;
    uint32_t crc[200];
} race;

static void read_one(void *arg, int64_t task, int thread) {
    (void)thread;
    race *r = arg;
    gf_sample s = {0};
    if (gf_dataset_read(NULL, r->d, task % gf_dataset_describe(r->d).n, 0, &s) == GLOFND_OK) r->crc[task] = pixels(&s.image);
    gf_sample_free(&s);
}

TEST(many_threads_read_one_shard) {
    gf_dataset *d = open_spec("shapes:n=20,size=32");
    const gf_export_result w = export_to(d, (gf_export){.form = GF_EXPORT_WDS, .folder = scratch_path(&box, "threads")});
    gf_dataset *back = open_spec(w.spec);
    race one = {.d = d}, many = {.d = back};
    gf_parallel(1, 200, read_one, &one);
    gf_parallel(4, 200, read_one, &many);
    assert_memory_equal(one.crc, many.crc, sizeof one.crc);
    gf_dataset_free(back);
    gf_dataset_free(d);
}

TEST(sheets_show_pictures_side_by_side) {
    gf_dataset *d = open_spec("shapes:n=5,size=16");
    gf_image sheet = {0};
    assert_int_equal(gf_dataset_sheet(NULL, d, 0, 2, 3, 16, &sheet), GLOFND_OK);
    assert_int_equal(sheet.width, 3 * 18 + 2);
    assert_int_equal(sheet.height, 2 * 18 + 2);
    gf_sample s = {0};
    assert_int_equal(gf_dataset_read(NULL, d, 3, 0, &s), GLOFND_OK); /* the first of the second row */
    for (int y = 0; y < 16; y++) assert_memory_equal(sheet.rgb + 3 * ((20 + y) * 56 + 2), s.image.rgb + 3 * 16 * y, 48);
    assert_int_equal(sheet.rgb[3 * (25 * 56 + 45)], 128); /* there is no sixth */
    assert_int_equal(gf_dataset_sheet(NULL, d, 0, 0, 3, 16, &sheet), GLOFND_E_ARGUMENT);
    gf_sample_free(&s);
    gf_image_free(&sheet);
    gf_dataset_free(d);
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
