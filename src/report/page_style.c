/* page_style.c - the look of a page: variables for light and dark, one rule per line. */
#include "report/page_parts.h"

#define LIGHT \
    "--ink:#1a2027;--faint:#5f6b78;--grid:#e4e8ed;--paper:#fff;--panel:#f8f9fb;--good:#007a55;--bad:#b34700;--accent:#0072b2"
#define DARK \
    "--ink:#e8ebef;--faint:#9aa5b1;--grid:#2c343d;--paper:#12161b;--panel:#191f26;--good:#2fd1a0;--bad:#ff9a5c;--accent:#6cbcf0"

/* The page and its head. */
static const char layout[] =
    "*{box-sizing:border-box}\n"
    "html{scroll-behavior:smooth}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
    "main{max-width:1200px;margin:0 auto;padding:36px 24px 60px}\n"
    "header{display:flex;gap:16px;align-items:flex-start;justify-content:space-between}\n"
    "h1{font-size:31px;line-height:1.2;letter-spacing:-.02em;margin:0 0 6px}\n"
    "h2{font-size:22px;letter-spacing:-.01em;margin:0 0 4px}\n"
    "h3{font-size:16px;margin:22px 0 8px}\n"
    "section{margin:52px 0 0;scroll-margin-top:20px}\n"
    "p{margin:6px 0}\n"
    ".lead{color:var(--faint);max-width:78ch;margin:0 0 16px}\n"
    ".faint,footer,.note{color:var(--faint);font-size:14px}\n"
    ".story{font-size:18px;max-width:76ch}\n"
    ".story b{font-weight:650}\n"
    "code{font:.88em ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}\n"
    "#theme{font:inherit;font-size:14px;color:var(--faint);background:none;border:1px solid var(--grid);"
    "border-radius:999px;padding:5px 14px;cursor:pointer;white-space:nowrap}\n"
    "#theme:hover{color:var(--ink);border-color:var(--faint)}\n"
    "nav{display:flex;flex-wrap:wrap;gap:4px 18px;margin:18px 0 0;font-size:14.5px}\n"
    "a{color:var(--accent);text-decoration:none}\n"
    "a:hover{text-decoration:underline}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,200px),1fr));gap:14px;margin:22px 0 8px}\n"
    ".tile{padding:16px 18px;background:var(--panel);border:1px solid var(--grid);border-radius:12px}\n"
    ".tile b{display:block;font-size:32px;line-height:1.15;letter-spacing:-.02em;font-variant-numeric:tabular-nums}\n"
    ".tile span{color:var(--faint);font-size:14px;line-height:1.35;display:block;margin-top:4px}\n"
    ".badge{display:inline-block;padding:2px 12px;border-radius:999px;border:1px solid var(--c4);font-size:14px}\n";

