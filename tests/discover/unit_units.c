/* unit_units.c - discovery in units: the same bits as in memory for any cut into units and chunks; what was finished before a
 * failure is used by the next call; parts of another search, or damaged ones, are not. With GLOFND_TEST_DEVICE=cuda units are
 * made on the GPU, and compared with a search in memory on the CPU. */
#include "support/test.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "discover/units.h"
#include "io/file.h"
#include "support/random.h"
#include "support/scratch.h"

enum { N = 1500, DIM = 64 }; /* more than a chunk has at least */

static float x[N][DIM];
static gf_error err;
static char parts[100];               /* folder of finished units */
static const gf_pairs_search *device; /* that makes units */

/* Rows in memory that can be read so many more times; negative: any number. */
typedef struct rows_at {
    int64_t reads;
    int64_t units, done; /* as reported */
} rows_at;

static glofnd_status read_rows(gf_error *e, void *user, int64_t first, int64_t rows, float *out) {
    rows_at *r = user;
    FAIL_IF(e, r->reads == 0, GLOFND_E_IO, "the disk is gone");
    if (r->reads > 0) r->reads--;
    assert_true(first >= 0 && rows > 0 && first + rows <= N);
    memcpy(out, x[first], (size_t)rows * sizeof x[0]);
    return GLOFND_OK;
}

static void report(void *user, int64_t units, int64_t done, int64_t chunks) {
    rows_at *r = user;
    (void)chunks;
    r->units = units, r->done = done;
}

/* Clusters of ten rows; copies, close ones, bad ones. */
static void make_rows(void) {
    rng g = {11};
    for (int i = 0; i < N; i++)
        for (int k = 0; k < DIM; k++)
            x[i][k] = (i % 10 ? x[i - i % 10][k] : 0.0f) + (i % 10 ? 0.4f : 1.0f) * (float)rng_normal(&g);
    memcpy(x[200], x[17], sizeof x[0]);
    memcpy(x[44], x[17], sizeof x[0]);
    for (int k = 0; k < DIM; k++) x[60][k] = 1.001f * x[61][k], x[90][k] = 0.0f;
    x[91][3] = NAN, x[250][0] = INFINITY;
}

static gf_discover_spec spec_of(int64_t k, double dup, int threads) {
    return (gf_discover_spec){.k = k,
                              .task.top = 12,
                              .task.below = 5,
                              .max_pairs = 2000,
                              .dup = dup,
                              .task.memory = (size_t)1 << 30,
                              .task.threads = threads,
                              .search = &gf_pairs_search_cpu};
}

static gf_discover_data data_of(int with_rows) {
    gf_discover_data d = {.n = N, .dim = DIM, .label = malloc(N * sizeof *d.label)};
    for (int i = 0; i < N; i++) d.label[i] = i % 8 == 3 ? -1 : i / 10;
    if (!with_rows) return d;
    d.x = malloc(sizeof x);
    memcpy(d.x, x, sizeof x);
    assert_int_equal(gf_discover_classify(&err, &d), GLOFND_OK);
    return d;
}

static void same_data(const gf_discover_data *a, const gf_discover_data *b) {
    assert_int_equal(a->good_n, b->good_n);
    assert_int_equal(a->distinct, b->distinct);
    assert_int_equal(a->crc, b->crc);
    assert_memory_equal(a->kind, b->kind, N);
    assert_memory_equal(a->good, b->good, (size_t)a->good_n * sizeof *a->good);
    assert_memory_equal(a->copy_of, b->copy_of, (size_t)a->good_n * sizeof *a->copy_of);
}

#define SAME(field, count) assert_memory_equal(a->f.field, b->f.field, (size_t)(count) * sizeof *a->f.field)

