# The page of glofnd report in a browser: it loads, its script runs, nothing is said on the console, no request leaves it, and
# it is as wide as the window, also a phone's. Skipped without Chromium.
. "$2/tests/sh/common.inc"
needs_runs
for name in chromium chromium-browser google-chrome; do
    browser=$(command -v $name) && break
done
[ -n "${browser:-}" ] || skip "no Chromium here"
export HOME="$scratch"

data=shapes:n=96,classes=4,size=16,seed=3
train run --epochs 3 --lambda-init quantile --start-epoch 1 --detector glofnd
expect 0 "page page.html" "$glofnd" report run --out page.html

# open_page FILE FLAGS...: the page after its script ran in `out`, what the console said in `said`, requests in net.json
open_page() {
    page=$1
    shift
    rm -f net.json said
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-sync \
        --disable-background-networking --disable-component-update --disable-extensions --user-data-dir="$scratch/profile" \
        --enable-logging=stderr --log-net-log="$scratch/net.json" --virtual-time-budget=3000 "$@" \
        --dump-dom "file://$scratch/$page" > out 2> said_all
    code=$?
    [ $code -eq 124 ] && skip "Chromium did not end"
    grep -v dbus said_all > err
    grep CONSOLE err > said
    return $code
}

# Were there none? The browser's own (updates, the time) come from "not an origin", those of a file from "null".
no_requests() { ! grep -q '"initiator":"\(null\|file\)' net.json; }

# A page with an error and a request is seen as such; a browser that cannot even do this is none to test with.
printf '<title>x</title><img src="http://127.0.0.1:9/leak.png"><script>console.error("oops")</script>' > bad.html
open_page bad.html || skip "Chromium does not run here"
grep -q oops said || skip "this Chromium does not tell what its console says"
no_requests && skip "this Chromium writes no log of requests"

open_page page.html || fail "the page does not load"
[ -s said ] && { cat said >&2; fail "the console is not silent"; }
no_requests || fail "a request left the page"
grep -qE '<button id="theme"[^>]*>.{1,8}(dark|light)</button>' out || fail "the script did not run"
[ "$(grep -o '<section id=' out | wc -l)" -eq 9 ] || fail "sections"

# Nothing is wider than the window.
script='<script>document.title="wide "+(document.documentElement.scrollWidth-innerWidth)</script>'
sed "s|</body>|$script</body>|" page.html > wide.html
for width in 1280 500; do
    open_page wide.html --window-size=$width,900 || fail "at $width pixels"
    grep -q '<title>wide \(0\|-[0-9]*\)</title>' out || fail "too wide at $width pixels: $(grep -o '<title>[^<]*' out)"
done
echo "report in a browser: fine"
