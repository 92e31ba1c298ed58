/* cells_stream_pairs.c - see cells_stream.h: comparing rows that are read as they are needed.
 *
 * Anchors go in groups, as many as a unit has. Anchors that are neighbours in the order of cells want much
 * the same panels: the union of a group is read once, in chunks, and every block of anchors takes of a chunk what it wants.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/cells/cell_compare.h"
#include "pairs/cells/cells_stream.h"
#include "pairs/pairs_lists.h"
#include "util/components.h"
#include "util/minmax.h"
#include "util/parallel.h"

typedef struct group_search {
    gf_cell_search core;
    gf_cells_stream *s;
    const gf_pairs_task *t;
    gf_pairs_found *f;        /* of the unit */
    uint64_t *above;          /* of the unit, or NULL */
    int64_t unit;             /* place where the unit begins */
    int64_t first, rows;      /* places of the group */
    int64_t group;            /* panels of a group, at most */
    const gf_panels *anchors; /* hold them, from row `at` on */
    int64_t at;
    gf_best best;            /* [rows] */
    gf_cell_wanted *wanted;  /* [panels of the group] */
    int32_t *near;           /* [rows][probe] */
    gf_cell_columns columns; /* in memory */
    gf_job_progress watch;   /* of this chunk */
    _Atomic int64_t done;    /* blocks of anchors */
} group_search;

/* Rows read at once: many, since those of a chunk are scattered, and a Parquet file is decoded anew each time. */
static int64_t piece_of(const gf_cells_stream *s) {
    const int64_t fit = (int64_t)(s->memory / 4 / ((size_t)s->c.dim * sizeof(float)));
    return GF_MAX(fit / GF_PANEL * GF_PANEL, GF_ROW_PIECE);
}

static glofnd_status load_all(gf_error *err, gf_cells_stream *s) {
    if (s->all.x || !gf_cells_stream_fits(s)) return GLOFND_OK;
    return gf_row_source_pack(err, s->source, s->by_place, s->c.n, piece_of(s), s->threads, &s->all);
}

/* ----- panels of anchors: the threads' work ----- */

static int64_t panels_of(int64_t rows) { return gf_pad(rows) / GF_PANEL; }

static gf_cell_anchors anchors_at(const group_search *x, int64_t panel) {
    const int64_t from = panel * GF_PANEL;
    return (gf_cell_anchors){.p = x->anchors,
                             .at = x->at + from,
                             .place = x->first + from,
                             .rows = (int)GF_MIN(GF_PANEL, x->rows - from)};
}

static void mark_panel(void *arg, int64_t panel, int thread) {
    group_search *x = arg;
    const gf_cell_anchors a = anchors_at(x, panel);
    if (!gf_job_stopped(&x->t->watch))
        gf_cell_mark(&x->core, &a, x->near + panel * GF_PANEL * x->core.probe, &x->wanted[panel], thread);
}

static int64_t blocks_of(const group_search *x) { return (x->rows + x->core.block - 1) / x->core.block; }

static void compare_block(void *arg, int64_t number, int thread) {
    group_search *x = arg;
    const int64_t from = number * x->core.block;
    const gf_cell_block b = {.p = x->anchors,
                             .at = x->at + from,
                             .place = x->first + from,
                             .rows = GF_MIN(x->core.block, x->rows - from),
                             .near = x->near + from * x->core.probe,
                             .wanted = x->wanted + from / GF_PANEL};
    const gf_cell_lists to = {.best = &x->best, .first = from, .copies = x->f->copies + (b.place - x->unit)};
    if (gf_job_stopped(&x->t->watch)) return;
    gf_cell_compare(&x->core, &b, &x->columns, &to, thread);
    const int64_t done = atomic_fetch_add(&x->done, 1) + 1;
    if (thread == 0) gf_job_report(&x->watch, (double)done / (double)blocks_of(x));
}

