/* svg_dots.h - maps: points in two dimensions by class, without axes, since only distances carry information. */
#pragma once

#include "plot/svg.h"

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
