/* precision_recall.c - see precision_recall.h. */
#include "pairs/precision_recall.h"

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
