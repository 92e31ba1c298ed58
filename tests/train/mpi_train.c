/* mpi_train.c - training on R ranks against training on one, step by step. Run by mpirun; every rank also trains alone, on the
 * same batches, and compares.
 *
 * Ten steps of small nets with batch norm, all losses with GloFND; both sides add the same numbers in another order, so the loss
 * agrees to 1e-5 at every step, thresholds and u to 1e-4, weights to 1e-4 of the largest change any of them has made, and as many
 * pairs are flagged. Steps are small and without the normalisation of Adam, which would turn rounding errors of gradients that
 * are zero into steps of full size. A similarity that lies within rounding of a threshold may still fall on either side of it,
 * and move that threshold; some tens of thousands are compared, so a case that fails is repeated with other images, twice at
 * most.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/ranked.h"
#include "train/lambdas.h"

enum { STEPS = 10, ATTEMPTS = 3 };

typedef struct twins {
    const char *name;
    gf_comm *comm;
    gf_trainer *alone, *ranked;
    float *first; /* weights before the first step */
} twins;

static gf_config make_config(const char *const settings[][2], int attempt) {
    static const char *const usual[][2] = {{"arch", "resnet8"},  {"size", "16"},   {"batch", "16"},        {"epochs", "3"},
                                           {"start_epoch", "0"}, {"alpha", "0.1"}, {"lambda_lr", "0.005"}, {"optimizer", "sgd"},
                                           {"lr", "0.002"},      {"threads", "1"}, {"workers", "1"},       {NULL, NULL}};
    gf_config c;
    char data[64];
    snprintf(data, sizeof data, "shapes:n=96,classes=4,size=16,seed=%d", 3 + attempt);
    MUST(gf_config_init(&here.error, &c));
    for (int i = 0; usual[i][0]; i++) MUST(gf_config_set(&here.error, &c, usual[i][0], usual[i][1]));
    MUST(gf_config_set(&here.error, &c, "data", data));
    for (int i = 0; settings[i][0]; i++) MUST(gf_config_set(&here.error, &c, settings[i][0], settings[i][1]));
    MUST(gf_config_resolve(&here.error, &c));
    return c;
}

static gf_trainer *make_trainer(gf_comm *comm, const gf_config *c, int ranked, const char *vocab) {
    gf_trainer *t = NULL;
    MUST(gf_trainer_open(&here.error, c, &t));
    if (c->task == GF_TASK_CLIP) MUST(gf_trainer_vocabulary(&here.error, t, vocab));
    if (ranked) t->comm = comm;
    MUST(gf_trainer_build(&here.error, t, NULL, NULL));
    return t;
}

/* ----- comparing ----- */

static int64_t weight_count(const gf_trainer *t) { return t->state_count; }

static void copy_weights(const gf_trainer *t, float *out) {
    for (int k = 0; k < t->encoders.count; k++)
        for (int i = 0; i < t->encoders.at[k].param_count; i++) {
            const gf_tensor *x = &t->encoders.at[k].tensors[i];
            memcpy(out, x->value, sizeof *out * (size_t)x->count);
            out += x->count;
        }
}

static void compare_weights(const twins *w) {
    const size_t n = (size_t)weight_count(w->alone);
    float *x = malloc(sizeof *x * n), *y = malloc(sizeof *y * n), moved = 0.0f, off = 0.0f;
    copy_weights(w->alone, x);
    copy_weights(w->ranked, y);
    for (size_t i = 0; i < n; i++) moved = fmaxf(moved, fabsf(x[i] - w->first[i])), off = fmaxf(off, fabsf(x[i] - y[i]));
    CHECK(moved > 0.0f && off <= 1e-4f * moved, "%s: a weight is off by %g, and the largest change is %g", w->name, off, moved);
    if (w->comm->rank == 0) printf("%-28s weights off by %.1e of %.1e\n", w->name, off, moved);
    free(x);
    free(y);
}

