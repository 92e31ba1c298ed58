/* cuda_problem.h - batches that lie in both memories, for tests of the GPU's passes against the CPU's.
 *
 * Similarities differ by roundings between the two, so every threshold lies in a gap between a row's similarities that is wider
 * than they can differ by: counts must then be equal. For BF16 the embeddings are bf16 numbers, so that S is as exact as in
 * float32 and only the weights P are rounded.
 */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/cpu_passes.h"
#include "cuda/cuda_device.h"
#include "cuda/passes/cuda_pass.h"
#include "device/pair_passes.h"
#include "support/random.h"

#define SLACK 64
#define CAP 64        /* of the CPU's window lists, which stay empty */
#define COLS_MAX 2500 /* columns of the largest case */

static inline void cuda_ok(cudaError_t e, const char *what) {
    if (e != cudaSuccess) fail_msg("%s: %s", what, cudaGetErrorString(e));
}
#define CUDA(call) cuda_ok((call), #call)

/* ---- row arrays, on both sides ---- */

/* All numbers of rows on the CPU: what its passes read and write. */
typedef struct cpu_rows {
    float *inv_tau, *lo, *hi, *mid, *theta, *floor, *log_w, *w, *attract, *align, *peak, *window, *grad;
    int32_t *group, *label, *tie, *kept, *window_n, *window_le, *above, *same, *hits;
    double *sum, *moment, *flagged_s, *col_sum, *col_moment;
} cpu_rows;

typedef enum role { IN, OUT_FLOAT, OUT_INT } role;

#define NOWHERE SIZE_MAX

typedef struct field {
    const char *name;
    size_t cpu, gpu; /* of the pointer in cpu_rows, in gf_cuda_rows */
    size_t size;     /* of one number */
    role role;
} field;

#define BOTH(x, role) \
    { #x, offsetof(cpu_rows, x), offsetof(gf_cuda_rows, x), sizeof *((cpu_rows *)0)->x, role }
#define ON_CPU(x, role) \
    { #x, offsetof(cpu_rows, x), NOWHERE, sizeof *((cpu_rows *)0)->x, role }
#define ON_GPU(x, role) \
    { #x, NOWHERE, offsetof(gf_cuda_rows, x), sizeof *((gf_cuda_rows *)0)->x, role }

static const field fields[] = {
    BOTH(inv_tau, IN),
    BOTH(group, IN),
    BOTH(label, IN),
    BOTH(lo, IN),
    ON_CPU(hi, IN),
    BOTH(mid, IN),
    BOTH(theta, IN),
    BOTH(floor, IN),
    BOTH(tie, IN),
    BOTH(log_w, IN),
    BOTH(w, IN),
    BOTH(attract, IN),
    BOTH(align, IN),
    BOTH(sum, OUT_FLOAT),
    BOTH(moment, OUT_FLOAT),
    BOTH(col_sum, OUT_FLOAT),
    BOTH(col_moment, OUT_FLOAT),
    BOTH(flagged_s, OUT_FLOAT),
    BOTH(peak, OUT_FLOAT),
    BOTH(kept, OUT_INT),
    ON_CPU(window_n, OUT_INT),
    ON_CPU(window_le, OUT_INT),
    BOTH(above, OUT_INT),
    BOTH(same, OUT_INT),
    BOTH(hits, OUT_INT),
};
#define FIELDS ((int)(sizeof fields / sizeof *fields))

/* The pointer at that place of a struct of rows; NULL: it has no such field. */
static inline void *get_at(const void *rows, size_t at) {
    void *p = NULL;
    if (at != NOWHERE) memcpy(&p, (const char *)rows + at, sizeof p);
    return p;
}

static inline void set_at(void *rows, size_t at, void *p) {
    if (at != NOWHERE) memcpy((char *)rows + at, &p, sizeof p);
}

static inline cpu_rows host_rows(int64_t n, int64_t ld) {
    cpu_rows x = {0};
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].cpu != NOWHERE) set_at(&x, fields[i].cpu, calloc((size_t)(n + SLACK), fields[i].size));
    x.window = calloc((size_t)((n + SLACK) * CAP), sizeof(float));
    x.grad = calloc((size_t)((n + SLACK) * ld), sizeof(float));
    return x;
}

/* What a GPU's pass leaves, in the host's memory. */
static inline gf_cuda_rows result_rows(int64_t n, int64_t ld) {
    gf_cuda_rows x = {0};
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].gpu != NOWHERE) set_at(&x, fields[i].gpu, calloc((size_t)n, fields[i].size));
    x.grad = calloc((size_t)(n * ld), sizeof(float));
    return x;
}

