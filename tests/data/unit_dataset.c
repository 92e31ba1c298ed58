/* unit_dataset.c - SPECs, CIFAR binaries, image folders, lists: order, labels, names, and refusals that say why. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "data/spec.h"
#include "support/specs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sample i: its name ends with `end`, it has this label, and its first pixel this gray. */
static void expect_sample(const gf_dataset *d, int64_t i, const char *end, int32_t label, int gray) {
    char name[600];
    gf_error err = {""};
    gf_sample s = {0};
    gf_dataset_name(d, i, name, sizeof name);
    const size_t n = strlen(name), m = strlen(end);
    if (n < m || strcmp(name + n - m, end) != 0) fail_msg("sample %d is %s, not %s", (int)i, name, end);
    if (gf_dataset_read(&err, d, i, 0, &s) != GLOFND_OK) fail_msg("%s: %s", name, err.text);
    assert_int_equal(s.label, label);
    assert_int_equal(gf_dataset_label(d, i), label);
    assert_int_equal(s.image.rgb[0], gray);
    gf_sample_free(&s);
}

/* ----- SPEC ----- */

TEST(specs_are_cut_into_parts) {
    gf_spec s;
    gf_error err = {""};
    assert_int_equal(gf_spec_parse(&err, "wds:/a/b-?0?.tar?split=test&x_y=3", &s), GLOFND_OK);
    assert_string_equal(s.format, "wds");
    assert_string_equal(s.place, "/a/b-?0?.tar");
    assert_string_equal(gf_spec_value(&s, "split"), "test");
    assert_string_equal(gf_spec_value(&s, "x_y"), "3");
    assert_null(gf_spec_value(&s, "split="));
    gf_spec_free(&s);
    assert_int_equal(gf_spec_parse(&err, "folder:what?", &s), GLOFND_OK);
    assert_string_equal(s.place, "what?");
    gf_spec_free(&s);
}

TEST(wrong_specs_are_refused) {
    refused("", GLOFND_E_OPTION, "no data");
    refused("/some/where", GLOFND_E_OPTION, "folder:/some/where");
    refused("imagenot:/x", GLOFND_E_OPTION, "unknown data format 'imagenot'");
    refused("folder:", GLOFND_E_OPTION, "needs a place");
    refused("folder", GLOFND_E_OPTION, "needs a place");
    refused("folder:%?spilt=test", GLOFND_E_OPTION, "classes, split");
    refused("folder:%?split=test&split=val", GLOFND_E_OPTION, "given twice");
    refused("folder:%?split=test&", GLOFND_E_IO, "neither");
    refused("folder:%?split=test&5", GLOFND_E_OPTION, "key=value");
    char *many = malloc(20000);
    assert_non_null(many);
    memset(many, 'a', 19999);
    many[19999] = 0;
    gf_dataset *d;
    assert_int_equal(gf_dataset_open(NULL, many, &d), GLOFND_E_OPTION);
    free(many);
}

/* ----- CIFAR ----- */

/* `n` records: label bytes from `label`, planes of value 10 + record, 20 + record, 30 + record. */
static void write_cifar(const char *name, int label_bytes, int n, int label0) {
    uint8_t *bytes = malloc((size_t)n * 3074), *p = bytes;
    assert_non_null(bytes);
    for (int i = 0; i < n; i++) {
        if (label_bytes == 2) *p++ = (uint8_t)((label0 + i) / 5 % 20);
        *p++ = (uint8_t)(label0 + i);
        for (int k = 0; k < 3; k++, p += 1024) memset(p, 10 * (k + 1) + i, 1024);
    }
    scratch_write(&box, name, bytes, (size_t)(p - bytes));
    free(bytes);
}

