/* pairs_search_cpu.c - see pairs_search.h: discovery on the CPU.
 *
 * One pass: every similarity is computed once and offered to the lists of both anchors, which keep the best `rank` (or `top`) of
 * them; thresholds, pairs above them and mutual pairs are then read off the lists. Two passes, where the lists of all anchors do
 * not fit: thresholds row by row, with lists of the current rows only; then every similarity once more, against known thresholds,
 * with lists of `top`. Given thresholds need only the second of these passes.
 */
#include <math.h>
#include <stdlib.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/best.h"
#include "pairs/pairs_lists.h"
#include "pairs/pairs_stream.h"
#include "util/components.h"
#include "util/minmax.h"
#include "util/parallel.h"

enum { GROUP = 128 }; /* rows that share the columns while these are in the cache */

typedef struct search {
    const gf_pairs_task *t;
    gf_pairs_found *f;
    const gf_tile_ops *ops;
    gf_best best;
    float *scan;                      /* [pad(n)] smallest similarity that can change a result of the anchor */
    const float *lambda;              /* known thresholds; NULL: read off the lists at the end */
    int32_t *mutual_root, *copy_root; /* [threads][n] */
    int64_t group;                    /* rows: lists of a thread */
} search;

/* ----- both ends of a pair ----- */

static void set_scan(search *x, int64_t i) {
    const float min = fminf(x->best.limit[i], x->t->dup);
    x->scan[i] = x->lambda ? fminf(min, x->lambda[i]) : min;
}

static void offer(search *x, int64_t i, float v, int64_t other) {
    if (v < x->best.limit[i]) return;
    const float before = x->best.limit[i];
    gf_best_push(&x->best, i, v, other);
    if (x->best.limit[i] != before) set_scan(x, i);
}

static int same_label(const search *x, int64_t i, int64_t j) {
    const int32_t *label = x->t->label;
    return label && label[i] >= 0 && label[i] == label[j];
}

static void count_flags(search *x, int64_t i, int64_t j, float v, int thread) {
    gf_pairs_found *f = x->f;
    const int from_i = v > x->lambda[i], from_j = v > x->lambda[j], same = same_label(x, i, j);
    f->above[i] += from_i, f->above[j] += from_j;
    f->hits[i] += from_i && same, f->hits[j] += from_j && same;
    if (!from_i || !from_j) return;
    f->mutual[i]++, f->mutual[j]++;
    gf_components_join(x->mutual_root + thread * f->n, (int32_t)i, (int32_t)j);
}

static void count_duplicate(search *x, int64_t i, int64_t j, int thread) {
    x->f->copies[i]++, x->f->copies[j]++;
    gf_components_join(x->copy_root + thread * x->f->n, (int32_t)i, (int32_t)j);
}

static void visit_pairs(void *user, const gf_strip *t, int thread) {
    search *x = user;
    int32_t at[GF_STRIP_COLS];
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r;
        const float *s = t->s + (size_t)r * t->ld;
        const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), x->scan[i], x->scan + t->c0);
        for (int k = 0; k < found && at[k] < t->cols; k++) {
            const int64_t j = t->c0 + at[k];
            const float v = s[at[k]];
            if (j <= i) continue;
            offer(x, i, v, j);
            offer(x, j, v, i);
            if (x->lambda) count_flags(x, i, j, v, thread);
            if (v >= x->t->dup) count_duplicate(x, i, j, thread);
        }
    }
}

static void merge_components(search *x) {
    const int64_t n = x->f->n;
    gf_components_init(x->f->mutual_root, n);
    gf_components_init(x->f->copy_root, n);
    for (int t = 0; t < x->t->threads; t++) {
        gf_components_merge(x->f->mutual_root, x->mutual_root + t * n, n);
        gf_components_merge(x->f->copy_root, x->copy_root + t * n, n);
    }
    gf_components_flatten(x->f->mutual_root, n);
    gf_components_flatten(x->f->copy_root, n);
}

/* ----- one row against all columns ----- */

