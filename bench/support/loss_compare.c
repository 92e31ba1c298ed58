/* loss_compare.c - see loss_compare.h. */
#include "support/loss_compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/clock.h"
#include "support/die.h"
#include "support/naive.h"

const char *const detector_names[DETECTORS] = {"none", "glofnd", "single", "fnc", "oracle"};

typedef struct loss_compare {
    const plan *p;
    sample s;
    runner lib[DETECTORS];
    clock_times times[DETECTORS], parts[DETECTORS][PARTS];
    int64_t repeats[DETECTORS];
} loss_compare;

static double gradient_bytes(const glofnd_batch *q) { return 2.0 * sizeof(float) * (double)(q->n * q->dim); }

/* ---- agreement ---- */

#define TOLERANCE 2e-5 /* of the largest value: sums of float32 in another order */

static double worst(const float *x, const float *y, int64_t n, size_t stride) {
    double error = 0.0, largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double a = (double)*(const float *)(const void *)((const char *)x + (size_t)i * stride);
        const double b = (double)*(const float *)(const void *)((const char *)y + (size_t)i * stride);
        if (!isfinite(a) || !isfinite(b)) return INFINITY;
        error = fmax(error, fabs(a - b));
        largest = fmax(largest, fabs(b));
    }
    return error / largest;
}

static void expect_close(const runner *r, int64_t batch, const char *what, double error) {
    if (!(error <= TOLERANCE))
        die("B = %lld, detector %s: %s of the library and of the naive version differ by %.2g of the largest value; "
            "nothing is timed",
            (long long)batch, r->detector, what, error);
}

/* One step of each from the same state. */
static void expect_agreement(runner *r, naive *x, const glofnd_batch *q, float *grad_a, float *grad_b) {
    const int64_t b = q->n;
    int64_t kept;
    glofnd_anchor *after = malloc(sizeof *after * (size_t)b);
    if (!after) die("no memory");
    const double loss = naive_step(x, q, grad_a, grad_b, &kept);
    runner_step(r, q);
    expect_ok(r->ctx, glofnd_anchors_get(r->ctx, r->store, 0, q->id, b, after), "reading the anchors");
    if (kept != r->stats.pairs - r->stats.flagged)
        die("B = %lld, detector %s: the library keeps %lld pairs, the naive version %lld; nothing is timed", (long long)b,
            r->detector, (long long)(r->stats.pairs - r->stats.flagged), (long long)kept);
    expect_close(r, b, "losses", fabs(loss - r->stats.loss) / fmax(1.0, fabs(loss)));
    expect_close(r, b, "gradients of view 1", worst(r->grad_a, grad_a, b * q->dim, sizeof(float)));
    expect_close(r, b, "gradients of view 2", worst(r->grad_b, grad_b, b * q->dim, sizeof(float)));
    expect_close(r, b, "thresholds", worst(&after->lambda, &x->state->lambda, b, sizeof *after));
    expect_close(r, b, "averages u", worst(&after->log_u, &x->state->log_u, b, sizeof *after));
    free(after);
}

/* ---- the library ---- */

static void prepare(loss_compare *c, int i, row *out) {
    runner *r = &c->lib[i];
    resident_reset();
    const size_t before = resident_now();
    runner_init(r, detector_names[i], c->p->threads, &c->s.q, c->s.q.n);
    runner_train(r, &c->s, r->o.detector == GLOFND_DETECT_GLOFND || r->o.detector == GLOFND_DETECT_SINGLE ? c->p->epochs : 1);
    runner_step(r, &c->s.q);
    const size_t peak = resident_peak();
    out->resident = peak > before ? (double)(peak - before) : 0.0;
    out->peak_bytes = (double)r->workspace + gradient_bytes(&c->s.q);
}

static void time_once(loss_compare *c, int i) {
    clock_add(&c->times[i], runner_step(&c->lib[i], &c->s.q));
    for (int p = 0; p < PARTS; p++) clock_add(&c->parts[i][p], c->lib[i].part_ms[p]);
    glofnd_counters counters = {.size = sizeof counters};
    expect_ok(c->lib[i].ctx, glofnd_ctx_counters(c->lib[i].ctx, &counters), "counters");
    c->repeats[i] += counters.repeats > 0;
}

#define TURN_MS 20.0 /* a detector's turn: long enough to have its data in cache */

