/* row.h - the scalar part of a step: one anchor or one row, before, between and after the passes; and its link, what the other
 * rows of the batch need to know of it. */
#pragma once

#include "method/formulas/loss.h"
#include "method/formulas/plan.h"
#include "util/status.h"

/* ----- links: two per sample travel between ranks as bytes ----- */

typedef struct gf_link {
    float theta, floor;   /* keep iff (S <= theta and not of one group) or S <= floor */
    float log_w, inv_tau; /* a kept pair weighs exp(S * inv_tau + log_w) in the gradient; SIGMOID: attract sigma(the same) */
    float pos, attract; /* weight of the positive pair; what a flagged pair is attracted with. Several positives: log_push of the
                             row; what they and flagged pairs are attracted with */
    int32_t kept, tie;  /* kept negatives; FNC TOPK: of the scores equal to theta, columns up to this are flagged */
} gf_link;

#if defined(GLOFND_EXPERIMENTAL) && !defined(__cplusplus)
_Static_assert(GLOFND_LINK_BYTES == 2 * sizeof(gf_link), "links of a sample");
#endif

/* Negatives of own row r of side i. unpaired [own]: pairs of the row that are none, as both ends are one anchor; NULL: there are
 * no such pairs. */
GF_HD int64_t gf_row_negatives(const gf_plan *p, int i, const int32_t *unpaired, int64_t r) {
    return p->negatives[i] - (unpaired ? (int64_t)unpaired[r] : 0);
}

/* ----- before the sums: the range of the new threshold ----- */

typedef struct gf_window { /* see gf_sum_in: lo, mid, hi */
    float lo, mid, hi;
    int open; /* lambda is updated after the sums, somewhere in lo .. hi */
} gf_window;

/* This visit sets lambda to the batch quantile instead of moving it. */
GF_HD int gf_row_starts(const gf_plan *p, const glofnd_anchor *row) {
    if (!p->learner.init_visits || p->learner.shrinks || p->o.learner == GLOFND_LEARN_RING) return 0;
    return p->official ? p->epoch == p->o.update_epoch : row->clock == 0;
}

GF_HD gf_window gf_window_at(float lo, float mid, float hi, int open) {
    gf_window w;
    w.lo = gf_lambda_threshold(lo);
    w.mid = gf_lambda_threshold(mid);
    w.hi = gf_lambda_threshold(hi);
    w.open = open;
    return w;
}

/* Sets the lambda of an anchor where it follows from a quantile alone (lambda_init, RING). Returns 1 if lambda is updated after
 * the sums instead. `quantile`: mean over the anchor's rows, of the batch or of the ring; ring_ready: the ring is long enough to
 * have one. */
GF_HD int gf_row_begin_lambda(const gf_plan *p, glofnd_anchor *row, int ring_ready, double quantile) {
    if (!p->updating || p->pooled) return 0;
    if (p->o.learner == GLOFND_LEARN_RING) {
        if (ring_ready && isfinite(quantile)) gf_lambda_average(row, quantile);
        return 0;
    }
    if (!gf_row_starts(p, row)) return 1;
    gf_lambda_start(row, quantile);
    return 0;
}

/* SHRINKAGE: similarities of a row that are expected above its threshold; equal ones count once. */
GF_HD double gf_row_expects(const gf_plan *p, int i) {
    const int64_t distinct = p->negatives[i] / p->copies;
    return p->learner.alpha * (double)distinct;
}

/* SHRINKAGE: so many are expected that the row's own similarities tell where its anchor starts, not the pool. */
#define GF_OWN_START (2.0 / 3.0)
GF_HD int gf_rows_tell(const gf_plan *p, int i) { return p->pooled && !p->shared && gf_row_expects(p, i) >= GF_OWN_START; }

/* Such an anchor starts in this step. Its flags are as many as expected whatever the pool is, so the pool does not count them. */
GF_HD int gf_row_starts_itself(const gf_plan *p, int i, const glofnd_anchor *row) {
    return p->updating && row->clock == 0 && gf_rows_tell(p, i);
}

/* SHRINKAGE: where a row starts: between the last similarity that is expected above and the next; or, for the pool, if less than
 * one is expected, at the largest one (returns 1), which other pairs of the row do not move. */
