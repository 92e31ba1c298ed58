/* loss_stage.c - see loss_stage.h. */
#include "loop/loss_stage.h"

#include <math.h>
#include <stdlib.h>

#include "dist/dist.h"
#include "loader/loader.h"
#include "method/step.h"
#include "method/store.h"
#include "nn/optim_rule.h"
#include "optim/optim.h"
#include "util/status.h"

/* The options of the context are those of the run only once the detector has started. Until then the step is that of
 * `detector = none`, bit for bit, so that runs of one seed are paired from the first step; samples with the same content are no
 * negatives even then. */
typedef enum detector_phase {
    DETECTOR_STARTED, /* the run's options */
    DETECTOR_WAITS,   /* no detector */
    DUPLICATES_ONLY   /* task clip, mask_duplicates: groups of equal contents are masked, and nothing else */
} detector_phase;

struct gf_loss_stage {
    gf_loss_stage_spec spec;
    const gf_config *config; /* of spec */
    gf_net *net;             /* the first encoder's: its memory, stream and device are those of the loss */
    int on_device;
    glofnd_ctx *ctx;
    size_t ctx_bytes; /* of the context's arrays */
    glofnd_store *store;
    /* the present step */
    const gf_batch *batch;
    const int64_t *ids; /* [batch] of all ranks, on the host */
    const int32_t *labels;
    int64_t step;
    double tau, bias;
    const float *support; /* [fnc_support][batch][dim] on the host: the whole batch; NULL: none */
    float *support_there; /* GPU: the same on the device; else NULL */
    glofnd_stats stats;
    glofnd_batch_extra extra; /* of the batch of this step */
    detector_phase phase;     /* that the context is configured for */
    /* arrays of a batch */
    int32_t *groups; /* [batch] on the host: of samples with the same content, or as the detector has them; NULL: none */
    int64_t *order;  /* [batch] scratch for it */
    int64_t *id;     /* GPU: [batch] on the device; else NULL */
    int32_t *label, *group;
    float *guide, *threshold;             /* detector fixed: [batch][guide's dim] and [batch] on the host; NULL: none */
    float *guide_there, *threshold_there; /* GPU: the same on the device; else NULL */
    /* several ranks */
    gf_step_ranks ranks;
    float *all[2];       /* [batch][dim] embeddings of all ranks, where the encoders are */
    void *links;         /* [batch][GLOFND_LINK_BYTES] there */
    int64_t *slots;      /* [rows] there; NULL: rows of the store are ids */
    uint16_t *bank[2];   /* [batch][dim] there, per side: averages of the batch; NULL: none */
    gf_content *content; /* [batch] on the host: contents of all samples of the batch */
    float *all_support;  /* [fnc_support][batch][dim] on the host; NULL: none */
};

static int masks_duplicates(const gf_loss_stage *l) { return l->config->task == GF_TASK_CLIP && l->config->mask_duplicates; }
/* WCL: groups of the batch, made of its embeddings before every step. */
static int has_components(const gf_loss_stage *l) {
    return l->config->method.detector == GLOFND_DETECT_COMPONENTS && l->phase != DUPLICATES_ONLY;
}
static int has_bank(const gf_loss_stage *l) { return l->config->method.similarity == GLOFND_SIMILARITY_BANK; }
static int banks(const gf_loss_stage *l) { return has_bank(l) ? l->store->spec.modalities : 0; }

/* ----- creating ----- */

static size_t support_bytes(const gf_loss_stage *l) {
    const gf_config *c = l->config;
    return (size_t)c->method.fnc_support * (size_t)(c->batch * l->spec.encoders->dim) * sizeof(float);
}

