/* totals.c - see totals.h. */
#include "method/formulas/totals.h"

#include <math.h>

/* The authors compute the gradient of SOGCLR2's temperature, then freeze it. */
static int learns_tau(const gf_plan *p) {
    const glofnd_loss loss = p->o.loss;
    return loss == GLOFND_LOSS_CLIP || loss == GLOFND_LOSS_FASTCLIP || (p->official && loss == GLOFND_LOSS_SOGCLR2);
}

static double rank_count(const gf_plan *p) { return (double)p->cols / (double)p->rows; }

void gf_totals_rows(const gf_plan *p, const gf_totals *sum, glofnd_stats *stats) {
    const double anchors = (double)(p->sides * p->rows), rows = (double)(p->sides * p->rows * p->per_sample);
    const double pairs = rows * (double)p->negatives;
    const int quantiles = p->want & GLOFND_WANT_QUANTILE && p->updating && p->o.alpha > 0.0;
    double loss = sum->loss, grad_scale = sum->grad_scale;
    if (p->authors_ranks) {
        /* The authors' ranks report K times their share, the part of the ratio by half; pass C adds the other half. */
        const double k = rank_count(p);
        loss = k * (loss - 0.5 * sum->rank_part);
        grad_scale = k * (grad_scale - 0.5 * sum->rank_part_scale);
    }
    *stats = (glofnd_stats){
        .size = sizeof *stats,
        .loss = loss,
        .grad_scale = learns_tau(p) ? grad_scale : 0.0,
        .grad_tau = learns_tau(p) ? -grad_scale / (p->tau * p->tau) : 0.0,
        .kept_share = sum->kept / pairs,
        .detector_share = sum->detector_kept / pairs,
        .lambda_mean = sum->lambda / anchors,
        .quantile_mean = quantiles ? sum->quantile / rows : NAN,
        .log_u_mean = sum->log_u / anchors,
        .tau_mean = p->o.loss == GLOFND_LOSS_ISOGCLR ? sum->tau / anchors : p->tau,
        .precision = NAN,
        .recall = NAN,
        .pairs = (int64_t)pairs,
        .flagged = (int64_t)(pairs - sum->kept),
        .rescued = (int64_t)sum->rescued,
        .repeats = (int64_t)sum->repeats,
    };
}

/* The authors' ranks: the other half of loss and temperature gradient comes from the own columns in the rows of all ranks. */
static void add_rank_half(const gf_plan *p, const gf_totals *sum, glofnd_stats *stats) {
    const double k = rank_count(p);
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
