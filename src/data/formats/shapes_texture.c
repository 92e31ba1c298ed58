/* shapes_texture.c - how much of the second colour a point of the object has, 0 .. 1, with soft edges one pixel wide. */
#include "data/formats/shapes_texture.h"

#define TWO_PI 6.28318530717959f

static const char *const names[GF_TEXTURES] = {"plain",  "striped", "checkered", "dotted",   "ringed",
                                               "netted", "wavy",    "rayed",     "speckled", "outlined"};

const char *gf_texture_name(int texture) { return names[texture]; }

static float clamp01(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

/* 0 below the edge, 1 above; `pixel` is how much the value changes over a pixel. */
static float edge(float value, float pixel) { return clamp01(value / pixel + 0.5f); }

/* Distance from the middle of a unit cell, 0 .. 0.5. */
static float fold(float u) { return fabsf(u - floorf(u) - 0.5f); }

static float stripes(float u, float width, float pixel) { return edge(0.5f * width - fold(u), pixel); }

/* A number 0 .. 1 for every cell of a plane. */
static float cell_noise(int32_t x, int32_t y, uint32_t seed) {
    uint32_t h = seed ^ ((uint32_t)x * 0x9E3779B1u) ^ ((uint32_t)y * 0x85EBCA77u);
    h = (h ^ (h >> 15)) * 0x2C1B3C6Du;
    h = (h ^ (h >> 12)) * 0x297A2D39u;
    return (float)((h ^ (h >> 15)) >> 8) * 0x1p-24f;
}

/* Cells of random colour, their values blended so that edges are soft. */
static float speckles(float u, float v, uint32_t seed, float pixel) {
    const float x = floorf(u), y = floorf(v), fx = u - x, fy = v - y;
    const int32_t i = (int32_t)x, j = (int32_t)y;
    const float top = cell_noise(i, j, seed) * (1 - fx) + cell_noise(i + 1, j, seed) * fx;
    const float low = cell_noise(i, j + 1, seed) * (1 - fx) + cell_noise(i + 1, j + 1, seed) * fx;
    return edge(top * (1 - fy) + low * fy - 0.5f, pixel);
}

float gf_texture_at(const gf_scene *s, gf_point p, float distance, float pixel) {
    const float x = s->grain_cosine * p.x + s->grain_sine * p.y, y = s->grain_cosine * p.y - s->grain_sine * p.x;
    const float f = s->frequency, u = f * x + s->phase.x, v = f * y + s->phase.y, soft = f * pixel;
    switch (s->texture) {
    case 1: return stripes(u, 0.5f, soft);
    case 2: {
        const float a = stripes(u * 0.8f, 0.5f, 0.8f * soft), b = stripes(v * 0.8f, 0.5f, 0.8f * soft);
        return a + b - 2 * a * b;
    }
    case 3: return edge(0.29f - gf_length(fold(u), fold(v)), soft);
    case 4: return stripes(f * gf_length(p.x, p.y) + s->phase.x, 0.5f, soft);
    case 5: return fmaxf(stripes(u, 0.3f, soft), stripes(v, 0.3f, soft));
    case 6: return stripes(u + 0.45f * sinf(TWO_PI * 0.45f * v), 0.5f, 1.4f * soft);
    case 7: {
        const float r = gf_length(p.x, p.y), rays = 7;
        return stripes(rays / TWO_PI * atan2f(y, x), 0.5f, rays / TWO_PI * pixel / (r > 0.05f ? r : 0.05f));
    }
    case 8: return speckles(2.2f * u, 2.2f * v, s->cells, 2.2f * soft);
    case 9: return edge(-distance - 0.24f, pixel);
    default: return 0;
    }
}
