/* unit_marks.c - flags that more than a threshold decides, against the dense reference: random ones (flag_probability), those of
 * one label (require_label), those by averaged embeddings (similarity bank); with threads, ranks, and what is refused. Runs on a
 * GPU, too (GLOFND_TEST_DEVICE=cuda).
 */
#include "support/test.h"

#include "method/formulas/mark_rule.h"
#include "support/compare.h"
#include "support/ranks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const LOSS[] = {"sogclr", "simclr", "clip", "sogclr2", "fastclip", "isogclr"};
static const char *const DETECTOR[] = {"none", "glofnd", "single", "fnc"};
static const char *const MARKS[] = {"random", "label", "random+label", "bank", "bank+random", "two levels", "two levels, bank"};
enum { RANDOM, LABEL, BOTH, BANK, BANK_RANDOM, TWO_LEVELS, TWO_LEVELS_BANK, KINDS };

static scene make(int loss, int detector, int kind) {
    char name[128];
    snprintf(name, sizeof name, "%s/%s/%s", LOSS[loss], DETECTOR[detector], MARKS[kind]);
    scene s = scene_make(name, (glofnd_loss)loss);
    s.o.detector = (glofnd_detector)detector;
    s.o.alpha = 0.3;
    s.o.flag_seed = 7 + kind;
    if (kind == RANDOM || kind == BOTH || kind == BANK_RANDOM) s.o.flag_probability = 0.4;
    if (kind == LABEL || kind == BOTH) s.o.require_label = 1;
    if (kind == BANK || kind == BANK_RANDOM || kind == TWO_LEVELS_BANK)
        s.o.similarity = GLOFND_SIMILARITY_BANK, s.o.bank_momentum = 0.6;
    if (kind >= TWO_LEVELS) s.o.action = GLOFND_ACTION_ATTRACT, s.o.attract_alpha = 0.1, s.pull0 = 0.75;
    return s;
}

/* ---- against the reference: values, gradients, flags, state, statistics ---- */

TEST(agrees) {
    for (int loss = GLOFND_LOSS_SOGCLR; loss <= GLOFND_LOSS_ISOGCLR; loss++)
        for (int detector = GLOFND_DETECT_GLOFND; detector <= GLOFND_DETECT_FNC; detector++)
            for (int kind = RANDOM; kind < KINDS; kind++)
                for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
                    scene s = make(loss, detector, kind);
                    if (kind < TWO_LEVELS) s.o.action = (glofnd_action)action;
                    s.with_groups = (loss + action) % 2;
                    check_scene_against_reference(&s);
                }
}

TEST(learners_agree) {
    for (int loss = GLOFND_LOSS_SOGCLR; loss <= GLOFND_LOSS_CLIP; loss++)
        for (int learner = GLOFND_LEARN_ADAM; learner <= GLOFND_LEARN_RING; learner++)
            for (int start = GLOFND_INIT_ONE; start <= GLOFND_INIT_QUANTILE; start++) {
                for (int kind = RANDOM; kind < KINDS; kind += BANK) {
                    scene s = make(loss, GLOFND_DETECT_GLOFND, kind);
                    s.o.learner = learner;
                    s.o.lambda_init = start;
                    s.o.ring_rows = 64;
                    check_scene_against_reference(&s);
                }
            }
}

/* alpha = 0, as before a detector begins: nothing is flagged, but averages are kept. */
TEST(averages_are_kept_without_detector) {
    for (int detector = GLOFND_DETECT_GLOFND; detector <= GLOFND_DETECT_FNC; detector++) {
        scene s = make(GLOFND_LOSS_SOGCLR, detector, BANK);
        s.o.alpha = 0;
        s.with_labels = 0; /* no statistics: there is no quantile */
        check_scene_against_reference(&s);
    }
}

