/* cells.c - see cells.h. Centroids are those of k-means on a sample; any centroids would do, good ones leave out more. */
#include "pairs/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/parallel.h"
#include "util/rng.h"

/* Cells around a cell: for each that is probed; but at least, and at most so many, while these are some times the probed
 * ones */
enum { AROUND = 64, AROUND_MIN = 512, AROUND_MAX = GF_STRIP_COLS, AROUND_TIMES = 4 };
/* Points per centroid for k-means, fewer where there are many; rows of a cell, in the mean, where there are many; rows of a
 * block */
enum { SAMPLE = 64, SAMPLE_MIN = 32, SAMPLED = 1 << 20, SEED = 1, ROWS = 1024, BLOCK = 16384 };

double gf_cells_angle(float similarity) { return acos(fmin(fmax((double)similarity, -1.0), 1.0)); }

/* acos is steepest at 1: there an error e of the similarity becomes acos(1 - e). e: twice that of equal rows (discover.h). */
double gf_cells_slack(int64_t dim) { return acos(1.0 - 2.0 * (0x1p-21 + 0x1p-26 * (double)dim)); }

/* About 2 sqrt(n), while that makes cells of fewer rows. */
int64_t gf_cells_count(int64_t n) {
    const int64_t count = GF_MAX((int64_t)(2.0 * sqrt((double)n)), n / ROWS);
    return GF_MAX(GF_MIN(count, n / SAMPLE), 1);
}

/* ----- centroids ----- */

int64_t gf_cells_sample(int64_t n, int64_t count, int32_t *position) {
    const int64_t sampled = GF_MIN(n, GF_MIN(SAMPLE * count, GF_MAX(SAMPLED, SAMPLE_MIN * count)));
    for (int64_t i = 0; position && i < sampled; i++) position[i] = (int32_t)gf_permute(SEED, 1, n, i);
    return sampled;
}

static glofnd_status find_centres(gf_error *err, const gf_vectors *rows, const gf_sweep_job *job, gf_cells *c) {
    const int64_t n = gf_cells_sample(rows->n, c->count, NULL);
    int32_t *row = malloc((size_t)n * sizeof *row);
    float *numbers = malloc((size_t)gf_tree_numbers(c->count, c->dim) * sizeof *numbers);
    glofnd_status status = row && numbers ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for cells");
    const gf_vectors sample = {.x = rows->x, .row = row, .n = n, .dim = rows->dim, .name = rows->name};
    if (status == GLOFND_OK) {
        gf_cells_sample(rows->n, c->count, row);
        for (int64_t i = 0; rows->row && i < n; i++) row[i] = rows->row[row[i]];
        status = gf_tree_make(err, &sample, c->count, job, numbers);
    }
    if (status == GLOFND_OK) status = gf_tree_open(err, numbers, c->count, c->dim, job->threads, &c->tree);
    free(row);
    free(numbers);
    return status;
}

/* ----- cells ----- */

typedef struct assignment {
    gf_tree_search s;
    const gf_panels *points;
    const gf_sweep_job *job;
    gf_cell_of *of;
    _Atomic int64_t done; /* points */
} assignment;

static void assign_block(void *arg, int64_t number, int thread) {
    assignment *x = arg;
    const int64_t at = number * x->s.block, rows = GF_MIN(x->s.block, x->points->n - at), own = (int64_t)thread * x->s.block;
    if (gf_job_stopped(&x->job->watch)) return;
    gf_tree_near(&x->s, x->points, at, rows, thread);
    for (int64_t i = 0; i < rows; i++) {
        const uint64_t key = x->s.near.key[(own + i) * x->s.near.capacity];
        x->of[at + i] = (gf_cell_of){.similarity = gf_best_value(key), .cell = (int32_t)gf_best_other(key)};
    }
    const int64_t done = atomic_fetch_add(&x->done, rows) + rows;
    if (thread == 0) gf_job_report(&x->job->watch, (double)done / (double)x->points->n);
}

glofnd_status gf_cells_assign(gf_error *err, const gf_panels *points, const gf_cell_tree *tree, const gf_sweep_job *job,
                              gf_cell_of *of) {
    const int64_t fair = gf_pad((points->n + job->threads - 1) / job->threads), block = GF_MIN(fair, BLOCK);
    assignment x = {.points = points, .job = job, .of = of};
    TRY(gf_tree_search_init(err, &x.s, tree, 1, block, job->threads));
    gf_parallel(job->threads, (points->n + block - 1) / block, assign_block, &x);
    gf_tree_search_free(&x.s);
    FAIL_IF(err, gf_job_stopped(&job->watch), GLOFND_E_ARGUMENT, "stopped");
    return GLOFND_OK;
}

/* ----- cells around a cell ----- */

typedef struct surrounding {
    gf_tree_search s;
    gf_cells *c;
} surrounding;

static void surround_block(void *arg, int64_t number, int thread) {
    surrounding *x = arg;
    gf_cells *c = x->c;
    const int64_t at = number * x->s.block, rows = GF_MIN(x->s.block, c->count - at), own = (int64_t)thread * x->s.block;
    const gf_best *near = &x->s.near;
    gf_tree_near(&x->s, &c->tree.centres, at, rows, thread);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < c->around; k++)
            c->nearby[(at + i) * c->around + k] =
                k < near->count[own + i] ? (int32_t)gf_best_other(near->key[(own + i) * near->capacity + k]) : -1;
}

