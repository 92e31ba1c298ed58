/* threshold_error.h - how far thresholds are from the optimum, and how they are spread. */
#ifndef GF_EVAL_FLAGS_THRESHOLD_ERROR_H
#define GF_EVAL_FLAGS_THRESHOLD_ERROR_H

#include "eval/flags/view_set.h"
#include "pairs/tiles.h"

typedef struct gf_threshold_error {
    int64_t count;          /* thresholds compared */
    double mae, rmse, bias; /* mean absolute, root mean square, mean difference to the optimum; NaN for none */
} gf_threshold_error;

/* x [n][each] against optimum [n]; pairs with a NaN are left out. */
gf_threshold_error gf_threshold_error_of(const float *x, const float *optimum, int64_t n, int64_t each);

typedef struct gf_spread {
    int64_t count;
    double mean, std, min, max;
} gf_spread;

gf_spread gf_spread_of(const float *x, int64_t n); /* without NaN; all NaN for none */
/* Density of x [n] in `bins` equal parts of [low, high]: its integral is the share of x in there. NaN are left out. */
void gf_density(const float *x, int64_t n, double low, double high, int bins, double *out);

/* FNC's thresholds: `draws` times all samples of `s` (views neighbouring rows each) are dealt into random batches of `batch`, and
 * each row gets its (1-alpha) quantile there. out [samples][draws * views]. The last batch of a deal takes samples of the one
 * before to be complete. */
glofnd_status gf_fnc_batch_thresholds(gf_error *err, const gf_view_set *s, int views, int64_t batch, int draws, double alpha,
                                      uint64_t seed, const gf_pair_how *how, float *out);

#endif
