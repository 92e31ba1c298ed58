/* unit_store_file.c - saving and loading the anchor store: the same bits back, and nothing from a file that is not whole. */
#include "support/test.h"

#include "support/store_fixture.h"

#include "support/store_crcs.h"

static glofnd_status load(fixture *f, const char *path, const char *map_path) {
    glofnd_store *s = (glofnd_store *)f;
    const glofnd_status status = glofnd_store_load(f->c, path, map_path, &s);
    if (status != GLOFND_OK) assert_null(s);
    glofnd_store_free(s);
    return status;
}

static glofnd_store *must_load(fixture *f, const char *path, const char *map_path) {
    glofnd_store *s = NULL;
    const glofnd_status status = glofnd_store_load(f->c, path, map_path, &s);
    if (status != GLOFND_OK) print_error("%s\n", glofnd_ctx_error(f->c));
    assert_int_equal(status, GLOFND_OK);
    return s;
}

static void must_save(fixture *f, const glofnd_store *s, const char *path) {
    const glofnd_status status = glofnd_store_save(f->c, s, path);
    if (status != GLOFND_OK) print_error("%s\n", glofnd_ctx_error(f->c));
    assert_int_equal(status, GLOFND_OK);
}

/* Memory or mapped on either end, one or two modalities, temperatures, ring, shared rows; few and many rows. */
TEST_WITH(test_same_bits, fixture_open, fixture_close) {
    fixture *f = *state;
    for (int kind = 0; kind < 64; kind++) {
        const int modalities = 1 + (kind & 1), temperatures = kind >> 1 & 1, ring = kind >> 2 & 1;
        const char *work = kind >> 3 & 1 ? in_dir(f, "work") : NULL, *map = kind >> 4 & 1 ? in_dir(f, "map") : NULL;
        const int64_t n = 9000, step = kind >> 5 & 1 ? 1 : 517;
        glofnd_store *s = new_store(f, n, modalities, temperatures, ring ? 2500 : 0, ring ? 13 : 0, work);
        fill_store(f, s, step, (uint64_t)kind);
        must_save(f, s, in_dir(f, "saved"));
        glofnd_store *t = must_load(f, in_dir(f, "saved"), map);
        assert_stores_equal(f, s, t);
        must_save(f, t, in_dir(f, "again"));
        assert_same_bytes(in_dir(f, "saved"), in_dir(f, "again"));
        glofnd_store_free(t);
        if (map) { /* the working file that load made is one that create takes */
            t = new_store(f, n, modalities, temperatures, 0, 0, map);
            for (int64_t id = GLOFND_SHARED; id <= step; id++) {
                const glofnd_anchor a = get_row(f, s, 0, id), b = get_row(f, t, 0, id);
                assert_rows_equal(&a, &b);
            }
            glofnd_store_free(t);
        }
        glofnd_store_free(s);
        assert_int_equal(count_files(f->dir), 2 + (work != NULL) + (map != NULL));
        unlink(in_dir(f, "work"));
        unlink(in_dir(f, "map"));
    }
}

TEST_WITH(test_empty_store, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = new_store(f, 1, 1, 0, 5, 2, NULL);
    must_save(f, s, in_dir(f, "saved"));
    glofnd_store *t = must_load(f, in_dir(f, "saved"), NULL);
    assert_stores_equal(f, s, t);
    put_row(f, s, 0, 0, (glofnd_anchor){.lambda = 1, .log_u = -INFINITY}); /* touched, but still as never seen: not written */
    must_save(f, s, in_dir(f, "again"));
    assert_same_bytes(in_dir(f, "saved"), in_dir(f, "again"));
    glofnd_store_free(s);
    glofnd_store_free(t);
}

