/* unit_official_arrays.c - CIFAR's Python version, STL-10, SVHN, Tiny-ImageNet, ImageNet and its variants, from tiny mock-ups. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "support/mat_writer.h"
#include "support/specs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void image(const char *name) { scratch_png(&box, name, 4, 7); }

static gf_dataset *expect(const char *pattern, const int *labels) {
    gf_dataset *d = open_spec(pattern);
    int n = 0;
    for (; labels[n] != -9; n++)
        if (gf_dataset_label(d, n) != labels[n]) fail_msg("%s: sample %d has label %d", pattern, n, gf_dataset_label(d, n));
    if (gf_dataset_describe(d).n != n) fail_msg("%s: %d samples, not %d", pattern, (int)gf_dataset_describe(d).n, n);
    return d;
}

#define LABELS(...) ((const int[]){__VA_ARGS__, -9})

/* Pixel (x, y) of sample i. */
static void expect_pixel(const gf_dataset *d, int64_t i, int x, int y, int r, int g, int b) {
    gf_sample s = {0};
    gf_error err = {""};
    if (gf_dataset_read(&err, d, i, NULL, &s) != GLOFND_OK) fail_msg("%s", err.text);
    const uint8_t *p = s.image.rgb + 3 * (y * s.image.width + x);
    if (p[0] != r || p[1] != g || p[2] != b) fail_msg("pixel %d %d: %d %d %d", x, y, p[0], p[1], p[2]);
    gf_sample_free(&s);
}

/* ----- CIFAR's Python version ----- */

TEST(cifar_of_python_is_to_be_converted) {
    scratch_write(&box, "cifar-10-batches-py/data_batch_1", "\x80\x02}.", 4);
    scratch_write(&box, "cifar-100-python/train", "\x80\x02}.", 4);
    refused("cifar10:%", GLOFND_E_FORMAT, "python -m glofnd convert");
    refused("cifar10:%/cifar-10-batches-py", GLOFND_E_FORMAT, "cifar-10-batches-py cifar-10-batches-bin");
    refused("cifar100:%", GLOFND_E_FORMAT, "holds the Python version");
    refused("cifar100:%?split=test", GLOFND_E_IO, "has no test.bin");
}

/* ----- STL-10, SVHN ----- */

TEST(stl_images_are_columns_first) {
    static uint8_t x[2 * 27648];
    memset(x, 5, sizeof x);
    x[27648 + 96 * 2 + 3] = 77; /* image 1, red, x 2, y 3 */
    scratch_write(&box, "stl10_binary/train_X.bin", x, sizeof x);
    scratch_write(&box, "stl10_binary/train_y.bin", "\x0a\x01", 2);
    scratch_write(&box, "stl10_binary/unlabeled_X.bin", x, 27648);
    scratch_text(&box, "stl10_binary/class_names.txt", "airplane\nbird\ncar\n");
    gf_dataset *d = expect("stl10:%?counts=any", LABELS(9, 0));
    assert_int_equal(gf_dataset_describe(d).width, 96);
    expect_pixel(d, 1, 2, 3, 77, 5, 5);
    expect_pixel(d, 1, 3, 2, 5, 5, 5);
    assert_string_equal(gf_dataset_class(d, 1), "bird");
    assert_int_equal(gf_dataset_sizes(d).width, 96);
    gf_dataset_free(d);
    gf_dataset_free(expect("stl10:%?counts=any&split=unlabeled", LABELS(-1)));
    refused("stl10:%", GLOFND_E_FORMAT, "STL-10 has 10 classes and 5000 images");
    scratch_write(&box, "stl10_binary/train_y.bin", "\x0b\x01", 2);
    refused("stl10:%?counts=any", GLOFND_E_FORMAT, "label 11 of image 0");
    scratch_write(&box, "stl10_binary/train_y.bin", "\x01", 1);
    refused("stl10:%?counts=any", GLOFND_E_FORMAT, "1 labels for 2 images");
    scratch_write(&box, "stl10_binary/train_X.bin", x, 100);
    refused("stl10:%?counts=any", GLOFND_E_FORMAT, "has 100 bytes");
}

