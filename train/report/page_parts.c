/* page_parts.c - what sections of a page share: groups of runs, charts over epochs, thumbnails. See page.h. */
#include "report/page.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/captions.h"
#include "eval/split.h"
#include "plot/svg.h"
#include "util/array.h"

void gf_section_begin(gf_text *out, const char *id, const char *title, const char *lead) {
    gf_text_add(out, "<section id=\"%s\"><h2>%s</h2>\n", id, title);
    if (lead) gf_text_add(out, "<p class=\"lead\">%s</p>\n", lead);
}

void gf_section_end(gf_text *out) { gf_text_add(out, "</section>\n"); }

void gf_page_missing(gf_text *out, const char *what, const char *command) {
    gf_text_html(out, "<p class=\"none\">", what, " <code>");
    gf_text_html(out, "", command, "</code></p>\n");
}

void gf_page_name(gf_text *out, const char *name) {
    while (*name) {
        char part[600];
        const size_t end = strcspn(name, ",/_"), whole = end + (name[end] != 0);
        const size_t n = whole < sizeof part ? whole : sizeof part - 1;
        snprintf(part, sizeof part, "%.*s", (int)n, name);
        gf_text_escape(out, part);
        name += n;
        if (n == whole && *name) gf_text_add(out, "<wbr>");
    }
}

/* ----- groups ----- */

int gf_groups(const gf_report *r) { return r->compare ? r->compare->groups : r->count; }
int gf_group_of(const gf_report *r, int run) { return r->compare ? r->compare->run[run].group : run; }

static int group_size(const gf_report *r, int group) {
    int n = 0;
    for (int i = 0; i < r->count; i++) n += gf_group_of(r, i) == group;
    return n;
}

int gf_group_first(const gf_report *r, int group) {
    for (int i = 0; i < r->count; i++)
        if (gf_group_of(r, i) == group) return i;
    return 0;
}

void gf_group_name(const gf_report *r, int group, char *out, size_t bytes) {
    const int size = group_size(r, group);
    if (size > 1 && size == r->count) snprintf(out, bytes, "all %d runs", size);
    else if (size > 1) snprintf(out, bytes, "%s, %d runs", r->compare->label[group], size);
    else snprintf(out, bytes, "%s", r->runs[gf_group_first(r, group)].name);
}

const gf_snapshot *gf_group_snapshot(const gf_report *r, int group) {
    for (int i = 0; r->snapshots && i < r->count; i++)
        if (gf_group_of(r, i) == group && r->snapshots[i].made) return &r->snapshots[i];
    return NULL;
}

void gf_snapshot_class(const gf_snapshot *snapshot, int32_t label, char *out, size_t bytes) {
    const char *name = label >= 0 ? gf_dataset_class(snapshot->data, label) : NULL;
    if (name) snprintf(out, bytes, "%s", name);
    else if (label >= 0) snprintf(out, bytes, "class %d", (int)label);
    else snprintf(out, bytes, "no label");
}

void gf_snapshot_caption(const gf_snapshot *snapshot, int64_t id, char *out, size_t bytes) {
    gf_error ignored = {{0}};
    gf_sample sample = {0};
    snprintf(out, bytes, "(no caption)");
    if (gf_dataset_text(&ignored, snapshot->data, id, &sample) == GLOFND_OK && sample.text) {
        const gf_caption c = gf_caption_draw(sample.text, snapshot->seed, (uint32_t)snapshot->epochs, (uint64_t)id);
        const int cut = c.n >= bytes; /* may cut a character, which escaping repairs */
        if (c.n) snprintf(out, bytes, "%.*s%s", (int)(cut ? bytes - 8 : c.n), c.text, cut ? "…" : "");
    }
    gf_sample_free(&sample);
}

const char *gf_snapshot_name(const gf_report *r, const gf_snapshot *snapshot) { return r->runs[snapshot - r->snapshots].name; }

gf_mean_std gf_mean_of(const double *x, int n) {
    double finite[GF_PAGE_RUNS];
    int count = 0;
    for (int i = 0; i < n; i++)
        if (isfinite(x[i])) finite[count++] = x[i];
    return (gf_mean_std){gf_mean(finite, count), gf_std(finite, count), count};
}