/* A store of several short blocks and a ring, saved; small, so that every byte can have its turn. */
static unsigned char *small_file(fixture *f, size_t *bytes) {
    glofnd_store *s = new_store(f, 3 * GF_STORE_BLOCK + 5, 2, 1, 3, 2, NULL);
    uint64_t seed = 77;
    const int64_t id[] = {0, 1, 2, 9, GF_STORE_BLOCK - 1, 2 * GF_STORE_BLOCK, 2 * GF_STORE_BLOCK + 17, 3 * GF_STORE_BLOCK + 4};
    for (size_t i = 0; i < sizeof id / sizeof *id; i++) put_row(f, s, (int)i % 2, id[i], random_row(&seed, 1));
    put_row(f, s, 1, GLOFND_SHARED, random_row(&seed, 0));
    const float rows[2][2] = {{0.6f, 0.8f}, {1, 0}};
    gf_store_ring_push(s, (const float *const[2]){rows[0], rows[1]}, 2, id, 1);
    must_save(f, s, in_dir(f, "small"));
    glofnd_store_free(s);
    return read_bytes(in_dir(f, "small"), bytes);
}

TEST_WITH(test_every_byte_flipped, fixture_open, fixture_close) {
    fixture *f = *state;
    size_t n;
    unsigned char *p = small_file(f, &n);
    for (size_t i = 0; i < n; i++) {
        for (int bit = 0; bit < 9; bit++) {
            const unsigned char flip = bit < 8 ? (unsigned char)(1 << bit) : 255;
            p[i] ^= flip;
            write_bytes(in_dir(f, "bad"), p, n);
            if (load(f, in_dir(f, "bad"), NULL) != GLOFND_E_FORMAT) fail_msg("byte %zu of %zu, flipped by %d", i, n, flip);
            p[i] ^= flip;
        }
    }
    free(p);
}

TEST_WITH(test_every_cut, fixture_open, fixture_close) {
    fixture *f = *state;
    size_t n;
    unsigned char *p = small_file(f, &n);
    for (size_t i = 0; i < n; i++) {
        write_bytes(in_dir(f, "bad"), p, i);
        if (load(f, in_dir(f, "bad"), NULL) != GLOFND_E_FORMAT) fail_msg("cut to %zu of %zu bytes", i, n);
        if (i >= AT_BODY) { /* again with a header that knows: the sections themselves must notice */
            unsigned char *q = malloc(i);
            memcpy(q, p, i);
            gf_le64_put(q + AT_FILE_BYTES, i);
            fix_store_crcs(q, i);
            write_bytes(in_dir(f, "bad"), q, i);
            if (load(f, in_dir(f, "bad"), NULL) != GLOFND_E_FORMAT) fail_msg("cut to %zu of %zu bytes, header adapted", i, n);
            free(q);
        }
    }
    p = realloc(p, n + 1);
    p[n] = 0;
    write_bytes(in_dir(f, "bad"), p, n + 1);
    assert_int_equal(load(f, in_dir(f, "bad"), NULL), GLOFND_E_FORMAT);
    gf_le64_put(p + AT_FILE_BYTES, n + 1);
    fix_store_crcs(p, n + 1);
    write_bytes(in_dir(f, "bad"), p, n + 1);
    assert_int_equal(load(f, in_dir(f, "bad"), NULL), GLOFND_E_FORMAT);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "after its end"));
    free(p);
}

enum { BLOCK0 = AT_BODY, LIST0 = BLOCK0 + IN_BLOCK_LIST }; /* the first block and its list of runs */

