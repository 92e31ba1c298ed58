/* token_kernels.c - kernels for rows of tokens; see token_kernels.h.
 *
 * Every kernel is one inlined body with the element type as a constant. `take` and `give` move a vector, or what is left of a
 * row.
 */
#include "cpu/kernels/simd.h"
#include "nn/cpu/kernels/net_kernels.h"

/* One call per type, with the type as a constant. */
#define BY_TYPE(type, f, ...)                                     \
    do {                                                          \
        if ((type) == GF_TYPE_BF16) f(__VA_ARGS__, GF_TYPE_BF16); \
        else f(__VA_ARGS__, GF_TYPE_F32);                         \
    } while (0)

/* ----- parts of rows ------------------------------------------------------------------------------------------------ */

static vf take_rest(const void *p, int64_t count, gf_type t) {
    float wide[GF_LANES] = {0};
    for (int64_t i = 0; i < count; i++)
        wide[i] = t == GF_TYPE_BF16 ? gf_bf16_to_float(((const uint16_t *)p)[i]) : ((const float *)p)[i];
    return vf_load(wide);
}

static void give_rest(void *p, int64_t count, vf v, gf_type t) {
    float wide[GF_LANES];
    vf_store(wide, v);
    for (int64_t i = 0; i < count; i++) {
        if (t == GF_TYPE_BF16) ((uint16_t *)p)[i] = gf_bf16_from_float(wide[i]);
        else ((float *)p)[i] = wide[i];
    }
}

GF_INLINE const void *at(const void *p, int64_t i, gf_type t) { return (const char *)p + i * (t == GF_TYPE_BF16 ? 2 : 4); }

/* Numbers i .. of an array that ends at `end`; zeros beyond. */
GF_INLINE vf take(const void *p, int64_t i, int64_t end, gf_type t) {
    const void *from = at(p, i, t);
    if (end - i < GF_LANES) return take_rest(from, end - i, t);
    return t == GF_TYPE_BF16 ? vf_load_bf16(from) : vf_load(from);
}

GF_INLINE void give(void *p, int64_t i, int64_t end, vf v, gf_type t) {
    void *to = (char *)p + i * (t == GF_TYPE_BF16 ? 2 : 4);
    if (end - i < GF_LANES) give_rest(to, end - i, v, t);
    else if (t == GF_TYPE_BF16) vf_store_bf16(to, v);
    else vf_store(to, v);
}

/* v with zeros from lane `left` on. */
GF_INLINE vf trim(vf v, int64_t left) {
    if (left >= GF_LANES) return v;
    float wide[GF_LANES];
    vf_store(wide, v);
    return take_rest(wide, left, GF_TYPE_F32);
}

#define EACH_VECTOR(i, count) for (int64_t i = 0; i < (count); i += GF_LANES)

/* ----- activations ------------------------------------------------------------------------------------------------- */

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
    EACH_VECTOR(i, count) give(y, i, count, act_of(take(z, i, count, t), act), t);
}

static void act_forward(gf_nn_act act, gf_type type, void *y, const void *z, int64_t count) {
    if (act == GF_ACT_GELU) BY_TYPE(type, act_all, y, z, count, GF_ACT_GELU);
    else BY_TYPE(type, act_all, y, z, count, GF_ACT_QUICK_GELU);
}

GF_INLINE void act_back_all(void *g, const void *dy, const void *z, int64_t count, gf_nn_act act, gf_type t) {
    EACH_VECTOR(i, count)
    give(g, i, count, vf_mul(take(dy, i, count, t), slope_of(take(z, i, count, t), act)), t);
}

static void act_back(gf_nn_act act, gf_type type, void *g, const void *dy, const void *z, int64_t count) {
    if (act == GF_ACT_GELU) BY_TYPE(type, act_back_all, g, dy, z, count, GF_ACT_GELU);
    else BY_TYPE(type, act_back_all, g, dy, z, count, GF_ACT_QUICK_GELU);
}

/* ----- layer norm -------------------------------------------------------------------------------------------------- */

GF_INLINE void layernorm_row(const gf_nn_args *a, const void *x, void *y, float *saved, int64_t c, gf_type t) {
    vf sum = vf_set(0.0f), square = vf_set(0.0f);
    EACH_VECTOR(i, c) sum = vf_add(sum, take(x, i, c, t));
    const float mean = vf_sum(sum) / (float)c;
    EACH_VECTOR(i, c) {
        const vf d = trim(vf_sub(take(x, i, c, t), vf_set(mean)), c - i);
        square = vf_fma(d, d, square);
    }
    const float rstd = 1.0f / sqrtf(vf_sum(square) / (float)c + (float)GF_NN_EPS);
    EACH_VECTOR(i, c) {
        const vf xhat = vf_mul(vf_sub(take(x, i, c, t), vf_set(mean)), vf_set(rstd));
        give(y, i, c, vf_fma(xhat, take(a->weight, i, c, GF_TYPE_F32), take(a->bias, i, c, GF_TYPE_F32)), t);
    }
    if (!saved) return;
    saved[0] = mean;
    saved[1] = rstd;
}

