/* pack_pixels.c - see pack_pixels.h. The memory of a batch is a list of chunks. */
#include "loader/pack_pixels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

enum { CHUNK = 16 << 20, PACKED_MAX = 4 << 20, ALIGN = 16 }; /* bytes: of a chunk; of a sample's pixels; of their alignment */

typedef struct memory {
    gf_pixels *chunk; /* [capacity] */
    size_t capacity;
    int chunks, filling; /* chunks before `filling` are full */
} memory;

struct gf_packed {
    gf_view_job *job; /* [views][batch] */
    size_t batch;
    gf_encoded *encoded;  /* [batch] images that the device decodes; NULL: it decodes none */
    pthread_mutex_t lock; /* of both memories, while workers fill */
    memory pixels, files; /* of decoded images; of those for the device */
};

/* ----- memory of a batch ----- */

static glofnd_status add_chunk(gf_error *err, const gf_loader_spec *spec, memory *p, size_t bytes) {
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

/* p: a memory of x. *at: byte at which the device will find them. */
static glofnd_status reserve(gf_error *err, const gf_loader_spec *spec, gf_packed *x, memory *p, size_t bytes, uint8_t **to,
                             int64_t *at) {
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
    p->batch = batch;
    p->job = calloc((size_t)spec->views * batch, sizeof *p->job);
    if (spec->decoder) p->encoded = calloc(batch, sizeof *p->encoded);
    *out = p;
    FAIL_IF(err, !p->job || (spec->decoder && !p->encoded), GLOFND_E_MEMORY, "no memory for batches of %zu samples", batch);
    return GLOFND_OK;
}

static void empty(memory *p) {
    p->filling = 0;
    for (int i = 0; i < p->chunks; i++) p->chunk[i].used = 0;
}

static void release(const gf_loader_spec *spec, memory *p) {
    for (int i = 0; i < p->chunks; i++) (spec->alloc ? spec->release : free)(p->chunk[i].bytes);
    free(p->chunk);
}

void gf_packed_reset(gf_packed *p) {
    empty(&p->pixels);
    empty(&p->files);
    if (p->encoded) memset(p->encoded, 0, p->batch * sizeof *p->encoded);
}

void gf_packed_free(const gf_loader_spec *spec, gf_packed *p) {
    if (!p) return;
    release(spec, &p->pixels);
    release(spec, &p->files);
    pthread_mutex_destroy(&p->lock);
    free(p->encoded);
    free(p->job);
    free(p);
}

void gf_packed_describe(const gf_packed *p, gf_batch *out) {
    out->job = p->job;
    out->pixels = p->pixels.chunk;
    out->pixel_chunks = p->pixels.chunks;
}

gf_encoded *gf_packed_encoded(gf_packed *p) { return p->encoded; }
gf_view_job *gf_packed_jobs(gf_packed *p) { return p->job; }

/* ----- a sample ----- */

/* Rows and bytes of rows that the jobs read. */
typedef struct cover {
    int64_t top, bottom, left, right;
} cover;

static cover cover_of(const gf_view_job *job, int views) {
    cover c = {INT64_MAX, 0, INT64_MAX, 0};
    for (int v = 0; v < views; v++) {
        const int64_t top = job[v].at / job[v].stride, left = job[v].at % job[v].stride;
        c = (cover){GF_MIN(c.top, top), GF_MAX(c.bottom, top + job[v].height), GF_MIN(c.left, left),
                    GF_MAX(c.right, left + 3 * (int64_t)job[v].width)};
    }
    return c;
}

/* A device resizes linearly, and not by more than GF_VIEW_SCALE. */
static int needs_resizing(const gf_loader_spec *spec, const gf_view_job *job, cover c) {
    const int64_t side = (int64_t)GF_VIEW_SCALE * spec->augment.size;
    int large = spec->augment.view_filter != GF_FILTER_LINEAR || (c.bottom - c.top) * (c.right - c.left) > PACKED_MAX;
    for (int v = 0; v < spec->views; v++) large |= job[v].width > side || job[v].height > side;
    return large;
}

static glofnd_status pack_cover(gf_error *err, const gf_loader_spec *spec, gf_packed *p, const gf_image *image, cover c,
                                gf_view_job *job) {
    const size_t row = (size_t)(c.right - c.left), stride = (size_t)image->width * 3;
    uint8_t *to;
    int64_t at;
    TRY(reserve(err, spec, p, &p->pixels, row * (size_t)(c.bottom - c.top), &to, &at));
    for (int64_t y = c.top; y < c.bottom; y++, to += row) memcpy(to, image->rgb + (size_t)y * stride + (size_t)c.left, row);
    for (int v = 0; v < spec->views; v++) {
        gf_view_job *j = &job[v];
        j->at = at + (j->at / j->stride - c.top) * (int64_t)row + j->at % j->stride - c.left;
        j->stride = (int32_t)row;
    }
    return GLOFND_OK;
}

static glofnd_status pack_resized(gf_error *err, const gf_loader_spec *spec, gf_packed *p, const gf_image *image,
                                  gf_view_job *job, gf_augment_scratch *x) {
    const gf_augment *a = &spec->augment;
    for (int v = 0; v < spec->views; v++) {
        uint8_t *to;
        int64_t at;
        TRY(reserve(err, spec, p, &p->pixels, (size_t)a->size * (size_t)a->size * 3, &to, &at));
        TRY(gf_augment_shrink(err, a, &job[v], image, x, to));
        job[v].at = at;
        job[v].width = job[v].height = a->size;
        job[v].stride = 3 * a->size;
    }
    return GLOFND_OK;
}

glofnd_status gf_pack_sample(gf_error *err, const gf_loader_spec *spec, gf_packed *p, int64_t item, int64_t id,
                             const gf_image *image, const gf_view *views, gf_augment_scratch *x) {
    gf_view_job job[2];
    for (int v = 0; v < spec->views; v++) {
        TRY(gf_augment_job(err, &views[v], image, &job[v]));
        if (spec->preload) job[v].at += id * image->width * image->height * 3;
    }
    if (!spec->preload) {
        const cover c = cover_of(job, spec->views);
        if (needs_resizing(spec, job, c)) TRY(pack_resized(err, spec, p, image, job, x));
        else TRY(pack_cover(err, spec, p, image, c, job));
    }
    for (int v = 0; v < spec->views; v++) p->job[v * spec->batch + item] = job[v];
    if (p->encoded) p->encoded[item].size = 0;
    return GLOFND_OK;
}

int gf_pack_keeps(const gf_loader_spec *spec, const gf_view *views) {
    const int side = GF_VIEW_SCALE * spec->augment.size;
    int large = spec->augment.view_filter != GF_FILTER_LINEAR;
    for (int v = 0; v < spec->views; v++) large |= views[v].width > side || views[v].height > side;
    return !large;
}

glofnd_status gf_pack_encoded(gf_error *err, const gf_loader_spec *spec, gf_packed *p, int64_t item, const gf_plain_jpeg *plain,
                              const uint8_t *bytes, const gf_view *views) {
    const gf_image image = {.width = plain->width, .height = plain->height}; /* pixels come later */
    uint8_t *to;
    int64_t ignored;
    TRY(reserve(err, spec, p, &p->files, plain->size, &to, &ignored));
    gf_jpeg_write_plain(plain, bytes, to);
    p->encoded[item] = (gf_encoded){.bytes = to, .size = plain->size, .width = plain->width, .height = plain->height};
    for (int v = 0; v < spec->views; v++) TRY(gf_augment_job(err, &views[v], &image, &p->job[v * spec->batch + item]));
    return GLOFND_OK;
}
