/* tile.c - the operations on one tile of similarities, for one instruction set: the product that makes it, the sums over it, the
 * weights of its gradient, scans for selections; and the table of all kernels. tile.h describes them.
 *
 * Products of bf16 numbers and of integers are in tile_product16.c and tile_product_int16.c, lists of the largest values in
 * tile_lists.c.
 */
#include "cpu/kernels/cpu_kernels.h"
#include "cpu/kernels/simd.h"
#include "cpu/kernels/tile_names.h"

/* ----- the one matrix product: C (+)= A B on a tile, packed for registers -----
 *
 * A is m x k with any two strides, so that rows, or the transpose of a tile, are read in place. B comes in panels of GF_PANEL
 * columns: element (k, j) of panel p is b[p * b_panel + k * b_k + j]. Each element of C is one chain of fused multiply-adds
 * over k = 0, 1, ..: its bits do not depend on the tile it lies in, nor on which of the two factors is the row. The masks of
 * different passes and ranks agree because of that. */

#if GF_LANES == 16
#define ROWS 8 /* 8 x 2 accumulators of the 32 registers: two loads and eight broadcasts feed sixteen FMAs */
#define VECS 2
#elif defined(GF_NEON)
#define ROWS 4 /* 4 x 4 of the 32 registers: four loads and four broadcasts feed sixteen FMAs */
#define VECS 4
#else
#define ROWS 4 /* 4 x 2 of the 16 registers */
#define VECS 2
#endif
#define COLS (VECS * GF_LANES)

GF_INLINE void micro(float *c, size_t c_row, const float *a, size_t a_row, size_t a_k, const float *b, size_t b_k, int k,
                     int accumulate) {
    vf acc[ROWS][VECS];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++) acc[r][v] = accumulate ? vf_load(c + r * c_row + v * GF_LANES) : vf_set(0.0f);
    for (int i = 0; i < k; i++) {
        vf bv[VECS];
        for (int v = 0; v < VECS; v++) bv[v] = vf_load(b + i * b_k + v * GF_LANES);
        for (int r = 0; r < ROWS; r++) {
            const vf av = vf_set(a[r * a_row + i * a_k]);
            for (int v = 0; v < VECS; v++) acc[r][v] = vf_fma(av, bv[v], acc[r][v]);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++) vf_store(c + r * c_row + v * GF_LANES, acc[r][v]);
}

static void product(float *c, size_t c_row, const float *a, size_t a_row, size_t a_k, const float *b, size_t b_k, size_t b_panel,
                    int m, int n, int k, int accumulate) {
    for (int p = 0; p < n / GF_PANEL; p++)
        for (int j = 0; j < GF_PANEL; j += COLS) {
            const float *bp = b + p * b_panel + j;
            float *cp = c + (size_t)p * GF_PANEL + j;
            for (int r = 0; r < m; r += ROWS) {
                float *cr = cp + r * c_row;
                const float *ar = a + r * a_row;
                if (a_k == 1 && accumulate) micro(cr, c_row, ar, a_row, 1, bp, b_k, k, 1);
                else if (a_k == 1) micro(cr, c_row, ar, a_row, 1, bp, b_k, k, 0);
                else if (a_k == GF_PANEL && b_k == GF_PANEL) micro(cr, c_row, ar, 1, GF_PANEL, bp, GF_PANEL, k, accumulate);
                else micro(cr, c_row, ar, 1, a_k, bp, b_k, k, accumulate);
            }
        }
}

