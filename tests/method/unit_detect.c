/* unit_detect.c - the detect tier (bring your own similarities) against plain loops, and glofnd_exact_thresholds against sorting.
 *
 * Similarities are given in float32, so comparisons are the same in library and loops: everything here is exact but for the
 * rounding of lambda itself.
 */
#include "support/test.h"

#include "support/compare.h"
#include "support/losses.h"
#include "support/plain_thresholds.h"
#include "support/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 9, COLS = 23, VIEWS = 2, ANCHORS = 30 };

typedef struct table { /* a glofnd_sims and its arrays */
    float sim[VIEWS * ROWS * COLS];
    uint8_t negative[ROWS * COLS];
    int64_t id[ROWS];
    int32_t row_group[ROWS], col_group[COLS];
    glofnd_sims q;
} table;

static void draw_table(table *t, uint64_t seed, int views, int with_negative) {
    rng g = {seed};
    for (int j = 0; j < VIEWS * ROWS * COLS; j++) t->sim[j] = (float)(1.9 * rng_uniform(&g) - 0.95);
    for (int j = 0; j < ROWS * COLS; j++) t->negative[j] = rng_uniform(&g) < 0.8;
    for (int i = 0; i < ROWS; i++) t->id[i] = (i * 7 + (int64_t)seed) % ANCHORS;
    for (int i = 0; i < ROWS; i++) t->row_group[i] = (int32_t)rng_below(&g, 4);
    for (int j = 0; j < COLS; j++) t->col_group[j] = (int32_t)rng_below(&g, 5) - 1;
    t->q = (glofnd_sims){.size = sizeof(glofnd_sims),
                         .views = views,
                         .rows = ROWS,
                         .cols = COLS,
                         .sim = t->sim,
                         .id = t->id,
                         .negative = with_negative ? t->negative : NULL};
}

/* Labels or groups; without them the other detectors use similarities only. */
static void with_groups(table *t) {
    t->q.row_group = t->row_group;
    t->q.col_group = t->col_group;
}

static int is_negative(const glofnd_sims *q, int64_t i, int64_t j) { return q->negative ? q->negative[i * q->cols + j] : i != j; }

/* Negatives of one similarity row, sorted upwards. */
static int64_t sorted(const glofnd_sims *q, int view, int64_t i, double *x) {
    int64_t n = 0;
    for (int64_t j = 0; j < q->cols; j++)
        if (is_negative(q, i, j)) x[n++] = q->sim[(view * q->rows + i) * q->cols + j];
    if (n) ref_kth_largest(x, n, 1);
    return n;
}

static double quantile(const glofnd_sims *q, int view, int64_t i, double alpha) {
    double x[COLS];
    const int64_t n = sorted(q, view, i, x);
    const double p = (1 - alpha) * (double)(n - 1);
    const int64_t low = (int64_t)p, high = low + 1 < n ? low + 1 : low;
    return x[low] + (p - (double)low) * (x[high] - x[low]);
}

/* ---- mask ---- */

static int expect_flag(const glofnd_options *o, const glofnd_sims *q, int view, int64_t i, int64_t j, double lambda) {
    const double s = q->sim[(view * q->rows + i) * q->cols + j];
    double x[COLS];
    switch (o->detector) {
    case GLOFND_DETECT_GLOFND:
    case GLOFND_DETECT_SINGLE: return s > lambda;
    case GLOFND_DETECT_FNC:
        if (o->fnc_rule == GLOFND_FNC_QUANTILE) return s > quantile(q, view, i, o->alpha);
        const int64_t n = sorted(q, view, i, x), top = (int64_t)ceil(o->alpha * (double)n);
        return top > 0 && s >= x[n - top];
    case GLOFND_DETECT_ORACLE: return q->row_group[i] == q->col_group[j];
    case GLOFND_DETECT_GROUPS: return q->row_group[i] >= 0 && q->row_group[i] == q->col_group[j];
    default: return 0;
    }
}

static int64_t least_similar(const glofnd_sims *q, int view, int64_t i) {
    int64_t least = -1;
    const float *s = q->sim + (view * q->rows + i) * q->cols;
    for (int64_t j = 0; j < q->cols; j++)
        if (is_negative(q, i, j) && (least < 0 || s[j] < s[least])) least = j;
    return least;
}

