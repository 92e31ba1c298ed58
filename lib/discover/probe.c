/* probe.c - a linear classifier of labels that has not seen the label it predicts; see decide.h.
 *
 * Linear discriminant analysis: the rows of class c are normal with mean mu[c] and the common covariance S / (n - C). S is the sum of
 * (x - mu)(x - mu)' over all rows; its diagonal is enlarged by SHRINKAGE. With D[c] = (x - mu[c])' S^-1 (x - mu[c]),
 *     log p(c | x) = - (n - C) / 2 D[c] + log(rows of c)     up to a term that is common to the classes.
 * A row is left out of what predicts it, without another fit: with v = x - mu[g] of its own class g of m rows and a = m / (m - 1), the
 * mean of the class loses v / (m - 1), and S loses a v v'. So, with h = D[g] and k[c] = (x - mu[c])' S^-1 v,
 *     D[c] becomes D[c] + a k[c]^2 / (1 - a h),  and that of g  a^2 (h + a h^2 / (1 - a h)).
 * Everything is a product with W = U^-1, where S = U' U. The rows are visited three times: means, S, predictions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "discover/decide.h"
#include "util/array.h"

#define SHRINKAGE 0.01
enum { SCATTER_ROWS = 128, SCATTER_DIMS = 16, PREDICT_ROWS = 4, PREDICT_TASK = 256 };

typedef struct probe {
    const gf_discover_data *d;
    const int32_t *class_of; /* [good_n] -1: unknown */
    int64_t dim, classes, n; /* n: rows with a class */
    int threads;
    double *count;   /* [classes] */
    double *sum;     /* [classes][dim] */
    float *centre;   /* [classes][dim] */
    float *mean;     /* [dim] of all */
    double *scatter; /* [dim][dim] the upper triangle of S, then U */
    float *white;    /* [dim][dim] W */
    float *at;       /* [dim][classes] centres less the mean, times W */
    float *gram;     /* [classes][classes] their products */
    float *scratch;  /* [threads] */
    size_t each;     /* floats of a thread */
    const row_piece *piece;
    float *evidence; /* [good_n][classes] */
} probe;

/* ----- means ----- */

static void add_sums(void *user, const row_piece *piece) {
    probe *x = user;
    for (int64_t i = piece->first; i < piece->first + piece->count; i++) {
        const int32_t c = x->class_of[i];
        const float *row = gf_piece_row(piece, i);
        if (c < 0) continue;
        x->count[c]++, x->n++;
        for (int64_t k = 0; k < x->dim; k++) x->sum[c * x->dim + k] += (double)row[k];
    }
}

static void finish_means(probe *x) {
    for (int64_t k = 0; k < x->dim; k++) {
        double all = 0.0;
        for (int64_t c = 0; c < x->classes; c++) {
            all += x->sum[c * x->dim + k];
            x->centre[c * x->dim + k] = (float)(x->sum[c * x->dim + k] / fmax(x->count[c], 1.0));
        }
        x->mean[k] = (float)(all / (double)x->n);
    }
}

/* ----- scatter ----- */

/* Rows `task` * SCATTER_DIMS and following ones of the matrix. Sums of some samples are floats, of all doubles. */
static void add_scatter_rows(void *arg, int64_t task, int thread) {
    const probe *x = arg;
    const int64_t dim = x->dim, from = task * SCATTER_DIMS, dims = GF_MIN(SCATTER_DIMS, dim - from);
    const row_piece *p = x->piece;
    float *part = x->scratch + (size_t)thread * x->each, *v = part + SCATTER_DIMS * dim;
    for (int64_t i = p->first; i < p->first + p->count;) {
        const int64_t some = p->d->good[i] / SCATTER_ROWS; /* the same samples, whatever the pieces */
        memset(part, 0, (size_t)(SCATTER_DIMS * dim) * sizeof *part);
        for (; i < p->first + p->count && p->d->good[i] / SCATTER_ROWS == some; i++) {
            if (x->class_of[i] < 0) continue;
            const float *row = gf_piece_row(p, i), *centre = x->centre + x->class_of[i] * dim;
            for (int64_t k = from; k < dim; k++) v[k] = row[k] - centre[k];
            for (int64_t a = 0; a < dims; a++) {
                const float f = v[from + a];
                for (int64_t k = from; k < dim; k++) part[a * dim + k] += f * v[k];
            }
        }
        for (int64_t a = 0; a < dims; a++)
            for (int64_t k = from; k < dim; k++) x->scatter[(from + a) * dim + k] += (double)part[a * dim + k];
    }
}

static void add_scatter(void *user, const row_piece *piece) {
    probe *x = user;
    x->piece = piece;
    gf_parallel(x->threads, (x->dim + SCATTER_DIMS - 1) / SCATTER_DIMS, add_scatter_rows, x);
}

