/* column_roles.h - which columns of a table are dimensions of an embedding, by their titles: an integer column named "id" or
 * "label" is none. */
#pragma once

#include "util/string_list.h"

typedef enum gf_column_role { GF_COLUMN_DIMENSION, GF_COLUMN_ID, GF_COLUMN_LABEL } gf_column_role;

/* Of a column of integers, by its title in any case. id, idx, index, sample, "Unnamed: 0" and a first one without title: ID.
 * label, labels, class, target, and y unless there is an x: LABEL. */
gf_column_role gf_column_role_of(const gf_string_list *titles, int64_t i);

typedef struct gf_column_choice {
    const gf_string_list *titles;
    const uint8_t *dimension; /* [titles->n] 1: one of the embedding's numbers */
    int64_t list, id, label;  /* columns; -1: none. list: the embedding is in this one */
} gf_column_choice;

/* The choice in words: "16 columns, e0 to e15; names: id; left out: label". Cut where `bytes` end. */
void gf_columns_describe(const gf_column_choice *c, char *out, size_t bytes);