/* Headers with right checksums that hold an impossible number, and a part of the message about it. */
static const struct {
    size_t at;
    int width;
    uint64_t value;
    const char *text;
} bad[] = {
    {AT_VERSION, 4, 4, "newer version"},
    {AT_VERSION, 4, 0xffffffff, "newer version"},
    {AT_VERSION, 4, 0, "does not exist"},
    {AT_HEADER_BYTES, 4, 144, "header"},
    {AT_N, 8, 0, "n is 0"},
    {AT_N, 8, ((uint64_t)1 << 40) + 1, "n is"},
    {AT_N, 8, UINT64_MAX, "n is"},
    {AT_N, 8, GF_STORE_BLOCK, "do not fit"},
    {AT_N, 8, 3 * GF_STORE_BLOCK + 4, "do not fit"},
    {AT_MODALITIES, 4, 1, "records of"},
    {AT_MODALITIES, 4, 0, "modalities"},
    {AT_MODALITIES, 4, 0x80000002, "modalities"},
    {AT_TEMPERATURES, 4, 0, "records of"},
    {AT_TEMPERATURES, 4, 7, "temperatures"},
    {AT_RECORD_BYTES, 4, 36, "records of"},
    {AT_BLOCK_RECORDS, 4, 4095, "blocks of"},
    {AT_RING_ROWS, 8, 0, "ring_rows"},
    {AT_RING_ROWS, 8, UINT64_MAX, "ring_rows"},
    {AT_RING_ROWS, 8, (uint64_t)1 << 62, "too large"},
    {AT_RING_DIM, 8, (uint64_t)1 << 62, "too large"},
    {AT_RING_DIM, 8, (uint64_t)1 << 41, "do not fit"},
    {AT_RING_DIM, 8, 1, "are missing"},
    {AT_RING_HEAD, 8, 2, "do not fit"},
    {AT_RING_HEAD, 8, UINT64_MAX, "do not fit"},
    {AT_RING_COUNT, 8, 4, "do not fit"},
    {AT_RING_COUNT, 8, 0, "do not fit"},
    {AT_RING_COUNT, 8, UINT64_MAX, "do not fit"},
    {AT_BLOCKS, 8, 5, "do not fit"},
    {AT_BLOCKS, 8, UINT64_MAX, "do not fit"},
    {AT_BLOCKS, 8, 2, "ring rows"},
    {AT_BLOCKS, 8, 4, "block"},
    {AT_RING_BLOCKS, 8, 3, "do not fit"},
    {AT_FILE_BYTES, 8, 0, "truncated or has grown"},
    {BLOCK0, 8, 4, "block 4"},
    {BLOCK0, 8, 2, "block 2 after block 2"},
    {BLOCK0, 8, UINT64_MAX, "block -1"},
    {BLOCK0 + IN_BLOCK_ROWS, 4, 0, "do not fit"},
    {BLOCK0 + IN_BLOCK_ROWS, 4, 6, "do not fit"},
    {BLOCK0 + IN_BLOCK_ROWS, 4, 0xffffffff, "do not fit"},
    {BLOCK0 + IN_BLOCK_RUNS, 4, 0, "do not fit"},
    {BLOCK0 + IN_BLOCK_RUNS, 4, 0xffffffff, "do not fit"},
    {LIST0, 2, 7, "do not fit"},
    {LIST0 + 2, 2, 0, "do not fit"},
    {LIST0 + 4, 2, 2, "do not fit"},
    {LIST0 + 4, 2, 3, "do not fit"},
    {LIST0 + 10, 2, 2, "do not fit"},
    {LIST0 + 2, 2, 0xffff, "do not fit"},
};

/* Files that are whole in themselves, with right checksums, but say something impossible. */
TEST_WITH(test_impossible_numbers, fixture_open, fixture_close) {
    fixture *f = *state;
    size_t n;
    unsigned char *p = small_file(f, &n), *q = malloc(n);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(q, p, n);
        for (int k = 0; k < bad[i].width; k++) q[bad[i].at + (size_t)k] = (unsigned char)(bad[i].value >> 8 * k);
        fix_store_crcs(q, n);
        write_bytes(in_dir(f, "bad"), q, n);
        const glofnd_status status = load(f, in_dir(f, "bad"), NULL);
        if (status != GLOFND_E_FORMAT || !strstr(glofnd_ctx_error(f->c), bad[i].text)) {
            fail_msg("case %zu: status %d, '%s' without '%s'", i, (int)status, glofnd_ctx_error(f->c), bad[i].text);
        }
    }
    memcpy(q, p, n);
    q[LIST0 + 2] = 0; /* an empty run, made up for by the next */
    q[LIST0 + 6] = 4;
    fix_store_crcs(q, n);
    write_bytes(in_dir(f, "bad"), q, n);
    assert_int_equal(load(f, in_dir(f, "bad"), NULL), GLOFND_E_FORMAT);
    memcpy(q, p, n);
    q[n - 24 + 8]++; /* number of blocks at the end */
    fix_store_crcs(q, n);
    write_bytes(in_dir(f, "bad"), q, n);
    assert_int_equal(load(f, in_dir(f, "bad"), NULL), GLOFND_E_FORMAT);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "different files"));
    memcpy(q, p, n);
    memset(q + LIST0 + 12, 0, 72); /* a row of zeros, which the writer would have left out */
    fix_store_crcs(q, n);
    write_bytes(in_dir(f, "bad"), q, n);
    assert_int_equal(load(f, in_dir(f, "bad"), NULL), GLOFND_E_FORMAT);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "anchor 0"));
    fix_store_crcs(p, n); /* and the tool of this test does not spoil a good file */
    write_bytes(in_dir(f, "bad"), p, n);
    assert_same_bytes(in_dir(f, "bad"), in_dir(f, "small"));
    free(p);
    free(q);
}

