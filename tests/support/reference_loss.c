/* reference_loss.c - the losses: per row the kept negatives, the moving average u, the value, and dL/dS; temperatures; ranks.
 *
 * Notation of a row r: k = 1/tau, w = 1 for a kept negative, 0 for a flagged one (WEIGHT: omega), c = sum w,
 * A = alignment (the mean of the positive similarities; ATTRACT: and the flagged ones), E = sum w exp(k S).
 */
#include "method/options.h"
#include "reference.h"
#include "support/losses.h"

#include <math.h>

#define LOSS_EPS 1e-14 /* of u + eps, compat OFFICIAL with image and text */

int ref_official_pairs(const glofnd_options *o) {
    return o->compat == GLOFND_COMPAT_OFFICIAL &&
           (losses_of(o) == LOSS_SOGCLR2 || losses_of(o) == LOSS_FASTCLIP || losses_of(o) == LOSS_ISOGCLR);
}

int ref_individual(const glofnd_options *o) { return losses_of(o) == LOSS_ISOGCLR || losses_of(o) == LOSS_ISOGCLR_VIEWS; }

double ref_flagged_weight(const glofnd_options *o) {
    return o->action == GLOFND_ACTION_WEIGHT ? o->omega : o->action == GLOFND_ACTION_ATTRACT ? o->attract_omega : 0;
}

static double weight(const glofnd_options *o, const ref_step *r, int64_t row, int64_t col) {
    if (!ref_is_negative(r, row, col)) return 0;
    return r->flag[row * r->cols + col] ? ref_flagged_weight(o) : 1;
}

/* The pair's similarity is among those of the alignment. */
static int is_aligned(const glofnd_options *o, const ref_step *r, int64_t row, int64_t col) {
    return ref_is_positive(r, row, col) || (o->action == GLOFND_ACTION_ATTRACT && r->flag[row * r->cols + col]);
}

static double aligned(const glofnd_options *o, const ref_step *r, int64_t row) {
    double n = 0;
    for (int64_t col = 0; col < r->cols; col++) n += is_aligned(o, r, row, col);
    return n;
}

/* c_r and A_r. */
static void count_and_align(const glofnd_options *o, ref_step *r, int64_t row) {
    const double *s = r->sim + row * r->cols, n = aligned(o, r, row);
    for (int64_t col = 0; col < r->cols; col++) {
        r->count[row] += weight(o, r, row, col);
        if (is_aligned(o, r, row, col)) r->align[row] += s[col] / n;
    }
}

/* Adds coefficient * dA_r/dS. */
static void add_alignment(const glofnd_options *o, ref_step *r, int64_t row, double coefficient) {
    const double each = coefficient / aligned(o, r, row);
    for (int64_t col = 0; col < r->cols; col++)
        if (is_aligned(o, r, row, col)) r->dsim[row * r->cols + col] += each;
}

/* ---- moving average ---- */

/* ghat_r = mean over the kept of exp(k S); official with image and text: of exp(k (S - A)). */
static void row_mean(const glofnd_options *o, ref_step *r, int64_t row) {
    const double k = 1 / r->tau[row], shift = ref_official_pairs(o) ? r->align[row] : 0;
    double sum = 0;
    for (int64_t col = 0; col < r->cols; col++)
        sum += weight(o, r, row, col) * (weight(o, r, row, col) > 0 ? exp(k * (r->sim[row * r->cols + col] - shift)) : 0);
    r->ghat[row] = sum / r->count[row];
}

static int batch_has_u(const ref_store *s, const glofnd_batch *q) {
    for (int64_t i = 0; i < q->n; i++)
        if (s->row[0][q->id[i]].log_u > -INFINITY) return 1;
    return 0;
}

static double next_u(const glofnd_options *o, const ref_step *r, double gamma, int any_seen, double log_u, double ghat) {
    const double old = exp(log_u);
    int fresh = log_u == -INFINITY;
    if (o->compat == GLOFND_COMPAT_OFFICIAL) fresh = r->two_views ? !any_seen : gamma < 1 && !(old >= 1e-35 && old < INFINITY);
    return fresh ? ghat : (1 - gamma) * old + gamma * ghat;
}

