/* unit_thumbnail.c - tiles of pages: an image smaller than a tile fills it in whole pixels, one of another shape leaves no
 * bars. */
#include "support/test.h"

#include "report/page.h"
#include <stdlib.h>
#include <string.h>

static gf_error err;

static gf_image make(int width, int height) {
    gf_image m = {0};
    assert_int_equal(gf_image_resize(&err, &m, width, height), GLOFND_OK);
    for (int i = 0; i < width * height; i++) m.rgb[3 * i] = (uint8_t)(10 + i), m.rgb[3 * i + 1] = 1, m.rgb[3 * i + 2] = 2;
    return m;
}

TEST(small_images_fill_a_tile) {
    gf_image m = make(2, 2);
    gf_thumbnails t = {.side = 8, .square = 1};
    const gf_image *small = NULL;
    assert_int_equal(gf_thumbnail_scale(&err, &t, &m, &small), GLOFND_OK);
    assert_int_equal(small->width, 8);
    assert_int_equal(small->height, 8);
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++) assert_int_equal(small->rgb[3 * (8 * y + x)], 10 + 2 * (y / 4) + x / 4);
    gf_thumbnails_free(&t);
    gf_image_free(&m);
}

/* No pixel of the sheet's grey is left, whatever the shape. */
TEST(no_bars) {
    static const int sizes[][2] = {{4, 4}, {8, 3}, {3, 8}, {20, 10}, {10, 20}, {16, 16}, {1, 1}};
    enum { N = sizeof sizes / sizeof *sizes, SIDE = 8 };
    gf_sprite_sheet sheet = {0};
    gf_thumbnails t = {.side = SIDE, .square = 1};
    assert_int_equal(gf_sprite_sheet_init(&err, &sheet, SIDE, N, 1), GLOFND_OK);
    for (int i = 0; i < N; i++) {
        gf_image m = make(sizes[i][0], sizes[i][1]);
        const gf_image *small = NULL;
        assert_int_equal(gf_thumbnail_scale(&err, &t, &m, &small), GLOFND_OK);
        gf_sprite_sheet_add(&sheet, small);
        gf_image_free(&m);
    }
    for (int i = 0; i < N * SIDE * SIDE; i++) assert_int_not_equal(sheet.image.rgb[3 * i + 2], 128);
    gf_sprite_sheet_free(&sheet);
    gf_thumbnails_free(&t);
}
