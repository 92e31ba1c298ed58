/* unit_step_args.c - bad input to step and context calls: a status, a text, an untouched store, and a library that still works.
 *
 * Each case takes a valid call, spoils one thing, and names the status the header promises. After all of them the same store must
 * still take the same step, bit for bit, as one that never saw an error.
 */
#define _GNU_SOURCE
#include "support/test.h"

#include "support/bed.h"
#include "support/losses.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the batch ---- */

enum { ROWS = -2, RANKS = -4 };

typedef struct batch_case {
    const char *what;
    int status;
    void (*spoil)(bed *t, glofnd_batch *q);
    int calls;        /* 2: glofnd_step and step_rows; 4: step_grad and step_mask too; ROWS, RANKS: without glofnd_step */
    const char *text; /* must appear in the message, or NULL */
} batch_case;

/* Slots of its own for every sample: row i of the store holds the state of sample i. */
static int64_t slots[64];
static glofnd_own_rows own; /* of the calls for several ranks; all rows, unless a case changes it */
static void give_slots(glofnd_batch *q) {
    for (int64_t i = 0; i < q->n; i++) slots[i] = i;
    own.slot = slots;
}

#define SPOIL(name, ...)                        \
    static void name(bed *t, glofnd_batch *q) { \
        (void)t;                                \
        (void)q;                                \
        __VA_ARGS__;                            \
    }
SPOIL(size_zero, q->size = 0)
SPOIL(size_huge, q->size = (size_t)1 << 40)
SPOIL(extra_size_zero, t->b.extra->size = 0)
SPOIL(own_size_zero, own.size = 0)
SPOIL(rows_zero, own.rows = 0)
SPOIL(rows_negative, own.rows = -3)
SPOIL(n_zero, q->n = 0)
SPOIL(rows_above_cols, own.rows = q->n + 1)
SPOIL(row0_negative, own.first = -1)
SPOIL(row0_too_large, own.first = 1)
SPOIL(batch_of_one, q->n = 1)
SPOIL(dim_zero, q->dim = 0)
SPOIL(dim_negative, q->dim = -5)
SPOIL(huge_shape, q->n = INT64_MAX / 2; q->dim = INT64_MAX / 2)
SPOIL(no_a, q->a = NULL)
SPOIL(no_b, q->b = NULL)
SPOIL(no_id, q->id = NULL)
SPOIL(repeated_id, t->b.id[5] = t->b.id[2])
SPOIL(negative_id, t->b.id[4] = -1)
SPOIL(id_too_large, t->b.id[4] = t->s.anchors)
SPOIL(id_far_too_large, t->b.id[4] = INT64_MAX)
SPOIL(negative_name, give_slots(q); t->b.id[4] = -1)
SPOIL(repeated_name, give_slots(q); t->b.id[5] = t->b.id[2])
SPOIL(repeated_slot, give_slots(q); slots[5] = slots[2])
SPOIL(slot_negative, give_slots(q); slots[4] = -1)
SPOIL(slot_too_large, give_slots(q); slots[4] = t->s.anchors)
SPOIL(negative_epoch, q->epoch = -1)
SPOIL(negative_tau, q->tau = -0.1)
SPOIL(nan_tau, q->tau = NAN)
SPOIL(gamma_above_one, q->gamma = 1.5)
SPOIL(nan_gamma, q->gamma = NAN)
SPOIL(nan_in_a, t->b.a[7 * t->s.dim + 3] = NAN)
SPOIL(inf_in_b, t->b.b[9 * t->s.dim] = INFINITY)
SPOIL(minus_inf_in_a, t->b.a[12 * t->s.dim + 16] = -INFINITY)
SPOIL(overflowing_norm, t->b.a[6 * t->s.dim] = 3e38f; t->b.a[6 * t->s.dim + 1] = INFINITY)

