/* pairs_found.c - memory of a result, checks of a task, choice of the device; see pairs_search.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pairs/pairs_search.h"
#include "util/components.h"

glofnd_status gf_pairs_found_alloc(gf_error *err, gf_pairs_found *f, int64_t n, int64_t top) {
    const size_t rows = (size_t)(n > 0 ? n : 1), cells = rows * (size_t)(top > 0 ? top : 1);
    *f = (gf_pairs_found){
        .n = n,
        .top = top,
        .lambda = calloc(rows, sizeof *f->lambda),
        .above = calloc(rows, sizeof *f->above),
        .mutual = calloc(rows, sizeof *f->mutual),
        .hits = calloc(rows, sizeof *f->hits),
        .copies = calloc(rows, sizeof *f->copies),
        .other = calloc(cells, sizeof *f->other),
        .similarity = calloc(cells, sizeof *f->similarity),
        .mutual_root = calloc(rows, sizeof *f->mutual_root),
        .copy_root = calloc(rows, sizeof *f->copy_root),
    };
    if (f->lambda && f->above && f->mutual && f->hits && f->copies && f->other && f->similarity && f->mutual_root && f->copy_root)
        return GLOFND_OK;
    gf_pairs_found_free(f);
    GF_FAIL(err, GLOFND_E_MEMORY, "no memory for the result of %lld anchors", (long long)n);
}

glofnd_status gf_pairs_found_edge(gf_error *err, gf_pairs_found *f, int64_t edge) {
    const size_t cells = (size_t)f->n * (size_t)edge;
    f->edge_other = malloc(cells * sizeof *f->edge_other);
    f->edge_similarity = malloc(cells * sizeof *f->edge_similarity);
    FAIL_IF(err, !f->edge_other || !f->edge_similarity, GLOFND_E_MEMORY, "no memory for the result of %lld anchors",
            (long long)f->n);
    f->edge = edge;
    for (size_t c = 0; c < cells; c++) f->edge_other[c] = -1, f->edge_similarity[c] = NAN;
    return GLOFND_OK;
}

void gf_pairs_found_none(gf_pairs_found *f) {
    gf_components_init(f->mutual_root, f->n);
    gf_components_init(f->copy_root, f->n);
    for (int64_t i = 0; i < f->n; i++) f->lambda[i] = INFINITY;
    for (int64_t i = 0; i < f->n * f->top; i++) f->other[i] = -1, f->similarity[i] = NAN;
}

size_t gf_pairs_found_bytes(int64_t n, int64_t top) {
    const size_t row = sizeof(float) + 4 * sizeof(int64_t) + 2 * sizeof(int32_t), cell = sizeof(float) + sizeof(int32_t);
    return (size_t)n * (row + (size_t)top * cell);
}

static glofnd_status check(gf_error *err, int64_t rank, int64_t others) {
    FAIL_IF(err, rank < 1 || rank > others, GLOFND_E_ARGUMENT, "an anchor has %lld others; the %lld-th most similar is asked for",
            (long long)others, (long long)rank);
    return GLOFND_OK;
}

glofnd_status gf_pairs_check_rank(gf_error *err, const gf_pairs_task *t, int64_t others) {
    return t->lambda ? GLOFND_OK : check(err, t->rank, others);
}

glofnd_status gf_pairs_check_query(gf_error *err, const gf_pairs_task *t, int64_t n) {
    return check(err, t->rank, n - (t->skip != NULL));
}

void gf_pairs_found_free(gf_pairs_found *f) {
    free(f->lambda);
    free(f->above);
    free(f->mutual);
    free(f->hits);
    free(f->copies);
    free(f->other);
    free(f->similarity);
    free(f->edge_other);
    free(f->edge_similarity);
    free(f->mutual_root);
    free(f->copy_root);
    *f = (gf_pairs_found){0};
}

const gf_pairs_search *gf_pairs_search_find(gf_error *err, const char *device) {
    if (strcmp(device, "cpu") == 0) return &gf_pairs_search_cpu;
    if (strcmp(device, "cuda") == 0 && gf_pairs_search_cuda) return gf_pairs_search_cuda;
    if (strcmp(device, "cuda") == 0)
        gf_fail(err, GLOFND_E_UNSUPPORTED,
                "this program was built without CUDA; build it where nvcc is found, or use --device cpu");
    else gf_fail(err, GLOFND_E_OPTION, "--device is \"%.40s\"; expected cpu or cuda", device);
    return NULL;
}

gf_pairs_found gf_pairs_found_part(const gf_pairs_found *f, int64_t at, int64_t rows) {
    gf_pairs_found p = *f;
    p.n = rows;
    p.lambda += at, p.above += at, p.hits += at, p.copies += at, p.mutual += at;
    p.other += at * f->top, p.similarity += at * f->top;
    if (f->edge) p.edge_other += at * f->edge, p.edge_similarity += at * f->edge;
    return p;
}
