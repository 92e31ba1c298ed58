/* components.c - see components.h. */
#include "util/components.h"

#include <stdlib.h>

#include "util/array.h"

void gf_components_init(int32_t *root, int64_t n) {
    for (int64_t i = 0; i < n; i++) root[i] = (int32_t)i;
}

static int32_t find(int32_t *root, int32_t i) {
    while (root[i] != i) i = root[i] = root[root[i]]; /* path halving */
    return i;
}

int32_t gf_components_find(int32_t *root, int32_t i) { return find(root, i); }

void gf_components_join(int32_t *root, int32_t a, int32_t b) {
    a = find(root, a), b = find(root, b);
    if (a < b) root[b] = a;
    else root[a] = b;
}

/* A parent is never larger than its child, so there are no cycles, whatever other threads change. */
static int32_t find_shared(int32_t *root, int32_t i) {
    for (;;) {
        int32_t up = __atomic_load_n(&root[i], __ATOMIC_RELAXED);
        if (up == i) return i;
        const int32_t top = __atomic_load_n(&root[up], __ATOMIC_RELAXED);
        if (top == up) return up;
        __atomic_compare_exchange_n(&root[i], &up, top, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED); /* path halving; it may fail */
        i = top;
    }
}

int gf_components_join_shared(int32_t *root, int32_t a, int32_t b) {
    for (;;) {
        a = find_shared(root, a), b = find_shared(root, b);
        if (a == b) return 0;
        const int32_t low = a < b ? a : b, high = a < b ? b : a;
        int32_t alone = high;
        if (__atomic_compare_exchange_n(&root[high], &alone, low, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return 1;
    }
}

void gf_components_merge(int32_t *root, int32_t *other, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (other[i] != i) gf_components_join(root, (int32_t)i, other[i]);
}

void gf_components_flatten(int32_t *root, int64_t n) {
    for (int64_t i = 0; i < n; i++) root[i] = find(root, (int32_t)i);
}

/* ----- nodes of joins ----- */

int gf_nodes_add(gf_node_list *l, int32_t a, int32_t b) {
    if (!gf_grow(&l->node, &l->capacity, l->count + 2, sizeof *l->node)) return 0;
    l->node[l->count++] = a, l->node[l->count++] = b;
    return 1;
}

void gf_nodes_sort(gf_node_list *l) {
    size_t kept = 0;
    if (l->count) qsort(l->node, l->count, sizeof *l->node, gf_order_int32);
    for (size_t i = 0; i < l->count; i++)
        if (i == 0 || l->node[i] != l->node[kept - 1]) l->node[kept++] = l->node[i];
    l->count = kept;
}

void gf_nodes_free(gf_node_list *l) {
    free(l->node);
    *l = (gf_node_list){0};
}

/* ----- a list of components ----- */

static int larger_first(const void *x, const void *y) {
    const gf_component *a = x, *b = y;
    if (a->nodes != b->nodes) return a->nodes < b->nodes ? 1 : -1;
    return (a->root > b->root) - (a->root < b->root);
}

glofnd_status gf_components_list(gf_error *err, const int32_t *root, const int64_t *degree, int64_t n, gf_components *out) {
    gf_components p = {.of = malloc((size_t)(n > 0 ? n : 1) * sizeof *p.of)};
    FAIL_IF(err, !p.of, GLOFND_E_MEMORY, "no memory for the components of %lld nodes", (long long)n);
    /* Numbers the roots of components in order of their smallest node; of[] of the others is -1 for now. */
    for (int64_t i = 0; i < n; i++) p.of[i] = -1;
    for (int64_t i = 0; i < n; i++)
        if (root[i] != i && p.of[root[i]] < 0) p.of[root[i]] = 0;
    for (int64_t i = 0; i < n; i++)
        if (p.of[i] == 0) p.of[i] = (int32_t)p.count++;
    p.part = calloc((size_t)(p.count > 0 ? p.count : 1), sizeof *p.part);
    if (!p.part) {
        gf_components_free(&p);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for %lld components", (long long)p.count);
    }
    for (int64_t i = 0; i < n; i++) {
        const int32_t k = p.of[root[i]];
        if (k < 0) continue;
        p.part[k].root = root[i];
        p.part[k].nodes++, p.part[k].edges += degree[i];
    }
    for (int64_t k = 0; k < p.count; k++) {
        p.part[k].edges /= 2; /* an edge was counted at both ends */
        p.nodes += p.part[k].nodes, p.edges += p.part[k].edges;
    }
    qsort(p.part, (size_t)p.count, sizeof *p.part, larger_first);
    for (int64_t k = 0; k < p.count; k++) p.of[p.part[k].root] = (int32_t)k;
    for (int64_t i = 0; i < n; i++) p.of[i] = p.of[root[i]];
    *out = p;
    return GLOFND_OK;
}

void gf_components_free(gf_components *p) {
    free(p->part);
    free(p->of);
    *p = (gf_components){0};
}
