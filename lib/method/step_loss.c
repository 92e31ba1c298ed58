/* step_loss.c - after pass B: every row gets its loss and its weights in the gradient, every anchor its new state. */
#include <math.h>
#include <string.h>

#include "method/step.h"

/* Row r of side i is link 2 * sample + (view or side). */
static gf_link *link_of(const gf_step *t, gf_link *links, int i, int64_t r) {
    return &links[t->shape->per_sample == 2 ? r : 2 * r + i];
}

/* ---- input of the loss ---- */

gf_summed_row gf_step_summed_row(const gf_step *t, int i, int64_t r) {
    const gf_side *side = &t->ws->side[i];
    const gf_rows *x = &side->own;
    return (gf_summed_row){
        .sum = x->sum[r],
        .moment = x->moment[r],
        .flagged_s = x->flagged_s[r],
        .positive = side->positive[r],
        .peak = x->peak[r],
        .inv_tau = x->inv_tau[r],
        .lo = x->lo[r],
        .floor = x->floor[r],
        .kept = t->plan.masking ? x->kept[r] : (int32_t)t->shape->negatives,
        .tie = x->tie[r],
    };
}

/* Official, two views: u starts afresh only if no anchor of the whole batch has one. */
static glofnd_status batch_has_u(gf_step *t, int *has) {
    double seen = 0.0;
    for (int64_t a = 0; a < t->q->rows; a++) seen += t->ws->side[0].state[a].log_u > -INFINITY;
    TRY(gf_step_sum(t, &seen, 1));
    *has = seen > 0.0;
    return GLOFND_OK;
}

/* ---- stats ---- */

static void add_row(gf_totals *sum, const gf_step *t, int i, int64_t r, const gf_summed_row *x, const gf_loss_out *y) {
    const gf_side *side = &t->ws->side[i];
    sum->loss += y->loss;
    sum->grad_scale += y->grad_scale;
    sum->rank_part += y->rank_part;
    sum->rank_part_scale += y->rank_part_scale;
    sum->kept += (double)x->kept;
    sum->detector_kept += t->plan.flags & GF_COUNT ? (double)side->detector_kept[r] : (double)t->shape->negatives;
    sum->quantile += (double)side->quantile[r];
}

static void add_state(gf_totals *sum, const gf_step *t) {
    const int shared = t->plan.shared && (t->plan.updating || t->o->detector == GLOFND_DETECT_SINGLE);
    for (int i = 0; i < t->shape->sides; i++)
        for (int64_t a = 0; a < t->q->rows; a++) {
            const glofnd_anchor *row = &t->ws->side[i].fresh_state[a];
            sum->lambda += (double)(shared ? t->shared_row[i].lambda : row->lambda);
            sum->tau += (double)row->tau;
        }
    sum->rescued = (double)t->rescued;
    sum->repeats = (double)t->repeats;
}

/* ---- entry ---- */

static void finish_anchor(const gf_step *t, int i, int64_t a, int batch_u, gf_link *links, gf_totals *sum) {
    const float old_u = t->ws->side[i].state[a].log_u;
    glofnd_anchor *row = &t->ws->side[i].fresh_state[a];
    const int per_sample = t->plan.per_sample;
    double log_u[2], tau = 0.0, grad_tau = 0.0;
    for (int v = 0; v < per_sample; v++) {
        const int64_t r = a * per_sample + v;
        const gf_summed_row x = gf_step_summed_row(t, i, r);
        const gf_loss_in in = gf_row_loss_in(&t->plan, &x, old_u, batch_u);
        const gf_loss_out y = gf_loss_gradient(t->o, &in);
        log_u[v] = y.log_u;
        *link_of(t, links, i, r) = gf_row_link(&t->plan, &x, &y);
        add_row(sum, t, i, r, &x, &y);
        tau = in.tau;
        grad_tau += y.grad_tau / per_sample; /* two views share the temperature of their anchor */
    }
    if (gf_loss_individual(t->o)) gf_row_update_tau(t->o, row, tau, grad_tau);
    if (!gf_row_keeps_u(&t->plan)) return;
    row->log_u = gf_row_mean_u(log_u, per_sample);
    sum->log_u += (double)row->log_u;
}

static void save_state(const gf_step *t) {
    const int64_t *id = gf_step_slots(t->q);
    for (int i = 0; i < t->shape->sides; i++) {
        gf_store_scatter(t->s, i, id, t->q->rows, t->ws->side[i].fresh_state);
        if (t->plan.shared && t->plan.updating) gf_store_shared_put(t->s, i, &t->shared_row[i]);
    }
}

static void remember(const gf_step *t) {
    const gf_side *side = t->ws->side;
    const int64_t all = t->shape->all;
    if (t->shape->ring == 0) return;
    int64_t *id = t->ws->id_scratch;
    for (int64_t r = 0; r < all; r++) id[r] = t->q->id[r / t->shape->per_sample];
    const float *rows[2] = {gf_step_judged(t, 0)->row, t->shape->sides == 2 ? gf_step_judged(t, 1)->row : NULL};
    gf_store_ring_push(t->s, rows, side[0].z.ld, id, all);
}

glofnd_status gf_step_finish(gf_step *t, gf_link *links, glofnd_stats *stats) {
    int batch_u = 1;
    gf_totals sum = {0};
    if (t->plan.official && t->shape->sides == 1) TRY(batch_has_u(t, &batch_u));
    for (int i = 0; i < t->shape->sides; i++)
        for (int64_t a = 0; a < t->q->rows; a++) finish_anchor(t, i, a, batch_u, links, &sum);
    add_state(&sum, t);
    gf_step_neighbours_loss(t, &sum);
    gf_totals_rows(&t->plan, &sum, stats);
    if (t->q->want & GLOFND_WANT_NO_UPDATE) return GLOFND_OK;
    save_state(t);
    gf_step_bank_save(t);
    remember(t);
    return GLOFND_OK;
}
