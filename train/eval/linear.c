/* linear.c - see linear.h: the classifier, the probe that trains it, and the evaluation of an encoder by it. */
#include "eval/linear.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "eval/split.h"
#include "optim/optim.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/rng.h"

/* ----- classifier -----
 *
 * Samples lie along the vectors, classes along the rows of a tile, so that 100 classes are padded to 104 and not to 128:
 *     Z [classes][samples] = W [classes][dim] X' ,   P = softmax(Z) - labels ,   dW [classes][dim] += P X
 * Both products read X in panels: by samples for the first, by features for the second.
 */

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

static int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

/* Next piece of the block; with a NULL block, only counts. */
static float *next_piece(float *block, int64_t *at, int64_t floats) {
    float *p = block ? block + *at : NULL;
    *at += round_up(floats, 16); /* pieces begin on cache lines */
    return p;
}

static int64_t lay_out(gf_linear *m, float *block) {
    struct gf_linear_work *w = m->work;
    const int64_t plane = m->rows * m->ld;
    int64_t at = 0;
    m->weight = next_piece(block, &at, plane);
    m->d_weight = next_piece(block, &at, plane);
    m->bias = next_piece(block, &at, m->rows);
    m->d_bias = next_piece(block, &at, m->rows);
    w->d_weight = next_piece(block, &at, w->max_parts * plane);
    w->d_bias = (double *)(void *)next_piece(block, &at, 2 * w->max_parts * m->rows);
    for (int t = 0; t < w->threads; t++) {
        w->scratch[t].by_feature = next_piece(block, &at, SAMPLES * m->ld);
        w->scratch[t].by_sample = next_piece(block, &at, SAMPLES * m->ld);
        w->scratch[t].z = next_piece(block, &at, SAMPLES * m->rows);
    }
    return at;
}

