/* cuda_lent.c - steps on rows in device memory of the caller (glofnd_ctx_state) that wait for nothing: in large batches, in a
 * captured graph, and where they fail. unit_lent.c has the rest; it runs on the GPU, too. */
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

typedef struct setting { /* a step, on rows of the caller unless `store` is set */
    scene s;
    glofnd_ctx *ctx;
    glofnd_store *store;
    cudaStream_t stream;
    scene_batch b;
    on_device_copies copies;
    glofnd_batch q;
    size_t grad_bytes, rows_bytes;
    float *grad, *scalars;
    glofnd_anchor *rows; /* [sides][anchors + 1] */
} setting;

static scene large(int loss, glofnd_math math, int64_t batch, int64_t dim) {
    scene s = scene_make("rows of the caller", loss);
    s.o.device = GLOFND_DEVICE_CUDA, s.o.math = math;
    s.o.update_epoch = s.o.mask_epoch = 0, s.o.lambda_init = GLOFND_INIT_QUANTILE;
    s.batch = batch, s.dim = dim, s.anchors = batch + 50;
    return s;
}

static void give_rows(setting *x) {
    const int sides = scene_two_views(&x->s) ? 1 : 2;
    const int64_t count = sides * (x->s.anchors + 1);
    x->rows_bytes = sizeof *x->rows * (size_t)count;
    glofnd_anchor *rows = calloc(1, x->rows_bytes);
    if (!rows) abort();
    for (int64_t i = 0; i < count; i++) rows[i].lambda = 1.0f, rows[i].log_u = -INFINITY;
    x->rows = on_device_take(&x->copies, rows, x->rows_bytes);
    free(rows);
    expect_ok(x->ctx, glofnd_ctx_state(x->ctx, x->rows, x->s.anchors));
}

static setting setting_make(const scene *s, int with_store) {
    setting x = {.s = *s, .grad_bytes = 2 * sizeof(float) * (size_t)(s->batch * s->dim)};
    const glofnd_store_spec spec = {.size = sizeof spec, .n = s->anchors, .dim = s->dim};
    cuda_ok(cudaStreamCreateWithFlags(&x.stream, cudaStreamNonBlocking));
    expect_ok(x.ctx, glofnd_ctx_create(&s->o, &x.ctx, NULL, 0));
    expect_ok(x.ctx, glofnd_ctx_stream(x.ctx, x.stream));
    if (with_store) expect_ok(x.ctx, glofnd_store_create(x.ctx, &spec, &x.store));
    else give_rows(&x);
    scene_draw(s, 0, &x.b);
    x.q = on_device_batch(&x.copies, &x.b.q);
    x.grad = on_device_take(&x.copies, NULL, x.grad_bytes);
    x.scalars = on_device_take(&x.copies, NULL, 2 * sizeof(float));
    return x;
}

static void setting_free(setting *x) {
    cuda_ok(cudaStreamSynchronize(x->stream));
    on_device_drop(&x->copies);
    scene_batch_free(&x->b);
    glofnd_store_free(x->store);
    glofnd_ctx_free(x->ctx);
    cuda_ok(cudaStreamDestroy(x->stream));
}

static void queue_step(setting *x) {
    expect_ok(x->ctx, glofnd_step(x->ctx, x->store, &x->q, x->grad, x->grad + x->s.batch * x->s.dim, NULL));
}

static glofnd_status queue_loss(setting *x) { return glofnd_ctx_loss(x->ctx, x->scalars, x->scalars + 1); }

static void *fetch(const setting *x, const void *from, size_t bytes) {
    void *to = calloc(1, bytes);
    if (!to) abort();
    cuda_ok(cudaStreamSynchronize(x->stream));
    on_device_fetch(to, from, bytes);
    return to;
}

static void expect_same_memory(const setting *x, const void *a, const setting *y, const void *b, size_t bytes) {
    void *here = fetch(x, a, bytes), *there = fetch(y, b, bytes);
    if (memcmp(here, there, bytes) != 0)
        fail_msg("%lld rows of %lld numbers: bits differ", (long long)x->s.batch, (long long)x->s.dim);
    free(here), free(there);
}

static glofnd_anchor *rows_of_store(const setting *x) {
    const int64_t n = x->s.anchors;
    glofnd_anchor *rows = calloc((size_t)(2 * (n + 1)), sizeof *rows);
    if (!rows) abort();
    for (int side = 0; side < (scene_two_views(&x->s) ? 1 : 2); side++) {
        read_rows(&(runner){x->ctx, x->store}, side, n, rows + side * (n + 1));
        expect_ok(x->ctx, glofnd_anchors_get(x->ctx, x->store, side, &(int64_t){GLOFND_SHARED}, 1, rows + side * (n + 1) + n));
    }
    return rows;
}

/* The kernels of small and of large batches, and those that move lambda in the pass that sums. */
TEST(large_batches_have_the_bits_of_a_store) {
    const scene scenes[] = {large(LOSS_SOGCLR, GLOFND_MATH_SPLIT, 300, 96), large(LOSS_CLIP, GLOFND_MATH_BF16, 700, 128),
                            large(LOSS_SOGCLR2, GLOFND_MATH_BF16, 4200, 128), large(LOSS_SIMCLR, GLOFND_MATH_BF16, 4200, 512)};
    for (size_t k = 0; k < sizeof scenes / sizeof *scenes; k++) {
        setting x = setting_make(&scenes[k], 0), y = setting_make(&scenes[k], 1);
        for (int step = 0; step < 3; step++) {
            queue_step(&x), queue_step(&y);
            expect_ok(x.ctx, queue_loss(&x)), expect_ok(y.ctx, queue_loss(&y));
            expect_same_memory(&x, x.scalars, &y, y.scalars, 2 * sizeof(float));
            expect_same_memory(&x, x.grad, &y, y.grad, x.grad_bytes);
        }
        glofnd_anchor *got = fetch(&x, x.rows, x.rows_bytes), *want = rows_of_store(&y);
        assert_memory_equal(got, want, x.rows_bytes);
        free(got), free(want);
        setting_free(&x), setting_free(&y);
    }
}

