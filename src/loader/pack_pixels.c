/* pack_pixels.c - see pack_pixels.h. A slot's memory is a list of chunks that grows to what its batches need, and is kept. */
#include "loader/pack_pixels.h"

#include <stdlib.h>
#include <string.h>

#include "loader/make_sample.h"

enum { CHUNK = 16 << 20, PACKED_MOST = 4 << 20, ALIGN = 16 };

static void *take_memory(const gf_prefetch *p, size_t bytes) { return p->spec.alloc ? p->spec.alloc(bytes) : malloc(bytes); }

static void give_memory(const gf_prefetch *p, void *memory) {
    if (p->spec.alloc) p->spec.release(memory);
    else free(memory);
}

/* ----- memory of a slot ----- */

static glofnd_status add_chunk(gf_error *err, const gf_prefetch *p, gf_raw *r, size_t bytes) {
    gf_pixels *list = realloc(r->chunk, (size_t)(r->chunks + 1) * sizeof *list);
    FAIL_IF(err, !list, GLOFND_E_MEMORY, "no memory for the loader");
    r->chunk = list;
    gf_pixels *c = &list[r->chunks];
    const gf_pixels *before = r->chunks ? c - 1 : NULL;
    *c = (gf_pixels){.first = before ? before->first + before->room : 0, .room = bytes > CHUNK ? bytes : CHUNK};
    c->bytes = take_memory(p, c->room);
    FAIL_IF(err, !c->bytes, GLOFND_E_MEMORY, "no memory for the images of a batch (%zu bytes more): lower batch or prefetch",
            c->room);
    r->chunks++;
    return GLOFND_OK;
}

/* Several workers fill one slot. *at: where the device will find the bytes. */
static glofnd_status reserve(gf_error *err, const gf_prefetch *p, gf_raw *r, size_t bytes, uint8_t **to, int64_t *at) {
    const size_t whole = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    glofnd_status status = GLOFND_OK;
    pthread_mutex_lock(&r->lock);
    while (r->filling < r->chunks && r->chunk[r->filling].room - r->chunk[r->filling].used < whole) r->filling++;
    if (r->filling == r->chunks) status = add_chunk(err, p, r, whole);
    if (status == GLOFND_OK) {
        gf_pixels *c = &r->chunk[r->filling];
        *to = c->bytes + c->used;
        *at = (int64_t)(c->first + c->used);
        c->used += whole;
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

glofnd_status gf_raw_init(gf_error *err, const gf_prefetch *p, gf_slot *s, size_t batch) {
    gf_raw *r = calloc(1, sizeof *r);
    FAIL_IF(err, !r, GLOFND_E_MEMORY, "no memory for the loader");
    pthread_mutex_init(&r->lock, NULL);
    s->raw = r;
    r->job = calloc((size_t)p->spec.views * batch, sizeof *r->job);
    FAIL_IF(err, !r->job, GLOFND_E_MEMORY, "no memory for batches of %zu samples", batch);
    return GLOFND_OK;
}

void gf_raw_open(gf_slot *s) {
    s->raw->filling = 0;
    for (int i = 0; i < s->raw->chunks; i++) s->raw->chunk[i].used = 0;
}

void gf_raw_free(const gf_prefetch *p, gf_slot *s) {
    gf_raw *r = s->raw;
    if (!r) return;
    for (int i = 0; i < r->chunks; i++) give_memory(p, r->chunk[i].bytes);
    pthread_mutex_destroy(&r->lock);
    free(r->chunk);
    free(r->job);
    free(r);
}

/* ----- a sample ----- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Rows and bytes of rows that the jobs look at. */
typedef struct cover {
    int64_t top, bottom, left, right;
} cover;

static cover cover_of(const gf_view_job *job, int views) {
    cover c = {INT64_MAX, 0, INT64_MAX, 0};
    for (int v = 0; v < views; v++) {
        const int64_t top = job[v].at / job[v].stride, left = job[v].at % job[v].stride;
        c = (cover){least(c.top, top), most(c.bottom, top + job[v].height), least(c.left, left),
                    most(c.right, left + 3 * (int64_t)job[v].width)};
    }
    return c;
}

static int is_too_much(const gf_prefetch *p, const gf_view_job *job, cover c) {
    const int64_t side = (int64_t)GF_VIEW_SCALE * p->spec.augment.size;
    int large = (c.bottom - c.top) * (c.right - c.left) > PACKED_MOST;
    for (int v = 0; v < p->spec.views; v++) large |= job[v].width > side || job[v].height > side;
    return large;
}

static glofnd_status pack(gf_error *err, const gf_prefetch *p, gf_raw *r, const gf_image *image, cover c, gf_view_job *job) {
    const size_t row = (size_t)(c.right - c.left), stride = (size_t)image->width * 3;
    uint8_t *to;
    int64_t at;
    TRY(reserve(err, p, r, row * (size_t)(c.bottom - c.top), &to, &at));
    for (int64_t y = c.top; y < c.bottom; y++, to += row) memcpy(to, image->rgb + (size_t)y * stride + (size_t)c.left, row);
    for (int v = 0; v < p->spec.views; v++) {
        gf_view_job *j = &job[v];
        j->at = at + (j->at / j->stride - c.top) * (int64_t)row + j->at % j->stride - c.left;
        j->stride = (int32_t)row;
    }
    return GLOFND_OK;
}

static glofnd_status shrink(gf_error *err, const gf_prefetch *p, gf_worker *w, gf_raw *r, gf_view_job *job) {
    const gf_augment *a = &p->spec.augment;
    for (int v = 0; v < p->spec.views; v++) {
        uint8_t *to;
        int64_t at;
        TRY(reserve(err, p, r, (size_t)a->size * (size_t)a->size * 3, &to, &at));
        TRY(gf_augment_shrink(err, a, &job[v], &w->sample.image, w->scratch, to));
        job[v].at = at;
        job[v].width = job[v].height = a->size;
        job[v].stride = 3 * a->size;
    }
    return GLOFND_OK;
}

glofnd_status gf_raw_make(gf_error *err, const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t item, int64_t id) {
    const gf_preload *kept = p->spec.resident;
    const gf_image there = {.width = kept ? gf_preload_width(kept) : 0, .height = kept ? gf_preload_height(kept) : 0};
    const gf_image *image = kept ? &there : &w->sample.image;
    gf_view_job job[2];
    for (int v = 0; v < p->spec.views; v++) {
        const gf_view view = gf_make_draw(p, s->epoch, id, v, gf_image_full_width(image), gf_image_full_height(image));
        TRY(gf_augment_job(err, &view, image, &job[v]));
        if (kept) job[v].at += id * image->width * image->height * 3;
    }
    if (!kept) {
        const cover c = cover_of(job, p->spec.views);
        TRY(is_too_much(p, job, c) ? shrink(err, p, w, s->raw, job) : pack(err, p, s->raw, image, c, job));
    }
    for (int v = 0; v < p->spec.views; v++) s->raw->job[v * p->spec.batch + item] = job[v];
    return GLOFND_OK;
}
