/* store_device.c - a store whose state lies on a device.
 *
 * The tables of glofnd_store stay as buffers between files and the device: lazily zero, so they cost what is copied through them.
 * Saving, loading and single rows all wait for the steps that are queued.
 */
#include <stdlib.h>
#include <string.h>

#include "method/store.h"

/* ----- whole stores ----- */

/* The copy is no part of the store's state: a const store may fill it. */
static glofnd_store *copy_of(const glofnd_store *s) { return (glofnd_store *)(uintptr_t)s; }

void gf_store_lock(const glofnd_store *s) {
    if (s->device) pthread_mutex_lock(&copy_of(s)->lock);
}

void gf_store_unlock(const glofnd_store *s) {
    if (s->device) pthread_mutex_unlock(&copy_of(s)->lock);
}

glofnd_status gf_store_pull_touched(gf_error *err, const glofnd_store *s) {
    const int64_t blocks = gf_store_blocks(s);
    uint8_t *touched = malloc((size_t)blocks);
    FAIL_IF(err, !touched, GLOFND_E_MEMORY, "no memory for the map of %lld blocks of anchors", (long long)blocks);
    const glofnd_status status = s->device->store_touched(err, s->on, touched);
    for (int64_t b = 0; status == GLOFND_OK && b < blocks; b++)
        if (touched[b]) gf_store_mark(copy_of(s), b * GF_STORE_BLOCK, gf_store_block_rows(s, b));
    free(touched);
    return status;
}

/* One transfer per run of touched blocks; `put` as in gf_device. */
static glofnd_status move_records(gf_error *err, const glofnd_store *s, int put) {
    const int64_t blocks = gf_store_blocks(s);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t end = b;
        while (end < blocks && gf_bit(s->touched, end)) end++;
        if (end == b) continue;
        const int64_t first = b * GF_STORE_BLOCK, count = (end - b - 1) * GF_STORE_BLOCK + gf_store_block_rows(s, end - 1);
        TRY(s->device->store_range(err, s->on, put, first, count, s->records + (size_t)first * s->record_bytes));
        b = end;
    }
    return GLOFND_OK;
}

static glofnd_status move_rings(gf_error *err, const glofnd_store *s, int put) {
    for (int side = 0; side < s->spec.modalities && s->ring_count > 0; side++)
        TRY(s->device->store_ring(err, s->on, put, side, s->ring_count, s->ring[side].rows, s->ring[side].id));
    return GLOFND_OK;
}

glofnd_status gf_store_pull(gf_error *err, const glofnd_store *s) {
    TRY(gf_store_pull_touched(err, s));
    TRY(move_records(err, s, 0));
    return gf_store_pull_shared(err, s);
}

glofnd_status gf_store_pull_shared(gf_error *err, const glofnd_store *s) {
    glofnd_store *copy = copy_of(s);
    gf_device_state state;
    TRY(s->device->store_state(err, s->on, 0, &state));
    memcpy(copy->shared, state.shared, sizeof copy->shared);
    copy->ring_head = state.ring_head;
    copy->ring_count = state.ring_count;
    return move_rings(err, s, 0);
}

glofnd_status gf_store_push_shared(gf_error *err, const glofnd_store *s) {
    gf_device_state state = {.ring_head = s->ring_head, .ring_count = s->ring_count};
    memcpy(state.shared, s->shared, sizeof state.shared);
    TRY(s->device->store_state(err, s->on, 1, &state));
    return move_rings(err, s, 1);
}

glofnd_status gf_store_to_device(gf_error *err, glofnd_store *s, const gf_device *device, gf_device_ctx *d) {
    TRY(device->store_open(err, d, &s->spec, s->record_bytes, &s->on));
    s->device = device;
    TRY(move_records(err, s, 1));
    return gf_store_push_shared(err, s);
}

static glofnd_status carry(gf_error *err, const glofnd_store *from, glofnd_store *to) {
    const gf_store_spec *a = &from->spec;
    if (from->device) TRY(gf_store_pull(err, from));
    memcpy(to->shared, from->shared, sizeof to->shared);
    to->ring_head = from->ring_head;
    to->ring_count = from->ring_count;
    for (int side = 0; side < a->modalities && a->ring_rows > 0; side++) {
        memcpy(to->ring[side].rows, from->ring[side].rows, sizeof(float) * (size_t)(a->ring_rows * a->ring_dim));
        memcpy(to->ring[side].id, from->ring[side].id, sizeof(int64_t) * (size_t)a->ring_rows);
    }
    return to->device ? gf_store_push_shared(err, to) : GLOFND_OK;
}

glofnd_status gf_store_carry(gf_error *err, const glofnd_store *from, glofnd_store *to) {
    const gf_store_spec *a = &from->spec, *b = &to->spec;
    FAIL_IF(err, a->modalities != b->modalities || a->ring_rows != b->ring_rows || a->ring_dim != b->ring_dim, GLOFND_E_FORMAT,
            "the stored anchors have a different ring: %lld embeddings of %lld numbers, here %lld of %lld",
            (long long)a->ring_rows, (long long)a->ring_dim, (long long)b->ring_rows, (long long)b->ring_dim);
    gf_store_lock(from);
    const glofnd_status status = carry(err, from, to);
    gf_store_unlock(from);
    return status;
}

