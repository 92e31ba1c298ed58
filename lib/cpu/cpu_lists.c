/* cpu_lists.c - see cpu_lists.h.
 *
 * A row's best similarities are few: those above a limit that a sample of its columns gives are collected while tiles are made,
 * each tile for its rows and, where q is k, for its columns. The limit is chosen so low that a list is too short once in 10,000
 * rows; the exact order statistic then comes from the list alone. A list that runs full is cut to what can still matter.
 */
#include "cpu/cpu_lists.h"

#include <math.h>
#include <string.h>

#include "cpu/cpu_passes.h"
#include "cpu/cpu_tiles.h"
#include "util/array.h"
#include "util/parallel.h"

#define SAMPLE_MIN 2  /* panels of columns in the sample */
#define SAMPLE_MAX 32 /* their product is held in scratch: gf_cpu_select_scratch */
#define SHARE 16      /* the sample is a 16th of the columns */
#define TIES_MAX 32   /* equal values at the limit that are sorted here */

/* Columns of the sample, before they are rounded to panels. */
static double sampled(int64_t cols) { return fmin(fmax((double)cols / SHARE, SAMPLE_MIN * GF_PANEL), SAMPLE_MAX * GF_PANEL); }

static int panels_of(int64_t cols) { return (int)(sampled(cols) / GF_PANEL + 0.5); }

/* The limit is the so-many-th largest of the sample. Of `best` in `cols`, x fall into it on average, as a Poisson variable: more
 * than x + 4 sqrt(x) + 2 do so rarely. */
static double rank_of(double x) { return x + 4.0 * sqrt(x) + 2.0; }

/* Values of a row above the limit, for `best` of `cols`. */
static double expected(int64_t cols, double best) {
    return rank_of(sampled(cols) * best / (double)cols) / sampled(cols) * (double)cols;
}

/* Rises with cols, so that a workspace for large batches is enough for small ones. Where lists pay, they do for all above. */
int64_t gf_cpu_lists_capacity(int64_t cols, double alpha, int64_t best, int64_t tile) {
    if (cols < SAMPLE_MIN * GF_PANEL || best < 1 || expected(cols, alpha * (double)cols) > 0.25 * (double)cols) return 0;
    return gf_pad((int64_t)ceil(1.125 * expected(cols, (double)best)) + tile);
}

/* ---- limits from a sample of the columns ---- */

/* First column of panel n of the sample: they lie at equal distances. */
static int64_t sampled_panel(const gf_select *p, int n, int panels) {
    return n * (gf_pad(p->k->rows) / GF_PANEL) / panels * GF_PANEL;
}

#define NO_PAIR -2.0f /* below every similarity */

/* Where there is no pair in the similarities of row r with the panel from column c0. */
static void blank_row(const gf_select *p, int64_t r, int64_t c0, float *row) {
    for (int64_t c = p->k->rows; c < c0 + GF_PANEL; c++)
        if (c >= c0) row[c - c0] = NO_PAIR;
    if (p->shift < 0) return;
    const int64_t first = (p->q0 + r) >> p->shift << p->shift;
    for (int64_t c = first; c < first + (INT64_C(1) << p->shift); c++)
        if (c >= c0 && c < c0 + GF_PANEL) row[c - c0] = NO_PAIR;
}

typedef struct list_sweep {
    gf_sweep sweep; /* first: the visitor gets a pointer to it */
    const gf_select *select;
    float lost_max; /* of rounded rows */
} list_sweep;

/* Of the similarities of row r: 0, if they are of floats. */
static float error_of(const list_sweep *w, int64_t r) {
    return w->sweep.rounded ? gf_cpu_rounded_error(w->select, r, w->lost_max) : 0.0f;
}

static void set_limits(void *arg, int64_t task, int thread) {
    const list_sweep *w = arg;
    const gf_select *p = w->select;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const int panels = panels_of(p->k->rows);
    const int64_t rank = (int64_t)ceil(rank_of(panels * GF_PANEL * (double)p->best / (double)p->k->rows));
    const size_t ld = SAMPLE_MAX * GF_PANEL;
    const int64_t r0 = task * GF_PANEL;
    float *s = gf_cpu_select_scratch(p, thread);
    for (int n = 0; n < panels; n++) {
        const int64_t c0 = sampled_panel(p, n, panels);
        if (w->sweep.rounded) gf_tile_rounded(s + n * GF_PANEL, ld, &p->rounded, p->k->dim, r0, c0, GF_PANEL, GF_PANEL);
        else gf_tile_similarities(s + n * GF_PANEL, ld, p->q, r0, p->k, c0, GF_PANEL, GF_PANEL);
        for (int64_t r = 0; r < GF_PANEL; r++) blank_row(p, r0 + r, c0, s + (size_t)r * ld + n * GF_PANEL);
    }
    for (int64_t r = 0; r < GF_PANEL; r++) {
        int64_t above;
        const int own = r0 + r < p->q->rows;
        p->lists.limit[r0 + r] = own ? ops->between(s + (size_t)r * ld, panels * GF_PANEL, rank, 0.0, &above) : INFINITY;
    }
}

/* ---- lists ---- */

