/* unit_candidates.c - negatives beyond the batch: the step against the dense reference, with and without ids; finite differences;
 * ranks, threads, two calls; a matrix over all that can be combined; bad input.
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

/* Candidates of each side that a loss has: two views have one set. */
static void give_candidates(scene *s, int64_t a, int64_t b, int ids) {
    s->candidates[0] = a;
    s->candidates[1] = scene_two_views(s) ? 0 : b;
    s->with_candidate_ids = ids;
}

static scene with_candidates(int loss, int64_t a, int64_t b, int ids) {
    char name[128];
    snprintf(name, sizeof name, "%s a=%lld b=%lld ids=%d", LOSS[loss], (long long)a, (long long)b, ids);
    scene s = scene_make(name, loss);
    give_candidates(&s, a, b, ids);
    return s;
}

/* ---- against the reference ---- */

TEST(all_losses_agree) {
    static const int64_t counts[][2] = {{11, 6}, {1, 0}, {0, 37}, {40, 33}};
    for (int loss = LOSS_SOGCLR; loss <= LOSS_FASTCLIP_VIEWS; loss++)
        for (int n = 0; n < 4; n++)
            for (int ids = 0; ids < 2; ids++) {
                if (loss == LOSS_SOGCLR && counts[n][0] == 0) continue;
                scene s = with_candidates(loss, counts[n][0], counts[n][1], ids);
                check_scene_against_reference(&s);
            }
}

TEST(shapes_agree) {
    for (int64_t batch = 2; batch <= 70; batch += batch < 8 ? 1 : 9)
        for (int loss = LOSS_SOGCLR; loss <= LOSS_SOGCLR2; loss++) {
            scene s = with_candidates(loss, 3 * batch + 1, batch / 2 + 1, (int)(batch % 2));
            s.batch = batch;
            s.anchors = batch + 3;
            s.dim = 5 + 7 * batch % 60;
            s.steps = 2;
            s.lambda0 = 0.55;
            s.o.update_epoch = 0;
            s.o.mask_epoch = 1;
            s.o.lambda_lr = 0.02;
            check_scene_against_reference(&s);
        }
}

/* Enough columns for lists of the largest similarities, and more candidates than samples. */
TEST(quantiles_of_many_columns_agree) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_SOGCLR2; loss++)
        for (int learned = 0; learned < 2; learned++) {
            scene s = with_candidates(loss, 300, 280, learned);
            s.batch = 90;
            s.anchors = 200;
            s.dim = 24;
            s.steps = 2;
            s.noise = 0.3;
            s.o.alpha = 0.05;
            s.o.lambda_init = GLOFND_INIT_QUANTILE;
            s.o.detector = learned ? GLOFND_DETECT_GLOFND : GLOFND_DETECT_FNC;
            s.o.update_epoch = 0;
            s.o.mask_epoch = 0;
            check_scene_against_reference(&s);
        }
}

/* ---- directions = forward: the rows of a against b ---- */

TEST(forward_agrees_with_every_loss) {
    for (int loss = LOSS_CLIP; loss <= LOSS_ISOGCLR; loss++)
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++)
            for (int n = 0; n < 3; n++) {
                scene s = with_candidates(loss, 0, 6 * n, n % 2);
                s.o.directions = GLOFND_DIRECTIONS_FORWARD;
                s.o.action = (glofnd_action)action;
                check_scene_against_reference(&s);
                if (action == GLOFND_ACTION_DROP) check_ranks(&s, 3);
                s.with_labels = 0; /* other kernels */
                if (action == GLOFND_ACTION_DROP) check_ranks(&s, 3);
            }
}

