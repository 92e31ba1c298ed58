/* net.c - the encoder: made once, then forward runs down the list of layers and backward up. */
#include "nn/net.h"

#include <stdlib.h>
#include <string.h>

#include "nn/net_parts.h"
#include "util/parallel.h"

/* ----- making ------------------------------------------------------------------------------------------------------ */

static size_t block_bytes(const gf_net *n) {
    const size_t copies = n->spec.training ? 2 : 1;
    return sizeof(float) * (copies * (size_t)n->graph.params.numbers + (size_t)n->graph.buffers.numbers);
}

/* Bytes of a batch of images on the host. */
static size_t staging_bytes(const gf_net *n) {
    return sizeof(float) * 3 * (size_t)n->spec.size * (size_t)n->spec.size * (size_t)n->spec.batch;
}

size_t gf_net_bytes(const gf_net *n) { return n->graph.arena_bytes + block_bytes(n) + sizeof *n; }

gf_net_memory gf_net_memory_of(const gf_net *n) {
    const gf_graph *g = &n->graph;
    const int shared[] = {g->scratch, g->sums, g->coef, g->aside};
    gf_net_memory m = {.images = n->staging ? staging_bytes(n) : 0};
    size_t copies = 0;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) m.workspace += g->block[shared[i]].bytes;
    for (int i = 0; i < g->layers; i++) copies += g->layer[i].packed < 0 ? 0 : g->block[g->layer[i].packed].bytes;
    m.weights = block_bytes(n) + copies;
    m.activations = g->arena_bytes - m.workspace - copies;
    return m;
}

static const gf_nn_backend *backend_of(glofnd_device device) {
    return device == GLOFND_DEVICE_CUDA ? &gf_nn_backend_cuda : &gf_nn_backend_cpu;
}

/* The engine of spec.engine_owner, or its own. */
static glofnd_status make_engine(gf_error *err, gf_net *n, int estimate) {
    const gf_net *owner = n->spec.engine_owner;
    if (owner) {
        n->backend = owner->backend;
        n->threads = owner->threads;
        n->engine = owner->engine;
        n->spec.device = owner->spec.device;
        return GLOFND_OK;
    }
    n->backend = backend_of(n->spec.device);
    n->threads = n->spec.threads > 0 ? n->spec.threads : gf_parallel_default();
    TRY(n->backend->open(err, n->threads, &n->engine));
    const gf_nn_mode mode = {n->spec.deterministic, n->spec.exact, estimate, n->spec.plans};
    return n->backend->configure ? n->backend->configure(err, n->engine, &mode) : GLOFND_OK;
}

static void build(gf_graph *g, const gf_net_spec *spec) {
    switch (spec->arch) {
    case GF_ARCH_CLIP_RESNET50: gf_clip_resnet_build(g, spec); break;
    case GF_ARCH_VIT: gf_vit_build(g, spec); break;
    case GF_ARCH_TEXT: gf_text_build(g, spec); break;
    default: gf_resnet_build(g, spec); break;
    }
}

/* Everything but the memory. */
static glofnd_status make_plan(gf_error *err, gf_net *n, int estimate) {
    TRY(gf_net_check(err, &n->spec));
    TRY(make_engine(err, n, estimate));
    n->graph.image_channels = n->backend->image_channels;
    n->graph.ranked = n->spec.ranks != NULL;
    build(&n->graph, &n->spec);
    gf_graph_merge_stem(&n->graph, n->backend);
    TRY(gf_graph_ops(err, &n->graph, n->backend, n->engine));
    return gf_graph_plan(err, &n->graph, n->backend);
}

static void *floats(gf_net *n, int64_t count) { return n->backend->alloc(n->engine, sizeof(float) * (size_t)count); }

