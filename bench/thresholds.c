/* thresholds.c - how well the learners of thresholds keep alpha and find the quantiles, on embeddings that stand still.
 *
 *     build/bench/thresholds [--learner shrinkage,adam] [--batch 16,128,1024] [--alpha 1e-3,1e-2] [--samples 4096] [--epochs 12]
 *                            [--dim 32] [--seed 1] [--pairs] [--data A.npy [B.npy]]
 *
 * A row per learner, batch and alpha:
 *
 *   first, last, least, most   flagged pairs of an epoch as a multiple of alpha: of the first and the last epoch that flag, and the
 *                              extremes; of epochs that expect at least 100 flagged pairs
 *   kept                       yes: all of these lie within 0.5 and 2
 *   error                      mean |lambda - exact| of 500 anchors after the last epoch. exact: the threshold that a share of alpha
 *                              of the anchor's similarities to all others exceeds; - if that is no pair
 *   batch                      the same error of FNC's rule, the quantile of one batch
 *   bytes, ms                  state of a sample; median processor time of a step, of all threads
 *
 * Embeddings are clusters whose sizes fall as 1/rank, of different widths, in two views; --pairs: images and texts. --data: rows of
 * .npy files, the second file the other view (else the first with a little noise). An epoch shuffles all of them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glofnd.h"
#include "io/npy.h"
#include "support/clock.h"
#include "support/die.h"
#include "util/array.h"
#include "util/machine.h"
#include "util/rng.h"

enum { LIST_MAX = 8, MEASURED = 500, FEWEST_FLAGS = 100 };

static struct {
    char *learner[LIST_MAX], *batch[LIST_MAX], *alpha[LIST_MAX]; /* NULL: the end */
    const char *file[2];
    int64_t samples, dim, epochs, seed;
    int pairs;
} wanted = {{"shrinkage", "adam"}, {"16", "128", "1024"}, {"1e-3", "1e-2"}, {NULL, NULL}, 4096, 32, 12, 1, 0};

/* ----- embeddings ----- */

typedef struct world {
    float *z[2]; /* [samples][dim] unit rows: the views, or image and text */
    int64_t n, dim;
} world;

static void *array(int64_t count, size_t size) {
    void *p = calloc((size_t)count, size);
    if (!p) die("no memory for %lld numbers", (long long)count);
    return p;
}

static void to_length_one(float *x, int64_t dim) {
    double sum = 0.0;
    for (int64_t j = 0; j < dim; j++) sum += (double)x[j] * (double)x[j];
    for (int64_t j = 0; j < dim; j++) x[j] = (float)((double)x[j] / sqrt(sum));
}

/* Cluster k holds a share of 1/(k + 1) of the samples; the widths of seven clusters in a row differ. */
static void draw(world *w) {
    const int64_t clusters = 100;
    float *centre = array(clusters * w->dim, sizeof *centre);
    double all = 0.0;
    gf_rng g = gf_rng_at((uint64_t)wanted.seed, GF_RNG_INIT, 0, 0, 0);
    for (int64_t i = 0; i < clusters * w->dim; i++) centre[i] = (float)gf_rng_normal(&g);
    for (int64_t k = 0; k < clusters; k++) all += 1.0 / (double)(k + 1);
    for (int64_t i = 0; i < w->n; i++) {
        double at = gf_rng_uniform(&g) * all;
        int64_t k = 0;
        while (k < clusters - 1 && (at -= 1.0 / (double)(k + 1)) > 0.0) k++;
        const double width = 0.4 + 0.15 * (double)(k % 7);
        for (int64_t j = 0; j < w->dim; j++) {
            const double x = (double)centre[k * w->dim + j] + width * gf_rng_normal(&g);
            for (int v = 0; v < 2; v++) w->z[v][i * w->dim + j] = (float)(x + 0.3 * gf_rng_normal(&g));
        }
        for (int v = 0; v < 2; v++) to_length_one(w->z[v] + i * w->dim, w->dim);
    }
    free(centre);
}

