/* ranks.c - see ranks.h. */
#define _GNU_SOURCE
#include "ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "method/store.h"
#include "on_device.h"

enum { ROWS_MAX = 256 }; /* of a batch, on one rank */

/* ---- the sum over ranks that glofnd_ctx_reduce asks for ---- */

static int sum_over_ranks(void *user, double *x, int n) {
    rank_worker *me = user;
    rank_set *set = me->set;
    double total[1024];
    if (n > 1024) return -1;
    set->parts[me->index] = x;
    pthread_barrier_wait(&set->barrier);
    for (int i = 0; i < n; i++) {
        total[i] = 0;
        for (int k = 0; k < set->ranks; k++) total[i] += set->parts[k][i]; /* same order everywhere: same bits */
    }
    pthread_barrier_wait(&set->barrier);
    memcpy(x, total, (size_t)n * sizeof *x);
    return 0;
}

/* ---- workers: no assertion in here, they may only be raised on the main thread ---- */

static void *worker_main(void *arg) {
    rank_worker *me = arg;
    outputs *out = me->set->out;
    const int64_t first = me->own.first, flat = first * me->q.dim, pairs = out->batch * (me->set->sides == 1 ? 4 : 2);
    int32_t *group = calloc((size_t)me->q.n, sizeof *group);
    if (!group) abort();
    me->q = on_device_grouped(me->w.ctx, &me->q, group);
    me->status = on_device_step_rows(me->w.ctx, me->w.store, &me->q, &me->own, out->links + 2 * first, &me->stats);
    pthread_barrier_wait(&me->set->barrier);
    if (me->status == GLOFND_OK)
        me->status = on_device_step_mask(me->w.ctx, &me->q, &me->own, out->links, out->keep + first * pairs);
    if (me->status == GLOFND_OK)
        me->status =
            on_device_step_grad(me->w.ctx, &me->q, &me->own, out->links, out->grad_a + flat, out->grad_b + flat, &me->stats);
    if (me->status == GLOFND_OK) me->status = glofnd_ctx_counters(me->w.ctx, &me->counters);
    free(group);
    return NULL;
}

rank_set rank_set_make(const scene *s, int ranks) {
    rank_set t = {.ranks = ranks, .anchors = s->anchors, .sides = scene_two_views(s) ? 1 : 2};
    assert_true(ranks <= MAX_RANKS);
    for (int k = 0; k < ranks; k++)
        t.rank[k] = (rank_worker){.index = k,
                                  .w = runner_make(s),
                                  .stats = {.size = sizeof(glofnd_stats)},
                                  .counters = {.size = sizeof(glofnd_counters)}};
    return t;
}

void rank_set_free(rank_set *t) {
    for (int k = 0; k < t->ranks; k++) runner_free(&t->rank[k].w);
}

static void exchange_bank(const rank_set *t, const rank_worker *owner, int side) {
    const int64_t *id = owner->q.id + owner->own.first, n = owner->own.rows, dim = owner->w.store->spec.bank_dim;
    if (dim == 0) return;
    uint16_t *rows = calloc((size_t)(n * dim), sizeof *rows);
    if (!rows) abort();
    expect_ok(owner->w.ctx, glofnd_bank_get(owner->w.ctx, owner->w.store, side, id, n, rows));
    for (int other = 0; other < t->ranks; other++) {
        const runner *w = &t->rank[other].w;
        expect_ok(w->ctx, glofnd_bank_put(w->ctx, w->store, side, id, n, rows));
    }
    free(rows);
}

/* Rows of the batch go from the rank that drew them to all others. */
static void exchange_rows(rank_set *t) {
    for (int k = 0; k < t->ranks; k++) {
        const rank_worker *owner = &t->rank[k];
        for (int side = 0; side < t->sides; side++) {
            exchange_bank(t, owner, side);
            glofnd_anchor rows[ROWS_MAX];
            const int64_t *id = owner->q.id + owner->own.first, n = owner->own.rows;
            if (n > ROWS_MAX) abort();
            expect_ok(owner->w.ctx, glofnd_anchors_get(owner->w.ctx, owner->w.store, side, id, n, rows));
            for (int other = 0; other < t->ranks; other++) {
                const runner *w = &t->rank[other].w;
                for (int64_t i = 0; i < n && other != k; i++) /* an id may come again */
                    expect_ok(w->ctx, glofnd_anchors_put(w->ctx, w->store, side, id + i, 1, rows + i));
            }
        }
    }
}