/* Every other row: the most runs a block can have. One more has no place in it. */
TEST_WITH(test_most_runs, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = new_store(f, GF_STORE_BLOCK, 1, 0, 0, 0, NULL);
    fill_store(f, s, 2, 1);
    must_save(f, s, in_dir(f, "saved"));
    glofnd_store *t = must_load(f, in_dir(f, "saved"), NULL);
    assert_stores_equal(f, s, t);
    size_t n;
    unsigned char *p = read_bytes(in_dir(f, "saved"), &n);
    assert_int_equal(gf_le32(p + AT_BODY + IN_BLOCK_RUNS), GF_STORE_BLOCK / 2);
    gf_le32_put(p + AT_BODY + IN_BLOCK_RUNS, GF_STORE_BLOCK / 2 + 1);
    gf_le32_put(p + AT_BODY + IN_BLOCK_ROWS, GF_STORE_BLOCK / 2 + 1);
    fix_store_crcs(p, n);
    write_bytes(in_dir(f, "bad"), p, n);
    assert_int_equal(load(f, in_dir(f, "bad"), NULL), GLOFND_E_FORMAT);
    free(p);
    glofnd_store_free(s);
    glofnd_store_free(t);
}

/* With own.slot the ids of a ring are the caller's, and may exceed the store: they come back. A store of other rows does not
 * know whom they mean. */
TEST_WITH(test_ring_of_foreign_ids, fixture_open, fixture_close) {
    fixture *f = *state;
    static const int64_t id[] = {3, 4, (int64_t)1 << 50, 5}, to[4] = {0, 2, 1, -1};
    static const float rows[4][2] = {{1, 0}, {0, 1}, {0.6f, 0.8f}, {-1, 0}};
    gf_error err = {""};
    glofnd_store *s = new_store(f, 4, 1, 0, 4, 2, NULL), *moved = NULL;
    gf_store_ring_push(s, (const float *const[2]){rows[0], NULL}, 2, id, 4);
    must_save(f, s, in_dir(f, "saved"));
    glofnd_store *t = must_load(f, in_dir(f, "saved"), NULL);
    assert_stores_equal(f, s, t);
    assert_int_equal(gf_store_remap(&err, t, 3, to, &moved), GLOFND_OK);
    for (int k = 0; k < 4; k++) assert_int_equal(moved->ring[0].id[k], -1); /* row 3 is dropped, the others have none */
    glofnd_store_free(moved);
    glofnd_store_free(s);
    glofnd_store_free(t);
}

/* Ring rows of impossible anchors; a corrupt block is named; sections of two files do not mix. */
TEST_WITH(test_damage_is_named, fixture_open, fixture_close) {
    fixture *f = *state;
    size_t n, m;
    unsigned char *p = small_file(f, &n);
    const size_t end = n - 24, ring1 = end - 36, block0_end = AT_BODY + IN_BLOCK_LIST + 3 * 4 + 5 * 72;
    p[block0_end - 1] ^= 1;
    write_bytes(in_dir(f, "bad"), p, n);
    assert_int_equal(load(f, in_dir(f, "bad"), NULL), GLOFND_E_FORMAT);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "block 0"));
    p[block0_end - 1] ^= 1;
    gf_le64_put(p + ring1 + 16, (uint64_t)-2);
    fix_store_crcs(p, n);
    write_bytes(in_dir(f, "bad"), p, n);
    assert_int_equal(load(f, in_dir(f, "bad"), NULL), GLOFND_E_FORMAT);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "ring row 0"));
    free(p);
    p = small_file(f, &n);
    glofnd_store *s = must_load(f, in_dir(f, "small"), NULL);
    uint64_t seed = 1234;
    put_row(f, s, 0, 0, random_row(&seed, 1));
    must_save(f, s, in_dir(f, "other"));
    unsigned char *q = read_bytes(in_dir(f, "other"), &m);
    assert_int_equal(n, m);
    memcpy(p + AT_BODY, q + AT_BODY, block0_end + 4 - AT_BODY); /* a whole block with its CRC, from the other file */
    write_bytes(in_dir(f, "bad"), p, n);
    assert_int_equal(load(f, in_dir(f, "bad"), NULL), GLOFND_E_FORMAT);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "different files"));
    glofnd_store_free(s);
    free(p);
    free(q);
}

