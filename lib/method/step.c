/* step.c - the public step: check, begin, detect, finish, gradient. Start reading the method here.
 *
 *     step_check      arguments; nothing has changed if it fails
 *     step_begin      unit embeddings, options of this epoch
 *     step_lambda     passes A and B: lambda is updated (formulas/lambda_update.h), rows are summed below it
 *     step_marks      flags that more than a threshold decides (formulas/mark_rule.h)
 *     step_loss       loss, u, weights and links of every row (formulas/loss_gradient.h); state goes back to the store
 *     step_gradient   pass C: weights of all pairs, gradient of the own rows
 * On an accelerator step_device.c follows the checks. The formulas are the same.
 */
#include "method/step.h"

#include <string.h>

#include "method/step_device.h"

/* The batch as this version knows it. On the CPU the temperature of glofnd_ctx_tau() is read now. */
static glofnd_status take(glofnd_ctx *c, const glofnd_batch *q, glofnd_batch *out) {
    TRY(gf_batch_take(&c->err, q, out));
    if (!c->tau_at) return GLOFND_OK;
    FAIL_IF(&c->err, gf_loss_individual(&c->o), GLOFND_E_UNSUPPORTED,
            "isogclr has a temperature per anchor; glofnd_ctx_tau is for the other losses");
    out->tau = 0.0;
    if (c->device) return GLOFND_OK;
    out->tau = (double)*c->tau_at;
    FAIL_IF(&c->err, out->tau == 0.0, GLOFND_E_OPTION, "the temperature of glofnd_ctx_tau is 0; it must be in [0.001, 100]");
    return GLOFND_OK;
}

static glofnd_status begin_with_store(gf_step *t, glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q) {
    const gf_store_spec spec = gf_state_spec(c);
    TRY(gf_step_check_store(c, s, q));
    TRY(gf_step_begin(t, c, s, q));
    if (c->state_at) t->lent = gf_store_lend(&spec, c->state_at), t->s = &t->lent;
    int64_t *scratch = t->ws->id_scratch;
    if (!q->slot) {
        TRY(gf_store_check_ids(&c->err, t->s, "batch.id", q->id, q->cols, 1, scratch));
    } else {
        TRY(gf_store_check_names(&c->err, "batch.id", q->id, q->cols, scratch));
        TRY(gf_store_check_ids(&c->err, t->s, "batch.slot", q->slot, q->rows, 1, scratch));
    }
    if (c->state_at) TRY(gf_store_check_lent(&c->err, t->s, gf_step_slots(q), q->rows));
    if (!(q->want & GLOFND_WANT_NO_UPDATE)) TRY(gf_store_prepare(&c->err, t->s, gf_step_slots(q), q->rows));
    gf_step_bank(t);
    return gf_step_neighbours(t);
}

/* What both halves of a step check. */
static glofnd_status take_half(glofnd_ctx *c, const glofnd_batch *q, const void *links, const glofnd_stats *stats,
                               glofnd_batch *b) {
    TRY(gf_links_check(&c->err, links));
    TRY(gf_stats_check(&c->err, stats));
    TRY(take(c, q, b));
    TRY(gf_step_check(c, b));
    return gf_bank_check(c, b);
}

glofnd_status glofnd_step_rows(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, void *links, glofnd_stats *stats) {
    gf_step t;
    glofnd_batch b;
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(take_half(c, q, links, stats, &b));
    if (c->device) return gf_device_run_rows(c, s, &b, links, stats);
    TRY(begin_with_store(&t, c, s, &b));
    TRY(gf_step_detect(&t));
    TRY(gf_step_finish(&t, links, &c->stats));
    c->has_rows = 1;
    gf_stats_give(&c->stats, stats);
    return GLOFND_OK;
}

