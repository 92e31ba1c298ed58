/* explorer_images.c - see explorer_images.h. */
#include "report/explorer_images.h"

#include <stdlib.h>

#include "plot/base64.h"
#include "report/sprite_sheet.h"
#include "report/thumbnail.h"
#include "util/array.h"

enum { QUALITY = 80 };

typedef struct drawing {
    const gf_explorer *x;
    gf_explorer_images *out;
    gf_thumbnails thumbnails;
    gf_sprite_sheet sheet;
    gf_image image;
    int64_t *position; /* anchors on the sheet */
    size_t used;       /* bytes of the page */
    int full;
} drawing;

static int across(const drawing *d) { return GF_EXPLORER_SHEET / d->x->side; }

static glofnd_status clear_sheet(gf_error *err, drawing *d) {
    return gf_sprite_sheet_init(err, &d->sheet, d->x->side, across(d), across(d));
}

/* Keeps the sheet if it fits the budget; else its anchors have no image. */
static glofnd_status finish_sheet(gf_error *err, drawing *d) {
    gf_explorer_images *m = d->out;
    uint8_t *jpeg = NULL;
    size_t bytes = 0;
    if (d->sheet.count == 0) return GLOFND_OK;
    TRY(gf_image_encode_jpeg(err, &d->sheet.image, QUALITY, &jpeg, &bytes));
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
    const int64_t first = (int64_t)m->sheets * across(d) * across(d);
    for (int64_t k = 0; k < d->sheet.count; k++) m->slot[d->position[k]] = (int32_t)(first + k);
    m->sheet[m->sheets] = jpeg, m->sheet_bytes[m->sheets++] = bytes;
    m->shown += d->sheet.count, d->used += GF_BASE64_BYTES(bytes);
    return clear_sheet(err, d);
}

/* slot -2: visited. */
static glofnd_status add(gf_error *err, drawing *d, int64_t i) {
    const gf_image *thumbnail = NULL;
    if (d->full || d->out->slot[i] != -1) return GLOFND_OK;
    d->out->slot[i] = -2;
    if (!d->x->image(d->x->user, i, &d->image)) return GLOFND_OK;
    TRY(gf_thumbnail_scale(err, &d->thumbnails, &d->image, &thumbnail));
    d->position[d->sheet.count] = i;
    gf_sprite_sheet_add(&d->sheet, thumbnail);
    return d->sheet.count == (int64_t)across(d) * across(d) ? finish_sheet(err, d) : GLOFND_OK;
}

/* Images that decisions show: outliers with their nearest ones, and labels. */
static glofnd_status add_decided(gf_error *err, drawing *d) {
    enum { SHOWN = 500 };
    const gf_explorer *x = d->x;
    for (int64_t k = 0; x->decisions && x->nearest && k < GF_MIN(x->decisions->outliers, SHOWN); k++) {
        TRY(add(err, d, x->decisions->outlier[k]));
        TRY(add(err, d, x->nearest[x->decisions->outlier[k]]));
    }
    for (int64_t k = 0; x->decisions && k < GF_MIN(x->decisions->issues, SHOWN); k++)
        TRY(add(err, d, x->decisions->issue[k].position));
    return GLOFND_OK;
}

static glofnd_status add_all(gf_error *err, drawing *d) {
    const gf_explorer *x = d->x;
    for (int exact = 1; exact >= 0; exact--)
        for (int64_t i = 0; i < x->n; i++) {
            if (exact && x->copy_of[i] != i) TRY(add(err, d, x->copy_of[i]));
            if (x->group[i] >= 0 && (!exact || x->copy_of[i] != i)) TRY(add(err, d, i));
        }
    TRY(add_decided(err, d));
    for (int64_t i = 0; i < x->n && !d->full; i++)
        for (int64_t k = 0; k < x->top && x->group[i] >= 0 && x->other[i * x->top + k] >= 0; k++)
            TRY(add(err, d, x->other[i * x->top + k]));
    for (int64_t i = 0; i < x->n && !d->full; i++) TRY(add(err, d, i));
    return finish_sheet(err, d);
}

glofnd_status gf_explorer_draw(gf_error *err, const gf_explorer *x, gf_explorer_images *out) {
    drawing d = {.x = x, .out = out, .thumbnails = {.side = x->side, .square = 1}};
    *out = (gf_explorer_images){0};
    if (!x->image) return GLOFND_OK;
    const int64_t places = (int64_t)across(&d) * across(&d);
    out->slot = malloc((size_t)x->n * sizeof *out->slot);
    d.position = malloc((size_t)places * sizeof *d.position);
    glofnd_status status =
        out->slot && d.position ? clear_sheet(err, &d) : gf_fail(err, GLOFND_E_MEMORY, "no memory for thumbnails");
    for (int64_t i = 0; out->slot && i < x->n; i++) out->slot[i] = -1;
    if (status == GLOFND_OK) status = add_all(err, &d);
    for (int64_t i = 0; out->slot && i < x->n; i++)
        if (out->slot[i] < 0) out->slot[i] = -1;
    gf_thumbnails_free(&d.thumbnails);
    gf_sprite_sheet_free(&d.sheet);
    gf_image_free(&d.image);
    free(d.position);
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
