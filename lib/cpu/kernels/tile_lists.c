/* tile_lists.c - lists of the largest similarities of rows and columns, and an order statistic of one list.
 *
 * Of a tile few values are above the limits, so a row of it is first reduced to one bit per value; what follows costs by the
 * set bits. An order statistic is found by counting: bisection ends when as many values reach the middle as are wanted. That
 * reads a list about ten times in vectors, without a branch that depends on single values.
 */
#include "cpu/kernels/simd.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/tile_names.h"

#define WORDS (GF_TILE_MAX / 64)

/* Bit c of the words: s[c] > limit, or limits[c] where they are given. */
GF_INLINE void bits_above(uint64_t *words, const float *s, int cols, float limit, const float *limits) {
    const vf all = vf_set(limit);
    for (int w = 0; w * 64 < cols; w++) {
        uint64_t bits = 0;
        for (int c = w * 64; c < w * 64 + 64 && c < cols; c += GF_LANES)
            bits |= (uint64_t)vm_bits(vm_lt(limits ? vf_load(limits + c) : all, vf_load(s + c))) << (c % 64);
        words[w] = bits;
    }
}

GF_INLINE void push(const gf_lists *x, int64_t row, int32_t n, float value, int64_t column) {
    x->value[row * x->capacity + n] = value;
    if (x->column) x->column[row * x->capacity + n] = (int32_t)column;
}

void GF_NAME(gf_tile_collect)(const gf_tile *t, const gf_lists *row, const gf_lists *col) {
    uint64_t words[WORDS];
    for (int r = 0; r < t->rows; r++) {
        const float *s = t->s + r * t->ld;
        const int64_t i = t->r0 + r;
        int32_t n = row->count[i];
        bits_above(words, s, t->pcols, row->limit[i], NULL);
        for (int w = 0; w * 64 < t->pcols; w++)
            for (uint64_t bits = words[w]; bits; bits &= bits - 1) {
                const int c = w * 64 + __builtin_ctzll(bits);
                push(row, i, n++, s[c], t->c0 + c);
            }
        row->count[i] = n;
        if (!col) continue;
        bits_above(words, s, t->pcols, 0.0f, col->limit + t->c0);
        for (int w = 0; w * 64 < t->pcols; w++)
            for (uint64_t bits = words[w]; bits; bits &= bits - 1) {
                const int c = w * 64 + __builtin_ctzll(bits);
                push(col, t->c0 + c, col->count[t->c0 + c]++, s[c], i);
            }
    }
}

/* ---- order statistic ---- */

/* Integers in the order of the floats; 0.0 and -0.0 are neighbours that compare equal, and either may be the result. */
static int32_t key_of(float x) {
    int32_t k;
    memcpy(&k, &x, sizeof k);
    return k < 0 ? (int32_t)(0x80000000u - (uint32_t)k) : k;
}

static float float_of(int32_t key) {
    const int32_t k = key < 0 ? (int32_t)(0x80000000u - (uint32_t)key) : key;
    float x;
    memcpy(&x, &k, sizeof x);
    return x;
}

static int64_t count_reaching(const float *v, int64_t n, float limit) {
    const vf all = vf_set(limit);
    int64_t i = 0, count = 0;
    for (; i + GF_LANES <= n; i += GF_LANES) count += __builtin_popcount(vm_bits(vm_le(all, vf_load(v + i))));
    for (; i < n; i++) count += v[i] >= limit;
    return count;
}

/* The smallest of the values that reach `limit`; INFINITY: none does. */
static float smallest_reaching(const float *v, int64_t n, float limit) {
    const vf all = vf_set(limit), far = vf_set(INFINITY);
    vf least = far;
    int64_t i = 0;
    for (; i + GF_LANES <= n; i += GF_LANES) {
        const vf x = vf_load(v + i);
        least = vf_min(least, vf_pick(vm_le(all, x), x, far));
    }
    float result = -vf_top(vf_sub(vf_set(0.0f), least));
    for (; i < n; i++)
        if (v[i] >= limit && v[i] < result) result = v[i];
    return result;
}

static void range_of(const float *v, int64_t n, int32_t *low, int32_t *high) {
    vf top = vf_set(-INFINITY);
    float largest = -INFINITY;
    int64_t i = 0;
    for (; i + GF_LANES <= n; i += GF_LANES) top = vf_max(top, vf_load(v + i));
    for (largest = vf_top(top); i < n; i++)
        if (v[i] > largest) largest = v[i];
    *low = key_of(smallest_reaching(v, n, -INFINITY)), *high = key_of(largest);
}

#define HALVINGS 16 /* of the range of values; then of the range of floats in it, which always ends */

static int32_t middle_of(int32_t low, int32_t high, int round) {
    if (round >= HALVINGS) return (int32_t)(low + ((int64_t)high - low + 1) / 2);
    const int32_t middle = key_of(0.5f * (float_of(low) + float_of(high)));
    return middle > low ? middle : low + 1;
}

/* The best-th largest of v[n]. */
static float largest_at(const float *v, int64_t n, int64_t best) {
    int32_t low, high; /* at least `best` values reach low; fewer reach any above high */
    range_of(v, n, &low, &high);
    for (int round = 0; low < high; round++) {
        const int32_t middle = middle_of(low, high, round);
        const int64_t count = count_reaching(v, n, float_of(middle));
        if (count == best) return smallest_reaching(v, n, float_of(middle));
        if (count > best) low = middle;
        else high = middle - 1;
    }
    return float_of(low);
}

float GF_NAME(gf_tile_between)(const float *v, int64_t n, int64_t best, double fraction, int64_t *above) {
    const float value = largest_at(v, n, best), next = smallest_reaching(v, n, float_of(key_of(value) + 1));
    *above = next == INFINITY ? 0 : count_reaching(v, n, next);
    if (best < 2 || fraction <= 0.0) return value;
    const float larger = *above == best - 1 ? next : value;
    return (float)((double)value + fraction * ((double)larger - (double)value));
}
