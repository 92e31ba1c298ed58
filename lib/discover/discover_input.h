/* discover_input.h - input of discovery: embeddings of any model, with labels and names; usable rows, bad rows and exact copies.
 * data/embedding_files.h reads them from files. */
#pragma once

#include "util/string_list.h"

enum { GF_ROW_GOOD, GF_ROW_NOT_FINITE, GF_ROW_ZERO };

typedef struct gf_discover_data {
    int64_t n, dim;
    float *x;               /* [n][dim]; NULL after gf_discover_free_rows() */
    int32_t *label;         /* [n] negative: unknown; NULL: no labels */
    gf_string_list classes; /* names of labels 0, 1, 2 ...; empty: labels are numbers */
    const char **name;      /* [n]; NULL: no names */
    char *name_text;        /* the bytes of the names */
    char **unreadable;      /* [n] why the image of a row cannot be read; NULL: it can, or there is none. NULL: all can */
    /* set by gf_discover_classify() */
    uint8_t *kind; /* [n] GF_ROW_* */
    int64_t good_n;
    int32_t *good;    /* [good_n] usable rows; position p is row good[p] */
    int32_t *copy_of; /* [good_n] smallest position with the same bytes, possibly its own */
    int64_t distinct; /* positions that are not a copy of an earlier one */
    uint32_t crc;     /* of x: identifies the embeddings of a stored result */
} gf_discover_data;

/* Appends the rows of `part`, with labels and names if both have them (or d is empty), and frees it. E_ARGUMENT: the numbers
 * per row differ. Both are not classified yet. */
glofnd_status gf_discover_append(gf_error *err, gf_discover_data *d, gf_discover_data *part);
/* Sets kind, good, copy_of, distinct and crc. */
glofnd_status gf_discover_classify(gf_error *err, gf_discover_data *d);
/* same [q->good_n]: the smallest position of d with the same bytes; -1: none. Both are classified and have x and equal dim. */
glofnd_status gf_discover_match_rows(gf_error *err, const gf_discover_data *d, const gf_discover_data *q, int32_t *same);
/* Sets unreadable[row]. d->n is known. */
glofnd_status gf_discover_set_unreadable(gf_error *err, gf_discover_data *d, int64_t row, const char *why);
/* "unreadable", "zero" or "not finite", of a bad row. */
const char *gf_discover_bad_kind(const gf_discover_data *d, int64_t row);
void gf_discover_free_rows(gf_discover_data *d);
void gf_discover_free_names(gf_discover_data *d);
void gf_discover_free_labels(gf_discover_data *d);
void gf_discover_data_free(gf_discover_data *d); /* accepts a zeroed struct */
