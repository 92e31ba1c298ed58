/* kmeans.c - see kmeans.h. */
#include "pairs/kmeans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "util/parallel.h"
#include "util/rng.h"

typedef struct clusters {
    const gf_kmeans *k;
    const gf_vectors *v;
    gf_panels points, centres;
    double *sum;     /* [groups][dim] of unit vectors */
    float *centre;   /* [groups][dim] their direction */
    int64_t *size;   /* [groups] */
    int32_t *of;     /* [n] */
    float *best;     /* [n] similarity to the own centroid */
    double *softmax; /* [n] sum of exp((S - 1) / tau) over the centroids so far; NULL: not wanted */
} clusters;

static const float *point(const gf_vectors *v, int64_t i) { return v->x + (v->row ? v->row[i] : i) * v->dim; }

/* ----- assignment ----- */

/* Strips of a row come by rising columns: the first of equal centroids stays. */
static void visit_centres(void *user, const gf_strip *t, int thread) {
    clusters *c = user;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    int32_t at[GF_STRIP_COLS];
    (void)thread;
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r;
        const float *s = t->s + (size_t)r * t->ld;
        if (t->c0 == 0) c->best[i] = s[0], c->of[i] = 0;
        const int found = ops->reach(at, s, (int)gf_pad(t->cols), c->best[i], NULL);
        for (int k = 0; k < found && at[k] < t->cols; k++)
            if (s[at[k]] > c->best[i]) c->best[i] = s[at[k]], c->of[i] = (int32_t)(t->c0 + at[k]);
        for (int j = 0; c->softmax && j < t->cols; j++) c->softmax[i] += exp(((double)s[j] - 1.0) / c->k->tau);
    }
}

static glofnd_status assign_points(gf_error *err, clusters *c, const gf_sweep_job *job) {
    const gf_vectors centres = {.x = c->centre, .n = c->k->groups, .dim = c->v->dim, .name = "centroid"};
    gf_panels_free(&c->centres);
    TRY(gf_panels_pack(err, &centres, job->threads, &c->centres));
    return gf_sweep_rows(err, &c->points, &c->centres, GF_SWEEP_GROUP, job, visit_centres, c);
}

/* ----- centroids ----- */

static void add_point(clusters *c, int64_t i, int32_t group, double sign) {
    const float *x = point(c->v, i);
    /* 1 / length; 0 for zeros. */
    double square = 0.0;
    for (int64_t j = 0; j < c->v->dim; j++) square += (double)x[j] * (double)x[j];
    const double scale = sign * (square > 0.0 ? 1.0 / sqrt(square) : 0.0);
    double *sum = c->sum + group * c->v->dim;
    for (int64_t j = 0; j < c->v->dim; j++) sum[j] += scale * (double)x[j];
}

typedef struct ranked_point {
    float value;
    int64_t at;
} ranked_point;

