/* page_pictures.h - samples as pictures inside a page.
 *
 *     gf_pictures p = {.data = data, .thumbs = {.side = 64, .quality = 82}, .budget = &bytes};
 *     if (gf_picture_load(&p, id)) { gf_text_add(out, "<img src=\""); gf_picture_put(out, &p); ... }
 *     gf_pictures_free(&p);
 */
#ifndef GF_REPORT_PAGE_PICTURES_H
#define GF_REPORT_PAGE_PICTURES_H

#include "data/dataset.h"
#include "report/thumbnail.h"
#include "util/strings/text_buffer.h"

typedef struct gf_pictures {
    const gf_dataset *data;
    gf_thumbnails thumbs;
    size_t *budget; /* bytes that are left for pictures; what does not fit is left out */
    int left_out;
    gf_sample sample; /* private from here on */
    uint8_t *bytes;
    size_t size;
    const char *type;
} gf_pictures;

/* 0: it cannot be read, or does not fit; it is counted. */
int gf_picture_load(gf_pictures *p, int64_t id);
/* The picture that was loaded, as an address "data:image/...". */
void gf_picture_put(gf_text *out, const gf_pictures *p);
void gf_pictures_free(gf_pictures *p);

#endif
