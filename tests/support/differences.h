/* differences.h - gradients of the reference against central differences of its value, in float64. */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "reference.h"
#include "scene.h"

#define DIFFERENCE_STEP 1e-5
#define DIFFERENCE_LIMIT 2e-8 /* of the largest entry; the truncation error of central differences at this step */

/* ref_objective or ref_surrogate. */
typedef double (*ref_value)(const glofnd_options *, const ref_step *, const double *h, const double *tau);

static inline double largest_entry(const double *x, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

static inline void check_features(const scene *s, const ref_step *r, ref_value value) {
    const int64_t n = r->cols * r->dim;
    const double limit = DIFFERENCE_LIMIT * fmax(largest_entry(r->grad, n), 1);
    double *h = malloc((size_t)n * sizeof *h);
    assert_non_null(h);
    memcpy(h, r->h, (size_t)n * sizeof *h);
    for (int64_t j = 0; j < n; j++) {
        h[j] = r->h[j] + DIFFERENCE_STEP;
        const double up = value(&s->o, r, h, r->tau);
        h[j] = r->h[j] - DIFFERENCE_STEP;
        const double down = value(&s->o, r, h, r->tau);
        h[j] = r->h[j];
        expect_near(s->name, s->steps - 1, "dL/dh by differences", r->grad[j], (up - down) / (2 * DIFFERENCE_STEP), limit);
    }
    free(h);
}

/* The bias of a sigmoid loss: the value reads it from the step. */
static inline void check_bias(const scene *s, const ref_step *r, ref_value value) {
    ref_step moved = *r;
    moved.bias = r->bias + DIFFERENCE_STEP;
    const double up = value(&s->o, &moved, r->h, r->tau);
    moved.bias = r->bias - DIFFERENCE_STEP;
    const double slope = (up - value(&s->o, &moved, r->h, r->tau)) / (2 * DIFFERENCE_STEP);
    expect_near(s->name, s->steps - 1, "dL/dbias by differences", r->grad_bias, slope, 1e-7 * fmax(fabs(slope), 1));
}

/* Shared tau: all rows move together. A temperature per anchor: one row at a time, and the step's value lacks the 1/B. */
static inline void check_temperatures(const scene *s, const ref_step *r, ref_value value) {
    const int individual = ref_individual(&s->o);
    const double step = DIFFERENCE_STEP * r->tau[0];
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
