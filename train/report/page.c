/* page.c - see page.h: head and foot of a page, and the order of its sections. */
#include "report/page.h"

extern const char gf_page_css[], gf_page_js[];

static void add_palette(gf_text *out, const char *selector, int dark) {
    gf_text_add(out, "%s{", selector);
    for (int i = 0; i < GF_COLOURS; i++)
        gf_text_add(out, "--c%d:%s;", i, *gf_svg_colour(i, dark) ? gf_svg_colour(i, dark) : "var(--ink)");
    gf_text_add(out, "}");
}

void gf_page(gf_text *out, const gf_report *r) {
    gf_text_add(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
                     "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n" /* nothing is loaded from elsewhere */
                     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>GloFND: ");
    if (r->count == 1) gf_text_escape(out, r->runs[0].name);
    else gf_text_add(out, "%d runs", r->count);
    gf_text_add(out, "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n"); /* keeps browsers from requesting an icon */
    add_palette(out, ":root", 0);
    add_palette(out, "\n@media screen{:root[data-theme=dark]", 1);
    add_palette(out, "}\n@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light])", 1);
    gf_text_add(out, "}\n");
    gf_svg_style(out);
    gf_text_add(out, "%s</style>\n</head>\n<body><main>\n", gf_page_css); /* comes last: it may change charts */
    gf_section_header(out, r);
    gf_section_gallery(out, r);
    gf_section_results(out, r);
    gf_section_detection(out, r);
    gf_section_thresholds(out, r);
    gf_section_maps(out, r);
    gf_section_features(out, r);
    gf_section_training(out, r);
    gf_section_cost(out, r);
    gf_section_config(out, r);
    int64_t skipped = 0, damaged = 0;
    for (int i = 0; i < r->count; i++) skipped += r->runs[i].skipped, damaged += r->runs[i].damaged;
    gf_text_html(out, "<footer>Made by ", glofnd_build_info(), ". This page is one file and loads nothing.");
    if (skipped) gf_text_add(out, " %lld unreadable lines of the logs were skipped.", (long long)skipped);
    if (damaged) gf_text_add(out, " In training, unreadable samples were replaced by others %lld times.", (long long)damaged);
    gf_text_add(out, "</footer>\n</main>\n");
    gf_text_add(out, "<script>\n%s</script>\n</body></html>\n", gf_page_js);
}
