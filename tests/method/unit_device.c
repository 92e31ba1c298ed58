/* unit_device.c - what the library does itself where a context is for a device, on one that is made up here: it computes nothing,
 * and notes what it is asked. */
#include "support/test.h"

#include "method/step.h"
#include "support/plain_thresholds.h"
#include "support/trial.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANCHORS = 6, BATCH = 4, DIM = 2 };

struct gf_device_store {
    gf_record record[ANCHORS];
    gf_device_state state;
};

static int masks, thresholds;           /* calls */
static atomic_int readers, max_readers; /* of the host's copy, at the same time */

/* ---- the device ---- */

static glofnd_status do_step(gf_error *err, gf_device_ctx *d, const gf_device_step *x) {
    (void)err, (void)d, (void)x;
    return GLOFND_OK;
}

static glofnd_status do_mask(gf_error *err, gf_device_ctx *d, const gf_device_step *x) {
    (void)err, (void)d;
    masks++;
    assert_int_equal(x->plan->cols, BATCH);
    assert_non_null(x->keep);
    return GLOFND_OK;
}

static glofnd_status totals(gf_error *err, gf_device_ctx *d, gf_totals *sum) {
    (void)err, (void)d;
    *sum = (gf_totals){.loss = 8, .lambda = 2, .precision = 1, .recall = 2};
    return GLOFND_OK;
}

static glofnd_status do_thresholds(gf_error *err, gf_device_ctx *d, const gf_device_thresholds *x) {
    (void)err, (void)d, (void)x;
    thresholds++;
    return GLOFND_OK;
}

static glofnd_status copy(gf_error *err, gf_device_ctx *d, void *to, const void *from, size_t bytes) {
    (void)err, (void)d;
    memcpy(to, from, bytes);
    return GLOFND_OK;
}

static void close_context(gf_device_ctx *d) { (void)d; }

/* A slow writer of the copy on the host. */
static void note_reader(void) {
    const int now = atomic_fetch_add(&readers, 1) + 1;
    if (now > atomic_load(&max_readers)) atomic_store(&max_readers, now);
    usleep(1000);
    atomic_fetch_sub(&readers, 1);
}

static glofnd_status open_store(gf_error *err, gf_device_ctx *d, const gf_store_spec *spec, size_t bytes, gf_device_store **out) {
    (void)err, (void)d;
    assert_int_equal(spec->n, ANCHORS);
    assert_int_equal(bytes, sizeof(gf_record));
    *out = calloc(1, sizeof **out);
    return GLOFND_OK;
}

static void close_store(gf_device_store *s) { free(s); }

static glofnd_status touched(gf_error *err, gf_device_store *s, uint8_t *blocks) {
    (void)err, (void)s;
    note_reader();
    blocks[0] = 1;
    return GLOFND_OK;
}

static glofnd_status range(gf_error *err, gf_device_store *s, int put, int64_t first, int64_t count, void *records) {
    const size_t bytes = (size_t)count * sizeof *s->record;
    (void)err;
    memcpy(put ? (void *)(s->record + first) : records, put ? records : s->record + first, bytes);
    return GLOFND_OK;
}

static glofnd_status move_rows(gf_error *err, gf_device_store *s, int put, const int64_t *id, int64_t n, void *records) {
    gf_record *at = records;
    (void)err;
    note_reader();
    for (int64_t i = 0; i < n; i++) memcpy(put ? &s->record[id[i]] : &at[i], put ? &at[i] : &s->record[id[i]], sizeof *at);
    return GLOFND_OK;
}

static glofnd_status move_state(gf_error *err, gf_device_store *s, int put, gf_device_state *state) {
    (void)err;
    *(put ? &s->state : state) = put ? *state : s->state;
    return GLOFND_OK;
}

static const gf_device DEVICE = {.name = "nothing",
                                 .close = close_context,
                                 .copy = copy,
                                 .step = do_step,
                                 .rows = do_step,
                                 .grad = do_step,
                                 .mask = do_mask,
                                 .totals = totals,
                                 .thresholds = do_thresholds,
                                 .store_open = open_store,
                                 .store_close = close_store,
                                 .store_touched = touched,
                                 .store_range = range,
                                 .store_rows = move_rows,
                                 .store_state = move_state};

/* ---- a context on it ---- */

static glofnd_ctx *make_context(void) {
    glofnd_options o;
    glofnd_ctx *c = NULL;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    assert_int_equal(glofnd_ctx_create(&o, &c, NULL, 0), GLOFND_OK);
    c->device = &DEVICE;
    return c;
}

static glofnd_store *make_store(glofnd_ctx *c) {
    const glofnd_store_spec spec = {.size = sizeof spec, .n = ANCHORS};
    glofnd_store *s = NULL;
    assert_int_equal(glofnd_store_create(c, &spec, &s), GLOFND_OK);
    return s;
}

/* ---- tests ---- */

