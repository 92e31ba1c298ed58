/* cunn_attention.c - attention as an op: splits its arrays and chooses the kernels. See cunn_attention.h. */
#include "nn/cuda/cunn_attention.h"

#include <math.h>

static void *loose(const void *p) { return (void *)(uintptr_t)p; }

/* Column `part` of parts of `out` numbers side by side in rows of `step`. */
static gf_cunn_heads part_of(const gf_nn_shape *s, const void *x, int part, int parts) {
    char *at = loose(x);
    return (gf_cunn_heads){at ? at + gf_type_bytes(s->type) * (size_t)(part * s->out) : NULL, parts * s->out};
}

static gf_cunn_attention task_of(const gf_nn_op *op, const gf_nn_args *a) {
    const gf_nn_shape *s = &op->shape;
    const int parts = s->second ? 2 : 3, dim = (int)(s->out / s->heads);
    gf_cunn_attention t = {.type = s->type,
                           .n = s->n,
                           .heads = s->heads,
                           .dim = dim,
                           .length = (int)(s->h * s->w),
                           .causal = s->causal,
                           .scale = 1.0f / sqrtf((float)dim),
                           .y = {a->y, s->out},
                           .dy = {loose(a->dy), s->out},
                           .log_sums = s->training ? a->saved : NULL};
    if (s->packed) t.first = a->texts->first, t.mean = (int)(a->texts->rows / s->n);
    t.k = part_of(s, a->x, parts - 2, parts), t.dk = part_of(s, a->dx, parts - 2, parts);
    t.v = part_of(s, a->x, parts - 1, parts), t.dv = part_of(s, a->dx, parts - 1, parts);
    if (s->second) t.q = (gf_cunn_heads){loose(a->x2), s->out}, t.dq = (gf_cunn_heads){a->dx2, s->out};
    else t.q = part_of(s, a->x, 0, parts), t.dq = part_of(s, a->dx, 0, parts);
    return t;
}

glofnd_status gf_cunn_attention_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const size_t sums = sizeof(float) * (size_t)(s->n * s->heads * s->h * s->w);
    FAIL_IF(err, s->heads < 1 || s->out % s->heads, GLOFND_E_UNSUPPORTED,
            "attention: %lld numbers cannot be divided into %d heads", (long long)s->out, s->heads);
    FAIL_IF(err, s->out / s->heads > GF_CUNN_ATTENTION_DIM, GLOFND_E_UNSUPPORTED,
            "attention: heads of %lld numbers; CUDA takes at most %d: use more heads, or device = cpu",
            (long long)(s->out / s->heads), (int)GF_CUNN_ATTENTION_DIM);
    FAIL_IF(err, s->n * s->heads > INT32_MAX || s->h * s->w > 1 << 16, GLOFND_E_UNSUPPORTED,
            "attention: %lld images of %d heads and %lld positions are too many for one launch: use a smaller batch",
            (long long)s->n, s->heads, (long long)(s->h * s->w));
    if (s->training) sizes->saved = sums;
    else if (s->second) sizes->scratch = sums; /* for the weights of one query */
    return GLOFND_OK;
}

glofnd_status gf_cunn_attention_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_cunn_attention t = task_of(op, a);
    if (op->shape.second) gf_cunn_attention_one(op->engine, &t, op->shape.training ? a->saved : a->scratch);
    else if (gf_cunn_attention_mma_fits(&t)) gf_cunn_attention_mma(op->engine, &t);
    else gf_cunn_attention_fma(op->engine, &t);
    return GLOFND_OK;
}

glofnd_status gf_cunn_attention_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_cunn_attention t = task_of(op, a);
    if (op->shape.second) gf_cunn_attention_one_back(op->engine, &t, a->saved);
    else if (gf_cunn_attention_mma_fits(&t)) gf_cunn_attention_mma_back(op->engine, &t);
    else gf_cunn_attention_fma_back(op->engine, &t);
    return GLOFND_OK;
}
