/* effects.h - what augmentation does to the pixels of a view besides resizing: colours and blur, with PIL's numbers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* ----- colours -----
 *
 * The colour operations of torchvision's ColorJitter and RandomGrayscale on 8-bit images, with PIL's numbers.
 *
 * An image is three planes of n bytes one after the other: red, green, blue. All work in place.
 */

/* Blends of ImageEnhance, factor >= 0, 1: unchanged. Results are cut off, not rounded. */
void gf_color_brightness(uint8_t *planes, size_t n, double factor); /* with black */
void gf_color_contrast(uint8_t *planes, size_t n, double factor);   /* with the mean gray level, rounded */
void gf_color_saturation(uint8_t *planes, size_t n, double factor); /* with its own gray version */
/* Shift of PIL's 8-bit hue by a part of a turn, -0.5 .. 0.5. Changes pixels also for 0: 8-bit HSV and back is not exact. */
void gf_color_hue(uint8_t *planes, size_t n, double factor);
/* L of convert("L") in all planes. */
void gf_color_gray(uint8_t *planes, size_t n);

/* ----- blur -----
 *
 * PIL's Gaussian blur: three box blurs along rows, then three along columns, each rounded to 8 bits.
 *
 * The box has whole pixels in the middle and a fraction of one at either end; pixels beyond the border repeat the border.
 */

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
