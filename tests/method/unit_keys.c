/* unit_keys.c - a store of keys: its numbers are those of a store of positions, bit for bit, whatever the keys and the order they
 * come in; it grows; steps that fail leave no key. Also on a GPU (GLOFND_TEST_DEVICE=cuda).
 */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/losses.h"
#include "support/on_device.h"
#include "support/random.h"
#include "support/store_crcs.h"
#include "support/store_fixture.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* The key of sample i: the corners of int64 first, then anything. */
static int64_t key_of(int64_t i) {
    static const int64_t corner[] = {0, -1, INT64_MIN, INT64_MAX, 1, -2, INT64_MIN + 1};
    if (i < (int64_t)(sizeof corner / sizeof *corner)) return corner[i];
    return (int64_t)((uint64_t)i * 0x9e3779b97f4a7c15u);
}

static glofnd_store *keyed_store(glofnd_ctx *c, int64_t keys, int64_t dim, const char *path) {
    const glofnd_store_spec spec = {.size = sizeof spec, .n = keys, .dim = dim, .path = path, .keyed = 1};
    glofnd_store *s = NULL;
    expect_ok(c, glofnd_store_create(c, &spec, &s));
    return s;
}

static glofnd_store_info info_of(const glofnd_store *s) {
    glofnd_store_info info = {.size = sizeof info};
    assert_int_equal(glofnd_store_describe(s, &info), GLOFND_OK);
    return info;
}

static int64_t count_keys(glofnd_ctx *c, const glofnd_store *s) {
    int64_t n = -1;
    expect_ok(c, glofnd_store_keys(c, s, NULL, 0, &n));
    return n;
}

static int on_a_device(void) { return getenv("GLOFND_TEST_DEVICE") != NULL; }

/* The fixture's context on the device of the test. */
static int open_here(void **state) {
    if (fixture_open(state) != 0) return -1;
    fixture *f = *state;
    glofnd_options o;
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    on_device_choose(&o);
    glofnd_ctx_free(f->c);
    return glofnd_ctx_create(&o, &f->c, NULL, 0) == GLOFND_OK ? 0 : -1;
}

/* ----- the same numbers as with positions ----- */

static void put_start(runner *w, const scene *s, int keyed) {
    const int sides = w->store->spec.modalities;
    for (int side = 0; side < sides && s->lambda0 > 0; side++)
        for (int64_t i = 0; i < s->anchors; i++) {
            const glofnd_anchor row = scene_start(s, side, i);
            const int64_t id = keyed ? key_of(i) : i;
            expect_ok(w->ctx, glofnd_anchors_put(w->ctx, w->store, side, &id, 1, &row));
        }
}

static void expect_same_rows(const scene *s, runner *position, runner *key) {
    const int64_t n = s->anchors;
    int64_t *id = malloc(2 * (size_t)n * sizeof *id), *keys = id + n;
    glofnd_anchor *a = malloc(2 * (size_t)n * sizeof *a), *b = a + n;
    for (int64_t i = 0; i < n; i++) id[i] = i, keys[i] = key_of(i);
    for (int side = 0; side < position->store->spec.modalities; side++) {
        glofnd_anchor shared[2];
        expect_ok(position->ctx, glofnd_anchors_get(position->ctx, position->store, side, id, n, a));
        expect_ok(key->ctx, glofnd_anchors_get(key->ctx, key->store, side, keys, n, b));
        assert_memory_equal(a, b, sizeof *a * (size_t)n);
        expect_ok(position->ctx,
                  glofnd_anchors_get(position->ctx, position->store, side, &(int64_t){GLOFND_SHARED}, 1, &shared[0]));
        expect_ok(key->ctx, glofnd_anchors_get(key->ctx, key->store, side, NULL, 1, &shared[1]));
        assert_memory_equal(&shared[0], &shared[1], sizeof *shared);
        if (position->store->spec.bank_dim == 0) continue;
        const size_t row = (size_t)position->store->spec.bank_dim * sizeof(uint16_t);
        void *x = malloc(2 * (size_t)n * row);
        expect_ok(position->ctx, glofnd_bank_get(position->ctx, position->store, side, id, n, x));
        expect_ok(key->ctx, glofnd_bank_get(key->ctx, key->store, side, keys, n, (char *)x + (size_t)n * row));
        assert_memory_equal(x, (char *)x + (size_t)n * row, (size_t)n * row);
        free(x);
    }
    free(id);
    free(a);
}

