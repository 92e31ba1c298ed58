/* grad_losses.c - every gradient by finite differences, in double, for each loss x action x compat; then the library against it.
 *
 * Two proofs, because the algorithm's gradient is that of the objective only when u = ghat:
 *   gamma = 1, compat PAPER   central differences of the objective itself
 *   gamma < 1, both compats   central differences of the surrogate in which u is a constant
 * Steps of 1e-5 in double leave errors near 1e-9. The flags are held as the step found them: thresholds are constants of the
 * method, not variables of the loss.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/compare.h"
#include "support/random.h"
#include "support/scene.h"

#define STEP 1e-5
#define TOLERANCE 2e-8 /* of the largest entry; the truncation error of central differences at STEP */

typedef double (*value_of)(const glofnd_options *, const ref_step *, const double *h, const double *tau);

static const char *const LOSS[] = {"sogclr", "simclr", "clip", "sogclr2", "fastclip", "isogclr"};
static const char *const ACTION[] = {"drop", "attract", "weight"};

static double largest(const double *x, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

static void check_features(const scene *s, const ref_step *r, value_of value) {
    const int64_t n = r->rows * r->dim;
    const double scale = largest(r->grad, n);
    double *h = malloc((size_t)n * sizeof *h);
    assert_non_null(h);
    memcpy(h, r->h, (size_t)n * sizeof *h);
    assert_true(scale > 1e-4);
    for (int64_t j = 0; j < n; j++) {
        h[j] = r->h[j] + STEP;
        const double up = value(&s->o, r, h, r->tau);
        h[j] = r->h[j] - STEP;
        const double down = value(&s->o, r, h, r->tau);
        h[j] = r->h[j];
        const double slope = (up - down) / (2 * STEP);
        expect_near(s->name, s->steps - 1, "dL/dh by differences", r->grad[j], slope, TOLERANCE * fmax(scale, 1));
    }
    free(h);
}

/* Shared tau: all rows move together. ISOGCLR: one at a time, and the step's value lacks the 1/B. */
static void check_temperatures(const scene *s, const ref_step *r, value_of value) {
    const int individual = s->o.loss == GLOFND_LOSS_ISOGCLR;
    const double step = STEP * r->tau[0];
    double *tau = malloc((size_t)r->rows * sizeof *tau);
    assert_non_null(tau);
    for (int64_t row = 0; row < (individual ? r->rows : 1); row++) {
        double side[2];
        for (int sign = 0; sign < 2; sign++) {
            for (int64_t k = 0; k < r->rows; k++) tau[k] = r->tau[k] + (individual && k != row ? 0 : sign ? step : -step);
            side[sign] = value(&s->o, r, r->h, tau);
        }
        const double slope = (side[1] - side[0]) / (2 * step);
        const double exact = individual ? r->row_dtau[row] / (double)r->batch : r->grad_tau;
        expect_near(s->name, s->steps - 1, "dL/dtau by differences", exact, slope, 1e-6 * fmax(fabs(exact), 1));
    }
    free(tau);
}

static int has_temperature_gradient(const glofnd_options *o) {
    return o->loss == GLOFND_LOSS_CLIP || o->loss == GLOFND_LOSS_FASTCLIP || o->loss == GLOFND_LOSS_ISOGCLR ||
           (o->loss == GLOFND_LOSS_SOGCLR2 && o->compat == GLOFND_COMPAT_OFFICIAL);
}

/* Losses whose printed value is the surrogate itself. */
static int is_plain_surrogate(const glofnd_options *o) { return ref_official_pairs(o) && o->loss != GLOFND_LOSS_ISOGCLR; }

/* Runs the scene; differences are taken at its last step, where everything is switched on. */
static void check_scene(scene *s, value_of value) {
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
            check_features(s, &r, value);
            if (has_temperature_gradient(&s->o)) check_temperatures(s, &r, value);
        }
        ref_step_free(&r);
        scene_batch_free(&b);
    }
    ref_store_free(&store);
}

static scene small_scene(const char *kind, glofnd_loss loss, glofnd_action action, double gamma, glofnd_compat compat) {
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

static void objective_has_this_gradient(void **state) {
    (void)state;
    for (int loss = GLOFND_LOSS_SOGCLR; loss <= GLOFND_LOSS_ISOGCLR; loss++) {
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
            scene s = small_scene("objective", (glofnd_loss)loss, (glofnd_action)action, 1, GLOFND_COMPAT_PAPER);
            check_scene(&s, ref_objective);
        }
    }
}

static void surrogate_has_this_gradient(void **state) {
    (void)state;
    for (int loss = GLOFND_LOSS_SOGCLR; loss <= GLOFND_LOSS_ISOGCLR; loss++) {
        if (loss == GLOFND_LOSS_SIMCLR || loss == GLOFND_LOSS_CLIP) continue; /* no u: nothing to freeze */
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
            for (int compat = GLOFND_COMPAT_PAPER; compat <= GLOFND_COMPAT_OFFICIAL; compat++) {
                scene s = small_scene("surrogate", (glofnd_loss)loss, (glofnd_action)action, 0.6, (glofnd_compat)compat);
                check_scene(&s, ref_surrogate);
            }
        }
    }
}

/* Raw embeddings that are unit vectors already: the gradient must not be projected. */
static void unit_vectors_have_this_gradient(void **state) {
    (void)state;
    for (int loss = GLOFND_LOSS_SOGCLR; loss <= GLOFND_LOSS_ISOGCLR; loss++) {
        scene s = small_scene("unit", (glofnd_loss)loss, GLOFND_ACTION_DROP, 1, GLOFND_COMPAT_PAPER);
        s.o.normalize = 0;
        check_scene(&s, ref_objective);
    }
}

/* The library beside the reference whose gradient was just proven, on the same small scenes. */
static void library_has_this_gradient(void **state) {
    (void)state;
    for (int loss = GLOFND_LOSS_SOGCLR; loss <= GLOFND_LOSS_ISOGCLR; loss++) {
        for (int action = GLOFND_ACTION_DROP; action <= GLOFND_ACTION_WEIGHT; action++) {
            for (int compat = GLOFND_COMPAT_PAPER; compat <= GLOFND_COMPAT_OFFICIAL; compat++) {
                for (int k = 0; k < 2; k++) {
                    const double gamma = k ? 0.6 : 1;
                    scene s = small_scene("library", (glofnd_loss)loss, (glofnd_action)action, gamma, (glofnd_compat)compat);
                    check_scene_against_reference(&s);
                }
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objective_has_this_gradient),
        cmocka_unit_test(surrogate_has_this_gradient),
        cmocka_unit_test(unit_vectors_have_this_gradient),
        cmocka_unit_test(library_has_this_gradient),
    };
    return cmocka_run_group_tests_name("grad_losses", tests, NULL, NULL);
}
