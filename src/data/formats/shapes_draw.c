/* shapes_draw.c - from a scene to pixels. One pass over the picture; edges are soft by coverage, a distance turned into a share.
 * */
#include "data/formats/shapes.h"
#include "data/formats/shapes_texture.h"
#include "util/rng.h"

enum { NOISE_LANE = 2 }; /* beside the lanes of shapes_scene.c */

static float clamp01(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

static void blend(gf_colour *c, const gf_colour *over, float share) {
    for (int k = 0; k < 3; k++) c->rgb[k] += share * (over->rgb[k] - c->rgb[k]);
}

static gf_colour ground_at(const gf_scene *s, gf_point p) {
    gf_colour c = s->ground;
    const float wave = sinf(s->wave.x * p.x + s->wave.y * p.y + s->wave_phase);
    for (int k = 0; k < 3; k++) {
        c.rgb[k] +=
            s->ground_slope[0].rgb[k] * (p.x - 0.5f) + s->ground_slope[1].rgb[k] * (p.y - 0.5f) + s->ground_wave.rgb[k] * wave;
    }
    return c;
}

static float clutter_distance(const gf_clutter *c, gf_point p) {
    const float dx = p.x - c->at.x, dy = p.y - c->at.y;
    if (c->kind == 1) return gf_length(dx, dy) - c->half_width;
    const float x = fabsf(c->cosine * dx + c->sine * dy) - c->half_width,
                y = fabsf(c->cosine * dy - c->sine * dx) - c->half_height;
    return x > y ? x : y;
}

static void draw_clutter(const gf_scene *s, gf_point p, float size, gf_colour *c) {
    for (int k = 0; k < s->clutter_n; k++) {
        const float cover = clamp01(0.5f - clutter_distance(&s->clutter[k], p) * size);
        if (cover > 0) blend(c, &s->clutter[k].colour, cover * s->clutter[k].opacity);
    }
}

static void draw_object(const gf_scene *s, gf_point p, float size, gf_colour *c) {
    const float dx = p.x - s->at.x, dy = p.y - s->at.y, pixel = 1 / (s->radius * size);
    const gf_point local = {s->turn[0][0] * dx + s->turn[0][1] * dy, s->turn[1][0] * dx + s->turn[1][1] * dy};
    if (fabsf(local.x) > 1.4f || fabsf(local.y) > 1.4f) return;
    const float distance = gf_shape_distance(s->shape, local), cover = clamp01(0.5f - distance / pixel);
    if (cover <= 0) return;
    gf_colour object = s->colour;
    blend(&object, &s->second, gf_texture_at(s, local, distance, pixel));
    blend(c, &object, cover);
}

/* About normal, by the sum of four bytes: mean 510, standard deviation 147.8. */
static float rough(uint32_t x) {
    const uint32_t sum = (x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24);
    return ((float)sum - 510) / 147.8f;
}

static uint8_t to_byte(float x) { return (uint8_t)(clamp01(x) * 255 + 0.5f); }

void gf_scene_draw(const gf_scene *s, int size, uint8_t *rgb) {
    gf_rng r = gf_rng_at(s->seed, GF_RNG_SHAPES, s->split, (uint64_t)s->position, NOISE_LANE);
    for (int y = 0; y < size; y++) {
        for (int x = 0; x < size; x++, rgb += 3) {
            const gf_point p = {((float)x + 0.5f) / (float)size, ((float)y + 0.5f) / (float)size};
            gf_colour c = ground_at(s, p);
            draw_clutter(s, p, (float)size, &c);
            draw_object(s, p, (float)size, &c);
            const float light = 1 + s->light.x * (p.x - 0.5f) + s->light.y * (p.y - 0.5f), gray = rough(gf_rng_u32(&r));
            for (int k = 0; k < 3; k++) rgb[k] = to_byte(c.rgb[k] * light + s->noise * gray);
        }
    }
}
