/* memory.c - see memory.h. */
#include "train/memory.h"

#include <sys/resource.h>

#include "fnd/store.h"
#include "train/trainer.h"

#ifdef GF_HAVE_CUDA
#include "cuda/data/cuda_feed.h"
#include "cuda/loss/cuda_store.h"

static size_t store_on_device(const glofnd_store *s) { return gf_cuda_store_held(s->on); }
static size_t feed_on_device(const gf_feed *f) { return f->device ? gf_cuda_feed_held(f->device) : 0; }
#else
static size_t store_on_device(const glofnd_store *s) { return (void)s, 0; }
static size_t feed_on_device(const gf_feed *f) { return (void)f, 0; }
#endif

static int on_device(const gf_trainer *t) { return t->config.method.device == GLOFND_DEVICE_CUDA; }

/* A mapped one is the file's. */
static size_t store_on_host(const glofnd_store *s) {
    const size_t row = sizeof(float) * (size_t)s->spec.ring_dim + sizeof(int64_t);
    const size_t rings = (size_t)(s->spec.modalities * s->spec.ring_rows) * row;
    return (s->mapped_bytes ? 0 : (size_t)s->spec.n * s->record_bytes) + rings;
}

static void count_tower(const gf_tower *w, int64_t dim, gf_memory_split *out) {
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

/* What the trainer and its crew keep of a batch beside the towers. */
static int64_t batch_arrays(const gf_trainer *t) {
    const int64_t batch = t->config.batch, ids = t->id ? (int64_t)(sizeof *t->id + sizeof *t->label) : 0;
    const int64_t groups = t->group ? (int64_t)sizeof *t->group : 0;
    const int64_t gathered = 2 * (t->towers.dim * (int64_t)sizeof(float) + (int64_t)sizeof *t->crew.links);
    return batch * (ids + groups + (t->comm ? gathered : 0)) + (t->comm ? t->towers.batch * (int64_t)sizeof(int64_t) : 0);
}

/* A method that the CPU computes for a GPU takes nothing there. */
static int64_t method(const gf_trainer *t) {
    if (t->host) return 0;
    return (int64_t)(t->method_bytes + (t->store->on ? store_on_device(t->store) : store_on_host(t->store)));
}

void gf_trainer_memory(const gf_trainer *t, gf_memory_split *out) {
    gf_net *net = t->towers.at[0].net;
    struct rusage usage = {0};
    size_t held = 0, peak = 0;
    *out = (gf_memory_split){.loss = batch_arrays(t) + method(t)};
    for (int k = 0; k < t->towers.count; k++) count_tower(&t->towers.at[k], t->towers.dim, out);
    out->data += (int64_t)(on_device(t) ? feed_on_device(&t->feed) : gf_loader_bytes(t->loader));
    getrusage(RUSAGE_SELF, &usage);
    if (gf_net_backend(net)->memory) gf_net_backend(net)->memory(gf_net_engine(net), &held, &peak);
    else peak = (size_t)usage.ru_maxrss * 1024;
    out->workspace += (int64_t)held;
    out->peak = (int64_t)peak;
}
