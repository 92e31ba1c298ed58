/* loss_stage.c - see loss_stage.h. */
#include "loop/loss_stage.h"

#include <math.h>
#include <stdlib.h>

#include "dist/dist.h"
#include "loader/caption_tokens.h"
#include "method/step.h"
#include "method/store.h"
#include "optim/schedule.h"
#include "util/status.h"

/* Options of the context: those of the run, or others until the detector begins. */
typedef enum stand_in { AS_SET, NO_DETECTOR, GROUPS_ALONE } stand_in;

struct gf_loss_stage {
    gf_loss_stage_spec spec;
    glofnd_ctx *ctx;
    size_t ctx_bytes; /* of the context's arrays */
    glofnd_store *store;
    /* the present step */
    const gf_batch *batch;
    int64_t step;
    double tau;
    const float *support; /* [fnc_support][batch][dim] on the host: the whole batch; NULL: none */
    float *support_there; /* GPU: the same on the device; else NULL */
    glofnd_stats stats;
    stand_in options; /* the options of the context */
    /* arrays of a batch */
    int32_t *same;  /* [batch] groups of samples with the same content, or as the detector has them; NULL: none */
    int64_t *order; /* [batch] scratch for it */
    int64_t *id;    /* GPU: [batch] on the device; else NULL */
    int32_t *label, *group;
    /* several ranks */
    gf_step_ranks ranks;
    float *all[2];       /* [batch][dim] embeddings of all ranks, where the encoders are */
    void *links;         /* [batch][GLOFND_LINK_BYTES] there */
    int64_t *slots;      /* [rows] there; NULL: rows of the store are ids */
    uint16_t *bank[2];   /* [batch][dim] there, per side: averages of the batch; NULL: none */
    gf_content *content; /* [batch] on the host: contents of all samples of the batch */
    float *all_support;  /* [fnc_support][batch][dim] on the host; NULL: none */
};

static const gf_config *config_of(const gf_loss_stage *l) { return l->spec.config; }
static int on_device(const gf_loss_stage *l) { return config_of(l)->method.device == GLOFND_DEVICE_CUDA; }
static int has_groups(const gf_loss_stage *l) { return config_of(l)->task == GF_TASK_CLIP && config_of(l)->mask_duplicates; }
/* WCL: groups of the batch, made of its embeddings before every step. */
static int has_components(const gf_loss_stage *l) {
    return config_of(l)->method.detector == GLOFND_DETECT_COMPONENTS && l->options != GROUPS_ALONE;
}
static int has_bank(const gf_loss_stage *l) { return config_of(l)->method.similarity == GLOFND_SIMILARITY_BANK; }
static int banks(const gf_loss_stage *l) { return has_bank(l) ? l->store->spec.modalities : 0; }
static gf_net *first_net(const gf_loss_stage *l) { return l->spec.encoders->at[0].net; }

/* ----- creating ----- */

/* With the encoders on a GPU the method runs there too, on their stream. */
static glofnd_status make_context(gf_error *err, gf_loss_stage *l) {
    TRY(gf_ctx_create(err, &config_of(l)->method, &l->ctx));
    if (!on_device(l)) return GLOFND_OK;
    return gf_ctx_status(err, l->ctx, glofnd_ctx_stream(l->ctx, gf_net_stream(first_net(l))));
}

/* Several ranks: a store of the drawn samples, or of all if it has averages, which every rank holds. */
static glofnd_status make_store(gf_error *err, gf_loss_stage *l) {
    const gf_encoders *e = l->spec.encoders;
    const glofnd_store_spec spec = {
        .size = sizeof spec,
        .n = l->spec.comm && !has_bank(l) ? e->batch : l->spec.samples,
        .dim = e->dim,
        .path = l->spec.comm ? NULL : l->spec.store_path,
    };
    TRY(gf_ctx_status(err, l->ctx, glofnd_store_create(l->ctx, &spec, &l->store)));
    return gf_ctx_status(err, l->ctx, glofnd_ctx_reserve(l->ctx, e->batch, config_of(l)->batch, e->dim, &l->ctx_bytes));
}

