/* clusters.h - random embeddings as networks make them: clusters of 100 rows, and noise. */
#pragma once

#include <stdint.h>

/* [n][dim] unit rows, to be freed; the same for any number of threads. */
float *draw_clusters(int64_t n, int64_t dim, int threads);
