/* shapes_form.c - the outlines of the drawn shapes as signed distances. Picture coordinates: y points down. */
#include "data/formats/shapes.h"

static const char *const names[GF_SHAPES] = {"disc",     "triangle", "square", "star",      "ring",   "cross",
                                             "crescent", "heart",    "arrow",  "hourglass", "flower", "dome"};

const char *gf_shape_name(int shape) { return names[shape]; }

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

static float disc(gf_point p, float x, float y, float r) { return gf_length(p.x - x, p.y - y) - r; }

static float larger(float a, float b) { return a > b ? a : b; }

static float smaller(float a, float b) { return a < b ? a : b; }

/* Two discs on the shoulders of a turned square. */
static float heart(gf_point p) {
    static const gf_point body[] = {{0, 1}, {-0.83f, 0.17f}, {0, -0.66f}, {0.83f, 0.17f}};
    return smaller(polygon(body, 4, p), smaller(disc(p, -0.415f, -0.245f, 0.587f), disc(p, 0.415f, -0.245f, 0.587f)));
}

/* Six petals: the radius as a function of the angle; divided by its slope, a distance. */
static float flower(gf_point p) {
    const float r = gf_length(p.x, p.y), angle = atan2f(p.y, p.x);
    const float edge = 0.78f + 0.28f * cosf(6 * angle), slope = 1.68f * sinf(6 * angle) / larger(r, 0.3f);
    return (r - edge) / sqrtf(1 + slope * slope);
}

float gf_shape_distance(int shape, gf_point p) {
    switch (shape) {
    case 0: return disc(p, 0, 0, 0.95f);
    case 1: return polygon(triangle, 3, p);
    case 2: return polygon(square, 4, p);
    case 3: return polygon(star, 10, p);
    case 4: return fabsf(gf_length(p.x, p.y) - 0.72f) - 0.27f;
    case 5: return polygon(cross, 12, p);
    case 6: return larger(disc(p, 0.1f, 0, 1), -disc(p, 0.55f, 0, 0.78f));
    case 7: return heart(p);
    case 8: return polygon(arrow, 7, p);
    case 9: return polygon(hourglass, 6, p);
    case 10: return flower(p);
    default: return larger(disc(p, 0, 0.4f, 1.05f), p.y - 0.4f);
    }
}
