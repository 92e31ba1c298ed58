/* tile_stats.c - pass B on one tile: sums, counts and window lists of each anchor.
 *
 * lambda is not updated yet, but its new value lies in (lo, hi]: entries at or below lo are kept in any case, entries above hi
 * are flagged, and the few in between go to a list that is decided when the new lambda is known.
 */
#include "cpu/kernels/simd.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/tile_names.h"

static void window_push(const gf_rows *x, int64_t i, float s, int64_t cap) {
    const int32_t n = x->window_n[i]++;
    if (n < cap) x->window[i * cap + n] = s;
    x->window_le[i] += s <= x->mid[i];
}

static void window_push_row(const gf_rows *row, int64_t i, const float *s, unsigned bits, int64_t cap) {
    for (; bits; bits &= bits - 1) window_push(row, i, s[__builtin_ctz(bits)], cap);
}

static void window_push_cols(const gf_rows *col, int64_t c, const float *s, unsigned bits, int64_t cap) {
    for (; bits; bits &= bits - 1) {
        const int lane = __builtin_ctz(bits);
        window_push(col, c + lane, s[lane], cap);
    }
}

/* ---- both roles, one exponential: exp(S/tau) fits in float and tau is the same everywhere ---- */

GF_INLINE float plain_row(const gf_tile *t, int r, vf k, gf_tile_scratch *x) {
    const float *s = t->s + r * t->ld;
    vf acc = vf_set(0.0f);
    for (int c = 0; c < t->pcols; c += GF_LANES) {
        const vf v = vf_load(s + c);
        const vf e = vf_keep(vm_eq(v, v), vf_exp(vf_mul(k, v)));
        acc = vf_add(acc, e);
        vf_store(x->sum + c, vf_add(vf_load(x->sum + c), e));
    }
    return vf_sum(acc);
}

GF_INLINE float masked_row(const gf_tile *t, int r, vf k, const gf_rows *row, const gf_rows *col, int64_t cap,
                           gf_tile_scratch *x) {
    const float *s = t->s + r * t->ld;
    const vf lo = vf_set(row->lo[t->r0 + r]), hi = vf_set(row->hi[t->r0 + r]);
    const float *col_lo = col->lo + t->c0, *col_hi = col->hi + t->c0;
    vf acc = vf_set(0.0f);
    int32_t kept = 0;
    for (int c = 0; c < t->pcols; c += GF_LANES) {
        const vf v = vf_load(s + c), e = vf_exp(vf_mul(k, v));
        const vm row_keep = vm_le(v, lo), col_keep = vm_le(v, vf_load(col_lo + c));
        acc = vf_addm(acc, row_keep, e);
        kept += __builtin_popcount(vm_bits(row_keep));
        vf_store(x->sum + c, vf_addm(vf_load(x->sum + c), col_keep, e));
        vi_store(x->count + c, vi_count(vi_load(x->count + c), col_keep));
        const unsigned row_open = vm_bits(vm_andnot(vm_le(v, hi), row_keep));
        const unsigned col_open = vm_bits(vm_andnot(vm_le(v, vf_load(col_hi + c)), col_keep));
        if (__builtin_expect(row_open | col_open, 0)) {
            window_push_row(row, t->r0 + r, s + c, row_open, cap);
            window_push_cols(col, t->c0 + c, s + c, col_open, cap);
        }
    }
    row->kept[t->r0 + r] += kept;
    return vf_sum(acc);
}

void GF_NAME(gf_tile_stats_both)(const gf_tile *t, const gf_rows *row, const gf_rows *col, unsigned flags, int64_t window_cap,
                                 gf_tile_scratch *x) {
    const vf k = vf_set(row->inv_tau[t->r0]);
    memset(x->sum, 0, sizeof(float) * (size_t)t->pcols);
    memset(x->count, 0, sizeof(int32_t) * (size_t)t->pcols);
    for (int r = 0; r < t->rows; r++)
        row->sum[t->r0 + r] += (double)(flags & GF_COUNT ? masked_row(t, r, k, row, col, window_cap, x) : plain_row(t, r, k, x));
    for (int c = 0; c < t->cols; c++) col->sum[t->c0 + c] += (double)x->sum[c];
    if (flags & GF_COUNT)
        for (int c = 0; c < t->cols; c++) col->kept[t->c0 + c] += x->count[c];
}

/* ---- row role, general ---- */

typedef struct pair_masks {
    vm keep, flag, open; /* certainly kept; certainly flagged; in the window */
} pair_masks;

