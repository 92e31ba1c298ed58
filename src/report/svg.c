/* svg.c - see svg.h. Positions are in the units of the view box, one decimal. */
#include "report/svg.h"

#include <math.h>

enum { WIDTH = 520, HEIGHT = 280, LEFT = 56, RIGHT = 508, TOP = 14, BOTTOM = 234 };

typedef struct frame {          /* what part of the plane is seen */
    double x0, x1, y0, y1;
} frame;

/* Where value i of a series lies. */
static double x_of(const gf_chart *c, int64_t i) {
    return c->x_step > 0.0 ? c->x_first + (double)i * c->x_step : (double)(i + 1);
}

static double px(const frame *f, double x) { return LEFT + (x - f->x0) / (f->x1 - f->x0) * (RIGHT - LEFT); }
static double py(const frame *f, double y) { return BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (BOTTOM - TOP); }

double gf_tick_step(double low, double high, int most) {
    const double raw = (high - low) / most, power = pow(10.0, floor(log10(raw)));
    const double steps[] = {1.0, 2.0, 5.0};
    if (!(raw > 0.0) || !isfinite(raw)) return 1.0;
    for (int i = 0; i < 3; i++)
        if (steps[i] * power >= raw * (1.0 - 1e-9)) return steps[i] * power;
    return 10.0 * power;
}

/* ----- the frame ----- */

static void widen(frame *f, double y) {
    if (!isfinite(y)) return;
    f->y0 = fmin(f->y0, y);
    f->y1 = fmax(f->y1, y);
}

/* 0: nothing to show. */
static int find_frame(const gf_chart *c, frame *f) {
    *f = (frame){x_of(c, 0), x_of(c, 1), INFINITY, -INFINITY};
    for (int s = 0; s < c->count; s++) {
        f->x1 = fmax(f->x1, x_of(c, c->series[s].n - 1));
        for (int64_t i = 0; i < c->series[s].n; i++) widen(f, c->series[s].y[i]);
    }
    if (f->y0 > f->y1) return 0;
    widen(f, c->level);
    if (c->from_zero) widen(f, 0.0);
    if (f->y1 - f->y0 < 1e-12 + 1e-9 * fabs(f->y1)) f->y1 = f->y0 + (f->y0 == 0.0 ? 1.0 : fabs(f->y0));
    const double step = gf_tick_step(f->y0, f->y1, 5);
    f->y0 = floor(f->y0 / step + 1e-9) * step;
    f->y1 = ceil(f->y1 / step - 1e-9) * step;
    return 1;
}

/* ----- drawing ----- */

static void draw_y_axis(gf_text *out, const gf_chart *c, const frame *f) {
    const double step = gf_tick_step(f->y0, f->y1, 5);
    const int digits = step < 1.0 ? (int)ceil(-log10(step) - 1e-9) : 0;
    for (int i = 0; i <= 12; i++) {
        const double y = f->y0 + i * step, at = py(f, y);
        if (y > f->y1 + 0.01 * step) break;
        gf_text_add(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, at, RIGHT);
        gf_text_add(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n", LEFT - 7, at + 4.0, digits,
                    fabs(y) < 1e-9 * step ? 0.0 : y);
    }
    gf_text_add(out, "<text class=\"name\" transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\">",
                (TOP + BOTTOM) / 2);
    gf_text_escape(out, c->y_name);
    gf_text_add(out, "</text>\n");
}

