/* kmeans.h - k-means of embeddings by cosine similarity (spherical): groups, and how sure each embedding is of its own.
 *
 * Lloyd's iterations: every embedding goes to the centroid it is most similar to (ties: the first), every centroid becomes the
 * normalised mean of its embeddings. Centroids begin as different embeddings drawn by the seed. A centroid without embeddings
 * takes the one that is least similar to its own. Same bits for any number of threads. Cost: n * groups * dim products per
 * iteration; memory: packed copies of embeddings and centroids, and 20 bytes per embedding.
 */
#pragma once

#include "pairs/pairs_sweep.h"

typedef struct gf_kmeans {
    int64_t groups;
    int iterations; /* at most; fewer if nothing moves any more */
    uint64_t seed;
    double tau; /* temperature of the confidence */
} gf_kmeans;

/* E_ARGUMENT unless there are 1 to n groups, and iterations and tau are above 0. of [n]: 0 .. groups-1. confidence [n]: exp(S/tau) of the own centroid, divided by the sum over all; NULL: not
 * wanted. E_NUMERIC names an embedding that is not finite. job->threads 0: all. */
glofnd_status gf_kmeans_run(gf_error *err, const gf_kmeans *k, const gf_vectors *v, const gf_sweep_job *job, int32_t *of,
                            float *confidence);
/* The `accepted` most confident of all keep their group (ties: the first), the others get -1. */
glofnd_status gf_kmeans_accept(gf_error *err, const float *confidence, int64_t n, int64_t accepted, int32_t *of);
