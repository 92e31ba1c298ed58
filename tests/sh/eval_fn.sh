# glofnd eval fn and eval threshold on tiny runs: tables, records, files, what is skipped, messages and exit codes.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
data=shapes:n=96,classes=4,size=16,seed=3

train run --epochs 3 --lambda-init quantile --start-epoch 1
train late --epochs 3 --detector none

# Eleven detectors and kinds of pairs, the same in equal calls; epochs of the log from the start of the detector on.
expect 0 "augmented views, in batches" "$glofnd" eval fn run
[ "$(grep -c '"event": "fn"' run/eval.jsonl)" -eq 11 ] || fail "records"
grep -q "^images as they are, all pairs *glofnd " out || fail "glofnd over all pairs"
grep -q "^images as they are, all pairs *fnc " out && fail "fnc has no batch there"
[ "$(grep -oE '^[0-9]+ ' out | tr -d '\n')" = "2 3 " ] || fail "epochs 2 and 3 of 3 have flags"
grep -q "^training .* compared with labels, from log.jsonl" out || fail "what the epochs are judged by"
cp -r run cut && sed -i '/"event": "epoch".*"epoch": 1,/d' cut/log.jsonl
expect 0 "training" "$glofnd" eval fn cut
[ "$(grep -oE '^[0-9]+ ' out | tr -d '\n')" = "3 " ] || fail "an epoch is lost, the other keeps its number"
mv run/eval.jsonl first && "$glofnd" eval fn run > again 2> err
cmp -s run/eval.jsonl first || fail "two equal calls differ"
expect 0 "alpha 0.1" "$glofnd" eval fn run --alpha 0.1 --samples 40 --detector fnc
grep -q " exact " out && fail "--detector"
[ "$(tail -n +12 run/eval.jsonl | grep -c '"detector": "fnc"')" -eq 2 ] || fail "fnc is recorded"
[ "$(wc -l < run/eval.jsonl)" -eq 13 ] || fail "what was not asked for is not recorded"
# Another share and fewer samples are other figures; learned thresholds know no share.
grep -q '"detector": "fnc", "alpha": 0.1, .*"samples": 40, ' run/eval.jsonl || fail "the number that was asked for"
expect 0 "fn views fnc F1 % (alpha 0.1)" "$glofnd" compare run --all
wants "all of them" 0 "fn views fnc F1 % (alpha 0.25)" "fn views glofnd F1 % "

# The exact quantile flags its share of all pairs, one short: 23 of 95 with alpha 0.25.
grep '"protocol": "dataset exact"' first | grep -q '"flagged": 0.2421' || fail "share of the exact quantile"

expect 0 "glofnd is skipped" "$glofnd" eval fn late
grep -q "^augmented views, in batches *fnc " out || fail "the others remain"
expect 1 "no learned thresholds" "$glofnd" eval fn late --detector glofnd
expect 1 "is not a run folder" "$glofnd" eval fn nowhere
expect 2 "expected one of glofnd|exact|single|fnc" "$glofnd" eval fn run --detector best
expect 2 "in (0, 1)" "$glofnd" eval fn run --alpha 1
expect 2 "--help explains" "$glofnd" eval fn
"$glofnd" data export $data --out flat --folder > out 2> err || fail "export"
mkdir plain && find flat -name '*.png' -exec sh -c 'mv "$1" "plain/$(basename "$(dirname "$1")")-$(basename "$1")"' _ {} \;
expect 1 "has no labels" "$glofnd" eval fn late --data folder:plain

