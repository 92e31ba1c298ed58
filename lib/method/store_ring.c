/* store_ring.c - the ring of recent unit embeddings that the learner RING compares with: pushed by steps, read and replaced. */
#include <math.h>
#include <string.h>

#include "method/context.h"
#include "method/store.h"

static void ring_set(gf_ring *ring, int64_t dim, int64_t slot, const float *row, int64_t id) {
    float *dst = ring->rows + slot * dim;
    if (row) memcpy(dst, row, (size_t)dim * sizeof *dst);
    else memset(dst, 0, (size_t)dim * sizeof *dst);
    ring->id[slot] = row ? id : -1;
}

void gf_store_ring_push(glofnd_store *s, const float *const rows[2], int64_t ld, const int64_t *id, int64_t n) {
    const int64_t capacity = s->spec.ring_rows, dim = s->spec.ring_dim;
    if (capacity == 0 || n <= 0) return;
    const int64_t skip = n > capacity ? n - capacity : 0; /* these would be overwritten by later ones of the same call */
    for (int64_t i = skip; i < n; i++) {
        const int64_t slot = (s->ring_head + i) % capacity;
        for (int side = 0; side < s->spec.modalities; side++) {
            ring_set(&s->ring[side], dim, slot, rows[side] ? rows[side] + i * ld : NULL, id[i]);
        }
    }
    s->ring_head = (s->ring_head + n) % capacity;
    s->ring_count = s->ring_count + n < capacity ? s->ring_count + n : capacity;
}

/* ----- as arrays, the oldest first ----- */

static glofnd_status check_arrays(gf_error *err, const glofnd_store *s, int64_t n, const int64_t *id, const float *a,
                                  const float *b) {
    if (n == 0) return GLOFND_OK;
    FAIL_IF(err, !id || !a || (s->spec.modalities == 2 && !b), GLOFND_E_ARGUMENT, "%s is NULL", !id ? "id" : !a ? "a" : "b");
    return GLOFND_OK;
}

static glofnd_status check_store(gf_error *err, const glofnd_store *s) {
    FAIL_IF(err, !s, GLOFND_E_ARGUMENT, "the store is NULL");
    FAIL_IF(err, s->spec.ring_rows == 0, GLOFND_E_ARGUMENT, "the store has no ring; only the learner ring has one");
    return GLOFND_OK;
}

/* Slot of the k-th oldest embedding. */
static int64_t slot_of(const glofnd_store *s, int64_t k) {
    const int64_t first = s->ring_count < s->spec.ring_rows ? 0 : s->ring_head;
    return (first + k) % s->spec.ring_rows;
}

static glofnd_status get(gf_error *err, const glofnd_store *s, int64_t *id, float *const rows[2]) {
    const size_t dim = (size_t)s->spec.ring_dim;
    if (s->device) TRY(gf_store_pull_shared(err, s));
    TRY(check_arrays(err, s, s->ring_count, id, rows[0], rows[1]));
    for (int64_t k = 0; k < s->ring_count; k++) {
        const size_t slot = (size_t)slot_of(s, k);
        id[k] = s->ring[0].id[slot];
        for (int side = 0; side < s->spec.modalities; side++)
            memcpy(rows[side] + (size_t)k * dim, s->ring[side].rows + slot * dim, dim * sizeof(float));
    }
    return GLOFND_OK;
}

glofnd_status glofnd_ring_get(glofnd_ctx *c, const glofnd_store *s, int64_t *id, float *a, float *b) {
    float *const rows[2] = {a, b};
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(check_store(&c->err, s));
    gf_store_lock(s);
    const glofnd_status status = get(&c->err, s, id, rows);
    gf_store_unlock(s);
    return status;
}

static glofnd_status check_rows(gf_error *err, const char *name, const float *rows, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n * dim; i++)
        FAIL_IF(err, !isfinite(rows[i]), GLOFND_E_NUMERIC, "%s: row %lld is not finite", name, (long long)(i / dim));
    return GLOFND_OK;
}

glofnd_status glofnd_ring_put(glofnd_ctx *c, glofnd_store *s, int64_t n, const int64_t *id, const float *a, const float *b) {
    if (!c) return GLOFND_E_ARGUMENT;
    gf_error *err = &c->err;
    TRY(check_store(err, s));
    FAIL_IF(err, n < 0 || n > s->spec.ring_rows, GLOFND_E_ARGUMENT, "n is %lld; the ring holds 0 .. %lld embeddings",
            (long long)n, (long long)s->spec.ring_rows);
    TRY(check_arrays(err, s, n, id, a, b));
    for (int64_t i = 0; i < n; i++)
        FAIL_IF(err, id[i] < -1, GLOFND_E_INDEX, "id[%lld] is %lld; allowed: -1 for none, 0 and more", (long long)i,
                (long long)id[i]);
    TRY(check_rows(err, "a", a, n, s->spec.ring_dim));
    if (s->spec.modalities == 2) TRY(check_rows(err, "b", b, n, s->spec.ring_dim));
    const float *const rows[2] = {a, s->spec.modalities == 2 ? b : NULL};
    glofnd_status status = GLOFND_OK;
    gf_store_lock(s);
    if (s->device) status = gf_store_pull_shared(err, s); /* the shared rows stay */
    if (status == GLOFND_OK) {
        s->ring_head = s->ring_count = 0;
        gf_store_ring_push(s, rows, s->spec.ring_dim, id, n);
        if (s->device) status = gf_store_push_shared(err, s);
    }
    gf_store_unlock(s);
    return status;
}