TEST(cifar10_is_read) {
    for (int b = 1; b <= 5; b++) {
        char name[64];
        snprintf(name, sizeof name, "c10/data_batch_%d.bin", b);
        write_cifar(name, 1, b, b);
    }
    write_cifar("c10/test_batch.bin", 1, 2, 7);
    scratch_text(&box, "c10/batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
    gf_dataset *d = open_spec("cifar10:%/c10");
    const gf_dataset_info info = gf_dataset_describe(d);
    assert_int_equal(info.n, 15);
    assert_int_equal(info.classes, 10);
    assert_int_equal(info.width, 32);
    assert_string_equal(gf_dataset_class(d, 9), "truck");
    expect_sample(d, 0, "cifar10 train #0", 1, 10);
    expect_sample(d, 1, "#1", 2, 10); /* the first record of the second file */
    expect_sample(d, 2, "#2", 3, 11);
    expect_sample(d, 14, "#14", 9, 14);
    gf_sample s = {0};
    assert_int_equal(gf_dataset_read(NULL, d, 14, 0, &s), GLOFND_OK);
    for (int p = 0; p < 1024; p++) {
        for (int k = 0; k < 3; k++) assert_int_equal(s.image.rgb[3 * p + k], 10 * (k + 1) + 4);
    }
    assert_int_equal(gf_dataset_read(NULL, d, 15, 0, &s), GLOFND_E_INDEX);
    assert_int_equal(gf_dataset_read(NULL, d, -1, 0, &s), GLOFND_E_INDEX);
    gf_sample_free(&s);
    char test[600];
    assert_int_equal(gf_dataset_test_spec(d, test, sizeof test), 1);
    gf_dataset_free(d);
    assert_string_equal(test, spec_of("cifar10:%/c10?split=test"));
    d = open_spec("cifar10:%/c10?split=test");
    assert_int_equal(gf_dataset_describe(d).n, 2);
    expect_sample(d, 1, "cifar10 test #1", 8, 11);
    assert_int_equal(gf_dataset_test_spec(d, test, sizeof test), 0);
    gf_dataset_free(d);
}

TEST(cifar100_is_read) {
    write_cifar("c100/cifar-100-binary/train.bin", 2, 100, 0);
    gf_dataset *d = open_spec("cifar100:%/c100");
    assert_int_equal(gf_dataset_describe(d).n, 100);
    assert_int_equal(gf_dataset_describe(d).classes, 100);
    assert_null(gf_dataset_class(d, 0));
    expect_sample(d, 99, "#99", 99, 109);
    char test[600];
    assert_int_equal(gf_dataset_test_spec(d, test, sizeof test), 0);
    gf_dataset_free(d);
    d = open_spec("cifar100:%/c100?coarse=1");
    assert_int_equal(gf_dataset_describe(d).classes, 20);
    expect_sample(d, 99, "#99", 19, 109);
    gf_dataset_free(d);
}

/* ----- IDX ----- */

/* `n` images of 3 rows and 2 columns, or n labels: byte k is k, label k is k % classes. Returns the bytes. */
static size_t idx_bytes(uint8_t *out, int axes, int n, int classes) {
    const uint8_t head[16] = {0, 0, 8, (uint8_t)axes, 0, 0, 0, (uint8_t)n, 0, 0, 0, 3, 0, 0, 0, 2};
    const size_t begin = axes == 3 ? 16 : 8, each = axes == 3 ? 6 : 1;
    memcpy(out, head, begin);
    for (size_t k = 0; k < (size_t)n * each; k++) out[begin + k] = (uint8_t)(axes == 3 ? k : k % (size_t)classes);
    return begin + (size_t)n * each;
}

static void write_idx(const char *name, int axes, int n, int classes) {
    uint8_t bytes[256];
    scratch_write(&box, name, bytes, idx_bytes(bytes, axes, n, classes));
}

/* The same as a gzip file of one stored block. */
static void write_idx_packed(const char *name, int axes, int n, int classes) {
    uint8_t out[300] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1}, *p = out + 15;
    const size_t size = idx_bytes(p, axes, n, classes);
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    out[11] = (uint8_t)size, out[12] = (uint8_t)(size >> 8), out[13] = (uint8_t)~size, out[14] = (uint8_t)(~size >> 8);
    for (int k = 0; k < 4; k++)
        p[size + (size_t)k] = (uint8_t)(~crc >> 8 * k), p[size + 4 + (size_t)k] = (uint8_t)(size >> 8 * k);
    scratch_write(&box, name, out, size + 23);
}

