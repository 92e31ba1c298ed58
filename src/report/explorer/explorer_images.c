/* explorer_images.c - see explorer_images.h. */
#include "report/explorer/explorer_images.h"

#include <stdlib.h>
#include <string.h>

#include "plot/base64.h"
#include "report/thumbnail.h"

enum { QUALITY = 80, GROUND = 128 }; /* of the JPEGs; gray where an image is not square */

typedef struct drawing {
    const gf_explorer *x;
    gf_explorer_images *out;
    gf_thumbnails thumbs;
    gf_image sheet, image;
    int64_t on_sheet; /* images of the sheet in the making */
    int64_t *waiting; /* their positions */
    size_t used;      /* bytes of the page */
    int full;
} drawing;

static int across(const drawing *d) { return GF_EXPLORER_SHEET / d->x->side; }

/* Centred in its place. */
static void paste(drawing *d, const gf_image *m) {
    const int side = d->x->side;
    const int64_t place = d->on_sheet;
    const int left = (int)(place % across(d)) * side + (side - m->width) / 2;
    const int top = (int)(place / across(d)) * side + (side - m->height) / 2;
    for (int y = 0; y < m->height; y++)
        memcpy(d->sheet.rgb + 3 * ((size_t)(top + y) * GF_EXPLORER_SHEET + (size_t)left),
               m->rgb + 3 * (size_t)y * (size_t)m->width, 3 * (size_t)m->width);
}

static glofnd_status clear_sheet(gf_error *err, drawing *d) {
    TRY(gf_image_resize(err, &d->sheet, GF_EXPLORER_SHEET, GF_EXPLORER_SHEET));
    memset(d->sheet.rgb, GROUND, 3 * (size_t)GF_EXPLORER_SHEET * GF_EXPLORER_SHEET);
    d->on_sheet = 0;
    return GLOFND_OK;
}

/* Keeps the sheet if it fits the budget; else its images have none. */
static glofnd_status finish_sheet(gf_error *err, drawing *d) {
    gf_explorer_images *m = d->out;
    uint8_t *jpeg = NULL;
    size_t bytes = 0;
    if (d->on_sheet == 0) return GLOFND_OK;
    TRY(gf_image_encode_jpeg(err, &d->sheet, QUALITY, &jpeg, &bytes));
    if (d->used + GF_BASE64_BYTES(bytes) > d->x->image_bytes) {
        d->full = 1;
        free(jpeg);
        return GLOFND_OK;
    }
    uint8_t **sheet = realloc(m->sheet, (size_t)(m->sheets + 1) * sizeof *sheet);
    if (sheet) m->sheet = sheet;
    size_t *sizes = realloc(m->sheet_bytes, (size_t)(m->sheets + 1) * sizeof *sizes);
    if (sizes) m->sheet_bytes = sizes;
    if (!sheet || !sizes) {
        free(jpeg);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for thumbnails");
    }
    for (int64_t k = 0; k < d->on_sheet; k++) m->slot[d->waiting[k]] = (int32_t)((int64_t)m->sheets * across(d) * across(d) + k);
    m->sheet[m->sheets] = jpeg, m->sheet_bytes[m->sheets++] = bytes;
    m->shown += d->on_sheet, d->used += GF_BASE64_BYTES(bytes);
    return clear_sheet(err, d);
}

/* slot -2: it was looked at already. */
static glofnd_status add(gf_error *err, drawing *d, int64_t i) {
    const gf_image *small = &d->image;
    if (d->full || d->out->slot[i] != -1) return GLOFND_OK;
    d->out->slot[i] = -2;
    if (!d->x->image(d->x->user, i, &d->image)) return GLOFND_OK;
    TRY(gf_thumbnail_small(err, &d->thumbs, &d->image, &small));
    paste(d, small);
    d->waiting[d->on_sheet++] = i;
    return d->on_sheet == (int64_t)across(d) * across(d) ? finish_sheet(err, d) : GLOFND_OK;
}

static glofnd_status add_all(gf_error *err, drawing *d) {
    const gf_explorer *x = d->x;
    for (int exact = 1; exact >= 0; exact--)
        for (int64_t i = 0; i < x->n; i++) {
            if (exact && x->copy_of[i] != i) TRY(add(err, d, x->copy_of[i]));
            if (x->group[i] >= 0 && (!exact || x->copy_of[i] != i)) TRY(add(err, d, i));
        }
    for (int64_t i = 0; i < x->n && !d->full; i++)
        for (int64_t k = 0; k < x->top && x->group[i] >= 0 && x->other[i * x->top + k] >= 0; k++)
            TRY(add(err, d, x->other[i * x->top + k]));
    for (int64_t i = 0; i < x->n && !d->full; i++) TRY(add(err, d, i));
    return finish_sheet(err, d);
}

glofnd_status gf_explorer_draw(gf_error *err, const gf_explorer *x, gf_explorer_images *out) {
    drawing d = {.x = x, .out = out, .thumbs = {.side = x->side, .quality = QUALITY}};
    *out = (gf_explorer_images){0};
    if (!x->image) return GLOFND_OK;
    const int64_t places = (int64_t)across(&d) * across(&d);
    out->slot = malloc((size_t)x->n * sizeof *out->slot);
    d.waiting = malloc((size_t)places * sizeof *d.waiting);
    glofnd_status status =
        out->slot && d.waiting ? clear_sheet(err, &d) : gf_fail(err, GLOFND_E_MEMORY, "no memory for thumbnails");
    for (int64_t i = 0; out->slot && i < x->n; i++) out->slot[i] = -1;
    if (status == GLOFND_OK) status = add_all(err, &d);
    for (int64_t i = 0; out->slot && i < x->n; i++)
        if (out->slot[i] < 0) out->slot[i] = -1;
    gf_thumbnails_free(&d.thumbs);
    gf_image_free(&d.sheet);
    gf_image_free(&d.image);
    free(d.waiting);
    if (status != GLOFND_OK) gf_explorer_images_free(out);
    return status;
}

void gf_explorer_images_free(gf_explorer_images *m) {
    for (int k = 0; k < m->sheets; k++) free(m->sheet[k]);
    free(m->sheet);
    free(m->sheet_bytes);
    free(m->slot);
    *m = (gf_explorer_images){0};
}
