/* cuda_keys.c - a store of keys on the device: steps that wait for nothing bring new keys, the table grows between them, a captured
 * graph cannot grow it, and state goes to the CPU and back. unit_keys.c has the rest; it runs on the GPU, too. */
#include "support/test.h"

#include "support/cuda_main.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/compare.h"
#include "support/losses.h"
#include "support/on_device.h"

enum { BATCH = 300, DIM = 64 };

static void cuda_ok(cudaError_t e) {
    if (e != cudaSuccess) fail_msg("CUDA: %s", cudaGetErrorString(e));
}

typedef struct setting {
    glofnd_ctx *ctx;
    glofnd_store *store;
    cudaStream_t stream;
    scene_batch b;
    on_device_copies copies;
    glofnd_batch q; /* its arrays are on the device; ids in `id` */
    int64_t *id;
    float *grad;
} setting;

static setting open_setting(int64_t keys) {
    setting x = {0};
    scene s = scene_make("keys", LOSS_SOGCLR);
    const glofnd_store_spec spec = {.size = sizeof spec, .n = keys, .keyed = 1};
    s.batch = BATCH, s.dim = DIM, s.anchors = BATCH + 10;
    s.o.device = GLOFND_DEVICE_CUDA, s.o.update_epoch = s.o.mask_epoch = 0;
    expect_ok(x.ctx, glofnd_ctx_create(&s.o, &x.ctx, NULL, 0));
    cuda_ok(cudaStreamCreate(&x.stream));
    expect_ok(x.ctx, glofnd_ctx_stream(x.ctx, x.stream));
    expect_ok(x.ctx, glofnd_store_create(x.ctx, &spec, &x.store));
    scene_draw(&s, 0, &x.b);
    const size_t rows = sizeof(float) * BATCH * DIM;
    x.q = (glofnd_batch){.size = sizeof x.q, .n = BATCH, .dim = DIM};
    x.q.a = on_device_take(&x.copies, x.b.a, rows);
    x.q.b = on_device_take(&x.copies, x.b.b, rows);
    x.q.id = x.id = on_device_take(&x.copies, NULL, sizeof(int64_t) * BATCH);
    x.grad = on_device_take(&x.copies, NULL, 2 * rows);
    expect_ok(x.ctx, glofnd_ctx_reserve(x.ctx, BATCH, BATCH, DIM, NULL));
    return x;
}

static void close_setting(setting *x) {
    cuda_ok(cudaStreamSynchronize(x->stream));
    glofnd_store_free(x->store);
    on_device_drop(&x->copies);
    scene_batch_free(&x->b);
    glofnd_ctx_free(x->ctx);
    cuda_ok(cudaStreamDestroy(x->stream));
}

/* Keys first, first - 1, ... of the batch; 0 is one of them. */
static void set_keys(setting *x, int64_t first) {
    int64_t id[BATCH];
    for (int i = 0; i < BATCH; i++) id[i] = first - i;
    cuda_ok(cudaStreamSynchronize(x->stream));
    cuda_ok(cudaMemcpy(x->id, id, sizeof id, cudaMemcpyHostToDevice));
    cuda_ok(cudaDeviceSynchronize());
}

static glofnd_status queue(setting *x) { return glofnd_step(x->ctx, x->store, &x->q, x->grad, x->grad + BATCH * DIM, NULL); }

static int64_t keys_of(setting *x) {
    int64_t n = -1;
    expect_ok(x->ctx, glofnd_store_keys(x->ctx, x->store, NULL, 0, &n));
    return n;
}

static glofnd_status settle(setting *x) {
    glofnd_stats stats = {.size = sizeof stats};
    return glofnd_ctx_stats(x->ctx, &stats);
}

TEST(queued_steps_grow_the_store) {
    setting x = open_setting(0);
    for (int step = 0; step < 20; step++) {
        set_keys(&x, 1000 - 250 * step);
        expect_ok(x.ctx, queue(&x));
    }
    expect_ok(x.ctx, settle(&x));
    assert_int_equal(keys_of(&x), 19 * 250 + BATCH);
    int64_t *key = malloc(sizeof *key * 6000), n = 0;
    glofnd_anchor *row = malloc(sizeof *row * 6000);
    expect_ok(x.ctx, glofnd_store_keys(x.ctx, x.store, key, 6000, &n));
    for (int64_t i = 0; i < n; i++) assert_int_equal(key[i], 1000 - n + 1 + i);
    expect_ok(x.ctx, glofnd_anchors_get(x.ctx, x.store, 0, key, n, row));
    for (int64_t i = 0; i < n; i++) assert_true(isfinite(row[i].log_u));
    free(key);
    free(row);
    close_setting(&x);
}