/* S = U' U in place, then W = U^-1. 0: all rows of each class are equal. */
static int invert(probe *x, const gf_job_progress *watch) {
    const int64_t dim = x->dim;
    double *s = x->scatter, *line, trace = 0.0;
    for (int64_t i = 0; i < dim; i++) trace += s[i * dim + i];
    if (!(trace > 0.0)) return 0;
    for (int64_t i = 0; i < dim; i++) s[i * dim + i] += SHRINKAGE * s[i * dim + i] + 1e-6 * trace / (double)dim;
    for (int64_t k = 0; k < dim && !gf_job_stopped(watch); k++) {
        line = s + k * dim;
        const double root = sqrt(fmax(line[k], 1e-9 * trace / (double)dim));
        for (int64_t j = k; j < dim; j++) line[j] /= root;
        line[k] = root;
        for (int64_t i = k + 1; i < dim; i++)
            for (int64_t j = i; j < dim; j++) s[i * dim + j] -= line[i] * line[j];
    }
    for (int64_t i = dim - 1; i >= 0 && !gf_job_stopped(watch); i--) { /* W replaces U from the last row on */
        line = s + i * dim;
        const double pivot = 1.0 / line[i];
        double *sum = x->sum; /* [dim] */
        memset(sum, 0, (size_t)dim * sizeof *sum);
        for (int64_t k = i + 1; k < dim; k++)
            for (int64_t j = k; j < dim; j++) sum[j] += line[k] * s[k * dim + j];
        line[i] = pivot;
        for (int64_t j = i + 1; j < dim; j++) line[j] = -pivot * sum[j];
    }
    for (int64_t k = 0; k < dim * dim; k++) x->white[k] = (float)s[k];
    return 1;
}

/* z [rows][dim]: v [rows][dim] times W. */
static void whiten(const probe *x, const float *v, int64_t rows, float *z) {
    const int64_t dim = x->dim;
    memset(z, 0, (size_t)(rows * dim) * sizeof *z);
    for (int64_t i = 0; i < dim; i++) {
        const float *w = x->white + i * dim;
        for (int64_t r = 0; r < rows; r++) {
            const float f = v[r * dim + i];
            for (int64_t j = i; j < dim; j++) z[r * dim + j] += f * w[j];
        }
    }
}

static void place_centres(probe *x) {
    float *v = x->scratch, *z = v + x->dim;
    for (int64_t c = 0; c < x->classes; c++) {
        for (int64_t k = 0; k < x->dim; k++) v[k] = x->centre[c * x->dim + k] - x->mean[k];
        whiten(x, v, 1, z);
        for (int64_t k = 0; k < x->dim; k++) x->at[k * x->classes + c] = z[k];
    }
    memset(x->gram, 0, (size_t)(x->classes * x->classes) * sizeof *x->gram);
    for (int64_t k = 0; k < x->dim; k++) {
        const float *at = x->at + k * x->classes;
        for (int64_t a = 0; a < x->classes; a++)
            for (int64_t c = 0; c < x->classes; c++) x->gram[a * x->classes + c] += at[a] * at[c];
    }
}

/* ----- predictions ----- */

/* product [classes]: of a row with the centres; square: its length. */
static void predict(const probe *x, int64_t i, const float *product, double square, float *out) {
    const int64_t g = x->class_of[i];
    const double scale = 0.5 * (double)(x->n - x->classes), one = g >= 0 ? x->count[g] : 0.0;
    const float *own = x->gram + (g >= 0 ? g : 0) * x->classes;
    double h = 0.0, a = 0.0, left = 1.0;
    if (one > 1.0) {
        a = one / (one - 1.0);
        h = fmax(square - 2.0 * (double)product[g] + (double)own[g], 0.0);
        left = fmax(1.0 - a * h, 1e-6);
    }
    for (int64_t c = 0; c < x->classes; c++) {
        double distance = square - 2.0 * (double)product[c] + (double)x->gram[c * x->classes + c];
        if (one > 1.0 && c != g) {
            const double k = square - (double)product[c] - (double)product[g] + (double)own[c];
            distance += a * k * k / left;
        } else if (c == g) distance = one > 1.0 ? a * a * (h + a * h * h / left) : square; /* alone: from the mean of all */
        out[c] = (float)(-scale * distance + log(fmax(x->count[c] - (c == g), 0.5)));
    }
}

