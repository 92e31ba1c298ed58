/* cuda_step.c - the step on the device: the order of its kernels. Nothing here waits, unless ranks must sum something.
 *
 * cuda_step.h describes the kernels; method/step/step.c is the same step on the CPU.
 */
#include "cuda/cuda_step.h"

#include <stddef.h>
#include <string.h>

#include "cuda/cuda_neighbours.h"
#include "cuda/cuda_step_ranks.h"
#include "util/array.h"

/* ----- the beginning of every call ----- */

/* All passes of a step use one math. FNC TOPK and THRESHOLD compare scores, which need all bits. */
static gf_cuda_math math_of(const gf_plan *p, int tau_known) {
    const double tau = gf_loss_individual(&p->o) && p->o.tau_min < p->tau ? p->o.tau_min : p->tau;
    if (p->topk) return GF_CUDA_EXACT;
    switch (p->o.math) {
    case GLOFND_MATH_EXACT: return GF_CUDA_EXACT;
    case GLOFND_MATH_TF32: return GF_CUDA_TF32;
    case GLOFND_MATH_BF16: return GF_CUDA_BF16;
    case GLOFND_MATH_SPLIT: return GF_CUDA_SPLIT;
    case GLOFND_MATH_AUTO: break;
    }
    return tau_known && tau >= 0.05 ? GF_CUDA_BF16 : GF_CUDA_SPLIT;
}

/* Unit rows x, y rounded: |x' y' - x y| <= this. */
static float margin_of(gf_cuda_math math) { return math == GF_CUDA_EXACT ? 0.0f : math == GF_CUDA_BF16 ? 4e-3f : 4e-5f; }

static gf_cuda_embed_job embed_job(gf_device_ctx *d, const gf_device_step *x) {
    const int last = x->plan->sides - 1;
    gf_cuda_side *a = &d->side[0], *b = &d->side[last];
    return (gf_cuda_embed_job){.a = {x->q->a, x->q->a_stride, x->q->dtype},
                               .b = {x->q->b, x->q->b_stride, x->q->dtype},
                               .za = &a->z,
                               .zb = &b->z,
                               .rows = x->q->cols,
                               .first_b = 1 - last,
                               .step = x->plan->per_sample,
                               .normalize = x->plan->o.normalize,
                               .norm_a = a->norm,
                               .norm_b = b->norm,
                               .positive_a = a->positive,
                               .positive_b = b->positive,
                               .bad = &d->control->bad_embed};
}

/* `what`: GF_CUDA_SPREAD ... of cuda_step.h. */
static glofnd_status begin(gf_error *err, gf_device_ctx *d, const gf_device_step *x, int what, gf_cuda_step *t) {
    const gf_cuda_math math = math_of(x->plan, !x->tau);
    TRY(gf_cuda_prepare(err, d, x->shape, math));
    *t = (gf_cuda_step){.plan = *x->plan,
                        .row0 = x->q->row0,
                        .dim = x->q->dim,
                        .id = x->q->id,
                        .slot = x->q->slot,
                        .label = x->q->label,
                        .group = x->q->group,
                        .bank = {x->q->bank_a, x->q->bank_b},
                        .control = d->control,
                        .seen_ids = d->seen_ids,
                        .partial = d->partial,
                        .row_totals = d->row_totals,
                        .links = x->links ? x->links : d->links,
                        .grad_a = x->grad_a,
                        .grad_b = x->grad_b,
                        .grad_stride = {x->q->grad_a_stride, x->q->grad_b_stride},
                        .grad_dtype = x->q->grad_dtype,
                        .tau = x->tau,
                        .margin = margin_of(math)};
    memcpy(t->side, d->side, sizeof t->side);
    t->store = gf_cuda_store_of(x, d->stream), t->state = x->state;
    const gf_cuda_embed_job job = embed_job(d, x);
    TRY(gf_cuda_embed_support(err, d, x, t));
    CUDA_TRY(err, gf_cuda_begin(t, &job, what, d->stream));
    return GLOFND_OK;
}

/* ----- passes ----- */

static int other_side(const gf_cuda_step *t, int i) { return t->plan.sides == 2 ? 1 - i : 0; }

