/* unit_lent.c - steps on rows in memory of the caller (glofnd_ctx_state): the bits of the same steps on a store, no trace of a
 * step that fails, and the phase of a step (glofnd_ctx_phase). With GLOFND_TEST_DEVICE the rows lie there. */
#include "support/test.h"

#include "support/compare.h"
#include "support/losses.h"
#include "support/on_device.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows on the device of a context ---- */

typedef struct lent_rows {
    int64_t n;
    int sides, on_gpu;
    size_t bytes;
    glofnd_anchor *at; /* as glofnd_ctx_state takes them */
} lent_rows;

static void move(const lent_rows *x, glofnd_anchor *to, const glofnd_anchor *from) {
#ifdef GF_HAVE_CUDA
    if (x->on_gpu && cudaMemcpy(to, from, x->bytes, cudaMemcpyDefault) != cudaSuccess) abort();
    if (x->on_gpu && cudaDeviceSynchronize() != cudaSuccess) abort();
#endif
    if (!x->on_gpu) memcpy(to, from, x->bytes);
}

static glofnd_anchor *fetch(const lent_rows *x) {
    glofnd_anchor *rows = calloc(1, x->bytes);
    if (!rows) abort();
    move(x, rows, x->at);
    return rows;
}

/* The state of a store, as glofnd_anchors_get gives it. */
static glofnd_anchor *rows_of_store(const lent_rows *x, const runner *w) {
    glofnd_anchor *rows = calloc(1, x->bytes);
    if (!rows) abort();
    for (int side = 0; side < x->sides; side++) {
        glofnd_anchor *first = rows + side * (x->n + 1);
        read_rows(w, side, x->n, first);
        expect_ok(w->ctx, glofnd_anchors_get(w->ctx, w->store, side, &(int64_t){GLOFND_SHARED}, 1, first + x->n));
    }
    return rows;
}

/* A copy of the state of w, given to the steps of c. */
static lent_rows lend(glofnd_ctx *c, const scene *s, const runner *w) {
    lent_rows x = {.n = s->anchors, .sides = scene_two_views(s) ? 1 : 2, .on_gpu = c->device != NULL};
    x.bytes = sizeof *x.at * (size_t)(x.sides * (x.n + 1));
#ifdef GF_HAVE_CUDA
    if (x.on_gpu) x.at = on_device_alloc(x.bytes);
#endif
    if (!x.on_gpu) x.at = malloc(x.bytes);
    if (!x.at) abort();
    glofnd_anchor *rows = rows_of_store(&x, w);
    move(&x, x.at, rows);
    free(rows);
    expect_ok(c, glofnd_ctx_state(c, x.at, x.n));
    return x;
}

static void take_back(lent_rows *x) {
#ifdef GF_HAVE_CUDA
    if (x->on_gpu) cudaFreeAsync(x->at, 0);
#endif
    if (!x->on_gpu) free(x->at);
}

/* ---- the bits of a store ---- */

typedef struct pair {
    runner on_store, on_rows; /* of on_rows only the context is used */
    lent_rows rows;
    outputs want, got;
} pair;

static pair pair_make(const scene *s) {
    pair p = {.on_store = runner_make(s), .want = outputs_make(s), .got = outputs_make(s)};
    expect_ok(p.on_rows.ctx, glofnd_ctx_create(&s->o, &p.on_rows.ctx, NULL, 0));
    p.rows = lend(p.on_rows.ctx, s, &p.on_store);
    return p;
}

static void pair_free(pair *p) {
    take_back(&p->rows);
    outputs_free(&p->want), outputs_free(&p->got);
    runner_free(&p->on_store), runner_free(&p->on_rows);
}

static void expect_same(const scene *s, int step, const pair *p) {
    const size_t flat = (size_t)(s->batch * s->dim) * sizeof(float);
    glofnd_anchor *want = rows_of_store(&p->rows, &p->on_store), *got = fetch(&p->rows);
    if (memcmp(&p->got.stats, &p->want.stats, sizeof p->want.stats) != 0)
        fail_msg("%s, step %d: loss %.17g, not %.17g, or other stats differ", s->name, step, p->got.stats.loss,
                 p->want.stats.loss);
    if (memcmp(p->got.grad_a, p->want.grad_a, flat) != 0 || memcmp(p->got.grad_b, p->want.grad_b, flat) != 0)
        fail_msg("%s, step %d: gradients differ", s->name, step);
    for (int64_t i = 0; i < p->rows.sides * (p->rows.n + 1); i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s, step %d: row %lld has lambda %g, clock %u, log_u %g; expected %g, %u, %g", s->name, step, (long long)i,
                     (double)got[i].lambda, got[i].clock, (double)got[i].log_u, (double)want[i].lambda, want[i].clock,
                     (double)want[i].log_u);
    free(want), free(got);
}

