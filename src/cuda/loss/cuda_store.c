/* cuda_store.c - see cuda_store.h. Everything here waits for the device: it is for starting, saving, looking, not for steps. */
#include "cuda/loss/cuda_store.h"

#include <stdlib.h>
#include <string.h>

#define SPARE ((size_t)1 << 30) /* device memory left to others, at the least, before state goes to the host */

static int64_t blocks_of(const gf_device_store *s) { return (s->n + GF_STORE_BLOCK - 1) / GF_STORE_BLOCK; }

/* Zeroed device memory. */
static glofnd_status take(gf_error *err, void *out, size_t bytes) {
    void **p = out;
    CUDA_TRY(err, cudaMalloc(p, bytes));
    CUDA_TRY(err, cudaMemset(*p, 0, bytes));
    return GLOFND_OK;
}

static glofnd_status take_records(gf_error *err, gf_device_store *s) {
    const size_t bytes = (size_t)s->n * s->record_bytes;
    size_t left = 0, all = 0;
    CUDA_TRY(err, cudaMemGetInfo(&left, &all));
    if (bytes + SPARE <= left || (bytes <= SPARE / 16 && bytes < left)) return take(err, &s->records, bytes);
    const cudaError_t e = cudaHostAlloc((void **)&s->records, bytes, cudaHostAllocMapped);
    if (e != cudaSuccess) (void)cudaGetLastError();     /* told below */
    FAIL_IF(err, e != cudaSuccess, GLOFND_E_MEMORY,
            "no memory for %lld anchors of %zu bytes: %zu bytes are free on the device, and the host cannot pin as much",
            (long long)s->n, s->record_bytes, left);
    s->on_host = 1;
    memset(s->records, 0, bytes);
    return GLOFND_OK;
}

static glofnd_status take_ring(gf_error *err, gf_device_store *s, int side) {
    const size_t count = (size_t)s->ring_rows * (size_t)s->ring_ld;
    gf_cuda_embed *e = &s->ring[side];
    e->f32 = (gf_embed){.rows = s->ring_rows, .dim = s->ring_dim, .ld = s->ring_ld};
    TRY(take(err, &e->f32.row, 4 * count));
    TRY(take(err, &e->hi, 2 * count));
    TRY(take(err, &e->lo, 2 * count));
    return take(err, &s->ring_id[side], sizeof(int64_t) * (size_t)s->ring_rows);
}

static glofnd_status open_parts(gf_error *err, gf_device_store *s) {
    TRY(take_records(err, s));
    TRY(take(err, &s->touched, (size_t)blocks_of(s)));
    TRY(take(err, &s->state, sizeof *s->state));
    for (int side = 0; s->ring_rows > 0 && side < s->modalities; side++) TRY(take_ring(err, s, side));
    CUDA_TRY(err, cudaDeviceSynchronize());     /* steps may be on a stream that does not wait for the zeros */
    return GLOFND_OK;
}