TEST(shapes_agree) {
    for (int64_t batch = 2; batch <= 70; batch += batch < 6 ? 1 : 9)
        for (int loss = GLOFND_LOSS_SOGCLR; loss <= GLOFND_LOSS_CLIP; loss++) {
            scene s = make(loss, GLOFND_DETECT_GLOFND, (int)(batch % KINDS));
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

TEST(official_agrees) {
    for (int loss = GLOFND_LOSS_SOGCLR; loss <= GLOFND_LOSS_FASTCLIP; loss++)
        for (int kind = RANDOM; kind < KINDS; kind++) {
            if (kind >= TWO_LEVELS) continue; /* the authors do not attract */
            scene s = make(loss, GLOFND_DETECT_GLOFND, kind);
            s.o.compat = GLOFND_COMPAT_OFFICIAL;
            check_scene_against_reference(&s);
        }
}

/* ---- threads and ranks ---- */

TEST(threads_give_the_same_bits) {
    for (int loss = GLOFND_LOSS_SOGCLR; loss <= GLOFND_LOSS_CLIP; loss++) {
        scene s = make(loss, GLOFND_DETECT_GLOFND, BANK_RANDOM);
        s.batch = 75, s.anchors = 100, s.o.tile = 32;
        check_threads(&s, 3);
    }
}

TEST(ranks_change_only_rounding) {
    for (int loss = GLOFND_LOSS_SOGCLR; loss <= GLOFND_LOSS_ISOGCLR; loss++)
        for (int detector = GLOFND_DETECT_GLOFND; detector <= GLOFND_DETECT_FNC; detector++)
            for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
                scene s = make(loss, detector, (loss + ranks) % KINDS);
                s.batch = 20, s.anchors = 27, s.dim = 11;
                if (s.o.attract_alpha == 0) s.o.action = (glofnd_action)((loss + detector) % 3);
                check_ranks(&s, ranks);
            }
}

/* ---- the draw itself ---- */

/* 40 % of ordered pairs are drawn, both ways round and every epoch anew. */
TEST(draws_are_even_and_independent) {
    enum { N = 400 };
    glofnd_options o;
    gf_method_options_init(&o);
    o.flag_probability = 0.4;
    const gf_mark_rule now = gf_mark_rule_of(&o, 3, 2), next = gf_mark_rule_of(&o, 4, 2);
    int hits = 0, both_ways = 0, both_epochs = 0;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++) {
            const int drawn = gf_mark_draw(&now, i, j) < now.below;
            hits += drawn;
            both_ways += drawn && gf_mark_draw(&now, j, i) < now.below;
            both_epochs += drawn && gf_mark_draw(&next, i, j) < next.below;
        }
    assert_true(fabs((double)hits / (N * N) - 0.4) < 0.005); /* four standard deviations */
    assert_true(fabs((double)both_ways / (N * N) - 0.16) < 0.01);
    assert_true(fabs((double)both_epochs / (N * N) - 0.16) < 0.005);
}

/* ---- refused ---- */

TEST(labels_are_needed) {
    scene s = make(GLOFND_LOSS_SOGCLR, GLOFND_DETECT_GLOFND, LABEL);
    s.with_labels = 0;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    scene_batch b;
    scene_draw(&s, 0, &b);
    assert_int_equal(glofnd_step(w.ctx, w.store, &b.q, out.grad_a, out.grad_b, NULL), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(w.ctx), "require_label"));
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

TEST(similarities_alone_are_not_enough) {
    float sim[4] = {0, 0.5f, 0.5f, 0};
    const int64_t id[2] = {0, 1};
    if (getenv("GLOFND_TEST_DEVICE")) return;
    scene s = make(GLOFND_LOSS_SOGCLR, GLOFND_DETECT_GLOFND, RANDOM);
    runner w = runner_make(&s);
    const glofnd_sims q = {.size = sizeof q, .rows = 2, .cols = 2, .sim = sim, .id = id, .views = 1};
    assert_int_equal(glofnd_update(w.ctx, w.store, &q), GLOFND_E_UNSUPPORTED);
    runner_free(&w);
}

