/* cell_compare.c - see cell_compare.h.
 *
 * With duplicates u and v at an angle of theta at most, and v in the cell of centroid b: angle(u, b) <= angle(v, b) + theta, and
 * angle(v, b) <= angle(v, a) <= angle(u, a) + theta, where a is the centroid of u. So only cells with
 * angle(u, b) <= angle(u, a) + 2 theta can hold duplicates of u; and of such a cell only members whose angle to b differs from
 * that of u by theta at most. Members lie by rising angle: a range of places. Ranges of the rows of a panel are joined in a map
 * of panels, so that each panel of columns is compared once. Angles have a margin for rounding errors: what is left out cannot
 * reach the limit, and the rest is compared as everywhere.
 */
#include "pairs/cells/cell_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/pairs_lists.h"
#include "util/components.h"
#include "util/minmax.h"

enum { SAMPLE = 32 }; /* panels of rows for the recall */

int64_t gf_cell_keep(const gf_pairs_task *t) {
    return t->probe ? GF_MAX(GF_MAX(gf_lists_keep(t), t->top), 1) : GF_MAX(t->top, 1);
}

int64_t gf_cell_sample(int64_t panels) { return GF_MIN(panels, SAMPLE); }

int64_t gf_cell_sample_place(int64_t panels, int64_t i) { return i * (panels / gf_cell_sample(panels)) * GF_PANEL; }

glofnd_status gf_cell_search_init(gf_error *err, gf_cell_search *x, const gf_cells *c, const gf_pairs_task *t) {
    const size_t roots = (size_t)t->threads * (size_t)c->n;
    *x = (gf_cell_search){.c = c, .t = t, .ops = gf_cpu_kernels_get()->tile, .panels = gf_pad(c->n) / GF_PANEL};
    x->theta = gf_cells_angle(t->dup), x->slack = gf_cells_slack(c->dim);
    x->strip = aligned_alloc(64, gf_sweep_bytes(t->threads));
    x->root = malloc(roots * sizeof *x->root);
    glofnd_status status =
        x->strip && x->root ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)c->n);
    if (status == GLOFND_OK && t->probe) status = gf_best_alloc_roomy(err, &x->near, t->threads * GF_PANEL, t->probe);
    if (status != GLOFND_OK) gf_cell_search_free(x);
    for (int k = 0; k < t->threads && status == GLOFND_OK; k++) gf_components_init(x->root + k * c->n, c->n);
    return status;
}

void gf_cell_search_free(gf_cell_search *x) {
    free(x->strip);
    free(x->root);
    gf_best_free(&x->near);
    x->strip = NULL, x->root = NULL;
}

/* ----- which panels ----- */

/* First place in [from, to) whose angle is not below a. */
static int64_t place_of(const gf_cells *c, int64_t from, int64_t to, double a) {
    while (from < to) {
        const int64_t mid = from + (to - from) / 2;
        if ((double)c->angle[mid] < a) from = mid + 1;
        else to = mid;
    }
    return from;
}

static void mark_places(uint8_t *wanted, int64_t from, int64_t to) {
    for (int64_t p = from / GF_PANEL; from < to && p <= (to - 1) / GF_PANEL; p++) wanted[p] = 1;
}

/* Members of a cell that row u can have duplicates among; angle: between u and its centroid. */
static void mark_cell(const gf_cell_search *x, uint8_t *wanted, int64_t cell, double angle) {
    const double reach = x->theta + 4.0 * x->slack;
    const int64_t from = place_of(x->c, x->c->start[cell], x->c->start[cell + 1], angle - reach);
    mark_places(wanted, from, place_of(x->c, from, x->c->start[cell + 1], angle + reach));
}

/* The anchor at `place`, against centroids [c0, c0 + cols). */
static void mark_row(const gf_cell_search *x, uint8_t *wanted, int64_t place, const float *s, int64_t c0, int cols) {
    int32_t at[GF_STRIP_COLS];
    const double far = (double)x->c->angle[place] + 2.0 * x->theta + 8.0 * x->slack;
    const float limit = far >= 3.14159 ? -2.0f : (float)(cos(far) - 1e-6);
    const int found = x->ops->reach(at, s, (int)gf_pad(cols), limit, NULL);
    for (int k = 0; k < found && at[k] < cols; k++) mark_cell(x, wanted, c0 + at[k], gf_cells_angle(s[at[k]]));
}

