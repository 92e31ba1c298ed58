/* clip_step.cu - time of one training step of image and text encoders on this GPU, in total and by part.
 *
 *     build/bench/cuda/clip_step [IMAGE SIZE BATCH [TEXT [PRECISION [PLANS [apart] [whole]]]]]    rn50 224 256 512x12 bf16
 *
 * IMAGE: rn50 (CLIP's), resnet50 (torchvision's with a projection), vitb32, or vit:WIDTHxLAYERS/PATCH; heads have 64 numbers.
 * TEXT: WIDTHxLAYERS, context 77, 49408 words. Texts are as long as captions of Flickr8k (support/caption_lengths.h); whole: all
 * 77 positions are computed nevertheless, as PyTorch does. BATCH pairs are on the device already: both encoders forward, bimodal
 * SogCLR (without a detector, then with GloFND), both backward, AdamW. First the complete step as one captured graph: median,
 * minimum and maximum of 30; then each encoder and the rest alone; then the layers of both encoders summed by kind. apart: one
 * encoder after the other. PLANS -: none. The same in PyTorch: tools/bench_torch_clip.py.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "util/status.h"
}
#include "nn/cuda/cunn_kernels.h"
#include "support/caption_lengths.h"
extern "C" {
#include "method/options.h"
#include "nn/graph.h"
#include "optim/optim.h"
}

enum { WARM = 5, RUNS = 30, EACH = 10, CONTEXT = 77, VOCAB = 49408 };

static void die(const char *what, const char *why) {
    fprintf(stderr, "clip_step: %s: %s\n", what, why);
    exit(1);
}

static void must(cudaError_t e) {
    if (e != cudaSuccess) die("CUDA", cudaGetErrorString(e));
}

static void fine(const char *what, glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) die(what, err->text);
}

/* ----- the complete step ---------------------------------------------------------------------------------------------- */

typedef struct step {
    gf_net *net[2]; /* image, text */
    gf_optim *optim;
    glofnd_ctx *ctx;
    glofnd_store *store;
    float *d[2];
    int64_t *id;
    const float *embedding[2];
    int apart;
} step;

static glofnd_status forward(gf_error *err, step *s, int k) {
    return gf_net_forward(err, s->net[k], NULL, s->net[k]->spec.batch, 1, NULL, &s->embedding[k]);
}

static glofnd_status loss(gf_error *err, void *arg) {
    step *s = (step *)arg;
    glofnd_batch q;
    memset(&q, 0, sizeof q);
    q.size = sizeof q, q.n = s->net[0]->spec.batch, q.dim = s->net[0]->spec.embed_dim, q.id = s->id, q.epoch = 1;
    q.a = s->embedding[0], q.b = s->embedding[1];
    const glofnd_status status = glofnd_step(s->ctx, s->store, &q, s->d[0], s->d[1], NULL);
    return status == GLOFND_OK ? status : gf_fail(err, status, "%s", glofnd_ctx_error(s->ctx));
}

static glofnd_status optimize(gf_error *err, void *arg) { return gf_optim_step(err, ((step *)arg)->optim); }

static glofnd_status encoder(gf_error *err, step *s, int k) {
    const glofnd_status status = forward(err, s, k);
    return status == GLOFND_OK ? gf_net_backward(err, s->net[k], s->d[k]) : status;
}

static glofnd_status image_tower(gf_error *err, void *arg) { return encoder(err, (step *)arg, 0); }
static glofnd_status text_tower(gf_error *err, void *arg) { return encoder(err, (step *)arg, 1); }

static glofnd_status backward(gf_error *err, step *s, int k) { return gf_net_backward(err, s->net[k], s->d[k]); }

