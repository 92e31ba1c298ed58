/* pairs_repair.c - mutual pairs where some anchors had to be computed again; see pairs_collector.h.
 *
 * A pair was counted in the sweep if it lies above both windows, and else by gf_pairs_agree from the lists of its ends. The
 * anchors that were computed again have no list. Their pairs above are known here, with float32 similarities; so are all
 * thresholds. For a mutual pair of such an anchor i with j, the count of j lacks it just if the pair is not in the list of j,
 * hence above the window of j, and not above that of i. Whether it is above the window of i may depend on a rounding: then all
 * pairs are compared again.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/pairs/pairs_collector.h"
#include "util/array.h"
#include "util/components.h"

enum { PAIRS_MAX = 1 << 17 }; /* more are faster compared again */

void gf_rescued_free(gf_rescued *r) {
    free(r->start);
    free(r->entry);
    *r = (gf_rescued){0};
}

glofnd_status gf_rescued_add(gf_error *err, gf_rescued *r, const gf_collector *y) {
    const int64_t n = y->c.q.n;
    int32_t *count = malloc((size_t)n * sizeof *count);
    FAIL_IF(err, !count, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)n);
    cudaError_t e = cudaMemcpy(count, y->c.count, (size_t)n * sizeof *count, cudaMemcpyDeviceToHost);
    int there = 1;
    for (int64_t i = 0; i < n && e == cudaSuccess && there && !r->many; i++) {
        const size_t used = r->anchors ? (size_t)r->start[r->anchors] : 0, all = used + (size_t)count[i];
        r->many = all > PAIRS_MAX;
        there = gf_grow(&r->start, &r->start_capacity, (size_t)r->anchors + 2, sizeof *r->start) &&
                gf_grow(&r->entry, &r->capacity, all + 1, sizeof *r->entry);
        if (!there || r->many) break;
        e = cudaMemcpy(r->entry + used, y->c.entry + y->start[i], (size_t)count[i] * sizeof *r->entry, cudaMemcpyDeviceToHost);
        r->start[r->anchors] = (int64_t)used, r->start[++r->anchors] = (int64_t)all;
    }
    free(count);
    FAIL_IF(err, !there, GLOFND_E_MEMORY, "no memory for pairs");
    PAIRS_TRY(err, e, "pairs");
    return GLOFND_OK;
}

/* ----- what the search has of an anchor ----- */

/* 1: the list of row j of x has position i. list: a buffer that grows. */
static glofnd_status is_listed(gf_error *err, const gf_collector *x, const int32_t *count, int64_t j, int64_t i, uint64_t **list,
                               size_t *capacity, int *yes) {
    FAIL_IF(err, !gf_grow(list, capacity, (size_t)count[j] + 1, sizeof **list), GLOFND_E_MEMORY, "no memory for pairs");
    PAIRS_TRY(err, cudaMemcpy(*list, x->c.entry + x->start[j], (size_t)count[j] * sizeof **list, cudaMemcpyDeviceToHost),
              "pairs");
    *yes = 0;
    for (int32_t k = 0; k < count[j] && !*yes; k++) *yes = (int64_t)((uint32_t)(*list)[k] & GF_ENTRY_POSITION) == i;
    return GLOFND_OK;
}

typedef struct repair {
    const gf_collector *x;
    const gf_rescued *r;
    const int32_t *row; /* [r->anchors] rising */
    const gf_pairs_found *f;
    gf_pairs_window window; /* of the anchor */
    float slack;
    int32_t *count; /* [n] entries of the lists */
    uint64_t *list;
    size_t capacity;
} repair;

static float value_of(uint64_t entry) {
    const uint32_t bits = (uint32_t)(entry >> 32);
    const uint32_t plain = bits >> 31 ? bits & 0x7fffffffu : ~bits;
    float v;
    memcpy(&v, &plain, sizeof v);
    return v;
}

/* Mutual pairs of rescued anchor k. *clear 0: roundings leave one open. */
static glofnd_status repair_anchor(gf_error *err, repair *p, int64_t k, int *clear) {
    const int32_t i = p->row[k];
    const gf_pairs_found *f = p->f;
    const float above = p->window.high + p->slack, below = p->window.high - p->slack;
    f->mutual[i] = 0;
    *clear = f->lambda[i] + 3.0f * p->slack <= p->window.high; /* else some were taken for certainly above */
    for (int64_t e = p->r->start[k]; e < p->r->start[k + 1] && *clear; e++) {
        const int32_t j = (int32_t)((uint32_t)p->r->entry[e] & GF_ENTRY_POSITION);
        const float v = value_of(p->r->entry[e]);
        int listed = 1;
        if (!(v > f->lambda[j])) continue;
        f->mutual[i]++;
        gf_components_join(f->mutual_root, i, j);
        if (bsearch(&j, p->row, (size_t)p->r->anchors, sizeof *p->row, gf_order_int32) || v > above) continue;
        TRY(is_listed(err, p->x, p->count, j, i, &p->list, &p->capacity, &listed));
        if (!listed && !(v < below)) *clear = 0;
        f->mutual[j] += !listed;
    }
    return GLOFND_OK;
}

static glofnd_status repair_all(gf_error *err, repair *p, int *clear) {
    const gf_pairs_collect *c = &p->x->c;
    PAIRS_TRY(err, cudaMemcpy(p->count, c->count, (size_t)c->q.n * sizeof *p->count, cudaMemcpyDeviceToHost), "lists");
    for (int64_t k = 0; k < p->r->anchors && *clear; k++) {
        const int64_t i = p->row[k];
        PAIRS_TRY(err, cudaMemcpy(&p->window, c->window + i, sizeof p->window, cudaMemcpyDeviceToHost), "windows");
        PAIRS_TRY(err, cudaMemcpy(&p->slack, c->slack + i, sizeof p->slack, cudaMemcpyDeviceToHost), "windows");
        TRY(repair_anchor(err, p, k, clear));
    }
    gf_components_flatten(p->f->mutual_root, p->f->n);
    return GLOFND_OK;
}

glofnd_status gf_collector_repair(gf_error *err, gf_collector *x, const int32_t *row, const gf_rescued *r,
                                  const gf_pairs_found *f, int *clear) {
    repair p = {.x = x, .r = r, .row = row, .f = f};
    *clear = !r->many;
    if (r->many) return GLOFND_OK;
    for (int64_t k = 0; k < r->anchors; k++)
        PAIRS_TRY(err,
                  cudaMemcpyAsync(x->c.lambda + row[k], &f->lambda[row[k]], sizeof *f->lambda, cudaMemcpyHostToDevice,
                                  x->p->stream),
                  "thresholds");
    PAIRS_TRY(err, gf_pairs_agree(&x->c, x->p->stream), "mutual pairs");
    TRY(gf_collector_fetch_mutual(err, x, f));
    p.count = malloc((size_t)f->n * sizeof *p.count);
    const glofnd_status status =
        p.count ? repair_all(err, &p, clear) : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)f->n);
    free(p.count);
    free(p.list);
    return status;
}
