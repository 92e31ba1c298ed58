/* golden_marks.c - averages and neighbours against numbers of tools/generate/make_marks_golden.py, a float64 program of its own:
 * losses, flags, gradients of every step; thresholds and averages after the last one.
 */
#include "support/test.h"

#include "fixtures/marks_golden.h"
#include "support/compare.h"
#include "support/on_device.h"
#include "util/dtype.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 2e-5 /* as the other golden numbers */

enum { BATCH = MARKS_BATCH, DIM = MARKS_DIM, ANCHORS = MARKS_ANCHORS };

static glofnd_options options_of(const struct marks_case *c) {
    glofnd_options o;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    on_device_choose(&o);
    o.alpha = c->alpha, o.tau = c->tau, o.gamma = c->gamma, o.lambda_lr = c->lambda_lr;
    o.similarity = c->bank, o.bank_momentum = c->momentum;
    o.neighbours = c->neighbours, o.neighbour_weight = c->near_weight, o.neighbour_share = c->near_share;
    return o;
}

static void run_golden_step(const struct marks_case *c, runner *w, int step) {
    float a[BATCH * DIM], b[BATCH * DIM], grad_a[BATCH * DIM], grad_b[BATCH * DIM];
    int32_t label[BATCH];
    glofnd_stats stats = {.size = sizeof stats};
    for (int i = 0; i < BATCH; i++) {
        label[i] = (int32_t)(c->id[step][i] % 3);
        memcpy(a + i * DIM, c->h[step] + 2 * i * DIM, sizeof(float) * DIM);
        memcpy(b + i * DIM, c->h[step] + (2 * i + 1) * DIM, sizeof(float) * DIM);
    }
    const glofnd_batch q = {
        .size = sizeof q, .n = BATCH, .dim = DIM, .a = a, .b = b, .id = c->id[step], .label = label, .epoch = step};
    expect_ok(w->ctx, on_device_step(w->ctx, w->store, &q, grad_a, grad_b, &stats));
    expect_near(c->name, step, "loss", stats.loss, c->loss[step], TOLERANCE);
    expect_equal(c->name, step, "flagged", stats.flagged, c->flagged[step]);
    for (int i = 0; i < BATCH * DIM; i++) {
        const int at = i / DIM * 2 * DIM + i % DIM;
        expect_near(c->name, step, "grad_a", (double)grad_a[i], c->grad[step][at], TOLERANCE);
        expect_near(c->name, step, "grad_b", (double)grad_b[i], c->grad[step][at + DIM], TOLERANCE);
    }
}

static void check_state(const struct marks_case *c, const runner *w) {
    int64_t id[ANCHORS];
    glofnd_anchor row[ANCHORS];
    uint16_t bank[ANCHORS * DIM];
    for (int i = 0; i < ANCHORS; i++) id[i] = i;
    expect_ok(w->ctx, glofnd_anchors_get(w->ctx, w->store, 0, id, ANCHORS, row));
    for (int i = 0; i < ANCHORS; i++) {
        expect_near(c->name, i, "lambda of an anchor", (double)row[i].lambda, c->lambda[i], TOLERANCE);
        if (row[i].clock > 0) expect_near(c->name, i, "log u of an anchor", (double)row[i].log_u, c->log_u[i], TOLERANCE);
    }
    if (!c->bank) return;
    expect_ok(w->ctx, glofnd_bank_get(w->ctx, w->store, 0, id, ANCHORS, bank));
    for (int i = 0; i < ANCHORS * DIM; i++) /* one rounding to float16 may fall either way */
        expect_near(c->name, i, "average", (double)gf_f16_to_float(bank[i]), c->bank_rows[i], 0x1p-10);
}

TEST(numbers_are_those_of_the_script) {
    for (size_t k = 0; k < sizeof marks_cases / sizeof *marks_cases; k++) {
        const struct marks_case *c = &marks_cases[k];
        const glofnd_options o = options_of(c);
        const glofnd_store_spec spec = {.size = sizeof spec, .n = ANCHORS, .dim = DIM};
        runner w = {0};
        expect_ok(w.ctx, glofnd_ctx_create(&o, &w.ctx, NULL, 0));
        expect_ok(w.ctx, glofnd_store_create(w.ctx, &spec, &w.store));
        for (int step = 0; step < MARKS_STEPS; step++) run_golden_step(c, &w, step);
        check_state(c, &w);
        runner_free(&w);
    }
}