static const batch_case BATCH[] = {
    {"batch.size 0", GLOFND_E_ARGUMENT, size_zero, 4, NULL},
    {"batch.size that was never set", GLOFND_E_ARGUMENT, size_huge, 4, "batch.size"},
    {"extra.size 0", GLOFND_E_ARGUMENT, extra_size_zero, 4, "batch.extra.size"},
    {"own.size 0", GLOFND_E_ARGUMENT, own_size_zero, RANKS, "own.size"},
    {"rows 0", GLOFND_E_ARGUMENT, rows_zero, RANKS, NULL},
    {"rows < 0", GLOFND_E_ARGUMENT, rows_negative, RANKS, NULL},
    {"n 0", GLOFND_E_ARGUMENT, n_zero, 4, NULL},
    {"rows > n", GLOFND_E_ARGUMENT, rows_above_cols, RANKS, NULL},
    {"first < 0", GLOFND_E_ARGUMENT, row0_negative, RANKS, NULL},
    {"first + rows > n", GLOFND_E_ARGUMENT, row0_too_large, RANKS, NULL},
    {"a batch of one", GLOFND_E_ARGUMENT, batch_of_one, 4, NULL},
    {"dim 0", GLOFND_E_ARGUMENT, dim_zero, 4, NULL},
    {"dim < 0", GLOFND_E_ARGUMENT, dim_negative, 4, NULL},
    {"a shape whose bytes overflow", ANY_ERROR, huge_shape, 4, NULL},
    {"a NULL", GLOFND_E_ARGUMENT, no_a, 4, NULL},
    {"b NULL", GLOFND_E_ARGUMENT, no_b, 4, NULL},
    {"id NULL", GLOFND_E_ARGUMENT, no_id, 2, NULL},
    {"repeated id", GLOFND_E_INDEX, repeated_id, 2, "batch.id[2] and batch.id[5] are both"},
    {"negative id", GLOFND_E_INDEX, negative_id, 2, "batch.id[4] is -1; the store has ids 0 .. "},
    {"id = n", GLOFND_E_INDEX, id_too_large, 2, "batch.id[4]"},
    {"id far beyond n", GLOFND_E_INDEX, id_far_too_large, 2, NULL},
    {"negative id beside slots", GLOFND_E_INDEX, negative_name, ROWS, "batch.id[4] is -1; ids must not be negative"},
    {"repeated id beside slots", GLOFND_E_INDEX, repeated_name, ROWS, "batch.id[2] and batch.id[5] are both"},
    {"repeated slot", GLOFND_E_INDEX, repeated_slot, ROWS, "own.slot[2] and own.slot[5] are both 2; slots must differ"},
    {"slot < 0", GLOFND_E_INDEX, slot_negative, ROWS, "own.slot[4] is -1; the store has slots 0 .. "},
    {"slot = n", GLOFND_E_INDEX, slot_too_large, ROWS, "own.slot[4]"},
    {"epoch < 0", GLOFND_E_ARGUMENT, negative_epoch, 2, NULL},
    {"tau < 0", GLOFND_E_OPTION, negative_tau, 2, NULL},
    {"tau NaN", GLOFND_E_OPTION, nan_tau, 2, NULL},
    {"gamma > 1", GLOFND_E_OPTION, gamma_above_one, 2, NULL},
    {"gamma NaN", GLOFND_E_OPTION, nan_gamma, 2, NULL},
    {"NaN in row 7 of a", GLOFND_E_NUMERIC, nan_in_a, 2, "7"},
    {"Inf in row 9 of b", GLOFND_E_NUMERIC, inf_in_b, 2, "9"},
    {"-Inf in row 12 of a", GLOFND_E_NUMERIC, minus_inf_in_a, 2, "12"},
    {"Inf beside a large value", GLOFND_E_NUMERIC, overflowing_norm, 2, "6"},
};

static glofnd_status call_with(bed *t, int call, const glofnd_batch *q) {
    glofnd_ctx *c = t->w.ctx;
    switch (call) {
    case 0: return glofnd_step(c, t->w.store, q, t->out.grad_a, t->out.grad_b, &t->out.stats);
    case 1: return glofnd_step_rows(c, t->w.store, q, &own, t->out.links, &t->out.stats);
    case 2: return glofnd_step_grad(c, q, &own, t->out.links, t->out.grad_a, t->out.grad_b, NULL);
    default: return glofnd_step_mask(c, q, &own, t->out.links, t->out.keep);
    }
}

static void refuse_batch(bed *t, const batch_case *k) {
    static const char *const name[] = {"step", "step_rows", "step_grad", "step_mask"};
    glofnd_batch q = t->b.q;
    char what[128];
    own = (glofnd_own_rows){.size = sizeof own, .rows = q.n};
    k->spoil(t, &q);
    for (int call = k->calls < 0; call < abs(k->calls); call++) {
        snprintf(what, sizeof what, "%s: %s", name[call], k->what);
        const glofnd_status got = call_with(t, call, &q);
        if (k->text && !strstr(glofnd_ctx_error(t->w.ctx), k->text))
            fail_msg("%s: text '%s' lacks '%s'", what, glofnd_ctx_error(t->w.ctx), k->text);
        expect_refused(t, what, got, k->status);
    }
}

