/* unit_wds_parts.c - labels and captions in WebDataset shards: .cls, .txt, .json, and those that cannot be used. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "data/formats/wds.h"
#include "data/tar.h"
#include "support/shards.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gf_dataset *reopen(const char *name) {
    char index[64];
    snprintf(index, sizeof index, "%s.gfidx", name);
    unlink(scratch_path(&box, index));
    gf_error scanned = {""}, known = {""};
    gf_dataset *d = open_wds(name);
    (void)gf_dataset_check_complete(&scanned, d);
    gf_dataset_free(d);
    d = open_wds(name); /* from the index, which must know all of it, too */
    (void)gf_dataset_check_complete(&known, d);
    assert_string_equal(known.text, scanned.text);
    return d;
}

TEST(json_gives_what_is_missing) {
    add_png("a.png", 1);
    add_text("a.json", "{\"label\": 2, \"caption\": \"from \\u00e4 json\", \"other\": [1, {}]}");
    add_png("b.png", 2);
    add_text("b.json", "{\"label\": 2, \"caption\": \"unused\"}");
    add_text("b.txt", "from txt");
    add_text("b.cls", "1");
    add_png("c.png", 3);
    add_text("c.json", "{\"label\": \"dog\", \"caption\": null}");
    finish("j.tar");
    gf_dataset *d = open_wds("j.tar");
    expect_sample(d, 0, "a", 2, 1, "from \xc3\xa4 json");
    expect_sample(d, 1, "b", 1, 2, "from txt");
    expect_sample(d, 2, "c", -1, 3, NULL);
    expect_note(d, "", "");
    gf_dataset_free(d);
}

/* Text that Python writes though it is no JSON, zero bytes, and labels that say that there is none: nothing is wrong. */
TEST(oddities_are_harmless) {
    add_png("a.png", 1);
    add_text("a.cls", " -1\n");
    add_png("b.png", 2);
    add_text("b.json", "{\"similarity\":NaN,\"x\": [-Infinity, Infinity], \"label\": 2, \"caption\": \"NaN \\\"Infinity\"}");
    add_png("c.png", 3);
    add_text("c.json", "{\"caption\": \"a \\u0000cat\", \"url\": \"\\u0000\", \"label\": -1}");
    add_png("d.png", 4);
    add_text("d.json", "{\"label\": NaN, \"caption\": -Infinity}");
    add_png("e.png", 5);
    add_text("e.json", "{\"label\": 1, \"caption\": \"\\u0000\"}");
    add_png("f.png", 6);
    add_text("f.json", "[NaN, \"\\\\\", NaN]");
    finish("odd.tar");
    gf_dataset *d = reopen("odd.tar");
    expect_note(d, "", "");
    assert_int_equal(gf_dataset_check_complete(NULL, d), GLOFND_OK);
    expect_sample(d, 0, "a", -1, 1, NULL);
    expect_sample(d, 1, "b", 2, 2, "NaN \"Infinity");
    expect_sample(d, 2, "c", -1, 3, "a cat");
    expect_sample(d, 3, "d", -1, 4, NULL);
    expect_sample(d, 4, "e", 1, 5, NULL);
    expect_sample(d, 5, "f", -1, 6, NULL);
    gf_dataset_free(d);
}

/* One sample of three has something that cannot be used: it is taken without, counted, and named; strict refuses. */
static void expect_unused(const char *member, const char *text, size_t n, const char *word) {
    char note[200];
    gf_error err = {""};
    add_png("a.png", 1);
    add_text("a.cls", "4");
    add_text("a.txt", "one");
    add_png("b.png", 2);
    add(member, '0', text, n);
    if (strcmp(member, "b.txt") != 0) add_text("b.txt", "two");
    add_png("c.png", 3);
    add_text("c.cls", "0");
    finish("part.tar");
    gf_dataset *d = reopen("part.tar");
    snprintf(note, sizeof note, "part.tar: '%s' %s", member, word);
    if (!strstr(gf_dataset_note(d), note)) fail_msg("note '%s' without '%s'", gf_dataset_note(d), note);
    expect_note(d, "1 member cannot be used, so that captions or labels are missing, in 1 shard, the first: ", "");
    assert_int_equal(gf_dataset_check_complete(&err, d), GLOFND_E_FORMAT);
    snprintf(note, sizeof note, "part.tar': '%s' %s", member, word);
    if (!strstr(err.text, note) || strchr(err.text, '\33')) fail_msg("strict: '%s' without '%s'", err.text, note);
    assert_int_equal(gf_dataset_describe(d).n, 3);
    assert_int_equal(gf_dataset_describe(d).classes, 5);
    expect_sample(d, 0, "a", 4, 1, "one");
    expect_sample(d, 1, "b", -1, 2, strcmp(member, "b.txt") ? "two" : NULL);
    expect_sample(d, 2, "c", 0, 3, NULL);
    gf_dataset_free(d);
}

