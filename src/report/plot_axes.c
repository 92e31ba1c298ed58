/* plot_axes.c - see plot_axes.h. One decimal is enough for positions. */
#include "report/plot_axes.h"

#include <math.h>
#include <stdio.h>

enum { LEFT = GF_PLOT_LEFT, RIGHT = GF_PLOT_RIGHT, TOP = GF_PLOT_TOP, BOTTOM = GF_PLOT_BOTTOM, TICKS = 5 };

double gf_plot_x(const gf_plane *p, double x) { return LEFT + (x - p->x0) / (p->x1 - p->x0) * (RIGHT - LEFT); }
double gf_plot_y(const gf_plane *p, double y) { return BOTTOM - (y - p->y0) / (p->y1 - p->y0) * (BOTTOM - TOP); }

double gf_tick_step(double low, double high, int most) {
    const double raw = (high - low) / most, power = pow(10.0, floor(log10(raw)));
    const double steps[] = {1.0, 2.0, 5.0};
    if (!(raw > 0.0) || !isfinite(raw)) return 1.0;
    for (int i = 0; i < 3; i++)
        if (steps[i] * power >= raw * (1.0 - 1e-9)) return steps[i] * power;
    return 10.0 * power;
}

void gf_plane_round(gf_plane *p) {
    if (p->y1 - p->y0 < 1e-12 + 1e-9 * fabs(p->y1)) p->y1 = p->y0 + (p->y0 == 0.0 ? 1.0 : fabs(p->y0));
    for (double step = 0.0, next = gf_tick_step(p->y0, p->y1, TICKS); step != next; next = gf_tick_step(p->y0, p->y1, TICKS)) {
        step = next;            /* a larger plane may have larger steps, and must end at these */
        p->y0 = floor(p->y0 / step + 1e-9) * step;
        p->y1 = ceil(p->y1 / step - 1e-9) * step;
    }
}

static int digits_of(double step) { return step < 1.0 ? (int)ceil(-log10(step) - 1e-9) : 0; }

/* A tick at 0 that rounding moved is 0. */
static double tick(double x, double step) { return fabs(x) < 1e-9 * step ? 0.0 : x; }

/* "0.25", "20k" for 20000, and "2e-4" for what would have many zeros. */
static void tick_text(double x, double step, char out[32]) {
    const int digits = digits_of(step);
    const double value = tick(x, step), power = value == 0.0 ? 0.0 : floor(log10(fabs(value)) + 1e-9);
    if (fabs(value) >= 1e4 && fabs(value) < 1e7) snprintf(out, 32, "%.4gk", value / 1e3);
    else if (digits < 4 || value == 0.0) snprintf(out, 32, "%.*f", digits < 4 ? digits : 0, value);
    else snprintf(out, 32, "%.3ge%.0f", value / pow(10.0, power), power);
}

void gf_plot_y_axis(gf_text *out, const gf_plane *p, const char *name) {
    const double step = gf_tick_step(p->y0, p->y1, TICKS);
    for (int i = 0; i <= 12; i++) {
        const double y = p->y0 + i * step, at = gf_plot_y(p, y);
        char text[32];
        if (y > p->y1 + 0.01 * step) break;
        gf_text_add(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, at, RIGHT);
        tick_text(y, step, text);
        gf_text_add(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 7, at + 4.0, text);
    }
    gf_text_add(out, "<text class=\"name\" transform=\"translate(10 %d) rotate(-90)\" text-anchor=\"middle\">",
                (TOP + BOTTOM) / 2);
    gf_text_escape(out, name);
    gf_text_add(out, "</text>\n");
}

void gf_plot_x_name(gf_text *out, const char *name) {
    gf_text_add(out, "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + RIGHT) / 2, GF_PLOT_HEIGHT - 8);
    gf_text_escape(out, name);
    gf_text_add(out, "</text>\n");
}

void gf_plot_x_axis(gf_text *out, const gf_plane *p, const char *name, int counts) {
    const double step = counts ? fmax(1.0, gf_tick_step(0.0, p->x1, 8)) : gf_tick_step(p->x0, p->x1, 8);
    const double first = counts ? step : ceil(p->x0 / step - 1e-9) * step;
    gf_text_add(out, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, BOTTOM, RIGHT);
    for (int i = 0; i < 100 && first + i * step <= p->x1 + 1e-9 * step; i++) {
        const double x = first + i * step, at = gf_plot_x(p, x);
        gf_text_add(out, "<path class=\"axis\" d=\"M%.1f %dv4\"/>", at, BOTTOM);
        gf_text_add(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.*f</text>\n", at, BOTTOM + 18,
                    digits_of(step), tick(x, step));
    }
    gf_plot_x_name(out, name);
}
