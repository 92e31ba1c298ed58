/* unit_augment.c - views of images against torchvision and PIL: every byte of resize, colour operations, blur, whole views and
 * centre crops (tests/fixtures/augment/golden.h, made by tools/generate/make_augment_golden.py), and the distributions of what is
 * drawn. */
#include "support/test.h"

#include "image/augment.h"
#include "image/effects.h"
#include "image/resample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct resize_case {
    int width, height, seed, left, top, box_width, box_height, out_width, out_height;
    uint64_t bytes;
} resize_case;

typedef struct colour_case {
    int width, height, seed, operation;
    double factor;
    uint64_t bytes;
} colour_case;

typedef struct blur_case {
    int width, height, seed;
    double sigma;
    uint64_t bytes;
} blur_case;

typedef struct view_case {
    int width, height, seed, size;
    gf_view view;
    uint64_t bytes, floats;
} view_case;

typedef struct centre_case {
    int width, height, seed, resize, size;
    uint64_t floats;
} centre_case;

typedef struct box_case {
    int width, height;
    double mean[6], deviation[6]; /* of left, top, width, height, area, log ratio */
} box_case;

#include "fixtures/augment/golden.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* ----- Images and hashes as in the tool ----- */

static uint64_t mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static uint64_t digest(const void *data, size_t bytes) {
    const uint8_t *at = data;
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += (at[i] + 1u) * mix(i + 1);
    return sum;
}

static uint64_t digest_planes(const uint8_t *planes, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < 3 * n; i++) sum += (planes[i % 3 * n + i / 3] + 1u) * mix(i + 1);
    return sum;
}

static gf_image picture(int width, int height, int seed) {
    const size_t n = (size_t)width * (size_t)height;
    gf_image m = {.width = width, .height = height, .rgb = malloc(n * 3), .capacity = n * 3};
    assert_non_null(m.rgb);
    for (size_t i = 0; i < n * 3; i++) {
        const int x = (int)(i / 3 % (size_t)width), y = (int)(i / 3 / (size_t)width), c = (int)(i % 3);
        const int noise = (int)(mix(i + (uint64_t)seed * 1000003u + 1) % 48);
        m.rgb[i] = (uint8_t)((x * (seed % 5 + 1) + y * (seed % 3 + 1) + c * 60 + seed * 31 + noise) % 256);
    }
    return m;
}

static uint8_t *planes_of(const gf_image *m) {
    const size_t n = (size_t)m->width * (size_t)m->height;
    uint8_t *planes = malloc(3 * n);
    assert_non_null(planes);
    for (size_t i = 0; i < 3 * n; i++) planes[i % 3 * n + i / 3] = m->rgb[i];
    return planes;
}

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("status %d: %s", status, err->text);
}

static gf_augment_scratch *scratch_for(const gf_augment *a) {
    gf_error err = {""};
    gf_augment_scratch *x = NULL;
    ok(gf_augment_scratch_create(&err, a, &x), &err);
    return x;
}

/* ----- Resize ----- */

/* The part `left, top, width, height` of the case's resize. */
static uint8_t *resized(gf_resampler *r, const resize_case *c, gf_filter filter, int left, int top, int width, int height,
                        int flip) {
    gf_image m = picture(c->width, c->height, c->seed);
    const size_t n = (size_t)width * (size_t)height, stride = (size_t)c->width * 3;
    uint8_t *planes = malloc(3 * n);
    assert_non_null(planes);
    const gf_resize job = {
        .rgb = m.rgb + (size_t)c->top * stride + (size_t)c->left * 3,
        .stride = stride,
        .width = c->box_width,
        .height = c->box_height,
        .full_width = c->out_width,
        .full_height = c->out_height,
        .left = left,
        .top = top,
        .out_width = width,
        .out_height = height,
        .flip = flip,
        .filter = filter,
        .plane = {planes, planes + n, planes + 2 * n},
        .pitch = (size_t)width,
    };
    gf_error err = {""};
    ok(gf_resample(&err, r, &job), &err);
    free(m.rgb);
    return planes;
}