TEST(svhn_digits_end_with_ten) {
    static uint8_t x[3 * 3072];
    mat_bytes v = {0}, file = {0};
    memset(x, 9, sizeof x);
    x[3072 + 1024 + 32 * 4 + 1] = 50; /* image 1, green, x 4, y 1 */
    mat_header(&file);
    mat_array(&v, "X", (const int32_t[]){32, 32, 3, 3}, 4, x, sizeof x);
    mat_pack(&file, &v);
    mat_free(&v);
    mat_numbers(&v, "y", (const double[]){10, 1, 9}, 3, 1);
    mat_pack(&file, &v);
    mat_free(&v);
    scratch_write(&box, "svhn/train_32x32.mat", file.at, file.n);
    gf_dataset *d = expect("svhn:%/svhn?counts=any", LABELS(0, 1, 9));
    expect_pixel(d, 1, 4, 1, 9, 50, 9);
    assert_string_equal(gf_dataset_class(d, 9), "9");
    gf_dataset_free(d);
    refused("svhn:%/svhn?counts=any&split=test", GLOFND_E_IO, "test_32x32.mat");
    scratch_write(&box, "svhn/train_32x32.mat", file.at, file.n - 40);
    refused("svhn:%/svhn?counts=any", GLOFND_E_FORMAT, "corrupt");
    mat_free(&file);
}

/* ----- ImageNet ----- */

TEST(tiny_imagenet_has_its_annotations) {
    image("tiny-imagenet-200/train/n02/images/n02_0.JPEG"), image("tiny-imagenet-200/train/n01/images/n01_0.JPEG");
    image("tiny-imagenet-200/train/n01/images/n01_1.JPEG");
    scratch_text(&box, "tiny-imagenet-200/words.txt", "n00\tother\nn01\tgoldfish, Carassius auratus\nn02\tchain saw\n");
    scratch_text(&box, "tiny-imagenet-200/val/val_annotations.txt",
                 "val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t1\t2\t3\t4\n");
    image("tiny-imagenet-200/val/images/val_0.JPEG"), image("tiny-imagenet-200/val/images/val_1.JPEG");
    gf_dataset *d = expect("tinyimagenet:%?counts=any", LABELS(0, 0, 1));
    assert_string_equal(gf_dataset_class(d, 0), "n01");
    assert_string_equal(gf_dataset_class_title(d, 0), "goldfish");
    assert_string_equal(gf_dataset_class_title(d, 1), "chain saw");
    char spec[1000];
    assert_true(gf_dataset_test_spec(d, spec, sizeof spec));
    assert_string_equal(spec, spec_of("tinyimagenet:%?split=val&counts=any"));
    gf_dataset_free(d);
    gf_dataset_free(expect("tinyimagenet:%?counts=any&split=val", LABELS(1, 0)));
}

TEST(imagenet_val_may_be_in_class_folders) {
    image("in/train/n01440764/a.JPEG"), image("in/train/n01443537/b.JPEG"), image("in/train/n01484850/c.JPEG");
    image("in/val/n01440764/v.JPEG"), image("in/val/n01443537/v.JPEG"), image("in/val/n01484850/v.JPEG");
    gf_dataset_free(expect("imagenet:%/in?counts=any", LABELS(0, 1, 2)));
    gf_dataset_free(expect("imagenet:%/in?counts=any&split=val", LABELS(0, 1, 2)));
    refused("imagenet:%/in?split=val", GLOFND_E_FORMAT,
            "3 classes and 3 images in split val; ImageNet (ILSVRC 2012) has 1000 classes and 50000 images");
    scratch_text(&box, "some.txt", "n01484850 great white shark\nn01440764\n");
    gf_dataset *d = open_spec("imagenet:%/in?classes=%/some.txt");
    assert_int_equal(gf_dataset_describe(d).n, 2);
    assert_string_equal(gf_dataset_class(d, 1), "n01484850");
    assert_true(gf_dataset_as_known(d));
    gf_dataset_free(d);
    refused("imagenet:%/in?split=val&classes=%/some.txt", GLOFND_E_FORMAT, "has 2 classes and 100 images");
    d = open_spec("imagenet:%/in?counts=any&split=val&classes=%/some.txt&names=%/some.txt");
    assert_string_equal(gf_dataset_class_title(d, 1), "great white shark");
    gf_dataset_free(d);
    scratch_text(&box, "other.txt", "n09999999\n");
    refused("imagenet:%/in?classes=%/other.txt", GLOFND_E_FORMAT, "lists the class 'n09999999'");
}

