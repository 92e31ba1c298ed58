/* cuda_detect.c - the detect tier of a context on the GPU: similarities that lie there give what the CPU gives, bit by bit. */
#include "support/test.h"

#include "support/cuda_main.h"

#include "support/compare.h"
#include "support/losses.h"
#include "support/on_device.h"
#include "support/random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIM_ROWS = 20, SIM_COLS = 30, SIM_PAIRS = 2 * SIM_ROWS * SIM_COLS };

typedef struct sims {
    glofnd_sims q;
    float sim[SIM_PAIRS];
    uint8_t negative[SIM_ROWS * SIM_COLS], keep[SIM_PAIRS];
    int64_t id[SIM_ROWS];
    int32_t row_group[SIM_ROWS], col_group[SIM_COLS], kept[2 * SIM_ROWS];
} sims;

static void draw_sims(sims *x, rng *g) {
    for (int i = 0; i < SIM_PAIRS; i++) x->sim[i] = (float)(2 * rng_uniform(g) - 1);
    for (int i = 0; i < SIM_ROWS * SIM_COLS; i++) x->negative[i] = rng_below(g, 8) != 0;
    for (int i = 0; i < SIM_ROWS; i++) x->id[i] = 2 * i + 1, x->row_group[i] = (int32_t)rng_below(g, 5) - 1;
    for (int i = 0; i < SIM_COLS; i++) x->col_group[i] = (int32_t)rng_below(g, 5) - 1;
    x->q = (glofnd_sims){.size = sizeof(glofnd_sims),
                         .views = 2,
                         .rows = SIM_ROWS,
                         .cols = SIM_COLS,
                         .sim = x->sim,
                         .negative = x->negative,
                         .id = x->id,
                         .row_group = x->row_group,
                         .col_group = x->col_group,
                         .epoch = 1};
}

static glofnd_sims sims_there(on_device_copies *t, const sims *x) {
    glofnd_sims q = x->q;
    q.sim = on_device_take(t, x->sim, sizeof x->sim);
    q.negative = on_device_take(t, x->negative, sizeof x->negative);
    q.id = on_device_take(t, x->id, sizeof x->id);
    q.row_group = on_device_take(t, x->row_group, sizeof x->row_group);
    q.col_group = on_device_take(t, x->col_group, sizeof x->col_group);
    return q;
}

static void check_detect(int detector, int warmup, int init) {
    static sims x;
    rng g = {5};
    scene s = scene_make("detect", LOSS_SOGCLR), cpu;
    s.o.device = GLOFND_DEVICE_CUDA;
    s.o.detector = (glofnd_detector)detector, s.o.lambda_init = (glofnd_lambda_init)init, s.o.lambda_warmup = warmup;
    s.o.update_epoch = s.o.mask_epoch = 1, s.o.alpha = 0.1;
    s.anchors = 60;
    cpu = s;
    cpu.o.device = GLOFND_DEVICE_CPU;
    runner there = runner_make(&s), here = runner_make(&cpu);
    on_device_copies t = {0};
    uint8_t *keep = on_device_take(&t, NULL, sizeof x.keep), got[SIM_PAIRS];
    int32_t *kept = on_device_take(&t, NULL, sizeof x.kept), got_kept[2 * SIM_ROWS];
    for (int step = 0; step < 4; step++) {
        glofnd_anchor want[SIM_ROWS], have[SIM_ROWS];
        draw_sims(&x, &g);
        on_device_copies given = {0};
        const glofnd_sims q = sims_there(&given, &x);
        expect_ok(here.ctx, glofnd_detect_update(here.ctx, here.store, &x.q));
        expect_ok(there.ctx, glofnd_detect_update(there.ctx, there.store, &q));
        expect_ok(here.ctx, glofnd_anchors_get(here.ctx, here.store, 0, x.id, SIM_ROWS, want));
        expect_ok(there.ctx, glofnd_anchors_get(there.ctx, there.store, 0, x.id, SIM_ROWS, have));
        assert_memory_equal(want, have, sizeof want);
        expect_ok(here.ctx, glofnd_detect_mask(here.ctx, here.store, &x.q, x.keep, x.kept));
        expect_ok(there.ctx, glofnd_detect_mask(there.ctx, there.store, &q, keep, kept));
        on_device_fetch(got, keep, sizeof got), on_device_fetch(got_kept, kept, sizeof got_kept);
        assert_memory_equal(got, x.keep, sizeof got);
        assert_memory_equal(got_kept, x.kept, sizeof got_kept);
        on_device_drop(&given);
    }
    x.id[3] = s.anchors;
    const glofnd_sims bad = sims_there(&t, &x);
    assert_int_equal(glofnd_detect_update(there.ctx, there.store, &bad), GLOFND_E_INDEX);
    on_device_drop(&t);
    runner_free(&there);
    runner_free(&here);
}

TEST(given_similarities_are_worked_on) {
    for (int detector = 0; detector <= GLOFND_DETECT_ORACLE; detector++)
        for (int init = 0; init < 2; init++) check_detect(detector, 0, init), check_detect(detector, 2, init);
}

TEST_NEEDS(no_cuda_device)