/* One step by keys beside one by positions. */
static void step_both(const scene *s, int step, runner *position, runner *key) {
    const size_t bytes = sizeof(float) * (size_t)(s->batch * s->dim);
    scene_batch b;
    outputs x = outputs_make(s), y = outputs_make(s);
    scene_draw(s, step, &b);
    b.q.want &= ~(unsigned)GLOFND_WANT_QUANTILE;
    glofnd_batch q = b.q;
    int64_t *id = malloc((size_t)s->batch * sizeof *id);
    for (int64_t i = 0; i < s->batch; i++) id[i] = key_of(b.id[i]);
    q.id = id;
    if (step % 2) {
        run_two_calls(position, &b.q, &x);
        run_two_calls(key, &q, &y);
        assert_memory_equal(x.keep, y.keep, 4 * (size_t)(s->batch * s->batch));
    } else {
        run_step(position, &b.q, &x);
        run_step(key, &q, &y);
    }
    assert_memory_equal(x.grad_a, y.grad_a, bytes);
    assert_memory_equal(x.grad_b, y.grad_b, bytes);
    assert_true(x.stats.loss == y.stats.loss && x.stats.flagged == y.stats.flagged);
    free(id);
    outputs_free(&x);
    outputs_free(&y);
    scene_batch_free(&b);
}

/* In the middle the state goes through a file. */
static void check_keys_against_positions(fixture *f, const scene *s) {
    runner position = {0}, key = {0};
    const glofnd_store_spec spec = {.size = sizeof spec, .n = s->anchors, .dim = s->dim};
    expect_ok(position.ctx, glofnd_ctx_create(&s->o, &position.ctx, NULL, 0));
    expect_ok(key.ctx, glofnd_ctx_create(&s->o, &key.ctx, NULL, 0));
    expect_ok(position.ctx, glofnd_store_create(position.ctx, &spec, &position.store));
    key.store = keyed_store(key.ctx, 0, s->dim, NULL);
    put_start(&position, s, 0);
    put_start(&key, s, 1);
    for (int step = 0; step < s->steps; step++) {
        step_both(s, step, &position, &key);
        if (step != s->steps / 2) continue;
        expect_ok(key.ctx, glofnd_store_save(key.ctx, key.store, in_dir(f, "state")));
        glofnd_store_free(key.store);
        expect_ok(key.ctx, glofnd_store_load(key.ctx, in_dir(f, "state"), NULL, &key.store));
    }
    expect_same_rows(s, &position, &key);
    assert_true(info_of(key.store).keyed == 1 && info_of(position.store).keyed == 0);
    runner_free(&position);
    runner_free(&key);
}

TEST_WITH(every_loss_has_the_numbers_of_positions, open_here, fixture_close) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        scene s = scene_make("keys", loss);
        check_keys_against_positions(*state, &s);
        s.lambda0 = 0.55, s.o.update_epoch = 0, s.o.mask_epoch = 1, s.o.lambda_lr = 0.02;
        check_keys_against_positions(*state, &s);
    }
}

TEST_WITH(ring_bank_and_shared_lambda_have_the_numbers_of_positions, open_here, fixture_close) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_CLIP; loss++) {
        scene s = scene_make("keys", loss);
        s.o.update_epoch = 0, s.o.mask_epoch = 1, s.o.alpha = 0.1;
        s.o.learner = GLOFND_LEARN_RING;
        s.o.ring_rows = 100;
        check_keys_against_positions(*state, &s);
        s.o.learner = GLOFND_LEARN_ADAM;
        s.o.similarity = GLOFND_SIMILARITY_BANK;
        check_keys_against_positions(*state, &s);
        s.o.similarity = GLOFND_SIMILARITY_EMBEDDING;
        s.o.detector = GLOFND_DETECT_SINGLE;
        check_keys_against_positions(*state, &s);
    }
}

/* Many samples: the store doubles in the middle of the run, and in the middle of a batch. */
TEST_WITH(growing_in_a_step_changes_no_number, open_here, fixture_close) {
    scene s = scene_make("growing", LOSS_SOGCLR);
    s.batch = 300, s.anchors = 3000, s.steps = 14, s.dim = 4;
    s.o.update_epoch = 0, s.o.mask_epoch = 2;
    check_keys_against_positions(*state, &s);
}