static void same_result(const gf_discover_result *a, const gf_discover_result *b) {
    const int64_t n = a->f.n;
    assert_int_equal(n, b->f.n);
    assert_int_equal(a->f.top, b->f.top);
    SAME(lambda, n), SAME(above, n), SAME(mutual, n), SAME(hits, n), SAME(copies, n), SAME(mutual_root, n), SAME(copy_root, n);
    SAME(other, n * a->f.top), SAME(similarity, n * a->f.top);
    SAME(below_other, n * a->f.below), SAME(below_similarity, n * a->f.below);
    assert_int_equal(a->mutual_pairs, b->mutual_pairs);
    assert_int_equal(a->dup_pairs, b->dup_pairs);
    assert_int_equal(a->listed, b->listed);
    assert_int_equal(a->parts.count, b->parts.count);
    assert_int_equal(a->f.sampled, b->f.sampled);
    assert_int_equal(a->f.wanted, b->f.wanted);
    assert_int_equal(a->f.recalled, b->f.recalled);
    assert_true(a->quality.anchors == b->quality.anchors);
}

static gf_units units_of(rows_at *r, const char *folder, int64_t rows) {
    return (gf_units){.folder = folder,
                      .source = {.read = read_rows, .user = r, .n = N, .dim = DIM},
                      .rows = rows,
                      .ranks = 1,
                      .report = report,
                      .user = r};
}

static glofnd_status run(const gf_discover_spec *s, const gf_units *u, gf_discover_result *r) {
    gf_discover_data d = data_of(0);
    gf_discover_spec there = *s;
    if (s->search == &gf_pairs_search_cpu) there.search = device;
    glofnd_status status = gf_discover_classify_stream(&err, &u->source, &(gf_job_progress){0}, &d);
    if (status == GLOFND_OK) status = gf_discover_run_units(&err, &there, u, &d, r);
    gf_discover_data_free(&d);
    return status;
}

TEST(classifies_as_in_memory) {
    rows_at rows = {.reads = -1};
    gf_discover_data a = data_of(1), b = data_of(0);
    const gf_units u = units_of(&rows, "", 0);
    assert_int_equal(gf_discover_classify_stream(&err, &u.source, &(gf_job_progress){0}, &b), GLOFND_OK);
    same_data(&a, &b);
    assert_int_equal(a.good_n, N - 3);
    gf_discover_data_free(&a);
    gf_discover_data_free(&b);
}

TEST(any_cut_gives_the_same_bits) {
    static const double dups[] = {0.9, NAN, 0.2};
    static const int exact[] = {0, 1, 0};
    for (int c = 0; c < 8; c++) {
        gf_discover_spec s = spec_of(c % 3 ? 7 : 40, dups[c % 3], 1 + c % 2);
        s.dup_exact = exact[c % 3];
        gf_discover_data d = data_of(1);
        gf_discover_result a, b;
        rows_at rows = {.reads = -1};
        assert_int_equal(gf_discover_run(&err, &s, &d, &a), GLOFND_OK);
        s.task.memory = c % 4 ? (size_t)1 << 30 : 400000; /* 400,000 bytes: units of fewer rows, two chunks */
        const gf_units u = units_of(&rows, parts, 64 * (1 + c));
        if (run(&s, &u, &b) != GLOFND_OK) fail_msg("%s", err.text);
        same_result(&a, &b);
        assert_int_equal(rows.done, 0);
        gf_unit_folder_remove(u.folder);
        assert_int_not_equal(access(u.folder, F_OK), 0);
        gf_discover_result_free(&a);
        gf_discover_result_free(&b);
        gf_discover_data_free(&d);
    }
}

/* Only duplicates (approx 0), or probed cells. */
static gf_discover_spec cells_of(int64_t k, double dup, int threads, int64_t approx) {
    gf_discover_spec s = spec_of(k, dup, threads);
    s.search = &gf_pairs_search_cells, s.task.probe = approx, s.task.only_dup = approx == 0;
    if (s.task.only_dup) s.task.below = 0;
    return s;
}

