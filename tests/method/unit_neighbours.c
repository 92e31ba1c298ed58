/* unit_neighbours.c - attraction by neighbours of the whole store, against the dense reference and finite differences; threads,
 * the moving window, the calls for several ranks (their numbers are in unit_equal.c), what is refused. Runs on a GPU, too
 * (GLOFND_TEST_DEVICE=cuda). */
#include "support/test.h"

#include "method/formulas/neighbours.h"
#include "support/compare.h"
#include "support/losses.h"
#include "support/on_device.h"
#include "support/ranks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene make(int loss, int64_t neighbours, double share) {
    scene s = scene_make("neighbours", loss);
    s.batch = 12, s.anchors = 30, s.dim = 9;
    s.o.detector = GLOFND_DETECT_GLOFND;
    s.o.similarity = GLOFND_SIMILARITY_BANK;
    s.o.alpha = 0.2;
    s.o.neighbours = neighbours, s.o.neighbour_weight = 0.7, s.o.neighbour_share = share;
    return s;
}

/* ---- against the reference ---- */

static void compare(scene *s) {
    scene_avoid_ties(s);
    runner w = runner_make(s);
    outputs out = outputs_make(s);
    ref_store store;
    scene_ref_store(s, &store);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        ref_step r;
        scene_draw(s, step, &b);
        ref_step_run(&s->o, &store, &b.q, NULL, &r);
        run_step(&w, &b.q, &out);
        expect_outputs(s, step, &b.q, &out, &r);
        expect_near(s->name, step, "neighbours", out.counters.neighbours, r.neighbours, 1e-12);
        expect_store(s, step, &w, &store, &r);
        ref_step_free(&r);
        scene_batch_free(&b);
    }
    ref_store_free(&store);
    outputs_free(&out);
    runner_free(&w);
}

TEST(agrees) {
    static const int LOSS[] = {LOSS_SOGCLR, LOSS_SIMCLR};
    for (size_t loss = 0; loss < 2; loss++)
        for (int64_t neighbours = 1; neighbours <= 5; neighbours += 2)
            for (int share = 1; share <= 2; share++) {
                scene s = make(LOSS[loss], neighbours, 1.0 / share);
                compare(&s);
            }
}

/* With alpha 0 nothing is flagged, and averages are kept and searched nevertheless. */
TEST(agrees_without_flags) {
    scene s = make(LOSS_SOGCLR, 2, 1.0);
    s.o.alpha = 0;
    s.with_labels = 0; /* no statistics: there is no quantile */
    compare(&s);
}

/* A dimension of two tiles and a store of several blocks. */
TEST(agrees_for_larger_shapes) {
    scene s = make(LOSS_SOGCLR, 1, 1.0);
    s.batch = 33, s.anchors = 150, s.dim = 150;
    compare(&s);
}

/* Neighbours come from a window of the store. */
TEST(agrees_in_a_window) {
    scene s = make(LOSS_SIMCLR, 2, 0.5);
    s.o.neighbour_rows = 12;
    compare(&s);
}

/* ---- the term by itself: it is the difference to a step without it, and its gradient is that of its value ---- */

static void fill_bank(const scene *s, runner *w) {
    for (int step = 0; step < 4; step++) {
        scene_batch b;
        outputs out = outputs_make(s);
        scene_draw(s, step, &b);
        run_step(w, &b.q, &out);
        scene_batch_free(&b);
        outputs_free(&out);
    }
}

static double part_of_loss(const scene *s, runner *w, const glofnd_batch *batch, outputs *with) {
    outputs without = outputs_make(s);
    glofnd_options off = s->o;
    glofnd_batch q = *batch;
    q.want |= GLOFND_WANT_NO_UPDATE;
    off.neighbours = 0;
    run_step(w, &q, with);
    expect_ok(w->ctx, glofnd_ctx_configure(w->ctx, &off));
    run_step(w, &q, &without);
    expect_ok(w->ctx, glofnd_ctx_configure(w->ctx, &s->o));
    for (int64_t i = 0; i < s->batch * s->dim; i++) with->grad_a[i] -= without.grad_a[i];
    const double part = with->stats.loss - without.stats.loss;
    outputs_free(&without);
    return part;
}

TEST(gradient_is_that_of_the_value) {
    scene s = make(LOSS_SOGCLR, 2, 1.0);
    s.o.math = GLOFND_MATH_EXACT;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s), other = outputs_make(&s);
    scene_batch b;
    fill_bank(&s, &w);
    scene_draw(&s, 4, &b);
    part_of_loss(&s, &w, &b.q, &out);
    for (int64_t at = 0; at < s.batch * s.dim; at += 7) {
        const float h = b.a[at], step = 1e-2f;
        b.a[at] = h + step;
        const double up = part_of_loss(&s, &w, &b.q, &other);
        b.a[at] = h - step;
        const double down = part_of_loss(&s, &w, &b.q, &other);
        b.a[at] = h;
        expect_near(s.name, (int)at, "derivative", (double)out.grad_a[at], (up - down) / (2 * (double)step), 2e-5);
    }
    scene_batch_free(&b);
    outputs_free(&out);
    outputs_free(&other);
    runner_free(&w);
}

/* ---- threads ---- */

TEST(threads_give_the_same_bits) {
    scene s = make(LOSS_SOGCLR, 3, 0.5);
    s.batch = 40, s.anchors = 700;
    check_threads(&s, 3);
}