/* A candidate of an anchor's own is no negative of it, also where its key is negative. */
TEST_WITH(candidates_have_keys_too, open_here, fixture_close) {
    scene s = scene_make("candidates", LOSS_SOGCLR);
    scene_batch b;
    outputs x = outputs_make(&s), y = outputs_make(&s);
    runner position = {0}, key = {0};
    int64_t id[256], own[8], key_id[256], key_own[8];
    const glofnd_store_spec spec = {.size = sizeof spec, .n = s.anchors};
    if (on_a_device()) skip();
    expect_ok(position.ctx, glofnd_ctx_create(&s.o, &position.ctx, NULL, 0));
    expect_ok(key.ctx, glofnd_ctx_create(&s.o, &key.ctx, NULL, 0));
    expect_ok(position.ctx, glofnd_store_create(position.ctx, &spec, &position.store));
    key.store = keyed_store(key.ctx, 0, 0, NULL);
    scene_draw(&s, 0, &b);
    for (int64_t i = 0; i < s.batch; i++) id[i] = b.id[i], key_id[i] = -1 - b.id[i];
    for (int i = 0; i < 8; i++) own[i] = i < 4 ? b.id[i] : s.anchors - 1 - i, key_own[i] = -1 - own[i];
    b.q.negatives_a = b.b, b.q.negatives_a_n = 8;
    b.q.id = id, b.q.negatives_a_id = own;
    expect_ok(position.ctx, glofnd_step(position.ctx, position.store, &b.q, x.grad_a, x.grad_b, &x.stats));
    b.q.id = key_id, b.q.negatives_a_id = key_own;
    expect_ok(key.ctx, glofnd_step(key.ctx, key.store, &b.q, y.grad_a, y.grad_b, &y.stats));
    assert_memory_equal(x.grad_a, y.grad_a, sizeof(float) * (size_t)(s.batch * s.dim));
    assert_true(x.stats.pairs == y.stats.pairs);
    scene_batch_free(&b);
    outputs_free(&x);
    outputs_free(&y);
    runner_free(&position);
    runner_free(&key);
}

/* Copies of one key get one row, also where the step brings it. */
TEST_WITH(repeated_keys_have_the_numbers_of_repeated_positions, open_here, fixture_close) {
    scene s = scene_make("repeats", LOSS_SOGCLR);
    outputs x = outputs_make(&s), y = outputs_make(&s);
    runner position = {0}, key = {0};
    int64_t id[256], key_id[256];
    const glofnd_store_spec spec = {.size = sizeof spec, .n = s.anchors};
    if (on_a_device()) skip();
    s.o.repeats = 1, s.o.update_epoch = s.o.mask_epoch = 0;
    expect_ok(position.ctx, glofnd_ctx_create(&s.o, &position.ctx, NULL, 0));
    expect_ok(key.ctx, glofnd_ctx_create(&s.o, &key.ctx, NULL, 0));
    expect_ok(position.ctx, glofnd_store_create(position.ctx, &spec, &position.store));
    key.store = keyed_store(key.ctx, 0, 0, NULL);
    for (int step = 0; step < 3; step++) {
        scene_batch b;
        scene_draw(&s, step, &b);
        for (int64_t i = 0; i < s.batch; i++) id[i] = b.id[i / 3 * 3], key_id[i] = key_of(id[i]);
        b.q.id = id;
        expect_ok(position.ctx, glofnd_step(position.ctx, position.store, &b.q, x.grad_a, x.grad_b, &x.stats));
        b.q.id = key_id;
        expect_ok(key.ctx, glofnd_step(key.ctx, key.store, &b.q, y.grad_a, y.grad_b, &y.stats));
        assert_memory_equal(x.grad_a, y.grad_a, sizeof(float) * (size_t)(s.batch * s.dim));
        scene_batch_free(&b);
    }
    expect_same_rows(&s, &position, &key);
    outputs_free(&x);
    outputs_free(&y);
    runner_free(&position);
    runner_free(&key);
}

/* ----- keys ----- */

TEST_WITH(every_int64_is_a_key, open_here, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = keyed_store(f->c, 0, 0, NULL);
    uint64_t seed = 4;
    glofnd_anchor row[40], got[41], shared = {.lambda = 0.25f, .clock = 3, .log_u = -INFINITY};
    int64_t key[41], found[40], n = 0;
    for (int i = 0; i < 40; i++) {
        key[i] = key_of(i), row[i] = random_row(&seed, 0);
        assert_int_equal(count_keys(f->c, s), i);
        expect_ok(f->c, glofnd_anchors_put(f->c, s, 0, &key[i], 1, &row[i]));
    }
    expect_ok(f->c, glofnd_anchors_put(f->c, s, 0, NULL, 1, &shared));
    key[40] = 12345; /* not there */
    expect_ok(f->c, glofnd_anchors_get(f->c, s, 0, key, 41, got));
    for (int i = 0; i < 40; i++) assert_rows_equal(&got[i], &row[i]);
    assert_rows_equal(&got[40], &(glofnd_anchor){1, 0, 0, -INFINITY, 0, 0, 0, 0, 0});
    expect_ok(f->c, glofnd_anchors_get(f->c, s, 0, NULL, 1, &got[0]));
    assert_rows_equal(&got[0], &shared);
    assert_int_equal(count_keys(f->c, s), 40); /* asking for a key does not make it */
    assert_int_equal(info_of(s).keys, 40);
    expect_ok(f->c, glofnd_store_keys(f->c, s, found, 40, &n));
    assert_int_equal(n, 40);
    assert_true(found[0] == INT64_MIN && found[39] == INT64_MAX);
    for (int i = 1; i < 40; i++) assert_true(found[i - 1] < found[i]);
    assert_int_equal(glofnd_store_keys(f->c, s, found, 39, &n), GLOFND_E_ARGUMENT);
    glofnd_store_free(s);
}

