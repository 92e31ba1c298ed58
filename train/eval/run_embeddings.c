/* run_embeddings.c - see run_embeddings.h. */
#include "eval/run_embeddings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/encode.h"
#include "loop/learned_thresholds.h"
#include "loop/trainer.h"
#include "util/array.h"
#include "util/rng.h"

struct gf_trained_run {
    gf_trained_run_spec spec;
    gf_run_encoder *encoder;
    gf_run_encoder *captions; /* task clip; else NULL */
    gf_dataset *data;
    gf_dataset_info info;
    gf_learned learned;
    char changes[200]; /* gf_trained_run_changes */
};

/* A run that trains may have replaced its checkpoint between two of the reads. */
static glofnd_status check_one_step(gf_error *err, const gf_trained_run *f) {
    const int64_t images = gf_run_encoder_state(f->encoder)->step;
    const int64_t texts = f->captions ? gf_run_encoder_state(f->captions)->step : images, learned = f->learned.step;
    FAIL_IF(err, images != texts || (learned >= 0 && images != learned), GLOFND_E_IO,
            "%s went on training while it was read, from step %lld to %lld; call again", f->spec.run, (long long)images,
            (long long)(images != texts ? texts : learned));
    return GLOFND_OK;
}

static void describe_changes(gf_trained_run *f) {
    const gf_learned *l = &f->learned;
    if (l->lost || l->fresh)
        snprintf(f->changes, sizeof f->changes,
                 "%lld samples of the training are missing in this data, and %lld are new: the thresholds of the others are used",
                 (long long)l->lost, (long long)l->fresh);
}

static glofnd_status init_run(gf_error *err, gf_trained_run *f) {
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
    describe_changes(f);
    return check_one_step(err, f);
}

glofnd_status gf_trained_run_create(gf_error *err, const gf_trained_run_spec *spec, gf_trained_run **out) {
    gf_trained_run *f = calloc(1, sizeof *f);
    *out = NULL;
    FAIL_IF(err, !f, GLOFND_E_MEMORY, "no memory for a trained run");
    f->spec = *spec;
    const glofnd_status status = init_run(err, f);
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
const gf_dataset *gf_trained_run_data(const gf_trained_run *f) { return f->data; }
const gf_run_encoder *gf_trained_run_encoder(const gf_trained_run *f) { return f->encoder; }
gf_run_encoder *gf_trained_run_captions(const gf_trained_run *f) { return f->captions; }

void gf_trained_run_report_unreadable(const gf_trained_run *f, int64_t i, const char *message) {
    if (f->spec.unreadable) f->spec.unreadable(f->spec.user, i, message);
}

static void report_progress(const gf_trained_run *f, int64_t done, int64_t total) {
    if (f->spec.progress) f->spec.progress(f->spec.user, done, total);
}

static gf_loader_spec loader_spec(const gf_trained_run *f) {
    const gf_config *c = gf_trained_run_config(f);
    return (gf_loader_spec){
        .data = f->data,
        .augment = gf_trainer_recipe(c),
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

/* [n] position of each sample in the order of training. */
static int64_t *training_order(gf_error *err, const gf_trained_run *f) {
    const gf_config *c = gf_trained_run_config(f);
    int64_t *place = malloc((size_t)f->info.n * sizeof *place);
    if (!place) gf_fail(err, GLOFND_E_MEMORY, "no memory for the order of %lld samples", (long long)f->info.n);
    for (int64_t i = 0; place && i < f->info.n; i++) place[gf_permute((uint64_t)c->seed, (uint32_t)c->epochs, f->info.n, i)] = i;
    return place;
}

/* Encodes the samples of a batch that belong to `s`; scratch: images of a batch, then embeddings. */
static glofnd_status place_batch(gf_error *err, gf_trained_run *f, const gf_batch *b, const int64_t *place, float *scratch,
                                 gf_view_set *s) {
    const int64_t pixels = (int64_t)gf_trained_run_config(f)->size * gf_trained_run_config(f)->size * 3;
    float *z = scratch + b->n * pixels;
    int64_t kept = 0;
    for (int64_t i = 0; i < b->n; i++)
        if (place[b->id[i]] < s->n) memcpy(scratch + kept++ * pixels, b->view[0] + i * pixels, (size_t)pixels * sizeof *scratch);
    TRY(gf_run_encoder_images(err, f->encoder, scratch, kept, z));
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t at = place[b->id[i]];
        if (at >= s->n) continue;
        memcpy(s->z + at * s->dim, z, (size_t)s->dim * sizeof *z);
        s->id[at] = b->id[i], s->label[at] = b->label[i];
        z += s->dim;
    }
    return GLOFND_OK;
}

static glofnd_status place_all(gf_error *err, gf_trained_run *f, gf_loader *loader, const int64_t *place, float *scratch,
                               gf_view_set *s) {
    gf_batch b;
    for (int64_t done = 0;; done += b.n) {
        TRY(gf_loader_next(err, loader, &b));
        if (b.n == 0) return GLOFND_OK;
        TRY(place_batch(err, f, &b, place, scratch, s));
        report_progress(f, done + b.n, f->info.n);
    }
}

/* Removes the rows of unreadable samples, whose id is -1. */
static void close_gaps(gf_view_set *s) {
    int64_t kept = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (s->id[i] < 0) continue;
        memmove(s->z + kept * s->dim, s->z + i * s->dim, (size_t)s->dim * sizeof *s->z);
        s->id[kept] = s->id[i], s->label[kept] = s->label[i];
        kept++;
    }
    s->n = kept;
}

glofnd_status gf_trained_run_centre_crops(gf_error *err, gf_trained_run *f, int64_t max, gf_view_set *out) {
    const gf_config *c = gf_trained_run_config(f);
    const int64_t batch = 128, pixels = (int64_t)c->size * c->size * 3, dim = gf_run_encoder_dim(f->encoder);
    gf_loader_spec spec = loader_spec(f);
    spec.views = 0, spec.batch = batch;
    gf_trainer_centre_crop(c, f->data, &spec);
    gf_loader *loader = NULL;
    *out = (gf_view_set){0};
    float *scratch = malloc((size_t)batch * (size_t)(pixels + dim) * sizeof *scratch);
    int64_t *place = training_order(err, f);
    glofnd_status status = place ? GLOFND_OK : GLOFND_E_MEMORY;
    if (status == GLOFND_OK && !scratch) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for a batch of images");
    if (status == GLOFND_OK) status = gf_view_set_alloc(err, out, GF_MIN(f->info.n, max), dim);
    for (int64_t i = 0; status == GLOFND_OK && i < out->n; i++) out->id[i] = -1;
    if (status == GLOFND_OK) status = gf_loader_create(err, &spec, &loader);
    if (status == GLOFND_OK) status = place_all(err, f, loader, place, scratch, out);
    if (status == GLOFND_OK) close_gaps(out);
    else gf_view_set_free(out);
    gf_loader_free(loader);
    free(place);
    free(scratch);
    return status;
}

/* ----- augmented views ----- */

static glofnd_status encode_views(gf_error *err, gf_trained_run *f, gf_loader *loader, float *scratch, gf_view_set *s) {
    gf_batch b;
    for (int64_t done = 0; done < s->n; done += 2 * b.n) {
        TRY(gf_loader_next(err, loader, &b));
        for (int v = 0; v < 2; v++) {
            TRY(gf_run_encoder_images(err, f->encoder, b.view[v], b.n, scratch));
            for (int64_t i = 0; i < b.n; i++) {
                const int64_t at = done + 2 * i + v;
                memcpy(s->z + at * s->dim, scratch + i * s->dim, (size_t)s->dim * sizeof *scratch);
                s->id[at] = b.id[i], s->label[at] = b.label[i];
            }
        }
        report_progress(f, done + 2 * b.n, s->n);
    }
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
        if (status == GLOFND_OK) status = encode_views(err, f, loader, scratch, out);
        if (status != GLOFND_OK) gf_view_set_free(out);
    }
    gf_loader_free(loader);
    free(scratch);
    return status;
}

