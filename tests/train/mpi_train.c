/* mpi_train.c - training on R ranks against training on one, step by step. Run by mpirun; every rank also trains alone, on the
 * same batches, and compares.
 *
 * Ten steps of small nets with batch norm, all losses with GloFND. Ranks add the same numbers in a different order, so all
 * results agree to a few rounding errors: one bound, which a missing or doubled part of any sum exceeds. Two kinks could turn a
 * rounding error into a large difference: a ReLU whose input is nearly 0, and a similarity nearly at a threshold. So the images
 * are chosen first, by training alone twice, once from weights moved by far more than rounding: if that changes the result, the
 * next seed of images is taken. The choice does not depend on what ranks compute. The context is long enough to tell all captions
 * apart: equal captions would tie at a threshold, and oneDNN may round equal rows differently. Adam divides by the size of a
 * gradient, which for some weights is rounding error; its eps is large here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop/monitor.h"
#include "method/store.h"
#include "support/ranked.h"
#include "support/scratch.h"
#include "util/dtype.h"
#include "util/rng.h"

enum { STEPS = 10, FIRST_SEED = 3, LAST_SEED = 40 };
#define MOVED 1e-6     /* relative, in the choice of images */
#define TOLERANCE 3e-5 /* weights, relative to the largest change of any; losses, lambda, u, tau and statistics, to max(1, |x|) */

typedef struct training {
    gf_trainer *t;
    float *first; /* weights before the first step */
    glofnd_stats stats[STEPS];
    double neighbours[STEPS];
    double tau[STEPS];
} training;

static gf_config make_config(const char *const settings[][2], int seed) {
    static const char *const usual[][2] = {{"arch", "resnet8"},  {"size", "8"},    {"batch", "8"},         {"epochs", "3"},
                                           {"start_epoch", "0"}, {"alpha", "0.1"}, {"lambda_lr", "0.005"}, {"optimizer", "sgd"},
                                           {"lr", "0.002"},      {"threads", "1"}, {"workers", "1"},       {NULL, NULL}};
    gf_config c;
    char data[64];
    snprintf(data, sizeof data, "shapes:n=48,classes=4,size=8,seed=%d", seed);
    MUST(gf_config_init(&here.error, &c));
    for (int i = 0; usual[i][0]; i++) MUST(gf_config_set(&here.error, &c, usual[i][0], usual[i][1]));
    MUST(gf_config_set(&here.error, &c, "data", data));
    for (int i = 0; settings[i][0]; i++) MUST(gf_config_set(&here.error, &c, settings[i][0], settings[i][1]));
    MUST(gf_config_resolve(&here.error, &c));
    return c;
}

/* ----- training ----- */

static gf_trainer *make_trainer(gf_comm *comm, const gf_config *c, const char *vocab) {
    gf_trainer *t = NULL;
    MUST(gf_trainer_open(&here.error, c, &t));
    if (c->task == GF_TASK_CLIP) MUST(gf_trainer_vocabulary(&here.error, t, vocab));
    t->comm = comm;
    MUST(gf_trainer_build(&here.error, t, NULL, NULL));
    return t;
}

static void move_weights(gf_trainer *t) {
    gf_rng r = gf_rng_at(1, GF_RNG_INIT, 0, 0, 0);
    for (int k = 0; k < t->encoders.count; k++)
        for (int i = 0; i < t->encoders.at[k].param_count; i++) {
            const gf_tensor *x = &t->encoders.at[k].tensors[i];
            for (int64_t j = 0; j < x->count; j++) x->value[j] *= (float)(1.0 + MOVED * (gf_rng_u32(&r) & 1 ? 1.0 : -1.0));
        }
    gf_encoders_touch(&t->encoders);
}

/* weights: [t->state_count], to be freed */
static float *copy_weights(const gf_trainer *t) {
    float *weights = malloc(sizeof *weights * (size_t)t->state_count), *out = weights;
    for (int k = 0; k < t->encoders.count; k++)
        for (int i = 0; i < t->encoders.at[k].param_count; i++) {
            const gf_tensor *x = &t->encoders.at[k].tensors[i];
            memcpy(out, x->value, sizeof *out * (size_t)x->count);
            out += x->count;
        }
    return weights;
}

