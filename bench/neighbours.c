/* neighbours.c - what averages and neighbours add to a step on the CPU, and the search against one that stores similarities.
 *
 *     build/bench/neighbours [--batch 128,256] [--samples 50000,1000000] [--dim 128] [--window ROWS] [--threads N] [--rounds N]
 *                            [--cpu-time]
 *
 * SogCLR with GloFND, two views. Per batch and number of samples, milliseconds of a step, the median of the rounds: without
 * averages, with them, with five neighbours besides. "search" is the difference of the last two. "stored" is the same search with
 * the library's own product, all similarities in memory, and lists of the five largest.
 * --window: rows searched per step, as neighbour_rows (65536; 0: all). --cpu-time: seconds of the processors, the least.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/formulas/neighbours.h"
#include "method/options.h"
#include "support/clock.h"
#include "support/die.h"
#include "support/machine.h"
#include "support/pool.h"
#include "support/product.h"
#include "support/sample.h"
#include "util/array.h"
#include "util/dtype.h"
#include "util/machine.h"
#include "util/parallel.h"

enum { LIST_MAX = 8, NEAREST = 5, KINDS = 3 };

typedef struct numbers {
    int64_t x[LIST_MAX];
    int count;
} numbers;

static struct {
    numbers batch, samples;
    int64_t dim, window;
    int threads, rounds, cpu_time;
} wanted = {{{128, 256}, 2}, {{50000, 1000000}, 2}, 128, 65536, 0, 9, 0};

typedef struct side { /* one kind of step */
    glofnd_options o;
    glofnd_ctx *ctx;
    glofnd_store *store;
    clock_times times;
} side;

static const char *const kind_names[KINDS] = {"GloFND", "averages", "neighbours"};

static double now(void) { return wanted.cpu_time ? gf_cpu_clock() : seconds(); }
static double chosen(clock_times *t) { return wanted.cpu_time ? clock_least(t) : clock_median(t); }

static void *array(int64_t count, size_t size) {
    void *p = calloc((size_t)count, size);
    if (!p) die("no memory for %lld numbers", (long long)count);
    return p;
}

/* ---- averages ---- */

/* Of n samples in 100 clusters: float16, of length 1. */
static uint16_t *draw_averages(int64_t n, int64_t dim) {
    uint16_t *out = array(n * dim, sizeof *out);
    float *x = array(dim, sizeof *x);
    uint64_t state = 7;
    for (int64_t i = 0; i < n; i++) {
        uint64_t centre = (uint64_t)(i % 100) + 1000;
        double length = 0.0;
        for (int64_t j = 0; j < dim; j++) {
            x[j] = (float)((double)(sample_random(&centre) >> 40) / 8388608.0 - 1.0);
            x[j] += (float)((double)(sample_random(&state) >> 40) / 8388608.0 - 1.0);
            length += (double)x[j] * x[j];
        }
        for (int64_t j = 0; j < dim; j++) out[i * dim + j] = gf_f16_from_float(x[j] / (float)sqrt(length));
    }
    free(x);
    return out;
}

static void fill(side *s, const uint16_t *rows, int64_t n, int64_t dim) {
    int64_t id[1024];
    for (int64_t at = 0; at < n; at += 1024) {
        const int64_t count = GF_MIN(1024, n - at);
        for (int64_t i = 0; i < count; i++) id[i] = at + i;
        expect_ok(s->ctx, glofnd_bank_put(s->ctx, s->store, 0, id, count, rows + at * dim), "averages");
    }
}

/* ---- steps ---- */

static void set(side *s, const char *key, const char *value) {
    char why[256];
    if (glofnd_options_set(&s->o, key, value, why, sizeof why) != GLOFND_OK) die("%s", why);
}

static void open_side(side *s, int kind, const glofnd_batch *q, const uint16_t *rows, int64_t n) {
    char window[32];
    *s = (side){0};
    gf_method_options_init(&s->o);
    set(s, "lambda_init", "quantile");
    if (kind > 0) set(s, "similarity", "bank");
    if (kind > 1) {
        snprintf(window, sizeof window, "%lld", (long long)wanted.window);
        set(s, "neighbours", "5"), set(s, "neighbour_rows", window), set(s, "neighbour_share", "0.5");
    }
    s->o.threads = wanted.threads;
    expect_ok(NULL, glofnd_ctx_create(&s->o, &s->ctx, NULL, 0), "context");
    const glofnd_store_spec spec = {.size = sizeof spec, .n = n, .dim = q->dim};
    expect_ok(s->ctx, glofnd_store_create(s->ctx, &spec, &s->store), "store");
    expect_ok(s->ctx, glofnd_ctx_reserve(s->ctx, q->n, q->n, q->dim, NULL), "workspace");
    if (kind > 0) fill(s, rows, n, q->dim);
}

static void close_side(side *s) {
    glofnd_store_free(s->store);
    glofnd_ctx_free(s->ctx);
}

static void step(side *s, const glofnd_batch *q, float *grad_a, float *grad_b, int counts) {
    const double start = now();
    expect_ok(s->ctx, glofnd_step(s->ctx, s->store, q, grad_a, grad_b, NULL), "step");
    if (counts) clock_add(&s->times, 1e3 * (now() - start));
}

/* ---- the search with similarities in memory ---- */

enum { PORTION = 256 }; /* rows of the averages that a thread takes at a time */

typedef struct stored_search {
    const uint16_t *rows; /* [n][dim] */
    int64_t n, dim, padded;
    float *all, *s;     /* [padded][dim], [batch][padded] */
    gf_neighbour *list; /* [batch][NEAREST] */
} stored_search;

