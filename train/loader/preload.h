/* preload.h - a dataset of small images of one size, decoded at once, for a device that keeps all of them.
 *
 * A failure to read a sample is kept and returned when that sample is requested, as if the loader read it then.
 */
#pragma once

#include "data/dataset.h"

typedef struct gf_preload gf_preload;

/* Bytes of all images; 0: they differ in size. */
int64_t gf_preload_bytes(const gf_dataset *d);
/* Reads all; gf_preload_bytes is not 0. E_MEMORY and the like fail at once. */
glofnd_status gf_preload_load(gf_error *err, const gf_dataset *d, int threads, gf_preload **out);
void gf_preload_free(gf_preload *r);
/* [n][height][width][3]; unreadable ones are black. */
const uint8_t *gf_preload_pixels(const gf_preload *r);
void gf_preload_drop_pixels(gf_preload *r); /* once the device has them */
/* Outcome of reading sample i. */
glofnd_status gf_preload_status(gf_error *err, const gf_preload *r, int64_t i);
uint64_t gf_preload_hash(const gf_preload *r, int64_t i); /* gf_sample_image_hash of sample i */
void gf_preload_size(const gf_preload *r, int *width, int *height);
