/* step.c - one training step: Algorithm 1 of the paper, from top to bottom. Start reading the method here, with glofnd_step().
 *
 *     check              arguments; nothing has changed if it fails
 *     gf_step_begin      unit embeddings, of candidates too; the plan: what the options mean for this batch in this epoch
 *     open_state         the anchors' state, from the store
 *     open_thresholds    lambda of every row as it is, or as a quantile sets it; the window in which a learner will move it
 *     mark_pairs         similarity BANK, detector MUTUAL: lambda is updated and pairs are marked before the sums
 *     sum_kept           sums of exp(S/tau) over the pairs that are not flagged, and counts above lambda
 *     update_lambda      equation "update lambda_i" (formulas/lambda.h)
 *     rescue_rows        a row whose negatives are all flagged keeps the least similar one
 *     row_losses         u, the loss of every row, the weight of its pairs in the gradient (formulas/loss.h)
 *     commit             state to the store; nothing in it has changed before
 *     pair_gradients     a second pass over all pairs turns the weights into gradients
 * The functions come in this order. Several ranks call glofnd_step_rows, gather the links, and call glofnd_step_grad: the same
 * functions. averages.c has what similarity BANK and neighbours add, positives.c several positives. On a device the plan and the
 * formulas are the same, and it does all between the checks and the statistics (device/accel_step.h); on the CPU the passes over all pairs are those of
 * device/pair_passes.h.
 *
 * The order of the paper is: count above the old lambda, update lambda, mask with the new one. Counting and summing need the same
 * similarities, so they share one pass. gf_lambda_range gives the window in which the new lambda will lie; the pass sums what is
 * below the window and lists what is inside; after the update the list joins the sums. If a list overflows or a bound was too
 * tight, the pass is repeated with the new lambda known ("repeats"). The learner shrinkage masks with the old lambda, and has no
 * windows.
 */
#include "method/step.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "method/options.h"
#include "util/array.h"
#include "util/text.h"

static const gf_pair_ops cpu_ops = {.embed = gf_cpu_embed,
                                    .pack = gf_cpu_pack,
                                    .select = gf_cpu_select,
                                    .count = gf_cpu_count,
                                    .mark = gf_cpu_mark,
                                    .sum = gf_cpu_sum,
                                    .close = gf_cpu_close,
                                    .gradient = gf_cpu_gradient,
                                    .mask = gf_cpu_mask};

/* A call: the arguments as the caller gave them; those it does not have are NULL. */
typedef struct arguments {
    const glofnd_batch *batch;
    const glofnd_own_rows *own;
    const glofnd_store *store;
    const void *links, *grad_a, *grad_b;
    const glofnd_stats *stats;
} arguments;

/* What a call needs besides the batch. */
enum { NEEDS_STORE = 1, NEEDS_LINKS = 2, NEEDS_GRADIENTS = 4 };

/* The first half of a step, the second one, or both. */
enum { ROWS = 1, GRADIENTS = 2 };

static glofnd_status check(glofnd_ctx *ctx, unsigned needs, const arguments *given, gf_step_batch *known);
static glofnd_status open_state(gf_step *step, glofnd_store *store);
static glofnd_status open_thresholds(gf_step *step);
static glofnd_status mark_pairs(gf_step *step);
static void sum_kept(gf_step *step);
static glofnd_status update_lambda(gf_step *step, int *again);
static glofnd_status move_pooled(gf_step *step);
static void rescue_rows(gf_step *step);
static glofnd_status row_losses(gf_step *step, gf_link *links);
static void commit(gf_step *step);
static void pair_gradients(gf_step *step, const gf_link *links, void *grad_a, void *grad_b);
static void stats_of_rows(const gf_plan *p, const gf_totals *sum, glofnd_ctx *ctx);
static void add_stats_of_gradients(const gf_plan *p, const gf_totals *sum, glofnd_stats *stats);
static glofnd_status step_on_device(glofnd_ctx *c, int halves, const gf_step_batch *q, glofnd_store *s, gf_link *links,
                                    void *grad_a, void *grad_b, glofnd_stats *stats);

/* ----- the step ----- */

/* From the embeddings to the links of all own rows, the new state, and the statistics in the context. */
static glofnd_status first_half(gf_step *step, glofnd_store *store, gf_link *links) {
    const gf_plan *p = &step->plan;
    int again = 0;
    TRY(open_state(step, store));
    if (p->bank) gf_averages_make(step);
    if (p->neighbours) TRY(gf_neighbours_find(step));
    TRY(open_thresholds(step));
    if (p->marked) TRY(mark_pairs(step));
    sum_kept(step);
    if (p->learned && p->updating && !p->marked) TRY(p->pooled ? move_pooled(step) : update_lambda(step, &again));
    if (again) step->repeats++, sum_kept(step);
    rescue_rows(step);
    if (p->several) gf_positives_sum(step);
    TRY(row_losses(step, links));
    if (!(p->want & GLOFND_WANT_NO_UPDATE)) commit(step);
    step->ctx->has_rows = 1;
    return GLOFND_OK;
}

/* A step that fails leaves no new keys in the store. */
static glofnd_status undo(gf_step *step, glofnd_status status) {
    if (step->store && step->store->spec.keyed) gf_store_forget_keys(step->store, step->keys);
    return status;
}

glofnd_status glofnd_step(glofnd_ctx *ctx, glofnd_store *store, const glofnd_batch *batch, void *grad_a, void *grad_b,
                          glofnd_stats *stats) {
    const arguments given = {.batch = batch, .store = store, .grad_a = grad_a, .grad_b = grad_b, .stats = stats};
    gf_step step;
    gf_step_batch known;
    if (!ctx) return GLOFND_E_ARGUMENT;
    TRY(check(ctx, NEEDS_STORE | NEEDS_GRADIENTS, &given, &known));
    if (ctx->device) return step_on_device(ctx, ROWS | GRADIENTS, &known, store, NULL, grad_a, grad_b, stats);
    TRY(gf_step_begin(&step, ctx, &known));
    step.reuse = 1;
    const glofnd_status status = first_half(&step, store, step.ws->links);
    if (status != GLOFND_OK) return undo(&step, status);
    pair_gradients(&step, step.ws->links, grad_a, grad_b);
    if (stats) gf_struct_fill(stats, &ctx->stats, sizeof ctx->stats);
    return GLOFND_OK;
}

/* ----- check ----- */

#define BATCH_MAX (INT64_C(1) << 24) /* samples: positions of rows fit int32 */
#define DIM_MAX (INT64_C(1) << 20)
#define BIAS_MAX 1000.0

glofnd_status gf_shape_check(gf_error *err, int64_t rows, int64_t cols, int64_t dim) {
    FAIL_IF(err, cols < 2 || cols > BATCH_MAX, GLOFND_E_ARGUMENT,
            "the batch has %lld sample%s; expected 2 to %lld: leave out a last batch that is too short", (long long)cols,
            gf_plural(cols), (long long)BATCH_MAX);
    FAIL_IF(err, rows < 1 || rows > cols, GLOFND_E_ARGUMENT, "rows is %lld; it must be in 1..cols = %lld", (long long)rows,
            (long long)cols);
    FAIL_IF(err, dim < 1 || dim > DIM_MAX, GLOFND_E_ARGUMENT, "dim is %lld; it must be in 1..%lld", (long long)dim,
            (long long)DIM_MAX);
    return GLOFND_OK;
}

glofnd_status gf_batch_take(gf_error *err, const glofnd_batch *batch, const glofnd_own_rows *own, gf_step_batch *out) {
    glofnd_batch q = {0};
    glofnd_batch_extra extra = {0};
    glofnd_own_rows part = {0};
    TRY(gf_struct_check(err, "batch", "glofnd_batch", batch, offsetof(glofnd_batch, extra), sizeof q));
    memcpy(&q, batch, GF_MIN(batch->size, sizeof q));
    if (q.extra) TRY(gf_struct_check(err, "batch.extra", "glofnd_batch_extra", q.extra, sizeof extra, sizeof extra));
    if (q.extra) memcpy(&extra, q.extra, sizeof extra);
    if (own) TRY(gf_struct_check(err, "own", "glofnd_own_rows", own, sizeof part, sizeof part));
    part = own ? *own : (glofnd_own_rows){.rows = q.n};
    TRY(gf_shape_check(err, part.rows, q.n, q.dim));
    FAIL_IF(err, part.first < 0 || part.first > q.n - part.rows, GLOFND_E_ARGUMENT,
            "own.first is %lld; own rows %lld..%lld do not fit in the %lld of the batch", (long long)part.first,
            (long long)part.first, (long long)(part.first + part.rows - 1), (long long)q.n);
    FAIL_IF(err, q.epoch < 0, GLOFND_E_ARGUMENT, "batch.epoch is %d; epochs count from 0", q.epoch);
    FAIL_IF(err, !(q.tau == 0.0 || (q.tau >= 1e-3 && q.tau <= 100.0)), GLOFND_E_OPTION,
            "batch.tau is %g; it must be 0 (as in the options) or in [0.001, 100]", q.tau);
    FAIL_IF(err, !(q.gamma >= 0.0 && q.gamma <= 1.0), GLOFND_E_OPTION,
            "batch.gamma is %g; it must be 0 (as in the options) or in (0, 1]", q.gamma);
    FAIL_IF(err, !(fabs(q.bias) <= BIAS_MAX), GLOFND_E_OPTION,
            "batch.bias is %g; it must be 0 (as in the options) or in [-1000, 1000]", q.bias);
    *out = (gf_step_batch){.rows = part.rows,
                           .cols = q.n,
                           .row0 = part.first,
                           .dim = q.dim,
                           .a = q.a,
                           .b = q.b,
                           .id = q.id,
                           .slot = part.slot,
                           .label = q.label,
                           .group = q.group,
                           .positives = q.positives,
                           .guide = q.guide,
                           .guide_threshold = q.guide_threshold,
                           .guide_dim = q.guide_dim,
                           .support_a = extra.support_a,
                           .support_b = extra.support_b,
                           .bank_a = extra.bank_a,
                           .bank_b = extra.bank_b,
                           .a_stride = q.a_stride ? q.a_stride : q.dim,
                           .b_stride = q.b_stride ? q.b_stride : q.dim,
                           .grad_a_stride = q.grad_a_stride ? q.grad_a_stride : q.dim,
                           .grad_b_stride = q.grad_b_stride ? q.grad_b_stride : q.dim,
                           .candidates = {{q.negatives_a, q.negatives_a_id, q.grad_negatives_a, q.negatives_a_n,
                                           q.negatives_a_stride ? q.negatives_a_stride : q.dim},
                                          {q.negatives_b, q.negatives_b_id, q.grad_negatives_b, q.negatives_b_n,
                                           q.negatives_b_stride ? q.negatives_b_stride : q.dim}},
                           .dtype = q.dtype,
                           .grad_dtype = q.grad_dtype,
                           .epoch = q.epoch,
                           .want = q.want,
                           .tau = q.tau,
                           .gamma = q.gamma,
                           .bias = q.bias != 0.0 ? q.bias : NAN};
    return GLOFND_OK;
}

glofnd_status gf_dtype_check(gf_error *err, const char *name, glofnd_dtype dtype) {
    FAIL_IF(err, gf_dtype_bytes(dtype) == 0, GLOFND_E_ARGUMENT, "%s is %d; it must be 0 (float32), 1 (bfloat16) or 2 (float16)",
            name, (int)dtype);
    return GLOFND_OK;
}

#define STRIDE_MAX (INT64_C(1) << 30) /* numbers; times 2^31 rows of 4 bytes fits 64 bits */

glofnd_status gf_rows_check(gf_error *err, const char *name, const void *rows, glofnd_dtype dtype, int64_t stride, int64_t dim) {
    FAIL_IF(err, stride < dim || stride > STRIDE_MAX, GLOFND_E_ARGUMENT,
            "the stride of %s is %lld; it must be 0 (= dim) or in dim = %lld .. 2^30", name, (long long)stride, (long long)dim);
    FAIL_IF(err, (uintptr_t)rows % gf_dtype_bytes(dtype) != 0, GLOFND_E_ARGUMENT, "%s is not aligned to its numbers of %zu bytes",
            name, gf_dtype_bytes(dtype));
    return GLOFND_OK;
}

/* Candidates of side i, of which something is given. */
static glofnd_status check_candidates(gf_error *err, const glofnd_options *o, const gf_step_batch *q, int i) {
    const gf_candidates *x = &q->candidates[i];
    const char side = "ab"[i];
    FAIL_IF(err, x->n < 0 || x->n > BATCH_MAX, GLOFND_E_ARGUMENT, "batch.negatives_%c_n is %lld; it must be in 0 .. %lld", side,
            (long long)x->n, (long long)BATCH_MAX);
    FAIL_IF(err, (x->n > 0) != (x->rows != NULL), GLOFND_E_ARGUMENT, "batch.negatives_%c is %s, but batch.negatives_%c_n is %lld",
            side, x->rows ? "given" : "NULL", side, (long long)x->n);
    FAIL_IF(err, !x->rows, GLOFND_E_ARGUMENT, "batch.negatives_%c is NULL, but its %s given", side,
            x->id ? "ids are" : "gradient is");
    TRY(gf_rows_check(err, i == 0 ? "negatives_a" : "negatives_b", x->rows, q->dtype, x->stride, q->dim));
    FAIL_IF(err, (uintptr_t)x->grad % gf_dtype_bytes(q->grad_dtype) != 0, GLOFND_E_ARGUMENT,
            "batch.grad_negatives_%c is not aligned to its numbers of %zu bytes", side, gf_dtype_bytes(q->grad_dtype));
    FAIL_IF(err, i == 1 && gf_sides(o) == 1, GLOFND_E_ARGUMENT,
            "batch.negatives_b is given; with pairing views all candidates are negatives_a");
    FAIL_IF(
        err, i == 0 && gf_anchored(o) < gf_sides(o), GLOFND_E_ARGUMENT,
        "batch.negatives_a is given; with directions forward the rows of b are no anchors, and all candidates are negatives_b");
    const int fnc_scores = o->detector == GLOFND_DETECT_FNC && o->fnc_rule != GLOFND_FNC_QUANTILE;
    const char *with = o->compat == GLOFND_COMPAT_OFFICIAL       ? "compat official"
                       : o->similarity == GLOFND_SIMILARITY_BANK ? "similarity bank"
                       : fnc_scores                              ? "fnc_rule topk and threshold"
                                                                 : NULL;
    FAIL_IF(err, with, GLOFND_E_UNSUPPORTED, "candidates (batch.negatives_a, negatives_b) do not go with %s", with);
    return GLOFND_OK;
}

