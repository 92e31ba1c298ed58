/* augment.c - recipes, the random parameters of a view, and the view itself.
 *
 * A view lives as three planes of bytes in the scratch: resampled from the crop (mirrored at once: later operations do not
 * distinguish left and right), changed in place, and written out once, normalised by a table per channel.
 */
#include "image/augment.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "image/effects.h"
#include "image/resample.h"
#include "util/array.h"

enum { SIZE_LIMIT = 8192, CROP_TRIES = 10 };

struct gf_augment_scratch {
    int size;
    gf_resampler resampler;
    uint8_t *planes; /* [3][size][size] */
    void *blur;
    float level[3][256]; /* normalised value of a byte */
};

/* ----- Recipes ----- */

static gf_augment plain_recipe(int size) {
    return (gf_augment){
        .size = size,
        .scale_min = 0.08,
        .scale_max = 1,
        .ratio_min = 3.0 / 4.0,
        .ratio_max = 4.0 / 3.0,
        .flip_p = 0.5,
        .mean = {0.485f, 0.456f, 0.406f},
        .std = {0.229f, 0.224f, 0.225f},
    };
}

gf_augment gf_augment_linear(int size) { return plain_recipe(size); }

gf_augment gf_augment_pretrain(int size) {
    gf_augment a = plain_recipe(size);
    a.jitter_p = 0.8;
    a.brightness = a.contrast = 0.4;
    a.saturation = 0.2;
    a.hue = 0.1;
    a.gray_p = 0.2;
    a.blur_p = size <= 64 ? 0 : 0.5;
    a.blur_min = 0.1;
    a.blur_max = 2;
    return a;
}

gf_augment gf_augment_clip(int size) {
    gf_augment a = gf_augment_pretrain(size);
    const float mean[3] = {0.48145466f, 0.4578275f, 0.40821073f}, std[3] = {0.26862954f, 0.26130258f, 0.27577711f};
    a.scale_min = 0.9;
    a.jitter_p = a.gray_p = a.blur_p = a.flip_p = 0;
    for (int k = 0; k < 3; k++) a.mean[k] = mean[k], a.std[k] = std[k];
    return a;
}

static int is_chance(double p) { return p >= 0 && p <= 1; }
static int is_strength(double x) { return x >= 0 && x <= 100; }

/* ----- Scratch ----- */

void gf_augment_levels(const gf_augment *a, float level[3][256]) {
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 256; i++) level[c][i] = ((float)i / 255.0f - a->mean[c]) / a->std[c];
}

glofnd_status gf_augment_scratch_create(gf_error *err, const gf_augment *a, gf_augment_scratch **out) {
    FAIL_IF(err, a->size < 1 || a->size > SIZE_LIMIT, GLOFND_E_OPTION, "image size is %d; it must be in [1, %d]", a->size,
            SIZE_LIMIT);
    FAIL_IF(err, !(a->scale_min > 0 && a->scale_min <= a->scale_max && a->scale_max <= 1), GLOFND_E_OPTION,
            "crop scale is [%g, %g]; it must lie in (0, 1]", a->scale_min, a->scale_max);
    FAIL_IF(err, !(a->ratio_min > 0 && a->ratio_min <= a->ratio_max && a->ratio_max <= 1000), GLOFND_E_OPTION,
            "crop ratio is [%g, %g]; it must lie in (0, 1000]", a->ratio_min, a->ratio_max);
    FAIL_IF(err, !(is_chance(a->jitter_p) && is_chance(a->gray_p) && is_chance(a->blur_p) && is_chance(a->flip_p)),
            GLOFND_E_OPTION, "jitter_p, gray_p, blur_p and flip_p must lie in [0, 1]");
    FAIL_IF(err, !(is_strength(a->brightness) && is_strength(a->contrast) && is_strength(a->saturation)), GLOFND_E_OPTION,
            "brightness, contrast and saturation must lie in [0, 100]");
    FAIL_IF(err, !(a->hue >= 0 && a->hue <= 0.5), GLOFND_E_OPTION, "hue is %g; it must lie in [0, 0.5]", a->hue);
    FAIL_IF(err, a->blur_p > 0 && !(a->blur_min > 0 && a->blur_min <= a->blur_max && a->blur_max <= GF_BLUR_MAX), GLOFND_E_OPTION,
            "blur is [%g, %g]; it must lie in (0, %g]", a->blur_min, a->blur_max, GF_BLUR_MAX);
    for (int c = 0; c < 3; c++) {
        FAIL_IF(err, !(isfinite(a->mean[c]) && isfinite(a->std[c]) && a->std[c] > 0), GLOFND_E_OPTION,
                "mean and std must be finite, std above 0");
    }
    gf_augment_scratch *x = calloc(1, sizeof *x);
    FAIL_IF(err, !x, GLOFND_E_MEMORY, "no memory for augmentation");
    x->size = a->size;
    x->planes = malloc(3 * (size_t)a->size * (size_t)a->size);
    x->blur = malloc(gf_blur_scratch(a->size, a->size, GF_BLUR_MAX));
    if (!x->planes || !x->blur) {
        gf_augment_scratch_free(x);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for augmentation of %d x %d images", a->size, a->size);
    }
    gf_augment_levels(a, x->level);
    *out = x;
    return GLOFND_OK;
}

