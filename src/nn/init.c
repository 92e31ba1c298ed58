/* init.c - initial weights: a pure function of the seed and the position of a tensor among the parameters.
 *
 *   convolutions   normal, deviation sqrt(2 / (out * kernel * kernel))                       (kaiming normal, fan out, ReLU)
 *   linear         uniform in +- 1 / sqrt(in)                                                (torch's default)
 *   batch norm     weight 1, bias 0, running mean 0, running variance 1; zero_init: the last weight of each block 0
 * Tensor t draws its numbers in order from the stream gf_rng_at(seed, GF_RNG_INIT, 0, 0, t).
 */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "base/rng.h"
#include "nn/graph.h"

typedef struct init_job {
    gf_graph *g;
    const gf_net_spec *spec;
} init_job;

static int ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Weight of the batch norm that closes a residual block. */
static int closes_block(const gf_net_spec *spec, const char *name) {
    return strncmp(name, "layer", 5) == 0 && ends_with(name, spec->arch == GF_ARCH_RESNET50 ? ".bn3.weight" : ".bn2.weight");
}

static void fill(gf_tensor *t, float value) {
    for (int64_t i = 0; i < t->count; i++) t->value[i] = value;
}

static void init_param(void *arg, int64_t task, int thread) {
    (void)thread;
    const init_job *job = arg;
    gf_tensor *t = &job->g->params.item[task];
    gf_rng r = gf_rng_at(job->spec->seed, GF_RNG_INIT, 0, 0, (uint32_t)task);
    if (t->rank == 4) {
        const double deviation = sqrt(2.0 / (double)(t->shape[0] * t->shape[2] * t->shape[3]));
        for (int64_t i = 0; i < t->count; i++) t->value[i] = (float)(deviation * gf_rng_normal(&r));
    } else if (t->rank == 2) {
        const double bound = 1 / sqrt((double)t->shape[1]);
        for (int64_t i = 0; i < t->count; i++) t->value[i] = (float)gf_rng_range(&r, -bound, bound);
    } else {
        const int zero = ends_with(t->name, ".bias") || (job->spec->zero_init && closes_block(job->spec, t->name));
        fill(t, zero ? 0.0f : 1.0f);
    }
}

void gf_graph_init(gf_graph *g, const gf_net_spec *spec, int threads) {
    init_job job = {g, spec};
    gf_parallel(threads, g->params.count, init_param, &job);
    for (int i = 0; i < g->buffers.count; i++)
        fill(&g->buffers.item[i], ends_with(g->buffers.item[i].name, ".running_var") ? 1.0f : 0.0f);
}
