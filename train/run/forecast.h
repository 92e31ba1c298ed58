/* forecast.h - what a configuration will do, said when the run begins: from which epoch on it is expected to flag pairs, and
 * which options have no effect. A run whose thresholds cannot arrive is seen before it is paid for. */
#pragma once

#include "run/config.h"

/* The threshold that a trained network is expected to have: above it a lambda that starts at 1 flags next to nothing. Measured:
 * 0.4 to 0.5 with two views (CIFAR-100), below 0.4 with images and captions (Flickr8k); docs/method.md. */
#define GF_EXPECTED_LAMBDA_VIEWS 0.5
#define GF_EXPECTED_LAMBDA_CLIP 0.3

typedef struct gf_flag_forecast {
    double fall;    /* lambda falls by at most this in an epoch; 0: it needs not fall */
    double reached; /* lambda at the end of the run if it fell all the time */
    int32_t from;   /* first epoch, from 0, that is expected to flag the share alpha */
    int never;      /* 1: the run ends before */
} gf_flag_forecast;

/* c: resolved; steps: of an epoch. */
gf_flag_forecast gf_flag_forecast_of(const gf_config *c, int64_t steps);
/* The forecast in words, "" without a detector; warning: "" if all is well. */
void gf_flag_forecast_text(const gf_config *c, int64_t steps, char *line, size_t bytes, char *warning, size_t warning_bytes);

/* ----- options without effect -----
 *
 * Options that are set, but have no effect with the others of a configuration. */

/* Message about the k-th such option (from 0), or NULL if there are k or fewer. c: resolved. */
const char *gf_idle_option(const gf_config *c, int k);