static inline void *device_copy(const void *host, size_t bytes) {
    void *p = NULL;
    CUDA(cudaMalloc(&p, bytes ? bytes : 1));
    if (host) CUDA(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice));
    else CUDA(cudaMemset(p, 0xff, bytes)); /* outputs are poisoned: NaN, -1 */
    return p;
}

static inline gf_cuda_rows device_rows(const cpu_rows *host, int64_t n, int64_t ld) {
    gf_cuda_rows x = {0};
    for (int i = 0; i < FIELDS; i++) {
        const field *f = &fields[i];
        if (f->gpu != NOWHERE) set_at(&x, f->gpu, device_copy(f->role == IN ? get_at(host, f->cpu) : NULL, (size_t)n * f->size));
    }
    x.grad = device_copy(NULL, (size_t)(n * ld) * sizeof(float));
    return x;
}

static inline void download(gf_cuda_rows *to, const gf_cuda_rows *device, int64_t n, int64_t ld) {
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].gpu != NOWHERE)
            CUDA(cudaMemcpy(get_at(to, fields[i].gpu), get_at(device, fields[i].gpu), (size_t)n * fields[i].size,
                            cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(to->grad, device->grad, (size_t)(n * ld) * sizeof(float), cudaMemcpyDeviceToHost));
}

static inline void free_rows(cpu_rows *x) {
    for (int i = 0; i < FIELDS; i++) free(get_at(x, fields[i].cpu));
    free(x->window), free(x->grad);
}

static inline void free_results(gf_cuda_rows *x) {
    for (int i = 0; i < FIELDS; i++) free(get_at(x, fields[i].gpu));
    free(x->grad);
}

static inline void free_device_rows(gf_cuda_rows *x) {
    for (int i = 0; i < FIELDS; i++) cudaFree(get_at(x, fields[i].gpu));
    cudaFree(x->grad);
}

/* ---- embeddings ---- */

static inline float bf16(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &u, sizeof u);
    return x;
}

static inline uint16_t bf16_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)(u >> 16);
}

typedef struct vectors { /* the same unit vectors for both backends, in their layouts */
    gf_embed cpu;
    gf_cuda_embed gpu;
    int64_t ld; /* the GPU's */
} vectors;

static double vector_spread = 1.0;   /* of noise around a common vector */
static int64_t opposite_vector = -1; /* the one with the other sign; -1: none */

static inline vectors make_vectors(rng *g, int64_t rows, int64_t dim, int rounded, const float *near, double spread) {
    vectors v = {.cpu = {.rows = rows, .dim = dim, .ld = gf_cpu_embed_ld(dim)}, .ld = gf_cuda_embed_ld(dim)};
    const int64_t pad = gf_pad(rows) + SLACK;
    v.cpu.row = calloc((size_t)(pad * v.cpu.ld), sizeof(float));
    v.cpu.col = calloc((size_t)(pad * dim), sizeof(float));
    float *f32 = calloc((size_t)(rows * v.ld), sizeof(float));
    uint16_t *hi = calloc((size_t)(rows * v.ld), 2), *lo = calloc((size_t)(rows * v.ld), 2);
    for (int64_t r = 0; r < rows; r++) {
        double square = 0.0;
        float *z = v.cpu.row + r * v.cpu.ld;
        for (int64_t d = 0; d < dim; d++) {
            z[d] = (float)(spread * rng_normal(g) + (double)near[d]);
            square += (double)z[d] * (double)z[d];
        }
        for (int64_t d = 0; d < dim; d++) {
            z[d] = (float)((r == opposite_vector ? -1.0 : 1.0) * (double)z[d] / sqrt(square));
            if (rounded) z[d] = bf16(z[d]);
            const float high = bf16(z[d]);
            f32[r * v.ld + d] = z[d], hi[r * v.ld + d] = bf16_bits(high), lo[r * v.ld + d] = bf16_bits(bf16(z[d] - high));
        }
    }
    gf_cpu_pack(&v.cpu, 1);
    const size_t count = (size_t)(rows * v.ld);
    v.gpu.f32 = (gf_cuda_matrix){.rows = rows, .dim = dim, .ld = v.ld, .row = device_copy(f32, count * 4)};
    v.gpu.hi = device_copy(hi, count * 2), v.gpu.lo = device_copy(lo, count * 2);
    free(f32), free(hi), free(lo);
    return v;
}