/* Of both encoders, as in train/loop/encoders.c. */
static glofnd_status of_both(gf_error *err, step *s, glofnd_status (*what)(gf_error *, step *, int)) {
    if (!s->apart) gf_net_beside(s->net[1], GF_NN_FORK);
    glofnd_status status = what(err, s, 1);
    if (!s->apart) gf_net_beside(s->net[1], GF_NN_RETURN);
    if (status == GLOFND_OK) status = what(err, s, 0);
    if (!s->apart) gf_net_beside(s->net[1], GF_NN_JOIN);
    return status;
}

static glofnd_status work(gf_error *err, void *arg) {
    step *s = (step *)arg;
    glofnd_status status = of_both(err, s, forward);
    if (status == GLOFND_OK) status = loss(err, s);
    if (status == GLOFND_OK) status = of_both(err, s, backward);
    for (int k = 0; k < 2; k++) gf_net_touch(s->net[k]);
    return status == GLOFND_OK ? optimize(err, s) : status;
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* Median milliseconds; spread[2]: minimum, maximum. A new key for each kind of work. */
static float time_work(step *s, glofnd_status (*what)(gf_error *, void *), float spread[2]) {
    static uint64_t key;
    gf_error err = {""};
    cudaStream_t stream = (cudaStream_t)gf_net_stream(s->net[0]);
    cudaEvent_t from, to;
    float ms[RUNS];
    must(cudaEventCreate(&from)), must(cudaEventCreate(&to));
    key++;
    for (int i = -WARM; i < RUNS; i++) {
        must(cudaEventRecord(from, stream));
        fine("step", gf_net_replay(&err, s->net[0], key, gf_net_text_length(s->net[1]), what, s), &err);
        must(cudaEventRecord(to, stream));
        must(cudaEventSynchronize(to));
        if (i >= 0) must(cudaEventElapsedTime(&ms[i], from, to));
    }
    must(cudaEventDestroy(from)), must(cudaEventDestroy(to));
    qsort(ms, RUNS, sizeof *ms, by_value);
    spread[0] = ms[0], spread[1] = ms[RUNS - 1];
    return ms[RUNS / 2];
}

static void set_detector(step *s, const char *name) {
    static glofnd_options o;
    char why[200] = "";
    const int64_t n = s->net[0]->spec.batch;
    if (!s->ctx) {
        gf_method_options_init(&o);
        o.lambda_init = GLOFND_INIT_ONE;
        o.device = GLOFND_DEVICE_CUDA, o.pairing = GLOFND_PAIRING_IMAGE_TEXT;
        o.update_epoch = o.mask_epoch = 0;
    }
    if (glofnd_options_set(&o, "detector", name, why, sizeof why) != GLOFND_OK) die("detector", why);
    if (s->ctx) {
        if (glofnd_ctx_configure(s->ctx, &o) != GLOFND_OK) die("method", glofnd_ctx_error(s->ctx));
        return;
    }
    glofnd_store_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.size = sizeof spec, spec.n = 1 << 17;
    if (glofnd_ctx_create(&o, &s->ctx, NULL, 0) != GLOFND_OK) die("method", "no context on this device");
    if (glofnd_ctx_stream(s->ctx, gf_net_stream(s->net[0])) != GLOFND_OK ||
        glofnd_store_create(s->ctx, &spec, &s->store) != GLOFND_OK ||
        glofnd_ctx_reserve(s->ctx, n, n, s->net[0]->spec.embed_dim, NULL) != GLOFND_OK)
        die("method", glofnd_ctx_error(s->ctx));
}

static void time_step(step *s) {
    static const char *const detectors[] = {"none", "glofnd"};
    float spread[2];
    for (int i = 0; i < 2; i++) {
        gf_error err = {""};
        glofnd_stats stats = {};
        stats.size = sizeof stats;
        double norm = 0;
        set_detector(s, detectors[i]);
        const float ms = time_work(s, work, spread);
        const int recorded = s->net[0]->replay.slot[0].made;
        fine("norm", gf_optim_norm(&err, s->optim, &norm), &err);
        if (glofnd_ctx_stats(s->ctx, &stats) != GLOFND_OK) die("loss", glofnd_ctx_error(s->ctx));
        printf("detector %-7s step %.3f ms (%.3f to %.3f), %.0f pairs/s; %s; loss %.4f, gradient norm %.4g; %.2f GB\n",
               detectors[i], ms, spread[0], spread[1], (double)s->net[0]->spec.batch / ms * 1e3,
               recorded ? "recorded" : "not recorded", stats.loss, norm,
               (double)(gf_net_bytes(s->net[0]) + gf_net_bytes(s->net[1])) / 1e9);
    }
    printf("image encoder %.3f ms, ", time_work(s, image_tower, spread));
    printf("text encoder %.3f ms, ", time_work(s, text_tower, spread));
    printf("loss %.3f ms, ", time_work(s, loss, spread));
    printf("AdamW %.3f ms\n", time_work(s, optimize, spread));
}

/* ----- layer by layer ---------------------------------------------------------------------------------------------- */

typedef struct tally {
    double forward, backward, flop;
    int count;
} tally;

static void run_norm(gf_net *n, gf_layer *l, int backward) {
    if (backward && !l->merged) n->backend->norm_backward(n->engine, &l->norm);
    else if (!backward) (l->merged ? n->backend->norm_stats : n->backend->norm_forward)(n->engine, &l->norm);
}

/* Milliseconds of an op, or of a batch norm. */
static double time_layer(gf_net *n, gf_layer *l, int backward) {
    cudaStream_t stream = (cudaStream_t)gf_net_stream(n);
    static cudaEvent_t from, to;
    gf_error err = {""};
    float ms = 0;
    if (!from) must(cudaEventCreate(&from)), must(cudaEventCreate(&to));
    for (int i = -1; i < EACH; i++) {
        if (i == 0) must(cudaEventRecord(from, stream));
        if (l->kind == GF_LAYER_NORM) run_norm(n, l, backward);
        else fine("layer", (backward ? n->backend->op_backward : n->backend->op_forward)(&err, l->op, &l->args), &err);
    }
    must(cudaEventRecord(to, stream));
    must(cudaEventSynchronize(to));
    must(cudaEventElapsedTime(&ms, from, to));
    return ms / EACH;
}

/* FLOP of one direction; a linear layer and a convolution need as many again for each gradient. */
static double flop_of(const gf_net *n, const gf_layer *l) {
    const gf_nn_shape *p = &l->shape;
    const gf_value *out = &n->graph.value[l->out];
    if (l->kind != GF_LAYER_OP) return 0;
    const int64_t rows = gf_nn_rows(p, &l->args);
    if (p->kind == GF_NN_LINEAR) return 2.0 * (double)rows * (double)(p->in * p->out);
    if (p->kind == GF_NN_CONV) return 2.0 * (double)(out->n * out->h * out->w * out->c) * (double)(p->kernel * p->kernel * p->in);
    return p->kind == GF_NN_ATTENTION ? 4.0 * (double)(rows * rows / p->n * p->out) : 0; /* texts: as if all were equally long */
}

static void time_layers(gf_net *n, const char *name) {
    static const char *const kinds[] = {"convolution", "linear",    "max pool", "average pool", "layer norm",
                                        "attention",   "embedding", "tokens",   "pick",         "batch norm"};
    tally t[GF_NN_KINDS + 1];
    memset(t, 0, sizeof t);
    for (int i = 0; i < n->graph.layers; i++) {
        gf_layer *l = &n->graph.layer[i];
        if (l->kind != GF_LAYER_OP && l->kind != GF_LAYER_NORM) continue;
        tally *at = &t[l->kind == GF_LAYER_NORM ? (int)GF_NN_KINDS : (int)l->shape.kind];
        at->forward += time_layer(n, l, 0), at->backward += time_layer(n, l, 1), at->flop += flop_of(n, l), at->count++;
    }
    for (int i = 0; i <= GF_NN_KINDS; i++)
        if (t[i].count)
            printf("%s %-14s %3d x  forward %8.3f ms  backward %8.3f ms  %5.0f %5.0f TFLOP/s\n", name, kinds[i], t[i].count,
                   t[i].forward, t[i].backward, t[i].flop / t[i].forward / 1e9, 2 * t[i].flop / t[i].backward / 1e9);
}

/* ----- setting up -------------------------------------------------------------------------------------------------- */

static void make_optimizer(step *s) {
    gf_error err = {""};
    gf_param *list = (gf_param *)calloc(4096, sizeof *list);
    int n = 0;
    for (int k = 0; k < 2; k++) {
        gf_tensor *t;
        const int count = gf_net_tensors(s->net[k], &t);
        float *first = gf_net_alloc_state(s->net[k]), *second = gf_net_alloc_state(s->net[k]);
        if (!first || !second) die("optimizer", "out of memory");
        for (int i = 0; i < count && t[i].grad; i++, n++) {
            list[n].p = t[i].value, list[n].g = t[i].grad, list[n].n = (size_t)t[i].stored, list[n].decay = t[i].rank > 1;
            list[n].state1 = gf_net_place(s->net[k], first, &t[i]), list[n].state2 = gf_net_place(s->net[k], second, &t[i]);
        }
    }
    gf_optim_rule rule;
    memset(&rule, 0, sizeof rule);
    rule.kind = GF_OPTIM_ADAMW, rule.weight_decay = 0.1, rule.beta1 = 0.9, rule.beta2 = 0.98, rule.eps = 1e-6;
    fine("optimizer", gf_optim_create(&err, gf_net_backend(s->net[0]), gf_net_engine(s->net[0]), &rule, list, n, &s->optim),
         &err);
    fine("optimizer", gf_optim_set(&err, s->optim, 1e-4, 1), &err);
    free(list);
}

static void image_spec(gf_net_spec *spec, const char *name) {
    spec->arch = GF_ARCH_VIT, spec->width = 768, spec->layers = 12, spec->patch = 32;
    if (strcmp(name, "rn50") == 0) spec->arch = GF_ARCH_CLIP_RESNET50, spec->width = 64, spec->layers = 0, spec->embed_dim = 1024;
    else if (strcmp(name, "resnet50") == 0) spec->arch = GF_ARCH_RESNET50, spec->width = spec->layers = 0;
    else if (strcmp(name, "vitb32") != 0 && sscanf(name, "vit:%dx%d/%d", &spec->width, &spec->layers, &spec->patch) != 3)
        die("unknown image encoder", name);
    spec->heads = spec->arch == GF_ARCH_VIT ? spec->width / 64 : 0;
}

static void load_texts(gf_net *n) {
    gf_error err = {""};
    int32_t *tokens = (int32_t *)calloc((size_t)n->spec.batch * CONTEXT, sizeof *tokens);
    for (int64_t i = 0; i < n->spec.batch; i++) {
        int32_t *text = tokens + i * CONTEXT;
        const int last = caption_length(i, n->spec.batch) - 1;
        text[0] = VOCAB - 2, text[last] = VOCAB - 1;
        for (int k = 1; k < last; k++) text[k] = (int32_t)((uint32_t)(i * CONTEXT + k) * 2654435761u % (VOCAB - 2));
    }
    fine("texts", gf_net_load_tokens(&err, n, tokens, 0, n->spec.batch), &err);
    must(cudaDeviceSynchronize());
    free(tokens);
}

static void load_images(gf_net *n) {
    gf_error err = {""};
    const int64_t count = 3 * n->spec.batch * n->spec.size * n->spec.size;
    float *x = (float *)malloc(sizeof(float) * (size_t)count);
    for (int64_t i = 0; i < count; i++) x[i] = (float)((i * 2654435761u >> 7 & 1023) / 512.0 - 1.0);
    fine("images", gf_net_load(&err, n, x, 0, n->spec.batch), &err);
    must(cudaDeviceSynchronize());
    free(x);
}

static void make_rest(step *s) {
    gf_error err = {""};
    const int64_t n = s->net[0]->spec.batch;
    const size_t side = sizeof(float) * (size_t)(n * s->net[0]->spec.embed_dim);
    int64_t *id = (int64_t *)malloc(sizeof(int64_t) * (size_t)n);
    for (int64_t i = 0; i < n; i++) id[i] = i * 97 % (1 << 17);
    s->id = (int64_t *)gf_net_alloc(s->net[0], sizeof(int64_t) * (size_t)n);
    for (int k = 0; k < 2; k++) s->d[k] = (float *)gf_net_alloc(s->net[0], side);
    if (!s->id || !s->d[0] || !s->d[1]) die("memory", "none left");
    fine("ids", gf_net_write(&err, s->net[0], s->id, id, sizeof(int64_t) * (size_t)n), &err);
    must(cudaDeviceSynchronize());
    free(id);
}

int main(int argc, char **argv) {
    gf_error err = {""};
    gf_net_spec spec[2];
    step s;
    memset(spec, 0, sizeof spec);
    memset(&s, 0, sizeof s);
    const char *const image = argc > 1 ? argv[1] : "rn50", *const text = argc > 4 ? argv[4] : "512x12";
    spec[0].size = argc > 2 ? atoi(argv[2]) : 224;
    spec[0].batch = argc > 3 ? atoi(argv[3]) : 256;
    spec[0].precision = argc > 5 && strcmp(argv[5], "fp32") == 0 ? GF_FP32 : GF_BF16;
    spec[0].plans = argc > 6 && strcmp(argv[6], "-") != 0 ? argv[6] : NULL;
    int whole = 0;
    for (int i = 7; i < argc; i++) {
        if (strcmp(argv[i], "apart") == 0) s.apart = 1;
        else if (strcmp(argv[i], "whole") == 0) whole = 1;
        else die("unknown word", argv[i]);
    }
    spec[0].embed_dim = 512, spec[0].training = 1, spec[0].seed = 1, spec[0].device = GLOFND_DEVICE_CUDA;
    spec[0].deterministic = spec[0].quick_gelu = 1;
    image_spec(&spec[0], image);
    spec[1] = spec[0];
    spec[1].arch = GF_ARCH_TEXT, spec[1].size = spec[1].patch = 0, spec[1].context = CONTEXT, spec[1].vocab = VOCAB;
    spec[1].whole_texts = whole;
    if (sscanf(text, "%dx%d", &spec[1].width, &spec[1].layers) != 2) die("unknown text encoder", text);
    spec[1].heads = spec[1].width / 64;
    for (int k = 0; k < 2; k++) {
        spec[k].engine_owner = k ? s.net[0] : NULL;
        fine(k ? "text encoder" : "image encoder", gf_net_create(&err, &spec[k], &s.net[k]), &err);
    }
    make_optimizer(&s);
    load_images(s.net[0]);
    load_texts(s.net[1]);
    make_rest(&s);
    printf("%s %d px, text %s, %lld pairs, %s; texts of Flickr8k's lengths, %lld of %d positions computed\n", image, spec[0].size,
           text, (long long)spec[0].batch, spec[0].precision == GF_BF16 ? "bf16" : "fp32",
           (long long)gf_net_text_length(s.net[1]), (int)CONTEXT);
    time_step(&s);
    time_layers(s.net[0], "image");
    time_layers(s.net[1], "text ");
    gf_optim_free(s.optim);
    glofnd_store_free(s.store);
    glofnd_ctx_free(s.ctx);
    for (int k = 1; k >= 0; k--) gf_net_free(s.net[k]);
    return 0;
}
