/* page_image.c - see page_image.h. */
#include "report/page_image.h"

#include <stdlib.h>

#include "plot/base64.h"

/* A small JPEG of the sample, or a PNG in a build without libjpeg; 0: unreadable. */
static int encode(gf_page_images *p, int64_t id) {
    gf_error err = {{0}};
    p->type = "jpeg";
    if (gf_dataset_read(&err, p->data, id, NULL, &p->sample) != GLOFND_OK) return 0;
    const glofnd_status status = gf_thumbnail_jpeg(&err, &p->thumbnails, &p->sample.image, &p->bytes, &p->size);
    if (status == GLOFND_OK) return 1;
    const gf_image *image = p->thumbnails.small.rgb ? &p->thumbnails.small : &p->sample.image;
    p->type = "png";
    return status == GLOFND_E_UNSUPPORTED && gf_image_encode_png(&err, image, &p->bytes, &p->size) == GLOFND_OK;
}

int gf_page_image_load(gf_page_images *p, int64_t id) {
    free(p->bytes);
    p->bytes = NULL;
    const int fits = encode(p, id) && GF_BASE64_BYTES(p->size) <= *p->budget;
    if (fits) *p->budget -= GF_BASE64_BYTES(p->size);
    else p->left_out++;
    return fits;
}

void gf_page_image_write(gf_text *out, const gf_page_images *p) {
    gf_text_add(out, "data:image/%s;base64,", p->type);
    gf_text_base64(out, p->bytes, p->size);
}

void gf_page_images_free(gf_page_images *p) {
    free(p->bytes);
    gf_thumbnails_free(&p->thumbnails);
    gf_sample_free(&p->sample);
}
