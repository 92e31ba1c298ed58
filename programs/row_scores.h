/* row_scores.h - a number per row of embeddings, by which one of a group of duplicates is chosen. */
#pragma once

#include "data/dataset.h"
#include "discover/discover.h"

/* score [n] from a .npy of numbers with one axis, or a text with a number per line ("nan": none). */
glofnd_status gf_row_scores_read(gf_error *err, const char *path, int64_t n, double **score);
/* score [d->n]: rank of the image of each row in a group by its pixels, then by the bytes of its file; NaN: unreadable, or in no
 * group. The image of a row is that of `image`, or the file that its name is. */
typedef int (*gf_row_image_size)(const void *user, int64_t row, int64_t *pixels, uint64_t *bytes);
glofnd_status gf_row_scores_of_images(gf_error *err, const gf_discover_data *d, const gf_discover_result *r,
                                      gf_row_image_size image, const void *user, double **score);
