/* cuda_support.c - FNC: the support vectors of the batch become unit rows, several per sample, or their mean. */
#include "cuda/cuda_step.h"

int gf_cuda_scores(const gf_device_step *x) {
    return x->q->support_a && x->plan->o.fnc_aggregate == GLOFND_FNC_MAX ? (int)x->shape->support : 1;
}

/* Copy n of the support vectors of a side. */
static gf_cuda_embed support_copy(const gf_device_ctx *d, int side, int64_t n) {
    gf_cuda_embed e = d->side[side].support;
    const int64_t at = n * e.f32.rows * e.f32.ld;
    e.f32.row += at;
    e.hi = e.hi ? (uint16_t *)e.hi + at : NULL;
    e.lo = e.lo ? (uint16_t *)e.lo + at : NULL;
    return e;
}

/* Support vectors only rank pairs, so their length does not matter: always normalised. */
glofnd_status gf_cuda_embed_support(gf_error *err, gf_device_ctx *d, const gf_device_step *x, const gf_cuda_step *t) {
    const int last = x->plan->sides - 1;
    const size_t bytes = (size_t)(x->q->cols * x->q->dim) * gf_dtype_bytes(x->q->dtype);
    const char *rows[2] = {x->q->support_a, last ? x->q->support_b : x->q->support_a};
    if (!x->plan->topk || !x->q->support_a) return GLOFND_OK;
    for (int64_t n = 0; n < x->shape->support; n++) {
        const gf_cuda_embed a = support_copy(d, 0, n), b = support_copy(d, last, n);
        const gf_cuda_embed_job job = {.a = {rows[0] + (size_t)n * bytes, x->q->dim, x->q->dtype},
                                       .b = {rows[1] + (size_t)n * bytes, x->q->dim, x->q->dtype},
                                       .za = &a,
                                       .zb = &b,
                                       .rows = x->q->cols,
                                       .first_b = 1 - last,
                                       .step = x->plan->per_sample,
                                       .normalize = 1,
                                       .bad = &d->control->bad_support};
        CUDA_TRY(err, gf_cuda_embed_rows(&job, d->stream));
    }
    for (int i = 0; i <= last && gf_cuda_scores(x) == 1 && x->shape->support > 1; i++)
        CUDA_TRY(err, gf_cuda_average_support(t, i, x->shape->support, d->stream));
    return GLOFND_OK;
}