GF_INLINE pair_masks classify(const gf_tile *t, int r, int c, vf v, const gf_rows *row, const gf_rows *col, unsigned flags) {
    const int64_t i = t->r0 + r;
    const vm pair = vm_eq(v, v);
    pair_masks d = {pair, vm_none(), vm_none()};
    if (!(flags & GF_COUNT)) return d;
    if (flags & GF_MARKS) {
        d.flag = vm_and(pair, vm_of_bits(gf_tile_marks(row->marks, row->marks_ld, i, t->c0 + c)));
        d.keep = vm_andnot(pair, d.flag);
        return d;
    }
    if (flags & GF_TIE) {
        const vf score = t->score ? vf_load(t->score + r * t->ld + c) : v, theta = vf_set(row->lo[i]);
        int32_t index[GF_LANES];
        for (int l = 0; l < GF_LANES; l++) index[l] = (int32_t)(t->c0 + c + l);
        const vm after = vi_gt(vi_load(index), vi_set(row->tie[i]));
        d.keep = vm_and(pair, vm_or(vm_lt(score, theta), vm_and(vm_eq(score, theta), after)));
    } else {
        d.keep = vm_le(v, vf_set(row->lo[i]));
        d.open = vm_andnot(vm_le(v, vf_set(row->hi[i])), d.keep);
    }
    if (flags & GF_GROUP && row->group[i] >= 0) {
        const vm same = vi_eq(vi_load(col->group + t->c0 + c), vi_set(row->group[i]));
        d.keep = vm_andnot(d.keep, same);
        d.open = vm_andnot(d.open, same);
    }
    d.flag = vm_andnot(vm_andnot(pair, d.keep), d.open);
    return d;
}

/* Raises the peak of row i to the largest summed entry of this tile row and rescales the sums so far. */
GF_INLINE void raise_peak(const gf_tile *t, int r, const gf_rows *row, const gf_rows *col, unsigned flags) {
    const int64_t i = t->r0 + r;
    const float *s = t->s + r * t->ld;
    vf top = vf_set(-INFINITY);
    for (int c = 0; c < t->pcols; c += GF_LANES) {
        const vf v = vf_load(s + c);
        const pair_masks d = classify(t, r, c, v, row, col, flags);
        vm summed = flags & GF_MASK ? d.keep : vm_eq(v, v);
        if (flags & GF_MASK && flags & GF_WEIGHT) summed = vm_or(summed, d.flag);
        top = vf_max(vf_pick(summed, v, top), top);
    }
    const float peak = vf_top(top) * row->inv_tau[i];
    if (!(peak > row->peak[i])) return;
    const double scale = exp((double)row->peak[i] - (double)peak);
    row->sum[i] *= scale;
    if (flags & GF_MOMENT) row->moment[i] *= scale;
    row->peak[i] = peak;
}

GF_INLINE void sum_row(const gf_tile *t, int r, const gf_rows *row, const gf_rows *col, unsigned flags, float omega,
                       int64_t cap) {
    const int64_t i = t->r0 + r;
    const float *s = t->s + r * t->ld;
    const vf k = vf_set(row->inv_tau[i]), peak = vf_set(flags & GF_SHIFT ? row->peak[i] : 0.0f);
    vf sum = vf_set(0.0f), moment = sum, flagged = sum;
    const vf mid = vf_set(row->mid[i]);
    int32_t kept = 0, above = 0;
    for (int c = 0; c < t->pcols; c += GF_LANES) {
        const vf v = vf_load(s + c);
        const pair_masks d = classify(t, r, c, v, row, col, flags);
        vf e = vf_exp(vf_sub(vf_mul(k, v), peak));
        if (!(flags & GF_MASK)) e = vf_keep(vm_eq(v, v), e);
        else if (flags & GF_WEIGHT) e = vf_add(vf_keep(d.keep, e), vf_keep(d.flag, vf_mul(e, vf_set(omega))));
        else e = vf_keep(d.keep, e);
        sum = vf_add(sum, e);
        if (flags & GF_MOMENT) moment = vf_fma(e, vf_keep(vm_eq(v, v), v), moment);
        if (flags & GF_ATTRACT) flagged = vf_addm(flagged, d.flag, v);
        kept += __builtin_popcount(vm_bits(d.keep));
        if (flags & GF_GROUP) above += __builtin_popcount(vm_bits(vm_lt(mid, v)));
        window_push_row(row, i, s + c, vm_bits(d.open), cap);
    }
    if (flags & GF_GROUP) row->above[i] += above;
    row->sum[i] += (double)vf_sum(sum);
    if (flags & GF_MOMENT) row->moment[i] += (double)vf_sum(moment);
    if (flags & GF_ATTRACT) row->flagged_s[i] += (double)vf_sum(flagged);
    row->kept[i] += kept;
}

void GF_NAME(gf_tile_stats_row)(const gf_tile *t, const gf_rows *row, const gf_rows *col, unsigned flags, float omega,
                                int64_t window_cap) {
    for (int r = 0; r < t->rows; r++) {
        if (flags & GF_SHIFT) raise_peak(t, r, row, col, flags);
        sum_row(t, r, row, col, flags, omega, window_cap);
    }
}

void GF_NAME(gf_tile_transpose)(float *dst, const float *src, size_t ld, int rows, int cols) {
    for (int r = 0; r < rows; r += 8) /* rows and cols are multiples of GF_PANEL */
        for (int c = 0; c < cols; c++)
            for (int i = 0; i < 8; i++) dst[c * ld + r + i] = src[(r + i) * ld + c];
}

void GF_NAME(gf_tile_exp)(float *y, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + GF_LANES <= n; i += GF_LANES) vf_store(y + i, vf_exp(vf_load(x + i)));
    if (i == n) return;
    float tail[GF_LANES] = {0};
    memcpy(tail, x + i, sizeof(float) * (size_t)(n - i));
    vf_store(tail, vf_exp(vf_load(tail)));
    memcpy(y + i, tail, sizeof(float) * (size_t)(n - i));
}
