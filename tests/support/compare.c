/* compare.c - library and reference side by side. See compare.h. */
#include "compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "method/store.h"
#include "on_device.h"
#include "support/losses.h"
#include "util/dtype.h"

void expect_near(const char *scene_name, int step, const char *what, double got, double want, double tolerance) {
    if (isnan(got) && isnan(want)) return;
    if (got == want || fabs(got - want) <= tolerance) return;
    fail_msg("%s, step %d: %s is %.9g, expected %.9g (off by %.2e, allowed %.2e)", scene_name, step, what, got, want,
             fabs(got - want), tolerance);
}

void expect_equal(const char *scene_name, int step, const char *what, int64_t got, int64_t want) {
    if (got != want) fail_msg("%s, step %d: %s is %lld, expected %lld", scene_name, step, what, (long long)got, (long long)want);
}

void expect_status_ok(glofnd_status status, const glofnd_ctx *c, const char *call) {
    if (status != GLOFND_OK) fail_msg("%s: %s: %s", call, glofnd_status_text(status), c ? glofnd_ctx_error(c) : "no context");
}

/* ---- the library's side ---- */

static void *array(int64_t count, size_t size) {
    void *p = calloc((size_t)count, size);
    if (!p) abort();
    return p;
}

runner runner_make(const scene *s) {
    runner w = {0};
    const gf_store_spec holds = scene_spec(s);
    const glofnd_store_spec spec = {.size = sizeof spec, .n = s->anchors, .dim = s->dim, .keyed = s->keyed};
    expect_ok(w.ctx, glofnd_ctx_create(&s->o, &w.ctx, NULL, 0));
    expect_ok(w.ctx, glofnd_store_create(w.ctx, &spec, &w.store));
    if (s->lambda0 == 0) return w;
    for (int side = 0; side < holds.modalities; side++) {
        for (int64_t i = 0; i < s->anchors; i++) {
            const glofnd_anchor row = scene_start(s, side, i);
            expect_ok(w.ctx, glofnd_anchors_put(w.ctx, w.store, side, &i, 1, &row));
        }
    }
    return w;
}

void runner_free(runner *w) {
    glofnd_store_free(w->store);
    glofnd_ctx_free(w->ctx);
}

outputs outputs_make(const scene *s) {
    const int64_t flat = s->batch * s->dim;
    return (outputs){.stats = {.size = sizeof(glofnd_stats)},
                     .counters = {.size = sizeof(glofnd_counters)},
                     .batch = s->batch,
                     .dim = s->dim,
                     .grad_a = array(flat, sizeof(float)),
                     .grad_b = array(flat, sizeof(float)),
                     .candidates = {s->candidates[0], s->candidates[1]},
                     .grad_candidates = {array(s->candidates[0] * s->dim + 1, sizeof(float)),
                                         array(s->candidates[1] * s->dim + 1, sizeof(float))},
                     .group = array(s->batch, sizeof(int32_t)),
                     .links = array(2 * s->batch, sizeof(gf_link)),
                     .keep = array(4 * s->batch * s->batch, 1)};
}

void outputs_free(outputs *out) {
    free(out->grad_a);
    free(out->grad_b);
    for (int side = 0; side < 2; side++) free(out->grad_candidates[side]);
    free(out->group);
    free(out->links);
    free(out->keep);
}

glofnd_batch with_candidate_gradients(const glofnd_batch *q, const outputs *out) {
    glofnd_batch x = *q;
    if (q->negatives_a) x.grad_negatives_a = out->grad_candidates[0];
    if (q->negatives_b) x.grad_negatives_b = out->grad_candidates[1];
    return x;
}

void run_step(runner *w, const glofnd_batch *batch, outputs *out) {
    const glofnd_batch q = with_candidate_gradients(batch, out), grouped = on_device_grouped(w->ctx, &q, out->group);
    expect_ok(w->ctx, on_device_step(w->ctx, w->store, &grouped, out->grad_a, out->grad_b, &out->stats));
    expect_ok(w->ctx, glofnd_ctx_counters(w->ctx, &out->counters));
}

