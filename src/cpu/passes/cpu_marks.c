/* cpu_marks.c - passes for flags that are made before pass B: pairs above lambda are counted, flagged pairs become bits. */
#include "cpu/passes/cpu_passes.h"
#include "cpu/passes/cpu_tiles.h"

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

/* 32 columns of row r from c on: bits flagged by the row's anchor; *by_col: by the columns' anchors. */
static uint32_t mark_word(const gf_marking *m, const gf_tile *t, int r, int c, const gf_mark_end *row, uint32_t *by_col) {
    const float *s = t->s + (size_t)r * t->ld, theta = m->row_theta[t->r0 + r];
    uint32_t by_row = 0;
    *by_col = 0;
    for (int k = 0; k < 32 && c + k < t->cols; k++) {
        const float v = s[c + k];
        if (v != v) continue;
        const gf_mark_end col = col_end(m, t->c0 + c + k);
        by_row |= (uint32_t)gf_mark_pair(&m->rule, v, theta, row, &col) << k;
        if (m->col_theta) *by_col |= (uint32_t)gf_mark_pair(&m->rule, v, m->col_theta[t->c0 + c + k], &col, row) << k;
    }
    return by_row;
}

static void mark_visit(gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_marking *m = ((const mark_sweep *)(const void *)w)->m;
    const gf_rows *row = w->p->row;
    const gf_tile t = gf_tile_make(w, i, j, x);
    for (int r = 0; r < t.rows; r++) {
        const gf_mark_end end = row_end(w->p, m, t.r0 + r);
        for (int c = 0; c < t.cols; c += 32) {
            const int64_t at = (t.r0 + r) * row->marks_ld + (t.c0 + c) / 32;
            uint32_t by_col;
            row->marks[at] = mark_word(m, &t, r, c, &end, &by_col);
            if (m->col_theta) row->marks_col[at] = by_col;
        }
    }
}

void gf_cpu_mark(gf_pass *p, const gf_marking *m) {
    mark_sweep s = {{.p = p, .ops = gf_cpu_kernels_get()->tile, .visit = mark_visit}, m};
    gf_sweep_run(&s.sweep, 0);
}
