/* encoders.c - see encoders.h. */
#include "loop/encoders.h"

#include "util/parallel.h"

/* ----- specifications ----- */

static gf_net_spec text_spec(const gf_config *c, gf_net_spec s, int vocab) {
    s.arch = GF_ARCH_TEXT;
    s.width = c->text_width;
    s.layers = c->text_layers;
    s.heads = c->text_heads;
    s.context = c->context;
    s.vocab = vocab;
    s.embed_dim = c->embed_dim;
    s.quick_gelu = c->quick_gelu;
    return s;
}

static gf_net_spec image_spec(const gf_config *c, gf_net_spec s) {
    s.arch = c->arch;
    s.size = c->size;
    s.embed_dim = c->embed_dim;
    s.zero_init = c->zero_init;
    s.cifar_stem = c->arch <= GF_ARCH_RESNET50 && c->stem;
    if (c->arch != GF_ARCH_VIT) return s;
    s.width = c->image_width;
    s.layers = c->image_layers;
    s.heads = c->image_heads;
    s.patch = c->patch;
    s.quick_gelu = c->quick_gelu;
    return s;
}

static gf_net_spec views_spec(const gf_config *c, gf_net_spec s) {
    s.arch = c->arch;
    s.size = c->size;
    s.batch *= 2;
    s.cifar_stem = c->stem;
    s.zero_init = c->zero_init;
    s.head_hidden = c->head_hidden;
    s.head_out = c->head_out;
    return s;
}

static int is_locked(const gf_config *c, int k) { return c->lock == (k == 0 ? GF_LOCK_IMAGE : GF_LOCK_TEXT); }

gf_net_spec gf_encoder_spec(const gf_config *c, int k, int64_t samples, int vocab) {
    const gf_net_spec s = {
        .batch = samples,
        .precision = c->precision,
        .training = !is_locked(c, k),
        .seed = (uint64_t)c->seed,
        .threads = c->method.threads > 0 ? c->method.threads : gf_parallel_default(),
        .device = c->method.device,
        .deterministic = c->deterministic,
        .exact = !c->tf32,
    };
    if (c->task == GF_TASK_VIEWS) return views_spec(c, s);
    return k == 0 ? image_spec(c, s) : text_spec(c, s, vocab);
}

static int64_t part_of(const gf_config *c, int64_t rows) { return c->micro_batch > 0 ? c->micro_batch : rows; }

/* ----- creating ----- */

static int in_parts(const gf_encoders *s) { return s->part < s->batch; }

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
    const int moves = w->param_count > 0, parts = in_parts(s);
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

/* Locked encoders run as in evaluation. */
static int mode(const gf_encoder *w, int train) { return w->param_count > 0 ? train : 0; }

static glofnd_status forward(gf_error *err, gf_encoder *w) {
    return gf_net_forward(err, w->net, NULL, w->rows, mode(w, 1), NULL, &w->out);
}

static glofnd_status backward(gf_error *err, gf_encoder *w) {
    return w->param_count > 0 ? gf_net_backward(err, w->net, w->grad) : GLOFND_OK;
}

/* Of all encoders: the second beside the first, where the device can do that. */
static glofnd_status at_once(gf_error *err, gf_encoders *s, glofnd_status (*work)(gf_error *err, gf_encoder *w)) {
    glofnd_status status = GLOFND_OK;
    for (int k = s->count - 1; k >= 0 && status == GLOFND_OK; k--) {
        if (k > 0) gf_net_beside(s->at[k].net, GF_NN_FORK);
        status = work(err, &s->at[k]);
        if (k > 0) gf_net_beside(s->at[k].net, GF_NN_RETURN);
    }
    for (int k = 1; k < s->count; k++) gf_net_beside(s->at[k].net, GF_NN_JOIN);
    return status;
}

glofnd_status gf_encoders_embed(gf_error *err, gf_encoders *s, const gf_feed *feed, const gf_batch *b) {
    for (int64_t first = 0; in_parts(s) && first < s->batch; first += s->part) {
        TRY(gf_feed_part(err, feed, b, first, s->part));
        for (int k = 0; k < s->count; k++) {
            gf_encoder *w = &s->at[k];
            const float *out;
            TRY(gf_net_forward(err, w->net, NULL, s->part, mode(w, 1), NULL, &out));
            float *to = w->kept + first * s->dim;
            gf_net_backend(w->net)->cast(gf_net_engine(w->net), GF_TYPE_F32, to, out, s->part * s->dim);
            w->out = w->kept;
        }
    }
    return in_parts(s) ? GLOFND_OK : at_once(err, s, forward);
}

glofnd_status gf_encoders_backward(gf_error *err, gf_encoders *s, const gf_feed *feed, const gf_batch *b) {
    for (int64_t first = 0; in_parts(s) && first < s->batch; first += s->part) {
        TRY(gf_feed_part(err, feed, b, first, s->part));
        for (int k = 0; k < s->count; k++) {
            gf_encoder *w = &s->at[k];
            if (w->param_count == 0) continue;
            TRY(gf_net_forward(err, w->net, NULL, s->part, 2, NULL, NULL));
            TRY(gf_net_backward(err, w->net, w->grad + first * s->dim));
            gf_net_add_gradients(w->net, w->sum, first == 0);
        }
    }
    return in_parts(s) ? GLOFND_OK : at_once(err, s, backward);
}

float *gf_encoder_gradient(const gf_encoder *w, const gf_tensor *t) { return w->sum ? gf_net_place(w->net, w->sum, t) : t->grad; }

const float *gf_encoders_side(const gf_encoders *s, int i) {
    return s->count == 2 ? s->at[i].out : s->at[0].out + i * s->batch * s->dim;
}

float *gf_encoders_side_grad(const gf_encoders *s, int i) {
    return s->count == 2 ? s->at[i].grad : s->at[0].grad + i * s->batch * s->dim;
}

void gf_encoders_touch(gf_encoders *s) {
    for (int k = 0; k < s->count; k++)
        if (s->at[k].param_count > 0) gf_net_touch(s->at[k].net);
}

int64_t gf_encoders_text_length(const gf_encoders *s) { return s->count == 2 ? gf_net_text_length(s->at[1].net) : 0; }
