/* cpu_passes.c - the passes of a step over all pairs, on the CPU: embeddings, tiles and their order, then count, mark, sum, close,
 * gradient and mask. Selections are in cpu_select.c, what is done with one tile in kernels/tile.c. */
#include "cpu/cpu_passes.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "util/array.h"
#include "util/parallel.h"

/* ----- embeddings of the caller as unit rows, and packed in panels ----- */

/* Full panels plus half a panel: rows then start 16 floats apart modulo the cache's set size, so that the rows of a product do
 * not fall into the same few sets. */
int64_t gf_cpu_embed_ld(int64_t dim) { return gf_pad(dim) + GF_PANEL / 2; }

int64_t gf_cpu_embed_ld16(int64_t dim) { return gf_pad(dim) / 2 + GF_PANEL / 2; }

typedef struct embed_job {
    const gf_embed *e;
    const gf_source *h;
    int64_t rows, first, step;
    int normalize;
    float *norm;
    _Atomic int64_t bad; /* smallest bad row so far; rows if none */
} embed_job;

#define UNIT_TOLERANCE 4e-3 /* rounding to bf16 moves a length by up to 2^-8 */

static void note_bad(embed_job *job, int64_t r) {
    int64_t seen = atomic_load(&job->bad);
    while (r < seen && !atomic_compare_exchange_weak(&job->bad, &seen, r)) {}
}

static void embed_row(embed_job *job, int64_t r) {
    const gf_embed *e = job->e;
    const int64_t at = job->first + r * job->step;
    float *z = e->row + at * e->ld;
    const float *h = gf_source_row(job->h, r);
    double square = 0.0;
    if (job->h->dtype != GLOFND_F32) {
        gf_dtype_to_float(job->h->dtype, z, gf_source_row(job->h, r), e->dim);
        h = z;
    }
    for (int64_t i = 0; i < e->dim; i++) square += (double)h[i] * (double)h[i];
    const double length = sqrt(square);
    if (!isfinite(square) || (!job->normalize && fabs(length - 1.0) > UNIT_TOLERANCE)) {
        note_bad(job, r);
        return;
    }
    const double norm = job->normalize ? fmax(length, 1e-12) : 1.0;
    if (job->norm) job->norm[at] = (float)norm;
    for (int64_t i = 0; i < e->dim; i++) z[i] = (float)((double)h[i] / norm);
    memset(z + e->dim, 0, sizeof(float) * (size_t)(e->ld - e->dim));
}

#define EMBED_ROWS 64 /* rows per task */

static void embed_task(void *arg, int64_t task, int thread) {
    embed_job *job = arg;
    (void)thread;
    for (int64_t r = task * EMBED_ROWS; r < job->rows && r < (task + 1) * EMBED_ROWS; r++) embed_row(job, r);
}

int64_t gf_cpu_embed(const gf_embed *e, const gf_source *h, int64_t rows, int64_t first, int64_t step, int normalize, float *norm,
                     int threads) {
    embed_job job = {e, h, rows, first, step, normalize, norm, rows};
    gf_parallel(threads, (rows + EMBED_ROWS - 1) / EMBED_ROWS, embed_task, &job);
    const int64_t bad = atomic_load(&job.bad);
    return bad < rows ? bad : -1;
}

static void pack_panel(void *arg, int64_t panel, int thread) {
    const gf_embed *e = arg;
    const float *row = e->row + panel * GF_PANEL * e->ld;
    float *col = e->col + panel * GF_PANEL * e->dim;
    (void)thread;
    for (int64_t i = 0; i < e->dim; i++)
        for (int64_t c = 0; c < GF_PANEL; c++) col[i * GF_PANEL + c] = row[c * e->ld + i];
}

/* The rounded copies of one panel; rows are zero from dim to ld. */
static void round_panel(void *arg, int64_t panel, int thread) {
    const gf_embed *e = arg;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const int64_t r0 = panel * GF_PANEL, words = (e->dim + 1) / 2;
    const float *row = e->row + r0 * e->ld;
    uint32_t *row16 = e->row16 + r0 * e->ld16, *col16 = e->col16 + panel * GF_PANEL * words;
    (void)thread;
    for (int64_t r = 0; r < GF_PANEL; r++) ops->round((uint16_t *)(void *)(row16 + r * e->ld16), row + r * e->ld, gf_pad(e->dim));
    for (int64_t r = 0; r < GF_PANEL; r += 2)
        ops->words(e->pair + (r0 + r) / 2 * e->ld, row + r * e->ld, row + (r + 1) * e->ld, gf_pad(e->dim));
    for (int64_t i = 0; i < words; i++)
        for (int64_t c = 0; c < GF_PANEL; c++) col16[i * GF_PANEL + c] = row16[c * e->ld16 + i];
}

