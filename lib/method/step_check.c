/* step_check.c - checks of a step's arguments, before anything changes. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "method/options.h"
#include "method/step.h"

glofnd_status gf_batch_take(gf_error *err, const glofnd_batch *q, glofnd_batch *out) {
    FAIL_IF(err, !q, GLOFND_E_ARGUMENT, "batch is NULL");
    TRY(gf_struct_check(err, "batch", "glofnd_batch", q->size, offsetof(glofnd_batch, bank_a), sizeof *q));
    *out = (glofnd_batch){0};
    memcpy(out, q, q->size);
    if (out->a_stride == 0) out->a_stride = q->dim;
    if (out->b_stride == 0) out->b_stride = q->dim;
    if (out->grad_a_stride == 0) out->grad_a_stride = q->dim;
    if (out->grad_b_stride == 0) out->grad_b_stride = q->dim;
    return GLOFND_OK;
}

glofnd_status gf_stats_check(gf_error *err, const glofnd_stats *stats) {
    return stats ? gf_struct_check(err, "stats", "glofnd_stats", stats->size, offsetof(glofnd_stats, neighbours), sizeof *stats)
                 : GLOFND_OK;
}

void gf_stats_give(const glofnd_stats *from, glofnd_stats *to) {
    if (!to) return;
    const size_t size = to->size;
    memcpy(to, from, size);
    to->size = size;
}

glofnd_status gf_dtype_check(gf_error *err, const char *name, glofnd_dtype dtype) {
    FAIL_IF(err, gf_dtype_bytes(dtype) == 0, GLOFND_E_ARGUMENT, "%s is %d; it must be 0 (float32), 1 (bfloat16) or 2 (float16)",
            name, (int)dtype);
    return GLOFND_OK;
}

#define STRIDE_MAX (INT64_C(1) << 30) /* numbers; times 2^31 rows of 4 bytes fits 64 bits */

glofnd_status gf_rows_check(gf_error *err, const char *name, const void *rows, glofnd_dtype dtype, int64_t stride, int64_t dim) {
    FAIL_IF(err, stride < dim || stride > STRIDE_MAX, GLOFND_E_ARGUMENT,
            "the stride of %s is %lld; it must be 0 (= dim) or in dim = %lld .. 2^30", name, (long long)stride, (long long)dim);
    FAIL_IF(err, (uintptr_t)rows % gf_dtype_bytes(dtype) != 0, GLOFND_E_ARGUMENT, "%s is not aligned to its numbers of %zu bytes",
            name, gf_dtype_bytes(dtype));
    return GLOFND_OK;
}

static glofnd_status check_embeddings(gf_error *err, const glofnd_batch *q) {
    FAIL_IF(err, !q->a || !q->b, GLOFND_E_ARGUMENT, "batch.%s is NULL; both views (or image and text) are needed",
            q->a ? "b" : "a");
    TRY(gf_dtype_check(err, "batch.dtype", q->dtype));
    TRY(gf_dtype_check(err, "batch.grad_dtype", q->grad_dtype));
    FAIL_IF(err, q->grad_dtype != GLOFND_F32 && q->grad_dtype != q->dtype, GLOFND_E_ARGUMENT,
            "batch.grad_dtype is %d; it must be 0 (float32) or that of the embeddings, %d", (int)q->grad_dtype, (int)q->dtype);
    TRY(gf_rows_check(err, "batch.a", q->a, q->dtype, q->a_stride, q->dim));
    TRY(gf_rows_check(err, "batch.b", q->b, q->dtype, q->b_stride, q->dim));
    TRY(gf_rows_check(err, "batch.support_a", q->support_a, q->dtype, q->dim, q->dim));
    return gf_rows_check(err, "batch.support_b", q->support_b, q->dtype, q->dim, q->dim);
}

glofnd_status gf_grads_check(gf_error *err, const glofnd_batch *q, const void *grad_a, const void *grad_b) {
    FAIL_IF(err, !grad_a || !grad_b, GLOFND_E_ARGUMENT, "grad_a and grad_b must not be NULL");
    TRY(gf_rows_check(err, "grad_a", grad_a, q->grad_dtype, q->grad_a_stride, q->dim));
    return gf_rows_check(err, "grad_b", grad_b, q->grad_dtype, q->grad_b_stride, q->dim);
}