static glofnd_status make_stage(gf_error *err, gf_loss_stage *l) {
    /* With the encoders on a GPU the method runs there too, on their stream. */
    TRY(gf_ctx_create(err, &l->config->method, &l->ctx));
    if (l->on_device) TRY(gf_ctx_status(err, l->ctx, glofnd_ctx_stream(l->ctx, gf_net_stream(l->net))));

    /* Several ranks: a store of the drawn samples, or of all if it has averages, which every rank holds. */
    const gf_encoders *e = l->spec.encoders;
    const glofnd_store_spec spec = {
        .size = sizeof spec,
        .n = l->spec.comm && !has_bank(l) ? e->batch : l->spec.samples,
        .dim = e->dim,
        .path = l->spec.comm ? NULL : l->spec.store_path,
    };
    TRY(gf_ctx_status(err, l->ctx, glofnd_store_create(l->ctx, &spec, &l->store)));
    TRY(gf_ctx_status(err, l->ctx, glofnd_ctx_reserve(l->ctx, e->batch, l->config->batch, e->dim, &l->ctx_bytes)));
    const size_t batch = (size_t)l->config->batch;
    const int device = l->on_device, groups = masks_duplicates(l) || l->spec.groups || has_components(l);
    l->groups = groups ? calloc(batch, sizeof *l->groups) : NULL;
    l->order = groups ? calloc(batch, sizeof *l->order) : NULL;
    l->id = device ? gf_net_alloc(l->net, batch * sizeof *l->id) : NULL;
    l->label = device ? gf_net_alloc(l->net, batch * sizeof *l->label) : NULL;
    l->group = device && groups ? gf_net_alloc(l->net, batch * sizeof *l->group) : NULL;
    l->support_there = device && gf_config_supports(l->config) ? gf_net_alloc(l->net, support_bytes(l)) : NULL;
    FAIL_IF(err, device && gf_config_supports(l->config) && !l->support_there, GLOFND_E_MEMORY,
            "no memory for the support views of %zu samples", batch);
    if (l->spec.guide) {
        const size_t numbers = batch * (size_t)l->spec.guide->dim;
        l->guide = malloc(numbers * sizeof *l->guide);
        l->threshold = malloc(batch * sizeof *l->threshold);
        l->guide_there = device ? gf_net_alloc(l->net, numbers * sizeof *l->guide_there) : NULL;
        l->threshold_there = device ? gf_net_alloc(l->net, batch * sizeof *l->threshold_there) : NULL;
        FAIL_IF(err, !l->guide || !l->threshold || (device && (!l->guide_there || !l->threshold_there)), GLOFND_E_MEMORY,
                "no memory for the guide of a batch of %zu samples", batch);
    }
    FAIL_IF(err, (groups && (!l->groups || !l->order)) || (device && (!l->id || !l->label)) || (device && groups && !l->group),
            GLOFND_E_MEMORY, "no memory for a batch of %zu samples", batch);
    return GLOFND_OK;
}

glofnd_status gf_loss_stage_create(gf_error *err, const gf_loss_stage_spec *spec, gf_loss_stage **out) {
    gf_loss_stage *l = calloc(1, sizeof *l);
    *out = NULL;
    FAIL_IF(err, !l, GLOFND_E_MEMORY, "no memory for the loss");
    l->spec = *spec;
    l->config = spec->config;
    l->net = spec->encoders->at[0].net;
    l->on_device = l->config->method.device == GLOFND_DEVICE_CUDA;
    l->stats.size = sizeof l->stats;
    const glofnd_status status = make_stage(err, l);
    if (status == GLOFND_OK) *out = l;
    else gf_loss_stage_free(l);
    return status;
}

static int sum_shared(void *user, double *x, int n) {
    gf_comm *host = user;
    return host->ops->sum(NULL, host, x, n) != GLOFND_OK;
}