/* What is above the threshold of anchor i of the unit. */
static void count_above(const group_search *x, int64_t list, int64_t i) {
    gf_pairs_found *f = x->f;
    const uint64_t *key = x->best.key + list * x->best.capacity;
    const int32_t *label = x->t->label, own = label ? label[x->s->c.order[x->unit + i]] : -1;
    for (int64_t k = 0; k < x->best.count[list]; k++) {
        if (!(gf_best_value(key[k]) > f->lambda[i])) continue;
        if (x->above) x->above[i * (x->t->rank - 1) + f->above[i]] = key[k];
        f->above[i]++;
        f->hits[i] += own >= 0 && label[gf_best_other(key[k])] == own;
    }
}

static void finish_panel(void *arg, int64_t panel, int thread) {
    group_search *x = arg;
    (void)thread;
    for (int64_t list = panel * GF_PANEL; list < GF_MIN((panel + 1) * GF_PANEL, x->rows); list++) {
        const int64_t i = x->first - x->unit + list, rank = GF_MIN(x->t->rank, x->best.count[list]);
        x->f->lambda[i] = x->t->probe && rank > 0 ? gf_best_ranked(&x->best, list, rank) : INFINITY;
        if (x->t->probe) gf_lists_edge(&x->best, list, x->f, i);
        if (x->t->probe) count_above(x, list, i);
        gf_lists_top(&x->best, list, x->f, i);
    }
}

/* ----- the columns of a group ----- */

static void mark_panels(uint8_t *mark, int64_t from, int64_t to) {
    for (int64_t p = from; p < to; p++) mark[p] = 1;
}

/* panel [panels]: those that some anchor wants; returns their number. Maps of thread 0 are free: it has no anchors at hand. */
static int64_t join_wanted(const group_search *x, int32_t *panel) {
    const int64_t *start = x->s->c.start;
    uint8_t *mark = x->core.mark;
    uint64_t *cell = x->core.touched;
    int64_t count = 0;
    for (int64_t a = 0; a < panels_of(x->rows); a++)
        for (size_t k = 0; k < x->wanted[a].count; k++) mark_panels(mark, x->wanted[a].range[k].from, x->wanted[a].range[k].to);
    for (int64_t i = 0; i < x->rows * x->core.probe; i++) {
        const int32_t near = x->near[i];
        if (near < 0 || cell[near / 64] >> near % 64 & 1) continue;
        cell[near / 64] |= (uint64_t)1 << near % 64;
        if (start[near] < start[near + 1]) mark_panels(mark, start[near] / GF_PANEL, (start[near + 1] - 1) / GF_PANEL + 1);
    }
    for (int64_t p = 0; p < x->core.panels; p++)
        if (mark[p]) panel[count++] = (int32_t)p, mark[p] = 0;
    memset(cell, 0, ((size_t)x->s->c.count / 64 + 1) * sizeof *cell);
    return count;
}

/* Unit vectors of some panels. */
static glofnd_status read_panels(gf_error *err, const gf_cells_stream *s, const int32_t *panel, int64_t count, gf_panels *out) {
    int32_t *row = malloc((size_t)count * GF_PANEL * sizeof *row);
    int64_t rows = 0;
    FAIL_IF(err, !row, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)(count * GF_PANEL));
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = (int64_t)panel[k] * GF_PANEL; i < GF_MIN(((int64_t)panel[k] + 1) * GF_PANEL, s->c.n); i++)
            row[rows++] = s->by_place[i];
    const glofnd_status status = gf_row_source_pack(err, s->source, row, rows, piece_of(s), s->threads, out);
    free(row);
    return status;
}

