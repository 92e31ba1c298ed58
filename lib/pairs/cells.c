/* cells.c - see cells.h: the tree of centroids, made and searched; then rows in cells, in memory or as they pass by. */
#include "pairs/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/kmeans.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/rng.h"

enum { THROUGH = 8, FLAT = 4096 };                          /* groups; cells up to which all groups are looked into */
enum { ITERATIONS = 6, TREE_SEED = 1, GROUP_SAMPLE = 256 }; /* the last: vectors per group for k-means of the groups */

/* ---------- making a tree ---------- */

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

/* ----- centroids ----- */

/* centre [groups][dim], groups <= sample->n */
static glofnd_status mean_directions(gf_error *err, const gf_vectors *sample, int64_t groups, const gf_sweep_job *job,
                                     float *centre) {
    const int64_t dim = sample->dim;
    double *sum = calloc((size_t)(groups * dim), sizeof *sum);
    int32_t *of = calloc((size_t)sample->n, sizeof *of);
    glofnd_status status = sum && of ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for centroids");
    const gf_kmeans k = {.groups = groups, .iterations = ITERATIONS, .seed = TREE_SEED, .tau = 1.0};
    if (status == GLOFND_OK && groups > 1) status = gf_kmeans_run(err, &k, sample, job, of, NULL);
    if (status == GLOFND_OK) {
        /* centre [groups][dim]: sums of the unit vectors of a group. */
        for (int64_t i = 0; i < sample->n; i++) {
            const float *x = gf_vector_at(sample, i);
            int finite;
            const double scale = gf_vector_unit_scale(x, sample->dim, &finite);
            for (int64_t j = 0; j < sample->dim; j++) sum[of[i] * sample->dim + j] += scale * (double)x[j];
        }
        for (int64_t g = 0; g < groups; g++) {
            /* A sum of zeros has no direction: the centroid of an empty group, or of opposite points, is a point of the sample. */
            double square = 0.0;
            for (int64_t j = g * dim; j < (g + 1) * dim; j++) square += sum[j] * sum[j];
            for (int64_t j = 0; j < dim; j++)
                centre[g * dim + j] = square > 1e-12 ? (float)sum[g * dim + j] : gf_vector_at(sample, g)[j];
        }
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

static void visit_groups(void *user, const gf_strip *t, int thread) {
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

typedef struct tree_making {
    const gf_vectors *sample;
    const gf_sweep_job *job;
    int64_t count, groups;
    tree_numbers out;
    int64_t *start;    /* [groups + 1] first member of a group */
    int32_t *member;   /* [sample->n] rows of sample->x, by group */
    int64_t *first;    /* [groups + 1] cells */
    atomic_int status; /* of the first failure */
} tree_making;

static glofnd_status find_groups(gf_error *err, tree_making *m) {
    const gf_vectors *s = m->sample;
    gf_vectors some = *s;
    gf_panels points = {0}, centres = {0};
    some.n = GF_MIN(s->n, GROUP_SAMPLE * m->groups); /* the sample is in random order */
    TRY(mean_directions(err, &some, GF_MIN(m->groups, s->n), m->job, m->out.group));
    for (int64_t g = s->n; g < m->groups; g++) /* more groups than vectors: these stay empty */
        memcpy(m->out.group + g * s->dim, m->out.group, (size_t)s->dim * sizeof *m->out.group);
    nearest_group *of = calloc((size_t)s->n, sizeof *of);
    FAIL_IF(err, !of, GLOFND_E_MEMORY, "no memory for %lld vectors of a sample", (long long)s->n);
    const gf_vectors groups = {.x = m->out.group, .n = m->groups, .dim = s->dim, .name = "centroid"};
    glofnd_status status = gf_panels_pack(err, &groups, m->job->threads, &centres);
    if (status == GLOFND_OK) status = gf_panels_pack(err, s, m->job->threads, &points);
    if (status == GLOFND_OK) status = gf_sweep_rows(err, &points, &centres, GF_SWEEP_GROUP, m->job, visit_groups, of);
    if (status == GLOFND_OK) {
        /* start, member and first. Each group has one cell, and of the others its share by members. */
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
    gf_panels_free(&points);
    gf_panels_free(&centres);
    free(of);
    return status;
}

/* ----- cells of a group ----- */

static void split_group(void *arg, int64_t g, int thread) {
    tree_making *m = arg;
    const int64_t dim = m->sample->dim, cells = m->first[g + 1] - m->first[g], members = m->start[g + 1] - m->start[g];
    const gf_vectors own = {.x = m->sample->x, .row = m->member + m->start[g], .n = members, .dim = dim, .name = m->sample->name};
    const gf_sweep_job quiet = {.threads = 1, .watch = {.stop = m->job->watch.stop}};
    float *centre = m->out.cell + m->first[g] * dim;
    gf_error ignored;
    if (atomic_load(&m->status) != GLOFND_OK) return;
    const int64_t found = GF_MIN(cells, members);
    const glofnd_status status = found ? mean_directions(&ignored, &own, found, &quiet, centre) : GLOFND_OK;
    for (int64_t c = found; c < cells; c++) /* more cells than members: these stay empty */
        memcpy(centre + c * dim, found ? centre : m->out.group + g * dim, (size_t)dim * sizeof *centre);
    if (status != GLOFND_OK) atomic_store(&m->status, (int)status);
    if (thread == 0) gf_job_report(&m->job->watch, 0.3 + 0.7 * (double)(g + 1) / (double)m->groups);
}

glofnd_status gf_tree_make(gf_error *err, const gf_vectors *sample, int64_t count, const gf_sweep_job *job, float *numbers) {
    tree_making m = {.sample = sample, .job = job, .count = count, .groups = groups_of(count)};
    m.out.group = numbers, m.out.cell = numbers + m.groups * sample->dim, m.out.first = m.out.cell + count * sample->dim;
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
    if (status == GLOFND_OK) {
        gf_parallel(job->threads, m.groups, split_group, &m);
        if (gf_job_stopped(&job->watch)) status = gf_fail(err, GLOFND_E_CANCELLED, "cancelled");
        else if (m.status != GLOFND_OK)
            status = gf_fail(err, (glofnd_status)m.status, "no memory for the centroids of %lld cells", (long long)count);
    }
    for (int64_t g = 0; g <= m.groups && status == GLOFND_OK; g++) {
        const int32_t first = (int32_t)m.first[g];
        memcpy(m.out.first + g, &first, sizeof first);
    }
    free(m.start);
    free(m.first);
    free(m.member);
    return status;
}

/* ----- a tree ----- */

static glofnd_status read_first_cells(gf_error *err, const float *words, gf_cell_tree *t) {
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
    glofnd_status status = read_first_cells(err, numbers + (t.groups + count) * dim, &t);
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

/* ---------- the nearest cells of embeddings ---------- */

/* Each embedding of a block chooses its nearest groups. Those of the block that chose one group are gathered, a panel of
 * them at a time, and compared with the centroids of its cells.
 */

glofnd_status gf_tree_search_init(gf_error *err, gf_tree_search *s, const gf_cell_tree *t, int64_t probe, int64_t block,
                                  int threads) {
    *s = (gf_tree_search){.t = t, .ops = gf_cpu_kernels_get()->tile, .threads = threads, .block = block};
    s->probe = GF_MIN(probe, t->count), s->through = gf_tree_through(t, probe);
    const size_t rows = (size_t)threads * (size_t)block;
    const size_t requests = s->through < t->groups ? rows * (size_t)s->through : 1;
    s->strip = aligned_alloc(64, gf_sweep_bytes(threads));
    s->gathered = aligned_alloc(64, (size_t)threads * (size_t)t->dim * GF_PANEL * sizeof *s->gathered);
    s->chosen = malloc(requests * sizeof *s->chosen);
    s->asked = malloc(requests * sizeof *s->asked);
    s->from = malloc((size_t)threads * ((size_t)t->groups + 1) * sizeof *s->from);
    glofnd_status status =
        s->strip && s->gathered && s->chosen && s->asked && s->from
            ? GLOFND_OK
            : gf_fail(err, GLOFND_E_MEMORY, "no memory for the nearest cells of %lld embeddings", (long long)block);
    if (status == GLOFND_OK) status = gf_best_alloc_for(err, &s->group, (int64_t)threads * GF_PANEL, s->through + 1);
    if (status == GLOFND_OK) status = gf_best_alloc_for(err, &s->near, (int64_t)rows, s->probe);
    if (status != GLOFND_OK) gf_tree_search_free(s);
    return status;
}

void gf_tree_search_free(gf_tree_search *s) {
    free(s->strip);
    free(s->gathered);
    free(s->chosen);
    free(s->asked);
    free(s->from);
    gf_best_free(&s->group);
    gf_best_free(&s->near);
    *s = (gf_tree_search){0};
}

static float *strip_of(const gf_tree_search *s, int thread) { return s->strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS; }

/* Columns [from, to) of a strip, whose first is number c0. */
static void offer_columns(const gf_tree_search *s, gf_best *b, int64_t list, const float *v, int64_t c0, int from, int to) {
    int32_t at[GF_STRIP_COLS];
    for (int done = from / GF_PANEL * GF_PANEL, cols; done < to; done += cols) {
        cols = gf_best_stride(b, list, to - done);
        const int found = s->ops->reach(at, v + done, (int)gf_pad(cols), b->limit[list], NULL);
        for (int k = 0; k < found && at[k] < cols; k++)
            if (done + at[k] >= from && v[done + at[k]] >= b->limit[list])
                gf_best_add(b, list, v[done + at[k]], c0 + done + at[k]);
    }
}

/* ----- groups ----- */

void gf_tree_groups(gf_tree_search *s, const gf_panels *p, int64_t at, int rows, int thread) {
    const gf_cell_tree *t = s->t;
    const int64_t own = (int64_t)thread * GF_PANEL;
    float *v = strip_of(s, thread);
    for (int r = 0; r < rows; r++) gf_best_clear(&s->group, own + r);
    for (int64_t c0 = 0; c0 < t->groups; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, t->groups - c0);
        gf_panels_product(s->ops, p, at, &t->group_centres, c0, cols, v);
        for (int r = 0; r < rows; r++) offer_columns(s, &s->group, own + r, v + (size_t)r * GF_STRIP_COLS, c0, 0, cols);
    }
    for (int r = 0; r < rows; r++) gf_best_sort(&s->group, own + r, s->through + 1);
}

/* ----- cells ----- */

/* Some groups of each embedding. */
static void compare_some(gf_tree_search *s, const gf_panels *p, int64_t at, int64_t rows, int thread) {
    const int64_t groups = s->t->groups, through = s->through;
    int64_t *from = s->from + (int64_t)thread * (groups + 1);
    int32_t *chosen = s->chosen + (int64_t)thread * s->block * through, *asked = s->asked + (int64_t)thread * s->block * through;
    for (int64_t i = 0; i < rows; i += GF_PANEL) {
        /* The nearest groups of the rows at + i and following ones of p. */
        const int some = (int)GF_MIN(GF_PANEL, rows - i);
        gf_tree_groups(s, p, at + i, some, thread);
        for (int r = 0; r < some; r++) {
            const int64_t list = (int64_t)thread * GF_PANEL + r;
            const uint64_t *key = s->group.key + list * s->group.capacity;
            for (int64_t k = 0; k < through; k++)
                chosen[(i + r) * through + k] = k < s->group.count[list] ? (int32_t)gf_best_other(key[k]) : -1;
        }
    }
    /* Sorts these choices by group. */
    memset(from, 0, ((size_t)groups + 1) * sizeof *from);
    for (int64_t k = 0; k < rows * through; k++)
        if (chosen[k] >= 0) from[chosen[k] + 1]++;
    for (int64_t g = 0; g < groups; g++) from[g + 1] += from[g];
    for (int64_t k = 0; k < rows * through; k++)
        if (chosen[k] >= 0) asked[from[chosen[k]]++] = (int32_t)(k / through);
    for (int64_t g = groups; g > 0; g--) from[g] = from[g - 1];
    from[0] = 0;
    for (int64_t g = 0; g < groups; g++)
        for (int64_t k = from[g]; k < from[g + 1]; k += GF_PANEL) {
            /* Embeddings row [rows] of the block that begins at row `at` of p, against the cells of group g. */
            const int32_t *row = asked + k;
            const int group_rows = (int)GF_MIN(GF_PANEL, from[g + 1] - k);
            const gf_cell_tree *t = s->t;
            const int64_t end = t->first[g + 1];
            float *x = s->gathered + (int64_t)thread * t->dim * GF_PANEL, *v = strip_of(s, thread);
            memset(x, 0, (size_t)t->dim * GF_PANEL * sizeof *x);
            for (int r = 0; r < group_rows; r++) {
                const int64_t group_from = at + row[r];
                const float *src = p->x + group_from / GF_PANEL * GF_PANEL * t->dim + group_from % GF_PANEL;
                for (int64_t j = 0; j < t->dim; j++) x[j * GF_PANEL + r] = src[j * GF_PANEL];
            }
            const gf_panels own = {.n = group_rows, .dim = t->dim, .x = x};
            for (int64_t c0 = t->first[g] / GF_PANEL * GF_PANEL; c0 < end; c0 += GF_STRIP_COLS) {
                const int cols = (int)GF_MIN(GF_STRIP_COLS, end - c0), first = (int)GF_MAX(t->first[g] - c0, 0);
                gf_panels_product(s->ops, &own, 0, &t->centres, c0, cols, v);
                for (int r = 0; r < group_rows; r++)
                    offer_columns(s, &s->near, (int64_t)thread * s->block + row[r], v + (size_t)r * GF_STRIP_COLS, c0, first,
                                  cols);
            }
        }
}

void gf_tree_near(gf_tree_search *s, const gf_panels *p, int64_t at, int64_t rows, int thread) {
    const gf_cell_tree *t = s->t;
    const int64_t own = (int64_t)thread * s->block;
    float *v = strip_of(s, thread);
    for (int64_t i = 0; i < rows; i++) gf_best_clear(&s->near, own + i);
    if (s->through < t->groups) compare_some(s, p, at, rows, thread);
    else /* all groups: their cells lie one behind the other */
        for (int64_t i = 0; i < rows; i += GF_PANEL)
            for (int64_t c0 = 0; c0 < t->count; c0 += GF_STRIP_COLS) {
                const int cols = (int)GF_MIN(GF_STRIP_COLS, t->count - c0);
                gf_panels_product(s->ops, p, at + i, &t->centres, c0, cols, v);
                for (int64_t r = 0; r < GF_MIN(GF_PANEL, rows - i); r++)
                    offer_columns(s, &s->near, own + i + r, v + r * GF_STRIP_COLS, c0, 0, cols);
            }
    for (int64_t i = 0; i < rows; i++) gf_best_sort(&s->near, own + i, s->probe);
}

void gf_tree_near_of(gf_tree_search *s, const gf_panels *p, int64_t at, int i, int rows, const int32_t *cell,
                     const gf_panels *centres, int64_t list, int thread) {
    float *v = strip_of(s, thread);
    const int cols = (int)centres->n;
    gf_panels_product(s->ops, p, at, centres, 0, cols, v);
    for (int r = 0; r < rows; r++) {
        gf_best_clear(&s->near, list + r);
        offer_columns(s, &s->near, list + r, v + (size_t)(i + r) * GF_STRIP_COLS, 0, 0, cols);
        const int64_t count = gf_best_sort(&s->near, list + r, s->probe);
        uint64_t *key = s->near.key + (list + r) * s->near.capacity;
        for (int64_t k = 0; k < count; k++) key[k] = gf_best_key(gf_best_value(key[k]), cell[gf_best_other(key[k])]);
    }
}

/* ---------- rows in cells ---------- */

/* Centroids are those of k-means on a sample; any centroids would do, good ones leave out more. */

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
static int64_t cells_count(int64_t n) {
    const int64_t count = GF_MAX((int64_t)(2.0 * sqrt((double)n)), n / ROWS);
    return GF_MAX(GF_MIN(count, n / SAMPLE), 1);
}

/* ----- centroids ----- */

/* Positions for k-means, in random order; returns their number. position [that number], or NULL. */
static int64_t cells_sample(int64_t n, int64_t count, int32_t *position) {
    const int64_t sampled = GF_MIN(n, GF_MIN(SAMPLE * count, GF_MAX(SAMPLED, SAMPLE_MIN * count)));
    for (int64_t i = 0; position && i < sampled; i++) position[i] = (int32_t)gf_permute(SEED, 1, n, i);
    return sampled;
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
    FAIL_IF(err, gf_job_stopped(&job->watch), GLOFND_E_CANCELLED, "cancelled");
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

glofnd_status gf_cells_sort(gf_error *err, const gf_cell_of *of, int threads, gf_cells *c) {
    sorting x = {malloc((size_t)c->n * sizeof *x.p), c};
    c->order = malloc((size_t)c->n * sizeof *c->order);
    c->angle = malloc((size_t)c->n * sizeof *c->angle);
    c->start = calloc((size_t)c->count + 1, sizeof *c->start);
    glofnd_status status = GLOFND_OK;
    if (!x.p || !c->order || !c->angle || !c->start)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)c->n);
    if (status == GLOFND_OK) {
        /* start[k + 1] counts up to the end of cell k while points are put there; at last it is the end. */
        int64_t at = 0;
        for (int64_t i = 0; i < c->n; i++) c->start[of[i].cell + 1]++;
        for (int64_t k = 0; k < c->count; k++) {
            const int64_t here = c->start[k + 1];
            c->start[k + 1] = at;
            at += here;
        }
        for (int64_t i = 0; i < c->n; i++) x.p[c->start[of[i].cell + 1]++] = (placed){of[i].similarity, (int32_t)i};
        gf_parallel(threads, c->count, sort_cell, &x);
    }
    free(x.p);
    return status;
}

glofnd_status gf_cells_make(gf_error *err, const gf_vectors *rows, int64_t count, const gf_sweep_job *job, gf_cells *out) {
    gf_cells c = {.n = rows->n, .dim = rows->dim, .count = count ? count : cells_count(rows->n)};
    const int64_t sampled = cells_sample(rows->n, c.count, NULL);
    gf_cell_of *of = malloc((size_t)c.n * sizeof *of);
    int32_t *row = malloc((size_t)c.n * sizeof *row); /* of the sample, then of all, in the order of cells */
    float *numbers = malloc((size_t)gf_tree_numbers(c.count, c.dim) * sizeof *numbers);
    const gf_vectors sample = {.x = rows->x, .row = row, .n = sampled, .dim = rows->dim, .name = rows->name};
    const gf_vectors sorted = {.x = rows->x, .row = row, .n = c.n, .dim = c.dim, .name = rows->name};
    glofnd_status status =
        of && row && numbers ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)c.n);
    if (status == GLOFND_OK) {
        cells_sample(rows->n, c.count, row);
        for (int64_t i = 0; rows->row && i < sampled; i++) row[i] = rows->row[row[i]];
        status = gf_tree_make(err, &sample, c.count, job, numbers);
    }
    if (status == GLOFND_OK) status = gf_tree_open(err, numbers, c.count, c.dim, job->threads, &c.tree);
    free(numbers);
    if (status == GLOFND_OK) status = gf_panels_pack(err, rows, job->threads, &c.points);
    if (status == GLOFND_OK) status = gf_cells_assign(err, &c.points, &c.tree, job, of);
    if (status == GLOFND_OK) status = gf_cells_sort(err, of, job->threads, &c);
    if (status == GLOFND_OK) {
        for (int64_t i = 0; i < c.n; i++) row[i] = rows->row ? rows->row[c.order[i]] : c.order[i];
        gf_panels_free(&c.points);
        status = gf_panels_pack(err, &sorted, job->threads, &c.points);
    }
    free(row);
    free(of);
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

/* ---------- rows that are not in memory ---------- */

/* Cells, and rows in their order. cells_stream_pairs.c compares. */

enum { READ_ROWS = 1 << 16, TASK_ROWS = 256 }; /* rows: read at once; of a task */

glofnd_status gf_cells_stream_open(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory,
                                   int threads, gf_cells_stream *s) {
    const size_t bytes = (size_t)source->dim * sizeof(float);
    (void)err;
    *s = (gf_cells_stream){.source = source, .row = row, .threads = threads};
    s->c = (gf_cells){.n = n, .dim = source->dim, .count = cells_count(n)};
    const int64_t step = GF_MAX(GF_CHUNK_STEP, sysconf(_SC_PAGESIZE) / (int64_t)sizeof(float));
    s->chunk = memory / bytes >= (size_t)gf_pad(n) ? n : GF_MAX((int64_t)(memory / 2 / bytes) / step, 1) * step;
    return GLOFND_OK;
}

void gf_cells_stream_close(gf_cells_stream *s) {
    gf_cells_free(&s->c);
    free(s->place);
    *s = (gf_cells_stream){0};
}

int gf_cells_stream_fits(const gf_cells_stream *s) { return s->chunk >= s->c.n; }

/* ----- cells ----- */

glofnd_status gf_cells_stream_centres(gf_error *err, const gf_cells_stream *s, const gf_sweep_job *job, float *numbers) {
    const int64_t n = cells_sample(s->c.n, s->c.count, NULL), dim = s->c.dim;
    int32_t *row = malloc((size_t)n * sizeof *row);
    float *x = malloc((size_t)(n * dim) * sizeof *x);
    const gf_vectors sample = {.x = x, .n = n, .dim = dim};
    glofnd_status status = GLOFND_OK;
    if (!row || !x)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings, from which cells are made", (long long)n,
                         (long long)dim);
    if (status == GLOFND_OK) {
        cells_sample(s->c.n, s->c.count, row);
        for (int64_t i = 0; i < n; i++) row[i] = s->row[row[i]];
        status = gf_row_source_gather(err, s->source, row, n, x);
    }
    if (status == GLOFND_OK) status = gf_tree_make(err, &sample, s->c.count, job, numbers);
    free(row);
    free(x);
    return status;
}

glofnd_status gf_cells_stream_begin(gf_error *err, gf_cells_stream *s, const float *numbers) {
    return gf_tree_open(err, numbers, s->c.count, s->c.dim, s->threads, &s->c.tree);
}

glofnd_status gf_cells_stream_assign(gf_error *err, const gf_cells_stream *s, int64_t first, int64_t rows,
                                     const gf_sweep_job *job, gf_cell_of *of) {
    gf_panels points = {0};
    TRY(gf_row_source_pack(err, s->source, s->row + first, rows, GF_ROW_PIECE, s->threads, &points));
    const glofnd_status status = gf_cells_assign(err, &points, &s->c.tree, job, of);
    gf_panels_free(&points);
    return status;
}

glofnd_status gf_cells_stream_sort(gf_error *err, gf_cells_stream *s, const gf_cell_of *of) {
    TRY(gf_cells_sort(err, of, s->threads, &s->c));
    s->place = malloc((size_t)s->c.n * sizeof *s->place);
    FAIL_IF(err, !s->place, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)s->c.n);
    for (int64_t i = 0; i < s->c.n; i++) s->place[s->c.order[i]] = (int32_t)i;
    return GLOFND_OK;
}

