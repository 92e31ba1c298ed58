/* unit_discover_run.c - around the search: reading embeddings, bad rows, copies, totals, caps, labels, the learner, folders. */
#include "support/test.h"

#include "discover/discover_files.h"
#include "discover/output_files.h"
#include "eval/detectors.h"
#include "io/npy.h"
#include "support/random.h"
#include "support/scratch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gf_error err;
/* Clusters of ten rows, with labels that are the cluster, but for every eighth row: another one, or none. */
static gf_discover_data make_data(int64_t n, int64_t dim, uint64_t seed) {
    gf_discover_data d = {.n = n, .dim = dim, .x = malloc((size_t)(n * dim) * sizeof *d.x)};
    rng g = {seed};
    d.label = malloc((size_t)n * sizeof *d.label);
    float *centre = malloc((size_t)dim * sizeof *centre);
    for (int64_t i = 0; i < n; i++) {
        d.label[i] = i % 8 == 3 ? (i % 16 == 3 ? -1 : 0) : (int32_t)(i / 10);
        for (int64_t k = 0; k < dim; k++) {
            if (i % 10 == 0) centre[k] = (float)rng_normal(&g);
            d.x[i * dim + k] = centre[k] + 0.4f * (float)rng_normal(&g);
        }
    }
    free(centre);
    return d;
}

static gf_discover_spec spec_of(int64_t k) {
    return (gf_discover_spec){.k = k,
                              .task.top = 20,
                              .max_pairs = 1000000,
                              .dup = 0.98,
                              .batch = 64,
                              .epochs = 40,
                              .sample = 50,
                              .seed = 3,
                              .task.memory = (size_t)1 << 30,
                              .task.threads = 2,
                              .search = &gf_pairs_search_cpu};
}

/* ----- input ----- */

TEST(float16_and_float32_files_are_read) {
    const uint16_t half[6] = {0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0x0000};
    const double expected[6] = {1.0, -2.0, 0.333251953125, 5.9604644775390625e-8, 65504.0, 0.0};
    static const char header[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }";
    unsigned char file[128 + sizeof half];
    memset(file, ' ', sizeof file);
    memcpy(file, header, sizeof header - 1);
    file[127] = '\n';
    memcpy(file + 128, half, sizeof half);
    scratch_write(&box, "half.npy", file, sizeof file);
    gf_discover_data d = {0};
    assert_int_equal(gf_embeddings_load(&err, scratch_path(&box, "half.npy"), NULL, &d.n, &d.dim, &d.x), GLOFND_OK);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.dim, 3);
    for (int i = 0; i < 6; i++) assert_true((double)d.x[i] == expected[i]);
    gf_discover_data_free(&d);
    scratch_write(&box, "cut.npy", file, sizeof file - 1);
    assert_int_equal(gf_embeddings_load(&err, scratch_path(&box, "cut.npy"), NULL, &d.n, &d.dim, &d.x), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "the header promises 12 bytes of data, the file has 11"));
    gf_discover_data_free(&d);
}

TEST(names_are_one_a_line) {
    gf_discover_data d = {.n = 3, .dim = 1};
    scratch_text(&box, "names", "a\r\n\nb\tc");
    assert_int_equal(gf_discover_read_names(&err, scratch_path(&box, "names"), NULL, &d), GLOFND_OK);
    assert_string_equal(d.name[0], "a");
    assert_string_equal(d.name[1], "");
    assert_string_equal(d.name[2], "b\tc");
    scratch_text(&box, "names", "a\nb\n");
    assert_int_equal(gf_discover_read_names(&err, scratch_path(&box, "names"), NULL, &d), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "2 names for 3 embeddings"));
    scratch_write(&box, "names", "a\0b\nc\nd\n", 8);
    assert_int_equal(gf_discover_read_names(&err, scratch_path(&box, "names"), NULL, &d), GLOFND_E_FORMAT);
    gf_discover_data_free(&d);
}

