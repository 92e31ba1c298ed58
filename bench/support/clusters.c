/* clusters.c - see clusters.h. */
#include "support/clusters.h"

#include <math.h>
#include <stdlib.h>

#include "support/die.h"
#include "util/parallel.h"
#include "util/rng.h"

typedef struct drawing {
    float *x;      /* [n][dim] */
    float *centre; /* [centres][dim] */
    int64_t dim, centres;
} drawing;

static void draw_row(void *arg, int64_t i, int thread) {
    const drawing *b = arg;
    const float *centre = b->centre + i % b->centres * b->dim;
    float *x = b->x + i * b->dim;
    gf_rng g = gf_rng_at(1, GF_RNG_INIT, 1, (uint64_t)i, 0);
    double sum = 0.0;
    (void)thread;
    for (int64_t d = 0; d < b->dim; d++) {
        x[d] = 0.5f * centre[d] + (float)gf_rng_normal(&g);
        sum += (double)x[d] * (double)x[d];
    }
    for (int64_t d = 0; d < b->dim; d++) x[d] = (float)((double)x[d] / sqrt(sum));
}

float *draw_clusters(int64_t n, int64_t dim, int threads) {
    drawing b = {.dim = dim, .centres = n / 100 + 1};
    b.centre = malloc((size_t)(b.centres * dim) * sizeof *b.centre);
    b.x = malloc((size_t)(n * dim) * sizeof *b.x);
    if (!b.centre || !b.x) die("no memory for %lld x %lld", (long long)n, (long long)dim);
    gf_rng g = gf_rng_at(1, GF_RNG_INIT, 0, 0, 0);
    for (int64_t i = 0; i < b.centres * dim; i++) b.centre[i] = (float)gf_rng_normal(&g);
    gf_parallel(threads, n, draw_row, &b);
    free(b.centre);
    return b.x;
}
