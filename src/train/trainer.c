/* trainer.c - see trainer.h. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/parallel.h"
#include "optim/param.h"
#include "optim/schedule.h"

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
gf_augment gf_trainer_recipe(const gf_config *c) {
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
        .data = t->data, .augment = gf_trainer_recipe(c), .views = 2, .batch = c->batch, .seed = (uint64_t)c->seed,
        .workers = c->workers > 0 ? c->workers : threads_of(c), .depth = c->prefetch, .fast = c->decode_fast, .strict = c->strict,
        .damaged = damaged, .user = user,
    };
    const gf_type type = c->precision == GF_BF16 ? GF_TYPE_BF16 : GF_TYPE_F32;
    const glofnd_status status = gf_feed_open(err, &t->feed, t->net, type, &spec);
    t->loader = t->feed.loader;
    return status;
}

static gf_net_spec net_spec(const gf_config *c) {
    return (gf_net_spec){
        .arch = c->arch, .cifar_stem = c->stem, .batch = 2 * c->batch, .size = c->size, .head_hidden = c->head_hidden,
        .head_out = c->head_out, .zero_init = c->zero_init, .precision = c->precision, .training = 1, .seed = (uint64_t)c->seed,
        .threads = threads_of(c), .device = c->method.device, .deterministic = c->deterministic, .exact = !c->tf32,
    };
}

static glofnd_status make_net(gf_error *err, gf_trainer *t) {
    gf_net_spec spec = net_spec(&t->config);
    spec.plans = t->plans_path;
    TRY(gf_net_create(err, &spec, &t->net));
    t->tensor_count = gf_net_tensors(t->net, &t->tensors);
    return GLOFND_OK;
}

static gf_optim_rule rule_of(const gf_config *c) {
    static const gf_optim_kind kinds[] = {
        [GF_OPTIMIZER_LARS] = GF_OPTIM_LARS, [GF_OPTIMIZER_SGD] = GF_OPTIM_SGD, [GF_OPTIMIZER_ADAMW] = GF_OPTIM_ADAMW};
    return (gf_optim_rule){.kind = kinds[c->optimizer], .momentum = c->momentum, .weight_decay = c->weight_decay, .trust = 0.001,
                           .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

static glofnd_status make_optimizer(gf_error *err, gf_trainer *t) {
    const int adam = t->config.optimizer == GF_OPTIMIZER_ADAMW;
    const gf_optim_rule rule = rule_of(&t->config);
    while (t->param_count < t->tensor_count &&
            t->tensors[t->param_count].grad) t->state_count += t->tensors[t->param_count++].count;
    t->params = calloc((size_t)t->param_count, sizeof *t->params);
    t->state1 = gf_net_state(t->net);
    t->state2 = adam ? gf_net_state(t->net) : NULL;
    FAIL_IF(err, !t->params || !t->state1 || (adam && !t->state2), GLOFND_E_MEMORY, "no memory for the optimizer's state");
    for (int i = 0; i < t->param_count; i++) {
        const gf_tensor *x = &t->tensors[i];
        t->params[i] = (gf_param){
            .p = x->value, .g = x->grad, .state1 = gf_net_place(t->net, t->state1, x),
            .state2 = adam ? gf_net_place(t->net, t->state2, x) : NULL, .n = (size_t)x->stored,
            .decay = gf_param_decays(x->rank, x->name), .adapt = gf_param_adapts(x->rank),
        };
    }
    return gf_optim_create(err, gf_net_backend(t->net), gf_net_engine(t->net), &rule, t->params, t->param_count, &t->optim);
}

/* With the network on a GPU the method is there too; where it cannot be, on the CPU. */
static glofnd_status make_context(gf_error *err, gf_trainer *t) {
    glofnd_options o = t->config.method;
    glofnd_status status = glofnd_ctx_create(&o, &t->ctx);
    if (status == GLOFND_E_UNSUPPORTED && o.device == GLOFND_DEVICE_CUDA) {
        o.device = GLOFND_DEVICE_CPU;
        status = glofnd_ctx_create(&o, &t->ctx);
        t->host = calloc(4 * (size_t)t->config.batch * (size_t)t->config.head_out, sizeof *t->host);
        FAIL_IF(err, !t->host, GLOFND_E_MEMORY, "no memory for a batch of embeddings");
    }
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_status_text(status));
    if (o.device == GLOFND_DEVICE_CUDA) status = glofnd_ctx_stream(t->ctx, gf_net_stream(t->net));
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(t->ctx));
    return GLOFND_OK;
}

