/* view_job.h - what a device is told about the views and images of a batch, as plain numbers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "util/status.h"

/* ----- one augmented view of an image -----
 *
 * It is drawn by augment.c and carried out by the CPU or a device.
 *
 * The box is resized to the square view (antialiased, as PIL does), mirrored, its colours are changed in the given order, it is
 * turned to gray, then blurred. All of this is 8-bit; normalising follows.
 */

#define GF_VIEW_SCALE 8 /* maximal ratio of a job's box to the view, in width or height */

typedef enum gf_colour_op {
    GF_COLOUR_NONE = -1,
    GF_COLOUR_BRIGHTNESS,
    GF_COLOUR_CONTRAST,
    GF_COLOUR_SATURATION,
    GF_COLOUR_HUE
} gf_colour_op;

typedef struct gf_view_job {
    int64_t at;            /* byte of the box's first pixel in the memory of the images; RGB, 3 bytes per pixel */
    int32_t stride;        /* bytes from row to row */
    int32_t width, height; /* of the box */
    float factor[3];       /* of brightness, contrast, saturation */
    int32_t shift;         /* of the hue, 0 .. 255 */
    int8_t order[4];       /* gf_colour_op */
    int32_t radius;        /* box blur: full pixels on each side of the middle one; -1: none */
    uint32_t inner, outer; /* its weights, in 2^-24 */
    int8_t gray, flip;
} gf_view_job;

typedef struct gf_pixels { /* a part of the memory of the images, on the host */
    uint8_t *bytes;
    size_t first; /* jobs count its first byte as this one */
    size_t used, capacity;
} gf_pixels;
