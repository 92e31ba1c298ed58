/* views.c - an encoder in training that sees two views of every sample: SogCLR with GloFND, SGD. See training.h. */
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "support/machine.h"
#include "support/training.h"

#ifdef GF_HAVE_DNNL
#include "nn/cpu/dnn.h"
#else
enum { GF_TIME_FORWARD, GF_TIME_BACK_DATA, GF_TIME_BACK_WEIGHTS, GF_TIME_NORM, GF_TIME_OTHER, GF_TIME_PARTS };
static void gf_dnn_watch(double *into, double (*clock)(void)) { (void)into, (void)clock; }
#endif

enum { DIM = 128 };
enum { CONV, DATA, WEIGHTS, NORM, REST, LOSS, OPTIMIZER, PARTS };

static const char *const names[PARTS] = {"forward", "data", "weights", "norm", "rest", "loss", "optimizer"};

typedef struct encoder {
    training head;
    gf_net *net;
    float *momentum; /* as the parameters */
    gf_param *params;
    int count; /* of params */
} encoder;

/* ----- making ----- */

static void make_net(encoder *t, const training_case *c, int threads) {
    gf_error err = {""};
    const gf_net_spec spec = {.arch = strcmp(c->net, "resnet18") == 0 ? GF_ARCH_RESNET18 : GF_ARCH_RESNET50,
                              .cifar_stem = c->size <= 64,
                              .batch = 2 * c->batch,
                              .size = c->size,
                              .head_hidden = 2048,
                              .head_out = DIM,
                              .zero_init = 1,
                              .precision = c->precision,
                              .training = 1,
                              .seed = 1,
                              .threads = threads};
    training_fine(gf_net_create(&err, &spec, &t->net), &err);
}

static size_t numbers(gf_net *net, int *params) {
    gf_tensor *tensor;
    const int all = gf_net_tensors(net, &tensor);
    size_t sum = 0;
    for (*params = 0; *params < all && tensor[*params].grad; ++*params) sum += (size_t)tensor[*params].count;
    return sum;
}

static void make_optimizer(encoder *t) {
    gf_tensor *tensor;
    float *next = t->momentum = training_take(numbers(t->net, &t->count), sizeof(float));
    t->params = training_take((size_t)t->count, sizeof *t->params);
    gf_net_tensors(t->net, &tensor);
    for (int i = 0; i < t->count; i++) {
        const gf_tensor *x = &tensor[i];
        t->params[i] = (gf_param){
            .p = x->value, .g = x->grad, .state1 = next, .n = (size_t)x->count, .decay = gf_param_decays(x->rank, x->name)};
        next += x->count;
    }
}

static training *make(const training_case *c, int threads) {
    encoder *t = training_take(1, sizeof *t);
    uint64_t state = 1;
    make_net(t, c, threads);
    training_begin(&t->head, c, GLOFND_PAIRING_VIEWS, DIM, threads);
    make_optimizer(t);
    training_draw(&t->head, 2 * c->batch, c->size, &state);
    return &t->head;
}

static void end(training *base) {
    encoder *t = (encoder *)base;
    gf_net_free(t->net);
    free(t->momentum), free(t->params);
    training_end(base);
}

static size_t bytes(const training *base) {
    const encoder *t = (const encoder *)base;
    int params;
    return gf_net_bytes(t->net) + sizeof(float) * numbers(t->net, &params);
}

/* ----- a step ----- */

static void set_parts(double *ms, const double *spent, const double *mark) {
    ms[CONV] = 1e3 * spent[GF_TIME_FORWARD];
    ms[DATA] = 1e3 * spent[GF_TIME_BACK_DATA];
    ms[WEIGHTS] = 1e3 * spent[GF_TIME_BACK_WEIGHTS];
    ms[NORM] = 1e3 * spent[GF_TIME_NORM];
    ms[LOSS] = 1e3 * (mark[2] - mark[1]);
    ms[OPTIMIZER] = 1e3 * (mark[4] - mark[3]);
    ms[REST] = 1e3 * (mark[4] - mark[0]);
    for (int p = 0; p < PARTS; p++)
        if (p != REST) ms[REST] -= ms[p];
}

static double step(training *base) {
    encoder *t = (encoder *)base;
    gf_error err = {""};
    double spent[GF_TIME_PARTS] = {0}, mark[5];
    const float *z;
    gf_dnn_watch(spent, training_clock);
    mark[0] = training_clock();
    training_fine(gf_net_forward(&err, t->net, base->x, 2 * base->batch, 1, NULL, &z), &err);
    mark[1] = training_clock();
    training_loss(base, z, z + base->batch * DIM);
    mark[2] = training_clock();
    training_fine(gf_net_backward(&err, t->net, base->grad[0]), &err);
    mark[3] = training_clock();
    const gf_optim_rule rule = {.kind = GF_OPTIM_SGD, .momentum = 0.9, .weight_decay = 1e-4};
    gf_optim_update(&rule, &(gf_optim_scalars){.lr = 0.03}, t->params, (size_t)t->count);
    gf_net_touch(t->net);
    mark[4] = training_clock();
    gf_dnn_watch(NULL, NULL);
    set_parts(base->part_ms, spent, mark);
    return 1e3 * (mark[4] - mark[0]);
}

const training_kind training_of_views = {PARTS, names, make, step, bytes, end};
