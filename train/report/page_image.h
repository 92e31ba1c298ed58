/* page_image.h - images of samples inside a page, as data URIs.
 *
 *     gf_page_images p = {.data = data, .thumbnails = {.side = 64, .quality = 82}, .budget = &bytes};
 *     if (gf_page_image_load(&p, id)) { gf_text_add(out, "<img src=\""); gf_page_image_write(out, &p); ... }
 *     gf_page_images_free(&p);
 */
#pragma once

#include "data/dataset.h"
#include "report/thumbnail.h"
#include "util/text.h"

typedef struct gf_page_images {
    const gf_dataset *data;
    gf_thumbnails thumbnails;
    size_t *budget; /* bytes left for images; an image that does not fit is left out */
    int left_out;
    gf_sample sample; /* private from here on */
    uint8_t *bytes;
    size_t size;
    const char *type;
} gf_page_images;

/* 0: unreadable, or over the budget; counted in left_out. */
int gf_page_image_load(gf_page_images *p, int64_t id);
/* The loaded image as "data:image/...". */
void gf_page_image_write(gf_text *out, const gf_page_images *p);
void gf_page_images_free(gf_page_images *p);
