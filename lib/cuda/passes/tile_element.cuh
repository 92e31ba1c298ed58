/* tile_element.cuh - operations on one similarity: decisions and sums of pass B, weights of pass C.
 *
 * The flags are an argument everywhere: a constant in kernels for one set of flags, where the branches fold, a variable in the
 * general ones (gf_flags_of). `Exp` computes exponentials (gf_exp_exact, gf_exp_fast).
 */
#pragma once

#include <math_constants.h>

#include "cuda/passes/cuda_kernels.cuh"

/* of(scale x) = exp(x): factors of S are scaled once, where they are read. */
struct gf_exp_exact {
    static constexpr float scale = 1.0f;
    static __device__ __forceinline__ float of(float x) { return expf(x); }
};

struct gf_exp_fast { /* one instruction, 2 ulp more */
    static constexpr float scale = 1.4426950408889634f;
    static __device__ __forceinline__ float of(float x) {
        float y;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    }
};

/* GF_SIGMOID: log(1 + exp(x)) and its slope, the sigmoid. `scaled`: x times Exp::scale. */
struct gf_softplus_at {
    float value, slope;
};

template <class Exp> __device__ __forceinline__ gf_softplus_at gf_softplus_of(float scaled) {
    const float e = Exp::of(-fabsf(scaled));
    const gf_softplus_at y = {fmaxf(scaled, 0.0f) / Exp::scale + log1pf(e), (scaled < 0.0f ? e : 1.0f) / (1.0f + e)};
    return y;
}

template <class Exp> __device__ __forceinline__ float gf_bias_of(const gf_tile_args &a, unsigned flags) {
    return flags & GF_SIGMOID ? (a.bias_at ? *a.bias_at : a.bias) * Exp::scale : 0.0f;
}

/* ---- pass B ---- */

struct gf_row_view { /* numbers of a row for stats */
    float k, lo;     /* k: scaled 1/tau */
    float bias;      /* GF_SIGMOID, scaled */
    int group, tie;
    int row; /* GF_MARKS; -1 past the end */
};

template <class T> struct gf_row_sums { /* of a row, over the columns of one thread */
    T sum, moment, flagged;             /* flagged: of S; GF_SIGMOID: of slopes */
    float top;                          /* GF_SHIFT: largest S summed so far; exponents are relative to it */
    int kept;                           /* GF_ABOVE: above */
};

template <class T> __device__ __forceinline__ gf_row_sums<T> gf_no_sums() { return {T(0), T(0), T(0), -CUDART_INF_F, 0}; }

/* Rows past the end keep everything. */
template <class Exp> __device__ __forceinline__ gf_row_view gf_view_row(const gf_tile_args &a, unsigned flags, int r) {
    gf_row_view x = {0.0f, CUDART_INF_F, 0.0f, -1, -1, -1};
    if (r >= a.q.rows) return x;
    if (flags & GF_ABOVE) {
        x.lo = a.row.mid[r];
        return x;
    }
    x.k = a.row.inv_tau[r] * Exp::scale;
    x.bias = gf_bias_of<Exp>(a, flags);
    if (!(flags & GF_COUNT)) return x;
    if (a.row.lo) x.lo = a.row.lo[r];
    if (flags & GF_GROUP && a.row.group) x.group = a.row.group[r];
    if (flags & GF_TIE) x.tie = a.row.tie[r];
    if (flags & GF_MARKS) x.row = r;
    return x;
}

/* The bit of row r and column c; r is a row of the pass, c a column. */
__device__ __forceinline__ bool gf_marked(const uint32_t *marks, int64_t ld, int r, int c) {
    return marks[r * ld + (c >> 5)] >> (c & 31) & 1;
}

/* True if the row's anchor keeps the pair. v is NaN where there is no pair, so that every comparison is false, here and in all of
 * pass B below. */
__device__ __forceinline__ bool gf_row_keeps(const gf_tile_args &a, unsigned flags, const gf_row_view &x, float v, float score,
                                             int c) {
    const bool pair = v == v;
    if (!(flags & GF_COUNT)) return pair;
    if (flags & GF_MARKS) return pair && !(x.row >= 0 && gf_marked(a.row.marks, a.row.marks_ld, x.row, c));
    const bool keep = flags & GF_TIE ? pair && (score < x.lo || (score == x.lo && c > x.tie)) : v <= x.lo;
    return keep && !(flags & GF_GROUP && x.group >= 0 && a.col.group[c] == x.group);
}

/* Factor of the pair in the sum. */
__device__ __forceinline__ float gf_share(unsigned flags, float omega, bool keep, bool pair) {
    if (!(flags & GF_MASK)) return pair ? 1.0f : 0.0f;
    return keep ? 1.0f : flags & GF_WEIGHT && pair ? omega : 0.0f;
}

