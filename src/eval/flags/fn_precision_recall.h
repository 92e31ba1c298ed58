/* fn_precision_recall.h - precision and recall of flagged pairs, measured by labels.
 *
 * A pair (i, j) of different samples is a false negative if both have the same label; a detector flags it if its similarity is
 * above the threshold of row i. Precision and recall come pooled over all pairs, and as the authors' code has them: per anchor,
 * 0/0 counting as 1, then the mean; F1 is the harmonic mean of the two means.
 */
#ifndef GF_EVAL_FLAGS_FN_PRECISION_RECALL_H
#define GF_EVAL_FLAGS_FN_PRECISION_RECALL_H

#include "eval/flags/view_set.h"
#include "pairs/tiles.h"

typedef struct gf_fn_counts { /* of one anchor */
    int64_t pairs, same;      /* negatives; of these, how many have the anchor's label */
    int64_t flagged, hits;    /* above the threshold; of these, how many have the anchor's label */
} gf_fn_counts;

/* Counts of every row of `s` with all of other samples, for `kinds` thresholds of each row at once: theta, counts
 * [kinds][s->n]. */
glofnd_status gf_fn_count(gf_error *err, const gf_view_set *s, const float *theta, int kinds, const gf_pair_how *how,
                          gf_fn_counts *counts);

typedef struct gf_precision_recall {
    int64_t anchors;
    double flagged;                                    /* share of all pairs */
    double precision, recall, f1;                      /* means over anchors; F1 of these means */
    double pooled_precision, pooled_recall, pooled_f1; /* over all pairs; NaN: nothing flagged, or no pair of one label */
} gf_precision_recall;

/* Of n anchors with `rows` neighbouring rows each, whose counts are added: [n * rows]. */
gf_precision_recall gf_fn_precision_recall(const gf_fn_counts *counts, int64_t n, int rows);

#endif
