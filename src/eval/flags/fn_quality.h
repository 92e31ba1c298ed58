/* fn_quality.h - how well flagged pairs agree with labels, and the thresholds that different detectors would use.
 *
 * A pair (i, j) of different samples is a false negative if both have the same label; a detector flags it if its similarity is
 * above the threshold of row i. Precision and recall come pooled over all pairs, and as the authors' code has them: per anchor,
 * 0/0 counting as 1, then the mean; F1 is the harmonic mean of the two means.
 */
#ifndef GF_EVAL_FLAGS_FN_QUALITY_H
#define GF_EVAL_FLAGS_FN_QUALITY_H

#include "pairs/tiles.h"
#include "util/status.h"

typedef struct gf_view_set {          /* embeddings of views of samples */
    int64_t n, dim;                   /* rows */
    float *z;                         /* [n][dim] any length */
    int64_t *id;                      /* [n] position of the sample in its dataset; rows of one sample are no pair */
    int32_t *label;                   /* [n]; -1: unknown, like nobody's */
    const struct gf_view_set *others; /* borrowed: pairs are rows of this set with rows of that one, which has the same samples
                                           in the same rows (images with texts); NULL: rows of this set with each other */
} gf_view_set;

/* What the rows of a set are compared with. */
static inline const gf_view_set *gf_view_columns(const gf_view_set *s) { return s->others ? s->others : s; }

glofnd_status gf_view_set_alloc(gf_error *err, gf_view_set *s, int64_t n, int64_t dim);
void gf_view_set_free(gf_view_set *s); /* NULL and a zeroed one are fine */

typedef struct gf_fn_counts { /* of one anchor */
    int64_t pairs, same;      /* negatives; of these, how many have the anchor's label */
    int64_t flagged, hits;    /* above the threshold; of these, how many have the anchor's label */
} gf_fn_counts;

/* Counts of every row of `s` with all of other samples, for `kinds` thresholds of each row at once: theta, counts
 * [kinds][s->n]. */
glofnd_status gf_fn_count(gf_error *err, const gf_view_set *s, const float *theta, int kinds, const gf_pair_how *how,
                          gf_fn_counts *counts);

typedef struct gf_fn_quality {
    int64_t anchors;
    double flagged;                                    /* share of all pairs */
    double precision, recall, f1;                      /* means over anchors; F1 of these means */
    double pooled_precision, pooled_recall, pooled_f1; /* over all pairs; NaN: nothing flagged, or no pair of one label */
} gf_fn_quality;

/* Of n anchors with `rows` neighbouring rows each, whose counts are added: [n * rows]. */
gf_fn_quality gf_fn_summarize(const gf_fn_counts *counts, int64_t n, int rows);

/* ----- thresholds ----- */

/* FNC: the (1-alpha) quantile of each row's similarities to the others of this set (a batch), interpolated. theta [s->n]. */
glofnd_status gf_fnc_thresholds(gf_error *err, const gf_view_set *s, double alpha, const gf_pair_how *how, float *theta);
/* Optimum: anchor k has `views` neighbouring rows of `anchors`; out[k] is the ceil(alpha m)-th largest of their m similarities to
 * all rows of `pool` of other samples. views divides GF_PAIR_ROWS. Memory: lists of some alpha m values per anchor of a block. */
glofnd_status gf_optimal_thresholds(gf_error *err, const gf_view_set *anchors, int views, const gf_view_set *pool, double alpha,
                                    const gf_pair_how *how, float *out);
/* One for all: the smallest value, on a grid of 2^-16, that at most a share alpha of all pairs is above. */
glofnd_status gf_single_threshold(gf_error *err, const gf_view_set *s, double alpha, const gf_pair_how *how, float *out);

#endif
