/* unit_loader.c - batches from worker threads: the same for any number of workers, from any step, with unreadable samples in
 * between; and a loader can be freed at any moment. Substitutes of unreadable samples: unit_substitute.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/flaky.h"

/* ----- What a batch holds ----- */

static void check_shuffled(int views) {
    gf_loader_spec spec = flaky_spec(2);
    spec.views = views;
    gf_loader *l = flaky_loader(&spec);
    assert_int_equal(gf_loader_steps(l), STEPS);
    for (int i = 0; i < 2 * STEPS + 1; i++) {
        const gf_batch b = flaky_next(l);
        assert_int_equal(b.n, BATCH);
        assert_int_equal(b.epoch, i / STEPS);
        assert_int_equal(b.step, i % STEPS);
        assert_true((b.view[1] != NULL) == (views == 2));
        assert_true(b.read_seconds >= 0 && b.augment_seconds > 0);
        for (int64_t k = 0; k < b.n; k++) {
            assert_int_equal(b.id[k], gf_permute(SEED, b.epoch, N, b.step * BATCH + k));
            assert_int_equal(b.label[k], gf_dataset_label(flaky_shapes, b.id[k]));
        }
        flaky_check_views(&b, i % BATCH, views);
    }
    assert_int_equal(gf_loader_unreadable(l), 0);
    gf_loader_free(l);
}

TEST_WITH(test_shuffled, flaky_heal, NULL) {
    check_shuffled(2);
    check_shuffled(1);
}

TEST_WITH(test_in_order, flaky_heal, NULL) {
    gf_loader_spec spec = flaky_spec(3);
    spec.views = 0;
    spec.resize = 18;
    gf_loader *l = flaky_loader(&spec);
    assert_int_equal(gf_loader_steps(l), STEPS + 1);
    for (int round = 0; round < 2; round++) {
        int64_t seen = 0;
        for (int i = 0; i < STEPS + 1; i++) {
            const gf_batch b = flaky_next(l);
            assert_int_equal(b.n, i < STEPS ? BATCH : N - STEPS * BATCH);
            assert_int_equal(b.step, i);
            for (int64_t k = 0; k < b.n; k++) assert_int_equal(b.id[k], seen++);
        }
        assert_int_equal(seen, N);
        assert_int_equal(flaky_next(l).n, 0);
        assert_int_equal(flaky_next(l).n, 0);
        flaky_seek(l, 0, 0);
    }
    flaky_seek(l, 0, STEPS);
    assert_int_equal(flaky_next(l).id[0], STEPS * BATCH);
    flaky_seek(l, 0, STEPS + 1);
    assert_int_equal(flaky_next(l).n, 0);
    gf_loader_free(l);
}

/* Chosen samples, one augmented view each, once and in order; unreadable ones are left out, and the epoch decides the crops. */
TEST_WITH(test_once, flaky_heal, NULL) {
    const int64_t ids[] = {3, 5, 6, 20, 21, 22, 40, 41, 59, 60};
    float first[2][IMAGE];
    gf_error err = {""};
    gf_loader *l;
    gf_loader_spec spec = flaky_spec(3);
    spec.augment = gf_augment_linear(SIZE), spec.views = 1, spec.once = 1, spec.ids = ids, spec.id_count = 10;
    flaky.state[20] = CORRUPT;
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
                assert_int_equal(b.label[i], gf_dataset_label(flaky_shapes, b.id[i]));
            }
        }
        assert_int_equal(seen, 9);
    }
    assert_true(memcmp(first[0], first[1], sizeof first[0]) != 0);
    gf_loader_free(l);
}

/* Centre crops of images that have the size of a view are these images, whatever other images are scaled to. */
TEST_WITH(test_native_images_stay, flaky_heal, NULL) {
    enum { SIDE = 20, PIXELS = 3 * SIDE * SIDE }; /* as flaky_shapes */
    gf_loader_spec spec = flaky_spec(1);
    spec.views = 0;
    spec.augment = gf_augment_pretrain(SIDE);
    gf_loader *cropped = flaky_loader(&spec);
    spec.resize = (SIDE * 8 + 3) / 7;
    gf_loader *scaled = flaky_loader(&spec);
    const gf_batch a = flaky_next(cropped), b = flaky_next(scaled);
    assert_memory_equal(a.view[0], b.view[0], (size_t)(BATCH * PIXELS) * sizeof *a.view[0]);
    gf_loader_free(cropped);
    gf_loader_free(scaled);
}

