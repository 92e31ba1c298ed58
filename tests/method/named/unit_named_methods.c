/* unit_named_methods.c - other methods in the form of rows, against the dense reference and by finite differences: SupCon
 * (attract_omega = 1), a temperature per anchor for two views (isogclr-views), groups of nearest neighbours (components); with
 * threads, ranks, and what is refused. Also on a GPU (GLOFND_TEST_DEVICE=cuda). */
#include "support/test.h"

#include "support/compare.h"
#include "support/differences.h"
#include "support/losses.h"
#include "support/ranks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct method {
    const char *name;
    int loss;
    glofnd_detector detector;
    glofnd_action action;
    double attract_omega, tau;
} method;

enum { DROP = GLOFND_ACTION_DROP, ATTRACT = GLOFND_ACTION_ATTRACT, WEIGHT = GLOFND_ACTION_WEIGHT };

static const method METHODS[] = {
    {"supcon", LOSS_SIMCLR, GLOFND_DETECT_ORACLE, ATTRACT, 1, 0.1},
    {"supcon on sogclr", LOSS_SOGCLR, GLOFND_DETECT_ORACLE, ATTRACT, 1, 0.1},
    {"half attracted, clip", LOSS_CLIP, GLOFND_DETECT_GLOFND, ATTRACT, 0.5, 0.1},
    {"wcl", LOSS_SIMCLR, GLOFND_DETECT_COMPONENTS, ATTRACT, 1, 0.1},
    {"components dropped", LOSS_SOGCLR, GLOFND_DETECT_COMPONENTS, DROP, 0, 0.1},
    {"components of image and text", LOSS_FASTCLIP, GLOFND_DETECT_COMPONENTS, WEIGHT, 0, 0.1},
    {"fastclip, two views", LOSS_FASTCLIP_VIEWS, GLOFND_DETECT_GLOFND, DROP, 0, 0.1},
    {"isogclr-views", LOSS_ISOGCLR_VIEWS, GLOFND_DETECT_NONE, DROP, 0, 0.1},
    {"isogclr-views, flags dropped", LOSS_ISOGCLR_VIEWS, GLOFND_DETECT_GLOFND, DROP, 0, 0.1},
    {"isogclr-views, flags attracted", LOSS_ISOGCLR_VIEWS, GLOFND_DETECT_FNC, ATTRACT, 0, 0.1},
};
enum { COUNT = sizeof METHODS / sizeof *METHODS };

static scene make(const method *m) {
    scene s = scene_make(m->name, m->loss);
    s.o.detector = m->detector;
    s.o.action = m->action;
    s.o.attract_omega = m->attract_omega;
    s.o.tau = m->tau;
    s.o.alpha = 0.2;
    return s;
}

/* ---- against the reference: values, gradients, flags, state, statistics ---- */

TEST(agrees) {
    for (int i = 0; i < COUNT; i++) {
        scene s = make(&METHODS[i]);
        check_scene_against_reference(&s);
    }
}

/* One class: every negative is flagged, and every row keeps its least similar one. */
TEST(rows_without_negatives_agree) {
    for (int i = 0; i < COUNT; i++) {
        scene s = make(&METHODS[i]);
        if (s.o.detector != GLOFND_DETECT_ORACLE) continue;
        s.classes = 1;
        check_scene_against_reference(&s);
    }
}

TEST(shapes_agree) {
    for (int i = 0; i < COUNT; i++)
        for (int64_t batch = 2; batch <= 70; batch += batch < 4 ? 1 : 22) {
            scene s = make(&METHODS[i]);
            if (s.o.tau < 0.1 && batch < 24) continue; /* saturated: the gradient is the reference's own rounding */
            s.batch = batch;
            s.anchors = batch + 3;
            s.dim = 5 + batch;
            s.steps = 3;
            s.lambda0 = 0.4;
            s.o.update_epoch = 0;
            s.o.mask_epoch = 1;
            check_scene_against_reference(&s);
        }
}

/* ---- finite differences ---- */

