/* loader.c - see loader.h: a ring of batches, the worker threads that fill it, and the user's side that takes them.
 *
 * The ring has depth + 1 slots; batch number t since the last seek (its ticket) lives in slot t % ring. Workers take samples of
 * the oldest unfinished batches in order; the worker that finishes the last sample of a batch replaces the unreadable ones and
 * marks the batch ready.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader/loader.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "loader/make_sample.h"
#include "util/array.h"

/* ===== unreadable samples ===== */

/* The unreadable samples of a batch: noted, then replaced by others or, where samples come in order, left out.
 *
 * The substitute depends on (seed, epoch, step), the place in the global batch and the data alone: each of several ranks finds
 * those of its own places without asking the others, and they are the ones that a single rank would find.
 *
 * A place has a row of substitutes: the same place in later batches, wrapping around to the first, and in the rest after the last
 * batch. Rows have no sample in common, so ids in a batch stay different. Where all of a row is unreadable (or there is none: the
 * data hardly fill one batch) the samples that other rows leave over are given out, in the order of places and of positions after
 * the batch; finding these takes reading the whole global batch.
 */

/* ----- outcomes ----- */

/* The error of the first sample in a batch counts. */
static void set_error(gf_slot *s, int64_t item, glofnd_status status, const gf_error *why) {
    if (s->status != GLOFND_OK && s->error_item <= item) return;
    s->status = status;
    s->error = *why;
    s->error_item = item;
}

static void set_no_memory(gf_slot *s, int64_t item) {
    gf_error why;
    set_error(s, item, gf_fail(&why, GLOFND_E_MEMORY, "no memory to replace unreadable samples"), &why);
}

/* ----- substitutes ----- */

typedef struct substitute_search {
    const gf_maker *m;
    gf_worker *w;
    gf_slot *s;
    int64_t places; /* of a batch, of all ranks */
} substitute_search;

static int continues(const substitute_search *a) { return a->s->status == GLOFND_OK && !atomic_load(&a->m->cancelled); }

/* 1: a readable sample. Any error but an unreadable sample ends the search. */
static int is_readable(const substitute_search *a, int64_t item, const gf_made *made) {
    a->s->read_seconds += made->read_seconds;
    a->s->augment_seconds += made->augment_seconds;
    if (made->status != GLOFND_OK && !made->unreadable) set_error(a->s, item, made->status, &made->why);
    return made->status == GLOFND_OK;
}

static int try_make(const substitute_search *a, int64_t position, int64_t item) {
    const gf_made made = gf_make_sample(a->m, a->w, a->s, position, item);
    return is_readable(a, item, &made);
}

/* As make, without its views; `item` is a place still to be filled. */
static int try_probe(const substitute_search *a, int64_t position, int64_t item) {
    const gf_made made = gf_probe_sample(a->m, a->w, a->s, position, item);
    return is_readable(a, item, &made);
}

/* ----- the row of a place ----- */

static int64_t row_length(const substitute_search *a, int64_t place) { return (a->m->n - place + a->places - 1) / a->places; }

/* k = 0: the place itself; its substitutes follow. */
static int64_t row_at(const substitute_search *a, int64_t place, int64_t k) {
    return (a->s->step + k) % row_length(a, place) * a->places + place;
}

static int fill_from_row(const substitute_search *a, int64_t item) {
    const int64_t place = a->m->spec.offset + item;
    for (int64_t k = 1; k < row_length(a, place) && continues(a); k++)
        if (try_make(a, row_at(a, place, k), item)) return 1;
    return 0;
}

/* ----- the samples that rows leave over ----- */

typedef struct leftovers {
    uint8_t *taken; /* [n] bits: positions that a row gives to its place */
    int64_t *empty; /* [places] places whose row has no readable sample, in order */
    int64_t count;
    int64_t next; /* positions after the batch that were tried */
} leftovers;

