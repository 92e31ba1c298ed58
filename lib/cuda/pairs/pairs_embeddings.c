/* pairs_embeddings.c - embeddings to the GPU; see pairs_state.h. */
#include <stdlib.h>
#include <string.h>

#include "cuda/pairs/pairs_state.h"

#define CHUNK_BYTES ((size_t)64 << 20) /* of rows on their way */

int64_t gf_cuda_pairs_padded(int64_t n) { return (n + GF_PAIRS_GROUP - 1) / GF_PAIRS_GROUP * GF_PAIRS_GROUP; }

static int64_t padded_dim(int64_t dim) { return (dim + 31) / 32 * 32; }

size_t gf_cuda_pairs_embeddings(int64_t n, int64_t dim) {
    return (size_t)gf_cuda_pairs_padded(n) * ((size_t)padded_dim(dim) * (sizeof(float) + sizeof(uint16_t)) + sizeof(float));
}

/* Rows [first, first + count) of v one after the other: where they lie already, or gathered into `copy`. */
static const float *contiguous(const gf_vectors *v, int64_t first, int64_t count, float *copy) {
    const int32_t *row = v->row ? v->row + first : NULL;
    int64_t run = 1;
    if (!row) return v->x + first * v->dim;
    while (run < count && row[run] == row[0] + run) run++;
    if (run == count) return v->x + (int64_t)row[0] * v->dim;
    for (int64_t i = 0; i < count; i++) memcpy(copy + i * v->dim, v->x + (int64_t)row[i] * v->dim, (size_t)v->dim * sizeof *copy);
    return copy;
}

static glofnd_status upload(gf_error *err, gf_cuda_pairs *c, const gf_vectors *v, float *copy, float *raw, int64_t chunk,
                            gf_pairs_side *to) {
    for (int64_t first = 0; first < to->n; first += chunk) {
        const int64_t count = to->n - first < chunk ? to->n - first : chunk;
        const float *from = contiguous(v, first, count, copy);
        PAIRS_TRY(err, cudaMemcpyAsync(raw, from, (size_t)(count * to->dim) * sizeof *raw, cudaMemcpyHostToDevice, c->stream),
                  "embeddings to the device");
        PAIRS_TRY(err, gf_pairs_unit(raw, count, first, to, c->stream), "unit vectors");
        PAIRS_TRY(err, cudaStreamSynchronize(c->stream), "unit vectors");
    }
    return GLOFND_OK;
}

glofnd_status gf_cuda_pairs_side_alloc(gf_error *err, gf_cuda_pairs *c, int64_t n, int64_t dim, gf_pairs_side *s) {
    const size_t rows = (size_t)gf_cuda_pairs_padded(n);
    *s = (gf_pairs_side){.n = n, .dim = (int)dim, .ld = (int)padded_dim(dim)};
    cudaError_t e = cudaMalloc((void **)&s->x, rows * (size_t)s->ld * sizeof *s->x);
    if (e == cudaSuccess && c->fast) e = cudaMalloc(&s->half, rows * (size_t)s->ld * sizeof(uint16_t));
    if (e == cudaSuccess) e = cudaMalloc((void **)&s->lost, rows * sizeof *s->lost);
    FAIL_IF(err, e != cudaSuccess, GLOFND_E_MEMORY, "%lld x %lld embeddings take %.2f GB on the GPU: %s; use --device cpu",
            (long long)n, (long long)dim, (double)gf_cuda_pairs_embeddings(n, dim) / 1e9, cudaGetErrorString(e));
    const size_t tail = rows - (size_t)n, at = (size_t)n * (size_t)s->ld;
    PAIRS_TRY(err, cudaMemsetAsync(s->x + at, 0, tail * (size_t)s->ld * sizeof *s->x, c->stream), "padding");
    if (s->half)
        PAIRS_TRY(err, cudaMemsetAsync((uint16_t *)s->half + at, 0, tail * (size_t)s->ld * sizeof(uint16_t), c->stream),
                  "padding");
    return GLOFND_OK;
}

