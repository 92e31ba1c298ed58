/* pairs_search.c - see pairs_search.h: memory of a result, checks of a task, choice of the device; results read off lists. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pairs/pairs_search.h"
#include "util/array.h"
#include "util/components.h"
#include "util/parallel.h"

glofnd_status gf_pairs_found_alloc(gf_error *err, gf_pairs_found *f, int64_t n, int64_t top) {
    const size_t rows = (size_t)(n > 0 ? n : 1), cells = rows * (size_t)(top > 0 ? top : 1);
    *f = (gf_pairs_found){
        .n = n,
        .top = top,
        .lambda = calloc(rows, sizeof *f->lambda),
        .above = calloc(rows, sizeof *f->above),
        .mutual = calloc(rows, sizeof *f->mutual),
        .hits = calloc(rows, sizeof *f->hits),
        .copies = calloc(rows, sizeof *f->copies),
        .other = calloc(cells, sizeof *f->other),
        .similarity = calloc(cells, sizeof *f->similarity),
        .mutual_root = calloc(rows, sizeof *f->mutual_root),
        .copy_root = calloc(rows, sizeof *f->copy_root),
    };
    if (f->lambda && f->above && f->mutual && f->hits && f->copies && f->other && f->similarity && f->mutual_root && f->copy_root)
        return GLOFND_OK;
    gf_pairs_found_free(f);
    GF_FAIL(err, GLOFND_E_MEMORY, "no memory for the result of %lld anchors", (long long)n);
}

glofnd_status gf_pairs_found_below(gf_error *err, gf_pairs_found *f, int64_t below) {
    const size_t cells = (size_t)f->n * (size_t)below;
    f->below_other = malloc(cells * sizeof *f->below_other);
    f->below_similarity = malloc(cells * sizeof *f->below_similarity);
    FAIL_IF(err, !f->below_other || !f->below_similarity, GLOFND_E_MEMORY, "no memory for the result of %lld anchors",
            (long long)f->n);
    f->below = below;
    for (size_t c = 0; c < cells; c++) f->below_other[c] = -1, f->below_similarity[c] = NAN;
    return GLOFND_OK;
}

void gf_pairs_found_none(gf_pairs_found *f) {
    gf_components_init(f->mutual_root, f->n);
    gf_components_init(f->copy_root, f->n);
    for (int64_t i = 0; i < f->n; i++) f->lambda[i] = INFINITY;
    for (int64_t i = 0; i < f->n * f->top; i++) f->other[i] = -1, f->similarity[i] = NAN;
}

size_t gf_pairs_found_bytes(int64_t n, int64_t top) {
    const size_t row = sizeof(float) + 4 * sizeof(int64_t) + 2 * sizeof(int32_t), cell = sizeof(float) + sizeof(int32_t);
    return (size_t)n * (row + (size_t)top * cell);
}

static glofnd_status check_rank(gf_error *err, int64_t rank, int64_t others) {
    FAIL_IF(err, rank < 1 || rank > others, GLOFND_E_ARGUMENT, "an anchor has %lld others; the %lld-th most similar is asked for",
            (long long)others, (long long)rank);
    return GLOFND_OK;
}

glofnd_status gf_pairs_check_rank(gf_error *err, const gf_pairs_task *t, int64_t others) {
    return t->lambda ? GLOFND_OK : check_rank(err, t->rank, others);
}

glofnd_status gf_pairs_check_query(gf_error *err, const gf_pairs_task *t, int64_t n) {
    return check_rank(err, t->rank, n - (t->skip != NULL));
}

void gf_pairs_found_free(gf_pairs_found *f) {
    free(f->lambda);
    free(f->above);
    free(f->mutual);
    free(f->hits);
    free(f->copies);
    free(f->other);
    free(f->similarity);
    free(f->below_other);
    free(f->below_similarity);
    free(f->mutual_root);
    free(f->copy_root);
    *f = (gf_pairs_found){0};
}

const gf_pairs_search *gf_pairs_search_find(gf_error *err, const char *device) {
    if (strcmp(device, "cpu") == 0) return &gf_pairs_search_cpu;
    if (strcmp(device, "cuda") == 0 && gf_pairs_search_cuda) return gf_pairs_search_cuda;
    if (strcmp(device, "cuda") == 0)
        gf_fail(err, GLOFND_E_UNSUPPORTED, "this build has no CUDA; build it where nvcc is found, or use device=cpu");
    else gf_fail(err, GLOFND_E_OPTION, "device is \"%.40s\"; expected cpu or cuda", device);
    return NULL;
}

gf_pairs_found gf_pairs_found_part(const gf_pairs_found *f, int64_t at, int64_t rows) {
    gf_pairs_found p = *f;
    p.n = rows;
    p.lambda += at, p.above += at, p.hits += at, p.copies += at, p.mutual += at;
    p.other += at * f->top, p.similarity += at * f->top;
    if (f->below) p.below_other += at * f->below, p.below_similarity += at * f->below;
    return p;
}

/* ----- an anchor ----- */

enum { CHUNK = 256 }; /* anchors of a task */

void gf_lists_below(const gf_best *b, int64_t list, gf_pairs_found *f, int64_t i) {
    const uint64_t *key = b->key + list * b->capacity;
    uint64_t best[GF_BELOW_MAX] = {0};
    for (int64_t k = 0; k < b->count[list]; k++) {
        uint64_t next = key[k];
        if (gf_best_value(next) > f->lambda[i]) continue;
        for (int64_t e = 0; e < f->below; e++) {
            const uint64_t place = best[e];
            if (next > place) best[e] = next, next = place;
        }
    }
    for (int64_t e = 0; e < f->below && best[e]; e++) {
        f->below_other[i * f->below + e] = (int32_t)gf_best_other(best[e]);
        f->below_similarity[i * f->below + e] = gf_best_value(best[e]);
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
        gf_lists_below(x->b, i, x->f, i);
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

/* Counts are the same whichever end has found the pair. */
static void find_mutual(void *arg, int64_t task, int thread) {
    gf_pairs_found *f = arg;
    (void)thread;
    for (int64_t i = task * CHUNK; i < GF_MIN((task + 1) * CHUNK, f->n); i++)
        for (int64_t k = 0; k < f->above[i]; k++) {
            const int64_t j = f->other[i * f->top + k];
            if (!(f->similarity[i * f->top + k] > f->lambda[j])) continue;
            __atomic_fetch_add(&f->mutual[i], 1, __ATOMIC_RELAXED);
            int64_t back = 0; /* where j lists i above its own threshold */
            while (back < f->above[j] && f->other[j * f->top + back] != i) back++;
            if (back == f->above[j]) __atomic_fetch_add(&f->mutual[j], 1, __ATOMIC_RELAXED);
            gf_components_join_shared(f->mutual_root, (int32_t)i, (int32_t)j);
        }
}

void gf_lists_mutual(gf_pairs_found *f, int threads) { gf_parallel(threads, (f->n + CHUNK - 1) / CHUNK, find_mutual, f); }
