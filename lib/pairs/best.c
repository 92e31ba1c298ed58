/* best.c - see best.h. */
#include "pairs/best.h"

#include <math.h>
#include <stdlib.h>

/* Entries beyond `keep`: many make few cuts, few make small lists. */
#define SLACK 44
#define ROOMY_SLACK 512

static int64_t capacity_of(int64_t keep) { return keep + (keep / 4 > SLACK ? keep / 4 : SLACK); }

static size_t bytes_of(int64_t lists, int64_t capacity) {
    const size_t each = (size_t)capacity * sizeof(uint64_t) + sizeof(int64_t) + sizeof(float);
    return (size_t)lists > SIZE_MAX / each ? SIZE_MAX : (size_t)lists * each;
}

size_t gf_best_bytes(int64_t lists, int64_t keep) { return bytes_of(lists, capacity_of(keep)); }

static glofnd_status allocate(gf_error *err, gf_best *b, int64_t lists, int64_t keep, int64_t capacity) {
    *b = (gf_best){.lists = lists, .keep = keep, .capacity = capacity};
    if ((size_t)lists <= SIZE_MAX / sizeof *b->key / (size_t)capacity)
        b->key = malloc((size_t)lists * (size_t)capacity * sizeof *b->key);
    b->count = malloc((size_t)lists * sizeof *b->count);
    b->limit = malloc((size_t)lists * sizeof *b->limit);
    if (!b->key || !b->count || !b->limit) {
        gf_best_free(b);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for %lld lists of %lld similarities", (long long)lists, (long long)keep);
    }
    for (int64_t i = 0; i < lists; i++) gf_best_clear(b, i);
    return GLOFND_OK;
}

glofnd_status gf_best_alloc(gf_error *err, gf_best *b, int64_t lists, int64_t keep) {
    return allocate(err, b, lists, keep, capacity_of(keep));
}

glofnd_status gf_best_alloc_roomy(gf_error *err, gf_best *b, int64_t lists, int64_t keep) {
    return allocate(err, b, lists, keep, keep + (keep > ROOMY_SLACK ? keep : ROOMY_SLACK));
}

static int64_t capacity_for(int64_t keep) { return keep <= GF_BEST_SHORT ? keep : capacity_of(keep); }

glofnd_status gf_best_alloc_for(gf_error *err, gf_best *b, int64_t lists, int64_t keep) {
    return allocate(err, b, lists, keep, capacity_for(keep));
}

size_t gf_best_bytes_for(int64_t lists, int64_t keep) { return bytes_of(lists, capacity_for(keep)); }

void gf_best_free(gf_best *b) {
    free(b->key);
    free(b->count);
    free(b->limit);
    *b = (gf_best){0};
}

void gf_best_clear(gf_best *b, int64_t list) {
    b->count[list] = 0;
    b->limit[list] = -INFINITY;
}

static uint64_t median3(uint64_t a, uint64_t b, uint64_t c) {
    if (a > b) return b > c ? b : a > c ? c : a;
    return a > c ? a : b > c ? c : b;
}

/* Splits v[left .. right], at least two different keys: those up to *j are larger than those from *i on; what lies between is in
 * its place. */
static void split(uint64_t *v, int64_t left, int64_t right, int64_t *i_out, int64_t *j_out) {
    const uint64_t pivot = median3(v[left], v[left + (right - left) / 2], v[right]);
    int64_t i = left, j = right;
    while (i <= j) {
        while (v[i] > pivot) i++;
        while (v[j] < pivot) j--;
        if (i > j) break;
        const uint64_t t = v[i];
        v[i++] = v[j];
        v[j--] = t;
    }
    *i_out = i, *j_out = j;
}

/* Puts the k largest of v[n] first, the k-th at v[k-1]. */
static void select_largest(uint64_t *v, int64_t n, int64_t k) {
    int64_t left = 0, right = n - 1, i, j;
    const int64_t at = k - 1;
    while (left < right) {
        split(v, left, right, &i, &j);
        if (at <= j) right = j;
        else if (at >= i) left = i;
        else break;
    }
}

static void sort_largest_first(uint64_t *v, int64_t n) {
    while (n > 12) {
        int64_t i, j;
        split(v, 0, n - 1, &i, &j);
        const int right_is_short = n - i < j + 1;
        sort_largest_first(right_is_short ? v + i : v, right_is_short ? n - i : j + 1);
        if (!right_is_short) v += i;
        n = right_is_short ? j + 1 : n - i;
    }
    for (int64_t k = 1; k < n; k++) {
        const uint64_t key = v[k];
        int64_t at = k;
        for (; at > 0 && v[at - 1] < key; at--) v[at] = v[at - 1];
        v[at] = key;
    }
}

void gf_best_cut(gf_best *b, int64_t list) {
    uint64_t *key = b->key + list * b->capacity;
    if (b->count[list] <= b->keep) return;
    select_largest(key, b->count[list], b->keep);
    b->count[list] = b->keep;
    b->limit[list] = gf_best_value(key[b->keep - 1]);
}

int64_t gf_best_cut_near(gf_best *b, int64_t list, float margin) {
    uint64_t *key = b->key + list * b->capacity;
    const int64_t count = b->count[list];
    if (count < b->keep) return count;
    select_largest(key, count, b->keep);
    b->limit[list] = gf_best_value(key[b->keep - 1]) - margin;
    int64_t kept = b->keep;
    for (int64_t i = kept; i < count; i++)
        if (gf_best_value(key[i]) >= b->limit[list]) key[kept++] = key[i];
    return b->count[list] = kept;
}

static int64_t cut_to(gf_best *b, int64_t list, int64_t max) {
    if (max < b->count[list]) {
        if (max > 0) select_largest(b->key + list * b->capacity, b->count[list], max);
        b->count[list] = max;
    }
    return b->count[list];
}

int64_t gf_best_sort(gf_best *b, int64_t list, int64_t max) {
    const int64_t count = cut_to(b, list, max);
    sort_largest_first(b->key + list * b->capacity, count);
    return count;
}

int64_t gf_best_sort_by_position(gf_best *b, int64_t list, int64_t max) {
    const int64_t count = cut_to(b, list, max);
    uint64_t *key = b->key + list * b->capacity;
    for (int64_t i = 0; i < count; i++) key[i] = key[i] << 32 | key[i] >> 32; /* complement of the position above the value */
    sort_largest_first(key, count);
    for (int64_t i = 0; i < count; i++) key[i] = key[i] << 32 | key[i] >> 32;
    return count;
}

float gf_best_ranked(gf_best *b, int64_t list, int64_t rank) {
    uint64_t *key = b->key + list * b->capacity;
    select_largest(key, b->count[list], rank);
    return gf_best_value(key[rank - 1]);
}
