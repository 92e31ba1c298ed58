/* unit_official_captions.c - Flickr30k and MSCOCO from tiny mock-ups: token files, Karpathy's JSON, the official annotations. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "support/specs.h"
#include <stdio.h>
#include <string.h>

static void image(const char *name) { scratch_png(&box, name, 4, 7); }

/* Sample i: the end of its name, and its captions. */
static void expect_text(const gf_dataset *d, int64_t i, const char *end, const char *text) {
    char name[600];
    gf_sample s = {0};
    gf_error err = {""};
    gf_dataset_name(d, i, name, sizeof name);
    const size_t n = strlen(name), m = strlen(end);
    if (n < m || strcmp(name + n - m, end) != 0) fail_msg("sample %d is %s, not %s", (int)i, name, end);
    if (gf_dataset_read(&err, d, i, NULL, &s) != GLOFND_OK) fail_msg("%s", err.text);
    assert_non_null(s.text);
    assert_string_equal(s.text, text);
    assert_int_equal(s.label, -1);
    assert_int_equal(gf_dataset_text(&err, d, i, &s), GLOFND_OK);
    assert_string_equal(s.text, text);
    gf_sample_free(&s);
}

static gf_dataset *open_n(const char *pattern, int64_t n) {
    gf_dataset *d = open_spec(pattern);
    assert_int_equal(gf_dataset_describe(d).n, n);
    assert_true(gf_dataset_describe(d).has_text && gf_dataset_describe(d).classes == 0);
    return d;
}

TEST(flickr_tokens_are_grouped_by_image) {
    image("f1/flickr30k-images/10.jpg"), image("f1/flickr30k-images/20.jpg");
    scratch_text(&box, "f1/results_20130124.token", "10.jpg#0\tTwo dogs .\n10.jpg#1\tDogs , two .\n20.jpg#0\tA cat # 1\n");
    gf_dataset *d = open_n("flickr30k:%/f1?split=all", 2);
    expect_text(d, 0, "flickr30k-images/10.jpg", "Two dogs .\nDogs , two .");
    expect_text(d, 1, "20.jpg", "A cat # 1");
    assert_true(gf_dataset_as_known(d));
    gf_dataset_free(d);
    refused("flickr30k:%/f1", GLOFND_E_IO, "dataset_flickr30k.json");
    image("f2/flickr30k_images/10.jpg");
    scratch_text(&box, "f2/results.csv", "image_name| comment_number| comment\n10.jpg| 0| A dog | runs .\n10.jpg| 1| Run\n");
    d = open_n("flickr30k:%/f2?split=all", 1);
    expect_text(d, 0, "10.jpg", "A dog | runs .\nRun");
    gf_dataset_free(d);
}

TEST(karpathy_has_the_splits) {
    image("f3/flickr30k-images/1.jpg"), image("f3/flickr30k-images/2.jpg");
    scratch_text(&box, "f3/dataset_flickr30k.json",
                 "{\"images\": [{\"filename\": \"1.jpg\", \"split\": \"train\", \"sentences\": [{\"raw\": \"One\\nline\"}, "
                 "{\"raw\": \"Two\"}]},"
                 "{\"filename\": \"2.jpg\", \"split\": \"test\", \"sentences\": [{\"raw\": \"Three\", \"tokens\": [1]}]}]}");
    gf_dataset *d = open_n("flickr30k:%/f3?counts=any", 1);
    expect_text(d, 0, "1.jpg", "One line\nTwo");
    char spec[1000];
    assert_true(gf_dataset_test_spec(d, spec, sizeof spec));
    gf_dataset_free(d);
    gf_dataset_free(open_n("flickr30k:%/f3?counts=any&split=test", 1));
    gf_dataset_free(open_n("flickr30k:%/f3?counts=any&split=all", 2));
    refused("flickr30k:%/f3", GLOFND_E_FORMAT, "has 1 images in split train; Flickr30k has 29000 images");
    scratch_text(&box, "f4/dataset_flickr30k.json", "{\"images\": [{\"filename\": \"1.jpg\", \"sentences\": []}]}");
    refused("flickr30k:%/f4?counts=any", GLOFND_E_FORMAT, "lacks filename, split or sentences");
    scratch_text(&box, "f4/dataset_flickr30k.json",
                 "{\"images\": [{\"filename\": \"../../x.jpg\", \"split\": \"train\", \"sentences\": []}]}");
    refused("flickr30k:%/f4?counts=any", GLOFND_E_FORMAT, "leaves this folder");
    scratch_text(&box, "f4/dataset_flickr30k.json", "{\"images\": ");
    refused("flickr30k:%/f4?counts=any", GLOFND_E_FORMAT, "not JSON");
    scratch_text(&box, "f4/dataset_flickr30k.json", "[1]");
    refused("flickr30k:%/f4?counts=any", GLOFND_E_FORMAT, "no list 'images'");
}

