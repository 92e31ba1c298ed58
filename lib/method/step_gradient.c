/* step_gradient.c - pass C: the gradient of the own rows, as anchors and as negatives of the others; and the mask of kept pairs,
 * by the same comparisons of the same bits. */
#include <math.h>
#include <string.h>

#include "method/step.h"

/* ---- links to arrays ---- */

static void unpack_side(const gf_step *t, const gf_link *links, int i) {
    gf_side *side = &t->ws->side[i];
    gf_rows *x = &side->every;
    for (int64_t r = 0; r < t->shape->all; r++) {
        const gf_link *l = &links[t->shape->per_sample == 2 ? r : 2 * r + i];
        x->theta[r] = gf_row_theta(&t->plan, l);
        x->floor[r] = l->floor;
        x->log_w[r] = l->log_w;
        x->w[r] = expf(x->log_w[r]);
        x->inv_tau[r] = l->inv_tau;
        x->attract[r] = l->attract;
        x->tie[r] = l->tie;
        side->pos[r] = l->pos;
    }
}

static void unpack_links(gf_step *t, const gf_link *links) {
    if (!t->plan.masking) t->plan.flags &= ~(unsigned)(GF_GROUP | GF_TIE | GF_COUNT | GF_MARKS);
    for (int i = 0; i < t->shape->sides; i++) unpack_side(t, links, i);
    if (t->plan.flags & GF_MARKS) gf_step_mark_all(t);
}

/* Similarity of every row of the batch to its positive, for the official per-rank loss. */
static void positives_of_all(const gf_step *t) {
    const gf_embed *a = &t->ws->side[0].z, *b = &t->ws->side[1].z;
    for (int64_t i = 0; i < t->q->cols; i++) {
        double s = 0.0;
        for (int64_t j = 0; j < t->q->dim; j++) s += (double)a->row[i * a->ld + j] * (double)b->row[i * b->ld + j];
        t->ws->side[0].every.align[i] = t->ws->side[1].every.align[i] = (float)s;
    }
}

/* ---- the pass ---- */

/* Row arrays of the own rows inside those of all rows; counts, and without FNC TOPK the gradient, are the own rows' already. */
static gf_rows own_rows(const gf_step *t, int i) {
    const gf_side *side = &t->ws->side[i];
    const int64_t off = t->q->row0 * t->shape->per_sample;
    gf_rows x = side->every;
    x.theta += off, x.floor += off, x.log_w += off, x.w += off, x.inv_tau += off, x.attract += off, x.tie += off;
    x.group += off, x.label += off;
    if (t->shape->topk) x.grad += off * side->z.ld;
    x.same = side->own.same, x.hits = side->own.hits, x.sum = side->own.sum, x.moment = side->own.moment;
    x.marks = side->own.marks, x.marks_col = side->own.marks_col, x.marks_ld = side->own.marks_ld;
    return x;
}

static void clear_outputs(const gf_step *t) {
    const gf_shape *s = t->shape;
    for (int i = 0; i < s->sides; i++) {
        gf_side *side = &t->ws->side[i];
        const int64_t rows = gf_pad(s->topk ? s->all : s->own);
        memset(side->every.grad, 0, sizeof(float) * (size_t)(rows * side->z.ld));
        memset(side->own.same, 0, sizeof(int32_t) * (size_t)s->own), memset(side->own.hits, 0, sizeof(int32_t) * (size_t)s->own);
        memset(side->own.sum, 0, sizeof(double) * (size_t)s->own), memset(side->own.moment, 0, sizeof(double) * (size_t)s->own);
    }
}

