/* unit_wds_eval.c - evaluation sets of DataComp and clip_benchmark: a folder with test/, names and sentences above, groups in
 * .npy. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "support/shards.h"
#include <stdio.h>
#include <string.h>

/* As numpy.save of [group, 9]. */
static void add_npy(const char *name, const char *type, int group) {
    uint8_t bytes[144] = "\x93NUMPY\x01\x00v";
    snprintf((char *)bytes + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }%60s", type, "");
    bytes[127] = '\n';
    bytes[128] = (uint8_t)group;
    bytes[136] = 9;
    add(name, '0', bytes, sizeof bytes);
}

TEST(groups_and_names_are_found) {
    add_png("s0.png", 1), add_text("s0.cls", "1"), add_npy("s0.npy", "<i8", 3);
    add_png("s1.png", 1), add_text("s1.cls", "0"), add_text("s1.npy", "no array");
    add_png("s2.png", 1), add_text("s2.cls", "2"), add_npy("s2.npy", "<i8", 0);
    finish("set/test/0.tar");
    scratch_text(&box, "set/classnames.txt", "cat\ndog\nfox\n");
    scratch_text(&box, "set/zeroshot_classification_templates.txt", "a photo of {c}.\n");
    for (int again = 0; again < 2; again++) { /* the second time by the index */
        gf_dataset *d = open_wds("set");
        char path[600];
        assert_int_equal(gf_dataset_describe(d).n, 3);
        assert_int_equal(gf_dataset_group(d, 0), 3);
        assert_int_equal(gf_dataset_group(d, 1), -1);
        assert_int_equal(gf_dataset_group(d, 2), 0);
        assert_string_equal(gf_dataset_class(d, 2), "fox");
        assert_true(gf_dataset_templates(d, path, sizeof path));
        assert_non_null(strstr(path, "zeroshot_classification_templates.txt"));
        gf_dataset_free(d);
    }
}

/* img2dataset: a statistics file and a table beside each shard. */
TEST(output_of_img2dataset_is_read) {
    add("000000000.jpg", '0', "x", 1), add_text("000000000.txt", "a dog"),
        add_text("000000000.json", "{\"caption\": \"a dog\", \"url\": \"u\"}");
    finish("cc/00000.tar");
    scratch_text(&box, "cc/00000_stats.json", "{}");
    scratch_text(&box, "cc/00000.parquet", "PAR1");
    gf_dataset *d = open_wds("cc");
    gf_sample s = {0};
    char path[600];
    assert_int_equal(gf_dataset_describe(d).n, 1);
    assert_int_equal(gf_dataset_text(NULL, d, 0, &s), GLOFND_OK);
    assert_string_equal(s.text, "a dog");
    assert_false(gf_dataset_templates(d, path, sizeof path));
    gf_sample_free(&s);
    gf_dataset_free(d);
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
