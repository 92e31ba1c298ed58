/* shapes.h - drawn pictures: an object of some shape and texture before a cluttered background.
 *
 * The class of a picture is (shape, texture). Everything else is nuisance: colours, place, size, rotation, proportions,
 * background, clutter, light and noise. A picture is a pure function of (seed, split, position, class, size).
 *     gf_scene s = gf_scene_make(seed, split, i, shape, texture);  gf_scene_draw(&s, size, rgb);
 */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define GF_SHAPES 12
#define GF_TEXTURES 10
#define GF_SHAPE_CLASSES (GF_SHAPES * GF_TEXTURES)
#define GF_CLUTTER_MAX 5

enum { GF_SHAPES_OBJECT, GF_SHAPES_GROUND, GF_SHAPES_NOISE }; /* random streams of a picture */

typedef struct gf_point {
    float x, y;
} gf_point;

typedef struct gf_colour {
    float rgb[3]; /* 0 .. 1 */
} gf_colour;

typedef struct gf_clutter { /* a bar, disc or box somewhere */
    int kind;
    gf_point at; /* picture coordinates: 0 .. 1 */
    float cosine, sine;
    float half_width, half_height;
    gf_colour colour;
    float opacity;
} gf_clutter;

typedef struct gf_scene {
    uint64_t seed;
    uint32_t split;
    int64_t position;
    int shape, texture;
    /* the object: local = turn (picture - at), the shape fills about the unit disc */
    gf_point at;
    float turn[2][2];
    float radius; /* in the picture */
    gf_colour colour, second;
    int colour_name, ground_name;
    /* its texture: own rotation, frequency per local unit, phase */
    float grain_cosine, grain_sine, frequency;
    gf_point phase;
    uint32_t cells; /* seed of the speckles */
    /* background; light and noise over all */
    gf_colour ground, ground_slope[2], ground_wave;
    gf_point wave;
    float wave_phase;
    int clutter_n;
    gf_clutter clutter[GF_CLUTTER_MAX];
    gf_point light; /* brightness slope */
    float noise;    /* standard deviation, 0 .. 1 */
} gf_scene;

gf_scene gf_scene_make(uint64_t seed, uint32_t split, int64_t position, int shape, int texture);
/* rgb [size][size][3], antialiased by coverage. */
void gf_scene_draw(const gf_scene *s, int size, uint8_t *rgb);
/* "a large striped red triangle on a blue background": describes the picture in one of GF_PHRASES ways. */
#define GF_PHRASES 4

/* Signed distance in local units, about: negative inside. */
float gf_shape_distance(int shape, gf_point p);
const char *gf_shape_name(int shape);
const char *gf_texture_name(int texture);
/* Class c of many: neighbours differ in shape and in texture, and from 20 classes on neither alone determines the class. */
void gf_shapes_class(int32_t c, int *shape, int *texture);
