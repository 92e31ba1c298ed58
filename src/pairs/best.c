/* best.c - see best.h. */
#include "pairs/best.h"

#include <math.h>
#include <stdlib.h>

#define SLACK 44 /* entries beyond `keep` at least: how seldom a list is cut against how much it takes */

int64_t gf_best_room(int64_t keep) { return keep + (keep / 4 > SLACK ? keep / 4 : SLACK); }

size_t gf_best_bytes(int64_t lists, int64_t keep) {
    const size_t each = (size_t)gf_best_room(keep) * sizeof(uint64_t) + sizeof(int64_t) + sizeof(float);
    return (size_t)lists > SIZE_MAX / each ? SIZE_MAX : (size_t)lists * each;
}

glofnd_status gf_best_alloc(gf_error *err, gf_best *b, int64_t lists, int64_t keep) {
    *b = (gf_best){.lists = lists, .keep = keep, .room = gf_best_room(keep)};
    if (gf_best_bytes(lists, keep) < SIZE_MAX) b->key = malloc((size_t)lists * (size_t)b->room * sizeof *b->key);
    b->count = malloc((size_t)lists * sizeof *b->count);
    b->limit = malloc((size_t)lists * sizeof *b->limit);
    if (!b->key || !b->count || !b->limit) {
        gf_best_free(b);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for %lld lists of %lld similarities", (long long)lists, (long long)keep);
    }
    for (int64_t i = 0; i < lists; i++) gf_best_clear(b, i);
    return GLOFND_OK;
}

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

/* Puts the k largest of v[n] first, the k-th at v[k-1]; all different. */
static void select_largest(uint64_t *v, int64_t n, int64_t k) {
    int64_t left = 0, right = n - 1;
    const int64_t at = k - 1;
    while (left < right) {
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
        if (at <= j) right = j;
        else if (at >= i) left = i;
        else break;
    }
}

void gf_best_cut(gf_best *b, int64_t list) {
    uint64_t *key = b->key + list * b->room;
    if (b->count[list] <= b->keep) return;
    select_largest(key, b->count[list], b->keep);
    b->count[list] = b->keep;
    b->limit[list] = gf_best_value(key[b->keep - 1]);
}

static int larger_first(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

int64_t gf_best_sort(gf_best *b, int64_t list, int64_t most) {
    uint64_t *key = b->key + list * b->room;
    if (most < b->count[list]) {
        if (most > 0) select_largest(key, b->count[list], most);
        b->count[list] = most;
    }
    qsort(key, (size_t)b->count[list], sizeof *key, larger_first);
    return b->count[list];
}

float gf_best_ranked(gf_best *b, int64_t list, int64_t rank) {
    uint64_t *key = b->key + list * b->room;
    select_largest(key, b->count[list], rank);
    return gf_best_value(key[rank - 1]);
}