glofnd_batch batch_with_bank(const runner *w, const glofnd_batch *q, glofnd_batch_extra *extra) {
    glofnd_batch full = *q;
    uint16_t *rows[2] = {NULL, NULL};
    for (int side = 0; w->store && side < w->store->spec.modalities && w->store->spec.bank_dim; side++) {
        rows[side] = calloc((size_t)(q->n * q->dim), sizeof(uint16_t));
        if (!rows[side]) abort();
        expect_ok(w->ctx, glofnd_bank_get(w->ctx, w->store, side, q->id, q->n, rows[side]));
    }
    *extra = q->extra ? *q->extra : (glofnd_batch_extra){.size = sizeof *extra};
    extra->bank_a = rows[0], extra->bank_b = rows[1];
    full.extra = extra;
    return full;
}

void bank_free(glofnd_batch_extra *extra) {
    free((void *)(uintptr_t)extra->bank_a);
    free((void *)(uintptr_t)extra->bank_b);
}

void run_two_calls(runner *w, const glofnd_batch *batch, outputs *out) {
    glofnd_batch_extra extra;
    const glofnd_batch outs = with_candidate_gradients(batch, out), full = batch_with_bank(w, &outs, &extra),
                       grouped = on_device_grouped(w->ctx, &full, out->group), *q = &grouped;
    expect_ok(w->ctx, on_device_step_rows(w->ctx, w->store, q, NULL, out->links, &out->stats));
    expect_ok(w->ctx, on_device_step_mask(w->ctx, q, NULL, out->links, out->keep));
    expect_ok(w->ctx, on_device_step_grad(w->ctx, q, NULL, out->links, out->grad_a, out->grad_b, &out->stats));
    expect_ok(w->ctx, glofnd_ctx_counters(w->ctx, &out->counters));
    bank_free(&extra);
}

/* ---- how close ---- */

static double sharpest(const ref_step *r) { /* largest 1/tau */
    double k = 0;
    for (int64_t row = 0; row < r->rows; row++) k = fmax(k, 1 / r->tau[row]);
    return k;
}

double weight_error(const ref_step *r) { return 10 * FLOAT_ERROR + 2 * SIM_ERROR * sharpest(r); }

double gradient_scale(const ref_step *r) {
    double most = 0;
    for (int64_t row = 0; row < r->cols; row++)
        for (int64_t j = 0; j < r->dim; j++) most = fmax(most, fabs(r->dz[row * r->dim + j]) / r->norm[row]);
    return most;
}

static void expect_quality(const scene *s, int step, const glofnd_batch *q, const outputs *out, const ref_step *r) {
    const int detects = s->o.detector != GLOFND_DETECT_NONE || q->group;
    const int wanted = (q->want & GLOFND_WANT_QUALITY) && q->epoch >= s->o.mask_epoch && detects;
    const glofnd_stats *t = &out->stats;
    const double hits = (double)r->hits, precision = wanted && r->flagged > 0 ? hits / (double)r->flagged : NAN;
    const double recall = wanted && r->same > 0 ? hits / (double)r->same : NAN;
    const double f1 = precision + recall > 0 ? 2 * precision * recall / (precision + recall) : precision + recall;
    expect_near(s->name, step, "stats.precision_per_anchor", t->precision_per_anchor, wanted ? r->precision : NAN, 1e-8);
    expect_near(s->name, step, "stats.recall_per_anchor", t->recall_per_anchor, wanted ? r->recall : NAN, 1e-8);
    expect_near(s->name, step, "stats.precision", t->precision, precision, 1e-12);
    expect_near(s->name, step, "stats.recall", t->recall, recall, 1e-12);
    expect_near(s->name, step, "stats.f1", t->f1, f1, 1e-12);
    if (!wanted) return;
    expect_equal(s->name, step, "stats.same", out->stats.same, r->same);
    expect_equal(s->name, step, "stats.hits", out->stats.hits, r->hits);
}

