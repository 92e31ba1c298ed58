/* view_set.h - labelled embeddings of views of samples, the rows that pairs are made of. */
#pragma once

#include "pairs/pairs_sweep.h"

typedef struct gf_view_set {          /* embeddings of views of samples */
    int64_t n, dim;                   /* rows */
    float *z;                         /* [n][dim] any length */
    int64_t *id;                      /* [n] position of the sample in its dataset; rows of one sample form no pair */
    int32_t *label;                   /* [n]; -1: unknown, different from every label */
    const struct gf_view_set *others; /* borrowed; pairs are rows of this set with rows of `others`, which has the same samples
                                         in the same rows (images with texts). NULL: rows of this set with each other */
} gf_view_set;

/* The embeddings of a set, for a sweep. */
static inline gf_vectors gf_view_vectors(const gf_view_set *s) { return (gf_vectors){.x = s->z, .n = s->n, .dim = s->dim}; }

/* The set that the rows are compared with. */
static inline const gf_view_set *gf_view_columns(const gf_view_set *s) { return s->others ? s->others : s; }

glofnd_status gf_view_set_alloc(gf_error *err, gf_view_set *s, int64_t n, int64_t dim);
void gf_view_set_free(gf_view_set *s); /* accepts NULL and a zeroed struct */