static glofnd_status make_memory(gf_error *err, gf_net *n) {
    gf_graph *g = &n->graph;
    n->values = floats(n, g->params.numbers);
    n->stats = floats(n, g->buffers.numbers);
    n->grads = n->spec.training ? floats(n, g->params.numbers) : NULL;
    n->arena = n->backend->alloc(n->engine, g->arena_bytes);
    const int missing = !n->values || !n->stats || !n->arena || (n->spec.training && !n->grads);
    if (missing && n->backend->wait)
        TRY(n->backend->wait(err, n->engine)); /* a lost device has no memory, either: its own message is better */
    FAIL_IF(err, missing, GLOFND_E_MEMORY, "out of memory for a net of %zu MB: use a smaller batch or image size%s",
            gf_net_bytes(n) >> 20, n->spec.device == GLOFND_DEVICE_CUDA ? ", or device = cpu" : "");
    gf_graph_bind(g, n->arena, n->values, n->stats, n->grads);
    if (n->spec.ranks && n->grads) gf_net_find_final(n);
    if (g->value[0].packed) TRY(gf_net_texts_init(err, n));
    const int count = g->params.count + g->buffers.count;
    n->tensors = malloc(sizeof *n->tensors * (size_t)count);
    FAIL_IF(err, !n->tensors, GLOFND_E_MEMORY, "out of memory");
    memcpy(n->tensors, g->params.item, sizeof *n->tensors * (size_t)g->params.count);
    memcpy(n->tensors + g->params.count, g->buffers.item, sizeof *n->tensors * (size_t)g->buffers.count);
    return GLOFND_OK;
}

void gf_net_free(gf_net *n) {
    if (!n) return;
    if (n->engine) {
        n->backend->release(n->engine, n->staging);
        n->backend->release(n->engine, n->arena);
        n->backend->release(n->engine, n->grads);
        n->backend->release(n->engine, n->stats);
        n->backend->release(n->engine, n->values);
        if (!n->spec.engine_owner) n->backend->close(n->engine);
    }
    free(n->tokens);
    free(n->packed);
    free(n->tensors);
    free(n);
}

/* For a device they are made on the host and copied there. */
static glofnd_status init_weights(gf_error *err, gf_net *n) {
    gf_graph *g = &n->graph;
    if (!n->backend->put) {
        gf_graph_init(g, &n->spec, n->threads);
        return GLOFND_OK;
    }
    float *host = malloc(sizeof(float) * (size_t)(g->params.numbers + g->buffers.numbers));
    FAIL_IF(err, !host, GLOFND_E_MEMORY, "out of memory");
    gf_graph_bind_tensors(g, host, host + g->params.numbers, NULL);
    gf_graph_init(g, &n->spec, n->threads);
    glofnd_status status = GLOFND_OK;
    for (int i = 0; i < g->params.count + g->buffers.count && status == GLOFND_OK; i++) {
        const float *made = i < g->params.count ? g->params.item[i].value : g->buffers.item[i - g->params.count].value;
        status = gf_net_put(err, n, &n->tensors[i], n->tensors[i].value, made);
    }
    gf_graph_bind_tensors(g, n->values, n->stats, n->grads);
    free(host);
    return status;
}

static glofnd_status new_net(gf_error *err, const gf_net_spec *spec, gf_net **out) {
    gf_net *n = calloc(1, sizeof *n);
    FAIL_IF(err, !n, GLOFND_E_MEMORY, "out of memory");
    n->spec = *spec;
    n->stale = 1;
    *out = n;
    return GLOFND_OK;
}

glofnd_status gf_net_create(gf_error *err, const gf_net_spec *spec, gf_net **out) {
    gf_net *n = NULL;
    TRY(new_net(err, spec, &n));
    glofnd_status status = make_plan(err, n, 0);
    if (status == GLOFND_OK) status = make_memory(err, n);
    if (status == GLOFND_OK) status = init_weights(err, n);
    if (status == GLOFND_OK) *out = n;
    else gf_net_free(n);
    return status;
}

glofnd_status gf_net_estimate(gf_error *err, const gf_net_spec *spec, size_t *bytes) {
    gf_net *n = NULL;
    TRY(new_net(err, spec, &n));
    if (spec->engine_owner) n->spec.device = spec->engine_owner->spec.device;
    n->spec.engine_owner = NULL; /* ops of an estimate must not stay in its engine */
    const glofnd_status status = make_plan(err, n, 1);
    if (status == GLOFND_OK) *bytes = gf_net_bytes(n);
    gf_net_free(n);
    return status;
}

/* ----- queries ----------------------------------------------------------------------------------------------------- */

int gf_net_tensors(gf_net *n, gf_tensor **out) {
    *out = n->tensors;
    return n->graph.params.count + n->graph.buffers.count;
}

int gf_net_available(void) {
    gf_error err;
    gf_nn_engine *engine = NULL;
    if (gf_nn_backend_cpu.open(&err, 1, &engine) != GLOFND_OK) return 0;
    gf_nn_backend_cpu.close(engine);
    return 1;
}

