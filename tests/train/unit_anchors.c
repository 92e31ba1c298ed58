/* unit_anchors.c - whose state a row of a checkpoint is: key files, the map from old rows to new ones, a store under new rows. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "loop/anchors.h"
#include "support/store_fixture.h"

/* A dataset of these names, one letter each; only its keys are looked at. */
static gf_dataset *named(const fixture *f, const char *letters) {
    gf_error err = {""};
    gf_dataset *d = NULL;
    char spec[600];
    FILE *list = fopen(in_dir(f, "list"), "w");
    assert_non_null(list);
    fputs("filepath\n", list);
    for (const char *p = letters; *p; p++) fprintf(list, "%c.png\n", *p);
    fclose(list);
    snprintf(spec, sizeof spec, "csv:%s", in_dir(f, "list"));
    if (gf_dataset_open(&err, spec, &d) != GLOFND_OK) fail_msg("%s", err.text);
    return d;
}

static void save_keys(const fixture *f, const char *letters) {
    gf_error err = {""};
    gf_dataset *d = named(f, letters);
    if (gf_keys_save(&err, d, in_dir(f, "keys")) != GLOFND_OK) fail_msg("%s", err.text);
    gf_dataset_free(d);
}

/* Keys of `before` against the data `now`: to[] as expected, and the counts that follow from it. */
static void maps(const fixture *f, const char *before, const char *now, const int64_t *expected, int changed) {
    gf_error err = {""};
    gf_remap found;
    int64_t *to = NULL, kept = 0;
    int same = -1;
    save_keys(f, before);
    gf_dataset *d = named(f, now);
    if (gf_keys_same(&err, d, in_dir(f, "keys"), &same) != GLOFND_OK) fail_msg("%s", err.text);
    if (gf_keys_map(&err, d, in_dir(f, "keys"), &to, &found) != GLOFND_OK) fail_msg("%s", err.text);
    const int64_t rows = (int64_t)strlen(before);
    for (int64_t i = 0; i < rows; i++) {
        assert_int_equal(to[i], expected[i]);
        kept += expected[i] >= 0;
    }
    assert_int_equal(same, !changed);
    assert_int_equal(found.changed, changed);
    assert_int_equal(found.rows, rows);
    assert_int_equal(found.kept, kept);
    assert_int_equal(found.lost, rows - kept);
    assert_int_equal(found.fresh, (int64_t)strlen(now) - kept);
    free(to);
    gf_dataset_free(d);
}

TEST_WITH(test_anchors_follow_their_samples, fixture_open, fixture_close) {
    const fixture *f = *state;
    maps(f, "abcd", "abcd", (const int64_t[]){0, 1, 2, 3}, 0);
    maps(f, "abcd", "dbca", (const int64_t[]){3, 1, 2, 0}, 1);
    maps(f, "abcd", "axbycdz", (const int64_t[]){0, 2, 4, 5}, 1);
    maps(f, "abcd", "abcdxyz", (const int64_t[]){0, 1, 2, 3}, 1);
    maps(f, "abcd", "cb", (const int64_t[]){-1, 1, 0, -1}, 1);
    maps(f, "abcd", "xyz", (const int64_t[]){-1, -1, -1, -1}, 1);
    maps(f, "a", "b", (const int64_t[]){-1}, 1);
}

/* A name that occurs twice has two anchors: the first stays with the first. */
TEST_WITH(test_repeated_names, fixture_open, fixture_close) {
    const fixture *f = *state;
    maps(f, "abab", "abab", (const int64_t[]){0, 1, 2, 3}, 0);
    maps(f, "aab", "baa", (const int64_t[]){1, 2, 0}, 1);
    maps(f, "aaa", "xa", (const int64_t[]){1, -1, -1}, 1);
    maps(f, "a", "aaa", (const int64_t[]){0}, 1);
}

/* Every bit of a key file counts, and every length but its own is refused. */
TEST_WITH(test_damaged_keys, fixture_open, fixture_close) {
    const fixture *f = *state;
    size_t n = 0;
    int same;
    save_keys(f, "abcde");
    gf_dataset *d = named(f, "abcde");
    const char *path = in_dir(f, "keys");
    unsigned char *bytes = read_bytes(path, &n);
    assert_int_equal(n, 28 + 5 * 8 + 4);
    for (size_t i = 0; i < n; i++) {
        int64_t *to = NULL;
        gf_remap found;
        gf_error err = {""};
        bytes[i] ^= 0x10;
        write_bytes(path, bytes, n);
        assert_int_equal(gf_keys_same(&err, d, path, &same), GLOFND_E_FORMAT);
        assert_int_equal(gf_keys_map(&err, d, path, &to, &found), GLOFND_E_FORMAT);
        assert_null(to);
        bytes[i] ^= 0x10;
        write_bytes(path, bytes, i);
        assert_int_equal(gf_keys_same(&err, d, path, &same), GLOFND_E_FORMAT);
        assert_int_equal(gf_keys_map(&err, d, path, &to, &found), GLOFND_E_FORMAT);
    }
    gf_error err = {""};
    unsigned char longer[100] = {0};
    memcpy(longer, bytes, n);
    write_bytes(path, longer, n + 1);
    assert_int_equal(gf_keys_same(&err, d, path, &same), GLOFND_E_FORMAT);
    write_bytes(path, bytes, n);
    assert_int_equal(gf_keys_same(&err, d, path, &same), GLOFND_OK);
    assert_int_equal(gf_keys_same(&err, d, in_dir(f, "nowhere"), &same), GLOFND_E_IO);
    gf_dataset_free(d);
    free(bytes);
}

