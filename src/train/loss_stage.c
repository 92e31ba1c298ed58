/* loss_stage.c - see loss_stage.h. */
#include "train/loss_stage.h"

#include <math.h>
#include <stdlib.h>

#include "method/step/step.h"
#include "optim/schedule.h"
#include "util/ctx_status.h"

static int on_device(const gf_trainer *t) { return t->config.method.device == GLOFND_DEVICE_CUDA; }
static int has_groups(const gf_trainer *t) { return t->config.task == GF_TASK_CLIP && t->config.mask_duplicates; }
static gf_net *first_net(const gf_trainer *t) { return t->encoders.at[0].net; }

/* ----- making ----- */

/* With the networks on a GPU the method is there too; where it cannot be, on the CPU. */
static glofnd_status make_context(gf_error *err, gf_trainer *t) {
    glofnd_options o = t->config.method;
    glofnd_status status = gf_ctx_create(err, &o, &t->ctx);
    if (status == GLOFND_E_UNSUPPORTED && o.device == GLOFND_DEVICE_CUDA && !t->comm) {
        o.device = GLOFND_DEVICE_CPU;
        status = gf_ctx_create(err, &o, &t->ctx);
        t->host = calloc(4 * (size_t)t->config.batch * (size_t)t->encoders.dim, sizeof *t->host);
        FAIL_IF(err, !t->host, GLOFND_E_MEMORY, "no memory for a batch of embeddings");
    }
    TRY(status);
    if (o.device == GLOFND_DEVICE_CUDA) status = glofnd_ctx_stream(t->ctx, gf_net_stream(first_net(t)));
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(t->ctx));
    return GLOFND_OK;
}

static glofnd_status make_store(gf_error *err, gf_trainer *t) {
    const gf_config *c = &t->config;
    const glofnd_store_spec spec = {
        .size = sizeof spec,
        .n = t->comm ? t->encoders.batch : t->info.n,
        .dim = t->encoders.dim,
        .path = t->comm ? NULL : t->store_path,
    };
    glofnd_status status = glofnd_store_create(t->ctx, &spec, &t->store);
    if (status == GLOFND_OK) status = glofnd_ctx_reserve(t->ctx, t->encoders.batch, c->batch, t->encoders.dim, &t->method_bytes);
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(t->ctx));
    return GLOFND_OK;
}

static glofnd_status make_arrays(gf_error *err, gf_trainer *t) {
    const size_t batch = (size_t)t->config.batch;
    const int device = on_device(t), groups = has_groups(t);
    gf_net *net = first_net(t);
    t->same = groups ? calloc(batch, sizeof *t->same) : NULL;
    t->order = groups ? calloc(batch, sizeof *t->order) : NULL;
    t->id = device ? gf_net_alloc(net, batch * sizeof *t->id) : NULL;
    t->label = device ? gf_net_alloc(net, batch * sizeof *t->label) : NULL;
    t->group = device && groups ? gf_net_alloc(net, batch * sizeof *t->group) : NULL;
    FAIL_IF(err, (groups && (!t->same || !t->order)) || (device && (!t->id || !t->label)) || (device && groups && !t->group),
            GLOFND_E_MEMORY, "no memory for a batch of %zu samples", batch);
    return GLOFND_OK;
}

glofnd_status gf_loss_stage_make(gf_error *err, gf_trainer *t) {
    t->scale = gf_learned_tau_start(&t->config);
    t->stats.size = sizeof t->stats;
    TRY(make_context(err, t));
    TRY(make_store(err, t));
    return make_arrays(err, t);
}

void gf_loss_stage_free(gf_trainer *t) {
    void *const there[] = {t->id, t->label, t->group};
    glofnd_store_free(t->store);
    glofnd_ctx_free(t->ctx);
    for (size_t i = 0; t->encoders.count > 0 && i < sizeof there / sizeof *there; i++) gf_net_release(first_net(t), there[i]);
    free(t->same);
    free(t->order);
    free(t->host);
}

/* ----- before the step ----- */

/* Samples with the same content are no negatives from the first epoch on, while the detector begins later: until then the groups
 * are all there is. */
static glofnd_status choose_options(gf_error *err, gf_trainer *t) {
    const int alone = has_groups(t) && t->batch.epoch < (uint32_t)t->config.method.update_epoch;
    glofnd_options o = t->config.method;
    if (alone == t->groups_alone) return GLOFND_OK;
    if (t->host) o.device = GLOFND_DEVICE_CPU;
    if (alone) o.detector = GLOFND_DETECT_GROUPS, o.update_epoch = o.mask_epoch = 0;
    const glofnd_status status = glofnd_ctx_configure(t->ctx, &o);
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(t->ctx));
    t->groups_alone = alone;
    return GLOFND_OK;
}

/* Of the whole batch, on the host. */
static const int64_t *ids(const gf_trainer *t) { return t->comm ? t->crew.team.id : t->batch.id; }
static const int32_t *labels(const gf_trainer *t) { return t->comm ? t->crew.team.label : t->batch.label; }

glofnd_status gf_loss_stage_begin(gf_error *err, gf_trainer *t) {
    const size_t n = (size_t)t->config.batch;
    gf_net *net = first_net(t);
    TRY(choose_options(err, t));
    if (t->comm) TRY(gf_distributed_draw(err, &t->crew, &t->batch, t->store));
    if (t->same) gf_content_groups(t->comm ? t->crew.content : t->batch.content, t->config.batch, t->order, t->same);
    if (!on_device(t)) return GLOFND_OK;
    if (t->group) TRY(gf_net_write(err, net, t->group, t->same, n * sizeof *t->group));
    TRY(gf_net_write(err, net, t->id, ids(t), n * sizeof *t->id));
    return gf_net_write(err, net, t->label, labels(t), n * sizeof *t->label);
}

