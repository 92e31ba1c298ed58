/* cuda_loss.c - steps that never wait for the host: loss and temperature in device memory (unit_loss.c for a GPU), failures that
 * are noticed later, and all of it in a captured graph. */
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

static void cuda_ok(cudaError_t e) {
    if (e != cudaSuccess) fail_msg("CUDA: %s", cudaGetErrorString(e));
}

typedef struct setting { /* a step on the device, queued with stats NULL; [0] loss, [1] grad_tau, [2] tau */
    scene s;
    runner w;
    scene_batch b;
    on_device_copies copies;
    glofnd_batch q;
    float *grad_a, *grad_b, *scalars;
} setting;

static setting setting_make(int loss, glofnd_math math) {
    setting x = {.s = scene_make("loss on the device", loss)};
    x.s.o.device = GLOFND_DEVICE_CUDA, x.s.o.math = math;
    x.w = runner_make(&x.s);
    scene_draw(&x.s, 0, &x.b);
    const size_t bytes = sizeof(float) * (size_t)(x.s.batch * x.s.dim);
    x.q = on_device_batch(&x.copies, &x.b.q);
    x.grad_a = on_device_take(&x.copies, NULL, bytes), x.grad_b = on_device_take(&x.copies, NULL, bytes);
    x.scalars = on_device_take(&x.copies, NULL, 3 * sizeof(float));
    return x;
}

static void setting_free(setting *x) {
    on_device_drop(&x->copies);
    scene_batch_free(&x->b);
    runner_free(&x->w);
}

static void set_scalar(setting *x, int at, float value) {
    cuda_ok(cudaMemcpy(x->scalars + at, &value, sizeof value, cudaMemcpyHostToDevice));
    cuda_ok(cudaDeviceSynchronize());
}

