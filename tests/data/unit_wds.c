/* unit_wds.c - WebDataset shards: tar forms, samples, patterns, and index files. Labels and captions: unit_wds_parts.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "data/formats/wds.h"
#include "support/shards.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ----- samples ----- */

TEST(samples_are_grouped_by_key) {
    add("./", '5', "", 0);
    add_png("./dir.v1/a.png", 1); /* the key ends at the first dot of the last part */
    add_text("./dir.v1/a.txt", "first\r\nsecond\n");
    add_text("./dir.v1/a.cls", "3\n");
    add_text("b.txt", "before its image");
    add_png("b.PNG", 2);
    add_png("b.seg.png", 99); /* not the image, but another part */
    add_text("c.txt", "without an image");
    add_text("README", "no key");
    add_text(".hidden.png", "no key either");
    add_text("dir/.png", "nor this");
    add_png("d.png", 4);
    add_text("d.cls", "0");
    add_png("0.v1.png", 5); /* WebDataset's key is 0, its ending v1.png: no image of ours */
    add_text("e.bmp", "another format");
    add_text("e.cls", "0");
    finish("g.tar");
    gf_dataset *d = open_wds("g.tar");
    char note[128];
    snprintf(note, sizeof note, "3 keys without %s left out, in 1 shard, the first: ", gf_image_endings());
    expect_note(d, note, "g.tar:c.txt");
    const gf_dataset_info info = gf_dataset_describe(d);
    assert_int_equal(info.n, 3);
    assert_int_equal(info.classes, 4);
    assert_int_equal(info.has_text, 1);
    expect_sample(d, 0, "./dir.v1/a", 3, 1, "first\nsecond");
    expect_sample(d, 1, "b", -1, 2, "before its image");
    expect_sample(d, 2, "d", 0, 4, NULL);
    assert_null(gf_dataset_class(d, 0));
    gf_dataset_free(d);
    scratch_text(&box, "classnames.txt", "zero\none\ntwo\nthree\nfour\n");
    d = open_wds("g.tar");
    expect_note(d, "3 keys without", "g.tar:c.txt"); /* the index knows it too */
    assert_string_equal(gf_dataset_class(d, 3), "three");
    assert_int_equal(gf_dataset_describe(d).classes, 5);
    gf_dataset_free(d);
    scratch_text(&box, "classnames.txt", "zero\n\nthree\n");
    d = open_wds("g.tar");
    expect_note(d, "3 keys without", "classnames.txt has 3 lines for 4 classes and is not used");
    assert_null(gf_dataset_class(d, 0));
    gf_dataset_free(d);
    unlink(scratch_path(&box, "classnames.txt"));
}

TEST(wrong_samples_are_named) {
    add_png("a.png", 1);
    add_png("a.jpg", 1);
    finish("twice.tar");
    refused("twice.tar", GLOFND_E_FORMAT, "second image");
    add_text("a.txt", "no image");
    finish("none.tar");
    refused("none.tar", GLOFND_E_FORMAT, "no sample");
    refused("none.tar", GLOFND_E_FORMAT, "a.txt");
    refused("absent.tar", GLOFND_E_IO, "absent.tar");
    refused("absent-*.tar", GLOFND_E_IO, "no file matches");
}

/* A unreadable image does not affect the others. */
TEST(damaged_samples_are_named) {
    add_png("a.png", 1);
    add_text("b.jpg", "not a picture");
    add_png("c.png", 3);
    finish("hurt.tar");
    gf_dataset *d = open_wds("hurt.tar");
    gf_error err = {""};
    gf_sample s = {0};
    assert_int_equal(gf_dataset_read(&err, d, 1, 0, &s), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "hurt.tar:b"));
    gf_sample_free(&s);
    expect_sample(d, 2, "c", -1, 3, NULL);
    gf_dataset_free(d);
}

/* ----- forms of tar ----- */

TEST(long_names_and_pax_are_understood) {
    char long_name[300], record[400];
    memset(long_name, 'k', sizeof long_name);
    strcpy(long_name + 250, ".png");
    add("././@LongLink", 'L', long_name, strlen(long_name) + 1);
    add_png("cut-short", 1);
    snprintf(record, sizeof record, "21 path=from/pax.png\n12 mtime=17\n");
    add("pax", 'x', record, strlen(record));
    add_png("not-this.png", 2);
    uint8_t *block = tar.bytes + tar.size; /* POSIX prefix */
    add_png("p.png", 3);
    strcpy((char *)block + 345, "a/long/prefix");
    fix_sum(block);
    block = tar.bytes + tar.size; /* a size in binary */
    add_png("binary.png", 4);
    unsigned long long size = strtoull((char *)block + 124, NULL, 8);
    memset(block + 124, 0, 12);
    block[124] = 0x80;
    block[134] = (uint8_t)(size >> 8);
    block[135] = (uint8_t)size;
    fix_sum(block);
    block = tar.bytes + tar.size; /* a size in a pax header, the field being 0 */
    add("pax", 'x', "11 size=81\n", 11);
    const size_t at = tar.size;
    add_png("sized.png", 5);
    size = strtoull((char *)tar.bytes + at + 124, NULL, 8);
    snprintf((char *)block + 512, 12, "11 size=%llu\n", size);
    memset(tar.bytes + at + 124, '0', 11);
    fix_sum(tar.bytes + at);
    add("global", 'g', "13 path=nope\n", 13);
    add("link.png", '2', "", 0);
    add_png("last.png", 6);
    assert_true(size > 9 && size < 100);
    finish("forms.tar");
    gf_dataset *d = open_wds("forms.tar");
    assert_int_equal(gf_dataset_describe(d).n, 6);
    long_name[250] = 0;
    expect_sample(d, 0, long_name, -1, 1, NULL);
    expect_sample(d, 1, "from/pax", -1, 2, NULL);
    expect_sample(d, 2, "a/long/prefix/p", -1, 3, NULL);
    expect_sample(d, 3, "binary", -1, 4, NULL);
    expect_sample(d, 4, "sized", -1, 5, NULL);
    expect_sample(d, 5, "last", -1, 6, NULL);
    gf_dataset_free(d);
}

