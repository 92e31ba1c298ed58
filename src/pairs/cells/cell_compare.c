/* cell_compare.c - see cell_compare.h.
 *
 * Nearest cells: the anchors of a block that are near to one cell are gathered, a panel of them at a time, and compared with the
 * rows of that cell.
 *
 * Duplicates: with u and v at an angle of theta at most, and v in the cell of centroid b: angle(u, b) <= angle(v, b) + theta, and
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

enum { SAMPLE = 32, BLOCK_MAX = 4096, NEAR_MAX = 1 << 21 }; /* panels for the recall; anchors, nearest cells of a block */

int64_t gf_cell_keep(const gf_pairs_task *t) {
    return t->probe ? GF_MAX(GF_MAX(gf_lists_keep(t), t->top), 1) : GF_MAX(t->top, 1);
}

int64_t gf_cell_sample(int64_t panels) { return GF_MIN(panels, SAMPLE); }

int64_t gf_cell_sample_place(int64_t panels, int64_t i) { return i * (panels / gf_cell_sample(panels)) * GF_PANEL; }

static size_t cell_words(const gf_cells *c) { return (size_t)c->count / 64 + 1; }

/* Large blocks fill the panels of gathered anchors; but all threads need some. */
static int64_t block_of(const gf_cells *c, int64_t probe, int threads) {
    const int64_t most = GF_MIN(GF_MIN(BLOCK_MAX, c->n / (8 * threads)), NEAR_MAX / GF_MAX(probe, 1));
    return GF_MAX(most / GF_PANEL, 1) * GF_PANEL;
}

static glofnd_status allocate_near(gf_error *err, gf_cell_search *x) {
    const size_t threads = (size_t)x->t->threads;
    x->request = malloc(threads * (size_t)(x->block * x->probe) * sizeof *x->request);
    x->gathered = aligned_alloc(64, threads * (size_t)x->c->dim * GF_PANEL * sizeof *x->gathered);
    FAIL_IF(err, !x->request || !x->gathered, GLOFND_E_MEMORY, "no memory for nearest cells");
    return gf_best_alloc_roomy(err, &x->near, x->t->threads * GF_PANEL, x->probe);
}

glofnd_status gf_cell_search_init(gf_error *err, gf_cell_search *x, const gf_cells *c, const gf_pairs_task *t, int32_t *root) {
    *x = (gf_cell_search){.c = c, .t = t, .ops = gf_cpu_kernels_get()->tile, .panels = gf_pad(c->n) / GF_PANEL, .root = root};
    x->theta = gf_cells_angle(t->dup), x->slack = gf_cells_slack(c->dim);
    x->probe = GF_MIN(t->probe, c->count), x->block = block_of(c, x->probe, t->threads);
    x->strip = aligned_alloc(64, gf_sweep_bytes(t->threads));
    x->mark = calloc((size_t)t->threads, (size_t)x->panels);
    x->touched = calloc((size_t)t->threads * cell_words(c), sizeof *x->touched);
    glofnd_status status = x->strip && x->mark && x->touched
                               ? GLOFND_OK
                               : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)c->n);
    if (status == GLOFND_OK && x->probe) status = allocate_near(err, x);
    if (status != GLOFND_OK) gf_cell_search_free(x);
    return status;
}

void gf_cell_search_free(gf_cell_search *x) {
    free(x->strip);
    free(x->request);
    free(x->gathered);
    free(x->mark);
    free(x->touched);
    gf_best_free(&x->near);
    x->strip = x->gathered = NULL, x->request = NULL, x->mark = NULL, x->touched = NULL;
}

glofnd_status gf_cell_search_check(gf_error *err, const gf_cell_search *x) {
    FAIL_IF(err, x->no_memory, GLOFND_E_MEMORY, "no memory for the panels that anchors are compared with");
    return GLOFND_OK;
}

void gf_cell_wanted_free(gf_cell_wanted *wanted, int64_t n) {
    for (int64_t i = 0; wanted && i < n; i++) free(wanted[i].range);
    free(wanted);
}

/* The cell of a place. */
static int64_t cell_at(const gf_cells *c, int64_t place) {
    int64_t low = 0, high = c->count - 1; /* the last one that begins at or before it: empty ones begin where the next does */
    while (low < high) {
        const int64_t mid = low + (high - low + 1) / 2;
        if (c->start[mid] <= place) low = mid;
        else high = mid - 1;
    }
    return low;
}

static int is_near(const gf_cell_search *x, const int32_t *near, int64_t place) {
    const int64_t cell = cell_at(x->c, place);
    for (int64_t k = 0; k < x->probe; k++)
        if (near[k] == cell) return 1;
    return 0;
}

int gf_cell_finds(const gf_cell_search *x, const int32_t *near, int64_t place, float similarity) {
    return similarity >= x->t->dup || is_near(x, near, place);
}

/* ----- which cells, which panels ----- */

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