/* The own rows of an embedding. */
static gf_cuda_embed own_rows(const gf_cuda_step *t, const gf_cuda_embed *e) {
    const int64_t first = t->row0 * t->plan.per_sample, at = first * e->f32.ld;
    gf_cuda_embed own = *e;
    own.f32.rows = t->plan.rows * t->plan.per_sample;
    own.f32.row = e->f32.row + at;
    own.hi = e->hi ? (uint16_t *)e->hi + at : NULL;
    own.lo = e->lo ? (uint16_t *)e->lo + at : NULL;
    return own;
}

typedef struct own_pass { /* of the own rows of one side against all columns; points to its own members */
    gf_cuda_pass pass;
    gf_cuda_embed q, score;
    gf_rows row, col;
} own_pass;

/* Whether all rows have one temperature, and the host knows that it is not too small for a fixed peak. */
static gf_cuda_tau tau_of(const gf_cuda_step *t) {
    if (gf_loss_individual(&t->plan.o)) return GF_TAU_ANY;
    if (t->tau) return GF_TAU_ON_DEVICE;
    return 1.0 / t->plan.tau <= (double)GF_FIXED_LIMIT ? GF_TAU_ONE : GF_TAU_ANY;
}

static void make_pass(const gf_device_step *x, const gf_cuda_step *t, int i, gf_rows row, gf_cuda_math math, own_pass *y) {
    const gf_cuda_side *side = &t->side[i], *other = &t->side[other_side(t, i)];
    const int scored = t->plan.flags & GF_TIE && x->q->support_a;
    y->q = own_rows(t, &side->z);
    if (scored) y->score = own_rows(t, &side->support);
    y->row = row;
    y->col = other->every;
    y->pass = (gf_cuda_pass){.p = {.q0 = t->row0 * t->plan.per_sample,
                                   .shift = t->plan.per_sample - 1,
                                   .row = &y->row,
                                   .col = &y->col,
                                   .scores = scored ? gf_cuda_scores(x) : 1,
                                   .score_stride = x->shape->all,
                                   .flags = t->plan.flags,
                                   .omega = (float)t->plan.o.omega},
                             .q = &y->q,
                             .k = &other->z,
                             .score = scored ? &y->score : NULL,
                             .col_score = scored ? &other->support : NULL,
                             .math = math,
                             .tau = tau_of(t)};
}

/* The embeddings of a side that thresholds are compared with the similarities of. */
static const gf_cuda_embed *judged(const gf_cuda_step *t, int i) { return t->plan.bank ? &t->side[i].bank : &t->side[i].z; }

/* The same for the similarities that thresholds are compared with. */
static void make_judged_pass(const gf_device_step *x, const gf_cuda_step *t, int i, gf_rows row, gf_cuda_math math, own_pass *y) {
    make_pass(x, t, i, row, math, y);
    y->q = own_rows(t, judged(t, i));
    y->pass.k = judged(t, other_side(t, i));
}

/* Numbers of the own rows in pass B. */
static gf_rows rows_for_stats(const gf_cuda_step *t, int i) {
    const int64_t first = t->row0 * t->plan.per_sample;
    gf_rows row = t->side[i].own;
    row.group = t->side[i].every.group + first;
    row.label = t->side[i].every.label + first;
    return row;
}

/* Runs `pass` for the own rows of every side. */
static glofnd_status each_side(gf_error *err, const gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t,
                               cudaError_t (*pass)(const gf_cuda_pass *p, int n, cudaStream_t stream)) {
    own_pass y[2];
    gf_cuda_pass passes[2];
    for (int i = 0; i < t->plan.sides; i++) {
        if (pass == gf_cuda_count) make_judged_pass(x, t, i, rows_for_stats(t, i), (gf_cuda_math)d->math, &y[i]);
        else make_pass(x, t, i, rows_for_stats(t, i), (gf_cuda_math)d->math, &y[i]);
        passes[i] = y[i].pass;
        passes[i].buffer = d->scratch, passes[i].buffer_bytes = d->scratch_bytes;
    }
    CUDA_TRY(err, pass(passes, t->plan.sides, d->stream));
    return GLOFND_OK;
}

/* ----- selections ----- */

