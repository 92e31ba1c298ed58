/* reference_learn.c - how the thresholds move: the paper's equation (update of lambda_i), its Adam forms, and the ring. */
#include "method/options.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of the batch that teach one lambda: those of all samples of the anchor, both views, or of one modality; or all of a side. */
typedef struct row_set {
    const ref_step *r;
    int64_t id; /* -1: all anchors */
    int side;
} row_set;

static int is_in(const row_set *set, int64_t row) {
    return (set->r->two_views || row % 2 == set->side) && (set->id < 0 || set->r->id[row] == set->id);
}

static row_set rows_of_anchor(const ref_step *r, int64_t i, int side) { return (row_set){r, r->id[2 * i], side}; }

static row_set rows_of_side(const ref_step *r, int side) { return (row_set){r, -1, side}; }

static double share_above(ref_step *r, row_set rows, double lambda) {
    int64_t above = 0, negatives = 0;
    for (int64_t row = 0; row < r->rows; row++) {
        if (!is_in(&rows, row)) continue;
        for (int64_t col = 0; col < r->cols; col++) {
            if (!ref_is_negative(r, row, col)) continue;
            negatives++;
            const double s = r->judged[row * r->cols + col];
            above += s > lambda;
            if (fabs(s - lambda) < r->margin) r->margin = fabs(s - lambda);
        }
    }
    return (double)above / (double)negatives;
}

static double mean_quantile(const ref_step *r, row_set rows, double alpha) {
    double sum = 0, count = 0;
    for (int64_t row = 0; row < r->rows; row++)
        if (is_in(&rows, row)) sum += ref_quantile(r, row, alpha), count++;
    return sum / count;
}

static double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

static double learner_eps(const glofnd_options *o, const ref_step *r) {
    return o->compat == GLOFND_COMPAT_OFFICIAL && !r->two_views ? 1e-14 : 1e-8;
}

static void adam(const glofnd_options *o, double eps, double lr, double g, double t, glofnd_anchor *a) {
    const double m = o->lambda_beta1 * a->m + (1 - o->lambda_beta1) * g;
    const double v = o->lambda_beta2 * a->v + (1 - o->lambda_beta2) * g * g;
    const double mh = m / (1 - pow(o->lambda_beta1, t)), vh = v / (1 - pow(o->lambda_beta2, t));
    a->m = (float)m;
    a->v = (float)v;
    a->lambda = (float)clamp(a->lambda - lr * mh / (sqrt(vh) + eps), -1, 1);
}

/* One visit of one lambda by the rows that belong to it. */
static void learn_row(const glofnd_options *o, const glofnd_batch *q, ref_step *r, row_set rows, glofnd_anchor *a) {
    const int by_epoch = o->learner == GLOFND_LEARN_ADAM_OFFICIAL || o->compat == GLOFND_COMPAT_OFFICIAL;
    const int quantile_start = gf_starts_at_quantile(o);
    if (quantile_start && (o->compat == GLOFND_COMPAT_OFFICIAL ? q->epoch == o->update_epoch : a->clock == 0)) {
        a->lambda = (float)mean_quantile(r, rows, o->alpha);
    } else {
        const double g = o->alpha - share_above(r, rows, a->lambda);
        const double visits = (double)a->clock + (quantile_start ? 0 : 1), t = by_epoch ? q->epoch + 1.0 : visits;
        const int shrinks = o->lambda_decay > 0 && visits > o->lambda_decay;
        const double lr = shrinks ? o->lambda_lr * o->lambda_decay / visits : o->lambda_lr;
        if (o->learner == GLOFND_LEARN_SGD) a->lambda = (float)clamp(a->lambda - lr * g, -1, 1);
        else adam(o, learner_eps(o, r), lr, g, t, a);
    }
    a->clock++;
}

/* ---- ring: exact quantile against recent embeddings ---- */

static double ring_quantile(const glofnd_options *o, const ref_ring *ring, const ref_step *r, int64_t row, int64_t id) {
    double *x = calloc((size_t)ring->count + 1, sizeof *x);
    if (!x) abort();
    int64_t n = 0;
    for (int64_t e = 0; e < ring->count; e++) {
        if (ring->id[e] == id) continue;
        for (int64_t j = 0; j < r->dim; j++) x[n] += r->b[row * r->dim + j] * ring->z[e * r->dim + j];
        n++;
    }
    const int64_t k = (int64_t)fmax(1, round(o->alpha * (double)n));
    const double value = ref_kth_largest(x, n, k);
    free(x);
    return value;
}

