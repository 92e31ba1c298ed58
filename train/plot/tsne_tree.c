/* tsne_tree.c - quadtree over the points of a map, and the repulsion of a point, with distant cells as one point (Barnes-Hut). */
#include <math.h>
#include <stdlib.h>

#include "plot/tsne.h"

enum { DEPTH = 40 }; /* points closer than 2^-40 of the map share a leaf */

typedef struct cell {
    double x, y, half; /* centre, half a side */
    double sum[2];     /* of its points; in the complete tree, their mean */
    int32_t count;
    int32_t child; /* first of four; 0: a leaf */
    int32_t point; /* leaf: its first point; -1: empty */
} cell;

struct gf_tsne_tree {
    cell *cells;
    int32_t used, capacity;
};

gf_tsne_tree *gf_tsne_tree_create(int64_t n) {
    gf_tsne_tree *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->capacity = (int32_t)(n < 1000 ? 8000 : 8 * n);
    t->cells = malloc((size_t)t->capacity * sizeof *t->cells);
    if (t->cells) return t;
    free(t);
    return NULL;
}

void gf_tsne_tree_free(gf_tsne_tree *t) {
    if (!t) return;
    free(t->cells);
    free(t);
}

/* Adds four cells; 0 if the tree is full: the leaf then keeps several points, which is correct, only coarser. */
static int32_t split(gf_tsne_tree *t, int32_t at) {
    if (t->used + 4 > t->capacity) return 0;
    const int32_t first = t->used;
    const cell c = t->cells[at];
    const double h = 0.5 * c.half;
    for (int k = 0; k < 4; k++)
        t->cells[first + k] = (cell){.x = c.x + (k & 1 ? h : -h), .y = c.y + (k & 2 ? h : -h), .half = h, .point = -1};
    t->used += 4;
    t->cells[at].child = first;
    return first;
}

static int32_t child_of(const gf_tsne_tree *t, int32_t at, const double *p) {
    const cell *c = &t->cells[at];
    return c->child + (p[0] >= c->x ? 1 : 0) + (p[1] >= c->y ? 2 : 0);
}

static void count_in(cell *c, const double *p, int32_t points) {
    c->sum[0] += points * p[0], c->sum[1] += points * p[1];
    c->count += points;
}

static void insert(gf_tsne_tree *t, const double *y, int32_t i) {
    const double *p = y + 2 * i;
    int32_t at = 0;
    for (int depth = 0;; depth++) {
        cell *c = &t->cells[at];
        if (!c->child && c->point < 0) c->point = i;
        else if (!c->child && depth < DEPTH && split(t, at)) {
            c = &t->cells[at];
            cell *down = &t->cells[child_of(t, at, y + 2 * c->point)];
            down->point = c->point; /* a leaf that splits holds one point: several only where no split is possible */
            count_in(down, y + 2 * c->point, c->count);
            c->point = -1;
        }
        count_in(&t->cells[at], p, 1);
        if (!t->cells[at].child) return;
        at = child_of(t, at, p);
    }
}

void gf_tsne_tree_build(gf_tsne_tree *t, const double *y, int64_t n) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (int64_t i = 0; i < 2 * n; i++) low[i & 1] = fmin(low[i & 1], y[i]), high[i & 1] = fmax(high[i & 1], y[i]);
    const double half = 0.5 * fmax(high[0] - low[0], high[1] - low[1]);
    t->used = 1;
    t->cells[0] = (cell){.x = 0.5 * (low[0] + high[0]), .y = 0.5 * (low[1] + high[1]), .half = half + 1e-12, .point = -1};
    for (int64_t i = 0; i < n; i++) insert(t, y, (int32_t)i);
    for (int32_t c = 0; c < t->used; c++)
        for (int k = 0; k < 2 && t->cells[c].count; k++) t->cells[c].sum[k] /= t->cells[c].count;
}

double gf_tsne_tree_repulsion(const gf_tsne_tree *t, const double *y, int64_t i, double theta, double force[2]) {
    int32_t stack[4 * DEPTH + 8];
    int depth = 0;
    double total = 0.0;
    const double *p = y + 2 * i, limit = theta * theta;
    stack[depth++] = 0;
    while (depth) {
        const cell *c = &t->cells[stack[--depth]];
        if (!c->count) continue;
        const double dx = p[0] - c->sum[0], dy = p[1] - c->sum[1], d2 = dx * dx + dy * dy;
        if (c->child && 4.0 * c->half * c->half >= limit * d2) {
            for (int k = 3; k >= 0; k--) stack[depth++] = c->child + k;
            continue;
        }
        const double q = 1.0 / (1.0 + d2), weight = c->count * q;
        total += weight;
        force[0] += weight * q * dx, force[1] += weight * q * dy;
    }
    return total - 1.0; /* without the point itself: it is at distance 0, or in a cell centred on it */
}