static gf_cuda_select selection(const gf_device_ctx *d, const gf_cuda_step *t, int i, const gf_cuda_embed *own) {
    return (gf_cuda_select){.s = {.q0 = t->row0 * t->plan.per_sample,
                                  .shift = t->plan.per_sample - 1,
                                  .value = t->side[i].quantile,
                                  .scratch = d->scratch},
                            .q = own,
                            .k = judged(t, other_side(t, i)),
                            .math = (gf_cuda_math)d->math};
}

/* quantile[] of side i: the (1-alpha) quantile of each own row's similarities in this batch. */
static glofnd_status batch_quantiles(gf_error *err, const gf_device_ctx *d, const gf_cuda_step *t, int i, const uint8_t *wanted) {
    const gf_cuda_embed own = own_rows(t, judged(t, i));
    gf_cuda_select p = selection(d, t, i, &own);
    p.wanted = wanted;
    gf_quantile_place(t->plan.negatives, gf_plan_copies(&t->plan), t->plan.o.alpha, &p.s.best, &p.s.fraction);
    CUDA_TRY(err, gf_cuda_select_rows(&p, d->stream));
    return GLOFND_OK;
}

/* FNC TOPK: the score of the last flagged pair, and the last flagged column among equal scores. THRESHOLD: see there. */
static glofnd_status batch_topk(gf_error *err, const gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t, int i) {
    if (t->plan.o.fnc_rule == GLOFND_FNC_THRESHOLD) {
        CUDA_TRY(err, gf_cuda_fix_thresholds(t, i, d->stream));
        return GLOFND_OK;
    }
    const gf_cuda_embed own = own_rows(t, x->q->support_a ? &t->side[i].support : &t->side[i].z);
    gf_cuda_select p = selection(d, t, i, &own);
    p.s.copies = gf_cuda_scores(x);
    p.s.copy_stride = x->shape->all;
    p.s.best = gf_top_count(t->plan.negatives, t->plan.o.alpha);
    p.s.tie = t->side[i].own.tie;
    CUDA_TRY(err, gf_cuda_select_rows(&p, d->stream));
    return GLOFND_OK;
}

/* quantile[] of side i against the ring of recent embeddings. */
static glofnd_status ring_quantiles(gf_error *err, const gf_device_ctx *d, const gf_cuda_step *t, int i) {
    const gf_cuda_embed own = own_rows(t, judged(t, i));
    gf_cuda_select p = selection(d, t, i, &own);
    p.k = &t->store.ring[other_side(t, i)];
    p.live = &t->store.state->ring_count;
    p.s.shift = -1;
    p.s.row_id = t->side[i].row_id;
    p.s.col_id = t->store.ring_id[other_side(t, i)];
    p.s.alpha = t->plan.o.alpha;
    p.s.best = t->store.ring_rows;
    CUDA_TRY(err, gf_cuda_select_rows(&p, d->stream));
    return GLOFND_OK;
}

/* ----- marks ----- */

/* The passes that make marks: of the own rows' anchors by lo, or of all anchors by theta. */
static glofnd_status mark(gf_error *err, const gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t, int all) {
    const int64_t first = t->row0 * t->plan.per_sample;
    for (int i = 0; i < t->plan.sides; i++) {
        const int other = other_side(t, i);
        const gf_rows *own = &t->side[i].every, *col = &t->side[other].every;
        own_pass y;
        make_judged_pass(x, t, i, t->side[i].own, (gf_cuda_math)d->math, &y);
        y.pass.p.scratch = d->scratch;
        const gf_cuda_marking m = {.row_theta = all ? own->theta + first : t->side[i].own.lo,
                                   .col_theta = all ? col->theta : NULL,
                                   .row_group = own->group + first,
                                   .col_group = col->group};
        CUDA_TRY(err, gf_cuda_mark(&y.pass, &m, d->stream));
    }
    return GLOFND_OK;
}

/* ----- first half ----- */