static void expect_mask(glofnd_ctx *c, const glofnd_store *s, const glofnd_options *o, const glofnd_sims *q) {
    uint8_t keep[VIEWS * ROWS * COLS];
    int32_t kept[VIEWS * ROWS];
    const int64_t shared = GLOFND_SHARED;
    expect_ok(c, glofnd_detect_mask(c, s, q, keep, kept));
    for (int view = 0; view < q->views; view++) {
        for (int64_t i = 0; i < q->rows; i++) {
            glofnd_anchor row;
            int want[COLS], count = 0, negatives = 0;
            expect_ok(c, glofnd_anchors_get(c, s, q->side, o->detector == GLOFND_DETECT_SINGLE ? &shared : &q->id[i], 1, &row));
            for (int64_t j = 0; j < q->cols; j++) {
                const int flag = q->epoch >= o->mask_epoch && expect_flag(o, q, view, i, j, row.lambda);
                negatives += is_negative(q, i, j);
                count += want[j] = is_negative(q, i, j) && !flag;
            }
            if (count == 0 && negatives > 0 && o->compat == GLOFND_COMPAT_PAPER) count = want[least_similar(q, view, i)] = 1;
            for (int64_t j = 0; j < q->cols; j++)
                expect_equal("mask", (int)i, "keep", keep[(view * q->rows + i) * q->cols + j], want[j]);
            expect_equal("mask", (int)i, "kept", kept[view * q->rows + i], count);
        }
    }
    expect_ok(c, glofnd_detect_mask(c, s, q, keep, NULL));
}

/* ---- update: the plain equation, SGD, so that lambda itself can be written down ---- */

static void expect_update(glofnd_ctx *c, glofnd_store *s, const glofnd_options *o, const glofnd_sims *q) {
    glofnd_anchor before[ROWS], after[ROWS];
    expect_ok(c, glofnd_anchors_get(c, s, q->side, q->id, q->rows, before));
    expect_ok(c, glofnd_detect_update(c, s, q));
    expect_ok(c, glofnd_anchors_get(c, s, q->side, q->id, q->rows, after));
    for (int64_t i = 0; i < q->rows; i++) {
        int64_t above = 0, total = 0;
        for (int view = 0; view < q->views; view++) {
            for (int64_t j = 0; j < q->cols; j++) {
                if (!is_negative(q, i, j)) continue;
                above += q->sim[(view * q->rows + i) * q->cols + j] > before[i].lambda;
                total++;
            }
        }
        const double g = o->alpha - (double)above / (double)total;
        const double want = fmin(1, fmax(-1, before[i].lambda - o->lambda_lr * g));
        const int moves = q->epoch >= o->update_epoch;
        expect_near("update", (int)i, "lambda", after[i].lambda, moves ? want : before[i].lambda, 1.2e-7);
        expect_equal("update", (int)i, "clock", after[i].clock, before[i].clock + (moves ? 1 : 0));
    }
}

typedef struct fixture {
    glofnd_options o;
    glofnd_ctx *c;
    glofnd_store *s;
} fixture;

static fixture make(glofnd_detector detector, glofnd_learner learner) {
    fixture f = {0};
    gf_method_options_init(&f.o);
    f.o.lambda_init = GLOFND_INIT_ONE;
    losses_set(&f.o, LOSS_CLIP); /* a store of two sides */
    f.o.detector = detector;
    f.o.learner = learner;
    f.o.alpha = 0.17;
    f.o.lambda_lr = 0.9;
    f.o.update_epoch = 1;
    f.o.mask_epoch = 2;
    expect_ok(f.c, glofnd_ctx_create(&f.o, &f.c, NULL, 0));
    const glofnd_store_spec spec = {.size = sizeof spec, .n = ANCHORS};
    expect_ok(f.c, glofnd_store_create(f.c, &spec, &f.s));
    return f;
}

static void drop(fixture *f) {
    glofnd_store_free(f->s);
    glofnd_ctx_free(f->c);
}

TEST(update_follows_the_equation) {
    fixture f = make(GLOFND_DETECT_GLOFND, GLOFND_LEARN_SGD);
    for (int step = 0; step < 40; step++) {
        table t;
        draw_table(&t, (uint64_t)step + 1, 1 + step % 2, step % 3 != 0);
        t.q.epoch = step / 4;
        t.q.side = step / 2 % 2;
        expect_update(f.c, f.s, &f.o, &t.q);
        expect_mask(f.c, f.s, &f.o, &t.q);
    }
    drop(&f);
}

