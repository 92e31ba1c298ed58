/* tile_weights.c - pass C on one tile: similarities become the weights P of the gradient, in place.
 *
 * P_rc = weight from the anchor of row r + weight from the anchor of column c. From an anchor, a kept pair weighs
 * exp(S/tau + log w), a flagged one omega times that, less its attraction.
 */
#include "cpu/kernels/simd.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/tile_names.h"

/* ---- plain sums and drop masks, both roles, one exponential ---- */

GF_INLINE void plain_row(const gf_tile *t, int r, vf k, const gf_rows *row, const gf_rows *col) {
    float *s = t->s + r * t->ld;
    const float *col_w = col->w + t->c0;
    const vf w = vf_set(row->w[t->r0 + r]);
    for (int c = 0; c < t->pcols; c += GF_LANES) {
        const vf v = vf_load(s + c);
        vf_store(s + c, vf_mul(vf_exp(vf_mul(k, v)), vf_add(w, vf_load(col_w + c))));
    }
}

GF_INLINE void masked_row(const gf_tile *t, int r, vf k, const gf_rows *row, const gf_rows *col) {
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
GF_INLINE vm row_keep(const gf_tile *t, int r, int c, vf v, const gf_rows *row, const gf_rows *col, unsigned flags) {
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

GF_INLINE vm col_keep(const gf_tile *t, int r, int c, vf v, const gf_rows *row, const gf_rows *col, unsigned flags) {
    vm keep = vm_le(v, vf_load(col->theta + t->c0 + c));
    if (flags & GF_MARKS)
        keep = vm_andnot(vm_eq(v, v), vm_of_bits(gf_tile_marks(row->marks_col, row->marks_ld, t->r0 + r, t->c0 + c)));
    if (flags & GF_GROUP && row->group[t->r0 + r] >= 0)
        keep = vm_andnot(keep, vi_eq(vi_load(col->group + t->c0 + c), vi_set(row->group[t->r0 + r])));
    return vm_or(keep, vm_le(v, vf_load(col->floor + t->c0 + c)));
}

/* Weight of a pair from one anchor with kept mask, inv_tau, log_w, attract. */
GF_INLINE vf weigh(vf v, vm pair, vm keep, vf k, vf log_w, vf attract, unsigned flags, float omega) {
    const vf e = vf_exp(vf_fma(v, k, log_w));
    vf p = vf_keep(keep, e);
    const vm flag = vm_andnot(pair, keep);
    if (flags & GF_WEIGHT) p = vf_addm(p, flag, vf_mul(e, vf_set(omega)));
    if (flags & GF_ATTRACT) p = vf_sub(p, vf_keep(flag, attract));
    return p;
}

/* Counts flagged pairs of one label; an anchor without label (negative) equals no other. */
GF_INLINE void count_quality(const gf_tile *t, int r, int c, vm pair, vm row_kept, vm col_kept, const gf_rows *row,
                             const gf_rows *col, int both) {
    const int64_t i = t->r0 + r;
    if (row->label[i] < 0) return;
    const vm same = vm_and(pair, vi_eq(vi_load(col->label + t->c0 + c), vi_set(row->label[i])));
    row->same[i] += __builtin_popcount(vm_bits(same));
    row->hits[i] += __builtin_popcount(vm_bits(vm_andnot(same, row_kept)));
    if (!both) return;
    int32_t *col_same = col->same + t->c0 + c, *col_hits = col->hits + t->c0 + c;
    vi_store(col_same, vi_count(vi_load(col_same), same));
    vi_store(col_hits, vi_count(vi_load(col_hits), vm_andnot(same, col_kept)));
}

GF_INLINE void general_row(const gf_tile *t, int r, const gf_rows *row, const gf_rows *col, int col_role, unsigned flags,
                           float omega) {
    const int64_t i = t->r0 + r;
    float *s = t->s + r * t->ld;
    const vf k = vf_set(row->inv_tau[i]), log_w = vf_set(row->log_w[i]);
    const vf attract = vf_set(flags & GF_ATTRACT ? row->attract[i] : 0.0f);
    vf sum = vf_set(0.0f), moment = sum;
    for (int c = 0; c < t->pcols; c += GF_LANES) {
        const vf v = vf_load(s + c);
        const vm pair = vm_eq(v, v), keep = row_keep(t, r, c, v, row, col, flags);
        vm keep_col = keep;
        vf p = weigh(v, pair, keep, k, log_w, attract, flags, omega);
        if (col_role) {
            const int64_t j = t->c0 + c;
            keep_col = col_keep(t, r, c, v, row, col, flags);
            const vf each = flags & GF_ATTRACT ? vf_load(col->attract + j) : vf_set(0.0f), w = vf_load(col->log_w + j);
            const vf q = weigh(v, pair, keep_col, vf_load(col->inv_tau + j), w, each, flags, omega);
            p = vf_add(p, q);
            if (flags & GF_COLSUM) {
                sum = vf_add(sum, q);
                moment = vf_fma(q, vf_keep(pair, vf_sub(v, vf_load(col->align + j))), moment);
            }
        }
        if (flags & GF_QUALITY) count_quality(t, r, c, pair, keep, keep_col, row, col, col_role && col->same != NULL);
        vf_store(s + c, p);
    }
    if (!(flags & GF_COLSUM)) return;
    row->sum[i] += (double)vf_sum(sum);
    row->moment[i] += (double)vf_sum(moment);
}

/* Flags that the two fast kernels do not support. */
#define GENERAL (GF_SHIFT | GF_ATTRACT | GF_WEIGHT | GF_GROUP | GF_QUALITY | GF_TIE | GF_COLSUM | GF_MARKS)

void GF_NAME(gf_tile_weights)(const gf_tile *t, const gf_rows *row, const gf_rows *col, int col_role, unsigned flags,
                              float omega) {
    const int general = !col_role || (flags & GENERAL);
    const vf k = vf_set(row->inv_tau[t->r0]);
    for (int r = 0; r < t->rows; r++) {
        if (general) general_row(t, r, row, col, col_role, flags, omega);
        else if (flags & GF_MASK || t->dirty) masked_row(t, r, k, row, col);
        else plain_row(t, r, k, row, col);
    }
    for (int r = t->rows; r < t->prows; r++) memset(t->s + r * t->ld, 0, sizeof(float) * (size_t)t->pcols);
}

void GF_NAME(gf_tile_keep)(const gf_tile *t, const gf_rows *row, const gf_rows *col, unsigned flags, uint8_t *keep,
                           size_t keep_ld) {
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->cols; c += GF_LANES) {
            const unsigned bits = vm_bits(row_keep(t, r, c, vf_load(t->s + r * t->ld + c), row, col, flags));
            for (int l = 0; l < GF_LANES && c + l < t->cols; l++) keep[r * keep_ld + c + l] = (uint8_t)(bits >> l & 1);
        }
}
