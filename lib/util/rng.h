/* rng.h - counter-based random numbers (Philox4x32-10) and a keyed permutation.
 *
 * A number is a pure function of what it is for: (seed, purpose) make the key, (epoch, sample, view, op) the counter. No state is
 * carried, so any worker, rank or resumed run draws the same numbers.
 */
#pragma once

#include <stdint.h>

typedef struct gf_rng { /* a short stream under one counter: draws 0, 1, 2 ... */
    uint64_t key;
    uint32_t counter[4]; /* the last word counts the draws */
    uint32_t block[4];
    int used;
} gf_rng;

enum gf_rng_purpose { GF_RNG_ORDER = 1, GF_RNG_AUGMENT, GF_RNG_INIT, GF_RNG_SHAPES, GF_RNG_SPLIT, GF_RNG_CAPTION };

/* Philox4x32-10, the function itself (test vectors of the Random123 paper). */
void gf_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The stream of (seed, purpose) at (epoch, sample, lane); lane: view, op, tensor ... */
gf_rng gf_rng_at(uint64_t seed, enum gf_rng_purpose purpose, uint32_t epoch, uint64_t sample, uint32_t lane);
uint32_t gf_rng_u32(gf_rng *r);
double gf_rng_uniform(gf_rng *r); /* in [0, 1), 53 bits */
double gf_rng_range(gf_rng *r, double lo, double hi);
int64_t gf_rng_below(gf_rng *r, int64_t n); /* 0 .. n-1, without bias */
double gf_rng_normal(gf_rng *r);            /* standard normal */

/* Position `i` of the order of epoch `epoch`: a permutation of 0..n-1, computed in O(1) (Feistel network with cycle walking). */
int64_t gf_permute(uint64_t seed, uint32_t epoch, int64_t n, int64_t i);
