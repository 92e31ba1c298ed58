/* cuda_ranks.c - several ranks on CUDA without a second GPU: gradients are handed over during backward, each one once and final;
 * the optimizer sees their sums, captured or not; and two ranks that share the GPU train as one does.
 *
 * NCCL is not used: gf_device_comm_open below replaces the library's. Its ranks are threads; their streams wait for each other's
 * events, as NCCL's kernels would.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cuda_runtime_api.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dist/dist.h"
#include "ifc/comm_device.h"
#include "support/gpu_runs.h"
#include "support/thread_ranks.h"

/* ----- a transport ---------------------------------------------------------------------------------------------------- */

enum { PIECES_MAX = 64, RANKS = 2, STEPS = 6 };

typedef enum habit {
    DOUBLE, /* one rank that counts for two: sums are doubled; the transport is slow */
    SPOIL,  /* one rank; sums are garbage for some milliseconds, then right */
    PLAIN,  /* one rank; sums are what is there */
    SHARE   /* ranks are threads, and sum */
} habit;

typedef struct piece {
    float *x;
    int64_t n;
    int norms; /* sums of batch norm that came before it */
} piece;

typedef struct notes { /* of one rank */
    piece piece[PIECES_MAX];
    int pieces, norms, forks, joins;
    float *first; /* gradients as they were handed over, at the place of the first number of a block */
    float *copy;
} notes;

static struct { /* kind of the transports that are opened */
    habit habit;
    notes *notes; /* DOUBLE, SPOIL */
} next;

typedef struct wire {
    gf_comm head;
    gf_comm *host; /* borrowed */
    habit habit;
    notes *notes;
    gf_nn_engine *engine; /* of a duplicate: its stream */
    cudaStream_t stream, origin;
    cudaEvent_t event, arrived, copied;
    char *gathered; /* SHARE: numbers of all ranks */
    size_t gathered_bytes;
} wire;

static void must(cudaError_t e) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
    abort();
}

/* A capture cannot hold the work of other threads: this ends it, and the step continues without. */
static int spoils_recording(wire *w) {
    enum cudaStreamCaptureStatus now;
    must(cudaStreamIsCapturing(w->stream, &now));
    if (now == cudaStreamCaptureStatusNone) return 0;
    cudaStreamSynchronize(w->stream);
    cudaGetLastError();
    return 1;
}

static void make_room(wire *w, size_t bytes) {
    if (bytes <= w->gathered_bytes) return;
    must(cudaStreamSynchronize(w->stream));
    must(cudaFree(w->gathered));
    must(cudaMalloc((void **)&w->gathered, bytes));
    w->gathered_bytes = bytes;
}

typedef struct visit { /* published by a rank */
    const void *x;
    cudaEvent_t arrived, copied;
} visit;

/* Gathers `bytes` of every rank into `all`, on this stream; x may change afterwards. */
static void fetch(wire *w, const void *x, size_t bytes, char *all) {
    visit mine = {x, w->arrived, w->copied};
    must(cudaEventRecord(w->arrived, w->stream));
    void *const *at = thread_ranks_show(w->host, &mine);
    for (int r = 0; r < w->head.ranks; r++) {
        const visit *v = at[r];
        must(cudaStreamWaitEvent(w->stream, v->arrived, 0));
        char *to = all + (size_t)r * bytes;
        if (to != v->x) must(cudaMemcpyAsync(to, v->x, bytes, cudaMemcpyDeviceToDevice, w->stream));
    }
    must(cudaEventRecord(w->copied, w->stream));
    thread_ranks_meet(w->host);
    for (int r = 0; r < w->head.ranks; r++) must(cudaStreamWaitEvent(w->stream, ((const visit *)at[r])->copied, 0));
    thread_ranks_meet(w->host);
}

static glofnd_status gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    wire *w = (wire *)c;
    (void)err;
    if (w->habit == SHARE) {
        if (!spoils_recording(w)) fetch(w, part, bytes, all);
    } else if (part != all) {
        must(cudaMemcpyAsync(all, part, bytes, cudaMemcpyDeviceToDevice, w->stream));
    }
    return GLOFND_OK;
}

