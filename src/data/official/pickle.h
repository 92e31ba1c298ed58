/* pickle.h - the part of Python's pickle format that CIFAR's Python version needs, read without running anything.
 *
 * Dicts, lists, tuples, integers, strings, and NumPy arrays of bytes; every other function that a file would call is refused by its
 * name. Values are numbers of nodes; -1: there is none.
 *
 *     gf_pickle p;  TRY(gf_pickle_parse(err, name, bytes, size, &p));
 *     gf_pickle_array a;  if (gf_pickle_bytes(&p, gf_pickle_get(&p, p.root, "data"), &a)) ...
 *     gf_pickle_free(&p);
 */
#pragma once

#include "util/status.h"

#define GF_PICKLE_BYTES_MAX ((uint64_t)1 << 29)
#define GF_PICKLE_NODES_MAX (1 << 22)

struct gf_pickle_node;
struct gf_pickle_cell;

typedef struct gf_pickle {
    const uint8_t *bytes; /* borrowed: strings and arrays are parts of it */
    size_t size;
    struct gf_pickle_node *node;
    size_t nodes, node_capacity;
    struct gf_pickle_cell *cell; /* items of lists, tuples and dicts */
    size_t cells, cell_capacity;
    int32_t root;
} gf_pickle;

typedef struct gf_pickle_array { /* of bytes, in C order */
    size_t at, n;                /* in gf_pickle.bytes */
    int64_t rows, columns;       /* [rows][columns], or [rows] with columns 1 */
} gf_pickle_array;

/* E_FORMAT: not a pickle, or one with something that is not read; the message names it. */
glofnd_status gf_pickle_parse(gf_error *err, const char *name, const uint8_t *bytes, size_t size, gf_pickle *out);
void gf_pickle_free(gf_pickle *p);

int32_t gf_pickle_get(const gf_pickle *p, int32_t dict, const char *key);
/* Calls back for each item of a list or tuple, until that returns 0. The number of items; -1: neither of them. */
int64_t gf_pickle_each(const gf_pickle *p, int32_t list, int (*item)(void *user, int64_t i, int32_t node), void *user);
int gf_pickle_integer(const gf_pickle *p, int32_t node, int64_t *out);
int gf_pickle_string(const gf_pickle *p, int32_t node, const char **text, size_t *n);
int gf_pickle_bytes(const gf_pickle *p, int32_t node, gf_pickle_array *out);
