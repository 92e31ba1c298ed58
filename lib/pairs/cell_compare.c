/* cell_compare.c - see cell_compare.h: comparing a block of anchors. cell_mark.c finds what it is compared with.
 *
 * Nearest cells: the anchors of a block that are near to one cell are gathered, a panel of them at a time, and compared with the
 * rows of that cell. Duplicates: each panel of anchors is compared with the panels that it wants.
 */
#include "pairs/cell_compare.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/pairs_lists.h"
#include "util/array.h"

enum { BLOCK_MAX = 8192, NEAR_MAX = 1 << 21, PIECE_ROWS = 4096 }; /* anchors, nearest cells of a block; rows of a piece at most */

int64_t gf_cell_keep(const gf_pairs_task *t) {
    return t->probe ? GF_MAX(GF_MAX(gf_lists_keep(t), t->top), 1) : GF_MAX(t->top, 1);
}

/* ----- memory ----- */

/* Large blocks fill the panels of gathered anchors; but all threads need some. */
static int64_t block_of(const gf_cells *c, int64_t probe, int threads) {
    const int64_t most = GF_MIN(GF_MIN(BLOCK_MAX, c->n / (8 * threads)), NEAR_MAX / GF_MAX(probe, 1));
    return GF_MAX(most / GF_PANEL, 1) * GF_PANEL;
}

/* Where all cells are probed, an anchor is compared with all rows: cells stay whole. */
static glofnd_status cut_cells(gf_error *err, gf_cell_search *x) {
    const gf_cells *c = x->c;
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
    return GLOFND_OK;
}

static glofnd_status allocate(gf_error *err, gf_cell_search *x) {
    const gf_cells *c = x->c;
    const size_t threads = (size_t)x->t->threads;
    x->mark = calloc(threads, (size_t)x->panels);
    x->touched = calloc(threads * ((size_t)c->count / 64 + 1), sizeof *x->touched);
    x->mask = calloc(threads * (size_t)c->tree.groups, sizeof *x->mask);
    x->request = malloc(threads * (size_t)(x->block * GF_MAX(x->probe, 1)) * sizeof *x->request);
    x->around = aligned_alloc(64, threads * gf_panels_bytes(GF_MAX(c->around, 1), c->dim));
    FAIL_IF(err, !x->mark || !x->touched || !x->mask || !x->request || !x->around, GLOFND_E_MEMORY, "no memory for %lld anchors",
            (long long)c->n);
    TRY(cut_cells(err, x));
    return gf_tree_search_init(err, &x->tree, &c->tree, GF_MAX(x->probe, 1), x->block, x->t->threads);
}

