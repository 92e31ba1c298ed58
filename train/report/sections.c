/* sections.c - the sections of a report, in the order of the page; see page.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/detectors.h"
#include "plot/maps.h"
#include "plot/svg.h"
#include "report/compare.h"
#include "report/page.h"
#include "util/array.h"

enum { POINTS = 160, CHART_RUNS = 12 }; /* points of a curve, curves of a chart, at most */

/* ----- the first figure: all other images by their similarity to one image, and its learned threshold ----- */

/* Layout in the view box. The figure exists twice, for wide and for narrow windows; its images exist once. */
typedef struct layout {
    const char *class;
    int width, height, left, right, top, bottom; /* of the plot area */
    int side;                                    /* of images */
    int each;                                    /* 1: every image, 2: every second */
    int note;                                    /* width of the text on a side of the threshold */
} layout;

static const layout layouts[2] = {
    {"broad", 900, 330, 52, 892, 112, 268, 54, 1, 150},
    {"slim", 400, 380, 42, 394, 118, 322, 56, 2, 140},
};

typedef struct example {
    gf_text *out;
    const gf_snapshot *snapshot;
    const gf_view_set *rows;
    const gf_gallery_anchor *anchor;
    const gf_similarity_profile *profile;
    const layout *at;
    double max;                     /* of the y axis */
    int labelled;                   /* the anchor has a label */
    int drawn[GF_GALLERY_EXAMPLES]; /* the image was loaded */
    gf_page_images images;
} example;

static double x_of(const example *s, double similarity) {
    const gf_similarity_profile *p = s->profile;
    return s->at->left + (similarity - p->low) / (p->high - p->low) * (s->at->right - s->at->left);
}

static double y_of(const example *s, double count) { return s->at->bottom - count / s->max * (s->at->bottom - s->at->top); }

/* Shaded side of the threshold whose pairs are left out, and the texts of both sides. */
static void example_threshold(const example *s) {
    const layout *f = s->at;
    const double at = fmax(f->left, x_of(s, (double)s->anchor->lambda));
    const double left = fmax(fmin(at - 10.0, f->right - f->note - 20.0), f->left + f->note - 20.0);
    const double right = fmax(fmin(at + 10.0, f->right - f->note), left + 12.0);
    const gf_flagged_samples *by = &s->anchor->by[0];
    gf_text_add(s->out, "<rect class=\"beyond\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", at, f->side + 8,
                f->right - at, f->bottom - f->side - 8);
    gf_text_add(s->out, "<path class=\"level\" d=\"M%.1f %dV%d\"/>\n", at, f->side + 8, f->bottom);
    gf_text_add(s->out, "<text class=\"name halo\" x=\"%.1f\" y=\"%d\" text-anchor=\"end\">pushed apart: %lld ←</text>\n", left,
                f->side + 26, (long long)(s->profile->others - by->count));
    gf_text_add(s->out, "<text class=\"name halo\" x=\"%.1f\" y=\"%d\" text-anchor=\"end\">learned λ = %.2f</text>\n", left,
                f->side + 48, (double)s->anchor->lambda);
    gf_text_add(s->out, "<text class=\"name halo\" x=\"%.1f\" y=\"%d\">→ <tspan class=\"strong\">left out: %lld</tspan>", right,
                f->side + 26, (long long)by->count);
    if (s->labelled)
        gf_text_add(s->out, "<tspan x=\"%.1f\" dy=\"22\">%lld of the same class</tspan>", right + 17.0, (long long)by->right);
    gf_text_add(s->out, "</text>\n");
}

