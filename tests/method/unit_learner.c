/* unit_learner.c - how thresholds move: every learner and its options through the step tier against the reference, and the
 * paper's lemma (static scores: lambda ends at the k-th largest, k = ceil(alpha n)) through the detect tier.
 */
#include "support/test.h"

#include "method/formulas/lambda.h"
#include "support/compare.h"
#include "support/losses.h"
#include "support/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int TASK[] = {LOSS_SOGCLR, LOSS_CLIP, LOSS_SIMCLR, LOSS_ISOGCLR};
enum { TASKS = sizeof TASK / sizeof *TASK };

static scene learner_scene(const char *name, int task, glofnd_learner learner, int compat) {
    char full[128];
    snprintf(full, sizeof full, "%s, task %d, learner %d, compat %d", name, task, (int)learner, compat);
    scene s = scene_make(full, TASK[task]);
    s.steps = 8;
    s.o.learner = learner;
    s.o.compat = (glofnd_compat)compat;
    s.o.normalize = 1;
    return s;
}

typedef void (*tweak)(scene *s);

/* The tweak on every task, gradient learner and compat. */
static void check_all(const char *name, tweak change) {
    for (int task = 0; task < TASKS; task++) {
        for (int learner = GLOFND_LEARN_ADAM; learner <= GLOFND_LEARN_ADAM_OFFICIAL; learner++) {
            for (int compat = GLOFND_COMPAT_PAPER; compat <= GLOFND_COMPAT_OFFICIAL; compat++) {
                scene s = learner_scene(name, task, (glofnd_learner)learner, compat);
                change(&s);
                check_scene_against_reference(&s);
            }
        }
    }
}

static void plain(scene *s) { (void)s; }
static void other_betas(scene *s) {
    s->o.lambda_beta1 = 0.5;
    s->o.lambda_beta2 = 0.7;
}
static void from_quantile(scene *s) {
    s->o.lambda_init = GLOFND_INIT_QUANTILE;
    s->anchors = 26;
}
static void shrinking(scene *s) { s->o.lambda_decay = 2.5; } /* 8 steps: some anchors are visited more often than that */
static void shrinking_from_quantile(scene *s) {
    shrinking(s);
    s->o.lambda_init = GLOFND_INIT_QUANTILE;
    if (s->o.learner == GLOFND_LEARN_SGD) s->o.lambda_lr /= s->o.alpha;
}
static void single(scene *s) { s->o.detector = GLOFND_DETECT_SINGLE; }
static void single_from_quantile(scene *s) {
    single(s);
    s->o.lambda_init = GLOFND_INIT_QUANTILE;
}
static void warmed_up(scene *s) {
    s->o.lambda_warmup = 3;
    s->anchors = 22;
}
static void warmed_up_late_mask(scene *s) {
    warmed_up(s);
    s->o.mask_epoch = 6;
}
static void early(scene *s) { s->o.update_epoch = s->o.mask_epoch = 0; }
static void never(scene *s) { s->o.update_epoch = s->o.mask_epoch = 100; }
static void fast_and_projected(scene *s) {
    s->o.lambda_lr = s->o.learner == GLOFND_LEARN_SGD ? 1.9 / s->o.alpha : 1.9;
    s->steps = 4;
}

TEST(learners_agree) { check_all("plain", plain); }
TEST(betas_agree) { check_all("betas", other_betas); }
TEST(quantile_start_agrees) { check_all("quantile", from_quantile); }
TEST(shrinking_steps_agree) {
    check_all("shrinking", shrinking);
    check_all("shrinking from quantile", shrinking_from_quantile);
}
TEST(single_lambda_agrees) {
    check_all("single", single);
    check_all("single from quantile", single_from_quantile);
}
TEST(shared_warm_up_agrees) {
    check_all("warm-up", warmed_up);
    check_all("warm-up, late mask", warmed_up_late_mask);
}
TEST(start_epochs_agree) {
    check_all("from epoch 0", early);
    check_all("never", never);
}

/* ---- shrinkage ---- */

static void check_shrinkage(const char *name, tweak change) {
    for (int task = 0; task < TASKS; task++) {
        scene s = learner_scene(name, task, GLOFND_LEARN_SHRINKAGE, GLOFND_COMPAT_PAPER);
        s.o.lambda_init = GLOFND_INIT_AUTO;
        change(&s);
        check_scene_against_reference(&s);
    }
}