glofnd_status gf_cell_search_init(gf_error *err, gf_cell_search *x, const gf_cells *c, const gf_panels *points,
                                  const gf_pairs_task *t, int32_t *root) {
    *x = (gf_cell_search){.c = c, .points = points, .t = t, .ops = gf_cpu_kernels_get()->tile, .root = root};
    x->panels = gf_pad(c->n) / GF_PANEL;
    x->theta = gf_cells_angle(t->dup), x->slack = gf_cells_slack(c->dim);
    x->probe = GF_MIN(t->probe, c->count), x->block = block_of(c, x->probe, t->threads);
    const glofnd_status status = allocate(err, x);
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

glofnd_status gf_cell_search_check(gf_error *err, const gf_cell_search *x) {
    FAIL_IF(err, x->no_memory, GLOFND_E_MEMORY, "no memory for the panels that anchors are compared with");
    return GLOFND_OK;
}

void gf_cell_wanted_free(gf_cell_wanted *wanted, int64_t n) {
    for (int64_t i = 0; wanted && i < n; i++) free(wanted[i].range);
    free(wanted);
}

/* ----- strips of columns ----- */

typedef struct strip { /* a panel of anchors against some columns */
    int64_t place;     /* of the first column */
    int cols;
    const float *v; /* [GF_PANEL][GF_STRIP_COLS] */
} strip;

/* Row `at` of p and the following ones against the columns from panel `from` on, to the end of a strip or to panel `to`. */
static strip make_strip(const gf_cell_search *x, const gf_panels *p, int64_t at, int64_t from, int64_t to, int thread) {
    float *v = x->tree.strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    const int64_t end = GF_MIN(GF_MIN(to, from + GF_STRIP_COLS / GF_PANEL) * GF_PANEL, x->c->n);
    const strip s = {from * GF_PANEL, (int)(end - from * GF_PANEL), v};
    gf_panels_product(x->ops, p, at, x->points, s.place, s.cols, v);
    return s;
}

/* ----- nearest cells ----- */

static int by_request(const void *x, const void *y) {
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* Candidates among places [from, to) for the gathered anchors: lists [rows], positions [rows]. */
static void take_rows(const gf_cell_search *x, const strip *s, int64_t from, int64_t to, gf_best *best, const int64_t *list,
                      const int32_t *self, int rows) {
    int32_t at[GF_STRIP_COLS];
    const int first = (int)GF_MAX(from - s->place, 0), end = (int)GF_MIN(to - s->place, s->cols);
    const float *v = s->v;
    for (int r = 0; r < rows; r++, v += GF_STRIP_COLS)
        for (int done = first / GF_PANEL * GF_PANEL, cols; done < end; done += cols) {
            const float *limit = &best->limit[list[r]];
            cols = gf_best_stride(best, list[r], end - done);
            const int found = x->ops->reach(at, v + done, (int)gf_pad(cols), *limit, NULL);
            for (int k = 0; k < found && at[k] < cols; k++) {
                const int32_t other = x->c->order[s->place + done + at[k]];
                if (done + at[k] >= first && other != self[r] && v[done + at[k]] >= *limit)
                    gf_best_add(best, list[r], v[done + at[k]], other);
            }
        }
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
    for (int r = 0; r < rows; r++) {
        const int64_t anchor = (int64_t)(uint32_t)request[r], row = b->place + anchor;
        const float *src = x->points->x + row / GF_PANEL * GF_PANEL * c->dim + row % GF_PANEL;
        for (int64_t k = 0; k < c->dim; k++) x0[k * GF_PANEL + r] = src[k * GF_PANEL];
        self[r] = c->order[row];
        list[r] = to->first < 0 ? self[r] : to->first + anchor;
    }
    const gf_panels own = {.n = rows, .dim = c->dim, .x = x0};
    for (int64_t p = from / GF_PANEL; p * GF_PANEL < end; p += GF_STRIP_COLS / GF_PANEL) {
        const strip s = make_strip(x, &own, 0, p, (end - 1) / GF_PANEL + 1, thread);
        take_rows(x, &s, from, end, to->best, list, self, rows);
    }
    return rows * (end - from);
}

static void compare_near(gf_cell_search *x, const gf_cell_block *b, const gf_cell_lists *to, int thread) {
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

/* ----- duplicates ----- */

static void join(gf_cell_search *x, int32_t a, int32_t b, int thread) {
    if (gf_components_join_shared(x->root, a, b) && x->joined && !gf_nodes_add(&x->joined[thread], a, b))
        atomic_store(&x->no_memory, 1);
}

static void take_duplicates(gf_cell_search *x, const strip *s, const gf_cell_block *b, int64_t first, int rows,
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
            if (v[at[k]] >= to->best->limit[list] && !(x->probe && gf_cell_is_near(x, b->near + i * x->probe, s->place + at[k])))
                gf_best_add(to->best, list, v[at[k]], other);
            to->copies[to->by_position ? self : i]++;
            if (other > self) join(x, self, other, thread);
        }
    }
}

static void compare_wanted(gf_cell_search *x, const gf_cell_block *b, const gf_cell_lists *to, int thread) {
    int64_t pairs = 0;
    for (int64_t first = 0; first < b->rows; first += GF_PANEL) {
        const gf_cell_wanted *wanted = &b->wanted[first / GF_PANEL];
        const int rows = (int)GF_MIN(GF_PANEL, b->rows - first);
        for (size_t k = 0; k < wanted->count; k++)
            for (int64_t p = wanted->range[k].from; p < wanted->range[k].to; p += GF_STRIP_COLS / GF_PANEL) {
                const strip s = make_strip(x, x->points, b->place + first, p, wanted->range[k].to, thread);
                take_duplicates(x, &s, b, first, rows, to, thread);
                pairs += (int64_t)rows * s.cols;
            }
    }
    if (!x->probe) atomic_fetch_add(&x->pairs, pairs);
}

void gf_cell_compare(gf_cell_search *x, const gf_cell_block *b, const gf_cell_lists *to, int thread) {
    if (x->probe) compare_near(x, b, to, thread);
    if (x->t->dup <= 2.0f) compare_wanted(x, b, to, thread);
}
