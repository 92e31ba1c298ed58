/* tsne.c - see tsne.h: gradient and descent. */
#include "plot/tsne.h"

#include <math.h>
#include <stdlib.h>

#include "plot/pca.h"
#include "util/parallel.h"

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

static double divergence_of(const gf_affinity *a, const double *y, double normaliser) {
    double kl = 0.0;
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t k = a->start[i]; k < a->start[i + 1]; k++) {
            const int64_t j = a->col[k];
            const double dx = y[2 * i] - y[2 * j], dy = y[2 * i + 1] - y[2 * j + 1];
            if (a->p[k] > 0.0) kl += a->p[k] * log(a->p[k] * normaliser * (1.0 + dx * dx + dy * dy));
        }
    return kl;
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
    if (divergence) *divergence = divergence_of(f->a, y, normaliser);
}

/* ----- descent ----- */

enum { EARLY = 250 }; /* iterations with exaggerated affinities */

/* Initial positions: the principal axes, scaled down so that the affinities decide. */
static glofnd_status init_positions(gf_error *err, const float *x, int64_t n, int64_t dim, double *y) {
    double share[2], square = 0.0;
    TRY(gf_pca(err, x, n, dim, y, share));
    for (int64_t i = 0; i < n; i++) square += y[2 * i] * y[2 * i];
    const double scale = square > 0.0 ? 1e-4 / sqrt(square / (double)n) : 0.0;
    for (int64_t i = 0; i < n; i++) {
        y[2 * i] = scale * y[2 * i] + 1e-9 * sin((double)i); /* separates equal points */
        y[2 * i + 1] = scale * y[2 * i + 1] + 1e-9 * cos((double)i);
    }
    return GLOFND_OK;
}

static void centre(double *y, int64_t n) {
    double mean[2] = {0.0, 0.0};
    for (int64_t i = 0; i < 2 * n; i++) mean[i & 1] += y[i];
    for (int64_t i = 0; i < 2 * n; i++) y[i] -= mean[i & 1] / (double)n;
}

/* One step with momentum and a gain per coordinate; state [4 n]: velocities and gains. */
static void move(double *y, const double *grad, int64_t n, double rate, double momentum, double *state) {
    double *velocity = state, *gain = state + 2 * n;
    for (int64_t i = 0; i < 2 * n; i++) {
        gain[i] = velocity[i] * grad[i] < 0.0 ? gain[i] + 0.2 : fmax(0.01, 0.8 * gain[i]);
        velocity[i] = momentum * velocity[i] - rate * gain[i] * grad[i];
        y[i] += velocity[i];
    }
    centre(y, n);
}

static void descend(gf_tsne_field *f, int iterations, double *y, double *grad, double *state, double *divergence) {
    const int64_t n = f->a->n;
    const double early = 12.0, rate = fmax((double)n / early / 4.0, 50.0);
    const int exaggerated = iterations < 2 * EARLY ? iterations / 2 : EARLY;
    for (int64_t i = 0; i < 2 * n; i++) state[i] = 0.0, state[2 * n + i] = 1.0;
    for (int t = 0; t < iterations; t++) {
        f->exaggeration = t < exaggerated ? early : 1.0;
        gf_tsne_gradient(f, y, grad, NULL);
        move(y, grad, n, rate, t < exaggerated ? 0.5 : 0.8, state);
    }
    f->exaggeration = 1.0;
    if (divergence) gf_tsne_gradient(f, y, grad, divergence);
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
        descend(&f, spec->iterations > 0 ? spec->iterations : 600, y, scratch, scratch + 2 * n, divergence);
    }
    gf_tsne_tree_free(f.tree);
    gf_affinity_free(&a);
    free(scratch);
    return status;
}