static void write_raw(const char *name, size_t n) {
    scratch_write(&box, name, tar.bytes, n);
    unlink(scratch_path(&box, "raw.tar.gfidx"));
}

TEST(damaged_archives_are_refused) {
    tar.size = 0;
    add_png("a.png", 1);
    add_png("b.png", 2);
    const size_t whole = tar.size;
    tar.bytes[3] ^= 1;
    write_raw("raw.tar", whole);
    refused("raw.tar", GLOFND_E_FORMAT, "checksum");
    tar.bytes[3] ^= 1;
    memset(tar.bytes + 124, '7', 11); /* a member of 8 GiB */
    fix_sum(tar.bytes);
    write_raw("raw.tar", whole);
    refused("raw.tar", GLOFND_E_FORMAT, "cut short: it ends at byte 2048, inside the member that begins at byte 0");
    memset(tar.bytes + 124, 0xff, 12); /* a negative size */
    fix_sum(tar.bytes);
    write_raw("raw.tar", whole);
    refused("raw.tar", GLOFND_E_FORMAT, "size field");
    tar.size = 0;
    add("pax", 'x', "99 path=too long a record\n", 26);
    write_raw("raw.tar", tar.size);
    refused("raw.tar", GLOFND_E_FORMAT, "pax");
    memcpy(tar.bytes, "\x1f\x8b\x08", 3);
    write_raw("raw.tar", 512);
    refused("raw.tar", GLOFND_E_UNSUPPORTED, "gunzip");
    tar.size = 0;
}

/* Whatever byte it ends at: only between members, and with a note, or in the end mark, can it be whole. */
TEST(shards_that_were_cut_are_refused) {
    tar.size = 0;
    size_t begin[6] = {0};
    static const char *const names[] = {"a.png", "a.cls", "b.png", "b.txt"};
    for (int k = 0; k < 4; k++, begin[k] = tar.size) {
        if (k % 2) add_text(names[k], "1");
        else add_png(names[k], 1);
    }
    const size_t whole = tar.size;
    memset(tar.bytes + whole, 0, 1024);
    for (size_t n = 0; n <= whole + 1024; n += n % 512 == 511 || n % 512 == 0 ? 1 : n % 512 < 480 ? 30 : 511 - n % 512) {
        int members = 0;
        while (members < 4 && n > begin[members]) members++;
        write_raw("raw.tar", n);
        if (n == 0) {
            refused("raw.tar", GLOFND_E_FORMAT, "raw.tar' is empty, 0 bytes; copy or download it again");
        } else if (n < whole && n != begin[members]) {
            char text[100];
            snprintf(text, sizeof text, "raw.tar' is cut short: it ends at byte %zu, inside ", n);
            refused("raw.tar", GLOFND_E_FORMAT, text);
        } else {
            gf_dataset *d = open_wds("raw.tar");
            assert_int_equal(gf_dataset_describe(d).n, members > 2 ? 2 : 1);
            if (n > whole) expect_note(d, "", "");
            else expect_note(d, "1 shard without tar's end mark, perhaps cut short, the first: ", "raw.tar");
            gf_error err = {""};
            assert_int_equal(gf_dataset_check_complete(&err, d), n > whole ? GLOFND_OK : GLOFND_E_FORMAT);
            assert_true(n > whole || strstr(err.text, "raw.tar' ends without tar's end mark"));
            gf_dataset_free(d);
        }
    }
    tar.size = 0;
}

