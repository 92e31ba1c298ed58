/* svg.c - see svg.h. */
#include "plot/svg.h"

#include <math.h>

enum { LEFT = GF_PLOT_LEFT, RIGHT = GF_PLOT_RIGHT, TOP = GF_PLOT_TOP, BOTTOM = GF_PLOT_BOTTOM };

static double x_of(const gf_chart *c, const gf_series *s, int64_t i) {
    if (s && s->x) return s->x[i];
    return c->x_step > 0.0 ? c->x_first + (double)i * c->x_step : (double)(i + 1);
}

/* ----- plot area ----- */

static void widen(gf_plot_area *f, double y) {
    if (!isfinite(y)) return;
    f->y0 = fmin(f->y0, y);
    f->y1 = fmax(f->y1, y);
}

static void include(const gf_chart *c, const gf_series *s, gf_plot_area *f) {
    for (int64_t i = 0; i < s->n && !s->vertical; i++) {
        widen(f, s->y[i]);
        if (s->low) widen(f, s->low[i]), widen(f, s->high[i]);
        if (s->x) f->x0 = fmin(f->x0, s->x[i]), f->x1 = fmax(f->x1, s->x[i]);
    }
    if (s->vertical) f->x0 = fmin(f->x0, s->at), f->x1 = fmax(f->x1, s->at);
    if (!s->x) f->x1 = fmax(f->x1, x_of(c, NULL, s->n - 1));
}

static int any_vertical(const gf_chart *c) {
    int any = 0;
    for (int s = 0; s < c->count; s++) any |= c->series[s].vertical;
    return any;
}

/* 0: nothing to show. */
static int find_area(const gf_chart *c, gf_plot_area *f) {
    const int own = c->count && c->series[0].x;
    *f = (gf_plot_area){own ? INFINITY : x_of(c, NULL, 0), own ? -INFINITY : x_of(c, NULL, 1), INFINITY, -INFINITY};
    for (int s = 0; s < c->count; s++) include(c, &c->series[s], f);
    if (f->y0 > f->y1 && any_vertical(c)) widen(f, 0.0);
    if (f->y0 > f->y1) return 0;
    if (!(f->x1 > f->x0)) f->x0 -= 0.5, f->x1 = f->x0 + 1.0;
    widen(f, c->level);
    if (c->from_zero) widen(f, 0.0);
    gf_plot_area_round(f);
    return 1;
}

/* ----- drawing ----- */

/* Levels and events are named in the legend: in the plot area their names would cover lines. */
static void draw_level(gf_text *out, const gf_chart *c, const gf_plot_area *f) {
    if (isfinite(c->level)) gf_text_add(out, "<path class=\"level\" d=\"M%d %.1fH%d\"/>\n", LEFT, gf_plot_y(f, c->level), RIGHT);
}

static int event_visible(const gf_chart *c, const gf_plot_area *f) {
    return c->event != 0.0 && c->event >= f->x0 && c->event <= f->x1;
}

static void draw_event(gf_text *out, const gf_chart *c, const gf_plot_area *f) {
    if (event_visible(c, f)) gf_text_add(out, "<path class=\"level\" d=\"M%.1f %dV%d\"/>\n", gf_plot_x(f, c->event), TOP, BOTTOM);
}

static void draw_vertical(gf_text *out, const gf_series *s, const gf_plot_area *f) {
    gf_text_add(out, "<path class=\"line c%d\" d=\"M%.1f %dV%d\"><title>", s->colour % GF_COLOURS, gf_plot_x(f, s->at), BOTTOM,
                TOP);
    gf_text_escape(out, s->name);
    gf_text_add(out, "</title></path>\n");
}

static int alone(const gf_series *s, int64_t i) {
    return (i == 0 || !isfinite(s->y[i - 1])) && (i + 1 == s->n || !isfinite(s->y[i + 1]));
}