void gf_cpu_pack(const gf_embed *e, int threads) {
    const int64_t pad = gf_pad(e->rows) - e->rows;
    memset(e->row + e->rows * e->ld, 0, sizeof(float) * (size_t)(pad * e->ld));
    if (e->col) gf_parallel(threads, gf_pad(e->rows) / GF_PANEL, pack_panel, (void *)(uintptr_t)e);
    if (e->row16) gf_parallel(threads, gf_pad(e->rows) / GF_PANEL, round_panel, (void *)(uintptr_t)e);
}

/* ----- tiles ----- */

#define SCRATCH_HEAD ((sizeof(gf_tile_scratch) + 63) / 64 * 64) /* the arrays of a tile come behind it */

size_t gf_cpu_scratch_bytes(int64_t tile, int threads) {
    return (SCRATCH_HEAD + 3 * sizeof(float) * (size_t)(tile * tile)) * (size_t)threads;
}

static gf_tile_scratch *scratch_of(const gf_pass *p, int thread) {
    char *base = (char *)p->scratch + gf_cpu_scratch_bytes(p->tile, thread);
    gf_tile_scratch *x = (gf_tile_scratch *)(void *)base;
    x->s = (float *)(void *)(base + SCRATCH_HEAD);
    x->score = x->s + p->tile * p->tile;
    x->transposed = x->score + p->tile * p->tile;
    return x;
}

size_t gf_cpu_tiles_bytes(int64_t rows, int64_t cols, int64_t tile, int symmetric) {
    const int64_t m = (rows + tile - 1) / tile, n = (cols + tile - 1) / tile;
    return sizeof(float) * (size_t)(tile * tile) * (size_t)(symmetric ? m * (m + 1) / 2 : m * n);
}

void gf_tile_similarities(float *s, size_t ld, const gf_embed *q, int64_t r0, const gf_embed *k, int64_t c0, int rows, int cols) {
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const int64_t first = c0 / GF_PANEL, words = (k->dim + 1) / 2;
    if (q->row16 && k->col16)
        ops->product16(s, ld, q->row16 + r0 * q->ld16, (size_t)q->ld16, 1, k->col16 + first * words * GF_PANEL, GF_PANEL,
                       (size_t)words * GF_PANEL, rows, cols, (int)words, 0);
    else
        ops->product(s, ld, q->row + r0 * q->ld, (size_t)q->ld, 1, k->col + first * k->dim * GF_PANEL, GF_PANEL,
                     (size_t)k->dim * GF_PANEL, rows, cols, (int)k->dim, 0);
}

void gf_tile_rounded(float *s, size_t ld, const gf_rounded *x, int64_t dim, int64_t r0, int64_t c0, int rows, int cols) {
    const int64_t words = (dim + 1) / 2;
    const gf_int16_words left = {x->row + r0 * x->ld, (size_t)x->ld, 1, x->step + r0};
    const gf_int16_words right = {x->col + c0 * words, (size_t)words * GF_PANEL, GF_PANEL, x->step + c0};
    gf_cpu_kernels_get()->tile->product_int16(s, ld, &left, &right, rows, cols, (int)words, 0);
}

/* FNC by support views: of every pair the largest score that one of its anchor's vectors gives. */
static void make_scores(const gf_pass *p, const gf_tile *t, gf_tile_scratch *x) {
    gf_tile_similarities(x->score, t->ld, &p->score, t->r0, &p->k, t->c0, t->prows, t->pcols);
    for (int n = 1; n < p->scores; n++) {
        float *other = x->transposed; /* free so far */
        gf_tile_similarities(other, t->ld, &p->score, n * p->score_stride + t->r0, &p->k, t->c0, t->prows, t->pcols);
        for (int r = 0; r < t->prows; r++)
            for (int c = 0; c < t->pcols; c++) {
                const size_t at = (size_t)r * t->ld + (size_t)c;
                x->score[at] = other[at] > x->score[at] ? other[at] : x->score[at];
            }
    }
}

