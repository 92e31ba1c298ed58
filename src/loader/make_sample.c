/* make_sample.c - see make_sample.h. Which samples a batch holds, and with which random numbers, depends on (seed, epoch,
 * step) and the data
 * alone: replacements are sought only when all of the batch was tried, in the order of the batch.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader/make_sample.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loader/pack_pixels.h"
#include "loader/substitute.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int64_t id_at(const gf_prefetch *p, const gf_slot *s, int64_t position) {
    const int64_t at = gf_prefetch_ends(&p->spec) ? position : gf_permute(p->spec.seed, s->epoch, p->n, position);
    return p->spec.ids ? p->spec.ids[at] : at;
}

static size_t image_floats(const gf_prefetch *p) {
    const size_t side = (size_t)p->spec.augment.size;
    return side * side * 3;
}

gf_view gf_make_draw(const gf_prefetch *p, uint32_t epoch, int64_t id, int v, int width, int height) {
    gf_rng r = gf_rng_at(p->spec.seed, GF_RNG_AUGMENT, epoch, (uint64_t)id, (uint32_t)v);
    return gf_augment_draw(&p->spec.augment, &r, width, height);
}

typedef struct sight { /* whose views are to be made */
    const gf_prefetch *p;
    uint32_t epoch;
    int64_t id;
} sight;

/* gf_decode_hint.choose: what the views will look at, now that the size is known. */
static gf_region choose(void *user, int width, int height, int *by) {
    const sight *s = user;
    gf_view views[2];
    for (int v = 0; v < s->p->spec.views; v++) views[v] = gf_make_draw(s->p, s->epoch, s->id, v, width, height);
    return gf_augment_region(&s->p->spec.augment, views, s->p->spec.views, by);
}

static glofnd_status make_views(gf_error *err, const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t item, int64_t id) {
    const gf_augment *a = &p->spec.augment;
    const gf_image *image = &w->sample.image;
    const size_t at = (size_t)item * image_floats(p);
    if (s->raw) return gf_raw_make(err, p, w, s, item, id);
    if (p->spec.views == 0) return gf_augment_center(err, a, p->spec.resize, image, w->scratch, s->view[0] + at);
    for (int v = 0; v < p->spec.views; v++) {
        const gf_view view = gf_make_draw(p, s->epoch, id, v, gf_image_full_width(image), gf_image_full_height(image));
        TRY(gf_augment_apply(err, a, &view, image, w->scratch, s->view[v] + at, NULL));
    }
    return GLOFND_OK;
}

static glofnd_status read_sample(gf_error *err, const gf_prefetch *p, gf_worker *w, const gf_slot *s, int64_t id) {
    sight seen = {p, s->epoch, id};
    const gf_decode_hint wish = {p->spec.fast, p->shrink_to, p->spec.views > 0 ? choose : NULL, &seen};
    if (!p->spec.resident) return gf_dataset_read(err, p->spec.data, id, &wish, &w->sample);
    TRY(gf_preload_look(err, p->spec.resident, id));
    w->sample.label = gf_dataset_label(p->spec.data, id);
    return p->spec.bpe ? gf_dataset_text(err, p->spec.data, id, &w->sample) : GLOFND_OK;
}

/* The drawn caption of the sample that was read, and what it shows and says as numbers. */
static glofnd_status make_text(gf_error *err, const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t item, int64_t id) {
    const gf_loader_spec *spec = &p->spec;
    if (!spec->bpe) return GLOFND_OK;
    int32_t *token = s->token + item * spec->context;
    TRY(gf_tokens_draw(err, spec->bpe, &w->words, spec->data, id, w->sample.text, spec->seed, s->epoch, spec->context, token));
    s->content[item].text = gf_tokens_hash(token, spec->context);
    s->content[item].image = spec->resident ? gf_preload_hash(spec->resident, id) : gf_sample_image_hash(&w->sample);
    return GLOFND_OK;
}