/* As vf_fma on one lane. */
GF_INLINE float fma_one(float a, float b, float c) {
#if defined(__FMA__) || defined(GF_NEON)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

static void dots(float out[GF_TILE_DOTS], const float *a, const float *const b[GF_TILE_DOTS], int64_t n) {
    float sum[GF_TILE_DOTS] = {0};
    for (int64_t i = 0; i < n; i++)
        for (int r = 0; r < GF_TILE_DOTS; r++) sum[r] = fma_one(a[i], b[r][i], sum[r]);
    memcpy(out, sum, sizeof sum);
}

/* ----- sums, counts and window lists of each anchor -----
 *
 * lambda is not updated yet, but its new value lies in (lo, hi]: entries at or below lo are kept in any case, entries above hi
 * are flagged, and the few in between go to a list that is decided when the new lambda is known. */

static void window_push(const gf_sum_in *row, const gf_sum_out *out, int64_t i, float s, int64_t cap) {
    const int32_t n = out->window_n[i]++;
    if (n < cap) out->window[i * cap + n] = s;
    out->window_le[i] += s <= row->mid[i];
}

static void window_push_row(const gf_sum_in *row, const gf_sum_out *out, int64_t i, const float *s, unsigned bits, int64_t cap) {
    for (; bits; bits &= bits - 1) window_push(row, out, i, s[__builtin_ctz(bits)], cap);
}

static void window_push_cols(const gf_sum_in *col, const gf_sum_out *out, int64_t c, const float *s, unsigned bits, int64_t cap) {
    for (; bits; bits &= bits - 1) {
        const int lane = __builtin_ctz(bits);
        window_push(col, out, c + lane, s[lane], cap);
    }
}

/* ---- both roles, one exponential: exp(S/tau) fits in float and tau is the same everywhere ---- */

GF_INLINE float sum_plain_row(const gf_tile *t, int r, vf k, gf_tile_scratch *x) {
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

GF_INLINE float sum_masked_row(const gf_tile *t, int r, vf k, const gf_sum_in *row, const gf_sum_in *col,
                               const gf_sum_out *row_out, const gf_sum_out *col_out, int64_t cap, gf_tile_scratch *x) {
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
            window_push_row(row, row_out, t->r0 + r, s + c, row_open, cap);
            window_push_cols(col, col_out, t->c0 + c, s + c, col_open, cap);
        }
    }
    row_out->kept[t->r0 + r] += kept;
    return vf_sum(acc);
}

static void sum_both(const gf_tile *t, const gf_sum_in *row, const gf_sum_in *col, const gf_sum_out *row_out,
                     const gf_sum_out *col_out, unsigned flags, int64_t window_cap, gf_tile_scratch *x) {
    const vf k = vf_set(row->inv_tau[t->r0]);
    memset(x->sum, 0, sizeof(float) * (size_t)t->pcols);
    memset(x->count, 0, sizeof(int32_t) * (size_t)t->pcols);
    for (int r = 0; r < t->rows; r++)
        row_out->sum[t->r0 + r] += (double)(flags & GF_COUNT ? sum_masked_row(t, r, k, row, col, row_out, col_out, window_cap, x)
                                                             : sum_plain_row(t, r, k, x));
    for (int c = 0; c < t->cols; c++) col_out->sum[t->c0 + c] += (double)x->sum[c];
    if (flags & GF_COUNT)
        for (int c = 0; c < t->cols; c++) col_out->kept[t->c0 + c] += x->count[c];
}

/* ---- row role, general ---- */

typedef struct pair_masks {
    vm keep, flag, open; /* certainly kept; certainly flagged; in the window */
} pair_masks;

GF_INLINE pair_masks classify(const gf_tile *t, int r, int c, vf v, const gf_sum_in *row, const int32_t *col_group,
                              unsigned flags) {
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
        const vm same = vi_eq(vi_load(col_group + t->c0 + c), vi_set(row->group[i]));
        d.keep = vm_andnot(d.keep, same);
        d.open = vm_andnot(d.open, same);
    }
    d.flag = vm_andnot(vm_andnot(pair, d.keep), d.open);
    return d;
}