static void take_near(gf_cell_search *x, int64_t list, int32_t *near) {
    const int64_t count = gf_best_sort(&x->near, list, x->probe);
    for (int64_t k = 0; k < x->probe; k++)
        near[k] = k < count ? (int32_t)gf_best_other(x->near.key[list * x->near.capacity + k]) : -1;
}

/* All cells against the anchors. */
static void mark_similar(gf_cell_search *x, const gf_cell_anchors *a, marks m, int32_t *near, int thread) {
    const gf_cells *c = x->c;
    const int64_t own = (int64_t)thread * GF_PANEL;
    float *s = x->strip + own * GF_STRIP_COLS;
    for (int r = 0; x->probe && r < a->rows; r++) gf_best_clear(&x->near, own + r);
    for (int64_t c0 = 0; c0 < c->count; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, c->count - c0);
        gf_panels_product(x->ops, a->p, a->at, &c->centres, c0, cols, s);
        for (int r = 0; r < a->rows; r++) {
            const float *row = s + (size_t)r * GF_STRIP_COLS;
            if (x->probe) offer_cells(x, row, own + r, c0, cols);
            if (x->t->dup <= 2.0f) mark_row(x, m, a->place + r, row, c0, cols);
        }
    }
    for (int r = 0; x->probe && r < a->rows; r++) take_near(x, own + r, near + r * x->probe);
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

void gf_cell_mark(gf_cell_search *x, const gf_cell_anchors *a, int32_t *near, gf_cell_wanted *wanted, int thread) {
    const marks m = marks_of(x, thread);
    wanted->count = 0;
    if (x->probe == 1 && x->t->dup > 2.0f) { /* the nearest cell is the one an anchor lies in */
        for (int r = 0; r < a->rows; r++) near[r] = (int32_t)cell_at(x->c, a->place + r);
        return;
    }
    mark_similar(x, a, m, near, thread);
    for (size_t w = 0; w < cell_words(x->c); w++)
        for (; m.cell[w]; m.cell[w] &= m.cell[w] - 1) take_cell(x, m, (int64_t)w * 64 + __builtin_ctzll(m.cell[w]), wanted);
}

/* ----- strips of columns ----- */

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

typedef struct strips { /* a panel of anchors against panels [range), strip by strip */
    const gf_panels *p;
    int64_t at;
    gf_panel_range range;
    const gf_cell_columns *columns;
    int64_t next;  /* column where the next strip begins */
    int64_t place; /* of this strip */
    int cols;
} strips;

/* Makes the next strip; 0: there is none. */
static int next_strip(const gf_cell_search *x, strips *s, float *out) {
    const int64_t p = s->next, end = strip_end(s->columns, p, s->range.to);
    if (end <= p) return 0;
    s->place = (s->columns->panel ? s->columns->panel[p] : p) * GF_PANEL;
    s->cols = (int)(GF_MIN(s->place + (end - p) * GF_PANEL, x->c->n) - s->place);
    gf_panels_product(x->ops, s->p, s->at, s->columns->p, p * GF_PANEL, s->cols, out);
    s->next = end;
    return 1;
}

static strips strips_of(const gf_panels *p, int64_t at, gf_panel_range range, const gf_cell_columns *columns) {
    return (strips){.p = p, .at = at, .range = range, .columns = columns, .next = column_of(columns, range.from)};
}

static float *strip_of(const gf_cell_search *x, int thread) { return x->strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS; }

/* ----- nearest cells ----- */

