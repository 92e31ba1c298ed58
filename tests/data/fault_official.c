/* fault_official.c - opening and reading published datasets when memory runs out: every allocation in turn fails once. The
 * call fails with E_MEMORY and without a dataset; under a leak checker nothing is lost. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "data/dataset.h"
#include "support/faults.h"
#include "support/mat_writer.h"
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
    scratch_text(&box, "sun/ClassName.txt", "/a/abbey\n");
    image("sun/a/abbey/1.jpg");
    fail_each("sun397", "sun", "&split=all");
    image("cal/a/1.jpg"), image("cal/BACKGROUND_Google/1.jpg");
    fail_each("caltech101", "cal", "");
}

TEST(matlab_files) {
    static const uint8_t pixels[3072];
    mat_bytes v = {0}, file = {0};
    mat_header(&file);
    mat_numbers(&file, "labels", (const double[]){1, 2}, 2, 0);
    scratch_write(&box, "flowers/imagelabels.mat", file.at, file.n);
    mat_free(&file), mat_header(&file);
    mat_numbers(&file, "trnid", (const double[]){1, 2}, 2, 1);
    scratch_write(&box, "flowers/setid.mat", file.at, file.n);
    image("flowers/jpg/image_00001.jpg"), image("flowers/jpg/image_00002.jpg");
    fail_each("flowers", "flowers", "");
    mat_free(&file), mat_header(&file);
    mat_array(&v, "X", (const int32_t[]){32, 32, 3, 1}, 4, pixels, sizeof pixels);
    mat_pack(&file, &v);
    mat_numbers(&file, "y", (const double[]){10}, 1, 1);
    scratch_write(&box, "svhn/train_32x32.mat", file.at, file.n);
    mat_free(&file), mat_free(&v);
    fail_each("svhn", "svhn", "");
}

TEST(class_folders) {
    image("in/train/n01/a.JPEG"), image("in/train/n02/b.JPEG"), image("in/val/a.JPEG"), image("in/val/b.JPEG");
    scratch_text(&box, "in/LOC_val_solution.csv", "a,n02 1\nb,n01 2\n");
    scratch_text(&box, "in/words.txt", "n01 fish\nn02 dog\n");
    fail_each("imagenet", "in", "");
    fail_each("imagenet", "in", "&split=val");
}

TEST(captions) {
    scratch_text(&box, "flickr/results_20130124.token", "a.jpg#0\tone\na.jpg#1\ttwo\n");
    image("flickr/images/a.jpg");
    fail_each("flickr30k", "flickr", "&split=all");
    scratch_text(
        &box, "coco/annotations/captions_val2014.json",
        "{\"images\": [{\"id\": 1, \"file_name\": \"a.jpg\"}], \"annotations\": [{\"image_id\": 1, \"caption\": \"x\"}]}");
    image("coco/val2014/a.jpg");
    fail_each("coco", "coco", "&split=val2014");
    scratch_text(&box, "wino/test.csv", "cue,candidates,associations\nx,\"[\"\"a\"\"]\",\"[\"\"a\"\"]\"\n");
    image("wino/images/a.jpg");
    fail_each("winogavil", "wino", "");
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
