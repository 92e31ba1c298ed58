/* cuda_step.c - one training step on the device: Algorithm 1 of the paper as a queue of kernels, in the order of method/step.c.
 *
 * The story is at the end, from first_half() on; what comes before are its parts, in the same order. cuda_step.h describes the kernels.
 * Nothing here waits, unless ranks must sum something, and nothing in the store changes before the losses of the rows.
 */
#include "cuda/cuda_step.h"

#include <stddef.h>
#include <string.h>

#include "util/array.h"

typedef struct cuda_step { /* a step while it is queued */
    gf_error *err;
    gf_device_ctx *device;
    const gf_device_step *call;
    gf_cuda_step args; /* of all kernels */
} cuda_step;

#define QUEUE(step, launch) CUDA_TRY((step)->err, launch)

static cudaStream_t stream_of(const cuda_step *step) { return step->device->stream; }

/* ----- begin: unit embeddings, the options of this epoch, the anchors' state ----- */

/* All passes of a step use one math. FNC TOPK and THRESHOLD compare scores, which need all bits. */
static gf_cuda_math choose_math(const gf_plan *plan, int tau_known) {
    const double tau = gf_loss_individual(&plan->o) && plan->o.tau_min < plan->tau ? plan->o.tau_min : plan->tau;
    if (plan->topk) return GF_CUDA_EXACT;
    switch (plan->o.math) {
    case GLOFND_MATH_EXACT: return GF_CUDA_EXACT;
    case GLOFND_MATH_BF16: return GF_CUDA_BF16;
    case GLOFND_MATH_SPLIT: return GF_CUDA_SPLIT;
    case GLOFND_MATH_AUTO: break;
    }
    return tau_known && tau >= 0.05 ? GF_CUDA_BF16 : GF_CUDA_SPLIT;
}

/* Unit rows x, y rounded: |x' y' - x y| <= this. */
static float margin_of(gf_cuda_math math) { return math == GF_CUDA_EXACT ? 0.0f : math == GF_CUDA_BF16 ? 4e-3f : 4e-5f; }

static gf_cuda_embed_job embed_job(gf_device_ctx *device, const gf_device_step *call) {
    const int last = call->plan->sides - 1;
    gf_cuda_side *a = &device->side[0], *b = &device->side[last];
    return (gf_cuda_embed_job){.a = {call->q->a, call->q->a_stride, call->q->dtype},
                               .b = {call->q->b, call->q->b_stride, call->q->dtype},
                               .za = &a->z,
                               .zb = &b->z,
                               .rows = call->q->cols,
                               .first_b = 1 - last,
                               .step = call->plan->per_sample,
                               .normalize = call->plan->o.normalize,
                               .norm_a = a->norm,
                               .norm_b = b->norm,
                               .positive_a = a->positive,
                               .positive_b = b->positive,
                               .bad = &device->control->bad_embed};
}

/* Copy n of the support vectors of a side. */
static gf_cuda_embed support_copy(const gf_device_ctx *device, int side, int64_t n) {
    gf_cuda_embed e = device->side[side].support;
    const int64_t at = n * e.f32.rows * e.f32.ld;
    e.f32.row += at;
    e.hi = e.hi ? (uint16_t *)e.hi + at : NULL;
    e.lo = e.lo ? (uint16_t *)e.lo + at : NULL;
    return e;
}

/* FNC: support vectors only rank pairs, so their length does not matter: always normalised. */
static glofnd_status embed_support(cuda_step *step) {
    const gf_device_step *call = step->call;
    const int last = call->plan->sides - 1;
    const size_t bytes = (size_t)(call->q->cols * call->q->dim) * gf_dtype_bytes(call->q->dtype);
    const char *rows[2] = {call->q->support_a, last ? call->q->support_b : call->q->support_a};
    if (!call->plan->topk || !call->q->support_a) return GLOFND_OK;
    for (int64_t n = 0; n < call->shape->support; n++) {
        const gf_cuda_embed a = support_copy(step->device, 0, n), b = support_copy(step->device, last, n);
        const gf_cuda_embed_job job = {.a = {rows[0] + (size_t)n * bytes, call->q->dim, call->q->dtype},
                                       .b = {rows[1] + (size_t)n * bytes, call->q->dim, call->q->dtype},
                                       .za = &a,
                                       .zb = &b,
                                       .rows = call->q->cols,
                                       .first_b = 1 - last,
                                       .step = call->plan->per_sample,
                                       .normalize = 1,
                                       .bad = &step->device->control->bad_support};
        QUEUE(step, gf_cuda_embed_rows(&job, stream_of(step)));
    }
    for (int i = 0; i <= last && call->shape->support > 1; i++)
        QUEUE(step, gf_cuda_average_support(&step->args, i, call->shape->support, stream_of(step)));
    return GLOFND_OK;
}

/* FIXED: unit rows of the guide, for both views of a sample. */
static glofnd_status embed_guide(cuda_step *step) {
    const gf_step_batch *q = step->call->q;
    gf_device_ctx *device = step->device;
    const int views = step->call->plan->per_sample == 2;
    const gf_source h = {q->guide, q->guide_dim, GLOFND_F32};
    const gf_cuda_embed_job job = {.a = h,
                                   .b = views ? h : (gf_source){0},
                                   .za = &device->guide,
                                   .zb = &device->guide,
                                   .rows = q->cols,
                                   .first_b = 1,
                                   .step = step->call->plan->per_sample,
                                   .normalize = 1,
                                   .bad = &device->control->bad_support};
    if (!step->call->plan->fixed) return GLOFND_OK;
    QUEUE(step, gf_cuda_embed_rows(&job, stream_of(step)));
    QUEUE(step, gf_cuda_spread_guide(&step->args, q->guide_threshold, device->guide_theta, stream_of(step)));
    return GLOFND_OK;
}