glofnd_status gf_cells_surround(gf_error *err, gf_cells *c, int64_t probe, int threads) {
    const int64_t around = GF_MIN(GF_MIN(GF_MAX(AROUND * probe, AROUND_MIN), AROUND_MAX), c->count), block = 8 * GF_PANEL;
    surrounding x = {.c = c};
    if (c->nearby || probe >= c->count || AROUND_TIMES * probe > AROUND_MAX) return GLOFND_OK;
    int32_t *nearby = malloc((size_t)(c->count * around) * sizeof *nearby);
    FAIL_IF(err, !nearby, GLOFND_E_MEMORY, "no memory for the cells around %lld cells", (long long)c->count);
    const glofnd_status status = gf_tree_search_init(err, &x.s, &c->tree, around, block, threads);
    if (status != GLOFND_OK) {
        free(nearby);
        return status;
    }
    c->nearby = nearby, c->around = around;
    gf_parallel(threads, (c->count + block - 1) / block, surround_block, &x);
    gf_tree_search_free(&x.s);
    return GLOFND_OK;
}

int64_t gf_cells_at(const gf_cells *c, int64_t place) {
    int64_t low = 0, high = c->count - 1; /* the last one that begins at or before it: empty ones begin where the next does */
    while (low < high) {
        const int64_t mid = low + (high - low + 1) / 2;
        if (c->start[mid] <= place) low = mid;
        else high = mid - 1;
    }
    return low;
}

/* ----- rows by cell ----- */

typedef struct placed {
    float similarity;
    int32_t position;
} placed;

static int by_angle(const void *x, const void *y) {
    const placed *a = x, *b = y;
    if (a->similarity != b->similarity) return a->similarity > b->similarity ? -1 : 1;
    return (a->position > b->position) - (a->position < b->position);
}

typedef struct sorting {
    placed *p; /* [n] by cell */
    gf_cells *c;
} sorting;

static void sort_cell(void *arg, int64_t cell, int thread) {
    const sorting *x = arg;
    gf_cells *c = x->c;
    (void)thread;
    qsort(x->p + c->start[cell], (size_t)(c->start[cell + 1] - c->start[cell]), sizeof *x->p, by_angle);
    for (int64_t i = c->start[cell]; i < c->start[cell + 1]; i++)
        c->order[i] = x->p[i].position, c->angle[i] = (float)gf_cells_angle(x->p[i].similarity);
}

/* start[k + 1] counts up to the end of cell k while points are put there; at last it is the end. */
static void put_into_cells(const gf_cell_of *of, const sorting *x) {
    gf_cells *c = x->c;
    for (int64_t i = 0; i < c->n; i++) c->start[of[i].cell + 1]++;
    int64_t at = 0;
    for (int64_t k = 0; k < c->count; k++) {
        const int64_t here = c->start[k + 1];
        c->start[k + 1] = at;
        at += here;
    }
    for (int64_t i = 0; i < c->n; i++) x->p[c->start[of[i].cell + 1]++] = (placed){of[i].similarity, (int32_t)i};
}

glofnd_status gf_cells_sort(gf_error *err, const gf_cell_of *of, int threads, gf_cells *c) {
    sorting x = {malloc((size_t)c->n * sizeof *x.p), c};
    c->order = malloc((size_t)c->n * sizeof *c->order);
    c->angle = malloc((size_t)c->n * sizeof *c->angle);
    c->start = calloc((size_t)c->count + 1, sizeof *c->start);
    glofnd_status status = GLOFND_OK;
    if (!x.p || !c->order || !c->angle || !c->start)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)c->n);
    if (status == GLOFND_OK) put_into_cells(of, &x);
    if (status == GLOFND_OK) gf_parallel(threads, c->count, sort_cell, &x);
    free(x.p);
    return status;
}

/* The points, in the order of cells. */
static glofnd_status place_points(gf_error *err, const gf_vectors *rows, int threads, gf_cells *c) {
    int32_t *row = malloc((size_t)c->n * sizeof *row);
    FAIL_IF(err, !row, GLOFND_E_MEMORY, "no memory for cells");
    for (int64_t i = 0; i < c->n; i++) row[i] = rows->row ? rows->row[c->order[i]] : c->order[i];
    gf_panels_free(&c->points);
    const gf_vectors sorted = {.x = rows->x, .row = row, .n = c->n, .dim = c->dim, .name = rows->name};
    const glofnd_status status = gf_panels_pack(err, &sorted, threads, &c->points);
    free(row);
    return status;
}

static glofnd_status make(gf_error *err, const gf_vectors *rows, const gf_sweep_job *job, gf_cells *c) {
    gf_cell_of *of = malloc((size_t)c->n * sizeof *of);
    glofnd_status status = of ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)c->n);
    if (status == GLOFND_OK) status = find_centres(err, rows, job, c);
    if (status == GLOFND_OK) status = gf_panels_pack(err, rows, job->threads, &c->points);
    if (status == GLOFND_OK) status = gf_cells_assign(err, &c->points, &c->tree, job, of);
    if (status == GLOFND_OK) status = gf_cells_sort(err, of, job->threads, c);
    if (status == GLOFND_OK) status = place_points(err, rows, job->threads, c);
    free(of);
    return status;
}

glofnd_status gf_cells_make(gf_error *err, const gf_vectors *rows, int64_t count, const gf_sweep_job *job, gf_cells *out) {
    gf_cells c = {.n = rows->n, .dim = rows->dim, .count = count ? count : gf_cells_count(rows->n)};
    const glofnd_status status = make(err, rows, job, &c);
    if (status == GLOFND_OK) *out = c;
    else gf_cells_free(&c);
    return status;
}

void gf_cells_free(gf_cells *c) {
    gf_tree_free(&c->tree);
    gf_panels_free(&c->points);
    free(c->order);
    free(c->angle);
    free(c->start);
    free(c->nearby);
    *c = (gf_cells){0};
}
