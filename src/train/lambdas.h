/* lambdas.h - the thresholds in force of all anchors, whichever rank holds them: what an epoch's records tell of. */
#ifndef GF_TRAIN_LAMBDAS_H
#define GF_TRAIN_LAMBDAS_H

#include "train/trainer.h"

#define GF_LAMBDAS_MOST 1000000 /* per side: of larger data, every k-th anchor's */

typedef struct gf_lambdas { /* all zero: none yet */
    float *side[2];         /* [count] of images, of texts (NULL with two views), in the order of samples */
    int64_t count;
} gf_lambdas;

/* Collective: every rank gets them all, the same numbers as one rank would. `most` of them are kept, evenly spaced; memory stays
 * from call to call, for the same trainer. */
glofnd_status gf_lambdas_take(gf_error *err, const gf_trainer *t, int64_t most, gf_lambdas *x);
void gf_lambdas_free(gf_lambdas *x);
double gf_lambdas_mean(const gf_lambdas *x, int side); /* NaN: there are none */

#endif
