/* cuda_step.c - the step on a GPU: properties that the tests of the CPU do not cover. Its values and gradients are checked by the
 * same programs as the CPU's, run with GLOFND_TEST_DEVICE=cuda (unit_step, unit_learner, unit_equal, grad_losses; see
 * tests/CMakeLists.txt).
 *
 * Here: failures that only the device sees, queued steps and graphs, stores that move between devices, rounded products, sizes.
 */
#include "support/test.h"

#include "support/cuda_main.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/little_memory.h"
#include "support/losses.h"
#include "support/on_device.h"
#include "support/plain_thresholds.h"
#include "support/random.h"

/* ---- a scene on the device ---- */

typedef struct rig {
    scene s;
    runner w;
    outputs out;
    scene_batch b; /* host */
    on_device_copies copies;
    glofnd_batch q;         /* device */
    glofnd_own_rows own;    /* slots of the state, where a test gives some: steps are then glofnd_step_rows */
    void *links;            /* device */
    float *grad_a, *grad_b; /* device */
    size_t grad_bytes;
} rig;

static void cuda_ok(cudaError_t e) {
    if (e != cudaSuccess) fail_msg("CUDA: %s", cudaGetErrorString(e));
}

static scene cuda_scene(const char *name, int loss, glofnd_math math) {
    scene s = scene_make(name, loss);
    s.o.device = GLOFND_DEVICE_CUDA;
    s.o.math = math;
    return s;
}

static void rig_load(rig *r, int step) {
    on_device_drop(&r->copies);
    r->copies.count = 0;
    r->own.slot = NULL;
    scene_batch_free(&r->b);
    scene_draw(&r->s, step, &r->b);
    r->q = on_device_batch(&r->copies, &r->b.q);
    r->grad_a = on_device_take(&r->copies, NULL, r->grad_bytes);
    r->grad_b = on_device_take(&r->copies, NULL, r->grad_bytes);
}

static rig rig_make(const scene *s, int step) {
    rig r = {.s = *s, .w = runner_make(s), .out = outputs_make(s), .grad_bytes = sizeof(float) * (size_t)(s->batch * s->dim)};
    rig_load(&r, step);
    return r;
}

static void rig_free(rig *r) {
    on_device_drop(&r->copies);
    scene_batch_free(&r->b);
    outputs_free(&r->out);
    runner_free(&r->w);
}

static glofnd_status rig_step(rig *r, glofnd_stats *stats) {
    if (r->own.slot) return glofnd_step_rows(r->w.ctx, r->w.store, &r->q, &r->own, r->links, stats);
    return glofnd_step(r->w.ctx, r->w.store, &r->q, r->grad_a, r->grad_b, stats);
}

static void rig_fetch(rig *r) {
    on_device_fetch(r->out.grad_a, r->grad_a, r->grad_bytes);
    on_device_fetch(r->out.grad_b, r->grad_b, r->grad_bytes);
}

static glofnd_anchor *all_rows(const rig *r, int side) {
    glofnd_anchor *rows = calloc((size_t)r->s.anchors, sizeof *rows);
    int64_t *id = calloc((size_t)r->s.anchors, sizeof *id);
    for (int64_t i = 0; i < r->s.anchors; i++) id[i] = i;
    expect_ok(r->w.ctx, glofnd_anchors_get(r->w.ctx, r->w.store, side, id, r->s.anchors, rows));
    free(id);
    return rows;
}

static void expect_same_rows(const char *what, const rig *a, const rig *b) {
    const int sides = scene_two_views(&a->s) ? 1 : 2;
    for (int side = 0; side < sides; side++) {
        glofnd_anchor *x = all_rows(a, side), *y = all_rows(b, side);
        if (memcmp(x, y, sizeof *x * (size_t)a->s.anchors) != 0)
            fail_msg("%s: %s: states differ, side %d", what, a->s.name, side);
        free(x);
        free(y);
    }
}

/* ---- same bits ---- */

