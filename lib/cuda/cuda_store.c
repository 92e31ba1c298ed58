/* cuda_store.c - see cuda_store.h. All calls use the stream of the last step and wait for it, never for the whole device: other
 * streams may be busy, or in a capture, which forbids such a wait. gf_cuda_store_bank and _records only queue: they are part of a step. */
#include "cuda/cuda_ctx.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "method/formulas/loss.h"

#define SPARE ((size_t)1 << 30) /* minimum of device memory left free, before state goes to the host */

/* Device memory for single records in transit. It is kept: with several ranks each moves its rows before and after every step.
 * Concurrent readers of a store use it one after the other. */
typedef struct gf_cuda_staging {
    pthread_mutex_t lock;
    int64_t capacity;       /* records */
    int64_t *id;            /* [capacity] */
    unsigned char *records; /* [capacity][record_bytes] */
} gf_cuda_staging;

static int64_t blocks_of(const gf_device_store *s) { return (s->n + GF_STORE_BLOCK - 1) / GF_STORE_BLOCK; }

static int64_t slots_of(int64_t keys) {
    int64_t slots = 1024;
    while (gf_cuda_store_room(slots) < keys) slots *= 2;
    return slots;
}

static glofnd_status wait(gf_error *err, const gf_device_store *s) {
    CUDA_TRY(err, cudaStreamSynchronize(s->stream));
    return GLOFND_OK;
}

/* Device memory; clearing it is queued. */
static glofnd_status take(gf_error *err, const gf_device_store *s, void *out, size_t bytes) {
    void **p = out;
    CUDA_TRY(err, cudaMalloc(p, bytes));
    CUDA_TRY(err, cudaMemsetAsync(*p, 0, bytes, s->stream));
    return GLOFND_OK;
}

static glofnd_status take_records(gf_error *err, gf_device_store *s) {
    const size_t bytes = (size_t)s->n * s->record_bytes;
    size_t left = 0, all = 0;
    CUDA_TRY(err, cudaMemGetInfo(&left, &all));
    if (bytes + SPARE <= left || (bytes <= SPARE / 16 && bytes < left)) return take(err, s, &s->records, bytes);
    const cudaError_t e = cudaHostAlloc((void **)&s->records, bytes, cudaHostAllocMapped);
    if (e != cudaSuccess) (void)cudaGetLastError(); /* reported below */
    FAIL_IF(err, e != cudaSuccess, GLOFND_E_MEMORY,
            "no memory for %lld anchors of %zu bytes: %zu bytes are free on the device, and the host cannot pin as much",
            (long long)s->n, s->record_bytes, left);
    s->on_host = 1;
    memset(s->records, 0, bytes);
    return GLOFND_OK;
}

/* The table of a store of keys, whose rows are there. */
static glofnd_status take_table(gf_error *err, gf_device_store *s) {
    TRY(take(err, s, &s->key, sizeof *s->key * (size_t)s->n));
    return take(err, s, &s->used, sizeof *s->used);
}

static glofnd_status open_parts(gf_error *err, gf_device_store *s, int keyed) {
    s->staging = calloc(1, sizeof *s->staging);
    FAIL_IF(err, !s->staging, GLOFND_E_MEMORY, "no memory for a store");
    pthread_mutex_init(&s->staging->lock, NULL);
    TRY(take_records(err, s));
    TRY(take(err, s, &s->touched, (size_t)blocks_of(s)));
    if (keyed) TRY(take_table(err, s));
    TRY(take(err, s, &s->state, sizeof *s->state));
    CUDA_TRY(err, cudaMallocHost((void **)&s->pool_there, 2 * sizeof *s->pool_there));
    s->pool_there[0] = s->pool_there[1] = 0;
    for (int side = 0; s->ring_rows > 0 && side < s->modalities; side++) {
        const size_t count = (size_t)s->ring_rows * (size_t)s->ring_ld;
        gf_cuda_embed *e = &s->ring[side];
        e->f32 = (gf_cuda_matrix){.rows = s->ring_rows, .dim = s->ring_dim, .ld = s->ring_ld};
        TRY(take(err, s, &e->f32.row, 4 * count));
        TRY(take(err, s, &e->hi, 2 * count));
        TRY(take(err, s, &e->lo, 2 * count));
        TRY(take(err, s, &s->ring_id[side], sizeof(int64_t) * (size_t)s->ring_rows));
    }
    return wait(err, s); /* the first step may be on another stream */
}