void gf_net_describe(char *text, size_t bytes) { gf_nn_backend_cpu.describe(text, bytes); }
void gf_net_describe_device(glofnd_device device, char *text, size_t bytes) { backend_of(device)->describe(text, bytes); }
const gf_nn_backend *gf_net_backend(const gf_net *n) { return n->backend; }
gf_nn_engine *gf_net_engine(gf_net *n) { return n->engine; }
void *gf_net_stream(gf_net *n) { return n->backend->stream ? n->backend->stream(n->engine) : NULL; }

void gf_net_beside(gf_net *n, gf_nn_beside how) {
    const int may = n->backend->beside && n->spec.engine_owner && !n->spec.ranks && n->spec.arch == GF_ARCH_TEXT;
    if (may) n->backend->beside(n->engine, how);
}

void gf_net_touch(gf_net *n) { n->stale = 1; }

int64_t gf_net_features(const gf_net *n) { return n->graph.value[n->graph.features].c; }

/* ----- forward ----------------------------------------------------------------------------------------------------- */

void gf_net_packed(const gf_net *n, gf_packed_ops *out, int from, int to, int *first, int *last) {
    out->count = *first = *last = 0;
    for (int i = 0; i < n->graph.layers; i++) {
        const gf_layer *l = &n->graph.layer[i];
        if (l->packed < 0) continue;
        out->args[out->count] = &l->args;
        out->op[out->count++] = l->op;
        *first += i < from;
        *last += i < to;
    }
}

typedef glofnd_status (*together)(gf_error *err, gf_nn_engine *s, const gf_nn_args *const *args, gf_nn_op *const *ops, int count);

static glofnd_status all_packed(gf_error *err, gf_net *n, together what) {
    gf_packed_ops list;
    int first, last;
    gf_net_packed(n, &list, 0, n->graph.layers, &first, &last);
    return what(err, n->engine, list.args, list.op, list.count);
}

/* Not skipped where a training step may be recorded: the record must contain it. */
static glofnd_status pack_weights(gf_error *err, gf_net *n, int train) {
    if (!n->stale && !(train && n->backend->record)) return GLOFND_OK;
    n->stale = 0;
    if (n->backend->pack_all) return all_packed(err, n, n->backend->pack_all);
    for (int i = 0; i < n->graph.layers; i++) {
        gf_layer *l = &n->graph.layer[i];
        if (l->packed >= 0) TRY(n->backend->op_pack(err, l->op, &l->args));
    }
    return GLOFND_OK;
}

void *gf_net_input(gf_net *n, int *channels) {
    const gf_value *v = &n->graph.value[0];
    if (channels) *channels = (int)v->c;
    return n->arena + n->graph.block[v->data].offset;
}

/* Copied unchanged, then cast and padded on the device. */
static glofnd_status send_images(gf_error *err, gf_net *n, const float *x, void *dst, int64_t first, int64_t count) {
    const int64_t pixels = (int64_t)n->spec.size * n->spec.size;
    if (!n->staging) n->staging = n->backend->alloc(n->engine, staging_bytes(n));
    FAIL_IF(err, !n->staging, GLOFND_E_MEMORY, "out of memory for a batch of images on the device: use a smaller batch");
    float *at = n->staging + 3 * pixels * first;
    TRY(n->backend->put(err, n->engine, at, x, sizeof(float) * 3 * (size_t)(pixels * count)));
    n->backend->images(n->engine, n->graph.value[0].type, dst, at, count * pixels);
    return GLOFND_OK;
}

glofnd_status gf_net_check_range(gf_error *err, const gf_net *n, int64_t first, int64_t count, const char *what) {
    FAIL_IF(err, first < 0 || count < 0 || first > n->spec.batch || count > n->spec.batch - first, GLOFND_E_ARGUMENT,
            "%s %lld to %lld: the net was built for %lld", what, (long long)first, (long long)(first + count),
            (long long)n->spec.batch);
    return GLOFND_OK;
}

glofnd_status gf_net_load(gf_error *err, gf_net *n, const float *x, int64_t first, int64_t count) {
    const gf_value *v = &n->graph.value[0];
    const int64_t image = v->h * v->w * v->c;
    FAIL_IF(err, v->type == GF_TYPE_I32, GLOFND_E_ARGUMENT, "a net for texts takes tokens, not images");
    TRY(gf_net_check_range(err, n, first, count, "images"));
    char *dst = (char *)gf_net_input(n, NULL) + gf_type_bytes(v->type) * (size_t)(image * first);
    if (n->backend->put) return send_images(err, n, x, dst, first, count);
    n->backend->cast(n->engine, v->type, dst, x, count * image);
    return GLOFND_OK;
}

