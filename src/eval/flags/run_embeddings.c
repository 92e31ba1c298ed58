/* run_embeddings.c - see run_embeddings.h. */
#include "eval/flags/run_embeddings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/encode.h"
#include "train/checkpoint/anchors_learned.h"
#include "util/rng.h"

struct gf_trained_run {
    gf_trained_run_spec spec;
    gf_run_encoder *encoder;
    gf_run_encoder *captions; /* task clip; else NULL */
    gf_dataset *data;
    gf_dataset_info info;
    gf_learned learned;
};

static glofnd_status open_frozen(gf_error *err, gf_trained_run *f) {
    const gf_run_encoder_spec images = {.run = f->spec.run, .head = 1, .where = f->spec.where};
    const gf_run_encoder_spec captions = {.run = f->spec.run, .text = 1, .where = f->spec.where};
    TRY(gf_run_encoder_create(err, &images, &f->encoder));
    const gf_config *c = gf_run_encoder_config(f->encoder);
    if (c->task == GF_TASK_CLIP) TRY(gf_run_encoder_create(err, &captions, &f->captions));
    const int given = f->spec.data && *f->spec.data;
    const char *data = given ? f->spec.data : c->data;
    const glofnd_status status = gf_dataset_open(err, data, &f->data);
    TRY(given ? status : gf_run_encoder_data_hint(err, status));
    f->info = gf_dataset_describe(f->data);
    return gf_learned_read(err, f->spec.run, c, f->data, data, &f->learned);
}

glofnd_status gf_trained_run_create(gf_error *err, const gf_trained_run_spec *spec, gf_trained_run **out) {
    gf_trained_run *f = calloc(1, sizeof *f);
    *out = NULL;
    FAIL_IF(err, !f, GLOFND_E_MEMORY, "no memory for a frozen run");
    f->spec = *spec;
    const glofnd_status status = open_frozen(err, f);
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
int gf_trained_run_threads(const gf_trained_run *f) { return gf_run_encoder_threads(f->encoder); }
const gf_dataset *gf_trained_run_data(const gf_trained_run *f) { return f->data; }
const gf_run_encoder *gf_trained_run_encoder(const gf_trained_run *f) { return f->encoder; }
gf_run_encoder *gf_trained_run_captions(const gf_trained_run *f) { return f->captions; }

void gf_trained_run_report_unreadable(const gf_trained_run *f, int64_t i, const char *message) {
    if (f->spec.damaged) f->spec.damaged(f->spec.user, i, message);
}

static void tell(const gf_trained_run *f, int64_t done, int64_t total) {
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
        .fast = c->decode_fast,
        .unreadable = f->spec.damaged,
        .user = f->spec.user,
    };
}

/* ----- samples as they are ----- */

/* Where in the order of training each sample comes; [n] */
static int64_t *places(gf_error *err, const gf_trained_run *f) {
    const gf_config *c = gf_trained_run_config(f);
    int64_t *place = malloc((size_t)f->info.n * sizeof *place);
    if (!place) gf_fail(err, GLOFND_E_MEMORY, "no memory for the order of %lld samples", (long long)f->info.n);
    for (int64_t i = 0; place && i < f->info.n; i++) place[gf_permute((uint64_t)c->seed, (uint32_t)c->epochs, f->info.n, i)] = i;
    return place;
}

/* Encodes those of a batch that are wanted, to their places; `room` holds images of a batch, then embeddings. */
static glofnd_status place_batch(gf_error *err, gf_trained_run *f, const gf_batch *b, const int64_t *place, float *room,
                                 gf_view_set *s) {
    const int64_t pixels = (int64_t)gf_trained_run_config(f)->size * gf_trained_run_config(f)->size * 3;
    float *z = room + b->n * pixels;
    int64_t kept = 0;
    for (int64_t i = 0; i < b->n; i++)
        if (place[b->id[i]] < s->n) memcpy(room + kept++ * pixels, b->view[0] + i * pixels, (size_t)pixels * sizeof *room);
    TRY(gf_run_encoder_images(err, f->encoder, room, kept, z));
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t at = place[b->id[i]];
        if (at >= s->n) continue;
        memcpy(s->z + at * s->dim, z, (size_t)s->dim * sizeof *z);
        s->id[at] = b->id[i], s->label[at] = b->label[i];
        z += s->dim;
    }
    return GLOFND_OK;
}

