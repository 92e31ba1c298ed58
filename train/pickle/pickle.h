/* pickle.h - the part of Python's pickle format that CIFAR's Python version and torch.save need, read without running anything.
 *
 * Dicts, lists, tuples, integers, strings, and calls of the functions that the rules name; a file that would call another one is
 * refused with its name. Values are numbers of nodes; -1: there is none.
 *
 *     gf_pickle p;  TRY(gf_pickle_parse(err, name, &gf_pickle_numpy, bytes, size, &p));
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

typedef struct gf_pickle_function {
    const char *module, *name;
} gf_pickle_function;

typedef struct gf_pickle_rules {
    const char *of;                      /* for messages: "CIFAR" */
    const char *refusal;                 /* what to say of a function that is not listed */
    const gf_pickle_function *functions; /* [count] */
    size_t count;
    int persistent; /* 1: persistent ids are allowed */
} gf_pickle_rules;

extern const gf_pickle_rules gf_pickle_numpy; /* arrays, as in CIFAR's files */

/* E_FORMAT: not a pickle, or one with something that is not read; the message names it. */
glofnd_status gf_pickle_parse(gf_error *err, const char *name, const gf_pickle_rules *rules, const uint8_t *bytes, size_t size,
                              gf_pickle *out);
void gf_pickle_free(gf_pickle *p);

int32_t gf_pickle_get(const gf_pickle *p, int32_t dict, const char *key);
/* Calls back for each item of a list or tuple, until that returns 0. The number of items; -1: neither of them. */
int64_t gf_pickle_each(const gf_pickle *p, int32_t list, int (*item)(void *user, int64_t i, int32_t node), void *user);
/* The same for the pairs of a dict. */
int64_t gf_pickle_each_pair(const gf_pickle *p, int32_t dict, int (*pair)(void *user, int32_t key, int32_t value), void *user);
int64_t gf_pickle_count(const gf_pickle *p, int32_t list); /* items; -1: no list or tuple */
/* The first n items of a list or tuple; 0: it has fewer. */
int gf_pickle_items(const gf_pickle *p, int32_t list, int32_t *out, int n);
int gf_pickle_is_function(const gf_pickle *p, int32_t node, const char *name); /* named, not called */
int32_t gf_pickle_call(const gf_pickle *p, int32_t node, const char *name);    /* arguments of a call of this function; -1 */
int32_t gf_pickle_persistent(const gf_pickle *p, int32_t node);                /* the id; -1 */
int gf_pickle_integer(const gf_pickle *p, int32_t node, int64_t *out);
int gf_pickle_string(const gf_pickle *p, int32_t node, const char **text, size_t *n);
int gf_pickle_bytes(const gf_pickle *p, int32_t node, gf_pickle_array *out);
