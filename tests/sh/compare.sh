# glofnd compare on hand-made run folders: groups, formats, messages, exit codes.
. "$2/tests/sh/common.inc"

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

# A key without effect names a group only where nothing else does.
cp -r n1 s1; echo "learner = sgd" >> s1/config.cfg
expect 0 "detector=none learner=sgd" "$glofnd" compare n1 s1 g1
! grep -q "group 1  *group 1" out || fail "a group without a name"
expect 0 "learner=auto  " "$glofnd" compare n1 s1
cp -r g1 t1; echo "learner = sgd" >> t1/config.cfg
expect 0 "detector=none  " "$glofnd" compare n1 g1 t1

# Names that are too long are cut between characters, whatever they begin with: of fields, datasets, values of the configuration.
make u1 1 none 0.5; make u2 1 none 0.5
long=$(printf 'é%.0s' $(seq 60))
for lead in "" a; do
    echo "{\"event\": \"knn\", \"protocol\": \"knn\", \"k\": 20, \"dataset\": \"$lead$long\", \"$lead$long\": 1, \"top1\": 0.5}"
    echo "{\"event\": \"knn\", \"protocol\": \"knn\", \"k\": 20, \"dataset\": \"$lead$long\", \"top1\": 0.5}"
done > u1/eval.jsonl
for lead in "" a; do
    echo "data = folder:$lead$long" >> u2/config.cfg
    for format in text csv json; do
        expect 0 "éééé" "$glofnd" compare --format $format --all u1 u2
        if command -v iconv > /dev/null; then iconv -f utf-8 -t utf-8 out > /dev/null || fail "$format: half a character"; fi
    done
done

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
# So of all else that a figure depends on: every field that is not measured counts, and names say in which they differ. Order in
# a list does not matter, nor do times and what is found.
cp -r n1 d1; cp -r g1 e1
of() { # RUN FIELDS...: a line of eval.jsonl
    run=$1
    shift
    echo "{$*}" > $run/eval.jsonl
}
apart() { # FIELDS OF_ONE OF_OTHER NAME_OF_ONE NAME_OF_OTHER
    of d1 "$1, $2"
    of e1 "$1, $3"
    expect 0 "$4 70.00 - - -" side_by_side d1 e1 --all
    wants "$4" 0 "$5 - 70.00 - -"
    of e1 "\"time_s\": 3, \"epochs_run\": 7, \"learned\": 5, $2, $1"
    expect 0 " 70.00 70.00 0.00" side_by_side d1 e1 --all
}
mean='"event": "linear_mean", "protocol": "paper", "data": "d", "test": "t", "seed": 1, "top1": 0.7'
apart "$mean" '"fractions": [1, 0.1]' '"fractions": [0.5]' "linear paper mean top-1 % (fractions 0.1, 1)" \
    "linear paper mean top-1 % (fractions 0.5)"
of d1 "$mean, \"fractions\": [1.0, 0.1]"; of e1 "$mean, \"fractions\": [0.1, 1]"
expect 0 "linear paper mean top-1 % 70.00 70.00" side_by_side d1 e1
apart '"event": "linear", "protocol": "paper", "fraction": 0.1, "top1": 0.7' '"seed": 1' '"seed": 2' \
    "linear paper 10 % top-1 % (seed 1)" "linear paper 10 % top-1 % (seed 2)"
apart '"event": "linear", "protocol": "p-validated", "fraction": 1, "top1": 0.7' '"validation": 0.1' '"validation": 0.2' \
    "linear p-validated 100 % top-1 % (validation 0.1)" "linear p-validated 100 % top-1 % (validation 0.2)"
apart '"event": "transfer_mean", "protocol": "raw", "metric": "top1", "data": "several", "test": "several", "score": 0.7' \
    '"datasets": 2, "names": ["a", "b"], "sets": ["a=B top1", "b=C top1"]' \
    '"datasets": 2, "names": ["a", "d"], "sets": ["a=C top1", "d=D top1"]' \
    "transfer raw mean top-1 % (names a, b)" "transfer raw mean top-1 % (names a, d)"