glofnd_status gf_links_check(gf_error *err, const void *links) {
    FAIL_IF(err, !links, GLOFND_E_ARGUMENT, "links is NULL; it needs GLOFND_LINK_BYTES per sample");
    FAIL_IF(err, (uintptr_t)links % sizeof(float) != 0, GLOFND_E_ARGUMENT, "links is not aligned to %zu bytes", sizeof(float));
    return GLOFND_OK;
}

static glofnd_status check_shape(gf_error *err, const glofnd_batch *q) {
    TRY(gf_shape_check(err, q->rows, q->cols, q->dim));
    FAIL_IF(err, q->row0 < 0 || q->row0 > q->cols - q->rows, GLOFND_E_ARGUMENT,
            "batch.row0 is %lld; own rows %lld..%lld do not fit in %lld cols", (long long)q->row0, (long long)q->row0,
            (long long)(q->row0 + q->rows - 1), (long long)q->cols);
    return GLOFND_OK;
}

glofnd_status gf_numbers_check(gf_error *err, const glofnd_batch *q) {
    FAIL_IF(err, q->epoch < 0, GLOFND_E_ARGUMENT, "batch.epoch is %d; epochs count from 0", q->epoch);
    FAIL_IF(err, !(q->tau == 0.0 || (q->tau >= 1e-3 && q->tau <= 100.0)), GLOFND_E_OPTION,
            "batch.tau is %g; it must be 0 (as in the options) or in [0.001, 100]", q->tau);
    FAIL_IF(err, !(q->gamma >= 0.0 && q->gamma <= 1.0), GLOFND_E_OPTION,
            "batch.gamma is %g; it must be 0 (as in the options) or in (0, 1]", q->gamma);
    return GLOFND_OK;
}

glofnd_status gf_step_check(glofnd_ctx *c, const glofnd_batch *q) {
    gf_error *err = &c->err;
    const glofnd_options *o = &c->o;
    TRY(check_shape(err, q));
    TRY(gf_numbers_check(err, q));
    TRY(check_embeddings(err, q));
    FAIL_IF(err, !q->id, GLOFND_E_ARGUMENT, "batch.id is NULL; every sample needs its anchor id");
    FAIL_IF(err, o->detector == GLOFND_DETECT_ORACLE && !q->label, GLOFND_E_ARGUMENT,
            "batch.label is NULL; the detector oracle needs labels");
    FAIL_IF(err, (o->detector == GLOFND_DETECT_GROUPS || o->detector == GLOFND_DETECT_COMPONENTS) && !q->group, GLOFND_E_ARGUMENT,
            "batch.group is NULL; the detector %s needs it", o->detector == GLOFND_DETECT_GROUPS ? "groups" : "components");
    FAIL_IF(err, q->want & GLOFND_WANT_QUALITY && !q->label, GLOFND_E_ARGUMENT,
            "batch.label is NULL; precision and recall need labels");
    FAIL_IF(err, q->want & ~(uint32_t)(GLOFND_WANT_QUALITY | GLOFND_WANT_QUANTILE | GLOFND_WANT_NO_UPDATE), GLOFND_E_ARGUMENT,
            "batch.want is %#x; it has bits this version does not know", (unsigned)q->want);
    FAIL_IF(err, q->support_b && !q->support_a, GLOFND_E_ARGUMENT, "batch.support_b is given without support_a");
    FAIL_IF(err, q->support_a && !q->support_b && gf_loss_sides(o->loss) == 2, GLOFND_E_ARGUMENT,
            "batch.support_b is NULL; image-text needs the support of both sides");
    return GLOFND_OK;
}

glofnd_status gf_bank_check(glofnd_ctx *c, const glofnd_batch *q) {
    gf_error *err = &c->err;
    const glofnd_options *o = &c->o;
    if (!gf_plan_of(o, q).bank) return GLOFND_OK;
    FAIL_IF(
        err, o->neighbours > 0 && q->rows < q->cols && q->slot, GLOFND_E_ARGUMENT,
        "neighbours: they are searched among the averages of all samples, so a rank's store must hold them all, each at its id; "
        "batch.slot must be NULL");
    FAIL_IF(err, !q->bank_a || (!q->bank_b && gf_loss_sides(o->loss) == 2), GLOFND_E_ARGUMENT,
            "batch.bank_%s is NULL; similarity bank needs the averages of all samples: glofnd_bank_get, gathered over ranks",
            q->bank_a ? "b" : "a");
    return GLOFND_OK;
}

