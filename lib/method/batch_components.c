/* batch_components.c - groups of a batch made of the batch itself, as in WCL (Zheng et al. 2021): a baseline that makes its groups
 * before the step, which then treats them as any others.
 *
 * Every sample is joined to its nearest neighbour in the batch: the sample that has the embedding most similar to one of its own
 * (ties: the first embedding, the smaller column). Connected components of this graph are the groups. With several ranks every
 * rank does the whole batch, so that all have the same groups.
 */
#include "method/step.h"
#include "util/components.h"

glofnd_status gf_batch_components(glofnd_ctx *c, const glofnd_batch *batch, const glofnd_own_rows *own, int32_t *group) {
    gf_step step;
    gf_step_batch q;
    TRY(gf_batch_take(&c->err, batch, own, &q));
    if (c->device) {
        const gf_shape shape = gf_shape_of(c, q.rows, q.cols, q.dim);
        const gf_plan plan = gf_plan_of(&c->o, &q);
        const gf_device_step x = {.plan = &plan, .shape = &shape, .q = &q};
        return c->device->components(&c->err, c->on, &x, group);
    }
    TRY(gf_step_begin(&step, c, &q));
    /* Of every row of both sides: its largest similarity to a row of another sample, and that row's position. */
    const int64_t sides = step.plan.sides, all = step.plan.all, per_sample = step.plan.per_sample;
    float *largest = (float *)(void *)step.ws->id_scratch;
    int32_t *nearest = (int32_t *)(void *)(largest + sides * all);
    for (int i = 0; i < sides; i++) {
        const gf_select p = {
            .q = &step.ws->side[i].z,
            .k = &step.ws->side[gf_step_other(&step, i)].z,
            .shift = (int)per_sample - 1,
            .best = 1,
            .value = largest + i * all,
            .tie = nearest + i * all,
            .scratch = step.ws->select_scratch,
            .threads = (int)step.ws->shape.threads,
        };
        step.ops->select(&p);
    }
    gf_components_init(group, q.cols);
    for (int64_t s = 0; s < q.cols; s++) {
        const int64_t a = s * per_sample, b = (sides - 1) * all + a + per_sample - 1; /* its two embeddings */
        const int32_t row = largest[b] > largest[a] ? nearest[b] : nearest[a];
        gf_components_join(group, (int32_t)s, (int32_t)(row / per_sample));
    }
    gf_components_flatten(group, q.cols);
    return GLOFND_OK;
}
