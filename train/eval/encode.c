/* encode.c - see encode.h: features; the encoder of a run, opened and applied to images and captions; pairs; sets of views. */
#include "eval/encode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/captions.h"
#include "eval/split.h"
#include "io/file.h"
#include "loader/loader.h"
#include "loop/model.h"
#include "loop/trainer.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/string_list.h"
#include "util/text.h"

/* ----- features ----- */

glofnd_status gf_features_alloc(gf_error *err, gf_features *f, int64_t n, int64_t dim) {
    *f = (gf_features){.n = n, .dim = dim};
    FAIL_IF(err, n < 1 || dim < 1 || (size_t)n > SIZE_MAX / sizeof(float) / (size_t)dim, GLOFND_E_ARGUMENT,
            "%lld rows of %lld features are too large", (long long)n, (long long)dim);
    f->x = malloc((size_t)n * (size_t)dim * sizeof *f->x);
    f->label = malloc((size_t)n * sizeof *f->label);
    if (f->x && f->label) return GLOFND_OK;
    gf_features_free(f);
    GF_FAIL(err, GLOFND_E_MEMORY, "no memory for %lld rows of %lld features", (long long)n, (long long)dim);
}

void gf_features_free(gf_features *f) {
    if (!f) return;
    free(f->x);
    free(f->label);
    *f = (gf_features){0};
}

int32_t gf_features_classes(const gf_features *f) {
    int32_t max = -1;
    for (int64_t i = 0; i < f->n; i++) max = GF_MAX(f->label[i], max);
    return max + 1;
}

static void copy_row(gf_features *to, int64_t at, const gf_features *from, int64_t i) {
    memmove(to->x + at * to->dim, from->x + i * from->dim, (size_t)from->dim * sizeof *from->x);
    to->label[at] = from->label[i];
}

glofnd_status gf_features_hold_out(gf_error *err, gf_features *f, double share, uint64_t seed, gf_features *held) {
    gf_stratified_sample d = {.share = share, .seed = seed, .stream = GF_STRATIFIED_TEST};
    uint8_t *chosen = malloc((size_t)f->n + 1);
    FAIL_IF(err, !chosen, GLOFND_E_MEMORY, "no memory to split %lld samples", (long long)f->n);
    glofnd_status status = gf_stratified_draw(err, &d, f->label, f->n, chosen);
    if (status == GLOFND_OK && d.count == 0)
        status = gf_fail(err, GLOFND_E_ARGUMENT, "no class has enough samples to hold out %.0f %% of it", 100.0 * share);
    if (status == GLOFND_OK) status = gf_features_alloc(err, held, d.count, f->dim);
    if (status == GLOFND_OK) {
        int64_t kept = 0, moved = 0;
        for (int64_t i = 0; i < f->n; i++)
            if (chosen[i]) copy_row(held, moved++, f, i);
            else copy_row(f, kept++, f, i);
        f->n = kept;
    }
    free(chosen);
    return status;
}

struct gf_run_encoder {
    gf_config config; /* resolved */
    gf_net *net;
    gf_bpe *bpe; /* text encoder; else NULL */
    int64_t batch, dim;
    int head, threads;
    float *rows; /* [batch][dim] of the last forward, on the host */
    uint32_t vocab_crc;
    gf_run_state state; /* untrained: its weights are "" */
    char data[PATH_MAX + 1024];
    char cpu_fallback[sizeof((gf_error *)0)->text];
};

/* ----- opening the encoder of a run ----- */

