/* section_gallery.c - anchors and the samples flagged for them, as images or as captions. */
#include <math.h>
#include <stdio.h>

#include "report/page_image.h"
#include "report/page_parts.h"

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

static void image(gallery *a, int64_t row, int kind, float similarity) {
    char name[200];
    if (!gf_page_image_load(&a->images, a->rows->id[row])) return;
    gf_snapshot_class(a->snapshot, a->rows->label[row], name, sizeof name);
    gf_text_add(a->out, "<div class=\"pic %s\"><img alt=\"", class_of(kind));
    gf_text_escape(a->out, name);
    gf_text_add(a->out, "\" title=\"");
    gf_text_escape(a->out, name);
    if (isfinite(similarity)) gf_text_add(a->out, ", similarity %.3f", (double)similarity);
    gf_text_add(a->out, "\" src=\"");
    gf_page_image_write(a->out, &a->images);
    gf_text_add(a->out, "\">%s</div>", mark_of(kind));
}

static void caption(gallery *a, int64_t row, int kind, float similarity) {
    char text[240];
    gf_snapshot_caption(a->snapshot, a->rows->id[row], text, sizeof text);
    gf_text_add(a->out, "<p class=\"caption %s\"", class_of(kind));
    if (isfinite(similarity)) gf_text_add(a->out, " title=\"similarity %.3f\"", (double)similarity);
    gf_text_add(a->out, ">%s", mark_of(kind));
    gf_text_escape(a->out, text);
    gf_text_add(a->out, "</p>");
}

static int kind_of(const gf_view_set *s, int64_t anchor, int64_t row) {
    if (s->label[anchor] < 0) return UNKNOWN;
    return s->label[anchor] == s->label[row] ? CORRECT : WRONG;
}

static void flagged_by(gallery *a, const gf_gallery_anchor *x, int detector) {
    const gf_flagged_samples *f = &x->by[detector];
    const int as_text = a->snapshot->clip && a->side == 0;
    gf_text_add(a->out, "<div><p><b>%s</b>", detector ? "FNC" : "GloFND");
    if (detector == 0 && isnan(x->lambda)) gf_text_add(a->out, ": no threshold learned");
    else if (a->rows->label[x->row] >= 0)
        gf_text_add(a->out, ": %lld flagged, %lld correct", (long long)f->count, (long long)f->right);
    else gf_text_add(a->out, ": %lld flagged", (long long)f->count);
    if (detector == 0 && isfinite(x->lambda)) gf_text_add(a->out, " (λ = %.3f)", (double)x->lambda);
    gf_text_add(a->out, "</p><div class=\"%s\">", as_text ? "captions" : "strip");
    for (int k = 0; k < f->shown; k++)
        (as_text ? caption : image)(a, f->row[k], kind_of(a->rows, x->row, f->row[k]), f->similarity[k]);
    gf_text_add(a->out, "</div></div>");
}

static void anchor(gallery *a, const gf_gallery_anchor *x) {
    char name[200];
    gf_text_add(a->out, "<div class=\"row\"><div><p>anchor");
    if (a->rows->label[x->row] >= 0) {
        gf_snapshot_class(a->snapshot, a->rows->label[x->row], name, sizeof name);
        gf_text_add(a->out, ": ");
        gf_text_escape(a->out, name);
    }
    gf_text_add(a->out, "</p>");
    (a->side ? caption : image)(a, x->row, ANCHOR, NAN);
    if (a->snapshot->clip) { /* the other side of the sample */
        gf_text_add(a->out, "<p class=\"own\">its own %s:</p>", a->side ? "image" : "caption");
        (a->side ? image : caption)(a, x->row, UNKNOWN, NAN);
    }
    gf_text_add(a->out, "</div>");
    for (int d = 0; d < 2; d++) flagged_by(a, x, d);
    gf_text_add(a->out, "</div>\n");
}

static void show(gf_text *out, const gf_snapshot *l, int side, size_t *budget) {
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
    for (int i = 0; i < s->anchors; i++) anchor(&a, &s->anchor[i]);
    gf_text_add(out, "</div>\n");
    if (a.images.left_out)
        gf_text_add(out, "<p class=\"faint\">%d images are left out: unreadable, or over the limit of %zu kB.</p>\n",
                    a.images.left_out, GF_PAGE_IMAGES / 1000);
    gf_page_images_free(&a.images);
}

/* Groups with learned thresholds come first. */
static int rank(const gf_snapshot *l) { return l && l->side[0].anchors ? (l->side[0].learned ? 2 : 1) : 0; }

static void gallery_of(gf_text *out, const gf_report *r, int g, size_t *budget, int folded) {
    const gf_snapshot *l = gf_group_snapshot(r, g);
    gf_text_add(out, folded ? "<details><summary>" : "<h3>");
    gf_text_add(out, "Network of ");
    gf_text_escape(out, gf_snapshot_name(r, l));
    gf_text_add(out, folded ? "</summary>\n" : "</h3>\n");
    for (int s = 0; s < l->sides; s++) show(out, l, s, budget);
    if (folded) gf_text_add(out, "</details>\n");
}

static void empty_gallery(gf_text *out, const gf_report *r) {
    if (r->snapshots && *r->snapshots[0].why) gf_page_missing(out, "The network could not be applied:", r->snapshots[0].why);
    else if (r->snapshots && r->snapshots[0].made)
        gf_text_add(out, "<p class=\"none\">No pair of the chosen samples is flagged.</p>\n");
    else gf_page_missing(out, "Images need the network and its data:", "glofnd report RUN --data SPEC, without --quick");
}

static const char of_images[] =
    "Random anchor images, and images that a detector flags as false negatives of the anchor, with the trained network. GloFND "
    "flags images above the learned threshold λ of the anchor; FNC flags a fixed share of every batch. Each row has a random "
    "selection of the flagged images.";
static const char of_pairs[] =
    "Random anchors, and captions or images of other samples that a detector flags as false negatives of the anchor, with the "
    "trained network. GloFND flags those above the learned threshold λ of the anchor; FNC flags a fixed share of every batch. "
    "Each row has a random selection of the flagged captions or images.";

void gf_section_gallery(gf_text *out, const gf_report *r) {
    size_t budget = GF_PAGE_IMAGES;
    int best = -1;
    int labelled = 0;
    gf_section_begin(out, "found", "Flagged samples", gf_is_clip(r) ? of_pairs : of_images);
    for (int g = 0; g < gf_groups(r); g++) {
        const gf_snapshot *l = gf_group_snapshot(r, g);
        labelled |= l && isfinite(l->neighbours);
    }
    if (labelled) gf_text_add(out, "<p>Labels show which flags are correct: ✓ same class, ✗ different class.</p>\n");
    for (int g = 0; g < gf_groups(r); g++)
        if (rank(gf_group_snapshot(r, g)) > (best < 0 ? 0 : rank(gf_group_snapshot(r, best)))) best = g;
    if (best < 0) empty_gallery(out, r);
    else gallery_of(out, r, best, &budget, 0);
    for (int g = 0; g < gf_groups(r); g++)
        if (g != best && rank(gf_group_snapshot(r, g)) == 2) gallery_of(out, r, g, &budget, 1);
    gf_section_end(out);
}
