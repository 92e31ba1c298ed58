/* pairs_find_collected.c - all pairs of one set in one sweep: see pairs_collect.h. Each product serves both ends of a pair. */
#include <stdlib.h>

#include "cuda/pairs/pairs_collector.h"
#include "util/array.h"

enum { FAILED_SHARE = 1000 }; /* more than one anchor in so many: the other way is faster */

static glofnd_status make_trees(gf_error *err, gf_collector *x) {
    gf_pairs_collect *c = &x->c;
    const size_t bytes = (size_t)x->n * sizeof(int32_t);
    cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, &c->mutual_root, bytes);
    e = gf_blocks_take(&x->blocks, e, &c->copy_root, bytes);
    if (e == cudaSuccess) e = gf_pairs_forest(c->mutual_root, x->n, x->p->stream);
    if (e == cudaSuccess) e = gf_pairs_forest(c->copy_root, x->n, x->p->stream);
    PAIRS_TRY(err, e, "memory for anchors");
    return GLOFND_OK;
}

static glofnd_status take_labels(gf_error *err, gf_collector *x, const int32_t *label) {
    int32_t *to = NULL;
    if (!label) return GLOFND_OK;
    cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, &to, (size_t)x->n * sizeof *to);
    if (e == cudaSuccess) e = cudaMemcpy(to, label, (size_t)x->n * sizeof *to, cudaMemcpyHostToDevice);
    PAIRS_TRY(err, e, "labels");
    x->c.label = to;
    return GLOFND_OK;
}

/* The sample is some rows of those on the device. */
static glofnd_status take_sample(gf_error *err, gf_collector *x, size_t memory) {
    int32_t *row = NULL;
    TRY(gf_collector_choose(err, x, memory));
    const size_t bytes = (size_t)x->sample.n * sizeof *row;
    TRY(gf_cuda_pairs_side_alloc(err, x->p, x->sample.n, x->c.k.dim, &x->sample));
    cudaError_t e = gf_blocks_take(&x->blocks, cudaSuccess, &row, bytes);
    if (e == cudaSuccess) e = cudaMemcpy(row, x->chosen, bytes, cudaMemcpyHostToDevice);
    if (e == cudaSuccess) e = gf_pairs_take_rows(&x->c.k, row, &x->sample, x->p->stream);
    PAIRS_TRY(err, e, "the sample");
    return GLOFND_OK;
}

/* The result of anchor i of y becomes that of anchor row[i] of f. */
static glofnd_status fetch_rescued(gf_error *err, gf_collector *y, const int32_t *row, const gf_pairs_found *f) {
    gf_pairs_found g;
    TRY(gf_pairs_found_alloc(err, &g, y->c.q.n, f->top));
    glofnd_status status = f->edge ? gf_pairs_found_edge(err, &g, f->edge) : GLOFND_OK;
    if (status == GLOFND_OK) status = gf_collector_fetch_rows(err, y, &g);
    for (int64_t i = 0; i < g.n && status == GLOFND_OK; i++) gf_collector_copy_row(&g, i, f, row[i]);
    gf_pairs_found_free(&g);
    return status;
}

/* Also the pairs above of these anchors, for mutual ones. */
static glofnd_status rescue_rows(gf_error *err, gf_collector *x, const int32_t *row, int64_t count, const gf_pairs_found *f,
                                 gf_rescued *pairs) {
    const int64_t group = gf_collector_group(x);
    for (int64_t i = 0; i < count; i += group) {
        gf_collector y;
        int32_t failed = 0, *again = NULL;
        const gf_job_progress quiet = {0};
        glofnd_status status = gf_collector_rescue(err, x, row + i, GF_MIN(group, count - i), &y);
        y.c.whole = !x->c.only_dup;
        if (status == GLOFND_OK) status = gf_collector_sweep(err, &y, &quiet);
        if (status == GLOFND_OK) status = gf_cuda_try(err, gf_pairs_settle(&y.c, y.others, y.p->stream), "thresholds");
        if (status == GLOFND_OK) status = gf_collector_failed(err, &y, &again, &failed);
        if (status == GLOFND_OK && failed) status = gf_fail(err, GLOFND_E_DEVICE, "%d anchors have no threshold", (int)failed);
        if (status == GLOFND_OK) status = fetch_rescued(err, &y, row + i, f);
        if (status == GLOFND_OK && y.c.whole) status = gf_rescued_add(err, pairs, &y);
        free(again);
        gf_collector_end(&y);
        TRY(status);
    }
    return count ? gf_collector_fetch_tree(err, x, x->c.copy_root, f->copy_root) : GLOFND_OK;
}

