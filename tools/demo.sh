#!/bin/sh
# demo.sh BUILD - pretrains on drawn images three times (SogCLR, with FNC, with GloFND; same seed), evaluates each and the
# untrained network by nearest neighbours, a linear classifier on few labels and the detection, prints one table and writes
# BUILD/demo/report.html, a page that shows what was found. Earlier runs of it are replaced.
set -eu
build=${1:-build}
glofnd=$build/glofnd
config=$(dirname "$0")/../configs/demo.cfg
out=$build/demo
: "${OMP_WAIT_POLICY:=passive}"         # waiting threads leave the cores to the loader
export OMP_WAIT_POLICY

[ -x "$glofnd" ] || { echo "demo: $glofnd is not there; build it first (make)" >&2; exit 1; }
data=$(sed -n 's/^data *= *//p' "$config")
test=$(echo "$data" | sed 's/n=[0-9]*/n=2000/'),split=test
mkdir -p "$out"

# train NAME DETECTOR NUMBER
train() {
    echo "$3/3 $1" >&2
    rm -rf "${out:?}/$1"
    "$glofnd" pretrain --config "$config" --detector "$2" --out "$out/$1"
    "$glofnd" eval knn "$out/$1" --data "$data" --test "$test" > /dev/null
    "$glofnd" eval linear "$out/$1" --data "$data" --test "$test" --fractions 100,10,1 > /dev/null
}

train sogclr none 1
"$glofnd" eval knn "$out/sogclr" --untrained --data "$data" --test "$test" > /dev/null
train sogclr+fnc fnc 2
train sogclr+glofnd glofnd 3
"$glofnd" eval fn "$out/sogclr+glofnd" > /dev/null

echo
"$glofnd" report "$out/sogclr" "$out/sogclr+fnc" "$out/sogclr+glofnd" --out "$out/report.html"
echo
echo "What GloFND found and did, in pictures: open $(cd "$out" && pwd)/report.html in a browser"
