/* shapes_scene.c - the random parameters of a picture, all but its class; and its captions. */
#include <math.h>
#include <stdio.h>

#include "data/formats/shapes.h"
#include "util/rng.h"

#define PI 3.14159265358979f

static const struct {
    const char *name;
    float rgb[3];
} palette[] = {
    {"red", {0.85f, 0.16f, 0.15f}},    {"orange", {0.93f, 0.52f, 0.12f}}, {"yellow", {0.93f, 0.85f, 0.20f}},
    {"green", {0.20f, 0.62f, 0.25f}},  {"teal", {0.15f, 0.62f, 0.62f}},   {"blue", {0.18f, 0.32f, 0.82f}},
    {"purple", {0.52f, 0.22f, 0.70f}}, {"pink", {0.93f, 0.50f, 0.68f}},   {"brown", {0.45f, 0.28f, 0.14f}},
    {"gray", {0.50f, 0.50f, 0.50f}},   {"white", {0.93f, 0.93f, 0.92f}},  {"black", {0.09f, 0.09f, 0.11f}},
};
#define COLOURS ((int)(sizeof palette / sizeof palette[0]))

static float range(gf_rng *r, double lo, double hi) { return (float)gf_rng_range(r, lo, hi); }

static float luminance(const gf_colour *c) { return 0.3f * c->rgb[0] + 0.59f * c->rgb[1] + 0.11f * c->rgb[2]; }

static gf_colour pick_colour(gf_rng *r, int *name) {
    gf_colour c;
    *name = (int)gf_rng_below(r, COLOURS);
    const float shade = range(r, -0.06, 0.06);
    for (int k = 0; k < 3; k++) c.rgb[k] = palette[*name].rgb[k] + shade + range(r, -0.05, 0.05);
    return c;
}

static int differ(const gf_colour *a, const gf_colour *b, float min) { return fabsf(luminance(a) - luminance(b)) >= min; }

/* A colour whose brightness differs from those of `first` and `second` (may be NULL), so that they differ in gray, too.
 * The palette is wide enough that 40 draws find one; the last is taken if they do not. */
static gf_colour pick_contrast(gf_rng *r, const gf_colour *first, float min, const gf_colour *second, int *name) {
    gf_colour c = pick_colour(r, name);
    for (int k = 0; k < 40 && !(differ(&c, first, min) && (!second || differ(&c, second, 0.12f))); k++) c = pick_colour(r, name);
    return c;
}

static void make_pose(gf_scene *s, gf_rng *r) {
    s->radius = range(r, 0.30, 0.47);
    const float free = 0.5f - 0.85f * s->radius; /* a little of the object may leave the picture */
    s->at = (gf_point){0.5f + range(r, -free, free), 0.5f + range(r, -free, free)};
    const float angle = range(r, -0.5, 0.5), stretch = expf(range(r, -0.18, 0.18)), lean = range(r, -0.18, 0.18);
    const float mirror = gf_rng_below(r, 2) ? 1.0f : -1.0f, c = cosf(angle), n = sinf(angle), scale = 1 / s->radius;
    s->turn[0][0] = mirror * scale * stretch * (c - lean * n);
    s->turn[0][1] = mirror * scale * stretch * (n + lean * c);
    s->turn[1][0] = scale / stretch * -n;
    s->turn[1][1] = scale / stretch * c;
}

static void make_texture(gf_scene *s, gf_rng *r) {
    const float angle = range(r, 0, PI);
    s->grain_cosine = cosf(angle);
    s->grain_sine = sinf(angle);
    s->frequency = range(r, 1.5, 2.2);
    s->phase = (gf_point){range(r, 0, 1), range(r, 0, 1)};
    s->cells = gf_rng_u32(r);
}

