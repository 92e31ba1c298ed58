/* pairs_lists.c - see pairs_lists.h. */
#include "pairs/pairs_lists.h"

#include <math.h>

#include "util/array.h"
#include "util/components.h"
#include "util/parallel.h"

enum { CHUNK = 256 }; /* anchors of a task */

void gf_lists_edge(const gf_best *b, int64_t list, gf_pairs_found *f, int64_t i) {
    const uint64_t *key = b->key + list * b->capacity;
    uint64_t best[GF_PAIRS_EDGE] = {0};
    for (int64_t k = 0; k < b->count[list]; k++) {
        uint64_t next = key[k];
        if (gf_best_value(next) > f->lambda[i]) continue;
        for (int64_t e = 0; e < f->edge; e++) {
            const uint64_t place = best[e];
            if (next > place) best[e] = next, next = place;
        }
    }
    for (int64_t e = 0; e < f->edge && best[e]; e++) {
        f->edge_other[i * f->edge + e] = (int32_t)gf_best_other(best[e]);
        f->edge_similarity[i * f->edge + e] = gf_best_value(best[e]);
    }
}

void gf_lists_top(gf_best *b, int64_t list, gf_pairs_found *f, int64_t i) {
    const int64_t count = gf_best_sort(b, list, f->top);
    for (int64_t k = 0; k < f->top; k++) {
        const uint64_t key = k < count ? b->key[list * b->capacity + k] : 0;
        f->other[i * f->top + k] = k < count ? (int32_t)gf_best_other(key) : -1;
        f->similarity[i * f->top + k] = k < count ? gf_best_value(key) : NAN;
    }
}

/* ----- all anchors ----- */

typedef struct all_lists {
    gf_best *b;
    const gf_pairs_task *t;
    gf_pairs_found *f;
    int32_t *mutual_root;
} all_lists;

static void over_chunks(all_lists *x, void (*run)(void *arg, int64_t task, int thread)) {
    gf_parallel(x->t->threads, (x->f->n + CHUNK - 1) / CHUNK, run, x);
}

static void list_threshold(void *arg, int64_t task, int thread) {
    all_lists *x = arg;
    (void)thread;
    for (int64_t i = task * CHUNK; i < GF_MIN((task + 1) * CHUNK, x->f->n); i++) {
        const int64_t rank = GF_MIN(x->t->rank, x->b->count[i]);
        x->f->lambda[i] = rank > 0 ? gf_best_ranked(x->b, i, rank) : INFINITY;
        gf_lists_edge(x->b, i, x->f, i);
    }
}

/* Entries above the threshold, from anchor i's side; j's own list has the pair if it is mutual. */
static void list_pairs(void *arg, int64_t task, int thread) {
    all_lists *x = arg;
    gf_pairs_found *f = x->f;
    const int32_t *label = x->t->label;
    for (int64_t i = task * CHUNK; i < GF_MIN((task + 1) * CHUNK, f->n); i++) {
        const uint64_t *key = x->b->key + i * x->b->capacity;
        for (int64_t k = 0; k < x->b->count[i]; k++) {
            const float v = gf_best_value(key[k]);
            const int64_t j = gf_best_other(key[k]);
            if (!(v > f->lambda[i])) continue;
            f->above[i]++;
            f->hits[i] += label && label[i] >= 0 && label[i] == label[j];
            if (!(v > f->lambda[j])) continue;
            f->mutual[i]++;
            if (i < j) gf_components_join(x->mutual_root + thread * f->n, (int32_t)i, (int32_t)j);
        }
    }
}

static void list_top(void *arg, int64_t task, int thread) {
    all_lists *x = arg;
    (void)thread;
    for (int64_t i = task * CHUNK; i < GF_MIN((task + 1) * CHUNK, x->f->n); i++) gf_lists_top(x->b, i, x->f, i);
}

void gf_lists_all_thresholds(gf_best *b, const gf_pairs_task *t, gf_pairs_found *f) {
    all_lists x = {.b = b, .t = t, .f = f};
    over_chunks(&x, list_threshold);
}

void gf_lists_all_pairs(gf_best *b, const gf_pairs_task *t, gf_pairs_found *f, int32_t *mutual_root) {
    all_lists x = {.b = b, .t = t, .f = f, .mutual_root = mutual_root};
    over_chunks(&x, list_pairs);
}

void gf_lists_all_top(gf_best *b, const gf_pairs_task *t, gf_pairs_found *f) {
    all_lists x = {.b = b, .t = t, .f = f};
    over_chunks(&x, list_top);
}

/* ----- mutual pairs ----- */

/* 1: anchor i lists j above its threshold. */
static int lists_above(const gf_pairs_found *f, int64_t i, int64_t j) {
    for (int64_t k = 0; k < f->above[i]; k++)
        if (f->other[i * f->top + k] == j) return 1;
    return 0;
}

/* Counts are the same whichever end has found the pair. */
static void find_mutual(void *arg, int64_t task, int thread) {
    gf_pairs_found *f = arg;
    (void)thread;
    for (int64_t i = task * CHUNK; i < GF_MIN((task + 1) * CHUNK, f->n); i++)
        for (int64_t k = 0; k < f->above[i]; k++) {
            const int64_t j = f->other[i * f->top + k];
            if (!(f->similarity[i * f->top + k] > f->lambda[j])) continue;
            __atomic_fetch_add(&f->mutual[i], 1, __ATOMIC_RELAXED);
            if (!lists_above(f, j, i)) __atomic_fetch_add(&f->mutual[j], 1, __ATOMIC_RELAXED);
            gf_components_join_shared(f->mutual_root, (int32_t)i, (int32_t)j);
        }
}

void gf_lists_mutual(gf_pairs_found *f, int threads) { gf_parallel(threads, (f->n + CHUNK - 1) / CHUNK, find_mutual, f); }