TEST(idx_files_are_read) {
    write_idx("idx/train-images-idx3-ubyte", 3, 12, 0);
    write_idx("idx/train-labels-idx1-ubyte", 1, 12, 10);
    write_idx_packed("idx/t10k-images-idx3-ubyte.gz", 3, 5, 0);
    write_idx_packed("idx/t10k-labels-idx1-ubyte.gz", 1, 5, 10);
    gf_dataset *d = open_spec("fashion_mnist:%/idx");
    const gf_dataset_info info = gf_dataset_describe(d);
    assert_int_equal(info.n, 12);
    assert_int_equal(info.classes, 10);
    assert_int_equal(info.width, 2);
    assert_int_equal(info.height, 3);
    assert_string_equal(gf_dataset_class(d, 9), "Ankle boot");
    expect_sample(d, 11, "fashion_mnist train #11", 1, 66);
    gf_sample s = {0};
    assert_int_equal(gf_dataset_read(NULL, d, 1, 0, &s), GLOFND_OK);
    for (int k = 0; k < 18; k++) assert_int_equal(s.image.rgb[k], 6 + k / 3);
    gf_sample_free(&s);
    char test[600];
    assert_int_equal(gf_dataset_test_spec(d, test, sizeof test), 1);
    gf_dataset_free(d);
    assert_string_equal(test, spec_of("fashion_mnist:%/idx?split=test"));
    d = open_spec("mnist:%/idx?split=test");
    assert_int_equal(gf_dataset_describe(d).n, 5);
    assert_null(gf_dataset_class(d, 0));
    expect_sample(d, 4, "mnist test #4", 4, 24);
    gf_dataset_free(d);
}

TEST(sets_of_emnist_are_chosen_and_upright) {
    write_idx("em/gzip/emnist-letters-train-images-idx3-ubyte", 3, 2, 0);
    write_idx("em/gzip/emnist-letters-train-labels-idx1-ubyte", 1, 2, 2);
    write_idx("em/gzip/emnist-digits-train-images-idx3-ubyte", 3, 1, 0);
    refused("mnist:%/em", GLOFND_E_OPTION, "'digits' and 'letters'; choose one by ?set=NAME");
    refused("mnist:%/em?set=nothing", GLOFND_E_IO, "has no emnist-nothing-train-images-idx3-ubyte");
    gf_dataset *d = open_spec("mnist:%/em?set=letters");
    const uint8_t upright[6] = {0, 2, 4, 1, 3, 5}; /* 2 rows of 3: the file has columns before rows */
    gf_sample s = {0};
    assert_int_equal(gf_dataset_read(NULL, d, 0, 0, &s), GLOFND_OK);
    assert_int_equal(s.image.width, 3);
    for (int k = 0; k < 18; k++) assert_int_equal(s.image.rgb[k], upright[k / 3]);
    gf_sample_free(&s);
    expect_sample(d, 1, "emnist letters train #1", 1, 6);
    gf_dataset_free(d);
    d = open_spec("mnist:%/em?set=digits");
    assert_int_equal(gf_dataset_describe(d).classes, 0);
    assert_non_null(strstr(gf_dataset_note(d), "no labels"));
    gf_dataset_free(d);
}

TEST(wrong_idx_files_are_refused) {
    uint8_t bytes[256];
    const size_t n = idx_bytes(bytes, 3, 4, 0);
    refused("mnist:%/nowhere", GLOFND_E_IO, "nowhere' is not a folder that can be read");
    scratch_text(&box, "noidx/readme", "x");
    refused("mnist:%/noidx", GLOFND_E_IO, "has no train-images-idx3-ubyte");
    refused("mnist:%/noidx?split=val", GLOFND_E_OPTION, "train or test");
    scratch_write(&box, "badidx/train-images-idx3-ubyte", bytes, n - 1);
    refused("mnist:%/badidx", GLOFND_E_FORMAT, "expected 40 for 4 images");
    scratch_write(&box, "badidx/train-images-idx3-ubyte", bytes, 15);
    refused("mnist:%/badidx", GLOFND_E_FORMAT, "has 15 bytes");
    memset(bytes + 4, 0xff, 12);
    scratch_write(&box, "badidx/train-images-idx3-ubyte", bytes, n);
    refused("mnist:%/badidx", GLOFND_E_FORMAT, "which no such data set has");
    bytes[2] = 13;
    scratch_write(&box, "badidx/train-images-idx3-ubyte", bytes, n);
    refused("mnist:%/badidx", GLOFND_E_FORMAT, "begins with 00000d03");
    write_idx("badidx/train-images-idx3-ubyte", 3, 4, 0);
    write_idx("badidx/train-labels-idx1-ubyte", 1, 3, 10);
    refused("mnist:%/badidx", GLOFND_E_FORMAT, "has 3 labels for 4 images");
    memset(bytes, 0xff, 64); /* as gzip: a size that no such file unpacks to */
    scratch_write(&box, "badidx/t10k-images-idx3-ubyte.gz", bytes, 64);
    refused("mnist:%/badidx?split=test", GLOFND_E_FORMAT, "unpacks to 4294967295 bytes");
    bytes[61] = bytes[62] = bytes[63] = 0;
    scratch_write(&box, "badidx/t10k-images-idx3-ubyte.gz", bytes, 64);
    refused("mnist:%/badidx?split=test", GLOFND_E_FORMAT, "do not unpack");
}