/* Candidates become unit rows behind those of the batch, of the same side. */
static glofnd_status embed_candidates(const cuda_step *step) {
    const gf_device_step *call = step->call;
    for (int i = 0; i < call->plan->sides; i++) {
        const gf_candidates *x = &call->q->candidates[i];
        const gf_cuda_side *side = &step->device->side[i];
        const gf_cuda_embed_job job = {.a = {x->rows, x->stride, call->q->dtype},
                                       .za = &side->z,
                                       .rows = x->n,
                                       .first_a = call->plan->all,
                                       .step = 1,
                                       .normalize = call->plan->o.normalize,
                                       .norm_a = side->norm,
                                       .bad = &step->device->control->bad_candidate[i]};
        if (x->n == 0) continue;
        QUEUE(step, gf_cuda_embed_rows(&job, stream_of(step)));
        QUEUE(step, gf_cuda_open_candidates(&step->args, i, stream_of(step)));
    }
    return GLOFND_OK;
}

/* `tasks`: GF_CUDA_SPREAD ... of cuda_step.h. */
static glofnd_status begin_step(cuda_step *step, gf_error *err, gf_device_ctx *device, const gf_device_step *call, int tasks) {
    const gf_step_batch *batch = call->q;
    const gf_cuda_math math = choose_math(call->plan, !call->tau);
    TRY(gf_cuda_prepare(err, device, call->shape, math));
    *step = (cuda_step){.err = err,
                        .device = device,
                        .call = call,
                        .args = {.plan = *call->plan,
                                 .row0 = batch->row0,
                                 .dim = batch->dim,
                                 .id = batch->id,
                                 .slot = batch->slot,
                                 .label = batch->label,
                                 .group = batch->group,
                                 .positives = batch->positives,
                                 .bank = {batch->bank_a, batch->bank_b},
                                 .control = device->control,
                                 .seen_ids = device->seen_ids,
                                 .partial = device->partial,
                                 .row_totals = device->row_totals,
                                 .links = call->links ? call->links : device->links,
                                 .grad_a = call->grad_a,
                                 .grad_b = call->grad_b,
                                 .grad_stride = {batch->grad_a_stride, batch->grad_b_stride},
                                 .grad_dtype = batch->grad_dtype,
                                 .tau = call->tau,
                                 .bias = call->plan->flags & GF_SIGMOID ? call->bias : NULL,
                                 .ranks = call->reduce != NULL,
                                 .margin = margin_of(math)}};
    memcpy(step->args.side, device->side, sizeof step->args.side);
    const int keyed = call->s && call->s->key, inserts = !(call->plan->want & GLOFND_WANT_NO_UPDATE);
    if (keyed) call->s->stream = device->stream;
    if (keyed && inserts) TRY(gf_cuda_store_expect(err, call->s, batch->rows, gf_cuda_is_capturing(device)));
    step->args.store = gf_cuda_store_of(call, device->stream), step->args.state = call->state;
    if (keyed) {
        step->args.slot = device->places;
        QUEUE(step, gf_cuda_find_places(call->s, batch->id + batch->row0, batch->rows, inserts, device->places, device->control,
                                        device->stream));
    }
    if (call->plan->keyed) {
        const int64_t *const extra[2] = {batch->candidates[0].id, batch->candidates[1].id};
        if (call->plan->o.repeats) step->args.copy = device->copy, step->args.next_copy = device->next_copy;
        QUEUE(step, gf_cuda_make_keys(&step->args, extra, device->key_table, device->key_count, device->groups, device->stream));
    }
    if (call->plan->several) {
        step->args.next_positive = device->next_positive;
        QUEUE(step, gf_cuda_link_positives(&step->args, device->next_positive, device->stream));
    }
    const gf_cuda_embed_job job = embed_job(device, call);
    TRY(embed_support(step));
    TRY(embed_guide(step));
    TRY(embed_candidates(step));
    QUEUE(step, gf_cuda_begin(&step->args, &job, tasks, device->stream));
    return GLOFND_OK;
}

/* ----- passes over the pairs of a batch ----- */

static int other_side(const cuda_step *step, int i) { return step->args.plan.sides == 2 ? 1 - i : 0; }

static int64_t first_own_row(const cuda_step *step) { return step->args.row0 * step->args.plan.per_sample; }

/* The own rows of an embedding. */
static gf_cuda_embed own_rows(const cuda_step *step, const gf_cuda_embed *e) {
    const int64_t at = first_own_row(step) * e->f32.ld;
    gf_cuda_embed own = *e;
    own.f32.rows = step->args.plan.rows * step->args.plan.per_sample;
    own.f32.row = e->f32.row + at;
    own.hi = e->hi ? (uint16_t *)e->hi + at : NULL;
    own.lo = e->lo ? (uint16_t *)e->lo + at : NULL;
    return own;
}

/* The embeddings of a side that thresholds are compared with the similarities of. */
static const gf_cuda_embed *judged(const cuda_step *step, int i) {
    return step->args.plan.bank ? &step->args.side[i].bank : &step->args.side[i].z;
}