apart '"event": "transfer_mean", "protocol": "raw", "data": "several", "test": "several", "score": 0.7' \
    '"datasets": 2, "names": ["a"], "sets": ["a=B"]' '"datasets": 2, "names": ["a"], "sets": ["a=C"]' \
    "transfer raw mean % (sets a=B)" "transfer raw mean % (sets a=C)"
apart '"event": "zeroshot", "protocol": "t.txt", "dataset": "k", "classes": 4, "top1": 0.7' \
    '"classes_sum": "1", "templates_sum": "3"' '"classes_sum": "2", "templates_sum": "3"' \
    "zeroshot t.txt k top-1 % (classes_sum 1)" "zeroshot t.txt k top-1 % (classes_sum 2)"
apart '"event": "zeroshot_mean", "protocol": "t.txt", "score": 0.7' '"datasets": 2' '"datasets": 3' \
    "zeroshot t.txt mean % (datasets 2)" "zeroshot t.txt mean % (datasets 3)"
fn='"event": "fn", "protocol": "views exact", "pairs": "views", "detector": "exact", "pooled_recall": 0.7'
apart "$fn" '"alpha": 0.3, "samples": 96, "anchors": 96' '"alpha": 0.05, "samples": 96, "anchors": 96' \
    "fn views exact recall % (alpha 0.3)" "fn views exact recall % (alpha 0.05)"
apart "$fn" '"alpha": 0.3, "samples": 96, "anchors": 95' '"alpha": 0.3, "samples": 50, "anchors": 50' \
    "fn views exact recall % (samples 96)" "fn views exact recall % (samples 50)"
apart "$fn" '"alpha": 0.3, "anchors": 96' '"alpha": 0.3, "anchors": 50' \
    "fn views exact recall % (anchors 96)" "fn views exact recall % (anchors 50)"