static size_t support_bytes(const gf_loss_stage *l) {
    const gf_config *c = config_of(l);
    return (size_t)c->method.fnc_support * (size_t)(c->batch * l->spec.encoders->dim) * sizeof(float);
}

static glofnd_status make_arrays(gf_error *err, gf_loss_stage *l) {
    const size_t batch = (size_t)config_of(l)->batch;
    const int device = on_device(l), groups = has_groups(l) || l->spec.groups || has_components(l);
    gf_net *net = first_net(l);
    l->same = groups ? calloc(batch, sizeof *l->same) : NULL;
    l->order = groups ? calloc(batch, sizeof *l->order) : NULL;
    l->id = device ? gf_net_alloc(net, batch * sizeof *l->id) : NULL;
    l->label = device ? gf_net_alloc(net, batch * sizeof *l->label) : NULL;
    l->group = device && groups ? gf_net_alloc(net, batch * sizeof *l->group) : NULL;
    l->support_there = device && gf_config_supports(config_of(l)) ? gf_net_alloc(net, support_bytes(l)) : NULL;
    FAIL_IF(err, device && gf_config_supports(config_of(l)) && !l->support_there, GLOFND_E_MEMORY,
            "no memory for the support views of %zu samples", batch);
    FAIL_IF(err, (groups && (!l->same || !l->order)) || (device && (!l->id || !l->label)) || (device && groups && !l->group),
            GLOFND_E_MEMORY, "no memory for a batch of %zu samples", batch);
    return GLOFND_OK;
}

static glofnd_status make(gf_error *err, gf_loss_stage *l) {
    TRY(make_context(err, l));
    TRY(make_store(err, l));
    return make_arrays(err, l);
}

glofnd_status gf_loss_stage_create(gf_error *err, const gf_loss_stage_spec *spec, gf_loss_stage **out) {
    gf_loss_stage *l = calloc(1, sizeof *l);
    *out = NULL;
    FAIL_IF(err, !l, GLOFND_E_MEMORY, "no memory for the loss");
    l->spec = *spec;
    l->stats.size = sizeof l->stats;
    const glofnd_status status = make(err, l);
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
                                .loss = config_of(l)->method.loss,
                                .rows = e->batch,
                                .bank_dim = has_bank(l) ? e->dim : 0};
    const size_t batch = (size_t)config_of(l)->batch, bytes = (size_t)e->batch * sizeof *l->slots;
    gf_net *net = first_net(l);
    TRY(gf_ctx_status(err, l->ctx, glofnd_ctx_reduce(l->ctx, sum_shared, l->spec.comm)));
    TRY(gf_step_ranks_open(err, l->spec.comm, wire, &spec, &l->ranks));
    for (int i = 0; i < 2; i++) l->all[i] = gf_net_alloc(net, batch * (size_t)e->dim * sizeof *l->all[i]);
    l->links = gf_net_alloc(net, batch * GLOFND_LINK_BYTES);
    l->slots = has_bank(l) ? NULL : gf_net_alloc(net, bytes);
    for (int i = 0; i < banks(l); i++) l->bank[i] = gf_net_alloc(net, batch * (size_t)e->dim * sizeof *l->bank[i]);
    l->content = calloc(batch, sizeof *l->content);
    l->all_support = gf_config_supports(config_of(l)) ? malloc(support_bytes(l)) : NULL;
    FAIL_IF(err, gf_config_supports(config_of(l)) && !l->all_support, GLOFND_E_MEMORY,
            "no memory for the support views of %zu samples", batch);
    FAIL_IF(err, !l->all[0] || !l->all[1] || !l->links || (!l->slots && !has_bank(l)) || !l->content, GLOFND_E_MEMORY,
            "no memory for the %zu samples of all ranks", batch);
    for (int i = 0; i < banks(l); i++)
        FAIL_IF(err, !l->bank[i], GLOFND_E_MEMORY, "no memory for the averages of %zu samples", batch);
    return l->slots ? gf_net_write(err, net, l->slots, gf_shard_slots(l->ranks.shard), bytes) : GLOFND_OK;
}