TEST(wrong_cifar_files_are_refused) {
    refused("cifar10:%/nowhere", GLOFND_E_IO, "nowhere' is not a folder that can be read");
    assert_int_equal(mkdir(scratch_path(&box, "bare"), 0777), 0);
    refused("cifar10:%/bare", GLOFND_E_IO, "has no data_batch_1.bin");
    refused("cifar10:%/c10?split=val", GLOFND_E_OPTION, "train or test");
    refused("cifar10:%/c10?coarse=1", GLOFND_E_OPTION, "no option");
    write_cifar("bad/test_batch.bin", 1, 3, 8); /* the third label is 10 */
    refused("cifar10:%/bad?split=test", GLOFND_E_FORMAT, "record 2 has label 10");
    scratch_write(&box, "bad/test.bin", "abc", 3);
    refused("cifar100:%/bad?split=test", GLOFND_E_FORMAT, "expected one or more records of 3074");
    write_cifar("bad/test.bin", 1, 3074 - 1, 0); /* CIFAR-10's records are not CIFAR-100's */
    refused("cifar100:%/bad?split=test", GLOFND_E_FORMAT, "expected one or more records of 3074");
    write_cifar("bad/data_batch_1.bin", 1, 1, 0);
    refused("cifar10:%/bad", GLOFND_E_IO, "data_batch_2.bin");
    scratch_write(&box, "bad/train.bin", "", 0);
    refused("cifar100:%/bad", GLOFND_E_FORMAT, "records");
}

/* ----- folder ----- */

TEST(folders_are_classes_in_torchvisions_order) {
    scratch_png(&box, "f/b/z.png", 8, 1);
    scratch_png(&box, "f/b/deep/a.PNG", 8, 2);
    scratch_png(&box, "f/b/deep-er/a.png", 8, 3);
    scratch_png(&box, "f/b/deep/sub/a.png", 8, 9);
    scratch_png(&box, "f/B/2.jpeg", 8, 4); /* a PNG by its content */
    scratch_png(&box, "f/B/10.JPG", 8, 5);
    scratch_png(&box, "f/a/x.png", 8, 6);
    scratch_png(&box, "f/stray.png", 8, 7);
    scratch_text(&box, "f/b/notes.txt", "no image");
    scratch_text(&box, "f/empty/notes.txt", "no image");
    scratch_png(&box, "f/.hidden/x.png", 8, 8);
    gf_dataset *d = open_spec("folder:%/f");
    assert_int_equal(gf_dataset_describe(d).n, 7);
    assert_int_equal(gf_dataset_describe(d).classes, 4);
    assert_string_equal(gf_dataset_class(d, 2), "b");
    assert_string_equal(gf_dataset_class(d, 3), "empty");
    expect_sample(d, 0, "f/B/10.JPG", 0, 5);
    expect_sample(d, 1, "f/B/2.jpeg", 0, 4);
    expect_sample(d, 2, "f/a/x.png", 1, 6);
    expect_sample(d, 3, "f/b/z.png", 2, 1); /* within a class by folder, as a string: b < b/deep < b/deep-er < b/deep/sub */
    expect_sample(d, 4, "f/b/deep/a.PNG", 2, 2);
    expect_sample(d, 5, "f/b/deep-er/a.png", 2, 3);
    expect_sample(d, 6, "f/b/deep/sub/a.png", 2, 9);
    const uint64_t key = gf_dataset_key(d, 2);
    gf_dataset_free(d);
    scratch_text(&box, "some.txt", "a  description of a\r\nb\n\na\n");
    d = open_spec("folder:%/f?classes=%/some.txt");
    assert_int_equal(gf_dataset_describe(d).n, 5);
    assert_int_equal(gf_dataset_describe(d).classes, 2);
    expect_sample(d, 0, "f/a/x.png", 0, 6);
    expect_sample(d, 1, "f/b/z.png", 1, 1);
    assert_true(gf_dataset_key(d, 0) == key);
    gf_dataset_free(d);
    scratch_text(&box, "wrong.txt", "a\nunicorn\n");
    refused("folder:%/f?classes=%/wrong.txt", GLOFND_E_FORMAT, "unicorn");
    scratch_text(&box, "none.txt", "\n");
    refused("folder:%/f?classes=%/none.txt", GLOFND_E_FORMAT, "empty");
    refused("folder:%/f?classes=%/absent.txt", GLOFND_E_IO, "absent.txt");
}