static glofnd_status make_classifier(gf_error *err, gf_linear *m, int threads) {
    m->work = calloc(1, sizeof *m->work);
    FAIL_IF(err, !m->work, GLOFND_E_MEMORY, "no memory for a linear classifier");
    m->work->ops = gf_cpu_kernels_get()->tile;
    m->work->threads = threads > 0 ? threads : gf_parallel_default();
    const int64_t fit = PART_BYTES / (m->rows * m->ld * (int64_t)sizeof(float));
    m->work->max_parts = fit < 4 ? 4 : fit > PARTS_MAX ? PARTS_MAX : fit;
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
    const glofnd_status status = make_classifier(err, m, threads);
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

/* z = W X' + b for a tile of n samples. */
static void score_tile(const pass *p, scratch *x, int64_t first, int n) {
    const gf_linear *m = p->m;
    const gf_tile_ops *ops = m->work->ops;
    /* Samples [first, first + n) of the pass, by feature; places beyond n are zero. */
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
    for (int64_t a = 0; a < m->ld; a += GF_PANEL)
        for (int64_t s = 0; s < SAMPLES; s += GF_PANEL)
            ops->transpose(x->by_sample + (s * m->ld + a * GF_PANEL), x->by_feature + (a * SAMPLES + s * GF_PANEL), GF_PANEL,
                           GF_PANEL, GF_PANEL);
    ops->product(x->z, SAMPLES, m->weight, (size_t)m->ld, 1, x->by_sample, GF_PANEL, (size_t)m->ld * GF_PANEL, (int)m->rows,
                 SAMPLES, (int)m->ld, 0);
    for (int64_t c = 0; c < m->classes; c++)
        for (int s = 0; s < SAMPLES; s++) x->z[c * SAMPLES + s] += m->bias[c];
}

/* z becomes softmax - labels, zero beyond n samples; returns the cross entropy of the n samples, summed. */
static double residual(const gf_linear *m, scratch *x, int n) {
    float max[SAMPLES], sum[SAMPLES] = {0};
    double loss = 0.0;
    float *z = x->z;
    memcpy(max, z, SAMPLES * sizeof *max);
    for (int64_t c = 1; c < m->classes; c++)
        for (int s = 0; s < SAMPLES; s++) max[s] = GF_MAX(z[c * SAMPLES + s], max[s]);
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
        score_tile(p, x, t * SAMPLES, n);
        w->loss[part] += residual(m, x, n);
        for (int64_t c = 0; c < m->classes; c++) {
            const float *z = x->z + c * SAMPLES;
            float sum[4] = {0};
            for (int s = 0; s < SAMPLES; s += 4)
                for (int i = 0; i < 4; i++) sum[i] += z[s + i];
            d_bias[c] += (double)(sum[0] + sum[1]) + (double)(sum[2] + sum[3]);
        }
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

static void rank_tile(void *arg, int64_t t, int thread) {
    const pass *p = arg;
    const gf_linear *m = p->m;
    scratch *x = &m->work->scratch[thread];
    const int n = (int)(p->count - t * SAMPLES < SAMPLES ? p->count - t * SAMPLES : SAMPLES);
    score_tile(p, x, t * SAMPLES, n);
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
        all[f->label[i]]++, right[f->label[i]] += rank[i] == 0;
    }
    for (int32_t c = 0; c < classes; c++) {
        if (all[c]) sum += (double)right[c] / (double)all[c], seen++;
    }
    *out = seen ? sum / (double)seen : NAN;
    free(right);
    return GLOFND_OK;
}

/* ----- probe ----- */

typedef struct probe_trainer {
    gf_probe *p;
    gf_linear *m;
    float *state; /* two moments each of weights and biases */
    gf_param params[2];
    int64_t step;
    int64_t *batch; /* [protocol batch] rows of a step */
    int32_t *rank;  /* [test or validation rows] */
} probe_trainer;

static glofnd_status init_probe(gf_error *err, probe_trainer *t) {
    const gf_probe *p = t->p;
    const int64_t checked = p->validation ? p->validation->n : 0, max = GF_MAX(checked, p->test->n);
    TRY(gf_linear_create(err, p->test->dim, p->classes, p->threads, &t->m));
    const int64_t plane = t->m->rows * t->m->ld;
    t->state = calloc((size_t)(2 * (plane + t->m->rows)), sizeof *t->state);
    t->batch = malloc((size_t)p->protocol->batch * sizeof *t->batch);
    t->rank = malloc((size_t)max * sizeof *t->rank);
    FAIL_IF(err, !t->state || !t->batch || !t->rank, GLOFND_E_MEMORY, "no memory for linear evaluation");
    gf_linear *m = t->m;
    float *state = t->state, *bias_state = state + 2 * plane;
    t->params[0] =
        (gf_param){.p = m->weight, .g = m->d_weight, .state1 = state, .state2 = state + plane, .n = (size_t)plane, .decay = 1};
    t->params[1] =
        (gf_param){.p = m->bias, .g = m->d_bias, .state1 = bias_state, .state2 = bias_state + m->rows, .n = (size_t)m->rows};
    for (int64_t c = 0; c < m->classes; c++) { /* biases start at 0 */
        gf_rng r = gf_rng_at(p->seed, GF_RNG_INIT, 0, (uint64_t)c, 0);
        for (int64_t a = 0; a < m->dim; a++) m->weight[c * m->ld + a] = (float)(0.01 * gf_rng_normal(&r));
    }
    return GLOFND_OK;
}

static glofnd_status train_probe(gf_error *err, probe_trainer *t) {
    gf_probe *p = t->p;
    const gf_probe_protocol *q = p->protocol;
    const double peak = q->lr_by_batch ? gf_lr_scaled_linear(q->lr, q->batch) : q->lr;
    const gf_optim_rule rule = {.kind = q->adamw ? GF_OPTIM_ADAMW : GF_OPTIM_SGD,
                                .momentum = q->momentum,
                                .weight_decay = q->weight_decay,
                                .beta1 = q->momentum,
                                .beta2 = 0.999,
                                .eps = 1e-8};
    for (int64_t epoch = 0; epoch < p->epochs; epoch++) {
        /* The learning rate changes by epoch, as in the authors' script; the last batch may be smaller. */
        const double lr = gf_lr_cosine_epochs(peak, (double)epoch, 0.0, (double)p->epochs);
        gf_probe_rows rows;
        TRY(p->epoch(err, p->user, epoch, &rows));
        FAIL_IF(err, rows.n < 1, GLOFND_E_ARGUMENT, "epoch %lld has no training sample", (long long)epoch + 1);
        for (int64_t first = 0; first < rows.n; first += q->batch) {
            const int64_t n = rows.n - first < q->batch ? rows.n - first : q->batch;
            for (int64_t i = 0; i < n; i++) {
                const int64_t at = gf_permute(p->seed, (uint32_t)epoch, rows.n, first + i);
                t->batch[i] = rows.rows ? rows.rows[at] : at;
            }
            const double loss = gf_linear_loss(t->m, rows.f, t->batch, n);
            FAIL_IF(err, !isfinite(loss), GLOFND_E_NUMERIC, "the loss of linear evaluation is not finite in epoch %lld",
                    (long long)epoch + 1);
            const gf_optim_scalars now = gf_optim_scalars_at(&rule, lr, ++t->step);
            gf_optim_update(&rule, &now, t->params, 2);
        }
        double score = NAN;
        if (p->validation) {
            gf_linear_rank(t->m, p->validation, t->rank);
            score = gf_rank_top(t->rank, p->validation->n, 1);
        }
        gf_linear_rank(t->m, p->test, t->rank);
        p->last_top1 = gf_rank_top(t->rank, p->test->n, 1);
        p->last_top5 = gf_rank_top(t->rank, p->test->n, 5);
        p->epochs_run = epoch + 1;
        if (!p->validation) score = p->last_top1;
        if (!p->best_epoch || score > p->validation_top1)
            p->best_epoch = epoch + 1, p->validation_top1 = score, p->top1 = p->last_top1, p->top5 = p->last_top5;
        if (p->progress) p->progress(p->user, epoch + 1, p->validation_top1);
        if (p->epochs_run - p->best_epoch >= q->patience) break;
    }
    return GLOFND_OK;
}

glofnd_status gf_probe_fit(gf_error *err, gf_probe *p) {
    probe_trainer t = {.p = p};
    FAIL_IF(err, p->epochs < 1, GLOFND_E_OPTION, "epochs is %lld; expected at least 1", (long long)p->epochs);
    p->epochs_run = p->best_epoch = 0;
    p->top1 = p->top5 = p->last_top1 = p->last_top5 = p->validation_top1 = NAN;
    glofnd_status status = init_probe(err, &t);
    if (status == GLOFND_OK) status = train_probe(err, &t);
    gf_linear_free(t.m);
    free(t.state);
    free(t.batch);
    free(t.rank);
    return status;
}

/* ----- evaluation: shares are drawn from the dataset's labels, so that only the samples of the largest share are decoded ----- */

struct gf_linear_eval {
    gf_linear_eval_spec spec;
    gf_samples labelled; /* shares are drawn from these: training samples without the validation samples */
    gf_samples pool;     /* the largest share */
    gf_features *pass;   /* [passes] features of the pool */
    int64_t passes;
    gf_features test, validation;
    /* of the current share */
    gf_samples drawn;
    int64_t *rows, row_count; /* rows of a pass */
    gf_features fresh;        /* GF_AUGMENT_EVERY_EPOCH: features of this epoch */
    double share;
    int64_t epochs;
};

static glofnd_status draw_share(gf_error *err, const gf_linear_eval *l, double share, int32_t *raised, gf_samples *out) {
    gf_stratified_sample d = {.share = share, .seed = l->spec.seed, .stream = GF_STRATIFIED_LABELS, .at_least_one = 1};
    uint8_t *chosen = malloc((size_t)l->labelled.n + 1);
    FAIL_IF(err, !chosen, GLOFND_E_MEMORY, "no memory to draw from %lld samples", (long long)l->labelled.n);
    glofnd_status status = gf_stratified_draw(err, &d, l->labelled.label, l->labelled.n, chosen);
    if (status == GLOFND_OK) status = gf_samples_choose(err, &l->labelled, chosen, 1, out);
    *raised = d.raised;
    free(chosen);
    return status;
}

static glofnd_status encode_share(gf_error *err, gf_linear_eval *l, const gf_samples *s, int augmented, int64_t epoch,
                                  int aligned, gf_features *out) {
    const gf_encode_spec spec = {
        .ids = s->id,
        .id_count = s->n,
        .labels = s->label,
        .augmented = augmented,
        .seed = l->spec.seed,
        .epoch = (uint32_t)epoch,
        .aligned = aligned,
        .unreadable = l->spec.unreadable,
        .progress = l->spec.encoding,
        .user = l->spec.user,
    };
    if (!l->spec.encoder) {
        const gf_features *from = s == &l->spec.split->test ? l->spec.test : l->spec.train;
        TRY(gf_features_alloc(err, out, s->n, from->dim));
        for (int64_t i = 0; i < s->n; i++) {
            memcpy(out->x + i * from->dim, from->x + s->id[i] * from->dim, (size_t)from->dim * sizeof *out->x);
            out->label[i] = s->label[i];
        }
        return GLOFND_OK;
    }
    return gf_encode_samples(err, l->spec.encoder, s->data, &spec, out);
}

static glofnd_status open_eval(gf_error *err, gf_linear_eval *l, double largest) {
    const gf_split *split = l->spec.split;
    gf_samples held = {0};
    uint8_t *all = malloc((size_t)split->train.n + 1);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)split->train.n);
    for (int64_t i = 0; i < split->train.n; i++) all[i] = 1;
    glofnd_status status = gf_samples_choose(err, &split->train, all, 1, &l->labelled);
    free(all);
    if (status == GLOFND_OK && l->spec.validation > 0.0) {
        status = gf_samples_hold_out(err, &l->labelled, l->spec.validation, l->spec.seed, GF_STRATIFIED_VALIDATION, &held);
        if (status == GLOFND_OK) status = encode_share(err, l, &held, 0, 0, 0, &l->validation);
        gf_samples_free(&held);
    }
    if (status == GLOFND_OK) status = encode_share(err, l, &split->test, 0, 0, 0, &l->test);
    if (status != GLOFND_OK) return status;
    const int64_t passes = l->spec.augment > 0 ? l->spec.augment : 1;
    int32_t raised;
    if (l->spec.augment == GF_AUGMENT_EVERY_EPOCH) return GLOFND_OK;
    TRY(draw_share(err, l, largest, &raised, &l->pool));
    if (l->pool.n == 0) return GLOFND_OK;
    l->pass = calloc((size_t)passes, sizeof *l->pass);
    FAIL_IF(err, !l->pass, GLOFND_E_MEMORY, "no memory for %lld passes", (long long)passes);
    for (; l->passes < passes; l->passes++)
        TRY(encode_share(err, l, &l->pool, l->spec.augment > 0, l->passes, 1, &l->pass[l->passes]));
    return GLOFND_OK;
}