TEST(bad_rows_and_copies_are_found) {
    gf_discover_data d = make_data(50, 6, 1);
    d.x[7 * 6 + 5] = INFINITY;
    memset(d.x + 9 * 6, 0, 6 * sizeof *d.x);
    d.x[9 * 6] = -0.0f;
    memcpy(d.x + 30 * 6, d.x + 2 * 6, 6 * sizeof *d.x);
    memcpy(d.x + 49 * 6, d.x + 2 * 6, 6 * sizeof *d.x);
    memcpy(d.x + 11 * 6, d.x + 10 * 6, 6 * sizeof *d.x);
    assert_int_equal(gf_discover_classify(&err, &d), GLOFND_OK);
    assert_int_equal(d.good_n, 48);
    assert_int_equal(d.distinct, 45);
    assert_int_equal(d.kind[7], GF_ROW_NOT_FINITE);
    assert_int_equal(d.kind[9], GF_ROW_ZERO);
    assert_int_equal(d.good[9], 11); /* position 9 is row 11, a copy of row 10 at position 8 */
    assert_int_equal(d.copy_of[9], 8);
    assert_int_equal(d.copy_of[28], 2);
    assert_int_equal(d.copy_of[47], 2);
    gf_discover_data_free(&d);
}

/* ----- totals ----- */

TEST(rank_follows_alpha_or_k) {
    gf_discover_spec s = spec_of(5);
    int64_t rank = 0;
    assert_int_equal(gf_discover_rank(&err, &s, 100, &rank), GLOFND_OK);
    assert_int_equal(rank, 6);
    assert_int_equal(gf_discover_rank(&err, &s, 7, &rank), GLOFND_OK);
    assert_int_equal(gf_discover_rank(&err, &s, 6, &rank), GLOFND_E_OPTION);
    assert_int_equal(gf_discover_rank(&err, &s, 2, &rank), GLOFND_E_ARGUMENT);
    s.k = 0, s.alpha = 0.1;
    assert_int_equal(gf_discover_rank(&err, &s, 101, &rank), GLOFND_OK);
    assert_int_equal(rank, 10);
    assert_int_equal(gf_discover_rank(&err, &s, 102, &rank), GLOFND_OK);
    assert_int_equal(rank, 11);
    assert_int_equal(gf_discover_rank(&err, &s, 1, &rank), GLOFND_E_ARGUMENT);
}

TEST(labels_are_judged_as_everywhere) {
    gf_discover_data d = make_data(203, 16, 2);
    const gf_discover_spec s = spec_of(9);
    gf_discover_result r;
    gf_view_set all = {.n = d.n, .dim = d.dim, .label = d.label};
    all.z = malloc((size_t)(d.n * d.dim) * sizeof *all.z);
    all.id = malloc((size_t)d.n * sizeof *all.id);
    memcpy(all.z, d.x, (size_t)(d.n * d.dim) * sizeof *all.z);
    for (int64_t i = 0; i < d.n; i++) all.id[i] = i;
    gf_fn_counts *counts = calloc((size_t)d.n, sizeof *counts);
    assert_int_equal(gf_discover_classify(&err, &d), GLOFND_OK);
    assert_int_equal(gf_discover_run(&err, &s, &d, &r), GLOFND_OK);
    assert_int_equal(gf_fn_count(&err, &all, r.f.lambda, 1, &(gf_sweep_job){.threads = 1}, counts), GLOFND_OK);
    const gf_precision_recall expected = gf_fn_precision_recall(counts, d.n, 1);
    assert_true(r.quality.precision == expected.precision && r.quality.recall == expected.recall);
    assert_true(r.quality.pooled_f1 == expected.pooled_f1 && r.quality.precision > 0.5);
    assert_null(d.x); /* not needed any more, so not kept */
    free(counts);
    free(all.z);
    free(all.id);
    gf_discover_result_free(&r);
    gf_discover_data_free(&d);
}

