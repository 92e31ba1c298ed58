/* encoders.c - see encoders.h: views and tokens become inputs of the networks, these embeddings, and gradients come back. */
#include "loop/encoders.h"

#include <stdlib.h>
#include <string.h>

#include "loader/cuda/cuda_feed.h"
#include "util/parallel.h"

#define PRELOAD_MAX ((int64_t)2 << 30) /* bytes of images on the device */

/* ----- views ----- */

/* SogCLR's recipe with the configuration's strengths; task clip leaves all but the crop out. */
gf_augment gf_views_recipe(const gf_config *c) {
    gf_augment a = c->pixels == GF_PIXELS_CLIP ? gf_augment_clip(c->size) : gf_augment_pretrain(c->size);
    a.scale_min = c->crop_min;
    a.jitter_p = c->jitter_p;
    a.brightness = c->brightness, a.contrast = c->contrast, a.saturation = c->saturation, a.hue = c->hue;
    a.gray_p = c->gray_p;
    a.blur_p = c->blur_p < 0.0 ? a.blur_p : c->blur_p;
    a.flip_p = c->flip_p;
    a.view_filter = c->crop_filter == GF_CROP_BICUBIC ? GF_FILTER_CUBIC : GF_FILTER_LINEAR;
    return a;
}

void gf_views_centre_crop(const gf_config *c, gf_loader_spec *spec) {
    const int all = c->eval_view == GF_EVAL_CLIP;
    spec->resize = all ? c->size : (c->size * 8 + 3) / 7;
    spec->augment.center_filter = all ? GF_FILTER_CUBIC : GF_FILTER_LINEAR;
}

/* ----- images on the device ----- */

int64_t gf_feed_preload_bytes(const gf_dataset *d, const gf_augment *a) {
    const gf_dataset_info info = gf_dataset_describe(d);
    const int64_t bytes = gf_preload_bytes(d), side = (int64_t)GF_VIEW_SCALE * a->size;
    if (a->view_filter != GF_FILTER_LINEAR) return 0; /* the CPU resizes */
    return bytes <= PRELOAD_MAX && info.width <= side && info.height <= side ? bytes : 0;
}

/* ----- batches ----- */

static glofnd_status open_device(gf_error *err, gf_feed *f, gf_type type, gf_loader_spec *s) {
    float level[3][256];
    gf_cuda_feed_spec spec = {
        .size = s->augment.size, .views = s->views * s->batch, .type = type, .level = level[0], .stream = gf_net_stream(f->net)};
    gf_augment_levels(&s->augment, level);
    gf_net_input(f->net, &spec.channels);
    glofnd_status status = gf_cuda_feed_create(err, &spec, &f->device);
    if (status == GLOFND_E_UNSUPPORTED) return GLOFND_OK; /* the loader makes the views */
    TRY(status);
    if (gf_feed_preload_bytes(s->data, &s->augment) > 0) {
        /* Pixels come with the batches if the device has no memory for them. */
        TRY(gf_preload_load(err, s->data, s->workers, &f->preload));
        const uint8_t *pixels = gf_preload_pixels(f->preload);
        status = gf_cuda_feed_keep(err, f->device, pixels, (size_t)gf_preload_bytes(s->data));
        gf_preload_drop_pixels(f->preload);
        if (status != GLOFND_E_MEMORY) TRY(status);
        else {
            gf_preload_free(f->preload);
            f->preload = NULL;
        }
    }
    s->pack = 1;
    s->preload = f->preload;
    s->alloc = gf_cuda_pinned_alloc;
    s->release = gf_cuda_pinned_free;
    return GLOFND_OK;
}

static glofnd_status feed_device(gf_error *err, gf_feed *f, const gf_batch *b) {
    f->ahead = 0;
    TRY(gf_cuda_feed_put(err, f->device, b->job, b->pixels, b->pixel_chunks));
    f->ahead = 1;
    f->epoch = b->epoch;
    f->step = b->step;
    return GLOFND_OK;
}

void gf_feed_ahead(gf_feed *f) {
    gf_batch next;
    if (!f->device || gf_loader_peek(NULL, f->loader, &next) != GLOFND_OK || !next.job) return;
    feed_device(NULL, f, &next);
}