TEST(a_step_gives_the_same_bits_twice) {
    static const glofnd_math MATH[] = {GLOFND_MATH_EXACT, GLOFND_MATH_BF16, GLOFND_MATH_SPLIT};
    for (int loss = 0; loss <= LOSS_ISOGCLR; loss++)
        for (size_t m = 0; m < sizeof MATH / sizeof *MATH; m++) {
            scene s = cuda_scene("twice", loss, MATH[m]);
            s.batch = 201, s.anchors = 300, s.dim = 50;
            rig a = rig_make(&s, 0), b = rig_make(&s, 0);
            for (int step = 0; step < 5; step++) {
                rig_load(&a, step), rig_load(&b, step);
                expect_ok(a.w.ctx, rig_step(&a, &a.out.stats));
                expect_ok(b.w.ctx, rig_step(&b, &b.out.stats));
                rig_fetch(&a), rig_fetch(&b);
                assert_memory_equal(a.out.grad_a, b.out.grad_a, a.grad_bytes);
                assert_memory_equal(a.out.grad_b, b.out.grad_b, a.grad_bytes);
                assert_memory_equal(&a.out.stats, &b.out.stats, sizeof a.out.stats);
            }
            expect_same_rows("twice", &a, &b);
            rig_free(&a);
            rig_free(&b);
        }
}

/* ---- rounded products ---- */

static double distance(const float *x, const float *y, int64_t n) {
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        size += (double)y[i] * (double)y[i];
    }
    return sqrt(apart / size);
}

/* |S' - S| <= e gives weights wrong by e / tau, relative; u and the loss likewise. `fixed`: no thresholds to disagree about. more_a,
 * more_b: candidates of either side. */
static void check_math_with(int loss, glofnd_math math, double tau, double similarity_error, int64_t more_a, int64_t more_b) {
    scene s = cuda_scene("rounded", loss, math), exact = cuda_scene("exact", loss, GLOFND_MATH_EXACT);
    s.candidates[0] = exact.candidates[0] = more_a, s.candidates[1] = exact.candidates[1] = more_b;
    s.batch = exact.batch = 130, s.anchors = exact.anchors = 200, s.dim = exact.dim = 128;
    s.o.tau = exact.o.tau = tau;
    s.o.tau_min = exact.o.tau_min = tau < 0.02 ? tau : 0.02;
    s.o.detector = exact.o.detector = GLOFND_DETECT_ORACLE;
    rig a = rig_make(&s, 3), b = rig_make(&exact, 3);
    expect_ok(a.w.ctx, rig_step(&a, &a.out.stats));
    expect_ok(b.w.ctx, rig_step(&b, &b.out.stats));
    rig_fetch(&a), rig_fetch(&b);
    const double off = distance(a.out.grad_a, b.out.grad_a, s.batch * s.dim);
    print_message("  loss %d, math %d, tau %g: gradient off by %.1e, loss by %.1e\n", (int)loss, (int)math, tau, off,
                  fabs(a.out.stats.loss - b.out.stats.loss));
    if (!(off <= 4 * similarity_error / tau)) fail_msg("math %d: gradient off by %g at tau %g", (int)math, off, tau);
    const double scale = fmax(1, fabs(b.out.stats.loss));
    expect_near(s.name, 0, "loss", a.out.stats.loss, b.out.stats.loss, 8 * similarity_error / tau * scale);
    rig_free(&a);
    rig_free(&b);
}

static void check_math(int loss, glofnd_math math, double tau, double similarity_error) {
    check_math_with(loss, math, tau, similarity_error, 0, 0);
}

TEST(rounded_products_are_as_close_as_they_say) {
    for (int loss = 0; loss <= LOSS_ISOGCLR; loss++) {
        check_math(loss, GLOFND_MATH_BF16, 0.1, 1e-3);
        check_math(loss, GLOFND_MATH_SPLIT, 0.1, 1e-5);
        check_math(loss, GLOFND_MATH_SPLIT, 0.01, 1e-5);
        check_math(loss, GLOFND_MATH_AUTO, 0.05, 1e-3);
        check_math(loss, GLOFND_MATH_AUTO, 0.03, 1e-5);
    }
}

/* One launch serves both sides, whose rows then have different numbers of columns. */
TEST(sides_may_differ_in_columns) {
    static const int64_t counts[][2] = {{400, 20}, {20, 400}, {400, 0}, {0, 400}};
    for (int loss = LOSS_CLIP; loss <= LOSS_ISOGCLR; loss++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
            check_math_with(loss, GLOFND_MATH_BF16, 0.1, 1e-3, counts[n][0], counts[n][1]);
            check_math_with(loss, GLOFND_MATH_SPLIT, 0.1, 1e-5, counts[n][0], counts[n][1]);
        }
}

/* ---- failures that only the device sees ---- */

typedef struct damage {
    const char *name, *text;
    int a, b;            /* row that gets a NaN; -1: none */
    int repeat, outside; /* id; repeat 2: slots are given, and one is there twice */
    glofnd_status status;
} damage;

