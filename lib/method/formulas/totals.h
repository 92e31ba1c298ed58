/* totals.h - sums of a step over its rows, and the statistics made of them. */
#pragma once

#include "method/formulas/epoch_plan.h"

typedef struct gf_totals { /* doubles only: a device adds them up as one array */
    double loss, grad_scale, rank_part, rank_part_scale, log_u, kept, detector_kept; /* over own rows; log_u over own anchors */
    double lambda, tau, quantile; /* of own anchors after the step; of own rows, if wanted */
    double rescued, repeats;
    double precision, recall, same, hits; /* WANT_QUALITY: sums over anchors */
    double rank_sum, rank_moment;         /* authors_ranks: pass C's half */
    double neighbours;                    /* over own anchors */
    double tau_used;                      /* device: the temperature that the step read; 0: that of the plan */
} gf_totals;

typedef struct gf_loss_totals {
    double loss, grad_scale, grad_tau;
} gf_loss_totals;

/* The authors compute the gradient of SOGCLR2's temperature, then freeze it. */
GF_HD int gf_totals_learn_tau(const gf_plan *p) {
    const glofnd_loss loss = p->o.loss;
    return loss == GLOFND_LOSS_CLIP || loss == GLOFND_LOSS_FASTCLIP || (p->official && loss == GLOFND_LOSS_SOGCLR2);
}

/* `graded`: with the second half of the step. The authors' ranks report K times their share, the part of the ratio by half; the
 * other half comes from the own columns in the rows of all ranks, by pass C. */
GF_HD gf_loss_totals gf_totals_loss(const gf_plan *p, const gf_totals *sum, double tau, int graded) {
    gf_loss_totals y;
    y.loss = sum->loss, y.grad_scale = sum->grad_scale;
    if (p->authors_ranks) {
        const double k = (double)p->cols / (double)p->rows;
        y.loss = k * (y.loss - 0.5 * sum->rank_part);
        y.grad_scale = k * (y.grad_scale - 0.5 * sum->rank_part_scale);
        if (graded) y.loss += 0.5 * k * tau * sum->rank_sum, y.grad_scale += 0.5 * k * tau * sum->rank_moment;
    }
    const int learns = gf_totals_learn_tau(p);
    if (!learns) y.grad_scale = 0.0;
    y.grad_tau = learns ? -y.grad_scale / (tau * tau) : 0.0;
    return y;
}

/* After glofnd_step_rows. */
void gf_totals_rows(const gf_plan *p, const gf_totals *sum, glofnd_stats *stats);
/* Adds the sums of glofnd_step_grad. */
void gf_totals_grad(const gf_plan *p, const gf_totals *sum, int quality, glofnd_stats *stats);