TEST(forward_agrees_with_every_detector) {
    static const glofnd_detector detectors[] = {GLOFND_DETECT_NONE,   GLOFND_DETECT_SINGLE, GLOFND_DETECT_FNC,
                                                GLOFND_DETECT_ORACLE, GLOFND_DETECT_GROUPS, GLOFND_DETECT_POSITIVE};
    for (size_t d = 0; d < sizeof detectors / sizeof *detectors; d++)
        for (int rule = GLOFND_FNC_QUANTILE; rule <= GLOFND_FNC_TOPK; rule++) {
            scene s = with_candidates(LOSS_CLIP, 0, rule ? 0 : 7, 1);
            s.o.directions = GLOFND_DIRECTIONS_FORWARD;
            s.o.detector = detectors[d], s.o.fnc_rule = (glofnd_fnc_rule)rule;
            s.with_groups = 1;
            check_scene_against_reference(&s);
        }
}

TEST(forward_has_no_rows_of_b) {
    scene s = with_candidates(LOSS_CLIP, 4, 0, 0);
    s.o.directions = GLOFND_DIRECTIONS_FORWARD;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    scene_batch b;
    scene_draw(&s, 0, &b);
    assert_int_equal(on_device_step(w.ctx, w.store, &b.q, out.grad_a, out.grad_b, NULL), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(w.ctx), "negatives_a is given; with directions forward"));
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

/* ---- every combination works, or is refused by a message that names both ---- */

typedef struct choice {
    const char *name;
    glofnd_detector detector;
    glofnd_fnc_rule rule;
    glofnd_learner learner;
    int groups, bank, warmup;
} choice;

static const choice CHOICE[] = {
    {"none", GLOFND_DETECT_NONE, 0, 0, 0, 0, 0},
    {"none+groups", GLOFND_DETECT_NONE, 0, 0, 1, 0, 0},
    {"glofnd adam", GLOFND_DETECT_GLOFND, 0, GLOFND_LEARN_ADAM, 0, 0, 0},
    {"glofnd sgd", GLOFND_DETECT_GLOFND, 0, GLOFND_LEARN_SGD, 0, 0, 0},
    {"glofnd adam-official", GLOFND_DETECT_GLOFND, 0, GLOFND_LEARN_ADAM_OFFICIAL, 0, 0, 0},
    {"glofnd ring", GLOFND_DETECT_GLOFND, 0, GLOFND_LEARN_RING, 0, 0, 0},
    {"glofnd warm-up", GLOFND_DETECT_GLOFND, 0, GLOFND_LEARN_ADAM, 0, 0, 2},
    {"glofnd+groups", GLOFND_DETECT_GLOFND, 0, GLOFND_LEARN_ADAM, 1, 0, 0},
    {"single", GLOFND_DETECT_SINGLE, 0, GLOFND_LEARN_ADAM, 0, 0, 0},
    {"fnc", GLOFND_DETECT_FNC, GLOFND_FNC_QUANTILE, 0, 0, 0, 0},
    {"fnc+groups", GLOFND_DETECT_FNC, GLOFND_FNC_QUANTILE, 0, 1, 0, 0},
    {"fnc topk", GLOFND_DETECT_FNC, GLOFND_FNC_TOPK, 0, 0, 0, 0},
    {"fnc threshold", GLOFND_DETECT_FNC, GLOFND_FNC_THRESHOLD, 0, 0, 0, 0},
    {"mutual", GLOFND_DETECT_MUTUAL, 0, GLOFND_LEARN_ADAM, 0, 0, 0},
    {"positive", GLOFND_DETECT_POSITIVE, 0, 0, 1, 0, 0},
    {"positive-relative", GLOFND_DETECT_POSITIVE_RELATIVE, 0, 0, 0, 0, 0},
    {"oracle", GLOFND_DETECT_ORACLE, 0, 0, 0, 0, 0},
    {"groups", GLOFND_DETECT_GROUPS, 0, 0, 1, 0, 0},
    {"bank", GLOFND_DETECT_GLOFND, 0, GLOFND_LEARN_ADAM, 0, 1, 0},
};
enum { CHOICES = sizeof CHOICE / sizeof *CHOICE };

/* What a message must name; NULL: it works. */
static const char *refusal(const scene *s) {
    if (s->o.compat == GLOFND_COMPAT_OFFICIAL) return "compat official";
    if (s->o.similarity == GLOFND_SIMILARITY_BANK) return "similarity bank";
    if (s->o.detector == GLOFND_DETECT_FNC && s->o.fnc_rule != GLOFND_FNC_QUANTILE) return "fnc_rule topk";
    return NULL;
}

