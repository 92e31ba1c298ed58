/* optim.c - see optim.h. Storage is float32, arithmetic float64; equal inputs give equal bits for any number of threads. */
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/parallel.h"

#define LANES 8                 /* independent partial sums: lets the compiler use SIMD without changing the order of addition */
#define PIECE ((size_t)1 << 16) /* numbers that a thread moves at a time */

/* The AdamW loop once per instruction set, chosen when the program starts: the same operations in the same order, so the same
 * bits. Sanitizers do not support such functions. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define FOR_EACH_CPU
#endif

/* ----- rules and norm ----- */

int gf_param_decays(int axes, const char *name) {
    static const char *const exempt[] = {"bn", "ln", "bias"};
    for (size_t i = 0; name && i < sizeof exempt / sizeof exempt[0]; i++)
        if (strstr(name, exempt[i])) return 0;
    return axes > 1;
}

int gf_param_adapts(int axes) { return axes > 1; }

double gf_param_norm(const float *x, const float *y, double c, size_t n) {
    double lane[LANES] = {0}, sum = 0.0;
    const size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            const double v = y ? x[i + k] + c * y[i + k] : x[i + k];
            lane[k] += v * v;
        }
    }
    for (size_t i = whole; i < n; i++) {
        const double v = y ? x[i] + c * y[i] : x[i];
        lane[i - whole] += v * v;
    }
    for (size_t k = 0; k < LANES; k++) sum += lane[k];
    return sqrt(sum);
}

/* ----- one step of one tensor ----- */

FOR_EACH_CPU static void update_adamw(const gf_optim_rule *rule, const gf_optim_scalars *now, double decay, float *restrict p,
                                      const float *restrict g, float *restrict m, float *restrict v, size_t n) {
    const gf_optim_rule r = *rule;
    const gf_optim_scalars s = *now;
    for (size_t i = 0; i < n; i++) gf_rule_adamw(&r, &s, decay, &p[i], g[i], &m[i], &v[i]);
}

void gf_optim_update(const gf_optim_rule *rule, const gf_optim_scalars *now, const gf_param *tensors, size_t count) {
    const gf_optim_rule r = *rule; /* a copy: nothing below can change it */
    for (size_t k = 0; k < count; k++) {
        const gf_param *t = &tensors[k];
        const double decay = t->decay ? rule->weight_decay : 0.0;
        if (rule->kind == GF_OPTIM_ADAMW) update_adamw(rule, now, decay, t->p, t->g, t->state1, t->state2, t->n);
        else if (rule->kind == GF_OPTIM_LARS) {
            const double norm = t->adapt ? gf_param_norm(t->p, NULL, 0.0, t->n) : 0.0;
            const double ratio = t->adapt ? gf_rule_ratio(&r, norm, gf_param_norm(t->g, t->p, decay, t->n)) : 1.0;
            for (size_t i = 0; i < t->n; i++) gf_rule_lars(&r, now->lr, ratio, decay, &t->p[i], t->g[i], &t->state1[i]);
        } else if (r.momentum != 0.0) {
            for (size_t i = 0; i < t->n; i++) gf_rule_sgd(&r, now->lr, decay, &t->p[i], t->g[i], &t->state1[i]);
        } else {
            for (size_t i = 0; i < t->n; i++) gf_rule_sgd(&r, now->lr, decay, &t->p[i], t->g[i], NULL);
        }
    }
}

/* ----- the optimizer of a network ----- */

struct gf_optim {
    const gf_nn_backend *backend;
    gf_nn_optim *device; /* NULL: on the host, by the fields below */
    gf_optim_rule rule;
    gf_optim_scalars now;
    double norm;
    int threads;
    int64_t piece_count;
    gf_param *piece; /* the tensors, cut up where each number moves by itself */
    double *norms;   /* [count] of tensors */
    int count;
    gf_param params[];
};

/* Number of pieces of tensor t, written to `out` unless that is NULL. */
static int64_t cut_tensor(const gf_optim_rule *rule, const gf_param *t, gf_param *out) {
    const size_t step = rule->kind == GF_OPTIM_LARS && t->n ? t->n : PIECE; /* LARS needs the norms of whole tensors */
    int64_t count = 0;
    for (size_t from = 0; from < t->n; from += step, count++) {
        if (!out) continue;
        out[count] = *t;
        out[count].n = t->n - from < step ? t->n - from : step;
        out[count].p += from, out[count].g += from;
        if (t->state1) out[count].state1 += from;
        if (t->state2) out[count].state2 += from;
    }
    return count;
}

static glofnd_status make_pieces(gf_error *err, gf_optim *o) {
    int64_t n = 0;
    for (int k = 0; k < o->count; k++) n += cut_tensor(&o->rule, &o->params[k], NULL);
    o->threads = o->rule.threads > 0 ? o->rule.threads : gf_parallel_default();
    o->piece = calloc((size_t)n + 1, sizeof *o->piece);
    o->norms = calloc((size_t)o->count + 1, sizeof *o->norms);
    FAIL_IF(err, !o->piece || !o->norms, GLOFND_E_MEMORY, "no memory for an optimizer of %d tensors", o->count);
    for (int k = 0; k < o->count; k++) o->piece_count += cut_tensor(&o->rule, &o->params[k], o->piece + o->piece_count);
    return GLOFND_OK;
}