void gf_loss_stage_free(gf_loss_stage *l) {
    if (!l) return;
    void *const there[] = {l->id,     l->label, l->group, l->support_there, l->all[0],
                           l->all[1], l->links, l->slots, l->bank[0],       l->bank[1]};
    glofnd_store_free(l->store);
    glofnd_ctx_free(l->ctx);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) gf_net_release(first_net(l), there[i]);
    gf_step_ranks_close(&l->ranks);
    free(l->content);
    free(l->all_support);
    free(l->same);
    free(l->order);
    free(l);
}

/* ----- begin ----- */

/* Until the detector begins, the step is that of `detector = none`, bit for bit: runs of one seed are paired from the first step.
 * Samples with the same content are no negatives from the first epoch on: until then only these groups are masked. */
static stand_in options_now(const gf_loss_stage *l) {
    const glofnd_options *o = &config_of(l)->method;
    if (l->batch->epoch >= (uint32_t)o->update_epoch) return AS_SET;
    if (has_groups(l)) return GROUPS_ALONE;
    return o->detector == GLOFND_DETECT_NONE ? AS_SET : NO_DETECTOR;
}

static glofnd_status choose_options(gf_error *err, gf_loss_stage *l) {
    glofnd_options o = config_of(l)->method;
    const stand_in now = options_now(l);
    if (now == l->options) return GLOFND_OK;
    if (now == GROUPS_ALONE) o.detector = GLOFND_DETECT_GROUPS, o.update_epoch = o.mask_epoch = 0;
    /* alpha = 0 is "no detector" for all that learn or rank; a ring is filled nevertheless. */
    if (now == NO_DETECTOR) o.alpha = 0.0;
    if (now == NO_DETECTOR && o.detector >= GLOFND_DETECT_ORACLE)
        o.detector = GLOFND_DETECT_NONE; /* labels, groups, components */
    TRY(gf_ctx_status(err, l->ctx, glofnd_ctx_configure(l->ctx, &o)));
    l->options = now;
    return GLOFND_OK;
}

/* Arrays of the whole batch, on the host. */
static const int64_t *ids(const gf_loss_stage *l) { return l->spec.comm ? l->ranks.id : l->batch->id; }
static const int32_t *labels(const gf_loss_stage *l) { return l->spec.comm ? l->ranks.label : l->batch->label; }
static const gf_content *contents(const gf_loss_stage *l) { return l->spec.comm ? l->content : l->batch->content; }

static void find_groups(gf_loss_stage *l) {
    const int64_t n = config_of(l)->batch;
    if (!l->same || has_components(l)) return;
    if (!l->spec.groups) {
        gf_content_groups(contents(l), n, l->order, l->same);
        return;
    }
    const int32_t *of = gf_sample_groups_at(l->spec.groups, l->step);
    for (int64_t i = 0; i < n; i++) l->same[i] = l->spec.groups->made ? of[ids(l)[i]] : -1;
}

/* Own support views [fnc_support][rows][dim], of all ranks to every rank. */
static glofnd_status gather_support(gf_error *err, gf_loss_stage *l) {
    const int64_t dim = l->spec.encoders->dim, own = l->ranks.rows * dim, all = config_of(l)->batch * dim;
    for (int i = 0; i < config_of(l)->method.fnc_support; i++)
        TRY(gf_comm_gather(err, l->spec.comm, l->support + i * own, (size_t)own * sizeof *l->support, l->all_support + i * all));
    l->support = l->all_support;
    return GLOFND_OK;
}

