/* unit_bank.c - the averages of similarity BANK in a store: files, working files, rows in and out. The steps that use them are in
 * unit_marks.c and unit_state.c.
 */
#include "support/test.h"

#include "support/compare.h"
#include "support/losses.h"
#include "support/store_fixture.h"
#include "util/dtype.h"

enum { DIM = 9, ANCHORS = 6000 }; /* two blocks */

static glofnd_store *bank_store(fixture *f, int modalities, int temperatures, const char *path) {
    const gf_store_spec spec = {ANCHORS, modalities, temperatures, 0, 0, DIM, 0};
    glofnd_store *s = NULL;
    assert_int_equal(gf_store_make(f->c, &spec, path, &s), GLOFND_OK);
    return s;
}

static void fill_bank(fixture *f, glofnd_store *s, uint64_t seed) {
    for (int side = 0; side < s->spec.modalities; side++)
        for (int64_t id = side; id < ANCHORS; id += 97) {
            uint16_t row[DIM];
            for (int j = 0; j < DIM; j++) row[j] = gf_f16_from_float(random_float(&seed, -1, 1));
            assert_int_equal(glofnd_bank_put(f->c, s, side, &id, 1, row), GLOFND_OK);
        }
}

static void assert_banks_equal(fixture *f, const glofnd_store *a, const glofnd_store *b) {
    for (int side = 0; side < a->spec.modalities; side++)
        for (int64_t id = 0; id < ANCHORS; id++) {
            uint16_t x[DIM], y[DIM];
            assert_int_equal(glofnd_bank_get(f->c, a, side, &id, 1, x), GLOFND_OK);
            assert_int_equal(glofnd_bank_get(f->c, b, side, &id, 1, y), GLOFND_OK);
            assert_memory_equal(x, y, sizeof x);
        }
}

/* Rows and averages do not touch each other; a loaded store is the saved one, also on a working file, and saves the same. */
TEST_WITH(files_hold_the_bank, fixture_open, fixture_close) {
    fixture *f = *state;
    for (int kind = 0; kind < 4; kind++) {
        glofnd_store *s = bank_store(f, 1 + kind % 2, kind / 2, NULL), *loaded = NULL, *mapped = NULL;
        fill_bank(f, s, 5);
        fill_store(f, s, 61, 7);
        assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "a")), GLOFND_OK);
        assert_int_equal(glofnd_store_load(f->c, in_dir(f, "a"), NULL, &loaded), GLOFND_OK);
        assert_int_equal(glofnd_store_load(f->c, in_dir(f, "a"), in_dir(f, "work"), &mapped), GLOFND_OK);
        assert_stores_equal(f, s, loaded);
        assert_banks_equal(f, s, loaded);
        assert_banks_equal(f, s, mapped);
        assert_int_equal(glofnd_store_save(f->c, mapped, in_dir(f, "b")), GLOFND_OK);
        assert_same_bytes(in_dir(f, "a"), in_dir(f, "b"));
        glofnd_store_free(s);
        glofnd_store_free(loaded);
        glofnd_store_free(mapped);
        remove(in_dir(f, "work"));
    }
}

TEST_WITH(length_is_told, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = bank_store(f, 2, 0, NULL), *none = new_store(f, 10, 1, 0, 0, 0, NULL);
    assert_int_equal(glofnd_bank_dim(s), DIM);
    assert_int_equal(glofnd_bank_dim(none), 0);
    assert_int_equal(glofnd_bank_dim(NULL), 0);
    glofnd_store_free(none);
    glofnd_store_free(s);
}

/* A store without a bank is written as before. */
TEST_WITH(only_a_bank_needs_the_new_version, fixture_open, fixture_close) {
    fixture *f = *state;
    for (int bank = 0; bank < 2; bank++) {
        glofnd_store *s = bank ? bank_store(f, 1, 0, NULL) : new_store(f, ANCHORS, 1, 0, 0, 0, NULL);
        size_t n;
        assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "a")), GLOFND_OK);
        unsigned char *p = read_bytes(in_dir(f, "a"), &n);
        assert_int_equal(p[8], 1 + bank);
        assert_int_equal(p[12], bank ? 148 : 140);
        free(p);
        glofnd_store_free(s);
    }
}