/* Raises the peak of row i to the largest summed entry of this tile row and rescales the sums so far. */
GF_INLINE void raise_peak(const gf_tile *t, int r, const gf_sum_in *row, const int32_t *col_group, const gf_sum_out *out,
                          unsigned flags) {
    const int64_t i = t->r0 + r;
    const float *s = t->s + r * t->ld;
    vf top = vf_set(-INFINITY);
    for (int c = 0; c < t->pcols; c += GF_LANES) {
        const vf v = vf_load(s + c);
        const pair_masks d = classify(t, r, c, v, row, col_group, flags);
        vm summed = flags & GF_MASK ? d.keep : vm_eq(v, v);
        if (flags & GF_MASK && flags & GF_WEIGHT) summed = vm_or(summed, d.flag);
        top = vf_max(vf_pick(summed, v, top), top);
    }
    const float peak = vf_top(top) * row->inv_tau[i];
    if (!(peak > out->peak[i])) return;
    const double scale = exp((double)out->peak[i] - (double)peak);
    out->sum[i] *= scale;
    if (flags & GF_MOMENT) out->moment[i] *= scale;
    out->peak[i] = peak;
}

/* What pairs of values v add to a sum of e. */
GF_INLINE vf share_of(vf e, vf v, const pair_masks *d, unsigned flags, float omega) {
    if (!(flags & GF_MASK)) return vf_keep(vm_eq(v, v), e);
    if (!(flags & GF_WEIGHT)) return vf_keep(d->keep, e);
    return vf_add(vf_keep(d->keep, e), vf_keep(d->flag, vf_mul(e, vf_set(omega))));
}

static void sum_rows(const gf_tile *t, const gf_sum_in *row, const int32_t *col_group, const gf_sum_out *out, unsigned flags,
                     float omega, int64_t window_cap) {
    for (int r = 0; r < t->rows; r++) {
        if (flags & GF_SHIFT) raise_peak(t, r, row, col_group, out, flags);
        const int64_t i = t->r0 + r;
        const float *s = t->s + r * t->ld;
        const vf k = vf_set(row->inv_tau[i]), peak = vf_set(flags & GF_SHIFT ? out->peak[i] : 0.0f);
        const vf bias = vf_set(row->bias), mid = vf_set(row->mid[i]);
        vf sum = vf_set(0.0f), moment = sum, flagged = sum;
        int32_t kept = 0, above = 0;
        for (int c = 0; c < t->pcols; c += GF_LANES) {
            const vf v = vf_load(s + c);
            const pair_masks d = classify(t, r, c, v, row, col_group, flags);
            if (flags & GF_SIGMOID) {
                const vm pulled = flags & GF_ATTRACT ? d.flag : vm_none();
                const vf x = vf_fma(k, v, bias);
                vf slope, term = vf_softplus(x, &slope);
                term = vf_sub(share_of(term, v, &d, flags, omega), vf_keep(pulled, x));
                slope = vf_sub(share_of(slope, v, &d, flags, omega), vf_keep(pulled, vf_set(1.0f)));
                sum = vf_add(sum, term);
                flagged = vf_add(flagged, slope);
                moment = vf_fma(slope, vf_keep(vm_eq(v, v), v), moment);
            } else {
                const vf e = share_of(vf_exp(vf_sub(vf_mul(k, v), peak)), v, &d, flags, omega);
                sum = vf_add(sum, e);
                if (flags & GF_MOMENT) moment = vf_fma(e, vf_keep(vm_eq(v, v), v), moment);
            }
            if (flags & GF_ATTRACT && !(flags & GF_SIGMOID)) flagged = vf_addm(flagged, d.flag, v);
            kept += __builtin_popcount(vm_bits(d.keep));
            if (flags & GF_GROUP) above += __builtin_popcount(vm_bits(vm_lt(mid, v)));
            window_push_row(row, out, i, s + c, vm_bits(d.open), window_cap);
        }
        if (flags & GF_GROUP) out->above[i] += above;
        out->sum[i] += (double)vf_sum(sum);
        if (flags & GF_MOMENT) out->moment[i] += (double)vf_sum(moment);
        if (flags & (GF_ATTRACT | GF_SIGMOID)) out->flagged_s[i] += (double)vf_sum(flagged);
        out->kept[i] += kept;
    }
}

/* ----- gradient: similarities become its weights P, in place -----
 *
 * P_rc = weight from the anchor of row r + weight from the anchor of column c. From an anchor, a kept pair weighs
 * exp(S/tau + log w), with GF_SIGMOID attract sigma(S/tau + log w), a flagged one omega times that, less its attraction. */

