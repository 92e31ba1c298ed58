/* shapes.c - the embedded dataset: drawn pictures, any number, nothing stored. See shapes.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/formats/shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset_format.h"
#include "util/rng.h"

/* ===== from a scene to pixels: one pass over the picture; edges are soft by coverage, a distance turned into a fraction ===== */

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

void gf_scene_draw(const gf_scene *s, int size, uint8_t *rgb) {
    gf_rng r = gf_rng_at(s->seed, GF_RNG_SHAPES, s->split, (uint64_t)s->position, GF_SHAPES_NOISE);
    for (int y = 0; y < size; y++) {
        for (int x = 0; x < size; x++, rgb += 3) {
            const gf_point p = {((float)x + 0.5f) / (float)size, ((float)y + 0.5f) / (float)size};
            gf_colour c = ground_at(s, p);
            for (int k = 0; k < s->clutter_n; k++) {
                const float cover = clamp01(0.5f - clutter_distance(&s->clutter[k], p) * (float)size);
                if (cover > 0) blend(&c, &s->clutter[k].colour, cover * s->clutter[k].opacity);
            }
            const float dx = p.x - s->at.x, dy = p.y - s->at.y, pixel = 1 / (s->radius * (float)size);
            const gf_point local = {s->turn[0][0] * dx + s->turn[0][1] * dy, s->turn[1][0] * dx + s->turn[1][1] * dy};
            const int near = !(fabsf(local.x) > 1.4f) && !(fabsf(local.y) > 1.4f);
            const float distance = near ? gf_shape_distance(s->shape, local) : 0;
            const float cover = near ? clamp01(0.5f - distance / pixel) : 0;
            if (!(cover <= 0)) {
                gf_colour object = s->colour;
                blend(&object, &s->second, texture_at(s, local, distance, pixel));
                blend(&c, &object, cover);
            }
            /* Noise is about normal, by the sum of four bytes: mean 510, standard deviation 147.8. */
            const uint32_t bits = gf_rng_u32(&r), sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
            const float light = 1 + s->light.x * (p.x - 0.5f) + s->light.y * (p.y - 0.5f), gray = ((float)sum - 510) / 147.8f;
            for (int k = 0; k < 3; k++) rgb[k] = (uint8_t)(clamp01(c.rgb[k] * light + s->noise * gray) * 255 + 0.5f);
        }
    }
}

/* ===== a scene: the random parameters of a picture, all but its class; and its captions ===== */

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

gf_scene gf_scene_make(uint64_t seed, uint32_t split, int64_t position, int shape, int texture) {
    gf_scene s = {.seed = seed, .split = split, .position = position, .shape = shape, .texture = texture};
    gf_rng object = gf_rng_at(seed, GF_RNG_SHAPES, split, (uint64_t)position, GF_SHAPES_OBJECT);
    gf_rng ground = gf_rng_at(seed, GF_RNG_SHAPES, split, (uint64_t)position, GF_SHAPES_GROUND);
    int name;
    s.radius = range(&object, 0.30, 0.47);
    const float free = 0.5f - 0.85f * s.radius; /* a little of the object may leave the picture */
    s.at = (gf_point){0.5f + range(&object, -free, free), 0.5f + range(&object, -free, free)};
    const float angle = range(&object, -0.5, 0.5), stretch = expf(range(&object, -0.18, 0.18)),
                lean = range(&object, -0.18, 0.18);
    const float mirror = gf_rng_below(&object, 2) ? 1.0f : -1.0f, c = cosf(angle), n = sinf(angle), scale = 1 / s.radius;
    s.turn[0][0] = mirror * scale * stretch * (c - lean * n);
    s.turn[0][1] = mirror * scale * stretch * (n + lean * c);
    s.turn[1][0] = scale / stretch * -n;
    s.turn[1][1] = scale / stretch * c;
    const float grain = range(&object, 0, PI);
    s.grain_cosine = cosf(grain), s.grain_sine = sinf(grain);
    s.frequency = range(&object, 1.5, 2.2);
    s.phase = (gf_point){range(&object, 0, 1), range(&object, 0, 1)};
    s.cells = gf_rng_u32(&object);
    s.colour = pick_colour(&object, &s.colour_name);
    s.second = pick_contrast(&object, &s.colour, 0.28f, NULL, &name);
    s.ground = pick_contrast(&ground, &s.colour, 0.2f, &s.second, &s.ground_name);
    for (int k = 0; k < 3; k++) {
        s.ground_slope[0].rgb[k] = range(&ground, -0.2, 0.2);
        s.ground_slope[1].rgb[k] = range(&ground, -0.2, 0.2);
        s.ground_wave.rgb[k] = range(&ground, -0.09, 0.09);
    }
    s.wave = (gf_point){range(&ground, -14, 14), range(&ground, -14, 14)};
    s.wave_phase = range(&ground, 0, 2 * PI);
    s.clutter_n = (int)gf_rng_below(&ground, GF_CLUTTER_MAX + 1);
    for (int k = 0; k < s.clutter_n; k++) {
        gf_clutter *clutter = &s.clutter[k];
        const float turn = range(&ground, 0, PI);
        clutter->kind = (int)gf_rng_below(&ground, 3);
        clutter->at = (gf_point){range(&ground, -0.1, 1.1), range(&ground, -0.1, 1.1)};
        clutter->cosine = cosf(turn), clutter->sine = sinf(turn);
        clutter->half_width = clutter->kind == 0 ? range(&ground, 0.1, 0.6) : range(&ground, 0.04, 0.16);
        if (clutter->kind == 1) clutter->half_height = clutter->half_width;
        else clutter->half_height = clutter->kind == 0 ? range(&ground, 0.008, 0.03) : range(&ground, 0.04, 0.16);
        clutter->colour = pick_colour(&ground, &name);
        clutter->opacity = range(&ground, 0.3, 0.8);
    }
    s.light = (gf_point){range(&ground, -0.35, 0.35), range(&ground, -0.35, 0.35)};
    s.noise = range(&ground, 0.005, 0.045);
    return s;
}

