/* unit_learned_thresholds.c - the thresholds of a run as all evaluations read them: of one rank and of several, for data in
 * another order,
 * and what is refused. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <ftw.h>

#include "loop/anchors.h"
#include "run/run_folder.h"
#include "support/store_fixture.h"

#define N 10
#define LETTERS "abcdefghij"

typedef struct made { /* a run folder with a checkpoint of N samples, named a, b, c ... */
    const fixture *f;
    char run[400], step[1100], anchors[1200], list[500];
    gf_config config;
} made;

static void touch(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

static gf_dataset *named(const made *m, const char *letters) {
    gf_error err = {""};
    gf_dataset *d = NULL;
    char spec[600];
    FILE *list = fopen(m->list, "w");
    assert_non_null(list);
    fputs("filepath\n", list);
    for (const char *p = letters; *p; p++) fprintf(list, "%c.png\n", *p);
    fclose(list);
    snprintf(spec, sizeof spec, "csv:%s", m->list);
    if (gf_dataset_open(&err, spec, &d) != GLOFND_OK) fail_msg("%s", err.text);
    return d;
}

static void make_run(const fixture *f, const char *name, const char *letters, made *m) {
    gf_error err = {""};
    char path[1000], file[1200];
    *m = (made){.f = f};
    assert_int_equal(gf_config_init(&err, &m->config), GLOFND_OK);
    snprintf(m->run, sizeof m->run, "%s/%s", f->dir, name);
    snprintf(m->list, sizeof m->list, "%s/list", f->dir);
    snprintf(path, sizeof path, "%s/checkpoints", m->run);
    snprintf(m->step, sizeof m->step, "%s/step-5", path);
    snprintf(m->anchors, sizeof m->anchors, "%s/" GF_ANCHORS_FILE, m->step);
    assert_int_equal(mkdir(m->run, 0777) | mkdir(path, 0777) | mkdir(m->step, 0777), 0);
    snprintf(file, sizeof file, "%s/DONE", m->step);
    touch(file);
    if (!letters) return;
    gf_dataset *d = named(m, letters);
    snprintf(file, sizeof file, "%s/" GF_KEYS_FILE, m->step);
    if (gf_keys_save(&err, d, file) != GLOFND_OK) fail_msg("%s", err.text);
    gf_dataset_free(d);
}

/* Threshold of anchor i on a side; every fourth was never visited. */
static float lambda_of(int64_t i, int side) { return 0.01f * (float)(i + 1) + 0.5f * (float)side; }
static int is_visited(int64_t i) { return i % 4 != 3; }

/* Anchors first, first + stride ... in a file; rows: of the store. */
static void save_rows(const made *m, const char *path, int64_t rows, int64_t first, int64_t stride, int sides, float shared) {
    const gf_store_spec spec = {.n = rows, .modalities = sides};
    glofnd_store *s = NULL;
    assert_int_equal(gf_store_make(m->f->c, &spec, NULL, &s), GLOFND_OK);
    for (int64_t k = 0; k < rows; k++) {
        const int64_t i = first + k * stride;
        for (int side = 0; side < sides && stride > 0 && is_visited(i); side++) {
            const glofnd_anchor row = {.lambda = lambda_of(i, side), .log_u = 0.0f, .clock = 2};
            assert_int_equal(glofnd_anchors_put(m->f->c, s, side, &k, 1, &row), GLOFND_OK);
        }
    }
    const glofnd_anchor all = {.lambda = shared, .clock = 1};
    if (shared > 0.0f) gf_store_shared_put(s, 0, &all);
    assert_int_equal(glofnd_store_save(m->f->c, s, path), GLOFND_OK);
    glofnd_store_free(s);
}

static void save_parts(const made *m, int ranks, int sides) {
    char path[1300];
    save_rows(m, m->anchors, N, 0, 0, sides, 0.0f);
    for (int r = 0; r < ranks; r++) {
        gf_anchors_part_name(m->anchors, r, ranks, path, sizeof path);
        save_rows(m, path, (N - r + ranks - 1) / ranks, r, ranks, sides, 0.0f);
    }
}

static int partial; /* for read_run */

static glofnd_status read_run(const made *m, const char *letters, gf_error *err, gf_learned *out) {
    gf_dataset *d = named(m, letters);
    const glofnd_status status = gf_learned_read(err, m->run, &m->config, d, "csv:list", partial, out);
    gf_dataset_free(d);
    return status;
}

/* The sample called 'a' + i has the threshold of anchor i, wherever it stands. */
static void finds(const made *m, const char *letters, int sides) {
    gf_error err = {""};
    gf_learned l;
    if (read_run(m, letters, &err, &l) != GLOFND_OK) fail_msg("%s: %s", letters, err.text);
    assert_int_equal(l.n, N);
    assert_int_equal(l.sides, sides);
    for (int side = 0; side < sides; side++)
        for (int64_t at = 0; at < N; at++) {
            const int64_t i = letters[at] - 'a';
            if (is_visited(i)) assert_true(l.at[side][at] == lambda_of(i, side));
            else assert_true(isnan(l.at[side][at]));
        }
    gf_learned_free(&l);
}

static void refuses(const made *m, const char *letters, glofnd_status wanted, const char *text) {
    gf_error err = {""};
    gf_learned l;
    assert_int_equal(read_run(m, letters, &err, &l), wanted);
    if (!strstr(err.text, text)) fail_msg("\"%s\" is not in: %s", text, err.text);
    assert_int_equal(l.n, 0);
    assert_null(l.at[0]);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at) {
    (void)s, (void)kind, (void)at;
    return remove(path);
}

static int close_all(void **state) {
    nftw(((const fixture *)*state)->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return fixture_close(state);
}

/* ----- tests ----- */

TEST_WITH(test_one_rank, fixture_open, close_all) {
    made m;
    make_run(*state, "run", LETTERS, &m);
    save_rows(&m, m.anchors, N, 0, 1, 1, 0.0f);
    finds(&m, LETTERS, 1);
    finds(&m, "jihgfedcba", 1);
    finds(&m, "cadbefgjhi", 1);
}

/* Row i is row i / R of part i mod R; also in a folder whose name a shell would take for a pattern. */
TEST_WITH(test_several_ranks, fixture_open, close_all) {
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int sides = 1; sides <= 2; sides++) {
            made m;
            char name[40];
            snprintf(name, sizeof name, "r*[%d?]-%d", ranks, sides);
            make_run(*state, name, LETTERS, &m);
            save_parts(&m, ranks, sides);
            finds(&m, LETTERS, sides);
            finds(&m, "badcfehgji", sides);
        }
}

/* One for all is in force where an anchor has none of its own. */
TEST_WITH(test_shared, fixture_open, close_all) {
    made m;
    gf_error err = {""};
    gf_learned l;
    make_run(*state, "run", LETTERS, &m);
    save_rows(&m, m.anchors, N, 0, 1, 1, 0.75f);
    assert_int_equal(read_run(&m, LETTERS, &err, &l), GLOFND_OK);
    for (int64_t i = 0; i < N; i++) assert_true(l.at[0][i] == (is_visited(i) ? lambda_of(i, 0) : 0.75f));
    gf_learned_free(&l);
}

TEST_WITH(test_other_data, fixture_open, close_all) {
    made m;
    make_run(*state, "run", LETTERS, &m);
    save_rows(&m, m.anchors, N, 0, 1, 1, 0.0f);
    refuses(&m, "abcdefghix", GLOFND_E_ARGUMENT, "9 of them are in this data and 1 are missing, and 1 here have none");
    refuses(&m, "abcde", GLOFND_E_ARGUMENT, "5 of them are in this data and 5 are missing, and 0 here have none");
    refuses(&m, LETTERS "x", GLOFND_E_ARGUMENT, "thresholds of 10 samples");
}

/* A tenth may be missing or new: the others keep their thresholds, in any order, and new ones have none. */
TEST_WITH(test_changed_data, fixture_open, close_all) {
    made m;
    gf_error err = {""};
    gf_learned l;
    make_run(*state, "run", LETTERS, &m);
    save_rows(&m, m.anchors, N, 0, 1, 1, 0.0f);
    partial = 1;
    assert_int_equal(read_run(&m, "ihgfedcbx", &err, &l), GLOFND_E_ARGUMENT); /* a and j are two of ten */
    assert_int_equal(read_run(&m, "xjihgfedcb", &err, &l), GLOFND_OK);
    assert_true(l.n == 10 && l.lost == 1 && l.fresh == 1 && isnan(l.at[0][0]));
    for (int i = 1; i < 10; i++) assert_true(is_visited(10 - i) ? l.at[0][i] == lambda_of(10 - i, 0) : isnan(l.at[0][i]));
    gf_learned_free(&l);
    assert_int_equal(read_run(&m, "abcdefghi", &err, &l), GLOFND_OK);
    assert_true(l.n == 9 && l.lost == 1 && l.fresh == 0 && l.at[0][8] == lambda_of(8, 0));
    gf_learned_free(&l);
    partial = 0;
}

/* Names that occur twice: in the order of training all is well, in another one nobody knows. */
TEST_WITH(test_repeated_names, fixture_open, close_all) {
    made m;
    gf_error err = {""};
    gf_learned l;
    make_run(*state, "run", "abcdefghii", &m);
    save_rows(&m, m.anchors, N, 0, 1, 1, 0.0f);
    assert_int_equal(read_run(&m, "abcdefghii", &err, &l), GLOFND_OK);
    assert_true(l.at[0][9] == lambda_of(9, 0));
    gf_learned_free(&l);
    refuses(&m, "iibcdefgha", GLOFND_E_ARGUMENT, "1 of their names are repeated");
}

/* Where nothing was learned there is nothing to give to the wrong sample; the same without a checkpoint. */
TEST_WITH(test_nothing_learned, fixture_open, close_all) {
    made m;
    gf_error err = {""};
    gf_learned l;
    make_run(*state, "run", LETTERS, &m);
    save_rows(&m, m.anchors, N, 0, 0, 1, 0.0f);
    assert_int_equal(read_run(&m, "xyz", &err, &l), GLOFND_OK);
    assert_true(l.n == 0 && l.sides == 0 && !l.at[0]);
    snprintf(m.run, sizeof m.run, "%s/nowhere", ((const fixture *)*state)->dir);
    assert_int_equal(read_run(&m, "xyz", &err, &l), GLOFND_OK);
    assert_int_equal(l.sides, 0);
}

/* A checkpoint of an earlier version: numbers of samples are all there is to compare. */
TEST_WITH(test_without_keys, fixture_open, close_all) {
    made m;
    make_run(*state, "run", NULL, &m);
    save_rows(&m, m.anchors, N, 0, 1, 1, 0.0f);
    finds(&m, LETTERS, 1);
    refuses(&m, "abc", GLOFND_E_FORMAT, "10 anchors, not 3");
}

TEST_WITH(test_damaged_parts, fixture_open, close_all) {
    made m;
    char path[1300];
    make_run(*state, "run", LETTERS, &m);
    save_parts(&m, 3, 1);
    gf_anchors_part_name(m.anchors, 1, 3, path, sizeof path);
    save_rows(&m, path, 4, 1, 3, 1, 0.0f);
    refuses(&m, LETTERS, GLOFND_E_FORMAT, "part 1 of 3 of the anchors holds 4 of 1 sides instead of 3 of 1");
    save_rows(&m, path, 3, 1, 3, 2, 0.0f);
    refuses(&m, LETTERS, GLOFND_E_FORMAT, "3 of 2 sides instead of 3 of 1");
    assert_int_equal(unlink(path), 0);
    refuses(&m, LETTERS, GLOFND_E_IO, "00001-of-00003");
    gf_anchors_part_name(m.anchors, 0, 3, path, sizeof path);
    assert_int_equal(unlink(path), 0); /* the last one is left */
    refuses(&m, LETTERS, GLOFND_E_IO, "00000-of-00003");
    gf_anchors_part_name(m.anchors, 0, 2, path, sizeof path);
    touch(path);
    refuses(&m, LETTERS, GLOFND_E_FORMAT, "different numbers of ranks");
}

/* Files that are no parts, however much they look like some. */
TEST_WITH(test_names_of_parts, fixture_open, close_all) {
    static const char *const others[] = {"x.00000-of-00002.tmp-1", "x.00002-of-00002", "x.-0001-of-00002", "x.0-of", "x.old",
                                         "xx.00000-of-00002"};
    const fixture *f = *state;
    gf_error err = {""};
    int ranks = -1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) touch(in_dir(f, others[i]));
    assert_int_equal(gf_anchors_part_count(&err, in_dir(f, "x"), &ranks), GLOFND_OK);
    assert_int_equal(ranks, 0);
    touch(in_dir(f, "x.00001-of-00002"));
    assert_int_equal(gf_anchors_part_count(&err, in_dir(f, "x"), &ranks), GLOFND_OK);
    assert_int_equal(ranks, 2);
    assert_int_equal(gf_anchors_part_count(&err, in_dir(f, "none/x"), &ranks), GLOFND_E_IO); /* not: no parts */
}

