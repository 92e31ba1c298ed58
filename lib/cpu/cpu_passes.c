/* cpu_passes.c - the passes of a step over all pairs, on the CPU: embeddings, tiles and their order, then count, mark, sum, close,
 * gradient and mask, at last selections. What is done with one tile is in kernels/tile.c. */
#include "cpu/cpu_passes.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu/kernels/int16_vector.h"
#include "util/array.h"
#include "util/parallel.h"

/* ----- embeddings of the caller as unit rows, and packed in panels ----- */

/* Full panels plus half a panel: rows then start 16 floats apart modulo the cache's set size, so that the rows of a product do
 * not fall into the same few sets. */
int64_t gf_cpu_embed_ld(int64_t dim) { return gf_pad(dim) + GF_PANEL / 2; }

int64_t gf_cpu_embed_ld16(int64_t dim) { return gf_pad(dim) / 2 + GF_PANEL / 2; }

const void *gf_source_row(const gf_source *h, int64_t r) {
    return (const char *)h->rows + (size_t)(r * h->stride) * gf_dtype_bytes(h->dtype);
}

typedef struct embed_job {
    const gf_embed *e;
    const gf_source *h;
    int64_t rows, first, step;
    int normalize;
    float *norm;
    _Atomic int64_t bad; /* smallest bad row so far; rows if none */
} embed_job;

#define UNIT_TOLERANCE 4e-3 /* rounding to bf16 moves a length by up to 2^-8 */

#define EMBED_ROWS 64 /* rows per task */