static void check_resizes(const resize_case *cases, size_t count, gf_filter filter) {
    gf_resampler r = {0};
    for (size_t i = 0; i < count; i++) {
        const resize_case *c = &cases[i];
        uint8_t *planes = resized(&r, c, filter, 0, 0, c->out_width, c->out_height, 0);
        const size_t n = (size_t)c->out_width * (size_t)c->out_height;
        if (digest_planes(planes, n) != c->bytes) fail_msg("resize case %zu differs", i);
        free(planes);
    }
    gf_resampler_free(&r);
}

TEST(test_resize) {
    check_resizes(resize_cases, COUNT(resize_cases), GF_FILTER_LINEAR);
    check_resizes(cubic_cases, COUNT(cubic_cases), GF_FILTER_CUBIC);
}

/* A part, mirrored or not, holds the same pixels as the whole. */
TEST(test_resize_part) {
    const resize_case *c = &resize_cases[1];
    gf_resampler r = {0};
    const int left = 31, top = 57, width = 101, height = 3;
    uint8_t *whole = resized(&r, c, GF_FILTER_LINEAR, 0, 0, c->out_width, c->out_height, 0);
    for (int flip = 0; flip < 2; flip++) {
        uint8_t *part = resized(&r, c, GF_FILTER_LINEAR, left, top, width, height, flip);
        for (int i = 0; i < 3 * width * height; i++) {
            const int x = i % width, y = i / width % height, plane = i / width / height;
            const int from = (plane * c->out_height + top + y) * c->out_width + left + (flip ? width - 1 - x : x);
            assert_int_equal(part[i], whole[from]);
        }
        free(part);
    }
    free(whole);
    gf_resampler_free(&r);
}

TEST(test_resize_refuses) {
    gf_resampler r = {0};
    uint8_t pixel[3] = {1, 2, 3}, out[3];
    const gf_resize good = {.rgb = pixel,
                            .stride = 3,
                            .width = 1,
                            .height = 1,
                            .full_width = 1,
                            .full_height = 1,
                            .out_width = 1,
                            .out_height = 1,
                            .plane = {out, out + 1, out + 2},
                            .pitch = 1};
    gf_resize bad[4] = {good, good, good, good};
    bad[0].width = 0;
    bad[1].full_height = 0;
    bad[2].left = 1;
    bad[3].out_height = 2;
    gf_error err = {""};
    for (int i = 0; i < 4; i++) assert_int_equal(gf_resample(&err, &r, &bad[i]), GLOFND_E_ARGUMENT);
    ok(gf_resample(&err, &r, &good), &err);
    assert_memory_equal(out, pixel, 3);
    gf_resampler_free(&r);
}

/* ----- Colour ----- */

static void change_colour(uint8_t *planes, size_t n, int operation, double factor) {
    static void (*const change[])(uint8_t *, size_t, double) = {gf_color_brightness, gf_color_contrast, gf_color_saturation,
                                                                gf_color_hue};
    if (operation < 4) change[operation](planes, n, factor);
    else gf_color_gray(planes, n);
}

TEST(test_colour) {
    for (size_t i = 0; i < COUNT(colour_cases); i++) {
        const colour_case *c = &colour_cases[i];
        gf_image m = picture(c->width, c->height, c->seed);
        uint8_t *planes = planes_of(&m);
        const size_t n = (size_t)c->width * (size_t)c->height;
        change_colour(planes, n, c->operation, c->factor);
        if (digest_planes(planes, n) != c->bytes) fail_msg("colour case %zu (operation %d) differs", i, c->operation);
        free(planes);
        free(m.rgb);
    }
}

/* Each of the 2^24 colours once. */
TEST(test_all_colours) {
    const size_t n = (size_t)1 << 24;
    uint8_t *planes = malloc(3 * n);
    assert_non_null(planes);
    for (size_t i = 0; i < COUNT(all_colours_cases); i++) {
        const colour_case *c = &all_colours_cases[i];
        for (size_t k = 0; k < n; k++) {
            planes[k] = (uint8_t)(k >> 16);
            planes[n + k] = (uint8_t)(k >> 8);
            planes[2 * n + k] = (uint8_t)k;
        }
        change_colour(planes, n, c->operation, c->factor);
        if (digest_planes(planes, n) != c->bytes) fail_msg("operation %d, factor %g differs", c->operation, c->factor);
    }
    free(planes);
}

