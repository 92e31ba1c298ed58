/* snapshot.h - the network of a run applied to some of its data: a map of the features, thresholds against the optimal ones, and
 * flagged samples of some anchors. `glofnd report` shows it beside the logs. */
#pragma once

#include "data/dataset.h"
#include "report/gallery.h"
#include "run/config.h"

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
    int32_t *label;     /* [n] */
    int64_t *id;        /* [n] positions in the data */
    double *tsne, *pca; /* [n][2] */
    double pca_share[2];
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