static void expect_refused(const scene *s, const char *first, const char *second) {
    runner w = runner_make(s);
    outputs out = outputs_make(s);
    scene_batch b;
    scene_draw(s, 0, &b);
    assert_int_equal(on_device_step(w.ctx, w.store, &b.q, out.grad_a, out.grad_b, &out.stats), GLOFND_E_UNSUPPORTED);
    if (!strstr(glofnd_ctx_error(w.ctx), first) || !strstr(glofnd_ctx_error(w.ctx), second))
        fail_msg("%s: '%s' does not name %s and %s", s->name, glofnd_ctx_error(w.ctx), first, second);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

TEST(every_combination_works_or_is_refused) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_FASTCLIP_VIEWS; loss++)
        for (int d = 0; d < CHOICES; d++)
            for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++)
                for (int compat = GLOFND_COMPAT_PAPER; compat <= GLOFND_COMPAT_OFFICIAL; compat++) {
                    scene s = with_candidates(loss, 7, 5, (d + action) % 2);
                    const choice *x = &CHOICE[d];
                    snprintf(s.name, sizeof s.name, "%s/%s/action %d/compat %d", LOSS[loss], x->name, action, compat);
                    s.steps = 4;
                    s.o.detector = x->detector, s.o.fnc_rule = x->rule, s.o.learner = x->learner;
                    s.o.action = (glofnd_action)action, s.o.compat = (glofnd_compat)compat;
                    s.o.lambda_warmup = x->warmup;
                    s.o.ring_rows = 40;
                    s.o.similarity = x->bank ? GLOFND_SIMILARITY_BANK : GLOFND_SIMILARITY_EMBEDDING;
                    s.with_groups = x->groups;
                    if (gf_method_options_check(&(gf_error){0}, &s.o) != GLOFND_OK) continue; /* not without candidates, either */
                    if (refusal(&s)) expect_refused(&s, "candidates", refusal(&s));
                    else check_scene_against_reference(&s);
                }
}

/* ---- finite differences, of the samples and of the candidates ---- */

TEST(gradients_are_those_of_the_loss) {
    for (int loss = LOSS_SOGCLR; loss < LOSSES; loss++)
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
            const int forward = losses_list[loss].pairing == GLOFND_PAIRING_IMAGE_TEXT && action == GLOFND_ACTION_ATTRACT;
            scene s = with_candidates(loss, forward ? 0 : 6, 4, 1);
            if (forward) s.o.directions = GLOFND_DIRECTIONS_FORWARD;
            ref_store store;
            s.batch = 7, s.anchors = 9, s.dim = 5, s.steps = 4, s.lambda0 = 0.6;
            s.o.action = (glofnd_action)action, s.o.gamma = 1, s.o.tau = 0.2;
            scene_avoid_ties(&s);
            scene_ref_store(&s, &store);
            for (int step = 0; step < s.steps; step++) {
                scene_batch b;
                ref_step r;
                scene_draw(&s, step, &b);
                ref_step_run(&s.o, &store, &b.q, NULL, &r);
                if (step == s.steps - 1) {
                    assert_true(r.flagged > 0 && r.flagged < r.pairs);
                    assert_true(largest_entry(r.grad + r.rows * r.dim, (r.cols - r.rows) * r.dim) > 1e-4);
                    check_features(&s, &r, ref_objective);
                }
                ref_step_free(&r);
                scene_batch_free(&b);
            }
            ref_store_free(&store);
        }
}

/* ---- in other ways ---- */

TEST(ranks_equal_one) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++)
        for (int ranks = 2; ranks <= 3; ranks++) {
            scene s = with_candidates(loss, 9, 6, 1);
            check_ranks(&s, ranks);
        }
}

TEST(a_lambda_for_all_is_shared_by_ranks) {
    scene s = with_candidates(LOSS_CLIP, 9, 6, 0);
    s.o.detector = GLOFND_DETECT_SINGLE;
    check_ranks(&s, 3);
}

