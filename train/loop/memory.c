/* memory.c - the memory of a run: estimated before it is allocated, and counted by kind while the run holds it. See trainer.h. */
#include <sys/resource.h>

#include "loader/cuda/cuda_feed.h"
#include "loop/trainer.h"

/* ----- estimated ----- */

/* One rank's share of n. */
static int64_t share_of(const gf_trainer *t, int64_t n) { return t->comm ? n / t->comm->ranks : n; }

/* Batches of the loader; on a GPU crops and views of about 8 bits, and preloaded images. */
static size_t estimate_data(const gf_trainer *t) {
    const gf_config *c = &t->config;
    const size_t images = (c->task == GF_TASK_CLIP ? 1 : 2) * (size_t)share_of(t, c->batch);
    const size_t pixels = (size_t)c->size * (size_t)c->size * 3;
    if (c->method.device != GLOFND_DEVICE_CUDA) return sizeof(float) * images * pixels * (1 + (size_t)c->prefetch);
    if (c->micro_batch > 0) return sizeof(float) * (size_t)c->micro_batch * pixels;
    const gf_augment views = gf_views_recipe(c);
    return 2 * images * pixels + (size_t)gf_feed_preload_bytes(t->data, &views);
}

/* Anchors are divided among ranks; with averages each of them has a store of all, too. */
static size_t estimate_store(const gf_trainer *t, size_t dim) {
    const size_t sides = t->config.task == GF_TASK_CLIP ? 2 : 1, n = (size_t)t->info.n;
    const size_t own = sides * 20 * (size_t)share_of(t, t->info.n);
    if (t->config.method.similarity != GLOFND_SIMILARITY_BANK) return own;
    return sides * (20 + 2 * dim) * n + (t->comm ? own : 0);
}

glofnd_status gf_trainer_estimate(gf_error *err, const gf_trainer *t, size_t *bytes) {
    const gf_config *c = &t->config;
    const int has_ring = c->method.learner == GLOFND_LEARN_RING;
    const size_t sides = 2 * (size_t)c->batch, dim = (size_t)gf_config_dim(c);
    const size_t ring = has_ring ? (size_t)c->method.ring_rows * (sizeof(float) * dim + sizeof(int64_t)) : 0;
    size_t nets = 0, params = 0;
    TRY(gf_encoders_estimate(err, c, share_of(t, c->batch), t->bpe ? gf_bpe_vocab(t->bpe) : 0, &nets, &params));
    const size_t states = (c->optimizer == GF_OPTIMIZER_ADAMW ? 2 : 1) + (c->micro_batch > 0);
    const size_t clustering = gf_config_clusters(c) ? (size_t)t->info.n * (2 * sizeof(float) * dim + 40) : 0;
    *bytes = clustering + nets + estimate_data(t) + sizeof(float) * (params * states + 4 * sides * dim) + ring;
    if (c->store == GF_STORE_MEMORY) *bytes += estimate_store(t, dim);
    return GLOFND_OK;
}

/* ----- counted ----- */

static int on_device(const gf_trainer *t) { return t->config.method.device == GLOFND_DEVICE_CUDA; }

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
    out->data += (int64_t)(on_device(t) ? gf_cuda_feed_held(t->feed.device) + gf_cuda_decoder_held(t->feed.decoder)
                                        : gf_loader_bytes(t->loader));
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