/* ---- plain sums and drop masks, both roles, one exponential ---- */

GF_INLINE void weigh_plain_row(const gf_tile *t, int r, vf k, const gf_grad_in *row, const gf_grad_in *col) {
    float *s = t->s + r * t->ld;
    const float *col_w = col->w + t->c0;
    const vf w = vf_set(row->w[t->r0 + r]);
    for (int c = 0; c < t->pcols; c += GF_LANES) {
        const vf v = vf_load(s + c);
        vf_store(s + c, vf_mul(vf_exp(vf_mul(k, v)), vf_add(w, vf_load(col_w + c))));
    }
}

GF_INLINE void weigh_masked_row(const gf_tile *t, int r, vf k, const gf_grad_in *row, const gf_grad_in *col) {
    float *s = t->s + r * t->ld;
    const float *col_w = col->w + t->c0, *col_theta = col->theta + t->c0;
    const vf w = vf_set(row->w[t->r0 + r]), theta = vf_set(row->theta[t->r0 + r]);
    for (int c = 0; c < t->pcols; c += GF_LANES) {
        const vf v = vf_load(s + c);
        const vf both = vf_addm(vf_keep(vm_le(v, theta), w), vm_le(v, vf_load(col_theta + c)), vf_load(col_w + c));
        vf_store(s + c, vf_mul(vf_exp(vf_mul(k, v)), both));
    }
}

/* ---- general ---- */

/* Kept pairs of row r seen from its anchor; the mask of the loss, of the gradient and of glofnd_step_mask. */
GF_INLINE vm row_keep(const gf_tile *t, int r, int c, vf v, const gf_grad_in *row, const gf_grad_in *col, unsigned flags) {
    const int64_t i = t->r0 + r;
    const vm pair = vm_eq(v, v);
    vm keep;
    if (flags & GF_MARKS) {
        keep = vm_andnot(pair, vm_of_bits(gf_tile_marks(row->marks, row->marks_ld, i, t->c0 + c)));
    } else if (flags & GF_TIE) {
        const vf score = t->score ? vf_load(t->score + r * t->ld + c) : v, theta = vf_set(row->theta[i]);
        int32_t index[GF_LANES];
        for (int l = 0; l < GF_LANES; l++) index[l] = (int32_t)(t->c0 + c + l);
        const vm after = vi_gt(vi_load(index), vi_set(row->tie[i]));
        keep = vm_and(pair, vm_or(vm_lt(score, theta), vm_and(vm_eq(score, theta), after)));
    } else {
        keep = vm_le(v, vf_set(row->theta[i]));
    }
    if (flags & GF_GROUP && row->group[i] >= 0)
        keep = vm_andnot(keep, vi_eq(vi_load(col->group + t->c0 + c), vi_set(row->group[i])));
    return vm_or(keep, vm_le(v, vf_set(row->floor[i])));
}

GF_INLINE vm col_keep(const gf_tile *t, int r, int c, vf v, const gf_grad_in *row, const gf_grad_in *col, unsigned flags) {
    vm keep = vm_le(v, vf_load(col->theta + t->c0 + c));
    if (flags & GF_MARKS)
        keep = vm_andnot(vm_eq(v, v), vm_of_bits(gf_tile_marks(row->marks_col, row->marks_ld, t->r0 + r, t->c0 + c)));
    if (flags & GF_GROUP && row->group[t->r0 + r] >= 0)
        keep = vm_andnot(keep, vi_eq(vi_load(col->group + t->c0 + c), vi_set(row->group[t->r0 + r])));
    return vm_or(keep, vm_le(v, vf_load(col->floor + t->c0 + c)));
}

