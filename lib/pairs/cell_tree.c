/* cell_tree.c - see cell_tree.h: making a tree. cell_tree_near.c searches it. */
#include "pairs/cell_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/kmeans.h"
#include "util/array.h"
#include "util/parallel.h"

enum { THROUGH = 8, FLAT = 4096 };                     /* groups; cells up to which all groups are looked into */
enum { ITERATIONS = 6, SEED = 1, GROUP_SAMPLE = 256 }; /* the last: vectors per group for k-means of the groups */

/* ----- sizes ----- */

/* So that comparing with all groups, and with the cells of THROUGH of them, is the least work. */
static int64_t groups_of(int64_t count) {
    return count <= THROUGH ? 1 : GF_MIN((int64_t)sqrt((double)THROUGH * (double)count), count);
}

int64_t gf_tree_through(const gf_cell_tree *t, int64_t probe) {
    const int64_t wanted =
        (2 * GF_MIN(probe, t->count) * t->groups + t->count - 1) / t->count; /* twice as many cells as asked for */
    return probe >= t->count ? t->groups : GF_MIN(GF_MAX(wanted, t->through), t->groups);
}

/* Centroids of groups, those of cells, and the first cells of groups as int32 in the same words. */
int64_t gf_tree_numbers(int64_t count, int64_t dim) { return (groups_of(count) + count) * dim + groups_of(count) + 1; }

typedef struct tree_numbers {
    float *group, *cell; /* [groups][dim], [count][dim] */
    float *first;        /* [groups + 1] */
} tree_numbers;

static tree_numbers parts_of(float *numbers, int64_t count, int64_t dim) {
    const int64_t groups = groups_of(count);
    return (tree_numbers){numbers, numbers + groups * dim, numbers + (groups + count) * dim};
}

/* ----- centroids ----- */

/* centre [groups][dim]: sums of the unit vectors of a group. */
static void add_up(const gf_vectors *v, const int32_t *of, double *centre) {
    for (int64_t i = 0; i < v->n; i++) {
        const float *x = gf_vector_at(v, i);
        int finite;
        const double scale = gf_vector_unit_scale(x, v->dim, &finite);
        for (int64_t k = 0; k < v->dim; k++) centre[of[i] * v->dim + k] += scale * (double)x[k];
    }
}

/* A sum of zeros has no direction: the centroid of an empty group, or of opposite points, is a point of the sample. */
static void set_centre(const gf_vectors *sample, int64_t group, const double *sum, float *centre) {
    double square = 0.0;
    for (int64_t k = 0; k < sample->dim; k++) square += sum[k] * sum[k];
    for (int64_t k = 0; k < sample->dim; k++) centre[k] = square > 1e-12 ? (float)sum[k] : gf_vector_at(sample, group)[k];
}

/* centre [groups][dim], groups <= sample->n */
static glofnd_status find_centres(gf_error *err, const gf_vectors *sample, int64_t groups, const gf_sweep_job *job,
                                  float *centre) {
    const int64_t dim = sample->dim;
    double *sum = calloc((size_t)(groups * dim), sizeof *sum);
    int32_t *of = calloc((size_t)sample->n, sizeof *of);
    glofnd_status status = sum && of ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for centroids");
    const gf_kmeans k = {.groups = groups, .iterations = ITERATIONS, .seed = SEED, .tau = 1.0};
    if (status == GLOFND_OK && groups > 1) status = gf_kmeans_run(err, &k, sample, job, of, NULL);
    if (status == GLOFND_OK) {
        add_up(sample, of, sum);
        for (int64_t g = 0; g < groups; g++) set_centre(sample, g, sum + g * dim, centre + g * dim);
    }
    free(sum);
    free(of);
    return status;
}

/* ----- groups of the sample ----- */

/* The first of the most similar groups. */
typedef struct nearest_group {
    float similarity;
    int32_t group;
} nearest_group;

