/* unit_discover_api.c - glofnd_discover(): its arrays against all pairs in plain loops, types and strides, cancelling, wrong use,
 * and a folder whose tables say the same. */
#include "support/test.h"

#include "glofnd_discover.h"
#include "util/dtype.h"
#include "util/rng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 90, DIM = 12, BAD = 7, ZERO = 31, COPY = 60, OF = 20 };

static float x[N][DIM];
static int32_t label[N];

/* Clusters of ten rows; one row is not finite, one is zero, one a copy. */
static int draw_rows(void **state) {
    (void)state;
    gf_rng r = gf_rng_at(5, GF_RNG_INIT, 0, 0, 0);
    static float centre[9][DIM];
    for (int c = 0; c < 9; c++)
        for (int d = 0; d < DIM; d++) centre[c][d] = (float)gf_rng_normal(&r);
    for (int i = 0; i < N; i++) {
        label[i] = i / 10;
        for (int d = 0; d < DIM; d++) x[i][d] = centre[i / 10][d] + 0.4f * (float)gf_rng_normal(&r);
    }
    x[BAD][3] = NAN;
    memset(x[ZERO], 0, sizeof x[ZERO]);
    memcpy(x[COPY], x[OF], sizeof x[COPY]);
    return 0;
}

static glofnd_discover_spec spec_make(void) {
    return (glofnd_discover_spec){
        .size = sizeof(glofnd_discover_spec), .n = N, .dim = DIM, .x = x, .label = label, .alpha = 0.1, .top = 15, .threads = 2};
}

static glofnd_discovery *run(const glofnd_discover_spec *s, glofnd_discovery_arrays *view) {
    char why[300];
    glofnd_discovery *r = NULL;
    const glofnd_status status = glofnd_discover(s, &r, why, sizeof why);
    if (status != GLOFND_OK) fail_msg("glofnd_discover: %s", why);
    view->size = sizeof *view;
    assert_int_equal(glofnd_discovery_view(r, view), GLOFND_OK);
    return r;
}

/* ---- plain loops ---- */

static double similarity(int i, int j) {
    double dot = 0, a = 0, b = 0;
    for (int d = 0; d < DIM; d++) {
        dot += (double)x[i][d] * (double)x[j][d];
        a += (double)x[i][d] * (double)x[i][d], b += (double)x[j][d] * (double)x[j][d];
    }
    return dot / sqrt(a * b);
}

static int usable(int i) { return i != BAD && i != ZERO; }

static int descending(const void *a, const void *b) {
    const double u = *(const double *)a, v = *(const double *)b;
    return (u < v) - (u > v);
}

static double threshold_of(int i, int64_t rank) {
    double s[N];
    int n = 0;
    for (int j = 0; j < N; j++)
        if (j != i && usable(j)) s[n++] = similarity(i, j);
    qsort(s, (size_t)n, sizeof *s, descending);
    return s[rank - 1];
}

TEST(arrays_are_those_of_plain_loops) {
    const glofnd_discover_spec s = spec_make();
    glofnd_discovery_arrays v;
    glofnd_discovery *r = run(&s, &v);
    int64_t above = 0;
    assert_int_equal(v.usable, N - 2);
    assert_int_equal(v.rank, (int64_t)ceil(0.1 * (N - 3)));
    assert_true(v.kind[BAD] == 1 && v.kind[ZERO] == 2 && isnan(v.threshold[BAD]) && v.neighbour[ZERO * v.top] == -1);
    for (int i = 0; i < N; i++) {
        if (!usable(i)) continue;
        assert_true(fabs((double)v.threshold[i] - threshold_of(i, v.rank)) < 1e-5);
        assert_int_equal(v.above[i], v.first[i + 1] - v.first[i]); /* rank - 1 <= top: all are listed */
        above += v.above[i];
        for (int64_t p = v.first[i]; p < v.first[i + 1]; p++) {
            const int j = v.other[p];
            assert_true(fabs((double)v.pair_similarity[p] - similarity(i, j)) < 1e-5 && v.pair_similarity[p] > v.threshold[i]);
            assert_int_equal(v.pair_mutual[p], v.pair_similarity[p] > v.threshold[j]);
            assert_int_equal(v.neighbour[i * v.top + (p - v.first[i])], j);
        }
    }
    assert_true(above == v.pairs_above && above == v.pairs && above > 0 && v.components > 0 && v.precision > 0.5);
    assert_true(v.component_first[0] >= 0 && v.component[v.component_first[0]] == 0);
    assert_true(v.group[OF] >= 0 && v.group[OF] == v.group[COPY] && v.copies[OF] > 0);
    int found = 0;
    for (int64_t p = 0; p < v.duplicates; p++) found += v.dup_a[p] == OF && v.dup_b[p] == COPY && v.dup_exact[p];
    assert_int_equal(found, 1);
    glofnd_discovery_free(r);
}

