/* cuda_batch.c - forms of a batch and its workspace on a GPU: embeddings and gradients in float32, bfloat16 and float16 at any
 * stride, steps that leave the store as it is, a workspace in memory of the caller, and all of it in a captured graph.
 *
 * The measure is the same step on float32 rows without padding that hold the same numbers: equal bits. That step is compared with
 * the CPU by unit_step, unit_learner and unit_equal; here once more for numbers in 16 bits.
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
#include "support/typed.h"
#include "util/dtype.h"

static void cuda_ok(cudaError_t e) {
    if (e != cudaSuccess) fail_msg("CUDA: %s", cudaGetErrorString(e));
}

static scene cuda_scene(const char *name, int loss, glofnd_math math) {
    scene s = scene_make(name, loss);
    s.o.device = GLOFND_DEVICE_CUDA;
    s.o.math = math;
    return s;
}

/* ---- a batch on the device ---- */

typedef struct device_batch {
    on_device_copies copies;
    glofnd_batch q;
    char *gradients; /* as typed_batch.gradients */
    void *grad_a, *grad_b;
} device_batch;

static ptrdiff_t offset(const void *in, const void *base) { return (const char *)in - (const char *)base; }

static device_batch device_make(const typed_batch *t) {
    device_batch d = {.q = t->q};
    const size_t numbers = t->gradient_bytes / gf_dtype_bytes(t->q.grad_dtype), bytes = numbers * gf_dtype_bytes(t->q.dtype);
    const size_t support = (size_t)(t->q.n * t->q.dim) * gf_dtype_bytes(t->q.dtype);
    const char *rows = on_device_take(&d.copies, t->memory, bytes);
    d.q.a = rows + offset(t->q.a, t->memory), d.q.b = rows + offset(t->q.b, t->memory);
    d.q.extra = d.copies.extra = malloc(sizeof *d.copies.extra);
    if (!d.copies.extra) abort();
    *d.copies.extra = *t->extra;
    ON_DEVICE_COPY(&d.copies, d.copies.extra, support_a, support);
    ON_DEVICE_COPY(&d.copies, d.copies.extra, support_b, support);
    ON_DEVICE_COPY(&d.copies, &d.q, id, (size_t)t->q.n * sizeof *t->q.id);
    ON_DEVICE_COPY(&d.copies, &d.q, label, (size_t)t->q.n * sizeof *t->q.label);
    ON_DEVICE_COPY(&d.copies, &d.q, group, (size_t)t->q.n * sizeof *t->q.group);
    d.gradients = on_device_take(&d.copies, t->gradients, t->gradient_bytes);
    d.grad_a = d.gradients + offset(t->grad_a, t->gradients), d.grad_b = d.gradients + offset(t->grad_b, t->gradients);
    return d;
}

static void device_fetch(const device_batch *d, typed_batch *t) {
    on_device_fetch(t->gradients, d->gradients, t->gradient_bytes);
}

static void device_clear(const device_batch *d, typed_batch *t) {
    typed_clear(t);
    cuda_ok(cudaMemcpy(d->gradients, t->gradients, t->gradient_bytes, cudaMemcpyHostToDevice));
    cuda_ok(cudaStreamSynchronize(0));
}

/* ---- types and strides ---- */

static void check_step(const scene *s, int step, runner *typed, runner *plain, typed_batch *t, outputs *out) {
    glofnd_stats stats = {.size = sizeof stats};
    device_batch d = device_make(t);
    void *links = on_device_take(&d.copies, NULL, (size_t)s->batch * GLOFND_LINK_BYTES);
    memset(&out->stats, 0, sizeof out->stats), out->stats.size = sizeof out->stats;
    run_step(plain, &t->plain, out);
    expect_ok(typed->ctx, glofnd_step(typed->ctx, typed->store, &d.q, d.grad_a, d.grad_b, &stats));
    device_fetch(&d, t);
    expect_typed_step(s, step, t, out, &stats);
    expect_equal_rows(s, typed, plain);
    run_two_calls(plain, &t->plain, out); /* one more visit, on both */
    device_clear(&d, t);
    expect_ok(typed->ctx, glofnd_step_rows(typed->ctx, typed->store, &d.q, NULL, links, &stats));
    expect_ok(typed->ctx, glofnd_step_grad(typed->ctx, &d.q, NULL, links, d.grad_a, d.grad_b, &stats));
    device_fetch(&d, t);
    expect_typed_step(s, step, t, out, &stats);
    on_device_drop(&d.copies);
}