/* Whether all rows have one temperature, and the host knows that it is not too small for a fixed peak. */
static gf_cuda_tau known_tau(const gf_cuda_step *args) {
    if (gf_loss_individual(&args->plan.o)) return GF_TAU_ANY;
    if (args->tau) return GF_TAU_ON_DEVICE;
    return 1.0 / args->plan.tau <= (double)GF_FIXED_LIMIT ? GF_TAU_ONE : GF_TAU_ANY;
}

/* Keys of the own rows of a side. */
static const int32_t *own_keys(const cuda_step *step, int i) {
    const int32_t *key = step->args.side[i].key;
    return key ? key + first_own_row(step) : NULL;
}

/* Numbers of the own rows in pass B. */
static gf_cuda_rows rows_for_stats(const cuda_step *step, int i) {
    const gf_cuda_side *side = &step->args.side[i];
    gf_cuda_rows row = side->own;
    row.group = side->every.group + first_own_row(step);
    row.label = side->every.label + first_own_row(step);
    return row;
}

/* Numbers of the own rows in pass C: inside those of all rows; what it counts and its gradients have own rows only. */
static gf_cuda_rows rows_for_grad(const cuda_step *step, int i) {
    const gf_cuda_side *side = &step->args.side[i];
    const int64_t first = first_own_row(step);
    gf_cuda_rows row = side->every;
    row.theta += first, row.floor += first, row.log_w += first, row.w += first, row.inv_tau += first, row.attract += first;
    row.tie += first, row.group += first, row.label += first, row.align += first;
    row.same = side->own.same, row.hits = side->own.hits, row.col_sum = side->own.col_sum, row.col_moment = side->own.col_moment;
    row.marks = side->own.marks, row.marks_col = side->own.marks_col, row.marks_ld = side->own.marks_ld;
    return row;
}

typedef struct own_passes { /* of the own rows of every side against all columns */
    gf_cuda_pass pass[2];   /* point to the members below */
    gf_cuda_embed q[2], score[2];
    gf_cuda_rows row[2], col[2];
} own_passes;

static void make_passes(const cuda_step *step, gf_cuda_rows (*rows)(const cuda_step *, int), own_passes *y) {
    const gf_cuda_step *args = &step->args;
    const int scored = args->plan.flags & GF_TIE && step->call->q->support_a;
    for (int i = 0; i < args->plan.sides; i++) {
        const gf_cuda_side *side = &args->side[i], *other = &args->side[other_side(step, i)];
        y->q[i] = own_rows(step, &side->z);
        if (scored) y->score[i] = own_rows(step, &side->support);
        y->row[i] = rows(step, i);
        y->col[i] = other->every;
        y->pass[i] = (gf_cuda_pass){.q = &y->q[i],
                                    .k = &other->z,
                                    .score = scored ? &y->score[i] : NULL,
                                    .col_score = scored ? &other->support : NULL,
                                    .q0 = first_own_row(step),
                                    .shift = args->plan.per_sample - 1,
                                    .row_key = own_keys(step, i),
                                    .col_key = other->key,
                                    .row = &y->row[i],
                                    .col = &y->col[i],
                                    .flags = args->plan.flags,
                                    .omega = (float)args->plan.o.omega,
                                    .bias = (float)args->plan.bias,
                                    .bias_at = args->bias,
                                    .math = (gf_cuda_math)step->device->math,
                                    .tau = known_tau(args),
                                    .buffer = step->device->scratch,
                                    .buffer_bytes = step->device->scratch_bytes,
                                    .scratch = step->device->scratch};
    }
}

/* The same for the similarities that thresholds are compared with. */
static void make_judged_passes(const cuda_step *step, own_passes *y) {
    make_passes(step, rows_for_stats, y);
    for (int i = 0; i < step->args.plan.sides; i++) {
        y->q[i] = own_rows(step, judged(step, i));
        y->pass[i].k = judged(step, other_side(step, i));
    }
}

/* ----- sums over ranks: queued by the caller's function; or on the host, and then a call that needs one waits ----- */

static glofnd_status reduce_ranks(const cuda_step *step, double *sum, int n) {
    const int failed = step->call->reduce(step->call->reduce_user, sum, n);
    FAIL_IF(step->err, failed, GLOFND_E_ARGUMENT, "the sum over ranks given to glofnd_ctx_reduce failed");
    return GLOFND_OK;
}

static glofnd_status fetch_numbers(const cuda_step *step, void *to, const void *from, size_t bytes) {
    QUEUE(step, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(step)));
    QUEUE(step, cudaStreamSynchronize(stream_of(step)));
    return GLOFND_OK;
}

static glofnd_status return_numbers(const cuda_step *step, void *to, const void *from, size_t bytes) {
    QUEUE(step, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(step)));
    QUEUE(step, cudaStreamSynchronize(stream_of(step)));
    return GLOFND_OK;
}

/* Numbers on the device. */
static glofnd_status queue_sum(const cuda_step *step, double *numbers, int n) {
    const int failed = step->call->queue_sum(step->call->queue_user, numbers, n);
    FAIL_IF(step->err, failed, GLOFND_E_ARGUMENT, "the sum over ranks given to glofnd_ctx_reduce_queued failed");
    return GLOFND_OK;
}

/* Two numbers on the device, summed over ranks if the flag there is set, which all ranks have; else nobody reads them. Without ranks
 * nothing. */
static glofnd_status reduce_if(const cuda_step *step, const int32_t *flag, double *numbers) {
    int32_t wanted = 0;
    double sum[2];
    if (!step->call->reduce) return GLOFND_OK;
    if (step->call->queue_sum) return queue_sum(step, numbers, 2);
    TRY(fetch_numbers(step, &wanted, flag, sizeof wanted));
    if (!wanted) return GLOFND_OK;
    TRY(fetch_numbers(step, sum, numbers, sizeof sum));
    TRY(reduce_ranks(step, sum, 2));
    return return_numbers(step, numbers, sum, sizeof sum);
}

