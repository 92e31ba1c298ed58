# The page of glofnd discover --html in a browser: no error, nothing asked of anywhere, the numbers of the result, and the
# duplicates first. Without a browser only what the file itself says is looked at.
. "$2/tests/sh/common.inc"
needs_tools python3

# 90 rows of 16 numbers; 31 and 32 are copies of 30, 41 nearly one of 40. Names that would break a page, or run in it.
cat > make.py <<'PY'
import random, struct
random.seed(7)
rows = [[random.gauss(0, 1) for _ in range(16)] for _ in range(90)]
rows[31] = rows[32] = rows[30]
rows[41] = [v + 0.001 for v in rows[40]]
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (90, 16), }"
head += " " * ((-11 - len(head)) % 64) + "\n"
open("x.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
                          b"".join(struct.pack("<16f", *r) for r in rows))
names = ["img %d" % i for i in range(90)]
names[30] = "</script><script>console.error('broken out')</script>"
names[40] = "<img src=x onerror=console.error(1)> & \"quotes\" \u00e4\u2603"
open("names", "w", encoding="utf-8").write("\n".join(names) + "\n")
PY
python3 make.py || fail "embeddings"
expect 0 "open index.html" "$glofnd" discover x.npy --names names --k 4 --top 8 --dup 0.99 --html --out r --quiet
page=r/index.html
[ -s $page ] || fail "no page"

# Nothing from elsewhere: no address in what the browser loads by itself, and names cannot end the script.
grep -oiE '(src|href|action|srcset)="[^"]*"' $page | grep -v 'href="data:,"' | grep -q . && fail "something is referred to"
grep -qE '@import|url\((https?:|//)|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|import\(' $page && fail "a way out of the page"
grep -E '\.src = ' $page | grep -v 'e.src = meta.folder + "/" + id + ".js";' | grep -q . && fail "something else is loaded"
[ "$(grep -c '<script>console' $page)" -eq 0 ] || fail "a name stands in the page as it is"

grep -q "Content-Security-Policy\" content=\"default-src 'none'; " $page || fail "no policy of what the page may load"

# Images from a dataset, within a budget.
data=shapes:n=90,classes=3,size=16,seed=3
expect 0 "open index.html" "$glofnd" discover x.npy --data $data --k 4 --dup 0.99 --html --html-mb 0.1 --out s --quiet
[ "$(wc -c < s/index.html)" -lt 250000 ] || fail "the page is larger than its budget"
expect 0 "open index.html" "$glofnd" discover x.npy --data $data --k 4 --dup 0.99 --html --out t --quiet
grep -q "Thumbnails of all rows" t/index.html || fail "images are missing"
[ "$(head -c 4 t/index.html)" = "<!do" ] || fail "no page"
expect 1 "91 images" "$glofnd" discover x.npy --data shapes:n=91,classes=3,size=16 --html --out u --quiet

# UTF-8 whatever files are called (a Latin-1 byte, a slash that is too long, half of a pair), and a summary of several lines.
bad=$(printf 'caf\351\340\200\257\355\240\200')
cp x.npy "$bad.npy"
data=shapes:n=90,classes=2,size=16,seed=3
if "$glofnd" data export $data --folder --out images > out 2>&1; then
    mv "images/$(ls images | head -n 1)" "images/$bad" || fail "no class folder"
    data=folder:images
fi
expect 0 "open index.html" "$glofnd" discover "$bad.npy" --data $data --k 4 --html --out v --quiet
python3 -c '
text = open("v/index.html", "rb").read().decode("utf-8")
pre = text.split("<pre>")[1].split("</pre>")[0]
assert pre.startswith("embeddings  90 x 16 from caf\\xe9") and pre.count("\n") > 6 and "?" not in pre, pre' || fail "not UTF-8"

browser=
for b in chromium chromium-browser google-chrome; do command -v $b > /dev/null && browser=$b && break; done
[ -n "$browser" ] || skip "no Chromium: the page was not opened"

# look PAGE: the page as it is after its scripts ran (dom), what the browser says (err), and what it asked the network for
# (net.json), where every host is a dead end; browsers also ask for things of their own.
own='//([a-z0-9-]+\.)*(google|googleapis|gstatic|gvt1)\.com[/:]'
look() {
    HOME=$scratch timeout 120 $browser --headless=new --no-sandbox --disable-gpu --no-first-run \
        --user-data-dir="$scratch/profile" --host-resolver-rules="MAP * ~NOTFOUND" \
        --disable-background-networking --virtual-time-budget=5000 \
        --log-net-log="$scratch/net.json" --enable-logging=stderr --dump-dom "file://$scratch/$1" > dom 2> err
    [ -s dom ] || skip "the browser does not start here: $(head -n 3 err)"
    if grep -E 'CONSOLE|Uncaught|ERR_' err | grep -q .; then fail "the browser complains about $1"; fi
    grep -oE '"url":"(http|https|ws|wss|ftp):[^"]*' net.json | grep -vE "$own" | grep -q . && fail "$1 asks the network"
    grep -q 'data-ready="1"' dom || fail "the script of $1 did not reach its end"
}

