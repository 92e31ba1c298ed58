/* kmeans_cuda.c - see kmeans_cuda.h: memory, and the order of the kernels. The host only looks whether groups are empty and
 * whether something has moved. */
#include "kmeans/kmeans_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "kmeans/kmeans_kernels.h"
#include "nn/cuda/cunn_kernels.h"
#include "util/array.h"

#define ALIGN 256
#define CHUNK_BYTES ((size_t)64 << 20) /* of embeddings on their way */
#define LD_MULTIPLE 16                 /* of the product */

typedef struct clusters {
    const gf_kmeans *k;
    const gf_vectors *v;
    cudaStream_t stream;
    char *block;
    gf_kmeans_rows points, centres;
    gf_kmeans_groups groups;
    int32_t *of, *next; /* [n] groups now, and after the next assignment */
    float *best, *confidence;
    void *sort;     /* scratch */
    int64_t *index; /* [groups] embeddings that centroids begin as */
    gf_kmeans_move *moves;
    int64_t *bad;       /* [1] */
    int32_t *changed;   /* [1] */
    int64_t *host_size; /* host [groups] */
} clusters;

/* ----- memory ----- */

typedef struct cursor {
    char *base; /* NULL: only count */
    size_t used;
} cursor;

static void *take_bytes(cursor *at, int64_t count, size_t size) {
    const size_t here = at->used;
    at->used += ((size_t)count * size + ALIGN - 1) / ALIGN * ALIGN;
    return at->base ? at->base + here : NULL;
}

#define TAKE(at, pointer, count) ((pointer) = take_bytes((at), (count), sizeof *(pointer)))

static void lay_rows(cursor *at, gf_kmeans_rows *x, int64_t n, int64_t dim) {
    const int64_t ld = (dim + LD_MULTIPLE - 1) / LD_MULTIPLE * LD_MULTIPLE;
    *x = (gf_kmeans_rows){.n = n, .dim = (int)dim, .ld = (int)ld};
    TAKE(at, x->raw, n * dim), TAKE(at, x->scale, n), TAKE(at, x->unit, n * ld);
}

static size_t lay_out(clusters *c, char *base) {
    const int64_t n = c->v->n, dim = c->v->dim, groups = c->k->groups;
    cursor at = {base, 0};
    lay_rows(&at, &c->points, n, dim);
    lay_rows(&at, &c->centres, groups, dim);
    c->groups.groups = groups;
    TAKE(&at, c->groups.first, groups + 1), TAKE(&at, c->groups.sum, groups * dim), TAKE(&at, c->groups.size, groups);
    TAKE(&at, c->of, n), TAKE(&at, c->next, n), TAKE(&at, c->best, n), TAKE(&at, c->confidence, n);
    c->sort = take_bytes(&at, 1, gf_cunn_sort_bytes(n));
    TAKE(&at, c->index, groups), TAKE(&at, c->moves, groups), TAKE(&at, c->bad, 1), TAKE(&at, c->changed, 1);
    return at.used;
}

static glofnd_status allocate(gf_error *err, clusters *c) {
    const size_t bytes = lay_out(c, NULL);
    CUDA_TRY_AS(err, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), "stream");
    const cudaError_t e = cudaMalloc((void **)&c->block, bytes);
    if (e != cudaSuccess) (void)cudaGetLastError();
    FAIL_IF(err, e == cudaErrorMemoryAllocation, GLOFND_E_MEMORY,
            "k-means: %lld embeddings of %lld numbers and %lld centroids take %.2f GB on the GPU", (long long)c->v->n,
            (long long)c->v->dim, (long long)c->k->groups, (double)bytes / 1e9);
    CUDA_TRY_AS(err, e, "memory of k-means");
    lay_out(c, c->block);
    c->host_size = malloc(sizeof *c->host_size * (size_t)c->k->groups);
    FAIL_IF(err, !c->host_size, GLOFND_E_MEMORY, "no memory for the sizes of %lld groups", (long long)c->k->groups);
    return GLOFND_OK;
}

