/* unit_store_big.c - a store of a billion anchors costs what was touched: disk, saved file and time. */
#include "support/test.h"

#include "support/store_fixture.h"

#include <errno.h>
#include <time.h>

#define ANCHORS 1000000000
#define TOUCHED 100000
#define BATCH 1000

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* All different and all over the range: multiples of a number that has no divisor in common with it. */
static int64_t id_of(int64_t i) { return (i * 618033989) % ANCHORS; }

static glofnd_anchor row_of(int64_t i) {
    uint64_t seed = (uint64_t)i;
    return random_row(&seed, 0);
}

static int64_t file_bytes(const char *path, int on_disk) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return on_disk ? (int64_t)st.st_blocks * 512 : (int64_t)st.st_size;
}

static void touch(fixture *f, glofnd_store *s, int64_t count) {
    static int64_t id[BATCH];
    static glofnd_anchor rows[BATCH];
    for (int64_t i = 0; i < count; i += BATCH) {
        for (int64_t k = 0; k < BATCH; k++) {
            id[k] = id_of(i + k);
            rows[k] = row_of(i + k);
        }
        const glofnd_status status = glofnd_anchors_put(f->c, s, 0, id, BATCH, rows);
        if (status != GLOFND_OK) print_error("%s\n", glofnd_ctx_error(f->c));
        assert_int_equal(status, GLOFND_OK);
    }
}

static void check(fixture *f, const glofnd_store *s, int64_t count) {
    const glofnd_anchor fresh = {1, 0, 0, -INFINITY, 0, 0, 0, 0, 0};
    for (int64_t i = 0; i < count + TOUCHED; i++) {
        const glofnd_anchor expected = i < count ? row_of(i) : fresh, got = get_row(f, s, 0, id_of(i));
        assert_rows_equal(&got, &expected);
    }
}

TEST_WITH(test_mapped, fixture_open, fixture_close) {
    fixture *f = *state;
    const glofnd_store_spec spec = {.size = sizeof spec, .n = ANCHORS, .path = in_dir(f, "work")};
    glofnd_store *s = NULL, *t = NULL;
    const double t0 = seconds();
    const glofnd_status status = glofnd_store_create(f->c, &spec, &s);
    if (status == GLOFND_E_IO && strstr(glofnd_ctx_error(f->c), strerror(EFBIG))) skip(); /* no files of 20 GB there */
    assert_int_equal(status, GLOFND_OK);
    const double t1 = seconds();
    touch(f, s, TOUCHED);
    const double t2 = seconds();
    check(f, s, TOUCHED);
    const int64_t disk = file_bytes(in_dir(f, "work"), 1);
    print_message("  mapped in %s, n = 1e9, %d rows touched: file of %lld bytes, %lld bytes really allocated\n", scratch_root(),
                  TOUCHED, (long long)file_bytes(in_dir(f, "work"), 0), (long long)disk);
    assert_true(disk < 1000000000);
    const double t3 = seconds();
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "saved")), GLOFND_OK);
    const double t4 = seconds();
    glofnd_store_free(s);
    const int64_t saved = file_bytes(in_dir(f, "saved"), 0);
    assert_true(saved < 50000000);
    const double t5 = seconds();
    assert_int_equal(glofnd_store_load(f->c, in_dir(f, "saved"), NULL, &t), GLOFND_OK);
    const double t6 = seconds();
    check(f, t, TOUCHED);
    glofnd_store_free(t);
    s = new_store(f, ANCHORS, 1, 0, 0, 0, in_dir(f, "work"));
    print_message("  saved file %lld bytes; create %.3f s, put %.3f s, save %.3f s, load %.3f s, reopen %.3f s\n",
                  (long long)saved, t1 - t0, t2 - t1, t4 - t3, t6 - t5, seconds() - t6);
    check(f, s, TOUCHED);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "again")), GLOFND_OK);
    assert_same_bytes(in_dir(f, "saved"), in_dir(f, "again"));
    glofnd_store_free(s);
}

/* Fewer rows: disks are slow at writing, and at forgetting, pages far apart. */
TEST_WITH(test_load_mapped, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = new_store(f, ANCHORS, 1, 0, 0, 0, NULL), *t = NULL;
    touch(f, s, 2 * BATCH);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "saved")), GLOFND_OK);
    glofnd_store_free(s);
    const glofnd_status status = glofnd_store_load(f->c, in_dir(f, "saved"), in_dir(f, "work"), &t);
    if (status == GLOFND_E_IO && strstr(glofnd_ctx_error(f->c), strerror(EFBIG))) skip();
    assert_int_equal(status, GLOFND_OK);
    check(f, t, 2 * BATCH);
    assert_int_equal(glofnd_store_save(f->c, t, in_dir(f, "again")), GLOFND_OK);
    assert_same_bytes(in_dir(f, "saved"), in_dir(f, "again"));
    glofnd_store_free(t);
    assert_true(file_bytes(in_dir(f, "work"), 1) < 3 * 2 * BATCH * GF_STORE_PAGE);
}

TEST_WITH(test_in_memory, fixture_open, fixture_close) {
    fixture *f = *state;
    const glofnd_store_spec spec = {.size = sizeof spec, .n = ANCHORS};
    glofnd_store *s = NULL, *t = NULL;
    if (glofnd_store_create(f->c, &spec, &s) == GLOFND_E_MEMORY) skip(); /* a kernel that never promises more than it has */
    touch(f, s, TOUCHED);
    check(f, s, TOUCHED);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "saved")), GLOFND_OK);
    glofnd_store_free(s);
    assert_int_equal(glofnd_store_load(f->c, in_dir(f, "saved"), NULL, &t), GLOFND_OK);
    check(f, t, TOUCHED);
    assert_int_equal(glofnd_store_save(f->c, t, in_dir(f, "again")), GLOFND_OK);
    assert_same_bytes(in_dir(f, "saved"), in_dir(f, "again"));
    glofnd_store_free(t);
}

/* The largest n there is, which no memory or disk could hold: a few anchors at its ends. */
TEST_WITH(test_largest, fixture_open, fixture_close) {
    fixture *f = *state;
    const gf_store_spec spec = {GF_STORE_MAX_N, 2, 1, 0, 0, 0, 0};
    glofnd_store *s = NULL, *t = NULL;
    if (gf_store_make(f->c, &spec, NULL, &s) == GLOFND_E_MEMORY) skip();
    put_row(f, s, 1, GF_STORE_MAX_N - 1, row_of(1));
    put_row(f, s, 0, 0, row_of(2));
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "saved")), GLOFND_OK);
    glofnd_store_free(s); /* two of them are more than the address space */
    assert_int_equal(glofnd_store_load(f->c, in_dir(f, "saved"), NULL, &t), GLOFND_OK);
    const glofnd_anchor a = get_row(f, t, 1, GF_STORE_MAX_N - 1), b = row_of(1);
    assert_rows_equal(&a, &b);
    glofnd_store_free(t);
}
