/* reference.c - similarities, flags, gradient of the embeddings, statistics; the order of one step. See reference.h. */
#include "reference.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "method/options.h"
#include "support/losses.h"
#include "util/dtype.h"

static void *zeros(int64_t count, size_t size) {
    void *p = calloc(count > 0 ? (size_t)count : 1, size);
    if (!p) abort();
    return p;
}

/* ---- state ---- */

void ref_store_init(ref_store *s, const gf_store_spec *spec) {
    const glofnd_anchor fresh = {.lambda = 1, .log_u = -INFINITY};
    *s = (ref_store){.n = spec->n, .modalities = spec->modalities};
    for (int side = 0; side < spec->modalities; side++) {
        s->row[side] = zeros(spec->n, sizeof(glofnd_anchor));
        for (int64_t i = 0; i < spec->n; i++) s->row[side][i] = fresh;
        s->shared[side] = fresh;
        s->bank[side] = zeros(spec->n * spec->bank_dim, sizeof(uint16_t));
        s->bank_dim = spec->bank_dim;
        s->ring[side] = (ref_ring){.capacity = spec->ring_rows, .dim = spec->ring_dim};
        s->ring[side].z = zeros(spec->ring_rows * spec->ring_dim, sizeof(double));
        s->ring[side].id = zeros(spec->ring_rows, sizeof(int64_t));
    }
}

void ref_store_copy(ref_store *to, const ref_store *from) {
    *to = *from;
    for (int side = 0; side < from->modalities; side++) {
        const ref_ring *g = &from->ring[side];
        to->row[side] = zeros(from->n, sizeof(glofnd_anchor));
        memcpy(to->row[side], from->row[side], (size_t)from->n * sizeof(glofnd_anchor));
        to->bank[side] = zeros(from->n * from->bank_dim, sizeof(uint16_t));
        memcpy(to->bank[side], from->bank[side], (size_t)(from->n * from->bank_dim) * sizeof(uint16_t));
        to->ring[side].z = zeros(g->capacity * g->dim, sizeof(double));
        memcpy(to->ring[side].z, g->z, (size_t)(g->capacity * g->dim) * sizeof(double));
        to->ring[side].id = zeros(g->capacity, sizeof(int64_t));
        memcpy(to->ring[side].id, g->id, (size_t)g->capacity * sizeof(int64_t));
    }
}

void ref_store_free(ref_store *s) {
    for (int side = 0; side < 2; side++) {
        free(s->row[side]);
        free(s->bank[side]);
        free(s->ring[side].z);
        free(s->ring[side].id);
    }
}

static void step_alloc(ref_step *r, const glofnd_options *o, const glofnd_batch *q) {
    const int64_t rows = 2 * q->n, cols = rows + q->negatives_a_n + q->negatives_b_n, square = cols * cols, flat = cols * q->dim;
    const int two_views = o->pairing == GLOFND_PAIRING_VIEWS;
    *r = (ref_step){.batch = q->n,
                    .rows = rows,
                    .dim = q->dim,
                    .two_views = two_views,
                    .forward = o->directions == GLOFND_DIRECTIONS_FORWARD,
                    .cols = cols,
                    .extra_a = q->negatives_a_n,
                    .copies = two_views && o->similarity == GLOFND_SIMILARITY_BANK ? 2 : 1,
                    .margin = INFINITY};
    double **const square_arrays[] = {&r->sim, &r->judged, &r->dsim};
    double **const flat_arrays[] = {&r->h, &r->z, &r->b, &r->dz, &r->grad};
    double **const row_arrays[] = {&r->norm, &r->theta,    &r->tau,      &r->count,     &r->align,    &r->ghat,
                                   &r->u,    &r->row_loss, &r->row_dtau, &r->row_ratio, &r->row_dbias};
    for (size_t i = 0; i < sizeof square_arrays / sizeof *square_arrays; i++) *square_arrays[i] = zeros(square, sizeof(double));
    for (size_t i = 0; i < sizeof flat_arrays / sizeof *flat_arrays; i++) *flat_arrays[i] = zeros(flat, sizeof(double));
    for (size_t i = 0; i < sizeof row_arrays / sizeof *row_arrays; i++) *row_arrays[i] = zeros(cols, sizeof(double));
    r->id = zeros(cols, sizeof *r->id);
    for (int64_t col = 0; col < cols; col++) {
        const int64_t a = col - rows, b = a - q->negatives_a_n;
        r->id[col] = a < 0               ? q->id[col / 2]
                     : b < 0             ? (q->negatives_a_id ? q->negatives_a_id[a] : -1)
                     : q->negatives_b_id ? q->negatives_b_id[b]
                                         : -1;
    }
    r->set = zeros(cols, sizeof *r->set);
    for (int64_t col = 0; col < cols; col++) {
        r->set[col] = -1;
        for (int64_t i = 0; i < q->n && q->positives; i++)
            if (col < rows ? i == col / 2 : r->id[col] == q->id[i]) r->set[col] = q->positives[i];
    }
    r->would = zeros(square, 1);
    r->flag = zeros(square, 1);
}