void gf_augment_scratch_free(gf_augment_scratch *x) {
    if (!x) return;
    gf_resampler_free(&x->resampler);
    free(x->planes);
    free(x->blur);
    free(x);
}

/* ----- Drawing ----- */

/* The largest box in the middle whose ratio is allowed. */
static void central_box(const gf_augment *a, int width, int height, gf_view *v) {
    const double ratio = (double)width / height;
    v->width = width;
    v->height = height;
    if (ratio < a->ratio_min) v->height = (int)rint(width / a->ratio_min);
    if (ratio > a->ratio_max) v->width = (int)rint(height * a->ratio_max);
    v->width = v->width < 1 ? 1 : v->width > width ? width : v->width; /* very thin images */
    v->height = v->height < 1 ? 1 : v->height > height ? height : v->height;
    v->top = (height - v->height) / 2;
    v->left = (width - v->width) / 2;
}

/* The box of a random resized crop, as torchvision's RandomResizedCrop draws it. */
static void draw_box(const gf_augment *a, gf_rng *r, int width, int height, gf_view *v) {
    const double area = (double)width * height, low = log(a->ratio_min), high = log(a->ratio_max);
    for (int i = 0; i < CROP_TRIES; i++) {
        const double target = area * gf_rng_range(r, a->scale_min, a->scale_max), ratio = exp(gf_rng_range(r, low, high));
        const double w = rint(sqrt(target * ratio)), h = rint(sqrt(target / ratio));
        if (w < 1 || w > width || h < 1 || h > height) continue;
        v->width = (int)w;
        v->height = (int)h;
        v->top = (int)gf_rng_below(r, height - v->height + 1);
        v->left = (int)gf_rng_below(r, width - v->width + 1);
        return;
    }
    central_box(a, width, height, v);
}

gf_view gf_augment_draw(const gf_augment *a, gf_rng *r, int width, int height) {
    gf_view v = {.order = {-1, -1, -1, -1}};
    draw_box(a, r, width, height, &v);
    v.jitter = gf_rng_uniform(r) < a->jitter_p;
    if (v.jitter) {
        const double strength[4] = {a->brightness, a->contrast, a->saturation, a->hue};
        for (int i = 0; i < 4; i++) v.order[i] = i;
        for (int i = 3; i > 0; i--) {
            const int j = (int)gf_rng_below(r, i + 1), other = v.order[j];
            v.order[j] = v.order[i];
            v.order[i] = other;
        }
        for (int i = 0; i < 3; i++) v.factor[i] = gf_rng_range(r, fmax(0, 1 - strength[i]), 1 + strength[i]);
        v.factor[3] = gf_rng_range(r, -a->hue, a->hue);
        for (int i = 0; i < 4; i++)
            if (strength[v.order[i]] == 0) v.order[i] = -1;
    }
    v.gray = gf_rng_uniform(r) < a->gray_p;
    if (gf_rng_uniform(r) < a->blur_p) v.sigma = gf_rng_range(r, a->blur_min, a->blur_max);
    v.flip = gf_rng_uniform(r) < a->flip_p;
    return v;
}

int gf_augment_enough(const gf_augment *a) { return (int)ceil(a->size / sqrt((a->scale_min + a->scale_max) / 2)); }

gf_region gf_augment_region(const gf_augment *a, const gf_view *views, int n, int *by) {
    int left = INT_MAX, top = INT_MAX, right = 0, bottom = 0, shortest = INT_MAX;
    for (int i = 0; i < n; i++) {
        const gf_view *v = &views[i];
        left = GF_MIN(left, v->left);
        top = GF_MIN(top, v->top);
        right = GF_MAX(right, v->left + v->width);
        bottom = GF_MAX(bottom, v->top + v->height);
        shortest = GF_MIN(shortest, GF_MIN(v->width, v->height));
    }
    for (int k = 2; k <= 8 && shortest / k >= a->size; k *= 2) *by = GF_MAX(*by, k);
    return (gf_region){left, top, right - left, bottom - top};
}

/* ----- Applying ----- */

