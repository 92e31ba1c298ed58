/* loss.h - the losses and their gradients, one row at a time: from the sums over its pairs to the loss of the row, its new
 * moving average u, and the weights with which its pairs enter the gradient.
 *
 * One function per family of losses, each a few lines of scalar arithmetic in double that can be held against docs/method.md.
 * All sums arrive and all weights leave in the log domain: at tau = 0.005, exp(S/tau) alone would overflow.
 */
#pragma once

#include <math.h>

#include "method/formulas/settings.h"
#include "util/host_device.h"

typedef struct gf_loss_in {
    double batch, log_batch; /* B: samples of the global batch */
    double negatives;        /* n: negatives of the row */
    double weight;           /* c: kept negatives, plus omega times the flagged */
    double log_sum;          /* log of the summed exp(S/tau), flagged ones times omega */
    double mean_s;           /* mean of S under those weights; only where a temperature or a surrogate needs it */
    double positive;         /* S of the positive pair */
    double align;            /* maximised: S of the positive, under ATTRACT its mean with the flagged */
    double tau;
    double log_u;               /* old; -inf: none */
    double gamma;               /* weight of the new value in u */
    double log_gamma, log_rest; /* log gamma, log(1 - gamma) */
    int fresh;                  /* u starts here: the new value alone */
    /* Several positives: those beside the one of the own sample */
    double others;                  /* their number */
    double log_others, mean_others; /* log of their sum of exp(S/tau), and the mean of S under these weights */
    /* SIGMOID, with x = S/tau + bias */
    double bias;
    double terms;          /* sum over the pairs without the positive: weight log(1 + exp(x)), less x where y = 1 */
    double slope, slope_s; /* sum of the derivatives of these terms; ... times S */
} gf_loss_in;

typedef struct gf_loss_out {
    double log_u; /* of this row */
    double log_w; /* weight of a pair in the gradient: exp(S/tau + log_w); SIGMOID: pair sigma(S/tau + log_w) */
    double pair;
    double pull;            /* weight of the alignment */
    double push;            /* weight of the positive pair in its own denominator */
    double log_push;        /* SIMCLR: that of any positive of the row is exp(S/tau + log_push) */
    double loss;            /* share of this row */
    double grad_scale;      /* d loss / d (1/tau) */
    double grad_bias;       /* d loss / d bias */
    double grad_tau;        /* ISOGCLR: d / d tau_i, not divided by the batch */
    double rank_part;       /* official image-text: the part of `loss` that ranks share in halves */
    double rank_part_scale; /* the same of grad_scale */
} gf_loss_out;

/* Individual temperatures. */
GF_HD int gf_loss_individual(const glofnd_options *o) { return o->loss == GLOFND_LOSS_ISOGCLR; }

/* log(exp(a) + exp(b)), also for -inf. */
GF_HD double gf_log_add(double a, double b) {
    const double top = a > b ? a : b, low = a > b ? b : a;
    if (isnan(a) || isnan(b)) return NAN;
    return isinf(top) && top < 0.0 ? top : top + log1p(exp(low - top));
}

GF_HD double gf_update_log_u(const gf_loss_in *x, double log_g) {
    return gf_log_add(x->log_rest + x->log_u, x->log_gamma + log_g);
}

/* SogCLR: the global contrastive loss, and its forms FASTCLIP and ISOGCLR.
 *     l_i = -align + tau log(c u),   u <- (1-gamma) u + gamma ghat,   ghat = (1/c) sum exp(S/tau)
 * u estimates the mean over the whole dataset and is a constant for the gradient. So the gradient of the second term is
 * tau grad(ghat) / u, and d l_i / d S = exp(S/tau) / (c u): with 1/B, that is exp(S/tau + log_w). */
GF_HD gf_loss_out gf_sogclr_loss_gradient(const glofnd_options *o, const gf_loss_in *x) {
    const int temperature = o->loss == GLOFND_LOSS_FASTCLIP || gf_loss_individual(o);
    const double log_c = log(x->weight), log_g = x->log_sum - log_c;
    const double log_u = x->fresh || x->gamma >= 1.0 ? log_g : gf_update_log_u(x, log_g);
    gf_loss_out y = GF_ZERO;
    y.log_u = log_u;
    y.log_w = -x->log_batch - log_c - log_u;
    y.pull = 1.0 / x->batch;
    if (temperature) {
        y.loss = (-x->align + x->tau * (log_u + o->rho)) / x->batch;
        y.grad_tau = log_u + o->rho - exp(log_g - log_u) * x->mean_s / x->tau;
        y.grad_scale = -x->tau * x->tau * y.grad_tau / x->batch;
    } else if (o->compat == GLOFND_COMPAT_OFFICIAL) { /* the authors log a surrogate whose gradient is the right one */
        y.loss = -x->align / x->batch + exp(y.log_w + x->log_sum) * x->mean_s;
    } else {
        y.loss = (-x->align + x->tau * (log_c + log_u)) / x->batch;
    }
    return y;
}

/* Weight of a row of a sample in the softmax loss: a mean over its two rows, or its only one. The authors' SimCLR adds up both views. */
GF_HD double gf_softmax_weight(const glofnd_options *o) {
    if (o->directions == GLOFND_DIRECTIONS_FORWARD) return 1.0;
    return o->compat == GLOFND_COMPAT_OFFICIAL && o->pairing == GLOFND_PAIRING_VIEWS ? 1.0 : 0.5;
}