/* Copies, and waits. */
static glofnd_status copy_and_wait(gf_error *err, const clusters *c, void *to, const void *from, size_t bytes) {
    CUDA_TRY_AS(err, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, c->stream), "copy of k-means");
    CUDA_TRY_AS(err, cudaStreamSynchronize(c->stream), "k-means");
    return GLOFND_OK;
}

/* ----- embeddings ----- */

/* Unit vectors of the embeddings, which come in pieces unless they lie one after the other. */
static glofnd_status upload_points(gf_error *err, const clusters *c) {
    const gf_vectors *v = c->v;
    const size_t row_bytes = (size_t)v->dim * sizeof *v->x;
    const int64_t piece = v->row ? GF_MAX(1, GF_MIN(v->n, (int64_t)(CHUNK_BYTES / row_bytes))) : v->n;
    float *rows = v->row ? malloc((size_t)piece * row_bytes) : NULL;
    FAIL_IF(err, v->row && !rows, GLOFND_E_MEMORY, "no memory to copy embeddings to the GPU");
    glofnd_status status = GLOFND_OK;
    for (int64_t first = 0; first < v->n && status == GLOFND_OK; first += piece) {
        const int64_t count = GF_MIN(piece, v->n - first);
        for (int64_t i = 0; v->row && i < count; i++)
            memcpy(rows + i * v->dim, v->x + (int64_t)v->row[first + i] * v->dim, row_bytes);
        status = copy_and_wait(err, c, c->points.raw + first * v->dim, v->row ? rows : v->x, (size_t)count * row_bytes);
    }
    free(rows);
    TRY(status);
    int64_t bad = v->n;
    TRY(copy_and_wait(err, c, c->bad, &bad, sizeof bad));
    CUDA_TRY_AS(err, gf_kmeans_unit(&c->points, c->bad, c->stream), "unit vectors");
    TRY(copy_and_wait(err, c, &bad, c->bad, sizeof bad));
    FAIL_IF(err, bad < v->n, GLOFND_E_NUMERIC, "%s %lld is not finite", v->name ? v->name : "embedding", (long long)bad);
    return GLOFND_OK;
}

/* ----- iterations ----- */

static glofnd_status draw_centres(gf_error *err, const clusters *c) {
    const int64_t groups = c->k->groups;
    int64_t *index = malloc(sizeof *index * (size_t)groups);
    FAIL_IF(err, !index, GLOFND_E_MEMORY, "no memory for %lld centroids", (long long)groups);
    for (int64_t g = 0; g < groups; g++) index[g] = gf_kmeans_start(c->k, c->v->n, g);
    const glofnd_status status = copy_and_wait(err, c, c->index, index, sizeof *index * (size_t)groups);
    free(index);
    TRY(status);
    CUDA_TRY_AS(err, gf_kmeans_gather(&c->points, c->index, groups, c->centres.raw, c->stream), "centroids");
    return GLOFND_OK;
}

static glofnd_status assign(gf_error *err, const clusters *c, int32_t *of, float *confidence) {
    CUDA_TRY_AS(err, gf_kmeans_unit(&c->centres, c->bad, c->stream), "unit vectors");
    CUDA_TRY_AS(err, gf_kmeans_assign(&c->points, &c->centres, c->k->tau, of, c->best, confidence, c->stream),
                "assignment to centroids");
    return GLOFND_OK;
}

