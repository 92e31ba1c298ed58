/* step_lambda.c - passes A and B: update of the thresholds lambda, and sums over the similarities at or below them.
 *
 * The order of the paper is: count above the old lambda, update lambda, mask with the new one. Counting and summing need the same
 * similarities, so they share one pass. gf_lambda_range gives the window in which the new lambda will lie; the pass sums what is
 * below the window and lists what is inside; after the update the list joins the sums. If a list overflows or a bound was too
 * tight, the pass is repeated with the new lambda known ("repeats"). Where flags are marks (step_marks.c), pairs are counted in
 * a pass of their own, and lambda is updated before pass B.
 */
#include <math.h>
#include <string.h>

#include "method/options.h"
#include "method/step.h"
#include "util/array.h"

/* ---- selections: exact order statistics of the rows ---- */

static gf_select selection(const gf_step *t, int i, const gf_embed *q, const gf_embed *k) {
    gf_side *side = &t->ws->side[i];
    return (gf_select){
        .q = q,
        .k = k,
        .q0 = t->q->row0 * t->shape->per_sample,
        .shift = (int)t->shape->per_sample - 1,
        .best = t->shape->best,
        .value = side->quantile,
        .scratch = t->ws->select_scratch,
        .threads = (int)t->shape->threads,
        .symmetric = t->plan.one_rank && t->shape->sides == 1,
        .tile = t->shape->tile,
        .tile_scratch = t->ws->tile_scratch,
    };
}

/* quantile[] of side i: the (1-alpha) quantile of each own row's similarities in this batch. `keep`: before pass B, which
 * gets the tiles where they are the same. */
static void batch_quantiles(gf_step *t, int i, int keep) {
    const gf_embed own = gf_step_own(t, gf_step_judged(t, i));
    gf_select p = selection(t, i, &own, gf_step_judged(t, gf_step_other(t, i)));
    gf_quantile_place(t->shape->negatives, gf_plan_copies(&t->plan), t->o->alpha, &p.best, &p.fraction);
    p.lists = t->ws->side[i].lists;
    p.rounded = t->ws->side[i].rounded;
    if (keep && t->reuse && i == 0 && t->plan.one_rank && !t->plan.bank && p.lists.capacity > 0) p.tiles = t->ws->tiles;
    t->tiles_made |= p.tiles != NULL;
    gf_cpu_select(&p);
}

/* FNC TOPK: the score of the last flagged column, and the last column among those of equal score that is flagged. */
static void batch_topk(const gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    const gf_embed own = gf_step_own(t, t->q->support_a ? &side->support : &side->z);
    gf_select p = selection(t, i, &own, &t->ws->side[gf_step_other(t, i)].z);
    p.copies = gf_step_copies(t);
    p.copy_stride = t->shape->all;
    p.best = gf_top_count(t->shape->negatives, t->o->alpha);
    p.tie = side->own.tie;
    if (p.copies <= 1) p.lists = side->lists;
    p.symmetric &= !t->q->support_a;
    gf_cpu_select(&p);
}

/* FNC THRESHOLD as a top k whose last score is the next number above the threshold: all equal to it are flagged. */
static void fixed_threshold(const gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    for (int64_t r = 0; r < t->shape->own; r++) {
        side->quantile[r] = nextafterf((float)t->o->fnc_threshold, INFINITY);
        side->own.tie[r] = INT32_MAX;
    }
}

