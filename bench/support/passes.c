/* passes.c - see passes.h. A pass is a row function, compiled for several instruction sets, and the loop over rows. */
#include "support/passes.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "support/die.h"
#include "util/array.h"
#include "util/parallel.h"

/* The best of several clones is taken when the program is loaded, before a sanitizer would be ready for it. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(SANITIZED)
#define VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORS
#endif

#define LANES 64 /* independent partial sums */

typedef struct pass pass;
typedef void (*row_pass)(const pass *p, int64_t i);

struct pass {
    extent e;
    row_pass row;
    void *y;
    const void *x, *z;
    const float *t;
    float factor;
    double alpha;
    int64_t n, rows_per_task;
};

/* ---- rows ---- */

VECTORS static void scale_row(float *y, const float *x, float factor, int64_t n) {
    for (int64_t j = 0; j < n; j++) y[j] = x[j] * factor;
}

VECTORS static void fill_row(float *y, const float *x, const uint8_t *mask, float other, int64_t n) {
    for (int64_t j = 0; j < n; j++) y[j] = mask[j] ? x[j] : other;
}

VECTORS static void above_row(uint8_t *y, const float *x, float t, int64_t n) {
    for (int64_t j = 0; j < n; j++) y[j] = x[j] > t;
}

VECTORS static void at_most_row(uint8_t *y, const float *x, float t, int64_t n) {
    for (int64_t j = 0; j < n; j++) y[j] = x[j] <= t;
}

VECTORS static void and_row(uint8_t *y, const uint8_t *a, const uint8_t *b, int64_t n) {
    for (int64_t j = 0; j < n; j++) y[j] = a[j] & b[j];
}

VECTORS static void differ_row(uint8_t *y, int32_t label, const int32_t *col, int64_t n) {
    for (int64_t j = 0; j < n; j++) y[j] = col[j] != label;
}

VECTORS static int32_t count_row(const uint8_t *mask, int64_t n) {
    int32_t count = 0;
    for (int64_t j = 0; j < n; j++) count += mask[j];
    return count;
}

VECTORS static double sum_row(const float *x, int64_t n) {
    float part[LANES] = {0};
    double sum = 0.0;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++) part[l] += x[j + l];
    for (; j < n; j++) sum += (double)x[j];
    for (int l = 0; l < LANES; l++) sum += (double)part[l];
    return sum;
}

/* ---- from a pass to its row ---- */

#define FLOATS(p, i) ((const float *)(p)->x + (i) * (p)->e.cols)
#define MASKS(p, i) ((const uint8_t *)(p)->z + (i) * (p)->e.cols)
#define OUT(p, i, type) ((type *)(p)->y + (i) * (p)->e.cols)

static void scale(const pass *p, int64_t i) { scale_row(OUT(p, i, float), FLOATS(p, i), p->t ? p->t[i] : p->factor, p->e.cols); }

static void exponential(const pass *p, int64_t i) { gf_cpu_kernels_get()->tile->exp(OUT(p, i, float), FLOATS(p, i), p->e.cols); }

static void fill(const pass *p, int64_t i) { fill_row(OUT(p, i, float), FLOATS(p, i), MASKS(p, i), p->factor, p->e.cols); }

static void above(const pass *p, int64_t i) { above_row(OUT(p, i, uint8_t), FLOATS(p, i), p->t[i], p->e.cols); }

static void at_most(const pass *p, int64_t i) { at_most_row(OUT(p, i, uint8_t), FLOATS(p, i), p->t[i], p->e.cols); }

static void both(const pass *p, int64_t i) {
    and_row(OUT(p, i, uint8_t), (const uint8_t *)p->x + i * p->e.cols, MASKS(p, i), p->e.cols);
}

static void differ(const pass *p, int64_t i) {
    differ_row(OUT(p, i, uint8_t), ((const int32_t *)p->x)[i], (const int32_t *)p->z, p->e.cols);
}

static void count(const pass *p, int64_t i) { ((int32_t *)p->y)[i] = count_row(MASKS(p, i), p->e.cols); }

static void sum(const pass *p, int64_t i) { ((double *)p->y)[i] = sum_row(FLOATS(p, i), p->e.cols); }

static void quantile(const pass *p, int64_t i) {
    int64_t best;
    double fraction;
    float *copy = malloc(sizeof(float) * (size_t)p->e.cols);
    if (!copy) die("no memory for a row of %lld floats", (long long)p->e.cols);
    memcpy(copy, FLOATS(p, i), sizeof(float) * (size_t)p->e.cols);
    gf_quantile_place(p->n, 1, p->alpha, &best, &fraction);
    ((float *)p->y)[i] = gf_between(copy, p->e.cols, best, fraction);
    free(copy);
}

/* ---- all rows ---- */

#define TASK_ELEMENTS 16384 /* below this a task is not worth a thread */

static void some_rows(void *arg, int64_t task, int thread) {
    const pass *p = arg;
    (void)thread;
    for (int64_t i = task * p->rows_per_task; i < p->e.rows && i < (task + 1) * p->rows_per_task; i++) p->row(p, i);
}

static void run(pass p) {
    p.rows_per_task = TASK_ELEMENTS / p.e.cols > 0 ? TASK_ELEMENTS / p.e.cols : 1;
    gf_parallel(p.e.threads, (p.e.rows + p.rows_per_task - 1) / p.rows_per_task, some_rows, &p);
}

void pass_scale(extent e, float *y, const float *x, float factor) { run((pass){e, scale, .y = y, .x = x, .factor = factor}); }

void pass_scale_rows(extent e, float *y, const float *x, const float *t) { run((pass){e, scale, .y = y, .x = x, .t = t}); }

void pass_exp(extent e, float *y, const float *x) { run((pass){e, exponential, .y = y, .x = x}); }

void pass_keep(extent e, float *y, const float *x, const uint8_t *mask) { run((pass){e, fill, .y = y, .x = x, .z = mask}); }

void pass_fill(extent e, float *y, const float *x, const uint8_t *mask, float other) {
    run((pass){e, fill, .y = y, .x = x, .z = mask, .factor = other});
}

void pass_above(extent e, uint8_t *y, const float *x, const float *t) { run((pass){e, above, .y = y, .x = x, .t = t}); }

void pass_at_most(extent e, uint8_t *y, const float *x, const float *t) { run((pass){e, at_most, .y = y, .x = x, .t = t}); }

void pass_and(extent e, uint8_t *y, const uint8_t *a, const uint8_t *b) { run((pass){e, both, .y = y, .x = a, .z = b}); }

void pass_differ(extent e, uint8_t *y, const int32_t *row, const int32_t *col) {
    run((pass){e, differ, .y = y, .x = row, .z = col});
}

void pass_count(extent e, int32_t *y, const uint8_t *mask) { run((pass){e, count, .y = y, .z = mask}); }

void pass_sum(extent e, double *y, const float *x) { run((pass){e, sum, .y = y, .x = x}); }

void pass_quantile(extent e, float *y, const float *x, int64_t n, double alpha) {
    run((pass){e, quantile, .y = y, .x = x, .n = n, .alpha = alpha});
}
