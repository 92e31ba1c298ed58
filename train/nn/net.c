/* net.c - the encoder: made once, then forward runs down the list of layers and backward up. */
#include "nn/net.h"

#include <stdlib.h>
#include <string.h>

#include "nn/graph.h"
#include "util/array.h"
#include "util/parallel.h"

/* ----- whether it can be made -------------------------------------------------------------------------------------- */

int gf_spec_is_resnet(const gf_net_spec *s) { return s->arch <= GF_ARCH_RESNET50; }

/* Messages name the value and the expected range. */
static glofnd_status check_transformer(gf_error *err, const gf_net_spec *s) {
    FAIL_IF(err, s->width < 8 || s->width > 1 << 14, GLOFND_E_ARGUMENT, "width %d of a transformer: it must be 8 to 16384",
            s->width);
    FAIL_IF(err, s->layers < 1 || s->layers > GF_MAX_DEPTH, GLOFND_E_ARGUMENT, "%d layers of a transformer: 1 to %d are possible",
            s->layers, (int)GF_MAX_DEPTH);
    FAIL_IF(err, s->heads < 1 || s->width % s->heads != 0, GLOFND_E_ARGUMENT,
            "%d heads: they must divide the width of the transformer, %d", s->heads, s->width);
    if (s->arch == GF_ARCH_VIT) {
        FAIL_IF(err, s->patch < 1 || s->patch > s->size || s->size % s->patch != 0, GLOFND_E_ARGUMENT,
                "patches of %d pixels: they must divide the image size, %d", s->patch, s->size);
        const int64_t tokens = (int64_t)(s->size / s->patch) * (s->size / s->patch) + 1;
        FAIL_IF(err, tokens > 4096, GLOFND_E_ARGUMENT,
                "patches of %d pixels make %lld tokens of an image of %d, and 4096 are possible: use larger ones", s->patch,
                (long long)tokens, s->size);
    } else {
        FAIL_IF(err, s->context < 2 || s->context > 4096, GLOFND_E_ARGUMENT, "context of %d tokens: it must be 2 to 4096",
                s->context);
        FAIL_IF(err, s->batch * s->context > INT32_MAX, GLOFND_E_ARGUMENT,
                "%lld texts of %d tokens at a time; a network takes at most 2^31 - 1 tokens: lower batch or context",
                (long long)s->batch, s->context);
        FAIL_IF(err, s->vocab < 2 || s->vocab > 1 << 24, GLOFND_E_ARGUMENT, "vocabulary of %d tokens: it must be 2 to 16777216",
                s->vocab);
    }
    return GLOFND_OK;
}