glofnd_status gf_loss_stage_connect(gf_error *err, gf_loss_stage *l, gf_comm *wire) {
    const gf_encoders *e = l->spec.encoders;
    const gf_shard_spec spec = {.n = l->spec.samples,
                                .loss = l->config->method.loss,
                                .pairing = l->config->method.pairing,
                                .rows = e->batch,
                                .bank_dim = has_bank(l) ? e->dim : 0};
    const size_t batch = (size_t)l->config->batch, bytes = (size_t)e->batch * sizeof *l->slots;
    TRY(gf_ctx_status(err, l->ctx, glofnd_ctx_reduce(l->ctx, sum_shared, l->spec.comm)));
    TRY(gf_step_ranks_open(err, l->spec.comm, wire, &spec, &l->ranks));
    for (int i = 0; i < 2; i++) l->all[i] = gf_net_alloc(l->net, batch * (size_t)e->dim * sizeof *l->all[i]);
    l->links = gf_net_alloc(l->net, batch * GLOFND_LINK_BYTES);
    l->slots = has_bank(l) ? NULL : gf_net_alloc(l->net, bytes);
    for (int i = 0; i < banks(l); i++) l->bank[i] = gf_net_alloc(l->net, batch * (size_t)e->dim * sizeof *l->bank[i]);
    l->content = calloc(batch, sizeof *l->content);
    l->all_support = gf_config_supports(l->config) ? malloc(support_bytes(l)) : NULL;
    FAIL_IF(err, gf_config_supports(l->config) && !l->all_support, GLOFND_E_MEMORY,
            "no memory for the support views of %zu samples", batch);
    FAIL_IF(err, !l->all[0] || !l->all[1] || !l->links || (!l->slots && !has_bank(l)) || !l->content, GLOFND_E_MEMORY,
            "no memory for the %zu samples of all ranks", batch);
    for (int i = 0; i < banks(l); i++)
        FAIL_IF(err, !l->bank[i], GLOFND_E_MEMORY, "no memory for the averages of %zu samples", batch);
    return l->slots ? gf_net_write(err, l->net, l->slots, gf_shard_slots(l->ranks.shard), bytes) : GLOFND_OK;
}

void gf_loss_stage_free(gf_loss_stage *l) {
    if (!l) return;
    void *const there[] = {l->id,    l->label, l->group,   l->support_there, l->all[0],      l->all[1],
                           l->links, l->slots, l->bank[0], l->bank[1],       l->guide_there, l->threshold_there};
    glofnd_store_free(l->store);
    glofnd_ctx_free(l->ctx);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) gf_net_release(l->net, there[i]);
    gf_step_ranks_close(&l->ranks);
    free(l->content);
    free(l->all_support);
    free(l->groups);
    free(l->order);
    free(l->guide);
    free(l->threshold);
    free(l);
}

/* ----- begin ----- */