static void rare(scene *s) { s->o.alpha = 0.004; }  /* less than one pair per row */
static void rarest(scene *s) { s->o.alpha = 1e-5; } /* less than one pair in the batch */
static void half(scene *s) { s->o.alpha = 0.5; }
static void by_averages(scene *s) { s->o.similarity = GLOFND_SIMILARITY_BANK; }
static void grouped(scene *s) { s->with_groups = 1; }
static void single_rare(scene *s) { single(s), rare(s); }

TEST(shrinkage_agrees) {
    check_shrinkage("shrinkage", plain);
    check_shrinkage("shrinkage, few pairs", rare);
    check_shrinkage("shrinkage, no pair", rarest);
    check_shrinkage("shrinkage, half of all", half);
    check_shrinkage("shrinkage, many anchors", from_quantile);
    check_shrinkage("shrinkage, single", single);
    check_shrinkage("shrinkage, single, few pairs", single_rare);
    check_shrinkage("shrinkage, warm-up", warmed_up);
    check_shrinkage("shrinkage, warm-up, late mask", warmed_up_late_mask);
    check_shrinkage("shrinkage, early", early);
    check_shrinkage("shrinkage, never", never);
    check_shrinkage("shrinkage, averages", by_averages);
    check_shrinkage("shrinkage, groups", grouped);
}

/* ---- rows out and in again, as when ranks exchange them: nothing may change, also while lambda is shared ---- */

static void round_trip(const scene *s, runner *w) {
    glofnd_anchor *rows = malloc(sizeof *rows * (size_t)s->anchors);
    int64_t *id = malloc(sizeof *id * (size_t)s->anchors);
    if (!rows || !id) abort();
    for (int64_t i = 0; i < s->anchors; i++) id[i] = i;
    for (int side = 0; side < (scene_two_views(s) ? 1 : 2); side++) {
        expect_ok(w->ctx, glofnd_anchors_get(w->ctx, w->store, side, id, s->anchors, rows));
        expect_ok(w->ctx, glofnd_anchors_put(w->ctx, w->store, side, id, s->anchors, rows));
    }
    free(rows), free(id);
}

static void check_round_trip(scene *s) {
    runner kept = runner_make(s), moved = runner_make(s);
    outputs x = outputs_make(s), y = outputs_make(s);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        scene_draw(s, step, &b);
        run_step(&kept, &b.q, &x);
        run_step(&moved, &b.q, &y);
        round_trip(s, &moved);
        if (x.stats.loss != y.stats.loss || x.stats.lambda_mean != y.stats.lambda_mean)
            fail_msg("%s, step %d: rows taken out and put back changed the run: lambda_mean %g, expected %g", s->name, step,
                     y.stats.lambda_mean, x.stats.lambda_mean);
        scene_batch_free(&b);
    }
    outputs_free(&x);
    outputs_free(&y);
    runner_free(&kept);
    runner_free(&moved);
}

TEST(rows_survive_a_round_trip) {
    for (int task = 0; task < TASKS; task++) {
        scene s = learner_scene("round trip", task, GLOFND_LEARN_ADAM, GLOFND_COMPAT_PAPER);
        check_round_trip(&s);
        single(&s);
        check_round_trip(&s);
        scene warm = learner_scene("round trip in the warm-up", task, GLOFND_LEARN_ADAM, GLOFND_COMPAT_PAPER);
        warmed_up(&warm);
        check_round_trip(&warm);
    }
}

/* ---- projection to [-1, 1] ---- */

TEST(lambda_stays_in_range) {
    scene s = learner_scene("projected", 0, GLOFND_LEARN_SGD, GLOFND_COMPAT_PAPER);
    fast_and_projected(&s);
    check_scene_against_reference(&s);
    scene up = learner_scene("projected to 1", 0, GLOFND_LEARN_SGD, GLOFND_COMPAT_PAPER);
    fast_and_projected(&up);
    up.lambda0 = -0.5;
    up.steps = 1;
    up.o.update_epoch = 0;
    check_scene_against_reference(&up);
}

