/* cell_search.c - see cells.h: which cells an anchor is compared with, and which panels may hold its duplicates; comparing them; the
 * recall; and on top of these the searches of rows in memory (gf_pairs_search_cells) and of rows that are not.
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
#include "pairs/cells.h"
#include "pairs/pairs_search.h"
#include "util/array.h"
#include "util/components.h"
#include "util/parallel.h"
#include "util/rng.h"

enum { SAFE_TRIES = 4 }; /* nearest cells that are tried as the `a` above */

/* ----- pieces ----- */

/* First place in [from, to) whose angle is not below a. */
static int64_t cell_place_of(const gf_cells *c, int64_t from, int64_t to, double a) {
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
    const int64_t place = cell_place_of(x->c, x->c->start[cell], end, gf_cells_angle(gf_best_value(key)));
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

static int cell_is_near(const gf_cell_search *x, const int32_t *near, int64_t place) {
    const int64_t piece = gf_cell_piece_at(x, place);
    for (int64_t k = 0; k < x->probe; k++)
        if (near[k] == piece) return 1;
    return 0;
}

/* ----- nearest cells ----- */

/* Row i of p becomes row k of to, both in panels. */
static void copy_row(const gf_panels *p, int64_t i, const gf_panels *to, int64_t k) {
    const float *src = p->x + i / GF_PANEL * GF_PANEL * p->dim + i % GF_PANEL;
    float *dst = to->x + k / GF_PANEL * GF_PANEL * p->dim + k % GF_PANEL;
    for (int64_t j = 0; j < p->dim; j++) dst[j * GF_PANEL] = src[j * GF_PANEL];
}

/* The nearest cells of rows [at, at + rows) of p, which begin at a panel: lists of x->tree.near from thread * x->block on.
 * The rows are those of places `place` and following ones; or row at + i is that of place places[i]. */
static void cell_near(gf_cell_search *x, const gf_panels *p, int64_t at, int64_t rows, int64_t place, const int32_t *places,
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
        if (here != cell) { /* centroids of the cells around it, in panels of the thread */
            const int32_t *nearby = c->nearby + here * c->around;
            cell = here;
            centres = (gf_panels){.dim = c->dim, .x = to};
            memset(to, 0, gf_panels_bytes(c->around, c->dim));
            for (; centres.n < c->around && nearby[centres.n] >= 0; centres.n++)
                copy_row(&c->tree.centres, nearby[centres.n], &centres, centres.n);
        }
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

/* Cells [first, end), for the anchors of a mask. */
static void mark_cells(const gf_cell_search *x, marks m, int64_t first, int64_t end, uint32_t mask, int64_t place,
                       const anchor_limits *limits, float *v) {
    const double reach = x->theta + 4.0 * x->slack;
    int32_t at[GF_STRIP_COLS];
    for (int64_t c0 = first / GF_PANEL * GF_PANEL; c0 < end; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, end - c0);
        gf_panels_product(x->ops, x->points, place, &x->c->tree.centres, c0, cols, v);
        for (int r = 0; r < GF_PANEL; r++) {
            if (!(mask >> r & 1)) continue;
            const float *s = v + (size_t)r * GF_STRIP_COLS;
            const int found = x->ops->reach(at, s, (int)gf_pad(cols), limits->cell[r], NULL);
            for (int k = 0; k < found && at[k] < cols; k++) {
                const int64_t cell = c0 + at[k];
                if (cell < first) continue;
                /* Members of the cell that the anchor can have duplicates among, by their angles to the centroid. */
                const double angle = gf_cells_angle(s[at[k]]);
                const int64_t from = cell_place_of(x->c, x->c->start[cell], x->c->start[cell + 1], angle - reach);
                const int64_t to = cell_place_of(x->c, from, x->c->start[cell + 1], angle + reach);
                if (from >= to) continue;
                m.cell[cell / 64] |= (uint64_t)1 << cell % 64;
                memset(m.panel + from / GF_PANEL, 1, (size_t)((to - 1) / GF_PANEL - from / GF_PANEL + 1));
            }
        }
    }
}

/* The panel of anchors at `place`, whose nearest cells are in the lists from `list` on. */
static void mark_some_groups(gf_cell_search *x, marks m, int64_t place, int rows, int64_t list, int thread) {
    const gf_cell_tree *t = &x->c->tree;
    float *v = x->tree.strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    anchor_limits limits;
    gf_tree_groups(&x->tree, x->points, place, rows, thread);
    for (int r = 0; r < rows; r++) {
        /* From the nearest groups of an anchor. */
        const gf_best *group = &x->tree.group;
        const uint64_t *key = group->key + ((int64_t)thread * GF_PANEL + r) * group->capacity;
        const int64_t through = x->c->tree.through;
        limits.group[r] = limit_of(x, gf_best_value(key[through - 1]));
        limits.safe[r] = gf_best_value(key[through]);
        limits.cell[r] = -2.0f;
    }
    for (int64_t c0 = 0; c0 < t->groups; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, t->groups - c0);
        if (t->groups > GF_STRIP_COLS) gf_panels_product(x->ops, x->points, place, &t->group_centres, c0, cols, v);
        for (int r = 0; r < rows; r++) {
            /* Groups [c0, c0 + cols) against an anchor, s: its similarities to them. */
            const float *s = v + (size_t)r * GF_STRIP_COLS;
            const gf_best *near = &x->tree.near;
            const uint64_t *key = near->key + (list + r) * near->capacity;
            int32_t at[GF_STRIP_COLS];
            const int found = x->ops->reach(at, s, (int)gf_pad(cols), limits.group[r], NULL);
            for (int k = 0; k < found && at[k] < cols; k++) m.group[c0 + at[k]] |= (uint32_t)1 << r;
            for (int64_t k = 0; k < GF_MIN(near->count[list + r], SAFE_TRIES); k++) {
                const int64_t group = group_of(t, gf_best_other(key[k])) - c0;
                if (group < 0 || group >= cols) continue;
                const int safe = limit_of(x, s[group]) > limits.safe[r];
                if (safe) limits.cell[r] = fmaxf(limits.cell[r], limit_of(x, gf_best_value(key[k])));
            }
        }
    }
    for (int64_t g = 0; g < t->groups; g++) {
        if (m.group[g]) mark_cells(x, m, t->first[g], t->first[g + 1], m.group[g], place, &limits, v);
        m.group[g] = 0;
    }
}