static glofnd_status check_spec(gf_error *err, const gf_net_spec *s) {
    FAIL_IF(err, s->arch < GF_ARCH_RESNET8 || s->arch > GF_ARCH_TEXT, GLOFND_E_ARGUMENT, "arch %d is not known", (int)s->arch);
    FAIL_IF(err, s->precision != GF_FP32 && s->precision != GF_BF16, GLOFND_E_ARGUMENT, "precision %d is not known",
            (int)s->precision);
    FAIL_IF(err, s->batch < 1 || s->batch > 1 << 20, GLOFND_E_ARGUMENT,
            "batch: %lld images at a time, the two views of one counted twice; a network takes 1 to 1048576",
            (long long)s->batch);
    FAIL_IF(err, s->threads < 0 || s->threads > 4096, GLOFND_E_ARGUMENT, "threads %d: it must be 0 to 4096", s->threads);
    FAIL_IF(err, s->embed_dim < 0 || s->embed_dim > 1 << 16 || (!gf_spec_is_resnet(s) && s->embed_dim < 1), GLOFND_E_ARGUMENT,
            "embedding of %d numbers: it must be 1 to 65536", s->embed_dim);
    if (s->arch != GF_ARCH_TEXT) {
        FAIL_IF(err, s->size < 8 || s->size > 4096, GLOFND_E_ARGUMENT, "image size %d: it must be 8 to 4096 pixels", s->size);
        const int64_t pixels = s->batch * s->size * s->size; /* both are bounded */
        FAIL_IF(err, pixels > (int64_t)1 << 33, GLOFND_E_ARGUMENT,
                "%lld images of %d x %d pixels at a time; a network takes at most 2^33 pixels: lower batch or size",
                (long long)s->batch, s->size, s->size);
        FAIL_IF(err, s->training && s->batch < 2 && s->arch != GF_ARCH_VIT, GLOFND_E_ARGUMENT,
                "batch 1 cannot be trained on: batch norm needs two images");
    }
    FAIL_IF(err, s->head_hidden < 0 || s->head_hidden > 1 << 16 || s->head_out < 0 || s->head_out > 1 << 16, GLOFND_E_ARGUMENT,
            "head %d x %d: widths must be 0 to 65536", s->head_hidden, s->head_out);
    FAIL_IF(err, (s->head_hidden == 0) != (s->head_out == 0), GLOFND_E_ARGUMENT,
            "head %d x %d: give both widths, or 0 for both (no head)", s->head_hidden, s->head_out);
    FAIL_IF(err, s->head_out > 0 && (!gf_spec_is_resnet(s) || s->embed_dim > 0), GLOFND_E_ARGUMENT,
            "a net with an embedding (%d) has no head (%d x %d): give 0 for both of its widths", s->embed_dim, s->head_hidden,
            s->head_out);
    if (s->arch == GF_ARCH_CLIP_RESNET50) {
        const int width = s->width ? s->width : 64, heads = s->heads ? s->heads : width / 2;
        FAIL_IF(err, width < 2 || width > 1024 || width % 2 != 0, GLOFND_E_ARGUMENT, "width %d: it must be even, 2 to 1024",
                width);
        FAIL_IF(err, heads < 1 || 32 * width % heads != 0, GLOFND_E_ARGUMENT,
                "%d heads of the attention pooling: they must divide its width, %d", heads, 32 * width);
        FAIL_IF(err, s->size % 32 != 0, GLOFND_E_ARGUMENT, "image size %d: it must be a multiple of 32 pixels", s->size);
    }
    return s->arch == GF_ARCH_VIT || s->arch == GF_ARCH_TEXT ? check_transformer(err, s) : GLOFND_OK;
}

/* ----- copies between the memory of a net and the host ------------------------------------------------------------- */

/* On the CPU all of them are memcpy. A device keeps convolution weights as [out][height][width][in], `in` padded with zeros to
 * the channels of its input; torch has [out][in][height][width]. Both directions go through a host copy: for checkpoints and
 * initial weights, not for steps. */

/* Moves between torch's layout and the device's, both on the host. */
static void reorder_weights(const gf_tensor *t, float *torch, float *device, int to_device) {
    const int64_t out = t->shape[0], in = t->shape[1], hw = t->shape[2] * t->shape[3], padded = t->stored / (out * hw);
    if (to_device) memset(device, 0, sizeof(float) * (size_t)t->stored);
    for (int64_t o = 0; o < out; o++)
        for (int64_t c = 0; c < in; c++)
            for (int64_t k = 0; k < hw; k++) {
                float *a = &torch[(o * in + c) * hw + k], *b = &device[(o * hw + k) * padded + c];
                if (to_device) *b = *a;
                else *a = *b;
            }
}

glofnd_status gf_net_read(gf_error *err, gf_net *n, void *host, const void *from, size_t bytes) {
    if (n->backend->get) return n->backend->get(err, n->engine, host, from, bytes);
    memcpy(host, from, bytes);
    return GLOFND_OK;
}

glofnd_status gf_net_write(gf_error *err, gf_net *n, void *to, const void *host, size_t bytes) {
    if (n->backend->put) return n->backend->put(err, n->engine, to, host, bytes);
    memcpy(to, host, bytes);
    return GLOFND_OK;
}

static int is_reordered(const gf_net *n, const gf_tensor *t) { return n->backend->put && t->rank == 4; }

glofnd_status gf_net_get(gf_error *err, gf_net *n, const gf_tensor *t, const float *at, float *host) {
    if (!is_reordered(n, t)) return gf_net_read(err, n, host, at, sizeof(float) * (size_t)t->count);
    float *device = malloc(sizeof(float) * (size_t)t->stored);
    FAIL_IF(err, !device, GLOFND_E_MEMORY, "out of memory");
    const glofnd_status status = gf_net_read(err, n, device, at, sizeof(float) * (size_t)t->stored);
    if (status == GLOFND_OK) reorder_weights(t, host, device, 0);
    free(device);
    return status;
}