TEST_WITH(doubling_keeps_every_anchor, open_here, fixture_close) {
    fixture *f = *state;
    enum { N = 50000 };
    glofnd_store *s = keyed_store(f->c, 0, 0, NULL);
    glofnd_anchor *row = malloc(2 * N * sizeof *row), *got = row + N;
    int64_t *key = malloc(2 * N * sizeof *key), *found = key + N, n = 0;
    uint64_t seed = 9;
    const int64_t room = info_of(s).n;
    for (int64_t i = 0; i < N; i++) key[i] = key_of(i), row[i] = random_row(&seed, 0);
    for (int64_t i = 0, take = 1; i < N; i += take, take = take % 1700 + 1 < N - i - take ? take % 1700 + 1 : N - i - take)
        expect_ok(f->c, glofnd_anchors_put(f->c, s, 0, key + i, take, row + i));
    assert_true(room < 1000 && info_of(s).n >= N && info_of(s).n < 3 * N);
    assert_int_equal(info_of(s).keys, N); /* key 0 too, wherever its row is */
    expect_ok(f->c, glofnd_anchors_get(f->c, s, 0, key, N, got));
    assert_memory_equal(got, row, N * sizeof *row);
    expect_ok(f->c, glofnd_store_keys(f->c, s, found, N, &n));
    assert_int_equal(n, N);
    for (int64_t i = 1; i < N; i++) assert_true(found[i - 1] < found[i]);
    free(row);
    free(key);
    glofnd_store_free(s);
}

TEST_WITH(room_is_made_once, open_here, fixture_close) {
    fixture *f = *state;
    glofnd_store *s = keyed_store(f->c, 2000, 0, NULL);
    const int64_t room = info_of(s).n;
    assert_true(room >= 2000);
    expect_ok(f->c, glofnd_store_reserve(f->c, s, 1500));
    assert_int_equal(info_of(s).n, room);
    expect_ok(f->c, glofnd_store_reserve(f->c, s, 100000));
    assert_true(info_of(s).n >= 100000);
    assert_int_equal(glofnd_store_reserve(f->c, s, -1), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_reserve(f->c, s, INT64_MAX), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_reserve(f->c, NULL, 1), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_reserve(NULL, s, 1), GLOFND_E_ARGUMENT);
    glofnd_store_free(s);
}

/* ----- files ----- */

static void put_keys(fixture *f, glofnd_store *s, int64_t n, int64_t stride) {
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = k * stride % n;
        uint64_t seed = (uint64_t)i + 1;
        const int64_t key = key_of(i);
        const glofnd_anchor row = random_row(&seed, 0);
        expect_ok(f->c, glofnd_anchors_put(f->c, s, 0, &key, 1, &row));
    }
}

TEST_WITH(a_file_does_not_tell_the_order_of_its_keys, open_here, fixture_close) {
    fixture *f = *state;
    const int64_t sizes[] = {0, 1, 700, GF_STORE_BLOCK, GF_STORE_BLOCK + 1, 9001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        glofnd_store *a = keyed_store(f->c, 0, 0, NULL), *b = keyed_store(f->c, 20000, 0, NULL), *c = NULL;
        put_keys(f, a, sizes[i], 1);
        put_keys(f, b, sizes[i], 8999);
        expect_ok(f->c, glofnd_store_save(f->c, a, in_dir(f, "a")));
        expect_ok(f->c, glofnd_store_save(f->c, b, in_dir(f, "b")));
        assert_same_bytes(in_dir(f, "a"), in_dir(f, "b"));
        expect_ok(f->c, glofnd_store_load(f->c, in_dir(f, "a"), NULL, &c));
        expect_ok(f->c, glofnd_store_save(f->c, c, in_dir(f, "b")));
        assert_same_bytes(in_dir(f, "a"), in_dir(f, "b"));
        assert_int_equal(info_of(c).keys, sizes[i]);
        put_keys(f, c, sizes[i] + 5, 1); /* and it grows on */
        assert_int_equal(count_keys(f->c, c), sizes[i] + 5);
        glofnd_store_free(a);
        glofnd_store_free(b);
        glofnd_store_free(c);
    }
}

/* ----- steps that leave nothing ----- */

