/* unit_positives.c - several positives of a sample (batch.positives): the step against the dense reference, for every loss, detector and
 * action, with candidates and with samples that repeat; finite differences; SupCon by its own formula; ranks, threads, two calls; what
 * is refused.
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

static scene with_positives(const char *kind, int loss) {
    char name[128];
    snprintf(name, sizeof name, "%s %s", kind, LOSS[loss]);
    scene s = scene_make(name, loss);
    s.with_positives = 1;
    if (s.o.loss == GLOFND_LOSS_SIGMOID) s.o.bias = -2;
    return s;
}

/* ---- against the reference ---- */

TEST(all_losses_agree) {
    for (int loss = 0; loss < LOSSES; loss++)
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
            scene s = with_positives("positives", loss);
            s.o.action = (glofnd_action)action;
            s.o.attract_omega = 0.3;
            check_scene_against_reference(&s);
        }
}

TEST(small_temperatures_agree) {
    for (int loss = 0; loss < LOSSES; loss++) {
        scene s = with_positives("small tau", loss);
        s.o.tau = 0.02;
        s.with_labels = 0;
        check_scene_against_reference(&s);
    }
}

TEST(all_detectors_agree) {
    static const glofnd_detector detectors[] = {GLOFND_DETECT_NONE,   GLOFND_DETECT_SINGLE,           GLOFND_DETECT_FNC,
                                                GLOFND_DETECT_ORACLE, GLOFND_DETECT_GROUPS,           GLOFND_DETECT_POSITIVE,
                                                GLOFND_DETECT_MUTUAL, GLOFND_DETECT_POSITIVE_RELATIVE};
    for (int loss = 0; loss < LOSSES; loss++)
        for (size_t d = 0; d < sizeof detectors / sizeof *detectors; d++)
            for (int groups = 0; groups < 2; groups++) {
                scene s = with_positives("detector", loss);
                if (!groups && detectors[d] == GLOFND_DETECT_GROUPS) continue;
                s.o.detector = detectors[d];
                s.with_groups = groups;
                s.o.action = (glofnd_action)((loss + (int)d) % 3);
                check_scene_against_reference(&s);
            }
}

TEST(all_learners_agree) {
    for (int loss = 0; loss < LOSSES; loss++)
        for (int learner = GLOFND_LEARN_ADAM; learner <= GLOFND_LEARN_SHRINKAGE; learner++)
            for (int start = GLOFND_INIT_ONE; start <= GLOFND_INIT_QUANTILE; start++) {
                scene s = with_positives("learner", loss);
                if (learner == GLOFND_LEARN_SHRINKAGE && start == GLOFND_INIT_ONE) continue;
                s.o.learner = (glofnd_learner)learner;
                s.o.lambda_init = (glofnd_lambda_init)start;
                s.o.ring_rows = 40;
                check_scene_against_reference(&s);
            }
}

TEST(many_columns_agree) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_CLIP; loss++)
        for (int detector = GLOFND_DETECT_GLOFND; detector <= GLOFND_DETECT_FNC; detector += 2) {
            scene s = with_positives("many columns", loss);
            s.batch = 150, s.anchors = 200, s.dim = 24, s.steps = 2, s.noise = 0.3;
            s.o.detector = (glofnd_detector)detector;
            s.o.alpha = 0.05;
            s.o.lambda_init = GLOFND_INIT_QUANTILE;
            s.o.update_epoch = s.o.mask_epoch = 0;
            check_scene_against_reference(&s);
        }
}

TEST(with_candidates_and_repeated_samples) {
    for (int loss = 0; loss < LOSS_SIGMOID; loss++)
        for (int extra = 1; extra < 4; extra++) {
            scene s = with_positives("candidates, repeats", loss);
            s.candidates[0] = extra & 1 ? 11 : 0;
            s.candidates[1] = extra & 1 && !scene_two_views(&s) ? 9 : 0;
            s.with_candidate_ids = 1;
            s.repeats = s.o.repeats = extra >> 1;
            s.o.action = (glofnd_action)(loss % 3);
            check_scene_against_reference(&s);
        }
}