/* Tables, figures, maps, galleries; then narrow windows and paper. */
static const char contents[] =
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:15px}\n"
    "th,td{padding:7px 16px 7px 0;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}\n"
    "th[scope=col]{color:var(--faint);font-weight:600;font-size:13px;vertical-align:bottom;line-height:1.3}\n"
    "th[scope=row]{font-weight:550}\n"
    "th:first-child,td.word,.keys th,.keys td{text-align:left}\n"
    "td.best{font-weight:700}\n"
    "td small{color:var(--faint)}\n"
    "td.sure{color:var(--good)}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,440px),1fr));gap:18px}\n"
    ".maps{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr));gap:18px}\n"
    "figure{margin:0;padding:16px 16px 10px;background:var(--panel);border:1px solid var(--grid);border-radius:12px;"
    "position:relative;min-width:0}\n"
    "figcaption{font-weight:620}\n"
    "figure>svg{width:100%;height:auto;display:block;overflow:visible}\n"
    ".legend{font-size:13.5px;margin:6px 0}\n"
    ".legend span{margin-right:14px;display:inline-block}\n"
    ".key{width:11px;height:11px;margin-right:6px;vertical-align:-1px;overflow:visible}\n"
    ".none{color:var(--faint)}\n"
    ".dot{stroke-width:5;stroke-linecap:round;fill:none}\n"
    ".dot.rest{stroke:var(--grid)}\n"
    ".dot.hole{stroke:var(--panel);stroke-width:2}\n"
    ".key .dot{stroke-width:10}\n"
    ".key .hole{stroke-width:4.4}\n"
    ".whisker{stroke:var(--ink);stroke-width:1.5;fill:none}\n"
    ".hair{stroke:var(--faint);stroke-width:1}\n"
    ".tip{position:absolute;pointer-events:none;background:var(--paper);color:var(--ink);"
    "border:1px solid var(--faint);border-radius:8px;padding:6px 10px;font-size:13px;line-height:1.45;"
    "white-space:nowrap;z-index:2;box-shadow:0 2px 10px #0003;font-variant-numeric:tabular-nums}\n"
    ".tip canvas{display:block;border-radius:5px;margin:2px auto}\n"
    ".tip i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}\n"
    ".rows{display:grid;gap:10px}\n"
    ".row{display:grid;grid-template-columns:150px 1fr 1fr;gap:10px 22px;align-items:center;padding:12px 14px;"
    "background:var(--panel);border:1px solid var(--grid);border-radius:12px}\n"
    ".row p{font-size:13px;color:var(--faint);margin:0 0 5px;line-height:1.35}\n"
    ".strip{display:flex;flex-wrap:wrap;gap:7px}\n"
    ".pic{position:relative;margin:0;line-height:0}\n"
    ".pic img{width:62px;height:62px;object-fit:cover;border-radius:8px;border:3px solid var(--grid);"
    "background:var(--grid)}\n"
    ".anchor img{width:84px;height:84px;border-color:var(--ink)}\n"
    ".yes img{border-color:var(--good)}\n"
    ".no img{border-color:var(--bad);border-style:dashed}\n"
    ".pic span{position:absolute;right:-3px;bottom:-3px;width:19px;height:19px;border-radius:50%;"
    "font:700 12px/19px system-ui,sans-serif;text-align:center;color:var(--paper)}\n"
    ".yes span{background:var(--good)}\n"
    ".no span{background:var(--bad)}\n"
    "details{margin:10px 0}\n"
    "summary{cursor:pointer;color:var(--accent)}\n"
    "footer{margin-top:60px;border-top:1px solid var(--grid);padding-top:14px}\n"
    "@media(max-width:700px){\n"
    "  main{padding:22px 14px 40px}\n"
    "  h1{font-size:25px}\n"
    "  .story{font-size:16.5px}\n"
    "  .tick{font-size:15px}\n"
    "  .name{font-size:15.5px}\n"
    "  .value{font-size:11px}\n"
    "  .row{grid-template-columns:1fr}\n"
    "  .tile b{font-size:27px}\n"
    "}\n"
    "@media print{\n"
    "  :root:not([data-theme=x]){" LIGHT "}\n"
    "  body{font-size:12px;print-color-adjust:exact;-webkit-print-color-adjust:exact}\n"
    "  main{max-width:none;padding:0}\n"
    "  #theme,nav{display:none}\n"
    "  section{margin-top:26px}\n"
    "  figure,.row,.tile{break-inside:avoid}\n"
    "  .charts{grid-template-columns:1fr 1fr}\n"
    "  .maps{grid-template-columns:1fr 1fr 1fr}\n"
    "  h2,h3,.lead{break-after:avoid}\n"
    "  .story{font-size:14px}\n"
    "  .tiles{grid-template-columns:repeat(4,1fr)}\n"
    "  .tile b{font-size:22px}\n"
    "  .wide{overflow:visible}\n"
    "  table{font-size:11px}\n"
    "  th,td{padding:4px 10px 4px 0}\n"
    "  .row{grid-template-columns:110px 1fr 1fr;padding:8px}\n"
    "  .pic img{width:38px;height:38px}\n"
    "  .anchor img{width:56px;height:56px}\n"
    "}\n";

static void palette(gf_text *out, int dark) {
    for (int i = 0; i < GF_COLOURS; i++)
        gf_text_add(out, ";--c%d:%s", i, *gf_svg_colour(i, dark) ? gf_svg_colour(i, dark) : "var(--ink)");
}

void gf_page_style(gf_text *out) {
    gf_text_add(out, "<style>\n:root{color-scheme:light;" LIGHT);
    palette(out, 0);
    gf_text_add(out, "}\n:root[data-theme=dark]{color-scheme:dark;" DARK);
    palette(out, 1);
    gf_text_add(out, "}\n@media(prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;" DARK);
    palette(out, 1);
    gf_text_add(out, "}}\n%s", layout);
    gf_svg_style(out);
    gf_text_add(out, "%s</style>\n", contents);         /* last: it may change what charts look like */
}