glofnd_status gf_cuda_pairs_side(gf_error *err, gf_cuda_pairs *c, const gf_vectors *v, gf_pairs_side *out) {
    const size_t row_bytes = (size_t)v->dim * sizeof(float);
    int64_t chunk = (int64_t)(CHUNK_BYTES / row_bytes);
    if (chunk < 1) chunk = 1;
    if (chunk > v->n) chunk = v->n;
    float *raw = NULL, *copy = NULL;
    TRY(gf_cuda_pairs_side_alloc(err, c, v->n, v->dim, out));
    cudaError_t e = cudaMalloc((void **)&raw, (size_t)chunk * row_bytes);
    copy = malloc((size_t)chunk * row_bytes);
    const glofnd_status status = e == cudaSuccess && copy
                                     ? upload(err, c, v, copy, raw, chunk, out)
                                     : gf_fail(err, GLOFND_E_MEMORY, "no memory to copy embeddings to the GPU");
    cudaFree(raw);
    free(copy);
    return status;
}

void gf_cuda_pairs_side_free(gf_pairs_side *s) {
    cudaFree(s->x);
    cudaFree(s->half);
    cudaFree(s->lost);
    *s = (gf_pairs_side){0};
}

glofnd_status gf_cuda_pairs_lost_max(gf_error *err, gf_cuda_pairs *c) {
    float *max = NULL;
    PAIRS_TRY(err, cudaMalloc((void **)&max, sizeof *max), "memory");
    cudaError_t e = cudaMemsetAsync(max, 0, sizeof *max, c->stream);
    if (e == cudaSuccess) e = gf_pairs_largest(c->k.lost, c->k.n, max, c->stream);
    if (e == cudaSuccess) e = cudaMemcpyAsync(&c->lost_max, max, sizeof *max, cudaMemcpyDeviceToHost, c->stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(c->stream);
    cudaFree(max);
    PAIRS_TRY(err, e, "roundings of the embeddings");
    return GLOFND_OK;
}

glofnd_status gf_cuda_pairs_create(gf_error *err, int64_t n, int64_t dim, gf_cuda_pairs **out) {
    char why[200];
    *out = NULL;
    FAIL_IF(err, gf_cuda_devices(why, sizeof why) == 0, GLOFND_E_DEVICE, "no CUDA device: %s; use --device cpu", why);
    FAIL_IF(err, n < 1 || n >= INT32_MAX || dim < 1 || dim > 1 << 20, GLOFND_E_ARGUMENT,
            "%lld embeddings of %lld numbers; expected 1 .. 2^31 - 2 of 1 .. 2^20", (long long)n, (long long)dim);
    gf_cuda_pairs *c = calloc(1, sizeof *c);
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory for embeddings");
    c->fast = gf_pairs_product_open(err, &c->product) == GLOFND_OK;
    const cudaError_t e = cudaStreamCreate(&c->stream);
    const glofnd_status status = e == cudaSuccess ? GLOFND_OK : gf_cuda_fail(err, e, "stream");
    if (status == GLOFND_OK) *out = c;
    else gf_cuda_pairs_close(c);
    return status;
}

glofnd_status gf_cuda_pairs_open(gf_error *err, const gf_vectors *rows, int threads, void **state) {
    gf_cuda_pairs *c = NULL;
    (void)threads;
    TRY(gf_cuda_pairs_create(err, rows->n, rows->dim, &c));
    glofnd_status status = gf_cuda_pairs_side(err, c, rows, &c->k);
    if (status == GLOFND_OK && c->fast) status = gf_cuda_pairs_lost_max(err, c);
    if (status == GLOFND_OK) *state = c;
    else gf_cuda_pairs_close(c);
    return status;
}

void gf_cuda_pairs_close(void *state) {
    gf_cuda_pairs *c = state;
    if (!c) return;
    gf_cuda_pairs_side_free(&c->k);
    gf_pairs_product_close(&c->product);
    if (c->stream) cudaStreamDestroy(c->stream);
    free(c);
}
