/* official_layouts.c - the layouts of published datasets that are class folders, text lists, MATLAB files or arrays of pixels. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/official/mat5.h"
#include "data/official/official.h"
#include "io/file.h"

/* ----- Caltech-101: a folder per class; BACKGROUND_Google is none ----- */

static glofnd_status add_classes(gf_error *err, gf_official *o, gf_string_list *folders) {
    int64_t label = 0;
    TRY(gf_official_folders(err, o, ".", folders));
    for (int64_t k = 0; k < folders->n; k++) {
        const char *name = gf_string_list_get(folders, k);
        if (strcmp(name, "BACKGROUND_Google") == 0) continue;
        TRY(gf_official_name_class(err, o, label, name, strlen(name)));
        TRY(gf_official_add_folder(err, o, name, label++));
    }
    return GLOFND_OK;
}

glofnd_status gf_read_caltech101(gf_error *err, gf_official *o) {
    gf_string_list folders = {0};
    const glofnd_status status = add_classes(err, o, &folders);
    gf_string_list_free(&folders);
    return status;
}

/* ===== layouts with plain text lists: Oxford-IIIT Pet, FGVC Aircraft, DTD, Food-101, SUN397 ===== */

#define LINE 1024

typedef glofnd_status (*line_reader)(gf_error *err, gf_official *o, char *line, const gf_string_list *classes);

/* Has every line of a list below the root read. */
static glofnd_status read_list(gf_error *err, gf_official *o, const char *name, const gf_string_list *classes, line_reader read) {
    gf_string_list lines = {0};
    char line[LINE];
    glofnd_status status = gf_official_lines(err, o, name, &lines);
    for (int64_t i = 0; i < lines.n && status == GLOFND_OK; i++) {
        const int n = snprintf(line, sizeof line, "%s", gf_string_list_get(&lines, i));
        if (n < 0 || n >= LINE)
            status = gf_fail(err, GLOFND_E_FORMAT, "'%.200s/%s': line %lld is longer than %d bytes", o->root, name,
                             (long long)i + 1, LINE - 1);
        else status = read(err, o, line, classes);
    }
    gf_string_list_free(&lines);
    return status;
}

static glofnd_status bad_line(gf_error *err, const gf_official *o, const char *line, const char *expected) {
    GF_FAIL(err, GLOFND_E_FORMAT, "'%.200s': a line of the list of split %s is '%.100s'; expected %s", o->root, o->split, line,
            expected);
}

/* ----- Oxford-IIIT Pet: "Abyssinian_100 1 1 1", name and class from 1 ----- */

static glofnd_status pets_line(gf_error *err, gf_official *o, char *line, const gf_string_list *classes) {
    char *word[3], path[LINE + 32], *end;
    (void)classes;
    if (line[0] == '#') return GLOFND_OK;
    errno = 0;
    const int words = gf_official_words(line, word, 3);
    const long label = words == 3 ? strtol(word[1], &end, 10) : 0;
    if (words < 3 || errno || *end || label < 1) return bad_line(err, o, line, "NAME CLASS SPECIES BREED");
    const char *number = strrchr(word[0], '_');
    snprintf(path, sizeof path, "images/%s.jpg", word[0]);
    TRY(gf_official_name_class(err, o, label - 1, word[0], number ? (size_t)(number - word[0]) : strlen(word[0])));
    return gf_official_add(err, o, path, label - 1);
}

glofnd_status gf_read_pets(gf_error *err, gf_official *o) {
    char list[64];
    snprintf(list, sizeof list, "annotations/%.20s.txt", o->split);
    return read_list(err, o, list, NULL, pets_line);
}

/* ----- classes in a list of their own, in its order ----- */

static glofnd_status name_all(gf_error *err, gf_official *o, const gf_string_list *classes) {
    for (int64_t k = 0; k < classes->n; k++)
        TRY(gf_official_name_class(err, o, k, gf_string_list_get(classes, k), strlen(gf_string_list_get(classes, k))));
    return GLOFND_OK;
}

/* Position of a class, which may be named anywhere in the list; -1: not there. Lists are short. */
static int64_t class_of(const gf_string_list *classes, const char *name) {
    for (int64_t k = 0; k < classes->n; k++)
        if (strcmp(gf_string_list_get(classes, k), name) == 0) return k;
    return -1;
}

