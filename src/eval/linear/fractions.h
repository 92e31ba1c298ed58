/* fractions.h - a share of the labelled samples, the same share of every class, chosen by a seed. */
#ifndef GF_EVAL_LINEAR_FRACTIONS_H
#define GF_EVAL_LINEAR_FRACTIONS_H

#include "util/status.h"

/* What is drawn: draws for different purposes are independent of each other. */
enum gf_draw_stream { GF_DRAW_TEST, GF_DRAW_LABELS, GF_DRAW_VALIDATION };

typedef struct gf_draw {
    double share; /* in (0, 1] */
    uint64_t seed;
    uint32_t stream;
    /* found */
    int64_t count;   /* samples drawn */
    int32_t classes; /* with at least one sample to draw from */
    int32_t empty;   /* a class that has samples and got none; -1: every class got some */
} gf_draw;

/* chosen [n]: 1 for floor(share n_c) of the n_c samples of each class c, as the authors' code counts, else 0. label [n], -1:
 * none.
 * Of two shares under one seed the smaller draw lies within the larger one. */
glofnd_status gf_draw_share(gf_error *err, gf_draw *d, const int32_t *label, int64_t n, uint8_t *chosen);

#endif
