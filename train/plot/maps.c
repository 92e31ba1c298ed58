/* maps.c - see maps.h: principal axes; t-SNE by a quadtree of the map, affinities and gradient descent; densities. */
#include "plot/maps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/parallel.h"
#include "util/rng.h"

/* ----- orthogonal iteration with X'X v; the covariance itself is never formed ----- */

enum { AXES = 2, ITERATIONS = 200 };

static double dot(const double *a, const double *b, int64_t n) {
    double s = 0.0;
    for (int64_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

/* Makes axis `a` orthogonal to the axes before it and of length 1; a zero vector stays. */
static void orthonormalise(double *axes, int a, int64_t dim) {
    double *v = axes + a * dim;
    for (int b = 0; b < a; b++) {
        const double along = dot(v, axes + b * dim, dim);
        for (int64_t k = 0; k < dim; k++) v[k] -= along * axes[b * dim + k];
    }
    const double length = sqrt(dot(v, v, dim));
    for (int64_t k = 0; k < dim; k++) v[k] = length > 1e-100 ? v[k] / length : 0.0;
}

static void project(const double *c, int64_t n, int64_t dim, const double *axis, double *along) {
    for (int64_t i = 0; i < n; i++) along[i] = dot(c + i * dim, axis, dim);
}

glofnd_status gf_pca(gf_error *err, const float *x, int64_t n, int64_t dim, double *y) {
    double *c = malloc((size_t)n * (size_t)dim * sizeof *c), *axes = malloc((size_t)(AXES * dim) * sizeof *axes);
    double *along = malloc((size_t)n * sizeof *along);
    const int ok = c && axes && along;
    if (ok) {
        for (int64_t k = 0; k < dim; k++) {
            double mean = 0.0;
            for (int64_t i = 0; i < n; i++) mean += (double)x[i * dim + k];
            for (int64_t i = 0; i < n; i++) c[i * dim + k] = (double)x[i * dim + k] - mean / (double)n;
        }
        for (int a = 0; a < AXES; a++) {
            gf_rng r = gf_rng_at(1, GF_RNG_INIT, 0, (uint64_t)a, 0);
            for (int64_t k = 0; k < dim; k++) axes[a * dim + k] = gf_rng_normal(&r);
            orthonormalise(axes, a, dim);
        }
        for (int round = 0; round < ITERATIONS; round++)
            for (int a = 0; a < AXES; a++) {
                project(c, n, dim, axes + a * dim, along);
                /* axis = C' along */
                double *axis = axes + a * dim;
                for (int64_t k = 0; k < dim; k++) axis[k] = 0.0;
                for (int64_t i = 0; i < n; i++)
                    for (int64_t k = 0; k < dim; k++) axis[k] += along[i] * c[i * dim + k];
                orthonormalise(axes, a, dim);
            }
        for (int a = 0; a < AXES; a++) {
            double *axis = axes + a * dim;
            int64_t largest = 0;
            for (int64_t k = 1; k < dim; k++)
                if (fabs(axis[k]) > fabs(axis[largest]) * (1.0 + 1e-9)) largest = k;
            const double sign = axis[largest] < 0.0 ? -1.0 : 1.0;
            for (int64_t k = 0; k < dim; k++) axis[k] *= sign;
            project(c, n, dim, axes + a * dim, along);
            for (int64_t i = 0; i < n; i++) y[2 * i + a] = along[i];
        }
    }
    free(c);
    free(axes);
    free(along);
    return ok ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for the axes of %lld points", (long long)n);
}

/* ----- quadtree over the points of a map, and the repulsion of a point, with distant cells as one point (Barnes-Hut) ----- */

enum { DEPTH = 40 }; /* points closer than 2^-40 of the map share a leaf */

typedef struct cell {
    double x, y, half; /* centre, half a side */
    double sum[2];     /* of its points; in the complete tree, their mean */
    int32_t count;
    int32_t child; /* first of four; 0: a leaf */
    int32_t point; /* leaf: its first point; -1: empty */
} cell;

struct gf_tsne_tree {
    cell *cells;
    int32_t used, capacity;
};

gf_tsne_tree *gf_tsne_tree_create(int64_t n) {
    gf_tsne_tree *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->capacity = (int32_t)(n < 1000 ? 8000 : 8 * n);
    t->cells = malloc((size_t)t->capacity * sizeof *t->cells);
    if (t->cells) return t;
    free(t);
    return NULL;
}

void gf_tsne_tree_free(gf_tsne_tree *t) {
    if (!t) return;
    free(t->cells);
    free(t);
}

/* Adds four cells; 0 if the tree is full: the leaf then keeps several points, which is correct, only coarser. */
static int32_t split_leaf(gf_tsne_tree *t, int32_t at) {
    if (t->used + 4 > t->capacity) return 0;
    const int32_t first = t->used;
    const cell c = t->cells[at];
    const double h = 0.5 * c.half;
    for (int k = 0; k < 4; k++)
        t->cells[first + k] = (cell){.x = c.x + (k & 1 ? h : -h), .y = c.y + (k & 2 ? h : -h), .half = h, .point = -1};
    t->used += 4;
    t->cells[at].child = first;
    return first;
}

static int32_t child_of(const gf_tsne_tree *t, int32_t at, const double *p) {
    const cell *c = &t->cells[at];
    return c->child + (p[0] >= c->x ? 1 : 0) + (p[1] >= c->y ? 2 : 0);
}

static void count_in(cell *c, const double *p, int32_t points) {
    c->sum[0] += points * p[0], c->sum[1] += points * p[1];
    c->count += points;
}

static void insert(gf_tsne_tree *t, const double *y, int32_t i) {
    const double *p = y + 2 * i;
    int32_t at = 0;
    for (int depth = 0;; depth++) {
        cell *c = &t->cells[at];
        if (!c->child && c->point < 0) c->point = i;
        else if (!c->child && depth < DEPTH && split_leaf(t, at)) {
            c = &t->cells[at];
            cell *down = &t->cells[child_of(t, at, y + 2 * c->point)];
            down->point = c->point; /* a leaf that splits holds one point: several only where no split is possible */
            count_in(down, y + 2 * c->point, c->count);
            c->point = -1;
        }
        count_in(&t->cells[at], p, 1);
        if (!t->cells[at].child) return;
        at = child_of(t, at, p);
    }
}

void gf_tsne_tree_build(gf_tsne_tree *t, const double *y, int64_t n) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (int64_t i = 0; i < 2 * n; i++) low[i & 1] = fmin(low[i & 1], y[i]), high[i & 1] = fmax(high[i & 1], y[i]);
    const double half = 0.5 * fmax(high[0] - low[0], high[1] - low[1]);
    t->used = 1;
    t->cells[0] = (cell){.x = 0.5 * (low[0] + high[0]), .y = 0.5 * (low[1] + high[1]), .half = half + 1e-12, .point = -1};
    for (int64_t i = 0; i < n; i++) insert(t, y, (int32_t)i);
    for (int32_t c = 0; c < t->used; c++)
        for (int k = 0; k < 2 && t->cells[c].count; k++) t->cells[c].sum[k] /= t->cells[c].count;
}

double gf_tsne_tree_repulsion(const gf_tsne_tree *t, const double *y, int64_t i, double theta, double force[2]) {
    int32_t stack[4 * DEPTH + 8];
    int depth = 0;
    double total = 0.0;
    const double *p = y + 2 * i, limit = theta * theta;
    stack[depth++] = 0;
    while (depth) {
        const cell *c = &t->cells[stack[--depth]];
        if (!c->count) continue;
        const double dx = p[0] - c->sum[0], dy = p[1] - c->sum[1], d2 = dx * dx + dy * dy;
        if (c->child && 4.0 * c->half * c->half >= limit * d2) {
            for (int k = 3; k >= 0; k--) stack[depth++] = c->child + k;
            continue;
        }
        const double q = 1.0 / (1.0 + d2), weight = c->count * q;
        total += weight;
        force[0] += weight * q * dx, force[1] += weight * q * dy;
    }
    return total - 1.0; /* without the point itself: it is at distance 0, or in a cell centred on it */
}

/* ----- affinities of neighbours: Gaussians whose width gives the wanted perplexity ----- */

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

static void search_row(void *arg, int64_t i, int thread) {
    const search *s = arg;
    link *all = s->scratch + thread * s->n;
    double p[1024];
    int64_t count = 0;
    for (int64_t j = 0; j < s->n; j++)
        if (j != i) all[count++] = (link){(int32_t)j, distance(s->x + i * s->dim, s->x + j * s->dim, s->dim)};
    qsort(all, (size_t)count, sizeof *all, by_distance);
    /* Distances of a row, nearest first, become probabilities. */
    const int64_t n = s->near;
    double low = 0.0, high = INFINITY, beta = 1.0;
    const double wanted = log(s->perplexity);
    for (int l = 0; l < 100; l++) {
        /* Probabilities at precision beta, relative to the nearest; their entropy in nats. */
        double sum = 0.0, moment = 0.0;
        const double nearest = (double)all[0].distance;
        for (int64_t k = 0; k < n; k++) {
            const double d = (double)all[k].distance - nearest;
            p[k] = exp(-beta * d);
            sum += p[k], moment += p[k] * d;
        }
        for (int64_t k = 0; k < n; k++) p[k] /= sum;
        const double excess = log(sum) + beta * moment / sum - wanted;
        if (fabs(excess) < 1e-6) break;
        if (excess > 0.0) low = beta, beta = isinf(high) ? 2.0 * beta : 0.5 * (beta + high);
        else high = beta, beta = 0.5 * (low + beta);
    }
    for (int64_t k = 0; k < n; k++) all[k].distance = (float)p[k];
    qsort(all, (size_t)s->near, sizeof *all, by_position);
    memcpy(s->links + i * s->near, all, (size_t)s->near * sizeof *all);
}

/* ----- symmetry ----- */

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
        const int64_t max_links = 2 * s.n * s.near;
        int64_t *start = malloc((size_t)(s.n + 1) * sizeof *start), used = 0;
        link *back = malloc((size_t)(s.n * s.near) * sizeof *back);
        out->start = malloc((size_t)(s.n + 1) * sizeof *out->start);
        out->col = malloc((size_t)max_links * sizeof *out->col);
        out->p = malloc((size_t)max_links * sizeof *out->p);
        const int ok = start && back && out->start && out->col && out->p;
        if (ok) {
            /* Transposed lists, each sorted by position. */
            for (int64_t i = 0; i <= s.n; i++) start[i] = 0;
            for (int64_t k = 0; k < s.n * s.near; k++) start[s.links[k].to + 1]++;
            for (int64_t i = 0; i < s.n; i++) start[i + 1] += start[i];
            for (int64_t i = 0; i < s.n; i++)
                for (int64_t k = 0; k < s.near; k++) {
                    const link l = s.links[i * s.near + k];
                    back[start[l.to]++] = (link){(int32_t)i, l.distance};
                }
            for (int64_t i = s.n; i > 0; i--) start[i] = start[i - 1];
            start[0] = 0;
        }
        for (int64_t i = 0; ok && i < s.n; i++) {
            out->start[i] = used;
            used += merge(s.links + i * s.near, s.near, back + start[i], start[i + 1] - start[i], 0.5 / (double)s.n,
                          out->col + used, out->p + used);
        }
        if (ok) out->start[s.n] = used;
        free(start);
        free(back);
        status = ok ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for the neighbours of %lld points", (long long)s.n);
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

/* ----- gradient ----- */

typedef struct forces {
    const gf_tsne_field *f;
    const double *y;
    double *grad; /* [n][2] attraction; at the end, the gradient */
} forces;

/* One point: attraction of its neighbours to grad; repulsion and its part of the normaliser to scratch. */
static void force_on(void *arg, int64_t i, int thread) {
    const forces *x = arg;
    const gf_tsne_field *f = x->f;
    const double *y = x->y;
    double *own = f->scratch + 3 * i, pull[2] = {0.0, 0.0}, push[2] = {0.0, 0.0}, total = 0.0;
    (void)thread;
    for (int64_t k = f->a->start[i]; k < f->a->start[i + 1]; k++) {
        const int64_t j = f->a->col[k];
        const double dx = y[2 * i] - y[2 * j], dy = y[2 * i + 1] - y[2 * j + 1], w = f->a->p[k] / (1.0 + dx * dx + dy * dy);
        pull[0] += w * dx, pull[1] += w * dy;
    }
    if (f->theta > 0.0) total = gf_tsne_tree_repulsion(f->tree, y, i, f->theta, push);
    for (int64_t j = 0; f->theta <= 0.0 && j < f->a->n; j++) {
        const double dx = y[2 * i] - y[2 * j], dy = y[2 * i + 1] - y[2 * j + 1], q = 1.0 / (1.0 + dx * dx + dy * dy);
        total += q;
        push[0] += q * q * dx, push[1] += q * q * dy;
    }
    own[0] = push[0], own[1] = push[1], own[2] = f->theta > 0.0 ? total : total - 1.0;
    x->grad[2 * i] = pull[0], x->grad[2 * i + 1] = pull[1];
}

void gf_tsne_gradient(const gf_tsne_field *f, const double *y, double *grad, double *divergence) {
    forces x = {f, y, grad};
    double normaliser = 0.0;
    if (f->theta > 0.0) gf_tsne_tree_build(f->tree, y, f->a->n);
    gf_parallel(f->threads, f->a->n, force_on, &x);
    for (int64_t i = 0; i < f->a->n; i++) normaliser += f->scratch[3 * i + 2];
    for (int64_t i = 0; i < f->a->n; i++)
        for (int c = 0; c < 2; c++)
            grad[2 * i + c] = 4.0 * (f->exaggeration * grad[2 * i + c] - f->scratch[3 * i + c] / normaliser);
    if (divergence) {
        double kl = 0.0;
        for (int64_t i = 0; i < f->a->n; i++)
            for (int64_t k = f->a->start[i]; k < f->a->start[i + 1]; k++) {
                const int64_t j = f->a->col[k];
                const double dx = y[2 * i] - y[2 * j], dy = y[2 * i + 1] - y[2 * j + 1];
                if (f->a->p[k] > 0.0) kl += f->a->p[k] * log(f->a->p[k] * normaliser * (1.0 + dx * dx + dy * dy));
            }
        *divergence = kl;
    }
}

/* ----- descent ----- */

enum { EARLY = 250 }; /* iterations with exaggerated affinities */

/* Initial positions: the principal axes, scaled down so that the affinities decide. */
static glofnd_status init_positions(gf_error *err, const float *x, int64_t n, int64_t dim, double *y) {
    double square = 0.0;
    TRY(gf_pca(err, x, n, dim, y));
    for (int64_t i = 0; i < n; i++) square += y[2 * i] * y[2 * i];
    const double scale = square > 0.0 ? 1e-4 / sqrt(square / (double)n) : 0.0;
    for (int64_t i = 0; i < n; i++) {
        y[2 * i] = scale * y[2 * i] + 1e-9 * sin((double)i); /* separates equal points */
        y[2 * i + 1] = scale * y[2 * i + 1] + 1e-9 * cos((double)i);
    }
    return GLOFND_OK;
}

glofnd_status gf_tsne(gf_error *err, const float *x, int64_t n, int64_t dim, const gf_tsne_spec *spec, double *y,
                      double *divergence) {
    const double widest = (double)(n - 1) / 3.0,
                 perplexity = fmin(spec->perplexity > 0.0 ? spec->perplexity : 30.0, fmax(widest, 1.0));
    const double theta = spec->theta != 0.0 ? spec->theta : n <= GF_TSNE_EXACT ? -1.0 : 0.6;
    const int threads = spec->threads > 0 ? spec->threads : gf_parallel_default();
    gf_affinity a = {0};
    TRY(gf_affinity_init(err, x, n, dim, perplexity, theta > 0.0 ? (int64_t)(3.0 * perplexity) : 0, threads, &a));
    double *scratch = malloc((size_t)(9 * n) * sizeof *scratch); /* gradient 2, velocity and gain 4, forces 3 */
    gf_tsne_field f = {.a = &a, .exaggeration = 1.0, .theta = theta, .threads = threads};
    if (theta > 0.0) f.tree = gf_tsne_tree_create(n);
    glofnd_status status = scratch && (f.tree || theta <= 0.0) ? init_positions(err, x, n, dim, y)
                                                               : gf_fail(err, GLOFND_E_MEMORY, "no memory for a map");
    if (status == GLOFND_OK) {
        f.scratch = scratch + 6 * n;
        const int iterations = spec->iterations > 0 ? spec->iterations : 600;
        double *state = scratch + 2 * n;
        const double early = 12.0, rate = fmax((double)n / early / 4.0, 50.0);
        const int exaggerated = iterations < 2 * EARLY ? iterations / 2 : EARLY;
        for (int64_t i = 0; i < 2 * n; i++) state[i] = 0.0, state[2 * n + i] = 1.0;
        for (int t = 0; t < iterations; t++) {
            f.exaggeration = t < exaggerated ? early : 1.0;
            gf_tsne_gradient(&f, y, scratch, NULL);
            /* One step with momentum and a gain per coordinate; state [4 n]: velocities and gains. */
            const double momentum = t < exaggerated ? 0.5 : 0.8;
            double *velocity = state, *gain = state + 2 * n;
            for (int64_t i = 0; i < 2 * n; i++) {
                gain[i] = velocity[i] * scratch[i] < 0.0 ? gain[i] + 0.2 : fmax(0.01, 0.8 * gain[i]);
                velocity[i] = momentum * velocity[i] - rate * gain[i] * scratch[i];
                y[i] += velocity[i];
            }
            double mean[2] = {0.0, 0.0};
            for (int64_t i = 0; i < 2 * n; i++) mean[i & 1] += y[i];
            for (int64_t i = 0; i < 2 * n; i++) y[i] -= mean[i & 1] / (double)n;
        }
        f.exaggeration = 1.0;
        if (divergence) gf_tsne_gradient(&f, y, scratch, divergence);
    }
    gf_tsne_tree_free(f.tree);
    gf_affinity_free(&a);
    free(scratch);
    return status;
}

/* ----- kde ----- */

double gf_kde_bandwidth(const float *x, int64_t n) {
    int64_t m = 0;
    double sum = 0.0, square = 0.0;
    float *v = n > 0 ? malloc((size_t)n * sizeof *v) : NULL; /* the finite values; none without memory */
    for (int64_t i = 0; v && i < n; i++)
        if (isfinite(x[i])) v[m++] = x[i];
    if (m < 2) {
        free(v);
        return 0.0;
    }
    for (int64_t i = 0; i < m; i++) sum += (double)v[i];
    for (int64_t i = 0; i < m; i++) square += ((double)v[i] - sum / (double)m) * ((double)v[i] - sum / (double)m);
    const double std = sqrt(square / (double)(m - 1));
    const double iqr = ((double)gf_quantile(v, m, 0.25) - (double)gf_quantile(v, m, 0.75)) / 1.34;
    free(v);
    return 0.9 * (iqr > 0.0 ? fmin(std, iqr) : std) * pow((double)m, -0.2);
}

void gf_kde(const float *x, int64_t n, double bandwidth, double low, double high, int points, double *out) {
    const double step = (high - low) / (points - 1);
    double count = 0.0, *mass = calloc((size_t)points, sizeof *mass);
    for (int k = 0; k < points; k++) out[k] = 0.0;
    for (int64_t i = 0; mass && i < n; i++) {
        const double at = ((double)x[i] - low) / step;
        if (!isfinite(at)) continue;
        count++;
        if (at < 0.0 || at > points - 1) continue;
        const int k = at < points - 1 ? (int)at : points - 2;
        mass[k] += 1.0 - (at - k), mass[k + 1] += at - k;
    }
    for (int k = 0; mass && k < points && bandwidth > 0.0; k++)
        if (mass[k] > 0.0) {
            /* The kernel at grid position k. */
            const double reach = 6.0 * bandwidth / step;
            const double height = mass[k] / count / (bandwidth * sqrt(2.0 * 3.14159265358979323846));
            const int first = k - reach > 0.0 ? (int)ceil(k - reach) : 0;
            const int last = k + reach < points - 1 ? (int)floor(k + reach) : points - 1;
            for (int j = first; j <= last; j++) {
                const double d = (double)(k - j) * step / bandwidth;
                out[j] += height * exp(-0.5 * d * d);
            }
        }
    free(mass);
}
