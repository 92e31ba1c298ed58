/* tsne_affinity.c - affinities of neighbours: Gaussians whose width gives the wanted perplexity. See tsne.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plot/tsne.h"
#include "util/array.h"
#include "util/parallel.h"

typedef struct link {
    int32_t to;
    float distance; /* squared; then the conditional probability */
} link;

typedef struct search {
    const float *x;
    int64_t n, dim, near;
    double perplexity;
    link *links;   /* [n][near] by position of the neighbour */
    link *scratch; /* [threads][n] */
} search;

static int by_distance(const void *a, const void *b) {
    const link *p = a, *q = b;
    if (p->distance != q->distance) return p->distance < q->distance ? -1 : 1;
    return p->to < q->to ? -1 : p->to > q->to;
}

static int by_position(const void *a, const void *b) {
    const link *p = a, *q = b;
    return p->to < q->to ? -1 : p->to > q->to;
}

/* Squared distance by sixteen partial sums, which the compiler can vectorise, added in a fixed order. */
static float distance(const float *a, const float *b, int64_t dim) {
    float lane[16] = {0}, s = 0.0f;
    int64_t k = 0;
    for (; k + 16 <= dim; k += 16)
        for (int64_t i = 0; i < 16; i++) lane[i] += (a[k + i] - b[k + i]) * (a[k + i] - b[k + i]);
    for (int i = 0; i < 16; i++) s += lane[i];
    for (; k < dim; k++) s += (a[k] - b[k]) * (a[k] - b[k]);
    return s;
}

/* Probabilities at precision beta, relative to the nearest; their entropy in nats. */
static double entropy(const link *row, int64_t n, double beta, double *p) {
    double sum = 0.0, moment = 0.0;
    const double nearest = (double)row[0].distance;
    for (int64_t k = 0; k < n; k++) {
        const double d = (double)row[k].distance - nearest;
        p[k] = exp(-beta * d);
        sum += p[k], moment += p[k] * d;
    }
    for (int64_t k = 0; k < n; k++) p[k] /= sum;
    return log(sum) + beta * moment / sum;
}

/* Distances of a row, nearest first, become probabilities. */
static void calibrate(link *row, int64_t n, double perplexity, double *p) {
    double low = 0.0, high = INFINITY, beta = 1.0;
    const double wanted = log(perplexity);
    for (int i = 0; i < 100; i++) {
        const double excess = entropy(row, n, beta, p) - wanted;
        if (fabs(excess) < 1e-6) break;
        if (excess > 0.0) low = beta, beta = isinf(high) ? 2.0 * beta : 0.5 * (beta + high);
        else high = beta, beta = 0.5 * (low + beta);
    }
    for (int64_t k = 0; k < n; k++) row[k].distance = (float)p[k];
}

static void search_row(void *arg, int64_t i, int thread) {
    const search *s = arg;
    link *all = s->scratch + thread * s->n;
    double p[1024];
    int64_t count = 0;
    for (int64_t j = 0; j < s->n; j++)
        if (j != i) all[count++] = (link){(int32_t)j, distance(s->x + i * s->dim, s->x + j * s->dim, s->dim)};
    qsort(all, (size_t)count, sizeof *all, by_distance);
    calibrate(all, s->near, s->perplexity, p);
    qsort(all, (size_t)s->near, sizeof *all, by_position);
    memcpy(s->links + i * s->near, all, (size_t)s->near * sizeof *all);
}

/* ----- symmetry ----- */

/* Transposed lists, each sorted by position. */
static void transpose(const search *s, int64_t *start, link *back) {
    for (int64_t i = 0; i <= s->n; i++) start[i] = 0;
    for (int64_t k = 0; k < s->n * s->near; k++) start[s->links[k].to + 1]++;
    for (int64_t i = 0; i < s->n; i++) start[i + 1] += start[i];
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t k = 0; k < s->near; k++) {
            const link l = s->links[i * s->near + k];
            back[start[l.to]++] = (link){(int32_t)i, l.distance};
        }
    for (int64_t i = s->n; i > 0; i--) start[i] = start[i - 1];
    start[0] = 0;
}

/* Merges two sorted lists. */
static int64_t merge(const link *a, int64_t na, const link *b, int64_t nb, double scale, int32_t *col, double *p) {
    int64_t i = 0, j = 0, n = 0;
    while (i < na || j < nb) {
        const int32_t ca = i < na ? a[i].to : INT32_MAX, cb = j < nb ? b[j].to : INT32_MAX, c = GF_MIN(ca, cb);
        double x = 0.0;
        if (ca == c) x += (double)a[i++].distance;
        if (cb == c) x += (double)b[j++].distance;
        col[n] = c, p[n++] = scale * x;
    }
    return n;
}

static glofnd_status symmetrise(gf_error *err, const search *s, gf_affinity *out) {
    const int64_t max = 2 * s->n * s->near;
    int64_t *start = malloc((size_t)(s->n + 1) * sizeof *start), used = 0;
    link *back = malloc((size_t)(s->n * s->near) * sizeof *back);
    out->start = malloc((size_t)(s->n + 1) * sizeof *out->start);
    out->col = malloc((size_t)max * sizeof *out->col);
    out->p = malloc((size_t)max * sizeof *out->p);
    const int ok = start && back && out->start && out->col && out->p;
    if (ok) transpose(s, start, back);
    for (int64_t i = 0; ok && i < s->n; i++) {
        out->start[i] = used;
        used += merge(s->links + i * s->near, s->near, back + start[i], start[i + 1] - start[i], 0.5 / (double)s->n,
                      out->col + used, out->p + used);
    }
    if (ok) out->start[s->n] = used;
    free(start);
    free(back);
    return ok ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for the neighbours of %lld points", (long long)s->n);
}

glofnd_status gf_affinity_init(gf_error *err, const float *x, int64_t n, int64_t dim, double perplexity, int64_t near,
                               int threads, gf_affinity *out) {
    const int64_t max = n - 1 < 1024 ? n - 1 : 1024;
    search s = {.x = x, .n = n, .dim = dim, .near = near > 0 ? GF_MIN(near, max) : max, .perplexity = perplexity};
    *out = (gf_affinity){.n = n};
    FAIL_IF(err, n < 2 || n > INT32_MAX, GLOFND_E_ARGUMENT, "%lld points cannot be mapped; expected 2 or more", (long long)n);
    s.links = malloc((size_t)(n * s.near) * sizeof *s.links);
    s.scratch = malloc((size_t)threads * (size_t)n * sizeof *s.scratch);
    glofnd_status status =
        s.links && s.scratch ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld neighbours", (long long)(n * near));
    if (status == GLOFND_OK) {
        gf_parallel(threads, n, search_row, &s);
        status = symmetrise(err, &s, out);
    }
    free(s.links);
    free(s.scratch);
    if (status != GLOFND_OK) gf_affinity_free(out);
    return status;
}

void gf_affinity_free(gf_affinity *a) {
    free(a->start);
    free(a->col);
    free(a->p);
    *a = (gf_affinity){0};
}
