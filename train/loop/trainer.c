/* trainer.c - see trainer.h: creating a trainer, and the step. */
#include "loop/trainer.h"

#include <math.h>
#include <stdlib.h>

#include "loop/model.h"
#include "util/machine.h"
#include "util/parallel.h"

/* ----- creating ----- */

static int threads_of(const gf_config *c) { return c->method.threads > 0 ? c->method.threads : gf_parallel_default(); }

/* The data, what it must have for this configuration, and the values that follow from it: size, stem, steps. */
static glofnd_status open_data(gf_error *err, gf_trainer *t) {
    gf_config *c = &t->config;
    TRY(gf_dataset_open(err, c->data, &t->data));
    t->info = gf_dataset_describe(t->data);
    if (c->task == GF_TASK_CLIP && !t->info.has_text) {
        char first[256]; /* so that the missing captions can be found */
        gf_dataset_name(t->data, 0, first, sizeof first);
        GF_FAIL(err, GLOFND_E_OPTION,
                "data: no image has a caption, beginning with '%s'; task clip takes wds: with .txt next to the "
                "images, csv: with a column of captions, shapes:, or cifar100:DIR?captions=1",
                first);
    }
    /* The oracle is the only detector of a run that needs labels; groups are made of contents. */
    FAIL_IF(err, c->method.detector == GLOFND_DETECT_ORACLE && t->info.classes < 1, GLOFND_E_OPTION,
            "detector: oracle flags samples of one label, and %.100s has no labels; choose a different detector, or data with "
            "labels",
            c->data);
    FAIL_IF(err, c->batch > t->info.n, GLOFND_E_OPTION, "batch: %lld is more than the %lld sample%s of %.100s; %s",
            (long long)c->batch, (long long)t->info.n, t->info.n == 1 ? "" : "s", c->data,
            t->info.n < 2 ? "training needs two or more" : "choose a smaller one by --batch");
    if (c->size == 0) {
        const gf_sizes sizes = gf_dataset_sizes(t->data);
        c->size = gf_sizes_default_view(&sizes);
    }
    if (c->stem < 0) c->stem = c->size <= 64;
    FAIL_IF(err, c->arch == GF_ARCH_VIT && (c->patch < 1 || c->size % c->patch != 0), GLOFND_E_OPTION,
            "patch: %d does not divide the image size of %d; change patch or size", (int)c->patch, (int)c->size);
    FAIL_IF(err, c->arch == GF_ARCH_CLIP_RESNET50 && c->size % 32 != 0, GLOFND_E_OPTION,
            "size: %d; clip-resnet50 takes a multiple of 32", (int)c->size);
    TRY(gf_sample_groups_open(err, &t->groups, c, t->info.n));
    TRY(gf_guide_open(err, &t->guide, c, t->info.n));
    t->epoch_steps = t->info.n / c->batch;
    gf_config_share_steps(c, gf_trainer_steps(t));
    t->learns_tau = gf_config_learns_tau(c), t->learns_bias = gf_config_learns_bias(c);
    t->clusters = gf_config_clusters(c);
    t->base_lr = gf_config_lr(c);
    if (c->task == GF_TASK_CLIP && c->warmup_steps < 0) c->warmup_steps = c->warmup_epochs * t->epoch_steps;
    FAIL_IF(err, c->warmup_steps > 0 && c->warmup_steps >= gf_trainer_steps(t), GLOFND_E_OPTION,
            "warmup_steps: %lld is not below the %lld steps of the run; set it below", (long long)c->warmup_steps,
            (long long)gf_trainer_steps(t));
    return GLOFND_OK;
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

glofnd_status gf_trainer_vocabulary(gf_error *err, gf_trainer *t, const char *path) {
    gf_bpe_free(t->bpe);
    t->bpe = NULL;
    return gf_vocabulary_load(err, path, &t->bpe, &t->vocab_crc);
}

/* One optimizer over all encoders. */
static glofnd_status make_optimizer(gf_error *err, gf_trainer *t) {
    static const gf_optim_kind kinds[] = {
        [GF_OPTIMIZER_LARS] = GF_OPTIM_LARS, [GF_OPTIMIZER_SGD] = GF_OPTIM_SGD, [GF_OPTIMIZER_ADAMW] = GF_OPTIM_ADAMW};
    const gf_config *c = &t->config;
    const gf_encoders *s = &t->encoders;
    const gf_optim_rule rule = {.kind = kinds[c->optimizer],
                                .momentum = c->momentum,
                                .weight_decay = c->weight_decay,
                                .trust = 0.001,
                                .beta1 = c->beta1,
                                .beta2 = c->beta2,
                                .eps = c->adam_eps,
                                .clip = c->grad_clip,
                                .threads = threads_of(c)};
    gf_net *net = s->at[0].net;
    t->params = calloc((size_t)(s->at[0].param_count + s->at[1].param_count), sizeof *t->params);
    FAIL_IF(err, !t->params, GLOFND_E_MEMORY, "no memory for the optimizer");
    for (int k = 0; k < s->count; k++) {
        const gf_encoder *w = &s->at[k];
        for (int i = 0; i < w->param_count; i++) {
            const gf_tensor *x = &w->tensors[i];
            t->params[t->param_count++] = (gf_param){
                .p = x->value,
                .g = gf_encoder_gradient(w, x),
                .state1 = gf_net_place(w->net, w->state1, x),
                .state2 = w->state2 ? gf_net_place(w->net, w->state2, x) : NULL,
                .n = (size_t)x->stored,
                .decay = gf_param_decays(x->rank, x->name),
                .adapt = gf_param_adapts(x->rank),
            };
            t->state_count += x->count;
        }
    }
    return gf_optim_create(err, gf_net_backend(net), gf_net_engine(net), &rule, t->params, t->param_count, &t->optim);
}

/* The parts that a rank makes without the others. */
static glofnd_status build_own(gf_error *err, gf_trainer *t) {
    const int ranks = t->comm ? t->comm->ranks : 1;
    const gf_loss_stage_spec loss = {
        .config = &t->config,
        .encoders = &t->encoders,
        .comm = t->comm,
        .samples = t->info.n,
        .labelled = t->info.classes > 0,
        .groups = t->groups.of ? &t->groups : NULL,
        .guide = t->guide.n ? &t->guide : NULL,
        .store_path = t->store_path,
    };
    if (t->config.task == GF_TASK_CLIP && !t->bpe) {
        FAIL_IF(err, !*t->config.vocab, GLOFND_E_OPTION, "vocab: it is empty; name a merges file (`glofnd data bpe` makes one)");
        TRY(gf_trainer_vocabulary(err, t, t->config.vocab));
    }
    if (t->comm) gf_distributed_begin(&t->distributed, t->comm);
    TRY(gf_encoders_init(err, &t->encoders, &t->config, t->config.batch / ranks, t->comm ? &t->distributed.hooks : NULL,
                         t->bpe ? gf_bpe_vocab(t->bpe) : 0, t->plans_path));
    TRY(make_optimizer(err, t));
    t->scale = gf_learned_tau_start(&t->config);
    t->bias = (gf_learned_bias){.value = (float)t->config.method.bias};
    return gf_loss_stage_create(err, &loss, &t->loss);
}

static glofnd_status make_loader(gf_error *err, gf_trainer *t, void (*unreadable)(void *, int64_t, const char *), void *user) {
    gf_config *c = &t->config;
    const int clip = c->task == GF_TASK_CLIP;
    const gf_loader_spec spec = {
        .data = t->data,
        .augment = gf_views_recipe(c),
        .views = clip ? 1 : 2,
        .batch = t->encoders.batch,
        .global_batch = t->comm ? c->batch : 0,
        .offset = t->comm ? t->comm->rank * t->encoders.batch : 0,
        .seed = (uint64_t)c->seed,
        .workers = c->workers > 0 ? c->workers : threads_of(c),
        .depth = c->prefetch,
        .max_pixels = c->max_pixels,
        .fast = c->decode == GF_DECODE_FAST,
        .strict = c->strict,
        .unreadable = unreadable,
        .user = user,
        .bpe = t->bpe,
        .context = clip ? c->context : 0,
    };
    if (gf_config_supports(c)) TRY(gf_support_open(err, &t->support, &spec, c->method.fnc_support, t->encoders.dim));
    const gf_type type = c->precision == GF_BF16 ? GF_TYPE_BF16 : GF_TYPE_F32;
    gf_net *text = clip ? t->encoders.at[1].net : NULL;
    const int parts = t->encoders.part < t->encoders.batch;
    const glofnd_status status = gf_feed_open(err, &t->feed, t->encoders.at[0].net, text, type, parts, &spec);
    t->loader = t->feed.loader;
    return status;
}

glofnd_status gf_trainer_build(gf_error *err, gf_trainer *t, void (*unreadable)(void *, int64_t, const char *), void *user) {
    glofnd_status status = build_own(err, t);
    if (t->comm) status = gf_comm_agree(err, t->comm, status); /* no rank waits for one that has failed */
    TRY(status);
    if (t->comm) TRY(gf_distributed_connect(err, &t->distributed, &t->encoders, &t->config));
    if (t->comm) TRY(gf_loss_stage_connect(err, t->loss, t->distributed.wire));
    return make_loader(err, t, unreadable, user);
}

void gf_trainer_free(gf_trainer *t) {
    if (!t) return;
    gf_feed_close(&t->feed);
    gf_support_close(&t->support);
    gf_loss_stage_free(t->loss);
    gf_distributed_free(&t->distributed, &t->encoders);
    gf_optim_free(t->optim);
    gf_encoders_free(&t->encoders);
    gf_bpe_free(t->bpe);
    gf_sample_groups_free(&t->groups);
    gf_guide_free(&t->guide);
    gf_dataset_free(t->data);
    free(t->params);
    free(t);
}

int64_t gf_trainer_steps(const gf_trainer *t) { return t->epoch_steps * t->config.epochs; }

/* ----- a step ----- */

enum { START, LOADED, EMBEDDED, LOSS_KNOWN, BACK }; /* of gf_trainer.marks */

/* k-means of all samples: in the detector's first epoch, every kmeans_epochs after it, and where a resumed run lacks them. */
static glofnd_status cluster_samples(gf_error *err, gf_trainer *t) {
    const gf_config *c = &t->config;
    const int64_t epoch = t->step / t->epoch_steps, since = epoch - c->method.update_epoch;
    const int scheduled = t->step % t->epoch_steps == 0 && since % c->kmeans_epochs == 0;
    if (since < 0 || (t->groups.made && !scheduled)) return GLOFND_OK;
    gf_clustering x = {
        .config = c,
        .data = t->data,
        .net = t->encoders.at[0].net,
        .batch = t->encoders.part,
        .dim = t->encoders.dim,
        .comm = t->comm,
        .loader = {.augment = gf_views_recipe(c),
                   .once = 1,
                   .seed = (uint64_t)c->seed,
                   .workers = c->workers > 0 ? c->workers : threads_of(c),
                   .depth = 2,
                   .max_pixels = c->max_pixels,
                   .fast = c->decode == GF_DECODE_FAST},
        .epoch = (int32_t)epoch,
    };
    gf_views_centre_crop(c, &x.loader);
    return gf_sample_groups_cluster(err, &t->groups, &x);
}

/* From inputs to moved weights. On a GPU it is queued, and recorded. */
static glofnd_status forward_loss_backward_update(gf_error *err, void *trainer) {
    gf_trainer *t = trainer;
    TRY(gf_encoders_embed(err, &t->encoders, &t->feed, &t->batch));
    t->marks[EMBEDDED] = gf_clock();
    TRY(gf_loss_stage_run(err, t->loss));
    t->marks[LOSS_KNOWN] = gf_clock();
    TRY(gf_encoders_backward(err, &t->encoders, &t->feed, &t->batch));
    if (t->comm) TRY(gf_distributed_gradients(err, &t->distributed, &t->encoders));
    t->marks[BACK] = gf_clock();
    return gf_optim_step(err, t->optim);
}

glofnd_status gf_trainer_step(gf_error *err, gf_trainer *t) {
    const gf_config *c = &t->config;
    const int64_t epoch = t->step / t->epoch_steps, epoch_step = t->step % t->epoch_steps;
    if (epoch_step == 0) t->sums = (gf_epoch_sums){0};
    t->lr = c->warmup_steps >= 0
                ? gf_lr_cosine_steps(t->base_lr, c->lr_min, t->step, c->warmup_steps, gf_trainer_steps(t))
                : gf_lr_cosine_epochs(t->base_lr, (double)t->step / (double)t->epoch_steps, c->warmup_epochs, c->epochs);
    t->marks[START] = gf_clock();

    /* The batch: views or tokens become the inputs of the encoders, ids those of the loss. Support views come before it, since
     * the net's input is used for them; until the detector begins nothing needs them. */
    if (t->clusters) TRY(cluster_samples(err, t));
    if (t->support.views && epoch >= c->method.update_epoch)
        TRY(gf_support_embed(err, &t->support, t->encoders.at[0].net, (uint32_t)epoch, epoch_step));
    TRY(gf_feed_next(err, &t->feed, &t->batch));
    TRY(gf_loss_stage_begin(err, t->loss, &t->batch, t->step, t->learns_tau ? gf_learned_tau_value(&t->scale) : 0.0,
                            t->learns_bias ? (double)t->bias.value : NAN, t->support.rows));
    t->marks[LOADED] = gf_clock();
    TRY(gf_optim_set(err, t->optim, t->lr, t->step + 1));

    /* A GPU may replay what it has recorded of an equal step. */
    const uint64_t key = gf_loss_stage_key(t->loss);
    TRY(key ? gf_net_replay(err, t->encoders.at[0].net, key, gf_encoders_text_length(&t->encoders), forward_loss_backward_update,
                            t)
            : forward_loss_backward_update(err, t));
    if (t->feed.device) gf_feed_ahead(&t->feed);

    /* Waits for the step. */
    TRY(gf_optim_norm(err, t->optim, &t->grad_norm));
    gf_encoders_touch(&t->encoders);
    if (t->comm) TRY(gf_distributed_share(err, &t->distributed));
    TRY(gf_loss_stage_finish(err, t->loss, &t->stats, &t->counters));
    FAIL_IF(err, !isfinite(t->grad_norm), GLOFND_E_NUMERIC,
            "step %lld: the gradient is not finite; samples %lld, %lld ...; a smaller lr may help", (long long)t->step,
            (long long)t->batch.id[0], (long long)t->batch.id[1]);
    if (t->learns_tau) gf_learned_tau_move(&t->scale, c, t->stats.grad_scale, t->lr, t->step + 1);
    if (t->learns_bias) gf_learned_bias_move(&t->bias, c, t->stats.grad_bias, t->lr, t->step + 1);

    /* Times, and sums of the epoch. */
    const double *at = t->marks, end = gf_clock();
    const int device = c->method.device == GLOFND_DEVICE_CUDA; /* which is only queued to: one time for all */
    t->times = (gf_step_times){at[LOADED] - at[START],
                               (device ? end : at[EMBEDDED]) - at[LOADED],
                               device ? 0 : at[LOSS_KNOWN] - at[EMBEDDED],
                               device ? 0 : at[BACK] - at[LOSS_KNOWN],
                               device ? 0 : end - at[BACK],
                               t->batch.read_seconds,
                               t->batch.augment_seconds};
    const glofnd_stats *s = &t->stats;
    gf_epoch_sums *e = &t->sums;
    e->steps += 1.0;
    e->loss += s->loss, e->lambda += s->lambda_mean, e->kept += s->kept_share;
    e->pairs += (double)s->pairs, e->flagged += (double)s->flagged, e->same += (double)s->same, e->hits += (double)s->hits;
    if (!isnan(s->precision_per_anchor))
        e->precision += s->precision_per_anchor, e->recall += s->recall_per_anchor, e->quality_steps += 1.0;
    t->step++;
    return GLOFND_OK;
}