look r/index.html
grep -q '&lt;/script&gt;&lt;script&gt;console' dom || fail "the name of row 30 is not shown"
first=$(grep -o 'class="group[^"]*"><p class="small">group [0-9]*: [0-9]* rows[^/]*' dom | head -1)
case $first in *"3 rows"*"exact copies"*) ;; *) fail "exact copies are not first: $first" ;; esac
python3 - <<'PY' || fail "numbers of the page"
import html, json, re
page, summary = open("dom", encoding="utf-8").read(), json.load(open("r/summary.json"))
facts = {html.unescape(b): a for a, b in re.findall(r'<div class="fact"><b>([^<]*)</b><span>([^<]*)</span>', page)}
assert facts["mutual pairs"] == "{:,}".format(summary["mutual_pairs"]), facts
assert facts["exact copies"] == "2" and facts["groups of duplicates"] == str(summary["duplicate_groups"]), facts
assert facts["mean threshold"] == "%.4f" % summary["threshold_mean"], facts
pairs = [l.split("\t") for l in open("r/pairs.tsv", encoding="utf-8").read().splitlines()[1:]]
mine = [p for p in pairs if p[0] == "30"]
shown = re.findall(r' title="[^"]*similarity ([-0-9.]+), above the threshold', page)
assert shown == ["%.4f" % float(p[2]) for p in mine], (shown, mine)
assert "threshold " + "%.4f" % float(mine[0][3]) in page if mine else True
PY

# Searching as a hand would: part of a name, Enter; then the components, and an anchor that the address names.
cp r/index.html r/asked.html
cat >> r/asked.html <<'HTML'
<script>
  const box = document.getElementById("find");
  const soon = () => new Promise((done) => setTimeout(done, 200));
  (async () => {
    while (document.documentElement.dataset.ready !== "1") await soon();
    box.value = "IMG 55";
    box.dispatchEvent(new Event("input"));
    await soon();
    document.body.dataset.hits = document.querySelectorAll("#hits li").length;
    box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    await soon();
    for (const tab of document.querySelectorAll("#tabs button")) if (tab.textContent.startsWith("Components")) tab.click();
  })();
</script>
HTML
look r/asked.html
grep -q 'data-hits="1"' dom || fail "the search does not find one row"
grep -q '<h2>img 55</h2>' dom || fail "the anchor that was searched is not shown"
grep -q 'component 0: ' dom || fail "components are not shown"
look "r/index.html#row=77"
grep -q '<h2>img 77</h2>' dom || fail "the anchor of the address is not shown"
look t/index.html
grep -q 'background-image: url(' dom || fail "no thumbnails are drawn"

# Decisions: what is kept and removed, the matrix of splits, outliers and labels with their lists.
python3 - <<'PY' || fail "labels"
import struct
head = "{'descr': '<i4', 'fortran_order': False, 'shape': (90,), }"
head += " " * ((-11 - len(head)) % 64) + "\n"
data = struct.pack("<90i", *[i % 3 for i in range(90)])
open("y.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
PY
splits='--split train=0:31 --split test=31:90'
expect 0 "open index.html" "$glofnd" discover x.npy --names names --labels y.npy $splits --k 4 --dup 0.99 --html --out d --quiet
look d/index.html
for text in '<b class="right">keep 87</b>' '<b class="wrong">remove 3</b>' \
    '<td class="wrong">1<span class="soft"> (1 exact)</span></td>' '>Leaks (' '>Outliers (' '>Label issues (' \
    'train – test: 1.0000' '>keep</div>' '>remove 1.0000</button>' 'class="tile removed"' '<kbd>a</kbd> accept'; do
    grep -qF -- "$text" dom || fail "the page does not show: $text"
done

# What a curator decides by keys, and the files that the page makes of it. Without a decision keep.txt is that of the search.
# use: opens a copy of d/index.html, does what `steps` says, and saves: files in the folder saved.
use() {
    { cat d/index.html
      cat <<'HTML'
<script>
  const soon = () => new Promise((done) => setTimeout(done, 100)), Plain = Blob, texts = new Map(), saved = new Map();
  const make = URL.createObjectURL;
  globalThis.Blob = function (parts, kind) { const blob = new Plain(parts, kind); texts.set(blob, parts[0]); return blob; };
  URL.createObjectURL = (blob) => { const url = make(blob); saved.set(url, texts.get(blob)); return url; };
  HTMLAnchorElement.prototype.click = function () {
    const e = document.createElement("pre");
    e.dataset.file = this.download, e.textContent = saved.get(this.href), document.body.append(e);
  };
  const press = async (...keys) => { for (const key of keys) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })), await soon(); };
  const push = async (text, from) => {
    for (const b of document.querySelectorAll((from || "") + " button")) if (b.textContent.startsWith(text)) { b.click(); break; }
    await soon();
  };
  (async () => {
    while (document.documentElement.dataset.ready !== "1") await soon();
HTML
      echo "$steps"
      cat <<'HTML'
    await push("keep.txt", "#todo");
    await push("labels_fixed.csv", "#todo");
  })();
