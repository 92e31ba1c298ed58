/* mpi_step.c - the method over ranks: R ranks with divided state against one rank with all of it. Run by mpirun; every rank has
 * the whole batch, so each checks its own rows against a step of its own.
 *
 * For every loss, detector and learner that keeps state: ten steps over three passes through the ids, so that anchors are drawn
 * by other ranks than before. Both sides compute the same sums in a different order: gradients agree to 1e-5 of the largest,
 * state to 1e-5, the loss to 1e-6; kept counts are equal, since random similarities do not come that close to a threshold.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/step_ranks.h"
#include "support/losses.h"
#include "support/random.h"
#include "support/ranked.h"

enum { N = 60, B = 20, DIM = 24, STEPS = 10, RING = 64 };

typedef struct world {
    gf_comm *comm;
    glofnd_ctx *ctx, *whole_ctx;
    glofnd_store *work, *whole;
    gf_step_ranks ranks;
    glofnd_options o;
} world;

static int sum_over_ranks(void *user, double *x, int n) {
    gf_comm *c = user;
    return c->ops->sum(&here.error, c, x, n) != GLOFND_OK;
}

static void open_world(world *w) {
    glofnd_store_spec spec = {.size = sizeof spec, .n = N, .dim = DIM};
    const int bank = w->o.similarity == GLOFND_SIMILARITY_BANK;
    const gf_shard_spec shard = {
        .n = N, .loss = w->o.loss, .pairing = w->o.pairing, .rows = B / w->comm->ranks, .bank_dim = bank ? DIM : 0};
    if (glofnd_ctx_create(&w->o, &w->ctx, NULL, 0) != GLOFND_OK || glofnd_ctx_create(&w->o, &w->whole_ctx, NULL, 0) != GLOFND_OK)
        abort();
    LIB(w->whole_ctx, glofnd_store_create(w->whole_ctx, &spec, &w->whole));
    if (!bank) spec.n = shard.rows;
    LIB(w->ctx, glofnd_store_create(w->ctx, &spec, &w->work));
    LIB(w->ctx, glofnd_ctx_reduce(w->ctx, sum_over_ranks, w->comm));
    MUST(gf_step_ranks_open(&here.error, w->comm, w->comm, &shard, &w->ranks));
}

static void close_world(world *w) {
    gf_step_ranks_close(&w->ranks);
    glofnd_store_free(w->work);
    glofnd_store_free(w->whole);
    glofnd_ctx_free(w->ctx);
    glofnd_ctx_free(w->whole_ctx);
}

static float farthest(const float *a, const float *b, int64_t n, float *largest) {
    float worst = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        worst = fmaxf(worst, fabsf(a[i] - b[i]));
        *largest = fmaxf(*largest, fabsf(b[i]));
    }
    return worst;
}

static int two_sides(const world *w) { return w->o.pairing == GLOFND_PAIRING_IMAGE_TEXT; }

/* State of all anchors on their owners. */
static void compare_state(world *w, const char *name, int step) {
    const int me = w->comm->rank, ranks = w->comm->ranks;
    const int sides = 1 + two_sides(w);
    for (int side = 0; side < sides; side++)
        for (int64_t id = me; id < N; id += ranks) {
            glofnd_anchor x, y;
            const int64_t place = id / ranks;
            glofnd_ctx *c = gf_shard_ctx(w->ranks.shard);
            LIB(c, glofnd_anchors_get(c, gf_shard_store(w->ranks.shard), side, &place, 1, &x));
            LIB(w->whole_ctx, glofnd_anchors_get(w->whole_ctx, w->whole, side, &id, 1, &y));
            const int same_u = x.log_u == y.log_u || fabsf(x.log_u - y.log_u) < 1e-5f;
            CHECK(x.clock == y.clock && fabsf(x.lambda - y.lambda) < 1e-5f && same_u && fabsf(x.tau - y.tau) < 1e-5f,
                  "%s, step %d: anchor %d: lambda %g, log u %g, tau %g, clock %u; one rank has %g, %g, %g, %u", name, step,
                  (int)id, x.lambda, x.log_u, x.tau, x.clock, y.lambda, y.log_u, y.tau, y.clock);
        }
}

