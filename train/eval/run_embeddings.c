/* run_embeddings.c - a trained run: its embeddings, thresholds and captions, its data, and networks by their weights. See encode.h. */
#include "eval/encode.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/captions.h"
#include "data/spec.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "loader/loader.h"
#include "loop/anchors.h"
#include "loop/trainer.h"
#include "run/resume.h"
#include "util/array.h"
#include "util/components.h"
#include "util/rng.h"
#include "util/text.h"

struct gf_trained_run {
    gf_trained_run_spec spec;
    gf_run_encoder *encoder;
    gf_run_encoder *captions; /* task clip; else NULL */
    gf_dataset *data;
    gf_dataset_info info;
    gf_learned learned;
    char changes[200]; /* gf_trained_run_changes */
};

static glofnd_status open_run(gf_error *err, gf_trained_run *f) {
    const gf_run_encoder_spec images = {.run = f->spec.run, .head = 1, .placement = f->spec.placement};
    const gf_run_encoder_spec captions = {.run = f->spec.run, .text = 1, .placement = f->spec.placement};
    TRY(gf_run_encoder_create(err, &images, &f->encoder));
    const gf_config *c = gf_run_encoder_config(f->encoder);
    if (c->task == GF_TASK_CLIP) TRY(gf_run_encoder_create(err, &captions, &f->captions));
    const int given = f->spec.data && *f->spec.data;
    const char *data = given ? f->spec.data : gf_run_encoder_data(f->encoder);
    const glofnd_status status = gf_dataset_open(err, data, &f->data);
    TRY(given ? status : gf_run_encoder_data_hint(err, status));
    f->info = gf_dataset_describe(f->data);
    TRY(gf_learned_read(err, f->spec.run, c, f->data, data, f->spec.partial, &f->learned));
    const gf_learned *l = &f->learned;
    if (l->lost || l->fresh)
        snprintf(f->changes, sizeof f->changes,
                 "%lld samples of the training are missing in this data, and %lld are new: the thresholds of the others are used",
                 (long long)l->lost, (long long)l->fresh);
    /* A run that trains may have replaced its checkpoint between two of the reads. */
    const int64_t step_images = gf_run_encoder_state(f->encoder)->step;
    const int64_t texts = f->captions ? gf_run_encoder_state(f->captions)->step : step_images, learned = f->learned.step;
    FAIL_IF(err, step_images != texts || (learned >= 0 && step_images != learned), GLOFND_E_IO,
            "%s went on training while it was read, from step %lld to %lld; call again", f->spec.run, (long long)step_images,
            (long long)(step_images != texts ? texts : learned));
    return GLOFND_OK;
}

glofnd_status gf_trained_run_create(gf_error *err, const gf_trained_run_spec *spec, gf_trained_run **out) {
    gf_trained_run *f = calloc(1, sizeof *f);
    *out = NULL;
    FAIL_IF(err, !f, GLOFND_E_MEMORY, "no memory for a trained run");
    f->spec = *spec;
    const glofnd_status status = open_run(err, f);
    if (status == GLOFND_OK) *out = f;
    else gf_trained_run_free(f);
    return status;
}

void gf_trained_run_free(gf_trained_run *f) {
    if (!f) return;
    gf_run_encoder_free(f->encoder);
    gf_run_encoder_free(f->captions);
    gf_dataset_free(f->data);
    gf_learned_free(&f->learned);
    free(f);
}

const gf_config *gf_trained_run_config(const gf_trained_run *f) { return gf_run_encoder_config(f->encoder); }
gf_dataset_info gf_trained_run_info(const gf_trained_run *f) { return f->info; }
const char *gf_trained_run_changes(const gf_trained_run *f) { return f->changes; }
int gf_trained_run_threads(const gf_trained_run *f) { return gf_run_encoder_threads(f->encoder); }
const gf_run_encoder *gf_trained_run_encoder(const gf_trained_run *f) { return f->encoder; }
gf_run_encoder *gf_trained_run_captions(const gf_trained_run *f) { return f->captions; }

static void report_progress(const gf_trained_run *f, int64_t done, int64_t total) {
    if (f->spec.progress) f->spec.progress(f->spec.user, done, total);
}

