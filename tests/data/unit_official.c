/* unit_official.c - datasets as they are published: tiny mock-ups of every layout give the right labels and splits, and what is
 * not complete is refused with counts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "support/specs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void image(const char *name, uint8_t gray) { scratch_png(&box, name, 4, gray); }

/* The dataset of `pattern`: as many samples, and labels in order (negative: the end). */
static gf_dataset *expect(const char *pattern, const int *labels) {
    gf_dataset *d = open_spec(pattern);
    gf_sample s = {0};
    int n = 0;
    for (; labels[n] != -9; n++) {
        gf_error err = {""};
        if (gf_dataset_label(d, n) != labels[n]) fail_msg("%s: sample %d has label %d", pattern, n, gf_dataset_label(d, n));
        if (gf_dataset_read(&err, d, n, NULL, &s) != GLOFND_OK) fail_msg("%s: %s", pattern, err.text);
    }
    if (gf_dataset_describe(d).n != n) fail_msg("%s: %d samples, not %d", pattern, (int)gf_dataset_describe(d).n, n);
    gf_sample_free(&s);
    return d;
}

static void expect_class(const gf_dataset *d, int label, const char *name) {
    assert_non_null(gf_dataset_class(d, label));
    assert_string_equal(gf_dataset_class(d, label), name);
}

static void expect_test(const gf_dataset *d, const char *pattern) {
    char spec[2000] = "";
    assert_int_equal(gf_dataset_test_spec(d, spec, sizeof spec), pattern != NULL);
    if (pattern) assert_string_equal(spec, spec_of(pattern));
}

#define LABELS(...) ((const int[]){__VA_ARGS__, -9})

/* ----- the table ----- */

TEST(the_table_is_complete) {
    for (int i = 0; gf_known_at(i); i++) {
        const gf_known_dataset *k = gf_known_at(i);
        assert_true(k->name && k->title && k->full && k->split[0].name);
        assert_ptr_equal(gf_known_find(k->name), k);
        if (k->test) assert_non_null(gf_known_split_find(k, k->test));
        if (k->read) assert_true(k->wants && k->options);
        for (const gf_known_split *s = k->split; s->name; s++) assert_ptr_equal(gf_known_split_find(k, s->name), s);
    }
    assert_null(gf_known_find("pet"));
    assert_int_equal(gf_known_find("pets")->scoring, GF_SCORE_MEAN);
    assert_int_equal(gf_known_find("dtd")->scoring, GF_SCORE_TOP1);
    assert_null(gf_known_find("caltech101")->test);
}

/* ----- Pets ----- */

static void make_pets(void) {
    scratch_text(&box, "pets/annotations/trainval.txt", "Abyssinian_1 1 1 1\nAbyssinian_2 1 1 1\nyorkshire_terrier_9 3 2 2\n");
    scratch_text(&box, "pets/annotations/test.txt", "yorkshire_terrier_5 3 2 2\n");
    image("pets/images/Abyssinian_1.jpg", 1), image("pets/images/Abyssinian_2.jpg", 2);
    image("pets/images/yorkshire_terrier_9.jpg", 9), image("pets/images/yorkshire_terrier_5.jpg", 5);
    image("pets/images/unlisted.jpg", 5);
}

TEST(pets_are_read_by_their_lists) {
    make_pets();
    gf_dataset *d = expect("pets:%/pets?counts=any", LABELS(0, 0, 2));
    expect_class(d, 0, "Abyssinian"), expect_class(d, 2, "yorkshire_terrier");
    expect_test(d, "pets:%/pets?split=test&counts=any");
    assert_ptr_equal(gf_dataset_known(d), gf_known_find("pets"));
    assert_false(gf_dataset_as_known(d));
    assert_non_null(strstr(gf_dataset_note(d), "2 classes and 3 images"));
    gf_dataset_free(d);
    d = expect("pets:%/pets?split=test&counts=any", LABELS(2));
    expect_test(d, NULL);
    gf_dataset_free(d);
}

