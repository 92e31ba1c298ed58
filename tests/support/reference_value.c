/* reference_value.c - loss values as functions of embeddings and temperatures, for finite differences. Knows nothing of the
 * gradients in reference_loss.c: only flags (and the constant u) come from the step. See reference.h. */
#include "method/options.h"
#include "reference.h"
#include "support/losses.h"

#include <math.h>
#include <stdlib.h>

typedef struct row_value { /* of one row at the given embeddings */
    double sum_positive, align, count, sum_exp,
        sum_gap; /* sum_exp = sum w exp(k S), sum_gap = sum w exp(k (S - A)); sum_positive: of the positives */
} row_value;

static double similarity(const double *x, const double *y, int64_t d, int normalize) {
    double xy = 0, xx = 0, yy = 0;
    for (int64_t j = 0; j < d; j++) {
        xy += x[j] * y[j];
        xx += x[j] * x[j];
        yy += y[j] * y[j];
    }
    return normalize ? xy / sqrt(xx * yy) : xy;
}

static row_value evaluate(const glofnd_options *o, const ref_step *r, const double *h, int64_t row, double tau) {
    const int64_t d = r->dim;
    row_value v = {0};
    double sum = 0, n = 0;
    double *s = calloc((size_t)r->cols, sizeof *s);
    if (!s) abort();
    for (int64_t col = 0; col < r->cols; col++) {
        s[col] = similarity(h + row * d, h + col * d, d, o->normalize);
        if (ref_is_positive(r, row, col)) v.sum_positive += exp(s[col] / tau);
        if (!ref_is_positive(r, row, col) && !(o->action == GLOFND_ACTION_ATTRACT && r->flag[row * r->cols + col])) continue;
        sum += s[col];
        n++;
    }
    v.align = sum / n;
    for (int64_t col = 0; col < r->cols; col++) {
        if (!ref_is_negative(r, row, col)) continue;
        const double w = r->flag[row * r->cols + col] ? ref_flagged_weight(o) : 1;
        v.count += w;
        v.sum_exp += w * exp(s[col] / tau);
        v.sum_gap += w * exp((s[col] - v.align) / tau);
    }
    free(s);
    return v;
}

/* SIGMOID: mean over the rows of a sample of the sum of its pairs' log(1 + exp(-y (S/tau + bias))). */
static double sigmoid_value(const glofnd_options *o, const ref_step *r, const double *h, int64_t row, double tau) {
    double sum = 0;
    for (int64_t col = 0; col < r->cols; col++) {
        const int negative = ref_is_negative(r, row, col), flagged = r->flag[row * r->cols + col];
        const double x = similarity(h + row * r->dim, h + col * r->dim, r->dim, o->normalize) / tau + r->bias;
        if (negative) sum += (flagged ? ref_flagged_weight(o) : 1) * log(1 + exp(x));
        if (ref_is_positive(r, row, col) || (flagged && o->action == GLOFND_ACTION_ATTRACT)) sum += log(1 + exp(-x));
    }
    return sum * ref_softmax_part(o);
}

double ref_objective(const glofnd_options *o, const ref_step *r, const double *h, const double *tau) {
    double sum = 0;
    for (int64_t row = 0; row < r->rows; row++) {
        if (!ref_is_anchor(r, row)) continue;
        if (o->loss == GLOFND_LOSS_SIGMOID) {
            sum += sigmoid_value(o, r, h, row, tau[row]);
            continue;
        }
        const row_value v = evaluate(o, r, h, row, tau[row]);
        const double n = (double)ref_negatives(r, row), k = 1 / tau[row];
        switch (losses_of(o)) {
        case LOSS_SIMCLR:
        case LOSS_CLIP: sum += ref_softmax_part(o) * (log(n / v.count * v.sum_exp + v.sum_positive) - k * v.align); break;
        case LOSS_SOGCLR:
        case LOSS_SOGCLR2: sum += -v.align + tau[row] * log(v.sum_exp); break;
        default: sum += -v.align + tau[row] * (log(v.sum_exp / v.count) + o->rho); break;
        }
    }
    return sum / (double)r->batch;
}

double ref_surrogate(const glofnd_options *o, const ref_step *r, const double *h, const double *tau) {
    const int official = ref_official_pairs(o);
    double sum = 0;
    for (int64_t row = 0; row < r->rows; row++) {
        if (!ref_is_anchor(r, row)) continue;
        const row_value v = evaluate(o, r, h, row, tau[row]);
        const double frozen_tau = r->tau[row], u = r->u[row] + (official ? 1e-14 : 0);
        const double ratio = (official ? v.sum_gap : v.sum_exp) / v.count / u;
        if (official && losses_of(o) == LOSS_SOGCLR2) sum += ratio;
        else if (official && losses_of(o) == LOSS_FASTCLIP) sum += frozen_tau * ratio + tau[row] * (o->rho + log(u)) / 2;
        else if (official) sum += frozen_tau * ratio + tau[row] * (log(u) + o->rho);
        else if (losses_of(o) == LOSS_SOGCLR || losses_of(o) == LOSS_SOGCLR2) sum += -v.align + frozen_tau * ratio;
        else sum += -v.align + frozen_tau * ratio + tau[row] * (log(u) + o->rho);
    }
    return sum / (double)r->batch;
}
