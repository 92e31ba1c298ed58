/* svg_dots.c - see svg_dots.h. A class is one path of zero-length lines, drawn as dots by round caps: few bytes per point. */
#include "plot/svg_dots.h"

#include <math.h>

enum { SIDE = 400, MARGIN = 14 };

/* Positions of one class as a path. */
static void points_of(gf_text *out, const gf_dots *d, int32_t style, const double low[2], double scale) {
    for (int64_t i = 0; i < d->n; i++)
        if (d->style[i] == style)
            gf_text_add(out, "M%.1f %.1fh0", MARGIN + (d->y[2 * i] - low[0]) * scale,
                        MARGIN + (d->y[2 * i + 1] - low[1]) * scale);
}

static int any(const gf_dots *d, int32_t style) {
    for (int64_t i = 0; i < d->n; i++)
        if (d->style[i] == style) return 1;
    return 0;
}

static void numbers_of(gf_text *out, const gf_dots *d, int32_t style) {
    const char *comma = "";
    gf_text_add(out, " data-i=\"");
    for (int64_t i = 0; i < d->n; i++)
        if (d->style[i] == style) gf_text_add(out, "%s%lld", comma, (long long)i), comma = ",";
    gf_text_add(out, "\"");
}

static void draw_class(gf_text *out, const gf_dots *d, int32_t style, const double low[2], double scale) {
    if (!any(d, style)) return;
    if (style < 0) gf_text_add(out, "<path class=\"dot rest\"");
    else gf_text_add(out, "<path class=\"dot c%d\"", style % GF_COLOURS);
    if (d->numbered) numbers_of(out, d, style);
    gf_text_add(out, " d=\"");
    points_of(out, d, style, low, scale);
    gf_text_add(out, "\"><title>");
    gf_text_escape(out, style >= 0 && style < d->classes ? d->names[style] : d->classes ? "other classes" : "no label");
    gf_text_add(out, "</title></path>\n");
    if (style < GF_COLOURS) return;
    gf_text_add(out, "<path class=\"dot hole\" d=\"");
    points_of(out, d, style, low, scale);
    gf_text_add(out, "\"/>\n");
}

void gf_svg_dots(gf_text *out, const gf_dots *d) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (int64_t i = 0; i < 2 * d->n; i++) low[i & 1] = fmin(low[i & 1], d->y[i]), high[i & 1] = fmax(high[i & 1], d->y[i]);
    const double span = fmax(high[0] - low[0], high[1] - low[1]), scale = span > 0.0 ? (SIDE - 2 * MARGIN) / span : 1.0;
    for (int c = 0; c < 2; c++) low[c] -= 0.5 * (span - (high[c] - low[c]));
    gf_figure_begin(out, d->title, d->note);
    gf_text_add(out, "<svg class=\"map\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", SIDE, SIDE);
    gf_text_escape(out, d->title);
    gf_text_add(out, "\">\n");
    for (int32_t style = -1; style < GF_DOTS_CLASSES; style++) draw_class(out, d, style, low, scale);
    gf_text_add(out, "</svg></figure>\n");
}

void gf_svg_dots_legend(gf_text *out, const char *const *names, int classes) {
    gf_text_add(out, "<p class=\"legend\">");
    for (int k = 0; k < classes; k++) {
        gf_text_add(out,
                    "<span><svg class=\"key\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><path class=\"dot c%d\" d=\"M5 5h0\"/>",
                    k % GF_COLOURS);
        if (k >= GF_COLOURS) gf_text_add(out, "<path class=\"dot hole\" d=\"M5 5h0\"/>");
        gf_text_add(out, "</svg>");
        gf_text_escape(out, names[k]);
        gf_text_add(out, "</span> ");
    }
    gf_text_add(out, "</p>\n");
}
