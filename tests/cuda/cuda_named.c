/* cuda_named.c - other methods on a GPU, against the CPU: a temperature per anchor for two views
 * (isogclr-views), groups of nearest neighbours (components), FNC by support views with the top k or a fixed threshold. Exact
 * products to the tolerances of unit_named_methods (which runs on the GPU, too), rounded ones to those of cuda_step; same bits
 * twice and in a graph; ranks; sizes that choose other kernels.
 */
#include "support/test.h"

#include "support/cuda_main.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/losses.h"
#include "support/on_device.h"
#include "support/random.h"

typedef struct named {
    const char *name;
    int loss;
    glofnd_detector detector;
    glofnd_action action;
    double attract_omega, tau;
    glofnd_fnc_rule rule;
    int supports;
} named;

enum { DROP = GLOFND_ACTION_DROP, ATTRACT = GLOFND_ACTION_ATTRACT, WEIGHT = GLOFND_ACTION_WEIGHT };
enum { NONE = GLOFND_DETECT_NONE, ORACLE = GLOFND_DETECT_ORACLE, FNC = GLOFND_DETECT_FNC, COMPONENTS = GLOFND_DETECT_COMPONENTS };
enum { TOPK = GLOFND_FNC_TOPK, FIXED = GLOFND_FNC_THRESHOLD };

static const named METHODS[] = {
    {"isogclr-views", LOSS_ISOGCLR_VIEWS, NONE, DROP, 0, 0.1, 0, 0},
    {"isogclr-views, labels", LOSS_ISOGCLR_VIEWS, ORACLE, DROP, 0, 0.1, 0, 0},
    {"wcl", LOSS_SIMCLR, COMPONENTS, ATTRACT, 1, 0.1, 0, 0},
    {"components, sogclr", LOSS_SOGCLR, COMPONENTS, DROP, 0, 0.1, 0, 0},
    {"components, clip", LOSS_CLIP, COMPONENTS, DROP, 0, 0.1, 0, 0},
    {"top k, one support", LOSS_SOGCLR, FNC, DROP, 0, 0.1, TOPK, 1},
    {"top k, mean", LOSS_SIMCLR, FNC, ATTRACT, 0, 0.1, TOPK, 3},
    {"top k, mean, clip", LOSS_CLIP, FNC, WEIGHT, 0, 0.1, TOPK, 3},
    {"threshold", LOSS_SOGCLR, FNC, DROP, 0, 0.1, FIXED, 0},
    {"threshold, mean", LOSS_SIMCLR, FNC, DROP, 0, 0.1, FIXED, 3},
    {"threshold, attracted", LOSS_SOGCLR, FNC, ATTRACT, 0, 0.1, FIXED, 2},
    {"threshold, mean, clip", LOSS_CLIP, FNC, DROP, 0, 0.1, FIXED, 2},
};
enum { COUNT = sizeof METHODS / sizeof *METHODS };

/* ---- a method on both devices ---- */

static scene make(const named *m, glofnd_device device, glofnd_math math) {
    scene s = scene_make(m->name, m->loss);
    s.o.device = device, s.o.math = math;
    s.o.detector = m->detector, s.o.action = m->action;
    s.o.attract_omega = m->attract_omega, s.o.tau = m->tau;
    s.o.fnc_rule = m->rule, s.o.fnc_support = m->supports;
    s.o.fnc_threshold = 0.6, s.o.alpha = 0.2;
    s.o.update_epoch = 0, s.o.mask_epoch = 1;
    return s;
}

typedef struct supports {
    float *a, *b;
} supports;

/* The batch of a step, with support vectors around the embeddings. */
static supports draw(const scene *s, int step, scene_batch *b) {
    const int64_t flat = s->batch * s->dim, n = flat * s->o.fnc_support;
    supports x = {malloc(sizeof(float) * (size_t)(n ? n : 1)), malloc(sizeof(float) * (size_t)(n ? n : 1))};
    rng g = {77 + (uint64_t)step};
    scene_draw(s, step, b);
    for (int64_t i = 0; i < n; i++) {
        x.a[i] = b->a[i % flat] + 0.05f * (float)rng_normal(&g);
        x.b[i] = b->b[i % flat] + 0.05f * (float)rng_normal(&g);
    }
    if (n > 0) b->extra->support_a = x.a;
    if (n > 0 && !scene_two_views(s)) b->extra->support_b = x.b;
    return x;
}

static void drop(supports *x, scene_batch *b) {
    free(x->a), free(x->b);
    scene_batch_free(b);
}

static double distance(const float *x, const float *y, int64_t n) {
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        size += (double)y[i] * (double)y[i];
    }
    return sqrt(apart / size);
}