static void moving_average(const glofnd_options *o, ref_store *s, const glofnd_batch *q, ref_step *r) {
    const double gamma = q->gamma > 0 ? q->gamma : o->gamma;
    const int any_seen = batch_has_u(s, q);
    for (int64_t row = 0; row < r->rows; row++) {
        const int side = r->two_views ? 0 : (int)(row % 2);
        if (!ref_is_anchor(r, row)) continue;
        row_mean(o, r, row);
        r->u[row] = next_u(o, r, gamma, any_seen, s->row[side][q->id[row / 2]].log_u, r->ghat[row]);
    }
    for (int side = 0; side < (r->two_views || r->forward ? 1 : 2); side++)
        for (int64_t i = 0; i < r->batch; i++) {
            double sum = 0, count = 0;
            for (int64_t row = 0; row < r->rows; row++)
                if ((r->two_views || row % 2 == side) && r->id[row] == q->id[i]) sum += r->u[row], count++;
            s->row[side][q->id[i]].log_u = (float)log(sum / count);
        }
}

/* The mean over the two rows of a sample; the authors' SimCLR adds them up. */
double ref_softmax_part(const glofnd_options *o) {
    return (losses_of(o) == LOSS_SIMCLR && o->compat == GLOFND_COMPAT_OFFICIAL) || o->directions == GLOFND_DIRECTIONS_FORWARD
               ? 1
               : 0.5;
}

/* ---- SIMCLR and CLIP: log((n/c) E + sum over the positives of exp(k S)) - k A ---- */

static void softmax_row(const glofnd_options *o, ref_step *r, int64_t row) {
    const double k = 1 / r->tau[row], share = ref_softmax_part(o) / (double)r->batch;
    const double *s = r->sim + row * r->cols;
    const double rescale = (double)ref_negatives(r, row) / r->count[row];
    double total = 0, total_s = 0;
    for (int64_t col = 0; col < r->cols; col++) {
        const double w = rescale * weight(o, r, row, col) + ref_is_positive(r, row, col);
        if (w == 0) continue;
        total += w * exp(k * s[col]);
        total_s += w * exp(k * s[col]) * s[col];
    }
    for (int64_t col = 0; col < r->cols; col++) {
        const double w = rescale * weight(o, r, row, col) + ref_is_positive(r, row, col);
        if (w > 0) r->dsim[row * r->cols + col] += share * k * w * exp(k * s[col]) / total;
    }
    add_alignment(o, r, row, -share * k);
    r->row_loss[row] = share * (log(total) - k * r->align[row]);
    r->row_dtau[row] = -k * k * share * (total_s / total - r->align[row]);
}

/* ---- global losses, compat PAPER (and SOGCLR in both): -A + tau log u, weights exp(k S)/(B c u) ---- */

static void global_row(const glofnd_options *o, ref_step *r, int64_t row) {
    const double tau = r->tau[row], k = 1 / tau, batch = (double)r->batch, log_u = log(r->u[row]);
    double surrogate = -r->align[row] / batch, weighted_s = 0;
    for (int64_t col = 0; col < r->cols; col++) {
        const double w = weight(o, r, row, col), s = r->sim[row * r->cols + col];
        if (w == 0) continue;
        const double pair = w * exp(k * s) / (batch * r->count[row] * r->u[row]);
        r->dsim[row * r->cols + col] += pair;
        surrogate += pair * s;
        weighted_s += pair * s * batch; /* = (ghat/u) Sbar */
    }
    add_alignment(o, r, row, -1 / batch);
    const int counted = losses_of(o) == LOSS_SOGCLR || losses_of(o) == LOSS_SOGCLR2;
    const double rho = o->loss == GLOFND_LOSS_FASTCLIP || ref_individual(o) ? o->rho : 0;
    r->row_loss[row] = (-r->align[row] + tau * (log_u + (counted ? log(r->count[row]) : 0) + rho)) / batch;
    if (o->compat == GLOFND_COMPAT_OFFICIAL) r->row_loss[row] = surrogate;
    r->row_dtau[row] = log_u + rho - k * weighted_s;
    if (o->loss == GLOFND_LOSS_FASTCLIP) r->row_dtau[row] /= batch;
}

/* ---- compat OFFICIAL with image and text: g/(u+eps) with exp(-k S_ii) inside g; u constant, S_ii not ---- */