static inline void free_vectors(vectors *v) {
    free(v->cpu.row), free(v->cpu.col);
    cudaFree(v->gpu.f32.row), cudaFree(v->gpu.hi), cudaFree(v->gpu.lo);
}

static inline double similarity(const vectors *a, int64_t r, const vectors *b, int64_t c) {
    double s = 0.0;
    for (int64_t d = 0; d < a->cpu.dim; d++) s += (double)a->cpu.row[r * a->cpu.ld + d] * (double)b->cpu.row[c * b->cpu.ld + d];
    return s;
}

/* ---- a case: rows q0.. of a batch against all of it ---- */

typedef struct shape {
    int64_t cols, q0, rows, dim;
    int shift; /* 1: two views, 0: two sides */
    float inv_tau;
} shape;

typedef struct problem {
    shape s;
    gf_cuda_math math;
    vectors z[2], support[2];     /* rows' side, columns' side; the same where shift is 1 */
    vectors own, own_support;     /* rows q0.. of the rows' side */
    cpu_rows cpu[2], row;         /* of all rows and of all columns; of the own rows: the arrays from q0 on */
    gf_cuda_rows gpu[2], gpu_row; /* the same on the device */
    void *scratch, *gpu_scratch;
    void *buffer; /* of gf_cuda_pass; NULL: none */
    size_t buffer_bytes;
} problem;

static inline int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A number with `below` of the sorted s[n] below it, or a few more, in a gap. */
static inline float in_gap(const double *s, int64_t n, int64_t below, double gap) {
    while (below > 0 && below < n && s[below] - s[below - 1] < gap) below++;
    if (below >= n) return 2.0f;
    return (float)(below == 0 ? -2.0 : 0.5 * (s[below - 1] + s[below]));
}

/* Thresholds, weights, groups of all rows of side i. */
static inline void fill_rows(problem *p, int i, rng *g, double gap) {
    const vectors *own = &p->z[i], *other = &p->z[1 - i];
    const int64_t n = p->s.cols;
    cpu_rows *x = &p->cpu[i];
    double *s = malloc(sizeof *s * (size_t)n);
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < n; c++) s[c] = similarity(own, r, other, c);
        qsort(s, (size_t)n, sizeof *s, by_value);
        const int64_t from = (int64_t)(0.8 * (double)n);
        x->lo[r] = x->hi[r] = in_gap(s, n, from, gap), x->mid[r] = in_gap(s, n, from + 3, gap); /* no window */
        x->floor[r] = r % 5 == 2 ? in_gap(s, n, 2, gap) : -INFINITY; /* below theta: it matters for groups only */
        x->inv_tau[r] = p->s.inv_tau;
        x->log_w[r] = (float)(-3.0 - rng_uniform(g)) - (p->s.inv_tau > 60.0f ? 0.35f * p->s.inv_tau : 0.0f); /* no overflow */
        x->w[r] = expf(x->log_w[r] + fmaxf(0.0f, p->s.inv_tau - 70.0f)); /* as a step leaves it */
        x->attract[r] = (float)(0.01 * rng_uniform(g));
        x->align[r] = (float)rng_uniform(g);
        x->group[r] = (int32_t)rng_below(g, 6) - 1, x->label[r] = (int32_t)rng_below(g, 5) - 1;
        x->tie[r] = (int32_t)rng_below(g, n);
    }
    free(s);
}

static inline void move_fields(void *rows, int on_gpu, int64_t rows_on) {
    for (int i = 0; i < FIELDS; i++) {
        const size_t at = on_gpu ? fields[i].gpu : fields[i].cpu;
        if (at != NOWHERE) set_at(rows, at, (char *)get_at(rows, at) + (size_t)rows_on * fields[i].size);
    }
}