static const damage DAMAGE[] = {
    {"NaN in a", "batch.a: row 5", 5, -1, 0, 0, GLOFND_E_NUMERIC},
    {"NaN in b", "batch.b: row 7", -1, 7, 0, 0, GLOFND_E_NUMERIC},
    {"NaN in both", "batch.a: row 2", 2, 4, 0, 0, GLOFND_E_NUMERIC},
    {"id twice", "occurs twice", -1, -1, 1, 0, GLOFND_E_INDEX},
    {"slot twice", "slot given for it, occurs twice", -1, -1, 2, 0, GLOFND_E_INDEX},
    {"id outside", "id[3], or the slot given for it, is outside", -1, -1, 0, 1, GLOFND_E_INDEX},
};

static void apply(const damage *d, rig *r) {
    const float nan = NAN;
    const int64_t far = r->s.anchors, first = r->b.id[0];
    float *a = (float *)(uintptr_t)r->q.a, *b = (float *)(uintptr_t)r->q.b;
    int64_t *id = (int64_t *)(uintptr_t)r->q.id;
    if (d->a >= 0) cuda_ok(cudaMemcpy(a + d->a * r->s.dim + 3, &nan, sizeof nan, cudaMemcpyHostToDevice));
    if (d->b >= 0) cuda_ok(cudaMemcpy(b + d->b * r->s.dim, &nan, sizeof nan, cudaMemcpyHostToDevice));
    if (d->repeat == 2) {
        id = on_device_take(&r->copies, r->b.id, sizeof *id * (size_t)r->s.batch);
        r->own = (glofnd_own_rows){.size = sizeof r->own, .rows = r->s.batch, .slot = id};
        r->links = on_device_take(&r->copies, NULL, (size_t)(GLOFND_LINK_BYTES * r->s.batch));
    }
    if (d->repeat) cuda_ok(cudaMemcpy(id + 9, &first, sizeof first, cudaMemcpyHostToDevice));
    if (d->outside) cuda_ok(cudaMemcpy(id + 3, &far, sizeof far, cudaMemcpyHostToDevice));
    cuda_ok(cudaDeviceSynchronize());
}

static void expect_failure(const damage *d, rig *r, glofnd_status status) {
    const char *said = glofnd_ctx_error(r->w.ctx);
    if (status != d->status) fail_msg("%s: status %d, expected %d (%s)", d->name, (int)status, (int)d->status, said);
    if (!strstr(said, d->text)) fail_msg("%s: '%s' lacks '%s'", d->name, said, d->text);
}

/* A bad step, reported at once or later, leaves the store as it was; so do good ones queued after it. Later steps work again. */
TEST(bad_input_changes_nothing) {
    for (size_t k = 0; k < sizeof DAMAGE / sizeof *DAMAGE; k++)
        for (int learner = 0; learner <= GLOFND_LEARN_RING; learner++) {
            scene s = cuda_scene("damage", LOSS_SOGCLR, GLOFND_MATH_EXACT);
            s.o.learner = (glofnd_learner)learner;
            s.o.ring_rows = 64;
            rig r = rig_make(&s, 3), plain = rig_make(&s, 3);
            expect_ok(r.w.ctx, rig_step(&r, &r.out.stats));
            expect_ok(plain.w.ctx, rig_step(&plain, NULL));
            rig_load(&r, 4);
            apply(&DAMAGE[k], &r);
            expect_failure(&DAMAGE[k], &r, rig_step(&r, &r.out.stats));
            expect_same_rows("reported at once", &r, &plain);
            expect_ok(r.w.ctx, rig_step(&r, NULL)); /* queued: not reported yet */
            rig_load(&r, 5);
            expect_ok(r.w.ctx, rig_step(&r, NULL)); /* a good one after it */
            expect_failure(&DAMAGE[k], &r, glofnd_ctx_stats(r.w.ctx, &r.out.stats));
            expect_same_rows("reported later", &r, &plain);
            rig_load(&plain, 5);
            expect_ok(r.w.ctx, rig_step(&r, &r.out.stats));
            expect_ok(plain.w.ctx, rig_step(&plain, &plain.out.stats));
            assert_memory_equal(&r.out.stats, &plain.out.stats, sizeof r.out.stats);
            expect_same_rows("afterwards", &r, &plain);
            rig_free(&r);
            rig_free(&plain);
        }
}

/* ---- queued, captured, on a different stream ---- */