static void check_types(scene *s, glofnd_dtype dtype, glofnd_dtype grad_dtype, int layout) {
    runner typed = runner_make(s), plain = runner_make(s);
    outputs out = outputs_make(s);
    const size_t used = strlen(s->name);
    snprintf(s->name + used, sizeof s->name - used, ", dtype %d, gradients %d, layout %d", dtype, grad_dtype, layout);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        scene_draw(s, step, &b);
        typed_batch t = typed_make(&b, dtype, grad_dtype, layout);
        check_step(s, step, &typed, &plain, &t, &out);
        typed_free(&t);
        scene_batch_free(&b);
    }
    s->name[used] = 0;
    outputs_free(&out);
    runner_free(&typed);
    runner_free(&plain);
}

static void check_all_types(scene *s) {
    for (glofnd_dtype dtype = GLOFND_F32; dtype <= GLOFND_F16; dtype++)
        for (int layout = 0; layout < TYPED_LAYOUTS; layout++) {
            check_types(s, dtype, GLOFND_F32, layout);
            if (dtype != GLOFND_F32) check_types(s, dtype, dtype, layout);
        }
}

/* Every loss with three detectors: a threshold that is learned, ranks by support vectors, none. */
TEST(small_steps_take_every_type_and_stride) {
    static const glofnd_detector DETECTOR[] = {GLOFND_DETECT_GLOFND, GLOFND_DETECT_FNC, GLOFND_DETECT_NONE};
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++)
        for (int k = 0; k < 3; k++) {
            char name[64];
            snprintf(name, sizeof name, "loss %d, detector %d", loss, DETECTOR[k]);
            scene s = cuda_scene(name, loss, k == 0 ? GLOFND_MATH_AUTO : GLOFND_MATH_EXACT);
            s.o.detector = DETECTOR[k];
            s.o.fnc_rule = GLOFND_FNC_TOPK;
            s.o.update_epoch = 0, s.o.mask_epoch = 1;
            s.with_support = DETECTOR[k] == GLOFND_DETECT_FNC;
            s.batch = 18, s.anchors = 24, s.dim = 13, s.steps = 2; /* no multiple of a warp or a tile */
            check_all_types(&s);
        }
}

/* Rows for the kernels of large batches, wider than a tile. */
TEST(large_steps_take_every_type_and_stride) {
    scene s = cuda_scene("large", LOSS_SOGCLR, GLOFND_MATH_SPLIT);
    s.o.update_epoch = 0, s.o.mask_epoch = 1;
    s.batch = 1203, s.anchors = 1300, s.dim = 130, s.steps = 1;
    check_all_types(&s);
}

/* Unit rows in bfloat16 are as long as their rounding lets them be: accepted without normalize. */
TEST(unit_rows_may_be_rounded) {
    for (glofnd_dtype dtype = GLOFND_BF16; dtype <= GLOFND_F16; dtype++) {
        scene s = cuda_scene("unit rows", LOSS_SOGCLR, GLOFND_MATH_AUTO);
        s.o.normalize = 0;
        s.dim = 128, s.steps = 2;
        check_types(&s, dtype, dtype, TYPED_PADDED);
    }
}

TEST(non_finite_numbers_are_found) {
    static const uint16_t INFINITE[] = {0x7F80u, 0x7C00u};
    for (glofnd_dtype dtype = GLOFND_BF16; dtype <= GLOFND_F16; dtype++) {
        scene s = cuda_scene("not finite", LOSS_SOGCLR, GLOFND_MATH_AUTO);
        runner w = runner_make(&s);
        glofnd_stats stats = {.size = sizeof stats};
        scene_batch b;
        scene_draw(&s, 0, &b);
        typed_batch t = typed_make(&b, dtype, dtype, TYPED_PADDED);
        ((uint16_t *)(uintptr_t)t.q.b)[5 * t.q.b_stride + 4] = INFINITE[dtype - 1];
        device_batch d = device_make(&t);
        assert_int_equal(glofnd_step(w.ctx, w.store, &d.q, d.grad_a, d.grad_b, &stats), GLOFND_E_NUMERIC);
        assert_non_null(strstr(glofnd_ctx_error(w.ctx), "batch.b: row 5"));
        on_device_drop(&d.copies);
        typed_free(&t);
        scene_batch_free(&b);
        runner_free(&w);
    }
}