/* The copy in the checkpoint is enough if the run's own file is lost or cut. */
static glofnd_status read_config(gf_error *err, gf_config *c, const char *run) {
    char path[PATH_MAX];
    const char *was;
    int there;
    TRY(gf_path_join(err, path, run, GF_CONFIG_FILE));
    TRY(gf_exists(err, path, &there));
    TRY(gf_config_init(err, c));
    const glofnd_status status = gf_resume_read(err, run, c, &was);
    if (status == GLOFND_E_IO) return status;
    if (status != GLOFND_OK) return GLOFND_E_FORMAT; /* the file's fault, not the command line's */
    FAIL_IF(err, !there && !was, GLOFND_E_IO, "%s is missing: %.100s is not a run folder", path, run);
    FAIL_IF(err, c->size < 1 || c->stem < 0, GLOFND_E_FORMAT, "%s lacks size or stem of the network", path);
    /* The copy in the checkpoint, whose checksum is known, must agree with the run's own file in all that makes the network. It
     * is used then; but where the data are, where to work and what to crop may be changed. */
    static const char *const own[] = {"data", "device", "threads", "workers", "prefetch", "eval_view"};
    char from[PATH_MAX], value[1100];
    gf_config copy;
    int has = 0;
    TRY(gf_checkpoint_latest(err, run, from));
    if (!*from) return GLOFND_OK;
    const glofnd_status agrees = gf_resume_check(err, run, from, c, 0);
    if (agrees == GLOFND_E_OPTION) {
        const gf_error why = err ? *err : (gf_error){{0}};
        GF_FAIL(err, GLOFND_E_FORMAT, "%.200s/" GF_CONFIG_FILE " is not the one its checkpoint was made under: %.250s", run,
                why.text);
    }
    TRY(agrees);
    TRY(gf_checkpoint_config(err, from, &copy, &has));
    if (!has) return GLOFND_OK;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        gf_config_text(c, own[i], value, sizeof value);
        if (*value) TRY(gf_config_set(err, &copy, own[i], value));
    }
    *c = copy;
    return GLOFND_OK;
}

static glofnd_status make_net_on(gf_error *err, gf_run_encoder *e, glofnd_device device) {
    const gf_config *c = &e->config;
    gf_net_spec spec = gf_encoder_spec(c, e->bpe != NULL, e->batch, e->bpe ? gf_bpe_vocab(e->bpe) : 0);
    spec.batch = e->batch; /* training may have two views of each sample */
    if (!e->head) spec.head_hidden = spec.head_out = 0;
    spec.training = 0;
    spec.threads = e->threads;
    spec.device = device;
    spec.deterministic = 1;
    TRY(gf_net_create(err, &spec, &e->net));
    e->dim = e->head ? gf_config_dim(&e->config) : gf_net_features(e->net);
    e->rows = malloc((size_t)(e->batch * e->dim) * sizeof *e->rows);
    FAIL_IF(err, !e->rows, GLOFND_E_MEMORY, "no memory for a batch of features");
    return GLOFND_OK;
}

glofnd_status gf_run_encoder_device(gf_error *err, const char *name, glofnd_device *out) {
    glofnd_options o;
    char why[256];
    gf_method_options_init(&o);
    const glofnd_status status = glofnd_options_set(&o, "device", name, why, sizeof why);
    FAIL_IF(err, status != GLOFND_OK, GLOFND_E_OPTION, "%s", why);
    *out = o.device;
    return GLOFND_OK;
}

/* On the requested device; with none requested, on the run's device, or on the CPU if that is unusable. */
static glofnd_status make_net(gf_error *err, gf_run_encoder *e, const char *requested) {
    glofnd_device device = e->config.method.device;
    if (requested) TRY(gf_run_encoder_device(err, requested, &device));
    /* The message's advice about configurations follows its last semicolon. */
    static const char key[] = "device: ";
    char usable[256];
    glofnd_status status = glofnd_device_check(device, usable, sizeof usable);
    char *advice = strrchr(usable, ';');
    if (advice) *advice = 0;
    if (status != GLOFND_OK) gf_fail(err, status, "%s", usable + (strncmp(usable, key, strlen(key)) == 0 ? strlen(key) : 0));
    else status = make_net_on(err, e, device);
    if (status == GLOFND_OK || device == GLOFND_DEVICE_CPU) return status;
    const gf_error why = *err;
    const int other = status != GLOFND_E_UNSUPPORTED && status != GLOFND_E_DEVICE; /* out of memory, for example */
    FAIL_IF(err, requested || other, status, "cuda cannot be used here: %.420s; use --device cpu", why.text);
    memcpy(e->cpu_fallback, why.text, sizeof e->cpu_fallback);
    return make_net_on(err, e, GLOFND_DEVICE_CPU);
}