TEST(a_queued_step_gives_its_stats_later) {
    scene s = cuda_scene("queued", LOSS_FASTCLIP, GLOFND_MATH_SPLIT);
    rig a = rig_make(&s, 3), b = rig_make(&s, 3);
    cudaStream_t stream;
    cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    expect_ok(a.w.ctx, glofnd_ctx_stream(a.w.ctx, stream));
    expect_ok(a.w.ctx, rig_step(&a, NULL));
    expect_ok(a.w.ctx, glofnd_ctx_stats(a.w.ctx, &a.out.stats));
    expect_ok(b.w.ctx, rig_step(&b, &b.out.stats));
    rig_fetch(&a), rig_fetch(&b);
    assert_memory_equal(&a.out.stats, &b.out.stats, sizeof a.out.stats);
    assert_memory_equal(a.out.grad_a, b.out.grad_a, a.grad_bytes);
    rig_free(&a);
    rig_free(&b);
    cuda_ok(cudaStreamDestroy(stream));
}

static cudaGraphExec_t capture(rig *r, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    expect_ok(r->w.ctx, glofnd_ctx_stream(r->w.ctx, stream));
    cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    expect_ok(r->w.ctx, rig_step(r, NULL));
    cuda_ok(cudaStreamEndCapture(stream, &graph));
    cuda_ok(cudaGraphInstantiate(&exec, graph, 0));
    cuda_ok(cudaGraphDestroy(graph));
    return exec;
}

/* Six replays of one batch against six plain steps: thresholds, u and the ring must advance inside the graph. */
static void check_graph(int detector, int learner, int init) {
    scene s = cuda_scene("graph", LOSS_SOGCLR, GLOFND_MATH_EXACT);
    s.batch = 40, s.anchors = 60;
    s.o.detector = (glofnd_detector)detector;
    s.o.learner = (glofnd_learner)learner;
    s.o.lambda_init = (glofnd_lambda_init)init;
    s.o.ring_rows = 200;
    if (detector == GLOFND_DETECT_SINGLE && learner == GLOFND_LEARN_RING) return;
    rig a = rig_make(&s, 3), b = rig_make(&s, 3);
    cudaStream_t stream;
    cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    expect_ok(a.w.ctx, glofnd_ctx_reserve(a.w.ctx, s.batch, s.batch, s.dim, NULL));
    const cudaGraphExec_t exec = capture(&a, stream);
    for (int step = 0; step < 6; step++) {
        cuda_ok(cudaGraphLaunch(exec, stream));
        expect_ok(a.w.ctx, glofnd_ctx_stats(a.w.ctx, &a.out.stats));
        expect_ok(b.w.ctx, rig_step(&b, &b.out.stats));
        assert_memory_equal(&a.out.stats, &b.out.stats, sizeof a.out.stats);
    }
    rig_fetch(&a), rig_fetch(&b);
    assert_memory_equal(a.out.grad_a, b.out.grad_a, a.grad_bytes);
    expect_same_rows("graph", &a, &b);
    cuda_ok(cudaGraphExecDestroy(exec));
    rig_free(&a);
    rig_free(&b);
    cuda_ok(cudaStreamDestroy(stream));
}

TEST(a_captured_step_moves_on) {
    for (int detector = 0; detector <= GLOFND_DETECT_ORACLE; detector++)
        for (int learner = 0; learner <= GLOFND_LEARN_RING; learner++)
            for (int init = 0; init < 2; init++) check_graph(detector, learner, init);
}

/* After glofnd_ctx_reserve no smaller step allocates: an allocation would end the capture. */
TEST(a_reserved_context_takes_nothing) {
    static const int64_t BATCH[] = {1500, 1024, 700, 33, 3, 2};
    scene s = cuda_scene("reserved", LOSS_SOGCLR, GLOFND_MATH_AUTO);
    s.batch = BATCH[0], s.anchors = 2000;
    runner w = runner_make(&s);
    cudaStream_t stream;
    cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    expect_ok(w.ctx, glofnd_ctx_reserve(w.ctx, s.batch, s.batch, s.dim, NULL));
    for (size_t k = 0; k < sizeof BATCH / sizeof *BATCH; k++)
        for (int detector = 0; detector <= GLOFND_DETECT_FNC; detector++) {
            s.batch = BATCH[k];
            s.o.detector = (glofnd_detector)detector;
            rig r = rig_make(&s, 3);
            runner own = r.w;
            r.w = w;
            expect_ok(w.ctx, glofnd_ctx_configure(w.ctx, &s.o));
            const cudaGraphExec_t exec = capture(&r, stream);
            cuda_ok(cudaGraphLaunch(exec, stream));
            expect_ok(w.ctx, glofnd_ctx_stats(w.ctx, &r.out.stats));
            cuda_ok(cudaGraphExecDestroy(exec));
            r.w = own;
            rig_free(&r);
        }
    runner_free(&w);
    cuda_ok(cudaStreamDestroy(stream));
}

