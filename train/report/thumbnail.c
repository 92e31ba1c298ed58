/* thumbnail.c - see thumbnail.h. */
#include "report/thumbnail.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"

/* `length` scaled as the longer side of an image is to `side`. */
static int scaled(int length, int longer, int side) {
    const int64_t x = ((int64_t)length * side + longer / 2) / longer;
    return x > 0 ? (int)x : 1;
}

static void interleave(const uint8_t *planes, size_t plane, gf_image *to) {
    const size_t pixels = (size_t)to->width * (size_t)to->height;
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < 3; c++) to->rgb[3 * i + c] = planes[c * plane + i];
}

/* t->small = the centre of m, width x height pixels of it, as out_width x out_height. */
static glofnd_status resize_centre(gf_error *err, gf_thumbnails *t, const gf_image *m, int width, int height, int out_width,
                                   int out_height) {
    const size_t plane = (size_t)t->side * (size_t)t->side;
    const int left = (m->width - width) / 2, top = (m->height - height) / 2;
    if (!t->planes) t->planes = malloc(3 * plane);
    FAIL_IF(err, !t->planes, GLOFND_E_MEMORY, "no memory for a thumbnail");
    TRY(gf_image_resize(err, &t->small, out_width, out_height));
    const gf_resize job = {
        .rgb = m->rgb + 3 * ((size_t)top * (size_t)m->width + (size_t)left),
        .stride = 3 * (size_t)m->width,
        .width = width,
        .height = height,
        .full_width = out_width,
        .full_height = out_height,
        .out_width = out_width,
        .out_height = out_height,
        .plane = {t->planes, t->planes + plane, t->planes + 2 * plane},
        .pitch = (size_t)out_width,
    };
    TRY(gf_resample(err, &t->resampler, &job));
    interleave(t->planes, plane, &t->small);
    return GLOFND_OK;
}

/* t->small = the centre square of m, enlarged to side x side: pixels stay squares, as smoothing would invent what is not there.
 * */
static glofnd_status enlarge_centre(gf_error *err, gf_thumbnails *t, const gf_image *m, int shorter) {
    const int left = (m->width - shorter) / 2, top = (m->height - shorter) / 2;
    TRY(gf_image_resize(err, &t->small, t->side, t->side));
    for (int y = 0; y < t->side; y++)
        for (int x = 0; x < t->side; x++) {
            const size_t from_x = (size_t)left + (size_t)x * (size_t)shorter / (size_t)t->side;
            const size_t from_y = (size_t)top + (size_t)y * (size_t)shorter / (size_t)t->side;
            memcpy(t->small.rgb + 3 * ((size_t)y * (size_t)t->side + (size_t)x),
                   m->rgb + 3 * (from_y * (size_t)m->width + from_x), 3);
        }
    return GLOFND_OK;
}

glofnd_status gf_thumbnail_scale(gf_error *err, gf_thumbnails *t, const gf_image *m, const gf_image **small) {
    const int longer = GF_MAX(m->width, m->height), shorter = GF_MIN(m->width, m->height);
    FAIL_IF(err, shorter < 1 || t->side < 1 || t->side > GF_IMAGE_SIDE_MAX, GLOFND_E_ARGUMENT,
            "no thumbnail of %d pixels of an image of %d x %d", t->side, m->width, m->height);
    *small = m;
    if (t->square && shorter < t->side) TRY(enlarge_centre(err, t, m, shorter));
    else if (t->square) TRY(resize_centre(err, t, m, shorter, shorter, t->side, t->side));
    else if (longer <= t->side) return GLOFND_OK;
    else
        TRY(resize_centre(err, t, m, m->width, m->height, scaled(m->width, longer, t->side), scaled(m->height, longer, t->side)));
    *small = &t->small;
    return GLOFND_OK;
}

glofnd_status gf_thumbnail_jpeg(gf_error *err, gf_thumbnails *t, const gf_image *m, uint8_t **jpeg, size_t *bytes) {
    const gf_image *small = NULL;
    TRY(gf_thumbnail_scale(err, t, m, &small));
    return gf_image_encode_jpeg(err, small, t->quality, jpeg, bytes);
}

void gf_thumbnails_free(gf_thumbnails *t) {
    gf_resampler_free(&t->resampler);
    gf_image_free(&t->small);
    free(t->planes);
    *t = (gf_thumbnails){0};
}