/* Weight of a pair from one anchor with kept mask, inv_tau, log_w, attract. */
GF_INLINE vf weigh(vf v, vm pair, vm keep, vf k, vf log_w, vf attract, unsigned flags, float omega) {
    vf e;
    if (flags & GF_SIGMOID) {
        (void)vf_softplus(vf_fma(v, k, log_w), &e);
        e = vf_mul(e, attract);
    } else {
        e = vf_exp(vf_fma(v, k, log_w));
    }
    vf p = vf_keep(keep, e);
    const vm flag = vm_andnot(pair, keep);
    if (flags & GF_WEIGHT) p = vf_addm(p, flag, vf_mul(e, vf_set(omega)));
    if (flags & GF_ATTRACT) p = vf_sub(p, vf_keep(flag, attract));
    return p;
}

/* Counts flagged pairs of one label; an anchor without label (negative) equals no other. */
GF_INLINE void count_quality(const gf_tile *t, int r, int c, vm pair, vm row_kept, vm col_kept, const gf_grad_in *row,
                             const gf_grad_in *col, const gf_grad_out *row_out, const gf_grad_out *col_out) {
    const int64_t i = t->r0 + r;
    if (row->label[i] < 0) return;
    const vm same = vm_and(pair, vi_eq(vi_load(col->label + t->c0 + c), vi_set(row->label[i])));
    row_out->same[i] += __builtin_popcount(vm_bits(same));
    row_out->hits[i] += __builtin_popcount(vm_bits(vm_andnot(same, row_kept)));
    if (!col_out) return;
    int32_t *col_same = col_out->same + t->c0 + c, *col_hits = col_out->hits + t->c0 + c;
    vi_store(col_same, vi_count(vi_load(col_same), same));
    vi_store(col_hits, vi_count(vi_load(col_hits), vm_andnot(same, col_kept)));
}

/* Flags that the two fast kernels do not support. */
#define GENERAL (GF_SHIFT | GF_ATTRACT | GF_WEIGHT | GF_GROUP | GF_QUALITY | GF_TIE | GF_COLSUM | GF_MARKS | GF_SIGMOID)

static void weights(const gf_tile *t, const gf_grad_in *row, const gf_grad_in *col, const gf_grad_out *row_out,
                    const gf_grad_out *col_out, int col_role, unsigned flags, float omega) {
    const int general = !col_role || (flags & GENERAL), attracts = (flags & (GF_ATTRACT | GF_SIGMOID)) != 0;
    const vf one_k = vf_set(row->inv_tau[t->r0]); /* the temperature of all rows, unless general */
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r;
        float *s = t->s + r * t->ld;
        if (!general) {
            if (flags & GF_MASK || t->dirty) weigh_masked_row(t, r, one_k, row, col);
            else weigh_plain_row(t, r, one_k, row, col);
            continue;
        }
        const vf k = vf_set(row->inv_tau[i]), log_w = vf_set(row->log_w[i]), attract = vf_set(attracts ? row->attract[i] : 0.0f);
        vf sum = vf_set(0.0f), moment = sum;
        for (int c = 0; c < t->pcols; c += GF_LANES) {
            const vf v = vf_load(s + c);
            const vm pair = vm_eq(v, v), keep = row_keep(t, r, c, v, row, col, flags);
            vm keep_col = keep;
            vf p = weigh(v, pair, keep, k, log_w, attract, flags, omega);
            if (col_role) {
                const int64_t j = t->c0 + c;
                keep_col = col_keep(t, r, c, v, row, col, flags);
                const vf each = attracts ? vf_load(col->attract + j) : vf_set(0.0f), w = vf_load(col->log_w + j);
                const vf q = weigh(v, pair, keep_col, vf_load(col->inv_tau + j), w, each, flags, omega);
                p = vf_add(p, q);
                if (flags & GF_COLSUM) {
                    sum = vf_add(sum, q);
                    moment = vf_fma(q, vf_keep(pair, vf_sub(v, vf_load(col->align + j))), moment);
                }
            }
            if (flags & GF_QUALITY) count_quality(t, r, c, pair, keep, keep_col, row, col, row_out, col_role ? col_out : NULL);
            vf_store(s + c, p);
        }
        if (!(flags & GF_COLSUM)) continue;
        row_out->col_sum[i] += (double)vf_sum(sum);
        row_out->col_moment[i] += (double)vf_sum(moment);
    }
    for (int r = t->rows; r < t->prows; r++) memset(t->s + r * t->ld, 0, sizeof(float) * (size_t)t->pcols);
}