glofnd_status gf_linear_eval_create(gf_error *err, const gf_linear_eval_spec *spec, double largest, gf_linear_eval **out) {
    *out = NULL;
    FAIL_IF(err, spec->augment < GF_AUGMENT_EVERY_EPOCH, GLOFND_E_OPTION,
            "augment is %lld passes; expected 0 or more, or every epoch", (long long)spec->augment);
    FAIL_IF(err, !(spec->validation >= 0.0 && spec->validation < 1.0), GLOFND_E_OPTION,
            "validation is %g; expected a number in [0, 1)", spec->validation);
    gf_linear_eval *l = calloc(1, sizeof *l);
    FAIL_IF(err, !l, GLOFND_E_MEMORY, "no memory for linear evaluation");
    l->spec = *spec;
    const glofnd_status status = open_eval(err, l, largest);
    if (status == GLOFND_OK) *out = l;
    else gf_linear_eval_free(l);
    return status;
}

static void end_share(gf_linear_eval *l) {
    gf_samples_free(&l->drawn);
    gf_features_free(&l->fresh);
    free(l->rows);
    l->rows = NULL;
    l->row_count = 0;
}

void gf_linear_eval_free(gf_linear_eval *l) {
    if (!l) return;
    end_share(l);
    for (int64_t i = 0; i < l->passes; i++) gf_features_free(&l->pass[i]);
    free(l->pass);
    gf_features_free(&l->test);
    gf_features_free(&l->validation);
    gf_samples_free(&l->labelled);
    gf_samples_free(&l->pool);
    free(l);
}

