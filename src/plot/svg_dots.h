/* svg_dots.h - maps: points of the plane by class, without axes, since only what lies together means something. */
#ifndef GF_PLOT_SVG_DOTS_H
#define GF_PLOT_SVG_DOTS_H

#include "plot/svg.h"

#define GF_DOTS_CLASSES 14 /* that have a look of their own: colours, filled and then hollow; further ones are grey */

typedef struct gf_dots {
    const char *title, *note;
    const double *y;      /* [n][2] */
    const int32_t *style; /* [n] 0 .. GF_DOTS_CLASSES - 1, or -1: grey */
    int64_t n;
    const char *const *names; /* [classes] of the looks that are used */
    int classes;
    int numbered; /* points carry their numbers, for the pictures of a sheet */
} gf_dots;

void gf_svg_dots(gf_text *out, const gf_dots *d);
/* The looks and what they stand for, once for several maps. */
void gf_svg_dots_legend(gf_text *out, const char *const *names, int classes);

#endif