/* ----- the step ----- */

/* Index of the first sample with an embedding that is not finite; -1: none. */
static int64_t first_bad(const float *side, int64_t batch, int64_t dim) {
    for (int64_t i = 0; i < batch * dim; i++)
        if (!isfinite(side[i])) return i / dim;
    return -1;
}

static double gamma_now(const gf_trainer *t) {
    const gf_config *c = &t->config;
    return c->gamma_schedule == GF_GAMMA_COSINE ? gf_gamma_cosine(c->gamma_min, (int64_t)t->batch.epoch, c->gamma_decay) : 0.0;
}

/* The batch as the method wants it, without embeddings. `there`: ids, labels and groups are on the device. */
static glofnd_batch batch_of(const gf_trainer *t, int there) {
    const gf_config *c = &t->config;
    const int labelled = t->info.classes > 0;
    return (glofnd_batch){
        .size = sizeof(glofnd_batch),
        .rows = c->batch,
        .cols = c->batch,
        .dim = t->encoders.dim,
        .id = there ? t->id : ids(t),
        .label = !labelled ? NULL
                 : there   ? t->label
                           : labels(t),
        .group = there ? t->group : t->same,
        .epoch = (int32_t)t->batch.epoch,
        .want = labelled ? GLOFND_WANT_QUALITY : 0,
        .tau = gf_config_learns_tau(c) ? gf_learned_tau_value(&t->scale) : 0.0,
        .gamma = gamma_now(t),
    };
}

uint64_t gf_loss_stage_key(const gf_trainer *t) {
    if (!on_device(t) || t->host || gf_config_learns_tau(&t->config) || t->encoders.part < t->encoders.batch) return 0;
    const glofnd_batch q = batch_of(t, 1);
    const gf_plan plan = gf_plan_of(&t->config.method, &q);
    if (t->comm && plan.shared) return 0; /* ranks sum the shared lambda over the host */
    return (gf_plan_phase(&plan) ^ (uint64_t)t->groups_alone << 63) | 1;
}

static glofnd_status method_step(gf_error *err, gf_trainer *t, const float *const side[2], float *const grad[2], int there) {
    glofnd_batch q = batch_of(t, there);
    if (t->comm) return gf_distributed_step(err, &t->crew, &t->encoders, t->store, q, there ? NULL : &t->stats);
    q.a = side[0];
    q.b = side[1];
    const glofnd_status status = glofnd_step(t->ctx, t->store, &q, grad[0], grad[1], there ? NULL : &t->stats);
    FAIL_IF(err, status != GLOFND_OK, status, "step %lld: %s", (long long)t->step, glofnd_ctx_error(t->ctx));
    return GLOFND_OK;
}

static glofnd_status host_step(gf_error *err, gf_trainer *t, const float *const side[2], float *const grad[2]) {
    for (int i = 0; i < 2; i++) {
        const int64_t bad = first_bad(side[i], t->encoders.batch, t->encoders.dim);
        FAIL_IF(err, bad >= 0, GLOFND_E_NUMERIC, "step %lld: the embedding of sample %lld is not finite; a smaller lr may help",
                (long long)t->step, (long long)t->batch.id[bad]);
    }
    return method_step(err, t, side, grad, 0);
}

glofnd_status gf_loss_stage_run(gf_error *err, gf_trainer *t) {
    const size_t numbers = (size_t)(t->config.batch * t->encoders.dim), bytes = numbers * sizeof(float);
    const float *const side[2] = {gf_encoders_side(&t->encoders, 0), gf_encoders_side(&t->encoders, 1)};
    float *const grad[2] = {gf_encoders_side_grad(&t->encoders, 0), gf_encoders_side_grad(&t->encoders, 1)};
    if (!on_device(t)) return host_step(err, t, side, grad);
    if (!t->host) return method_step(err, t, side, grad, 1);
    const float *const here[2] = {t->host, t->host + numbers};
    float *const grad_here[2] = {t->host + 2 * numbers, t->host + 3 * numbers};
    for (int i = 0; i < 2; i++) TRY(gf_net_read(err, first_net(t), t->host + (size_t)i * numbers, side[i], bytes));
    TRY(host_step(err, t, here, grad_here));
    for (int i = 0; i < 2; i++) TRY(gf_net_write(err, first_net(t), grad[i], grad_here[i], bytes));
    return GLOFND_OK;
}

glofnd_status gf_loss_stage_stats(gf_error *err, gf_trainer *t) {
    const long long step = t->step, first = t->batch.id[0], second = t->batch.id[1];
    if (on_device(t) && !t->host) {
        const glofnd_status status = glofnd_ctx_stats(t->ctx, &t->stats);
        FAIL_IF(err, status != GLOFND_OK, status, "step %lld, samples %lld, %lld ...: %s", step, first, second,
                glofnd_ctx_error(t->ctx));
    }
    if (t->comm) TRY(gf_distributed_settle(err, &t->crew, t->store, &t->stats));
    FAIL_IF(err, !isfinite(t->stats.loss), GLOFND_E_NUMERIC,
            "step %lld: the loss is not finite; samples %lld, %lld ...; a smaller lr may help", step, first, second);
    return GLOFND_OK;
}
