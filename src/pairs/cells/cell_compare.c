/* cell_compare.c - see cell_compare.h.
 *
 * With duplicates u and v at an angle of theta at most, and v in the cell of centroid b: angle(u, b) <= angle(v, b) + theta, and
 * angle(v, b) <= angle(v, a) <= angle(u, a) + theta, where a is the centroid of u. So only cells with
 * angle(u, b) <= angle(u, a) + 2 theta can hold duplicates of u; and of such a cell only members whose angle to b differs from
 * that of u by theta at most. Members lie by rising angle: a range of places. Ranges of the rows of a panel are joined in a map
 * of panels, so that each panel of columns is compared once; a bit per cell tells where the map has marks. Angles have a margin
 * for rounding errors: what is left out cannot reach the limit, and the rest is compared as everywhere.
 */
#include "pairs/cells/cell_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/pairs_lists.h"
#include "util/components.h"
#include "util/grow.h"
#include "util/minmax.h"

enum { SAMPLE = 32 }; /* panels of rows for the recall */

int64_t gf_cell_keep(const gf_pairs_task *t) {
    return t->probe ? GF_MAX(GF_MAX(gf_lists_keep(t), t->top), 1) : GF_MAX(t->top, 1);
}

int64_t gf_cell_sample(int64_t panels) { return GF_MIN(panels, SAMPLE); }

int64_t gf_cell_sample_place(int64_t panels, int64_t i) { return i * (panels / gf_cell_sample(panels)) * GF_PANEL; }

static size_t cell_words(const gf_cells *c) { return (size_t)c->count / 64 + 1; }

glofnd_status gf_cell_search_init(gf_error *err, gf_cell_search *x, const gf_cells *c, const gf_pairs_task *t, int32_t *root) {
    *x = (gf_cell_search){.c = c, .t = t, .ops = gf_cpu_kernels_get()->tile, .panels = gf_pad(c->n) / GF_PANEL, .root = root};
    x->theta = gf_cells_angle(t->dup), x->slack = gf_cells_slack(c->dim);
    x->strip = aligned_alloc(64, gf_sweep_bytes(t->threads));
    x->mark = calloc((size_t)t->threads, (size_t)x->panels);
    x->touched = calloc((size_t)t->threads * cell_words(c), sizeof *x->touched);
    glofnd_status status = x->strip && x->mark && x->touched
                               ? GLOFND_OK
                               : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)c->n);
    if (status == GLOFND_OK && t->probe) status = gf_best_alloc_roomy(err, &x->near, t->threads * GF_PANEL, t->probe);
    if (status != GLOFND_OK) gf_cell_search_free(x);
    return status;
}

void gf_cell_search_free(gf_cell_search *x) {
    free(x->strip);
    free(x->mark);
    free(x->touched);
    gf_best_free(&x->near);
    x->strip = NULL, x->mark = NULL, x->touched = NULL;
}

glofnd_status gf_cell_search_check(gf_error *err, const gf_cell_search *x) {
    FAIL_IF(err, x->no_memory, GLOFND_E_MEMORY, "no memory for the panels that anchors are compared with");
    return GLOFND_OK;
}

void gf_cell_wanted_free(gf_cell_wanted *wanted, int64_t n) {
    for (int64_t i = 0; wanted && i < n; i++) free(wanted[i].range);
    free(wanted);
}

int gf_cell_wants(const gf_cell_wanted *wanted, int64_t panel) {
    size_t low = 0, high = wanted->count; /* the first range that ends behind it */
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (wanted->range[mid].to <= panel) low = mid + 1;
        else high = mid;
    }
    return low < wanted->count && wanted->range[low].from <= panel;
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

typedef struct marks { /* of one thread */
    uint8_t *panel;
    uint64_t *cell;
} marks;

static marks marks_of(const gf_cell_search *x, int thread) {
    return (marks){x->mark + (int64_t)thread * x->panels, x->touched + (size_t)thread * cell_words(x->c)};
}

