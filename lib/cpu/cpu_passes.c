/* cpu_passes.c - passes B and C of the step over all tiles, and the mask for inspection. */
#include "cpu/cpu_passes.h"

#include <math.h>

#include "cpu/cpu_tiles.h"
#include "util/parallel.h"

/* The column role of a tile is the row role of its transpose. */
static gf_tile flipped(const gf_sweep *w, const gf_tile *t, gf_tile_scratch *x) {
    gf_tile f = *t;
    f.s = x->transposed;
    f.rows = t->cols, f.cols = t->rows, f.prows = t->pcols, f.pcols = t->prows;
    f.r0 = t->c0, f.c0 = t->r0;
    w->ops->transpose(f.s, t->s, t->ld, t->prows, t->pcols);
    return f;
}

/* ---- pass B ---- */

/* 1: flags that the kernel for both roles does not support; it also either counts and masks, or does neither. */
static int needs_general_stats(unsigned flags) {
    const unsigned mask_count = flags & (GF_MASK | GF_COUNT);
    return (flags & (GF_SHIFT | GF_MOMENT | GF_ATTRACT | GF_WEIGHT | GF_GROUP | GF_TIE | GF_MARKS)) != 0 ||
           (mask_count != 0 && mask_count != (GF_MASK | GF_COUNT));
}

static void stats_visit(gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_pass *p = w->p;
    const int both = p->col_role && !(p->symmetric && i == j); /* a diagonal tile holds both orders of each pair */
    const gf_tile t = gf_tile_again(w, i, j, x);
    if (both && !needs_general_stats(p->flags)) {
        w->ops->stats_both(&t, p->row, p->col, p->flags, p->window_cap, x);
        return;
    }
    w->ops->stats_row(&t, p->row, p->col, p->flags, p->omega, p->window_cap);
    if (!both) return;
    const gf_tile f = flipped(w, &t, x);
    w->ops->stats_row(&f, p->col, p->row, p->flags, p->omega, p->window_cap);
}

void gf_cpu_stats(gf_pass *p) {
    gf_sweep w = {.p = p, .ops = gf_cpu_kernels_get()->tile, .visit = stats_visit};
    gf_sweep_run(&w, p->col_role);
}

/* The list of a row's undecided entries, padded with NaN, is a tile of one row. */
static void close_window(const gf_pass *p, int64_t i) {
    const gf_rows *x = p->row;
    const int n = x->window_n[i], padded = (int)gf_pad(n);
    float *list = x->window + i * p->window_cap;
    if (!(p->flags & GF_MASK)) { /* everything was summed already */
        for (int c = 0; c < n; c++) x->kept[i] += list[c] <= x->lo[i];
        return;
    }
    for (int c = n; c < padded; c++) list[c] = NAN;
    const gf_tile t = {.s = list, .ld = (size_t)padded, .rows = 1, .cols = n, .prows = 1, .pcols = padded, .r0 = i};
    gf_cpu_kernels_get()->tile->stats_row(&t, x, x, p->flags & ~(unsigned)GF_GROUP, p->omega, p->window_cap);
}

#define CLOSE_ROWS 64

static void close_task(void *arg, int64_t task, int thread) {
    const gf_pass *p = arg;
    (void)thread;
    for (int64_t i = task * CLOSE_ROWS; i < p->q->rows && i < (task + 1) * CLOSE_ROWS; i++)
        if (p->row->window_n[i] > 0) close_window(p, i);
}

void gf_cpu_close_windows(gf_pass *p) { gf_parallel(p->threads, (p->q->rows + CLOSE_ROWS - 1) / CLOSE_ROWS, close_task, p); }

/* ---- pass C ---- */

/* dQ += P K and dK += P'Q of bf16 numbers: P is rounded, with two columns in a word for the first, two rows for the second. */
static void grad_products16(gf_sweep *w, const gf_tile *t, int rows, int columns, gf_tile_scratch *x) {
    const gf_pass *p = w->p;
    const gf_embed *q = p->q, *k = p->k;
    const size_t ld = (size_t)k->ld, wide = t->ld / 2;
    const int n = (int)gf_pad(k->dim);
    uint32_t *by_row = (uint32_t *)(void *)x->score, *by_column = by_row + t->ld * t->ld / 2; /* free in this pass */
    if (rows) {
        for (int r = 0; r < t->prows; r++) w->ops->round((uint16_t *)(void *)(by_row + r * wide), t->s + r * t->ld, t->pcols);
        w->ops->product16(p->row->grad + t->r0 * k->ld, ld, by_row, wide, 1, k->pair + t->c0 / 2 * k->ld, ld, GF_PANEL, t->prows,
                          n, t->pcols / 2, 1);
    }
    if (!columns) return;
    for (int r = 0; r < t->prows; r += 2)
        w->ops->words(by_column + r / 2 * t->ld, t->s + r * t->ld, t->s + (r + 1) * t->ld, t->pcols);
    w->ops->product16(p->col_grad + t->c0 * k->ld, ld, by_column, 1, t->ld, q->pair + t->r0 / 2 * q->ld, ld, GF_PANEL, t->pcols,
                      n, t->prows / 2, 1);
}

static void grad_visit(gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_pass *p = w->p;
    const int on_diagonal = p->symmetric && i == j;
    const gf_tile t = gf_tile_again(w, i, j, x);
    gf_rows col = *p->col;
    if (on_diagonal) col.same = NULL; /* its rows count every ordered pair already */
    w->ops->weights(&t, p->row, &col, p->col_role, p->flags, p->omega);
    const gf_embed *q = p->q, *k = p->k;
    const size_t ld = (size_t)k->ld;
    const int n = (int)gf_pad(k->dim), rows = p->row->grad != NULL, columns = p->col_grad && !(on_diagonal && p->col_role);
    if (k->pair && q->pair) {
        grad_products16(w, &t, rows, columns, x);
        return;
    }
    if (rows)
        w->ops->product(p->row->grad + t.r0 * k->ld, ld, t.s, t.ld, 1, k->row + t.c0 * k->ld, ld, GF_PANEL, t.prows, n, t.pcols,
                        1);
    if (columns)
        w->ops->product(p->col_grad + t.c0 * k->ld, ld, t.s, 1, t.ld, q->row + t.r0 * q->ld, ld, GF_PANEL, t.pcols, n, t.prows,
                        1);
}

void gf_cpu_grad(gf_pass *p) {
    gf_sweep w = {.p = p, .ops = gf_cpu_kernels_get()->tile, .visit = grad_visit};
    gf_sweep_run(&w, p->col_grad != NULL);
}

/* ---- inspection ---- */

typedef struct mask_sweep {
    gf_sweep sweep; /* first: the visitor gets a pointer to it */
    uint8_t *keep;
    int64_t keep_ld;
} mask_sweep;

static void mask_visit(gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const mask_sweep *m = (const mask_sweep *)(const void *)w;
    const gf_tile t = gf_tile_make(w, i, j, x);
    w->ops->keep(&t, w->p->row, w->p->col, w->p->flags, m->keep + t.r0 * m->keep_ld + t.c0, (size_t)m->keep_ld);
}

void gf_cpu_mask(const gf_pass *p, uint8_t *keep, int64_t keep_ld) {
    gf_pass own = *p;
    mask_sweep m = {{.p = &own, .ops = gf_cpu_kernels_get()->tile, .visit = mask_visit}, keep, keep_ld};
    gf_sweep_run(&m.sweep, 0);
}