static void draw_band(gf_text *out, const gf_chart *c, const gf_series *s, const gf_plot_area *f) {
    if (!s->low && !s->filled) return;
    int down = 0;
    gf_text_add(out, "<path class=\"band f%d\" d=\"", s->colour % GF_COLOURS);
    for (int64_t i = 0; i < s->n; i++) {
        const double top = s->low ? s->high[i] : s->y[i];
        if (isfinite(top)) gf_text_add(out, "%s%.1f %.1f", down++ ? "L" : "M", gf_plot_x(f, x_of(c, s, i)), gf_plot_y(f, top));
    }
    for (int64_t i = s->n - 1; i >= 0; i--) {
        const double top = s->low ? s->high[i] : s->y[i], base = s->low ? s->low[i] : f->y0;
        if (isfinite(top)) gf_text_add(out, "L%.1f %.1f", gf_plot_x(f, x_of(c, s, i)), gf_plot_y(f, base));
    }
    gf_text_add(out, "Z\"/>\n");
}

/* Values for the box at the pointer. */
static void add_values(gf_text *out, const gf_chart *c, const gf_series *s) {
    gf_text_add(out, " data-name=\"");
    gf_text_escape(out, s->name);
    gf_text_add(out, "\" data-x=\"");
    for (int64_t i = 0; i < s->n; i++) gf_text_add(out, i ? ",%.6g" : "%.6g", x_of(c, s, i));
    gf_text_add(out, "\" data-y=\"");
    for (int64_t i = 0; i < s->n; i++) {
        if (i) gf_text_add(out, ",");
        if (isfinite(s->y[i])) gf_text_add(out, "%.6g", s->y[i]);
    }
    gf_text_add(out, "\"");
}

/* A gap in the values is a gap in the line; a value between two gaps is a dot. */
static void draw_series(gf_text *out, const gf_chart *c, const gf_series *s, const gf_plot_area *f, int values) {
    int down = 0;
    const int dash = s->dash ? s->dash : s->colour / GF_COLOURS % 3;
    gf_text_add(out, "<path class=\"line c%d d%d\"", s->colour % GF_COLOURS, dash);
    if (values) add_values(out, c, s);
    gf_text_add(out, " d=\"");
    for (int64_t i = 0; i < s->n; i++) {
        const int seen = isfinite(s->y[i]);
        if (seen) gf_text_add(out, "%s%.1f %.1f", down ? "L" : "M", gf_plot_x(f, x_of(c, s, i)), gf_plot_y(f, s->y[i]));
        if (seen && alone(s, i)) gf_text_add(out, "h.01");
        down = seen;
    }
    gf_text_add(out, "\"><title>");
    gf_text_escape(out, s->name);
    gf_text_add(out, "</title></path>\n");
    for (int64_t i = 0; i < s->n; i++)
        if (isfinite(s->y[i]) && (c->marked || alone(s, i)))
            gf_text_add(out, "<path class=\"line mark c%d\" d=\"M%.1f %.1fh.01\"><title>%g: %.4g</title></path>",
                        s->colour % GF_COLOURS, gf_plot_x(f, x_of(c, s, i)), gf_plot_y(f, s->y[i]), x_of(c, s, i), s->y[i]);
}

static void draw_all(gf_text *out, const gf_chart *c, const gf_plot_area *f, int values) {
    gf_plot_y_axis(out, f, c->y_name);
    gf_plot_x_axis(out, f, c->x_name, !(c->x_step > 0.0) && !(c->count && c->series[0].x));
    draw_event(out, c, f);
    draw_level(out, c, f);
    for (int s = 0; s < c->count; s++)
        if (!c->series[s].vertical) draw_band(out, c, &c->series[s], f);
    for (int s = 0; s < c->count; s++) {
        if (c->series[s].vertical) draw_vertical(out, &c->series[s], f);
        else draw_series(out, c, &c->series[s], f, values);
    }
}

/* ----- figure of a page ----- */

