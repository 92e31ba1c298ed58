/* cuda_averages.c - the step of several ranks on CUDA (dist/step_ranks.h) with averages and neighbours, against glofnd_step of
 * one rank, on the same embeddings: gradients, loss, flags and state agree, and every rank has the same averages, bit for bit. A
 * step of one rank is recorded and replayed, too: it only queues.
 *
 * Ranks are threads with a stream each. Arrays on the device travel over the host; cuda_ranks.c has ranks that train.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "dist/step_ranks.h"
#include "support/cuda_main.h"
#include "support/losses.h"
#include "support/random.h"
#include "support/thread_ranks.h"
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 8, STEPS_OF_EPOCH = 3 };

typedef struct problem {
    const char *name;
    int64_t n, batch, dim;
    const char *const settings[8][2];
} problem;

static void must(cudaError_t e) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
    abort();
}

/* No assertion on threads: a rank that fails ends the test, since the others would wait for it. */
static void fine(glofnd_status status, const char *text) {
    if (status == GLOFND_OK) return;
    fprintf(stderr, "status %d: %s\n", (int)status, text);
    abort();
}

static void *on_host(int64_t count, size_t size) {
    void *p = calloc((size_t)count, size);
    if (!p) abort();
    return p;
}

static void *on_gpu(int64_t count, size_t size) {
    void *p = NULL;
    must(cudaMalloc(&p, (size_t)count * size));
    must(cudaMemset(p, 0xff, (size_t)count * size)); /* NaN: what is not written shows */
    must(cudaDeviceSynchronize());
    return p;
}

/* ----- a transport ----- */

typedef struct wire {
    gf_comm head;
    gf_comm *host; /* borrowed */
    cudaStream_t stream;
} wire;

static glofnd_status gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    const wire *w = (wire *)c;
    if (c->ranks == 1 && part == all) return GLOFND_OK; /* may be recorded */
    char *rows = on_host((int64_t)bytes * c->ranks, 1), *own = rows + bytes * (size_t)c->rank;
    must(cudaMemcpyAsync(own, part, bytes, cudaMemcpyDeviceToHost, w->stream));
    must(cudaStreamSynchronize(w->stream));
    const glofnd_status status = w->host->ops->gather(err, w->host, own, bytes, rows);
    must(cudaMemcpyAsync(all, rows, bytes * (size_t)c->ranks, cudaMemcpyHostToDevice, w->stream));
    must(cudaStreamSynchronize(w->stream));
    free(rows);
    return status;
}

static const gf_comm_ops kind = {.name = "over the host", .gather = gather};

static int sum_over_ranks(void *user, double *x, int n) {
    gf_comm *host = user;
    return host->ops->sum(NULL, host, x, n) != GLOFND_OK;
}

/* ----- embeddings, and results ----- */

typedef struct drawn { /* one batch */
    float *a, *b;      /* [batch][dim] */
    int64_t *id;
    int32_t *label;
    int32_t epoch;
} drawn;

typedef struct result {    /* after a step */
    float *grad[2];        /* [batch][dim]; ranks share it, and write their own rows */
    glofnd_anchor *row[2]; /* [n] per side, written by their owners */
    uint16_t *bank[2];     /* [n][dim] per side, of one rank */
    glofnd_stats stats;    /* of the batch */
    glofnd_counters counters;
    int leftover; /* rows of other state in a working store */
} result;

static drawn draw(const problem *p, rng *g, int step, int one_epoch) {
    const int64_t B = p->batch;
    drawn d = {.a = on_host(B * p->dim, sizeof *d.a), .b = on_host(B * p->dim, sizeof *d.b)};
    d.id = on_host(B, sizeof *d.id), d.label = on_host(B, sizeof *d.label);
    d.epoch = one_epoch ? 0 : step / STEPS_OF_EPOCH;
    for (int64_t i = 0; i < B; i++) {
        d.id[i] = (step % STEPS_OF_EPOCH * B + i * 7 % B + step / STEPS_OF_EPOCH * 11) % p->n;
        d.label[i] = (int32_t)(d.id[i] % 4);
        for (int64_t k = 0; k < p->dim; k++) {
            d.a[i * p->dim + k] = (float)rng_normal(g) + (k == d.label[i] ? 1.5f : 0.0f);
            d.b[i * p->dim + k] = d.a[i * p->dim + k] + 0.5f * (float)rng_normal(g);
        }
    }
    return d;
}