static void load(world *w, int v) {
    gf_npy a;
    gf_error err = {""};
    if (gf_npy_read(&err, wanted.file[v], &a) != GLOFND_OK) die("%s", err.text);
    if (a.type != GF_NPY_F4 || a.rank != 2) die("%s: expected float32 of two dimensions", wanted.file[v]);
    if (v == 0) w->n = GF_MIN(wanted.samples, a.shape[0]), w->dim = a.shape[1];
    if (a.shape[0] < w->n || a.shape[1] != w->dim)
        die("%s: expected %lld rows of %lld", wanted.file[v], (long long)w->n, (long long)w->dim);
    w->z[v] = array(w->n * w->dim, sizeof(float));
    memcpy(w->z[v], a.data, (size_t)(w->n * w->dim) * sizeof(float));
    for (int64_t i = 0; i < w->n; i++) to_length_one(w->z[v] + i * w->dim, w->dim);
    gf_npy_free(&a);
}

static world make_world(void) {
    world w = {.n = wanted.samples, .dim = wanted.dim};
    if (wanted.file[0]) load(&w, 0);
    for (int v = 0; v < 2; v++)
        if (!w.z[v]) w.z[v] = array(w.n * w.dim, sizeof(float));
    if (wanted.file[1]) load(&w, 1);
    else if (wanted.file[0]) {
        gf_rng g = gf_rng_at((uint64_t)wanted.seed, GF_RNG_INIT, 1, 0, 0);
        for (int64_t i = 0; i < w.n; i++) {
            for (int64_t j = 0; j < w.dim; j++)
                w.z[1][i * w.dim + j] = w.z[0][i * w.dim + j] + (float)(0.3 * gf_rng_normal(&g) / sqrt((double)w.dim));
            to_length_one(w.z[1] + i * w.dim, w.dim);
        }
    } else draw(&w);
    return w;
}

static int descending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Similarities of row i of view v to all others, the largest first; returns how many. */
static int64_t similarities(const world *w, int v, int64_t i, float *to) {
    const float *x = w->z[v] + i * w->dim;
    int64_t n = 0;
    for (int u = 0; u < 2; u++)
        for (int64_t k = 0; k < w->n; k++) {
            if (k == i || (wanted.pairs && u == v)) continue;
            const float *y = w->z[u] + k * w->dim;
            double s = 0.0;
            for (int64_t j = 0; j < w->dim; j++) s += (double)x[j] * (double)y[j];
            to[n++] = (float)s;
        }
    qsort(to, (size_t)n, sizeof *to, descending);
    return n;
}

/* Exact thresholds of every few anchors, of the first side: the mean over its rows. */
static void exact_thresholds(const world *w, double alpha, double *out, int64_t spacing) {
    float *s = array(2 * w->n, sizeof *s);
    for (int64_t a = 0; a * spacing < w->n && a < MEASURED; a++) {
        out[a] = 0.0;
        for (int v = 0; v < (wanted.pairs ? 1 : 2); v++) {
            const int64_t n = similarities(w, v, a * spacing, s), k = (int64_t)floor(alpha * (double)n);
            if (k < 1) out[a] = NAN;
            else out[a] += 0.5 * (double)(s[k - 1] + s[k]) / (wanted.pairs ? 1.0 : 2.0);
        }
    }
    free(s);
}

/* ----- a run ----- */

typedef struct trial {
    glofnd_ctx *ctx;
    glofnd_store *store;
    glofnd_store_info info;
    clock_times times;
} trial;

static void set(glofnd_options *o, const char *key, const char *value) {
    char why[300];
    if (glofnd_options_set(o, key, value, why, sizeof why) != GLOFND_OK) die("%s", why);
}

static void open_trial(trial *t, const world *w, const char *learner, const char *detector, const char *alpha) {
    glofnd_options *o = NULL;
    char why[300];
    if (glofnd_options_create(&o) != GLOFND_OK) die("no memory for options");
    set(o, "loss", "simclr"), set(o, "detector", detector), set(o, "alpha", alpha), set(o, "learner", learner);
    set(o, "pairing", wanted.pairs ? "image-text" : "views");
    if (glofnd_ctx_create(o, &t->ctx, why, sizeof why) != GLOFND_OK) die("%s", why);
    const glofnd_store_spec spec = {.size = sizeof spec, .n = w->n, .dim = w->dim};
    expect_ok(t->ctx, glofnd_store_create(t->ctx, &spec, &t->store), "store");
    t->info.size = sizeof t->info;
    glofnd_store_describe(t->store, &t->info);
    glofnd_options_free(o);
}

static void close_trial(trial *t) {
    glofnd_store_free(t->store);
    glofnd_ctx_free(t->ctx);
}