/* ----- thresholds that are quantiles: pass A ----- */

static gf_cuda_select selection(const cuda_step *step, int i, const gf_cuda_embed *own) {
    return (gf_cuda_select){.q = own,
                            .k = judged(step, other_side(step, i)),
                            .q0 = first_own_row(step),
                            .shift = step->args.plan.per_sample - 1,
                            .alpha = step->args.plan.o.alpha,
                            .row_key = own_keys(step, i),
                            .col_key = step->args.side[other_side(step, i)].key,
                            .unpaired = step->args.side[i].unpaired,
                            .negatives = step->args.plan.negatives[i],
                            .value = step->args.side[i].quantile,
                            .scratch = step->device->scratch,
                            .math = (gf_cuda_math)step->device->math};
}

/* quantile[] of side i: the (1-alpha) quantile of each own row's similarities in this batch. */
static glofnd_status batch_quantiles(const cuda_step *step, int i, const uint8_t *wanted) {
    const gf_plan *plan = &step->args.plan;
    const gf_cuda_embed own = own_rows(step, judged(step, i));
    gf_cuda_select p = selection(step, i, &own);
    p.wanted = wanted;
    gf_quantile_place(plan->negatives[i], plan->copies, plan->o.alpha, &p.best, &p.fraction);
    if (wanted && gf_pool_place(plan, i, &p.best, &p.fraction)) p.unpaired = NULL;
    QUEUE(step, gf_cuda_select_rows(&p, stream_of(step)));
    return GLOFND_OK;
}

/* FNC TOPK: the score of the last flagged pair, and the last flagged column among equal scores. THRESHOLD: see there. */
static glofnd_status batch_topk(const cuda_step *step, int i) {
    const gf_cuda_step *args = &step->args;
    if (args->plan.o.fnc_rule == GLOFND_FNC_THRESHOLD) {
        QUEUE(step, gf_cuda_fix_thresholds(args, i, stream_of(step)));
        return GLOFND_OK;
    }
    const gf_cuda_embed own = own_rows(step, step->call->q->support_a ? &args->side[i].support : &args->side[i].z);
    gf_cuda_select p = selection(step, i, &own);
    p.best = gf_top_count(args->plan.negatives[i], args->plan.o.alpha);
    p.tie = args->side[i].own.tie;
    QUEUE(step, gf_cuda_select_rows(&p, stream_of(step)));
    return GLOFND_OK;
}

/* quantile[] of side i against the ring of recent embeddings. */
static glofnd_status ring_quantiles(const cuda_step *step, int i) {
    const gf_cuda_step *args = &step->args;
    const gf_cuda_embed own = own_rows(step, judged(step, i));
    gf_cuda_select p = selection(step, i, &own);
    p.k = &args->store.ring[other_side(step, i)];
    p.live = &args->store.state->ring_count;
    p.shift = -1;
    p.row_id = args->side[i].row_id;
    p.col_id = args->store.ring_id[other_side(step, i)];
    p.row_key = NULL, p.unpaired = NULL;
    p.best = args->store.ring_rows;
    QUEUE(step, gf_cuda_select_rows(&p, stream_of(step)));
    return GLOFND_OK;
}

/* Lambda moves before the sums; that of SHRINKAGE moves at the end of the rows. */
static int moves_lambda(const gf_plan *plan) {
    return plan->learned && plan->updating && !plan->pooled && plan->o.learner != GLOFND_LEARN_RING;
}

static int uses_ring(const gf_plan *plan) { return plan->learned && plan->updating && plan->o.learner == GLOFND_LEARN_RING; }

/* SHRINKAGE: the shared row has started. What a kernel noted stays true until the state is replaced. */
static int pool_is_there(const gf_device_step *call) {
    const volatile int32_t *there = call->s ? call->s->pool_there : NULL;
    return there && there[0] && there[call->plan->anchored - 1];
}

static int pool_may_start(const gf_device_step *call) { return call->plan->pooled && !pool_is_there(call); }

/* SHRINKAGE: an anchor that comes for the first time starts at a quantile of its own. */
static int anchors_may_start(const gf_plan *plan) { return gf_rows_tell(plan, 0) || gf_rows_tell(plan, plan->sides - 1); }

/* Thresholds of some anchors are quantiles, or are made of them or of the positives. */
static int selects_thresholds(const gf_device_step *call) {
    const gf_plan *plan = call->plan;
    const int may_start =
        plan->updating && (pool_may_start(call) || anchors_may_start(plan) || (moves_lambda(plan) && plan->learner.init_visits));
    return (plan->thresholds && !plan->learned) || may_start || uses_ring(plan);
}

