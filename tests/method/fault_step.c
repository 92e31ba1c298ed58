/* fault_step.c - memory: a step after glofnd_ctx_reserve takes none, and each allocation of create, reserve and step may fail
 * once with nothing worse than E_MEMORY. A workspace of the caller serves as well as its own.
 */
#include "support/test.h"

#include "support/compare.h"
#include "support/faults.h"
#include "support/losses.h"
#include "support/typed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- scenes ---- */

static scene variant(int loss, int detector, glofnd_learner learner) {
    char name[64];
    snprintf(name, sizeof name, "loss %d, detector %d, learner %d", loss, detector, (int)learner);
    scene s = scene_make(name, loss);
    s.o.detector = (glofnd_detector)detector;
    s.o.fnc_rule = loss % 2 ? GLOFND_FNC_TOPK : GLOFND_FNC_QUANTILE;
    s.o.learner = learner;
    s.o.ring_rows = 4 * s.batch;
    s.o.update_epoch = s.o.mask_epoch = 0;
    s.o.threads = 2;
    s.with_groups = detector == GLOFND_DETECT_GROUPS;
    s.with_support = detector == GLOFND_DETECT_FNC && loss % 2;
    s.batch = 40;
    s.anchors = 50;
    return s;
}

/* ---- no allocation after reserve ---- */

/* Shapes within the reserved one: own rows against all columns, and a smaller batch on one rank. */
static void run_smaller(runner *w, const glofnd_batch *q, outputs *out) {
    glofnd_batch fewer = *q;
    const glofnd_own_rows part = {.size = sizeof part, .first = 1, .rows = q->n / 2};
    expect_ok(w->ctx, glofnd_step_rows(w->ctx, w->store, q, &part, out->links, NULL));
    fewer.n = q->n - 3;
    run_step(w, &fewer, out);
}

static void check_no_allocation(const scene *s) {
    runner w = runner_make(s);
    outputs out = outputs_make(s);
    scene_batch b[2];
    size_t bytes = 0;
    for (int k = 0; k < 2; k++) scene_draw(s, k, &b[k]);
    expect_ok(w.ctx, glofnd_ctx_reserve(w.ctx, s->batch, s->batch, s->dim, &bytes));
    assert_true(bytes > 0);
    faults_at(-1);
    for (int k = 0; k < 2; k++) run_step(&w, &b[k].q, &out);
    run_two_calls(&w, &b[0].q, &out);
    if (s->o.detector != GLOFND_DETECT_SINGLE) run_smaller(&w, &b[0].q, &out); /* which would need a sum over ranks */
    const long seen = faults_count();
    if (seen != 0) fail_msg("%s: %ld allocations in steps after reserve", s->name, seen);
    for (int k = 0; k < 2; k++) scene_batch_free(&b[k]);
    outputs_free(&out);
    runner_free(&w);
}

TEST(steps_after_reserve_allocate_nothing) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        for (int detector = GLOFND_DETECT_NONE; detector <= GLOFND_DETECT_GROUPS; detector++) {
            scene s = variant(loss, detector, GLOFND_LEARN_ADAM);
            check_no_allocation(&s);
        }
        scene s = variant(loss, GLOFND_DETECT_GLOFND, GLOFND_LEARN_RING);
        check_no_allocation(&s);
    }
}

/* 16-bit rows are converted into the workspace, and gradients out of it. */
TEST(steps_of_other_types_allocate_nothing) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        scene s = variant(loss, GLOFND_DETECT_FNC, GLOFND_LEARN_ADAM);
        runner w = runner_make(&s);
        scene_batch b;
        scene_draw(&s, 0, &b);
        typed_batch t = typed_make(&b, loss % 2 ? GLOFND_BF16 : GLOFND_F16, loss % 2 ? GLOFND_BF16 : GLOFND_F32, TYPED_PADDED);
        expect_ok(w.ctx, glofnd_ctx_reserve(w.ctx, s.batch, s.batch, s.dim, NULL));
        faults_at(-1);
        expect_ok(w.ctx, glofnd_step(w.ctx, w.store, &t.q, t.grad_a, t.grad_b, NULL));
        assert_int_equal(faults_count(), 0);
        typed_free(&t);
        scene_batch_free(&b);
        runner_free(&w);
    }
}

/* ---- a workspace of the caller ---- */

static void check_given_workspace(const scene *s) {
    runner w = runner_make(s), own = runner_make(s);
    outputs out = outputs_make(s), want = outputs_make(s);
    const size_t flat = (size_t)(s->batch * s->dim) * sizeof(float);
    scene_batch b;
    size_t bytes = 0, reserved = 0;
    scene_draw(s, 0, &b);
    run_step(&own, &b.q, &want);
    expect_ok(own.ctx, glofnd_ctx_reserve(own.ctx, s->batch, s->batch, s->dim, &reserved));
    expect_ok(w.ctx, glofnd_ctx_workspace_bytes(w.ctx, s->batch, s->batch, s->dim, &bytes));
    assert_int_equal(bytes, reserved);
    char *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(memory);
    memset(memory, 0x5A, (bytes + 127) / 64 * 64);
    expect_ok(w.ctx, glofnd_ctx_workspace(w.ctx, memory, bytes));
    faults_at(-1);
    expect_ok(w.ctx, glofnd_ctx_reserve(w.ctx, s->batch, s->batch, s->dim, NULL));
    run_step(&w, &b.q, &out);
    assert_int_equal(faults_count(), 0);
    for (size_t i = bytes; i < (bytes + 127) / 64 * 64; i++) assert_int_equal(memory[i], 0x5A); /* not one byte more */
    assert_memory_equal(out.grad_a, want.grad_a, flat);
    assert_memory_equal(out.grad_b, want.grad_b, flat);
    expect_ok(w.ctx, glofnd_ctx_workspace(w.ctx, memory, 4096));
    assert_int_equal(glofnd_step(w.ctx, w.store, &b.q, out.grad_a, out.grad_b, NULL), GLOFND_E_MEMORY);
    assert_non_null(strstr(glofnd_ctx_error(w.ctx), "glofnd_ctx_workspace was given 4096"));
    assert_int_equal(glofnd_ctx_workspace(w.ctx, memory + 8, bytes), GLOFND_E_ARGUMENT);
    expect_ok(w.ctx, glofnd_ctx_workspace(w.ctx, NULL, 0)); /* and its own again */
    free(memory);
    run_step(&w, &b.q, &out);
    scene_batch_free(&b);
    outputs_free(&out);
    outputs_free(&want);
    runner_free(&w);
    runner_free(&own);
}