/* Raises the peak to the largest of the N entries that are summed, and rescales the earlier sums. */
template <class Exp, int N, class T, class V, class Score, class Col>
__device__ __forceinline__ void gf_raise_peak(const gf_tile_args &a, unsigned flags, const gf_row_view &x, gf_row_sums<T> &t, V v,
                                              Score score, Col col) {
    float top = t.top;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const bool keep = gf_row_keeps(a, flags, x, v(i), score(i), col(i));
        if (gf_share(flags, 1.0f, keep, v(i) == v(i)) > 0.0f) top = fmaxf(top, v(i));
    }
    if (!(top > t.top)) return;
    const T scale = T(Exp::of(x.k * (t.top - top))); /* 0 at first: the sums are 0, too */
    t.sum *= scale, t.moment *= scale;
    t.top = top;
}

/* Adds N similarities of one row to the thread's sums. v(i), score(i), col(i): the i-th value, its score, its column. */
template <class Exp, int N, class T, class V, class Score, class Col>
__device__ __forceinline__ void gf_sum_row(const gf_tile_args &a, unsigned flags, const gf_row_view &x, gf_row_sums<T> &t, V v,
                                           Score score, Col col) {
    if (flags & GF_SHIFT) gf_raise_peak<Exp, N>(a, flags, x, t, v, score, col);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const bool pair = v(i) == v(i), keep = gf_row_keeps(a, flags, x, v(i), score(i), col(i));
        const float share = gf_share(flags, a.omega, keep, pair);
        if (flags & GF_SIGMOID) {
            const float s = pair ? v(i) : 0.0f, z = fmaf(x.k, s, x.bias),
                        pulled = flags & GF_ATTRACT && pair && !keep ? 1.0f : 0.0f;
            const gf_softplus_at y = gf_softplus_of<Exp>(z);
            const float slope = share * y.slope - pulled;
            t.sum += T(share * y.value - pulled * (z / Exp::scale));
            t.moment += T(slope) * T(s);
            t.flagged += T(slope);
            t.kept += keep ? 1 : 0;
            continue;
        }
        const float e = Exp::of(x.k * (flags & GF_SHIFT ? v(i) - t.top : v(i)));
        const float term = share == 0.0f ? 0.0f : share == 1.0f ? e : share * e;
        t.sum += T(term);
        if (flags & GF_MOMENT) t.moment += T(term) * T(pair ? v(i) : 0.0f);
        if (flags & GF_ATTRACT) t.flagged += T(pair && !keep ? v(i) : 0.0f);
        t.kept += keep ? 1 : 0;
    }
}

#define GF_NO_PAIR (-1e30f) /* exp of it is 0, and so is their product */

/* The same for the sets of flags that matter most: none, or GF_MASK and GF_COUNT (no pair: NaN), each with or without GF_MOMENT.
 * No pair without GF_MASK: GF_NO_PAIR, or -inf without GF_MOMENT. */
template <class Exp, int N, unsigned FLAGS, class T, class V>
__device__ __forceinline__ void gf_sum_row_plain(const gf_row_view &x, gf_row_sums<T> &t, V v) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float e = Exp::of(x.k * v(i));
        if (!(FLAGS & GF_MASK) || v(i) <= x.lo) {
            t.sum += T(e);
            if (FLAGS & GF_MOMENT) t.moment += T(e) * T(v(i));
            if (FLAGS & GF_MASK) t.kept++;
        }
    }
}

/* Only counts the pairs above. */
template <int N, class T, class V> __device__ __forceinline__ void gf_count_row(const gf_row_view &x, gf_row_sums<T> &t, V v) {
#pragma unroll
    for (int i = 0; i < N; i++) t.kept += v(i) > x.lo ? 1 : 0;
}

/* Writes row r, after the sums of its threads have been joined. */
template <class T>
__device__ __forceinline__ void gf_write_sums(const gf_tile_args &a, unsigned flags, int r, const gf_row_sums<T> &t) {
    const gf_cuda_rows &x = a.row;
    if (flags & GF_ABOVE) {
        x.above[r] = t.kept;
        return;
    }
    x.sum[r] = double(t.sum);
    if (x.peak) x.peak[r] = flags & GF_SHIFT ? t.top * x.inv_tau[r] : 0.0f;
    if (flags & GF_MOMENT) x.moment[r] = double(t.moment);
    if (flags & (GF_ATTRACT | GF_SIGMOID)) x.flagged_s[r] = double(t.flagged);
    if (flags & GF_COUNT) x.kept[r] = t.kept;
}

/* t += u: sums of two threads for one row. */
template <class Exp, class T>
__device__ __forceinline__ void gf_join_sums(unsigned flags, float k, gf_row_sums<T> &t, const gf_row_sums<T> &u) {
    T here = T(1), there = T(1);
    if (flags & GF_SHIFT) {
        const float top = fmaxf(t.top, u.top);
        here = t.top == top ? T(1) : T(Exp::of(k * (t.top - top)));
        there = u.top == top ? T(1) : T(Exp::of(k * (u.top - top)));
        t.top = top;
    }
    t.sum = t.sum * here + u.sum * there;
    t.moment = t.moment * here + u.moment * there;
    t.flagged += u.flagged;
    t.kept += u.kept;
}

