/* detector_thresholds.h - thresholds of detectors that learn nothing: from a row's batch, from all pairs of an anchor, from all
 * pairs. Similarities are never all in memory. */
#pragma once

#include "eval/view_set.h"
#include "pairs/pairs_sweep.h"

/* FNC: interpolated (1-alpha) quantile of each row's similarities to the other samples of this set, a batch. theta [s->n]. */
glofnd_status gf_fnc_thresholds(gf_error *err, const gf_view_set *s, double alpha, const gf_sweep_job *job, float *theta);
/* Optimal: anchor k has `views` consecutive rows of `anchors`; out[k] is the ceil(alpha m)-th largest of their m similarities to
 * all rows of `pool` of other samples. views divides GF_SWEEP_GROUP. Memory: about 2 alpha m values per anchor of a block. */
glofnd_status gf_optimal_thresholds(gf_error *err, const gf_view_set *anchors, int views, const gf_view_set *pool, double alpha,
                                    const gf_sweep_job *job, float *out);
/* One for all anchors: the smallest value, on a grid of 2^-16, that at most a share alpha of all pairs exceeds. */
glofnd_status gf_single_threshold(gf_error *err, const gf_view_set *s, double alpha, const gf_sweep_job *job, float *out);
