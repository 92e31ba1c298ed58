/* svg_bars.c - see svg_bars.h. */
#include "plot/svg_bars.h"

#include <math.h>
#include <stdio.h>

enum { LEFT = GF_PLOT_LEFT, RIGHT = GF_PLOT_RIGHT, BOTTOM = GF_PLOT_BOTTOM };

static void key(gf_text *out, const char *class, const char *name) {
    gf_text_add(out,
                "<span><svg class=\"key\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"%s\" width=\"10\" "
                "height=\"10\" rx=\"2\"/></svg>",
                class);
    gf_text_escape(out, name);
    gf_text_add(out, "</span> ");
}

/* The value over a bar. A wide bar has two texts, of which a narrow window shows the "brief" one, without decimals. */
static void bar_value(gf_text *out, const char *class, double middle, double top, double x, int digits) {
    gf_text_add(out, "<text class=\"tick%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.*f</text>\n", class, middle,
                top - 4.0, digits, x);
}

static void bar(gf_text *out, const gf_bars *b, const gf_plot_area *f, int g, int k, double left, double width) {
    const double x = b->value[g][k], s = b->spread[g][k], top = gf_plot_y(f, x);
    if (!isfinite(x)) return;
    gf_text_add(out, "<rect class=\"f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"1.5\"><title>",
                b->colour[k] % GF_COLOURS, left, top, width, BOTTOM - top);
    gf_text_escape(out, b->name[k]);
    gf_text_add(out, ", ");
    gf_text_escape(out, b->group[g]);
    if (s > 0.0) gf_text_add(out, ": %.2f ± %.2f</title></rect>", x, s);
    else gf_text_add(out, ": %.2f</title></rect>", x);
    const double high = s > 0.0 ? gf_plot_y(f, x + s) : top;
    if (s > 0.0)
        gf_text_add(out, "<path class=\"whisker\" d=\"M%.1f %.1fV%.1f\"/>", left + 0.5 * width, high, gf_plot_y(f, x - s));
    if (width >= 27.0) bar_value(out, " long", left + 0.5 * width, high, x, 1);
    if (width >= 15.0) bar_value(out, width < 27.0 ? "" : " brief", left + 0.5 * width, high, x, 0);
}

void gf_svg_bars(gf_text *out, const gf_bars *b) {
    gf_plot_area f = {0.0, b->groups, 0.0, -INFINITY};
    gf_figure_begin(out, b->title, b->note);
    for (int g = 0; g < b->groups; g++)
        for (int k = 0; k < b->each; k++)
            if (isfinite(b->value[g][k])) f.y1 = fmax(f.y1, b->value[g][k] + (b->spread[g][k] > 0.0 ? b->spread[g][k] : 0.0));
    if (!(f.y1 > -INFINITY)) {
        gf_figure_empty(out, b->missing);
        return;
    }
    gf_plot_area_round(&f);
    gf_text_add(out, "<p class=\"legend\">");
    for (int k = 0; k < b->each; k++) {
        char class[8];
        snprintf(class, sizeof class, "f%d", b->colour[k] % GF_COLOURS);
        key(out, class, b->name[k]);
    }
    gf_text_add(out, "</p>\n<svg viewBox=\"0 %d %d %d\" role=\"img\" aria-label=\"", GF_PLOT_ABOVE, GF_PLOT_WIDTH,
                GF_PLOT_HEIGHT);
    gf_text_escape(out, b->title);
    gf_text_add(out, "\">\n");
    gf_plot_y_axis(out, &f, b->y_name);
    const double group = (double)(RIGHT - LEFT) / b->groups, width = fmin(46.0, 0.8 * group / b->each);
    for (int g = 0; g < b->groups; g++) {
        const double middle = LEFT + (g + 0.5) * group;
        for (int k = 0; k < b->each; k++) bar(out, b, &f, g, k, middle + (k - 0.5 * b->each) * width + 1.0, width - 2.0);
        gf_text_add(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", middle, BOTTOM + 20);
        gf_text_escape(out, b->group[g]);
        gf_text_add(out, "</text>\n");
    }
    gf_text_add(out, "<path class=\"axis\" d=\"M%d %dH%d\"/>", LEFT, BOTTOM, RIGHT);
    gf_plot_x_name(out, b->x_name);
    gf_text_add(out, "</svg></figure>\n");
}

/* ----- stacked bars ----- */

static double total_of(const gf_stacked_row *r, int parts) {
    double sum = 0.0;
    for (int p = 0; p < parts; p++) sum += isfinite(r->part[p]) ? r->part[p] : 0.0;
    return sum;
}

/* Three significant digits, or an integer. */
static void amount(double x, const char *unit, char out[48]) { snprintf(out, 48, x < 999.5 ? "%.3g %s" : "%.0f %s", x, unit); }

/* Class of a part: a colour of the palette, or that of the rest. */
static void part_class(const gf_stacked_chart *s, int part, char out[8]) {
    if (part == s->rest) snprintf(out, 8, "rest");
    else snprintf(out, 8, "f%d", part % GF_COLOURS);
}

static void split_row(gf_text *out, const gf_stacked_chart *s, const gf_stacked_row *r, double max, int y) {
    const double total = total_of(r, s->part_count), scale = 504.0 / max;
    char class[8], text[48];
    double at = 8.0;
    gf_text_add(out, "<text class=\"name\" x=\"8\" y=\"%d\">", y + 12);
    gf_text_escape(out, r->name);
    if (total > 0.0) amount(total, s->unit, text);
    else snprintf(text, sizeof text, "not recorded");
    gf_text_add(out, "</text><text class=\"tick\" x=\"512\" y=\"%d\" text-anchor=\"end\">%s</text>", y + 12, text);
    for (int p = 0; p < s->part_count; p++) {
        const double x = isfinite(r->part[p]) ? r->part[p] : 0.0, width = x * scale;
        if (width <= 0.0) continue;
        part_class(s, p, class);
        amount(x, s->unit, text);
        gf_text_add(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"22\">", class, at, y + 20, width);
        gf_text_add(out, "<title>%s: %s, %.1f %%</title></rect>", s->parts[p], text, 100.0 * x / total);
        at += width;
    }
    gf_text_add(out, "\n");
}

void gf_svg_stacked(gf_text *out, const gf_stacked_chart *s) {
    double max = 0.0;
    char class[8];
    for (int i = 0; i < s->count; i++) max = fmax(max, total_of(&s->rows[i], s->part_count));
    gf_figure_begin(out, s->title, s->note);
    if (!(max > 0.0)) {
        gf_figure_empty(out, s->missing);
        return;
    }
    gf_text_add(out, "<p class=\"legend\">");
    for (int p = 0; p < s->part_count; p++) {
        part_class(s, p, class);
        key(out, class, s->parts[p]);
    }
    gf_text_add(out, "</p>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", GF_PLOT_WIDTH, 58 * s->count,
                s->title);
    for (int i = 0; i < s->count; i++) split_row(out, s, &s->rows[i], max, 58 * i);
    gf_text_add(out, "</svg></figure>\n");
}