/* Names the classes that `list` has, then reads the list `items`. */
static glofnd_status read_with_classes(gf_error *err, gf_official *o, const char *list, const char *items, line_reader read) {
    gf_string_list classes = {0};
    glofnd_status status = gf_official_lines(err, o, list, &classes);
    if (status == GLOFND_OK) status = name_all(err, o, &classes);
    if (status == GLOFND_OK) status = read_list(err, o, items, &classes, read);
    gf_string_list_free(&classes);
    return status;
}

/* ----- FGVC Aircraft: "0034309 DC-3", image and variant; the variant may have spaces ----- */

static glofnd_status aircraft_line(gf_error *err, gf_official *o, char *line, const gf_string_list *classes) {
    char *word[2], path[LINE + 32];
    const int words = gf_official_words(line, word, 2);
    const int64_t label = words == 2 ? class_of(classes, word[1]) : -1;
    if (label < 0) return bad_line(err, o, words == 2 ? word[1] : line, "IMAGE VARIANT, the variant one of variants.txt");
    snprintf(path, sizeof path, "images/%s.jpg", word[0]);
    return gf_official_add(err, o, path, label);
}

glofnd_status gf_read_aircraft(gf_error *err, gf_official *o) {
    char list[64];
    snprintf(list, sizeof list, "images_variant_%.20s.txt", o->split);
    return read_with_classes(err, o, "variants.txt", list, aircraft_line);
}

/* ----- DTD, Food-101: "banded/banded_0004.jpg", "apple_pie/1005649": the class is the folder ----- */

static glofnd_status folder_line(gf_error *err, gf_official *o, char *line, const gf_string_list *classes) {
    char path[LINE + 32], name[LINE];
    const char *slash = strchr(line, '/');
    snprintf(name, sizeof name, "%.*s", slash ? (int)(slash - line) : 0, line);
    const int64_t label = slash ? gf_string_list_find(classes, name) : -1;
    if (label < 0) return bad_line(err, o, line, "CLASS/IMAGE, the class a folder of images/");
    const char *dot = strrchr(slash, '.');
    snprintf(path, sizeof path, "images/%s%s", line, dot ? "" : ".jpg");
    return gf_official_add(err, o, path, label);
}

static glofnd_status read_folder_lists(gf_error *err, gf_official *o, const char *const *lists) {
    gf_string_list classes = {0};
    glofnd_status status = gf_official_folders(err, o, "images", &classes);
    if (status == GLOFND_OK) status = name_all(err, o, &classes);
    for (; *lists && status == GLOFND_OK; lists++) status = read_list(err, o, *lists, &classes, folder_line);
    gf_string_list_free(&classes);
    return status;
}

glofnd_status gf_read_dtd(gf_error *err, gf_official *o) {
    const int both = strcmp(o->split, "trainval") == 0, k = (int)o->partition;
    char first[64], second[64];
    snprintf(first, sizeof first, "labels/%.20s%d.txt", both ? "train" : o->split, k);
    snprintf(second, sizeof second, "labels/val%d.txt", k);
    return read_folder_lists(err, o, (const char *const[]){first, both ? second : NULL, NULL});
}

glofnd_status gf_read_food101(gf_error *err, gf_official *o) {
    char list[64];
    snprintf(list, sizeof list, "meta/%.20s.txt", o->split);
    return read_folder_lists(err, o, (const char *const[]){list, NULL});
}

/* ----- SUN397: ClassName.txt has "/a/abbey"; partitions have "/a/abbey/sun_x.jpg" ----- */

static glofnd_status sun_line(gf_error *err, gf_official *o, char *line, const gf_string_list *classes) {
    const char *path = line + strspn(line, "/"), *last = strrchr(line, '/');
    char name[LINE];
    snprintf(name, sizeof name, "%.*s", last ? (int)(last - line) : 0, line);
    const int64_t label = class_of(classes, name);
    if (label < 0) return bad_line(err, o, line, "/LETTER/CLASS/IMAGE, the class one of ClassName.txt");
    return gf_official_add(err, o, path, label);
}

