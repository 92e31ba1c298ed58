/* section_example.c - the first figure of a page: histogram of all other images by their similarity to one image, and its learned
 * threshold. */
#include <math.h>
#include <stdio.h>

#include "report/page_image.h"
#include "report/page_parts.h"

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

typedef struct figure {
    gf_text *out;
    const gf_snapshot *snapshot;
    const gf_view_set *rows;
    const gf_gallery_anchor *anchor;
    const gf_similarity_profile *profile;
    const layout *f;
    double max;                     /* of the y axis */
    int labelled, choice;           /* the anchor has a label; anchors to choose from */
    int drawn[GF_GALLERY_EXAMPLES]; /* the image was loaded */
    gf_page_images images;
} figure;

static double x_of(const figure *s, double similarity) {
    const gf_similarity_profile *l = s->profile;
    return s->f->left + (similarity - l->low) / (l->high - l->low) * (s->f->right - s->f->left);
}

static double y_of(const figure *s, double count) { return s->f->bottom - count / s->max * (s->f->bottom - s->f->top); }

/* ----- parts of the drawing ----- */

/* Shaded side of the threshold whose pairs are left out, and the texts of both sides. */
static void sides(const figure *s) {
    const layout *f = s->f;
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

static void bars(const figure *s) {
    const gf_similarity_profile *l = s->profile;
    const double step = (double)(s->f->right - s->f->left) / GF_GALLERY_BINS, part = (l->high - l->low) / GF_GALLERY_BINS;
    for (int b = 0; b < GF_GALLERY_BINS; b++) {
        const double x = s->f->left + b * step + 0.5, same = y_of(s, (double)l->same[b]), all = y_of(s, (double)l->all[b]);
        if (!l->all[b]) continue;
        gf_text_add(s->out, "<g><title>similarity %.2f to %.2f: %lld images", l->low + b * part, l->low + (b + 1) * part,
                    (long long)l->all[b]);
        if (s->labelled) gf_text_add(s->out, ", %lld of the same class", (long long)l->same[b]);
        gf_text_add(s->out, "</title><rect class=\"rest\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", x, all,
                    step - 1.0, same - all);
        if (l->same[b])
            gf_text_add(s->out, "<rect class=\"f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", GF_COLOUR_GLOFND, x,
                        same, step - 1.0, s->f->bottom - same);
        gf_text_add(s->out, "</g>\n");
    }
}

static void axes(const figure *s) {
    const gf_similarity_profile *l = s->profile;
    const layout *f = s->f;
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

/* ----- example images at their similarity ----- */

/* Images, shared by both layouts. */
static void load_others(figure *s) {
    gf_text_add(s->out, "<svg class=\"store\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\n");
    for (int k = 0; k < GF_GALLERY_EXAMPLES; k++) {
        const int64_t row = s->profile->row[k];
        if (row < 0 || !gf_page_image_load(&s->images, s->rows->id[row])) continue;
        s->drawn[k] = 1;
        gf_text_add(s->out,
                    "<symbol id=\"example-%d\" viewBox=\"0 0 1 1\"><image width=\"1\" height=\"1\" "
                    "preserveAspectRatio=\"xMidYMid slice\" href=\"",
                    k);
        gf_page_image_write(s->out, &s->images);
        gf_text_add(s->out, "\"/></symbol>\n");
    }
    gf_text_add(s->out, "</defs></svg>\n");
}

static void others(const figure *s) {
    const layout *f = s->f;
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

/* ----- figure ----- */

#define KEY(class)                                                                                                        \
    "<svg class=\"key\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"" class "\" width=\"10\" height=\"10\" " \
                                                                                         "rx=\"2\"/></svg>"

static void legend(const figure *s) {
    char name[200];
    if (!s->labelled) return;
    gf_snapshot_class(s->snapshot, s->rows->label[s->anchor->row], name, sizeof name);
    gf_text_add(s->out, "<p class=\"legend\"><span>" KEY("f%d") "same class: ", GF_COLOUR_GLOFND);
    gf_text_escape(s->out, name);
    gf_text_add(
        s->out,
        "</span> <span>" KEY(
            "rest") "other classes</span> <span class=\"faint\">Labels serve this comparison, not training.</span></p>\n");
}

static void draw_layout(figure *s, const layout *f) {
    s->f = f;
    gf_text_add(s->out,
                "<svg class=\"%s\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"similarities of all other images to one "
                "image\">\n",
                f->class, f->width, f->height);
    axes(s);
    others(s);
    bars(s);
    sides(s);
    gf_text_add(s->out, "</svg>\n");
}

static void draw(figure *s) {
    gf_text_add(s->out,
                "<figure class=\"example\"><figcaption>One image compared with %lld others</figcaption>\n<p class=\"note\">",
                (long long)s->profile->others);
    gf_text_add(s->out, "Every other image is placed by its similarity to this image. Images right of the learned threshold λ "
                        "count as false negatives and are left out of its loss.");
    if (s->labelled && s->choice > 1)
        gf_text_add(s->out, " Of the %d anchors below, this one has the largest share of correct flags.", s->choice);
    gf_text_add(s->out, "</p>\n");
    legend(s);
    load_others(s);
    gf_text_add(s->out, "<div class=\"scene\">");
    if (gf_page_image_load(&s->images, s->rows->id[s->anchor->row])) {
        gf_text_add(s->out, "<div class=\"pic anchor\"><img alt=\"the image\" src=\"");
        gf_page_image_write(s->out, &s->images);
        gf_text_add(s->out, "\"></div>\n");
    }
    for (int f = 0; f < 2; f++) draw_layout(s, &layouts[f]);
    gf_text_add(s->out, "</div></figure>\n");
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

void gf_section_example(gf_text *out, const gf_report *r, int group) {
    const gf_snapshot *l = group < 0 ? NULL : gf_group_snapshot(r, group);
    const gf_gallery_anchor *a = l && !l->clip ? choose_anchor(&l->side[0]) : NULL;
    size_t budget = GF_PAGE_IMAGES;
    if (!a) return;
    figure s = {.out = out,
                .snapshot = l,
                .rows = l->side[0].rows,
                .anchor = a,
                .profile = &a->profile,
                .images = {.data = l->data, .thumbnails = {.side = 64, .quality = 82}, .budget = &budget}};
    gf_plot_area plane = {0.0, 1.0, 0.0, 1.0};
    for (int b = 0; b < GF_GALLERY_BINS; b++) plane.y1 = fmax(plane.y1, (double)a->profile.all[b]);
    gf_plot_area_round(&plane);
    s.max = plane.y1, s.labelled = s.rows->label[a->row] >= 0, s.choice = l->side[0].anchors;
    draw(&s);
    gf_page_images_free(&s.images);
}
