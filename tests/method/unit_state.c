/* unit_state.c - the state of a store: steps that leave it as it is (GLOFND_WANT_NO_UPDATE), and all of it as arrays, out of one
 * store and into a new one that then continues with the same bits.
 */
#include "support/test.h"

#include "support/compare.h"
#include "support/losses.h"
#include "support/store_fixture.h"

/* The whole state, as a file: rows, shared lambda, ring. */
static void save(fixture *f, const runner *w, const char *name) {
    expect_ok(w->ctx, glofnd_store_save(w->ctx, w->store, in_dir(f, name)));
}

static scene learner_scene(int loss, glofnd_detector detector, glofnd_learner learner, int warmup) {
    char name[96];
    snprintf(name, sizeof name, "loss %d, detector %d, learner %d, warmup %d", loss, detector, learner, warmup);
    scene s = scene_make(name, loss);
    s.o.detector = detector;
    s.o.learner = learner;
    if (learner == GLOFND_LEARN_SHRINKAGE) s.o.lambda_init = GLOFND_INIT_AUTO;
    s.o.lambda_warmup = warmup;
    s.o.ring_rows = 60; /* not a multiple of the batch: it wraps inside one */
    s.o.update_epoch = 0, s.o.mask_epoch = 1;
    s.batch = 20, s.anchors = 30, s.dim = 12, s.steps = 4;
    return s;
}

static scene with_bank(scene s) {
    s.o.similarity = GLOFND_SIMILARITY_BANK;
    s.dim = 13; /* odd: a record is filled up */
    return s;
}

/* Calls check(f, s) for every loss with a learned threshold, one for all, the ring, and none. */
static void for_each_learner(fixture *f, void (*check)(fixture *f, scene *s)) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR; loss++) {
        scene s[] = {learner_scene(loss, GLOFND_DETECT_GLOFND, GLOFND_LEARN_ADAM, 2),
                     learner_scene(loss, GLOFND_DETECT_SINGLE, GLOFND_LEARN_SGD, 0),
                     learner_scene(loss, GLOFND_DETECT_GLOFND, GLOFND_LEARN_RING, 0),
                     with_bank(learner_scene(loss, GLOFND_DETECT_GLOFND, GLOFND_LEARN_ADAM, 0)),
                     with_bank(learner_scene(loss, GLOFND_DETECT_GLOFND, GLOFND_LEARN_RING, 0)),
                     learner_scene(loss, GLOFND_DETECT_GLOFND, GLOFND_LEARN_SHRINKAGE, 0),
                     learner_scene(loss, GLOFND_DETECT_GLOFND, GLOFND_LEARN_SHRINKAGE, 2),
                     with_bank(learner_scene(loss, GLOFND_DETECT_SINGLE, GLOFND_LEARN_SHRINKAGE, 0)),
                     learner_scene(loss, GLOFND_DETECT_NONE, GLOFND_LEARN_ADAM, 0)};
        for (size_t k = 0; k < sizeof s / sizeof *s; k++) check(f, &s[k]);
    }
}

/* ---- no update ---- */

static void expect_same_outputs(const scene *s, int step, const outputs *got, const outputs *want) {
    const size_t flat = (size_t)(s->batch * s->dim) * sizeof(float);
    if (memcmp(&got->stats, &want->stats, sizeof got->stats) != 0)
        fail_msg("%s, step %d: loss %.17g, not %.17g, or other stats differ", s->name, step, got->stats.loss, want->stats.loss);
    if (memcmp(got->grad_a, want->grad_a, flat) != 0 || memcmp(got->grad_b, want->grad_b, flat) != 0)
        fail_msg("%s, step %d: gradients differ", s->name, step);
}

/* Before each step the same one without update, in both forms: equal loss and gradients, and no trace of it. */
static void check_no_update(fixture *f, scene *s) {
    runner w = runner_make(s);
    outputs dry = outputs_make(s), out = outputs_make(s);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        scene_draw(s, step, &b);
        glofnd_batch q = b.q;
        q.want |= GLOFND_WANT_NO_UPDATE;
        save(f, &w, "before");
        run_two_calls(&w, &q, &dry);
        run_step(&w, &q, &dry);
        save(f, &w, "after");
        assert_same_bytes(in_dir(f, "before"), in_dir(f, "after"));
        run_step(&w, &b.q, &out);
        expect_same_outputs(s, step, &dry, &out);
        scene_batch_free(&b);
    }
    save(f, &w, "after");
    outputs_free(&dry);
    outputs_free(&out);
    runner_free(&w);
}