GF_HD int gf_pool_place(const gf_plan *p, int i, int64_t *best, double *fraction) {
    const double each = gf_row_expects(p, i), most = (double)(p->negatives[i] / p->copies - 1);
    if (gf_rows_tell(p, i)) *best = (int64_t)fmin(floor(each + 0.5), most) * p->copies + 1, *fraction = 0.5;
    else if (p->pooled && each < 1.0) return *best = 1, *fraction = 0.0, 1;
    return 0;
}

GF_HD gf_window gf_window_of_anchor(const gf_plan *p, glofnd_anchor *row, int ring_ready, double quantile) {
    const int open = gf_row_begin_lambda(p, row, ring_ready, quantile);
    float lo = row->lambda, hi = lo;
    const float mid = lo;
    if (open) gf_lambda_range(&p->learner, row, &lo, &hi);
    return gf_window_at(lo, mid, hi, open);
}

/* One lambda for all anchors. `quantile`: mean over all of them, used if gf_row_starts. */
GF_HD gf_window gf_window_of_shared(const gf_plan *p, glofnd_anchor *row, double quantile) {
    float lo = row->lambda, hi = lo;
    const float mid = lo;
    int open = 0;
    if (p->updating && gf_row_starts(p, row)) {
        gf_lambda_start(row, quantile);
        lo = hi = row->lambda;
    } else if (p->updating) {
        gf_lambda_range(&p->learner, row, &lo, &hi);
        open = p->learned && p->o.learner != GLOFND_LEARN_RING;
    }
    return gf_window_at(lo, mid < lo ? lo : mid > hi ? hi : mid, hi, open);
}

/* POSITIVE, POSITIVE_RELATIVE: the threshold of a row whose positive has this similarity. */
GF_HD float gf_row_positive_threshold(const gf_plan *p, double positive) {
    const double unit = p->o.detector == GLOFND_DETECT_POSITIVE_RELATIVE ? fabs(positive) : 1.0;
    return (float)(positive + p->o.margin * unit);
}

/* FIXED: a sample without a threshold flags nothing. */
GF_HD float gf_guide_threshold(float theta) { return isnan(theta) ? INFINITY : theta; }

/* 1/tau of a row. own_tau: individual temperature of its anchor, 0: none yet. */
GF_HD float gf_row_inv_tau(const gf_plan *p, float own_tau) {
    const double first = fmax(p->o.tau_min, fmin(GF_TAU_MAX, p->tau)), own = own_tau > 0.0f ? (double)own_tau : first;
    return (float)(1.0 / (gf_loss_individual(&p->o) ? own : p->tau));
}

/* ----- after the sums ----- */

typedef struct gf_summed_row { /* of one row; names as in gf_sum_in, gf_sum_out */
    double sum, moment, flagged_s;
    double positive;   /* S of the positive pair */
    int64_t negatives; /* of the row */
    float peak, inv_tau, lo, floor;
    int32_t kept, tie;
} gf_summed_row;

/* A row whose negatives are all flagged keeps the least similar one, s, and those equal to it. */
GF_HD void gf_row_rescue(const gf_plan *p, gf_summed_row *x, float s, int32_t equals) {
    const double omega = p->flags & GF_WEIGHT ? p->o.omega : 0.0;
    const double count = (double)equals, power = (double)s * (double)x->inv_tau;
    if (isinf(x->peak)) x->peak = (float)power;
    const double e = (1.0 - omega) * count * exp(power - (double)x->peak);
    x->floor = s;
    x->kept = equals;
    x->sum += e;
    x->moment += e * (double)s;
    x->flagged_s -= count * (double)s;
}