/* ---- lists and the window ---- */

TEST(lists_do_not_depend_on_the_order) {
    const float s[] = {0.5f, 0.25f, 0.5f, -0.5f, 0.75f, 0.0f};
    gf_neighbour up[3] = {{0}}, down[3] = {{0}};
    for (int i = 0; i < 6; i++) gf_neighbour_insert(up, 3, s[i], i);
    for (int i = 5; i >= 0; i--) gf_neighbour_insert(down, 3, s[i], i);
    assert_memory_equal(up, down, sizeof up);
    assert_true(up[0].slot == 4 && up[1].slot == 0 && up[2].slot == 2);
}

/* Windows of a tenth of the store reach all of it. */
TEST(the_window_moves) {
    glofnd_options o;
    uint8_t seen[1000] = {0};
    int64_t sum = 0;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    o.neighbour_rows = 100;
    for (int64_t step = 0; step < 200; step++) {
        const int64_t first = gf_neighbour_first(&o, 1000, step * 37 % 1000, (int32_t)(step / 20));
        assert_true(first >= 0 && first < 1000);
        for (int64_t i = 0; i < gf_neighbour_count(&o, 1000); i++) seen[(first + i) % 1000] = 1;
    }
    for (int i = 0; i < 1000; i++) sum += seen[i];
    assert_int_equal(sum, 1000);
    o.neighbour_rows = 0;
    assert_int_equal(gf_neighbour_count(&o, 1000), 1000);
    assert_int_equal(gf_neighbour_first(&o, 1000, 5, 5), 0);
}

/* Neighbours come from the window alone. */
TEST(only_the_window_attracts) {
    scene s = make(LOSS_SOGCLR, 4, 1.0);
    s.o.neighbour_rows = 1;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    fill_bank(&s, &w);
    scene_batch b;
    scene_draw(&s, 4, &b);
    run_step(&w, &b.q, &out);
    assert_true(out.counters.neighbours <= 1.0);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

/* ---- refused ---- */

static void expect_refused(const glofnd_options *o) {
    char why[256] = "";
    assert_int_equal(glofnd_options_check(o, why, sizeof why), GLOFND_E_OPTION);
    assert_non_null(strstr(why, "neighbours"));
}

TEST(wrong_use_is_refused) {
    const scene s = make(LOSS_SOGCLR, 2, 1.0);
    glofnd_options o = s.o;
    assert_int_equal(glofnd_options_check(&o, NULL, 0), GLOFND_OK);
    o.similarity = GLOFND_SIMILARITY_EMBEDDING, expect_refused(&o);
    o = s.o, losses_set(&o, LOSS_CLIP), expect_refused(&o);
    o = s.o, o.detector = GLOFND_DETECT_NONE, expect_refused(&o);
}

static void expect_text(const runner *w, glofnd_status status, glofnd_status want, const char *text) {
    assert_int_equal(status, want);
    if (!strstr(glofnd_ctx_error(w->ctx), text)) fail_msg("\"%s\" is not in: %s", text, glofnd_ctx_error(w->ctx));
}

/* The two calls: one after the other for one batch, the averages of all samples, a sum over ranks. */
TEST(wrong_ranks_are_refused) {
    const scene s = make(LOSS_SOGCLR, 2, 0.5);
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    glofnd_batch_extra extra;
    scene_batch b, next;
    scene_draw(&s, 4, &b);
    scene_draw(&s, 5, &next);
    const glofnd_batch whole = batch_with_bank(&w, &b.q, &extra);
    glofnd_batch other = next.q;
    glofnd_own_rows half = {.size = sizeof half, .rows = s.batch / 2};
#define ROWS(q, own) on_device_step_rows(w.ctx, w.store, (q), (own), out.links, NULL)
#define GRAD(q) on_device_step_grad(w.ctx, (q), NULL, out.links, out.grad_a, out.grad_b, NULL)
    const int gpu = w.ctx->device != NULL;
    expect_text(&w, ROWS(&b.q, NULL), GLOFND_E_ARGUMENT, "bank_a");
    expect_text(&w, GRAD(&whole), GLOFND_E_ARGUMENT, "after glofnd_step_rows");
    if (!gpu) expect_text(&w, ROWS(&whole, &half), GLOFND_E_ARGUMENT, "glofnd_ctx_reduce");
    half.slot = b.q.id;
    expect_text(&w, ROWS(&whole, &half), GLOFND_E_ARGUMENT, "own.slot must be NULL");
    other.extra = &extra;
    if (gpu) other.epoch++; /* ids on a device are not compared */
    assert_int_equal(ROWS(&whole, NULL), GLOFND_OK);
    expect_text(&w, GRAD(&other), GLOFND_E_ARGUMENT, "the same batch");
    assert_int_equal(GRAD(&whole), GLOFND_OK);
    expect_ok(w.ctx, glofnd_ctx_reserve(w.ctx, s.batch, s.batch, s.dim, NULL)); /* what was found is gone */
    expect_text(&w, GRAD(&whole), GLOFND_E_ARGUMENT, "after glofnd_step_rows");
#undef ROWS
#undef GRAD
    bank_free(&extra);
    scene_batch_free(&b);
    scene_batch_free(&next);
    outputs_free(&out);
    runner_free(&w);
}

TEST(two_calls_give_the_same_bits) {
    const scene s = make(LOSS_SIMCLR, 3, 0.5);
    check_two_calls(&s);
}