static cudaGraphExec_t capture(setting *x) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    expect_ok(x->ctx, glofnd_ctx_reserve(x->ctx, x->s.batch, x->s.batch, x->s.dim, NULL));
    cuda_ok(cudaStreamBeginCapture(x->stream, cudaStreamCaptureModeThreadLocal));
    queue_step(x);
    expect_ok(x->ctx, queue_loss(x));
    cuda_ok(cudaStreamEndCapture(x->stream, &graph));
    cuda_ok(cudaGraphInstantiate(&exec, graph, 0));
    cuda_ok(cudaGraphDestroy(graph));
    return exec;
}

/* A step of the same context in a larger batch, whose workspace the graph does not fit. */
static void larger_step(setting *x) {
    scene s = x->s;
    s.batch = 3 * x->s.batch, s.anchors = 3 * x->s.anchors;
    setting y = setting_make(&s, 0);
    expect_ok(x->ctx, glofnd_ctx_state(x->ctx, y.rows, s.anchors));
    expect_ok(x->ctx, glofnd_step(x->ctx, NULL, &y.q, y.grad, y.grad + s.batch * s.dim, NULL));
    cuda_ok(cudaStreamSynchronize(x->stream));
    setting_free(&y);
}

TEST(a_graph_holds_steps_on_rows) {
    const scene s = large(LOSS_CLIP, GLOFND_MATH_BF16, 300, 128);
    setting x = setting_make(&s, 0), y = setting_make(&s, 0);
    const cudaGraphExec_t exec = capture(&x);
    for (int step = 0; step < 4; step++) {
        if (step == 2) larger_step(&x);
        cuda_ok(cudaGraphLaunch(exec, x.stream));
        queue_step(&y);
        expect_ok(y.ctx, queue_loss(&y));
        expect_same_memory(&x, x.scalars, &y, y.scalars, 2 * sizeof(float));
        expect_same_memory(&x, x.grad, &y, y.grad, x.grad_bytes);
        expect_same_memory(&x, x.rows, &y, y.rows, x.rows_bytes);
    }
    cuda_ok(cudaGraphExecDestroy(exec));
    setting_free(&x), setting_free(&y);
}

static float fetch_loss(const setting *x) {
    float *loss = fetch(x, x->scalars, sizeof *loss), value = *loss;
    free(loss);
    return value;
}

/* A step that fails and one behind it change no row, and their loss is NaN. One of the next calls reports it. */
static void expect_noticed(setting *x, glofnd_status want, void (*mend)(setting *x)) {
    glofnd_anchor *before = fetch(x, x->rows, x->rows_bytes), *after;
    glofnd_status status = GLOFND_OK, found;
    for (int step = 0; step < 2; step++) {
        queue_step(x);
        if ((found = queue_loss(x)) != GLOFND_OK) status = found; /* mostly too early to know */
    }
    assert_true(isnan(fetch_loss(x)));
    after = fetch(x, x->rows, x->rows_bytes);
    assert_memory_equal(after, before, x->rows_bytes);
    while ((found = glofnd_ctx_loss(x->ctx, NULL, NULL)) != GLOFND_OK) status = found;
    assert_int_equal(status, want);
    mend(x);
    queue_step(x);
    expect_ok(x->ctx, queue_loss(x));
    assert_false(isnan(fetch_loss(x)));
    free(before), free(after);
}

static void set_id(setting *x, int64_t id) {
    cuda_ok(cudaMemcpy((int64_t *)(uintptr_t)x->q.id + 3, &id, sizeof id, cudaMemcpyHostToDevice));
    cuda_ok(cudaDeviceSynchronize());
}

static void set_row(setting *x, int64_t at, float lambda) {
    const glofnd_anchor row = {.lambda = lambda, .log_u = -INFINITY, .clock = 1};
    cuda_ok(cudaMemcpy(x->rows + at, &row, sizeof row, cudaMemcpyHostToDevice));
    cuda_ok(cudaDeviceSynchronize());
}

static void mend_id(setting *x) { set_id(x, x->b.id[3]); }
static void mend_row(setting *x) { set_row(x, x->s.anchors + 1 + x->b.id[3], 0.5f); }
static void mend_shared(setting *x) { set_row(x, x->s.anchors, 0.5f); }

TEST(failures_change_no_row) {
    const scene s = large(LOSS_CLIP, GLOFND_MATH_SPLIT, 300, 32);
    setting x = setting_make(&s, 0);
    set_id(&x, s.anchors); /* the place of the shared row */
    expect_noticed(&x, GLOFND_E_INDEX, mend_id);
    set_row(&x, s.anchors + 1 + x.b.id[3], NAN);
    expect_noticed(&x, GLOFND_E_NUMERIC, mend_row);
    set_row(&x, s.anchors, 1.5f);
    expect_noticed(&x, GLOFND_E_ARGUMENT, mend_shared);
    setting_free(&x);
}

TEST_NEEDS(no_cuda_device)
