/* row_labels.h - whole files of embeddings, and what is known of their rows: labels and names, from files of their own or columns.
 *
 * Results are malloc'ed. After a failure they may be set, too: free them as after success.
 */
#pragma once

#include "embeddings/embedding_set.h"

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
