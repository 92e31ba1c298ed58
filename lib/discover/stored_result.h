/* stored_result.h - a stored result read back, and a result for other settings from the neighbours of a stored one, without computing similarities again.
 *
 * Lists of the `top` most similar others answer: thresholds of rank up to `top`; duplicates down to the similarity above which no
 * list is full; and the settings of the stored result itself. The numbers are then those of a new search, bit for bit. Otherwise
 * the call fails and says which setting the lists would answer.
 */
#pragma once

#include "discover/decide.h"
#include "discover/output_files.h"

typedef struct gf_stored_result {
    char *source;       /* of the embeddings */
    gf_discover_spec s; /* alpha, k, top, max_pairs, dup, only_dup */
    int64_t rank;
    int64_t cells, compared; /* only_dup */
    gf_discover_data d;      /* without x */
    gf_pairs_found f;        /* hits: -1 where the result had no labels. Without those below */
    gf_row_split split[GF_SPLITS_MAX];
    int splits;
    gf_table_format format; /* of its tables */
} gf_stored_result;

void gf_stored_result_free(gf_stored_result *x); /* accepts a zeroed struct */
/* d: x->d, perhaps with other names and labels; new_labels: 1 if labels differ; only_dup as that of x->s: the duplicates of a
 * larger dup are among those that it has. E_ARGUMENT: the lists do not suffice. */
glofnd_status gf_rethreshold(gf_error *err, const gf_stored_result *x, const gf_discover_spec *s, const gf_discover_data *d,
                             int new_labels, gf_discover_result *r);

/* ----- reading ----- */

/* Reads the folder of a discovery back, for `glofnd discover --from`. */

/* E_FORMAT: a file of it is not as a discovery writes it. E_ARGUMENT: the result of a query, of an approximate search, of
 * learned thresholds, or of an earlier version. */
glofnd_status gf_stored_result_read(gf_error *err, const char *folder, gf_stored_result *x);
/* Thresholds [d->n] of a stored result of the embeddings d, and what they were found by: alpha, k and duplicates of *stored. */
glofnd_status gf_discover_read_stored(gf_error *err, const char *folder, const gf_discover_data *d, gf_discover_spec *stored,
                                      float **lambda);