gf_store_spec gf_state_spec(const glofnd_ctx *c) {
    return (gf_store_spec){.n = c->state_n, .modalities = gf_loss_sides(c->o.loss), .temperatures = gf_loss_individual(&c->o)};
}

static int uses_ring(const glofnd_options *o) {
    return o->learner == GLOFND_LEARN_RING && (o->detector == GLOFND_DETECT_GLOFND || o->detector == GLOFND_DETECT_SINGLE);
}

/* The contents of the store that a step gets, or of the rows in its place. */
static glofnd_status find_spec(glofnd_ctx *c, const glofnd_store *s, const glofnd_batch *q, gf_store_spec *spec) {
    const int ring = uses_ring(&c->o), bank = gf_plan_of(&c->o, q).bank;
    FAIL_IF(&c->err, !s && !c->state_at, GLOFND_E_ARGUMENT, "store is NULL");
    FAIL_IF(&c->err, s && c->state_at, GLOFND_E_ARGUMENT,
            "store must be NULL: glofnd_ctx_state gave steps the rows of the caller");
    FAIL_IF(&c->err, s && s->device != c->device, GLOFND_E_ARGUMENT, "the store was made for %s, this context is for %s",
            s->device ? s->device->name : "cpu", c->device ? c->device->name : "cpu");
    FAIL_IF(&c->err, !s && (ring || bank), GLOFND_E_UNSUPPORTED,
            "%s keeps embeddings, which rows of glofnd_ctx_state do not hold", ring ? "the learner ring" : "similarity bank");
    *spec = s ? s->spec : gf_state_spec(c);
    return GLOFND_OK;
}

glofnd_status gf_step_check_store(glofnd_ctx *c, const glofnd_store *s, const glofnd_batch *q) {
    gf_error *err = &c->err;
    const glofnd_options *o = &c->o;
    const int sides = gf_loss_sides(o->loss);
    gf_store_spec spec = {0};
    TRY(find_spec(c, s, q, &spec));
    FAIL_IF(err, spec.modalities != sides, GLOFND_E_ARGUMENT, "this loss needs a store of %d modalit%s, this one has %d", sides,
            sides == 1 ? "y" : "ies", spec.modalities);
    FAIL_IF(err, gf_loss_individual(o) && !spec.temperatures, GLOFND_E_ARGUMENT,
            "this loss needs a store with individual temperatures: create it with loss = isogclr or isogclr-views");
    FAIL_IF(err, gf_plan_of(o, q).bank && spec.bank_dim != q->dim, GLOFND_E_ARGUMENT,
            "similarity bank needs a store with averages of %lld numbers: create it with that option; this one has %lld",
            (long long)q->dim, (long long)spec.bank_dim);
    const int shares =
        o->alpha > 0.0 && (o->detector == GLOFND_DETECT_SINGLE || (o->detector == GLOFND_DETECT_GLOFND && o->lambda_warmup > 0));
    const int first_u = o->compat == GLOFND_COMPAT_OFFICIAL && o->loss == GLOFND_LOSS_SOGCLR;
    FAIL_IF(err, (shares || first_u) && q->rows < q->cols && !c->reduce, GLOFND_E_ARGUMENT,
            "several ranks share %s: give glofnd_ctx_reduce a sum over ranks", shares ? "one lambda" : "the start of u");
    FAIL_IF(err, !c->device && gf_plan_of(o, q).neighbours && o->neighbour_share < 1.0 && q->rows < q->cols && !c->reduce,
            GLOFND_E_ARGUMENT,
            "neighbour_share: several ranks choose the anchors together: give glofnd_ctx_reduce a sum over ranks");
    FAIL_IF(err, uses_ring(o) && (spec.ring_rows != o->ring_rows || spec.ring_dim != q->dim), GLOFND_E_ARGUMENT,
            "the learner ring needs a store with a ring of %lld rows of dimension %lld; this one has %lld of %lld",
            (long long)o->ring_rows, (long long)q->dim, (long long)spec.ring_rows, (long long)spec.ring_dim);
    return GLOFND_OK;
}