static glofnd_status epoch_rows(gf_error *err, void *user, int64_t epoch, gf_probe_rows *out) {
    gf_linear_eval *l = user;
    if (l->spec.augment != GF_AUGMENT_EVERY_EPOCH) {
        *out = (gf_probe_rows){.f = &l->pass[epoch % l->passes], .rows = l->rows, .n = l->row_count};
        return GLOFND_OK;
    }
    gf_features_free(&l->fresh);
    TRY(encode_share(err, l, &l->drawn, 1, epoch, 0, &l->fresh));
    *out = (gf_probe_rows){.f = &l->fresh, .n = l->fresh.n};
    return GLOFND_OK;
}

static void report_epoch(void *user, int64_t done, double score) {
    const gf_linear_eval *l = user;
    if (l->spec.training) l->spec.training(l->spec.user, l->share, done, l->epochs, score);
}

static glofnd_status fit_share(gf_error *err, gf_linear_eval *l, gf_linear_result *out) {
    TRY(draw_share(err, l, l->share, &out->raised, &l->drawn));
    out->samples = l->drawn.n;
    out->epochs = l->epochs = l->spec.epochs > 0 ? l->spec.epochs : gf_probe_epochs(l->share);
    if (l->spec.augment != GF_AUGMENT_EVERY_EPOCH) {
        /* Rows of the drawn samples in a pass; both lists are sorted. */
        l->rows = malloc((size_t)(l->drawn.n + 1) * sizeof *l->rows);
        FAIL_IF(err, !l->rows, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)l->drawn.n);
        for (int64_t i = 0, at = 0; i < l->drawn.n && at < l->pool.n; i++) {
            while (at < l->pool.n && l->pool.id[at] < l->drawn.id[i]) at++;
            if (at == l->pool.n || l->pool.id[at] != l->drawn.id[i]) continue;
            int readable = 1; /* in every pass; where a row was not it has no label */
            for (int64_t k = 0; k < l->passes; k++) readable &= l->pass[k].label[at] >= 0;
            if (readable) l->rows[l->row_count++] = at;
        }
    }
    out->probe = (gf_probe){
        .protocol = l->spec.protocol,
        .classes = l->spec.split->classes,
        .epochs = l->epochs,
        .seed = l->spec.seed,
        .threads = l->spec.threads,
        .epoch = epoch_rows,
        .progress = report_epoch,
        .user = l,
        .test = &l->test,
        .validation = l->validation.n ? &l->validation : NULL,
    };
    return gf_probe_fit(err, &out->probe);
}

glofnd_status gf_linear_eval_run(gf_error *err, gf_linear_eval *l, double share, gf_linear_result *out) {
    *out = (gf_linear_result){0};
    l->share = share;
    const glofnd_status status = fit_share(err, l, out);
    end_share(l);
    return status;
}
