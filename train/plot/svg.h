/* svg.h - charts as static SVG: lines, bars, maps of dots; axes with units, grid, legend, values for the pointer. In a page,
 * colours and fonts come from its style sheet; an SVG file has its own. */
#pragma once

#include "util/text.h"

/* ----- text of a page ----- */

/* The text with &, <, > and quotes escaped, between two pieces of HTML. */
void gf_text_html(gf_text *out, const char *before, const char *raw, const char *after);

#define GF_BASE64_BYTES(n) (((n) + 2) / 3 * 4) /* characters of n bytes */

/* Bytes in base64: the standard alphabet, padded with '='. */
void gf_text_base64(gf_text *out, const void *bytes, size_t n);

/* ----- plot area: its range of values, positions of values in the drawing, axes with round ticks ----- */

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

/* Step of 1, 2 or 5 times a power of ten that divides [low, high] into at most `max` parts. */
double gf_tick_step(double low, double high, int max);
/* Moves y0 and y1 outwards to ticks; a very flat area becomes higher. */
void gf_plot_area_round(gf_plot_area *p);

/* ----- line charts ----- */

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
/* Colour i of the palette, for light or dark backgrounds; "": the colour of the text. */
const char *gf_svg_colour(int i, int dark);
/* A short line in the colour of a series, for legends and tables. */
void gf_svg_swatch(gf_text *out, int colour);
/* A legend entry: a small square of this CSS class, and its name. */
void gf_svg_key(gf_text *out, const char *class, const char *name);

/* ----- bars: groups of vertical bars with standard deviations, and stacked horizontal bars ----- */

#define GF_BARS_MAX 16 /* groups, and bars of a group */

typedef struct gf_bars {
    const char *title, *note, *y_name, *x_name;
    int groups, each;
    const char *group[GF_BARS_MAX]; /* below the axis */
    const char *name[GF_BARS_MAX];  /* of the bars of each group */
    int colour[GF_BARS_MAX];
    double value[GF_BARS_MAX][GF_BARS_MAX];  /* [group][bar]; NaN: none */
    double spread[GF_BARS_MAX][GF_BARS_MAX]; /* NaN or 0: none */
    const char *missing;                     /* text (HTML) for a chart without values */
} gf_bars;

void gf_svg_bars(gf_text *out, const gf_bars *b);

typedef struct gf_stacked_row {
    const char *name;
    double part[GF_BARS_MAX]; /* NaN counts as 0 */
} gf_stacked_row;

typedef struct gf_stacked_chart {
    const char *title, *note, *unit;
    const char *const *parts; /* [part_count] names */
    int part_count;
    int rest;                   /* the remaining part, in grey; -1: none */
    const gf_stacked_row *rows; /* [count] */
    int count;
    const char *missing; /* text (HTML) if all parts are 0 */
} gf_stacked_chart;

void gf_svg_stacked(gf_text *out, const gf_stacked_chart *s);

/* ----- maps: points in two dimensions by class, without axes, since only distances carry information ----- */

#define GF_DOTS_CLASSES 14 /* with a style of their own: colours, filled and then hollow; further classes are grey */

typedef struct gf_dots {
    const char *title, *note;
    const double *y;      /* [n][2] */
    const int32_t *style; /* [n] 0 .. GF_DOTS_CLASSES - 1, or -1: grey */
    int64_t n;
    const char *const *names; /* [classes] of the styles in use */
    int classes;
    int numbered; /* dots carry their index, for tiles of a sprite sheet */
} gf_dots;

void gf_svg_dots(gf_text *out, const gf_dots *d);
/* Legend of the styles, once for several maps. */
void gf_svg_dots_legend(gf_text *out, const char *const *names, int classes);