TEST(bits_depend_neither_on_threads_nor_on_calls) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        scene s = with_candidates(loss, 150, 170, 1);
        s.batch = 150, s.anchors = 170, s.steps = 3;
        check_threads(&s, 4);
        scene small = with_candidates(loss, 15, 17, 1);
        check_two_calls(&small);
    }
}

/* A queue needs no gradient: without one the rest has the same bits. */
TEST(gradients_of_candidates_are_optional) {
    scene s = with_candidates(LOSS_CLIP, 9, 6, 1);
    runner one = runner_make(&s), two = runner_make(&s);
    outputs x = outputs_make(&s), y = outputs_make(&s);
    for (int step = 0; step < s.steps; step++) {
        scene_batch b;
        scene_draw(&s, step, &b);
        run_step(&one, &b.q, &x);
        expect_ok(two.ctx, on_device_step(two.ctx, two.store, &b.q, y.grad_a, y.grad_b, &y.stats));
        assert_memory_equal(x.grad_a, y.grad_a, sizeof(float) * (size_t)(s.batch * s.dim));
        assert_memory_equal(x.grad_b, y.grad_b, sizeof(float) * (size_t)(s.batch * s.dim));
        assert_memory_equal(&x.stats, &y.stats, sizeof x.stats);
        scene_batch_free(&b);
    }
    outputs_free(&x), outputs_free(&y);
    runner_free(&one), runner_free(&two);
}

/* Batches with many, few and no candidates in turns; each is as it would be alone. */
TEST(their_number_may_change_with_every_step) {
    static const int64_t counts[] = {0, 40, 3, 0, 9};
    scene s = scene_make("a number that changes", LOSS_SOGCLR);
    runner w = runner_make(&s);
    ref_store ref;
    scene_ref_store(&s, &ref);
    for (int step = 0; step < 5; step++) {
        scene now = s;
        scene_batch b;
        ref_step r;
        give_candidates(&now, counts[step], 0, step % 2);
        outputs out = outputs_make(&now);
        scene_draw(&now, step, &b);
        ref_step_run(&s.o, &ref, &b.q, NULL, &r);
        run_step(&w, &b.q, &out);
        expect_outputs(&now, step, &b.q, &out, &r);
        expect_store(&now, step, &w, &ref, &r);
        ref_step_free(&r);
        scene_batch_free(&b);
        outputs_free(&out);
    }
    runner_free(&w);
    ref_store_free(&ref);
}

/* ---- math = bf16 rounds candidates as it rounds the batch ---- */

static float rounded_to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Two sets of candidates, the second one rounded to bf16, have the same similarities then, and in float32 they do not. */
TEST(bf16_rounds_candidates) {
    for (int math = GLOFND_MATH_EXACT; math <= GLOFND_MATH_BF16; math++)
        for (int loss = LOSS_SOGCLR; loss <= LOSS_SOGCLR2; loss++) {
            scene s = with_candidates(loss, 21, 21, 0);
            outputs x, y;
            scene_batch b;
            s.o.math = (glofnd_math)math;
            s.o.normalize = 0;
            x = outputs_make(&s), y = outputs_make(&s);
            runner one = runner_make(&s), two = runner_make(&s);
            for (int step = 0; step < 3; step++) {
                scene_draw(&s, step, &b);
                run_step(&one, &b.q, &x);
                for (int side = 0; side < 2; side++)
                    for (int64_t i = 0; b.candidates[side] && i < s.candidates[side] * s.dim; i++)
                        b.candidates[side][i] = rounded_to_bf16(b.candidates[side][i]);
                run_step(&two, &b.q, &y);
                const size_t bytes = sizeof(float) * (size_t)(s.candidates[0] * s.dim);
                const int same = memcmp(x.grad_candidates[0], y.grad_candidates[0], bytes) == 0;
                if (same != (math == GLOFND_MATH_BF16))
                    fail_msg("%s, math %d: the gradients are%s equal", s.name, math, same ? "" : " not");
                assert_int_equal(x.stats.loss == y.stats.loss, math == GLOFND_MATH_BF16);
                scene_batch_free(&b);
            }
            outputs_free(&x), outputs_free(&y);
            runner_free(&one), runner_free(&two);
        }
}