TEST(other_counts_are_refused) {
    refused("pets:%/pets", GLOFND_E_FORMAT,
            "has 2 classes and 3 images in split trainval; Oxford-IIIT Pet has 37 classes and 3680 images");
    refused("pets:%/pets", GLOFND_E_FORMAT, "?counts=any");
    refused("pets:%/pets?counts=all", GLOFND_E_OPTION, "counts is 'all'");
    refused("pets:%/pets?split=train", GLOFND_E_OPTION, "expected one of trainval, test");
    refused("pets:%/pets?partition=2", GLOFND_E_OPTION, "no option 'partition'");
    refused("pets:%/missing", GLOFND_E_IO, "not a folder");
    refused("pets:%", GLOFND_E_IO, "no annotations/trainval.txt");
    scratch_text(&box, "bad1/annotations/trainval.txt", "Abyssinian_1 x 1 1\n");
    refused("pets:%/bad1?counts=any", GLOFND_E_FORMAT, "NAME CLASS SPECIES BREED");
    scratch_text(&box, "bad2/annotations/trainval.txt", "../../etc/passwd 1 1 1\n");
    refused("pets:%/bad2?counts=any", GLOFND_E_FORMAT, "leaves this folder");
    scratch_text(&box, "bad3/annotations/trainval.txt", "Abyssinian_1 99999999 1 1\n");
    refused("pets:%/bad3?counts=any", GLOFND_E_FORMAT, "out of range");
    scratch_text(&box, "bad4/annotations/trainval.txt", "Abyssinian_1 1 1 1\n");
    refused("pets:%/bad4?counts=any", GLOFND_E_IO, "which does not exist");
    scratch_text(&box, "bad5/annotations/trainval.txt", "");
    refused("pets:%/bad5?counts=any", GLOFND_E_FORMAT, "no image of split trainval");
}

/* Read as class folders it has two classes, images and annotations: that is said. */
TEST(a_folder_that_is_a_known_dataset_is_noted) {
    gf_dataset *d = open_spec("folder:%/pets");
    assert_non_null(strstr(gf_dataset_note(d), "this looks like the download of Oxford-IIIT Pet, which pets:"));
    gf_dataset_free(d);
}

/* ----- Caltech-101, DTD, Food-101 ----- */

TEST(caltech_has_no_background) {
    image("caltech/caltech-101/101_ObjectCategories/BACKGROUND_Google/image_0001.jpg", 0);
    image("caltech/caltech-101/101_ObjectCategories/accordion/image_0001.jpg", 1);
    image("caltech/caltech-101/101_ObjectCategories/accordion/image_0002.jpg", 1);
    image("caltech/caltech-101/101_ObjectCategories/yin_yang/image_0001.jpg", 2);
    static const char *const places[] = {"caltech101:%/caltech?counts=any", "caltech101:%/caltech/caltech-101?counts=any",
                                         "caltech101:%/caltech/caltech-101/101_ObjectCategories?counts=any"};
    for (int i = 0; i < 3; i++) {
        gf_dataset *d = expect(places[i], LABELS(0, 0, 1));
        expect_class(d, 0, "accordion"), expect_class(d, 1, "yin_yang");
        expect_test(d, NULL);
        gf_dataset_free(d);
    }
    refused("caltech101:%/caltech", GLOFND_E_FORMAT,
            "2 classes and 3 images in split all; Caltech-101 has 101 classes and 8677 images");
}