static void expect_stats(const scene *s, int step, const glofnd_batch *q, const outputs *out, const ref_step *r) {
    const glofnd_stats *t = &out->stats;
    const int learned = gf_learns_thresholds(&s->o);
    const int has_u = s->o.loss != GLOFND_LOSS_SIMCLR && s->o.loss != GLOFND_LOSS_SIGMOID;
    const int quantile = (q->want & GLOFND_WANT_QUANTILE) && q->epoch >= s->o.update_epoch;
    const double k = sharpest(r);
    expect_equal(s->name, step, "stats.pairs", t->pairs, r->pairs);
    expect_equal(s->name, step, "stats.flagged", t->flagged, r->flagged);
    expect_equal(s->name, step, "stats.rescued", t->rescued, r->rescued);
    expect_near(s->name, step, "stats.kept_share", t->kept_share, r->kept_share, 1e-12);
    if (q->epoch >= (s->o.compat == GLOFND_COMPAT_PAPER && learned ? 0 : s->o.update_epoch))
        expect_near(s->name, step, "stats.detector_share", t->detector_share, r->detector_share, 1e-12);
    if (learned) expect_near(s->name, step, "stats.lambda_mean", t->lambda_mean, r->lambda_mean, 4 * FLOAT_ERROR);
    expect_near(s->name, step, "stats.quantile_mean", t->quantile_mean, quantile ? r->quantile_mean : NAN, SIM_ERROR);
    if (has_u) expect_near(s->name, step, "stats.log_u_mean", t->log_u_mean, r->log_u_mean, k * SIM_ERROR + k * FLOAT_ERROR);
    if (ref_individual(&s->o))
        expect_near(s->name, step, "stats.tau_mean", t->tau_mean, r->tau_mean, 1e-3 * s->o.tau_lr + FLOAT_ERROR);
    expect_quality(s, step, q, out, r);
}

void expect_outputs(const scene *s, int step, const glofnd_batch *q, const outputs *out, const ref_step *r) {
    const double relative = weight_error(r), allowed = relative * gradient_scale(r), k = sharpest(r);
    expect_near(s->name, step, "loss", out->stats.loss, r->loss, relative * fmax(1, fabs(r->loss)));
    expect_near(s->name, step, "grad_scale", out->stats.grad_scale, r->grad_scale, relative * fmax(1, fabs(r->grad_scale)));
    expect_near(s->name, step, "grad_bias", out->stats.grad_bias, r->grad_bias, relative * fmax(1, fabs(r->grad_bias)));
    expect_near(s->name, step, "grad_tau", out->stats.grad_tau, r->grad_tau, k * k * relative * fmax(1, fabs(r->grad_scale)));
    for (int64_t row = 0; row < r->rows; row++) {
        const float *grad = (row % 2 ? out->grad_b : out->grad_a) + row / 2 * r->dim;
        for (int64_t j = 0; j < r->dim; j++)
            expect_near(s->name, step, row % 2 ? "grad_b" : "grad_a", grad[j], r->grad[row * r->dim + j], allowed);
    }
    for (int64_t row = r->rows; row < r->cols; row++) {
        const int64_t a = row - r->rows, side = a >= r->extra_a;
        const float *grad = out->grad_candidates[side] + (side ? a - r->extra_a : a) * r->dim;
        for (int64_t j = 0; j < r->dim; j++)
            expect_near(s->name, step, side ? "grad_negatives_b" : "grad_negatives_a", grad[j], r->grad[row * r->dim + j],
                        allowed);
    }
    expect_stats(s, step, q, out, r);
}

void expect_keep(const scene *s, int step, const outputs *out, const ref_step *r) {
    const int64_t batch = r->batch;
    for (int64_t row = 0; row < r->rows; row++) {
        int64_t kept = 0;
        if (!ref_is_anchor(r, row)) continue;
        for (int64_t col = 0; col < r->rows; col++) {
            const int negative = ref_is_negative(r, row, col), keep = negative && !r->flag[row * r->cols + col];
            if (!r->two_views && row % 2 == col % 2) continue; /* not a pair of this loss */
            const int64_t at = r->two_views ? (2 * row + col % 2) * batch + col / 2 : row * batch + col / 2;
            kept += keep;
            if (out->keep[at] != keep)
                fail_msg("%s, step %d: pair (%lld, %lld) keep is %d, expected %d, similarity %.9g, threshold %.9g", s->name, step,
                         (long long)row, (long long)col, out->keep[at], keep, r->sim[row * r->cols + col], r->theta[row]);
        }
        for (int64_t col = r->rows; col < r->cols; col++) kept += ref_is_negative(r, row, col) && !r->flag[row * r->cols + col];
        expect_equal(s->name, step, "link.kept", out->links[row].kept, kept);
    }
}

