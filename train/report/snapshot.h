/* snapshot.h - the network of a run applied to some of its data: a map of the features, thresholds against the optimal ones, and
 * flagged samples of some anchors. `glofnd report` shows it beside the logs. */
#pragma once

#include "data/dataset.h"
#include "eval/encode.h"
#include "run/config.h"

/* ----- gallery ----- */

/* Some anchors, and the samples that two detectors flag for them among the same embeddings: GloFND by the anchor's
 * learned threshold, FNC by the quantile of each batch. */

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

/* ----- snapshot ----- */

typedef struct gf_snapshot_spec {
    const char *run, *data;                                                      /* data NULL: the SPEC the run was trained on */
    int64_t samples;                                                             /* at most */
    void (*progress)(void *user, const char *what, int64_t done, int64_t total); /* may be NULL */
    void *user;
} gf_snapshot_spec;

typedef struct gf_snapshot_values {
    float *x;
    int64_t n;
} gf_snapshot_values;

/* Anchors of one kind. The gallery has projections of centre crops. Thresholds are of augmented views or, in image-text runs,
 * of the same projections. */
typedef struct gf_snapshot_side {
    const gf_view_set *rows; /* of the gallery */
    gf_gallery_anchor anchor[GF_GALLERY_ANCHORS];
    int anchors;
    int64_t learned; /* thresholds that are not NaN */
    gf_snapshot_values lambda, optimum, fnc;
    double lambda_mae, fnc_mae; /* mean absolute error against the optimum */
} gf_snapshot_side;

typedef struct gf_snapshot {
    int made;       /* 0: failed, see `why` */
    char why[512];  /* error message */
    int64_t step;   /* of weights and thresholds; -1: unknown */
    char note[820]; /* about the weights and the data; "": nothing */
    gf_dataset *data;
    int64_t total; /* samples of the data */
    double alpha;
    int clip;      /* image-text run: side 0 has images, side 1 captions; each is compared with the other */
    uint64_t seed; /* with `epochs`: choice of a sample's caption */
    int64_t epochs;
    /* map: features of the backbone */
    int64_t n;
    int32_t *label;    /* [n] */
    int64_t *id;       /* [n] positions in the data */
    double *tsne;      /* [n][2] */
    double neighbours; /* share of samples whose nearest neighbour has the same label; NaN without labels */
    /* gallery and thresholds */
    gf_view_set set;         /* embeddings of the samples of the map; unused in image-text runs */
    gf_view_set image, text; /* image-text runs */
    gf_snapshot_side side[2];
    int sides; /* 1, or 2 */
} gf_snapshot;

/* Never fails: an error message goes to out->why. */
void gf_snapshot_make(const gf_snapshot_spec *spec, gf_snapshot *out);
void gf_snapshot_free(gf_snapshot *l); /* accepts a zeroed struct */