static training train(gf_comm *comm, const gf_config *c, const char *vocab, int moved) {
    training w = {.t = make_trainer(comm, c, vocab)};
    if (moved) move_weights(w.t);
    w.first = copy_weights(w.t);
    for (int step = 0; step < STEPS; step++) {
        MUST(gf_trainer_step(&here.error, w.t));
        w.stats[step] = w.t->stats;
        w.neighbours[step] = w.t->counters.neighbours;
        w.tau[step] = gf_learned_tau_value(&w.t->scale);
    }
    return w;
}

static void training_free(training *w) {
    gf_trainer_free(w->t);
    free(w->first);
}

/* ----- comparing ----- */

static int is_close(double x, double y) { return x == y || fabs(x - y) <= TOLERANCE * fmax(1.0, fabs(y)); }

/* The largest difference between the changes of a weight, as a share of the largest change of any. */
static double weight_gap(const training *a, const training *b) {
    const int64_t n = a->t->state_count;
    float *x = copy_weights(a->t), *y = copy_weights(b->t);
    double change = 0, gap = 0;
    for (int64_t i = 0; i < n; i++) {
        const double moved = (double)x[i] - (double)a->first[i];
        change = fmax(change, fabs(moved));
        gap = fmax(gap, fabs(moved - ((double)y[i] - (double)b->first[i])));
    }
    free(x);
    free(y);
    return gap / change;
}

static int is_same_step(const training *a, const training *b, int step) {
    const glofnd_stats *x = &a->stats[step], *y = &b->stats[step];
    return is_close(x->loss, y->loss) && is_close(a->tau[step], b->tau[step]) &&
           is_close(a->neighbours[step], b->neighbours[step]) && x->flagged == y->flagged && x->pairs == y->pairs;
}

/* Does training not care about weights moved by MOVED? */
static int is_stable(const training *a, const training *b) {
    for (int step = 0; step < STEPS; step++)
        if (!is_same_step(a, b, step)) return 0;
    return weight_gap(a, b) <= TOLERANCE;
}

static void compare_steps(const char *name, const training *one, const training *ranked) {
    for (int step = 0; step < STEPS; step++) {
        const glofnd_stats *x = &ranked->stats[step], *y = &one->stats[step];
        CHECK(is_same_step(one, ranked, step),
              "%s, step %d: loss %.8f, tau %.8f, %lld of %lld pairs flagged; one rank %.8f, %.8f, %lld of %lld", name, step,
              x->loss, ranked->tau[step], (long long)x->flagged, (long long)x->pairs, y->loss, one->tau[step],
              (long long)y->flagged, (long long)y->pairs);
    }
}

/* Statistics of batch norm too are those of all ranks. */
static void compare_buffers(const char *name, const gf_trainer *one, const gf_trainer *ranked) {
    for (int k = 0; k < one->encoders.count; k++) {
        const gf_encoder *a = &one->encoders.at[k], *b = &ranked->encoders.at[k];
        for (int i = a->param_count; i < a->tensor_count; i++)
            for (int64_t j = 0; j < a->tensors[i].count; j++) {
                const float x = a->tensors[i].value[j], y = b->tensors[i].value[j];
                CHECK(is_close((double)y, (double)x), "%s: %s[%lld] is %g, one rank has %g", name, a->tensors[i].name,
                      (long long)j, (double)y, (double)x);
            }
    }
}

