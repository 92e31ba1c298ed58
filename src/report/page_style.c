/* page_style.c - the look of a page, and its script. */
#include "report/page_parts.h"

#define LIGHT "--ink:#1a2027;--faint:#5f6b78;--grid:#e4e8ed;--paper:#fff;--panel:#f8f9fb;--good:#007a55;--bad:#b34700;--accent:#0072b2"
#define DARK "--ink:#e8ebef;--faint:#9aa5b1;--grid:#2c343d;--paper:#12161b;--panel:#191f26;--good:#2fd1a0;--bad:#ff9a5c;--accent:#6cbcf0"

static const char layout[] =
    "*{box-sizing:border-box}html{scroll-behavior:smooth}body{margin:0;background:var(--paper);color:var(--ink);"
    "font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
    "main{max-width:1200px;margin:0 auto;padding:36px 24px 60px}"
    "header{display:flex;gap:16px;align-items:flex-start;justify-content:space-between}\n"
    "h1{font-size:31px;line-height:1.2;letter-spacing:-.02em;margin:0 0 6px}h2{font-size:22px;letter-spacing:-.01em;margin:0 0 4px}"
    "h3{font-size:16px;margin:22px 0 8px}section{margin:52px 0 0;scroll-margin-top:20px}\n"
    "p{margin:6px 0}.lead{color:var(--faint);max-width:78ch;margin:0 0 16px}.faint,footer,.note{color:var(--faint);font-size:14px}"
    ".story{font-size:18px;max-width:76ch}.story b{font-weight:650}\n"
    "code{font:.88em ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}"
    "#theme{font:inherit;font-size:14px;color:var(--faint);background:none;border:1px solid var(--grid);border-radius:999px;"
    "padding:5px 14px;cursor:pointer;white-space:nowrap}#theme:hover{color:var(--ink);border-color:var(--faint)}\n"
    "nav{display:flex;flex-wrap:wrap;gap:4px 18px;margin:18px 0 0;font-size:14.5px}a{color:var(--accent);text-decoration:none}"
    "a:hover{text-decoration:underline}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,200px),1fr));gap:14px;margin:22px 0 8px}"
    ".tile{padding:16px 18px;background:var(--panel);border:1px solid var(--grid);border-radius:12px}"
    ".tile b{display:block;font-size:32px;line-height:1.15;letter-spacing:-.02em;font-variant-numeric:tabular-nums}"
    ".tile span{color:var(--faint);font-size:14px;line-height:1.35;display:block;margin-top:4px}\n"
    ".badge{display:inline-block;padding:2px 12px;border-radius:999px;border:1px solid var(--c4);font-size:14px}\n";

static const char contents[] =
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:15px}\n"
    "th,td{padding:7px 16px 7px 0;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}\n"
    "th[scope=col]{color:var(--faint);font-weight:600;font-size:13px;vertical-align:bottom;line-height:1.3}th[scope=row]{font-weight:550}"
    "th:first-child,td.word,.keys th,.keys td{text-align:left}td.best{font-weight:700}td small{color:var(--faint)}"
    "td.sure{color:var(--good)}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:18px}"
    ".maps{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,320px),1fr));gap:18px}\n"
    "figure{margin:0;padding:16px 16px 10px;background:var(--panel);border:1px solid var(--grid);border-radius:12px;position:relative;"
    "min-width:0}figcaption{font-weight:620}figure>svg{width:100%;height:auto;display:block;overflow:visible}\n"
    ".legend{font-size:13.5px;margin:6px 0}.legend span{margin-right:14px;display:inline-block}"
    ".key{width:11px;height:11px;margin-right:6px;vertical-align:-1px;overflow:visible}.none{color:var(--faint)}\n"
    ".dot{stroke-width:5;stroke-linecap:round;fill:none}.dot.rest{stroke:var(--grid)}.dot.hole{stroke:var(--panel);stroke-width:2}"
    ".key .dot{stroke-width:10}.key .hole{stroke-width:4.4}.whisker{stroke:var(--ink);stroke-width:1.5;fill:none}\n"
    ".hair{stroke:var(--faint);stroke-width:1}.tip{position:absolute;pointer-events:none;background:var(--paper);color:var(--ink);"
    "border:1px solid var(--faint);border-radius:8px;padding:6px 10px;font-size:13px;line-height:1.45;white-space:nowrap;z-index:2;"
    "box-shadow:0 2px 10px #0003;font-variant-numeric:tabular-nums}.tip i{display:inline-block;width:10px;height:10px;"
    "border-radius:3px;margin-right:6px}\n"
    ".rows{display:grid;gap:10px}.row{display:grid;grid-template-columns:150px 1fr 1fr;gap:10px 22px;align-items:center;"
    "padding:12px 14px;background:var(--panel);border:1px solid var(--grid);border-radius:12px}"
    ".row p{font-size:13px;color:var(--faint);margin:0 0 5px;line-height:1.35}.strip{display:flex;flex-wrap:wrap;gap:7px}\n"
    ".pic{position:relative;margin:0;line-height:0}.pic img{width:62px;height:62px;object-fit:cover;border-radius:8px;"
    "border:3px solid var(--grid);background:var(--grid)}.anchor img{width:84px;height:84px;border-color:var(--ink)}"
    ".yes img{border-color:var(--good)}.no img{border-color:var(--bad);border-style:dashed}"
    ".pic span{position:absolute;right:-3px;bottom:-3px;width:19px;height:19px;border-radius:50%;font:700 12px/19px system-ui,sans-serif;"
    "text-align:center;color:var(--paper)}.yes span{background:var(--good)}.no span{background:var(--bad)}\n"
    "details{margin:10px 0}summary{cursor:pointer;color:var(--accent)}footer{margin-top:60px;border-top:1px solid var(--grid);"
    "padding-top:14px}\n"
    "@media(max-width:700px){main{padding:22px 14px 40px}h1{font-size:25px}.story{font-size:16.5px}.tick{font-size:15px}"
    ".name{font-size:15.5px}.value{font-size:11px}.row{grid-template-columns:1fr}.tile b{font-size:27px}}\n"
    "@media print{:root{" LIGHT "}body{font-size:12px;print-color-adjust:exact;-webkit-print-color-adjust:exact}main{max-width:none;"
    "padding:0}#theme,nav{display:none}section{margin-top:26px}figure,.row,.tile{break-inside:avoid}"
    ".charts,.maps{grid-template-columns:1fr 1fr}h2,h3{break-after:avoid}}\n";

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