TEST(test_blur) {
    for (size_t i = 0; i < COUNT(blur_cases); i++) {
        const blur_case *c = &blur_cases[i];
        gf_image m = picture(c->width, c->height, c->seed);
        uint8_t *planes = planes_of(&m);
        void *scratch = malloc(gf_blur_scratch(c->width, c->height, c->sigma));
        const size_t n = (size_t)c->width * (size_t)c->height;
        for (size_t k = 0; k < 3; k++) gf_blur(planes + k * n, c->width, c->height, c->sigma, scratch);
        if (digest_planes(planes, n) != c->bytes) fail_msg("blur case %zu (sigma %g) differs", i, c->sigma);
        free(scratch);
        free(planes);
        free(m.rgb);
    }
}

/* ----- Views ----- */

static void check_view(const view_case *c, size_t i) {
    const gf_augment a = gf_augment_pretrain(c->size);
    gf_augment_scratch *x = scratch_for(&a);
    gf_image m = picture(c->width, c->height, c->seed);
    const size_t n = (size_t)c->size * (size_t)c->size * 3;
    float *out = malloc(n * sizeof *out);
    uint8_t *bytes = malloc(n);
    gf_error err = {""};
    ok(gf_augment_apply(&err, &a, &c->view, &m, x, out, bytes), &err);
    if (digest(bytes, n) != c->bytes) fail_msg("bytes of view %zu differ", i);
    if (digest(out, n * sizeof *out) != c->floats) fail_msg("normalised values of view %zu differ", i);
    free(out);
    free(bytes);
    free(m.rgb);
    gf_augment_scratch_free(x);
}

TEST(test_views) {
    for (size_t i = 0; i < COUNT(view_cases); i++) check_view(&view_cases[i], i);
}

TEST(test_small_view) {
    const gf_augment a = gf_augment_pretrain(6);
    const gf_view v = {.left = 2,
                       .top = 1,
                       .width = 13,
                       .height = 12,
                       .jitter = 1,
                       .order = {0, 2, 3, 1},
                       .factor = {1.31, 0.66, 1.13, -0.083},
                       .flip = 1,
                       .sigma = 1.5};
    gf_augment_scratch *x = scratch_for(&a);
    gf_image m = picture(20, 14, 77);
    float out[6 * 6 * 3];
    uint8_t bytes[6 * 6 * 3];
    gf_error err = {""};
    ok(gf_augment_apply(&err, &a, &v, &m, x, out, bytes), &err);
    assert_memory_equal(bytes, small_view, sizeof bytes);
    for (int i = 0; i < 6 * 6 * 3; i++) {
        assert_true(fabs((bytes[i] / 255.0 - (double)a.mean[i % 3]) / (double)a.std[i % 3] - (double)out[i]) < 1e-6);
    }
    free(m.rgb);
    gf_augment_scratch_free(x);
}

static void check_centres(const centre_case *cases, size_t count, gf_filter filter) {
    for (size_t i = 0; i < count; i++) {
        const centre_case *c = &cases[i];
        gf_augment a = gf_augment_linear(c->size);
        a.center_filter = filter;
        gf_augment_scratch *x = scratch_for(&a);
        gf_image m = picture(c->width, c->height, c->seed);
        const size_t bytes = (size_t)c->size * (size_t)c->size * 3 * sizeof(float);
        float *out = malloc(bytes);
        gf_error err = {""};
        ok(gf_augment_center(&err, &a, c->resize, &m, x, out), &err);
        if (digest(out, bytes) != c->floats) fail_msg("centre case %zu differs", i);
        free(out);
        free(m.rgb);
        gf_augment_scratch_free(x);
    }
}

TEST(test_centre) {
    check_centres(centre_cases, COUNT(centre_cases), GF_FILTER_LINEAR);
    check_centres(cubic_centre_cases, COUNT(cubic_centre_cases), GF_FILTER_CUBIC);
}