TEST(any_cut_gives_the_same_cells) {
    static const double dups[] = {0.9, NAN, 0.2, 0.97};
    static const int exact[] = {0, 1, 0, 0};
    static const int64_t probed[] = {1, 0, 3, 1000, 0, 2, 0, 1, 5};
    for (int c = 0; c < 9; c++) {
        gf_discover_spec s = cells_of(c % 3 ? 7 : 40, dups[c % 4], 1 + c % 2, probed[c]);
        s.dup_exact = exact[c % 4];
        gf_discover_data d = data_of(1);
        gf_discover_result a, b;
        rows_at rows = {.reads = -1};
        assert_int_equal(gf_discover_run(&err, &s, &d, &a), GLOFND_OK);
        s.task.memory = c % 2 ? (size_t)1 << 30 : 400000; /* 400,000 bytes: rows in the order of cells are mapped files */
        s.task.threads = 1 + (c + 1) % 3;
        const gf_units u = units_of(&rows, parts, 64 * (1 + c));
        if (run(&s, &u, &b) != GLOFND_OK) fail_msg("%s", err.text);
        same_result(&a, &b);
        assert_int_equal(a.f.cells, b.f.cells);
        assert_int_equal(a.f.compared, b.f.compared);
        gf_unit_folder_remove(u.folder);
        assert_int_not_equal(access(u.folder, F_OK), 0);
        gf_discover_result_free(&a);
        gf_discover_result_free(&b);
        gf_discover_data_free(&d);
    }
}

/* Only duplicates, of a device that compares all pairs: those that cells find. */
TEST(all_pairs_give_the_duplicates_of_cells) {
    gf_discover_spec s = cells_of(7, 0.9, 2, 0);
    gf_discover_data d = data_of(1);
    gf_discover_result a, b;
    rows_at rows = {.reads = -1};
    const gf_units u = units_of(&rows, parts, 192);
    assert_int_equal(gf_discover_run(&err, &s, &d, &a), GLOFND_OK);
    s.search = &gf_pairs_search_cpu;
    if (run(&s, &u, &b) != GLOFND_OK) fail_msg("%s", err.text);
    same_result(&a, &b);
    assert_int_equal(b.f.cells, 0);
    assert_int_equal(b.f.compared, b.f.n * (b.f.n - 1)); /* as in memory on a GPU */
    gf_unit_folder_remove(u.folder);
    gf_discover_result_free(&a);
    gf_discover_result_free(&b);
    gf_discover_data_free(&d);
}

/* ----- continued searches ----- */

/* Runs a search that is interrupted after some number of something. 1: it came to its end before, and *r is its result. */
typedef int (*interrupted)(const gf_discover_spec *s, rows_at *rows, const gf_units *u, int64_t after, gf_discover_result *r);

/* Reads fail from then on. */
static int by_reads(const gf_discover_spec *s, rows_at *rows, const gf_units *u, int64_t after, gf_discover_result *r) {
    rows->reads = after;
    const glofnd_status status = run(s, u, r);
    rows->reads = -1;
    if (status != GLOFND_OK) assert_int_equal(status, GLOFND_E_IO);
    return status == GLOFND_OK;
}

/* Stops a search after so many reports of its progress. */
typedef struct stopping {
    int64_t left;
    atomic_int stop;
} stopping;

static void count_down(void *user, const char *stage, double share) {
    stopping *s = user;
    (void)stage;
    assert_true(share >= 0.0 && share <= 1.0);
    if (--s->left == 0) atomic_store(&s->stop, 1);
}

/* A search by cells reads its rows at the beginning: it is stopped at any time. */
static int by_reports(const gf_discover_spec *s, rows_at *rows, const gf_units *u, int64_t after, gf_discover_result *r) {
    stopping stops = {.left = after};
    gf_discover_spec stopped = *s;
    (void)rows;
    stopped.task.watch = (gf_job_progress){.progress = count_down, .user = &stops, .stop = &stops.stop};
    const glofnd_status status = run(&stopped, u, r);
    if (status == GLOFND_OK && stops.left > 0) return 1;
    if (status == GLOFND_OK) gf_discover_result_free(r); /* it was done */
    else assert_string_equal(err.text, "cancelled");
    return 0;
}

