/* stratified_sample.h - the same share of every class, drawn by a seed. */
#pragma once

#include "util/status.h"

/* Purpose of a draw: different purposes are independent. */
enum gf_stratified_stream { GF_STRATIFIED_TEST, GF_STRATIFIED_LABELS, GF_STRATIFIED_VALIDATION };

typedef struct gf_stratified_sample {
    double share; /* in (0, 1] */
    uint64_t seed;
    uint32_t stream;
    int at_least_one; /* 1: of a class with too few samples for its share one is drawn, not none */
    /* results */
    int64_t count;   /* samples drawn */
    int32_t classes; /* classes with at least one sample */
    int32_t raised;  /* classes of which one sample was drawn in place of none */
} gf_stratified_sample;

/* chosen [n]: 1 for floor(share n_c) of the n_c samples of each class c, as in the authors' code, else 0; label [n], -1: none.
 * Of two shares under one seed, the smaller draw is a subset of the larger one. */
glofnd_status gf_stratified_draw(gf_error *err, gf_stratified_sample *d, const int32_t *label, int64_t n, uint8_t *chosen);