/* In the order of ranks, by the host. */
static void share_sum(wire *w, void *x, int64_t n, size_t size) {
    const size_t bytes = (size_t)n * size;
    if (spoils_recording(w)) return;
    make_room(w, bytes * (size_t)w->head.ranks);
    fetch(w, x, bytes, w->gathered);
    char *all = malloc(bytes * (size_t)w->head.ranks);
    must(cudaMemcpyAsync(all, w->gathered, bytes * (size_t)w->head.ranks, cudaMemcpyDeviceToHost, w->stream));
    must(cudaStreamSynchronize(w->stream));
    for (int r = 1; r < w->head.ranks; r++)
        for (int64_t i = 0; i < n; i++)
            if (size == sizeof(double)) ((double *)all)[i] += ((double *)all)[r * n + i];
            else ((float *)all)[i] += ((float *)all)[r * n + i];
    must(cudaMemcpyAsync(x, all, bytes, cudaMemcpyHostToDevice, w->stream));
    must(cudaStreamSynchronize(w->stream));
    free(all);
}

static glofnd_status sum(gf_error *err, gf_comm *c, double *x, int64_t n) {
    wire *w = (wire *)c;
    (void)err;
    if (w->habit == SHARE) share_sum(w, x, n, sizeof *x);
    else if (w->notes) w->notes->norms++;
    return GLOFND_OK;
}

static void dawdle(void *none) {
    (void)none;
    usleep(3000);
}

static glofnd_status sum_floats(gf_error *err, gf_comm *c, float *x, int64_t n) {
    wire *w = (wire *)c;
    (void)err;
    if (w->habit == SHARE) {
        share_sum(w, x, n, sizeof *x);
        return GLOFND_OK;
    }
    if (w->habit == PLAIN) return GLOFND_OK;
    float *copy = w->notes->copy + (x - w->notes->first);
    const size_t bytes = (size_t)n * sizeof *x;
    if (w->notes->pieces < PIECES_MAX) w->notes->piece[w->notes->pieces] = (piece){x, n, w->notes->norms};
    w->notes->pieces++;
    must(cudaMemcpyAsync(copy, x, bytes, cudaMemcpyDeviceToDevice, w->stream));
    if (w->habit == SPOIL) must(cudaMemsetAsync(x, 0xff, bytes, w->stream)); /* NaN */
    if (w->habit == SPOIL) must(cudaLaunchHostFunc(w->stream, dawdle, NULL));
    if (w->habit == SPOIL) must(cudaMemcpyAsync(x, copy, bytes, cudaMemcpyDeviceToDevice, w->stream));
    else gf_nn_backend_cuda.add(w->engine, GF_TYPE_F32, x, copy, n);
    return GLOFND_OK;
}

static glofnd_status fork_off(gf_error *err, gf_comm *c) {
    wire *w = (wire *)c;
    (void)err;
    if (w->notes) w->notes->forks++;
    must(cudaEventRecord(w->event, w->origin));
    must(cudaStreamWaitEvent(w->stream, w->event, 0));
    if (w->habit == DOUBLE) must(cudaLaunchHostFunc(w->origin, dawdle, NULL));
    return GLOFND_OK;
}

static glofnd_status join_again(gf_error *err, gf_comm *c) {
    wire *w = (wire *)c;
    (void)err;
    if (w->notes) w->notes->joins++;
    must(cudaEventRecord(w->event, w->stream));
    must(cudaStreamWaitEvent(w->origin, w->event, 0));
    return GLOFND_OK;
}

static void close_wire(gf_comm *c) {
    wire *w = (wire *)c;
    must(cudaFree(w->gathered));
    must(cudaEventDestroy(w->event)), must(cudaEventDestroy(w->arrived)), must(cudaEventDestroy(w->copied));
    if (w->engine) gf_nn_backend_cuda.close(w->engine);
    free(w);
}

static glofnd_status duplicate(gf_error *err, gf_comm *c, gf_comm **out);
static const gf_comm_ops kind = {"test", gather, NULL, sum, sum_floats, duplicate, close_wire, fork_off, join_again};

static wire *new_wire(gf_comm *host, cudaStream_t stream) {
    wire *w = calloc(1, sizeof *w);
    *w = (wire){.head = {&kind, host->rank, host->ranks, 0}, .host = host, .stream = stream};
    must(cudaEventCreateWithFlags(&w->event, cudaEventDisableTiming));
    must(cudaEventCreateWithFlags(&w->arrived, cudaEventDisableTiming));
    must(cudaEventCreateWithFlags(&w->copied, cudaEventDisableTiming));
    return w;
}

