/* section_gallery.c - anchors and the false negatives found for them, as pictures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/base64.h"
#include "report/page_parts.h"
#include "report/thumbnail.h"

typedef struct album {
    gf_text *out;
    const gf_look *look;
    gf_thumbnails thumbs;
    gf_sample sample;
    size_t *bytes;              /* of pictures so far, of the whole page */
    int left_out;
} album;

/* A small JPEG of a sample, PNG where the build has no JPEG; 0: there is none. */
static int encode(album *a, int64_t row, uint8_t **bytes, size_t *size, const char **type) {
    gf_error err = {{0}};
    *type = "jpeg";
    if (gf_dataset_read(&err, a->look->data, a->look->set.id[row], NULL, &a->sample) != GLOFND_OK) return 0;
    const glofnd_status status = gf_thumbnail(&err, &a->thumbs, &a->sample.image, bytes, size);
    if (status == GLOFND_OK) return 1;
    const gf_image *image = a->thumbs.small.rgb ? &a->thumbs.small : &a->sample.image;
    *type = "png";
    return status == GLOFND_E_UNSUPPORTED && gf_image_encode_png(&err, image, bytes, size) == GLOFND_OK;
}

/* kind: 0 an anchor, 1 right, -1 wrong, 2 not known. */
static void picture(album *a, int64_t row, int kind, float similarity) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    const char *type;
    char name[200];
    if (*a->bytes > GF_PAGE_IMAGES || !encode(a, row, &bytes, &size, &type)) {
        a->left_out++;
        return;
    }
    *a->bytes += GF_BASE64_BYTES(size);
    gf_look_class(a->look, a->look->set.label[row], name, sizeof name);
    gf_text_add(a->out, "<div class=\"pic %s\"><img alt=\"", kind == 0 ? "anchor" : kind == 1 ? "yes" : kind < 0 ? "no" : "");
    gf_text_escape(a->out, name);
    gf_text_add(a->out, "\" title=\"");
    gf_text_escape(a->out, name);
    if (isfinite(similarity)) gf_text_add(a->out, ", similarity %.3f", (double)similarity);
    gf_text_add(a->out, "\" src=\"data:image/%s;base64,", type);
    gf_text_base64(a->out, bytes, size);
    gf_text_add(a->out, "\">%s</div>", kind == 1 ? "<span>✓</span>" : kind == -1 ? "<span>✗</span>" : "");
    free(bytes);
}

static int kind_of(const gf_look *l, int64_t anchor, int64_t row) {
    if (l->set.label[anchor] < 0) return 2;
    return l->set.label[anchor] == l->set.label[row] ? 1 : -1;
}

static void strip(album *a, const gf_anchor *x, int detector) {
    const gf_flagged *f = &x->by[detector];
    gf_text_add(a->out, "<div><p><b>%s</b>", detector ? "FNC" : "GloFND");
    if (detector == 0 && isnan(x->lambda)) gf_text_add(a->out, ": this run learned no threshold");
    else if (a->look->set.label[x->row] >= 0)
        gf_text_add(a->out, ": %lld flagged, %lld right", (long long)f->count, (long long)f->right);
    else gf_text_add(a->out, ": %lld flagged", (long long)f->count);
    if (detector == 0 && isfinite(x->lambda)) gf_text_add(a->out, " (λ = %.3f)", (double)x->lambda);
    gf_text_add(a->out, "</p><div class=\"strip\">");
    for (int k = 0; k < f->shown; k++) picture(a, f->row[k], kind_of(a->look, x->row, f->row[k]), f->similarity[k]);
    gf_text_add(a->out, "</div></div>");
}

static void show(gf_text *out, const gf_look *l, size_t *bytes) {
    album a = {.out = out, .look = l, .thumbs = {.side = 64, .quality = 82}, .bytes = bytes};
    gf_text_add(out, "<div class=\"rows\">\n");
    for (int i = 0; i < l->anchors; i++) {
        char name[200];
        gf_look_class(l, l->set.label[l->anchor[i].row], name, sizeof name);
        gf_text_add(out, "<div class=\"row\"><div><p>anchor: ");
        gf_text_escape(out, name);
        gf_text_add(out, "</p>");
        picture(&a, l->anchor[i].row, 0, NAN);
        gf_text_add(out, "</div>");
        for (int d = 0; d < 2; d++) strip(&a, &l->anchor[i], d);
        gf_text_add(out, "</div>\n");
    }
    gf_text_add(out, "</div>\n");
    if (a.left_out)
        gf_text_add(out, "<p class=\"faint\">%d pictures left out: unreadable, or above the %zu kB that a page may hold.</p>\n",
                    a.left_out, GF_PAGE_IMAGES / 1000);
    gf_thumbnails_free(&a.thumbs);
    gf_sample_free(&a.sample);
}

/* Whose thresholds are shown first: a group that learned some. */
static int rank(const gf_look *l) { return l && l->anchors ? (l->learned ? 2 : 1) : 0; }

static void gallery_of(gf_text *out, const gf_report *r, int g, size_t *bytes, int folded) {
    const gf_look *l = gf_group_look(r, g);
    gf_text_add(out, folded ? "<details><summary>" : "<h3>");
    gf_text_add(out, "Network of ");
    gf_text_escape(out, gf_look_name(r, l));
    gf_text_add(out, folded ? "</summary>\n" : "</h3>\n");
    show(out, l, bytes);
    if (folded) gf_text_add(out, "</details>\n");
}

void gf_section_gallery(gf_text *out, const gf_report *r) {
    size_t bytes = 0;
    int best = -1;
    gf_section_begin(
        out, "found", "What was found",
        "Images drawn at random, and images that a detector takes for the same thing, by the trained network. GloFND compares "
        "with the image's own learned threshold λ; FNC must flag the same share of every batch. Labels judge: ✓ the same class, "
        "✗ another one. Shown are random ones of those flagged.");
    for (int g = 0; g < gf_groups(r); g++)
        if (rank(gf_group_look(r, g)) > (best < 0 ? 0 : rank(gf_group_look(r, best)))) best = g;
    if (best < 0 && r->looks && *r->looks[0].why) gf_page_missing(out, "Nothing to look at:", r->looks[0].why);
    else if (best < 0 && r->looks && r->looks[0].clip)
        gf_text_add(out,
                    "<p class=\"none\">Image-text runs compare images with texts; there are no pairs of images to show.</p>\n");
    else if (best < 0 && r->looks && r->looks[0].made)
        gf_text_add(out, "<p class=\"none\">Nothing is flagged among the images looked at.</p>\n");
    else if (best < 0)
        gf_page_missing(out, "Pictures need the network and its data:", "glofnd report RUN --data SPEC, without --quick");
    if (best >= 0) gallery_of(out, r, best, &bytes, 0);
    for (int g = 0; g < gf_groups(r); g++)
        if (g != best && rank(gf_group_look(r, g)) == 2) gallery_of(out, r, g, &bytes, 1);
    gf_section_end(out);
}
