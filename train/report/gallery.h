/* gallery.h - some anchors, and the samples that two detectors flag for them among the same embeddings: GloFND by the anchor's
 * learned threshold, FNC by the quantile of each batch. */
#pragma once

#include "eval/view_set.h"

enum { GF_GALLERY_ANCHORS = 6, GF_GALLERY_SHOWN = 6, GF_GALLERY_BINS = 48, GF_GALLERY_EXAMPLES = 10 };

typedef struct gf_flagged_samples { /* of an anchor, by one detector */
    int64_t count, right;           /* above the threshold; those with the anchor's label */
    int shown;
    int64_t row[GF_GALLERY_SHOWN]; /* a random selection, most similar first */
    float similarity[GF_GALLERY_SHOWN];
} gf_flagged_samples;

typedef struct gf_similarity_profile { /* all other samples by their similarity to an anchor */
    int64_t others;
    double low, high;                                    /* range */
    int64_t all[GF_GALLERY_BINS], same[GF_GALLERY_BINS]; /* histogram over the range; samples with the anchor's label */
    int64_t row[GF_GALLERY_EXAMPLES]; /* sample nearest to the middle of each equal part of the range; -1: none */
    float similarity[GF_GALLERY_EXAMPLES];
} gf_similarity_profile;

typedef struct gf_gallery_anchor {
    int64_t row;
    float lambda;             /* NaN: not learned */
    gf_flagged_samples by[2]; /* GloFND, FNC */
    gf_similarity_profile profile;
} gf_gallery_anchor;

typedef struct gf_gallery_spec {
    const gf_view_set *s; /* one row per sample; flagged rows are rows of gf_view_columns(s) */
    const float *lambda;  /* [s->n], NaN: none; may be NULL */
    double alpha;
    int64_t batch; /* of FNC */
    uint64_t seed;
} gf_gallery_spec;

/* Random anchors with at least one flagged sample, with different labels as far as possible; *count: their number. Rows that
 * are not finite are never flagged. */
glofnd_status gf_gallery_choose(gf_error *err, const gf_gallery_spec *g, gf_gallery_anchor out[GF_GALLERY_ANCHORS], int *count);