/* ---- too little memory ---- */

/* State that does not fit the device lies on the host, and works the same. */
TEST(a_large_store_lies_on_the_host) {
    scene s = cuda_scene("large", LOSS_SOGCLR, GLOFND_MATH_EXACT);
    rig small = rig_make(&s, 3), large = rig_make(&s, 3);
    const glofnd_store_spec spec = {.size = sizeof spec, .n = 10000000};
    glofnd_store_free(large.w.store);
    memory_left = (size_t)1100 << 20;
    expect_ok(large.w.ctx, glofnd_store_create(large.w.ctx, &spec, &large.w.store));
    for (int step = 3; step < 6; step++) {
        rig_load(&small, step), rig_load(&large, step);
        expect_ok(small.w.ctx, rig_step(&small, &small.out.stats));
        expect_ok(large.w.ctx, rig_step(&large, &large.out.stats));
        assert_memory_equal(&small.out.stats, &large.out.stats, sizeof small.out.stats);
    }
    memory_left = SIZE_MAX;
    expect_same_rows("large", &small, &large);
    rig_free(&small);
    rig_free(&large);
}

/* Out of memory is a status with the size in its text, and the context stays usable. */
TEST(too_little_memory_is_reported) {
    scene s = cuda_scene("memory", LOSS_SOGCLR, GLOFND_MATH_EXACT);
    rig r = rig_make(&s, 3);
    expect_ok(r.w.ctx, rig_step(&r, &r.out.stats));
    memory_left = (size_t)200 << 20;
    assert_int_equal(glofnd_ctx_reserve(r.w.ctx, 1 << 20, 1 << 20, 128, NULL), GLOFND_E_MEMORY);
    assert_non_null(strstr(glofnd_ctx_error(r.w.ctx), "no device memory"));
    expect_ok(r.w.ctx, rig_step(&r, &r.out.stats));
    memory_left = SIZE_MAX;
    rig_free(&r);
}

/* ---- stores that move ---- */

static void check_moving(int loss, glofnd_learner learner) {
    scene s = cuda_scene("moving", loss, GLOFND_MATH_EXACT), cpu = scene_make("moving", loss);
    cpu.o.device = GLOFND_DEVICE_CPU;
    s.o.learner = cpu.o.learner = learner;
    s.o.ring_rows = cpu.o.ring_rows = 48;
    rig r = rig_make(&s, 0);
    char path[] = "cuda_step_XXXXXX", again[64];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (int step = 0; step < 4; step++) {
        rig_load(&r, step);
        expect_ok(r.w.ctx, rig_step(&r, &r.out.stats));
    }
    expect_ok(r.w.ctx, glofnd_store_save(r.w.ctx, r.w.store, path));
    snprintf(again, sizeof again, "%s.again", path);
    runner host = {0};
    expect_ok(host.ctx, glofnd_ctx_create(&cpu.o, &host.ctx, NULL, 0));
    expect_ok(host.ctx, glofnd_store_load(host.ctx, path, NULL, &host.store));
    outputs out = outputs_make(&s);
    rig_load(&r, 4);
    expect_ok(host.ctx, glofnd_step(host.ctx, host.store, &r.b.q, out.grad_a, out.grad_b, &out.stats));
    expect_ok(r.w.ctx, rig_step(&r, &r.out.stats));
    expect_near(s.name, 4, "loss of both", r.out.stats.loss, out.stats.loss, 1e-5 * fabs(out.stats.loss));
    expect_near(s.name, 4, "lambda of both", r.out.stats.lambda_mean, out.stats.lambda_mean, 1e-6);
    expect_ok(host.ctx, glofnd_store_save(host.ctx, host.store, again));
    glofnd_store_free(r.w.store);
    expect_ok(r.w.ctx, glofnd_store_load(r.w.ctx, again, NULL, &r.w.store));
    rig_load(&r, 5);
    expect_ok(r.w.ctx, rig_step(&r, &r.out.stats));
    expect_ok(host.ctx, glofnd_step(host.ctx, host.store, &r.b.q, out.grad_a, out.grad_b, &out.stats));
    expect_near(s.name, 5, "loss of both", r.out.stats.loss, out.stats.loss, 1e-5 * fabs(out.stats.loss));
    outputs_free(&out);
    runner_free(&host);
    rig_free(&r);
    remove(path), remove(again);
}

