/* official_layouts.c - the layouts of published datasets that are class folders, text lists, MATLAB files or arrays of pixels. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/official/official.h"
#include "io/file.h"

/* ----- Caltech-101: a folder per class; BACKGROUND_Google is none ----- */

glofnd_status gf_read_caltech101(gf_error *err, gf_official *o) {
    gf_string_list *folders = &o->list[0];
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

/* ===== layouts with plain text lists: Oxford-IIIT Pet, FGVC Aircraft, DTD, Food-101, SUN397 ===== */

#define LINE 1024

typedef glofnd_status (*line_reader)(gf_error *err, gf_official *o, char *line);

/* Has every line of a list below the root read; classes: o->list[0]. */
static glofnd_status read_list(gf_error *err, gf_official *o, const char *name, line_reader read) {
    gf_string_list *lines = &o->list[1];
    char line[LINE];
    gf_string_list_free(lines);
    TRY(gf_official_lines(err, o, name, lines));
    for (int64_t i = 0; i < lines->n; i++) {
        const int n = snprintf(line, sizeof line, "%s", gf_string_list_get(lines, i));
        FAIL_IF(err, n < 0 || n >= LINE, GLOFND_E_FORMAT, "'%.200s/%s': line %lld is longer than %d bytes", o->root, name,
                (long long)i + 1, LINE - 1);
        TRY(read(err, o, line));
    }
    return GLOFND_OK;
}

static glofnd_status bad_line(gf_error *err, const gf_official *o, const char *line, const char *expected) {
    GF_FAIL(err, GLOFND_E_FORMAT, "'%.200s': a line of the list of split %s is '%.100s'; expected %s", o->root, o->split, line,
            expected);
}

/* ----- Oxford-IIIT Pet: "Abyssinian_100 1 1 1", name and class from 1 ----- */

static glofnd_status pets_line(gf_error *err, gf_official *o, char *line) {
    char *word[3], path[LINE + 32], *end;
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
    return read_list(err, o, list, pets_line);
}

/* ----- classes in a list of their own, in its order ----- */

/* Position of a class, which may be named anywhere in the list o->list[0]; -1: not there. Lists are short. */
static int64_t class_of(const gf_official *o, const char *name) {
    for (int64_t k = 0; k < o->list[0].n; k++)
        if (strcmp(gf_string_list_get(&o->list[0], k), name) == 0) return k;
    return -1;
}

/* ----- FGVC Aircraft: "0034309 DC-3", image and variant; the variant may have spaces ----- */

static glofnd_status aircraft_line(gf_error *err, gf_official *o, char *line) {
    char *word[2], path[LINE + 32];
    const int words = gf_official_words(line, word, 2);
    const int64_t label = words == 2 ? class_of(o, word[1]) : -1;
    if (label < 0) return bad_line(err, o, words == 2 ? word[1] : line, "IMAGE VARIANT, the variant one of variants.txt");
    snprintf(path, sizeof path, "images/%s.jpg", word[0]);
    return gf_official_add(err, o, path, label);
}

glofnd_status gf_read_aircraft(gf_error *err, gf_official *o) {
    char list[64];
    snprintf(list, sizeof list, "images_variant_%.20s.txt", o->split);
    TRY(gf_official_lines(err, o, "variants.txt", &o->list[0]));
    TRY(gf_official_name_all(err, o, &o->list[0]));
    return read_list(err, o, list, aircraft_line);
}

/* ----- DTD, Food-101: "banded/banded_0004.jpg", "apple_pie/1005649": the class is the folder ----- */

static glofnd_status folder_line(gf_error *err, gf_official *o, char *line) {
    char path[LINE + 32], name[LINE];
    const char *slash = strchr(line, '/');
    snprintf(name, sizeof name, "%.*s", slash ? (int)(slash - line) : 0, line);
    const int64_t label = slash ? gf_string_list_find(&o->list[0], name) : -1;
    if (label < 0) return bad_line(err, o, line, "CLASS/IMAGE, the class a folder of images/");
    const char *dot = strrchr(slash, '.');
    snprintf(path, sizeof path, "images/%s%s", line, dot ? "" : ".jpg");
    return gf_official_add(err, o, path, label);
}

glofnd_status gf_read_dtd(gf_error *err, gf_official *o) {
    const int both = strcmp(o->split, "trainval") == 0, k = (int)o->partition;
    char list[64];
    TRY(gf_official_folders(err, o, "images", &o->list[0]));
    TRY(gf_official_name_all(err, o, &o->list[0]));
    snprintf(list, sizeof list, "labels/%.20s%d.txt", both ? "train" : o->split, k);
    TRY(read_list(err, o, list, folder_line));
    snprintf(list, sizeof list, "labels/val%d.txt", k);
    return both ? read_list(err, o, list, folder_line) : GLOFND_OK;
}

glofnd_status gf_read_food101(gf_error *err, gf_official *o) {
    char list[64];
    snprintf(list, sizeof list, "meta/%.20s.txt", o->split);
    TRY(gf_official_folders(err, o, "images", &o->list[0]));
    TRY(gf_official_name_all(err, o, &o->list[0]));
    return read_list(err, o, list, folder_line);
}

/* ----- SUN397: ClassName.txt has "/a/abbey"; partitions have "/a/abbey/sun_x.jpg" ----- */

static glofnd_status sun_line(gf_error *err, gf_official *o, char *line) {
    const char *path = line + strspn(line, "/"), *last = strrchr(line, '/');
    char name[LINE];
    snprintf(name, sizeof name, "%.*s", last ? (int)(last - line) : 0, line);
    const int64_t label = class_of(o, name);
    if (label < 0) return bad_line(err, o, line, "/LETTER/CLASS/IMAGE, the class one of ClassName.txt");
    return gf_official_add(err, o, path, label);
}

glofnd_status gf_read_sun397(gf_error *err, gf_official *o) {
    static const char *const folders[] = {"", "Partitions/", "../Partitions/", "../"}; /* many unpack Partitions.zip into one */
    const gf_string_list *classes = &o->list[0];
    const int all = strcmp(o->split, "all") == 0;
    TRY(gf_official_lines(err, o, "ClassName.txt", &o->list[0]));
    for (int64_t k = 0; k < classes->n; k++) {
        const char *name = gf_string_list_get(classes, k); /* "/a/apse/indoor" is the class "apse/indoor" */
        FAIL_IF(err, name[0] != '/' || !name[1] || name[2] != '/' || !name[3], GLOFND_E_FORMAT,
                "'%.200s/ClassName.txt' has '%.100s'; expected /LETTER/CLASS", o->root, name);
        TRY(gf_official_name_class(err, o, k, name + 3, strlen(name + 3)));
        if (all) TRY(gf_official_add_folder(err, o, name + 1, k));
    }
    if (all) return GLOFND_OK;
    const char *name = strcmp(o->split, "test") == 0 ? "Testing" : "Training";
    for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
        char list[64];
        snprintf(list, sizeof list, "%s%s_%02d.txt", folders[k], name, (int)o->partition);
        if (gf_official_has(o, list)) return read_list(err, o, list, sun_line);
    }
    GF_FAIL(
        err, GLOFND_E_IO,
        "'%.200s' has no %s_%02d.txt; unpack Partitions.zip there, or take all images with ?split=all (they have no test split)",
        o->root, name, (int)o->partition);
}

