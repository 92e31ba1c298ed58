/* step_begin.c - unit embeddings of the batch, packed for the passes, and the plan: the meaning of the options in this epoch. */
#include <math.h>
#include <string.h>

#include "method/options.h"
#include "method/step.h"

int gf_step_other(const gf_step *t, int i) { return t->shape->sides == 2 ? 1 - i : 0; }

gf_embed gf_step_own(const gf_step *t, const gf_embed *e) {
    gf_embed own = *e;
    own.rows = t->shape->own;
    if (e->row) own.row = e->row + t->q->row0 * t->shape->per_sample * e->ld; /* NULL: there is no support */
    if (e->row16) own.row16 = e->row16 + t->q->row0 * t->shape->per_sample * e->ld16;
    own.col = NULL;
    own.col16 = NULL;
    return own;
}

int gf_step_copies(const gf_step *t) {
    return t->q->support_a && t->o->fnc_aggregate == GLOFND_FNC_MAX ? (int)t->shape->support : 1;
}

gf_pass gf_step_pass(const gf_step *t, int i) {
    const gf_shape *s = t->shape;
    const gf_side *other = &t->ws->side[gf_step_other(t, i)];
    return (gf_pass){
        .k = &other->z,
        .shift = (int)s->per_sample - 1,
        .flags = t->plan.flags,
        .omega = (float)t->plan.o.omega,
        .window_cap = s->window_cap,
        .tile = s->tile,
        .tiles = t->ws->tiles,
        .scratch = t->ws->tile_scratch,
        .threads = (int)s->threads,
    };
}

void gf_step_own_pass(const gf_step *t, int i, gf_rows row, gf_own_pass *x) {
    const gf_side *side = &t->ws->side[i];
    x->own = gf_step_own(t, &side->z);
    x->score = gf_step_own(t, &side->support);
    x->row = row;
    x->col = t->ws->side[gf_step_other(t, i)].every;
    x->p = gf_step_pass(t, i);
    x->p.q = &x->own;
    x->p.q0 = t->q->row0 * t->shape->per_sample;
    x->p.score = t->plan.topk && t->q->support_a ? &x->score : NULL;
    x->p.scores = gf_step_copies(t);
    x->p.score_stride = t->shape->all;
    x->p.row = &x->row;
    x->p.col = &x->col;
}

glofnd_status gf_step_sum(gf_step *t, double *x, int n) {
    if (!t->c->reduce) return GLOFND_OK;
    FAIL_IF(&t->c->err, t->c->reduce(t->c->reduce_user, x, n) != 0, GLOFND_E_ARGUMENT,
            "the sum over ranks given to glofnd_ctx_reduce failed");
    return GLOFND_OK;
}

static unsigned pass_flags(const gf_plan *p) {
    const glofnd_options *o = &p->o;
    unsigned f = 0;
    if (p->thresholds || p->groups) f |= GF_COUNT;
    if (p->masking) f |= GF_MASK;
    if (p->marked) f |= GF_MARKS; /* groups are among the marks */
    else if (p->groups) f |= GF_GROUP;
    if (p->topk) f |= GF_TIE;
    if (p->masking && o->action == GLOFND_ACTION_ATTRACT) f |= GF_ATTRACT;
    if (p->masking && o->action != GLOFND_ACTION_DROP && o->omega > 0.0) f |= GF_WEIGHT;
    if (gf_loss_needs_mean(o)) f |= GF_MOMENT;
    /* exp(1/tau) and its inverse must fit a float, squared. */
    if (gf_loss_individual(o) || p->tau <= 0.025) f |= GF_SHIFT;
    return f;
}

