/* svg.c - see svg.h: text of a page, axes, line charts, bars, maps of dots. */
#include "plot/svg.h"

#include <math.h>
#include <stdio.h>

/* ----- text of a page ----- */

void gf_text_html(gf_text *out, const char *before, const char *raw, const char *after) {
    gf_text_add(out, "%s", before);
    gf_text_escape(out, raw);
    gf_text_add(out, "%s", after);
}

void gf_text_base64(gf_text *out, const void *bytes, size_t n) {
    enum { PIECE = 3 * 1024 };
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *byte = bytes;
    for (size_t done = 0; done < n; done += PIECE) {
        char piece[GF_BASE64_BYTES(PIECE) + 1], *to = piece;
        const size_t end = n - done < PIECE ? n : done + PIECE;
        for (size_t i = done; i < end; i += 3, to += 4) { /* three bytes, or the last one or two, as four characters */
            const int second = i + 1 < end, third = i + 2 < end;
            const unsigned bits = (unsigned)byte[i] << 16 | (second ? (unsigned)byte[i + 1] << 8 : 0) | (third ? byte[i + 2] : 0);
            to[0] = letters[bits >> 18];
            to[1] = letters[bits >> 12 & 63];
            to[2] = second ? letters[bits >> 6 & 63] : '=';
            to[3] = third ? letters[bits & 63] : '=';
        }
        *to = 0;
        gf_text_add(out, "%s", piece);
    }
}

/* ----- plot area and axes ----- */

enum { LEFT = GF_PLOT_LEFT, RIGHT = GF_PLOT_RIGHT, TOP = GF_PLOT_TOP, BOTTOM = GF_PLOT_BOTTOM, TICKS = 5, TICK_TEXT = 48 };

static double plot_x(const gf_plot_area *p, double x) { return LEFT + (x - p->x0) / (p->x1 - p->x0) * (RIGHT - LEFT); }
static double plot_y(const gf_plot_area *p, double y) { return BOTTOM - (y - p->y0) / (p->y1 - p->y0) * (BOTTOM - TOP); }

double gf_tick_step(double low, double high, int max) {
    const double raw = (high - low) / max, power = pow(10.0, floor(log10(raw)));
    const double steps[] = {1.0, 2.0, 5.0};
    if (!(raw > 0.0) || !isfinite(raw)) return 1.0;
    for (int i = 0; i < 3; i++)
        if (steps[i] * power >= raw * (1.0 - 1e-9)) return steps[i] * power;
    return 10.0 * power;
}

void gf_plot_area_round(gf_plot_area *p) {
    /* An area without height gets one, with the value in its middle; a very flat area becomes higher, so that tiny changes look
 * level and ticks need few digits. */
    const double size = fmax(fabs(p->y0), fabs(p->y1)), height = p->y1 - p->y0, min = 4e-3 * size;
    if (height < 1e-12 && size == 0.0) p->y1 = 1.0;
    else if (height < 1e-12 + 1e-9 * size) p->y0 -= 0.5 * size, p->y1 += 0.5 * size;
    else if (height < min) p->y0 -= 0.5 * (min - height), p->y1 += 0.5 * (min - height);
    for (double step = 0.0, next = gf_tick_step(p->y0, p->y1, TICKS); step != next; next = gf_tick_step(p->y0, p->y1, TICKS)) {
        step = next; /* a larger area may have larger steps, and must end at these */
        p->y0 = floor(p->y0 / step + 1e-9) * step;
        p->y1 = ceil(p->y1 / step - 1e-9) * step;
    }
}

static int power_of(double x) { return (int)floor(log10(x) + 1e-9); }
static int digits_of(double step) { return step < 1.0 ? -power_of(step) : 0; }

/* Text with as many digits as the step needs; one form for an axis, whose largest value is `max`: "0.4915"; "20k" for 20000;
 * "2e-4" instead of many zeros. */