/* Power of exp(S) in the loss: errors of S grow by it. */
static double sharpest(const scene *s) {
    const double tau = losses_of(&s->o) == LOSS_ISOGCLR_VIEWS ? fmin(s->o.tau, s->o.tau_min) : s->o.tau;
    return 1 / tau;
}

/* error: of a similarity. Gradients as a whole, as in cuda_step. */
static void expect_close(const scene *s, int step, const outputs *got, const outputs *want, double error) {
    const double relative = 10 * FLOAT_ERROR + 4 * error * sharpest(s);
    const int64_t flat = s->batch * s->dim;
    expect_near(s->name, step, "loss", got->stats.loss, want->stats.loss, 2 * relative * fmax(1, fabs(want->stats.loss)));
    expect_equal(s->name, step, "flagged", got->stats.flagged, want->stats.flagged);
    expect_equal(s->name, step, "rescued", got->stats.rescued, want->stats.rescued);
    expect_equal(s->name, step, "same", got->stats.same, want->stats.same);
    expect_equal(s->name, step, "hits", got->stats.hits, want->stats.hits);
    const double a = distance(got->grad_a, want->grad_a, flat), b = distance(got->grad_b, want->grad_b, flat);
    if (!(a <= relative && b <= relative))
        fail_msg("%s, step %d: gradients off by %.2e and %.2e, allowed %.2e", s->name, step, a, b, relative);
}

/* ---- against the CPU ---- */

static void check_against_cpu(const named *m, int64_t batch, int64_t dim, int steps) {
    scene gpu = make(m, GLOFND_DEVICE_CUDA, GLOFND_MATH_EXACT), cpu = make(m, GLOFND_DEVICE_CPU, GLOFND_MATH_AUTO);
    gpu.batch = cpu.batch = batch, gpu.anchors = cpu.anchors = batch + 9, gpu.dim = cpu.dim = dim;
    runner x = runner_make(&gpu), y = runner_make(&cpu), z = runner_make(&gpu);
    outputs got = outputs_make(&gpu), want = outputs_make(&cpu);
    uint8_t *keep = malloc((size_t)(4 * batch * batch));
    for (int step = 0; step < steps; step++) {
        scene_batch b;
        supports extra = draw(&cpu, step, &b);
        run_two_calls(&y, &b.q, &want);
        run_step(&x, &b.q, &got);
        expect_close(&gpu, step, &got, &want, SIM_ERROR);
        memcpy(keep, want.keep, (size_t)(4 * batch * batch));
        run_two_calls(&z, &b.q, &got);
        expect_close(&gpu, step, &got, &want, SIM_ERROR);
        if (memcmp(keep, got.keep, (size_t)(batch * batch * (scene_two_views(&gpu) ? 4 : 2))) != 0)
            fail_msg("%s, step %d: other pairs are kept than on the CPU", gpu.name, step);
        drop(&extra, &b);
    }
    free(keep);
    outputs_free(&got), outputs_free(&want);
    runner_free(&x), runner_free(&y), runner_free(&z);
}

TEST(small_batches_agree_with_the_cpu) {
    for (int i = 0; i < COUNT; i++) check_against_cpu(&METHODS[i], 13, 17, 3);
}

TEST(batches_agree_with_the_cpu) {
    static const int64_t SHAPE[][2] = {{33, 64}, {75, 100}, {130, 128}, {70, 300}};
    for (int i = 0; i < COUNT; i++)
        for (size_t k = 0; k < sizeof SHAPE / sizeof *SHAPE; k++) check_against_cpu(&METHODS[i], SHAPE[k][0], SHAPE[k][1], 4);
}

/* ---- rounded products ---- */

/* Support views are always scored exactly. Thresholds of FNC could be disagreed about: left out. */
static void check_rounded(const named *m, glofnd_math math, int64_t batch, int64_t dim, double error) {
    scene s = make(m, GLOFND_DEVICE_CUDA, math), exact = make(m, GLOFND_DEVICE_CUDA, GLOFND_MATH_EXACT);
    s.batch = exact.batch = batch, s.anchors = exact.anchors = batch, s.dim = exact.dim = dim;
    runner x = runner_make(&s), y = runner_make(&exact);
    outputs got = outputs_make(&s), want = outputs_make(&exact);
    scene_batch b;
    supports extra = draw(&s, 2, &b);
    run_step(&x, &b.q, &got);
    run_step(&y, &b.q, &want);
    print_message("  %s, math %d, %lld x %lld: gradient off by %.1e, loss by %.1e\n", s.name, (int)math, (long long)batch,
                  (long long)dim, distance(got.grad_a, want.grad_a, batch * dim), fabs(got.stats.loss - want.stats.loss));
    expect_close(&s, 2, &got, &want, error);
    drop(&extra, &b);
    outputs_free(&got), outputs_free(&want);
    runner_free(&x), runner_free(&y);
}