GF_INLINE void layernorm_rows(const gf_nn_args *a, int64_t c, int64_t r0, int64_t r1, gf_type t) {
    for (int64_t r = r0; r < r1; r++)
        layernorm_row(a, at(a->x, r * c, t), (void *)(uintptr_t)at(a->y, r * c, t), a->saved ? (float *)a->saved + 2 * r : NULL,
                      c, t);
}

static void layernorm(const gf_nn_shape *s, const gf_nn_args *a, int64_t r0, int64_t r1) {
    BY_TYPE(s->type, layernorm_rows, a, s->in, r0, r1);
}

/* u = dy weight, xhat = (x - mean) rstd:  dx = rstd (u - mean u - xhat mean(u xhat)) */
GF_INLINE void layernorm_back_row(float *partial, const gf_nn_args *a, int64_t r, int64_t c, gf_type t) {
    const float *saved = (const float *)a->saved + 2 * r;
    const void *x = at(a->x, r * c, t), *dy = at(a->dy, r * c, t);
    const vf mean = vf_set(saved[0]), rstd = vf_set(saved[1]);
    vf sum = vf_set(0.0f), product = vf_set(0.0f);
    EACH_VECTOR(i, c) {
        const vf xhat = vf_mul(vf_sub(take(x, i, c, t), mean), rstd), d = take(dy, i, c, t);
        const vf u = vf_mul(d, take(a->weight, i, c, GF_TYPE_F32));
        sum = vf_add(sum, u);
        product = vf_fma(u, xhat, product);
        give(partial, i, c, vf_fma(d, xhat, take(partial, i, c, GF_TYPE_F32)), GF_TYPE_F32);
        give(partial + c, i, c, vf_add(take(partial + c, i, c, GF_TYPE_F32), d), GF_TYPE_F32);
    }
    const vf mean_u = vf_set(vf_sum(sum) / (float)c), mean_p = vf_set(vf_sum(product) / (float)c);
    void *dx = (void *)(uintptr_t)at(a->dx, r * c, t);
    EACH_VECTOR(i, c) {
        const vf xhat = vf_mul(vf_sub(take(x, i, c, t), mean), rstd);
        const vf u = vf_mul(take(dy, i, c, t), take(a->weight, i, c, GF_TYPE_F32));
        const vf d = vf_mul(rstd, vf_sub(vf_sub(u, mean_u), vf_mul(xhat, mean_p)));
        give(dx, i, c, a->add_dx ? vf_add(d, take(dx, i, c, t)) : d, t);
    }
}

GF_INLINE void layernorm_back_rows(float *partial, const gf_nn_args *a, int64_t c, int64_t r0, int64_t r1, gf_type t) {
    for (int64_t r = r0; r < r1; r++) layernorm_back_row(partial, a, r, c, t);
}

static void layernorm_back(float *partial, const gf_nn_shape *s, const gf_nn_args *a, int64_t r0, int64_t r1) {
    memset(partial, 0, sizeof *partial * 2 * (size_t)s->in);
    BY_TYPE(s->type, layernorm_back_rows, partial, a, s->in, r0, r1);
}

/* ----- softmax ----------------------------------------------------------------------------------------------------- */