static void check_scene(const scene *s) {
    pair p = pair_make(s);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        scene_draw(s, step, &b);
        b.q.want = step == 1 ? GLOFND_WANT_NO_UPDATE : 0;
        void (*const run)(runner * w, const glofnd_batch *q, outputs *out) = step == 2 ? run_two_calls : run_step;
        run(&p.on_store, &b.q, &p.want);
        run(&p.on_rows, &b.q, &p.got);
        expect_same(s, step, &p);
        scene_batch_free(&b);
    }
    pair_free(&p);
}

static scene learning(int loss, glofnd_detector detector, int warmup) {
    char name[96];
    snprintf(name, sizeof name, "loss %d, detector %d, warmup %d", loss, detector, warmup);
    scene s = scene_make(name, loss);
    s.o.detector = detector, s.o.lambda_warmup = warmup;
    s.o.update_epoch = 0, s.o.mask_epoch = 1;
    return s;
}

TEST(steps_have_the_bits_of_a_store) {
    for (int loss = LOSS_SOGCLR; loss <= LOSS_ISOGCLR_VIEWS; loss++) {
        scene s[] = {learning(loss, GLOFND_DETECT_GLOFND, 0), learning(loss, GLOFND_DETECT_GLOFND, 2),
                     learning(loss, GLOFND_DETECT_SINGLE, 0), learning(loss, GLOFND_DETECT_NONE, 0),
                     learning(loss, GLOFND_DETECT_GLOFND, 0)};
        s[0].o.lambda_init = GLOFND_INIT_QUANTILE;
        s[4].o.learner = GLOFND_LEARN_SHRINKAGE, s[4].o.lambda_init = GLOFND_INIT_AUTO;
        for (size_t k = 0; k < sizeof s / sizeof *s; k++) check_scene(&s[k]);
    }
}

/* ---- rows that no step can continue from ---- */

static const glofnd_anchor BAD[] = {
    {.lambda = NAN, .clock = 1},
    {.lambda = 0.5f, .m = INFINITY, .clock = 1},
    {.lambda = 0.5f, .v = -INFINITY, .clock = 1},
    {.lambda = 0.5f, .log_u = NAN, .clock = 1},
    {.lambda = 0.5f, .log_u = INFINITY, .clock = 1},
    {.lambda = 1.5f, .clock = 1},
    {.lambda = -1.5f, .clock = 1},
    {.lambda = 0.5f}, /* never learned */
    {.lambda = 1, .tau = 1e-4f},
    {.lambda = 1, .tau = 101},
    {.lambda = 1, .tau = -1},
    {.lambda = 1, .tau_m = NAN},
    {.lambda = 1, .tau_v = -1},
};
enum { BADS = sizeof BAD / sizeof *BAD };

static glofnd_status step_with(pair *p, const scene_batch *b, int64_t at, const glofnd_anchor *row) {
    glofnd_anchor *before = fetch(&p->rows), *after;
    const glofnd_anchor good = before[at];
    before[at] = *row;
    move(&p->rows, p->rows.at, before);
    const glofnd_status status = on_device_step(p->on_rows.ctx, NULL, &b->q, p->got.grad_a, p->got.grad_b, &p->got.stats);
    after = fetch(&p->rows);
    if (status != GLOFND_OK) assert_memory_equal(after, before, p->rows.bytes);
    before[at] = good;
    move(&p->rows, p->rows.at, before);
    free(before), free(after);
    return status;
}

static void restore(const pair *p) {
    glofnd_anchor *rows = rows_of_store(&p->rows, &p->on_store);
    move(&p->rows, p->rows.at, rows);
    free(rows);
}

static int64_t not_in_batch(const scene *s, const scene_batch *b) {
    for (int64_t id = 0; id < s->anchors; id++) {
        int64_t i = 0;
        while (i < s->batch && b->id[i] != id) i++;
        if (i == s->batch) return id;
    }
    return -1;
}

TEST(bad_rows_are_refused) {
    scene s = learning(LOSS_CLIP, GLOFND_DETECT_GLOFND, 0);
    pair p = pair_make(&s);
    scene_batch b;
    scene_draw(&s, 0, &b);
    const int64_t second = s.anchors + 1, shared = second + s.anchors, other = second + not_in_batch(&s, &b);
    for (int i = 0; i < BADS; i++) {
        const glofnd_status want = glofnd_anchors_put(p.on_store.ctx, p.on_store.store, 1, &(int64_t){0}, 1, &BAD[i]);
        assert_true(want == GLOFND_E_NUMERIC || want == GLOFND_E_ARGUMENT);
        assert_int_equal(step_with(&p, &b, second + b.id[3], &BAD[i]), want);
        assert_non_null(strstr(glofnd_ctx_error(p.on_rows.ctx), "state"));
        assert_int_equal(step_with(&p, &b, shared, &BAD[i]), want);
        expect_ok(p.on_rows.ctx, step_with(&p, &b, other, &BAD[i])); /* nothing reads it */
        restore(&p);
    }
    run_step(&p.on_rows, &b.q, &p.got), run_step(&p.on_store, &b.q, &p.want);
    expect_same(&s, 0, &p);
    scene_batch_free(&b);
    pair_free(&p);
}