TEST(rounded_products_are_close) {
    for (int i = 0; i < COUNT; i++) {
        if (METHODS[i].detector == GLOFND_DETECT_FNC) continue;
        check_rounded(&METHODS[i], GLOFND_MATH_SPLIT, 130, 128, 1e-5);
        if (METHODS[i].tau >= 0.1) check_rounded(&METHODS[i], GLOFND_MATH_BF16, 130, 128, 1e-3);
    }
}

/* 1500 samples of 128 dimensions: warpgroups; 256 dimensions: wide and large tiles. */
TEST(large_batches_are_close) {
    for (int i = 0; i < COUNT; i++) {
        if (METHODS[i].detector == GLOFND_DETECT_FNC || METHODS[i].tau < 0.1) continue;
        check_rounded(&METHODS[i], GLOFND_MATH_BF16, 1500, 128, 1e-3);
        check_rounded(&METHODS[i], GLOFND_MATH_BF16, 900, 256, 1e-3);
        check_rounded(&METHODS[i], GLOFND_MATH_BF16, 2100, 256, 1e-3);
    }
}

/* ---- same bits; graphs ---- */

typedef struct rig {
    runner w;
    on_device_copies copies;
    glofnd_batch q;
    float *grad_a, *grad_b;
    int32_t *group; /* detector COMPONENTS: of the batch, made before every step */
} rig;

static rig rig_make(const scene *s, const glofnd_batch *q) {
    const size_t bytes = sizeof(float) * (size_t)(s->batch * s->dim);
    rig r = {.w = runner_make(s)};
    r.q = on_device_supported(&r.copies, q, s->o.fnc_support);
    r.grad_a = on_device_take(&r.copies, NULL, bytes);
    r.grad_b = on_device_take(&r.copies, NULL, bytes);
    if (s->o.detector == GLOFND_DETECT_COMPONENTS)
        r.q.group = r.group = on_device_take(&r.copies, NULL, sizeof *r.group * (size_t)s->batch);
    return r;
}

static void rig_free(rig *r) {
    on_device_drop(&r->copies);
    runner_free(&r->w);
}

static void cuda_ok(cudaError_t e) {
    if (e != cudaSuccess) fail_msg("CUDA: %s", cudaGetErrorString(e));
}

static void step_of(rig *r, glofnd_stats *stats) {
    if (r->group) expect_ok(r->w.ctx, gf_batch_components(r->w.ctx, &r->q, NULL, r->group));
    expect_ok(r->w.ctx, glofnd_step(r->w.ctx, r->w.store, &r->q, r->grad_a, r->grad_b, stats));
}

static cudaGraphExec_t capture(rig *r, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    expect_ok(r->w.ctx, glofnd_ctx_stream(r->w.ctx, stream));
    cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    step_of(r, NULL);
    cuda_ok(cudaStreamEndCapture(stream, &graph));
    cuda_ok(cudaGraphInstantiate(&exec, graph, 0));
    cuda_ok(cudaGraphDestroy(graph));
    return exec;
}

static void check_graph(const named *m, glofnd_math math) {
    scene s = make(m, GLOFND_DEVICE_CUDA, math);
    s.batch = 75, s.anchors = 75, s.dim = 50;
    const size_t bytes = sizeof(float) * (size_t)(s.batch * s.dim);
    scene_batch b;
    supports extra = draw(&s, 2, &b);
    rig x = rig_make(&s, &b.q), y = rig_make(&s, &b.q);
    outputs got = outputs_make(&s), want = outputs_make(&s);
    cudaStream_t stream;
    cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    expect_ok(x.w.ctx, glofnd_ctx_reserve(x.w.ctx, s.batch, s.batch, s.dim, NULL));
    const cudaGraphExec_t exec = capture(&x, stream);
    for (int step = 0; step < 3; step++) {
        cuda_ok(cudaGraphLaunch(exec, stream));
        expect_ok(x.w.ctx, glofnd_ctx_stats(x.w.ctx, &got.stats));
        step_of(&y, &want.stats);
        assert_memory_equal(&got.stats, &want.stats, sizeof got.stats);
    }
    on_device_fetch(got.grad_a, x.grad_a, bytes), on_device_fetch(want.grad_a, y.grad_a, bytes);
    on_device_fetch(got.grad_b, x.grad_b, bytes), on_device_fetch(want.grad_b, y.grad_b, bytes);
    assert_memory_equal(got.grad_a, want.grad_a, bytes);
    assert_memory_equal(got.grad_b, want.grad_b, bytes);
    cuda_ok(cudaGraphExecDestroy(exec));
    rig_free(&x), rig_free(&y);
    outputs_free(&got), outputs_free(&want);
    drop(&extra, &b);
    cuda_ok(cudaStreamDestroy(stream));
}