static void compare_state(const char *name, const gf_trainer *one, const gf_trainer *ranked) {
    const int ranks = here.comm->ranks;
    gf_shard *s = gf_loss_stage_shard(ranked->loss);
    for (int side = 0; side < one->encoders.count; side++)
        for (int64_t id = here.comm->rank; id < one->info.n; id += ranks) {
            const int64_t place = id / ranks;
            glofnd_anchor x = {0}, y = {0};
            CHECK(glofnd_anchors_get(gf_shard_ctx(s), gf_shard_store(s), side, &place, 1, &x) == GLOFND_OK &&
                      glofnd_anchors_get(gf_loss_stage_ctx(one->loss), gf_loss_stage_store(one->loss), side, &id, 1, &y) ==
                          GLOFND_OK,
                  "rows cannot be read");
            CHECK(x.clock == y.clock && is_close((double)x.lambda, (double)y.lambda) &&
                      is_close((double)x.log_u, (double)y.log_u),
                  "%s: anchor %d has lambda %g, log u %g; one rank %g, %g", name, (int)id, (double)x.lambda, (double)x.log_u,
                  (double)y.lambda, (double)y.log_u);
        }
}

/* Averages of all samples, on every rank. They are rounded to float16 at every visit: one unit of numbers up to 1. mpi_step
 * compares their bits, for equal embeddings. */
static void compare_averages(const char *name, const gf_trainer *one, const gf_trainer *ranked) {
    const int64_t dim = gf_loss_stage_store(one->loss)->spec.bank_dim;
    uint16_t x[GF_BANK_MAX_DIM], y[GF_BANK_MAX_DIM];
    for (int side = 0; side < one->encoders.count && dim > 0; side++)
        for (int64_t id = 0; id < one->info.n; id++) {
            gf_store_bank_gather(gf_loss_stage_store(ranked->loss), side, &id, 1, x);
            gf_store_bank_gather(gf_loss_stage_store(one->loss), side, &id, 1, y);
            for (int64_t j = 0; j < dim; j++) {
                const double a = (double)gf_f16_to_float(x[j]), b = (double)gf_f16_to_float(y[j]);
                CHECK(fabs(a - b) <= 0x1p-10, "%s: number %d of average %d is %g, one rank has %g", name, (int)j, (int)id, a, b);
            }
        }
}

/* Thresholds as the log has them: of all anchors, or (where there are more than `max`) the same ones. */
static void compare_lambdas(const char *name, const gf_trainer *one, const gf_trainer *ranked, int64_t max) {
    gf_lambdas x = {0}, y = {0};
    MUST(gf_lambdas_take(&here.error, ranked, max, &x));
    MUST(gf_lambdas_take(&here.error, one, max, &y));
    CHECK(x.count == y.count && x.count > max / 2 && x.count <= max, "%s: %lld thresholds", name, (long long)x.count);
    for (int side = 0; side < one->encoders.count; side++) {
        for (int64_t i = 0; i < x.count; i++)
            CHECK(is_close((double)x.side[side][i], (double)y.side[side][i]),
                  "%s: threshold %d of side %d is %g, one rank has %g", name, (int)i, side, (double)x.side[side][i],
                  (double)y.side[side][i]);
        CHECK(is_close(gf_lambdas_mean(&x, side), gf_lambdas_mean(&y, side)), "%s: mean %g, one rank has %g", name,
              gf_lambdas_mean(&x, side), gf_lambdas_mean(&y, side));
    }
    gf_lambdas_free(&x);
    gf_lambdas_free(&y);
}

/* ----- cases ----- */

typedef struct scenario {
    const char *name;
    const char *const settings[14][2];
} scenario;

#define CLIP \
    {"task", "clip"}, {"embed_dim", "16"}, {"text_width", "32"}, {"text_layers", "1"}, {"text_heads", "2"}, { "context", "64" }
