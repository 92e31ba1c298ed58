/* svg.h - line charts as static SVG: axes with units, grid, legend, values for the pointer. In a page, colours and fonts come
 * from its style sheet; an SVG file has its own. */
#pragma once

#include "plot/plot_axes.h"

#define GF_COLOURS 7 /* of the palette; further series repeat it with different dashes */

typedef struct gf_series {
    const char *name;
    const double *y; /* [n] NaN: a gap */
    int64_t n;
    int colour;               /* 0, 1, ... */
    const double *x;          /* [n] increasing; NULL: the chart's x_first and x_step */
    const double *low, *high; /* [n] a band around it; NULL: none */
    int filled;               /* tints the area below the line */
    int dash;                 /* 1, 2: dashed */
    int vertical;             /* y is unused: a vertical line at `at` */
    double at;
} gf_series;

typedef struct gf_chart {
    const char *title, *x_name, *y_name; /* names with units */
    const gf_series *series;
    int count;
    double level; /* a dashed horizontal line; NaN: none */
    const char *level_name;
    int from_zero;          /* the y axis includes 0 */
    double x_first, x_step; /* x of the values; step 0: 1, 2, ... */
    const char *note;       /* a sentence below the title; NULL: none */
    const char *missing;    /* text (HTML) for a chart without values; NULL: that no run measured it */
    int marked;             /* a mark at each value */
    double event;           /* a dashed vertical line; 0: none */
    const char *event_name;
} gf_chart;

void gf_svg_chart(gf_text *out, const gf_chart *c);
/* The chart as an SVG file with its own colours and legend (without level and event) on a light background. */
void gf_svg_file(gf_text *out, const gf_chart *c);
/* Style sheet of the charts; the page sets the variables --ink, --faint, --grid, --panel and --c0 .. --c6. */
void gf_svg_style(gf_text *out);
void gf_svg_file_style(gf_text *out); /* for a file, without variables */
/* Colour i of the palette, for light or dark backgrounds; "": the colour of the text. */
const char *gf_svg_colour(int i, int dark);
/* A short line in the colour of a series, for legends and tables. */
void gf_svg_swatch(gf_text *out, int colour);
/* The opening of a figure up to its drawing: title, note. */
void gf_figure_begin(gf_text *out, const char *title, const char *note);
void gf_figure_empty(gf_text *out, const char *why); /* text instead of a drawing; ends the figure */
