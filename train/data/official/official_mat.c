/* official_mat.c - layouts with MATLAB files: Oxford 102 Flowers, Stanford Cars. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/official/mat5.h"
#include "data/official/official.h"

static glofnd_status read_mat(gf_error *err, const gf_official *o, const char *name, gf_mat *out) {
    char path[PATH_MAX];
    *out = (gf_mat){0};
    TRY(gf_path_join(err, path, o->root, name));
    return gf_mat_read(err, path, out);
}

static glofnd_status find_array(gf_error *err, const gf_official *o, const gf_mat *m, const char *file, const char *name,
                                gf_mat_kind kind, const gf_mat_array **out) {
    *out = gf_mat_find(m, name);
    FAIL_IF(err, !*out || (*out)->kind != kind, GLOFND_E_FORMAT, "'%.200s/%s' has no variable %s of the expected kind", o->root,
            file, name);
    return GLOFND_OK;
}

/* ----- Oxford 102 Flowers: labels from 1 by image number, and the image numbers of each split ----- */

static glofnd_status flowers_set(gf_error *err, gf_official *o, const gf_mat *sets, const char *name,
                                 const gf_mat_array *labels) {
    const gf_mat_array *ids;
    char path[64];
    TRY(find_array(err, o, sets, "setid.mat", name, GF_MAT_NUMBERS, &ids));
    for (int64_t i = 0; i < ids->n; i++) {
        int64_t id = 0, label = 0;
        FAIL_IF(err, !gf_mat_integer(ids, i, 1, labels->n, &id) || !gf_mat_integer(labels, id - 1, 1, GF_CLASSES_MAX, &label),
                GLOFND_E_FORMAT, "'%.200s': entry %lld of %s in setid.mat has no label in imagelabels.mat", o->root,
                (long long)i + 1, name);
        snprintf(path, sizeof path, "jpg/image_%05lld.jpg", (long long)id);
        TRY(gf_official_add(err, o, path, label - 1));
    }
    return GLOFND_OK;
}

static glofnd_status flowers_sets(gf_error *err, gf_official *o, const gf_mat *sets, const gf_mat *label_file) {
    const gf_mat_array *labels;
    const int both = strcmp(o->split, "trainval") == 0;
    TRY(find_array(err, o, label_file, "imagelabels.mat", "labels", GF_MAT_NUMBERS, &labels));
    if (strcmp(o->split, "test") == 0) return flowers_set(err, o, sets, "tstid", labels);
    if (both || strcmp(o->split, "train") == 0) TRY(flowers_set(err, o, sets, "trnid", labels));
    return both || strcmp(o->split, "val") == 0 ? flowers_set(err, o, sets, "valid", labels) : GLOFND_OK;
}

glofnd_status gf_read_flowers(gf_error *err, gf_official *o) {
    gf_mat sets = {0}, labels = {0};
    glofnd_status status = read_mat(err, o, "setid.mat", &sets);
    if (status == GLOFND_OK) status = read_mat(err, o, "imagelabels.mat", &labels);
    if (status == GLOFND_OK) status = flowers_sets(err, o, &sets, &labels);
    gf_mat_free(&sets);
    gf_mat_free(&labels);
    return status;
}

/* ----- Stanford Cars: struct arrays with file name and class from 1, in one file for both splits or in two ----- */

typedef struct cars_files {
    const char *annotations, *images; /* images: the folder of what `field` names */
    const char *field;
    int has_both; /* the field `test` says which split an image belongs to */
} cars_files;

static glofnd_status add_cars(gf_error *err, gf_official *o, const gf_mat *m, const cars_files *f) {
    const gf_mat_array *a;
    const int test = strcmp(o->split, "test") == 0;
    TRY(find_array(err, o, m, f->annotations, "annotations", GF_MAT_STRUCTS, &a));
    for (int64_t i = 0; i < a->n; i++) {
        char name[256], path[400];
        int64_t label, in_test = test;
        if (f->has_both && !gf_mat_integer(gf_mat_field(a, i, "test"), 0, 0, 1, &in_test)) in_test = -1;
        FAIL_IF(err,
                in_test < 0 || !gf_mat_integer(gf_mat_field(a, i, "class"), 0, 1, GF_CLASSES_MAX, &label) ||
                    !gf_mat_text(gf_mat_field(a, i, f->field), name, sizeof name),
                GLOFND_E_FORMAT, "'%.200s/%s': annotation %lld lacks class or %s%s", o->root, f->annotations, (long long)i + 1,
                f->field, strstr(f->annotations, "test_annos.mat") ? "; labels are in cars_test_annos_withlabels.mat" : "");
        if (in_test != test) continue;
        snprintf(path, sizeof path, "%s%s%s", f->images, f->images[0] ? "/" : "", name);
        TRY(gf_official_add(err, o, path, label - 1));
    }
    return GLOFND_OK;
}

static glofnd_status name_cars(gf_error *err, gf_official *o, const gf_mat *m) {
    const gf_mat_array *names = gf_mat_find(m, "class_names");
    char name[200];
    for (int64_t k = 0; names && names->kind == GF_MAT_CELLS && k < names->n; k++)
        if (gf_mat_text(gf_mat_cell(names, k), name, sizeof name)) TRY(gf_official_name_class(err, o, k, name, strlen(name)));
    return GLOFND_OK;
}

/* The first of these that is there; the last one if none is. */
static const char *first_of(const gf_official *o, const char *const *names) {
    while (names[1] && !gf_official_has(o, names[0])) names++;
    return names[0];
}

static cars_files find_cars(const gf_official *o) {
    const int test = strcmp(o->split, "test") == 0;
    static const char *const images[2][5] = {{"cars_train/cars_train", "cars_train", NULL},
                                             {"cars_test/cars_test", "cars_test", NULL}};
    static const char *const files[2][5] = {{"devkit/cars_train_annos.mat", "car_devkit/devkit/cars_train_annos.mat",
                                             "cars_train_annos.mat", NULL},
                                            {"cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat",
                                             "car_devkit/devkit/cars_test_annos_withlabels.mat", "devkit/cars_test_annos.mat",
                                             NULL}};
    if (gf_official_has(o, "cars_annos.mat")) return (cars_files){"cars_annos.mat", "", "relative_im_path", 1};
    return (cars_files){first_of(o, files[test]), first_of(o, images[test]), "fname", 0};
}

glofnd_status gf_read_cars(gf_error *err, gf_official *o) {
    static const char *const meta[] = {"devkit/cars_meta.mat", "car_devkit/devkit/cars_meta.mat", "cars_meta.mat", NULL};
    const cars_files f = find_cars(o);
    const char *names = f.has_both ? f.annotations : first_of(o, meta);
    gf_mat annotations = {0}, classes = {0};
    FAIL_IF(err, !gf_official_has(o, f.annotations), GLOFND_E_IO, "'%.200s' has no %s; cars:DIR needs %s", o->root, f.annotations,
            o->known->wants);
    glofnd_status status = read_mat(err, o, f.annotations, &annotations);
    if (status == GLOFND_OK && gf_official_has(o, names)) status = read_mat(err, o, names, &classes);
    if (status == GLOFND_OK) status = add_cars(err, o, &annotations, &f);
    if (status == GLOFND_OK) status = name_cars(err, o, &classes);
    gf_mat_free(&annotations);
    gf_mat_free(&classes);
    return status;
}