static gf_loader_spec loader_spec(const gf_trained_run *f) {
    const gf_config *c = gf_trained_run_config(f);
    return (gf_loader_spec){
        .data = f->data,
        .augment = gf_views_recipe(c),
        .seed = (uint64_t)c->seed,
        .workers = gf_trained_run_threads(f),
        .depth = 2,
        .max_pixels = c->max_pixels,
        .fast = c->decode == GF_DECODE_FAST,
        .unreadable = f->spec.unreadable,
        .user = f->spec.user,
    };
}

/* ----- centre crops ----- */

static glofnd_status place_all(gf_error *err, gf_trained_run *f, gf_loader *loader, const int64_t *place, float *scratch,
                               gf_view_set *s) {
    gf_batch b;
    for (int64_t done = 0;; done += b.n) {
        TRY(gf_loader_next(err, loader, &b));
        if (b.n == 0) return GLOFND_OK;
        /* Encodes the samples of a batch that belong to `s`; scratch: images of a batch, then embeddings. */
        const int64_t pixels = (int64_t)gf_trained_run_config(f)->size * gf_trained_run_config(f)->size * 3;
        float *z = scratch + b.n * pixels;
        int64_t kept = 0;
        for (int64_t i = 0; i < b.n; i++)
            if (place[b.id[i]] < s->n)
                memcpy(scratch + kept++ * pixels, b.view[0] + i * pixels, (size_t)pixels * sizeof *scratch);
        TRY(gf_run_encoder_images(err, f->encoder, scratch, kept, z));
        for (int64_t i = 0; i < b.n; i++) {
            const int64_t at = place[b.id[i]];
            if (at >= s->n) continue;
            memcpy(s->z + at * s->dim, z, (size_t)s->dim * sizeof *z);
            s->id[at] = b.id[i], s->label[at] = b.label[i];
            z += s->dim;
        }
        report_progress(f, done + b.n, f->info.n);
    }
}

glofnd_status gf_trained_run_centre_crops(gf_error *err, gf_trained_run *f, int64_t max, gf_view_set *out) {
    const gf_config *c = gf_trained_run_config(f);
    const int64_t batch = 128, pixels = (int64_t)c->size * c->size * 3, dim = gf_run_encoder_dim(f->encoder);
    gf_loader_spec spec = loader_spec(f);
    spec.views = 0, spec.batch = batch;
    gf_views_centre_crop(c, &spec);
    gf_loader *loader = NULL;
    *out = (gf_view_set){0};
    float *scratch = malloc((size_t)batch * (size_t)(pixels + dim) * sizeof *scratch);
    /* [n] position of each sample in the order of training. */
    int64_t *place = malloc((size_t)f->info.n * sizeof *place);
    if (!place) gf_fail(err, GLOFND_E_MEMORY, "no memory for the order of %lld samples", (long long)f->info.n);
    for (int64_t i = 0; place && i < f->info.n; i++) place[gf_permute((uint64_t)c->seed, (uint32_t)c->epochs, f->info.n, i)] = i;
    glofnd_status status = place ? GLOFND_OK : GLOFND_E_MEMORY;
    if (status == GLOFND_OK && !scratch) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for a batch of images");
    if (status == GLOFND_OK) status = gf_view_set_alloc(err, out, GF_MIN(f->info.n, max), dim);
    for (int64_t i = 0; status == GLOFND_OK && i < out->n; i++) out->id[i] = -1;
    if (status == GLOFND_OK) status = gf_loader_create(err, &spec, &loader);
    if (status == GLOFND_OK) status = place_all(err, f, loader, place, scratch, out);
    if (status == GLOFND_OK) {
        /* Removes the rows of unreadable samples, whose id is -1. */
        int64_t kept = 0;
        for (int64_t i = 0; i < out->n; i++) {
            if (out->id[i] < 0) continue;
            memmove(out->z + kept * out->dim, out->z + i * out->dim, (size_t)out->dim * sizeof *out->z);
            out->id[kept] = out->id[i], out->label[kept] = out->label[i];
            kept++;
        }
        out->n = kept;
    } else gf_view_set_free(out);
    gf_loader_free(loader);
    free(place);
    free(scratch);
    return status;
}

/* ----- augmented views ----- */