static void drop_drawn(drawn *d) { free(d->a), free(d->b), free(d->id), free(d->label); }

static int two_sides(const glofnd_options *o) { return losses_of(o) != LOSS_SOGCLR && losses_of(o) != LOSS_SIMCLR; }

static result make_result(const problem *p) {
    result r = {.stats = {.size = sizeof r.stats}, .counters = {.size = sizeof r.counters}};
    for (int i = 0; i < 2; i++) {
        r.grad[i] = on_host(p->batch * p->dim, sizeof *r.grad[i]);
        r.row[i] = on_host(p->n, sizeof *r.row[i]);
        r.bank[i] = on_host(p->n * p->dim, sizeof *r.bank[i]);
    }
    return r;
}

static void drop_result(result *r) {
    for (int i = 0; i < 2; i++) free(r->grad[i]), free(r->row[i]), free(r->bank[i]);
}

static glofnd_options options_of(const problem *p) {
    glofnd_options o;
    char why[256] = "";
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    o.device = GLOFND_DEVICE_CUDA;
    o.math = GLOFND_MATH_EXACT;
    o.similarity = GLOFND_SIMILARITY_BANK;
    o.lambda_lr = 0.05, o.alpha = 0.1;
    for (int i = 0; p->settings[i][0]; i++)
        fine(glofnd_options_set(&o, p->settings[i][0], p->settings[i][1], why, sizeof why), why);
    return o;
}

/* ----- one side of the comparison: a context, a store and arrays on the device ----- */

typedef struct bench {
    const problem *p;
    glofnd_options o;
    cudaStream_t stream;
    glofnd_ctx *ctx;
    glofnd_store *store; /* of all anchors */
    float *a, *b, *grad[2];
    int64_t *id;
    int32_t *label;
    uint16_t *bank[2];
    void *links;
    int64_t *every; /* [n] 0, 1, ... on the host */
} bench;

static bench open_bench(const problem *p) {
    const glofnd_store_spec spec = {.size = sizeof spec, .n = p->n, .dim = p->dim};
    bench x = {.p = p, .o = options_of(p)};
    char why[256] = "";
    must(cudaStreamCreateWithFlags(&x.stream, cudaStreamNonBlocking));
    fine(glofnd_ctx_create(&x.o, &x.ctx, why, sizeof why), why);
    fine(glofnd_ctx_stream(x.ctx, x.stream), glofnd_ctx_error(x.ctx));
    fine(glofnd_store_create(x.ctx, &spec, &x.store), glofnd_ctx_error(x.ctx));
    x.a = on_gpu(p->batch * p->dim, sizeof *x.a), x.b = on_gpu(p->batch * p->dim, sizeof *x.b);
    x.id = on_gpu(p->batch, sizeof *x.id), x.label = on_gpu(p->batch, sizeof *x.label);
    for (int i = 0; i < 2; i++) x.grad[i] = on_gpu(p->batch * p->dim, sizeof *x.grad[i]);
    for (int i = 0; i <= two_sides(&x.o); i++) x.bank[i] = on_gpu(p->batch * p->dim, sizeof *x.bank[i]);
    x.links = on_gpu(p->batch, GLOFND_LINK_BYTES);
    x.every = on_host(p->n, sizeof *x.every);
    for (int64_t i = 0; i < p->n; i++) x.every[i] = i;
    return x;
}