static void learn_from_ring(const glofnd_options *o, const ref_ring *ring, const glofnd_batch *q, const ref_step *r, int side,
                            int64_t i, glofnd_anchor *a) {
    if ((double)ring->count < ceil(1 / o->alpha)) return;
    const row_set rows = rows_of_anchor(r, i, side);
    double mean = 0, count = 0;
    for (int64_t row = 0; row < r->rows; row++)
        if (is_in(&rows, row)) mean += ring_quantile(o, ring, r, row, q->id[i]), count++;
    mean /= count;
    a->clock++;
    const double rate = fmax(1 / (double)a->clock, 0.3);
    a->lambda = (float)((1 - rate) * a->lambda + rate * mean);
}

void ref_ring_push(ref_store *s, const glofnd_batch *q, const ref_step *r) {
    for (int64_t row = 0; row < r->rows; row++) {
        ref_ring *ring = &s->ring[r->two_views ? 0 : 1 - row % 2];
        if (!ring->capacity) return;
        memcpy(ring->z + ring->next * r->dim, r->b + row * r->dim, (size_t)r->dim * sizeof(double));
        ring->id[ring->next] = q->id[row / 2];
        ring->next = (ring->next + 1) % ring->capacity;
        if (ring->count < ring->capacity) ring->count++;
    }
}

/* ---- shrinkage: counts against the threshold of all anchors (formulas/lambda.h), in other words and without rounding ---- */

static double scale_of(const glofnd_options *o, const glofnd_anchor *pool) {
    return sqrt(fmax(pool->m, 1e-12)) / log(exp(1) / o->alpha);
}

/* Of every 16th row of the side, with the first row of the sample that comes next: mean (S - lambda)^2. */
static double mean_square(const ref_step *r, int side, double lambda) {
    double sum = 0, n = 0;
    for (int64_t k = 0; k < (r->two_views ? r->rows : r->batch); k += 16) {
        const int64_t row = r->two_views ? k : 2 * k + side, next = (row / 2 + 1) % r->batch;
        const double d = r->judged[row * r->cols + 2 * next + (r->two_views ? 0 : 1 - side)] - lambda;
        sum += d * d, n++;
    }
    return sum / n;
}

static int64_t most_negatives(const ref_step *r, row_set rows) {
    int64_t most = 0;
    for (int64_t row = 0; row < r->rows; row++)
        if (is_in(&rows, row) && ref_negatives(r, row) > most) most = ref_negatives(r, row);
    return most;
}

/* Pairs that a row of a side expects above its threshold. */
static double expects(const glofnd_options *o, const ref_step *r, row_set side) {
    return o->alpha * (double)(most_negatives(r, side) / r->copies);
}

/* With two thirds of a pair or more an anchor starts between the last value of its rows that is expected above, and the next. */
static int tells(double each, int shared) { return !shared && each >= 2.0 / 3; }

static double row_start(const glofnd_options *o, const ref_step *r, int64_t row, row_set side, int shared) {
    const double each = expects(o, r, side);
    const int64_t n = ref_negatives(r, row), k = (int64_t)fmin(floor(each + 0.5), (double)(n / r->copies - 1));
    if (!tells(each, shared) && each < 1) return ref_kth_negative(r, row, 1);
    if (!tells(each, shared) || n < most_negatives(r, side))
        return ref_quantile(r, row, o->alpha); /* some pairs of it are none */
    if (k == 0) return ref_kth_negative(r, row, 1);
    return (ref_kth_negative(r, row, k * r->copies) + ref_kth_negative(r, row, k * r->copies + 1)) / 2;
}

static double weights(const glofnd_options *o, const ref_step *r, row_set rows, double h, double lambda, int shared) {
    const double each = expects(o, r, rows);
    double sum = 0;
    for (int64_t row = 0; row < r->rows; row++) {
        if (!is_in(&rows, row)) continue;
        const double value = row_start(o, r, row, rows, shared);
        if (each >= 1 || value > lambda) sum += fmax(1, each) * exp(fmin((value - lambda) / h, 10));
    }
    return sum;
}

static void start_pool(const glofnd_options *o, const ref_step *r, int side, int shared, glofnd_anchor *pool) {
    const row_set rows = rows_of_side(r, side);
    const double count = (double)(r->two_views ? r->rows : r->batch), expected = expects(o, r, rows) * count;
    double mean = 0, lo = -1, hi = 1;
    for (int64_t row = 0; row < r->rows; row++)
        if (is_in(&rows, row)) mean += row_start(o, r, row, rows, shared) / count;
    pool->m = (float)mean_square(r, side, mean);
    for (int k = 0; k < 40; k++) {
        const double middle = (lo + hi) / 2;
        if (weights(o, r, rows, scale_of(o, pool), middle, shared) >= fmax(1, expected)) lo = middle;
        else hi = middle;
    }
    pool->lambda = (float)clamp(lo - fmin(0, scale_of(o, pool) * log(expected)), -1, 1);
    pool->v = (float)-expected;
    pool->clock = 1;
}

