/* cell_mark.c - see cell_compare.h: which cells an anchor is compared with, and which panels may hold its duplicates.
 *
 * Duplicates: let u and v be at an angle of theta at most, and v in the cell of centroid b. angle(u, b) differs from
 * angle(v, b) by theta at most. Members of a cell lie by rising angle: a range of places. Which cells: v chose its cell in
 * the T groups it is nearest to. Angles of u and v to a group differ by theta at most, too. So
 *   - a group that v looked into is at most 2 theta farther from u than the T-th nearest group of u;
 *   - a group more than 2 theta nearer to u than its (T + 1)-th nearest one is among those that v looked into: it is safe;
 *   - v prefers b to every cell a of a safe group: angle(u, b) <= angle(v, b) + theta <= angle(v, a) + theta
 *     <= angle(u, a) + 2 theta.
 * Ranges of the rows of a panel are joined in a map of panels, so that each panel of columns is compared once; a bit per
 * cell tells where the map has marks. Angles have a margin for rounding errors: what is left out cannot reach the limit, and
 * the rest is compared as everywhere.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/cell_compare.h"
#include "util/array.h"

enum { SAFE_TRIES = 4 }; /* nearest cells that are tried as the `a` above */

/* ----- pieces ----- */

int64_t gf_cell_place_of(const gf_cells *c, int64_t from, int64_t to, double a) {
    while (from < to) {
        const int64_t mid = from + (to - from) / 2;
        if ((double)c->angle[mid] < a) from = mid + 1;
        else to = mid;
    }
    return from;
}

int32_t gf_cell_piece(const gf_cell_search *x, uint64_t key) {
    const int64_t cell = gf_best_other(key), first = x->piece_of[cell], count = x->piece_of[cell + 1] - first;
    if (count == 1) return (int32_t)first;
    const int64_t end = x->c->start[cell + 1];
    const int64_t place = gf_cell_place_of(x->c, x->c->start[cell], end, gf_cells_angle(gf_best_value(key)));
    return (int32_t)gf_cell_piece_at(x, GF_MIN(place, end - 1));
}

int64_t gf_cell_piece_at(const gf_cell_search *x, int64_t place) {
    int64_t low = 0, high = x->pieces - 1; /* the last one that begins at or before it: empty ones begin where the next does */
    while (low < high) {
        const int64_t mid = low + (high - low + 1) / 2;
        if (x->piece[mid] <= place) low = mid;
        else high = mid - 1;
    }
    return low;
}

int gf_cell_is_near(const gf_cell_search *x, const int32_t *near, int64_t place) {
    const int64_t piece = gf_cell_piece_at(x, place);
    for (int64_t k = 0; k < x->probe; k++)
        if (near[k] == piece) return 1;
    return 0;
}

/* ----- nearest cells ----- */

/* Centroids of the cells around a cell, in panels; to: of the thread. */
static gf_panels centres_around(const gf_cell_search *x, int64_t cell, float *to) {
    const gf_cells *c = x->c;
    const int32_t *nearby = c->nearby + cell * c->around;
    gf_panels p = {.dim = c->dim, .x = to};
    memset(to, 0, gf_panels_bytes(c->around, c->dim));
    for (; p.n < c->around && nearby[p.n] >= 0; p.n++) {
        const int64_t from = nearby[p.n];
        const float *src = c->tree.centres.x + from / GF_PANEL * GF_PANEL * c->dim + from % GF_PANEL;
        float *dst = to + p.n / GF_PANEL * GF_PANEL * c->dim + p.n % GF_PANEL;
        for (int64_t k = 0; k < c->dim; k++) dst[k * GF_PANEL] = src[k * GF_PANEL];
    }
    return p;
}

void gf_cell_near(gf_cell_search *x, const gf_panels *p, int64_t at, int64_t rows, int64_t place, const int32_t *places,
                  int thread) {
    const gf_cells *c = x->c;
    const int64_t own = (int64_t)thread * x->block;
    if (!c->nearby) {
        gf_tree_near(&x->tree, p, at, rows, thread);
        return;
    }
    float *to = x->around + (int64_t)thread * (int64_t)(gf_panels_bytes(c->around, c->dim) / sizeof *to);
    gf_panels centres = {0};
    int64_t cell = -1;
    for (int64_t i = 0, end; i < rows; i = end) { /* rows of one panel and one cell */
        const int64_t here = gf_cells_at(c, places ? places[i] : place + i);
        const int64_t same = places ? i + 1 : GF_MIN(rows, c->start[here + 1] - place);
        end = GF_MIN(same, (i / GF_PANEL + 1) * GF_PANEL);
        if (here != cell) centres = centres_around(x, cell = here, to);
        gf_tree_near_of(&x->tree, p, at + i / GF_PANEL * GF_PANEL, (int)(i % GF_PANEL), (int)(end - i),
                        c->nearby + cell * c->around, &centres, own + i, thread);
    }
}