/* Detectors take turns, so that a disturbance does not fall on one of them alone: their differences are small. */
static void time_library(loss_compare *c) {
    int turn[DETECTORS];
    for (int i = 0; i < DETECTORS; i++) {
        const double ms = runner_step(&c->lib[i], &c->s.q);
        turn[i] = ms < TURN_MS ? (int)(TURN_MS / ms) : 1;
    }
    const double start = seconds();
    for (int round = 0; round < c->p->min_rounds || seconds() - start < c->p->library_s; round++) {
        if (c->times[0].count >= CLOCK_MAX) break;
        for (int i = 0; i < DETECTORS; i++)
            for (int k = 0; k < turn[i]; k++) time_once(c, i);
    }
}

static double time_of(clock_times *t) { return runner_setting.cpu_time ? clock_least(t) : clock_median(t); }

static void report_library(loss_compare *c, int i, row *out) {
    const double flops = 16.0 * (double)c->s.q.n * (double)c->s.q.n * (double)c->s.q.dim;
    out->ms = time_of(&c->times[i]);
    out->spread = clock_spread(&c->times[i]);
    out->gflops = flops / out->ms * 1e-6;
    out->over_none = i > 0 ? out->ms / time_of(&c->times[0]) - 1.0 : NAN;
    out->repeats = (double)c->repeats[i] / c->times[i].count;
    for (int p = 0; p < PARTS; p++) out->part_ms[p] = time_of(&c->parts[i][p]);
}

/* ---- the materialising implementation ---- */

/* Seven blocks of B x 2B floats are more than it ever has at once. */
static int naive_fits(int64_t batch) {
    char line[256];
    double available = INFINITY;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "MemAvailable:", 13) == 0) available = 1024.0 * strtod(line + 13, NULL);
    if (f) fclose(f);
    return 7.0 * 8.0 * (double)batch * (double)batch < available;
}

static void time_naive(loss_compare *c, naive *x, float *grad_a, float *grad_b, row *out) {
    clock_times t = {.count = 0};
    const double start = seconds();
    while (t.count < CLOCK_MAX && (t.count < c->p->min_rounds || seconds() - start < c->p->naive_s)) {
        const double before = seconds();
        naive_step(x, &c->s.q, grad_a, grad_b, NULL);
        clock_add(&t, 1e3 * (seconds() - before));
    }
    out->naive_ms = clock_median(&t);
    out->naive_spread = clock_spread(&t);
    out->ratio = out->naive_ms / out->ms;
}

/* First to compare (time = 0), then, when all agree, to time. */
static void with_naive(loss_compare *c, int i, int time, row *out) {
    const glofnd_batch *q = &c->s.q;
    const size_t bytes = sizeof(float) * (size_t)(q->n * q->dim);
    float *grad_a = malloc(bytes), *grad_b = malloc(bytes);
    naive x;
    if (!grad_a || !grad_b) die("no memory for gradients");
    resident_reset();
    const size_t before = resident_now();
    naive_init(&x, &c->lib[i].o, c->p->threads, c->lib[i].ctx, c->lib[i].store, q);
    if (time) naive_step(&x, q, grad_a, grad_b, NULL), time_naive(c, &x, grad_a, grad_b, out);
    else expect_agreement(&c->lib[i], &x, q, grad_a, grad_b);
    out->naive_peak_bytes = (double)pool_peak(x.memory) + gradient_bytes(q);
    out->naive_resident = (double)resident_peak() - (double)before;
    naive_free(&x);
    free(grad_a), free(grad_b);
}

/* ---- one size ---- */

void loss_compare_detectors(const plan *p, int64_t batch, int64_t dim, row *rows) {
    static loss_compare c; /* large, and one at a time */
    memset(&c, 0, sizeof c);
    c.p = p;
    sample_init(&c.s, batch, dim);
    const int naive_too = p->with_naive && naive_fits(batch);
    if (p->with_naive && !naive_too)
        fprintf(stderr, "B = %lld: not enough free memory for the naive version\n", (long long)batch);
    for (int i = 0; i < DETECTORS; i++) {
        rows[i] = row_empty("loss", detector_names[i], batch, dim);
        prepare(&c, i, &rows[i]);
    }
    for (int i = 0; naive_too && i < DETECTORS; i++) with_naive(&c, i, 0, &rows[i]);
    time_library(&c);
    for (int i = 0; i < DETECTORS; i++) {
        report_library(&c, i, &rows[i]);
        if (naive_too) with_naive(&c, i, 1, &rows[i]);
    }
    for (int i = 0; i < DETECTORS; i++) runner_free(&c.lib[i]);
    sample_free(&c.s);
}

/* ---- many anchors ---- */

#define SETS 24 /* batches of ids: with large n each touches pages of its own */
#define STORES 8

