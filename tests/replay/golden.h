/* golden.h - a folder of golden cases: manifest.tsv (case, array, role, dtype, shape, file), hyper.tsv (case, key, value), arrays.
 * The array CASE/x.npy is a file of this name, or the member x.npy of CASE.npz, as numpy.savez writes it.
 *
 *     golden_open  ->  g.cases[i]  ->  golden_load  ->  golden_array, golden_number, ...  ->  golden_unload  ->  golden_close
 */
#pragma once

#include "io/npy.h"
#include "message.h"

typedef struct golden_table { /* a .tsv file; the fields point into text */
    char *text;
    const char **field; /* [rows][columns] */
    size_t rows, columns;
} golden_table;

typedef struct golden {
    const char *root; /* borrowed */
    golden_table manifest, hyper;
    const char **cases; /* [case_count] in order of appearance */
    size_t case_count;
} golden;

int golden_open(golden *g, const char *root, message *m);
void golden_close(golden *g);

typedef struct golden_item {
    const char *name;
    int is_output; /* 0: input or info */
    gf_npy array;
} golden_item;

typedef struct golden_case {
    const golden *g;
    const char *id;
    golden_item *items; /* every array the manifest lists for the case, read and checked against it */
    size_t count;
} golden_case;

int golden_load(const golden *g, const char *id, golden_case *c, message *m);
void golden_unload(golden_case *c);

/* NULL if the case does not list it (as input, output or info). */
const gf_npy *golden_find(const golden_case *c, const char *name);
/* The same, but missing is an error; so is a shape other than `dims` [rank], where -1 accepts anything. */
int golden_array(const golden_case *c, const char *name, int rank, const int64_t *dims, const gf_npy **out, message *m);

/* Hyper-parameters. Missing or not of the type: an error that names case and key. */
int golden_has(const golden_case *c, const char *key);
int golden_text(const golden_case *c, const char *key, const char **out, message *m);
int golden_number(const golden_case *c, const char *key, double *out, message *m);
int golden_integer(const golden_case *c, const char *key, int64_t low, int64_t high, int64_t *out, message *m);
