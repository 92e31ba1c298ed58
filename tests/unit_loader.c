/* unit_loader.c - batches from worker threads: the same for any number of workers, from any step, with damaged samples in
 * between; errors arrive, and a loader can be freed at any moment. Data are drawn shapes; a kind around them damages chosen
 * samples.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/kind.h"
#include "data/loader.h"

enum { N = 61, BATCH = 8, STEPS = N / BATCH, SIZE = 16, IMAGE = SIZE * SIZE * 3, SEED = 9 };

/* ----- Data that can be damaged ----- */

enum { SOUND, DAMAGED, BROKEN_DISK, NO_MEMORY };
static struct flaky {
    const gf_kind *inner;
    char state[N];
    int nap;                    /* microseconds a read takes longer */
    atomic_int reads;
} flaky;

static glofnd_status flaky_read(gf_error *err, const gf_dataset *d, int64_t i, const gf_wish *wish, gf_sample *out) {
    flaky.reads++;
    if (flaky.nap) usleep((useconds_t)flaky.nap);
    FAIL_IF(err, flaky.state[i] == DAMAGED, GLOFND_E_FORMAT, "sample %lld is damaged", (long long)i);
    FAIL_IF(err, flaky.state[i] == BROKEN_DISK, GLOFND_E_IO, "sample %lld cannot be read", (long long)i);
    FAIL_IF(err, flaky.state[i] == NO_MEMORY, GLOFND_E_MEMORY, "no memory for sample %lld", (long long)i);
    return flaky.inner->read(err, d, i, wish, out);
}

static gf_dataset *shapes, data;        /* the second is the first with another kind */
static gf_kind kind;

static int open_data(void **state) {
    (void)state;
    gf_error err = {""};
    if (gf_dataset_open(&err, "shapes:n=61,classes=5,size=20,seed=3", &shapes) != GLOFND_OK) fail_msg("%s", err.text);
    flaky.inner = shapes->kind;
    kind = *shapes->kind;
    kind.read = flaky_read;
    data = *shapes;
    data.kind = &kind;
    return 0;
}

static int close_data(void **state) {
    (void)state;
    gf_dataset_free(shapes);
    return 0;
}

static int all_sound(void **state) {
    (void)state;
    memset(flaky.state, SOUND, sizeof flaky.state);
    flaky.nap = 0;
    return 0;
}

/* ----- Short words ----- */

typedef struct reports {        /* what the loader says about damaged samples */
    int64_t id[1000];
    int n;
} reports;

static void report(void *user, int64_t i, const char *message) {
    reports *r = user;
    char number[32];
    snprintf(number, sizeof number, "sample %lld", (long long)i);
    assert_true(strstr(message, number) && r->n < 1000);
    r->id[r->n++] = i;
}

static gf_loader_spec spec_of(int workers) {
    return (gf_loader_spec){.data = &data, .augment = gf_augment_pretrain(SIZE), .views = 2, .batch = BATCH, .seed = SEED,
                            .workers = workers, .depth = 2};
}

static gf_loader *loader_of(const gf_loader_spec *spec) {
    gf_error err = {""};
    gf_loader *l = NULL;
    if (gf_loader_create(&err, spec, &l) != GLOFND_OK) fail_msg("%s", err.text);
    return l;
}

static gf_batch next(gf_loader *l) {
    gf_error err = {""};
    gf_batch b;
    if (gf_loader_next(&err, l, &b) != GLOFND_OK) fail_msg("%s", err.text);
    return b;
}

static void seek(gf_loader *l, uint32_t epoch, int64_t step) {
    assert_int_equal(gf_loader_seek(NULL, l, epoch, step), GLOFND_OK);
}

static void says(const gf_error *err, const char *word) {
    if (!strstr(err->text, word)) fail_msg("'%s' does not say '%s'", err->text, word);
}

/* The next batch is an error of this status whose text has `word`. */
static void fails(gf_loader *l, glofnd_status status, const char *word) {
    gf_error err = {""};
    assert_int_equal(gf_loader_next(&err, l, &(gf_batch){0}), status);
    says(&err, word);
}

static void add_hash(uint64_t *hash, const void *data_, size_t bytes) {
    const uint8_t *at = data_;
    for (size_t i = 0; i < bytes; i++) *hash = (*hash ^ at[i]) * 0x100000001b3u;
}

