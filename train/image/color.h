/* color.h - the colour operations of torchvision's ColorJitter and RandomGrayscale on 8-bit images, with PIL's numbers.
 *
 * An image is three planes of n bytes one after the other: red, green, blue. All work in place.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Blends of ImageEnhance, factor >= 0, 1: unchanged. Results are cut off, not rounded. */
void gf_color_brightness(uint8_t *planes, size_t n, double factor); /* with black */
void gf_color_contrast(uint8_t *planes, size_t n, double factor);   /* with the mean gray level, rounded */
void gf_color_saturation(uint8_t *planes, size_t n, double factor); /* with its own gray version */
/* Shift of PIL's 8-bit hue by a part of a turn, -0.5 .. 0.5. Changes pixels also for 0: 8-bit HSV and back is not exact. */
void gf_color_hue(uint8_t *planes, size_t n, double factor);
/* L of convert("L") in all planes. */
void gf_color_gray(uint8_t *planes, size_t n);
