/* make_sample.h - one sample of a batch: read, caption as tokens, views or pixels for a device. */
#pragma once

#include <stdatomic.h>

#include "image/image.h"
#include "loader/loader.h"

/* ----- samples for a device that makes the views itself: the pixels they need, packed, and a job per view -----
 *
 * Only the pixels that the boxes of a sample's views cover are kept. Where these are too many, the worker resizes the boxes and
 * the device is given the small images, which gives the same views.
 */

typedef struct gf_packed gf_packed; /* jobs and pixels of one batch; its memory grows to the largest one and is kept */

glofnd_status gf_packed_create(gf_error *err, const gf_loader_spec *spec, size_t batch, gf_packed **out);
void gf_packed_free(const gf_loader_spec *spec, gf_packed *p);
void gf_packed_reset(gf_packed *p);                         /* for a new batch */
void gf_packed_describe(const gf_packed *p, gf_batch *out); /* sets job, pixels, pixel_chunks */

/* ----- a batch of the loader, and one sample of it ----- */

typedef struct gf_unreadable_item {
    int64_t item, id; /* place in the batch; sample */
    gf_error why;
} gf_unreadable_item;

/* A batch of the ring. Its arrays belong to the workers until it is ready, then to the user until it is released. */
typedef struct gf_slot {
    uint32_t epoch;
    int64_t step, count;     /* samples wanted */
    int64_t taken, finished; /* samples handed to workers; done by them */
    int open, ready;
    glofnd_status status; /* of the batch; text in `error`, from sample `error_item` */
    gf_error error;
    int64_t error_item;
    float *view[2];                 /* [batch][size][size][3]; NULL with pack */
    gf_packed *packed;              /* NULL: views */
    int64_t *id;                    /* [batch] */
    int32_t *label;                 /* [batch] */
    int32_t *token;                 /* [batch][context]; NULL without text, as is content */
    gf_content *content;            /* [batch] */
    gf_unreadable_item *unreadable; /* [unreadables] in the end by item */
    int64_t unreadables;
    size_t unreadable_capacity;
    double read_seconds, augment_seconds;
} gf_slot;

typedef struct gf_maker { /* settings that all samples of a loader share */
    gf_loader_spec spec;
    int64_t n;     /* samples to choose from */
    int shrink_to; /* gf_decode_hint.shrink_to */
    gf_pixel_budget pixels;
    atomic_int cancelled; /* the batches in work are no longer wanted */
} gf_maker;

typedef struct gf_worker { /* buffers of one thread */
    gf_sample sample;
    gf_pixel_share pixels; /* of the sample */
    gf_augment_scratch *scratch;
    gf_bpe_scratch words;
} gf_worker;

typedef struct gf_made { /* outcome of making a sample */
    glofnd_status status;
    int unreadable; /* status is about the sample alone: E_FORMAT or E_IO */
    int64_t id;
    gf_error why;
    double read_seconds, augment_seconds;
} gf_made;

/* Samples of one step, of all ranks. */
static inline int64_t gf_maker_global_batch(const gf_loader_spec *s) { return s->global_batch > 0 ? s->global_batch : s->batch; }
/* Samples come in order and once, instead of shuffled epoch after epoch. */
static inline int gf_maker_in_order(const gf_loader_spec *s) { return s->views == 0 || s->once; }

/* Makes the sample at `position` of the epoch's order, for place `item` of s. Without the loader's lock. */
gf_made gf_make_sample(const gf_maker *m, gf_worker *w, gf_slot *s, int64_t position, int64_t item);
/* Only reads it; overwrites the text of that place. */
gf_made gf_probe_sample(const gf_maker *m, gf_worker *w, gf_slot *s, int64_t position, int64_t item);