/* ----- rows ----- */

typedef struct row_buffers {
    unsigned char *records; /* [n][record_bytes] */
    int64_t *id;            /* [n] without GLOFND_SHARED */
    int64_t n;
    int64_t shared_at; /* last position of GLOFND_SHARED in the caller's ids; -1: none */
} row_buffers;

static glofnd_status take_buffers(gf_error *err, const glofnd_store *s, const int64_t *id, int64_t n, row_buffers *x) {
    *x = (row_buffers){.shared_at = -1};
    if ((uint64_t)n <= SIZE_MAX / GF_STORE_MAX_RECORD) {
        x->records = malloc((size_t)n * s->record_bytes + 1);
        x->id = malloc((size_t)n * sizeof *x->id + 1);
    }
    FAIL_IF(err, !x->records || !x->id, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        if (id[i] == GLOFND_SHARED) x->shared_at = i;
        else x->id[x->n++] = id[i];
    }
    return s->device->store_rows(err, s->on, 0, x->id, x->n, x->records);
}

static void free_buffers(row_buffers *x) {
    free(x->records);
    free(x->id);
}

static glofnd_status get(gf_error *err, const glofnd_store *s, int side, const int64_t *id, int64_t n, glofnd_anchor *rows,
                         row_buffers *x) {
    static const gf_record none;
    gf_device_state state = {0};
    TRY(take_buffers(err, s, id, n, x));
    if (x->shared_at >= 0) TRY(s->device->store_state(err, s->on, 0, &state));
    for (int64_t i = 0, k = 0; i < n; i++) {
        if (id[i] == GLOFND_SHARED) rows[i] = gf_record_decode(&state.shared[side], &none);
        else rows[i] = gf_store_decode(s, side, x->records + (size_t)k++ * s->record_bytes, &none);
    }
    return GLOFND_OK;
}

glofnd_status gf_store_device_get(gf_error *err, const glofnd_store *s, int side, const int64_t *id, int64_t n,
                                  glofnd_anchor *rows) {
    row_buffers x;
    const glofnd_status status = get(err, s, side, id, n, rows, &x);
    free_buffers(&x);
    return status;
}

static glofnd_status put_shared(gf_error *err, glofnd_store *s, int side, const glofnd_anchor *row) {
    gf_device_state state;
    TRY(s->device->store_state(err, s->on, 0, &state));
    state.shared[side] = gf_record_encode(row);
    state.shared[side].log_u = 0.0f; /* none */
    return s->device->store_state(err, s->on, 1, &state);
}

static glofnd_status put(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n, const glofnd_anchor *rows,
                         row_buffers *x) {
    TRY(take_buffers(err, s, id, n, x));
    for (int64_t i = 0, k = 0; i < n; i++)
        if (id[i] != GLOFND_SHARED) gf_store_encode(s, side, &rows[i], x->records + (size_t)k++ * s->record_bytes);
    TRY(s->device->store_rows(err, s->on, 1, x->id, x->n, x->records));
    return x->shared_at >= 0 ? put_shared(err, s, side, &rows[x->shared_at]) : GLOFND_OK;
}

glofnd_status gf_store_device_put(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n,
                                  const glofnd_anchor *rows) {
    row_buffers x;
    const glofnd_status status = put(err, s, side, id, n, rows, &x);
    free_buffers(&x);
    return status;
}

/* ----- rows for code that runs on the host ----- */

static glofnd_status borrow(gf_error *err, glofnd_store *copy, int side, const int64_t *id, int64_t n, glofnd_anchor *rows) {
    static const int64_t shared = GLOFND_SHARED;
    glofnd_anchor one;
    TRY(gf_store_device_get(err, copy, side, id, n, rows));
    TRY(gf_store_device_get(err, copy, side, &shared, 1, &one));
    gf_store_scatter(copy, side, id, n, rows);
    gf_store_shared_put(copy, side, &one);
    return GLOFND_OK;
}

static glofnd_status give_back(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n, glofnd_anchor *rows) {
    static const int64_t shared = GLOFND_SHARED;
    const glofnd_anchor one = gf_store_shared_get(s, side);
    gf_store_gather_own(s, side, id, n, rows);
    TRY(gf_store_device_put(err, s, side, id, n, rows));
    return gf_store_device_put(err, s, side, &shared, 1, &one);
}

static glofnd_status with_rows(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n,
                               glofnd_status (*move)(gf_error *, glofnd_store *, int, const int64_t *, int64_t,
                                                     glofnd_anchor *)) {
    glofnd_anchor *rows = malloc((size_t)n * sizeof *rows);
    FAIL_IF(err, !rows, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)n);
    const glofnd_status status = move(err, s, side, id, n, rows);
    free(rows);
    return status;
}

glofnd_status gf_store_device_borrow(gf_error *err, const glofnd_store *s, int side, const int64_t *id, int64_t n) {
    return with_rows(err, copy_of(s), side, id, n, borrow);
}

glofnd_status gf_store_device_return(gf_error *err, glofnd_store *s, int side, const int64_t *id, int64_t n) {
    return with_rows(err, s, side, id, n, give_back);
}