TEST(coco_is_read_both_ways) {
    image("coco/val2014/a9.jpg"), image("coco/val2014/a5.jpg"), image("coco/train2014/t.jpg");
    scratch_text(&box, "coco/annotations/captions_val2014.json",
                 "{\"images\": [{\"id\": 9, \"file_name\": \"a9.jpg\"}, {\"id\": 5, \"file_name\": \"a5.jpg\"}],"
                 "\"annotations\": [{\"image_id\": 9, \"caption\": \"Nine.\"}, {\"image_id\": 5, \"caption\": \"Five\\n\"},"
                 "{\"image_id\": 9, \"caption\": \"9\"}, {\"image_id\": 77, \"caption\": \"lost\"}]}");
    gf_dataset *d = open_n("coco:%?counts=any&split=val2014", 2);
    expect_text(d, 0, "val2014/a5.jpg", "Five");
    expect_text(d, 1, "val2014/a9.jpg", "Nine.\n9");
    gf_dataset_free(d);
    refused("coco:%?counts=any", GLOFND_E_IO, "no dataset_coco.json");
    scratch_text(
        &box, "coco/dataset_coco.json",
        "{\"images\": [{\"filename\": \"a9.jpg\", \"filepath\": \"val2014\", \"split\": \"restval\", \"sentences\": [{\"raw\": "
        "\"x\"}]},"
        "{\"filename\": \"t.jpg\", \"filepath\": \"train2014\", \"split\": \"train\", \"sentences\": [{\"raw\": \"y\"}]},"
        "{\"filename\": \"a5.jpg\", \"filepath\": \"val2014\", \"split\": \"test\", \"sentences\": [{\"raw\": \"z\"}]}]}");
    gf_dataset_free(open_n("coco:%/coco?counts=any", 2));
    d = open_n("coco:%/coco?counts=any&split=test", 1);
    expect_text(d, 0, "val2014/a5.jpg", "z");
    gf_dataset_free(d);
    refused("coco:%/coco?split=test", GLOFND_E_FORMAT, "has 1 images in split test; MSCOCO captions has 5000 images");
    scratch_text(&box, "coco/annotations/captions_val2014.json", "{\"images\": [{\"id\": \"9\"}], \"annotations\": []}");
    refused("coco:%?counts=any&split=val2014", GLOFND_E_FORMAT, "no integer 'id'");
}

TEST(files_of_img2dataset_have_sidecars) {
    image("i2d/00000/000000000.jpg"), image("i2d/00000/000000002.jpg"), image("i2d/00001/000010000.jpg");
    scratch_text(&box, "i2d/00000/000000000.txt", "a dog");
    scratch_text(&box, "i2d/00001/000010000.txt", "two\ncats");
    scratch_text(&box, "i2d/00000_stats.json", "{}");
    gf_dataset *d = open_n("img2dataset:%/i2d", 3);
    expect_text(d, 0, "00000/000000000.jpg", "a dog");
    expect_text(d, 2, "00001/000010000.jpg", "two cats");
    gf_dataset_free(d);
    scratch_text(&box, "tars/00000.tar", "x");
    refused("img2dataset:%/tars", GLOFND_E_FORMAT, "write wds:");
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
