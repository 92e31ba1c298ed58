/* unit_repeats.c - option repeats: an id several times in a batch, against the dense reference: values, gradients, and the one new state
 * of all copies; ranks, threads, two calls; every combination; bad input.
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

/* kind: as scene.repeats. */
static scene with_repeats(int loss, int kind) {
    char name[128];
    snprintf(name, sizeof name, "%s repeats=%d", LOSS[loss], kind);
    scene s = scene_make(name, loss);
    s.repeats = kind;
    s.o.repeats = 1;
    return s;
}

TEST(all_losses_agree) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_FASTCLIP_VIEWS; loss++)
        for (int kind = 0; kind < 3; kind++)
            for (int start = GLOFND_INIT_ONE; start <= GLOFND_INIT_QUANTILE; start++) {
                scene s = with_repeats(loss, kind);
                s.o.lambda_init = (glofnd_lambda_init)start;
                check_scene_against_reference(&s);
            }
}

TEST(with_candidates_and_their_ids) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_FASTCLIP_VIEWS; loss++) {
        scene s = with_repeats(loss, 1 + loss % 2);
        s.candidates[0] = 20;
        s.candidates[1] = scene_two_views(&s) ? 0 : 15;
        s.with_candidate_ids = 1;
        check_scene_against_reference(&s);
    }
}

TEST(quantiles_of_many_columns_agree) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_SOGCLR2; loss++) {
        scene s = with_repeats(loss, 2);
        s.batch = 150, s.anchors = 200, s.dim = 24, s.steps = 2, s.noise = 0.3;
        s.o.detector = loss % 2 ? GLOFND_DETECT_FNC : GLOFND_DETECT_GLOFND;
        s.o.alpha = 0.05;
        s.o.lambda_init = GLOFND_INIT_QUANTILE;
        s.o.update_epoch = s.o.mask_epoch = 0;
        check_scene_against_reference(&s);
    }
}

TEST(every_combination_works) {
    static const glofnd_detector detectors[] = {GLOFND_DETECT_NONE,     GLOFND_DETECT_GLOFND, GLOFND_DETECT_SINGLE,
                                                GLOFND_DETECT_FNC,      GLOFND_DETECT_ORACLE, GLOFND_DETECT_GROUPS,
                                                GLOFND_DETECT_POSITIVE, GLOFND_DETECT_MUTUAL};
    for (int loss = LOSS_SOGCLR; loss <= LOSS_FASTCLIP_VIEWS; loss++)
        for (size_t d = 0; d < sizeof detectors / sizeof *detectors; d++)
            for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++)
                for (int learner = GLOFND_LEARN_ADAM; learner <= GLOFND_LEARN_RING; learner++) {
                    scene s = with_repeats(loss, 1 + (int)d % 2);
                    if (learner > GLOFND_LEARN_ADAM && detectors[d] != GLOFND_DETECT_GLOFND) continue;
                    snprintf(s.name, sizeof s.name, "%s/detector %zu/action %d/learner %d", LOSS[loss], d, action, learner);
                    s.steps = 4;
                    s.o.detector = detectors[d], s.o.action = (glofnd_action)action, s.o.learner = (glofnd_learner)learner;
                    s.o.ring_rows = 40;
                    s.with_groups = d % 2 == 1;
                    check_scene_against_reference(&s);
                }
}

TEST(gradients_are_those_of_the_loss) {
    for (int loss = LOSS_SOGCLR; loss < LOSSES; loss++) {
        scene s = with_repeats(loss, 1);
        ref_store store;
        s.batch = 7, s.anchors = 9, s.dim = 5, s.steps = 4, s.lambda0 = 0.6;
        s.o.gamma = 1, s.o.tau = 0.2;
        scene_avoid_ties(&s);
        scene_ref_store(&s, &store);
        for (int step = 0; step < s.steps; step++) {
            scene_batch b;
            ref_step r;
            scene_draw(&s, step, &b);
            ref_step_run(&s.o, &store, &b.q, NULL, &r);
            if (step == s.steps - 1) check_features(&s, &r, ref_objective);
            ref_step_free(&r);
            scene_batch_free(&b);
        }
        ref_store_free(&store);
    }
}

TEST(ranks_equal_one) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        scene s = with_repeats(loss, 1);
        s.batch = 12;
        check_ranks(&s, 3); /* parts of 4, whose first two samples are one */
    }
}

/* Parts of equal and of different sizes, which copies, also three of one anchor, lie on several of. */
TEST(copies_may_lie_on_several_ranks) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_FASTCLIP_VIEWS; loss++)
        for (int ranks = 2; ranks <= MAX_RANKS; ranks++)
            for (int kind = 1; kind <= 2; kind++)
                for (int start = GLOFND_INIT_ONE; start <= GLOFND_INIT_QUANTILE; start++) {
                    scene s = with_repeats(loss, kind);
                    if (s.o.device != GLOFND_DEVICE_CPU) return; /* refused, see below */
                    s.batch = kind == 1 ? 13 : 14;
                    s.o.lambda_init = (glofnd_lambda_init)start;
                    if (kind == 2) s.candidates[0] = 5, s.with_candidate_ids = 1;
                    check_ranks(&s, ranks);
                }
}

