/* make_sample.h - the samples of one batch: reading, augmenting, replacing the damaged. */
#ifndef GF_LOADER_MAKE_SAMPLE_H
#define GF_LOADER_MAKE_SAMPLE_H

#include "loader/prefetch.h"

typedef struct gf_made { /* how the making of a sample went */
    glofnd_status status;
    int damaged; /* the sample cannot be read; nothing else is wrong */
    int64_t id;
    gf_error why;
    double read_seconds, augment_seconds;
} gf_made;

/* View v of sample id. */
gf_view gf_make_draw(const gf_prefetch *p, uint32_t epoch, int64_t id, int v, int width, int height);
/* The sample at `position` of the epoch's order, into place `item` of s; `look` only reads it, and spoils the text of that place.
 * Without the lock. */
gf_made gf_make_make(const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t position, int64_t item);
gf_made gf_make_look(const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t position, int64_t item);
/* Sample `item` of s, by worker w. Without the lock. */
gf_made gf_make_item(const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t item);
/* Adds its outcome to s. With the lock. */
void gf_make_note(const gf_prefetch *p, gf_slot *s, int64_t item, const gf_made *made);
/* Of several errors in a batch, that of its first sample counts. */
void gf_make_error(gf_slot *s, int64_t item, glofnd_status status, const gf_error *why);
/* All samples were tried: replaces damaged ones, or leaves them out (views 0). Without the lock: s belongs to w now. */
void gf_make_finish(gf_prefetch *p, gf_worker *w, gf_slot *s);

#endif
