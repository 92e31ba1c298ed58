#!/bin/sh
# demo_clip.sh BUILD - trains on drawn images and their captions three times (SogCLR, with FNC, with GloFND; same seed), looks for
# the image of every caption and a caption of every image among 500 new ones, prints one
# table and writes BUILD/demo-clip/report.html, a page that shows what was found. Earlier runs of it are replaced.
set -eu
build=${1:-build}
glofnd=$build/glofnd
config=$(dirname "$0")/../configs/demo-clip.cfg
out=$build/demo-clip
: "${OMP_WAIT_POLICY:=passive}"         # waiting threads leave the cores to the loader
export OMP_WAIT_POLICY

[ -x "$glofnd" ] || { echo "demo-clip: $glofnd is not there; build it first (make)" >&2; exit 1; }
data=$(sed -n 's/^data *= *//p' "$config")
test=$(echo "$data" | sed 's/n=[0-9]*/n=500/'),split=test
mkdir -p "$out"
rows=$out/rows.txt
: > "$rows"

# measure NAME RUN [FLAG]: the numbers of `eval retrieval` as a row
measure() {
    "$glofnd" eval retrieval "$2" --data "$test" ${3+"$3"} > "$out/retrieval.txt"
    awk -v name="$1" '/^IR/ {ir = $(NF-3) "|" $(NF-2) "|" $(NF-1)} /^TR/ {tr = $(NF-3) "|" $(NF-2) "|" $(NF-1)}
        /^average/ {mean = $NF}
        END {print name "|" ir "|" tr "|" mean}' "$out/retrieval.txt" >> "$rows"
}

# train NAME DETECTOR NUMBER
train() {
    echo "$3/3 $1" >&2
    rm -rf "${out:?}/$1"
    "$glofnd" pretrain --config "$config" --detector "$2" --out "$out/$1"
    [ "$3" != 1 ] || measure untrained "$out/$1" --untrained
    measure "$1" "$out/$1"
}

train sogclr none 1
train sogclr+fnc fnc 2
train sogclr+glofnd glofnd 3

echo
echo "Recall in %: the image of a caption among 500 (IR), a caption of an image among 2000 (TR)"
awk -F'|' 'BEGIN {printf "%-16s%8s%8s%8s%8s%8s%8s%10s\n", "run", "IR@1", "IR@5", "IR@10", "TR@1", "TR@5", "TR@10", "average"}
    {printf "%-16s%8s%8s%8s%8s%8s%8s%10s\n", $1, $2, $3, $4, $5, $6, $7, $8}' "$rows"

"$glofnd" eval fn "$out/sogclr+glofnd" > /dev/null
"$glofnd" report "$out/sogclr" "$out/sogclr+fnc" "$out/sogclr+glofnd" --out "$out/report.html" > /dev/null
echo
echo "Captions and images that were found to fit: open $(cd "$out" && pwd)/report.html in a browser"