/* lambda may go anywhere: the step cannot know beforehand which pairs it will flag. Batches around the sizes of its lists. */
TEST(wild_steps_agree) {
    static const int64_t batch[] = {24, 32, 33, 34, 40, 64, 65, 66};
    for (int task = 0; task < 2; task++) {
        for (int k = 0; k < 8; k++) {
            scene s = learner_scene("wild", task, k % 2 ? GLOFND_LEARN_SGD : GLOFND_LEARN_ADAM, GLOFND_COMPAT_PAPER);
            s.batch = batch[k];
            s.anchors = batch[k] + 5;
            s.steps = 4;
            s.lambda0 = 0.3;
            s.o.update_epoch = s.o.mask_epoch = 0;
            s.o.lambda_lr = k % 2 ? 1.9 / s.o.alpha : 1.9;
            check_scene_against_reference(&s);
        }
    }
}

/* ---- before update_epoch, with other detectors, with alpha 0: nothing learns ---- */

TEST(alpha_zero_switches_detection_off) {
    scene s = learner_scene("alpha 0", 0, GLOFND_LEARN_ADAM, GLOFND_COMPAT_PAPER);
    s.o.alpha = 0;
    s.lambda0 = 0.3;
    s.with_labels = 0; /* no quantile asked for */
    check_scene_against_reference(&s);
}

/* ---- ring ---- */

/* Rings that never fill, fill exactly, wrap in the middle of a batch, and hold less than one batch. */
TEST(ring_agrees) {
    static const int64_t rows[] = {500, 78, 37, 10};
    for (int task = 0; task < TASKS; task++) {
        for (int k = 0; k < 4; k++) {
            scene s = learner_scene("ring", task, GLOFND_LEARN_RING, GLOFND_COMPAT_PAPER);
            s.o.ring_rows = rows[k];
            check_scene_against_reference(&s);
        }
    }
}

/* No update while the ring holds fewer than ceil(1/alpha) entries. */
TEST(small_ring_waits) {
    scene s = learner_scene("ring that fills slowly", 1, GLOFND_LEARN_RING, GLOFND_COMPAT_PAPER);
    s.o.ring_rows = 10 * s.batch;
    s.o.alpha = 1.0 / 30; /* 30 entries: from the third push on */
    s.o.update_epoch = s.o.mask_epoch = 0;
    check_scene_against_reference(&s);
}

/* ---- lemma ---- */

typedef struct static_scores {
    int64_t rows, cols;
    float *sim; /* [rows][cols] */
    int64_t *id;
} static_scores;

/* ties: every value appears about four times. */
static static_scores make_scores(int64_t rows, int64_t cols, int ties) {
    static_scores t = {rows, cols, malloc((size_t)(rows * cols) * sizeof(float)), malloc((size_t)rows * sizeof(int64_t))};
    rng g = {123};
    assert_non_null(t.sim);
    assert_non_null(t.id);
    for (int64_t i = 0; i < rows; i++) t.id[i] = i;
    for (int64_t j = 0; j < rows * cols; j++) {
        const double x = 2 * rng_uniform(&g) - 1;
        t.sim[j] = (float)(ties ? round(x * (double)cols / 8) / ((double)cols / 8) : x);
    }
    return t;
}

static int descending(const void *x, const void *y) {
    const float a = *(const float *)x, b = *(const float *)y;
    return (a < b) - (a > b);
}