static void offer_cells(gf_cell_search *x, const float *s, int64_t list, int64_t c0, int cols) {
    int32_t at[GF_STRIP_COLS];
    const int found = x->ops->reach(at, s, (int)gf_pad(cols), x->near.limit[list], NULL);
    for (int k = 0; k < found && at[k] < cols; k++)
        if (s[at[k]] >= x->near.limit[list]) gf_best_push(&x->near, list, s[at[k]], c0 + at[k]);
}

static void mark_near(gf_cell_search *x, uint8_t *wanted, int64_t list) {
    const int64_t count = gf_best_sort(&x->near, list, x->t->probe);
    for (int64_t k = 0; k < count; k++) {
        const int64_t cell = gf_best_other(x->near.key[list * x->near.capacity + k]);
        mark_places(wanted, x->c->start[cell], x->c->start[cell + 1]);
    }
}

void gf_cell_mark(gf_cell_search *x, const gf_cell_anchors *a, uint8_t *wanted, int thread) {
    const gf_cells *c = x->c;
    const int64_t own = (int64_t)thread * GF_PANEL;
    float *s = x->strip + own * GF_STRIP_COLS;
    memset(wanted, 0, (size_t)x->panels);
    for (int r = 0; x->t->probe && r < a->rows; r++) gf_best_clear(&x->near, own + r);
    for (int64_t c0 = 0; c0 < c->count; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, c->count - c0);
        gf_panels_product(x->ops, a->p, a->at, &c->centres, c0, cols, s);
        for (int r = 0; r < a->rows; r++) {
            const float *row = s + (size_t)r * GF_STRIP_COLS;
            if (x->t->probe) offer_cells(x, row, own + r, c0, cols);
            if (x->t->dup <= 2.0f) mark_row(x, wanted, a->place + r, row, c0, cols);
        }
    }
    for (int r = 0; x->t->probe && r < a->rows; r++) mark_near(x, wanted, own + r);
}

/* ----- comparing ----- */

static void take_strip(gf_cell_search *x, const gf_cell_anchors *a, const gf_cell_lists *to, int64_t place, int cols,
                       int thread) {
    int32_t at[GF_STRIP_COLS];
    const int32_t *order = x->c->order;
    for (int r = 0; r < a->rows; r++) {
        const float *v = x->strip + ((int64_t)thread * GF_PANEL + r) * GF_STRIP_COLS;
        const int32_t self = order[a->place + r];
        const int64_t list = to->first < 0 ? self : to->first + r;
        const float *limit = &to->best->limit[list];
        const int found = x->ops->reach(at, v, (int)gf_pad(cols), fminf(fmaxf(*limit, to->min), x->t->dup), NULL);
        for (int k = 0; k < found && at[k] < cols; k++) {
            const int32_t other = order[place + at[k]];
            if (other == self) continue;
            if (v[at[k]] >= fmaxf(*limit, to->min)) gf_best_push(to->best, list, v[at[k]], other);
            if (!to->copies || !(v[at[k]] >= x->t->dup)) continue;
            to->copies[to->by_position ? self : r]++;
            if (other > self) gf_components_join(x->root + (int64_t)thread * x->c->n, self, other);
        }
    }
}

/* Panels of columns from number `first` on that follow each other, are wanted, and fit into a strip. */
static int64_t strip_end(const gf_cell_columns *columns, const uint8_t *wanted, int64_t first) {
    const int32_t *panel = columns->panel;
    int64_t end = first;
    while (end < columns->count && (end - first) * GF_PANEL < GF_STRIP_COLS && (!wanted || wanted[panel ? panel[end] : end]) &&
           (!panel || panel[end] - panel[first] == end - first))
        end++;
    return end;
}

void gf_cell_compare(gf_cell_search *x, const gf_cell_anchors *a, const uint8_t *wanted, const gf_cell_columns *columns,
                     const gf_cell_lists *to, int thread) {
    float *s = x->strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    int64_t pairs = 0;
    for (int64_t p = 0, end; p < columns->count; p = GF_MAX(end, p + 1)) {
        end = strip_end(columns, wanted, p);
        if (end == p) continue;
        const int64_t place = (columns->panel ? columns->panel[p] : p) * GF_PANEL;
        const int cols = (int)(GF_MIN(place + (end - p) * GF_PANEL, x->c->n) - place);
        gf_panels_product(x->ops, a->p, a->at, columns->p, p * GF_PANEL, cols, s);
        take_strip(x, a, to, place, cols, thread);
        pairs += (int64_t)a->rows * cols;
    }
    if (wanted) atomic_fetch_add(&x->pairs, pairs);
}