static void example_axes(const example *s) {
    const gf_similarity_profile *l = s->profile;
    const layout *f = s->at;
    const double x_step = gf_tick_step(l->low, l->high, 8), y_step = gf_tick_step(0.0, s->max, 4);
    for (double y = 0.0; y <= s->max * 1.001; y += y_step) {
        gf_text_add(s->out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", f->left, y_of(s, y), f->right);
        gf_text_add(s->out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", f->left - 7,
                    y_of(s, y) + 4.0, y);
    }
    for (double x = ceil(l->low / x_step - 1e-9) * x_step; x <= l->high + 1e-9; x += x_step) {
        gf_text_add(s->out, "<path class=\"axis\" d=\"M%.1f %dv4\"/>", x_of(s, x), f->bottom);
        gf_text_add(s->out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.*f</text>\n", x_of(s, x),
                    f->bottom + 19, x_step < 0.095 ? 2 : 1, fabs(x) < 1e-9 ? 0.0 : x);
    }
    gf_text_add(s->out, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", f->left, f->bottom, f->right);
    gf_text_add(s->out, "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">cosine similarity to the image</text>\n",
                (f->left + f->right) / 2, f->height - 16);
    gf_text_add(s->out, "<text class=\"name\" x=\"0\" y=\"%d\">images</text>\n", f->top - 14);
}

/* Other images at their similarity. */
static void example_images(const example *s) {
    const layout *f = s->at;
    for (int k = f->each / 2; k < GF_GALLERY_EXAMPLES; k += f->each) {
        const int64_t row = s->profile->row[k];
        const double left = f->left + (k + 0.5) * (f->right - f->left) / GF_GALLERY_EXAMPLES - 0.5 * f->side;
        const double x = fmin(left, f->right - f->side);
        char name[200];
        if (!s->drawn[k]) continue;
        gf_snapshot_class(s->snapshot, s->rows->label[row], name, sizeof name);
        gf_text_add(s->out,
                    "<path class=\"grid\" d=\"M%.1f %dV%d\"/><use x=\"%.1f\" width=\"%d\" height=\"%d\" "
                    "href=\"#example-%d\"><title>",
                    x_of(s, (double)s->profile->similarity[k]), f->side, f->bottom, x, f->side, f->side, k);
        gf_text_escape(s->out, name);
        gf_text_add(s->out, ", similarity %.3f</title></use>\n", (double)s->profile->similarity[k]);
        if (s->labelled && s->rows->label[row] == s->rows->label[s->anchor->row])
            gf_text_add(s->out, "<rect class=\"frame c%d\" x=\"%.1f\" y=\"1.5\" width=\"%d\" height=\"%d\" rx=\"3\"/>\n",
                        GF_COLOUR_GLOFND, x, f->side, f->side - 3);
    }
}

/* Anchor with the largest share of correct flags, of those with at least three; without labels the first. */
static const gf_gallery_anchor *choose_anchor(const gf_snapshot_side *s) {
    const gf_gallery_anchor *best = NULL;
    double max = -1.0;
    for (int i = 0; i < s->anchors; i++) {
        const gf_flagged_samples *f = &s->anchor[i].by[0];
        const double share = f->count ? (double)f->right / (double)f->count : 0.0;
        if (isnan(s->anchor[i].lambda) || !s->anchor[i].profile.others || f->count < 3 || share <= max) continue;
        best = &s->anchor[i], max = share;
    }
    return best;
}

/* Bars of the histogram: same class below, others above. */
static void example_bars(const example *s) {
    const gf_similarity_profile *p = s->profile;
    const double step = (double)(s->at->right - s->at->left) / GF_GALLERY_BINS, part = (p->high - p->low) / GF_GALLERY_BINS;
    for (int b = 0; b < GF_GALLERY_BINS; b++) {
        const double x = s->at->left + b * step + 0.5, same = y_of(s, (double)p->same[b]), all = y_of(s, (double)p->all[b]);
        if (!p->all[b]) continue;
        gf_text_add(s->out, "<g><title>similarity %.2f to %.2f: %lld images", p->low + b * part, p->low + (b + 1) * part,
                    (long long)p->all[b]);
        if (s->labelled) gf_text_add(s->out, ", %lld of the same class", (long long)p->same[b]);
        gf_text_add(s->out, "</title><rect class=\"rest\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", x, all,
                    step - 1.0, same - all);
        if (p->same[b])
            gf_text_add(s->out, "<rect class=\"f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", GF_COLOUR_GLOFND, x,
                        same, step - 1.0, s->at->bottom - same);
        gf_text_add(s->out, "</g>\n");
    }
}

/* figure of the introduction; needs a snapshot */
static void section_example(gf_text *out, const gf_report *r, int group) {
    const gf_snapshot *snapshot = group < 0 ? NULL : gf_group_snapshot(r, group);
    const gf_gallery_anchor *a = snapshot && !snapshot->clip ? choose_anchor(&snapshot->side[0]) : NULL;
    size_t budget = GF_PAGE_IMAGES;
    if (!a) return;
    gf_plot_area plane = {0.0, 1.0, 0.0, 1.0};
    for (int b = 0; b < GF_GALLERY_BINS; b++) plane.y1 = fmax(plane.y1, (double)a->profile.all[b]);
    gf_plot_area_round(&plane);
    const int choice = snapshot->side[0].anchors;
    example s = {.out = out,
                 .snapshot = snapshot,
                 .rows = snapshot->side[0].rows,
                 .anchor = a,
                 .profile = &a->profile,
                 .max = plane.y1,
                 .labelled = snapshot->side[0].rows->label[a->row] >= 0,
                 .images = {.data = snapshot->data, .thumbnails = {.side = 64, .quality = 82}, .budget = &budget}};
    gf_text_add(out,
                "<figure class=\"example\"><figcaption>One image compared with %lld others</figcaption>\n<p class=\"note\">"
                "Every other image is placed by its similarity to this image. Images right of the learned threshold λ "
                "count as false negatives and are left out of its loss.",
                (long long)a->profile.others);
    if (s.labelled && choice > 1)
        gf_text_add(out, " Of the %d anchors below, this one has the largest share of correct flags.", choice);
    gf_text_add(out, "</p>\n");
    if (s.labelled) {
        char name[200], key[220], class[8];
        gf_snapshot_class(snapshot, s.rows->label[a->row], name, sizeof name);
        snprintf(key, sizeof key, "same class: %s", name);
        snprintf(class, sizeof class, "f%d", GF_COLOUR_GLOFND);
        gf_text_add(out, "<p class=\"legend\">");
        gf_svg_key(out, class, key);
        gf_svg_key(out, "rest", "other classes");
        gf_text_add(out, "<span class=\"faint\">Labels serve this comparison, not training.</span></p>\n");
    }
    /* Images, shared by both layouts. */
    gf_text_add(out, "<svg class=\"store\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\n");
    for (int k = 0; k < GF_GALLERY_EXAMPLES; k++) {
        const int64_t row = a->profile.row[k];
        if (row < 0 || !gf_page_image_load(&s.images, s.rows->id[row])) continue;
        s.drawn[k] = 1;
        gf_text_add(out,
                    "<symbol id=\"example-%d\" viewBox=\"0 0 1 1\"><image width=\"1\" height=\"1\" "
                    "preserveAspectRatio=\"xMidYMid slice\" href=\"",
                    k);
        gf_page_image_write(out, &s.images);
        gf_text_add(out, "\"/></symbol>\n");
    }
    gf_text_add(out, "</defs></svg>\n<div class=\"scene\">");
    if (gf_page_image_load(&s.images, s.rows->id[a->row])) {
        gf_text_add(out, "<div class=\"pic anchor\"><img alt=\"the image\" src=\"");
        gf_page_image_write(out, &s.images);
        gf_text_add(out, "\"></div>\n");
    }
    for (s.at = layouts; s.at < layouts + 2; s.at++) {
        gf_text_add(out,
                    "<svg class=\"%s\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"similarities of all other images to one "
                    "image\">\n",
                    s.at->class, s.at->width, s.at->height);
        example_axes(&s);
        example_images(&s);
        example_bars(&s);
        example_threshold(&s);
        gf_text_add(out, "</svg>\n");
    }
    gf_text_add(out, "</div></figure>\n");
    gf_page_images_free(&s.images);
}

/* ----- title, introduction and main numbers of a page ----- */

/* Group of the main numbers: the first with learned thresholds and flagged pairs, else with any detector; -1: none. */
static int main_group(const gf_report *r) {
    for (int wanted = 0; wanted < 2; wanted++)
        for (int g = 0; g < gf_groups(r); g++) {
            const gf_run_log *run = &r->runs[gf_group_first(r, g)];
            if (!(wanted ? gf_has_detector(run) : gf_learns_lambda(run))) continue;
            if (gf_group_last(r, g, GF_RUN_FLAGGED).mean > 0.0) return g;
        }
    return -1;
}

static void add_tile(gf_text *out, const char *number, const char *text) {
    gf_text_add(out, "<div class=\"tile\"><b>%s</b><span>", number);
    gf_text_html(out, "", text, "</span></div>\n");
}

static double score_of(const gf_report *r, const gf_score *s, int g) {
    double x[GF_PAGE_RUNS];
    int n = 0;
    for (int i = 0; i < r->count; i++)
        if (gf_group_of(r, i) == g) x[n++] = gf_score_of(s, &r->runs[i], 0);
    return gf_mean_of(x, n).mean;
}

static void tiles(gf_text *out, const gf_report *r, int g) {
    char number[64], text[700], first[320], what[200];
    const double flagged = gf_group_last(r, g, GF_RUN_FLAGGED).mean, per_anchor = gf_group_last(r, g, GF_RUN_PRECISION).mean,
                 precision = gf_group_last(r, g, GF_RUN_POOLED_PRECISION).mean;
    const double right = isfinite(per_anchor) ? precision : NAN; /* correct share of the flagged pairs; NaN: no labels */
    /* Share of all pairs with the same class: flagged * precision = hits = same-class * recall. */
    const double chance = flagged * precision / gf_group_last(r, g, GF_RUN_POOLED_RECALL).mean;
    const gf_run_log *run = &r->runs[gf_group_first(r, g)];
    gf_text_add(out, "<div class=\"tiles\">\n");
    snprintf(number, sizeof number, "%.3g\u00a0%%", flagged);
    snprintf(text, sizeof text, "of all pairs were flagged in the last epoch; the target α is %g %%",
             100.0 * (double)run->config.method.alpha);
    add_tile(out, number, text);
    if (isfinite(right)) {
        snprintf(number, sizeof number, "%.0f\u00a0%%", right);
        snprintf(
            text, sizeof text,
            "of the flagged pairs have the same class; mean over anchors, as the paper counts: %.0f\u00a0%% (labels serve this "
            "measurement, not training)",
            per_anchor);
        add_tile(out, number, text);
    }
    if (isfinite(right / chance)) {
        snprintf(number, sizeof number, "%.1f×", right / chance);
        snprintf(text, sizeof text, "the rate of random pairs, of which %.3g %% have the same class", chance);
        add_tile(out, number, text);
    }
    /* Score of the table of runs, and that of the first group, if measured. */
    const gf_score s = gf_score_choose(r);
    const double score = score_of(r, &s, g), base = score_of(r, &s, 0);
    if (isfinite(score)) {
        if (s.retrieval) snprintf(what, sizeof what, "mean recall at 1, 5 and 10 of image-text retrieval");
        else if (isfinite(s.like->k))
            snprintf(what, sizeof what, "of test images are classified correctly by their %.10g nearest neighbours", s.like->k);
        else snprintf(what, sizeof what, "of test images are classified correctly by nearest neighbours");
        snprintf(number, sizeof number, "%.1f\u00a0%%", score);
        gf_group_name(r, 0, first, sizeof first);
        if (g > 0 && isfinite(base)) snprintf(text, sizeof text, "%s; %.1f\u00a0%% with %s", what, base, first);
        else snprintf(text, sizeof text, "%s", what);
        add_tile(out, number, text);
    }
    gf_text_add(out, "</div>\n");
}

/* The value, or the number of different values. */
static void value_or_count(gf_text *out, const gf_report *r, const char *key, const char *several, int code) {
    char mine[1100], other[1100];
    int count = 0; /* of different values */
    for (int i = 0; i < r->count; i++) {
        int known = 0;
        gf_page_value(&r->runs[i], key, mine, sizeof mine);
        for (int k = 0; k < i && !known; k++) {
            gf_page_value(&r->runs[k], key, other, sizeof other);
            known = strcmp(mine, other) == 0;
        }
        count += !known;
    }
    if (count > 1) {
        gf_text_add(out, "%d %s", count, several);
        return;
    }
    gf_page_value(&r->runs[0], key, mine, sizeof mine);
    gf_text_html(out, code ? "<code>" : "", *mine ? mine : "-", code ? "</code>" : "");
}

static const char intro_of_images[] =
    "Contrastive learning pushes all pairs of different images apart, even two images of the same "
    "thing: <b>false negatives</b>. GloFND learns a similarity threshold λ for each image. Pairs "
    "above it count as false negatives and are left out of the loss.";
static const char intro_of_pairs[] =
    "Image-text training pushes every image away from the captions of all other images, even from "
    "captions that fit it: <b>false negatives</b>. GloFND learns a similarity threshold λ for each "
    "image and each caption. Pairs above it count as false negatives and are left out of the loss.";

void gf_section_header(gf_text *out, const gf_report *r) {
    static const char *const links[][2] = {
        {"found", "Flagged samples"},
        {"results", "Results"},
        {"detection", "Detection"},
        {"thresholds", "Thresholds"},
        {"maps", "Maps"},
        {"labels", "Features"},
        {"training", "Training"},
        {"cost", "Time and memory"},
        {"config", "Configuration"},
    };
    const int g = main_group(r);
    gf_text_add(out, "<header><div><h1>");
    if (r->count == 1) gf_text_escape(out, r->runs[0].name);
    else gf_text_add(out, "Comparison of %d pretraining runs", r->count);
    gf_text_add(out, "</h1>\n<p class=\"faint\">");
    value_or_count(out, r, "arch", "architectures", 0);
    /* "batch 32, 3 epochs", or ranges over the runs. */
    int64_t batch[2] = {INT64_MAX, 0}, epochs[2] = {INT64_MAX, 0};
    for (int i = 0; i < r->count; i++) {
        const gf_config *c = &r->runs[i].config;
        if (c->batch < batch[0]) batch[0] = c->batch;
        if (c->batch > batch[1]) batch[1] = c->batch;
        if (c->epochs < epochs[0]) epochs[0] = c->epochs;
        if (c->epochs > epochs[1]) epochs[1] = c->epochs;
    }
    gf_text_add(out, ", batch %lld", (long long)batch[0]);
    if (batch[1] > batch[0]) gf_text_add(out, " to %lld", (long long)batch[1]);
    gf_text_add(out, ", %lld", (long long)epochs[0]);
    if (epochs[1] > epochs[0]) gf_text_add(out, " to %lld", (long long)epochs[1]);
    gf_text_add(out, " epoch%s", epochs[1] == 1 ? "" : "s");
    gf_text_add(out, " on ");
    value_or_count(out, r, "data", "datasets", 1);
    gf_text_add(out, "</p></div>\n<button id=\"theme\" type=\"button\" hidden></button></header>\n");
    for (int i = 0; i < r->count; i++) {
        const gf_run_log *x = &r->runs[i];
        if (x->finished || x->epochs >= x->config.epochs) continue;
        gf_text_html(out, "<p><span class=\"badge\">", x->name, "");
        gf_text_add(out, " is not finished: epoch %lld of %d</span></p>\n", (long long)x->epochs, (int)x->config.epochs);
    }
    gf_text_add(out, "<p class=\"intro\">%s", gf_is_clip(r) ? intro_of_pairs : intro_of_images);
    if (g >= 0) {
        char name[320];
        gf_group_name(r, g, name, sizeof name);
        gf_text_html(out, " Results of <b>", name, "</b>:</p>\n");
    } else {
        gf_text_add(out, " No pair has been flagged%s", gf_has_detector(&r->runs[0]) ? " yet" : ": there is no detector");
        if (gf_has_detector(&r->runs[0]) && r->runs[0].epochs <= r->runs[0].config.method.mask_epoch)
            gf_text_add(out, ": detection starts in epoch %d", (int)r->runs[0].config.method.mask_epoch + 1);
        gf_text_add(out, ".</p>\n");
    }
    section_example(out, r, g);
    if (g >= 0) tiles(out, r, g);
    gf_text_add(out, "<nav>");
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        gf_text_add(out, "<a href=\"#%s\">%s</a>", links[i][0], links[i][1]);
    gf_text_add(out, "</nav>\n");
}

/* ----- anchors and the samples flagged for them, as images or as captions ----- */

typedef struct gallery {
    gf_text *out;
    const gf_snapshot *snapshot;
    int side;
    const gf_view_set *rows; /* of the side */
    gf_page_images images;
} gallery;

enum { ANCHOR = 0, CORRECT = 1, WRONG = -1, UNKNOWN = 2 };

static const char *class_of(int kind) { return kind == ANCHOR ? "anchor" : kind == CORRECT ? "yes" : kind == WRONG ? "no" : ""; }

static const char *mark_of(int kind) { return kind == CORRECT ? "<span>✓</span>" : kind == WRONG ? "<span>✗</span>" : ""; }

static void gallery_image(gallery *a, int64_t row, int kind, float similarity) {
    char name[200];
    if (!gf_page_image_load(&a->images, a->rows->id[row])) return;
    gf_snapshot_class(a->snapshot, a->rows->label[row], name, sizeof name);
    gf_text_add(a->out, "<div class=\"pic %s\"><img alt=\"", class_of(kind));
    gf_text_html(a->out, "", name, "\" title=\"");
    gf_text_escape(a->out, name);
    if (isfinite(similarity)) gf_text_add(a->out, ", similarity %.3f", (double)similarity);
    gf_text_add(a->out, "\" src=\"");
    gf_page_image_write(a->out, &a->images);
    gf_text_add(a->out, "\">%s</div>", mark_of(kind));
}

static void gallery_caption(gallery *a, int64_t row, int kind, float similarity) {
    char text[240];
    gf_snapshot_caption(a->snapshot, a->rows->id[row], text, sizeof text);
    gf_text_add(a->out, "<p class=\"caption %s\"", class_of(kind));
    if (isfinite(similarity)) gf_text_add(a->out, " title=\"similarity %.3f\"", (double)similarity);
    gf_text_add(a->out, ">%s", mark_of(kind));
    gf_text_html(a->out, "", text, "</p>");
}

static void gallery_of_side(gf_text *out, const gf_snapshot *l, int side, size_t *budget) {
    const gf_snapshot_side *s = &l->side[side];
    gallery a = {.out = out,
                 .snapshot = l,
                 .side = side,
                 .rows = s->rows,
                 .images = {.data = l->data, .thumbnails = {.side = 64, .quality = 82}, .budget = budget}};
    if (!s->anchors) return;
    if (l->clip)
        gf_text_add(out, "<p>%s</p>\n",
                    side ? "Captions, and images flagged as matching:" : "Images, and captions flagged as matching:");
    gf_text_add(out, "<div class=\"rows\">\n");
    for (const gf_gallery_anchor *x = s->anchor; x < s->anchor + s->anchors; x++) {
        const int32_t label = a.rows->label[x->row];
        char name[200];
        gf_text_add(a.out, "<div class=\"row\"><div><p>anchor");
        if (label >= 0) {
            gf_snapshot_class(a.snapshot, label, name, sizeof name);
            gf_text_html(a.out, ": ", name, "");
        }
        gf_text_add(a.out, "</p>");
        (a.side ? gallery_caption : gallery_image)(&a, x->row, ANCHOR, NAN);
        if (a.snapshot->clip) { /* the other side of the sample */
            gf_text_add(a.out, "<p class=\"own\">its own %s:</p>", a.side ? "image" : "caption");
            (a.side ? gallery_image : gallery_caption)(&a, x->row, UNKNOWN, NAN);
        }
        gf_text_add(a.out, "</div>");
        for (int d = 0; d < 2; d++) {
            const gf_flagged_samples *f = &x->by[d];
            const int as_text = a.snapshot->clip && a.side == 0;
            gf_text_add(a.out, "<div><p><b>%s</b>", d ? "FNC" : "GloFND");
            if (d == 0 && isnan(x->lambda)) gf_text_add(a.out, ": no threshold learned");
            else if (label >= 0) gf_text_add(a.out, ": %lld flagged, %lld correct", (long long)f->count, (long long)f->right);
            else gf_text_add(a.out, ": %lld flagged", (long long)f->count);
            if (d == 0 && isfinite(x->lambda)) gf_text_add(a.out, " (λ = %.3f)", (double)x->lambda);
            gf_text_add(a.out, "</p><div class=\"%s\">", as_text ? "captions" : "strip");
            for (int k = 0; k < f->shown; k++) {
                const int kind = label < 0 ? UNKNOWN : label == a.rows->label[f->row[k]] ? CORRECT : WRONG;
                (as_text ? gallery_caption : gallery_image)(&a, f->row[k], kind, f->similarity[k]);
            }
            gf_text_add(a.out, "</div></div>");
        }
        gf_text_add(a.out, "</div>\n");
    }
    gf_text_add(out, "</div>\n");
    if (a.images.left_out)
        gf_text_add(out, "<p class=\"faint\">%d images are left out: unreadable, or over the limit of %zu kB.</p>\n",
                    a.images.left_out, GF_PAGE_IMAGES / 1000);
    gf_page_images_free(&a.images);
}

/* Groups with learned thresholds come first. */
static int gallery_rank(const gf_snapshot *l) { return l && l->side[0].anchors ? (l->side[0].learned ? 2 : 1) : 0; }

static void gallery_of(gf_text *out, const gf_report *r, int g, size_t *budget, int folded) {
    const gf_snapshot *l = gf_group_snapshot(r, g);
    gf_text_html(out, folded ? "<details><summary>Network of " : "<h3>Network of ", gf_snapshot_name(r, l),
                 folded ? "</summary>\n" : "</h3>\n");
    for (int s = 0; s < l->sides; s++) gallery_of_side(out, l, s, budget);
    if (folded) gf_text_add(out, "</details>\n");
}

static const char gallery_of_images[] =
    "Random anchor images, and images that a detector flags as false negatives of the anchor, with the trained network. GloFND "
    "flags images above the learned threshold λ of the anchor; FNC flags a fixed share of every batch. Each row has a random "
    "selection of the flagged images.";
static const char gallery_of_pairs[] =
    "Random anchors, and captions or images of other samples that a detector flags as false negatives of the anchor, with the "
    "trained network. GloFND flags those above the learned threshold λ of the anchor; FNC flags a fixed share of every batch. "
    "Each row has a random selection of the flagged captions or images.";

void gf_section_gallery(gf_text *out, const gf_report *r) {
    size_t budget = GF_PAGE_IMAGES;
    int best = -1;
    int labelled = 0;
    gf_section_begin(out, "found", "Flagged samples", gf_is_clip(r) ? gallery_of_pairs : gallery_of_images);
    for (int g = 0; g < gf_groups(r); g++) {
        const gf_snapshot *l = gf_group_snapshot(r, g);
        labelled |= l && isfinite(l->neighbours);
    }
    if (labelled) gf_text_add(out, "<p>Labels show which flags are correct: ✓ same class, ✗ different class.</p>\n");
    for (int g = 0; g < gf_groups(r); g++)
        if (gallery_rank(gf_group_snapshot(r, g)) > (best < 0 ? 0 : gallery_rank(gf_group_snapshot(r, best)))) best = g;
    if (best < 0) {
        if (r->snapshots && *r->snapshots[0].why) gf_page_missing(out, "The network could not be applied:", r->snapshots[0].why);
        else if (r->snapshots && r->snapshots[0].made)
            gf_text_add(out, "<p class=\"none\">No pair of the chosen samples is flagged.</p>\n");
        else gf_page_missing(out, "Images need the network and its data:", "glofnd report RUN --data SPEC, without --quick");
    } else gallery_of(out, r, best, &budget, 0);
    for (int g = 0; g < gf_groups(r); g++)
        if (g != best && gallery_rank(gf_group_snapshot(r, g)) == 2) gallery_of(out, r, g, &budget, 1);
    gf_section_end(out);
}

/* ----- tables: a row per run, and metrics of groups with p-values ----- */

static void comparison_table(gf_text *out, const gf_report *r) {
    const gf_comparison *c = r->compare;
    int with_p = 0; /* without p-values, as for single seeds, the table has no columns for them */
    for (int m = 0; m < c->metrics; m++)
        for (int g = 1; g < c->groups; g++) with_p |= isfinite(gf_compare_cell(c, g, m).p) != 0;
    gf_text_add(out, "<h3>All results</h3>\n<div class=\"wide\"><table class=\"figures\">\n");
    char name[320];
    gf_text_add(out, "<tr><th scope=\"col\">metric</th>");
    for (int g = 0; g < gf_groups(r); g++) {
        gf_group_name(r, g, name, sizeof name);
        gf_text_add(out, "<th scope=\"col\">");
        gf_svg_swatch(out, g);
        gf_text_add(out, "<br>");
        gf_text_escape(out, name);
        gf_text_add(out, g && with_p ? "</th><th scope=\"col\">p</th>" : "</th>");
    }
    gf_text_add(out, "</tr>\n");
    for (int m = 0; m < c->metrics; m++) {
        gf_text_add(out, "<tr><th scope=\"row\">");
        gf_page_name(out, c->metric[m].name);
        gf_text_add(out, "</th>");
        for (int g = 0; g < c->groups; g++) {
            const gf_cell x = gf_compare_cell(c, g, m);
            const int digits = gf_compare_digits(c, m), best = gf_compare_is_best(c, g, m);
            gf_text_add(out, best ? "<td class=\"best\">" : "<td>");
            if (!x.n) gf_text_add(out, "-");
            else gf_text_add(out, "%.*f", digits, x.mean);
            if (x.n && isfinite(x.std)) gf_text_add(out, " <small>±%.*f</small>", digits, x.std);
            gf_text_add(out, "</td>");
            if (g != 0 && with_p) {
                gf_text_add(out, x.p < 0.05 ? "<td class=\"sure\">" : "<td>");
                if (isnan(x.p)) gf_text_add(out, "-</td>");
                else gf_text_add(out, x.p < 0.001 ? "&lt;0.001</td>" : "%.3f</td>", x.p);
            }
        }
        gf_text_add(out, "</tr>\n");
    }
    gf_text_add(out, "</table></div>\n<p class=\"faint\">");
    const char *const seeds = "<code>glofnd sweep --seeds 1,2,3</code>";
    if (with_p)
        gf_text_add(out, "Mean ± standard deviation over runs; best in bold. p: one-sided t-test, paired by seed, for better "
                         "than the first column; green below 0.05.");
    else if (c->groups > 1)
        gf_text_add(out,
                    "Best in bold. Single runs also differ by chance; p-values need at least two seeds of each "
                    "configuration: %s.",
                    seeds);
    else if (c->runs > 1) gf_text_add(out, "Mean ± standard deviation over runs.");
    else gf_text_add(out, "One run; others differ from it by chance. Several seeds: %s.", seeds);
    gf_text_add(out, "</p>\n");
}

/* Explains the score of the table above. */
static void explain_score(gf_text *out, const gf_report *r) {
    const gf_score s = gf_score_choose(r);
    if (!s.like) return;
    gf_text_add(out, "<p class=\"faint\">");
    gf_text_escape(out, s.name);
    if (s.retrieval)
        gf_text_add(out, ": retrieval of the image of each caption and of a caption of each image, by cosine similarity; mean of "
                         "recall at 1, 5 and 10; data <code>");
    else
        gf_text_add(
            out, ": vote of the nearest training images, by cosine similarity of the encoder's features%s; training data <code>",
            strcmp(s.like->protocol, "knn-unweighted") == 0 ? ", with equal weights" : "");
    gf_text_escape(out, s.like->data);
    if (!s.retrieval) {
        gf_text_add(out, "</code>, test data <code>");
        gf_text_escape(out, s.like->test);
    }
    gf_text_add(out, "</code>. \"-\": not measured with these settings%s.%s</p>\n",
                gf_is_labelled(r) ? ", or nothing was flagged" : "",
                gf_is_labelled(r)
                    ? " Precision, recall and F1 count all pairs of the last epoch; \"per anchor\" has their means over "
                      "anchors, as the paper counts."
                    : "");
}

void gf_section_results(gf_text *out, const gf_report *r) {
    gf_section_begin(out, "results", "Results", NULL);
    gf_summary_html(out, r);
    explain_score(out, r);
    if (!r->runs[0].eval.count)
        gf_page_missing(out, "Not evaluated yet:",
                        gf_is_clip(r) ? "glofnd eval retrieval RUN --data SPEC, glofnd eval zeroshot RUN --data SPEC"
                                      : "glofnd eval knn RUN --data SPEC");
    if (!r->compare) gf_page_missing(out, "No comparison:", r->compare_why ? r->compare_why : "glofnd compare RUN...");
    else if (r->compare->metrics && r->compare->groups <= 8) comparison_table(out, r);
    gf_section_end(out);
}

/* ----- share and quality of flagged pairs, by epoch and with the trained network ----- */

/* Alpha in percent if equal in all runs whose detector uses it; else NaN. */
static double common_alpha(const gf_report *r) {
    double alpha = NAN;
    for (int i = 0; i < r->count; i++) {
        const glofnd_options *o = &r->runs[i].config.method;
        if (o->detector == GLOFND_DETECT_NONE || gf_flags_by_group(o) || gf_flags_by_positive(o) || gf_flags_by_guide(o))
            continue; /* alpha has no effect */
        if (isfinite(alpha) && alpha != 100.0 * (double)o->alpha) return NAN;
        alpha = 100.0 * (double)o->alpha;
    }
    return alpha;
}

/* First epoch of detection if equal in all runs with a detector; else 0. */
static double common_start(const gf_report *r) {
    double start = 0.0;
    for (int i = 0; i < r->count; i++) {
        const double at = r->runs[i].config.method.mask_epoch + 1.0;
        if (!gf_has_detector(&r->runs[i])) continue;
        if (start != 0.0 && at != start) return 0.0;
        start = at;
    }
    return start;
}

static int has_pairs(const gf_eval_line *e, const char *pairs) {
    return strcmp(e->event, "fn") == 0 && strcmp(e->pairs, pairs) == 0 && !e->untrained;
}

enum { DETECTORS = 4 };
static const char *const detectors[DETECTORS] = {"glofnd", "exact", "single", "fnc"};

static int by_lambda(const gf_eval_line *e) { return strcmp(e->detector, "glofnd") == 0; }

/* True if both have the same settings. Learned thresholds do not depend on alpha. */
static int same_settings(const gf_eval_line *a, const gf_eval_line *b) {
    static const char *const fields[] = {"data", "samples", "batch"};
    int same = strcmp(a->truth, b->truth) == 0 &&
               (!gf_settings_differ(a->settings, b->settings, "alpha") || by_lambda(a) || by_lambda(b));
    for (int i = 0; i < 3; i++) same &= !gf_settings_differ(a->settings, b->settings, fields[i]);
    return same;
}

/* Newest evaluation of a detector with the settings of `like`; NULL: none. */
static const gf_eval_line *evaluation_like(const gf_run_log *run, const gf_eval_line *like, const char *detector) {
    const gf_eval_line *found = NULL;
    for (int i = 0; i < run->eval.count; i++) {
        const gf_eval_line *e = &run->eval.line[i];
        if (!has_pairs(e, like->pairs) || strcmp(e->detector, detector) != 0 || !same_settings(e, like)) continue;
        if (!found || e->number > found->number) found = e;
    }
    return found;
}

/* Settings for all bars: those evaluated with most detectors; of several the newest. */
static const gf_eval_line *choose_settings(const gf_run_log *run, const char *pairs) {
    const gf_eval_line *like = NULL;
    int max = -1;
    for (int i = 0; i < run->eval.count; i++) {
        const gf_eval_line *e = &run->eval.line[i];
        int n = 0;
        if (!has_pairs(e, pairs)) continue;
        for (int d = 0; d < DETECTORS && !by_lambda(e); d++) n += evaluation_like(run, e, detectors[d]) != NULL;
        if (n > max || (n == max && e->number > like->number)) like = e, max = n;
    }
    return like;
}

/* One network with four kinds of thresholds, from `glofnd eval fn`. */
static void detector_bars(gf_text *out, const gf_report *r, int g, const char *pairs, const char *of, const char *x_name) {
    static const char *const names[] = {"GloFND, learned", "exact quantile", "one threshold for all", "FNC, per batch"};
    static const char *const keys[] = {"pooled_precision", "pooled_recall", "pooled_f1"};
    static const int colours[] = {GF_COLOUR_GLOFND, GF_COLOUR_EXACT, GF_COLOUR_SINGLE, GF_COLOUR_FNC};
    const gf_run_log *run = &r->runs[gf_group_first(r, g)];
    const gf_eval_line *like = choose_settings(run, pairs);
    char title[400];
    gf_bars b = {.title = title,
                 .y_name = "percent",
                 .groups = 3,
                 .each = 4,
                 .x_name = x_name,
                 .group = {"precision", "recall", "F1"},
                 .note = "Same embeddings, four kinds of thresholds (all pairs).",
                 .missing = "Compare detectors on this network: <code>glofnd eval fn RUN</code>"};
    snprintf(title, sizeof title, "Detectors%s with the trained network of %s", of, run->name);
    for (int d = 0; d < DETECTORS; d++) {
        b.name[d] = names[d], b.colour[d] = colours[d];
        for (int k = 0; k < 3; k++) b.value[k][d] = b.spread[k][d] = NAN;
        const gf_eval_line *e = like ? evaluation_like(run, like, detectors[d]) : NULL;
        for (int k = 0; e && k < 3; k++) b.value[k][d] = gf_eval_figure(e, keys[k]);
    }
    gf_svg_bars(out, &b);
}

/* Group of that network: one with learned thresholds, if any. */
static int learning_group(const gf_report *r) {
    for (int g = 0; g < gf_groups(r); g++)
        if (gf_learns_lambda(&r->runs[gf_group_first(r, g)])) return g;
    return 0;
}

void gf_section_detection(gf_text *out, const gf_report *r) {
    static const char none[] = "No values: these need a detector that has started (<code>start_epoch</code>) and flags pairs.";
    static const struct {
        gf_run_field field;
        const char *title, *y_name, *note;
    } charts[] = {
        {GF_RUN_FLAGGED, "Pairs flagged as false negatives", "flagged pairs, %", "Exact thresholds flag a share α of the pairs."},
        {GF_RUN_POOLED_PRECISION, "Precision", "precision, %", "Share of the flagged pairs with the same class."},
        {GF_RUN_POOLED_RECALL, "Recall", "recall, %", "Share of the pairs with the same class that are flagged."},
        {GF_RUN_POOLED_F1, "F1", "F1, %", "Harmonic mean of precision and recall."},
        {GF_RUN_F1, "F1 per anchor", "F1, %", "Of means over anchors, as the paper counts (none flagged: 100 %)."},
    };
    const int clip = gf_is_clip(r), labelled = gf_is_labelled(r), g = learning_group(r);
    gf_section_begin(
        out, "detection", labelled ? "Detection quality" : "Detection",
        labelled ? "Measured with labels on training batches, while the network changes. A flagged pair is correct if both "
                   "samples have the same class. Precision, recall and F1 count all pairs of an epoch."
                 : "Measured on training batches, while the network changes.");
    gf_text_add(out, "<div class=\"charts\">\n");
    for (int k = 0; k < (labelled ? 5 : 1); k++)
        gf_epoch_chart(out, r, charts[k].field, gf_has_detector,
                       &(gf_chart){.title = charts[k].title,
                                   .y_name = charts[k].y_name,
                                   .level = k == 0 ? common_alpha(r) : NAN,
                                   .level_name = "α, the target share",
                                   .from_zero = 1,
                                   .note = charts[k].note,
                                   .event = k == 0 ? common_start(r) : 0.0,
                                   .event_name = "detection starts",
                                   .missing = none});
    /* Flags are counted against labels, or against captions in common (`glofnd eval fn`). */
    if (clip) {
        detector_bars(out, r, g, "image-text batches", " for captions of an image", "images with captions, in batches");
        detector_bars(out, r, g, "text-image batches", " for images of a caption", "captions with images, in batches");
    } else if (labelled || choose_settings(&r->runs[gf_group_first(r, g)], "views"))
        detector_bars(out, r, g, "views", "", "pairs of augmented views, in batches");
    gf_epoch_chart(out, r, GF_RUN_LAMBDA_IMAGE, gf_learns_lambda,
                   &(gf_chart){.title = clip ? "Mean threshold λ of the images" : "Mean threshold λ",
                               .y_name = "cosine similarity",
                               .level = NAN,
                               .note = clip ? "Mean similarity above which a caption counts as matching an image."
                                            : "Mean similarity above which a pair counts as a false negative.",
                               .missing = "No run learns thresholds (<code>detector = glofnd</code>)."});
    int texts = 0;
    for (int i = 0; i < r->count; i++) texts |= isfinite(gf_run_last(&r->runs[i], GF_RUN_LAMBDA_TEXT)) != 0;
    if (texts)
        gf_epoch_chart(out, r, GF_RUN_LAMBDA_TEXT, gf_learns_lambda,
                       &(gf_chart){.title = "Mean threshold λ of the captions",
                                   .y_name = "cosine similarity",
                                   .level = NAN,
                                   .note = "Mean similarity above which an image counts as matching a caption."});
    gf_text_add(out, "</div>\n");
    gf_section_end(out);
}

/* ----- densities of learned, exact and FNC's thresholds ----- */

typedef struct densities {
    double y[3][POINTS];
    gf_spread spread[3];
    double h[3]; /* bandwidths */
    char name[3][80];
    gf_series series[3];
    int count;
    double low, high;
} densities;

/* True if all values fall on one point of the drawing: no density. */
static int is_point(const densities *d, int s) {
    return d->spread[s].count && d->spread[s].max - d->spread[s].min < (d->high - d->low) / (POINTS - 1);
}

/* The densities over [low, high]; returns the largest value. */
static double estimate_densities(const gf_snapshot_values *sets[3], densities *d) {
    double max = 0.0;
    for (int s = 0; s < 3; s++) {
        gf_kde(sets[s]->x, sets[s]->n, fmax(d->h[s], (d->high - d->low) / POINTS), d->low, d->high, POINTS, d->y[s]);
        for (int k = 0; k < POINTS && !is_point(d, s); k++) max = fmax(max, d->y[s][k]);
    }
    return max;
}

static void threshold_figure(gf_text *out, const gf_report *r, const gf_snapshot *snapshot, int which) {
    static const char *const kinds[2] = {" of images", " of captions"};
    const gf_snapshot_side *l = &snapshot->side[which];
    densities d = {.count = 0};
    char title[400], note[300];
    static const char *const names[3] = {"λ, learned by GloFND", "exact (1-α) quantile", "FNC, per batch"};
    static const gf_snapshot_values none;
    const gf_snapshot_values *sets[3] = {l->learned ? &l->lambda : &none, &l->optimum, &l->fnc};
    static const int colours[3] = {GF_COLOUR_GLOFND, GF_COLOUR_EXACT, GF_COLOUR_FNC};
    /* Range of all three with the width of their kernels, within [-1, 1]. */
    d.low = INFINITY, d.high = -INFINITY;
    for (int s = 0; s < 3; s++) {
        const gf_spread x = d.spread[s] = gf_spread_of(sets[s]->x, sets[s]->n);
        const double around = 3.0 * (d.h[s] = gf_kde_bandwidth(sets[s]->x, sets[s]->n));
        if (!x.count) continue;
        d.low = fmin(d.low, fmax(x.min - around, fmin(x.min, -1.0)));
        d.high = fmax(d.high, fmin(x.max + around, fmax(x.max, 1.0)));
    }
    if (!(d.high - d.low > 1e-6)) d.low -= 0.01, d.high = d.low + 0.02;
    /* Cuts tails below `min`. */
    const double min = 0.004 * estimate_densities(sets, &d);
    const double low = d.low, step = (d.high - d.low) / (POINTS - 1);
    int first = POINTS - 1, last = 0;
    for (int s = 0; s < 3; s++)
        for (int k = 0; k < POINTS; k++)
            if (d.y[s][k] > min) first = GF_MIN(k, first), last = GF_MAX(k, last);
    if (first < last) d.low = low + first * step, d.high = low + last * step;
    /* Keeps vertical lines away from the edges. */
    const double margin = 0.03 * (d.high - d.low);
    for (int s = 0; s < 3; s++) {
        const double at = d.spread[s].mean;
        if (!is_point(&d, s)) continue;
        d.low = fmin(d.low, fmax(at - margin, fmin(at, -1.0)));
        d.high = fmax(d.high, fmin(at + margin, fmax(at, 1.0)));
    }
    estimate_densities(sets, &d);
    for (int s = 0; s < 3; s++)
        if (d.spread[s].count) {
            gf_series *line = &d.series[d.count++];
            *line = (gf_series){.name = d.name[s], .n = POINTS, .colour = colours[s]};
            snprintf(d.name[s], sizeof d.name[s], is_point(&d, s) ? "%s: all %.3f" : "%s", names[s], d.spread[s].mean);
            if (is_point(&d, s)) line->vertical = 1, line->at = d.spread[s].mean;
            else line->y = d.y[s], line->filled = 1;
        }
    snprintf(title, sizeof title, "Thresholds%s with the network of %s", snapshot->clip ? kinds[which] : "",
             gf_snapshot_name(r, snapshot));
    if (l->learned)
        snprintf(note, sizeof note, "Mean absolute error against the exact threshold: λ %.3f, FNC %.3f (%lld anchors, α = %g).",
                 l->lambda_mae, l->fnc_mae, (long long)l->lambda.n, snapshot->alpha);
    else
        snprintf(note, sizeof note,
                 "This run learned no thresholds. Mean absolute error of FNC against the exact threshold: %.3f (α = %g).",
                 l->fnc_mae, snapshot->alpha);
    gf_svg_chart(out, &(gf_chart){.title = title,
                                  .note = note,
                                  .x_name = "threshold, cosine similarity",
                                  .y_name = "density",
                                  .series = d.series,
                                  .count = d.count,
                                  .level = NAN,
                                  .from_zero = 1,
                                  .x_first = d.low,
                                  .x_step = (d.high - d.low) / (POINTS - 1)});
}

static const char thresholds_of_images[] =
    "Trained network, augmented views. The exact threshold of an image is the similarity that a share α of all other images "
    "exceeds. GloFND learns it during training; FNC estimates it from each batch. Curves close to the exact one are better.";
static const char thresholds_of_pairs[] =
    "Trained network, images without augmentation. An image has a threshold for captions, and a caption has one for images; the "
    "exact one is the similarity that a share α of all others exceeds. GloFND learns both during training, from augmented "
    "images; FNC estimates them from each batch. Curves close to the exact one are better.";

void gf_section_thresholds(gf_text *out, const gf_report *r) {
    int shown = 0;
    gf_section_begin(out, "thresholds", "Learned and exact thresholds",
                     gf_is_clip(r) ? thresholds_of_pairs : thresholds_of_images);
    gf_text_add(out, "<div class=\"charts\">\n");
    for (int g = 0; g < gf_groups(r); g++) {
        const gf_snapshot *l = gf_group_snapshot(r, g);
        for (int s = 0; l && s < l->sides; s++) {
            if (!l->side[s].optimum.n || !gf_has_detector(&r->runs[gf_group_first(r, g)])) continue;
            threshold_figure(out, r, l, s);
            shown++;
        }
    }
    gf_text_add(out, "</div>\n");
    if (!shown)
        gf_page_missing(out, "Distributions need the network of a run with a detector, and its data:",
                        "glofnd report RUN --data SPEC, without --quick");
    gf_section_end(out);
}

/* ----- maps of the features by t-SNE, coloured by class ----- */

typedef struct class_styles { /* the most frequent classes have styles of their own */
    int32_t label[GF_DOTS_CLASSES];
    char name[GF_DOTS_CLASSES][80];
    int classes, more;
    const gf_snapshot *sheet; /* snapshot of the sprite sheet; NULL: no sheet */
} class_styles;

static int32_t largest_label(const gf_snapshot *l) {
    int32_t max = -1;
    for (int64_t i = 0; i < l->n; i++) max = GF_MAX(l->label[i], max);
    return max;
}

/* Adds the sprite sheet of all dots, unless it is too large. */
static int add_sheet(gf_text *out, const gf_snapshot *l) {
    enum { SIDE = 24, QUALITY = 60 };
    gf_error err = {{0}};
    uint8_t *jpeg = NULL;
    size_t bytes = 0;
    if (gf_sprite_sheet_of_samples(&err, l->data, l->id, l->n, SIDE, QUALITY, &jpeg, &bytes) != GLOFND_OK) return 0;
    const int fits = GF_BASE64_BYTES(bytes) <= GF_PAGE_IMAGES;
    if (fits) {
        gf_text_add(out, "<img id=\"sheet\" alt=\"\" hidden data-side=\"%d\" data-columns=\"%d\" src=\"data:image/jpeg;base64,",
                    SIDE, GF_SPRITE_COLUMNS);
        gf_text_base64(out, jpeg, bytes);
        gf_text_add(out, "\">\n");
    }
    free(jpeg);
    return fits;
}

static void draw_map(gf_text *out, const gf_snapshot *l, const class_styles *k, const char *title, const char *note) {
    int32_t *style = malloc((size_t)l->n * sizeof *style);
    const char *names[GF_DOTS_CLASSES];
    out->failed |= !style;
    for (int c = 0; c < k->classes; c++) names[c] = k->name[c];
    for (int64_t i = 0; style && i < l->n; i++) {
        style[i] = k->classes ? -1 : 0; /* one style without labels */
        for (int c = 0; c < k->classes; c++)
            if (l->label[i] == k->label[c]) style[i] = c;
    }
    if (style)
        gf_svg_dots(out, &(gf_dots){.title = title,
                                    .note = note,
                                    .y = l->tsne,
                                    .style = style,
                                    .n = l->n,
                                    .names = names,
                                    .classes = k->classes,
                                    .numbered = k->sheet && k->sheet->n == l->n &&
                                                memcmp(k->sheet->id, l->id, (size_t)l->n * sizeof *l->id) == 0});
    free(style);
}

void gf_section_maps(gf_text *out, const gf_report *r) {
    class_styles k = {.classes = 0};
    const gf_snapshot *first = NULL;
    const char *names[GF_DOTS_CLASSES];
    for (int g = 0; g < gf_groups(r) && !(first && first->n); g++) first = gf_group_snapshot(r, g);
    const int labelled = first && first->n && largest_label(first) >= 0;
    gf_section_begin(out, "maps", "Maps of the embeddings",
                     labelled
                         ? "Each dot is an image. Images with similar features of the backbone are close together (t-SNE). A "
                           "good encoder forms clusters of one class, although it never saw a label."
                         : "Each dot is an image. Images with similar features of the backbone are close together (t-SNE).");
    if (!first || !first->n) {
        gf_page_missing(out, "Maps need the network and its data:", "glofnd report RUN --data SPEC, without --quick");
        gf_section_end(out);
        return;
    }
    /* Most frequent first; ties: the smaller label. */
    const int32_t last = GF_MIN(largest_label(first), 4096);
    int64_t count[GF_DOTS_CLASSES];
    for (int32_t label = 0; label <= last; label++) {
        int64_t n = 0;
        for (int64_t i = 0; i < first->n; i++) n += first->label[i] == label;
        if (!n) continue;
        int at = k.classes < GF_DOTS_CLASSES ? k.classes++ : GF_DOTS_CLASSES;
        k.more += at == GF_DOTS_CLASSES;
        for (; at > 0 && n > count[at - 1]; at--)
            if (at < GF_DOTS_CLASSES) k.label[at] = k.label[at - 1], count[at] = count[at - 1];
        if (at < GF_DOTS_CLASSES) k.label[at] = label, count[at] = n;
    }
    for (int c = 0; c < k.classes; c++) gf_snapshot_class(first, k.label[c], k.name[c], sizeof k.name[c]);
    for (int c = 0; c < k.classes; c++) names[c] = k.name[c];
    if (k.classes) gf_svg_dots_legend(out, names, k.classes);
    if (k.more) gf_text_add(out, "<p class=\"faint\">%d further classes in grey.</p>\n", k.more);
    if (add_sheet(out, first)) k.sheet = first;
    char note[260];
    gf_text_add(out, "<div class=\"maps\">\n");
    for (int g = 0; g < gf_groups(r); g++) {
        const gf_snapshot *l = gf_group_snapshot(r, g);
        if (!l || !l->n) continue;
        if (isfinite(l->neighbours))
            snprintf(note, sizeof note, "%.1f\u00a0%% of nearest neighbours have the same class.", 100.0 * l->neighbours);
        else snprintf(note, sizeof note, "%lld images.", (long long)l->n);
        const size_t used = strlen(note);
        if (l->step >= 0) snprintf(note + used, sizeof note - used, " Weights of step %lld.", (long long)l->step);
        draw_map(out, l, &k, gf_snapshot_name(r, l), note);
    }
    gf_text_add(out, "</div>\n");
    gf_text_add(out, "<p class=\"faint\">%lld of %lld images, chosen at random.%s</p>\n", (long long)first->n,
                (long long)first->total, k.sheet ? " Point at a dot to see its image." : "");
    gf_section_end(out);
}

/* ----- quality of the features: retrieval, accuracy with few labels, accuracy by start epoch ----- */

/* Top-1 in percent with the settings of `like`, but with this share of the labels; NaN: not measured. */
static double top1_of(const gf_run_log *run, const gf_eval_line *like, double fraction) {
    gf_eval_line wanted = *like;
    wanted.fraction = fraction;
    gf_eval_identify(&wanted);
    const gf_eval_line *e = gf_comparable_find(run, &wanted, 0);
    return e ? gf_eval_figure(e, "top1") : NAN;
}

static gf_mean_std group_top1(const gf_report *r, int g, const gf_eval_line *like, double fraction) {
    double x[GF_PAGE_RUNS];
    int n = 0;
    for (int i = 0; i < r->count; i++)
        if (gf_group_of(r, i) == g) x[n++] = top1_of(&r->runs[i], like, fraction);
    return gf_mean_of(x, n);
}

static void fraction_bars(gf_text *out, const gf_report *r) {
    char name[GF_BARS_MAX][320], group[8][32], note[200];
    double fraction[8];
    const gf_eval_line *like = gf_comparable_choose(r->runs, r->count, "linear");
    gf_bars b = {.title = "Linear classifier with few labels",
                 .note = like ? note : NULL,
                 .y_name = "top-1 accuracy on test images, %",
                 .x_name = "share of the training labels",
                 .missing = "Not evaluated yet: <code>glofnd eval linear RUN --data SPEC</code>"};
    if (like) snprintf(note, sizeof note, "Frozen backbone, protocol %s.", like->protocol);
    /* Fractions evaluated with the settings of `like`, largest first. */
    int n = 0;
    for (int i = 0; like && i < r->count; i++)
        for (int k = 0; k < r->runs[i].eval.count; k++) {
            const gf_eval_line *e = &r->runs[i].eval.line[k];
            int known = strcmp(e->event, "linear") != 0 || !isfinite(e->fraction) || n == 8 ||
                        isnan(top1_of(&r->runs[i], like, e->fraction));
            for (int f = 0; f < n; f++) known |= fraction[f] == e->fraction;
            if (known) continue;
            int at = n++;
            for (; at > 0 && fraction[at - 1] < e->fraction; at--) fraction[at] = fraction[at - 1];
            fraction[at] = e->fraction;
        }
    b.groups = n;
    b.each = GF_MIN(gf_groups(r), GF_BARS_MAX);
    for (int f = 0; f < b.groups; f++) {
        snprintf(group[f], sizeof group[f], "%g %%", 100.0 * fraction[f]);
        b.group[f] = group[f];
    }
    for (int k = 0; k < b.each; k++) {
        gf_group_name(r, k, name[k], sizeof name[k]);
        b.name[k] = name[k], b.colour[k] = k;
        for (int f = 0; f < b.groups; f++) {
            const gf_mean_std m = group_top1(r, k, like, fraction[f]);
            b.value[f][k] = m.mean, b.spread[f][k] = m.std;
        }
    }
    gf_svg_bars(out, &b);
}

static void retrieval_bars(gf_text *out, const gf_report *r) {
    enum { RECALLS = 6 };
    static const char *const keys[RECALLS] = {"ir1", "ir5", "ir10", "tr1", "tr5", "tr10"};
    static const char *const names[RECALLS] = {"IR@1", "IR@5", "IR@10", "TR@1", "TR@5", "TR@10"};
    char name[GF_BARS_MAX][320];
    const gf_eval_line *like = gf_comparable_choose(r->runs, r->count, "retrieval");
    gf_bars b = {.title = "Retrieval",
                 .y_name = "recall, %",
                 .x_name = "images for captions (IR), captions for images (TR)",
                 .note = "Share of queries with a match among the first 1, 5 or 10.",
                 .groups = RECALLS,
                 .missing = "Not evaluated yet: <code>glofnd eval retrieval RUN --data SPEC</code>"};
    b.each = GF_MIN(gf_groups(r), GF_BARS_MAX);
    for (int k = 0; k < b.each; k++) {
        gf_group_name(r, k, name[k], sizeof name[k]);
        b.name[k] = name[k], b.colour[k] = k;
        for (int m = 0; m < RECALLS; m++) {
            double values[GF_PAGE_RUNS];
            int n = 0;
            for (int i = 0; i < r->count; i++) {
                const gf_eval_line *e = gf_group_of(r, i) == k ? gf_comparable_find(&r->runs[i], like, 0) : NULL;
                if (e) values[n++] = gf_eval_figure(e, keys[m]);
            }
            const gf_mean_std x = gf_mean_of(values, n);
            b.group[m] = names[m], b.value[m][k] = x.mean, b.spread[m][k] = x.std;
        }
    }
    gf_svg_bars(out, &b);
}

typedef struct start_sweep {
    double x[GF_PAGE_RUNS], mean[GF_PAGE_RUNS], low[GF_PAGE_RUNS], high[GF_PAGE_RUNS];
    int n;
} start_sweep;

static void start_epochs(gf_text *out, const gf_report *r) {
    static const char *const events[] = {"linear_mean", "linear", "knn"};
    start_sweep s = {.n = 0};
    char name[120] = "";
    for (int e = 0; e < 3 && s.n < 2; e++) {
        const gf_eval_line *like = gf_comparable_choose(r->runs, r->count, events[e]);
        /* Groups with a detector, by start epoch; of equal ones the first. */
        s.n = 0;
        for (int g = 0; like && g < gf_groups(r); g++) {
            const gf_run_log *run = &r->runs[gf_group_first(r, g)];
            const gf_mean_std m = group_top1(r, g, like, like->fraction);
            const double x = run->config.method.mask_epoch, std = isfinite(m.std) ? m.std : 0.0;
            int known = !gf_has_detector(run) || isnan(m.mean), at = s.n;
            for (int k = 0; k < s.n; k++) known |= s.x[k] == x;
            if (known) continue;
            for (s.n++; at > 0 && s.x[at - 1] > x; at--)
                s.x[at] = s.x[at - 1], s.mean[at] = s.mean[at - 1], s.low[at] = s.low[at - 1], s.high[at] = s.high[at - 1];
            s.x[at] = x, s.mean[at] = m.mean, s.low[at] = m.mean - std, s.high[at] = m.mean + std;
        }
        if (like) gf_eval_name(like, name, sizeof name);
    }
    const gf_series line = {.name = name, .y = s.mean, .n = s.n, .x = s.x, .low = s.low, .high = s.high};
    gf_svg_chart(
        out,
        &(gf_chart){.title = "Start of detection",
                    .note = "An early start uses poor similarities; a late start leaves little training.",
                    .x_name = "epochs before detection starts",
                    .y_name = "top-1, %",
                    .series = &line,
                    .count = s.n > 1,
                    .level = NAN,
                    .marked = 1,
                    .missing =
                        "This needs evaluated runs with different <code>start_epoch</code>: <code>glofnd sweep --file "
                        "configs/sweep-start-epoch.sweep --data SPEC --out DIR</code>, then <code>glofnd report DIR/*/</code>"});
}

void gf_section_features(gf_text *out, const gf_report *r) {
    gf_section_begin(out, "labels", "Quality of the features", NULL);
    gf_text_add(out, "<div class=\"charts\">\n");
    if (gf_is_clip(r)) retrieval_bars(out, r);
    fraction_bars(out, r);
    start_epochs(out, r);
    gf_text_add(out, "</div>\n");
    gf_section_end(out);
}

/* ----- loss, learning rate, throughput, temperature, and kNN while training ----- */

typedef struct curve {
    double x[POINTS], y[POINTS];
} curve;

/* Points of a run; their number. */
static int64_t curve_points(const gf_run_log *r, gf_run_step field, curve *to) {
    if (field == GF_RUN_STEP_COUNT) {
        /* kNN of the epochs that measured it, at most POINTS of them: the first, the last and others evenly between. */
        const double *knn = r->field[GF_RUN_KNN];
        int64_t all = 0, seen = 0, n = 0;
        for (int64_t e = 0; e < r->epochs; e++) all += isfinite(knn[e]) != 0;
        const int64_t kept = GF_MIN(all, POINTS);
        for (int64_t e = 0; e < r->epochs && n < kept; e++) {
            if (!isfinite(knn[e])) continue;
            if (seen++ != (kept > 1 ? n * (all - 1) / (kept - 1) : 0)) continue;
            to->x[n] = (double)(e + 1), to->y[n++] = knn[e];
        }
        return n;
    }
    if (field == GF_STEP_LOSS && r->steps < 2 && r->epochs > 0) {
        /* Loss by epoch, for a run with too few logged steps. */
        const int64_t n = GF_MIN(r->epochs, POINTS);
        for (int64_t e = 0; e < n; e++) to->x[e] = (double)(e + 1), to->y[e] = r->field[GF_RUN_LOSS][e];
        return n;
    }
    /* Logged steps as at most POINTS means of consecutive ones. */
    const int64_t n = GF_MIN(r->steps, POINTS);
    for (int64_t k = 0; k < n; k++) {
        const int64_t first = k * r->steps / n, end = (k + 1) * r->steps / n;
        double sum = 0.0, count = 0.0;
        for (int64_t i = first; i < end; i++)
            if (isfinite(r->step[field][i])) sum += r->step[field][i], count++;
        to->x[k] = gf_run_place(r, first + (end - first) / 2);
        to->y[k] = count > 0.0 ? sum / count : NAN;
    }
    return n;
}

/* A line per run, for at most a dozen runs. field GF_RUN_STEP_COUNT: kNN. */
static void training_chart(gf_text *out, const gf_report *r, gf_run_step field, const gf_chart *form) {
    gf_series series[CHART_RUNS];
    curve *curves = calloc(CHART_RUNS, sizeof *curves);
    gf_chart c = *form;
    out->failed |= !curves;
    for (int i = 0; curves && i < r->count && c.count < CHART_RUNS; i++) {
        const int64_t n = curve_points(&r->runs[i], field, &curves[c.count]);
        const int same = gf_groups(r) < r->count; /* several seeds: one colour for a configuration */
        series[c.count] = (gf_series){.name = r->runs[i].name,
                                      .x = curves[c.count].x,
                                      .y = curves[c.count].y,
                                      .n = n,
                                      .colour = same ? gf_group_of(r, i) : i};
        c.count += n > 0;
    }
    c.series = series;
    if (!c.x_name) c.x_name = r->runs[0].epoch_steps ? "epochs done" : "step";
    c.level = NAN;
    if (curves) gf_svg_chart(out, &c);
    free(curves);
}

void gf_section_training(gf_text *out, const gf_report *r) {
    static const char none[] = "No logged step yet.";
    int clip = 0, tau = 0, knn = 0;
    for (int i = 0; i < r->count; i++) {
        clip += r->runs[i].config.task == GF_TASK_CLIP;
        tau |= isfinite(gf_run_step_mean(&r->runs[i], GF_STEP_TAU, 1)) != 0;
        for (int64_t e = 0; e < r->runs[i].epochs; e++) knn |= isfinite(r->runs[i].field[GF_RUN_KNN][e]) != 0;
    }
    const char *views = clip == r->count ? "Each image is used once per epoch, with one of its captions."
                        : clip           ? "Each image has two views; in image-text runs it has one."
                                         : "Each image has two views.";
    gf_section_begin(out, "training", "Training", NULL);
    gf_text_add(out, "<div class=\"charts\">\n");
    training_chart(out, r, GF_STEP_LOSS,
                   &(gf_chart){.title = "Loss",
                               .y_name = "loss",
                               .missing = none,
                               .note =
                                   "A detector removes pairs from the loss: losses of different detectors are not comparable."});
    training_chart(
        out, r, GF_STEP_SPEED,
        &(gf_chart){.title = "Throughput", .y_name = "images per second", .from_zero = 1, .missing = none, .note = views});
    training_chart(out, r, GF_STEP_LR,
                   &(gf_chart){.title = "Learning rate", .y_name = "learning rate", .from_zero = 1, .missing = none});
    training_chart(out, r, GF_STEP_GRAD_NORM,
                   &(gf_chart){.title = "Gradient norm", .y_name = "norm", .from_zero = 1, .missing = none});
    if (tau) training_chart(out, r, GF_STEP_TAU, &(gf_chart){.title = "Temperature τ", .y_name = "τ", .missing = none});
    if (knn)
        training_chart(out, r, GF_RUN_STEP_COUNT,
                       &(gf_chart){.title = "kNN while training",
                                   .y_name = "top-1 %",
                                   .x_name = "epochs done",
                                   .note = "Held-out images of the training data, by 20 neighbours (eval_every)."});
    gf_text_add(out, "</div>\n");
    gf_section_end(out);
}

/* ----- time of a step, and memory ----- */

static void memory_chart(gf_text *out, const gf_report *r) {
    enum { KINDS = 7, REST = 6 };
    static const char *const kinds[KINDS] = {"weights and gradients", "optimizer",          "activations", "workspace",
                                             "loss and anchors",      "batches and images", "rest"};
    const int count = GF_MIN(r->count, CHART_RUNS);
    gf_stacked_row rows[CHART_RUNS];
    double max = 0.0;
    int gpu = 0;
    for (int i = 0; i < count; i++) {
        max = fmax(max, (double)r->runs[i].memory.bytes.peak);
        gpu |= r->runs[i].memory.gpu;
    }
    for (int i = 0; i < count; i++) {
        const double unit = max < 1e10 ? 1e6 : 1e9;
        const gf_memory_split *m = &r->runs[i].memory.bytes;
        const double bytes[REST] = {(double)m->weights,   (double)m->optimizer, (double)m->activations,
                                    (double)m->workspace, (double)m->loss,      (double)m->data};
        double rest = (double)m->peak;
        rows[i] = (gf_stacked_row){.name = r->runs[i].name};
        for (int k = 0; k < REST; k++) rows[i].part[k] = bytes[k] / unit, rest -= bytes[k];
        rows[i].part[REST] = fmax(rest, 0.0) / unit;
    }
    gf_svg_stacked(
        out, &(gf_stacked_chart){.title = "Memory",
                                 .note = gpu ? "GPU memory; the bar is the peak use. The rest is libraries and other processes."
                                             : "Memory of the training process; the bar is the peak use. The rest is code, "
                                               "libraries and temporary buffers.",
                                 .unit = max < 1e10 ? "MB" : "GB",
                                 .parts = kinds,
                                 .part_count = KINDS,
                                 .rest = REST,
                                 .rows = rows,
                                 .count = count,
                                 .missing = "Not recorded: the run has fewer than ten steps, or an earlier version made it."});
}

static void time_chart(gf_text *out, const gf_report *r) {
    enum { TIMES = 5, OF_LOSS = 2 };
    static const char *const parts[TIMES] = {"waiting for data", "forward", "loss and detection", "backward", "optimizer"};
    static const gf_run_step fields[TIMES] = {GF_STEP_TIME_LOAD, GF_STEP_TIME_FORWARD, GF_STEP_TIME_LOSS, GF_STEP_TIME_BACKWARD,
                                              GF_STEP_TIME_OPTIMIZER};
    const int count = GF_MIN(r->count, CHART_RUNS);
    gf_stacked_row rows[CHART_RUNS];
    char note[300] = "Mean of the last logged steps. On a GPU, forward includes all parts except waiting for data.";
    double max_share = 0.0; /* of loss and detection, in percent */
    for (int i = 0; i < count; i++) {
        double total = 0.0, *ms = rows[i].part;
        rows[i] = (gf_stacked_row){.name = r->runs[i].name};
        for (int p = 0; p < TIMES; p++) {
            ms[p] = gf_run_step_mean(&r->runs[i], fields[p], 50);
            total += isfinite(ms[p]) ? ms[p] : 0.0;
        }
        const double share = total > 0.0 && isfinite(ms[OF_LOSS]) ? 100.0 * ms[OF_LOSS] / total : 0.0;
        if (gf_has_detector(&r->runs[i])) max_share = fmax(max_share, share);
    }
    if (max_share > 0.0)
        snprintf(note, sizeof note, "Mean of the last logged steps. Loss and detection take at most %.2g\u00a0%% of a step.",
                 max_share);
    gf_svg_stacked(out, &(gf_stacked_chart){.title = "Time of a step",
                                            .note = note,
                                            .unit = "ms",
                                            .parts = parts,
                                            .part_count = TIMES,
                                            .rest = -1,
                                            .rows = rows,
                                            .count = count,
                                            .missing = "No logged step yet."});
}

/* What the thresholds of the first run that learns them take of its memory. */
static void memory_of_anchors(gf_text *out, const gf_report *r) {
    for (int i = 0; i < r->count; i++) {
        const gf_memory_record *m = &r->runs[i].memory;
        const gf_memory_split *b = &m->bytes;
        /* lambda, its moments, u and a clock per side; temperatures where learned */
        const int each =
            (r->runs[i].config.task == GF_TASK_CLIP ? 2 : 1) * (gf_config_individual_tau(&r->runs[i].config) ? 36 : 20);
        /* What the run accounts for: the peak on a GPU includes other processes. */
        const double held = (double)b->weights + (double)b->optimizer + (double)b->activations + (double)b->workspace +
                            (double)b->loss + (double)b->data;
        const double state = (double)each * (double)m->anchors;
        if (!m->known || !(held > 0.0) || !gf_learns_lambda(&r->runs[i])) continue;
        gf_text_add(
            out,
            "<p>Thresholds need little memory: the state of all samples takes <b>%.3g\u00a0%s</b>, %d bytes for each of %lld, "
            "%.2g\u00a0%% of the <b>%.0f\u00a0MB</b> of <b>",
            state < 1e6 ? state / 1e3 : state / 1e6, state < 1e6 ? "kB" : "MB", each, (long long)m->anchors, 100.0 * state / held,
            held / 1e6);
        gf_text_html(out, "", r->runs[i].name, m->ranks > 1 ? "</b> on its first rank.</p>\n" : "</b>.</p>\n");
        return;
    }
}

void gf_section_cost(gf_text *out, const gf_report *r) {
    gf_section_begin(out, "cost", "Time and memory", NULL);
    memory_of_anchors(out, r);
    gf_text_add(out, "<div class=\"charts\">\n");
    time_chart(out, r);
    memory_chart(out, r);
    gf_text_add(out, "</div>\n");
    gf_section_end(out);
}

/* ----- configuration keys in which runs differ, and the others ----- */

static int key_differs(const gf_report *r, const char *key) {
    char first[1100], other[1100];
    gf_page_value(&r->runs[0], key, first, sizeof first);
    for (int i = 1; i < r->count; i++) {
        gf_page_value(&r->runs[i], key, other, sizeof other);
        if (strcmp(first, other) != 0) return 1;
    }
    return 0;
}

/* Keys in which the runs differ, a column per run; or the common keys, in one column. */
static void option_table(gf_text *out, const gf_report *r, int different) {
    const int shown = different ? r->count : 1;
    int in_method;
    gf_text_add(out, "<div class=\"wide\"><table class=\"keys\"><tr><th scope=\"col\">key</th>");
    for (int i = 0; i < shown; i++) gf_text_html(out, "<th scope=\"col\">", different ? r->runs[i].name : "value", "</th>");
    gf_text_add(out, "</tr>\n");
    for (int i = 0;; i++) {
        const gf_option *o = gf_config_option(i, &in_method);
        if (!o) break;
        if (key_differs(r, o->key) != different) continue;
        gf_text_add(out, "<tr><th scope=\"row\"><code>%s</code></th>", o->key);
        for (int j = 0; j < shown; j++) {
            char value[1100];
            gf_page_value(&r->runs[j], o->key, value, sizeof value);
            gf_text_html(out, "<td><code>", *value ? value : "-", "</code></td>");
        }
        gf_text_add(out, "</tr>\n");
    }
    gf_text_add(out, "</table></div>\n");
}

void gf_section_config(gf_text *out, const gf_report *r) {
    gf_section_begin(out, "config", "Configuration", NULL);
    if (r->count > 1) {
        gf_text_add(out, "<h3>Differences</h3>\n");
        option_table(out, r, 1);
    }
    gf_text_add(out, "<details><summary>%s</summary>\n", r->count > 1 ? "Common keys" : "All keys");
    option_table(out, r, 0);
    gf_text_add(out, "</details>\n");
    gf_section_end(out);
}
