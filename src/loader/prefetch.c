/* prefetch.c - the workers of a loader and their life; see prefetch.h. What they do with one batch is in make_sample.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader/prefetch.h"

#include <signal.h>
#include <stdlib.h>

#include "loader/make_sample.h"
#include "loader/pack_pixels.h"

enum { MOST_WORKERS = 1024, MOST_DEPTH = 1024 };

/* ----- Finding work; all under the lock ----- */

/* Batch `filling` has a slot: the one that used it before was released. Without shuffling batches end with the data. */
static int can_fill(const gf_prefetch *p) {
    if (!p->running || p->filling >= p->released + p->ring) return 0;
    return !gf_prefetch_ends(&p->spec) || p->step + p->filling < p->steps;
}

static void open_slot(const gf_prefetch *p, gf_slot *s) {
    const int64_t at = p->step + p->filling, batch = p->spec.batch;
    const int ends = gf_prefetch_ends(&p->spec);
    s->epoch = p->epoch + (ends ? 0 : (uint32_t)(at / p->steps));
    s->step = ends ? at : at % p->steps;
    s->count = p->n - s->step * batch < batch ? p->n - s->step * batch : batch;
    s->taken = s->finished = s->damages = 0;
    s->status = GLOFND_OK;
    s->read_seconds = s->augment_seconds = 0;
    s->open = 1;
    if (s->raw) gf_raw_open(s);
}

/* The slot whose sample *item is to be made, or NULL. */
static gf_slot *take_item(gf_prefetch *p, int64_t *item) {
    if (!can_fill(p)) return NULL;
    gf_slot *s = &p->slot[p->filling % p->ring];
    if (!s->open) open_slot(p, s);
    *item = s->taken++;
    if (s->taken == s->count) p->filling++;
    return s;
}

/* ----- Workers ----- */

/* Makes one sample; called and left with the lock held. */
static void work_on(gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t item) {
    p->busy++;
    pthread_mutex_unlock(&p->lock);
    gf_made made = gf_make_item(p, w, s, item);
    pthread_mutex_lock(&p->lock);
    gf_make_note(p, s, item, &made);
    if (++s->finished == s->count) {
        pthread_mutex_unlock(&p->lock);
        gf_make_finish(p, w, s);
        pthread_mutex_lock(&p->lock);
        s->ready = 1;
        pthread_cond_broadcast(&p->done);
    }
    if (--p->busy == 0) pthread_cond_broadcast(&p->done);
}

