/* blur.h - PIL's Gaussian blur: three box blurs along rows, then three along columns, each rounded to 8 bits.
 *
 * The box has whole pixels in the middle and a fraction of one at either end; pixels beyond the border repeat the border.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GF_BLUR_MAX 100.0 /* largest sigma: 16-bit sums hold its box */

typedef struct gf_box {
    int radius;            /* whole pixels on either side of the middle one */
    uint32_t inner, outer; /* weights of those, and of the two pixels beyond them, in 2^-24 */
} gf_box;

/* The box whose third power comes closest to a Gaussian. */
gf_box gf_blur_box(double sigma);
/* Bytes of scratch gf_blur needs. */
size_t gf_blur_scratch(int width, int height, double sigma);
/* plane [height][width], in place; 0 < sigma <= GF_BLUR_MAX. */
void gf_blur(uint8_t *plane, int width, int height, double sigma, void *scratch);
