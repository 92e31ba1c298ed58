/* unit_cells.c - a search by cells in units: see unit_job.h.
 *
 * Stages: centroids; the cell of every row; then anchors lie in the order of cells, and each unit of them gets its thresholds,
 * neighbours and duplicates; with probed cells the recall; at last mutual pairs. A pair that only one of its ends has found is
 * mutual, too, if it is above both thresholds: so mutual pairs of a unit are looked for in the pairs above of all units.
 * Where the lists of neighbours have all of these, that is done with the whole result; else in a stage of its own, in which
 * a rank goes through all files once for as many units as fit into memory.
 */
#include <stdlib.h>
#include <string.h>

#include "discover/unit_job.h"
#include "pairs/best.h"
#include "pairs/cell_compare.h"
#include "pairs/pairs_lists.h"
#include "util/array.h"
#include "util/parallel.h"

enum { SAMPLE_UNIT = 256 }; /* anchors of the sample for the recall in a unit */

glofnd_status gf_unit_cells_open(gf_error *err, gf_unit_job *j, const gf_discover_data *d) {
    TRY(gf_cells_stream_open(err, &j->u->source, d->good, d->good_n, j->s->memory / 2, j->s->threads, &j->cells));
    j->folder.cells = j->cells.c.count, j->folder.dim = d->dim;
    j->folder.numbers = gf_tree_numbers(j->folder.cells, d->dim);
    if (!gf_cells_stream_fits(&j->cells)) j->folder.chunk = j->cells.chunk;
    if (j->t.probe) j->folder.samples = (gf_cell_sample(d->good_n) + SAMPLE_UNIT - 1) / SAMPLE_UNIT;
    return GLOFND_OK;
}

static void close_rows(gf_unit_job *j) {
    if (j->folder.chunk) gf_unit_unmap_rows(&j->cells.all);
    else gf_panels_free(&j->cells.all);
}

void gf_unit_cells_close(gf_unit_job *j) {
    close_rows(j);
    gf_cells_stream_close(&j->cells);
    free(j->batch.pair);
}

/* ----- cells ----- */

static glofnd_status make_centres(gf_error *err, gf_unit_job *j, int64_t unit) {
    const gf_sweep_job job = {.threads = j->s->threads, .watch = j->t.watch};
    float *numbers = malloc((size_t)j->folder.numbers * sizeof *numbers);
    (void)unit;
    FAIL_IF(err, !numbers, GLOFND_E_MEMORY, "no memory for centroids");
    glofnd_status status = gf_cells_stream_centres(err, &j->cells, &job, numbers);
    if (status == GLOFND_OK) status = gf_unit_write_centres(err, &j->folder, numbers);
    free(numbers);
    return status;
}

static glofnd_status read_centres(gf_error *err, gf_unit_job *j) {
    float *numbers = malloc((size_t)j->folder.numbers * sizeof *numbers);
    FAIL_IF(err, !numbers, GLOFND_E_MEMORY, "no memory for centroids");
    glofnd_status status = gf_unit_read_centres(err, &j->folder, numbers);
    if (status == GLOFND_OK) status = gf_cells_stream_begin(err, &j->cells, numbers);
    if (status == GLOFND_OK) status = gf_cells_surround(err, &j->cells.c, GF_MAX(j->t.probe, 1), j->s->threads);
    free(numbers);
    return status;
}

static glofnd_status make_cells(gf_error *err, gf_unit_job *j, int64_t unit) {
    const gf_sweep_job job = {.threads = j->s->threads, .watch = j->t.watch};
    const int64_t rows = gf_unit_rows(&j->folder, unit);
    gf_cell_of *of = malloc((size_t)rows * sizeof *of);
    FAIL_IF(err, !of, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)rows);
    glofnd_status status = gf_cells_stream_assign(err, &j->cells, unit * j->folder.rows, rows, &job, of);
    if (status == GLOFND_OK) status = gf_unit_write_cells(err, &j->folder, unit, of);
    free(of);
    return status;
}

static glofnd_status read_cells(gf_error *err, gf_unit_job *j) {
    gf_cell_of *of = malloc((size_t)j->folder.n * sizeof *of);
    glofnd_status status = of ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)j->folder.n);
    for (int64_t i = 0; i < j->folder.units && status == GLOFND_OK; i++)
        status = gf_unit_read_cells(err, &j->folder, i, of + i * j->folder.rows);
    if (status == GLOFND_OK) status = gf_cells_stream_sort(err, &j->cells, of);
    free(of);
    return status;
}

