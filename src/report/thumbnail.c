/* thumbnail.c - see thumbnail.h. */
#include "report/thumbnail.h"

#include <stdlib.h>

/* `side` for the longer one of two, the other in proportion. */
static int fitted(int length, int longer, int side) {
    const int64_t scaled = ((int64_t)length * side + longer / 2) / longer;
    return longer <= side ? length : scaled > 0 ? (int)scaled : 1;
}

static void interleave(const uint8_t *planes, size_t plane, gf_image *to) {
    const size_t pixels = (size_t)to->width * (size_t)to->height;
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < 3; c++) to->rgb[3 * i + c] = planes[c * plane + i];
}

static glofnd_status shrink(gf_error *err, gf_thumbnails *t, const gf_image *m, int width, int height) {
    const size_t plane = (size_t)t->side * (size_t)t->side;
    if (!t->planes) t->planes = malloc(3 * plane);
    FAIL_IF(err, !t->planes, GLOFND_E_MEMORY, "no memory for a thumbnail");
    TRY(gf_image_resize(err, &t->small, width, height));
    const gf_resize job = {
        .rgb = m->rgb,
        .stride = 3 * (size_t)m->width,
        .width = m->width,
        .height = m->height,
        .full_width = width,
        .full_height = height,
        .out_width = width,
        .out_height = height,
        .plane = {t->planes, t->planes + plane, t->planes + 2 * plane},
        .pitch = (size_t)width,
    };
    TRY(gf_resample(err, &t->resampler, &job));
    interleave(t->planes, plane, &t->small);
    return GLOFND_OK;
}

glofnd_status gf_thumbnail_small(gf_error *err, gf_thumbnails *t, const gf_image *m, const gf_image **small) {
    const int longer = m->width > m->height ? m->width : m->height;
    FAIL_IF(err, longer < 1 || t->side < 1 || t->side > GF_IMAGE_SIDE_MAX, GLOFND_E_ARGUMENT,
            "a thumbnail of %d pixels of an image of %d x %d", t->side, m->width, m->height);
    *small = m;
    if (longer <= t->side) return GLOFND_OK;
    TRY(shrink(err, t, m, fitted(m->width, longer, t->side), fitted(m->height, longer, t->side)));
    *small = &t->small;
    return GLOFND_OK;
}

glofnd_status gf_thumbnail(gf_error *err, gf_thumbnails *t, const gf_image *m, uint8_t **jpeg, size_t *bytes) {
    const gf_image *small = NULL;
    TRY(gf_thumbnail_small(err, t, m, &small));
    return gf_image_encode_jpeg(err, small, t->quality, jpeg, bytes);
}

void gf_thumbnails_free(gf_thumbnails *t) {
    gf_resampler_free(&t->resampler);
    gf_image_free(&t->small);
    free(t->planes);
    *t = (gf_thumbnails){0};
}
