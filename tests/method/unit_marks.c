/* unit_marks.c - flags by averaged embeddings (similarity bank), which are marked before the sums, against the dense reference;
 * with threads, ranks, and what is refused. Runs on a GPU, too (GLOFND_TEST_DEVICE=cuda).
 */
#include "support/test.h"

#include "support/compare.h"
#include "support/losses.h"
#include "support/ranks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const LOSS[] = {"sogclr", "simclr", "clip", "sogclr2", "fastclip", "isogclr"};
static const char *const DETECTOR[] = {"none", "glofnd", "single", "fnc"};
static scene make(int loss, int detector) {
    char name[128];
    snprintf(name, sizeof name, "%s/%s/bank", LOSS[loss], DETECTOR[detector]);
    scene s = scene_make(name, loss);
    s.o.detector = (glofnd_detector)detector;
    s.o.alpha = 0.3;
    s.o.similarity = GLOFND_SIMILARITY_BANK, s.o.bank_momentum = 0.6;
    return s;
}

/* ---- against the reference: values, gradients, flags, state, statistics ---- */

TEST(agrees) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++)
        for (int detector = GLOFND_DETECT_GLOFND; detector <= GLOFND_DETECT_FNC; detector++)
            for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
                scene s = make(loss, detector);
                s.o.action = (glofnd_action)action;
                s.with_groups = (loss + action) % 2;
                check_scene_against_reference(&s);
            }
}

TEST(learners_agree) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_CLIP; loss++)
        for (int learner = GLOFND_LEARN_ADAM; learner <= GLOFND_LEARN_RING; learner++)
            for (int start = GLOFND_INIT_ONE; start <= GLOFND_INIT_QUANTILE; start++) {
                scene s = make(loss, GLOFND_DETECT_GLOFND);
                s.o.learner = learner;
                s.o.lambda_init = start;
                s.o.ring_rows = 64;
                check_scene_against_reference(&s);
            }
}

/* alpha = 0, as before a detector begins: nothing is flagged, but averages are kept. */
TEST(averages_are_kept_without_detector) {
    for (int detector = GLOFND_DETECT_GLOFND; detector <= GLOFND_DETECT_FNC; detector++) {
        scene s = make(LOSS_SOGCLR, detector);
        s.o.alpha = 0;
        s.with_labels = 0; /* no statistics: there is no quantile */
        check_scene_against_reference(&s);
    }
}

/* Above the thresholds of both ends, by similarities of averages and of embeddings, with every learner. */
TEST(mutual_agrees) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++)
        for (int learner = GLOFND_LEARN_ADAM; learner <= GLOFND_LEARN_RING; learner++)
            for (int bank = 0; bank < 2; bank++) {
                scene s = make(loss, GLOFND_DETECT_GLOFND);
                s.o.detector = GLOFND_DETECT_MUTUAL;
                s.o.similarity = bank ? GLOFND_SIMILARITY_BANK : GLOFND_SIMILARITY_EMBEDDING;
                s.o.learner = learner, s.o.ring_rows = 64;
                s.o.action = (glofnd_action)((loss + learner) % 3);
                s.o.lambda_warmup = learner == GLOFND_LEARN_SGD;
                s.with_groups = (loss + bank) % 2;
                check_scene_against_reference(&s);
                if (learner == GLOFND_LEARN_ADAM) s.batch = 20, s.anchors = 27, check_ranks(&s, 1 + loss % MAX_RANKS);
            }
}

TEST(ranks_of_mutual_thresholds_need_a_sum) {
    if (getenv("GLOFND_TEST_DEVICE")) return;
    scene s = make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    s.o.detector = GLOFND_DETECT_MUTUAL, s.o.similarity = GLOFND_SIMILARITY_EMBEDDING;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    scene_batch b;
    scene_draw(&s, 0, &b);
    const glofnd_own_rows own = {.size = sizeof own, .rows = s.batch - 1};
    assert_int_equal(glofnd_step_rows(w.ctx, w.store, &b.q, &own, out.links, NULL), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(w.ctx), "detector mutual"));
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

TEST(shapes_agree) {
    for (int64_t batch = 2; batch <= 70; batch += batch < 6 ? 1 : 9)
        for (int loss = LOSS_SOGCLR; loss <= LOSS_CLIP; loss++) {
            scene s = make(loss, GLOFND_DETECT_GLOFND);
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
    for (int loss = LOSS_SOGCLR; loss <= LOSS_FASTCLIP; loss++) {
        scene s = make(loss, GLOFND_DETECT_GLOFND);
        s.o.compat = GLOFND_COMPAT_OFFICIAL;
        check_scene_against_reference(&s);
    }
}

/* ---- threads and ranks ---- */

TEST(threads_give_the_same_bits) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_CLIP; loss++) {
        scene s = make(loss, GLOFND_DETECT_GLOFND);
        s.batch = 75, s.anchors = 100;
        check_threads(&s, 3);
    }
}

TEST(ranks_change_only_rounding) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++)
        for (int detector = GLOFND_DETECT_GLOFND; detector <= GLOFND_DETECT_FNC; detector++)
            for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
                scene s = make(loss, detector);
                s.batch = 20, s.anchors = 27, s.dim = 11;
                s.o.action = (glofnd_action)((loss + detector) % 3);
                check_ranks(&s, ranks);
            }
}

/* ---- refused ---- */

TEST(similarities_alone_are_not_enough) {
    float sim[4] = {0, 0.5f, 0.5f, 0};
    const int64_t id[2] = {0, 1};
    if (getenv("GLOFND_TEST_DEVICE")) return;
    scene s = make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    runner w = runner_make(&s);
    const glofnd_sims q = {.size = sizeof q, .rows = 2, .cols = 2, .sim = sim, .id = id, .views = 1};
    assert_int_equal(glofnd_detect_update(w.ctx, w.store, &q), GLOFND_E_UNSUPPORTED);
    runner_free(&w);
}

TEST(topk_is_refused) {
    char why[256];
    scene s = make(LOSS_SOGCLR, GLOFND_DETECT_FNC);
    s.o.fnc_rule = GLOFND_FNC_TOPK;
    assert_int_equal(glofnd_options_check(&s.o, why, sizeof why), GLOFND_E_OPTION);
    assert_non_null(strstr(why, "fnc_rule"));
}

/* Both views of a sample have one average, so every similarity occurs twice: FNC flags the share of samples that alpha names,
 * also where the quantile of all pairs falls between two equal ones. */
TEST(fnc_flags_its_share_of_averages) {
    static const double alpha[] = {0.01, 0.03, 0.07, 0.1, 0.22, 0.3, 0.5};
    for (size_t i = 0; i < sizeof alpha / sizeof *alpha; i++)
        for (int64_t batch = 9; batch <= 70; batch += 61) {
            scene s = make(LOSS_SOGCLR, GLOFND_DETECT_FNC);
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