/* ----- marks become ranges ----- */

/* Marks of a cell become ranges, and zeros again. */
static void take_cell(gf_cell_search *x, marks m, int64_t cell, gf_cell_wanted *wanted) {
    const int64_t first = x->c->start[cell] / GF_PANEL, end = (x->c->start[cell + 1] - 1) / GF_PANEL + 1;
    for (int64_t p = first, from; p < end;) {
        for (; p < end && !m.panel[p];) p++;
        for (from = p; p < end && m.panel[p];) p++;
        if (from < p) {
            gf_panel_range *last = wanted->count ? &wanted->range[wanted->count - 1] : NULL;
            if (last && last->to >= from) last->to = (int32_t)GF_MAX(p, last->to); /* neighbouring cells can share a panel */
            else if (gf_grow(&wanted->range, &wanted->capacity, wanted->count + 1, sizeof *wanted->range))
                wanted->range[wanted->count++] = (gf_panel_range){(int32_t)from, (int32_t)p};
            else atomic_store(&x->no_memory, 1);
        }
    }
    memset(m.panel + first, 0, (size_t)(end - first));
}

/* ----- a block ----- */

void gf_cell_mark(gf_cell_search *x, const gf_cell_block *b, int thread) {
    const gf_best *near = &x->tree.near;
    const int64_t own = (int64_t)thread * x->block;
    if (x->probe || x->c->tree.through < x->c->tree.groups) cell_near(x, x->points, b->place, b->rows, b->place, NULL, thread);
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t k = 0; k < x->probe; k++)
            b->near[i * x->probe + k] =
                k < near->count[own + i] ? gf_cell_piece(x, near->key[(own + i) * near->capacity + k]) : -1;
    for (int64_t i = 0; x->t->dup <= 2.0f && i < b->rows; i += GF_PANEL) {
        gf_cell_wanted *wanted = &b->wanted[i / GF_PANEL];
        const marks m = {x->mark + (int64_t)thread * x->panels, x->touched + (size_t)thread * cell_words(x->c),
                         x->mask + (int64_t)thread * x->c->tree.groups};
        wanted->count = 0;
        const int64_t place = b->place + i;
        const int rows = (int)GF_MIN(GF_PANEL, b->rows - i);
        if (x->c->tree.through < x->c->tree.groups) mark_some_groups(x, m, place, rows, own + i, thread);
        else {
            /* The same where all groups are looked into, and so are safe: the cell of an anchor is the nearest of all. */
            float *v = x->tree.strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
            anchor_limits limits;
            for (int r = 0; r < rows; r++) limits.cell[r] = limit_of(x, (float)cos((double)x->c->angle[place + r]));
            mark_cells(x, m, 0, x->c->count, UINT32_MAX >> (GF_PANEL - rows), place, &limits, v);
        }
        for (size_t w = 0; w < cell_words(x->c); w++)
            for (; m.cell[w]; m.cell[w] &= m.cell[w] - 1) take_cell(x, m, (int64_t)w * 64 + __builtin_ctzll(m.cell[w]), wanted);
    }
}

/* ---------- comparing ---------- */

/* A block of anchors against what was found above.
 *
 * Nearest cells: the anchors of a block that are near to one cell are gathered, a panel of them at a time, and compared with the
 * rows of that cell. Duplicates: each panel of anchors is compared with the panels that it wants.
 */

enum { BLOCK_MAX = 8192, NEAR_MAX = 1 << 21, PIECE_ROWS = 4096 }; /* anchors, nearest cells of a block; rows of a piece at most */

/* Entries of the list of an anchor. */
static int64_t cell_keep(const gf_pairs_task *t) {
    return t->probe ? GF_MAX(GF_MAX(gf_lists_keep(t), t->top), 1) : GF_MAX(t->top, 1);
}

/* ----- memory ----- */