/* The moves are chosen on the host, as on the CPU; then sums and sizes follow them. */
static glofnd_status fill_empty(gf_error *err, const clusters *c) {
    const size_t n = (size_t)c->v->n;
    gf_kmeans_move *moves = NULL;
    int64_t count = 0;
    int32_t *of = malloc(n * sizeof *of);
    float *best = malloc(n * sizeof *best);
    glofnd_status status = of && best ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for empty groups");
    if (status == GLOFND_OK) status = copy_and_wait(err, c, of, c->of, sizeof *of * n);
    if (status == GLOFND_OK) status = copy_and_wait(err, c, best, c->best, sizeof *best * n);
    if (status == GLOFND_OK) status = gf_kmeans_fill(err, best, c->v->n, c->k->groups, of, c->host_size, &moves, &count);
    if (status == GLOFND_OK && count > 0) status = copy_and_wait(err, c, c->moves, moves, sizeof *moves * (size_t)count);
    free(of);
    free(best);
    free(moves);
    TRY(status);
    if (count > 0) CUDA_TRY_AS(err, gf_kmeans_apply(&c->points, c->moves, count, &c->groups, c->stream), "empty groups");
    return GLOFND_OK;
}

static glofnd_status move_centres(gf_error *err, const clusters *c) {
    const int64_t groups = c->k->groups;
    int64_t empty = 0;
    const gf_cunn_sorted by_group = gf_cunn_sort_on(c->stream, c->of, c->v->n, groups, c->sort);
    CUDA_TRY_AS(err, cudaGetLastError(), "sorting by groups");
    CUDA_TRY_AS(err, gf_kmeans_count(by_group.key, c->v->n, &c->groups, c->stream), "sizes of groups");
    CUDA_TRY_AS(err, gf_kmeans_sum(&c->points, by_group.position, &c->groups, c->stream), "sums of groups");
    TRY(copy_and_wait(err, c, c->host_size, c->groups.size, sizeof *c->host_size * (size_t)groups));
    for (int64_t g = 0; g < groups; g++) empty += c->host_size[g] == 0;
    if (empty > 0) TRY(fill_empty(err, c));
    CUDA_TRY_AS(err, gf_kmeans_mean(&c->groups, c->points.dim, c->centres.raw, c->stream), "centroids");
    return GLOFND_OK;
}

static glofnd_status run_kmeans(gf_error *err, clusters *c, int32_t *of, float *confidence) {
    const size_t n = (size_t)c->v->n;
    int32_t changed = 1; /* some embedding has another group */
    TRY(allocate(err, c));
    TRY(upload_points(err, c));
    TRY(draw_centres(err, c));
    TRY(assign(err, c, c->of, NULL));
    for (int step = 0; step < c->k->iterations && changed; step++) {
        TRY(move_centres(err, c));
        TRY(assign(err, c, c->next, NULL));
        CUDA_TRY_AS(err, cudaMemsetAsync(c->changed, 0, sizeof *c->changed, c->stream), "a flag");
        CUDA_TRY_AS(err, gf_kmeans_compare(c->of, c->next, c->v->n, c->changed, c->stream), "comparison of groups");
        TRY(copy_and_wait(err, c, &changed, c->changed, sizeof changed));
        int32_t *const now = c->next;
        c->next = c->of, c->of = now;
    }
    TRY(assign(err, c, c->of, c->confidence)); /* the same groups, now with sums */
    TRY(copy_and_wait(err, c, of, c->of, sizeof *of * n));
    return copy_and_wait(err, c, confidence, c->confidence, sizeof *confidence * n);
}

glofnd_status gf_kmeans_cuda(gf_error *err, const gf_kmeans *k, const gf_vectors *v, int32_t *of, float *confidence) {
    clusters c = {.k = k, .v = v};
    TRY(gf_kmeans_check(err, k, v));
    FAIL_IF(err, v->n >= INT32_MAX || v->dim < 1 || v->dim > 1 << 20, GLOFND_E_ARGUMENT,
            "k-means: %lld embeddings of %lld numbers; expected less than 2^31 - 1 of 1 to 2^20", (long long)v->n,
            (long long)v->dim);
    const glofnd_status status = run_kmeans(err, &c, of, confidence);
    if (c.stream) cudaStreamSynchronize(c.stream);
    cudaFree(c.block);
    if (c.stream) cudaStreamDestroy(c.stream);
    free(c.host_size);
    return status;
}