/* ----- marks of a panel of anchors ----- */

typedef struct marks { /* of one thread */
    uint8_t *panel;
    uint64_t *cell;
    uint32_t *group;
} marks;

static size_t cell_words(const gf_cells *c) { return (size_t)c->count / 64 + 1; }

static marks marks_of(const gf_cell_search *x, int thread) {
    return (marks){x->mark + (int64_t)thread * x->panels, x->touched + (size_t)thread * cell_words(x->c),
                   x->mask + (int64_t)thread * x->c->tree.groups};
}

/* Members of a cell that an anchor can have duplicates among; angle: between the anchor and the centroid. */
static void mark_cell(const gf_cell_search *x, marks m, int64_t cell, double angle) {
    const double reach = x->theta + 4.0 * x->slack;
    const int64_t from = gf_cell_place_of(x->c, x->c->start[cell], x->c->start[cell + 1], angle - reach);
    const int64_t to = gf_cell_place_of(x->c, from, x->c->start[cell + 1], angle + reach);
    if (from >= to) return;
    m.cell[cell / 64] |= (uint64_t)1 << cell % 64;
    memset(m.panel + from / GF_PANEL, 1, (size_t)((to - 1) / GF_PANEL - from / GF_PANEL + 1));
}

/* Least similarity at an angle up to 2 theta larger than that of s. */
static float limit_of(const gf_cell_search *x, float s) {
    const double far = gf_cells_angle(s) + 2.0 * x->theta + 8.0 * x->slack;
    return far >= 3.14159 ? -2.0f : (float)(cos(far) - 1e-6);
}

/* The group of a cell. */
static int64_t group_of(const gf_cell_tree *t, int64_t cell) {
    int64_t low = 0, high = t->groups - 1;
    while (low < high) {
        const int64_t mid = low + (high - low + 1) / 2;
        if (t->first[mid] <= cell) low = mid;
        else high = mid - 1;
    }
    return low;
}

typedef struct anchor_limits { /* of the anchors of a panel: least similarities */
    float group[GF_PANEL];     /* of groups that can hold duplicates */
    float safe[GF_PANEL];      /* of groups that are safe: what limit_of() makes of theirs is above this */
    float cell[GF_PANEL];      /* of cells that can hold duplicates */
} anchor_limits;

/* From the nearest groups of an anchor. */
static void set_limits(const gf_cell_search *x, int64_t list, int r, anchor_limits *limits) {
    const gf_best *group = &x->tree.group;
    const uint64_t *key = group->key + list * group->capacity;
    const int64_t through = x->c->tree.through;
    limits->group[r] = limit_of(x, gf_best_value(key[through - 1]));
    limits->safe[r] = gf_best_value(key[through]);
    limits->cell[r] = -2.0f;
}

/* Groups [c0, c0 + cols) against an anchor, v: its similarities to them. */
static void mark_groups(const gf_cell_search *x, marks m, int r, int64_t list, const float *v, int64_t c0, int cols,
                        anchor_limits *limits) {
    const gf_best *near = &x->tree.near;
    const uint64_t *key = near->key + list * near->capacity;
    int32_t at[GF_STRIP_COLS];
    const int found = x->ops->reach(at, v, (int)gf_pad(cols), limits->group[r], NULL);
    for (int k = 0; k < found && at[k] < cols; k++) m.group[c0 + at[k]] |= (uint32_t)1 << r;
    for (int64_t k = 0; k < GF_MIN(near->count[list], SAFE_TRIES); k++) {
        const int64_t group = group_of(&x->c->tree, gf_best_other(key[k])) - c0;
        if (group < 0 || group >= cols) continue;
        const int safe = limit_of(x, v[group]) > limits->safe[r];
        if (safe) limits->cell[r] = fmaxf(limits->cell[r], limit_of(x, gf_best_value(key[k])));
    }
}

