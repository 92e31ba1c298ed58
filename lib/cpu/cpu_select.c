/* cpu_select.c - exact order statistics of rows of similarities, without keeping the rows.
 *
 * Columns are read in chunks. Per row only values above the smallest one that can still matter are kept; when the list is full it
 * is cut to the `best` largest, which raises that limit. Memory per row is O(best), and after the first chunks few values
 * pass the limit, so the product is what costs. Where the caller has memory for lists of all rows, these come first, and only
 * rows whose list was too short are read in chunks.
 */
#include <math.h>
#include <string.h>

#include "cpu/cpu_passes.h"
#include "cpu/kernels/int16_vector.h"
#include "util/array.h"
#include "util/parallel.h"

#define CHUNK 1024    /* columns at a time */
#define ROWS GF_PANEL /* rows at a time */

/* Candidates of a row, before they are cut to the best. */
static int64_t capacity(int64_t best) { return best + (best > CHUNK ? best : CHUNK) + CHUNK; }

static size_t scratch_of_thread(int64_t best) { return sizeof(float) * (size_t)(ROWS * (2 * CHUNK + capacity(best))); }

size_t gf_cpu_select_bytes(int64_t best, int threads) { return scratch_of_thread(best) * (size_t)threads; }

/* The scratch of one thread: at least GF_PANEL rows of 1024 floats. */
static float *scratch_of(const gf_select *p, int thread) {
    return (float *)(void *)((char *)p->scratch + scratch_of_thread(p->best) * (size_t)thread);
}

/* ----- candidates from products of 16-bit integers -----
 *
 * The similarities of integers are within e of those of floats, hence so are their order statistics. What is above the
 * (best-1)-th largest of them by more than 2 e is larger than that statistic of the floats; what is below the best-th largest by
 * more than 2 e is smaller than the wanted one. Between the two lie few: they are computed as floats, by the chain of the passes,
 * and ranked. */

#define ROUNDED_COLUMNS_MIN 2048 /* fewer columns gain less than lists with columns cost */
#define ROUNDED_DIM_MAX 512      /* of one product */

int gf_cpu_rounding_pays(int64_t cols, int64_t dim) {
    return cols >= ROUNDED_COLUMNS_MIN && dim <= ROUNDED_DIM_MAX && gf_cpu_kernels_get()->tile->int16_is_fast();
}

/* rows as integers */

static void round_row(const gf_select *p, int64_t r) {
    const gf_rounded *x = &p->rounded;
    const int64_t words = (p->q->dim + 1) / 2;
    uint32_t *row = x->row + r * x->ld, *col = x->col + r / GF_PANEL * GF_PANEL * words + r % GF_PANEL;
    x->step[r] = gf_int16_round(row, 1, p->q->row + r * p->q->ld, p->q->dim, 1.0, &x->lost[r]);
    for (int64_t w = 0; w < words; w++) col[w * GF_PANEL] = row[w];
}

static void round_rows_of_panel(void *arg, int64_t panel, int thread) {
    (void)thread;
    for (int64_t r = panel * GF_PANEL; r < (panel + 1) * GF_PANEL; r++) round_row(arg, r);
}

static float round_rows(const gf_select *p) {
    float lost = 0.0f;
    gf_parallel(p->threads, gf_pad(p->q->rows) / GF_PANEL, round_rows_of_panel, (void *)(uintptr_t)p);
    for (int64_t r = 0; r < p->q->rows; r++) lost = GF_MAX(lost, p->rounded.lost[r]);
    return lost;
}

static float rounded_error(const gf_select *p, int64_t r, float lost_max) {
    return gf_int16_error(p->rounded.lost[r], lost_max, p->q->dim);
}

/* the result of a row */

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