/* Takes the next leftover, for a place of this rank (mine) or of a different one; `item`: to be filled. 0: none is left. */
static int take_next(const substitute_search *a, leftovers *r, int64_t item, int mine) {
    while (r->next < a->m->n - a->places && continues(a)) {
        const int64_t at = ((a->s->step + 1) * a->places + r->next++) % a->m->n;
        const int taken = r->taken[at / 8] >> (at % 8) & 1;
        if (!taken && (mine ? try_make(a, at, item) : try_probe(a, at, item))) return 1;
    }
    return 0;
}

static void fill_from_leftovers(const substitute_search *a, const int64_t *gap, int64_t gaps) {
    leftovers r = {.taken = calloc((size_t)a->m->n / 8 + 1, 1), .empty = malloc((size_t)a->places * sizeof *r.empty)};
    if (r.taken && r.empty) {
        /* gap [gaps]: own places, in order, whose rows have no readable sample. */
        int64_t filled = 0;
        /* Reads the rows of all places of the batch, also those of other ranks. */
        for (int64_t place = 0; place < a->places && continues(a); place++) {
            int64_t k = 0;
            const int64_t length = row_length(a, place);
            while (k < length && continues(a) && !try_probe(a, row_at(a, place, k), gap[0])) k++;
            const int64_t at = row_at(a, place, k);
            if (k < length) r.taken[at / 8] |= (uint8_t)(1 << at % 8);
            else r.empty[r.count++] = place;
        }
        for (int64_t i = 0; i < r.count && filled < gaps && continues(a); i++) {
            const int mine = r.empty[i] == a->m->spec.offset + gap[filled];
            if (take_next(a, &r, gap[filled], mine)) filled += mine;
            else if (continues(a)) {
                const int64_t readable = a->places - r.count + i;
                gf_error why;
                const char *first = a->s->unreadable[0].why.text; /* cut so that all fits */
                if (readable == 0)
                    gf_fail(&why, GLOFND_E_FORMAT, "all %lld samples are unreadable; the first: %.300s", (long long)a->m->n,
                            first);
                else
                    gf_fail(&why, GLOFND_E_FORMAT,
                            "only %lld of %lld samples are readable, too few for a batch of %lld; the first: %.250s",
                            (long long)readable, (long long)a->m->n, (long long)a->places, first);
                set_error(a->s, gap[filled], GLOFND_E_FORMAT, &why);
            }
        }
    } else set_no_memory(a->s, gap[0]);
    free(r.taken);
    free(r.empty);
}

static void fill_gaps(const gf_maker *m, gf_worker *w, gf_slot *s) {
    const substitute_search a = {m, w, s, gf_maker_global_batch(&m->spec)};
    int64_t *gap = malloc((size_t)s->unreadables * sizeof *gap), gaps = 0;
    if (!gap) set_no_memory(s, s->unreadable[0].item);
    for (int64_t i = 0; i < s->unreadables && continues(&a); i++)
        if (!fill_from_row(&a, s->unreadable[i].item)) gap[gaps++] = s->unreadable[i].item;
    if (gaps > 0 && continues(&a)) fill_from_leftovers(&a, gap, gaps);
    free(gap);
}

static int by_item(const void *a, const void *b) {
    const int64_t x = ((const gf_unreadable_item *)a)->item, y = ((const gf_unreadable_item *)b)->item;
    return x < y ? -1 : x > y;
}

/* All samples were tried: replaces the unreadable ones, or leaves them out. E_FORMAT in s if too few samples are readable.
 * Without the lock: s belongs to w. */
static void replace_unreadable(const gf_maker *m, gf_worker *w, gf_slot *s) {
    if (s->status != GLOFND_OK || s->unreadables == 0) return;
    qsort(s->unreadable, (size_t)s->unreadables, sizeof *s->unreadable, by_item);
    if (gf_maker_in_order(&m->spec)) {
        /* Closes the gaps that the unreadable samples left. */
        int64_t kept = 0, next = 0;
        for (int64_t item = 0; item < s->count; item++) {
            if (next < s->unreadables && s->unreadable[next].item == item) {
                next++;
                continue;
            }
            if (kept < item) {
                const size_t side = (size_t)m->spec.augment.size, floats = side * side * 3, context = (size_t)m->spec.context;
                memcpy(s->view[0] + (size_t)kept * floats, s->view[0] + (size_t)item * floats, floats * sizeof(float));
                s->id[kept] = s->id[item];
                s->label[kept] = s->label[item];
                if (s->token) {
                    memcpy(s->token + (size_t)kept * context, s->token + (size_t)item * context, context * sizeof *s->token);
                    s->content[kept] = s->content[item];
                }
            }
            kept++;
        }
        s->count = kept;
    } else fill_gaps(m, w, s);
}