glofnd_status gf_loss_stage_begin(gf_error *err, gf_loss_stage *l, const gf_batch *b, int64_t step, double tau, double bias,
                                  const float *support) {
    const int64_t n = l->config->batch;
    l->batch = b, l->step = step, l->tau = tau, l->bias = bias, l->support = support;
    l->ids = l->spec.comm ? l->ranks.id : b->id;
    l->labels = l->spec.comm ? l->ranks.label : b->label;
    glofnd_options o = l->config->method;
    detector_phase phase = DETECTOR_STARTED;
    if (b->epoch < (uint32_t)o.update_epoch)
        phase = masks_duplicates(l) ? DUPLICATES_ONLY : o.detector == GLOFND_DETECT_NONE ? DETECTOR_STARTED : DETECTOR_WAITS;
    if (phase != l->phase) {
        if (phase == DUPLICATES_ONLY) o.detector = GLOFND_DETECT_GROUPS, o.update_epoch = o.mask_epoch = 0;
        if (phase == DETECTOR_WAITS) {
            o.alpha = 0.0; /* "no detector" for all that learn or rank; a ring is filled nevertheless */
            if (gf_flags_by_group(&o) || gf_flags_by_positive(&o) || gf_flags_by_guide(&o)) o.detector = GLOFND_DETECT_NONE;
        }
        TRY(gf_ctx_status(err, l->ctx, glofnd_ctx_configure(l->ctx, &o)));
        l->phase = phase;
    }
    if (l->spec.comm) { /* ids, labels and contents of the whole batch to every rank; state of the own samples to the store */
        const size_t bytes = (size_t)l->ranks.rows * sizeof *l->content;
        if (b->content) TRY(gf_comm_gather(err, l->spec.comm, b->content, bytes, l->content));
        TRY(gf_step_ranks_draw(err, &l->ranks, b->id, b->label, NULL, l->ctx, l->store));
    }
    if (l->spec.comm && support) { /* own support views [fnc_support][rows][dim], of all ranks to every rank */
        const int64_t dim = l->spec.encoders->dim, own = l->ranks.rows * dim, all = n * dim;
        for (int i = 0; i < l->config->method.fnc_support; i++)
            TRY(gf_comm_gather(err, l->spec.comm, l->support + i * own, (size_t)own * sizeof *l->support,
                               l->all_support + i * all));
        l->support = l->all_support;
    }
    const int of_samples = l->groups && !has_components(l); /* components are made of embeddings, in gf_loss_stage_run */
    if (of_samples && l->spec.groups) {
        const int32_t *of = gf_sample_groups_at(l->spec.groups, step);
        for (int64_t i = 0; i < n; i++) l->groups[i] = l->spec.groups->made ? of[l->ids[i]] : -1;
    } else if (of_samples) {
        gf_content_groups(l->spec.comm ? l->content : b->content, n, l->order, l->groups);
    }
    const int guided = l->spec.guide && l->phase == DETECTOR_STARTED;
    if (guided) gf_guide_gather(l->spec.guide, l->ids, n, l->guide, l->threshold);
    if (!l->on_device) return GLOFND_OK;
    if (guided) {
        TRY(gf_net_write(err, l->net, l->guide_there, l->guide, (size_t)(n * l->spec.guide->dim) * sizeof *l->guide));
        TRY(gf_net_write(err, l->net, l->threshold_there, l->threshold, (size_t)n * sizeof *l->threshold));
    }
    if (of_samples) TRY(gf_net_write(err, l->net, l->group, l->groups, (size_t)n * sizeof *l->group));
    if (l->support_there && support) TRY(gf_net_write(err, l->net, l->support_there, l->support, support_bytes(l)));
    TRY(gf_net_write(err, l->net, l->id, l->ids, (size_t)n * sizeof *l->id));
    return gf_net_write(err, l->net, l->label, l->labels, (size_t)n * sizeof *l->label);
}

/* ----- run ----- */

/* The whole batch without its embeddings. there: ids, labels and groups are on the device. */
static glofnd_batch batch_of(gf_loss_stage *l, int there) {
    const gf_config *c = l->config;
    const int32_t *label = there ? l->label : l->labels;
    const int64_t epoch = (int64_t)l->batch->epoch;
    l->extra = (glofnd_batch_extra){.size = sizeof l->extra, .support_a = there ? l->support_there : l->support};
    if (l->spec.comm) l->extra.bank_a = l->bank[0], l->extra.bank_b = l->bank[1];
    const int guided = l->spec.guide && l->phase == DETECTOR_STARTED;
    return (glofnd_batch){
        .size = sizeof(glofnd_batch),
        .n = c->batch,
        .dim = l->spec.encoders->dim,
        .id = there ? l->id : l->ids,
        .label = l->spec.labelled ? label : NULL,
        .group = l->phase == DETECTOR_WAITS ? NULL
                 : there                    ? l->group
                                            : l->groups,
        .epoch = (int32_t)epoch,
        .guide = !guided ? NULL
                 : there ? l->guide_there
                         : l->guide,
        .guide_threshold = !guided ? NULL
                           : there ? l->threshold_there
                                   : l->threshold,
        .guide_dim = guided ? l->spec.guide->dim : 0,
        .want = l->spec.labelled ? GLOFND_WANT_QUALITY : 0,
        .extra = &l->extra,
        .tau = l->tau,
        .bias = isnan(l->bias)   ? 0.0
                : l->bias == 0.0 ? 1e-300
                                 : l->bias, /* 0: by the options */
        .gamma = c->gamma_schedule == GF_GAMMA_COSINE ? gf_gamma_cosine(c->gamma_min, epoch, c->gamma_decay) : 0.0,
    };
}