/* NaN where there is no pair: padding, and pairs of one sample. Views of sample g are the columns [g << shift, (g+1) << shift). */
static void blank_non_pairs(const gf_pass *p, gf_tile *t) {
    for (int r = 0; r < t->prows; r++) {
        float *s = t->s + (size_t)r * t->ld;
        const int past = r < t->rows ? t->cols : 0; /* from here on there is padding */
        for (int c = past; c < t->pcols; c++) s[c] = NAN, t->dirty = 1;
        if (r >= t->rows || p->shift < 0) continue;
        const int64_t sample = (p->q0 + t->r0 + r) >> p->shift, first = (sample << p->shift) - t->c0;
        for (int64_t c = GF_MAX(first, 0); c < GF_MIN(first + (INT64_C(1) << p->shift), t->cols); c++) s[c] = NAN, t->dirty = 1;
    }
}

gf_tile gf_tile_get(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_pass *p = w->pairs;
    const int64_t r0 = i * p->tile, c0 = j * p->tile, place = p->symmetric ? j * (j + 1) / 2 + i : i * w->k_blocks + j;
    gf_tile t = {
        .s = p->flags & (GF_KEEP_TILES | GF_REUSE_TILES) ? p->tiles + place * p->tile * p->tile : x->s,
        .ld = (size_t)p->tile,
        .r0 = r0,
        .c0 = c0,
        .rows = (int)GF_MIN(p->tile, p->q.rows - r0),
        .cols = (int)GF_MIN(p->tile, p->k.rows - c0),
        .prows = (int)GF_MIN(p->tile, gf_pad(p->q.rows) - r0),
        .pcols = (int)GF_MIN(p->tile, gf_pad(p->k.rows) - c0),
    };
    if (p->flags & GF_REUSE_TILES) {
        t.dirty = 1; /* no longer known; the masked kernels are right for clean tiles too */
        return t;
    }
    if (w->rounded) gf_tile_rounded(t.s, t.ld, w->rounded, p->k.dim, t.r0, t.c0, t.prows, t.pcols);
    else gf_tile_similarities(t.s, t.ld, &p->q, t.r0, &p->k, t.c0, t.prows, t.pcols);
    if (p->flags & GF_TIE && p->score.row) {
        make_scores(p, &t, x);
        t.score = x->score;
    }
    blank_non_pairs(p, &t);
    return t;
}

/* ----- the order of tiles -----
 *
 * A tile adds to its row block and often to its column block too. Instead of locks or private copies, tiles are visited in
 * rounds in which no block occurs twice: a round-robin tournament for the symmetric case (every pair of M blocks meets once in
 * M-1 rounds), a Latin square for the rectangular one. Between rounds all threads wait; a block receives its sums in the order of
 * rounds, whatever thread computes them. */

/* The blocks on the diagonal; then pair `task` of a round: the last block meets block `round`, the others meet across a circle. */
static void visit_diagonal(void *arg, int64_t task, int thread) {
    const gf_sweep *w = arg;
    w->visit(w, task, task, scratch_of(w->pairs, thread));
}

static void visit_tournament(void *arg, int64_t task, int thread) {
    const gf_sweep *w = arg;
    const int64_t even = w->q_blocks + (w->q_blocks & 1), table = even - 1;
    int64_t a = table, b = w->round;
    if (task > 0) {
        a = (w->round + task) % table;
        b = (w->round - task + table) % table;
    }
    const int64_t i = GF_MIN(a, b), j = a + b - i;
    if (j >= w->q_blocks) return; /* odd number of blocks: one pauses */
    w->visit(w, i, j, scratch_of(w->pairs, thread));
    if (!w->pairs->col_role) w->visit(w, j, i, scratch_of(w->pairs, thread));
}

static void visit_latin(void *arg, int64_t task, int thread) {
    const gf_sweep *w = arg;
    const int wide = w->q_blocks <= w->k_blocks;
    const int64_t i = wide ? task : (task + w->round) % w->q_blocks, j = wide ? (task + w->round) % w->k_blocks : task;
    w->visit(w, i, j, scratch_of(w->pairs, thread));
}

static void visit_row(void *arg, int64_t task, int thread) {
    const gf_sweep *w = arg;
    for (int64_t j = 0; j < w->k_blocks; j++) w->visit(w, task, j, scratch_of(w->pairs, thread));
}

void gf_sweep_run(gf_sweep *w, int columns) {
    const gf_pass *p = w->pairs;
    w->ops = gf_cpu_kernels_get()->tile;
    w->q_blocks = (p->q.rows + p->tile - 1) / p->tile;
    w->k_blocks = (p->k.rows + p->tile - 1) / p->tile;
    const int64_t even = w->q_blocks + (w->q_blocks & 1), most = GF_MAX(w->q_blocks, w->k_blocks);
    if (p->symmetric) {
        gf_parallel(p->threads, w->q_blocks, visit_diagonal, w);
        for (w->round = 0; w->round < even - 1; w->round++) gf_parallel(p->threads, even / 2, visit_tournament, w);
    } else if (columns) {
        const int64_t tasks = GF_MIN(w->q_blocks, w->k_blocks);
        for (w->round = 0; w->round < most; w->round++) gf_parallel(p->threads, tasks, visit_latin, w);
    } else {
        gf_parallel(p->threads, w->q_blocks, visit_row, w);
    }
}

