/* linear_classifier.c - see linear_classifier.h.
 *
 * Samples lie along the vectors, classes along the rows of a tile, so that 100 classes are padded to 104 and not to 128:
 *     Z [classes][samples] = W [classes][dim] X' ,   P = softmax(Z) - labels ,   dW [classes][dim] += P X
 * Both products read X in panels: by samples for the first, by features for the second.
 */
#include "eval/linear_classifier.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "util/array.h"
#include "util/parallel.h"

#define SAMPLES 128                   /* of a tile */
#define ROW_PAD 8                     /* rows per call of the product kernel, at most */
#define PARTS_MAX 32                  /* partial gradients */
#define PART_BYTES ((int64_t)1 << 26) /* of all of them; there are 4 at least */

typedef struct scratch {       /* of one thread */
    float *by_feature;         /* [ld / GF_PANEL][SAMPLES][GF_PANEL] */
    float *by_sample;          /* [SAMPLES / GF_PANEL][ld][GF_PANEL] */
    float *z;                  /* [rows][SAMPLES] */
    const float *row[SAMPLES]; /* features of the tile's samples */
    int32_t label[SAMPLES];
} scratch;

struct gf_linear_work {
    const gf_tile_ops *ops;
    int threads;
    int64_t max_parts;
    scratch *scratch; /* [threads] */
    float *d_weight;  /* [max_parts][rows][ld] */
    double *d_bias;   /* [max_parts][rows] */
    double loss[PARTS_MAX];
    float *block; /* the memory of all of it */
};

typedef struct pass { /* one call */
    gf_linear *m;
    const gf_features *f;
    const int64_t *rows;
    int64_t count, parts;
    int32_t *rank;
} pass;

/* ----- create ----- */

static int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

static int64_t choose_parts(const gf_linear *m) {
    const int64_t fit = PART_BYTES / (m->rows * m->ld * (int64_t)sizeof(float));
    return fit < 4 ? 4 : fit > PARTS_MAX ? PARTS_MAX : fit;
}

/* Next piece of the block; with a NULL block, only counts. */
static float *piece(float *block, int64_t *at, int64_t floats) {
    float *p = block ? block + *at : NULL;
    *at += round_up(floats, 16); /* pieces begin on cache lines */
    return p;
}

static int64_t lay_out(gf_linear *m, float *block) {
    struct gf_linear_work *w = m->work;
    const int64_t plane = m->rows * m->ld;
    int64_t at = 0;
    m->weight = piece(block, &at, plane);
    m->d_weight = piece(block, &at, plane);
    m->bias = piece(block, &at, m->rows);
    m->d_bias = piece(block, &at, m->rows);
    w->d_weight = piece(block, &at, w->max_parts * plane);
    w->d_bias = (double *)(void *)piece(block, &at, 2 * w->max_parts * m->rows);
    for (int t = 0; t < w->threads; t++) {
        w->scratch[t].by_feature = piece(block, &at, SAMPLES * m->ld);
        w->scratch[t].by_sample = piece(block, &at, SAMPLES * m->ld);
        w->scratch[t].z = piece(block, &at, SAMPLES * m->rows);
    }
    return at;
}

static glofnd_status make(gf_error *err, gf_linear *m, int threads) {
    m->work = calloc(1, sizeof *m->work);
    FAIL_IF(err, !m->work, GLOFND_E_MEMORY, "no memory for a linear classifier");
    m->work->ops = gf_cpu_kernels_get()->tile;
    m->work->threads = threads > 0 ? threads : gf_parallel_default();
    m->work->max_parts = choose_parts(m);
    m->work->scratch = calloc((size_t)m->work->threads, sizeof *m->work->scratch);
    FAIL_IF(err, !m->work->scratch, GLOFND_E_MEMORY, "no memory for a linear classifier");
    const size_t bytes = (size_t)lay_out(m, NULL) * sizeof(float);
    m->work->block = aligned_alloc(64, bytes);
    FAIL_IF(err, !m->work->block, GLOFND_E_MEMORY, "no memory for a linear classifier of %lld classes on %lld features",
            (long long)m->classes, (long long)m->dim);
    memset(m->work->block, 0, bytes);
    lay_out(m, m->work->block);
    return GLOFND_OK;
}

glofnd_status gf_linear_create(gf_error *err, int64_t dim, int64_t classes, int threads, gf_linear **out) {
    *out = NULL;
    FAIL_IF(err, dim < 1 || classes < 1 || dim > INT32_MAX / 4 || classes > INT32_MAX / 4 || dim > (INT64_C(1) << 36) / classes,
            GLOFND_E_ARGUMENT, "a linear classifier of %lld classes on %lld features is too large", (long long)classes,
            (long long)dim);
    gf_linear *m = calloc(1, sizeof *m);
    FAIL_IF(err, !m, GLOFND_E_MEMORY, "no memory for a linear classifier");
    m->dim = dim, m->ld = gf_pad(dim);
    m->classes = classes, m->rows = round_up(classes, ROW_PAD);
    const glofnd_status status = make(err, m, threads);
    if (status == GLOFND_OK) *out = m;
    else gf_linear_free(m);
    return status;
}