static void make_ground(gf_scene *s, gf_rng *r) {
    s->ground = pick_contrast(r, &s->colour, 0.2f, &s->second, &s->ground_name);
    for (int k = 0; k < 3; k++) {
        s->ground_slope[0].rgb[k] = range(r, -0.2, 0.2);
        s->ground_slope[1].rgb[k] = range(r, -0.2, 0.2);
        s->ground_wave.rgb[k] = range(r, -0.09, 0.09);
    }
    s->wave = (gf_point){range(r, -14, 14), range(r, -14, 14)};
    s->wave_phase = range(r, 0, 2 * PI);
}

static void make_clutter(gf_scene *s, gf_rng *r) {
    s->clutter_n = (int)gf_rng_below(r, GF_CLUTTER_MAX + 1);
    for (int k = 0; k < s->clutter_n; k++) {
        gf_clutter *c = &s->clutter[k];
        int name;
        const float angle = range(r, 0, PI);
        c->kind = (int)gf_rng_below(r, 3);
        c->at = (gf_point){range(r, -0.1, 1.1), range(r, -0.1, 1.1)};
        c->cosine = cosf(angle);
        c->sine = sinf(angle);
        c->half_width = c->kind == 0 ? range(r, 0.1, 0.6) : range(r, 0.04, 0.16);
        c->half_height = c->kind == 0 ? range(r, 0.008, 0.03) : c->kind == 1 ? c->half_width : range(r, 0.04, 0.16);
        c->colour = pick_colour(r, &name);
        c->opacity = range(r, 0.3, 0.8);
    }
}

gf_scene gf_scene_make(uint64_t seed, uint32_t split, int64_t position, int shape, int texture) {
    gf_scene s = {.seed = seed, .split = split, .position = position, .shape = shape, .texture = texture};
    gf_rng object = gf_rng_at(seed, GF_RNG_SHAPES, split, (uint64_t)position, GF_SHAPES_OBJECT);
    gf_rng ground = gf_rng_at(seed, GF_RNG_SHAPES, split, (uint64_t)position, GF_SHAPES_GROUND);
    int name;
    make_pose(&s, &object);
    make_texture(&s, &object);
    s.colour = pick_colour(&object, &s.colour_name);
    s.second = pick_contrast(&object, &s.colour, 0.28f, NULL, &name);
    make_ground(&s, &ground);
    make_clutter(&s, &ground);
    s.light = (gf_point){range(&ground, -0.35, 0.35), range(&ground, -0.35, 0.35)};
    s.noise = range(&ground, 0.005, 0.045);
    return s;
}

/* ----- words ----- */

static const char *size_word(const gf_scene *s) { return s->radius < 0.36f ? "small" : s->radius < 0.42f ? "medium" : "large"; }

static const char *place_word(const gf_scene *s) {
    const float dx = s->at.x - 0.5f, dy = s->at.y - 0.5f;
    if (fabsf(dx) < 0.07f && fabsf(dy) < 0.07f) return "in the middle";
    if (fabsf(dx) > fabsf(dy)) return dx < 0 ? "on the left" : "on the right";
    return dy < 0 ? "at the top" : "at the bottom";
}

static const char *article(const char *word) {
    return word[0] == 'a' || word[0] == 'e' || word[0] == 'i' || word[0] == 'o' || word[0] == 'u' ? "an" : "a";
}

void gf_scene_caption(const gf_scene *s, int phrase, char *out, size_t bytes) {
    const char *shape = gf_shape_name(s->shape), *texture = gf_texture_name(s->texture);
    const char *colour = palette[s->colour_name].name, *ground = palette[s->ground_name].name;
    switch (phrase) {
    case 0:
        snprintf(out, bytes, "a %s %s %s %s on %s %s background", size_word(s), texture, colour, shape, article(ground), ground);
        break;
    case 1:
        snprintf(out, bytes, "%s %s %s %s before %s %s ground", article(texture), texture, colour, shape, article(ground),
                 ground);
        break;
    case 2: snprintf(out, bytes, "a picture of a %s %s %s %s %s", size_word(s), colour, texture, shape, place_word(s)); break;
    default: snprintf(out, bytes, "%s %s %s, %s, %s", article(colour), colour, shape, texture, place_word(s));
    }
}