/* Several positives of a sample. */
static glofnd_status check_positives(gf_error *err, const glofnd_options *o) {
    const int fnc_scores = o->detector == GLOFND_DETECT_FNC && o->fnc_rule != GLOFND_FNC_QUANTILE;
    const char *with = o->compat == GLOFND_COMPAT_OFFICIAL       ? "compat official"
                       : o->similarity == GLOFND_SIMILARITY_BANK ? "similarity bank"
                       : fnc_scores                              ? "fnc_rule topk and threshold"
                                                                 : NULL;
    FAIL_IF(err, with, GLOFND_E_UNSUPPORTED, "several positives (batch.positives) do not go with %s", with);
    return GLOFND_OK;
}

/* FIXED: the guide. */
static glofnd_status check_guide(gf_error *err, const gf_step_batch *q) {
    FAIL_IF(err, !q->guide || !q->guide_threshold, GLOFND_E_ARGUMENT,
            "batch.%s is NULL; the detector fixed needs embeddings and thresholds of a guide",
            q->guide ? "guide_threshold" : "guide");
    FAIL_IF(err, q->guide_dim < 1 || q->guide_dim > DIM_MAX, GLOFND_E_ARGUMENT, "batch.guide_dim is %lld; it must be in 1..%lld",
            (long long)q->guide_dim, (long long)DIM_MAX);
    TRY(gf_rows_check(err, "batch.guide", q->guide, GLOFND_F32, q->guide_dim, q->guide_dim));
    return gf_rows_check(err, "batch.guide_threshold", q->guide_threshold, GLOFND_F32, 1, 1);
}

/* The contents that glofnd_ctx_state() gives the steps of a context. */
static gf_store_spec lent_spec(const glofnd_ctx *c) {
    return (gf_store_spec){.n = c->state_n, .modalities = gf_sides(&c->o), .temperatures = gf_loss_individual(&c->o)};
}

/* Everything that a call refuses without looking at embeddings or ids. *known: the batch; on the CPU the temperature of
 * glofnd_ctx_tau() is read now. */
static glofnd_status check(glofnd_ctx *ctx, unsigned needs, const arguments *given, gf_step_batch *known) {
    gf_error *err = &ctx->err;
    const glofnd_options *o = &ctx->o;
    if (given->stats) TRY(gf_struct_check(err, "stats", "glofnd_stats", given->stats, sizeof *given->stats, GF_STRUCT_OUT));
    TRY(gf_batch_take(err, given->batch, given->own, known));
    const gf_step_batch *q = known;
    if (ctx->tau_at) {
        FAIL_IF(err, gf_loss_individual(o), GLOFND_E_UNSUPPORTED,
                "isogclr has a temperature per anchor; glofnd_ctx_tau is for the other losses");
        known->tau = ctx->device ? 0.0 : (double)*ctx->tau_at;
        FAIL_IF(err, !ctx->device && !(known->tau >= 1e-3 && known->tau <= 100.0), GLOFND_E_OPTION,
                "the temperature of glofnd_ctx_tau is %g; it must be in [0.001, 100]", known->tau);
    }
    if (ctx->bias_at && o->loss == GLOFND_LOSS_SIGMOID && !ctx->device) {
        known->bias = (double)*ctx->bias_at;
        FAIL_IF(err, !(fabs(known->bias) <= BIAS_MAX), GLOFND_E_OPTION,
                "the bias of glofnd_ctx_bias is %g; it must be in [-1000, 1000]", known->bias);
    }
    FAIL_IF(err, !q->a || !q->b, GLOFND_E_ARGUMENT, "batch.%s is NULL; both views (or image and text) are needed",
            q->a ? "b" : "a");
    TRY(gf_dtype_check(err, "batch.dtype", q->dtype));
    TRY(gf_dtype_check(err, "batch.grad_dtype", q->grad_dtype));
    FAIL_IF(err, q->grad_dtype != GLOFND_F32 && q->grad_dtype != q->dtype, GLOFND_E_ARGUMENT,
            "batch.grad_dtype is %d; it must be 0 (float32) or that of the embeddings, %d", (int)q->grad_dtype, (int)q->dtype);
    TRY(gf_rows_check(err, "batch.a", q->a, q->dtype, q->a_stride, q->dim));
    TRY(gf_rows_check(err, "batch.b", q->b, q->dtype, q->b_stride, q->dim));
    TRY(gf_rows_check(err, "extra.support_a", q->support_a, q->dtype, q->dim, q->dim));
    TRY(gf_rows_check(err, "extra.support_b", q->support_b, q->dtype, q->dim, q->dim));
    for (int i = 0; i < 2; i++) {
        const gf_candidates *x = &q->candidates[i];
        if (x->n != 0 || x->rows || x->id || x->grad) TRY(check_candidates(err, o, q, i));
    }
    if (q->positives) TRY(check_positives(err, o));
    FAIL_IF(err, !q->id, GLOFND_E_ARGUMENT, "batch.id is NULL; every sample needs its anchor id");
    FAIL_IF(err, o->detector == GLOFND_DETECT_ORACLE && !q->label, GLOFND_E_ARGUMENT,
            "batch.label is NULL; the detector oracle needs labels");
    FAIL_IF(err, (o->detector == GLOFND_DETECT_GROUPS || o->detector == GLOFND_DETECT_COMPONENTS) && !q->group, GLOFND_E_ARGUMENT,
            "batch.group is NULL; the detector %s needs it", o->detector == GLOFND_DETECT_GROUPS ? "groups" : "components");
    if (gf_flags_by_guide(o)) TRY(check_guide(err, q));
    FAIL_IF(err, q->want & GLOFND_WANT_QUALITY && !q->label, GLOFND_E_ARGUMENT,
            "batch.label is NULL; precision and recall need labels");
    FAIL_IF(err, q->want & ~(uint32_t)(GLOFND_WANT_QUALITY | GLOFND_WANT_QUANTILE | GLOFND_WANT_NO_UPDATE), GLOFND_E_ARGUMENT,
            "batch.want is %#x; it has bits this version does not know", (unsigned)q->want);
    FAIL_IF(err, q->support_b && !q->support_a, GLOFND_E_ARGUMENT, "extra.support_b is given without support_a");
    FAIL_IF(err, q->support_a && !q->support_b && gf_sides(o) == 2, GLOFND_E_ARGUMENT,
            "extra.support_b is NULL; image-text needs the support of both sides");
    known->adam = given->store && given->store->adam;
    const gf_plan plan = gf_plan_of(o, q);
    if (needs & NEEDS_LINKS) { /* several ranks; BANK: the batch brings the averages */
        FAIL_IF(err, !given->links, GLOFND_E_ARGUMENT, "links is NULL; it needs GLOFND_LINK_BYTES per sample");
        FAIL_IF(err, (uintptr_t)given->links % sizeof(float) != 0, GLOFND_E_ARGUMENT, "links is not aligned to %zu bytes",
                sizeof(float));
        FAIL_IF(err, plan.bank && o->neighbours > 0 && q->rows < q->cols && q->slot, GLOFND_E_ARGUMENT,
                "neighbours: they are searched among the averages of all samples, so a rank's store must hold them all, each at "
                "its id; "
                "own.slot must be NULL");
        FAIL_IF(err, plan.bank && (!q->bank_a || (!q->bank_b && plan.sides == 2)), GLOFND_E_ARGUMENT,
                "extra.bank_%s is NULL; similarity bank needs the averages of all samples: glofnd_bank_get, gathered over ranks",
                q->bank_a ? "b" : "a");
    }
    if (needs & NEEDS_GRADIENTS) {
        FAIL_IF(err, !given->grad_a || !given->grad_b, GLOFND_E_ARGUMENT, "grad_a and grad_b must not be NULL");
        TRY(gf_rows_check(err, "grad_a", given->grad_a, q->grad_dtype, q->grad_a_stride, q->dim));
        TRY(gf_rows_check(err, "grad_b", given->grad_b, q->grad_dtype, q->grad_b_stride, q->dim));
    }
    if (!(needs & NEEDS_STORE)) return GLOFND_OK;
    /* The store, or the rows in its place, fits the options and the batch. */
    const glofnd_store *s = given->store;
    const int sides = plan.sides;
    const int ring = o->learner == GLOFND_LEARN_RING && gf_learns_thresholds(o);
    FAIL_IF(err, !s && !ctx->state_at, GLOFND_E_ARGUMENT, "store is NULL");
    FAIL_IF(err, s && s->spec.keyed && q->slot, GLOFND_E_ARGUMENT,
            "own.slot: the rows of a store of keys belong to keys; leave it NULL, batch.id finds them");
    FAIL_IF(err, s && s->spec.keyed && plan.bank && o->neighbours > 0, GLOFND_E_UNSUPPORTED,
            "neighbours: they are searched by position, and a store of keys has none; make one of positions (spec.keyed = 0)");
    FAIL_IF(err, s && ctx->state_at, GLOFND_E_ARGUMENT, "store must be NULL: glofnd_ctx_state gave steps the rows of the caller");
    FAIL_IF(err, s && s->device != ctx->device, GLOFND_E_ARGUMENT, "the store was made for %s, this context is for %s",
            s->device ? s->device->name : "cpu", ctx->device ? ctx->device->name : "cpu");
    FAIL_IF(err, !s && (ring || plan.bank), GLOFND_E_UNSUPPORTED,
            "%s keeps embeddings, which rows of glofnd_ctx_state do not hold", ring ? "the learner ring" : "similarity bank");
    const gf_store_spec spec = s ? s->spec : lent_spec(ctx);
    FAIL_IF(err, spec.modalities != sides, GLOFND_E_ARGUMENT, "this loss needs a store of %d modalit%s, this one has %d", sides,
            sides == 1 ? "y" : "ies", spec.modalities);
    FAIL_IF(err, gf_loss_individual(o) && !spec.temperatures, GLOFND_E_ARGUMENT,
            "this loss needs a store with individual temperatures: create it with loss = isogclr");
    FAIL_IF(err, plan.bank && spec.bank_dim != q->dim, GLOFND_E_ARGUMENT,
            "similarity bank needs a store with averages of %lld numbers: create it with that option; this one has %lld",
            (long long)q->dim, (long long)spec.bank_dim);
    const int shares =
        plan.pooled ||
        (o->alpha > 0.0 && (o->detector == GLOFND_DETECT_SINGLE || (gf_learns_thresholds(o) && o->lambda_warmup > 0)));
    const int first_u = o->compat == GLOFND_COMPAT_OFFICIAL && o->loss == GLOFND_LOSS_SOGCLR && sides == 1;
    FAIL_IF(err, (shares || first_u) && q->rows < q->cols && !ctx->reduce, GLOFND_E_ARGUMENT,
            "several ranks share %s: give glofnd_ctx_reduce a sum over ranks%s", shares ? "one lambda" : "the start of u",
            plan.pooled && o->learner == GLOFND_LEARN_AUTO ? ", or set learner to adam" : "");
    FAIL_IF(err, plan.mutual && !plan.fixed && q->rows < q->cols && !ctx->reduce, GLOFND_E_ARGUMENT,
            "detector mutual: several ranks exchange thresholds: give glofnd_ctx_reduce a sum over ranks");
    FAIL_IF(err, !ctx->device && plan.neighbours && o->neighbour_share < 1.0 && q->rows < q->cols && !ctx->reduce,
            GLOFND_E_ARGUMENT,
            "neighbour_share: several ranks choose the anchors together: give glofnd_ctx_reduce a sum over ranks");
    FAIL_IF(err, ring && (spec.ring_rows != o->ring_rows || spec.ring_dim != q->dim), GLOFND_E_ARGUMENT,
            "the learner ring needs a store with a ring of %lld rows of dimension %lld; this one has %lld of %lld",
            (long long)o->ring_rows, (long long)q->dim, (long long)spec.ring_rows, (long long)spec.ring_dim);
    return GLOFND_OK;
}

/* ----- begin: the plan, and the embeddings of the batch ----- */