/* Joins the sums of the thread `lanes` apart (xor). Both threads get the same bits: the sums commute. */
template <class Exp, class T>
__device__ __forceinline__ void gf_join_lanes(unsigned flags, float k, gf_row_sums<T> &t, int lanes) {
    const unsigned all = 0xffffffffu;
    gf_row_sums<T> u;
    u.sum = __shfl_xor_sync(all, t.sum, lanes), u.moment = __shfl_xor_sync(all, t.moment, lanes);
    u.flagged = __shfl_xor_sync(all, t.flagged, lanes), u.top = __shfl_xor_sync(all, t.top, lanes);
    u.kept = __shfl_xor_sync(all, t.kept, lanes);
    gf_join_sums<Exp>(flags, k, t, u);
}

/* ---- pass C ---- */

struct gf_weight_view {                    /* numbers of an anchor for grad: a row's or a column's */
    float k, log_w, theta, floor, attract; /* k, log_w scaled */
    int group, tie, label;
};

template <class Exp>
__device__ __forceinline__ gf_weight_view gf_view_weights(const gf_cuda_rows &x, unsigned flags, int i, int rows) {
    gf_weight_view w = {0.0f, -CUDART_INF_F, CUDART_INF_F, -CUDART_INF_F, 0.0f, -1, -1, -1};
    if (i >= rows) return w;
    w.k = x.inv_tau[i] * Exp::scale, w.log_w = x.log_w[i] * Exp::scale;
    if (x.theta) w.theta = x.theta[i];
    if (x.floor) w.floor = x.floor[i];
    if (flags & (GF_ATTRACT | GF_SIGMOID)) w.attract = x.attract[i];
    if (flags & GF_GROUP && x.group) w.group = x.group[i];
    if (flags & GF_TIE) w.tie = x.tie[i];
    if (flags & GF_QUALITY && x.label) w.label = x.label[i];
    return w;
}

/* A column's anchor. Without col_role it gives no weight, only its group and label. */
template <class Exp> __device__ __forceinline__ gf_weight_view gf_view_column(const gf_tile_args &a, unsigned flags, int c) {
    gf_weight_view y = gf_view_weights<Exp>(a.col, flags, c, a.col_role ? a.k.rows : 0);
    if (a.col_role || c >= a.k.rows) return y;
    if (flags & GF_GROUP && a.col.group) y.group = a.col.group[c];
    if (flags & GF_QUALITY && a.col.label) y.label = a.col.label[c];
    return y;
}

/* True if the anchor with view x keeps the pair. `at`: position of the other end of the pair, which breaks ties; marked: with
 * GF_MARKS, its bit. v NaN: no pair. */
__device__ __forceinline__ bool gf_keeps(unsigned flags, const gf_weight_view &x, float v, float score, int at, int other_group,
                                         bool marked) {
    bool keep = flags & GF_TIE ? score < x.theta || (score == x.theta && at > x.tie) : v <= x.theta;
    if (flags & GF_MARKS) keep = !marked;
    if (flags & GF_GROUP && x.group >= 0 && x.group == other_group) keep = false;
    return v == v && (keep || v <= x.floor);
}

template <class Exp>
__device__ __forceinline__ float gf_weigh(unsigned flags, float omega, const gf_weight_view &x, bool keep, float v) {
    const bool pair = v == v;
    const float z = fmaf(v, x.k, x.log_w), e = flags & GF_SIGMOID ? x.attract * gf_softplus_of<Exp>(z).slope : Exp::of(z);
    float p = keep ? e : 0.0f;
    if (flags & GF_WEIGHT && pair && !keep) p = e * omega;
    if (flags & GF_ATTRACT && pair && !keep) p -= x.attract;
    return p;
}

struct gf_colsum { /* sums of one thread for a row: GF_COLSUM, GF_QUALITY */
    double sum, moment;
    int same, hits;
};

/* P of one pair, 0 for NaN; x is the row's anchor, y the column's. */
template <class Exp>
__device__ __forceinline__ float gf_pair_weight(const gf_tile_args &a, unsigned flags, const gf_weight_view &x,
                                                const gf_weight_view &y, int r, int c, float v, float score, float col_score,
                                                gf_colsum &t) {
    const bool pair = v == v, has_marks = flags & GF_MARKS && pair && r < a.q.rows; /* rows past the end need not be NaN */
    const bool keep = gf_keeps(flags, x, v, score, c, y.group, has_marks && gf_marked(a.row.marks, a.row.marks_ld, r, c));
    float p = gf_weigh<Exp>(flags, a.omega, x, keep, v);
    if (a.col_role) {
        const bool col_keep =
            gf_keeps(flags, y, v, col_score, a.q0 + r, x.group, has_marks && gf_marked(a.row.marks_col, a.row.marks_ld, r, c));
        const float q = gf_weigh<Exp>(flags, a.omega, y, col_keep, v);
        p += q;
        if (flags & GF_COLSUM) {
            t.sum += double(q);
            if (pair) t.moment += double(q) * double(v - a.col.align[c]);
        }
    }
    if (flags & GF_QUALITY && pair && x.label >= 0 && x.label == y.label) {
        t.same++;
        t.hits += !keep;
    }
    return p;
}