TEST(a_graph_takes_keys_as_long_as_there_is_room) {
    setting x = open_setting(700);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    set_keys(&x, 0);
    cuda_ok(cudaStreamBeginCapture(x.stream, cudaStreamCaptureModeThreadLocal));
    expect_ok(x.ctx, queue(&x));
    cuda_ok(cudaStreamEndCapture(x.stream, &graph));
    cuda_ok(cudaGraphInstantiate(&exec, graph, 0));
    for (int step = 0; step < 2; step++) {
        set_keys(&x, 1000 * step);
        cuda_ok(cudaGraphLaunch(exec, x.stream));
    }
    cuda_ok(cudaStreamSynchronize(x.stream));
    expect_ok(x.ctx, settle(&x));
    assert_int_equal(keys_of(&x), 2 * BATCH);
    set_keys(&x, 2000); /* 900 of 716 */
    cuda_ok(cudaGraphLaunch(exec, x.stream));
    cuda_ok(cudaStreamSynchronize(x.stream));
    assert_int_equal(settle(&x), GLOFND_E_MEMORY);
    assert_non_null(strstr(glofnd_ctx_error(x.ctx), "glofnd_store_reserve"));
    assert_int_equal(keys_of(&x), 2 * BATCH); /* none of them has state */
    assert_int_equal(glofnd_store_reserve(x.ctx, x.store, 5000), GLOFND_E_MEMORY);
    set_keys(&x, 1000);
    cuda_ok(cudaGraphLaunch(exec, x.stream));
    cuda_ok(cudaStreamSynchronize(x.stream));
    expect_ok(x.ctx, settle(&x)); /* known keys still have their rows */
    cuda_ok(cudaGraphExecDestroy(exec));
    cuda_ok(cudaGraphDestroy(graph));
    close_setting(&x);
}

TEST(equal_keys_are_refused) {
    setting x = open_setting(0);
    const int64_t twice[] = {-1, 0, INT64_MIN, 77};
    for (size_t k = 0; k < sizeof twice / sizeof *twice; k++) {
        set_keys(&x, 1000000);
        const int64_t id[2] = {twice[k], twice[k]};
        cuda_ok(cudaMemcpy(x.id + 10, id, sizeof id, cudaMemcpyHostToDevice));
        cuda_ok(cudaDeviceSynchronize());
        expect_ok(x.ctx, queue(&x));
        assert_int_equal(settle(&x), GLOFND_E_INDEX);
        assert_int_equal(keys_of(&x), 0);
    }
    set_keys(&x, 5); /* -1 and 0 once */
    expect_ok(x.ctx, queue(&x));
    expect_ok(x.ctx, settle(&x));
    assert_int_equal(keys_of(&x), BATCH);
    close_setting(&x);
}

TEST(state_goes_to_the_cpu_and_back) {
    setting x = open_setting(0);
    char path[64], other[80];
    snprintf(path, sizeof path, "/tmp/glofnd-keys-%ld", (long)getpid());
    snprintf(other, sizeof other, "%s-b", path);
    for (int step = 0; step < 6; step++) {
        set_keys(&x, 400 * step);
        expect_ok(x.ctx, queue(&x));
    }
    expect_ok(x.ctx, glofnd_store_save(x.ctx, x.store, path));
    glofnd_options o;
    glofnd_ctx *cpu = NULL;
    glofnd_store *there = NULL, *back = NULL;
    gf_method_options_init(&o);
    expect_ok(cpu, glofnd_ctx_create(&o, &cpu, NULL, 0));
    expect_ok(cpu, glofnd_store_load(cpu, path, NULL, &there));
    expect_ok(cpu, glofnd_store_save(cpu, there, other));
    expect_ok(x.ctx, glofnd_store_load(x.ctx, other, NULL, &back));
    expect_ok(x.ctx, glofnd_store_save(x.ctx, back, other));
    FILE *a = fopen(path, "rb"), *b = fopen(other, "rb");
    assert_true(a && b);
    for (int c = fgetc(a);; c = fgetc(a)) {
        assert_int_equal(c, fgetc(b));
        if (c == EOF) break;
    }
    fclose(a), fclose(b);
    unlink(path), unlink(other);
    glofnd_store_free(there);
    glofnd_store_free(back);
    glofnd_ctx_free(cpu);
    close_setting(&x);
}

TEST_NEEDS(no_cuda_device)