TEST(objectives_have_these_gradients) {
    for (int i = 0; i < COUNT; i++) {
        scene s = make(&METHODS[i]);
        if (s.o.tau < 0.1) continue; /* differences are too coarse */
        s.batch = 7, s.anchors = 9, s.dim = 5, s.steps = 4, s.lambda0 = 0.6, s.o.gamma = 1;
        if (s.o.tau < 0.2) s.o.tau = 0.2;
        ref_store store;
        scene_avoid_ties(&s);
        scene_ref_store(&s, &store);
        for (int step = 0; step < s.steps; step++) {
            scene_batch b;
            ref_step r;
            scene_draw(&s, step, &b);
            ref_step_run(&s.o, &store, &b.q, NULL, &r);
            if (step == s.steps - 1) {
                assert_true(s.o.detector == GLOFND_DETECT_NONE || (r.flagged > 0 && r.flagged < r.pairs));
                expect_near(s.name, step, "loss", r.loss, ref_objective(&s.o, &r, r.h, r.tau), 1e-12);
                check_features(&s, &r, ref_objective);
                if (losses_of(&s.o) == LOSS_CLIP || ref_individual(&s.o)) check_temperatures(&s, &r, ref_objective);
            }
            ref_step_free(&r);
            scene_batch_free(&b);
        }
        ref_store_free(&store);
    }
}

/* ---- definitions of the papers, in another form than the reference's ---- */

/* SupCon: the mean over rows of -1/|P| sum_p log(exp(S_p/tau) / sum_a exp(S_a/tau)). */
TEST(supcon_is_that_of_its_paper) {
    scene s = make(&METHODS[0]);
    s.o.update_epoch = s.o.mask_epoch = 0;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    scene_batch b;
    ref_step r;
    ref_store store;
    scene_ref_store(&s, &store);
    scene_draw(&s, 0, &b);
    ref_step_run(&s.o, &store, &b.q, NULL, &r); /* for its similarities */
    run_step(&w, &b.q, &out);
    double loss = 0;
    for (int64_t i = 0; i < r.rows; i++) {
        double all = 0, positives = 0, count = 0;
        for (int64_t j = 0; j < r.rows; j++) {
            if (j == i) continue;
            all += exp(r.sim[i * r.rows + j] / s.o.tau);
            const int32_t x = b.label[i / 2], y = b.label[j / 2];
            if (j / 2 != i / 2 && (x < 0 || x != y)) continue;
            positives += r.sim[i * r.rows + j] / s.o.tau, count++;
        }
        loss += (log(all) - positives / count) / (double)r.rows;
    }
    expect_near(s.name, 0, "SupCon", out.stats.loss, loss, 1e-5);
    ref_step_free(&r);
    ref_store_free(&store);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

/* ---- threads and ranks ---- */

TEST(threads_give_the_same_bits) {
    for (int i = 0; i < COUNT; i++) {
        scene s = make(&METHODS[i]);
        s.batch = 75, s.anchors = 100;
        check_threads(&s, 3);
    }
}

TEST(ranks_change_only_rounding) {
    for (int i = 0; i < COUNT; i++)
        for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
            scene s = make(&METHODS[i]);
            s.batch = 20, s.anchors = 27, s.dim = 11;
            check_ranks(&s, ranks);
        }
}

/* ---- refused ---- */

static void expect_refused(const glofnd_options *o, const char *key) {
    char why[256];
    assert_int_equal(glofnd_options_check(o, why, sizeof why), GLOFND_E_OPTION);
    if (!strstr(why, key)) fail_msg("\"%s\" does not name %s", why, key);
}

TEST(combinations_without_meaning_are_refused) {
    glofnd_options o, p;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    losses_set(&o, LOSS_SIMCLR);
    p = o, p.attract_omega = 1.5, expect_refused(&p, "attract_omega");
    p = o, losses_set(&p, LOSS_ISOGCLR_VIEWS), p.compat = GLOFND_COMPAT_OFFICIAL, expect_refused(&p, "isogclr");
}

TEST(components_need_embeddings) {
    float sim[4] = {0, 0.5f, 0.5f, 0};
    const int64_t id[2] = {0, 1};
    if (getenv("GLOFND_TEST_DEVICE")) return;
    scene s = make(&METHODS[3]);
    runner w = runner_make(&s);
    const glofnd_sims q = {.size = sizeof q, .rows = 2, .cols = 2, .sim = sim, .id = id, .views = 1};
    uint8_t keep[4];
    assert_int_equal(glofnd_detect_mask(w.ctx, w.store, &q, keep, NULL), GLOFND_E_UNSUPPORTED);
    assert_non_null(strstr(glofnd_ctx_error(w.ctx), "components"));
    runner_free(&w);
}