static glofnd_status check_text(gf_error *err, const gf_config *c, const char *run) {
    FAIL_IF(err, c->task != GF_TASK_CLIP, GLOFND_E_ARGUMENT,
            "%s is a run on images alone (task = views); a text encoder needs a run with task = clip", run);
    return GLOFND_OK;
}

glofnd_status gf_run_check_text(gf_error *err, const char *run) {
    gf_config c;
    return read_config(NULL, &c, run) == GLOFND_OK ? check_text(err, &c, run) : GLOFND_OK;
}

static glofnd_status open_encoder(gf_error *err, gf_run_encoder *e, const gf_run_encoder_spec *spec) {
    if (spec->config) e->config = *spec->config;
    else TRY(read_config(err, &e->config, spec->run));
    if (spec->run) gf_run_data_find(spec->run, e->config.data, e->data, sizeof e->data);
    FAIL_IF(err, spec->config && spec->text, GLOFND_E_ARGUMENT, "a text encoder needs a run");
    char path[PATH_MAX];
    uint32_t crc, trained = 0;
    int known = 0;
    if (spec->text) {
        TRY(check_text(err, &e->config, spec->run));
        /* In the run's folder, also where `run` is one of its checkpoints. */
        int there;
        TRY(gf_path_join(err, path, spec->run, GF_VOCABULARY_FILE));
        TRY(gf_exists(err, path, &there));
        if (!there && gf_checkpoint_step(spec->run) >= 0) TRY(gf_path_join(err, path, spec->run, "../../" GF_VOCABULARY_FILE));
        TRY(gf_vocabulary_load(err, path, &e->bpe, &crc));
        e->vocab_crc = crc;
        TRY(gf_checkpoint_vocabulary(err, spec->run, &trained, &known));
        FAIL_IF(err, known && crc != trained, GLOFND_E_FORMAT,
                "%.300s is not the vocabulary the run was trained with; restore the original file", path);
    }
    e->head = spec->head || e->config.task == GF_TASK_CLIP;
    e->threads = spec->placement.threads > 0 ? spec->placement.threads : e->config.method.threads;
    if (e->threads <= 0) e->threads = gf_parallel_default();
    e->batch = spec->batch > 0 ? spec->batch : e->config.size <= 64 ? 128 : 32;
    TRY(make_net(err, e, spec->placement.device));
    if (spec->config) {
        /* Without a run the name of the file takes the place of the state. */
        e->state = (gf_run_state){.step = -1};
        if (!spec->weights) return GLOFND_OK;
        FAIL_IF(err, strlen(spec->weights) >= sizeof e->state.weights, GLOFND_E_ARGUMENT, "the path of the weights is too long");
        memcpy(e->state.weights, spec->weights, strlen(spec->weights) + 1);
        return gf_weights_load(err, e->net, spec->weights, 1);
    }
    if (spec->untrained) {
        /* Initial weights of the run: tensors that its init file lacks come from the seed. */
        const gf_model encoder = {&e->net, 1, NULL};
        if (!*e->config.init) return GLOFND_OK;
        if (e->config.task != GF_TASK_CLIP) return gf_weights_load(err, e->net, e->config.init, 1);
        return gf_weights_load_model(err, &encoder, e->config.init, GF_WEIGHTS_PARTIAL, NULL);
    }
    /* Training may replace the checkpoint while it is read: then the newer one is. */
    glofnd_status status = GLOFND_OK;
    for (int tries = 0; tries < 5; tries++) {
        TRY(gf_run_state_find(err, spec->run, &e->state));
        status = gf_weights_load(err, e->net, e->state.weights, 0);
        if (status == GLOFND_OK || !gf_run_state_changed(spec->run, &e->state)) break;
    }
    TRY(status);
    FAIL_IF(err, e->bpe && e->state.vocabulary >= 0 && e->state.vocabulary != (int64_t)e->vocab_crc, GLOFND_E_FORMAT,
            "%.300s/" GF_VOCABULARY_FILE " is not the vocabulary the run was trained with; restore the original file", spec->run);
    return GLOFND_OK;
}