TEST(a_cap_keeps_the_most_similar) {
    gf_discover_data d = make_data(120, 8, 4);
    gf_discover_spec s = spec_of(6);
    gf_discover_result r;
    memcpy(d.x + 8, d.x, 8 * sizeof *d.x); /* a copy: two pairs that are equal */
    s.max_pairs = 77;
    assert_int_equal(gf_discover_classify(&err, &d), GLOFND_OK);
    assert_int_equal(gf_discover_run(&err, &s, &d, &r), GLOFND_OK);
    assert_int_equal(r.listed, 77);
    assert_true(r.listed_of > 700 && r.above == r.listed_of);
    int64_t listed = 0, ties = 0;
    float least = 2.0f, most_left_out = -2.0f;
    for (int64_t i = 0; i < r.f.n; i++)
        for (int64_t k = 0; k < r.f.top; k++) {
            const float v = r.f.similarity[i * r.f.top + k];
            if (!(v > r.f.lambda[i])) continue;
            if (gf_discover_listed(&r, i, k, &ties)) listed++, least = fminf(least, v);
            else most_left_out = fmaxf(most_left_out, v);
        }
    assert_int_equal(listed, 77);
    assert_true(least >= most_left_out);
    gf_discover_result_free(&r);
    gf_discover_data_free(&d);
}

TEST(exact_duplicates_are_equal_rows_only) {
    gf_discover_data d = make_data(60, 8, 6);
    gf_discover_spec s = spec_of(4);
    gf_discover_result r;
    for (int64_t k = 0; k < 8; k++) {
        d.x[5 * 8 + k] = d.x[17 * 8 + k] = d.x[40 * 8 + k];
        d.x[8 + k] = 2.0f * d.x[k]; /* similarity 1, other bytes */
    }
    s.dup_exact = 1;
    assert_int_equal(gf_discover_classify(&err, &d), GLOFND_OK);
    assert_int_equal(gf_discover_run(&err, &s, &d, &r), GLOFND_OK);
    assert_int_equal(r.dup_pairs, 3);
    assert_int_equal(r.groups.count, 1);
    assert_int_equal(r.groups.part[0].nodes, 3);
    assert_int_equal(r.groups.of[17], 0);
    assert_int_equal(r.groups.of[1], -1);
    gf_discover_result_free(&r);
    gf_discover_data_free(&d);
}

/* The computed similarity of two equal rows may be a little less than 1. */
TEST(equal_rows_are_duplicates_whatever_their_roundings) {
    enum { N = 80, DIM = 768 };
    gf_discover_data d = make_data(N, DIM, 7);
    gf_discover_spec s = spec_of(2);
    gf_discover_result r;
    int below = 0;
    for (int64_t i = 0; i < N / 2 * DIM; i++) {
        const int64_t row = i / DIM;
        if (row >= 2) d.x[i] = fabsf(d.x[i]); /* roundings add up; most in rows of one number */
        else d.x[i] = row ? 3.3f : (float)(i % 2) * 0.7f;
        d.x[N / 2 * DIM + i] = d.x[i];
    }
    s.dup = 1.0;
    assert_int_equal(gf_discover_classify(&err, &d), GLOFND_OK);
    assert_int_equal(gf_discover_run(&err, &s, &d, &r), GLOFND_OK);
    assert_int_equal(r.dup_pairs, N / 2);
    assert_int_equal(r.dup_listed, N / 2);
    for (int64_t i = 0; i < N; i++) below += r.f.similarity[i * r.f.top] < 1.0f;
    assert_true(below > 0);
    s.dup = 0.98;
    assert_true(gf_discover_dup(&s, DIM) == 0.98f);
    gf_discover_result_free(&r);
    gf_discover_data_free(&d);
}

/* New rows 0 to 9, of which 2 and 7 are stored, 2 three times; 4 is stored twice as long. Rows that cannot be compared stand
 * before them on both sides, so that positions are no rows. */
static void make_leak(gf_discover_data *d, gf_discover_data *q) {
    *d = make_data(60, 8, 6), *q = make_data(10, 8, 12);
    memset(d->x, 0, 8 * sizeof *d->x);
    q->x[3] = NAN;
    for (int64_t k = 0; k < 8; k++) {
        q->x[2 * 8 + k] = d->x[5 * 8 + k] = d->x[17 * 8 + k] = d->x[40 * 8 + k];
        q->x[7 * 8 + k] = d->x[59 * 8 + k];
        d->x[20 * 8 + k] = 2.0f * q->x[4 * 8 + k];
    }
    assert_int_equal(gf_discover_classify(&err, d), GLOFND_OK);
    assert_int_equal(gf_discover_classify(&err, q), GLOFND_OK);
}