static glofnd_status compare_chunks(gf_error *err, group_search *x, const gf_job_progress *watch) {
    int32_t *panel = malloc((size_t)x->core.panels * sizeof *panel);
    FAIL_IF(err, !panel, GLOFND_E_MEMORY, "no memory for %lld panels", (long long)x->core.panels);
    const int64_t count = join_wanted(x, panel), most = GF_MAX(x->s->chunk / GF_PANEL, 1);
    glofnd_status status = GLOFND_OK;
    for (int64_t from = 0; from < count && status == GLOFND_OK && !gf_job_stopped(watch); from += most) {
        const int64_t end = GF_MIN(from + most, count);
        gf_panels some = {0};
        status = read_panels(err, x->s, panel + from, end - from, &some);
        if (status != GLOFND_OK) break;
        x->columns = (gf_cell_columns){.p = &some, .panel = panel + from, .count = end - from};
        x->watch = gf_job_part(watch, (double)from / (double)count, (double)end / (double)count);
        x->done = 0;
        gf_parallel(x->t->threads, blocks_of(x), compare_block, x);
        gf_panels_free(&some);
    }
    free(panel);
    return status;
}

static glofnd_status compare_group(gf_error *err, group_search *x, const gf_job_progress *watch) {
    gf_parallel(x->t->threads, panels_of(x->rows), mark_panel, x);
    TRY(gf_cell_search_check(err, &x->core));
    if (!x->s->all.x) return compare_chunks(err, x, watch);
    x->columns = (gf_cell_columns){.p = &x->s->all, .count = x->core.panels};
    x->watch = *watch;
    x->done = 0;
    gf_parallel(x->t->threads, blocks_of(x), compare_block, x);
    return GLOFND_OK;
}

static glofnd_status search_group(gf_error *err, group_search *x, const gf_job_progress *watch) {
    gf_panels own = {0};
    glofnd_status status = GLOFND_OK;
    x->anchors = &x->s->all, x->at = x->first;
    if (!x->s->all.x) {
        status = gf_row_source_pack(err, x->s->source, x->s->by_place + x->first, x->rows, piece_of(x->s), x->t->threads, &own);
        x->anchors = &own, x->at = 0;
    }
    if (status == GLOFND_OK) status = gf_best_alloc(err, &x->best, x->rows, gf_cell_keep(x->t));
    if (status == GLOFND_OK) status = compare_group(err, x, watch);
    if (status == GLOFND_OK) gf_parallel(x->t->threads, panels_of(x->rows), finish_panel, x);
    gf_best_free(&x->best);
    gf_panels_free(&own);
    FAIL_IF(err, status == GLOFND_OK && gf_job_stopped(watch), GLOFND_E_ARGUMENT, "stopped");
    return status;
}

/* ----- the pairs of a unit ----- */

/* Anchors of a group: so that what they want takes about an eighth of the memory, at two ranges of panels per cell. */
static int64_t group_rows(const gf_cells_stream *s, int64_t probe, int64_t rows) {
    const size_t panel = 2 * sizeof(gf_panel_range) * (size_t)s->c.count + GF_PANEL * sizeof(int32_t) * (size_t)probe;
    const int64_t fit = (int64_t)(s->memory / 8 / panel);
    return GF_MIN(GF_MAX(fit, 4) * GF_PANEL, gf_pad(rows));
}

static glofnd_status search_groups(gf_error *err, group_search *x, int64_t rows) {
    const int64_t group = group_rows(x->s, x->core.probe, rows);
    x->wanted = calloc((size_t)panels_of(group), sizeof *x->wanted);
    x->near = malloc((size_t)(group * GF_MAX(x->core.probe, 1)) * sizeof *x->near);
    x->group = panels_of(group);
    FAIL_IF(err, !x->wanted || !x->near, GLOFND_E_MEMORY, "no memory for a map of cells");
    for (int64_t done = 0; done < rows; done += group) {
        x->first = x->unit + done, x->rows = GF_MIN(group, rows - done);
        const gf_job_progress watch =
            gf_job_part(&x->t->watch, (double)done / (double)rows, (double)(done + x->rows) / (double)rows);
        TRY(search_group(err, x, &watch));
    }
    return GLOFND_OK;
}