/* Places [from, to) of a cell. */
static void mark_places(marks m, int64_t cell, int64_t from, int64_t to) {
    if (from >= to) return;
    m.cell[cell / 64] |= (uint64_t)1 << cell % 64;
    memset(m.panel + from / GF_PANEL, 1, (size_t)((to - 1) / GF_PANEL - from / GF_PANEL + 1));
}

/* Members of a cell that row u can have duplicates among; angle: between u and its centroid. */
static void mark_cell(const gf_cell_search *x, marks m, int64_t cell, double angle) {
    const double reach = x->theta + 4.0 * x->slack;
    const int64_t from = place_of(x->c, x->c->start[cell], x->c->start[cell + 1], angle - reach);
    mark_places(m, cell, from, place_of(x->c, from, x->c->start[cell + 1], angle + reach));
}

/* The anchor at `place`, against centroids [c0, c0 + cols). */
static void mark_row(const gf_cell_search *x, marks m, int64_t place, const float *s, int64_t c0, int cols) {
    int32_t at[GF_STRIP_COLS];
    const double far = (double)x->c->angle[place] + 2.0 * x->theta + 8.0 * x->slack;
    const float limit = far >= 3.14159 ? -2.0f : (float)(cos(far) - 1e-6);
    const int found = x->ops->reach(at, s, (int)gf_pad(cols), limit, NULL);
    for (int k = 0; k < found && at[k] < cols; k++) mark_cell(x, m, c0 + at[k], gf_cells_angle(s[at[k]]));
}

static void offer_cells(gf_cell_search *x, const float *s, int64_t list, int64_t c0, int cols) {
    int32_t at[GF_STRIP_COLS];
    const int found = x->ops->reach(at, s, (int)gf_pad(cols), x->near.limit[list], NULL);
    for (int k = 0; k < found && at[k] < cols; k++)
        if (s[at[k]] >= x->near.limit[list]) gf_best_push(&x->near, list, s[at[k]], c0 + at[k]);
}

static void mark_near(gf_cell_search *x, marks m, int64_t list) {
    const int64_t count = gf_best_sort(&x->near, list, x->t->probe);
    for (int64_t k = 0; k < count; k++) {
        const int64_t cell = gf_best_other(x->near.key[list * x->near.capacity + k]);
        mark_places(m, cell, x->c->start[cell], x->c->start[cell + 1]);
    }
}

/* All cells against the anchors. */
static void mark_similar(gf_cell_search *x, const gf_cell_anchors *a, marks m, int thread) {
    const gf_cells *c = x->c;
    const int64_t own = (int64_t)thread * GF_PANEL;
    float *s = x->strip + own * GF_STRIP_COLS;
    for (int r = 0; x->t->probe && r < a->rows; r++) gf_best_clear(&x->near, own + r);
    for (int64_t c0 = 0; c0 < c->count; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, c->count - c0);
        gf_panels_product(x->ops, a->p, a->at, &c->centres, c0, cols, s);
        for (int r = 0; r < a->rows; r++) {
            const float *row = s + (size_t)r * GF_STRIP_COLS;
            if (x->t->probe) offer_cells(x, row, own + r, c0, cols);
            if (x->t->dup <= 2.0f) mark_row(x, m, a->place + r, row, c0, cols);
        }
    }
    for (int r = 0; x->t->probe && r < a->rows; r++) mark_near(x, m, own + r);
}

/* The nearest cell is the one an anchor lies in. */
static void mark_own(const gf_cell_search *x, const gf_cell_anchors *a, marks m) {
    const int64_t *start = x->c->start;
    int64_t low = 0, high = x->c->count - 1; /* the last cell that begins at or before the first anchor */
    while (low < high) {
        const int64_t mid = low + (high - low + 1) / 2;
        if (start[mid] <= a->place) low = mid;
        else high = mid - 1;
    }
    for (; low < x->c->count && start[low] < a->place + a->rows; low++) mark_places(m, low, start[low], start[low + 1]);
}

