/* unit_store_map.c - the working file of a mapped store: sparse, found again as it was, refused when it belongs to a different
 * store. */
#include "support/test.h"

#include "support/store_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "io/blockfile.h"

static int without_locks;

/* Stands for the one of libc: a file system may have no locks. */
int flock(int fd, int operation) {
    if (!without_locks) return (int)syscall(SYS_flock, fd, operation);
    errno = ENOLCK;
    return -1;
}

static glofnd_status try_open(fixture *f, int64_t n, int modalities, int temperatures, const char *path) {
    const gf_store_spec spec = {n, modalities, temperatures, 0, 0, 0, 0};
    glofnd_store *s = (glofnd_store *)f;
    const glofnd_status status = gf_store_make(f->c, &spec, path, &s);
    if (status != GLOFND_OK) assert_null(s);
    glofnd_store_free(s);
    return status;
}

static void assert_refused(fixture *f, glofnd_status status, glofnd_status expected, const char *text) {
    assert_int_equal(status, expected);
    if (!strstr(glofnd_ctx_error(f->c), text)) fail_msg("'%s' without '%s'", glofnd_ctx_error(f->c), text);
}

static int64_t disk_bytes(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (int64_t)st.st_blocks * 512;
}

static int64_t touched_rows(const glofnd_store *s) {
    glofnd_store_info info = {.size = sizeof info};
    assert_int_equal(glofnd_store_describe(s, &info), GLOFND_OK);
    return info.touched_rows;
}

TEST_WITH(test_reopen, fixture_open, fixture_close) {
    fixture *f = *state;
    for (int kind = 0; kind < 4; kind++) {
        const int modalities = 1 + kind / 2, temperatures = kind % 2;
        const int64_t n = 200000;
        const char *work = in_dir(f, "work");
        glofnd_store *m = new_store(f, n, modalities, temperatures, 0, 0, NULL);
        glofnd_store *s = new_store(f, n, modalities, temperatures, 0, 0, work);
        fill_store(f, m, 7001, 3);
        fill_store(f, s, 7001, 3);
        assert_stores_equal(f, m, s);
        const int64_t touched = touched_rows(s);
        assert_int_equal(touched, touched_rows(m));
        glofnd_store_free(s);
        s = new_store(f, n, modalities, temperatures, 0, 0, work);
        assert_stores_equal(f, m, s);
        assert_true(touched_rows(s) >= touched);
        assert_int_equal(glofnd_store_save(f->c, m, in_dir(f, "a")), GLOFND_OK);
        assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "b")), GLOFND_OK);
        assert_same_bytes(in_dir(f, "a"), in_dir(f, "b"));
        glofnd_store_free(s);
        glofnd_store_free(m);
        unlink(work);
    }
}

/* A copy without holes: everything is data, nothing is different. */
TEST_WITH(test_dense_copy, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = new_store(f, 50000, 1, 0, 0, 0, in_dir(f, "work"));
    fill_store(f, s, 9001, 4);
    size_t n;
    unsigned char *p = read_bytes(in_dir(f, "work"), &n);
    write_bytes(in_dir(f, "copy"), p, n);
    free(p);
    glofnd_store *t = new_store(f, 50000, 1, 0, 0, 0, in_dir(f, "copy"));
    assert_stores_equal(f, s, t);
    assert_int_equal(touched_rows(t), 50000);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "a")), GLOFND_OK);
    assert_int_equal(glofnd_store_save(f->c, t, in_dir(f, "b")), GLOFND_OK);
    assert_same_bytes(in_dir(f, "a"), in_dir(f, "b"));
    glofnd_store_free(s);
    glofnd_store_free(t);
}