/* Looking at a mask between the halves of a step, or after it, leaves the step's stats. */
TEST(a_mask_is_no_step) {
    static const float h[BATCH * DIM];
    static const int64_t id[BATCH] = {0, 1, 2, 3};
    static const int32_t label[BATCH];
    glofnd_ctx *c = make_context();
    glofnd_store *s = make_store(c);
    gf_link links[2 * BATCH] = {{0}};
    float grad[BATCH * DIM];
    uint8_t keep[BATCH * 4 * BATCH];
    glofnd_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    const glofnd_batch q = {.size = sizeof q,
                            .n = BATCH,
                            .dim = DIM,
                            .a = h,
                            .b = h,
                            .id = id,
                            .label = label,
                            .epoch = 500,
                            .want = GLOFND_WANT_QUALITY};
    glofnd_batch other = q;
    other.want = 0, other.epoch = 0;
    assert_int_equal(glofnd_step_mask(c, &other, NULL, links, keep), GLOFND_OK);
    assert_int_equal(glofnd_ctx_stats(c, &after), GLOFND_E_ARGUMENT); /* still none */
    assert_int_equal(glofnd_step_rows(c, s, &q, NULL, links, &before), GLOFND_OK);
    assert_int_equal(glofnd_step_mask(c, &other, NULL, links, keep), GLOFND_OK);
    assert_int_equal(glofnd_ctx_stats(c, &after), GLOFND_OK);
    assert_memory_equal(&before, &after, sizeof after);
    assert_int_equal(glofnd_step_grad(c, &q, NULL, links, grad, grad, NULL), GLOFND_OK);
    assert_int_equal(glofnd_ctx_stats(c, &before), GLOFND_OK);
    assert_int_equal(glofnd_step_mask(c, &other, NULL, links, keep), GLOFND_OK);
    assert_int_equal(glofnd_ctx_stats(c, &after), GLOFND_OK);
    assert_true(after.precision_per_anchor == 0.25);
    assert_memory_equal(&before, &after, sizeof after);
    assert_int_equal(masks, 3);
    glofnd_store_free(s);
    glofnd_ctx_free(c);
}

/* As on the CPU; nothing is computed for it. */
TEST(columns_to_skip_are_checked) {
    static const float h[BATCH * DIM] = {1, 0, 1, 0, 1, 0, 1, 0};
    glofnd_ctx *c = make_context();
    float out[BATCH];
    int64_t skip[BATCH] = {0, 1, -1, BATCH};
    assert_int_equal(plain_thresholds(c, h, BATCH, h, BATCH, DIM, skip, 0.5, out), GLOFND_E_INDEX);
    assert_non_null(strstr(glofnd_ctx_error(c), "skip[3] is 4"));
    assert_int_equal(thresholds, 0);
    skip[3] = 3;
    assert_int_equal(plain_thresholds(c, h, BATCH, h, BATCH, DIM, skip, 0.5, out), GLOFND_OK);
    assert_int_equal(plain_thresholds(c, h, BATCH, h, BATCH, DIM, NULL, 0.5, out), GLOFND_OK);
    assert_int_equal(thresholds, 2);
    glofnd_ctx_free(c);
}

typedef struct reader {
    const glofnd_store *s;
    char path[64];
    int bad;
} reader;

static void *read_store(void *argument) {
    static const float sim[4] = {0, 0.5f, 0.5f, 0};
    reader *x = argument;
    glofnd_ctx *c = make_context();
    for (int i = 0; i < 10; i++) {
        glofnd_store_info info = {.size = sizeof info};
        uint8_t keep[4];
        const int64_t id[2] = {i % ANCHORS, (i + 1) % ANCHORS};
        const glofnd_sims q = {.size = sizeof q, .views = 1, .rows = 2, .cols = 2, .sim = sim, .id = id, .epoch = 500};
        x->bad += glofnd_store_describe(x->s, &info) != GLOFND_OK || info.touched_rows != ANCHORS;
        x->bad += glofnd_detect_mask(c, x->s, &q, keep, NULL) != GLOFND_OK;
        x->bad += glofnd_store_save(c, x->s, x->path) != GLOFND_OK;
    }
    glofnd_ctx_free(c);
    return NULL;
}

/* Each on its own context; what they gather on the host is one thread's at a time, and so all save the same. */
TEST(many_may_read_a_store) {
    enum { READERS = 4 };
    pthread_t thread[READERS];
    reader x[READERS];
    glofnd_ctx *c = make_context();
    glofnd_store *s = make_store(c);
    for (int i = 0; i < READERS; i++) {
        x[i] = (reader){.s = s};
        snprintf(x[i].path, sizeof x[i].path, "%d", i);
        assert_int_equal(pthread_create(&thread[i], NULL, read_store, &x[i]), 0);
    }
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(unlink(x[i].path), 0);
        assert_int_equal(x[i].bad, 0);
    }
    assert_int_equal(atomic_load(&max_readers), 1);
    glofnd_store_free(s);
    glofnd_ctx_free(c);
}

TEST_GROUP(trial_enter, trial_leave)