glofnd_status glofnd_step_grad(glofnd_ctx *c, const glofnd_batch *q, const void *links, void *grad_a, void *grad_b,
                               glofnd_stats *stats) {
    gf_step t;
    glofnd_batch b;
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(take_half(c, q, links, stats, &b));
    TRY(gf_grads_check(&c->err, &b, grad_a, grad_b));
    if (c->device) return gf_device_run_grad(c, &b, links, grad_a, grad_b, stats);
    TRY(gf_step_begin(&t, c, NULL, &b));
    TRY(gf_step_neighbours_found(&t));
    gf_step_bank(&t);
    if (stats) memcpy(&c->stats, stats, stats->size);
    gf_step_gradient(&t, links, grad_a, grad_b, &c->stats);
    gf_stats_give(&c->stats, stats);
    return GLOFND_OK;
}

glofnd_status glofnd_step(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, void *grad_a, void *grad_b,
                          glofnd_stats *stats) {
    gf_step t;
    glofnd_batch b;
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(gf_stats_check(&c->err, stats));
    TRY(take(c, q, &b));
    FAIL_IF(&c->err, b.rows != b.cols, GLOFND_E_ARGUMENT,
            "glofnd_step is for one rank: rows %lld must equal cols %lld; else call "
            "glofnd_step_rows and glofnd_step_grad",
            (long long)b.rows, (long long)b.cols);
    TRY(gf_step_check(c, &b));
    TRY(gf_grads_check(&c->err, &b, grad_a, grad_b));
    if (c->device) return gf_device_run_step(c, s, &b, grad_a, grad_b, stats);
    TRY(begin_with_store(&t, c, s, &b));
    t.reuse = 1;
    TRY(gf_step_detect(&t));
    TRY(gf_step_finish(&t, t.ws->links, &c->stats));
    gf_step_gradient(&t, t.ws->links, grad_a, grad_b, &c->stats);
    c->has_rows = 1;
    gf_stats_give(&c->stats, stats);
    return GLOFND_OK;
}

glofnd_status glofnd_step_mask(glofnd_ctx *c, const glofnd_batch *q, const void *links, uint8_t *keep) {
    gf_step t;
    glofnd_batch b;
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(gf_links_check(&c->err, links));
    FAIL_IF(&c->err, !keep, GLOFND_E_ARGUMENT, "keep is NULL");
    TRY(take(c, q, &b));
    TRY(gf_step_check(c, &b));
    TRY(gf_bank_check(c, &b));
    if (c->device) return gf_device_run_mask(c, &b, links, keep);
    TRY(gf_step_begin(&t, c, NULL, &b));
    gf_step_bank(&t);
    gf_step_show_mask(&t, links, keep);
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_stats(glofnd_ctx *c, glofnd_stats *stats) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !stats, GLOFND_E_ARGUMENT, "stats is NULL");
    TRY(gf_stats_check(&c->err, stats));
    FAIL_IF(&c->err, !c->has_rows, GLOFND_E_ARGUMENT, "there was no step on this context yet");
    if (c->device) return gf_device_stats(c, stats);
    gf_stats_give(&c->stats, stats);
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_loss(glofnd_ctx *c, float *loss, float *grad_tau) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !c->has_rows, GLOFND_E_ARGUMENT, "there was no step on this context yet");
    FAIL_IF(&c->err, (uintptr_t)loss % sizeof *loss != 0 || (uintptr_t)grad_tau % sizeof *loss != 0, GLOFND_E_ARGUMENT,
            "%s is not aligned to %zu bytes", (uintptr_t)loss % sizeof *loss ? "loss" : "grad_tau", sizeof *loss);
    if (c->device) return c->device->loss(&c->err, c->on, &c->plan, c->has_grad, loss, grad_tau);
    if (loss) *loss = (float)c->stats.loss;
    if (grad_tau) *grad_tau = (float)c->stats.grad_tau;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_phase(glofnd_ctx *c, const glofnd_batch *q, uint64_t *phase) {
    glofnd_batch b;
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !phase, GLOFND_E_ARGUMENT, "phase is NULL");
    TRY(gf_batch_take(&c->err, q, &b));
    TRY(gf_shape_check(&c->err, b.rows, b.cols, b.dim));
    TRY(gf_numbers_check(&c->err, &b));
    const gf_plan plan = gf_plan_of(&c->o, &b);
    *phase = gf_plan_phase(&plan);
    return GLOFND_OK;
}