void gf_linear_free(gf_linear *m) {
    if (!m) return;
    if (m->work) {
        free(m->work->block);
        free(m->work->scratch);
    }
    free(m->work);
    free(m);
}

/* ----- a tile ----- */

/* Samples [first, first + n) of the pass, by feature; places beyond n are zero. */
static void gather(const pass *p, scratch *x, int64_t first, int n) {
    const gf_linear *m = p->m;
    for (int s = 0; s < n; s++) {
        const int64_t row = p->rows ? p->rows[first + s] : first + s;
        x->row[s] = p->f->x + row * m->dim;
        x->label[s] = p->f->label[row];
    }
    for (int64_t a = 0; a < m->ld; a += GF_PANEL) {
        float *panel = x->by_feature + a * SAMPLES;
        const size_t width = (size_t)(m->dim - a < GF_PANEL ? m->dim - a : GF_PANEL);
        for (int s = 0; s < n; s++) {
            memcpy(panel + s * GF_PANEL, x->row[s] + a, width * sizeof(float));
            for (size_t i = width; i < GF_PANEL; i++) panel[s * GF_PANEL + (int)i] = 0.0f;
        }
        memset(panel + n * GF_PANEL, 0, (size_t)(SAMPLES - n) * GF_PANEL * sizeof(float));
    }
}

/* z = W X' + b for a tile of n samples. */
static void score(const pass *p, scratch *x, int64_t first, int n) {
    const gf_linear *m = p->m;
    const gf_tile_ops *ops = m->work->ops;
    gather(p, x, first, n);
    for (int64_t a = 0; a < m->ld; a += GF_PANEL)
        for (int64_t s = 0; s < SAMPLES; s += GF_PANEL)
            ops->transpose(x->by_sample + (s * m->ld + a * GF_PANEL), x->by_feature + (a * SAMPLES + s * GF_PANEL), GF_PANEL,
                           GF_PANEL, GF_PANEL);
    ops->product(x->z, SAMPLES, m->weight, (size_t)m->ld, 1, x->by_sample, GF_PANEL, (size_t)m->ld * GF_PANEL, (int)m->rows,
                 SAMPLES, (int)m->ld, 0);
    for (int64_t c = 0; c < m->classes; c++)
        for (int s = 0; s < SAMPLES; s++) x->z[c * SAMPLES + s] += m->bias[c];
}

static void column_max(float *max, const float *z, int64_t classes) {
    memcpy(max, z, SAMPLES * sizeof *max);
    for (int64_t c = 1; c < classes; c++)
        for (int s = 0; s < SAMPLES; s++) max[s] = GF_MAX(z[c * SAMPLES + s], max[s]);
}

/* z becomes softmax - labels, zero beyond n samples; returns the cross entropy of the n samples, summed. */
static double residual(const gf_linear *m, scratch *x, int n) {
    float max[SAMPLES], sum[SAMPLES] = {0};
    double loss = 0.0;
    float *z = x->z;
    column_max(max, z, m->classes);
    for (int s = 0; s < n; s++) loss += (double)max[s] - (double)z[(int64_t)x->label[s] * SAMPLES + s];
    for (int64_t c = 0; c < m->classes; c++)
        for (int s = 0; s < SAMPLES; s++) z[c * SAMPLES + s] -= max[s];
    m->work->ops->exp(z, z, m->classes * SAMPLES);
    for (int64_t c = 0; c < m->classes; c++)
        for (int s = 0; s < SAMPLES; s++) sum[s] += z[c * SAMPLES + s];
    for (int s = 0; s < n; s++) loss += log((double)sum[s]);
    for (int s = 0; s < SAMPLES; s++) sum[s] = s < n ? 1.0f / sum[s] : 0.0f;
    for (int64_t c = 0; c < m->classes; c++)
        for (int s = 0; s < SAMPLES; s++) z[c * SAMPLES + s] *= sum[s];
    for (int s = 0; s < n; s++) z[(int64_t)x->label[s] * SAMPLES + s] -= 1.0f;
    memset(z + m->classes * SAMPLES, 0, (size_t)((m->rows - m->classes) * SAMPLES) * sizeof *z);
    return loss;
}

static void add_bias(double *d_bias, const float *z, int64_t classes) {
    for (int64_t c = 0; c < classes; c++) {
        float sum[4] = {0};
        for (int s = 0; s < SAMPLES; s += 4)
            for (int i = 0; i < 4; i++) sum[i] += z[c * SAMPLES + s + i];
        d_bias[c] += (double)(sum[0] + sum[1]) + (double)(sum[2] + sum[3]);
    }
}

/* ----- loss and gradient ----- */

static int64_t tiles_of(int64_t count) { return (count + SAMPLES - 1) / SAMPLES; }

