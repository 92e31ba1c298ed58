/* row_labels.c - see row_labels.h. */
#include "embeddings/row_labels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/file.h"
#include "io/npy.h"
#include "util/array.h"
#include "util/text.h"

#define NAMES_MAX ((int64_t)1 << 32) /* bytes of a file of names */

glofnd_status gf_embeddings_load_set(gf_error *err, gf_embedding_set *set, int64_t *n, int64_t *dim, float **x) {
    *n = gf_embeddings_rows(set), *dim = gf_embeddings_dim(set);
    *x = malloc((size_t)*n * (size_t)*dim * sizeof **x);
    FAIL_IF(err, !*x, GLOFND_E_MEMORY, "no memory for %lld x %lld float32", (long long)*n, (long long)*dim);
    return gf_embeddings_read(err, set, 0, *n, *x);
}

glofnd_status gf_embeddings_load(gf_error *err, const char *path, const char *tensor, int64_t *n, int64_t *dim, float **x) {
    const gf_embedding_input in = {.path = &path, .paths = 1, .tensor = tensor};
    gf_embedding_set *set = NULL;
    TRY(gf_embeddings_open(err, &in, &set));
    const glofnd_status status = gf_embeddings_load_set(err, set, n, dim, x);
    gf_embeddings_close(set);
    return status;
}

/* ----- labels ----- */

static glofnd_status labels_of_array(gf_error *err, const char *path, const gf_npy *a, int64_t n, int32_t **label) {
    FAIL_IF(err, a->type != GF_NPY_I4 && a->type != GF_NPY_I8 && a->type != GF_NPY_U1, GLOFND_E_FORMAT,
            "%.300s: elements are %s; expected int32, int64 or uint8: save y.astype(\"int64\")", path, gf_npy_type_name(a->type));
    FAIL_IF(err, a->rank != 1 || a->shape[0] != n, GLOFND_E_ARGUMENT,
            "%.300s: %lld labels with %d ax%s for %lld embeddings; expected one axis, and one label per row", path,
            (long long)a->count, a->rank, a->rank == 1 ? "is" : "es", (long long)n);
    *label = malloc((size_t)n * sizeof **label);
    FAIL_IF(err, !*label, GLOFND_E_MEMORY, "no memory for labels");
    for (int64_t i = 0; i < n; i++) {
        const int64_t y = gf_npy_i64(a, i);
        FAIL_IF(err, y > INT32_MAX, GLOFND_E_FORMAT, "%.300s: label %lld of row %lld does not fit into 31 bits", path,
                (long long)y, (long long)i);
        (*label)[i] = y < 0 ? -1 : (int32_t)y;
    }
    return GLOFND_OK;
}

/* 0: a text is not an integer. */
static int are_integers(const gf_string_list *texts) {
    int64_t y;
    for (int64_t i = 0; i < texts->n; i++)
        if (!gf_label_read(gf_string_list_get(texts, i), &y)) return 0;
    return 1;
}

/* Each name is one cell of a table. */
static void clean_names(gf_string_list *names) {
    for (int64_t i = 0; i < names->n; i++) gf_utf8_clean(names->text + names->at[i], ' ');
}

/* *classes: their names, by number. */
static glofnd_status number_classes(gf_error *err, const gf_string_list *texts, int32_t *label, gf_string_list *classes) {
    gf_string_list class = {0};
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < texts->n && status == GLOFND_OK; i++) {
        const char *text = gf_string_list_get(texts, i);
        if (gf_is_class_name(text)) status = gf_string_list_add(err, &class, text, strlen(text));
    }
    if (status == GLOFND_OK) status = gf_string_list_sort(err, &class);
    if (status == GLOFND_OK) gf_string_list_unique(&class);
    for (int64_t i = 0; i < texts->n && status == GLOFND_OK; i++)
        label[i] = (int32_t)gf_string_list_find(&class, gf_string_list_get(texts, i));
    if (status == GLOFND_OK) clean_names(&class);
    if (status == GLOFND_OK) *classes = class;
    else gf_string_list_free(&class);
    return status;
}

glofnd_status gf_row_labels_of_texts(gf_error *err, const gf_string_list *texts, int64_t n, int32_t **label,
                                     gf_string_list *classes) {
    FAIL_IF(err, texts->n != n, GLOFND_E_ARGUMENT, "%lld labels for %lld embeddings", (long long)texts->n, (long long)n);
    *label = malloc((size_t)(n + 1) * sizeof **label);
    FAIL_IF(err, !*label, GLOFND_E_MEMORY, "no memory for labels");
    if (!are_integers(texts)) return number_classes(err, texts, *label, classes);
    for (int64_t i = 0; i < n; i++) {
        int64_t y;
        gf_label_read(gf_string_list_get(texts, i), &y);
        FAIL_IF(err, y > INT32_MAX, GLOFND_E_FORMAT, "label %lld of row %lld does not fit into 31 bits", (long long)y,
                (long long)i);
        (*label)[i] = y < 0 ? -1 : (int32_t)y;
    }
    return GLOFND_OK;
}