TEST(a_captured_step_gives_the_same_bits) {
    for (int i = 0; i < COUNT; i++) {
        check_graph(&METHODS[i], GLOFND_MATH_EXACT);
        check_graph(&METHODS[i], GLOFND_MATH_AUTO);
    }
}

/* ---- ranks ---- */

/* Ranks one after another, each with its rows: links of all, then gradients. None of these methods sums over ranks. */
static void check_ranks_of(const named *m, int ranks) {
    scene s = make(m, GLOFND_DEVICE_CUDA, GLOFND_MATH_EXACT);
    s.batch = 41, s.anchors = 50, s.dim = 30;
    runner one = runner_make(&s);
    outputs want = outputs_make(&s), got = outputs_make(&s);
    scene_batch b;
    supports extra = draw(&s, 2, &b);
    int32_t group[41];
    const glofnd_batch whole = on_device_grouped(one.ctx, &b.q, group);
    run_two_calls(&one, &whole, &want);
    const int64_t pairs = s.batch * (scene_two_views(&s) ? 4 : 2);
    runner w[4];
    glofnd_own_rows own[4];
    glofnd_stats stats[4];
    got.stats.flagged = got.stats.rescued = got.stats.same = got.stats.hits = 0, got.stats.loss = 0;
    for (int k = 0; k < ranks; k++) {
        w[k] = runner_make(&s);
        const int64_t first = s.batch * k / ranks;
        own[k] = (glofnd_own_rows){.size = sizeof own[k], .first = first, .rows = s.batch * (k + 1) / ranks - first};
        stats[k] = (glofnd_stats){.size = sizeof stats[k]};
        expect_ok(w[k].ctx, on_device_step_rows(w[k].ctx, w[k].store, &whole, &own[k], got.links + 2 * first, &stats[k]));
    }
    for (int k = 0; k < ranks; k++) {
        const int64_t at = own[k].first * s.dim;
        expect_ok(w[k].ctx, on_device_step_mask(w[k].ctx, &whole, &own[k], got.links, got.keep + own[k].first * pairs));
        expect_ok(w[k].ctx,
                  on_device_step_grad(w[k].ctx, &whole, &own[k], got.links, got.grad_a + at, got.grad_b + at, &stats[k]));
        got.stats.flagged += stats[k].flagged, got.stats.rescued += stats[k].rescued;
        got.stats.same += stats[k].same, got.stats.hits += stats[k].hits, got.stats.loss += stats[k].loss;
        runner_free(&w[k]);
    }
    expect_close(&s, ranks, &got, &want, SIM_ERROR);
    assert_memory_equal(got.keep, want.keep, (size_t)(pairs * s.batch));
    drop(&extra, &b);
    outputs_free(&got), outputs_free(&want);
    runner_free(&one);
}

TEST(ranks_change_only_rounding) {
    for (int i = 0; i < COUNT; i++)
        for (int ranks = 2; ranks <= 4; ranks++) check_ranks_of(&METHODS[i], ranks);
}

/* ---- a temperature in device memory ---- */

TEST(the_temperature_may_be_on_the_device) {
    scene s = make(&METHODS[2], GLOFND_DEVICE_CUDA, GLOFND_MATH_EXACT);
    scene_batch b;
    supports extra = draw(&s, 2, &b);
    rig x = rig_make(&s, &b.q), y = rig_make(&s, &b.q);
    outputs got = outputs_make(&s), want = outputs_make(&s);
    const size_t bytes = sizeof(float) * (size_t)(s.batch * s.dim);
    const float tau = (float)s.o.tau;
    const float *there = on_device_take(&x.copies, &tau, sizeof tau);
    expect_ok(x.w.ctx, glofnd_ctx_tau(x.w.ctx, there));
    step_of(&x, &got.stats), step_of(&y, &want.stats);
    on_device_fetch(got.grad_a, x.grad_a, bytes), on_device_fetch(want.grad_a, y.grad_a, bytes);
    on_device_fetch(got.grad_b, x.grad_b, bytes), on_device_fetch(want.grad_b, y.grad_b, bytes);
    expect_close(&s, 0, &got, &want, SIM_ERROR);
    rig_free(&x), rig_free(&y);
    outputs_free(&got), outputs_free(&want);
    drop(&extra, &b);
}

TEST_NEEDS(no_cuda_device)