gf_made gf_make_look(const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t position, int64_t item) {
    gf_made m = {.id = id_at(p, s, position)};
    const double start = now();
    m.status = read_sample(&m.why, p, w, s, m.id);
    if (m.status == GLOFND_OK) m.status = make_text(&m.why, p, w, s, item, m.id);
    m.read_seconds = now() - start;
    m.damaged = m.status == GLOFND_E_FORMAT || m.status == GLOFND_E_IO;
    return m;
}

gf_made gf_make_make(const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t position, int64_t item) {
    gf_made m = gf_make_look(p, w, s, position, item);
    const double read = now();
    if (m.status != GLOFND_OK) return m;
    s->id[item] = m.id;
    s->label[item] = w->sample.label;
    m.status = make_views(&m.why, p, w, s, item, m.id);
    m.augment_seconds = now() - read;
    return m;
}

gf_made gf_make_item(const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t item) {
    return gf_make_make(p, w, s, s->step * gf_prefetch_whole(&p->spec) + p->spec.first + item, item);
}

/* ----- Outcomes ----- */

void gf_make_error(gf_slot *s, int64_t item, glofnd_status status, const gf_error *why) {
    if (s->status != GLOFND_OK && s->error_item <= item) return;
    s->status = status;
    s->error = *why;
    s->error_item = item;
}

static void note_damage(gf_slot *s, int64_t item, const gf_made *m) {
    if (s->damages == s->damage_room) {
        const int64_t room = s->damage_room ? 2 * s->damage_room : 8;
        gf_damage *grown = realloc(s->damage, (size_t)room * sizeof *grown);
        if (!grown) {
            gf_error why;
            gf_make_error(s, item, gf_fail(&why, GLOFND_E_MEMORY, "no memory to note a damaged sample"), &why);
            return;
        }
        s->damage = grown;
        s->damage_room = room;
    }
    s->damage[s->damages++] = (gf_damage){item, m->id, m->why};
}

void gf_make_note(const gf_prefetch *p, gf_slot *s, int64_t item, const gf_made *made) {
    s->read_seconds += made->read_seconds;
    s->augment_seconds += made->augment_seconds;
    if (made->damaged && !p->spec.strict) note_damage(s, item, made);
    else if (made->status != GLOFND_OK) gf_make_error(s, item, made->status, &made->why);
}

/* ----- Damaged samples ----- */

static int by_item(const void *a, const void *b) {
    const int64_t x = ((const gf_damage *)a)->item, y = ((const gf_damage *)b)->item;
    return x < y ? -1 : x > y;
}

static void move_item(const gf_prefetch *p, gf_slot *s, int64_t to, int64_t from) {
    const size_t floats = image_floats(p), context = (size_t)p->spec.context;
    memcpy(s->view[0] + (size_t)to * floats, s->view[0] + (size_t)from * floats, floats * sizeof(float));
    s->id[to] = s->id[from];
    s->label[to] = s->label[from];
    if (!s->token) return;
    memcpy(s->token + (size_t)to * context, s->token + (size_t)from * context, context * sizeof *s->token);
    s->content[to] = s->content[from];
}

/* Closes the gaps the damaged samples left. */
static void leave_out(const gf_prefetch *p, gf_slot *s) {
    int64_t kept = 0, next = 0;
    for (int64_t item = 0; item < s->count; item++) {
        if (next < s->damages && s->damage[next].item == item) {
            next++;
            continue;
        }
        if (kept < item) move_item(p, s, kept, item);
        kept++;
    }
    s->count = kept;
}

void gf_make_finish(gf_prefetch *p, gf_worker *w, gf_slot *s) {
    if (s->status != GLOFND_OK || s->damages == 0) return;
    qsort(s->damage, (size_t)s->damages, sizeof *s->damage, by_item);
    if (gf_prefetch_ends(&p->spec)) leave_out(p, s);
    else gf_replace(p, w, s);
}