glofnd_status gf_run_encoder_create(gf_error *err, const gf_run_encoder_spec *spec, gf_run_encoder **out) {
    gf_run_encoder *e = calloc(1, sizeof *e);
    *out = NULL;
    FAIL_IF(err, !e, GLOFND_E_MEMORY, "no memory for an encoder");
    const glofnd_status status = open_encoder(err, e, spec);
    if (status == GLOFND_OK) *out = e;
    else gf_run_encoder_free(e);
    return status;
}

void gf_run_encoder_free(gf_run_encoder *e) {
    if (!e) return;
    gf_net_free(e->net);
    gf_bpe_free(e->bpe);
    free(e->rows);
    free(e);
}

glofnd_status gf_run_encoder_copy(gf_error *err, gf_run_encoder *e, gf_net *net) {
    gf_tensor *to, *from;
    const int n = gf_net_tensors(e->net, &to), have = gf_net_tensors(net, &from);
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < have && strcmp(from[k].name, to[i].name) != 0) k++;
        FAIL_IF(err, k == have || from[k].count != to[i].count, GLOFND_E_ARGUMENT, "the network has no %s of this shape",
                to[i].name);
        float *host = malloc((size_t)to[i].count * sizeof *host);
        FAIL_IF(err, !host, GLOFND_E_MEMORY, "no memory for a copy of %s", to[i].name);
        glofnd_status status = gf_net_get(err, net, &from[k], from[k].value, host);
        if (status == GLOFND_OK) status = gf_net_put(err, e->net, &to[i], to[i].value, host);
        free(host);
        TRY(status);
    }
    gf_net_touch(e->net);
    return GLOFND_OK;
}

const gf_config *gf_run_encoder_config(const gf_run_encoder *e) { return &e->config; }
const char *gf_run_encoder_data(const gf_run_encoder *e) { return e->data; }
int gf_run_encoder_threads(const gf_run_encoder *e) { return e->threads; }
const gf_run_state *gf_run_encoder_state(const gf_run_encoder *e) { return &e->state; }
const char *gf_run_encoder_cpu_fallback(const gf_run_encoder *e) { return e->cpu_fallback; }

glofnd_status gf_run_encoder_data_hint(gf_error *err, glofnd_status status) {
    if (status != GLOFND_E_IO) return status;
    const gf_error why = *err;
    return gf_fail(err, status, "%.440s (the data of the run; if it moved, give its SPEC by --data)", why.text);
}
int64_t gf_run_encoder_dim(const gf_run_encoder *e) { return e->dim; }
const gf_bpe *gf_run_encoder_vocabulary(const gf_run_encoder *e) { return e->bpe; }

/* ----- images ----- */

/* e->rows = features or projections of `count` inputs: the images, or (NULL) the tokens already loaded. */
static glofnd_status encode_batch(gf_error *err, gf_run_encoder *e, const float *images, int64_t count) {
    const float *y = NULL;
    TRY(gf_net_forward(err, e->net, images, count, 0, e->head ? NULL : &y, e->head ? &y : NULL));
    TRY(gf_net_read(err, e->net, e->rows, y, (size_t)(count * e->dim) * sizeof *y));
    double sum = 0.0; /* sum of squares: finite only if every number is */
    for (int64_t i = 0; i < count * e->dim; i++) sum += (double)e->rows[i] * (double)e->rows[i];
    FAIL_IF(err, !isfinite(sum), GLOFND_E_NUMERIC,
            "%.300s: the output of the network is not finite: training diverged (try a smaller --lr), or the file is corrupt",
            *e->state.weights ? e->state.weights : "untrained weights");
    return GLOFND_OK;
}

glofnd_status gf_run_encoder_tokens(gf_error *err, gf_run_encoder *e, const int32_t *tokens, int64_t n, float *out) {
    FAIL_IF(err, !e->bpe, GLOFND_E_ARGUMENT, "an image encoder cannot read tokens");
    for (int64_t i = 0; i < n; i += e->batch) {
        const int64_t count = n - i < e->batch ? n - i : e->batch;
        TRY(gf_net_load_tokens(err, e->net, tokens + i * e->config.context, 0, count));
        TRY(encode_batch(err, e, NULL, count));
        memcpy(out + i * e->dim, e->rows, (size_t)(count * e->dim) * sizeof *out);
    }
    return GLOFND_OK;
}