TEST(forward_agrees) {
    for (int loss = LOSS_CLIP; loss < LOSSES; loss++) {
        scene s = with_positives("forward", loss);
        if (scene_two_views(&s)) continue;
        s.o.directions = GLOFND_DIRECTIONS_FORWARD;
        check_scene_against_reference(&s);
        check_ranks(&s, 3);
    }
}

/* ---- what it is ---- */

TEST(objective_has_this_gradient) {
    for (int loss = 0; loss < LOSSES; loss++)
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
            scene s = with_positives("differences", loss);
            ref_store store;
            s.batch = 8, s.anchors = 9, s.dim = 5, s.steps = 4, s.lambda0 = 0.6;
            s.o.gamma = 1, s.o.tau = 0.2, s.o.action = (glofnd_action)action;
            scene_avoid_ties(&s);
            scene_ref_store(&s, &store);
            for (int step = 0; step < s.steps; step++) {
                scene_batch b;
                ref_step r;
                scene_draw(&s, step, &b);
                ref_step_run(&s.o, &store, &b.q, NULL, &r);
                if (step == s.steps - 1) {
                    assert_true(r.flagged > 0 && r.pairs < (int64_t)2 * s.batch * (s.batch - 1) * (r.two_views ? 2 : 1));
                    expect_near(s.name, step, "loss", r.loss, ref_objective(&s.o, &r, r.h, r.tau), 1e-12);
                    check_features(&s, &r, ref_objective);
                    if (losses_of(&s.o) == LOSS_CLIP || s.o.loss == GLOFND_LOSS_SIGMOID || s.o.loss == GLOFND_LOSS_FASTCLIP)
                        check_temperatures(&s, &r, ref_objective);
                    if (s.o.loss == GLOFND_LOSS_SIGMOID) check_bias(&s, &r, ref_objective);
                }
                ref_step_free(&r);
                scene_batch_free(&b);
            }
            ref_store_free(&store);
        }
}

/* L_out of Khosla et al. 2020, written down again: all pairs in the denominator, the mean over the positives outside of the log. */
TEST(without_a_detector_it_is_supcon) {
    scene s = with_positives("supcon", LOSS_SIMCLR);
    s.o.detector = GLOFND_DETECT_NONE;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    scene_batch b;
    ref_step r;
    ref_store store;
    double loss = 0;
    scene_ref_store(&s, &store);
    scene_draw(&s, 0, &b);
    ref_step_run(&s.o, &store, &b.q, NULL, &r); /* for its similarities */
    run_step(&w, &b.q, &out);
    for (int64_t row = 0; row < r.rows; row++) {
        double all = 0, near = 0, n = 0;
        for (int64_t col = 0; col < r.rows; col++) {
            const int32_t set = b.positives[row / 2];
            if (col == row) continue;
            all += exp(r.sim[row * r.cols + col] / s.o.tau);
            if (col != (row ^ 1) && (set < 0 || set != b.positives[col / 2])) continue;
            near += r.sim[row * r.cols + col] / s.o.tau, n++;
        }
        loss += (log(all) - near / n) / (double)r.rows;
    }
    expect_near(s.name, 0, "loss", out.stats.loss, loss, 1e-5);
    ref_step_free(&r);
    ref_store_free(&store);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

/* Numbers that no two samples share change no bit. */
TEST(single_positives_are_those_of_no_groups) {
    for (int loss = 0; loss < LOSSES; loss++) {
        scene s = with_positives("alone", loss);
        s.with_positives = 0;
        runner one = runner_make(&s), two = runner_make(&s);
        outputs x = outputs_make(&s), y = outputs_make(&s);
        for (int step = 0; step < s.steps; step++) {
            scene_batch b;
            scene_draw(&s, step, &b);
            run_step(&one, &b.q, &x);
            for (int64_t i = 0; i < s.batch; i++) b.positives[i] = (int32_t)(i % 3 ? i : -1);
            b.q.positives = b.positives;
            run_step(&two, &b.q, &y);
            expect_near(s.name, step, "loss", y.stats.loss, x.stats.loss, 1e-6 * fmax(1, fabs(x.stats.loss)));
            assert_int_equal(y.stats.flagged, x.stats.flagged);
            for (int64_t j = 0; j < s.batch * s.dim; j++)
                expect_near(s.name, step, "gradient", y.grad_a[j], x.grad_a[j], 1e-5 * fmax(1, fabs((double)x.grad_a[j])));
            scene_batch_free(&b);
        }
        outputs_free(&x), outputs_free(&y);
        runner_free(&one), runner_free(&two);
    }
}

TEST(ranks_equal_one) {
    for (int loss = 0; loss < LOSSES; loss++)
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
            scene s = with_positives("ranks", loss);
            s.o.action = (glofnd_action)action;
            check_ranks(&s, 3);
        }
}

