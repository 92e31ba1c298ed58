/* unit_pixel_loops.c - loops over pixels in the form for this CPU (AVX2, AVX-512) give the bits of the plain ones, which
 * are compiled here once more under other names: all lengths around whole vectors, all colours on a grid, random images.
 */
#define GF_PORTABLE_PIXELS
#include "support/test.h"

#include "image/effects.h"
#include "image/resample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void plain_brightness(uint8_t *planes, size_t n, double factor);
void plain_contrast(uint8_t *planes, size_t n, double factor);
void plain_saturation(uint8_t *planes, size_t n, double factor);
void plain_hue(uint8_t *planes, size_t n, double factor);
void plain_gray(uint8_t *planes, size_t n);
gf_box plain_box(double sigma);
size_t plain_blur_scratch(int width, int height, double sigma);
void plain_blur(uint8_t *plane, int width, int height, double sigma, void *scratch);
glofnd_status plain_resample(gf_error *err, gf_resampler *r, const gf_resize *job);
void plain_resampler_free(gf_resampler *r);
int plain_filter_weights(gf_filter f, int in, int out, int at, double *weight, int *first);
int plain_filter_taps(gf_filter f, int in, int out);

#define gf_color_brightness plain_brightness
#define gf_color_contrast plain_contrast
#define gf_color_saturation plain_saturation
#define gf_color_hue plain_hue
#define gf_color_gray plain_gray
#define gf_blur_box plain_box
#define gf_blur_scratch plain_blur_scratch
#define gf_blur plain_blur
#define gf_resample plain_resample
#define gf_resampler_free plain_resampler_free
#define gf_filter_weights plain_filter_weights
#define gf_filter_taps plain_filter_taps
#define blend mix_of_colours /* resample.c has a blend, too */
#define span span_of_pixels
#include "image/effects.c"
#undef blend
#include "image/resample.c"
#undef gf_color_brightness
#undef gf_color_contrast
#undef gf_color_saturation
#undef gf_color_hue
#undef gf_color_gray
#undef gf_blur
#undef gf_resample
#undef gf_resampler_free

static void draw(uint8_t *x, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (uint8_t)(seed >> 24);
    }
}

/* ----- colours ----- */

typedef void (*change)(uint8_t *planes, size_t n, double factor);

static void make_gray(uint8_t *planes, size_t n, double factor) {
    (void)factor;
    gf_color_gray(planes, n);
}

static void make_plain_gray(uint8_t *planes, size_t n, double factor) {
    (void)factor;
    plain_gray(planes, n);
}

static const struct {
    change plain, ours;
} changes[] = {{plain_brightness, gf_color_brightness},
               {plain_contrast, gf_color_contrast},
               {plain_saturation, gf_color_saturation},
               {plain_hue, gf_color_hue},
               {make_plain_gray, make_gray}};
enum { CHANGES = sizeof changes / sizeof *changes };

static void check_colours(const uint8_t *planes, size_t n, double factor) {
    uint8_t *want = malloc(3 * n), *have = malloc(3 * n);
    assert_true(want && have);
    for (int k = 0; k < CHANGES; k++) {
        memcpy(want, planes, 3 * n), memcpy(have, planes, 3 * n);
        changes[k].plain(want, n, factor), changes[k].ours(have, n, factor);
        assert_memory_equal(want, have, 3 * n);
    }
    free(want);
    free(have);
}

static const double factors[] = {-0.4, 0.0, 0.1, 0.33, 0.6, 0.999, 1.0, 1.4, 1.8, 7.5};
enum { FACTORS = sizeof factors / sizeof *factors };

TEST(colours_of_all_lengths_are_equal) {
    uint8_t planes[3 * 150];
    for (size_t n = 1; n <= 150; n++) {
        draw(planes, 3 * n, (uint32_t)n);
        for (int f = 0; f < FACTORS; f++) check_colours(planes, n, factors[f]);
    }
}

/* 52^3 colours, among them all with 0 and 255. */
TEST(colours_of_a_grid_are_equal) {
    enum { STEPS = 52, COLOURS = STEPS * STEPS * STEPS };
    uint8_t *planes = malloc(3 * COLOURS);
    assert_non_null(planes);
    for (int i = 0; i < COLOURS; i++) {
        planes[i] = (uint8_t)(i % STEPS * 5);
        planes[COLOURS + i] = (uint8_t)(i / STEPS % STEPS * 5);
        planes[2 * COLOURS + i] = (uint8_t)(i / STEPS / STEPS * 5);
    }
    for (int f = 0; f < FACTORS; f++) check_colours(planes, COLOURS, factors[f]);
    free(planes);
}

/* ----- blur ----- */

TEST(blurs_are_equal) {
    static const double sigmas[] = {0.1, 0.5, 0.9, 1.3, 2.0, 4.5};
    for (int width = 1; width <= 70; width += width < 40 ? 1 : 7)
        for (size_t s = 0; s < sizeof sigmas / sizeof *sigmas; s++) {
            const int height = 1 + width * 7 % 23;
            const size_t n = (size_t)width * (size_t)height;
            uint8_t *want = malloc(n), *have = malloc(n);
            void *scratch = malloc(plain_blur_scratch(width, height, sigmas[s]));
            assert_true(want && have && scratch);
            draw(want, n, (uint32_t)width);
            memcpy(have, want, n);
            plain_blur(want, width, height, sigmas[s], scratch);
            gf_blur(have, width, height, sigmas[s], scratch);
            assert_memory_equal(want, have, n);
            free(want), free(have), free(scratch);
        }
}

/* ----- resampling ----- */

static void check_resize(gf_filter filter, int width, int height, int out_width, int out_height, int flip) {
    const size_t bytes = (size_t)width * (size_t)height * 3, out = (size_t)out_width * (size_t)out_height;
    uint8_t *rgb = malloc(bytes), *want = malloc(3 * out), *have = malloc(3 * out);
    gf_resampler r = {0}, plain = {0};
    gf_error err;
    assert_true(rgb && want && have);
    draw(rgb, bytes, (uint32_t)(width * 31 + out_width));
    gf_resize job = {.rgb = rgb,
                     .stride = (size_t)width * 3,
                     .width = width,
                     .height = height,
                     .full_width = out_width,
                     .full_height = out_height,
                     .out_width = out_width,
                     .out_height = out_height,
                     .filter = filter,
                     .flip = flip,
                     .plane = {want, want + out, want + 2 * out},
                     .pitch = (size_t)out_width};
    assert_int_equal(plain_resample(&err, &plain, &job), GLOFND_OK);
    for (int c = 0; c < 3; c++) job.plane[c] = have + (size_t)c * out;
    assert_int_equal(gf_resample(&err, &r, &job), GLOFND_OK);
    assert_memory_equal(want, have, 3 * out);
    gf_resampler_free(&r), plain_resampler_free(&plain);
    free(rgb), free(want), free(have);
}

TEST(resampling_is_equal) {
    static const int sizes[][4] = {{1, 1, 1, 1},     {7, 5, 16, 9},    {16, 16, 16, 16}, {33, 20, 17, 48}, {40, 64, 32, 32},
                                   {64, 48, 20, 15}, {90, 70, 32, 32}, {128, 90, 31, 7}, {200, 3, 24, 24}, {64, 64, 224, 224}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 4; how++)
            check_resize(how & 1 ? GF_FILTER_CUBIC : GF_FILTER_LINEAR, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3],
                         how >> 1);
}