/* ----- keys that are numbers ----- */

static glofnd_status enough(const char *now, const char *before) {
    gf_error err = {""};
    gf_dataset *d = NULL;
    if (gf_dataset_open(&err, now, &d) != GLOFND_OK) fail_msg("%s", err.text);
    const glofnd_status status = gf_keys_check_pictures(&err, d, now, before);
    gf_dataset_free(d);
    return status;
}

TEST(test_numbers_of_pictures) {
    assert_int_equal(enough("shapes:n=8,classes=4,size=16,seed=1", "shapes:n=8,classes=4,size=16,seed=1"), GLOFND_OK);
    assert_int_equal(enough("shapes:n=8,classes=4,size=16", "shapes:seed=1,size=16,n=8,classes=4"), GLOFND_OK);
    assert_int_equal(enough("shapes:n=8,classes=2,size=16,seed=1", "shapes:n=8,classes=4,size=16,seed=1"), GLOFND_E_ARGUMENT);
    assert_int_equal(enough("shapes:n=8,classes=4,size=8,seed=1", "shapes:n=8,classes=4,size=16,seed=1"), GLOFND_E_ARGUMENT);
    assert_int_equal(enough("shapes:n=8", "folder:/nowhere/at/all"), GLOFND_OK);
}

/* train.bin of CIFAR-100 in a folder of its own: four pictures, with labels from `label` on. */
static void write_cifar(const fixture *f, const char *folder, int label) {
    char path[600];
    unsigned char record[2 + 3072] = {0};
    assert_int_equal(mkdir(in_dir(f, folder), 0777), 0);
    snprintf(path, sizeof path, "%s/train.bin", in_dir(f, folder));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 4; i++) {
        record[0] = (unsigned char)(label / 5), record[1] = (unsigned char)(label + i);
        assert_int_equal(fwrite(record, sizeof record, 1, file), 1);
    }
    fclose(file);
}

/* The same files elsewhere, or by their coarse classes, are the same pictures; other labels are others'. */
TEST_WITH(test_numbers_of_cifar, fixture_open, close_all) {
    const fixture *f = *state;
    char a[600], b[600], coarse[620], other[600], gone[600];
    write_cifar(f, "a", 3);
    write_cifar(f, "b", 3);
    write_cifar(f, "c", 4);
    snprintf(a, sizeof a, "cifar100:%s/a", f->dir);
    snprintf(b, sizeof b, "cifar100:%s/b", f->dir);
    snprintf(coarse, sizeof coarse, "%s?coarse=1", b);
    snprintf(other, sizeof other, "cifar100:%s/c", f->dir);
    snprintf(gone, sizeof gone, "cifar100:%s/d", f->dir);
    assert_int_equal(enough(b, a), GLOFND_OK);
    assert_int_equal(enough(coarse, a), GLOFND_OK);
    assert_int_equal(enough(other, a), GLOFND_E_ARGUMENT);
    assert_int_equal(enough(other, gone), GLOFND_OK);
}
