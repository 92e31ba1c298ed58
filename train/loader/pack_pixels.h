/* pack_pixels.h - samples for a device that makes the views itself: the pixels they need, packed, and a job per view.
 *
 * Only the pixels that the boxes of a sample's views cover are kept. Where these are too many, the worker resizes the boxes and
 * the device is given the small images, which gives the same views.
 */
#pragma once

#include "image/jpeg_plain.h"
#include "loader/loader.h"

typedef struct gf_packed gf_packed; /* jobs and pixels of one batch; its memory grows to the largest one and is kept */

glofnd_status gf_packed_create(gf_error *err, const gf_loader_spec *spec, size_t batch, gf_packed **out);
void gf_packed_free(const gf_loader_spec *spec, gf_packed *p);
void gf_packed_reset(gf_packed *p); /* for a new batch */
/* Adds jobs and pixels of sample `item`; several workers may. views [spec->views], drawn for `image`, which is without pixels and
 * of the common size if samples are preloaded. */
glofnd_status gf_pack_sample(gf_error *err, const gf_loader_spec *spec, gf_packed *p, int64_t item, int64_t id,
                             const gf_image *image, const gf_view *views, gf_augment_scratch *x);
/* 1: the device can make these views of a whole image. */
int gf_pack_keeps(const gf_loader_spec *spec, const gf_view *views);
/* The same as gf_pack_sample for a file that the device decodes; jobs count from its first pixel. `bytes`: the file. */
glofnd_status gf_pack_encoded(gf_error *err, const gf_loader_spec *spec, gf_packed *p, int64_t item, const gf_plain_jpeg *plain,
                              const uint8_t *bytes, const gf_view *views);
gf_encoded *gf_packed_encoded(gf_packed *p);                /* [batch] of a place whose image the CPU decoded the size is 0 */
gf_view_job *gf_packed_jobs(gf_packed *p);                  /* [views][batch] */
void gf_packed_describe(const gf_packed *p, gf_batch *out); /* sets job, pixels, pixel_chunks */
