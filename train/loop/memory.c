/* memory.c - the memory of a run: estimated before it is allocated, and counted by kind while the run holds it. See trainer.h. */
#include <sys/resource.h>

#include "loader/cuda/cuda_feed.h"
#include "loop/trainer.h"

/* ----- estimated ----- */

/* One rank's share of n. */
static int64_t share_of(const gf_trainer *t, int64_t n) { return t->comm ? n / t->comm->ranks : n; }

glofnd_status gf_trainer_estimate(gf_error *err, const gf_trainer *t, size_t *bytes) {
    const gf_config *c = &t->config;
    const size_t dim = (size_t)gf_config_dim(c), modalities = c->task == GF_TASK_CLIP ? 2 : 1;
    const size_t images = (c->task == GF_TASK_CLIP ? 1 : 2) * (size_t)share_of(t, c->batch);
    const size_t pixels = (size_t)c->size * (size_t)c->size * 3;
    size_t params = 0;
    TRY(gf_encoders_estimate(err, c, share_of(t, c->batch), t->bpe ? gf_bpe_vocab(t->bpe) : 0, bytes, &params));
    /* The optimizer's state, and embeddings with their gradients. */
    const size_t states = (c->optimizer == GF_OPTIMIZER_ADAMW ? 2 : 1) + (c->micro_batch > 0);
    *bytes += sizeof(float) * (params * states + 8 * (size_t)c->batch * dim);
    if (gf_config_clusters(c)) *bytes += (size_t)t->info.n * (2 * sizeof(float) * dim + 40);
    if (c->method.learner == GLOFND_LEARN_RING) *bytes += (size_t)c->method.ring_rows * (sizeof(float) * dim + sizeof(int64_t));
    /* Batches of the loader; on a GPU crops and views of about 8 bits, and preloaded images. */
    if (c->method.device != GLOFND_DEVICE_CUDA) *bytes += sizeof(float) * images * pixels * (1 + (size_t)c->prefetch);
    else if (c->micro_batch > 0) *bytes += sizeof(float) * (size_t)c->micro_batch * pixels;
    else {
        const gf_augment views = gf_views_recipe(c);
        *bytes += 2 * images * pixels + (size_t)gf_feed_preload_bytes(t->data, &views);
    }
    /* Anchors are divided among ranks; with averages each of them has a store of all, too. */
    const size_t own = modalities * 20 * (size_t)share_of(t, t->info.n);
    if (c->store != GF_STORE_MEMORY) return GLOFND_OK;
    if (c->method.similarity != GLOFND_SIMILARITY_BANK) *bytes += own;
    else *bytes += modalities * (20 + 2 * dim) * (size_t)t->info.n + (t->comm ? own : 0);
    return GLOFND_OK;
}

/* ----- counted ----- */

void gf_trainer_memory(const gf_trainer *t, gf_memory_split *out) {
    gf_net *net = t->encoders.at[0].net;
    struct rusage usage = {0};
    size_t held = 0, peak = 0;
    *out = (gf_memory_split){.loss = gf_loss_stage_bytes(t->loss)};
    for (int k = 0; k < t->encoders.count; k++) {
        const gf_encoder *w = &t->encoders.at[k];
        const int64_t dim = t->encoders.dim;
        const gf_net_memory m = gf_net_memory_of(w->net);
        int64_t numbers;
        gf_net_gradients(w->net, &numbers);
        const int64_t block = (int64_t)sizeof(float) * numbers, embeddings = (int64_t)sizeof(float) * w->rows * dim;
        out->weights += (int64_t)m.weights;
        out->activations += (int64_t)m.activations;
        out->workspace += (int64_t)m.workspace;
        out->data += (int64_t)m.images;
        out->optimizer += block * (!!w->state1 + !!w->state2 + !!w->sum);
        out->loss += embeddings * (!!w->grad + !!w->kept);
    }
    out->data +=
        (int64_t)(t->config.method.device == GLOFND_DEVICE_CUDA ? gf_cuda_feed_held(t->feed.device) : gf_loader_bytes(t->loader));
    getrusage(RUSAGE_SELF, &usage);
    if (gf_net_backend(net)->memory) gf_net_backend(net)->memory(gf_net_engine(net), &held, &peak);
    else peak = (size_t)usage.ru_maxrss * 1024;
    out->workspace += (int64_t)held;
    out->peak = (int64_t)peak;
}

void gf_memory_of_run(const gf_trainer *t, gf_memory_record *out) {
    *out = (gf_memory_record){.known = 1,
                              .step = t->step,
                              .ranks = t->comm ? t->comm->ranks : 1,
                              .anchors = t->info.n,
                              .gpu = t->config.method.device == GLOFND_DEVICE_CUDA};
    gf_trainer_memory(t, &out->bytes);
}