static glofnd_status make_method(gf_error *err, gf_trainer *t) {
    const gf_config *c = &t->config;
    const int ring = c->method.learner == GLOFND_LEARN_RING;
    const glofnd_store_spec spec = {
        .size = sizeof spec, .n = t->info.n, .modalities = 1, .ring_rows = ring ? c->method.ring_rows : 0,
                .ring_dim = ring ? c->head_out : 0, .path = t->store_path,
    };
    TRY(make_context(err, t));
    glofnd_status status = glofnd_store_create(t->ctx, &spec, &t->store);
    if (status == GLOFND_OK) status = glofnd_ctx_reserve(t->ctx, c->batch, c->batch, c->head_out, NULL);
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(t->ctx));
    return GLOFND_OK;
}

static int on_device(const gf_trainer *t) { return t->config.method.device == GLOFND_DEVICE_CUDA; }

static glofnd_status make_buffers(gf_error *err, gf_trainer *t) {
    const size_t batch = (size_t)t->config.batch;
    t->grad = gf_net_alloc(t->net, 2 * batch * (size_t)t->config.head_out * sizeof *t->grad);
    if (on_device(t)) t->id = gf_net_alloc(t->net, batch * sizeof *t->id);
    if (on_device(t)) t->label = gf_net_alloc(t->net, batch * sizeof *t->label);
    FAIL_IF(err, !t->grad || (on_device(t) && (!t->id || !t->label)), GLOFND_E_MEMORY, "no memory for a batch of %zu samples",
            batch);
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
    gf_feed_close(&t->feed);
    glofnd_store_free(t->store);
    glofnd_ctx_free(t->ctx);
    gf_optim_free(t->optim);
    void *const there[] = {t->state1, t->state2, t->grad, t->id, t->label};
    for (size_t i = 0; t->net && i < sizeof there / sizeof *there; i++) gf_net_release(t->net, there[i]);
    gf_net_free(t->net);
    gf_dataset_free(t->data);
    free(t->params);
    free(t->host);
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
    *bytes = net + sizeof(float) * (optimizer + batches + 4 * images * dim) + ring;
    if (c->store == GF_STORE_MEMORY) *bytes += 20 * (size_t)t->info.n;
    return GLOFND_OK;
}

/* ----- a step ----- */

static void mark(gf_trainer *t, int part) { t->marks[part] = seconds(); }

static glofnd_status take_batch(gf_error *err, gf_trainer *t) {
    const int64_t n = t->config.batch;
    TRY(gf_feed_next(err, &t->feed, &t->batch));
    if (!on_device(t)) return GLOFND_OK;
    TRY(gf_net_write(err, t->net, t->id, t->batch.id, (size_t)n * sizeof *t->id));
    return gf_net_write(err, t->net, t->label, t->batch.label, (size_t)n * sizeof *t->label);
}

/* Index of the first sample with an embedding that is not finite in either view; -1: none. */
static int64_t first_bad(const float *projection, int64_t batch, int64_t dim) {
    for (int64_t i = 0; i < 2 * batch * dim; i++)
        if (!isfinite(projection[i])) return i / dim % batch;
    return -1;
}

/* Loss and gradient of `projection`, by the context where it is; `there`: ids and labels are on the device. */
static glofnd_status method_step(gf_error *err, gf_trainer *t, const float *projection, float *grad, int there) {
    const gf_config *c = &t->config;
    const size_t side = (size_t)c->batch * (size_t)c->head_out;
    const int labelled = t->info.classes > 0;
    const glofnd_batch q = {
        .size = sizeof q, .rows = c->batch, .cols = c->batch, .dim = c->head_out, .a = projection, .b = projection + side,
        .id = there ? t->id : t->batch.id, .label = !labelled ? NULL : there ? t->label : t->batch.label,
        .epoch = (int32_t)t->batch.epoch, .want = labelled ? GLOFND_WANT_QUALITY : 0,
    };
    const glofnd_status status = glofnd_step(t->ctx, t->store, &q, grad, grad + side, there ? NULL : &t->stats);
    FAIL_IF(err, status != GLOFND_OK, status, "step %lld: %s", (long long)t->step, glofnd_ctx_error(t->ctx));
    return GLOFND_OK;
}

static glofnd_status host_contrast(gf_error *err, gf_trainer *t, const float *projection, float *grad) {
    const int64_t bad = first_bad(projection, t->config.batch, t->config.head_out);
    FAIL_IF(err, bad >= 0, GLOFND_E_NUMERIC, "step %lld: the embedding of sample %lld is not finite; a smaller lr may help",
            (long long)t->step, (long long)t->batch.id[bad]);
    return method_step(err, t, projection, grad, 0);
}