/* bytes [n][3] from the planes. */
static void write_bytes(const gf_augment_scratch *x, uint8_t *restrict bytes) {
    const size_t n = (size_t)x->size * (size_t)x->size;
    const uint8_t *restrict red = x->planes, *restrict green = red + n, *restrict blue = green + n;
    for (size_t i = 0; i < n; i++) {
        bytes[3 * i] = red[i];
        bytes[3 * i + 1] = green[i];
        bytes[3 * i + 2] = blue[i];
    }
}

/* out [n][3], normalised. */
static void write_view(const gf_augment_scratch *x, float *restrict out) {
    const size_t n = (size_t)x->size * (size_t)x->size;
    const uint8_t *restrict red = x->planes, *restrict green = red + n, *restrict blue = green + n;
    for (size_t i = 0; i < n; i++) {
        out[3 * i] = x->level[0][red[i]];
        out[3 * i + 1] = x->level[1][green[i]];
        out[3 * i + 2] = x->level[2][blue[i]];
    }
}

static glofnd_status check_scratch(gf_error *err, const gf_augment *a, const gf_augment_scratch *x, const gf_image *in) {
    FAIL_IF(err, x->size != a->size, GLOFND_E_ARGUMENT, "scratch is for images of %d pixels, the recipe asks for %d", x->size,
            a->size);
    FAIL_IF(err, in->width < 1 || in->height < 1 || in->width > GF_IMAGE_SIDE_MAX || in->height > GF_IMAGE_SIDE_MAX,
            GLOFND_E_ARGUMENT, "cannot augment an image of %d x %d pixels", in->width, in->height);
    return GLOFND_OK;
}

static glofnd_status check_view(gf_error *err, const gf_view *v, const gf_image *in) {
    const int inside = v->top >= 0 && v->left >= 0 && v->width >= 1 && v->height >= 1 && v->width <= in->width - v->left &&
                       v->height <= in->height - v->top;
    FAIL_IF(err, !inside, GLOFND_E_ARGUMENT, "crop %d x %d at %d, %d lies outside an image of %d x %d", v->width, v->height,
            v->left, v->top, in->width, in->height);
    FAIL_IF(err, !(v->sigma >= 0 && v->sigma <= GF_BLUR_MAX), GLOFND_E_ARGUMENT, "blur of %g; it must lie in [0, %g]", v->sigma,
            GF_BLUR_MAX);
    for (int i = 0; v->jitter && i < 4; i++) {
        const int which = v->order[i];
        FAIL_IF(err, which < -1 || which > 3, GLOFND_E_ARGUMENT, "operation %d of the colour jitter does not exist", which);
        if (which < 0) continue;
        const double low = which == 3 ? -0.5 : 0, high = which == 3 ? 0.5 : 101;
        FAIL_IF(err, !(v->factor[which] >= low && v->factor[which] <= high), GLOFND_E_ARGUMENT, "factor %g of the colour jitter",
                v->factor[which]);
    }
    return GLOFND_OK;
}

/* The box in pixels of a part. Reduced ones are rounded to whole pixels. */
static gf_view box_in_part(const gf_view *v, const gf_part *p) {
    gf_view in = *v;
    if (p->by == 0) return in;
    const int by = p->by, right = (v->left + v->width + by / 2) / by, bottom = (v->top + v->height + by / 2) / by;
    in.left = (v->left + by / 2) / by;
    in.top = (v->top + by / 2) / by;
    in.width = right > in.left ? right - in.left : 1;
    in.height = bottom > in.top ? bottom - in.top : 1;
    const int across = (p->full_width + by - 1) / by, down = (p->full_height + by - 1) / by;
    if (in.left + in.width > across) in.left = across - in.width; /* a last pixel that was rounded away */
    if (in.top + in.height > down) in.top = down - in.height;
    in.left -= p->left;
    in.top -= p->top;
    return in;
}