gf_plan gf_plan_of(const glofnd_options *o, const gf_step_batch *q) {
    const int on = o->alpha > 0.0;
    const int sigmoid = o->loss == GLOFND_LOSS_SIGMOID;
    gf_plan p = {.o = *o, .rows = q->rows, .cols = q->cols, .dim = q->dim, .epoch = q->epoch, .want = q->want};
    if (o->action == GLOFND_ACTION_ATTRACT) p.o.omega = o->attract_omega + (sigmoid ? 1.0 : 0.0);
    p.sides = gf_sides(o);
    p.per_sample = 2 / p.sides;
    p.anchored = gf_anchored(o);
    p.own = q->rows * p.per_sample, p.all = q->cols * p.per_sample;
    for (int i = 0; i < p.sides; i++) {
        p.candidates[i] = q->candidates[i].n;
        p.negatives[i] = (q->cols - 1) * p.per_sample + q->candidates[p.sides - 1 - i].n;
        p.keyed |= o->repeats || q->candidates[i].id != NULL || q->positives != NULL;
    }
    p.several = q->positives != NULL;
    p.tau = q->tau > 0.0 ? q->tau : o->tau;
    p.gamma = q->gamma > 0.0 ? q->gamma : o->gamma;
    p.bias = isnan(q->bias) ? o->bias : q->bias;
    p.log_gamma = log(p.gamma), p.log_rest = log1p(-p.gamma), p.log_batch = log((double)q->cols);
    p.official = o->compat == GLOFND_COMPAT_OFFICIAL;
    p.one_rank = q->rows == q->cols;
    p.authors_ranks =
        p.official && !p.one_rank && p.sides == 2 && (o->loss == GLOFND_LOSS_SOGCLR || o->loss == GLOFND_LOSS_FASTCLIP);
    /* who flags, and since when */
    p.learned = on && gf_learns_thresholds(o);
    p.fixed = gf_flags_by_guide(o);
    p.mutual = (on && o->detector == GLOFND_DETECT_MUTUAL) || o->detector == GLOFND_DETECT_FIXED_MUTUAL;
    p.positive = gf_flags_by_positive(o);
    p.thresholds = p.learned || p.positive || (on && o->detector == GLOFND_DETECT_FNC);
    p.topk = on && o->detector == GLOFND_DETECT_FNC && o->fnc_rule != GLOFND_FNC_QUANTILE;
    p.groups = o->detector == GLOFND_DETECT_ORACLE || q->group != NULL;
    p.updating = q->epoch >= o->update_epoch;
    p.masking = (p.thresholds || p.fixed || p.groups) && q->epoch >= o->mask_epoch;
    p.rescues = p.masking && !p.official && !sigmoid; /* a sigmoid row has no denominator that could be empty */
    p.shared = p.learned && (o->detector == GLOFND_DETECT_SINGLE ||
                             ((p.official || p.updating) && q->epoch < o->update_epoch + o->lambda_warmup));
    p.bank = o->similarity == GLOFND_SIMILARITY_BANK && (gf_learns_thresholds(o) || o->detector == GLOFND_DETECT_FNC);
    p.copies = p.bank ? p.per_sample : 1;
    p.marked = (p.bank && p.thresholds) || p.mutual || p.fixed;
    p.neighbours = p.bank && o->neighbours > 0 && q->epoch >= o->mask_epoch;
    p.o.learner = o->learner == GLOFND_LEARN_AUTO && q->adam ? GLOFND_LEARN_ADAM : gf_learner_rule(o);
    p.learner = gf_learner_of(&p.o, p.sides == 2, q->epoch);
    p.pooled = p.learned && p.learner.shrinks;
    /* what the passes have to do for it */
    if (p.thresholds || p.fixed || p.groups) p.flags |= GF_COUNT;
    if (p.masking) p.flags |= GF_MASK;
    if (p.marked) p.flags |= GF_MARKS; /* groups are among the marks */
    else if (p.groups) p.flags |= GF_GROUP;
    if (p.topk) p.flags |= GF_TIE;
    if (p.masking && o->action == GLOFND_ACTION_ATTRACT) p.flags |= GF_ATTRACT;
    if (p.masking && o->action != GLOFND_ACTION_DROP && p.o.omega > 0.0) p.flags |= GF_WEIGHT;
    /* The mean of S under the weights of the pairs: for the gradient of a temperature, and the authors' surrogate loss. */
    if (o->loss == GLOFND_LOSS_SIMCLR ? p.sides == 2 : o->loss != GLOFND_LOSS_SOGCLR || p.official) p.flags |= GF_MOMENT;
    /* exp(1/tau) and its inverse must fit a float, squared. */
    if (gf_loss_individual(o) || p.tau <= 0.025) p.flags |= GF_SHIFT;
    if (sigmoid) p.flags = (p.flags & ~(unsigned)GF_SHIFT) | GF_SIGMOID;
    return p;
}