TEST(test_views_refuse) {
    const gf_augment a = gf_augment_pretrain(4), other = gf_augment_pretrain(5);
    gf_augment_scratch *x = scratch_for(&a);
    gf_image m = picture(8, 8, 1);
    float out[5 * 5 * 3];
    const gf_view good = {.width = 8, .height = 8, .jitter = 1, .order = {0, 1, 2, 3}, .factor = {1, 1, 1, 0}};
    gf_view bad[6] = {good, good, good, good, good, good};
    bad[0].left = 1;
    bad[1].height = 0;
    bad[2].order[2] = 4;
    bad[3].factor[1] = NAN;
    bad[4].factor[3] = 0.51;
    bad[5].sigma = GF_BLUR_MAX + 1;
    gf_error err = {""};
    for (int i = 0; i < 6; i++) assert_int_equal(gf_augment_apply(&err, &a, &bad[i], &m, x, out, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_augment_apply(&err, &other, &good, &m, x, out, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_augment_center(&err, &a, -1, &m, x, out), GLOFND_E_ARGUMENT);
    ok(gf_augment_apply(&err, &a, &good, &m, x, out, NULL), &err);
    free(m.rgb);
    gf_augment_scratch_free(x);
}

TEST(test_recipes_refused) {
    gf_augment bad[8];
    for (int i = 0; i < 8; i++) bad[i] = gf_augment_pretrain(224);
    bad[0].size = 0;
    bad[1].scale_min = 0;
    bad[2].ratio_max = 0.5;
    bad[3].gray_p = 1.5;
    bad[4].hue = 0.6;
    bad[5].blur_max = NAN;
    bad[6].std[1] = 0;
    bad[7].contrast = -1;
    for (int i = 0; i < 8; i++) {
        gf_error err = {""};
        gf_augment_scratch *x = NULL;
        assert_int_equal(gf_augment_scratch_create(&err, &bad[i], &x), GLOFND_E_OPTION);
        assert_null(x);
        assert_true(err.text[0] != 0);
    }
}

/* ----- What is drawn ----- */

enum { DRAWS = 20000 };

/* Two means of DRAWS draws each, from one distribution of this deviation, differ by less than 5 standard errors. */
static void check_mean(double got, double expected, double deviation, const char *what) {
    const double allowed = 5 * deviation * sqrt(2.0 / DRAWS) + 1e-9;
    if (fabs(got - expected) > allowed) fail_msg("mean %s is %g, expected %g", what, got, expected);
}

TEST(test_boxes) {
    static const char *const name[6] = {"left", "top", "width", "height", "area", "log ratio"};
    const gf_augment a = gf_augment_pretrain(224);
    for (size_t i = 0; i < COUNT(box_cases); i++) {
        const box_case *c = &box_cases[i];
        double sum[6] = {0}, square[6] = {0};
        for (int k = 0; k < DRAWS; k++) {
            gf_rng r = gf_rng_at(7, GF_RNG_AUGMENT, 0, (uint64_t)k, (uint32_t)i);
            const gf_view v = gf_augment_draw(&a, &r, c->width, c->height);
            assert_true(v.left >= 0 && v.top >= 0 && v.width >= 1 && v.height >= 1);
            assert_true(v.left + v.width <= c->width && v.top + v.height <= c->height);
            const double w = v.width, h = v.height, value[6] = {v.left, v.top, w, h, w * h, log(w / h)};
            for (int j = 0; j < 6; j++) {
                sum[j] += value[j];
                square[j] += value[j] * value[j];
            }
        }
        for (int j = 0; j < 6; j++) {
            const double mean = sum[j] / DRAWS, deviation = sqrt(fmax(0, square[j] / DRAWS - mean * mean));
            check_mean(mean, c->mean[j], c->deviation[j], name[j]);
            const double allowed = 5 * c->deviation[j] / sqrt(DRAWS) + 1e-9; /* 5 standard errors, as if they were normal */
            if (fabs(deviation - c->deviation[j]) > allowed) fail_msg("deviation of %s is %g", name[j], deviation);
        }
    }
}

/* A uniform number in [low, high]. */
static void check_uniform(const double *x, int n, double low, double high, const char *what) {
    double sum = 0, min = x[0], max = x[0];
    const double gap = 20 * (high - low) / n; /* to the ends: more has a chance of e^-20 */
    for (int i = 0; i < n; i++) sum += x[i], min = fmin(min, x[i]), max = fmax(max, x[i]);
    if (min < low || min > low + gap || max > high || max < high - gap) fail_msg("%s lies in [%g, %g]", what, min, max);
    if (fabs(sum / n - (low + high) / 2) > 5 * (high - low) / sqrt(12.0 * n)) fail_msg("mean %s is %g", what, sum / n);
}

static void check_share(int count, int n, double p) { assert_true(fabs((double)count / n - p) <= 5 * sqrt(p * (1 - p) / n)); }

TEST(test_factors) {
    static double factor[4][DRAWS], sigma[DRAWS];
    int jitters = 0, grays = 0, flips = 0, blurs = 0, first[4] = {0}, orders[256] = {0}, different = 0;
    const gf_augment a = gf_augment_pretrain(224);
    for (int k = 0; k < DRAWS; k++) {
        gf_rng r = gf_rng_at(11, GF_RNG_AUGMENT, 3, (uint64_t)k, 1);
        const gf_view v = gf_augment_draw(&a, &r, 500, 375);
        grays += v.gray;
        flips += v.flip;
        if (v.sigma > 0) sigma[blurs++] = v.sigma;
        if (!v.jitter) continue;
        for (int j = 0; j < 4; j++) factor[j][jitters] = v.factor[j];
        first[v.order[0]]++;
        assert_int_equal(1 << v.order[0] | 1 << v.order[1] | 1 << v.order[2] | 1 << v.order[3], 15);
        orders[v.order[0] | v.order[1] << 2 | v.order[2] << 4 | v.order[3] << 6]++;
        jitters++;
    }
    check_share(jitters, DRAWS, 0.8);
    check_share(grays, DRAWS, 0.2);
    check_share(flips, DRAWS, 0.5);
    check_share(blurs, DRAWS, 0.5);
    check_uniform(factor[0], jitters, 0.6, 1.4, "brightness");
    check_uniform(factor[1], jitters, 0.6, 1.4, "contrast");
    check_uniform(factor[2], jitters, 0.8, 1.2, "saturation");
    check_uniform(factor[3], jitters, -0.1, 0.1, "hue");
    check_uniform(sigma, blurs, 0.1, 2, "sigma");
    for (int j = 0; j < 4; j++) check_share(first[j], jitters, 0.25);
    for (int j = 0; j < 256; j++) {
        different += orders[j] > 0;
        if (orders[j] > 0) check_share(orders[j], jitters, 1 / 24.0);
    }
    assert_int_equal(different, 24);
}

/* Small recipes have no blur; strength 0 leaves an operation out; the linear recipe changes no colour; same key, same view. */
TEST(test_recipes) {
    gf_augment small = gf_augment_pretrain(32);
    const gf_augment linear = gf_augment_linear(32);
    small.hue = 0;
    small.jitter_p = 1;
    for (int k = 0; k < 200; k++) {
        gf_rng r = gf_rng_at(1, GF_RNG_AUGMENT, 0, (uint64_t)k, 0), again = r, other = r;
        const gf_view v = gf_augment_draw(&small, &r, 32, 32), same = gf_augment_draw(&small, &again, 32, 32);
        assert_true(v.sigma == 0);
        int left_out = 0;
        for (int j = 0; j < 4; j++) {
            left_out += v.order[j] == -1;
            assert_int_not_equal(v.order[j], 3);
            assert_int_equal(v.order[j], same.order[j]);
        }
        assert_int_equal(left_out, 1);
        assert_true(v.left == same.left && v.width == same.width && v.factor[0] == same.factor[0]);
        const gf_view w = gf_augment_draw(&linear, &other, 32, 32);
        assert_true(!w.jitter && !w.gray && w.sigma == 0);
    }
}