TEST(textures_have_ten_partitions) {
    image("dtd/images/banded/banded_1.jpg", 1), image("dtd/images/banded/banded_2.jpg", 2);
    image("dtd/images/dotted/dotted_1.jpg", 3), image("dtd/images/dotted/dotted_2.jpg", 4);
    scratch_text(&box, "dtd/labels/train1.txt", "banded/banded_1.jpg\n");
    scratch_text(&box, "dtd/labels/val1.txt", "dotted/dotted_1.jpg\n");
    scratch_text(&box, "dtd/labels/test1.txt", "banded/banded_2.jpg\ndotted/dotted_2.jpg\n");
    scratch_text(&box, "dtd/labels/train10.txt", "dotted/dotted_2.jpg\nbanded/banded_2.jpg\n");
    gf_dataset_free(expect("dtd:%?counts=any", LABELS(0)));
    gf_dataset_free(expect("dtd:%/dtd?counts=any&split=val", LABELS(1)));
    gf_dataset_free(expect("dtd:%/dtd?counts=any&split=trainval", LABELS(0, 1)));
    gf_dataset *d = expect("dtd:%/dtd?counts=any&partition=10", LABELS(1, 0));
    expect_test(d, "dtd:%/dtd?split=test&counts=any&partition=10");
    gf_dataset_free(d);
    refused("dtd:%/dtd?partition=11", GLOFND_E_OPTION, "[1, 10]");
    scratch_text(&box, "dtd/labels/train2.txt", "striped/striped_1.jpg\n");
    refused("dtd:%/dtd?partition=2", GLOFND_E_FORMAT, "CLASS/IMAGE");
}

TEST(food_lists_have_no_extensions) {
    image("food-101/images/apple_pie/10.jpg", 1), image("food-101/images/waffles/20.jpg", 1);
    scratch_text(&box, "food-101/meta/train.txt", "apple_pie/10\n");
    scratch_text(&box, "food-101/meta/test.txt", "waffles/20\n");
    gf_dataset_free(expect("food101:%?counts=any", LABELS(0)));
    gf_dataset_free(expect("food101:%?counts=any&split=test", LABELS(1)));
}

/* ----- Flowers, Cars ----- */

TEST(flowers_and_cars_have_converted_lists) {
    for (int i = 1; i <= 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "flowers-102/jpg/image %05d.jpg", i);
        image(name, (uint8_t)i);
    }
    scratch_text(&box, "flowers-102/train.tsv", "jpg/image 00003.jpg\t2\njpg/image 00002.jpg\t0\n");
    scratch_text(&box, "flowers-102/test.tsv", "jpg/image 00001.jpg\t76\n");
    gf_dataset_free(expect("flowers:%?counts=any", LABELS(2, 0)));
    gf_dataset_free(expect("flowers:%?counts=any&split=test", LABELS(76)));
    refused("flowers:%?counts=any&split=val", GLOFND_E_IO,
            "no val.tsv; make it of the download's MATLAB files: python -m glofnd");
    scratch_text(&box, "stanford_cars/cars_annos.mat", "MATLAB 5.0");
    refused("cars:%?counts=any", GLOFND_E_IO, "python -m glofnd convert");
    scratch_text(&box, "stanford_cars/train.tsv", "car_ims/1.jpg\t1\n");
    scratch_text(&box, "stanford_cars/classes.txt", "AM General Hummer\nAcura RL\n");
    image("stanford_cars/car_ims/1.jpg", 1);
    gf_dataset *d = expect("cars:%?counts=any", LABELS(1));
    expect_class(d, 1, "Acura RL");
    gf_dataset_free(d);
    refused("cars:%/stanford_cars", GLOFND_E_FORMAT, "Stanford Cars has 196 classes and 8144 images");
    static const char *const bad[] = {"car_ims/1.jpg 1\n", "car_ims/1.jpg\tone\n", "car_ims/1.jpg\t-1\n", "car_ims/1.jpg\t1 1\n",
                                      "car_ims/1.jpg\t\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scratch_text(&box, "stanford_cars/train.tsv", bad[i]);
        refused("cars:%?counts=any", GLOFND_E_FORMAT, "IMAGE, a tab and a class from 0");
    }
    scratch_text(&box, "stanford_cars/train.tsv", "../1.jpg\t1\n");
    refused("cars:%?counts=any", GLOFND_E_FORMAT, "leaves this folder");
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