glofnd_status gf_optim_create(gf_error *err, const gf_nn_backend *backend, gf_nn_engine *engine, const gf_optim_rule *rule,
                              const gf_param *params, int count, gf_optim **out) {
    gf_optim *o = calloc(1, sizeof *o + (size_t)count * sizeof *params);
    FAIL_IF(err, !o, GLOFND_E_MEMORY, "no memory for an optimizer of %d tensors", count);
    o->backend = backend;
    o->rule = *rule;
    o->count = count;
    memcpy(o->params, params, (size_t)count * sizeof *params);
    const glofnd_status status =
        backend->optim_create ? backend->optim_create(err, engine, rule, params, count, &o->device) : make_pieces(err, o);
    if (status == GLOFND_OK) *out = o;
    else gf_optim_free(o);
    return status;
}

void gf_optim_free(gf_optim *o) {
    if (!o) return;
    free(o->piece);
    free(o->norms);
    free(o);
}

glofnd_status gf_optim_set(gf_error *err, gf_optim *o, double lr, int64_t step) {
    o->now = gf_optim_scalars_at(&o->rule, lr, step);
    return o->device ? o->backend->optim_set(err, o->device, &o->now) : GLOFND_OK;
}

/* On the host: a task per piece or tensor, each with its own numbers. */

static void move_piece(void *arg, int64_t task, int thread) {
    (void)thread;
    const gf_optim *o = arg;
    gf_optim_update(&o->rule, &o->now, &o->piece[task], 1);
}

static void clip_piece(void *arg, int64_t task, int thread) {
    (void)thread;
    const gf_optim *o = arg;
    const double by = gf_rule_clip(&o->rule, o->norm);
    const gf_param *t = &o->piece[task];
    for (size_t i = 0; i < t->n; i++) t->g[i] = (float)(by * t->g[i]);
}

static void measure_tensor(void *arg, int64_t task, int thread) {
    (void)thread;
    const gf_optim *o = arg;
    o->norms[task] = gf_param_norm(o->params[task].g, NULL, 0.0, o->params[task].n);
}

glofnd_status gf_optim_step(gf_error *err, gf_optim *o) {
    if (o->device) return o->backend->optim_step(err, o->device);
    double square = 0.0;
    gf_parallel(o->threads, o->count, measure_tensor, o);
    for (int k = 0; k < o->count; k++) square += o->norms[k] * o->norms[k];
    o->norm = sqrt(square);
    if (!isfinite(o->norm)) return GLOFND_OK;
    if (gf_rule_clip(&o->rule, o->norm) != 1.0) gf_parallel(o->threads, o->piece_count, clip_piece, o);
    gf_parallel(o->threads, o->piece_count, move_piece, o);
    return GLOFND_OK;
}

glofnd_status gf_optim_norm(gf_error *err, gf_optim *o, double *norm) {
    if (o->device) TRY(o->backend->optim_norm(err, o->device, &o->norm));
    *norm = o->norm;
    return GLOFND_OK;
}

/* ----- rates over a training ----- */

static const double pi = 3.14159265358979323846;

/* From 1 at done = 0 to 0 at done = span. An empty span is over at once. */
static double half_cosine(double done, double span) { return span > 0.0 ? 0.5 * (1.0 + cos(pi * done / span)) : 0.0; }

double gf_lr_scaled_sqrt(double rate, int64_t batch) { return rate * sqrt((double)batch); }

double gf_lr_scaled_linear(double rate, int64_t batch) { return rate * (double)batch / 256.0; }

double gf_lr_cosine_epochs(double lr, double epoch, double warmup, double epochs) {
    if (epoch < warmup) return lr * epoch / warmup;
    return lr * half_cosine(epoch - warmup, epochs - warmup);
}

double gf_lr_cosine_steps(double lr, double lr_min, int64_t step, int64_t warmup, int64_t total) {
    if (step < warmup) return lr * (double)(step + 1) / (double)warmup;
    return lr_min + (lr - lr_min) * half_cosine((double)(step - warmup), (double)(total - warmup));
}

double gf_lr_tau_threshold(double lr, double ratio, double threshold, double log_scale) {
    return exp(-log_scale) <= threshold ? lr * ratio : lr;
}

double gf_gamma_cosine(double gamma_min, int64_t epoch, double decay) {
    if (epoch <= 0) return 1.0;
    if ((double)epoch >= decay) return gamma_min;
    return gamma_min + (1.0 - gamma_min) * half_cosine((double)epoch, decay);
}

/* Comparisons, not fmin/fmax: those would turn a NaN, that is a diverged run, into a bound. */
double gf_clamp_log_scale(double log_scale, double scale_max) {
    const double top = log(scale_max);
    return log_scale < 0.0 ? 0.0 : log_scale > top ? top : log_scale;
}
