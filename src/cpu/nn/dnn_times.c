/* dnn_times.c - see dnn_times.h. */
#include "cpu/nn/dnn_times.h"

#include <stddef.h>

#include "util/clock.h"

static _Thread_local double *watched;

void gf_dnn_watch(double *into) { watched = into; }

double gf_dnn_start(void) { return watched ? gf_clock() : 0.0; }

void gf_dnn_charge(int part, double start) {
    if (watched) watched[part] += gf_clock() - start;
}