glofnd_status gf_run_encoder_images(gf_error *err, gf_run_encoder *e, const float *images, int64_t n, float *out) {
    const int64_t pixels = (int64_t)e->config.size * e->config.size * 3;
    for (int64_t i = 0; i < n; i += e->batch) {
        const int64_t count = n - i < e->batch ? n - i : e->batch;
        TRY(encode_batch(err, e, images + i * pixels, count));
        memcpy(out + i * e->dim, e->rows, (size_t)(count * e->dim) * sizeof *out);
    }
    return GLOFND_OK;
}

static glofnd_status encode_loaded(gf_error *err, gf_run_encoder *e, gf_loader *loader, const gf_encode_spec *spec,
                                   gf_features *out) {
    gf_batch batch;
    int64_t row = 0, at = 0;
    for (;;) {
        TRY(gf_loader_next(err, loader, &batch));
        if (batch.n == 0) break;
        FAIL_IF(err, batch.n > out->n - row, GLOFND_E_FORMAT, "the dataset returned more than its %lld samples",
                (long long)out->n);
        TRY(encode_batch(err, e, batch.view[0], batch.n));
        for (int64_t i = 0; i < batch.n; i++, row++) {
            if (!spec->ids) at = batch.id[i];
            else
                while (spec->ids[at] != batch.id[i]) at++; /* unreadable samples before it are missing */
            if (spec->aligned) row = at;
            memcpy(out->x + row * e->dim, e->rows + i * e->dim, (size_t)e->dim * sizeof *out->x);
            out->label[row] = spec->labels ? spec->labels[at] : batch.label[i];
        }
        if (spec->progress) spec->progress(spec->user, row, out->n);
    }
    if (!spec->aligned) out->n = row;
    return GLOFND_OK;
}

static glofnd_status make_loader(gf_error *err, const gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *spec,
                                 gf_loader **out) {
    const gf_config *c = &e->config;
    const gf_augment seen = c->pixels == GF_PIXELS_CLIP ? gf_augment_clip(c->size) : gf_augment_pretrain(c->size);
    gf_loader_spec loader = {
        .data = data,
        .augment = spec->augmented ? gf_augment_linear(c->size) : seen,
        .views = spec->augmented ? 1 : 0,
        .once = 1,
        .ids = spec->ids,
        .id_count = spec->id_count,
        .batch = e->batch,
        .seed = spec->seed,
        .workers = e->threads,
        .depth = 2,
        .max_pixels = c->max_pixels,
        .fast = c->decode == GF_DECODE_FAST,
        .unreadable = spec->unreadable,
        .user = spec->user,
    };
    memcpy(loader.augment.mean, seen.mean, sizeof seen.mean); /* normalisation as in training */
    memcpy(loader.augment.std, seen.std, sizeof seen.std);
    gf_views_centre_crop(c, &loader);
    TRY(gf_loader_create(err, &loader, out));
    return gf_loader_seek(err, *out, spec->epoch, 0);
}

glofnd_status gf_encode_samples(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *spec,
                                gf_features *out) {
    const int64_t n = spec->ids ? spec->id_count : gf_dataset_describe(data).n;
    gf_loader *loader = NULL;
    TRY(gf_features_alloc(err, out, n, e->dim));
    memset(out->x, 0, (size_t)n * (size_t)e->dim * sizeof *out->x);
    for (int64_t i = 0; i < n; i++) out->label[i] = -1;
    glofnd_status status = make_loader(err, e, data, spec, &loader);
    if (status == GLOFND_OK) status = encode_loaded(err, e, loader, spec, out);
    gf_loader_free(loader);
    if (status != GLOFND_OK) gf_features_free(out);
    return status;
}

/* ----- all captions of a dataset through the text encoder ----- */

enum { PART = 1024 }; /* captions at a time */

typedef struct encoding {
    gf_error *err;
    gf_run_encoder *e;
    const gf_dataset *data;
    const gf_encode_spec *report;
    gf_bpe_scratch scratch;
    int32_t *token;  /* [PART][context] */
    int64_t pending; /* tokens of so many captions, not encoded yet */
    gf_features *out;
    int64_t *sample;
    int64_t capacity; /* rows of out and sample */
} encoding;

