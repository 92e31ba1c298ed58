/* dnn_times.c - see dnn_times.h. */
#include "nn/cpu/dnn_times.h"

#include <stddef.h>

static _Thread_local double *watched;
static _Thread_local double (*clock_of)(void);

void gf_dnn_watch(double *into, double (*clock)(void)) { watched = into, clock_of = clock; }

double gf_dnn_start(void) { return watched ? clock_of() : 0.0; }

void gf_dnn_charge(int part, double start) {
    if (watched) watched[part] += clock_of() - start;
}