/* The result of all anchors, of which row [failed] are computed again. */
static glofnd_status finish(gf_error *err, gf_collector *x, const int32_t *row, int32_t failed, const gf_pairs_found *f,
                            int *done) {
    gf_rescued pairs = {0};
    int clear = 1;
    if (failed == 0) PAIRS_TRY(err, gf_pairs_agree(&x->c, x->p->stream), "mutual pairs");
    TRY(gf_collector_fetch(err, x, f));
    glofnd_status status = rescue_rows(err, x, row, failed, f, &pairs);
    if (status == GLOFND_OK && failed && !x->c.only_dup) status = gf_collector_repair(err, x, row, &pairs, f, &clear);
    gf_rescued_free(&pairs);
    *done = clear ? GF_FOUND_ALL : GF_FOUND_BUT_MUTUAL;
    return status;
}

static glofnd_status find(gf_error *err, gf_collector *x, const gf_pairs_task *t, const gf_pairs_found *f, int *done) {
    int32_t failed = 0, *row = NULL;
    int fits = 0;
    TRY(take_labels(err, x, t->label));
    TRY(make_trees(err, x));
    TRY(take_sample(err, x, t->memory));
    TRY(gf_collector_begin(err, x, t->memory, t->list, &fits));
    FAIL_IF(err, !fits && t->only_dup, GLOFND_E_MEMORY,
            "lists of duplicates do not fit --memory, or the GPU; raise it, or use --device cpu");
    if (!fits) return GLOFND_OK;
    TRY(gf_collector_sweep(err, x, &t->watch));
    PAIRS_TRY(err, gf_pairs_settle(&x->c, x->others, x->p->stream), "thresholds");
    glofnd_status status = gf_collector_failed(err, x, &row, &failed);
    *done = GF_FOUND_TOO_LITTLE;
    if (status == GLOFND_OK && (failed <= x->n / FAILED_SHARE + 1 || t->only_dup)) status = finish(err, x, row, failed, f, done);
    free(row);
    return status;
}

glofnd_status gf_cuda_pairs_find_collected(gf_error *err, gf_cuda_pairs *p, const gf_pairs_task *t, gf_pairs_found *f,
                                           int *done) {
    const int64_t n = p->k.n, others = n - 1;
    const int fast = p->fast && !t->exact, fits = n < GF_COLLECT_MAX && f->top <= GF_PAIRS_TOP && f->top <= others;
    *done = GF_FOUND_NOTHING;
    FAIL_IF(err, t->only_dup && !fits, GLOFND_E_ARGUMENT,
            "%lld rows, %lld listed duplicates of each: the GPU takes fewer than 2^29, and lists %d; use --device cpu",
            (long long)n, (long long)f->top, GF_PAIRS_TOP);
    if (t->lambda || !fits || (!t->only_dup && (!fast || !gf_pairs_can_fuse()))) return GLOFND_OK;
    gf_collector x = {
        .p = p, .n = n, .others = others, .sample_rows = t->sample, .fast = fast, .chain = gf_collector_chain(p->k.ld)};
    x.c = (gf_pairs_collect){.q = p->k,
                             .k = p->k,
                             .both = 1,
                             .rank = t->only_dup ? 0 : t->rank,
                             .reach = t->only_dup ? 0 : GF_MIN(t->rank + t->edge - (t->edge > 0), others),
                             .only_dup = t->only_dup,
                             .top = (int)f->top,
                             .edge = (int)t->edge,
                             .dup = t->dup};
    if (!fast) x.c.q.half = x.c.k.half = NULL;
    const glofnd_status status = find(err, &x, t, f, done);
    if (t->only_dup) f->compared = n * others;
    gf_collector_end(&x);
    return status;
}