TEST(a_store_moves_between_devices) {
    check_moving(LOSS_SOGCLR, GLOFND_LEARN_ADAM);
    check_moving(LOSS_SOGCLR, GLOFND_LEARN_RING);
    check_moving(LOSS_ISOGCLR, GLOFND_LEARN_ADAM);
    check_moving(LOSS_CLIP, GLOFND_LEARN_RING);
}

/* ---- thresholds ---- */

TEST(exact_thresholds_agree_with_the_cpu) {
    enum { ROWS = 33, COLS = 500, DIM = 19 };
    static float q[ROWS * DIM], k[COLS * DIM], want[ROWS], got[ROWS];
    static int64_t skip[ROWS];
    rng g = {7};
    for (int i = 0; i < ROWS * DIM; i++) q[i] = (float)rng_normal(&g);
    for (int i = 0; i < COLS * DIM; i++) k[i] = (float)rng_normal(&g);
    for (int i = 0; i < ROWS; i++) skip[i] = i % 3 ? i : -1;
    scene s = cuda_scene("thresholds", LOSS_SOGCLR, GLOFND_MATH_AUTO);
    runner gpu = {0}, cpu = {0};
    expect_ok(gpu.ctx, glofnd_ctx_create(&s.o, &gpu.ctx, NULL, 0));
    s.o.device = GLOFND_DEVICE_CPU;
    expect_ok(cpu.ctx, glofnd_ctx_create(&s.o, &cpu.ctx, NULL, 0));
    on_device_copies x = {0};
    const float *dq = on_device_take(&x, q, sizeof q), *dk = on_device_take(&x, k, sizeof k);
    const int64_t *dskip = on_device_take(&x, skip, sizeof skip);
    float *out = on_device_take(&x, NULL, sizeof got);
    for (int with = 0; with < 2; with++) {
        expect_ok(cpu.ctx, plain_thresholds(cpu.ctx, q, ROWS, k, COLS, DIM, with ? skip : NULL, 0.05, want));
        expect_ok(gpu.ctx, plain_thresholds(gpu.ctx, dq, ROWS, dk, COLS, DIM, with ? dskip : NULL, 0.05, out));
        on_device_fetch(got, out, sizeof got);
        for (int i = 0; i < ROWS; i++) expect_near("thresholds", with, "threshold", got[i], want[i], SIM_ERROR);
    }
    on_device_drop(&x);
    runner_free(&gpu);
    runner_free(&cpu);
}

/* ---- refusals ---- */

TEST(wrong_calls_are_refused) {
    scene s = cuda_scene("refused", LOSS_SOGCLR, GLOFND_MATH_AUTO), cpu = s;
    cpu.o.device = GLOFND_DEVICE_CPU;
    rig r = rig_make(&s, 0);
    runner host = runner_make(&cpu);
    glofnd_store_spec spec = {.size = sizeof spec, .n = s.anchors, .dim = s.dim};
    glofnd_store *store = NULL;
    glofnd_sims none = {0};
    spec.path = "somewhere";
    assert_int_equal(glofnd_store_create(r.w.ctx, &spec, &store), GLOFND_E_UNSUPPORTED);
    assert_int_equal(glofnd_detect_update(r.w.ctx, r.w.store, &none), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_detect_update(r.w.ctx, host.store, &none), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ctx_stream(host.ctx, NULL), GLOFND_E_UNSUPPORTED);
    assert_int_equal(glofnd_ctx_configure(r.w.ctx, &cpu.o), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_step(r.w.ctx, host.store, &r.q, r.grad_a, r.grad_b, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_step(host.ctx, r.w.store, &r.b.q, r.out.grad_a, r.out.grad_b, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ctx_stats(r.w.ctx, &r.out.stats), GLOFND_E_ARGUMENT); /* no step yet */
    assert_int_equal(glofnd_anchors_get(r.w.ctx, r.w.store, 0, NULL, 1, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_get(r.w.ctx, r.w.store, 0, NULL, 0, NULL), GLOFND_OK); /* no rows: nothing to do */
    assert_int_equal(glofnd_anchors_put(r.w.ctx, r.w.store, 0, NULL, 0, NULL), GLOFND_OK);
    runner_free(&host);
    rig_free(&r);
}

TEST_NEEDS(no_cuda_device)