static glofnd_status alloc_cell_search(gf_error *err, gf_cell_search *x) {
    const gf_cells *c = x->c;
    const size_t threads = (size_t)x->t->threads;
    x->mark = calloc(threads, (size_t)x->panels);
    x->touched = calloc(threads * ((size_t)c->count / 64 + 1), sizeof *x->touched);
    x->mask = calloc(threads * (size_t)c->tree.groups, sizeof *x->mask);
    x->request = malloc(threads * (size_t)(x->block * GF_MAX(x->probe, 1)) * sizeof *x->request);
    x->around = aligned_alloc(64, threads * gf_panels_bytes(GF_MAX(c->around, 1), c->dim));
    FAIL_IF(err, !x->mark || !x->touched || !x->mask || !x->request || !x->around, GLOFND_E_MEMORY, "no memory for %lld anchors",
            (long long)c->n);
    /* Where all cells are probed, an anchor is compared with all rows: cells stay whole. */
    const int64_t most = x->probe >= c->count ? GF_MAX(c->n, 1) : PIECE_ROWS;
    x->piece_of = malloc(((size_t)c->count + 1) * sizeof *x->piece_of);
    FAIL_IF(err, !x->piece_of, GLOFND_E_MEMORY, "no memory for cells");
    x->piece_of[0] = 0;
    for (int64_t k = 0; k < c->count; k++)
        x->piece_of[k + 1] = x->piece_of[k] + GF_MAX((c->start[k + 1] - c->start[k] + most - 1) / most, 1);
    x->pieces = x->piece_of[c->count];
    x->piece = malloc(((size_t)x->pieces + 1) * sizeof *x->piece);
    FAIL_IF(err, !x->piece, GLOFND_E_MEMORY, "no memory for cells");
    for (int64_t k = 0; k < c->count; k++) {
        const int64_t rows = c->start[k + 1] - c->start[k], count = x->piece_of[k + 1] - x->piece_of[k];
        for (int64_t i = 0; i < count; i++) x->piece[x->piece_of[k] + i] = c->start[k] + rows * i / count;
    }
    x->piece[x->pieces] = c->n;
    return gf_tree_search_init(err, &x->tree, &c->tree, GF_MAX(x->probe, 1), x->block, x->t->threads);
}

glofnd_status gf_cell_search_init(gf_error *err, gf_cell_search *x, const gf_cells *c, const gf_panels *points,
                                  const gf_pairs_task *t, int32_t *root) {
    *x = (gf_cell_search){.c = c, .points = points, .t = t, .ops = gf_cpu_kernels_get()->tile, .root = root};
    x->panels = gf_pad(c->n) / GF_PANEL;
    x->theta = gf_cells_angle(t->dup), x->slack = gf_cells_slack(c->dim);
    x->probe = GF_MIN(t->probe, c->count);
    /* Large blocks fill the panels of gathered anchors; but all threads need some. */
    const int64_t most = GF_MIN(GF_MIN(BLOCK_MAX, c->n / (8 * t->threads)), NEAR_MAX / GF_MAX(x->probe, 1));
    x->block = GF_MAX(most / GF_PANEL, 1) * GF_PANEL;
    const glofnd_status status = alloc_cell_search(err, x);
    if (status != GLOFND_OK) gf_cell_search_free(x);
    return status;
}

void gf_cell_search_free(gf_cell_search *x) {
    gf_tree_search_free(&x->tree);
    free(x->piece);
    free(x->piece_of);
    free(x->request);
    free(x->mark);
    free(x->touched);
    free(x->mask);
    free(x->around);
    x->piece = x->piece_of = NULL, x->request = NULL, x->mark = NULL, x->touched = NULL, x->mask = NULL, x->around = NULL;
}

/* E_MEMORY, if no_memory */
static glofnd_status cell_search_check(gf_error *err, const gf_cell_search *x) {
    FAIL_IF(err, x->no_memory, GLOFND_E_MEMORY, "no memory for the panels that anchors are compared with");
    return GLOFND_OK;
}

/* [n] of them; NULL is fine */
static void cell_wanted_free(gf_cell_wanted *wanted, int64_t n) {
    for (int64_t i = 0; wanted && i < n; i++) free(wanted[i].range);
    free(wanted);
}

/* ----- strips of columns ----- */

typedef struct column_strip { /* a panel of anchors against some columns */
    int64_t place;            /* of the first column */
    int cols;
    const float *v; /* [GF_PANEL][GF_STRIP_COLS] */
} column_strip;

/* Row `at` of p and the following ones against the columns from panel `from` on, to the end of a strip or to panel `to`. */
static column_strip make_strip(const gf_cell_search *x, const gf_panels *p, int64_t at, int64_t from, int64_t to, int thread) {
    float *v = x->tree.strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    const int64_t end = GF_MIN(GF_MIN(to, from + GF_STRIP_COLS / GF_PANEL) * GF_PANEL, x->c->n);
    const column_strip s = {from * GF_PANEL, (int)(end - from * GF_PANEL), v};
    gf_panels_product(x->ops, p, at, x->points, s.place, s.cols, v);
    return s;
}

/* ----- nearest cells ----- */

