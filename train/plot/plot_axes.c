/* plot_axes.c - see plot_axes.h. */
#include "plot/plot_axes.h"

#include <math.h>
#include <stdio.h>

enum { LEFT = GF_PLOT_LEFT, RIGHT = GF_PLOT_RIGHT, TOP = GF_PLOT_TOP, BOTTOM = GF_PLOT_BOTTOM, TICKS = 5 };

double gf_plot_x(const gf_plot_area *p, double x) { return LEFT + (x - p->x0) / (p->x1 - p->x0) * (RIGHT - LEFT); }
double gf_plot_y(const gf_plot_area *p, double y) { return BOTTOM - (y - p->y0) / (p->y1 - p->y0) * (BOTTOM - TOP); }

double gf_tick_step(double low, double high, int max) {
    const double raw = (high - low) / max, power = pow(10.0, floor(log10(raw)));
    const double steps[] = {1.0, 2.0, 5.0};
    if (!(raw > 0.0) || !isfinite(raw)) return 1.0;
    for (int i = 0; i < 3; i++)
        if (steps[i] * power >= raw * (1.0 - 1e-9)) return steps[i] * power;
    return 10.0 * power;
}

/* An area without height gets one, with the value in its middle; a very flat area becomes higher, so that tiny changes look
 * level and ticks need few digits. */
static void heighten(gf_plot_area *p) {
    const double size = fmax(fabs(p->y0), fabs(p->y1)), height = p->y1 - p->y0, min = 4e-3 * size;
    if (height < 1e-12 && size == 0.0) p->y1 = 1.0;
    else if (height < 1e-12 + 1e-9 * size) p->y0 -= 0.5 * size, p->y1 += 0.5 * size;
    else if (height < min) p->y0 -= 0.5 * (min - height), p->y1 += 0.5 * (min - height);
}

void gf_plot_area_round(gf_plot_area *p) {
    heighten(p);
    for (double step = 0.0, next = gf_tick_step(p->y0, p->y1, TICKS); step != next; next = gf_tick_step(p->y0, p->y1, TICKS)) {
        step = next; /* a larger area may have larger steps, and must end at these */
        p->y0 = floor(p->y0 / step + 1e-9) * step;
        p->y1 = ceil(p->y1 / step - 1e-9) * step;
    }
}

/* ----- ticks ----- */

enum { TICK_TEXT = 48 };

static int power_of(double x) { return (int)floor(log10(x) + 1e-9); }
static int digits_of(double step) { return step < 1.0 ? -power_of(step) : 0; }

/* Undoes rounding of a tick at 0. */
static double tick(double x, double step) { return fabs(x) < 1e-9 * step ? 0.0 : x; }

/* Text with as many digits as the step needs; one form for an axis, whose largest value is `max`: "0.4915"; "20k" for 20000;
 * "2e-4" instead of many zeros. */
static void tick_text(double x, double step, double max, char out[TICK_TEXT]) {
    static const struct {
        double is;
        char name[2];
    } units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1.0, ""}};
    const double value = tick(x, step);
    const int small = max < 0.01 && digits_of(step) > 3, large = max >= 1e13;
    int u = 0;
    while (u < 3 && max < 10.0 * units[u].is) u++;
    if (value == 0.0) snprintf(out, TICK_TEXT, "0");
    else if (small || large) {
        const int power = power_of(fabs(value)), more = power - power_of(step);
        snprintf(out, TICK_TEXT, "%.*ge%d", more > 0 ? more + 1 : 1, value / pow(10.0, power), power);
    } else snprintf(out, TICK_TEXT, "%.*f%s", digits_of(step / units[u].is), value / units[u].is, units[u].name);
}

void gf_plot_y_axis(gf_text *out, const gf_plot_area *p, const char *name) {
    const double step = gf_tick_step(p->y0, p->y1, TICKS);
    for (int i = 0; i <= 12; i++) {
        const double y = p->y0 + i * step, at = gf_plot_y(p, y);
        char text[TICK_TEXT];
        if (y > p->y1 + 0.01 * step) break;
        gf_text_add(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, at, RIGHT);
        tick_text(y, step, fmax(fabs(p->y0), fabs(p->y1)), text);
        gf_text_add(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 7, at + 4.0, text);
    }
    gf_text_add(out, "<text class=\"name\" x=\"0\" y=\"-7\">");
    gf_text_escape(out, name);
    gf_text_add(out, "</text>\n");
}

void gf_plot_x_name(gf_text *out, const char *name) {
    gf_text_add(out, "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + RIGHT) / 2, GF_PLOT_BELOW - 8);
    gf_text_escape(out, name);
    gf_text_add(out, "</text>\n");
}

void gf_plot_x_axis(gf_text *out, const gf_plot_area *p, const char *name, int counts) {
    const int max = digits_of(gf_tick_step(p->x0, p->x1, 8)) < 3 ? 8 : 5; /* long texts are wide */
    const double step = counts ? fmax(1.0, gf_tick_step(0.0, p->x1, max)) : gf_tick_step(p->x0, p->x1, max);
    const double first = counts ? step : ceil(p->x0 / step - 1e-9) * step;
    gf_text_add(out, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, BOTTOM, RIGHT);
    for (int i = 0; i < 100 && first + i * step <= p->x1 + 1e-9 * step; i++) {
        const double x = first + i * step, at = gf_plot_x(p, x);
        char text[TICK_TEXT];
        tick_text(x, step, fmax(fabs(p->x0), fabs(p->x1)), text);
        gf_text_add(out, "<path class=\"axis\" d=\"M%.1f %dv4\"/>", at, BOTTOM);
        gf_text_add(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at, BOTTOM + 20, text);
    }
    gf_plot_x_name(out, name);
}