# Thresholds: against augmented views and against the images themselves; a row per anchor.
expect 0 "MAE" "$glofnd" eval threshold run --samples 400 --fnc-batch 16
grep -q "^learned  *96 " out || fail "learned thresholds"
grep -q "^FNC, 20 batches of 16  *3840 " out || fail "thresholds of FNC"
[ "$(wc -l < run/thresholds.tsv)" -eq 97 ] || fail "thresholds.tsv"
head -c 128 run/thresholds.npy | grep -aq "'<f8'.*(96, 6)" || fail "thresholds.npy"
tail -n +2 run/thresholds.tsv | cut -f1 | sort -nc || fail "thresholds in the order of the data"
# The fifth column of both, as NumPy would read it.
tail -c +129 run/thresholds.npy | od -An -v -t f8 -w48 | awk '{ print $1, $5 }' > npy
tail -n +2 run/thresholds.tsv | cut -f 1,5 | paste -d ' ' npy - | awk '
    { off = $2 - $4; if (NF != 4 || $1 != $3 || off > 2e-6 || off < -2e-6) bad++ }        # one has fewer digits
    END { exit bad > 0 || NR != 96 }' || fail "two files of one table"
grep -q "</svg>" run/thresholds.svg || fail "thresholds.svg"
grep -q '"event": "threshold", "protocol": "views"' run/eval.jsonl || fail "record"
expect 0 "96 images as they are" "$glofnd" eval threshold run --plain --anchors 50 --out there
[ "$(wc -l < there/thresholds.tsv)" -eq 51 ] || fail "--anchors"
for what in fn threshold; do expect 2 "--data is empty" "$glofnd" eval $what run --data ''; done
# A folder that cannot be written to is reported before the work.
for pair in "run/config.cfg|run/config.cfg" "nowhere/x|nowhere/x cannot be made"; do
    expect 1 "${pair#*|}" "$glofnd" eval threshold run --plain --out "${pair%|*}"
    [ ! -s out ] || fail "--out ${pair%|*} is noticed after the work"
done
# What was found is said also where it cannot be written.
mkdir -p taken/thresholds.tsv
expect 1 "taken/thresholds.tsv" "$glofnd" eval threshold run --plain --out taken
grep -q "^learned  *96 " out && ! grep -q "^files " out || fail "a result that is lost"
expect 0 "learned ones are skipped" "$glofnd" eval threshold late --plain
awk -F'\t' 'NR > 1 && ($3 != "" || $4 == "") { exit 1 }' late/thresholds.tsv || fail "no thresholds of a run without detector"
expect 1 "not a run folder" "$glofnd" eval threshold nowhere
expect 2 "an integer" "$glofnd" eval threshold run --fnc-draws 0

# Several draws of views: the optimum is their mean, against the same pool; parts of the error add up.
number() { sed -n "\$s/.*\"$1\": \([^,}]*\).*/\1/p" run/eval.jsonl; }
expect 0 "learned" "$glofnd" eval threshold run --samples 400 --out one
grep -q '"draws"' run/eval.jsonl && fail "a record of one draw is as before"
expect 0 "mean over 4 draws" "$glofnd" eval threshold run --samples 400 --draws 4 --out four
grep -q "^floor  *MAE" out && grep -q "^one draw  learned: MAE" out || fail "floor of several draws"
awk -F'\t' -v mae="$(number mae)" 'NR > 1 { d = $3 - $4; sum += d < 0 ? -d : d; n++ }
    END { d = sum / n - mae; exit n != 96 || d > 1e-6 || d < -1e-6 }' four/thresholds.tsv || fail "error against the mean"
awk -v b="$(number bias)" -v s="$(number spread)" -v e="$(number noise)" -v r="$(number one_rmse)" 'BEGIN {
    d = b * b + s * s + e * e - r * r; exit !(s > 0 && d < 1e-7 && d > -1e-7) }' || fail "parts of the error"
# One draw of them is that of a call without: its distance from the mean of four is what draws differ by.
paste one/thresholds.tsv four/thresholds.tsv | awk -F'\t' -v noise="$(number noise)" 'NR > 1 { d = $4 - $10; sum += d * d; n++ }
    END { ratio = sqrt(sum / n / 0.75) / noise; exit !(n == 96 && ratio > 0.8 && ratio < 1.25) }' || fail "draws of one noise"
expect 2 "--draws is for augmented views" "$glofnd" eval threshold run --plain --draws 4
expect 0 "floor " "$glofnd" eval threshold late --samples 400 --draws 2
grep -q "^one draw" out && fail "no learned thresholds"