uint64_t gf_plan_phase(const gf_plan *p) {
    const glofnd_anchor seen = {.clock = 1}; /* if it starts nevertheless, the epoch is the reason */
    const double numbers[] = {p->tau,
                              p->gamma,
                              p->bias,
                              (double)p->learner.epoch_clock,
                              p->shared,
                              p->masking,
                              p->updating,
                              p->groups,
                              gf_row_starts(p, &seen),
                              p->want,
                              p->neighbours,
                              p->neighbours && p->o.neighbour_rows > 0 ? p->epoch : -1,
                              (double)p->candidates[0],
                              (double)p->candidates[1],
                              p->keyed,
                              p->several};
    uint64_t hash = 0xcbf29ce484222325u, bits;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        memcpy(&bits, &numbers[i], sizeof bits);
        hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

/* Rows of the caller become unit rows first, first + per_sample .. of e; the first bad one is named. */
static glofnd_status embed_rows(gf_step *step, const char *name, const void *rows, int64_t stride, const gf_embed *e,
                                int64_t first, int normalize, float *norm) {
    const gf_step_batch *q = step->batch;
    const gf_source h = {rows, stride, q->dtype};
    const int64_t r = step->ops->embed(e, &h, q->cols, first, step->plan.per_sample, normalize, norm, step->ctx->threads);
    if (r < 0) return GLOFND_OK;
    double square = 0.0;
    for (int64_t i = 0; i < q->dim; i++) {
        const double x = (double)gf_dtype_at(h.dtype, gf_source_row(&h, r), i);
        FAIL_IF(&step->ctx->err, !isfinite(x), GLOFND_E_NUMERIC, "batch.%s: row %lld (anchor %lld) holds %g at position %lld",
                name, (long long)r, (long long)q->id[r], x, (long long)i);
        square += x * x;
    }
    GF_FAIL(&step->ctx->err, GLOFND_E_ARGUMENT,
            "batch.%s: row %lld (anchor %lld) has length %g; pass unit rows or set normalize = 1", name, (long long)r,
            (long long)q->id[r], sqrt(square));
}

/* The candidates of a side become unit rows; the first bad one is named. */
static glofnd_status embed_candidates(gf_step *step, int i) {
    const gf_step_batch *q = step->batch;
    const gf_candidates *x = &q->candidates[i];
    const gf_embed *e = &step->ws->side[i].extra;
    const gf_source h = {x->rows, x->stride, q->dtype};
    const int64_t r =
        step->ops->embed(e, &h, x->n, 0, 1, step->plan.o.normalize, step->ws->side[i].extra_norm, step->ctx->threads);
    FAIL_IF(&step->ctx->err, r >= 0, GLOFND_E_NUMERIC,
            "batch.negatives_%c: row %lld holds numbers that are not finite, or is not a unit row without normalize", "ab"[i],
            (long long)r);
    step->ops->pack(e, step->ctx->threads);
    memset(step->ws->side[i].extra_none, -1, sizeof(int32_t) * (size_t)x->n);
    return GLOFND_OK;
}

/* FIXED: the guide's unit rows and thresholds, of every row those of its sample. */
static glofnd_status embed_guide(gf_step *step) {
    const gf_step_batch *q = step->batch;
    const gf_source h = {q->guide, q->guide_dim, GLOFND_F32};
    const int per_sample = step->plan.per_sample;
    for (int v = 0; v < per_sample; v++) {
        const int64_t r = step->ops->embed(&step->ws->guide, &h, q->cols, v, per_sample, 1, NULL, step->ctx->threads);
        FAIL_IF(&step->ctx->err, r >= 0, GLOFND_E_NUMERIC, "batch.guide: row %lld holds numbers that are not finite",
                (long long)r);
    }
    step->ops->pack(&step->ws->guide, step->ctx->threads);
    for (int64_t r = 0; r < step->plan.all; r++)
        step->ws->guide_theta[r] = gf_guide_threshold(q->guide_threshold[r / per_sample]);
    return GLOFND_OK;
}

/* FNC: the copies of a sample's support vectors, always normalised. The mean of unit vectors gives the mean of similarities. */
static glofnd_status embed_support(gf_step *step) {
    const gf_step_batch *q = step->batch;
    const int last = step->plan.sides - 1;
    const int64_t copies = step->ws->shape.support, all = step->plan.all;
    const size_t bytes = (size_t)(q->cols * q->dim) * gf_dtype_bytes(q->dtype);
    const char *rows[2] = {q->support_a, last ? q->support_b : q->support_a};
    gf_side *side = step->ws->side;
    for (int64_t n = 0; n < copies; n++) {
        gf_embed a = side[0].support, b = side[last].support;
        a.rows = b.rows = all;
        a.row += n * all * a.ld, b.row += n * all * b.ld;
        TRY(embed_rows(step, "support_a", rows[0] + (size_t)n * bytes, q->dim, &a, 0, 1, NULL));
        TRY(embed_rows(step, last ? "support_b" : "support_a", rows[1] + (size_t)n * bytes, q->dim, &b, 1 - last, 1, NULL));
    }
    for (int i = 0; i <= last && copies > 1; i++) {
        const gf_embed *e = &side[i].support;
        const int64_t numbers = all * e->ld;
        for (int64_t x = 0; x < numbers; x++) {
            double sum = 0.0;
            for (int64_t n = 0; n < copies; n++) sum += (double)e->row[n * numbers + x];
            e->row[x] = (float)(sum / (double)copies);
        }
    }
    return GLOFND_OK;
}

/* Place of an id in the table of keys: where it is, or would be. Open addressing at half load. */
static int64_t key_place(const gf_step *step, int64_t id) {
    const uint64_t places = 2 * (uint64_t)step->batch->cols;
    const int32_t *table = step->ws->key_table;
    uint64_t h = (uint64_t)id * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    uint64_t at = h % places;
    while (table[at] != 0 && step->batch->id[table[at] - 1] != id) at = at + 1 == places ? 0 : at + 1;
    return (int64_t)at;
}

/* The first sample of the batch with the id of sample j. */
static int32_t first_of_id(const gf_step *step, int64_t j) {
    return step->ws->key_table[key_place(step, step->batch->id[j])] - 1;
}

/* Pairs of one key are no negatives: samples of one anchor, and positives of each other. */
static int32_t key_of_sample(const gf_step *step, int64_t j) {
    const int32_t first = step->plan.several ? step->ws->first_positive[j] : -1;
    return first >= 0 ? first : first_of_id(step, j);
}

/* Keys of rows and candidates. Only anchors that occur more than once, or have several positives, have one: all others cost
 * nothing in the passes. */
static glofnd_status make_keys(gf_step *step) {
    const gf_step_batch *q = step->batch;
    const gf_plan *p = &step->plan;
    gf_workspace *ws = step->ws;
    const size_t cols = (size_t)q->cols;
    if (p->several) gf_positives_find(step); /* in the memory of the table */
    memset(ws->key_table, 0, sizeof *ws->key_table * 2 * cols);
    memset(ws->key_count, 0, sizeof *ws->key_count * 3 * cols);
    for (int64_t r = 0; r < p->all; r++) ws->key[r] = -1;
    for (int64_t j = 0; j < q->cols; j++) {
        int32_t *entry = &ws->key_table[key_place(step, q->id[j])];
        if (*entry == 0) *entry = (int32_t)j + 1;
        FAIL_IF(&step->ctx->err, p->several && ws->first_positive[j] != ws->first_positive[*entry - 1], GLOFND_E_ARGUMENT,
                "batch.positives[%lld] is %d and [%lld] is %d, but both samples have the id %lld", (long long)(*entry - 1),
                q->positives[*entry - 1], (long long)j, q->positives[j], (long long)q->id[j]);
        ws->key_count[3 * key_of_sample(step, j)]++;
    }
    for (int i = 0; i < p->sides; i++)
        for (int64_t c = 0; c < p->candidates[i]; c++) {
            const int64_t *id = q->candidates[i].id; /* negative: unknown, and no sample's, unless the store has keys */
            const int32_t sample = id ? ws->key_table[key_place(step, id[c])] - 1 : -1;
            const int32_t first = sample < 0 ? -1 : key_of_sample(step, sample);
            ws->side[i].extra_key[c] = first;
            if (first >= 0) ws->key_count[3 * first + 1 + i]++;
        }
    for (int64_t j = 0; j < q->cols; j++) {
        const int32_t first = key_of_sample(step, j), *count = &ws->key_count[3 * first];
        const int own = j >= q->row0 && j < q->row0 + q->rows;
        for (int v = 0; v < p->per_sample && count[0] + count[1] + count[2] > 1; v++) ws->key[j * p->per_sample + v] = first;
        for (int i = 0; i < p->sides && own; i++) {
            const int32_t n = (count[0] - 1) * p->per_sample + count[1 + p->sides - 1 - i];
            FAIL_IF(&step->ctx->err, n >= p->negatives[i], GLOFND_E_INDEX,
                    "batch.id[%lld] is %lld, and all other samples and candidates have that id or are its positives: it has no "
                    "negative",
                    (long long)j, (long long)q->id[j]);
            for (int v = 0; v < p->per_sample; v++) ws->side[i].unpaired[(j - q->row0) * p->per_sample + v] = n;
        }
    }
    return GLOFND_OK;
}

/* Lists of the own samples of every anchor, since its state moves once, by all of them. */
static void make_copies(gf_step *step) {
    const gf_step_batch *q = step->batch;
    gf_workspace *ws = step->ws;
    for (int64_t r = 0; r < q->cols; r++) ws->last_copy[r] = -1;
    for (int64_t a = 0; a < q->rows; a++) {
        const int64_t j = q->row0 + a, first = first_of_id(step, j);
        const int32_t before = ws->last_copy[first];
        ws->copy[a] = before < 0 ? (int32_t)a : ws->copy[before], ws->next_copy[a] = -1;
        if (before >= 0) ws->next_copy[before] = (int32_t)a;
        ws->last_copy[first] = (int32_t)a;
    }
}

/* Anchors that may have samples on several ranks, and lists of these samples: all that occur twice, since a rank does not know where the
 * parts of the others begin. Without a sum over ranks they must lie on one; where ranks have equal parts, all of them see it. */
static glofnd_status find_apart(gf_step *step) {
    const gf_step_batch *q = step->batch;
    gf_workspace *ws = step->ws;
    const int parts = q->cols % q->rows == 0 && q->row0 % q->rows == 0;
    int32_t *last = ws->last_copy; /* by key */
    if (step->plan.one_rank) return GLOFND_OK;
    for (int64_t j = 0; j < q->cols; j++) ws->apart[j] = -1, ws->next_apart[j] = -1, last[j] = (int32_t)j;
    for (int64_t j = 0; j < q->cols; j++) {
        const int64_t first = first_of_id(step, j), end = q->row0 + q->rows;
        if (first == j) continue;
        const int here = j >= q->row0 && j < end, there = first >= q->row0 && first < end;
        FAIL_IF(&step->ctx->err, !step->ctx->reduce && (here != there || (parts && j / q->rows != first / q->rows)),
                GLOFND_E_INDEX,
                "batch.id[%lld] and batch.id[%lld] are both %lld, on different ranks: give glofnd_ctx_reduce a sum over ranks, "
                "or keep copies of a sample on one rank",
                (long long)first, (long long)j, (long long)q->id[j]);
        ws->next_apart[last[first]] = (int32_t)j, last[first] = (int32_t)j;
        if (step->ctx->reduce) ws->apart[first] = 0;
    }
    for (int64_t j = 0; j < q->cols; j++)
        if (ws->apart[first_of_id(step, j)] >= 0) ws->apart[j] = (int32_t)step->apart++;
    return GLOFND_OK;
}

glofnd_status gf_step_begin(gf_step *step, glofnd_ctx *ctx, const gf_step_batch *q) {
    const gf_workspace *ws = ctx->ws; /* most times it is laid out for such a batch already */
    const int several = q->positives != NULL, keyed = ctx->o.repeats || q->candidates[0].id || q->candidates[1].id || several;
    if (!ws || ws->configuration != ctx->configuration || ws->shape.rows != q->rows || ws->shape.cols != q->cols ||
        ws->shape.dim != q->dim || ws->shape.candidates[0] != q->candidates[0].n ||
        ws->shape.candidates[1] != q->candidates[1].n || ws->shape.keyed != keyed || ws->shape.several != several ||
        (ws->shape.guide_dim > 0 && ws->shape.guide_dim != q->guide_dim)) {
        const gf_shape shape = gf_shape_of_batch(ctx, q);
        TRY(gf_workspace_lay_out(ctx, &shape, 0));
        ctx->ws->configuration = ctx->configuration;
    }
    *step = (gf_step){.ctx = ctx, .batch = q, .plan = gf_plan_of(&ctx->o, q), .ops = &cpu_ops, .ws = ctx->ws};
    const gf_plan *p = &step->plan;
    const int last = p->sides - 1, per_sample = p->per_sample;
    gf_side *side = step->ws->side;
    TRY(embed_rows(step, "a", q->a, q->a_stride, &side[0].z, 0, p->o.normalize, side[0].norm));
    TRY(embed_rows(step, "b", q->b, q->b_stride, &side[last].z, 1 - last, p->o.normalize, side[last].norm));
    for (int i = 0; i < p->sides; i++) step->ops->pack(&side[i].z, ctx->threads);
    for (int i = 0; i < p->sides; i++)
        if (p->candidates[i] > 0) TRY(embed_candidates(step, i));
    if (p->keyed) TRY(make_keys(step));
    for (int64_t j = 0; j < q->rows; j++) step->ws->copy[j] = (int32_t)j, step->ws->next_copy[j] = -1;
    if (p->o.repeats) {
        make_copies(step);
        TRY(find_apart(step));
    }
    if (p->topk && q->support_a) TRY(embed_support(step));
    if (p->fixed) TRY(embed_guide(step));
    /* Labels and groups per row; -1 where there is none. */
    const int32_t *group = p->o.detector == GLOFND_DETECT_ORACLE ? q->label : q->group;
    for (int i = 0; i < p->sides; i++) {
        for (int64_t r = 0; r < p->all; r++) {
            side[i].weights.group[r] = group ? group[r / per_sample] : -1;
            side[i].weights.label[r] = q->label ? q->label[r / per_sample] : -1;
        }
        side[i].limits.group = side[i].weights.group + q->row0 * per_sample;
        side[i].judged = p->bank ? &side[i].bank : &side[i].z;
    }
    /* The diagonal of S: similarity of each own row to its positive, in double. */
    for (int64_t i = 0; i < q->rows; i++) {
        const float *x = side[0].z.row + (q->row0 + i) * per_sample * side[0].z.ld;
        const float *y = side[last].z.row + ((q->row0 + i) * per_sample + per_sample - 1) * side[last].z.ld;
        double s = 0.0;
        for (int64_t j = 0; j < q->dim; j++) s += (double)x[j] * (double)y[j];
        side[0].positive[i * per_sample] = s;
        side[last].positive[i * per_sample + per_sample - 1] = s;
    }
    return GLOFND_OK;
}

/* ----- state of the own anchors ----- */

/* Ids that occur several times: each must be in the store, or have one slot that is no other's. */
static glofnd_status check_repeated_ids(gf_step *step) {
    const gf_step_batch *q = step->batch;
    gf_error *err = &step->ctx->err;
    int64_t *scratch = step->ws->id_scratch, *slots = scratch + 2 * q->cols, n = 0;
    if (step->store->spec.keyed) return GLOFND_OK;
    if (!q->slot) return gf_store_check_ids(err, step->store, "batch.id", q->id, q->cols, 0, scratch);
    for (int64_t j = 0; j < q->cols; j++)
        FAIL_IF(err, q->id[j] < 0, GLOFND_E_INDEX, "batch.id[%lld] is %lld; ids must not be negative", (long long)j,
                (long long)q->id[j]);
    for (int64_t a = 0; a < q->rows; a++) {
        const int64_t first = step->ws->copy[a];
        FAIL_IF(err, q->slot[first] != q->slot[a], GLOFND_E_INDEX,
                "own.slot[%lld] is %lld and own.slot[%lld] is %lld, but both samples have the id %lld", (long long)first,
                (long long)q->slot[first], (long long)a, (long long)q->slot[a], (long long)q->id[q->row0 + a]);
        if (first == a) slots[n++] = q->slot[a];
    }
    return gf_store_check_ids(err, step->store, "own.slot", slots, n, 1, scratch);
}

static glofnd_status open_state(gf_step *step, glofnd_store *store) {
    glofnd_ctx *ctx = step->ctx;
    const gf_step_batch *q = step->batch;
    const gf_plan *p = &step->plan;
    int64_t *scratch = step->ws->id_scratch;
    step->store = store;
    step->keys = store ? store->used : 0;
    step->slot = q->slot ? q->slot : q->id + q->row0;
    step->ws->near.key = 0; /* neighbours of an earlier batch */
    if (ctx->state_at) {
        const gf_store_spec lent = lent_spec(ctx);
        step->lent = gf_store_lend(&lent, ctx->state_at), step->store = &step->lent;
    }
    if (p->o.repeats) TRY(check_repeated_ids(step));
    if (step->store->spec.keyed) {
        if (!p->o.repeats) TRY(gf_store_check_distinct(&ctx->err, "batch.id", q->id, q->cols, scratch));
        TRY(gf_store_rows(&ctx->err, store, step->slot, q->rows, !(q->want & GLOFND_WANT_NO_UPDATE), step->ws->key_row));
        step->slot = step->ws->key_row;
    } else if (p->o.repeats) { /* checked */
    } else if (!q->slot) {
        TRY(gf_store_check_ids(&ctx->err, step->store, "batch.id", q->id, q->cols, 1, scratch));
    } else {
        TRY(gf_store_check_names(&ctx->err, "batch.id", q->id, q->cols, scratch));
        TRY(gf_store_check_ids(&ctx->err, step->store, "own.slot", q->slot, q->rows, 1, scratch));
    }
    if (ctx->state_at) TRY(gf_store_check_lent(&ctx->err, step->store, step->slot, q->rows));
    if (step->store->fd >= 0 && !(q->want & GLOFND_WANT_NO_UPDATE)) /* disk space in a working file */
        TRY(gf_store_prepare(&ctx->err, step->store, step->slot, q->rows));
    for (int i = 0; i < p->anchored; i++) {
        gf_side *side = &step->ws->side[i];
        /* While all share one lambda it is not copied to anchors yet. */
        gf_store_gather(step->store, i, step->slot, q->rows, p->learned && !p->shared && !p->pooled, side->state);
        memcpy(side->fresh_state, side->state, sizeof *side->state * (size_t)q->rows);
        step->shared_row[i] = gf_store_shared_get(step->store, i);
    }
    return GLOFND_OK;
}

/* ----- pairs that a pass looks at ----- */

/* The own rows of embeddings: a left side. */
static gf_embed own_rows(const gf_step *step, const gf_embed *e) {
    const int64_t first = step->batch->row0 * step->plan.per_sample;
    gf_embed own = *e;
    own.rows = step->plan.own;
    if (e->row) own.row = e->row + first * e->ld; /* NULL: there is no support */
    if (e->row16) own.row16 = e->row16 + first * e->ld16;
    if (e->pair)
        own.pair = first % 2 ? NULL : e->pair + first / 2 * e->ld; /* a word holds two rows, of which the first is even */
    own.col = NULL, own.col16 = NULL;
    return own;
}

/* Which pairs a pass looks at: rows of a side, and the columns of the other side, which two views share. JUDGED: OWN by the
 * similarities that thresholds are compared with; they only decide, and no tile of them is kept. EXTRA: no sample of the batch is
 * among the columns; flags by marks are then those of the row's threshold alone. */
enum pairs {
    OWN,    /* own rows, all columns */
    JUDGED, /* the same, of averages or the guide where these decide */
    EXTRA,  /* own rows, their candidates */
    ALL     /* all rows, all columns */
};

static gf_pass pairs_of(const gf_step *step, int i, enum pairs which) {
    const gf_plan *p = &step->plan;
    const gf_side *side = &step->ws->side[i], *other = &step->ws->side[p->sides - 1 - i];
    const int64_t first = which == ALL ? 0 : step->batch->row0 * p->per_sample;
    const gf_embed *q = p->fixed ? &step->ws->guide : side->judged, *k = p->fixed ? &step->ws->guide : other->judged;
    gf_pass pairs = {
        .q = which == ALL ? side->z : own_rows(step, which == JUDGED ? q : &side->z),
        .k = which == JUDGED  ? *k
             : which == EXTRA ? other->extra
                              : other->z,
        .q0 = first,
        .shift = which == EXTRA ? -1 : p->per_sample - 1,
        .symmetric = which == ALL && p->sides == 1,
        .flags = which == JUDGED  ? 0
                 : which == EXTRA ? p->flags & ~(unsigned)GF_MARKS
                                  : p->flags,
        .omega = (float)p->o.omega,
        .tile = step->ws->shape.tile,
        .tiles = step->ws->tiles,
        .scratch = step->ws->tile_scratch,
        .threads = step->ctx->threads,
    };
    if (p->topk && step->batch->support_a) pairs.score = which == ALL ? side->support : own_rows(step, &side->support);
    if (p->keyed) pairs.row_key = step->ws->key + first, pairs.col_key = which == EXTRA ? other->extra_key : step->ws->key;
    return pairs;
}

static gf_sum_pass own_sums(const gf_step *step, int i, enum pairs which) {
    const gf_side *side = &step->ws->side[i], *other = &step->ws->side[step->plan.sides - 1 - i];
    return (gf_sum_pass){.pairs = pairs_of(step, i, which),
                         .row = side->limits,
                         .col.group = which == EXTRA ? other->extra_none : other->weights.group,
                         .row_out = side->sums,
                         .window_cap = step->ws->shape.window_cap};
}

/* ----- thresholds before the sums -----
 *
 * limits.lo, mid, hi of every own row: all three are its threshold, unless a learner moves lambda after the sums. */

static gf_select selection(const gf_step *step, int i, const gf_embed *q, const gf_embed *k) {
    const gf_side *side = &step->ws->side[i], *other = &step->ws->side[step->plan.sides - 1 - i];
    const int64_t first = step->batch->row0 * step->plan.per_sample;
    return (gf_select){
        .q = q,
        .k = k,
        .q0 = first,
        .more = step->plan.candidates[step->plan.sides - 1 - i] > 0 ? &other->extra : NULL,
        .row_key = step->plan.keyed ? step->ws->key + first : NULL,
        .col_key = step->ws->key,
        .more_key = other->extra_key,
        .unpaired = side->unpaired,
        .negatives = step->plan.negatives[i],
        .alpha = step->plan.o.alpha,
        .shift = step->plan.per_sample - 1,
        .best = step->ws->shape.best,
        .value = step->ws->side[i].quantile,
        .scratch = step->ws->select_scratch,
        .threads = step->ctx->threads,
        .symmetric = step->plan.one_rank && step->plan.sides == 1,
        .tile = step->ws->shape.tile,
        .tile_scratch = step->ws->tile_scratch,
    };
}

/* quantile[] of side i: the (1-alpha) quantile of each own row's similarities in this batch. `keep`: before the sums, which get
 * the tiles where they are the same. */
static void batch_quantiles(gf_step *step, int i, int keep) {
    const gf_plan *p = &step->plan;
    const gf_embed own = own_rows(step, step->ws->side[i].judged);
    gf_select s = selection(step, i, &own, step->ws->side[step->plan.sides - 1 - i].judged);
    gf_quantile_place(p->negatives[i], p->copies, p->o.alpha, &s.best, &s.fraction);
    if (keep && gf_pool_place(p, i, &s.best, &s.fraction)) s.unpaired = NULL;
    s.lists = step->ws->side[i].lists;
    s.rounded = step->ws->side[i].rounded;
    if (keep && step->reuse && i == 0 && p->one_rank && !p->bank && s.lists.capacity > 0) s.tiles = step->ws->tiles;
    step->tiles_made |= s.tiles != NULL;
    step->ops->select(&s);
}

/* FNC TOPK: the score of the last flagged column, and the last column among those of equal score that is flagged. THRESHOLD is a
 * top k whose last score is the next number above the threshold: all equal to it are flagged. */
static void batch_topk(const gf_step *step, int i) {
    gf_side *side = &step->ws->side[i];
    if (step->plan.o.fnc_rule == GLOFND_FNC_THRESHOLD) {
        for (int64_t r = 0; r < step->plan.own; r++) {
            side->quantile[r] = nextafterf((float)step->plan.o.fnc_threshold, INFINITY);
            side->limits.tie[r] = INT32_MAX;
        }
        return;
    }
    const gf_embed own = own_rows(step, step->batch->support_a ? &side->support : &side->z);
    gf_select s = selection(step, i, &own, &step->ws->side[step->plan.sides - 1 - i].z);
    s.best = gf_top_count(step->plan.negatives[i], step->plan.o.alpha);
    s.tie = side->limits.tie;
    s.lists = side->lists;
    s.symmetric &= !step->batch->support_a;
    step->ops->select(&s);
}

/* quantile[] of side i against the ring of remembered embeddings. */
static void ring_quantiles(const gf_step *step, int i) {
    gf_side *side = &step->ws->side[i];
    const gf_ring *ring = &step->store->ring[step->plan.sides - 1 - i];
    gf_embed *k = &side->ring;
    k->rows = step->store->ring_count;
    for (int64_t r = 0; r < k->rows; r++) {
        memcpy(k->row + r * k->ld, ring->rows + r * k->dim, sizeof(float) * (size_t)k->dim);
        memset(k->row + r * k->ld + k->dim, 0, sizeof(float) * (size_t)(k->ld - k->dim));
    }
    step->ops->pack(k, step->ctx->threads);
    for (int64_t r = 0; r < step->plan.own; r++) side->row_id[r] = step->batch->id[step->batch->row0 + r / step->plan.per_sample];
    const gf_embed own = own_rows(step, step->ws->side[i].judged);
    gf_select s = selection(step, i, &own, k);
    s.shift = -1;
    s.row_id = side->row_id;
    s.col_id = ring->id;
    s.more = NULL, s.row_key = NULL, s.unpaired = NULL;
    step->ops->select(&s);
}

/* sum[0], sum[1] = the sum and number of (S - lambda)^2 over some of the own rows: each with the first row of the sample that comes
 * next in the batch. */
static void pool_squares(const gf_step *step, int i, double lambda, double *sum) {
    const gf_plan *p = &step->plan;
    const gf_embed *q = step->ws->side[i].judged, *k = step->ws->side[p->sides - 1 - i].judged;
    const int64_t first = step->batch->row0 * p->per_sample, spacing = GF_SPREAD_ROWS;
    sum[0] = sum[1] = 0.0;
    for (int64_t r = (first + spacing - 1) / spacing * spacing; r < first + p->own; r += spacing) {
        const float *x = q->row + r * q->ld, *y = k->row + (r / p->per_sample + 1) % p->cols * p->per_sample * k->ld;
        double s = 0.0;
        for (int64_t j = 0; j < p->dim; j++) s += (double)x[j] * (double)y[j];
        sum[0] += gf_pool_square(s, lambda), sum[1] += 1.0;
    }
}

/* SHRINKAGE: the first threshold of the pool, from the quantiles of all rows. */
static glofnd_status start_pool(gf_step *step, int i) {
    const gf_plan *p = &step->plan;
    const float *row = step->ws->side[i].quantile;
    const double each = gf_row_expects(p, i), expected = each * (double)p->all;
    glofnd_anchor *pool = &step->shared_row[i];
    double lo = -1.0, hi = 1.0, sum = 0.0, squares[2];
    batch_quantiles(step, i, 1);
    for (int64_t r = 0; r < p->own; r++) sum += gf_pool_round((double)row[r]);
    TRY(gf_step_sum_ranks(step, &sum, 1));
    pool_squares(step, i, sum / (double)p->all, squares);
    TRY(gf_step_sum_ranks(step, squares, 2));
    pool->m = (float)(squares[0] / squares[1]);
    const double scale = gf_pool_scale(&p->learner, pool);
    for (int k = 0; k < GF_POOL_HALVINGS; k++) {
        double weights = 0.0;
        for (int64_t r = 0; r < p->own; r++) weights += gf_pool_weight((double)row[r], 0.5 * (lo + hi), scale, each);
        TRY(gf_step_sum_ranks(step, &weights, 1));
        gf_pool_halve(&lo, &hi, weights, expected);
    }
    gf_pool_start(&p->learner, pool, 0.5 * (lo + hi), expected);
    return GLOFND_OK;
}

/* ----- anchors with samples on several ranks -----
 *
 * Every rank brings numbers of its own samples and gets those of all, in the order of the batch: so the state that each makes of them has
 * the bits that one rank would give it. */

/* The first sample of own anchor a in the batch that is in `shared`; -1: all its samples are here. */
static int64_t first_shared(const gf_step *step, int64_t a) {
    const gf_workspace *ws = step->ws;
    const int64_t j = step->batch->row0 + a;
    return step->apart == 0 || ws->apart[j] < 0 ? -1 : first_of_id(step, j);
}

static double *shared_of(const gf_step *step, int64_t j) { return step->ws->shared + GF_SHARED * step->ws->apart[j]; }

/* The numbers of own sample a, to be filled; NULL: nobody else needs them. */
static double *own_shared(const gf_step *step, int64_t a) {
    return step->apart > 0 && step->ws->apart[step->batch->row0 + a] >= 0 ? shared_of(step, step->batch->row0 + a) : NULL;
}

static void clear_shared(const gf_step *step) {
    if (step->apart > 0) memset(step->ws->shared, 0, sizeof(double) * (size_t)(GF_SHARED * step->apart));
}

static glofnd_status sum_shared(gf_step *step) {
    enum { PART = 1 << 20 };
    for (int64_t at = 0, n = GF_SHARED * step->apart; at < n; at += PART)
        TRY(gf_step_sum_ranks(step, step->ws->shared + at, (int)GF_MIN(PART, n - at)));
    return GLOFND_OK;
}

/* Quantiles of the rows, before anchor_quantile. All ranks call it, also one whose anchors need none. */
static glofnd_status share_quantiles(gf_step *step, int i) {
    clear_shared(step);
    for (int64_t a = 0; a < step->plan.rows && step->apart > 0; a++) {
        double *x = own_shared(step, a);
        for (int v = 0; x && v < step->plan.per_sample; v++)
            x[v] = (double)step->ws->side[i].quantile[a * step->plan.per_sample + v];
    }
    return sum_shared(step);
}

/* The mean over the rows of all samples of an anchor. */
static double anchor_quantile(const gf_step *step, int i, int64_t anchor) {
    const int per_sample = step->plan.per_sample;
    const int64_t shared = first_shared(step, anchor);
    double sum = 0.0;
    int64_t rows = 0;
    for (int64_t j = shared; j >= 0; j = step->ws->next_apart[j])
        for (int v = 0; v < per_sample; v++, rows++) sum += shared_of(step, j)[v];
    for (int64_t a = shared < 0 ? step->ws->copy[anchor] : -1; a >= 0; a = step->ws->next_copy[a])
        for (int v = 0; v < per_sample; v++, rows++) sum += (double)step->ws->side[i].quantile[a * per_sample + v];
    return sum / (double)rows;
}

static glofnd_status open_thresholds(gf_step *step) {
    const gf_plan *p = &step->plan;
    const int ring_ready = (double)step->store->ring_count >= ceil(1.0 / p->o.alpha);
    for (int i = 0; i < p->anchored; i++) {
        gf_side *side = &step->ws->side[i];
        if (p->learned && !p->pooled) gf_lambda_open(&p->learner, NULL, &step->shared_row[i]);
        side->limits.bias = (float)p->bias;
        for (int64_t r = 0; r < p->own; r++) side->limits.inv_tau[r] = gf_row_inv_tau(p, side->state[r / p->per_sample].tau);
        if (!p->learned) { /* as it is, or as a quantile of the batch or the positive sets it */
            if (p->topk) batch_topk(step, i);
            else if (p->thresholds && !p->positive) batch_quantiles(step, i, 1);
            for (int64_t r = 0; p->positive && r < p->own; r++)
                side->quantile[r] = gf_row_positive_threshold(p, side->positive[r]);
            for (int64_t r = 0; r < p->own; r++)
                side->limits.lo[r] = side->limits.mid[r] = side->limits.hi[r] = p->thresholds ? side->quantile[r] : INFINITY;
            continue;
        }
        /* The windows of learned ones: of every anchor, or of the one lambda for all. */
        gf_window shared = {0};
        if (p->pooled) {
            int starts = 0;
            if (p->updating && gf_pool_starts(&step->shared_row[i])) TRY(start_pool(step, i));
            else {
                for (int64_t a = 0; a < p->rows && !starts; a++) starts = gf_row_starts_itself(p, i, &side->state[a]);
                if (starts) batch_quantiles(step, i, 1);
            }
            if (p->updating && gf_rows_tell(p, i)) TRY(share_quantiles(step, i));
            const float lambda = step->shared_row[i].lambda;
            shared = gf_window_at(lambda, lambda, lambda, 0);
        } else if (p->shared) {
            double sum[2] = {0.0, (double)p->rows};
            if (p->updating && gf_row_starts(p, &step->shared_row[i])) {
                batch_quantiles(step, i, 1);
                TRY(share_quantiles(step, i));
                for (int64_t a = 0; a < p->rows; a++) sum[0] += anchor_quantile(step, i, a);
                TRY(gf_step_sum_ranks(step, sum, 2));
            }
            shared = gf_window_of_shared(p, &step->shared_row[i], sum[0] / sum[1]);
            step->shared_moves[i] = shared.open;
        } else if (p->updating && p->o.learner == GLOFND_LEARN_RING && ring_ready) {
            ring_quantiles(step, i);
            TRY(share_quantiles(step, i));
        } else if (p->updating) {
            int starts = 0;
            for (int64_t a = 0; a < p->rows && !starts; a++) starts = gf_row_starts(p, &side->state[a]);
            if (starts) batch_quantiles(step, i, 1);
            if (p->learner.init_visits) TRY(share_quantiles(step, i));
        }
        for (int64_t a = 0; a < p->rows; a++) {
            gf_window w = shared;
            if (!p->shared) {
                gf_lambda_open(&p->learner, &step->shared_row[i], &side->fresh_state[a]);
                if (gf_row_starts_itself(p, i, &side->state[a]))
                    side->fresh_state[a].lambda = (float)gf_lambda_project(anchor_quantile(step, i, a));
                w = gf_window_of_anchor(p, &side->fresh_state[a], ring_ready, anchor_quantile(step, i, a));
                side->open[a] = (uint8_t)w.open;
            }
            for (int64_t r = a * p->per_sample; r < (a + 1) * p->per_sample; r++)
                side->limits.lo[r] = w.lo, side->limits.mid[r] = w.mid, side->limits.hi[r] = w.hi;
        }
    }
    return GLOFND_OK;
}

/* ----- marks: flags that are decided before the sums ----- */

/* MUTUAL: thresholds of all rows. Those of other ranks come by a sum in which all others are zeros. */
static glofnd_status gather_thresholds(gf_step *step) {
    const gf_plan *p = &step->plan;
    const int64_t first = step->batch->row0 * p->per_sample;
    double *sum = step->ws->theta_sum;
    for (int i = 0; i < p->sides; i++) {
        const gf_side *side = &step->ws->side[i];
        for (int64_t r = 0; r < p->all; r++) sum[r] = 0.0;
        for (int64_t r = 0; r < p->own; r++) sum[first + r] = (double)side->limits.lo[r];
        if (!p->one_rank) TRY(gf_step_sum_ranks(step, sum, (int)p->all));
        for (int64_t r = 0; r < p->all; r++) side->theta[r] = (float)sum[r];
    }
    return GLOFND_OK;
}

/* Similarities of averages or of a guide decide, or thresholds of both ends: similarities are counted in a pass of their own, lambda
 * is updated, and the flagged pairs become bits, [own rows x all columns / 8] bytes, that the sums and the gradient read. */
static glofnd_status mark_pairs(gf_step *step) {
    int again;
    if (step->plan.learned && step->plan.updating) {
        for (int i = 0; i < step->plan.sides; i++) {
            gf_sum_pass pass = own_sums(step, i, JUDGED);
            memset(pass.row_out.above, 0, sizeof *pass.row_out.above * (size_t)step->plan.own);
            step->ops->count(&pass);
            if (step->plan.candidates[step->plan.sides - 1 - i] == 0) continue;
            pass = own_sums(step, i, EXTRA);
            step->ops->count(&pass);
        }
        TRY(step->plan.pooled ? move_pooled(step) : update_lambda(step, &again));
    }
    if (step->plan.mutual && !step->plan.fixed) TRY(gather_thresholds(step));
    const int64_t first = step->batch->row0 * step->plan.per_sample;
    for (int i = 0; i < step->plan.sides; i++) {
        const gf_side *side = &step->ws->side[i], *other = &step->ws->side[step->plan.sides - 1 - i];
        const gf_pass pairs = pairs_of(step, i, JUDGED);
        const float *guide = step->ws->guide_theta;
        const gf_marking m = {.row_theta = step->plan.fixed ? guide + first : side->limits.lo,
                              .col_theta = !step->plan.mutual ? NULL
                                           : step->plan.fixed ? guide
                                                              : other->theta,
                              .mutual = step->plan.mutual,
                              .row_group = side->limits.group,
                              .col_group = other->weights.group,
                              .marks = side->limits.marks,
                              .marks_ld = side->limits.marks_ld};
        step->ops->mark(&pairs, &m);
    }
    return GLOFND_OK;
}

/* ----- sums over the kept ----- */

static void sum_kept(gf_step *step) {
    const gf_plan *p = &step->plan;
    gf_side *side = step->ws->side;
    const int both = p->one_rank && !p->topk && p->anchored == p->sides; /* each similarity once, for both of its anchors */
    const size_t n = (size_t)p->own;
    for (int i = 0; i < p->anchored; i++) {
        const gf_sum_out *x = &side[i].sums;
        memset(x->sum, 0, sizeof *x->sum * n), memset(x->moment, 0, sizeof *x->moment * n);
        memset(x->flagged_s, 0, sizeof *x->flagged_s * n), memset(x->kept, 0, sizeof *x->kept * n);
        memset(x->window_n, 0, sizeof *x->window_n * n), memset(x->window_le, 0, sizeof *x->window_le * n);
        memset(x->above, 0, sizeof *x->above * n);
        for (int64_t r = 0; r < p->own; r++) x->peak[r] = p->flags & GF_SHIFT ? -INFINITY : 0.0f;
    }
    if (both) {
        gf_sum_pass pass = own_sums(step, 0, ALL);
        pass.pairs.col_role = 1;
        pass.col = side[p->sides - 1].limits;
        pass.col_out = side[p->sides - 1].sums;
        if (step->reuse && pass.pairs.tiles) pass.pairs.flags |= step->tiles_made ? GF_REUSE_TILES : GF_KEEP_TILES;
        step->ops->sum(&pass);
    }
    for (int i = 0; i < p->anchored && !both; i++) {
        const gf_sum_pass pass = own_sums(step, i, OWN);
        step->ops->sum(&pass);
    }
    for (int i = 0; i < p->anchored; i++) {
        if (p->candidates[p->sides - 1 - i] == 0) continue;
        const gf_sum_pass pass = own_sums(step, i, EXTRA);
        step->ops->sum(&pass);
    }
}

/* ----- lambda moves ----- */

/* above[0], [1] = negatives of anchor a, over all its own samples, above lambda; and all of them. With groups and marks the passes count
 * those above, else the others: those kept and those listed below mid. */
static void own_above(const gf_step *step, int i, int64_t a, double *above) {
    const gf_plan *p = &step->plan;
    const gf_sum_out *sums = &step->ws->side[i].sums;
    const int counted = p->flags & GF_GROUP || p->marked;
    above[0] = above[1] = 0.0;
    for (int64_t c = a; c >= 0; c = step->ws->next_copy[c])
        for (int64_t r = c * p->per_sample; r < (c + 1) * p->per_sample; r++) {
            const int64_t n = gf_row_negatives(p, i, step->ws->side[i].unpaired, r);
            above[0] += counted ? (double)sums->above[r] : (double)(n - sums->kept[r] - sums->window_le[r]);
            above[1] += (double)n;
        }
}

/* Counts of the samples that others need: all ranks call it before all_above. */
static glofnd_status share_above(gf_step *step, int i) {
    clear_shared(step);
    for (int64_t a = 0; a < step->plan.rows && step->apart > 0; a++) {
        double *x = own_shared(step, a);
        if (x && step->ws->copy[a] == a) own_above(step, i, a, x); /* of all own samples, in the place of the first */
    }
    return sum_shared(step);
}

/* The same over all samples of the anchor, on every rank. own: those of this rank. */
static void all_above(const gf_step *step, int64_t a, const double *own, double *above) {
    const int64_t shared = first_shared(step, a);
    above[0] = shared < 0 ? own[0] : 0.0, above[1] = shared < 0 ? own[1] : 0.0;
    for (int64_t j = shared; j >= 0; j = step->ws->next_apart[j])
        above[0] += shared_of(step, j)[0], above[1] += shared_of(step, j)[1];
}

/* repeats: all copies of an anchor get the new state of the first one. */
static void share_state(const gf_step *step, int i) {
    glofnd_anchor *state = step->ws->side[i].fresh_state;
    for (int64_t a = 0; a < step->plan.rows; a++) state[a] = state[step->ws->copy[a]];
}

/* One learner step of every lambda that is open, by the share of negatives above it; then lo = mid = hi is the new lambda. After
 * sums it decides the lists of the windows. *again: it lies outside of the window of some row, or a list is not whole, so that
 * the sums must be made again. */
static glofnd_status update_lambda(gf_step *step, int *again) {
    const gf_plan *p = &step->plan;
    *again = 0;
    for (int i = 0; i < p->anchored; i++) {
        gf_side *side = &step->ws->side[i];
        const gf_sum_out *sums = &side->sums;
        double all[2] = {0.0, 0.0};
        TRY(share_above(step, i));
        for (int64_t a = 0; a < p->rows; a++) {
            double own[2], above[2];
            if (step->ws->copy[a] != a) continue;
            own_above(step, i, a, own);
            all_above(step, a, own, above);
            all[0] += own[0], all[1] += own[1];
            if (!p->shared && side->open[a]) gf_lambda_update(&p->learner, NULL, &side->fresh_state[a], above[0], above[1]);
        }
        if (p->shared && step->shared_moves[i]) {
            TRY(gf_step_sum_ranks(step, all, 2));
            gf_lambda_update(&p->learner, NULL, &step->shared_row[i], all[0], all[1]);
        }
        if (p->o.repeats) share_state(step, i);
        gf_sum_in *x = &side->limits;
        for (int64_t r = 0; r < p->own; r++) {
            const glofnd_anchor *row = p->shared ? &step->shared_row[i] : &side->fresh_state[r / p->per_sample];
            const float lambda = gf_lambda_threshold(row->lambda);
            *again |= !(lambda >= x->lo[r] && lambda <= x->hi[r] && sums->window_n[r] <= step->ws->shape.window_cap);
            x->lo[r] = x->hi[r] = x->mid[r] = lambda;
        }
    }
    for (int i = 0; i < p->anchored && !*again && !p->marked; i++) {
        const gf_sum_pass pass = own_sums(step, i, OWN);
        step->ops->close(&pass);
    }
    return GLOFND_OK;
}

/* SHRINKAGE: a step of every anchor's lambda and of the pool's. The flags of this step stay. */
static glofnd_status move_pooled(gf_step *step) {
    const gf_plan *p = &step->plan;
    for (int i = 0; i < p->anchored; i++) {
        gf_side *side = &step->ws->side[i];
        glofnd_anchor *pool = &step->shared_row[i];
        double all[4] = {0.0};
        TRY(share_above(step, i));
        for (int64_t a = 0; a < p->rows; a++) {
            double own[2], above[2];
            if (step->ws->copy[a] != a) continue;
            own_above(step, i, a, own);
            all_above(step, a, own, above);
            if (!gf_row_starts_itself(p, i, &side->state[a])) all[0] += own[0], all[1] += own[1];
            if (!p->shared) gf_lambda_update(&p->learner, pool, &side->fresh_state[a], above[0], above[1]);
        }
        if (p->o.repeats) share_state(step, i);
        pool_squares(step, i, (double)pool->lambda, &all[2]);
        TRY(gf_step_sum_ranks(step, all, 4));
        gf_pool_move(&p->learner, pool, all[0], all[1], all[2] / all[3]);
    }
    return GLOFND_OK;
}

/* ----- losses of the rows, and their links ----- */

/* What the sums of row r of side i are. */
static gf_summed_row summed_row(const gf_step *step, int i, int64_t r) {
    const gf_side *side = &step->ws->side[i];
    const gf_sum_out *x = &side->sums;
    const int64_t negatives = gf_row_negatives(&step->plan, i, side->unpaired, r);
    return (gf_summed_row){
        .sum = x->sum[r],
        .moment = x->moment[r],
        .flagged_s = x->flagged_s[r],
        .positive = side->positive[r],
        .negatives = negatives,
        .peak = x->peak[r],
        .inv_tau = side->limits.inv_tau[r],
        .lo = side->limits.lo[r],
        .floor = side->floor[r],
        .kept = step->plan.masking ? x->kept[r] : (int32_t)negatives,
        .tie = side->limits.tie[r],
    };
}

/* A row whose negatives are all flagged keeps the least similar one, and those equal to it. Also the quantile of the batch, where
 * it is wanted for the statistics. */
static void rescue_rows(gf_step *step) {
    const gf_plan *p = &step->plan;
    for (int i = 0; i < p->anchored; i++) {
        gf_side *side = &step->ws->side[i];
        gf_sum_out *x = &side->sums;
        int64_t empty = 0;
        memcpy(side->detector_kept, x->kept, sizeof *x->kept * (size_t)p->own);
        for (int64_t r = 0; r < p->own; r++) {
            side->floor[r] = -INFINITY;
            empty += x->kept[r] == 0;
        }
        if (empty > 0 && p->rescues) {
            const gf_embed own = own_rows(step, &side->z);
            gf_select s = selection(step, i, &own, &step->ws->side[step->plan.sides - 1 - i].z);
            s.smallest = 1;
            s.equals = side->equals;
            step->ops->select(&s);
            for (int64_t r = 0; r < p->own; r++) {
                if (x->kept[r] != 0) continue;
                gf_summed_row sums = summed_row(step, i, r);
                gf_row_rescue(p, &sums, side->quantile[r], side->equals[r]);
                x->peak[r] = sums.peak, side->floor[r] = sums.floor, x->kept[r] = sums.kept;
                x->sum[r] = sums.sum, x->moment[r] = sums.moment, x->flagged_s[r] = sums.flagged_s;
                step->rescued++;
            }
        }
        if (p->want & GLOFND_WANT_QUANTILE && p->updating && p->o.alpha > 0.0) batch_quantiles(step, i, 0);
    }
}

/* Adds a sample to what an anchor's rows have in common: u, the gradient of the temperature, and how many there are. log_u: of its rows. */
static void add_copy(const gf_plan *p, const double *log_u, double grad_tau, double *all_u, double *all_grad_tau,
                     int64_t *copies) {
    for (int v = 0; v < p->per_sample; v++) *all_u = gf_log_add(*all_u, log_u[v]);
    *all_grad_tau += grad_tau;
    ++*copies;
}

/* repeats: u and temperature of every anchor, by all rows of its samples. *all += the sum of log u over the own samples. */
static glofnd_status close_copies(gf_step *step, int i, double *all) {
    const gf_plan *p = &step->plan;
    const gf_side *side = &step->ws->side[i];
    const double *rows = step->ws->row_log_u, *grads = step->ws->row_grad_tau;
    const int per_sample = p->per_sample;
    clear_shared(step);
    for (int64_t a = 0; a < p->rows && step->apart > 0; a++) {
        double *x = own_shared(step, a);
        for (int v = 0; x && v < per_sample; v++) x[v] = rows[a * per_sample + v];
        if (x) x[GF_SHARED - 1] = grads[a];
    }
    TRY(sum_shared(step));
    for (int64_t a = 0; a < p->rows; a++) {
        glofnd_anchor *row = &side->fresh_state[a];
        const int64_t shared = first_shared(step, a);
        double log_u = -INFINITY, grad_tau = 0.0;
        int64_t copies = 0;
        if (step->ws->copy[a] != a) continue;
        for (int64_t j = shared; j >= 0; j = step->ws->next_apart[j])
            add_copy(p, shared_of(step, j), shared_of(step, j)[GF_SHARED - 1], &log_u, &grad_tau, &copies);
        for (int64_t c = shared < 0 ? a : -1; c >= 0; c = step->ws->next_copy[c])
            add_copy(p, rows + c * per_sample, grads[c], &log_u, &grad_tau, &copies);
        if (gf_loss_individual(&p->o))
            gf_row_update_tau(&p->o, row, 1.0 / (double)side->limits.inv_tau[a * per_sample], grad_tau / (double)copies);
        if (gf_row_keeps_u(p)) row->log_u = (float)(log_u - log((double)(copies * per_sample)));
    }
    share_state(step, i);
    for (int64_t a = 0; a < p->rows && gf_row_keeps_u(p); a++) *all += (double)side->fresh_state[a].log_u;
    return GLOFND_OK;
}

/* Every row gets its loss and its weights in the gradient, every anchor its new u and, individually, its temperature. */
static glofnd_status row_losses(gf_step *step, gf_link *links) {
    const gf_plan *p = &step->plan;
    const int per_sample = p->per_sample;
    const int one_lambda = p->shared && (p->updating || p->o.detector == GLOFND_DETECT_SINGLE);
    int batch_u = 1;
    gf_totals sum = {0};
    if (p->official && p->sides == 1) { /* u starts afresh only if no anchor of the whole batch has one */
        double seen = 0.0;
        for (int64_t a = 0; a < p->rows; a++) seen += step->ws->side[0].state[a].log_u > -INFINITY;
        TRY(gf_step_sum_ranks(step, &seen, 1));
        batch_u = seen > 0.0;
    }
    for (int i = 0; i < p->anchored; i++) {
        gf_side *side = &step->ws->side[i];
        for (int64_t a = 0; a < p->rows; a++) {
            glofnd_anchor *row = &side->fresh_state[a];
            double log_u[2], tau = 0.0, grad_tau = 0.0;
            for (int v = 0; v < per_sample; v++) {
                const int64_t r = a * per_sample + v;
                const gf_summed_row x = summed_row(step, i, r);
                gf_loss_in in = gf_row_loss_in(p, &x, side->state[a].log_u, batch_u);
                if (p->several) gf_others_join(p, &x, &side->others[r], &in);
                const gf_loss_out y = gf_loss_gradient(&p->o, &in);
                gf_link *link = &links[p->sides * r + i];
                *link = gf_row_link(p, &x, &y);
                if (p->several) gf_others_link(p, &x, &side->others[r], &y, link);
                log_u[v] = y.log_u;
                tau = in.tau;
                grad_tau += y.grad_tau / per_sample; /* two views share the temperature of their anchor */
                sum.loss += y.loss, sum.grad_scale += y.grad_scale, sum.grad_bias += y.grad_bias;
                sum.rank_part += y.rank_part, sum.rank_part_scale += y.rank_part_scale;
                sum.kept += (double)x.kept;
                sum.detector_kept += p->flags & GF_COUNT ? (double)side->detector_kept[r] : (double)x.negatives;
                sum.unpaired += (double)(p->negatives[i] - x.negatives);
                sum.quantile += (double)side->quantile[r];
            }
            if (p->o.repeats) {
                for (int v = 0; v < per_sample; v++) step->ws->row_log_u[a * per_sample + v] = log_u[v];
                step->ws->row_grad_tau[a] = grad_tau;
                continue;
            }
            if (gf_loss_individual(&p->o)) gf_row_update_tau(&p->o, row, tau, grad_tau);
            if (!gf_row_keeps_u(p)) continue;
            row->log_u = gf_row_mean_u(log_u, per_sample);
            sum.log_u += (double)row->log_u;
        }
        if (p->o.repeats) TRY(close_copies(step, i, &sum.log_u));
    }
    for (int i = 0; i < p->anchored; i++)
        for (int64_t a = 0; a < p->rows; a++) {
            const glofnd_anchor *row = &step->ws->side[i].fresh_state[a];
            sum.lambda += (double)(one_lambda ? step->shared_row[i].lambda : row->lambda);
            sum.tau += (double)row->tau;
        }
    for (int i = p->anchored; i < p->sides; i++)
        for (int64_t r = 0; r < p->own; r++) links[p->sides * r + i] = gf_no_anchor_link(gf_row_inv_tau(p, 0.0f));
    sum.rescued = (double)step->rescued, sum.repeats = (double)step->repeats;
    if (p->neighbours) gf_neighbours_add_loss(step, &sum);
    stats_of_rows(p, &sum, step->ctx);
    return GLOFND_OK;
}

/* ----- state of the own anchors, back to the store ----- */

static void commit(gf_step *step) {
    const gf_plan *p = &step->plan;
    const gf_step_batch *q = step->batch;
    const gf_side *side = step->ws->side;
    for (int i = 0; i < p->anchored; i++) {
        gf_store_scatter(step->store, i, step->slot, p->rows, side[i].fresh_state);
        if ((p->shared || p->pooled) && p->updating) gf_store_shared_put(step->store, i, &step->shared_row[i]);
    }
    if (p->bank) gf_averages_commit(step);
    if (step->ws->shape.ring == 0) return;
    int64_t *id = step->ws->id_scratch;
    for (int64_t r = 0; r < p->all; r++) id[r] = q->id[r / p->per_sample];
    const float *rows[2] = {step->ws->side[0].judged->row, p->sides == 2 ? step->ws->side[1].judged->row : NULL};
    gf_store_ring_push(step->store, rows, side[0].z.ld, id, p->all);
}

/* ----- gradients ----- */

/* Weights of all rows from the links, and the flags of the pass; BANK: marks of all anchors on pairs with the own rows. */
static void read_links(gf_step *step, const gf_link *links) {
    gf_plan *p = &step->plan;
    if (!p->masking) p->flags &= ~(unsigned)(GF_GROUP | GF_TIE | GF_COUNT | GF_MARKS);
    for (int i = 0; i < p->sides; i++) {
        gf_side *side = &step->ws->side[i];
        const gf_grad_in *x = &side->weights;
        for (int64_t r = 0; r < p->all; r++) {
            const gf_link *l = &links[p->sides * r + i];
            x->theta[r] = gf_row_theta(p, l);
            x->floor[r] = l->floor;
            x->log_w[r] = l->log_w;
            x->w[r] = expf(l->log_w);
            x->inv_tau[r] = l->inv_tau;
            x->attract[r] = l->attract;
            x->tie[r] = l->tie;
            side->pos[r] = l->pos;
        }
    }
    if (!(p->flags & GF_MARKS)) return;
    const int64_t first = step->batch->row0 * p->per_sample;
    for (int i = 0; i < p->sides; i++) {
        const gf_grad_in *row = &step->ws->side[i].weights, *col = &step->ws->side[step->plan.sides - 1 - i].weights;
        const gf_pass pairs = pairs_of(step, i, JUDGED);
        const float *guide = step->ws->guide_theta;
        const gf_marking m = {.row_theta = (step->plan.fixed ? guide : row->theta) + first,
                              .col_theta = step->plan.fixed ? guide : col->theta,
                              .mutual = step->plan.mutual,
                              .row_group = row->group + first,
                              .col_group = col->group,
                              .marks = row->marks,
                              .marks_col = row->marks_col,
                              .marks_ld = row->marks_ld};
        step->ops->mark(&pairs, &m);
    }
}

/* Rows of side i in the gradient, against their columns. */
static gf_gradient_pass own_gradients(const gf_step *step, int i, enum pairs which) {
    const gf_side *side = &step->ws->side[i], *other = &step->ws->side[step->plan.sides - 1 - i];
    const int64_t first = which == ALL ? 0 : step->batch->row0 * step->plan.per_sample;
    gf_gradient_pass pass = {.pairs = pairs_of(step, i, which),
                             .row = side->weights,
                             .col = other->weights,
                             .row_out = side->grads};
    gf_grad_in *x = &pass.row; /* marks are the own rows' already, and so is the gradient, but for FNC TOPK */
    x->theta += first, x->floor += first, x->log_w += first, x->w += first, x->inv_tau += first, x->attract += first;
    x->tie += first, x->group += first, x->label += first;
    if (which == EXTRA) pass.col = (gf_grad_in){.group = other->extra_none, .label = other->extra_none};
    if (step->ws->shape.topk) pass.row_out.grad += first * side->z.ld;
    return pass;
}

/* dh = (dz - z (z . dz)) / |h|: through the normalisation. A 16-bit gradient is made in the place of dz, then rounded. */
static void write_row(const gf_step *step, const float *z, const float *positive, double pull, float *dz, double norm,
                      void *out) {
    const gf_plan *p = &step->plan;
    const glofnd_dtype dtype = step->batch->grad_dtype;
    const double scale = p->authors_ranks ? 0.5 * (double)p->cols / (double)p->rows : 1.0;
    float *grad = dtype == GLOFND_F32 ? out : dz;
    double along = 0.0;
    if (p->o.normalize)
        for (int64_t j = 0; j < p->dim; j++) along += (double)z[j] * ((double)dz[j] + pull * (double)positive[j]);
    for (int64_t j = 0; j < p->dim; j++)
        grad[j] = (float)(scale * ((double)dz[j] + pull * (double)positive[j] - along * (double)z[j]) / norm);
    if (grad == dz) gf_dtype_from_float(dtype, out, dz, p->dim);
}

/* Gradients of the pairs with candidates, for both ends. */
static void candidate_gradients(gf_step *step, int i) {
    gf_side *from = &step->ws->side[step->plan.sides - 1 - i];
    const gf_candidates *x = &step->batch->candidates[step->plan.sides - 1 - i];
    const glofnd_dtype dtype = step->batch->grad_dtype;
    gf_gradient_pass pass = own_gradients(step, i, EXTRA);
    if (x->grad) {
        pass.col_out.grad = from->extra_grad;
        memset(from->extra_grad, 0, sizeof *from->extra_grad * (size_t)(x->n * from->extra.ld));
    }
    step->ops->gradient(&pass);
    for (int64_t c = 0; c < x->n && x->grad; c++) {
        const float *z = from->extra.row + c * from->extra.ld;
        write_row(step, z, z, 0.0, from->extra_grad + c * from->extra.ld, (double)from->extra_norm[c],
                  (char *)x->grad + c * step->plan.dim * (int64_t)gf_dtype_bytes(dtype));
    }
}

static void pair_gradients(gf_step *step, const gf_link *links, void *grad_a, void *grad_b) {
    gf_plan *p = &step->plan;
    const gf_step_batch *q = step->batch;
    gf_side *side = step->ws->side;
    const int quality = (p->want & GLOFND_WANT_QUALITY) != 0, other = step->plan.sides - 1;
    gf_totals sum = {0};
    for (int i = 0; i < p->sides; i++) {
        const gf_grad_out *x = &side[i].grads;
        const size_t own = (size_t)p->own, rows = (size_t)(step->ws->shape.topk ? p->all : p->own);
        memset(x->grad, 0, sizeof *x->grad * rows * (size_t)side[i].z.ld);
        memset(x->same, 0, sizeof *x->same * own), memset(x->hits, 0, sizeof *x->hits * own);
        memset(x->col_sum, 0, sizeof *x->col_sum * own), memset(x->col_moment, 0, sizeof *x->col_moment * own);
    }
    if (quality) p->flags |= GF_QUALITY;
    read_links(step, links);
    /* Similarity of every row of the batch to its positive, for the authors' loss of a rank. */
    for (int64_t i = 0; p->authors_ranks && i < p->cols; i++) {
        double s = 0.0;
        for (int64_t j = 0; j < p->dim; j++)
            s += (double)side[0].z.row[i * side[0].z.ld + j] * (double)side[1].z.row[i * side[1].z.ld + j];
        side[0].weights.align[i] = side[1].weights.align[i] = (float)s;
    }
    if (p->topk && p->masking) {
        /* A score flags that only the anchor's own row knows: all anchors' rows, each giving to both ends. Every rank does the
         * whole batch and keeps its rows. The own rows are counted in a separate pass without gradient. */
        for (int i = 0; i < p->sides; i++) {
            gf_gradient_pass pass = own_gradients(step, i, ALL);
            pass.col_out.grad = side[other - i].grads.grad;
            pass.pairs.flags &= ~(unsigned)GF_QUALITY;
            step->ops->gradient(&pass);
        }
        for (int i = 0; i < p->sides && quality; i++) {
            gf_gradient_pass pass = own_gradients(step, i, OWN);
            pass.row_out.grad = NULL;
            step->ops->gradient(&pass);
        }
    } else if (p->one_rank) { /* every similarity once, P from both anchors, both gradients */
        gf_gradient_pass pass = own_gradients(step, 0, ALL);
        pass.pairs.col_role = 1;
        pass.col_out = side[other].grads;
        if (step->reuse && pass.pairs.tiles && p->anchored == p->sides) pass.pairs.flags |= GF_REUSE_TILES;
        step->ops->gradient(&pass);
    } else { /* own rows against all columns, with the weights of both anchors; the gradient of a column is made by its rank */
        for (int i = 0; i < p->sides; i++) {
            gf_gradient_pass pass = own_gradients(step, i, OWN);
            pass.pairs.col_role = 1;
            if (p->authors_ranks) pass.pairs.flags |= GF_COLSUM;
            step->ops->gradient(&pass);
        }
    }
    for (int i = 0; i < p->anchored; i++)
        if (p->candidates[other - i] > 0) candidate_gradients(step, i);
    if (p->neighbours) gf_neighbours_add_gradient(step);
    if (p->several) gf_positives_add_gradient(step);

    const gf_side *a = &side[0], *b = &side[other];
    const int64_t ld = a->z.ld, skip = step->ws->shape.topk ? 0 : q->row0 * p->per_sample; /* where grad[] starts */
    const int64_t bytes = (int64_t)gf_dtype_bytes(q->grad_dtype);
    for (int64_t i = 0; i < p->rows; i++) {
        const int64_t ra = (q->row0 + i) * p->per_sample, rb = ra + 1 - other;
        const float *za = a->z.row + ra * ld, *zb = b->z.row + rb * ld;
        const double pull = (double)a->pos[ra] + (double)b->pos[rb];
        write_row(step, za, zb, pull, a->grads.grad + (ra - skip) * ld, (double)a->norm[ra],
                  (char *)grad_a + i * q->grad_a_stride * bytes);
        write_row(step, zb, za, pull, b->grads.grad + (rb - skip) * ld, (double)b->norm[rb],
                  (char *)grad_b + i * q->grad_b_stride * bytes);
    }
    if (quality) {
        /* Precision and recall per anchor, rows pooled; 0/0 counts as 1, as in the authors' code. */
        const int64_t first = q->row0 * p->per_sample;
        for (int i = 0; i < p->anchored; i++) {
            const gf_grad_out *x = &side[i].grads;
            for (int64_t anchor = 0; anchor < p->rows; anchor++) {
                int64_t same = 0, hits = 0, flagged = 0;
                for (int64_t r = anchor * p->per_sample; r < (anchor + 1) * p->per_sample; r++) {
                    same += x->same[r], hits += x->hits[r];
                    flagged += gf_row_negatives(p, i, side[i].unpaired, r) - links[p->sides * (first + r) + i].kept;
                }
                sum.precision += ((double)hits + 1e-9) / ((double)flagged + 1e-9);
                sum.recall += ((double)hits + 1e-9) / ((double)same + 1e-9);
                sum.same += (double)same, sum.hits += (double)hits;
            }
        }
    }
    for (int i = 0; i < 2 && p->authors_ranks; i++)
        for (int64_t r = 0; r < p->own; r++)
            sum.rank_sum += side[i].grads.col_sum[r], sum.rank_moment += side[i].grads.col_moment[r];
    add_stats_of_gradients(p, &sum, &step->ctx->stats);
}

/* ----- statistics ----- */

/* Statistics of the first half. */
static void stats_of_rows(const gf_plan *p, const gf_totals *sum, glofnd_ctx *ctx) {
    const double anchors = (double)(p->anchored * p->rows), rows = (double)(p->anchored * p->own);
    const double pairs = (double)p->own * (double)(p->negatives[0] + (p->anchored - 1) * p->negatives[1]) - sum->unpaired;
    const int quantiles = p->want & GLOFND_WANT_QUANTILE && p->updating && p->o.alpha > 0.0;
    const gf_loss_totals y = gf_totals_loss(p, sum, p->tau, 0);
    ctx->counters = (glofnd_counters){.size = sizeof ctx->counters,
                                      .repeats = (int64_t)sum->repeats,
                                      .neighbours = p->neighbours ? sum->neighbours / anchors : 0.0};
    ctx->stats = (glofnd_stats){
        .size = sizeof ctx->stats,
        .loss = y.loss,
        .grad_scale = y.grad_scale,
        .grad_tau = y.grad_tau,
        .grad_bias = sum->grad_bias,
        .kept_share = sum->kept / pairs,
        .detector_share = sum->detector_kept / pairs,
        .lambda_mean = sum->lambda / anchors,
        .quantile_mean = quantiles ? sum->quantile / rows : NAN,
        .log_u_mean = sum->log_u / anchors,
        .tau_mean = gf_loss_individual(&p->o) ? sum->tau / anchors : p->tau,
        .precision = NAN,
        .recall = NAN,
        .f1 = NAN,
        .precision_per_anchor = NAN,
        .recall_per_anchor = NAN,
        .pairs = (int64_t)pairs,
        .flagged = (int64_t)(pairs - sum->kept),
        .rescued = (int64_t)sum->rescued,
    };
}

void gf_stats_pool(glofnd_stats *s) {
    const int judged = !isnan(s->precision_per_anchor);
    s->precision = judged && s->flagged > 0 ? (double)s->hits / (double)s->flagged : NAN;
    s->recall = judged && s->same > 0 ? (double)s->hits / (double)s->same : NAN;
    s->f1 = isnan(s->precision + s->recall) ? NAN : 2.0 * (double)s->hits / (double)(s->flagged + s->same);
}

/* ... and what the second half adds. The authors' ranks: the other half of loss and temperature gradient comes from the own
 * columns in the rows of all ranks. */
static void add_stats_of_gradients(const gf_plan *p, const gf_totals *sum, glofnd_stats *stats) {
    const double anchors = (double)(p->anchored * p->rows);
    if (p->want & GLOFND_WANT_QUALITY) {
        stats->same += (int64_t)sum->same, stats->hits += (int64_t)sum->hits;
        if (p->masking) stats->precision_per_anchor = sum->precision / anchors, stats->recall_per_anchor = sum->recall / anchors;
        gf_stats_pool(stats);
    }
    if (!p->authors_ranks) return;
    const double k = (double)p->cols / (double)p->rows;
    stats->loss += 0.5 * k * p->tau * sum->rank_sum;
    stats->grad_scale += 0.5 * k * p->tau * sum->rank_moment;
    stats->grad_tau = -stats->grad_scale / (p->tau * p->tau);
}

/* ----- several ranks: the two halves of a step ----- */

glofnd_status gf_step_sum_ranks(gf_step *step, double *x, int n) {
    if (!step->ctx->reduce) return GLOFND_OK;
    FAIL_IF(&step->ctx->err, step->ctx->reduce(step->ctx->reduce_user, x, n) != 0, GLOFND_E_ARGUMENT,
            "the sum over ranks given to glofnd_ctx_reduce failed");
    return GLOFND_OK;
}

glofnd_status glofnd_step_rows(glofnd_ctx *ctx, glofnd_store *store, const glofnd_batch *batch, const glofnd_own_rows *own,
                               void *links, glofnd_stats *stats) {
    const arguments given = {.batch = batch, .own = own, .store = store, .links = links, .stats = stats};
    gf_step step;
    gf_step_batch known;
    if (!ctx) return GLOFND_E_ARGUMENT;
    TRY(check(ctx, NEEDS_STORE | NEEDS_LINKS, &given, &known));
    if (ctx->device) return step_on_device(ctx, ROWS, &known, store, links, NULL, NULL, stats);
    TRY(gf_step_begin(&step, ctx, &known));
    const glofnd_status status = first_half(&step, store, links);
    if (status != GLOFND_OK) return undo(&step, status);
    if (stats) gf_struct_fill(stats, &ctx->stats, sizeof ctx->stats);
    return GLOFND_OK;
}

glofnd_status glofnd_step_grad(glofnd_ctx *ctx, const glofnd_batch *batch, const glofnd_own_rows *own, const void *links,
                               void *grad_a, void *grad_b, glofnd_stats *stats) {
    const arguments given = {.batch = batch, .own = own, .links = links, .grad_a = grad_a, .grad_b = grad_b, .stats = stats};
    gf_step step;
    gf_step_batch known;
    if (!ctx) return GLOFND_E_ARGUMENT;
    TRY(check(ctx, NEEDS_LINKS | NEEDS_GRADIENTS, &given, &known));
    if (ctx->device) return step_on_device(ctx, GRADIENTS, &known, NULL, (gf_link *)(uintptr_t)links, grad_a, grad_b, stats);
    TRY(gf_step_begin(&step, ctx, &known));
    if (step.plan.neighbours) TRY(gf_neighbours_check_found(&step));
    if (step.plan.bank) gf_averages_make(&step);
    if (stats) memcpy(&ctx->stats, stats, GF_MIN(stats->size, sizeof ctx->stats));
    pair_gradients(&step, links, grad_a, grad_b);
    if (stats) gf_struct_fill(stats, &ctx->stats, sizeof ctx->stats);
    return GLOFND_OK;
}

/* ----- on a device: it does all between the checks and the statistics ----- */

/* Waits. The temperature of a step that read it from the device is known now. */
static glofnd_status fetch_totals(glofnd_ctx *c, gf_totals *sum) {
    TRY(c->device->totals(&c->err, c->on, sum));
    if (sum->tau_used > 0.0) c->plan.tau = sum->tau_used;
    return GLOFND_OK;
}

static glofnd_status device_stats(glofnd_ctx *c, glofnd_stats *stats) {
    gf_totals sum = {0};
    TRY(fetch_totals(c, &sum));
    stats_of_rows(&c->plan, &sum, c);
    if (c->has_grad) add_stats_of_gradients(&c->plan, &sum, &c->stats);
    gf_struct_fill(stats, &c->stats, sizeof c->stats);
    return GLOFND_OK;
}

static glofnd_status step_on_device(glofnd_ctx *c, int halves, const gf_step_batch *q, glofnd_store *s, gf_link *links,
                                    void *grad_a, void *grad_b, glofnd_stats *stats) {
    const gf_shape shape = gf_shape_of_batch(c, q);
    const int after_rows = c->has_rows && !c->has_grad;
    c->plan = gf_plan_of(&c->o, q);
    if (c->tau_at && !(c->plan.flags & GF_SIGMOID)) c->plan.flags |= GF_SHIFT; /* right for every temperature */
    c->has_rows = c->has_grad = 0;
    gf_device_step x = {.plan = &c->plan,
                        .shape = &shape,
                        .q = q,
                        .links = links,
                        .grad_a = grad_a,
                        .grad_b = grad_b,
                        .tau = c->tau_at,
                        .bias = c->bias_at,
                        .reduce = c->reduce,
                        .reduce_user = c->reduce_user,
                        .queue_sum = c->queue_sum,
                        .queue_user = c->queue_user};
    if (s) x.s = s->on;
    else if (halves & ROWS) x.state = c->state_at, x.anchors = c->state_n;
    if (halves == ROWS) TRY(c->device->rows(&c->err, c->on, &x));
    else if (halves == GRADIENTS) TRY(c->device->grad(&c->err, c->on, &x));
    else TRY(c->device->step(&c->err, c->on, &x));
    c->has_rows = halves & ROWS ? 1 : after_rows;
    c->has_grad = (halves & GRADIENTS) != 0;
    if (!stats) return GLOFND_OK;
    if (halves & ROWS) return device_stats(c, stats);
    gf_totals sum = {0}; /* those of the first call stay on the device, and the second call adds to them */
    TRY(fetch_totals(c, &sum));
    memcpy(&c->stats, stats, GF_MIN(stats->size, sizeof c->stats));
    add_stats_of_gradients(&c->plan, &sum, &c->stats);
    gf_struct_fill(stats, &c->stats, sizeof c->stats);
    return GLOFND_OK;
}

/* ----- inspection ----- */

glofnd_status glofnd_step_mask(glofnd_ctx *ctx, const glofnd_batch *batch, const glofnd_own_rows *own, const void *links,
                               uint8_t *keep) {
    const arguments given = {.batch = batch, .own = own, .links = links};
    gf_step step;
    gf_step_batch known;
    if (!ctx) return GLOFND_E_ARGUMENT;
    FAIL_IF(&ctx->err, !keep, GLOFND_E_ARGUMENT, "keep is NULL");
    TRY(check(ctx, NEEDS_LINKS, &given, &known));
    if (ctx->device) { /* not a step: the stats of the last one stay, and its second half may still follow */
        for (int i = 0; i < 2; i++) known.candidates[i] = (gf_candidates){0}; /* the mask is of pairs of the batch */
        const gf_shape shape = gf_shape_of_batch(ctx, &known);
        const gf_plan plan = gf_plan_of(&ctx->o, &known);
        const gf_device_step x = {
            .plan = &plan, .shape = &shape, .q = &known, .links = (gf_link *)(uintptr_t)links, .keep = keep};
        return ctx->device->mask(&ctx->err, ctx->on, &x);
    }
    TRY(gf_step_begin(&step, ctx, &known));
    if (step.plan.bank) gf_averages_make(&step);
    read_links(&step, links);
    const int64_t cols = step.plan.cols;
    for (int i = 0; i < step.plan.sides; i++) {
        const gf_gradient_pass pass = own_gradients(&step, i, OWN);
        step.ops->mask(&pass, keep + i * cols, 2 * cols);
    }
    uint8_t *by_sample = (uint8_t *)step.ws->id_scratch; /* two views: (sample, view) is wanted as [view][sample] */
    for (int64_t r = 0; step.plan.sides == 1 && r < step.plan.own; r++) {
        uint8_t *row = keep + r * 2 * cols;
        memcpy(by_sample, row, (size_t)(2 * cols));
        for (int64_t j = 0; j < cols; j++) row[j] = by_sample[2 * j], row[cols + j] = by_sample[2 * j + 1];
    }
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_stats(glofnd_ctx *ctx, glofnd_stats *stats) {
    if (!ctx) return GLOFND_E_ARGUMENT;
    TRY(gf_struct_check(&ctx->err, "stats", "glofnd_stats", stats, sizeof *stats, GF_STRUCT_OUT));
    FAIL_IF(&ctx->err, !ctx->has_rows, GLOFND_E_ARGUMENT, "there was no step on this context yet");
    if (ctx->device) return device_stats(ctx, stats);
    gf_struct_fill(stats, &ctx->stats, sizeof ctx->stats);
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_counters(glofnd_ctx *ctx, glofnd_counters *out) {
    if (!ctx) return GLOFND_E_ARGUMENT;
    TRY(gf_struct_check(&ctx->err, "out", "glofnd_counters", out, sizeof *out, GF_STRUCT_OUT));
    gf_struct_fill(out, &ctx->counters, sizeof ctx->counters);
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_loss(glofnd_ctx *ctx, float *loss, float *grad_tau) {
    if (!ctx) return GLOFND_E_ARGUMENT;
    FAIL_IF(&ctx->err, !ctx->has_rows, GLOFND_E_ARGUMENT, "there was no step on this context yet");
    FAIL_IF(&ctx->err, (uintptr_t)loss % sizeof *loss != 0 || (uintptr_t)grad_tau % sizeof *loss != 0, GLOFND_E_ARGUMENT,
            "%s is not aligned to %zu bytes", (uintptr_t)loss % sizeof *loss ? "loss" : "grad_tau", sizeof *loss);
    if (ctx->device) return ctx->device->loss(&ctx->err, ctx->on, &ctx->plan, ctx->has_grad, loss, grad_tau, NULL);
    if (loss) *loss = (float)ctx->stats.loss;
    if (grad_tau) *grad_tau = (float)ctx->stats.grad_tau;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_grad_bias(glofnd_ctx *ctx, float *grad_bias) {
    if (!ctx) return GLOFND_E_ARGUMENT;
    FAIL_IF(&ctx->err, !ctx->has_rows, GLOFND_E_ARGUMENT, "there was no step on this context yet");
    FAIL_IF(&ctx->err, !grad_bias || (uintptr_t)grad_bias % sizeof *grad_bias != 0, GLOFND_E_ARGUMENT, "grad_bias is %s",
            grad_bias ? "not aligned to 4 bytes" : "NULL");
    if (ctx->device) return ctx->device->loss(&ctx->err, ctx->on, &ctx->plan, ctx->has_grad, NULL, NULL, grad_bias);
    *grad_bias = (float)ctx->stats.grad_bias;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_phase(glofnd_ctx *ctx, const glofnd_batch *batch, uint64_t *phase) {
    gf_step_batch known;
    if (!ctx) return GLOFND_E_ARGUMENT;
    FAIL_IF(&ctx->err, !phase, GLOFND_E_ARGUMENT, "phase is NULL");
    TRY(gf_batch_take(&ctx->err, batch, NULL, &known));
    const gf_plan plan = gf_plan_of(&ctx->o, &known);
    *phase = gf_plan_phase(&plan);
    return GLOFND_OK;
}