/* Embeddings of the images of a batch, into every other row of `s` from `first` on. */
static glofnd_status encode_every_other(gf_error *err, gf_trained_run *f, const gf_batch *b, int view, int64_t first,
                                        float *scratch, gf_view_set *s) {
    TRY(gf_run_encoder_images(err, f->encoder, b->view[view], b->n, scratch));
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t at = first + 2 * i;
        memcpy(s->z + at * s->dim, scratch + i * s->dim, (size_t)s->dim * sizeof *scratch);
        s->id[at] = b->id[i], s->label[at] = b->label[i];
    }
    return GLOFND_OK;
}

static glofnd_status encode_both_views(gf_error *err, gf_trained_run *f, gf_loader *loader, float *scratch, gf_view_set *s) {
    gf_batch b;
    for (int64_t done = 0; done < s->n; done += 2 * b.n) {
        TRY(gf_loader_next(err, loader, &b));
        for (int v = 0; v < 2; v++) TRY(encode_every_other(err, f, &b, v, done + v, scratch, s));
        report_progress(f, done + 2 * b.n, s->n);
    }
    return GLOFND_OK;
}

/* One view of every sample. */
static glofnd_status encode_one_view(gf_error *err, gf_trained_run *f, gf_loader *loader, int view, float *scratch,
                                     gf_view_set *s) {
    gf_batch b;
    int64_t done = 0;
    for (;; done += b.n) {
        TRY(gf_loader_next(err, loader, &b));
        if (b.n == 0) break;
        TRY(encode_every_other(err, f, &b, 0, 2 * done + view, scratch, s));
        report_progress(f, done + b.n, s->n / 2);
    }
    FAIL_IF(err, 2 * done != s->n, GLOFND_E_IO, "%lld of %lld images can no longer be read", (long long)(s->n / 2 - done),
            (long long)(s->n / 2));
    return GLOFND_OK;
}

glofnd_status gf_trained_run_augmented(gf_error *err, gf_trained_run *f, int64_t batch, int64_t samples, int epochs,
                                       gf_view_set *out) {
    const gf_config *c = gf_trained_run_config(f);
    gf_loader_spec spec = loader_spec(f);
    spec.views = 2, spec.batch = GF_MIN(batch, f->info.n);
    FAIL_IF(err, spec.batch < 2, GLOFND_E_ARGUMENT, "%lld samples have no pairs", (long long)spec.batch);
    const int64_t wanted = (samples + spec.batch - 1) / spec.batch, limit = epochs ? f->info.n / spec.batch * epochs : wanted;
    const int64_t batches = wanted < 1 ? 1 : GF_MIN(wanted, limit);
    gf_loader *loader = NULL;
    float *scratch = malloc((size_t)spec.batch * (size_t)gf_run_encoder_dim(f->encoder) * sizeof *scratch);
    glofnd_status status = scratch ? gf_view_set_alloc(err, out, 2 * spec.batch * batches, gf_run_encoder_dim(f->encoder))
                                   : gf_fail(err, GLOFND_E_MEMORY, "no memory for a batch of embeddings");
    if (status == GLOFND_OK) {
        status = gf_loader_create(err, &spec, &loader);
        if (status == GLOFND_OK) status = gf_loader_seek(err, loader, (uint32_t)c->epochs, 0);
        if (status == GLOFND_OK) status = encode_both_views(err, f, loader, scratch, out);
        if (status != GLOFND_OK) gf_view_set_free(out);
    }
    gf_loader_free(loader);
    free(scratch);
    return status;
}

glofnd_status gf_trained_run_draw(gf_error *err, gf_trained_run *f, const int64_t *id, int64_t n, int draw, gf_view_set *out) {
    gf_loader_spec spec = loader_spec(f);
    spec.views = 1, spec.once = 1, spec.first_view = 2 * draw, spec.batch = GF_MIN(n, 128);
    spec.ids = id, spec.id_count = n;
    *out = (gf_view_set){0};
    float *scratch = malloc((size_t)spec.batch * (size_t)gf_run_encoder_dim(f->encoder) * sizeof *scratch);
    FAIL_IF(err, !scratch, GLOFND_E_MEMORY, "no memory for a batch of embeddings");
    glofnd_status status = gf_view_set_alloc(err, out, 2 * n, gf_run_encoder_dim(f->encoder));
    for (int view = 0; view < 2 && status == GLOFND_OK; view++) {
        gf_loader *loader = NULL;
        spec.first_view += view;
        status = gf_loader_create(err, &spec, &loader);
        if (status == GLOFND_OK) status = gf_loader_seek(err, loader, (uint32_t)gf_trained_run_config(f)->epochs, 0);
        if (status == GLOFND_OK) status = encode_one_view(err, f, loader, view, scratch, out);
        gf_loader_free(loader);
    }
    if (status != GLOFND_OK) gf_view_set_free(out);
    free(scratch);
    return status;
}

