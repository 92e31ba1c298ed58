/* trainer.c - see trainer.h. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/parallel.h"
#include "optim/adamw.h"
#include "optim/lars.h"
#include "optim/schedule.h"
#include "optim/sgd.h"

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ----- making ----- */

static int threads_of(const gf_config *c) { return c->method.threads > 0 ? c->method.threads : gf_parallel_default(); }

static glofnd_status open_data(gf_error *err, gf_trainer *t) {
    gf_config *c = &t->config;
    TRY(gf_dataset_open(err, c->data, &t->data));
    t->info = gf_dataset_describe(t->data);
    FAIL_IF(err, c->batch > t->info.n, GLOFND_E_OPTION, "batch: %lld is more than the %lld samples of %.100s",
            (long long)c->batch,
            (long long)t->info.n, c->data);
    if (c->size == 0) c->size = t->info.width > 0 && t->info.width == t->info.height ? t->info.width : 224;
    if (c->stem < 0) c->stem = c->size <= 64;
    t->epoch_steps = t->info.n / c->batch;
    return GLOFND_OK;
}

/* SogCLR's recipe with the configuration's strengths. */
static gf_augment recipe_of(const gf_config *c) {
    gf_augment a = gf_augment_pretrain(c->size);
    a.scale_min = c->crop_min;
    a.jitter_p = c->jitter_p;
    a.brightness = c->brightness, a.contrast = c->contrast, a.saturation = c->saturation, a.hue = c->hue;
    a.gray_p = c->gray_p;
    a.blur_p = c->blur_p < 0.0 ? a.blur_p : c->blur_p;
    a.flip_p = c->flip_p;
    return a;
}

static glofnd_status make_loader(gf_error *err, gf_trainer *t, void (*damaged)(void *, int64_t, const char *), void *user) {
    const gf_config *c = &t->config;
    const gf_loader_spec spec = {
        .data = t->data, .augment = recipe_of(c), .views = 2, .batch = c->batch, .seed = (uint64_t)c->seed,
        .workers = c->workers > 0 ? c->workers : threads_of(c), .depth = c->prefetch, .fast = c->decode_fast, .strict = c->strict,
        .damaged = damaged, .user = user,
    };
    return gf_loader_create(err, &spec, &t->loader);
}

static gf_net_spec net_spec(const gf_config *c) {
    return (gf_net_spec){
        .arch = c->arch, .cifar_stem = c->stem, .batch = 2 * c->batch, .size = c->size, .head_hidden = c->head_hidden,
        .head_out = c->head_out, .zero_init = c->zero_init, .precision = c->precision, .training = 1, .seed = (uint64_t)c->seed,
        .threads = threads_of(c),
    };
}

static glofnd_status make_net(gf_error *err, gf_trainer *t) {
    const gf_net_spec spec = net_spec(&t->config);
    TRY(gf_net_create(err, &spec, &t->net));
    t->tensor_count = gf_net_tensors(t->net, &t->tensors);
    return GLOFND_OK;
}

static glofnd_status make_optimizer(gf_error *err, gf_trainer *t) {
    const int adam = t->config.optimizer == GF_OPTIMIZER_ADAMW;
    while (t->param_count < t->tensor_count &&
            t->tensors[t->param_count].grad) t->state_count += t->tensors[t->param_count++].count;
    t->params = calloc((size_t)t->param_count, sizeof *t->params);
    t->state1 = calloc((size_t)t->state_count, sizeof *t->state1);
    t->state2 = adam ? calloc((size_t)t->state_count, sizeof *t->state2) : NULL;
    FAIL_IF(err, !t->params || !t->state1 || (adam && !t->state2), GLOFND_E_MEMORY, "no memory for the optimizer's state");
    int64_t at = 0;
    for (int i = 0; i < t->param_count; i++) {
        const gf_tensor *x = &t->tensors[i];
        t->params[i] = (gf_param){
            .p = x->value, .g = x->grad, .state1 = t->state1 + at, .state2 = adam ? t->state2 + at : NULL, .n = (size_t)x->count,
            .decay = gf_param_decays(x->rank, x->name), .adapt = gf_param_adapts(x->rank),
        };
        at += x->count;
    }
    return GLOFND_OK;
}

static glofnd_status make_method(gf_error *err, gf_trainer *t) {
    const gf_config *c = &t->config;
    const int ring = c->method.learner == GLOFND_LEARN_RING;
    const glofnd_store_spec spec = {
        .size = sizeof spec, .n = t->info.n, .modalities = 1, .ring_rows = ring ? c->method.ring_rows : 0,
                .ring_dim = ring ? c->head_out : 0,
    };
    glofnd_status status = glofnd_ctx_create(&c->method, &t->ctx);
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_status_text(status));
    status = glofnd_store_create(t->ctx, &spec, &t->store);
    if (status == GLOFND_OK) status = glofnd_ctx_reserve(t->ctx, c->batch, c->batch, c->head_out, NULL);
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(t->ctx));
    return GLOFND_OK;
}