/* ----- the store under other rows ----- */

enum { ROWS = 10000, MORE = 13000, RING = 4 };

static glofnd_anchor row_of(int64_t i) {
    return (
        glofnd_anchor){.lambda = (float)i / ROWS, .m = -1.0f, .v = (float)i, .log_u = (float)(i % 7), .clock = 1 + (uint32_t)i};
}

static glofnd_store *filled(const fixture *f) {
    const gf_store_spec spec = {.n = ROWS, .modalities = 1, .ring_rows = RING, .ring_dim = 2};
    glofnd_store *s = NULL;
    const float ring[3][2] = {{1, 0}, {0, 1}, {0.6f, 0.8f}};
    const float *const sides[2] = {ring[0], NULL};
    const int64_t id[3] = {5, 17, 9999};
    assert_int_equal(gf_store_make(f->c, &spec, NULL, &s), GLOFND_OK);
    for (int64_t i = 0; i < ROWS; i += 3) { /* the others were never seen */
        const glofnd_anchor row = row_of(i);
        gf_store_scatter(s, 0, &i, 1, &row);
    }
    const glofnd_anchor shared = {.lambda = 0.25f, .m = 0.5f, .v = 0.125f, .clock = 3};
    gf_store_shared_put(s, 0, &shared);
    gf_store_ring_push(s, sides, 2, id, 3);
    return s;
}

/* Rows go to other blocks, some nowhere; state comes along bit for bit, and what nobody came to is as never seen. */
TEST_WITH(test_store_under_other_rows, fixture_open, fixture_close) {
    const fixture *f = *state;
    glofnd_store *from = filled(f), *to = NULL;
    gf_error err = {""};
    int64_t *place = malloc(sizeof *place * ROWS), *origin = malloc(sizeof *origin * MORE);
    for (int64_t i = 0; i < MORE; i++) origin[i] = -1;
    for (int64_t i = 0; i < ROWS; i++) {
        place[i] = i % 5 == 2 ? -1 : MORE - 1 - i;
        if (place[i] >= 0) origin[place[i]] = i;
    }
    assert_int_equal(gf_store_remap(&err, from, MORE, place, &to), GLOFND_OK);
    for (int64_t i = 0; i < MORE; i++) {
        glofnd_anchor have, want = {.lambda = 1.0f, .log_u = -INFINITY};
        if (origin[i] >= 0) gf_store_gather(from, 0, &origin[i], 1, 0, &want);
        gf_store_gather(to, 0, &i, 1, 0, &have);
        assert_memory_equal(&have, &want, sizeof have);
    }
    const glofnd_anchor a = gf_store_shared_get(from, 0), b = gf_store_shared_get(to, 0);
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(to->ring_head == 3 && to->ring_count == 3);
    assert_memory_equal(to->ring[0].rows, from->ring[0].rows, 3 * 2 * sizeof(float));
    assert_int_equal(to->ring[0].id[0], MORE - 1 - 5);
    assert_int_equal(to->ring[0].id[1], -1); /* 17 % 5 == 2: gone */
    assert_int_equal(to->ring[0].id[2], MORE - 1 - 9999);
    glofnd_store_free(from);
    glofnd_store_free(to);
    free(place);
    free(origin);
}

/* Rows that stay where they are make the file that was there. */
TEST_WITH(test_same_rows_same_file, fixture_open, fixture_close) {
    const fixture *f = *state;
    size_t n = 0, m = 0;
    glofnd_store *from = filled(f), *to = NULL;
    gf_error err = {""};
    int64_t *place = malloc(sizeof *place * ROWS);
    for (int64_t i = 0; i < ROWS; i++) place[i] = i;
    assert_int_equal(gf_store_remap(&err, from, ROWS, place, &to), GLOFND_OK);
    assert_int_equal(glofnd_store_save(f->c, from, in_dir(f, "from")), GLOFND_OK);
    assert_int_equal(glofnd_store_save(f->c, to, in_dir(f, "to")), GLOFND_OK);
    unsigned char *a = read_bytes(in_dir(f, "from"), &n), *b = read_bytes(in_dir(f, "to"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
    glofnd_store_free(from);
    glofnd_store_free(to);
    free(place);
}
