/* fault_store.c - the anchor store when things fail: every allocation in turn, a full disk, a folder that cannot be written.
 *
 * What holds afterwards: the right status, no object, no new file, the old file as it was, and (by a leak checker) nothing lost.
 */
#include "support/test.h"

#include "support/faults.h"
#include "support/store_fixture.h"

#include "method/context.h"

#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

/* ----- allocations that fail ----- */

typedef glofnd_status (*call)(fixture *f, glofnd_store *s, glofnd_store **out);

/* Runs `what` with its k-th allocation failing, for k = 0, 1, ... until it is not reached any more. */
static void fail_each(fixture *f, glofnd_store *s, call what, int at_least) {
    const int files = count_files(f->dir);
    for (int k = 0;; k++) {
        glofnd_store *out = NULL;
        faults_at(k);
        const glofnd_status status = what(f, s, &out);
        if (!faults_end()) {
            assert_int_equal(status, GLOFND_OK);
            glofnd_store_free(out);
            assert_true(k >= at_least);
            return;
        }
        assert_int_equal(status, GLOFND_E_MEMORY);
        assert_null(out);
        assert_true(strlen(glofnd_ctx_error(f->c)) > 0);
        assert_int_equal(count_files(f->dir), files);
    }
}

static glofnd_status create_in_memory(fixture *f, glofnd_store *s, glofnd_store **out) {
    (void)s;
    return gf_store_make(f->c, &(gf_store_spec){10000, 2, 1, 50, 8, 0, 0}, NULL, out);
}

static glofnd_status create_mapped(fixture *f, glofnd_store *s, glofnd_store **out) {
    (void)s;
    return gf_store_make(f->c, &(gf_store_spec){10000, 2, 1, 50, 8, 0, 0}, in_dir(f, "new"), out);
}

static glofnd_status save(fixture *f, glofnd_store *s, glofnd_store **out) {
    (void)out;
    const glofnd_status status = glofnd_store_save(f->c, s, in_dir(f, "target"));
    if (status != GLOFND_OK) assert_same_bytes(in_dir(f, "target"), in_dir(f, "old"));
    return status;
}

static glofnd_status load_in_memory(fixture *f, glofnd_store *s, glofnd_store **out) {
    (void)s;
    return glofnd_store_load(f->c, in_dir(f, "saved"), NULL, out);
}

static glofnd_status load_mapped(fixture *f, glofnd_store *s, glofnd_store **out) {
    (void)s;
    const glofnd_status status = glofnd_store_load(f->c, in_dir(f, "saved"), in_dir(f, "target"), out);
    if (status != GLOFND_OK) assert_same_bytes(in_dir(f, "target"), in_dir(f, "old"));
    return status;
}

static glofnd_status put(fixture *f, glofnd_store *s, glofnd_store **out) {
    (void)out;
    const glofnd_anchor before = get_row(f, s, 0, 77), row = {.lambda = 0.5f, .clock = before.clock + 1, .log_u = 1};
    const glofnd_status status = glofnd_anchors_put(f->c, s, 0, &(int64_t){77}, 1, &row);
    const glofnd_anchor after = get_row(f, s, 0, 77);
    assert_int_equal(after.clock, status == GLOFND_OK ? row.clock : before.clock);
    return status;
}

/* 717 keys: the last one makes the store double. */
static glofnd_status grow_keys(fixture *f, glofnd_store *s, const char *path) {
    const glofnd_store_spec spec = {.size = sizeof spec, .path = path, .keyed = 1};
    glofnd_status status = glofnd_store_create(f->c, &spec, &s);
    for (int64_t i = 0; i < 717 && status == GLOFND_OK; i++) {
        glofnd_store_info before = {.size = sizeof before}, after = {.size = sizeof after};
        const glofnd_anchor row = {.lambda = 0.5f, .clock = 1, .log_u = (float)i};
        assert_int_equal(glofnd_store_describe(s, &before), GLOFND_OK);
        status = glofnd_anchors_put(f->c, s, 0, &(int64_t){i * i}, 1, &row);
        assert_int_equal(glofnd_store_describe(s, &after), GLOFND_OK);
        if (status == GLOFND_OK) continue;
        assert_true(before.keys == i && after.keys == i && before.n == after.n);
        for (int64_t k = 0; k < 717; k += 50) { /* reads allocate: the fault is over */
            glofnd_anchor got;
            assert_int_equal(glofnd_anchors_get(f->c, s, 0, &(int64_t){k * k}, 1, &got), GLOFND_OK);
            assert_true(got.clock == (k < i) && (k >= i || got.log_u == (float)k));
        }
        (void)gf_fail(&f->c->err, status, "%s", "no memory");
    }
    glofnd_store_free(s);
    if (path) unlink(path);
    return status;
}

static glofnd_status keys_in_memory(fixture *f, glofnd_store *s, glofnd_store **out) {
    (void)out;
    return grow_keys(f, s, NULL);
}

static glofnd_status keys_mapped(fixture *f, glofnd_store *s, glofnd_store **out) {
    (void)out;
    return grow_keys(f, s, in_dir(f, "keys"));
}