/* batch_u: official, two views: some anchor of the batch has a u, so that no u starts afresh. */
GF_HD gf_loss_in gf_row_loss_in(const gf_plan *p, const gf_summed_row *x, float log_u, int batch_u) {
    const double n = (double)x->negatives, flagged = n - (double)x->kept;
    gf_loss_in in;
    in.batch = (double)p->cols;
    in.log_batch = p->log_batch;
    in.negatives = n;
    in.weight = (double)x->kept + (p->flags & GF_WEIGHT ? p->o.omega * flagged : 0.0);
    in.log_sum = log(x->sum) + (double)x->peak;
    in.mean_s = p->flags & GF_MOMENT ? x->moment / x->sum : 0.0;
    in.positive = x->positive;
    in.align = p->flags & GF_ATTRACT ? (x->positive + x->flagged_s) / (1.0 + flagged) : x->positive;
    in.tau = gf_loss_individual(&p->o) ? 1.0 / (double)x->inv_tau : p->tau;
    in.log_u = (double)log_u;
    in.gamma = p->gamma;
    in.log_gamma = p->log_gamma, in.log_rest = p->log_rest;
    in.fresh = p->official ? !batch_u : isinf(in.log_u);
    in.others = 0.0, in.log_others = -INFINITY, in.mean_others = 0.0;
    in.bias = p->bias;
    in.terms = x->sum, in.slope = x->flagged_s, in.slope_s = x->moment;
    return in;
}

GF_HD gf_link gf_row_link(const gf_plan *p, const gf_summed_row *x, const gf_loss_out *y) {
    const int sigmoid = p->o.loss == GLOFND_LOSS_SIGMOID;
    const double flagged = (double)(x->negatives - x->kept);
    const double spread = p->flags & GF_ATTRACT && !sigmoid ? y->pull / (1.0 + flagged) : y->pull;
    gf_link l;
    l.theta = p->masking ? x->lo : INFINITY;
    l.floor = p->masking ? x->floor : -INFINITY;
    l.log_w = (float)y->log_w;
    l.inv_tau = x->inv_tau;
    l.pos = (float)(y->push - spread);
    l.attract = sigmoid ? (float)y->pair : p->flags & GF_ATTRACT ? (float)spread : 0.0f;
    l.kept = x->kept;
    l.tie = p->topk && p->masking ? x->tie : 0;
    return l;
}

/* ----- several positives: those of a row beside the one of its own sample -----
 *
 * All k positives of a row count 1/k in `align`; under ATTRACT the flagged ones join them. In the softmax losses all of them stand in
 * the denominator, unscaled, as the only one does. A sigmoid loss has a term for each. */

typedef struct gf_others {
    double n, s;                  /* number; sum of S */
    double peak, sum, moment;     /* sum of exp(S/tau - peak), and of that times S */
    double terms, slope, slope_s; /* SIGMOID: of log(1 + exp(-x)); its derivative; that times S */
} gf_others;

GF_HD void gf_others_init(gf_others *t) {
    const gf_others none = GF_ZERO;
    *t = none;
    t->peak = -INFINITY;
}

GF_HD void gf_others_add(const gf_plan *p, gf_others *t, double s, double inv_tau, double bias) {
    const double x = s * inv_tau;
    t->n += 1.0, t->s += s;
    if (p->o.loss == GLOFND_LOSS_SIGMOID) {
        const double missing = gf_sigma(-(x + bias));
        t->terms += gf_softplus(-(x + bias)), t->slope -= missing, t->slope_s -= missing * s;
        return;
    }
    if (p->o.loss != GLOFND_LOSS_SIMCLR) return;
    if (x > t->peak) {
        const double scale = exp(t->peak - x);
        t->sum *= scale, t->moment *= scale, t->peak = x;
    }
    t->sum += exp(x - t->peak), t->moment += exp(x - t->peak) * s;
}

/* Positives and flagged pairs that share the attraction of a row. */
GF_HD double gf_others_share(const gf_plan *p, const gf_summed_row *x, const gf_others *t) {
    return 1.0 + t->n + (p->flags & GF_ATTRACT ? (double)(x->negatives - x->kept) : 0.0);
}

GF_HD void gf_others_join(const gf_plan *p, const gf_summed_row *x, const gf_others *t, gf_loss_in *in) {
    const double s = x->positive + t->s + (p->flags & GF_ATTRACT ? x->flagged_s : 0.0);
    if (p->o.loss == GLOFND_LOSS_SIGMOID) {
        in->terms += t->terms, in->slope += t->slope, in->slope_s += t->slope_s;
        return;
    }
    in->align = s / gf_others_share(p, x, t);
    if (!(t->sum > 0.0)) return;
    in->others = t->n, in->log_others = log(t->sum) + t->peak, in->mean_others = t->moment / t->sum;
}