static glofnd_status make_buffers(gf_error *err, gf_trainer *t) {
    const gf_config *c = &t->config;
    const size_t images = 2 * (size_t)c->batch, pixels = (size_t)c->size * (size_t)c->size * 3;
    t->x = malloc(images * pixels * sizeof(float));
    t->grad = malloc(images * (size_t)c->head_out * sizeof(float));
    FAIL_IF(err, !t->x || !t->grad, GLOFND_E_MEMORY, "no memory for a batch of %zu images of %d pixels", images, (int)c->size);
    return GLOFND_OK;
}

glofnd_status gf_trainer_build(gf_error *err, gf_trainer *t, void (*damaged)(void *, int64_t, const char *), void *user) {
    TRY(make_net(err, t));
    TRY(make_optimizer(err, t));
    TRY(make_method(err, t));
    TRY(make_buffers(err, t));
    return make_loader(err, t, damaged, user);
}

glofnd_status gf_trainer_open(gf_error *err, const gf_config *config, gf_trainer **out) {
    gf_trainer *t = calloc(1, sizeof *t);
    *out = NULL;
    FAIL_IF(err, !t, GLOFND_E_MEMORY, "no memory for a trainer");
    t->config = *config;
    const glofnd_status status = open_data(err, t);
    if (status == GLOFND_OK) *out = t;
    else gf_trainer_free(t);
    return status;
}

void gf_trainer_free(gf_trainer *t) {
    if (!t) return;
    gf_loader_free(t->loader);
    glofnd_store_free(t->store);
    glofnd_ctx_free(t->ctx);
    gf_net_free(t->net);
    gf_dataset_free(t->data);
    free(t->params);
    free(t->state1);
    free(t->state2);
    free(t->x);
    free(t->grad);
    free(t);
}

int64_t gf_trainer_steps(const gf_trainer *t) { return t->epoch_steps * t->config.epochs; }

/* Parameters of the encoder and the head, to a percent; the network itself tells only once it is built. */
static size_t params_of(const gf_config *c) {
    static const size_t encoder[] = {78000, 11200000, 21300000, 23500000}, features[] = {64, 512, 512, 2048};
    return encoder[c->arch] + (features[c->arch] + (size_t)c->head_out) * (size_t)c->head_hidden;
}

glofnd_status gf_trainer_estimate(gf_error *err, const gf_trainer *t, size_t *bytes) {
    const gf_config *c = &t->config;
    const gf_net_spec spec = net_spec(c);
    const size_t images = 2 * (size_t)c->batch, pixels = (size_t)c->size * (size_t)c->size * 3, dim = (size_t)c->head_out;
    const int has_ring = c->method.learner == GLOFND_LEARN_RING;
    const size_t ring = has_ring ? (size_t)c->method.ring_rows * (sizeof(float) * dim + sizeof(int64_t)) : 0;
    size_t net = 0;
    TRY(gf_net_estimate(err, &spec, &net));
    const size_t optimizer = params_of(c) * (c->optimizer == GF_OPTIMIZER_ADAMW ? 2 : 1);
    const size_t batches = images * pixels * (2 + (size_t)c->prefetch);     /* the one in use, and those prepared ahead */
    *bytes = net + sizeof(float) * (optimizer + batches + 4 * images * dim) + 24 * (size_t)t->info.n + ring;
    return GLOFND_OK;
}

/* ----- a step ----- */

static void gather_views(gf_trainer *t, const gf_batch *b) {
    const size_t view = (size_t)t->config.batch * (size_t)t->config.size * (size_t)t->config.size * 3;
    memcpy(t->x, b->view[0], view * sizeof *t->x);
    memcpy(t->x + view, b->view[1], view * sizeof *t->x);
}

/* Index of the first sample with an embedding that is not finite in either view; -1: none. */
static int64_t first_bad(const float *projection, int64_t batch, int64_t dim) {
    for (int64_t i = 0; i < 2 * batch * dim; i++)
        if (!isfinite(projection[i])) return i / dim % batch;
    return -1;
}

