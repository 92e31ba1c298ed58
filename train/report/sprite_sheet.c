/* sprite_sheet.c - see sprite_sheet.h. */
#include "report/sprite_sheet.h"

#include <assert.h>
#include <string.h>

#include "report/thumbnail.h"

enum { GREY = 128 };

glofnd_status gf_sprite_sheet_init(gf_error *err, gf_sprite_sheet *s, int side, int columns, int rows) {
    s->side = side, s->columns = columns, s->rows = rows, s->count = 0;
    TRY(gf_image_resize(err, &s->image, columns * side, rows * side));
    memset(s->image.rgb, GREY, 3 * (size_t)s->image.width * (size_t)s->image.height);
    return GLOFND_OK;
}

void gf_sprite_sheet_add(gf_sprite_sheet *s, const gf_image *thumbnail) {
    const int64_t tile = s->count++;
    assert(tile < (int64_t)s->columns * s->rows);
    if (!thumbnail) return;
    const int64_t left = tile % s->columns * s->side + (s->side - thumbnail->width) / 2;
    const int64_t top = tile / s->columns * s->side + (s->side - thumbnail->height) / 2;
    const size_t row = 3 * (size_t)thumbnail->width;
    for (int y = 0; y < thumbnail->height; y++)
        memcpy(s->image.rgb + 3 * ((top + y) * s->image.width + left), thumbnail->rgb + (size_t)y * row, row);
}

void gf_sprite_sheet_free(gf_sprite_sheet *s) {
    gf_image_free(&s->image);
    *s = (gf_sprite_sheet){0};
}

glofnd_status gf_sprite_sheet_of_samples(gf_error *err, const gf_dataset *data, const int64_t *id, int64_t n, int side,
                                         int quality, uint8_t **jpeg, size_t *bytes) {
    gf_thumbnails thumbnails = {.side = side, .square = 1};
    gf_sprite_sheet sheet = {0};
    gf_sample sample = {0};
    gf_error ignored = {{0}};
    glofnd_status status =
        gf_sprite_sheet_init(err, &sheet, side, GF_SPRITE_COLUMNS, (int)((n + GF_SPRITE_COLUMNS - 1) / GF_SPRITE_COLUMNS));
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        const gf_image *thumbnail = NULL;
        if (gf_dataset_read(&ignored, data, id[i], NULL, &sample) == GLOFND_OK)
            status = gf_thumbnail_scale(err, &thumbnails, &sample.image, &thumbnail);
        gf_sprite_sheet_add(&sheet, thumbnail);
    }
    if (status == GLOFND_OK) status = gf_image_encode_jpeg(err, &sheet.image, quality, jpeg, bytes);
    gf_sprite_sheet_free(&sheet);
    gf_thumbnails_free(&thumbnails);
    gf_sample_free(&sample);
    return status;
}
