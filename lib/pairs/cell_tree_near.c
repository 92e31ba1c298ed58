/* cell_tree_near.c - see cell_tree.h: the nearest cells of embeddings.
 *
 * Each embedding of a block chooses its nearest groups. Those of the block that chose one group are gathered, a panel of
 * them at a time, and compared with the centroids of its cells.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/cell_tree.h"
#include "util/array.h"

glofnd_status gf_tree_search_init(gf_error *err, gf_tree_search *s, const gf_cell_tree *t, int64_t probe, int64_t block,
                                  int threads) {
    *s = (gf_tree_search){.t = t, .ops = gf_cpu_kernels_get()->tile, .threads = threads, .block = block};
    s->probe = GF_MIN(probe, t->count), s->through = gf_tree_through(t, probe);
    const size_t rows = (size_t)threads * (size_t)block;
    const size_t requests = s->through < t->groups ? rows * (size_t)s->through : 1;
    s->strip = aligned_alloc(64, gf_sweep_bytes(threads));
    s->gathered = aligned_alloc(64, (size_t)threads * (size_t)t->dim * GF_PANEL * sizeof *s->gathered);
    s->chosen = malloc(requests * sizeof *s->chosen);
    s->asked = malloc(requests * sizeof *s->asked);
    s->from = malloc((size_t)threads * ((size_t)t->groups + 1) * sizeof *s->from);
    glofnd_status status =
        s->strip && s->gathered && s->chosen && s->asked && s->from
            ? GLOFND_OK
            : gf_fail(err, GLOFND_E_MEMORY, "no memory for the nearest cells of %lld embeddings", (long long)block);
    if (status == GLOFND_OK) status = gf_best_alloc_for(err, &s->group, (int64_t)threads * GF_PANEL, s->through + 1);
    if (status == GLOFND_OK) status = gf_best_alloc_for(err, &s->near, (int64_t)rows, s->probe);
    if (status != GLOFND_OK) gf_tree_search_free(s);
    return status;
}

void gf_tree_search_free(gf_tree_search *s) {
    free(s->strip);
    free(s->gathered);
    free(s->chosen);
    free(s->asked);
    free(s->from);
    gf_best_free(&s->group);
    gf_best_free(&s->near);
    *s = (gf_tree_search){0};
}

static float *strip_of(const gf_tree_search *s, int thread) { return s->strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS; }

/* Columns [from, to) of a strip, whose first is number c0. */
static void offer(const gf_tree_search *s, gf_best *b, int64_t list, const float *v, int64_t c0, int from, int to) {
    int32_t at[GF_STRIP_COLS];
    for (int done = from / GF_PANEL * GF_PANEL, cols; done < to; done += cols) {
        cols = gf_best_stride(b, list, to - done);
        const int found = s->ops->reach(at, v + done, (int)gf_pad(cols), b->limit[list], NULL);
        for (int k = 0; k < found && at[k] < cols; k++)
            if (done + at[k] >= from && v[done + at[k]] >= b->limit[list])
                gf_best_add(b, list, v[done + at[k]], c0 + done + at[k]);
    }
}

/* ----- groups ----- */

void gf_tree_groups(gf_tree_search *s, const gf_panels *p, int64_t at, int rows, int thread) {
    const gf_cell_tree *t = s->t;
    const int64_t own = (int64_t)thread * GF_PANEL;
    float *v = strip_of(s, thread);
    for (int r = 0; r < rows; r++) gf_best_clear(&s->group, own + r);
    for (int64_t c0 = 0; c0 < t->groups; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, t->groups - c0);
        gf_panels_product(s->ops, p, at, &t->group_centres, c0, cols, v);
        for (int r = 0; r < rows; r++) offer(s, &s->group, own + r, v + (size_t)r * GF_STRIP_COLS, c0, 0, cols);
    }
    for (int r = 0; r < rows; r++) gf_best_sort(&s->group, own + r, s->through + 1);
}

/* The nearest groups of the rows at + i and following ones of p. */
static void choose_groups(gf_tree_search *s, const gf_panels *p, int64_t at, int64_t i, int rows, int thread) {
    gf_tree_groups(s, p, at + i, rows, thread);
    for (int r = 0; r < rows; r++) {
        const int64_t list = (int64_t)thread * GF_PANEL + r, row = (int64_t)thread * s->block + i + r;
        const uint64_t *key = s->group.key + list * s->group.capacity;
        for (int64_t k = 0; k < s->through; k++)
            s->chosen[row * s->through + k] = k < s->group.count[list] ? (int32_t)gf_best_other(key[k]) : -1;
    }
}

