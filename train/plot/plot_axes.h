/* plot_axes.h - the plot area of a chart: its range of values, positions of values in the drawing, axes with round ticks. */
#pragma once

#include "util/text.h"

/* Units of the view box, which begins above 0: the name of the y axis stands there, over long ticks. */
enum {
    GF_PLOT_WIDTH = 520,
    GF_PLOT_ABOVE = -22,
    GF_PLOT_BELOW = 284,
    GF_PLOT_HEIGHT = GF_PLOT_BELOW - GF_PLOT_ABOVE,
    GF_PLOT_LEFT = 56,
    GF_PLOT_RIGHT = 508,
    GF_PLOT_TOP = 14,
    GF_PLOT_BOTTOM = 234
};

typedef struct gf_plot_area {
    double x0, x1, y0, y1; /* values at the edges; x1 > x0, y1 > y0 */
} gf_plot_area;

double gf_plot_x(const gf_plot_area *p, double x);
double gf_plot_y(const gf_plot_area *p, double y);
/* Step of 1, 2 or 5 times a power of ten that divides [low, high] into at most `max` parts. */
double gf_tick_step(double low, double high, int max);
/* Moves y0 and y1 outwards to ticks; a very flat area becomes higher. */
void gf_plot_area_round(gf_plot_area *p);
void gf_plot_y_axis(gf_text *out, const gf_plot_area *p, const char *name);
/* counts: ticks at integers from 1 on. */
void gf_plot_x_axis(gf_text *out, const gf_plot_area *p, const char *name, int counts);
void gf_plot_x_name(gf_text *out, const char *name);