/* The step after all the errors, against a store that never saw one. */
static void expect_still_right(bed *t, int loss, glofnd_detector detector) {
    bed clean = bed_make(loss, detector);
    scene_batch b;
    const size_t flat = (size_t)(t->s.batch * t->s.dim) * sizeof(float);
    scene_draw(&t->s, 3, &b);
    run_step(&t->w, &b.q, &t->out);
    run_step(&clean.w, &b.q, &clean.out);
    assert_memory_equal(t->out.grad_a, clean.out.grad_a, flat);
    assert_memory_equal(t->out.grad_b, clean.out.grad_b, flat);
    assert_true(t->out.stats.loss == clean.out.stats.loss);
    bed_read_rows(&clean, clean.before);
    expect_untouched(&clean, "clean");
    bed_read_rows(t, t->before);
    assert_memory_equal(t->before, clean.before, (size_t)(bed_sides(t) * (t->s.anchors + 1)) * sizeof(glofnd_anchor));
    scene_batch_free(&b);
    bed_free(&clean);
}

TEST(bad_batches_are_refused) {
    static const int loss[] = {LOSS_SOGCLR, LOSS_ISOGCLR};
    for (int l = 0; l < 2; l++) {
        bed t = bed_make(loss[l], GLOFND_DETECT_GLOFND);
        for (size_t k = 0; k < sizeof BATCH / sizeof *BATCH; k++) {
            scene_batch_free(&t.b);
            scene_draw(&t.s, 2, &t.b);
            refuse_batch(&t, &BATCH[k]);
        }
        expect_still_right(&t, loss[l], GLOFND_DETECT_GLOFND);
        bed_free(&t);
    }
}

/* ---- NULL for whole arguments ---- */