/* quantile[] of side i against the ring of remembered embeddings. */
static void ring_quantiles(const gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    const gf_ring *ring = &t->s->ring[gf_step_other(t, i)];
    gf_embed *k = &side->ring;
    k->rows = t->s->ring_count;
    for (int64_t r = 0; r < k->rows; r++) {
        memcpy(k->row + r * k->ld, ring->rows + r * k->dim, sizeof(float) * (size_t)k->dim);
        memset(k->row + r * k->ld + k->dim, 0, sizeof(float) * (size_t)(k->ld - k->dim));
    }
    gf_cpu_pack(k, (int)t->shape->threads);
    for (int64_t r = 0; r < t->shape->own; r++) side->row_id[r] = t->q->id[t->q->row0 + r / t->shape->per_sample];
    const gf_embed own = gf_step_own(t, gf_step_judged(t, i));
    gf_select p = selection(t, i, &own, k);
    p.shift = -1;
    p.row_id = side->row_id;
    p.col_id = ring->id;
    p.alpha = t->o->alpha;
    gf_cpu_select(&p);
}

/* ---- before the pass: windows of the new thresholds ---- */

static double anchor_quantile(const gf_step *t, const gf_side *side, int64_t anchor) {
    double sum = 0.0;
    for (int v = 0; v < t->shape->per_sample; v++) sum += (double)side->quantile[anchor * t->shape->per_sample + v];
    return sum / t->shape->per_sample;
}

static void set_window(const gf_step *t, gf_rows *x, int64_t anchor, gf_window w) {
    for (int v = 0; v < t->shape->per_sample; v++) {
        const int64_t r = anchor * t->shape->per_sample + v;
        x->lo[r] = w.lo, x->mid[r] = w.mid, x->hi[r] = w.hi;
    }
}

static int ring_ready(const gf_step *t) { return (double)t->s->ring_count >= ceil(1.0 / t->o->alpha); }

/* One lambda for all anchors: every row gets its window. */
static glofnd_status open_shared(gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    glofnd_anchor *row = &t->shared_row[i];
    double sum[2] = {0.0, (double)t->q->rows};
    if (t->plan.updating && gf_row_starts(&t->plan, row)) {
        batch_quantiles(t, i, 1);
        for (int64_t a = 0; a < t->q->rows; a++) sum[0] += anchor_quantile(t, side, a);
        TRY(gf_step_sum(t, sum, 2));
    }
    const gf_window w = gf_window_of_shared(&t->plan, row, sum[0] / sum[1]);
    t->moves[i] = w.open;
    for (int64_t a = 0; a < t->q->rows; a++) set_window(t, &side->own, a, w);
    return GLOFND_OK;
}

static void open_anchor(gf_step *t, int i, int64_t a) {
    gf_side *side = &t->ws->side[i];
    const gf_window w = gf_window_of_anchor(&t->plan, &side->fresh_state[a], ring_ready(t), anchor_quantile(t, side, a));
    side->open[a] = (uint8_t)w.open;
    set_window(t, &side->own, a, w);
}

static int any_starts(const gf_step *t, int i) {
    for (int64_t a = 0; a < t->q->rows; a++)
        if (gf_row_starts(&t->plan, &t->ws->side[i].state[a])) return 1;
    return 0;
}

static glofnd_status open_learned(gf_step *t, int i) {
    if (t->plan.shared) return open_shared(t, i);
    if (t->plan.updating && t->o->learner == GLOFND_LEARN_RING && ring_ready(t)) ring_quantiles(t, i);
    else if (t->plan.updating && any_starts(t, i)) batch_quantiles(t, i, 1);
    for (int64_t a = 0; a < t->q->rows; a++) open_anchor(t, i, a);
    return GLOFND_OK;
}

/* Sets lo, mid, hi of every own row of side i. */
static glofnd_status open_windows(gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    t->moves[i] = 0;
    if (t->plan.learned) return open_learned(t, i);
    if (t->plan.topk && t->o->fnc_rule == GLOFND_FNC_THRESHOLD) fixed_threshold(t, i);
    else if (t->plan.topk) batch_topk(t, i);
    else if (t->plan.thresholds) batch_quantiles(t, i, 1);
    for (int64_t r = 0; r < t->shape->own; r++)
        side->own.lo[r] = side->own.mid[r] = side->own.hi[r] = t->plan.thresholds ? side->quantile[r] : INFINITY;
    return GLOFND_OK;
}

