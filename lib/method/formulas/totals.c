/* totals.c - see totals.h. */
#include "method/formulas/totals.h"

#include <math.h>

#include "method/formulas/loss_gradient.h"

void gf_totals_rows(const gf_plan *p, const gf_totals *sum, glofnd_stats *stats) {
    const double anchors = (double)(p->sides * p->rows), rows = (double)(p->sides * p->rows * p->per_sample);
    const double pairs = rows * (double)p->negatives;
    const int quantiles = p->want & GLOFND_WANT_QUANTILE && p->updating && p->o.alpha > 0.0;
    const gf_loss_totals y = gf_totals_loss(p, sum, p->tau, 0);
    *stats = (glofnd_stats){
        .size = sizeof *stats,
        .loss = y.loss,
        .grad_scale = y.grad_scale,
        .grad_tau = y.grad_tau,
        .kept_share = sum->kept / pairs,
        .detector_share = sum->detector_kept / pairs,
        .lambda_mean = sum->lambda / anchors,
        .quantile_mean = quantiles ? sum->quantile / rows : NAN,
        .log_u_mean = sum->log_u / anchors,
        .tau_mean = gf_loss_individual(&p->o) ? sum->tau / anchors : p->tau,
        .precision = NAN,
        .recall = NAN,
        .pairs = (int64_t)pairs,
        .flagged = (int64_t)(pairs - sum->kept),
        .rescued = (int64_t)sum->rescued,
        .repeats = (int64_t)sum->repeats,
        .neighbours = p->neighbours ? sum->neighbours / anchors : 0.0,
    };
}

/* The authors' ranks: the other half of loss and temperature gradient comes from the own columns in the rows of all ranks. */
static void add_rank_half(const gf_plan *p, const gf_totals *sum, glofnd_stats *stats) {
    const double k = (double)p->cols / (double)p->rows;
    stats->loss += 0.5 * k * p->tau * sum->rank_sum;
    stats->grad_scale += 0.5 * k * p->tau * sum->rank_moment;
    stats->grad_tau = -stats->grad_scale / (p->tau * p->tau);
}

void gf_totals_grad(const gf_plan *p, const gf_totals *sum, int quality, glofnd_stats *stats) {
    const double anchors = (double)(p->sides * p->rows);
    if (quality) stats->same += (int64_t)sum->same, stats->hits += (int64_t)sum->hits;
    if (quality && p->masking) {
        stats->precision = sum->precision / anchors;
        stats->recall = sum->recall / anchors;
    }
    if (p->authors_ranks) add_rank_half(p, sum, stats);
}