TEST(flat_folders_have_no_labels) {
    scratch_png(&box, "flat/2.png", 8, 2);
    scratch_png(&box, "flat/10.png", 8, 1);
    mkdir(scratch_path(&box, "flat/tmp"), 0777);
    gf_dataset *d = open_spec("folder:%/flat");
    assert_int_equal(gf_dataset_describe(d).n, 2);
    assert_int_equal(gf_dataset_describe(d).classes, 0);
    expect_sample(d, 0, "flat/10.png", -1, 1);
    expect_sample(d, 1, "flat/2.png", -1, 2);
    gf_dataset_free(d);
}

static void expect_class(const gf_dataset *d, int32_t label, const char *name) {
    const char *is = gf_dataset_class(d, label);
    if (!name != !is || (name && strcmp(name, is) != 0)) fail_msg("class %d is not %s", label, name ? name : "unnamed");
}

/* A line per folder: these are their names. Only then is a further folder `unlabelled` no class. */
TEST(a_file_names_class_folders) {
    scratch_png(&box, "n/n01/1.png", 4, 1);
    scratch_png(&box, "n/n02/2.png", 4, 2);
    scratch_png(&box, "n/unlabelled/3.png", 4, 3);
    scratch_png(&box, "n/zz/4.png", 4, 4);
    gf_dataset *d = open_spec("folder:%/n");
    expect_sample(d, 2, "unlabelled/3.png", 2, 3);
    expect_class(d, 0, "n01");
    gf_dataset_free(d);
    scratch_text(&box, "n/classnames.txt",
                 "\xef\xbb\xbf"
                 "tench\r\n great shark \nzebra\n\n\n"); /* with a byte order mark */
    d = open_spec("folder:%/n");
    assert_int_equal(gf_dataset_describe(d).classes, 3);
    assert_string_equal(gf_dataset_note(d), "");
    expect_sample(d, 0, "unlabelled/3.png", -1, 3);
    expect_sample(d, 3, "zz/4.png", 2, 4);
    expect_class(d, 0, "tench");
    expect_class(d, 1, "great shark");
    expect_class(d, 2, "zebra");
    gf_dataset_free(d);
    scratch_text(&box, "few", "\xef\xbb\xbfzz\nn02\n");
    d = open_spec("folder:%/n?classes=%/few");
    assert_int_equal(gf_dataset_describe(d).n, 2);
    expect_class(d, 0, "great shark");
    expect_class(d, 1, "zebra");
    gf_dataset_free(d);
    scratch_text(&box, "n/classnames.txt", "tench\n\nthird\nzebra\n");
    d = open_spec("folder:%/n");
    expect_class(d, 1, NULL);
    expect_class(d, 2, "third");
    expect_sample(d, 2, "unlabelled/3.png", 2, 3);
    gf_dataset_free(d);
    scratch_text(&box, "n/classnames.txt", "tench\nshark\n");
    d = open_spec("folder:%/n");
    assert_non_null(strstr(gf_dataset_note(d), "n/classnames.txt has 2 lines for 3 classes and is not used"));
    assert_int_equal(gf_dataset_describe(d).classes, 4);
    expect_class(d, 1, "n02");
    gf_dataset_free(d);
}