TEST(types_and_strides_do_not_matter) {
    enum { STRIDE = DIM + 3 };
    static uint16_t half[N][STRIDE];
    static float same[N][STRIDE];
    for (glofnd_dtype dtype = GLOFND_BF16; dtype <= GLOFND_F16; dtype++) {
        glofnd_discover_spec s = spec_make(), t = spec_make();
        glofnd_discovery_arrays v, w;
        for (int i = 0; i < N; i++)
            for (int d = 0; d < DIM; d++) {
                gf_dtype_from_float(dtype, &half[i][d], &x[i][d], 1);
                same[i][d] = gf_dtype_at(dtype, half[i], d);
            }
        s.x = half, s.stride = STRIDE, s.dtype = dtype, s.threads = 1;
        t.x = same, t.stride = STRIDE;
        glofnd_discovery *a = run(&s, &v), *b = run(&t, &w);
        assert_memory_equal(v.threshold, w.threshold, sizeof(float) * N);
        assert_memory_equal(v.neighbour, w.neighbour, sizeof(int32_t) * (size_t)(N * v.top));
        glofnd_discovery_free(a);
        glofnd_discovery_free(b);
    }
}

static int count_calls(void *user, double share) {
    int *calls = user;
    assert_true(share >= 0.0 && share <= 1.0);
    return ++*calls >= 1000000;
}

static int stop_now(void *user, double share) { return (void)user, (void)share, 1; }

TEST(it_reports_and_can_be_cancelled) {
    glofnd_discover_spec s = spec_make();
    glofnd_discovery_arrays v;
    glofnd_discovery *r = NULL;
    char why[100];
    int calls = 0;
    s.progress = count_calls, s.user = &calls;
    glofnd_discovery_free(run(&s, &v));
    assert_true(calls > 0);
    s.progress = stop_now;
    assert_int_equal(glofnd_discover(&s, &r, why, sizeof why), GLOFND_E_CANCELLED);
    assert_true(!r && strstr(why, "cancelled"));
}

/* Rows of equal bytes, rows at or above any similarity, 0 included, and the default. */
TEST(duplicates_by_three_rules) {
    glofnd_discovery_arrays v;
    glofnd_discover_spec s = spec_make();
    int64_t pairs[4];
    for (int i = 0; i < 4; i++) {
        s.duplicates = i == 3 ? GLOFND_DUPLICATES_ABOVE : i, s.dup = i == 1 ? 0.98 : 0.0;
        glofnd_discovery *r = run(&s, &v);
        pairs[i] = v.duplicate_pairs;
        glofnd_discovery_free(r);
    }
    assert_int_equal(pairs[GLOFND_DUPLICATES_DEFAULT], pairs[GLOFND_DUPLICATES_ABOVE]);
    assert_true(pairs[GLOFND_DUPLICATES_EXACT] >= 1 && pairs[GLOFND_DUPLICATES_EXACT] <= pairs[GLOFND_DUPLICATES_DEFAULT]);
    assert_true(pairs[3] > pairs[GLOFND_DUPLICATES_DEFAULT]);
}

