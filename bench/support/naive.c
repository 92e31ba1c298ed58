/* naive.c - see naive.h. Start reading at naive_step. */
#include "support/naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "method/formulas/lambda.h"
#include "support/die.h"
#include "support/passes.h"
#include "support/product.h"
#include "util/parallel.h"

typedef struct work { /* of one step; [2]: the two views */
    naive *x;
    const glofnd_batch *q;
    extent e;              /* B x 2B */
    float *z[2], *norm[2]; /* [B][d], [B] */
    float *cols[2];        /* [2B][d] what view v is compared with: the other view, then itself */
    float *s[2];           /* [B][2B] */
    uint8_t *keep[2];      /* [B][2B] */
    int32_t *kept[2];      /* [B] */
    float *ds[2];          /* [B][2B] */
    float *dz[2];          /* [B][d] */
    double *log_u[2];      /* [B] of this step's rows */
    double loss;
} work;

#define TAKE(w, type, count) ((type *)pool_take((w)->x->memory, sizeof(type) * (size_t)(count)))
#define GIVE(w, block) pool_give((w)->x->memory, (block))

static int64_t entries(const work *w) { return w->e.rows * w->e.cols; }

/* ---- embeddings ---- */

#define ROWS 32 /* rows per task of what is done per row; B is a multiple of it */

static void normalize_row(const work *w, int v, int64_t i) {
    const int64_t d = w->q->dim;
    const float *h = (const float *)(v ? w->q->b : w->q->a) + i * d;
    double square = 0.0;
    for (int64_t j = 0; j < d; j++) square += (double)h[j] * (double)h[j];
    const double norm = fmax(sqrt(square), 1e-12);
    w->norm[v][i] = (float)norm;
    for (int64_t j = 0; j < d; j++) w->z[v][i * d + j] = (float)((double)h[j] / norm);
}

static void normalize_rows(void *arg, int64_t task, int thread) {
    (void)thread;
    for (int64_t i = task * ROWS; i < (task + 1) * ROWS; i++)
        for (int v = 0; v < 2; v++) normalize_row(arg, v, i);
}

static void embed(work *w) {
    const int64_t b = w->e.rows, d = w->q->dim;
    for (int v = 0; v < 2; v++) w->z[v] = TAKE(w, float, b *d), w->norm[v] = TAKE(w, float, b);
    gf_parallel(w->e.threads, b / ROWS, normalize_rows, w);
    for (int v = 0; v < 2; v++) {
        w->cols[v] = TAKE(w, float, 2 * b * d);
        memcpy(w->cols[v], w->z[1 - v], sizeof(float) * (size_t)(b * d));
        memcpy(w->cols[v] + b * d, w->z[v], sizeof(float) * (size_t)(b * d));
    }
}

static void similarities(work *w) {
    const int64_t d = w->q->dim;
    for (int v = 0; v < 2; v++) {
        w->s[v] = TAKE(w, float, entries(w));
        product(w->x->memory, w->s[v], w->e.cols, (matrix){w->z[v], d, 0}, (matrix){w->cols[v], d, 1}, w->e.rows, w->e.cols, d,
                w->e.threads);
    }
}

/* ---- detectors: keep[v] ---- */

/* (S > lambda) & negative, summed: three passes. */
static void count_above(work *w, int v, const float *lambda, int32_t *above) {
    uint8_t *flag = TAKE(w, uint8_t, entries(w)), *both = TAKE(w, uint8_t, entries(w));
    pass_above(w->e, flag, w->s[v], lambda);
    pass_and(w->e, both, flag, w->x->negative);
    GIVE(w, flag);
    pass_count(w->e, above, both);
    GIVE(w, both);
}

static void move_lambda(work *w, const int32_t *above[2]) {
    naive *x = w->x;
    const gf_learner l = gf_learner_of(&x->o, 0, w->q->epoch);
    const double per_row = 2.0 * (double)(w->e.rows - 1);
    double all = 0.0;
    for (int64_t i = 0; i < w->e.rows; i++) {
        const double here = (double)above[0][i] + (double)above[1][i];
        if (x->o.detector == GLOFND_DETECT_GLOFND) gf_lambda_update(&l, NULL, &x->state[i], here, 2.0 * per_row);
        all += here;
    }
    if (x->o.detector == GLOFND_DETECT_SINGLE) gf_lambda_update(&l, NULL, &x->shared, all, 2.0 * per_row * (double)w->e.rows);
}

static void read_lambda(const work *w, float *lambda) {
    const naive *x = w->x;
    const int single = x->o.detector == GLOFND_DETECT_SINGLE;
    for (int64_t i = 0; i < w->e.rows; i++) lambda[i] = single ? x->shared.lambda : x->state[i].lambda;
}

