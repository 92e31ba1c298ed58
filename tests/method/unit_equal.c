/* unit_equal.c - what must not change the result: number of threads (same bits), number of ranks
 * (rounding only; flags, counts and thresholds exact).
 */
#define _GNU_SOURCE
#include "support/test.h"

#include "support/compare.h"
#include "support/losses.h"
#include "support/ranks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const LOSS[] = {"sogclr",  "simclr",        "clip",           "sogclr2", "fastclip",
                                   "isogclr", "isogclr-views", "fastclip-views", "sigmoid", "siglip"};

/* ---- the runs that are compared: every loss with every detector and learner ---- */

typedef struct variant {
    const char *name;
    glofnd_detector detector;
    glofnd_fnc_rule rule;
    glofnd_learner learner;
    int groups, support;
} variant;

static const variant VARIANT[] = {
    {"none", GLOFND_DETECT_NONE, GLOFND_FNC_QUANTILE, GLOFND_LEARN_ADAM, 0, 0},
    {"glofnd", GLOFND_DETECT_GLOFND, GLOFND_FNC_QUANTILE, GLOFND_LEARN_ADAM, 0, 0},
    {"sgd", GLOFND_DETECT_GLOFND, GLOFND_FNC_QUANTILE, GLOFND_LEARN_SGD, 0, 0},
    {"adam-official", GLOFND_DETECT_GLOFND, GLOFND_FNC_QUANTILE, GLOFND_LEARN_ADAM_OFFICIAL, 0, 0},
    {"ring", GLOFND_DETECT_GLOFND, GLOFND_FNC_QUANTILE, GLOFND_LEARN_RING, 0, 0},
    {"single", GLOFND_DETECT_SINGLE, GLOFND_FNC_QUANTILE, GLOFND_LEARN_ADAM, 0, 0},
    {"shrinkage", GLOFND_DETECT_GLOFND, GLOFND_FNC_QUANTILE, GLOFND_LEARN_SHRINKAGE, 0, 0},
    {"shrinkage single", GLOFND_DETECT_SINGLE, GLOFND_FNC_QUANTILE, GLOFND_LEARN_SHRINKAGE, 0, 0},
    {"shrinkage+groups", GLOFND_DETECT_GLOFND, GLOFND_FNC_QUANTILE, GLOFND_LEARN_SHRINKAGE, 1, 0},
    {"fnc-quantile", GLOFND_DETECT_FNC, GLOFND_FNC_QUANTILE, GLOFND_LEARN_ADAM, 0, 0},
    {"fnc-topk", GLOFND_DETECT_FNC, GLOFND_FNC_TOPK, GLOFND_LEARN_ADAM, 0, 1},
    {"oracle", GLOFND_DETECT_ORACLE, GLOFND_FNC_QUANTILE, GLOFND_LEARN_ADAM, 0, 0},
    {"glofnd+groups", GLOFND_DETECT_GLOFND, GLOFND_FNC_QUANTILE, GLOFND_LEARN_ADAM, 1, 0},
    {"mutual", GLOFND_DETECT_MUTUAL, GLOFND_FNC_QUANTILE, GLOFND_LEARN_ADAM, 0, 0},
    {"positive", GLOFND_DETECT_POSITIVE, GLOFND_FNC_QUANTILE, GLOFND_LEARN_ADAM, 0, 0},
};
enum { VARIANTS = sizeof VARIANT / sizeof *VARIANT };

static scene make_variant(int loss, int v, int64_t batch) {
    char name[128];
    snprintf(name, sizeof name, "%s/%s", LOSS[loss], VARIANT[v].name);
    scene s = scene_make(name, loss);
    s.batch = batch;
    s.anchors = batch + batch / 3;
    s.dim = 24;
    s.steps = 4;
    s.o.detector = VARIANT[v].detector;
    s.o.fnc_rule = VARIANT[v].rule;
    s.o.learner = VARIANT[v].learner;
    if (s.o.learner == GLOFND_LEARN_SHRINKAGE) s.o.lambda_init = GLOFND_INIT_AUTO;
    s.o.lambda_decay = VARIANT[v].learner == GLOFND_LEARN_SGD ? 1.5 : 0.0;
    s.o.ring_rows = 4 * batch;
    s.with_groups = VARIANT[v].groups;
    s.with_support = VARIANT[v].support;
    s.o.action = (glofnd_action)((loss + v) % 3);
    return s;
}