TEST(a_workspace_may_be_given) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++)
        for (int detector = GLOFND_DETECT_NONE; detector <= GLOFND_DETECT_FNC; detector++) {
            scene s = variant(loss, detector, GLOFND_LEARN_ADAM);
            check_given_workspace(&s);
        }
}

/* ---- every allocation fails once ---- */

TEST(create_survives_every_failure) {
    scene s = variant(LOSS_SOGCLR, GLOFND_DETECT_GLOFND, GLOFND_LEARN_ADAM);
    int failures = 0;
    for (long at = 0;; at++) {
        glofnd_ctx *c = NULL;
        faults_at(at);
        const glofnd_status got = glofnd_ctx_create(&s.o, &c, NULL, 0);
        if (!faults_end()) {
            assert_int_equal(got, GLOFND_OK);
            glofnd_ctx_free(c);
            break;
        }
        failures++;
        assert_int_equal(got, GLOFND_E_MEMORY);
        assert_null(c);
    }
    assert_true(failures > 0);
}

TEST(reserve_survives_every_failure) {
    scene s = variant(LOSS_ISOGCLR, GLOFND_DETECT_FNC, GLOFND_LEARN_ADAM);
    runner w = runner_make(&s);
    int failures = 0;
    for (long at = 0;; at++) {
        faults_at(at);
        const glofnd_status got = glofnd_ctx_reserve(w.ctx, s.batch, s.batch, s.dim, NULL);
        if (!faults_end()) {
            assert_int_equal(got, GLOFND_OK);
            break;
        }
        failures++;
        assert_int_equal(got, GLOFND_E_MEMORY);
        assert_true(glofnd_ctx_error(w.ctx)[0] != 0);
    }
    assert_true(failures > 0);
    runner_free(&w);
}

static void read_sides(const scene *s, const runner *w, glofnd_anchor *rows) {
    for (int side = 0; side < (scene_two_views(s) ? 1 : 2); side++) read_rows(w, side, s->anchors, rows + side * s->anchors);
}

/* The second step of a run, in a context that has no workspace yet; then the same step undisturbed elsewhere. */
static void check_step_failures(const scene *s) {
    runner w = runner_make(s), undisturbed = runner_make(s);
    outputs out = outputs_make(s), want = outputs_make(s);
    scene_batch b[2];
    glofnd_anchor *before = calloc((size_t)(2 * s->anchors), sizeof *before);
    glofnd_anchor *after = calloc((size_t)(2 * s->anchors), sizeof *after);
    assert_true(before && after);
    int failures = 0;
    for (int k = 0; k < 2; k++) scene_draw(s, k, &b[k]);
    run_step(&w, &b[0].q, &out);
    run_step(&undisturbed, &b[0].q, &want);
    run_step(&undisturbed, &b[1].q, &want);
    read_sides(s, &w, before);
    for (long at = 0;; at++) {
        glofnd_ctx *fresh = NULL;
        expect_ok(fresh, glofnd_ctx_create(&s->o, &fresh, NULL, 0));
        faults_at(at);
        const glofnd_status got = glofnd_step(fresh, w.store, &b[1].q, out.grad_a, out.grad_b, &out.stats);
        const int failed = faults_end();
        if (failed) {
            failures++;
            if (got != GLOFND_E_MEMORY) fail_msg("%s: allocation %ld failed, status %d", s->name, at, (int)got);
            assert_true(glofnd_ctx_error(fresh)[0] != 0);
            read_sides(s, &w, after);
            if (memcmp(before, after, (size_t)(2 * s->anchors) * sizeof *before)) fail_msg("%s: store changed", s->name);
        }
        glofnd_ctx_free(fresh);
        if (!failed) {
            assert_int_equal(got, GLOFND_OK);
            break;
        }
    }
    assert_true(failures > 0);
    assert_memory_equal(out.grad_a, want.grad_a, (size_t)(s->batch * s->dim) * sizeof(float));
    assert_true(out.stats.loss == want.stats.loss);
    read_sides(s, &w, after);
    read_sides(s, &undisturbed, before);
    assert_memory_equal(after, before, (size_t)(2 * s->anchors) * sizeof *before);
    for (int k = 0; k < 2; k++) scene_batch_free(&b[k]);
    free(before);
    free(after);
    outputs_free(&out);
    outputs_free(&want);
    runner_free(&w);
    runner_free(&undisturbed);
}

TEST(step_survives_every_failure) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        for (int detector = GLOFND_DETECT_NONE; detector <= GLOFND_DETECT_GROUPS; detector++) {
            scene s = variant(loss, detector, GLOFND_LEARN_ADAM);
            check_step_failures(&s);
        }
    }
    scene ring = variant(LOSS_SOGCLR, GLOFND_DETECT_GLOFND, GLOFND_LEARN_RING);
    check_step_failures(&ring);
}