/* Cuts list r to the `best` largest, and those that may equal the last of them. */
static void cut(const list_sweep *w, int64_t r, int64_t room) {
    const gf_select *p = w->select;
    const gf_lists *x = &p->lists;
    float *value = x->value + r * x->capacity;
    int32_t *column = x->column ? x->column + r * x->capacity : NULL, n = 0;
    int64_t above;
    const float best = gf_cpu_kernels_get()->tile->between(value, x->count[r], p->best, 0.0, &above);
    const float last = best - 2.0f * error_of(w, r);
    for (int32_t i = 0; i < x->count[r]; i++) {
        if (value[i] < last) continue;
        if (column) column[n] = column[i];
        value[n++] = value[i];
    }
    x->count[r] = n;
    x->limit[r] = nextafterf(last, -INFINITY);
    if (n + room <= x->capacity) return;
    x->count[r] = 0, x->limit[r] = INFINITY; /* too many equal ones: the list stays short, and is found to be so */
}

static void make_room(const list_sweep *w, int64_t r0, int rows, int64_t room) {
    const gf_lists *x = &w->select->lists;
    for (int64_t r = r0; r < r0 + rows; r++)
        if (x->count[r] + room > x->capacity) cut(w, r, room);
}

/* Lists grow at places that are in no cache; the product of the tile gives time to get them there. */
static void fetch(const gf_lists *x, int64_t r0, int64_t rows) {
    for (int64_t r = r0; r < r0 + rows; r++) {
        __builtin_prefetch(x->value + r * x->capacity + x->count[r], 1);
        if (x->column) __builtin_prefetch(x->column + r * x->capacity + x->count[r], 1);
    }
}

static void collect_visit(gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const list_sweep *lists = (const list_sweep *)(const void *)w;
    const gf_select *p = lists->select;
    const int both = p->symmetric && i != j; /* a diagonal tile holds both orders of each pair */
    fetch(&p->lists, i * p->tile, GF_MIN(p->tile, p->q->rows - i * p->tile));
    if (both) fetch(&p->lists, j * p->tile, GF_MIN(p->tile, p->q->rows - j * p->tile));
    const gf_tile t = gf_tile_make(w, i, j, x);
    make_room(lists, t.r0, t.rows, t.cols);
    if (both) make_room(lists, t.c0, t.cols, t.rows);
    w->ops->collect(&t, &p->lists, both ? &p->lists : NULL);
}

/* ---- results ---- */

/* The column up to which values equal to `value` are in, so that `missing` of them are; -1: too many are equal. */
static int32_t last_column(const gf_lists *x, int64_t r, float value, int64_t missing) {
    int32_t equal[TIES_MAX], n = 0;
    for (int64_t i = r * x->capacity; i < r * x->capacity + x->count[r]; i++) {
        if (x->value[i] != value) continue;
        if (n == TIES_MAX) return -1;
        int32_t at = n++;
        for (; at > 0 && equal[at - 1] > x->column[i]; at--) equal[at] = equal[at - 1];
        equal[at] = x->column[i];
    }
    return equal[missing - 1];
}

static void settle(void *arg, int64_t task, int thread) {
    const list_sweep *w = arg;
    const gf_select *p = w->select;
    const gf_lists *x = &p->lists;
    for (int64_t r = task * GF_PANEL; r < (task + 1) * GF_PANEL && r < p->q->rows; r++) {
        int64_t above;
        if (x->count[r] < p->best) {
            x->count[r] = -1;
            continue;
        }
        if (w->sweep.rounded) {
            if (!gf_cpu_settle_rounded(p, r, error_of(w, r), thread)) x->count[r] = -1;
            continue;
        }
        p->value[r] = gf_cpu_kernels_get()->tile->between(x->value + r * x->capacity, x->count[r], p->best, p->fraction, &above);
        if (p->tie && (p->tie[r] = last_column(x, r, p->value[r], p->best - above)) < 0) x->count[r] = -1;
    }
}

void gf_cpu_select_lists(const gf_select *p) {
    const int64_t tasks = (p->q->rows + GF_PANEL - 1) / GF_PANEL;
    gf_pass pass = {
        .q = p->q,
        .k = p->k,
        .q0 = p->q0,
        .shift = p->shift,
        .symmetric = p->symmetric,
        .col_role = p->symmetric,
        .flags = p->tiles ? GF_KEEP_TILES : 0,
        .tile = p->tile,
        .tiles = p->tiles,
        .scratch = p->tile_scratch,
        .threads = p->threads,
    };
    list_sweep w = {.sweep = {.p = &pass, .ops = gf_cpu_kernels_get()->tile, .visit = collect_visit}, .select = p};
    if (p->rounded.row && p->symmetric && p->lists.column && !p->tie && !p->tiles && !p->q->row16) {
        w.sweep.rounded = &p->rounded;
        w.lost_max = gf_cpu_round_rows(p);
    }
    memset(p->lists.count, 0, sizeof *p->lists.count * (size_t)p->q->rows);
    gf_parallel(p->threads, tasks, set_limits, &w);
    gf_sweep_run(&w.sweep, p->symmetric);
    gf_parallel(p->threads, tasks, settle, &w);
}