static double distance(const float *x, const float *y, int64_t n) {
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        size += (double)y[i] * (double)y[i];
    }
    return sqrt(apart / size);
}

TEST(both_devices_agree_on_16_bits) {
    for (glofnd_dtype dtype = GLOFND_BF16; dtype <= GLOFND_F16; dtype++)
        for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
            scene s = cuda_scene("16 bits", loss, GLOFND_MATH_EXACT), host = s;
            s.o.detector = host.o.detector = GLOFND_DETECT_NONE;
            host.o.device = GLOFND_DEVICE_CPU;
            runner gpu = runner_make(&s), cpu = runner_make(&host);
            outputs want = outputs_make(&host), got = outputs_make(&s);
            scene_batch b;
            scene_draw(&s, 0, &b);
            typed_batch t = typed_make(&b, dtype, GLOFND_F32, TYPED_PLAIN);
            expect_ok(cpu.ctx, glofnd_step(cpu.ctx, cpu.store, &t.q, want.grad_a, want.grad_b, &want.stats));
            device_batch d = device_make(&t);
            expect_ok(gpu.ctx, glofnd_step(gpu.ctx, gpu.store, &d.q, d.grad_a, d.grad_b, &got.stats));
            device_fetch(&d, &t);
            expect_near(s.name, loss, "loss", got.stats.loss, want.stats.loss, 1e-5 * fabs(want.stats.loss));
            const double off = distance(t.grad_a, want.grad_a, s.batch * s.dim);
            if (!(off <= 4 * SIM_ERROR / s.o.tau)) fail_msg("loss %d, dtype %d: gradient off by %g", loss, (int)dtype, off);
            on_device_drop(&d.copies);
            typed_free(&t);
            scene_batch_free(&b);
            outputs_free(&want);
            outputs_free(&got);
            runner_free(&gpu);
            runner_free(&cpu);
        }
}

TEST(thresholds_take_every_type_and_stride) {
    scene s = cuda_scene("thresholds", LOSS_SOGCLR, GLOFND_MATH_AUTO);
    runner w = runner_make(&s);
    const size_t bytes = sizeof(float) * (size_t)s.batch;
    float *want = malloc(bytes), *got = malloc(bytes);
    scene_batch b;
    assert_true(want && got);
    scene_draw(&s, 0, &b);
    for (glofnd_dtype dtype = GLOFND_F32; dtype <= GLOFND_F16; dtype++)
        for (int layout = 0; layout < TYPED_LAYOUTS; layout++) {
            typed_batch t = typed_make(&b, dtype, GLOFND_F32, layout);
            device_batch d = device_make(&t);
            const size_t plain = sizeof(float) * (size_t)(s.batch * s.dim);
            float *out = on_device_take(&d.copies, NULL, bytes);
            glofnd_query q = {.size = sizeof q, .rows = s.batch, .cols = s.batch, .dim = s.dim, .alpha = 0.2};
            q.q = on_device_take(&d.copies, b.a, plain), q.k = on_device_take(&d.copies, b.b, plain);
            expect_ok(w.ctx, glofnd_exact_thresholds(w.ctx, &q, out));
            on_device_fetch(want, out, bytes);
            q.q = d.q.a, q.k = d.q.b, q.q_stride = t.q.a_stride, q.k_stride = t.q.b_stride, q.dtype = dtype;
            cuda_ok(cudaMemset(out, 0xff, bytes));
            expect_ok(w.ctx, glofnd_exact_thresholds(w.ctx, &q, out));
            on_device_fetch(got, out, bytes);
            assert_memory_equal(got, want, bytes);
            on_device_drop(&d.copies);
            typed_free(&t);
        }
    free(want);
    free(got);
    scene_batch_free(&b);
    runner_free(&w);
}

/* ---- steps without update ---- */

static void expect_same_outputs(const scene *s, int step, const outputs *got, const outputs *want) {
    const size_t flat = (size_t)(s->batch * s->dim) * sizeof(float);
    if (memcmp(&got->stats, &want->stats, sizeof got->stats) != 0)
        fail_msg("%s, step %d: loss %.17g, not %.17g, or other stats differ", s->name, step, got->stats.loss, want->stats.loss);
    if (memcmp(got->grad_a, want->grad_a, flat) != 0 || memcmp(got->grad_b, want->grad_b, flat) != 0)
        fail_msg("%s, step %d: gradients differ", s->name, step);
}