static glofnd_status place_all(gf_error *err, gf_trained_run *f, gf_loader *loader, const int64_t *place, float *room,
                               gf_view_set *s) {
    gf_batch b;
    for (int64_t done = 0;; done += b.n) {
        TRY(gf_loader_next(err, loader, &b));
        if (b.n == 0) return GLOFND_OK;
        TRY(place_batch(err, f, &b, place, room, s));
        tell(f, done + b.n, f->info.n);
    }
}

/* Closes the gaps that damaged samples left; an id is -1 there. */
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

glofnd_status gf_trained_run_centre_crops(gf_error *err, gf_trained_run *f, int64_t most, gf_view_set *out) {
    const gf_config *c = gf_trained_run_config(f);
    const int64_t batch = 128, pixels = (int64_t)c->size * c->size * 3, dim = gf_run_encoder_dim(f->encoder);
    gf_loader_spec spec = loader_spec(f);
    spec.views = 0, spec.batch = batch;
    gf_encode_centre_crop(c, f->data, &spec);
    gf_loader *loader = NULL;
    *out = (gf_view_set){0};
    float *room = malloc((size_t)batch * (size_t)(pixels + dim) * sizeof *room);
    int64_t *place = places(err, f);
    glofnd_status status = place ? GLOFND_OK : GLOFND_E_MEMORY;
    if (status == GLOFND_OK && !room) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for a batch of images");
    if (status == GLOFND_OK) status = gf_view_set_alloc(err, out, f->info.n < most ? f->info.n : most, dim);
    for (int64_t i = 0; status == GLOFND_OK && i < out->n; i++) out->id[i] = -1;
    if (status == GLOFND_OK) status = gf_loader_create(err, &spec, &loader);
    if (status == GLOFND_OK) status = place_all(err, f, loader, place, room, out);
    if (status == GLOFND_OK) close_gaps(out);
    else gf_view_set_free(out);
    gf_loader_free(loader);
    free(place);
    free(room);
    return status;
}

/* ----- views as training draws them ----- */

static glofnd_status encode_views(gf_error *err, gf_trained_run *f, gf_loader *loader, float *room, gf_view_set *s) {
    gf_batch b;
    for (int64_t done = 0; done < s->n; done += 2 * b.n) {
        TRY(gf_loader_next(err, loader, &b));
        for (int v = 0; v < 2; v++) {
            TRY(gf_run_encoder_images(err, f->encoder, b.view[v], b.n, room));
            for (int64_t i = 0; i < b.n; i++) {
                const int64_t at = done + 2 * i + v;
                memcpy(s->z + at * s->dim, room + i * s->dim, (size_t)s->dim * sizeof *room);
                s->id[at] = b.id[i], s->label[at] = b.label[i];
            }
        }
        tell(f, done + 2 * b.n, s->n);
    }
    return GLOFND_OK;
}

glofnd_status gf_trained_run_augmented(gf_error *err, gf_trained_run *f, int64_t batch, int64_t samples, int epochs,
                                       gf_view_set *out) {
    const gf_config *c = gf_trained_run_config(f);
    gf_loader_spec spec = loader_spec(f);
    spec.views = 2, spec.batch = batch < f->info.n ? batch : f->info.n;
    FAIL_IF(err, spec.batch < 2, GLOFND_E_ARGUMENT, "%lld samples make no pairs", (long long)spec.batch);
    const int64_t wanted = (samples + spec.batch - 1) / spec.batch, most = epochs ? f->info.n / spec.batch * epochs : wanted;
    const int64_t batches = wanted < 1 ? 1 : wanted < most ? wanted : most;
    gf_loader *loader = NULL;
    float *room = malloc((size_t)spec.batch * (size_t)gf_run_encoder_dim(f->encoder) * sizeof *room);
    glofnd_status status = room ? gf_view_set_alloc(err, out, 2 * spec.batch * batches, gf_run_encoder_dim(f->encoder))
                                : gf_fail(err, GLOFND_E_MEMORY, "no memory for a batch of embeddings");
    if (status == GLOFND_OK) {
        status = gf_loader_create(err, &spec, &loader);
        if (status == GLOFND_OK) status = gf_loader_seek(err, loader, (uint32_t)c->epochs, 0);
        if (status == GLOFND_OK) status = encode_views(err, f, loader, room, out);
        if (status != GLOFND_OK) gf_view_set_free(out);
    }
    gf_loader_free(loader);
    free(room);
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
