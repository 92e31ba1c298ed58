/* unit_pixel_means.c - images as 8 x 8 x 3 means of their pixels: the numbers, and what copies and unreadable images become. */
#include "support/test.h"

#include "data/pixel_means.h"
#include "support/scratch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gf_error err;

/* The same by plain sums over points: every pixel is 8 x 8 of them. */
static void means_by_points(const gf_image *m, double *row) {
    double sum[GF_PIXEL_MEANS] = {0}, all = 0.0;
    for (int y = 0; y < 8 * m->height; y++)
        for (int x = 0; x < 8 * m->width; x++)
            for (int c = 0; c < 3; c++)
                sum[(y / m->height * 8 + x / m->width) * 3 + c] += m->rgb[(y / 8 * m->width + x / 8) * 3 + c];
    for (int i = 0; i < GF_PIXEL_MEANS; i++) row[i] = sum[i] / m->width / m->height, all += row[i] / GF_PIXEL_MEANS;
    for (int i = 0; i < GF_PIXEL_MEANS; i++) row[i] -= all;
}

TEST(means_are_those_of_plain_sums_for_any_size) {
    static const int sizes[][2] = {{8, 8}, {1, 1}, {3, 5}, {32, 32}, {7, 300}, {41, 13}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        gf_image m = {0};
        double expected[GF_PIXEL_MEANS];
        float row[GF_PIXEL_MEANS];
        assert_int_equal(gf_image_resize(&err, &m, sizes[k][0], sizes[k][1]), GLOFND_OK);
        for (int i = 0; i < m.width * m.height * 3; i++) m.rgb[i] = (uint8_t)(i * 73 + i / 7);
        gf_pixel_means(&m, row);
        means_by_points(&m, expected);
        for (int i = 0; i < GF_PIXEL_MEANS; i++) assert_true(fabs(row[i] - expected[i]) < 1e-4);
        gf_image_free(&m);
    }
}

TEST(one_shade_of_gray_is_zeros_and_a_colour_is_not) {
    gf_image m = {0};
    float row[GF_PIXEL_MEANS];
    assert_int_equal(gf_image_resize(&err, &m, 37, 11), GLOFND_OK);
    memset(m.rgb, 201, 37 * 11 * 3);
    gf_pixel_means(&m, row);
    for (int i = 0; i < GF_PIXEL_MEANS; i++) assert_true(row[i] == 0.0f);
    for (int i = 0; i < 37 * 11; i++) m.rgb[3 * i] = 10;
    gf_pixel_means(&m, row);
    assert_true(row[0] < -100.0f && row[1] > 50.0f);
    gf_image_free(&m);
}

static int64_t lost[4], losses;
static void note(void *user, int64_t i, const char *message) {
    (void)user, (void)message;
    if (losses < 4) lost[losses] = i;
    losses++;
}

TEST(rows_are_the_same_for_any_number_of_threads) {
    gf_dataset *d = NULL;
    static float a[1100 * GF_PIXEL_MEANS], b[1100 * GF_PIXEL_MEANS];
    assert_int_equal(gf_dataset_open(&err, "shapes:n=1100,classes=4,size=16,seed=7", &d), GLOFND_OK);
    assert_int_equal(gf_dataset_pixel_means(&err, d, &(gf_pixel_means_job){.threads = 1}, a), GLOFND_OK);
    assert_int_equal(gf_dataset_pixel_means(&err, d, &(gf_pixel_means_job){.threads = 3}, b), GLOFND_OK);
    assert_memory_equal(a, b, sizeof a);
    atomic_int stop = 1;
    const gf_pixel_means_job cancelled = {.threads = 1, .watch.stop = &stop};
    assert_int_equal(gf_dataset_pixel_means(&err, d, &cancelled, b), GLOFND_E_CANCELLED);
    gf_dataset_free(d);
}

TEST(an_unreadable_image_is_reported_and_has_a_row_of_zeros) {
    scratch files;
    assert_int_equal(scratch_make(&files), 0);
    char name[40], spec[700];
    gf_dataset *d = NULL;
    float x[3 * GF_PIXEL_MEANS];
    gf_image m = {0};
    uint8_t *png;
    size_t size;
    assert_int_equal(gf_image_resize(&err, &m, 9, 9), GLOFND_OK);
    for (int i = 0; i < 9 * 9 * 3; i++) m.rgb[i] = (uint8_t)(i * 5);
    assert_int_equal(gf_image_encode_png(&err, &m, &png, &size), GLOFND_OK);
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "%d.png", k);
        scratch_write(&files, name, png, k == 1 ? size / 2 : size);
    }
    free(png);
    snprintf(spec, sizeof spec, "folder:%s", files.folder);
    assert_int_equal(gf_dataset_open(&err, spec, &d), GLOFND_OK);
    losses = 0;
    assert_int_equal(gf_dataset_pixel_means(&err, d, &(gf_pixel_means_job){.threads = 2, .unreadable = note}, x), GLOFND_OK);
    assert_int_equal(losses, 1);
    assert_int_equal(lost[0], 1);
    for (int i = 0; i < GF_PIXEL_MEANS; i++) assert_true(x[GF_PIXEL_MEANS + i] == 0.0f);
    assert_memory_equal(x, x + 2 * GF_PIXEL_MEANS, GF_PIXEL_MEANS * sizeof *x);
    gf_dataset_free(d);
    gf_image_free(&m);
    assert_int_equal(scratch_remove(&files), 0);
}
