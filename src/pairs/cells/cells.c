/* cells.c - see cells.h. Centroids are those of k-means on a sample; any centroids would do, good ones leave out more. */
#include "pairs/cells/cells.h"

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
    float *confidence = malloc((size_t)sample->n * sizeof *confidence);
    glofnd_status status = sum && of && confidence ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for centroids");
    const gf_kmeans k = {.groups = count, .iterations = ITERATIONS, .seed = SEED, .tau = 1.0};
    const gf_sweep_job quiet = {.threads = job->threads, .watch = {.stop = job->watch.stop}};
    if (status == GLOFND_OK && count > 1) status = gf_kmeans_run(err, &k, sample, &quiet, of, confidence);
    if (status == GLOFND_OK) {
        add_up(sample, of, sum);
        for (int64_t g = 0; g < count; g++) set_centre(sample, g, sum + g * dim, centre + g * dim);
    }
    free(sum);
    free(of);
    free(confidence);
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

static void visit(void *user, const gf_strip *t, int thread) {
    gf_cell_of *best = user;
    (void)thread;
    for (int r = 0; r < t->rows; r++) {
        gf_cell_of *b = &best[t->r0 + r];
        const float *s = t->s + (size_t)r * t->ld;
        if (t->c0 == 0) *b = (gf_cell_of){.similarity = -INFINITY};
        for (int j = 0; j < t->cols; j++)
            if (s[j] > b->similarity) b->similarity = s[j], b->cell = (int32_t)(t->c0 + j);
    }
}

glofnd_status gf_cells_assign(gf_error *err, const gf_panels *points, const gf_panels *centres, const gf_sweep_job *job,
                              gf_cell_of *of) {
    return gf_sweep_rows(err, points, centres, GF_SWEEP_GROUP, job, visit, of);
}

typedef struct placed {
    gf_cell_of of;
    int32_t position;
} placed;

static int by_cell_and_angle(const void *x, const void *y) {
    const placed *a = x, *b = y;
    if (a->of.cell != b->of.cell) return a->of.cell < b->of.cell ? -1 : 1;
    if (a->of.similarity != b->of.similarity) return a->of.similarity > b->of.similarity ? -1 : 1;
    return (a->position > b->position) - (a->position < b->position);
}

glofnd_status gf_cells_sort(gf_error *err, const gf_cell_of *of, gf_cells *c) {
    placed *p = malloc((size_t)c->n * sizeof *p);
    c->order = malloc((size_t)c->n * sizeof *c->order);
    c->angle = malloc((size_t)c->n * sizeof *c->angle);
    c->start = calloc((size_t)c->count + 1, sizeof *c->start);
    if (!p || !c->order || !c->angle || !c->start) {
        free(p);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)c->n);
    }
    for (int64_t i = 0; i < c->n; i++) p[i] = (placed){of[i], (int32_t)i};
    qsort(p, (size_t)c->n, sizeof *p, by_cell_and_angle);
    for (int64_t i = 0; i < c->n; i++) {
        c->order[i] = p[i].position;
        c->angle[i] = (float)gf_cells_angle(p[i].of.similarity);
        c->start[p[i].of.cell + 1] = i + 1;
    }
    for (int64_t k = 1; k <= c->count; k++) c->start[k] = GF_MAX(c->start[k], c->start[k - 1]);
    free(p);
    return GLOFND_OK;
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
    if (status == GLOFND_OK) status = gf_cells_sort(err, of, c);
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
