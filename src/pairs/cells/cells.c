/* cells.c - see cells.h. Centroids are those of k-means on a sample; any centroids would do, good ones leave out more. */
#include "pairs/cells/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/kmeans.h"
#include "util/minmax.h"
#include "util/parallel.h"
#include "util/rng.h"

enum { SAMPLE = 64, ITERATIONS = 6, SEED = 1 }; /* points per centroid for k-means */

double gf_cells_angle(float similarity) { return acos(fmin(fmax((double)similarity, -1.0), 1.0)); }

/* acos is steepest at 1: there an error e of the similarity becomes acos(1 - e). e: twice that of equal rows (discover.h). */
double gf_cells_slack(int64_t dim) { return acos(1.0 - 2.0 * (0x1p-21 + 0x1p-26 * (double)dim)); }

int64_t gf_cells_count(int64_t n) { return GF_MAX(GF_MIN((int64_t)(2.0 * sqrt((double)n)), n / SAMPLE), 1); }

/* ----- centroids ----- */

static const float *row_at(const gf_vectors *v, int64_t i) { return v->x + (int64_t)(v->row ? v->row[i] : i) * v->dim; }

/* centre [count][dim]: sums of the unit vectors of a group. */
static void add_up(const gf_vectors *v, const int32_t *of, double *centre) {
    for (int64_t i = 0; i < v->n; i++) {
        const float *x = row_at(v, i);
        double square = 0.0;
        for (int64_t k = 0; k < v->dim; k++) square += (double)x[k] * (double)x[k];
        const double scale = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
        for (int64_t k = 0; k < v->dim; k++) centre[of[i] * v->dim + k] += scale * (double)x[k];
    }
}

/* A sum of zeros has no direction: the centroid of an empty group, or of opposite points, is a point of the sample. */
static void set_centre(const gf_vectors *sample, int64_t group, const double *sum, float *centre) {
    double square = 0.0;
    for (int64_t k = 0; k < sample->dim; k++) square += sum[k] * sum[k];
    for (int64_t k = 0; k < sample->dim; k++) centre[k] = square > 1e-12 ? (float)sum[k] : row_at(sample, group)[k];
}

int64_t gf_cells_sample(int64_t n, int64_t count, int32_t *position) {
    const int64_t sampled = GF_MIN(n, SAMPLE * count);
    for (int64_t i = 0; position && i < sampled; i++) position[i] = (int32_t)(sampled < n ? gf_permute(SEED, 1, n, i) : i);
    return sampled;
}

glofnd_status gf_cells_centres(gf_error *err, const gf_vectors *sample, int64_t count, const gf_sweep_job *job, float *centre) {
    const int64_t dim = sample->dim;
    double *sum = calloc((size_t)(count * dim), sizeof *sum);
    int32_t *of = calloc((size_t)sample->n, sizeof *of);
    glofnd_status status = sum && of ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for centroids");
    const gf_kmeans k = {.groups = count, .iterations = ITERATIONS, .seed = SEED, .tau = 1.0};
    const gf_sweep_job quiet = {.threads = job->threads, .watch = {.stop = job->watch.stop}};
    if (status == GLOFND_OK && count > 1) status = gf_kmeans_run(err, &k, sample, &quiet, of, NULL);
    if (status == GLOFND_OK) {
        add_up(sample, of, sum);
        for (int64_t g = 0; g < count; g++) set_centre(sample, g, sum + g * dim, centre + g * dim);
    }
    free(sum);
    free(of);
    return status;
}

glofnd_status gf_cells_pack_centres(gf_error *err, const float *centre, int64_t count, int64_t dim, int threads, gf_panels *out) {
    const gf_vectors v = {.x = centre, .n = count, .dim = dim, .name = "centroid"};
    return gf_panels_pack(err, &v, threads, out);
}

static glofnd_status find_centres(gf_error *err, const gf_vectors *rows, const gf_sweep_job *job, gf_cells *c) {
    const int64_t n = gf_cells_sample(rows->n, c->count, NULL);
    int32_t *row = malloc((size_t)n * sizeof *row);
    float *centre = malloc((size_t)(c->count * c->dim) * sizeof *centre);
    glofnd_status status = row && centre ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for cells");
    const gf_vectors sample = {.x = rows->x, .row = row, .n = n, .dim = rows->dim, .name = rows->name};
    if (status == GLOFND_OK) {
        gf_cells_sample(rows->n, c->count, row);
        for (int64_t i = 0; rows->row && i < n; i++) row[i] = rows->row[row[i]];
        status = gf_cells_centres(err, &sample, c->count, job, centre);
    }
    if (status == GLOFND_OK) status = gf_cells_pack_centres(err, centre, c->count, c->dim, job->threads, &c->centres);
    free(row);
    free(centre);
    return status;
}

/* ----- cells ----- */

/* The first of the most similar centroids. */
static void visit(void *user, const gf_strip *t, int thread) {
    gf_cell_of *best = user;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    int32_t at[GF_STRIP_COLS];
    (void)thread;
    for (int r = 0; r < t->rows; r++) {
        gf_cell_of *b = &best[t->r0 + r];
        const float *s = t->s + (size_t)r * t->ld;
        if (t->c0 == 0) *b = (gf_cell_of){.similarity = s[0]};
        const int found = ops->reach(at, s, (int)gf_pad(t->cols), b->similarity, NULL);
        for (int k = 0; k < found && at[k] < t->cols; k++)
            if (s[at[k]] > b->similarity) b->similarity = s[at[k]], b->cell = (int32_t)(t->c0 + at[k]);
    }
}

glofnd_status gf_cells_assign(gf_error *err, const gf_panels *points, const gf_panels *centres, const gf_sweep_job *job,
                              gf_cell_of *of) {
    return gf_sweep_rows(err, points, centres, GF_SWEEP_GROUP, job, visit, of);
}

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
    if (status == GLOFND_OK) status = gf_cells_assign(err, &c->points, &c->centres, job, of);
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
    gf_panels_free(&c->centres);
    gf_panels_free(&c->points);
    free(c->order);
    free(c->angle);
    free(c->start);
    *c = (gf_cells){0};
}
