/* unit_loss.c - loss and temperature by pointer: what glofnd_ctx_loss() writes is what the stats say, and a temperature read by
 * glofnd_ctx_tau() gives the bits of the same one in the batch. cuda_loss.c has the same for a GPU. */
#include "support/test.h"

#include "support/compare.h"
#include "support/losses.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

TEST(the_loss_is_that_of_the_stats) {
    for (int loss = LOSS_SOGCLR; loss < LOSSES; loss++) {
        scene s = scene_make("loss by pointer", loss);
        runner w = runner_make(&s);
        outputs out = outputs_make(&s);
        float value = 0, grad_tau = 0;
        scene_batch b;
        scene_draw(&s, 0, &b);
        assert_int_equal(glofnd_ctx_loss(w.ctx, &value, &grad_tau), GLOFND_E_ARGUMENT); /* no step yet */
        run_step(&w, &b.q, &out);
        expect_ok(w.ctx, glofnd_ctx_loss(w.ctx, &value, &grad_tau));
        assert_true(value == (float)out.stats.loss && grad_tau == (float)out.stats.grad_tau);
        assert_true((grad_tau != 0) ==
                    (loss == LOSS_CLIP || s.o.loss == GLOFND_LOSS_FASTCLIP || s.o.loss == GLOFND_LOSS_SIGMOID));
        expect_ok(w.ctx, glofnd_ctx_loss(w.ctx, NULL, NULL));
        assert_int_equal(glofnd_ctx_loss(w.ctx, (float *)((char *)&value + 1), NULL), GLOFND_E_ARGUMENT);
        assert_int_equal(glofnd_ctx_loss(NULL, &value, NULL), GLOFND_E_ARGUMENT);
        scene_batch_free(&b);
        outputs_free(&out);
        runner_free(&w);
    }
}

TEST(a_temperature_by_pointer_gives_the_same_bits) {
    static const float TAU[] = {0.07f, 0.01f, 0.5f};
    for (int loss = LOSS_SOGCLR; loss < LOSSES; loss++) {
        if (losses_list[loss].loss == GLOFND_LOSS_ISOGCLR) continue;
        scene s = scene_make("tau by pointer", loss);
        runner given = runner_make(&s), pointed = runner_make(&s);
        outputs want = outputs_make(&s), got = outputs_make(&s);
        float tau = 0;
        expect_ok(pointed.ctx, glofnd_ctx_tau(pointed.ctx, &tau));
        for (int step = 0; step < 3; step++) {
            scene_batch b;
            scene_draw(&s, step, &b);
            b.q.tau = 33.0; /* the pointer comes first */
            tau = TAU[step];
            run_step(&pointed, &b.q, &got);
            b.q.tau = (double)tau;
            run_step(&given, &b.q, &want);
            assert_memory_equal(&got.stats, &want.stats, sizeof want.stats);
            assert_memory_equal(got.grad_a, want.grad_a, (size_t)(s.batch * s.dim) * sizeof(float));
            scene_batch_free(&b);
        }
        outputs_free(&want);
        outputs_free(&got);
        runner_free(&given);
        runner_free(&pointed);
    }
}

static glofnd_status step_at(runner *w, const scene *s, const float *tau) {
    outputs out = outputs_make(s);
    scene_batch b;
    scene_draw(s, 0, &b);
    expect_ok(w->ctx, glofnd_ctx_tau(w->ctx, tau));
    const glofnd_status status = glofnd_step(w->ctx, w->store, &b.q, out.grad_a, out.grad_b, NULL);
    scene_batch_free(&b);
    outputs_free(&out);
    return status;
}

TEST(bad_temperatures_are_refused) {
    const float bad[] = {0.0f, -1.0f, 0.0005f, 200.0f, NAN};
    const float good = 0.2f;
    scene s = scene_make("bad tau", LOSS_CLIP), own = scene_make("individual", LOSS_ISOGCLR);
    runner w = runner_make(&s), individual = runner_make(&own);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(step_at(&w, &s, &bad[i]), GLOFND_E_OPTION);
    expect_ok(w.ctx, step_at(&w, &s, &good));
    expect_ok(w.ctx, step_at(&w, &s, NULL));
    assert_int_equal(step_at(&individual, &own, &good), GLOFND_E_UNSUPPORTED);
    expect_ok(individual.ctx, step_at(&individual, &own, NULL));
    assert_int_equal(glofnd_ctx_tau(w.ctx, (const float *)((const char *)&good + 1)), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ctx_tau(NULL, &good), GLOFND_E_ARGUMENT);
    runner_free(&w);
    runner_free(&individual);
}