/* ----- rows in the order of cells ----- */

/* Places [first, first + rows); *x is malloc'ed. */
static glofnd_status order_rows(gf_error *err, gf_unit_job *j, int64_t first, int64_t rows, float **x) {
    *x = aligned_alloc(64, gf_panels_bytes(rows, j->folder.dim));
    FAIL_IF(err, !*x, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings", (long long)rows, (long long)j->folder.dim);
    return gf_cells_stream_order(err, &j->cells, first, rows, &j->t.watch, *x);
}

static glofnd_status make_rows(gf_error *err, gf_unit_job *j, int64_t unit) {
    const int64_t first = unit * j->folder.chunk;
    float *x = NULL;
    glofnd_status status = order_rows(err, j, first, GF_MIN(j->folder.chunk, j->folder.n - first), &x);
    if (status == GLOFND_OK) status = gf_unit_write_rows(err, &j->folder, unit, x);
    free(x);
    return status;
}

/* In memory, or mapped. */
static glofnd_status open_rows(gf_error *err, gf_unit_job *j) {
    if (j->folder.chunk) return gf_unit_map_rows(err, &j->folder, &j->cells.all);
    j->t.watch = gf_job_part(&j->s->watch, 0.25, 0.28);
    j->cells.all = (gf_panels){.n = j->folder.n, .dim = j->folder.dim};
    return order_rows(err, j, 0, j->folder.n, &j->cells.all.x);
}

/* ----- pairs ----- */

static glofnd_status find_pairs(gf_error *err, gf_unit_job *j, int64_t unit, gf_pairs_found *f, uint64_t *above) {
    return gf_cells_stream_pairs(err, &j->cells, &j->t, unit * j->folder.rows, f->n, f, j->root, &j->joined, above);
}

static glofnd_status make_pairs(gf_error *err, gf_unit_job *j, int64_t unit) {
    return gf_unit_make_pairs(err, j, unit, find_pairs);
}

static glofnd_status make_recall(gf_error *err, gf_unit_job *j, int64_t unit) {
    gf_pairs_found f = {0};
    const int64_t first = unit * SAMPLE_UNIT, all = gf_cell_sample(j->folder.n);
    TRY(gf_cells_stream_recall(err, &j->cells, &j->t, first, GF_MIN(SAMPLE_UNIT, all - first), &f));
    const int64_t count[3] = {f.sampled, f.wanted, f.recalled};
    return gf_unit_write_recall(err, &j->folder, unit, count);
}

static glofnd_status read_thresholds(gf_error *err, gf_unit_job *j) {
    float *by_place = malloc((size_t)j->folder.rows * sizeof *by_place);
    glofnd_status status = by_place ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for thresholds");
    for (int64_t i = 0; i < j->folder.units && status == GLOFND_OK; i++) {
        gf_pairs_found only = {.n = gf_unit_rows(&j->folder, i), .lambda = by_place};
        status = gf_unit_read_pairs(err, &j->folder, i, &only, NULL, NULL);
        for (int64_t r = 0; r < only.n && status == GLOFND_OK; r++)
            j->lambda[j->cells.c.order[i * j->folder.rows + r]] = by_place[r];
    }
    free(by_place);
    return status;
}

/* ----- mutual pairs ----- */

/* The pair of the anchors at positions a and b belongs to the batch if a does. */
static glofnd_status add_mutual(gf_error *err, gf_unit_job *j, int64_t a, int64_t b) {
    gf_unit_batch *t = &j->batch;
    const int64_t from = t->first * j->folder.rows, place = j->cells.place[a];
    if (place < from || place >= t->end * j->folder.rows) return GLOFND_OK;
    FAIL_IF(err, !gf_grow(&t->pair, &t->capacity, t->count + 1, sizeof *t->pair), GLOFND_E_MEMORY,
            "no memory for the mutual pairs of %lld anchors", (long long)((t->end - t->first) * j->folder.rows));
    t->pair[t->count++] = (uint64_t)(place - from) << 32 | (uint64_t)b;
    return GLOFND_OK;
}

/* From either end. */
static glofnd_status add_both(gf_error *err, gf_unit_job *j, int64_t place, int64_t other, void *unused) {
    const int64_t self = j->cells.c.order[place];
    (void)unused;
    TRY(add_mutual(err, j, self, other));
    return add_mutual(err, j, other, self);
}

static int by_value(const void *x, const void *y) {
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* Mutual pairs of the units from `unit` on, as many as fit: a pair may come from both of its ends. */
static glofnd_status make_batch(gf_error *err, gf_unit_job *j, int64_t unit) {
    gf_unit_batch *t = &j->batch;
    const size_t each =
        4 * (size_t)j->folder.rows * (size_t)j->folder.width * sizeof *t->pair; /* from both ends; twice to grow */
    size_t kept = 0;
    t->first = unit, t->count = 0;
    t->end = GF_MIN(unit + GF_MAX((int64_t)(j->s->memory / 2 / each), 1), j->folder.units);
    for (int64_t i = 0; i < j->folder.units; i++) TRY(gf_unit_read_mutual_pairs(err, j, i, add_both, NULL));
    if (t->count) qsort(t->pair, t->count, sizeof *t->pair, by_value);
    for (size_t i = 0; i < t->count; i++)
        if (i == 0 || t->pair[i] != t->pair[kept - 1]) t->pair[kept++] = t->pair[i];
    t->count = kept;
    return GLOFND_OK;
}

/* First pair of the batch at a place that is not below `place`. */
static size_t first_of(const gf_unit_batch *t, int64_t place) {
    size_t low = 0, high = t->count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if ((int64_t)(t->pair[mid] >> 32) < place) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* 0: no memory. */
static int join_mutual(gf_unit_job *j, int32_t a, int32_t b) {
    return !gf_components_join_shared(j->root, a, b) || gf_nodes_add(&j->joined, a, b);
}

static glofnd_status make_mutual(gf_error *err, gf_unit_job *j, int64_t unit) {
    const gf_unit_batch *t = &j->batch;
    const int64_t rows = gf_unit_rows(&j->folder, unit);
    if (unit < t->first || unit >= t->end) TRY(make_batch(err, j, unit));
    int64_t *mutual = calloc((size_t)rows, sizeof *mutual);
    FAIL_IF(err, !mutual, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)rows);
    const int64_t from = (unit - t->first) * j->folder.rows, unit_place = unit * j->folder.rows;
    for (size_t i = first_of(t, from); i < t->count && (int64_t)(t->pair[i] >> 32) < from + rows; i++) {
        const int64_t row = (int64_t)(t->pair[i] >> 32) - from;
        mutual[row]++;
        if (join_mutual(j, j->cells.c.order[unit_place + row], (int32_t)(uint32_t)t->pair[i])) continue;
        free(mutual);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for mutual pairs");
    }
    const glofnd_status status = gf_unit_write_mutual(err, &j->folder, unit, mutual, j->root, &j->joined);
    free(mutual);
    return status;
}

glofnd_status gf_unit_cells_run(gf_error *err, gf_unit_job *j) {
    static const gf_unit_stage centres = {GF_UNIT_CENTRES, make_centres, 0.0, 0.05},
                               cells = {GF_UNIT_CELLS, make_cells, 0.05, 0.25}, rows = {GF_UNIT_ROWS, make_rows, 0.25, 0.28},
                               pairs = {GF_UNIT_PAIRS, make_pairs, 0.28, 0.85}, recall = {GF_UNIT_RECALL, make_recall, 0.85, 0.9},
                               mutual = {GF_UNIT_MUTUAL, make_mutual, 0.9, 1.0};
    TRY(gf_unit_run_stage(err, j, &centres));
    TRY(gf_unit_agree(err, j->u, read_centres(err, j)));
    TRY(gf_unit_run_stage(err, j, &cells));
    TRY(gf_unit_agree(err, j->u, read_cells(err, j)));
    int compared = 0, measured = 0;
    TRY(gf_unit_stage_is_done(err, j, GF_UNIT_PAIRS, &compared));
    TRY(gf_unit_stage_is_done(err, j, GF_UNIT_RECALL, &measured));
    if (!compared || !measured) {
        TRY(gf_unit_run_stage(err, j, &rows));
        TRY(gf_unit_agree(err, j->u, open_rows(err, j)));
    }
    TRY(gf_unit_run_stage(err, j, &pairs));
    if (j->t.probe) TRY(gf_unit_run_stage(err, j, &recall));
    close_rows(j);
    if (j->u->rank == 0) gf_unit_remove_rows(&j->folder); /* makes room for the result */
    if (!j->folder.width) return GLOFND_OK;               /* only duplicates; or the lists have all pairs above */
    TRY(gf_unit_agree(err, j->u, read_thresholds(err, j)));
    const glofnd_status status = gf_unit_run_stage(err, j, &mutual);
    free(j->batch.pair);
    j->batch = (gf_unit_batch){0};
    return status;
}

/* ----- the result ----- */

static void copy_lists(const gf_pairs_found *part, int64_t i, gf_pairs_found *f, int64_t at) {
    memcpy(f->other + at * f->top, part->other + i * f->top, (size_t)f->top * sizeof *f->other);
    memcpy(f->similarity + at * f->top, part->similarity + i * f->top, (size_t)f->top * sizeof *f->similarity);
    if (!f->edge) return;
    memcpy(f->edge_other + at * f->edge, part->edge_other + i * f->edge, (size_t)f->edge * sizeof *f->edge_other);
    memcpy(f->edge_similarity + at * f->edge, part->edge_similarity + i * f->edge, (size_t)f->edge * sizeof *f->edge_similarity);
}

typedef struct placing {  /* the result of a unit, by place, goes to that of all, by position */
    const int32_t *order; /* of the first place */
    const gf_pairs_found *part;
    gf_pairs_found *f;
} placing;

enum { PLACED = 1024 }; /* anchors of a task */

/* Zeros are there: memory that is not written is not taken. */
static void place_anchors(void *arg, int64_t task, int thread) {
    const placing *p = arg;
    const gf_pairs_found *part = p->part;
    gf_pairs_found *f = p->f;
    (void)thread;
    for (int64_t i = task * PLACED; i < GF_MIN((task + 1) * PLACED, part->n); i++) {
        const int64_t at = p->order[i];
        f->lambda[at] = part->lambda[i];
        if (part->above[i]) f->above[at] = part->above[i];
        if (part->mutual[i]) f->mutual[at] = part->mutual[i];
        if (part->hits[i]) f->hits[at] = part->hits[i];
        if (part->copies[i]) f->copies[at] = part->copies[i];
        copy_lists(part, i, f, at);
    }
}

/* part: of one unit. */
static glofnd_status read_part(gf_error *err, gf_unit_job *j, int64_t unit, gf_pairs_found *part, gf_pairs_found *f) {
    const placing p = {j->cells.c.order + unit * j->folder.rows, part, f};
    part->n = gf_unit_rows(&j->folder, unit);
    TRY(gf_unit_read_pairs(err, &j->folder, unit, part, f->copy_root, NULL));
    if (j->folder.width) TRY(gf_unit_read_mutual(err, &j->folder, unit, part->mutual, f->mutual_root));
    gf_parallel(j->s->threads, (part->n + PLACED - 1) / PLACED, place_anchors, (void *)&p);
    f->compared += part->compared;
    return GLOFND_OK;
}

glofnd_status gf_unit_cells_read(gf_error *err, gf_unit_job *j, gf_pairs_found *f) {
    gf_pairs_found part = {0};
    TRY(gf_unit_result_begin(err, j, f));
    glofnd_status status = gf_unit_result_alloc(err, j, j->folder.rows, &part, NULL);
    for (int64_t i = 0; i < j->folder.units && status == GLOFND_OK; i++) status = read_part(err, j, i, &part, f);
    gf_pairs_found_free(&part);
    for (int64_t i = 0; i < j->folder.samples && status == GLOFND_OK; i++) {
        int64_t count[3];
        status = gf_unit_read_recall(err, &j->folder, i, count);
        if (status == GLOFND_OK) f->sampled += count[0], f->wanted += count[1], f->recalled += count[2];
    }
    f->cells = j->folder.cells;
    if (status == GLOFND_OK && j->t.probe && !j->folder.width) gf_lists_mutual(f, j->s->threads);
    gf_unit_result_end(f);
    return status;
}