static float get_scalar(const setting *x, int at) {
    float value = 0;
    cuda_ok(cudaDeviceSynchronize());
    cuda_ok(cudaMemcpy(&value, x->scalars + at, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void queue_step(setting *x) { expect_ok(x->w.ctx, glofnd_step(x->w.ctx, x->w.store, &x->q, x->grad_a, x->grad_b, NULL)); }
static glofnd_status queue_loss(setting *x) { return glofnd_ctx_loss(x->w.ctx, x->scalars, x->scalars + 1); }

TEST(the_loss_is_that_of_the_stats) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        setting x = setting_make(loss, GLOFND_MATH_AUTO);
        glofnd_stats stats = {.size = sizeof stats};
        assert_int_equal(queue_loss(&x), GLOFND_E_ARGUMENT); /* no step yet */
        queue_step(&x);
        expect_ok(x.w.ctx, queue_loss(&x));
        expect_ok(x.w.ctx, glofnd_ctx_stats(x.w.ctx, &stats));
        assert_true(get_scalar(&x, 0) == (float)stats.loss && get_scalar(&x, 1) == (float)stats.grad_tau);
        setting_free(&x);
    }
}

/* Temperatures that the host also works relative to a peak with, and one math: the same bits. */
TEST(a_temperature_on_the_device_gives_the_same_bits) {
    static const float TAU[] = {0.02f, 0.01f};
    for (int loss = LOSS_SOGCLR; loss < LOSS_ISOGCLR; loss++) {
        setting x = setting_make(loss, GLOFND_MATH_SPLIT), y = setting_make(loss, GLOFND_MATH_SPLIT);
        expect_ok(x.w.ctx, glofnd_ctx_tau(x.w.ctx, x.scalars + 2));
        for (int step = 0; step < 2; step++) {
            glofnd_stats got = {.size = sizeof got}, want = {.size = sizeof want};
            set_scalar(&x, 2, TAU[step]);
            y.q.tau = (double)TAU[step];
            queue_step(&x), queue_step(&y);
            expect_ok(x.w.ctx, queue_loss(&x));
            expect_ok(x.w.ctx, glofnd_ctx_stats(x.w.ctx, &got));
            expect_ok(y.w.ctx, glofnd_ctx_stats(y.w.ctx, &want));
            assert_memory_equal(&got, &want, sizeof got);
            assert_true(get_scalar(&x, 1) == (float)want.grad_tau);
        }
        setting_free(&x), setting_free(&y);
    }
}

TEST(failures_are_noticed_later) {
    setting x = setting_make(LOSS_CLIP, GLOFND_MATH_AUTO);
    const int64_t bad = x.s.anchors, good = x.b.id[3];
    int64_t *id = (int64_t *)(uintptr_t)x.q.id;
    glofnd_stats stats = {.size = sizeof stats};
    cuda_ok(cudaMemcpy(id + 3, &bad, sizeof bad, cudaMemcpyHostToDevice));
    queue_step(&x);
    glofnd_status status = queue_loss(&x); /* may be too early to know */
    assert_true(isnan(get_scalar(&x, 0)) && isnan(get_scalar(&x, 1)));
    if (status == GLOFND_OK) status = queue_loss(&x);
    assert_int_equal(status, GLOFND_E_INDEX);
    cuda_ok(cudaMemcpy(id + 3, &good, sizeof good, cudaMemcpyHostToDevice));
    queue_step(&x);
    expect_ok(x.w.ctx, queue_loss(&x));
    assert_false(isnan(get_scalar(&x, 0)));
    set_scalar(&x, 2, 0.0f);
    expect_ok(x.w.ctx, glofnd_ctx_tau(x.w.ctx, x.scalars + 2));
    queue_step(&x);
    assert_int_equal(glofnd_ctx_stats(x.w.ctx, &stats), GLOFND_E_OPTION);
    setting_free(&x);
}

TEST(a_graph_holds_step_and_loss) {
    setting x = setting_make(LOSS_CLIP, GLOFND_MATH_SPLIT), y = setting_make(LOSS_CLIP, GLOFND_MATH_SPLIT);
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec;
    glofnd_stats stats = {.size = sizeof stats};
    cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    expect_ok(x.w.ctx, glofnd_ctx_stream(x.w.ctx, stream));
    expect_ok(x.w.ctx, glofnd_ctx_tau(x.w.ctx, x.scalars + 2));
    cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(glofnd_step(x.w.ctx, x.w.store, &x.q, x.grad_a, x.grad_b, NULL), GLOFND_E_UNSUPPORTED);
    assert_non_null(strstr(glofnd_ctx_error(x.w.ctx), "being captured"));
    cuda_ok(cudaStreamEndCapture(stream, &graph)); /* the refusal has not spoilt it */
    cuda_ok(cudaGraphDestroy(graph));
    expect_ok(x.w.ctx, glofnd_ctx_reserve(x.w.ctx, x.s.batch, x.s.batch, x.s.dim, NULL));
    cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    queue_step(&x);
    expect_ok(x.w.ctx, queue_loss(&x));
    cuda_ok(cudaStreamEndCapture(stream, &graph));
    cuda_ok(cudaGraphInstantiate(&exec, graph, 0));
    for (int step = 0; step < 3; step++) {
        const float tau = step == 1 ? 0.02f : 0.01f;
        set_scalar(&x, 2, tau);
        y.q.tau = (double)tau;
        cuda_ok(cudaGraphLaunch(exec, stream));
        queue_step(&y);
        expect_ok(y.w.ctx, glofnd_ctx_stats(y.w.ctx, &stats));
        assert_true(get_scalar(&x, 0) == (float)stats.loss && get_scalar(&x, 1) == (float)stats.grad_tau);
    }
    cuda_ok(cudaGraphExecDestroy(exec));
    cuda_ok(cudaGraphDestroy(graph));
    setting_free(&x), setting_free(&y);
    cuda_ok(cudaStreamDestroy(stream));
}

TEST_NEEDS(no_cuda_device)
