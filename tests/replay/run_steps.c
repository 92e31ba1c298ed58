/* run_steps.c - golden cases of the training step, through the public header, on the CPU or a GPU.
 *
 * Every step: glofnd_step_rows on all ranks, links side by side, glofnd_step_grad and glofnd_step_mask on all ranks, then the
 * touched rows go to the other ranks' stores. One rank: also glofnd_step on a second store, which must give the same bits.
 * State runs from step to step inside the library; nothing is corrected from the golden arrays. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"
#include "run.h"
#include "support/losses.h"
#include "support/on_device.h"

typedef struct run {
    settings s;
    const golden_case *c;
    outputs *o;
    const gf_npy *in[2];                          /* [steps][B][d] views, or image and text */
    const gf_npy *id, *label, *epoch, *log_scale; /* NULL where the case has none */
    rank *ranks;                                  /* [world] */
    replica single;                               /* one rank: driven by glofnd_step */
    glofnd_stats single_stats;
    gf_link *links;            /* [B][2] */
    float *embedding[2];       /* [B][d] of this step */
    float *single_grad[2];     /* [B][d] */
    int64_t *ids;              /* [B] of this step */
    int32_t *labels;           /* [B] of this step */
    double inverse_tau, gamma; /* image-text: of this step */
    int following;             /* no anchor has a lambda of its own */
} run;

/* ----- set up --------------------------------------------------------------------------------------------------- */

/* An input whose first axis counts steps; it may hold more steps than the case uses. */
static int find_input(const run *x, const char *name, int axes, int64_t d1, int64_t d2, const gf_npy **out, message *m) {
    const int64_t dims[3] = {-1, d1, d2};
    PASS(golden_array(x->c, name, axes, dims, out, m));
    SAY_IF(m, (*out)->shape[0] < x->s.steps, REPLAY_UNREADABLE, "%s: array '%s' holds %lld steps; hyper.tsv says %lld", x->c->id,
           name, (long long)(*out)->shape[0], (long long)x->s.steps);
    return REPLAY_OK;
}

static int find_inputs(run *x, message *m) {
    const settings *s = &x->s;
    const int two_views = s->modalities == 1, clip = losses_of(&s->o) == LOSS_CLIP;
    PASS(find_input(x, two_views ? "h1" : "im", 3, s->batch, s->dim, &x->in[0], m));
    PASS(find_input(x, two_views ? "h2" : "tt", 3, s->batch, s->dim, &x->in[1], m));
    if (!clip || golden_find(x->c, "index")) PASS(find_input(x, "index", 2, s->batch, 0, &x->id, m));
    if (!clip || golden_find(x->c, "epoch")) PASS(find_input(x, "epoch", 1, 0, 0, &x->epoch, m));
    if (!two_views) PASS(find_input(x, "log_scale", 1, 0, 0, &x->log_scale, m));
    const int needs_labels =
        s->o.detector == GLOFND_DETECT_ORACLE || outputs_wants(x->o, "log_precision") || outputs_wants(x->o, "log_recall");
    if (needs_labels || golden_find(x->c, "labels")) PASS(find_input(x, "labels", 2, s->batch, 0, &x->label, m));
    const int64_t columns = two_views ? 2 * s->batch : s->batch;
    const int has_masks = outputs_wants(x->o, "mask_ab_aa_bits") || outputs_wants(x->o, "mask_ba_bb_bits") ||
                          outputs_wants(x->o, "mask_im_bits") || outputs_wants(x->o, "mask_tt_bits");
    SAY_IF(m, has_masks && columns > 64, REPLAY_UNREADABLE, "%s: masks of %lld columns do not fit 64 bits", x->c->id,
           (long long)columns);
    return REPLAY_OK;
}