void rank_set_step(rank_set *t, const glofnd_batch *batch, outputs *out) {
    pthread_t thread[MAX_RANKS];
    glofnd_batch_extra extra; /* every store holds all anchors */
    const glofnd_batch full = batch_with_bank(&t->rank[0].w, batch, &extra), *q = &full;
    t->out = out;
    pthread_barrier_init(&t->barrier, NULL, (unsigned)t->ranks);
    for (int k = 0; k < t->ranks; k++) {
        rank_worker *me = &t->rank[k];
        me->set = t;
        me->q = *q;
        for (int side = 0; side < 2; side++) {
            me->grad_candidates[side] = calloc((size_t)(out->candidates[side] * q->dim + 1), sizeof(float));
            if (!me->grad_candidates[side]) abort();
        }
        if (q->negatives_a) me->q.grad_negatives_a = me->grad_candidates[0];
        if (q->negatives_b) me->q.grad_negatives_b = me->grad_candidates[1];
        me->own.size = sizeof me->own;
        me->own.first = q->n * k / t->ranks;
        me->own.rows = q->n * (k + 1) / t->ranks - me->own.first;
        expect_ok(me->w.ctx, glofnd_ctx_reduce(me->w.ctx, t->ranks > 1 ? sum_over_ranks : NULL, me));
        if (pthread_create(&thread[k], NULL, worker_main, me) != 0) abort();
    }
    for (int k = 0; k < t->ranks; k++) pthread_join(thread[k], NULL);
    pthread_barrier_destroy(&t->barrier);
    for (int side = 0; side < 2; side++)
        for (int64_t j = 0; j < out->candidates[side] * q->dim; j++) {
            double sum = 0;
            for (int k = 0; k < t->ranks; k++) sum += (double)t->rank[k].grad_candidates[side][j];
            out->grad_candidates[side][j] = (float)sum;
        }
    for (int k = 0; k < t->ranks; k++)
        for (int side = 0; side < 2; side++) free(t->rank[k].grad_candidates[side]);
    for (int k = 0; k < t->ranks; k++) expect_status_ok(t->rank[k].status, t->rank[k].w.ctx, "a rank's step");
    exchange_rows(t);
    bank_free(&extra);
}

/* ---- comparing ---- */

static void expect_rank_stats(const scene *s, int step, const rank_set *t, const outputs *single, const ref_step *r) {
    int64_t pairs = 0, flagged = 0, rescued = 0, same = 0, hits = 0;
    double kept = 0, neighbours = 0;
    for (int k = 0; k < t->ranks; k++) {
        const glofnd_stats *x = &t->rank[k].stats;
        pairs += x->pairs;
        flagged += x->flagged;
        rescued += x->rescued;
        same += x->same;
        hits += x->hits;
        kept += x->kept_share * (double)x->pairs / (double)single->stats.pairs;
        neighbours += t->rank[k].counters.neighbours * (double)t->rank[k].own.rows / (double)r->batch;
    }
    expect_equal(s->name, step, "pairs over ranks", pairs, single->stats.pairs);
    expect_equal(s->name, step, "flagged over ranks", flagged, single->stats.flagged);
    expect_equal(s->name, step, "rescued over ranks", rescued, single->stats.rescued);
    expect_equal(s->name, step, "same over ranks", same, single->stats.same);
    expect_equal(s->name, step, "hits over ranks", hits, single->stats.hits);
    expect_near(s->name, step, "kept_share over ranks", kept, single->stats.kept_share, 1e-12);
    expect_near(s->name, step, "neighbours over ranks", neighbours, r->neighbours, 1e-12);
}

