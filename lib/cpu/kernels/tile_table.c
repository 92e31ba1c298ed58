/* tile_table.c - all kernels of one instruction set in one table; and the scans that selection needs. */
#include "cpu/kernels/cpu_kernels.h"
#include "cpu/kernels/simd.h"
#include "cpu/kernels/tile_names.h"

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

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static const gf_tile_ops tile_ops = {
    .product = GF_NAME(gf_tile_product),
    .product16 = GF_NAME(gf_tile_product16),
    .words = GF_NAME(gf_tile_words),
    .round = GF_NAME(gf_tile_round),
    .product_int16 = GF_NAME(gf_tile_product_int16),
    .int16_is_fast = GF_NAME(gf_tile_int16_is_fast),
    .row_to_int16 = GF_NAME(gf_tile_row_to_int16),
    .panel_to_int16 = GF_NAME(gf_tile_panel_to_int16),
    .transpose = GF_NAME(gf_tile_transpose),
    .stats_both = GF_NAME(gf_tile_stats_both),
    .stats_row = GF_NAME(gf_tile_stats_row),
    .weights = GF_NAME(gf_tile_weights),
    .keep = GF_NAME(gf_tile_keep),
    .collect = GF_NAME(gf_tile_collect),
    .between = GF_NAME(gf_tile_between),
    .above = above,
    .reach = reach,
    .dots = GF_NAME(gf_tile_dots),
    .scale = scale,
    .exp = GF_NAME(gf_tile_exp),
};

extern const gf_cpu_kernels GF_NAME(gf_cpu_kernels);

const gf_cpu_kernels GF_NAME(gf_cpu_kernels) = {
    .isa = TEXT(GF_ISA),
    .tile = &tile_ops,
};