/* ----- rows in the order of cells ----- */

typedef struct ordering {
    const gf_cells_stream *s;
    int64_t first, rows; /* places */
    int64_t at, count;   /* positions of the piece */
    const float *piece;  /* [count][dim] */
    float *x;
} ordering;

/* The same unit vectors as those of gf_panels_pack(). */
static void order_rows(void *arg, int64_t task, int thread) {
    const ordering *o = arg;
    const int64_t dim = o->s->c.dim;
    (void)thread;
    for (int64_t i = task * TASK_ROWS; i < GF_MIN((task + 1) * TASK_ROWS, o->count); i++) {
        const int64_t to = o->s->place[o->at + i] - o->first;
        const float *from = o->piece + i * dim;
        int finite;
        if (to < 0 || to >= o->rows) continue;
        const double scale = gf_vector_unit_scale(from, dim, &finite);
        gf_vector_write_unit(o->x + to / GF_PANEL * GF_PANEL * dim + to % GF_PANEL, from, dim, scale);
    }
}

glofnd_status gf_cells_stream_order(gf_error *err, const gf_cells_stream *s, int64_t first, int64_t rows,
                                    const gf_job_progress *watch, float *x) {
    const int64_t n = s->c.n, dim = s->c.dim, last = gf_pad(rows) - GF_PANEL;
    float *piece = malloc((size_t)GF_MIN(READ_ROWS, n) * (size_t)dim * sizeof *piece);
    FAIL_IF(err, !piece, GLOFND_E_MEMORY, "no memory to read embeddings");
    ordering o = {.s = s, .first = first, .rows = rows, .piece = piece, .x = x};
    glofnd_status status = GLOFND_OK;
    memset(x + last * dim, 0, (size_t)(GF_PANEL * dim) * sizeof *x); /* padding */
    for (o.at = 0; o.at < n && status == GLOFND_OK && !gf_job_stopped(watch); o.at += o.count) {
        o.count = GF_MIN(READ_ROWS, n - o.at);
        status = gf_row_source_gather(err, s->source, s->row + o.at, o.count, piece);
        if (status == GLOFND_OK) gf_parallel(s->threads, (o.count + TASK_ROWS - 1) / TASK_ROWS, order_rows, &o);
        gf_job_report(watch, (double)(o.at + o.count) / (double)n);
    }
    free(piece);
    FAIL_IF(err, status == GLOFND_OK && gf_job_stopped(watch), GLOFND_E_CANCELLED, "cancelled");
    return status;
}