</script>
HTML
    } > d/used.html
    look d/used.html
    rm -rf saved
    python3 -c '
import html, os, re
os.mkdir("saved")
for name, text in re.findall(r"<pre data-file=\"([^\"]*)\">([^<]*)</pre>", open("dom", encoding="utf-8").read()):
    open("saved/" + name, "w", encoding="utf-8").write(html.unescape(text))' || fail "saved files"
}
steps=
use
for file in keep.txt keep_1.txt keep_2.txt; do cmp saved/$file d/$file || fail "$file of the page without a decision"; done
{ echo row,label; awk 'BEGIN { for (i = 0; i < 90; i++) print i "," i % 3 }'; } > expected
cmp saved/labels_fixed.csv expected || fail "labels_fixed.csv without a decision"
# Group 1 (30, 31, 32) is kept by r; 41 is accepted, taken back and accepted again; the first outlier goes, the second stays; the
# first issue gets its label, the second not. Who reads the decisions anew finds them in the browser.
steps='await push("Duplicates", "#tabs"); await press("j", "k", "r", "a", "u", "a");
       await push("Outliers", "#tabs"); await press("a", "r"); await push("Label issues", "#tabs"); await press("a", "j", "k", "r");
       const again = gf_review(JSON.parse(document.getElementById("d-meta").textContent));
       document.body.dataset.again = again.rows_kept() + " " + again.accepted("labels") + " " + again.rejected("outliers");'
use
gone=$(awk 'NR == 2 { print $1 }' d/outliers.tsv)
{ cat d/keep.txt; printf '31\n32\n'; } | sort -n | grep -vx "$gone" > expected
cmp saved/keep.txt expected || fail "keep.txt with decisions"
awk '$1 < 31' expected | cmp saved/keep_1.txt - || fail "keep_1.txt with decisions"
awk '$1 >= 31 { print $1 - 31 }' expected | cmp saved/keep_2.txt - || fail "keep_2.txt with decisions"
awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i } NR == 2 { print $c["row"] "," $c["suggested"] }' d/label_issues.tsv > fixed
awk -F, 'NR == FNR { f[$1] = $2; next } FNR == 1 { print "row,label" } { print $1 "," ($1 in f ? f[$1] : $2) }' fixed \
    - > expected <<ROWS
$(awk 'BEGIN { for (i = 0; i < 90; i++) print i "," i % 3 }')
ROWS
cmp saved/labels_fixed.csv expected || fail "labels_fixed.csv with decisions"
grep -q "data-again=\"$(wc -l < saved/keep.txt) 1 1\"" dom || fail "decisions are lost: $(grep -o 'data-again="[^"]*' dom)"
expect 0 "issues" "$glofnd" discover x.npy --labels saved/labels_fixed.csv --label-column label --k 4 --out w
steps='await push("Duplicates", "#tabs"); await press("r"); await push("start again", "#todo");'
use
cmp saved/keep.txt d/keep.txt || fail "start again"

# Without a script the lists are there.
grep -A400 '<noscript>' d/index.html | grep -q '(remove, 1.0000)</td>' || fail "no lists without JavaScript"

# A row whose name is empty is called by its number.
sed '56s/.*//' names > unnamed
expect 0 "open index.html" "$glofnd" discover x.npy --names unnamed --k 4 --html --out u --quiet
look "u/index.html#row=55"
grep -q '<h2>row 55</h2>' dom || fail "a row without a name has none on the page"
grep -qE '<button class="tile[^>]*></button>' dom && fail "an empty tile"

# A page that is too large for one file takes pieces from the folder beside it, only those that it shows.
python3 - <<'PY' || fail "many rows"
import random, struct
random.seed(2)
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (40000, 3), }"
head += " " * ((-11 - len(head)) % 64) + "\n"
data = struct.pack("<120000f", *[random.gauss(0, 1) for _ in range(120000)])
open("many.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
open("many", "w").write("".join("picture %d </script>\n" % i for i in range(40000)))
PY
expect 0 "open index.html" "$glofnd" discover many.npy --names many --k 4 --top 12 --dup exact --html --out many.out --quiet
[ "$(wc -c < many.out/index.html)" -lt 100000 ] && [ -s many.out/page/a9.js ] || fail "no folder of pieces"
grep -l '</script>' many.out/page/*.js > out && fail "names as they are"
look "many.out/index.html#row=39999"
grep -q '<h2>picture 39999 &lt;/script&gt;</h2>' dom || fail "an anchor of the last piece"
expect 0 "written" "$glofnd" discover x.npy --k 4 --out many.out --force --quiet
[ ! -e many.out/page ] && [ "$(ls -d many.out*)" = many.out ] || fail "the old folder of pieces stays"