static void embed_task(void *arg, int64_t task, int thread) {
    embed_job *job = arg;
    const gf_embed *e = job->e;
    (void)thread;
    for (int64_t r = task * EMBED_ROWS; r < job->rows && r < (task + 1) * EMBED_ROWS; r++) {
        const int64_t at = job->first + r * job->step;
        float *z = e->row + at * e->ld;
        const void *given = gf_source_row(job->h, r);
        const float *h = given;
        double square = 0.0;
        if (job->h->dtype != GLOFND_F32) {
            gf_dtype_to_float(job->h->dtype, z, given, e->dim);
            h = z;
        }
        for (int64_t i = 0; i < e->dim; i++) square += (double)h[i] * (double)h[i];
        const double length = sqrt(square);
        if (!isfinite(square) || (!job->normalize && fabs(length - 1.0) > UNIT_TOLERANCE)) {
            int64_t seen = atomic_load(&job->bad);
            while (r < seen && !atomic_compare_exchange_weak(&job->bad, &seen, r)) {}
        } else {
            const double norm = job->normalize ? fmax(length, 1e-12) : 1.0;
            if (job->norm) job->norm[at] = (float)norm;
            for (int64_t i = 0; i < e->dim; i++) z[i] = (float)((double)h[i] / norm);
            memset(z + e->dim, 0, sizeof(float) * (size_t)(e->ld - e->dim));
        }
    }
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

size_t gf_cpu_tiles_bytes(int64_t rows, int64_t cols, int64_t tile, int symmetric) {
    const int64_t m = (rows + tile - 1) / tile, n = (cols + tile - 1) / tile;
    return sizeof(float) * (size_t)(tile * tile) * (size_t)(symmetric ? m * (m + 1) / 2 : m * n);
}

/* s [rows][ld]: rows of q from r0 on with the columns of k from c0 on, a multiple of GF_PANEL; of bf16 numbers where both have
 * them. All passes and selections make similarities here: equal bits everywhere. */
static void similarities(float *s, size_t ld, const gf_embed *q, int64_t r0, const gf_embed *k, int64_t c0, int rows, int cols) {
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const int64_t first = c0 / GF_PANEL, words = (k->dim + 1) / 2;
    if (q->row16 && k->col16)
        ops->product16(s, ld, q->row16 + r0 * q->ld16, (size_t)q->ld16, 1, k->col16 + first * words * GF_PANEL, GF_PANEL,
                       (size_t)words * GF_PANEL, rows, cols, (int)words, 0);
    else
        ops->product(s, ld, q->row + r0 * q->ld, (size_t)q->ld, 1, k->col + first * k->dim * GF_PANEL, GF_PANEL,
                     (size_t)k->dim * GF_PANEL, rows, cols, (int)k->dim, 0);
}

/* The same of integers, rows and columns of one set of embeddings: close to those, not equal. */
static void rounded_similarities(float *s, size_t ld, const gf_rounded *x, int64_t dim, int64_t r0, int64_t c0, int rows,
                                 int cols) {
    const int64_t words = (dim + 1) / 2;
    const gf_int16_words left = {x->row + r0 * x->ld, (size_t)x->ld, 1, x->step + r0};
    const gf_int16_words right = {x->col + c0 * words, (size_t)words * GF_PANEL, GF_PANEL, x->step + c0};
    gf_cpu_kernels_get()->tile->product_int16(s, ld, &left, &right, rows, cols, (int)words, 0);
}

/* NaN where row and column have one key: cols similarities of a row of this key. */
static void blank_key(float *s, int32_t key, const int32_t *col_key, int64_t cols) {
    for (int64_t c = 0; c < cols; c++)
        if (col_key[c] == key) s[c] = NAN;
}

/* NaN where there is no pair: padding, and pairs of one sample, or of one key. Views of sample g are the columns
 * [g << shift, (g+1) << shift). */
static void blank_non_pairs(const gf_pass *p, gf_tile *t) {
    for (int r = 0; r < t->prows; r++) {
        float *s = t->s + (size_t)r * t->ld;
        const int past = r < t->rows ? t->cols : 0; /* from here on there is padding */
        for (int c = past; c < t->pcols; c++) s[c] = NAN, t->dirty = 1;
        if (r < t->rows && p->row_key && p->row_key[t->r0 + r] >= 0) {
            blank_key(s, p->row_key[t->r0 + r], p->col_key + t->c0, t->cols);
            t->dirty = 1;
        }
        if (r >= t->rows || p->shift < 0) continue;
        const int64_t sample = (p->q0 + t->r0 + r) >> p->shift, first = (sample << p->shift) - t->c0;
        for (int64_t c = GF_MAX(first, 0); c < GF_MIN(first + (INT64_C(1) << p->shift), t->cols); c++) s[c] = NAN, t->dirty = 1;
    }
}

/* ----- all tiles of a pass, in an order that needs no locks -----
 *
 * A tile adds to its row block and often to its column block too. Instead of locks or private copies, tiles are visited in
 * rounds in which no block occurs twice: a round-robin tournament for the symmetric case (every pair of M blocks meets once in
 * M-1 rounds), a Latin square for the rectangular one. Between rounds all threads wait; a block receives its sums in the order of
 * rounds, whatever thread computes them: same bits for any number of threads. */

typedef struct sweep sweep;

struct sweep {
    const gf_pass *pairs;
    void (*visit)(const sweep *w, const gf_tile *t, gf_tile_scratch *x); /* what the pass does with a tile */
    void (*prepare)(const sweep *w, int64_t i, int64_t j);               /* NULL, or before the tile is made */
    const void *job;                                                     /* of the visitor */
    const gf_tile_ops *ops;
    const gf_rounded *rounded; /* NULL, or tiles are made of these integers, where q is k */
    enum { BY_ROW, DIAGONAL, TOURNAMENT, LATIN } order;
    int64_t q_blocks, k_blocks, round;
};

/* A task makes and visits one tile; BY_ROW all tiles of a row block, from left to right. Similarities are NaN where there is no
 * pair. They are made in the scratch of the thread or, with GF_KEEP_TILES, in the pass's tiles, or found there
 * (GF_REUSE_TILES). */
static void visit(void *arg, int64_t task, int thread) {
    const sweep *w = arg;
    const gf_pass *p = w->pairs;
    char *scratch = (char *)p->scratch + gf_cpu_scratch_bytes(p->tile, thread);
    gf_tile_scratch *x = (gf_tile_scratch *)(void *)scratch;
    x->s = (float *)(void *)(scratch + SCRATCH_HEAD);
    x->score = x->s + p->tile * p->tile;
    x->transposed = x->score + p->tile * p->tile;
    int64_t i = task, j = task, tiles = 1;
    if (w->order == BY_ROW) {
        j = 0, tiles = w->k_blocks;
    } else if (w->order == LATIN) {
        if (w->q_blocks <= w->k_blocks) j = (task + w->round) % w->k_blocks;
        else i = (task + w->round) % w->q_blocks;
    } else if (w->order == TOURNAMENT) { /* the last block meets block `round`, the others meet across a circle */
        const int64_t table = (w->q_blocks + (w->q_blocks & 1)) - 1;
        const int64_t a = task > 0 ? (w->round + task) % table : table;
        const int64_t b = task > 0 ? (w->round - task + table) % table : w->round;
        i = GF_MIN(a, b), j = a + b - i;
        if (j >= w->q_blocks) return; /* odd number of blocks: one pauses */
        tiles = p->col_role ? 1 : 2;
    }
    for (int64_t n = 0; n < tiles; n++) {
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
        if (w->prepare) w->prepare(w, i, j);
        if (p->flags & GF_REUSE_TILES) {
            t.dirty = 1; /* no longer known; the masked kernels are right for clean tiles too */
        } else {
            if (w->rounded) rounded_similarities(t.s, t.ld, w->rounded, p->k.dim, r0, c0, t.prows, t.pcols);
            else similarities(t.s, t.ld, &p->q, r0, &p->k, c0, t.prows, t.pcols);
            blank_non_pairs(p, &t);
            if (p->flags & GF_TIE && p->score.row) {
                similarities(x->score, t.ld, &p->score, r0, &p->k, c0, t.prows, t.pcols);
                t.score = x->score;
            }
        }
        w->visit(w, &t, x);
        if (w->order == BY_ROW) {
            j++;
        } else { /* the other tile of the two blocks */
            const int64_t row = i;
            i = j, j = row;
        }
    }
}

/* Every tile; symmetric: every unordered pair of blocks. Contributions reach each row block, and each column block where `columns`
 * is set, in an order that depends on the shape alone. */
static void run_sweep(sweep *w, int columns) {
    const gf_pass *p = w->pairs;
    w->ops = gf_cpu_kernels_get()->tile;
    w->q_blocks = (p->q.rows + p->tile - 1) / p->tile;
    w->k_blocks = (p->k.rows + p->tile - 1) / p->tile;
    if (p->symmetric) {
        const int64_t even = w->q_blocks + (w->q_blocks & 1);
        w->order = DIAGONAL;
        gf_parallel(p->threads, w->q_blocks, visit, w);
        w->order = TOURNAMENT;
        for (w->round = 0; w->round < even - 1; w->round++) gf_parallel(p->threads, even / 2, visit, w);
    } else if (columns) {
        const int64_t rounds = GF_MAX(w->q_blocks, w->k_blocks), tasks = GF_MIN(w->q_blocks, w->k_blocks);
        w->order = LATIN;
        for (w->round = 0; w->round < rounds; w->round++) gf_parallel(p->threads, tasks, visit, w);
    } else {
        w->order = BY_ROW;
        gf_parallel(p->threads, w->q_blocks, visit, w);
    }
}

/* ----- count, mark: flags that are decided before the sums ----- */

static void count_visit(const sweep *w, const gf_tile *t, gf_tile_scratch *x) {
    (void)x;
    const gf_sum_pass *p = w->job;
    for (int r = 0; r < t->rows; r++) {
        const float *s = t->s + (size_t)r * t->ld, mid = p->row.mid[t->r0 + r];
        int32_t above = 0;
        for (int c = 0; c < t->cols; c++) above += s[c] > mid;
        p->row_out.above[t->r0 + r] += above;
    }
}

void gf_cpu_count(const gf_sum_pass *p) {
    sweep w = {.pairs = &p->pairs, .visit = count_visit, .job = p};
    run_sweep(&w, 0); /* a row's tiles come from left to right */
}

static void mark_visit(const sweep *w, const gf_tile *t, gf_tile_scratch *x) {
    (void)x;
    const gf_marking *m = w->job;
    for (int r = 0; r < t->rows; r++) {
        const float *s = t->s + (size_t)r * t->ld, theta = m->row_theta[t->r0 + r];
        const int32_t group = m->row_group[t->r0 + r];
        for (int c0 = 0; c0 < t->cols; c0 += 32) {
            uint32_t by_row = 0, by_col = 0; /* of 32 columns */
            for (int c = c0; c < c0 + 32 && c < t->cols; c++) {
                const int32_t other = m->col_group[t->c0 + c];
                if (s[c] != s[c]) continue;
                const float col_theta = m->col_theta ? m->col_theta[t->c0 + c] : INFINITY;
                const float least = m->mutual ? fmaxf(theta, col_theta) : theta;
                by_row |= (uint32_t)gf_mark_pair(s[c], least, group, other) << (c - c0);
                by_col |= (uint32_t)gf_mark_pair(s[c], m->mutual ? least : col_theta, other, group) << (c - c0);
            }
            const int64_t at = (t->r0 + r) * m->marks_ld + (t->c0 + c0) / 32;
            m->marks[at] = by_row;
            if (m->marks_col) m->marks_col[at] = by_col;
        }
    }
}

void gf_cpu_mark(const gf_pass *p, const gf_marking *m) {
    sweep w = {.pairs = p, .visit = mark_visit, .job = m};
    run_sweep(&w, 0);
}

/* ----- sum, close ----- */

static void sum_visit(const sweep *w, const gf_tile *t, gf_tile_scratch *x) {
    const gf_sum_pass *p = w->job;
    const unsigned flags = p->pairs.flags, masks = flags & (GF_MASK | GF_COUNT);
    /* The kernel for both roles does not support these flags; it also either counts and masks, or does neither. */
    const int general =
        (flags & (GF_SHIFT | GF_MOMENT | GF_ATTRACT | GF_WEIGHT | GF_GROUP | GF_TIE | GF_MARKS | GF_SIGMOID)) != 0 ||
        (masks != 0 && masks != (GF_MASK | GF_COUNT));
    const int both =
        p->pairs.col_role && !(p->pairs.symmetric && t->r0 == t->c0); /* a diagonal tile holds both orders of each pair */
    if (both && !general) {
        w->ops->sum_both(t, &p->row, &p->col, &p->row_out, &p->col_out, flags, p->window_cap, x);
        return;
    }
    w->ops->sum_rows(t, &p->row, p->col.group, &p->row_out, flags, p->pairs.omega, p->window_cap);
    if (!both) return;
    gf_tile flipped = *t; /* the column role of a tile is the row role of its transpose */
    flipped.s = x->transposed;
    flipped.rows = t->cols, flipped.cols = t->rows, flipped.prows = t->pcols, flipped.pcols = t->prows;
    flipped.r0 = t->c0, flipped.c0 = t->r0;
    w->ops->transpose(flipped.s, t->s, t->ld, t->prows, t->pcols);
    w->ops->sum_rows(&flipped, &p->col, p->row.group, &p->col_out, flags, p->pairs.omega, p->window_cap);
}

void gf_cpu_sum(const gf_sum_pass *p) {
    sweep w = {.pairs = &p->pairs, .visit = sum_visit, .job = p};
    run_sweep(&w, p->pairs.col_role);
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
static void grad_products16(const sweep *w, const gf_tile *t, float *row_grad, float *col_grad, gf_tile_scratch *x) {
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

static void grad_visit(const sweep *w, const gf_tile *t, gf_tile_scratch *x) {
    const gf_gradient_pass *p = w->job;
    const gf_embed *q = &p->pairs.q, *k = &p->pairs.k;
    const int on_diagonal = p->pairs.symmetric && t->r0 == t->c0, n = (int)gf_pad(k->dim);
    const size_t ld = (size_t)k->ld;
    /* The rows of a tile on the diagonal count every ordered pair already, and get the weights of both roles. */
    const gf_grad_out *counted = on_diagonal || !p->col_out.same ? NULL : &p->col_out;
    float *row_grad = p->row_out.grad, *col_grad = on_diagonal && p->pairs.col_role ? NULL : p->col_out.grad;
    w->ops->weights(t, &p->row, &p->col, &p->row_out, counted, p->pairs.col_role, p->pairs.flags, p->pairs.omega);
    if (k->pair && (q->pair || !col_grad)) {
        grad_products16(w, t, row_grad, col_grad, x);
        return;
    }
    if (row_grad)
        w->ops->product(row_grad + t->r0 * k->ld, ld, t->s, t->ld, 1, k->row + t->c0 * k->ld, ld, GF_PANEL, t->prows, n, t->pcols,
                        1);
    if (col_grad)
        w->ops->product(col_grad + t->c0 * k->ld, ld, t->s, 1, t->ld, q->row + t->r0 * q->ld, ld, GF_PANEL, t->pcols, n, t->prows,
                        1);
}

void gf_cpu_gradient(const gf_gradient_pass *p) {
    sweep w = {.pairs = &p->pairs, .visit = grad_visit, .job = p};
    run_sweep(&w, p->col_out.grad != NULL);
}

/* ----- mask, for inspection ----- */

typedef struct mask_job {
    const gf_gradient_pass *pass;
    uint8_t *keep;
    int64_t keep_ld;
} mask_job;

static void mask_visit(const sweep *w, const gf_tile *t, gf_tile_scratch *x) {
    (void)x;
    const mask_job *m = w->job;
    w->ops->keep(t, &m->pass->row, &m->pass->col, w->pairs->flags, m->keep + t->r0 * m->keep_ld + t->c0, (size_t)m->keep_ld);
}

void gf_cpu_mask(const gf_gradient_pass *p, uint8_t *keep, int64_t keep_ld) {
    const mask_job m = {p, keep, keep_ld};
    sweep w = {.pairs = &p->pairs, .visit = mask_visit, .job = &m};
    run_sweep(&w, 0);
}

/* ----- select ----- */

/* Exact order statistics of rows of similarities, without keeping the rows.
 *
 * Columns are read in chunks. Per row only values above the smallest one that can still matter are kept; when the list is full it
 * is cut to the `best` largest, which raises that limit. Memory per row is O(best), and after the first chunks few values
 * pass the limit, so the product is what costs. Where the caller has memory for lists of all rows, these come first, and only
 * rows whose list was too short are read in chunks.
 */

#define CHUNK 1024    /* columns at a time */
#define ROWS GF_PANEL /* rows at a time */

/* What value[r] is. */
static int64_t place_of(const gf_select *p, int64_t r, double *fraction) {
    int64_t best = p->best;
    *fraction = p->fraction;
    if (p->unpaired && p->unpaired[r] > 0) gf_quantile_place(p->negatives - p->unpaired[r], 1, p->alpha, &best, fraction);
    return best;
}

/* Candidates of a row, before they are cut to the best. */
static int64_t capacity(int64_t best) { return best + (best > CHUNK ? best : CHUNK) + CHUNK; }

size_t gf_cpu_select_bytes(int64_t best, int threads) {
    return sizeof(float) * (size_t)(ROWS * (CHUNK + capacity(best))) * (size_t)threads;
}

/* The scratch of one thread: at least GF_PANEL rows of 1024 floats. */
static float *select_scratch_of(const gf_select *p, int thread) {
    return (float *)(void *)((char *)p->scratch + gf_cpu_select_bytes(p->best, thread));
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

static void round_rows_of_panel(void *arg, int64_t panel, int thread) {
    (void)thread;
    const gf_select *p = arg;
    const gf_rounded *x = &p->rounded;
    const int64_t words = (p->q->dim + 1) / 2;
    for (int64_t r = panel * GF_PANEL; r < (panel + 1) * GF_PANEL; r++) {
        uint32_t *row = x->row + r * x->ld, *col = x->col + r / GF_PANEL * GF_PANEL * words + r % GF_PANEL;
        x->step[r] = gf_int16_round(row, 1, p->q->row + r * p->q->ld, p->q->dim, 1.0, &x->lost[r]);
        for (int64_t w = 0; w < words; w++) col[w * GF_PANEL] = row[w];
    }
}

/* the result of a row */

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
    int32_t *column = x->column + r * x->capacity, *at = (int32_t *)(void *)select_scratch_of(p, thread);
    int64_t above, n = 0;
    const float last = ops->between(value, x->count[r], p->best, 0.0, &above), low = last - 2.0f * error;
    if (low <= x->limit[r]) return 0;
    /* Positions in list r of the values that reach `low`; the scratch of a thread has room for all of them. */
    int found = gf_cpu_kernels_get()->tile->reach(at, x->value + r * x->capacity, (int)gf_pad(x->count[r]), low, NULL);
    while (found > 0 && at[found - 1] >= x->count[r]) found--; /* what lies behind the list */
    float before = above == p->best - 1 ? INFINITY : last;     /* the (best-1)-th: the next larger value, or an equal one */
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

#define NO_PAIR -2.0f /* below every similarity */

typedef struct list_job {
    const gf_select *select;
    const gf_rounded *rounded; /* NULL: similarities are of floats */
    float lost_max;            /* of rounded rows */
} list_job;

/* Of the similarities of row r: 0, if they are of floats. */
static float error_of(const list_job *w, int64_t r) {
    return w->rounded ? gf_int16_error(w->select->rounded.lost[r], w->lost_max, w->select->q->dim) : 0.0f;
}

static void set_limits(void *arg, int64_t task, int thread) {
    const list_job *w = arg;
    const gf_select *p = w->select;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const int panels = (int)(sampled_columns(p->k->rows) / GF_PANEL + 0.5);
    const int64_t columns = p->k->rows + (p->more ? p->more->rows : 0);
    const int64_t rank = (int64_t)ceil(rank_of(panels * GF_PANEL * (double)p->best / (double)columns));
    const size_t ld = SAMPLE_MAX * GF_PANEL;
    const int64_t r0 = task * GF_PANEL;
    float *s = select_scratch_of(p, thread);
    for (int n = 0; n < panels; n++) {
        /* First column of panel n of the sample: they lie at equal distances. */
        const int64_t c0 = n * (gf_pad(p->k->rows) / GF_PANEL) / panels * GF_PANEL;
        if (w->rounded) rounded_similarities(s + n * GF_PANEL, ld, &p->rounded, p->k->dim, r0, c0, GF_PANEL, GF_PANEL);
        else similarities(s + n * GF_PANEL, ld, p->q, r0, p->k, c0, GF_PANEL, GF_PANEL);
        for (int64_t r = 0; r < GF_PANEL; r++) {
            /* Where there is no pair in the similarities of row r with the panel from column c0. */
            float *row = s + (size_t)r * ld + n * GF_PANEL;
            for (int64_t c = p->k->rows; c < c0 + GF_PANEL; c++)
                if (c >= c0) row[c - c0] = NO_PAIR;
            if (p->shift >= 0) {
                const int64_t first = (p->q0 + (r0 + r)) >> p->shift << p->shift;
                for (int64_t c = first; c < first + (INT64_C(1) << p->shift); c++)
                    if (c >= c0 && c < c0 + GF_PANEL) row[c - c0] = NO_PAIR;
            }
        }
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

static void prepare_lists(const sweep *w, int64_t i, int64_t j) {
    const gf_select *p = ((const list_job *)w->job)->select;
    prefetch_lists(&p->lists, i * p->tile, GF_MIN(p->tile, p->q->rows - i * p->tile));
    if (p->symmetric && i != j) prefetch_lists(&p->lists, j * p->tile, GF_MIN(p->tile, p->q->rows - j * p->tile));
}

static void collect_visit(const sweep *w, const gf_tile *t, gf_tile_scratch *x) {
    const list_job *lists = w->job;
    const gf_select *p = lists->select;
    const int both = p->symmetric && t->r0 != t->c0; /* a diagonal tile holds both orders of each pair */
    (void)x;
    make_room(lists, t->r0, t->rows, t->cols);
    if (both) make_room(lists, t->c0, t->cols, t->rows);
    w->ops->collect(t, &p->lists, both ? &p->lists : NULL);
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
        double fraction;
        const int64_t best = place_of(p, r, &fraction);
        if (x->count[r] < best) {
            x->count[r] = -1;
            continue;
        }
        if (w->rounded) {
            if (!settle_rounded(p, r, error_of(w, r), thread)) x->count[r] = -1;
            continue;
        }
        p->value[r] = gf_cpu_kernels_get()->tile->between(x->value + r * x->capacity, x->count[r], best, fraction, &above);
        if (p->tie && (p->tie[r] = last_column(x, r, p->value[r], p->best - above)) < 0) x->count[r] = -1;
    }
}

/* ----- rows in chunks of columns ----- */

typedef struct candidates {
    float *value; /* [capacity] */
    int64_t count;
    float limit; /* values up to this cannot be among the best */
} candidates;

/* ROWS rows, chunk by chunk of their columns; the further columns come last. For ties the chunks are made a second time. */
static void select_rows(void *arg, int64_t task, int thread) {
    const gf_select *p = arg;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const int64_t r0 = task * ROWS, rows = GF_MIN(ROWS, p->q->rows - r0), room = capacity(p->best);
    const int64_t near = (p->k->rows + CHUNK - 1) / CHUNK, far = p->more ? (p->more->rows + CHUNK - 1) / CHUNK : 0;
    float *s = select_scratch_of(p, thread);
    candidates x[ROWS];
    double fraction[ROWS];
    int64_t best[ROWS], missing[ROWS];
    for (int64_t r = 0; r < rows; r++) {
        x[r] = (candidates){s + ROWS * CHUNK + r * room, 0, -INFINITY};
        best[r] = place_of(p, r0 + r, &fraction[r]);
        if (p->smallest) p->value[r0 + r] = INFINITY, p->equals[r0 + r] = 0;
    }
    for (int64_t n = 0; n < (p->tie ? 2 : 1) * (near + far); n++) {
        /* The similarities of this chunk, NaN where there is no pair. */
        const int64_t i = n % (near + far);
        const int further = i >= near, again = n >= near + far;
        const gf_embed *k = further ? p->more : p->k;
        const int64_t c0 = (further ? i - near : i) * CHUNK;
        const int32_t *col_key = further ? p->more_key : p->col_key;
        const int cols = (int)GF_MIN(CHUNK, k->rows - c0), pcols = (int)GF_MIN(CHUNK, gf_pad(k->rows) - c0);
        similarities(s, CHUNK, p->q, r0, k, c0, ROWS, pcols);
        for (int64_t r = 0; r < rows; r++) {
            float *row = s + r * CHUNK;
            for (int c = cols; c < pcols; c++) row[c] = NAN;
            for (int c = 0; p->row_id && c < cols; c++)
                if (p->col_id[c0 + c] == p->row_id[r0 + r]) row[c] = NAN;
            if (p->row_key && p->row_key[r0 + r] >= 0) blank_key(row, p->row_key[r0 + r], col_key + c0, cols);
            if (p->shift < 0 || further) continue;
            const int64_t first = ((p->q0 + r0 + r) >> p->shift << p->shift) - c0;
            for (int64_t c = GF_MAX(first, 0); c < GF_MIN(first + (INT64_C(1) << p->shift), cols); c++) row[c] = NAN;
        }
        for (int64_t r = 0; r < rows; r++) {
            const float *row = s + r * CHUNK;
            float *value = &p->value[r0 + r];
            if (p->smallest) {
                for (int c = 0; c < pcols; c++) {
                    if (row[c] < *value) *value = row[c], p->equals[r0 + r] = 0;
                    p->equals[r0 + r] += row[c] == *value;
                }
            } else if (again) { /* of the values equal to the best-th, the smaller columns are in */
                for (int c = 0; c < pcols && missing[r] > 0; c++)
                    if (row[c] == *value && --missing[r] == 0) p->tie[r0 + r] = (int32_t)(i * CHUNK + c);
            } else {
                x[r].count += ops->above(row, pcols, x[r].limit, x[r].value + x[r].count);
                if (x[r].count <= room - CHUNK) continue;
                x[r].limit = gf_kth_largest(x[r].value, x[r].count, p->best);
                x[r].count = p->best;
            }
        }
        if (p->smallest || n != near + far - 1) continue;
        for (int64_t r = 0; r < rows; r++) { /* all columns are seen */
            if (p->row_id) {                 /* of the columns that have another id */
                int64_t others = p->k->rows;
                for (int64_t c = 0; c < p->k->rows; c++) others -= p->col_id[c] == p->row_id[r0 + r];
                best[r] = GF_MAX(1, p->round_up ? gf_top_count(others, p->alpha) : llround(p->alpha * (double)others));
            }
            best[r] = GF_MIN(best[r], x[r].count);
            const float value = best[r] < 1 ? NAN : gf_between(x[r].value, x[r].count, best[r], fraction[r]);
            p->value[r0 + r] = value;
            missing[r] = best[r];
            for (int64_t c = 0; c < best[r]; c++) missing[r] -= x[r].value[c] > value;
        }
    }
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

void gf_cpu_select(const gf_select *p) {
    const int64_t tasks = (p->q->rows + ROWS - 1) / ROWS;
    const int lists = p->lists.capacity > 0 && !p->smallest;
    if (lists) {
        const gf_pass pairs = {
            .q = *p->q,
            .k = *p->k,
            .q0 = p->q0,
            .shift = p->shift,
            .row_key = p->row_key,
            .col_key = p->col_key,
            .symmetric = p->symmetric,
            .col_role = p->symmetric,
            .flags = p->tiles ? GF_KEEP_TILES : 0,
            .tile = p->tile,
            .tiles = p->tiles,
            .scratch = p->tile_scratch,
            .threads = p->threads,
        };
        list_job job = {.select = p};
        if (p->rounded.row && p->symmetric && p->lists.column && !p->tie && !p->tiles && !p->q->row16) {
            job.rounded = &p->rounded;
            float lost = 0.0f;
            gf_parallel(p->threads, gf_pad(p->q->rows) / GF_PANEL, round_rows_of_panel, (void *)(uintptr_t)p);
            for (int64_t r = 0; r < p->q->rows; r++) lost = GF_MAX(lost, p->rounded.lost[r]);
            job.lost_max = lost;
        }
        memset(p->lists.count, 0, sizeof *p->lists.count * (size_t)p->q->rows);
        gf_parallel(p->threads, tasks, set_limits, &job);
        sweep w = {.pairs = &pairs, .visit = collect_visit, .prepare = prepare_lists, .job = &job, .rounded = job.rounded};
        run_sweep(&w, p->symmetric);
        if (p->more) {
            const gf_pass further = {.q = *p->q,
                                     .k = *p->more,
                                     .shift = -1,
                                     .row_key = p->row_key,
                                     .col_key = p->more_key,
                                     .tile = p->tile,
                                     .scratch = p->tile_scratch,
                                     .threads = p->threads};
            gf_select rest = *p;
            rest.symmetric = 0;
            const list_job rows = {.select = &rest};
            sweep again = {.pairs = &further, .visit = collect_visit, .prepare = prepare_lists, .job = &rows};
            run_sweep(&again, 0);
        }
        gf_parallel(p->threads, tasks, settle, &job);
    }
    gf_parallel(p->threads, tasks, lists ? select_rest : select_rows, (void *)(uintptr_t)p);
}
