/* explorer_images.h - thumbnails of a page's anchors on sprite sheets. */
#pragma once

#include "report/explorer.h"

typedef struct gf_explorer_images {
    int32_t *slot;   /* [n] tile, counted through all sheets; -1: none */
    uint8_t **sheet; /* [sheets] JPEG */
    size_t *sheet_bytes;
    int sheets;
    int64_t shown;
} gf_explorer_images;

/* Duplicates first, then their neighbours, then the others, until x->image_bytes are used. Empty if x->image is NULL. */
glofnd_status gf_explorer_draw(gf_error *err, const gf_explorer *x, gf_explorer_images *out);
void gf_explorer_images_free(gf_explorer_images *m); /* accepts a zeroed struct */