TEST_WITH(steps_without_update_leave_no_trace, fixture_open, fixture_close) { for_each_learner(*state, check_no_update); }

static long blocks_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (long)st.st_blocks;
}

/* A working file does not even grow: the pages of anchors that were only read stay holes. */
TEST_WITH(working_files_are_not_touched, fixture_open, fixture_close) {
    fixture *f = *state;
    scene s = learner_scene(LOSS_SOGCLR, GLOFND_DETECT_GLOFND, GLOFND_LEARN_ADAM, 0);
    runner w = {0};
    outputs out = outputs_make(&s);
    glofnd_store_info info = {.size = sizeof info};
    scene_batch b;
    scene_draw(&s, 0, &b);
    const glofnd_store_spec spec = {.size = sizeof spec, .n = s.anchors, .path = in_dir(f, "work")};
    expect_ok(w.ctx, glofnd_ctx_create(&s.o, &w.ctx, NULL, 0));
    expect_ok(w.ctx, glofnd_store_create(w.ctx, &spec, &w.store));
    b.q.want |= GLOFND_WANT_NO_UPDATE;
    const long before = blocks_of(in_dir(f, "work"));
    run_step(&w, &b.q, &out);
    assert_int_equal(blocks_of(in_dir(f, "work")), before);
    assert_int_equal(glofnd_store_describe(w.store, &info), GLOFND_OK);
    assert_int_equal(info.touched_rows, 0);
    b.q.want &= ~(uint32_t)GLOFND_WANT_NO_UPDATE;
    run_step(&w, &b.q, &out);
    assert_int_equal(glofnd_store_describe(w.store, &info), GLOFND_OK);
    assert_int_equal(info.touched_rows, s.anchors);
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

/* ---- all state as arrays ---- */

typedef struct arrays {
    glofnd_anchor *rows[2]; /* [anchors + 1], the shared row last */
    int64_t *id;            /* of the rows: 0, 1, ..., GLOFND_SHARED */
    int64_t *ring_id;
    float *ring[2];
    int64_t ring_count;
    uint16_t *bank[2]; /* [anchors][dim] */
} arrays;

static void *take(int64_t count, size_t size) {
    void *p = calloc((size_t)(count > 0 ? count : 1), size);
    assert_non_null(p);
    return p;
}

static arrays copy_out(const scene *s, const runner *w) {
    glofnd_store_info info = {.size = sizeof info};
    arrays x = {.id = take(s->anchors + 1, sizeof *x.id)};
    assert_int_equal(glofnd_store_describe(w->store, &info), GLOFND_OK);
    for (int64_t i = 0; i < s->anchors; i++) x.id[i] = i;
    x.id[s->anchors] = GLOFND_SHARED;
    for (int side = 0; side < info.modalities; side++) {
        x.rows[side] = take(s->anchors + 1, sizeof(glofnd_anchor));
        expect_ok(w->ctx, glofnd_anchors_get(w->ctx, w->store, side, x.id, s->anchors + 1, x.rows[side]));
    }
    for (int side = 0; side < info.modalities && s->o.similarity == GLOFND_SIMILARITY_BANK; side++) {
        x.bank[side] = take(s->anchors * s->dim, sizeof(uint16_t));
        expect_ok(w->ctx, glofnd_bank_get(w->ctx, w->store, side, x.id, s->anchors, x.bank[side]));
    }
    if (info.ring_rows == 0) return x;
    x.ring_count = info.ring_count;
    x.ring_id = take(x.ring_count, sizeof *x.ring_id);
    for (int side = 0; side < info.modalities; side++) x.ring[side] = take(x.ring_count * info.ring_dim, sizeof(float));
    expect_ok(w->ctx, glofnd_ring_get(w->ctx, w->store, x.ring_id, x.ring[0], x.ring[1]));
    return x;
}

static void copy_in(const scene *s, const runner *w, const arrays *x) {
    for (int side = 0; side < 2 && x->rows[side]; side++)
        expect_ok(w->ctx, glofnd_anchors_put(w->ctx, w->store, side, x->id, s->anchors + 1, x->rows[side]));
    for (int side = 0; side < 2 && x->bank[side]; side++)
        expect_ok(w->ctx, glofnd_bank_put(w->ctx, w->store, side, x->id, s->anchors, x->bank[side]));
    if (x->ring_id) expect_ok(w->ctx, glofnd_ring_put(w->ctx, w->store, x->ring_count, x->ring_id, x->ring[0], x->ring[1]));
}

static void arrays_free(arrays *x) {
    for (int side = 0; side < 2; side++) free(x->rows[side]), free(x->ring[side]), free(x->bank[side]);
    free(x->id);
    free(x->ring_id);
}

/* After each step a new store gets the arrays of the old one and goes one step beside it. */
static void check_arrays(fixture *f, scene *s) {
    runner w = runner_make(s);
    outputs out = outputs_make(s), want = outputs_make(s);
    (void)f;
    for (int step = 0; step < s->steps; step++) {
        scene_batch b, next;
        scene_draw(s, step, &b);
        scene_draw(s, step + 1, &next);
        run_step(&w, &b.q, &out);
        runner copy = runner_make(s);
        arrays x = copy_out(s, &w);
        copy_in(s, &copy, &x);
        glofnd_batch q = next.q;
        q.want |= GLOFND_WANT_NO_UPDATE; /* the old store stays where it is */
        run_step(&w, &q, &want);
        run_step(&copy, &next.q, &out);
        expect_same_outputs(s, step, &out, &want);
        arrays_free(&x);
        runner_free(&copy);
        scene_batch_free(&b);
        scene_batch_free(&next);
    }
    outputs_free(&out);
    outputs_free(&want);
    runner_free(&w);
}

TEST_WITH(a_store_continues_from_arrays, fixture_open, fixture_close) { for_each_learner(*state, check_arrays); }

/* ---- learner auto goes on with what a store has ---- */

/* After some steps of `learner` a store with learner auto is filled by `fill`, and goes on beside it with equal bits, or not. */
static void check_auto(fixture *f, glofnd_learner learner, int by_file, int equal) {
    for (int pairs = 0; pairs < 2; pairs++) {
        scene s = learner_scene(pairs ? LOSS_CLIP : LOSS_SOGCLR, GLOFND_DETECT_GLOFND, learner, 0);
        s.o.lambda_init = GLOFND_INIT_AUTO, s.o.lambda_lr = 0.05;
        scene other = s;
        other.o.learner = GLOFND_LEARN_AUTO;
        runner w = runner_make(&s), copy = runner_make(&other);
        outputs out = outputs_make(&s), got = outputs_make(&s);
        for (int step = 0; step < 2 * s.steps; step++) {
            scene_batch b;
            scene_draw(&s, step, &b);
            run_step(&w, &b.q, &out);
            if (step >= s.steps) run_step(&copy, &b.q, &got);
            scene_batch_free(&b);
            if (step != s.steps - 1) continue;
            arrays x = copy_out(&s, &w);
            if (by_file) {
                save(f, &w, "state");
                glofnd_store_free(copy.store);
                expect_ok(copy.ctx, glofnd_store_load(copy.ctx, in_dir(f, "state"), NULL, &copy.store));
            } else copy_in(&s, &copy, &x);
            arrays_free(&x);
        }
        const size_t flat = (size_t)(s.batch * s.dim) * sizeof(float);
        if ((memcmp(out.grad_a, got.grad_a, flat) == 0 && out.stats.lambda_mean == got.stats.lambda_mean) != equal)
            fail_msg("learner %d, %s: auto goes on %s", (int)learner, by_file ? "a file" : "arrays",
                     equal ? "differently" : "as it does");
        outputs_free(&out);
        outputs_free(&got);
        runner_free(&w);
        runner_free(&copy);
    }
}

TEST_WITH(auto_goes_on_with_what_adam_learned, fixture_open, fixture_close) {
    for (int by_file = 0; by_file < 2; by_file++) {
        check_auto(*state, GLOFND_LEARN_ADAM, by_file, 1);
        check_auto(*state, GLOFND_LEARN_SHRINKAGE, by_file, 1);
        check_auto(*state, GLOFND_LEARN_SGD, by_file, 0); /* it leaves no trace: a new learner, from its thresholds on */
    }
}

/* Rows of an older store, brought into one whose pool has begun, do not turn it into Adam's. */
TEST_WITH(a_store_with_a_pool_keeps_it, fixture_open, fixture_close) {
    (void)state;
    scene s = learner_scene(LOSS_SOGCLR, GLOFND_DETECT_GLOFND, GLOFND_LEARN_AUTO, 0);
    s.o.lambda_init = GLOFND_INIT_AUTO, s.o.lambda_lr = 0.05;
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    const int64_t id = 3, shared = GLOFND_SHARED;
    const glofnd_anchor adams = {.lambda = 0.5f, .m = 0.1f, .v = 0.2f, .log_u = -INFINITY, .clock = 7};
    glofnd_anchor before, after;
    for (int step = 0; step < 2; step++) {
        scene_batch b;
        scene_draw(&s, step, &b);
        run_step(&w, &b.q, &out);
        expect_ok(w.ctx, glofnd_anchors_get(w.ctx, w.store, 0, &shared, 1, step ? &after : &before));
        if (!step) expect_ok(w.ctx, glofnd_anchors_put(w.ctx, w.store, 0, &id, 1, &adams));
        scene_batch_free(&b);
    }
    assert_true(before.v < 0.0f);
    assert_int_equal(after.clock, before.clock + 1); /* another step of the pool */
    outputs_free(&out);
    runner_free(&w);
}

/* The oldest embedding comes first, also after the ring has wrapped. */
TEST_WITH(the_ring_is_in_order, fixture_open, fixture_close) {
    fixture *f = *state;
    enum { CAPACITY = 5, DIM = 3 };
    glofnd_store *s = new_store(f, 100, 2, 0, CAPACITY, DIM, NULL);
    float a[CAPACITY][DIM], b[CAPACITY][DIM];
    int64_t id[CAPACITY];
    for (int64_t pushed = 0; pushed < 12; pushed++) {
        const int64_t count = pushed < CAPACITY ? pushed : CAPACITY;
        glofnd_store_info info = {.size = sizeof info};
        assert_int_equal(glofnd_store_describe(s, &info), GLOFND_OK);
        assert_int_equal(info.ring_count, count);
        assert_int_equal(glofnd_ring_get(f->c, s, id, a[0], b[0]), GLOFND_OK);
        for (int64_t k = 0; k < count; k++) {
            assert_int_equal(id[k], pushed - count + k);
            assert_true(a[k][1] == (float)id[k] && b[k][2] == -(float)id[k]);
        }
        if (pushed == 7) assert_int_equal(glofnd_ring_put(f->c, s, count, id, a[0], b[0]), GLOFND_OK); /* the same, moved */
        const float x = (float)pushed, row[2][DIM] = {{x, x, x}, {-x, -x, -x}};
        const float *const sides[2] = {row[0], row[1]};
        gf_store_ring_push(s, sides, DIM, &pushed, 1);
    }
    glofnd_store_free(s);
}

TEST_WITH(bad_rings_are_refused, fixture_open, fixture_close) {
    fixture *f = *state;
    glofnd_store *none = new_store(f, 10, 1, 0, 0, 0, NULL), *s = new_store(f, 10, 2, 0, 2, 2, NULL);
    const float row[4] = {0.6f, 0.8f, 1, 0}, bad[4] = {1, 0, NAN, 1};
    const int64_t id[2] = {3, -1}, bad_id[2] = {3, -2};
    int64_t got_id[2];
    float got[2][4];
    assert_int_equal(glofnd_ring_put(f->c, s, 2, id, row, row), GLOFND_OK);
    assert_int_equal(glofnd_ring_get(NULL, s, got_id, got[0], got[1]), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ring_get(f->c, none, got_id, got[0], got[1]), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ring_get(f->c, s, got_id, got[0], NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ring_put(f->c, NULL, 2, id, row, row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ring_put(f->c, s, 3, id, row, row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ring_put(f->c, s, -1, id, row, row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ring_put(f->c, s, 2, NULL, row, row), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ring_put(f->c, s, 2, bad_id, row, row), GLOFND_E_INDEX);
    assert_int_equal(glofnd_ring_put(f->c, s, 2, id, row, bad), GLOFND_E_NUMERIC);
    assert_non_null(strstr(glofnd_ctx_error(f->c), "b: row 1"));
    assert_int_equal(glofnd_ring_get(f->c, s, got_id, got[0], got[1]), GLOFND_OK); /* as it was */
    assert_memory_equal(got[1], row, sizeof row);
    assert_int_equal(glofnd_ring_put(f->c, s, 0, NULL, NULL, NULL), GLOFND_OK); /* empty: a tensor without data is NULL */
    assert_int_equal(glofnd_ring_get(f->c, s, NULL, NULL, NULL), GLOFND_OK);
    glofnd_store_free(s);
    glofnd_store_free(none);
}