/* Ids, labels and contents of the whole batch to every rank; state of the own samples to the store. */
static glofnd_status gather_batch(gf_error *err, gf_loss_stage *l) {
    const gf_batch *b = l->batch;
    const size_t bytes = (size_t)l->ranks.rows * sizeof *l->content;
    if (b->content) TRY(gf_comm_gather(err, l->spec.comm, b->content, bytes, l->content));
    return gf_step_ranks_draw(err, &l->ranks, b->id, b->label, NULL, l->ctx, l->store);
}

glofnd_status gf_loss_stage_begin(gf_error *err, gf_loss_stage *l, const gf_batch *b, int64_t step, double tau,
                                  const float *support) {
    const size_t n = (size_t)config_of(l)->batch;
    gf_net *net = first_net(l);
    l->batch = b, l->step = step, l->tau = tau, l->support = support;
    TRY(choose_options(err, l));
    if (l->spec.comm) TRY(gather_batch(err, l));
    if (l->spec.comm && support) TRY(gather_support(err, l));
    find_groups(l);
    if (!on_device(l)) return GLOFND_OK;
    if (l->group && !has_components(l)) TRY(gf_net_write(err, net, l->group, l->same, n * sizeof *l->group));
    if (l->support_there && support) TRY(gf_net_write(err, net, l->support_there, l->support, support_bytes(l)));
    TRY(gf_net_write(err, net, l->id, ids(l), n * sizeof *l->id));
    return gf_net_write(err, net, l->label, labels(l), n * sizeof *l->label);
}

/* ----- run ----- */

static double gamma_now(const gf_loss_stage *l) {
    const gf_config *c = config_of(l);
    return c->gamma_schedule == GF_GAMMA_COSINE ? gf_gamma_cosine(c->gamma_min, (int64_t)l->batch->epoch, c->gamma_decay) : 0.0;
}

/* The whole batch without its embeddings. there: ids, labels and groups are on the device. */
static glofnd_batch batch_of(const gf_loss_stage *l, int there) {
    const int64_t batch = config_of(l)->batch;
    const int32_t *label = there ? l->label : labels(l);
    return (glofnd_batch){
        .size = sizeof(glofnd_batch),
        .rows = batch,
        .cols = batch,
        .dim = l->spec.encoders->dim,
        .id = there ? l->id : ids(l),
        .label = l->spec.labelled ? label : NULL,
        .group = l->options == NO_DETECTOR ? NULL
                 : there                   ? l->group
                                           : l->same,
        .support_a = there ? l->support_there : l->support,
        .epoch = (int32_t)l->batch->epoch,
        .want = l->spec.labelled ? GLOFND_WANT_QUALITY : 0,
        .tau = l->tau,
        .gamma = gamma_now(l),
    };
}

uint64_t gf_loss_stage_key(const gf_loss_stage *l) {
    const gf_config *c = config_of(l);
    if (!on_device(l) || gf_config_learns_tau(c) || l->spec.encoders->part < l->spec.encoders->batch) return 0;
    const glofnd_batch q = batch_of(l, 1);
    const gf_plan plan = gf_plan_of(&c->method, &q);
    if (l->spec.comm && plan.shared) return 0; /* ranks sum for a shared threshold over the host */
    return (gf_plan_phase(&plan) ^ (uint64_t)l->options << 62) | 1;
}

/* Own embeddings go to their places among those of all ranks. */
static glofnd_status step_of_ranks(gf_error *err, gf_loss_stage *l, glofnd_batch q, glofnd_stats *stats) {
    const gf_encoders *e = l->spec.encoders;
    gf_net *net = first_net(l);
    for (int i = 0; i < 2; i++)
        gf_net_backend(net)->cast(gf_net_engine(net), GF_TYPE_F32, l->all[i] + l->ranks.row0 * e->dim, gf_encoders_side(e, i),
                                  l->ranks.rows * e->dim);
    q.a = l->all[0], q.b = l->all[1], q.slot = l->slots, q.bank_a = l->bank[0], q.bank_b = l->bank[1];
    return gf_step_ranks_step(err, &l->ranks, l->ctx, l->store, &q, l->links, gf_encoders_side_grad(e, 0),
                              gf_encoders_side_grad(e, 1), stats);
}