/* ---- the pass ---- */

static void clear_sums(const gf_step *t) {
    const int64_t n = t->shape->own;
    for (int i = 0; i < t->shape->sides; i++) {
        gf_rows *x = &t->ws->side[i].own;
        memset(x->sum, 0, sizeof *x->sum * (size_t)n), memset(x->moment, 0, sizeof *x->moment * (size_t)n);
        memset(x->flagged_s, 0, sizeof *x->flagged_s * (size_t)n), memset(x->kept, 0, sizeof *x->kept * (size_t)n);
        memset(x->window_n, 0, sizeof *x->window_n * (size_t)n), memset(x->window_le, 0, sizeof *x->window_le * (size_t)n);
        memset(x->above, 0, sizeof *x->above * (size_t)n);
        for (int64_t r = 0; r < n; r++) x->peak[r] = t->plan.flags & GF_SHIFT ? -INFINITY : 0.0f;
    }
}

static void sum_rows(gf_step *t) {
    gf_side *side = t->ws->side;
    clear_sums(t);
    if (t->plan.one_rank && !t->plan.topk) { /* every similarity once, for both of its anchors */
        const int other = gf_step_other(t, 0);
        gf_pass p = gf_step_pass(t, 0);
        p.q = &side[0].z;
        p.row = &side[0].own;
        p.col = &side[other].own;
        p.col_role = 1;
        p.symmetric = t->shape->sides == 1;
        if (t->reuse && p.tiles) p.flags |= t->tiles_made ? GF_REUSE_TILES : GF_KEEP_TILES;
        gf_cpu_stats(&p);
        return;
    }
    for (int i = 0; i < t->shape->sides; i++) {
        gf_own_pass x;
        gf_step_own_pass(t, i, side[i].own, &x);
        gf_cpu_stats(&x.p);
    }
}

/* ---- after the pass: lambda is updated, windows are closed ---- */

static double count_above_old(const gf_step *t, const gf_rows *x, int64_t r) {
    if (t->plan.flags & GF_GROUP || t->plan.marked) return (double)x->above[r];
    return (double)(t->shape->negatives - x->kept[r] - x->window_le[r]);
}

static glofnd_status update_shared(gf_step *t, int i) {
    double sum[2] = {0.0, (double)(t->shape->own * t->shape->negatives)};
    for (int64_t r = 0; r < t->shape->own; r++) sum[0] += count_above_old(t, &t->ws->side[i].own, r);
    TRY(gf_step_sum(t, sum, 2));
    gf_lambda_update(&t->plan.learner, &t->shared_row[i], sum[0] / sum[1]);
    return GLOFND_OK;
}

static void update_anchors(const gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    const int per_sample = t->shape->per_sample;
    for (int64_t a = 0; a < t->q->rows; a++) {
        double above = 0.0;
        if (!side->open[a]) continue;
        for (int v = 0; v < per_sample; v++) above += count_above_old(t, &side->own, a * per_sample + v);
        gf_lambda_update(&t->plan.learner, &side->fresh_state[a], above / (double)(per_sample * t->shape->negatives));
    }
}

/* lo = hi = the new lambda; 1: it lies in the window of every row, and the lists are complete. */
static int close_windows(const gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    gf_rows *x = &side->own;
    int complete = 1;
    for (int64_t r = 0; r < t->shape->own; r++) {
        const glofnd_anchor *row = t->plan.shared ? &t->shared_row[i] : &side->fresh_state[r / t->shape->per_sample];
        const float lambda = gf_lambda_threshold(row->lambda);
        complete &= lambda >= x->lo[r] && lambda <= x->hi[r] && x->window_n[r] <= t->shape->window_cap;
        x->lo[r] = x->hi[r] = x->mid[r] = lambda;
    }
    return complete;
}

static glofnd_status update_sides(gf_step *t) {
    for (int i = 0; i < t->shape->sides; i++) {
        if (t->plan.shared && t->moves[i]) TRY(update_shared(t, i));
        else if (!t->plan.shared) update_anchors(t, i);
    }
    return GLOFND_OK;
}