static void draw_x_axis(gf_text *out, const gf_chart *c, const frame *f) {
    const int counts = !(c->x_step > 0.0);
    const double step = counts ? fmax(1.0, gf_tick_step(0.0, f->x1, 8)) : gf_tick_step(f->x0, f->x1, 8);
    const int digits = step < 1.0 ? (int)ceil(-log10(step) - 1e-9) : 0;
    const double first = counts ? step : ceil(f->x0 / step - 1e-9) * step;
    gf_text_add(out, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, BOTTOM, RIGHT);
    for (int i = 0; i < 100 && first + i * step <= f->x1 + 1e-9 * step; i++) {
        const double x = first + i * step;
        gf_text_add(out, "<path class=\"axis\" d=\"M%.1f %dv4\"/>", px(f, x), BOTTOM);
        gf_text_add(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.*f</text>\n", px(f, x), BOTTOM + 18,
                    digits, fabs(x) < 1e-9 * step ? 0.0 : x);
    }
    gf_text_add(out, "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + RIGHT) / 2, HEIGHT - 8);
    gf_text_escape(out, c->x_name);
    gf_text_add(out, "</text>\n");
}

static void draw_level(gf_text *out, const gf_chart *c, const frame *f) {
    if (!isfinite(c->level)) return;
    const double at = py(f, c->level);
    gf_text_add(out, "<path class=\"level\" d=\"M%d %.1fH%d\"/>", LEFT, at, RIGHT);
    gf_text_add(out, "<text class=\"tick halo\" x=\"%d\" y=\"%.1f\">", LEFT + 6, at - 5.0);
    gf_text_escape(out, c->level_name);
    gf_text_add(out, "</text>\n");
}

static int alone(const gf_series *s, int64_t i) {
    return (i == 0 || !isfinite(s->y[i - 1])) && (i + 1 == s->n || !isfinite(s->y[i + 1]));
}

/* A gap in the values is a gap in the line; a value between two gaps is a dot. */
static void draw_series(gf_text *out, const gf_chart *c, const gf_series *s, const frame *f) {
    int down = 0;
    gf_text_add(out, "<path class=\"line c%d d%d\" d=\"", s->colour % GF_COLOURS, s->colour / GF_COLOURS % 3);
    for (int64_t i = 0; i < s->n; i++) {
        const int seen = isfinite(s->y[i]);
        if (seen) gf_text_add(out, "%s%.1f %.1f", down ? "L" : "M", px(f, x_of(c, i)), py(f, s->y[i]));
        if (seen && alone(s, i)) gf_text_add(out, "h.01");
        down = seen;
    }
    gf_text_add(out, "\"><title>");
    gf_text_escape(out, s->name);
    gf_text_add(out, "</title></path>\n");
}

void gf_svg_swatch(gf_text *out, int colour) {
    gf_text_add(out,
            "<svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"line c%d d%d\" d=\"M1 4H23\"/></svg>",
            colour % GF_COLOURS,
                colour / GF_COLOURS % 3);
}

static void draw_legend(gf_text *out, const gf_chart *c) {
    gf_text_add(out, "<p class=\"legend\">");
    for (int s = 0; s < c->count; s++) {
        gf_text_add(out, "<span>");
        gf_svg_swatch(out, c->series[s].colour);
        gf_text_escape(out, c->series[s].name);
        gf_text_add(out, "</span> ");
    }
    gf_text_add(out, "</p>\n");
}

typedef struct colours {
    const char *ink, *faint, *grid, *panel;
} colours;

/* Okabe and Ito's colours, told apart by all kinds of colour vision; yellow is left out (too pale on white), black is the
 * text's. */
static void add_style(gf_text *out, const colours *k, int dark_too) {
    static const char *const light[GF_COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", ""};
    static const char *const dark[GF_COLOURS] = {"#56b4e9", "#e69f00", "#00b98a", "#cc79a7", "#d55e00", "#4a94d6", ""};
    for (int i = 0; i < GF_COLOURS; i++) gf_text_add(out, ".c%d{stroke:%s}", i, *light[i] ? light[i] : k->ink);
    if (dark_too) gf_text_add(out, "\n@media(prefers-color-scheme:dark){");
    for (int i = 0; dark_too && i < GF_COLOURS; i++) gf_text_add(out, ".c%d{stroke:%s}", i, *dark[i] ? dark[i] : k->ink);
    gf_text_add(out, dark_too ? "}\n" : "\n");
    gf_text_add(out, ".line{fill:none;stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round}.d1{stroke-dasharray:7 4}"
                     ".d2{stroke-dasharray:2 4}\n.grid{stroke:%s;fill:none}.axis{stroke:%s;fill:none}"
                     ".level{stroke:%s;fill:none;stroke-dasharray:5 4}\n.tick{fill:%s;font-size:12px}",
                k->grid, k->faint, k->faint, k->faint);
    gf_text_add(out, ".halo{paint-order:stroke;stroke:%s;stroke-width:4px}.name{fill:%s;font-size:12.5px}\n"
                     ".swatch{width:24px;height:8px;margin-right:5px;vertical-align:middle}\n", k->panel, k->ink);
}

/* Of a page, which sets them for light and dark; of a file, for readers that know no variables. */
static const colours of_page = {"var(--ink)", "var(--faint)", "var(--grid)", "var(--panel)"};
static const colours of_file = {"#222", "#666", "#ddd", "#fff"};

void gf_svg_style(gf_text *out) { add_style(out, &of_page, 1); }

static void draw_all(gf_text *out, const gf_chart *c, const frame *f) {
    draw_y_axis(out, c, f);
    draw_x_axis(out, c, f);
    for (int s = 0; s < c->count; s++) draw_series(out, c, &c->series[s], f);
    draw_level(out, c, f);      /* its name stays readable over the lines */
}

void gf_svg_chart(gf_text *out, const gf_chart *c) {
    frame f;
    gf_text_add(out, "<figure><figcaption>");
    gf_text_escape(out, c->title);
    gf_text_add(out, "</figcaption>\n");
    if (!find_frame(c, &f)) {
        gf_text_add(out, "<p class=\"none\">No values: no run measured this.</p></figure>\n");
        return;
    }
    draw_legend(out, c);
    gf_text_add(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    gf_text_escape(out, c->title);
    gf_text_add(out, "\">\n");
    draw_all(out, c, &f);
    gf_text_add(out, "</svg></figure>\n");
}

void gf_svg_file(gf_text *out, const gf_chart *c) {
    frame f;
    gf_text_add(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n<style>",
                WIDTH, HEIGHT + 22 * (c->count + 1));
    add_style(out, &of_file, 0);
    gf_text_add(out, "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
    if (find_frame(c, &f)) draw_all(out, c, &f);
    for (int s = 0; s < c->count; s++) {
        const int y = HEIGHT + 22 * (s + 1);
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