/* Every byte changed and every cut is noticed. */
TEST_WITH(corrupt_files_are_refused, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = bank_store(f, 1, 0, NULL), *bad = NULL;
    size_t n;
    fill_bank(f, s, 5);
    assert_int_equal(glofnd_store_save(f->c, s, in_dir(f, "a")), GLOFND_OK);
    glofnd_store_free(s);
    unsigned char *p = read_bytes(in_dir(f, "a"), &n);
    for (size_t i = 0; i < n; i += i < 160 ? 1 : 13) {
        p[i] ^= 0x21;
        write_bytes(in_dir(f, "bad"), p, n);
        p[i] ^= 0x21;
        if (glofnd_store_load(f->c, in_dir(f, "bad"), NULL, &bad) != GLOFND_E_FORMAT) fail_msg("byte %zu of %zu changed", i, n);
        write_bytes(in_dir(f, "bad"), p, i);
        if (glofnd_store_load(f->c, in_dir(f, "bad"), NULL, &bad) != GLOFND_E_FORMAT) fail_msg("cut to %zu of %zu bytes", i, n);
    }
    free(p);
}

TEST_WITH(averages_follow_their_anchors, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = bank_store(f, 2, 0, NULL), *back = NULL, *out = NULL;
    int64_t *to = calloc(ANCHORS, sizeof *to);
    assert_non_null(to);
    fill_bank(f, s, 5);
    gf_error err;
    for (int64_t i = 0; i < ANCHORS; i++) to[i] = ANCHORS - 1 - i;
    assert_int_equal(gf_store_remap(&err, s, ANCHORS, to, &out), GLOFND_OK);
    assert_int_equal(gf_store_remap(&err, out, ANCHORS, to, &back), GLOFND_OK);
    assert_banks_equal(f, s, back);
    uint16_t x[DIM], y[DIM];
    assert_int_equal(glofnd_bank_get(f->c, s, 1, &(int64_t){98}, 1, x), GLOFND_OK);
    assert_int_equal(glofnd_bank_get(f->c, out, 1, &(int64_t){ANCHORS - 1 - 98}, 1, y), GLOFND_OK);
    assert_memory_equal(x, y, sizeof x);
    free(to);
    glofnd_store_free(s);
    glofnd_store_free(out);
    glofnd_store_free(back);
}

TEST_WITH(bad_calls_are_refused, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = bank_store(f, 1, 0, NULL), *none = new_store(f, 10, 1, 0, 0, 0, NULL);
    uint16_t row[2 * DIM] = {0x3c00}, bad[DIM] = {0x3c00, 0x7c01}, got[DIM];
    const int64_t id = 3, far = ANCHORS, twice[2] = {3, 3};
    assert_int_equal(glofnd_bank_put(f->c, s, 0, &id, 1, row), GLOFND_OK);
    assert_int_equal(glofnd_bank_get(NULL, s, 0, &id, 1, got), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_bank_get(f->c, NULL, 0, &id, 1, got), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_bank_get(f->c, none, 0, &id, 1, got), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_bank_get(f->c, s, 1, &id, 1, got), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_bank_get(f->c, s, 0, &id, -1, got), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_bank_get(f->c, s, 0, &id, 1, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_bank_get(f->c, s, 0, &far, 1, got), GLOFND_E_INDEX);
    assert_int_equal(glofnd_bank_get(f->c, s, 0, NULL, 0, NULL), GLOFND_OK);
    assert_int_equal(glofnd_bank_put(f->c, s, 0, twice, 2, row), GLOFND_E_INDEX);
    assert_int_equal(glofnd_bank_put(f->c, s, 0, &id, 1, bad), GLOFND_E_NUMERIC);
    assert_int_equal(glofnd_bank_put(f->c, s, 0, NULL, 0, NULL), GLOFND_OK);
    assert_int_equal(glofnd_bank_get(f->c, s, 0, &id, 1, got), GLOFND_OK); /* as it was */
    assert_memory_equal(got, row, sizeof got);
    glofnd_store_free(s);
    glofnd_store_free(none);
}

/* Steps need a store with a bank of their dimension, and the two calls need the averages. */
TEST_WITH(bad_steps_are_refused, fixture_open, fixture_close) {
    scene s = scene_make("bank", LOSS_SOGCLR);
    runner plain = runner_make(&s);
    s.o.similarity = GLOFND_SIMILARITY_BANK;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    scene_batch b;
    scene_draw(&s, 0, &b);
    assert_int_equal(glofnd_step(w.ctx, plain.store, &b.q, out.grad_a, out.grad_b, NULL), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(w.ctx), "averages of 17 numbers"));
    assert_int_equal(glofnd_step_rows(w.ctx, w.store, &b.q, NULL, out.links, NULL), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(w.ctx), "bank_a"));
    const glofnd_store_spec spec = {.size = sizeof spec, .n = 10};
    glofnd_store *none = NULL;
    assert_int_equal(glofnd_store_create(w.ctx, &spec, &none), GLOFND_E_ARGUMENT);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
    runner_free(&plain);
}
