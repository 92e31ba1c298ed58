/* gallery.h - anchors and what two detectors flag for them among the same embeddings: GloFND by the anchor's learned threshold,
 * FNC by the quantile of each batch. */
#ifndef GF_REPORT_GALLERY_H
#define GF_REPORT_GALLERY_H

#include "eval/fn_quality.h"

enum { GF_GALLERY_ANCHORS = 6, GF_GALLERY_SHOWN = 6 };

typedef struct gf_flagged {     /* of an anchor, by one detector */
    int64_t count, right;       /* above the threshold; of these, how many share the label */
    int shown;
    int64_t row[GF_GALLERY_SHOWN];      /* drawn at random among them, the most similar first */
    float similarity[GF_GALLERY_SHOWN];
} gf_flagged;

typedef struct gf_anchor {
    int64_t row;
    float lambda;               /* NaN: not learned */
    gf_flagged by[2];           /* GloFND, FNC */
} gf_anchor;

typedef struct gf_gallery_spec {
    const gf_view_set *s;       /* one row per sample */
    const float *lambda;        /* [s->n] NaN: none; may be NULL */
    double alpha;
    int64_t batch;              /* of FNC */
    uint64_t seed;
} gf_gallery_spec;

/* Anchors drawn at random, of different labels while there are any, of those for whom something is flagged; how many. A row that
 * is not finite is nobody's neighbour. */
glofnd_status gf_gallery_pick(gf_error *err, const gf_gallery_spec *g, gf_anchor out[GF_GALLERY_ANCHORS], int *count);

#endif