static void loss_part(void *arg, int64_t part, int thread) {
    const pass *p = arg;
    const gf_linear *m = p->m;
    struct gf_linear_work *w = m->work;
    scratch *x = &w->scratch[thread];
    float *d_weight = w->d_weight + part * m->rows * m->ld;
    double *d_bias = w->d_bias + part * m->rows;
    const int64_t tiles = tiles_of(p->count), begin = part * tiles / p->parts, end = (part + 1) * tiles / p->parts;
    w->loss[part] = 0.0;
    memset(d_bias, 0, (size_t)m->rows * sizeof *d_bias);
    for (int64_t t = begin; t < end; t++) {
        const int n = (int)(p->count - t * SAMPLES < SAMPLES ? p->count - t * SAMPLES : SAMPLES);
        score(p, x, t * SAMPLES, n);
        w->loss[part] += residual(m, x, n);
        add_bias(d_bias, x->z, m->classes);
        w->ops->product(d_weight, (size_t)m->ld, x->z, SAMPLES, 1, x->by_feature, GF_PANEL, SAMPLES * GF_PANEL, (int)m->rows,
                        (int)m->ld, SAMPLES, t > begin);
    }
}

/* Mean gradient of one class: adds the parts in order. */
static void add_parts(void *arg, int64_t c, int thread) {
    const pass *p = arg;
    const gf_linear *m = p->m;
    const struct gf_linear_work *w = m->work;
    const int64_t plane = m->rows * m->ld;
    const double scale = 1.0 / (double)p->count;
    double bias = 0.0;
    (void)thread;
    for (int64_t a = 0; a < m->ld; a += GF_PANEL) {
        const float *from = w->d_weight + c * m->ld + a;
        double sum[GF_PANEL] = {0};
        for (int64_t part = 0; part < p->parts; part++)
            for (int i = 0; i < GF_PANEL; i++) sum[i] += (double)from[part * plane + i];
        for (int i = 0; i < GF_PANEL; i++) m->d_weight[c * m->ld + a + i] = (float)(scale * sum[i]);
    }
    for (int64_t part = 0; part < p->parts; part++) bias += w->d_bias[part * m->rows + c];
    m->d_bias[c] = (float)(scale * bias);
}

double gf_linear_loss(gf_linear *m, const gf_features *f, const int64_t *rows, int64_t count) {
    assert(f->dim == m->dim && count > 0);
    const int64_t tiles = tiles_of(count);
    pass p = {.m = m, .f = f, .rows = rows, .count = count, .parts = GF_MIN(tiles, m->work->max_parts)};
    gf_parallel(m->work->threads, p.parts, loss_part, &p);
    gf_parallel(m->work->threads, m->classes, add_parts, &p);
    double loss = 0.0;
    for (int64_t part = 0; part < p.parts; part++) loss += m->work->loss[part];
    return loss / (double)count;
}

/* ----- ranks ----- */

static void rank_tile(void *arg, int64_t t, int thread) {
    const pass *p = arg;
    const gf_linear *m = p->m;
    scratch *x = &m->work->scratch[thread];
    const int n = (int)(p->count - t * SAMPLES < SAMPLES ? p->count - t * SAMPLES : SAMPLES);
    score(p, x, t * SAMPLES, n);
    for (int s = 0; s < n; s++) {
        const int32_t label = x->label[s];
        int32_t above = 0;
        const float own = label >= 0 && label < m->classes ? x->z[(int64_t)label * SAMPLES + s] : 0.0f;
        for (int64_t c = 0; c < m->classes; c++) {
            const float z = x->z[c * SAMPLES + s];
            above += z > own || (z == own && c < label);
        }
        p->rank[t * SAMPLES + s] = label >= 0 && label < m->classes ? above : -1;
    }
}

void gf_linear_rank(gf_linear *m, const gf_features *f, int32_t *rank) {
    assert(f->dim == m->dim);
    pass p = {.m = m, .f = f, .count = f->n, .rank = rank};
    gf_parallel(m->work->threads, tiles_of(f->n), rank_tile, &p);
}

double gf_rank_top(const int32_t *rank, int64_t n, int32_t top) {
    int64_t right = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        all += rank[i] >= 0;
        right += rank[i] >= 0 && rank[i] < top;
    }
    return all ? (double)right / (double)all : NAN;
}

glofnd_status gf_rank_mean_per_class(gf_error *err, const gf_features *f, const int32_t *rank, double *out) {
    const int32_t classes = gf_features_classes(f);
    int64_t *right = calloc(2 * (size_t)classes + 1, sizeof *right), *all = right + classes, seen = 0;
    double sum = 0.0;
    FAIL_IF(err, !right, GLOFND_E_MEMORY, "no memory for %d classes", (int)classes);
    for (int64_t i = 0; i < f->n; i++) {
        if (rank[i] < 0) continue;
        all[f->label[i]]++;
        right[f->label[i]] += rank[i] == 0;
    }
    for (int32_t c = 0; c < classes; c++) {
        if (!all[c]) continue;
        sum += (double)right[c] / (double)all[c];
        seen++;
    }
    *out = seen ? sum / (double)seen : NAN;
    free(right);
    return GLOFND_OK;
}
