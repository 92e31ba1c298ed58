/* cpu_select.c - exact order statistics of rows of similarities, without keeping the rows.
 *
 * Columns are read in chunks. Per row only values above the smallest one that can still matter are kept; when the list is full it
 * is cut to the `best` largest, which raises that limit. Memory per row is O(best), and after the first chunks few values
 * pass the limit, so the product is what costs. Where the caller has memory for lists of all rows, these come first
 * (cpu_lists.c), and only rows whose list was too short are read here.
 */
#include <math.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "cpu/cpu_lists.h"
#include "cpu/cpu_passes.h"
#include "cpu/cpu_tiles.h"
#include "util/array.h"
#include "util/parallel.h"

#define CHUNK 1024    /* columns at a time */
#define ROWS GF_PANEL /* rows at a time */

typedef struct candidates {
    float *value; /* [capacity] */
    int64_t count;
    float limit; /* values up to this cannot be among the best */
} candidates;

static int64_t capacity(int64_t best) { return best + (best > CHUNK ? best : CHUNK) + CHUNK; }

static size_t scratch_of_thread(int64_t best) { return sizeof(float) * (size_t)(ROWS * (2 * CHUNK + capacity(best))); }

size_t gf_cpu_select_bytes(int64_t best, int threads) { return scratch_of_thread(best) * (size_t)threads; }

float *gf_cpu_select_scratch(const gf_select *p, int thread) {
    return (float *)(void *)((char *)p->scratch + scratch_of_thread(p->best) * (size_t)thread);
}

/* Similarities of rows [r0, r0+ROWS) and columns [c0, c0+CHUNK), NaN where there is no pair; returns the padded columns. */
static int chunk(const gf_select *p, int64_t r0, int64_t c0, float *s) {
    const gf_embed *q = p->q, *k = p->k;
    const int cols = (int)GF_MIN(CHUNK, k->rows - c0), pcols = (int)GF_MIN(CHUNK, gf_pad(k->rows) - c0);
    float *other = s + ROWS * CHUNK;
    for (int n = 0; n < GF_MAX(1, p->copies); n++) {
        gf_tile_similarities(n ? other : s, CHUNK, q, n * p->copy_stride + r0, k, c0, ROWS, pcols);
        for (int i = 0; n && i < ROWS * CHUNK; i++)
            if (i % CHUNK < pcols && other[i] > s[i]) s[i] = other[i];
    }
    for (int64_t r = 0; r < GF_MIN(ROWS, q->rows - r0); r++) {
        float *row = s + r * CHUNK;
        for (int c = cols; c < pcols; c++) row[c] = NAN;
        if (p->row_id)
            for (int c = 0; c < cols; c++)
                if (p->col_id[c0 + c] == p->row_id[r0 + r]) row[c] = NAN;
        if (p->shift < 0) continue;
        const int64_t sample = (p->q0 + r0 + r) >> p->shift;
        for (int64_t v = 0; v < INT64_C(1) << p->shift; v++) {
            const int64_t c = (sample << p->shift) + v - c0;
            if (c >= 0 && c < cols) row[c] = NAN;
        }
    }
    return pcols;
}

static void collect(candidates *x, const float *row, int64_t cols, int64_t best) {
    x->count += gf_cpu_kernels_get()->tile->above(row, cols, x->limit, x->value + x->count);
    if (x->count <= capacity(best) - CHUNK) return;
    x->limit = gf_kth_largest(x->value, x->count, best);
    x->count = best;
}

/* Number of columns whose id is not that of row r. */
static int64_t others(const gf_select *p, int64_t r) {
    int64_t n = p->k->rows;
    for (int64_t c = 0; c < p->k->rows; c++) n -= p->col_id[c] == p->row_id[r];
    return n;
}

static int64_t best_of(const gf_select *p, int64_t r) {
    if (!p->row_id) return p->best;
    const int64_t n = others(p, r), best = p->round_up ? gf_top_count(n, p->alpha) : llround(p->alpha * (double)n);
    return best < 1 ? 1 : best;
}

/* Second pass over the row: of the values equal to the best-th, the smaller columns are in. */
static void find_ties(const gf_select *p, int64_t r0, int64_t rows, float *s, int64_t *missing) {
    for (int64_t c0 = 0; c0 < p->k->rows; c0 += CHUNK) {
        const int pcols = chunk(p, r0, c0, s);
        for (int64_t r = 0; r < rows; r++)
            for (int c = 0; c < pcols && missing[r] > 0; c++)
                if (s[r * CHUNK + c] == p->value[r0 + r] && --missing[r] == 0) p->tie[r0 + r] = (int32_t)(c0 + c);
    }
}

static void select_rows(void *arg, int64_t task, int thread) {
    const gf_select *p = arg;
    const int64_t r0 = task * ROWS, rows = GF_MIN(ROWS, p->q->rows - r0), stride = capacity(p->best);
    float *s = gf_cpu_select_scratch(p, thread);
    candidates x[ROWS];
    for (int64_t r = 0; r < rows; r++) x[r] = (candidates){s + 2 * ROWS * CHUNK + r * stride, 0, -INFINITY};
    for (int64_t c0 = 0; c0 < p->k->rows; c0 += CHUNK) {
        const int pcols = chunk(p, r0, c0, s);
        for (int64_t r = 0; r < rows; r++) collect(&x[r], s + r * CHUNK, pcols, p->best);
    }
    int64_t missing[ROWS];
    for (int64_t r = 0; r < rows; r++) {
        const int64_t best = GF_MIN(best_of(p, r0 + r), x[r].count);
        const float value = best < 1 ? NAN : gf_between(x[r].value, x[r].count, best, p->fraction);
        p->value[r0 + r] = value;
        missing[r] = best;
        for (int64_t i = 0; i < best; i++) missing[r] -= x[r].value[i] > value;
    }
    if (p->tie) find_ties(p, r0, rows, s, missing);
}

/* The rows of the task, if one of them has no complete list. */
static void select_rest(void *arg, int64_t task, int thread) {
    const gf_select *p = arg;
    for (int64_t r = task * ROWS; r < (task + 1) * ROWS && r < p->q->rows; r++)
        if (p->lists.count[r] < 0) {
            select_rows(arg, task, thread);
            return;
        }
}

static void smallest_rows(void *arg, int64_t task, int thread) {
    const gf_select *p = arg;
    const int64_t r0 = task * ROWS, rows = GF_MIN(ROWS, p->q->rows - r0);
    float *s = gf_cpu_select_scratch(p, thread);
    for (int64_t r = r0; r < r0 + rows; r++) p->value[r] = INFINITY, p->tie[r] = 0;
    for (int64_t c0 = 0; c0 < p->k->rows; c0 += CHUNK) {
        const int pcols = chunk(p, r0, c0, s);
        for (int64_t r = 0; r < rows; r++)
            for (int c = 0; c < pcols; c++) {
                const float v = s[r * CHUNK + c];
                if (v < p->value[r0 + r]) p->value[r0 + r] = v, p->tie[r0 + r] = 0;
                p->tie[r0 + r] += v == p->value[r0 + r];
            }
    }
}

void gf_cpu_select(const gf_select *p) {
    const int64_t tasks = (p->q->rows + ROWS - 1) / ROWS;
    const int lists = p->lists.capacity > 0 && !p->smallest;
    if (lists) gf_cpu_select_lists(p);
    gf_parallel(p->threads, tasks, p->smallest ? smallest_rows : lists ? select_rest : select_rows, (void *)(uintptr_t)p);
}
