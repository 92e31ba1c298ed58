/* lambdas.h - the thresholds in force of all anchors, of all ranks: for the log line and histogram of an epoch. */
#pragma once

#include "loop/trainer.h"

#define GF_LAMBDAS_MAX 1000000 /* per side: of larger data, those of every k-th anchor */

typedef struct gf_lambdas { /* all zero: none yet */
    float *side[2];         /* [count] of images, of texts (NULL with two views), in the order of samples */
    int64_t count;
} gf_lambdas;

/* Collective: every rank gets all, the same numbers as one rank would. At most `max` are taken, evenly spaced; memory is kept
 * from call to call, for the same trainer. */
glofnd_status gf_lambdas_take(gf_error *err, const gf_trainer *t, int64_t max, gf_lambdas *x);
void gf_lambdas_free(gf_lambdas *x);
double gf_lambdas_mean(const gf_lambdas *x, int side); /* NaN: none */