glofnd_status gf_cuda_store_open(gf_error *err, gf_device_ctx *d, const glofnd_store_spec *spec, size_t record_bytes,
                                 gf_device_store **out) {
    *out = NULL;
    TRY(gf_cuda_check_current(err, d));
    gf_device_store *s = calloc(1, sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for a store");
    s->n = spec->n, s->modalities = spec->modalities, s->temperatures = spec->temperatures, s->record_bytes = record_bytes;
    s->ring_rows = spec->ring_rows, s->ring_dim = spec->ring_dim;
    s->ring_ld = spec->ring_rows > 0 ? gf_cuda_embed_ld(spec->ring_dim) : 0;
    const glofnd_status status = open_parts(err, s);
    if (status != GLOFND_OK) gf_cuda_store_close(s);
    else *out = s;
    return status;
}

size_t gf_cuda_store_held(const gf_device_store *s) {
    const size_t records = s->on_host ? 0 : (size_t)s->n * s->record_bytes;
    const size_t row = 8 * (size_t)s->ring_ld + sizeof(int64_t);        /* float, two halves; id */
    return records + (size_t)blocks_of(s) + sizeof *s->state + (size_t)(s->modalities * s->ring_rows) * row;
}

void gf_cuda_store_close(gf_device_store *s) {
    if (!s) return;
    cudaDeviceSynchronize();
    if (s->on_host) cudaFreeHost(s->records);
    else cudaFree(s->records);
    cudaFree(s->touched);
    cudaFree(s->state);
    for (int side = 0; side < 2; side++) {
        cudaFree(s->ring[side].f32.row);
        cudaFree(s->ring[side].hi);
        cudaFree(s->ring[side].lo);
        cudaFree(s->ring_id[side]);
    }
    free(s);
}

/* ----- in and out ----- */

glofnd_status gf_cuda_store_touched(gf_error *err, gf_device_store *s, uint8_t *blocks) {
    CUDA_TRY(err, cudaDeviceSynchronize());
    CUDA_TRY(err, cudaMemcpy(blocks, s->touched, (size_t)blocks_of(s), cudaMemcpyDeviceToHost));
    return GLOFND_OK;
}

static glofnd_status copy(gf_error *err, int put, void *device, void *host, size_t bytes) {
    if (put) CUDA_TRY(err, cudaMemcpy(device, host, bytes, cudaMemcpyDefault));
    else CUDA_TRY(err, cudaMemcpy(host, device, bytes, cudaMemcpyDefault));
    return GLOFND_OK;
}

glofnd_status gf_cuda_store_range(gf_error *err, gf_device_store *s, int put, int64_t first, int64_t count, void *records) {
    CUDA_TRY(err, cudaDeviceSynchronize());
    TRY(copy(err, put, s->records + (size_t)first * s->record_bytes, records, (size_t)count * s->record_bytes));
    const int64_t from = first / GF_STORE_BLOCK, to = (first + count - 1) / GF_STORE_BLOCK;
    if (put) CUDA_TRY(err, cudaMemset(s->touched + from, 1, (size_t)(to - from + 1)));
    CUDA_TRY(err, cudaDeviceSynchronize());
    return GLOFND_OK;
}

typedef struct staging {        /* device memory for single records on their way */
    int64_t *id;
    unsigned char *records;
} staging;

static glofnd_status move_rows(gf_error *err, gf_device_store *s, int put, const int64_t *id, int64_t n, void *records,
                               staging *x) {
    const size_t bytes = (size_t)n * s->record_bytes;
    CUDA_TRY(err, cudaDeviceSynchronize());
    CUDA_TRY(err, cudaMalloc((void **)&x->id, sizeof *id * (size_t)n));
    CUDA_TRY(err, cudaMalloc((void **)&x->records, bytes));
    CUDA_TRY(err, cudaMemcpy(x->id, id, sizeof *id * (size_t)n, cudaMemcpyHostToDevice));
    if (put) CUDA_TRY(err, cudaMemcpy(x->records, records, bytes, cudaMemcpyHostToDevice));
    CUDA_TRY(err, gf_cuda_move_records(s, put, x->id, n, x->records));
    if (!put) CUDA_TRY(err, cudaMemcpy(records, x->records, bytes, cudaMemcpyDeviceToHost));
    CUDA_TRY(err, cudaDeviceSynchronize());
    return GLOFND_OK;
}

glofnd_status gf_cuda_store_rows(gf_error *err, gf_device_store *s, int put, const int64_t *id, int64_t n, void *records) {
    staging x = {NULL, NULL};
    if (n == 0) return GLOFND_OK;
    const glofnd_status status = move_rows(err, s, put, id, n, records, &x);
    cudaFree(x.id);
    cudaFree(x.records);
    return status;
}

glofnd_status gf_cuda_store_state(gf_error *err, gf_device_store *s, int put, gf_device_state *state) {
    gf_cuda_shared x = {.ring_head = state->ring_head, .ring_count = state->ring_count};
    memcpy(x.shared, state->shared, sizeof x.shared);
    CUDA_TRY(err, cudaDeviceSynchronize());
    TRY(copy(err, put, s->state, &x, sizeof x));
    CUDA_TRY(err, cudaDeviceSynchronize());
    memcpy(state->shared, x.shared, sizeof x.shared);
    state->ring_head = x.ring_head, state->ring_count = x.ring_count;
    return GLOFND_OK;
}

glofnd_status gf_cuda_store_ring(gf_error *err, gf_device_store *s, int put, int side, int64_t count, float *rows, int64_t *id) {
    const size_t row = sizeof(float) * (size_t)s->ring_dim, stride = sizeof(float) * (size_t)s->ring_ld;
    float *device = s->ring[side].f32.row;
    CUDA_TRY(err, cudaDeviceSynchronize());
    if (put) CUDA_TRY(err, cudaMemcpy2D(device, stride, rows, row, row, (size_t)count, cudaMemcpyHostToDevice));
    else CUDA_TRY(err, cudaMemcpy2D(rows, row, device, stride, row, (size_t)count, cudaMemcpyDeviceToHost));
    if (put) CUDA_TRY(err, gf_cuda_ring_halves(&s->ring[side], count));
    TRY(copy(err, put, s->ring_id[side], id, sizeof *id * (size_t)count));
    CUDA_TRY(err, cudaDeviceSynchronize());
    return GLOFND_OK;
}