/* "/a/apse/indoor" is the class "apse/indoor". */
static glofnd_status sun_names(gf_error *err, gf_official *o, const gf_string_list *classes) {
    for (int64_t k = 0; k < classes->n; k++) {
        const char *name = gf_string_list_get(classes, k);
        FAIL_IF(err, name[0] != '/' || !name[1] || name[2] != '/' || !name[3], GLOFND_E_FORMAT,
                "'%.200s/ClassName.txt' has '%.100s'; expected /LETTER/CLASS", o->root, name);
        TRY(gf_official_name_class(err, o, k, name + 3, strlen(name + 3)));
        if (strcmp(o->split, "all") == 0) TRY(gf_official_add_folder(err, o, name + 1, k));
    }
    return GLOFND_OK;
}

/* Partitions.zip has its lists in no folder; many unpack it into one. */
static glofnd_status sun_list(gf_error *err, const gf_official *o, char *list, size_t bytes) {
    static const char *const folders[] = {"", "Partitions/", "../Partitions/", "../"};
    const char *name = strcmp(o->split, "test") == 0 ? "Testing" : "Training";
    for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
        snprintf(list, bytes, "%s%s_%02d.txt", folders[k], name, (int)o->partition);
        if (gf_official_has(o, list)) return GLOFND_OK;
    }
    GF_FAIL(
        err, GLOFND_E_IO,
        "'%.200s' has no %s_%02d.txt; unpack Partitions.zip there, or take all images with ?split=all (they have no test split)",
        o->root, name, (int)o->partition);
}

glofnd_status gf_read_sun397(gf_error *err, gf_official *o) {
    gf_string_list classes = {0};
    char list[64];
    glofnd_status status = gf_official_lines(err, o, "ClassName.txt", &classes);
    if (status == GLOFND_OK) status = sun_names(err, o, &classes);
    if (status == GLOFND_OK && strcmp(o->split, "all") != 0) {
        status = sun_list(err, o, list, sizeof list);
        if (status == GLOFND_OK) status = read_list(err, o, list, &classes, sun_line);
    }
    gf_string_list_free(&classes);
    return status;
}

/* ===== Pascal VOC 2007: several classes per image =====
 *
 * ImageSets/Main/CLASS_SPLIT.txt says of every image of a split 1 (has the class), -1 (has not) or 0 (difficult: not counted). */

static const char *const voc_names[] = {"aeroplane", "bicycle", "bird",  "boat",        "bottle",      "bus",       "car",
                                        "cat",       "chair",   "cow",   "dog",         "horse",       "motorbike", "person",
                                        "sheep",     "sofa",    "train", "diningtable", "pottedplant", "tvmonitor"};

enum { CLASSES = sizeof voc_names / sizeof *voc_names };
_Static_assert(CLASSES == 20, "classes of VOC");

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Lines of a class: the images of the split in the same order, "000005 -1". */
static glofnd_status mark_class(gf_error *err, gf_official *o, int c, const char *list, const gf_string_list *images,
                                const gf_string_list *lines) {
    FAIL_IF(err, lines->n != images->n, GLOFND_E_FORMAT, "'%.200s/%s' has %lld lines; the split has %lld images", o->root, list,
            (long long)lines->n, (long long)images->n);
    for (int64_t i = 0; i < lines->n; i++) {
        char line[256], *word[2];
        snprintf(line, sizeof line, "%.255s", gf_string_list_get(lines, i));
        const int words = gf_official_words(line, word, 2);
        FAIL_IF(err, words < 2 || strcmp(word[0], gf_string_list_get(images, i)) != 0, GLOFND_E_FORMAT,
                "'%.200s/%s': line %lld is not about image %.60s", o->root, list, (long long)i + 1,
                gf_string_list_get(images, i));
        const int yes = strcmp(word[1], "1") == 0, difficult = strcmp(word[1], "0") == 0;
        FAIL_IF(err, !yes && !difficult && strcmp(word[1], "-1") != 0, GLOFND_E_FORMAT,
                "'%.200s/%s': line %lld has '%.30s'; expected 1, 0 or -1", o->root, list, (long long)i + 1, word[1]);
        o->several[i * CLASSES + c] = yes ? GF_LABEL_PRESENT : difficult ? GF_LABEL_DIFFICULT : GF_LABEL_ABSENT;
    }
    return GLOFND_OK;
}

