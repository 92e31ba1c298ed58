/* pickle_nodes.h - values of a parsed pickle, as pickle.c makes them and pickle_values.c reads them. */
#pragma once

#include "pickle/pickle.h"

typedef enum gf_pickle_kind {                 /* tuples are lists; OrderedDicts are dicts */
                              GF_PICKLE_NONE, /* also real numbers: no reader needs one */
                              GF_PICKLE_INTEGER,
                              GF_PICKLE_STRING,
                              GF_PICKLE_LIST,
                              GF_PICKLE_DICT,
                              GF_PICKLE_FUNCTION,
                              GF_PICKLE_CALL,
                              GF_PICKLE_PERSISTENT
} gf_pickle_kind;

typedef struct gf_pickle_node {
    gf_pickle_kind kind;
    int32_t first, last; /* LIST, DICT: cells; CALL: function and arguments; PERSISTENT: its id and -1 */
    int32_t state;       /* CALL: what BUILD gave it; -1 */
    int64_t value;       /* INTEGER; LIST, DICT: items; STRING, FUNCTION: where it begins */
    size_t n;            /* STRING, FUNCTION: bytes */
} gf_pickle_node;

typedef struct gf_pickle_cell {
    int32_t node, next;
} gf_pickle_cell;
