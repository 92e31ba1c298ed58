/* unit_dataset_sizes.c - what is said of images without decoding them: sizes from headers, files left out. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "io/file.h"
#include "support/specs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ----- what other formats are left out ----- */

TEST(foreign_images_are_counted) {
    scratch_png(&box, "mixed/a/1.png", 8, 1);
    scratch_text(&box, "mixed/a/2.bmp", "x");
    scratch_text(&box, "mixed/b/1.BMP", "x");
    scratch_text(&box, "mixed/b/notes.txt", "x");
    gf_dataset *d = open_spec("folder:%/mixed");
    assert_int_equal(gf_dataset_describe(d).n, 1);
    assert_non_null(
        strstr(gf_dataset_note(d), gf_image_reads_webp()
                                       ? "2 images with a different ending than .jpg, .jpeg, .png or .webp left out, the first: "
                                       : "2 images with a different ending than .jpg, .jpeg or .png left out, the first: "));
    assert_non_null(strstr(gf_dataset_note(d), "/mixed/a/2.bmp"));
    assert_non_null(strstr(gf_dataset_note(d), "; 1 file that is no image left out, the first: "));
    assert_non_null(strstr(gf_dataset_note(d), "/mixed/b/notes.txt"));
    gf_dataset_free(d);
    scratch_png(&box, "pure/a/1.png", 8, 1);
    d = open_spec("folder:%/pure");
    assert_string_equal(gf_dataset_note(d), "");
    gf_dataset_free(d);
    scratch_text(&box, "webp/a/1.bmp", "x");
    refused("folder:%/webp", GLOFND_E_FORMAT, "but 1 with other endings, as 'a/1.bmp'");
}

/* Copies the first `n` bytes of a file; 0: all. */
static void copy_file(const char *from, const char *to, size_t n) {
    uint8_t *bytes = NULL;
    size_t capacity = 0, size = 0;
    gf_error err = {{0}};
    assert_int_equal(gf_file_read(&err, path_of(from), 1 << 20, &bytes, &capacity, &size), GLOFND_OK);
    scratch_write(&box, to, bytes, n ? n : size);
    free(bytes);
}

/* They are known by their first bytes, and read. What only looks like one fails when it is read, as under any name. */
TEST(files_without_ending) {
    gf_sample sample = {0};
    gf_error err = {{0}};
    scratch_png(&box, "bare/a/1.png", 8, 1);
    copy_file("bare/a/1.png", "bare/a/2", 0);
    copy_file("bare/a/1.png", "bare/a/3.", 0);
    copy_file("bare/a/1.png", "bare/b/cut", 9);
    scratch_text(&box, "bare/b/jpeg", "\xff\xd8\xff\xe0 and no more");
    scratch_text(&box, "bare/b/webp", "RIFF....WEBPVP8 ");
    copy_file("bare/a/1.png", "bare/c/short", 7);
    copy_file("bare/a/1.png", "bare/c/4.txt", 0); /* an ending is believed */
    scratch_text(&box, "bare/c/gif", "GIF89a");
    scratch_text(&box, "bare/c/empty", "");
    scratch_text(&box, "bare/classnames.txt", "x\ny\nz\n");
    scratch_text(&box, "bare/README", "words");
    assert_int_equal(mkfifo(path_of("bare/c/pipe"), 0600), 0);
    assert_int_equal(symlink("nowhere", path_of("bare/c/gone")), 0);
    const int webp = gf_image_reads_webp();
    gf_dataset *d = open_spec("folder:%/bare");
    assert_int_equal(gf_dataset_describe(d).n, 5 + webp);
    assert_int_equal(gf_dataset_describe(d).classes, 3);
    char note[100];
    snprintf(note, sizeof note, "%d files that are no images left out, the first: ", 8 - webp);
    assert_non_null(strstr(gf_dataset_note(d), note));
    assert_non_null(strstr(gf_dataset_note(d), "/bare/README"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gf_dataset_read(&err, d, i, NULL, &sample), GLOFND_OK);
        assert_int_equal(sample.image.width, 8);
    }
    for (int i = 3; i < 5 + webp; i++) assert_int_not_equal(gf_dataset_read(&err, d, i, NULL, &sample), GLOFND_OK);
    gf_sample_free(&sample);
    gf_dataset_free(d);
    scratch_text(&box, "words/one", "x");
    refused("folder:%/words", GLOFND_E_FORMAT, "image");
}

/* ----- sizes, from headers ----- */