static void keep_of(const gf_tile *t, const gf_grad_in *row, const gf_grad_in *col, unsigned flags, uint8_t *keep,
                    size_t keep_ld) {
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->cols; c += GF_LANES) {
            const unsigned bits = vm_bits(row_keep(t, r, c, vf_load(t->s + r * t->ld + c), row, col, flags));
            for (int l = 0; l < GF_LANES && c + l < t->cols; l++) keep[r * keep_ld + c + l] = (uint8_t)(bits >> l & 1);
        }
}

/* ----- the rest: transpose, scans of selections, exponentials ----- */

static void transpose(float *dst, const float *src, size_t ld, int rows, int cols) {
    for (int r = 0; r < rows; r += 8) /* rows and cols are multiples of GF_PANEL */
        for (int c = 0; c < cols; c++)
            for (int i = 0; i < 8; i++) dst[c * ld + r + i] = src[(r + i) * ld + c];
}

static void exp_of(float *y, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + GF_LANES <= n; i += GF_LANES) vf_store(y + i, vf_exp(vf_load(x + i)));
    if (i == n) return;
    float tail[GF_LANES] = {0};
    memcpy(tail, x + i, sizeof(float) * (size_t)(n - i));
    vf_store(tail, vf_exp(vf_load(tail)));
    memcpy(y + i, tail, sizeof(float) * (size_t)(n - i));
}

static void softplus_of(float *y, float *slope, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += GF_LANES) {
        vf g;
        vf_store(y + i, vf_softplus(vf_load(x + i), &g));
        vf_store(slope + i, g);
    }
}

static int64_t above(const float *v, int64_t n, float floor, float *out) {
    const vf limit = vf_set(floor);
    int64_t found = 0;
    for (int64_t i = 0; i < n; i += GF_LANES)
        for (unsigned bits = vm_bits(vm_lt(limit, vf_load(v + i))); bits; bits &= bits - 1)
            out[found++] = v[i + __builtin_ctz(bits)];
    return found;
}

static void scale(float *y, const float *x, int64_t n, double by) {
    for (int64_t i = 0; i < n; i++) y[i] = (float)(by * (double)x[i]);
}

static int reach(int32_t *at, const float *v, int n, float row, const float *col) {
    const vf limit = vf_set(row);
    int found = 0;
    for (int i = 0; i < n; i += GF_LANES) {
        const vf lower = col ? vf_min(limit, vf_load(col + i)) : limit;
        for (unsigned bits = vm_bits(vm_le(lower, vf_load(v + i))); bits; bits &= bits - 1) at[found++] = i + __builtin_ctz(bits);
    }
    return found;
}

/* ----- all kernels of this instruction set ----- */

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static const gf_tile_ops tile_ops = {
    .product = product,
    .product16 = GF_NAME(gf_tile_product16),
    .words = GF_NAME(gf_tile_words),
    .round = GF_NAME(gf_tile_round),
    .product_int16 = GF_NAME(gf_tile_product_int16),
    .int16_is_fast = GF_NAME(gf_tile_int16_is_fast),
    .row_to_int16 = GF_NAME(gf_tile_row_to_int16),
    .panel_to_int16 = GF_NAME(gf_tile_panel_to_int16),
    .transpose = transpose,
    .sum_both = sum_both,
    .sum_rows = sum_rows,
    .weights = weights,
    .keep = keep_of,
    .collect = GF_NAME(gf_tile_collect),
    .between = GF_NAME(gf_tile_between),
    .above = above,
    .reach = reach,
    .dots = dots,
    .scale = scale,
    .exp = exp_of,
    .softplus = softplus_of,
};

extern const gf_cpu_kernels GF_NAME(gf_cpu_kernels);

const gf_cpu_kernels GF_NAME(gf_cpu_kernels) = {
    .isa = TEXT(GF_ISA),
    .tile = &tile_ops,
};