TEST(splits_are_found) {
    scratch_png(&box, "set/train/x/1.png", 8, 1);
    scratch_png(&box, "set/val/x/2.png", 8, 2);
    gf_dataset *d = open_spec("folder:%/set");
    expect_sample(d, 0, "set/train/x/1.png", 0, 1);
    char test[600];
    assert_int_equal(gf_dataset_test_spec(d, test, sizeof test), 1);
    assert_string_equal(test, spec_of("folder:%/set?split=test"));
    gf_dataset_free(d);
    d = open_spec("folder:%/set?split=test");
    expect_sample(d, 0, "set/val/x/2.png", 0, 2);
    gf_dataset_free(d);
    scratch_png(&box, "set/test/x/3.png", 8, 3);
    d = open_spec("folder:%/set?split=test");
    expect_sample(d, 0, "set/test/x/3.png", 0, 3);
    gf_dataset_free(d);
    d = open_spec("folder:%/set?split=all");
    assert_int_equal(gf_dataset_describe(d).n, 3);
    assert_int_equal(gf_dataset_describe(d).classes, 3);
    gf_dataset_free(d);
    /* A class of trains is not a split. */
    scratch_png(&box, "vehicles/train/1.png", 8, 1);
    scratch_png(&box, "vehicles/car/1.png", 8, 1);
    d = open_spec("folder:%/vehicles");
    assert_int_equal(gf_dataset_describe(d).classes, 2);
    gf_dataset_free(d);
    refused("folder:%/vehicles?split=test", GLOFND_E_IO, "neither");
    refused("folder:%/vehicles?split=val", GLOFND_E_IO, "no folder val");
    refused("folder:%/vehicles?split=dev", GLOFND_E_OPTION, "train, val, test or all");
}

TEST(odd_folders_do_no_harm) {
    refused("folder:%/absent", GLOFND_E_IO, "not a folder");
    mkdir(scratch_path(&box, "void"), 0777);
    refused("folder:%/void", GLOFND_E_FORMAT, "no .jpg");
    scratch_png(&box, "loop/a/1.png", 8, 1);
    scratch_text(&box, "loop/a/2.png", "not a png");
    scratch_write(&box, "loop/a/3.png", "", 0);
    assert_int_equal(symlink("..", scratch_path(&box, "loop/a/again")), 0);
    assert_int_equal(symlink("nowhere", scratch_path(&box, "loop/a/4.png")), 0);
    assert_int_equal(mkfifo(scratch_path(&box, "loop/a/5.png"), 0666), 0);
    gf_dataset *d = open_spec("folder:%/loop?split=all");
    static const glofnd_status expected[] = {GLOFND_OK, GLOFND_E_FORMAT, GLOFND_E_FORMAT, GLOFND_E_IO, GLOFND_E_IO};
    gf_sample s = {0};
    assert_int_equal(gf_dataset_describe(d).n, 5); /* the link leads back to loop/a, which is not entered again */
    for (int64_t i = 0; i < 5; i++) {
        gf_error err = {""};
        char name[600];
        gf_dataset_name(d, i, name, sizeof name);
        assert_int_equal(gf_dataset_read(&err, d, i, 0, &s), expected[i]);
        if (expected[i] != GLOFND_OK) assert_non_null(strstr(err.text, name));
    }
    gf_sample_free(&s);
    gf_dataset_free(d);
}

/* ----- list, csv ----- */

/* As data frames write them: integers as 3.0, where some are missing; the label of each of four images, and the classes. */
static void expect_listed(const char *spec, const char *name, const char *text, const int label[4], int32_t classes) {
    scratch_text(&box, name, text);
    gf_dataset *d = open_spec(spec);
    for (int i = 0; i < 4; i++) assert_int_equal(gf_dataset_label(d, i), label[i]);
    assert_int_equal(gf_dataset_describe(d).classes, classes);
    gf_dataset_free(d);
}

TEST(labels_of_lists_may_be_unknown) {
    static const int numbers[] = {1, -1, 0, -1}, names[] = {1, -1, 0, 1};
    scratch_png(&box, "u/1.png", 8, 1);
    expect_listed("list:%/u/a.txt", "u/a.txt", "1.png\t1\n1.png\t-1\n1.png\t0\n1.png\n", numbers, 2);
    expect_listed("list:%/u/a.txt", "u/a.txt", "1.png\t1.0\n1.png\t-1.0\n1.png\t0.0\n1.png\tnan\n", numbers, 2);
    expect_listed("list:%/u/a.txt", "u/a.txt", "1.png\tb\n1.png\tnan\n1.png\ta\n1.png\tb\n", names, 2);
    expect_listed("csv:%/u/a.csv", "u/a.csv", "filepath,title,label\n1.png,t,1.0\n1.png,t,-1.0\n1.png,t,0.0\n1.png,t,\n", numbers,
                  2);
}