static int by_request(const void *x, const void *y) {
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* The anchors of requests [rows], all of one piece, against its rows. */
static int64_t compare_gathered(gf_cell_search *x, const gf_cell_block *b, const uint64_t *request, int rows,
                                const gf_cell_lists *to, int thread) {
    const gf_cells *c = x->c;
    const int64_t piece = (int64_t)(request[0] >> 32), from = x->piece[piece], end = x->piece[piece + 1];
    float *x0 = x->tree.gathered + (int64_t)thread * c->dim * GF_PANEL;
    int64_t list[GF_PANEL];
    int32_t self[GF_PANEL];
    if (from == end) return 0;
    memset(x0, 0, (size_t)c->dim * GF_PANEL * sizeof *x0);
    const gf_panels own = {.n = rows, .dim = c->dim, .x = x0};
    for (int r = 0; r < rows; r++) {
        const int64_t anchor = (int64_t)(uint32_t)request[r], row = b->place + anchor;
        copy_row(x->points, row, &own, r);
        self[r] = c->order[row];
        list[r] = to->first < 0 ? self[r] : to->first + anchor;
    }
    for (int64_t p = from / GF_PANEL; p * GF_PANEL < end; p += GF_STRIP_COLS / GF_PANEL) {
        const column_strip s = make_strip(x, &own, 0, p, (end - 1) / GF_PANEL + 1, thread);
        /* Candidates among places [from, to) for the gathered anchors: lists [rows], positions [rows]. */
        gf_best *best = to->best;
        int32_t at[GF_STRIP_COLS];
        const int first = (int)GF_MAX(from - s.place, 0), candidates_end = (int)GF_MIN(end - s.place, s.cols);
        const float *v = s.v;
        for (int r = 0; r < rows; r++, v += GF_STRIP_COLS)
            for (int done = first / GF_PANEL * GF_PANEL, cols; done < candidates_end; done += cols) {
                const float *limit = &best->limit[list[r]];
                cols = gf_best_stride(best, list[r], candidates_end - done);
                const int found = x->ops->reach(at, v + done, (int)gf_pad(cols), *limit, NULL);
                for (int k = 0; k < found && at[k] < cols; k++) {
                    const int32_t other = x->c->order[s.place + done + at[k]];
                    if (done + at[k] >= first && other != self[r] && v[done + at[k]] >= *limit)
                        gf_best_add(best, list[r], v[done + at[k]], other);
                }
            }
    }
    return rows * (end - from);
}

/* ----- duplicates ----- */

static void take_duplicates(gf_cell_search *x, const column_strip *s, const gf_cell_block *b, int64_t first, int rows,
                            const gf_cell_lists *to, int thread) {
    int32_t at[GF_STRIP_COLS];
    const int32_t *order = x->c->order;
    const float *v = s->v;
    for (int64_t i = first; i < first + rows; i++, v += GF_STRIP_COLS) {
        const int32_t self = order[b->place + i];
        const int64_t list = to->first < 0 ? self : to->first + i;
        const int found = x->ops->reach(at, v, (int)gf_pad(s->cols), x->t->dup, NULL);
        for (int k = 0; k < found && at[k] < s->cols; k++) {
            const int32_t other = order[s->place + at[k]];
            if (other == self || !(v[at[k]] >= x->t->dup)) continue;
            if (v[at[k]] >= to->best->limit[list] && !(x->probe && cell_is_near(x, b->near + i * x->probe, s->place + at[k])))
                gf_best_add(to->best, list, v[at[k]], other);
            to->copies[to->by_position ? self : i]++;
            if (other > self) {
                if (gf_components_join_shared(x->root, self, other) && x->joined &&
                    !gf_nodes_add(&x->joined[thread], self, other))
                    atomic_store(&x->no_memory, 1);
            }
        }
    }
}

static void cell_compare(gf_cell_search *x, const gf_cell_block *b, const gf_cell_lists *to, int thread) {
    if (x->probe) {
        uint64_t *request = x->request + (int64_t)thread * x->block * x->probe;
        int64_t n = 0, pairs = 0;
        for (int64_t i = 0; i < b->rows; i++)
            for (int64_t k = 0; k < x->probe; k++)
                if (b->near[i * x->probe + k] >= 0) request[n++] = (uint64_t)b->near[i * x->probe + k] << 32 | (uint64_t)i;
        qsort(request, (size_t)n, sizeof *request, by_request);
        for (int64_t k = 0, end; k < n; k = end) {
            for (end = k; end < n && end - k < GF_PANEL && request[end] >> 32 == request[k] >> 32;) end++;
            pairs += compare_gathered(x, b, request + k, (int)(end - k), to, thread);
        }
        atomic_fetch_add(&x->pairs, pairs);
    }
    if (x->t->dup <= 2.0f) {
        int64_t pairs = 0;
        for (int64_t first = 0; first < b->rows; first += GF_PANEL) {
            const gf_cell_wanted *wanted = &b->wanted[first / GF_PANEL];
            const int rows = (int)GF_MIN(GF_PANEL, b->rows - first);
            for (size_t k = 0; k < wanted->count; k++)
                for (int64_t p = wanted->range[k].from; p < wanted->range[k].to; p += GF_STRIP_COLS / GF_PANEL) {
                    const column_strip s = make_strip(x, x->points, b->place + first, p, wanted->range[k].to, thread);
                    take_duplicates(x, &s, b, first, rows, to, thread);
                    pairs += (int64_t)rows * s.cols;
                }
        }
        if (!x->probe) atomic_fetch_add(&x->pairs, pairs);
    }
}

/* ---------- recall ---------- */

/* Some anchors against all rows, to measure what the nearest cells leave out. */

enum { RECALL_SAMPLE = 1024, RECALL_SEED = 1, RECALL_COLUMNS = 1 << 16 }; /* anchors; columns of a task */

int64_t gf_cell_sample(int64_t n) { return GF_MIN(n, RECALL_SAMPLE); }

typedef struct recall {
    gf_cell_search *x;
    gf_panels own;  /* the anchors */
    int32_t *place; /* [own.n] */
    gf_best best;   /* [threads][own.n] of the whole search */
    _Atomic int64_t done;
} recall;

/* ----- all rows ----- */

static void sweep_columns(void *arg, int64_t task, int thread) {
    recall *r = arg;
    const int64_t n = r->x->c->n, end = GF_MIN((task + 1) * RECALL_COLUMNS, n);
    if (gf_job_stopped(&r->x->t->watch)) return;
    for (int64_t c0 = task * RECALL_COLUMNS; c0 < end; c0 += GF_STRIP_COLS)
        for (int64_t i = 0; i < r->own.n; i += GF_PANEL) {
            /* Anchors from number `i` on against columns [c0, c0 + cols). */
            const int cols = (int)GF_MIN(GF_STRIP_COLS, end - c0);
            const gf_cell_search *x = r->x;
            float *v = x->tree.strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
            int32_t at[GF_STRIP_COLS];
            gf_panels_product(x->ops, &r->own, i, x->points, c0, cols, v);
            for (int64_t a = i; a < GF_MIN(i + GF_PANEL, r->own.n); a++, v += GF_STRIP_COLS) {
                const int64_t list = (int64_t)thread * r->own.n + a;
                const int found = x->ops->reach(at, v, (int)gf_pad(cols), r->best.limit[list], NULL);
                for (int k = 0; k < found && at[k] < cols; k++)
                    if (c0 + at[k] != r->place[a] && v[at[k]] >= r->best.limit[list])
                        gf_best_add(&r->best, list, v[at[k]], x->c->order[c0 + at[k]]);
            }
        }
    const int64_t done = atomic_fetch_add(&r->done, end - task * RECALL_COLUMNS) + end - task * RECALL_COLUMNS;
    if (thread == 0) gf_job_report(&r->x->t->watch, (double)done / (double)n);
}

/* ----- what the search finds of it ----- */

static glofnd_status measure_recall(gf_error *err, recall *r, int64_t first, int64_t count, gf_pairs_found *found) {
    const gf_cells *c = r->x->c;
    const gf_pairs_task *t = r->x->t;
    r->own = (gf_panels){.n = count, .dim = c->dim, .x = aligned_alloc(64, gf_panels_bytes(count, c->dim))};
    r->place = malloc((size_t)count * sizeof *r->place);
    FAIL_IF(err, !r->own.x || !r->place, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)count);
    memset(r->own.x, 0, gf_panels_bytes(count, c->dim));
    for (int64_t i = 0; i < count; i++) {
        r->place[i] = (int32_t)gf_permute(RECALL_SEED, 2, c->n, first + i);
        copy_row(r->x->points, r->place[i], &r->own, i);
    }
    TRY(gf_best_alloc_for(err, &r->best, t->threads * count, GF_MAX(t->rank - 1, 1)));
    int32_t *at = malloc((size_t)c->n * sizeof *at), *near = malloc((size_t)r->x->probe * sizeof *near);
    const int there = at && near;
    if (there) {
        for (int64_t i = 0; i < c->n; i++) at[c->order[i]] = (int32_t)i;
        gf_parallel(t->threads, (c->n + RECALL_COLUMNS - 1) / RECALL_COLUMNS, sweep_columns, r);
        /* All lists of an anchor become the first one. */
        gf_best *b = &r->best;
        for (int64_t list = r->own.n; list < b->lists; list++)
            for (int64_t k = 0; k < b->count[list]; k++) {
                const uint64_t key = b->key[list * b->capacity + k];
                gf_best_add(b, list % r->own.n, gf_best_value(key), gf_best_other(key));
            }
        for (int64_t from = 0; from < count; from += r->x->block) {
            /* at [n]: place of a position; near [probe] is scratch. */
            const int64_t rows = GF_MIN(r->x->block, count - from);
            gf_cell_search *x = r->x;
            const gf_best *cells = &x->tree.near;
            cell_near(x, &r->own, from, rows, 0, r->place + from, 0);
            for (int64_t i = 0; i < rows; i++) {
                const uint64_t *key = r->best.key + (from + i) * r->best.capacity;
                const int64_t wanted = gf_best_sort(&r->best, from + i, GF_MAX(x->t->rank - 1, 1));
                for (int64_t k = 0; k < x->probe; k++)
                    near[k] = k < cells->count[i] ? gf_cell_piece(x, cells->key[i * cells->capacity + k]) : -1;
                for (int64_t k = 0; k < wanted; k++)
                    found->recalled += gf_best_value(key[k]) >= x->t->dup || cell_is_near(x, near, at[gf_best_other(key[k])]);
                found->wanted += wanted, found->sampled++;
            }
        }
    }
    free(at);
    free(near);
    FAIL_IF(err, !there, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)c->n);
    FAIL_IF(err, gf_job_stopped(&t->watch), GLOFND_E_CANCELLED, "cancelled");
    return GLOFND_OK;
}