static void add_range(gf_cell_search *x, gf_cell_wanted *wanted, int64_t from, int64_t to) {
    if (wanted->count && wanted->range[wanted->count - 1].to >= from) { /* cells that follow each other can share a panel */
        wanted->range[wanted->count - 1].to = (int32_t)GF_MAX(to, wanted->range[wanted->count - 1].to);
        return;
    }
    if (!gf_grow(&wanted->range, &wanted->capacity, wanted->count + 1, sizeof *wanted->range)) {
        atomic_store(&x->no_memory, 1);
        return;
    }
    wanted->range[wanted->count++] = (gf_panel_range){(int32_t)from, (int32_t)to};
}

/* Marks of a cell become ranges, and zeros again. */
static void take_cell(gf_cell_search *x, marks m, int64_t cell, gf_cell_wanted *wanted) {
    const int64_t first = x->c->start[cell] / GF_PANEL, end = (x->c->start[cell + 1] - 1) / GF_PANEL + 1;
    for (int64_t p = first, from; p < end;) {
        for (; p < end && !m.panel[p];) p++;
        for (from = p; p < end && m.panel[p];) p++;
        if (from < p) add_range(x, wanted, from, p);
    }
    memset(m.panel + first, 0, (size_t)(end - first));
}

void gf_cell_mark(gf_cell_search *x, const gf_cell_anchors *a, gf_cell_wanted *wanted, int thread) {
    const marks m = marks_of(x, thread);
    wanted->count = 0;
    if (x->t->probe == 1 && x->t->dup > 2.0f) mark_own(x, a, m);
    else mark_similar(x, a, m, thread);
    for (size_t w = 0; w < cell_words(x->c); w++)
        for (; m.cell[w]; m.cell[w] &= m.cell[w] - 1) take_cell(x, m, (int64_t)w * 64 + __builtin_ctzll(m.cell[w]), wanted);
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
            if (other > self) gf_components_join_shared(x->root, self, other);
        }
    }
}

/* First of the columns whose panel is `panel` or later. */
static int64_t column_of(const gf_cell_columns *columns, int64_t panel) {
    int64_t low = 0, high = columns->count;
    if (!columns->panel) return GF_MIN(panel, columns->count);
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (columns->panel[mid] < panel) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* Columns from number `first` on whose panels follow each other, end before `to`, and fit into a strip. */
static int64_t strip_end(const gf_cell_columns *columns, int64_t first, int64_t to) {
    const int32_t *panel = columns->panel;
    const int64_t most = GF_MIN(columns->count, first + GF_STRIP_COLS / GF_PANEL);
    int64_t end = first;
    if (!panel) return GF_MIN(most, to);
    while (end < most && panel[end] < to && panel[end] - panel[first] == end - first) end++;
    return end;
}

/* Panels [from, to), where columns have them; returns the number of pairs. */
static int64_t compare_range(gf_cell_search *x, const gf_cell_anchors *a, gf_panel_range range, const gf_cell_columns *columns,
                             const gf_cell_lists *to, int thread) {
    float *s = x->strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    int64_t pairs = 0;
    for (int64_t p = column_of(columns, range.from), end; (end = strip_end(columns, p, range.to)) > p; p = end) {
        const int64_t place = (columns->panel ? columns->panel[p] : p) * GF_PANEL;
        const int cols = (int)(GF_MIN(place + (end - p) * GF_PANEL, x->c->n) - place);
        gf_panels_product(x->ops, a->p, a->at, columns->p, p * GF_PANEL, cols, s);
        take_strip(x, a, to, place, cols, thread);
        pairs += (int64_t)a->rows * cols;
    }
    return pairs;
}

void gf_cell_compare(gf_cell_search *x, const gf_cell_anchors *a, const gf_cell_wanted *wanted, const gf_cell_columns *columns,
                     const gf_cell_lists *to, int thread) {
    int64_t pairs = 0;
    if (!wanted) compare_range(x, a, (gf_panel_range){0, (int32_t)x->panels}, columns, to, thread);
    for (size_t k = 0; wanted && k < wanted->count; k++) pairs += compare_range(x, a, wanted->range[k], columns, to, thread);
    atomic_fetch_add(&x->pairs, pairs);
}
