/* pair_rows.c - see pair_rows.h. */
#include "pair_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

float *rows_in_clusters(rng *g, int64_t n, int64_t dim, float spread) {
    float *x = malloc((size_t)(n * dim) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < dim; k++) {
            const float own = (float)rng_normal(g);
            x[i * dim + k] = i % 40 == 0 ? own : x[(i - i % 40) * dim + k] + spread * own;
        }
    return x;
}

float *rows_with_copies(rng *g, int64_t n, int64_t dim, float apart) {
    float *x = malloc((size_t)(n * dim) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < dim; k++)
            x[i * dim + k] = (i % 2 ? apart : 1.0f) * (float)rng_normal(g) + (i % 2 ? x[(i - 1) * dim + k] : 0.0f);
    return x;
}

void search_pairs(const gf_pairs_search *p, const gf_vectors *rows, const gf_pairs_task *t, gf_pairs_found *f) {
    gf_error err = {""};
    void *state = NULL;
    if (p->open(&err, rows, t->threads, &state) != GLOFND_OK) fail_msg("%s", err.text);
    if (gf_pairs_found_alloc(&err, f, rows->n, t->top) != GLOFND_OK) fail_msg("%s", err.text);
    if (p->find(&err, state, t, f) != GLOFND_OK) fail_msg("%s", err.text);
    p->close(state);
}
