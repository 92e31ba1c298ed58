/* step_rows.c - the end of the first half of a step: rows get their loss, their weights, and their anchors' new state. */
#include <math.h>
#include <string.h>

#include "fnd/step.h"

/* Row r of side i is link 2 * sample + (view or side). */
static glofnd_link *link_of(const gf_step *t, glofnd_link *links, int i, int64_t r) {
    return &links[t->shape->per_sample == 2 ? r : 2 * r + i];
}

/* ---- what pass B left, as a loss wants it ---- */

static void summarize(const gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    gf_rows *x = &side->own;
    const double n = (double)t->shape->negatives;
    const int attract = (t->flags & GF_ATTRACT) != 0;
    for (int64_t r = 0; r < t->shape->own; r++) {
        if (!t->masking) x->kept[r] = (int32_t)t->shape->negatives;
        const double flagged = n - (double)x->kept[r];
        side->weight[r] = (double)x->kept[r] + (t->flags & GF_WEIGHT ? t->o->omega * flagged : 0.0);
        side->log_sum[r] = log(x->sum[r]) + (double)x->peak[r];
        side->mean_s[r] = t->flags & GF_MOMENT ? x->moment[r] / x->sum[r] : 0.0;
        side->align[r] = attract ? (side->positive[r] + x->flagged_s[r]) / (1.0 + flagged) : side->positive[r];
    }
}

/* Official, two views: u starts anew only if no anchor of the whole batch has one. */
static glofnd_status batch_has_u(gf_step *t, int *has) {
    double seen = 0.0;
    for (int64_t a = 0; a < t->q->rows; a++) seen += t->ws->side[0].state[a].log_u > -INFINITY;
    TRY(gf_step_sum(t, &seen, 1));
    *has = seen > 0.0;
    return GLOFND_OK;
}

static gf_loss_in loss_input(const gf_step *t, int i, int64_t r, int batch_u) {
    const gf_side *side = &t->ws->side[i];
    const glofnd_row *row = &side->state[r / t->shape->per_sample];
    const double log_u = (double)row->log_u;
    return (gf_loss_in){
        .batch = (double)t->q->cols,
        .negatives = (double)t->shape->negatives,
        .weight = side->weight[r],
        .log_sum = side->log_sum[r],
        .mean_s = side->mean_s[r],
        .positive = side->positive[r],
        .align = side->align[r],
        .tau = t->o->loss == GLOFND_LOSS_ISOGCLR ? 1.0 / (double)side->own.inv_tau[r] : t->tau,
        .log_u = log_u,
        .gamma = t->gamma,
        .fresh = t->official ? !batch_u : isinf(log_u),
    };
}

static glofnd_link link_from(const gf_step *t, int i, int64_t r, const gf_loss_out *y) {
    const gf_rows *x = &t->ws->side[i].own;
    const double flagged = (double)(t->shape->negatives - x->kept[r]);
    const double spread = t->flags & GF_ATTRACT ? y->pull / (1.0 + flagged) : y->pull;
    return (glofnd_link){
        .theta = t->masking ? x->lo[r] : INFINITY,
        .floor = t->masking ? x->floor[r] : -INFINITY,
        .log_w = (float)y->log_w,
        .inv_tau = x->inv_tau[r],
        .pos = (float)(y->push - spread),
        .attract = t->flags & GF_ATTRACT ? (float)spread : 0.0f,
        .kept = x->kept[r],
        .tie = t->topk && t->masking ? x->tie[r] : 0,
    };
}

/* ---- state ---- */

/* ISOGCLR: one Adam step of an anchor's own temperature. */
static void move_tau(const gf_step *t, glofnd_row *row, double tau, double g) {
    const glofnd_options *o = t->o;
    const double clock = (double)++row->tau_clock;
    const double m = o->tau_beta1 * (double)row->tau_m + (1.0 - o->tau_beta1) * g;
    const double v = o->tau_beta2 * (double)row->tau_v + (1.0 - o->tau_beta2) * g * g;
    const double step = m / (1.0 - pow(o->tau_beta1, clock)) / (sqrt(v / (1.0 - pow(o->tau_beta2, clock))) + 1e-8);
    row->tau_m = (float)m;
    row->tau_v = (float)v;
    row->tau = (float)fmax(o->tau_min, fmin(o->tau_max, tau - o->tau_lr * step));
}

/* log of the mean of the u of an anchor's rows. */
static float mean_u(const double *log_u, int count) {
    return (float)(count == 2 ? gf_log_add(log_u[0], log_u[1]) - log(2.0) : log_u[0]);
}

/* ---- stats ---- */

typedef struct totals {
    double loss, grad_scale, rank_part, rank_part_scale, log_u, kept, would;
} totals;

static void add_row(totals *sum, const gf_step *t, int i, int64_t r, const gf_loss_out *y) {
    const gf_side *side = &t->ws->side[i];
    sum->loss += y->loss;
    sum->grad_scale += y->grad_scale;
    sum->rank_part += y->rank_part;
    sum->rank_part_scale += y->rank_part_scale;
    sum->kept += (double)side->own.kept[r];
    sum->would += t->flags & GF_COUNT ? (double)side->would[r] : (double)t->shape->negatives;
}