/* As if nothing were similar. */
static void find_none(gf_pairs_found *f) {
    for (int64_t i = 0; i < f->n; i++) f->lambda[i] = INFINITY;
    for (int64_t i = 0; i < f->n * f->top; i++) f->other[i] = -1, f->similarity[i] = NAN;
}

glofnd_status gf_cells_stream_pairs(gf_error *err, gf_cells_stream *s, const gf_pairs_task *t, int64_t first, int64_t rows,
                                    gf_pairs_found *found, int32_t *copy_root, uint64_t *above) {
    group_search x = {.s = s, .t = t, .f = found, .above = above, .unit = first};
    if (t->probe) TRY(gf_pairs_check_rank(err, t, s->c.n - 1));
    TRY(load_all(err, s));
    TRY(gf_cell_search_init(err, &x.core, &s->c, t, copy_root));
    find_none(found);
    const glofnd_status status = t->dup <= 2.0f || t->probe ? search_groups(err, &x, rows) : GLOFND_OK;
    found->cells = s->c.count, found->compared = x.core.pairs;
    gf_cell_search_free(&x.core);
    gf_cell_wanted_free(x.wanted, x.group);
    free(x.near);
    return status;
}

/* ----- recall ----- */

typedef struct recall {
    gf_cell_search core;
    gf_cells_stream *s;
    const gf_pairs_task *t;
    gf_panels own;           /* the sample */
    int32_t *place;          /* [own.n] of each anchor */
    gf_best best;            /* [own.n] */
    const int32_t *position; /* [n] of the columns; NULL: from `from` on */
    int64_t from;
    gf_cell_wanted *wanted;  /* [threads] */
    int32_t *near;           /* [threads][GF_PANEL][probe] */
    int32_t *at;             /* [n] place of a position */
    int64_t *asked, *founds; /* [own.n] pairs above in the whole search; of these, compared ones */
} recall;

static void visit_whole(void *user, const gf_strip *t, int thread) {
    recall *x = user;
    int32_t at[GF_STRIP_COLS];
    (void)thread;
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r, self = x->s->c.order[x->place[i]];
        const float *v = t->s + (size_t)r * t->ld;
        const int found = x->core.ops->reach(at, v, (int)gf_pad(t->cols), x->best.limit[i], NULL);
        for (int k = 0; k < found && at[k] < t->cols; k++) {
            const int64_t c = t->c0 + at[k], other = x->position ? x->position[c] : x->from + c;
            if (other != self && v[at[k]] >= x->best.limit[i]) gf_best_push(&x->best, i, v[at[k]], other);
        }
    }
}

/* Pairs of a panel's anchors above in the whole search: those whose other end is compared are found. */
static void count_recalled(void *arg, int64_t panel, int thread) {
    recall *x = arg;
    gf_cell_wanted *wanted = &x->wanted[thread];
    int32_t *near = x->near + (int64_t)thread * GF_PANEL * x->core.probe;
    const int64_t from = panel * GF_PANEL;
    const gf_cell_anchors a = {.p = &x->own, .at = from, .place = x->place[from], .rows = (int)GF_MIN(GF_PANEL, x->own.n - from)};
    gf_cell_mark(&x->core, &a, near, wanted, thread);
    for (int64_t i = from; i < from + a.rows; i++) {
        const uint64_t *key = x->best.key + i * x->best.capacity;
        x->asked[i] = gf_best_sort(&x->best, i, GF_MAX(x->t->rank - 1, 1));
        x->founds[i] = 0;
        for (int64_t k = 0; k < x->asked[i]; k++)
            x->founds[i] +=
                gf_cell_finds(&x->core, near + (i - from) * x->core.probe, x->at[gf_best_other(key[k])], gf_best_value(key[k]));
    }
}

