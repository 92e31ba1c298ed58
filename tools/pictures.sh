#!/bin/sh
# pictures.sh BUILD [NAME...] - draws the pictures of docs/img from files of the repository and from Fashion-MNIST, which `make demo` installs:
#   accuracy.svg, differences.svg   from tables of the repository
#   thresholds.svg                  from what the example 02_step prints
#   threshold.svg                   an animation, from a training of a minute
#   flagged.png, report.png         from the pages of `make demo`, which must have run; needs Chromium
# discover.png and cifar100-duplicates.png need CIFAR-100: tools/page_picture.sh and tools/duplicates_picture.py have the commands.
set -eu
[ $# -ge 1 ] || { echo "usage: pictures.sh BUILD [NAME...]" >&2; exit 2; }
cd "$(dirname "$0")/.."
build=$1 img=docs/img
shift
[ $# -gt 0 ] || set -- accuracy differences thresholds threshold flagged report
for name in "$@"; do
    case $name in
    accuracy) python3 tools/plot_accuracy.py < research/2026-11/results.md > $img/accuracy.svg ;;
    differences) python3 tools/plot_differences.py < $img/differences.tsv > $img/differences.svg ;;
    thresholds) "$build/examples/02_step" | python3 tools/plot_thresholds.py > $img/thresholds.svg ;;
    threshold)
        rm -rf "$build/threshold"
        python3 tools/threshold_animation.py "$build/glofnd" configs/demo.cfg "$build/threshold" $img/threshold.svg
        ;;
    flagged)
        awk '!body || /^<div class="flags">/ { print } /<main>/ { body = 1 }' "$build/demo/index.html" > "$build/demo/flagged.html"
        tools/page_picture.sh "$build/demo/flagged.html" $img/flagged.png 1092,910
        rm "$build/demo/flagged.html"
        ;;
    report) tools/page_picture.sh "$build/demo/report.html" $img/report.png 1240,724 ;;
    *) echo "pictures.sh: no picture $name" >&2; exit 2 ;;
    esac
    echo "$img: $name"
done
