/* sprite_sheet.h - many thumbnails in one image: square tiles, row by row, of which a page shows one at a time. One JPEG takes
 * fewer bytes than one per thumbnail. */
#pragma once

#include "data/dataset.h"

typedef struct gf_sprite_sheet {
    int side, columns, rows; /* pixels of a tile; tiles */
    int64_t count;           /* tiles in use */
    gf_image image;
} gf_sprite_sheet;

/* An empty grey sheet; memory of an earlier init is reused. */
glofnd_status gf_sprite_sheet_init(gf_error *err, gf_sprite_sheet *s, int side, int columns, int rows);
/* Centres the thumbnail, at most side x side, in the next tile; NULL leaves the tile grey. There must be one. */
void gf_sprite_sheet_add(gf_sprite_sheet *s, const gf_image *thumbnail);
void gf_sprite_sheet_free(gf_sprite_sheet *s); /* accepts a zeroed struct */

enum { GF_SPRITE_COLUMNS = 40 };

/* Sheet of the samples id [n], GF_SPRITE_COLUMNS wide: the centre square of each fills a tile, unreadable ones stay grey. *jpeg
 * is malloc'ed. E_UNSUPPORTED: build without libjpeg. */
glofnd_status gf_sprite_sheet_of_samples(gf_error *err, const gf_dataset *data, const int64_t *id, int64_t n, int side,
                                         int quality, uint8_t **jpeg, size_t *bytes);