static void leave_out(const encoding *x, int64_t i, const char *why) {
    if (x->report->unreadable) x->report->unreadable(x->report->user, i, why);
}

/* The pending captions are the last rows. */
static glofnd_status encode_pending(encoding *x) {
    const int64_t first = x->out->n - x->pending;
    TRY(gf_run_encoder_tokens(x->err, x->e, x->token, x->pending, x->out->x + first * x->out->dim));
    x->pending = 0;
    return GLOFND_OK;
}

static glofnd_status add_caption(encoding *x, int64_t i, gf_caption c, int32_t label) {
    const int context = gf_run_encoder_config(x->e)->context;
    int count;
    if (c.n > GF_WORDS_TEXT_MAX) return leave_out(x, i, "a caption is too long"), GLOFND_OK;
    TRY(gf_bpe_encode(x->err, gf_run_encoder_vocabulary(x->e), &x->scratch, c.text, c.n, context, x->token + x->pending * context,
                      &count));
    if (count <= 2 && context > 2) return leave_out(x, i, "a caption has no word"), GLOFND_OK;
    if (x->out->n + 1 > x->capacity) {
        const int64_t capacity = x->capacity ? 2 * x->capacity : PART;
        float *rows = realloc(x->out->x, (size_t)(capacity * x->out->dim) * sizeof *rows);
        if (rows) x->out->x = rows;
        int32_t *row_label = realloc(x->out->label, (size_t)capacity * sizeof *row_label);
        if (row_label) x->out->label = row_label;
        int64_t *sample = realloc(x->sample, (size_t)capacity * sizeof *sample);
        if (sample) x->sample = sample;
        FAIL_IF(x->err, !rows || !row_label || !sample, GLOFND_E_MEMORY, "no memory for %lld embeddings", (long long)capacity);
        x->capacity = capacity;
    }
    x->sample[x->out->n] = i;
    x->out->label[x->out->n++] = label;
    return ++x->pending == PART ? encode_pending(x) : GLOFND_OK;
}

static glofnd_status add_sample_captions(encoding *x, int64_t i, gf_sample *s) {
    gf_error why = {{0}};
    const glofnd_status status = gf_dataset_text(&why, x->data, i, s);
    if (status == GLOFND_E_FORMAT || status == GLOFND_E_IO) return leave_out(x, i, why.text), GLOFND_OK;
    FAIL_IF(x->err, status != GLOFND_OK, status, "%s", why.text);
    const int64_t n = gf_captions_count(s->text);
    if (n == 0) leave_out(x, i, "the sample has no caption");
    for (int64_t k = 0; k < n; k++) TRY(add_caption(x, i, gf_caption_at(s->text, k), s->label));
    return GLOFND_OK;
}

static glofnd_status encode_all_captions(encoding *x) {
    const int64_t n = gf_dataset_describe(x->data).n;
    gf_sample s = {0};
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        const int64_t pending = x->pending;
        status = add_sample_captions(x, i, &s);
        if (x->report->progress && x->pending < pending) x->report->progress(x->report->user, i + 1, n);
    }
    gf_sample_free(&s);
    TRY(status);
    FAIL_IF(x->err, x->out->n == 0, GLOFND_E_FORMAT, "this data has no caption");
    if (x->pending) TRY(encode_pending(x));
    if (x->report->progress) x->report->progress(x->report->user, n, n);
    return GLOFND_OK;
}

glofnd_status gf_encode_captions(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *report,
                                 gf_features *out, int64_t **sample) {
    encoding x = {.err = err, .e = e, .data = data, .report = report, .out = out};
    *out = (gf_features){.dim = gf_run_encoder_dim(e)};
    *sample = NULL;
    FAIL_IF(err, !gf_run_encoder_vocabulary(e), GLOFND_E_ARGUMENT, "an image encoder cannot read captions");
    TRY(gf_captions_require(err, data));
    x.token = malloc((size_t)PART * (size_t)gf_run_encoder_config(e)->context * sizeof *x.token);
    const glofnd_status status =
        x.token ? encode_all_captions(&x) : gf_fail(err, GLOFND_E_MEMORY, "no memory for %d captions", PART);
    gf_bpe_scratch_free(&x.scratch);
    free(x.token);
    if (status == GLOFND_OK) *sample = x.sample;
    else gf_features_free(out), free(x.sample);
    return status;
}