glofnd_status gf_row_labels_read(gf_error *err, const char *path, const char *column, int64_t n, int32_t **label,
                                 gf_string_list *classes) {
    if (gf_labels_have_columns(path)) {
        gf_string_list texts = {0};
        glofnd_status status = gf_labels_of_column(err, path, column, &texts);
        if (status == GLOFND_OK) status = gf_row_labels_of_texts(err, &texts, n, label, classes);
        gf_string_list_free(&texts);
        return status;
    }
    gf_npy a = {0};
    TRY(gf_npy_read(err, path, &a));
    const glofnd_status status = labels_of_array(err, path, &a, n, label);
    gf_npy_free(&a);
    return status;
}

glofnd_status gf_row_classes_read(gf_error *err, const char *path, const int32_t *label, int64_t n, gf_string_list *classes) {
    uint8_t *text = NULL;
    size_t capacity = 0, bytes = 0;
    glofnd_status status = gf_file_read_text(err, path, GF_LIST_BYTES_MAX, &text, &capacity, &bytes);
    for (size_t at = 0; status == GLOFND_OK && at < bytes;) {
        const uint8_t *stop = memchr(text + at, '\n', bytes - at);
        const size_t length = stop ? (size_t)(stop - text) - at : bytes - at;
        status = gf_string_list_add(err, classes, (const char *)text + at, length);
        at += length + 1;
    }
    free(text);
    clean_names(classes);
    for (int64_t i = 0; status == GLOFND_OK && label && i < n; i++)
        FAIL_IF(err, label[i] >= classes->n, GLOFND_E_FORMAT, "'%.300s' has %lld names of classes; a label is %d", path,
                (long long)classes->n, (int)label[i]);
    return status;
}

/* ----- names ----- */

static glofnd_status read_text(gf_error *err, const char *path, char **text, size_t *bytes) {
    FILE *f = gf_stream_open(path, "r");
    FAIL_IF(err, !f, GLOFND_E_IO, "%.300s: cannot be opened: %s", path, strerror(errno));
    char *at = NULL;
    size_t used = 0, capacity = 0, got;
    do {
        if ((int64_t)used > NAMES_MAX || !gf_grow(&at, &capacity, used + 65536, 1)) {
            free(at);
            fclose(f);
            GF_FAIL(err, GLOFND_E_MEMORY, "%.300s: too large for a file of names", path);
        }
        got = fread(at + used, 1, 65535, f);
        used += got;
    } while (got > 0);
    const int failed = ferror(f);
    fclose(f);
    at[used] = 0;
    *text = at, *bytes = used;
    FAIL_IF(err, failed, GLOFND_E_IO, "%.300s: cannot be read", path);
    return GLOFND_OK;
}

/* Terminates every line with 0. A mark of UTF-8, which Windows puts in front, is no part of the first name. */
static glofnd_status split_names(gf_error *err, const char *path, char *text, size_t bytes, int64_t n, const char **name) {
    int64_t lines = 0;
    FAIL_IF(err, bytes == 0, GLOFND_E_ARGUMENT, "%.300s: the file is empty; expected one name per line for %lld embeddings", path,
            (long long)n);
    FAIL_IF(err, memchr(text, 0, bytes) != NULL, GLOFND_E_FORMAT, "%.300s: not a text file: it has a zero byte", path);
    if (bytes && text[bytes - 1] == '\n') text[--bytes] = 0;
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (char *at = text + mark; at <= text + bytes; lines++) {
        char *stop = memchr(at, '\n', (size_t)(text + bytes - at));
        if (!stop) stop = text + bytes;
        *stop = 0;
        if (stop > at && stop[-1] == '\r') stop[-1] = 0;
        if (lines < n) name[lines] = at;
        at = stop + 1;
    }
    FAIL_IF(err, lines != n, GLOFND_E_ARGUMENT, "%.300s: %lld name%s for %lld embeddings; expected one name per line and row",
            path, (long long)lines, lines == 1 ? "" : "s", (long long)n);
    return GLOFND_OK;
}

glofnd_status gf_row_names_of_list(gf_error *err, gf_string_list *list, int64_t n, const char ***name, char **text) {
    FAIL_IF(err, list->n != n, GLOFND_E_ARGUMENT, "%lld names for %lld embeddings", (long long)list->n, (long long)n);
    *name = malloc((size_t)n * sizeof **name);
    FAIL_IF(err, !*name, GLOFND_E_MEMORY, "no memory for names");
    for (int64_t i = 0; i < n; i++) (*name)[i] = list->text + list->at[i];
    *text = list->text;
    list->text = NULL;
    return GLOFND_OK;
}

glofnd_status gf_row_names_read(gf_error *err, const char *path, const char *id, int64_t n, const char ***name, char **text) {
    if (gf_names_have_columns(path, id)) {
        gf_string_list names = {0};
        glofnd_status status = gf_names_of_column(err, path, id, &names);
        if (status == GLOFND_OK) status = gf_row_names_of_list(err, &names, n, name, text);
        gf_string_list_free(&names);
        return status;
    }
    size_t bytes = 0;
    TRY(read_text(err, path, text, &bytes));
    *name = malloc((size_t)n * sizeof **name);
    FAIL_IF(err, !*name, GLOFND_E_MEMORY, "no memory for names");
    return split_names(err, path, *text, bytes, n, *name);
}