static int open_rank(run *x, int64_t k, message *m) {
    const settings *s = &x->s;
    const int64_t rows = s->batch / s->world;
    rank *w = &x->ranks[k];
    const size_t masks = (size_t)(rows * s->batch) * (s->modalities == 1 ? 4 : 2);
    w->stats.size = x->single_stats.size = sizeof w->stats;
    w->links = x->links + 2 * rows * k;
    w->keep = grab(masks, 1);
    for (int v = 0; v < 2; v++) w->grad[v] = grab((size_t)(rows * s->dim), sizeof(float));
    w->batch = (glofnd_batch){.size = sizeof w->batch,
                              .n = s->batch,
                              .dim = s->dim,
                              .a = x->embedding[0],
                              .b = x->embedding[1],
                              .id = x->ids,
                              .label = x->label ? x->labels : NULL};
    w->own = (glofnd_own_rows){.size = sizeof w->own, .first = rows * k, .rows = rows};
    if (outputs_wants(x->o, "log_precision") || outputs_wants(x->o, "log_recall")) w->batch.want |= GLOFND_WANT_QUALITY;
    if (outputs_wants(x->o, "log_lda_quantile")) w->batch.want |= GLOFND_WANT_QUANTILE;
    PASS(replica_create(&w->r, s, m));
    return state_start(&w->r, s, x->c, m);
}

static int open_run(run *x, message *m) {
    const settings *s = &x->s;
    const size_t b = (size_t)s->batch, d = (size_t)s->dim;
    x->ranks = grab((size_t)s->world, sizeof *x->ranks);
    x->links = grab(2 * b, sizeof *x->links);
    x->ids = grab(b, sizeof *x->ids);
    x->labels = grab(b, sizeof *x->labels);
    for (int v = 0; v < 2; v++) {
        x->embedding[v] = grab(b * d, sizeof(float));
        x->single_grad[v] = grab(b * d, sizeof(float));
    }
    x->following = !s->resume && s->lambda_start == 1.0;
    for (int64_t k = 0; k < s->world; k++) PASS(open_rank(x, k, m));
    if (s->world > 1) return REPLAY_OK;
    PASS(replica_create(&x->single, s, m));
    return state_start(&x->single, s, x->c, m);
}

static void close_run(run *x) {
    for (int64_t k = 0; x->ranks && k < x->s.world; k++) {
        replica_free(&x->ranks[k].r);
        free(x->ranks[k].keep);
        for (int v = 0; v < 2; v++) free(x->ranks[k].grad[v]);
    }
    replica_free(&x->single);
    for (int v = 0; v < 2; v++) {
        free(x->embedding[v]);
        free(x->single_grad[v]);
    }
    free(x->ranks);
    free(x->links);
    free(x->ids);
    free(x->labels);
}

/* ----- one step ------------------------------------------------------------------------------------------------- */

static int load_labels(run *x, int64_t t, message *m) {
    for (int64_t i = 0; x->label && i < x->s.batch; i++) {
        const int64_t label = gf_npy_i64(x->label, t * x->s.batch + i);
        SAY_IF(m, label < INT32_MIN || label > INT32_MAX, REPLAY_UNREADABLE, "%s: label %lld does not fit 32 bits", x->c->id,
               (long long)label);
        x->labels[i] = (int32_t)label;
    }
    return REPLAY_OK;
}

static int load_step(run *x, int64_t t, message *m) {
    const settings *s = &x->s;
    const int64_t size = s->batch * s->dim, epoch = x->epoch ? gf_npy_i64(x->epoch, t) : 0;
    SAY_IF(m, epoch < 0 || epoch >= INT32_MAX, REPLAY_UNREADABLE, "%s: epoch %lld", x->c->id, (long long)epoch);
    for (int v = 0; v < 2; v++)
        for (int64_t i = 0; i < size; i++) x->embedding[v][i] = (float)gf_npy_f64(x->in[v], t * size + i);
    for (int64_t i = 0; i < s->batch; i++) x->ids[i] = x->id ? gf_npy_i64(x->id, t * s->batch + i) : i;
    PASS(load_labels(x, t, m));
    if (s->modalities == 2) {
        x->inverse_tau = exp(gf_npy_f64(x->log_scale, t));
        x->gamma = losses_of(&s->o) == LOSS_CLIP ? 0.0 : settings_gamma(s, epoch);
    }
    for (int64_t k = 0; k < s->world; k++) {
        glofnd_batch *q = &x->ranks[k].batch;
        q->epoch = (int32_t)epoch;
        q->tau = s->modalities == 2 ? 1.0 / x->inverse_tau : 0.0;
        q->gamma = s->modalities == 2 ? x->gamma : 0.0;
    }
    return REPLAY_OK;
}