static glofnd_store *filled(fixture *f) {
    glofnd_store *s = new_store(f, 10000, 2, 1, 50, 8, NULL);
    fill_store(f, s, 333, 6);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "saved")), GLOFND_OK);
    write_bytes(in_dir(f, "target"), "what was there", 14);
    write_bytes(in_dir(f, "old"), "what was there", 14);
    return s;
}

TEST_WITH(test_allocations, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = filled(f);
    fail_each(f, NULL, create_in_memory, 8);
    fail_each(f, NULL, create_mapped, 7);
    fail_each(f, s, put, 1);
    fail_each(f, NULL, keys_in_memory, 700);
    fail_each(f, NULL, keys_mapped, 700);
    fail_each(f, s, save, 2);
    write_bytes(in_dir(f, "target"), "what was there", 14);
    fail_each(f, NULL, load_in_memory, 9);
    fail_each(f, NULL, load_mapped, 9);
    glofnd_store_free(s);
}

static long address_space_kb(void) {
    long pages = 0;
    FILE *p = fopen("/proc/self/statm", "r");
    if (!p || fscanf(p, "%ld", &pages) != 1) pages = 0;
    if (p) fclose(p);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Memory that comes from the kernel directly: no address space left for it. */
TEST_WITH(test_address_space, fixture_open, fixture_close) {
    fixture *f = *state;
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    small = old;
    small.rlim_cur = (rlim_t)2 << 30;
    if (address_space_kb() > (1 << 20)) skip(); /* a sanitizer, which itself needs more than the limit */
    const int64_t sizes[][3] = {{1000000000, 0, 0}, {(int64_t)1 << 40, 0, 0}, {10, 1 << 20, 1 << 12}};
    for (int mapped = 0; mapped < 2; mapped++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const char *path = mapped ? in_dir(f, "new") : NULL;
            const gf_store_spec spec = {sizes[i][0], 1, 0, sizes[i][1], sizes[i][2], 0, 0};
            glofnd_store *s = NULL;
            assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
            const glofnd_status status = gf_store_make(f->c, &spec, path, &s);
            assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
            /* 2^40 anchors are also more than most file systems take in one file */
            assert_true(status == GLOFND_E_MEMORY || (mapped && status == GLOFND_E_IO));
            assert_null(s);
            assert_int_equal(count_files(f->dir), 0);
        }
    }
}

/* ----- files that cannot be written ----- */

TEST_WITH(test_file_size_limit, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = filled(f), *out = NULL;
    const int files = count_files(f->dir);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < 4096; limit += 1000) { /* each write stops short at a different place */
        small = old;
        small.rlim_cur = limit;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const glofnd_status saved = glofnd_store_save(f->c, s, in_dir(f, "target"));
        const glofnd_status loaded = glofnd_store_load(f->c, in_dir(f, "saved"), in_dir(f, "target"), &out);
        const glofnd_status made = create_mapped(f, NULL, &out);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(saved, GLOFND_E_IO);
        assert_int_equal(loaded, GLOFND_E_IO);
        assert_int_equal(made, GLOFND_E_IO);
        assert_null(out);
        assert_same_bytes(in_dir(f, "target"), in_dir(f, "old"));
        assert_int_equal(count_files(f->dir), files);
    }
    signal(SIGXFSZ, handler);
    assert_int_equal(save(f, s, NULL), GLOFND_OK);
    assert_same_bytes(in_dir(f, "target"), in_dir(f, "saved"));
    glofnd_store_free(s);
}

TEST_WITH(test_unwritable_folder, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = filled(f), *out = NULL;
    assert_int_equal(chmod(f->dir, 0555), 0);
    const uid_t user = geteuid();
    if (user == 0 && seteuid(65534) != 0) skip(); /* root may write anywhere: drop privileges meanwhile */
    const glofnd_status saved = glofnd_store_save(f->c, s, in_dir(f, "target"));
    const glofnd_status fresh = glofnd_store_save(f->c, s, in_dir(f, "fresh"));
    const glofnd_status mapped = create_mapped(f, NULL, &out);
    const glofnd_status loaded = glofnd_store_load(f->c, in_dir(f, "saved"), in_dir(f, "work"), &out);
    if (user == 0) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(f->dir, 0700), 0);
    assert_int_equal(saved, GLOFND_E_IO);
    assert_int_equal(fresh, GLOFND_E_IO);
    assert_int_equal(mapped, GLOFND_E_IO);
    assert_int_equal(loaded, GLOFND_E_IO);
    assert_null(out);
    assert_same_bytes(in_dir(f, "target"), in_dir(f, "old"));
    assert_int_equal(count_files(f->dir), 3);
    glofnd_store_free(s);
}

