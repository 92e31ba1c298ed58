/* totals.h - sums of a step over its rows, and the statistics made of them. */
#pragma once

#include "method/formulas/epoch_plan.h"

typedef struct gf_totals { /* doubles only: a device adds them up as one array */
    double loss, grad_scale, rank_part, rank_part_scale, log_u, kept, detector_kept; /* over own rows; log_u over own anchors */
    double lambda, tau, quantile; /* of own anchors after the step; of own rows, if wanted */
    double rescued, repeats;
    double precision, recall, same, hits; /* WANT_QUALITY: sums over anchors */
    double rank_sum, rank_moment;         /* authors_ranks: pass C's half */
} gf_totals;

/* After glofnd_step_rows. */
void gf_totals_rows(const gf_plan *p, const gf_totals *sum, glofnd_stats *stats);
/* Adds the sums of glofnd_step_grad. */
void gf_totals_grad(const gf_plan *p, const gf_totals *sum, int quality, glofnd_stats *stats);
