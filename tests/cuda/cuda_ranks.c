/* cuda_ranks.c - several ranks on CUDA without a second GPU: gradients are handed over during backward, each one once and final;
 * the optimizer sees their sums, captured or not; and two ranks that share the GPU train as one does, and continue its
 * checkpoints, as it does theirs. NCCL is not used: support/gpu_transport.h takes its place.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dist/dist.h"
#include "method/store.h"
#include "support/cuda_main.h"
#include "support/gpu_runs.h"
#include "support/gpu_transport.h"
#include "util/dtype.h"

enum { RANKS = 2, STEPS = 6 };

/* ----- runs ----------------------------------------------------------------------------------------------------------- */

/* The default learner needs sums over ranks in a step: such steps are never recorded. */
static const trial_setting common[] = {
    {"learner", "adam"},    {"data", "shapes:n=192,classes=3,size=32"},
    {"arch", "resnet18"},   {"stem", "1"},
    {"head_hidden", "64"},  {"head_out", "32"},
    {"batch", "16"},        {"epochs", "2"},
    {"start_epoch", "1"},   {"threads", "2"},
    {"tf32", "0"},          {"math", "exact"},
    {"alpha", "0.1"},       {"lr", "0.001"},
    {"lr_scaling", "none"}, {"optimizer", "sgd"},
    {"warmup_epochs", "1"}, {"device", "cuda"},
    {"deterministic", "2"}, {NULL, NULL},
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

TEST(gradients_are_handed_over_once_and_final) {
    static const trial_setting bf16[] = {{"precision", "bf16"}, {"math", "auto"}, {NULL, NULL}};
    static const trial_setting deep[] = {{"arch", "resnet50"}, {"precision", "bf16"}, {"math", "auto"}, {NULL, NULL}};
    hand_over(NULL);
    hand_over(bf16);
    hand_over(deep);
}

/* ----- captured ------------------------------------------------------------------------------------------------------- */

/* Garbage for milliseconds: an optimizer that did not wait for the sums would read it, in a captured step too. */
TEST(recorded_steps_wait_for_the_sums) {
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
TEST(no_rank_plays_a_record_alone) {
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

/* What ranks sum over the host cannot be recorded. */
TEST(steps_of_pooled_thresholds_are_queued) {
    static const trial_setting pooled[] = {{"learner", "shrinkage"}, {NULL, NULL}};
    pair p;
    make_pair(&p, pooled, SPOIL);
    trial_steps(p.alone, STEPS), trial_steps(p.ranked, STEPS);
    assert_int_equal(p.notes.joins, STEPS);
    gpu_same_weights(p.alone, p.ranked);
    drop_pair(&p);
}

/* ----- two ranks ------------------------------------------------------------------------------------------------------ */

typedef struct member {
    gf_comm *host;
    gf_trainer *t;
    const char *from, *to; /* runs: the newest checkpoint that it continues, and the place for its own; NULL: none */
    int steps;
    double loss[STEPS];
    glofnd_status status;
    gf_error err;
} member;

static glofnd_status load_newest(gf_error *err, gf_trainer *t, const char *run) {
    gf_log_marks marks;
    gf_remap found;
    char path[PATH_MAX];
    TRY(gf_checkpoint_latest(err, run, path));
    return gf_checkpoint_load(err, t, path, 0, &found, &marks);
}

/* No assertion in here: they may only be raised on the main thread. A rank that fails ends the test: the others would wait for
 * it for ever. */
static void *train(void *user) {
    member *m = user;
    m->t->comm = m->host;
    m->status = gf_trainer_build(&m->err, m->t, NULL, NULL);
    if (m->status == GLOFND_OK && m->from) m->status = load_newest(&m->err, m->t, m->from);
    for (int i = 0; m->status == GLOFND_OK && i < m->steps; i++) {
        m->status = gf_trainer_step(&m->err, m->t);
        m->loss[i] = m->t->stats.loss;
    }
    if (m->status == GLOFND_OK && m->to) m->status = gf_checkpoint_save(&m->err, m->t, m->to, (gf_log_marks){0});
    if (m->status == GLOFND_OK) return NULL;
    fprintf(stderr, "rank %d failed at step %lld: %s\n", m->host->rank, (long long)m->t->step, m->err.text);
    abort();
}

/* m [RANKS]: as the first one says. */
static void run_ranks(const trial_setting *more, member m[]) {
    gf_comm *host[RANKS];
    void *user[RANKS];
    next.habit = SHARE, next.notes = NULL;
    thread_ranks_open(RANKS, host);
    for (int r = 0; r < RANKS; r++) {
        m[r] = (member){.from = m[0].from, .to = m[0].to, .steps = m[0].steps, .host = host[r], .t = trial_open(common, more)};
        user[r] = &m[r];
    }
    thread_ranks_run(RANKS, train, user);
}

static void drop_ranks(member m[]) {
    for (int r = 0; r < RANKS; r++) gf_trainer_free(m[r].t), m[r].host->ops->close(m[r].host);
}

/* Averages of all samples, to be freed; NULL: the run has none. */
static uint16_t *averages_of(const gf_trainer *t, int64_t *count) {
    const glofnd_store *s = gf_loss_stage_store(t->loss);
    const int64_t n = t->info.n, dim = s->spec.bank_dim;
    if (dim == 0) return NULL;
    uint16_t *rows = malloc((size_t)(n * dim) * sizeof *rows);
    for (int64_t id = 0; id < n; id++)
        assert_int_equal(glofnd_bank_get(gf_loss_stage_ctx(t->loss), s, 0, &id, 1, rows + id * dim), GLOFND_OK);
    *count = n * dim;
    return rows;
}

/* On all ranks the same bits. Against one rank a rounding to float16 apart: one unit of numbers up to 1. */
static void compare_averages(const member m[], const gf_trainer *alone) {
    int64_t n;
    uint16_t *want = averages_of(alone, &n);
    for (int r = 0; r < RANKS && want; r++) {
        uint16_t *x = averages_of(m[r].t, &n), *first = averages_of(m[0].t, &n);
        assert_memory_equal(x, first, (size_t)n * sizeof *x);
        for (int64_t i = 0; i < n; i++) assert_true(fabsf(gf_f16_to_float(x[i]) - gf_f16_to_float(want[i])) <= 0x1p-10f);
        free(x), free(first);
    }
    free(want);
}

/* limit: of weights and gradients after all steps. In a wide net rounding moves the gradient of some channels by percents: on
 * one CPU a tau that is off by its last bit does as much (docs/distributed.md, What equals what). A sum left out would be off by
 * half. */
static void compare_with(gf_trainer *alone, const member m[], double loss, double limit) {
    const double weights = gpu_off(m[0].t, alone, 0), gradients = gpu_off(m[0].t, alone, 1);
    print_message("two ranks: off by %.1e (loss), %.1e (weights), %.1e (gradients)\n", loss, weights, gradients);
    gpu_same_weights(m[0].t, m[1].t);
    compare_averages(m, alone);
    assert_true(loss < 1e-5);
    assert_true(weights < limit && gradients < limit);
}

/* As many steps of a run without ranks; the largest difference of the losses. */
static double steps_beside(gf_trainer *alone, const member m[], int steps) {
    double loss = 0;
    for (int i = 0; i < steps; i++) {
        trial_steps(alone, 1);
        loss = fmax(loss, fabs(m[0].loss[i] / alone->stats.loss - 1));
    }
    return loss;
}

static void train_together(const trial_setting *more, double limit) {
    member m[RANKS] = {{.steps = STEPS}};
    run_ranks(more, m);
    gf_trainer *alone = build_run(more, NULL);
    compare_with(alone, m, steps_beside(alone, m, STEPS), limit);
    drop_ranks(m);
    gf_trainer_free(alone);
}

TEST(two_ranks_train_as_one) {
    static const trial_setting small[] = {{"arch", "resnet8"}, {"batch", "32"}, {NULL, NULL}};
    static const trial_setting pooled[] = {{"arch", "resnet8"}, {"batch", "32"}, {"learner", "shrinkage"}, {NULL, NULL}};
    static const trial_setting wide[] = {{"batch", "32"}, {"lr", "0.0002"}, {"momentum", "0"}, {NULL, NULL}};
    train_together(small, 1e-4);
    train_together(pooled, 1e-4);
    train_together(wide, 0.1);
}

/* A temperature per anchor. */
TEST(two_ranks_train_by_other_methods) {
    static const trial_setting views[] = {
        {"arch", "resnet8"}, {"batch", "32"}, {"loss", "isogclr-views"}, {"detector", "none"}, {NULL, NULL}};
    train_together(views, 1e-4);
}

/* Images for which no similarity lies near one that it competes with: on a CPU gradients of 1, 2 and 4 ranks agree up to 8e-6. */
#define AVERAGES                                                                                                      \
    {"arch", "resnet8"}, {"batch", "32"}, {"data", "shapes:n=96,classes=3,size=32"}, {"seed", "6"}, {"lr", "0.0002"}, \
        {"start_epoch", "0"}, {                                                                                       \
        "similarity", "bank"                                                                                          \
    }
static const trial_setting averages[] = {AVERAGES, {NULL, NULL}};
static const trial_setting neighbours[] = {AVERAGES, {"neighbours", "3"}, {"neighbour_weight", "0.5"}, {NULL, NULL}};
static const trial_setting some_neighbours[] = {
    AVERAGES, {"neighbours", "3"}, {"neighbour_share", "0.5"}, {"neighbour_rows", "60"}, {NULL, NULL}};

/* Two epochs: in the second one all samples have averages. */
TEST(two_ranks_train_with_averages) {
    train_together(averages, 1e-4);
    train_together(neighbours, 1e-4);
    train_together(some_neighbours, 1e-4);
}

/* Half of the steps on two ranks, the others on one; and the other way round. */
TEST(checkpoints_continue_on_other_ranks) {
    const int half = STEPS / 2;
    member first[RANKS] = {{.steps = half, .to = "of_two"}}, second[RANKS] = {{.steps = half, .from = "of_one"}};
    gf_trainer *alone = build_run(some_neighbours, NULL), *continued = build_run(some_neighbours, NULL);
    assert_int_equal(mkdir("of_two", 0777), 0);
    run_ranks(some_neighbours, first);
    double loss = steps_beside(alone, first, half);
    compare_with(alone, first, loss, 1e-4);
    trial_save(alone, "of_one", (gf_log_marks){0});
    run_ranks(some_neighbours, second);
    compare_with(alone, second, steps_beside(alone, second, half), 1e-4);
    trial_load(continued, "of_two");
    trial_steps(continued, half);
    compare_with(continued, second, fabs(second[0].loss[half - 1] / continued->stats.loss - 1), 1e-4);
    drop_ranks(first), drop_ranks(second);
    gf_trainer_free(alone), gf_trainer_free(continued);
}

/* Two nets hand over one after the other; in parts, after the last. */
TEST(two_ranks_train_image_and_text) {
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

/* argv[1]: only tests whose name fits this pattern. */
TEST_NEEDS(no_cuda_device)
TEST_GROUP(enter, trial_leave)
