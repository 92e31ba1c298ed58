/* unit_shapes.c - the drawn dataset: a pure function of its SPEC, classes that differ, hard for raw pixels, same picture at any
 * size. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "data/captions.h"
#include "data/dataset.h"
#include "data/formats/shapes.h"
#include "io/blockfile.h"
#include "util/parallel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gf_dataset *open_spec(const char *spec) {
    gf_error err = {""};
    gf_dataset *d = NULL;
    if (gf_dataset_open(&err, spec, &d) != GLOFND_OK) fail_msg("%s: %s", spec, err.text);
    return d;
}

static uint32_t picture_crc(const gf_dataset *d, int64_t i) {
    gf_sample s = {0};
    assert_int_equal(gf_dataset_read(NULL, d, i, 0, &s), GLOFND_OK);
    const uint32_t crc = gf_crc32c(0, s.image.rgb, (size_t)3 * (size_t)s.image.width * (size_t)s.image.height);
    gf_sample_free(&s);
    return crc;
}

TEST(describes_itself) {
    gf_dataset *d = open_spec("shapes:n=100,classes=24,size=48,seed=9");
    const gf_dataset_info info = gf_dataset_describe(d);
    assert_string_equal(info.format, "shapes");
    assert_int_equal(info.n, 100);
    assert_int_equal(info.classes, 24);
    assert_int_equal(info.width, 48);
    assert_int_equal(info.height, 48);
    assert_int_equal(info.has_text, 1);
    char text[200];
    assert_int_equal(gf_dataset_test_spec(d, text, sizeof text), 1);
    assert_string_equal(text, "shapes:n=240,classes=24,size=48,seed=9,split=test");
    assert_int_equal(gf_dataset_test_spec(d, text, 20), 0);
    assert_int_equal(gf_dataset_label(d, 0), 0);
    assert_int_equal(gf_dataset_label(d, 99), 3);
    assert_int_equal(gf_dataset_label(d, 100), -1);
    gf_dataset_name(d, 5, text, sizeof text);
    assert_string_equal(text, "shapes train #5");
    gf_dataset_free(d);
    d = open_spec("shapes");
    assert_int_equal(gf_dataset_describe(d).n, 4096);
    gf_dataset_free(d);
    d = open_spec("shapes:?n=7");
    assert_int_equal(gf_dataset_describe(d).n, 7);
    gf_dataset_free(d);
}

TEST(every_class_is_another) {
    uint8_t seen[GF_SHAPES][GF_TEXTURES] = {{0}};
    for (int32_t c = 0; c < GF_SHAPE_CLASSES; c++) {
        int shape, texture;
        gf_shapes_class(c, &shape, &texture);
        assert_int_equal(seen[shape][texture]++, 0);
    }
    gf_dataset *d = open_spec("shapes:n=200,classes=120");
    for (int32_t a = 0; a < 120; a++) {
        for (int32_t b = 0; b < a; b++) assert_string_not_equal(gf_dataset_class(d, a), gf_dataset_class(d, b));
    }
    assert_null(gf_dataset_class(d, 120));
    gf_dataset_free(d);
}

TEST(depends_on_seed_split_and_position_only) {
    gf_dataset *a = open_spec("shapes:n=50,seed=3"), *b = open_spec("shapes:n=5000,seed=3");
    gf_dataset *other = open_spec("shapes:n=50,seed=4"), *test = open_spec("shapes:n=50,seed=3,split=test");
    for (int64_t i = 0; i < 50; i++) {
        assert_int_equal(picture_crc(a, i), picture_crc(b, i));
        assert_int_not_equal(picture_crc(a, i), picture_crc(other, i));
        assert_int_not_equal(picture_crc(a, i), picture_crc(test, i));
        assert_true(gf_dataset_key(a, i) == gf_dataset_key(b, i));
        assert_true(gf_dataset_key(a, i) != gf_dataset_key(other, i));
        assert_true(gf_dataset_key(a, i) != gf_dataset_key(test, i));
        if (i > 0) assert_true(gf_dataset_key(a, i) != gf_dataset_key(a, i - 1));
    }
    gf_dataset_free(a);
    gf_dataset_free(b);
    gf_dataset_free(other);
    gf_dataset_free(test);
}

typedef struct race {
    const gf_dataset *d;
    uint32_t crc[64];
} race;

static void read_one(void *arg, int64_t task, int thread) {
    (void)thread;
    race *r = arg;
    gf_sample s = {0};
    if (gf_dataset_read(NULL, r->d, task, 0, &s) == GLOFND_OK) {
        r->crc[task] = gf_crc32c(0, s.image.rgb, (size_t)3 * (size_t)s.image.width * (size_t)s.image.height);
    }
    gf_sample_free(&s);
}

TEST(many_threads_draw_the_same) {
    gf_dataset *d = open_spec("shapes:n=64,size=24");
    race r = {.d = d};
    gf_parallel(4, 64, read_one, &r);
    for (int64_t i = 0; i < 64; i++) assert_int_equal(r.crc[i], picture_crc(d, i));
    gf_dataset_free(d);
}

/* Mean colour of quarters: the same scene at a different size has nearly the same ones. */
static void quarters(const gf_image *m, double out[12]) {
    memset(out, 0, 12 * sizeof *out);
    for (int y = 0; y < m->height; y++) {
        for (int x = 0; x < m->width; x++) {
            const int q = 2 * (2 * y / m->height) + 2 * x / m->width;
            for (int k = 0; k < 3; k++) out[3 * q + k] += m->rgb[3 * (y * m->width + x) + k] * 4.0 / m->width / m->height;
        }
    }
}