/* ===== the ring of batches and its workers ===== */

enum { WORKERS_MAX = 1024, DEPTH_MAX = 1024 };

typedef struct thread {
    gf_loader *loader;
    pthread_t id;
    gf_worker worker;
} thread;

struct gf_loader {
    gf_maker maker;
    int64_t steps; /* per epoch */
    int ring;
    gf_slot *slot;   /* [ring] */
    thread *threads; /* [workers] */
    int workers, started;

    pthread_mutex_t lock;      /* of the fields down to `released`, and of the slots' counts and flags */
    pthread_cond_t work, done; /* something to do for workers; something done by them */
    int filling_on, stop;
    int busy;       /* workers at work */
    uint32_t epoch; /* ticket 0 is this epoch and step */
    int64_t step;
    int64_t filling, released; /* ticket that gives out samples; tickets below are free again */

    int sought;
    int64_t ticket;      /* of the next batch */
    int64_t given;       /* samples since the last seek */
    uint8_t *unreadable; /* [samples of the dataset] bits: found unreadable; NULL: none yet */
    int64_t unreadables;
};

/* ----- Workers ----- */

/* The slot whose sample *item is to be made, or NULL: no slot is free, or in order the data has ended. With the lock. */
static gf_slot *take_item(gf_loader *l, int64_t *item) {
    if (!l->filling_on || l->filling >= l->released + l->ring) return NULL;
    if (gf_maker_in_order(&l->maker.spec) && l->step + l->filling >= l->steps) return NULL;
    gf_slot *s = &l->slot[l->filling % l->ring];
    if (!s->open) {
        const int64_t at = l->step + l->filling, batch = l->maker.spec.batch;
        const int in_order = gf_maker_in_order(&l->maker.spec);
        s->epoch = l->epoch + (in_order ? 0 : (uint32_t)(at / l->steps));
        s->step = in_order ? at : at % l->steps;
        s->count = l->maker.n - s->step * batch < batch ? l->maker.n - s->step * batch : batch;
        s->taken = s->finished = s->unreadables = 0;
        s->status = GLOFND_OK;
        s->read_seconds = s->augment_seconds = 0;
        s->open = 1;
        if (s->packed) gf_packed_reset(s->packed);
    }
    *item = s->taken++;
    if (s->taken == s->count) l->filling++;
    return s;
}