/* 1 in the epochs in which the shared warm-up learns. */
static int in_warmup(const run *x) {
    const int32_t epoch = x->ranks[0].batch.epoch, first = x->s.o.update_epoch;
    return x->s.learned && !x->s.single && epoch >= first && epoch - first < x->s.o.lambda_warmup;
}

/* Epochs in which the authors' code looks at entry 0, where anchors may have thresholds of their own: resumed, or another
 * lambda_init, or epochs that run backwards. A plain run is left to the library. */
static int prepare_shared(run *x, message *m) {
    const int32_t epoch = x->ranks[0].batch.epoch;
    const int warm = in_warmup(x);
    if (!warm && epoch >= x->s.o.update_epoch) x->following = 0;
    if (!x->s.learned || x->s.single || x->following || (!warm && epoch >= x->s.o.update_epoch)) return REPLAY_OK;
    for (int64_t k = 0; k < x->s.world; k++) PASS(state_share_first(&x->ranks[k].r, &x->s, warm, m));
    if (x->s.world == 1) PASS(state_share_first(&x->single, &x->s, warm, m));
    x->following = warm;
    return REPLAY_OK;
}

static int run_ranks(run *x, message *m) {
    PASS(ranks_step_rows(x->ranks, x->s.world, m));
    for (int64_t k = 0; k < x->s.world; k++) {
        rank *w = &x->ranks[k];
        glofnd_ctx *ctx = w->r.ctx;
        glofnd_status status = on_device_step_grad(ctx, &w->batch, &w->own, x->links, w->grad[0], w->grad[1], &w->stats);
        PASS(library(&w->r, status, "glofnd_step_grad", m));
        status = on_device_step_mask(ctx, &w->batch, &w->own, x->links, w->keep);
        PASS(library(&w->r, status, "glofnd_step_mask", m));
    }
    return REPLAY_OK;
}

static int exchange_rows(run *x, message *m) {
    for (int64_t from = 0; from < x->s.world; from++) {
        const int64_t *id = x->ranks[from].batch.id;
        const glofnd_own_rows *own = &x->ranks[from].own;
        for (int64_t to = 0; to < x->s.world; to++) {
            if (to == from) continue;
            PASS(state_copy(&x->ranks[from].r, &x->ranks[to].r, &x->s, id + own->first, own->rows, m));
        }
    }
    return REPLAY_OK;
}