/* An interrupted search is continued, and ends with the same bits. */
static void continue_after(interrupted runs, int64_t step, gf_discover_spec s, size_t memory) {
    gf_discover_data d = data_of(1);
    gf_discover_result a, b;
    int64_t continued = 0;
    assert_int_equal(gf_discover_run(&err, &s, &d, &a), GLOFND_OK);
    s.task.memory = memory;
    for (int64_t after = 1;; after += step) {
        rows_at rows = {.reads = -1};
        gf_units u = units_of(&rows, parts, 192);
        if (runs(&s, &rows, &u, after, &b)) break;
        if (run(&s, &u, &b) != GLOFND_OK) fail_msg("%s", err.text);
        continued += rows.done > 0;
        same_result(&a, &b);
        gf_discover_result_free(&b);
        gf_unit_folder_remove(u.folder);
    }
    same_result(&a, &b);
    gf_unit_folder_remove(parts);
    gf_discover_result_free(&a);
    gf_discover_result_free(&b);
    gf_discover_data_free(&d);
    assert_true(continued > 1);
}

TEST(continues_after_any_failure) {
    continue_after(by_reads, 23, spec_of(7, 0.9, 2), 400000);
    continue_after(by_reports, 3, cells_of(7, 0.9, 1, 2), 400000); /* one thread: it reports all progress */
    continue_after(by_reports, 3, cells_of(40, 0.9, 1, 2), (size_t)1 << 30);
    continue_after(by_reports, 3, cells_of(7, 0.9, 1, 0), 400000);
}

static void damage(const gf_discover_spec *s, const char *name, int made_again) {
    gf_discover_result a, b;
    rows_at rows = {.reads = -1};
    const gf_units u = units_of(&rows, parts, 192);
    if (run(s, &u, &a) != GLOFND_OK) fail_msg("%s", err.text);
    for (int at = 0; at < 5; at++) {
        uint8_t *bytes = NULL;
        size_t capacity = 0, n = 0;
        assert_int_equal(gf_file_read(&err, path_of(name), 1 << 20, &bytes, &capacity, &n), GLOFND_OK);
        bytes[(size_t)at * 9173 % n] ^= 1;
        scratch_write(&box, name, bytes, at == 4 ? n - 1 : n);
        free(bytes);
        if (run(s, &u, &b) != GLOFND_OK) fail_msg("%s", err.text);
        assert_int_equal(rows.done, rows.units - made_again);
        same_result(&a, &b);
        gf_discover_result_free(&b);
    }
    gf_unit_folder_remove(u.folder);
    gf_discover_result_free(&a);
}

TEST(damaged_units_are_made_again) {
    static const char *const of_cells[] = {"parts/centres-000000", "parts/cells-000003", "parts/recall-000001"};
    const gf_discover_spec s = spec_of(7, 0.9, 2), cells = cells_of(7, 0.9, 2, 2), many = cells_of(40, 0.9, 2, 2);
    damage(&s, "parts/pairs-000002", 1);
    damage(&s, "parts/mutual-000004", 0);
    damage(&s, "parts/pairs-000006", 1);
    damage(&cells, "parts/pairs-000002", 1);
    for (int k = 0; k < 3; k++) damage(&cells, of_cells[k], 0);
    damage(&many, "parts/mutual-000004", 0); /* more above a threshold than lists hold */
}

