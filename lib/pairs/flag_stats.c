/* flag_stats.c - see flag_stats.h. */
#include "pairs/flag_stats.h"

#include <math.h>

double gf_f1(double precision, double recall) {
    return precision + recall == 0.0 ? 0.0 : 2.0 * precision * recall / (precision + recall);
}

static double share(int64_t a, int64_t b) { return b ? (double)a / (double)b : NAN; }
static double share_or_one(int64_t a, int64_t b) { return b ? (double)a / (double)b : 1.0; }

gf_precision_recall gf_fn_precision_recall(const gf_fn_counts *counts, int64_t n, int rows) {
    gf_fn_counts all = {0};
    gf_precision_recall q = {.anchors = n};
    for (int64_t i = 0; i < n; i++) {
        gf_fn_counts one = {0};
        for (int r = 0; r < rows; r++) {
            const gf_fn_counts *c = &counts[i * rows + r];
            one.pairs += c->pairs, one.same += c->same, one.flagged += c->flagged, one.hits += c->hits;
        }
        q.precision += share_or_one(one.hits, one.flagged);
        q.recall += share_or_one(one.hits, one.same);
        all.pairs += one.pairs, all.same += one.same, all.flagged += one.flagged, all.hits += one.hits;
    }
    q.precision /= (double)n, q.recall /= (double)n;
    q.f1 = gf_f1(q.precision, q.recall);
    q.flagged = share(all.flagged, all.pairs);
    q.pooled_precision = share(all.hits, all.flagged);
    q.pooled_recall = share(all.hits, all.same);
    q.pooled_f1 = gf_f1(q.pooled_precision, q.pooled_recall);
    return q;
}

/* ----- thresholds ----- */

gf_threshold_error gf_threshold_error_of(const float *x, const float *optimum, int64_t n, int64_t each) {
    gf_threshold_error e = {0};
    double absolute = 0.0, square = 0.0, sum = 0.0;
    for (int64_t i = 0; i < n * each; i++) {
        const double d = (double)x[i] - (double)optimum[i / each];
        if (isnan(d)) continue;
        e.count++;
        absolute += fabs(d), square += d * d, sum += d;
    }
    const double count = e.count ? (double)e.count : NAN;
    e.mae = absolute / count, e.rmse = sqrt(square / count), e.bias = sum / count;
    return e;
}

gf_spread gf_spread_of(const float *x, int64_t n) {
    gf_spread s = {.min = NAN, .max = NAN};
    double sum = 0.0, square = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) continue;
        s.count++;
        sum += (double)x[i];
        s.min = fmin(s.min, (double)x[i]), s.max = fmax(s.max, (double)x[i]);
    }
    s.mean = s.count ? sum / (double)s.count : NAN;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i])) square += ((double)x[i] - s.mean) * ((double)x[i] - s.mean);
    s.std = s.count ? sqrt(square / (double)s.count) : NAN;
    return s;
}
