#!/bin/sh
# demo.sh BUILD - shows on real images what GloFND does: Fashion-MNIST of Debian's package dataset-fashion-mnist, or synthetic images if the
# package is missing. It trains three times without labels, with different seeds, and measures how many flagged pairs are false negatives,
# beside FNC's rule on the same networks, and how nearest neighbours improve. Then it searches the whole dataset for near duplicates and
# suspicious labels. Prints a table with all seeds and writes BUILD/demo/index.html. Earlier results are replaced.
#
# DEMO_IMAGES=FOLDER: where the files of Fashion-MNIST are.
set -eu
build=${1:-build}
here=$(dirname "$0")
glofnd=$build/glofnd
out=$build/demo
images=${DEMO_IMAGES:-/usr/share/datasets/fashion-mnist}
config=$here/../configs/demo.cfg
: "${OMP_WAIT_POLICY:=passive}"         # waiting threads leave the cores to the loader
export OMP_WAIT_POLICY

[ -x "$glofnd" ] || { echo "demo: $glofnd is not there; build it first (make glofnd)" >&2; exit 1; }
if ! ls "$images"/train-images-idx3-ubyte* > /dev/null 2>&1; then
    config=$here/../configs/demo-shapes.cfg
    echo "demo: no Fashion-MNIST in $images (Debian: apt-get install dataset-fashion-mnist); taking synthetic images instead" >&2
fi
data=$(sed -n 's/^data *= *//p' "$config")
case $data in
fashion_mnist:*) whole=fashion_mnist:$images data=fashion_mnist:$images?${data#*\?} test=fashion_mnist:$images?split=test thing=shirt ;;
*) whole='' test=$(echo "$data" | sed 's/n=[0-9]*/n=2000/'),split=test thing=star ;;      # nothing to search in
esac
rm -rf "$out"
mkdir -p "$out"
began=$(date +%s)

# say WHAT PERCENT: a headline, with the time that is left if what was done is PERCENT of the whole
say() {
    left=''
    [ "$2" -eq 0 ] || left="; about $((($(date +%s) - began) * (100 - $2) / $2)) s left"
    echo "demo: $1$left" >&2
}
# run SEED
run() {
    "$glofnd" pretrain --config "$config" --data "$data" --seed "$1" --out "$out/seed$1"
    for weights in '' --untrained; do
        "$glofnd" eval knn "$out/seed$1" $weights --test "$test" --quiet > /dev/null 2>> "$out/log.txt"
    done
    "$glofnd" eval fn "$out/seed$1" --quiet > /dev/null 2>> "$out/log.txt"
    "$glofnd" eval threshold "$out/seed$1" --samples 6000 --quiet > /dev/null 2>> "$out/log.txt"
}
say "training 1 of 3 (the whole takes two minutes on two idle cores)" 0
run 1
say "training 2 of 3" 31
run 2
say "training 3 of 3" 62
run 3
if [ -n "$whole" ]; then
    say "searching 70,000 images for near duplicates and suspicious labels" 93
    "$glofnd" discover --split "test=$whole?split=test" --split "train=$whole" --k 10 --dup 0.999 --max-pairs 200000 --html --quiet --out "$out/found" \
        > "$out/found.txt" 2>> "$out/log.txt"
fi
say "writing the page" 98
"$glofnd" report "$out/seed1" "$out/seed2" "$out/seed3" --out "$out/report.html" --quiet > "$out/report.txt" 2>> "$out/log.txt"
"$glofnd" embed "$out/seed1" --head --out "$out/seed1/embeddings.npy" --labels "$out/seed1/labels.npy" --quiet 2>> "$out/log.txt"
page=report.html
for python in python3 /usr/bin/python3; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 7))' 2> /dev/null || continue
    "$python" "$here/demo_page.py" "$glofnd" "$data" "$out" $(($(date +%s) - began)) ${whole:+"$whole"}
    page=index.html
    break
done

# value FILE RECORD KEY: of the newest record whose line has the text RECORD
value() { grep -F "$2" "$1" | tail -n 1 | sed "s/.*\"$3\": \([^,}]*\).*/\1/"; }
row() { # SEED: its line of the table
    file=$out/seed$1/eval.jsonl ours='"pairs": "views", "detector": "glofnd"' fnc='"pairs": "views", "detector": "fnc"'
    awk -v seed="$1" -v flagged="$(value "$file" "$ours" flagged)" -v precision="$(value "$file" "$ours" pooled_precision)" \
        -v recall="$(value "$file" "$ours" pooled_recall)" -v fnc="$(value "$file" "$fnc" pooled_precision)" \
        -v before="$(value "$file" '"untrained": true, "k"' top1)" -v after="$(value "$file" '"untrained": false, "k"' top1)" 'BEGIN {
        random = (recall > 0) ? precision * flagged / recall : 0
        printf "%4d %11.1f %10.1f %12.1f %14.1f %12.1f\n", seed, 100 * precision, 100 * fnc, 100 * random, 100 * before, 100 * after }'
}
cat <<END

              flagged pairs that show                 test images that their
              two of a kind, %                        neighbours classify, %
seed       GloFND        FNC      random         before        after training
END
for seed in 1 2 3; do row $seed; done
cat <<END

Contrastive training pushes different images apart, even two ${thing}s. GloFND learned for every image
which others to spare; FNC spares the most similar ones of each batch. Nobody told them what a $thing
is: labels only counted afterwards. "random" is what guessing would score.
END
[ -z "$whole" ] || sed -n 's/^leaks *\([0-9]* of [0-9]*\) rows of test .*/\nglofnd discover: \1 test images have a near copy in the training set./p' "$out/found.txt"
echo
echo "The same in pictures: open $(cd "$out" && pwd)/$page in a browser"