static void predict_rows(void *arg, int64_t task, int thread) {
    const probe *x = arg;
    const row_piece *p = x->piece;
    const int64_t dim = x->dim, end = GF_MIN((task + 1) * PREDICT_TASK, p->count);
    float *v = x->scratch + (size_t)thread * x->each, *z = v + PREDICT_ROWS * dim, *product = z + PREDICT_ROWS * dim;
    for (int64_t first = task * PREDICT_TASK; first < end; first += PREDICT_ROWS) {
        const int64_t rows = GF_MIN(PREDICT_ROWS, end - first);
        for (int64_t r = 0; r < rows; r++) {
            const float *row = gf_piece_row(p, p->first + first + r);
            for (int64_t k = 0; k < dim; k++) v[r * dim + k] = row[k] - x->mean[k];
        }
        whiten(x, v, rows, z);
        for (int64_t r = 0; r < rows; r++) {
            double square = 0.0;
            memset(product, 0, (size_t)x->classes * sizeof *product);
            for (int64_t k = 0; k < dim; k++) {
                const float f = z[r * dim + k];
                const float *at = x->at + k * x->classes;
                square += (double)f * (double)f;
                for (int64_t c = 0; c < x->classes; c++) product[c] += f * at[c];
            }
            const int64_t i = p->first + first + r;
            predict(x, i, product, square, x->evidence + i * x->classes);
        }
    }
}

static void predict_piece(void *user, const row_piece *piece) {
    probe *x = user;
    x->piece = piece;
    gf_parallel(x->threads, (piece->count + PREDICT_TASK - 1) / PREDICT_TASK, predict_rows, x);
}

/* ----- the whole ----- */

static glofnd_status alloc_probe(gf_error *err, probe *x, size_t memory) {
    const double dim = (double)x->dim, classes = (double)x->classes, n = (double)x->d->good_n;
    const double bytes = 12.0 * dim * dim + 16.0 * classes * dim + 4.0 * classes * (classes + n);
    FAIL_IF(err, bytes > (double)memory, GLOFND_E_MEMORY,
            "a probe of %lld rows, %lld dimensions and %lld labels takes %.3g GB of memory; memory allows %.3g", (long long)x->n,
            (long long)x->dim, (long long)x->classes, 1e-9 * bytes, 1e-9 * (double)memory);
    const size_t square = (size_t)x->dim * (size_t)x->dim, table = (size_t)x->classes * (size_t)x->dim;
    x->each = (size_t)GF_MAX(SCATTER_DIMS + 1, 2 * PREDICT_ROWS) * (size_t)x->dim + (size_t)x->classes;
    x->count = calloc((size_t)x->classes, sizeof *x->count);
    x->sum = calloc(table, sizeof *x->sum);
    x->centre = malloc(table * sizeof *x->centre);
    x->mean = malloc((size_t)x->dim * sizeof *x->mean);
    x->scatter = calloc(square, sizeof *x->scatter);
    x->white = malloc(square * sizeof *x->white);
    x->at = malloc(table * sizeof *x->at);
    x->gram = malloc((size_t)x->classes * (size_t)x->classes * sizeof *x->gram);
    x->scratch = malloc((size_t)x->threads * x->each * sizeof *x->scratch);
    x->evidence = calloc((size_t)x->d->good_n * (size_t)x->classes, sizeof *x->evidence);
    FAIL_IF(err,
            !x->count || !x->sum || !x->centre || !x->mean || !x->scatter || !x->white || !x->at || !x->gram || !x->scratch ||
                !x->evidence,
            GLOFND_E_MEMORY, "no memory for a probe of %lld rows", (long long)x->d->good_n);
    return GLOFND_OK;
}

static glofnd_status fit_and_predict(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, probe *x) {
    TRY(alloc_probe(err, x, s->task.memory));
    TRY(gf_decide_visit_rows(err, c, s, x->d, add_sums, x));
    FAIL_IF(err, x->n <= x->classes || x->classes < 2, GLOFND_E_OPTION,
            "a probe needs two labels, and more labelled rows than labels; there are %lld and %lld", (long long)x->classes,
            (long long)x->n);
    finish_means(x);
    TRY(gf_decide_visit_rows(err, c, s, x->d, add_scatter, x));
    if (!invert(x, &s->task.watch)) return GLOFND_OK; /* no evidence */
    FAIL_IF(err, gf_job_stopped(&s->task.watch), GLOFND_E_CANCELLED, "cancelled");
    place_centres(x);
    return gf_decide_visit_rows(err, c, s, x->d, predict_piece, x);
}

glofnd_status gf_probe_labels(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                              const int32_t *class_of, int64_t classes, float **evidence) {
    probe x = {.d = d, .class_of = class_of, .dim = d->dim, .classes = classes, .threads = s->task.threads};
    FAIL_IF(err, !d->x && !c->rows, GLOFND_E_ARGUMENT, "a probe needs the embeddings");
    const glofnd_status status = fit_and_predict(err, c, s, &x);
    free(x.count), free(x.sum), free(x.centre), free(x.mean), free(x.scatter), free(x.white);
    free(x.at), free(x.gram), free(x.scratch);
    if (status == GLOFND_OK) *evidence = x.evidence;
    else free(x.evidence);
    return status;
}
