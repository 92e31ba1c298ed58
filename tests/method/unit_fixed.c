/* unit_fixed.c - detectors fixed and fixed-mutual: a guide's similarities and thresholds flag. The step against the dense reference for
 * every loss and action, with groups, candidates, repeated samples, several positives; finite differences; ranks, threads, two calls; a
 * store that stays as it is; bad input. And detector mutual with candidates, which have no threshold of their own.
 */
#include "support/test.h"

#include "support/compare.h"
#include "support/differences.h"
#include "support/losses.h"
#include "support/on_device.h"
#include "support/ranks.h"
#include "support/scene.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const LOSS[] = {"sogclr",  "simclr",        "clip",           "sogclr2", "fastclip",
                                   "isogclr", "isogclr-views", "fastclip-views", "sigmoid", "siglip"};

static scene with_guide(const char *kind, int loss, int mutual) {
    char name[128];
    snprintf(name, sizeof name, "%s %s mutual=%d", kind, LOSS[loss], mutual);
    scene s = scene_make(name, loss);
    s.o.detector = mutual ? GLOFND_DETECT_FIXED_MUTUAL : GLOFND_DETECT_FIXED;
    s.guide_dim = 9 + 20 * (loss % 2); /* shorter and longer than dim */
    return s;
}

/* ---- against the reference ---- */

TEST(all_losses_agree) {
    for (int loss = 0; loss < LOSSES; loss++)
        for (int mutual = 0; mutual < 2; mutual++)
            for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
                scene s = with_guide("fixed", loss, mutual);
                s.o.action = (glofnd_action)action;
                s.with_groups = action % 2;
                check_scene_against_reference(&s);
            }
}

TEST(with_candidates_repeats_and_several_positives) {
    for (int loss = 0; loss < LOSS_SIGMOID; loss++)
        for (int extra = 1; extra < 8; extra++) {
            scene s = with_guide("extras", loss, extra % 2);
            s.candidates[0] = extra & 1 ? 11 : 0;
            s.candidates[1] = extra & 1 && !scene_two_views(&s) ? 9 : 0;
            s.with_candidate_ids = s.o.device == GLOFND_DEVICE_CPU;
            s.repeats = s.o.repeats = extra >> 1 & 1;
            s.with_positives = extra >> 2;
            check_scene_against_reference(&s);
        }
}

TEST(forward_agrees) {
    for (int mutual = 0; mutual < 2; mutual++) {
        scene s = with_guide("forward", LOSS_CLIP, mutual);
        s.o.directions = GLOFND_DIRECTIONS_FORWARD;
        check_scene_against_reference(&s);
        check_ranks(&s, 3);
    }
}

TEST(many_columns_agree) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_CLIP; loss++) {
        scene s = with_guide("many columns", loss, loss % 2);
        s.batch = 150, s.anchors = 200, s.steps = 3, s.guide_dim = 40;
        check_scene_against_reference(&s);
    }
}

/* ---- what it is ---- */

TEST(objective_has_this_gradient) {
    for (int loss = 0; loss < LOSSES; loss++) {
        scene s = with_guide("differences", loss, loss % 2);
        ref_store store;
        s.batch = 8, s.anchors = 9, s.dim = 5, s.steps = 4;
        s.o.gamma = 1, s.o.tau = 0.2, s.o.action = (glofnd_action)(loss % 3);
        scene_avoid_ties(&s);
        scene_ref_store(&s, &store);
        for (int step = 0; step < s.steps; step++) {
            scene_batch b;
            ref_step r;
            scene_draw(&s, step, &b);
            ref_step_run(&s.o, &store, &b.q, NULL, &r);
            if (step == s.steps - 1) {
                assert_true(r.flagged > 0 && r.flagged < r.pairs);
                expect_near(s.name, step, "loss", r.loss, ref_objective(&s.o, &r, r.h, r.tau), 1e-12);
                check_features(&s, &r, ref_objective);
            }
            ref_step_free(&r);
            scene_batch_free(&b);
        }
        ref_store_free(&store);
    }
}

TEST(ranks_equal_one) {
    for (int loss = 0; loss < LOSSES; loss++)
        for (int mutual = 0; mutual < 2; mutual++) {
            scene s = with_guide("ranks", loss, mutual);
            check_ranks(&s, 3);
        }
}

TEST(bits_depend_neither_on_threads_nor_on_calls) {
    for (int loss = 0; loss < LOSSES; loss++) {
        scene s = with_guide("threads", loss, loss % 2);
        s.batch = 150, s.anchors = 170, s.steps = 3;
        check_threads(&s, 4);
        scene small = with_guide("two calls", loss, loss % 2);
        check_two_calls(&small);
    }
}

