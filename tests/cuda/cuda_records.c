/* cuda_records.c - state as bytes on the device: queued between steps, for positions and keys, with averages; and sums over ranks that
 * only queue: a step of several ranks waits for nothing and gives the bits of one that sums on the host. */
#include "support/test.h"

#include "support/cuda_main.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/losses.h"
#include "support/on_device.h"

enum { BATCH = 300, DIM = 64, ANCHORS = 2 * BATCH };

static void cuda_ok(cudaError_t e) {
    if (e != cudaSuccess) fail_msg("CUDA: %s", cudaGetErrorString(e));
}

typedef struct setting {
    scene s;
    glofnd_ctx *ctx;
    glofnd_store *store;
    cudaStream_t stream;
    scene_batch b;
    on_device_copies copies;
    glofnd_batch q; /* its arrays are on the device */
    float *grad;
    void *links;
} setting;

static setting open_setting(int keyed, int bank) {
    setting x = {.s = scene_make("records", LOSS_SOGCLR)};
    x.s.batch = BATCH, x.s.dim = DIM, x.s.anchors = ANCHORS;
    x.s.o.device = GLOFND_DEVICE_CUDA, x.s.o.update_epoch = x.s.o.mask_epoch = 0;
    if (bank) x.s.o.similarity = GLOFND_SIMILARITY_BANK;
    const glofnd_store_spec spec = {.size = sizeof spec, .n = keyed ? 0 : ANCHORS, .dim = DIM, .keyed = keyed};
    expect_ok(x.ctx, glofnd_ctx_create(&x.s.o, &x.ctx, NULL, 0));
    cuda_ok(cudaStreamCreate(&x.stream));
    expect_ok(x.ctx, glofnd_ctx_stream(x.ctx, x.stream));
    expect_ok(x.ctx, glofnd_store_create(x.ctx, &spec, &x.store));
    scene_draw(&x.s, 0, &x.b);
    const size_t rows = sizeof(float) * BATCH * DIM;
    x.q = (glofnd_batch){.size = sizeof x.q, .n = BATCH, .dim = DIM};
    x.q.a = on_device_take(&x.copies, x.b.a, rows);
    x.q.b = on_device_take(&x.copies, x.b.b, rows);
    x.q.id = on_device_take(&x.copies, x.b.id, sizeof(int64_t) * BATCH);
    x.grad = on_device_take(&x.copies, NULL, 2 * rows);
    x.links = on_device_take(&x.copies, NULL, BATCH * GLOFND_LINK_BYTES);
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

/* ----- records ----- */

/* A step, then its state to a second store, and back to the host: rows of both stores are equal. No call waits. */
TEST(queued_records_carry_a_step) {
    for (int kind = 0; kind < 4; kind++) {
        setting x = open_setting(kind & 1, kind >> 1), y = open_setting(kind & 1, kind >> 1);
        glofnd_store_info info = {.size = sizeof info};
        glofnd_anchor a[BATCH], b[BATCH];
        int64_t keys = -1;
        expect_ok(x.ctx, glofnd_store_describe(x.store, &info));
        expect_ok(x.ctx, glofnd_step(x.ctx, x.store, &x.q, x.grad, x.grad + BATCH * DIM, NULL));
        void *records = on_device_take(&x.copies, NULL, BATCH * info.row_bytes);
        expect_ok(y.ctx, glofnd_ctx_stream(y.ctx, x.stream)); /* one after the other */
        expect_ok(x.ctx, glofnd_records_get(x.ctx, x.store, x.q.id, BATCH, records));
        for (int twice = 0; twice < 2; twice++) expect_ok(y.ctx, glofnd_records_put(y.ctx, y.store, x.q.id, BATCH, records));
        expect_ok(x.ctx, glofnd_anchors_get(x.ctx, x.store, 0, x.b.id, BATCH, a));
        expect_ok(y.ctx, glofnd_anchors_get(y.ctx, y.store, 0, x.b.id, BATCH, b));
        assert_memory_equal(a, b, sizeof a);
        assert_true(a[0].log_u > -1e30f);
        if (kind & 1) expect_ok(y.ctx, glofnd_store_keys(y.ctx, y.store, NULL, 0, &keys));
        if (kind & 1) assert_int_equal(keys, BATCH);
        if (kind >> 1) {
            uint16_t p[BATCH][DIM], q[BATCH][DIM];
            expect_ok(x.ctx, glofnd_bank_get(x.ctx, x.store, 0, x.b.id, BATCH, p));
            expect_ok(y.ctx, glofnd_bank_get(y.ctx, y.store, 0, x.b.id, BATCH, q));
            assert_memory_equal(p, q, sizeof p);
        }
        expect_ok(y.ctx, glofnd_ctx_stream(y.ctx, y.stream));
        close_setting(&y), close_setting(&x);
    }
}

/* Ids that a store does not have change nothing and read as zeros; keys without state stay outside. */
TEST(ids_of_nobody_are_passed_over) {
    for (int keyed = 0; keyed < 2; keyed++) {
        setting x = open_setting(keyed, 0);
        glofnd_store_info info = {.size = sizeof info};
        int64_t keys = 0;
        const int64_t id[] = {-1, ANCHORS, INT64_MAX, INT64_MIN};
        const int64_t *there = on_device_take(&x.copies, id, sizeof id);
        unsigned char record[4][64];
        expect_ok(x.ctx, glofnd_store_describe(x.store, &info));
        void *records = on_device_take(&x.copies, NULL, sizeof record);
        cuda_ok(cudaMemset(records, keyed ? 0 : 5, sizeof record));
        expect_ok(x.ctx, glofnd_records_put(x.ctx, x.store, there, 4, records));
        cuda_ok(cudaMemset(records, 5, sizeof record));
        cuda_ok(cudaDeviceSynchronize());
        expect_ok(x.ctx, glofnd_records_get(x.ctx, x.store, there, 4, records));
        cuda_ok(cudaStreamSynchronize(x.stream));
        on_device_fetch(record, records, sizeof record);
        for (size_t i = 0; i < 4 * info.row_bytes; i++) assert_int_equal(((unsigned char *)record)[i], 0);
        if (keyed) expect_ok(x.ctx, glofnd_store_keys(x.ctx, x.store, NULL, 0, &keys));
        assert_int_equal(keys, 0);
        close_setting(&x);
    }
}

/* ----- sums that only queue ----- */

static int calls[2]; /* on the host, queued */

static int sum_here(void *user, double *x, int n) {
    (void)user, (void)x, (void)n;
    calls[0]++;
    return 0;
}

static int sum_there(void *user, double *x, int n) {
    (void)user, (void)n;
    calls[1]++;
    struct cudaPointerAttributes at;
    return cudaPointerGetAttributes(&at, x) != cudaSuccess || at.type != cudaMemoryTypeDevice;
}

/* The two halves of a step as a rank makes them; alone, so that a sum changes nothing. */
static void step_in_halves(setting *x) {
    const glofnd_own_rows own = {.size = sizeof own, .rows = BATCH};
    expect_ok(x->ctx, glofnd_step_rows(x->ctx, x->store, &x->q, &own, x->links, NULL));
    expect_ok(x->ctx, glofnd_step_grad(x->ctx, &x->q, &own, x->links, x->grad, x->grad + BATCH * DIM, NULL));
}

TEST(queued_sums_give_the_bits_of_sums_on_the_host) {
    for (int learner = GLOFND_LEARN_ADAM; learner <= GLOFND_LEARN_SHRINKAGE; learner++)
        for (int detector = 0; detector < 2; detector++) {
            setting x[2] = {open_setting(0, 0), open_setting(0, 0)};
            float grad[2][2 * BATCH * DIM];
            glofnd_anchor row[2][BATCH];
            if (learner == GLOFND_LEARN_RING) {
                close_setting(&x[0]), close_setting(&x[1]);
                continue;
            }
            for (int i = 0; i < 2; i++) {
                x[i].s.o.learner = (glofnd_learner)learner;
                if (learner == GLOFND_LEARN_SHRINKAGE) x[i].s.o.lambda_init = GLOFND_INIT_AUTO;
                x[i].s.o.detector = detector ? GLOFND_DETECT_SINGLE : GLOFND_DETECT_GLOFND;
                expect_ok(x[i].ctx, glofnd_ctx_configure(x[i].ctx, &x[i].s.o));
                expect_ok(x[i].ctx, glofnd_ctx_reduce(x[i].ctx, sum_here, NULL));
                if (i == 1) expect_ok(x[i].ctx, glofnd_ctx_reduce_queued(x[i].ctx, sum_there, NULL));
                for (int step = 0; step < 4; step++) step_in_halves(&x[i]);
                calls[0] = calls[1] = 0;
                step_in_halves(&x[i]); /* the shared row is there */
                if (i == 1) assert_int_equal(calls[0], 0);
                if (i == 0) assert_int_equal(calls[1], 0);
                cuda_ok(cudaStreamSynchronize(x[i].stream));
                on_device_fetch(grad[i], x[i].grad, sizeof grad[i]);
                expect_ok(x[i].ctx, glofnd_anchors_get(x[i].ctx, x[i].store, 0, x[i].b.id, BATCH, row[i]));
            }
            if (learner == GLOFND_LEARN_SHRINKAGE) assert_true(calls[1] > 0);
            assert_memory_equal(grad[0], grad[1], sizeof grad[0]);
            assert_memory_equal(row[0], row[1], sizeof row[0]);
            close_setting(&x[0]), close_setting(&x[1]);
        }
}

TEST_NEEDS(no_cuda_device)