static glofnd_status method_step(gf_error *err, gf_loss_stage *l, const float *const side[2], float *const grad[2], int there) {
    glofnd_batch q = batch_of(l, there);
    glofnd_stats *stats = there ? NULL : &l->stats;
    if (l->spec.comm) return step_of_ranks(err, l, q, stats);
    q.a = side[0];
    q.b = side[1];
    if (has_components(l) && q.group)
        TRY(gf_ctx_status(err, l->ctx, gf_batch_components(l->ctx, &q, there ? l->group : l->same)));
    const glofnd_status status = glofnd_step(l->ctx, l->store, &q, grad[0], grad[1], stats);
    FAIL_IF(err, status != GLOFND_OK, status, "step %lld: %s", (long long)l->step, glofnd_ctx_error(l->ctx));
    return GLOFND_OK;
}

/* Index of the first sample with an embedding that is not finite; -1: none. */
static int64_t first_bad(const float *side, int64_t batch, int64_t dim) {
    for (int64_t i = 0; i < batch * dim; i++)
        if (!isfinite(side[i])) return i / dim;
    return -1;
}

static glofnd_status host_step(gf_error *err, gf_loss_stage *l, const float *const side[2], float *const grad[2]) {
    for (int i = 0; i < 2; i++) {
        const int64_t bad = first_bad(side[i], l->spec.encoders->batch, l->spec.encoders->dim);
        FAIL_IF(err, bad >= 0, GLOFND_E_NUMERIC, "step %lld: the embedding of sample %lld is not finite; a smaller lr may help",
                (long long)l->step, (long long)l->batch->id[bad]);
    }
    return method_step(err, l, side, grad, 0);
}

glofnd_status gf_loss_stage_run(gf_error *err, gf_loss_stage *l) {
    const gf_encoders *e = l->spec.encoders;
    const float *const side[2] = {gf_encoders_side(e, 0), gf_encoders_side(e, 1)};
    float *const grad[2] = {gf_encoders_side_grad(e, 0), gf_encoders_side_grad(e, 1)};
    return on_device(l) ? method_step(err, l, side, grad, 1) : host_step(err, l, side, grad);
}

/* ----- finish ----- */

glofnd_status gf_loss_stage_finish(gf_error *err, gf_loss_stage *l, glofnd_stats *stats) {
    const long long step = l->step, first = l->batch->id[0], second = l->batch->id[1];
    if (on_device(l)) {
        const glofnd_status status = glofnd_ctx_stats(l->ctx, &l->stats);
        FAIL_IF(err, status != GLOFND_OK, status, "step %lld, samples %lld, %lld ...: %s", step, first, second,
                glofnd_ctx_error(l->ctx));
    }
    if (l->spec.comm) TRY(gf_step_ranks_finish(err, &l->ranks, l->ctx, l->store, &l->stats));
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
    const int64_t batch = config_of(l)->batch, dim = l->spec.encoders->dim;
    int64_t sample = 0, rest = (int64_t)(l->ctx_bytes + store_bytes(l->store));
    if (l->id) sample += (int64_t)(sizeof *l->id + sizeof *l->label);
    if (l->group) sample += (int64_t)sizeof *l->group;
    if (l->spec.comm) sample += 2 * dim * (int64_t)sizeof(float) + GLOFND_LINK_BYTES;
    if (l->slots) rest += l->spec.encoders->batch * (int64_t)sizeof *l->slots;
    for (int i = 0; i < 2; i++) sample += l->bank[i] ? dim * (int64_t)sizeof *l->bank[i] : 0;
    return batch * sample + rest;
}
