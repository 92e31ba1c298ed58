/* svg.h - line charts as static inline SVG: axes with units, grid, legend, values under the pointer. Colours and fonts come from
 * the page's style sheet, or from one of their own in a file. */
#ifndef GF_PLOT_SVG_H
#define GF_PLOT_SVG_H

#include "plot/plot_axes.h"

#define GF_COLOURS 7 /* of the palette; further series repeat it with other dashes */

typedef struct gf_series {
    const char *name;
    const double *y; /* [n] NaN: a gap */
    int64_t n;
    int colour;               /* 0, 1, ... */
    const double *x;          /* [n] rising; NULL: as the chart says */
    const double *low, *high; /* [n] a band around it; NULL: none */
    int filled;               /* the area below it is tinted */
    int dash;                 /* 1, 2: drawn in dashes */
    int upright;              /* y is not in use: a line over all of the height, at `at` */
    double at;
} gf_series;

typedef struct gf_chart {
    const char *title, *x_name, *y_name; /* names with units */
    const gf_series *series;
    int count;
    double level; /* a level to compare with, dashed; NaN: none */
    const char *level_name;
    int from_zero;          /* the y axis begins at 0 */
    double x_first, x_step; /* where the values lie; step 0: at 1, 2, ... */
    const char *note;       /* a sentence below the title; NULL: none */
    const char *missing;    /* what to say if there is no value; NULL: that no run measured it */
    int marked;             /* a mark at each value, for few ones */
    double event;           /* a place on the x axis that is pointed at; 0: none */
    const char *event_name;
} gf_chart;

/* A chart without a single value says so. */
void gf_svg_chart(gf_text *out, const gf_chart *c);
/* The same as a file of its own: colours and legend, but for levels and events, inside; light background. */
void gf_svg_file(gf_text *out, const gf_chart *c);
/* The style sheet the charts need; the page sets the variables --ink, --faint, --grid, --panel and --c0 .. --c6. */
void gf_svg_style(gf_text *out);
void gf_svg_file_style(gf_text *out); /* of a file of its own, for readers that know no variables */
/* Colour i of the palette, for light or dark backgrounds; "" is that of the text. */
const char *gf_svg_colour(int i, int dark);
/* A short piece of line in the colour of a series, for legends and tables. */
void gf_svg_swatch(gf_text *out, int colour);
/* The opening of a figure up to its drawing: title, note. */
void gf_figure_begin(gf_text *out, const char *title, const char *note);
void gf_figure_none(gf_text *out, const char *why); /* instead of a drawing; ends the figure */

#endif
