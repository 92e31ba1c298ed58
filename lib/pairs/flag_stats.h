/* flag_stats.h - precision and recall of flagged pairs, from counts per anchor; errors and spread of thresholds. */
#pragma once

#include <stdint.h>

typedef struct gf_fn_counts { /* of one anchor */
    int64_t pairs, same;      /* negatives; those with the anchor's label */
    int64_t flagged, hits;    /* negatives above the threshold; those with the anchor's label */
} gf_fn_counts;

typedef struct gf_precision_recall {
    int64_t anchors;
    double flagged;                                    /* share of all pairs */
    double precision, recall, f1;                      /* means over anchors; F1 of these means */
    double pooled_precision, pooled_recall, pooled_f1; /* over all pairs; NaN: no flagged pair, or no pair with equal labels */
} gf_precision_recall;

/* Summary of n anchors with `rows` consecutive rows each, whose counts are added: counts [n * rows]. */
gf_precision_recall gf_fn_precision_recall(const gf_fn_counts *counts, int64_t n, int rows);
/* Harmonic mean; of mean precision and mean recall, the F1 score of the paper's tables. 0 if both are 0. */
double gf_f1(double precision, double recall);

/* ----- thresholds ----- */

/* Errors of thresholds against exact ones, and their spread. */

typedef struct gf_threshold_error {
    int64_t count;          /* number of thresholds compared */
    double mae, rmse, bias; /* mean absolute, root mean square and mean difference to the optimum; NaN: none */
} gf_threshold_error;

/* x [n][each] against optimum [n]; pairs with a NaN are left out. */
gf_threshold_error gf_threshold_error_of(const float *x, const float *optimum, int64_t n, int64_t each);

typedef struct gf_spread {
    int64_t count;
    double mean, std, min, max;
} gf_spread;

gf_spread gf_spread_of(const float *x, int64_t n); /* NaN are left out */
