/* cuda_pairs_rows.c - embeddings to the device; see cuda_pairs.h. */
#include <stdlib.h>
#include <string.h>

#include "cuda/pairs/cuda_pairs_state.h"
#include "cuda/step/cuda_device.h"

#define CHUNK_BYTES ((size_t)64 << 20) /* of rows on their way */

int64_t gf_cuda_pairs_padded(int64_t n) { return (n + GF_PAIRS_GROUP - 1) / GF_PAIRS_GROUP * GF_PAIRS_GROUP; }

static int64_t padded_dim(int64_t dim) { return (dim + 31) / 32 * 32; }

size_t gf_cuda_pairs_embeddings(int64_t n, int64_t dim) {
    return (size_t)gf_cuda_pairs_padded(n) * ((size_t)padded_dim(dim) * (sizeof(float) + sizeof(uint16_t)) + sizeof(float));
}

/* Rows row[first .. first + count) one after the other: as they lie in x, or gathered into `room`. */
static const float *together(const float *x, const int32_t *row, int64_t first, int64_t count, int64_t dim, float *room) {
    int64_t run = 1;
    if (!row) return x + first * dim;
    while (run < count && row[first + run] == row[first] + run) run++;
    if (run == count) return x + (int64_t)row[first] * dim;
    for (int64_t i = 0; i < count; i++) memcpy(room + i * dim, x + (int64_t)row[first + i] * dim, (size_t)dim * sizeof *room);
    return room;
}

static glofnd_status upload(gf_error *err, gf_cuda_pairs *c, const float *x, const int32_t *row, float *room, float *raw,
                            int64_t chunk, gf_pairs_side *to) {
    for (int64_t first = 0; first < to->n; first += chunk) {
        const int64_t count = to->n - first < chunk ? to->n - first : chunk;
        const float *from = together(x, row, first, count, to->dim, room);
        SEEK_TRY(err, cudaMemcpyAsync(raw, from, (size_t)(count * to->dim) * sizeof *raw, cudaMemcpyHostToDevice, c->stream),
                 "embeddings to the device");
        SEEK_TRY(err, gf_pairs_unit(raw, count, first, to, c->stream), "unit vectors");
        SEEK_TRY(err, cudaStreamSynchronize(c->stream), "unit vectors");
    }
    return GLOFND_OK;
}

static glofnd_status allocate(gf_error *err, gf_cuda_pairs *c, int64_t n, int64_t dim, gf_pairs_side *s) {
    const size_t rows = (size_t)gf_cuda_pairs_padded(n);
    *s = (gf_pairs_side){.n = n, .dim = (int)dim, .ld = (int)padded_dim(dim)};
    cudaError_t e = cudaMalloc((void **)&s->x, rows * (size_t)s->ld * sizeof *s->x);
    if (e == cudaSuccess && c->fast) e = cudaMalloc(&s->half, rows * (size_t)s->ld * sizeof(uint16_t));
    if (e == cudaSuccess) e = cudaMalloc((void **)&s->lost, rows * sizeof *s->lost);
    FAIL_IF(err, e != cudaSuccess, GLOFND_E_MEMORY, "%lld x %lld embeddings take %.2f GB on the GPU: %s; take --device cpu",
            (long long)n, (long long)dim, (double)gf_cuda_pairs_embeddings(n, dim) / 1e9, cudaGetErrorString(e));
    const size_t tail = rows - (size_t)n, at = (size_t)n * (size_t)s->ld;
    SEEK_TRY(err, cudaMemsetAsync(s->x + at, 0, tail * (size_t)s->ld * sizeof *s->x, c->stream), "padding");
    if (s->half)
        SEEK_TRY(err, cudaMemsetAsync((uint16_t *)s->half + at, 0, tail * (size_t)s->ld * sizeof(uint16_t), c->stream),
                 "padding");
    return GLOFND_OK;
}

glofnd_status gf_cuda_pairs_side(gf_error *err, gf_cuda_pairs *c, const float *x, const int32_t *row, int64_t n,
                                 gf_pairs_side *out) {
    const int64_t dim = out->dim;
    const size_t row_bytes = (size_t)dim * sizeof(float);
    int64_t chunk = (int64_t)(CHUNK_BYTES / row_bytes);
    if (chunk < 1) chunk = 1;
    if (chunk > n) chunk = n;
    float *raw = NULL, *room = NULL;
    TRY(allocate(err, c, n, dim, out));
    cudaError_t e = cudaMalloc((void **)&raw, (size_t)chunk * row_bytes);
    room = malloc((size_t)chunk * row_bytes);
    const glofnd_status status = e == cudaSuccess && room
                                     ? upload(err, c, x, row, room, raw, chunk, out)
                                     : gf_fail(err, GLOFND_E_MEMORY, "no memory to copy embeddings to the GPU");
    cudaFree(raw);
    free(room);
    return status;
}

void gf_cuda_pairs_side_free(gf_pairs_side *s) {
    cudaFree(s->x);
    cudaFree(s->half);
    cudaFree(s->lost);
    *s = (gf_pairs_side){0};
}

static glofnd_status find_most(gf_error *err, gf_cuda_pairs *c) {
    float *most = NULL;
    SEEK_TRY(err, cudaMalloc((void **)&most, sizeof *most), "memory");
    cudaError_t e = cudaMemsetAsync(most, 0, sizeof *most, c->stream);
    if (e == cudaSuccess) e = gf_pairs_largest(c->k.lost, c->k.n, most, c->stream);
    if (e == cudaSuccess) e = cudaMemcpyAsync(&c->lost_most, most, sizeof *most, cudaMemcpyDeviceToHost, c->stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(c->stream);
    cudaFree(most);
    SEEK_TRY(err, e, "roundings of the embeddings");
    return GLOFND_OK;
}

glofnd_status gf_cuda_pairs_open(gf_error *err, const float *x, const int32_t *row, int64_t n, int64_t dim, gf_cuda_pairs **out) {
    char why[200];
    FAIL_IF(err, gf_cuda_devices(why, sizeof why) == 0, GLOFND_E_DEVICE, "no CUDA device: %s; take --device cpu", why);
    FAIL_IF(err, n < 1 || n >= INT32_MAX || dim < 1 || dim > 1 << 20, GLOFND_E_ARGUMENT, "%lld embeddings of %lld numbers",
            (long long)n, (long long)dim);
    gf_cuda_pairs *c = calloc(1, sizeof *c);
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory for embeddings");
    c->fast = gf_pairs_product_open(err, &c->product) == GLOFND_OK;
    c->k.dim = (int)dim;
    const cudaError_t e = cudaStreamCreate(&c->stream);
    glofnd_status status = e == cudaSuccess ? GLOFND_OK : gf_cuda_fail(err, e, "stream");
    if (status == GLOFND_OK) status = gf_cuda_pairs_side(err, c, x, row, n, &c->k);
    if (status == GLOFND_OK && c->fast) status = find_most(err, c);
    if (status == GLOFND_OK) *out = c;
    else gf_cuda_pairs_close(c);
    return status;
}

int64_t gf_cuda_pairs_count(const gf_cuda_pairs *c) { return c->k.n; }

void gf_cuda_pairs_close(gf_cuda_pairs *c) {
    if (!c) return;
    gf_cuda_pairs_side_free(&c->k);
    gf_pairs_product_close(&c->product);
    if (c->stream) cudaStreamDestroy(c->stream);
    free(c);
}
