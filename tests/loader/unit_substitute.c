/* unit_substitute.c - loaders over samples of which some cannot be read: what replaces them, the same for any number of ranks;
 * what
 * is reported; and when there are too few.
 */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "support/flaky.h"

/* ----- What they are replaced by ----- */

static int is_good(uint32_t epoch, int64_t position) { return flaky.state[gf_permute(SEED, epoch, N, position)] == SOUND; }

/* The rule of substitute.h, simply: the position that place k of a batch gets from its row, or -1. */
static int64_t from_row(uint32_t epoch, int64_t step, int k) {
    for (int64_t at = step * BATCH + k; at < N; at += BATCH)
        if (is_good(epoch, at)) return at;
    for (int64_t at = k; at < step * BATCH; at += BATCH)
        if (is_good(epoch, at)) return at;
    return -1;
}

static void expect_batch(uint32_t epoch, int64_t step, int64_t id[BATCH]) {
    int64_t position[BATCH], extra = (step + 1) * BATCH;
    char taken[N] = {0};
    for (int k = 0; k < BATCH; k++) {
        position[k] = from_row(epoch, step, k);
        if (position[k] >= 0) taken[position[k]] = 1;
    }
    for (int k = 0; k < BATCH; k++) {
        for (; position[k] < 0; extra++)
            if (is_good(epoch, extra % N) && !taken[extra % N]) position[k] = extra % N;
        id[k] = gf_permute(SEED, epoch, N, position[k]);
    }
}

static void expect_reports(uint32_t epoch, int64_t step, flaky_reports *r) {
    for (int k = 0; k < BATCH; k++)
        if (!is_good(epoch, step * BATCH + k)) r->id[r->n++] = gf_permute(SEED, epoch, N, step * BATCH + k);
}

TEST_WITH(test_replaced, flaky_heal, NULL) {
    for (int i = 0; i < N; i += 4) flaky.state[i] = i % 8 ? CORRUPT : BROKEN_DISK;
    flaky_reports got = {.n = 0}, expected = {.n = 0};
    gf_loader_spec spec = flaky_spec(4);
    spec.unreadable = flaky_report;
    spec.user = &got;
    gf_loader *l = flaky_loader(&spec);
    for (int i = 0; i < MANY; i++) {
        int64_t id[BATCH];
        const gf_batch b = flaky_next(l);
        expect_batch((uint32_t)(i / STEPS), i % STEPS, id);
        expect_reports((uint32_t)(i / STEPS), i % STEPS, &expected);
        assert_int_equal(b.n, BATCH);
        for (int k = 0; k < BATCH; k++) {
            assert_int_equal(b.id[k], id[k]);
            assert_int_equal(b.label[k], gf_dataset_label(flaky_shapes, id[k]));
            for (int j = 0; j < k; j++) assert_int_not_equal(b.id[j], b.id[k]);
        }
        flaky_check_views(&b, 0, 2);
        flaky_check_views(&b, BATCH - 1, 2);
    }
    assert_true(expected.n > 20);
    assert_int_equal(got.n, expected.n);
    assert_memory_equal(got.id, expected.id, (size_t)got.n * sizeof got.id[0]);
    assert_int_equal(gf_loader_unreadable(l), (N + 3) / 4);
    gf_loader_free(l);
}

/* `ranks` loaders, each with its part, together give the batches that are expected of one. */
static void check_ranks(int ranks, int batches) {
    const int part = BATCH / ranks;
    gf_loader *l[BATCH];
    for (int r = 0; r < ranks; r++) {
        gf_loader_spec spec = flaky_spec(2);
        spec.batch = part, spec.global_batch = BATCH, spec.offset = r * part;
        l[r] = flaky_loader(&spec);
        assert_int_equal(gf_loader_steps(l[r]), STEPS);
    }
    for (int i = 0; i < batches; i++) {
        int64_t id[BATCH];
        expect_batch((uint32_t)(i / STEPS), i % STEPS, id);
        for (int r = 0; r < ranks; r++) {
            const gf_batch b = flaky_next(l[r]);
            assert_int_equal(b.n, part);
            assert_memory_equal(b.id, id + r * part, (size_t)part * sizeof *id);
            flaky_check_views(&b, part - 1, 2);
        }
    }
    for (int r = 0; r < ranks; r++) gf_loader_free(l[r]);
}

