/* plot_axes.h - the plane of a chart: which part of it is seen, where a value lies in the drawing, axes with round ticks. */
#ifndef GF_PLOT_PLOT_AXES_H
#define GF_PLOT_PLOT_AXES_H

#include "util/strings/text_buffer.h"

/* Positions are in the units of the view box, which begins above 0: the name of the y axis stands there, over long ticks. */
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

typedef struct gf_plane {
    double x0, x1, y0, y1; /* seen; x1 > x0, y1 > y0 */
} gf_plane;

double gf_plot_x(const gf_plane *p, double x);
double gf_plot_y(const gf_plane *p, double y);
/* Steps of 1, 2 or 5 times a power of ten that cut [low, high] in about `most` parts. */
double gf_tick_step(double low, double high, int most);
/* Moves y0 and y1 outwards to ticks; a plane without height, or with little of it, gets some. */
void gf_plane_round(gf_plane *p);
void gf_plot_y_axis(gf_text *out, const gf_plane *p, const char *name);
/* counts: ticks at whole numbers from 1 on. */
void gf_plot_x_axis(gf_text *out, const gf_plane *p, const char *name, int counts);
void gf_plot_x_name(gf_text *out, const char *name);

#endif
