/* make_sample.c - see make_sample.h. The views of a sample depend on (seed, epoch, id) and the data alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader/make_sample.h"

#include "util/machine.h"

static int64_t id_at(const gf_maker *m, const gf_slot *s, int64_t position) {
    const int64_t at = gf_maker_in_order(&m->spec) ? position : gf_permute(m->spec.seed, s->epoch, m->n, position);
    return m->spec.ids ? m->spec.ids[at] : at;
}

/* out [views] */
static void draw_views(const gf_loader_spec *spec, uint32_t epoch, int64_t id, int width, int height, gf_view *out) {
    for (int v = 0; v < spec->views; v++) {
        gf_rng r = gf_rng_at(spec->seed, GF_RNG_AUGMENT, epoch, (uint64_t)id, (uint32_t)(spec->first_view + v));
        out[v] = gf_augment_draw(&spec->augment, &r, width, height);
    }
}

/* A device decodes whole images, into memory that is kept per batch: larger ones are left to the CPU, which decodes the part that
 * the views need. */
enum { KEPT_PIXELS_MAX = 1 << 21 };

typedef struct crop_query { /* the sample whose crops the decoder asks for */
    const gf_maker *maker;
    gf_worker *worker;
    const gf_loader_spec *spec;
    uint32_t epoch;
    int64_t id;
} crop_query;

/* gf_decode_hint.choose: the region that the views will cover, now that the size is known. */
static gf_region choose(void *user, int width, int height, int *by) {
    const crop_query *q = user;
    gf_view views[2];
    draw_views(q->spec, q->epoch, q->id, width, height, views);
    return gf_augment_region(&q->spec->augment, views, q->spec->views, by);
}

/* gf_decode_hint.keep: a file that the device decodes. Depends on the sample and its views alone. */
static int keep(void *user, const uint8_t *bytes, size_t size, int *width, int *height) {
    const crop_query *q = user;
    gf_plain_jpeg *plain = &q->worker->plain;
    gf_view views[2];
    if (!gf_jpeg_is_plain(bytes, size, plain)) return 0;
    const int64_t pixels = (int64_t)plain->width * plain->height;
    if (pixels > KEPT_PIXELS_MAX || pixels > q->maker->pixels.max) return 0;
    draw_views(q->spec, q->epoch, q->id, plain->width, plain->height, views);
    q->worker->kept = gf_pack_keeps(q->spec, views);
    *width = plain->width;
    *height = plain->height;
    return q->worker->kept;
}

static glofnd_status read_sample(gf_error *err, const gf_maker *m, gf_worker *w, const gf_slot *s, int64_t id) {
    const gf_loader_spec *spec = &m->spec;
    crop_query query = {m, w, spec, s->epoch, id};
    const gf_decode_hint hint = {.fast = spec->fast,
                                 .shrink_to = m->shrink_to > 0 ? m->shrink_to : spec->resize,
                                 .choose = spec->views > 0 ? choose : NULL,
                                 .keep = spec->decoder && !w->on_cpu ? keep : NULL,
                                 .user = &query,
                                 .max_pixels = m->pixels.max,
                                 .share = &w->pixels};
    w->kept = 0;
    if (!spec->preload) return gf_dataset_read(err, spec->data, id, &hint, &w->sample);
    TRY(gf_preload_status(err, spec->preload, id));
    w->sample.label = gf_dataset_label(spec->data, id);
    return spec->bpe ? gf_dataset_text(err, spec->data, id, &w->sample) : GLOFND_OK;
}

/* Tokens of the caption drawn for the epoch, and hashes of image and caption. */
static glofnd_status make_text(gf_error *err, const gf_loader_spec *spec, gf_worker *w, gf_slot *s, int64_t item, int64_t id) {
    if (!spec->bpe) return GLOFND_OK;
    int32_t *token = s->token + item * spec->context;
    TRY(gf_tokens_draw(err, spec->bpe, &w->words, spec->data, id, w->sample.text, spec->seed, s->epoch, spec->context, token));
    s->content[item].text = gf_tokens_hash(token, spec->context);
    s->content[item].image = spec->preload ? gf_preload_hash(spec->preload, id) : gf_sample_image_hash(&w->sample);
    return GLOFND_OK;
}

static glofnd_status make_views(gf_error *err, const gf_loader_spec *spec, gf_worker *w, gf_slot *s, int64_t item, int64_t id) {
    const gf_augment *a = &spec->augment;
    const size_t at = (size_t)item * (size_t)a->size * (size_t)a->size * 3;
    gf_image preloaded = {0}; /* its pixels are on the device */
    const gf_image *image = spec->preload ? &preloaded : &w->sample.image;
    gf_view views[2];
    if (spec->preload) gf_preload_size(spec->preload, &preloaded.width, &preloaded.height);
    if (spec->views == 0) return gf_augment_center(err, a, spec->resize, image, w->scratch, s->view[0] + at);
    draw_views(spec, s->epoch, id, gf_image_full_width(image), gf_image_full_height(image), views);
    if (w->kept) return gf_pack_encoded(err, spec, s->packed, item, &w->plain, w->sample.encoded, views);
    if (s->packed) return gf_pack_sample(err, spec, s->packed, item, id, image, views, w->scratch);
    for (int v = 0; v < spec->views; v++) TRY(gf_augment_apply(err, a, &views[v], image, w->scratch, s->view[v] + at, NULL));
    return GLOFND_OK;
}

/* The worker is done with the pixels of its sample. Large buffers do not stay: one per worker would exceed the limit. */
static void drop_pixels(const gf_maker *m, gf_worker *w) {
    gf_image *image = &w->sample.image;
    if (image->capacity / 3 > (size_t)(m->pixels.max / m->spec.workers)) gf_image_free(image);
    gf_pixel_share_give(&w->pixels);
}

static gf_made read_one(const gf_maker *m, gf_worker *w, gf_slot *s, int64_t position, int64_t item) {
    gf_made made = {.id = id_at(m, s, position)};
    const double start = gf_clock();
    made.status = read_sample(&made.why, m, w, s, made.id);
    if (made.status == GLOFND_OK) made.status = make_text(&made.why, &m->spec, w, s, item, made.id);
    made.read_seconds = gf_clock() - start;
    made.unreadable = made.status == GLOFND_E_FORMAT || made.status == GLOFND_E_IO;
    return made;
}

gf_made gf_probe_sample(const gf_maker *m, gf_worker *w, gf_slot *s, int64_t position, int64_t item) {
    const gf_made made = read_one(m, w, s, position, item);
    drop_pixels(m, w);
    return made;
}

gf_made gf_make_sample(const gf_maker *m, gf_worker *w, gf_slot *s, int64_t position, int64_t item) {
    gf_made made = read_one(m, w, s, position, item);
    const double start = gf_clock();
    if (made.status == GLOFND_OK) {
        s->id[item] = made.id;
        s->label[item] = w->sample.label;
        made.status = make_views(&made.why, &m->spec, w, s, item, made.id);
    }
    drop_pixels(m, w);
    made.augment_seconds = made.status == GLOFND_OK ? gf_clock() - start : 0.0;
    return made;
}