/* Missing images of an incomplete batch are black, on a device they stay unchanged; missing texts are a token each. In eval mode
 * samples do not affect each other. */
static glofnd_status blank(gf_error *err, gf_net *n, int64_t count) {
    const gf_value *v = &n->graph.value[0];
    const size_t bytes = gf_type_bytes(v->type) * (size_t)(v->h * v->w * v->c);
    if (v->packed) return gf_net_texts_blank(err, n, count);
    if (!n->backend->put)
        memset((char *)gf_net_input(n, NULL) + bytes * (size_t)count, 0, bytes * (size_t)(n->spec.batch - count));
    return GLOFND_OK;
}

/* The same images a second time: running averages stay. */
static gf_nn_norm with_averages_aside(const gf_net *n, const gf_nn_norm *norm) {
    gf_nn_norm aside = *norm;
    aside.running_mean = (float *)(void *)(n->arena + n->graph.block[n->graph.aside].offset);
    aside.running_var = aside.running_mean + aside.c;
    return aside;
}

static glofnd_status norm_forward(gf_error *err, gf_net *n, const gf_layer *l, int train) {
    const gf_nn_norm aside = with_averages_aside(n, &l->norm);
    const gf_nn_norm *norm = train == 2 ? &aside : &l->norm;
    if (train) return l->merged ? gf_net_norm_stats(err, n, norm) : gf_net_norm_forward(err, n, norm);
    n->backend->norm_eval(n->engine, norm);
    if (!l->merged) n->backend->norm_apply(n->engine, norm);
    return GLOFND_OK;
}

/* Statistics of the batch norm that follows are made in training alone. */
static glofnd_status op_forward(gf_error *err, gf_net *n, const gf_layer *l, int train) {
    if (l->norm_after < 0 || train == 1) return n->backend->op_forward(err, l->op, &l->args);
    const gf_nn_norm aside = with_averages_aside(n, l->args.norm);
    gf_nn_args a = l->args;
    a.norm = train ? &aside : NULL;
    return n->backend->op_forward(err, l->op, &a);
}

static glofnd_status layer_forward(gf_error *err, gf_net *n, gf_layer *l, int train) {
    const gf_value *in = &n->graph.value[l->in];
    switch (l->kind) {
    case GF_LAYER_OP: return op_forward(err, n, l, train);
    case GF_LAYER_NORM: return norm_forward(err, n, l, train);
    case GF_LAYER_MEAN: n->backend->mean(n->engine, in->type, l->args.y, l->args.x, in->n, in->h * in->w, in->c); break;
    }
    return GLOFND_OK;
}

static const float *result(const gf_net *n, int value) {
    return (const float *)(const void *)(n->arena + n->graph.block[n->graph.value[value].data].offset);
}

glofnd_status gf_net_forward(gf_error *err, gf_net *n, const float *x, int64_t count, int train, const float **features,
                             const float **projection) {
    FAIL_IF(err, train && !n->spec.training, GLOFND_E_ARGUMENT, "this net was made for eval mode only");
    FAIL_IF(err, train && count != n->spec.batch, GLOFND_E_ARGUMENT, "training takes whole batches: %lld images, not %lld",
            (long long)n->spec.batch, (long long)count);
    FAIL_IF(err, count < 1 || count > n->spec.batch, GLOFND_E_ARGUMENT, "%lld images: this net takes 1 to %lld", (long long)count,
            (long long)n->spec.batch);
    n->ready = 0;
    TRY(pack_weights(err, n, train));
    if (x) TRY(gf_net_load(err, n, x, 0, count));
    if (count < n->spec.batch) TRY(blank(err, n, count));
    for (int i = 0; i < n->graph.layers; i++) TRY(layer_forward(err, n, &n->graph.layer[i], train));
    n->ready = train > 0;
    if (features) *features = result(n, n->graph.features);
    if (projection) *projection = n->spec.head_out || n->spec.embed_dim ? result(n, n->graph.projection) : NULL;
    return GLOFND_OK;
}

/* ----- backward ---------------------------------------------------------------------------------------------------- */