static int moves_lambda(const gf_plan *p) { return p->learned && p->updating && p->o.learner != GLOFND_LEARN_RING; }
static int may_start(const gf_plan *p) { return moves_lambda(p) && p->o.lambda_init == GLOFND_INIT_QUANTILE; }
static int uses_ring(const gf_plan *p) { return p->learned && p->updating && p->o.learner == GLOFND_LEARN_RING; }
static int selects_first(const gf_plan *p) { return (p->thresholds && !p->learned) || may_start(p) || uses_ring(p); }

static glofnd_status select_first(gf_error *err, gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t) {
    const gf_plan *p = &t->plan;
    for (int i = 0; i < p->sides; i++) {
        if (uses_ring(p)) TRY(ring_quantiles(err, d, t, i));
        else if (p->topk) TRY(batch_topk(err, d, x, t, i));
        else TRY(batch_quantiles(err, d, t, i, p->learned ? t->side[i].starts : NULL));
        if (!p->shared) continue;
        CUDA_TRY(err, gf_cuda_sum_quantiles(t, i, d->stream));
        TRY(gf_cuda_sum_starts(err, d, x, i));
    }
    return GLOFND_OK;
}

static glofnd_status move(gf_error *err, gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t) {
    TRY(each_side(err, d, x, t, gf_cuda_count));
    for (int i = 0; i < t->plan.sides && t->plan.shared; i++) {
        CUDA_TRY(err, gf_cuda_count_above(t, i, d->stream));
        TRY(gf_cuda_sum_above(err, d, x, i));
    }
    CUDA_TRY(err, gf_cuda_decide(t, d->stream));
    return GLOFND_OK;
}

/* Count, move and stats at once, if that is possible: then *done. */
static glofnd_status move_and_sum(gf_error *err, gf_device_ctx *d, const gf_cuda_step *t, gf_cuda_pass *pass, int *done) {
    const gf_plan *p = &t->plan;
    const gf_cuda_moving m = {p->learner,   gf_foresight_of(&p->learner),         p->per_sample,
                              p->negatives, {t->side[0].fresh, t->side[1].fresh}, {t->side[0].open, t->side[1].open}};
    for (int i = 0; i < p->sides; i++) pass[i].buffer = d->scratch, pass[i].buffer_bytes = d->scratch_bytes;
    *done = moves_lambda(p) && !p->shared && !p->bank && !p->marked && gf_cuda_can_move(pass, p->sides, &m);
    if (*done) CUDA_TRY(err, gf_cuda_move(pass, p->sides, &m, d->stream));
    return GLOFND_OK;
}

/* Everything from counting to finishing: in one kernel, if the batch is small. */
static glofnd_status sum_and_finish(gf_error *err, gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t) {
    own_pass y[2];
    gf_cuda_pass pass[2];
    for (int i = 0; i < t->plan.sides; i++) {
        make_pass(x, t, i, rows_for_stats(t, i), (gf_cuda_math)d->math, &y[i]);
        pass[i] = y[i].pass;
    }
    if (gf_cuda_is_small(t, pass)) {
        CUDA_TRY(err, gf_cuda_small(t, pass, d->stream));
        return GLOFND_OK;
    }
    int done = 0;
    TRY(move_and_sum(err, d, t, pass, &done));
    if (!done && moves_lambda(&t->plan)) TRY(move(err, d, x, t));
    if (t->plan.marked) TRY(mark(err, d, x, t, 0));
    if (!done) TRY(each_side(err, d, x, t, gf_cuda_stats));
    CUDA_TRY(err, gf_cuda_finish(t, d->stream));
    return GLOFND_OK;
}

static glofnd_status first_half(gf_error *err, gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t) {
    const gf_plan *p = &t->plan;
    if (p->bank) CUDA_TRY(err, gf_cuda_bank(t, d->stream));
    TRY(gf_cuda_find_neighbours(err, d, x, t));
    if (selects_first(p)) {
        TRY(select_first(err, d, x, t));
        CUDA_TRY(err, gf_cuda_open_rows(t, GF_CUDA_OPEN, d->stream));
    }
    for (int i = 0; i < p->sides && p->want & GLOFND_WANT_QUANTILE && p->updating && p->o.alpha > 0.0; i++)
        TRY(batch_quantiles(err, d, t, i, NULL));
    TRY(gf_cuda_sum_seen(err, d, x));
    TRY(sum_and_finish(err, d, x, t));
    if (p->bank && !(p->want & GLOFND_WANT_NO_UPDATE)) CUDA_TRY(err, gf_cuda_bank_save(t, d->stream));
    if (x->shape->ring > 0 && !(p->want & GLOFND_WANT_NO_UPDATE)) CUDA_TRY(err, gf_cuda_ring_push(t, d->stream));
    return GLOFND_OK;
}

