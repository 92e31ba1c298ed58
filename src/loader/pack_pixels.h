/* pack_pixels.h - samples for a device that makes the views itself: the pixels they need, packed, and a job per view.
 *
 * Only what the boxes of a sample's views cover is kept. Where that is too much, the worker resizes the boxes, and the device is
 * given the small pictures, which gives the same views.
 */
#ifndef GF_LOADER_PACK_PIXELS_H
#define GF_LOADER_PACK_PIXELS_H

#include "loader/prefetch.h"

/* Jobs of sample `item` and its pixels, from the image in w->sample; a resident one has its pixels elsewhere. */
glofnd_status gf_raw_make(gf_error *err, const gf_prefetch *p, gf_worker *w, gf_slot *s, int64_t item, int64_t id);
glofnd_status gf_raw_init(gf_error *err, const gf_prefetch *p, gf_slot *s, size_t batch);
void gf_raw_open(gf_slot *s); /* for a new batch */
void gf_raw_free(const gf_prefetch *p, gf_slot *s);

#endif
