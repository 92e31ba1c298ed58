/* cpu_tiles.c - making tiles, and the order of visiting them.
 *
 * A tile adds to its row block and often to its column block too. Instead of locks or private copies, tiles are visited in
 * rounds in which no block occurs twice: a round-robin tournament for the symmetric case (every pair of M blocks meets once in
 * M-1 rounds), a Latin square for the rectangular one. Between rounds all threads wait; a block receives its sums in the order of
 * rounds, whatever thread computes them.
 */
#include "cpu/cpu_tiles.h"

#include <math.h>

#include "util/array.h"
#include "util/parallel.h"

size_t gf_tile_scratch_bytes(int64_t tile) {
    return (sizeof(gf_tile_scratch) + 63) / 64 * 64 + 3 * sizeof(float) * (size_t)(tile * tile);
}

gf_tile_scratch *gf_tile_scratch_of(void *scratch, int64_t tile, int thread) {
    char *base = (char *)scratch + gf_tile_scratch_bytes(tile) * (size_t)thread;
    gf_tile_scratch *x = (gf_tile_scratch *)(void *)base;
    x->s = (float *)(void *)(base + (sizeof(gf_tile_scratch) + 63) / 64 * 64);
    x->score = x->s + tile * tile;
    x->transposed = x->score + tile * tile;
    return x;
}

/* NaN in row r, columns [from, to) of the tile. */
static void blank(gf_tile *t, int r, int64_t from, int64_t to) {
    if (from < 0) from = 0;
    if (to > t->pcols) to = t->pcols;
    for (int64_t c = from; c < to; c++) {
        t->s[(size_t)r * t->ld + (size_t)c] = NAN;
        t->dirty = 1;
    }
}

/* Padding, and pairs of one sample: views of sample g are the columns [g << shift, (g+1) << shift) of the batch. */
static void blank_non_pairs(const gf_pass *p, gf_tile *t) {
    for (int r = 0; r < t->prows; r++) {
        if (r >= t->rows) {
            blank(t, r, 0, t->pcols);
            continue;
        }
        blank(t, r, t->cols, t->pcols);
        if (p->shift < 0) continue;
        const int64_t sample = (p->q0 + t->r0 + r) >> p->shift, first = (sample << p->shift) - t->c0;
        blank(t, r, first, GF_MIN(first + (INT64_C(1) << p->shift), t->cols));
    }
}

