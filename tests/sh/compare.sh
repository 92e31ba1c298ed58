# glofnd compare on hand-made run folders: groups, formats, messages, exit codes.
. "$2/tests/sh/common.inc"
needs 'JSON lines yes'

# make NAME SEED DETECTOR TOP1
make() {
    mkdir "$1"
    printf 'data = shapes:n=10\nseed = %s\ndetector = %s\n' "$2" "$3" > "$1/config.cfg"
    : > "$1/log.jsonl"
    echo "{\"event\": \"knn\", \"protocol\": \"knn\", \"k\": 20, \"untrained\": false, \"top1\": $4}" > "$1/eval.jsonl"
}
make n1 1 none 0.500; make n2 2 none 0.510; make n3 3 none 0.520
make g1 1 glofnd 0.510; make g2 2 glofnd 0.530; make g3 3 glofnd 0.550

expect 0 "51.00 (1.00)  53.00 (2.00)       +2.00  0.037" "$glofnd" compare n1 n2 n3 g1 g2 g3
grep -q "detector=none  *3 runs  *seeds 1 2 3, baseline" out || fail "groups"
[ ! -s err ] || fail "warnings without a reason"
expect 0 'knn k 20 top-1 %,higher,2,detector=glofnd,3,53,2,3,2,3.464101615,0.0370' "$glofnd" compare --format csv n? g?
expect 0 '\textbf{53.00} (2.00)' "$glofnd" compare --format latex n? g?
expect 0 "6 runs in 2 groups written to file.json" "$glofnd" compare --format json n? g? --out file.json
grep -q '"p": 0.0370' file.json || fail "JSON"
if command -v python3 > /dev/null; then python3 -m json.tool file.json > /dev/null || fail "that is no JSON"; fi

# What there is not enough of is said, and is no failure; what was asked for by name is.
expect 0 "nothing to compare it with" "$glofnd" compare n1
grep -q "50.00" out || fail "one run has its figures"
expect 0 "no partner of seed 3" "$glofnd" compare n1 n2 g1 g2 g3
expect 0 "it counts once" "$glofnd" compare n1 ./n1 g1
cp -r n1 n1copy && expect 0 "both count in the mean" "$glofnd" compare n1 n1copy g1
expect 0 "both count in the mean" "$glofnd" compare n1 n1copy
echo "what a run said" > n1.log
expect 0 "n1.log is a file: it is passed over" "$glofnd" compare n1* g1
grep -q "detector=none  *2 runs" out || fail "a file beside runs"
expect 1 "none of these is the folder of a run" "$glofnd" compare n1.log
expect 1 'has "linear"; there are: knn k 20 top-1 %' "$glofnd" compare n1 g1 --metric linear
expect 0 "knn k 20 top-1 %" "$glofnd" compare n1 g1 --metric kNN
for place in - /dev/stdout; do
    expect 0 'knn k 20 top-1 %,higher,2,' "$glofnd" compare n1 g1 --format csv --out $place
    grep -q "written to" out && fail "a line that is no CSV"
done

# Only like is compared with like: k, votes, test samples. Equal votes of an older version count as such.
cp -r n1 u1; cp -r g1 v1; cp -r g1 k1
knn='{"event": "knn", "protocol": "knn", "untrained": false, "top1": 0.9'
echo "$knn, \"k\": 20, \"temperature\": 0.0}" > u1/eval.jsonl
echo "$knn, \"k\": 20, \"temperature\": 0.07}" > v1/eval.jsonl
echo "$knn, \"k\": 5, \"temperature\": 0.07}" > k1/eval.jsonl
expect 0 "knn-unweighted k 20 top-1 %    90.00        -           -  -" "$glofnd" compare u1 v1
expect 0 "knn k 5 top-1 %         -    90.00           -  -" "$glofnd" compare n1 k1
# So of `eval transfer` the metric; over several datasets that is "several" where each has its own, which older versions did not
# write.
moved() { # RUN METRIC OF_THE_MEAN
    echo '{"event": "transfer", "protocol": "paper", "dataset": "pets", "metric": "'$2'", "score": 0.7}' > $1/eval.jsonl
    echo '{"event": "transfer_mean", "protocol": "paper", '"$3"' "datasets": 2, "score": 0.8}' >> $1/eval.jsonl
}
cp -r n1 a1; cp -r g1 b1; cp -r g1 c1
moved a1 top1 '"metric": "top1",'; moved b1 mean_per_class '"metric": "several",'; moved c1 mean_per_class ''
side_by_side() { "$glofnd" compare "$@" | tr -s ' '; }
expect 0 "transfer paper pets % 70.00 - - -" side_by_side a1 b1
wants "other metrics" 0 "transfer paper pets mean per class % - 70.00 - -" "transfer paper mean top-1 % 80.00 - - -" \
    "transfer paper mean % - 80.00 - -"
sed -i 's/detector = glofnd/detector = fnc/' c1/config.cfg
expect 0 "transfer paper pets mean per class % 70.00 70.00" side_by_side b1 c1
wants "the same metric" 0 "transfer paper mean % 80.00 80.00"
# The best in bold: all equals of it, and nothing that stands alone.
sed 's/detector = glofnd/detector = fnc/' g1/config.cfg > v1/config.cfg; cp g1/eval.jsonl v1/
expect 0 'detector=none & 50.00' "$glofnd" compare n1 g1 v1 --format latex
[ "$(grep -c 'textbf{51.00}' out)" -eq 2 ] || fail "two that are equal"
expect 0 '90.00' "$glofnd" compare u1 v1 --format latex
grep -q 'textbf' out && fail "the only one of its kind is no best one"
rm n1/eval.jsonl n2/eval.jsonl
expect 0 "nothing measured yet" "$glofnd" compare n1 n2

expect 1 "nowhere is not the folder of a run" "$glofnd" compare n1 nowhere
echo rubbish >> g1/eval.jsonl; echo '{}' >> g1/eval.jsonl
expect 0 "1 damaged line is left out, the first in g1/eval.jsonl" "$glofnd" compare g1
grep -q "51.00" out || fail "the other lines count"

# Training went on after an evaluation: it is of other weights; a newer one counts.
make m1 1 none 0.610; make m2 1 glofnd 0.620; make m3 1 glofnd 0.630
echo '{"event": "trained", "step": 8}' >> m2/eval.jsonl
expect 0 "61.00" "$glofnd" compare m1 m2
grep -q "62.00" out && fail "a figure of weights that are no more"
cat m3/eval.jsonl >> m2/eval.jsonl
expect 0 "63.00" "$glofnd" compare m1 m2

expect 2 "it takes text, csv, json or latex" "$glofnd" compare n1 --format xml
expect 2 "glofnd compare: RUN is missing" "$glofnd" compare
