/* jpeg_plain.h - the JPEG files that a device decodes: baseline, 8 bits, three components as Y, Cb, Cr with colours at full or
 * half resolution, one scan, complete. Everything else is for gf_image_decode.
 *
 * A decoder on a device is handed a file whose every segment was checked here, and without the segments that it does not need
 * (EXIF, thumbnails, colour profiles, comments), so that what such a decoder makes of them does not matter. The entropy-coded
 * data is checked for markers only: whether its codes are sound shows when it is decoded.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { GF_PLAIN_SEGMENTS = 32 }; /* at most: tables, frame and scan */

typedef struct gf_jpeg_segment { /* with its marker */
    size_t at, size;
} gf_jpeg_segment;

typedef struct gf_plain_jpeg {
    int width, height;
    size_t size; /* bytes that gf_jpeg_write_plain writes */
    gf_jpeg_segment segment[GF_PLAIN_SEGMENTS];
    int segments;
} gf_plain_jpeg;

/* 1: a device can decode it, and *out describes it; 0: it is a different file, or damaged. */
int gf_jpeg_is_plain(const uint8_t *bytes, size_t size, gf_plain_jpeg *out);
/* The file without unneeded segments, to [p->size]. */
void gf_jpeg_write_plain(const gf_plain_jpeg *p, const uint8_t *bytes, uint8_t *to);