static void official_row(const glofnd_options *o, ref_step *r, int64_t row) {
    const double tau = r->tau[row], k = 1 / tau, batch = (double)r->batch, u = r->u[row] + LOSS_EPS;
    const double scale = losses_of(o) == LOSS_SOGCLR2 ? k : 1; /* core itself, or core * tau with tau constant */
    double dk = 0;
    for (int64_t col = 0; col < r->cols; col++) {
        const double w = weight(o, r, row, col), gap = r->sim[row * r->cols + col] - r->align[row];
        if (w == 0) continue;
        const double pair = w * exp(k * gap) / (r->count[row] * u);
        r->dsim[row * r->cols + col] += scale * pair / batch;
        dk += pair * gap; /* d ratio / d k */
    }
    const double ratio = r->row_ratio[row] = r->ghat[row] / u;
    add_alignment(o, r, row, -scale * ratio / batch);
    if (losses_of(o) == LOSS_SOGCLR2) {
        r->row_loss[row] = ratio / batch;
        r->row_dtau[row] = -k * k * dk / batch;
    } else if (losses_of(o) == LOSS_FASTCLIP) {
        const double tail = (o->rho + log(u)) / 2; /* rho once per sample, logs averaged over the sides */
        r->row_loss[row] = tau * (ratio + tail) / batch;
        r->row_dtau[row] = (-k * dk + tail) / batch;
    } else {
        r->row_loss[row] = tau * (log(u) + o->rho) / batch;
        r->row_dtau[row] = log(u) + o->rho - k * dk;
    }
}

/* ---- SIGMOID: every pair by itself, log(1 + exp(-y (k S + b))) ---- */

/* Adds weight times the term of one pair. */
static void sigmoid_pair(const glofnd_options *o, ref_step *r, int64_t row, int64_t col, double weight, int y) {
    const double share = weight * ref_softmax_part(o) / (double)r->batch, k = 1 / r->tau[row], s = r->sim[row * r->cols + col];
    const double x = y * (k * s + r->bias), slope = -y * share / (1 + exp(x)); /* d/d(k s + b) */
    r->row_loss[row] += share * (x < 0 ? log1p(exp(x)) - x : log1p(exp(-x)));
    r->dsim[row * r->cols + col] += slope * k;
    r->row_dtau[row] -= k * k * slope * s;
    r->row_dbias[row] += slope;
}

static void sigmoid_row(const glofnd_options *o, ref_step *r, int64_t row) {
    for (int64_t col = 0; col < r->cols; col++) {
        if (ref_is_positive(r, row, col)) sigmoid_pair(o, r, row, col, 1, 1);
        if (!ref_is_negative(r, row, col)) continue;
        sigmoid_pair(o, r, row, col, weight(o, r, row, col), -1);
        if (r->flag[row * r->cols + col] && o->action == GLOFND_ACTION_ATTRACT) sigmoid_pair(o, r, row, col, 1, 1);
    }
}

/* ---- individual temperatures ---- */

static void read_temperatures(const glofnd_options *o, const ref_store *s, const glofnd_batch *q, ref_step *r) {
    const double tau = q->tau > 0 ? q->tau : o->tau;
    for (int64_t row = 0; row < r->rows; row++) {
        r->tau[row] = tau;
        if (!ref_individual(o)) continue;
        const glofnd_anchor *a = &s->row[r->two_views ? 0 : row % 2][q->id[row / 2]];
        if (a->tau > 0) r->tau[row] = a->tau;
    }
}

static void learn_temperatures(const glofnd_options *o, ref_store *s, const glofnd_batch *q, const ref_step *r) {
    for (int64_t row = 0; row < r->rows; row += r->two_views ? 2 : 1) { /* two views: one temperature, the mean gradient */
        if (!ref_is_anchor(r, row)) continue;
        glofnd_anchor *a = &s->row[r->two_views ? 0 : row % 2][q->id[row / 2]];
        double g = 0, count = 0;
        if (ref_first_sample(r, row / 2) < row / 2) continue;
        for (int64_t other = 0; other < r->rows; other++)
            if (r->id[other] == r->id[row] && (r->two_views || other % 2 == row % 2)) g += r->row_dtau[other], count++;
        g /= count;
        const double t = ++a->tau_clock;
        const double m = 0.9 * a->tau_m + (1 - 0.9) * g;
        const double v = 0.999 * a->tau_v + (1 - 0.999) * g * g;
        const double mh = m / (1 - pow(0.9, t)), vh = v / (1 - pow(0.999, t));
        const double tau = r->tau[row] - o->tau_lr * mh / (sqrt(vh) + 1e-8);
        a->tau = (float)fmin(fmax(tau, o->tau_min), 1);
        a->tau_m = (float)m;
        a->tau_v = (float)v;
    }
}

/* ---- entry ---- */

/* Losses with one learnable tau; SOGCLR2 keeps its tau, but the authors' code reports the gradient all the same. */
static int has_shared_tau_gradient(const glofnd_options *o) {
    return losses_of(o) == LOSS_CLIP || o->loss == GLOFND_LOSS_FASTCLIP || o->loss == GLOFND_LOSS_SIGMOID ||
           (losses_of(o) == LOSS_SOGCLR2 && o->compat == GLOFND_COMPAT_OFFICIAL);
}

