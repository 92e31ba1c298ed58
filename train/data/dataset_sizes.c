/* dataset_sizes.c - image sizes of a dataset, from the headers alone; see dataset.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset_format.h"
#include "io/file.h"

#define SEGMENTS_MAX 4096 /* of a JPEG before its frame */

typedef struct source { /* an encoded image inside an open file */
    int fd;
    gf_span span;
} source;

static int get(const source *s, uint64_t at, uint8_t *out, size_t n) {
    if (at > s->span.size || n > s->span.size - at || at > INT64_MAX - s->span.at) return 0;
    return gf_file_read_at(NULL, s->fd, "", s->span.at + at, out, n) == GLOFND_OK;
}

static int big16(const uint8_t *p) { return p[0] << 8 | p[1]; }

static int png_size(const source *s, int *width, int *height) {
    uint8_t b[24];
    if (!get(s, 0, b, sizeof b) || memcmp(b + 12, "IHDR", 4) != 0 || b[16] || b[20]) return 0;
    *width = b[17] << 16 | big16(b + 18);
    *height = b[21] << 16 | big16(b + 22);
    return 1;
}

/* SOF0 to SOF15: all markers that begin a frame, without tables (C4, CC) and C8. */
static int is_frame(uint8_t marker) {
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* Skips from segment to segment up to the frame. */
static int jpeg_size(const source *s, int *width, int *height) {
    uint8_t b[9];
    uint64_t at = 2;
    for (int k = 0; k < SEGMENTS_MAX && get(s, at, b, 4) && b[0] == 0xff; k++) {
        if (b[1] == 0xff) { /* a fill byte */
            at++;
            continue;
        }
        if (b[1] == 0xd9 || b[1] == 0xda || big16(b + 2) < 2) return 0;
        if (is_frame(b[1])) {
            if (!get(s, at, b, sizeof b)) return 0;
            *height = big16(b + 5);
            *width = big16(b + 7);
            return 1;
        }
        at += 2 + (uint64_t)big16(b + 2);
    }
    return 0;
}

static int little24(const uint8_t *p) { return p[0] | p[1] << 8 | p[2] << 16; }

/* The first chunk says which of the three forms it is. */
static int webp_size(const source *s, int *width, int *height) {
    uint8_t b[30];
    if (!get(s, 0, b, sizeof b) || memcmp(b + 8, "WEBP", 4) != 0) return 0;
    if (memcmp(b + 12, "VP8X", 4) == 0) {
        *width = little24(b + 24) + 1;
        *height = little24(b + 27) + 1;
    } else if (memcmp(b + 12, "VP8L", 4) == 0 && b[20] == 0x2f) {
        const uint32_t x = b[21] | (uint32_t)b[22] << 8 | (uint32_t)b[23] << 16 | (uint32_t)b[24] << 24;
        *width = (int)(x & 0x3fff) + 1;
        *height = (int)(x >> 14 & 0x3fff) + 1;
    } else if (memcmp(b + 12, "VP8 ", 4) == 0 && memcmp(b + 23, "\x9d\x01\x2a", 3) == 0) {
        *width = (b[26] | b[27] << 8) & 0x3fff;
        *height = (b[28] | b[29] << 8) & 0x3fff;
    } else return 0;
    return 1;
}

static int size_in(const source *s, int *width, int *height) {
    uint8_t b[8];
    if (!get(s, 0, b, sizeof b)) return 0;
    const int found = memcmp(b, "\x89PNG\r\n\x1a\n", 8) == 0 ? png_size(s, width, height)
                      : memcmp(b, "\xff\xd8\xff", 3) == 0    ? jpeg_size(s, width, height)
                      : memcmp(b, "RIFF", 4) == 0            ? webp_size(s, width, height)
                                                             : 0;
    return found && *width > 0 && *height > 0 && *width <= GF_IMAGE_SIDE_MAX && *height <= GF_IMAGE_SIDE_MAX;
}

static int size_of(const gf_dataset *d, int64_t i, int *width, int *height) {
    char path[PATH_MAX];
    source s = {.fd = -1};
    if (d->format->find(NULL, d, gf_dataset_row(d, i), path, sizeof path, &s.span) != GLOFND_OK) return 0;
    if (gf_file_open(NULL, path, &s.fd, NULL) != GLOFND_OK) return 0;
    const int found = size_in(&s, width, height);
    close(s.fd);
    return found;
}

static int measure(const char *path, gf_span span, int64_t *pixels, uint64_t *bytes) {
    gf_file_stamp stamp;
    source s = {.fd = -1, .span = span};
    int width, height;
    if (gf_file_open(NULL, path, &s.fd, &stamp) != GLOFND_OK) return 0;
    const int found = size_in(&s, &width, &height);
    close(s.fd);
    if (found) *pixels = (int64_t)width * height, *bytes = span.size == UINT64_MAX ? stamp.size : span.size;
    return found;
}

int gf_dataset_image_size(const gf_dataset *d, int64_t i, int64_t *pixels, uint64_t *bytes) {
    char path[PATH_MAX];
    gf_span span;
    if (i < 0 || i >= d->info.n || !d->format->find) return 0;
    return d->format->find(NULL, d, gf_dataset_row(d, i), path, sizeof path, &span) == GLOFND_OK &&
           measure(path, span, pixels, bytes);
}

int gf_image_file_size(const char *path, int64_t *pixels, uint64_t *bytes) {
    return measure(path, (gf_span){.size = UINT64_MAX}, pixels, bytes);
}

gf_sizes gf_dataset_sizes(const gf_dataset *d) {
    const gf_dataset_info info = d->info;
    if (info.width > 0 || !d->format->find)
        return (gf_sizes){.probed = info.n, .read = info.n, .width = info.width, .height = info.height};
    const int64_t count = info.n < GF_SIZES_MAX ? info.n : GF_SIZES_MAX;
    gf_sizes s = {0};
    for (int64_t k = 0; k < count && !s.other_width; k++) {
        int width, height;
        s.probed++;
        if (!size_of(d, info.n / count * k + info.n % count * k / count, &width, &height)) continue;
        if (s.read++ == 0) {
            s.width = width;
            s.height = height;
        } else if (width != s.width || height != s.height) {
            s.other_width = width;
            s.other_height = height;
        }
    }
    return s;
}

int gf_sizes_default_view(const gf_sizes *s) {
    const int one_square = s->width > 0 && s->width == s->height && !s->other_width;
    return one_square && s->width <= GF_SIZES_VIEW ? s->width : GF_SIZES_VIEW;
}