for pair in alpha,0.3,0.05 fnc_batch,128,16 anchors,96,50; do
    key=${pair%%,*} one=${pair#*,}
    of d1 '"event": "threshold", "protocol": "views", "mae": 0.1, "'$key'": '${one%,*}
    of e1 '"event": "threshold", "protocol": "views", "mae": 0.1, "'$key'": '${one#*,}
    expect 0 "threshold views MAE ($key ${one%,*}) 0.1000 - - -" side_by_side d1 e1
done
# Learned thresholds know no alpha; of samples asked for, damaged ones may be missing.
fn='"event": "fn", "protocol": "views glofnd", "pairs": "views", "detector": "glofnd", "pooled_recall": 0.7, "samples": 96'
of d1 "$fn, \"alpha\": 0.3, \"anchors\": 96"; of e1 "$fn, \"alpha\": 0.1, \"anchors\": 95"
expect 0 "fn views glofnd recall % 70.00 70.00" side_by_side d1 e1 --all
# Lines of an older version compare with each other, and not with newer ones, which know more.
old='"event": "transfer_mean", "protocol": "raw", "data": "several", "test": "several", "datasets": 2'
of d1 "$old, \"score\": 0.7"; of e1 "$old, \"score\": 0.8"
expect 0 "transfer raw mean % 70.00 80.00 +10.00" side_by_side d1 e1
of e1 "$old, \"names\": [\"a\", \"b\"], \"score\": 0.8"
expect 0 "transfer raw mean % (names not recorded) 70.00 - - -" side_by_side d1 e1
wants "a newer line" 0 "transfer raw mean % (names a, b) - 80.00 - -"
# Long values are cut in names, which still differ.
long=$(printf 'x%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30)
long=$long$long$long$long$long$long$long$long$long$long$long$long$long$long$long
knn='"event": "knn", "protocol": "knn", "top1": 0.7, "test": "t"'
of d1 "$knn, \"data\": \"${long}1$long\""; of e1 "$knn, \"data\": \"${long}2$long\""
expect 0 "knn top-1 % (data xxxxxxxx" side_by_side d1 e1 --format csv
[ "$(grep -o '#[0-9a-f]\{8\}' out | sort -u | wc -l)" -eq 2 ] || fail "long values"
# The last epoch of a log is judged by the run's own samples, in its own batches.
rm d1/eval.jsonl e1/eval.jsonl
cp -r e1 f1
for run in d1 e1 f1; do
    echo '{"event": "epoch", "pooled_precision": 0.7, "pooled_recall": 0.7, "pooled_f1": 0.7}' > $run/log.jsonl
done
sed -i 's/none/fnc/' d1/config.cfg
expect 0 "last epoch F1 % 70.00 70.00" side_by_side d1 e1
sed -i 's/^data = .*/data = shapes:n=20/' e1/config.cfg; echo 'batch = 32' >> f1/config.cfg
expect 0 "last epoch F1 % (data shapes:n=10) 70.00 - - -" side_by_side d1 e1
wants "other data" 0 "last epoch F1 % (data shapes:n=20) - 70.00 - -"
expect 0 "last epoch F1 % (batch 32) - 70.00 - -" side_by_side d1 f1
# The best in bold: all equals of it, and nothing that stands alone.
sed 's/detector = glofnd/detector = fnc/' g1/config.cfg > v1/config.cfg; cp g1/eval.jsonl v1/
expect 0 'detector=none & 50.00' "$glofnd" compare n1 g1 v1 --format latex
[ "$(grep -c 'textbf{51.00}' out)" -eq 2 ] || fail "two that are equal"
expect 0 '90.00' "$glofnd" compare u1 v1 --format latex
grep -q 'textbf' out && fail "the only one of its kind is no best one"
rm n1/eval.jsonl n2/eval.jsonl
expect 0 "nothing measured yet" "$glofnd" compare n1 n2

expect 1 "nowhere is not a run folder" "$glofnd" compare n1 nowhere
echo rubbish >> g1/eval.jsonl; echo '{}' >> g1/eval.jsonl
expect 0 "1 unreadable line is left out, the first in g1/eval.jsonl" "$glofnd" compare g1
grep -q "51.00" out || fail "the other lines count"

# Training went on after an evaluation: it is of other weights; a newer one counts.
make m1 1 none 0.610; make m2 1 glofnd 0.620; make m3 1 glofnd 0.630
echo '{"event": "trained", "step": 8}' >> m2/eval.jsonl
expect 0 "61.00" "$glofnd" compare m1 m2
grep -q "62.00" out && fail "a figure of weights that are no more"
cat m3/eval.jsonl >> m2/eval.jsonl
expect 0 "63.00" "$glofnd" compare m1 m2

expect 2 "expected one of text|csv|json|latex" "$glofnd" compare n1 --format xml
expect 2 "glofnd compare: RUN is missing" "$glofnd" compare

# What a kill leaves is removed by the next writing of that file: not that of a process that lives, or of another file.
: > t.json.tmp-999999999-0
: > t.json.tmp-$$-0
: > t.json.tmp-copy
: > t.json2.tmp-999999999-0
mkdir t.json.tmp-999999999-1
expect 0 "written to t.json" "$glofnd" compare m1 m2 --format json --out t.json
stay="t.json t.json.tmp-$$-0 t.json.tmp-999999999-1 t.json.tmp-copy t.json2.tmp-999999999-0 "
[ "$(LC_ALL=C ls -d t.json* | tr '\n' ' ')" = "$stay" ] || fail "leftovers: $(ls -d t.json*)"
expect 0 "written to ./t.json2" "$glofnd" compare m1 m2 --format json --out ./t.json2
[ ! -e t.json2.tmp-999999999-0 ] || fail "leftovers of a path with a folder"
shim=$build/tests/hostile_shim.so
[ -e "$shim" ] || exit 0
mkdir killed
killed() {
    (export LD_PRELOAD="$shim" HOSTILE_DO=kill HOSTILE_AT=1 HOSTILE_ONLY="$1" HOSTILE_UNDER="$PWD/killed" &&
        exec "$glofnd" compare m1 m2 --format json --out killed/t.json)
}
for when in write fsync rename; do
    call killed $when
    [ $code = 137 ] && ls killed | grep -q '^t.json.tmp-' || fail "not killed at $when: $code, $(ls killed)"
    [ "$(ls killed | wc -l)" -eq 1 ] || fail "leftovers of earlier kills: $(ls killed)"
done
expect 0 "written to killed/t.json" "$glofnd" compare m1 m2 --format json --out killed/t.json
[ "$(ls killed)" = t.json ] || fail "leftovers of a kill: $(ls killed)"