static void close_bench(bench *x) {
    void *const there[] = {x->a, x->b, x->grad[0], x->grad[1], x->id, x->label, x->bank[0], x->bank[1], x->links};
    glofnd_store_free(x->store);
    glofnd_ctx_free(x->ctx);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) must(cudaFree(there[i]));
    must(cudaStreamDestroy(x->stream));
    free(x->every);
}

static void put(const bench *x, void *to, const void *from, int64_t count, size_t size) {
    must(cudaMemcpyAsync(to, from, (size_t)count * size, cudaMemcpyHostToDevice, x->stream));
    must(cudaStreamSynchronize(x->stream));
}

static void get(const bench *x, void *to, const void *from, int64_t count, size_t size) {
    must(cudaMemcpyAsync(to, from, (size_t)count * size, cudaMemcpyDeviceToHost, x->stream));
    must(cudaStreamSynchronize(x->stream));
}

/* Ids and labels of all samples, embeddings of `rows` samples from row0 on. */
static void load(const bench *x, const drawn *d, int64_t row0, int64_t rows) {
    const int64_t dim = x->p->dim, at = row0 * dim;
    put(x, x->id, d->id, x->p->batch, sizeof *d->id);
    put(x, x->label, d->label, x->p->batch, sizeof *d->label);
    put(x, x->a + at, d->a + at, rows * dim, sizeof *d->a);
    put(x, x->b + at, d->b + at, rows * dim, sizeof *d->b);
}

static glofnd_batch batch_of(const bench *x, int32_t epoch) {
    return (glofnd_batch){.size = sizeof(glofnd_batch),
                          .n = x->p->batch,
                          .dim = x->p->dim,
                          .a = x->a,
                          .b = x->b,
                          .id = x->id,
                          .label = x->label,
                          .epoch = epoch,
                          .want = GLOFND_WANT_QUALITY};
}

static void read_averages(const bench *x, result *r) {
    for (int i = 0; i <= two_sides(&x->o); i++)
        fine(glofnd_bank_get(x->ctx, x->store, i, x->every, x->p->n, r->bank[i]), glofnd_ctx_error(x->ctx));
}

/* ----- one rank, by glofnd_step ----- */

static void step_alone(bench *x, const drawn *d, result *r) {
    const glofnd_batch q = batch_of(x, d->epoch);
    load(x, d, 0, x->p->batch);
    fine(glofnd_step(x->ctx, x->store, &q, x->grad[0], x->grad[1], &r->stats), glofnd_ctx_error(x->ctx));
    fine(glofnd_ctx_counters(x->ctx, &r->counters), glofnd_ctx_error(x->ctx));
    for (int i = 0; i < 2; i++) get(x, r->grad[i], x->grad[i], x->p->batch * x->p->dim, sizeof(float));
    for (int i = 0; i <= two_sides(&x->o); i++)
        fine(glofnd_anchors_get(x->ctx, x->store, i, x->every, x->p->n, r->row[i]), glofnd_ctx_error(x->ctx));
    read_averages(x, r);
}

/* ----- one of several ranks ----- */

typedef struct member {
    const problem *p;
    gf_comm *host;
    const drawn *d; /* [STEPS] */
    result *r;      /* [STEPS] with averages and stats of its own */
    int record;     /* steps after the first one are replays of one record */
} member;

typedef struct seat { /* of a member */
    bench x;
    wire w;
    gf_step_ranks ranks;
    cudaGraphExec_t record; /* NULL: none */
} seat;

static void open_seat(seat *s, const member *m) {
    gf_error err = {""};
    const gf_shard_spec spec = {.n = m->p->n,
                                .loss = options_of(m->p).loss,
                                .pairing = options_of(m->p).pairing,
                                .rows = m->p->batch / m->host->ranks,
                                .bank_dim = m->p->dim};
    *s = (seat){.x = open_bench(m->p)};
    s->w = (wire){.head = {&kind, m->host->rank, m->host->ranks, 0, 0}, .host = m->host, .stream = s->x.stream};
    if (m->host->ranks > 1) fine(glofnd_ctx_reduce(s->x.ctx, sum_over_ranks, m->host), glofnd_ctx_error(s->x.ctx));
    fine(gf_step_ranks_open(&err, m->host, &s->w.head, &spec, &s->ranks), err.text);
}

