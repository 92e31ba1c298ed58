/* fn_precision_recall.h - precision and recall of flagged pairs, measured by labels.
 *
 * A pair (i, j) of different samples is a false negative if both have the same label. A detector flags it if its similarity is
 * above the threshold of row i. Precision and recall are computed twice: pooled over all pairs, and as in the authors' code, per
 * anchor with 0/0 = 1, then averaged; F1 is the harmonic mean of the two means.
 */
#pragma once

#include "eval/view_set.h"
#include "pairs/pairs_sweep.h"
#include "pairs/flag_stats.h"

/* Counts the pairs of every row of `s`, for `kinds` thresholds of each row at once: theta, counts [kinds][s->n]. */
glofnd_status gf_fn_count(gf_error *err, const gf_view_set *s, const float *theta, int kinds, const gf_sweep_job *job,
                          gf_fn_counts *counts);
