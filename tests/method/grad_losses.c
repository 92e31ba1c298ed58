/* grad_losses.c - every gradient by finite differences, in double, for each loss x action x compat; then the library against it.
 *
 * Two proofs, because the algorithm's gradient is that of the objective only when u = ghat:
 *   gamma = 1, compat PAPER   central differences of the objective itself
 *   gamma < 1, both compats   central differences of the surrogate in which u is a constant
 * Steps of 1e-5 in double leave errors near 1e-9. The flags are held as the step found them: thresholds are constants of the
 * method, not variables of the loss.
 */
#include "support/test.h"

#include "support/compare.h"
#include "support/differences.h"
#include "support/losses.h"
#include "support/random.h"
#include "support/scene.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const LOSS[] = {"sogclr",  "simclr",        "clip",           "sogclr2", "fastclip",
                                   "isogclr", "isogclr-views", "fastclip-views", "sigmoid", "siglip"};
static const char *const ACTION[] = {"drop", "attract", "weight"};

static int has_temperature_gradient(const glofnd_options *o) {
    return losses_of(o) == LOSS_CLIP || losses_of(o) == LOSS_FASTCLIP || o->loss == GLOFND_LOSS_SIGMOID ||
           losses_of(o) == LOSS_ISOGCLR || (losses_of(o) == LOSS_SOGCLR2 && o->compat == GLOFND_COMPAT_OFFICIAL);
}

/* Losses whose printed value is the surrogate itself. */
static int is_plain_surrogate(const glofnd_options *o) { return ref_official_pairs(o) && losses_of(o) != LOSS_ISOGCLR; }

/* Runs the scene; differences are taken at its last step, where everything is switched on. */
static void check_scene(scene *s, ref_value value) {
    ref_store store;
    scene_avoid_ties(s);
    scene_ref_store(s, &store);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        ref_step r;
        scene_draw(s, step, &b);
        ref_step_run(&s->o, &store, &b.q, NULL, &r);
        if (step == s->steps - 1) {
            assert_true(r.flagged > 0 && r.flagged < r.pairs);
            if (value == ref_objective || is_plain_surrogate(&s->o))
                expect_near(s->name, step, "loss", r.loss, value(&s->o, &r, r.h, r.tau), 1e-12);
            assert_true(largest_entry(r.grad, r.rows * r.dim) > 1e-4);
            check_features(s, &r, value);
            if (has_temperature_gradient(&s->o)) check_temperatures(s, &r, value);
            if (s->o.loss == GLOFND_LOSS_SIGMOID) check_bias(s, &r, value);
        }
        ref_step_free(&r);
        scene_batch_free(&b);
    }
    ref_store_free(&store);
}

static scene small_scene(const char *kind, int loss, glofnd_action action, double gamma, glofnd_compat compat) {
    char name[128];
    snprintf(name, sizeof name, "%s %s/%s", kind, LOSS[loss], ACTION[action]);
    scene s = scene_make(name, loss);
    s.batch = 7;
    s.anchors = 9;
    s.dim = 5;
    s.steps = 4;
    s.lambda0 = 0.6;
    s.o.action = action;
    s.o.gamma = gamma;
    s.o.compat = compat;
    s.o.tau = 0.2;
    return s;
}

TEST(objective_has_this_gradient) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
            scene s = small_scene("objective", loss, (glofnd_action)action, 1, GLOFND_COMPAT_PAPER);
            check_scene(&s, ref_objective);
        }
    }
}

/* Thresholds that follow from the positives are constants of the gradient, too. */
TEST(objective_has_this_gradient_with_thresholds_of_positives) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        for (int relative = 0; relative < 2; relative++) {
            scene s = small_scene("positive", loss, (glofnd_action)((loss + relative) % 3), 1, GLOFND_COMPAT_PAPER);
            s.o.detector = relative ? GLOFND_DETECT_POSITIVE_RELATIVE : GLOFND_DETECT_POSITIVE;
            s.o.margin = -0.1;
            check_scene(&s, ref_objective);
            check_scene_against_reference(&s);
        }
    }
}

TEST(objective_has_this_gradient_with_thresholds_of_both_ends) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        scene s = small_scene("mutual", loss, (glofnd_action)(loss % 3), 1, GLOFND_COMPAT_PAPER);
        s.o.detector = GLOFND_DETECT_MUTUAL;
        check_scene(&s, ref_objective);
        check_scene_against_reference(&s);
    }
}

/* SIGMOID, at a bias where positives and negatives both matter; attracted pairs also with a weight as negatives. */
TEST(sigmoid_objective_has_this_gradient) {
    for (int loss = LOSS_SIGMOID; loss <= LOSS_SIGLIP; loss++)
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++)
            for (int k = 0; k < 2; k++) {
                scene s = small_scene("sigmoid", loss, (glofnd_action)action, 1, GLOFND_COMPAT_PAPER);
                s.o.bias = k ? 1.5 : -2.0;
                s.o.attract_omega = k ? 0.7 : 0.0;
                s.with_groups = k;
                check_scene(&s, ref_objective);
                check_scene_against_reference(&s);
            }
}

TEST(surrogate_has_this_gradient) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        if (loss == LOSS_SIMCLR || loss == LOSS_CLIP) continue; /* no u: nothing to freeze */
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
            for (int compat = GLOFND_COMPAT_PAPER; compat <= GLOFND_COMPAT_OFFICIAL; compat++) {
                scene s = small_scene("surrogate", loss, (glofnd_action)action, 0.6, (glofnd_compat)compat);
                check_scene(&s, ref_surrogate);
            }
        }
    }
}

/* Raw embeddings that are unit vectors already: the gradient must not be projected. */
TEST(unit_vectors_have_this_gradient) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        scene s = small_scene("unit", loss, GLOFND_ACTION_DROP, 1, GLOFND_COMPAT_PAPER);
        s.o.normalize = 0;
        check_scene(&s, ref_objective);
    }
}

/* The library beside the reference whose gradient was just proven, on the same small scenes. */
TEST(library_has_this_gradient) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
            for (int compat = GLOFND_COMPAT_PAPER; compat <= GLOFND_COMPAT_OFFICIAL; compat++) {
                for (int k = 0; k < 2; k++) {
                    const double gamma = k ? 0.6 : 1;
                    scene s = small_scene("library", loss, (glofnd_action)action, gamma, (glofnd_compat)compat);
                    check_scene_against_reference(&s);
                }
            }
        }
    }
}