static void keep_at_most(work *w, int v, const float *theta) {
    uint8_t *low = TAKE(w, uint8_t, entries(w));
    w->keep[v] = TAKE(w, uint8_t, entries(w));
    pass_at_most(w->e, low, w->s[v], theta);
    pass_and(w->e, w->keep[v], low, w->x->negative);
    GIVE(w, low);
}

static void detect_learned(work *w) {
    float *lambda = TAKE(w, float, w->e.rows);
    int32_t *above[2] = {TAKE(w, int32_t, w->e.rows), TAKE(w, int32_t, w->e.rows)};
    read_lambda(w, lambda);
    for (int v = 0; v < 2; v++) count_above(w, v, lambda, above[v]);
    move_lambda(w, (const int32_t *[2]){above[0], above[1]});
    read_lambda(w, lambda);
    for (int v = 0; v < 2; v++) keep_at_most(w, v, lambda);
    for (int v = 0; v < 2; v++) GIVE(w, above[v]);
    GIVE(w, lambda);
}

static void detect_quantile(work *w) {
    float *theta = TAKE(w, float, w->e.rows);
    for (int v = 0; v < 2; v++) {
        float *filled = TAKE(w, float, entries(w));
        pass_fill(w->e, filled, w->s[v], w->x->negative, -2.0f);
        pass_quantile(w->e, theta, filled, 2 * (w->e.rows - 1), w->x->o.alpha);
        GIVE(w, filled);
        keep_at_most(w, v, theta);
    }
    GIVE(w, theta);
}

static void detect_labels(work *w) {
    const int64_t b = w->e.rows;
    int32_t *label = TAKE(w, int32_t, 2 * b);
    uint8_t *differ = TAKE(w, uint8_t, entries(w));
    for (int64_t j = 0; j < 2 * b; j++) label[j] = w->q->label[j % b];
    pass_differ(w->e, differ, label, label);
    w->keep[0] = w->keep[1] = TAKE(w, uint8_t, entries(w));
    pass_and(w->e, w->keep[0], differ, w->x->negative);
    GIVE(w, differ);
    GIVE(w, label);
}

static void detect(work *w) {
    switch (w->x->o.detector) {
    case GLOFND_DETECT_GLOFND:
    case GLOFND_DETECT_SINGLE: detect_learned(w); break;
    case GLOFND_DETECT_FNC: detect_quantile(w); break;
    case GLOFND_DETECT_ORACLE: detect_labels(w); break;
    default: w->keep[0] = w->keep[1] = w->x->negative;
    }
    for (int v = 0; v < 2; v++) {
        w->kept[v] = TAKE(w, int32_t, w->e.rows);
        pass_count(w->e, w->kept[v], w->keep[v]);
    }
}

static void drop_masks(work *w) {
    const int shared = w->keep[0] == w->keep[1];
    if (w->keep[0] != w->x->negative) GIVE(w, w->keep[0]);
    if (!shared) GIVE(w, w->keep[1]);
}

/* ---- loss: u, weights ---- */

static double positive(const work *w, int64_t i) {
    const int64_t d = w->q->dim;
    double s = 0.0;
    for (int64_t j = 0; j < d; j++) s += (double)w->z[0][i * d + j] * (double)w->z[1][i * d + j];
    return s;
}

/* weight[i] = 1 / (B c u): what exp(S/tau) is multiplied with in the gradient. */
static void average(work *w, int v, const double *sum, float *weight) {
    const double b = (double)w->e.rows, gamma = w->x->o.gamma, tau = w->x->o.tau;
    for (int64_t i = 0; i < w->e.rows; i++) {
        const double old = (double)w->x->state[i].log_u, c = (double)w->kept[v][i], mean = sum[i] / c;
        const double u = isinf(old) ? mean : (1.0 - gamma) * exp(old) + gamma * mean;
        w->log_u[v][i] = log(u);
        weight[i] = (float)(1.0 / (b * c * u));
        w->loss += (tau * log(c * u) - positive(w, i)) / b;
    }
}

static void weigh(work *w, int v) {
    double *sum = TAKE(w, double, w->e.rows);
    float *weight = TAKE(w, float, w->e.rows);
    float *scaled = TAKE(w, float, entries(w)), *e = TAKE(w, float, entries(w));
    pass_scale(w->e, scaled, w->s[v], (float)(1.0 / w->x->o.tau));
    pass_exp(w->e, e, scaled);
    GIVE(w, scaled);
    float *kept = TAKE(w, float, entries(w));
    pass_keep(w->e, kept, e, w->keep[v]);
    GIVE(w, e);
    pass_sum(w->e, sum, kept);
    average(w, v, sum, weight);
    w->ds[v] = TAKE(w, float, entries(w));
    pass_scale_rows(w->e, w->ds[v], kept, weight);
    GIVE(w, kept);
    GIVE(w, weight);
    GIVE(w, sum);
}

