/* random.h - repeatable random numbers for tests: a splitmix64 stream per seed. */
#pragma once

#include <math.h>
#include <stdint.h>

typedef struct rng {
    uint64_t state;
} rng;

static inline uint64_t rng_next(rng *g) {
    uint64_t x = g->state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline double rng_uniform(rng *g) { /* in (0, 1) */
    return ((double)(rng_next(g) >> 11) + 0.5) * 0x1p-53;
}

static inline int64_t rng_below(rng *g, int64_t n) { return (int64_t)(rng_next(g) % (uint64_t)n); }

static inline double rng_normal(rng *g) {
    const double radius = sqrt(-2 * log(rng_uniform(g))), angle = 6.283185307179586 * rng_uniform(g);
    return radius * cos(angle);
}