/* ----- second half ----- */

/* Arrays of the own rows inside those of all rows; counts and gradients have own rows only. */
static gf_rows rows_for_grad(const gf_cuda_step *t, int i) {
    const gf_cuda_side *side = &t->side[i];
    const int64_t first = t->row0 * t->plan.per_sample;
    gf_rows x = side->every;
    x.theta += first, x.floor += first, x.log_w += first, x.w += first, x.inv_tau += first, x.attract += first, x.tie += first;
    x.group += first, x.label += first, x.align += first;
    x.same = side->own.same, x.hits = side->own.hits, x.sum = side->own.sum, x.moment = side->own.moment;
    x.marks = side->own.marks, x.marks_col = side->own.marks_col, x.marks_ld = side->own.marks_ld;
    return x;
}

static unsigned grad_flags(const gf_plan *p) {
    unsigned flags = p->flags;
    if (!p->masking) flags &= ~(unsigned)(GF_GROUP | GF_TIE | GF_COUNT | GF_MARKS);
    if (p->want & GLOFND_WANT_QUALITY) flags |= GF_QUALITY;
    if (p->authors_ranks) flags |= GF_COLSUM;
    return flags;
}

/* Pass C of all sides. */
static glofnd_status weigh_pairs(gf_error *err, gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t) {
    own_pass y[2];
    gf_cuda_pass passes[2];
    for (int i = 0; i < t->plan.sides; i++) {
        make_pass(x, t, i, rows_for_grad(t, i), (gf_cuda_math)d->math, &y[i]);
        passes[i] = y[i].pass;
        passes[i].p.col_role = 1;
        passes[i].buffer = d->weights, passes[i].buffer_bytes = d->weights_bytes;
    }
    CUDA_TRY(err, gf_cuda_grad(passes, t->plan.sides, d->stream));
    return GLOFND_OK;
}

static glofnd_status second_half(gf_error *err, gf_device_ctx *d, const gf_device_step *x, int sums_rows, gf_cuda_step *t) {
    t->plan.flags = grad_flags(&t->plan);
    if (t->plan.flags & GF_MARKS) TRY(mark(err, d, x, t, 1));
    TRY(weigh_pairs(err, d, x, t));
    if (t->plan.neighbours) CUDA_TRY(err, gf_cuda_neighbours_gradient(t, &d->near, d->stream));
    CUDA_TRY(err, gf_cuda_write(t, sums_rows, d->stream));
    if (t->plan.neighbours && sums_rows) CUDA_TRY(err, gf_cuda_neighbours_loss(t, &d->near, d->stream));
    if (t->plan.flags & GF_QUALITY || t->plan.authors_ranks) CUDA_TRY(err, gf_cuda_sum_grad(t, d->stream));
    return GLOFND_OK;
}

/* ----- entries ----- */

/* A step that fails in the middle must not leave its flags and ids to the next one. */
static void abandon(gf_device_ctx *d, const gf_cuda_step *t) {
    const size_t kept = offsetof(gf_cuda_control, starts), ended = offsetof(gf_cuda_control, above);
    cudaMemsetAsync((char *)d->control + kept, 0, ended - kept, d->stream);
    cudaMemsetAsync(d->seen_ids, 0, 2 * sizeof *d->seen_ids * (size_t)t->plan.cols, d->stream);
}

static glofnd_status rows(gf_error *err, gf_device_ctx *d, const gf_device_step *x, gf_cuda_step *t) {
    const int open = selects_first(x->plan) ? 0 : GF_CUDA_OPEN;
    TRY(begin(err, d, x, GF_CUDA_SPREAD | GF_CUDA_GATHER | open, t));
    const glofnd_status status = first_half(err, d, x, t);
    if (status != GLOFND_OK) abandon(d, t);
    return status;
}