/* Marks need the new lambda, so it is updated first. */
static glofnd_status update_and_mark(gf_step *t) {
    if (t->plan.learned && t->plan.updating) {
        gf_step_count(t);
        TRY(update_sides(t));
        for (int i = 0; i < t->shape->sides; i++) close_windows(t, i);
    }
    gf_step_mark_own(t);
    return GLOFND_OK;
}

static glofnd_status update_lambdas(gf_step *t) {
    int complete = 1;
    TRY(update_sides(t));
    for (int i = 0; i < t->shape->sides; i++) complete &= close_windows(t, i);
    if (!complete) {
        t->repeats++;
        sum_rows(t);
        return GLOFND_OK;
    }
    for (int i = 0; i < t->shape->sides; i++) {
        gf_own_pass x;
        gf_step_own_pass(t, i, t->ws->side[i].own, &x);
        gf_cpu_close_windows(&x.p);
    }
    return GLOFND_OK;
}

/* ---- rows without negatives ---- */

/* A row whose negatives are all flagged keeps the least similar one, and those equal to it. */
static void rescue(gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    gf_rows *x = &side->own;
    int64_t empty = 0;
    for (int64_t r = 0; r < t->shape->own; r++) {
        x->floor[r] = -INFINITY;
        empty += x->kept[r] == 0;
    }
    if (empty == 0 || !t->plan.masking || t->plan.official) return;
    const gf_embed own = gf_step_own(t, &side->z);
    gf_select p = selection(t, i, &own, &t->ws->side[gf_step_other(t, i)].z);
    p.smallest = 1;
    p.tie = x->window_le; /* free now: how many equal the smallest */
    gf_cpu_select(&p);
    for (int64_t r = 0; r < t->shape->own; r++) {
        if (x->kept[r] != 0) continue;
        gf_summed_row sums = gf_step_summed_row(t, i, r);
        gf_row_rescue(&t->plan, &sums, side->quantile[r], x->window_le[r]);
        x->peak[r] = sums.peak, x->floor[r] = sums.floor, x->kept[r] = sums.kept;
        x->sum[r] = sums.sum, x->moment[r] = sums.moment, x->flagged_s[r] = sums.flagged_s;
        t->rescued++;
    }
}

/* ---- entry ---- */

static void load_state(gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    const int64_t *id = gf_step_slots(t->q);
    if (t->plan.learned && !t->plan.shared) gf_store_gather(t->s, i, id, t->q->rows, side->state);
    else gf_store_gather_own(t->s, i, id, t->q->rows, side->state); /* the shared lambda is not copied to anchors yet */
    memcpy(side->fresh_state, side->state, sizeof *side->state * (size_t)t->q->rows);
    t->shared_row[i] = gf_store_shared_get(t->s, i);
    for (int64_t r = 0; r < t->shape->own; r++)
        side->own.inv_tau[r] = gf_row_inv_tau(&t->plan, side->state[r / t->shape->per_sample].tau);
}

glofnd_status gf_step_detect(gf_step *t) {
    for (int i = 0; i < t->shape->sides; i++) {
        load_state(t, i);
        TRY(open_windows(t, i));
    }
    if (t->plan.marked) TRY(update_and_mark(t));
    sum_rows(t);
    if (t->plan.learned && t->plan.updating && !t->plan.marked) TRY(update_lambdas(t));
    for (int i = 0; i < t->shape->sides; i++) {
        memcpy(t->ws->side[i].detector_kept, t->ws->side[i].own.kept, sizeof(int32_t) * (size_t)t->shape->own);
        rescue(t, i);
        if (t->q->want & GLOFND_WANT_QUANTILE && t->plan.updating && t->o->alpha > 0.0) batch_quantiles(t, i, 0);
    }
    return GLOFND_OK;
}
