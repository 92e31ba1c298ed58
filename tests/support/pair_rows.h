/* pair_rows.h - embeddings for tests of searches over pairs, to be freed, and such a search as one call. */
#pragma once

#include "pairs/pairs_search.h"
#include "support/random.h"

/* Rows [n][dim]: 40 around each of random directions, so far apart. */
float *rows_in_clusters(rng *g, int64_t n, int64_t dim, float spread);
/* Noise, each second row a near copy of the one before. */
float *rows_with_copies(rng *g, int64_t n, int64_t dim, float apart);
/* Opens, finds and closes with the task's threads; the test fails with the search's text. */
void search_pairs(const gf_pairs_search *p, const gf_vectors *rows, const gf_pairs_task *t, gf_pairs_found *f);