int64_t gf_trained_run_lambda(const gf_trained_run *f, int side, const int64_t *id, int64_t n, float *lambda) {
    int64_t learned = 0;
    for (int64_t i = 0; i < n; i++) {
        lambda[i] = side < f->learned.sides ? f->learned.at[side][id[i]] : NAN;
        learned += !isnan(lambda[i]);
    }
    return learned;
}

/* ----- captions ----- */

enum { PART = 512 }; /* captions encoded at a time */

typedef struct caption_reader { /* of captions */
    gf_error *err;
    const gf_trained_run *f;
    gf_run_encoder *e;
    const gf_dataset *data;
    int context;
    gf_sample sample;
    gf_bpe_scratch scratch;
    int32_t *token; /* [PART][context] */
} caption_reader;

static glofnd_status open_captions(gf_error *err, const gf_trained_run *f, caption_reader *x) {
    *x = (caption_reader){.err = err, .f = f, .e = gf_trained_run_captions(f), .data = f->data};
    FAIL_IF(err, !x->e, GLOFND_E_ARGUMENT, "a run on images alone has no captions");
    x->context = gf_trained_run_config(f)->context;
    x->token = malloc((size_t)PART * (size_t)x->context * sizeof *x->token);
    FAIL_IF(err, !x->token, GLOFND_E_MEMORY, "no memory for %d captions", (int)PART);
    return GLOFND_OK;
}

static void close_captions(caption_reader *x) {
    gf_sample_free(&x->sample);
    gf_bpe_scratch_free(&x->scratch);
    free(x->token);
}

/* Drops images without a caption; both sets end with the rows of the others. */
static glofnd_status encode_texts(caption_reader *x, gf_view_set *image, gf_view_set *text) {
    const gf_config *c = gf_trained_run_config(x->f);
    int64_t kept = 0, done = 0;
    for (int64_t i = 0; i < image->n; i++) {
        gf_error why = {{0}};
        /* The caption that training would draw; E_FORMAT, E_IO: none. */
        glofnd_status status = gf_dataset_text(&why, x->data, image->id[i], &x->sample);
        if (status == GLOFND_OK)
            status = gf_tokens_draw(&why, gf_run_encoder_vocabulary(x->e), &x->scratch, x->data, image->id[i], x->sample.text,
                                    (uint64_t)c->seed, (uint32_t)c->epochs, x->context, x->token + (kept - done) * x->context);
        FAIL_IF(x->err, status != GLOFND_OK && status != GLOFND_E_FORMAT && status != GLOFND_E_IO, status, "%s", why.text);
        if (status != GLOFND_OK) {
            if (x->f->spec.unreadable) x->f->spec.unreadable(x->f->spec.user, image->id[i], why.text);
        } else {
            const int64_t to = kept++;
            if (to != i) memcpy(image->z + to * image->dim, image->z + i * image->dim, (size_t)image->dim * sizeof *image->z);
            image->id[to] = image->id[i], image->label[to] = image->label[i];
        }
        if (kept - done < PART && i + 1 < image->n) continue;
        TRY(gf_run_encoder_tokens(x->err, x->e, x->token, kept - done, text->z + done * text->dim));
        done = kept;
    }
    FAIL_IF(x->err, kept < 2, GLOFND_E_ARGUMENT, "%lld samples have an image and a caption; pairs need two", (long long)kept);
    image->n = text->n = kept;
    memcpy(text->id, image->id, (size_t)kept * sizeof *text->id);
    memcpy(text->label, image->label, (size_t)kept * sizeof *text->label);
    image->others = text, text->others = image;
    return GLOFND_OK;
}

glofnd_status gf_trained_run_image_text(gf_error *err, gf_trained_run *f, int64_t max, gf_view_set *image, gf_view_set *text) {
    caption_reader x = {0};
    *image = *text = (gf_view_set){0};
    glofnd_status status = open_captions(err, f, &x);
    if (status == GLOFND_OK) status = gf_trained_run_centre_crops(err, f, max, image);
    if (status == GLOFND_OK) status = gf_view_set_alloc(err, text, image->n, image->dim);
    if (status == GLOFND_OK) status = encode_texts(&x, image, text);
    if (status != GLOFND_OK) gf_view_set_free(image), gf_view_set_free(text);
    close_captions(&x);
    return status;
}