/* ===== layouts with MATLAB files: Oxford 102 Flowers, Stanford Cars ===== */

/* The variable of a file that was read to o->mat[which]. */
static glofnd_status find_array(gf_error *err, const gf_official *o, int which, const char *file, const char *name,
                                gf_mat_kind kind, const gf_mat_array **out) {
    *out = gf_mat_find(&o->mat[which], name);
    FAIL_IF(err, !*out || (*out)->kind != kind, GLOFND_E_FORMAT, "'%.200s/%s' has no variable %s of the expected kind", o->root,
            file, name);
    return GLOFND_OK;
}

/* ----- Oxford 102 Flowers: labels from 1 by image number, and the image numbers of each split ----- */

static glofnd_status flowers_set(gf_error *err, gf_official *o, const char *name, const gf_mat_array *labels) {
    const gf_mat_array *ids;
    char path[64];
    TRY(find_array(err, o, 0, "setid.mat", name, GF_MAT_NUMBERS, &ids));
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

glofnd_status gf_read_flowers(gf_error *err, gf_official *o) {
    const gf_mat_array *labels;
    const int both = strcmp(o->split, "trainval") == 0;
    TRY(gf_official_mat(err, o, 0, "setid.mat"));
    TRY(gf_official_mat(err, o, 1, "imagelabels.mat"));
    TRY(find_array(err, o, 1, "imagelabels.mat", "labels", GF_MAT_NUMBERS, &labels));
    if (strcmp(o->split, "test") == 0) return flowers_set(err, o, "tstid", labels);
    if (both || strcmp(o->split, "train") == 0) TRY(flowers_set(err, o, "trnid", labels));
    return both || strcmp(o->split, "val") == 0 ? flowers_set(err, o, "valid", labels) : GLOFND_OK;
}

/* ----- Stanford Cars: struct arrays with file name and class from 1, in one file for both splits or in two ----- */

/* The first of these that is there; the last one if none is. */
static const char *first_of(const gf_official *o, const char *const *names) {
    while (names[1] && !gf_official_has(o, names[0])) names++;
    return names[0];
}

glofnd_status gf_read_cars(gf_error *err, gf_official *o) {
    static const char *const image_folders[2][3] = {{"cars_train/cars_train", "cars_train", NULL},
                                                    {"cars_test/cars_test", "cars_test", NULL}};
    static const char *const files[2][5] = {{"devkit/cars_train_annos.mat", "car_devkit/devkit/cars_train_annos.mat",
                                             "cars_train_annos.mat", NULL},
                                            {"cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat",
                                             "car_devkit/devkit/cars_test_annos_withlabels.mat", "devkit/cars_test_annos.mat",
                                             NULL}};
    static const char *const metas[] = {"devkit/cars_meta.mat", "car_devkit/devkit/cars_meta.mat", "cars_meta.mat", NULL};
    const int test = strcmp(o->split, "test") == 0, one_file = gf_official_has(o, "cars_annos.mat");
    const char *file = one_file ? "cars_annos.mat" : first_of(o, files[test]), *meta = one_file ? file : first_of(o, metas);
    const char *images = one_file ? "" : first_of(o, image_folders[test]), *field = one_file ? "relative_im_path" : "fname";
    const gf_mat_array *a;
    char name[256], path[400];
    FAIL_IF(err, !gf_official_has(o, file), GLOFND_E_IO, "'%.200s' has no %s; cars:DIR needs %s", o->root, file, o->known->wants);
    TRY(gf_official_mat(err, o, 0, file));
    if (gf_official_has(o, meta)) TRY(gf_official_mat(err, o, 1, meta));
    TRY(find_array(err, o, 0, file, "annotations", GF_MAT_STRUCTS, &a));
    for (int64_t i = 0; i < a->n; i++) {
        int64_t label, in_test = test; /* one file for both splits: its field `test` says which an image belongs to */
        if (one_file && !gf_mat_integer(gf_mat_field(a, i, "test"), 0, 0, 1, &in_test)) in_test = -1;
        FAIL_IF(err,
                in_test < 0 || !gf_mat_integer(gf_mat_field(a, i, "class"), 0, 1, GF_CLASSES_MAX, &label) ||
                    !gf_mat_text(gf_mat_field(a, i, field), name, sizeof name),
                GLOFND_E_FORMAT, "'%.200s/%s': annotation %lld lacks class or %s%s", o->root, file, (long long)i + 1, field,
                strstr(file, "test_annos.mat") ? "; labels are in cars_test_annos_withlabels.mat" : "");
        if (in_test != test) continue;
        snprintf(path, sizeof path, "%s%s%s", images, images[0] ? "/" : "", name);
        TRY(gf_official_add(err, o, path, label - 1));
    }
    const gf_mat_array *names = gf_mat_find(&o->mat[1], "class_names");
    for (int64_t k = 0; names && names->kind == GF_MAT_CELLS && k < names->n; k++)
        if (gf_mat_text(gf_mat_cell(names, k), name, sizeof name)) TRY(gf_official_name_class(err, o, k, name, strlen(name)));
    return GLOFND_OK;
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

glofnd_status gf_read_stl10(gf_error *err, gf_official *o) {
    char path[PATH_MAX];
    gf_file_stamp stamp;
    gf_string_list *names = &o->list[0];
    TRY(gf_official_path(err, o, path, "%s_X.bin", o->split));
    TRY(gf_file_open(err, path, &o->fd, &stamp));
    FAIL_IF(err, stamp.size == 0 || stamp.size % STL_IMAGE || stamp.size / STL_IMAGE > INT32_MAX, GLOFND_E_FORMAT,
            "'%.300s' has %llu bytes; expected images of %llu bytes each", path, (unsigned long long)stamp.size,
            (unsigned long long)STL_IMAGE);
    o->side = STL_SIDE;
    const int64_t n = (int64_t)(stamp.size / STL_IMAGE);
    uint8_t *labels = NULL;
    size_t capacity = 0, size = 0;
    const int has = strcmp(o->split, "unlabeled") != 0;
    TRY(gf_official_path(err, o, path, "%s_y.bin", o->split));
    glofnd_status status = has ? gf_file_read(err, path, 1 << 24, &labels, &capacity, &size) : GLOFND_OK;
    if (status == GLOFND_OK && has && size != (size_t)n)
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' has %llu labels for %lld images", path, (unsigned long long)size,
                         (long long)n);
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++)
        if (has && (labels[i] < 1 || labels[i] > o->known->classes))
            status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s': label %d of image %lld; expected 1 to %d", path, labels[i],
                             (long long)i, (int)o->known->classes);
        else status = add_numbered(err, o, i, has ? labels[i] - 1 : -1);
    free(labels);
    TRY(status);
    if (!has) o->expected_classes = 0;
    if (!has || !gf_official_has(o, "class_names.txt")) return GLOFND_OK;
    TRY(gf_official_lines(err, o, "class_names.txt", names));
    if (names->n > o->known->classes) names->n = o->known->classes;
    return gf_official_name_all(err, o, names);
}

/* ----- SVHN, format 2: SPLIT_32x32.mat with X [32][32][3][n], columns first, and y [n], where 10 is the digit 0 ----- */

glofnd_status gf_read_svhn(gf_error *err, gf_official *o) {
    char path[PATH_MAX], digit[2] = "0";
    TRY(gf_official_path(err, o, path, "%s_32x32.mat", o->split));
    TRY(gf_mat_read(err, path, &o->mat[0]));
    const gf_mat_array *x = gf_mat_find(&o->mat[0], "X"), *y = gf_mat_find(&o->mat[0], "y");
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
