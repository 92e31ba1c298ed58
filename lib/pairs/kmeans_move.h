/* kmeans_move.h - k-means: an embedding of a group with several goes to an empty group. For kernels, too. */
#pragma once

#include <stdint.h>

typedef struct gf_kmeans_move {
    int64_t at;
    int32_t from, to;
} gf_kmeans_move;