void ref_step_free(ref_step *r) {
    void *const all[] = {r->set,   r->id,    r->b,    r->judged,   r->h,        r->norm,      r->z,        r->sim,
                         r->theta, r->would, r->flag, r->tau,      r->count,    r->align,     r->ghat,     r->u,
                         r->dsim,  r->dz,    r->grad, r->row_loss, r->row_dtau, r->row_ratio, r->row_dbias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* ---- similarities ---- */

static double dot(const double *x, const double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

int ref_is_anchor(const ref_step *r, int64_t row) { return row < r->rows && !(r->forward && row % 2); }

int ref_is_negative(const ref_step *r, int64_t row, int64_t col) {
    if (!ref_is_anchor(r, row)) return 0;
    const int64_t side = col < r->rows ? col % 2 : col - r->rows >= r->extra_a;
    if (col < r->rows && row / 2 == col / 2) return 0;
    if (r->id[row] == r->id[col] || (r->set[row] >= 0 && r->set[row] == r->set[col])) return 0;
    return r->two_views || row % 2 != side;
}

/* Of an anchor: its other view or modality, and those of its set. */
int ref_is_positive(const ref_step *r, int64_t row, int64_t col) {
    if (!ref_is_anchor(r, row) || col >= r->rows || row == col) return 0;
    if (col == (row ^ 1)) return 1;
    return r->set[row] >= 0 && r->set[row] == r->set[col] && (r->two_views || row % 2 != col % 2);
}

int64_t ref_first_sample(const ref_step *r, int64_t i) {
    for (int64_t j = 0; j < i; j++)
        if (r->id[2 * j] == r->id[2 * i]) return j;
    return i;
}

int64_t ref_negatives(const ref_step *r, int64_t row) {
    int64_t n = 0;
    for (int64_t col = 0; col < r->cols; col++) n += ref_is_negative(r, row, col);
    return n;
}

static void similarities(const glofnd_options *o, const glofnd_batch *q, const double *h, ref_step *r) {
    const int64_t d = r->dim;
    for (int64_t row = 0; row < r->cols; row++) {
        const int64_t a = row - r->rows, b = a - r->extra_a;
        const float *source = (const float *)(row % 2 ? q->b : q->a) + row / 2 * d;
        if (a >= 0) source = b < 0 ? (const float *)q->negatives_a + a * d : (const float *)q->negatives_b + b * d;
        for (int64_t j = 0; j < d; j++) r->h[row * d + j] = h ? h[row * d + j] : source[j];
        r->norm[row] = o->normalize ? fmax(sqrt(dot(r->h + row * d, r->h + row * d, d)), 1e-12) : 1;
        for (int64_t j = 0; j < d; j++) r->z[row * d + j] = r->h[row * d + j] / r->norm[row];
    }
    for (int64_t row = 0; row < r->cols; row++)
        for (int64_t col = 0; col < r->cols; col++) r->sim[row * r->cols + col] = dot(r->z + row * d, r->z + col * d, d);
}

/* BANK: b <- normalise(m b + (1 - m) z), z the normalised sum of the sample's rows; at the first visit b <- z. */
static void average(const glofnd_options *o, ref_store *s, const glofnd_batch *q, ref_step *r, int64_t i, int side) {
    const int64_t d = r->dim, first = r->two_views ? 2 * i : 2 * i + side, last = r->two_views ? first + 1 : first;
    uint16_t *bank = s->bank[side] + q->id[i] * d;
    double *b = r->b + first * d;
    int seen = 0;
    for (int64_t j = 0; j < d; j++) b[j] = r->z[first * d + j] + (last > first ? r->z[last * d + j] : 0);
    const double length = fmax(sqrt(dot(b, b, d)), 1e-12);
    for (int64_t j = 0; j < d; j++) seen |= gf_f16_to_float(bank[j]) != 0;
    const double m = seen ? o->bank_momentum : 0;
    for (int64_t j = 0; j < d; j++) b[j] = m * gf_f16_to_float(bank[j]) + (1 - m) * b[j] / length;
    const double again = fmax(sqrt(dot(b, b, d)), 1e-12);
    for (int64_t j = 0; j < d; j++) {
        b[j] /= again;
        bank[j] = gf_f16_from_float((float)b[j]);
        r->b[last * d + j] = b[j];
    }
}

static void judged_similarities(const glofnd_options *o, ref_store *s, const glofnd_batch *q, ref_step *r) {
    const int64_t d = r->dim;
    memcpy(r->b, r->z, (size_t)(r->cols * d) * sizeof(double));
    for (int side = 0; side < s->modalities && s->bank_dim; side++)
        for (int64_t i = 0; i < r->batch; i++) average(o, s, q, r, i, side);
    for (int64_t row = 0; row < r->cols; row++)
        for (int64_t col = 0; col < r->cols; col++) r->judged[row * r->cols + col] = dot(r->b + row * d, r->b + col * d, d);
}

static int ascending(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

double ref_kth_largest(double *x, int64_t n, int64_t k) {
    qsort(x, (size_t)n, sizeof *x, ascending);
    return x[n - k];
}

static double *sorted_negatives(const ref_step *r, int64_t row) {
    double *x = zeros(r->cols, sizeof(double));
    int64_t n = 0;
    for (int64_t col = 0; col < r->cols; col++)
        if (ref_is_negative(r, row, col)) x[n++] = r->judged[row * r->cols + col];
    qsort(x, (size_t)n, sizeof *x, ascending);
    return x;
}

double ref_quantile(const ref_step *r, int64_t row, double alpha) {
    double *x = sorted_negatives(r, row);
    const int64_t distinct = ref_negatives(r, row) / r->copies; /* the ascending order has equal ones side by side */
    const double position = (1 - alpha) * (double)(distinct - 1);
    const int64_t low = (int64_t)floor(position), high = low + 1 < distinct ? low + 1 : low;
    const double below = x[low * r->copies], above = x[high * r->copies];
    const double value = below + (position - (double)low) * (above - below);
    free(x);
    return value;
}

double ref_kth_negative(const ref_step *r, int64_t row, int64_t k) {
    double *x = sorted_negatives(r, row);
    const double value = x[ref_negatives(r, row) - k];
    free(x);
    return value;
}

/* ---- flags ---- */

static int same_group(const glofnd_batch *q, int64_t row, int64_t col) {
    return q->group && col < 2 * q->n && q->group[row / 2] >= 0 && q->group[row / 2] == q->group[col / 2];
}

static int same_label(const glofnd_batch *q, int64_t row, int64_t col) { /* a negative label is unknown, equal to no other */
    return col < 2 * q->n && q->label[row / 2] >= 0 && q->label[row / 2] == q->label[col / 2];
}

static void note_margin(ref_step *r, double value, double threshold) {
    const double distance = fabs(value - threshold);
    if (distance > 0 && distance < r->margin) r->margin = distance;
}

/* FNC TOPK: exactly ceil(alpha n) of the row, the best scores, ties to the smaller column. */
static void flag_top(const glofnd_options *o, const glofnd_batch *q, ref_step *r, int64_t row) {
    const int64_t top = (int64_t)ceil(o->alpha * (double)ref_negatives(r, row)), d = r->dim;
    static const glofnd_batch_extra none;
    const glofnd_batch_extra *extra = q->extra ? q->extra : &none;
    const float *support = r->two_views || row % 2 == 0 ? extra->support_a : extra->support_b;
    double *score = zeros(r->cols, sizeof(double));
    for (int64_t col = 0; col < r->cols; col++) {
        score[col] = r->sim[row * r->cols + col];
        if (!support) continue;
        score[col] = 0;
        for (int64_t j = 0; j < d; j++) score[col] += (double)support[row / 2 * d + j] * r->z[col * d + j];
    }
    double lowest = INFINITY;
    for (int64_t taken = 0; taken < top; taken++) {
        int64_t best = -1;
        for (int64_t col = 0; col < r->cols; col++) {
            if (!ref_is_negative(r, row, col) || r->would[row * r->cols + col]) continue;
            if (best < 0 || score[col] > score[best]) best = col;
        }
        r->would[row * r->cols + best] = 1;
        lowest = score[best];
    }
    for (int64_t col = 0; col < r->cols; col++)
        if (ref_is_negative(r, row, col)) note_margin(r, score[col], lowest);
    free(score);
}

static void flag_above(ref_step *r, int64_t row, double theta) {
    for (int64_t col = 0; col < r->cols; col++) {
        if (!ref_is_negative(r, row, col)) continue;
        r->would[row * r->cols + col] = r->judged[row * r->cols + col] > theta;
        note_margin(r, r->judged[row * r->cols + col], theta);
    }
}

/* Similarity of two samples in the guide. */
static double guided(const glofnd_batch *q, int64_t i, int64_t j) {
    const float *x = q->guide + i * q->guide_dim, *y = q->guide + j * q->guide_dim;
    double xy = 0, xx = 0, yy = 0;
    for (int64_t k = 0; k < q->guide_dim; k++)
        xy += (double)x[k] * (double)y[k], xx += (double)x[k] * (double)x[k], yy += (double)y[k] * (double)y[k];
    return xy / (fmax(sqrt(xx), 1e-12) * fmax(sqrt(yy), 1e-12));
}

/* r->theta holds the learned thresholds when it comes here. */
static void flag_by_detector(const glofnd_options *o, const glofnd_batch *q, ref_step *r, int64_t row) {
    const int off = o->alpha == 0;
    switch (o->detector) {
    case GLOFND_DETECT_GLOFND:
    case GLOFND_DETECT_SINGLE:
        if (!off) flag_above(r, row, r->theta[row]);
        break;
    case GLOFND_DETECT_FNC:
        if (off) break;
        if (o->fnc_rule == GLOFND_FNC_TOPK) flag_top(o, q, r, row);
        else
            flag_above(r, row,
                       r->theta[row] = o->fnc_rule == GLOFND_FNC_THRESHOLD ? o->fnc_threshold : ref_quantile(r, row, o->alpha));
        break;
    case GLOFND_DETECT_MUTUAL:
        for (int64_t col = 0; col < r->cols && !off; col++) { /* candidates have no threshold */
            const double s = r->judged[row * r->cols + col], end = col < r->rows ? r->theta[col] : -1;
            if (!ref_is_negative(r, row, col)) continue;
            r->would[row * r->cols + col] = s > r->theta[row] && s > end;
            note_margin(r, s, r->theta[row]);
            note_margin(r, s, end);
        }
        break;
    case GLOFND_DETECT_FIXED:
    case GLOFND_DETECT_FIXED_MUTUAL:
        for (int64_t col = 0; col < r->rows; col++) {
            const float *theta = q->guide_threshold;
            const double s = guided(q, row / 2, col / 2), end = o->detector == GLOFND_DETECT_FIXED ? -2 : (double)theta[col / 2];
            if (!ref_is_negative(r, row, col)) continue;
            r->would[row * r->cols + col] = s > (double)theta[row / 2] && s > end;
            note_margin(r, s, (double)theta[row / 2]);
            note_margin(r, s, (double)theta[col / 2]);
        }
        break;
    case GLOFND_DETECT_POSITIVE:
    case GLOFND_DETECT_POSITIVE_RELATIVE: {
        const double own = r->sim[row * r->cols + (row ^ 1)];
        const double margin = o->detector == GLOFND_DETECT_POSITIVE ? o->margin : o->margin * fabs(own);
        flag_above(r, row, r->theta[row] = own + margin);
        break;
    }
    case GLOFND_DETECT_ORACLE:
        for (int64_t col = 0; col < r->cols; col++)
            r->would[row * r->cols + col] = ref_is_negative(r, row, col) && same_label(q, row, col);
        return; /* labels alone decide */
    default: break;
    }
    for (int64_t col = 0; col < r->cols; col++)
        if (ref_is_negative(r, row, col) && same_group(q, row, col)) r->would[row * r->cols + col] = 1;
}

/* Paper: a row whose negatives are all flagged keeps its least similar one (and its equals), so that no denominator is empty. */
static void rescue(ref_step *r, int64_t row) {
    const double *s = r->sim + row * r->cols;
    uint8_t *flag = r->flag + row * r->cols;
    double least = INFINITY;
    for (int64_t col = 0; col < r->cols; col++) {
        if (!ref_is_negative(r, row, col)) continue;
        if (!flag[col]) return;
        least = fmin(least, s[col]);
    }
    for (int64_t col = 0; col < r->cols; col++)
        if (ref_is_negative(r, row, col) && s[col] == least) flag[col] = 0;
    r->rescued++;
}

/* COMPONENTS: labels by plain flooding of the graph in which every sample is joined to the one with the most similar row, which
 * may be a copy of it. */
static void flag_components(ref_step *r) {
    const int64_t n = r->rows;
    int64_t *nearest = zeros(r->batch, sizeof *nearest), *of = zeros(r->batch, sizeof *of);
    for (int64_t i = 0; i < r->batch; i++) {
        double best = -INFINITY, second = -INFINITY; /* second: of any other sample */
        for (int64_t j = 0; j < r->batch; j++) {
            double s = -INFINITY;
            for (int64_t pair = 0; pair < 4 && i != j; pair++) {
                const int64_t row = 2 * i + pair / 2, col = 2 * j + pair % 2;
                if (r->two_views || row % 2 != col % 2) s = fmax(s, r->sim[row * r->cols + col]);
            }
            if (s > best) second = best, best = s, nearest[i] = j;
            else second = fmax(second, s);
        }
        note_margin(r, best, second);
        of[i] = i;
    }
    for (int64_t round = 0; round < r->batch; round++)
        for (int64_t i = 0; i < r->batch; i++) of[i] = of[nearest[i]] = of[i] < of[nearest[i]] ? of[i] : of[nearest[i]];
    for (int64_t row = 0; row < n; row++)
        for (int64_t col = 0; col < n; col++)
            r->would[row * r->cols + col] = ref_is_negative(r, row, col) && of[row / 2] == of[col / 2];
    free(nearest);
    free(of);
}

static void flags(const glofnd_options *o, const glofnd_batch *q, ref_step *r) {
    if (o->detector == GLOFND_DETECT_COMPONENTS) flag_components(r);
    for (int64_t row = 0; row < r->rows && o->detector != GLOFND_DETECT_COMPONENTS; row++)
        if (ref_is_anchor(r, row)) flag_by_detector(o, q, r, row);
    if (q->epoch < o->mask_epoch) return;
    memcpy(r->flag, r->would, (size_t)(r->cols * r->cols));
    for (int64_t row = 0; row < r->rows && o->compat == GLOFND_COMPAT_PAPER && o->loss != GLOFND_LOSS_SIGMOID; row++)
        if (ref_is_anchor(r, row)) rescue(r, row);
}

/* ---- gradient of the embeddings: both arguments of every similarity, then the normalisation ---- */

static void feature_gradient(const glofnd_options *o, ref_step *r) {
    const int64_t d = r->dim, n = r->cols;
    for (int64_t row = 0; row < n; row++) {
        double *dz = r->dz + row * d;
        const double *z = r->z + row * d;
        for (int64_t col = 0; col < n; col++) {
            const double both_roles = r->dsim[row * n + col] + r->dsim[col * n + row];
            for (int64_t j = 0; j < d; j++) dz[j] += both_roles * r->z[col * d + j];
        }
        const double radial = o->normalize ? dot(z, dz, d) : 0;
        for (int64_t j = 0; j < d; j++) r->grad[row * d + j] = (dz[j] - z[j] * radial) / r->norm[row];
    }
}

/* ---- statistics ---- */

static void flag_statistics(const glofnd_options *o, ref_step *r) {
    int64_t would = 0;
    for (int64_t row = 0; row < r->rows; row++) r->pairs += ref_negatives(r, row);
    for (int64_t e = 0; e < r->cols * r->cols; e++) {
        r->flagged += r->flag[e];
        would += r->would[e];
    }
    r->kept_share = 1 - (double)r->flagged / (double)r->pairs;
    r->detector_share = 1 - (double)would / (double)r->pairs;
    for (int64_t row = 0; row < r->rows; row++)
        if (ref_is_anchor(r, row)) r->quantile_mean += ref_quantile(r, row, o->alpha) / (double)(r->rows >> r->forward);
}

/* Means over anchors, 0/0 counts as 1. Two views: an anchor owns both rows of its sample. Image and text: each row is one. */
static void quality_statistics(const glofnd_batch *q, ref_step *r) {
    const int64_t per_anchor = r->two_views ? 2 : 1, anchors = r->rows / per_anchor, counted = anchors >> r->forward;
    r->precision = r->recall = 0;
    for (int64_t a = 0; a < anchors; a++) {
        int64_t removed = 0, same = 0, hits = 0;
        if (!ref_is_anchor(r, a * per_anchor)) continue;
        for (int64_t row = a * per_anchor; row < (a + 1) * per_anchor; row++) {
            for (int64_t col = 0; col < r->cols; col++) {
                if (!ref_is_negative(r, row, col)) continue;
                const int is_same = same_label(q, row, col), is_flagged = r->flag[row * r->cols + col];
                removed += is_flagged;
                same += is_same;
                hits += is_same && is_flagged;
            }
        }
        r->precision += (removed ? (double)hits / (double)removed : 1) / (double)counted;
        r->recall += (same ? (double)hits / (double)same : 1) / (double)counted;
        r->same += same;
        r->hits += hits;
    }
}

static void state_statistics(const glofnd_options *o, const ref_store *s, const glofnd_batch *q, ref_step *r) {
    const int shared =
        o->detector == GLOFND_DETECT_SINGLE || (q->epoch >= o->update_epoch && q->epoch < o->update_epoch + o->lambda_warmup);
    const int sides = r->forward ? 1 : s->modalities;
    const double total = (double)(r->batch * sides);
    for (int side = 0; side < sides; side++) {
        for (int64_t i = 0; i < r->batch; i++) {
            const glofnd_anchor *a = &s->row[side][q->id[i]];
            r->lambda_mean += (shared ? s->shared[side].lambda : a->lambda) / total;
            r->log_u_mean += a->log_u / total;
            r->tau_mean += a->tau / total;
        }
    }
}

/* ---- the step ---- */

void ref_step_run(const glofnd_options *o, ref_store *s, const glofnd_batch *q, const double *h, ref_step *r) {
    const int neighbours = o->neighbours > 0 && q->epoch >= o->mask_epoch;
    uint16_t *before = zeros(s->n * s->bank_dim, sizeof *before);
    if (s->bank_dim) memcpy(before, s->bank[0], (size_t)(s->n * s->bank_dim) * sizeof *before);
    step_alloc(r, o, q);
    similarities(o, q, h, r);
    judged_similarities(o, s, q, r);
    ref_learn(o, s, q, r); /* lambda first: */
    flags(o, q, r);        /* flags see the new one */
    ref_loss(o, s, q, r);  /* loss, u, temperatures, dL/dS */
    if (neighbours) ref_neighbours(o, s, before, q, r);
    free(before);
    feature_gradient(o, r);
    ref_ring_push(s, q, r);
    flag_statistics(o, r);
    state_statistics(o, s, q, r);
    r->precision = r->recall = NAN;
    if (q->label && q->epoch >= o->mask_epoch) quality_statistics(q, r);
}