glofnd_status gf_cuda_store_open(gf_error *err, gf_device_ctx *d, const gf_store_spec *spec, size_t record_bytes,
                                 gf_device_store **out) {
    *out = NULL;
    TRY(gf_cuda_check_current(err, d));
    gf_device_store *s = calloc(1, sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for a store");
    s->stream = d->stream;
    s->n = spec->keyed ? slots_of(spec->n) + 1 : spec->n, s->modalities = spec->modalities, s->temperatures = spec->temperatures,
    s->record_bytes = record_bytes;
    s->ring_rows = spec->ring_rows, s->ring_dim = spec->ring_dim;
    s->ring_ld = spec->ring_rows > 0 ? gf_cuda_embed_ld(spec->ring_dim) : 0;
    const glofnd_status status = open_parts(err, s, spec->keyed);
    if (status != GLOFND_OK) gf_cuda_store_close(s);
    else *out = s;
    return status;
}

struct gf_device_store gf_cuda_store_of(const gf_device_step *x, cudaStream_t stream) {
    if (x->s) x->s->stream = stream;
    return x->s ? *x->s
                : (struct gf_device_store){.n = x->anchors,
                                           .modalities = x->plan->sides,
                                           .temperatures = gf_loss_individual(&x->plan->o)};
}

size_t gf_cuda_store_held(const gf_device_store *s) {
    const size_t records = s->on_host ? 0 : (size_t)s->n * s->record_bytes;
    const size_t row = 8 * (size_t)s->ring_ld + sizeof(int64_t); /* float, two halves; id */
    const size_t staged = (size_t)s->staging->capacity * (sizeof(int64_t) + s->record_bytes);
    const size_t table = s->key ? sizeof *s->key * (size_t)(s->n + 1) : 0;
    return staged + records + table + (size_t)blocks_of(s) + sizeof *s->state + (size_t)(s->modalities * s->ring_rows) * row;
}

static void drop_rows(gf_device_store *s) {
    if (s->on_host) cudaFreeHost(s->records);
    else cudaFree(s->records);
    cudaFree(s->touched);
    cudaFree(s->key);
    cudaFree(s->used);
}

void gf_cuda_store_close(gf_device_store *s) {
    if (!s) return;
    cudaStreamSynchronize(s->stream);
    drop_rows(s);
    cudaFree(s->state);
    cudaFreeHost(s->pool_there);
    gf_cuda_staging *x = s->staging;
    if (x) {
        cudaFree(x->id);
        cudaFree(x->records);
        pthread_mutex_destroy(&x->lock);
        free(x);
    }
    for (int side = 0; side < 2; side++) {
        cudaFree(s->ring[side].f32.row);
        cudaFree(s->ring[side].hi);
        cudaFree(s->ring[side].lo);
        cudaFree(s->ring_id[side]);
    }
    free(s);
}

/* ----- in and out ----- */

static glofnd_status copy(gf_error *err, const gf_device_store *s, int put, void *device, void *host, size_t bytes) {
    CUDA_TRY(err, cudaMemcpyAsync(put ? device : host, put ? host : device, bytes, cudaMemcpyDefault, s->stream));
    return GLOFND_OK;
}

glofnd_status gf_cuda_store_touched(gf_error *err, gf_device_store *s, uint8_t *blocks) {
    TRY(copy(err, s, 0, s->touched, blocks, (size_t)blocks_of(s)));
    return wait(err, s);
}

glofnd_status gf_cuda_store_range(gf_error *err, gf_device_store *s, int put, int64_t first, int64_t count, void *records) {
    const int64_t from = first / GF_STORE_BLOCK, to = (first + count - 1) / GF_STORE_BLOCK;
    TRY(copy(err, s, put, s->records + (size_t)first * s->record_bytes, records, (size_t)count * s->record_bytes));
    if (put) CUDA_TRY(err, cudaMemsetAsync(s->touched + from, 1, (size_t)(to - from + 1), s->stream));
    return wait(err, s);
}

static glofnd_status move_rows(gf_error *err, const gf_device_store *s, int put, const int64_t *id, int64_t n, void *records) {
    gf_cuda_staging *x = s->staging;
    const size_t bytes = (size_t)n * s->record_bytes;
    if (n > x->capacity) {
        cudaFree(x->id);
        cudaFree(x->records);
        x->id = NULL, x->records = NULL, x->capacity = 0;
        CUDA_TRY(err, cudaMalloc((void **)&x->id, sizeof *x->id * (size_t)n));
        CUDA_TRY(err, cudaMalloc((void **)&x->records, bytes));
        x->capacity = n;
    }
    CUDA_TRY(err, cudaMemcpyAsync(x->id, id, sizeof *id * (size_t)n, cudaMemcpyHostToDevice, s->stream));
    if (put) TRY(copy(err, s, 1, x->records, records, bytes));
    if (s->key) CUDA_TRY(err, gf_cuda_find_places(s, x->id, n, put, x->id, NULL, s->stream));
    CUDA_TRY(err, gf_cuda_move_records(s, put, x->id, n, x->records));
    if (!put) TRY(copy(err, s, 0, x->records, records, bytes));
    return wait(err, s);
}

/* ----- keys ----- */

/* Waits. *used: keys that have a row, also such that failed steps left without state. */
static glofnd_status count_used(gf_error *err, const gf_device_store *s, int64_t *used) {
    CUDA_TRY(err, cudaMemcpyAsync(used, s->used, sizeof *used, cudaMemcpyDeviceToHost, s->stream));
    return wait(err, s);
}

static glofnd_status grow(gf_error *err, gf_device_store *s, int64_t keys) {
    gf_device_store larger = *s;
    FAIL_IF(err, s->captured, GLOFND_E_MEMORY,
            "the store has room for %lld keys, and a graph holds it: glofnd_store_reserve() before the capture",
            (long long)gf_cuda_store_room(s->n - 1));
    larger.n = slots_of(keys) + 1;
    larger.records = NULL, larger.touched = NULL, larger.key = NULL, larger.used = NULL, larger.on_host = 0;
    glofnd_status status = take_records(err, &larger);
    if (status == GLOFND_OK) status = take(err, &larger, &larger.touched, (size_t)blocks_of(&larger));
    if (status == GLOFND_OK) status = take_table(err, &larger);
    if (status == GLOFND_OK && gf_cuda_move_keys(s, &larger, s->stream) != cudaSuccess)
        status = gf_fail(err, GLOFND_E_DEVICE, "the store of keys cannot be copied to a larger one");
    if (status == GLOFND_OK) status = count_used(err, &larger, &larger.bound); /* and the copy is done */
    if (status != GLOFND_OK) {
        drop_rows(&larger);
        return status;
    }
    drop_rows(s);
    *s = larger;
    return GLOFND_OK;
}

/* Room for so many more keys. Asks the device only where the bound is too high. */
static glofnd_status make_room(gf_error *err, gf_device_store *s, int64_t more) {
    if (s->bound + more > gf_cuda_store_room(s->n - 1) || s->captured) {
        TRY(count_used(err, s, &s->bound));
        if (s->bound + more > gf_cuda_store_room(s->n - 1)) TRY(grow(err, s, s->bound + more));
    }
    s->bound += more;
    return GLOFND_OK;
}

glofnd_status gf_cuda_store_expect(gf_error *err, gf_device_store *s, int64_t keys, int capturing) {
    if (capturing) s->captured = 1;
    return s->captured ? GLOFND_OK : make_room(err, s, keys); /* in a graph the device itself notices */
}

glofnd_status gf_cuda_store_keyed(gf_error *err, gf_device_store *s, int64_t *rows, int64_t *keys) {
    *rows = s->n;
    return keys ? count_used(err, s, keys) : GLOFND_OK;
}

glofnd_status gf_cuda_store_reserve(gf_error *err, gf_device_store *s, int64_t keys) {
    return keys <= gf_cuda_store_room(s->n - 1) ? GLOFND_OK : grow(err, s, keys);
}

glofnd_status gf_cuda_store_rows(gf_error *err, gf_device_store *s, int put, const int64_t *id, int64_t n, void *records) {
    if (n == 0) return GLOFND_OK;
    if (s->key && put) TRY(make_room(err, s, n));
    pthread_mutex_lock(&s->staging->lock);
    const glofnd_status status = move_rows(err, s, put, id, n, records);
    pthread_mutex_unlock(&s->staging->lock);
    return status;
}

glofnd_status gf_cuda_store_bank(gf_error *err, gf_device_ctx *d, gf_device_store *s, int put, int side, int64_t dim,
                                 const int64_t *id, int64_t n, void *rows) {
    TRY(gf_cuda_check_current(err, d));
    s->stream = d->stream;
    if (n > 0) CUDA_TRY(err, gf_cuda_move_averages(s, put, side, dim, id, n, rows));
    return GLOFND_OK;
}

glofnd_status gf_cuda_store_records(gf_error *err, gf_device_ctx *d, gf_device_store *s, int put, const int64_t *id, int64_t n,
                                    void *records) {
    TRY(gf_cuda_check_current(err, d));
    s->stream = d->stream;
    if (n == 0) return GLOFND_OK;
    if (s->key && put) TRY(gf_cuda_store_expect(err, s, n, gf_cuda_is_capturing(d)));
    CUDA_TRY(err, gf_cuda_exchange_records(s, put, id, n, records));
    return GLOFND_OK;
}

glofnd_status gf_cuda_store_state(gf_error *err, gf_device_store *s, int put, gf_device_state *state) {
    gf_cuda_shared x = {.ring_head = state->ring_head, .ring_count = state->ring_count};
    memcpy(x.shared, state->shared, sizeof x.shared);
    TRY(copy(err, s, put, s->state, &x, sizeof x));
    TRY(wait(err, s));
    if (put) s->pool_there[0] = s->pool_there[1] = 0; /* of a different state */
    memcpy(state->shared, x.shared, sizeof x.shared);
    state->ring_head = x.ring_head, state->ring_count = x.ring_count;
    return GLOFND_OK;
}

glofnd_status gf_cuda_store_ring(gf_error *err, gf_device_store *s, int put, int side, int64_t count, float *rows, int64_t *id) {
    const size_t row = sizeof(float) * (size_t)s->ring_dim, stride = sizeof(float) * (size_t)s->ring_ld, n = (size_t)count;
    float *device = s->ring[side].f32.row;
    if (put) CUDA_TRY(err, cudaMemcpy2DAsync(device, stride, rows, row, row, n, cudaMemcpyHostToDevice, s->stream));
    else CUDA_TRY(err, cudaMemcpy2DAsync(rows, row, device, stride, row, n, cudaMemcpyDeviceToHost, s->stream));
    if (put) CUDA_TRY(err, gf_cuda_ring_halves(s, side, count));
    TRY(copy(err, s, put, s->ring_id[side], id, sizeof *id * n));
    return wait(err, s);
}