static void close_seat(seat *s) {
    if (s->record) must(cudaGraphExecDestroy(s->record));
    gf_step_ranks_close(&s->ranks);
    close_bench(&s->x);
}

static void queue(seat *s, int32_t epoch) {
    gf_error err = {""};
    bench *x = &s->x;
    glofnd_batch q = batch_of(x, epoch);
    const glofnd_batch_extra extra = {.size = sizeof extra, .bank_a = x->bank[0], .bank_b = x->bank[1]};
    q.extra = &extra;
    fine(gf_step_ranks_step(&err, &s->ranks, x->ctx, x->store, &q, gf_shard_slots(s->ranks.shard), x->links, x->grad[0],
                            x->grad[1], NULL),
         err.text);
}

static void record(seat *s, int32_t epoch) {
    cudaGraph_t graph;
    must(cudaStreamBeginCapture(s->x.stream, cudaStreamCaptureModeThreadLocal));
    queue(s, epoch);
    must(cudaStreamEndCapture(s->x.stream, &graph));
    must(cudaGraphInstantiate(&s->record, graph, 0));
    must(cudaGraphDestroy(graph));
}

/* State of the own anchors, from the shard; the working store must have none. */
static void read_rows(const seat *s, result *r) {
    glofnd_ctx *c = gf_shard_ctx(s->ranks.shard);
    const int me = s->w.head.rank, ranks = s->w.head.ranks;
    glofnd_anchor *rows = on_host(s->x.p->n, sizeof *rows);
    for (int i = 0; i <= two_sides(&s->x.o); i++) {
        for (int64_t id = me; id < s->x.p->n; id += ranks) {
            const int64_t place = id / ranks;
            fine(glofnd_anchors_get(c, gf_shard_store(s->ranks.shard), i, &place, 1, &r->row[i][id]), glofnd_ctx_error(c));
        }
        fine(glofnd_anchors_get(s->x.ctx, s->x.store, i, s->x.every, s->x.p->n, rows), glofnd_ctx_error(s->x.ctx));
        for (int64_t id = 0; id < s->x.p->n; id++) r->leftover += !isinf(rows[id].log_u) || rows[id].clock != 0;
    }
    free(rows);
}

static void step_ranked(seat *s, const drawn *d, result *r, int replay) {
    gf_error err = {""};
    const int64_t row0 = s->ranks.row0, rows = s->ranks.rows, dim = s->x.p->dim;
    fine(gf_step_ranks_draw(&err, &s->ranks, d->id + row0, d->label + row0, NULL, s->x.ctx, s->x.store), err.text);
    load(&s->x, d, row0, rows);
    if (replay && !s->record) record(s, d->epoch);
    if (replay) must(cudaGraphLaunch(s->record, s->x.stream));
    else queue(s, d->epoch);
    fine(glofnd_ctx_stats(s->x.ctx, &r->stats), glofnd_ctx_error(s->x.ctx));
    fine(glofnd_ctx_counters(s->x.ctx, &r->counters), glofnd_ctx_error(s->x.ctx));
    fine(gf_step_ranks_finish(&err, &s->ranks, s->x.ctx, s->x.store, &r->stats, &r->counters), err.text);
    for (int i = 0; i < 2; i++) get(&s->x, r->grad[i] + row0 * dim, s->x.grad[i], rows * dim, sizeof(float));
    read_averages(&s->x, r);
    read_rows(s, r);
}

static void *run_member(void *user) {
    member *m = user;
    seat s;
    open_seat(&s, m);
    for (int step = 0; step < STEPS; step++) step_ranked(&s, &m->d[step], &m->r[step], m->record && step > 0);
    close_seat(&s);
    return NULL;
}

/* ----- comparing ----- */