static inline gf_cuda_rows gpu_rows_from(gf_cuda_rows x, int64_t at, int64_t ld) {
    move_fields(&x, 1, at);
    x.grad += at * ld;
    return x;
}

static inline cpu_rows rows_from(cpu_rows x, int64_t at, int64_t ld) {
    move_fields(&x, 0, at);
    x.window += at * CAP;
    x.grad += at * ld;
    return x;
}

static inline vectors rows_of(const vectors *v, const shape *s) {
    vectors o = *v;
    o.cpu.rows = o.gpu.f32.rows = s->rows;
    o.cpu.row += s->q0 * o.cpu.ld, o.cpu.col = NULL;
    o.gpu.f32.row += s->q0 * o.ld;
    o.gpu.hi = (uint16_t *)o.gpu.hi + s->q0 * o.ld, o.gpu.lo = (uint16_t *)o.gpu.lo + s->q0 * o.ld;
    return o;
}

static inline problem *make(const shape *s, gf_cuda_math math, unsigned seed) {
    problem *p = calloc(1, sizeof *p);
    rng g = {seed};
    float near[1024];
    assert_true(s->dim <= 1024 && s->cols <= COLS_MAX);
    p->s = *s, p->math = math;
    for (int64_t d = 0; d < s->dim; d++) near[d] = 0.5f * (float)rng_normal(&g);
    for (int i = 0; i < 2; i++) {
        if (i == 1 && s->shift == 1) p->z[1] = p->z[0], p->support[1] = p->support[0];
        else
            p->z[i] = make_vectors(&g, s->cols, s->dim, math == GF_CUDA_BF16, near, vector_spread),
            p->support[i] = make_vectors(&g, s->cols, s->dim, math == GF_CUDA_BF16, near, vector_spread);
        p->cpu[i] = host_rows(s->cols, p->z[i].cpu.ld);
    }
    for (int i = 0; i < 2; i++) {
        if (i == 0 || s->shift == 0) fill_rows(p, i, &g, math == GF_CUDA_EXACT || math == GF_CUDA_BF16 ? 2e-6 : 6e-5);
        else
            for (int f = 0; f < FIELDS; f++)
                if (fields[f].cpu != NOWHERE)
                    memcpy(get_at(&p->cpu[1], fields[f].cpu), get_at(&p->cpu[0], fields[f].cpu),
                           (size_t)s->cols * fields[f].size);
        p->gpu[i] = device_rows(&p->cpu[i], s->cols, p->z[i].ld);
    }
    p->own = rows_of(&p->z[0], s), p->own_support = rows_of(&p->support[0], s);
    p->row = rows_from(p->cpu[0], s->q0, p->z[0].cpu.ld), p->gpu_row = gpu_rows_from(p->gpu[0], s->q0, p->z[0].ld);
    p->scratch = malloc(gf_cpu_scratch_bytes(64, 1) + gf_cpu_select_bytes(s->cols + 1, 1));
    p->gpu_scratch = device_copy(NULL, 2 * gf_cuda_select_scratch(s->rows, s->cols));
    return p;
}

static inline void drop(problem *p) {
    for (int i = 0; i < 2; i++) {
        free_rows(&p->cpu[i]), free_device_rows(&p->gpu[i]);
        if (i == 0 || p->s.shift == 0) free_vectors(&p->z[i]), free_vectors(&p->support[i]);
    }
    free(p->scratch), cudaFree(p->gpu_scratch), free(p);
}

static inline gf_pass cpu_pass(problem *p, unsigned flags) {
    gf_pass x = {.q = p->own.cpu,
                 .k = p->z[1].cpu,
                 .q0 = p->s.q0,
                 .shift = p->s.shift,
                 .flags = flags,
                 .omega = 0.3f,
                 .tile = 64,
                 .scratch = p->scratch,
                 .threads = 1};
    if (flags & GF_TIE) x.score = p->own_support.cpu;
    return x;
}