/* ---- threads ---- */

typedef struct trace {   /* everything a run produced */
    outputs *step;       /* [steps] */
    glofnd_anchor *rows; /* [sides][anchors] at the end */
    glofnd_anchor shared[2];
} trace;

static void *array(int64_t count, size_t size) {
    void *p = calloc((size_t)count, size);
    if (!p) abort();
    return p;
}

static trace trace_of(const scene *s, int threads) {
    scene with = *s;
    with.o.threads = threads;
    runner w = runner_make(&with);
    const int sides = scene_two_views(s) ? 1 : 2;
    trace t = {.step = array(s->steps, sizeof(outputs)), .rows = array(sides * s->anchors, sizeof(glofnd_anchor))};
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        scene_draw(s, step, &b);
        t.step[step] = outputs_make(s);
        run_two_calls(&w, &b.q, &t.step[step]);
        scene_batch_free(&b);
    }
    for (int side = 0; side < sides; side++) {
        read_rows(&w, side, s->anchors, &t.rows[side * s->anchors]);
        expect_ok(w.ctx, glofnd_anchors_get(w.ctx, w.store, side, &(int64_t){GLOFND_SHARED}, 1, &t.shared[side]));
    }
    runner_free(&w);
    return t;
}

static void trace_free(const scene *s, trace *t) {
    for (int step = 0; step < s->steps; step++) outputs_free(&t->step[step]);
    free(t->step);
    free(t->rows);
}

static void expect_same_bits(const scene *s, const trace *x, const trace *y, int threads) {
    const size_t flat = (size_t)(s->batch * s->dim) * sizeof(float), links = (size_t)s->batch * 2 * sizeof(gf_link);
    const int sides = scene_two_views(s) ? 1 : 2;
    for (int step = 0; step < s->steps; step++) {
        const outputs *a = &x->step[step], *b = &y->step[step];
        const char *what = memcmp(a->links, b->links, links)                             ? "links"
                           : memcmp(a->grad_a, b->grad_a, flat)                          ? "grad_a"
                           : memcmp(a->grad_b, b->grad_b, flat)                          ? "grad_b"
                           : memcmp(a->keep, b->keep, (size_t)(4 * s->batch * s->batch)) ? "keep"
                           : memcmp(&a->stats, &b->stats, sizeof a->stats)               ? "stats"
                                                                                         : NULL;
        if (what) fail_msg("%s, step %d: %s with 1 and with %d threads differ", s->name, step, what, threads);
    }
    const size_t rows = (size_t)(sides * s->anchors) * sizeof(glofnd_anchor);
    if (memcmp(x->rows, y->rows, rows) != 0 || memcmp(x->shared, y->shared, sizeof x->shared) != 0)
        fail_msg("%s: state with 1 and with %d threads differs", s->name, threads);
}

/* A GPU has no threads to choose from: there, one comparison says that a run repeats. */
static int comparisons(int on_the_cpu) { return getenv("GLOFND_TEST_DEVICE") ? 1 : on_the_cpu; }

TEST(threads_give_the_same_bits) {
    static const int threads[] = {2, 3, 5};
    for (int loss = LOSS_SOGCLR; loss < LOSSES; loss++) {
        for (int v = 0; v < VARIANTS; v++) {
            scene s = make_variant(loss, v, 75);
            trace one = trace_of(&s, 1);
            for (int k = 0; k < comparisons(3); k++) {
                trace other = trace_of(&s, threads[k]);
                expect_same_bits(&s, &one, &other, threads[k]);
                trace_free(&s, &other);
            }
            trace_free(&s, &one);
        }
    }
}

/* ---- one context for everything: what an earlier step left in the workspace must not matter ---- */