static void save_u(work *w) {
    for (int64_t i = 0; i < w->e.rows; i++) w->x->state[i].log_u = (float)log(0.5 * (exp(w->log_u[0][i]) + exp(w->log_u[1][i])));
}

/* ---- gradient ---- */

static void add(float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

/* dS_v through S_v = Z_v cols_v': to Z_v as rows, and to both views as columns. */
static void back(work *w) {
    const int64_t b = w->e.rows, d = w->q->dim;
    for (int v = 0; v < 2; v++) w->dz[v] = memset(TAKE(w, float, b *d), 0, sizeof(float) * (size_t)(b * d));
    for (int v = 0; v < 2; v++) {
        float *rows = TAKE(w, float, b *d), *cols = TAKE(w, float, 2 * b * d);
        const matrix ds = {w->ds[v], w->e.cols, 0}, ds_transposed = {w->ds[v], w->e.cols, 1};
        product(w->x->memory, rows, d, ds, (matrix){w->cols[v], d, 0}, b, d, w->e.cols, w->e.threads);
        product(w->x->memory, cols, d, ds_transposed, (matrix){w->z[v], d, 0}, w->e.cols, d, b, w->e.threads);
        add(w->dz[v], rows, b * d);
        add(w->dz[1 - v], cols, b * d);
        add(w->dz[v], cols + b * d, b * d);
        GIVE(w, rows);
        GIVE(w, cols);
        GIVE(w, w->ds[v]);
    }
}

typedef struct outputs {
    const work *w;
    float *grad[2];
} outputs;

/* The positive pair, twice -1/B, and the derivative of h / |h|. */
static void write_row(const outputs *out, int v, int64_t i) {
    const work *w = out->w;
    const int64_t d = w->q->dim;
    const float *z = w->z[v] + i * d, *other = w->z[1 - v] + i * d, *dz = w->dz[v] + i * d;
    const double pull = -2.0 / (double)w->e.rows;
    double along = 0.0;
    for (int64_t j = 0; j < d; j++) along += (double)z[j] * ((double)dz[j] + pull * (double)other[j]);
    for (int64_t j = 0; j < d; j++)
        out->grad[v][i * d + j] =
            (float)(((double)dz[j] + pull * (double)other[j] - along * (double)z[j]) / (double)w->norm[v][i]);
}

static void write_rows(void *arg, int64_t task, int thread) {
    (void)thread;
    for (int64_t i = task * ROWS; i < (task + 1) * ROWS; i++)
        for (int v = 0; v < 2; v++) write_row(arg, v, i);
}

static void drop_rest(work *w) {
    for (int v = 0; v < 2; v++)
        GIVE(w, w->z[v]), GIVE(w, w->norm[v]), GIVE(w, w->cols[v]), GIVE(w, w->kept[v]), GIVE(w, w->dz[v]), GIVE(w, w->log_u[v]);
}

/* ---- entry ---- */

double naive_step(naive *x, const glofnd_batch *q, float *grad_a, float *grad_b, int64_t *kept) {
    work w = {.x = x, .q = q, .e = {q->n, 2 * q->n, x->threads}};
    for (int v = 0; v < 2; v++) w.log_u[v] = TAKE(&w, double, q->n);
    embed(&w);
    similarities(&w);
    detect(&w);
    for (int v = 0; v < 2; v++) weigh(&w, v);
    save_u(&w);
    drop_masks(&w);
    for (int v = 0; v < 2; v++) GIVE(&w, w.s[v]);
    back(&w);
    gf_parallel(x->threads, q->n / ROWS, write_rows, &(outputs){&w, {grad_a, grad_b}});
    if (kept) *kept = 0;
    for (int64_t i = 0; kept && i < q->n; i++) *kept += w.kept[0][i] + w.kept[1][i];
    drop_rest(&w);
    return w.loss;
}

void naive_init(naive *x, const glofnd_options *o, int threads, glofnd_ctx *c, const glofnd_store *s, const glofnd_batch *q) {
    const int64_t b = q->n, shared = GLOFND_SHARED;
    *x = (naive){.o = *o, .threads = threads, .memory = pool_create(), .batch = b};
    x->state = malloc(sizeof *x->state * (size_t)b);
    if (!x->state) die("no memory");
    expect_ok(c, glofnd_anchors_get(c, s, 0, q->id, b, x->state), "reading the anchors");
    expect_ok(c, glofnd_anchors_get(c, s, 0, &shared, 1, &x->shared), "reading the shared lambda");
    x->negative = pool_take(x->memory, (size_t)(2 * b * b));
    memset(x->negative, 1, (size_t)(2 * b * b));
    for (int64_t i = 0; i < b; i++) x->negative[i * 2 * b + i] = x->negative[i * 2 * b + b + i] = 0;
}

void naive_free(naive *x) {
    pool_free(x->memory);
    free(x->state);
    *x = (naive){0};
}
