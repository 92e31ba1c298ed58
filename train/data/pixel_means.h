/* pixel_means.h - images as rows of 192 numbers that need no network: means over 8 x 8 cells, less the mean of all of them.
 *
 * The cosine of two such rows is high for copies that were encoded again, resized, or made brighter or darker. */
#pragma once

#include "data/dataset.h"
#include "util/parallel.h"

enum { GF_PIXEL_CELLS = 8, GF_PIXEL_MEANS = GF_PIXEL_CELLS * GF_PIXEL_CELLS * 3 };

/* row [GF_PIXEL_MEANS]: cells row by row, red, green, blue; the mean of all is 0. The sums are exact: an image of one shade of
 * gray is a row of zeros. */
void gf_pixel_means(const gf_image *m, float *row);

typedef struct gf_pixel_means_job {
    int threads;
    gf_job_progress watch;                                          /* E_CANCELLED: by it */
    void (*unreadable)(void *user, int64_t i, const char *message); /* in order, in the calling thread; may be NULL */
    void *user;
} gf_pixel_means_job;

/* x [n][GF_PIXEL_MEANS] of all samples. That of an unreadable one is zeros. */
glofnd_status gf_dataset_pixel_means(gf_error *err, const gf_dataset *d, const gf_pixel_means_job *job, float *x);