/* Nothing is learned: the thresholds of the store stay where they are. */
TEST(thresholds_of_the_store_stay) {
    scene s = with_guide("still", LOSS_SOGCLR, 0);
    s.lambda0 = 0.4;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    glofnd_anchor before[32], after[32];
    read_rows(&w, 0, s.anchors, before);
    for (int step = 0; step < s.steps; step++) {
        scene_batch b;
        scene_draw(&s, step, &b);
        run_step(&w, &b.q, &out);
        scene_batch_free(&b);
    }
    assert_true(out.stats.flagged > 0);
    read_rows(&w, 0, s.anchors, after);
    for (int64_t i = 0; i < s.anchors; i++) assert_true(before[i].lambda == after[i].lambda && before[i].clock == after[i].clock);
    outputs_free(&out);
    runner_free(&w);
}

/* ---- bad input ---- */

static void expect_refused(const scene *s, const glofnd_batch *q, glofnd_status status, const char *text) {
    runner w = runner_make(s);
    outputs out = outputs_make(s);
    glofnd_anchor before[32], after[32];
    read_rows(&w, 0, s->anchors, before);
    glofnd_status got = on_device_step(w.ctx, w.store, q, out.grad_a, out.grad_b, NULL);
    if (got == GLOFND_OK) got = glofnd_ctx_stats(w.ctx, &out.stats); /* what only the device sees */
    assert_int_equal(got, status);
    if (!strstr(glofnd_ctx_error(w.ctx), text)) fail_msg("'%s' does not say '%s'", glofnd_ctx_error(w.ctx), text);
    read_rows(&w, 0, s->anchors, after);
    assert_memory_equal(before, after, sizeof *before * (size_t)s->anchors);
    outputs_free(&out);
    runner_free(&w);
}

TEST(a_guide_that_is_none_is_refused) {
    scene s = with_guide("bad", LOSS_SOGCLR, 0);
    scene_batch b;
    scene_draw(&s, 0, &b);
    glofnd_batch q = b.q;
    q.guide = NULL;
    expect_refused(&s, &q, GLOFND_E_ARGUMENT, "batch.guide is NULL");
    q = b.q, q.guide_threshold = NULL;
    expect_refused(&s, &q, GLOFND_E_ARGUMENT, "batch.guide_threshold is NULL");
    q = b.q, q.guide_dim = 0;
    expect_refused(&s, &q, GLOFND_E_ARGUMENT, "guide_dim is 0");
    b.guide[4 * s.guide_dim + 2] = NAN;
    expect_refused(&s, &b.q, GLOFND_E_NUMERIC, "guide: row 4");
    scene_batch_free(&b);
}

TEST(averages_do_not_go_with_it) {
    scene s = with_guide("bank", LOSS_SOGCLR, 0);
    char why[256];
    s.o.similarity = GLOFND_SIMILARITY_BANK;
    assert_int_equal(glofnd_options_check(&s.o, why, sizeof why), GLOFND_E_OPTION);
    assert_non_null(strstr(why, "similarity: bank works with"));
}

/* ---- detector mutual: a candidate is flagged by the anchor's threshold alone ---- */

TEST(mutual_takes_candidates) {
    for (int loss = 0; loss < LOSS_SIGMOID; loss++)
        for (int learner = GLOFND_LEARN_ADAM; learner <= GLOFND_LEARN_SHRINKAGE; learner++)
            for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
                char name[128];
                snprintf(name, sizeof name, "mutual with candidates %s/%d/%d", LOSS[loss], learner, action);
                scene s = scene_make(name, loss);
                s.o.detector = GLOFND_DETECT_MUTUAL;
                s.o.learner = (glofnd_learner)learner;
                s.o.action = (glofnd_action)action;
                s.o.ring_rows = 40;
                if (learner == GLOFND_LEARN_SHRINKAGE) s.o.lambda_init = GLOFND_INIT_AUTO;
                s.candidates[0] = 11;
                s.candidates[1] = scene_two_views(&s) ? 0 : 9;
                s.with_candidate_ids = s.o.device == GLOFND_DEVICE_CPU && action % 2;
                s.with_groups = action == GLOFND_ACTION_WEIGHT;
                check_scene_against_reference(&s);
            }
}

TEST(mutual_with_candidates_on_ranks_is_as_on_one) {
    for (int loss = 0; loss < LOSS_SIGMOID; loss++) {
        scene s = scene_make("mutual, ranks", loss);
        s.o.detector = GLOFND_DETECT_MUTUAL;
        s.candidates[0] = 11;
        s.candidates[1] = scene_two_views(&s) ? 0 : 9;
        check_ranks(&s, 3);
    }
}
