/* threshold_error.h - errors of thresholds against the optimal ones, and their distribution. */
#pragma once

#include "eval/view_set.h"
#include "pairs/pairs_sweep.h"
#include "pairs/flag_stats.h"

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
