/* cells_stream_pairs.c - see cells_stream.h: comparing the anchors of a unit with what is near to them, or some with all rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pairs/cell_compare.h"
#include "pairs/cells_stream.h"
#include "pairs/pairs_lists.h"
#include "util/array.h"
#include "util/parallel.h"

typedef struct unit_search {
    gf_cell_search core;
    const gf_cells_stream *s;
    const gf_pairs_task *t;
    gf_pairs_found *f;      /* of the unit */
    uint64_t *above;        /* of the unit, or NULL */
    int64_t first, rows;    /* places of the unit */
    gf_best best;           /* [rows] */
    gf_cell_wanted *wanted; /* [threads][panels of a block] */
    int32_t *near;          /* [threads][block][probe] */
    _Atomic int64_t done;   /* blocks of anchors */
} unit_search;

static int64_t blocks_of(const unit_search *x) { return (x->rows + x->core.block - 1) / x->core.block; }

static void search_block(void *arg, int64_t number, int thread) {
    unit_search *x = arg;
    const int64_t from = number * x->core.block, own = (int64_t)thread * x->core.block;
    const gf_cell_block b = {.place = x->first + from,
                             .rows = GF_MIN(x->core.block, x->rows - from),
                             .near = x->near + own * x->core.probe,
                             .wanted = x->wanted + own / GF_PANEL};
    const gf_cell_lists to = {.best = &x->best, .first = from, .copies = x->f->copies + from};
    if (gf_job_stopped(&x->t->watch)) return;
    gf_cell_mark(&x->core, &b, thread);
    gf_cell_compare(&x->core, &b, &to, thread);
    const int64_t done = atomic_fetch_add(&x->done, 1) + 1;
    if (thread == 0) gf_job_report(&x->t->watch, (double)done / (double)blocks_of(x));
}

/* What is above the threshold of an anchor. */
static void count_above(const unit_search *x, int64_t i) {
    gf_pairs_found *f = x->f;
    const uint64_t *key = x->best.key + i * x->best.capacity;
    const int32_t *label = x->t->label, own = label ? label[x->s->c.order[x->first + i]] : -1;
    for (int64_t k = 0; k < x->best.count[i]; k++) {
        if (!(gf_best_value(key[k]) > f->lambda[i])) continue;
        if (x->above) x->above[i * (x->t->rank - 1) + f->above[i]] = key[k];
        f->above[i]++;
        f->hits[i] += own >= 0 && label[gf_best_other(key[k])] == own;
    }
}

static void finish_panel(void *arg, int64_t panel, int thread) {
    unit_search *x = arg;
    (void)thread;
    for (int64_t list = panel * GF_PANEL; list < GF_MIN((panel + 1) * GF_PANEL, x->rows); list++) {
        const int64_t rank = GF_MIN(x->t->rank, x->best.count[list]);
        x->f->lambda[list] = x->t->probe && rank > 0 ? gf_best_ranked(&x->best, list, rank) : INFINITY;
        if (x->t->probe) gf_lists_edge(&x->best, list, x->f, list);
        if (x->t->probe) count_above(x, list);
        gf_lists_top(&x->best, list, x->f, list);
    }
}

/* ----- the pairs of a unit ----- */

static glofnd_status search(gf_error *err, unit_search *x) {
    const size_t block = (size_t)x->t->threads * (size_t)x->core.block;
    x->wanted = calloc(block / GF_PANEL, sizeof *x->wanted);
    x->near = malloc(block * (size_t)GF_MAX(x->core.probe, 1) * sizeof *x->near);
    FAIL_IF(err, !x->wanted || !x->near, GLOFND_E_MEMORY, "no memory for a map of cells");
    TRY(gf_best_alloc_for(err, &x->best, x->rows, gf_cell_keep(x->t)));
    gf_parallel(x->t->threads, blocks_of(x), search_block, x);
    const glofnd_status status = gf_cell_search_check(err, &x->core);
    if (status == GLOFND_OK) gf_parallel(x->t->threads, gf_pad(x->rows) / GF_PANEL, finish_panel, x);
    gf_best_free(&x->best);
    FAIL_IF(err, status == GLOFND_OK && gf_job_stopped(&x->t->watch), GLOFND_E_ARGUMENT, "stopped");
    return status;
}

/* As if nothing were similar. */
static void find_none(gf_pairs_found *f) {
    for (int64_t i = 0; i < f->n; i++) f->lambda[i] = INFINITY;
    for (int64_t i = 0; i < f->n * f->top; i++) f->other[i] = -1, f->similarity[i] = NAN;
}

/* Nodes of all threads, and whether there was memory for them. */
static glofnd_status take_joined(gf_error *err, gf_node_list *of, int threads, gf_node_list *joined, glofnd_status status) {
    int there = 1;
    for (int t = 0; t < threads; t++) {
        for (size_t i = 0; i < of[t].count && there; i += 2) there = gf_nodes_add(joined, of[t].node[i], of[t].node[i + 1]);
        gf_nodes_free(&of[t]);
    }
    FAIL_IF(err, status == GLOFND_OK && !there, GLOFND_E_MEMORY, "no memory for duplicates");
    return status;
}

glofnd_status gf_cells_stream_pairs(gf_error *err, const gf_cells_stream *s, const gf_pairs_task *t, int64_t first, int64_t rows,
                                    gf_pairs_found *found, int32_t *copy_root, gf_node_list *joined, uint64_t *above) {
    unit_search x = {.s = s, .t = t, .f = found, .above = above, .first = first, .rows = rows};
    if (t->probe) TRY(gf_pairs_check_rank(err, t, s->c.n - 1));
    TRY(gf_cell_search_init(err, &x.core, &s->c, &s->all, t, copy_root));
    x.core.joined = calloc((size_t)t->threads, sizeof *x.core.joined);
    find_none(found);
    glofnd_status status = x.core.joined ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for duplicates");
    if (status == GLOFND_OK && (t->dup <= 2.0f || t->probe)) status = search(err, &x);
    if (x.core.joined) status = take_joined(err, x.core.joined, t->threads, joined, status);
    found->cells = s->c.count, found->compared = x.core.pairs;
    gf_cell_wanted_free(x.wanted, t->threads * x.core.block / GF_PANEL);
    gf_cell_search_free(&x.core);
    free(x.core.joined);
    free(x.near);
    return status;
}

glofnd_status gf_cells_stream_recall(gf_error *err, const gf_cells_stream *s, const gf_pairs_task *t, int64_t first,
                                     int64_t count, gf_pairs_found *found) {
    gf_cell_search x;
    TRY(gf_cell_search_init(err, &x, &s->c, &s->all, t, NULL));
    const glofnd_status status = gf_cell_recall(err, &x, first, count, found);
    gf_cell_search_free(&x);
    return status;
}
