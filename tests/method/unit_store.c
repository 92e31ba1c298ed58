/* unit_store.c - the anchor store in memory: creation, rows in and out, shared rows, id checks, ring, checksum. */
#include "support/test.h"

#include "support/store_fixture.h"

#include "io/blockfile.h"
#include "support/losses.h"

static void expect_refused_store(fixture *f, glofnd_status status, glofnd_store *s) {
    assert_int_equal(status, GLOFND_E_ARGUMENT);
    assert_null(s);
    assert_true(strlen(glofnd_ctx_error(f->c)) > 0);
}

TEST_WITH(test_create_refuses, fixture_open, fixture_close) {
    fixture *f = *state;
    const glofnd_store_spec bad[] = {{24, 10, 0, NULL, 0, 0},
                                     {SIZE_MAX, 10, 0, NULL, 0, 0},
                                     {0, 10, 0, NULL, 0, 0},
                                     {sizeof *bad, 0, 0, NULL, 0, 0},
                                     {sizeof *bad, -5, 0, NULL, 0, 0},
                                     {sizeof *bad, ((int64_t)1 << 40) + 1, 0, NULL, 0, 0},
                                     {sizeof *bad, INT64_MAX, 0, NULL, 0, 0},
                                     {sizeof *bad, 10, -4, NULL, 0, 0},
                                     {sizeof *bad, 10, 0, NULL, 2, 0},
                                     {sizeof *bad, 10, 0, NULL, -1, 0},
                                     {sizeof *bad, -1, 0, NULL, 1, 0},
                                     {sizeof *bad, INT64_MAX, 0, NULL, 1, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        glofnd_store *s = (glofnd_store *)(uintptr_t)bad;
        const glofnd_status status = glofnd_store_create(f->c, &bad[i], &s);
        expect_refused_store(f, status, s);
    }
}

/* The checks behind creation and loading: a file may claim anything. */
TEST_WITH(test_contents_are_checked, fixture_open, fixture_close) {
    fixture *f = *state;
    const gf_store_spec bad[] = {{10, 0, 0, 0, 0, 0, 0},
                                 {10, 3, 0, 0, 0, 0, 0},
                                 {10, -1, 0, 0, 0, 0, 0},
                                 {10, 1, 2, 0, 0, 0, 0},
                                 {10, 1, -1, 0, 0, 0, 0},
                                 {10, 1, 0, 4, 0, 0, 0},
                                 {10, 1, 0, 0, 4, 0, 0},
                                 {10, 1, 0, -4, 4, 0, 0},
                                 {10, 1, 0, -4, -4, 0, 0},
                                 {10, 1, 0, INT64_MAX, INT64_MAX, 0, 0},
                                 {10, 1, 0, (int64_t)1 << 32, (int64_t)1 << 32, 0, 0},
                                 {10, 1, 0, (int64_t)1 << 45, 1, 0, 0},
                                 {10, 1, 0, 0, 0, -1, 0},
                                 {10, 1, 0, 0, 0, GF_BANK_MAX_DIM + 1, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        glofnd_store *s = NULL;
        const glofnd_status status = gf_store_make(f->c, &bad[i], NULL, &s);
        expect_refused_store(f, status, s);
    }
}

/* A store follows the options of its context: modalities, temperatures and ring are stated once. */
TEST_WITH(test_derived_from_options, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_options o;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    o.ring_rows = 500;
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        losses_set(&o, loss);
        for (int ring = 0; ring < 2; ring++) {
            const glofnd_store_spec spec = {.size = sizeof spec, .n = 10, .dim = 7};
            glofnd_store_info info = {.size = sizeof info};
            glofnd_store *s = NULL;
            o.learner = ring ? GLOFND_LEARN_RING : GLOFND_LEARN_ADAM;
            assert_int_equal(glofnd_ctx_configure(f->c, &o), GLOFND_OK);
            assert_int_equal(glofnd_store_create(f->c, &spec, &s), GLOFND_OK);
            assert_int_equal(glofnd_store_describe(s, &info), GLOFND_OK);
            assert_int_equal(info.modalities, losses_of(&o) >= LOSS_CLIP ? 2 : 1);
            assert_int_equal(info.temperatures, losses_of(&o) == LOSS_ISOGCLR);
            assert_int_equal(info.ring_rows, ring ? 500 : 0);
            assert_int_equal(info.ring_dim, ring ? 7 : 0);
            glofnd_store_free(s);
        }
    }
    losses_set(&o, LOSS_SOGCLR);
    assert_int_equal(glofnd_ctx_configure(f->c, &o), GLOFND_OK);
    glofnd_store *s = NULL; /* the ring is made of embeddings */
    assert_int_equal(glofnd_store_create(f->c, &(glofnd_store_spec){.size = sizeof(glofnd_store_spec), .n = 10}, &s),
                     GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "spec.dim"));
}