static glofnd_status contrast(gf_error *err, gf_trainer *t, const gf_batch *b, const float *projection) {
    const gf_config *c = &t->config;
    const size_t side = (size_t)c->batch * (size_t)c->head_out;
    const glofnd_batch q = {
        .size = sizeof q, .rows = c->batch, .cols = c->batch, .dim = c->head_out, .a = projection, .b = projection + side,
                .id = b->id,
        .label = t->info.classes > 0 ? b->label : NULL, .epoch = (int32_t)b->epoch,
                .want = t->info.classes > 0 ? GLOFND_WANT_QUALITY : 0,
    };
    const int64_t bad = first_bad(projection, c->batch, c->head_out);
    FAIL_IF(err, bad >= 0, GLOFND_E_NUMERIC, "step %lld: the embedding of sample %lld is not finite; a smaller lr may help",
            (long long)t->step, (long long)b->id[bad]);
    const glofnd_status status = glofnd_step(t->ctx, t->store, &q, t->grad, t->grad + side, &t->stats);
    FAIL_IF(err, status != GLOFND_OK, status, "step %lld: %s", (long long)t->step, glofnd_ctx_error(t->ctx));
    FAIL_IF(err, !isfinite(t->stats.loss), GLOFND_E_NUMERIC,
            "step %lld: the loss is not finite; samples %lld, %lld ...; a smaller lr may help",
            (long long)t->step, (long long)b->id[0], (long long)b->id[1]);
    return GLOFND_OK;
}

static void optimize(gf_trainer *t) {
    const gf_config *c = &t->config;
    const double epoch = (double)t->step / (double)t->epoch_steps;
    const size_t count = (size_t)t->param_count;
    t->lr = gf_lr_cosine_epochs(gf_config_lr(c), epoch, c->warmup_epochs, c->epochs);
    switch (c->optimizer) {
    case GF_OPTIMIZER_LARS: gf_lars_step(&(gf_lars){c->momentum, c->weight_decay, 0.001}, t->lr, t->params, count); break;
    case GF_OPTIMIZER_SGD: gf_sgd_step(&(gf_sgd){c->momentum, c->weight_decay, 0}, t->lr, t->params, count); break;
    case GF_OPTIMIZER_ADAMW: gf_adamw_step(&(gf_adamw){0.9, 0.999, 1e-8, c->weight_decay}, t->lr, t->step + 1, t->params,
            count); break;
    }
    gf_net_touch(t->net);
}

static glofnd_status measure_gradient(gf_error *err, gf_trainer *t, const gf_batch *b) {
    double square = 0.0;
    for (int i = 0; i < t->param_count; i++) {
        const double norm = gf_param_norm(t->params[i].g, NULL, 0.0, t->params[i].n);
        square += norm * norm;
    }
    t->grad_norm = sqrt(square);
    FAIL_IF(err, !isfinite(t->grad_norm), GLOFND_E_NUMERIC,
            "step %lld: the gradient is not finite; samples %lld, %lld ...; a smaller lr may help",
            (long long)t->step, (long long)b->id[0], (long long)b->id[1]);
    return GLOFND_OK;
}

static void add_up(gf_trainer *t) {
    const glofnd_stats *s = &t->stats;
    gf_epoch_sums *e = &t->sums;
    e->steps += 1.0;
    e->loss += s->loss, e->lambda += s->lambda_mean, e->kept += s->kept_share;
    e->pairs += (double)s->pairs, e->flagged += (double)s->flagged, e->same += (double)s->same, e->hits += (double)s->hits;
    if (isnan(s->precision)) return;
    e->precision += s->precision, e->recall += s->recall, e->quality_steps += 1.0;
}

glofnd_status gf_trainer_step(gf_error *err, gf_trainer *t) {
    const float *projection = NULL;
    gf_batch batch;
    double at[6];
    if (t->step % t->epoch_steps == 0) t->sums = (gf_epoch_sums){0};
    at[0] = seconds();
    TRY(gf_loader_next(err, t->loader, &batch));                                /* two views, anchor ids */
    gather_views(t, &batch);
    at[1] = seconds();
    TRY(gf_net_forward(err, t->net, t->x, 2 * t->config.batch, 1, NULL, &projection));
    at[2] = seconds();
    TRY(contrast(err, t, &batch, projection));                                  /* loss, its gradient, lambda and u */
    at[3] = seconds();
    TRY(gf_net_backward(err, t->net, t->grad));
    at[4] = seconds();
    TRY(measure_gradient(err, t, &batch));
    optimize(t);
    at[5] = seconds();
    t->times = (gf_step_times){
        at[1] - at[0], at[2] - at[1], at[3] - at[2], at[4] - at[3], at[5] - at[4], batch.read_seconds, batch.augment_seconds,
    };
    add_up(t);
    t->step++;
    return GLOFND_OK;
}