static void tick_text(double x, double step, double max, char out[TICK_TEXT]) {
    static const struct {
        double is;
        char name[2];
    } units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1.0, ""}};
    const double value = fabs(x) < 1e-9 * step ? 0.0 : x; /* a tick at 0 is 0 */
    const int small = max < 0.01 && digits_of(step) > 3, large = max >= 1e13;
    int u = 0;
    while (u < 3 && max < 10.0 * units[u].is) u++;
    if (value == 0.0) snprintf(out, TICK_TEXT, "0");
    else if (small || large) {
        const int power = power_of(fabs(value)), more = power - power_of(step);
        snprintf(out, TICK_TEXT, "%.*ge%d", more > 0 ? more + 1 : 1, value / pow(10.0, power), power);
    } else snprintf(out, TICK_TEXT, "%.*f%s", digits_of(step / units[u].is), value / units[u].is, units[u].name);
}

static void draw_y_axis(gf_text *out, const gf_plot_area *p, const char *name) {
    const double step = gf_tick_step(p->y0, p->y1, TICKS);
    for (int i = 0; i <= 12; i++) {
        const double y = p->y0 + i * step, at = plot_y(p, y);
        char text[TICK_TEXT];
        if (y > p->y1 + 0.01 * step) break;
        gf_text_add(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, at, RIGHT);
        tick_text(y, step, fmax(fabs(p->y0), fabs(p->y1)), text);
        gf_text_add(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 7, at + 4.0, text);
    }
    gf_text_html(out, "<text class=\"name\" x=\"0\" y=\"-7\">", name, "</text>\n");
}

