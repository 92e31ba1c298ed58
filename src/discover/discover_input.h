/* discover_input.h - embeddings of any model, as discovery takes them: from a file, with labels and names, and sorted into rows
 * that can be compared, rows that cannot, and exact copies.
 */
#ifndef GF_DISCOVER_DISCOVER_INPUT_H
#define GF_DISCOVER_DISCOVER_INPUT_H

#include "util/status.h"

enum { GF_ROW_GOOD, GF_ROW_NOT_FINITE, GF_ROW_ZERO };

typedef struct gf_discover_data {
    int64_t n, dim;
    float *x;          /* [n][dim]; NULL once gf_discover_drop_rows() was called */
    int32_t *label;    /* [n] negative: unknown; NULL: no labels */
    const char **name; /* [n]; NULL: no names */
    char *name_text;   /* what they point into */
    /* by gf_discover_sort */
    uint8_t *kind; /* [n] GF_ROW_* */
    int64_t good_n;
    int32_t *good;    /* [good_n] rows that can be compared; "position" p is row good[p] */
    int32_t *copy_of; /* [good_n] smallest position with the same bytes; its own: none before it */
    int64_t distinct; /* positions that are no copy of one before */
    uint32_t crc;     /* of all of x: tells whether a stored result belongs to it */
} gf_discover_data;

/* Shape of the embeddings in a file, without reading them: float32 or float16 [n][dim] of a .npy; a tensor of a .safetensors file
 * (its name, or NULL where only one has two axes). */
glofnd_status gf_discover_look(gf_error *err, const char *path, const char *tensor, int64_t *n, int64_t *dim);
glofnd_status gf_discover_read(gf_error *err, const char *path, const char *tensor, gf_discover_data *d);
/* int32, int64 or uint8 [n] */
glofnd_status gf_discover_read_labels(gf_error *err, const char *path, gf_discover_data *d);
/* One name a line. */
glofnd_status gf_discover_read_names(gf_error *err, const char *path, gf_discover_data *d);
glofnd_status gf_discover_sort(gf_error *err, gf_discover_data *d);
/* Rows of q that d has, too: same [q->good_n], the smallest position of d with the same bytes; -1: none. Both are sorted, have
 * their x, and one dim. */
glofnd_status gf_discover_match(gf_error *err, const gf_discover_data *d, const gf_discover_data *q, int32_t *same);
void gf_discover_drop_rows(gf_discover_data *d);
void gf_discover_data_free(gf_discover_data *d); /* a zeroed one is fine */

#endif