TEST(bits_depend_neither_on_threads_nor_on_calls) {
    for (int loss = 0; loss < LOSSES; loss++) {
        scene s = with_positives("threads", loss);
        s.batch = 150, s.anchors = 170, s.steps = 3;
        check_threads(&s, 4);
        scene small = with_positives("two calls", loss);
        check_two_calls(&small);
    }
}

/* ---- bad input ---- */

static void expect_refused(const scene *s, const glofnd_batch *q, glofnd_status status, const char *text) {
    runner w = runner_make(s);
    outputs out = outputs_make(s);
    glofnd_anchor before[32], after[32];
    read_rows(&w, 0, s->anchors, before);
    glofnd_status got = on_device_step(w.ctx, w.store, q, out.grad_a, out.grad_b, NULL);
    if (got == GLOFND_OK) got = glofnd_ctx_stats(w.ctx, &out.stats);
    assert_int_equal(got, status);
    if (!strstr(glofnd_ctx_error(w.ctx), text)) fail_msg("'%s' does not say '%s'", glofnd_ctx_error(w.ctx), text);
    read_rows(&w, 0, s->anchors, after);
    assert_memory_equal(before, after, sizeof *before * (size_t)s->anchors);
    outputs_free(&out);
    runner_free(&w);
}

TEST(what_does_not_go_with_them_is_named) {
    for (int kind = 0; kind < 4; kind++) {
        static const char *const names[] = {"compat official", "similarity bank", "fnc_rule topk", "fnc_rule topk and threshold"};
        scene s = with_positives("refused", LOSS_SOGCLR);
        scene_batch b;
        if (kind == 0) s.o.compat = GLOFND_COMPAT_OFFICIAL;
        if (kind == 1) s.o.similarity = GLOFND_SIMILARITY_BANK;
        if (kind >= 2) s.o.detector = GLOFND_DETECT_FNC, s.o.fnc_rule = (glofnd_fnc_rule)(kind - 1);
        scene_draw(&s, 0, &b);
        expect_refused(&s, &b.q, GLOFND_E_UNSUPPORTED, names[kind]);
        scene_batch_free(&b);
    }
}

TEST(a_sample_keeps_a_negative) {
    scene s = with_positives("all are positives", LOSS_SOGCLR);
    scene_batch b;
    scene_draw(&s, 0, &b);
    for (int64_t i = 0; i < s.batch; i++) b.positives[i] = 7;
    expect_refused(&s, &b.q, GLOFND_E_INDEX, "no negative");
    scene_batch_free(&b);
}

TEST(copies_of_a_sample_have_the_same_positives) {
    scene s = with_positives("copies", LOSS_SOGCLR);
    scene_batch b;
    s.repeats = s.o.repeats = 1;
    scene_draw(&s, 0, &b);
    b.positives[0] = 3, b.positives[1] = 4;
    expect_refused(&s, &b.q, GLOFND_E_ARGUMENT, "but both samples have the id");
    scene_batch_free(&b);
}