static int by_value(const void *x, const void *y) {
    const ranked_point *a = x, *b = y;
    if (a->value != b->value) return a->value < b->value ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static glofnd_status rank_points(gf_error *err, const float *value, int64_t n, double sign, ranked_point **out) {
    *out = malloc(sizeof **out * (size_t)n);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory to sort %lld embeddings", (long long)n);
    for (int64_t i = 0; i < n; i++) (*out)[i] = (ranked_point){(float)sign * value[i], i};
    qsort(*out, (size_t)n, sizeof **out, by_value);
    return GLOFND_OK;
}

/* An empty group takes the point that fits worst, of the groups with several. */
static glofnd_status fill_empty_groups(gf_error *err, clusters *c) {
    ranked_point *worst = NULL;
    const int64_t n = c->v->n;
    for (int64_t g = 0, next = 0; g < c->k->groups; g++) {
        if (c->size[g] > 0) continue;
        if (!worst) TRY(rank_points(err, c->best, n, 1.0, &worst));
        while (next < n && c->size[c->of[worst[next].at]] < 2) next++;
        if (next == n) break;
        const int64_t i = worst[next++].at;
        add_point(c, i, c->of[i], -1.0);
        add_point(c, i, (int32_t)g, 1.0);
        c->size[c->of[i]]--, c->size[g]++;
        c->of[i] = (int32_t)g;
    }
    free(worst);
    return GLOFND_OK;
}

static glofnd_status move_centres(gf_error *err, clusters *c) {
    const int64_t dim = c->v->dim, numbers = c->k->groups * dim;
    memset(c->sum, 0, sizeof *c->sum * (size_t)numbers);
    memset(c->size, 0, sizeof *c->size * (size_t)c->k->groups);
    for (int64_t i = 0; i < c->v->n; i++) {
        add_point(c, i, c->of[i], 1.0);
        c->size[c->of[i]]++;
    }
    TRY(fill_empty_groups(err, c));
    for (int64_t x = 0; x < numbers; x++)
        c->centre[x] = (float)(c->sum[x] / (double)(c->size[x / dim] > 0 ? c->size[x / dim] : 1));
    return GLOFND_OK;
}

/* ----- the whole ----- */

glofnd_status gf_kmeans_run(gf_error *err, const gf_kmeans *k, const gf_vectors *v, const gf_sweep_job *job, int32_t *of,
                            float *confidence) {
    FAIL_IF(err, k->groups < 1 || k->groups > v->n || k->groups > INT32_MAX, GLOFND_E_ARGUMENT,
            "k-means: %lld groups of %lld embeddings; expected 1 to %lld", (long long)k->groups, (long long)v->n,
            (long long)v->n);
    FAIL_IF(err, k->iterations < 1 || !(k->tau > 0.0), GLOFND_E_ARGUMENT, "k-means: %d iterations, tau %g; both must be above 0",
            k->iterations, k->tau);
    gf_sweep_job all = *job;
    if (all.threads < 1) all.threads = gf_parallel_default();
    const size_t n = (size_t)v->n, groups = (size_t)k->groups, numbers = groups * (size_t)v->dim, bytes = n * sizeof *of;
    int32_t *before = malloc(bytes); /* the groups of the last iteration */
    clusters c = {.k = k,
                  .v = v,
                  .of = of,
                  .sum = malloc(numbers * sizeof *c.sum),
                  .centre = malloc(numbers * sizeof *c.centre),
                  .size = malloc(groups * sizeof *c.size),
                  .best = malloc(n * sizeof *c.best)};
    glofnd_status status = before && c.sum && c.centre && c.size && c.best
                               ? gf_panels_pack(err, v, all.threads, &c.points)
                               : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld centroids of %lld embeddings",
                                         (long long)k->groups, (long long)v->n);
    for (int64_t g = 0; g < k->groups && status == GLOFND_OK; g++)
        memcpy(c.centre + g * v->dim, point(v, gf_permute(k->seed, 0, v->n, g)), sizeof *c.centre * (size_t)v->dim);
    if (status == GLOFND_OK) status = assign_points(err, &c, &all);
    for (int step = 0; step < k->iterations && status == GLOFND_OK; step++) {
        memcpy(before, of, bytes);
        status = move_centres(err, &c);
        if (status == GLOFND_OK) status = assign_points(err, &c, &all);
        if (memcmp(before, of, bytes) == 0) break;
    }
    if (status == GLOFND_OK && confidence) { /* the same groups, now with sums */
        c.softmax = calloc(n, sizeof *c.softmax);
        status = c.softmax ? assign_points(err, &c, &all)
                           : gf_fail(err, GLOFND_E_MEMORY, "no memory for the confidence of %lld embeddings", (long long)v->n);
    }
    for (int64_t i = 0; confidence && i < v->n && status == GLOFND_OK; i++)
        confidence[i] = (float)(exp(((double)c.best[i] - 1.0) / k->tau) / c.softmax[i]);
    gf_panels_free(&c.points);
    gf_panels_free(&c.centres);
    free(before);
    free(c.sum);
    free(c.centre);
    free(c.size);
    free(c.best);
    free(c.softmax);
    return status;
}

glofnd_status gf_kmeans_accept(gf_error *err, const float *confidence, int64_t n, int64_t accepted, int32_t *of) {
    ranked_point *best = NULL;
    if (accepted >= n) return GLOFND_OK;
    TRY(rank_points(err, confidence, n, -1.0, &best));
    for (int64_t i = accepted > 0 ? accepted : 0; i < n; i++) of[best[i].at] = -1;
    free(best);
    return GLOFND_OK;
}