/* Space that was kept for the rest of a download, two tars in one file, a long name without its member. */
TEST(ends_of_other_kinds_are_refused) {
    tar.size = 0;
    add_png("a.png", 1);
    memset(tar.bytes + tar.size, 0, 1024);
    const size_t end = tar.size;
    write_raw("raw.tar", end + 1024);
    assert_int_equal(truncate(scratch_path(&box, "raw.tar"), (off_t)end + (1 << 20)), 0);
    gf_dataset_free(open_wds("raw.tar"));
    assert_int_equal(truncate(scratch_path(&box, "raw.tar"), (off_t)end + (1 << 20) + 1), 0);
    refused("raw.tar", GLOFND_E_FORMAT, "is not complete: from byte 1024 on it is zeros");
    tar.size += 1024;
    add_png("b.png", 2);
    write_raw("raw.tar", tar.size);
    refused("raw.tar", GLOFND_E_FORMAT, "continues after its end mark, at byte 2048");
    tar.size = 0;
    add_png("a.png", 1);
    add("././@LongLink", 'L', "b.png", 6);
    write_raw("raw.tar", tar.size);
    refused("raw.tar", GLOFND_E_FORMAT, "where a header announces one more member");
    tar.size = 0;
}

/* ----- patterns ----- */

TEST(patterns_find_shards_in_order) {
    for (int k = 0; k < 12; k++) {
        char name[64];
        add_png("only.png", (uint8_t)(k + 1));
        snprintf(name, sizeof name, "p/s-%03d.tar", k);
        finish(name);
    }
    gf_dataset *d = open_wds("p/s-{003..011}.tar");
    assert_int_equal(gf_dataset_describe(d).n, 9);
    expect_sample(d, 0, "only", -1, 4, NULL);
    expect_sample(d, 8, "only", -1, 12, NULL);
    gf_dataset_free(d);
    d = open_wds("p/s-0?[02468].tar");
    assert_int_equal(gf_dataset_describe(d).n, 6);
    expect_sample(d, 5, "only", -1, 11, NULL);
    gf_dataset_free(d);
    d = open_wds("p");
    assert_int_equal(gf_dataset_describe(d).n, 12);
    expect_sample(d, 11, "only", -1, 12, NULL);
    gf_dataset_free(d);
    refused("p/s-{011..012}.tar", GLOFND_E_IO, "s-012.tar");
}

/* ----- index files ----- */

TEST(indexes_are_kept_and_renewed) {
    char index[600], shard[600];
    add_png("a.png", 1);
    add_text("a.cls", "5");
    finish("i.tar");
    strcpy(shard, scratch_path(&box, "i.tar"));
    strcpy(index, scratch_path(&box, "i.tar.gfidx"));
    gf_dataset_free(open_wds("i.tar"));
    struct stat first, again;
    assert_int_equal(stat(index, &first), 0);
    gf_dataset *d = open_wds("i.tar"); /* from the index: the file stays */
    expect_sample(d, 0, "a", 5, 1, NULL);
    gf_dataset_free(d);
    assert_int_equal(stat(index, &again), 0);
    assert_true(first.st_ino == again.st_ino);

    add_png("b.png", 2); /* another shard of that name */
    add_png("c.png", 3);
    finish("i.tar");
    d = open_wds("i.tar");
    assert_int_equal(gf_dataset_describe(d).n, 2);
    expect_sample(d, 1, "c", -1, 3, NULL);
    gf_dataset_free(d);

    /* A shard cut later: the index, though of the same time, does not hide it. */
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, shard, times, 0), 0);
    gf_dataset_free(open_wds("i.tar"));
    assert_int_equal(truncate(shard, 2000), 0); /* behind the last image, in its padding */
    assert_int_equal(utimensat(AT_FDCWD, shard, times, 0), 0);
    refused("i.tar", GLOFND_E_FORMAT, "i.tar' is cut short: it ends at byte 2000");
    add_png("b.png", 2);
    add_png("c.png", 3);
    finish("i.tar");
    gf_dataset_free(open_wds("i.tar"));

    /* Any damage to the index: it is made anew. */
    FILE *f = fopen(index, "rb");
    assert_non_null(f);
    uint8_t bytes[1024];
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t i = 0; i <= n; i++) {
        uint8_t copy[1024];
        memcpy(copy, bytes, n);
        if (i < n) copy[i] ^= 0x10;
        scratch_write(&box, "i.tar.gfidx", copy, i < n ? n : n - 1);
        d = open_wds("i.tar");
        assert_int_equal(gf_dataset_describe(d).n, 2);
        gf_dataset_free(d);
    }
    int64_t shards = 0, samples = 0;
    assert_int_equal(gf_wds_index_all(NULL, shard, &shards, &samples), GLOFND_OK);
    assert_int_equal(shards, 1);
    assert_int_equal(samples, 2);
}

TEST(without_a_writable_folder_it_works_too) {
    add_png("a.png", 1);
    finish("ro.tar");
    mkdir(scratch_path(&box, "ro.tar.gfidx"), 0777); /* a folder in its place: cannot be written, even by root */
    gf_dataset *d = open_wds("ro.tar");
    expect_sample(d, 0, "a", -1, 1, NULL);
    gf_dataset_free(d);
    int64_t shards, samples;
    gf_error err = {""};
    assert_int_equal(gf_wds_index_all(&err, scratch_path(&box, "ro.tar"), &shards, &samples), GLOFND_E_IO);
    assert_non_null(strstr(err.text, "ro.tar.gfidx"));
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