TEST(null_arguments_are_refused) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    glofnd_ctx *c = t.w.ctx;
    glofnd_store *s = t.w.store;
    const glofnd_batch *q = &t.b.q;
    outputs *o = &t.out;
    run_two_calls(&t.w, q, o);
    bed_read_rows(&t, t.before);
    assert_int_equal(glofnd_step(NULL, s, q, o->grad_a, o->grad_b, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_step_rows(NULL, s, q, NULL, o->links, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_step_grad(NULL, q, NULL, o->links, o->grad_a, o->grad_b, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_step_mask(NULL, q, NULL, o->links, o->keep), GLOFND_E_ARGUMENT);
    expect_refused(&t, "store", glofnd_step(c, NULL, q, o->grad_a, o->grad_b, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "batch", glofnd_step(c, s, NULL, o->grad_a, o->grad_b, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "grad_a", glofnd_step(c, s, q, NULL, o->grad_b, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "grad_b", glofnd_step(c, s, q, o->grad_a, NULL, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "rows: store", glofnd_step_rows(c, NULL, q, NULL, o->links, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "rows: batch", glofnd_step_rows(c, s, NULL, NULL, o->links, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "rows: links", glofnd_step_rows(c, s, q, NULL, NULL, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "grad: batch", glofnd_step_grad(c, NULL, NULL, o->links, o->grad_a, o->grad_b, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "grad: links", glofnd_step_grad(c, q, NULL, NULL, o->grad_a, o->grad_b, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "grad: grad_a", glofnd_step_grad(c, q, NULL, o->links, NULL, o->grad_b, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "mask: batch", glofnd_step_mask(c, NULL, NULL, o->links, o->keep), GLOFND_E_ARGUMENT);
    expect_refused(&t, "mask: links", glofnd_step_mask(c, q, NULL, NULL, o->keep), GLOFND_E_ARGUMENT);
    expect_refused(&t, "mask: keep", glofnd_step_mask(c, q, NULL, o->links, NULL), GLOFND_E_ARGUMENT);
    expect_ok(c, glofnd_step(c, s, q, o->grad_a, o->grad_b, NULL)); /* stats may be NULL */
    bed_free(&t);
}

/* ---- structs of other versions: Growth in glofnd.h ---- */

/* A batch without its last member is that of an older program; a longer one is taken while what is unknown in it is 0. */
TEST(batches_of_other_versions) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    struct {
        glofnd_batch q;
        int64_t newer[2];
    } longer = {.q = t.b.q};
    outputs *o = &t.out;
    longer.q.want |= GLOFND_WANT_NO_UPDATE;
    glofnd_batch shorter = longer.q;
    expect_ok(t.w.ctx, glofnd_step(t.w.ctx, t.w.store, &longer.q, o->grad_a, o->grad_b, &o->stats));
    const double loss = o->stats.loss;
    shorter.size = offsetof(glofnd_batch, extra);
    shorter.extra = (const void *)(uintptr_t)1; /* must not be read */
    longer.q.size = sizeof longer;
    for (int k = 0; k < 2; k++) {
        o->stats.loss = 0.0;
        expect_ok(t.w.ctx, glofnd_step(t.w.ctx, t.w.store, k ? &longer.q : &shorter, o->grad_a, o->grad_b, &o->stats));
        assert_true(o->stats.loss == loss);
    }
    shorter.size--;
    expect_refused(&t, "a shorter batch", call_with(&t, 0, &shorter), GLOFND_E_ARGUMENT);
    longer.newer[1] = 1;
    own = (glofnd_own_rows){.size = sizeof own, .rows = longer.q.n};
    for (int call = 0; call < 4; call++) {
        expect_refused(&t, "a member of a newer version", call_with(&t, call, &longer.q), GLOFND_E_ARGUMENT);
        assert_non_null(strstr(glofnd_ctx_error(t.w.ctx), "newer library"));
    }
    bed_free(&t);
}

/* The same for the other structs that are read, and for those that are filled: what they have beyond ours becomes 0. */
TEST(structs_of_other_versions) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    struct {
        glofnd_stats x;
        int64_t newer;
    } stats = {.x.size = sizeof stats, .newer = 7};
    struct {
        glofnd_store_info x;
        int64_t newer;
    } info = {.x.size = sizeof info, .newer = 7};
    struct {
        glofnd_own_rows x;
        int64_t newer;
    } part = {.x = {.size = sizeof part, .rows = t.b.q.n}, .newer = 7};
    outputs *o = &t.out;
    expect_refused(&t, "own rows of a newer version", glofnd_step_rows(t.w.ctx, t.w.store, &t.b.q, &part.x, o->links, NULL),
                   GLOFND_E_ARGUMENT);
    part.newer = 0;
    expect_ok(t.w.ctx, glofnd_step_rows(t.w.ctx, t.w.store, &t.b.q, &part.x, o->links, &stats.x));
    assert_true(stats.x.size == sizeof stats && stats.x.pairs > 0 && stats.newer == 0);
    assert_int_equal(glofnd_store_describe(t.w.store, &info.x), GLOFND_OK);
    assert_true(info.x.size == sizeof info && info.x.n == t.s.anchors && info.newer == 0);
    info.x.size = sizeof info.x - 1;
    assert_int_equal(glofnd_store_describe(t.w.store, &info.x), GLOFND_E_ARGUMENT);
    bed_free(&t);
}

/* ---- what a detector or loss needs ---- */

TEST(missing_inputs_are_refused) {
    static const glofnd_detector needy[] = {GLOFND_DETECT_ORACLE, GLOFND_DETECT_GROUPS};
    for (int k = 0; k < 2; k++) {
        bed t = bed_make(LOSS_SOGCLR, needy[k]);
        glofnd_batch q = t.b.q;
        q.want = 0;
        q.label = NULL;
        q.group = NULL;
        expect_refused(&t, k ? "GROUPS without groups" : "ORACLE without labels",
                       glofnd_step(t.w.ctx, t.w.store, &q, t.out.grad_a, t.out.grad_b, NULL), GLOFND_E_ARGUMENT);
        bed_free(&t);
    }
}

TEST(store_must_fit_the_loss) {
    static const struct {
        int store, loss;
        glofnd_learner learner;
        const char *what;
    } pair[] = {
        {LOSS_SOGCLR, LOSS_CLIP, GLOFND_LEARN_ADAM, "CLIP on a store of one modality"},
        {LOSS_CLIP, LOSS_SOGCLR, GLOFND_LEARN_ADAM, "SOGCLR on a store of two modalities"},
        {LOSS_CLIP, LOSS_ISOGCLR, GLOFND_LEARN_ADAM, "ISOGCLR on a store without temperatures"},
        {LOSS_SOGCLR, LOSS_SOGCLR, GLOFND_LEARN_RING, "RING on a store without ring"},
    };
    for (int k = 0; k < 4; k++) {
        bed t = bed_make(pair[k].store, GLOFND_DETECT_GLOFND);
        glofnd_options o = t.s.o;
        losses_set(&o, pair[k].loss);
        o.learner = pair[k].learner;
        expect_ok(t.w.ctx, glofnd_ctx_configure(t.w.ctx, &o));
        expect_refused(&t, pair[k].what, glofnd_step(t.w.ctx, t.w.store, &t.b.q, t.out.grad_a, t.out.grad_b, NULL), ANY_ERROR);
        bed_free(&t);
    }
}

TEST(unit_vectors_are_checked) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    glofnd_options o = t.s.o;
    o.normalize = 0;
    expect_ok(t.w.ctx, glofnd_ctx_configure(t.w.ctx, &o)); /* the batch has lengths from 0.5 to 1.5 */
    expect_refused(&t, "long vectors with normalize 0", glofnd_step(t.w.ctx, t.w.store, &t.b.q, t.out.grad_a, t.out.grad_b, NULL),
                   ANY_ERROR);
    bed_free(&t);
}

/* A zero vector has no direction: similarity 0 to all, and everything stays finite; its own gradient is divided by 1e-12. */
TEST(zero_vectors_stay_finite) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    double largest[2] = {0, 0}; /* of the other rows; of the zero row */
    memset(t.b.a + 3 * t.s.dim, 0, (size_t)t.s.dim * sizeof(float));
    run_step(&t.w, &t.b.q, &t.out);
    assert_true(isfinite(t.out.stats.loss));
    for (int64_t j = 0; j < t.s.batch * t.s.dim; j++) {
        double *most = &largest[j / t.s.dim == 3];
        assert_true(isfinite(t.out.grad_a[j]) && isfinite(t.out.grad_b[j]));
        *most = fmax(*most, fabs((double)t.out.grad_a[j]));
    }
    assert_true(largest[0] < 10 && largest[1] > 1e8 && largest[1] < 1e13);
    bed_free(&t);
}

/* Before the first step there are no stats, and nothing is written. A failed step does not change that. */
TEST(stats_need_a_step) {
    scene s = scene_make("stats", LOSS_SOGCLR);
    runner w = runner_make(&s);
    outputs out = outputs_make(&s);
    glofnd_stats stats = {.size = sizeof stats, .loss = 7};
    scene_batch b;
    scene_draw(&s, 0, &b);
    glofnd_batch bad = b.q;
    bad.epoch = -1;
    assert_int_equal(glofnd_ctx_stats(NULL, &stats), GLOFND_E_ARGUMENT);
    for (int after_failure = 0; after_failure < 2; after_failure++) {
        assert_int_equal(glofnd_ctx_stats(w.ctx, &stats), GLOFND_E_ARGUMENT);
        assert_non_null(strstr(glofnd_ctx_error(w.ctx), "no step"));
        assert_true(stats.loss == 7);
        assert_int_equal(glofnd_step(w.ctx, w.store, &bad, out.grad_a, out.grad_b, NULL), GLOFND_E_ARGUMENT);
    }
    for (int two_calls = 0; two_calls < 2; two_calls++) {
        if (two_calls) run_two_calls(&w, &b.q, &out);
        else run_step(&w, &b.q, &out);
        expect_ok(w.ctx, glofnd_ctx_stats(w.ctx, &stats));
        assert_true(stats.loss == out.stats.loss && stats.pairs == out.stats.pairs);
    }
    scene_batch_free(&b);
    outputs_free(&out);
    runner_free(&w);
}

/* ---- options and context ---- */

typedef struct option_case {
    const char *what;
    void (*spoil)(glofnd_options *o);
} option_case;

#define OPTION(name, ...) \
    static void name(glofnd_options *o) { __VA_ARGS__; }
OPTION(alpha_two, o->alpha = 2)
OPTION(alpha_one, o->alpha = 1)
OPTION(alpha_negative, o->alpha = -0.1)
OPTION(alpha_nan, o->alpha = NAN)
OPTION(tau_zero, o->tau = 0)
OPTION(gamma_zero, o->gamma = 0)
OPTION(gamma_two, o->gamma = 2)
OPTION(omega_two, o->omega = 2)
OPTION(loss_unknown, o->loss = (glofnd_loss)77)
OPTION(detector_unknown, o->detector = (glofnd_detector)(-1))
OPTION(mask_before_update, o->update_epoch = 5; o->mask_epoch = 4)
OPTION(threads_negative, o->threads = -1)
OPTION(lr_nan, o->lambda_lr = NAN)
OPTION(ring_too_short, o->learner = GLOFND_LEARN_RING; o->alpha = 0.01; o->ring_rows = 50)
OPTION(official_topk, o->compat = GLOFND_COMPAT_OFFICIAL; o->detector = GLOFND_DETECT_FNC; o->fnc_rule = GLOFND_FNC_TOPK)

static const option_case OPTIONS[] = {
    {"alpha 2", alpha_two},
    {"alpha 1", alpha_one},
    {"alpha -0.1", alpha_negative},
    {"alpha NaN", alpha_nan},
    {"tau 0", tau_zero},
    {"gamma 0", gamma_zero},
    {"gamma 2", gamma_two},
    {"omega 2", omega_two},
    {"loss 77", loss_unknown},
    {"detector -1", detector_unknown},
    {"mask_epoch < update_epoch", mask_before_update},
    {"threads -1", threads_negative},
    {"lambda_lr NaN", lr_nan},
    {"ring shorter than 1/alpha", ring_too_short},
    {"topk under official", official_topk},
};

TEST(bad_options_are_refused) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    for (size_t k = 0; k < sizeof OPTIONS / sizeof *OPTIONS; k++) {
        glofnd_options o = t.s.o;
        glofnd_ctx *c = NULL;
        OPTIONS[k].spoil(&o);
        if (glofnd_ctx_create(&o, &c, NULL, 0) != GLOFND_E_OPTION) fail_msg("create with %s: not E_OPTION", OPTIONS[k].what);
        assert_null(c);
        expect_refused(&t, OPTIONS[k].what, glofnd_ctx_configure(t.w.ctx, &o), GLOFND_E_OPTION);
    }
    expect_still_right(&t, LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    bed_free(&t);
}

/* Values that all ranks share need a sum over them; a single rank must not decide alone. */
TEST(shared_lambda_needs_a_sum) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_SINGLE);
    const glofnd_own_rows half = {.size = sizeof half, .rows = t.b.q.n / 2};
    expect_refused(&t, "single, half of the rows, no reduce",
                   glofnd_step_rows(t.w.ctx, t.w.store, &t.b.q, &half, t.out.links, NULL), GLOFND_E_ARGUMENT);
    expect_still_right(&t, LOSS_SOGCLR, GLOFND_DETECT_SINGLE);
    bed_free(&t);
}

TEST(bad_context_calls_are_refused) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    glofnd_ctx *c = NULL;
    glofnd_options o = t.s.o;
    assert_int_equal(glofnd_ctx_create(NULL, &c, NULL, 0), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ctx_create(&o, NULL, NULL, 0), GLOFND_E_ARGUMENT);
    o.tau = 0;
    assert_int_not_equal(glofnd_ctx_create(&o, &c, NULL, 0), GLOFND_OK);
    assert_int_equal(glofnd_ctx_configure(NULL, &t.s.o), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ctx_reserve(NULL, 4, 4, 4, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(glofnd_ctx_reduce(NULL, NULL, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "configure NULL", glofnd_ctx_configure(t.w.ctx, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "reserve rows > cols", glofnd_ctx_reserve(t.w.ctx, 5, 4, 4, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "reserve dim 0", glofnd_ctx_reserve(t.w.ctx, 4, 4, 0, NULL), GLOFND_E_ARGUMENT);
    expect_refused(&t, "reserve without end", glofnd_ctx_reserve(t.w.ctx, INT64_MAX, INT64_MAX, INT64_MAX, NULL), ANY_ERROR);
    glofnd_ctx_free(NULL);
    glofnd_store_free(NULL);
    expect_still_right(&t, LOSS_SOGCLR, GLOFND_DETECT_GLOFND);
    bed_free(&t);
}

/* The caller's sum over ranks may fail, too. */
static int broken_sum(void *user, double *x, int n) {
    (void)user;
    (void)x;
    (void)n;
    return -1;
}

TEST(a_failing_sum_leaves_the_store) {
    bed t = bed_make(LOSS_SOGCLR, GLOFND_DETECT_SINGLE);
    const glofnd_own_rows six = {.size = sizeof six, .rows = 6};
    expect_ok(t.w.ctx, glofnd_ctx_reduce(t.w.ctx, broken_sum, NULL));
    expect_refused(&t, "step_rows with a failing sum", glofnd_step_rows(t.w.ctx, t.w.store, &t.b.q, &six, t.out.links, NULL),
                   ANY_ERROR);
    expect_ok(t.w.ctx, glofnd_ctx_reduce(t.w.ctx, NULL, NULL));
    expect_still_right(&t, LOSS_SOGCLR, GLOFND_DETECT_SINGLE);
    bed_free(&t);
}
