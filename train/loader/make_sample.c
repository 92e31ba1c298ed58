/* make_sample.c - see make_sample.h. The views of a sample depend on (seed, epoch, id) and the data alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader/make_sample.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "data/captions.h"
#include "data/dataset_format.h"
#include "loader/loader.h"
#include "util/array.h"
#include "util/components.h"
#include "util/machine.h"

/* ===== captions ===== */

glofnd_status gf_tokens_draw(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const gf_dataset *d, int64_t sample,
                             const char *text, uint64_t seed, uint32_t epoch, int context, int32_t *ids) {
    const gf_caption c = gf_caption_draw(text, seed, epoch, (uint64_t)sample);
    char name[256];
    int count;
    gf_dataset_name(d, sample, name, sizeof name);
    FAIL_IF(err, c.n == 0, GLOFND_E_FORMAT, "'%s' has no caption", name);
    FAIL_IF(err, c.n > GF_WORDS_TEXT_MAX, GLOFND_E_FORMAT, "'%s' has a caption of %llu bytes; the limit is %llu", name,
            (unsigned long long)c.n, (unsigned long long)GF_WORDS_TEXT_MAX);
    TRY(gf_bpe_encode(err, b, s, c.text, c.n, context, ids, &count));
    FAIL_IF(err, count <= 2 && context > 2, GLOFND_E_FORMAT, "'%s' has a caption without a word", name);
    return GLOFND_OK;
}

uint64_t gf_tokens_hash(const int32_t *ids, int context) { return gf_key_hash(ids, (size_t)context * sizeof *ids); }

/* ----- groups: connected components of the samples, named after their smallest members ----- */

static int by_image(const void *a, const void *b, void *content) {
    const gf_content *c = content;
    const uint64_t x = c[*(const int64_t *)a].image, y = c[*(const int64_t *)b].image;
    return (x > y) - (x < y);
}

static int by_text(const void *a, const void *b, void *content) {
    const gf_content *c = content;
    const uint64_t x = c[*(const int64_t *)a].text, y = c[*(const int64_t *)b].text;
    return (x > y) - (x < y);
}

static void join_equal(const gf_content *content, int64_t n, int (*order_by)(const void *, const void *, void *), int64_t *order,
                       int32_t *root) {
    qsort_r(order, (size_t)n, sizeof *order, order_by, (void *)(uintptr_t)content);
    for (int64_t i = 1; i < n; i++)
        if (order_by(&order[i - 1], &order[i], (void *)(uintptr_t)content) == 0)
            gf_components_join(root, (int32_t)order[i - 1], (int32_t)order[i]);
}

void gf_content_groups(const gf_content *content, int64_t n, int64_t *order, int32_t *group) {
    gf_components_init(group, n);
    for (int64_t i = 0; i < n; i++) order[i] = i;
    join_equal(content, n, by_image, order, group);
    join_equal(content, n, by_text, order, group);
    for (int64_t i = 0; i < n; i++) order[i] = 0;
    gf_components_flatten(group, n);
    for (int64_t i = 0; i < n; i++) order[group[i]]++;
    for (int64_t i = 0; i < n; i++)
        if (order[group[i]] == 1) group[i] = -1;
}

/* ===== packed pixels ===== */

/* The memory of a batch is a list of chunks. */

enum { CHUNK = 16 << 20, PACKED_MAX = 4 << 20, ALIGN = 16 }; /* bytes: of a chunk; of a sample's pixels; of their alignment */

typedef struct chunk_list {
    gf_pixels *chunk; /* [capacity] */
    size_t capacity;
    int chunks, filling; /* chunks before `filling` are full */
} chunk_list;

struct gf_packed {
    gf_view_job *job;     /* [views][batch] */
    pthread_mutex_t lock; /* of the memory, while workers fill */
    chunk_list pixels;
};

/* ----- memory of a batch ----- */

