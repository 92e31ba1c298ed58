/* section_maps.c - embeddings as maps: t-SNE and principal axes, coloured by class. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/page_parts.h"
#include "report/svg_dots.h"

typedef struct looks {          /* which classes have a look of their own: the most frequent ones */
    int32_t label[GF_DOTS_CLASSES];
    char name[GF_DOTS_CLASSES][80];
    const char *names[GF_DOTS_CLASSES];
    int classes, more;
} looks;

static int64_t frequency(const gf_look *l, int32_t label) {
    int64_t n = 0;
    for (int64_t i = 0; i < l->n; i++) n += l->label[i] == label;
    return n;
}

static int32_t largest_label(const gf_look *l) {
    int32_t most = -1;
    for (int64_t i = 0; i < l->n; i++) most = l->label[i] > most ? l->label[i] : most;
    return most;
}

/* The most frequent first, of equally frequent ones the smaller label; then by label. */
static void choose(const gf_look *l, looks *k) {
    const int32_t last = largest_label(l) < 4096 ? largest_label(l) : 4096;
    int64_t count[GF_DOTS_CLASSES];
    *k = (looks){.classes = 0};
    for (int32_t label = 0; label <= last; label++) {
        const int64_t n = frequency(l, label);
        if (!n) continue;
        int at = k->classes < GF_DOTS_CLASSES ? k->classes++ : GF_DOTS_CLASSES;
        k->more += at == GF_DOTS_CLASSES;
        for (; at > 0 && n > count[at - 1]; at--)
            if (at < GF_DOTS_CLASSES) k->label[at] = k->label[at - 1], count[at] = count[at - 1];
        if (at < GF_DOTS_CLASSES) k->label[at] = label, count[at] = n;
    }
    for (int c = 0; c < k->classes; c++) {
        const char *name = gf_dataset_class(l->data, k->label[c]);
        if (name) snprintf(k->name[c], sizeof k->name[c], "%s", name);
        else snprintf(k->name[c], sizeof k->name[c], "class %d", (int)k->label[c]);
    }
}

static void draw(gf_text *out, const gf_look *l, const looks *k, const double *y, const char *title, const char *note) {
    int32_t *look = malloc((size_t)l->n * sizeof *look);
    const char *names[GF_DOTS_CLASSES];
    out->failed |= !look;
    for (int c = 0; c < k->classes; c++) names[c] = k->name[c];
    for (int64_t i = 0; look && i < l->n; i++) {
        look[i] = -1;
        for (int c = 0; c < k->classes; c++)
            if (l->label[i] == k->label[c]) look[i] = c;
    }
    if (look) gf_svg_dots(out, &(gf_dots){.title = title, .note = note, .y = y, .look = look, .n = l->n, .names = names, .classes = k->classes});
    free(look);
}

static void row_of_maps(gf_text *out, const gf_report *r, const looks *k, int pca) {
    char note[200];
    gf_text_add(out, "<div class=\"maps\">\n");
    for (int g = 0; g < gf_groups(r); g++) {
        const gf_look *l = gf_group_look(r, g);
        if (!l || !l->n) continue;
        if (pca) snprintf(note, sizeof note, "The two axes hold %.0f %% and %.0f %% of the variance.", 100.0 * l->pca_share[0],
                          100.0 * l->pca_share[1]);
        else if (isfinite(l->neighbours)) snprintf(note, sizeof note, "%.0f %% of nearest neighbours have the same class.", 100.0 * l->neighbours);
        else snprintf(note, sizeof note, "%lld images.", (long long)l->n);
        draw(out, l, k, pca ? l->pca : l->tsne, gf_look_name(r, l), note);
    }
    gf_text_add(out, "</div>\n");
}

void gf_section_maps(gf_text *out, const gf_report *r) {
    static looks k;
    const gf_look *first = NULL;
    const char *names[GF_DOTS_CLASSES];
    for (int g = 0; g < gf_groups(r) && !(first && first->n); g++) first = gf_group_look(r, g);
    gf_section_begin(out, "maps", "Maps of the embeddings",
                     "Each dot is an image; images that the backbone finds similar lie together (t-SNE). A good encoder makes islands of one "
                     "class, without ever having seen a label.");
    if (!first || !first->n) {
        gf_page_missing(out, "Maps need the network and its data:", "glofnd report RUN --data SPEC, without --quick");
        gf_section_end(out);
        return;
    }
    choose(first, &k);
    for (int c = 0; c < k.classes; c++) names[c] = k.name[c];
    gf_svg_dots_legend(out, names, k.classes);
    if (k.more) gf_text_add(out, "<p class=\"faint\">%d further classes in grey.</p>\n", k.more);
    row_of_maps(out, r, &k, 0);
    gf_text_add(out, "<details open><summary>The same by principal axes (PCA)</summary>\n");
    row_of_maps(out, r, &k, 1);
    gf_text_add(out, "</details>\n<p class=\"faint\">%lld of %lld images, drawn at random.</p>\n", (long long)first->n,
                (long long)first->total);
    gf_section_end(out);
}