gf_plan gf_plan_of(const glofnd_options *o, const glofnd_batch *q) {
    const int on = o->alpha > 0.0;
    gf_plan p = {.o = *o, .rows = q->rows, .cols = q->cols, .epoch = q->epoch, .want = q->want};
    if (o->action == GLOFND_ACTION_ATTRACT) p.o.omega = o->attract_omega;
    p.sides = gf_loss_sides(o->loss);
    p.per_sample = 2 / p.sides;
    p.negatives = (q->cols - 1) * p.per_sample;
    p.tau = q->tau > 0.0 ? q->tau : o->tau;
    p.gamma = q->gamma > 0.0 ? q->gamma : o->gamma;
    p.log_gamma = log(p.gamma), p.log_rest = log1p(-p.gamma), p.log_batch = log((double)q->cols);
    p.official = o->compat == GLOFND_COMPAT_OFFICIAL;
    p.learned = on && (o->detector == GLOFND_DETECT_GLOFND || o->detector == GLOFND_DETECT_SINGLE);
    p.thresholds = p.learned || (on && o->detector == GLOFND_DETECT_FNC);
    p.topk = p.thresholds && !p.learned && o->fnc_rule != GLOFND_FNC_QUANTILE;
    p.groups = o->detector == GLOFND_DETECT_ORACLE || q->group != NULL;
    p.updating = q->epoch >= o->update_epoch;
    p.masking = (p.thresholds || p.groups) && q->epoch >= o->mask_epoch;
    p.shared = p.learned && (o->detector == GLOFND_DETECT_SINGLE ||
                             ((p.official || p.updating) && q->epoch < o->update_epoch + o->lambda_warmup));
    p.bank = o->similarity == GLOFND_SIMILARITY_BANK &&
             (o->detector == GLOFND_DETECT_GLOFND || o->detector == GLOFND_DETECT_SINGLE || o->detector == GLOFND_DETECT_FNC);
    p.marked = p.thresholds && gf_options_mark(o);
    p.neighbours = p.bank && o->neighbours > 0 && q->epoch >= o->mask_epoch;
    p.one_rank = q->rows == q->cols;
    p.authors_ranks = p.official && !p.one_rank && (o->loss == GLOFND_LOSS_SOGCLR2 || o->loss == GLOFND_LOSS_FASTCLIP);
    p.learner = gf_learner_of(o, p.sides == 2, q->epoch);
    p.flags = pass_flags(&p);
    return p;
}