TEST_WITH(test_other_store, fixture_open, fixture_close) {
    fixture *f = *state;
    const char *work = in_dir(f, "work");
    assert_int_equal(try_open(f, 1000, 1, 0, work), GLOFND_OK);
    assert_refused(f, try_open(f, 1001, 1, 0, work), GLOFND_E_FORMAT, "has n 1000, and this store needs 1001");
    assert_refused(f, try_open(f, 1000, 2, 0, work), GLOFND_E_FORMAT, "has modalities 1, and this store needs 2");
    assert_refused(f, try_open(f, 1000, 1, 1, work), GLOFND_E_FORMAT, "has temperatures 0, and this store needs 1");
    assert_int_equal(try_open(f, 1000, 1, 0, work), GLOFND_OK);
    assert_int_equal(truncate(work, 4096 + 20 * 1000 + 1), 0);
    assert_refused(f, try_open(f, 1000, 1, 0, work), GLOFND_E_FORMAT, "bytes");
    assert_int_equal(truncate(work, 4096 + 20 * 1000 - 1), 0);
    assert_refused(f, try_open(f, 1000, 1, 0, work), GLOFND_E_FORMAT, "bytes");
    assert_int_equal(truncate(work, 50), 0);
    assert_refused(f, try_open(f, 1000, 1, 0, work), GLOFND_E_FORMAT, "bytes");
    assert_int_equal(truncate(work, 30), 0);
    assert_refused(f, try_open(f, 1000, 1, 0, work), GLOFND_E_FORMAT, "corrupt header");
    assert_int_equal(truncate(work, 0), 0); /* an empty file counts as missing */
    assert_int_equal(try_open(f, 1000, 2, 1, work), GLOFND_OK);
    write_bytes(work, "something else entirely, and not ours", 37);
    assert_refused(f, try_open(f, 1000, 1, 0, work), GLOFND_E_FORMAT, "not a GloFND working file");
    size_t n;
    unsigned char *p = read_bytes(work, &n);
    assert_int_equal(n, 37); /* and what is not ours stays */
    free(p);
}

TEST_WITH(test_header_damage, fixture_open, fixture_close) {
    fixture *f = *state;
    const char *work = in_dir(f, "work");
    assert_int_equal(try_open(f, 100, 1, 0, work), GLOFND_OK);
    size_t n;
    unsigned char *p = read_bytes(work, &n);
    for (size_t i = 0; i < 40; i++) {
        p[i] ^= 4;
        write_bytes(work, p, n);
        assert_int_equal(try_open(f, 100, 1, 0, work), GLOFND_E_FORMAT);
        p[i] ^= 4;
    }
    gf_le32_put(p + 8, 2);
    gf_le32_put(p + 36, gf_crc32c(0, p, 36));
    write_bytes(work, p, n);
    assert_refused(f, try_open(f, 100, 1, 0, work), GLOFND_E_FORMAT, "of keys");
    gf_le32_put(p + 8, 3);
    gf_le32_put(p + 36, gf_crc32c(0, p, 36));
    write_bytes(work, p, n);
    assert_refused(f, try_open(f, 100, 1, 0, work), GLOFND_E_FORMAT, "newer version");
    gf_le32_put(p + 8, 1);
    for (int i = 0; i < 2; i++) { /* the mark of the other byte order */
        const unsigned char keep = p[12 + i];
        p[12 + i] = p[15 - i];
        p[15 - i] = keep;
    }
    gf_le32_put(p + 36, gf_crc32c(0, p, 36));
    write_bytes(work, p, n);
    assert_refused(f, try_open(f, 100, 1, 0, work), GLOFND_E_FORMAT, "byte order");
    free(p);
}

TEST_WITH(test_refused_paths, fixture_open, fixture_close) {
    fixture *f = *state;
    assert_int_equal(try_open(f, 10, 1, 0, f->dir), GLOFND_E_IO);
    assert_int_equal(try_open(f, 10, 1, 0, in_dir(f, "no/such/folder")), GLOFND_E_IO);
    assert_int_equal(try_open(f, 10, 1, 0, ""), GLOFND_E_IO);
    assert_int_equal(mkfifo(in_dir(f, "pipe"), 0600), 0);
    assert_refused(f, try_open(f, 10, 1, 0, in_dir(f, "pipe")), GLOFND_E_IO, "not a regular file");
    glofnd_store *s = new_store(f, 10, 1, 0, 0, 0, in_dir(f, "work"));
    assert_refused(f, try_open(f, 10, 1, 0, in_dir(f, "work")), GLOFND_E_IO, "in use");
    glofnd_store_free(s);
    assert_int_equal(try_open(f, 10, 1, 0, in_dir(f, "work")), GLOFND_OK);
}