TEST(wrong_use_is_refused) {
    static const struct {
        double alpha, dup;
        int64_t k, n, stride, size, top;
        int status;
    } CASE[] = {
        {0.1, 0, 1, N, 0, 0, 0, GLOFND_E_OPTION},           {0, 0, 0, N, 0, 0, 0, GLOFND_E_OPTION},
        {1.5, 0, 0, N, 0, 0, 0, GLOFND_E_OPTION},           {0, 0, N, N, 0, 0, 0, GLOFND_E_OPTION},
        {0.1, 1.5, 0, N, 0, 0, 0, GLOFND_E_OPTION},         {0.1, 0, 0, 0, 0, 0, 0, GLOFND_E_ARGUMENT},
        {0.1, 0, 0, 1, 0, 0, 0, GLOFND_E_ARGUMENT},         {0.1, 0, 0, N, DIM - 1, 0, 0, GLOFND_E_ARGUMENT},
        {0.1, 0, 0, N, 0, -8, 0, GLOFND_E_ARGUMENT},        {0.1, 0, 0, N, 0, 0, 2000000, GLOFND_E_OPTION},
        {0.1, 0, 0, INT32_MAX, 0, 0, 0, GLOFND_E_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        glofnd_discover_spec s = spec_make();
        glofnd_discovery *r = NULL;
        char why[300] = "";
        s.alpha = CASE[i].alpha, s.k = CASE[i].k, s.dup = CASE[i].dup, s.duplicates = CASE[i].dup != 0, s.n = CASE[i].n,
        s.stride = CASE[i].stride;
        s.size += (size_t)CASE[i].size, s.top = CASE[i].top;
        const glofnd_status status = glofnd_discover(&s, &r, why, sizeof why);
        if ((int)status != CASE[i].status || r || !why[0]) fail_msg("case %zu: status %d, \"%s\"", i, (int)status, why);
    }
    assert_int_equal(glofnd_discover(NULL, NULL, NULL, 0), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_discovery_view(NULL, NULL), GLOFND_E_ARGUMENT);
    glofnd_discovery_free(NULL);
}

/* Lines of keep.txt are the rows that decisions keep, by the rule, and others are removed for one of these. */
TEST(decisions_are_those_of_the_folder) {
    char folder[] = "discover_api_XXXXXX", path[64], out[32], why[300] = "";
    int32_t thirds[N];
    double score[N];
    const glofnd_row_split split[] = {{"train", 0, N / 2}, {"test", N / 2, N - N / 2}}, shared[] = {{"a", 0, 9}, {"b", 8, 9}};
    glofnd_discover_spec s = spec_make();
    glofnd_discovery_arrays v;
    glofnd_decisions d = {.size = sizeof d};
    for (int i = 0; i < N; i++) thirds[i] = i % 3, score[i] = i;
    s.label = thirds, s.negatives = 3, s.duplicates = GLOFND_DUPLICATES_ABOVE, s.dup = 0.5;
    glofnd_discovery *r = run(&s, &v);
    assert_int_equal(v.negatives, 3);
    for (int64_t c = 0; c < 3 * N; c++)
        if (v.negative[c] >= 0) assert_true(v.negative_similarity[c] <= v.threshold[c / 3]);
    assert_int_equal(glofnd_discovery_decide(r, NULL, &d, why, sizeof why), GLOFND_OK);
    const int64_t first_keep = d.keep;
    glofnd_decide_spec q = {
        .size = sizeof q, .keep = GLOFND_KEEP_SCORE, .score = score, .split = split, .splits = 2, .sample = 4};
    assert_int_equal(glofnd_discovery_decide(r, &q, &d, why, sizeof why), GLOFND_OK);
    assert_true(d.keep > 4 && d.keep < N && first_keep > 4 && d.keep + d.duplicates + d.bad == N);
    assert_int_equal(d.samples, 4);
    assert_true(d.leaks > 0 && d.leak[1] > 0 && d.leak[2] > 0);
    int64_t stay = 0;
    for (int64_t i = 0; i < N; i++) {
        const int32_t kept = d.kept[i];
        stay += kept == i;
        assert_int_equal(kept < 0, v.kind[i] != 0);
        if (kept < 0 || kept == i) continue;
        assert_int_equal(d.kept[kept], kept);
        assert_true(d.kept_similarity[i] >= 0.5f);
        assert_true(kept < N / 2 || i >= N / 2); /* not for a row of a later split */
        if ((kept < N / 2) == (i < N / 2)) assert_true(kept > i);
    }
    assert_int_equal(stay, d.keep);
    for (int64_t k = 0; k < d.leaks; k++) assert_true((d.leak_a[k] < N / 2) != (d.leak_b[k] < N / 2));
    for (int64_t k = 1; k < d.issues; k++) assert_true(d.issue_score[k] <= d.issue_score[k - 1]);
    for (int64_t k = 1; k < d.outliers; k++) assert_true(d.outlier_score[k] >= d.outlier_score[k - 1]);
    assert_non_null(mkdtemp(folder));
    snprintf(out, sizeof out, "%s/out", folder);
    assert_int_equal(glofnd_discovery_save(r, out, NULL, why, sizeof why), GLOFND_OK);
    snprintf(path, sizeof path, "%s/keep.txt", out);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    int row = 0;
    int64_t lines = 0;
    while (fscanf(f, "%d", &row) == 1) assert_int_equal(d.kept[row], row), lines++;
    fclose(f);
    assert_int_equal(lines, d.keep);
    q.split = shared;
    assert_int_equal(glofnd_discovery_decide(r, &q, &d, why, sizeof why), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(why, "share rows"));
    q.splits = 0, q.score = NULL;
    assert_int_equal(glofnd_discovery_decide(r, &q, &d, why, sizeof why), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_discovery_decide(NULL, NULL, &d, NULL, 0), GLOFND_E_ARGUMENT);
    glofnd_discovery_free(r);
    snprintf(path, sizeof path, "rm -rf %s", folder);
    assert_int_equal(system(path), 0);
}

/* classes.txt holds the names; labels without a name, or names without labels, are refused. */
static void names_of_classes(glofnd_discover_spec *s, const char *out) {
    const char *classes[] = {"zero", "one\ttab", "two"};
    int32_t class_of[N];
    char path[64], line[40] = "", why[200];
    glofnd_discovery_files files = {.size = sizeof files, .classes = classes, .class_count = 3, .replace = 1};
    glofnd_discovery_arrays v;
    for (int i = 0; i < N; i++) class_of[i] = i % 3;
    for (int labelled = 0; labelled < 2; labelled++) {
        s->label = labelled ? class_of : NULL;
        glofnd_discovery *r = run(s, &v);
        files.class_count = 3;
        assert_int_equal(glofnd_discovery_save(r, out, &files, why, sizeof why), labelled ? GLOFND_OK : GLOFND_E_ARGUMENT);
        files.class_count = 2;
        assert_int_equal(glofnd_discovery_save(r, out, &files, why, sizeof why), GLOFND_E_ARGUMENT);
        glofnd_discovery_free(r);
    }
    snprintf(path, sizeof path, "%s/classes.txt", out);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(line, 1, sizeof line - 1, f), strlen("zero\none tab\ntwo\n"));
    assert_string_equal(line, "zero\none tab\ntwo\n");
    fclose(f);
}

