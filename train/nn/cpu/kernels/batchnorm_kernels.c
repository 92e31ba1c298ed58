/* batchnorm_kernels.c - batch norm kernels; see batchnorm_kernels.h. Plain loops that the compiler turns into vectors of this
 * instruction set.
 *
 * Every kernel is one inlined body with the element type and the options as constants, and a switch that picks the copy.
 */
#include "cpu/kernels/simd.h"
#include "nn/cpu/kernels/net_kernels.h"
#include "util/dtype.h"

#define RUN 32     /* rows summed in float */
#define PANEL 1024 /* channels whose sums lie on the stack */

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* a hint: without vectors the loop is scalar */
#define VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define VECTOR_LOOP _Pragma("GCC ivdep") /* arrays are equal or apart: iterations never meet */
#endif

GF_INLINE float get(const void *p, int64_t i, gf_type t) {
    return t == GF_TYPE_BF16 ? gf_bf16_to_float(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

GF_INLINE void put(void *p, int64_t i, float v, gf_type t) {
    if (t == GF_TYPE_BF16) ((uint16_t *)p)[i] = gf_bf16_from_float(v);
    else ((float *)p)[i] = v;
}

GF_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static __attribute__((noinline)) void flush(double *sum, const float *s, int64_t c) {
    for (int64_t i = 0; i < c; i++) sum[i] += (double)s[i];
}

/* ----- forward ----------------------------------------------------------------------------------------------------- */

GF_INLINE void sums_run(float *s, float *q, const gf_nn_norm *n, int64_t r0, int64_t r1, int64_t c0, int64_t c, gf_type t) {
    const float *mean = n->mean + c0;
    int64_t r = r0;
    for (; r + 4 <= r1; r += 4) { /* four rows at once: the sums are loaded and stored a quarter as often */
        const int64_t at = r * n->c + c0;
        VECTOR_LOOP
        for (int64_t i = 0; i < c; i++) {
            const float m = mean[i];
            const float a = get(n->x, at + i, t) - m, b = get(n->x, at + n->c + i, t) - m;
            const float d = get(n->x, at + 2 * n->c + i, t) - m, e = get(n->x, at + 3 * n->c + i, t) - m;
            s[i] += (a + b) + (d + e);
            q[i] += (a * a + b * b) + (d * d + e * e);
        }
    }
    for (; r < r1; r++) {
        const int64_t at = r * n->c + c0;
        VECTOR_LOOP
        for (int64_t i = 0; i < c; i++) {
            const float a = get(n->x, at + i, t) - mean[i];
            s[i] += a;
            q[i] += a * a;
        }
    }
}

GF_INLINE void sums_of(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1, gf_type t) {
    float s[PANEL], q[PANEL];
    memset(partial, 0, sizeof(double) * 2 * (size_t)n->c);
    for (int64_t r = r0; r < r1; r += RUN)
        for (int64_t c0 = 0; c0 < n->c; c0 += PANEL) {
            const int64_t c = smaller(PANEL, n->c - c0);
            memset(s, 0, sizeof(float) * (size_t)c);
            memset(q, 0, sizeof(float) * (size_t)c);
            sums_run(s, q, n, r, smaller(r + RUN, r1), c0, c, t);
            flush(partial + c0, s, c);
            flush(partial + n->c + c0, q, c);
        }
}

static void sums(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1) {
    if (n->type == GF_TYPE_BF16) sums_of(partial, n, r0, r1, GF_TYPE_BF16);
    else sums_of(partial, n, r0, r1, GF_TYPE_F32);
}

GF_INLINE void apply_of(const gf_nn_norm *n, int64_t r0, int64_t r1, int residual, int relu, gf_type t) {
    const float *scale = n->scale, *shift = n->shift;
    for (int64_t r = r0; r < r1; r++) {
        const int64_t at = r * n->c;
        VECTOR_LOOP
        for (int64_t i = 0; i < n->c; i++) {
            float v = get(n->x, at + i, t) * scale[i] + shift[i];
            if (residual) v += get(n->residual, at + i, t);
            if (relu) v = v < 0.0f ? 0.0f : v; /* NaN passes: it must reach the loss and be seen */
            put(n->y, at + i, v, t);
        }
    }
}

GF_INLINE void apply_type(const gf_nn_norm *n, int64_t r0, int64_t r1, gf_type t) {
    switch ((n->residual ? 2 : 0) + (n->relu ? 1 : 0)) {
    case 0: apply_of(n, r0, r1, 0, 0, t); break;
    case 1: apply_of(n, r0, r1, 0, 1, t); break;
    case 2: apply_of(n, r0, r1, 1, 0, t); break;
    case 3: apply_of(n, r0, r1, 1, 1, t); break;
    }
}

static void apply(const gf_nn_norm *n, int64_t r0, int64_t r1) {
    if (n->type == GF_TYPE_BF16) apply_type(n, r0, r1, GF_TYPE_BF16);
    else apply_type(n, r0, r1, GF_TYPE_F32);
}

/* ----- backward ---------------------------------------------------------------------------------------------------- */

/* 1 where ReLU passed: by y or, where nothing was added, by its input, which saves reading y. */
enum { OPEN_ALWAYS, OPEN_BY_X, OPEN_BY_Y };

GF_INLINE void back_run(float *s, float *q, const gf_nn_norm *n, int64_t r0, int64_t r1, int64_t c0, int64_t c, int open, int two,
                        gf_type t) {
    const float *mean = n->mean + c0, *scale = n->scale + c0, *shift = n->shift + c0;
    for (int64_t r = r0; r < r1; r++) {
        const int64_t at = r * n->c + c0;
        VECTOR_LOOP
        for (int64_t i = 0; i < c; i++) {
            const float x = get(n->x, at + i, t);
            float g = get(n->dy, at + i, t);
            if (two) g += get(n->dy2, at + i, t);
            if (open == OPEN_BY_X) g = x * scale[i] + shift[i] > 0.0f ? g : 0.0f;
            if (open == OPEN_BY_Y) g = get(n->y, at + i, t) > 0.0f ? g : 0.0f;
            if (two || open != OPEN_ALWAYS) put(n->dy, at + i, g, t);
            s[i] += g;
            q[i] += g * (x - mean[i]);
        }
    }
}

GF_INLINE void back_sums_of(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1, int open, int two, gf_type t) {
    float s[PANEL], q[PANEL];
    memset(partial, 0, sizeof(double) * 2 * (size_t)n->c);
    for (int64_t r = r0; r < r1; r += RUN)
        for (int64_t c0 = 0; c0 < n->c; c0 += PANEL) {
            const int64_t c = smaller(PANEL, n->c - c0);
            memset(s, 0, sizeof(float) * (size_t)c);
            memset(q, 0, sizeof(float) * (size_t)c);
            back_run(s, q, n, r, smaller(r + RUN, r1), c0, c, open, two, t);
            flush(partial + c0, s, c);
            flush(partial + n->c + c0, q, c);
        }
}

GF_INLINE void back_sums_type(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1, gf_type t) {
    const int open = !n->relu ? OPEN_ALWAYS : n->residual ? OPEN_BY_Y : OPEN_BY_X;
    switch (2 * open + (n->dy2 ? 1 : 0)) {
    case 0: back_sums_of(partial, n, r0, r1, OPEN_ALWAYS, 0, t); break;
    case 1: back_sums_of(partial, n, r0, r1, OPEN_ALWAYS, 1, t); break;
    case 2: back_sums_of(partial, n, r0, r1, OPEN_BY_X, 0, t); break;
    case 3: back_sums_of(partial, n, r0, r1, OPEN_BY_X, 1, t); break;
    case 4: back_sums_of(partial, n, r0, r1, OPEN_BY_Y, 0, t); break;
    case 5: back_sums_of(partial, n, r0, r1, OPEN_BY_Y, 1, t); break;
    }
}

static void back_sums(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1) {
    if (n->type == GF_TYPE_BF16) back_sums_type(partial, n, r0, r1, GF_TYPE_BF16);
    else back_sums_type(partial, n, r0, r1, GF_TYPE_F32);
}

GF_INLINE void back_apply_of(const gf_nn_norm *n, int64_t r0, int64_t r1, gf_type t) {
    const float *scale = n->scale, *mean = n->mean, *slope = n->coef, *base = n->coef + n->c;
    for (int64_t r = r0; r < r1; r++) {
        const int64_t at = r * n->c;
        VECTOR_LOOP
        for (int64_t i = 0; i < n->c; i++)
            put(n->dx, at + i, scale[i] * get(n->dy, at + i, t) + (slope[i] * (get(n->x, at + i, t) - mean[i]) + base[i]), t);
    }
}

static void back_apply(const gf_nn_norm *n, int64_t r0, int64_t r1) {
    if (n->type == GF_TYPE_BF16) back_apply_of(n, r0, r1, GF_TYPE_BF16);
    else back_apply_of(n, r0, r1, GF_TYPE_F32);
}

/* ----- conversion, sum, mean ----------------------------------------------------------------------------------------- */

static void cast(gf_type type, void *dst, const float *src, int64_t count) {
    if (type == GF_TYPE_F32) {
        memcpy(dst, src, sizeof(float) * (size_t)count);
        return;
    }
    VECTOR_LOOP
    for (int64_t i = 0; i < count; i++) put(dst, i, src[i], GF_TYPE_BF16);
}

GF_INLINE void add_of(void *dst, const void *src, int64_t count, gf_type t) {
    VECTOR_LOOP
    for (int64_t i = 0; i < count; i++) put(dst, i, get(dst, i, t) + get(src, i, t), t);
}

static void add(gf_type type, void *dst, const void *src, int64_t count) {
    if (type == GF_TYPE_BF16) add_of(dst, src, count, GF_TYPE_BF16);
    else add_of(dst, src, count, GF_TYPE_F32);
}

GF_INLINE void mean_of(float *y, const void *x, int64_t hw, int64_t c, gf_type t) {
    const float share = 1.0f / (float)hw;
    memset(y, 0, sizeof(float) * (size_t)c);
    for (int64_t p = 0; p < hw; p++) {
        VECTOR_LOOP
        for (int64_t i = 0; i < c; i++) y[i] += get(x, p * c + i, t);
    }
    for (int64_t i = 0; i < c; i++) y[i] *= share;
}

static void mean_rows(gf_type type, float *y, const void *x, int64_t hw, int64_t c) {
    if (type == GF_TYPE_BF16) mean_of(y, x, hw, c, GF_TYPE_BF16);
    else mean_of(y, x, hw, c, GF_TYPE_F32);
}

GF_INLINE void mean_back_of(void *dx, const float *dy, int64_t hw, int64_t c, gf_type t) {
    const float share = 1.0f / (float)hw;
    for (int64_t p = 0; p < hw; p++) {
        VECTOR_LOOP
        for (int64_t i = 0; i < c; i++) put(dx, p * c + i, dy[i] * share, t);
    }
}

static void mean_back(gf_type type, void *dx, const float *dy, int64_t hw, int64_t c) {
    if (type == GF_TYPE_BF16) mean_back_of(dx, dy, hw, c, GF_TYPE_BF16);
    else mean_back_of(dx, dy, hw, c, GF_TYPE_F32);
}

extern const gf_norm_ops GF_NAME(gf_norm_ops);

const gf_norm_ops GF_NAME(gf_norm_ops) = {
    .sums = sums,
    .apply = apply,
    .back_sums = back_sums,
    .back_apply = back_apply,
    .cast = cast,
    .add = add,
    .mean = mean_rows,
    .mean_back = mean_back,
};
