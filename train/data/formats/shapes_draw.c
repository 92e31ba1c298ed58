/* shapes_draw.c - from a scene to pixels. One pass over the picture; edges are soft by coverage, a distance turned into a
 * share. */
#include "data/formats/shapes.h"
#include "util/rng.h"

#define TWO_PI 6.28318530717959f

static float clamp01(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

/* hypotf guards against overflow, which cannot happen here, and is slow. */
static float length(float x, float y) { return sqrtf(x * x + y * y); }

/* ----- outlines of the shapes as signed distances; y points down ----- */

static const char *const shape_names[GF_SHAPES] = {"disc",     "triangle", "square", "star",      "ring",   "cross",
                                                   "crescent", "heart",    "arrow",  "hourglass", "flower", "dome"};

const char *gf_shape_name(int shape) { return shape_names[shape]; }

static const gf_point triangle[] = {{0, -1}, {0.9f, 0.75f}, {-0.9f, 0.75f}};
static const gf_point square[] = {{-0.8f, -0.8f}, {0.8f, -0.8f}, {0.8f, 0.8f}, {-0.8f, 0.8f}};
static const gf_point star[] = {{0, -1.1f},  {0.285f, -0.393f}, {1.046f, -0.34f}, {0.462f, 0.15f},   {0.647f, 0.89f},
                                {0, 0.486f}, {-0.647f, 0.89f},  {-0.462f, 0.15f}, {-1.046f, -0.34f}, {-0.285f, -0.393f}};
static const gf_point cross[] = {{-0.36f, -1}, {0.36f, -1}, {0.36f, -0.36f}, {1, -0.36f}, {1, 0.36f},   {0.36f, 0.36f},
                                 {0.36f, 1},   {-0.36f, 1}, {-0.36f, 0.36f}, {-1, 0.36f}, {-1, -0.36f}, {-0.36f, -0.36f}};
static const gf_point arrow[] = {{0, -1.05f}, {0.95f, -0.05f},  {0.38f, -0.05f}, {0.38f, 1},
                                 {-0.38f, 1}, {-0.38f, -0.05f}, {-0.95f, -0.05f}};
static const gf_point hourglass[] = {{-0.9f, -1}, {0.9f, -1}, {0.2f, 0}, {0.9f, 1}, {-0.9f, 1}, {-0.2f, 0}};

static float polygon(const gf_point *v, int n, gf_point p) {
    float best = 1e9f;
    int inside = 0;
    for (int i = 0, j = n - 1; i < n; j = i++) {
        const float ex = v[j].x - v[i].x, ey = v[j].y - v[i].y, wx = p.x - v[i].x, wy = p.y - v[i].y;
        float t = (wx * ex + wy * ey) / (ex * ex + ey * ey);
        t = t < 0 ? 0 : t > 1 ? 1 : t;
        const float dx = wx - t * ex, dy = wy - t * ey, d = dx * dx + dy * dy;
        if (d < best) best = d;
        if ((v[i].y > p.y) != (v[j].y > p.y) && p.x < ex * (p.y - v[i].y) / ey + v[i].x) inside = !inside;
    }
    return inside ? -sqrtf(best) : sqrtf(best);
}

static float disc(gf_point p, float x, float y, float r) { return length(p.x - x, p.y - y) - r; }

/* Two discs on the shoulders of a turned square. */
static float heart(gf_point p) {
    static const gf_point body[] = {{0, 1}, {-0.83f, 0.17f}, {0, -0.66f}, {0.83f, 0.17f}};
    return fminf(polygon(body, 4, p), fminf(disc(p, -0.415f, -0.245f, 0.587f), disc(p, 0.415f, -0.245f, 0.587f)));
}

/* Six petals: the radius as a function of the angle; divided by its slope, a distance. */
static float flower(gf_point p) {
    const float r = length(p.x, p.y), angle = atan2f(p.y, p.x);
    const float edge = 0.78f + 0.28f * cosf(6 * angle), slope = 1.68f * sinf(6 * angle) / fmaxf(r, 0.3f);
    return (r - edge) / sqrtf(1 + slope * slope);
}

float gf_shape_distance(int shape, gf_point p) {
    switch (shape) {
    case 0: return disc(p, 0, 0, 0.95f);
    case 1: return polygon(triangle, 3, p);
    case 2: return polygon(square, 4, p);
    case 3: return polygon(star, 10, p);
    case 4: return fabsf(length(p.x, p.y) - 0.72f) - 0.27f;
    case 5: return polygon(cross, 12, p);
    case 6: return fmaxf(disc(p, 0.1f, 0, 1), -disc(p, 0.55f, 0, 0.78f));
    case 7: return heart(p);
    case 8: return polygon(arrow, 7, p);
    case 9: return polygon(hourglass, 6, p);
    case 10: return flower(p);
    default: return fmaxf(disc(p, 0, 0.4f, 1.05f), p.y - 0.4f);
    }
}

/* ----- textures: share of the second colour, 0 .. 1, with soft edges one pixel wide ----- */

static const char *const texture_names[GF_TEXTURES] = {"plain",  "striped", "checkered", "dotted",   "ringed",
                                                       "netted", "wavy",    "rayed",     "speckled", "outlined"};

const char *gf_texture_name(int texture) { return texture_names[texture]; }

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

/* Share of the second colour at local point p, `distance` from the outline (negative inside); `pixel` in local units. */
static float texture_at(const gf_scene *s, gf_point p, float distance, float pixel) {
    const float x = s->grain_cosine * p.x + s->grain_sine * p.y, y = s->grain_cosine * p.y - s->grain_sine * p.x;
    const float f = s->frequency, u = f * x + s->phase.x, v = f * y + s->phase.y, soft = f * pixel;
    switch (s->texture) {
    case 1: return stripes(u, 0.5f, soft);
    case 2: {
        const float a = stripes(u * 0.8f, 0.5f, 0.8f * soft), b = stripes(v * 0.8f, 0.5f, 0.8f * soft);
        return a + b - 2 * a * b;
    }
    case 3: return edge(0.29f - length(fold(u), fold(v)), soft);
    case 4: return stripes(f * length(p.x, p.y) + s->phase.x, 0.5f, soft);
    case 5: return fmaxf(stripes(u, 0.3f, soft), stripes(v, 0.3f, soft));
    case 6: return stripes(u + 0.45f * sinf(TWO_PI * 0.45f * v), 0.5f, 1.4f * soft);
    case 7: {
        const float r = length(p.x, p.y), rays = 7;
        return stripes(rays / TWO_PI * atan2f(y, x), 0.5f, rays / TWO_PI * pixel / (r > 0.05f ? r : 0.05f));
    }
    case 8: return speckles(2.2f * u, 2.2f * v, s->cells, 2.2f * soft);
    case 9: return edge(-distance - 0.24f, pixel);
    default: return 0;
    }
}

/* ----- the picture ----- */

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
    if (c->kind == 1) return length(dx, dy) - c->half_width;
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
    blend(&object, &s->second, texture_at(s, local, distance, pixel));
    blend(c, &object, cover);
}

/* About normal, by the sum of four bytes: mean 510, standard deviation 147.8. */
static float rough(uint32_t x) {
    const uint32_t sum = (x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24);
    return ((float)sum - 510) / 147.8f;
}

static uint8_t to_byte(float x) { return (uint8_t)(clamp01(x) * 255 + 0.5f); }

void gf_scene_draw(const gf_scene *s, int size, uint8_t *rgb) {
    gf_rng r = gf_rng_at(s->seed, GF_RNG_SHAPES, s->split, (uint64_t)s->position, GF_SHAPES_NOISE);
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