static glofnd_status duplicate(gf_error *err, gf_comm *c, gf_comm **out) {
    const wire *from = (wire *)c;
    gf_nn_engine *engine = NULL;
    TRY(gf_nn_backend_cuda.open(err, 1, &engine));
    wire *w = new_wire(from->host, gf_nn_backend_cuda.stream(engine));
    w->engine = engine;
    w->habit = from->habit, w->notes = from->notes;
    w->origin = from->stream;
    *out = &w->head;
    return GLOFND_OK;
}

glofnd_status gf_device_comm_open(gf_error *err, gf_comm *host, void *stream, gf_comm **out) {
    (void)err;
    wire *w = new_wire(host, (cudaStream_t)stream);
    w->habit = next.habit, w->notes = next.notes;
    *out = &w->head;
    return GLOFND_OK;
}

glofnd_status gf_device_choose(gf_error *err, int local_rank) {
    (void)err, (void)local_rank;
    return GLOFND_OK;
}

void gf_device_comm_describe(char *text, size_t bytes) { snprintf(text, bytes, "a test's"); }

/* ----- runs ----------------------------------------------------------------------------------------------------------- */

static const trial_setting common[] = {
    {"data", "shapes:n=192,classes=3,size=32"},
    {"arch", "resnet18"},
    {"stem", "1"},
    {"head_hidden", "64"},
    {"head_out", "32"},
    {"batch", "16"},
    {"epochs", "2"},
    {"start_epoch", "1"},
    {"threads", "2"},
    {"tf32", "0"},
    {"math", "exact"},
    {"alpha", "0.1"},
    {"lr", "0.001"},
    {"lr_scaling", "none"},
    {"optimizer", "sgd"},
    {"warmup_epochs", "1"},
    {"device", "cuda"},
    {"deterministic", "2"},
    {NULL, NULL},
};

static gf_trainer *build_run(const trial_setting *more, gf_comm *comm) {
    return trial_make(common, more, (trial_place){.comm = comm});
}

/* The same run twice: as a rank alone with notes taken; and without ranks, or in bf16 as a rank whose sums are what is there: on
 * Hopper convolutions of bf16 make the sums of batch norms where there are no ranks, and round differently. */
typedef struct pair {
    gf_trainer *alone, *ranked;
    gf_comm *host;
    notes notes;
} pair;

static void make_pair(pair *p, const trial_setting *more, habit h) {
    gf_error err = {""};
    int64_t n;
    *p = (pair){0};
    trial_fine(gf_dist_open(&err, GF_RANKS_SINGLE, 0, &p->host), &err);
    next.habit = PLAIN;
    next.notes = NULL;
    p->alone = build_run(more, more ? p->host : NULL);
    next.habit = h;
    next.notes = &p->notes;
    p->ranked = build_run(more, p->host);
    p->notes.first = gf_net_gradients(p->ranked->encoders.at[0].net, &n);
    p->notes.copy = gf_net_alloc(p->ranked->encoders.at[0].net, (size_t)n * sizeof(float));
    assert_non_null(p->notes.copy);
}

static void drop_pair(pair *p) {
    gf_net_release(p->ranked->encoders.at[0].net, p->notes.copy);
    gf_trainer_free(p->alone), gf_trainer_free(p->ranked);
    p->host->ops->close(p->host);
}

static float *read_floats(gf_trainer *t, const float *from, int64_t n) {
    gf_error err = {""};
    float *x = malloc((size_t)n * sizeof *x);
    trial_fine(gf_net_read(&err, t->encoders.at[0].net, x, from, (size_t)n * sizeof *x), &err);
    return x;
}

/* ----- handed over ---------------------------------------------------------------------------------------------------- */

/* From the end of the block to its start, without holes and without overlaps, and not all of them after backward. */
static void covers_the_block(const notes *k, const float *block, int64_t n) {
    const float *end = block + n;
    assert_in_range(k->pieces, 2, PIECES_MAX);
    for (int i = 0; i < k->pieces; i++) {
        assert_true(k->piece[i].n > 0 && k->piece[i].x + k->piece[i].n == end);
        end = k->piece[i].x;
    }
    assert_true(end == block);
    assert_true(k->piece[0].norms < k->norms);
    assert_int_equal(k->forks, k->pieces);
    assert_int_equal(k->joins, 1);
}