glofnd_status gf_cuda_run_rows(gf_error *err, gf_device_ctx *d, const gf_device_step *x) {
    gf_cuda_step t;
    TRY(rows(err, d, x, &t));
    CUDA_TRY(err, gf_cuda_sum_rows(&t, d->stream));
    if (t.plan.neighbours) CUDA_TRY(err, gf_cuda_neighbours_loss(&t, &d->near, d->stream));
    return GLOFND_OK;
}

glofnd_status gf_cuda_run_step(gf_error *err, gf_device_ctx *d, const gf_device_step *x) {
    gf_cuda_step t;
    TRY(rows(err, d, x, &t));
    const glofnd_status status = second_half(err, d, x, 1, &t);
    if (status != GLOFND_OK) abandon(d, &t);
    return status;
}

static glofnd_status begin_with_links(gf_error *err, gf_device_ctx *d, const gf_device_step *x, gf_cuda_step *t) {
    TRY(begin(err, d, x, GF_CUDA_SPREAD, t));
    t->plan.flags = grad_flags(&t->plan);
    CUDA_TRY(err, gf_cuda_unpack(t, d->stream));
    if (t->plan.bank) CUDA_TRY(err, gf_cuda_bank(t, d->stream));
    return GLOFND_OK;
}

glofnd_status gf_cuda_run_grad(gf_error *err, gf_device_ctx *d, const gf_device_step *x) {
    gf_cuda_step t;
    TRY(gf_cuda_neighbours_found(err, d, x));
    TRY(begin_with_links(err, d, x, &t));
    return second_half(err, d, x, 0, &t);
}

/* Groups of the batch for a detector that the caller gives groups. Uses the workspace of the step, before the step. */
glofnd_status gf_cuda_run_components(gf_error *err, gf_device_ctx *d, const gf_device_step *x, int32_t *group) {
    TRY(gf_cuda_prepare(err, d, x->shape, math_of(x->plan, !x->tau)));
    const gf_cuda_embed_job job = embed_job(d, x);
    const gf_cuda_embed z[2] = {d->side[0].z, d->side[1].z};
    CUDA_TRY(err, gf_cuda_embed_rows(&job, d->stream));
    CUDA_TRY(err, gf_cuda_components(z, x->plan->sides, d->nearest.value, d->nearest.column, d->scratch, x->shape->own, group,
                                     d->stream));
    return GLOFND_OK;
}

typedef struct mask_memory {
    void *scratch;
    uint8_t *by_sample; /* two views: [rows of all views][2 cols] */
} mask_memory;

static glofnd_status masks(gf_error *err, gf_device_ctx *d, const gf_device_step *x, mask_memory *m) {
    const int64_t cols = x->plan->cols, own = x->plan->rows * x->plan->per_sample;
    const int views = x->plan->sides == 1;
    gf_cuda_step t;
    TRY(begin_with_links(err, d, x, &t));
    CUDA_TRY(err, cudaMalloc(&m->scratch, 2 * gf_cuda_select_scratch(own, cols * x->plan->per_sample)));
    if (views) CUDA_TRY(err, cudaMalloc((void **)&m->by_sample, (size_t)own * 2 * (size_t)cols));
    if (t.plan.flags & GF_MARKS) TRY(mark(err, d, x, &t, 1));
    for (int i = 0; i < t.plan.sides; i++) {
        own_pass y;
        make_pass(x, &t, i, rows_for_grad(&t, i), (gf_cuda_math)d->math, &y);
        y.pass.p.scratch = m->scratch;
        CUDA_TRY(err, gf_cuda_mask(&y.pass, views ? m->by_sample : x->keep + i * cols, 2 * cols, d->stream));
    }
    if (views) CUDA_TRY(err, gf_cuda_by_view(x->keep, m->by_sample, own, cols, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    return GLOFND_OK;
}

/* For inspection only: allocates memory, and waits. */
glofnd_status gf_cuda_run_mask(gf_error *err, gf_device_ctx *d, const gf_device_step *x) {
    mask_memory m = {NULL, NULL};
    const glofnd_status status = masks(err, d, x, &m);
    cudaFree(m.scratch);
    cudaFree(m.by_sample);
    return status;
}
