/* cells.c - see cells.h. Centroids are those of k-means on a sample; any centroids would do, good ones leave out more. */
#include "pairs/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pairs/kmeans.h"
#include "util/minmax.h"
#include "util/rng.h"

enum { SAMPLE = 64, ITERATIONS = 6, SEED = 1 }; /* points per centroid for k-means */

double gf_cells_angle(float similarity) { return acos(fmin(fmax((double)similarity, -1.0), 1.0)); }

/* acos is steepest at 1: there an error e of the similarity becomes acos(1 - e). e: twice that of equal rows (discover.h). */
double gf_cells_slack(int64_t dim) { return acos(1.0 - 2.0 * (0x1p-21 + 0x1p-26 * (double)dim)); }

static int64_t chosen_count(int64_t n) { return GF_MAX(GF_MIN((int64_t)(2.0 * sqrt((double)n)), n / SAMPLE), 1); }

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

static glofnd_status pack_centres(gf_error *err, const gf_vectors *sample, const int32_t *of, int threads, gf_cells *c) {
    const size_t numbers = (size_t)(c->count * c->dim);
    double *sum = calloc(numbers, sizeof *sum);
    float *centre = malloc(numbers * sizeof *centre);
    glofnd_status status = sum && centre ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for centroids");
    if (status == GLOFND_OK) {
        add_up(sample, of, sum);
        for (int64_t g = 0; g < c->count; g++) set_centre(sample, g, sum + g * c->dim, centre + g * c->dim);
        const gf_vectors v = {.x = centre, .n = c->count, .dim = c->dim, .name = "centroid"};
        status = gf_panels_pack(err, &v, threads, &c->centres);
    }
    free(sum);
    free(centre);
    return status;
}

static glofnd_status find_centres(gf_error *err, const gf_vectors *rows, const gf_sweep_job *job, gf_cells *c) {
    const int64_t n = GF_MIN(rows->n, SAMPLE * c->count);
    int32_t *row = malloc((size_t)n * sizeof *row), *of = calloc((size_t)n, sizeof *of);
    float *confidence = malloc((size_t)n * sizeof *confidence);
    glofnd_status status = row && of && confidence ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for cells");
    const gf_vectors sample = {.x = rows->x, .row = row, .n = n, .dim = rows->dim, .name = rows->name};
    if (status == GLOFND_OK) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = n < rows->n ? gf_permute(SEED, 1, rows->n, i) : i;
            row[i] = rows->row ? rows->row[at] : (int32_t)at;
        }
        const gf_kmeans k = {.groups = c->count, .iterations = ITERATIONS, .seed = SEED, .tau = 1.0};
        const gf_sweep_job quiet = {.threads = job->threads, .watch = {.stop = job->watch.stop}};
        if (c->count > 1) status = gf_kmeans_run(err, &k, &sample, &quiet, of, confidence);
    }
    if (status == GLOFND_OK) status = pack_centres(err, &sample, of, job->threads, c);
    free(row);
    free(of);
    free(confidence);
    return status;
}

/* ----- cells ----- */

typedef struct nearest_centre {
    float similarity;
    int32_t cell, position;
} nearest_centre;

static void visit(void *user, const gf_strip *t, int thread) {
    nearest_centre *best = user;
    (void)thread;
    for (int r = 0; r < t->rows; r++) {
        nearest_centre *b = &best[t->r0 + r];
        const float *s = t->s + (size_t)r * t->ld;
        if (t->c0 == 0) *b = (nearest_centre){.similarity = -INFINITY, .position = (int32_t)(t->r0 + r)};
        for (int j = 0; j < t->cols; j++)
            if (s[j] > b->similarity) b->similarity = s[j], b->cell = (int32_t)(t->c0 + j);
    }
}

static int by_cell_and_angle(const void *x, const void *y) {
    const nearest_centre *a = x, *b = y;
    if (a->cell != b->cell) return a->cell < b->cell ? -1 : 1;
    if (a->similarity != b->similarity) return a->similarity > b->similarity ? -1 : 1;
    return (a->position > b->position) - (a->position < b->position);
}

static glofnd_status sort_points(gf_error *err, const gf_vectors *rows, nearest_centre *best, int threads, gf_cells *c) {
    int32_t *row = malloc((size_t)c->n * sizeof *row);
    FAIL_IF(err, !row, GLOFND_E_MEMORY, "no memory for cells");
    qsort(best, (size_t)c->n, sizeof *best, by_cell_and_angle);
    for (int64_t i = 0; i < c->n; i++) {
        c->order[i] = best[i].position;
        c->angle[i] = (float)gf_cells_angle(best[i].similarity);
        c->start[best[i].cell + 1] = i + 1;
        row[i] = rows->row ? rows->row[best[i].position] : best[i].position;
    }
    for (int64_t k = 1; k <= c->count; k++) c->start[k] = GF_MAX(c->start[k], c->start[k - 1]);
    gf_panels_free(&c->points);
    const gf_vectors sorted = {.x = rows->x, .row = row, .n = c->n, .dim = c->dim, .name = rows->name};
    const glofnd_status status = gf_panels_pack(err, &sorted, threads, &c->points);
    free(row);
    return status;
}

static glofnd_status make(gf_error *err, const gf_vectors *rows, const gf_sweep_job *job, gf_cells *c) {
    nearest_centre *best = malloc((size_t)c->n * sizeof *best);
    c->order = malloc((size_t)c->n * sizeof *c->order);
    c->angle = malloc((size_t)c->n * sizeof *c->angle);
    c->start = calloc((size_t)c->count + 1, sizeof *c->start);
    glofnd_status status = best && c->order && c->angle && c->start
                               ? GLOFND_OK
                               : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)c->n);
    if (status == GLOFND_OK) status = find_centres(err, rows, job, c);
    if (status == GLOFND_OK) status = gf_panels_pack(err, rows, job->threads, &c->points);
    if (status == GLOFND_OK) status = gf_sweep_rows(err, &c->points, &c->centres, GF_SWEEP_GROUP, job, visit, best);
    if (status == GLOFND_OK) status = sort_points(err, rows, best, job->threads, c);
    free(best);
    return status;
}

glofnd_status gf_cells_make(gf_error *err, const gf_vectors *rows, int64_t count, const gf_sweep_job *job, gf_cells *out) {
    gf_cells c = {.n = rows->n, .dim = rows->dim, .count = count ? count : chosen_count(rows->n)};
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