TEST(lists_are_read) {
    scratch_png(&box, "l/pics/1.png", 8, 1);
    scratch_png(&box, "l/2.png", 8, 2);
    char text[2048];
    snprintf(text, sizeof text, "pics/1.png\t7\r\n\n2.png\t0\n%s\t3\nabsent.png", scratch_path(&box, "l/2.png"));
    scratch_text(&box, "l/a.txt", text);
    gf_dataset *d = open_spec("list:%/l/a.txt");
    assert_int_equal(gf_dataset_describe(d).n, 4);
    assert_int_equal(gf_dataset_describe(d).classes, 8);
    expect_sample(d, 0, "pics/1.png", 7, 1);
    expect_sample(d, 1, "2.png", 0, 2);
    expect_sample(d, 2, "2.png", 3, 2);
    assert_int_equal(gf_dataset_label(d, 3), -1);
    gf_error err = {""};
    gf_sample s = {0};
    assert_int_equal(gf_dataset_read(&err, d, 3, 0, &s), GLOFND_E_IO);
    assert_non_null(strstr(err.text, "absent.png"));
    gf_sample_free(&s);
    gf_dataset_free(d);
    scratch_text(&box, "l/b.txt", "2.png\tzebra\npics/1.png\tant\n2.png\tzebra\n");
    d = open_spec("list:%/l/b.txt");
    assert_int_equal(gf_dataset_describe(d).classes, 2);
    expect_sample(d, 0, "2.png", 1, 2);
    assert_string_equal(gf_dataset_class(d, 0), "ant");
    gf_dataset_free(d);
    scratch_text(&box, "l/c.txt", "2.png\n");
    d = open_spec("list:%/l/c.txt");
    assert_int_equal(gf_dataset_describe(d).classes, 0);
    gf_dataset_free(d);
    scratch_text(&box, "l/d.txt", "2.png 0\npics/1.png 1\n");
    refused("list:%/l/d.txt", GLOFND_E_IO, "none of 2 files probed exists, such as '2.png 0'; relative paths start at");
    refused("list:%/l/d.txt", GLOFND_E_IO, "a TAB separates path and label");
    scratch_text(&box, "l/d.txt", "filepath\ttitle\n2.png\ta cat\n");
    refused("list:%/l/d.txt", GLOFND_E_FORMAT, "'filepath', looks like a header; csv: is for");
    scratch_text(&box, "l/d.csv", "filepath\ttitle\nl/2.png\ta cat\n"); /* from where open_clip would be called */
    d = open_spec("csv:%/l/d.csv");
    assert_non_null(strstr(gf_dataset_note(d), "none of 1 images probed exists, such as 'l/2.png': relative paths start"));
    gf_dataset_free(d);
    scratch_text(&box, "l/d.txt", "gone.png\t0\n2.png\t1\n"); /* a unreadable sample */
    gf_dataset_free(open_spec("list:%/l/d.txt"));
    scratch_text(&box, "l/d.txt", "\n\n");
    refused("list:%/l/d.txt", GLOFND_E_FORMAT, "names no image");
    refused("list:%/l", GLOFND_E_IO, "not a regular file");
    refused("list:%/l/e.txt", GLOFND_E_IO, "e.txt");
}

static void expect_text(const gf_dataset *d, int64_t i, const char *text) {
    gf_sample s = {0};
    gf_error err = {""};
    if (gf_dataset_read(&err, d, i, 0, &s) != GLOFND_OK) fail_msg("%s", err.text);
    if (text) assert_string_equal(s.text, text);
    else assert_null(s.text);
    gf_sample_free(&s);
}