TEST(the_folder_is_written_whole) {
    char folder[] = "discover_api_XXXXXX", path[64], out[32], line[200] = "", command[64];
    const char *names[N];
    glofnd_discover_spec s = spec_make();
    glofnd_discovery_arrays v;
    glofnd_discovery *r = run(&s, &v);
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < N; i++) names[i] = i == 1 ? "tab\there" : "name";
    snprintf(out, sizeof out, "%s/out", folder);
    assert_int_equal(glofnd_discovery_save(
                         r, out, &(glofnd_discovery_files){.size = sizeof(glofnd_discovery_files), .names = names, .replace = 0},
                         NULL, 0),
                     GLOFND_OK);
    assert_int_not_equal(
        glofnd_discovery_save(r, out,
                              &(glofnd_discovery_files){.size = sizeof(glofnd_discovery_files), .names = names, .replace = 0},
                              line, sizeof line),
        GLOFND_OK); /* is there */
    assert_int_equal(glofnd_discovery_save(
                         r, out, &(glofnd_discovery_files){.size = sizeof(glofnd_discovery_files), .names = NULL, .replace = 1},
                         NULL, 0),
                     GLOFND_OK);
    snprintf(path, sizeof path, "%s/pairs.tsv", out);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    int64_t lines = 0;
    while (fgets(line, sizeof line, f)) lines++;
    fclose(f);
    assert_int_equal(lines, v.pairs + 1);
    assert_int_equal(glofnd_discovery_save(NULL, out, NULL, NULL, 0), GLOFND_E_ARGUMENT);
    glofnd_discovery_free(r);
    names_of_classes(&s, out);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- files ---- */

static void write_table(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "key,kind");
    for (int d = 0; d < DIM; d++) fprintf(f, ",e%d", d);
    for (int i = 0; i < N; i++) {
        fprintf(f, "\nrow %d,%d", i, label[i]);
        for (int d = 0; d < DIM; d++) fprintf(f, ",%.9g", (double)x[i][d]);
    }
    fclose(f);
}

static void refused(glofnd_status want, const glofnd_embedding_files *files, const char *text) {
    char why[300] = "";
    glofnd_embeddings *e = (glofnd_embeddings *)why;
    assert_int_equal(glofnd_embeddings_open(files, &e, why, sizeof why), want);
    assert_null(e);
    if (!strstr(why, text)) fail_msg("'%s' does not say '%s'", why, text);
}

