/* train_step.cu - time of one training step of the encoder on this GPU, in total and by layer.
 *
 *     build/bench/cuda/train_step [ARCH SIZE BATCH [PRECISION [DETERMINISTIC [PLANS [ranked]]]]]
 *                                                                                   default: resnet50 224 128 bf16 1, no plans
 *
 * BATCH images, so 2 BATCH views, already on the device: forward, SogCLR (without a detector, then with GloFND), backward, LARS.
 * First the complete step as one captured graph: median, minimum and maximum of 30, and the loss alone. Then every layer alone,
 * summed by class of work, with its rate: TFLOP/s for products, GB/s of the bytes it must move at least for the rest.
 * TRAIN_STEP_LAYERS=1 in the environment prints every layer. ranked: as a single rank over NCCL: batch norm in parts,
 * gradients handed over during backward; the complete step only.
 */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "util/status.h"
}
#include "nn/cuda/cunn_kernels.h"
extern "C" {
#include "dist/comm.h"
#include "dist/dist.h"
#include "method/options.h"
#include "nn/cuda/cunn_plan.h"
#include "nn/graph.h"
#include "optim/optim.h"
}

enum { WARM = 5, RUNS = 30, EACH = 10 };

static void die(const char *what, const char *why) {
    fprintf(stderr, "train_step: %s: %s\n", what, why);
    exit(1);
}

static void must(cudaError_t e) {
    if (e != cudaSuccess) die("CUDA", cudaGetErrorString(e));
}

/* ----- the complete step ---------------------------------------------------------------------------------------------- */

typedef struct step {
    gf_net *net;
    gf_optim *optim;
    glofnd_ctx *ctx;
    glofnd_store *store;
    float *d;
    int64_t *id;
    const float *projection;
    gf_sync_norm hooks; /* ranked: of the net */
    gf_comm *host, *wire;
    gf_reducer *reducer; /* else NULL */
} step;

static glofnd_status loss(gf_error *err, void *arg) {
    step *s = (step *)arg;
    const int64_t n = s->net->spec.batch / 2, side = n * s->net->spec.head_out;
    glofnd_batch q;
    memset(&q, 0, sizeof q);
    q.size = sizeof q, q.n = n, q.dim = s->net->spec.head_out, q.id = s->id, q.epoch = 1;
    q.a = s->projection, q.b = s->projection + side;
    const glofnd_status status = glofnd_step(s->ctx, s->store, &q, s->d, s->d + side, NULL);
    return status == GLOFND_OK ? status : gf_fail(err, status, "%s", glofnd_ctx_error(s->ctx));
}