/* `undisturbed` never sees a step without update: the other one's rows, shared lambda and ring must stay equal to its. */
static void check_no_update(scene *s) {
    runner w = runner_make(s), undisturbed = runner_make(s);
    outputs dry = outputs_make(s), out = outputs_make(s), reference = outputs_make(s);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        scene_draw(s, step, &b);
        glofnd_batch q = b.q;
        q.want |= GLOFND_WANT_NO_UPDATE;
        run_two_calls(&w, &q, &dry);
        run_step(&w, &q, &dry);
        expect_equal_rows(s, &w, &undisturbed);
        run_step(&w, &b.q, &out);
        run_step(&undisturbed, &b.q, &reference);
        expect_same_outputs(s, step, &dry, &reference);
        expect_same_outputs(s, step, &out, &reference);
        expect_equal_rows(s, &w, &undisturbed);
        scene_batch_free(&b);
    }
    glofnd_store_info x = {.size = sizeof x}, y = {.size = sizeof y};
    expect_ok(w.ctx, glofnd_store_describe(w.store, &x));
    expect_ok(w.ctx, glofnd_store_describe(undisturbed.store, &y));
    assert_int_equal(x.touched_rows, y.touched_rows);
    outputs_free(&dry);
    outputs_free(&out);
    outputs_free(&reference);
    runner_free(&w);
    runner_free(&undisturbed);
}

TEST(steps_without_update_leave_no_trace) {
    static const struct {
        glofnd_detector detector;
        glofnd_learner learner;
        int warmup;
    } WAY[] = {{GLOFND_DETECT_GLOFND, GLOFND_LEARN_ADAM, 2},
               {GLOFND_DETECT_SINGLE, GLOFND_LEARN_SGD, 0},
               {GLOFND_DETECT_GLOFND, GLOFND_LEARN_RING, 0},
               {GLOFND_DETECT_NONE, GLOFND_LEARN_ADAM, 0}};
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++)
        for (size_t k = 0; k < sizeof WAY / sizeof *WAY; k++) {
            char name[96];
            snprintf(name, sizeof name, "loss %d, detector %d, learner %d", loss, WAY[k].detector, WAY[k].learner);
            scene s = cuda_scene(name, loss, GLOFND_MATH_EXACT);
            s.o.detector = WAY[k].detector, s.o.learner = WAY[k].learner, s.o.lambda_warmup = WAY[k].warmup;
            s.o.ring_rows = 60; /* not a multiple of the batch: it wraps inside one */
            s.o.update_epoch = 0, s.o.mask_epoch = 1;
            s.batch = 20, s.anchors = 30, s.dim = 12, s.steps = 4;
            check_no_update(&s);
        }
}

/* ---- a workspace of the caller ---- */

enum { GUARD = 4096 };

static char *guarded_workspace(on_device_copies *x, size_t bytes) {
    char *memory = on_device_take(x, NULL, bytes + 2 * GUARD);
    cuda_ok(cudaMemset(memory, 0x5a, bytes + 2 * GUARD));
    cuda_ok(cudaDeviceSynchronize());
    return memory + GUARD;
}

static void expect_guards(const char *workspace, size_t bytes) {
    static unsigned char guard[2][GUARD];
    on_device_fetch(guard[0], workspace - GUARD, GUARD);
    on_device_fetch(guard[1], workspace + bytes, GUARD);
    for (int i = 0; i < GUARD; i++)
        if (guard[0][i] != 0x5a || guard[1][i] != 0x5a) fail_msg("byte %d before or behind the workspace was written", i);
}

/* Batches of different sizes in one workspace, which is aligned to 64 bytes only. */
TEST(a_workspace_may_be_given) {
    static const int64_t BATCH[] = {300, 40, 299, 2};
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        scene s = cuda_scene("workspace", loss, GLOFND_MATH_AUTO);
        s.batch = BATCH[0], s.anchors = 400;
        runner w = runner_make(&s), own = runner_make(&s);
        on_device_copies x = {0};
        size_t bytes = 0;
        expect_ok(w.ctx, glofnd_ctx_workspace_bytes(w.ctx, s.batch, s.batch, s.dim, &bytes));
        char *memory = guarded_workspace(&x, bytes + 64) + 64;
        expect_ok(w.ctx, glofnd_ctx_workspace(w.ctx, memory, bytes));
        for (int step = 0; step < 4; step++) {
            s.batch = BATCH[step];
            outputs got = outputs_make(&s), want = outputs_make(&s);
            scene_batch b;
            scene_draw(&s, step, &b);
            run_step(&w, &b.q, &got);
            run_step(&own, &b.q, &want);
            expect_same_outputs(&s, step, &got, &want);
            scene_batch_free(&b);
            outputs_free(&got);
            outputs_free(&want);
        }
        expect_guards(memory - 64, bytes + 64);
        expect_equal_rows(&s, &w, &own);
        runner_free(&w);
        runner_free(&own);
        on_device_drop(&x);
    }
}

