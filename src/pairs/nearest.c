/* nearest.c - see nearest.h. */
#include "pairs/nearest.h"

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/best.h"
#include "util/parallel.h"

typedef struct search {
    const gf_tile_ops *ops;
    int k;
    gf_best list;  /* [threads][GF_SWEEP_GROUP] */
    int64_t *best; /* [rows][k] */
} search;

/* Columns rise, so one that only equals the limit is behind k others. */
static void take_row(search *x, const gf_strip *t, const float *s, int64_t list) {
    int32_t at[GF_STRIP_COLS];
    const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), x->list.limit[list], NULL);
    for (int i = 0; i < found && at[i] < t->cols; i++)
        if (s[at[i]] > x->list.limit[list]) gf_best_push(&x->list, list, s[at[i]], t->c0 + at[i]);
}

static void visit(void *user, const gf_strip *t, int thread) {
    search *x = user;
    for (int r = 0; r < t->rows; r++) {
        const int64_t list = (int64_t)thread * GF_SWEEP_GROUP + t->slot + r;
        if (t->c0 == 0) gf_best_clear(&x->list, list);
        take_row(x, t, t->s + (size_t)r * t->ld, list);
        if (!t->last) continue;
        const int64_t count = gf_best_sort(&x->list, list, x->k);
        for (int64_t i = 0; i < x->k; i++)
            x->best[(t->r0 + r) * x->k + i] = i < count ? gf_best_other(x->list.key[list * x->list.capacity + i]) : -1;
    }
}

glofnd_status gf_nearest(gf_error *err, const gf_vectors *rows, const gf_vectors *cols, int k, const gf_sweep_job *job,
                         int64_t *best) {
    gf_sweep_job all = *job;
    search x = {.ops = gf_cpu_kernels_get()->tile, .k = k, .best = best};
    FAIL_IF(err, k < 1 || k > 4096, GLOFND_E_ARGUMENT, "k is %d; it must be in [1, 4096]", k);
    if (all.threads < 1) all.threads = gf_parallel_default();
    TRY(gf_best_alloc(err, &x.list, (int64_t)all.threads * GF_SWEEP_GROUP, k));
    const glofnd_status status = gf_sweep_vectors(err, rows, cols, &all, visit, &x);
    gf_best_free(&x.list);
    return status;
}
