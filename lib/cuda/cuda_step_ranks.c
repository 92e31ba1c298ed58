/* cuda_step_ranks.c - see cuda_step_ranks.h. */
#include "cuda/cuda_step_ranks.h"

static glofnd_status reduce(gf_error *err, const gf_device_step *x, double *sum, int n) {
    const int failed = x->reduce(x->reduce_user, sum, n);
    FAIL_IF(err, failed, GLOFND_E_ARGUMENT, "the sum over ranks given to glofnd_ctx_reduce failed");
    return GLOFND_OK;
}

glofnd_status gf_cuda_sum_ranks(gf_error *err, gf_device_ctx *d, const gf_device_step *x, double *where, int n) {
    double sum[2];
    CUDA_TRY(err, cudaMemcpyAsync(sum, where, sizeof *sum * (size_t)n, cudaMemcpyDeviceToHost, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    TRY(reduce(err, x, sum, n));
    CUDA_TRY(err, cudaMemcpyAsync(where, sum, sizeof *sum * (size_t)n, cudaMemcpyHostToDevice, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    return GLOFND_OK;
}

/* Copies a flag of the device to the host, which must act on it. Waits. */
static glofnd_status read_flag(gf_error *err, gf_device_ctx *d, const int32_t *flag, int *value) {
    int32_t now = 0;
    CUDA_TRY(err, cudaMemcpyAsync(&now, flag, sizeof now, cudaMemcpyDeviceToHost, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    *value = now;
    return GLOFND_OK;
}

glofnd_status gf_cuda_sum_starts(gf_error *err, gf_device_ctx *d, const gf_device_step *x, int i) {
    int starts = 0;
    if (!x->reduce) return GLOFND_OK;
    TRY(read_flag(err, d, &d->control->starts[i], &starts));
    return starts ? gf_cuda_sum_ranks(err, d, x, d->control->quantile[i], 2) : GLOFND_OK;
}

glofnd_status gf_cuda_sum_above(gf_error *err, gf_device_ctx *d, const gf_device_step *x, int i) {
    int moves = 0;
    if (!x->reduce) return GLOFND_OK;
    TRY(read_flag(err, d, &d->control->shared_open[i], &moves));
    return moves ? gf_cuda_sum_ranks(err, d, x, d->control->above[i], 2) : GLOFND_OK;
}

/* Official, two views: u starts anew only if no anchor of the batch has one, on any rank. */
glofnd_status gf_cuda_sum_seen(gf_error *err, gf_device_ctx *d, const gf_device_step *x) {
    int64_t seen = 0;
    if (!x->reduce || !x->plan->official || x->plan->sides != 1) return GLOFND_OK;
    CUDA_TRY(err, cudaMemcpyAsync(&seen, &d->control->seen, sizeof seen, cudaMemcpyDeviceToHost, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    double sum = (double)seen;
    TRY(reduce(err, x, &sum, 1));
    seen = (int64_t)sum;
    CUDA_TRY(err, cudaMemcpyAsync(&d->control->seen, &seen, sizeof seen, cudaMemcpyHostToDevice, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    return GLOFND_OK;
}