TEST_WITH(test_foreign_files, fixture_open, fixture_close) {
    fixture *f = *state;
    const char text[200] = "GLOFND is not the magic of this file, it only begins like it";
    for (size_t n = 0; n < sizeof text; n += 7) {
        write_bytes(in_dir(f, "foreign"), text, n);
        assert_int_equal(load(f, in_dir(f, "foreign"), NULL), GLOFND_E_FORMAT);
        assert_non_null(strstr(glofnd_ctx_error(f->c), "not an anchor store"));
    }
    assert_int_equal(load(f, in_dir(f, "missing"), NULL), GLOFND_E_IO);
    assert_int_equal(load(f, f->dir, NULL), GLOFND_E_IO);
    assert_int_equal(mkfifo(in_dir(f, "pipe"), 0600), 0);
    assert_int_equal(load(f, in_dir(f, "pipe"), NULL), GLOFND_E_IO);
    assert_int_equal(load(f, "", NULL), GLOFND_E_IO);
}

/* A failed load leaves the old working file, and no other. */
TEST_WITH(test_load_to_working_file, fixture_open, fixture_close) {
    fixture *f = *state;
    size_t n;
    unsigned char *p = small_file(f, &n);
    write_bytes(in_dir(f, "map"), "old content", 11);
    write_bytes(in_dir(f, "old"), "old content", 11);
    p[n - 1] ^= 1;
    write_bytes(in_dir(f, "bad"), p, n);
    const int files = count_files(f->dir);
    assert_int_equal(load(f, in_dir(f, "bad"), in_dir(f, "map")), GLOFND_E_FORMAT);
    assert_same_bytes(in_dir(f, "map"), in_dir(f, "old"));
    assert_int_equal(load(f, in_dir(f, "small"), in_dir(f, "small")), GLOFND_E_ARGUMENT);
    assert_int_equal(load(f, in_dir(f, "small"), f->dir), GLOFND_E_IO);
    assert_int_equal(load(f, in_dir(f, "small"), in_dir(f, "no/such/folder")), GLOFND_E_IO);
    assert_int_equal(count_files(f->dir), files);
    assert_int_equal(load(f, in_dir(f, "small"), in_dir(f, "map")), GLOFND_OK); /* discards the old content */
    assert_int_equal(load(f, in_dir(f, "small"), in_dir(f, "map")), GLOFND_OK);
    assert_int_equal(count_files(f->dir), files);
    free(p);
}

TEST_WITH(test_save_targets, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = new_store(f, 100, 1, 0, 0, 0, in_dir(f, "work"));
    fill_store(f, s, 3, 9);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "work")), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "working file"));
    assert_int_equal(glofnd_store_save(f->c, s, f->dir), GLOFND_E_IO);
    assert_int_equal(mkfifo(in_dir(f, "pipe"), 0600), 0); /* stands for all that must not be replaced by a file */
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "pipe")), GLOFND_E_IO);
    assert_int_equal(unlink(in_dir(f, "pipe")), 0);
    assert_int_equal(glofnd_store_save(f->c, s, ""), GLOFND_E_IO);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "no/such/folder")), GLOFND_E_IO);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "work/x")), GLOFND_E_IO);
    assert_int_equal(count_files(f->dir), 1);
    char here[512];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(f->dir), 0);
    must_save(f, s, "bare-name");
    assert_int_equal(chdir(here), 0);
    write_bytes(in_dir(f, "saved"), "something older", 15);
    must_save(f, s, in_dir(f, "saved"));
    assert_same_bytes(in_dir(f, "saved"), in_dir(f, "bare-name"));
    assert_int_equal(count_files(f->dir), 3);
    glofnd_store_free(s);
}