TEST_WITH(a_failed_step_leaves_no_key, open_here, fixture_close) {
    fixture *f = *state;
    scene s = scene_make("failed", LOSS_SOGCLR);
    runner w = {0};
    scene_batch b;
    outputs out = outputs_make(&s);
    scene_draw(&s, 0, &b);
    expect_ok(w.ctx, glofnd_ctx_create(&s.o, &w.ctx, NULL, 0));
    w.store = keyed_store(w.ctx, 0, s.dim, NULL);
    put_keys(f, w.store, 3, 1);
    expect_ok(w.ctx, glofnd_store_save(w.ctx, w.store, in_dir(f, "before")));
    b.a[s.dim + 1] = NAN;
    assert_int_equal(on_device_step(w.ctx, w.store, &b.q, out.grad_a, out.grad_b, &out.stats), GLOFND_E_NUMERIC);
    b.a[s.dim + 1] = 0.5f;
    b.id[2] = b.id[5];
    assert_int_equal(on_device_step(w.ctx, w.store, &b.q, out.grad_a, out.grad_b, &out.stats), GLOFND_E_INDEX);
    b.id[2] = -77;
    b.q.want |= GLOFND_WANT_NO_UPDATE;
    run_step(&w, &b.q, &out); /* nor does one that only reads */
    assert_int_equal(count_keys(w.ctx, w.store), 3);
    if (!on_a_device()) assert_int_equal(info_of(w.store).keys, 3);
    expect_ok(w.ctx, glofnd_store_save(w.ctx, w.store, in_dir(f, "after")));
    assert_same_bytes(in_dir(f, "before"), in_dir(f, "after"));
    b.q.want &= ~(unsigned)GLOFND_WANT_NO_UPDATE;
    run_step(&w, &b.q, &out);
    assert_true(count_keys(w.ctx, w.store) > 3);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

/* A sum over ranks that fails does so after the keys of the batch were looked up. */
static int no_sum(void *user, double *x, int n) {
    (void)user, (void)x, (void)n;
    return 1;
}

TEST_WITH(a_step_that_fails_late_leaves_no_key, open_here, fixture_close) {
    fixture *f = *state;
    scene s = scene_make("late", LOSS_SOGCLR);
    s.o.detector = GLOFND_DETECT_SINGLE;
    s.o.update_epoch = 0, s.o.alpha = 0.1;
    s.batch = 1000, s.anchors = 1500; /* it has grown by then */
    runner w = {0};
    scene_batch b;
    outputs out = outputs_make(&s);
    scene_draw(&s, 0, &b);
    expect_ok(w.ctx, glofnd_ctx_create(&s.o, &w.ctx, NULL, 0));
    w.store = keyed_store(w.ctx, 0, s.dim, NULL);
    put_keys(f, w.store, 3, 1);
    expect_ok(w.ctx, glofnd_store_save(w.ctx, w.store, in_dir(f, "before")));
    expect_ok(w.ctx, glofnd_ctx_reduce(w.ctx, no_sum, NULL));
    assert_int_equal(on_device_step(w.ctx, w.store, &b.q, out.grad_a, out.grad_b, &out.stats), GLOFND_E_ARGUMENT);
    if (!on_a_device()) assert_int_equal(info_of(w.store).keys, 3);
    assert_int_equal(count_keys(w.ctx, w.store), 3);
    expect_ok(w.ctx, glofnd_store_save(w.ctx, w.store, in_dir(f, "after")));
    assert_same_bytes(in_dir(f, "before"), in_dir(f, "after"));
    expect_ok(w.ctx, glofnd_ctx_reduce(w.ctx, NULL, NULL));
    run_step(&w, &b.q, &out);
    assert_true(count_keys(w.ctx, w.store) > 900);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

/* ----- refusals ----- */

TEST_WITH(what_keys_cannot_do_is_refused, open_here, fixture_close) {
    fixture *f = *state;
    scene s = scene_make("refused", LOSS_SOGCLR);
    scene_batch b;
    outputs out = outputs_make(&s);
    int64_t slot[256] = {0}, n = 0;
    glofnd_anchor row = {.lambda = 1};
    const glofnd_own_rows own = {.size = sizeof own, .rows = s.batch, .slot = slot};
    const glofnd_store_spec bad = {.size = sizeof bad, .n = 10, .keyed = 1, .reserved = 0};
    glofnd_ctx *c = NULL;
    glofnd_store *positions = NULL;
    scene_draw(&s, 0, &b);
    expect_ok(c, glofnd_ctx_create(&s.o, &c, NULL, 0));
    glofnd_store *keys = keyed_store(c, 0, s.dim, NULL);
    assert_int_equal(on_device_step_rows(c, keys, &b.q, &own, out.links, &out.stats), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(c), "own.slot"));
    expect_ok(c, glofnd_store_create(c, &(glofnd_store_spec){.size = offsetof(glofnd_store_spec, keyed), .n = 10}, &positions));
    assert_int_equal(glofnd_store_reserve(c, positions, 20), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(glofnd_ctx_error(c), "keyed"));
    assert_int_equal(glofnd_store_keys(c, positions, NULL, 0, &n), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_get(c, positions, 0, NULL, 1, &row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_anchors_get(c, keys, 0, NULL, 2, &row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_keys(c, keys, NULL, 0, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_store_keys(c, NULL, NULL, 0, &n), GLOFND_E_ARGUMENT);
    glofnd_store_free(positions);
    glofnd_store_free(keys);
    if (!on_a_device()) {
        s.o.similarity = GLOFND_SIMILARITY_BANK;
        s.o.neighbours = 3;
        expect_ok(c, glofnd_ctx_configure(c, &s.o));
        expect_ok(c, glofnd_store_create(c, &(glofnd_store_spec){.size = sizeof bad, .dim = s.dim, .keyed = 1}, &keys));
        assert_int_equal(on_device_step(c, keys, &b.q, out.grad_a, out.grad_b, &out.stats), GLOFND_E_UNSUPPORTED);
        assert_non_null(strstr(glofnd_ctx_error(c), "neighbours"));
        glofnd_store_free(keys);
    }
    (void)f;
    glofnd_ctx_free(c);
    scene_batch_free(&b);
    outputs_free(&out);
}

/* ----- similarities of the caller ----- */

TEST_WITH(detection_learns_the_thresholds_of_positions, open_here, fixture_close) {
    fixture *f = *state;
    enum { ROWS = 6, COLS = 9 };
    if (on_a_device()) skip();
    float sim[ROWS * COLS];
    int64_t id[ROWS], key[ROWS];
    uint8_t keep[2][ROWS * COLS];
    uint64_t seed = 3;
    glofnd_store *s = new_store(f, 100, 1, 0, 0, 0, NULL), *k = keyed_store(f->c, 0, 0, NULL);
    for (int step = 0; step < 30; step++) {
        for (int i = 0; i < ROWS * COLS; i++) sim[i] = random_float(&seed, -1, 1);
        for (int i = 0; i < ROWS; i++) id[i] = (step * 5 + i * 11) % 100, key[i] = key_of(id[i]);
        glofnd_sims q = {.size = sizeof q, .rows = ROWS, .cols = COLS, .sim = sim, .id = id, .views = 1, .epoch = step};
        expect_ok(f->c, glofnd_detect_update(f->c, s, &q));
        expect_ok(f->c, glofnd_detect_mask(f->c, s, &q, keep[0], NULL));
        q.id = key;
        expect_ok(f->c, glofnd_detect_update(f->c, k, &q));
        expect_ok(f->c, glofnd_detect_mask(f->c, k, &q, keep[1], NULL));
        assert_memory_equal(keep[0], keep[1], sizeof keep[0]);
    }
    for (int i = 0; i < 100; i++) {
        const glofnd_anchor a = get_row(f, s, 0, i), b = get_row(f, k, 0, key_of(i));
        assert_rows_equal(&a, &b);
    }
    glofnd_store_free(s);
    glofnd_store_free(k);
}

/* ----- the working file ----- */

/* Beside the working file lies nothing: its table has no name. */
TEST_WITH(a_working_file_grows_and_is_found_again, open_here, fixture_close) {
    fixture *f = *state;
    if (on_a_device()) skip();
    glofnd_store *memory = keyed_store(f->c, 0, 0, NULL);
    put_keys(f, memory, 5000, 1);
    expect_ok(f->c, glofnd_store_save(f->c, memory, in_dir(f, "memory")));
    for (int64_t n = 0; n < 5000; n += 1250) { /* opened again and again */
        glofnd_store *s = keyed_store(f->c, 0, 0, in_dir(f, "work"));
        assert_int_equal(info_of(s).keys, n);
        assert_int_equal(count_files(f->dir), 2);
        for (int64_t i = n; i < n + 1250; i++) {
            uint64_t seed = (uint64_t)i + 1;
            put_row(f, s, 0, key_of(i), random_row(&seed, 0));
        }
        assert_true(info_of(s).n >= n + 1250);
        glofnd_store_free(s);
    }
    glofnd_store *s = keyed_store(f->c, 0, 0, in_dir(f, "work"));
    expect_ok(f->c, glofnd_store_save(f->c, s, in_dir(f, "mapped")));
    assert_same_bytes(in_dir(f, "memory"), in_dir(f, "mapped"));
    glofnd_store_free(s);
    expect_ok(f->c, glofnd_store_load(f->c, in_dir(f, "memory"), in_dir(f, "work"), &s));
    put_keys(f, s, 9000, 1);
    glofnd_store_free(s);
    s = keyed_store(f->c, 0, 0, in_dir(f, "work"));
    assert_int_equal(info_of(s).keys, 9000);
    glofnd_store_free(s);
    glofnd_store_free(memory);
}

/* A process that dies between two puts, or in one, leaves every key before it; at most the last one is without state. */
TEST_WITH(a_killed_process_leaves_its_keys, open_here, fixture_close) {
    fixture *f = *state;
    if (on_a_device()) skip();
    const size_t bytes = sizeof(int64_t);
    volatile int64_t *done = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(done != MAP_FAILED);
    const pid_t child = fork();
    if (child == 0) {
        glofnd_store *s = keyed_store(f->c, 0, 0, in_dir(f, "work"));
        for (int64_t i = 0;; i++) {
            uint64_t seed = (uint64_t)i + 1;
            const int64_t key = key_of(i);
            const glofnd_anchor row = random_row(&seed, 0);
            if (glofnd_anchors_put(f->c, s, 0, &key, 1, &row) != GLOFND_OK) _exit(1);
            *done = i + 1;
        }
    }
    assert_true(child > 0);
    while (*done < 3000 && waitpid(child, NULL, WNOHANG) == 0) usleep(100);
    assert_true(*done >= 3000); /* else a put failed there */
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    glofnd_store *s = keyed_store(f->c, 0, 0, in_dir(f, "work"));
    assert_in_range(info_of(s).keys, *done, *done + 1);
    for (int64_t i = 0; i < *done; i++) {
        uint64_t seed = (uint64_t)i + 1;
        const glofnd_anchor want = random_row(&seed, 0), got = get_row(f, s, 0, key_of(i));
        assert_rows_equal(&got, &want);
    }
    put_keys(f, s, *done + 2000, 1);
    assert_int_equal(count_keys(f->c, s), *done + 2000);
    glofnd_store_free(s);
    munmap((void *)(uintptr_t)done, bytes);
}

static void expect_refused_file(fixture *f, int keyed, const char *text) {
    const glofnd_store_spec spec = {.size = sizeof spec, .n = 716, .path = in_dir(f, "work"), .keyed = keyed};
    glofnd_store *s = NULL;
    assert_int_equal(glofnd_store_create(f->c, &spec, &s), GLOFND_E_FORMAT);
    assert_null(s);
    if (!strstr(glofnd_ctx_error(f->c), text)) fail_msg("'%s' without '%s'", glofnd_ctx_error(f->c), text);
}

enum { WORK_USED = 104, WORK_ROWS = 4096, WORK_ROW = 28 }; /* FORMATS.md */

static void poke(fixture *f, size_t at, uint64_t value) {
    size_t n;
    unsigned char *p = read_bytes(in_dir(f, "work"), &n);
    gf_le64_put(p + at, value);
    write_bytes(in_dir(f, "work"), p, n);
    free(p);
}

TEST_WITH(a_damaged_working_file_is_refused, open_here, fixture_close) {
    fixture *f = *state;
    if (on_a_device()) skip();
    glofnd_store *s = keyed_store(f->c, 0, 0, in_dir(f, "work"));
    const off_t whole = WORK_ROWS + info_of(s).n * WORK_ROW;
    put_keys(f, s, 10, 1);
    glofnd_store_free(s);
    expect_refused_file(f, 0, "of a store of keys");
    const uint64_t used[] = {UINT64_MAX, 717, 1 << 20};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        poke(f, WORK_USED, used[i]);
        expect_refused_file(f, 1, "corrupt");
    }
    poke(f, WORK_USED, 12); /* two rows that were never written have the same key */
    expect_refused_file(f, 1, "twice");
    poke(f, WORK_USED, 10);
    poke(f, WORK_ROWS + 3 * WORK_ROW + 20, (uint64_t)key_of(7));
    expect_refused_file(f, 1, "is there twice, in rows 3 and 7");
    poke(f, WORK_ROWS + 3 * WORK_ROW + 20, (uint64_t)key_of(3));
    for (int k = 0; k < 3; k++) {
        const off_t wrong[] = {whole - 1, whole + WORK_ROW, WORK_ROWS};
        assert_int_equal(truncate(in_dir(f, "work"), wrong[k]), 0);
        expect_refused_file(f, 1, "corrupt");
    }
    assert_int_equal(unlink(in_dir(f, "work")), 0);
    glofnd_store_free(new_store(f, 716, 1, 0, 0, 0, in_dir(f, "work")));
    expect_refused_file(f, 1, "of a store of positions");
}

/* A sparse file that claims keys in its holes: they are not read. */
TEST_WITH(keys_in_a_hole_are_refused, open_here, fixture_close) {
    fixture *f = *state;
    if (on_a_device()) skip();
    glofnd_store_free(keyed_store(f->c, 0, 0, in_dir(f, "work")));
    FILE *file = fopen(in_dir(f, "work"), "r+b");
    const unsigned char one[8] = {1};
    assert_non_null(file);
    assert_int_equal(fseek(file, WORK_USED, SEEK_SET), 0);
    assert_int_equal(fwrite(one, 1, 8, file), 8);
    assert_int_equal(fclose(file), 0);
    expect_refused_file(f, 1, "keys are missing");
}

/* ----- hostile files ----- */

static unsigned char *small_file(fixture *f, size_t *bytes) {
    const gf_store_spec spec = {.modalities = 1, .ring_rows = 3, .ring_dim = 2, .keyed = 1};
    glofnd_store *s = NULL;
    expect_ok(f->c, gf_store_make(f->c, &spec, NULL, &s));
    put_keys(f, s, 7, 1);
    const float rows[2][2] = {{0.6f, 0.8f}, {1, 0}};
    const int64_t id[2] = {-1, INT64_MIN};
    expect_ok(f->c, glofnd_ring_put(f->c, s, 2, id, rows[0], NULL));
    expect_ok(f->c, glofnd_store_save(f->c, s, in_dir(f, "small")));
    glofnd_store_free(s);
    return read_bytes(in_dir(f, "small"), bytes);
}

static glofnd_status load(fixture *f, const char *name) {
    glofnd_store *s = NULL;
    const glofnd_status status = glofnd_store_load(f->c, in_dir(f, name), NULL, &s);
    assert_true((status == GLOFND_OK) == (s != NULL));
    glofnd_store_free(s);
    return status;
}

TEST_WITH(every_flipped_byte_and_every_cut_is_noticed, open_here, fixture_close) {
    fixture *f = *state;
    if (on_a_device()) skip();
    size_t n;
    unsigned char *p = small_file(f, &n);
    assert_int_equal(load(f, "small"), GLOFND_OK);
    for (size_t i = 0; i < n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            p[i] ^= (unsigned char)(1 << bit);
            write_bytes(in_dir(f, "bad"), p, n);
            if (load(f, "bad") != GLOFND_E_FORMAT) fail_msg("byte %zu of %zu, bit %d", i, n, bit);
            p[i] ^= (unsigned char)(1 << bit);
        }
        unsigned char *q = malloc(n);
        memcpy(q, p, n);
        if (i >= AT_BODY_KEYED) gf_le64_put(q + AT_FILE_BYTES, i);
        fix_store_crcs(q, i);
        write_bytes(in_dir(f, "bad"), q, i);
        free(q);
        if (load(f, "bad") != GLOFND_E_FORMAT) fail_msg("cut to %zu of %zu bytes", i, n);
    }
    free(p);
}

enum { BLOCK = AT_BODY_KEYED, RUNS = BLOCK + IN_BLOCK_LIST, ROWS = RUNS + 4, ROW = 28 };

/* Files with right checksums that say something impossible. Key 2 of 7 is that of row 2. */
TEST_WITH(impossible_keys_are_refused, open_here, fixture_close) {
    static const struct {
        size_t at;
        int width;
        uint64_t value;
        const char *text;
    } bad[] = {
        {AT_KEYED, 4, 0, "of kind 0"},
        {AT_KEYED, 4, 2, "of kind 2"},
        {AT_KEYED + 4, 4, 1, "of kind 1, 1"},
        {AT_VERSION, 4, 4, "newer version"},
        {AT_HEADER_BYTES, 4, 148, "header of 148"},
        {AT_N, 8, UINT64_MAX, "n is"},
        {AT_N, 8, (uint64_t)1 << 40, "n is"},
        {AT_N, 8, 0, "do not fit"},
        {AT_N, 8, 8, "block 0 of the keys has 7 rows"},
        {AT_N, 8, 6, "block 0 of the keys has 7 rows"},
        {AT_N, 8, GF_STORE_BLOCK + 1, "do not fit"},
        {AT_BLOCKS, 8, 0, "do not fit"},
        {AT_RECORD_BYTES, 4, 20, "records of 20"},
        {BLOCK, 8, 1, "block 1"},
        {RUNS, 2, 1, "has 7 rows"},
        {RUNS + 2, 2, 6, "do not fit"},
        {ROWS + 2 * ROW + 20, 8, 77, "follows key 77"},                   /* above that of row 3 */
        {ROWS + 2 * ROW + 20, 8, (uint64_t)INT64_MIN + 1, "follows key"}, /* that of row 1, again */
        {ROWS + 6 * ROW + 20, 8, 1, "follows key"},
    };
    fixture *f = *state;
    if (on_a_device()) skip();
    size_t n;
    unsigned char *p = small_file(f, &n), *q = malloc(n);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(q, p, n);
        for (int k = 0; k < bad[i].width; k++) q[bad[i].at + (size_t)k] = (unsigned char)(bad[i].value >> 8 * k);
        fix_store_crcs(q, n);
        write_bytes(in_dir(f, "bad"), q, n);
        const glofnd_status status = load(f, "bad");
        if (status != GLOFND_E_FORMAT || !strstr(glofnd_ctx_error(f->c), bad[i].text))
            fail_msg("case %zu: status %d, '%s' without '%s'", i, (int)status, glofnd_ctx_error(f->c), bad[i].text);
    }
    memcpy(q, p, n);
    memset(q + ROWS + ROW, 0, 20); /* a key without state, which the writer would have left out */
    fix_store_crcs(q, n);
    write_bytes(in_dir(f, "bad"), q, n);
    assert_int_equal(load(f, "bad"), GLOFND_E_FORMAT);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "without state"));
    free(p);
    free(q);
}