/* A batch larger than the data is short where order matters. */
TEST_WITH(test_one_short_batch, flaky_heal, NULL) {
    gf_loader_spec spec = flaky_spec(2);
    spec.views = 0;
    spec.batch = 1000;
    gf_loader *l = flaky_loader(&spec);
    assert_int_equal(gf_loader_steps(l), 1);
    assert_int_equal(flaky_next(l).n, N);
    assert_int_equal(flaky_next(l).n, 0);
    gf_loader_free(l);
}

/* ----- Any number of workers, any start ----- */

TEST_WITH(test_workers, flaky_heal, NULL) {
    const int workers[] = {1, 2, 5, 20}, depth[] = {1, 3, 2, 9};
    uint64_t first[MANY], hash[MANY];
    flaky.state[7] = flaky.state[20] = flaky.state[21] = CORRUPT;
    for (int i = 0; i < 4; i++) {
        gf_loader_spec spec = flaky_spec(workers[i]);
        spec.depth = depth[i];
        flaky.nap = i == 2 ? 50 : 0;
        flaky_hashes(&spec, i ? hash : first, MANY);
        if (i) assert_memory_equal(hash, first, sizeof hash);
    }
}

TEST_WITH(test_seeds, flaky_heal, NULL) {
    uint64_t a[3], b[3];
    gf_loader_spec spec = flaky_spec(2), other = spec;
    other.seed++;
    flaky_hashes(&spec, a, 3);
    flaky_hashes(&other, b, 3);
    assert_true(a[0] != b[0] && a[1] != b[1] && a[2] != b[2]);
}

TEST_WITH(test_seek, flaky_heal, NULL) {
    uint64_t straight[MANY];
    flaky.state[3] = flaky.state[30] = CORRUPT;
    gf_loader_spec spec = flaky_spec(3);
    spec.depth = 1; /* so that slots are used again at once */
    flaky_hashes(&spec, straight, MANY);
    gf_loader *l = flaky_loader(&spec);
    flaky.nap = 1000;
    for (int k = MANY - 1; k >= 0; k -= 2) { /* backwards, with batches in work */
        flaky_seek(l, (uint32_t)(k / STEPS), k % STEPS);
        for (int i = k; i < MANY && i < k + 2; i++) {
            const gf_batch b = flaky_next(l);
            assert_true(flaky_hash(&b) == straight[i]);
        }
    }
    flaky_seek(l, 0, STEPS); /* the end of an epoch is the begin of the next */
    const gf_batch b = flaky_next(l);
    assert_true(flaky_hash(&b) == straight[STEPS]);
    gf_loader_free(l);
}

/* ----- Begin and end ----- */

TEST_WITH(test_free_any_time, flaky_heal, NULL) {
    flaky.nap = 300;
    for (int i = 0; i < 24; i++) {
        gf_loader_spec spec = flaky_spec(1 + i % 5);
        spec.views = i % 3;
        spec.depth = 1 + i % 4;
        gf_loader *l = flaky_loader(&spec);
        if (i % 4 == 1) flaky_seek(l, 1, 2); /* workers begin, nobody takes */
        for (int k = 0; k < i % 4 - 1; k++) flaky_next(l);
        usleep((useconds_t)(i * 100));
        gf_loader_free(l);
    }
    gf_loader_free(NULL);
}

/* Also in the middle of a search for a readable sample, which ends then: it would take many more reads. */
TEST_WITH(test_free_in_search, flaky_heal, NULL) {
    memset(flaky.state, CORRUPT, sizeof flaky.state);
    flaky.nap = 10000;
    flaky.reads = 0;
    const gf_loader_spec spec = flaky_spec(2);
    gf_loader *l = flaky_loader(&spec);
    flaky_seek(l, 0, 0);
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
    flaky_says(&err, word);
}

TEST_WITH(test_refused, flaky_heal, NULL) {
    gf_loader_spec bad[7];
    for (int i = 0; i < 7; i++) bad[i] = flaky_spec(2);
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
    const gf_loader_spec good = flaky_spec(1);
    gf_loader *l = flaky_loader(&good);
    assert_int_equal(gf_loader_seek(NULL, l, 0, -1), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_loader_seek(NULL, l, 0, STEPS + 1), GLOFND_E_ARGUMENT);
    gf_loader_free(l);
}

TEST_GROUP(flaky_open, flaky_close)
