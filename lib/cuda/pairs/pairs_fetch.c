/* pairs_fetch.c - results of a collector to the host; see pairs_collector.h. */
#include <stdlib.h>
#include <string.h>

#include "cuda/pairs/pairs_collector.h"

static glofnd_status fetch_counts(gf_error *err, gf_collector *x, const int32_t *from, int64_t *to, int32_t *copy) {
    const size_t n = (size_t)x->c.q.n;
    if (!to) return GLOFND_OK;
    PAIRS_TRY(err, cudaMemcpy(copy, from, n * sizeof *copy, cudaMemcpyDeviceToHost), "counts");
    for (size_t i = 0; i < n; i++) to[i] = copy[i];
    return GLOFND_OK;
}

static glofnd_status fetch_cells(gf_error *err, const void *from, void *to, int64_t cells) {
    if (!to || cells == 0) return GLOFND_OK;
    PAIRS_TRY(err, cudaMemcpy(to, from, (size_t)cells * 4, cudaMemcpyDeviceToHost), "neighbours");
    return GLOFND_OK;
}

glofnd_status gf_collector_fetch_tree(gf_error *err, gf_collector *x, int32_t *root, int32_t *to) {
    if (!to || !root) return GLOFND_OK;
    PAIRS_TRY(err, gf_pairs_flatten(root, x->n, x->p->stream), "connected components");
    PAIRS_TRY(err, cudaStreamSynchronize(x->p->stream), "connected components");
    return fetch_cells(err, root, to, x->n);
}

static glofnd_status fetch_all(gf_error *err, gf_collector *x, const gf_pairs_found *f, int32_t *copy) {
    const gf_pairs_collect *c = &x->c;
    const int64_t n = c->q.n;
    TRY(fetch_counts(err, x, c->above, f->above, copy));
    TRY(fetch_counts(err, x, c->hits, f->hits, copy));
    TRY(fetch_counts(err, x, c->copies, f->copies, copy));
    TRY(fetch_counts(err, x, c->mutual, f->mutual, copy));
    TRY(fetch_cells(err, c->lambda, f->lambda, n));
    TRY(fetch_cells(err, c->other, f->other, n * c->top));
    TRY(fetch_cells(err, c->similarity, f->similarity, n * c->top));
    TRY(fetch_cells(err, c->edge_other, f->edge_other, n * c->edge));
    return fetch_cells(err, c->edge_similarity, f->edge_similarity, n * c->edge);
}

glofnd_status gf_collector_fetch_rows(gf_error *err, gf_collector *x, const gf_pairs_found *f) {
    int32_t *copy = malloc((size_t)x->c.q.n * sizeof *copy);
    FAIL_IF(err, !copy, GLOFND_E_MEMORY, "no memory for %lld results", (long long)x->c.q.n);
    PAIRS_TRY(err, cudaStreamSynchronize(x->p->stream), "pairs");
    const glofnd_status status = fetch_all(err, x, f, copy);
    free(copy);
    return status;
}

glofnd_status gf_collector_fetch_mutual(gf_error *err, gf_collector *x, const gf_pairs_found *f) {
    int32_t *copy = malloc((size_t)x->c.q.n * sizeof *copy);
    FAIL_IF(err, !copy, GLOFND_E_MEMORY, "no memory for %lld results", (long long)x->c.q.n);
    glofnd_status status = gf_cuda_try(err, cudaStreamSynchronize(x->p->stream), "mutual pairs");
    if (status == GLOFND_OK) status = fetch_counts(err, x, x->c.mutual, f->mutual, copy);
    free(copy);
    return status == GLOFND_OK ? gf_collector_fetch_tree(err, x, x->c.mutual_root, f->mutual_root) : status;
}

glofnd_status gf_collector_fetch(gf_error *err, gf_collector *x, const gf_pairs_found *f) {
    TRY(gf_collector_fetch_rows(err, x, f));
    TRY(gf_collector_fetch_tree(err, x, x->c.mutual_root, f->mutual_root));
    return gf_collector_fetch_tree(err, x, x->c.copy_root, f->copy_root);
}

void gf_collector_copy_row(const gf_pairs_found *from, int64_t i, const gf_pairs_found *to, int64_t at) {
    to->lambda[at] = from->lambda[i];
    to->above[at] = from->above[i], to->hits[at] = from->hits[i], to->copies[at] = from->copies[i];
    const size_t cells = (size_t)to->top * sizeof *to->other, edge = (size_t)to->edge * sizeof *to->edge_other;
    memcpy(to->other + at * to->top, from->other + i * to->top, cells);
    memcpy(to->similarity + at * to->top, from->similarity + i * to->top, cells);
    if (edge == 0) return;
    memcpy(to->edge_other + at * to->edge, from->edge_other + i * to->edge, edge);
    memcpy(to->edge_similarity + at * to->edge, from->edge_similarity + i * to->edge, edge);
}