static const char *place_word(const gf_scene *s) {
    const float dx = s->at.x - 0.5f, dy = s->at.y - 0.5f;
    if (fabsf(dx) < 0.07f && fabsf(dy) < 0.07f) return "in the middle";
    if (fabsf(dx) > fabsf(dy)) return dx < 0 ? "on the left" : "on the right";
    return dy < 0 ? "at the top" : "at the bottom";
}

static const char *article(const char *word) {
    return word[0] == 'a' || word[0] == 'e' || word[0] == 'i' || word[0] == 'o' || word[0] == 'u' ? "an" : "a";
}

/* ===== the dataset ===== */

#define TEST_SPLIT 1u

typedef struct shapes {
    int64_t seed, classes, size, n;
    uint32_t split;
    int class_captions; /* captions name the class and nothing else of the picture */
} shapes;

/* Pairs (c mod 12, c mod 10) repeat after 60 and always have equal parity; a shift by one gives the other 60. */
void gf_shapes_class(int32_t c, int *shape, int *texture) {
    *shape = c % GF_SHAPES;
    *texture = (c + c / 60) % GF_TEXTURES;
}

static glofnd_status open_shapes(gf_error *err, gf_dataset *d) {
    shapes *s = malloc(sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory to open shapes");
    d->self = s;
    *s = (shapes){.seed = 1, .classes = 20, .size = 32, .n = 4096};
    TRY(gf_spec_integer(err, &d->spec, "n", 1, (int64_t)1 << 40, &s->n));
    TRY(gf_spec_integer(err, &d->spec, "classes", 1, GF_SHAPE_CLASSES, &s->classes));
    TRY(gf_spec_integer(err, &d->spec, "size", 8, 1024, &s->size));
    TRY(gf_spec_integer(err, &d->spec, "seed", 0, INT64_MAX, &s->seed));
    const char *split = gf_spec_value(&d->spec, "split");
    FAIL_IF(err, split && strcmp(split, "train") && strcmp(split, "test"), GLOFND_E_OPTION,
            "data 'shapes': split is '%.60s'; it must be train or test", split);
    s->split = split && strcmp(split, "test") == 0 ? TEST_SPLIT : 0;
    const char *captions = gf_spec_value(&d->spec, "captions");
    FAIL_IF(err, captions && strcmp(captions, "class") && strcmp(captions, "scene"), GLOFND_E_OPTION,
            "data 'shapes': captions is '%.60s'; it must be scene or class", captions);
    s->class_captions = captions && strcmp(captions, "class") == 0;
    d->info = (gf_dataset_info){.format = d->format->name,
                                .n = s->n,
                                .classes = (int32_t)s->classes,
                                .has_text = 1,
                                .width = (int)s->size,
                                .height = (int)s->size};
    for (int32_t c = 0; c < s->classes; c++) {
        int shape, texture;
        char name[64];
        gf_shapes_class(c, &shape, &texture);
        snprintf(name, sizeof name, "%s %s", gf_texture_name(texture), gf_shape_name(shape));
        TRY(gf_string_list_add(err, &d->classes, name, strlen(name)));
    }
    return GLOFND_OK;
}

static int32_t label_of(const gf_dataset *d, int64_t i) { return (int32_t)(i % ((const shapes *)d->self)->classes); }

static void name_of(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    const shapes *s = d->self;
    snprintf(out, bytes, "shapes %s #%lld", s->split == TEST_SPLIT ? "test" : "train", (long long)i);
}

static uint64_t key_of(const gf_dataset *d, int64_t i) {
    const shapes *s = d->self;
    char text[96];
    const int n = snprintf(text, sizeof text, "shapes/%lld/%u/%lld", (long long)s->seed, s->split, (long long)i);
    return gf_key_hash(text, (size_t)n);
}

static gf_scene scene_of(const shapes *s, int64_t i, int32_t label) {
    int shape, texture;
    gf_shapes_class(label, &shape, &texture);
    return gf_scene_make((uint64_t)s->seed, s->split, i, shape, texture);
}

/* All phrases, a line each. */
static glofnd_status set_captions(gf_error *err, const gf_dataset *d, const gf_scene *scene, gf_sample *out) {
    if (((const shapes *)d->self)->class_captions)
        return gf_sample_set_class_text(err, out, gf_string_list_get(&d->classes, out->label));
    const char *shape = gf_shape_name(scene->shape), *texture = gf_texture_name(scene->texture), *place = place_word(scene);
    const char *colour = palette[scene->colour_name].name, *ground = palette[scene->ground_name].name;
    const char *size = scene->radius < 0.36f ? "small" : scene->radius < 0.42f ? "medium" : "large", *a = article(ground);
    char captions[GF_PHRASES * 128];
    const int used = snprintf(captions, sizeof captions,
                              "a %s %s %s %s on %s %s background\n%s %s %s %s before %s %s ground\n"
                              "a picture of a %s %s %s %s %s\n%s %s %s, %s, %s\n",
                              size, texture, colour, shape, a, ground, article(texture), texture, colour, shape, a, ground, size,
                              colour, texture, shape, place, article(colour), colour, shape, texture, place);
    return gf_sample_set_text(err, out, captions, (size_t)used);
}

static glofnd_status read_shapes(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    (void)hint;
    const shapes *s = d->self;
    TRY(gf_image_resize(err, &out->image, (int)s->size, (int)s->size));
    const gf_scene scene = scene_of(s, i, out->label);
    gf_scene_draw(&scene, (int)s->size, out->image.rgb);
    return set_captions(err, d, &scene, out);
}

static glofnd_status read_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out) {
    const gf_scene scene = scene_of(d->self, i, out->label);
    return set_captions(err, d, &scene, out);
}

/* A quarter of the training pictures, but at least ten of each class. */
static int test_spec(const gf_dataset *d, char *out, size_t bytes) {
    const shapes *s = d->self;
    if (s->split == TEST_SPLIT) return 0;
    const int64_t n = s->n / 4 > 10 * s->classes ? s->n / 4 : 10 * s->classes;
    const int written =
        snprintf(out, bytes, "shapes:n=%lld,classes=%lld,size=%lld,seed=%lld,split=test%s", (long long)n, (long long)s->classes,
                 (long long)s->size, (long long)s->seed, s->class_captions ? ",captions=class" : "");
    return written > 0 && (size_t)written < bytes;
}

static void close_shapes(void *self) { free(self); }

static const char *const options[] = {"n", "classes", "size", "seed", "split", "captions", NULL};

const gf_dataset_format gf_format_shapes = {
    .name = "shapes",
    .options = options,
    .place_is_options = 1,
    .open = open_shapes,
    .close = close_shapes,
    .label = label_of,
    .name_of = name_of,
    .key = key_of,
    .read = read_shapes,
    .read_text = read_text,
    .test_spec = test_spec,
};
