/* typed.c - see typed.h. */
#include "typed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compare.h"
#include "util/dtype.h"

enum { PATTERN = 0x5A };

static float rounded(glofnd_dtype type, float x) {
    uint16_t half;
    if (type == GLOFND_F32) return x;
    gf_dtype_from_float(type, &half, &x, 1);
    return gf_dtype_at(type, &half, 0);
}

static void round_rows(glofnd_dtype type, float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = rounded(type, x[i]);
}

/* Row i of the typed array is row i of x. */
static void spread(glofnd_dtype type, void *to, int64_t stride, const float *x, int64_t rows, int64_t dim) {
    for (int64_t i = 0; i < rows; i++) {
        char *row = (char *)to + (size_t)(i * stride) * gf_dtype_bytes(type);
        if (type == GLOFND_F32) memcpy(row, x + i * dim, sizeof *x * (size_t)dim);
        else gf_dtype_from_float(type, (uint16_t *)(void *)row, x + i * dim, dim);
    }
}

static void *filled(size_t bytes) {
    void *p = malloc(bytes);
    if (!p) abort();
    return memset(p, PATTERN, bytes);
}

typedef struct layout {
    int64_t a, b, a_stride, b_stride, numbers; /* first numbers, strides, size of the whole */
} layout;

static layout layout_of(int kind, int64_t rows, int64_t dim) {
    switch (kind) {
    case TYPED_PADDED: return (layout){3, 3 + rows * (dim + 3), dim + 3, dim + 5, 3 + rows * (2 * dim + 8)};
    case TYPED_INTERLEAVED: return (layout){0, dim, 2 * dim, 2 * dim, 2 * rows * dim};
    default: return (layout){0, rows * dim, dim, dim, 2 * rows * dim};
    }
}

static void *place(void *base, int64_t first, glofnd_dtype type) { return (char *)base + (size_t)first * gf_dtype_bytes(type); }

static void *support_of(glofnd_dtype type, float *x, int64_t n) {
    if (type == GLOFND_F32) return x;
    round_rows(type, x, n);
    void *to = filled((size_t)n * gf_dtype_bytes(type));
    spread(type, to, n, x, 1, n);
    return to;
}

typed_batch typed_make(scene_batch *b, glofnd_dtype dtype, glofnd_dtype grad_dtype, int kind) {
    const int64_t rows = b->q.n, dim = b->q.dim, flat = rows * dim;
    const layout l = layout_of(kind, rows, dim);
    typed_batch t = {.q = b->q, .plain = b->q, .memory = filled((size_t)l.numbers * gf_dtype_bytes(dtype))};
    round_rows(dtype, b->a, flat);
    round_rows(dtype, b->b, flat);
    spread(dtype, place(t.memory, l.a, dtype), l.a_stride, b->a, rows, dim);
    spread(dtype, place(t.memory, l.b, dtype), l.b_stride, b->b, rows, dim);
    t.q.dtype = dtype, t.q.grad_dtype = grad_dtype;
    t.q.a = place(t.memory, l.a, dtype), t.q.b = place(t.memory, l.b, dtype);
    if (kind != TYPED_PLAIN) {
        t.q.a_stride = t.q.grad_a_stride = l.a_stride;
        t.q.b_stride = t.q.grad_b_stride = l.b_stride;
    }
    t.q.extra = t.extra = malloc(sizeof *t.extra);
    if (!t.extra) abort();
    *t.extra = *b->extra;
    if (b->extra->support_a) t.extra->support_a = support_of(dtype, b->support_a, flat);
    if (b->extra->support_b) t.extra->support_b = support_of(dtype, b->support_b, flat);
    t.gradient_bytes = (size_t)l.numbers * gf_dtype_bytes(grad_dtype);
    t.gradients = filled(t.gradient_bytes);
    t.grad_a = place(t.gradients, l.a, grad_dtype), t.grad_b = place(t.gradients, l.b, grad_dtype);
    return t;
}

void typed_free(typed_batch *t) {
    const glofnd_batch_extra *plain = t->plain.extra;
    if (t->extra->support_a != plain->support_a) free((void *)(uintptr_t)t->extra->support_a);
    if (t->extra->support_b != plain->support_b) free((void *)(uintptr_t)t->extra->support_b);
    free(t->extra);
    free(t->memory);
    free(t->gradients);
}

void typed_clear(typed_batch *t) { memset(t->gradients, PATTERN, t->gradient_bytes); }

static const char *gradient_row(const typed_batch *t, int view, int64_t i) {
    const int64_t given = view ? t->q.grad_b_stride : t->q.grad_a_stride, stride = given ? given : t->q.dim;
    return (const char *)(view ? t->grad_b : t->grad_a) + (size_t)(i * stride) * gf_dtype_bytes(t->q.grad_dtype);
}

int typed_gaps_are_clear(const typed_batch *t) {
    const size_t row = (size_t)t->q.dim * gf_dtype_bytes(t->q.grad_dtype);
    unsigned char *copy = malloc(t->gradient_bytes);
    if (!copy) abort();
    memcpy(copy, t->gradients, t->gradient_bytes);
    for (int view = 0; view < 2; view++)
        for (int64_t i = 0; i < t->q.n; i++) memset(copy + (gradient_row(t, view, i) - (const char *)t->gradients), PATTERN, row);
    int clear = 1;
    for (size_t i = 0; i < t->gradient_bytes; i++) clear &= copy[i] == PATTERN;
    free(copy);
    return clear;
}

float typed_gradient(const typed_batch *t, int view, int64_t i, int64_t j) {
    return gf_dtype_at(t->q.grad_dtype, gradient_row(t, view, i), j);
}

float typed_rounded(const typed_batch *t, const float *gradient, int64_t i, int64_t j) {
    return rounded(t->q.grad_dtype, gradient[i * t->q.dim + j]);
}

void expect_typed_step(const scene *s, int step, const typed_batch *t, const outputs *plain, const glofnd_stats *stats) {
    if (memcmp(stats, &plain->stats, sizeof *stats) != 0)
        fail_msg("%s, step %d: loss %.17g, not %.17g, or other stats differ", s->name, step, stats->loss, plain->stats.loss);
    for (int view = 0; view < 2; view++)
        for (int64_t i = 0; i < s->batch; i++)
            for (int64_t j = 0; j < s->dim; j++) {
                const float got = typed_gradient(t, view, i, j);
                const float want = typed_rounded(t, view ? plain->grad_b : plain->grad_a, i, j);
                if (memcmp(&got, &want, sizeof got) != 0)
                    fail_msg("%s, step %d: gradient %d of row %lld at %lld is %.9g, not %.9g", s->name, step, view, (long long)i,
                             (long long)j, (double)got, (double)want);
            }
    if (!typed_gaps_are_clear(t)) fail_msg("%s, step %d: numbers between the rows of a gradient changed", s->name, step);
}

void expect_equal_rows(const scene *s, const runner *x, const runner *y) {
    const size_t n = (size_t)s->anchors;
    glofnd_anchor *rows = calloc(2 * n, sizeof *rows);
    assert_non_null(rows);
    for (int side = 0; side < (scene_two_views(s) ? 1 : 2); side++) {
        read_rows(x, side, s->anchors, rows);
        read_rows(y, side, s->anchors, rows + n);
        if (memcmp(rows, rows + n, n * sizeof *rows) != 0) fail_msg("%s: the state of side %d differs", s->name, side);
    }
    free(rows);
}