/* Before its detector starts, a run flags nothing and lambda has its initial value: no number yet. */
static double value_at(const gf_run_log *r, gf_run_field field, int64_t epoch) {
    const glofnd_options *o = &r->config.method;
    const int flags = field >= GF_RUN_FLAGGED && field <= GF_RUN_POOLED_F1;
    const int lambda = field == GF_RUN_LAMBDA || field == GF_RUN_LAMBDA_TEXT || field == GF_RUN_LAMBDA_IMAGE;
    if ((flags && epoch < o->mask_epoch) || (lambda && epoch < o->update_epoch)) return NAN;
    if (field != GF_RUN_LAMBDA_IMAGE) return r->field[field][epoch];
    /* Mean lambda of images: runs on images have no other, and logs of earlier versions have the mean of both sides. */
    const double image = r->field[GF_RUN_LAMBDA_IMAGE][epoch], all = r->field[GF_RUN_LAMBDA][epoch];
    if (isfinite(image)) return image;
    return r->config.task == GF_TASK_CLIP ? 2.0 * all - r->field[GF_RUN_LAMBDA_TEXT][epoch] : all;
}

static gf_mean_std group_at(const gf_report *r, int group, gf_run_field field, int64_t epoch) {
    double x[GF_PAGE_RUNS];
    int n = 0;
    for (int i = 0; i < r->count; i++) {
        const int64_t at = epoch < 0 ? r->runs[i].epochs - 1 : epoch;
        if (gf_group_of(r, i) == group && at >= 0 && at < r->runs[i].epochs) x[n++] = value_at(&r->runs[i], field, at);
    }
    return gf_mean_of(x, n);
}

gf_mean_std gf_group_last(const gf_report *r, int group, gf_run_field field) { return group_at(r, group, field, -1); }

/* ----- configuration ----- */

int gf_learns_lambda(const gf_run_log *r) { return gf_learns_thresholds(&r->config.method); }

int gf_is_labelled(const gf_report *r) {
    for (int i = 0; i < r->count; i++)
        if (r->runs[i].labelled) return 1;
    return 0;
}

int gf_has_detector(const gf_run_log *r) { return r->config.method.detector != GLOFND_DETECT_NONE; }

int gf_is_clip(const gf_report *r) { return r->runs[0].config.task == GF_TASK_CLIP; }

void gf_page_value(const gf_run_log *r, const char *key, char *out, size_t bytes) {
    int in_method;
    snprintf(out, bytes, "-");
    for (int i = 0;; i++) {
        const gf_option *o = gf_config_option(i, &in_method);
        if (!o) return;
        if (strcmp(o->key, key) == 0) gf_option_format(o, in_method ? (const void *)&r->config.method : &r->config, out, bytes);
    }
}

/* ----- charts over epochs ----- */

void gf_epoch_chart(gf_text *out, const gf_report *r, gf_run_field field, int (*shown)(const gf_run_log *),
                    const gf_chart *form) {
    gf_series series[GF_PAGE_RUNS];
    char name[GF_PAGE_RUNS][320];
    double *curve[GF_PAGE_RUNS];
    gf_chart c = *form;
    for (int g = 0; g < gf_groups(r); g++) {
        if (shown && !shown(&r->runs[gf_group_first(r, g)])) continue;
        int64_t epochs = 0;
        for (int i = 0; i < r->count; i++)
            if (gf_group_of(r, i) == g && r->runs[i].epochs > epochs) epochs = r->runs[i].epochs;
        /* Mean of the group, and one standard deviation below and above it. */
        double *mean = curve[c.count] = malloc((size_t)(3 * epochs + 1) * sizeof *mean);
        out->failed |= !mean;
        for (int64_t e = 0; mean && e < epochs; e++) {
            const gf_mean_std m = group_at(r, g, field, e);
            const double std = isfinite(m.std) ? m.std : 0.0;
            mean[e] = m.mean, mean[epochs + e] = m.mean - std, mean[2 * epochs + e] = m.mean + std;
        }
        gf_group_name(r, g, name[c.count], sizeof name[0]);
        series[c.count] = (gf_series){.name = name[c.count], .y = mean, .n = mean ? epochs : 0, .colour = g};
        if (mean && group_size(r, g) > 1) series[c.count].low = mean + epochs, series[c.count].high = mean + 2 * epochs;
        c.count++;
    }
    c.series = series;
    c.x_name = "epoch";
    gf_svg_chart(out, &c);
    for (int s = 0; s < c.count; s++) free(curve[s]);
}

