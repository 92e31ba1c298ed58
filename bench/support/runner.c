/* runner.c - see runner.h. The parts are timed by wrappers around the passes, which the linker puts in their place. */
#include "support/runner.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/cpu_passes.h"
#include "support/die.h"
#include "support/machine.h"
#include "util/machine.h"

const char *const part_names[PARTS] = {"embed", "select", "stats", "settle", "grad", "rest"};

static double spent[PARTS]; /* ms */

static double now(void);

static void charge(int part, double start) { spent[part] += 1e3 * (now() - start); }

/* ---- the passes, wrapped by the linker: --wrap in cmake/GlofndPrograms.cmake ---- */

int64_t __real_gf_cpu_embed(const gf_embed *e, const gf_source *h, int64_t rows, int64_t first, int64_t step, int normalize,
                            float *norm, int threads);
int64_t __wrap_gf_cpu_embed(const gf_embed *e, const gf_source *h, int64_t rows, int64_t first, int64_t step, int normalize,
                            float *norm, int threads);

int64_t __wrap_gf_cpu_embed(const gf_embed *e, const gf_source *h, int64_t rows, int64_t first, int64_t step, int normalize,
                            float *norm, int threads) {
    const double start = now();
    const int64_t bad = __real_gf_cpu_embed(e, h, rows, first, step, normalize, norm, threads);
    charge(PART_EMBED, start);
    return bad;
}

void __real_gf_cpu_pack(const gf_embed *e, int threads);
void __wrap_gf_cpu_pack(const gf_embed *e, int threads);

void __wrap_gf_cpu_pack(const gf_embed *e, int threads) {
    const double start = now();
    __real_gf_cpu_pack(e, threads);
    charge(PART_EMBED, start);
}

#define TIMED(part, name, data)     \
    void __real_##name(data *p);    \
    void __wrap_##name(data *p);    \
    void __wrap_##name(data *p) {   \
        const double start = now(); \
        __real_##name(p);           \
        charge(part, start);        \
    }

TIMED(PART_SELECT, gf_cpu_select, const gf_select)
TIMED(PART_STATS, gf_cpu_sum, const gf_sum_pass)
TIMED(PART_SETTLE, gf_cpu_close, const gf_sum_pass)
TIMED(PART_GRAD, gf_cpu_gradient, const gf_gradient_pass)

/* ---- runner ---- */

runner_settings runner_setting;

static double now(void) { return runner_setting.cpu_time ? gf_cpu_clock() : seconds(); }

static void set(runner *r, const char *key, const char *value) {
    char why[256];
    if (glofnd_options_set(&r->o, key, value, why, sizeof why) != GLOFND_OK) die("%s", why);
}

void runner_init(runner *r, const char *detector, int threads, const glofnd_batch *q, int64_t n) {
    *r = (runner){.detector = detector, .stats = {.size = sizeof r->stats}};
    gf_method_options_init(&r->o);
    set(r, "detector", detector);
    set(r, "lambda_init", "quantile");
    if (runner_setting.math) set(r, "math", runner_setting.math);
    r->o.threads = threads;
    expect_ok(NULL, glofnd_ctx_create(&r->o, &r->ctx, NULL, 0), "context");
    const glofnd_store_spec spec = {.size = sizeof spec, .n = n};
    expect_ok(r->ctx, glofnd_store_create(r->ctx, &spec, &r->store), "store");
    expect_ok(r->ctx, glofnd_ctx_reserve(r->ctx, q->n, q->n, q->dim, &r->workspace), "workspace");
    r->grad_a = calloc((size_t)(q->n * q->dim), sizeof(float));
    r->grad_b = calloc((size_t)(q->n * q->dim), sizeof(float));
    if (!r->grad_a || !r->grad_b) die("no memory for gradients");
}

void runner_free(runner *r) {
    glofnd_store_free(r->store);
    glofnd_ctx_free(r->ctx);
    free(r->grad_a), free(r->grad_b);
    *r = (runner){0};
}

double runner_step(runner *r, const glofnd_batch *q) {
    memset(spent, 0, sizeof spent);
    const double start = now();
    const glofnd_status status = glofnd_step(r->ctx, r->store, q, r->grad_a, r->grad_b, &r->stats);
    const double ms = 1e3 * (now() - start);
    expect_ok(r->ctx, status, r->detector);
    spent[PART_REST] = ms;
    for (int p = 0; p < PART_REST; p++) spent[PART_REST] -= spent[p];
    memcpy(r->part_ms, spent, sizeof spent);
    return ms;
}

#define TRAIN_BATCH 512

void runner_train(runner *r, const sample *s, int epochs) {
    const int64_t all = s->q.n, batch = all < TRAIN_BATCH ? all : TRAIN_BATCH;
    int64_t *order = malloc(sizeof *order * (size_t)all);
    uint64_t state = 2;
    sample part;
    if (!order) die("no memory");
    sample_init(&part, batch, s->q.dim);
    for (int e = 0; e < epochs; e++) {
        sample_shuffle(order, all, &state);
        for (int64_t at = 0; at + batch <= all; at += batch) {
            sample_pick(&part, s, order + at);
            runner_step(r, &part.q);
        }
    }
    sample_free(&part);
    free(order);
}
