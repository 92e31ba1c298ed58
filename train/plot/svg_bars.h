/* svg_bars.h - bar charts: groups of vertical bars with standard deviations, and stacked horizontal bars. */
#pragma once

#include "plot/svg.h"

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
