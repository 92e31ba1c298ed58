/* fault_official.c - opening and reading published datasets when memory runs out: every allocation in turn fails once. The
 * call fails with E_MEMORY and without a dataset; under a leak checker nothing is lost. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "data/dataset.h"
#include "support/faults.h"
#include "support/scratch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static glofnd_status open_and_read_all(gf_error *err, const char *spec) {
    gf_dataset *d = NULL;
    glofnd_status status = gf_dataset_open(err, spec, &d);
    gf_sample s = {0};
    if (status != GLOFND_OK) assert_null(d);
    for (int64_t i = 0; d && i < gf_dataset_describe(d).n && status == GLOFND_OK; i++)
        status = gf_dataset_read(err, d, i, NULL, &s);
    gf_sample_free(&s);
    gf_dataset_free(d);
    return status;
}

static void fail_each(const char *name, const char *folder, const char *options) {
    char spec[600];
    gf_error none = {""};
    snprintf(spec, sizeof spec, "%s:%s?counts=any%s", name, scratch_path(&box, folder), options);
    if (open_and_read_all(&none, spec) != GLOFND_OK) fail_msg("%s", none.text);
    for (int k = 0;; k++) {
        gf_error err = {""};
        faults_at(k);
        const glofnd_status status = open_and_read_all(&err, spec);
        if (!faults_end()) {
            if (status != GLOFND_OK) fail_msg("%s", err.text);
            assert_true(k > 5);
            return;
        }
        if (status != GLOFND_E_MEMORY || !err.text[0]) fail_msg("%s, allocation %d: status %d, %s", name, k, status, err.text);
    }
}

static void image(const char *name) { scratch_png(&box, name, 4, 7); }

TEST(lists) {
    scratch_text(&box, "pets/annotations/trainval.txt", "a_1 1 1 1\nb_2 2 1 1\n");
    image("pets/images/a_1.jpg"), image("pets/images/b_2.jpg");
    fail_each("pets", "pets", "");
    image("dtd/images/a/a.jpg"), image("dtd/images/b/b.jpg");
    scratch_text(&box, "dtd/labels/train1.txt", "a/a.jpg\nb/b.jpg\n");
    fail_each("dtd", "dtd", "");
    image("cal/a/1.jpg"), image("cal/BACKGROUND_Google/1.jpg");
    fail_each("caltech101", "cal", "");
    scratch_text(&box, "flowers/train.tsv", "a.jpg\t1\n"), scratch_text(&box, "flowers/classes.txt", "rose\ntulip\n");
    image("flowers/a.jpg");
    fail_each("flowers", "flowers", "");
}

TEST(class_folders) {
    image("in/train/n01/a.JPEG"), image("in/train/n02/b.JPEG"), image("in/val/a.JPEG"), image("in/val/b.JPEG");
    scratch_text(&box, "in/LOC_val_solution.csv", "a,n02 1\nb,n01 2\n");
    scratch_text(&box, "in/words.txt", "n01 fish\nn02 dog\n");
    fail_each("imagenet", "in", "");
    fail_each("imagenet", "in", "&split=val");
}

TEST(associations) {
    scratch_text(&box, "wino/test.csv", "cue,candidates,associations\nx,\"[\"\"a\"\"]\",\"[\"\"a\"\"]\"\n");
    image("wino/images/a.jpg");
    fail_each("winogavil", "wino", "");
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