/* SHRINKAGE, several ranks, the first step: as start_pool of method/step.c. On one rank the kernel `open` does it. */
static glofnd_status start_pool(const cuda_step *step, int i) {
    enum { VALUES, SQUARES, WEIGHTS };
    gf_cuda_control *control = step->device->control;
    const gf_cuda_step *args = &step->args;
    const double rows = (double)args->plan.all, expected = gf_row_expects(&args->plan, i) * rows;
    int32_t starts = 0;
    glofnd_anchor pool = {0};
    double lo = -1.0, hi = 1.0, sum[2];
    if (!step->call->reduce || pool_is_there(step->call)) return GLOFND_OK;
    TRY(fetch_numbers(step, &starts, &control->pool_starts[i], sizeof starts));
    for (int k = 0; starts && k < GF_POOL_HALVINGS + 2; k++) {
        const int part = k < WEIGHTS ? k : WEIGHTS;
        const double at = part == VALUES ? 0.0 : part == SQUARES ? sum[0] / rows : 0.5 * (lo + hi);
        QUEUE(step, gf_cuda_pool_sum(args, i, part, at, gf_pool_scale(&args->plan.learner, &pool), stream_of(step)));
        TRY(fetch_numbers(step, sum, control->quantile[i], sizeof sum));
        TRY(reduce_ranks(step, sum, 2));
        if (part == SQUARES) pool.m = (float)(sum[0] / sum[1]);
        if (part == WEIGHTS) gf_pool_halve(&lo, &hi, sum[0], expected);
    }
    if (!starts) return GLOFND_OK;
    gf_pool_start(&args->plan.learner, &pool, 0.5 * (lo + hi), expected);
    return return_numbers(step, &control->pool[i], &pool, sizeof pool);
}

/* SHRINKAGE, several ranks: after the totals of the first half. */
static glofnd_status move_pool(const cuda_step *step) {
    const gf_plan *plan = &step->args.plan;
    double sum[2][GF_POOL_FIELDS];
    if (!plan->pooled || !plan->updating || !step->call->reduce) return GLOFND_OK;
    if (step->call->queue_sum) {
        TRY(queue_sum(step, step->device->control->moves[0], GF_POOL_FIELDS * plan->sides));
    } else {
        TRY(fetch_numbers(step, sum, step->device->control->moves, sizeof sum));
        TRY(reduce_ranks(step, sum[0], GF_POOL_FIELDS * plan->sides));
        TRY(return_numbers(step, step->device->control->moves, sum, sizeof sum));
    }
    QUEUE(step, gf_cuda_move_pool(&step->args, stream_of(step)));
    return GLOFND_OK;
}

static glofnd_status open_thresholds(const cuda_step *step) {
    const gf_plan *plan = &step->args.plan;
    gf_cuda_control *control = step->device->control;
    for (int i = 0; i < plan->sides && !plan->positive; i++) {
        if (uses_ring(plan)) TRY(ring_quantiles(step, i));
        else if (plan->topk) TRY(batch_topk(step, i));
        else TRY(batch_quantiles(step, i, plan->learned ? step->args.side[i].starts : NULL));
        if (pool_may_start(step->call)) TRY(start_pool(step, i));
        if (!plan->shared || plan->pooled) continue;
        QUEUE(step, gf_cuda_sum_quantiles(&step->args, i, stream_of(step)));
        TRY(reduce_if(step, &control->starts[i], control->quantile[i]));
    }
    QUEUE(step, gf_cuda_open_rows(&step->args, GF_CUDA_OPEN, stream_of(step)));
    return GLOFND_OK;
}

/* ----- lambda moves (equation 6), sums below it: passes B, or all at once ----- */

static glofnd_status update_lambda(const cuda_step *step) {
    const gf_plan *plan = &step->args.plan;
    gf_cuda_control *control = step->device->control;
    own_passes count;
    make_judged_passes(step, &count);
    QUEUE(step, gf_cuda_count(count.pass, plan->sides, stream_of(step)));
    for (int i = 0; i < plan->sides && plan->shared; i++) {
        QUEUE(step, gf_cuda_count_above(&step->args, i, stream_of(step)));
        TRY(reduce_if(step, &control->shared_open[i], control->above[i]));
    }
    QUEUE(step, gf_cuda_decide(&step->args, stream_of(step)));
    return GLOFND_OK;
}

/* MUTUAL, several ranks: thresholds of all rows, before they come with the links. The host waits. */
static glofnd_status gather_thresholds(const cuda_step *step) {
    enum { PART = 2048 };
    const gf_plan *plan = &step->args.plan;
    const int64_t first = first_own_row(step), end = first + plan->own;
    for (int i = 0; i < plan->sides; i++)
        for (int64_t at = 0; at < plan->all; at += PART) {
            float theta[PART];
            double sum[PART];
            const int64_t n = GF_MIN(PART, plan->all - at), from = GF_MAX(at, first), to = GF_MIN(at + n, end);
            if (from < to)
                TRY(fetch_numbers(step, &theta[from - at], step->args.side[i].own.lo + (from - first),
                                  sizeof *theta * (size_t)(to - from)));
            for (int64_t r = 0; r < n; r++) sum[r] = at + r >= from && at + r < to ? (double)theta[r] : 0.0;
            TRY(reduce_ranks(step, sum, (int)n));
            for (int64_t r = 0; r < n; r++) theta[r] = (float)sum[r];
            TRY(return_numbers(step, step->args.side[i].every.theta + at, theta, sizeof *theta * (size_t)n));
        }
    return GLOFND_OK;
}