/* ----- thumbnails, images of samples, sprite sheets ----- */

/* `length` scaled as the longer side of an image is to `side`. */
static int scaled(int length, int longer, int side) {
    const int64_t x = ((int64_t)length * side + longer / 2) / longer;
    return x > 0 ? (int)x : 1;
}

/* t->small = the centre of m, width x height pixels of it, as out_width x out_height. */
static glofnd_status resize_centre(gf_error *err, gf_thumbnails *t, const gf_image *m, int width, int height, int out_width,
                                   int out_height) {
    const size_t plane = (size_t)t->side * (size_t)t->side;
    const int left = (m->width - width) / 2, top = (m->height - height) / 2;
    if (!t->planes) t->planes = malloc(3 * plane);
    FAIL_IF(err, !t->planes, GLOFND_E_MEMORY, "no memory for a thumbnail");
    TRY(gf_image_resize(err, &t->small, out_width, out_height));
    const gf_resize job = {
        .rgb = m->rgb + 3 * ((size_t)top * (size_t)m->width + (size_t)left),
        .stride = 3 * (size_t)m->width,
        .width = width,
        .height = height,
        .full_width = out_width,
        .full_height = out_height,
        .out_width = out_width,
        .out_height = out_height,
        .plane = {t->planes, t->planes + plane, t->planes + 2 * plane},
        .pitch = (size_t)out_width,
    };
    TRY(gf_resample(err, &t->resampler, &job));
    for (size_t i = 0; i < (size_t)out_width * (size_t)out_height; i++)
        for (size_t c = 0; c < 3; c++) t->small.rgb[3 * i + c] = t->planes[c * plane + i];
    return GLOFND_OK;
}

glofnd_status gf_thumbnail_scale(gf_error *err, gf_thumbnails *t, const gf_image *m, const gf_image **small) {
    const int longer = GF_MAX(m->width, m->height), shorter = GF_MIN(m->width, m->height);
    FAIL_IF(err, shorter < 1 || t->side < 1 || t->side > GF_IMAGE_SIDE_MAX, GLOFND_E_ARGUMENT,
            "no thumbnail of %d pixels of an image of %d x %d", t->side, m->width, m->height);
    *small = m;
    if (t->square && shorter < t->side) {
        /* The centre square, enlarged: pixels stay squares, as smoothing would invent what is not there. */
        const int left = (m->width - shorter) / 2, top = (m->height - shorter) / 2;
        TRY(gf_image_resize(err, &t->small, t->side, t->side));
        for (int y = 0; y < t->side; y++)
            for (int x = 0; x < t->side; x++) {
                const size_t from_x = (size_t)left + (size_t)x * (size_t)shorter / (size_t)t->side;
                const size_t from_y = (size_t)top + (size_t)y * (size_t)shorter / (size_t)t->side;
                memcpy(t->small.rgb + 3 * ((size_t)y * (size_t)t->side + (size_t)x),
                       m->rgb + 3 * (from_y * (size_t)m->width + from_x), 3);
            }
    } else if (t->square) TRY(resize_centre(err, t, m, shorter, shorter, t->side, t->side));
    else if (longer <= t->side) return GLOFND_OK;
    else
        TRY(resize_centre(err, t, m, m->width, m->height, scaled(m->width, longer, t->side), scaled(m->height, longer, t->side)));
    *small = &t->small;
    return GLOFND_OK;
}

glofnd_status gf_thumbnail_jpeg(gf_error *err, gf_thumbnails *t, const gf_image *m, uint8_t **jpeg, size_t *bytes) {
    const gf_image *small = NULL;
    TRY(gf_thumbnail_scale(err, t, m, &small));
    return gf_image_encode_jpeg(err, small, t->quality, jpeg, bytes);
}

void gf_thumbnails_free(gf_thumbnails *t) {
    gf_resampler_free(&t->resampler);
    gf_image_free(&t->small);
    free(t->planes);
    *t = (gf_thumbnails){0};
}

