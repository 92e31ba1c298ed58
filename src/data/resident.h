/* resident.h - a dataset of small images of one size, decoded at once, for a device that keeps all of them.
 *
 * What cannot be read is remembered and told when its sample is asked for, so that a loader treats it as if it read it then.
 */
#ifndef GF_DATA_RESIDENT_H
#define GF_DATA_RESIDENT_H

#include "data/dataset.h"

typedef struct gf_resident gf_resident;

/* Bytes of all images; 0: they differ in size. */
int64_t gf_resident_bytes(const gf_dataset *d);
/* Reads all; gf_resident_bytes is not 0. E_MEMORY and the like fail at once. */
glofnd_status gf_resident_load(gf_error *err, const gf_dataset *d, int threads, gf_resident **out);
void gf_resident_free(gf_resident *r);
/* [n][height][width][3]; damaged ones are black. */
const uint8_t *gf_resident_pixels(const gf_resident *r);
void gf_resident_drop_pixels(gf_resident *r);   /* they are elsewhere now */
/* What reading sample i said. */
glofnd_status gf_resident_look(gf_error *err, const gf_resident *r, int64_t i);
uint64_t gf_resident_hash(const gf_resident *r, int64_t i);     /* gf_sample_image_hash of sample i */
int gf_resident_width(const gf_resident *r);
int gf_resident_height(const gf_resident *r);

#endif