static const scenario scenarios[] = {
    {"sogclr, glofnd", {{"loss", "sogclr"}}},
    {"sogclr, glofnd, lars", {{"optimizer", "lars"}, {"lr", "0.01"}}},
    {"sogclr, single lambda", {{"detector", "single"}}},
    {"sogclr, ring", {{"learner", "ring"}, {"ring_rows", "64"}}},
    {"sogclr, shrinking steps", {{"learner", "sgd"}, {"lambda_lr", "5"}, {"lambda_decay", "0.5"}}},
    {"simclr, glofnd", {{"loss", "simclr"}, {"lr", "0.0005"}}}, /* its gradients are larger */
    {"sogclr, neighbours", {{"similarity", "bank"}, {"neighbours", "3"}}},
    {"simclr, some neighbours",
     {{"loss", "simclr"},
      {"lr", "0.0005"},
      {"similarity", "bank"},
      {"neighbours", "2"},
      {"neighbour_share", "0.5"},
      {"neighbour_rows", "30"}}},
    {"clip", {CLIP, {"loss", "clip"}, {"detector", "none"}}},
    {"sogclr2, glofnd", {CLIP, {"loss", "sogclr2"}}},
    {"sogclr2, first groups alone", {CLIP, {"loss", "sogclr2"}, {"start_epoch", "1"}}},
    {"fastclip, glofnd", {CLIP, {"loss", "fastclip"}}},
    {"isogclr, glofnd", {CLIP, {"loss", "isogclr"}}},
    {"sogclr2, adamw", {CLIP, {"loss", "sogclr2"}, {"optimizer", "adamw"}, {"adam_eps", "0.1"}, {"lr", "0.01"}}},
    {"sogclr2, vit, parts",
     {CLIP,
      {"loss", "sogclr2"},
      {"arch", "vit"},
      {"image_width", "32"},
      {"image_layers", "1"},
      {"image_heads", "2"},
      {"patch", "4"},
      {"micro_batch", "2"}}},
};

/* Trains alone on images for which rounding errors stay rounding errors; *c is their configuration. */
static training train_stable(const scenario *s, const char *vocab, gf_config *c) {
    for (int seed = FIRST_SEED; seed <= LAST_SEED; seed++) {
        *c = make_config(s->settings, seed);
        training one = train(NULL, c, vocab, 0), moved = train(NULL, c, vocab, 1);
        const int unstable = ranked_sum(!is_stable(&one, &moved));
        if (!unstable && here.comm->rank == 0)
            printf("%-28s seed %d, weights moved: %.1e", s->name, seed, weight_gap(&one, &moved));
        training_free(&moved);
        if (!unstable) return one;
        training_free(&one);
    }
    ranked_end(__FILE__, __LINE__, "no seed gives images away from all kinks");
}

static void run_case(const scenario *s, const char *vocab) {
    gf_config c;
    training one = train_stable(s, vocab, &c), ranked = train(here.comm, &c, vocab, 0);
    const double gap = weight_gap(&one, &ranked);
    if (here.comm->rank == 0) printf(", %d ranks %.1e of the largest change\n", here.comm->ranks, gap);
    CHECK(gap <= TOLERANCE, "%s: a weight is off by %g of the largest change", s->name, gap);
    compare_steps(s->name, &one, &ranked);
    compare_buffers(s->name, one.t, ranked.t);
    compare_state(s->name, one.t, ranked.t);
    compare_averages(s->name, one.t, ranked.t);
    compare_lambdas(s->name, one.t, ranked.t, 48);
    compare_lambdas(s->name, one.t, ranked.t, 20); /* every third: 16 of them */
    training_free(&ranked);
    training_free(&one);
}

/* A vocabulary without merges will do: bytes. Every rank writes its own. */
static void write_vocabulary(char *path, size_t bytes) {
    if (scratch_make(&box) != 0) MUST(gf_fail(&here.error, GLOFND_E_IO, "%s cannot be made", box.folder));
    scratch_text(&box, "vocab", "#version: 0.2\na n\nt h\n");
    snprintf(path, bytes, "%s", path_of("vocab"));
}

int main(void) {
    const size_t cases = sizeof scenarios / sizeof *scenarios;
    const int skipped = ranked_open();
    char vocab[512];
    if (skipped) return skipped;
    write_vocabulary(vocab, sizeof vocab);
    for (size_t i = 0; i < cases; i++) run_case(&scenarios[i], vocab);
    scratch_remove(&box);
    return ranked_close(here.failures, cases);
}
