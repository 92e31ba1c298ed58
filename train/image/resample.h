/* resample.h - antialiased bilinear and bicubic resize with PIL's numbers.
 *
 * PIL's algorithm: weights of a filter that is widened by the reduction, rounded to 22 fractional bits; rows first, rounded to
 * 8 bits, then columns. Only the wanted part of the resized image is computed, and the source box is read in place.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "util/status.h"

typedef enum gf_filter {
    GF_FILTER_LINEAR, /* a triangle */
    GF_FILTER_CUBIC   /* Keys' cubic with a = -1/2, over twice as many pixels; may overshoot */
} gf_filter;

typedef struct gf_resampler { /* buffers of one worker; all zero: empty; they grow with the largest job and are kept */
    void *buffer[6];
    size_t bytes[6];
} gf_resampler;

typedef struct gf_resize {
    const uint8_t *rgb;                   /* first pixel of the source box, [height][stride] */
    size_t stride;                        /* bytes from row to row */
    int width, height;                    /* of the source box: pixels outside are never read */
    int full_width, full_height;          /* the size the box is resized to */
    int left, top, out_width, out_height; /* the part of that which is wanted */
    int flip;                             /* 1: the part mirrored left to right */
    gf_filter filter;
    uint8_t *plane[3]; /* [out_height][pitch] red, green, blue */
    size_t pitch;
} gf_resize;

glofnd_status gf_resample(gf_error *err, gf_resampler *r, const gf_resize *job);
void gf_resampler_free(gf_resampler *r);

/* Along one axis, `in` numbers resized to `out`: number `at` of these is the sum of *first and those that follow, times weights
 * that sum to 1. weight [gf_filter_taps]. Returns their number. */
int gf_filter_weights(gf_filter f, int in, int out, int at, double *weight, int *first);
int gf_filter_taps(gf_filter f, int in, int out);