/* ----- count, mark: flags that are decided before the sums ----- */

static void count_visit(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_sum_pass *p = w->job;
    const gf_tile t = gf_tile_get(w, i, j, x);
    for (int r = 0; r < t.rows; r++) {
        const float *s = t.s + (size_t)r * t.ld, mid = p->row.mid[t.r0 + r];
        int32_t above = 0;
        for (int c = 0; c < t.cols; c++) above += s[c] > mid;
        p->row_out.above[t.r0 + r] = (t.c0 ? p->row_out.above[t.r0 + r] : 0) + above;
    }
}

void gf_cpu_count(const gf_sum_pass *p) {
    gf_sweep w = {.pairs = &p->pairs, .visit = count_visit, .job = p};
    gf_sweep_run(&w, 0); /* a row's tiles come from left to right */
}

static void mark_visit(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_marking *m = w->job;
    const gf_tile t = gf_tile_get(w, i, j, x);
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
            const int64_t at = (t.r0 + r) * m->marks_ld + (t.c0 + c0) / 32;
            m->marks[at] = by_row;
            if (m->col_theta) m->marks_col[at] = by_col;
        }
    }
}

void gf_cpu_mark(const gf_pass *p, const gf_marking *m) {
    gf_sweep w = {.pairs = p, .visit = mark_visit, .job = m};
    gf_sweep_run(&w, 0);
}

/* ----- sum, close ----- */

static void sum_visit(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_sum_pass *p = w->job;
    const unsigned flags = p->pairs.flags, masks = flags & (GF_MASK | GF_COUNT);
    /* The kernel for both roles does not support these flags; it also either counts and masks, or does neither. */
    const int general = (flags & (GF_SHIFT | GF_MOMENT | GF_ATTRACT | GF_WEIGHT | GF_GROUP | GF_TIE | GF_MARKS)) != 0 ||
                        (masks != 0 && masks != (GF_MASK | GF_COUNT));
    const int both = p->pairs.col_role && !(p->pairs.symmetric && i == j); /* a diagonal tile holds both orders of each pair */
    const gf_tile t = gf_tile_get(w, i, j, x);
    if (both && !general) {
        w->ops->sum_both(&t, &p->row, &p->col, &p->row_out, &p->col_out, flags, p->window_cap, x);
        return;
    }
    w->ops->sum_rows(&t, &p->row, p->col.group, &p->row_out, flags, p->pairs.omega, p->window_cap);
    if (!both) return;
    gf_tile flipped = t; /* the column role of a tile is the row role of its transpose */
    flipped.s = x->transposed;
    flipped.rows = t.cols, flipped.cols = t.rows, flipped.prows = t.pcols, flipped.pcols = t.prows;
    flipped.r0 = t.c0, flipped.c0 = t.r0;
    w->ops->transpose(flipped.s, t.s, t.ld, t.prows, t.pcols);
    w->ops->sum_rows(&flipped, &p->col, p->row.group, &p->col_out, flags, p->pairs.omega, p->window_cap);
}

void gf_cpu_sum(const gf_sum_pass *p) {
    gf_sweep w = {.pairs = &p->pairs, .visit = sum_visit, .job = p};
    gf_sweep_run(&w, p->pairs.col_role);
}

#define CLOSE_ROWS 64 /* per task */

/* The list of a row's undecided entries, padded with NaN, is a tile of one row. */
static void close_task(void *arg, int64_t task, int thread) {
    const gf_sum_pass *p = arg;
    const gf_sum_out *out = &p->row_out;
    (void)thread;
    for (int64_t i = task * CLOSE_ROWS; i < p->pairs.q.rows && i < (task + 1) * CLOSE_ROWS; i++) {
        const int n = out->window_n[i], padded = (int)gf_pad(n);
        float *list = out->window + i * p->window_cap;
        if (n == 0) continue;
        if (!(p->pairs.flags & GF_MASK)) { /* everything was summed already */
            for (int c = 0; c < n; c++) out->kept[i] += list[c] <= p->row.lo[i];
            continue;
        }
        for (int c = n; c < padded; c++) list[c] = NAN;
        const gf_tile t = {.s = list, .ld = (size_t)padded, .rows = 1, .cols = n, .prows = 1, .pcols = padded, .r0 = i};
        gf_cpu_kernels_get()->tile->sum_rows(&t, &p->row, NULL, out, p->pairs.flags & ~(unsigned)GF_GROUP, p->pairs.omega,
                                             p->window_cap);
    }
}

