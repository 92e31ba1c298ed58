# The page of glofnd report in a browser: it loads, its script runs, nothing is said on the console, no request leaves it, and
# it is as wide as the window, also a phone's. Skipped without Chromium.
set -u
glofnd=$1/glofnd
[ -x "$glofnd" ] || exit 77
for name in chromium chromium-browser google-chrome; do
    browser=$(command -v $name) && break
done
[ -n "${browser:-}" ] || { echo "no Chromium here: skipped"; exit 77; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
export HOME="$scratch"

fail() { echo "FAILED: $*" >&2; grep -v dbus err | head -n 20 >&2; exit 1; }
"$glofnd" pretrain --quiet --data shapes:n=96,classes=4,size=16,seed=3 --arch resnet8 --batch 16 --epochs 3 --warmup-epochs 0 \
    --alpha 0.25 --head-hidden 32 --head-out 8 --lambda-init quantile --start-epoch 1 --detector glofnd --out run > out 2> err
code=$?
grep -q oneDNN err && [ $code -ne 0 ] && exit 77            # built without networks
[ $code -eq 0 ] || fail "pretrain"
"$glofnd" report run --out page.html > out 2> err || fail "report"

# open_page FILE FLAGS...: the page after its script ran in `out`, what the console said in `said`, requests in net.json
open_page() {
    page=$1
    shift
    rm -f net.json said
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-sync \
        --disable-background-networking --disable-component-update --disable-extensions --user-data-dir="$scratch/profile" \
        --enable-logging=stderr --log-net-log="$scratch/net.json" --virtual-time-budget=3000 "$@" --dump-dom "file://$scratch/$page" > out 2> err
    code=$?
    [ $code -eq 124 ] && { echo "Chromium did not end: skipped"; exit 77; }
    grep CONSOLE err > said
    return $code
}

# Were there none? The browser's own (updates, the time) come from "not an origin", those of a file from "null".
no_requests() { ! grep -q '"initiator":"\(null\|file\)' net.json; }

# A page with an error and a request is seen as such; a browser that cannot even do this is none to test with.
printf '<title>x</title><img src="http://127.0.0.1:9/leak.png"><script>console.error("oops")</script>' > bad.html
open_page bad.html || { echo "Chromium does not run here: skipped"; exit 77; }
grep -q oops said || { echo "this Chromium does not tell what its console says: skipped"; exit 77; }
no_requests && { echo "this Chromium writes no log of requests: skipped"; exit 77; }

open_page page.html || fail "the page does not load"
[ -s said ] && { cat said >&2; fail "the console is not silent"; }
no_requests || fail "a request left the page"
grep -qE '<button id="theme"[^>]*>.{1,8}(dark|light)</button>' out || fail "the script did not run"
[ "$(grep -o '<section id=' out | wc -l)" -eq 9 ] || fail "sections"

# Nothing is wider than the window.
sed 's|</body>|<script>document.title="wide "+(document.documentElement.scrollWidth-innerWidth)</script></body>|' page.html > wide.html
for width in 1280 500; do
    open_page wide.html --window-size=$width,900 || fail "at $width pixels"
    grep -q '<title>wide \(0\|-[0-9]*\)</title>' out || fail "at $width pixels the page is too wide: $(grep -o '<title>[^<]*' out)"
done
echo "report in a browser: fine"