glofnd_status gf_cell_recall(gf_error *err, gf_cell_search *x, int64_t first, int64_t count, gf_pairs_found *found) {
    recall r = {.x = x};
    const glofnd_status status = measure_recall(err, &r, first, count, found);
    gf_panels_free(&r.own);
    gf_best_free(&r.best);
    free(r.place);
    return status;
}

/* ---------- rows in memory ---------- */

/* Duplicates alone, exact;
 * or, with `probe`, everything, of the rows in the cells that are nearest to an anchor.
 *
 * Probed cells give no promise but for duplicates. So some anchors are compared with all rows, too: the recall is the share of
 * their pairs above the threshold that the probed cells gave. A pair that only one of its ends has found is mutual if it is above
 * both thresholds.
 */

typedef struct whole_search {
    gf_cell_search core;
    const gf_cells *c;
    const gf_pairs_task *t;
    gf_pairs_found *f;
    gf_cell_wanted *wanted; /* [threads][panels of a block] */
    int32_t *near;          /* [threads][block][probe] */
    int64_t blocks;
    gf_best best;         /* [threads][block]; with probe: none */
    gf_best all;          /* probe: [n] candidates, by position */
    _Atomic int64_t done; /* blocks */
} whole_search;

/* ----- probed cells ----- */

static void sort_list(void *arg, int64_t i, int thread) {
    whole_search *x = arg;
    (void)thread;
    gf_best_sort(&x->all, i, x->all.keep);
}