TEST(topk_is_refused) {
    char why[256];
    scene s = make(GLOFND_LOSS_SOGCLR, GLOFND_DETECT_FNC, RANDOM);
    s.o.fnc_rule = GLOFND_FNC_TOPK;
    assert_int_equal(glofnd_options_check(&s.o, why, sizeof why), GLOFND_E_OPTION);
    assert_non_null(strstr(why, "fnc_rule"));
}

TEST(two_levels_exclude_other_shared_thresholds) {
    char why[256];
    scene s = make(GLOFND_LOSS_SOGCLR, GLOFND_DETECT_GLOFND, TWO_LEVELS);
    assert_int_equal(glofnd_options_check(&s.o, why, sizeof why), GLOFND_OK);
    s.o.lambda_warmup = 1;
    assert_int_equal(glofnd_options_check(&s.o, why, sizeof why), GLOFND_E_OPTION);
    s.o.lambda_warmup = 0;
    s.o.attract_alpha = 0.5;
    assert_int_equal(glofnd_options_check(&s.o, why, sizeof why), GLOFND_E_OPTION);
    assert_non_null(strstr(why, "attract_alpha"));
}

/* Both views of a sample have one average, so every similarity occurs twice: FNC flags the share of samples that alpha names,
 * also where the quantile of all pairs falls between two equal ones. */
TEST(fnc_flags_its_share_of_averages) {
    static const double alpha[] = {0.01, 0.03, 0.07, 0.1, 0.22, 0.3, 0.5};
    for (size_t i = 0; i < sizeof alpha / sizeof *alpha; i++)
        for (int64_t batch = 9; batch <= 70; batch += 61) {
            scene s = make(GLOFND_LOSS_SOGCLR, GLOFND_DETECT_FNC, BANK);
            s.o.alpha = alpha[i], s.o.update_epoch = s.o.mask_epoch = 0;
            s.batch = batch, s.anchors = batch + 3, s.dim = 24;
            runner w = runner_make(&s);
            outputs out = outputs_make(&s);
            scene_batch b;
            scene_draw(&s, 0, &b);
            run_step(&w, &b.q, &out);
            assert_int_equal(out.stats.flagged, 2 * batch * 2 * (int64_t)ceil(alpha[i] * (double)(batch - 2)));
            scene_batch_free(&b);
            outputs_free(&out);
            runner_free(&w);
        }
}

/* The threshold of attraction finds its share from above. */
TEST(attraction_finds_its_share) {
    scene s = make(GLOFND_LOSS_SOGCLR, GLOFND_DETECT_GLOFND, TWO_LEVELS_BANK);
    s.batch = 40, s.anchors = 60, s.pull0 = 0, s.o.attract_alpha = 0.05, s.o.update_epoch = s.o.mask_epoch = 0;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    glofnd_row shared;
    for (int step = 0; step < 300; step++) {
        scene_batch b;
        scene_draw(&s, step, &b);
        run_step(&w, &b.q, &out);
        scene_batch_free(&b);
    }
    expect_ok(w.ctx, glofnd_rows_get(w.ctx, w.store, 0, &(int64_t){GLOFND_SHARED}, 1, &shared));
    assert_int_equal(shared.clock, 300);
    assert_true(shared.lambda > 0.5f && shared.lambda < 0.99f);
    const double before = (double)shared.lambda;
    for (int step = 300; step < 330; step++) {
        scene_batch b;
        scene_draw(&s, step, &b);
        run_step(&w, &b.q, &out);
        scene_batch_free(&b);
    }
    expect_ok(w.ctx, glofnd_rows_get(w.ctx, w.store, 0, &(int64_t){GLOFND_SHARED}, 1, &shared));
    assert_true(fabs((double)shared.lambda - before) < 0.02); /* at rest; on the way it moves by 0.06 */
    outputs_free(&out);
    runner_free(&w);
}