TEST(contexts_carry_nothing_over) {
    glofnd_ctx *used = NULL;
    for (int k = 0; k < 60; k++) {
        scene s = make_variant(k * 5 % 6, k * 3 % VARIANTS, 5 + k * 37 % 90);
        s.dim = 1 + k * 29 % 60;
        s.lambda0 = 0.5;
        const int paper = s.o.fnc_rule == GLOFND_FNC_TOPK || s.o.learner == GLOFND_LEARN_SHRINKAGE;
        s.o.compat = paper ? GLOFND_COMPAT_PAPER : (glofnd_compat)(k % 2);
        s.o.update_epoch = s.o.mask_epoch = 0;
        runner fresh = runner_make(&s), again = runner_make(&s);
        if (!used) expect_ok(used, glofnd_ctx_create(&s.o, &used, NULL, 0));
        expect_ok(used, glofnd_ctx_configure(used, &s.o));
        runner w = {used, again.store};
        outputs x = outputs_make(&s), y = outputs_make(&s);
        scene_batch b;
        scene_draw(&s, 0, &b);
        run_step(&fresh, &b.q, &x);
        run_step(&w, &b.q, &y);
        if (memcmp(x.grad_a, y.grad_a, (size_t)(s.batch * s.dim) * sizeof(float)) || memcmp(&x.stats, &y.stats, sizeof x.stats))
            fail_msg("%s (%d): a used context gives a different result from a new one", s.name, k);
        scene_batch_free(&b);
        outputs_free(&x);
        outputs_free(&y);
        runner_free(&fresh);
        runner_free(&again);
    }
    glofnd_ctx_free(used);
}

/* ---- ranks ---- */

TEST(ranks_change_only_rounding) {
    static const int ranks[] = {1, 2, 3, 4}; /* 3 does not divide the batch: uneven shares */
    for (int loss = LOSS_SOGCLR; loss < LOSSES; loss++) {
        for (int v = 0; v < VARIANTS; v++) {
            for (int k = 0; k < 4; k++) {
                scene s = make_variant(loss, v, 20);
                s.dim = 11;
                check_ranks(&s, ranks[k]);
            }
        }
    }
}

TEST(ranks_agree_during_the_shared_warm_up) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_CLIP; loss++) {
        scene s = make_variant(loss, 1, 20);
        s.o.lambda_warmup = 2;
        s.steps = 6;
        check_ranks(&s, 4);
    }
}

/* compat OFFICIAL: two views as on one rank (also u's first batch); image and text as golden section 5. */
TEST(official_ranks_follow_the_authors) {
    static const int losses[] = {LOSS_SOGCLR, LOSS_SIMCLR, LOSS_SOGCLR2, LOSS_FASTCLIP};
    for (int k = 0; k < 4; k++) {
        for (int v = 0; v < VARIANTS; v++) {
            if (VARIANT[v].rule == GLOFND_FNC_TOPK) continue; /* nor do they take a top k */
            if (VARIANT[v].learner == GLOFND_LEARN_SHRINKAGE) continue;
            scene s = make_variant(losses[k], v, 20);
            s.o.compat = GLOFND_COMPAT_OFFICIAL;
            if (s.o.action == GLOFND_ACTION_ATTRACT) s.o.action = GLOFND_ACTION_DROP; /* the authors do not attract */
            check_ranks(&s, 2);
            s.seed += 100;
            check_ranks(&s, 4);
        }
    }
}

/* Each rank searches among the averages of all samples. */
TEST(ranks_find_the_same_neighbours) {
    static const struct {
        const char *name;
        double share;
        int64_t rows;
        int batch;
    } cases[] = {{"all", 1, 0, 12}, {"half of the anchors", 0.5, 0, 12}, {"a window", 1, 11, 12}, {"both", 0.5, 13, 13}};
    for (int k = 0; k < 24; k++) {
        char name[128];
        const int c = k % 4, ranks = 1 << k / 4 % 3;
        snprintf(name, sizeof name, "%s/neighbours/%s", LOSS[k / 12], cases[c].name);
        scene s = scene_make(name, k / 12);
        s.batch = cases[c].batch, s.anchors = 30, s.dim = 9, s.steps = 6;
        s.o.similarity = GLOFND_SIMILARITY_BANK;
        s.o.alpha = 0.2;
        s.o.neighbours = 3, s.o.neighbour_weight = 0.7;
        s.o.neighbour_share = cases[c].share, s.o.neighbour_rows = cases[c].rows;
        check_ranks(&s, ranks);
    }
}