void gf_figure_begin(gf_text *out, const char *title, const char *note) {
    gf_text_add(out, "<figure><figcaption>");
    gf_text_escape(out, title);
    gf_text_add(out, "</figcaption>\n");
    if (!note) return;
    gf_text_add(out, "<p class=\"note\">");
    gf_text_escape(out, note);
    gf_text_add(out, "</p>\n");
}

void gf_figure_empty(gf_text *out, const char *why) { gf_text_add(out, "<p class=\"none\">%s</p></figure>\n", why); }

static void dashed_key(gf_text *out, const char *piece, const char *name) {
    gf_text_add(out,
                "<span><svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"level\" d=\"%s\"/>"
                "</svg>",
                piece);
    gf_text_escape(out, name);
    gf_text_add(out, "</span> ");
}

static void draw_legend(gf_text *out, const gf_chart *c, const gf_plot_area *f) {
    gf_text_add(out, "<p class=\"legend\">");
    for (int s = 0; s < c->count; s++) {
        gf_text_add(out, "<span>");
        gf_svg_swatch(out, c->series[s].dash ? c->series[s].colour % GF_COLOURS + GF_COLOURS * c->series[s].dash
                                             : c->series[s].colour);
        gf_text_escape(out, c->series[s].name);
        gf_text_add(out, "</span> ");
    }
    if (isfinite(c->level)) dashed_key(out, "M1 4H23", c->level_name);
    if (event_visible(c, f)) dashed_key(out, "M12 -4V12", c->event_name);
    gf_text_add(out, "</p>\n");
}

void gf_svg_chart(gf_text *out, const gf_chart *c) {
    gf_plot_area f;
    gf_figure_begin(out, c->title, c->note);
    if (!find_area(c, &f)) {
        gf_figure_empty(out, c->missing ? c->missing : "No values: not measured by any run.");
        return;
    }
    draw_legend(out, c, &f);
    gf_text_add(out,
                "<svg class=\"plot\" viewBox=\"0 %d %d %d\" data-x0=\"%.8g\" data-x1=\"%.8g\" data-y0=\"%.8g\" data-y1=\"%.8g\""
                " data-unit=\"",
                GF_PLOT_ABOVE, GF_PLOT_WIDTH, GF_PLOT_HEIGHT, f.x0, f.x1, f.y0, f.y1);
    gf_text_escape(out, c->x_name);
    gf_text_add(out, "\" role=\"img\" aria-label=\"");
    gf_text_escape(out, c->title);
    gf_text_add(out, "\">\n");
    draw_all(out, c, &f, 1);
    gf_text_add(out, "</svg></figure>\n");
}

/* ----- file ----- */

void gf_svg_file(gf_text *out, const gf_chart *c) {
    gf_plot_area f;
    gf_text_add(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-6 %d %d %d\" font-family=\"sans-serif\">\n<style>",
                GF_PLOT_ABOVE, GF_PLOT_WIDTH + 6, GF_PLOT_HEIGHT + 22 * (c->count + 1));
    gf_svg_file_style(out);
    gf_text_add(out, "</style>\n<rect x=\"-6\" y=\"%d\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", GF_PLOT_ABOVE);
    if (find_area(c, &f)) draw_all(out, c, &f, 0);
    for (int s = 0; s < c->count; s++) {
        const int y = GF_PLOT_BELOW + 22 * (s + 1);
        gf_text_add(out, "<path class=\"line c%d d%d\" d=\"M%d %dh24\"/>", c->series[s].colour % GF_COLOURS,
                    c->series[s].colour / GF_COLOURS % 3, LEFT, y);
        gf_text_add(out, "<text class=\"name\" x=\"%d\" y=\"%d\">", LEFT + 32, y + 4);
        gf_text_escape(out, c->series[s].name);
        gf_text_add(out, "</text>\n");
    }
    gf_text_add(out, "<title>");
    gf_text_escape(out, c->title);
    gf_text_add(out, "</title></svg>\n");
}