/* A few, every fourth, whole rows of places on different ranks, almost all: any number of ranks sees the same batches. */
TEST_WITH(test_ranks, flaky_heal, NULL) {
    for (int harm = 0; harm < 4; harm++) {
        flaky_heal(state);
        if (harm == 0) flaky.state[5] = flaky.state[17] = flaky.state[44] = CORRUPT;
        for (int i = 0; i < N && harm == 1; i += 4) flaky.state[i] = CORRUPT;
        for (int at = 0; at < N && harm == 2; at++)
            if (at % BATCH == 2 || at % BATCH == 3 || at % BATCH == 6) flaky.state[gf_permute(SEED, 0, N, at)] = CORRUPT;
        for (int i = 0; i < N && harm == 3; i++) flaky.state[i] = i % 6 == 1 ? SOUND : CORRUPT;
        for (int ranks = 1; ranks <= BATCH; ranks *= 2) check_ranks(ranks, harm == 0 ? MANY : STEPS);
    }
}

TEST_WITH(test_unreadable_left_out, flaky_heal, NULL) {
    flaky_reports got = {.n = 0};
    gf_loader_spec spec = flaky_spec(3);
    spec.views = 0;
    spec.unreadable = flaky_report;
    spec.user = &got;
    flaky.state[2] = flaky.state[N - 1] = CORRUPT;
    for (int i = BATCH; i < 2 * BATCH; i++) flaky.state[i] = CORRUPT; /* a whole batch */
    gf_loader *l = flaky_loader(&spec);
    int64_t seen = 0, last = -1;
    for (gf_batch b = flaky_next(l); b.n > 0; b = flaky_next(l)) {
        for (int64_t k = 0; k < b.n; k++) {
            assert_true(b.id[k] > last && flaky.state[b.id[k]] == SOUND);
            assert_int_equal(b.label[k], gf_dataset_label(flaky_shapes, b.id[k]));
            last = b.id[k];
            seen++;
        }
    }
    assert_int_equal(seen, N - BATCH - 2);
    assert_true(got.n == BATCH + 2 && gf_loader_unreadable(l) == BATCH + 2);
    flaky_seek(l, 0, 0);
    const gf_batch first = flaky_next(l);
    float kept[IMAGE]; /* the sample after the gap kept its own image */
    memcpy(kept, first.view[0] + 2 * IMAGE, sizeof kept);
    flaky.state[2] = SOUND;
    gf_loader *other = flaky_loader(&spec);
    assert_memory_equal(flaky_next(other).view[0] + 3 * IMAGE, kept, sizeof kept);
    gf_loader_free(other);
    gf_loader_free(l);
}

TEST_WITH(test_strict, flaky_heal, NULL) {
    gf_loader_spec spec = flaky_spec(4);
    spec.strict = 1;
    const int64_t bad = gf_permute(SEED, 0, N, 2 * BATCH + 5);
    flaky.state[bad] = BROKEN_DISK;
    flaky.state[gf_permute(SEED, 0, N, 2 * BATCH + 6)] = CORRUPT;
    char name[40];
    snprintf(name, sizeof name, "sample %lld cannot", (long long)bad);
    gf_loader *l = flaky_loader(&spec);
    flaky_next(l);
    flaky_next(l);
    flaky_fails(l, GLOFND_E_IO, name);
    flaky_fails(l, GLOFND_E_IO, name);
    flaky_seek(l, 0, 3);
    assert_int_equal(flaky_next(l).step, 3);
    gf_loader_free(l);
}

TEST_WITH(test_all_unreadable, flaky_heal, NULL) {
    memset(flaky.state, CORRUPT, sizeof flaky.state);
    for (int views = 0; views < 3; views++) {
        gf_loader_spec spec = flaky_spec(2);
        spec.views = views;
        gf_loader *l = flaky_loader(&spec);
        flaky_fails(l, GLOFND_E_FORMAT, "all 61 samples are unreadable");
        gf_loader_free(l);
    }
}

TEST_WITH(test_too_few, flaky_heal, NULL) {
    memset(flaky.state, CORRUPT, sizeof flaky.state);
    for (int i = 0; i < BATCH; i++) flaky.state[i * 3] = SOUND;
    const gf_loader_spec spec = flaky_spec(2);
    gf_loader *l = flaky_loader(&spec);
    assert_int_equal(flaky_next(l).n, BATCH); /* just enough */
    gf_loader_free(l);
    flaky.state[0] = CORRUPT;
    l = flaky_loader(&spec);
    flaky_fails(l, GLOFND_E_FORMAT, "only 7 of 61 samples are readable");
    gf_loader_free(l);
}

/* An error that is not about the sample ends the batch, strict or not. */
TEST_WITH(test_error, flaky_heal, NULL) {
    const gf_loader_spec spec = flaky_spec(3);
    flaky.state[gf_permute(SEED, 0, N, BATCH + 2)] = NO_MEMORY;
    gf_loader *l = flaky_loader(&spec);
    flaky_next(l);
    flaky_fails(l, GLOFND_E_MEMORY, "no memory for sample");
    gf_loader_free(l);
}

TEST_GROUP(flaky_open, flaky_close)