TEST(size_changes_only_the_size) {
    gf_dataset *small = open_spec("shapes:n=40,size=128"), *large = open_spec("shapes:n=40,size=256");
    gf_sample a = {0}, b = {0};
    for (int64_t i = 0; i < 40; i++) {
        double qa[12], qb[12];
        assert_int_equal(gf_dataset_read(NULL, small, i, 0, &a), GLOFND_OK);
        assert_int_equal(gf_dataset_read(NULL, large, i, 0, &b), GLOFND_OK);
        assert_int_equal(b.image.width, 256);
        quarters(&a.image, qa);
        quarters(&b.image, qb);
        for (int k = 0; k < 12; k++)
            if (fabs(qa[k] - qb[k]) > 1) fail_msg("picture %d, mean %d: %g and %g", (int)i, k, qa[k], qb[k]);
        assert_string_equal(a.text, b.text);
    }
    gf_sample_free(&a);
    gf_sample_free(&b);
    gf_dataset_free(small);
    gf_dataset_free(large);
    for (int size = 8; size <= 1024; size *= 4) {
        char spec[64];
        snprintf(spec, sizeof spec, "shapes:n=1,size=%d", size);
        gf_dataset *d = open_spec(spec);
        assert_int_not_equal(picture_crc(d, 0), 0);
        gf_dataset_free(d);
    }
}

/* Numbers written down once: pictures must not change between versions, or published results would. */
TEST(pictures_stay_as_they_are) {
    static const double expected[3][12] = {
        {187.100, 179.332, 195.568, 202.280, 192.256, 195.479, 187.420, 194.862, 210.776, 169.648, 173.027, 166.342},
        {205.571, 217.895, 228.850, 211.486, 206.808, 196.248, 169.475, 167.735, 213.209, 179.550, 158.922, 178.277},
        {125.188, 115.787, 99.075, 124.756, 106.562, 103.350, 151.250, 132.855, 124.713, 163.298, 129.104, 118.542},
    };
    gf_dataset *d = open_spec("shapes:n=5000,classes=120,size=64,seed=1");
    gf_sample s = {0};
    for (int k = 0; k < 3; k++) {
        double q[12];
        assert_int_equal(gf_dataset_read(NULL, d, 1357 * k, 0, &s), GLOFND_OK);
        quarters(&s.image, q);
        for (int j = 0; j < 12; j++) {
            if (fabs(q[j] - expected[k][j]) > 0.02)
                fail_msg("picture %d, mean %d: %.3f instead of %.3f", 1357 * k, j, q[j], expected[k][j]);
        }
    }
    gf_sample_free(&s);
    gf_dataset_free(d);
}

TEST(captions_name_what_is_drawn) {
    gf_dataset *d = open_spec("shapes:n=240,classes=120,size=8");
    gf_sample s = {0};
    for (int64_t i = 0; i < 240; i++) {
        int shape, texture;
        assert_int_equal(gf_dataset_read(NULL, d, i, 0, &s), GLOFND_OK);
        gf_shapes_class(s.label, &shape, &texture);
        assert_int_equal(gf_captions_count(s.text), GF_PHRASES);
        for (int k = 0; k < GF_PHRASES; k++) {
            const gf_caption c = gf_caption_at(s.text, k);
            const char *names[2] = {gf_shape_name(shape), gf_texture_name(texture)};
            for (int w = 0; w < 2; w++)
                if (!memmem(c.text, c.n, names[w], strlen(names[w]))) fail_msg("#%d: %.*s", (int)i, (int)c.n, c.text);
        }
    }
    gf_sample_free(&s);
    gf_dataset_free(d);
}

/* captions=class: all pictures of a class are described alike, and drawn as without it. */
TEST(captions_may_name_the_class_alone) {
    gf_dataset *d = open_spec("shapes:n=60,classes=4,size=8,captions=class"), *plain = open_spec("shapes:n=60,classes=4,size=8");
    gf_sample s = {0};
    char first[4][1024], test[256];
    for (int64_t i = 0; i < 60; i++) {
        assert_int_equal(gf_dataset_read(NULL, d, i, 0, &s), GLOFND_OK);
        if (i < 4) snprintf(first[i], sizeof first[i], "%s", s.text);
        assert_string_equal(s.text, first[s.label]);
        assert_non_null(strstr(s.text, gf_dataset_class(d, s.label)));
        assert_int_equal(picture_crc(d, i), picture_crc(plain, i));
    }
    assert_string_not_equal(first[0], first[1]);
    assert_true(gf_dataset_test_spec(d, test, sizeof test));
    assert_non_null(strstr(test, ",captions=class"));
    gf_sample_free(&s);
    gf_dataset_free(d);
    gf_dataset_free(plain);
}