static void widen(void *arg, int64_t task, int thread) {
    const stored_search *x = arg;
    const int64_t end = GF_MIN(x->padded, (task + 1) * PORTION) * x->dim, known = x->n * x->dim;
    (void)thread;
    for (int64_t i = task * PORTION * x->dim; i < end; i++) x->all[i] = i < known ? gf_f16_to_float(x->rows[i]) : 0.0f;
}

static void choose(void *arg, int64_t a, int thread) {
    const stored_search *x = arg;
    gf_neighbour *list = x->list + a * NEAREST;
    (void)thread;
    memset(list, 0, sizeof *list * NEAREST);
    for (int64_t i = 0; i < x->n; i++)
        if (i != a) gf_neighbour_insert(list, NEAREST, x->s[a * x->padded + i], (int32_t)i);
}

/* The anchors are the first `batch` samples. */
static double search_stored(memory_pool *p, stored_search x, int64_t batch) {
    const double start = now();
    x.padded = (x.n + 31) / 32 * 32;
    x.all = pool_take(p, sizeof *x.all * (size_t)(x.padded * x.dim));
    x.s = pool_take(p, sizeof *x.s * (size_t)(batch * x.padded));
    gf_parallel(wanted.threads, (x.padded + PORTION - 1) / PORTION, widen, &x);
    product(p, x.s, x.padded, (matrix){x.all, x.dim, 0}, (matrix){x.all, x.dim, 1}, batch, x.padded, x.dim, wanted.threads);
    gf_parallel(wanted.threads, batch, choose, &x);
    pool_give(p, x.s), pool_give(p, x.all);
    return 1e3 * (now() - start);
}

/* ---- rows of the table ---- */

static void measure(int64_t batch, int64_t n) {
    const int64_t dim = wanted.dim, searched = wanted.window > 0 && wanted.window < n ? wanted.window : n;
    uint16_t *rows = draw_averages(n, dim);
    float *grad_a = array(batch * dim, sizeof *grad_a), *grad_b = array(batch * dim, sizeof *grad_b);
    gf_neighbour *list = array(batch * NEAREST, sizeof *list);
    side s[KINDS];
    clock_times stored = {.count = 0};
    sample x;
    memory_pool *p = pool_create();
    sample_init(&x, batch, dim);
    for (int k = 0; k < KINDS; k++) open_side(&s[k], k, &x.q, rows, n);
    for (int round = -2; round < wanted.rounds; round++) {
        for (int k = 0; k < KINDS; k++) step(&s[k], &x.q, grad_a, grad_b, round >= 0);
        const double ms = search_stored(p, (stored_search){.rows = rows, .n = searched, .dim = dim, .list = list}, batch);
        if (round >= 0) clock_add(&stored, ms);
    }
    double ms[KINDS];
    for (int k = 0; k < KINDS; k++) ms[k] = chosen(&s[k].times);
    printf("%6lld %9lld %9lld %10.2f %10.2f %10.2f %10.2f %10.2f %8.2f\n", (long long)batch, (long long)n, (long long)searched,
           ms[0], ms[1], ms[2], ms[2] - ms[1], chosen(&stored), chosen(&stored) / (ms[2] - ms[1]));
    fflush(stdout);
    for (int k = 0; k < KINDS; k++) close_side(&s[k]);
    sample_free(&x);
    pool_free(p);
    free(list), free(grad_b), free(grad_a), free(rows);
}

/* ---- arguments ---- */

static int64_t number(const char *text, int64_t low) {
    char *end;
    const long long x = strtoll(text, &end, 10);
    if (end == text || (*end != '\0' && *end != ',') || x < low)
        die("%s: not a number, or too small; see the head of the file", text);
    return x;
}

static numbers read_numbers(const char *text) {
    numbers l = {.count = 0};
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (l.count == LIST_MAX) die("%s: too many numbers", text);
        l.x[l.count++] = number(at, 1);
    }
    return l;
}

static void read_flag(const char *flag, const char *value) {
    if (!value) die("%s: unknown, or without a value; see the head of bench/neighbours.c", flag);
    if (strcmp(flag, "--batch") == 0) wanted.batch = read_numbers(value);
    else if (strcmp(flag, "--samples") == 0) wanted.samples = read_numbers(value);
    else if (strcmp(flag, "--dim") == 0) wanted.dim = number(value, 1);
    else if (strcmp(flag, "--window") == 0) wanted.window = number(value, 0);
    else if (strcmp(flag, "--threads") == 0) wanted.threads = (int)number(value, 1);
    else if (strcmp(flag, "--rounds") == 0) wanted.rounds = (int)number(value, 1);
    else die("%s: unknown; see the head of bench/neighbours.c", flag);
}

int main(int argc, char **argv) {
    wanted.threads = gf_parallel_default();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--cpu-time") == 0) wanted.cpu_time = 1;
        else read_flag(argv[i], i + 1 < argc ? argv[i + 1] : NULL), i++;
    }
    printf(" batch   samples  searched     %s   %s %s     search     stored    ratio     (ms a step)\n", kind_names[0],
           kind_names[1], kind_names[2]);
    for (int b = 0; b < wanted.batch.count; b++)
        for (int n = 0; n < wanted.samples.count; n++) {
            const int64_t batch = wanted.batch.x[b], samples = wanted.samples.x[n];
            if (batch % 32 != 0 || batch > samples) die("a batch is a multiple of 32, and not larger than the data");
            measure(batch, samples);
        }
    return 0;
}