/* Everything a batch says, but for its times. */
static uint64_t hash_of(const gf_batch *b) {
    uint64_t hash = 0xcbf29ce484222325u;
    add_hash(&hash, &b->n, sizeof b->n);
    add_hash(&hash, &b->epoch, sizeof b->epoch);
    add_hash(&hash, &b->step, sizeof b->step);
    add_hash(&hash, b->id, (size_t)b->n * sizeof *b->id);
    add_hash(&hash, b->label, (size_t)b->n * sizeof *b->label);
    for (int v = 0; v < 2; v++) {
        if (b->view[v]) add_hash(&hash, b->view[v], (size_t)b->n * IMAGE * sizeof(float));
    }
    return hash;
}

static void hash_batches(const gf_loader_spec *spec, uint64_t *hash, int count) {
    gf_loader *l = loader_of(spec);
    for (int i = 0; i < count; i++) {
        const gf_batch b = next(l);
        hash[i] = hash_of(&b);
    }
    gf_loader_free(l);
}

/* ----- What a batch holds ----- */

static void check_views(const gf_batch *b, int64_t item, int views) {
    const gf_augment a = gf_augment_pretrain(SIZE);
    gf_error err = {""};
    gf_augment_scratch *x = NULL;
    gf_sample sample = {0};
    float expected[IMAGE];
    assert_int_equal(gf_augment_scratch_create(&err, &a, &x), GLOFND_OK);
    assert_int_equal(gf_dataset_read(&err, shapes, b->id[item], 0, &sample), GLOFND_OK);
    for (int v = 0; v < views; v++) {
        gf_rng r = gf_rng_at(SEED, GF_RNG_AUGMENT, b->epoch, (uint64_t)b->id[item], (uint32_t)v);
        const gf_view view = gf_augment_draw(&a, &r, sample.image.width, sample.image.height);
        assert_int_equal(gf_augment_apply(&err, &a, &view, &sample.image, x, expected, NULL), GLOFND_OK);
        assert_memory_equal(b->view[v] + item * IMAGE, expected, sizeof expected);
    }
    gf_sample_free(&sample);
    gf_augment_scratch_free(x);
}

static void check_shuffled(int views) {
    gf_loader_spec spec = spec_of(2);
    spec.views = views;
    gf_loader *l = loader_of(&spec);
    assert_int_equal(gf_loader_steps(l), STEPS);
    for (int i = 0; i < 2 * STEPS + 1; i++) {
        const gf_batch b = next(l);
        assert_int_equal(b.n, BATCH);
        assert_int_equal(b.epoch, i / STEPS);
        assert_int_equal(b.step, i % STEPS);
        assert_true((b.view[1] != NULL) == (views == 2));
        assert_true(b.read_seconds >= 0 && b.augment_seconds > 0);
        for (int64_t k = 0; k < b.n; k++) {
            assert_int_equal(b.id[k], gf_permute(SEED, b.epoch, N, b.step * BATCH + k));
            assert_int_equal(b.label[k], gf_dataset_label(shapes, b.id[k]));
        }
        check_views(&b, i % BATCH, views);
    }
    assert_int_equal(gf_loader_damaged(l), 0);
    gf_loader_free(l);
}

static void test_shuffled(void **state) {
    (void)state;
    check_shuffled(2);
    check_shuffled(1);
}

static void test_in_order(void **state) {
    (void)state;
    gf_loader_spec spec = spec_of(3);
    spec.views = 0;
    spec.resize = 18;
    gf_loader *l = loader_of(&spec);
    assert_int_equal(gf_loader_steps(l), STEPS + 1);
    for (int round = 0; round < 2; round++) {
        int64_t seen = 0;
        for (int i = 0; i < STEPS + 1; i++) {
            const gf_batch b = next(l);
            assert_int_equal(b.n, i < STEPS ? BATCH : N - STEPS * BATCH);
            assert_int_equal(b.step, i);
            for (int64_t k = 0; k < b.n; k++) assert_int_equal(b.id[k], seen++);
        }
        assert_int_equal(seen, N);
        assert_int_equal(next(l).n, 0);
        assert_int_equal(next(l).n, 0);
        seek(l, 0, 0);
    }
    seek(l, 0, STEPS);
    assert_int_equal(next(l).id[0], STEPS * BATCH);
    seek(l, 0, STEPS + 1);
    assert_int_equal(next(l).n, 0);
    gf_loader_free(l);
}