static glofnd_status contrast(gf_error *err, gf_trainer *t) {
    const size_t numbers = 2 * (size_t)t->config.batch * (size_t)t->config.head_out, bytes = numbers * sizeof(float);
    if (!on_device(t)) return host_contrast(err, t, t->projection, t->grad);
    if (!t->host) return method_step(err, t, t->projection, t->grad, 1);
    TRY(gf_net_read(err, t->net, t->host, t->projection, bytes));
    TRY(host_contrast(err, t, t->host, t->host + numbers));
    return gf_net_write(err, t->net, t->grad, t->host + numbers, bytes);
}

/* From views to moved weights. On a GPU it is queued, and recorded. */
static glofnd_status compute(gf_error *err, void *trainer) {
    gf_trainer *t = trainer;
    TRY(gf_net_forward(err, t->net, NULL, 2 * t->config.batch, 1, NULL, &t->projection));
    mark(t, 2);
    TRY(contrast(err, t));                                                      /* loss, its gradient, lambda and u */
    mark(t, 3);
    TRY(gf_net_backward(err, t->net, t->grad));
    mark(t, 4);
    return gf_optim_step(err, t->optim);
}

/* What a recorded step has baked in follows from the epoch. The CPU's loss cannot be recorded. */
static glofnd_status run_step(gf_error *err, gf_trainer *t) {
    return t->host ? compute(err, t) : gf_net_replay(err, t->net, (uint64_t)t->batch.epoch + 1, compute, t);
}

static double rate(const gf_trainer *t) {
    const gf_config *c = &t->config;
    return gf_lr_cosine_epochs(gf_config_lr(c), (double)t->step / (double)t->epoch_steps, c->warmup_epochs, c->epochs);
}

/* Waits for the step, and says what is wrong with it. */
static glofnd_status look_back(gf_error *err, gf_trainer *t) {
    const long long step = t->step, first = t->batch.id[0], second = t->batch.id[1];
    TRY(gf_optim_norm(err, t->optim, &t->grad_norm));
    gf_net_touch(t->net);
    if (on_device(t) && !t->host) {
        const glofnd_status status = glofnd_ctx_stats(t->ctx, &t->stats);
        FAIL_IF(err, status != GLOFND_OK, status, "step %lld, samples %lld, %lld ...: %s", step, first, second,
                glofnd_ctx_error(t->ctx));
    }
    FAIL_IF(err, !isfinite(t->stats.loss), GLOFND_E_NUMERIC,
            "step %lld: the loss is not finite; samples %lld, %lld ...; a smaller lr may help", step, first, second);
    FAIL_IF(err, !isfinite(t->grad_norm), GLOFND_E_NUMERIC,
            "step %lld: the gradient is not finite; samples %lld, %lld ...; a smaller lr may help", step, first, second);
    return GLOFND_OK;
}

static gf_step_times times_of(const gf_trainer *t, double end) {
    const double *at = t->marks;
    const gf_batch *b = &t->batch;
    if (on_device(t)) return (gf_step_times){at[1] - at[0], end - at[1], 0, 0, 0, b->read_seconds, b->augment_seconds};
    return (gf_step_times){at[1] - at[0], at[2] - at[1], at[3] - at[2], at[4] - at[3], end - at[4], b->read_seconds,
                           b->augment_seconds};
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
    if (t->step % t->epoch_steps == 0) t->sums = (gf_epoch_sums){0};
    t->lr = rate(t);
    mark(t, 0);
    TRY(take_batch(err, t));                                                    /* two views, anchor ids */
    mark(t, 1);
    TRY(gf_optim_set(err, t->optim, t->lr, t->step + 1));
    TRY(run_step(err, t));
    gf_feed_ahead(&t->feed);
    TRY(look_back(err, t));                                                     /* is all of it finite? */
    t->times = times_of(t, seconds());
    add_up(t);
    t->step++;
    return GLOFND_OK;
}

/* ----- the optimizer's state for checkpoints ----- */

/* Where the state of parameter i is in `block`. */
static float *place(const gf_trainer *t, const float *block, int i) {
    return gf_net_place(t->net, (float *)(uintptr_t)block, &t->tensors[i]);
}

glofnd_status gf_trainer_get_state(gf_error *err, const gf_trainer *t, const float *block, float *flat) {
    for (int i = 0; i < t->param_count; flat += t->tensors[i++].count)
        TRY(gf_net_get(err, t->net, &t->tensors[i], place(t, block, i), flat));
    return GLOFND_OK;
}

glofnd_status gf_trainer_put_state(gf_error *err, gf_trainer *t, float *block, const float *flat) {
    for (int i = 0; i < t->param_count; flat += t->tensors[i++].count)
        TRY(gf_net_put(err, t->net, &t->tensors[i], place(t, block, i), flat));
    return GLOFND_OK;
}
