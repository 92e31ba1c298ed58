/* page_pictures.c - see page_pictures.h. */
#include "report/page_pictures.h"

#include <stdlib.h>

#include "plot/base64.h"

/* A small JPEG of the sample, PNG where the build has no JPEG; 0: there is none. */
static int encode(gf_pictures *p, int64_t id) {
    gf_error err = {{0}};
    p->type = "jpeg";
    if (gf_dataset_read(&err, p->data, id, NULL, &p->sample) != GLOFND_OK) return 0;
    const glofnd_status status = gf_thumbnail(&err, &p->thumbs, &p->sample.image, &p->bytes, &p->size);
    if (status == GLOFND_OK) return 1;
    const gf_image *image = p->thumbs.small.rgb ? &p->thumbs.small : &p->sample.image;
    p->type = "png";
    return status == GLOFND_E_UNSUPPORTED && gf_image_encode_png(&err, image, &p->bytes, &p->size) == GLOFND_OK;
}

int gf_picture_load(gf_pictures *p, int64_t id) {
    free(p->bytes);
    p->bytes = NULL;
    const int fits = encode(p, id) && GF_BASE64_BYTES(p->size) <= *p->budget;
    if (fits) *p->budget -= GF_BASE64_BYTES(p->size);
    else p->left_out++;
    return fits;
}

void gf_picture_put(gf_text *out, const gf_pictures *p) {
    gf_text_add(out, "data:image/%s;base64,", p->type);
    gf_text_base64(out, p->bytes, p->size);
}

void gf_pictures_free(gf_pictures *p) {
    free(p->bytes);
    gf_thumbnails_free(&p->thumbs);
    gf_sample_free(&p->sample);
}