/* The sum ends before backward continues: a later write to the gradients would show. */
static void hand_over(const trial_setting *more) {
    pair p;
    int64_t n;
    make_pair(&p, more, DOUBLE);
    trial_steps(p.alone, 1), trial_steps(p.ranked, 1);
    float *want_at = gf_net_gradients(p.alone->encoders.at[0].net, &n);
    covers_the_block(&p.notes, p.notes.first, n);
    print_message("%d pieces of %lld numbers, the first after %d of %d sums of batch norm\n", p.notes.pieces, (long long)n,
                  p.notes.piece[0].norms, p.notes.norms);
    float *want = read_floats(p.alone, want_at, n), *handed = read_floats(p.ranked, p.notes.copy, n);
    float *summed = read_floats(p.ranked, p.notes.first, n);
    assert_memory_equal(handed, want, (size_t)n * sizeof *want);
    for (int64_t i = 0; i < n; i++)
        if (summed[i] != 2 * want[i]) fail_msg("gradient %lld is %g after a sum of twice %g", (long long)i, summed[i], want[i]);
    free(want), free(handed), free(summed);
    drop_pair(&p);
}

static void gradients_are_handed_over_once_and_final(void **state) {
    (void)state;
    static const trial_setting bf16[] = {{"precision", "bf16"}, {"math", "auto"}, {NULL, NULL}};
    static const trial_setting deep[] = {{"arch", "resnet50"}, {"precision", "bf16"}, {"math", "auto"}, {NULL, NULL}};
    hand_over(NULL);
    hand_over(bf16);
    hand_over(deep);
}

/* ----- captured ------------------------------------------------------------------------------------------------------- */

/* Garbage for milliseconds: an optimizer that did not wait for the sums would read it, in a captured step too. */
static void recorded_steps_wait_for_the_sums(void **state) {
    (void)state;
    static const trial_setting bf16[] = {{"precision", "bf16"}, {"math", "auto"}, {NULL, NULL}};
    pair p;
    make_pair(&p, bf16, SPOIL);
    trial_steps(p.alone, 2), trial_steps(p.ranked, 2);
    const int pieces = p.notes.pieces;
    trial_steps(p.alone, 6), trial_steps(p.ranked, 6);
    assert_int_equal(p.notes.pieces, pieces); /* the others were replays */
    assert_int_equal(p.notes.joins, 2);
    assert_true(p.alone->stats.loss == p.ranked->stats.loss);
    gpu_same_weights(p.alone, p.ranked);
    drop_pair(&p);
}

/* Sum of one number: ranks without a graph. */
static glofnd_status sum_with_another(gf_error *err, gf_comm *c, double *x, int64_t n) {
    (void)err, (void)c;
    if (n == 1) x[0] += 1;
    return GLOFND_OK;
}

/* A different rank has no graph: this one drops its own, and queues every step. */
static void no_rank_plays_a_record_alone(void **state) {
    (void)state;
    pair p;
    make_pair(&p, NULL, SPOIL);
    gf_comm_ops kind_of_two = *p.host->ops;
    kind_of_two.sum = sum_with_another;
    p.host->ops = &kind_of_two;
    trial_steps(p.alone, STEPS), trial_steps(p.ranked, STEPS);
    assert_int_equal(p.notes.joins, STEPS + 1); /* and once for the capture */
    gpu_same_weights(p.alone, p.ranked);
    drop_pair(&p);
}

/* ----- two ranks ------------------------------------------------------------------------------------------------------ */

typedef struct member {
    gf_comm *host;
    gf_trainer *t;
    double loss[STEPS];
    glofnd_status status;
    gf_error err;
} member;

/* No assertion in here: they may only be raised on the main thread. A rank that fails ends the test: the others would wait for
 * it for ever. */
static void *train(void *user) {
    member *m = user;
    m->t->comm = m->host;
    m->status = gf_trainer_build(&m->err, m->t, NULL, NULL);
    for (int i = 0; m->status == GLOFND_OK && i < STEPS; i++) {
        m->status = gf_trainer_step(&m->err, m->t);
        m->loss[i] = m->t->stats.loss;
    }
    if (m->status == GLOFND_OK) return NULL;
    fprintf(stderr, "rank %d failed at step %lld: %s\n", m->host->rank, (long long)m->t->step, m->err.text);
    abort();
}

