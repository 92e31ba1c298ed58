/* step_components.c - detector COMPONENTS: groups made of the batch itself, as in WCL (Zheng et al. 2021).
 *
 * Every sample is joined to its nearest neighbour in the batch: the sample that has the embedding most similar to one of its own
 * (ties: the first embedding, the smaller column). Connected components of this graph are the groups. With several ranks every
 * rank does the whole batch, so that all have the same groups.
 */
#include "method/step.h"
#include "util/components.h"

/* pos[r], tie[r] of every row of side i: its largest similarity to a row of another sample, and that row's position. */
static void nearest_rows(const gf_step *t, int i) {
    gf_side *side = &t->ws->side[i];
    const gf_select p = {
        .q = &side->z,
        .k = &t->ws->side[gf_step_other(t, i)].z,
        .shift = (int)t->shape->per_sample - 1,
        .best = 1,
        .value = side->pos,
        .tie = side->every.tie,
        .scratch = t->ws->select_scratch,
        .threads = (int)t->shape->threads,
    };
    gf_cpu_select(&p);
}

/* Its two embeddings are neighbours on one side, or one on either side. */
static int32_t nearest_sample(const gf_step *t, int64_t sample) {
    const gf_side *first = &t->ws->side[0], *second = &t->ws->side[t->shape->sides - 1];
    const int64_t per_sample = t->shape->per_sample, a = sample * per_sample, b = a + per_sample - 1;
    const int32_t row = second->pos[b] > first->pos[a] ? second->every.tie[b] : first->every.tie[a];
    return (int32_t)(row / per_sample);
}

const int32_t *gf_step_components(const gf_step *t) {
    int32_t *root = (int32_t *)(void *)t->ws->id_scratch;
    const int64_t samples = t->q->cols;
    for (int i = 0; i < t->shape->sides; i++) nearest_rows(t, i);
    gf_components_init(root, samples);
    for (int64_t s = 0; s < samples; s++) gf_components_join(root, (int32_t)s, nearest_sample(t, s));
    gf_components_flatten(root, samples);
    return root;
}
