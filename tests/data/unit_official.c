/* unit_official.c - datasets as they are published: tiny mock-ups of every layout give the right labels and splits, and what is
 * not complete is refused with counts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "support/mat_writer.h"
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

/* ----- Caltech-101, DTD, Food-101, Aircraft, SUN397 ----- */

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

TEST(aircraft_variants_may_have_spaces) {
    scratch_text(&box, "fgvc-aircraft-2013b/data/variants.txt", "707-320\nCessna 172\nF/A-18\n");
    scratch_text(&box, "fgvc-aircraft-2013b/data/images_variant_trainval.txt", "0000001 Cessna 172\n0000002 F/A-18\n");
    scratch_text(&box, "fgvc-aircraft-2013b/data/images_variant_test.txt", "0000003 707-320\n");
    for (int i = 1; i <= 3; i++) {
        char name[80];
        snprintf(name, sizeof name, "fgvc-aircraft-2013b/data/images/000000%d.jpg", i);
        image(name, (uint8_t)i);
    }
    gf_dataset *d = expect("aircraft:%?counts=any", LABELS(1, 2));
    expect_class(d, 1, "Cessna 172"), expect_class(d, 2, "F/A-18");
    gf_dataset_free(d);
    gf_dataset_free(expect("aircraft:%/fgvc-aircraft-2013b?counts=any&split=test", LABELS(0)));
}

TEST(sun_has_partitions_or_all) {
    scratch_text(&box, "SUN397/ClassName.txt", "/a/abbey\n/a/apse/indoor\n");
    image("SUN397/a/abbey/sun_1.jpg", 1), image("SUN397/a/apse/indoor/sun_2.jpg", 2), image("SUN397/a/apse/indoor/sun_3.jpg", 3);
    refused("sun397:%?counts=any", GLOFND_E_IO, "no Training_01.txt; unpack Partitions.zip");
    gf_dataset *d = expect("sun397:%?counts=any&split=all", LABELS(0, 1, 1));
    expect_class(d, 1, "apse/indoor");
    gf_dataset_free(d);
    scratch_text(&box, "SUN397/Partitions/Training_01.txt", "/a/apse/indoor/sun_2.jpg\n");
    scratch_text(&box, "SUN397/Partitions/Testing_03.txt", "/a/abbey/sun_1.jpg\n/a/apse/indoor/sun_3.jpg\n");
    gf_dataset_free(expect("sun397:%?counts=any", LABELS(1)));
    gf_dataset_free(expect("sun397:%/SUN397?counts=any&split=test&partition=3", LABELS(0, 1)));
}

/* ----- Flowers, Cars ----- */

static void write_mat(const char *name, mat_bytes *variables, int pack) {
    mat_bytes file = {0};
    mat_header(&file);
    if (pack) mat_pack(&file, variables);
    else {
        file.at = realloc(file.at, file.n + variables->n);
        assert_non_null(file.at);
        memcpy(file.at + file.n, variables->at, variables->n);
        file.n += variables->n;
    }
    scratch_write(&box, name, file.at, file.n);
    mat_free(&file);
    mat_free(variables);
}

TEST(flowers_are_split_by_setid) {
    mat_bytes v = {0};
    mat_numbers(&v, "labels", (const double[]){77, 1, 3, 3, 1}, 5, 0);
    write_mat("flowers-102/imagelabels.mat", &v, 1);
    mat_numbers(&v, "trnid", (const double[]){3, 2}, 2, 0);
    mat_numbers(&v, "valid", (const double[]){4}, 1, 0);
    mat_numbers(&v, "tstid", (const double[]){1, 5}, 2, 1);
    write_mat("flowers-102/setid.mat", &v, 0);
    for (int i = 1; i <= 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "flowers-102/jpg/image_%05d.jpg", i);
        image(name, (uint8_t)i);
    }
    gf_dataset_free(expect("flowers:%?counts=any", LABELS(2, 0)));
    gf_dataset_free(expect("flowers:%?counts=any&split=trainval", LABELS(2, 0, 2)));
    gf_dataset_free(expect("flowers:%?counts=any&split=test", LABELS(76, 0)));
    mat_numbers(&v, "trnid", (const double[]){6}, 1, 0);
    write_mat("flowers-102/setid.mat", &v, 0);
    refused("flowers:%?counts=any", GLOFND_E_FORMAT, "entry 1 of trnid in setid.mat has no label");
    refused("flowers:%?counts=any&split=test", GLOFND_E_FORMAT, "no variable tstid");
    scratch_text(&box, "flowers-102/setid.mat", "\x89HDF\r\n\x1a\n");
    refused("flowers:%?counts=any", GLOFND_E_FORMAT, "HDF5");
}

static void car(mat_bytes *b, double class, const char *file, double test) {
    mat_numbers(b, "", &class, 1, 1);
    mat_text(b, "", file);
    mat_numbers(b, "", &test, 1, 1);
}

TEST(cars_are_read_from_struct_arrays) {
    mat_bytes items = {0}, v = {0};
    static const char *const fields[] = {"class", "fname", "test"};
    car(&items, 2, "00001.jpg", 0), car(&items, 196, "00002.jpg", 0);
    mat_structs(&v, "annotations", 2, fields, 3, &items);
    write_mat("stanford_cars/devkit/cars_train_annos.mat", &v, 1);
    mat_free(&items);
    car(&items, 1, "00001.jpg", 1);
    mat_structs(&v, "annotations", 1, fields, 3, &items);
    write_mat("stanford_cars/cars_test_annos_withlabels.mat", &v, 0);
    mat_free(&items);
    mat_text(&items, "", "AM General Hummer"), mat_text(&items, "", "Acura RL");
    mat_cells(&v, "class_names", 2, &items);
    write_mat("stanford_cars/devkit/cars_meta.mat", &v, 1);
    mat_free(&items);
    image("stanford_cars/cars_train/00001.jpg", 1), image("stanford_cars/cars_train/00002.jpg", 2);
    image("stanford_cars/cars_test/00001.jpg", 3);
    gf_dataset *d = expect("cars:%?counts=any", LABELS(1, 195));
    expect_class(d, 1, "Acura RL");
    gf_dataset_free(d);
    gf_dataset_free(expect("cars:%/stanford_cars?counts=any&split=test", LABELS(0)));
    refused("cars:%/stanford_cars", GLOFND_E_FORMAT, "Stanford Cars has 196 classes and 8144 images");
}

TEST(cars_of_one_file_have_a_test_field) {
    mat_bytes items = {0}, names = {0}, v = {0};
    static const char *const fields[] = {"class", "relative_im_path", "test"};
    car(&items, 1, "car_ims/000001.jpg", 0), car(&items, 2, "car_ims/000002.jpg", 1);
    mat_structs(&v, "annotations", 2, fields, 3, &items);
    mat_text(&names, "", "one"), mat_text(&names, "", "two");
    mat_cells(&v, "class_names", 2, &names);
    write_mat("cars1/cars_annos.mat", &v, 0);
    mat_free(&items), mat_free(&names);
    image("cars1/car_ims/000001.jpg", 1), image("cars1/car_ims/000002.jpg", 1);
    gf_dataset_free(expect("cars:%/cars1?counts=any", LABELS(0)));
    gf_dataset *d = expect("cars:%/cars1?counts=any&split=test", LABELS(1));
    expect_class(d, 1, "two");
    gf_dataset_free(d);
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