static gf_sizes sizes_of(const char *spec) {
    gf_dataset *d = open_spec(spec);
    const gf_sizes s = gf_dataset_sizes(d);
    gf_dataset_free(d);
    return s;
}

/* width 0: any */
static void expect_sizes(const char *spec, int64_t probed, int64_t read, int width, int height, int view) {
    const gf_sizes s = sizes_of(spec);
    const int view_is = gf_sizes_default_view(&s);
    if (s.probed != probed || s.read != read || s.width != width || s.height != height || view_is != view)
        fail_msg("%s: %d of %d read, %d x %d, view %d", spec, (int)s.read, (int)s.probed, s.width, s.height, view_is);
}

static void write_jpeg(const char *name, int width, int height, size_t comment) {
    gf_image m = {0};
    uint8_t *bytes = NULL, *all;
    size_t n = 0;
    assert_int_equal(gf_image_resize(NULL, &m, width, height), GLOFND_OK);
    memset(m.rgb, 9, (size_t)width * (size_t)height * 3);
    assert_int_equal(gf_image_encode_jpeg(NULL, &m, 90, &bytes, &n), GLOFND_OK);
    all = calloc(1, n + comment + 6);
    assert_non_null(all);
    memcpy(all, bytes, 2);
    const uint8_t head[5] = {0xff, 0xff, 0xfe, (uint8_t)((comment + 2) >> 8), (uint8_t)(comment + 2)}; /* a fill byte first */
    memcpy(all + 2, head, 5);
    memcpy(all + 7 + comment, bytes + 2, n - 2);
    scratch_write(&box, name, all, n + comment + 5);
    free(all);
    free(bytes);
    gf_image_free(&m);
}

TEST(sizes_are_in_headers) {
    char name[64];
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "even/%d/%02d.png", i % 3, i);
        scratch_png(&box, name, 32, 1);
    }
    expect_sizes("folder:%/even", 12, 12, 32, 32, 32);
    scratch_text(&box, "even/0/bad.png", "not a picture"); /* says nothing */
    scratch_write(&box, "even/0/worse.png", "\x89PNG\r\n\x1a\n", 8);
    scratch_write(&box, "even/0/worst.jpg", "\xff\xd8\xff\xe0\x00\x00 no length", 16);
    expect_sizes("folder:%/even", 15, 12, 32, 32, 32);
    scratch_png(&box, "even/1/x.png", 40, 1);
    const gf_sizes s = sizes_of("folder:%/even");
    assert_int_equal(s.other_width, 40);
    assert_int_equal(s.other_height, 40);
    assert_int_equal(gf_sizes_default_view(&s), 224);
    scratch_png(&box, "large/1.png", 225, 1);
    expect_sizes("folder:%/large", 1, 1, 225, 225, 224);
    scratch_png(&box, "fits/1.png", 224, 1);
    expect_sizes("folder:%/fits", 1, 1, 224, 224, 224);
    scratch_text(&box, "fits/list", "1.png\n");
    expect_sizes("list:%/fits/list", 1, 1, 224, 224, 224);
    scratch_text(&box, "none/1.png", "not a picture");
    expect_sizes("folder:%/none", 1, 0, 0, 0, 224);
    expect_sizes("shapes:n=5,classes=2,size=48,seed=1", 5, 5, 48, 48, 48);
#ifdef GF_HAVE_JPEG
    write_jpeg("jpeg/1.jpg", 48, 48, 65000); /* as an EXIF preview would stand before the frame */
    write_jpeg("jpeg/2.jpg", 48, 48, 0);
    expect_sizes("folder:%/jpeg", 2, 2, 48, 48, 48);
    write_jpeg("wide/1.jpg", 300, 200, 10);
    expect_sizes("folder:%/wide", 1, 1, 300, 200, 224);
#endif
}

/* Not the first ones: folders are sorted by class. */
TEST(sizes_are_looked_at_all_over) {
    char text[64 * 1024] = "";
    scratch_png(&box, "many/1.png", 32, 1);
    scratch_png(&box, "many/2.png", 40, 1);
    for (int i = 0; i < 2500; i++) strcat(text, i < 2490 ? "1.png\n" : "2.png\n");
    scratch_text(&box, "many/list", text);
    const gf_sizes s = sizes_of("list:%/many/list");
    assert_int_equal(s.other_width, 40);
    assert_true(s.probed > 990 && s.probed <= GF_SIZES_MAX);
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
