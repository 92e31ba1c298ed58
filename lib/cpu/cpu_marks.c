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

static void mark_visit(gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_marking *m = ((const mark_sweep *)(const void *)w)->m;
    const gf_rows *row = w->p->row;
    const gf_tile t = gf_tile_make(w, i, j, x);
    for (int r = 0; r < t.rows; r++) {
        const float *s = t.s + (size_t)r * t.ld, theta = m->row_theta[t.r0 + r];
        const int32_t group = m->row_group[t.r0 + r];
        for (int c0 = 0; c0 < t.cols; c0 += 32) {
            uint32_t by_row = 0, by_col = 0; /* of 32 columns */
            for (int c = c0; c < c0 + 32 && c < t.cols; c++) {
                const int32_t other = m->col_group[t.c0 + c];
                if (s[c] != s[c]) continue;
                by_row |= (uint32_t)gf_mark_pair(s[c], theta, group, other) << (c - c0);
                if (m->col_theta) by_col |= (uint32_t)gf_mark_pair(s[c], m->col_theta[t.c0 + c], other, group) << (c - c0);
            }
            const int64_t at = (t.r0 + r) * row->marks_ld + (t.c0 + c0) / 32;
            row->marks[at] = by_row;
            if (m->col_theta) row->marks_col[at] = by_col;
        }
    }
}

void gf_cpu_mark(gf_pass *p, const gf_marking *m) {
    mark_sweep s = {{.p = p, .ops = gf_cpu_kernels_get()->tile, .visit = mark_visit}, m};
    gf_sweep_run(&s.sweep, 0);
}
