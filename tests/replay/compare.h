/* compare.h - every output of a case beside that of the library. An output, or a part of one, that was not offered counts as
 * failed: a replay that forgets something must not pass. */
#pragma once

#include "golden.h"

#define REPLAY_TOLERANCE 2e-5 /* of the largest |value| of the array; integers (masks, counts) must be exact */

typedef struct output {
    const char *name;
    const gf_npy *want;
    unsigned char *seen; /* [want->count] */
    double largest;      /* finite |value| of `want` */
    double worst;        /* error / largest; INFINITY for a wrong integer, or where only one side is NaN or infinite */
    int64_t worst_at;    /* index of it; -1: none yet */
    char got[32];        /* value there */
    int overrun;         /* the case produces more values than the array has */
} output;

typedef struct outputs {
    const golden_case *c;
    output *list;
    size_t count;
} outputs;

void outputs_init(outputs *o, const golden_case *c);
void outputs_free(outputs *o);

/* Offers n values for elements first, first+1, ... of the array (row-major). No-op if the case has no such output. */
void outputs_real(outputs *o, const char *name, int64_t first, const double *got, int64_t n);
void outputs_float(outputs *o, const char *name, int64_t first, const float *got, int64_t n);
void outputs_whole(outputs *o, const char *name, int64_t first, const int64_t *got, int64_t n);
static inline void outputs_one(outputs *o, const char *name, int64_t at, double got) { outputs_real(o, name, at, &got, 1); }
int outputs_wants(const outputs *o, const char *name);

/* Prints a line per output; 1 if all agree. *worst and *where get the largest error and its output. */
int outputs_print(const outputs *o, int verbose, double *worst, const char **where);