static int same_bits(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

/* glofnd_step is the two calls in one: same loss, gradients and state, to the last bit. */
static int run_second(run *x, int64_t t, message *m) {
    const rank *w = &x->ranks[0];
    const size_t bytes = (size_t)(x->s.batch * x->s.dim) * sizeof(float);
    const glofnd_stats *a = &w->stats, *b = &x->single_stats;
    if (x->s.world > 1) return REPLAY_OK;
    PASS(
        library(&x->single,
                on_device_step(x->single.ctx, x->single.store, &w->batch, x->single_grad[0], x->single_grad[1], &x->single_stats),
                "glofnd_step", m));
    SAY_IF(m, !same_bits(a->loss, b->loss) || !same_bits(a->grad_scale, b->grad_scale) || !same_bits(a->grad_tau, b->grad_tau),
           REPLAY_MISMATCH, "step %lld: glofnd_step gives loss %.17g, d/dk %.17g; glofnd_step_rows and _grad %.17g, %.17g",
           (long long)t, b->loss, b->grad_scale, a->loss, a->grad_scale);
    for (int v = 0; v < 2; v++)
        SAY_IF(m, memcmp(w->grad[v], x->single_grad[v], bytes) != 0, REPLAY_MISMATCH,
               "step %lld: glofnd_step gives a different gradient of input %d from glofnd_step_grad", (long long)t, v);
    return state_equal(&w->r, &x->single, &x->s, m);
}

/* ----- offer ---------------------------------------------------------------------------------------------------- */

/* Golden columns: two views: the other view's B, then the own view's B. Image-text: B. Bit 63 is the sign. */
static int64_t mask_bits(const run *x, const rank *w, int64_t i, int v) {
    const int64_t cols = x->s.batch;
    const uint8_t *keep = w->keep;
    uint64_t bits = 0;
    for (int64_t j = 0; j < cols; j++) {
        if (x->s.modalities == 2) {
            bits |= (uint64_t)(keep[(i * 2 + v) * cols + j] != 0) << j;
        } else {
            bits |= (uint64_t)(keep[((i * 2 + v) * 2 + 1 - v) * cols + j] != 0) << j;
            bits |= (uint64_t)(keep[((i * 2 + v) * 2 + v) * cols + j] != 0) << (cols + j);
        }
    }
    int64_t signed_bits;
    memcpy(&signed_bits, &bits, sizeof bits);
    return signed_bits;
}

static void offer_masks(const run *x, const rank *w, int64_t first) {
    static const char *const mask[2][2] = {{"mask_ab_aa_bits", "mask_ba_bb_bits"}, {"mask_im_bits", "mask_tt_bits"}};
    static const char *const count[2][2] = {{"num_neg_ab_aa", "num_neg_ba_bb"}, {"num_neg_im", "num_neg_tt"}};
    const int kind = x->s.modalities - 1;
    for (int v = 0; v < 2; v++) {
        for (int64_t i = 0; i < w->own.rows; i++) {
            const int64_t kept = w->links[2 * i + v].kept;
            outputs_whole(x->o, count[kind][v], first + i, &kept, 1);
            if (!outputs_wants(x->o, mask[kind][v])) continue;
            const int64_t bits = mask_bits(x, w, i, v);
            outputs_whole(x->o, mask[kind][v], first + i, &bits, 1);
        }
    }
}

static void offer_rank(const run *x, int64_t t, int64_t k) {
    static const char *const grad[2][2] = {{"grad_h1", "grad_h2"}, {"grad_im", "grad_tt"}};
    const rank *w = &x->ranks[k];
    const int64_t at = t * x->s.world + k, rows = w->own.rows, size = rows * x->s.dim;
    outputs_one(x->o, "loss", at, w->stats.loss);
    for (int v = 0; v < 2; v++) outputs_float(x->o, grad[x->s.modalities - 1][v], at * size, w->grad[v], size);
    offer_masks(x, w, at * rows);
    if (x->s.modalities == 1) return;
    outputs_one(x->o, "grad_logit_scale", at, w->stats.grad_scale);
    outputs_one(x->o, "grad_log_scale_param", at, w->stats.grad_scale * x->inverse_tau);
}

static int offer_step(const run *x, int64_t t, message *m) {
    const glofnd_stats *stats = &x->ranks[0].stats;
    for (int64_t k = 0; k < x->s.world; k++) offer_rank(x, t, k);
    if (x->s.modalities == 2 && losses_of(&x->s.o) != LOSS_CLIP) outputs_one(x->o, "gamma", t, x->gamma);
    if (x->s.world == 1) {
        outputs_one(x->o, "log_kept_frac", t, stats->kept_share);
        outputs_one(x->o, "log_kept_frac_thr", t, stats->detector_share);
        outputs_one(x->o, "log_lda_quantile", t, stats->quantile_mean);
        outputs_one(x->o, "log_lambda_mean", t, stats->lambda_mean);
        outputs_one(x->o, "log_precision", t, stats->precision_per_anchor);
        outputs_one(x->o, "log_recall", t, stats->recall_per_anchor);
    }
    return state_compare(&x->ranks[0].r, &x->s, t, x->o, m);
}

static int run_all(run *x, message *m) {
    PASS(settings_read(&x->s, x->c, m));
    PASS(find_inputs(x, m));
    if (!x->id && x->s.n < x->s.batch) x->s.n = x->s.batch;
    PASS(open_run(x, m));
    for (int64_t t = 0; t < x->s.steps; t++) {
        PASS(load_step(x, t, m));
        PASS(prepare_shared(x, m));
        PASS(run_ranks(x, m));
        PASS(run_second(x, t, m));
        PASS(exchange_rows(x, m));
        PASS(offer_step(x, t, m));
    }
    return REPLAY_OK;
}

int run_steps(const golden_case *c, outputs *o, message *m) {
    run x = {.c = c, .o = o};
    const int code = run_all(&x, m);
    close_run(&x);
    return code;
}
