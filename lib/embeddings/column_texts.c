/* column_texts.c - names or labels alone: a column of Parquet files or tables that hold no embeddings; see embedding_set.h. */
#include <string.h>

#include "embeddings/embedding_set.h"
#include "io/file.h"

static int ends_with(const char *path, const char *end) {
    const size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0;
}

static int is_table(const char *path) { return ends_with(path, ".csv") || ends_with(path, ".tsv"); }

static int is_parquet(const char *path) { return gf_is_folder(path) || ends_with(path, ".parquet"); }

int gf_labels_have_columns(const char *path) { return is_parquet(path) || is_table(path); }

int gf_names_have_columns(const char *path, const char *id) { return is_parquet(path) || (id && is_table(path)); }

static glofnd_status texts_of_files(gf_error *err, const char *path, const char *column, int null_is_empty, gf_string_list *out) {
    const gf_embedding_input in = {.path = &path, .paths = 1};
    gf_string_list files = {0};
    glofnd_status status = gf_embedding_paths(err, &in, &files);
    for (int64_t i = 0; i < files.n && status == GLOFND_OK; i++) {
        const char *file = gf_string_list_get(&files, i);
        status = is_table(file) ? gf_column_of_table(err, file, column, out)
                                : gf_column_of_parquet(err, file, column, null_is_empty, out);
    }
    gf_string_list_free(&files);
    return status;
}

glofnd_status gf_names_of_column(gf_error *err, const char *path, const char *id, gf_string_list *out) {
    FAIL_IF(err, !id, GLOFND_E_ARGUMENT, "'%.300s' has columns; choose the column of names by --id", path);
    return texts_of_files(err, path, id, 0, out);
}

glofnd_status gf_labels_of_column(gf_error *err, const char *path, const char *column, gf_string_list *out) {
    FAIL_IF(err, !column, GLOFND_E_ARGUMENT, "'%.300s' has columns; choose the column of labels by --label-column", path);
    return texts_of_files(err, path, column, 1, out);
}
