/* section_maps.c - maps of the features: t-SNE and PCA, coloured by class. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot/base64.h"
#include "plot/svg_dots.h"
#include "report/page_parts.h"
#include "report/sprite_sheet.h"
#include "util/array.h"

typedef struct class_styles { /* the most frequent classes have styles of their own */
    int32_t label[GF_DOTS_CLASSES];
    char name[GF_DOTS_CLASSES][80];
    int classes, more;
    const gf_snapshot *sheet; /* snapshot of the sprite sheet; NULL: no sheet */
} class_styles;

static int64_t frequency(const gf_snapshot *l, int32_t label) {
    int64_t n = 0;
    for (int64_t i = 0; i < l->n; i++) n += l->label[i] == label;
    return n;
}

static int32_t largest_label(const gf_snapshot *l) {
    int32_t max = -1;
    for (int64_t i = 0; i < l->n; i++) max = GF_MAX(l->label[i], max);
    return max;
}

/* Most frequent first; ties: the smaller label. */
static void choose(const gf_snapshot *l, class_styles *k) {
    const int32_t last = GF_MIN(largest_label(l), 4096);
    int64_t count[GF_DOTS_CLASSES];
    *k = (class_styles){.classes = 0};
    for (int32_t label = 0; label <= last; label++) {
        const int64_t n = frequency(l, label);
        if (!n) continue;
        int at = k->classes < GF_DOTS_CLASSES ? k->classes++ : GF_DOTS_CLASSES;
        k->more += at == GF_DOTS_CLASSES;
        for (; at > 0 && n > count[at - 1]; at--)
            if (at < GF_DOTS_CLASSES) k->label[at] = k->label[at - 1], count[at] = count[at - 1];
        if (at < GF_DOTS_CLASSES) k->label[at] = label, count[at] = n;
    }
    for (int c = 0; c < k->classes; c++) gf_snapshot_class(l, k->label[c], k->name[c], sizeof k->name[c]);
}

/* True if both maps show the same samples. */
static int same_samples(const gf_snapshot *a, const gf_snapshot *b) {
    return a->n == b->n && memcmp(a->id, b->id, (size_t)a->n * sizeof *a->id) == 0;
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

static void draw(gf_text *out, const gf_snapshot *l, const class_styles *k, const double *y, const char *title,
                 const char *note) {
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
                                    .y = y,
                                    .style = style,
                                    .n = l->n,
                                    .names = names,
                                    .classes = k->classes,
                                    .numbered = k->sheet && same_samples(k->sheet, l)});
    free(style);
}

static void row_of_maps(gf_text *out, const gf_report *r, const class_styles *k, int pca) {
    char note[260];
    gf_text_add(out, "<div class=\"maps\">\n");
    for (int g = 0; g < gf_groups(r); g++) {
        const gf_snapshot *l = gf_group_snapshot(r, g);
        if (!l || !l->n) continue;
        if (pca)
            snprintf(note, sizeof note, "The two axes explain %.0f %% and %.0f %% of the variance.", 100.0 * l->pca_share[0],
                     100.0 * l->pca_share[1]);
        else if (isfinite(l->neighbours))
            snprintf(note, sizeof note, "%.1f\u00a0%% of nearest neighbours have the same class.", 100.0 * l->neighbours);
        else snprintf(note, sizeof note, "%lld images.", (long long)l->n);
        const size_t used = strlen(note);
        if (l->step >= 0) snprintf(note + used, sizeof note - used, " Weights of step %lld.", (long long)l->step);
        draw(out, l, k, pca ? l->pca : l->tsne, gf_snapshot_name(r, l), note);
    }
    gf_text_add(out, "</div>\n");
}

void gf_section_maps(gf_text *out, const gf_report *r) {
    class_styles k;
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
    choose(first, &k);
    for (int c = 0; c < k.classes; c++) names[c] = k.name[c];
    if (k.classes) gf_svg_dots_legend(out, names, k.classes);
    if (k.more) gf_text_add(out, "<p class=\"faint\">%d further classes in grey.</p>\n", k.more);
    if (add_sheet(out, first)) k.sheet = first;
    row_of_maps(out, r, &k, 0);
    gf_text_add(out, "<details open><summary>Principal components (PCA)</summary>\n");
    row_of_maps(out, r, &k, 1);
    gf_text_add(out, "</details>\n<p class=\"faint\">%lld of %lld images, chosen at random.%s</p>\n", (long long)first->n,
                (long long)first->total, k.sheet ? " Point at a dot to see its image." : "");
    gf_section_end(out);
}
