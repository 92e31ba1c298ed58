# glofnd report on tiny runs: the page of one and of several, numbers of the log in it, hostile names, corrupt and
# incomplete logs, runs that have not begun, messages and exit codes.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
data=shapes:n=96,classes=4,size=16,seed=3

# Nothing from elsewhere, no number that is none.
selfcontained() {
    grep -qE '(src|href)="[^"#d]' "$1" && fail "$1 has a link to elsewhere"
    grep -qE 'url\(|@import|https?:' "$1" && fail "$1 has an address"
    grep -qwE 'nan|-nan|inf' "$1" && fail "$1 has a number that is none"
    grep -q '</body></html>' "$1" || fail "$1 has no end"
}
three="--epochs 3 --lambda-init quantile --log-steps 1 --start-epoch 1"
train run $three --detector glofnd
evil='<b>"x&y'"'"'<b>'
train "$evil" $three --detector fnc

# One run, all sections; the numbers are those of the log.
expect 0 "page one.html" "$glofnd" report run --out one.html
selfcontained one.html
for id in found results detection thresholds maps labels training cost config; do
    grep -q "<section id=\"$id\">" one.html || fail "section $id"
done
grep -q 'One run; others differ from it by chance' one.html || fail "one run is compared with none"
[ "$(grep -o 'src="data:image/[a-z]*;base64' one.html | wc -l)" -gt 10 ] || fail "pictures"
[ "$(grep -c 'class="map"' one.html)" -eq 1 ] || fail "t-SNE"
grep -q '<img id="sheet" alt="" hidden data-side="24"' one.html || fail "the pictures of the dots"
dots=$(grep -o 'data-i="[0-9,]*"' one.html | tr -cd ',"' | wc -c)
[ "$dots" -eq $((96 + 4)) ] || fail "$dots: 96 dots in 4 classes"
for name in "λ, learned by GloFND" "exact (1-α) quantile" "FNC, per batch"; do
    sed -n '/<section id="thresholds">/,/<\/section>/p' one.html | grep -q "</svg>$name" || fail "thresholds: $name"
done
# number LINE KEY FACTOR DIGITS: of the last line of the log that has the text LINE
number() {
    x=$(grep -F "$1" run/log.jsonl | tail -1 | sed "s/.*\"$2\": \([-0-9.e]*\).*/\1/")
    awk -v x="$x" "BEGIN { printf \"%.$4g\", $3 * x }"
}
for key in flagged pooled_precision pooled_recall pooled_f1 f1; do
    shown=$(number '"event": "epoch"' $key 100 6)
    grep -q "data-x=\"1,2,3\" data-y=\",[^\"]*,$shown\"" one.html || fail "$key $shown of the last epoch"
done
shown=$(number '"event": "epoch"' lambda 1 6)
grep -q "data-y=\",[^\"]*,$shown\"" one.html || fail "lambda $shown of the last epoch"
for key in loss lr grad_norm images_per_s; do
    shown=$(number '"event": "step"' $key 1 6)
    grep -q "data-name=\"run\" data-x=\"[^\"]*,3\" data-y=\"[^\"]*,$shown\"" one.html || fail "$key $shown of the last step"
done
# The time of a step is the mean of all 18; the memory is what the run wrote down.
for part in load:'waiting for data' backward:backward; do
    mean=$(sed -n "s/.*\"time_${part%%:*}\": \([0-9.e-]*\),.*/\1/p" run/log.jsonl |
        awk '{ x += $1 } END { printf "%.3g", 1e3 * x / NR }')
    grep -q "<title>${part#*:}: $mean ms, " one.html || fail "$mean ms of ${part%%:*}"
done
held() { sed "s/.*\"$1\": \([0-9]*\).*/\1/" run/memory.json; }
for part in activations:activations weights:'weights and gradients'; do
    shown=$(awk -v x="$(held ${part%%:*})" 'BEGIN { printf "%.3g", x / 1e6 }')
    grep -q "<title>${part#*:}: $shown MB, " one.html || fail "$shown MB of ${part%%:*}"
done
[ "$(held anchors)" -eq 96 ] && [ "$(held step)" -eq 18 ] && [ "$(held peak)" -gt "$(held activations)" ] || fail "memory.json"
all=$(for part in weights optimizer activations workspace loss data; do held $part; done |
    awk '{ x += $1 } END { printf "%.0f", x / 1e6 }')
grep -q "20 bytes for each of 96, [0-9.]*[^0-9]*% of the <b>$all[^0-9]*MB" one.html || fail "what the anchors take"
# The first figure: an image, others by similarity, and its threshold.
example=$(sed -n '/<figure class="example">/,/<\/figure>/p' one.html)
[ "$(echo "$example" | grep -o '<image ' | wc -l)" -ge 5 ] || fail "others on the line"
# It exists for wide and for narrow windows, with the same numbers and images.
for shape in broad slim; do
    echo "$example" | sed -n "/<svg class=\"$shape\"/,/<\/svg>/p" > $shape
    for id in $(grep -o 'href="#example-[0-9]*' $shape | cut -d'#' -f2); do
        echo "$example" | grep -q "<symbol id=\"$id\"" || fail "$shape: no picture $id"
    done
    grep -o 'left out: [0-9]*\|pushed apart: [0-9]*\|λ = [0-9.]*' $shape > $shape.text
done
[ "$(grep -c . slim.text)" -eq 3 ] && cmp -s broad.text slim.text || fail "the shapes of the first figure differ"
[ "$(grep -o 'href="#example-' slim | wc -l)" -ge 3 ] || fail "pictures of the narrow shape"
example=$(cat broad)
left=$(echo "$example" | sed -n 's/.*left out: \([0-9]*\)<.*/\1/p')
apart=$(echo "$example" | sed -n 's/.*pushed apart: \([0-9]*\) .*/\1/p')
[ $((left + apart)) -eq 95 ] || fail "$left left out, $apart pushed apart"
grep -q 'One image compared with 95 others' one.html || fail "how many others"
for what in knn linear fn; do
    grep -q "glofnd eval $what" one.html || fail "how to get what is missing: eval $what"
done

# A run that is named twice is one run; a file among them is none.
expect 0 "run/ is given twice" "$glofnd" report run run/ one.html --quick --out twice.html
wants "a file beside runs" 0 "one.html is a file: it is passed over"
[ "$(grep -c '^run ' out)" -eq 2 ] || fail "a run that is named twice has two rows"
expect 1 "none of these is the folder of a run" "$glofnd" report one.html

# The same again is the same page.
"$glofnd" report run --out again.html > out 2> err || fail "again"
cmp -s one.html again.html || fail "two equal calls differ"

# Evaluated: bars instead of the command.
"$glofnd" eval linear run --data $data --test $data,split=test --fractions 100,50 --epochs 3 > out 2> err || fail "eval linear"
"$glofnd" eval fn run > out 2> err || fail "eval fn"
expect 0 "page" "$glofnd" report run --quick --out quick.html
sed -n '/<figcaption>Linear classifier with few labels</,/<\/figure>/p' quick.html > bars
grep -q '<rect class="f0" x=' bars || fail "bars"
grep -q "Not evaluated yet: <code>glofnd eval linear" quick.html && fail "linear figures are there"
grep -q 'src="data:image' quick.html && fail "--quick has no pictures"
selfcontained quick.html

# Two runs, one with a hostile name and an incomplete, corrupt log; default path of the page.
printf '{"event": "epoch", "epoch": 3, "loss": 1e999, "flag\n\0\377{}\n[]\n{"event": "st' >> "$evil/log.jsonl"
sed -i 's/^arch/# <script>alert(1)<\/script>\narch/' "$evil/config.cfg"
expect 0 "report.html" "$glofnd" report run "./$evil/" --samples 40
selfcontained run/report.html
grep -qF '<b>"x' run/report.html && fail "a name that is not escaped"
grep -qF 'alert(1)' run/report.html && fail "a comment of a configuration"
grep -qF '&lt;b&gt;&quot;x&amp;y&#39;&lt;b&gt;' run/report.html || fail "the escaped name"
grep -q 'No comparison' run/report.html && fail "damaged lines are skipped in the comparison as well"
grep -q '3 unreadable lines' run/report.html || fail "damaged lines are counted"
grep -q "<code>detector</code></th><td><code>glofnd</code></td><td><code>fnc</code>" run/report.html || fail "the difference"

# Of images and captions: both sides, in words that fit.
clip="--task clip --embed-dim 16 --text-width 16 --text-layers 1 --text-heads 2 --context 16 --vocab-merges 200 --loss sogclr2"
train clip $clip --epochs 2 --start-epoch 1 --detector glofnd --lambda-init quantile
expect 0 "retrieval %" "$glofnd" report clip --out clip.html
selfcontained clip.html
grep -q 'class="captions"><p class="caption ' clip.html || fail "captions that are flagged"
for text in "Thresholds of images" "Thresholds of captions" "Images, and captions flagged as matching" \
    "Captions, and images flagged as matching" "glofnd eval retrieval RUN" "λ of the captions"; do
    grep -q "$text" clip.html || fail "\"$text\" in the page of an image-text run"
done
grep -q "two views\|protocol -" clip.html && fail "words that do not fit an image-text run"
for side in image:images text:captions; do              # thresholds of each side, and not of both
    shown=$(grep '"event": "epoch"' clip/log.jsonl | tail -1 | sed "s/.*\"lambda_${side%%:*}\": \([-0-9.e]*\).*/\1/")
    sed -n "/Mean threshold λ of the ${side#*:}</,/<\/figure>/p" clip.html > chart
    grep -q "data-y=\",$(awk -v x="$shown" 'BEGIN { printf "%.6g", x }')\"" chart || fail "lambda $shown of the ${side#*:}"
done
grep -q "eval knn" clip.html && fail "nearest neighbours in the page of an image-text run"

# Beside a run on images: only what both were measured by, in the table, its title and the tile.
"$glofnd" eval knn run > knn 2> err && "$glofnd" eval knn clip >> knn 2> err || fail "eval knn"
top1=$(sed -n 's/^top-1  *\([0-9.]*\) %$/\1/p' knn | awk '{ printf "%.1f ", $1 }')
"$glofnd" eval retrieval clip --data $data,split=test > out 2> err || fail "eval retrieval"
"$glofnd" eval knn run --k 3 --unweighted > out 2> err || fail "eval knn --k 3"
"$glofnd" eval knn run --data shapes:n=40,classes=2,size=16,seed=8 > out 2> err || fail "other data"
expect 0 "knn k 20 top-1 %: data $data, test " "$glofnd" report run clip --quick --out both.html
shown=$(awk '$1 == "run" && $2 == "glofnd" || $1 == "clip" { printf "%s ", $(NF - 1) }' out)
[ "$shown" = "$top1" ] || fail "\"$shown\" are shown instead of \"$top1\""
grep -q "${top1%% *}[^0-9]*%</b><span>of test images are classified correctly by their 20 nearest" both.html || fail "the tile"
grep -q '>knn k 20 top-1 %</th>' both.html || fail "title of the column"
expect 0 "retrieval shapes average %: data $data,split=test" "$glofnd" report clip --quick --out both.html
# A run without that score has none, and no difference.
sed -i '/"event": "knn"/d' clip/eval.jsonl
expect 0 "knn k 20 top-1 %" "$glofnd" report run clip --quick --out both.html
[ "$(awk '$1 == "clip" { print $(NF - 1) $NF }' out)" = "--" ] || fail "a figure of another kind"

# Captions with HTML, and no labels.
"$glofnd" data export shapes:n=20,classes=4,size=16 --folder --out pictures > out 2> err || fail "export"
sed -i '2,$s/ on a / <script>alert(2)<\/script> \&amp; on a /' pictures/captions.csv
labelled=$data data=csv:pictures/captions.csv
train captions $clip --epochs 2 --start-epoch 1 --detector glofnd --lambda-init quantile
data=$labelled
expect 0 "page" "$glofnd" report captions --out captions.html
selfcontained captions.html
grep -qF '<script>alert(2)' captions.html && fail "a caption that is not escaped"
grep -qF '&lt;script&gt;alert(2)&lt;/script&gt; &amp;amp; on a' captions.html || fail "the escaped caption"
grep -q 'class="caption \(yes\|no\)"' captions.html && fail "right and wrong without labels"

# Missing data: the page has a reason instead of images.
expect 0 "no pictures of run" "$glofnd" report run --data folder:gone --out gone.html
grep -q "The network could not be applied:" gone.html || fail "why there are no images"

# Not a run; a run that has not begun.
mkdir empty
expect 1 "is not a run folder" "$glofnd" report empty --out x.html
[ ! -e x.html ] || fail "a page of nothing"
mkdir begun && cp run/config.cfg begun/
expect 0 "page" "$glofnd" report begun --out begun.html
grep -q "is not finished: epoch 0 of 3" begun.html || fail "progress"
expect 2 "glofnd report: RUN is missing" "$glofnd" report
expect 2 "65 arguments are given; expected at most 64 of RUN" "$glofnd" report $(seq 65)
expect 2 "glofnd report: --samples" "$glofnd" report run --samples 1
expect 1 "'gone/x.html' cannot be written" "$glofnd" report run --out gone/x.html
grep -q 'weights of step' err && fail "a page that cannot be written is noticed after the work"

echo "report: all there"