TEST_WITH(test_null_arguments, fixture_open, fixture_close) {
    fixture *f = *state;
    const glofnd_store_spec spec = {.size = sizeof spec, .n = 10};
    glofnd_store *s = NULL, *out = (glofnd_store *)&s;
    glofnd_store_info info = {.size = sizeof info};
    glofnd_anchor row = {0};
    const int64_t id = 0;
    assert_int_equal(glofnd_store_create(NULL, &spec, &out), GLOFND_E_ARGUMENT);
    assert_null(out);
    assert_int_equal(glofnd_store_create(f->c, NULL, &out), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_create(f->c, &spec, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_create(f->c, &spec, &s), GLOFND_OK);
    assert_int_equal(glofnd_store_describe(NULL, &info), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_describe(s, NULL), GLOFND_E_ARGUMENT);
    info.size = 0; /* as a program that forgot it */
    assert_int_equal(glofnd_store_describe(s, &info), GLOFND_E_ARGUMENT);
    info.size = SIZE_MAX;
    assert_int_equal(glofnd_store_describe(s, &info), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_get(NULL, s, 0, &id, 1, &row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_get(f->c, NULL, 0, &id, 1, &row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_get(f->c, s, 0, NULL, 1, &row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_get(f->c, s, 0, &id, 1, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_put(NULL, s, 0, &id, 1, &row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_put(f->c, NULL, 0, &id, 1, &row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_put(f->c, s, 0, NULL, 1, &row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_put(f->c, s, 0, &id, 1, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_get(f->c, s, 0, NULL, 0, NULL), GLOFND_OK); /* no rows: a vector's data() is NULL */
    assert_int_equal(glofnd_anchors_put(f->c, s, 0, NULL, 0, NULL), GLOFND_OK);
    assert_int_equal(glofnd_anchors_get(f->c, s, 0, &id, 0, &row), GLOFND_OK);
    assert_int_equal(glofnd_anchors_put(f->c, s, 0, &id, 0, &row), GLOFND_OK);
    assert_int_equal(glofnd_anchors_get(f->c, s, 1, NULL, 0, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_put(f->c, NULL, 0, NULL, 0, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_put(f->c, s, 0, NULL, -1, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_save(NULL, s, "x"), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_save(f->c, NULL, "x"), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_save(f->c, s, NULL), GLOFND_E_ARGUMENT);
    out = (glofnd_store *)&s;
    assert_int_equal(glofnd_store_load(NULL, "x", NULL, &out), GLOFND_E_ARGUMENT);
    assert_null(out);
    assert_int_equal(glofnd_store_load(f->c, NULL, NULL, &out), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_load(f->c, "x", NULL, NULL), GLOFND_E_ARGUMENT);
    glofnd_store_free(s);
    glofnd_store_free(NULL);
}

TEST_WITH(test_describe, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = new_store(f, 10000, 2, 1, 4, 8, NULL);
    glofnd_store_info info = {.size = sizeof info};
    assert_int_equal(glofnd_store_describe(s, &info), GLOFND_OK);
    assert_int_equal(info.size, sizeof info);
    assert_int_equal(info.n, 10000);
    assert_int_equal(info.modalities, 2);
    assert_int_equal(info.temperatures, 1);
    assert_int_equal(info.ring_rows, 4);
    assert_int_equal(info.ring_dim, 8);
    assert_int_equal(info.ring_count, 0);
    assert_int_equal(info.row_bytes, 72);
    assert_int_equal(info.bytes, 720000);
    assert_int_equal(info.touched_rows, 0);
    uint64_t seed = 1;
    put_row(f, s, 1, 9999, random_row(&seed, 1)); /* the last block is the short one */
    glofnd_store_describe(s, &info);
    assert_int_equal(info.touched_rows, 10000 - 2 * GF_STORE_BLOCK);
    put_row(f, s, 0, 0, random_row(&seed, 1));
    glofnd_store_describe(s, &info);
    assert_int_equal(info.touched_rows, 10000 - GF_STORE_BLOCK);
    glofnd_store_free(s);
}

TEST_WITH(test_never_seen, fixture_open, fixture_close) {
    fixture *f = *state;
    const glofnd_anchor fresh = {1, 0, 0, -INFINITY, 0, 0, 0, 0, 0};
    for (int temperatures = 0; temperatures < 2; temperatures++) {
        glofnd_store *s = new_store(f, 5000, 2, temperatures, 0, 0, NULL);
        uint64_t seed = 3;
        put_row(f, s, 0, 102, random_row(&seed, temperatures)); /* its neighbours stay fresh, and so does its other side */
        for (int64_t id = 0; id < 5000; id++) {
            const glofnd_anchor a = get_row(f, s, 0, id), b = get_row(f, s, 1, id);
            if (id != 102) assert_rows_equal(&a, &fresh);
            assert_rows_equal(&b, &fresh);
        }
        glofnd_store_free(s);
    }
}

TEST_WITH(test_round_trip, fixture_open, fixture_close) {
    fixture *f = *state;
    enum { N = 1000 };
    for (int kind = 0; kind < 4; kind++) {
        const int modalities = 1 + kind / 2, temperatures = kind % 2;
        glofnd_store *s = new_store(f, N, modalities, temperatures, 0, 0, NULL);
        glofnd_anchor in[2][N], out[N];
        int64_t id[N];
        uint64_t seed = (uint64_t)kind;
        for (int side = 0; side < modalities; side++) {
            for (int i = 0; i < N; i++) {
                id[i] = (int64_t)i * 7 % N;
                in[side][i] = random_row(&seed, temperatures);
            }
            assert_int_equal(glofnd_anchors_put(f->c, s, side, id, N, in[side]), GLOFND_OK);
        }
        for (int side = 0; side < modalities; side++) {
            assert_int_equal(glofnd_anchors_get(f->c, s, side, id, N, out), GLOFND_OK);
            assert_memory_equal(out, in[side], sizeof out);
        }
        glofnd_store_free(s);
    }
}

TEST_WITH(test_special_values, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = new_store(f, 10, 1, 0, 0, 0, NULL);
    glofnd_anchor r = {0.25f, 0, 0, 0.0f, 3, 0, 0, 0, 0};
    put_row(f, s, 0, 1, r); /* log u = 0 is a value, not "none" */
    assert_true(get_row(f, s, 0, 1).log_u == 0.0f);
    r.log_u = -0.0f;
    put_row(f, s, 0, 1, r);
    assert_true(get_row(f, s, 0, 1).log_u == 0.0f);
    r.log_u = -INFINITY;
    put_row(f, s, 0, 1, r);
    assert_true(get_row(f, s, 0, 1).log_u == -INFINITY);
    r = (glofnd_anchor){1, 1, 2, -3.5f, 0, 0, 0, 0, 0};
    put_row(f, s, 0, 2, r); /* clock 0: lambda is still the initial one, u is kept */
    const glofnd_anchor expected = {1, 0, 0, -3.5f, 0, 0, 0, 0, 0}, got = get_row(f, s, 0, 2);
    assert_rows_equal(&got, &expected);
    put_row(f, s, 0, 2, (glofnd_anchor){1, 0, 0, -INFINITY, 0, 0, 0, 0, 0});
    static const unsigned char zero[20];
    assert_memory_equal(s->records + 40, zero, 20); /* a fresh row is the bytes of a hole again */
    glofnd_store_free(s);
}

TEST_WITH(test_shared_rows, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = new_store(f, 10, 2, 1, 0, 0, NULL);
    const glofnd_anchor fresh = {1, 0, 0, -INFINITY, 0, 0, 0, 0, 0};
    glofnd_anchor r = get_row(f, s, 0, GLOFND_SHARED);
    assert_rows_equal(&r, &fresh);
    const glofnd_anchor one = {0.5f, 0.1f, 0.2f, -4, 7, 0.3f, 0, 0, 9}, own = {-0.5f, 0.3f, 0.4f, -1, 2, 0.1f, 1, 2, 3};
    put_row(f, s, 1, GLOFND_SHARED, one);
    put_row(f, s, 1, 4, own);
    put_row(f, s, 1, 5, (glofnd_anchor){1, 0, 0, -2, 0, 0.7f, 0, 0, 1});
    r = get_row(f, s, 1, GLOFND_SHARED); /* of a shared row lambda, m, v, clock are kept */
    assert_rows_equal(&r, &(glofnd_anchor){0.5f, 0.1f, 0.2f, -INFINITY, 7, 0, 0, 0, 0});
    r = get_row(f, s, 1, 3); /* rows read as they are held ... */
    assert_rows_equal(&r, &fresh);
    const int64_t ids[3] = {3, 5, 4};
    glofnd_anchor followed[3];
    gf_store_gather(s, 1, ids, 3, 1, followed); /* ... but the step sees that a fresh anchor follows the shared row */
    assert_rows_equal(&followed[0], &(glofnd_anchor){0.5f, 0.1f, 0.2f, -INFINITY, 7, 0, 0, 0, 0});
    assert_rows_equal(&followed[1], &(glofnd_anchor){0.5f, 0.1f, 0.2f, -2, 7, 0.7f, 0, 0, 1}); /* also one that has u and tau */
    assert_rows_equal(&followed[2], &own); /* one with a lambda of its own keeps it */
    r = get_row(f, s, 1, 4);
    assert_rows_equal(&r, &own);
    r = get_row(f, s, 0, 3); /* the other side has none */
    assert_rows_equal(&r, &fresh);
    put_row(f, s, 1, GLOFND_SHARED, fresh);
    r = get_row(f, s, 1, 3);
    assert_rows_equal(&r, &fresh);
    glofnd_store_free(s);
}

TEST_WITH(test_put_refuses, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = new_store(f, 10, 1, 1, 0, 0, NULL), *before = new_store(f, 10, 1, 1, 0, 0, NULL);
    fill_store(f, s, 2, 5);
    fill_store(f, before, 2, 5);
    const float inf = INFINITY, nan = NAN;
    const struct {
        glofnd_anchor row;
        glofnd_status status;
        const char *name;
    } bad[] = {{{0.25f, 0, 0, -1, 0, 0, 0, 0, 0}, GLOFND_E_ARGUMENT, "lambda"}, /* never learned, yet not 1 */
               {{0.25f, 0, 0, -1, 1, 1e-44f, 0, 0, 0}, GLOFND_E_ARGUMENT, "tau"},
               {{0.25f, 0, 0, -1, 1, 3e38f, 0, 0, 0}, GLOFND_E_ARGUMENT, "tau"},
               {{nan, 0, 0, 0, 1, 1, 0, 0, 1}, GLOFND_E_NUMERIC, "lambda"},
               {{0, inf, 0, 0, 1, 1, 0, 0, 1}, GLOFND_E_NUMERIC, ".m"},
               {{0, 0, nan, 0, 1, 1, 0, 0, 1}, GLOFND_E_NUMERIC, ".v"},
               {{0, 0, 0, nan, 1, 1, 0, 0, 1}, GLOFND_E_NUMERIC, "log_u"},
               {{0, 0, 0, inf, 1, 1, 0, 0, 1}, GLOFND_E_NUMERIC, "log_u"},
               {{0, 0, 0, 0, 1, -inf, 0, 0, 1}, GLOFND_E_NUMERIC, "tau"},
               {{0, 0, 0, 0, 1, 1, nan, 0, 1}, GLOFND_E_NUMERIC, "tau_m"},
               {{0, 0, 0, 0, 1, 1, 0, inf, 1}, GLOFND_E_NUMERIC, "tau_v"},
               {{1.0001f, 0, 0, 0, 1, 1, 0, 0, 1}, GLOFND_E_ARGUMENT, "lambda"},
               {{-2, 0, 0, 0, 1, 1, 0, 0, 1}, GLOFND_E_ARGUMENT, "lambda"},
               {{0, 0, -inf, 0, 1, 1, 0, 0, 1}, GLOFND_E_NUMERIC, ".v"},
               {{0, 0, 0, 0, 1, -1, 0, 0, 1}, GLOFND_E_ARGUMENT, "tau"}};
    const int64_t id[3] = {1, 3, 5};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const glofnd_anchor rows[3] = {{.lambda = 0.5f, .clock = 1}, {.lambda = 0.5f, .clock = 1}, bad[i].row};
        assert_int_equal(glofnd_anchors_put(f->c, s, 0, id, 3, rows), bad[i].status);
        assert_non_null(strstr(glofnd_ctx_error(f->c), "rows[2]"));
        assert_non_null(strstr(glofnd_ctx_error(f->c), bad[i].name));
    }
    const glofnd_anchor good[3] = {{.lambda = 0.5f, .clock = 1}, {.lambda = 0.5f, .clock = 1}, {.lambda = 0.5f, .clock = 1}};
    const int64_t ids[][3] = {{1, 3, 1}, {1, 3, 10}, {1, 3, -2}, {1, INT64_MAX, 3}, {-1, 3, -1}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        assert_int_equal(glofnd_anchors_put(f->c, s, 0, ids[i], 3, good), GLOFND_E_INDEX);
    }
    assert_int_equal(glofnd_anchors_put(f->c, s, 1, id, 3, good), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_put(f->c, s, -1, id, 3, good), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_put(f->c, s, 0, id, -1, good), GLOFND_E_ARGUMENT);
    assert_stores_equal(f, s, before);
    glofnd_anchor out[3];
    assert_int_equal(glofnd_anchors_get(f->c, s, 0, ids[0], 3, out), GLOFND_OK); /* repeats may be read */
    assert_int_equal(glofnd_anchors_get(f->c, s, 0, ids[1], 3, out), GLOFND_E_INDEX);
    assert_int_equal(glofnd_anchors_get(f->c, s, 1, ids[0], 3, out), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_get(f->c, s, 0, ids[0], -3, out), GLOFND_E_ARGUMENT);
    glofnd_store_free(s);
    glofnd_store_free(before);
}

/* Different ids of many strides pass; one repeat at any distance is found and named. */
TEST_WITH(test_check_ids, fixture_open, fixture_close) {
#ifdef __SANITIZE_THREAD__
    print_message("skipped: the thread sanitizer leaves no address space for 2^40 anchors\n");
    skip();
#endif
    fixture *f = *state;
    enum { N = 3000 };
    glofnd_store *s = new_store(f, (int64_t)1 << 40, 1, 0, 0, 0, NULL);
    int64_t id[N], *scratch = malloc(2 * N * sizeof *scratch);
    gf_error err = {""};
    for (int64_t stride = 1; stride < (int64_t)1 << 27; stride = stride * 3 + 1) {
        for (int64_t i = 0; i < N; i++) id[i] = i * stride;
        assert_int_equal(gf_store_check_ids(&err, s, "id", id, N, 1, scratch), GLOFND_OK);
        const int64_t i = stride % N, j = (i + 1 + stride / 7) % N, keep = id[j];
        if (i == j) continue;
        id[j] = id[i];
        assert_int_equal(gf_store_check_ids(&err, s, "id", id, N, 1, scratch), GLOFND_E_INDEX);
        char text[64];
        snprintf(text, sizeof text, "id[%lld] and id[%lld] are both %lld", (long long)(i < j ? i : j), (long long)(i < j ? j : i),
                 (long long)id[i]);
        assert_non_null(strstr(err.text, text));
        assert_int_equal(gf_store_check_ids(&err, s, "id", id, N, 0, NULL), GLOFND_OK);
        id[j] = keep;
    }
    id[7] = -1;
    assert_int_equal(gf_store_check_ids(&err, s, "id", id, N, 1, scratch), GLOFND_E_INDEX);
    assert_non_null(strstr(err.text, "id[7]"));
    assert_int_equal(gf_store_check_ids(&err, s, "id", id, 0, 1, scratch), GLOFND_OK);
    assert_int_equal(gf_store_check_ids(&err, s, "id", id, 1, 1, scratch), GLOFND_OK);
    free(scratch);
    glofnd_store_free(s);
}

/* Against a list that remembers everything. */
TEST_WITH(test_ring, fixture_open, fixture_close) {
    fixture *f = *state;
    enum { CAPACITY = 7, DIM = 3, LD = 5, PUSHED_MAX = 400 };
    glofnd_store *s = new_store(f, 1000, 2, 0, CAPACITY, DIM, NULL);
    float all[2][PUSHED_MAX][LD];
    int64_t ids[PUSHED_MAX], pushed = 0;
    uint64_t seed = 11;
    while (pushed < PUSHED_MAX - 20) {
        const int64_t n = (int64_t)(next_random(&seed) % 18);
        for (int64_t i = pushed; i < pushed + n; i++) {
            ids[i] = (int64_t)(next_random(&seed) % 1000);
            for (int k = 0; k < 2 * LD; k++) all[k / LD][i][k % LD] = random_float(&seed, -1, 1);
        }
        const float *rows[2] = {all[0][pushed], all[1][pushed]};
        gf_store_ring_push(s, rows, LD, ids + pushed, n);
        pushed += n;
        assert_int_equal(s->ring_count, pushed < CAPACITY ? pushed : CAPACITY);
        assert_int_equal(s->ring_head, pushed % CAPACITY);
        for (int64_t age = 1; age <= s->ring_count; age++) {
            const int64_t slot = (s->ring_head - age + CAPACITY) % CAPACITY, i = pushed - age;
            for (int side = 0; side < 2; side++) {
                assert_int_equal(s->ring[side].id[slot], ids[i]);
                assert_memory_equal(s->ring[side].rows + slot * DIM, all[side][i], DIM * sizeof(float));
            }
        }
    }
    const float *half[2] = {all[0][0], NULL}; /* a side without rows gets id -1 */
    gf_store_ring_push(s, half, LD, ids, 1);
    const int64_t slot = (s->ring_head - 1 + CAPACITY) % CAPACITY;
    assert_int_equal(s->ring[0].id[slot], ids[0]);
    assert_int_equal(s->ring[1].id[slot], -1);
    glofnd_store_free(s);
    s = new_store(f, 10, 1, 0, 0, 0, NULL);
    gf_store_ring_push(s, half, LD, ids, 1); /* no ring: nothing happens */
    assert_int_equal(s->ring_count, 0);
    glofnd_store_free(s);
}

static uint32_t crc_by_bits(const unsigned char *p, size_t n) {
    uint32_t c = ~0u;
    for (size_t i = 0; i < n * 8; i++) {
        const uint32_t bit = (c ^ p[i / 8] >> i % 8) & 1;
        c = c >> 1 ^ (bit ? 0x82f63b78u : 0);
    }
    return ~c;
}

TEST(test_crc) {
    unsigned char p[300];
    uint64_t seed = 2;
    for (size_t i = 0; i < sizeof p; i++) p[i] = (unsigned char)next_random(&seed);
    assert_int_equal(gf_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(gf_crc32c(0, p, 0), 0);
    for (size_t n = 0; n < sizeof p; n++) {
        const uint32_t whole = crc_by_bits(p, n);
        assert_int_equal(gf_crc32c(0, p, n), whole);
        assert_int_equal(gf_crc32c(gf_crc32c(0, p, n / 3), p + n / 3, n - n / 3), whole);
    }
}
