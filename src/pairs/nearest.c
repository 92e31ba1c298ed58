/* nearest.c - see nearest.h. */
#include "pairs/nearest.h"

#include <math.h>
#include <stdlib.h>

#include "cpu/kernels/tile.h"
#include "util/parallel.h"

typedef struct search {
    const gf_tile_ops *ops;
    int k;
    int64_t *best; /* [rows][k] */
    float *value;  /* [threads][GF_PAIR_ROWS][k] similarities of best, for the rows of a block */
} search;

/* Behind all that are at least as similar: they are earlier columns. The last of a full list is lost. */
static void insert(int k, int64_t *best, float *value, int64_t column, float s) {
    int at = k - 1;
    for (; at > 0 && !(value[at - 1] >= s); at--) best[at] = best[at - 1], value[at] = value[at - 1];
    best[at] = column, value[at] = s;
}

/* A list that is not full ends in -1, whose similarity is below all. */
static void take_row(const search *x, const gf_pair_tile *t, const float *s, int64_t *best, float *value) {
    int32_t at[GF_PAIR_COLUMNS];
    const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), value[x->k - 1], NULL);
    for (int i = 0; i < found; i++) {
        const int32_t c = at[i];
        if (c < t->cols && s[c] > value[x->k - 1]) insert(x->k, best, value, t->c0 + c, s[c]);
    }
}

static void visit(void *user, const gf_pair_tile *t, int thread) {
    const search *x = user;
    for (int r = 0; r < t->rows; r++) {
        int64_t *best = x->best + (t->r0 + r) * x->k;
        float *value = x->value + ((int64_t)thread * GF_PAIR_ROWS + r) * x->k;
        for (int i = 0; t->c0 == 0 && i < x->k; i++) best[i] = -1, value[i] = -INFINITY;
        take_row(x, t, t->s + (size_t)r * t->ld, best, value);
    }
}

glofnd_status gf_nearest(gf_error *err, const gf_pairs *p, int k, int64_t *best) {
    gf_pairs pairs = *p;
    FAIL_IF(err, k < 1 || k > 4096, GLOFND_E_ARGUMENT, "k is %d; it must be in [1, 4096]", k);
    if (pairs.how.threads < 1) pairs.how.threads = gf_parallel_default();
    search x = {.ops = gf_tile_ops_get(), .k = k, .best = best};
    x.value = malloc((size_t)pairs.how.threads * GF_PAIR_ROWS * (size_t)k * sizeof *x.value);
    const glofnd_status status = x.value ? gf_pairs_sweep(err, &pairs, visit, &x)
                                         : gf_fail(err, GLOFND_E_MEMORY, "no memory for the nearest of a block of rows");
    free(x.value);
    return status;
}