/* The box of a chart is 520 x 280, its plane 56..508 x 14..234: plot_axes.h. */
static const char script[] =
    "(function(){var d=document,root=d.documentElement,b=d.getElementById('theme');\n"
    "function dark(){var t=root.getAttribute('data-theme');return t?t=='dark':matchMedia('(prefers-color-scheme:dark)').matches}\n"
    "function label(){b.textContent=dark()?'\\u2600 light':'\\u263e dark'}\n"
    "b.hidden=false;b.onclick=function(){root.setAttribute('data-theme',dark()?'light':'dark');label()};label();\n"
    "function list(p,k){return p.getAttribute(k).split(',').map(function(v){return v===''?NaN:+v})}\n"
    "d.querySelectorAll('svg.plot').forEach(function(s){\n"
    " var lines=[].slice.call(s.querySelectorAll('path[data-y]')).map(function(p){return{p:p,n:p.getAttribute('data-name'),"
    "x:list(p,'data-x'),y:list(p,'data-y')}});\n"
    " var x0=+s.getAttribute('data-x0'),x1=+s.getAttribute('data-x1'),hair,tip;\n"
    " function leave(){if(hair){hair.remove();tip.remove();hair=tip=null}}\n"
    " s.addEventListener('pointerleave',leave);s.addEventListener('pointermove',function(e){\n"
    "  var r=s.getBoundingClientRect(),x=x0+((e.clientX-r.left)/r.width*520-56)/452*(x1-x0),best=NaN;\n"
    "  lines.forEach(function(l){l.x.forEach(function(v,i){if(!isNaN(l.y[i])&&!(Math.abs(v-x)>=Math.abs(best-x)))best=v})});\n"
    "  if(isNaN(best)){leave();return}\n"
    "  if(!hair){hair=d.createElementNS(s.namespaceURI,'path');hair.setAttribute('class','hair');s.appendChild(hair);"
    "tip=d.createElement('div');tip.className='tip';s.parentNode.appendChild(tip)}\n"
    "  var px=56+(best-x0)/(x1-x0)*452;hair.setAttribute('d','M'+px+' 14V234');tip.textContent='';\n"
    "  var head=d.createElement('div');head.textContent=s.getAttribute('data-unit')+' '+(+best.toPrecision(4));tip.appendChild(head);\n"
    "  lines.forEach(function(l){var k=-1;l.x.forEach(function(v,i){if(!isNaN(l.y[i])&&(k<0||Math.abs(v-best)<Math.abs(l.x[k]-best)))"
    "k=i});if(k<0||Math.abs(l.x[k]-best)>(x1-x0)/40)return;var row=d.createElement('div'),c=d.createElement('i');"
    "c.style.background=getComputedStyle(l.p).stroke;row.appendChild(c);"
    "row.appendChild(d.createTextNode(l.n+': '+(+l.y[k].toPrecision(4))));tip.appendChild(row)});\n"
    "  var f=s.parentNode.getBoundingClientRect(),at=r.left-f.left+px/520*r.width;\n"
    "  tip.style.top=(r.top-f.top+8)+'px';tip.style.left=(at+12+tip.offsetWidth>f.width?Math.max(0,at-12-tip.offsetWidth):at+12)+'px';\n"
    " })})})();";

void gf_page_script(gf_text *out) { gf_text_add(out, "<script>%s</script>\n", script); }
