/* best.h - k-best lists: the most similar others of many anchors at once. The content of a list depends only on what was pushed,
 * not on the order.
 *
 * An entry is one number: the similarity, made comparable as an integer, above the complement of the other's position. Larger is
 * better, equal similarities go to the smaller position, and no two entries are equal: so "the `keep` best" is one definite set.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "util/status.h"

typedef struct gf_best {
    int64_t lists, keep, capacity; /* entries of a list to keep; that fit */
    uint64_t *key;                 /* [lists][capacity] */
    int64_t *count;                /* [lists] */
    float *limit;                  /* [lists] what is below cannot be among the best */
} gf_best;

static inline uint64_t gf_best_key(float value, int64_t other) {
    uint32_t bits;
    value += 0.0f; /* -0 is 0 */
    memcpy(&bits, &value, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (UINT32_MAX - (uint32_t)other);
}

static inline float gf_best_value(uint64_t key) {
    uint32_t bits = (uint32_t)(key >> 32);
    float value;
    bits = bits >> 31 ? bits & 0x7fffffffu : ~bits;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int64_t gf_best_other(uint64_t key) { return (int64_t)(UINT32_MAX - (uint32_t)key); }

size_t gf_best_bytes(int64_t lists, int64_t keep); /* SIZE_MAX: too many to count */
glofnd_status gf_best_alloc(gf_error *err, gf_best *b, int64_t lists, int64_t keep);
/* Larger lists, which are cut more seldom: where there are few of them. */
glofnd_status gf_best_alloc_roomy(gf_error *err, gf_best *b, int64_t lists, int64_t keep);
/* Lists for gf_best_add(): short ones have no room for more. */
glofnd_status gf_best_alloc_for(gf_error *err, gf_best *b, int64_t lists, int64_t keep);
size_t gf_best_bytes_for(int64_t lists, int64_t keep);
void gf_best_free(gf_best *b); /* a zeroed one is fine */
void gf_best_clear(gf_best *b, int64_t list);
/* Cuts a full list to the `keep` best and raises its limit. */
void gf_best_cut(gf_best *b, int64_t list);
/* Cuts a list to the `keep` best and those at most `margin` below the last of them, which becomes its limit; returns the rest's
 * number. */
int64_t gf_best_cut_near(gf_best *b, int64_t list, float margin);
/* Cuts to at most `max` entries and puts the best first; returns their number. */
int64_t gf_best_sort(gf_best *b, int64_t list, int64_t max);
/* The same, but puts the smallest position first. */
int64_t gf_best_sort_by_position(gf_best *b, int64_t list, int64_t max);
/* The rank-th best similarity, 1 <= rank <= count; reorders the list. */
float gf_best_ranked(gf_best *b, int64_t list, int64_t rank);

static inline void gf_best_push(gf_best *b, int64_t list, float value, int64_t other) {
    b->key[list * b->capacity + b->count[list]++] = gf_best_key(value, other);
    if (b->count[list] == b->capacity) gf_best_cut(b, list);
}

#define GF_BEST_SHORT 32 /* `keep` up to which inserting pays */

/* Instead of gf_best_push(): the list is always sorted, best first, and its limit as high as it can be. */
static inline void gf_best_insert(gf_best *b, int64_t list, float value, int64_t other) {
    uint64_t *v = b->key + list * b->capacity;
    const uint64_t key = gf_best_key(value, other);
    int64_t at = b->count[list];
    if (at == b->keep) {
        if (key < v[at - 1]) return;
        at--;
    } else b->count[list]++;
    for (; at > 0 && v[at - 1] < key; at--) v[at] = v[at - 1];
    v[at] = key;
    if (b->count[list] == b->keep) b->limit[list] = gf_best_value(v[b->keep - 1]);
}

/* By the one or the other, into lists of gf_best_alloc_for(). */
static inline void gf_best_add(gf_best *b, int64_t list, float value, int64_t other) {
    if (b->capacity == b->keep) gf_best_insert(b, list, value, other);
    else gf_best_push(b, list, value, other);
}

/* Columns to look at next, of so many: a short list that is not full yet has no limit, and everything would be a candidate. */
static inline int gf_best_stride(const gf_best *b, int64_t list, int columns) {
    const int few = 64;
    return b->capacity == b->keep && b->count[list] < b->keep && columns > few ? few : columns;
}