static void draw_x_name(gf_text *out, const char *name) {
    gf_text_add(out, "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + RIGHT) / 2, GF_PLOT_BELOW - 8);
    gf_text_html(out, "", name, "</text>\n");
}

/* counts: ticks at integers from 1 on. */
static void draw_x_axis(gf_text *out, const gf_plot_area *p, const char *name, int counts) {
    const int max = digits_of(gf_tick_step(p->x0, p->x1, 8)) < 3 ? 8 : 5; /* long texts are wide */
    const double step = counts ? fmax(1.0, gf_tick_step(0.0, p->x1, max)) : gf_tick_step(p->x0, p->x1, max);
    const double first = counts ? step : ceil(p->x0 / step - 1e-9) * step;
    gf_text_add(out, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, BOTTOM, RIGHT);
    for (int i = 0; i < 100 && first + i * step <= p->x1 + 1e-9 * step; i++) {
        const double x = first + i * step, at = plot_x(p, x);
        char text[TICK_TEXT];
        tick_text(x, step, fmax(fabs(p->x0), fabs(p->x1)), text);
        gf_text_add(out, "<path class=\"axis\" d=\"M%.1f %dv4\"/>", at, BOTTOM);
        gf_text_add(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at, BOTTOM + 20, text);
    }
    draw_x_name(out, name);
}

/* ----- colours ----- */

/* the palette of Okabe and Ito, distinct for all kinds of colour vision, without yellow (too
 * pale on white); black is the colour of the text. */

const char *gf_svg_colour(int i, int dark) {
    static const char *const light[GF_COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", ""};
    static const char *const bright[GF_COLOURS] = {"#56b4e9", "#f0803c", "#00c495", "#d98bb5", "#e69f00", "#3d8fd1", ""};
    return (dark ? bright : light)[i % GF_COLOURS];
}

/* A page sets variables for light and dark; viewers of files may not support variables. */
static void add_style(gf_text *out, int file) {
    const char *ink = file ? "#222" : "var(--ink)", *faint = file ? "#666" : "var(--faint)";
    for (int i = 0; i < GF_COLOURS; i++) {
        const char *colour = *gf_svg_colour(i, 0) ? gf_svg_colour(i, 0) : ink;
        if (file) gf_text_add(out, ".c%d{stroke:%s}.f%d{fill:%s}", i, colour, i, colour);
        else gf_text_add(out, ".c%d{stroke:var(--c%d)}.f%d{fill:var(--c%d)}", i, i, i, i);
    }
    gf_text_add(out,
                "\n.line{fill:none;stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round}.d1{stroke-dasharray:7 4}"
                ".d2{stroke-dasharray:2 4}.band{opacity:.16;stroke:none}.mark{stroke-width:7}\n"
                ".grid{stroke:%s;fill:none}.axis{stroke:%s;fill:none}"
                ".level{stroke:%s;fill:none;stroke-dasharray:5 4}\n.tick{fill:%s;font-size:12px}",
                file ? "#ddd" : "var(--grid)", faint, faint, faint);
    gf_text_add(out,
                ".halo{paint-order:stroke;stroke:%s;stroke-width:4px}.name{fill:%s;font-size:12.5px}\n"
                ".swatch{width:24px;height:8px;margin-right:5px;vertical-align:middle;overflow:visible}\n",
                file ? "#fff" : "var(--panel)", ink);
}

void gf_svg_style(gf_text *out) { add_style(out, 0); }

void gf_svg_swatch(gf_text *out, int colour) {
    gf_text_add(
        out, "<svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"line c%d d%d\" d=\"M1 4H23\"/></svg>",
        colour % GF_COLOURS, colour / GF_COLOURS % 3);
}

/* ----- line charts ----- */

static double x_of(const gf_chart *c, const gf_series *s, int64_t i) {
    if (s && s->x) return s->x[i];
    return c->x_step > 0.0 ? c->x_first + (double)i * c->x_step : (double)(i + 1);
}

static void widen_y(gf_plot_area *area, double y) {
    if (isfinite(y)) area->y0 = fmin(area->y0, y), area->y1 = fmax(area->y1, y);
}

/* The area that has all series, the level, and 0 if asked for; 0: nothing to show. */
static int chart_area(const gf_chart *c, gf_plot_area *area) {
    const int own_x = c->count && c->series[0].x;
    int vertical = 0;
    *area = (gf_plot_area){own_x ? INFINITY : x_of(c, NULL, 0), own_x ? -INFINITY : x_of(c, NULL, 1), INFINITY, -INFINITY};
    for (int k = 0; k < c->count; k++) {
        const gf_series *s = &c->series[k];
        for (int64_t i = 0; i < s->n && !s->vertical; i++) {
            widen_y(area, s->y[i]);
            if (s->low) widen_y(area, s->low[i]), widen_y(area, s->high[i]);
            if (s->x) area->x0 = fmin(area->x0, s->x[i]), area->x1 = fmax(area->x1, s->x[i]);
        }
        if (s->vertical) area->x0 = fmin(area->x0, s->at), area->x1 = fmax(area->x1, s->at);
        if (!s->x) area->x1 = fmax(area->x1, x_of(c, NULL, s->n - 1));
        vertical |= s->vertical;
    }
    if (area->y0 > area->y1 && vertical) widen_y(area, 0.0);
    if (area->y0 > area->y1) return 0;
    if (!(area->x1 > area->x0)) area->x0 -= 0.5, area->x1 = area->x0 + 1.0;
    widen_y(area, c->level);
    if (c->from_zero) widen_y(area, 0.0);
    gf_plot_area_round(area);
    return 1;
}

static int event_visible(const gf_chart *c, const gf_plot_area *f) {
    return c->event != 0.0 && c->event >= f->x0 && c->event <= f->x1;
}

/* A value between two gaps: a dot. */
static int is_alone(const gf_series *s, int64_t i) {
    return (i == 0 || !isfinite(s->y[i - 1])) && (i + 1 == s->n || !isfinite(s->y[i + 1]));
}

/* The band around a line, or the tint below it. */
static void draw_band(gf_text *out, const gf_chart *c, const gf_plot_area *area, const gf_series *s) {
    const double *top = s->low ? s->high : s->y;
    int down = 0;
    gf_text_add(out, "<path class=\"band f%d\" d=\"", s->colour % GF_COLOURS);
    for (int64_t i = 0; i < s->n; i++)
        if (isfinite(top[i]))
            gf_text_add(out, "%s%.1f %.1f", down++ ? "L" : "M", plot_x(area, x_of(c, s, i)), plot_y(area, top[i]));
    for (int64_t i = s->n - 1; i >= 0; i--)
        if (isfinite(top[i]))
            gf_text_add(out, "L%.1f %.1f", plot_x(area, x_of(c, s, i)), plot_y(area, s->low ? s->low[i] : area->y0));
    gf_text_add(out, "Z\"/>\n");
}

/* A gap in the values is a gap in the line. `values`: with those for the box at the pointer. */
static void draw_line(gf_text *out, const gf_chart *c, const gf_plot_area *area, const gf_series *s, int values) {
    int down = 0;
    gf_text_add(out, "<path class=\"line c%d d%d\"", s->colour % GF_COLOURS, s->dash ? s->dash : s->colour / GF_COLOURS % 3);
    if (values) {
        gf_text_html(out, " data-name=\"", s->name, "\" data-x=\"");
        for (int64_t i = 0; i < s->n; i++) gf_text_add(out, i ? ",%.6g" : "%.6g", x_of(c, s, i));
        gf_text_add(out, "\" data-y=\"");
        for (int64_t i = 0; i < s->n; i++) {
            if (i) gf_text_add(out, ",");
            if (isfinite(s->y[i])) gf_text_add(out, "%.6g", s->y[i]);
        }
        gf_text_add(out, "\"");
    }
    gf_text_add(out, " d=\"");
    for (int64_t i = 0; i < s->n; i++) {
        const int seen = isfinite(s->y[i]);
        if (seen) gf_text_add(out, "%s%.1f %.1f", down ? "L" : "M", plot_x(area, x_of(c, s, i)), plot_y(area, s->y[i]));
        if (seen && is_alone(s, i)) gf_text_add(out, "h.01");
        down = seen;
    }
    gf_text_html(out, "\"><title>", s->name, "</title></path>\n");
    for (int64_t i = 0; i < s->n; i++)
        if (isfinite(s->y[i]) && (c->marked || is_alone(s, i)))
            gf_text_add(out, "<path class=\"line mark c%d\" d=\"M%.1f %.1fh.01\"><title>%g: %.4g</title></path>",
                        s->colour % GF_COLOURS, plot_x(area, x_of(c, s, i)), plot_y(area, s->y[i]), x_of(c, s, i), s->y[i]);
}

/* Axes, level and event, then bands below all lines. Level and event are named in the legend: here names would cover lines. */
static void draw_chart(gf_text *out, const gf_chart *c, const gf_plot_area *area, int values) {
    draw_y_axis(out, area, c->y_name);
    draw_x_axis(out, area, c->x_name, !(c->x_step > 0.0) && !(c->count && c->series[0].x));
    if (event_visible(c, area))
        gf_text_add(out, "<path class=\"level\" d=\"M%.1f %dV%d\"/>\n", plot_x(area, c->event), TOP, BOTTOM);
    if (isfinite(c->level)) gf_text_add(out, "<path class=\"level\" d=\"M%d %.1fH%d\"/>\n", LEFT, plot_y(area, c->level), RIGHT);
    for (int k = 0; k < c->count; k++)
        if (!c->series[k].vertical && (c->series[k].low || c->series[k].filled)) draw_band(out, c, area, &c->series[k]);
    for (int k = 0; k < c->count; k++) {
        const gf_series *s = &c->series[k];
        if (s->vertical) {
            gf_text_add(out, "<path class=\"line c%d\" d=\"M%.1f %dV%d\"><title>", s->colour % GF_COLOURS, plot_x(area, s->at),
                        BOTTOM, TOP);
            gf_text_html(out, "", s->name, "</title></path>\n");
        } else draw_line(out, c, area, s, values);
    }
}

static void begin_figure(gf_text *out, const char *title, const char *note) {
    gf_text_html(out, "<figure><figcaption>", title, "</figcaption>\n");
    if (!note) return;
    gf_text_html(out, "<p class=\"note\">", note, "</p>\n");
}

/* The opening of a figure up to its drawing: title, note. */
/* text instead of a drawing; ends the figure */
static void empty_figure(gf_text *out, const char *why) { gf_text_add(out, "<p class=\"none\">%s</p></figure>\n", why); }

/* Legend entry of a dashed line, and of a coloured bar. */
static void line_key(gf_text *out, const char *piece, const char *name) {
    gf_text_add(out,
                "<span><svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"level\" d=\"%s\"/>"
                "</svg>",
                piece);
    gf_text_html(out, "", name, "</span> ");
}

void gf_svg_chart(gf_text *out, const gf_chart *c) {
    gf_plot_area f;
    begin_figure(out, c->title, c->note);
    if (!chart_area(c, &f)) {
        empty_figure(out, c->missing ? c->missing : "No values: not measured by any run.");
        return;
    }
    gf_text_add(out, "<p class=\"legend\">");
    for (int s = 0; s < c->count; s++) {
        gf_text_add(out, "<span>");
        gf_svg_swatch(out, c->series[s].dash ? c->series[s].colour % GF_COLOURS + GF_COLOURS * c->series[s].dash
                                             : c->series[s].colour);
        gf_text_html(out, "", c->series[s].name, "</span> ");
    }
    if (isfinite(c->level)) line_key(out, "M1 4H23", c->level_name);
    if (event_visible(c, &f)) line_key(out, "M12 -4V12", c->event_name);
    gf_text_add(out, "</p>\n");
    gf_text_add(out,
                "<svg class=\"plot\" viewBox=\"0 %d %d %d\" data-x0=\"%.8g\" data-x1=\"%.8g\" data-y0=\"%.8g\" data-y1=\"%.8g\""
                " data-unit=\"",
                GF_PLOT_ABOVE, GF_PLOT_WIDTH, GF_PLOT_HEIGHT, f.x0, f.x1, f.y0, f.y1);
    gf_text_escape(out, c->x_name);
    gf_text_html(out, "\" role=\"img\" aria-label=\"", c->title, "\">\n");
    draw_chart(out, c, &f, 1);
    gf_text_add(out, "</svg></figure>\n");
}

void gf_svg_file(gf_text *out, const gf_chart *c) {
    gf_plot_area f;
    gf_text_add(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-6 %d %d %d\" font-family=\"sans-serif\">\n<style>",
                GF_PLOT_ABOVE, GF_PLOT_WIDTH + 6, GF_PLOT_HEIGHT + 22 * (c->count + 1));
    add_style(out, 1);
    gf_text_add(out, "</style>\n<rect x=\"-6\" y=\"%d\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", GF_PLOT_ABOVE);
    if (chart_area(c, &f)) draw_chart(out, c, &f, 0);
    for (int s = 0; s < c->count; s++) {
        const int y = GF_PLOT_BELOW + 22 * (s + 1);
        gf_text_add(out, "<path class=\"line c%d d%d\" d=\"M%d %dh24\"/>", c->series[s].colour % GF_COLOURS,
                    c->series[s].colour / GF_COLOURS % 3, LEFT, y);
        gf_text_add(out, "<text class=\"name\" x=\"%d\" y=\"%d\">", LEFT + 32, y + 4);
        gf_text_html(out, "", c->series[s].name, "</text>\n");
    }
    gf_text_html(out, "<title>", c->title, "</title></svg>\n");
}

/* ----- bars ----- */

void gf_svg_key(gf_text *out, const char *class, const char *name) {
    gf_text_add(out,
                "<span><svg class=\"key\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"%s\" width=\"10\" "
                "height=\"10\" rx=\"2\"/></svg>",
                class);
    gf_text_html(out, "", name, "</span> ");
}

/* The value over a bar. A wide bar has two texts, of which a narrow window shows the "brief" one, without decimals. */
static void bar_value(gf_text *out, const char *class, double middle, double top, double x, int digits) {
    gf_text_add(out, "<text class=\"tick%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.*f</text>\n", class, middle,
                top - 4.0, digits, x);
}

void gf_svg_bars(gf_text *out, const gf_bars *b) {
    gf_plot_area f = {0.0, b->groups, 0.0, -INFINITY};
    begin_figure(out, b->title, b->note);
    for (int g = 0; g < b->groups; g++)
        for (int k = 0; k < b->each; k++)
            if (isfinite(b->value[g][k])) f.y1 = fmax(f.y1, b->value[g][k] + (b->spread[g][k] > 0.0 ? b->spread[g][k] : 0.0));
    if (!(f.y1 > -INFINITY)) {
        empty_figure(out, b->missing);
        return;
    }
    gf_plot_area_round(&f);
    gf_text_add(out, "<p class=\"legend\">");
    for (int k = 0; k < b->each; k++) {
        char class[8];
        snprintf(class, sizeof class, "f%d", b->colour[k] % GF_COLOURS);
        gf_svg_key(out, class, b->name[k]);
    }
    gf_text_add(out, "</p>\n<svg viewBox=\"0 %d %d %d\" role=\"img\" aria-label=\"", GF_PLOT_ABOVE, GF_PLOT_WIDTH,
                GF_PLOT_HEIGHT);
    gf_text_html(out, "", b->title, "\">\n");
    draw_y_axis(out, &f, b->y_name);
    const double group = (double)(RIGHT - LEFT) / b->groups, width = fmin(46.0, 0.8 * group / b->each);
    for (int g = 0; g < b->groups; g++) {
        const double middle = LEFT + (g + 0.5) * group;
        for (int k = 0; k < b->each; k++) {
            const double left = middle + (k - 0.5 * b->each) * width + 1.0;
            const double bar_width = width - 2.0, at = left + 0.5 * bar_width;
            const double x = b->value[g][k], s = b->spread[g][k], top = plot_y(&f, x);
            if (isfinite(x)) {
                gf_text_add(out, "<rect class=\"f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"1.5\"><title>",
                            b->colour[k] % GF_COLOURS, left, top, bar_width, BOTTOM - top);
                gf_text_html(out, "", b->name[k], ", ");
                gf_text_escape(out, b->group[g]);
                if (s > 0.0) gf_text_add(out, ": %.2f ± %.2f</title></rect>", x, s);
                else gf_text_add(out, ": %.2f</title></rect>", x);
                const double high = s > 0.0 ? plot_y(&f, x + s) : top;
                if (s > 0.0) gf_text_add(out, "<path class=\"whisker\" d=\"M%.1f %.1fV%.1f\"/>", at, high, plot_y(&f, x - s));
                if (bar_width >= 27.0) bar_value(out, " long", at, high, x, 1);
                if (bar_width >= 15.0) bar_value(out, bar_width < 27.0 ? "" : " brief", at, high, x, 0);
            }
        }
        gf_text_add(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", middle, BOTTOM + 20);
        gf_text_html(out, "", b->group[g], "</text>\n");
    }
    gf_text_add(out, "<path class=\"axis\" d=\"M%d %dH%d\"/>", LEFT, BOTTOM, RIGHT);
    draw_x_name(out, b->x_name);
    gf_text_add(out, "</svg></figure>\n");
}

/* ----- stacked bars ----- */

static double total_of(const gf_stacked_row *r, int parts) {
    double sum = 0.0;
    for (int p = 0; p < parts; p++) sum += isfinite(r->part[p]) ? r->part[p] : 0.0;
    return sum;
}

/* Three significant digits, or an integer. */
static void print_amount(double x, const char *unit, char out[48]) {
    snprintf(out, 48, x < 999.5 ? "%.3g %s" : "%.0f %s", x, unit);
}

/* Class of a part: a colour of the palette, or that of the rest. */
static void part_class(const gf_stacked_chart *s, int part, char out[8]) {
    if (part == s->rest) snprintf(out, 8, "rest");
    else snprintf(out, 8, "f%d", part % GF_COLOURS);
}

void gf_svg_stacked(gf_text *out, const gf_stacked_chart *s) {
    double max = 0.0;
    char class[8];
    for (int i = 0; i < s->count; i++) max = fmax(max, total_of(&s->rows[i], s->part_count));
    begin_figure(out, s->title, s->note);
    if (!(max > 0.0)) {
        empty_figure(out, s->missing);
        return;
    }
    gf_text_add(out, "<p class=\"legend\">");
    for (int p = 0; p < s->part_count; p++) {
        part_class(s, p, class);
        gf_svg_key(out, class, s->parts[p]);
    }
    gf_text_add(out, "</p>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", GF_PLOT_WIDTH, 58 * s->count,
                s->title);
    for (int i = 0; i < s->count; i++) {
        const gf_stacked_row *r = &s->rows[i];
        const int y = 58 * i;
        const double total = total_of(r, s->part_count), scale = 504.0 / max;
        char row_class[8], text[48];
        double at = 8.0;
        gf_text_add(out, "<text class=\"name\" x=\"8\" y=\"%d\">", y + 12);
        gf_text_escape(out, r->name);
        if (total > 0.0) print_amount(total, s->unit, text);
        else snprintf(text, sizeof text, "not recorded");
        gf_text_add(out, "</text><text class=\"tick\" x=\"512\" y=\"%d\" text-anchor=\"end\">%s</text>", y + 12, text);
        for (int p = 0; p < s->part_count; p++) {
            const double x = isfinite(r->part[p]) ? r->part[p] : 0.0, width = x * scale;
            if (width <= 0.0) continue;
            part_class(s, p, row_class);
            print_amount(x, s->unit, text);
            gf_text_add(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"22\">", row_class, at, y + 20,
                        width);
            gf_text_add(out, "<title>%s: %s, %.1f %%</title></rect>", s->parts[p], text, 100.0 * x / total);
            at += width;
        }
        gf_text_add(out, "\n");
    }
    gf_text_add(out, "</svg></figure>\n");
}

/* ----- A class is one path of zero-length lines, drawn as dots by round caps: few bytes per point ----- */

enum { SIDE = 400, MARGIN = 14 };

/* Positions of one class as a path. */
static void dot_path(gf_text *out, const gf_dots *d, int32_t style, const double low[2], double scale) {
    for (int64_t i = 0; i < d->n; i++)
        if (d->style[i] == style)
            gf_text_add(out, "M%.1f %.1fh0", MARGIN + (d->y[2 * i] - low[0]) * scale,
                        MARGIN + (d->y[2 * i + 1] - low[1]) * scale);
}

void gf_svg_dots(gf_text *out, const gf_dots *d) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (int64_t i = 0; i < 2 * d->n; i++) low[i & 1] = fmin(low[i & 1], d->y[i]), high[i & 1] = fmax(high[i & 1], d->y[i]);
    const double span = fmax(high[0] - low[0], high[1] - low[1]), scale = span > 0.0 ? (SIDE - 2 * MARGIN) / span : 1.0;
    for (int c = 0; c < 2; c++) low[c] -= 0.5 * (span - (high[c] - low[c]));
    begin_figure(out, d->title, d->note);
    gf_text_add(out, "<svg class=\"map\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", SIDE, SIDE);
    gf_text_html(out, "", d->title, "\">\n");
    for (int32_t style = -1; style < GF_DOTS_CLASSES; style++) {
        int used = 0;
        for (int64_t i = 0; i < d->n && !used; i++) used = d->style[i] == style;
        if (!used) continue;
        if (style < 0) gf_text_add(out, "<path class=\"dot rest\"");
        else gf_text_add(out, "<path class=\"dot c%d\"", style % GF_COLOURS);
        if (d->numbered) {
            const char *comma = "";
            gf_text_add(out, " data-i=\"");
            for (int64_t i = 0; i < d->n; i++)
                if (d->style[i] == style) gf_text_add(out, "%s%lld", comma, (long long)i), comma = ",";
            gf_text_add(out, "\"");
        }
        gf_text_add(out, " d=\"");
        dot_path(out, d, style, low, scale);
        gf_text_html(out, "\"><title>",
                     style >= 0 && style < d->classes ? d->names[style]
                     : d->classes                     ? "other classes"
                                                      : "no label",
                     "</title></path>\n");
        if (style >= GF_COLOURS) {
            gf_text_add(out, "<path class=\"dot hole\" d=\"");
            dot_path(out, d, style, low, scale);
            gf_text_add(out, "\"/>\n");
        }
    }
    gf_text_add(out, "</svg></figure>\n");
}

void gf_svg_dots_legend(gf_text *out, const char *const *names, int classes) {
    gf_text_add(out, "<p class=\"legend\">");
    for (int k = 0; k < classes; k++) {
        gf_text_add(out,
                    "<span><svg class=\"key\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><path class=\"dot c%d\" d=\"M5 5h0\"/>",
                    k % GF_COLOURS);
        if (k >= GF_COLOURS) gf_text_add(out, "<path class=\"dot hole\" d=\"M5 5h0\"/>");
        gf_text_html(out, "</svg>", names[k], "</span> ");
    }
    gf_text_add(out, "</p>\n");
}