static void visit(void *user, const gf_strip *t, int thread) {
    nearest_group *best = user;
    (void)thread;
    for (int r = 0; r < t->rows; r++) {
        nearest_group *b = &best[t->r0 + r];
        const float *s = t->s + (size_t)r * t->ld;
        if (t->c0 == 0) *b = (nearest_group){.similarity = s[0]};
        for (int k = 0; k < t->cols; k++)
            if (s[k] > b->similarity) b->similarity = s[k], b->group = (int32_t)(t->c0 + k);
    }
}

typedef struct making {
    const gf_vectors *sample;
    const gf_sweep_job *job;
    int64_t count, groups;
    tree_numbers out;
    int64_t *start;    /* [groups + 1] first member of a group */
    int32_t *member;   /* [sample->n] rows of sample->x, by group */
    int64_t *first;    /* [groups + 1] cells */
    atomic_int status; /* of the first failure */
} making;

/* start, member and first. Each group has one cell, and of the others its share by members. */
static void deal_out(making *m, const nearest_group *of) {
    const gf_vectors *s = m->sample;
    for (int64_t i = 0; i < s->n; i++) m->start[of[i].group + 1]++;
    for (int64_t g = 0; g < m->groups; g++) {
        m->start[g + 1] += m->start[g];
        m->first[g + 1] = g + 1 + (int64_t)((double)(m->count - m->groups) * ((double)m->start[g + 1] / (double)s->n));
    }
    m->first[m->groups] = m->count;
    for (int64_t i = 0; i < s->n; i++) m->member[m->start[of[i].group]++] = s->row ? s->row[i] : (int32_t)i;
    for (int64_t g = m->groups; g > 0; g--) m->start[g] = m->start[g - 1];
    m->start[0] = 0;
}

static glofnd_status find_groups(gf_error *err, making *m) {
    const gf_vectors *s = m->sample;
    gf_vectors some = *s;
    gf_panels points = {0}, centres = {0};
    some.n = GF_MIN(s->n, GROUP_SAMPLE * m->groups); /* the sample is in random order */
    TRY(find_centres(err, &some, GF_MIN(m->groups, s->n), m->job, m->out.group));
    for (int64_t g = s->n; g < m->groups; g++) /* more groups than vectors: these stay empty */
        memcpy(m->out.group + g * s->dim, m->out.group, (size_t)s->dim * sizeof *m->out.group);
    nearest_group *of = calloc((size_t)s->n, sizeof *of);
    FAIL_IF(err, !of, GLOFND_E_MEMORY, "no memory for %lld vectors of a sample", (long long)s->n);
    const gf_vectors groups = {.x = m->out.group, .n = m->groups, .dim = s->dim, .name = "centroid"};
    glofnd_status status = gf_panels_pack(err, &groups, m->job->threads, &centres);
    if (status == GLOFND_OK) status = gf_panels_pack(err, s, m->job->threads, &points);
    if (status == GLOFND_OK) status = gf_sweep_rows(err, &points, &centres, GF_SWEEP_GROUP, m->job, visit, of);
    if (status == GLOFND_OK) deal_out(m, of);
    gf_panels_free(&points);
    gf_panels_free(&centres);
    free(of);
    return status;
}

/* ----- cells of a group ----- */

static void split_group(void *arg, int64_t g, int thread) {
    making *m = arg;
    const int64_t dim = m->sample->dim, cells = m->first[g + 1] - m->first[g], members = m->start[g + 1] - m->start[g];
    const gf_vectors own = {.x = m->sample->x, .row = m->member + m->start[g], .n = members, .dim = dim, .name = m->sample->name};
    const gf_sweep_job quiet = {.threads = 1, .watch = {.stop = m->job->watch.stop}};
    float *centre = m->out.cell + m->first[g] * dim;
    gf_error ignored;
    if (atomic_load(&m->status) != GLOFND_OK) return;
    const int64_t found = GF_MIN(cells, members);
    const glofnd_status status = found ? find_centres(&ignored, &own, found, &quiet, centre) : GLOFND_OK;
    for (int64_t c = found; c < cells; c++) /* more cells than members: these stay empty */
        memcpy(centre + c * dim, found ? centre : m->out.group + g * dim, (size_t)dim * sizeof *centre);
    if (status != GLOFND_OK) atomic_store(&m->status, (int)status);
    if (thread == 0) gf_job_report(&m->job->watch, 0.3 + 0.7 * (double)(g + 1) / (double)m->groups);
}