/* Statistics of batch norm too are those of all ranks. */
static void compare_buffers(const twins *w) {
    for (int k = 0; k < w->alone->encoders.count; k++) {
        const gf_encoder *a = &w->alone->encoders.at[k], *b = &w->ranked->encoders.at[k];
        for (int i = a->param_count; i < a->tensor_count; i++)
            for (int64_t j = 0; j < a->tensors[i].count; j++) {
                const float x = a->tensors[i].value[j], y = b->tensors[i].value[j];
                CHECK(fabsf(x - y) <= 1e-4f * fmaxf(1.0f, fabsf(x)), "%s: %s[%lld] is %g, one rank has %g", w->name,
                      a->tensors[i].name, (long long)j, y, x);
            }
    }
}

static void compare_state(const twins *w) {
    const int ranks = w->comm->ranks;
    gf_shard *s = gf_loss_stage_shard(w->ranked->loss);
    for (int side = 0; side < w->alone->encoders.count; side++)
        for (int64_t id = w->comm->rank; id < w->alone->info.n; id += ranks) {
            const int64_t place = id / ranks;
            glofnd_row x = {0}, y = {0};
            CHECK(glofnd_rows_get(gf_shard_ctx(s), gf_shard_store(s), side, &place, 1, &x) == GLOFND_OK &&
                      glofnd_rows_get(gf_loss_stage_ctx(w->alone->loss), gf_loss_stage_store(w->alone->loss), side, &id, 1, &y) ==
                          GLOFND_OK,
                  "rows cannot be read");
            const int same_u = x.log_u == y.log_u || fabsf(x.log_u - y.log_u) < 1e-4f;
            CHECK(x.clock == y.clock && fabsf(x.lambda - y.lambda) < 1e-4f && same_u,
                  "%s: anchor %d has lambda %g, log u %g; "
                  "one rank %g, %g",
                  w->name, (int)id, x.lambda, x.log_u, y.lambda, y.log_u);
        }
}

/* What the log tells of thresholds: of all anchors, or (where there are more than `most`) the same ones. */
static void compare_lambdas(const twins *w, int64_t most) {
    gf_lambdas x = {0}, y = {0};
    MUST(gf_lambdas_take(&here.error, w->ranked, most, &x));
    MUST(gf_lambdas_take(&here.error, w->alone, most, &y));
    CHECK(x.count == y.count && x.count > most / 2 && x.count <= most, "%s: %lld thresholds", w->name, (long long)x.count);
    for (int side = 0; side < w->alone->encoders.count; side++) {
        for (int64_t i = 0; i < x.count; i++)
            CHECK(fabsf(x.side[side][i] - y.side[side][i]) < 1e-4f, "%s: threshold %d of side %d is %g, one rank has %g", w->name,
                  (int)i, side, x.side[side][i], y.side[side][i]);
        CHECK(fabs(gf_lambdas_mean(&x, side) - gf_lambdas_mean(&y, side)) < 1e-4, "%s: mean %g, one rank has %g", w->name,
              gf_lambdas_mean(&x, side), gf_lambdas_mean(&y, side));
    }
    gf_lambdas_free(&x);
    gf_lambdas_free(&y);
}

static void compare_step(const twins *w, int step) {
    const glofnd_stats *x = &w->ranked->stats, *y = &w->alone->stats;
    CHECK(fabs(x->loss - y->loss) <= 1e-5 * fmax(1.0, fabs(y->loss)), "%s, step %d: loss %.8f, one rank %.8f", w->name, step,
          x->loss, y->loss);
    CHECK(x->flagged == y->flagged && x->pairs == y->pairs, "%s, step %d: %lld of %lld pairs flagged, one rank %lld of %lld",
          w->name, step, (long long)x->flagged, (long long)x->pairs, (long long)y->flagged, (long long)y->pairs);
    CHECK(fabs(gf_learned_tau_value(&w->ranked->scale) - gf_learned_tau_value(&w->alone->scale)) < 1e-6,
          "%s, step %d: tau %g, one rank %g", w->name, step, gf_learned_tau_value(&w->ranked->scale),
          gf_learned_tau_value(&w->alone->scale));
}