TEST(copies_on_several_ranks_move_every_kind_of_threshold) {
    static const glofnd_detector detectors[] = {GLOFND_DETECT_GLOFND, GLOFND_DETECT_SINGLE, GLOFND_DETECT_MUTUAL,
                                                GLOFND_DETECT_FNC, GLOFND_DETECT_POSITIVE};
    for (int loss = LOSS_SOGCLR; loss <= LOSS_SOGCLR2; loss++)
        for (size_t d = 0; d < sizeof detectors / sizeof *detectors; d++)
            for (int learner = GLOFND_LEARN_ADAM; learner <= GLOFND_LEARN_RING; learner++)
                for (int warmup = 0; warmup < 3; warmup += 2) {
                    scene s = with_repeats(loss, 2);
                    if (s.o.device != GLOFND_DEVICE_CPU) return;
                    if (detectors[d] != GLOFND_DETECT_GLOFND && (learner > GLOFND_LEARN_ADAM || warmup)) continue;
                    if (learner == GLOFND_LEARN_RING && warmup) continue;
                    s.batch = 15;
                    s.o.detector = detectors[d], s.o.learner = (glofnd_learner)learner;
                    s.o.lambda_warmup = warmup, s.o.ring_rows = 40;
                    s.with_groups = loss % 2;
                    check_ranks(&s, 4);
                }
}

TEST(bits_depend_neither_on_threads_nor_on_calls) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        scene s = with_repeats(loss, 2);
        s.batch = 150, s.anchors = 170, s.steps = 3;
        check_threads(&s, 4);
        scene small = with_repeats(loss, 1);
        check_two_calls(&small);
    }
}

/* ---- bad input ---- */

TEST(without_the_option_they_are_refused) {
    scene s = with_repeats(LOSS_SOGCLR, 1);
    s.o.repeats = 0;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    scene_batch b;
    scene_draw(&s, 0, &b);
    glofnd_status status = on_device_step(w.ctx, w.store, &b.q, out.grad_a, out.grad_b, NULL);
    if (status == GLOFND_OK) status = glofnd_ctx_stats(w.ctx, &out.stats);
    assert_int_equal(status, GLOFND_E_INDEX);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

static void expect_index_error(const scene *s, const glofnd_batch *q, const glofnd_own_rows *own, const char *text) {
    runner w = runner_make(s);
    outputs out = outputs_make(s);
    glofnd_status status = on_device_step_rows(w.ctx, w.store, q, own, out.links, NULL);
    if (status == GLOFND_OK) status = glofnd_ctx_stats(w.ctx, &out.stats);
    assert_int_equal(status, GLOFND_E_INDEX);
    if (!strstr(glofnd_ctx_error(w.ctx), text)) fail_msg("'%s' does not say '%s'", glofnd_ctx_error(w.ctx), text);
    outputs_free(&out);
    runner_free(&w);
}

/* Every rank of equal parts sees it, also one that has none of the copies. With a sum over ranks they work: see above. */
TEST(copies_on_several_ranks_need_a_sum_over_ranks) {
    scene s = with_repeats(LOSS_SOGCLR, 0);
    scene_batch b;
    s.batch = 12;
    s.o.detector = GLOFND_DETECT_NONE;
    scene_draw(&s, 0, &b);
    b.id[9] = b.id[2];
    for (int rank = 0; rank < 3; rank++) {
        const glofnd_own_rows own = {.size = sizeof own, .first = 4 * rank, .rows = 4};
        expect_index_error(&s, &b.q, &own, "on different ranks");
    }
    scene_batch_free(&b);
}

TEST(one_sample_alone_has_no_negative) {
    scene s = with_repeats(LOSS_SOGCLR, 0);
    scene_batch b;
    scene_draw(&s, 0, &b);
    for (int64_t i = 1; i < s.batch; i++) b.id[i] = b.id[0];
    expect_index_error(&s, &b.q, NULL, "no negative");
    scene_batch_free(&b);
}

TEST(slots_of_copies_are_one) {
    scene s = with_repeats(LOSS_SOGCLR, 1);
    scene_batch b;
    int64_t slot[16];
    scene_draw(&s, 0, &b);
    for (int64_t i = 0; i < s.batch; i++) slot[i] = i;
    const glofnd_own_rows own = {.size = sizeof own, .first = 0, .rows = s.batch, .slot = slot};
    if (s.o.device == GLOFND_DEVICE_CPU) expect_index_error(&s, &b.q, &own, "but both samples have the id");
    for (int64_t i = 0; i < s.batch; i++) slot[i] = i % 4 == 1 ? i - 1 : i;
    slot[4] = 0, slot[5] = 0;
    if (s.o.device == GLOFND_DEVICE_CPU) expect_index_error(&s, &b.q, &own, "slot[");
    scene_batch_free(&b);
}