TEST(imagenet_val_may_be_flat_beside_the_devkit) {
    mat_bytes items = {0}, v = {0}, file = {0};
    static const char *const fields[] = {"ILSVRC2012_ID", "WNID"}, *const ids[] = {"n03", "n01", "n02"};
    for (int k = 0; k < 3; k++) {
        const double id = k + 1;
        mat_numbers(&items, "", &id, 1, 1), mat_text(&items, "", ids[k]);
    }
    mat_structs(&v, "synsets", 3, fields, 2, &items);
    mat_header(&file);
    mat_pack(&file, &v);
    scratch_write(&box, "flat/ILSVRC2012_devkit_t12/data/meta.mat", file.at, file.n);
    mat_free(&items), mat_free(&v), mat_free(&file);
    scratch_text(&box, "flat/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", "2\n1\n3\n");
    for (int k = 1; k <= 3; k++) {
        char name[64];
        snprintf(name, sizeof name, "flat/val/ILSVRC2012_val_%08d.JPEG", k);
        image(name);
    }
    gf_dataset *d = expect("imagenet:%/flat?counts=any&split=val", LABELS(0, 2, 1));
    assert_string_equal(gf_dataset_class(d, 2), "n03");
    gf_dataset_free(d);
    scratch_text(&box, "flat/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", "4\n");
    refused("imagenet:%/flat?counts=any&split=val", GLOFND_E_FORMAT, "not in meta.mat");
    refused("imagenet:%/flat?counts=any", GLOFND_E_IO, "no folder train");
    image("bare/val/x.JPEG");
    refused("imagenet:%/bare?counts=any&split=val", GLOFND_E_IO, "ILSVRC2012_devkit_t12");
    scratch_text(&box, "kaggle/LOC_val_solution.csv", "ImageId,PredictionString\nv2,n02 1 2 3 4\nv1,n01 1 2 3 4 n01 5 6 7 8\n");
    image("kaggle/ILSVRC/Data/CLS-LOC/val/v1.JPEG"), image("kaggle/ILSVRC/Data/CLS-LOC/val/v2.JPEG");
    scratch_text(&box, "kaggle/LOC_synset_mapping.txt", "n01 tench, Tinca tinca\nn02 goldfish\n");
    d = expect("imagenet:%/kaggle?counts=any&split=val", LABELS(1, 0));
    assert_string_equal(gf_dataset_class_title(d, 0), "tench");
    gf_dataset_free(d);
}

TEST(variants_are_numbered_or_subsets) {
    for (int k = 0; k < 12; k++) {
        char name[64];
        snprintf(name, sizeof name, "v2/%d/%d.jpeg", k, k);
        image(name);
    }
    gf_dataset *d = open_spec("imagenetv2:%/v2?counts=any");
    for (int k = 0; k < 12; k++) { /* folders in bytewise order, labels by number */
        char name[600], *last;
        gf_dataset_name(d, k, name, sizeof name);
        last = strrchr(name, '/') + 1;
        assert_int_equal(gf_dataset_label(d, k), atoi(last));
    }
    gf_dataset_free(d);
    image("v2/extra/a.jpeg");
    refused("imagenetv2:%/v2?counts=any", GLOFND_E_FORMAT, "class numbers from 0 to 999");
    image("imagenet-a/n01498041/x.jpg"), image("imagenet-a/n01531178/y.jpg");
    scratch_text(&box, "imagenet-a/README.txt", "ImageNet-A\n\nn01498041 stingray\nn01531178 goldfinch\n");
    d = expect("imagenet_a:%?counts=any", LABELS(0, 1));
    assert_string_equal(gf_dataset_class(d, 1), "n01531178");
    assert_string_equal(gf_dataset_class_title(d, 1), "goldfinch");
    gf_dataset_free(d);
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