TEST(masks_follow_every_detector) {
    for (int detector = GLOFND_DETECT_NONE; detector <= GLOFND_DETECT_GROUPS; detector++) {
        for (int rule = GLOFND_FNC_QUANTILE; rule <= GLOFND_FNC_TOPK; rule++) {
            for (int compat = GLOFND_COMPAT_PAPER; compat <= GLOFND_COMPAT_OFFICIAL; compat++) {
                if (compat && rule == GLOFND_FNC_TOPK) continue; /* not in the authors' code: refused */
                fixture f = make((glofnd_detector)detector, GLOFND_LEARN_ADAM);
                f.o.fnc_rule = (glofnd_fnc_rule)rule;
                f.o.compat = (glofnd_compat)compat;
                f.o.lambda_lr = 0.3;
                expect_ok(f.c, glofnd_ctx_configure(f.c, &f.o));
                for (int step = 0; step < 12; step++) {
                    table t;
                    draw_table(&t, (uint64_t)step + 50, 1 + step % 2, step % 3 != 0);
                    t.q.epoch = step / 2;
                    if (detector >= GLOFND_DETECT_ORACLE) with_groups(&t);
                    expect_ok(f.c, glofnd_detect_update(f.c, f.s, &t.q));
                    expect_mask(f.c, f.s, &f.o, &t.q);
                }
                drop(&f);
            }
        }
    }
}

/* Thresholds at -1: all of a row is flagged, one negative survives; compat OFFICIAL keeps none. */
TEST(a_fully_flagged_row_keeps_one) {
    for (int compat = GLOFND_COMPAT_PAPER; compat <= GLOFND_COMPAT_OFFICIAL; compat++) {
        fixture f = make(GLOFND_DETECT_GLOFND, GLOFND_LEARN_ADAM);
        const glofnd_anchor low = {.lambda = -1, .log_u = -INFINITY, .clock = 3};
        table t;
        f.o.compat = (glofnd_compat)compat;
        expect_ok(f.c, glofnd_ctx_configure(f.c, &f.o));
        draw_table(&t, 9, 2, 1);
        t.q.epoch = 2;
        for (int i = 0; i < ROWS; i++) expect_ok(f.c, glofnd_anchors_put(f.c, f.s, 0, &t.id[i], 1, &low));
        expect_mask(f.c, f.s, &f.o, &t.q);
        drop(&f);
    }
}

/* ---- the same lambda from similarities as from embeddings ---- */

/* All similarities of the reference step as a glofnd_sims; `negative` leaves out positives and the own side. */
static glofnd_sims sims_of(const ref_step *r, const scene_batch *b, int side, float *sim, uint8_t *negative) {
    const int views = r->two_views ? 2 : 1;
    for (int view = 0; view < views; view++) {
        for (int64_t i = 0; i < r->batch; i++) {
            const int64_t row = 2 * i + (views == 2 ? view : side);
            for (int64_t col = 0; col < r->rows; col++) {
                sim[(view * r->batch + i) * r->rows + col] = (float)r->sim[row * r->rows + col];
                negative[i * r->rows + col] = (uint8_t)ref_is_negative(r, row, col);
            }
        }
    }
    return (glofnd_sims){.size = sizeof(glofnd_sims),
                         .views = views,
                         .rows = r->batch,
                         .cols = r->rows,
                         .sim = sim,
                         .negative = negative,
                         .id = b->id,
                         .side = side,
                         .epoch = b->q.epoch};
}

static void expect_same_lambda(const scene *s, int step, runner *x, runner *y, int side, int64_t id) {
    glofnd_anchor a, b;
    expect_ok(x->ctx, glofnd_anchors_get(x->ctx, x->store, side, &id, 1, &a));
    expect_ok(y->ctx, glofnd_anchors_get(y->ctx, y->store, side, &id, 1, &b));
    expect_near(s->name, step, "lambda of both tiers", b.lambda, a.lambda, SIM_ERROR);
    expect_equal(s->name, step, "clock of both tiers", b.clock, a.clock);
    assert_true(a.m == b.m && a.v == b.v);
}

static void check_tiers(scene *s) {
    scene_avoid_ties(s);
    runner by_step = runner_make(s), by_sims = runner_make(s);
    outputs out = outputs_make(s);
    ref_store ref;
    scene_ref_store(s, &ref);
    float *sim = malloc((size_t)(4 * s->batch * s->batch) * sizeof *sim);
    uint8_t *negative = malloc((size_t)(2 * s->batch * s->batch));
    assert_true(sim && negative);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        ref_step r;
        scene_draw(s, step, &b);
        ref_step_run(&s->o, &ref, &b.q, NULL, &r);
        run_step(&by_step, &b.q, &out);
        for (int side = 0; side < ref.modalities; side++) {
            const glofnd_sims q = sims_of(&r, &b, side, sim, negative);
            expect_ok(by_sims.ctx, glofnd_detect_update(by_sims.ctx, by_sims.store, &q));
            for (int64_t i = 0; i < s->batch; i++) expect_same_lambda(s, step, &by_step, &by_sims, side, b.id[i]);
            expect_same_lambda(s, step, &by_step, &by_sims, side, GLOFND_SHARED);
        }
        ref_step_free(&r);
        scene_batch_free(&b);
    }
    free(sim);
    free(negative);
    ref_store_free(&ref);
    outputs_free(&out);
    runner_free(&by_step);
    runner_free(&by_sims);
}