/* Batch norm takes a gradient in two parts; other layers need their sum. */
static void join_gradient(gf_net *n, const gf_layer *l) {
    const gf_value *out = &n->graph.value[l->out];
    if (out->grads < 2 || l->kind == GF_LAYER_NORM) return;
    char *first = n->arena + n->graph.block[out->grad[0]].offset;
    const char *second = n->arena + n->graph.block[out->grad[1]].offset;
    n->backend->add(n->engine, out->type, first, second, (out->packed ? n->graph.texts.rows : out->n * out->h * out->w) * out->c);
}

static glofnd_status layer_backward(gf_error *err, gf_net *n, gf_layer *l) {
    const gf_value *in = &n->graph.value[l->in];
    join_gradient(n, l);
    switch (l->kind) {
    case GF_LAYER_OP: return n->backend->op_backward(err, l->op, &l->args);
    case GF_LAYER_NORM: return gf_net_norm_backward(err, n, l);
    case GF_LAYER_MEAN: n->backend->mean_back(n->engine, in->type, l->args.dx, l->args.dy, in->n, in->h * in->w, in->c); break;
    }
    return GLOFND_OK;
}

glofnd_status gf_net_backward(gf_error *err, gf_net *n, const float *d) {
    FAIL_IF(err, !n->ready, GLOFND_E_ARGUMENT, "backward follows a forward in training mode, once");
    n->ready = 0;
    const gf_value *out = &n->graph.value[n->graph.projection];
    n->backend->cast(n->engine, GF_TYPE_F32, n->arena + n->graph.block[out->grad[0]].offset, d, out->n * out->c);
    gf_net_report_begin(n);
    for (int i = n->graph.layers - 1; i >= 0; i--) {
        TRY(layer_backward(err, n, &n->graph.layer[i]));
        TRY(gf_net_report_final(err, n, i));
    }
    return n->backend->unpack_all && !gf_net_reports_final(n) ? all_packed(err, n, n->backend->unpack_all) : GLOFND_OK;
}

/* ----- recorded steps ------------------------------------------------------------------------------------------------
 *
 * NCCL requires (its manual, "Using NCCL with CUDA Graphs") that a call is recorded on all ranks or none, and that all ranks play
 * the record or none does. A rank alone may fail to make its record, for lack of memory, once all calls are in it: then the
 * others drop theirs. A failure of the work itself is not shared: the others may be inside a call that waits for this rank,
 * which ends the run on all ranks, as after any failure in a step.
 */

typedef glofnd_status (*step)(gf_error *err, void *arg);

static glofnd_status record(gf_error *err, gf_net *n, int slot, step work, void *arg) {
    const gf_sync_norm *r = n->spec.ranks;
    int made = 0;
    TRY(n->backend->record(err, n->engine, slot, work, arg, &made));
    if (r && r->agree) TRY(r->agree(err, r->user, &made));
    if (!made) gf_net_forget(n);
    n->replay.none = !made;
    n->replay.slot[slot].made = made;
    return GLOFND_OK;
}

/* The net that owns the engine. */
static gf_net *owner(gf_net *n) {
    while (n->spec.engine_owner) n = n->spec.engine_owner;
    return n;
}

/* The slot of a variant; else the one not used for the longest time, without its record. */
static int slot_of(gf_net *n, int64_t variant) {
    int oldest = 0;
    for (int i = 0; i < GF_NN_RECORDS; i++) {
        if (n->replay.slot[i].used && n->replay.slot[i].variant == variant) return i;
        if (n->replay.slot[i].used < n->replay.slot[oldest].used) oldest = i;
    }
    n->replay.slot[oldest].variant = variant;
    n->replay.slot[oldest].times = n->replay.slot[oldest].made = 0;
    return oldest;
}

glofnd_status gf_net_replay(gf_error *err, gf_net *n, uint64_t key, int64_t variant, step work, void *arg) {
    n = owner(n);
    if (!n->backend->record) return work(err, arg);
    if (key != n->replay.key) gf_net_forget(n);
    n->replay.key = key;
    const int slot = slot_of(n, variant);
    n->replay.slot[slot].used = ++n->replay.now;
    if (++n->replay.slot[slot].times == 2 && !n->replay.none) TRY(record(err, n, slot, work, arg));
    return n->backend->run(err, n->engine, n->replay.slot[slot].made ? slot : -1, work, arg);
}

void gf_net_forget(gf_net *n) {
    n = owner(n);
    memset(n->replay.slot, 0, sizeof n->replay.slot);
    if (n->backend->forget) n->backend->forget(n->engine);
}