TEST(labels_that_cannot_be_used_are_counted) {
    static const char *const labels[] = {"", "dog", "1 2", "-2", "99999999999999999999", "1048576", "\33[2J"};
    for (size_t k = 0; k < sizeof labels / sizeof labels[0]; k++) expect_unused("b.cls", labels[k], strlen(labels[k]), "holds '");
    expect_unused("b.cls", "123456789012345678901234567890123", 33, "has 33 bytes; the limit is 32");
}

TEST(json_that_cannot_be_used_is_counted) {
    static const char *const texts[] = {
        "",    "{\"label\": ",     "{\"a\": \"\\ud800\"}", "{\"a\": \"\x80\"}", "\xff\xfe{",
        "nan", "{\"label\": 3} x", "{\"a\": \33}",         "{\"\\u0000\": 1}",
    };
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
        expect_unused("b.json", texts[k], strlen(texts[k]), "is not JSON: ");
    char *deep = malloc(GF_WDS_TEXT_MAX + 1);
    assert_non_null(deep);
    memset(deep, '[', GF_WDS_TEXT_MAX + 1);
    expect_unused("b.json", deep, 100000, "is not JSON: ");
    expect_unused("b.json", deep, GF_WDS_TEXT_MAX + 1, "has 1048577 bytes; the limit is 1048576");
    free(deep);
    const char *far = "{\"label\": 1048576}", *below = "{\"label\": -2}";
    expect_unused("b.json", far, strlen(far), "has label 1048576; it must be 0..1048575, or -1");
    expect_unused("b.json", below, strlen(below), "has label -2; ");
}

/* A caption of more than is accepted, and, behind zeros that need no disk, such an image. */
TEST(what_is_too_large_is_counted) {
    char *text = malloc(GF_WDS_TEXT_MAX + 1);
    assert_non_null(text);
    memset(text, 'x', GF_WDS_TEXT_MAX + 1);
    expect_unused("b.txt", text, GF_WDS_TEXT_MAX + 1, "has 1048577 bytes; the limit is 1048576");
    free(text);
    add_png("a.png", 1);
    const uint64_t at = tar.size;
    gf_tar_header(tar.bytes + at, "b.png", GF_FILE_BYTES_MAX + 512);
    tar.size += 512;
    finish("huge.tar");
    assert_int_equal(truncate(scratch_path(&box, "huge.tar"), (off_t)(at + 512 + GF_FILE_BYTES_MAX + 512 + 1024)), 0);
    gf_dataset *d = reopen("huge.tar");
    gf_sample s = {0};
    gf_error err = {""};
    expect_note(d, "1 member cannot be used", "huge.tar: 'b (its image)' has 1073742336 bytes; the limit is 1073741824");
    expect_sample(d, 0, "a", -1, 1, NULL);
    assert_int_equal(gf_dataset_read(&err, d, 1, 0, &s), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "huge.tar:b"));
    gf_sample_free(&s);
    gf_dataset_free(d);
    unlink(scratch_path(&box, "huge.tar"));
}

TEST(json_stands_in_for_what_cannot_be_used) {
    add_png("a.png", 1);
    add_text("a.cls", "dog");
    add_text("a.txt", "");
    add_text("a.json", "{\"label\": 2, \"caption\": \"a dog\"}");
    add_png("b.png", 2);
    add_text("b.cls", "-1");
    add_text("b.json", "{\"label\": 2, \"caption\": \"a cat\"}");
    add_png("c.png", 3);
    add_text("c.cls", "cat");
    add_text("c.json", "cat");
    finish("both.tar");
    gf_dataset *d = reopen("both.tar");
    expect_note(d, "3 members cannot be used", "both.tar: 'a.cls' holds 'dog'; expected an integer 0..1048575, or -1");
    expect_sample(d, 0, "a", 2, 1, "a dog");
    expect_sample(d, 1, "b", -1, 2, "a cat");
    expect_sample(d, 2, "c", -1, 3, NULL);
    gf_dataset_free(d);
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