/* Cells [first, end), for the anchors of a mask. */
static void mark_cells(const gf_cell_search *x, marks m, int64_t first, int64_t end, uint32_t mask, int64_t place,
                       const anchor_limits *limits, float *v) {
    int32_t at[GF_STRIP_COLS];
    for (int64_t c0 = first / GF_PANEL * GF_PANEL; c0 < end; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, end - c0);
        gf_panels_product(x->ops, x->points, place, &x->c->tree.centres, c0, cols, v);
        for (int r = 0; r < GF_PANEL; r++) {
            if (!(mask >> r & 1)) continue;
            const float *s = v + (size_t)r * GF_STRIP_COLS;
            const int found = x->ops->reach(at, s, (int)gf_pad(cols), limits->cell[r], NULL);
            for (int k = 0; k < found && at[k] < cols; k++)
                if (c0 + at[k] >= first) mark_cell(x, m, c0 + at[k], gf_cells_angle(s[at[k]]));
        }
    }
}

/* The panel of anchors at `place`, whose nearest cells are in the lists from `list` on. */
static void mark_some_groups(gf_cell_search *x, marks m, int64_t place, int rows, int64_t list, int thread) {
    const gf_cell_tree *t = &x->c->tree;
    float *v = x->tree.strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    anchor_limits limits;
    gf_tree_groups(&x->tree, x->points, place, rows, thread);
    for (int r = 0; r < rows; r++) set_limits(x, (int64_t)thread * GF_PANEL + r, r, &limits);
    for (int64_t c0 = 0; c0 < t->groups; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, t->groups - c0);
        if (t->groups > GF_STRIP_COLS) gf_panels_product(x->ops, x->points, place, &t->group_centres, c0, cols, v);
        for (int r = 0; r < rows; r++) mark_groups(x, m, r, list + r, v + (size_t)r * GF_STRIP_COLS, c0, cols, &limits);
    }
    for (int64_t g = 0; g < t->groups; g++) {
        if (m.group[g]) mark_cells(x, m, t->first[g], t->first[g + 1], m.group[g], place, &limits, v);
        m.group[g] = 0;
    }
}

/* The same where all groups are looked into, and so are safe: the cell of an anchor is the nearest of all. */
static void mark_all_groups(gf_cell_search *x, marks m, int64_t place, int rows, int thread) {
    float *v = x->tree.strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    anchor_limits limits;
    for (int r = 0; r < rows; r++) limits.cell[r] = limit_of(x, (float)cos((double)x->c->angle[place + r]));
    mark_cells(x, m, 0, x->c->count, UINT32_MAX >> (GF_PANEL - rows), place, &limits, v);
}

static void mark_panel(gf_cell_search *x, marks m, int64_t place, int rows, int64_t list, int thread) {
    if (x->c->tree.through < x->c->tree.groups) mark_some_groups(x, m, place, rows, list, thread);
    else mark_all_groups(x, m, place, rows, thread);
}

/* ----- marks become ranges ----- */

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

static void take_marks(gf_cell_search *x, marks m, gf_cell_wanted *wanted) {
    for (size_t w = 0; w < cell_words(x->c); w++)
        for (; m.cell[w]; m.cell[w] &= m.cell[w] - 1) take_cell(x, m, (int64_t)w * 64 + __builtin_ctzll(m.cell[w]), wanted);
}

/* ----- a block ----- */

void gf_cell_mark(gf_cell_search *x, const gf_cell_block *b, int thread) {
    const gf_best *near = &x->tree.near;
    const int64_t own = (int64_t)thread * x->block;
    if (x->probe || x->c->tree.through < x->c->tree.groups) gf_cell_near(x, x->points, b->place, b->rows, b->place, NULL, thread);
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t k = 0; k < x->probe; k++)
            b->near[i * x->probe + k] =
                k < near->count[own + i] ? gf_cell_piece(x, near->key[(own + i) * near->capacity + k]) : -1;
    for (int64_t i = 0; x->t->dup <= 2.0f && i < b->rows; i += GF_PANEL) {
        gf_cell_wanted *wanted = &b->wanted[i / GF_PANEL];
        const marks m = marks_of(x, thread);
        wanted->count = 0;
        mark_panel(x, m, b->place + i, (int)GF_MIN(GF_PANEL, b->rows - i), own + i, thread);
        take_marks(x, m, wanted);
    }
}
