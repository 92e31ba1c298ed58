/* loader.c - the side of the loader that takes batches; see loader.h and prefetch.h. */
#include "loader/loader.h"

#include <stdlib.h>

#include "loader/prefetch.h"

struct gf_loader {
    gf_prefetch prefetch;
    int started;
    int64_t ticket;   /* of the next batch */
    int64_t given;    /* samples since the last seek */
    int64_t *damaged; /* ids found damaged, a hash table of `room` places, -1: free */
    int64_t room, damages;
};

glofnd_status gf_loader_create(gf_error *err, const gf_loader_spec *spec, gf_loader **out) {
    FAIL_IF(err, !spec->data, GLOFND_E_ARGUMENT, "a loader needs a dataset");
    gf_loader *l = calloc(1, sizeof *l);
    FAIL_IF(err, !l, GLOFND_E_MEMORY, "no memory for the loader");
    const glofnd_status status = gf_prefetch_init(err, &l->prefetch, spec);
    if (status != GLOFND_OK) {
        gf_loader_free(l);
        return status;
    }
    *out = l;
    return GLOFND_OK;
}

void gf_loader_free(gf_loader *l) {
    if (!l) return;
    gf_prefetch_free(&l->prefetch);
    free(l->damaged);
    free(l);
}

int64_t gf_loader_steps(const gf_loader *l) { return l->prefetch.steps; }

size_t gf_loader_bytes(const gf_loader *l) {
    const gf_prefetch *p = &l->prefetch;
    const size_t side = (size_t)p->spec.augment.size, image = side * side * 3 * sizeof(float);
    const size_t batch = (size_t)(p->spec.batch < p->n ? p->spec.batch : p->n);
    size_t sample = 0;
    for (int i = 0; i < p->ring; i++) {
        const gf_slot *s = &p->slot[i];
        sample += image * (size_t)(!!s->view[0] + !!s->view[1]) + sizeof *s->id + sizeof *s->label;
        if (s->token) sample += (size_t)p->spec.context * sizeof *s->token + sizeof *s->content;
    }
    return batch * sample;
}

int64_t gf_loader_damaged(const gf_loader *l) { return l->damages; }

glofnd_status gf_loader_seek(gf_error *err, gf_loader *l, uint32_t epoch, int64_t step) {
    FAIL_IF(err, step < 0 || step > l->prefetch.steps, GLOFND_E_ARGUMENT, "step is %lld; an epoch has %lld", (long long)step,
            (long long)l->prefetch.steps);
    gf_prefetch_restart(&l->prefetch, epoch, step);
    l->started = 1;
    l->ticket = l->given = 0;
    return GLOFND_OK;
}

/* ----- Damaged samples ----- */

static int64_t place_of(const int64_t *table, int64_t room, int64_t id) {
    uint64_t at = ((uint64_t)id * 0x9E3779B97F4A7C15u) >> 32;
    while (table[at % (uint64_t)room] >= 0 && table[at % (uint64_t)room] != id) at++;
    return (int64_t)(at % (uint64_t)room);
}

static glofnd_status grow_table(gf_error *err, gf_loader *l) {
    const int64_t room = l->room ? 2 * l->room : 64;
    int64_t *table = malloc((size_t)room * sizeof *table);
    FAIL_IF(err, !table, GLOFND_E_MEMORY, "no memory to count damaged samples");
    for (int64_t i = 0; i < room; i++) table[i] = -1;
    for (int64_t i = 0; i < l->room; i++) {
        if (l->damaged[i] >= 0) table[place_of(table, room, l->damaged[i])] = l->damaged[i];
    }
    free(l->damaged);
    l->damaged = table;
    l->room = room;
    return GLOFND_OK;
}

static glofnd_status count_damaged(gf_error *err, gf_loader *l, int64_t id) {
    if (2 * l->damages >= l->room) TRY(grow_table(err, l));
    int64_t *place = &l->damaged[place_of(l->damaged, l->room, id)];
    l->damages += *place < 0;
    *place = id;
    return GLOFND_OK;
}

static glofnd_status report_damaged(gf_error *err, gf_loader *l, const gf_slot *s) {
    const gf_loader_spec *spec = &l->prefetch.spec;
    for (int64_t i = 0; i < s->damages; i++) {
        TRY(count_damaged(err, l, s->damage[i].id));
        if (spec->damaged) spec->damaged(spec->user, s->damage[i].id, s->damage[i].why.text);
    }
    return GLOFND_OK;
}

/* ----- Batches ----- */

static void show(const gf_slot *s, gf_batch *out) {
    *out = (gf_batch){
        .n = s->count,
        .view = {s->view[0], s->view[1]},
        .id = s->id,
        .label = s->label,
        .token = s->token,
        .content = s->content,
        .epoch = s->epoch,
        .step = s->step,
        .read_seconds = s->read_seconds,
        .augment_seconds = s->augment_seconds,
    };
    if (!s->raw) return;
    out->job = s->raw->job;
    out->pixels = s->raw->chunk;
    out->pixel_runs = s->raw->chunks;
}

static glofnd_status at_end(gf_error *err, const gf_loader *l, gf_batch *out) {
    FAIL_IF(err, l->given == 0 && l->damages == l->prefetch.n, GLOFND_E_FORMAT, "all %lld samples are damaged",
            (long long)l->prefetch.n);
    *out = (gf_batch){.epoch = l->prefetch.epoch, .step = l->prefetch.steps};
    return GLOFND_OK;
}

static glofnd_status outcome(gf_error *err, const gf_slot *s) {
    FAIL_IF(err, s->status != GLOFND_OK, s->status, "%s", s->error.text);
    return GLOFND_OK;
}

glofnd_status gf_loader_peek(gf_error *err, gf_loader *l, gf_batch *out) {
    FAIL_IF(err, gf_prefetch_ends(&l->prefetch.spec), GLOFND_E_ARGUMENT, "batches that end cannot be looked at ahead");
    if (!l->started) TRY(gf_loader_seek(err, l, 0, 0));
    const gf_slot *s = gf_prefetch_ready(&l->prefetch, l->ticket);
    *out = (gf_batch){0};
    if (!s) return GLOFND_OK;
    TRY(outcome(err, s));
    show(s, out);
    return GLOFND_OK;
}

glofnd_status gf_loader_next(gf_error *err, gf_loader *l, gf_batch *out) {
    gf_prefetch *p = &l->prefetch;
    if (!l->started) TRY(gf_loader_seek(err, l, 0, 0));
    do {
        gf_prefetch_release(p, l->ticket);
        const gf_slot *s = gf_prefetch_wait(p, l->ticket);
        if (!s) return at_end(err, l, out);
        TRY(outcome(err, s));
        TRY(report_damaged(err, l, s));
        show(s, out);
        l->ticket++;
    } while (out->n == 0); /* views 0: nothing readable in that batch */
    l->given += out->n;
    return GLOFND_OK;
}