/* ----- groups of samples that share a caption ----- */

typedef struct row_caption {
    uint64_t hash;
    int64_t row;
} row_caption;

typedef struct caption_list {
    row_caption *at;
    int64_t n;
    size_t capacity;
} caption_list;

static int by_hash(const void *a, const void *b) {
    const row_caption *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : (x->row > y->row) - (x->row < y->row);
}

static glofnd_status list_captions(caption_reader *x, const gf_view_set *s, caption_list *out) {
    for (int64_t i = 0; i < s->n; i++) {
        TRY(gf_dataset_text(x->err, x->data, s->id[i], &x->sample));
        for (int64_t k = gf_captions_count(x->sample.text) - 1; k >= 0; k--) {
            const gf_caption c = gf_caption_at(x->sample.text, k);
            int count = 0;
            if (c.n > GF_WORDS_TEXT_MAX) continue;
            TRY(gf_bpe_encode(x->err, gf_run_encoder_vocabulary(x->e), &x->scratch, c.text, c.n, x->context, x->token, &count));
            if (count <= 2) continue;
            FAIL_IF(x->err, !gf_grow(&out->at, &out->capacity, (size_t)out->n + 1, sizeof *out->at), GLOFND_E_MEMORY,
                    "no memory for %lld captions", (long long)out->n + 1);
            out->at[out->n++] = (row_caption){gf_tokens_hash(x->token, x->context), i};
        }
    }
    return GLOFND_OK;
}

glofnd_status gf_trained_run_caption_groups(gf_error *err, const gf_trained_run *f, gf_view_set *image, gf_view_set *text,
                                            int64_t *repeated) {
    caption_reader x = {0};
    caption_list l = {0};
    FAIL_IF(err, image->n > INT32_MAX, GLOFND_E_ARGUMENT, "more than %d samples cannot be grouped", INT32_MAX);
    glofnd_status status = open_captions(err, f, &x);
    if (status == GLOFND_OK) status = list_captions(&x, image, &l);
    if (status == GLOFND_OK) {
        qsort(l.at, (size_t)l.n, sizeof *l.at, by_hash);
        /* Labels of s become the smallest row of their group. */
        gf_components_init(image->label, image->n);
        for (int64_t k = 1; k < l.n; k++)
            if (l.at[k].hash == l.at[k - 1].hash)
                gf_components_join(image->label, (int32_t)l.at[k].row, (int32_t)l.at[k - 1].row);
        gf_components_flatten(image->label, image->n);
        *repeated = 0;
        for (int64_t i = 0; i < image->n; i++) *repeated += image->label[i] != i;
        memcpy(text->label, image->label, (size_t)image->n * sizeof *text->label);
    }
    close_captions(&x);
    free(l.at);
    return status;
}

/* ----- where the data of a run is ----- */

/* 1: the folder has an entry whose name begins with `stem`. */
static int has_entry(const char *folder, const char *stem) {
    int error = 0, found = 0;
    DIR *d = gf_open_folder(folder);
    for (struct dirent *e; d && !found && (e = gf_next_entry(d, &error));)
        found = e->d_name[0] != '.' && strncmp(e->d_name, stem, strlen(stem)) == 0;
    if (d) closedir(d);
    return found;
}

/* 1: there is such a file or folder; of a pattern, something that begins as it does. */
static int place_exists(const char *place) {
    char prefix[PATH_MAX];
    const size_t n = strcspn(place, "*?[{");
    if (!place[n]) return access(place, F_OK) == 0;
    if (n >= sizeof prefix) return 0;
    memcpy(prefix, place, n);
    prefix[n] = 0;
    char *slash = strrchr(prefix, '/');
    if (!slash) return has_entry(".", prefix);
    *slash = 0;
    return has_entry(slash == prefix ? "/" : prefix, slash + 1);
}