static double mean_lambda(const gf_step *t) {
    const int shared = t->shared && (t->updating || t->o->detector == GLOFND_DETECT_SINGLE);
    double sum = 0.0;
    for (int i = 0; i < t->shape->sides; i++)
        for (int64_t a = 0; a < t->q->rows; a++)
            sum += (double)(shared ? t->shared_row[i].lambda : t->ws->side[i].fresh_state[a].lambda);
    return sum / (double)(t->shape->sides * t->q->rows);
}

static double mean_quantile(const gf_step *t) {
    double sum = 0.0;
    if (!(t->q->want & GLOFND_WANT_QUANTILE && t->updating && t->o->alpha > 0.0)) return NAN;
    for (int i = 0; i < t->shape->sides; i++)
        for (int64_t r = 0; r < t->shape->own; r++) sum += (double)t->ws->side[i].quantile[r];
    return sum / (double)(t->shape->sides * t->shape->own);
}

static double mean_tau(const gf_step *t) {
    double sum = 0.0;
    if (t->o->loss != GLOFND_LOSS_ISOGCLR) return t->tau;
    for (int i = 0; i < 2; i++)
        for (int64_t a = 0; a < t->q->rows; a++) sum += (double)t->ws->side[i].fresh_state[a].tau;
    return sum / (double)(2 * t->q->rows);
}

static void fill_stats(const gf_step *t, const totals *sum, glofnd_stats *stats) {
    const double rows = (double)(t->shape->sides * t->shape->own), pairs = rows * (double)t->shape->negatives;
    double loss = sum->loss, grad_scale = sum->grad_scale;
    if (t->authors_ranks) {
        /* The authors' ranks report K times their share, the part of the ratio by half; pass C adds the other half. */
        const double k = (double)t->q->cols / (double)t->q->rows;
        loss = k * (loss - 0.5 * sum->rank_part);
        grad_scale = k * (grad_scale - 0.5 * sum->rank_part_scale);
    }
    const int learns_tau = t->o->loss == GLOFND_LOSS_CLIP || t->o->loss == GLOFND_LOSS_FASTCLIP ||
                           (t->official && t->o->loss == GLOFND_LOSS_SOGCLR2); /* the authors compute it, then freeze tau */
    *stats = (glofnd_stats){
        .loss = loss,
        .grad_scale = learns_tau ? grad_scale : 0.0,
        .grad_tau = learns_tau ? -grad_scale / (t->tau * t->tau) : 0.0,
        .kept_share = sum->kept / pairs,
        .detector_share = sum->would / pairs,
        .lambda_mean = mean_lambda(t),
        .quantile_mean = mean_quantile(t),
        .log_u_mean = sum->log_u / (double)(t->shape->sides * t->q->rows),
        .tau_mean = mean_tau(t),
        .precision = NAN,
        .recall = NAN,
        .pairs = (int64_t)pairs,
        .flagged = (int64_t)(pairs - sum->kept),
        .rescued = t->rescued,
        .repeats = t->repeats,
    };
}

/* ---- entry ---- */

static void finish_anchor(const gf_step *t, int i, int64_t a, int batch_u, glofnd_link *links, totals *sum) {
    const gf_loss_row loss = gf_loss_of(t->o);
    glofnd_row *row = &t->ws->side[i].fresh_state[a];
    const int per_sample = t->shape->per_sample;
    double log_u[2];
    for (int v = 0; v < per_sample; v++) {
        const int64_t r = a * per_sample + v;
        const gf_loss_in x = loss_input(t, i, r, batch_u);
        const gf_loss_out y = loss(t->o, &x);
        log_u[v] = y.log_u;
        *link_of(t, links, i, r) = link_from(t, i, r, &y);
        add_row(sum, t, i, r, &y);
        if (t->o->loss == GLOFND_LOSS_ISOGCLR) move_tau(t, row, x.tau, y.grad_tau);
    }
    if (t->o->loss == GLOFND_LOSS_SIMCLR || t->o->loss == GLOFND_LOSS_CLIP) return; /* no moving average */
    row->log_u = mean_u(log_u, per_sample);
    sum->log_u += (double)row->log_u;
}

static void save_state(const gf_step *t) {
    const int64_t *id = t->q->id + t->q->row0;
    for (int i = 0; i < t->shape->sides; i++) {
        gf_store_scatter(t->s, i, id, t->q->rows, t->ws->side[i].fresh_state);
        if (t->shared && t->updating) gf_store_shared_put(t->s, i, &t->shared_row[i]);
    }
}

static void remember(const gf_step *t) {
    const gf_side *side = t->ws->side;
    const int64_t all = t->shape->all;
    if (t->shape->ring == 0) return;
    int64_t *id = t->ws->id_scratch;
    for (int64_t r = 0; r < all; r++) id[r] = t->q->id[r / t->shape->per_sample];
    const float *rows[2] = {side[0].z.row, t->shape->sides == 2 ? side[1].z.row : NULL};
    gf_store_ring_push(t->s, rows, side[0].z.ld, id, all);
}

glofnd_status gf_step_finish(gf_step *t, glofnd_link *links, glofnd_stats *stats) {
    int batch_u = 1;
    totals sum = {0};
    if (t->official && t->shape->sides == 1) TRY(batch_has_u(t, &batch_u));
    for (int i = 0; i < t->shape->sides; i++) {
        summarize(t, i);
        for (int64_t a = 0; a < t->q->rows; a++) finish_anchor(t, i, a, batch_u, links, &sum);
    }
    if (stats) fill_stats(t, &sum, stats);
    save_state(t);
    remember(t);
    return GLOFND_OK;
}