glofnd_status gf_feed_open(gf_error *err, gf_feed *f, gf_net *net, gf_net *text, gf_type type, int parts,
                           const gf_loader_spec *spec) {
    const size_t side = (size_t)spec->augment.size;
    gf_loader_spec s = *spec;
    *f = (gf_feed){.net = net, .text = text, .views = s.views, .context = s.context, .pixels = side * side * 3, .parts = parts};
    if (gf_net_stream(net) && !parts) TRY(open_device(err, f, type, &s));
    return gf_loader_create(err, &s, &f->loader);
}

void gf_feed_close(gf_feed *f) {
    gf_cuda_feed_wait(f->device); /* first: it may be reading the loader's memory */
    gf_loader_free(f->loader);
    gf_cuda_feed_free(f->device);
    gf_preload_free(f->preload);
    *f = (gf_feed){0};
}

glofnd_status gf_feed_next(gf_error *err, gf_feed *f, gf_batch *out) {
    TRY(gf_loader_next(err, f->loader, out));
    if (f->parts) return GLOFND_OK;
    if (f->text) TRY(gf_net_load_tokens(err, f->text, out->token, 0, out->n));
    if (out->job) {
        int channels;
        if (!f->ahead || f->epoch != out->epoch || f->step != out->step) TRY(feed_device(err, f, out));
        f->ahead = 0;
        return gf_cuda_feed_take(err, f->device, gf_net_input(f->net, &channels));
    }
    for (int view = 0; view < f->views; view++) TRY(gf_net_load(err, f->net, out->view[view], view * out->n, out->n));
    return GLOFND_OK;
}

glofnd_status gf_feed_part(gf_error *err, const gf_feed *f, const gf_batch *b, int64_t first, int64_t count) {
    if (f->text) TRY(gf_net_load_tokens(err, f->text, b->token + first * f->context, 0, count));
    return gf_net_load(err, f->net, b->view[0] + (size_t)first * f->pixels, 0, count);
}

/* ----- support views ----- */

static int loaders_of(int views) { return (views + 1) / 2; }

glofnd_status gf_support_open(gf_error *err, gf_support *s, const gf_loader_spec *main, int views, int64_t dim) {
    *s = (gf_support){.views = views, .images = main->batch, .dim = dim, .step = -1};
    s->rows = calloc((size_t)views * (size_t)(main->batch * dim), sizeof *s->rows);
    FAIL_IF(err, !s->rows, GLOFND_E_MEMORY, "no memory for %d support views of %lld images", views, (long long)main->batch);
    for (int i = 0; i < loaders_of(views); i++) {
        gf_loader_spec spec = *main;
        spec.first_view = 2 + 2 * i; /* after the views that are trained on */
        spec.unreadable = NULL;      /* the main loader reports them */
        spec.depth = 1;
        TRY(gf_loader_create(err, &spec, &s->loader[i]));
    }
    return GLOFND_OK;
}

void gf_support_close(gf_support *s) {
    for (int i = 0; i < GF_SUPPORT_LOADERS; i++) gf_loader_free(s->loader[i]);
    free(s->rows);
    *s = (gf_support){0};
}

glofnd_status gf_support_embed(gf_error *err, gf_support *s, gf_net *net, uint32_t epoch, int64_t step) {
    const int there = s->step == step && s->epoch == epoch;
    for (int i = 0; i < loaders_of(s->views); i++) {
        if (!there) TRY(gf_loader_seek(err, s->loader[i], epoch, step));
        /* Two views of a loader through the net, as in training: the batch is the same size, with statistics of its own. */
        const size_t each = (size_t)(s->images * s->dim);
        const float *out = NULL;
        gf_batch b;
        TRY(gf_loader_next(err, s->loader[i], &b));
        for (int v = 0; v < 2; v++) TRY(gf_net_load(err, net, b.view[v], v * s->images, s->images));
        TRY(gf_net_forward(err, net, NULL, 2 * s->images, 2, NULL, &out));
        for (int v = 0; v < 2 && 2 * i + v < s->views; v++)
            TRY(gf_net_read(err, net, s->rows + (size_t)(2 * i + v) * each, out + (size_t)v * each, each * sizeof *s->rows));
    }
    s->epoch = epoch;
    s->step = step + 1; /* the next epoch is sought */
    return GLOFND_OK;
}

/* ----- specifications ----- */

static int is_locked(const gf_config *c, int k) { return c->lock == (k == 0 ? GF_LOCK_IMAGE : GF_LOCK_TEXT); }