/* SimCLR (NT-Xent, InfoNCE) and CLIP: a softmax over the positive and the kept negatives of the batch.
 *     l_r = log D - align/tau,   D = (n/c) sum_kept exp(S/tau) + sum_positives exp(S/tau)
 * The kept negatives are scaled up to the full count. The loss is the mean over the two rows of every sample. With several
 * positives and no detector it is L_out of SupCon. */
GF_HD gf_loss_out gf_softmax_loss_gradient(const glofnd_options *o, const gf_loss_in *x) {
    const double share = gf_softmax_weight(o) / x->batch, k = 1.0 / x->tau;
    const double log_scale = log(x->negatives / x->weight);
    double log_d = gf_log_add(log_scale + x->log_sum, k * x->positive);
    if (x->others > 0.0) log_d = gf_log_add(log_d, x->log_others);
    const double p_positive = exp(k * x->positive - log_d), p_negative = exp(log_scale + x->log_sum - log_d);
    gf_loss_out y = GF_ZERO;
    y.log_u = -INFINITY;
    y.log_w = log_scale - log_d + log(share * k);
    y.pull = share * k;
    y.push = share * k * p_positive;
    y.log_push = log(share * k) - log_d;
    y.loss = share * (log_d - k * x->align);
    y.grad_scale = share * (p_negative * x->mean_s + p_positive * x->positive - x->align);
    if (x->others > 0.0) y.grad_scale += share * exp(x->log_others - log_d) * x->mean_others;
    return y;
}

/* log(1 + exp(x)) and its slope, also for large |x|. */
GF_HD double gf_softplus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }
GF_HD double gf_sigma(double x) {
    const double e = exp(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* SigLIP: every pair by itself, with x = S/tau + bias.
 *     l_r = sum_positives softplus(-x) + sum_kept softplus(x) + sum_attracted softplus(-x),   softplus(-x) = softplus(x) - x
 * A pair is seen from its two anchors, each with its own threshold: each gives it 1/2. */
GF_HD gf_loss_out gf_sigmoid_loss_gradient(const glofnd_options *o, const gf_loss_in *x) {
    const double share = gf_softmax_weight(o) / x->batch, k = 1.0 / x->tau, positive = k * x->positive + x->bias;
    const double missing = gf_sigma(-positive); /* slope of the positive's term */
    gf_loss_out y = GF_ZERO;
    y.log_u = -INFINITY;
    y.log_w = x->bias;
    y.pair = share * k;
    y.pull = share * k * missing;
    y.loss = share * (gf_softplus(-positive) + x->terms);
    y.grad_scale = share * (x->slope_s - missing * x->positive);
    y.grad_bias = share * (x->slope - missing);
    return y;
}

#define GF_LOG_EPS (-32.236191301916641)  /* log(1e-14), added to u */
#define GF_LOG_TINY (-80.590478254791605) /* log(1e-35): a u below it counts as never set */

/* SOGCLR, FASTCLIP, ISOGCLR for image and text as the authors' code computes them (compat OFFICIAL).
 * Here the positive stands inside the exponent, ghat = (1/c) sum exp((S_ij - S_ii)/tau), and so inside u; a small constant is
 * added to u; SOGCLR ("v1") is not multiplied by tau. docs/method.md lists the differences from the paper. */
GF_HD gf_loss_out gf_fastclip_loss_gradient(const glofnd_options *o, const gf_loss_in *x) {
    const double k = 1.0 / x->tau, log_c = log(x->weight), log_g = x->log_sum - log_c - k * x->align;
    const int fresh = x->gamma >= 1.0 || x->log_u < GF_LOG_TINY || !isfinite(x->log_u);
    const double log_u = fresh ? log_g : gf_update_log_u(x, log_g), log_ue = gf_log_add(log_u, GF_LOG_EPS);
    const double ratio = exp(log_g - log_ue), slope = ratio * (x->mean_s - x->align);
    const double scale = o->loss == GLOFND_LOSS_SOGCLR ? 1.0 : x->tau;
    gf_loss_out y = GF_ZERO;
    y.log_u = log_u;
    y.log_w = -k * x->align - log_c - log_ue + log(k * scale / x->batch);
    y.pull = k * scale / x->batch * ratio;
    y.rank_part = scale * ratio / x->batch;
    y.rank_part_scale = scale * slope / x->batch;
    y.grad_tau = log_ue + o->rho - k * slope;
    if (o->loss == GLOFND_LOSS_ISOGCLR) {
        y.loss = x->tau * (log_ue + o->rho) / x->batch;
        y.rank_part = y.rank_part_scale = 0.0;
        return y;
    }
    const double tail = o->loss == GLOFND_LOSS_FASTCLIP ? 0.5 * (o->rho + log_ue) / x->batch : 0.0;
    y.loss = y.rank_part + x->tau * tail;
    y.grad_scale = y.rank_part_scale - x->tau * x->tau * tail;
    return y;
}

GF_HD gf_loss_out gf_loss_gradient(const glofnd_options *o, const gf_loss_in *x) {
    if (o->loss == GLOFND_LOSS_SIMCLR) return gf_softmax_loss_gradient(o, x);
    if (o->loss == GLOFND_LOSS_SIGMOID) return gf_sigmoid_loss_gradient(o, x);
    if (o->compat == GLOFND_COMPAT_OFFICIAL && o->pairing == GLOFND_PAIRING_IMAGE_TEXT) return gf_fastclip_loss_gradient(o, x);
    return gf_sogclr_loss_gradient(o, x);
}
