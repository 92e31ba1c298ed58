/* threshold_error.h - errors of thresholds against the optimal ones, and their distribution. */
#pragma once

#include "eval/flags/view_set.h"
#include "pairs/pairs_sweep.h"
#include "pairs/threshold_spread.h"

/* Histogram of x [n] over [low, high] as a density: its integral is the share of x in the range. NaN are left out. */
void gf_density(const float *x, int64_t n, double low, double high, int bins, double *out);

/* FNC's thresholds: all samples of `s` (`views` consecutive rows each) are shuffled into batches of `batch`, `draws` times, and
 * each row gets the (1-alpha) quantile of its batch. out [samples][draws * views]. The last batch is completed with samples of
 * the one before. */
glofnd_status gf_fnc_batch_thresholds(gf_error *err, const gf_view_set *s, int views, int64_t batch, int draws, double alpha,
                                      uint64_t seed, const gf_sweep_job *job, float *out);