/* A worker that was killed has left a claim on a unit: another one takes it over, and makes what is missing in every stage. */
TEST(workers_make_units_of_dead_ones) {
    const gf_discover_spec specs[] = {spec_of(7, 0.9, 2), cells_of(40, 0.9, 2, 2), cells_of(7, 0.9, 1, 0)};
    static const char *const claims[] = {"parts/claim-pairs-000002", "parts/claim-centres-000000", "parts/claim-cells-000003"};
    for (int c = 0; c < 3; c++) {
        gf_discover_data d = data_of(1);
        gf_discover_result a, b;
        rows_at rows = {.reads = -1};
        gf_units u = units_of(&rows, parts, 192);
        assert_int_equal(gf_discover_run(&err, &specs[c], &d, &a), GLOFND_OK);
        assert_int_equal(gf_folder_make(&err, parts, NULL), GLOFND_OK);
        scratch_write(&box, claims[c], "", 0);
        u.worker = 1, u.patience = 0.05;
        if (run(&specs[c], &u, &b) != GLOFND_OK) fail_msg("%s", err.text);
        assert_null(b.f.lambda); /* only parts are made */
        gf_discover_result_free(&b);
        assert_int_not_equal(access(path_of(claims[c]), F_OK), 0);
        u.worker = 0;
        if (run(&specs[c], &u, &b) != GLOFND_OK) fail_msg("%s", err.text);
        assert_int_equal(rows.done, rows.units);
        same_result(&a, &b);
        gf_unit_folder_remove(parts);
        gf_discover_result_free(&a);
        gf_discover_result_free(&b);
        gf_discover_data_free(&d);
    }
}

/* Parts of another search are not replaced by a worker, whatever it is told. */
TEST(a_worker_refuses_parts_of_another_search) {
    gf_discover_spec s = spec_of(7, 0.9, 2);
    gf_discover_result r;
    rows_at rows = {.reads = -1};
    gf_units u = units_of(&rows, parts, 192);
    u.worker = 1, u.patience = 1.0, u.force = 1;
    assert_int_equal(run(&s, &u, &r), GLOFND_OK);
    gf_discover_result_free(&r);
    s.k = 8;
    assert_int_equal(run(&s, &u, &r), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "parts of another search"));
    gf_unit_folder_remove(parts);
}

TEST(parts_of_another_search_are_refused) {
    gf_discover_spec s = spec_of(7, 0.9, 2);
    gf_discover_result r;
    rows_at rows = {.reads = -1};
    gf_units u = units_of(&rows, parts, 192);
    assert_int_equal(run(&s, &u, &r), GLOFND_OK);
    gf_discover_result_free(&r);
    s.k = 8;
    assert_int_equal(run(&s, &u, &r), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "parts of another search"));
    x[5][5] += 1.0f;
    s.k = 7;
    assert_int_equal(run(&s, &u, &r), GLOFND_E_ARGUMENT);
    x[5][5] -= 1.0f;
    u.force = 1, s.k = 8;
    assert_int_equal(run(&s, &u, &r), GLOFND_OK);
    assert_int_equal(rows.done, 0);
    gf_discover_result_free(&r);
    scratch_text(&box, "parts/of-the-user", "x");
    scratch_text(&box, "parts/pairs-000001.tmp-1-1", "x");
    gf_unit_folder_remove(u.folder);
    assert_int_equal(access(path_of("parts/of-the-user"), F_OK), 0);
    assert_int_not_equal(access(path_of("parts/pairs-000001.tmp-1-1"), F_OK), 0);
    assert_int_not_equal(access(path_of("parts/plan"), F_OK), 0);
}

/* 0: the device of GLOFND_TEST_DEVICE is not there. */
static const char *no_device(void) {
    const char *name = getenv("GLOFND_TEST_DEVICE");
    const gf_vectors one = {.x = x[0], .n = 1, .dim = DIM};
    void *state = NULL;
    device = gf_pairs_search_find(&err, name ? name : "cpu");
    if (!device || device->open(&err, &one, 1, &state) != GLOFND_OK) return err.text;
    device->close(state);
    return NULL;
}

static int make_all(void **state) {
    make_rows();
    if (make_box(state)) return -1;
    snprintf(parts, sizeof parts, "%s", path_of("parts"));
    return 0;
}

TEST_NEEDS(no_device)
TEST_GROUP(make_all, remove_box)