static void close_to(const problem *p, int step, const char *what, double got, double want, double limit) {
    if (isnan(got) && isnan(want)) return;
    if (!(fabs(got - want) <= limit)) fail_msg("%s, step %d: %s is %.9g, of one rank %.9g", p->name, step, what, got, want);
}

static void compare_gradients(const problem *p, int step, const result *one, const result *many, int ranks) {
    const int64_t rows = p->batch / ranks * p->dim;
    float largest = 0;
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < p->batch * p->dim; k++) largest = fmaxf(largest, fabsf(one->grad[i][k]));
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < p->batch * p->dim; k++) {
            const result *owner = &many[k / rows * STEPS];
            close_to(p, step, "a gradient", (double)owner->grad[i][k], (double)one->grad[i][k], 1e-5 * (double)largest);
        }
}

static void compare_stats(const problem *p, int step, const result *many, const result *one) {
    const glofnd_stats *x = &many->stats, *y = &one->stats;
    close_to(p, step, "the loss", x->loss, y->loss, 1e-6 * fmax(1, fabs(y->loss)));
    close_to(p, step, "grad_tau", x->grad_tau, y->grad_tau, 1e-5 * fmax(1, fabs(y->grad_tau)));
    close_to(p, step, "the mean lambda", x->lambda_mean, y->lambda_mean, 1e-5);
    close_to(p, step, "the share of kept pairs", x->kept_share, y->kept_share, 1e-9);
    close_to(p, step, "the precision", x->precision, y->precision, 1e-9);
    close_to(p, step, "the number of neighbours", many->counters.neighbours, one->counters.neighbours, 1e-9);
    assert_int_equal(x->flagged, y->flagged);
    assert_int_equal(x->pairs, y->pairs);
    assert_int_equal(x->hits, y->hits);
    assert_int_equal(x->same, y->same);
}

static void compare_state(const problem *p, int step, int sides, const result *one, const result *many, int ranks) {
    for (int i = 0; i < sides; i++)
        for (int64_t id = 0; id < p->n; id++) {
            const glofnd_anchor *x = &many[id % ranks * STEPS].row[i][id], *y = &one->row[i][id];
            assert_int_equal(x->clock, y->clock);
            close_to(p, step, "a lambda", (double)x->lambda, (double)y->lambda, 1e-5);
            if (isinf(y->log_u)) assert_true(isinf(x->log_u));
            else close_to(p, step, "a log u", (double)x->log_u, (double)y->log_u, 1e-5);
        }
    for (int k = 0; k < ranks; k++) {
        const result *r = &many[k * STEPS];
        for (int i = 0; i < sides; i++)
            if (memcmp(r->bank[i], one->bank[i], sizeof(uint16_t) * (size_t)(p->n * p->dim)) != 0)
                fail_msg("%s, step %d: averages of rank %d of %d differ from those of one rank", p->name, step, k, ranks);
        if (r->leftover) fail_msg("%s, step %d: rank %d of %d keeps %d rows", p->name, step, k, ranks, r->leftover);
    }
}

/* one: [STEPS]. record: of one rank, whose gradients then have the same bits. */
static void check_against(const problem *p, const drawn *d, const result *one, int ranks, int record) {
    const glofnd_options o = options_of(p);
    gf_comm *host[THREAD_RANKS_MAX];
    member m[THREAD_RANKS_MAX];
    void *user[THREAD_RANKS_MAX];
    result many[THREAD_RANKS_MAX * STEPS];
    for (int k = 0; k < ranks * STEPS; k++) many[k] = make_result(p);
    thread_ranks_open(ranks, host);
    for (int k = 0; k < ranks; k++) m[k] = (member){p, host[k], d, &many[k * STEPS], record}, user[k] = &m[k];
    thread_ranks_run(ranks, run_member, user);
    for (int step = 0; step < STEPS; step++) {
        compare_gradients(p, step, &one[step], &many[step], ranks);
        for (int k = 0; k < ranks; k++) compare_stats(p, step, &many[k * STEPS + step], &one[step]);
        compare_state(p, step, 1 + two_sides(&o), &one[step], &many[step], ranks);
        for (int i = 0; i < 2 && ranks == 1; i++)
            assert_memory_equal(many[step].grad[i], one[step].grad[i], sizeof(float) * (size_t)(p->batch * p->dim));
    }
    for (int k = 0; k < ranks * STEPS; k++) drop_result(&many[k]);
    for (int k = 0; k < ranks; k++) host[k]->ops->close(host[k]);
}

