/* sheet.c - see sheet.h. */
#include "report/sheet.h"

#include <stdlib.h>
#include <string.h>

#include "image/resample.h"

typedef struct maker {
    gf_image sheet;
    gf_sample sample;
    gf_resampler resampler;
    uint8_t *planes; /* [3][side][side] */
    int side;
} maker;

/* The largest square in the middle, scaled to a tile. */
static glofnd_status shrink(gf_error *err, maker *m) {
    const gf_image *x = &m->sample.image;
    const int least = x->width < x->height ? x->width : x->height, left = (x->width - least) / 2, top = (x->height - least) / 2;
    const size_t plane = (size_t)m->side * (size_t)m->side;
    const gf_resize job = {
        .rgb = x->rgb + 3 * ((size_t)top * (size_t)x->width + (size_t)left),
        .stride = 3 * (size_t)x->width,
        .width = least,
        .height = least,
        .full_width = m->side,
        .full_height = m->side,
        .out_width = m->side,
        .out_height = m->side,
        .plane = {m->planes, m->planes + plane, m->planes + 2 * plane},
        .pitch = (size_t)m->side,
    };
    return gf_resample(err, &m->resampler, &job);
}

static void place(maker *m, int64_t i) {
    const int64_t left = i % GF_SHEET_COLUMNS * m->side, top = i / GF_SHEET_COLUMNS * m->side;
    const int64_t plane = (int64_t)m->side * m->side;
    for (int y = 0; y < m->side; y++)
        for (int x = 0; x < m->side; x++)
            for (int c = 0; c < 3; c++)
                m->sheet.rgb[3 * ((top + y) * m->sheet.width + left + x) + c] = m->planes[c * plane + y * m->side + x];
}

static glofnd_status fill(gf_error *err, maker *m, const gf_dataset *data, const int64_t *id, int64_t n) {
    const int rows = (int)((n + GF_SHEET_COLUMNS - 1) / GF_SHEET_COLUMNS);
    gf_error ignored = {{0}};
    m->planes = malloc(3 * (size_t)m->side * (size_t)m->side);
    FAIL_IF(err, !m->planes, GLOFND_E_MEMORY, "no memory for a sheet of pictures");
    TRY(gf_image_resize(err, &m->sheet, GF_SHEET_COLUMNS * m->side, rows * m->side));
    memset(m->sheet.rgb, 128, 3 * (size_t)m->sheet.width * (size_t)m->sheet.height);
    for (int64_t i = 0; i < n; i++) {
        if (gf_dataset_read(&ignored, data, id[i], NULL, &m->sample) != GLOFND_OK) continue;
        TRY(shrink(err, m));
        place(m, i);
    }
    return GLOFND_OK;
}

glofnd_status gf_sheet_make(gf_error *err, const gf_dataset *data, const int64_t *id, int64_t n, int side, int quality,
                            uint8_t **jpeg, size_t *bytes) {
    maker m = {.side = side};
    glofnd_status status = fill(err, &m, data, id, n);
    if (status == GLOFND_OK) status = gf_image_encode_jpeg(err, &m.sheet, quality, jpeg, bytes);
    gf_image_free(&m.sheet);
    gf_sample_free(&m.sample);
    gf_resampler_free(&m.resampler);
    free(m.planes);
    return status;
}