static inline gf_sum_pass cpu_sums(problem *p, unsigned flags) {
    const cpu_rows *x = &p->row;
    return (
        gf_sum_pass){.pairs = cpu_pass(p, flags),
                     .row = {.inv_tau = x->inv_tau, .group = x->group, .lo = x->lo, .hi = x->hi, .mid = x->mid, .tie = x->tie},
                     .col = {.group = p->cpu[1].group},
                     .row_out = {x->sum, x->moment, x->flagged_s, x->peak, x->kept, x->above, x->window, x->window_n,
                                 x->window_le},
                     .window_cap = CAP};
}

static inline gf_grad_in cpu_weights(const cpu_rows *x) {
    return (gf_grad_in){.inv_tau = x->inv_tau,
                        .theta = x->theta,
                        .floor = x->floor,
                        .group = x->group,
                        .label = x->label,
                        .tie = x->tie,
                        .log_w = x->log_w,
                        .w = x->w,
                        .attract = x->attract,
                        .align = x->align};
}

static inline gf_gradient_pass cpu_grads(problem *p, unsigned flags) {
    const cpu_rows *x = &p->row;
    return (gf_gradient_pass){.pairs = cpu_pass(p, flags),
                              .row = cpu_weights(x),
                              .col = cpu_weights(&p->cpu[1]),
                              .row_out = {x->grad, x->same, x->hits, x->col_sum, x->col_moment}};
}

static inline gf_cuda_pass gpu_pass(problem *p, unsigned flags) {
    return (gf_cuda_pass){.q = &p->own.gpu,
                          .k = &p->z[1].gpu,
                          .score = flags & GF_TIE ? &p->own_support.gpu : NULL,
                          .col_score = flags & GF_TIE ? &p->support[1].gpu : NULL,
                          .q0 = p->s.q0,
                          .shift = p->s.shift,
                          .row = &p->gpu_row,
                          .col = &p->gpu[1],
                          .flags = flags,
                          .omega = 0.3f,
                          .math = p->math,
                          .buffer = p->buffer,
                          .buffer_bytes = p->buffer_bytes,
                          .scratch = p->gpu_scratch};
}

/* ---- comparisons ---- */

static inline double tolerance(const problem *p) { /* of an exponential, relative; a similarity is good to 3e-7, or 2^-16 */
    const double s = p->math == GF_CUDA_EXACT || p->math == GF_CUDA_BF16 ? 4e-7 : 2.5e-5;
    return s * (double)p->s.inv_tau + 2e-6;
}

static inline void near_by(const problem *p, unsigned flags, const char *what, int64_t r, double got, double want, double tol) {
    if (got == want || fabs(got - want) <= tol * fabs(want) + 1e-12 * (double)p->s.cols) return;
    fail_msg("%s of row %lld, flags 0x%x, math %d, %lld x %lld x %lld: %.9g, want %.9g", what, (long long)r, flags, (int)p->math,
             (long long)p->s.rows, (long long)p->s.cols, (long long)p->s.dim, got, want);
}

static inline void same_count(const problem *p, unsigned flags, const char *what, int64_t r, int64_t got, int64_t want) {
    if (got == want) return;
    fail_msg("%s of row %lld, flags 0x%x, math %d, %lld x %lld x %lld: %lld, want %lld", what, (long long)r, flags, (int)p->math,
             (long long)p->s.rows, (long long)p->s.cols, (long long)p->s.dim, (long long)got, (long long)want);
}

static inline gf_cuda_rows fetch(problem *p) {
    gf_cuda_rows got = result_rows(p->s.rows, p->z[0].ld);
    CUDA(cudaDeviceSynchronize());
    download(&got, &p->gpu_row, p->s.rows, p->z[0].ld);
    return got;
}

/* ---- cases ---- */

static const shape shapes[] = {
    {70, 0, 70, 24, 1, 10.0f},     {258, 0, 258, 128, 1, 10.0f},  {300, 34, 130, 100, 1, 10.0f},
    {257, 0, 257, 40, 0, 10.0f},   {400, 100, 77, 200, 0, 20.0f}, {190, 0, 190, 300, 1, 10.0f},
    {1500, 0, 1500, 64, 1, 10.0f}, {258, 2, 200, 128, 1, 150.0f}, {140, 0, 140, 700, 1, 10.0f},
};