uint64_t gf_loss_stage_key(gf_loss_stage *l) {
    const gf_config *c = l->config;
    if (!l->on_device || l->spec.guide || gf_config_learns_tau(c) || l->spec.encoders->part < l->spec.encoders->batch) return 0;
    const glofnd_batch q = batch_of(l, 1);
    gf_step_batch batch;
    if (gf_batch_take(NULL, &q, NULL, &batch) != GLOFND_OK) return 0;
    const gf_plan plan = gf_plan_of(&c->method, &batch);
    if (l->spec.comm && (plan.shared || plan.pooled || plan.mutual)) return 0; /* ranks sum for it over the host */
    return (gf_plan_phase(&plan) ^ (uint64_t)l->phase << 62) | 1;
}

glofnd_status gf_loss_stage_run(gf_error *err, gf_loss_stage *l) {
    const gf_encoders *e = l->spec.encoders;
    const int there = l->on_device, two = e->count == 2;
    const int64_t numbers = e->batch * e->dim; /* of a side: the views of one encoder, or image and text */
    const float *const side[2] = {e->at[0].out, two ? e->at[1].out : e->at[0].out + numbers};
    float *const grad[2] = {e->at[0].grad, two ? e->at[1].grad : e->at[0].grad + numbers};
    for (int i = 0; i < 2 && !there; i++) {
        for (int64_t k = 0; k < numbers; k++)
            FAIL_IF(err, !isfinite(side[i][k]), GLOFND_E_NUMERIC,
                    "step %lld: the embedding of sample %lld is not finite; a smaller lr may help", (long long)l->step,
                    (long long)l->batch->id[k / e->dim]);
    }
    glofnd_batch q = batch_of(l, there);
    glofnd_stats *stats = there ? NULL : &l->stats;
    if (l->spec.comm) { /* own embeddings go to their places among those of all ranks */
        for (int i = 0; i < 2; i++)
            gf_net_backend(l->net)->cast(gf_net_engine(l->net), GF_TYPE_F32, l->all[i] + l->ranks.row0 * e->dim, side[i],
                                         l->ranks.rows * e->dim);
        q.a = l->all[0], q.b = l->all[1];
        return gf_step_ranks_step(err, &l->ranks, l->ctx, l->store, &q, l->slots, l->links, grad[0], grad[1], stats);
    }
    q.a = side[0], q.b = side[1];
    if (has_components(l) && q.group)
        TRY(gf_ctx_status(err, l->ctx, gf_batch_components(l->ctx, &q, NULL, there ? l->group : l->groups)));
    const glofnd_status status = glofnd_step(l->ctx, l->store, &q, grad[0], grad[1], stats);
    FAIL_IF(err, status != GLOFND_OK, status, "step %lld: %s", (long long)l->step, glofnd_ctx_error(l->ctx));
    return GLOFND_OK;
}

/* ----- finish ----- */

glofnd_status gf_loss_stage_finish(gf_error *err, gf_loss_stage *l, glofnd_stats *stats, glofnd_counters *counters) {
    const long long step = l->step, first = l->batch->id[0], second = l->batch->id[1];
    if (l->on_device) {
        const glofnd_status status = glofnd_ctx_stats(l->ctx, &l->stats);
        FAIL_IF(err, status != GLOFND_OK, status, "step %lld, samples %lld, %lld ...: %s", step, first, second,
                glofnd_ctx_error(l->ctx));
    }
    counters->size = sizeof *counters;
    TRY(glofnd_ctx_counters(l->ctx, counters));
    if (l->spec.comm) TRY(gf_step_ranks_finish(err, &l->ranks, l->ctx, l->store, &l->stats, counters));
    FAIL_IF(err, !isfinite(l->stats.loss), GLOFND_E_NUMERIC,
            "step %lld: the loss is not finite; samples %lld, %lld ...; a smaller lr may help", step, first, second);
    *stats = l->stats;
    return GLOFND_OK;
}

/* ----- for checkpoints and reports ----- */

glofnd_ctx *gf_loss_stage_ctx(const gf_loss_stage *l) { return l->ctx; }
glofnd_store *gf_loss_stage_store(const gf_loss_stage *l) { return l->store; }
gf_shard *gf_loss_stage_shard(const gf_loss_stage *l) { return l->ranks.shard; }

