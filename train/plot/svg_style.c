/* svg_style.c - colours of charts: the palette of Okabe and Ito, distinct for all kinds of colour vision, without yellow (too
 * pale on white); black is the colour of the text. */
#include "plot/svg.h"

const char *gf_svg_colour(int i, int dark) {
    static const char *const light[GF_COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", ""};
    static const char *const bright[GF_COLOURS] = {"#56b4e9", "#f0803c", "#00c495", "#d98bb5", "#e69f00", "#3d8fd1", ""};
    return (dark ? bright : light)[i % GF_COLOURS];
}

typedef struct colours {
    const char *ink, *faint, *grid, *panel;
    int variables; /* colours of series are --c0 ... */
} colours;

/* A page sets variables for light and dark; viewers of files may not support variables. */
static const colours of_page = {"var(--ink)", "var(--faint)", "var(--grid)", "var(--panel)", 1};
static const colours of_file = {"#222", "#666", "#ddd", "#fff", 0};

static void add_style(gf_text *out, const colours *k) {
    for (int i = 0; i < GF_COLOURS; i++) {
        const char *colour = *gf_svg_colour(i, 0) ? gf_svg_colour(i, 0) : k->ink;
        if (k->variables) gf_text_add(out, ".c%d{stroke:var(--c%d)}.f%d{fill:var(--c%d)}", i, i, i, i);
        else gf_text_add(out, ".c%d{stroke:%s}.f%d{fill:%s}", i, colour, i, colour);
    }
    gf_text_add(out,
                "\n.line{fill:none;stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round}.d1{stroke-dasharray:7 4}"
                ".d2{stroke-dasharray:2 4}.band{opacity:.16;stroke:none}.mark{stroke-width:7}\n"
                ".grid{stroke:%s;fill:none}.axis{stroke:%s;fill:none}"
                ".level{stroke:%s;fill:none;stroke-dasharray:5 4}\n.tick{fill:%s;font-size:12px}",
                k->grid, k->faint, k->faint, k->faint);
    gf_text_add(out,
                ".halo{paint-order:stroke;stroke:%s;stroke-width:4px}.name{fill:%s;font-size:12.5px}\n"
                ".swatch{width:24px;height:8px;margin-right:5px;vertical-align:middle;overflow:visible}\n",
                k->panel, k->ink);
}

void gf_svg_style(gf_text *out) { add_style(out, &of_page); }

void gf_svg_file_style(gf_text *out) { add_style(out, &of_file); }

void gf_svg_swatch(gf_text *out, int colour) {
    gf_text_add(
        out, "<svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"line c%d d%d\" d=\"M1 4H23\"/></svg>",
        colour % GF_COLOURS, colour / GF_COLOURS % 3);
}