/* One epoch; returns the share of flagged pairs over alpha, and how many flags were expected. */
static double run_epoch(trial *t, const world *w, int64_t batch, int32_t epoch, double alpha, double *expected) {
    const size_t row = (size_t)w->dim * sizeof(float);
    float *x = array(4 * batch * w->dim, sizeof *x);
    int64_t *order = array(w->n, sizeof *order);
    double flagged = 0.0, pairs = 0.0;
    gf_rng g = gf_rng_at((uint64_t)wanted.seed, GF_RNG_INIT, 2, (uint64_t)epoch, 0);
    for (int64_t i = 0; i < w->n; i++) {
        const int64_t k = (int64_t)(gf_rng_uniform(&g) * (double)(i + 1));
        order[i] = order[k], order[k] = i;
    }
    for (int64_t first = 0; first + batch <= w->n; first += batch) {
        float *a = x, *b = x + batch * w->dim;
        for (int64_t r = 0; r < batch; r++) {
            memcpy(a + r * w->dim, w->z[0] + order[first + r] * w->dim, row);
            memcpy(b + r * w->dim, w->z[1] + order[first + r] * w->dim, row);
        }
        const glofnd_batch q = {.size = sizeof q, .n = batch, .dim = w->dim, .a = a, .b = b, .id = order + first, .epoch = epoch};
        glofnd_stats stats = {.size = sizeof stats};
        const double start = gf_cpu_clock();
        expect_ok(t->ctx, glofnd_step(t->ctx, t->store, &q, b + batch * w->dim, b + 2 * batch * w->dim, &stats), "step");
        clock_add(&t->times, 1e3 * (gf_cpu_clock() - start));
        flagged += (double)stats.flagged, pairs += (double)stats.pairs;
    }
    free(x);
    free(order);
    *expected = alpha * pairs;
    return flagged / *expected;
}

static double error_of(trial *t, const double *exact, const world *w, int64_t spacing) {
    double sum = 0.0;
    int64_t n = 0;
    for (; n * spacing < w->n && n < MEASURED; n++) {
        glofnd_anchor row;
        const int64_t id = n * spacing;
        expect_ok(t->ctx, glofnd_anchors_get(t->ctx, t->store, 0, &id, 1, &row), "anchors");
        const glofnd_anchor *have = &row;
        sum += fabs((double)have->lambda - exact[n]);
    }
    return sum / (double)n;
}

/* FNC's rule: the mean error of the quantile of one batch, the first one of the order 0, 1, 2 .. by steps. */
static double error_of_batches(const world *w, const double *exact, int64_t spacing, int64_t batch, double alpha) {
    float *s = array(2 * batch, sizeof *s);
    double sum = 0.0;
    int64_t n = 0;
    gf_rng g = gf_rng_at((uint64_t)wanted.seed, GF_RNG_INIT, 3, (uint64_t)batch, 0);
    for (; n * spacing < w->n && n < MEASURED; n++) {
        double mean = 0.0;
        for (int v = 0; v < (wanted.pairs ? 1 : 2); v++) {
            const float *x = w->z[v] + n * spacing * w->dim;
            int64_t count = 0;
            for (int64_t k = 0; k < batch - 1; k++) {
                int64_t other = (int64_t)(gf_rng_uniform(&g) * (double)w->n);
                if (other == n * spacing) other = (other + 1) % w->n;
                for (int u = 0; u < 2; u++) {
                    if (wanted.pairs && u == v) continue;
                    const float *y = w->z[u] + other * w->dim;
                    double dot = 0.0;
                    for (int64_t j = 0; j < w->dim; j++) dot += (double)x[j] * (double)y[j];
                    s[count++] = (float)dot;
                }
            }
            qsort(s, (size_t)count, sizeof *s, descending);
            const double at = alpha * (double)(count - 1);
            const int64_t k = (int64_t)floor(at);
            mean += (double)s[k] + (at - (double)k) * (double)(s[GF_MIN(k + 1, count - 1)] - s[k]);
        }
        sum += fabs(mean / (wanted.pairs ? 1.0 : 2.0) - exact[n]);
    }
    free(s);
    return sum / (double)n;
}