/* One view of every sample, into every other row of `s` from `view` on. */
static glofnd_status encode_one_view(gf_error *err, gf_trained_run *f, gf_loader *loader, int view, float *scratch,
                                     gf_view_set *s) {
    gf_batch b;
    int64_t done = 0;
    for (;; done += b.n) {
        TRY(gf_loader_next(err, loader, &b));
        if (b.n == 0) break;
        TRY(gf_run_encoder_images(err, f->encoder, b.view[0], b.n, scratch));
        for (int64_t i = 0; i < b.n; i++) {
            const int64_t at = 2 * (done + i) + view;
            memcpy(s->z + at * s->dim, scratch + i * s->dim, (size_t)s->dim * sizeof *scratch);
            s->id[at] = b.id[i], s->label[at] = b.label[i];
        }
        report_progress(f, done + b.n, s->n / 2);
    }
    FAIL_IF(err, 2 * done != s->n, GLOFND_E_IO, "%lld of %lld images can no longer be read", (long long)(s->n / 2 - done),
            (long long)(s->n / 2));
    return GLOFND_OK;
}

static glofnd_status draw_view(gf_error *err, gf_trained_run *f, gf_loader_spec *spec, int view, float *scratch, gf_view_set *s) {
    gf_loader *loader = NULL;
    spec->first_view += view;
    glofnd_status status = gf_loader_create(err, spec, &loader);
    if (status == GLOFND_OK) status = gf_loader_seek(err, loader, (uint32_t)gf_trained_run_config(f)->epochs, 0);
    if (status == GLOFND_OK) status = encode_one_view(err, f, loader, view, scratch, s);
    gf_loader_free(loader);
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
    for (int view = 0; view < 2 && status == GLOFND_OK; view++) status = draw_view(err, f, &spec, view, scratch, out);
    if (status != GLOFND_OK) gf_view_set_free(out);
    free(scratch);
    return status;
}

/* ----- thresholds ----- */

int64_t gf_trained_run_lambda(const gf_trained_run *f, int side, const int64_t *id, int64_t n, float *lambda) {
    int64_t learned = 0;
    for (int64_t i = 0; i < n; i++) {
        lambda[i] = side < f->learned.sides ? f->learned.at[side][id[i]] : NAN;
        learned += !isnan(lambda[i]);
    }
    return learned;
}
