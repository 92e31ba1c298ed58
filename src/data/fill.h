/* fill.h - the samples of one batch: reading, augmenting, replacing the damaged. */
#ifndef GF_DATA_FILL_H
#define GF_DATA_FILL_H

#include "data/prefetch.h"

typedef struct gf_made {        /* how the making of a sample went */
    glofnd_status status;
    int damaged;                /* the sample cannot be read; nothing else is wrong */
    int64_t id;
    gf_error why;
    double read_seconds, augment_seconds;
} gf_made;

/* View v of sample id. */
gf_view gf_fill_draw(const gf_prefetch *p, uint32_t epoch, int64_t id, int v, int width, int height);
/* The sample at `position` of the epoch's order, into place `item` of s; `look` only reads it, and spoils the text of that place.
 * Without the lock. */
gf_made gf_fill_make(const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t position, int64_t item);
gf_made gf_fill_look(const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t position, int64_t item);
/* Sample `item` of s, by worker w. Without the lock. */
gf_made gf_fill_item(const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t item);
/* Adds its outcome to s. With the lock. */
void gf_fill_note(const gf_prefetch *p, gf_slot *s, int64_t item, const gf_made *made);
/* Of several errors in a batch, that of its first sample counts. */
void gf_fill_error(gf_slot *s, int64_t item, glofnd_status status, const gf_error *why);
/* All samples were tried: replaces damaged ones, or leaves them out (views 0). Without the lock: s belongs to w now. */
void gf_fill_finish(gf_prefetch *p, gf_worker *w, gf_slot *s);

#endif
