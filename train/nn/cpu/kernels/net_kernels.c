/* net_kernels.c - kernels of networks for one instruction set; see net_kernels.h.
 *
 * Every kernel is one inlined body with the element type and the options as constants, and a switch that picks the copy.
 */
#include "nn/cpu/kernels/net_kernels.h"

#include "cpu/kernels/simd.h"
#include "util/array.h"
#include "util/dtype.h"

/* One call per type, with the type as a constant. */
#define BY_TYPE(type, f, ...)                                     \
    do {                                                          \
        if ((type) == GF_TYPE_BF16) f(__VA_ARGS__, GF_TYPE_BF16); \
        else f(__VA_ARGS__, GF_TYPE_F32);                         \
    } while (0)

GF_INLINE float load_number(const void *p, int64_t i, gf_type t) {
    return t == GF_TYPE_BF16 ? gf_bf16_to_float(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

GF_INLINE void store_number(void *p, int64_t i, float v, gf_type t) {
    if (t == GF_TYPE_BF16) ((uint16_t *)p)[i] = gf_bf16_from_float(v);
    else ((float *)p)[i] = v;
}

/* ----- batch norm: plain loops that the compiler turns into vectors -------------------------------------------- */

#define RUN 32     /* rows summed in float */
#define PANEL 1024 /* channels whose sums lie on the stack */

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* a hint: without vectors the loop is scalar */
#define VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define VECTOR_LOOP _Pragma("GCC ivdep") /* arrays are equal or apart: iterations never meet */
#endif

static __attribute__((noinline)) void add_run(double *sum, const float *s, int64_t c) {
    for (int64_t i = 0; i < c; i++) sum[i] += (double)s[i];
}

GF_INLINE void sum_run(float *s, float *q, const gf_nn_norm *n, int64_t r0, int64_t r1, int64_t c0, int64_t c, gf_type t) {
    const float *mean = n->mean + c0;
    int64_t r = r0;
    for (; r + 4 <= r1; r += 4) { /* four rows at once: the sums are loaded and stored a quarter as often */
        const int64_t at = r * n->c + c0;
        VECTOR_LOOP
        for (int64_t i = 0; i < c; i++) {
            const float m = mean[i];
            const float a = load_number(n->x, at + i, t) - m, b = load_number(n->x, at + n->c + i, t) - m;
            const float d = load_number(n->x, at + 2 * n->c + i, t) - m, e = load_number(n->x, at + 3 * n->c + i, t) - m;
            s[i] += (a + b) + (d + e);
            q[i] += (a * a + b * b) + (d * d + e * e);
        }
    }
    for (; r < r1; r++) {
        const int64_t at = r * n->c + c0;
        VECTOR_LOOP
        for (int64_t i = 0; i < c; i++) {
            const float a = load_number(n->x, at + i, t) - mean[i];
            s[i] += a;
            q[i] += a * a;
        }
    }
}

/* The sums of forward; those of backward, by where ReLU passed: by y or, where nothing was added, by its input, which saves
 * reading y. */
enum { FORWARD, OPEN_ALWAYS, OPEN_BY_X, OPEN_BY_Y };

GF_INLINE void sum_run_back(float *s, float *q, const gf_nn_norm *n, int64_t r0, int64_t r1, int64_t c0, int64_t c, int open,
                            int two, gf_type t) {
    const float *mean = n->mean + c0, *scale = n->scale + c0, *shift = n->shift + c0;
    for (int64_t r = r0; r < r1; r++) {
        const int64_t at = r * n->c + c0;
        VECTOR_LOOP
        for (int64_t i = 0; i < c; i++) {
            const float x = load_number(n->x, at + i, t);
            float g = load_number(n->dy, at + i, t);
            if (two) g += load_number(n->dy2, at + i, t);
            if (open == OPEN_BY_X) g = x * scale[i] + shift[i] > 0.0f ? g : 0.0f;
            if (open == OPEN_BY_Y) g = load_number(n->y, at + i, t) > 0.0f ? g : 0.0f;
            if (two || open != OPEN_ALWAYS) store_number(n->dy, at + i, g, t);
            s[i] += g;
            q[i] += g * (x - mean[i]);
        }
    }
}

GF_INLINE void sum_rows(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1, int open, int two, gf_type t) {
    float s[PANEL], q[PANEL];
    memset(partial, 0, sizeof(double) * 2 * (size_t)n->c);
    for (int64_t r = r0; r < r1; r += RUN)
        for (int64_t c0 = 0; c0 < n->c; c0 += PANEL) {
            const int64_t c = GF_MIN(PANEL, n->c - c0);
            memset(s, 0, sizeof(float) * (size_t)c);
            memset(q, 0, sizeof(float) * (size_t)c);
            if (open == FORWARD) sum_run(s, q, n, r, GF_MIN(r + RUN, r1), c0, c, t);
            else sum_run_back(s, q, n, r, GF_MIN(r + RUN, r1), c0, c, open, two, t);
            add_run(partial + c0, s, c);
            add_run(partial + n->c + c0, q, c);
        }
}

static void norm_sums(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1) {
    BY_TYPE(n->type, sum_rows, partial, n, r0, r1, FORWARD, 0);
}

static void norm_back_sums(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1) {
    const int open = !n->relu ? OPEN_ALWAYS : n->residual ? OPEN_BY_Y : OPEN_BY_X;
    switch (2 * open + (n->dy2 ? 1 : 0)) {
    case 2 * OPEN_ALWAYS: BY_TYPE(n->type, sum_rows, partial, n, r0, r1, OPEN_ALWAYS, 0); break;
    case 2 * OPEN_ALWAYS + 1: BY_TYPE(n->type, sum_rows, partial, n, r0, r1, OPEN_ALWAYS, 1); break;
    case 2 * OPEN_BY_X: BY_TYPE(n->type, sum_rows, partial, n, r0, r1, OPEN_BY_X, 0); break;
    case 2 * OPEN_BY_X + 1: BY_TYPE(n->type, sum_rows, partial, n, r0, r1, OPEN_BY_X, 1); break;
    case 2 * OPEN_BY_Y: BY_TYPE(n->type, sum_rows, partial, n, r0, r1, OPEN_BY_Y, 0); break;
    case 2 * OPEN_BY_Y + 1: BY_TYPE(n->type, sum_rows, partial, n, r0, r1, OPEN_BY_Y, 1); break;
    }
}

GF_INLINE void apply_rows(const gf_nn_norm *n, int64_t r0, int64_t r1, int residual, int relu, gf_type t) {
    const float *scale = n->scale, *shift = n->shift;
    for (int64_t r = r0; r < r1; r++) {
        const int64_t at = r * n->c;
        VECTOR_LOOP
        for (int64_t i = 0; i < n->c; i++) {
            float v = load_number(n->x, at + i, t) * scale[i] + shift[i];
            if (residual) v += load_number(n->residual, at + i, t);
            if (relu) v = v < 0.0f ? 0.0f : v; /* NaN passes: it must reach the loss and be seen */
            store_number(n->y, at + i, v, t);
        }
    }
}

static void norm_apply(const gf_nn_norm *n, int64_t r0, int64_t r1) {
    switch ((n->residual ? 2 : 0) + (n->relu ? 1 : 0)) {
    case 0: BY_TYPE(n->type, apply_rows, n, r0, r1, 0, 0); break;
    case 1: BY_TYPE(n->type, apply_rows, n, r0, r1, 0, 1); break;
    case 2: BY_TYPE(n->type, apply_rows, n, r0, r1, 1, 0); break;
    case 3: BY_TYPE(n->type, apply_rows, n, r0, r1, 1, 1); break;
    }
}

GF_INLINE void back_apply_rows(const gf_nn_norm *n, int64_t r0, int64_t r1, gf_type t) {
    const float *scale = n->scale, *mean = n->mean, *slope = n->coef, *base = n->coef + n->c;
    for (int64_t r = r0; r < r1; r++) {
        const int64_t at = r * n->c;
        VECTOR_LOOP
        for (int64_t i = 0; i < n->c; i++)
            store_number(n->dx, at + i,
                         scale[i] * load_number(n->dy, at + i, t) +
                             (slope[i] * (load_number(n->x, at + i, t) - mean[i]) + base[i]),
                         t);
    }
}

static void norm_back_apply(const gf_nn_norm *n, int64_t r0, int64_t r1) { BY_TYPE(n->type, back_apply_rows, n, r0, r1); }

/* Conversion, sum, mean. */

static void cast_numbers(gf_type type, void *dst, const float *src, int64_t count) {
    if (type == GF_TYPE_F32) {
        memcpy(dst, src, sizeof(float) * (size_t)count);
        return;
    }
    VECTOR_LOOP
    for (int64_t i = 0; i < count; i++) store_number(dst, i, src[i], GF_TYPE_BF16);
}

GF_INLINE void add_all(void *dst, const void *src, int64_t count, gf_type t) {
    VECTOR_LOOP
    for (int64_t i = 0; i < count; i++) store_number(dst, i, load_number(dst, i, t) + load_number(src, i, t), t);
}

static void add_numbers(gf_type type, void *dst, const void *src, int64_t count) { BY_TYPE(type, add_all, dst, src, count); }

static void mean_of_rows(gf_type t, float *y, const void *x, int64_t hw, int64_t c) {
    const float share = 1.0f / (float)hw;
    memset(y, 0, sizeof(float) * (size_t)c);
    for (int64_t p = 0; p < hw; p++) {
        VECTOR_LOOP
        for (int64_t i = 0; i < c; i++) y[i] += load_number(x, p * c + i, t);
    }
    for (int64_t i = 0; i < c; i++) y[i] *= share;
}

static void mean_back_of_rows(gf_type t, void *dx, const float *dy, int64_t hw, int64_t c) {
    const float share = 1.0f / (float)hw;
    for (int64_t p = 0; p < hw; p++) {
        VECTOR_LOOP
        for (int64_t i = 0; i < c; i++) store_number(dx, p * c + i, dy[i] * share, t);
    }
}

/* ----- 3 x 3 convolutions -------------------------------------------------------------------------------------- */

/* One vector of channels at a time: first the six (or four) columns of the tile, then the rows of what came out. Pairs of points
 * +-p share their even and odd parts. */

#define IN 6 /* inputs of a tile in one direction */
#define OUT GF_WINO_OUT
#define TAPS 3

#define P 0.75f /* the points: 0, P, -P, Q, -Q, infinity */
#define Q 1.5f
#define P2 (P * P)
#define Q2 (Q * Q)

GF_INLINE vf load_vector(const void *p, int64_t i, gf_type t) {
    return t == GF_TYPE_BF16 ? vf_load_bf16((const uint16_t *)p + i) : vf_load((const float *)p + i);
}

GF_INLINE void store_vector(void *p, int64_t i, vf v, gf_type t) {
    if (t == GF_TYPE_BF16) vf_store_bf16((uint16_t *)p + i, v);
    else vf_store((float *)p + i, v);
}

GF_INLINE vf times(float a, vf b) { return vf_mul(vf_set(a), b); }
GF_INLINE vf plus(vf a, float b, vf c) { return vf_fma(vf_set(b), c, a); } /* a + b c */

/* One direction. */

GF_INLINE void input_line(vf o[IN], const vf d[IN]) { /* B' */
    const vf e1 = plus(d[4], -Q2, d[2]), o1 = times(P, plus(d[3], -Q2, d[1]));
    const vf e2 = plus(d[4], -P2, d[2]), o2 = times(Q, plus(d[3], -P2, d[1]));
    o[0] = plus(plus(d[4], -(P2 + Q2), d[2]), P2 * Q2, d[0]);
    o[1] = vf_add(e1, o1);
    o[2] = vf_sub(e1, o1);
    o[3] = vf_add(e2, o2);
    o[4] = vf_sub(e2, o2);
    o[5] = plus(plus(d[5], -(P2 + Q2), d[3]), P2 * Q2, d[1]);
}

GF_INLINE void output_line(vf o[OUT], const vf m[IN]) { /* A' */
    const vf s1 = vf_add(m[1], m[2]), d1 = vf_sub(m[1], m[2]), s2 = vf_add(m[3], m[4]), d2 = vf_sub(m[3], m[4]);
    o[0] = vf_add(m[0], vf_add(s1, s2));
    o[1] = plus(times(P, d1), Q, d2);
    o[2] = plus(times(P2, s1), Q2, s2);
    o[3] = plus(plus(m[5], P * P2, d1), Q * Q2, d2);
}

GF_INLINE void spread_line(vf o[IN], const vf y[OUT]) { /* A */
    const vf e1 = plus(y[0], P2, y[2]), o1 = times(P, plus(y[1], P2, y[3]));
    const vf e2 = plus(y[0], Q2, y[2]), o2 = times(Q, plus(y[1], Q2, y[3]));
    o[0] = y[0];
    o[1] = vf_add(e1, o1);
    o[2] = vf_sub(e1, o1);
    o[3] = vf_add(e2, o2);
    o[4] = vf_sub(e2, o2);
    o[5] = y[3];
}

/* Rows of G are (1, p, p^2) / product of the distances of p to the other points. */
#define G0 (1.0f / (P2 * Q2))
#define G1 (1.0f / (2.0f * P2 * (P2 - Q2)))
#define G2 (1.0f / (2.0f * Q2 * (Q2 - P2)))

GF_INLINE void weight_line(vf o[IN], const vf g[TAPS]) { /* G */
    const vf e1 = times(G1, plus(g[0], P2, g[2])), o1 = times(G1 * P, g[1]);
    const vf e2 = times(G2, plus(g[0], Q2, g[2])), o2 = times(G2 * Q, g[1]);
    o[0] = times(G0, g[0]);
    o[1] = vf_add(e1, o1);
    o[2] = vf_sub(e1, o1);
    o[3] = vf_add(e2, o2);
    o[4] = vf_sub(e2, o2);
    o[5] = g[2];
}

GF_INLINE void gradient_line(vf o[TAPS], const vf u[IN]) { /* G' */
    const vf s1 = times(G1, vf_add(u[1], u[2])), d1 = times(G1 * P, vf_sub(u[1], u[2]));
    const vf s2 = times(G2, vf_add(u[3], u[4])), d2 = times(G2 * Q, vf_sub(u[3], u[4]));
    o[0] = plus(vf_add(s1, s2), G0, u[0]);
    o[1] = vf_add(d1, d2);
    o[2] = plus(plus(u[5], P2, s1), Q2, s2);
}

/* Tiles. */

/* Loads size x size pixels from (y, x) on and transforms them to 6 x 6 numbers. */
GF_INLINE void to_planes(const gf_wino_planes *to, const gf_wino_image *from, int64_t y, int64_t x, int size, gf_type t) {
    const char *at[IN * IN]; /* of pixels; NULL outside of the image */
    for (int i = 0; i < size * size; i++) {
        const int64_t row = y + i / size, col = x + i % size;
        const int inside = row >= 0 && row < from->h && col >= 0 && col < from->w;
        at[i] = inside ? (const char *)from->data + (size_t)((row * from->w + col) * from->c) * gf_type_bytes[t] : NULL;
    }
    for (int64_t c = 0; c < from->c; c += GF_LANES) {
        vf columns[IN][IN], d[IN], o[IN];
        for (int s = 0; s < size; s++) {
            for (int r = 0; r < size; r++) d[r] = at[r * size + s] ? load_vector(at[r * size + s], c, t) : vf_set(0.0f);
            if (size == IN) input_line(o, d);
            else spread_line(o, d);
            for (int r = 0; r < IN; r++) columns[r][s] = o[r];
        }
        float *out = to->data + c / GF_PANEL * (int64_t)to->panel + c % GF_PANEL;
        for (int r = 0; r < IN; r++) {
            if (size == IN) input_line(o, columns[r]);
            else spread_line(o, columns[r]);
            for (int s = 0; s < IN; s++) vf_store(out + (size_t)(r * IN + s) * to->plane, o[s]);
        }
    }
}

static void wino_input(const gf_wino_planes *to, const gf_wino_image *from, int64_t y, int64_t x) {
    BY_TYPE(from->type, to_planes, to, from, y - 1, x - 1, IN);
}

static void wino_spread(const gf_wino_planes *to, const gf_wino_image *from, int64_t y, int64_t x) {
    BY_TYPE(from->type, to_planes, to, from, y, x, OUT);
}

GF_INLINE void from_planes(const gf_wino_image *to, const gf_wino_planes *from, int64_t y, int64_t x, gf_type t) {
    const int64_t rows = to->h - y < OUT ? to->h - y : OUT, cols = to->w - x < OUT ? to->w - x : OUT;
    char *first = (char *)to->data + (size_t)((y * to->w + x) * to->c) * gf_type_bytes[t];
    for (int64_t c = 0; c < to->c; c += GF_LANES) {
        vf columns[OUT][IN], m[IN], o[OUT];
        const float *in = from->data + c / GF_PANEL * (int64_t)from->panel + c % GF_PANEL;
        for (int s = 0; s < IN; s++) {
            for (int r = 0; r < IN; r++) m[r] = vf_load(in + (size_t)(r * IN + s) * from->plane);
            output_line(o, m);
            for (int r = 0; r < OUT; r++) columns[r][s] = o[r];
        }
        for (int r = 0; r < OUT; r++) {
            output_line(o, columns[r]);
            for (int s = 0; s < OUT; s++)
                if (r < rows && s < cols) store_vector(first, (r * to->w + s) * to->c + c, o[s], t);
        }
    }
}

static void wino_output(const gf_wino_image *to, const gf_wino_planes *from, int64_t y, int64_t x) {
    BY_TYPE(to->type, from_planes, to, from, y, x);
}

/* Weights. */

static void wino_weights(float *to, const gf_wino_weights *w, int64_t panel, int64_t r0, int64_t r1) {
    const size_t plane = (size_t)(w->rows * w->cols);
    for (int64_t row = r0; row < r1; row++)
        for (int64_t j = 0; j < GF_PANEL; j += GF_LANES) {
            float *u = to + (panel * w->rows + row) * GF_PANEL + j;
            float taps[TAPS * TAPS][GF_LANES]; /* of [out][in][3][3], one row, one vector of columns */
            vf columns[IN][TAPS], d[TAPS], o[IN];
            for (int i = 0; i < GF_LANES; i++) {
                const float *from = w->data + row * w->row_step + (panel * GF_PANEL + j + i) * w->col_step;
                for (int k = 0; k < TAPS * TAPS; k++) taps[k][i] = from[w->turned ? TAPS * TAPS - 1 - k : k];
            }
            for (int s = 0; s < TAPS; s++) {
                for (int r = 0; r < TAPS; r++) d[r] = vf_load(taps[r * TAPS + s]);
                weight_line(o, d);
                for (int r = 0; r < IN; r++) columns[r][s] = o[r];
            }
            for (int r = 0; r < IN; r++) {
                weight_line(o, columns[r]);
                for (int s = 0; s < IN; s++) vf_store(u + (size_t)(r * IN + s) * plane, o[s]);
            }
        }
}

static void wino_gradient(const gf_wino_weights *w, const float *du, int64_t panel, int64_t r0, int64_t r1) {
    const size_t plane = (size_t)(w->rows * w->cols);
    for (int64_t j = panel * GF_PANEL; j < (panel + 1) * GF_PANEL; j += GF_LANES)
        for (int64_t row = r0; row < r1; row++) {
            vf columns[TAPS][IN], u[IN], o[TAPS];
            float taps[TAPS * TAPS][GF_LANES];
            for (int s = 0; s < IN; s++) {
                for (int r = 0; r < IN; r++) u[r] = vf_load(du + (size_t)(r * IN + s) * plane + (size_t)(row * w->cols + j));
                gradient_line(o, u);
                for (int r = 0; r < TAPS; r++) columns[r][s] = o[r];
            }
            for (int r = 0; r < TAPS; r++) {
                gradient_line(o, columns[r]);
                for (int s = 0; s < TAPS; s++) vf_store(taps[r * TAPS + s], o[s]);
            }
            for (int i = 0; i < GF_LANES; i++)
                for (int k = 0; k < TAPS * TAPS; k++) w->data[row * w->row_step + (j + i) * w->col_step + k] = taps[k][i];
        }
}

/* ----- rows of tokens ------------------------------------------------------------------------------------------ */

/* Parts of rows. */

static vf load_rest(const void *p, int64_t count, gf_type t) {
    float wide[GF_LANES] = {0};
    for (int64_t i = 0; i < count; i++) wide[i] = load_number(p, i, t);
    return vf_load(wide);
}

static void store_rest(void *p, int64_t count, vf v, gf_type t) {
    float wide[GF_LANES];
    vf_store(wide, v);
    for (int64_t i = 0; i < count; i++) store_number(p, i, wide[i], t);
}

GF_INLINE const void *address_of(const void *p, int64_t i, gf_type t) {
    return (const char *)p + i * (t == GF_TYPE_BF16 ? 2 : 4);
}

/* Numbers i .. of an array that ends at `end`; zeros beyond. */
GF_INLINE vf load_part(const void *p, int64_t i, int64_t end, gf_type t) {
    const void *from = address_of(p, i, t);
    if (end - i < GF_LANES) return load_rest(from, end - i, t);
    return t == GF_TYPE_BF16 ? vf_load_bf16(from) : vf_load(from);
}

GF_INLINE void store_part(void *p, int64_t i, int64_t end, vf v, gf_type t) {
    void *to = (char *)p + i * (t == GF_TYPE_BF16 ? 2 : 4);
    if (end - i < GF_LANES) store_rest(to, end - i, v, t);
    else if (t == GF_TYPE_BF16) vf_store_bf16(to, v);
    else vf_store(to, v);
}

/* v with zeros from lane `left` on. */
GF_INLINE vf trim(vf v, int64_t left) {
    if (left >= GF_LANES) return v;
    float wide[GF_LANES];
    vf_store(wide, v);
    return load_rest(wide, left, GF_TYPE_F32);
}

#define EACH_VECTOR(i, count) for (int64_t i = 0; i < (count); i += GF_LANES)

/* Activations. */

GF_INLINE vf sigmoid(vf x) { return vf_set(1.0f) / vf_add(vf_set(1.0f), vf_exp(vf_sub(vf_set(0.0f), x))); }

/* erfc(x) for x >= 0, as t exp(-x^2 + polynomial in t), t = 1 / (1 + x / 2): a Chebyshev fit with relative error below 1.2e-7. */
GF_INLINE vf erfc_positive(vf x) {
    static const float c[] = {0.17087277f,  -0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f,
                              -0.18628806f, 0.09678418f,  0.37409196f, 1.00002368f,  -1.26551223f};
    const vf t = vf_set(1.0f) / vf_fma(vf_set(0.5f), x, vf_set(1.0f));
    vf p = vf_set(c[0]);
    for (int i = 1; i < 10; i++) p = vf_fma(p, t, vf_set(c[i]));
    return vf_mul(t, vf_exp(vf_sub(p, vf_mul(x, x))));
}

/* Phi(z), the normal distribution: the smaller tail is computed, the larger one is the rest of 1. */
GF_INLINE vf normal_below(vf z) {
    const vf zero = vf_set(0.0f), size = vf_max(z, vf_sub(zero, z));
    const vf small = vf_mul(vf_set(0.5f), erfc_positive(vf_mul(size, vf_set(0.70710678f))));
    return vf_pick(vm_lt(z, zero), small, vf_sub(vf_set(1.0f), small));
}

/* phi(z), its density. */
GF_INLINE vf normal_at(vf z) { return vf_mul(vf_set(0.39894228f), vf_exp(vf_mul(vf_set(-0.5f), vf_mul(z, z)))); }

/* NaN must reach the loss, but vf_exp hides it: z is a factor of everything below. */
GF_INLINE vf act_of(vf z, gf_nn_act act) {
    return vf_mul(z, act == GF_ACT_GELU ? normal_below(z) : sigmoid(vf_mul(vf_set(1.702f), z)));
}

GF_INLINE vf slope_of(vf z, gf_nn_act act) {
    if (act == GF_ACT_GELU) return vf_fma(z, normal_at(z), normal_below(z));
    const vf s = sigmoid(vf_mul(vf_set(1.702f), z));
    return vf_fma(vf_mul(vf_mul(vf_set(1.702f), z), s), vf_sub(vf_set(1.0f), s), s);
}

GF_INLINE void act_all(void *y, const void *z, int64_t count, gf_nn_act act, gf_type t) {
    EACH_VECTOR(i, count) store_part(y, i, count, act_of(load_part(z, i, count, t), act), t);
}

static void act_numbers(gf_nn_act act, gf_type type, void *y, const void *z, int64_t count) {
    if (act == GF_ACT_GELU) BY_TYPE(type, act_all, y, z, count, GF_ACT_GELU);
    else BY_TYPE(type, act_all, y, z, count, GF_ACT_QUICK_GELU);
}

GF_INLINE void act_back_all(void *g, const void *dy, const void *z, int64_t count, gf_nn_act act, gf_type t) {
    EACH_VECTOR(i, count)
    store_part(g, i, count, vf_mul(load_part(dy, i, count, t), slope_of(load_part(z, i, count, t), act)), t);
}

static void act_back_numbers(gf_nn_act act, gf_type type, void *g, const void *dy, const void *z, int64_t count) {
    if (act == GF_ACT_GELU) BY_TYPE(type, act_back_all, g, dy, z, count, GF_ACT_GELU);
    else BY_TYPE(type, act_back_all, g, dy, z, count, GF_ACT_QUICK_GELU);
}

/* Layer norm. */

GF_INLINE void layernorm_row(const gf_nn_args *a, const void *x, void *y, float *saved, int64_t c, gf_type t) {
    vf sum = vf_set(0.0f), square = vf_set(0.0f);
    EACH_VECTOR(i, c) sum = vf_add(sum, load_part(x, i, c, t));
    const float mean = vf_sum(sum) / (float)c;
    EACH_VECTOR(i, c) {
        const vf d = trim(vf_sub(load_part(x, i, c, t), vf_set(mean)), c - i);
        square = vf_fma(d, d, square);
    }
    const float rstd = 1.0f / sqrtf(vf_sum(square) / (float)c + (float)GF_NN_EPS);
    EACH_VECTOR(i, c) {
        const vf xhat = vf_mul(vf_sub(load_part(x, i, c, t), vf_set(mean)), vf_set(rstd));
        store_part(y, i, c, vf_fma(xhat, load_part(a->weight, i, c, GF_TYPE_F32), load_part(a->bias, i, c, GF_TYPE_F32)), t);
    }
    if (!saved) return;
    saved[0] = mean;
    saved[1] = rstd;
}

GF_INLINE void layernorm_rows(const gf_nn_args *a, int64_t c, int64_t r0, int64_t r1, gf_type t) {
    for (int64_t r = r0; r < r1; r++)
        layernorm_row(a, address_of(a->x, r * c, t), (void *)(uintptr_t)address_of(a->y, r * c, t),
                      a->saved ? (float *)a->saved + 2 * r : NULL, c, t);
}

static void layernorm(const gf_nn_shape *s, const gf_nn_args *a, int64_t r0, int64_t r1) {
    BY_TYPE(s->type, layernorm_rows, a, s->in, r0, r1);
}

/* u = dy weight, xhat = (x - mean) rstd:  dx = rstd (u - mean u - xhat mean(u xhat)) */
GF_INLINE void layernorm_back_row(float *partial, const gf_nn_args *a, int64_t r, int64_t c, gf_type t) {
    const float *saved = (const float *)a->saved + 2 * r;
    const void *x = address_of(a->x, r * c, t), *dy = address_of(a->dy, r * c, t);
    const vf mean = vf_set(saved[0]), rstd = vf_set(saved[1]);
    vf sum = vf_set(0.0f), product = vf_set(0.0f);
    EACH_VECTOR(i, c) {
        const vf xhat = vf_mul(vf_sub(load_part(x, i, c, t), mean), rstd), d = load_part(dy, i, c, t);
        const vf u = vf_mul(d, load_part(a->weight, i, c, GF_TYPE_F32));
        sum = vf_add(sum, u);
        product = vf_fma(u, xhat, product);
        store_part(partial, i, c, vf_fma(d, xhat, load_part(partial, i, c, GF_TYPE_F32)), GF_TYPE_F32);
        store_part(partial + c, i, c, vf_add(load_part(partial + c, i, c, GF_TYPE_F32), d), GF_TYPE_F32);
    }
    const vf mean_u = vf_set(vf_sum(sum) / (float)c), mean_p = vf_set(vf_sum(product) / (float)c);
    void *dx = (void *)(uintptr_t)address_of(a->dx, r * c, t);
    EACH_VECTOR(i, c) {
        const vf xhat = vf_mul(vf_sub(load_part(x, i, c, t), mean), rstd);
        const vf u = vf_mul(load_part(dy, i, c, t), load_part(a->weight, i, c, GF_TYPE_F32));
        const vf d = vf_mul(rstd, vf_sub(vf_sub(u, mean_u), vf_mul(xhat, mean_p)));
        store_part(dx, i, c, a->add_dx ? vf_add(d, load_part(dx, i, c, t)) : d, t);
    }
}

GF_INLINE void layernorm_back_rows(float *partial, const gf_nn_args *a, int64_t c, int64_t r0, int64_t r1, gf_type t) {
    for (int64_t r = r0; r < r1; r++) layernorm_back_row(partial, a, r, c, t);
}

static void layernorm_back(float *partial, const gf_nn_shape *s, const gf_nn_args *a, int64_t r0, int64_t r1) {
    memset(partial, 0, sizeof *partial * 2 * (size_t)s->in);
    BY_TYPE(s->type, layernorm_back_rows, partial, a, s->in, r0, r1);
}

/* Softmax. */

static void clear_numbers(float *p, int64_t from, int64_t to) {
    if (to > from) memset(p + from, 0, sizeof *p * (size_t)(to - from));
}

static float largest(const float *s, int64_t count) {
    vf top = vf_set(s[0]);
    int64_t i = 0;
    for (; i + GF_LANES <= count; i += GF_LANES) top = vf_max(vf_load(s + i), top);
    float best = vf_top(top);
    for (; i < count; i++) best = s[i] > best ? s[i] : best;
    return best;
}

static int64_t keys_seen(int64_t i, int64_t keys, int causal) { return causal && i + 1 < keys ? i + 1 : keys; }

/* A row with NaN becomes NaN: vf_exp would hide it, the sum of the scores does not. */
static void softmax(float *s, int64_t ld, int64_t rows, int64_t keys, int causal, float *lse) {
    for (int64_t r = 0; r < rows; r++) {
        float *row = s + r * ld;
        const int64_t n = keys_seen(r, keys, causal);
        const vf top = vf_set(largest(row, n));
        vf sum = vf_set(0.0f), plain = vf_set(0.0f);
        EACH_VECTOR(i, n) {
            const vf v = trim(vf_load(row + i), n - i), e = trim(vf_exp(vf_sub(v, top)), n - i);
            plain = vf_add(plain, vf_mul(v, vf_set(0.0f)));
            sum = vf_add(sum, e);
            vf_store(row + i, e);
        }
        const float total = vf_sum(sum) + vf_sum(plain), share = 1.0f / total;
        EACH_VECTOR(i, n) vf_store(row + i, vf_mul(vf_load(row + i), vf_set(share)));
        clear_numbers(row, (n + GF_LANES - 1) / GF_LANES * GF_LANES, ld);
        if (lse) lse[r] = top[0] + logf(total);
    }
}

static void softmax_back(float *s, float *dp, int64_t ld, int64_t rows, int64_t keys, int causal, const float *lse,
                         const float *d) {
    for (int64_t r = 0; r < rows; r++) {
        float *p = s + r * ld, *g = dp + r * ld;
        const int64_t n = keys_seen(r, keys, causal);
        EACH_VECTOR(i, n) {
            const vf e = trim(vf_exp(vf_sub(vf_load(p + i), vf_set(lse[r]))), n - i);
            vf_store(p + i, e);
            vf_store(g + i, trim(vf_mul(e, vf_sub(vf_load(g + i), vf_set(d[r]))), n - i));
        }
        clear_numbers(p, (n + GF_LANES - 1) / GF_LANES * GF_LANES, ld);
        clear_numbers(g, (n + GF_LANES - 1) / GF_LANES * GF_LANES, ld);
    }
}

/* Moving and mixing. */

GF_INLINE void gather_all(float *dst, int64_t to, const void *src, int64_t ld, int64_t rows, int64_t cols, float scale,
                          gf_type t) {
    for (int64_t r = 0; r < rows; r++) {
        const void *row = address_of(src, r * ld, t);
        EACH_VECTOR(i, cols) store_part(dst + r * to, i, cols, vf_mul(load_part(row, i, cols, t), vf_set(scale)), GF_TYPE_F32);
        clear_numbers(dst + r * to, cols, to);
    }
}

static void gather_rows(float *dst, int64_t to, gf_type type, const void *src, int64_t ld, int64_t rows, int64_t cols,
                        float scale) {
    BY_TYPE(type, gather_all, dst, to, src, ld, rows, cols, scale);
}

GF_INLINE void scatter_all(void *dst, int64_t ld, const float *src, int64_t from, int64_t rows, int64_t cols, float scale,
                           gf_type t) {
    for (int64_t r = 0; r < rows; r++) {
        void *row = (void *)(uintptr_t)address_of(dst, r * ld, t);
        EACH_VECTOR(i, cols) store_part(row, i, cols, vf_mul(load_part(src + r * from, i, cols, GF_TYPE_F32), vf_set(scale)), t);
    }
}

static void scatter_rows(gf_type type, void *dst, int64_t ld, const float *src, int64_t from, int64_t rows, int64_t cols,
                         float scale) {
    BY_TYPE(type, scatter_all, dst, ld, src, from, rows, cols, scale);
}

GF_INLINE void dots_all(float *d, const float *a, int64_t lda, const void *b, int64_t ldb, int64_t rows, int64_t cols,
                        float scale, gf_type t) {
    for (int64_t r = 0; r < rows; r++) {
        vf sum = vf_set(0.0f);
        const void *row = address_of(b, r * ldb, t);
        EACH_VECTOR(i, cols) sum = vf_fma(load_part(a + r * lda, i, cols, GF_TYPE_F32), load_part(row, i, cols, t), sum);
        d[r] = scale * vf_sum(sum);
    }
}

static void dot_rows(float *d, const float *a, int64_t lda, gf_type type, const void *b, int64_t ldb, int64_t rows, int64_t cols,
                     float scale) {
    BY_TYPE(type, dots_all, d, a, lda, b, ldb, rows, cols, scale);
}

GF_INLINE void mix_all(float *y, const float *w, const void *x, int64_t ld, int64_t rows, int64_t cols, gf_type t) {
    EACH_VECTOR(i, cols) {
        vf sum = vf_set(0.0f);
        for (int64_t r = 0; r < rows; r++) sum = vf_fma(vf_set(w[r]), load_part(address_of(x, r * ld, t), i, cols, t), sum);
        store_part(y, i, cols, sum, GF_TYPE_F32);
    }
}

static void mix_rows(float *y, const float *w, gf_type type, const void *x, int64_t ld, int64_t rows, int64_t cols) {
    BY_TYPE(type, mix_all, y, w, x, ld, rows, cols);
}

GF_INLINE void outer_all(void *x, int64_t ld, const float *w, const float *y, int64_t rows, int64_t cols, gf_type t) {
    for (int64_t r = 0; r < rows; r++) {
        void *row = (void *)(uintptr_t)address_of(x, r * ld, t);
        EACH_VECTOR(i, cols) store_part(row, i, cols, vf_mul(vf_set(w[r]), load_part(y, i, cols, GF_TYPE_F32)), t);
    }
}

static void outer_rows(gf_type type, void *x, int64_t ld, const float *w, const float *y, int64_t rows, int64_t cols) {
    BY_TYPE(type, outer_all, x, ld, w, y, rows, cols);
}

GF_INLINE void add_rows_all(void *y, const void *x, gf_type from, const float *b, int64_t count, gf_type t) {
    EACH_VECTOR(i, count) store_part(y, i, count, vf_add(load_part(x, i, count, from), load_part(b, i, count, GF_TYPE_F32)), t);
}

static void add_rows(gf_type to, void *y, gf_type from, const void *x, const float *b, int64_t count) {
    if (from == GF_TYPE_BF16) BY_TYPE(to, add_rows_all, y, x, GF_TYPE_BF16, b, count);
    else BY_TYPE(to, add_rows_all, y, x, GF_TYPE_F32, b, count);
}

static void add_to_sum(float *sum, gf_type type, const void *x, int64_t count) {
    add_rows(GF_TYPE_F32, sum, type, x, sum, count);
}

/* ----- the table ----------------------------------------------------------------------------------------------- */

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static const gf_norm_ops norm_ops = {.sums = norm_sums,
                                     .apply = norm_apply,
                                     .back_sums = norm_back_sums,
                                     .back_apply = norm_back_apply,
                                     .cast = cast_numbers,
                                     .add = add_numbers,
                                     .mean = mean_of_rows,
                                     .mean_back = mean_back_of_rows};

static const gf_wino_ops wino_ops = {
    .input = wino_input,
    .output = wino_output,
    .spread = wino_spread,
    .weights = wino_weights,
    .gradient = wino_gradient,
};

static const gf_row_ops row_ops = {
    .act = act_numbers,
    .act_back = act_back_numbers,
    .layernorm = layernorm,
    .layernorm_back = layernorm_back,
    .softmax = softmax,
    .softmax_back = softmax_back,
    .gather = gather_rows,
    .scatter = scatter_rows,
    .dots = dot_rows,
    .mix = mix_rows,
    .outer = outer_rows,
    .plus = add_rows,
    .add_to = add_to_sum,
};

extern const gf_net_kernels GF_NAME(gf_net_kernels);
const gf_net_kernels GF_NAME(gf_net_kernels) = {.isa = TEXT(GF_ISA), .norm = &norm_ops, .row = &row_ops, .wino = &wino_ops};