/* limit: of weights and gradients after all steps. In a wide net rounding moves the gradient of some channels by percents: on
 * one CPU a tau that is off by its last bit does as much (docs/distributed.md, What equals what). A sum left out would be off by
 * half. */
static void train_together(const trial_setting *more, double limit) {
    gf_comm *host[RANKS];
    member m[RANKS];
    void *user[RANKS];
    next.habit = SHARE, next.notes = NULL;
    thread_ranks_open(RANKS, host);
    for (int r = 0; r < RANKS; r++) {
        m[r] = (member){.host = host[r], .t = trial_open(common, more)};
        user[r] = &m[r];
    }
    thread_ranks_run(RANKS, train, user);
    gf_trainer *alone = build_run(more, NULL);
    double loss = 0;
    for (int i = 0; i < STEPS; i++) {
        trial_steps(alone, 1);
        loss = fmax(loss, fabs(m[0].loss[i] / alone->stats.loss - 1));
    }
    const double weights = gpu_off(m[0].t, alone, 0), gradients = gpu_off(m[0].t, alone, 1);
    print_message("two ranks: off by %.1e (loss), %.1e (weights), %.1e (gradients)\n", loss, weights, gradients);
    gpu_same_weights(m[0].t, m[1].t);
    assert_true(loss < 1e-5);
    assert_true(weights < limit && gradients < limit);
    for (int r = 0; r < RANKS; r++) gf_trainer_free(m[r].t), host[r]->ops->close(host[r]);
    gf_trainer_free(alone);
}

static void two_ranks_train_as_one(void **state) {
    (void)state;
    static const trial_setting small[] = {{"arch", "resnet8"}, {"batch", "32"}, {NULL, NULL}};
    static const trial_setting wide[] = {{"batch", "32"}, {"lr", "0.0002"}, {"momentum", "0"}, {NULL, NULL}};
    train_together(small, 1e-4);
    train_together(wide, 0.1);
}

/* Two powers of the similarities; a temperature per anchor. With tau = 0.1 and tau_plus the floor of the debiased sum comes into
 * reach, and rounding decides on which side of it a row lies: on the CPU, too, gradients are then off by 4e-4. */
static void two_ranks_train_by_other_methods(void **state) {
    (void)state;
    static const trial_setting hcl[] = {{"arch", "resnet8"},  {"batch", "32"},   {"loss", "simclr"},
                                        {"detector", "none"}, {"tau", "0.5"},    {"hard_beta", "0.5"},
                                        {"tau_plus", "0.05"}, {"lr", "0.00005"}, {NULL, NULL}};
    static const trial_setting views[] = {
        {"arch", "resnet8"}, {"batch", "32"}, {"loss", "isogclr-views"}, {"detector", "none"}, {NULL, NULL}};
    train_together(hcl, 1e-4);
    train_together(views, 1e-4);
}

/* Two nets hand over one after the other; in parts, after the last. */
static void two_ranks_train_image_and_text(void **state) {
    (void)state;
    static const char *const parts[] = {"0", "4"};
    for (int i = 0; i < 2; i++) {
        const trial_setting encoders[] = {
            {"task", "clip"},         {"loss", "sogclr2"},       {"data", "shapes:n=96,classes=6,size=16,seed=2"},
            {"vocab", "ranks.vocab"}, {"arch", "vit"},           {"patch", "8"},
            {"image_width", "64"},    {"image_layers", "2"},     {"image_heads", "2"},
            {"text_width", "64"},     {"text_layers", "2"},      {"text_heads", "2"},
            {"context", "24"},        {"embed_dim", "32"},       {"lr", "0.01"},
            {"epochs", "4"},          {"micro_batch", parts[i]}, {NULL, NULL}};
        train_together(encoders, 1e-3);
    }
}

static int enter(void **state) { return trial_enter(state) != 0 || trial_vocabulary("ranks.vocab") != 0; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_handed_over_once_and_final),
        cmocka_unit_test(recorded_steps_wait_for_the_sums),
        cmocka_unit_test(no_rank_plays_a_record_alone),
        cmocka_unit_test(two_ranks_train_as_one),
        cmocka_unit_test(two_ranks_train_by_other_methods),
        cmocka_unit_test(two_ranks_train_image_and_text),
    };
    const int missing = gpu_missing();
    return missing ? missing : cmocka_run_group_tests(tests, enter, trial_leave);
}