static glofnd_status read_lists(gf_error *err, gf_official *o, gf_string_list *images, gf_string_list *lines) {
    const char *sorted[CLASSES];
    char list[128];
    memcpy(sorted, voc_names, sizeof voc_names);
    qsort(sorted, CLASSES, sizeof *sorted, by_name);
    snprintf(list, sizeof list, "ImageSets/Main/%.20s.txt", o->split);
    TRY(gf_official_lines(err, o, list, images));
    /* Images of the split, in the order of its list. */
    char path[400];
    for (int64_t i = 0; i < images->n; i++) {
        snprintf(path, sizeof path, "JPEGImages/%.300s.jpg", gf_string_list_get(images, i));
        TRY(gf_official_add(err, o, path, -1));
    }
    o->several = calloc((size_t)images->n + 1, CLASSES);
    FAIL_IF(err, !o->several, GLOFND_E_MEMORY, "no memory for the labels of %lld images", (long long)images->n);
    for (int c = 0; c < CLASSES; c++) {
        TRY(gf_official_name_class(err, o, c, sorted[c], strlen(sorted[c])));
        snprintf(list, sizeof list, "ImageSets/Main/%s_%.20s.txt", sorted[c], o->split);
        gf_string_list_free(lines);
        TRY(gf_official_lines(err, o, list, lines));
        TRY(mark_class(err, o, c, list, images, lines));
    }
    /* An image of exactly one class has it as its label. */
    int64_t without = 0;
    for (int64_t i = 0; i < o->paths.n; i++) {
        int count = 0, last = -1;
        for (int c = 0; c < CLASSES; c++)
            if (o->several[i * CLASSES + c] != GF_LABEL_ABSENT) count++, last = c;
        o->label[i] = count == 1 ? last : -1;
        without += count != 1;
    }
    gf_dataset_add_note(o->data,
                        "%lld of %lld images have several classes: they have no single label, as knn and linear evaluation need; "
                        "eval transfer scores all of them by 11-point mAP",
                        (long long)without, (long long)o->paths.n);
    return GLOFND_OK;
}

glofnd_status gf_read_voc2007(gf_error *err, gf_official *o) {
    gf_string_list images = {0}, lines = {0};
    const glofnd_status status = read_lists(err, o, &images, &lines);
    gf_string_list_free(&images);
    gf_string_list_free(&lines);
    return status;
}

/* ===== layouts with MATLAB files: Oxford 102 Flowers, Stanford Cars ===== */

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

/* ===== arrays of pixels: STL-10 (binary files), SVHN (MATLAB files of cropped digits) =====
 *
 * Both store an image as planes R G B, columns first: [3][x][y]. STL-10's stay in the file, SVHN's, which are packed, in memory.
 */

#define STL_SIDE 96
#define SVHN_SIDE 32
#define STL_IMAGE ((uint64_t)3 * STL_SIDE * STL_SIDE)

glofnd_status gf_official_pixels(gf_error *err, const gf_official *o, int64_t i, gf_sample *out) {
    const int side = o->side;
    const size_t bytes = (size_t)3 * (size_t)side * (size_t)side;
    const uint8_t *planes;
    TRY(gf_image_resize(err, &out->image, side, side));
    if (o->pixels) planes = o->pixels + (size_t)i * bytes;
    else {
        TRY(gf_file_reserve(err, o->split, bytes, &out->encoded, &out->encoded_capacity));
        TRY(gf_file_read_at(err, o->fd, gf_string_list_get(&o->paths, i), (uint64_t)i * bytes, out->encoded, bytes));
        planes = out->encoded;
    }
    for (int c = 0; c < 3; c++)
        for (int x = 0; x < side; x++)
            for (int y = 0; y < side; y++) out->image.rgb[3 * (y * side + x) + c] = planes[(c * side + x) * side + y];
    return GLOFND_OK;
}

static glofnd_status add_numbered(gf_error *err, gf_official *o, int64_t i, int64_t label) {
    char name[64];
    snprintf(name, sizeof name, "%.20s/%lld", o->split, (long long)i);
    return gf_official_add(err, o, name, label);
}

/* ----- STL-10: SPLIT_X.bin, SPLIT_y.bin with labels from 1, class_names.txt ----- */

