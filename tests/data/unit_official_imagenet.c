/* unit_official_imagenet.c - CIFAR's Python version, Tiny-ImageNet and ImageNet, from tiny mock-ups. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

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

/* ----- CIFAR's Python version ----- */

TEST(cifar_of_python_is_to_be_converted) {
    scratch_write(&box, "cifar-10-batches-py/data_batch_1", "\x80\x02}.", 4);
    scratch_write(&box, "cifar-100-python/train", "\x80\x02}.", 4);
    refused("cifar10:%", GLOFND_E_FORMAT, "python -m glofnd convert");
    refused("cifar10:%/cifar-10-batches-py", GLOFND_E_FORMAT, "cifar-10-batches-py cifar-10-batches-bin");
    refused("cifar100:%", GLOFND_E_FORMAT, "holds the Python version");
    refused("cifar100:%?split=test", GLOFND_E_IO, "has no test.bin");
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

TEST(imagenet_val_may_be_flat) {
    image("bare/val/x.JPEG");
    refused("imagenet:%/bare?counts=any&split=val", GLOFND_E_IO, "LOC_val_solution.csv");
    scratch_text(&box, "kaggle/LOC_val_solution.csv", "ImageId,PredictionString\nv2,n02 1 2 3 4\nv1,n01 1 2 3 4 n01 5 6 7 8\n");
    image("kaggle/ILSVRC/Data/CLS-LOC/val/v1.JPEG"), image("kaggle/ILSVRC/Data/CLS-LOC/val/v2.JPEG");
    scratch_text(&box, "kaggle/LOC_synset_mapping.txt", "n01 tench, Tinca tinca\nn02 goldfish\n");
    gf_dataset *d = expect("imagenet:%/kaggle?counts=any&split=val", LABELS(1, 0));
    assert_string_equal(gf_dataset_class_title(d, 0), "tench");
    gf_dataset_free(d);
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