TEST(new_rows_are_found_among_stored_ones_by_their_bytes) {
    static const int32_t expected[9] = {-1, 4, -1, -1, -1, -1, 58, -1, -1}; /* by position: row - 1 on either side */
    static const int exact[3] = {0, 1, 0};
    static const int64_t pairs[3] = {5, 4, 5}, listed[3] = {5, 2, 0}, top[3] = {20, 20, 0};
    float lambda[60] = {0};
    for (int way = 0; way < 3; way++) {
        gf_discover_data d, q;
        gf_discover_spec s = spec_of(4);
        gf_discover_result r;
        make_leak(&d, &q);
        s.dup_exact = exact[way], s.task.top = top[way];
        assert_int_equal(gf_discover_query(&err, &s, &d, lambda, &q, &r), GLOFND_OK);
        assert_int_equal(r.f.n, 9);
        assert_memory_equal(r.stored_copy, expected, sizeof expected);
        assert_int_equal(r.stored_copies, 2);
        assert_int_equal(r.dup_pairs, pairs[way]);
        assert_int_equal(r.dup_listed, listed[way]);
        assert_true(gf_discover_exact(&d, &r, 1, 4) && gf_discover_exact(&d, &r, 1, 39) && gf_discover_exact(&d, &r, 6, 58));
        assert_false(gf_discover_exact(&d, &r, 3, 19) || gf_discover_exact(&d, &r, 1, 58) || gf_discover_exact(&d, &r, 4, 4));
        gf_discover_result_free(&r);
        gf_discover_data_free(&d);
        gf_discover_data_free(&q);
    }
}

TEST(learned_thresholds_come_near) {
    gf_discover_data d = make_data(400, 24, 9);
    gf_discover_spec s = spec_of(0);
    gf_discover_result r;
    s.alpha = 0.1, s.learned = 1;
    assert_int_equal(gf_discover_classify(&err, &d), GLOFND_OK);
    assert_int_equal(gf_discover_run(&err, &s, &d, &r), GLOFND_OK);
    assert_int_equal(r.error.count, 50);
    assert_true(r.error.mae > 0.0 && r.error.mae < 0.04);
    assert_true(fabs((double)r.above / (400.0 * 399.0) - 0.1) < 0.03);
    gf_discover_result_free(&r);
    gf_discover_data_free(&d);
}

/* ----- folders ----- */

static int exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