/* Lists are sorted. Counts are the same whichever end has found the pair. */
static void count_pairs(void *arg, int64_t i, int thread) {
    whole_search *x = arg;
    (void)thread;
    gf_pairs_found *f = x->f;
    const int32_t *label = x->t->label;
    const uint64_t *key = x->all.key + i * x->all.capacity;
    for (int64_t k = 0; k < x->all.count[i] && gf_best_value(key[k]) > f->lambda[i]; k++) {
        const int64_t j = gf_best_other(key[k]);
        const float v = gf_best_value(key[k]);
        f->above[i]++;
        f->hits[i] += label && label[i] >= 0 && label[i] == label[j];
        if (!(v > f->lambda[j])) continue;
        __atomic_fetch_add(&f->mutual[i], 1, __ATOMIC_RELAXED);
        /* The list of j, best first, may have the pair, too. */
        const uint64_t own = gf_best_key(v, i), *others = x->all.key + j * x->all.capacity;
        int64_t low = 0, high = x->all.count[j];
        while (low < high) {
            const int64_t mid = low + (high - low) / 2;
            if (others[mid] > own) low = mid + 1;
            else high = mid;
        }
        if (low == x->all.count[j] || others[low] != own) __atomic_fetch_add(&f->mutual[j], 1, __ATOMIC_RELAXED);
        gf_components_join_shared(f->mutual_root, (int32_t)i, (int32_t)j);
    }
}

/* ----- a block of rows ----- */

static void search_whole_block(void *arg, int64_t number, int thread) {
    whole_search *x = arg;
    const int64_t place = number * x->core.block, probe = x->core.probe, own = (int64_t)thread * x->core.block;
    const gf_cell_lists to = {.best = probe ? &x->all : &x->best,
                              .first = probe ? -1 : own,
                              .copies = x->f->copies,
                              .by_position = 1};
    const gf_cell_block b = {.place = place,
                             .rows = GF_MIN(x->core.block, x->c->n - place),
                             .near = x->near + own * probe,
                             .wanted = x->wanted + own / GF_PANEL};
    if (gf_job_stopped(&x->t->watch)) return;
    for (int64_t i = 0; !probe && i < b.rows; i++) gf_best_clear(&x->best, own + i);
    gf_cell_mark(&x->core, &b, thread);
    cell_compare(&x->core, &b, &to, thread);
    for (int64_t i = 0; !probe && i < b.rows; i++) gf_lists_top(&x->best, own + i, x->f, x->c->order[place + i]);
    const int64_t done = atomic_fetch_add(&x->done, 1) + 1;
    if (thread == 0) gf_job_report(&x->t->watch, (double)done / (double)x->blocks);
}

/* ----- the table ----- */