glofnd_status gf_augment_apply(gf_error *err, const gf_augment *a, const gf_view *view, const gf_image *in, gf_augment_scratch *x,
                               float *out, uint8_t *bytes) {
    const gf_view box = box_in_part(view, &in->part), *v = &box;
    TRY(check_scratch(err, a, x, in));
    TRY(check_view(err, v, in));
    const size_t stride = (size_t)in->width * 3, side = (size_t)a->size, n = side * side;
    const gf_resize job = {
        .rgb = in->rgb + (size_t)v->top * stride + (size_t)v->left * 3,
        .stride = stride,
        .width = v->width,
        .height = v->height,
        .full_width = a->size,
        .full_height = a->size,
        .out_width = a->size,
        .out_height = a->size,
        .flip = v->flip,
        .filter = a->view_filter,
        .plane = {x->planes, x->planes + n, x->planes + 2 * n},
        .pitch = side,
    };
    TRY(gf_resample(err, &x->resampler, &job));
    if (v->jitter) {
        static void (*const operation[4])(uint8_t *, size_t, double) = {gf_color_brightness, gf_color_contrast,
                                                                        gf_color_saturation, gf_color_hue};
        for (int i = 0; i < 4; i++) {
            const int which = v->order[i];
            if (which >= 0) operation[which](x->planes, n, v->factor[which]);
        }
    }
    if (v->gray) gf_color_gray(x->planes, n);
    for (size_t c = 0; v->sigma > 0 && c < 3; c++) gf_blur(x->planes + c * n, a->size, a->size, v->sigma, x->blur);
    write_view(x, out);
    if (bytes) write_bytes(x, bytes);
    return GLOFND_OK;
}

/* ----- For a device ----- */

glofnd_status gf_augment_job(gf_error *err, const gf_view *view, const gf_image *in, gf_view_job *out) {
    const gf_view box = box_in_part(view, &in->part), *v = &box;
    TRY(check_view(err, v, in));
    *out = (gf_view_job){
        .at = ((int64_t)v->top * in->width + v->left) * 3,
        .stride = in->width * 3,
        .width = v->width,
        .height = v->height,
        .factor = {(float)v->factor[0], (float)v->factor[1], (float)v->factor[2]},
        .shift = (int)(v->factor[3] * 255) & 255,
        .order = {-1, -1, -1, -1},
        .radius = -1,
        .gray = (int8_t)v->gray,
        .flip = (int8_t)v->flip,
    };
    for (int i = 0; v->jitter && i < 4; i++) out->order[i] = (int8_t)v->order[i];
    if (v->sigma > 0) {
        const gf_box b = gf_blur_box(v->sigma);
        out->radius = b.radius;
        out->inner = b.inner;
        out->outer = b.outer;
    }
    return GLOFND_OK;
}

glofnd_status gf_augment_shrink(gf_error *err, const gf_augment *a, const gf_view_job *job, const gf_image *in,
                                gf_augment_scratch *x, uint8_t *rgb) {
    const size_t side = (size_t)a->size, n = side * side;
    const gf_resize resize = {
        .rgb = in->rgb + job->at,
        .stride = (size_t)job->stride,
        .width = job->width,
        .height = job->height,
        .full_width = a->size,
        .full_height = a->size,
        .out_width = a->size,
        .out_height = a->size,
        .filter = a->view_filter,
        .plane = {x->planes, x->planes + n, x->planes + 2 * n},
        .pitch = side,
    };
    TRY(check_scratch(err, a, x, in));
    TRY(gf_resample(err, &x->resampler, &resize));
    write_bytes(x, rgb);
    return GLOFND_OK;
}

/* ----- Test time ----- */

typedef struct extent {  /* of the centre crop along one axis */
    int from, to, count; /* first pixel taken, where it goes, how many */
} extent;

static extent central(int full, int size) {
    if (full < size) return (extent){0, (size - full) / 2, full};
    return (extent){(int)rint((full - size) / 2.0), 0, size};
}

glofnd_status gf_augment_center(gf_error *err, const gf_augment *a, int resize, const gf_image *in, gf_augment_scratch *x,
                                float *out) {
    TRY(check_scratch(err, a, x, in));
    FAIL_IF(err, resize < 0 || resize > SIZE_LIMIT, GLOFND_E_ARGUMENT, "resize is %d; it must be in [0, %d]", resize, SIZE_LIMIT);
    int width = in->width, height = in->height;
    if (resize > 0 && in->width <= in->height) {
        width = resize;
        height = (int)((int64_t)resize * in->height / in->width);
    } else if (resize > 0) {
        height = resize;
        width = (int)((int64_t)resize * in->width / in->height);
    }
    const extent across = central(width, a->size), down = central(height, a->size);
    const size_t side = (size_t)a->size, n = side * side, at = (size_t)down.to * side + (size_t)across.to;
    const gf_resize job = {
        .rgb = in->rgb,
        .stride = (size_t)in->width * 3,
        .width = in->width,
        .height = in->height,
        .full_width = width,
        .full_height = height,
        .left = across.from,
        .top = down.from,
        .out_width = across.count,
        .out_height = down.count,
        .filter = a->center_filter,
        .plane = {x->planes + at, x->planes + n + at, x->planes + 2 * n + at},
        .pitch = side,
    };
    if (across.count < a->size || down.count < a->size) memset(x->planes, 0, 3 * n);
    TRY(gf_resample(err, &x->resampler, &job));
    write_view(x, out);
    return GLOFND_OK;
}
