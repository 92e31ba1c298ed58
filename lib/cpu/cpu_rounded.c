/* cpu_rounded.c - selections whose candidates come from products of 16-bit integers; see cpu_lists.h.
 *
 * The similarities of integers are within e of those of floats, hence so are their order statistics. What is above the
 * (best-1)-th largest of them by more than 2 e is larger than that statistic of the floats; what is below the best-th largest by
 * more than 2 e is smaller than the wanted one. Between the two lie few: they are computed as floats, by the chain of the passes,
 * and ranked.
 */
#include "cpu/kernels/cpu_kernels.h"
#include "cpu/kernels/int16_vector.h"
#include "cpu/cpu_lists.h"
#include "cpu/cpu_passes.h"
#include "util/array.h"
#include "util/parallel.h"

#define COLUMNS_MIN 2048 /* fewer columns gain less than lists with columns cost */
#define DIM_MAX 512      /* of one product */

int gf_cpu_rounding_pays(int64_t cols, int64_t dim) {
    return cols >= COLUMNS_MIN && dim <= DIM_MAX && gf_cpu_kernels_get()->tile->int16_is_fast();
}

/* ---- rows as integers ---- */

static void round_row(const gf_select *p, int64_t r) {
    const gf_rounded *x = &p->rounded;
    const int64_t words = (p->q->dim + 1) / 2;
    uint32_t *row = x->row + r * x->ld, *col = x->col + r / GF_PANEL * GF_PANEL * words + r % GF_PANEL;
    x->step[r] = gf_int16_round(row, 1, p->q->row + r * p->q->ld, p->q->dim, 1.0, &x->lost[r]);
    for (int64_t w = 0; w < words; w++) col[w * GF_PANEL] = row[w];
}

static void round_panel(void *arg, int64_t panel, int thread) {
    (void)thread;
    for (int64_t r = panel * GF_PANEL; r < (panel + 1) * GF_PANEL; r++) round_row(arg, r);
}

float gf_cpu_round_rows(const gf_select *p) {
    float lost = 0.0f;
    gf_parallel(p->threads, gf_pad(p->q->rows) / GF_PANEL, round_panel, (void *)(uintptr_t)p);
    for (int64_t r = 0; r < p->q->rows; r++) lost = GF_MAX(lost, p->rounded.lost[r]);
    return lost;
}

float gf_cpu_rounded_error(const gf_select *p, int64_t r, float lost_max) {
    return gf_int16_error(p->rounded.lost[r], lost_max, p->q->dim);
}

/* ---- the result of a row ---- */

/* Positions in list r of the values that reach `low`; the scratch of a thread has room for all of them. */
static int candidates_of(const gf_select *p, int64_t r, float low, int32_t *at) {
    const gf_lists *x = &p->lists;
    int n = gf_cpu_kernels_get()->tile->reach(at, x->value + r * x->capacity, (int)gf_pad(x->count[r]), low, NULL);
    while (n > 0 && at[n - 1] >= x->count[r]) n--; /* what lies behind the list */
    return n;
}

static void compute_floats(const gf_select *p, int64_t r, const int32_t *column, int64_t n, float *out) {
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    for (int64_t i = 0; i < n; i += GF_TILE_DOTS) {
        const float *others[GF_TILE_DOTS];
        float dots[GF_TILE_DOTS];
        for (int64_t c = 0; c < GF_TILE_DOTS; c++) others[c] = p->k->row + column[GF_MIN(i + c, n - 1)] * p->k->ld;
        ops->dots(dots, p->q->row + r * p->q->ld, others, p->q->dim);
        for (int64_t c = 0; c < GF_TILE_DOTS && i + c < n; c++) out[i + c] = dots[c];
    }
}

int gf_cpu_settle_rounded(const gf_select *p, int64_t r, float error, int thread) {
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const gf_lists *x = &p->lists;
    float *value = x->value + r * x->capacity;
    int32_t *column = x->column + r * x->capacity, *at = (int32_t *)(void *)gf_cpu_select_scratch(p, thread);
    int64_t above, n = 0;
    const float last = ops->between(value, x->count[r], p->best, 0.0, &above), low = last - 2.0f * error;
    if (low <= x->limit[r]) return 0;
    const int found = candidates_of(p, r, low, at);
    float before = above == p->best - 1 ? INFINITY : last; /* the (best-1)-th: the next larger value, or an equal one */
    for (int i = 0; above == p->best - 1 && i < found; i++)
        if (value[at[i]] > last && value[at[i]] < before) before = value[at[i]];
    above = 0;
    for (int i = 0; i < found; i++) {
        if (value[at[i]] > before + 2.0f * error) above++;
        else column[n++] = column[at[i]];
    }
    compute_floats(p, r, column, n, value);
    p->value[r] = ops->between(value, n, p->best - above, p->fraction, &above);
    return 1;
}
