/* mark_rule.h - flags that more than a threshold decides: the marks of pairs, made before the passes that use them.
 *
 * A pair is marked iff it lies above the threshold of its row's anchor, and, with require_label, its labels are equal, and, with
 * flag_probability below 1, a draw selects it. The draw is a function of seed, epoch, and the ids and views of both ends: the
 * same on every device, for any number of threads and ranks. Pairs of one group are marked in any case.
 *
 * Two levels (attract_alpha): a pair above one threshold for all anchors is marked and, beyond that, attracted. It is the same
 * pair from both ends, so attraction is mutual.
 */
#pragma once

#include "glofnd.h"
#include "method/formulas/settings.h"
#include "util/host_device.h"

typedef struct gf_mark_rule {
    uint64_t key;        /* of the draws: seed and epoch */
    uint64_t below;      /* a pair is drawn if its 32 bits are below this; 2^32: always */
    int32_t needs_label; /* only pairs of one label */
    int32_t shift;       /* 1: rows are (sample, view). 0: rows are samples, of the side below */
    int32_t row_side, col_side;
} gf_mark_rule;

typedef struct gf_mark_end { /* one end of a pair */
    int64_t place;           /* 2 id + view, or + side */
    int32_t label, group;    /* negative: none */
} gf_mark_end;

/* The finaliser of splitmix64: a bijection that spreads every bit. */
GF_HD uint64_t gf_mark_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline gf_mark_rule gf_mark_rule_of(const glofnd_options *o, int32_t epoch, int per_sample) {
    gf_mark_rule rule = GF_ZERO;
    rule.key = gf_mark_mix((uint64_t)o->flag_seed * 0x9e3779b97f4a7c15u + (uint64_t)epoch + 1);
    rule.below = (uint64_t)(o->flag_probability * 4294967296.0);
    rule.needs_label = o->require_label;
    rule.shift = per_sample - 1;
    return rule;
}

/* The draw of an ordered pair, 32 bits. */
GF_HD uint64_t gf_mark_draw(const gf_mark_rule *rule, int64_t row, int64_t col) {
    const uint64_t of_row = gf_mark_mix(rule->key + (uint64_t)row * 0x9e3779b97f4a7c15u);
    return gf_mark_mix(of_row + (uint64_t)col * 0x9e3779b97f4a7c15u) >> 32;
}

/* Place of row r of the batch, from the ids of its samples. */
GF_HD int64_t gf_mark_place(const gf_mark_rule *rule, int side, const int64_t *id, int64_t r) {
    return rule->shift ? 2 * id[r >> 1] + (r & 1) : 2 * id[r] + side;
}

/* 1: a pair of similarity s is attracted, above the threshold of attraction. */
GF_HD int gf_mark_pulls(const gf_mark_rule *rule, float s, float theta, const gf_mark_end *row, const gf_mark_end *col) {
    return s > theta && !(rule->needs_label && (row->label < 0 || row->label != col->label));
}

/* The threshold of attraction after a step in which `share` of the pairs was above it: a small step towards alpha, whatever the
 * distance, since every batch has thousands of pairs to count. */
GF_HD float gf_mark_move_pull(double alpha, float theta, double share) {
    const double step = share / alpha - 1.0, next = (double)theta + 0.002 * (step > 1.0 ? 1.0 : step);
    return (float)(next > 1.0 ? 1.0 : next < -1.0 ? -1.0 : next);
}

/* That threshold travels with the links, as bits. */
GF_HD int32_t gf_mark_float_bits(float x) {
    union {
        float f;
        int32_t i;
    } u;
    u.f = x;
    return u.i;
}

GF_HD float gf_mark_bits_float(int32_t x) {
    union {
        float f;
        int32_t i;
    } u;
    u.i = x;
    return u.f;
}

/* 1: the anchor of `row`, with threshold theta, marks the pair of similarity s. */
GF_HD int gf_mark_pair(const gf_mark_rule *rule, float s, float theta, const gf_mark_end *row, const gf_mark_end *col) {
    if (row->group >= 0 && row->group == col->group) return 1;
    if (!(s > theta)) return 0;
    if (rule->needs_label && (row->label < 0 || row->label != col->label)) return 0;
    return gf_mark_draw(rule, row->place, col->place) < rule->below;
}