/* A small JPEG of the sample, or a PNG in a build without libjpeg; 0: unreadable. */
static int encode_thumbnail(gf_page_images *p, int64_t id) {
    gf_error err = {{0}};
    p->type = "jpeg";
    if (gf_dataset_read(&err, p->data, id, NULL, &p->sample) != GLOFND_OK) return 0;
    const glofnd_status status = gf_thumbnail_jpeg(&err, &p->thumbnails, &p->sample.image, &p->bytes, &p->size);
    if (status == GLOFND_OK) return 1;
    const gf_image *image = p->thumbnails.small.rgb ? &p->thumbnails.small : &p->sample.image;
    p->type = "png";
    return status == GLOFND_E_UNSUPPORTED && gf_image_encode_png(&err, image, &p->bytes, &p->size) == GLOFND_OK;
}

int gf_page_image_load(gf_page_images *p, int64_t id) {
    free(p->bytes);
    p->bytes = NULL;
    const int fits = encode_thumbnail(p, id) && GF_BASE64_BYTES(p->size) <= *p->budget;
    if (fits) *p->budget -= GF_BASE64_BYTES(p->size);
    else p->left_out++;
    return fits;
}

void gf_page_image_write(gf_text *out, const gf_page_images *p) {
    gf_text_add(out, "data:image/%s;base64,", p->type);
    gf_text_base64(out, p->bytes, p->size);
}

void gf_page_images_free(gf_page_images *p) {
    free(p->bytes);
    gf_thumbnails_free(&p->thumbnails);
    gf_sample_free(&p->sample);
}

glofnd_status gf_sprite_sheet_init(gf_error *err, gf_sprite_sheet *s, int side, int columns, int rows) {
    s->side = side, s->columns = columns, s->rows = rows, s->count = 0;
    TRY(gf_image_resize(err, &s->image, columns * side, rows * side));
    memset(s->image.rgb, 128 /* grey */, 3 * (size_t)s->image.width * (size_t)s->image.height);
    return GLOFND_OK;
}

void gf_sprite_sheet_add(gf_sprite_sheet *s, const gf_image *thumbnail) {
    const int64_t tile = s->count++;
    assert(tile < (int64_t)s->columns * s->rows);
    if (!thumbnail) return;
    const int64_t left = tile % s->columns * s->side + (s->side - thumbnail->width) / 2;
    const int64_t top = tile / s->columns * s->side + (s->side - thumbnail->height) / 2;
    const size_t row = 3 * (size_t)thumbnail->width;
    for (int y = 0; y < thumbnail->height; y++)
        memcpy(s->image.rgb + 3 * ((top + y) * s->image.width + left), thumbnail->rgb + (size_t)y * row, row);
}

void gf_sprite_sheet_free(gf_sprite_sheet *s) {
    gf_image_free(&s->image);
    *s = (gf_sprite_sheet){0};
}

glofnd_status gf_sprite_sheet_of_samples(gf_error *err, const gf_dataset *data, const int64_t *id, int64_t n, int side,
                                         int quality, uint8_t **jpeg, size_t *bytes) {
    gf_thumbnails thumbnails = {.side = side, .square = 1};
    gf_sprite_sheet sheet = {0};
    gf_sample sample = {0};
    gf_error ignored = {{0}};
    glofnd_status status =
        gf_sprite_sheet_init(err, &sheet, side, GF_SPRITE_COLUMNS, (int)((n + GF_SPRITE_COLUMNS - 1) / GF_SPRITE_COLUMNS));
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        const gf_image *thumbnail = NULL;
        if (gf_dataset_read(&ignored, data, id[i], NULL, &sample) == GLOFND_OK)
            status = gf_thumbnail_scale(err, &thumbnails, &sample.image, &thumbnail);
        gf_sprite_sheet_add(&sheet, thumbnail);
    }
    if (status == GLOFND_OK) status = gf_image_encode_jpeg(err, &sheet.image, quality, jpeg, bytes);
    gf_sprite_sheet_free(&sheet);
    gf_thumbnails_free(&thumbnails);
    gf_sample_free(&sample);
    return status;
}
