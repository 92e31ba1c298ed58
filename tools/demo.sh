#!/bin/sh
# demo.sh BUILD - pretrains on drawn images with GloFND, three times with different seeds, and shows what it does: how many of the
# flagged pairs are false negatives, beside random pairs and beside FNC's rule on the same network, and how near the learned
# thresholds are to the exact ones. Prints one table with all seeds and writes BUILD/demo/report.html. Earlier runs are replaced.
# It is no race for accuracy: at this size detectors do not differ in it by more than seeds do (docs/results.md).
set -eu
build=${1:-build}
glofnd=$build/glofnd
config=${DEMO_CONFIG:-$(dirname "$0")/../configs/demo.cfg}
out=$build/demo
: "${OMP_WAIT_POLICY:=passive}"         # waiting threads leave the cores to the loader
export OMP_WAIT_POLICY

[ -x "$glofnd" ] || { echo "demo: $glofnd is not there; build it first (make)" >&2; exit 1; }
data=$(sed -n 's/^data *= *//p' "$config")
test=$(echo "$data" | sed 's/n=[0-9]*/n=2000/'),split=test
mkdir -p "$out"

# run SEED
run() {
    echo "$1/3 seed $1" >&2
    rm -rf "${out:?}/seed$1"
    "$glofnd" pretrain --config "$config" --detector glofnd --seed "$1" --out "$out/seed$1"
    "$glofnd" eval knn "$out/seed$1" --test "$test" --quiet > /dev/null
    "$glofnd" eval fn "$out/seed$1" --quiet > /dev/null
    "$glofnd" eval threshold "$out/seed$1" --samples 20000 --anchors 2000 --quiet > /dev/null
}
for seed in 1 2 3; do run $seed; done
"$glofnd" eval knn "$out/seed1" --untrained --test "$test" --quiet > /dev/null

# value FILE RECORD KEY: of the newest record whose line has the text RECORD
value() { grep -F "$2" "$1" | tail -n 1 | sed "s/.*\"$3\": \([^,}]*\).*/\1/"; }
row() { # SEED: its line of the table
    file=$out/seed$1/eval.jsonl ours='"pairs": "views", "detector": "glofnd"' fnc='"pairs": "views", "detector": "fnc"'
    awk -v seed="$1" -v flagged="$(value "$file" "$ours" flagged)" -v precision="$(value "$file" "$ours" pooled_precision)" \
        -v recall="$(value "$file" "$ours" pooled_recall)" -v fnc="$(value "$file" "$fnc" pooled_precision)" \
        -v mae="$(value "$file" '"event": "threshold"' mae)" -v fnc_mae="$(value "$file" '"event": "threshold"' fnc_mae)" \
        -v knn="$(value "$file" '"untrained": false, "k"' top1)" 'BEGIN {
        chance = (recall > 0) ? precision * flagged / recall : 0
        ratio = (chance > 0) ? precision / chance : 0
        printf "%4d %9.2f %10.1f %7.1f %6.1fx %10.1f %9.3f %9.3f %8.1f\n", seed, 100 * flagged, 100 * precision, 100 * chance,
            ratio, 100 * fnc, mae, fnc_mae, 100 * knn }'
}
"$glofnd" report "$out/seed1" "$out/seed2" "$out/seed3" --out "$out/report.html" --quiet > "$out/report.txt"
cat <<END

              same class among flagged pairs, %     error of threshold
seed flagged %     GloFND  random  ratio        FNC    GloFND       FNC    kNN %
END
for seed in 1 2 3; do row $seed; done
untrained=$(value "$out/seed1/eval.jsonl" '"untrained": true' top1 | awk '{ printf "%.1f", 100 * $1 }')
cat <<END

Labels only judge here; training never saw them. "random": what pairs drawn at random would score.
FNC: its rule, a quantile of each batch, on the same networks. Error: mean distance of a threshold to
the exact one over the data. kNN: test images that their nearest training images classify; $untrained %
before training. Other detectors, and none, come to the same accuracy at this size (docs/results.md).

What was found, in pictures: open $(cd "$out" && pwd)/report.html in a browser
END