/* Options follow the place in the text of the SPEC. */
static int find_above(char base[PATH_MAX], const gf_spec *s, const char *rest, char *out, size_t bytes) {
    char place[PATH_MAX];
    for (char *end = base + strlen(base); end && end > base; end = strrchr(base, '/')) {
        *end = 0;
        const int n = snprintf(place, sizeof place, "%s/%s", base, s->place);
        if (n < 0 || (size_t)n >= sizeof place || !place_exists(place)) continue;
        const int m = snprintf(out, bytes, "%s:%s/%s", s->format, base, rest);
        return m > 0 && (size_t)m < bytes;
    }
    return 0;
}

int gf_run_data_find(const char *run, const char *spec, char *out, size_t bytes) {
    char base[PATH_MAX];
    gf_spec s = {0};
    int found = 0;
    if (gf_spec_parse(NULL, spec, &s) == GLOFND_OK) {
        const int relative = *s.place && *s.place != '/' && strcmp(s.format, "shapes") != 0;
        if (relative && !place_exists(s.place) && realpath(run, base))
            found = find_above(base, &s, strchr(spec, ':') + 1, out, bytes);
        gf_spec_free(&s);
    }
    if (!found) snprintf(out, bytes, "%s", spec);
    return found;
}

glofnd_status gf_run_data_of(gf_error *err, const char *run, char *out, size_t bytes) {
    gf_config c;
    const char *was;
    TRY(gf_config_init(err, &c));
    TRY(gf_resume_read(err, run, &c, &was));
    FAIL_IF(err, !*c.data, GLOFND_E_IO, "%.300s is not the folder of a run: it names no data", run);
    gf_run_data_find(run, c.data, out, bytes);
    return GLOFND_OK;
}

/* ----- the network that a file of weights belongs to ----- */

#define HEAD_WIDTH 64 /* numbers of an attention head in all of open_clip's models of CLIP */

/* Image encoders of open_clip have "visual." in front of their names, or are alone in the file. */
static const gf_st_tensor *find_tensor(const gf_st_file *f, const char *name) {
    char full[128];
    snprintf(full, sizeof full, "visual.%s", name);
    const gf_st_tensor *t = gf_st_find(f, full);
    return t ? t : gf_st_find(f, name);
}

/* Axis `axis` of a tensor; 0: there is none, or none that a network of this program can have. */
static int32_t axis_of(const gf_st_file *f, const char *name, int rank, int axis) {
    const gf_st_tensor *t = find_tensor(f, name);
    return t && t->rank == rank && t->shape[axis] > 0 && t->shape[axis] <= 65536 ? (int32_t)t->shape[axis] : 0;
}

/* Positions are a square and one more. */
static int32_t side_of(int32_t positions) {
    int32_t side = 0;
    while ((side + 1) * (side + 1) < positions && side < 1024) side++;
    return side * side + 1 == positions ? side : 0;
}

static void set_clip(gf_config *c) {
    c->task = GF_TASK_CLIP;
    c->pixels = GF_PIXELS_CLIP;
    c->eval_view = GF_EVAL_CLIP;
}

static int read_vit(const gf_st_file *f, gf_config *c) {
    set_clip(c);
    c->arch = GF_ARCH_VIT;
    c->image_width = axis_of(f, "class_embedding", 1, 0);
    c->patch = axis_of(f, "conv1.weight", 4, 2);
    char name[96];
    int32_t n = 0;
    for (; n < 256; n++) {
        snprintf(name, sizeof name, "transformer.resblocks.%d.ln_1.weight", (int)n);
        if (!find_tensor(f, name)) break;
    }
    c->image_layers = n;
    c->image_heads = c->image_width / HEAD_WIDTH;
    if (c->image_width && c->image_width < HEAD_WIDTH) c->image_heads = 1;
    c->embed_dim = axis_of(f, "proj", 2, 1);
    const int64_t size = (int64_t)side_of(axis_of(f, "positional_embedding", 2, 0)) * c->patch;
    c->size = size <= 4096 ? (int32_t)size : 0;
    return c->image_width && c->patch && c->image_layers && c->image_heads && c->embed_dim && c->size;
}

static int read_clip_resnet(const gf_st_file *f, gf_config *c) {
    set_clip(c);
    c->arch = GF_ARCH_CLIP_RESNET50;
    c->embed_dim = axis_of(f, "attnpool.c_proj.weight", 2, 0);
    c->size = 32 * side_of(axis_of(f, "attnpool.positional_embedding", 2, 0));
    return c->embed_dim && c->size;
}