static void put_file(const gf_output_folder *f, const char *name) {
    char path[4096];
    assert_int_equal(gf_output_folder_path(&err, f, name, path), GLOFND_OK);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static int has_mark(const char *folder) {
    char path[600];
    snprintf(path, sizeof path, "%s/mark", folder);
    return exists(path);
}

static int never(const char *folder) { return (void)folder, 0; }

static const char *const result_files[] = {"mark", "first", "new", NULL};
static const gf_output_kind results = {result_files, has_mark, "mark", "page"}, others = {result_files, never, "mark", NULL};

TEST(folders_are_whole_or_not_there) {
    const char *target = scratch_path(&box, "result");
    char temp[256];
    gf_output_folder f;
    assert_int_equal(gf_output_folder_open(&err, &f, target, 0, &results), GLOFND_OK);
    put_file(&f, "first");
    snprintf(temp, sizeof temp, "%s", f.temp);
    gf_output_folder_close(&f); /* given up */
    assert_false(exists(temp) || exists(target));
    assert_int_equal(gf_output_folder_open(&err, &f, target, 0, &results), GLOFND_OK);
    put_file(&f, "mark");
    assert_false(exists(target));
    assert_int_equal(gf_output_folder_commit(&err, &f), GLOFND_OK);
    gf_output_folder_close(&f);
    assert_true(exists(target));
    assert_int_equal(gf_output_folder_open(&err, &f, target, 0, &results), GLOFND_E_IO);
    gf_output_folder_close(&f);
    assert_int_equal(gf_output_folder_check(&err, target, 1, &others), GLOFND_E_IO);
    assert_int_equal(gf_output_folder_open(&err, &f, target, 1, &results), GLOFND_OK);
    put_file(&f, "new");
    assert_int_equal(gf_output_folder_commit(&err, &f), GLOFND_OK);
    gf_output_folder_close(&f);
    assert_true(exists(scratch_path(&box, "result/new")));
    assert_false(exists(scratch_path(&box, "result/mark")));
}

TEST(an_abandoned_folder_cannot_appear) {
    const char *target = scratch_path(&box, "abandoned");
    char temp[256];
    gf_output_folder f;
    assert_int_equal(gf_output_folder_open(&err, &f, target, 0, &results), GLOFND_OK);
    put_file(&f, "mark");
    snprintf(temp, sizeof temp, "%s", f.temp);
    gf_output_folder_abandon(target, &results);
    assert_false(exists(temp) || exists(target));
    assert_int_equal(gf_output_folder_commit(&err, &f), GLOFND_E_IO);
    gf_output_folder_close(&f);
    assert_int_equal(gf_output_folder_open(&err, &f, target, 0, &results), GLOFND_OK);
    put_file(&f, "mark");
    assert_int_equal(gf_output_folder_commit(&err, &f), GLOFND_OK);
    gf_output_folder_close(&f);
    gf_output_folder_abandon(target, &results); /* nothing to do */
    assert_true(exists(target));
}

static void write_to(const char *path) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static void make_result(const char *target) {
    gf_output_folder f;
    assert_int_equal(gf_output_folder_open(&err, &f, target, 1, &results), GLOFND_OK);
    put_file(&f, "mark");
    assert_int_equal(gf_output_folder_commit(&err, &f), GLOFND_OK);
    gf_output_folder_close(&f);
}

TEST(files_of_the_user_stay_in_a_replaced_result) {
    char target[300];
    snprintf(target, sizeof target, "%s", scratch_path(&box, "shared"));
    make_result(target);
    write_to(scratch_path(&box, "shared/thesis.tex"));
    assert_int_equal(mkdir(scratch_path(&box, "shared/plots"), 0777), 0);
    write_to(scratch_path(&box, "shared/plots/a"));
    make_result(target);
    assert_true(exists(scratch_path(&box, "shared/thesis.tex")) && exists(scratch_path(&box, "shared/plots/a")));
    assert_true(exists(scratch_path(&box, "shared/mark")));
}

TEST(leftovers_of_killed_calls_go_and_others_stay) {
    char target[300];
    gf_output_folder busy;
    snprintf(target, sizeof target, "%s", scratch_path(&box, "left"));
    assert_int_equal(mkdir(scratch_path(&box, "left.tmp-77-0"), 0777), 0);
    write_to(scratch_path(&box, "left.tmp-77-0/first"));
    assert_int_equal(mkdir(scratch_path(&box, "left.tmp-a1B2c3"), 0777), 0); /* of an earlier version */
    assert_int_equal(mkdir(scratch_path(&box, "left.tmp-notes-1"), 0777), 0);
    assert_int_equal(mkdir(scratch_path(&box, "left.tmp-8-8"), 0777), 0);
    write_to(scratch_path(&box, "left.tmp-8-8/letter"));
    assert_int_equal(gf_output_folder_open(&err, &busy, target, 1, &results), GLOFND_OK);
    put_file(&busy, "mark");
    make_result(target);
    assert_false(exists(scratch_path(&box, "left.tmp-77-0")) || exists(scratch_path(&box, "left.tmp-a1B2c3")));
    assert_true(exists(scratch_path(&box, "left.tmp-notes-1")) && exists(scratch_path(&box, "left.tmp-8-8/letter")));
    assert_int_equal(gf_output_folder_commit(&err, &busy), GLOFND_OK); /* it was locked */
    gf_output_folder_close(&busy);
}

TEST(result_folders_follow_the_umask) {
    struct stat st;
    char target[300];
    snprintf(target, sizeof target, "%s", scratch_path(&box, "private"));
    const mode_t before = umask(077);
    make_result(target);
    umask(before);
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

TEST_GROUP(make_box, remove_box)
