/* detectors.h - false negatives that detectors flag: precision and recall by labels, thresholds, their errors.
 *
 * A pair (i, j) of different samples is a false negative if both have the same label. A detector flags it if its similarity is
 * above the threshold of row i. Precision and recall are computed twice: pooled over all pairs, and as in the authors' code, per
 * anchor with 0/0 = 1, then averaged; F1 is the harmonic mean of the two means.
 */
#pragma once

#include "eval/encode.h"
#include "pairs/flag_stats.h"
#include "pairs/pairs_sweep.h"

/* Counts the pairs of every row of `s`, for `kinds` thresholds of each row at once: theta, counts [kinds][s->n]. */
glofnd_status gf_fn_count(gf_error *err, const gf_view_set *s, const float *theta, int kinds, const gf_sweep_job *job,
                          gf_fn_counts *counts);

/* ----- precision and recall of different detectors on the same embeddings ----- */

/* X(constant, name, meaning) */
#define GF_FN_DETECTORS(X)                                                                                   \
    X(GLOFND, "glofnd", "the thresholds the run has learned, one per anchor")                                \
    X(EXACT, "exact", "each anchor's (1-alpha) quantile over all of these embeddings: the target of GloFND") \
    X(SINGLE, "single", "one threshold for all anchors, the (1-alpha) quantile of all pairs")                \
    X(FNC, "fnc", "each row's (1-alpha) quantile within its batch")

typedef enum gf_fn_detector {
#define GF_FN_X(name, text, meaning) GF_FN_##name,
    GF_FN_DETECTORS(GF_FN_X)
#undef GF_FN_X
        GF_FN_DETECTOR_COUNT
} gf_fn_detector;

extern const char *const gf_fn_detector_names[GF_FN_DETECTOR_COUNT], *const gf_fn_detector_meanings[GF_FN_DETECTOR_COUNT];

typedef struct gf_fn_comparison {
    const gf_view_set *s;
    int views;     /* consecutive rows of a sample */
    int64_t batch; /* samples; pairs within each batch, without the last incomplete one. 0: all pairs */
    double alpha;
    const float *lambda; /* [s->n / views] learned thresholds; NaN: the anchor flags nothing. NULL: none learned */
    gf_sweep_job job;
} gf_fn_comparison;

/* out [GF_FN_DETECTOR_COUNT]; anchors 0: not available (GLOFND without lambda, FNC without batches). */
glofnd_status gf_fn_compare(gf_error *err, const gf_fn_comparison *x, gf_precision_recall *out);

/* ----- thresholds of detectors that learn nothing; similarities are never all in memory ----- */

/* FNC: interpolated (1-alpha) quantile of each row's similarities to the other samples of this set, a batch. theta [s->n]. */
glofnd_status gf_fnc_thresholds(gf_error *err, const gf_view_set *s, double alpha, const gf_sweep_job *job, float *theta);
/* Optimal: anchor k has `views` consecutive rows of `anchors`; out[k] is the ceil(alpha m)-th largest of their m similarities to
 * all rows of `pool` of other samples. views divides GF_SWEEP_GROUP. Memory: about 2 alpha m values per anchor of a block. */
glofnd_status gf_optimal_thresholds(gf_error *err, const gf_view_set *anchors, int views, const gf_view_set *pool, double alpha,
                                    const gf_sweep_job *job, float *out);
/* One for all anchors: the smallest value, on a grid of 2^-16, that at most a share alpha of all pairs exceeds. */
glofnd_status gf_single_threshold(gf_error *err, const gf_view_set *s, double alpha, const gf_sweep_job *job, float *out);

/* ----- errors of thresholds against the optimal ones, and their distribution ----- */

/* Histogram of x [n] over [low, high] as a density: its integral is the share of x in the range. NaN are left out. */
void gf_density(const float *x, int64_t n, double low, double high, int bins, double *out);

typedef struct gf_draw_error {
    gf_threshold_error one; /* against single draws */
    double floor;           /* mean absolute error that the mean over endless draws would have against one draw */
    double noise;           /* standard deviation of one draw around that mean */
    double spread;          /* standard deviation of the thresholds around that mean, beyond their bias */
} gf_draw_error;

/* Thresholds x [n] against exact ones of several draws of views, draw [n][draws], draws > 1. A mean of few draws follows them:
 * floor, noise and spread are corrected for it, floor as if draws were normal. Where no x is NaN, the squares of one.bias, spread
 * and noise add up to that of one.rmse. Pairs with a NaN are left out. */
gf_draw_error gf_draw_error_of(const float *x, const float *draw, int64_t n, int64_t draws);
/* mean [n] over the draws [n][draws]. */
void gf_draw_mean(const float *draw, int64_t n, int64_t draws, float *mean);

/* FNC's thresholds: all samples of `s` (`views` consecutive rows each) are shuffled into batches of `batch`, `draws` times, and
 * each row gets the (1-alpha) quantile of its batch. out [samples][draws * views]. The last batch is completed with samples of
 * the one before. */
glofnd_status gf_fnc_batch_thresholds(gf_error *err, const gf_view_set *s, int views, int64_t batch, int draws, double alpha,
                                      uint64_t seed, const gf_sweep_job *job, float *out);