/* Edges are soft: a black object on white is gray where its outline passes, by the share of the pixel that is outside. */
TEST(outlines_are_antialiased) {
    gf_scene s = gf_scene_make(1, 0, 0, 0, 0);
    s.clutter_n = 0;
    s.noise = 0;
    s.light = (gf_point){0, 0};
    memset(s.colour.rgb, 0, sizeof s.colour.rgb);
    memset(s.ground_slope, 0, sizeof s.ground_slope);
    memset(&s.ground_wave, 0, sizeof s.ground_wave);
    for (int k = 0; k < 3; k++) s.ground.rgb[k] = 1;
    uint8_t rgb[64 * 64 * 3];
    gf_scene_draw(&s, 64, rgb);
    int between = 0;
    for (int i = 0; i < 64 * 64; i++) {
        const double dx = (i % 64 + 0.5) / 64 - (double)s.at.x, dy = (i / 64 + 0.5) / 64 - (double)s.at.y;
        const gf_point local = {(float)((double)s.turn[0][0] * dx + (double)s.turn[0][1] * dy),
                                (float)((double)s.turn[1][0] * dx + (double)s.turn[1][1] * dy)};
        const double pixels = (double)gf_shape_distance(0, local) * (double)s.radius * 64; /* from the outline */
        const double white = fmin(1, fmax(0, 0.5 + pixels)) * 255;
        if (fabs(rgb[3 * i] - white) > 0.51) fail_msg("pixel %d is %d instead of %g", i, rgb[3 * i], white);
        between += rgb[3 * i] > 0 && rgb[3 * i] < 255;
    }
    assert_true(between > 100);
}

/* ----- how hard it is ----- */

enum { TRAIN = 1000, TEST = 300, DIM = 32 * 32 * 3 };

static float *load(const char *spec, int n) {
    gf_dataset *d = open_spec(spec);
    float *x = malloc((size_t)n * DIM * sizeof *x);
    assert_non_null(x);
    gf_sample s = {0};
    for (int i = 0; i < n; i++) {
        assert_int_equal(gf_dataset_read(NULL, d, i, 0, &s), GLOFND_OK);
        for (int k = 0; k < DIM; k++) x[(size_t)i * DIM + (size_t)k] = (float)s.image.rgb[k] / 255;
    }
    gf_sample_free(&s);
    gf_dataset_free(d);
    return x;
}

static int nearest(const float *train, const float *x) {
    int best = 0;
    float best_distance = INFINITY;
    for (int i = 0; i < TRAIN; i++) {
        float sum = 0;
        for (int k = 0; k < DIM; k++) {
            const float e = train[(size_t)i * DIM + (size_t)k] - x[k];
            sum += e * e;
        }
        if (sum < best_distance) {
            best_distance = sum;
            best = i;
        }
    }
    return best;
}

/* 20 classes: chance is 5 %, and neighbours find 10 %. */
TEST(raw_pixels_are_of_little_help) {
    float *train = load("shapes:n=1000,classes=20", TRAIN), *test = load("shapes:n=300,classes=20,split=test", TEST);
    int right = 0;
    for (int i = 0; i < TEST; i++) right += nearest(train, test + (size_t)i * DIM) % 20 == i % 20;
    if (right * 100 > 12 * TEST) fail_msg("nearest neighbours in pixels are right for %d of %d", right, TEST);
    free(train);
    free(test);
}

TEST(wrong_options_are_named) {
    static const char *const cases[][2] = {
        {"shapes:n=0", "n is '0'"},         {"shapes:n=ten", "n is 'ten'"},      {"shapes:classes=121", "[1, 120]"},
        {"shapes:size=7", "[8, 1024]"},     {"shapes:size=1025", "[8, 1024]"},   {"shapes:seed=-1", "seed"},
        {"shapes:colour=red", "no option"}, {"shapes:n=3,n=4", "given twice"},   {"shapes:split=val", "train or test"},
        {"shapes:12", "key=value"},         {"shapes:n=99999999999999", "n is"}, {"shapes:captions=1", "scene or class"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        gf_error err = {""};
        gf_dataset *d = NULL;
        const glofnd_status status = gf_dataset_open(&err, cases[k][0], &d);
        if (status != GLOFND_E_OPTION || !strstr(err.text, cases[k][1]) || d)
            fail_msg("%s: %d, %s", cases[k][0], status, err.text);
    }
}
