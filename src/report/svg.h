/* svg.h - line charts as static inline SVG: axes with units, grid, legend. Colours and fonts come from the page's style sheet. */
#ifndef GF_REPORT_SVG_H
#define GF_REPORT_SVG_H

#include "report/text.h"

#define GF_COLOURS 7            /* of the palette; further series repeat it with other dashes */

typedef struct gf_series {
    const char *name;
    const double *y;            /* [n] at x = 1, 2, ... (or as the chart says); NaN: a gap */
    int64_t n;
    int colour;                 /* 0, 1, ... */
} gf_series;

typedef struct gf_chart {
    const char *title, *x_name, *y_name;        /* names with units */
    const gf_series *series;
    int count;
    double level;               /* a level to compare with, dashed; NaN: none */
    const char *level_name;
    int from_zero;              /* the y axis begins at 0 */
    double x_first, x_step;     /* where the values lie; step 0: at 1, 2, ... */
} gf_chart;

/* A chart without a single value says so. */
void gf_svg_chart(gf_text *out, const gf_chart *c);
/* The same as a file of its own: colours and legend inside, light background. */
void gf_svg_file(gf_text *out, const gf_chart *c);
/* Steps of 1, 2 or 5 times a power of ten that cut [low, high] in about `most` parts. */
double gf_tick_step(double low, double high, int most);
/* The style sheet the charts need; colours for light and dark. */
void gf_svg_style(gf_text *out);
/* A short piece of line in the colour of a series, for legends and tables. */
void gf_svg_swatch(gf_text *out, int colour);

#endif