glofnd_status gf_net_put(gf_error *err, gf_net *n, const gf_tensor *t, float *at, const float *host) {
    if (!is_reordered(n, t)) return gf_net_write(err, n, at, host, sizeof(float) * (size_t)t->count);
    float *device = malloc(sizeof(float) * (size_t)t->stored);
    FAIL_IF(err, !device, GLOFND_E_MEMORY, "out of memory");
    reorder_weights(t, (float *)(uintptr_t)host, device, 1);
    glofnd_status status = gf_net_write(err, n, at, device, sizeof(float) * (size_t)t->stored);
    if (status == GLOFND_OK) status = n->backend->wait(err, n->engine); /* the copy may still read `device` */
    free(device);
    return status;
}

void *gf_net_alloc(gf_net *n, size_t bytes) { return n->backend->alloc(n->engine, bytes); }

void gf_net_release(gf_net *n, void *p) {
    if (n) n->backend->release(n->engine, p);
}

float *gf_net_alloc_state(gf_net *n) { return gf_net_alloc(n, sizeof(float) * (size_t)n->graph.params.numbers); }
float *gf_net_place(const gf_net *n, float *block, const gf_tensor *t) { return block + (t->value - n->values); }

void gf_net_add_gradients(gf_net *n, float *block, int first) {
    const int64_t count = n->graph.params.numbers;
    if (first) n->backend->cast(n->engine, GF_TYPE_F32, block, n->grads, count);
    else n->backend->add(n->engine, GF_TYPE_F32, block, n->grads, count);
}

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

/* Everything but the memory. */
static glofnd_status make_plan(gf_error *err, gf_net *n, int estimate) {
    TRY(check_spec(err, &n->spec));
    TRY(make_engine(err, n, estimate));
    n->graph.image_channels = n->backend->image_channels;
    n->graph.ranked = n->spec.ranks != NULL;
    switch (n->spec.arch) {
    case GF_ARCH_CLIP_RESNET50: gf_clip_resnet_build(&n->graph, &n->spec); break;
    case GF_ARCH_VIT: gf_vit_build(&n->graph, &n->spec); break;
    case GF_ARCH_TEXT: gf_text_build(&n->graph, &n->spec); break;
    default: gf_resnet_build(&n->graph, &n->spec); break;
    }
    gf_graph_merge_stem(&n->graph, n->backend);
    TRY(gf_graph_ops(err, &n->graph, n->backend, n->engine));
    return gf_graph_plan(err, &n->graph, n->backend);
}