/* Per rank: what the rank must report, and the factor of its gradient. Their sum is the batch's loss but for compat OFFICIAL. */
static void expect_rank(const scene *s, int step, const rank_worker *me, const outputs *many, const outputs *single,
                        const ref_step *r) {
    const ref_rank want = ref_rank_of(&s->o, &me->q, &me->own, r);
    const double relative = weight_error(r), k = 1 / r->tau[0], scale_error = relative * fmax(1, fabs(want.grad_scale));
    expect_near(s->name, step, "loss of a rank", me->stats.loss, want.loss, relative * fmax(1, fabs(want.loss)));
    expect_near(s->name, step, "grad_scale of a rank", me->stats.grad_scale, want.grad_scale, scale_error);
    expect_near(s->name, step, "grad_bias of a rank", me->stats.grad_bias, want.grad_bias,
                relative * fmax(1, fabs(want.grad_bias)));
    expect_near(s->name, step, "grad_tau of a rank", me->stats.grad_tau, want.grad_tau, k * k * scale_error);
    for (int64_t j = me->own.first * r->dim; j < (me->own.first + me->own.rows) * r->dim; j++) {
        const double allowed = relative * gradient_scale(r) * want.grad_factor;
        expect_near(s->name, step, "grad_a of a rank", many->grad_a[j], want.grad_factor * single->grad_a[j], allowed);
        expect_near(s->name, step, "grad_b of a rank", many->grad_b[j], want.grad_factor * single->grad_b[j], allowed);
    }
}

void expect_ranks(const scene *s, int step, const rank_set *t, const outputs *many, const outputs *single, const ref_step *r) {
    const int64_t pairs = s->batch * s->batch * (t->sides == 1 ? 4 : 2);
    for (int k = 0; k < t->ranks; k++) expect_rank(s, step, &t->rank[k], many, single, r);
    for (int side = 0; side < 2; side++)
        for (int64_t j = 0; j < s->candidates[side] * r->dim; j++)
            expect_near(s->name, step, "gradient of candidates, of all ranks", many->grad_candidates[side][j],
                        single->grad_candidates[side][j], weight_error(r) * gradient_scale(r));
    if (memcmp(many->keep, single->keep, (size_t)pairs) != 0)
        fail_msg("%s, step %d: flags depend on the number of ranks", s->name, step);
    for (int64_t row = 0; row < 2 * s->batch; row++)
        expect_equal(s->name, step, "kept with ranks", many->links[row].kept, single->links[row].kept);
    expect_rank_stats(s, step, t, single, r);
}

void check_ranks(scene *s, int ranks) {
    scene_avoid_ties(s);
    ref_store ref;
    scene_ref_store(s, &ref);
    runner one = runner_make(s);
    rank_set set = rank_set_make(s, ranks);
    outputs single = outputs_make(s), many = outputs_make(s);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        ref_step r;
        scene_draw(s, step, &b);
        ref_step_run(&s->o, &ref, &b.q, NULL, &r);
        run_two_calls(&one, &b.q, &single);
        expect_outputs(s, step, &b.q, &single, &r);
        rank_set_step(&set, &b.q, &many);
        expect_ranks(s, step, &set, &many, &single, &r);
        expect_store(s, step, &one, &ref, &r);
        for (int k = 0; k < ranks; k++) expect_store(s, step, &set.rank[k].w, &ref, &r);
        ref_step_free(&r);
        scene_batch_free(&b);
    }
    outputs_free(&single);
    outputs_free(&many);
    rank_set_free(&set);
    runner_free(&one);
    ref_store_free(&ref);
}

/* Steps of one scene, and the same ones made in another way. */
static void check_same_bits(const scene *s, const scene *other, void (*run)(runner *w, const glofnd_batch *q, outputs *out)) {
    const size_t flat = sizeof(float) * (size_t)(s->batch * s->dim);
    runner one = runner_make(s), two = runner_make(other);
    outputs x = outputs_make(s), y = outputs_make(s);
    for (int step = 0; step < s->steps; step++) {
        scene_batch b;
        scene_draw(s, step, &b);
        run_step(&one, &b.q, &x);
        run(&two, &b.q, &y);
        assert_memory_equal(x.grad_a, y.grad_a, flat);
        assert_memory_equal(x.grad_b, y.grad_b, flat);
        for (int side = 0; side < 2; side++)
            assert_memory_equal(x.grad_candidates[side], y.grad_candidates[side],
                                sizeof(float) * (size_t)(s->candidates[side] * s->dim));
        assert_memory_equal(&x.stats, &y.stats, sizeof x.stats);
        scene_batch_free(&b);
    }
    outputs_free(&x);
    outputs_free(&y);
    runner_free(&one);
    runner_free(&two);
}

void check_threads(const scene *s, int threads) {
    scene with = *s;
    with.o.threads = threads;
    check_same_bits(s, &with, run_step);
}

void check_two_calls(const scene *s) { check_same_bits(s, s, run_two_calls); }