static void learn_from_counts(const glofnd_options *o, ref_store *s, const glofnd_batch *q, ref_step *r, int side, int shared) {
    glofnd_anchor *pool = &s->shared[side];
    if (pool->clock == 0 || pool->v >= 0) start_pool(o, r, side, shared, pool);
    const double h = scale_of(o, pool), before = pool->lambda;
    double above = 0, pairs = 0;
    for (int64_t i = 0; i < r->batch; i++) {
        glofnd_anchor *a = &s->row[side][q->id[i]];
        const row_set rows = rows_of_anchor(r, i, side);
        const int starts = a->clock == 0 && tells(expects(o, r, rows_of_side(r, side)), shared);
        double n = 0, own = 0, own_rows = 0;
        int again = 0; /* a copy of an earlier sample */
        for (int64_t k = 0; k < i; k++) again |= q->id[k] == q->id[i];
        if (again) continue;
        for (int64_t row = 0; row < r->rows; row++)
            if (is_in(&rows, row))
                n += (double)ref_negatives(r, row), own += row_start(o, r, row, rows_of_side(r, side), shared), own_rows++;
        own /= own_rows;
        const double expected = o->alpha * n, known = fmax(0, -a->v);
        if (shared) a = pool;
        else if (starts) a->lambda = (float)clamp(own, -1, 1);
        else if (a->clock == 0) a->lambda = (float)before;
        else if (a->v < 0) a->lambda = (float)clamp(a->lambda + before - a->m, -1, 1);
        for (int64_t row = 0; row < r->rows; row++)
            if (is_in(&rows, row)) r->theta[row] = a->lambda;
        const double count = round(share_above(r, rows, a->lambda) * n);
        if (!starts) above += count, pairs += n; /* the pool does not count flags that do not depend on it */
        if (shared) continue;
        const double prior = 2 + expected + known;
        a->m = (float)before;
        a->lambda = (float)clamp(a->lambda + h * fmin(2, log((count + prior) / (expected + prior))), -1, 1);
        a->v = (float)-fmin(known + expected, 32 + 3 * expected);
        a->clock++;
    }
    const double expected = o->alpha * pairs, known = -pool->v, prior = 1 + expected + known;
    const double rate = fmax(1 / (pool->clock + 1.0), 1.0 / 32);
    pool->m = (float)((1 - rate) * pool->m + rate * mean_square(r, side, before));
    pool->lambda = (float)clamp(before + h * fmin(2, log((above + prior) / (expected + prior))), -1, 1);
    pool->v = (float)-fmin(known + expected, 256 + 8 * expected);
    pool->clock++;
}

/* ---- entry ---- */

void ref_learn(const glofnd_options *o, ref_store *s, const glofnd_batch *q, ref_step *r) {
    const int per_anchor = o->detector == GLOFND_DETECT_GLOFND || o->detector == GLOFND_DETECT_MUTUAL;
    const int learned = (per_anchor || o->detector == GLOFND_DETECT_SINGLE) && o->alpha > 0;
    const int update = learned && q->epoch >= o->update_epoch;
    const int warm_up = q->epoch >= o->update_epoch && q->epoch < o->update_epoch + o->lambda_warmup;
    const int shared = o->detector == GLOFND_DETECT_SINGLE || warm_up;
    for (int side = 0; side < (r->forward ? 1 : s->modalities); side++) {
        glofnd_anchor *common = &s->shared[side];
        if (update && gf_learner_rule(o) == GLOFND_LEARN_SHRINKAGE) {
            learn_from_counts(o, s, q, r, side, shared);
            continue;
        }
        if (update && shared) learn_row(o, q, r, rows_of_side(r, side), common);
        for (int64_t i = 0; i < r->batch; i++) {
            glofnd_anchor *a = &s->row[side][q->id[i]];
            if (ref_first_sample(r, i) < i) continue; /* it was taken with the first one */
            if (update && !shared && a->clock == 0 && common->clock > 0) {
                a->lambda = common->lambda;
                a->m = common->m;
                a->v = common->v;
                a->clock = common->clock;
            }
            if (update && !shared && o->learner == GLOFND_LEARN_RING) learn_from_ring(o, &s->ring[side], q, r, side, i, a);
            else if (update && !shared) learn_row(o, q, r, rows_of_anchor(r, i, side), a);
            const row_set rows = rows_of_anchor(r, i, side);
            for (int64_t row = 0; row < r->rows; row++)
                if (is_in(&rows, row)) r->theta[row] = shared ? common->lambda : a->lambda;
        }
    }
}
