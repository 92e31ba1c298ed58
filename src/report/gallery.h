/* gallery.h - anchors and what two detectors flag for them among the same embeddings: GloFND by the anchor's learned threshold,
 * FNC by the quantile of each batch. */
#ifndef GF_REPORT_GALLERY_H
#define GF_REPORT_GALLERY_H

#include "eval/flags/view_set.h"

enum { GF_GALLERY_ANCHORS = 6, GF_GALLERY_SHOWN = 6, GF_GALLERY_BINS = 48, GF_GALLERY_ALONG = 10 };

typedef struct gf_flagged { /* of an anchor, by one detector */
    int64_t count, right;   /* above the threshold; of these, how many share the label */
    int shown;
    int64_t row[GF_GALLERY_SHOWN]; /* drawn at random among them, the most similar first */
    float similarity[GF_GALLERY_SHOWN];
} gf_flagged;

typedef struct gf_line { /* all others of an anchor by their similarity to it */
    int64_t others;
    double low, high;                                    /* the least and the largest */
    int64_t all[GF_GALLERY_BINS], same[GF_GALLERY_BINS]; /* in equal parts of the range; with the anchor's label */
    int64_t row[GF_GALLERY_ALONG]; /* in each of so many equal parts, who is nearest to its middle; -1: nobody is there */
    float similarity[GF_GALLERY_ALONG];
} gf_line;

typedef struct gf_anchor {
    int64_t row;
    float lambda;     /* NaN: not learned */
    gf_flagged by[2]; /* GloFND, FNC */
    gf_line line;
} gf_anchor;

typedef struct gf_gallery_spec {
    const gf_view_set *s; /* one row per sample; rows that are found are those of gf_view_columns(s) */
    const float *lambda;  /* [s->n] NaN: none; may be NULL */
    double alpha;
    int64_t batch; /* of FNC */
    uint64_t seed;
} gf_gallery_spec;

/* Anchors drawn at random, of different labels while there are any, of those for whom something is flagged; how many. A row that
 * is not finite is nobody's neighbour. */
glofnd_status gf_gallery_pick(gf_error *err, const gf_gallery_spec *g, gf_anchor out[GF_GALLERY_ANCHORS], int *count);

#endif