/* Chosen samples, one augmented view each, once and in order; damaged ones are left out, and the epoch decides what is drawn. */
static void test_once(void **state) {
    (void)state;
    const int64_t ids[] = {3, 5, 6, 20, 21, 22, 40, 41, 59, 60};
    float first[2][IMAGE];
    gf_error err = {""};
    gf_loader *l;
    const gf_loader_spec spec = {
        .data = &data, .augment = gf_augment_linear(SIZE), .views = 1, .once = 1, .ids = ids, .id_count = 10, .batch = 8,
        .seed = SEED, .workers = 3, .depth = 2,
    };
    flaky.state[20] = DAMAGED;
    assert_int_equal(gf_loader_create(&err, &spec, &l), GLOFND_OK);
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        gf_batch b;
        int64_t seen = 0;
        assert_int_equal(gf_loader_seek(&err, l, epoch, 0), GLOFND_OK);
        for (;;) {
            assert_int_equal(gf_loader_next(&err, l, &b), GLOFND_OK);
            if (b.n == 0) break;
            if (seen == 0) memcpy(first[epoch], b.view[0], sizeof first[epoch]);
            for (int64_t i = 0; i < b.n; i++, seen++) {
                assert_int_equal(b.id[i], ids[seen + (seen >= 3)]);
                assert_int_equal(b.label[i], gf_dataset_label(&data, b.id[i]));
            }
        }
        assert_int_equal(seen, 9);
    }
    assert_true(memcmp(first[0], first[1], sizeof first[0]) != 0);
    gf_loader_free(l);
}

/* A batch larger than the data is short where order matters. */
static void test_one_short_batch(void **state) {
    (void)state;
    gf_loader_spec spec = spec_of(2);
    spec.views = 0;
    spec.batch = 1000;
    gf_loader *l = loader_of(&spec);
    assert_int_equal(gf_loader_steps(l), 1);
    assert_int_equal(next(l).n, N);
    assert_int_equal(next(l).n, 0);
    gf_loader_free(l);
}

/* ----- Any number of workers, any start ----- */

enum { MANY = 2 * STEPS + 3 };

static void test_workers(void **state) {
    (void)state;
    const int workers[] = {1, 2, 5, 20}, depth[] = {1, 3, 2, 9};
    uint64_t first[MANY], hash[MANY];
    flaky.state[7] = flaky.state[20] = flaky.state[21] = DAMAGED;
    for (int i = 0; i < 4; i++) {
        gf_loader_spec spec = spec_of(workers[i]);
        spec.depth = depth[i];
        flaky.nap = i == 2 ? 50 : 0;
        hash_batches(&spec, i ? hash : first, MANY);
        if (i) assert_memory_equal(hash, first, sizeof hash);
    }
}

static void test_seeds(void **state) {
    (void)state;
    uint64_t a[3], b[3];
    gf_loader_spec spec = spec_of(2), other = spec;
    other.seed++;
    hash_batches(&spec, a, 3);
    hash_batches(&other, b, 3);
    assert_true(a[0] != b[0] && a[1] != b[1] && a[2] != b[2]);
}

static void test_seek(void **state) {
    (void)state;
    uint64_t straight[MANY];
    flaky.state[3] = flaky.state[30] = DAMAGED;
    gf_loader_spec spec = spec_of(3);
    spec.depth = 1;             /* so that slots are used again at once */
    hash_batches(&spec, straight, MANY);
    gf_loader *l = loader_of(&spec);
    flaky.nap = 1000;
    for (int k = MANY - 1; k >= 0; k -= 2) {    /* backwards, with batches in work */
        seek(l, (uint32_t)(k / STEPS), k % STEPS);
        for (int i = k; i < MANY && i < k + 2; i++) {
            const gf_batch b = next(l);
            assert_true(hash_of(&b) == straight[i]);
        }
    }
    seek(l, 0, STEPS);                          /* the end of an epoch is the begin of the next */
    const gf_batch b = next(l);
    assert_true(hash_of(&b) == straight[STEPS]);
    gf_loader_free(l);
}

/* ----- Damaged samples ----- */

/* Ids of a batch by the rule of loader.h, and the damaged ones in the order they are met. */
static void expect_batch(uint32_t epoch, int64_t step, int64_t id[BATCH], reports *met) {
    int64_t extra = (step + 1) * BATCH;
    const int before = met->n;
    for (int k = 0; k < BATCH; k++) {
        id[k] = gf_permute(SEED, epoch, N, step * BATCH + k);
        if (flaky.state[id[k]] != SOUND) met->id[met->n++] = id[k];
    }
    for (int k = 0; k < BATCH && met->n > before; k++) {
        while (flaky.state[id[k]] != SOUND) {
            const int64_t other = gf_permute(SEED, epoch, N, extra++ % N);
            if (flaky.state[other] != SOUND)
                met->id[met->n++] = other;
            else
                id[k] = other;
        }
    }
}