/* lr decays as 1/t from `lr`; the last steps are shorter than `allowed`. */
static void check_lemma(glofnd_learner learner, double alpha, int ties, double lr, double allowed) {
    const int64_t rows = 12, cols = 40, updates = 4000;
    static_scores t = make_scores(rows, cols, ties);
    glofnd_options o;
    glofnd_ctx *c = NULL;
    glofnd_store *s = NULL;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    o.learner = learner;
    o.alpha = alpha;
    o.update_epoch = o.mask_epoch = 0;
    expect_ok(c, glofnd_ctx_create(&o, &c, NULL, 0));
    expect_ok(c, glofnd_store_create(c, &(glofnd_store_spec){.size = sizeof(glofnd_store_spec), .n = rows}, &s));
    uint8_t *negative = malloc((size_t)(rows * cols));
    assert_non_null(negative);
    memset(negative, 1, (size_t)(rows * cols));
    const glofnd_sims q = {
        .size = sizeof q, .views = 1, .rows = rows, .cols = cols, .sim = t.sim, .negative = negative, .id = t.id};
    for (int64_t step = 0; step < updates; step++) {
        o.lambda_lr = lr / (1 + (double)step * 0.02);
        expect_ok(c, glofnd_ctx_configure(c, &o));
        expect_ok(c, glofnd_detect_update(c, s, &q));
    }
    for (int64_t i = 0; i < rows; i++) {
        glofnd_anchor row;
        const int64_t k = (int64_t)ceil(alpha * (double)cols - 1e-9);
        const int integral = fabs(alpha * (double)cols - (double)k) < 1e-9;
        expect_ok(c, glofnd_anchors_get(c, s, 0, &i, 1, &row));
        qsort(t.sim + i * cols, (size_t)cols, sizeof(float), descending);
        const double high = t.sim[i * cols + k - 1], low = integral ? t.sim[i * cols + k] : high;
        if (row.lambda < low - allowed || row.lambda > high + allowed)
            fail_msg("learner %d, alpha %g, ties %d: lambda %g of anchor %lld is not in [%g, %g]", (int)learner, alpha, ties,
                     (double)row.lambda, (long long)i, low, high);
        assert_int_equal(row.clock, updates);
    }
    glofnd_store_free(s);
    glofnd_ctx_free(c);
    free(t.sim);
    free(t.id);
    free(negative);
}

TEST(lambda_reaches_the_kth_largest) {
    for (int ties = 0; ties < 2; ties++) {
        for (int k = 0; k < 2; k++) {
            const double alpha = k ? 0.1 : 0.0875; /* alpha n = 4, or 3.5 */
            check_lemma(GLOFND_LEARN_SGD, alpha, ties, 1, 0.01);
            check_lemma(GLOFND_LEARN_ADAM, alpha, ties, 0.1, 0.01);
        }
        check_lemma(GLOFND_LEARN_SGD, 0.5125, ties, 1, 0.01); /* alpha n = 20.5: the middle */
        check_lemma(GLOFND_LEARN_SGD, 0.9625, ties, 1, 0.01); /* 38.5: almost everything */
    }
}

/* Shares around alpha, and a start far from it: lambda stays above what is foreseen, which is not below all that is possible. */
static void check_foreseen(gf_learner l, unsigned seed) {
    const double n = 500.0;
    const gf_foresight f = gf_foresight_of(&l);
    glofnd_anchor row = {.lambda = 0.9f, .clock = (uint32_t)l.init_visits};
    rng g = {seed};
    for (int step = 0; step < 2000; step++) {
        const float bound = gf_lambda_foreseen(&f, &row), before = row.lambda;
        const double share = step < 30 ? 0.0 : fmax(0.0, l.alpha * (1.0 + 0.3 * rng_normal(&g)));
        float least, most;
        gf_lambda_range(&l, &row, &least, &most);
        gf_lambda_update(&l, NULL, &row, share * n, n);
        if (row.lambda > most) fail_msg("step %d: %.9g, at most %.9g", step, (double)row.lambda, (double)most);
        if (row.lambda < bound || bound < least - 0.002f * (before - least) - 3e-5f)
            fail_msg("step %d: %.9g to %.9g, foreseen %.9g", step, (double)before, (double)row.lambda, (double)bound);
        row.lambda = fmaxf(row.lambda, -0.5f);
    }
}

TEST(lambda_is_foreseen) {
    const gf_learner adam = {.alpha = 0.01, .lr = 0.05, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8};
    gf_learner l = adam;
    check_foreseen(l, 1);
    l.init_visits = 1, check_foreseen(l, 2);
    l = adam, l.epoch_clock = 3, check_foreseen(l, 4);
    l = adam, l.sgd = 1, check_foreseen(l, 5);
    l = adam, l.alpha = 0.1, check_foreseen(l, 6);
    l = adam, l.decay = 40, check_foreseen(l, 7);
    l = adam, l.decay = 4, l.sgd = 1, l.init_visits = 1, check_foreseen(l, 8);
}
