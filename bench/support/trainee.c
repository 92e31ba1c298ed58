/* trainee.c - see trainee.h. */
#include "support/trainee.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/die.h"
#include "support/sample.h"

#ifdef GF_HAVE_DNNL
#include "cpu/dnn/dnn_times.h"
#else
enum { GF_TIME_FORWARD, GF_TIME_BACK_DATA, GF_TIME_BACK_WEIGHTS, GF_TIME_NORM, GF_TIME_OTHER, GF_TIME_PARTS };
static void gf_dnn_watch(double *into) { (void)into; }
#endif

#define DIM 128

const char *const trainee_part_names[TRAINEE_PARTS] = {"forward", "data", "weights", "norm", "rest", "loss", "optimizer"};

static void *take(size_t count, size_t each) {
    void *p = calloc(count, each);
    if (!p) die("no memory for a training step");
    return p;
}

static void make_net(trainee *t, int threads) {
    gf_error err = {""};
    const trainee_case *c = t->c;
    const gf_net_spec spec = {.arch = c->arch, .cifar_stem = c->size <= 64, .batch = 2 * c->batch, .size = c->size,
                              .head_hidden = 2048, .head_out = DIM, .zero_init = 1, .precision = c->precision, .training = 1,
                              .seed = 1, .threads = threads};
    if (gf_net_create(&err, &spec, &t->net) != GLOFND_OK) die("%s", err.text);
}

static void make_loss(trainee *t, int threads) {
    glofnd_options o;
    char why[256];
    expect_ok(NULL, glofnd_options_init(&o, sizeof o), "options");
    if (glofnd_options_set(&o, "detector", "glofnd", why, sizeof why) != GLOFND_OK) die("%s", why);
    o.threads = threads;
    expect_ok(NULL, glofnd_ctx_create(&o, &t->ctx), "context");
    const glofnd_store_spec spec = {.size = sizeof spec, .n = t->c->batch, .modalities = 1};
    expect_ok(t->ctx, glofnd_store_create(t->ctx, &spec, &t->store), "store");
    expect_ok(t->ctx, glofnd_ctx_reserve(t->ctx, t->c->batch, t->c->batch, DIM, NULL), "workspace");
}

static size_t numbers(gf_net *net, int *params) {
    gf_tensor *tensor;
    const int all = gf_net_tensors(net, &tensor);
    size_t sum = 0;
    for (*params = 0; *params < all && tensor[*params].grad; ++*params) sum += (size_t)tensor[*params].count;
    return sum;
}

static void make_optimizer(trainee *t) {
    gf_tensor *tensor;
    float *next = t->momentum = take(numbers(t->net, &t->count), sizeof(float));
    t->params = take((size_t)t->count, sizeof *t->params);
    gf_net_tensors(t->net, &tensor);
    for (int i = 0; i < t->count; i++) {
        const gf_tensor *x = &tensor[i];
        t->params[i] = (gf_param){.p = x->value, .g = x->grad, .state1 = next, .n = (size_t)x->count,
                                  .decay = gf_param_decays(x->rank, x->name)};
        next += x->count;
    }
}

void trainee_init(trainee *t, const trainee_case *c, int threads) {
    *t = (trainee){.c = c};
    make_net(t, threads);
    make_loss(t, threads);
    make_optimizer(t);
    const size_t pixels = (size_t)(2 * c->batch) * (size_t)c->size * (size_t)c->size * 3;
    uint64_t state = 1;
    t->x = take(pixels, sizeof(float));
    for (size_t i = 0; i < pixels; i++) t->x[i] = (float)(sample_random(&state) >> 40) * 0x1p-24f;
    t->grad = take((size_t)(2 * c->batch) * DIM, sizeof(float));
    t->id = take((size_t)c->batch, sizeof *t->id);
    for (int i = 0; i < c->batch; i++) t->id[i] = i;
}

void trainee_free(trainee *t) {
    glofnd_store_free(t->store);
    glofnd_ctx_free(t->ctx);
    gf_net_free(t->net);
    free(t->x), free(t->grad), free(t->momentum), free(t->id), free(t->params);
    *t = (trainee){0};
}

size_t trainee_bytes(const trainee *t) {
    int params;
    return gf_net_bytes(t->net) + sizeof(float) * numbers(t->net, &params);
}

static void loss_step(trainee *t, const float *z) {
    const int64_t side = (int64_t)t->c->batch * DIM;
    glofnd_stats stats;
    const glofnd_batch q = {.size = sizeof q, .rows = t->c->batch, .cols = t->c->batch, .dim = DIM, .a = z, .b = z + side,
                            .id = t->id, .epoch = 1000};
    expect_ok(t->ctx, glofnd_step(t->ctx, t->store, &q, t->grad, t->grad + side, &stats), "loss");
    t->loss = (float)stats.loss;
}

static void settle(trainee *t, const double *spent, const double *mark) {
    double *ms = t->part_ms;
    ms[TRAINEE_CONV] = 1e3 * spent[GF_TIME_FORWARD];
    ms[TRAINEE_DATA] = 1e3 * spent[GF_TIME_BACK_DATA];
    ms[TRAINEE_WEIGHTS] = 1e3 * spent[GF_TIME_BACK_WEIGHTS];
    ms[TRAINEE_NORM] = 1e3 * spent[GF_TIME_NORM];
    ms[TRAINEE_LOSS] = 1e3 * (mark[2] - mark[1]);
    ms[TRAINEE_OPTIMIZER] = 1e3 * (mark[4] - mark[3]);
    ms[TRAINEE_REST] = 1e3 * (mark[4] - mark[0]);
    for (int p = 0; p < TRAINEE_PARTS; p++)
        if (p != TRAINEE_REST) ms[TRAINEE_REST] -= ms[p];
}

double trainee_step(trainee *t) {
    gf_error err = {""};
    double spent[GF_TIME_PARTS] = {0}, mark[5];
    const float *z;
    gf_dnn_watch(spent);
    mark[0] = seconds();
    if (gf_net_forward(&err, t->net, t->x, 2 * t->c->batch, 1, NULL, &z) != GLOFND_OK) die("%s", err.text);
    mark[1] = seconds();
    loss_step(t, z);
    mark[2] = seconds();
    if (gf_net_backward(&err, t->net, t->grad) != GLOFND_OK) die("%s", err.text);
    mark[3] = seconds();
    gf_sgd_step(&(gf_sgd){0.9, 1e-4, 0}, 0.03, t->params, (size_t)t->count);
    gf_net_touch(t->net);
    mark[4] = seconds();
    gf_dnn_watch(NULL);
    settle(t, spent, mark);
    return 1e3 * (mark[4] - mark[0]);
}

void trainee_heading(const machine *m, int threads) {
    char nets[256];
    gf_net_describe(nets, sizeof nets);
    printf("%s, %d cores, %d threads, load %.1f; product kernel %.0f GFLOP/s\nnets: %s\n\n", m->cpu, m->cores, threads, m->load,
           m->kernel_gflops, nets);
}