static void test_damaged_replaced(void **state) {
    (void)state;
    for (int i = 0; i < N; i += 4) flaky.state[i] = i % 8 ? DAMAGED : BROKEN_DISK;
    reports got = {.n = 0}, expected = {.n = 0};
    gf_loader_spec spec = spec_of(4);
    spec.damaged = report;
    spec.user = &got;
    gf_loader *l = loader_of(&spec);
    for (int i = 0; i < MANY; i++) {
        int64_t id[BATCH];
        const gf_batch b = next(l);
        expect_batch((uint32_t)(i / STEPS), i % STEPS, id, &expected);
        assert_int_equal(b.n, BATCH);
        for (int k = 0; k < BATCH; k++) {
            assert_int_equal(b.id[k], id[k]);
            assert_int_equal(b.label[k], gf_dataset_label(shapes, id[k]));
            for (int j = 0; j < k; j++) assert_int_not_equal(b.id[j], b.id[k]);
        }
        check_views(&b, 0, 2);
        check_views(&b, BATCH - 1, 2);
    }
    assert_true(expected.n > 20);
    assert_int_equal(got.n, expected.n);
    assert_memory_equal(got.id, expected.id, (size_t)got.n * sizeof got.id[0]);
    assert_int_equal(gf_loader_damaged(l), (N + 3) / 4);
    gf_loader_free(l);
}

static void test_damaged_left_out(void **state) {
    (void)state;
    reports got = {.n = 0};
    gf_loader_spec spec = spec_of(3);
    spec.views = 0;
    spec.damaged = report;
    spec.user = &got;
    flaky.state[2] = flaky.state[N - 1] = DAMAGED;
    for (int i = BATCH; i < 2 * BATCH; i++) flaky.state[i] = DAMAGED;   /* a whole batch */
    gf_loader *l = loader_of(&spec);
    int64_t seen = 0, last = -1;
    for (gf_batch b = next(l); b.n > 0; b = next(l)) {
        for (int64_t k = 0; k < b.n; k++) {
            assert_true(b.id[k] > last && flaky.state[b.id[k]] == SOUND);
            assert_int_equal(b.label[k], gf_dataset_label(shapes, b.id[k]));
            last = b.id[k];
            seen++;
        }
    }
    assert_int_equal(seen, N - BATCH - 2);
    assert_true(got.n == BATCH + 2 && gf_loader_damaged(l) == BATCH + 2);
    seek(l, 0, 0);
    const gf_batch first = next(l);
    float kept[IMAGE];                          /* the sample after the gap kept its own image */
    memcpy(kept, first.view[0] + 2 * IMAGE, sizeof kept);
    flaky.state[2] = SOUND;
    gf_loader *other = loader_of(&spec);
    assert_memory_equal(next(other).view[0] + 3 * IMAGE, kept, sizeof kept);
    gf_loader_free(other);
    gf_loader_free(l);
}

static void test_strict(void **state) {
    (void)state;
    gf_loader_spec spec = spec_of(4);
    spec.strict = 1;
    const int64_t bad = gf_permute(SEED, 0, N, 2 * BATCH + 5);
    flaky.state[bad] = BROKEN_DISK;
    flaky.state[gf_permute(SEED, 0, N, 2 * BATCH + 6)] = DAMAGED;
    char name[40];
    snprintf(name, sizeof name, "sample %lld cannot", (long long)bad);
    gf_loader *l = loader_of(&spec);
    next(l);
    next(l);
    fails(l, GLOFND_E_IO, name);
    fails(l, GLOFND_E_IO, name);
    seek(l, 0, 3);
    assert_int_equal(next(l).step, 3);
    gf_loader_free(l);
}

static void test_all_damaged(void **state) {
    (void)state;
    memset(flaky.state, DAMAGED, sizeof flaky.state);
    for (int views = 0; views < 3; views++) {
        gf_loader_spec spec = spec_of(2);
        spec.views = views;
        gf_loader *l = loader_of(&spec);
        fails(l, GLOFND_E_FORMAT, "all 61 samples are damaged");
        gf_loader_free(l);
    }
}

