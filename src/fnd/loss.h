/* loss.h - from what pass B summed over one row to its loss, its new u and its weights in the gradient.
 *
 * One function per family of losses, each a few lines of scalar arithmetic in double that can be held against docs/method.md.
 * All sums arrive and all weights leave in the log domain: at tau = 0.005, exp(S/tau) alone would overflow.
 */
#ifndef GF_FND_LOSS_H
#define GF_FND_LOSS_H

#include "glofnd.h"

typedef struct gf_loss_in {
    double batch;               /* B: samples of the global batch */
    double negatives;           /* n: negatives of the row */
    double weight;              /* c: kept negatives, plus omega times the flagged */
    double log_sum;             /* log of the summed exp(S/tau), flagged ones times omega */
    double mean_s;              /* mean of S under those weights; only where a temperature or a surrogate needs it */
    double positive;            /* S of the positive pair */
    double align;               /* what is maximised: S of the positive, under ATTRACT the mean with the flagged */
    double tau;
    double log_u;               /* old; -inf: none */
    double gamma;               /* weight of the new value in u */
    int fresh;                  /* u starts here: the new value alone */
} gf_loss_in;

typedef struct gf_loss_out {
    double log_u;               /* of this row */
    double log_w;               /* weight of a pair in the gradient: exp(S/tau + log_w) */
    double pull;                /* what the alignment is pulled with */
    double push;                /* what the positive pair is pushed with, being in its own denominator */
    double loss;                /* share of this row */
    double grad_scale;          /* d loss / d (1/tau) */
    double grad_tau;            /* ISOGCLR: d / d tau_i, not divided by the batch */
    double rank_part;           /* official image-text: the part of `loss` that ranks share in halves */
    double rank_part_scale;     /* the same of grad_scale */
} gf_loss_out;

typedef gf_loss_out (*gf_loss_row)(const glofnd_options *o, const gf_loss_in *x);

gf_loss_out gf_loss_global(const glofnd_options *o, const gf_loss_in *x);       /* SOGCLR; SOGCLR2, FASTCLIP, ISOGCLR (paper) */
gf_loss_out gf_loss_softmax(const glofnd_options *o, const gf_loss_in *x);      /* SIMCLR, CLIP */
gf_loss_out gf_loss_fastclip(const glofnd_options *o, const gf_loss_in *x);     /* SOGCLR2, FASTCLIP, ISOGCLR (official) */

gf_loss_row gf_loss_of(const glofnd_options *o);
/* 1: the sum of exp times S is needed. */
int gf_loss_needs_mean(const glofnd_options *o);
/* log(exp(a) + exp(b)), also for -inf. */
double gf_log_add(double a, double b);

#endif
