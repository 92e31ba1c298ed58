/* embedding_set.h - embeddings in one or many files, as one matrix: rows of all files, in order. Files without rows among others
 * are fine. Nothing is in memory but what is read.
 *
 *     gf_embeddings_open(err, &input, &set);                 shapes are known and equal; names too, where asked for
 *     gf_embeddings_read(err, set, first, rows, x);          any rows, as float32
 *     gf_embeddings_close(set);
 * A file is a .npy, a tensor of a .safetensors file, a list column of a Parquet file, or a table (.csv, .tsv) of numbers.
 */
#pragma once

#include "util/string_list.h"

typedef struct gf_embedding_input {
    const char *const *path; /* [paths] files; folders of them; patterns with {000..099}, {a,b}, * ? [ */
    int paths;
    const char *tensor; /* of .safetensors files; NULL: the only one with two axes */
    const char *column; /* of Parquet files and tables; NULL: the only one that fits */
    const char *id;     /* column of names in these; NULL: none, of a table its only column of text, or of an id */
    int some_names;     /* 1: where only some files have names, there are none; 0: that is an error */
    const char *label;  /* column of labels in these; NULL: none */
} gf_embedding_input;

typedef struct gf_embedding_set gf_embedding_set;

glofnd_status gf_embeddings_open(gf_error *err, const gf_embedding_input *in, gf_embedding_set **out);
void gf_embeddings_close(gf_embedding_set *s); /* NULL is fine */
int64_t gf_embeddings_rows(const gf_embedding_set *s);
int64_t gf_embeddings_dim(const gf_embedding_set *s);
int64_t gf_embeddings_files(const gf_embedding_set *s);
/* First row of a file; of number gf_embeddings_files(): all rows. */
int64_t gf_embeddings_first(const gf_embedding_set *s, int64_t file);
/* x [rows][dim]. By one thread at a time; reads several files at once. Rising rows are the fast way through Parquet files. */
glofnd_status gf_embeddings_read(gf_error *err, gf_embedding_set *s, int64_t first, int64_t rows, float *x);
/* E_ARGUMENT: a file has another size or time of change than when it was opened. */
glofnd_status gf_embeddings_check_unchanged(gf_error *err, const gf_embedding_set *s);
/* 1: some of the files have columns with names: Parquet files, tables. NULL: none. */
int gf_embeddings_have_columns(const gf_embedding_set *s);
/* 1: some of the files have named tensors. */
int gf_embeddings_have_tensors(const gf_embedding_set *s);
/* Columns that were chosen in the first file that has some, in words; NULL: none has. */
const char *gf_embeddings_columns(const gf_embedding_set *s);
int gf_embeddings_have_names(const gf_embedding_set *s);
/* Appends the names of all rows. */
glofnd_status gf_embeddings_names(gf_error *err, gf_embedding_set *s, gf_string_list *out);
/* Appends the labels of all rows as texts; "": none. `label` of the input was given. E_FORMAT: files that have no columns. */
glofnd_status gf_embeddings_labels(gf_error *err, gf_embedding_set *s, gf_string_list *out);

/* 1: the path is a Parquet file or a table (.csv, .tsv), or a folder or pattern of such: columns are chosen by their names. */
int gf_labels_have_columns(const char *path);
/* The same of names, but that a table of which no column is chosen is a list: a name per line. */
int gf_names_have_columns(const char *path, const char *id);
/* Appends the texts of column `id` of all its files. */
glofnd_status gf_names_of_column(gf_error *err, const char *path, const char *id, gf_string_list *out);
/* The same of a column of labels, where a null is an empty text. */
glofnd_status gf_labels_of_column(gf_error *err, const char *path, const char *column, gf_string_list *out);
/* Files that the paths stand for. A folder gives its .npy, .parquet and .safetensors files, or else its .csv and .tsv files, a
 * pattern its matches, both in natural order: 2 before 10. E_IO: there is none. */
glofnd_status gf_embedding_paths(gf_error *err, const gf_embedding_input *in, gf_string_list *out);

struct glofnd_embeddings;
/* The files of a glofnd_embeddings, for calls of the public header that take one. */
gf_embedding_set *gf_embeddings_of(struct glofnd_embeddings *e);

/* ----- whole files of embeddings, and what is known of their rows: labels and names, from files of their own or columns -----
 *
 * Results are malloc'ed. After a failure they may be set, too: free them as after success. */

/* All rows: x [n][dim]. Of one file; `tensor` of a .safetensors file: by name, or NULL: the only one with two axes. */
glofnd_status gf_embeddings_load(gf_error *err, const char *path, const char *tensor, int64_t *n, int64_t *dim, float **x);
glofnd_status gf_embeddings_load_set(gf_error *err, gf_embedding_set *set, int64_t *n, int64_t *dim, float **x);

/* label [n], negative: unknown; *classes: names of labels 0, 1, 2 ..., empty before and, if labels are numbers, after.
 * From a .npy, int32, int64 or uint8 [n]; of Parquet files or tables, a folder or a pattern of them: `column`. */
glofnd_status gf_row_labels_read(gf_error *err, const char *path, const char *column, int64_t n, int32_t **label,
                                 gf_string_list *classes);
/* From texts: integers as they are, also written as 3.0, negative, nan and None: unknown; if one is no integer, all are names of
 * classes, which are numbered in bytewise order. An empty text and nan: unknown. */
glofnd_status gf_row_labels_of_texts(gf_error *err, const gf_string_list *texts, int64_t n, int32_t **label,
                                     gf_string_list *classes);
/* Names of the classes of known labels [n] (NULL: of none), one per line. */
glofnd_status gf_row_classes_read(gf_error *err, const char *path, const int32_t *label, int64_t n, gf_string_list *classes);

/* name [n], which point into *text. One name per line; of Parquet files or tables, a folder or a pattern of them: column `id`. */
glofnd_status gf_row_names_read(gf_error *err, const char *path, const char *id, int64_t n, const char ***name, char **text);
/* Takes over the text of the list. */
glofnd_status gf_row_names_of_list(gf_error *err, gf_string_list *list, int64_t n, const char ***name, char **text);

/* ----- a kind of file: inside view of shard_*.c ----- */

typedef struct gf_shard gf_shard;

typedef struct gf_shard_kind {
    /* Sets rows, dim, named, columns and state. Without rows the others may stay 0. */
    glofnd_status (*open)(gf_error *err, const gf_embedding_input *in, gf_shard *s);
    glofnd_status (*read)(gf_error *err, gf_shard *s, int64_t first, int64_t rows, float *x);
    glofnd_status (*names)(gf_error *err, gf_shard *s, gf_string_list *out);
    glofnd_status (*labels)(gf_error *err, gf_shard *s, gf_string_list *out); /* NULL: such files have none */
    void (*close)(gf_shard *s);                                               /* also after a failed open */
} gf_shard_kind;

struct gf_shard {
    const char *path;
    int64_t bytes, changed, changed_ns; /* of the file when it was opened */
    const gf_shard_kind *kind;
    int64_t first, rows, dim; /* first: of its rows among all */
    int named;
    char columns[320]; /* which were chosen, in words; "": it has none */
    void *state;
};

extern const gf_shard_kind gf_shard_npy, gf_shard_tensor, gf_shard_parquet, gf_shard_table;