/* ----- images and all their captions; samples with equal names are one image ----- */

typedef struct named { /* a sample, to be sorted by name */
    const char *name;
    int64_t sample;
} named;

typedef struct pairing {
    const gf_dataset *data;
    const gf_encode_spec *report; /* [2] */
    int64_t n;                    /* samples */
    int64_t *row;                 /* [n] row of each sample's image; -1: unreadable */
    int64_t *id;                  /* [ids] samples whose images are encoded: the first of each name */
    int64_t ids;
} pairing;

static int by_name(const void *a, const void *b) {
    const named *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->sample > y->sample) - (x->sample < y->sample);
}

/* row[i] = the first sample with the name of sample i. */
static glofnd_status find_first_names(gf_error *err, pairing *p, gf_string_list *names, named *order) {
    char name[4400];
    for (int64_t i = 0; i < p->n; i++) {
        gf_dataset_name(p->data, i, name, sizeof name);
        TRY(gf_string_list_add(err, names, name, strlen(name)));
    }
    for (int64_t i = 0; i < p->n; i++) order[i] = (named){gf_string_list_get(names, i), i};
    qsort(order, (size_t)p->n, sizeof *order, by_name);
    for (int64_t k = 0; k < p->n; k++) {
        const int again = k > 0 && strcmp(order[k].name, order[k - 1].name) == 0;
        p->row[order[k].sample] = again ? p->row[order[k - 1].sample] : order[k].sample;
    }
    return GLOFND_OK;
}

static void mark_unreadable(void *user, int64_t i, const char *message) {
    pairing *p = user;
    p->row[i] = -1;
    if (p->report->unreadable) p->report->unreadable(p->report->user, i, message);
}

static void pass_progress(void *user, int64_t done, int64_t total) {
    const pairing *p = user;
    if (p->report->progress) p->report->progress(p->report->user, done, total);
}

static void move_row(gf_features *f, int64_t to, int64_t from) {
    if (to == from) return;
    memcpy(f->x + to * f->dim, f->x + from * f->dim, (size_t)f->dim * sizeof *f->x);
    f->label[to] = f->label[from];
}

static glofnd_status encode_both(gf_error *err, pairing *p, gf_run_encoder *image, gf_run_encoder *text, gf_text_pairs *out) {
    TRY(gf_captions_require(err, p->data));
    gf_string_list names = {0};
    named *order = malloc((size_t)p->n * sizeof *order);
    p->row = malloc((size_t)p->n * sizeof *p->row);
    p->id = malloc((size_t)p->n * sizeof *p->id);
    glofnd_status status = order && p->row && p->id ? find_first_names(err, p, &names, order)
                                                    : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld names", (long long)p->n);
    gf_string_list_free(&names);
    free(order);
    for (int64_t i = 0; status == GLOFND_OK && i < p->n; i++)
        if (p->row[i] == i) p->id[p->ids++] = i;
    TRY(status);
    out->repeated = p->n - p->ids;
    const gf_encode_spec spec = {
        .ids = p->id, .id_count = p->ids, .aligned = 1, .unreadable = mark_unreadable, .progress = pass_progress, .user = p};
    TRY(gf_encode_samples(err, image, p->data, &spec, &out->image));
    /* Removes the rows of unreadable images; row[i] becomes the row of sample i's image. First ones come before their repetitions. */
    int64_t rows = 0, k = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const int first = k < p->ids && p->id[k] == i;
        if (!first) p->row[i] = p->row[p->row[i]];
        else if (p->row[i] >= 0) move_row(&out->image, rows, k), p->row[i] = rows++;
        k += first;
    }
    out->image.n = rows;
    TRY(gf_encode_captions(err, text, p->data, &p->report[1], &out->text, &out->owner));
    /* owner changes from samples to rows of images; captions of unreadable images are dropped. */
    int64_t kept = 0;
    for (int64_t i = 0; i < out->text.n; i++) {
        const int64_t row = p->row[out->owner[i]];
        if (row < 0) continue;
        move_row(&out->text, kept, i);
        out->owner[kept++] = row;
    }
    out->lost = out->text.n - kept;
    out->text.n = kept;
    FAIL_IF(err, out->text.n == 0, GLOFND_E_FORMAT, "no readable image has a caption");
    return GLOFND_OK;
}

