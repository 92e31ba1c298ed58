/* cuda_matrix.c - combinations of the matrix on a GPU with rounded products, against the CPU with exact ones: samples that are there several
 * times and candidates with ids have kernels of their own, for every width and number of rows. unit_matrix, run with
 * GLOFND_TEST_DEVICE=cuda, has the exact ones.
 */
#include "support/test.h"

#include "support/cuda_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/matrix.h"
#include "support/on_device.h"

static double distance(const float *x, const float *y, int64_t n) {
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        size += (double)y[i] * (double)y[i];
    }
    return size > 0 ? sqrt(apart / size) : apart;
}

static void expect_close(const scene *s, const char *what, const float *got, const float *want, int64_t n, double allowed) {
    const double off = distance(got, want, n);
    if (!(off <= allowed)) fail_msg("%s: %s is off by %.2e, allowed %.2e", s->name, what, off, allowed);
}

/* As cuda_step.c: |S' - S| <= error gives weights wrong by error / tau. Detectors with thresholds decide otherwise about some pairs: of them
 * only counts and quantiles are compared. */
static void check_scene(scene s, glofnd_math math, int steps) {
    const double error = math == GLOFND_MATH_BF16 ? 1e-3 : 1e-5;
    const int decides =
        s.o.detector != GLOFND_DETECT_NONE && s.o.detector != GLOFND_DETECT_ORACLE && s.o.detector != GLOFND_DETECT_GROUPS;
    scene exact = s;
    s.o.device = GLOFND_DEVICE_CUDA, s.o.math = math;
    exact.o.device = GLOFND_DEVICE_CPU, exact.o.math = GLOFND_MATH_EXACT, exact.o.threads = 4;
    runner gpu = runner_make(&s), cpu = runner_make(&exact);
    outputs x = outputs_make(&s), y = outputs_make(&exact);
    for (int step = 0; step < steps; step++) {
        scene_batch b;
        scene_draw(&s, step, &b);
        run_step(&gpu, &b.q, &x);
        run_step(&cpu, &b.q, &y);
        expect_equal(s.name, step, "pairs", x.stats.pairs, y.stats.pairs);
        if (isfinite(y.stats.quantile_mean))
            expect_near(s.name, step, "quantile_mean", x.stats.quantile_mean, y.stats.quantile_mean, 4 * error);
        if (decides) {
            expect_near(s.name, step, "flagged", (double)x.stats.flagged, (double)y.stats.flagged,
                        0.05 * (double)y.stats.pairs + 8);
        } else {
            const double allowed = 4 * error / s.o.tau, scale = fmax(1, fabs(y.stats.loss));
            expect_equal(s.name, step, "flagged", x.stats.flagged, y.stats.flagged);
            expect_equal(s.name, step, "same", x.stats.same, y.stats.same);
            expect_equal(s.name, step, "hits", x.stats.hits, y.stats.hits);
            expect_near(s.name, step, "loss", x.stats.loss, y.stats.loss, 2 * allowed * scale);
            expect_close(&s, "grad_a", x.grad_a, y.grad_a, s.batch * s.dim, allowed);
            expect_close(&s, "grad_b", x.grad_b, y.grad_b, s.batch * s.dim, allowed);
            for (int side = 0; side < 2; side++)
                expect_close(&s, "gradient of candidates", x.grad_candidates[side], y.grad_candidates[side],
                             s.candidates[side] * s.dim, allowed);
        }
        scene_batch_free(&b);
    }
    outputs_free(&x), outputs_free(&y);
    runner_free(&gpu), runner_free(&cpu);
}

static const glofnd_math MATH[] = {GLOFND_MATH_BF16, GLOFND_MATH_SPLIT};

/* Every 23rd combination, in turns with the widths of kernels. */
TEST(combinations_agree_with_the_cpu) {
    static const int64_t dims[] = {64, 100, 256, 512, 700, 1024};
    int works = 0;
    for (int i = 0; i < MATRIX_CELLS; i += 23) {
        matrix_rule rule;
        scene s;
        if (!matrix_scene(i, &s) || s.with_positives || s.o.detector == GLOFND_DETECT_COMPONENTS) continue;
        s.o.device = GLOFND_DEVICE_CUDA;
        if (matrix_refusals(&s, &rule, 1) > 0) continue;
        s.batch = 45, s.anchors = 60, s.dim = dims[works % 6];
        if (s.candidates[0]) s.candidates[0] = 37;
        if (s.candidates[1]) s.candidates[1] = 20;
        check_scene(s, MATH[works++ % 2], 2);
    }
    print_message("  %d combinations\n", works);
    assert_true(works > 300);
}

/* Keys in blocks of many rows, which small batches do not have. */
TEST(large_batches_with_keys_agree_with_the_cpu) {
    static const int losses[] = {LOSS_SOGCLR, LOSS_CLIP, LOSS_SIGMOID};
    for (size_t l = 0; l < sizeof losses / sizeof *losses; l++)
        for (int64_t dim = 64; dim <= 256; dim *= 2)
            for (int m = 0; m < 2; m++) {
                scene s = scene_make("large", losses[l]);
                snprintf(s.name, sizeof s.name, "large, loss %d, dim %lld, math %d", losses[l], (long long)dim, m);
                s.batch = losses[l] == LOSS_CLIP ? 4700 : 2400, s.anchors = 5000, s.dim = dim;
                s.o.repeats = 1, s.repeats = 2, s.o.update_epoch = s.o.mask_epoch = 0;
                s.o.detector = l % 2 ? GLOFND_DETECT_ORACLE : GLOFND_DETECT_NONE;
                s.candidates[0] = 300, s.candidates[1] = scene_two_views(&s) ? 0 : 200, s.with_candidate_ids = 1;
                check_scene(s, MATH[m], 1);
            }
}

/* Batch quantiles as thresholds, of rows that have different numbers of negatives. */
TEST(quantiles_with_keys_agree_with_the_cpu) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_CLIP; loss++)
        for (int64_t dim = 64; dim <= 512; dim *= 2)
            for (int m = 0; m < 2; m++)
                for (int learned = 0; learned < 2; learned++) {
                    scene s = scene_make("quantiles", loss);
                    snprintf(s.name, sizeof s.name, "quantiles, loss %d, dim %lld, math %d", loss, (long long)dim, m);
                    s.batch = 301, s.anchors = 400, s.dim = dim;
                    s.o.repeats = 1, s.repeats = 1, s.o.update_epoch = s.o.mask_epoch = 0;
                    s.o.detector = learned ? GLOFND_DETECT_GLOFND : GLOFND_DETECT_FNC;
                    s.o.lambda_init = GLOFND_INIT_QUANTILE;
                    check_scene(s, MATH[m], 2);
                }
}

TEST_NEEDS(no_cuda_device)