static glofnd_status stl_labels(gf_error *err, gf_official *o, int64_t n) {
    char path[PATH_MAX];
    uint8_t *labels = NULL;
    size_t capacity = 0, size = 0;
    const int has = strcmp(o->split, "unlabeled") != 0;
    TRY(gf_official_path(err, o, path, "%s_y.bin", o->split));
    glofnd_status status = has ? gf_file_read(err, path, 1 << 24, &labels, &capacity, &size) : GLOFND_OK;
    if (status == GLOFND_OK && has && size != (size_t)n)
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' has %llu labels for %lld images", path, (unsigned long long)size,
                         (long long)n);
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        if (has && (labels[i] < 1 || labels[i] > o->known->classes))
            status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s': label %d of image %lld; expected 1 to %d", path, labels[i],
                             (long long)i, (int)o->known->classes);
        else status = add_numbered(err, o, i, has ? labels[i] - 1 : -1);
    }
    free(labels);
    return status;
}

glofnd_status gf_read_stl10(gf_error *err, gf_official *o) {
    char path[PATH_MAX];
    gf_file_stamp stamp;
    gf_string_list names = {0};
    TRY(gf_official_path(err, o, path, "%s_X.bin", o->split));
    TRY(gf_file_open(err, path, &o->fd, &stamp));
    FAIL_IF(err, stamp.size == 0 || stamp.size % STL_IMAGE || stamp.size / STL_IMAGE > INT32_MAX, GLOFND_E_FORMAT,
            "'%.300s' has %llu bytes; expected images of %llu bytes each", path, (unsigned long long)stamp.size,
            (unsigned long long)STL_IMAGE);
    o->side = STL_SIDE;
    TRY(stl_labels(err, o, (int64_t)(stamp.size / STL_IMAGE)));
    if (strcmp(o->split, "unlabeled") == 0) o->expected_classes = 0;
    if (!gf_official_has(o, "class_names.txt")) return GLOFND_OK;
    glofnd_status status = gf_official_lines(err, o, "class_names.txt", &names);
    for (int64_t k = 0; k < names.n && k < o->known->classes && status == GLOFND_OK && o->expected_classes; k++)
        status = gf_official_name_class(err, o, k, gf_string_list_get(&names, k), strlen(gf_string_list_get(&names, k)));
    gf_string_list_free(&names);
    return status;
}

/* ----- SVHN, format 2: SPLIT_32x32.mat with X [32][32][3][n], columns first, and y [n], where 10 is the digit 0 ----- */

glofnd_status gf_read_svhn(gf_error *err, gf_official *o) {
    char path[PATH_MAX], digit[2] = "0";
    TRY(gf_official_path(err, o, path, "%s_32x32.mat", o->split));
    o->mat = calloc(1, sizeof *o->mat);
    FAIL_IF(err, !o->mat, GLOFND_E_MEMORY, "no memory to read '%.300s'", path);
    TRY(gf_mat_read(err, path, o->mat));
    const gf_mat_array *x = gf_mat_find(o->mat, "X"), *y = gf_mat_find(o->mat, "y");
    FAIL_IF(err,
            !x || !y || x->kind != GF_MAT_NUMBERS || x->element_bytes != 1 || x->rank != 4 || x->dim[0] != SVHN_SIDE ||
                x->dim[1] != SVHN_SIDE || x->dim[2] != 3 || x->dim[3] != y->n || y->n < 1,
            GLOFND_E_FORMAT, "'%.300s' has no images X [32][32][3][n] of bytes with labels y [n]; cropped digits are expected",
            path);
    for (int64_t i = 0; i < y->n; i++) {
        int64_t label = 0;
        FAIL_IF(err, !gf_mat_integer(y, i, 0, 10, &label), GLOFND_E_FORMAT, "'%.300s': the label of image %lld is no digit", path,
                (long long)i);
        TRY(add_numbered(err, o, i, label % 10));
    }
    o->pixels = x->data;
    o->side = SVHN_SIDE;
    for (int k = 0; k < 10; k++) {
        digit[0] = (char)('0' + k);
        TRY(gf_official_name_class(err, o, k, digit, 1));
    }
    return GLOFND_OK;
}