glofnd_status gf_encode_pairs(gf_error *err, gf_run_encoder *image, gf_run_encoder *text, const gf_dataset *data,
                              const gf_encode_spec report[2], gf_text_pairs *out) {
    pairing p = {.data = data, .report = report, .n = gf_dataset_describe(data).n};
    *out = (gf_text_pairs){0};
    const glofnd_status status = encode_both(err, &p, image, text, out);
    if (status != GLOFND_OK) gf_text_pairs_free(out);
    free(p.row);
    free(p.id);
    return status;
}

void gf_text_pairs_free(gf_text_pairs *p) {
    gf_features_free(&p->image);
    gf_features_free(&p->text);
    free(p->owner);
    *p = (gf_text_pairs){0};
}

/* ----- normalisation of features. Sums in double, in the order of the rows ----- */

void gf_features_unit(gf_features *f) {
    for (int64_t i = 0; i < f->n; i++) {
        float *row = f->x + i * f->dim;
        double sum = 0.0;
        for (int64_t a = 0; a < f->dim; a++) sum += (double)row[a] * (double)row[a];
        const double scale = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
        for (int64_t a = 0; a < f->dim; a++) row[a] = (float)(scale * (double)row[a]);
    }
}

static void shift_and_scale(gf_features *f, const double *mean, const double *deviation) {
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t a = 0; a < f->dim; a++) {
            float *x = &f->x[i * f->dim + a];
            *x = (float)(((double)*x - mean[a]) / (deviation[a] > 0.0 ? deviation[a] : 1.0));
        }
}

glofnd_status gf_features_standardise(gf_error *err, gf_features *train, gf_features *test) {
    double *mean = malloc(2 * (size_t)train->dim * sizeof *mean), *deviation = mean + train->dim;
    FAIL_IF(err, !mean, GLOFND_E_MEMORY, "no memory to standardise %lld features", (long long)train->dim);
    /* mean, deviation [dim] */
    for (int64_t a = 0; a < train->dim; a++) mean[a] = deviation[a] = 0.0;
    for (int64_t i = 0; i < train->n; i++)
        for (int64_t a = 0; a < train->dim; a++) mean[a] += (double)train->x[i * train->dim + a];
    for (int64_t a = 0; a < train->dim; a++) mean[a] /= (double)train->n;
    for (int64_t i = 0; i < train->n; i++)
        for (int64_t a = 0; a < train->dim; a++) {
            const double d = (double)train->x[i * train->dim + a] - mean[a];
            deviation[a] += d * d;
        }
    for (int64_t a = 0; a < train->dim; a++) deviation[a] = sqrt(deviation[a] / (double)train->n);
    shift_and_scale(train, mean, deviation);
    if (test) shift_and_scale(test, mean, deviation);
    free(mean);
    return GLOFND_OK;
}

/* ----- view set ----- */

glofnd_status gf_view_set_alloc(gf_error *err, gf_view_set *s, int64_t n, int64_t dim) {
    *s = (gf_view_set){.n = n, .dim = dim};
    FAIL_IF(err, n < 1 || dim < 1 || (size_t)n > SIZE_MAX / sizeof(float) / (size_t)dim, GLOFND_E_ARGUMENT,
            "%lld embeddings of %lld numbers are too large", (long long)n, (long long)dim);
    s->z = malloc((size_t)n * (size_t)dim * sizeof *s->z);
    s->id = malloc((size_t)n * sizeof *s->id);
    s->label = malloc((size_t)n * sizeof *s->label);
    if (s->z && s->id && s->label) return GLOFND_OK;
    gf_view_set_free(s);
    GF_FAIL(err, GLOFND_E_MEMORY, "no memory for %lld embeddings of %lld numbers", (long long)n, (long long)dim);
}

void gf_view_set_free(gf_view_set *s) {
    if (!s) return;
    free(s->z);
    free(s->id);
    free(s->label);
    *s = (gf_view_set){0};
}