static gf_pairs_plan plan_cells(int64_t n, int64_t dim, const gf_pairs_task *t) {
    const gf_pairs_plan whole = gf_pairs_search_cpu.plan(n, dim, t);
    gf_pairs_plan p = {.rows = 2 * gf_panels_bytes(n, dim), .passes = 1, .results = whole.results};
    if (t->probe) p.lists = gf_best_bytes_for(n, cell_keep(t));
    p.scratch = gf_sweep_bytes(t->threads) + (size_t)n * (size_t)t->threads / GF_PANEL + (size_t)n * 9 * sizeof(int32_t);
    return p;
}

static glofnd_status open_cells(gf_error *err, const gf_vectors *rows, int threads, void **state) {
    gf_cells *c = calloc(1, sizeof *c);
    const gf_sweep_job job = {.threads = threads};
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory for cells");
    const glofnd_status status = gf_cells_make(err, rows, 0, &job, c);
    if (status == GLOFND_OK) *state = c;
    else free(c);
    return status;
}

static void close_cells(void *state) {
    if (state) gf_cells_free(state);
    free(state);
}

static glofnd_status alloc_whole_search(gf_error *err, whole_search *x) {
    const int threads = x->t->threads;
    TRY(gf_cell_search_init(err, &x->core, x->c, &x->c->points, x->t, x->f->copy_root));
    const size_t rows = (size_t)threads * (size_t)x->core.block;
    x->blocks = (x->c->n + x->core.block - 1) / x->core.block;
    x->wanted = calloc(rows / GF_PANEL, sizeof *x->wanted);
    x->near = malloc(rows * (size_t)GF_MAX(x->core.probe, 1) * sizeof *x->near);
    FAIL_IF(err, !x->wanted || !x->near, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)x->c->n);
    if (x->t->probe) return gf_best_alloc_for(err, &x->all, x->c->n, cell_keep(x->t));
    return gf_best_alloc_for(err, &x->best, (int64_t)rows, cell_keep(x->t));
}

static glofnd_status find_by_cells(gf_error *err, void *state, const gf_pairs_task *t, gf_pairs_found *f) {
    gf_cells *c = state;
    whole_search x = {.c = c, .t = t, .f = f};
    if (t->probe) TRY(gf_pairs_check_rank(err, t, c->n - 1));
    TRY(gf_cells_surround(err, c, GF_MAX(t->probe, 1), t->threads));
    gf_pairs_found_none(f);
    glofnd_status status = alloc_whole_search(err, &x);
    if (status == GLOFND_OK && (t->dup <= 2.0f || t->probe)) gf_parallel(t->threads, x.blocks, search_whole_block, &x);
    if (status == GLOFND_OK) status = cell_search_check(err, &x.core);
    if (status == GLOFND_OK && t->probe && !gf_job_stopped(&t->watch)) {
        gf_lists_all_thresholds(&x.all, t, f);
        gf_parallel(t->threads, f->n, sort_list, &x);
        status = gf_cell_recall(err, &x.core, 0, gf_cell_sample(f->n), f);
        if (status == GLOFND_OK) {
            gf_parallel(t->threads, f->n, count_pairs, &x);
            gf_lists_all_top(&x.all, t, f);
            gf_components_flatten(f->mutual_root, f->n);
        }
    }
    gf_components_flatten(f->copy_root, c->n);
    f->cells = c->count, f->compared = x.core.pairs;
    gf_cell_search_free(&x.core);
    cell_wanted_free(x.wanted, t->threads * x.core.block / GF_PANEL);
    free(x.near);
    gf_best_free(&x.best);
    gf_best_free(&x.all);
    FAIL_IF(err, status == GLOFND_OK && gf_job_stopped(&t->watch), GLOFND_E_CANCELLED, "cancelled");
    return status;
}

static glofnd_status query_cells(gf_error *err, void *state, const gf_vectors *rows, const gf_pairs_task *t, gf_pairs_found *f) {
    (void)state, (void)rows, (void)t, (void)f;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "cells find duplicates among rows, not those of a query");
}

const gf_pairs_search gf_pairs_search_cells = {
    .name = "cells",
    .plan = plan_cells,
    .open = open_cells,
    .find = find_by_cells,
    .query = query_cells,
    .close = close_cells,
};

/* ---------- rows that are not in memory ---------- */

/* Comparing the anchors of a unit with what is near to them, or some with all rows. */

typedef struct unit_search {
    gf_cell_search core;
    const gf_cells_stream *s;
    const gf_pairs_task *t;
    gf_pairs_found *f;      /* of the unit */
    uint64_t *above;        /* of the unit, or NULL */
    int64_t first, rows;    /* places of the unit */
    gf_best best;           /* [rows] */
    gf_cell_wanted *wanted; /* [threads][panels of a block] */
    int32_t *near;          /* [threads][block][probe] */
    _Atomic int64_t done;   /* blocks of anchors */
} unit_search;

static int64_t blocks_of(const unit_search *x) { return (x->rows + x->core.block - 1) / x->core.block; }