/* FIXED: the guide's similarities decide. It has no candidates: their marks stay 0. */
static glofnd_status mark_by_guide(const cuda_step *step, int both_ends) {
    const gf_plan *plan = &step->args.plan;
    const int64_t first = first_own_row(step);
    const float *theta = step->device->guide_theta;
    const gf_cuda_embed *guide = &step->device->guide, own = own_rows(step, guide);
    own_passes y;
    make_passes(step, rows_for_stats, &y);
    for (int i = 0; i < plan->sides; i++) {
        const gf_cuda_rows *row = &step->args.side[i].own;
        const size_t bytes = sizeof *row->marks * (size_t)(plan->own * row->marks_ld);
        const gf_cuda_marking m = {.row_theta = theta + first,
                                   .col_theta = both_ends || plan->mutual ? theta : NULL,
                                   .row_group = step->args.side[i].every.group + first,
                                   .col_group = step->args.side[other_side(step, i)].every.group,
                                   .mutual = plan->mutual,
                                   .cols = plan->all};
        if (plan->candidates[other_side(step, i)] > 0) {
            QUEUE(step, cudaMemsetAsync(row->marks, 0, bytes, stream_of(step)));
            QUEUE(step, cudaMemsetAsync(row->marks_col, 0, bytes, stream_of(step)));
        }
        y.pass[i].q = &own, y.pass[i].k = guide;
        y.pass[i].math = gf_cuda_guide_math(y.pass[i].math);
        QUEUE(step, gf_cuda_mark(&y.pass[i], &m, stream_of(step)));
    }
    return GLOFND_OK;
}

/* Bits of the flagged pairs: by the own rows' anchors, as pass B needs them; or by both ends of a pair, for pass C. */
static glofnd_status mark_pairs(const cuda_step *step, int both_ends) {
    const int64_t first = first_own_row(step);
    own_passes y;
    if (step->args.plan.fixed) return mark_by_guide(step, both_ends);
    make_judged_passes(step, &y);
    for (int i = 0; i < step->args.plan.sides; i++) {
        const gf_cuda_rows *own = &step->args.side[i].every, *col = &step->args.side[other_side(step, i)].every;
        const float *before = step->args.plan.one_rank ? step->args.side[other_side(step, i)].own.lo : col->theta;
        const gf_cuda_marking m = {.row_theta = both_ends ? own->theta + first : step->args.side[i].own.lo,
                                   .col_theta = both_ends                ? col->theta
                                                : step->args.plan.mutual ? before
                                                                         : NULL,
                                   .mutual = step->args.plan.mutual,
                                   .row_group = own->group + first,
                                   .col_group = col->group,
                                   .cols = step->args.plan.all};
        QUEUE(step, gf_cuda_mark(&y.pass[i], &m, stream_of(step)));
    }
    return GLOFND_OK;
}

/* From the thresholds to the losses of the rows: u (equation 7), the weight of every kept pair, the new state. */
static glofnd_status row_losses(const cuda_step *step) {
    const gf_cuda_step *args = &step->args;
    const gf_plan *plan = &args->plan;
    own_passes sum;
    make_passes(step, rows_for_stats, &sum);
    if (plan->several) QUEUE(step, gf_cuda_sum_positives(args, stream_of(step)));
    if (plan->pooled && plan->updating && (plan->marked || plan->flags & GF_GROUP)) { /* else the sums tell the counts */
        own_passes count;
        make_judged_passes(step, &count);
        QUEUE(step, gf_cuda_count(count.pass, plan->sides, stream_of(step)));
    }
    if (gf_cuda_is_small(args, sum.pass)) { /* all of this is one kernel */
        QUEUE(step, gf_cuda_small(args, sum.pass, stream_of(step)));
        return GLOFND_OK;
    }
    const gf_cuda_moving moving = {plan->learner,
                                   gf_foresight_of(&plan->learner),
                                   plan->per_sample,
                                   {plan->negatives[0], plan->negatives[1]},
                                   {args->side[0].fresh, args->side[1].fresh},
                                   {args->side[0].open, args->side[1].open}};
    if (moves_lambda(plan) && !plan->shared && !plan->bank && !plan->marked && gf_cuda_can_move(sum.pass, plan->sides, &moving)) {
        QUEUE(step, gf_cuda_move(sum.pass, plan->sides, &moving, stream_of(step)));
    } else {
        if (moves_lambda(plan)) TRY(update_lambda(step));
        if (plan->mutual && !plan->fixed && !plan->one_rank) TRY(gather_thresholds(step));
        if (plan->marked) TRY(mark_pairs(step, 0));
        QUEUE(step, gf_cuda_stats(sum.pass, plan->sides, stream_of(step)));
    }
    QUEUE(step, gf_cuda_finish(args, stream_of(step)));
    if (args->copy) QUEUE(step, gf_cuda_close_copies(args, stream_of(step)));
    return GLOFND_OK;
}

/* ----- gradients: pass C ----- */

static unsigned grad_flags(const gf_plan *plan) {
    unsigned flags = plan->flags;
    if (!plan->masking) flags &= ~(unsigned)(GF_GROUP | GF_TIE | GF_COUNT | GF_MARKS);
    if (plan->want & GLOFND_WANT_QUALITY) flags |= GF_QUALITY;
    if (plan->authors_ranks) flags |= GF_COLSUM;
    return flags;
}

static glofnd_status pair_gradients(const cuda_step *step) {
    own_passes y;
    make_passes(step, rows_for_grad, &y);
    for (int i = 0; i < step->args.plan.sides; i++) {
        y.pass[i].col_role = 1;
        y.pass[i].buffer = step->device->weights, y.pass[i].buffer_bytes = step->device->weights_bytes;
    }
    QUEUE(step, gf_cuda_grad(y.pass, step->args.plan.sides, stream_of(step)));
    return GLOFND_OK;
}

/* Candidates have no marks: thresholds decide, and floors, which only kernels that know groups compare apart from them. */
static unsigned extra_flags(unsigned flags) {
    if (flags & GF_MARKS) flags = (flags & ~(unsigned)GF_MARKS) | GF_GROUP;
    return flags & ~(unsigned)(GF_QUALITY | GF_COLSUM);
}

