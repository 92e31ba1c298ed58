/* step_device.c - see step_device.h. */
#include "method/step_device.h"

#include <string.h>

#include "method/step.h"

static gf_device_step begin(glofnd_ctx *c, const glofnd_batch *q, const gf_shape *shape) {
    c->plan = gf_plan_of(&c->o, q);
    if (c->tau_at) c->plan.flags |= GF_SHIFT; /* right for every temperature */
    c->has_rows = c->has_grad = 0;
    return (gf_device_step){
        .plan = &c->plan, .shape = shape, .q = q, .tau = c->tau_at, .reduce = c->reduce, .reduce_user = c->reduce_user};
}

static void give_state(gf_device_step *x, const glofnd_ctx *c, const glofnd_store *s) {
    if (s) x->s = s->on;
    else x->state = c->state_at, x->anchors = c->state_n;
}

/* Waits. The temperature of a step that read it from the device is known now. */
static glofnd_status fetch_totals(glofnd_ctx *c, gf_totals *sum) {
    TRY(c->device->totals(&c->err, c->on, sum));
    if (sum->tau_used > 0.0) c->plan.tau = sum->tau_used;
    return GLOFND_OK;
}

glofnd_status gf_device_stats(glofnd_ctx *c, glofnd_stats *stats) {
    gf_totals sum = {0};
    glofnd_stats full;
    TRY(fetch_totals(c, &sum));
    gf_totals_rows(&c->plan, &sum, &full);
    if (c->has_grad) gf_totals_grad(&c->plan, &sum, (c->plan.want & GLOFND_WANT_QUALITY) != 0, &full);
    gf_stats_give(&full, stats);
    return GLOFND_OK;
}

glofnd_status gf_device_run_step(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, void *grad_a, void *grad_b,
                                 glofnd_stats *stats) {
    TRY(gf_step_check_store(c, s, q));
    const gf_shape shape = gf_shape_of(c, q->rows, q->cols, q->dim);
    gf_device_step x = begin(c, q, &shape);
    give_state(&x, c, s);
    x.grad_a = grad_a, x.grad_b = grad_b;
    TRY(c->device->step(&c->err, c->on, &x));
    c->has_rows = c->has_grad = 1;
    return stats ? gf_device_stats(c, stats) : GLOFND_OK;
}

glofnd_status gf_device_run_rows(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, gf_link *links, glofnd_stats *stats) {
    TRY(gf_step_check_store(c, s, q));
    const gf_shape shape = gf_shape_of(c, q->rows, q->cols, q->dim);
    gf_device_step x = begin(c, q, &shape);
    give_state(&x, c, s);
    x.links = links;
    TRY(c->device->rows(&c->err, c->on, &x));
    c->has_rows = 1;
    return stats ? gf_device_stats(c, stats) : GLOFND_OK;
}

/* The totals of the first call stay on the device, and the second call adds to them. */
glofnd_status gf_device_run_grad(glofnd_ctx *c, const glofnd_batch *q, const gf_link *links, void *grad_a, void *grad_b,
                                 glofnd_stats *stats) {
    const gf_shape shape = gf_shape_of(c, q->rows, q->cols, q->dim);
    const int after_rows = c->has_rows && !c->has_grad;
    gf_device_step x = begin(c, q, &shape);
    x.links = (gf_link *)(uintptr_t)links;
    x.grad_a = grad_a, x.grad_b = grad_b;
    TRY(c->device->grad(&c->err, c->on, &x));
    c->has_rows = after_rows;
    c->has_grad = 1;
    if (!stats) return GLOFND_OK;
    gf_totals sum = {0};
    glofnd_stats full = {0};
    TRY(fetch_totals(c, &sum));
    memcpy(&full, stats, stats->size);
    gf_totals_grad(&c->plan, &sum, (q->want & GLOFND_WANT_QUALITY) != 0, &full);
    gf_stats_give(&full, stats);
    return GLOFND_OK;
}

glofnd_status gf_device_run_components(glofnd_ctx *c, const glofnd_batch *q, int32_t *group) {
    const gf_shape shape = gf_shape_of(c, q->rows, q->cols, q->dim);
    const gf_plan plan = gf_plan_of(&c->o, q);
    const gf_device_step x = {.plan = &plan, .shape = &shape, .q = q};
    return c->device->components(&c->err, c->on, &x, group);
}

/* Not a step: the stats of the last one stay, and its second half may still follow. */
glofnd_status gf_device_run_mask(glofnd_ctx *c, const glofnd_batch *q, const gf_link *links, uint8_t *keep) {
    const gf_shape shape = gf_shape_of(c, q->rows, q->cols, q->dim);
    const gf_plan plan = gf_plan_of(&c->o, q);
    const gf_device_step x = {.plan = &plan, .shape = &shape, .q = q, .links = (gf_link *)(uintptr_t)links, .keep = keep};
    return c->device->mask(&c->err, c->on, &x);
}