static void run(const world *w, const char *learner, int64_t batch, const char *alpha_text, const double *exact, int64_t spacing,
                double of_batches) {
    trial t = {0};
    const double alpha = strtod(alpha_text, NULL);
    double first = NAN, last = NAN, least = INFINITY, most = 0.0;
    const int single = strcmp(learner, "single") == 0;
    open_trial(&t, w, single ? "auto" : learner, single ? "single" : "glofnd", alpha_text);
    for (int32_t e = 0; e < wanted.epochs; e++) {
        double expected;
        const double share = run_epoch(&t, w, batch, e, alpha, &expected);
        if (expected < FEWEST_FLAGS) continue;
        if (isnan(first)) first = share;
        last = share, least = fmin(least, share), most = fmax(most, share);
    }
    printf("%-10s %6lld %8s", learner, (long long)batch, alpha_text);
    if (isnan(first)) printf("%39s", "too few pairs in an epoch");
    else printf(" %7.2f %7.2f %7.2f %7.2f %6s", first, last, least, most, least >= 0.5 && most <= 2.0 ? "yes" : "NO");
    if (isnan(exact[0]) || single) printf("       -       -");
    else printf(" %7.4f %7.4f", error_of(&t, exact, w, spacing), of_batches);
    const double ring = (double)(t.info.ring_rows * (t.info.ring_dim * (int64_t)sizeof(float) + 8)) * (wanted.pairs ? 2.0 : 1.0);
    printf(" %6zu %9.3f", t.info.row_bytes, clock_median(&t.times));
    if (ring > 0.0) printf("  and a ring of %.1f MB", ring / 1e6);
    printf("\n");
    fflush(stdout);
    close_trial(&t);
}

/* ----- command line ----- */

static void take_list(char *text, char **list) {
    int n = 0;
    for (char *p = strtok(text, ","); p; p = strtok(NULL, ",")) {
        if (n == LIST_MAX - 1) die("a list has at most %d values", LIST_MAX - 1);
        list[n++] = p;
    }
    list[n] = NULL;
}

static int64_t number(const char *flag, const char *text) {
    char *end;
    const long long x = strtoll(text, &end, 10);
    if (*end || end == text || x < 1) die("%s %s: expected a number above 0", flag, text);
    return x;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        if (strcmp(flag, "--pairs") == 0) {
            wanted.pairs = 1;
            continue;
        }
        if (i + 1 == argc) die("%s: expected a value; the head of bench/thresholds.c explains", flag);
        char *value = argv[++i];
        if (strcmp(flag, "--learner") == 0) take_list(value, wanted.learner);
        else if (strcmp(flag, "--batch") == 0) take_list(value, wanted.batch);
        else if (strcmp(flag, "--alpha") == 0) take_list(value, wanted.alpha);
        else if (strcmp(flag, "--samples") == 0) wanted.samples = number(flag, value);
        else if (strcmp(flag, "--dim") == 0) wanted.dim = number(flag, value);
        else if (strcmp(flag, "--epochs") == 0) wanted.epochs = number(flag, value);
        else if (strcmp(flag, "--seed") == 0) wanted.seed = number(flag, value);
        else if (strcmp(flag, "--data") == 0) {
            wanted.file[0] = value;
            if (i + 1 < argc && argv[i + 1][0] != '-') wanted.file[1] = argv[++i];
        } else die("unknown option %s; the head of bench/thresholds.c explains", flag);
    }
    world w = make_world();
    const int64_t spacing = GF_MAX(1, w.n / MEASURED);
    double exact[MEASURED + 1];
    printf("%lld samples of %lld numbers, %s, %lld epochs\n", (long long)w.n, (long long)w.dim,
           wanted.pairs ? "pairs" : "two views", (long long)wanted.epochs);
    printf("%-10s %6s %8s %7s %7s %7s %7s %6s %7s %7s %6s %9s\n", "learner", "batch", "alpha", "first", "last", "least", "most",
           "kept", "error", "batch", "bytes", "ms");
    for (int a = 0; wanted.alpha[a]; a++) {
        exact_thresholds(&w, strtod(wanted.alpha[a], NULL), exact, spacing);
        for (int b = 0; wanted.batch[b]; b++) {
            const int64_t batch = GF_MIN(number("--batch", wanted.batch[b]), w.n);
            const double of_batches = error_of_batches(&w, exact, spacing, batch, strtod(wanted.alpha[a], NULL));
            for (int l = 0; wanted.learner[l]; l++)
                run(&w, wanted.learner[l], batch, wanted.alpha[a], exact, spacing, of_batches);
        }
    }
    free(w.z[0]);
    free(w.z[1]);
    return 0;
}