/* Neighbours are found from the second step on. */
static void check(const problem *p, int max_ranks, int record) {
    rng g = {5};
    drawn d[STEPS];
    result one[STEPS];
    bench x = open_bench(p);
    for (int step = 0; step < STEPS; step++) {
        d[step] = draw(p, &g, step, record), one[step] = make_result(p);
        step_alone(&x, &d[step], &one[step]);
    }
    if (x.o.neighbours > 0) assert_true(one[STEPS - 1].counters.neighbours > 0);
    for (int ranks = 1; ranks <= max_ranks; ranks *= 2) check_against(p, d, one, ranks, record);
    for (int step = 0; step < STEPS; step++) drop_drawn(&d[step]), drop_result(&one[step]);
    close_bench(&x);
}

/* ----- cases ----- */

static const problem averages[] = {
    {"sogclr", 90, 24, 20, {{"loss", "sogclr"}}},
    {"sogclr, ring", 90, 24, 20, {{"learner", "ring"}, {"ring_rows", "64"}}},
    {"sogclr, single", 90, 24, 20, {{"detector", "single"}}},
    {"sogclr, from the quantile", 90, 24, 20, {{"lambda_init", "quantile"}, {"update_epoch", "1"}, {"mask_epoch", "2"}}},
    {"clip", 90, 24, 20, {{"loss", "clip"}}},
    {"sogclr2, odd", 91, 24, 21, {{"loss", "sogclr2"}}},
};
static const problem neighbours[] = {
    {"one", 90, 24, 20, {{"neighbours", "1"}}},
    {"three", 90, 24, 20, {{"neighbours", "3"}}},
    {"three, half of the anchors", 90, 24, 20, {{"neighbours", "3"}, {"neighbour_share", "0.5"}}},
    {"five in a window, simclr", 91, 24, 21, {{"loss", "simclr"}, {"neighbours", "5"}, {"neighbour_rows", "40"}}},
    {"half of the anchors, a window",
     91,
     24,
     21,
     {{"loss", "simclr"}, {"neighbours", "5"}, {"neighbour_share", "0.5"}, {"neighbour_rows", "40"}}},
};
/* More anchors than a block takes, more numbers than it holds at a time. */
static const problem large[] = {
    {"large", 3000, 600, 40, {{"neighbours", "3"}}},
    {"large, half of the anchors", 3000, 600, 40, {{"neighbours", "8"}, {"neighbour_share", "0.5"}}},
    {"wide", 700, 136, 300, {{"neighbours", "3"}, {"neighbour_share", "0.3"}, {"neighbour_rows", "500"}}},
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

TEST(averages_of_ranks_agree) {
    for (size_t i = 0; i < COUNT(averages); i++) check(&averages[i], 4, 0);
}

TEST(neighbours_of_ranks_agree) {
    for (size_t i = 0; i < COUNT(neighbours); i++) check(&neighbours[i], 4, 0);
}

/* Short, for compute-sanitizer. */
TEST(few_neighbours_agree) { check(&neighbours[2], 1, 0); }

TEST(large_batches_agree) {
    for (size_t i = 0; i < COUNT(large); i++) check(&large[i], 4, 0);
}

/* A record holds the epoch of a window: none here. */
TEST(recorded_steps_agree) {
    check(&averages[0], 1, 1);
    check(&averages[4], 1, 1);
    for (size_t i = 0; i < 3; i++) check(&neighbours[i], 1, 1);
}

TEST_NEEDS(no_cuda_device)