static glofnd_status sweep_all(gf_error *err, recall *x) {
    gf_cells_stream *s = x->s;
    const int64_t n = s->c.n;
    glofnd_status status = GLOFND_OK;
    for (x->from = 0; x->from < n && status == GLOFND_OK; x->from += s->chunk) {
        gf_panels some = {0};
        const int64_t count = GF_MIN(s->chunk, n - x->from);
        const gf_sweep_job job = {.threads = x->t->threads,
                                  .watch = gf_job_part(&x->t->watch, (double)x->from / (double)n,
                                                       (double)(x->from + count) / (double)n)};
        if (!s->all.x) status = gf_row_source_pack(err, s->source, s->row + x->from, count, GF_ROW_PIECE, x->t->threads, &some);
        x->position = s->all.x ? s->c.order : NULL;
        if (status == GLOFND_OK) status = gf_sweep_rows(err, &x->own, s->all.x ? &s->all : &some, GF_PANEL, &job, visit_whole, x);
        gf_panels_free(&some);
    }
    return status;
}

static glofnd_status read_sample(gf_error *err, recall *x, int64_t first, int64_t count) {
    const gf_cells *c = &x->s->c;
    int32_t *row = malloc((size_t)count * GF_PANEL * sizeof *row);
    int64_t rows = 0;
    x->place = malloc((size_t)count * GF_PANEL * sizeof *x->place);
    glofnd_status status =
        row && x->place ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)(count * GF_PANEL));
    for (int64_t k = first; k < first + count && status == GLOFND_OK; k++) {
        const int64_t from = gf_cell_sample_place(x->core.panels, k);
        for (int64_t i = from; i < GF_MIN(from + GF_PANEL, c->n); i++)
            x->place[rows] = (int32_t)i, row[rows++] = x->s->by_place[i];
    }
    if (status == GLOFND_OK) status = gf_row_source_pack(err, x->s->source, row, rows, GF_ROW_PIECE, x->t->threads, &x->own);
    free(row);
    return status;
}

static glofnd_status measure(gf_error *err, recall *x, int64_t first, int64_t count) {
    const gf_cells *c = &x->s->c;
    TRY(read_sample(err, x, first, count));
    x->wanted = calloc((size_t)x->t->threads, sizeof *x->wanted);
    x->near = malloc((size_t)x->t->threads * GF_PANEL * (size_t)x->core.probe * sizeof *x->near);
    x->at = malloc((size_t)c->n * sizeof *x->at);
    x->founds = malloc((size_t)x->own.n * sizeof *x->founds);
    x->asked = malloc((size_t)x->own.n * sizeof *x->asked);
    FAIL_IF(err, !x->wanted || !x->near || !x->at || !x->founds || !x->asked, GLOFND_E_MEMORY, "no memory for %lld anchors",
            (long long)c->n);
    TRY(gf_best_alloc(err, &x->best, x->own.n, GF_MAX(x->t->rank - 1, 1)));
    for (int64_t i = 0; i < c->n; i++) x->at[c->order[i]] = (int32_t)i;
    TRY(sweep_all(err, x));
    gf_parallel(x->t->threads, panels_of(x->own.n), count_recalled, x);
    return gf_cell_search_check(err, &x->core);
}

glofnd_status gf_cells_stream_recall(gf_error *err, gf_cells_stream *s, const gf_pairs_task *t, int64_t first, int64_t count,
                                     gf_pairs_found *found) {
    recall x = {.s = s, .t = t};
    TRY(load_all(err, s));
    TRY(gf_cell_search_init(err, &x.core, &s->c, t, NULL));
    const glofnd_status status = measure(err, &x, first, count);
    for (int64_t i = 0; i < x.own.n && status == GLOFND_OK; i++)
        found->sampled++, found->wanted += x.asked[i], found->recalled += x.founds[i];
    gf_cell_search_free(&x.core);
    gf_panels_free(&x.own);
    gf_best_free(&x.best);
    free(x.place);
    gf_cell_wanted_free(x.wanted, t->threads);
    free(x.near);
    free(x.at);
    free(x.founds);
    free(x.asked);
    return status;
}
