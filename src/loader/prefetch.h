/* prefetch.h - what loader.c (the side that takes batches) and prefetch.c (the workers that fill them) share.
 *
 * A ring of depth + 1 slots; batch number t since the last seek (its ticket) lives in slot t % ring. Workers take samples of
 * the oldest unfinished batches in order; whoever finishes the last sample of a batch replaces its damaged ones and marks it
 * ready. Everything in gf_prefetch below `lock` is guarded by it; a slot's arrays belong to the workers until it is ready, then
 * to the taker until it is released.
 */
#ifndef GF_LOADER_PREFETCH_H
#define GF_LOADER_PREFETCH_H

#include <pthread.h>

#include "loader/loader.h"

typedef struct gf_damage {
    int64_t item, id; /* where in the batch; which sample */
    gf_error why;
} gf_damage;

typedef struct gf_raw {   /* of a slot with raw samples */
    gf_view_job *job;     /* [views][batch] */
    pthread_mutex_t lock; /* of what follows, while workers fill */
    gf_pixels *chunk;     /* [chunks] */
    int chunks, filling;  /* the one with room is `filling` or later */
} gf_raw;

typedef struct gf_slot {
    uint32_t epoch;
    int64_t step, count;     /* samples wanted */
    int64_t taken, finished; /* samples handed to workers; done by them */
    int open, ready;
    glofnd_status status; /* of the batch; text in `error`, from sample `error_item` */
    gf_error error;
    int64_t error_item;
    float *view[2];      /* [batch][size][size][3]; NULL with raw */
    gf_raw *raw;         /* NULL: views */
    int64_t *id;         /* [batch] */
    int32_t *label;      /* [batch] */
    int32_t *token;      /* [batch][context]; NULL without text, as is what follows */
    gf_content *content; /* [batch] */
    gf_damage *damage;   /* by item; then failed replacements */
    int64_t damages, damage_room;
    double read_seconds, augment_seconds;
} gf_slot;

typedef struct gf_worker {
    struct gf_prefetch *owner;
    pthread_t thread;
    gf_sample sample;
    gf_augment_scratch *scratch;
    gf_bpe_scratch words;
} gf_worker;

typedef struct gf_prefetch {
    gf_loader_spec spec;
    int64_t n, steps;
    int shrink_to;
    int ring;
    gf_slot *slot;     /* [ring] */
    gf_worker *worker; /* [spec.workers] */
    int threads;       /* of them started */

    pthread_mutex_t lock;
    pthread_cond_t work, done; /* something to do for workers; something done by them */
    int running, stop;
    int busy;       /* workers at work */
    uint32_t epoch; /* ticket 0 is this epoch and step */
    int64_t step;
    int64_t filling, released; /* ticket that gives out samples; tickets below are free again */
} gf_prefetch;

/* Samples of one step, of all ranks. */
static inline int64_t gf_prefetch_whole(const gf_loader_spec *s) { return s->whole > 0 ? s->whole : s->batch; }
/* Samples come in order and once, instead of shuffled epoch after epoch. */
static inline int gf_prefetch_ends(const gf_loader_spec *s) { return s->views == 0 || s->once; }
/* *p is as gf_prefetch_init leaves it: free to be freed, also after a failure. */
glofnd_status gf_prefetch_init(gf_error *err, gf_prefetch *p, const gf_loader_spec *spec);
void gf_prefetch_free(gf_prefetch *p);
/* Waits for samples in work, drops all batches, and starts again at (epoch, step). */
void gf_prefetch_restart(gf_prefetch *p, uint32_t epoch, int64_t step);
/* Waits for batch `ticket`; NULL: it lies beyond the end (gf_prefetch_ends). */
gf_slot *gf_prefetch_wait(gf_prefetch *p, int64_t ticket);
gf_slot *gf_prefetch_ready(gf_prefetch *p, int64_t ticket); /* without waiting; NULL: not ready */
/* Batches below `ticket` are no longer needed. */
void gf_prefetch_release(gf_prefetch *p, int64_t ticket);
/* For a worker in a long search: nobody waits for this batch any more. Without the lock. */
int gf_prefetch_cancelled(gf_prefetch *p);

#endif