/* ---- bad input: the state stays as it was ---- */

static void expect_bad(const scene *s, runner *w, const glofnd_batch *q, glofnd_status status, const char *text) {
    outputs out = outputs_make(s);
    glofnd_anchor before[64], after[64];
    read_rows(w, 0, s->anchors, before);
    glofnd_status got = on_device_step(w->ctx, w->store, q, out.grad_a, out.grad_b, NULL);
    if (got == GLOFND_OK) got = glofnd_ctx_stats(w->ctx, &out.stats); /* what only the device sees */
    assert_int_equal(got, status);
    if (!strstr(glofnd_ctx_error(w->ctx), text)) fail_msg("'%s' does not say '%s'", glofnd_ctx_error(w->ctx), text);
    read_rows(w, 0, s->anchors, after);
    assert_memory_equal(before, after, sizeof *before * (size_t)s->anchors);
    outputs_free(&out);
}

TEST(bad_candidates_change_nothing) {
    scene s = with_candidates(LOSS_SOGCLR, 9, 0, 1);
    runner w = runner_make(&s);
    scene_batch b;
    scene_draw(&s, 0, &b);
    glofnd_batch q = b.q;
    q.negatives_a_n = -1;
    expect_bad(&s, &w, &q, GLOFND_E_ARGUMENT, "negatives_a_n is -1");
    q.negatives_a_n = 0;
    expect_bad(&s, &w, &q, GLOFND_E_ARGUMENT, "negatives_a_n is 0");
    q = b.q, q.negatives_a = NULL, q.negatives_a_id = NULL;
    expect_bad(&s, &w, &q, GLOFND_E_ARGUMENT, "negatives_a is NULL");
    q.negatives_a_n = 0, q.negatives_a_id = b.candidate_id[0];
    expect_bad(&s, &w, &q, GLOFND_E_ARGUMENT, "its ids are");
    q = b.q, q.negatives_b = b.a, q.negatives_b_n = 1;
    expect_bad(&s, &w, &q, GLOFND_E_ARGUMENT, "pairing views");
    q = b.q, q.negatives_a_stride = s.dim - 1;
    expect_bad(&s, &w, &q, GLOFND_E_ARGUMENT, "stride of negatives_a");
    b.candidates[0][7 * s.dim + 3] = NAN;
    expect_bad(&s, &w, &b.q, GLOFND_E_NUMERIC, "negatives_a: row 7");
    scene_batch_free(&b);
    runner_free(&w);
}

TEST(misaligned_candidates_are_refused) {
    scene s = with_candidates(LOSS_CLIP, 4, 4, 0);
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    scene_batch b;
    scene_draw(&s, 0, &b);
    glofnd_batch q = b.q;
    q.negatives_b = (const char *)q.negatives_b + 1;
    assert_int_equal(glofnd_step(w.ctx, w.store, &q, out.grad_a, out.grad_b, NULL), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(w.ctx), "negatives_b is not aligned"));
    q = b.q, q.grad_negatives_a = (char *)out.grad_candidates[0] + 2;
    assert_int_equal(glofnd_step(w.ctx, w.store, &q, out.grad_a, out.grad_b, NULL), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(w.ctx), "grad_negatives_a is not aligned"));
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

/* A batch of one other sample, and its id is the anchor's: nothing is left. */
TEST(a_sample_keeps_a_negative) {
    scene s = with_candidates(LOSS_SOGCLR, 3, 0, 1);
    s.batch = 2;
    s.o.detector = GLOFND_DETECT_NONE;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    scene_batch b;
    scene_draw(&s, 0, &b);
    for (int i = 0; i < 3; i++) b.candidate_id[0][i] = b.id[0];
    run_step(&w, &b.q, &out);
    assert_int_equal(out.stats.pairs, 2 * 2 + 2 * 5); /* the candidates are negatives of sample 1 alone */
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}
