/* compare_detectors.h - precision and recall of different detectors on the same embeddings. */
#pragma once

#include "eval/fn_precision_recall.h"

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