/* One rank: every similarity once, P from both anchors, both gradients. */
static void whole_batch(gf_step *t) {
    gf_side *side = t->ws->side;
    const int other = gf_step_other(t, 0);
    gf_rows row = own_rows(t, 0), col = own_rows(t, other);
    gf_pass p = gf_step_pass(t, 0);
    p.q = &side[0].z;
    p.row = &row;
    p.col = &col;
    p.col_role = 1;
    p.symmetric = t->shape->sides == 1;
    p.col_grad = col.grad;
    if (t->reuse && p.tiles) p.flags |= GF_REUSE_TILES;
    gf_cpu_grad(&p);
}

/* Several ranks: own rows against all columns, with the weights of both anchors; the gradient of a column is made by its rank. */
static void own_against_all(gf_step *t) {
    for (int i = 0; i < t->shape->sides; i++) {
        gf_own_pass x;
        gf_step_own_pass(t, i, own_rows(t, i), &x);
        x.p.col_role = 1;
        if (t->plan.authors_ranks) x.p.flags |= GF_COLSUM;
        gf_cpu_grad(&x.p);
    }
}

/* FNC TOPK flags by a score that only the anchor's own row knows: all anchors' rows, each giving to both ends. Every rank does
 * the whole batch and keeps its rows. Counts come in the order of all rows, so they use the arrays of `every`. */
static void anchors_only(gf_step *t) {
    for (int i = 0; i < t->shape->sides; i++) {
        const int other = gf_step_other(t, i);
        gf_side *side = &t->ws->side[i];
        gf_rows row = side->every, col = t->ws->side[other].every;
        gf_pass p = gf_step_pass(t, i);
        p.q = &side->z;
        p.score = t->q->support_a ? &side->support : NULL;
        p.scores = gf_step_copies(t);
        p.score_stride = t->shape->all;
        p.flags &= ~(unsigned)GF_QUALITY;
        p.row = &row;
        p.col = &col;
        p.symmetric = t->shape->sides == 1;
        p.col_grad = col.grad;
        gf_cpu_grad(&p);
    }
}

/* Counts of the own rows for FNC TOPK, in a separate pass without gradient. */
static void topk_quality(gf_step *t) {
    for (int i = 0; i < t->shape->sides; i++) {
        gf_own_pass x;
        gf_step_own_pass(t, i, own_rows(t, i), &x);
        x.row.grad = NULL;
        gf_cpu_grad(&x.p);
    }
}

/* ---- from dZ to the caller's gradient ---- */

/* dh = (dz - z (z . dz)) / |h|: through the normalisation. A 16-bit gradient is made in the place of dz, then rounded. */
static void write_row(const gf_step *t, const float *z, const float *positive, double pull, float *dz, double norm, void *out) {
    const int64_t dim = t->q->dim;
    const double scale = t->plan.authors_ranks ? 0.5 * (double)t->q->cols / (double)t->q->rows : 1.0;
    float *grad = t->q->grad_dtype == GLOFND_F32 ? out : dz;
    double along = 0.0;
    if (t->o->normalize)
        for (int64_t j = 0; j < dim; j++) along += (double)z[j] * ((double)dz[j] + pull * (double)positive[j]);
    for (int64_t j = 0; j < dim; j++)
        grad[j] = (float)(scale * ((double)dz[j] + pull * (double)positive[j] - along * (double)z[j]) / norm);
    if (grad == dz) gf_dtype_from_float(t->q->grad_dtype, out, dz, dim);
}

static void write_grads(const gf_step *t, void *grad_a, void *grad_b) {
    const int per_sample = t->shape->per_sample, last = t->shape->sides - 1;
    const gf_side *a = &t->ws->side[0], *b = &t->ws->side[last];
    const int64_t ld = a->z.ld, skip = t->shape->topk ? 0 : t->q->row0 * per_sample; /* where grad[] starts */
    const int64_t bytes = (int64_t)gf_dtype_bytes(t->q->grad_dtype);
    for (int64_t i = 0; i < t->q->rows; i++) {
        const int64_t ra = (t->q->row0 + i) * per_sample, rb = ra + 1 - last;
        const float *za = a->z.row + ra * ld, *zb = b->z.row + rb * ld;
        const double pull = (double)a->pos[ra] + (double)b->pos[rb];
        write_row(t, za, zb, pull, a->every.grad + (ra - skip) * ld, (double)a->norm[ra],
                  (char *)grad_a + i * t->q->grad_a_stride * bytes);
        write_row(t, zb, za, pull, b->every.grad + (rb - skip) * ld, (double)b->norm[rb],
                  (char *)grad_b + i * t->q->grad_b_stride * bytes);
    }
}