TEST(rows_can_be_those_of_files) {
    static const char path[] = "unit_discover_api.csv";
    const char *const paths[] = {path};
    glofnd_embedding_files files = {.size = sizeof files, .path = paths, .paths = 1, .id = "key", .label = "kind"};
    glofnd_embeddings_info info = {.size = sizeof info};
    glofnd_embeddings *e = NULL;
    glofnd_discovery_arrays want, got;
    float some[2][DIM];
    char why[300];
    write_table(path);
    assert_int_equal(glofnd_embeddings_open(&files, &e, why, sizeof why), GLOFND_OK);
    assert_int_equal(glofnd_embeddings_describe(e, &info), GLOFND_OK);
    assert_true(info.n == N && info.dim == DIM && info.files == 1);
    assert_non_null(strstr(info.columns, "e0 to e11"));
    assert_string_equal(info.name[COPY], "row 60");
    assert_string_equal(info.label[COPY], "6");
    assert_int_equal(glofnd_embeddings_read(e, OF, 2, some[0], why, sizeof why), GLOFND_OK);
    assert_memory_equal(some, x[OF], sizeof some);
    assert_int_equal(glofnd_embeddings_read(e, N - 1, 2, some[0], why, sizeof why), GLOFND_E_ARGUMENT);
    glofnd_discover_spec s = spec_make();
    glofnd_discovery *plain = run(&s, &want), *read, *none = NULL;
    s.files = e;
    assert_int_equal(glofnd_discover(&s, &none, why, sizeof why), GLOFND_E_ARGUMENT); /* files, and x */
    s.x = NULL, s.n = s.dim = 0;
    read = run(&s, &got);
    assert_memory_equal(got.neighbour, want.neighbour, N * 15 * sizeof *got.neighbour);
    assert_memory_equal(got.kind, want.kind, N);
    glofnd_discovery_free(plain);
    glofnd_discovery_free(read);
    glofnd_embeddings_close(e);
    files.id = "nobody";
    refused(GLOFND_E_ARGUMENT, &files, "nobody");
    files.id = NULL, files.paths = 0;
    refused(GLOFND_E_ARGUMENT, &files, "no path");
    files.paths = 1, files.size--;
    refused(GLOFND_E_ARGUMENT, &files, "size");
    refused(GLOFND_E_ARGUMENT, NULL, "NULL");
    unlink(path);
}

TEST(parts_give_the_result_of_memory_and_a_worker_makes_them) {
    static const char path[] = "unit_discover_parts.csv";
    const char *const paths[] = {path};
    glofnd_embedding_files files = {.size = sizeof files, .path = paths, .paths = 1, .id = "key", .label = "kind"};
    glofnd_embeddings *e = NULL;
    glofnd_discovery_arrays want, got;
    char folder[] = "unit_discover_parts.XXXXXX", part[64], why[300];
    assert_non_null(mkdtemp(folder));
    snprintf(part, sizeof part, "%s/pairs-000000", folder);
    write_table(path);
    assert_int_equal(glofnd_embeddings_open(&files, &e, why, sizeof why), GLOFND_OK);
    glofnd_discover_spec s = spec_make();
    glofnd_discovery *plain = run(&s, &want), *none = NULL;
    s.parts = folder;
    assert_int_equal(glofnd_discover(&s, &none, why, sizeof why), GLOFND_E_ARGUMENT); /* of rows in memory */
    s.files = e, s.x = NULL, s.n = s.dim = 0, s.worker = 1;
    assert_int_equal(glofnd_discover(&s, &none, why, sizeof why), GLOFND_OK);
    assert_null(none);
    assert_int_equal(access(part, F_OK), 0);
    s.worker = 0;
    glofnd_discovery *read = run(&s, &got);
    assert_memory_equal(got.neighbour, want.neighbour, N * 15 * sizeof *got.neighbour);
    assert_memory_equal(got.mutual, want.mutual, N * sizeof *got.mutual);
    glofnd_decide_spec d = {.size = sizeof d, .keep = GLOFND_KEEP_CENTRAL, .sample = 5};
    glofnd_decisions a = {.size = sizeof a}, b = {.size = sizeof b};
    assert_int_equal(glofnd_discovery_decide(plain, &d, &a, why, sizeof why), GLOFND_OK);
    assert_int_equal(glofnd_discovery_decide(read, &d, &b, why, sizeof why), GLOFND_OK);
    assert_memory_equal(a.kept, b.kept, N * sizeof *a.kept);
    assert_memory_equal(a.sample, b.sample, 5 * sizeof *a.sample);
    char out[80];
    snprintf(out, sizeof out, "%s.out", folder);
    assert_int_equal(glofnd_discovery_save(read, out, NULL, why, sizeof why), GLOFND_OK);
    assert_int_not_equal(access(folder, F_OK), 0); /* not needed any longer */
    glofnd_discovery_free(plain);
    glofnd_discovery_free(read);
    glofnd_embeddings_close(e);
    char command[200];
    snprintf(command, sizeof command, "rm -r %s", out);
    assert_int_equal(system(command), 0);
    unlink(path);
}

TEST_GROUP(draw_rows, NULL)
