/* memory.c - see memory.h. */
#include "train/memory.h"

#include <sys/resource.h>

#include "cuda/augment/cuda_feed.h"
#include "method/store/store.h"
#include "train/trainer.h"

static int on_device(const gf_trainer *t) { return t->config.method.device == GLOFND_DEVICE_CUDA; }

/* A mapped one is the file's. */
static size_t store_on_host(const glofnd_store *s) {
    const size_t row = sizeof(float) * (size_t)s->spec.ring_dim + sizeof(int64_t);
    const size_t rings = (size_t)(s->spec.modalities * s->spec.ring_rows) * row;
    return (s->mapped_bytes ? 0 : (size_t)s->spec.n * s->record_bytes) + rings;
}

static void count_tower(const gf_encoder *w, int64_t dim, gf_memory_split *out) {
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

/* What the trainer and its crew keep of a batch beside the encoders. */
static int64_t batch_arrays(const gf_trainer *t) {
    const int64_t batch = t->config.batch, ids = t->id ? (int64_t)(sizeof *t->id + sizeof *t->label) : 0;
    const int64_t groups = t->group ? (int64_t)sizeof *t->group : 0;
    const int64_t gathered = 2 * (t->encoders.dim * (int64_t)sizeof(float) + (int64_t)sizeof *t->crew.links);
    return batch * (ids + groups + (t->comm ? gathered : 0)) + (t->comm ? t->encoders.batch * (int64_t)sizeof(int64_t) : 0);
}

/* A method that the CPU computes for a GPU takes nothing there. */
static int64_t method(const gf_trainer *t) {
    if (t->host) return 0;
    return (int64_t)(t->method_bytes + (t->store->on ? t->store->device->store_held(t->store->on) : store_on_host(t->store)));
}

void gf_trainer_memory(const gf_trainer *t, gf_memory_split *out) {
    gf_net *net = t->encoders.at[0].net;
    struct rusage usage = {0};
    size_t held = 0, peak = 0;
    *out = (gf_memory_split){.loss = batch_arrays(t) + method(t)};
    for (int k = 0; k < t->encoders.count; k++) count_tower(&t->encoders.at[k], t->encoders.dim, out);
    out->data += (int64_t)(on_device(t) ? gf_cuda_feed_held(t->feed.device) : gf_loader_bytes(t->loader));
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
