/* cuda_large.c - complete steps of batches so large, or embeddings so wide, that they have separate kernels: against exact
 * products on the same GPU, which the tests of the CPU check (cuda_step.c).
 *
 * Lambda's first step does not depend on the similarities, as none lies above 1, and flags nothing yet.
 */
#include "support/test.h"

#include "support/cuda_main.h"

#include "cuda/cuda_device.h"
#include "support/compare.h"
#include "support/losses.h"
#include "support/random.h"
#include <math.h>
#include <stdio.h>

typedef struct large {
    int loss;
    int64_t batch, dim;
    int labels; /* given: then quality is counted */
} large;

typedef struct ran { /* one step of it */
    runner w;
    outputs out;
} ran;

static ran run(const large *x, glofnd_detector detector, glofnd_math math) {
    scene s = scene_make("large", x->loss);
    scene_batch b = {0};
    s.batch = x->batch, s.dim = x->dim, s.anchors = x->batch + 9;
    s.with_labels = x->labels;
    s.o.device = GLOFND_DEVICE_CUDA, s.o.math = math, s.o.detector = detector;
    s.o.tau = 0.1, s.o.lambda_lr = 0.02, s.o.update_epoch = s.o.mask_epoch = 0;
    ran y = {.w = runner_make(&s), .out = outputs_make(&s)};
    scene_draw(&s, 3, &b);
    run_step(&y.w, &b.q, &y.out);
    scene_batch_free(&b);
    return y;
}

static void end(ran *x) {
    outputs_free(&x->out);
    runner_free(&x->w);
}

static double distance(const float *x, const float *y, int64_t n) {
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - (double)y[i];
        apart += d * d, size += (double)y[i] * (double)y[i];
    }
    return sqrt(apart / size);
}

/* Pairs of one label, whatever their similarity. */
static void compare_quality(const large *x, const glofnd_stats *rounded, const glofnd_stats *exact) {
    print_message("  of one label: %lld of %lld, flagged: %lld of %lld\n", (long long)rounded->same, (long long)exact->same,
                  (long long)rounded->hits, (long long)exact->hits);
    if (rounded->same != exact->same || rounded->hits != exact->hits || exact->same <= x->batch)
        fail_msg("loss %d, %lld x %lld: quality is off", (int)x->loss, (long long)x->batch, (long long)x->dim);
}

/* |S' - S| <= 1e-3 gives weights wrong by 1e-2, relative, at tau = 0.1; most of it averages out. */
static void compare(const large *x, glofnd_detector detector) {
    ran rounded = run(x, detector, GLOFND_MATH_BF16), exact = run(x, detector, GLOFND_MATH_EXACT);
    const double a = distance(rounded.out.grad_a, exact.out.grad_a, x->batch * x->dim);
    const double b = distance(rounded.out.grad_b, exact.out.grad_b, x->batch * x->dim);
    const double loss = fabs(rounded.out.stats.loss - exact.out.stats.loss);
    print_message("  loss %d, detector %d, %lld x %lld: gradients off by %.1e, %.1e, loss by %.1e\n", (int)x->loss, (int)detector,
                  (long long)x->batch, (long long)x->dim, a, b, loss);
    if (!(a <= 2e-2 && b <= 2e-2 && loss <= 2e-2 * fmax(1, fabs(exact.out.stats.loss))))
        fail_msg("loss %d, detector %d, %lld x %lld is off", (int)x->loss, (int)detector, (long long)x->batch, (long long)x->dim);
    if (x->labels) compare_quality(x, &rounded.out.stats, &exact.out.stats);
    end(&rounded);
    end(&exact);
}

TEST(two_views) {
    static const large CASES[] = {
        {LOSS_SOGCLR, 1500, 128, 0}, {LOSS_SOGCLR, 2199, 128, 0}, {LOSS_SIMCLR, 4301, 100, 0}, {LOSS_SOGCLR, 600, 600, 0},
        {LOSS_SOGCLR, 610, 400, 1},  {LOSS_SOGCLR, 300, 128, 1},  {LOSS_SOGCLR, 1501, 128, 1}, {LOSS_SIMCLR, 4250, 100, 1},
        {LOSS_SOGCLR, 2400, 300, 0}, {LOSS_SIMCLR, 2333, 768, 0}, {LOSS_SOGCLR, 2310, 512, 1},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        compare(&CASES[i], GLOFND_DETECT_NONE), compare(&CASES[i], GLOFND_DETECT_GLOFND);
}

TEST(image_and_text) {
    static const large CASES[] = {
        {LOSS_CLIP, 1030, 300, 0},     {LOSS_SOGCLR2, 1100, 1000, 0},  {LOSS_SOGCLR2, 4300, 128, 0}, {LOSS_CLIP, 1040, 200, 1},
        {LOSS_SOGCLR2, 2200, 128, 0},  {LOSS_SOGCLR2, 4290, 100, 1},   {LOSS_CLIP, 1000, 768, 0},    {LOSS_CLIP, 4201, 512, 0},
        {LOSS_FASTCLIP, 4150, 700, 0}, {LOSS_CLIP, 4300, 768, 1},      {LOSS_SOGCLR2, 6002, 512, 0}, {LOSS_CLIP, 4300, 128, 0},
        {LOSS_CLIP, 2150, 128, 0},     {LOSS_FASTCLIP, 17000, 100, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        compare(&CASES[i], GLOFND_DETECT_NONE), compare(&CASES[i], GLOFND_DETECT_GLOFND);
}

/* Tiles in flow (tile_large.cuh) serve 2^30 similarities and more. */
TEST(the_largest) {
    static const large PAIRS = {LOSS_CLIP, 32768, 512, 0}, VIEWS = {LOSS_SIMCLR, 16400, 512, 0};
    compare(&VIEWS, GLOFND_DETECT_NONE), compare(&PAIRS, GLOFND_DETECT_GLOFND);
}

TEST_NEEDS(no_cuda_device)