static void clear(float *p, int64_t from, int64_t to) {
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

static int64_t seen(int64_t i, int64_t keys, int causal) { return causal && i + 1 < keys ? i + 1 : keys; }

/* A row with NaN becomes NaN: vf_exp would hide it, the sum of the scores does not. */
static void softmax(float *s, int64_t ld, int64_t rows, int64_t keys, int causal, float *lse) {
    for (int64_t r = 0; r < rows; r++) {
        float *row = s + r * ld;
        const int64_t n = seen(r, keys, causal);
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
        clear(row, (n + GF_LANES - 1) / GF_LANES * GF_LANES, ld);
        if (lse) lse[r] = top[0] + logf(total);
    }
}

static void softmax_back(float *s, float *dp, int64_t ld, int64_t rows, int64_t keys, int causal, const float *lse,
                         const float *d) {
    for (int64_t r = 0; r < rows; r++) {
        float *p = s + r * ld, *g = dp + r * ld;
        const int64_t n = seen(r, keys, causal);
        EACH_VECTOR(i, n) {
            const vf e = trim(vf_exp(vf_sub(vf_load(p + i), vf_set(lse[r]))), n - i);
            vf_store(p + i, e);
            vf_store(g + i, trim(vf_mul(e, vf_sub(vf_load(g + i), vf_set(d[r]))), n - i));
        }
        clear(p, (n + GF_LANES - 1) / GF_LANES * GF_LANES, ld);
        clear(g, (n + GF_LANES - 1) / GF_LANES * GF_LANES, ld);
    }
}

/* ----- moving and mixing ------------------------------------------------------------------------------------------- */

GF_INLINE void gather_all(float *dst, int64_t to, const void *src, int64_t ld, int64_t rows, int64_t cols, float scale,
                          gf_type t) {
    for (int64_t r = 0; r < rows; r++) {
        const void *row = at(src, r * ld, t);
        EACH_VECTOR(i, cols) give(dst + r * to, i, cols, vf_mul(take(row, i, cols, t), vf_set(scale)), GF_TYPE_F32);
        clear(dst + r * to, cols, to);
    }
}

static void gather(float *dst, int64_t to, gf_type type, const void *src, int64_t ld, int64_t rows, int64_t cols, float scale) {
    BY_TYPE(type, gather_all, dst, to, src, ld, rows, cols, scale);
}

GF_INLINE void scatter_all(void *dst, int64_t ld, const float *src, int64_t from, int64_t rows, int64_t cols, float scale,
                           gf_type t) {
    for (int64_t r = 0; r < rows; r++) {
        void *row = (void *)(uintptr_t)at(dst, r * ld, t);
        EACH_VECTOR(i, cols) give(row, i, cols, vf_mul(take(src + r * from, i, cols, GF_TYPE_F32), vf_set(scale)), t);
    }
}

static void scatter(gf_type type, void *dst, int64_t ld, const float *src, int64_t from, int64_t rows, int64_t cols,
                    float scale) {
    BY_TYPE(type, scatter_all, dst, ld, src, from, rows, cols, scale);
}

GF_INLINE void dots_all(float *d, const float *a, int64_t lda, const void *b, int64_t ldb, int64_t rows, int64_t cols,
                        float scale, gf_type t) {
    for (int64_t r = 0; r < rows; r++) {
        vf sum = vf_set(0.0f);
        const void *row = at(b, r * ldb, t);
        EACH_VECTOR(i, cols) sum = vf_fma(take(a + r * lda, i, cols, GF_TYPE_F32), take(row, i, cols, t), sum);
        d[r] = scale * vf_sum(sum);
    }
}

static void dots(float *d, const float *a, int64_t lda, gf_type type, const void *b, int64_t ldb, int64_t rows, int64_t cols,
                 float scale) {
    BY_TYPE(type, dots_all, d, a, lda, b, ldb, rows, cols, scale);
}

GF_INLINE void mix_all(float *y, const float *w, const void *x, int64_t ld, int64_t rows, int64_t cols, gf_type t) {
    EACH_VECTOR(i, cols) {
        vf sum = vf_set(0.0f);
        for (int64_t r = 0; r < rows; r++) sum = vf_fma(vf_set(w[r]), take(at(x, r * ld, t), i, cols, t), sum);
        give(y, i, cols, sum, GF_TYPE_F32);
    }
}

static void mix(float *y, const float *w, gf_type type, const void *x, int64_t ld, int64_t rows, int64_t cols) {
    BY_TYPE(type, mix_all, y, w, x, ld, rows, cols);
}

GF_INLINE void outer_all(void *x, int64_t ld, const float *w, const float *y, int64_t rows, int64_t cols, gf_type t) {
    for (int64_t r = 0; r < rows; r++) {
        void *row = (void *)(uintptr_t)at(x, r * ld, t);
        EACH_VECTOR(i, cols) give(row, i, cols, vf_mul(vf_set(w[r]), take(y, i, cols, GF_TYPE_F32)), t);
    }
}

static void outer(gf_type type, void *x, int64_t ld, const float *w, const float *y, int64_t rows, int64_t cols) {
    BY_TYPE(type, outer_all, x, ld, w, y, rows, cols);
}

GF_INLINE void plus_all(void *y, const void *x, gf_type from, const float *b, int64_t count, gf_type t) {
    EACH_VECTOR(i, count) give(y, i, count, vf_add(take(x, i, count, from), take(b, i, count, GF_TYPE_F32)), t);
}

static void plus(gf_type to, void *y, gf_type from, const void *x, const float *b, int64_t count) {
    if (from == GF_TYPE_BF16) BY_TYPE(to, plus_all, y, x, GF_TYPE_BF16, b, count);
    else BY_TYPE(to, plus_all, y, x, GF_TYPE_F32, b, count);
}

static void add_to(float *sum, gf_type type, const void *x, int64_t count) { plus(GF_TYPE_F32, sum, type, x, sum, count); }

extern const gf_row_ops GF_NAME(gf_row_ops);

const gf_row_ops GF_NAME(gf_row_ops) = {
    .act = act_forward,
    .act_back = act_back,
    .layernorm = layernorm,
    .layernorm_back = layernorm_back,
    .softmax = softmax,
    .softmax_back = softmax_back,
    .gather = gather,
    .scatter = scatter,
    .dots = dots,
    .mix = mix,
    .outer = outer,
    .plus = plus,
    .add_to = add_to,
};
