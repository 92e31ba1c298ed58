/* cuda_thresholds.c - exact thresholds of given embeddings on the device, for evaluation. Allocates memory and waits. */
#include <string.h>

#include "cuda/cuda_step.h"

typedef struct tables {
    gf_cuda_embed q, k;
    int64_t *col_id, *bad; /* bad [2]: of q, of k */
    void *scratch;
} tables;

static glofnd_status find_thresholds(gf_error *err, gf_device_ctx *d, const gf_device_thresholds *x, tables *t) {
    const int64_t ld = gf_cuda_embed_ld(x->dim), fine[2] = {GF_CUDA_FINE, GF_CUDA_FINE};
    int64_t bad[2];
    t->q.f32 = (gf_cuda_matrix){.rows = x->rows, .dim = x->dim, .ld = ld};
    t->k.f32 = (gf_cuda_matrix){.rows = x->cols, .dim = x->dim, .ld = ld};
    CUDA_TRY(err, cudaMalloc((void **)&t->q.f32.row, sizeof(float) * (size_t)(x->rows * ld)));
    CUDA_TRY(err, cudaMalloc((void **)&t->k.f32.row, sizeof(float) * (size_t)(x->cols * ld)));
    CUDA_TRY(err, cudaMalloc((void **)&t->col_id, sizeof(int64_t) * (size_t)x->cols));
    CUDA_TRY(err, cudaMalloc((void **)&t->bad, 2 * sizeof *t->bad));
    CUDA_TRY(err, cudaMalloc(&t->scratch, gf_cuda_select_scratch(x->rows, x->cols)));

    CUDA_TRY(err, cudaMemcpyAsync(t->bad, fine, sizeof fine, cudaMemcpyHostToDevice, d->stream));
    for (int i = 0; i < 2; i++) {
        const gf_cuda_embed_job job = {.a = {i ? x->k : x->q, i ? x->k_stride : x->q_stride, x->dtype},
                                       .za = i ? &t->k : &t->q,
                                       .rows = i ? x->cols : x->rows,
                                       .step = 1,
                                       .normalize = x->normalize,
                                       .bad = t->bad + i};
        CUDA_TRY(err, gf_cuda_embed_rows(&job, d->stream));
    }
    CUDA_TRY(err, cudaMemcpyAsync(bad, t->bad, sizeof bad, cudaMemcpyDeviceToHost, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    for (int i = 0; i < 2; i++)
        FAIL_IF(err, bad[i] != GF_CUDA_FINE, GLOFND_E_NUMERIC, "%s: row %lld is not finite, or not a unit row without normalize",
                i ? "k" : "q", (long long)(bad[i] / 2));

    gf_cuda_select p = {.q = &t->q,
                        .k = &t->k,
                        .shift = -1,
                        .best = x->best,
                        .alpha = x->alpha,
                        .round_up = 1,
                        .value = x->out,
                        .scratch = t->scratch,
                        .math = GF_CUDA_EXACT};
    if (x->skip) {
        CUDA_TRY(err, gf_cuda_iota(t->col_id, x->cols, d->stream));
        p.row_id = x->skip;
        p.col_id = t->col_id;
    }
    CUDA_TRY(err, gf_cuda_select_rows(&p, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    return GLOFND_OK;
}

glofnd_status gf_cuda_thresholds(gf_error *err, gf_device_ctx *d, const gf_device_thresholds *x) {
    tables t;
    memset(&t, 0, sizeof t);
    TRY(gf_cuda_check_current(err, d));
    const glofnd_status status = find_thresholds(err, d, x, &t);
    cudaFree(t.q.f32.row);
    cudaFree(t.k.f32.row);
    cudaFree(t.col_id);
    cudaFree(t.bad);
    cudaFree(t.scratch);
    return status;
}