static glofnd_status work(gf_error *err, void *arg) {
    step *s = (step *)arg;
    glofnd_status status = gf_net_forward(err, s->net, NULL, s->net->spec.batch, 1, NULL, &s->projection);
    if (status == GLOFND_OK) status = loss(err, s);
    if (status == GLOFND_OK) status = gf_net_backward(err, s->net, s->d);
    if (status == GLOFND_OK && s->reducer) status = gf_reducer_wait(err, s->reducer);
    return status == GLOFND_OK ? gf_optim_step(err, s->optim) : status;
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* Median milliseconds; spread[2]: minimum, maximum. A new key for each kind of work. */
static float time_work(step *s, uint64_t key, glofnd_status (*what)(gf_error *, void *), float spread[2]) {
    gf_error err = {""};
    cudaStream_t stream = (cudaStream_t)gf_net_stream(s->net);
    cudaEvent_t from, to;
    float ms[RUNS];
    must(cudaEventCreate(&from)), must(cudaEventCreate(&to));
    for (int i = -WARM; i < RUNS; i++) {
        must(cudaEventRecord(from, stream));
        if (gf_net_replay(&err, s->net, key, 0, what, s) != GLOFND_OK) die("step", err.text);
        must(cudaEventRecord(to, stream));
        must(cudaEventSynchronize(to));
        if (i >= 0) must(cudaEventElapsedTime(&ms[i], from, to));
    }
    qsort(ms, RUNS, sizeof *ms, by_value);
    spread[0] = ms[0], spread[1] = ms[RUNS - 1];
    return ms[RUNS / 2];
}

static void set_detector(step *s, const char *name) {
    static glofnd_options o;
    char why[200] = "";
    if (!s->ctx) {
        gf_method_options_init(&o);
        o.lambda_init = GLOFND_INIT_ONE;
        o.device = GLOFND_DEVICE_CUDA;
        o.update_epoch = o.mask_epoch = 0;
    }
    if (glofnd_options_set(&o, "detector", name, why, sizeof why) != GLOFND_OK) die("detector", why);
    if (s->ctx && glofnd_ctx_configure(s->ctx, &o) != GLOFND_OK) die("method", glofnd_ctx_error(s->ctx));
    if (s->ctx) return;
    glofnd_store_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.size = sizeof spec, spec.n = 1 << 17;
    if (glofnd_ctx_create(&o, &s->ctx, NULL, 0) != GLOFND_OK) die("method", "no context on this device");
    if (glofnd_ctx_stream(s->ctx, gf_net_stream(s->net)) != GLOFND_OK ||
        glofnd_store_create(s->ctx, &spec, &s->store) != GLOFND_OK ||
        glofnd_ctx_reserve(s->ctx, s->net->spec.batch / 2, s->net->spec.batch / 2, s->net->spec.head_out, NULL) != GLOFND_OK)
        die("method", glofnd_ctx_error(s->ctx));
}

static void time_step(step *s) {
    static const char *const detectors[] = {"none", "glofnd"};
    const double views = (double)s->net->spec.batch;
    float spread[2];
    for (int i = 0; i < 2; i++) {
        gf_error err = {""};
        glofnd_stats stats = {};
        stats.size = sizeof stats;
        double norm = 0;
        set_detector(s, detectors[i]);
        const float ms = time_work(s, (uint64_t)(2 * i + 1), work, spread);
        const int recorded = s->net->replay.slot[0].made;
        if (gf_optim_norm(&err, s->optim, &norm) != GLOFND_OK) die("norm", err.text);
        if (glofnd_ctx_stats(s->ctx, &stats) != GLOFND_OK) die("loss", glofnd_ctx_error(s->ctx));
        printf("detector %-7s step %.3f ms (%.3f to %.3f), %.0f views/s; %s; loss %.4f, gradient norm %.4g; %.2f GB; ",
               detectors[i], ms, spread[0], spread[1], views / ms * 1e3, recorded ? "recorded" : "not recorded", stats.loss, norm,
               (double)gf_net_bytes(s->net) / 1e9);
        printf("loss alone %.4f ms\n", time_work(s, (uint64_t)(2 * i + 2), loss, spread));
    }
}

/* ----- layer by layer ---------------------------------------------------------------------------------------------- */

typedef enum part { CONV_FWD, CONV_DGRAD, CONV_WGRAD, LINEAR, NORM_FORWARD, NORM_BACKWARD, POOL, PACK, OPTIM, PARTS } part;
static const char *const part_names[PARTS] = {"conv forward",  "conv data grad", "conv weight grad", "linear",   "norm forward",
                                              "norm backward", "pool and mean",  "weights and bf16", "optimizer"};
typedef struct tally {
    double ms, work; /* flop or bytes */
    int launches;
} tally;

typedef struct job {
    step *s;
    gf_layer *l;
    int what;
} job;

static void run_job(const job *j) {
    gf_error err = {""};
    gf_net *n = j->s->net;
    const gf_nn_backend *b = n->backend;
    glofnd_status status = GLOFND_OK;
    gf_nn_op *op = j->l ? j->l->op : NULL;
    const gf_nn_args *a = j->l ? &j->l->args : NULL;
    switch (j->what) {
    case CONV_FWD: status = b->op_forward(&err, op, a); break;
    case CONV_DGRAD: /* perhaps with a part of the batch norm before */
        if (a->before) gf_cunn_conv_back_norm(op, a);
        else status = gf_cunn_conv_back_data(&err, op, a);
        break;
    case CONV_WGRAD:
        if (op->stem) status = b->op_backward(&err, op, a); /* own kernels, and no other gradient */
        else status = gf_cunn_conv_back_weights(&err, op, a);
        break;
    case LINEAR:
        status = b->op_forward(&err, op, a);
        if (!status) status = b->op_backward(&err, op, a);
        break;
    case NORM_FORWARD: (j->l->merged ? b->norm_stats : b->norm_forward)(n->engine, &j->l->norm); break;
    case NORM_BACKWARD: b->norm_backward(n->engine, &j->l->norm); break;
    case POOL: {
        const gf_value *in = &n->graph.value[j->l->in];
        if (op) {
            status = b->op_forward(&err, op, a);
            if (!status) status = b->op_backward(&err, op, a);
            break;
        }
        b->mean(n->engine, in->type, (float *)a->y, a->x, in->n, in->h * in->w, in->c);
        b->mean_back(n->engine, in->type, a->dx, (const float *)a->dy, in->n, in->h * in->w, in->c);
        break;
    }
    case PACK:
        status = b->pack_all(&err, n->engine, NULL, NULL, 0); /* the tables exist now */
        if (!status) status = b->unpack_all(&err, n->engine, NULL, NULL, 0);
        break;
    case OPTIM: status = gf_optim_step(&err, j->s->optim); break;
    default: break;
    }
    if (status != GLOFND_OK) die("layer", err.text);
}

static double time_job(const job *j) {
    cudaStream_t stream = (cudaStream_t)gf_net_stream(j->s->net);
    static cudaEvent_t from, to;
    float ms = 0;
    if (!from) must(cudaEventCreate(&from)), must(cudaEventCreate(&to));
    run_job(j);
    must(cudaEventRecord(from, stream));
    for (int i = 0; i < EACH; i++) run_job(j);
    must(cudaEventRecord(to, stream));
    must(cudaEventSynchronize(to));
    must(cudaEventElapsedTime(&ms, from, to));
    return ms / EACH;
}

static void add(tally *t, step *s, gf_layer *l, int what, double work) {
    const job j = {s, l, what};
    const double ms = time_job(&j);
    t[what].ms += ms, t[what].work += work, t[what].launches++;
    if (!getenv("TRAIN_STEP_LAYERS")) return;
    if (l && l->kind == GF_LAYER_OP)
        printf("  %-18s %4lldx%-4lld %4lld -> %4lld k%d s%d  %.3f ms  %.0f T/s\n", part_names[what], (long long)l->shape.h,
               (long long)l->shape.w, (long long)l->shape.in, (long long)l->shape.out, l->shape.kernel, l->shape.stride, ms,
               work / ms / 1e9);
    else if (l)
        printf("  %-18s %9lld x %-5lld%s  %.3f ms  %.0f GB/s\n", part_names[what], (long long)l->norm.rows, (long long)l->norm.c,
               l->residual >= 0 ? " res" : "", ms, work / ms / 1e6);
}

static void time_layer(tally *t, step *s, gf_layer *l) {
    const gf_nn_shape *p = &l->shape;
    if (l->kind == GF_LAYER_NORM) {
        const double e = (double)gf_type_bytes[l->norm.type], numbers = (double)(l->norm.rows * l->norm.c);
        const int residual = l->residual >= 0, two = l->norm.dy2 != NULL;
        const int both = l->shortcut >= 0;
        add(t, s, l, NORM_FORWARD, e * numbers * (l->merged ? 1 : 2 + residual));
        if (!l->merged) add(t, s, l, NORM_BACKWARD, e * numbers * (3 + two + residual + both));
        return;
    }
    const gf_value *in = &s->net->graph.value[l->in], *out = &s->net->graph.value[l->out];
    const double x = (double)(in->n * in->h * in->w * in->c), y = (double)(out->n * out->h * out->w * out->c);
    if (l->kind == GF_LAYER_MEAN || p->kind == GF_NN_MAXPOOL) {
        add(t, s, l, POOL, 2 * (x + y) * (double)gf_type_bytes[in->type]);
    } else if (p->kind == GF_NN_LINEAR) {
        add(t, s, l, LINEAR, 6.0 * (double)(p->n * p->in * p->out));
    } else {
        const double flop = 2.0 * y * (double)(p->kernel * p->kernel * p->in);
        add(t, s, l, CONV_FWD, flop);
        if (p->input_grad) add(t, s, l, CONV_DGRAD, flop);
        add(t, s, l, CONV_WGRAD, flop);
    }
}

static void time_layers(step *s) {
    tally t[PARTS] = {{0, 0, 0}};
    gf_graph *g = &s->net->graph;
    for (int i = 0; i < g->layers; i++) time_layer(t, s, &g->layer[i]);
    if (s->net->engine->moves) add(t, s, NULL, PACK, 12.0 * (double)g->params.numbers);
    add(t, s, NULL, OPTIM, 28.0 * (double)g->params.numbers);
    double sum = 0;
    for (int i = 0; i < PARTS; i++) sum += t[i].ms;
    for (int i = 0; i < PARTS; i++)
        if (t[i].ms > 0)
            printf("%-18s %8.3f ms  %4.1f %%  %3d x  %7.0f %s\n", part_names[i], t[i].ms, 100 * t[i].ms / sum, t[i].launches,
                   t[i].work / t[i].ms / (i <= LINEAR ? 1e9 : 1e6), i <= LINEAR ? "TFLOP/s" : "GB/s");
    printf("%-18s %8.3f ms\n", "sum", sum);
}

/* ----- a rank ------------------------------------------------------------------------------------------------------ */

static glofnd_status sum_norm(gf_error *err, void *user, double *x, int64_t n) {
    step *s = (step *)user;
    return s->wire->ops->sum(err, s->wire, x, n);
}

static void gradients_final(void *user, gf_net *net, int64_t first) {
    step *s = (step *)user;
    int64_t n;
    float *block = gf_net_gradients(net, &n);
    if (first == n) gf_reducer_begin(s->reducer, block, n);
    else gf_reducer_ready(s->reducer, first);
}

/* As train/loop/distributed.c, in buckets of 8 MB. */
static void make_rank(step *s) {
    gf_error err = {""};
    if (gf_dist_open(&err, GF_RANKS_SINGLE, 0, &s->host) != GLOFND_OK ||
        gf_device_comm_open(&err, s->host, gf_net_stream(s->net), &s->wire) != GLOFND_OK ||
        gf_reducer_create(&err, s->wire, s->hooks.bucket, &s->reducer) != GLOFND_OK)
        die("NCCL", err.text);
}

static void drop_rank(step *s) {
    if (!s->reducer) return;
    gf_net_forget(s->net);
    gf_reducer_free(s->reducer);
    s->wire->ops->close(s->wire);
    s->host->ops->close(s->host);
}

/* ----- setting up -------------------------------------------------------------------------------------------------- */

static gf_arch arch_of(const char *name) {
    static const char *const names[] = {"resnet8", "resnet18", "resnet34", "resnet50"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) return (gf_arch)i;
    die("unknown network", name);
    return GF_ARCH_RESNET8;
}

static void make_optimizer(step *s) {
    gf_error err = {""};
    gf_tensor *tensor;
    const int count = gf_net_tensors(s->net, &tensor);
    gf_param *list = (gf_param *)calloc((size_t)count, sizeof *list);
    float *state = gf_net_alloc_state(s->net);
    int n = 0;
    for (; n < count && tensor[n].grad; n++) {
        list[n].p = tensor[n].value, list[n].g = tensor[n].grad, list[n].state1 = gf_net_place(s->net, state, &tensor[n]);
        list[n].n = (size_t)tensor[n].stored, list[n].adapt = list[n].decay = tensor[n].rank > 1;
    }
    gf_optim_rule rule;
    memset(&rule, 0, sizeof rule);
    rule.kind = GF_OPTIM_LARS, rule.momentum = 0.9, rule.weight_decay = 1e-6, rule.trust = 0.001;
    if (gf_optim_create(&err, gf_net_backend(s->net), gf_net_engine(s->net), &rule, list, n, &s->optim) != GLOFND_OK ||
        gf_optim_set(&err, s->optim, 1e-3, 1) != GLOFND_OK)
        die("optimizer", err.text);
    free(list);
}

int main(int argc, char **argv) {
    gf_error err = {""};
    gf_net_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.arch = arch_of(argc > 1 ? argv[1] : "resnet50");
    spec.size = argc > 2 ? atoi(argv[2]) : 224;
    spec.batch = 2 * (argc > 3 ? atoi(argv[3]) : 128);
    spec.precision = argc > 4 && strcmp(argv[4], "fp32") == 0 ? GF_FP32 : GF_BF16;
    spec.deterministic = argc > 5 ? atoi(argv[5]) : 1;
    spec.plans = argc > 6 ? argv[6] : NULL;
    spec.cifar_stem = spec.size <= 64, spec.head_hidden = 2048, spec.head_out = 128, spec.zero_init = 1;
    spec.training = 1, spec.seed = 1;
    spec.device = GLOFND_DEVICE_CUDA;
    const int ranked = argc > 7 && strcmp(argv[7], "ranked") == 0;
    step s;
    memset(&s, 0, sizeof s);
    s.hooks.count = 1, s.hooks.user = &s, s.hooks.sum = sum_norm, s.hooks.ready = gradients_final, s.hooks.bucket = 2 << 20;
    spec.ranks = ranked ? &s.hooks : NULL;
    cudaEvent_t unused;
    must(cudaEventCreate(&unused));
    if (gf_net_create(&err, &spec, &s.net) != GLOFND_OK) die("network", err.text);
    if (ranked) make_rank(&s);
    make_optimizer(&s);
    const int64_t pixels = spec.batch * spec.size * spec.size, out = spec.batch * spec.head_out;
    float *x = (float *)malloc(sizeof(float) * (size_t)(3 * pixels));
    for (int64_t i = 0; i < 3 * pixels; i++) x[i] = (float)((i * 2654435761u >> 7 & 1023) / 512.0 - 1.0);
    s.d = (float *)gf_net_alloc(s.net, sizeof(float) * (size_t)out);
    if (gf_net_write(&err, s.net, s.d, x, sizeof(float) * (size_t)out) != GLOFND_OK) die("gradient", err.text);
    if (gf_net_load(&err, s.net, x, 0, spec.batch) != GLOFND_OK) die("images", err.text);
    s.id = (int64_t *)gf_net_alloc(s.net, sizeof(int64_t) * (size_t)spec.batch);
    int64_t *id = (int64_t *)malloc(sizeof(int64_t) * (size_t)spec.batch);
    for (int64_t i = 0; i < spec.batch; i++) id[i] = i * 97 % (1 << 17);
    if (gf_net_write(&err, s.net, s.id, id, sizeof(int64_t) * (size_t)spec.batch) != GLOFND_OK) die("ids", err.text);
    printf("%s %d px, %lld views, %s%s%s\n", argc > 1 ? argv[1] : "resnet50", spec.size, (long long)spec.batch,
           spec.precision == GF_BF16 ? "bf16" : "fp32", spec.deterministic ? ", deterministic" : "", ranked ? ", ranked" : "");
    time_step(&s);
    if (!ranked) time_layers(&s);
    drop_rank(&s);
    gf_optim_free(s.optim);
    glofnd_store_free(s.store);
    glofnd_ctx_free(s.ctx);
    gf_net_release(s.net, s.d);
    gf_net_release(s.net, s.id);
    gf_net_free(s.net);
    free(x);
    free(id);
    return 0;
}