typedef struct anchors {
    runner lib;
    int64_t *id; /* [SETS][batch] */
    clock_times first, later;
} anchors;

/* One id from each of `batch` equal parts of the store, in random order: all different. */
static void draw_ids(int64_t *id, int64_t batch, int64_t n, uint64_t *state) {
    const int64_t part = n / batch;
    sample_shuffle(id, batch, state);
    for (int64_t i = 0; i < batch; i++) id[i] = id[i] * part + (int64_t)(sample_random(state) % (uint64_t)part);
}

static glofnd_batch batch_of_set(const sample *s, const anchors *x, int set) {
    glofnd_batch q = s->q;
    q.id = x->id + set * q.n;
    return q;
}

static void open_store(anchors *x, const plan *p, const sample *s, int64_t n, uint64_t *state) {
    runner_init(&x->lib, "glofnd", p->threads, &s->q, n);
    x->lib.o.lambda_init = GLOFND_INIT_ONE;
    expect_ok(x->lib.ctx, glofnd_ctx_configure(x->lib.ctx, &x->lib.o), "options");
    x->id = malloc(sizeof *x->id * SETS * (size_t)s->q.n);
    if (!x->id) die("no memory");
    for (int set = 0; set < SETS; set++) draw_ids(x->id + set * s->q.n, s->q.n, n, state);
}

static void time_set(anchors *x, const sample *s, int set, clock_times *t) {
    const glofnd_batch q = batch_of_set(s, x, set);
    clock_add(t, runner_step(&x->lib, &q));
}

/* Every anchor of every set gets the state that training left for its sample. */
static void put_trained(anchors *x, const sample *s, const glofnd_anchor *state) {
    glofnd_ctx *c = x->lib.ctx;
    for (int set = 0; set < SETS; set++)
        expect_ok(c, glofnd_anchors_put(c, x->lib.store, 0, x->id + set * s->q.n, s->q.n, state), "writing anchors");
}

static glofnd_anchor *trained_state(const plan *p, const sample *s) {
    runner r;
    glofnd_anchor *state = malloc(sizeof *state * (size_t)s->q.n);
    if (!state) die("no memory");
    runner_init(&r, "glofnd", p->threads, &s->q, s->q.n);
    runner_train(&r, s, p->epochs);
    expect_ok(r.ctx, glofnd_anchors_get(r.ctx, r.store, 0, s->q.id, s->q.n, state), "reading anchors");
    runner_free(&r);
    return state;
}

static row anchors_result(anchors *x, const sample *s, int64_t n) {
    row out = row_empty("anchors", "glofnd", s->q.n, s->q.dim);
    glofnd_store_info info = {.size = sizeof info};
    expect_ok(x->lib.ctx, glofnd_store_describe(x->lib.store, &info), "store");
    out.n = (double)n;
    out.ms = clock_median(&x->later);
    out.spread = clock_spread(&x->later);
    out.first_visit_ms = clock_median(&x->first);
    out.peak_bytes = (double)x->lib.workspace + gradient_bytes(&s->q);
    out.store_bytes = (double)info.bytes;
    out.gflops = 16.0 * (double)s->q.n * (double)s->q.n * (double)s->q.dim / out.ms * 1e-6;
    return out;
}

void loss_compare_anchors(const plan *p, int64_t batch, int64_t dim, const int64_t *n, int count, row *rows) {
    static anchors x[STORES];
    uint64_t random = 3;
    sample s;
    if (count > STORES) die("at most %d sizes of the store", STORES);
    memset(x, 0, sizeof x);
    sample_init(&s, batch, dim);
    glofnd_anchor *state = trained_state(p, &s);
    for (int i = 0; i < count; i++) open_store(&x[i], p, &s, n[i], &random);
    for (int set = 0; set < SETS; set++)
        for (int i = 0; i < count; i++) time_set(&x[i], &s, set, &x[i].first);
    for (int i = 0; i < count; i++) put_trained(&x[i], &s, state);
    const double start = seconds();
    for (int round = 0; round < p->min_rounds * SETS || seconds() - start < p->library_s; round++) {
        if (x[0].later.count >= CLOCK_MAX) break;
        for (int i = 0; i < count; i++) time_set(&x[i], &s, round % SETS, &x[i].later);
    }
    for (int i = 0; i < count; i++) {
        rows[i] = anchors_result(&x[i], &s, n[i]);
        runner_free(&x[i].lib);
        free(x[i].id);
    }
    free(state);
    sample_free(&s);
}