GF_HD void gf_others_link(const gf_plan *p, const gf_summed_row *x, const gf_others *t, const gf_loss_out *y, gf_link *l) {
    l->pos = p->o.loss == GLOFND_LOSS_SIMCLR ? (float)y->log_push : -INFINITY;
    if (p->o.loss != GLOFND_LOSS_SIGMOID) l->attract = (float)(y->pull / gf_others_share(p, x, t));
}

/* Weight of a pair of positives in the gradient, from an anchor with these numbers of its link. */
GF_HD float gf_others_weight(const gf_plan *p, float s, float inv_tau, float log_w, float attract, float pos) {
    if (p->o.loss == GLOFND_LOSS_SIGMOID)
        return (float)(-(double)attract * gf_sigma(-((double)s * (double)inv_tau + (double)log_w)));
    return expf(s * inv_tau + pos) - attract;
}

/* Of a row that is no anchor, only a column of others. Its temperature is theirs: where all have one, passes read that of any row. */
GF_HD gf_link gf_no_anchor_link(float inv_tau) {
    gf_link l = GF_ZERO;
    l.theta = INFINITY, l.floor = -INFINITY, l.log_w = -INFINITY, l.inv_tau = inv_tau;
    return l;
}

/* ----- state ----- */

#define GF_TAU_BETA1 0.9
#define GF_TAU_BETA2 0.999

/* ISOGCLR: one Adam step of an individual temperature. */
GF_HD void gf_row_update_tau(const glofnd_options *o, glofnd_anchor *row, double tau, double g) {
    const double clock = (double)++row->tau_clock;
    const double m = GF_TAU_BETA1 * (double)row->tau_m + (1.0 - GF_TAU_BETA1) * g;
    const double v = GF_TAU_BETA2 * (double)row->tau_v + (1.0 - GF_TAU_BETA2) * g * g;
    const double step = m / (1.0 - gf_power(GF_TAU_BETA1, clock)) / (sqrt(v / (1.0 - gf_power(GF_TAU_BETA2, clock))) + 1e-8);
    row->tau_m = (float)m;
    row->tau_v = (float)v;
    row->tau = (float)fmax(o->tau_min, fmin(GF_TAU_MAX, tau - o->tau_lr * step));
}

/* log of the mean of the u of an anchor's rows. */
GF_HD float gf_row_mean_u(const double *log_u, int count) {
    return (float)(count == 2 ? gf_log_add(log_u[0], log_u[1]) - log(2.0) : log_u[0]);
}

/* SIMCLR, CLIP, SIGMOID: no moving average is kept. */
GF_HD int gf_row_keeps_u(const gf_plan *p) { return p->o.loss != GLOFND_LOSS_SIMCLR && p->o.loss != GLOFND_LOSS_SIGMOID; }

/* ----- gradient ----- */

/* Threshold of a row in the gradient. Without groups and ties the floor is a lower bound of it. */
GF_HD float gf_row_theta(const gf_plan *p, const gf_link *l) {
    return p->flags & (GF_GROUP | GF_MARKS) || p->topk ? l->theta : fmaxf(l->theta, l->floor);
}

/* ----- the loss, of the sums over all rows ----- */

typedef struct gf_loss_totals {
    double loss, grad_scale, grad_tau;
} gf_loss_totals;

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
    /* One temperature that the caller may learn. The authors compute its gradient for SOGCLR on image and text, too, then freeze it. */
    const int learns = p->o.loss == GLOFND_LOSS_FASTCLIP || p->o.loss == GLOFND_LOSS_SIGMOID ||
                       (p->sides == 2 && (p->o.loss == GLOFND_LOSS_SIMCLR || (p->official && p->o.loss == GLOFND_LOSS_SOGCLR)));
    if (!learns) y.grad_scale = 0.0;
    y.grad_tau = learns ? -y.grad_scale / (tau * tau) : 0.0;
    return y;
}