/* ---- wrong use ---- */

static void expect_refused(glofnd_status status, glofnd_status want, const glofnd_ctx *c, const char *text) {
    assert_int_equal(status, want);
    if (!strstr(glofnd_ctx_error(c), text)) fail_msg("\"%s\" does not say \"%s\"", glofnd_ctx_error(c), text);
}

TEST(wrong_use_is_refused) {
    scene s = learning(LOSS_SOGCLR, GLOFND_DETECT_GLOFND, 0);
    pair p = pair_make(&s);
    glofnd_ctx *c = p.on_rows.ctx;
    float *grad = p.got.grad_a;
    scene_batch b;
    scene_draw(&s, 0, &b);
    expect_refused(on_device_step(c, p.on_store.store, &b.q, grad, p.got.grad_b, NULL), GLOFND_E_ARGUMENT, c, "must be NULL");
    expect_refused(glofnd_ctx_state(c, (glofnd_anchor *)(void *)((char *)p.rows.at + 1), 3), GLOFND_E_ARGUMENT, c, "aligned");
    expect_refused(glofnd_ctx_state(c, p.rows.at, 0), GLOFND_E_ARGUMENT, c, "n is 0");
    assert_int_equal(glofnd_ctx_state(NULL, p.rows.at, 3), GLOFND_E_ARGUMENT);
    expect_ok(c, glofnd_ctx_state(c, p.rows.at, s.anchors));
    b.id[2] = s.anchors; /* the place of the shared row */
    assert_int_equal(on_device_step(c, NULL, &b.q, grad, p.got.grad_b, &p.got.stats), GLOFND_E_INDEX);
    expect_ok(c, glofnd_ctx_state(c, NULL, 0));
    expect_refused(on_device_step(c, NULL, &b.q, grad, p.got.grad_b, NULL), GLOFND_E_ARGUMENT, c, "store is NULL");
    scene_batch_free(&b);
    pair_free(&p);
}

TEST(kept_embeddings_are_unsupported) {
    for (int bank = 0; bank < 2; bank++) {
        scene s = learning(LOSS_SOGCLR, GLOFND_DETECT_GLOFND, 0);
        if (bank) s.o.similarity = GLOFND_SIMILARITY_BANK;
        else s.o.learner = GLOFND_LEARN_RING, s.o.ring_rows = 60;
        pair p = pair_make(&s);
        scene_batch b;
        scene_draw(&s, 0, &b);
        expect_refused(on_device_step(p.on_rows.ctx, NULL, &b.q, p.got.grad_a, p.got.grad_b, NULL), GLOFND_E_UNSUPPORTED,
                       p.on_rows.ctx, bank ? "bank" : "ring");
        scene_batch_free(&b);
        pair_free(&p);
    }
}

/* ---- phases: unit_epoch_plan.c has the rest ---- */

static uint64_t phase_of(glofnd_ctx *c, int32_t epoch, double tau) {
    const glofnd_batch q = {.size = sizeof q, .n = 8, .dim = 4, .epoch = epoch, .tau = tau};
    uint64_t phase = 0;
    expect_ok(c, glofnd_ctx_phase(c, &q, &phase));
    return phase;
}

TEST(phases_follow_the_options) {
    scene s = learning(LOSS_SOGCLR, GLOFND_DETECT_GLOFND, 0);
    runner w = runner_make(&s);
    const glofnd_batch bad = {.size = sizeof bad, .n = 8, .dim = 4, .epoch = -1};
    uint64_t phase = 0;
    assert_true(phase_of(w.ctx, 0, 0) != phase_of(w.ctx, 1, 0)); /* mask_epoch is 1 */
    assert_true(phase_of(w.ctx, 1, 0) == phase_of(w.ctx, INT32_MAX, 0));
    assert_true(phase_of(w.ctx, 1, 0) != phase_of(w.ctx, 1, 0.3));
    expect_refused(glofnd_ctx_phase(w.ctx, &bad, &phase), GLOFND_E_ARGUMENT, w.ctx, "epoch");
    expect_refused(glofnd_ctx_phase(w.ctx, &bad, NULL), GLOFND_E_ARGUMENT, w.ctx, "phase is NULL");
    expect_refused(glofnd_ctx_phase(w.ctx, NULL, &phase), GLOFND_E_ARGUMENT, w.ctx, "batch is NULL");
    assert_int_equal(glofnd_ctx_phase(NULL, &bad, &phase), GLOFND_E_ARGUMENT);
    runner_free(&w);
}