/* Averages of all anchors, on every rank, made of the same embeddings: the same bits. The rest of the working store is empty. */
static void compare_averages(world *w, const char *name, int step) {
    const int sides = 1 + two_sides(w);
    for (int side = 0; side < sides && w->o.similarity == GLOFND_SIMILARITY_BANK; side++)
        for (int64_t id = 0; id < N; id++) {
            uint16_t x[DIM], y[DIM];
            glofnd_anchor row;
            LIB(w->ctx, glofnd_bank_get(w->ctx, w->work, side, &id, 1, x));
            LIB(w->whole_ctx, glofnd_bank_get(w->whole_ctx, w->whole, side, &id, 1, y));
            CHECK(memcmp(x, y, sizeof x) == 0, "%s, step %d: the average of anchor %d differs", name, step, (int)id);
            LIB(w->ctx, glofnd_anchors_get(w->ctx, w->work, side, &id, 1, &row));
            CHECK(isinf(row.log_u), "%s, step %d: the working store still has the row of anchor %d", name, step, (int)id);
        }
}

typedef struct drawn { /* one batch, the same on all ranks */
    float a[B * DIM], b[B * DIM];
    int64_t id[B];
    int32_t label[B], group[B];
} drawn;

static void draw(rng *g, drawn *d, int step) {
    for (int i = 0; i < B; i++) {
        d->id[i] = (step % 3 * B + i * 7 % B + step / 3 * 11) % N;
        d->label[i] = (int32_t)(d->id[i] % 4);
        d->group[i] = (int32_t)(d->id[i] % 9);
        for (int k = 0; k < DIM; k++) {
            d->a[i * DIM + k] = (float)rng_normal(g) + (k == d->label[i]) * 1.5f;
            d->b[i * DIM + k] = d->a[i * DIM + k] + 0.5f * (float)rng_normal(g);
        }
    }
}

static void one_step(world *w, const char *name, rng *g, int step) {
    static drawn d;
    static float ga[B * DIM], gb[B * DIM], want_a[B * DIM], want_b[B * DIM];
    float links[B * GLOFND_LINK_BYTES / sizeof(float)];
    glofnd_stats own = {.size = sizeof own}, all = {.size = sizeof all};
    float largest = 0.0f;
    const int grouped = w->o.detector == GLOFND_DETECT_GROUPS;
    draw(g, &d, step);
    glofnd_batch q = {.size = sizeof q,
                      .n = B,
                      .dim = DIM,
                      .a = d.a,
                      .b = d.b,
                      .id = d.id,
                      .label = d.label,
                      .group = grouped ? d.group : NULL,
                      .epoch = step / 3,
                      .want = GLOFND_WANT_QUALITY};
    LIB(w->whole_ctx, glofnd_step(w->whole_ctx, w->whole, &q, want_a, want_b, &all));
    const int64_t own_rows = w->ranks.rows, row0 = w->ranks.row0, first = row0 * DIM, n = own_rows * DIM;
    static float a[B * DIM], b[B * DIM]; /* own rows alone */
    static uint16_t bank[2][B * DIM];
    memcpy(a + first, d.a + first, sizeof *a * (size_t)n);
    memcpy(b + first, d.b + first, sizeof *b * (size_t)n);
    q.a = a, q.b = b, q.id = w->ranks.id, q.label = w->ranks.label;
    q.group = grouped ? w->ranks.group : NULL;
    const glofnd_batch_extra extra = {.size = sizeof extra, .bank_a = bank[0], .bank_b = two_sides(w) ? bank[1] : NULL};
    glofnd_counters counters = {.size = sizeof counters}, whole = {.size = sizeof whole};
    q.extra = &extra;
    LIB(w->whole_ctx, glofnd_ctx_counters(w->whole_ctx, &whole));
    MUST(gf_step_ranks_draw(&here.error, &w->ranks, d.id + row0, d.label + row0, grouped ? d.group + row0 : NULL, w->ctx,
                            w->work));
    MUST(gf_step_ranks_step(&here.error, &w->ranks, w->ctx, w->work, &q, gf_shard_slots(w->ranks.shard), links, ga, gb, &own));
    LIB(w->ctx, glofnd_ctx_counters(w->ctx, &counters));
    MUST(gf_step_ranks_finish(&here.error, &w->ranks, w->ctx, w->work, &own, &counters));
    const float worst = fmaxf(farthest(ga, want_a + first, n, &largest), farthest(gb, want_b + first, n, &largest));
    CHECK(worst <= 1e-5f * largest, "%s, step %d: a gradient is off by %g of %g", name, step, worst, largest);
    CHECK(fabs(own.loss - all.loss) <= 1e-6 * fmax(1.0, fabs(all.loss)), "%s, step %d: loss %g, one rank %g", name, step,
          own.loss, all.loss);
    CHECK(own.flagged == all.flagged && own.pairs == all.pairs && own.hits == all.hits && own.same == all.same,
          "%s, step %d: flagged %lld of %lld, %lld right; one rank %lld of %lld, %lld right", name, step, (long long)own.flagged,
          (long long)own.pairs, (long long)own.hits, (long long)all.flagged, (long long)all.pairs, (long long)all.hits);
    CHECK(fabs(own.grad_tau - all.grad_tau) <= 1e-5 * fmax(1.0, fabs(all.grad_tau)), "%s, step %d: grad_tau %g, one rank %g",
          name, step, own.grad_tau, all.grad_tau);
    CHECK(fabs(own.lambda_mean - all.lambda_mean) < 1e-5 && fabs(own.kept_share - all.kept_share) < 1e-9,
          "%s, step %d: lambda %g, kept %g; one rank %g, %g", name, step, own.lambda_mean, own.kept_share, all.lambda_mean,
          all.kept_share);
    CHECK(isnan(own.precision_per_anchor) == isnan(all.precision_per_anchor) &&
              !(fabs(own.precision_per_anchor - all.precision_per_anchor) > 1e-9),
          "%s, step %d: precision per anchor %g, one rank %g", name, step, own.precision_per_anchor, all.precision_per_anchor);
    CHECK(isnan(own.precision) == isnan(all.precision) && !(fabs(own.precision - all.precision) > 1e-9),
          "%s, step %d: precision %g, one rank %g", name, step, own.precision, all.precision);
    CHECK(fabs(counters.neighbours - whole.neighbours) < 1e-9, "%s, step %d: %g neighbours, one rank %g", name, step,
          counters.neighbours, whole.neighbours);
    compare_state(w, name, step);
    compare_averages(w, name, step);
}