static int settle_rounded(const gf_select *p, int64_t r, float error, int thread) {
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const gf_lists *x = &p->lists;
    float *value = x->value + r * x->capacity;
    int32_t *column = x->column + r * x->capacity, *at = (int32_t *)(void *)scratch_of(p, thread);
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

/* ----- lists of the largest similarities of every row -----
 *
 * A row's best similarities are few: those above a limit that a sample of its columns gives are collected while tiles are made,
 * each tile for its rows and, where q is k, for its columns. The limit is chosen so low that a list is too short once in 10,000
 * rows; the exact order statistic then comes from the list alone. A list that runs full is cut to what can still matter. */

#define SAMPLE_MIN 2  /* panels of columns in the sample */
#define SAMPLE_MAX 32 /* their product is held in scratch: scratch_of */
#define SHARE 16      /* the sample is a 16th of the columns */
#define TIES_MAX 32   /* equal values at the limit that are sorted here */

/* Columns of the sample, before they are rounded to panels. */
static double sampled_columns(int64_t cols) {
    return fmin(fmax((double)cols / SHARE, SAMPLE_MIN * GF_PANEL), SAMPLE_MAX * GF_PANEL);
}

static int panels_of(int64_t cols) { return (int)(sampled_columns(cols) / GF_PANEL + 0.5); }

/* The limit is the so-many-th largest of the sample. Of `best` in `cols`, x fall into it on average, as a Poisson variable: more
 * than x + 4 sqrt(x) + 2 do so rarely. */
static double rank_of(double x) { return x + 4.0 * sqrt(x) + 2.0; }

/* Values of a row above the limit, for `best` of `cols`. */
static double expected_count(int64_t cols, double best) {
    return rank_of(sampled_columns(cols) * best / (double)cols) / sampled_columns(cols) * (double)cols;
}

/* Rises with cols, so that a workspace for large batches is enough for small ones. Where lists pay, they do for all above. */
int64_t gf_cpu_lists_capacity(int64_t cols, double alpha, int64_t best, int64_t tile) {
    if (cols < SAMPLE_MIN * GF_PANEL || best < 1 || expected_count(cols, alpha * (double)cols) > 0.25 * (double)cols) return 0;
    return gf_pad((int64_t)ceil(1.125 * expected_count(cols, (double)best)) + tile);
}

/* limits from a sample of the columns */

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

typedef struct list_job {
    const gf_select *select;
    const gf_rounded *rounded; /* NULL: similarities are of floats */
    float lost_max;            /* of rounded rows */
} list_job;

/* Of the similarities of row r: 0, if they are of floats. */
static float error_of(const list_job *w, int64_t r) { return w->rounded ? rounded_error(w->select, r, w->lost_max) : 0.0f; }

static void set_limits(void *arg, int64_t task, int thread) {
    const list_job *w = arg;
    const gf_select *p = w->select;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const int panels = panels_of(p->k->rows);
    const int64_t rank = (int64_t)ceil(rank_of(panels * GF_PANEL * (double)p->best / (double)p->k->rows));
    const size_t ld = SAMPLE_MAX * GF_PANEL;
    const int64_t r0 = task * GF_PANEL;
    float *s = scratch_of(p, thread);
    for (int n = 0; n < panels; n++) {
        const int64_t c0 = sampled_panel(p, n, panels);
        if (w->rounded) gf_tile_rounded(s + n * GF_PANEL, ld, &p->rounded, p->k->dim, r0, c0, GF_PANEL, GF_PANEL);
        else gf_tile_similarities(s + n * GF_PANEL, ld, p->q, r0, p->k, c0, GF_PANEL, GF_PANEL);
        for (int64_t r = 0; r < GF_PANEL; r++) blank_row(p, r0 + r, c0, s + (size_t)r * ld + n * GF_PANEL);
    }
    for (int64_t r = 0; r < GF_PANEL; r++) {
        int64_t above;
        const int own = r0 + r < p->q->rows;
        p->lists.limit[r0 + r] = own ? ops->between(s + (size_t)r * ld, panels * GF_PANEL, rank, 0.0, &above) : INFINITY;
    }
}

/* the lists */

/* Cuts list r to the `best` largest, and those that may equal the last of them. */
static void cut(const list_job *w, int64_t r, int64_t room) {
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

static void make_room(const list_job *w, int64_t r0, int rows, int64_t room) {
    const gf_lists *x = &w->select->lists;
    for (int64_t r = r0; r < r0 + rows; r++)
        if (x->count[r] + room > x->capacity) cut(w, r, room);
}

/* Lists grow at places that are in no cache; the product of the tile gives time to get them there. */
static void prefetch_lists(const gf_lists *x, int64_t r0, int64_t rows) {
    for (int64_t r = r0; r < r0 + rows; r++) {
        __builtin_prefetch(x->value + r * x->capacity + x->count[r], 1);
        if (x->column) __builtin_prefetch(x->column + r * x->capacity + x->count[r], 1);
    }
}

static void collect_visit(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const list_job *lists = w->job;
    const gf_select *p = lists->select;
    const int both = p->symmetric && i != j; /* a diagonal tile holds both orders of each pair */
    prefetch_lists(&p->lists, i * p->tile, GF_MIN(p->tile, p->q->rows - i * p->tile));
    if (both) prefetch_lists(&p->lists, j * p->tile, GF_MIN(p->tile, p->q->rows - j * p->tile));
    const gf_tile t = gf_tile_get(w, i, j, x);
    make_room(lists, t.r0, t.rows, t.cols);
    if (both) make_room(lists, t.c0, t.cols, t.rows);
    w->ops->collect(&t, &p->lists, both ? &p->lists : NULL);
}

/* results */

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
    const list_job *w = arg;
    const gf_select *p = w->select;
    const gf_lists *x = &p->lists;
    for (int64_t r = task * GF_PANEL; r < (task + 1) * GF_PANEL && r < p->q->rows; r++) {
        int64_t above;
        if (x->count[r] < p->best) {
            x->count[r] = -1;
            continue;
        }
        if (w->rounded) {
            if (!settle_rounded(p, r, error_of(w, r), thread)) x->count[r] = -1;
            continue;
        }
        p->value[r] = gf_cpu_kernels_get()->tile->between(x->value + r * x->capacity, x->count[r], p->best, p->fraction, &above);
        if (p->tie && (p->tie[r] = last_column(x, r, p->value[r], p->best - above)) < 0) x->count[r] = -1;
    }
}

static void select_from_lists(const gf_select *p) {
    const int64_t tasks = (p->q->rows + GF_PANEL - 1) / GF_PANEL;
    const gf_pass pairs = {
        .q = *p->q,
        .k = *p->k,
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
    list_job lists = {.select = p};
    if (p->rounded.row && p->symmetric && p->lists.column && !p->tie && !p->tiles && !p->q->row16) {
        lists.rounded = &p->rounded;
        lists.lost_max = round_rows(p);
    }
    memset(p->lists.count, 0, sizeof *p->lists.count * (size_t)p->q->rows);
    gf_parallel(p->threads, tasks, set_limits, &lists);
    gf_sweep w = {.pairs = &pairs, .visit = collect_visit, .job = &lists, .rounded = lists.rounded};
    gf_sweep_run(&w, p->symmetric);
    gf_parallel(p->threads, tasks, settle, &lists);
}

/* ----- rows in chunks of columns ----- */

typedef struct candidates {
    float *value; /* [capacity] */
    int64_t count;
    float limit; /* values up to this cannot be among the best */
} candidates;

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
    float *s = scratch_of(p, thread);
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
    float *s = scratch_of(p, thread);
    for (int64_t r = r0; r < r0 + rows; r++) p->value[r] = INFINITY, p->equals[r] = 0;
    for (int64_t c0 = 0; c0 < p->k->rows; c0 += CHUNK) {
        const int pcols = chunk(p, r0, c0, s);
        for (int64_t r = 0; r < rows; r++)
            for (int c = 0; c < pcols; c++) {
                const float v = s[r * CHUNK + c];
                if (v < p->value[r0 + r]) p->value[r0 + r] = v, p->equals[r0 + r] = 0;
                p->equals[r0 + r] += v == p->value[r0 + r];
            }
    }
}

void gf_cpu_select(const gf_select *p) {
    const int64_t tasks = (p->q->rows + ROWS - 1) / ROWS;
    const int lists = p->lists.capacity > 0 && !p->smallest;
    if (lists) select_from_lists(p);
    gf_parallel(p->threads, tasks, p->smallest ? smallest_rows : lists ? select_rest : select_rows, (void *)(uintptr_t)p);
}