static void *work(void *arg) {
    gf_worker *w = arg;
    gf_prefetch *p = w->owner;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        int64_t item;
        gf_slot *s = take_item(p, &item);
        if (s) work_on(p, w, s, item);
        else pthread_cond_wait(&p->work, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Signals are for the program's own threads: workers block them all. */
static glofnd_status start_workers(gf_error *err, gf_prefetch *p) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    for (int i = 0; i < p->spec.workers && !failed; i++) {
        p->worker[i].owner = p;
        failed = pthread_create(&p->worker[i].thread, NULL, work, &p->worker[i]);
        if (!failed) p->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    FAIL_IF(err, failed, GLOFND_E_MEMORY, "cannot start loader thread %d of %d", p->threads + 1, p->spec.workers);
    return GLOFND_OK;
}

/* ----- Life ----- */

static glofnd_status check_spec(gf_error *err, const gf_loader_spec *s, int64_t n) {
    FAIL_IF(err, s->views < 0 || s->views > 2, GLOFND_E_ARGUMENT, "views is %d; it must be 0, 1 or 2", s->views);
    FAIL_IF(err, s->workers < 1 || s->workers > MOST_WORKERS, GLOFND_E_ARGUMENT, "workers is %d; it must be in [1, %d]",
            s->workers, MOST_WORKERS);
    FAIL_IF(err, s->depth < 1 || s->depth > MOST_DEPTH, GLOFND_E_ARGUMENT, "depth is %d; it must be in [1, %d]", s->depth,
            MOST_DEPTH);
    FAIL_IF(err, s->once && s->views > 1, GLOFND_E_ARGUMENT, "two views cannot be made once");
    FAIL_IF(err, s->raw && gf_prefetch_ends(s), GLOFND_E_ARGUMENT, "raw samples come shuffled only");
    FAIL_IF(err, s->resident && !s->raw, GLOFND_E_ARGUMENT, "only raw samples can be resident");
    FAIL_IF(err, s->bpe && (s->context < 2 || s->context > GF_CONTEXT_MOST), GLOFND_E_ARGUMENT,
            "context is %d; it must be in [2, %d]", s->context, GF_CONTEXT_MOST);
    FAIL_IF(err, n < 1, GLOFND_E_ARGUMENT, "the dataset is empty");
    FAIL_IF(err, s->batch < 1, GLOFND_E_ARGUMENT, "batch is %lld; it must be at least 1", (long long)s->batch);
    FAIL_IF(err, !gf_prefetch_ends(s) && gf_prefetch_whole(s) > n, GLOFND_E_ARGUMENT,
            "batch is %lld, but the dataset has only %lld samples", (long long)gf_prefetch_whole(s), (long long)n);
    FAIL_IF(err, s->first < 0 || s->first > gf_prefetch_whole(s) - s->batch, GLOFND_E_ARGUMENT,
            "%lld samples from %lld on are no part of a batch of %lld", (long long)s->batch, (long long)s->first,
            (long long)gf_prefetch_whole(s));
    return GLOFND_OK;
}

/* What decode = fast may shrink to. */
static int shrink_to(const gf_loader_spec *s) {
    if (!s->fast) return 0;
    return s->views == 0 ? s->resize : gf_augment_enough(&s->augment);
}

static glofnd_status make_texts(gf_error *err, const gf_prefetch *p, gf_slot *s, size_t batch) {
    if (!p->spec.bpe) return GLOFND_OK;
    s->token = malloc(batch * (size_t)p->spec.context * sizeof *s->token);
    s->content = malloc(batch * sizeof *s->content);
    FAIL_IF(err, !s->token || !s->content, GLOFND_E_MEMORY, "no memory for batches of %zu captions", batch);
    return GLOFND_OK;
}

static glofnd_status make_slots(gf_error *err, gf_prefetch *p) {
    const size_t side = (size_t)p->spec.augment.size, image = side * side * 3 * sizeof(float);
    const size_t batch = (size_t)(p->spec.batch < p->n ? p->spec.batch : p->n);
    FAIL_IF(err, batch > SIZE_MAX / 2 / image, GLOFND_E_ARGUMENT, "batch is %lld: too large", (long long)p->spec.batch);
    p->slot = calloc((size_t)p->ring, sizeof *p->slot);
    FAIL_IF(err, !p->slot, GLOFND_E_MEMORY, "no memory for the loader");
    for (int i = 0; i < p->ring; i++) {
        gf_slot *s = &p->slot[i];
        const int first = !p->spec.raw, second = first && p->spec.views == 2;
        if (p->spec.raw) TRY(gf_raw_init(err, p, s, batch));
        TRY(make_texts(err, p, s, batch));
        s->view[0] = first ? malloc(batch * image) : NULL;
        s->view[1] = second ? malloc(batch * image) : NULL;
        s->id = malloc(batch * sizeof *s->id);
        s->label = malloc(batch * sizeof *s->label);
        FAIL_IF(err, (first && !s->view[0]) || (second && !s->view[1]) || !s->id || !s->label, GLOFND_E_MEMORY,
                "no memory for %d batches of %zu images of %zu bytes: lower batch or depth", p->ring, batch, image);
    }
    return GLOFND_OK;
}

static glofnd_status make_workers(gf_error *err, gf_prefetch *p) {
    p->worker = calloc((size_t)p->spec.workers, sizeof *p->worker);
    FAIL_IF(err, !p->worker, GLOFND_E_MEMORY, "no memory for the loader");
    for (int i = 0; i < p->spec.workers; i++) TRY(gf_augment_scratch_create(err, &p->spec.augment, &p->worker[i].scratch));
    return GLOFND_OK;
}

glofnd_status gf_prefetch_init(gf_error *err, gf_prefetch *p, const gf_loader_spec *spec) {
    *p = (gf_prefetch){.spec = *spec, .shrink_to = shrink_to(spec)};
    p->n = spec->ids ? spec->id_count : gf_dataset_describe(spec->data).n;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->spec.workers = 0; /* until they exist, for gf_prefetch_free */
    TRY(check_spec(err, spec, p->n));
    p->steps = gf_prefetch_ends(spec) ? (p->n - 1) / spec->batch + 1 : p->n / gf_prefetch_whole(spec);
    p->spec.workers = spec->workers;
    p->ring = spec->depth + 1;
    TRY(make_workers(err, p));
    TRY(make_slots(err, p));
    return start_workers(err, p);
}

static void free_slot(const gf_prefetch *p, gf_slot *s) {
    gf_raw_free(p, s);
    free(s->view[0]);
    free(s->view[1]);
    free(s->id);
    free(s->label);
    free(s->token);
    free(s->content);
    free(s->damage);
}

void gf_prefetch_free(gf_prefetch *p) {
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->threads; i++) pthread_join(p->worker[i].thread, NULL);
    for (int i = 0; p->worker && i < p->spec.workers; i++) {
        gf_sample_free(&p->worker[i].sample);
        gf_augment_scratch_free(p->worker[i].scratch);
        gf_bpe_scratch_free(&p->worker[i].words);
    }
    for (int i = 0; p->slot && i < p->ring; i++) free_slot(p, &p->slot[i]);
    free(p->worker);
    free(p->slot);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
}

/* ----- The taker's side ----- */

int gf_prefetch_cancelled(gf_prefetch *p) {
    pthread_mutex_lock(&p->lock);
    const int cancelled = p->stop || !p->running;
    pthread_mutex_unlock(&p->lock);
    return cancelled;
}

void gf_prefetch_restart(gf_prefetch *p, uint32_t epoch, int64_t step) {
    pthread_mutex_lock(&p->lock);
    p->running = 0;
    while (p->busy > 0) pthread_cond_wait(&p->done, &p->lock);
    for (int i = 0; i < p->ring; i++) p->slot[i].open = p->slot[i].ready = 0;
    p->filling = p->released = 0;
    p->epoch = epoch;
    p->step = step;
    p->running = 1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}

gf_slot *gf_prefetch_wait(gf_prefetch *p, int64_t ticket) {
    if (gf_prefetch_ends(&p->spec) && p->step + ticket >= p->steps) return NULL;
    gf_slot *s = &p->slot[ticket % p->ring];
    pthread_mutex_lock(&p->lock);
    while (!s->ready) pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return s;
}

gf_slot *gf_prefetch_ready(gf_prefetch *p, int64_t ticket) {
    gf_slot *s = &p->slot[ticket % p->ring];
    pthread_mutex_lock(&p->lock);
    const int ready = s->ready && p->released + p->ring > ticket;
    pthread_mutex_unlock(&p->lock);
    return ready ? s : NULL;
}

void gf_prefetch_release(gf_prefetch *p, int64_t ticket) {
    pthread_mutex_lock(&p->lock);
    for (; p->released < ticket; p->released++) {
        gf_slot *s = &p->slot[p->released % p->ring];
        s->open = s->ready = 0;
    }
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}
