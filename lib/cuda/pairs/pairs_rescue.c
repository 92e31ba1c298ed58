/* pairs_rescue.c - anchors whose window or list was too small (pairs_collect.h): computed again, with
 * all of their pairs listed. */
#include <stdlib.h>

#include "cuda/pairs/pairs_collector.h"
#include "util/array.h"

enum { GROUP_MAX = 256 }; /* anchors at a time */
#define GROUP_BYTES ((size_t)8 << 30)

glofnd_status gf_collector_failed(gf_error *err, gf_collector *x, int32_t **row, int32_t *count) {
    *row = NULL, *count = 0;
    PAIRS_TRY(err, cudaMemcpyAsync(count, x->c.failed_n, sizeof *count, cudaMemcpyDeviceToHost, x->p->stream), "a count");
    PAIRS_TRY(err, cudaStreamSynchronize(x->p->stream), "thresholds");
    if (*count == 0) return GLOFND_OK;
    *row = malloc((size_t)*count * sizeof **row);
    FAIL_IF(err, !*row, GLOFND_E_MEMORY, "no memory for %d anchors", (int)*count);
    PAIRS_TRY(err, cudaMemcpy(*row, x->c.failed, (size_t)*count * sizeof **row, cudaMemcpyDeviceToHost), "anchors");
    qsort(*row, (size_t)*count, sizeof **row, gf_order_int32);
    return GLOFND_OK;
}

/* Rows `row` [count] of x to y, with their positions. */
static glofnd_status take_rows(gf_error *err, gf_collector *x, const int32_t *row, int64_t count, gf_collector *y) {
    int32_t *from = NULL, *position = NULL, at[GROUP_MAX];
    for (int64_t i = 0; i < count; i++) at[i] = (int32_t)(x->c.first + row[i]);
    const size_t bytes = (size_t)count * sizeof *at;
    cudaError_t e = gf_blocks_take(&y->blocks, cudaSuccess, &from, bytes);
    e = gf_blocks_take(&y->blocks, e, &position, bytes);
    if (e == cudaSuccess) e = cudaMemcpy(from, row, bytes, cudaMemcpyHostToDevice);
    if (e == cudaSuccess) e = cudaMemcpy(position, at, bytes, cudaMemcpyHostToDevice);
    PAIRS_TRY(err, e, "anchors");
    TRY(gf_cuda_pairs_side_alloc(err, x->p, count, x->c.q.dim, &y->sample)); /* freed with y */
    PAIRS_TRY(err, gf_pairs_take_rows(&x->c.q, from, &y->sample, x->p->stream), "anchors");
    y->c.q = y->sample, y->c.position = position;
    if (!x->fast) y->c.q.half = NULL;
    return GLOFND_OK;
}

int64_t gf_collector_group(const gf_collector *x) {
    const int64_t fit = (int64_t)(GROUP_BYTES / sizeof(uint64_t)) / x->others;
    return GF_MIN(GF_MAX(fit, 1), GROUP_MAX);
}

glofnd_status gf_collector_rescue(gf_error *err, gf_collector *x, const int32_t *row, int64_t count, gf_collector *y) {
    *y = (gf_collector){.p = x->p, .n = x->n, .others = x->others, .fast = x->fast, .chain = x->chain};
    y->c = (gf_pairs_collect){.k = x->c.k,
                              .col0 = x->c.col0,
                              .label = x->c.label,
                              .rank = x->c.rank,
                              .reach = x->c.reach,
                              .top = x->c.top,
                              .edge = x->c.edge,
                              .dup = x->c.dup,
                              .whole = x->c.whole,
                              .only_dup = x->c.only_dup,
                              .refined = x->c.refined,
                              .copy_root = x->c.copy_root};
    TRY(take_rows(err, x, row, count, y));
    return gf_collector_begin_wide(err, y);
}