static void expect_row(const scene *s, int step, const glofnd_anchor *got, const glofnd_anchor *want, double k) {
    const double log_u = k * (SIM_ERROR + FLOAT_ERROR); /* |log u| <= k: one rounding of it, and the similarities */
    const int counts = s->o.learner == GLOFND_LEARN_SHRINKAGE, from_sims = counts || s->o.learner == GLOFND_LEARN_RING;
    expect_near(s->name, step, "lambda", got->lambda, want->lambda, from_sims ? SIM_ERROR : 4e-7);
    expect_near(s->name, step, "m", got->m, want->m, counts ? 4 * SIM_ERROR : 4 * FLOAT_ERROR * fabs(want->m) + 1e-9);
    expect_near(s->name, step, "v", got->v, want->v, 4 * FLOAT_ERROR * fabs(want->v) + 1e-9);
    expect_equal(s->name, step, "clock", got->clock, want->clock);
    expect_near(s->name, step, "log_u", got->log_u, want->log_u, log_u);
    expect_near(s->name, step, "tau", got->tau, want->tau, 1e-3 * s->o.tau_lr + FLOAT_ERROR);
    expect_near(s->name, step, "tau_m", got->tau_m, want->tau_m, 4 * log_u * (1 + k));
    expect_equal(s->name, step, "tau_clock", got->tau_clock, want->tau_clock);
}

void read_rows(const runner *w, int side, int64_t n, glofnd_anchor *rows) {
    int64_t *id = malloc(sizeof *id * (size_t)n);
    if (!id) abort();
    for (int64_t i = 0; i < n; i++) id[i] = i;
    expect_ok(w->ctx, glofnd_anchors_get(w->ctx, w->store, side, id, n, rows));
    free(id);
}

/* Averages are as far apart as one rounding to float16. Then the store gets those of the reference: such a rounding may fall
 * either way, and would move later similarities by more than the margin. */
static void expect_bank(const scene *s, int step, runner *w, const ref_store *ref, int side) {
    const int64_t dim = ref->bank_dim, count = ref->n * dim;
    uint16_t *rows = malloc(sizeof *rows * (size_t)count);
    int64_t *id = malloc(sizeof *id * (size_t)ref->n);
    if (!rows || !id) abort();
    for (int64_t i = 0; i < ref->n; i++) id[i] = i;
    expect_ok(w->ctx, glofnd_bank_get(w->ctx, w->store, side, id, ref->n, rows));
    for (int64_t i = 0; i < count; i++) {
        const double want = (double)gf_f16_to_float(ref->bank[side][i]);
        expect_near(s->name, step, "bank", (double)gf_f16_to_float(rows[i]), want, fmax(fabs(want) * 0x1p-10, 0x1p-24));
    }
    expect_ok(w->ctx, glofnd_bank_put(w->ctx, w->store, side, id, ref->n, ref->bank[side]));
    free(rows);
    free(id);
}

void expect_store(const scene *s, int step, runner *w, const ref_store *ref, const ref_step *r) {
    glofnd_anchor row, *rows = malloc(sizeof *rows * (size_t)ref->n);
    if (!rows) abort();
    for (int side = 0; side < ref->modalities; side++) {
        read_rows(w, side, ref->n, rows);
        if (ref->bank_dim) expect_bank(s, step, w, ref, side);
        for (int64_t i = 0; i < ref->n; i++) expect_row(s, step, &rows[i], &ref->row[side][i], sharpest(r));
        expect_ok(w->ctx, glofnd_anchors_get(w->ctx, w->store, side, s->keyed ? NULL : &(int64_t){GLOFND_SHARED}, 1, &row));
        if (ref->shared[side].clock == 0) expect_equal(s->name, step, "shared clock", row.clock, 0);
        else expect_row(s, step, &row, &ref->shared[side], sharpest(r));
    }
    free(rows);
}

void check_scene_against_reference(scene *s) {
    ref_store ref;
    scene_avoid_ties(s);
    scene_ref_store(s, &ref);
    runner one = runner_make(s), two = runner_make(s);
    outputs out = outputs_make(s);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        ref_step r;
        scene_draw(s, step, &b);
        ref_step_run(&s->o, &ref, &b.q, NULL, &r);
        run_step(&one, &b.q, &out);
        expect_outputs(s, step, &b.q, &out, &r);
        expect_store(s, step, &one, &ref, &r);
        run_two_calls(&two, &b.q, &out);
        expect_keep(s, step, &out, &r);
        expect_outputs(s, step, &b.q, &out, &r);
        expect_store(s, step, &two, &ref, &r);
        ref_step_free(&r);
        scene_batch_free(&b);
    }
    outputs_free(&out);
    runner_free(&one);
    runner_free(&two);
    ref_store_free(&ref);
}