static void search_unit_block(void *arg, int64_t number, int thread) {
    unit_search *x = arg;
    const int64_t from = number * x->core.block, own = (int64_t)thread * x->core.block;
    const gf_cell_block b = {.place = x->first + from,
                             .rows = GF_MIN(x->core.block, x->rows - from),
                             .near = x->near + own * x->core.probe,
                             .wanted = x->wanted + own / GF_PANEL};
    const gf_cell_lists to = {.best = &x->best, .first = from, .copies = x->f->copies + from};
    if (gf_job_stopped(&x->t->watch)) return;
    gf_cell_mark(&x->core, &b, thread);
    cell_compare(&x->core, &b, &to, thread);
    const int64_t done = atomic_fetch_add(&x->done, 1) + 1;
    if (thread == 0) gf_job_report(&x->t->watch, (double)done / (double)blocks_of(x));
}

static void finish_panel(void *arg, int64_t panel, int thread) {
    unit_search *x = arg;
    (void)thread;
    for (int64_t list = panel * GF_PANEL; list < GF_MIN((panel + 1) * GF_PANEL, x->rows); list++) {
        const int64_t rank = GF_MIN(x->t->rank, x->best.count[list]);
        x->f->lambda[list] = x->t->probe && rank > 0 ? gf_best_ranked(&x->best, list, rank) : INFINITY;
        if (x->t->probe) gf_lists_below(&x->best, list, x->f, list);
        if (x->t->probe) {
            /* What is above the threshold of an anchor. */
            gf_pairs_found *f = x->f;
            const uint64_t *key = x->best.key + list * x->best.capacity;
            const int32_t *label = x->t->label, own = label ? label[x->s->c.order[x->first + list]] : -1;
            for (int64_t k = 0; k < x->best.count[list]; k++) {
                if (!(gf_best_value(key[k]) > f->lambda[list])) continue;
                if (x->above) x->above[list * (x->t->rank - 1) + f->above[list]] = key[k];
                f->above[list]++;
                f->hits[list] += own >= 0 && label[gf_best_other(key[k])] == own;
            }
        }
        gf_lists_top(&x->best, list, x->f, list);
    }
}

/* ----- the pairs of a unit ----- */

static glofnd_status search_unit(gf_error *err, unit_search *x) {
    const size_t block = (size_t)x->t->threads * (size_t)x->core.block;
    x->wanted = calloc(block / GF_PANEL, sizeof *x->wanted);
    x->near = malloc(block * (size_t)GF_MAX(x->core.probe, 1) * sizeof *x->near);
    FAIL_IF(err, !x->wanted || !x->near, GLOFND_E_MEMORY, "no memory for a map of cells");
    TRY(gf_best_alloc_for(err, &x->best, x->rows, cell_keep(x->t)));
    gf_parallel(x->t->threads, blocks_of(x), search_unit_block, x);
    const glofnd_status status = cell_search_check(err, &x->core);
    if (status == GLOFND_OK) gf_parallel(x->t->threads, gf_pad(x->rows) / GF_PANEL, finish_panel, x);
    gf_best_free(&x->best);
    FAIL_IF(err, status == GLOFND_OK && gf_job_stopped(&x->t->watch), GLOFND_E_CANCELLED, "cancelled");
    return status;
}

glofnd_status gf_cells_stream_pairs(gf_error *err, const gf_cells_stream *s, const gf_pairs_task *t, int64_t first, int64_t rows,
                                    gf_pairs_found *found, int32_t *copy_root, gf_node_list *joined, uint64_t *above) {
    unit_search x = {.s = s, .t = t, .f = found, .above = above, .first = first, .rows = rows};
    if (t->probe) TRY(gf_pairs_check_rank(err, t, s->c.n - 1));
    TRY(gf_cell_search_init(err, &x.core, &s->c, &s->all, t, copy_root));
    x.core.joined = calloc((size_t)t->threads, sizeof *x.core.joined);
    /* As if nothing were similar. */
    for (int64_t i = 0; i < found->n; i++) found->lambda[i] = INFINITY;
    for (int64_t i = 0; i < found->n * found->top; i++) found->other[i] = -1, found->similarity[i] = NAN;
    glofnd_status status = x.core.joined ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for duplicates");
    if (status == GLOFND_OK && (t->dup <= 2.0f || t->probe)) status = search_unit(err, &x);
    for (int k = 0; x.core.joined && k < t->threads; k++) { /* nodes of all threads */
        gf_node_list *of = &x.core.joined[k];
        for (size_t i = 0; i < of->count && status == GLOFND_OK; i += 2)
            if (!gf_nodes_add(joined, of->node[i], of->node[i + 1]))
                status = gf_fail(err, GLOFND_E_MEMORY, "no memory for duplicates");
        gf_nodes_free(of);
    }
    found->cells = s->c.count, found->compared = x.core.pairs;
    cell_wanted_free(x.wanted, t->threads * x.core.block / GF_PANEL);
    gf_cell_search_free(&x.core);
    free(x.core.joined);
    free(x.near);
    return status;
}

glofnd_status gf_cells_stream_recall(gf_error *err, const gf_cells_stream *s, const gf_pairs_task *t, int64_t first,
                                     int64_t count, gf_pairs_found *found) {
    gf_cell_search x;
    TRY(gf_cell_search_init(err, &x, &s->c, &s->all, t, NULL));
    const glofnd_status status = gf_cell_recall(err, &x, first, count, found);
    gf_cell_search_free(&x);
    return status;
}