/* Puts single rows far apart until the disk is full; how many went in. */
static int64_t fill_disk(fixture *f, glofnd_store *s) {
    uint64_t seed = 5;
    for (int64_t i = 0; i < 1000; i++) {
        const glofnd_anchor row = random_row(&seed, 0);
        const glofnd_status status = glofnd_anchors_put(f->c, s, 0, &(int64_t){i * 1000003}, 1, &row);
        if (status == GLOFND_OK) continue;
        assert_int_equal(status, GLOFND_E_IO);
        assert_non_null(strstr(glofnd_ctx_error(f->c), "no space"));
        return i;
    }
    return -1;
}

static int close_with_disk(void **state) {
    const char *disk = in_dir(*state, "disk");
    umount2(disk, MNT_DETACH); /* also after a failure half-way */
    rmdir(disk);
    return fixture_close(state);
}

/* Keys until the disk is full: the store then has those before, as does its file when it is opened again. `roomy`: it is full for
 * the rows; else for a larger table. */
static void fill_with_keys(fixture *f, int roomy) {
    const char *disk = in_dir(f, "disk");
    assert_int_equal(mkdir(disk, 0700), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=256k") != 0) skip(); /* needs the right to mount */
    const glofnd_store_spec spec = {.size = sizeof spec, .path = in_dir(f, "disk/work"), .keyed = 1};
    glofnd_store *s = NULL;
    glofnd_store_info info = {.size = sizeof info};
    glofnd_status status = glofnd_store_create(f->c, &spec, &s);
    assert_int_equal(status, GLOFND_OK);
    int64_t n = 0;
    if (roomy) assert_int_equal(glofnd_store_reserve(f->c, s, 11000), GLOFND_OK);
    for (; status == GLOFND_OK; n += status == GLOFND_OK) {
        const glofnd_anchor row = {.lambda = 0.5f, .clock = 1, .log_u = (float)n};
        status = glofnd_anchors_put(f->c, s, 0, &(int64_t){n * n}, 1, &row);
    }
    assert_int_equal(status, GLOFND_E_IO);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "pace"));
    assert_in_range(n, 1000, 10000); /* 28 bytes each, and the tables of both sizes while it doubles */
    assert_int_equal(count_files(disk), 1);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "saved")), GLOFND_OK);
    glofnd_store_free(s);
    assert_int_equal(glofnd_store_create(f->c, &spec, &s), GLOFND_OK);
    assert_int_equal(glofnd_store_describe(s, &info), GLOFND_OK);
    assert_int_equal(info.keys, n);
    for (int64_t i = 0; i < n; i++) assert_true(get_row(f, s, 0, i * i).log_u == (float)i);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "again")), GLOFND_OK);
    assert_same_bytes(in_dir(f, "saved"), in_dir(f, "again"));
    glofnd_store_free(s);
}

TEST_WITH(test_full_disk_of_keys, fixture_open, close_with_disk) { fill_with_keys(*state, 0); }
TEST_WITH(test_full_disk_of_rows_with_keys, fixture_open, close_with_disk) { fill_with_keys(*state, 1); }

/* On a full tmpfs a stray access to the mapping would end the process: neither writing nor reading may make one. */
TEST_WITH(test_full_disk, fixture_open, close_with_disk) {
    fixture *f = *state;
    const char *disk = in_dir(f, "disk");
    assert_int_equal(mkdir(disk, 0700), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=256k") != 0) skip(); /* needs the right to mount */
    glofnd_store *s = new_store(f, 1000000000, 1, 0, 0, 0, in_dir(f, "disk/work")), *t = NULL;
    const int64_t rows = fill_disk(f, s);
    assert_in_range(rows, 20, 64);
    for (int64_t i = 0; i < 100; i++) assert_int_equal(get_row(f, s, 0, i * 1000003).clock > 0, i < rows);
    for (int64_t id = 0; id < 1000000000; id += 99991) (void)get_row(f, s, 0, id);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "disk/saved")), GLOFND_E_IO);
    assert_int_equal(gf_store_make(f->c, &s->spec, NULL, &t), GLOFND_OK);
    glofnd_store_free(t);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "saved")), GLOFND_OK);
    assert_int_equal(glofnd_store_load(f->c, in_dir(f, "saved"), in_dir(f, "disk/loaded"), &t), GLOFND_E_IO);
    assert_null(t);
    assert_int_equal(count_files(disk), 1);
    assert_int_equal(glofnd_store_load(f->c, in_dir(f, "saved"), NULL, &t), GLOFND_OK);
    for (int64_t i = 0; i < 100; i++) {
        const glofnd_anchor a = get_row(f, s, 0, i * 1000003), b = get_row(f, t, 0, i * 1000003);
        assert_rows_equal(&a, &b);
    }
    glofnd_store_free(s);
    glofnd_store_free(t);
    static const char filler[200 * 1024]; /* leaves space to begin a working file, but not for its rows */
    assert_int_equal(unlink(in_dir(f, "disk/work")), 0);
    write_bytes(in_dir(f, "disk/filler"), filler, sizeof filler);
    assert_int_equal(glofnd_store_load(f->c, in_dir(f, "saved"), in_dir(f, "disk/loaded"), &t), GLOFND_E_IO);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "no space"));
    assert_null(t);
    assert_int_equal(count_files(disk), 1);
}