uint64_t gf_plan_phase(const gf_plan *p) {
    const glofnd_anchor seen = {.clock = 1}; /* if it starts nevertheless, the epoch is the reason */
    const double numbers[] = {p->tau,
                              p->gamma,
                              (double)p->learner.epoch_clock,
                              p->shared,
                              p->masking,
                              p->updating,
                              p->groups,
                              gf_row_starts(p, &seen),
                              p->want,
                              p->neighbours,
                              p->neighbours && p->o.neighbour_rows > 0 ? p->epoch : -1};
    uint64_t hash = 0xcbf29ce484222325u, bits;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        memcpy(&bits, &numbers[i], sizeof bits);
        hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

static glofnd_status bad_row(gf_step *t, const char *name, const gf_source *h, int64_t r) {
    double square = 0.0;
    for (int64_t i = 0; i < t->q->dim; i++) {
        const double x = (double)gf_dtype_at(h->dtype, gf_source_row(h, r), i);
        FAIL_IF(&t->c->err, !isfinite(x), GLOFND_E_NUMERIC, "batch.%s: row %lld (anchor %lld) holds %g at position %lld", name,
                (long long)r, (long long)t->q->id[r], x, (long long)i);
        square += x * x;
    }
    GF_FAIL(&t->c->err, GLOFND_E_ARGUMENT, "batch.%s: row %lld (anchor %lld) has length %g; pass unit rows or set normalize = 1",
            name, (long long)r, (long long)t->q->id[r], sqrt(square));
}

static glofnd_status put(gf_step *t, const char *name, const void *rows, int64_t stride, const gf_embed *e, int64_t first,
                         int normalize, float *norm) {
    const gf_source h = {rows, stride, t->q->dtype};
    const int64_t bad = gf_cpu_embed(e, &h, t->q->cols, first, t->shape->per_sample, normalize, norm, (int)t->shape->threads);
    return bad < 0 ? GLOFND_OK : bad_row(t, name, &h, bad);
}

static glofnd_status embed(gf_step *t) {
    const glofnd_batch *q = t->q;
    const int sides = t->shape->sides, last = sides - 1, normalize = t->o->normalize;
    gf_side *side = t->ws->side;
    TRY(put(t, "a", q->a, q->a_stride, &side[0].z, 0, normalize, side[0].norm));
    TRY(put(t, "b", q->b, q->b_stride, &side[last].z, 1 - last, normalize, side[last].norm));
    for (int i = 0; i < sides; i++) gf_cpu_pack(&side[i].z, (int)t->shape->threads);
    return GLOFND_OK;
}

/* The rows of all samples in copy n of side i. */
static gf_embed copy_of(const gf_step *t, int i, int64_t n) {
    gf_embed e = t->ws->side[i].support;
    e.rows = t->shape->all;
    e.row += n * t->shape->all * e.ld;
    return e;
}

/* The mean of unit vectors gives the mean of their similarities. */
static void average_copies(const gf_step *t, int i) {
    const gf_embed *e = &t->ws->side[i].support;
    const int64_t numbers = t->shape->all * e->ld;
    for (int64_t x = 0; x < numbers; x++) {
        double sum = 0.0;
        for (int64_t n = 0; n < t->shape->support; n++) sum += (double)e->row[n * numbers + x];
        e->row[x] = (float)(sum / (double)t->shape->support);
    }
}

/* Support vectors are always normalised. The lengths go to `pos`, unused so far. */
static glofnd_status embed_support(gf_step *t) {
    const glofnd_batch *q = t->q;
    const int last = t->shape->sides - 1;
    const size_t bytes = (size_t)(q->cols * q->dim) * gf_dtype_bytes(q->dtype);
    const char *rows[2] = {q->support_a, last ? q->support_b : q->support_a};
    gf_side *side = t->ws->side;
    if (!t->plan.topk || !q->support_a) return GLOFND_OK;
    for (int64_t n = 0; n < t->shape->support; n++) {
        const gf_embed a = copy_of(t, 0, n), b = copy_of(t, last, n);
        TRY(put(t, "support_a", rows[0] + (size_t)n * bytes, q->dim, &a, 0, 1, side[0].pos));
        TRY(put(t, last ? "support_b" : "support_a", rows[1] + (size_t)n * bytes, q->dim, &b, 1 - last, 1, side[last].pos));
    }
    for (int i = 0; i <= last && gf_step_copies(t) == 1 && t->shape->support > 1; i++) average_copies(t, i);
    return GLOFND_OK;
}

/* Labels and groups per row; -1 where there is none. */
static void spread(const gf_step *t) {
    const glofnd_batch *q = t->q;
    const int32_t *group = t->o->detector == GLOFND_DETECT_ORACLE ? q->label : q->group;
    const int per_sample = t->shape->per_sample;
    for (int i = 0; i < t->shape->sides; i++) {
        gf_side *side = &t->ws->side[i];
        const int64_t off = q->row0 * per_sample;
        for (int64_t r = 0; r < t->shape->all; r++) {
            side->every.group[r] = group ? group[r / per_sample] : -1;
            side->every.label[r] = q->label ? q->label[r / per_sample] : -1;
        }
        side->own.group = side->every.group + off;
        side->own.label = side->every.label + off;
    }
}

/* The diagonal of S: similarity of each own row to its positive, in double. */
static void positives(const gf_step *t) {
    const gf_side *side = t->ws->side;
    const int64_t first = t->q->row0, dim = t->q->dim;
    const gf_embed *a = &side[0].z, *b = &side[t->shape->sides - 1].z;
    const int per_sample = t->shape->per_sample;
    for (int64_t i = 0; i < t->q->rows; i++) {
        const float *x = a->row + (first + i) * per_sample * a->ld;
        const float *y = b->row + ((first + i) * per_sample + per_sample - 1) * b->ld;
        double s = 0.0;
        for (int64_t j = 0; j < dim; j++) s += (double)x[j] * (double)y[j];
        side[0].positive[i * per_sample] = s;
        side[t->shape->sides - 1].positive[i * per_sample + per_sample - 1] = s;
    }
}

glofnd_status gf_step_begin(gf_step *t, glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q) {
    const gf_shape shape = gf_shape_of(c, q->rows, q->cols, q->dim);
    TRY(gf_workspace_reserve(c, &shape, 0));
    *t = (gf_step){.c = c, .o = &c->o, .q = q, .s = s, .ws = c->ws};
    t->shape = &t->ws->shape;
    t->plan = gf_plan_of(&c->o, q);
    TRY(embed(t));
    TRY(embed_support(t));
    spread(t);
    positives(t);
    return GLOFND_OK;
}