static gf_tile tile_at(const gf_sweep *w, int64_t i, int64_t j, float *s) {
    const gf_pass *p = w->p;
    const int64_t r0 = i * p->tile, c0 = j * p->tile;
    const gf_tile t = {
        .s = s,
        .ld = (size_t)p->tile,
        .r0 = r0,
        .c0 = c0,
        .rows = (int)GF_MIN(p->tile, p->q->rows - r0),
        .cols = (int)GF_MIN(p->tile, p->k->rows - c0),
        .prows = (int)GF_MIN(p->tile, gf_pad(p->q->rows) - r0),
        .pcols = (int)GF_MIN(p->tile, gf_pad(p->k->rows) - c0),
    };
    return t;
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

static void multiply(const gf_sweep *w, const gf_tile *t, const gf_embed *q, int64_t first, float *s) {
    gf_tile_similarities(s, t->ld, q, first + t->r0, w->p->k, t->c0, t->prows, t->pcols);
}

void gf_tile_rounded(float *s, size_t ld, const gf_rounded *x, int64_t dim, int64_t r0, int64_t c0, int rows, int cols) {
    const int64_t words = (dim + 1) / 2;
    const gf_int16_words left = {x->row + r0 * x->ld, (size_t)x->ld, 1, x->step + r0};
    const gf_int16_words right = {x->col + c0 * words, (size_t)words * GF_PANEL, GF_PANEL, x->step + c0};
    gf_cpu_kernels_get()->tile->product_int16(s, ld, &left, &right, rows, cols, (int)words, 0);
}

static void keep_larger(const gf_tile *t, float *s, const float *other) {
    for (int r = 0; r < t->prows; r++)
        for (int c = 0; c < t->pcols; c++) {
            const size_t at = (size_t)r * t->ld + (size_t)c;
            s[at] = other[at] > s[at] ? other[at] : s[at];
        }
}

static float *slot(const gf_sweep *w, int64_t i, int64_t j) {
    const int64_t n = w->p->symmetric ? j * (j + 1) / 2 + i : i * w->k_blocks + j;
    return w->p->tiles + n * w->p->tile * w->p->tile;
}

gf_tile gf_tile_make(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    gf_tile t = tile_at(w, i, j, w->p->flags & GF_KEEP_TILES ? slot(w, i, j) : x->s);
    if (w->rounded) gf_tile_rounded(t.s, t.ld, w->rounded, w->p->k->dim, t.r0, t.c0, t.prows, t.pcols);
    else multiply(w, &t, w->p->q, 0, t.s);
    if (w->p->flags & GF_TIE && w->p->score) {
        multiply(w, &t, w->p->score, 0, x->score);
        for (int n = 1; n < w->p->scores; n++) {
            multiply(w, &t, w->p->score, n * w->p->score_stride, x->transposed); /* free so far */
            keep_larger(&t, x->score, x->transposed);
        }
        t.score = x->score;
    }
    blank_non_pairs(w->p, &t);
    return t;
}

gf_tile gf_tile_again(const gf_sweep *w, int64_t i, int64_t j, gf_tile_scratch *x) {
    if (!(w->p->flags & GF_REUSE_TILES)) return gf_tile_make(w, i, j, x);
    gf_tile t = tile_at(w, i, j, slot(w, i, j));
    t.dirty = 1; /* no longer known; the masked kernels are right for clean tiles too */
    return t;
}

static void visit(gf_sweep *w, int64_t i, int64_t j, int thread) {
    w->visit(w, i, j, gf_tile_scratch_of(w->p->scratch, w->p->tile, thread));
}

static void diagonal(void *arg, int64_t task, int thread) { visit(arg, task, task, thread); }

/* Pair `task` of round w->round: the last block meets block `round`, the others meet across a circle. */
static void tournament(void *arg, int64_t task, int thread) {
    gf_sweep *w = arg;
    const int64_t even = w->q_blocks + (w->q_blocks & 1), table = even - 1;
    int64_t a = table, b = w->round;
    if (task > 0) {
        a = (w->round + task) % table;
        b = (w->round - task + table) % table;
    }
    const int64_t i = GF_MIN(a, b), j = a + b - i;
    if (j >= w->q_blocks) return; /* odd number of blocks: one pauses */
    visit(w, i, j, thread);
    if (!w->p->col_role) visit(w, j, i, thread);
}

static void latin(void *arg, int64_t task, int thread) {
    gf_sweep *w = arg;
    if (w->q_blocks <= w->k_blocks) visit(w, task, (task + w->round) % w->k_blocks, thread);
    else visit(w, (task + w->round) % w->q_blocks, task, thread);
}

static void whole_row(void *arg, int64_t task, int thread) {
    gf_sweep *w = arg;
    for (int64_t j = 0; j < w->k_blocks; j++) visit(w, task, j, thread);
}

static void rounds(gf_sweep *w, int64_t count, int64_t tasks, gf_task run) {
    for (w->round = 0; w->round < count; w->round++) gf_parallel(w->p->threads, tasks, run, w);
}

void gf_sweep_run(gf_sweep *w, int columns) {
    const gf_pass *p = w->p;
    w->q_blocks = (p->q->rows + p->tile - 1) / p->tile;
    w->k_blocks = (p->k->rows + p->tile - 1) / p->tile;
    if (p->symmetric) {
        const int64_t even = w->q_blocks + (w->q_blocks & 1);
        rounds(w, 1, w->q_blocks, diagonal);
        rounds(w, even - 1, even / 2, tournament);
    } else if (columns) {
        const int64_t count = GF_MAX(w->q_blocks, w->k_blocks);
        rounds(w, count, GF_MIN(w->q_blocks, w->k_blocks), latin);
    } else {
        rounds(w, 1, w->q_blocks, whole_row);
    }
}