void ref_loss(const glofnd_options *o, ref_store *s, const glofnd_batch *q, ref_step *r) {
    const int softmax = losses_of(o) == LOSS_SIMCLR || losses_of(o) == LOSS_CLIP, sigmoid = o->loss == GLOFND_LOSS_SIGMOID;
    r->bias = q->bias != 0 ? q->bias : o->bias;
    read_temperatures(o, s, q, r);
    for (int64_t row = 0; row < r->rows; row++)
        if (ref_is_anchor(r, row)) count_and_align(o, r, row);
    if (!softmax && !sigmoid) moving_average(o, s, q, r);
    for (int64_t row = 0; row < r->rows; row++) {
        if (!ref_is_anchor(r, row)) continue;
        if (softmax) softmax_row(o, r, row);
        else if (sigmoid) sigmoid_row(o, r, row);
        else if (ref_official_pairs(o)) official_row(o, r, row);
        else global_row(o, r, row);
        r->loss += r->row_loss[row];
        if (has_shared_tau_gradient(o)) r->grad_tau += r->row_dtau[row];
        r->grad_bias += r->row_dbias[row];
    }
    r->grad_scale = -r->tau[0] * r->tau[0] * r->grad_tau;
    if (ref_individual(o)) learn_temperatures(o, s, q, r);
}

/* ---- several ranks ---- */

/* Part (2) of a rank's loss in the authors' code: all anchors, but only the rank's columns as negatives, divisor c b/B. */
static void local_columns(const glofnd_options *o, const glofnd_batch *q, const glofnd_own_rows *own, const ref_step *r,
                          double *ratio, double *dk) {
    const double share = (double)own->rows / (double)q->n;
    *ratio = *dk = 0;
    for (int64_t row = 0; row < r->rows; row++) {
        for (int64_t j = own->first; j < own->first + own->rows; j++) {
            const int64_t col = 2 * j + 1 - row % 2;
            const double w = weight(o, r, row, col), gap = r->sim[row * r->cols + col] - r->align[row];
            if (w == 0) continue;
            const double pair = w * exp(gap / r->tau[row]) / (r->count[row] * share * (r->u[row] + LOSS_EPS));
            *ratio += pair / (double)r->batch;
            *dk += pair * gap / (double)r->batch;
        }
    }
}

static ref_rank official_rank(const glofnd_options *o, const glofnd_batch *q, const glofnd_own_rows *own, const ref_step *r) {
    const double b = (double)own->rows, tau = r->tau[0], k = 1 / tau;
    double ratio1 = 0, dk1 = 0, ratio2, dk2, tail = 0;
    local_columns(o, q, own, r, &ratio2, &dk2);
    for (int64_t row = 2 * own->first; row < 2 * (own->first + own->rows); row++) {
        ratio1 += r->row_ratio[row] / b;
        tail += (o->rho + log(r->u[row] + LOSS_EPS)) / (2 * b);
        for (int64_t col = 0; col < r->cols; col++) {
            const double gap = r->sim[row * r->cols + col] - r->align[row];
            if (weight(o, r, row, col) > 0)
                dk1 += weight(o, r, row, col) * exp(k * gap) * gap / (r->count[row] * (r->u[row] + LOSS_EPS) * b);
        }
    }
    ref_rank out = {.loss = (ratio1 + ratio2) / 2, .grad_scale = (dk1 + dk2) / 2};
    if (losses_of(o) == LOSS_FASTCLIP) {
        out.loss = tau * (out.loss + tail);
        out.grad_scale = tau * out.grad_scale - tau * tau * tail;
    }
    out.grad_tau = -k * k * out.grad_scale;
    out.grad_factor = 0.5 * (double)q->n / b; /* all roles of own features, each with 1/2 and 1/b */
    return out;
}

ref_rank ref_rank_of(const glofnd_options *o, const glofnd_batch *q, const glofnd_own_rows *own, const ref_step *r) {
    if (ref_official_pairs(o) && losses_of(o) != LOSS_ISOGCLR && own->rows < q->n) return official_rank(o, q, own, r);
    ref_rank out = {.grad_factor = 1};
    for (int64_t row = 2 * own->first; row < 2 * (own->first + own->rows); row++) {
        out.loss += r->row_loss[row];
        if (has_shared_tau_gradient(o)) out.grad_tau += r->row_dtau[row];
        out.grad_bias += r->row_dbias[row];
    }
    out.grad_scale = -r->tau[0] * r->tau[0] * out.grad_tau;
    return out;
}
