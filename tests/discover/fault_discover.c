/* fault_discover.c - memory: each allocation of glofnd_discover and of saving its result may fail once, with nothing worse than
 * E_MEMORY, no result, and no folder. */
#include "support/test.h"

#include "discover/decide.h"
#include "discover/discover_files.h"
#include "discover/units.h"
#include "glofnd.h"
#include "glofnd_discover.h"
#include "support/faults.h"
#include "support/random.h"
#include "support/trial.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 40, DIM = 6 };

static float x[N][DIM];
static int32_t label[N];

static glofnd_discover_spec spec_make(void) {
    rng g = {7};
    for (int i = 0; i < N; i++) {
        label[i] = i % 4;
        for (int d = 0; d < DIM; d++) x[i][d] = (float)rng_normal(&g);
    }
    memcpy(x[9], x[3], sizeof x[9]);
    return (glofnd_discover_spec){
        .size = sizeof(glofnd_discover_spec), .n = N, .dim = DIM, .x = x, .label = label, .k = 3, .max_pairs = 20, .threads = 2};
}

TEST(a_search_without_memory) {
    const glofnd_discover_spec s = spec_make();
    long failures = 0;
    for (long k = 0;; k++) {
        glofnd_discovery *r = NULL;
        faults_at(k);
        const glofnd_status status = glofnd_discover(&s, &r, NULL, 0);
        const int failed = faults_end();
        if (failed && status != GLOFND_OK) { /* threads may be fewer: the search then goes on */
            assert_int_equal(status, GLOFND_E_MEMORY);
            assert_null(r);
            failures++;
        } else assert_int_equal(status, GLOFND_OK);
        glofnd_discovery_free(r);
        if (!failed) break;
    }
    assert_true(failures > 5);
}

TEST(a_folder_without_memory) {
    const glofnd_discover_spec s = spec_make();
    char folder[] = "fault_discover_XXXXXX", out[40], command[64];
    const char *names[N];
    glofnd_discovery *r = NULL;
    long failures = 0;
    const glofnd_discovery_files files = {.size = sizeof files, .names = names, .classes = names, .class_count = N};
    for (int i = 0; i < N; i++) names[i] = "name";
    assert_non_null(mkdtemp(folder));
    snprintf(out, sizeof out, "%s/out", folder);
    assert_int_equal(glofnd_discover(&s, &r, NULL, 0), GLOFND_OK);
    for (long k = 0;; k++) {
        faults_at(k);
        const glofnd_status status = glofnd_discovery_save(r, out, &files, NULL, 0);
        const int failed = faults_end();
        struct stat st;
        if (status != GLOFND_OK) {
            assert_true(failed);
            assert_int_not_equal(stat(out, &st), 0); /* all or nothing */
            failures++;
        } else break;
    }
    assert_true(failures > 2);
    glofnd_discovery_free(r);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* Rows that are not in memory: read again, from x. */
static glofnd_status read_rows(gf_error *err, void *user, int64_t first, int64_t rows, float *to) {
    (void)err, (void)user;
    memcpy(to, x[first], (size_t)rows * sizeof *x);
    return GLOFND_OK;
}

/* Decides and writes; 0 if memory failed. Nothing may be left behind then. */
static int decided(const gf_discover_data *d, const gf_discover_spec *s, const gf_discover_result *r, const char *out) {
    const gf_row_source source = {.read = read_rows, .n = N, .dim = DIM};
    const gf_decide_spec decide = {.keep = GF_KEEP_CENTRAL,
                                   .split = {{"a", 0, 15}, {"b", 15, 25}},
                                   .splits = 2,
                                   .outliers = 5,
                                   .negatives = 2,
                                   .sample = 4,
                                   .graph = 1,
                                   .rows = &source};
    gf_error err = {""};
    gf_decisions e = {0};
    glofnd_status status = gf_decide(&err, &decide, s, d, r, &e);
    const gf_discover_report report = {
        .source = "x", .s = s, .r = r, .d = d, .q = d, .format = GF_TABLE_PARQUET, .decide = &decide, .decisions = &e};
    if (status == GLOFND_OK) status = gf_discover_write(&err, out, 0, &report);
    gf_decisions_free(&e);
    return status == GLOFND_OK;
}

TEST(decisions_as_parquet_without_memory) {
    const char *names[N];
    char folder[] = "fault_discover_XXXXXX", out[40], command[64];
    gf_error err = {""};
    gf_discover_data d = {.n = N, .dim = DIM, .name = names, .label = label};
    gf_discover_spec s = {
        .k = 3, .task.top = 4, .max_pairs = 100, .dup = 0.6, .task.below = 2, .task.memory = 1 << 20, .task.threads = 1};
    gf_discover_result r = {0};
    long failures = 0;
    spec_make();
    for (int i = 0; i < N; i++) names[i] = "name";
    s.search = gf_pairs_search_find(&err, "cpu");
    d.x = malloc(sizeof x);
    assert_non_null(d.x);
    memcpy(d.x, x, sizeof x);
    assert_int_equal(gf_discover_classify(&err, &d), GLOFND_OK);
    assert_int_equal(gf_discover_run(&err, &s, &d, &r), GLOFND_OK);
    assert_null(d.x);
    assert_non_null(mkdtemp(folder));
    snprintf(out, sizeof out, "%s/out", folder);
    for (long k = 0;; k++) {
        struct stat st;
        faults_at(k);
        const int done = decided(&d, &s, &r, out), failed = faults_end();
        if (done) break;
        assert_true(failed);
        assert_int_not_equal(stat(out, &st), 0); /* all or nothing */
        failures++;
    }
    assert_true(failures > 20);
    d.name = NULL, d.label = NULL;
    gf_discover_data_free(&d);
    gf_discover_result_free(&r);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* A search by cells in units: what was finished before stays, and in the end it is whole. */
TEST(cells_in_units_without_memory) {
    char folder[] = "fault_discover_XXXXXX", parts[40];
    gf_error err = {""};
    const gf_units u = {.folder = parts, .source = {.read = read_rows, .n = N, .dim = DIM}, .rows = 64, .ranks = 1};
    const gf_discover_spec s = {.k = 3,
                                .task.top = 4,
                                .max_pairs = 100,
                                .dup = 0.6,
                                .task.below = 2,
                                .task.probe = 1,
                                .task.memory = 400000,
                                .task.threads = 1,
                                .search = &gf_pairs_search_cells};
    gf_discover_data d = {.n = N, .dim = DIM};
    long failures = 0;
    spec_make();
    assert_non_null(mkdtemp(folder));
    snprintf(parts, sizeof parts, "%s/parts", folder);
    assert_int_equal(gf_discover_classify_stream(&err, &u.source, &(gf_job_progress){0}, &d), GLOFND_OK);
    for (long k = 0;; k++) {
        gf_discover_result r;
        faults_at(k);
        const glofnd_status status = gf_discover_run_units(&err, &s, &u, &d, &r);
        const int failed = faults_end();
        if (status != GLOFND_OK) {
            assert_true(failed);
            assert_int_equal(status, GLOFND_E_MEMORY);
            failures++;
        } else gf_discover_result_free(&r);
        gf_unit_folder_remove(parts);
        if (!failed) break;
    }
    assert_true(failures > 20);
    gf_discover_data_free(&d);
    assert_int_equal(rmdir(folder), 0);
}

TEST_GROUP(trial_enter, trial_leave)
