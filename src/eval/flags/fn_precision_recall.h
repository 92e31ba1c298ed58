/* fn_precision_recall.h - precision and recall of flagged pairs, measured by labels.
 *
 * A pair (i, j) of different samples is a false negative if both have the same label. A detector flags it if its similarity is
 * above the threshold of row i. Precision and recall are computed twice: pooled over all pairs, and as in the authors' code, per
 * anchor with 0/0 = 1, then averaged; F1 is the harmonic mean of the two means.
 */
#pragma once

#include "eval/flags/view_set.h"
#include "pairs/pairs_sweep.h"

typedef struct gf_fn_counts { /* of one anchor */
    int64_t pairs, same;      /* negatives; those with the anchor's label */
    int64_t flagged, hits;    /* negatives above the threshold; those with the anchor's label */
} gf_fn_counts;

/* Counts the pairs of every row of `s`, for `kinds` thresholds of each row at once: theta, counts [kinds][s->n]. */
glofnd_status gf_fn_count(gf_error *err, const gf_view_set *s, const float *theta, int kinds, const gf_sweep_job *job,
                          gf_fn_counts *counts);

typedef struct gf_precision_recall {
    int64_t anchors;
    double flagged;                                    /* share of all pairs */
    double precision, recall, f1;                      /* means over anchors; F1 of these means */
    double pooled_precision, pooled_recall, pooled_f1; /* over all pairs; NaN: no flagged pair, or no pair with equal labels */
} gf_precision_recall;

/* Summary of n anchors with `rows` consecutive rows each, whose counts are added: counts [n * rows]. */
gf_precision_recall gf_fn_precision_recall(const gf_fn_counts *counts, int64_t n, int rows);
