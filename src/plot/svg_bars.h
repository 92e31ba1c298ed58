/* svg_bars.h - figures made of bars: groups of upright bars with spreads, and one bar per row cut into parts. */
#ifndef GF_PLOT_SVG_BARS_H
#define GF_PLOT_SVG_BARS_H

#include "plot/svg.h"

#define GF_BARS_MOST 16 /* groups, and bars of a group */

typedef struct gf_bars {
    const char *title, *note, *y_name, *x_name;
    int groups, each;
    const char *group[GF_BARS_MOST]; /* below the axis */
    const char *name[GF_BARS_MOST];  /* of the bars of each group, in the legend */
    int colour[GF_BARS_MOST];
    double value[GF_BARS_MOST][GF_BARS_MOST];  /* [group][bar]; NaN: none */
    double spread[GF_BARS_MOST][GF_BARS_MOST]; /* NaN or 0: none */
    const char *missing;                       /* what to say without a value; it is HTML */
} gf_bars;

void gf_svg_bars(gf_text *out, const gf_bars *b);

typedef struct gf_split_bar {
    const char *name;
    double part[GF_BARS_MOST]; /* NaN counts as 0 */
} gf_split_bar;

typedef struct gf_stacked_bar {
    const char *title, *note, *unit;
    const char *const *parts; /* [part_count] names */
    int part_count;
    int rest;                 /* the part that is what is left, in grey; -1: none */
    const gf_split_bar *rows; /* [count] */
    int count;
    const char *missing; /* what to say if all parts are 0 */
} gf_stacked_bar;

void gf_svg_split(gf_text *out, const gf_stacked_bar *s);

#endif