static int by_request(const void *x, const void *y) {
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* Candidates of the cell [from, to) for the gathered anchors: lists [rows], positions [rows]. */
static void take_cell_rows(const gf_cell_search *x, const strips *s, int64_t from, int64_t to, const gf_cell_lists *lists,
                           const int64_t *list, const int32_t *self, int rows, const float *v) {
    int32_t at[GF_STRIP_COLS];
    const int first = (int)GF_MAX(from - s->place, 0), end = (int)GF_MIN(to - s->place, s->cols);
    for (int r = 0; r < rows; r++, v += GF_STRIP_COLS) {
        const float *limit = &lists->best->limit[list[r]];
        const int found = x->ops->reach(at, v, (int)gf_pad(s->cols), *limit, NULL);
        for (int k = 0; k < found && at[k] < end; k++) {
            const int32_t other = x->c->order[s->place + at[k]];
            if (at[k] >= first && other != self[r] && v[at[k]] >= *limit) gf_best_push(lists->best, list[r], v[at[k]], other);
        }
    }
}

/* The anchors of requests [rows], all of one cell, against its rows. */
static int64_t compare_gathered(gf_cell_search *x, const gf_cell_block *b, const uint64_t *request, int rows,
                                const gf_cell_columns *columns, const gf_cell_lists *to, int thread) {
    const gf_cells *c = x->c;
    const int64_t cell = (int64_t)(request[0] >> 32), from = c->start[cell], end = c->start[cell + 1];
    float *x0 = x->gathered + (int64_t)thread * c->dim * GF_PANEL;
    int64_t list[GF_PANEL], pairs = 0;
    int32_t self[GF_PANEL];
    if (from == end) return 0;
    memset(x0, 0, (size_t)c->dim * GF_PANEL * sizeof *x0);
    for (int r = 0; r < rows; r++) {
        const int64_t anchor = (int64_t)(uint32_t)request[r], row = b->at + anchor;
        const float *src = b->p->x + row / GF_PANEL * GF_PANEL * c->dim + row % GF_PANEL;
        for (int64_t k = 0; k < c->dim; k++) x0[k * GF_PANEL + r] = src[k * GF_PANEL];
        self[r] = c->order[b->place + anchor];
        list[r] = to->first < 0 ? self[r] : to->first + anchor;
    }
    const gf_panels own = {.n = rows, .dim = c->dim, .x = x0};
    const gf_panel_range range = {(int32_t)(from / GF_PANEL), (int32_t)((end - 1) / GF_PANEL + 1)};
    for (strips s = strips_of(&own, 0, range, columns); next_strip(x, &s, strip_of(x, thread));) {
        take_cell_rows(x, &s, from, end, to, list, self, rows, strip_of(x, thread));
        pairs += rows * (GF_MIN(end, s.place + s.cols) - GF_MAX(from, s.place));
    }
    return pairs;
}

static void compare_near(gf_cell_search *x, const gf_cell_block *b, const gf_cell_columns *columns, const gf_cell_lists *to,
                         int thread) {
    uint64_t *request = x->request + (int64_t)thread * x->block * x->probe;
    int64_t n = 0, pairs = 0;
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t k = 0; k < x->probe; k++)
            if (b->near[i * x->probe + k] >= 0) request[n++] = (uint64_t)b->near[i * x->probe + k] << 32 | (uint64_t)i;
    qsort(request, (size_t)n, sizeof *request, by_request);
    for (int64_t k = 0, end; k < n; k = end) {
        for (end = k; end < n && end - k < GF_PANEL && request[end] >> 32 == request[k] >> 32;) end++;
        pairs += compare_gathered(x, b, request + k, (int)(end - k), columns, to, thread);
    }
    atomic_fetch_add(&x->pairs, pairs);
}

/* ----- duplicates ----- */

static void take_duplicates(gf_cell_search *x, const strips *s, const gf_cell_block *b, int64_t first, int rows,
                            const gf_cell_lists *to, const float *v) {
    int32_t at[GF_STRIP_COLS];
    const int32_t *order = x->c->order;
    for (int64_t i = first; i < first + rows; i++, v += GF_STRIP_COLS) {
        const int32_t self = order[b->place + i];
        const int64_t list = to->first < 0 ? self : to->first + i;
        const int found = x->ops->reach(at, v, (int)gf_pad(s->cols), x->t->dup, NULL);
        for (int k = 0; k < found && at[k] < s->cols; k++) {
            const int32_t other = order[s->place + at[k]];
            if (other == self || !(v[at[k]] >= x->t->dup)) continue;
            if (v[at[k]] >= to->best->limit[list] && !(x->probe && is_near(x, b->near + i * x->probe, s->place + at[k])))
                gf_best_push(to->best, list, v[at[k]], other);
            to->copies[to->by_position ? self : i]++;
            if (other > self) gf_components_join_shared(x->root, self, other);
        }
    }
}

static void compare_wanted(gf_cell_search *x, const gf_cell_block *b, const gf_cell_columns *columns, const gf_cell_lists *to,
                           int thread) {
    int64_t pairs = 0;
    for (int64_t first = 0; first < b->rows; first += GF_PANEL) {
        const gf_cell_wanted *wanted = &b->wanted[first / GF_PANEL];
        const int rows = (int)GF_MIN(GF_PANEL, b->rows - first);
        for (size_t k = 0; k < wanted->count; k++) {
            for (strips s = strips_of(b->p, b->at + first, wanted->range[k], columns); next_strip(x, &s, strip_of(x, thread));) {
                take_duplicates(x, &s, b, first, rows, to, strip_of(x, thread));
                pairs += (int64_t)rows * s.cols;
            }
        }
    }
    if (!x->probe) atomic_fetch_add(&x->pairs, pairs);
}

/* ----- calls ----- */

void gf_cell_compare(gf_cell_search *x, const gf_cell_block *b, const gf_cell_columns *columns, const gf_cell_lists *to,
                     int thread) {
    if (x->probe) compare_near(x, b, columns, to, thread);
    if (x->t->dup <= 2.0f) compare_wanted(x, b, columns, to, thread);
}

void gf_cell_compare_all(gf_cell_search *x, const gf_cell_anchors *a, const gf_cell_columns *columns, const gf_cell_lists *to,
                         int thread) {
    int64_t list[GF_PANEL];
    int32_t self[GF_PANEL];
    for (int r = 0; r < a->rows; r++) self[r] = x->c->order[a->place + r], list[r] = to->first < 0 ? self[r] : to->first + r;
    for (strips s = strips_of(a->p, a->at, (gf_panel_range){0, (int32_t)x->panels}, columns);
         next_strip(x, &s, strip_of(x, thread));)
        take_cell_rows(x, &s, 0, x->c->n, to, list, self, a->rows, strip_of(x, thread));
}