/* A load replaces a working file, unless that is in use; without working locks use cannot be detected. */
TEST_WITH(test_load_onto_a_working_file, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = new_store(f, 10, 1, 0, 0, 0, in_dir(f, "work")), *t = NULL;
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "saved")), GLOFND_OK);
    assert_refused(f, glofnd_store_load(f->c, in_dir(f, "saved"), in_dir(f, "work"), &t), GLOFND_E_IO, "in use");
    glofnd_store_free(s);
    for (without_locks = 0; without_locks < 2; without_locks++) {
        assert_int_equal(glofnd_store_load(f->c, in_dir(f, "saved"), in_dir(f, "work"), &t), GLOFND_OK);
        glofnd_store_free(t);
    }
    without_locks = 0;
}

/* Disk space is taken page by page by what is written, and by nothing that is only read. */
TEST_WITH(test_sparse, fixture_open, fixture_close) {
    fixture *f = *state;
    const char *work = in_dir(f, "work");
    const int64_t n = 50000000;
    glofnd_store *s = new_store(f, n, 1, 0, 0, 0, work);
    const int64_t empty = disk_bytes(work);
    uint64_t seed = 8;
    assert_true(empty <= 64 * 1024);
    for (int64_t id = 0; id < n; id += 100003) (void)get_row(f, s, 0, id);
    for (int64_t i = 0; i < 100; i++) put_row(f, s, 0, i * 400009, random_row(&seed, 0));
    glofnd_store_free(s);
    const int64_t grown = disk_bytes(work) - empty;
    assert_true(grown >= 100 * GF_STORE_PAGE);
    assert_true(grown <= 4 * 100 * GF_STORE_PAGE);
    s = new_store(f, n, 1, 0, 0, 0, work);
    assert_true(touched_rows(s) <= 2 * 100 * GF_STORE_BLOCK);
    glofnd_store_free(s);
}

/* Taking space changes no state, and happens once. */
TEST_WITH(test_prepare, fixture_open, fixture_close) {
    fixture *f = *state;
    const char *work = in_dir(f, "work");
    glofnd_store *s = new_store(f, 1000000, 1, 0, 0, 0, work), *fresh = new_store(f, 1000000, 1, 0, 0, 0, NULL);
    gf_error err = {""};
    const int64_t id[] = {0, 204, -1, 999999, 500000, 0};
    const int64_t before = disk_bytes(work);
    assert_int_equal(gf_store_prepare(&err, s, id, 6), GLOFND_OK);
    const int64_t after = disk_bytes(work);
    assert_true(after >= before + 4 * GF_STORE_PAGE);
    assert_int_equal(touched_rows(s), 0);
    assert_stores_equal(f, s, fresh);
    assert_int_equal(gf_store_prepare(&err, s, id, 6), GLOFND_OK);
    assert_int_equal(disk_bytes(work), after);
    struct stat st;
    assert_int_equal(stat(work, &st), 0);
    assert_int_equal(st.st_size, 4096 + 20 * 1000000);
    assert_int_equal(gf_store_prepare(&err, fresh, id, 6), GLOFND_OK);
    glofnd_store_free(s);
    glofnd_store_free(fresh);
}

/* Record 204 lies across pages 0 and 1, its clock in page 1. Where one part is all zero, a copy may have made a hole of the page:
 * the record is still whole. */
static void check_hole(fixture *f, glofnd_anchor row, int empty_page) {
    const char *work = in_dir(f, "work");
    glofnd_store *s = new_store(f, 1000, 1, 0, 0, 0, work);
    put_row(f, s, 0, 204, row);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "a")), GLOFND_OK);
    glofnd_store_free(s);
    const int fd = open(work, O_RDWR);
    const int failed = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (1 + empty_page) * 4096, 4096);
    close(fd);
    if (failed) skip();
    s = new_store(f, 1000, 1, 0, 0, 0, work);
    assert_false(gf_bit(s->pages, empty_page));
    const glofnd_anchor got = get_row(f, s, 0, 204);
    assert_rows_equal(&got, &row);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "b")), GLOFND_OK);
    assert_same_bytes(in_dir(f, "a"), in_dir(f, "b"));
    glofnd_store_free(s);
    unlink(work);
}

TEST_WITH(test_hole_in_record, fixture_open, fixture_close) {
    check_hole(*state, (glofnd_anchor){1, 0, 0, -3, 0, 0, 0, 0, 0}, 1);
    check_hole(*state, (glofnd_anchor){0, 0, 0, -INFINITY, 5, 0, 0, 0, 0}, 0);
}