void gf_cpu_close(const gf_sum_pass *p) {
    gf_parallel(p->pairs.threads, (p->pairs.q.rows + CLOSE_ROWS - 1) / CLOSE_ROWS, close_task, (void *)(uintptr_t)p);
}

/* ----- gradient ----- */

/* dQ += P K and dK += P'Q of bf16 numbers: P is rounded, with two columns in a word for the first, two rows for the second. */
static void grad_products16(const gf_sweep *w, const gf_tile *t, float *row_grad, float *col_grad, gf_tile_scratch *x) {
    const gf_embed *q = &w->pairs->q, *k = &w->pairs->k;
    const size_t ld = (size_t)k->ld, wide = t->ld / 2;
    const int n = (int)gf_pad(k->dim);
    uint32_t *by_row = (uint32_t *)(void *)x->score, *by_column = by_row + t->ld * t->ld / 2; /* free in this pass */
    if (row_grad) {
        for (int r = 0; r < t->prows; r++) w->ops->round((uint16_t *)(void *)(by_row + r * wide), t->s + r * t->ld, t->pcols);
        w->ops->product16(row_grad + t->r0 * k->ld, ld, by_row, wide, 1, k->pair + t->c0 / 2 * k->ld, ld, GF_PANEL, t->prows, n,
                          t->pcols / 2, 1);
    }
    if (!col_grad) return;
    for (int r = 0; r < t->prows; r += 2)
        w->ops->words(by_column + r / 2 * t->ld, t->s + r * t->ld, t->s + (r + 1) * t->ld, t->pcols);
    w->ops->product16(col_grad + t->c0 * k->ld, ld, by_column, 1, t->ld, q->pair + t->r0 / 2 * q->ld, ld, GF_PANEL, t->pcols, n,
                      t->prows / 2, 1);
}

static void grad_visit(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const gf_gradient_pass *p = w->job;
    const gf_embed *q = &p->pairs.q, *k = &p->pairs.k;
    const int on_diagonal = p->pairs.symmetric && i == j, n = (int)gf_pad(k->dim);
    const size_t ld = (size_t)k->ld;
    const gf_tile t = gf_tile_get(w, i, j, x);
    /* The rows of a tile on the diagonal count every ordered pair already, and get the weights of both roles. */
    const gf_grad_out *counted = on_diagonal || !p->col_out.same ? NULL : &p->col_out;
    float *row_grad = p->row_out.grad, *col_grad = on_diagonal && p->pairs.col_role ? NULL : p->col_out.grad;
    w->ops->weights(&t, &p->row, &p->col, &p->row_out, counted, p->pairs.col_role, p->pairs.flags, p->pairs.omega);
    if (k->pair && q->pair) {
        grad_products16(w, &t, row_grad, col_grad, x);
        return;
    }
    if (row_grad)
        w->ops->product(row_grad + t.r0 * k->ld, ld, t.s, t.ld, 1, k->row + t.c0 * k->ld, ld, GF_PANEL, t.prows, n, t.pcols, 1);
    if (col_grad)
        w->ops->product(col_grad + t.c0 * k->ld, ld, t.s, 1, t.ld, q->row + t.r0 * q->ld, ld, GF_PANEL, t.pcols, n, t.prows, 1);
}

void gf_cpu_gradient(const gf_gradient_pass *p) {
    gf_sweep w = {.pairs = &p->pairs, .visit = grad_visit, .job = p};
    gf_sweep_run(&w, p->col_out.grad != NULL);
}

/* ----- mask, for inspection ----- */

typedef struct mask_job {
    const gf_gradient_pass *pass;
    uint8_t *keep;
    int64_t keep_ld;
} mask_job;

static void mask_visit(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    const mask_job *m = w->job;
    const gf_tile t = gf_tile_get(w, i, j, x);
    w->ops->keep(&t, &m->pass->row, &m->pass->col, w->pairs->flags, m->keep + t.r0 * m->keep_ld + t.c0, (size_t)m->keep_ld);
}

void gf_cpu_mask(const gf_gradient_pass *p, uint8_t *keep, int64_t keep_ld) {
    const mask_job m = {p, keep, keep_ld};
    gf_sweep w = {.pairs = &p->pairs, .visit = mask_visit, .job = &m};
    gf_sweep_run(&w, 0);
}