gf_net_spec gf_encoder_spec(const gf_config *c, int k, int64_t samples, int vocab) {
    const int clip = c->task == GF_TASK_CLIP;
    gf_net_spec s = {
        .batch = clip ? samples : 2 * samples,
        .precision = c->precision,
        .training = !is_locked(c, k),
        .seed = (uint64_t)c->seed,
        .threads = c->method.threads > 0 ? c->method.threads : gf_parallel_default(),
        .device = c->method.device,
        .deterministic = c->deterministic,
        .exact = !c->tf32,
    };
    if (clip) s.embed_dim = c->embed_dim;
    else s.head_hidden = c->head_hidden, s.head_out = c->head_out;
    if (clip && k == 1) {
        s.arch = GF_ARCH_TEXT;
        s.width = c->text_width, s.layers = c->text_layers, s.heads = c->text_heads;
        s.context = c->context, s.vocab = vocab;
        s.quick_gelu = c->quick_gelu;
        return s;
    }
    s.arch = c->arch;
    s.size = c->size;
    s.zero_init = c->zero_init;
    s.cifar_stem = clip ? c->arch <= GF_ARCH_RESNET50 && c->stem : c->stem;
    if (clip && c->arch == GF_ARCH_VIT) {
        s.width = c->image_width, s.layers = c->image_layers, s.heads = c->image_heads;
        s.patch = c->patch;
        s.quick_gelu = c->quick_gelu;
    }
    return s;
}

static int64_t part_of(const gf_config *c, int64_t rows) { return c->micro_batch > 0 ? c->micro_batch : rows; }

/* ----- creating ----- */

static glofnd_status init_encoder(gf_error *err, gf_encoders *s, int k, const gf_config *c, const gf_sync_norm *ranks, int vocab,
                                  const char *plans) {
    gf_net_spec spec = gf_encoder_spec(c, k, s->part, vocab);
    gf_encoder *w = &s->at[k];
    spec.ranks = ranks;
    spec.plans = plans;
    spec.engine_owner = k > 0 ? s->at[0].net : NULL;
    TRY(gf_net_create(err, &spec, &w->net));
    s->count = k + 1;
    w->rows = spec.batch / s->part * s->batch;
    w->tensor_count = gf_net_tensors(w->net, &w->tensors);
    /* Parameters come first; a locked encoder has none to update. */
    const int locked = is_locked(c, k);
    int n = 0;
    while (!locked && n < w->tensor_count && w->tensors[n].grad) n++;
    w->param_count = n;
    const int adam = c->optimizer == GF_OPTIMIZER_ADAMW;
    const size_t bytes = (size_t)w->rows * (size_t)s->dim * sizeof(float);
    const int moves = w->param_count > 0, parts = s->part < s->batch;
    w->grad = gf_net_alloc(w->net, bytes);
    w->kept = parts ? gf_net_alloc(w->net, bytes) : NULL;
    w->sum = parts && moves ? gf_net_alloc_state(w->net) : NULL;
    w->state1 = moves ? gf_net_alloc_state(w->net) : NULL;
    w->state2 = moves && adam ? gf_net_alloc_state(w->net) : NULL;
    FAIL_IF(err,
            !w->grad || (parts && !w->kept) || (parts && moves && !w->sum) || (moves && !w->state1) ||
                (moves && adam && !w->state2),
            GLOFND_E_MEMORY, "no memory for the optimizer's state and %lld embeddings", (long long)w->rows);
    return GLOFND_OK;
}

glofnd_status gf_encoders_init(gf_error *err, gf_encoders *s, const gf_config *c, int64_t rows, const gf_sync_norm *ranks,
                               int vocab, const char *plans) {
    *s = (gf_encoders){.batch = rows, .part = part_of(c, rows), .dim = gf_config_dim(c)};
    TRY(init_encoder(err, s, 0, c, ranks, vocab, plans));
    return c->task == GF_TASK_CLIP ? init_encoder(err, s, 1, c, ranks, vocab, plans) : GLOFND_OK;
}

void gf_encoders_free(gf_encoders *s) {
    for (int k = s->count - 1; k >= 0; k--) { /* the second uses the first one's engine */
        gf_encoder *w = &s->at[k];
        void *const there[] = {w->state1, w->state2, w->sum, w->kept, w->grad};
        for (size_t i = 0; i < sizeof there / sizeof *there; i++) gf_net_release(w->net, there[i]);
        gf_net_free(w->net);
    }
    *s = (gf_encoders){0};
}

