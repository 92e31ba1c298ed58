/* unit_records.c - state as bytes, for other ranks: what a store gives, a second one takes, of every kind of store. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/losses.h"
#include "support/store_fixture.h"
#include "util/dtype.h"

enum { DIM = 9, ANCHORS = 6000, STEP = 61 }; /* two blocks */

static glofnd_store *store_of_kind(fixture *f, int kind, const char *path) {
    const gf_store_spec spec = {.n = ANCHORS,
                                .modalities = 1 + (kind & 1),
                                .temperatures = kind >> 1 & 1,
                                .bank_dim = kind & 4 ? DIM : 0,
                                .keyed = kind >> 3 & 1};
    glofnd_store *s = NULL;
    assert_int_equal(gf_store_make(f->c, &spec, path, &s), GLOFND_OK);
    return s;
}

/* State of every STEP-th anchor, averages of them too. */
static void fill(fixture *f, glofnd_store *s) {
    uint64_t seed = 7;
    for (int side = 0; side < s->spec.modalities; side++)
        for (int64_t id = 0; id < ANCHORS; id += STEP) {
            uint16_t row[DIM];
            for (int j = 0; j < DIM; j++) row[j] = gf_f16_from_float(random_float(&seed, -1, 1));
            put_row(f, s, side, id, random_row(&seed, s->spec.temperatures));
            if (s->spec.bank_dim) assert_int_equal(glofnd_bank_put(f->c, s, side, &id, 1, row), GLOFND_OK);
        }
}

static void assert_same_anchor(fixture *f, const glofnd_store *a, const glofnd_store *b, int64_t id) {
    for (int side = 0; side < a->spec.modalities; side++) {
        const glofnd_anchor x = get_row(f, a, side, id), y = get_row(f, b, side, id);
        uint16_t p[DIM] = {0}, q[DIM] = {0};
        assert_rows_equal(&x, &y);
        if (a->spec.bank_dim) assert_int_equal(glofnd_bank_get(f->c, a, side, &id, 1, p), GLOFND_OK);
        if (a->spec.bank_dim) assert_int_equal(glofnd_bank_get(f->c, b, side, &id, 1, q), GLOFND_OK);
        assert_memory_equal(p, q, sizeof p);
    }
}

TEST_WITH(a_store_takes_what_another_gives, fixture_open, fixture_close) {
    fixture *f = *state;
    for (int kind = 0; kind < 16; kind++)
        for (int mapped = 0; mapped < 2; mapped++) {
            glofnd_store *from = store_of_kind(f, kind, NULL), *to = store_of_kind(f, kind, mapped ? in_dir(f, "work") : NULL);
            glofnd_store_info info = {.size = sizeof info};
            int64_t id[] = {0, STEP, 5 * STEP, STEP, 98 * STEP, 1}; /* one twice, the last without state */
            const int64_t n = sizeof id / sizeof *id;
            fill(f, from);
            assert_int_equal(glofnd_store_describe(from, &info), GLOFND_OK);
            unsigned char *records = malloc((size_t)n * info.row_bytes), *again = malloc((size_t)n * info.row_bytes);
            memset(records, 1, (size_t)n * info.row_bytes);
            assert_int_equal(glofnd_records_get(f->c, from, id, n, records), GLOFND_OK);
            for (size_t i = 0; i < info.row_bytes; i++) assert_int_equal(records[5 * info.row_bytes + i], 0);
            assert_int_equal(glofnd_records_put(f->c, to, id, n, records), GLOFND_OK);
            assert_int_equal(glofnd_records_get(f->c, to, id, n, again), GLOFND_OK);
            assert_memory_equal(again, records, (size_t)n * info.row_bytes);
            for (int64_t i = 0; i < n; i++) assert_same_anchor(f, from, to, id[i]);
            assert_true(get_row(f, to, 0, 2 * STEP).clock == 0); /* was not sent */
            free(records), free(again);
            glofnd_store_free(from), glofnd_store_free(to);
            remove(in_dir(f, "work"));
            remove(in_dir(f, "work.keys"));
        }
}

/* Where the header says that averages lie. */
TEST_WITH(averages_lie_at_the_end, fixture_open, fixture_close) {
    fixture *f = *state;
    for (int kind = 4; kind < 16; kind += kind == 7 ? 5 : 1) {
        glofnd_store *s = store_of_kind(f, kind, NULL);
        unsigned char record[256];
        uint16_t row[DIM];
        const int64_t id = STEP;
        fill(f, s);
        assert_true(s->record_bytes <= sizeof record);
        assert_int_equal(glofnd_records_get(f->c, s, &id, 1, record), GLOFND_OK);
        const size_t side_bytes = 4 * ((DIM + 1) / 2), end = s->record_bytes - (s->spec.keyed ? 8 : 0);
        for (int side = 0; side < s->spec.modalities; side++) {
            assert_int_equal(glofnd_bank_get(f->c, s, side, &id, 1, row), GLOFND_OK);
            assert_memory_equal(record + end - (size_t)(s->spec.modalities - side) * side_bytes, row, sizeof row);
        }
        glofnd_store_free(s);
    }
}

TEST_WITH(bad_calls_are_refused, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = store_of_kind(f, 0, NULL);
    unsigned char record[2][20] = {{0}};
    const int64_t id = 3, far[2] = {3, ANCHORS};
    assert_int_equal(glofnd_records_get(NULL, s, &id, 1, record), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_records_get(f->c, NULL, &id, 1, record), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_records_get(f->c, s, NULL, 1, record), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_records_get(f->c, s, &id, 1, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_records_get(f->c, s, &id, -1, record), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_records_get(f->c, s, far, 2, record), GLOFND_E_INDEX);
    assert_int_equal(glofnd_records_put(NULL, s, &id, 1, record), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_records_put(f->c, s, far, 2, record), GLOFND_E_INDEX);
    assert_int_equal(glofnd_records_get(f->c, s, NULL, 0, NULL), GLOFND_OK);
    assert_int_equal(glofnd_records_put(f->c, s, NULL, 0, NULL), GLOFND_OK);
    assert_int_equal(glofnd_ctx_reduce_queued(NULL, NULL, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ctx_reduce_queued(f->c, NULL, NULL), GLOFND_OK);
    glofnd_store_free(s);
}