/* ---- stats of this half ---- */

/* Per anchor, rows pooled; 0/0 counts as 1, as in the authors' code. */
static void add_quality(const gf_step *t, const gf_link *links, gf_totals *sum) {
    const int per_sample = t->plan.per_sample;
    for (int i = 0; i < t->shape->sides; i++) {
        const gf_rows *x = &t->ws->side[i].own;
        for (int64_t a = 0; a < t->q->rows; a++) {
            int64_t same = 0, hits = 0, flagged = 0;
            for (int v = 0; v < per_sample; v++) {
                const int64_t r = a * per_sample + v;
                same += x->same[r], hits += x->hits[r];
                flagged += t->shape->negatives - links[2 * (t->q->row0 + a) + (per_sample == 2 ? v : i)].kept;
            }
            sum->precision += ((double)hits + 1e-9) / ((double)flagged + 1e-9);
            sum->recall += ((double)hits + 1e-9) / ((double)same + 1e-9);
            sum->same += (double)same, sum->hits += (double)hits;
        }
    }
}

static void add_rank_half(const gf_step *t, gf_totals *sum) {
    for (int i = 0; i < 2; i++)
        for (int64_t r = 0; r < t->shape->own; r++) {
            sum->rank_sum += t->ws->side[i].own.sum[r];
            sum->rank_moment += t->ws->side[i].own.moment[r];
        }
}

void gf_step_gradient(gf_step *t, const gf_link *links, void *grad_a, void *grad_b, glofnd_stats *stats) {
    const int quality = (t->q->want & GLOFND_WANT_QUALITY) != 0;
    gf_totals sum = {0};
    if (quality) t->plan.flags |= GF_QUALITY;
    clear_outputs(t);
    unpack_links(t, links);
    if (t->plan.authors_ranks) positives_of_all(t);
    if (t->plan.topk && t->plan.masking) anchors_only(t);
    else if (t->plan.one_rank) whole_batch(t);
    else own_against_all(t);
    if (quality && t->plan.topk && t->plan.masking) topk_quality(t);
    gf_step_neighbours_gradient(t);
    write_grads(t, grad_a, grad_b);
    if (quality) add_quality(t, links, &sum);
    if (t->plan.authors_ranks) add_rank_half(t, &sum);
    gf_totals_grad(&t->plan, &sum, quality, stats);
}

/* ---- inspection ---- */

/* Two views: columns come as (sample, view) and are wanted as [view][sample]. */
static void by_view(uint8_t *keep, uint8_t *scratch, int64_t cols) {
    memcpy(scratch, keep, (size_t)(2 * cols));
    for (int64_t j = 0; j < cols; j++) {
        keep[j] = scratch[2 * j];
        keep[cols + j] = scratch[2 * j + 1];
    }
}

void gf_step_show_mask(gf_step *t, const gf_link *links, uint8_t *keep) {
    const int sides = t->shape->sides;
    const int64_t cols = t->q->cols;
    unpack_links(t, links);
    for (int i = 0; i < sides; i++) {
        gf_own_pass x;
        gf_step_own_pass(t, i, own_rows(t, i), &x);
        gf_cpu_mask(&x.p, keep + i * cols, 2 * cols);
    }
    for (int64_t r = 0; sides == 1 && r < t->shape->own; r++) by_view(keep + r * 2 * cols, (uint8_t *)t->ws->id_scratch, cols);
}