static void *make_batches(void *arg) {
    thread *t = arg;
    gf_loader *l = t->loader;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        int64_t item;
        gf_slot *s = take_item(l, &item);
        if (s) {
            /* Makes one sample, without the lock. */
            const gf_loader_spec *spec = &l->maker.spec;
            l->busy++;
            pthread_mutex_unlock(&l->lock);
            const gf_made made =
                gf_make_sample(&l->maker, &t->worker, s, s->step * gf_maker_global_batch(spec) + spec->offset + item, item);
            pthread_mutex_lock(&l->lock);
            s->read_seconds += made.read_seconds;
            s->augment_seconds += made.augment_seconds;
            if (made.unreadable && !l->maker.spec.strict) {
                if (gf_grow(&s->unreadable, &s->unreadable_capacity, (size_t)s->unreadables + 1, sizeof *s->unreadable))
                    s->unreadable[s->unreadables++] = (gf_unreadable_item){item, made.id, made.why};
                else set_no_memory(s, item);
            } else if (made.status != GLOFND_OK) set_error(s, item, made.status, &made.why);
            if (++s->finished == s->count) {
                pthread_mutex_unlock(&l->lock);
                replace_unreadable(&l->maker, &t->worker, s);
                pthread_mutex_lock(&l->lock);
                s->ready = 1;
                pthread_cond_broadcast(&l->done);
            }
            if (--l->busy == 0) pthread_cond_broadcast(&l->done);
        } else pthread_cond_wait(&l->work, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ----- Creation ----- */

/* Bytes of one float image. */
static size_t view_bytes(const gf_loader_spec *s) {
    return (size_t)s->augment.size * (size_t)s->augment.size * 3 * sizeof(float);
}

static size_t batch_of(const gf_loader *l) {
    return (size_t)(l->maker.spec.batch < l->maker.n ? l->maker.spec.batch : l->maker.n);
}

static glofnd_status init_loader(gf_error *err, gf_loader *l, const gf_loader_spec *spec) {
    gf_maker *m = &l->maker;
    m->spec = *spec;
    m->n = spec->ids ? spec->id_count : gf_dataset_describe(spec->data).n;
    if (spec->fast) m->shrink_to = spec->views == 0 ? spec->resize : gf_augment_enough(&spec->augment);
    FAIL_IF(err, spec->views < 0 || spec->views > 2, GLOFND_E_ARGUMENT, "views is %d; it must be 0, 1 or 2", spec->views);
    FAIL_IF(err, spec->workers < 1 || spec->workers > WORKERS_MAX, GLOFND_E_ARGUMENT, "workers is %d; it must be in [1, %d]",
            spec->workers, WORKERS_MAX);
    FAIL_IF(err, spec->depth < 1 || spec->depth > DEPTH_MAX, GLOFND_E_ARGUMENT, "depth is %d; it must be in [1, %d]", spec->depth,
            DEPTH_MAX);
    FAIL_IF(err, spec->once && spec->views > 1, GLOFND_E_ARGUMENT, "two views cannot be made once");
    FAIL_IF(err, spec->pack && gf_maker_in_order(spec), GLOFND_E_ARGUMENT, "packed samples come shuffled only");
    FAIL_IF(err, spec->preload && !spec->pack, GLOFND_E_ARGUMENT, "only packed samples can be preloaded");
    FAIL_IF(err, spec->bpe && (spec->context < 2 || spec->context > GF_CONTEXT_MAX), GLOFND_E_ARGUMENT,
            "context is %d; it must be in [2, %d]", spec->context, GF_CONTEXT_MAX);
    FAIL_IF(err, m->n < 1, GLOFND_E_ARGUMENT, "the dataset is empty");
    FAIL_IF(err, spec->batch < 1, GLOFND_E_ARGUMENT, "batch is %lld; it must be at least 1", (long long)spec->batch);
    FAIL_IF(err, !gf_maker_in_order(spec) && gf_maker_global_batch(spec) > m->n, GLOFND_E_ARGUMENT,
            "batch is %lld, but the dataset has only %lld samples", (long long)gf_maker_global_batch(spec), (long long)m->n);
    FAIL_IF(err, spec->offset < 0 || spec->offset > gf_maker_global_batch(spec) - spec->batch, GLOFND_E_ARGUMENT,
            "%lld samples from %lld on are no part of a batch of %lld", (long long)spec->batch, (long long)spec->offset,
            (long long)gf_maker_global_batch(spec));
    l->steps = gf_maker_in_order(spec) ? (m->n - 1) / spec->batch + 1 : m->n / gf_maker_global_batch(spec);
    l->threads = calloc((size_t)spec->workers, sizeof *l->threads);
    FAIL_IF(err, !l->threads, GLOFND_E_MEMORY, "no memory for the loader");
    l->workers = spec->workers;
    for (int i = 0; i < l->workers; i++) {
        l->threads[i].worker.pixels.budget = &m->pixels;
        TRY(gf_augment_scratch_create(err, &spec->augment, &l->threads[i].worker.scratch));
    }
    FAIL_IF(err, batch_of(l) > SIZE_MAX / 2 / view_bytes(spec), GLOFND_E_ARGUMENT, "batch is %lld: too large",
            (long long)spec->batch);
    l->slot = calloc((size_t)spec->depth + 1, sizeof *l->slot);
    FAIL_IF(err, !l->slot, GLOFND_E_MEMORY, "no memory for the loader");
    l->ring = spec->depth + 1;
    for (int i = 0; i < l->ring; i++) {
        gf_slot *s = &l->slot[i];
        const size_t batch = batch_of(l);
        const size_t view = view_bytes(spec);
        const int views = spec->pack ? 0 : spec->views == 2 ? 2 : 1;
        if (spec->pack) TRY(gf_packed_create(err, spec, batch, &s->packed));
        if (spec->bpe) {
            s->token = malloc(batch * (size_t)spec->context * sizeof *s->token);
            s->content = malloc(batch * sizeof *s->content);
            FAIL_IF(err, !s->token || !s->content, GLOFND_E_MEMORY, "no memory for batches of %zu captions", batch);
        }
        s->id = malloc(batch * sizeof *s->id);
        s->label = malloc(batch * sizeof *s->label);
        for (int v = 0; v < views; v++) s->view[v] = malloc(batch * view);
        FAIL_IF(err, (views > 0 && !s->view[0]) || (views > 1 && !s->view[1]) || !s->id || !s->label, GLOFND_E_MEMORY,
                "no memory for %d batches of %zu images of %zu bytes: lower batch or depth", l->ring, batch, view);
    }
    /* Signals are for the program's own threads: workers block them all. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    for (int i = 0; i < l->workers && !failed; i++) {
        l->threads[i].loader = l;
        failed = pthread_create(&l->threads[i].id, NULL, make_batches, &l->threads[i]);
        if (!failed) l->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    FAIL_IF(err, failed, GLOFND_E_MEMORY, "cannot start loader thread %d of %d", l->started + 1, l->workers);
    return GLOFND_OK;
}

glofnd_status gf_loader_create(gf_error *err, const gf_loader_spec *spec, gf_loader **out) {
    FAIL_IF(err, !spec->data, GLOFND_E_ARGUMENT, "a loader needs a dataset");
    gf_loader *l = calloc(1, sizeof *l);
    FAIL_IF(err, !l, GLOFND_E_MEMORY, "no memory for the loader");
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    gf_pixel_budget_init(&l->maker.pixels, spec->max_pixels > 0 ? spec->max_pixels : GF_MAX_PIXELS);
    const glofnd_status status = init_loader(err, l, spec);
    if (status == GLOFND_OK) *out = l;
    else gf_loader_free(l);
    return status;
}

void gf_loader_free(gf_loader *l) {
    if (!l) return;
    atomic_store(&l->maker.cancelled, 1);
    pthread_mutex_lock(&l->lock);
    l->stop = 1;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->started; i++) pthread_join(l->threads[i].id, NULL);
    for (int i = 0; i < l->workers; i++) {
        gf_sample_free(&l->threads[i].worker.sample);
        gf_augment_scratch_free(l->threads[i].worker.scratch);
        gf_bpe_scratch_free(&l->threads[i].worker.words);
    }
    for (int i = 0; i < l->ring; i++) {
        gf_slot *s = &l->slot[i];
        gf_packed_free(&l->maker.spec, s->packed);
        free(s->view[0]);
        free(s->view[1]);
        free(s->id);
        free(s->label);
        free(s->token);
        free(s->content);
        free(s->unreadable);
    }
    free(l->threads);
    free(l->slot);
    free(l->unreadable);
    gf_pixel_budget_free(&l->maker.pixels);
    pthread_cond_destroy(&l->done);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

int64_t gf_loader_steps(const gf_loader *l) { return l->steps; }

size_t gf_loader_bytes(const gf_loader *l) {
    size_t sample = 0;
    for (int i = 0; i < l->ring; i++) {
        const gf_slot *s = &l->slot[i];
        sample += view_bytes(&l->maker.spec) * (size_t)(!!s->view[0] + !!s->view[1]) + sizeof *s->id + sizeof *s->label;
        if (s->token) sample += (size_t)l->maker.spec.context * sizeof *s->token + sizeof *s->content;
    }
    return batch_of(l) * sample;
}

int64_t gf_loader_unreadable(const gf_loader *l) { return l->unreadables; }

/* ----- The user's side ----- */

/* Waits for samples in work, drops all batches, and starts again at (epoch, step). */
glofnd_status gf_loader_seek(gf_error *err, gf_loader *l, uint32_t epoch, int64_t step) {
    FAIL_IF(err, step < 0 || step > l->steps, GLOFND_E_ARGUMENT, "step is %lld; an epoch has %lld", (long long)step,
            (long long)l->steps);
    pthread_mutex_lock(&l->lock);
    atomic_store(&l->maker.cancelled, 1);
    l->filling_on = 0;
    while (l->busy > 0) pthread_cond_wait(&l->done, &l->lock);
    for (int i = 0; i < l->ring; i++) l->slot[i].open = l->slot[i].ready = 0;
    l->filling = l->released = 0;
    l->epoch = epoch;
    l->step = step;
    l->filling_on = 1;
    atomic_store(&l->maker.cancelled, 0);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    l->sought = 1;
    l->ticket = l->given = 0;
    return GLOFND_OK;
}

static glofnd_status show_batch(gf_error *err, const gf_slot *s, gf_batch *out) {
    FAIL_IF(err, s->status != GLOFND_OK, s->status, "%s", s->error.text);
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
    if (s->packed) gf_packed_describe(s->packed, out);
    return GLOFND_OK;
}

glofnd_status gf_loader_peek(gf_error *err, gf_loader *l, gf_batch *out) {
    FAIL_IF(err, gf_maker_in_order(&l->maker.spec), GLOFND_E_ARGUMENT, "gf_loader_peek is only for shuffled batches");
    if (!l->sought) TRY(gf_loader_seek(err, l, 0, 0));
    const gf_slot *s = &l->slot[l->ticket % l->ring];
    pthread_mutex_lock(&l->lock);
    const int ready = s->ready && l->released + l->ring > l->ticket;
    pthread_mutex_unlock(&l->lock);
    *out = (gf_batch){0};
    return ready ? show_batch(err, s, out) : GLOFND_OK;
}

glofnd_status gf_loader_next(gf_error *err, gf_loader *l, gf_batch *out) {
    if (!l->sought) TRY(gf_loader_seek(err, l, 0, 0));
    do {
        /* Frees the slots of batches before the next one, and waits for that, unless, in order, it lies beyond the end. */
        const gf_slot *s = &l->slot[l->ticket % l->ring];
        const int is_end = gf_maker_in_order(&l->maker.spec) && l->step + l->ticket >= l->steps;
        pthread_mutex_lock(&l->lock);
        for (; l->released < l->ticket; l->released++) {
            gf_slot *before = &l->slot[l->released % l->ring];
            before->open = before->ready = 0;
        }
        pthread_cond_broadcast(&l->work);
        while (!is_end && !s->ready) pthread_cond_wait(&l->done, &l->lock);
        pthread_mutex_unlock(&l->lock);
        if (is_end) {
            FAIL_IF(err, l->given == 0 && l->unreadables == l->maker.n, GLOFND_E_FORMAT, "all %lld samples are unreadable",
                    (long long)l->maker.n);
            *out = (gf_batch){.epoch = l->epoch, .step = l->steps};
            return GLOFND_OK;
        }
        TRY(show_batch(err, s, out));
        const gf_loader_spec *spec = &l->maker.spec;
        for (int64_t i = 0; i < s->unreadables; i++) {
            const int64_t id = s->unreadable[i].id;
            if (!l->unreadable) l->unreadable = calloc((size_t)gf_dataset_describe(l->maker.spec.data).n / 8 + 1, 1);
            FAIL_IF(err, !l->unreadable, GLOFND_E_MEMORY, "no memory to count unreadable samples");
            const uint8_t bit = (uint8_t)(1 << id % 8);
            l->unreadables += !(l->unreadable[id / 8] & bit);
            l->unreadable[id / 8] |= bit;
            if (spec->unreadable) spec->unreadable(spec->user, s->unreadable[i].id, s->unreadable[i].why.text);
        }
        l->ticket++;
    } while (out->n == 0); /* in order: that batch had no readable sample */
    l->given += out->n;
    return GLOFND_OK;
}