/* Sorts the choices of a block by group. */
static void sort_choices(gf_tree_search *s, int64_t rows, int thread) {
    const int64_t groups = s->t->groups, through = s->through;
    int64_t *from = s->from + (int64_t)thread * (groups + 1);
    const int32_t *chosen = s->chosen + (int64_t)thread * s->block * through;
    int32_t *asked = s->asked + (int64_t)thread * s->block * through;
    memset(from, 0, ((size_t)groups + 1) * sizeof *from);
    for (int64_t k = 0; k < rows * through; k++)
        if (chosen[k] >= 0) from[chosen[k] + 1]++;
    for (int64_t g = 0; g < groups; g++) from[g + 1] += from[g];
    for (int64_t k = 0; k < rows * through; k++)
        if (chosen[k] >= 0) asked[from[chosen[k]]++] = (int32_t)(k / through);
    for (int64_t g = groups; g > 0; g--) from[g] = from[g - 1];
    from[0] = 0;
}

/* ----- cells ----- */

/* Embeddings row [rows] of the block that begins at row `at` of p, against the cells of group g. */
static void compare_group(gf_tree_search *s, const gf_panels *p, int64_t at, int64_t g, const int32_t *row, int rows,
                          int thread) {
    const gf_cell_tree *t = s->t;
    const int64_t end = t->first[g + 1];
    float *x = s->gathered + (int64_t)thread * t->dim * GF_PANEL, *v = strip_of(s, thread);
    memset(x, 0, (size_t)t->dim * GF_PANEL * sizeof *x);
    for (int r = 0; r < rows; r++) {
        const int64_t from = at + row[r];
        const float *src = p->x + from / GF_PANEL * GF_PANEL * t->dim + from % GF_PANEL;
        for (int64_t k = 0; k < t->dim; k++) x[k * GF_PANEL + r] = src[k * GF_PANEL];
    }
    const gf_panels own = {.n = rows, .dim = t->dim, .x = x};
    for (int64_t c0 = t->first[g] / GF_PANEL * GF_PANEL; c0 < end; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, end - c0), first = (int)GF_MAX(t->first[g] - c0, 0);
        gf_panels_product(s->ops, &own, 0, &t->centres, c0, cols, v);
        for (int r = 0; r < rows; r++)
            offer(s, &s->near, (int64_t)thread * s->block + row[r], v + (size_t)r * GF_STRIP_COLS, c0, first, cols);
    }
}

/* All groups: their cells lie one behind the other. */
static void compare_all(gf_tree_search *s, const gf_panels *p, int64_t at, int64_t rows, int thread) {
    const gf_cell_tree *t = s->t;
    const int64_t own = (int64_t)thread * s->block;
    float *v = strip_of(s, thread);
    for (int64_t i = 0; i < rows; i += GF_PANEL)
        for (int64_t c0 = 0; c0 < t->count; c0 += GF_STRIP_COLS) {
            const int cols = (int)GF_MIN(GF_STRIP_COLS, t->count - c0);
            gf_panels_product(s->ops, p, at + i, &t->centres, c0, cols, v);
            for (int64_t r = 0; r < GF_MIN(GF_PANEL, rows - i); r++)
                offer(s, &s->near, own + i + r, v + r * GF_STRIP_COLS, c0, 0, cols);
        }
}

/* Some groups of each embedding. */
static void compare_some(gf_tree_search *s, const gf_panels *p, int64_t at, int64_t rows, int thread) {
    const int64_t groups = s->t->groups;
    const int64_t *from = s->from + (int64_t)thread * (groups + 1);
    const int32_t *asked = s->asked + (int64_t)thread * s->block * s->through;
    for (int64_t i = 0; i < rows; i += GF_PANEL) choose_groups(s, p, at, i, (int)GF_MIN(GF_PANEL, rows - i), thread);
    sort_choices(s, rows, thread);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t k = from[g]; k < from[g + 1]; k += GF_PANEL)
            compare_group(s, p, at, g, asked + k, (int)GF_MIN(GF_PANEL, from[g + 1] - k), thread);
}

void gf_tree_near(gf_tree_search *s, const gf_panels *p, int64_t at, int64_t rows, int thread) {
    const int64_t own = (int64_t)thread * s->block;
    for (int64_t i = 0; i < rows; i++) gf_best_clear(&s->near, own + i);
    (s->through < s->t->groups ? compare_some : compare_all)(s, p, at, rows, thread);
    for (int64_t i = 0; i < rows; i++) gf_best_sort(&s->near, own + i, s->probe);
}

void gf_tree_near_of(gf_tree_search *s, const gf_panels *p, int64_t at, int i, int rows, const int32_t *cell,
                     const gf_panels *centres, int64_t list, int thread) {
    float *v = strip_of(s, thread);
    const int cols = (int)centres->n;
    gf_panels_product(s->ops, p, at, centres, 0, cols, v);
    for (int r = 0; r < rows; r++) {
        gf_best_clear(&s->near, list + r);
        offer(s, &s->near, list + r, v + (size_t)(i + r) * GF_STRIP_COLS, 0, 0, cols);
        const int64_t count = gf_best_sort(&s->near, list + r, s->probe);
        uint64_t *key = s->near.key + (list + r) * s->near.capacity;
        for (int64_t k = 0; k < count; k++) key[k] = gf_best_key(gf_best_value(key[k]), cell[gf_best_other(key[k])]);
    }
}
