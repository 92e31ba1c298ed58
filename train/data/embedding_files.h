/* embedding_files.h - what discovery reads from files: embeddings of any model, their labels and names, and stored results. */
#pragma once

#include "discover/discover_files.h"
#include "embeddings/embedding_set.h"

/* All rows of a set, and its names if it has some. */
glofnd_status gf_discover_read_set(gf_error *err, gf_embedding_set *set, gf_discover_data *d);
/* Only the names. d->n is known. */
glofnd_status gf_discover_take_names(gf_error *err, gf_embedding_set *set, gf_discover_data *d);
/* One file; `tensor` of a .safetensors file: by name, or NULL: the only one with two axes. */
glofnd_status gf_discover_read(gf_error *err, const char *path, const char *tensor, gf_discover_data *d);
/* A .npy, int32, int64 or uint8 [n]; of Parquet files, a folder or a pattern of them: `column`. */
glofnd_status gf_discover_read_labels(gf_error *err, const char *path, const char *column, gf_discover_data *d);
/* Labels from texts: integers as they are, also written as 3.0, negative, nan and None: unknown; if one is no integer, all are
 * names of classes, which are numbered in bytewise order: d->classes. An empty text and nan: unknown. */
glofnd_status gf_discover_labels_of_texts(gf_error *err, const gf_string_list *texts, gf_discover_data *d);
/* Names of the classes, one per line, of labels that are known. */
glofnd_status gf_discover_read_classes(gf_error *err, const char *path, gf_discover_data *d);
/* One name per line; of Parquet files, a folder or a pattern of them: column `id`. */
glofnd_status gf_discover_read_names(gf_error *err, const char *path, const char *id, gf_discover_data *d);

/* Thresholds [d->n] of a stored result of the embeddings d. Takes over its alpha and k where both are 0 in *s, and its dup
 * where it is NaN. */
glofnd_status gf_discover_read_stored(gf_error *err, const char *folder, const gf_discover_data *d, gf_discover_spec *s,
                                      float **lambda);