/* Gradients of the candidates of every side: as rows against the own rows, whose anchors alone weigh them. */
static glofnd_status candidate_gradients(const cuda_step *step) {
    const gf_cuda_step *args = &step->args;
    const int64_t all = args->plan.all;
    for (int i = 0; i < args->plan.sides; i++) {
        const gf_cuda_side *side = &args->side[i];
        const gf_candidates *x = &step->call->q->candidates[i];
        const gf_cuda_embed k = own_rows(step, &args->side[other_side(step, i)].z);
        const gf_cuda_rows col = rows_for_grad(step, other_side(step, i));
        gf_cuda_embed q = side->z;
        gf_cuda_rows row = side->every;
        if (x->n == 0 || !x->grad) continue;
        q.f32.rows = x->n, q.f32.row += all * q.f32.ld;
        q.hi = q.hi ? (uint16_t *)q.hi + all * q.f32.ld : NULL;
        q.lo = q.lo ? (uint16_t *)q.lo + all * q.f32.ld : NULL;
        row.theta += all, row.floor += all, row.log_w += all, row.w += all, row.inv_tau += all, row.attract += all;
        row.tie += all, row.group += all, row.label += all, row.align += all;
        row.grad = side->extra_grad;
        const gf_cuda_pass pass = {.q = &q,
                                   .k = &k,
                                   .q0 = all, /* no sample of the batch */
                                   .shift = args->plan.per_sample - 1,
                                   .row_key = side->key ? side->key + all : NULL,
                                   .col_key = own_keys(step, other_side(step, i)),
                                   .row = &row,
                                   .col = &col,
                                   .col_role = 1,
                                   .flags = extra_flags(args->plan.flags),
                                   .omega = (float)args->plan.o.omega,
                                   .math = (gf_cuda_math)step->device->math,
                                   .tau = known_tau(args),
                                   .buffer = step->device->weights,
                                   .buffer_bytes = step->device->weights_bytes,
                                   .scratch = step->device->scratch};
        QUEUE(step, gf_cuda_grad(&pass, 1, stream_of(step)));
        QUEUE(step, gf_cuda_write_candidates(args, i, x->grad, stream_of(step)));
    }
    return GLOFND_OK;
}

/* ----- neighbours: what the first half of a step finds stays in the workspace for the second one ----- */

/* Never 0. Ids are on the device. */
static uint64_t neighbour_key(const gf_step_batch *batch) { return gf_neighbour_key(batch) | 1; }

static glofnd_status find_neighbours(const cuda_step *step) {
    step->device->near_key = 0;
    if (!step->args.plan.neighbours) return GLOFND_OK;
    QUEUE(step, gf_cuda_neighbours(&step->args, &step->device->near, stream_of(step)));
    step->device->near_key = neighbour_key(step->call->q);
    return GLOFND_OK;
}

/* ----- the halves of a step ----- */

static glofnd_status first_half(const cuda_step *step, int selects) {
    const gf_cuda_step *args = &step->args;
    const gf_plan *plan = &args->plan;
    const int updates = !(plan->want & GLOFND_WANT_NO_UPDATE);
    if (plan->bank) QUEUE(step, gf_cuda_bank(args, stream_of(step)));
    TRY(find_neighbours(step));
    if (selects) TRY(open_thresholds(step));
    for (int i = 0; i < plan->sides && plan->want & GLOFND_WANT_QUANTILE && plan->updating && plan->o.alpha > 0.0; i++)
        TRY(batch_quantiles(step, i, NULL));
    /* Official, two views: u starts anew only if no anchor of the batch has one, on any rank. */
    int64_t *const where = &step->device->control->seen;
    int64_t seen = 0;
    if (step->call->reduce && plan->official && plan->sides == 1) {
        TRY(fetch_numbers(step, &seen, where, sizeof seen));
        double sum = (double)seen;
        TRY(reduce_ranks(step, &sum, 1));
        seen = (int64_t)sum;
        TRY(return_numbers(step, where, &seen, sizeof seen));
    }
    TRY(row_losses(step));
    if (plan->bank && updates) QUEUE(step, gf_cuda_bank_save(args, stream_of(step)));
    if (step->call->shape->ring > 0 && updates) QUEUE(step, gf_cuda_ring_push(args, stream_of(step)));
    return GLOFND_OK;
}

/* sums_rows: the totals of the first half are still to be added up. */
static glofnd_status second_half(cuda_step *step, int sums_rows) {
    const gf_cuda_step *args = &step->args;
    const gf_cuda_near *near = &step->device->near;
    step->args.plan.flags = grad_flags(&args->plan);
    if (args->plan.flags & GF_MARKS) TRY(mark_pairs(step, 1));
    TRY(pair_gradients(step));
    TRY(candidate_gradients(step));
    if (args->plan.neighbours) QUEUE(step, gf_cuda_neighbours_gradient(args, near, stream_of(step)));
    if (args->plan.several) QUEUE(step, gf_cuda_positives_gradient(args, stream_of(step)));
    QUEUE(step, gf_cuda_write(args, sums_rows, stream_of(step)));
    if (args->plan.neighbours && sums_rows) QUEUE(step, gf_cuda_neighbours_loss(args, near, stream_of(step)));
    if (args->plan.flags & GF_QUALITY || args->plan.authors_ranks) QUEUE(step, gf_cuda_sum_grad(args, stream_of(step)));
    return GLOFND_OK;
}