/* Blocks of the stages tell them apart. */
static int read_resnet(const gf_st_file *f, const gf_dataset *data, gf_config *c) {
    const int32_t kernel = axis_of(f, "conv1.weight", 4, 2), dim = axis_of(f, "proj.weight", 2, 0);
    if (dim) set_clip(c), c->embed_dim = dim;
    c->stem = kernel == 3;
    if (!find_tensor(f, "layer4.0.conv1.weight")) c->arch = GF_ARCH_RESNET8;
    else if (find_tensor(f, "layer1.0.conv3.weight")) c->arch = GF_ARCH_RESNET50;
    else c->arch = find_tensor(f, "layer3.5.conv1.weight") ? GF_ARCH_RESNET34 : GF_ARCH_RESNET18;
    const gf_sizes sizes = c->stem ? gf_dataset_sizes(data) : (gf_sizes){0};
    c->size = c->stem ? gf_sizes_default_view(&sizes) : GF_SIZES_VIEW;
    return (kernel == 3 || kernel == 7) && find_tensor(f, "layer1.0.conv1.weight") != NULL;
}

/* Characters in front of the names of all tensors of a ResNet or ViT, as in "encoder.layer1.0.conv1.weight"; 0: none. */
static int prefix_of(const gf_st_file *f, const char **of) {
    static const char *const ends[] = {".layer1.0.conv1.weight", ".class_embedding"};
    for (int64_t i = 0; i < f->count; i++)
        for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
            const size_t n = strlen(f->tensors[i].name), end = strlen(ends[e]);
            *of = f->tensors[i].name;
            if (n > end && n < 64 && strcmp(*of + n - end, ends[e]) == 0) return (int)(n - end + 1);
        }
    return 0;
}

static glofnd_status read_file(gf_error *err, const gf_st_file *f, const gf_weights_request *request, const gf_dataset *data,
                               gf_config *c) {
    char arch[32];
    const int known = find_tensor(f, "class_embedding")                 ? read_vit(f, c)
                      : find_tensor(f, "attnpool.positional_embedding") ? read_clip_resnet(f, c)
                                                                        : read_resnet(f, data, c);
    if (!known) {
        const char *name, *missing = NULL;
        if (find_tensor(f, "layer2.0.conv1.weight")) /* a ResNet, which has these */
            missing = !find_tensor(f, "conv1.weight")            ? "conv1.weight"
                      : !find_tensor(f, "layer1.0.conv1.weight") ? "layer1.0.conv1.weight"
                                                                 : NULL;
        const int prefix = prefix_of(f, &name);
        FAIL_IF(err, missing, GLOFND_E_FORMAT,
                "%.200s: the tensor %s is missing, which every ResNet has; save all of model.state_dict() again", f->path,
                missing);
        FAIL_IF(err, prefix > 0, GLOFND_E_FORMAT,
                "%.200s: its tensors have '%.*s' in front of their names; leave it out: "
                "python -m glofnd convert x.pth x.safetensors --prefix %.*s",
                f->path, prefix, name, prefix, name);
        GF_FAIL(err, GLOFND_E_FORMAT,
                "%.200s: its tensors ('%.80s' and %lld more) are those of no network that is known here: resnet18, resnet34 and "
                "resnet50 "
                "of torchvision, ResNet-50 and ViTs of open_clip, models of this program",
                f->path, f->count ? f->tensors[0].name : "", (long long)(f->count ? f->count - 1 : 0));
    }
    gf_config_text(c, "arch", arch, sizeof arch);
    FAIL_IF(err, request->arch && strcmp(request->arch, arch) != 0, GLOFND_E_FORMAT,
            "%.300s holds a %s by its tensors; --arch is %.60s", f->path, arch, request->arch);
    if (request->size) c->size = request->size;
    c->quick_gelu = request->quick_gelu;
    return GLOFND_OK;
}

glofnd_status gf_weights_config(gf_error *err, const char *path, const gf_weights_request *request, const gf_dataset *data,
                                gf_config *out) {
    gf_st_file f = {0};
    TRY(gf_config_init(err, out));
    out->eval_view = GF_EVAL_CENTER, out->stem = 0;
    TRY(gf_st_open(err, path, &f));
    const glofnd_status status = read_file(err, &f, request, data, out);
    gf_st_close(&f);
    return status;
}