static void run_case(gf_comm *comm, const char *name, const char *const settings[][2]) {
    world w = {.comm = comm};
    rng g = {5};
    char why[256];
    gf_method_options_init(&w.o);
    w.o.lambda_init = GLOFND_INIT_ONE;
    w.o.threads = 1;
    w.o.lambda_lr = 0.05;
    w.o.alpha = 0.1;
    for (int i = 0; settings[i][0]; i++)
        if (glofnd_options_set(&w.o, settings[i][0], settings[i][1], why, sizeof why) != GLOFND_OK) {
            fprintf(stderr, "%s: %s\n", name, why);
            abort();
        }
    open_world(&w);
    for (int step = 0; step < STEPS; step++) one_step(&w, name, &g, step);
    close_world(&w);
}

typedef struct scenario {
    const char *name;
    const char *const settings[6][2];
} scenario;

static const scenario scenarios[] = {
    {"sogclr", {{"loss", "sogclr"}}},
    {"sogclr, no detector", {{"detector", "none"}}},
    {"sogclr, fnc, attract", {{"detector", "fnc"}, {"action", "attract"}}},
    {"sogclr, oracle, weight", {{"detector", "oracle"}, {"action", "weight"}, {"omega", "0.3"}}},
    {"sogclr, single", {{"detector", "single"}}},
    {"sogclr2, groups", {{"loss", "sogclr2"}, {"detector", "groups"}}},
    {"sogclr, shared warm-up", {{"lambda_warmup", "2"}}},
    {"sogclr, ring", {{"learner", "ring"}, {"ring_rows", "64"}}},
    {"sogclr, from the quantile", {{"lambda_init", "quantile"}, {"update_epoch", "1"}, {"mask_epoch", "2"}}},
    {"simclr", {{"loss", "simclr"}}},
    {"clip", {{"loss", "clip"}}},
    {"sogclr2", {{"loss", "sogclr2"}}},
    {"sogclr2, ring", {{"loss", "sogclr2"}, {"learner", "ring"}, {"ring_rows", "64"}}},
    {"fastclip", {{"loss", "fastclip"}, {"pairing", "image-text"}, {"tau", "0.07"}, {"rho", "8"}}},
    {"isogclr", {{"loss", "isogclr"}, {"pairing", "image-text"}, {"tau", "0.05"}}},
    {"sogclr, averages", {{"similarity", "bank"}}},
    {"sogclr, averages, ring", {{"similarity", "bank"}, {"learner", "ring"}, {"ring_rows", "64"}}},
    {"clip, averages, single", {{"loss", "clip"}, {"similarity", "bank"}, {"detector", "single"}}},
    {"sogclr, neighbours", {{"similarity", "bank"}, {"neighbours", "3"}}},
    {"simclr, some neighbours",
     {{"loss", "simclr"}, {"similarity", "bank"}, {"neighbours", "5"}, {"neighbour_share", "0.5"}, {"neighbour_rows", "40"}}},
};