static void row_done(search *x, int64_t list, int64_t i) {
    gf_pairs_found *f = x->f;
    const uint64_t *key = x->best.key + list * x->best.capacity;
    f->lambda[i] = gf_best_ranked(&x->best, list, GF_MIN(x->t->rank, x->best.count[list]));
    gf_lists_edge(&x->best, list, f, i);
    for (int64_t k = 0; f->above && k < x->best.count[list]; k++) {
        const float v = gf_best_value(key[k]);
        if (!(v > f->lambda[i])) continue;
        f->above[i]++;
        f->mutual[i] += x->lambda && v > x->lambda[gf_best_other(key[k])];
    }
    if (f->above) gf_lists_top(&x->best, list, f, i);
}

static void visit_rows(void *user, const gf_strip *t, int thread) {
    search *x = user;
    int32_t at[GF_STRIP_COLS];
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r, list = thread * x->group + t->slot + r;
        const int64_t self = x->t->skip ? x->t->skip[i] : -1;
        const float *s = t->s + (size_t)r * t->ld;
        if (t->c0 == 0) gf_best_clear(&x->best, list);
        const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), fminf(x->best.limit[list], x->t->dup), NULL);
        for (int k = 0; k < found && at[k] < t->cols; k++) {
            const int64_t j = t->c0 + at[k];
            const float v = s[at[k]];
            if (j == self) continue;
            if (v >= x->best.limit[list]) gf_best_push(&x->best, list, v, j);
            if (v >= x->t->dup && x->f->copies) x->f->copies[i]++;
        }
        if (t->last) row_done(x, list, i);
    }
}

static int64_t group_of(const gf_pairs_task *t, int64_t keep) {
    return gf_best_bytes((int64_t)t->threads * GROUP, keep) <= t->memory / 4 ? GROUP : GF_PANEL;
}

static glofnd_status search_rows(gf_error *err, const gf_panels *q, const gf_panels *k, const gf_pairs_task *t,
                                 gf_pairs_found *f) {
    const int64_t keep = GF_MAX(gf_lists_keep(t), f->top);
    search x = {.t = t, .f = f, .ops = gf_cpu_kernels_get()->tile, .lambda = t->lambda, .group = group_of(t, keep)};
    TRY(gf_best_alloc(err, &x.best, t->threads * x.group, keep));
    const gf_sweep_job job = {.threads = t->threads, .watch = t->watch};
    const glofnd_status status = gf_sweep_rows(err, q, k, x.group, &job, visit_rows, &x);
    gf_best_free(&x.best);
    return status;
}

/* ----- the table ----- */

static int64_t whole_keep(const gf_pairs_task *t) { return GF_MAX(gf_lists_keep(t), t->top); }

static int one_pass(int64_t n, const gf_pairs_task *t) { return t->lambda || gf_best_bytes(n, whole_keep(t)) <= t->memory; }

static int64_t list_keep(int64_t n, const gf_pairs_task *t) {
    return GF_MAX(t->lambda || !one_pass(n, t) ? t->top : whole_keep(t), 1);
}

static gf_pairs_plan plan(int64_t n, int64_t dim, const gf_pairs_task *t) {
    gf_pairs_plan p = {.rows = gf_panels_bytes(n, dim), .passes = one_pass(n, t) ? 1 : 2};
    p.lists = gf_best_bytes(n, list_keep(n, t));
    if (p.passes == 2) p.lists += gf_best_bytes((int64_t)t->threads * group_of(t, whole_keep(t)), whole_keep(t));
    p.results = gf_pairs_found_bytes(n, t->top);
    p.scratch = gf_sweep_bytes(t->threads) + (size_t)n * ((size_t)t->threads * 2 * sizeof(int32_t) + sizeof(float));
    return p;
}

static glofnd_status open_rows(gf_error *err, const gf_vectors *rows, int threads, void **state) {
    gf_panels *p = malloc(sizeof *p);
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "no memory for embeddings");
    const glofnd_status status = gf_panels_pack(err, rows, threads, p);
    if (status == GLOFND_OK) *state = p;
    else free(p);
    return status;
}