static void test_too_few(void **state) {
    (void)state;
    memset(flaky.state, DAMAGED, sizeof flaky.state);
    for (int i = 0; i < BATCH; i++) flaky.state[i * 3] = SOUND;
    const gf_loader_spec spec = spec_of(2);
    gf_loader *l = loader_of(&spec);
    assert_int_equal(next(l).n, BATCH);         /* just enough */
    gf_loader_free(l);
    flaky.state[0] = DAMAGED;
    l = loader_of(&spec);
    fails(l, GLOFND_E_FORMAT, "only 7 of 61 samples can be read");
    gf_loader_free(l);
}

/* What is no damage is an error, strict or not. */
static void test_error(void **state) {
    (void)state;
    const gf_loader_spec spec = spec_of(3);
    flaky.state[gf_permute(SEED, 0, N, BATCH + 2)] = NO_MEMORY;
    gf_loader *l = loader_of(&spec);
    next(l);
    fails(l, GLOFND_E_MEMORY, "no memory for sample");
    gf_loader_free(l);
}

/* ----- Begin and end ----- */

static void test_free_any_time(void **state) {
    (void)state;
    flaky.nap = 300;
    for (int i = 0; i < 24; i++) {
        gf_loader_spec spec = spec_of(1 + i % 5);
        spec.views = i % 3;
        spec.depth = 1 + i % 4;
        gf_loader *l = loader_of(&spec);
        if (i % 4 == 1) seek(l, 1, 2);          /* workers begin, nobody takes */
        for (int k = 0; k < i % 4 - 1; k++) next(l);
        usleep((useconds_t)(i * 100));
        gf_loader_free(l);
    }
    gf_loader_free(NULL);
}

/* Also in the middle of a search for a readable sample, which ends then: it would take many more reads. */
static void test_free_in_search(void **state) {
    (void)state;
    memset(flaky.state, DAMAGED, sizeof flaky.state);
    flaky.nap = 10000;
    flaky.reads = 0;
    const gf_loader_spec spec = spec_of(2);
    gf_loader *l = loader_of(&spec);
    seek(l, 0, 0);
    while (flaky.reads < 2 * BATCH) usleep(1000);
    const int before = flaky.reads;
    gf_loader_free(l);
    assert_true(flaky.reads < before + 20);
}

static void refused(const gf_loader_spec *spec, glofnd_status status, const char *word) {
    gf_error err = {""};
    gf_loader *l = NULL;
    assert_int_equal(gf_loader_create(&err, spec, &l), status);
    assert_null(l);
    says(&err, word);
}

static void test_refused(void **state) {
    (void)state;
    gf_loader_spec bad[7];
    for (int i = 0; i < 7; i++) bad[i] = spec_of(2);
    bad[0].batch = N + 1;
    bad[1].batch = 0;
    bad[2].views = 3;
    bad[3].workers = 0;
    bad[4].depth = 0;
    bad[5].augment.size = 0;
    bad[6].data = NULL;
    refused(&bad[0], GLOFND_E_ARGUMENT, "batch is 62, but the dataset has only 61");
    refused(&bad[1], GLOFND_E_ARGUMENT, "batch");
    refused(&bad[2], GLOFND_E_ARGUMENT, "views");
    refused(&bad[3], GLOFND_E_ARGUMENT, "workers");
    refused(&bad[4], GLOFND_E_ARGUMENT, "depth");
    refused(&bad[5], GLOFND_E_OPTION, "size");
    refused(&bad[6], GLOFND_E_ARGUMENT, "dataset");
    const gf_loader_spec good = spec_of(1);
    gf_loader *l = loader_of(&good);
    assert_int_equal(gf_loader_seek(NULL, l, 0, -1), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_loader_seek(NULL, l, 0, STEPS + 1), GLOFND_E_ARGUMENT);
    gf_loader_free(l);
}

#define SOUND_TEST(f) cmocka_unit_test_setup(f, all_sound)

int main(void) {
    const struct CMUnitTest tests[] = {
        SOUND_TEST(test_shuffled), SOUND_TEST(test_in_order), SOUND_TEST(test_once), SOUND_TEST(test_one_short_batch),
        SOUND_TEST(test_workers), SOUND_TEST(test_seeds), SOUND_TEST(test_seek), SOUND_TEST(test_damaged_replaced),
        SOUND_TEST(test_damaged_left_out), SOUND_TEST(test_strict), SOUND_TEST(test_all_damaged), SOUND_TEST(test_too_few),
        SOUND_TEST(test_error), SOUND_TEST(test_free_any_time), SOUND_TEST(test_free_in_search), SOUND_TEST(test_refused),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