static void check_sums(gf_comm *c) {
    enum { LARGE = 5000 };
    static float x[LARGE];
    double y[3] = {1.0 + c->rank, 2.0, -c->rank};
    const int R = c->ranks;
    for (int i = 0; i < LARGE; i++) x[i] = (float)(i % 17) * 0.25f + (float)c->rank;
    CHECK(c->ops->sum(&here.error, c, y, 3) == GLOFND_OK && y[0] == R * (R + 1) / 2.0 && y[1] == 2.0 * R &&
              y[2] == -R * (R - 1) / 2.0,
          "doubles sum to %g %g %g", y[0], y[1], y[2]);
    CHECK(c->ops->sum_floats(&here.error, c, x, LARGE) == GLOFND_OK, "%s", here.error.text);
    for (int i = 0; i < LARGE; i++)
        CHECK(x[i] == (float)R * (float)(i % 17) * 0.25f + (float)(R * (R - 1) / 2), "float %d sums to %g", i, x[i]);
}

static void check_agreement(gf_comm *c) {
    gf_error e = {"fine"};
    const int last = c->ranks - 1;
    CHECK(gf_comm_agree(&e, c, GLOFND_OK) == GLOFND_OK, "agreed on a failure that no rank had: %s", e.text);
    if (c->rank == last) snprintf(e.text, sizeof e.text, "no such file");
    const glofnd_status status = gf_comm_agree(&e, c, c->rank == last ? GLOFND_E_IO : GLOFND_OK);
    char want[64] = "no such file";
    if (c->ranks > 1) snprintf(want, sizeof want, "rank %d: no such file", last);
    CHECK(status == GLOFND_E_IO && strcmp(e.text, want) == 0, "status %d, text %s", status, e.text);
    CHECK(gf_comm_check_equal(&e, c, "data", 7) == GLOFND_OK, "%s", e.text);
    if (c->ranks == 1) return;
    CHECK(gf_comm_check_equal(&e, c, "data", (uint64_t)(c->rank == 1)) == GLOFND_E_ARGUMENT && strstr(e.text, "rank 1"),
          "a difference was not seen: %s", e.text);
}

/* A block that becomes final from its end, in odd pieces. */
static void check_reducer(gf_comm *c) {
    enum { SIZE = 1000 };
    static float x[SIZE];
    gf_reducer *r = NULL;
    for (int i = 0; i < SIZE; i++) x[i] = (float)i;
    CHECK(gf_reducer_create(&here.error, c, 64, &r) == GLOFND_OK, "%s", here.error.text);
    gf_reducer_begin(r, x, SIZE);
    for (int first = SIZE - 37; first > 0; first -= 37) gf_reducer_ready(r, first);
    gf_reducer_ready(r, 0);
    CHECK(gf_reducer_wait(&here.error, r) == GLOFND_OK, "%s", here.error.text);
    for (int i = 0; i < SIZE; i++) CHECK(x[i] == (float)(i * c->ranks), "number %d sums to %g", i, x[i]);
    gf_reducer_free(r);
}

int main(void) {
    const size_t cases = sizeof scenarios / sizeof *scenarios;
    const int skipped = ranked_open();
    if (skipped) return skipped;
    check_sums(here.comm);
    check_agreement(here.comm);
    check_reducer(here.comm);
    for (size_t i = 0; i < cases; i++) run_case(here.comm, scenarios[i].name, scenarios[i].settings);
    return ranked_close(here.failures, cases);
}