static glofnd_status split_groups(gf_error *err, making *m) {
    gf_parallel(m->job->threads, m->groups, split_group, m);
    FAIL_IF(err, gf_job_stopped(&m->job->watch), GLOFND_E_ARGUMENT, "stopped");
    FAIL_IF(err, m->status != GLOFND_OK, (glofnd_status)m->status, "no memory for the centroids of %lld cells",
            (long long)m->count);
    for (int64_t g = 0; g <= m->groups; g++) {
        const int32_t first = (int32_t)m->first[g];
        memcpy(m->out.first + g, &first, sizeof first);
    }
    return GLOFND_OK;
}

glofnd_status gf_tree_make(gf_error *err, const gf_vectors *sample, int64_t count, const gf_sweep_job *job, float *numbers) {
    making m = {
        .sample = sample, .job = job, .count = count, .groups = groups_of(count), .out = parts_of(numbers, count, sample->dim)};
    const gf_sweep_job quiet = {.threads = job->threads, .watch = {.stop = job->watch.stop}};
    m.start = calloc((size_t)m.groups + 1, sizeof *m.start);
    m.first = calloc((size_t)m.groups + 1, sizeof *m.first);
    m.member = malloc((size_t)sample->n * sizeof *m.member);
    glofnd_status status = m.start && m.first && m.member
                               ? GLOFND_OK
                               : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld vectors of a sample", (long long)sample->n);
    m.job = &quiet;
    if (status == GLOFND_OK) status = find_groups(err, &m);
    m.job = job;
    if (status == GLOFND_OK) status = split_groups(err, &m);
    free(m.start);
    free(m.first);
    free(m.member);
    return status;
}

/* ----- a tree ----- */

static glofnd_status take_first(gf_error *err, const float *words, gf_cell_tree *t) {
    t->first = malloc(((size_t)t->groups + 1) * sizeof *t->first);
    FAIL_IF(err, !t->first, GLOFND_E_MEMORY, "no memory for cells");
    for (int64_t g = 0; g <= t->groups; g++) {
        int32_t first;
        memcpy(&first, words + g, sizeof first);
        t->first[g] = first;
        const int64_t before = g ? t->first[g - 1] : 0;
        FAIL_IF(err, first < before || first > t->count || (g == 0 && first != 0) || (g == t->groups && first != t->count),
                GLOFND_E_FORMAT, "centroids that are no tree of %lld cells", (long long)t->count);
    }
    return GLOFND_OK;
}

glofnd_status gf_tree_open(gf_error *err, const float *numbers, int64_t count, int64_t dim, int threads, gf_cell_tree *out) {
    gf_cell_tree t = {.count = count, .dim = dim, .groups = groups_of(count)};
    t.through = count <= FLAT ? t.groups : GF_MIN(THROUGH, t.groups);
    const gf_vectors groups = {.x = numbers, .n = t.groups, .dim = dim, .name = "centroid"},
                     cells = {.x = numbers + t.groups * dim, .n = count, .dim = dim, .name = "centroid"};
    glofnd_status status = take_first(err, numbers + (t.groups + count) * dim, &t);
    if (status == GLOFND_OK) status = gf_panels_pack(err, &groups, threads, &t.group_centres);
    if (status == GLOFND_OK) status = gf_panels_pack(err, &cells, threads, &t.centres);
    if (status == GLOFND_OK) *out = t;
    else gf_tree_free(&t);
    return status;
}

void gf_tree_free(gf_cell_tree *t) {
    gf_panels_free(&t->centres);
    gf_panels_free(&t->group_centres);
    free(t->first);
    *t = (gf_cell_tree){0};
}
