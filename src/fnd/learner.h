/* learner.h - how a threshold moves: the lower-level problem of the paper, one stochastic step.
 *
 * Pure functions of (options, anchor state, share of negatives above lambda). The step needs two of them: where lambda goes, and
 * how far it could go at most, so that the pass that counts can already sum.
 */
#ifndef GF_FND_LEARNER_H
#define GF_FND_LEARNER_H

#include <math.h>

#include "glofnd.h"

typedef struct gf_learner {
    double alpha, lr, beta1, beta2, eps;
    double clip;                /* g is clipped to +- this; 0: off */
    int normalize;              /* g / alpha */
    int sgd;
    int64_t epoch_clock;        /* > 0: bias correction by this instead of the anchor's visits */
    int init_visits;            /* 1: the first visit set lambda and was no Adam step */
} gf_learner;

gf_learner gf_learner_of(const glofnd_options *o, int image_text, int32_t epoch);

/* One update with `share` of the anchor's negatives above lambda; counts the visit. */
void gf_learner_move(const gf_learner *l, glofnd_row *row, double share);
/* lambda set to a quantile by lambda_init; counts the visit. */
void gf_learner_start(glofnd_row *row, double quantile);
/* RING: lambda averaged with an exact quantile; counts the visit. */
void gf_learner_average(const glofnd_options *o, glofnd_row *row, double quantile);
/* What similarities are compared with: the cosine of two equal rows may round to a little above 1, and lambda = 1 flags nothing. */
static inline float gf_learner_gate(float lambda) { return lambda >= 1.0f ? INFINITY : lambda; }
/* Bounds of lambda after gf_learner_move for any share in [0,1], widened to hold the present lambda. */
void gf_learner_range(const gf_learner *l, const glofnd_row *row, float *lo, float *hi);

#endif