/* A step that fails in the middle must not leave its flags and ids to the next one. */
static void abandon_step(const cuda_step *step) {
    const size_t kept = offsetof(gf_cuda_control, starts), ended = offsetof(gf_cuda_control, above);
    gf_device_ctx *device = step->device;
    cudaMemsetAsync((char *)device->control + kept, 0, ended - kept, device->stream);
    cudaMemsetAsync(device->seen_ids, 0, 2 * sizeof *device->seen_ids * (size_t)step->args.plan.cols, device->stream);
}

/* ----- entries of gf_device ----- */

/* Ids are checked and state is gathered; thresholds are read at once, unless a selection makes them. */
static int first_tasks(int selects) { return GF_CUDA_SPREAD | GF_CUDA_GATHER | (selects ? 0 : GF_CUDA_OPEN); }

glofnd_status gf_cuda_run_step(gf_error *err, gf_device_ctx *device, const gf_device_step *call) {
    const int selects = selects_thresholds(call); /* asked once: it may change meanwhile */
    cuda_step step;
    TRY(begin_step(&step, err, device, call, first_tasks(selects)));
    glofnd_status status = first_half(&step, selects);
    if (status == GLOFND_OK) status = second_half(&step, 1);
    if (status == GLOFND_OK) status = move_pool(&step);
    if (status != GLOFND_OK) abandon_step(&step);
    return status;
}

glofnd_status gf_cuda_run_rows(gf_error *err, gf_device_ctx *device, const gf_device_step *call) {
    const int selects = selects_thresholds(call);
    cuda_step step;
    TRY(begin_step(&step, err, device, call, first_tasks(selects)));
    const glofnd_status status = first_half(&step, selects);
    if (status != GLOFND_OK) {
        abandon_step(&step);
        return status;
    }
    QUEUE(&step, gf_cuda_sum_rows(&step.args, device->stream));
    TRY(move_pool(&step));
    if (step.args.plan.neighbours) QUEUE(&step, gf_cuda_neighbours_loss(&step.args, &device->near, device->stream));
    return GLOFND_OK;
}

/* The second half begins with the links of all ranks. */
static glofnd_status begin_with_links(cuda_step *step, gf_error *err, gf_device_ctx *device, const gf_device_step *call) {
    TRY(begin_step(step, err, device, call, GF_CUDA_SPREAD));
    step->args.plan.flags = grad_flags(&step->args.plan);
    QUEUE(step, gf_cuda_unpack(&step->args, device->stream));
    if (step->args.plan.bank) QUEUE(step, gf_cuda_bank(&step->args, device->stream));
    return GLOFND_OK;
}

glofnd_status gf_cuda_run_grad(gf_error *err, gf_device_ctx *device, const gf_device_step *call) {
    cuda_step step;
    FAIL_IF(err, call->plan->neighbours && device->near_key != neighbour_key(call->q), GLOFND_E_ARGUMENT,
            "neighbours: call glofnd_step_grad after glofnd_step_rows for the same batch, on the same context");
    TRY(begin_with_links(&step, err, device, call));
    return second_half(&step, 0);
}

/* Groups of the batch for a detector that is given groups. Uses the workspace of the step, before the step. */
glofnd_status gf_cuda_run_components(gf_error *err, gf_device_ctx *device, const gf_device_step *call, int32_t *group) {
    TRY(gf_cuda_prepare(err, device, call->shape, choose_math(call->plan, !call->tau)));
    const gf_cuda_embed_job job = embed_job(device, call);
    const gf_cuda_embed z[2] = {device->side[0].z, device->side[1].z};
    CUDA_TRY(err, gf_cuda_embed_rows(&job, device->stream));
    CUDA_TRY(err, gf_cuda_components(z, call->plan->sides, device->nearest.value, device->nearest.column, device->scratch,
                                     call->shape->own, group, device->stream));
    return GLOFND_OK;
}

typedef struct mask_memory {
    void *scratch;
    uint8_t *by_sample; /* two views: [rows of all views][2 cols] */
} mask_memory;

static glofnd_status write_masks(gf_error *err, gf_device_ctx *device, const gf_device_step *call, mask_memory *m) {
    const int64_t cols = call->plan->cols, own = call->plan->rows * call->plan->per_sample;
    const int views = call->plan->sides == 1;
    cuda_step step;
    own_passes y;
    TRY(begin_with_links(&step, err, device, call));
    CUDA_TRY(err, cudaMalloc(&m->scratch, 2 * gf_cuda_select_scratch(own, cols * call->plan->per_sample)));
    if (views) CUDA_TRY(err, cudaMalloc((void **)&m->by_sample, (size_t)own * 2 * (size_t)cols));
    if (step.args.plan.flags & GF_MARKS) TRY(mark_pairs(&step, 1));
    make_passes(&step, rows_for_grad, &y);
    for (int i = 0; i < call->plan->sides; i++) {
        y.pass[i].scratch = m->scratch;
        CUDA_TRY(err, gf_cuda_mask(&y.pass[i], views ? m->by_sample : call->keep + i * cols, 2 * cols, device->stream));
    }
    if (views) CUDA_TRY(err, gf_cuda_by_view(call->keep, m->by_sample, own, cols, device->stream));
    CUDA_TRY(err, cudaStreamSynchronize(device->stream));
    return GLOFND_OK;
}

/* For inspection only: allocates memory, and waits. */
glofnd_status gf_cuda_run_mask(gf_error *err, gf_device_ctx *device, const gf_device_step *call) {
    mask_memory m = {NULL, NULL};
    const glofnd_status status = write_masks(err, device, call, &m);
    cudaFree(m.scratch);
    cudaFree(m.by_sample);
    return status;
}
