/* memory.c - see memory.h. */
#include "loop/memory.h"

#include <sys/resource.h>

#include "loader/cuda/cuda_feed.h"
#include "loop/trainer.h"

static int on_device(const gf_trainer *t) { return t->config.method.device == GLOFND_DEVICE_CUDA; }

static void count_encoder(const gf_encoder *w, int64_t dim, gf_memory_split *out) {
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

void gf_trainer_memory(const gf_trainer *t, gf_memory_split *out) {
    gf_net *net = t->encoders.at[0].net;
    struct rusage usage = {0};
    size_t held = 0, peak = 0;
    *out = (gf_memory_split){.loss = gf_loss_stage_bytes(t->loss)};
    for (int k = 0; k < t->encoders.count; k++) count_encoder(&t->encoders.at[k], t->encoders.dim, out);
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
