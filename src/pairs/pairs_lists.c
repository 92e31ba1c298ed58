/* pairs_lists.c - see pairs_lists.h. */
#include "pairs/pairs_lists.h"

#include <math.h>

void gf_lists_edge(const gf_best *b, int64_t list, gf_pairs_found *f, int64_t i) {
    const uint64_t *key = b->key + list * b->capacity;
    uint64_t best[GF_PAIRS_EDGE] = {0};
    for (int64_t k = 0; k < b->count[list]; k++) {
        uint64_t next = key[k];
        if (gf_best_value(next) > f->lambda[i]) continue;
        for (int64_t e = 0; e < f->edge; e++) {
            const uint64_t place = best[e];
            if (next > place) best[e] = next, next = place;
        }
    }
    for (int64_t e = 0; e < f->edge && best[e]; e++) {
        f->edge_other[i * f->edge + e] = (int32_t)gf_best_other(best[e]);
        f->edge_similarity[i * f->edge + e] = gf_best_value(best[e]);
    }
}

void gf_lists_top(gf_best *b, int64_t list, gf_pairs_found *f, int64_t i) {
    const int64_t count = gf_best_sort(b, list, f->top);
    for (int64_t k = 0; k < f->top; k++) {
        const uint64_t key = k < count ? b->key[list * b->capacity + k] : 0;
        f->other[i * f->top + k] = k < count ? (int32_t)gf_best_other(key) : -1;
        f->similarity[i * f->top + k] = k < count ? gf_best_value(key) : NAN;
    }
}