static glofnd_status add_chunk(gf_error *err, const gf_loader_spec *spec, chunk_list *p, size_t bytes) {
    FAIL_IF(err, !gf_grow(&p->chunk, &p->capacity, (size_t)p->chunks + 1, sizeof *p->chunk), GLOFND_E_MEMORY,
            "no memory for the loader");
    gf_pixels *c = &p->chunk[p->chunks];
    const gf_pixels *before = p->chunks ? c - 1 : NULL;
    *c = (gf_pixels){.first = before ? before->first + before->capacity : 0, .capacity = bytes > CHUNK ? bytes : CHUNK};
    c->bytes = spec->alloc ? spec->alloc(c->capacity) : malloc(c->capacity);
    FAIL_IF(err, !c->bytes, GLOFND_E_MEMORY, "no memory for the images of a batch (%zu bytes more): lower batch or prefetch",
            c->capacity);
    p->chunks++;
    return GLOFND_OK;
}

/* *at: byte at which the device will find them. */
static glofnd_status reserve_bytes(gf_error *err, const gf_loader_spec *spec, gf_packed *x, size_t bytes, uint8_t **to,
                                   int64_t *at) {
    chunk_list *p = &x->pixels;
    const size_t whole = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    glofnd_status status = GLOFND_OK;
    pthread_mutex_lock(&x->lock);
    while (p->filling < p->chunks && p->chunk[p->filling].capacity - p->chunk[p->filling].used < whole) p->filling++;
    if (p->filling == p->chunks) status = add_chunk(err, spec, p, whole);
    if (status == GLOFND_OK) {
        gf_pixels *c = &p->chunk[p->filling];
        *to = c->bytes + c->used;
        *at = (int64_t)(c->first + c->used);
        c->used += whole;
    }
    pthread_mutex_unlock(&x->lock);
    return status;
}

glofnd_status gf_packed_create(gf_error *err, const gf_loader_spec *spec, size_t batch, gf_packed **out) {
    gf_packed *p = calloc(1, sizeof *p);
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "no memory for the loader");
    pthread_mutex_init(&p->lock, NULL);
    p->job = calloc((size_t)spec->views * batch, sizeof *p->job);
    *out = p;
    FAIL_IF(err, !p->job, GLOFND_E_MEMORY, "no memory for batches of %zu samples", batch);
    return GLOFND_OK;
}

void gf_packed_reset(gf_packed *p) {
    p->pixels.filling = 0;
    for (int i = 0; i < p->pixels.chunks; i++) p->pixels.chunk[i].used = 0;
}

void gf_packed_free(const gf_loader_spec *spec, gf_packed *p) {
    if (!p) return;
    for (int i = 0; i < p->pixels.chunks; i++) (spec->alloc ? spec->release : free)(p->pixels.chunk[i].bytes);
    free(p->pixels.chunk);
    pthread_mutex_destroy(&p->lock);
    free(p->job);
    free(p);
}

void gf_packed_describe(const gf_packed *p, gf_batch *out) {
    out->job = p->job;
    out->pixels = p->pixels.chunk;
    out->pixel_chunks = p->pixels.chunks;
}

/* ----- a sample ----- */

/* Rows and bytes of rows that the jobs read. */
typedef struct cover {
    int64_t top, bottom, left, right;
} cover;

/* Adds jobs and pixels of sample `item`; several workers may. views [spec->views], drawn for `image`, which is without pixels and
 * of the common size if samples are preloaded. */