TEST(detect_tier_equals_step_tier) {
    for (int k = 0; k < 16; k++) {
        scene s = scene_make("tiers", k & 1 ? LOSS_CLIP : LOSS_SOGCLR);
        s.steps = 7;
        s.o.update_epoch = s.o.mask_epoch = 1;
        s.o.detector = k & 2 ? GLOFND_DETECT_SINGLE : GLOFND_DETECT_GLOFND;
        s.o.lambda_init = k & 4 ? GLOFND_INIT_QUANTILE : GLOFND_INIT_ONE;
        s.o.lambda_warmup = k & 8 ? 3 : 0;
        check_tiers(&s);
    }
}

/* ---- exact thresholds ---- */

static void check_thresholds(int64_t rows, int64_t cols, int64_t dim, double alpha, int normalize, int with_skip, int threads) {
    fixture f = make(GLOFND_DETECT_GLOFND, GLOFND_LEARN_ADAM);
    rng g = {(uint64_t)(rows * 31 + cols * 7 + dim)};
    float *q = malloc((size_t)(rows * dim) * sizeof *q), *k = malloc((size_t)(cols * dim) * sizeof *k);
    float *out = malloc((size_t)rows * sizeof *out);
    int64_t *skip = malloc((size_t)rows * sizeof *skip);
    double *x = malloc((size_t)cols * sizeof *x);
    assert_true(q && k && out && skip && x);
    f.o.normalize = normalize;
    f.o.threads = threads;
    expect_ok(f.c, glofnd_ctx_configure(f.c, &f.o));
    for (int64_t j = 0; j < rows * dim; j++) q[j] = (float)(rng_normal(&g) / (normalize ? 1 : 4 * sqrt((double)dim)));
    for (int64_t j = 0; j < cols * dim; j++) k[j] = (float)(rng_normal(&g) / (normalize ? 1 : 4 * sqrt((double)dim)));
    for (int64_t i = 0; i < rows; i++) skip[i] = i % 3 == 2 ? -1 : rng_below(&g, cols);
    expect_ok(f.c, plain_thresholds(f.c, q, rows, k, cols, dim, with_skip ? skip : NULL, alpha, out));
    for (int64_t i = 0; i < rows; i++) {
        int64_t m = 0;
        for (int64_t j = 0; j < cols; j++) {
            double xy = 0, xx = 0, yy = 0;
            for (int64_t e = 0; e < dim; e++) {
                xy += (double)q[i * dim + e] * k[j * dim + e];
                xx += (double)q[i * dim + e] * q[i * dim + e];
                yy += (double)k[j * dim + e] * k[j * dim + e];
            }
            if (with_skip && skip[i] == j) continue;
            x[m++] = normalize ? xy / sqrt(xx * yy) : xy;
        }
        expect_near("thresholds", (int)i, "value", out[i], ref_kth_largest(x, m, (int64_t)ceil(alpha * (double)m)), SIM_ERROR);
    }
    free(q);
    free(k);
    free(out);
    free(skip);
    free(x);
    drop(&f);
}

TEST(thresholds_are_exact) {
    check_thresholds(1, 2, 1, 0.3, 1, 0, 1);
    check_thresholds(7, 101, 5, 0.013, 1, 1, 2);
    check_thresholds(33, 257, 17, 0.1, 1, 1, 3);
    check_thresholds(65, 300, 64, 0.25, 1, 1, 0);
    check_thresholds(130, 77, 130, 0.999, 1, 0, 2);
    check_thresholds(40, 513, 31, 1e-6, 1, 1, 1); /* the largest */
    check_thresholds(37, 7001, 6, 0.02, 1, 1, 2); /* more columns than one chunk */
    check_thresholds(33, 2068, 3, 0.3, 1, 0, 1);  /* a few columns after the last cut */
    check_thresholds(33, 9000, 3, 0.4, 1, 0, 2);  /* and more candidates */
}
