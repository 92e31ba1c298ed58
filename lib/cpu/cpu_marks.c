/* cpu_marks.c - passes for flags that are made before pass B: pairs above lambda are counted, flagged pairs become bits. */
#include <math.h>

#include "cpu/cpu_passes.h"
#include "cpu/cpu_tiles.h"

/* ---- count ---- */

static void count_visit(gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_rows *row = w->p->row;
    const gf_tile t = gf_tile_make(w, i, j, x);
    for (int r = 0; r < t.rows; r++) {
        const float *s = t.s + (size_t)r * t.ld, mid = row->mid[t.r0 + r];
        int32_t above = 0;
        for (int c = 0; c < t.cols; c++) above += s[c] > mid;
        row->above[t.r0 + r] = (t.c0 ? row->above[t.r0 + r] : 0) + above;
    }
}

void gf_cpu_count(gf_pass *p) {
    gf_sweep w = {.p = p, .ops = gf_cpu_kernels_get()->tile, .visit = count_visit};
    gf_sweep_run(&w, 0); /* a row's tiles come from left to right */
}

/* ---- mark ---- */

typedef struct mark_sweep {
    gf_sweep sweep; /* first: the visitor gets a pointer to it */
    const gf_marking *m;
} mark_sweep;

static gf_mark_end row_end(const gf_pass *p, const gf_marking *m, int64_t r) {
    return (gf_mark_end){gf_mark_place(&m->rule, m->rule.row_side, m->id, p->q0 + r), m->row_label[r], m->row_group[r]};
}

static gf_mark_end col_end(const gf_marking *m, int64_t c) {
    return (gf_mark_end){gf_mark_place(&m->rule, m->rule.col_side, m->id, c), m->col_label[c], m->col_group[c]};
}

typedef struct mark_bits { /* of 32 columns of a row */
    uint32_t by_row, by_col, pulls;
} mark_bits;

/* 32 columns of row r from c on: bits flagged by the row's anchor, by the columns' anchors, and attracted. */
static mark_bits mark_word(const gf_marking *m, const gf_tile *t, int r, int c, const gf_mark_end *row) {
    const float *s = t->s + (size_t)r * t->ld, theta = m->row_theta[t->r0 + r];
    const float pull_theta = m->row_pull ? gf_mark_bits_float(m->row_pull[t->r0 + r]) : INFINITY;
    mark_bits x = {0, 0, 0};
    for (int k = 0; k < 32 && c + k < t->cols; k++) {
        const float v = s[c + k];
        if (v != v) continue;
        const gf_mark_end col = col_end(m, t->c0 + c + k);
        x.pulls |= (uint32_t)gf_mark_pulls(&m->rule, v, pull_theta, row, &col) << k;
        x.by_row |= (uint32_t)gf_mark_pair(&m->rule, v, theta, row, &col) << k;
        if (m->col_theta) x.by_col |= (uint32_t)gf_mark_pair(&m->rule, v, m->col_theta[t->c0 + c + k], &col, row) << k;
    }
    x.by_row |= x.pulls, x.by_col |= x.pulls;
    return x;
}

static void mark_visit(gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_marking *m = ((const mark_sweep *)(const void *)w)->m;
    const gf_rows *row = w->p->row;
    const gf_tile t = gf_tile_make(w, i, j, x);
    for (int r = 0; r < t.rows; r++) {
        const gf_mark_end end = row_end(w->p, m, t.r0 + r);
        for (int c = 0; c < t.cols; c += 32) {
            const int64_t at = (t.r0 + r) * row->marks_ld + (t.c0 + c) / 32;
            const mark_bits x32 = mark_word(m, &t, r, c, &end);
            row->marks[at] = x32.by_row;
            if (m->col_theta) row->marks_col[at] = x32.by_col;
            if (!m->row_pull) continue;
            row->pulls[at] = x32.pulls;
            row->pulled[t.r0 + r] = (at % row->marks_ld ? row->pulled[t.r0 + r] : 0) + __builtin_popcount(x32.pulls);
        }
    }
}

void gf_cpu_mark(gf_pass *p, const gf_marking *m) {
    mark_sweep s = {{.p = p, .ops = gf_cpu_kernels_get()->tile, .visit = mark_visit}, m};
    gf_sweep_run(&s.sweep, 0);
}
