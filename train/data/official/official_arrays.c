/* official_arrays.c - datasets that are arrays of pixels: STL-10 (binary files), SVHN (MATLAB files of cropped digits).
 *
 * Both store an image as planes R G B, columns first: [3][x][y]. STL-10's stay in the file, SVHN's, which are packed, in memory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/official/mat5.h"
#include "data/official/official.h"
#include "io/file.h"

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

static glofnd_status svhn_arrays(gf_error *err, gf_official *o, const char *path) {
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
    return GLOFND_OK;
}

glofnd_status gf_read_svhn(gf_error *err, gf_official *o) {
    char path[PATH_MAX], digit[2] = "0";
    TRY(gf_official_path(err, o, path, "%s_32x32.mat", o->split));
    o->mat = calloc(1, sizeof *o->mat);
    FAIL_IF(err, !o->mat, GLOFND_E_MEMORY, "no memory to read '%.300s'", path);
    TRY(gf_mat_read(err, path, o->mat));
    TRY(svhn_arrays(err, o, path));
    for (int k = 0; k < 10; k++) {
        digit[0] = (char)('0' + k);
        TRY(gf_official_name_class(err, o, k, digit, 1));
    }
    return GLOFND_OK;
}