TEST(too_small_a_workspace_is_refused) {
    scene s = cuda_scene("workspace", LOSS_SOGCLR, GLOFND_MATH_AUTO);
    runner w = runner_make(&s);
    on_device_copies x = {0};
    char *memory = guarded_workspace(&x, 8192);
    outputs out = outputs_make(&s);
    scene_batch b;
    scene_draw(&s, 0, &b);
    expect_ok(w.ctx, glofnd_ctx_workspace(w.ctx, memory, 8192));
    assert_int_equal(on_device_step(w.ctx, w.store, &b.q, out.grad_a, out.grad_b, NULL), GLOFND_E_MEMORY);
    assert_non_null(strstr(glofnd_ctx_error(w.ctx), "glofnd_ctx_workspace was given 8192"));
    assert_int_equal(glofnd_ctx_workspace(w.ctx, memory + 8, 8192), GLOFND_E_ARGUMENT);
    expect_ok(w.ctx, glofnd_ctx_workspace(w.ctx, NULL, 0)); /* and its own again */
    run_step(&w, &b.q, &out);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
    on_device_drop(&x);
}

/* ---- in a graph ---- */

/* Replays of a captured step in bfloat16, in a given workspace, between plain steps of a smaller batch, against steps that are
 * not captured. An allocation would end the capture. */
TEST(a_captured_step_takes_all_of_it) {
    scene s = cuda_scene("graph", LOSS_SOGCLR, GLOFND_MATH_AUTO), small;
    s.batch = 40, s.anchors = 60;
    s.o.update_epoch = 0, s.o.mask_epoch = 0;
    small = s, small.batch = 11;
    runner w = runner_make(&s), plain = runner_make(&s);
    outputs out = outputs_make(&s), between = outputs_make(&small);
    scene_batch b, c;
    scene_draw(&s, 3, &b), scene_draw(&small, 4, &c);
    typed_batch t = typed_make(&b, GLOFND_BF16, GLOFND_BF16, TYPED_INTERLEAVED);
    device_batch d = device_make(&t);
    size_t bytes = 0;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    glofnd_stats stats = {.size = sizeof stats};
    cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    expect_ok(w.ctx, glofnd_ctx_stream(w.ctx, stream));
    expect_ok(w.ctx, glofnd_ctx_workspace_bytes(w.ctx, s.batch, s.batch, s.dim, &bytes));
    expect_ok(w.ctx, glofnd_ctx_workspace(w.ctx, guarded_workspace(&d.copies, bytes), bytes));
    cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    expect_ok(w.ctx, glofnd_step(w.ctx, w.store, &d.q, d.grad_a, d.grad_b, NULL));
    cuda_ok(cudaStreamEndCapture(stream, &graph));
    cuda_ok(cudaGraphInstantiate(&exec, graph, 0));
    for (int step = 0; step < 4; step++) {
        device_clear(&d, &t);
        cuda_ok(cudaGraphLaunch(exec, stream));
        expect_ok(w.ctx, glofnd_ctx_stats(w.ctx, &stats));
        device_fetch(&d, &t);
        memset(&out.stats, 0, sizeof out.stats), out.stats.size = sizeof out.stats;
        run_step(&plain, &t.plain, &out);
        expect_typed_step(&s, step, &t, &out, step == 0 ? &stats : &out.stats); /* later ones: by the plan of the smaller batch */
        run_step(&w, &c.q, &between);
        run_step(&plain, &c.q, &between);
        expect_equal_rows(&s, &w, &plain);
    }
    cuda_ok(cudaGraphExecDestroy(exec));
    cuda_ok(cudaGraphDestroy(graph));
    runner_free(&w);
    runner_free(&plain);
    on_device_drop(&d.copies);
    typed_free(&t);
    scene_batch_free(&b), scene_batch_free(&c);
    outputs_free(&out), outputs_free(&between);
    cuda_ok(cudaStreamDestroy(stream));
}

/* cuda_batch [PATTERN]: only tests whose name fits it. */
TEST_NEEDS(no_cuda_device)