# Without --samples: 100000 views, or 50 of each image. How many there will be is said before.
expect 0 "4800 augmented views of 96 images to encode" "$glofnd" eval threshold run
grep -q "similarities to 4800 augmented views" out || fail "views of a small dataset"

# ----- thresholds and whose they are -----
# Other data is refused, before anything is encoded, said or recorded; a run that learned no thresholds takes any.
before=$(print_of run)
for spec in shapes:n=64,classes=4,size=16,seed=3 shapes:n=96,classes=4,size=16,seed=4; do
    expect 1 "thresholds of 96 samples" "$glofnd" eval fn run --data $spec
    expect 1 "give the data it was trained on" "$glofnd" eval threshold run --data $spec
    expect 0 "no pictures of run" "$glofnd" report run --data $spec --out page.html
done
# Drawn images are called by seed and number: what else the SPEC says counts, too.
expect 1 "has different pictures from $data" "$glofnd" eval fn run --data shapes:n=96,classes=8,size=16,seed=3
expect 1 "has different pictures from $data" "$glofnd" eval threshold run --data shapes:n=96,classes=4,size=32,seed=3
expect 1 "has different pictures from $data" "$glofnd" pretrain --out run --resume --epochs 4 \
    --data shapes:n=96,classes=8,size=16,seed=3
[ "$before" = "$(print_of run)" ] || fail "refused, and yet something was written"
expect 0 "learned  " "$glofnd" eval threshold run --plain --data shapes:seed=3,n=96,size=16,classes=4
expect 0 "64 samples" "$glofnd" eval fn late --data shapes:n=64,classes=4,size=16,seed=3

# In another order every threshold goes with its image, by name.
"$glofnd" data export $data --out fo --folder > out 2> err || fail "export"
(cd fo && ls -d */*.png | awk '{ print $0 "\t" substr($0, 1, 7) + 0 }') > fo/same.tsv
awk '{ print NR * 37 % 97 "\t" $0 }' fo/same.tsv | sort -n | cut -f 2- > fo/mixed.tsv
cmp -s fo/same.tsv fo/mixed.tsv && fail "the order is the same"
data=list:fo/same.tsv
train files --epochs 2 --lambda-init quantile --start-epoch 1
numbers() { grep -E "^(images as they are, all pairs +glofnd|learned|optimum) " "$1" | grep -v alpha; }
for verb in "fn files" "threshold files --plain"; do
    call "$glofnd" eval $verb && mv out same
    expect 0 "mixed.tsv" "$glofnd" eval $verb --data list:fo/mixed.tsv
    numbers same > a
    numbers out > b
    [ -s a ] && cmp a b || fail "eval $verb in another order: $(cat a b)"
done
# One that is gone, though the number is right; names that occur more than once.
sed '$d' fo/same.tsv > fo/odd.tsv && cp "fo/$(tail -n 1 fo/same.tsv | cut -f 1)" fo/new.png && printf 'new.png\t0\n' >> fo/odd.tsv
expect 1 "95 of them are in this data and 1 are missing, and 1 here have none" \
    "$glofnd" eval threshold files --data list:fo/odd.tsv
mv fo/same.tsv fo/away.tsv && mv fo/odd.tsv fo/same.tsv
expect 1 "95 of them are in this data" "$glofnd" eval fn files

# Weights that are not numbers, in a model without a checksum: what it may be, and what helps.
cp -r run broken
rm -r broken/checkpoints
LC_ALL=C sed 's/glofnd_checksum/another_texture/' run/model.safetensors > broken/model.safetensors
bytes=$(wc -c < broken/model.safetensors)
printf '\000\000\300\177' | dd of=broken/model.safetensors bs=1 seek=$((bytes - 4)) conv=notrunc 2> /dev/null
expect 1 "training diverged (try a smaller --lr), or the file is corrupt" "$glofnd" eval fn broken
expect 0 "it has no checksum, so its weights cannot be checked" "$glofnd" eval knn broken

expect 0 "fn views glofnd F1 %" "$glofnd" compare run late --all
expect 0 "threshold views MAE" "$glofnd" compare run late
exit 0
