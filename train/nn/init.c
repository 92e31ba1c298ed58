/* init.c - initial weights: a pure function of the seed and the position of a tensor among the parameters.
 *
 * torchvision's nets
 *   convolutions   normal, deviation sqrt(2 / (out * kernel * kernel))                       (kaiming normal, fan out, ReLU)
 *   linear         uniform in +- 1 / sqrt(in)                                                (torch's default)
 *   batch norm     weight 1, bias 0, running mean 0, running variance 1; zero_init: the last weight of each block 0
 * CLIP's, as its authors initialise; w is the width, n the number of blocks; other tensors have torch's default
 *   texts          deviations: tokens 0.02, positions 0.01, in_proj 1 / sqrt(w), out_proj and c_proj 1 / sqrt(2 n w),
 *                  c_fc 1 / sqrt(2 w), text_projection 1 / sqrt(w)
 *   images         patches: class token, positions and proj 1 / sqrt(w), in_proj uniform in +- sqrt(6 / (4 w));
 *                  resnet: attention pooling 1 / sqrt(its width), the last batch norm weight of each block 0
 *   attention      biases 0
 * Tensor t draws its numbers in order from the stream gf_rng_at(seed, GF_RNG_INIT, 0, 0, t).
 */
#include <math.h>
#include <string.h>

#include "nn/graph.h"
#include "util/parallel.h"
#include "util/rng.h"
#include "util/text.h"

typedef struct init_job {
    gf_graph *g;
    const gf_net_spec *spec;
} init_job;

typedef struct distribution {
    enum { CONSTANT, NORMAL, UNIFORM } law;
    double amount; /* the constant, the deviation, or the bound on both sides of 0 */
} distribution;

static distribution constant(double value) { return (distribution){CONSTANT, value}; }
static distribution normal(double variance) { return (distribution){NORMAL, sqrt(variance)}; }
static distribution uniform(double inputs) { return (distribution){UNIFORM, 1 / sqrt(inputs)}; }

/* Weight of the batch norm that closes a residual block. */
static int closes_block(const gf_net_spec *spec, const char *name) {
    const char *last = spec->arch == GF_ARCH_RESNET50 || spec->arch == GF_ARCH_CLIP_RESNET50 ? ".bn3.weight" : ".bn2.weight";
    const char *own = strncmp(name, "visual.", 7) == 0 ? name + 7 : name;
    return strncmp(own, "layer", 5) == 0 && gf_ends_with(name, last);
}

/* Fan in of a weight, or of the weight that a bias belongs to. */
static double inputs_of(const gf_graph *g, const gf_tensor *t) {
    for (int i = 0; t->rank == 1 && i < g->params.count; i++) {
        const gf_tensor *weight = &g->params.item[i];
        const size_t stem = strlen(t->name) - strlen("bias");
        if (strncmp(weight->name, t->name, stem) == 0 && strcmp(weight->name + stem, "weight") == 0) t = weight;
    }
    return (double)(t->count / t->shape[0]);
}

static distribution init_resnet(const init_job *job, const gf_tensor *t) {
    if (t->rank == 4) return normal(2.0 / (double)(t->shape[0] * t->shape[2] * t->shape[3]));
    if (t->rank == 2) return uniform(inputs_of(job->g, t));
    return constant(!gf_ends_with(t->name, ".bias") && !(job->spec->zero_init && closes_block(job->spec, t->name)));
}

/* In a block of a transformer. */
static distribution init_block(const init_job *job, const gf_tensor *t) {
    const double w = job->spec->width, n = job->spec->layers;
    const int text = job->spec->arch == GF_ARCH_TEXT;
    if (strstr(t->name, ".ln_")) return constant(gf_ends_with(t->name, ".weight"));
    if (t->rank == 1 && strstr(t->name, ".attn.")) return constant(0);
    if (gf_ends_with(t->name, ".in_proj_weight")) return text ? normal(1 / w) : uniform(4 * w / 6);
    if (!text || t->rank == 1) return uniform(inputs_of(job->g, t));
    return normal(gf_ends_with(t->name, ".c_fc.weight") ? 1 / (2 * w) : 1 / (2 * n * w));
}

static distribution init_clip(const init_job *job, const gf_tensor *t) {
    const double w = job->spec->width;
    if (strstr(t->name, ".attnpool.")) {
        if (t->rank == 2) return normal(1.0 / (double)t->shape[1]);
        return uniform(inputs_of(job->g, t));
    }
    if (strstr(t->name, ".resblocks.") || strncmp(t->name, "transformer.", 12) == 0) return init_block(job, t);
    if (t->rank == 4) return uniform(inputs_of(job->g, t));
    if (strcmp(t->name, "token_embedding.weight") == 0) return normal(0.02 * 0.02);
    if (strcmp(t->name, "positional_embedding") == 0) return normal(0.01 * 0.01);
    if (t->rank == 2 || strcmp(t->name, "visual.class_embedding") == 0) return normal(1 / w);
    return constant(gf_ends_with(t->name, ".weight") && !closes_block(job->spec, t->name)); /* norms */
}

static void init_param(void *arg, int64_t task, int thread) {
    (void)thread;
    const init_job *job = arg;
    gf_tensor *t = &job->g->params.item[task];
    gf_rng r = gf_rng_at(job->spec->seed, GF_RNG_INIT, 0, 0, (uint32_t)task);
    const distribution b = gf_spec_is_resnet(job->spec) ? init_resnet(job, t) : init_clip(job, t);
    for (int64_t i = 0; i < t->count; i++)
        t->value[i] = (float)(b.law == CONSTANT ? b.amount
                              : b.law == NORMAL ? b.amount * gf_rng_normal(&r)
                                                : gf_rng_range(&r, -b.amount, b.amount));
}

void gf_graph_init(gf_graph *g, const gf_net_spec *spec, int threads) {
    init_job job = {g, spec};
    gf_parallel(threads, g->params.count, init_param, &job);
    for (int b = 0; b < g->buffers.count; b++) {
        const gf_tensor *t = &g->buffers.item[b];
        for (int64_t i = 0; i < t->count; i++) t->value[i] = gf_ends_with(t->name, ".running_var") ? 1.0f : 0.0f;
    }
}
