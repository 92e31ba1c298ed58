# The pages of glofnd report and discover in a browser: the report loads, its script runs, the console stays empty, no
# request leaves it; both are as wide as the window, also a phone's, where figures are visible and letters can be read. Skipped
# without Chromium.
. "$2/tests/sh/common.inc"
needs_runs
for name in chromium chromium-browser google-chrome; do
    browser=$(command -v $name) && break
done
[ -n "${browser:-}" ] || skip "no Chromium here"
export HOME="$scratch"

data=shapes:n=96,classes=4,size=16,seed=3
train run --epochs 3 --lambda-init quantile --start-epoch 1 --detector glofnd
"$glofnd" eval knn run > out 2> err || fail "eval knn"
"$glofnd" eval fn run > out 2> err || fail "eval fn"
expect 0 "page page.html" "$glofnd" report run --out page.html

# open_page FILE FLAGS...: the page after its script ran in `out`, the console in `console`, requests in net.json
open_page() {
    page=$1
    shift
    rm -f net.json console
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-sync \
        --disable-background-networking --disable-component-update --disable-extensions --user-data-dir="$scratch/profile" \
        --enable-logging=stderr --log-net-log="$scratch/net.json" --virtual-time-budget=3000 "$@" \
        --dump-dom "file://$scratch/$page" > out 2> said_all
    code=$?
    [ $code -eq 124 ] && skip "Chromium did not end"
    grep -v dbus said_all > err
    grep CONSOLE err > console
    return $code
}

# Were there none? The browser's own (updates, the time) come from "not an origin", those of a file from "null".
no_requests() { ! grep -q '"initiator":"\(null\|file\)' net.json; }

# A page with an error and a request is seen as such; a browser that cannot even do this is none to test with.
printf '<title>x</title><img src="http://127.0.0.1:9/leak.png"><script>console.error("oops")</script>' > bad.html
open_page bad.html || skip "Chromium does not run here"
grep -q oops console || skip "this Chromium does not print its console"
no_requests && skip "this Chromium writes no log of requests"

open_page page.html || fail "the page does not load"
[ -s console ] && { cat console >&2; fail "the console is not empty"; }
no_requests || fail "a request left the page"
grep -qE '<button id="theme"[^>]*>.{1,8}(dark|light)</button>' out || fail "the script did not run"
[ "$(grep -o '<section id=' out | wc -l)" -eq 9 ] || fail "sections"

# In a frame of some width: what leaves it, letters that are too small, texts of a drawing that lie on each other, tables whose
# first figure is not visible or whose first column goes away. The frame itself is asked: windows cannot be as narrow as a phone.
cat > inspect.js <<'JS'
const problems = [], frame = document.querySelector("iframe"), page = frame.contentDocument, view = frame.contentWindow;
const seen = (e) => e.getClientRects().length > 0, box = (e) => e.getBoundingClientRect();
const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
if (page.documentElement.scrollWidth > view.innerWidth) problems.push("wider than the window");
for (const e of page.querySelectorAll("details")) e.open = true;
for (const svg of [...page.querySelectorAll("svg[role=img]")].filter(seen)) {
  const texts = [...svg.querySelectorAll("text")].filter(seen);
  for (const t of texts) {
    const size = parseFloat(view.getComputedStyle(t).fontSize) * t.getScreenCTM().a;
    if (size < 9.9) problems.push("small: " + t.textContent + " " + size.toFixed(1));
    if (box(t).left < 0 || box(t).right > view.innerWidth) problems.push("cut off: " + t.textContent);
    for (const u of texts) if (u !== t && over(box(t), box(u))) 
        problems.push("overlap: " + t.textContent + " | " + u.textContent);
  }
}
for (const wide of page.querySelectorAll(".wide")) {
  for (const row of wide.querySelectorAll("tr"))
    if (box(row.cells[1]).right > view.innerWidth || box(row.cells[0]).right > box(row.cells[1]).left + 1)
      problems.push("out of sight: " + row.textContent);
  wide.scrollLeft = 10000;
  if (box(wide.querySelector("th")).left < 0) problems.push("the first column goes away");
}
const drawn = [...page.querySelectorAll("svg[role=img]")].filter(seen).length;
document.title = problems.length ? problems.slice(0, 5).join("; ") : "fine, " + drawn + " drawings";
JS
# fits PAGE: at the widths of a desktop and of a phone
fits() {
    for width in 1200 680 540 400 360; do
        { printf '<title>x</title><iframe width=%d height=800 src="%s"></iframe><script>onload = () => {' $width "$1"
          cat inspect.js
          echo '}</script>'; } > frame.html
        open_page frame.html --allow-file-access-from-files --window-size=1280,900 || fail "$1 at $width pixels"
        grep -q '<title>fine, [1-9]' out || fail "$1 at $width pixels: $(grep -o '<title>[^<]*' out)"
    done
}
fits page.html

# Every drawing can be reached by the keyboard, and arrows show its figures; terms are explained; a name of usual length is not
# broken on a phone, where the contents stay in sight.
cat > keys.js <<'JS'
const problems = [], frame = document.querySelector("iframe"), page = frame.contentDocument, view = frame.contentWindow;
const press = (e, key) => e.dispatchEvent(new view.KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
const plots = [...page.querySelectorAll("svg.plot")];
for (const svg of page.querySelectorAll("svg[role=img]"))
  if (svg.tabIndex !== 0) problems.push("not reachable: " + svg.getAttribute("aria-label"));
for (const svg of plots) {
  press(svg, "End");
  const last = svg.parentNode.querySelector(".tip"), text = last && last.textContent;
  press(svg, "Home");
  const first = svg.parentNode.querySelector(".tip");
  if (!text || !/: -?[0-9]/.test(text)) problems.push("no figures by the keyboard");
  press(svg, "Escape");
  if (first && svg.parentNode.querySelector(".tip")) problems.push("Escape leaves the figures");
}
if (page.querySelectorAll("abbr[title]").length < 5) problems.push("terms are not explained");
const nav = page.querySelector("nav");
view.scrollTo(0, 3000);
if (nav.getBoundingClientRect().top < -1) problems.push("the contents go away");
const walker = page.createTreeWalker(page.body, 4);
for (let node; (node = walker.nextNode()); ) {
  const text = page.createRange();
  if (!node.parentNode.closest("th:first-child") || !/^[^ \n]{1,13}$/.test(node.data)) continue;
  text.selectNodeContents(node);
  if (new Set([...text.getClientRects()].map((r) => Math.round(r.top))).size > 1) problems.push("broken: " + node.data);
}
document.title = problems.length ? problems.slice(0, 5).join("; ") : "fine, " + plots.length + " plots";
JS
{ printf '<title>x</title><iframe width=390 height=800 src="page.html"></iframe><script>onload = () => {'
  cat keys.js
  echo '}</script>'; } > frame.html
open_page frame.html --allow-file-access-from-files --window-size=1280,900 || fail "keys"
grep -q '<title>fine, [1-9]' out || fail "keys: $(grep -o '<title>[^<]*' out)"
[ -s console ] && fail "keys: the console: $(cat console)"

expect 0 "open index.html" "$glofnd" discover run --data $data --k 4 --html --out found --quiet
fits found/index.html
echo "pages in a browser: fine"