static void close_rows(void *state) {
    if (state) gf_panels_free(state);
    free(state);
}

/* All thresholds, with lists of the current rows only. */
static glofnd_status thresholds(gf_error *err, const gf_panels *p, const gf_pairs_task *t, const gf_pairs_found *f) {
    gf_pairs_found only = {
        .n = p->n, .lambda = f->lambda, .edge = f->edge, .edge_other = f->edge_other, .edge_similarity = f->edge_similarity};
    gf_pairs_task task = *t;
    int32_t *self = malloc((size_t)p->n * sizeof *self);
    FAIL_IF(err, !self, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)p->n);
    gf_components_init(self, p->n);
    task.skip = self, task.lambda = NULL, task.dup = INFINITY;
    task.watch = gf_job_part(&t->watch, 0.0, 2.0 / 3.0);
    const glofnd_status status = search_rows(err, p, p, &task, &only);
    free(self);
    return status;
}

static glofnd_status allocate(gf_error *err, search *x) {
    const int64_t n = x->f->n;
    const size_t parts = (size_t)x->t->threads * (size_t)n * sizeof *x->mutual_root;
    x->scan = malloc((size_t)gf_pad(n) * sizeof *x->scan);
    x->mutual_root = malloc(parts);
    x->copy_root = malloc(parts);
    FAIL_IF(err, !x->scan || !x->mutual_root || !x->copy_root, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)n);
    TRY(gf_best_alloc(err, &x->best, n, list_keep(n, x->t)));
    for (int64_t i = 0; i < gf_pad(n); i++) {
        if (i < n) set_scan(x, i);
        else x->scan[i] = INFINITY;
    }
    for (int t = 0; t < x->t->threads; t++) {
        gf_components_init(x->mutual_root + t * n, n);
        gf_components_init(x->copy_root + t * n, n);
    }
    return GLOFND_OK;
}

static glofnd_status search_pairs(gf_error *err, const gf_panels *p, search *x, const gf_sweep_job *job) {
    TRY(allocate(err, x));
    TRY(gf_sweep_symmetric(err, p, x->t->block, job, visit_pairs, x));
    if (!x->lambda) {
        gf_lists_all_thresholds(&x->best, x->t, x->f);
        gf_lists_all_pairs(&x->best, x->t, x->f, x->mutual_root);
    }
    gf_lists_all_top(&x->best, x->t, x->f);
    merge_components(x);
    return GLOFND_OK;
}

static glofnd_status find(gf_error *err, void *state, const gf_pairs_task *t, gf_pairs_found *f) {
    const gf_panels *p = state;
    search x = {.t = t, .f = f, .ops = gf_cpu_kernels_get()->tile};
    const int two = !one_pass(p->n, t);
    TRY(gf_pairs_check_rank(err, t, p->n - 1));
    if (two) TRY(thresholds(err, p, t, f));
    for (int64_t i = 0; t->lambda && i < p->n; i++) f->lambda[i] = t->lambda[i];
    if (two || t->lambda) x.lambda = f->lambda;
    const gf_sweep_job job = {.threads = t->threads, .watch = gf_job_part(&t->watch, two ? 2.0 / 3.0 : 0.0, 1.0)};
    const glofnd_status status = search_pairs(err, p, &x, &job);
    gf_best_free(&x.best);
    free(x.scan);
    free(x.mutual_root);
    free(x.copy_root);
    return status;
}

static glofnd_status query(gf_error *err, void *state, const gf_vectors *rows, const gf_pairs_task *t, gf_pairs_found *f) {
    const gf_panels *k = state;
    gf_panels q = {0};
    TRY(gf_pairs_check_query(err, t, k->n));
    TRY(gf_panels_pack(err, rows, t->threads, &q));
    const glofnd_status status = search_rows(err, &q, k, t, f);
    gf_panels_free(&q);
    return status;
}

const gf_pairs_search gf_pairs_search_cpu = {
    .name = "cpu",
    .plan = plan,
    .open = open_rows,
    .find = find,
    .query = query,
    .close = close_rows,
    .stream = &gf_stream_search_cpu,
};
