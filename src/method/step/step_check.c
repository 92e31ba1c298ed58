/* step_check.c - what a caller may get wrong in a step, found before anything changes. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "method/options.h"
#include "method/step/step.h"

#define SIZE_OF_0_1 offsetof(glofnd_batch, slot) /* what a program built against the header of 0.1.0 passes */

glofnd_status gf_batch_take(gf_error *err, const glofnd_batch *q, glofnd_batch *out) {
    FAIL_IF(err, !q, GLOFND_E_ARGUMENT, "batch is NULL");
    FAIL_IF(err, q->size < SIZE_OF_0_1 || q->size > sizeof *q, GLOFND_E_ARGUMENT,
            "batch.size is %zu, this library knows %zu to %zu: set it to sizeof(glofnd_batch)", q->size, SIZE_OF_0_1, sizeof *q);
    *out = (glofnd_batch){0};
    memcpy(out, q, q->size);
    return GLOFND_OK;
}

static glofnd_status check_shape(gf_error *err, const glofnd_batch *q) {
    TRY(gf_shape_check(err, q->rows, q->cols, q->dim));
    FAIL_IF(err, q->row0 < 0 || q->row0 > q->cols - q->rows, GLOFND_E_ARGUMENT,
            "batch.row0 is %lld; own rows %lld..%lld do not fit in %lld cols", (long long)q->row0, (long long)q->row0,
            (long long)(q->row0 + q->rows - 1), (long long)q->cols);
    return GLOFND_OK;
}

static glofnd_status check_numbers(gf_error *err, const glofnd_batch *q) {
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
    TRY(check_numbers(err, q));
    FAIL_IF(err, !q->a || !q->b, GLOFND_E_ARGUMENT, "batch.%s is NULL; both views (or image and text) are needed",
            q->a ? "b" : "a");
    FAIL_IF(err, !q->id, GLOFND_E_ARGUMENT, "batch.id is NULL; every sample needs its anchor id");
    FAIL_IF(err, o->detector == GLOFND_DETECT_ORACLE && !q->label, GLOFND_E_ARGUMENT,
            "batch.label is NULL; the detector oracle needs labels");
    FAIL_IF(err, o->detector == GLOFND_DETECT_GROUPS && !q->group, GLOFND_E_ARGUMENT,
            "batch.group is NULL; the detector groups needs it");
    FAIL_IF(err, q->want & GLOFND_WANT_QUALITY && !q->label, GLOFND_E_ARGUMENT,
            "batch.label is NULL; precision and recall need labels");
    FAIL_IF(err, q->want & ~(uint32_t)(GLOFND_WANT_QUALITY | GLOFND_WANT_QUANTILE), GLOFND_E_ARGUMENT,
            "batch.want is %#x; it has bits this version does not know", (unsigned)q->want);
    FAIL_IF(err, q->support_b && !q->support_a, GLOFND_E_ARGUMENT, "batch.support_b is given without support_a");
    FAIL_IF(err, q->support_a && !q->support_b && gf_loss_sides(o->loss) == 2, GLOFND_E_ARGUMENT,
            "batch.support_b is NULL; image-text needs the support of both sides");
    return GLOFND_OK;
}

glofnd_status gf_step_check_store(glofnd_ctx *c, const glofnd_store *s, const glofnd_batch *q) {
    gf_error *err = &c->err;
    const glofnd_options *o = &c->o;
    const int sides = gf_loss_sides(o->loss);
    FAIL_IF(err, !s, GLOFND_E_ARGUMENT, "store is NULL");
    FAIL_IF(err, s->device != c->device, GLOFND_E_ARGUMENT, "the store was made for %s, this context is for %s",
            s->device ? s->device->name : "cpu", c->device ? c->device->name : "cpu");
    FAIL_IF(err, s->spec.modalities != sides, GLOFND_E_ARGUMENT, "this loss needs a store of %d modalit%s, this one has %d",
            sides, sides == 1 ? "y" : "ies", s->spec.modalities);
    FAIL_IF(err, o->loss == GLOFND_LOSS_ISOGCLR && !s->spec.temperatures, GLOFND_E_ARGUMENT,
            "isogclr needs a store with temperatures = 1");
    const int shares =
        o->alpha > 0.0 && (o->detector == GLOFND_DETECT_SINGLE || (o->detector == GLOFND_DETECT_GLOFND && o->lambda_warmup > 0));
    const int first_u = o->compat == GLOFND_COMPAT_OFFICIAL && o->loss == GLOFND_LOSS_SOGCLR;
    FAIL_IF(err, (shares || first_u) && q->rows < q->cols && !c->reduce, GLOFND_E_ARGUMENT,
            "several ranks share %s: give glofnd_ctx_reduce a sum over ranks",
            shares ? "one lambda" : "the test whether u is new");
    const int ring =
        o->learner == GLOFND_LEARN_RING && (o->detector == GLOFND_DETECT_GLOFND || o->detector == GLOFND_DETECT_SINGLE);
    FAIL_IF(err, ring && (s->spec.ring_rows != o->ring_rows || s->spec.ring_dim != q->dim), GLOFND_E_ARGUMENT,
            "the learner ring needs a store with ring_rows = %lld and ring_dim = %lld; this one has %lld and %lld",
            (long long)o->ring_rows, (long long)q->dim, (long long)s->spec.ring_rows, (long long)s->spec.ring_dim);
    return GLOFND_OK;
}