static glofnd_status make_memory(gf_error *err, gf_net *n) {
    gf_graph *g = &n->graph;
    n->values = gf_net_alloc_state(n);
    n->stats = gf_net_alloc(n, sizeof(float) * (size_t)g->buffers.numbers);
    n->grads = n->spec.training ? gf_net_alloc_state(n) : NULL;
    n->arena = n->backend->alloc(n->engine, g->arena_bytes);
    const int missing = !n->values || !n->stats || !n->arena || (n->spec.training && !n->grads);
    if (missing && n->backend->wait)
        TRY(n->backend->wait(err, n->engine)); /* a lost device has no memory, either: its own message is better */
    FAIL_IF(err, missing, GLOFND_E_MEMORY, "out of memory for a net of %zu MB: use a smaller batch or image size%s",
            gf_net_bytes(n) >> 20, n->spec.device == GLOFND_DEVICE_CUDA ? ", or device = cpu" : "");
    gf_graph_bind(g, n->arena, n->values, n->stats, n->grads);
    if (n->spec.ranks && n->grads) {
        int64_t end = 0;
        for (int i = 0; i < n->graph.layers; i++) {
            n->final_from[i] = end; /* parameters of earlier layers end here */
            const gf_layer *l = &n->graph.layer[i];
            const float *const grads[] = {l->args.weight_grad, l->args.bias_grad, l->norm.dgamma, l->norm.dbeta};
            for (size_t j = 0; j < sizeof grads / sizeof *grads; j++)
                for (int t = 0; grads[j] && t < n->graph.params.count; t++) {
                    const gf_tensor *x = &n->graph.params.item[t];
                    if (x->grad == grads[j]) end = GF_MAX(end, x->grad - n->grads + x->stored);
                }
        }
    }
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

float *gf_net_gradients(gf_net *n, int64_t *numbers) {
    *numbers = n->graph.params.numbers;
    return n->grads;
}

/* ----- forward ----------------------------------------------------------------------------------------------------- */

/* Ops with packed weights, in the order of layers. */
typedef struct packed_ops {
    const gf_nn_args *args[GF_MAX_LAYERS];
    gf_nn_op *op[GF_MAX_LAYERS];
    int count, first, last; /* first: of them, those before layer `from`; last: before layer `to` */
} packed_ops;

static void list_packed(const gf_net *n, packed_ops *out, int from, int to) {
    out->count = out->first = out->last = 0;
    for (int i = 0; i < n->graph.layers; i++) {
        const gf_layer *l = &n->graph.layer[i];
        if (l->packed < 0) continue;
        out->args[out->count] = &l->args;
        out->op[out->count++] = l->op;
        out->first += i < from;
        out->last += i < to;
    }
}

void *gf_net_input(gf_net *n, int *channels) {
    const gf_value *v = &n->graph.value[0];
    if (channels) *channels = (int)v->c;
    return n->arena + n->graph.block[v->data].offset;
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
    char *dst = n->arena + n->graph.block[v->data].offset + gf_type_bytes[v->type] * (size_t)(image * first);
    if (n->backend->put) {
        /* Copied unchanged, then cast and padded on the device. */
        const int64_t pixels = (int64_t)n->spec.size * n->spec.size;
        if (!n->staging) n->staging = n->backend->alloc(n->engine, staging_bytes(n));
        FAIL_IF(err, !n->staging, GLOFND_E_MEMORY, "out of memory for a batch of images on the device: use a smaller batch");
        float *at = n->staging + 3 * pixels * first;
        TRY(n->backend->put(err, n->engine, at, x, sizeof(float) * 3 * (size_t)(pixels * count)));
        n->backend->images(n->engine, n->graph.value[0].type, dst, at, count * pixels);
        return GLOFND_OK;
    }
    n->backend->cast(n->engine, v->type, dst, x, count * image);
    return GLOFND_OK;
}

/* Sums of a batch norm over all ranks, and the rows that they are of. */
static glofnd_status add_over_ranks(gf_error *err, const gf_net *n, const gf_nn_norm *norm, double *rows) {
    const gf_sync_norm *r = n->spec.ranks;
    *rows = (double)(norm->counted ? norm->counted : norm->rows) * (r ? r->count : 1);
    return r ? r->sum(err, r->user, norm->sums, 2 * norm->c) : GLOFND_OK;
}

static glofnd_status layer_forward(gf_error *err, gf_net *n, gf_layer *l, int train) {
    const gf_nn_backend *b = n->backend;
    const gf_value *in = &n->graph.value[l->in];
    const gf_nn_norm *norm = l->kind == GF_LAYER_NORM ? &l->norm : l->args.norm;
    gf_nn_norm aside;
    double rows;
    if (norm && train == 2) { /* the same images a second time: running averages stay */
        aside = *norm;
        aside.running_mean = (float *)(void *)(n->arena + n->graph.block[n->graph.aside].offset);
        aside.running_var = aside.running_mean + aside.c;
        norm = &aside;
    }
    switch (l->kind) {
    case GF_LAYER_OP: {
        gf_nn_args args = l->args;
        if (l->norm_after >= 0)
            args.norm = train ? norm : NULL; /* statistics of the norm that follows are made in training alone */
        return b->op_forward(err, l->op, &args);
    }
    case GF_LAYER_NORM: /* statistics, then y, unless a different norm writes it */
        if (train && !n->spec.ranks && !l->merged && b->norm_forward) {
            b->norm_forward(n->engine, norm);
            break;
        }
        if (!train) b->norm_eval(n->engine, norm);
        else if (!n->spec.ranks && b->norm_stats) b->norm_stats(n->engine, norm);
        else {
            b->norm_sums(n->engine, norm);
            TRY(add_over_ranks(err, n, norm, &rows));
            b->norm_finish(n->engine, norm, rows);
        }
        if (!l->merged) b->norm_apply(n->engine, norm);
        break;
    case GF_LAYER_MEAN: b->mean(n->engine, in->type, l->args.y, l->args.x, in->n, in->h * in->w, in->c); break;
    }
    return GLOFND_OK;
}

glofnd_status gf_net_forward(gf_error *err, gf_net *n, const float *x, int64_t count, int train, const float **features,
                             const float **projection) {
    FAIL_IF(err, train && !n->spec.training, GLOFND_E_ARGUMENT, "this net was made for eval mode only");
    FAIL_IF(err, train && count != n->spec.batch, GLOFND_E_ARGUMENT, "training takes whole batches: %lld images, not %lld",
            (long long)n->spec.batch, (long long)count);
    FAIL_IF(err, count < 1 || count > n->spec.batch, GLOFND_E_ARGUMENT, "%lld images: this net takes 1 to %lld", (long long)count,
            (long long)n->spec.batch);
    n->ready = 0;
    if (n->stale || (train && n->backend->record)) { /* a training step that may be recorded: the record must contain it */
        packed_ops list;
        n->stale = 0;
        list_packed(n, &list, 0, n->graph.layers);
        if (n->backend->pack_all) TRY(n->backend->pack_all(err, n->engine, list.args, list.op, list.count));
        for (int i = 0; i < list.count && !n->backend->pack_all; i++) TRY(n->backend->op_pack(err, list.op[i], list.args[i]));
    }
    if (x) TRY(gf_net_load(err, n, x, 0, count));
    if (count < n->spec.batch) { /* in eval mode samples do not affect each other */
        const gf_value *v = &n->graph.value[0];
        const size_t bytes = gf_type_bytes[v->type] * (size_t)(v->h * v->w * v->c);
        if (v->packed) TRY(gf_net_texts_blank(err, n, count)); /* missing texts are a token each */
        else if (!n->backend->put)                             /* missing images are black; on a device they stay unchanged */
            memset((char *)gf_net_input(n, NULL) + bytes * (size_t)count, 0, bytes * (size_t)(n->spec.batch - count));
    }
    for (int i = 0; i < n->graph.layers; i++) TRY(layer_forward(err, n, &n->graph.layer[i], train));
    n->ready = train > 0;
    const gf_value *v = n->graph.value;
    void *const feature = n->arena + n->graph.block[v[n->graph.features].data].offset;
    void *const result = n->arena + n->graph.block[v[n->graph.projection].data].offset;
    if (features) *features = feature;
    if (projection) *projection = n->spec.head_out || n->spec.embed_dim ? result : NULL;
    return GLOFND_OK;
}

/* ----- backward ---------------------------------------------------------------------------------------------------- */

/* The backward of layer i is done: reports the gradients that are final now, once they are a whole bucket. Where op_backward
 * leaves gradients in a format of the device, moves those of layers i and later that are not reported yet. */
static glofnd_status report_final(gf_error *err, gf_net *n, int i) {
    const gf_sync_norm *r = n->spec.ranks;
    if (i > 0 && n->reported_from - n->final_from[i] < r->bucket) return GLOFND_OK;
    if (n->backend->unpack_some) {
        packed_ops list;
        list_packed(n, &list, i, n->reported_layer);
        TRY(n->backend->unpack_some(err, n->engine, list.args, list.op, list.count, list.first, list.last));
    }
    n->reported_from = n->final_from[i];
    n->reported_layer = i;
    r->ready(r->user, n, n->reported_from);
    return GLOFND_OK;
}

static glofnd_status layer_backward(gf_error *err, gf_net *n, gf_layer *l) {
    const gf_nn_backend *b = n->backend;
    const gf_nn_norm *norm = &l->norm;
    double rows;
    const gf_value *in = &n->graph.value[l->in], *out = &n->graph.value[l->out];
    if (out->grads == 2 && l->kind != GF_LAYER_NORM) { /* batch norm takes a gradient in two parts; other layers need their sum */
        char *first = n->arena + n->graph.block[out->grad[0]].offset;
        const char *second = n->arena + n->graph.block[out->grad[1]].offset;
        b->add(n->engine, out->type, first, second, (out->packed ? n->graph.texts.rows : out->n * out->h * out->w) * out->c);
    }
    switch (l->kind) {
    case GF_LAYER_OP: return b->op_backward(err, l->op, &l->args);
    case GF_LAYER_MEAN: b->mean_back(n->engine, in->type, l->args.dx, l->args.dy, in->n, in->h * in->w, in->c); break;
    case GF_LAYER_NORM:
        if (!n->spec.ranks && b->norm_backward) {
            if (!l->merged) b->norm_backward(n->engine, norm); /* else done with the norm it is merged into */
            break;
        }
        b->norm_back_sums(n->engine, norm);
        TRY(add_over_ranks(err, n, norm, &rows));
        b->norm_back_finish(n->engine, norm, rows);
        b->norm_back_apply(n->engine, norm);
        break;
    }
    return GLOFND_OK;
}

glofnd_status gf_net_backward(gf_error *err, gf_net *n, const float *d) {
    FAIL_IF(err, !n->ready, GLOFND_E_ARGUMENT, "backward follows a forward in training mode, once");
    n->ready = 0;
    const gf_value *out = &n->graph.value[n->graph.projection];
    const int reports = n->spec.ranks && n->spec.ranks->ready; /* several ranks wait for gradients while backward continues */
    n->backend->cast(n->engine, GF_TYPE_F32, n->arena + n->graph.block[out->grad[0]].offset, d, out->n * out->c);
    n->reported_from = n->graph.params.numbers;
    n->reported_layer = n->graph.layers;
    if (reports) n->spec.ranks->ready(n->spec.ranks->user, n, n->reported_from);
    for (int i = n->graph.layers - 1; i >= 0; i--) {
        TRY(layer_backward(err, n, &n->graph.layer[i]));
        if (reports) TRY(report_final(err, n, i));
    }
    if (!n->backend->unpack_all || reports) return GLOFND_OK;
    packed_ops list;
    list_packed(n, &list, 0, n->graph.layers);
    return n->backend->unpack_all(err, n->engine, list.args, list.op, list.count);
}

/* ----- recorded steps ------------------------------------------------------------------------------------------------
 *
 * NCCL requires (its manual, "Using NCCL with CUDA Graphs") that a call is recorded on all ranks or none, and that all ranks play
 * the record or none does. A rank alone may fail to make its record, for lack of memory, once all calls are in it: then the
 * others drop theirs. A failure of the work itself is not shared: the others may be inside a call that waits for this rank,
 * which ends the run on all ranks, as after any failure in a step.
 */

/* The net that owns the engine. */
static gf_net *engine_owner(gf_net *n) {
    while (n->spec.engine_owner) n = n->spec.engine_owner;
    return n;
}

glofnd_status gf_net_replay(gf_error *err, gf_net *n, uint64_t key, int64_t variant,
                            glofnd_status (*work)(gf_error *err, void *arg), void *arg) {
    n = engine_owner(n);
    if (!n->backend->record) return work(err, arg);
    if (key != n->replay.key) gf_net_forget(n);
    n->replay.key = key;
    /* The slot of the variant; else the one not used for the longest time, without its record. */
    int slot = 0, found = 0;
    for (int i = 0; i < GF_NN_RECORDS && !found; i++) {
        found = n->replay.slot[i].used && n->replay.slot[i].variant == variant;
        if (found || n->replay.slot[i].used < n->replay.slot[slot].used) slot = i;
    }
    if (!found) {
        n->replay.slot[slot].variant = variant;
        n->replay.slot[slot].times = n->replay.slot[slot].made = 0;
    }
    n->replay.slot[slot].used = ++n->replay.now;
    if (++n->replay.slot[slot].times == 2 && !n->replay.none) {
        const gf_sync_norm *r = n->spec.ranks;
        int made = 0;
        TRY(n->backend->record(err, n->engine, slot, work, arg, &made));
        if (r && r->agree) TRY(r->agree(err, r->user, &made));
        if (!made) gf_net_forget(n);
        n->replay.none = !made;
        n->replay.slot[slot].made = made;
    }
    return n->backend->run(err, n->engine, n->replay.slot[slot].made ? slot : -1, work, arg);
}

void gf_net_forget(gf_net *n) {
    n = engine_owner(n);
    memset(n->replay.slot, 0, sizeof n->replay.slot);
    if (n->backend->forget) n->backend->forget(n->engine);
}