/* Parameters of an encoder, to a few percent: the exact number is known only once the network is built. */
static size_t params_of(const gf_config *c, int k, int vocab) {
    static const size_t encoder[] = {78000, 11200000, 21300000, 23500000, 38300000};
    static const size_t features[] = {64, 512, 512, 2048, 0};
    const size_t width = (size_t)(k ? c->text_width : c->image_width), layers = (size_t)(k ? c->text_layers : c->image_layers);
    const size_t dim = (size_t)gf_config_dim(c), tokens = (size_t)(k ? vocab : 3 * c->patch * c->patch);
    if (k == 1 || c->arch == GF_ARCH_VIT) return 12 * layers * width * width + (tokens + dim) * width;
    if (c->task == GF_TASK_CLIP) return encoder[c->arch] + features[c->arch] * dim;
    return encoder[c->arch] + (features[c->arch] + dim) * (size_t)c->head_hidden;
}

glofnd_status gf_encoders_estimate(gf_error *err, const gf_config *c, int64_t rows, int vocab, size_t *bytes, size_t *params) {
    *bytes = *params = 0;
    for (int k = 0; k < (c->task == GF_TASK_CLIP ? 2 : 1); k++) {
        const gf_net_spec spec = gf_encoder_spec(c, k, part_of(c, rows), vocab);
        size_t net = 0;
        TRY(gf_net_estimate(err, &spec, &net));
        *bytes += net;
        *params += params_of(c, k, vocab);
    }
    return GLOFND_OK;
}

/* ----- a step ----- */

/* Forward or backward of all encoders: the second beside the first, where the device can do that. Locked encoders run as in
 * evaluation. */
static glofnd_status run_encoders(gf_error *err, gf_encoders *s, int backward) {
    glofnd_status status = GLOFND_OK;
    for (int k = s->count - 1; k >= 0 && status == GLOFND_OK; k--) {
        gf_encoder *w = &s->at[k];
        const int moves = w->param_count > 0;
        if (k > 0) gf_net_beside(w->net, GF_NN_FORK);
        if (!backward) status = gf_net_forward(err, w->net, NULL, w->rows, moves, NULL, &w->out);
        else if (moves) status = gf_net_backward(err, w->net, w->grad);
        if (k > 0) gf_net_beside(w->net, GF_NN_RETURN);
    }
    for (int k = 1; k < s->count; k++) gf_net_beside(s->at[k].net, GF_NN_JOIN);
    return status;
}

glofnd_status gf_encoders_embed(gf_error *err, gf_encoders *s, const gf_feed *feed, const gf_batch *b) {
    if (s->part == s->batch) return run_encoders(err, s, 0);
    for (int64_t first = 0; first < s->batch; first += s->part) {
        TRY(gf_feed_part(err, feed, b, first, s->part));
        for (int k = 0; k < s->count; k++) {
            gf_encoder *w = &s->at[k];
            const float *out;
            TRY(gf_net_forward(err, w->net, NULL, s->part, w->param_count > 0, NULL, &out));
            float *to = w->kept + first * s->dim;
            gf_net_backend(w->net)->cast(gf_net_engine(w->net), GF_TYPE_F32, to, out, s->part * s->dim);
            w->out = w->kept;
        }
    }
    return GLOFND_OK;
}

glofnd_status gf_encoders_backward(gf_error *err, gf_encoders *s, const gf_feed *feed, const gf_batch *b) {
    if (s->part == s->batch) return run_encoders(err, s, 1);
    for (int64_t first = 0; first < s->batch; first += s->part) {
        TRY(gf_feed_part(err, feed, b, first, s->part));
        for (int k = 0; k < s->count; k++) {
            gf_encoder *w = &s->at[k];
            if (w->param_count == 0) continue;
            TRY(gf_net_forward(err, w->net, NULL, s->part, 2, NULL, NULL));
            TRY(gf_net_backward(err, w->net, w->grad + first * s->dim));
            gf_net_add_gradients(w->net, w->sum, first == 0);
        }
    }
    return GLOFND_OK;
}

float *gf_encoder_gradient(const gf_encoder *w, const gf_tensor *t) { return w->sum ? gf_net_place(w->net, w->sum, t) : t->grad; }

void gf_encoders_touch(gf_encoders *s) {
    for (int k = 0; k < s->count; k++)
        if (s->at[k].param_count > 0) gf_net_touch(s->at[k].net);
}

int64_t gf_encoders_text_length(const gf_encoders *s) { return s->count == 2 ? gf_net_text_length(s->at[1].net) : 0; }