/* The present store is freed first: a working file belongs to one store at a time. */
glofnd_status gf_loss_stage_load(gf_error *err, gf_loss_stage *l, const char *path) {
    glofnd_store_free(l->store);
    l->store = NULL;
    TRY(gf_ctx_status(err, l->ctx, glofnd_store_load(l->ctx, path, l->spec.store_path, &l->store)));
    FAIL_IF(err, l->store->spec.n != l->spec.samples, GLOFND_E_FORMAT, "%s holds %lld anchors, the data has %lld samples", path,
            (long long)l->store->spec.n, (long long)l->spec.samples);
    return GLOFND_OK;
}

/* Records that are mapped belong to the file. */
static size_t store_bytes(const glofnd_store *s) {
    const size_t row = sizeof(float) * (size_t)s->spec.ring_dim + sizeof(int64_t);
    const size_t rings = (size_t)(s->spec.modalities * s->spec.ring_rows) * row;
    if (s->on) return s->device->store_held(s->on);
    return (s->mapped_bytes ? 0 : (size_t)s->spec.n * s->record_bytes) + rings;
}

int64_t gf_loss_stage_bytes(const gf_loss_stage *l) {
    const int64_t batch = l->config->batch, dim = l->spec.encoders->dim;
    int64_t sample = 0, rest = (int64_t)(l->ctx_bytes + store_bytes(l->store));
    if (l->id) sample += (int64_t)(sizeof *l->id + sizeof *l->label);
    if (l->group) sample += (int64_t)sizeof *l->group;
    if (l->guide_there) sample += (l->spec.guide->dim + 1) * (int64_t)sizeof *l->guide;
    if (l->spec.comm) sample += 2 * dim * (int64_t)sizeof(float) + GLOFND_LINK_BYTES;
    if (l->slots) rest += l->spec.encoders->batch * (int64_t)sizeof *l->slots;
    for (int i = 0; i < 2; i++) sample += l->bank[i] ? dim * (int64_t)sizeof *l->bank[i] : 0;
    return batch * sample + rest;
}

/* ----- the learned temperature ----- */

gf_learned_tau gf_learned_tau_start(const gf_config *c) { return (gf_learned_tau){.log_scale = (float)-log(c->method.tau)}; }

double gf_learned_tau_value(const gf_learned_tau *tau) { return exp(-(double)tau->log_scale); }

void gf_learned_bias_move(gf_learned_bias *bias, const gf_config *c, double grad, double lr, int64_t step) {
    enum { MOST = 1000 }; /* as the option */
    const gf_optim_rule rule = {.kind = GF_OPTIM_ADAMW, .beta1 = c->beta1, .beta2 = c->beta2, .eps = c->adam_eps};
    const gf_optim_scalars now = gf_optim_scalars_at(&rule, c->scale_lr < 0.0 ? lr : c->scale_lr, step);
    gf_rule_adamw(&rule, &now, 0.0, &bias->value, (float)grad, &bias->m, &bias->v);
    bias->value = fmaxf(-MOST, fminf(MOST, bias->value));
}

void gf_learned_tau_move(gf_learned_tau *tau, const gf_config *c, double grad_scale, double lr, int64_t step) {
    const gf_optim_rule rule = {.kind = GF_OPTIM_ADAMW, .beta1 = c->beta1, .beta2 = c->beta2, .eps = c->adam_eps};
    const double rate =
        c->scale_lr < 0.0 ? lr : gf_lr_tau_threshold(c->scale_lr, c->scale_lr_ratio, c->scale_lr_below, (double)tau->log_scale);
    const gf_optim_scalars now = gf_optim_scalars_at(&rule, rate, step);
    const double grad = grad_scale * exp((double)tau->log_scale);
    gf_rule_adamw(&rule, &now, 0.0, &tau->log_scale, (float)grad, &tau->m, &tau->v);
    tau->log_scale = (float)gf_clamp_log_scale((double)tau->log_scale, c->scale_max);
}
