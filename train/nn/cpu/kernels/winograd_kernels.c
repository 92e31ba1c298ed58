/* winograd_kernels.c - transforms of short convolutions; see winograd_kernels.h. One vector of channels at a time: first the six
 * (or four) columns of the tile, then the rows of what came out. Pairs of points +-p share their even and odd parts.
 */
#include "cpu/kernels/simd.h"
#include "nn/cpu/kernels/net_kernels.h"

#define IN 6 /* inputs of a tile in one direction */
#define OUT GF_WINO_OUT
#define TAPS 3

#define P 0.75f /* the points: 0, P, -P, Q, -Q, infinity */
#define Q 1.5f
#define P2 (P * P)
#define Q2 (Q * Q)

GF_INLINE vf load(const void *p, int64_t i, gf_type t) {
    return t == GF_TYPE_BF16 ? vf_load_bf16((const uint16_t *)p + i) : vf_load((const float *)p + i);
}

GF_INLINE void store(void *p, int64_t i, vf v, gf_type t) {
    if (t == GF_TYPE_BF16) vf_store_bf16((uint16_t *)p + i, v);
    else vf_store((float *)p + i, v);
}

GF_INLINE vf times(float a, vf b) { return vf_mul(vf_set(a), b); }
GF_INLINE vf plus(vf a, float b, vf c) { return vf_fma(vf_set(b), c, a); } /* a + b c */

/* ----- one direction ----------------------------------------------------------------------------------------------- */

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

/* ----- tiles ------------------------------------------------------------------------------------------------------- */

GF_INLINE int64_t channel_at(const gf_wino_planes *p, int64_t c) { return c / GF_PANEL * (int64_t)p->panel + c % GF_PANEL; }

/* Address of pixel (y, x); NULL outside of the image. */
GF_INLINE const char *pixel(const gf_wino_image *m, int64_t y, int64_t x) {
    const int inside = y >= 0 && y < m->h && x >= 0 && x < m->w;
    return inside ? (const char *)m->data + (size_t)((y * m->w + x) * m->c) * gf_type_bytes(m->type) : NULL;
}

/* Loads size x size pixels from (y, x) on and transforms them to 6 x 6 numbers. */
GF_INLINE void to_planes(const gf_wino_planes *to, const gf_wino_image *from, int64_t y, int64_t x, int size, gf_type t) {
    const char *at[IN * IN];
    for (int i = 0; i < size * size; i++) at[i] = pixel(from, y + i / size, x + i % size);
    for (int64_t c = 0; c < from->c; c += GF_LANES) {
        vf columns[IN][IN], d[IN], o[IN];
        for (int s = 0; s < size; s++) {
            for (int r = 0; r < size; r++) d[r] = at[r * size + s] ? load(at[r * size + s], c, t) : vf_set(0.0f);
            if (size == IN) input_line(o, d);
            else spread_line(o, d);
            for (int r = 0; r < IN; r++) columns[r][s] = o[r];
        }
        float *out = to->data + channel_at(to, c);
        for (int r = 0; r < IN; r++) {
            if (size == IN) input_line(o, columns[r]);
            else spread_line(o, columns[r]);
            for (int s = 0; s < IN; s++) vf_store(out + (size_t)(r * IN + s) * to->plane, o[s]);
        }
    }
}

static void input(const gf_wino_planes *to, const gf_wino_image *from, int64_t y, int64_t x) {
    if (from->type == GF_TYPE_BF16) to_planes(to, from, y - 1, x - 1, IN, GF_TYPE_BF16);
    else to_planes(to, from, y - 1, x - 1, IN, GF_TYPE_F32);
}

static void spread(const gf_wino_planes *to, const gf_wino_image *from, int64_t y, int64_t x) {
    if (from->type == GF_TYPE_BF16) to_planes(to, from, y, x, OUT, GF_TYPE_BF16);
    else to_planes(to, from, y, x, OUT, GF_TYPE_F32);
}

GF_INLINE void from_planes(const gf_wino_image *to, const gf_wino_planes *from, int64_t y, int64_t x, gf_type t) {
    const int64_t rows = to->h - y < OUT ? to->h - y : OUT, cols = to->w - x < OUT ? to->w - x : OUT;
    char *first = (char *)to->data + (size_t)((y * to->w + x) * to->c) * gf_type_bytes(t);
    for (int64_t c = 0; c < to->c; c += GF_LANES) {
        vf columns[OUT][IN], m[IN], o[OUT];
        const float *in = from->data + channel_at(from, c);
        for (int s = 0; s < IN; s++) {
            for (int r = 0; r < IN; r++) m[r] = vf_load(in + (size_t)(r * IN + s) * from->plane);
            output_line(o, m);
            for (int r = 0; r < OUT; r++) columns[r][s] = o[r];
        }
        for (int r = 0; r < OUT; r++) {
            output_line(o, columns[r]);
            for (int s = 0; s < OUT; s++)
                if (r < rows && s < cols) store(first, (r * to->w + s) * to->c + c, o[s], t);
        }
    }
}

static void output(const gf_wino_image *to, const gf_wino_planes *from, int64_t y, int64_t x) {
    if (to->type == GF_TYPE_BF16) from_planes(to, from, y, x, GF_TYPE_BF16);
    else from_planes(to, from, y, x, GF_TYPE_F32);
}

/* ----- weights ----------------------------------------------------------------------------------------------------- */

/* One row, one vector of columns, from and to the taps of [out][in][3][3]. */
GF_INLINE void taps_load(vf g[TAPS][TAPS], const gf_wino_weights *w, int64_t row, int64_t col) {
    float taps[TAPS * TAPS][GF_LANES];
    for (int i = 0; i < GF_LANES; i++) {
        const float *from = w->data + row * w->row_step + (col + i) * w->col_step;
        for (int k = 0; k < TAPS * TAPS; k++) taps[k][i] = from[w->turned ? TAPS * TAPS - 1 - k : k];
    }
    for (int k = 0; k < TAPS * TAPS; k++) g[k / TAPS][k % TAPS] = vf_load(taps[k]);
}

GF_INLINE void weights_of(float *u, const gf_wino_weights *w, int64_t row, int64_t col) {
    const size_t plane = (size_t)(w->rows * w->cols);
    vf g[TAPS][TAPS], columns[IN][TAPS], d[TAPS], o[IN];
    taps_load(g, w, row, col);
    for (int s = 0; s < TAPS; s++) {
        for (int r = 0; r < TAPS; r++) d[r] = g[r][s];
        weight_line(o, d);
        for (int r = 0; r < IN; r++) columns[r][s] = o[r];
    }
    for (int r = 0; r < IN; r++) {
        weight_line(o, columns[r]);
        for (int s = 0; s < IN; s++) vf_store(u + (size_t)(r * IN + s) * plane, o[s]);
    }
}

static void weights(float *u, const gf_wino_weights *w, int64_t panel, int64_t r0, int64_t r1) {
    for (int64_t row = r0; row < r1; row++)
        for (int64_t j = 0; j < GF_PANEL; j += GF_LANES)
            weights_of(u + (panel * w->rows + row) * GF_PANEL + j, w, row, panel * GF_PANEL + j);
}

static void gradient(const gf_wino_weights *w, const float *du, int64_t panel, int64_t r0, int64_t r1) {
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

extern const gf_wino_ops GF_NAME(gf_wino_ops);

const gf_wino_ops GF_NAME(gf_wino_ops) = {
    .input = input,
    .output = output,
    .spread = spread,
    .weights = weights,
    .gradient = gradient,
};