static void run_case(gf_comm *comm, const char *name, const char *const settings[][2], const char *vocab, int attempt) {
    const gf_config c = make_config(settings, attempt);
    twins w = {.name = name, .comm = comm};
    w.alone = make_trainer(comm, &c, 0, vocab);
    w.ranked = make_trainer(comm, &c, 1, vocab);
    w.first = malloc(sizeof *w.first * (size_t)weight_count(w.alone));
    copy_weights(w.alone, w.first);
    for (int step = 0; step < STEPS; step++) {
        MUST(gf_trainer_step(&here.error, w.alone));
        MUST(gf_trainer_step(&here.error, w.ranked));
        compare_step(&w, step);
    }
    compare_weights(&w);
    compare_buffers(&w);
    compare_state(&w);
    compare_lambdas(&w, 96);
    compare_lambdas(&w, 35); /* every third: 32 of them */
    free(w.first);
    gf_trainer_free(w.ranked);
    gf_trainer_free(w.alone);
}

typedef struct scenario {
    const char *name;
    const char *const settings[14][2];
} scenario;

#define CLIP \
    {"task", "clip"}, {"embed_dim", "16"}, {"text_width", "32"}, {"text_layers", "1"}, {"text_heads", "2"}, { "context", "16" }
static const scenario scenarios[] = {
    {"sogclr, glofnd", {{"loss", "sogclr"}}},
    {"sogclr, glofnd, lars", {{"optimizer", "lars"}, {"lr", "0.01"}}},
    {"sogclr, single lambda", {{"detector", "single"}}},
    {"sogclr, ring", {{"learner", "ring"}, {"ring_rows", "64"}}},
    {"simclr, glofnd", {{"loss", "simclr"}, {"lr", "0.0005"}}}, /* its gradients are larger */
    {"clip", {CLIP, {"loss", "clip"}, {"detector", "none"}}},
    {"sogclr2, glofnd", {CLIP, {"loss", "sogclr2"}}},
    {"sogclr2, first groups alone", {CLIP, {"loss", "sogclr2"}, {"start_epoch", "1"}}},
    {"fastclip, glofnd", {CLIP, {"loss", "fastclip"}}},
    {"isogclr, glofnd", {CLIP, {"loss", "isogclr"}}},
    {"sogclr2, adamw", {CLIP, {"loss", "sogclr2"}, {"optimizer", "adamw"}, {"adam_eps", "1e-2"}}},
    {"sogclr2, vit, parts",
     {CLIP,
      {"loss", "sogclr2"},
      {"arch", "vit"},
      {"image_width", "32"},
      {"image_layers", "1"},
      {"image_heads", "2"},
      {"patch", "8"},
      {"micro_batch", "2"}}},
};

/* 1 if it fails on any rank, in every attempt; the last one tells what is wrong. */
static int try_case(gf_comm *comm, const scenario *s, const char *vocab) {
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        here.failures = 0;
        here.silent = attempt < ATTEMPTS - 1;
        run_case(comm, s->name, s->settings, vocab, attempt);
        if (ranked_sum(here.failures) == 0) return 0;
    }
    return 1;
}

/* A vocabulary without merges will do: bytes. Every rank writes its own. */
static void write_vocabulary(gf_comm *comm, char *path, size_t bytes) {
    snprintf(path, bytes, "mpi_train.%d.%d.vocab", comm->ranks, comm->rank);
    FILE *f = fopen(path, "w");
    if (!f) MUST(gf_fail(&here.error, GLOFND_E_IO, "%s cannot be written", path));
    fputs("#version: 0.2\na n\nt h\n", f);
    fclose(f);
}

int main(void) {
    const size_t cases = sizeof scenarios / sizeof *scenarios;
    const int skipped = ranked_open();
    char vocab[64];
    int bad = 0;
    if (skipped) return skipped;
    write_vocabulary(here.comm, vocab, sizeof vocab);
    for (size_t i = 0; i < cases; i++) bad += try_case(here.comm, &scenarios[i], vocab);
    remove(vocab);
    return ranked_close(here.comm->rank == 0 ? bad : 0, cases); /* all ranks have counted the same */
}