TEST(csv_is_read) {
    scratch_text(&box, "l/t.csv",
                 "\xef\xbb\xbf"
                 "filepath\ttitle\r\npics/1.png\ta dog, running\r\n"
                 "2.png\t\"says \"\"hi\"\"\nand\tgoes\"\n\n2.png\t");
    gf_dataset *d = open_spec("csv:%/l/t.csv");
    assert_int_equal(gf_dataset_describe(d).n, 3);
    assert_int_equal(gf_dataset_describe(d).has_text, 1);
    expect_text(d, 0, "a dog, running");
    expect_text(d, 1, "says \"hi\" and\tgoes");
    expect_text(d, 2, NULL);
    assert_true(gf_dataset_key(d, 1) != gf_dataset_key(d, 2));
    gf_dataset_free(d);
    scratch_text(&box, "l/u.csv", "label,caption,file\n3,\"one, two\",2.png\n1,x,pics/1.png\n");
    d = open_spec("csv:%/l/u.csv?image=file&caption=caption");
    expect_text(d, 0, "one, two");
    expect_sample(d, 1, "pics/1.png", 1, 1);
    assert_int_equal(gf_dataset_describe(d).classes, 4);
    gf_dataset_free(d);
    refused("csv:%/l/u.csv", GLOFND_E_FORMAT, "'filepath'");
    refused("csv:%/l/u.csv?image=file&caption=words", GLOFND_E_FORMAT, "'words'");
    scratch_text(&box, "l/v.csv", "filepath\ttitle\n2.png\t\"never closed\n");
    refused("csv:%/l/v.csv", GLOFND_E_FORMAT, "line 2");
    scratch_text(&box, "l/w.csv", "filepath\ttitle\n2.png\ta\n2.png\n");
    refused("csv:%/l/w.csv", GLOFND_E_FORMAT, "line 3");
    scratch_text(&box, "l/x.csv", "filepath\ttitle\n");
    refused("csv:%/l/x.csv", GLOFND_E_FORMAT, "names no image");
}

TEST(chosen_rows_are_a_dataset) {
    char name[64], test[400];
    gf_sample a = {0}, b = {0};
    scratch_text(&box, "keep.txt", "7\n0\r\n11\n");
    gf_dataset *all = open_spec("shapes:n=12,classes=3,size=16,seed=2");
    gf_dataset *d = open_spec("shapes:n=12,classes=3,size=16,seed=2?rows=%/keep.txt");
    const int64_t row[] = {7, 0, 11};
    assert_int_equal(gf_dataset_describe(d).n, 3);
    assert_int_equal(gf_dataset_describe(d).classes, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gf_dataset_label(d, i), gf_dataset_label(all, row[i]));
        assert_true(gf_dataset_key(d, i) == gf_dataset_key(all, row[i]));
        gf_dataset_name(d, i, name, sizeof name);
        gf_dataset_name(all, row[i], test, sizeof test);
        assert_string_equal(name, test);
        assert_int_equal(gf_dataset_read(NULL, d, i, NULL, &a), GLOFND_OK);
        assert_int_equal(gf_dataset_read(NULL, all, row[i], NULL, &b), GLOFND_OK);
        assert_memory_equal(a.image.rgb, b.image.rgb, 16 * 16 * 3);
    }
    gf_dataset_name(all, 7, name, sizeof name);
    scratch_text(&box, "names.txt", name);
    gf_dataset *named = open_spec("shapes:n=12,classes=3,size=16,seed=2?rows=%/names.txt");
    assert_int_equal(gf_dataset_describe(named).n, 1);
    assert_true(gf_dataset_key(named, 0) == gf_dataset_key(all, 7));
    gf_dataset_free(named);
    assert_int_equal(gf_dataset_read(NULL, d, 3, NULL, &a), GLOFND_E_INDEX);
    assert_true(gf_dataset_split_spec(d, "test", test, sizeof test)); /* rows are those of this split alone */
    assert_null(strstr(test, "rows"));
    gf_sample_free(&a);
    gf_sample_free(&b);
    gf_dataset_free(d);
    gf_dataset_free(all);
    scratch_text(&box, "keep.txt", "1\n12\n");
    refused("shapes:n=12,classes=3,size=16?rows=%/keep.txt", GLOFND_E_FORMAT,
            "line 2: \"12\"; expected the position of a sample, 0 to 11");
    scratch_text(&box, "keep.txt", "1\n1\n");
    refused("shapes:n=12,classes=3,size=16?rows=%/keep.txt", GLOFND_E_FORMAT, "line 2: sample 1 is there twice");
    scratch_text(&box, "keep.txt", "");
    refused("shapes:n=12,classes=3,size=16?rows=%/keep.txt", GLOFND_E_FORMAT, "no rows");
    scratch_text(&box, "keep.txt", "one\n");
    refused("shapes:n=12,classes=3,size=16?rows=%/keep.txt", GLOFND_E_FORMAT, "line 1: \"one\"");
    refused("shapes:n=12,classes=3,size=16?rows=%/nothing", GLOFND_E_IO, "nothing");
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