static glofnd_status pack_sample(gf_error *err, const gf_loader_spec *spec, gf_packed *p, int64_t item, int64_t id,
                                 const gf_image *image, const gf_view *views, gf_augment_scratch *x) {
    gf_view_job job[2];
    for (int v = 0; v < spec->views; v++) {
        TRY(gf_augment_job(err, &views[v], image, &job[v]));
        if (spec->preload) job[v].at += id * image->width * image->height * 3;
    }
    if (!spec->preload) {
        cover c = {INT64_MAX, 0, INT64_MAX, 0};
        for (int v = 0; v < spec->views; v++) {
            const int64_t top = job[v].at / job[v].stride, left = job[v].at % job[v].stride;
            c = (cover){GF_MIN(c.top, top), GF_MAX(c.bottom, top + job[v].height), GF_MIN(c.left, left),
                        GF_MAX(c.right, left + 3 * (int64_t)job[v].width)};
        }
        /* A device resizes linearly, and not by more than GF_VIEW_SCALE. */
        const int64_t side = (int64_t)GF_VIEW_SCALE * spec->augment.size;
        int large = spec->augment.view_filter != GF_FILTER_LINEAR || (c.bottom - c.top) * (c.right - c.left) > PACKED_MAX;
        for (int v = 0; v < spec->views; v++) large |= job[v].width > side || job[v].height > side;
        if (large) {
            const gf_augment *a = &spec->augment;
            for (int v = 0; v < spec->views; v++) {
                uint8_t *to;
                int64_t at;
                TRY(reserve_bytes(err, spec, p, (size_t)a->size * (size_t)a->size * 3, &to, &at));
                TRY(gf_augment_shrink(err, a, &job[v], image, x, to));
                job[v].at = at;
                job[v].width = job[v].height = a->size;
                job[v].stride = 3 * a->size;
            }
        } else {
            const size_t row = (size_t)(c.right - c.left), stride = (size_t)image->width * 3;
            uint8_t *to;
            int64_t at;
            TRY(reserve_bytes(err, spec, p, row * (size_t)(c.bottom - c.top), &to, &at));
            for (int64_t y = c.top; y < c.bottom; y++, to += row)
                memcpy(to, image->rgb + (size_t)y * stride + (size_t)c.left, row);
            for (int v = 0; v < spec->views; v++) {
                gf_view_job *j = &job[v];
                j->at = at + (j->at / j->stride - c.top) * (int64_t)row + j->at % j->stride - c.left;
                j->stride = (int32_t)row;
            }
        }
    }
    for (int v = 0; v < spec->views; v++) p->job[v * spec->batch + item] = job[v];
    return GLOFND_OK;
}

/* ===== one sample ===== */

/* out [views] */
static void draw_views(const gf_loader_spec *spec, uint32_t epoch, int64_t id, int width, int height, gf_view *out) {
    for (int v = 0; v < spec->views; v++) {
        gf_rng r = gf_rng_at(spec->seed, GF_RNG_AUGMENT, epoch, (uint64_t)id, (uint32_t)(spec->first_view + v));
        out[v] = gf_augment_draw(&spec->augment, &r, width, height);
    }
}

typedef struct crop_query { /* the sample whose crops the decoder asks for */
    const gf_loader_spec *spec;
    uint32_t epoch;
    int64_t id;
} crop_query;

/* gf_decode_hint.choose: the region that the views will cover, now that the size is known. */
static gf_region choose_region(void *user, int width, int height, int *by) {
    const crop_query *q = user;
    gf_view views[2];
    draw_views(q->spec, q->epoch, q->id, width, height, views);
    return gf_augment_region(&q->spec->augment, views, q->spec->views, by);
}

static glofnd_status read_sample(gf_error *err, const gf_maker *m, gf_worker *w, const gf_slot *s, int64_t id) {
    const gf_loader_spec *spec = &m->spec;
    crop_query query = {spec, s->epoch, id};
    const gf_decode_hint hint = {.fast = spec->fast,
                                 .shrink_to = m->shrink_to > 0 ? m->shrink_to : spec->resize,
                                 .choose = spec->views > 0 ? choose_region : NULL,
                                 .user = &query,
                                 .max_pixels = m->pixels.max,
                                 .share = &w->pixels};
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
    const int width = gf_image_full_width(image), height = gf_image_full_height(image);
    if (spec->views == 0) {
        const int native = width == a->size && height == a->size;
        return gf_augment_center(err, a, native ? 0 : spec->resize, image, w->scratch, s->view[0] + at);
    }
    draw_views(spec, s->epoch, id, width, height, views);
    if (s->packed) return pack_sample(err, spec, s->packed, item, id, image, views, w->scratch);
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
    const int64_t at = gf_maker_in_order(&m->spec) ? position : gf_permute(m->spec.seed, s->epoch, m->n, position);
    gf_made made = {.id = m->spec.ids ? m->spec.ids[at] : at};
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
